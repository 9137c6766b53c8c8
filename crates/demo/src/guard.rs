//! A guard in front of some agents' tools: what really went through it has a receipt, what was made up has none.
//!
//! Its log is a ledger of its own, signed by the provider that runs it. Now and then it hands its newest checkpoint and receipts
//! to the authority, with their salts, so that anyone with a claim can check it there.

use std::path::Path;

use credence_ledger::{
    Checkpoint, Entry, Hash, Kind, Ledger, LogKey, NewEntry, OutsideCheckpoint, SqliteLedger, proof,
    sqlite::{Clock, Options, Sealing},
    write,
};
use credence_pipeline::receipts::{Batch, Sent};
use credence_protocol::{
    EntityId, SecretKey, Timestamp, Uuid,
    receipt::{CallOutcome, Exact, Receipt, Salts, Views, forms_of_result},
};
use credence_verify::Verdict;
use data_encoding::BASE64;

use crate::{Error, world::AgentCall};

/// The agents whose tools it stands in front of: one that is honest, and one that is not.
pub(crate) const GUARDED: [&str; 2] = ["atlas-travel", "marlow-research"];
/// The name of the tool server, as the guard knows it.
const SERVER: &str = "demo-tools";

pub(crate) struct Guard {
    provider: EntityId,
    log: String,
    ledger: SqliteLedger,
    /// Entries of the log that the authority has seen.
    seen: u64,
    /// Receipts that it has not, with their salts.
    waiting: Vec<(u64, Salts)>,
}

impl Guard {
    /// A guard of `provider`, its log in `folder`.
    pub(crate) fn new(folder: &Path, provider: EntityId, key: &SecretKey, clock: Clock) -> Result<Self, Error> {
        std::fs::create_dir_all(folder)?;
        let log = format!("{provider}/guard/{SERVER}/1/1");
        let options = Options {
            path: folder.join("receipts.db"),
            tables: &[],
            outside: OutsideCheckpoint::at(folder.join("checkpoint")),
            sealing: Sealing::Volatile,
        };
        let ledger = SqliteLedger::create(options, LogKey::new(&log, key)?, clock)?;
        Ok(Self { provider, log, ledger, seen: 0, waiting: Vec::new() })
    }

    /// Writes the receipt of a call that went through it.
    pub(crate) fn record(&mut self, made: &AgentCall, verdict: &Verdict, at: Timestamp) -> Result<(), Error> {
        let salts = Salts::generate()?;
        let (args, result) = (made.call.args.to_string(), made.call.result.to_string());
        let agent = EntityId::new(made.agent)?;
        let receipt = Receipt {
            agent: Some(agent.clone()),
            arguments: salts.arguments(Some(&Exact::parse(&args)?)),
            call: Uuid::now_v7(),
            client: Some("credence-demo".to_owned()),
            content_injection: None,
            delivered: None,
            execution_ms: Some(made.call.ms),
            outcome: CallOutcome::Result,
            posterior: Some(verdict.posterior),
            request: None,
            result: Views::commit(&salts.result, &forms_of_result(&Exact::parse(&result)?)),
            server: SERVER.to_owned(),
            session: Some(made.agent.to_owned()),
            checks: verdict.checks.iter().filter(|one| one.fired).map(|one| one.check.to_string()).collect(),
            stake: Some(made.stake),
            started_at: at,
            tool: made.call.tool.to_owned(),
            unjudged: None,
            verdict: Some(verdict.decision),
        };
        let entry = NewEntry { kind: Kind::Receipt, subject: agent, body: receipt.canonical()?, weight: None };
        let seq = write(&self.ledger, move |tx| Ok::<_, Error>(tx.append(&entry)?.seq))?;
        self.waiting.push((seq, salts));
        Ok(())
    }

    /// What it hands in: how far its log has grown, and what the authority has not seen of it. None where nothing is new.
    pub(crate) fn batch(&mut self) -> Result<Option<Batch>, Error> {
        let view = self.ledger.view()?;
        let Some(note) = view.checkpoint()?.filter(|_| !self.waiting.is_empty()) else { return Ok(None) };
        let size = Checkpoint::open(&note, self.ledger.verifier())?.size;
        let encode = |hashes: Vec<Hash>| hashes.iter().map(|hash| BASE64.encode(&hash.0)).collect();
        let consistency =
            if self.seen == 0 { Vec::new() } else { encode(proof::consistency(self.seen, size, &*view)?) };
        let mut receipts = Vec::new();
        for (seq, salts) in std::mem::take(&mut self.waiting) {
            let bytes = view.entry(seq)?.unwrap_or_default();
            Entry::parse(seq, &bytes)?;
            let entry = String::from_utf8_lossy(&bytes).into_owned();
            receipts.push(Sent { seq, entry, proof: encode(proof::inclusion(size, seq, &*view)?), salts: Some(salts) });
        }
        self.seen = size;
        Ok(Some(Batch {
            provider: self.provider.clone(),
            log: self.log.clone(),
            checkpoint: note,
            consistency,
            receipts,
        }))
    }
}
