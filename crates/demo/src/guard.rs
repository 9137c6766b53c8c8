//! A guard in front of some agents' tools: what really went through it has a receipt, what was made up has none.
//!
//! Its receipts are those of a real guard, in a place of their own. Now and then it hands its newest checkpoint and receipts to the
//! authority, with their salts, so that anyone with a claim can check it there.

use std::{path::Path, sync::Arc};

use credence_pipeline::receipts::{Batch, MAX_BATCH};
use credence_protocol::{
    EntityId, SecretKey, Timestamp, Uuid,
    receipt::{CallOutcome, Exact, Salts, Views, forms_of_result},
};
use credence_receipts::{
    BookSettings, Clock, Intent, NewReceipt, Place, Private, ReceiptBook, folder,
    handover::{Disclosure, Known},
    parts::fingerprint,
};
use credence_verify::Verdict;
use data_encoding::BASE64URL_NOPAD;

use crate::{Error, world::AgentCall};

/// The agents whose tools it stands in front of: one that is honest, and one that is not.
pub(crate) const GUARDED: [&str; 2] = ["atlas-travel", "marlow-research"];
/// The name of the tool server, as the guard knows it.
const SERVER: &str = "demo-tools";

pub(crate) struct Guard {
    provider: EntityId,
    key: SecretKey,
    book: ReceiptBook,
    /// What the authority has of the log.
    known: Known,
    _place: Place,
}

impl Guard {
    /// A guard of `provider`, its state in `folder`.
    pub(crate) fn new(folder: &Path, provider: EntityId, key: &SecretKey, clock: Clock) -> Result<Self, Error> {
        let place = folder::take_place(folder, SERVER)?;
        let settings = BookSettings::new(&place, SERVER, provider.clone(), key.clone());
        let book = ReceiptBook::open(BookSettings { volatile: true, clock: Arc::clone(&clock), ..settings })?;
        Ok(Self { provider, key: key.clone(), book, known: Known::default(), _place: place })
    }

    /// Writes the receipt of a call that went through it.
    pub(crate) fn record(&mut self, made: &AgentCall, verdict: &Verdict, at: Timestamp) -> Result<(), Error> {
        let salts = Salts::generate()?;
        let (args, result) = (made.call.args.to_string(), made.call.result.to_string());
        let args = Exact::parse(&args)?;
        let intent = Intent {
            agent: Some(EntityId::new(made.agent)?),
            arguments: salts.arguments(Some(&args)),
            call: Uuid::now_v7(),
            client: Some("credence-demo".to_owned()),
            request: None,
            server: SERVER.to_owned(),
            session: Some(made.agent.to_owned()),
            stake: Some(made.stake),
            started_at: at,
            tool: made.call.tool.to_owned(),
            uid: None,
            vantage: None,
        };
        let mut receipt = intent.into_receipt(CallOutcome::Result);
        receipt.execution_ms = Some(made.call.ms);
        receipt.posterior = Some(verdict.posterior);
        receipt.result = Views::commit(&salts.result, &forms_of_result(&Exact::parse(&result)?));
        receipt.checks = verdict.checks.iter().filter(|one| one.fired).map(|one| one.check.to_string()).collect();
        receipt.verdict = Some(verdict.decision);
        let print = BASE64URL_NOPAD.encode(&fingerprint(&self.key, Some(&args)));
        self.book.record([NewReceipt { receipt, private: Private { salts, print } }].iter())?;
        // At once: the story's clock stamps the entry.
        self.book.flush_journal(Vec::new())?;
        Ok(())
    }

    /// What it hands in: how far its log has grown, and what the authority has not seen of it. None where nothing is new.
    pub(crate) fn batch(&mut self) -> Result<Option<Batch>, Error> {
        let everything = Disclosure { receipts: MAX_BATCH, salts: true };
        let next = self.book.current_log().next_batch(&self.provider, self.known, everything)?;
        let Some(next) = next.filter(|next| !next.batch.receipts.is_empty()) else { return Ok(None) };
        let last = next.batch.receipts.last().map_or(self.known.next, |receipt| receipt.seq + 1);
        self.known = Known { size: next.size, next: last };
        Ok(Some(next.batch))
    }
}
