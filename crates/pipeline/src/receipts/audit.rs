//! The audit of the receipts that are held: the log they are in, and each of them against its guard's signed checkpoint, the keys in
//! the authority's ledger and the tables that find it.

use std::{
    collections::{BTreeMap, HashMap},
    ops::ControlFlow,
};

use credence_ledger::{Checkpoint, Entry, Hash, Kind, LogVerifier, Scan, View, merkle};
use credence_protocol::EntityId;
use serde::Serialize;

use super::{
    GuardLogRow, Held,
    store::{BY_CALL, NEXT, call_key},
};
use crate::{
    Result,
    audit::{LogAudit, is_canonical},
    replay::{Findings, for_each_chunk},
    tables::{self, KeyRow},
};

/// What an audit of the receipts looked at and found.
#[derive(Debug, Clone, Default, Serialize)]
pub struct AuditedReceipts {
    /// Receipts read.
    pub receipts: u64,
    /// The size of the checkpoint outside the database that the log was found to extend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outside_size: Option<u64>,
    /// What is wrong.
    pub findings: Findings,
}

/// Audits the store in `view`, whose checkpoints `log` verifies, against `authority`'s ledger. Read `outside` first, then `view`, then
/// `authority`: each may grow in between.
pub fn audit(
    view: &dyn View,
    log: &LogVerifier,
    outside: &credence_ledger::Result<Checkpoint>,
    authority: &dyn View,
) -> Result<AuditedReceipts> {
    let mut report = AuditedReceipts::default();
    let mut followed = LogAudit::begin(view, outside, &mut report.findings)?;
    let mut receipts =
        Receipts { authority, view, keys: HashMap::new(), next: BTreeMap::new(), opened: None, findings: Vec::new() };
    for (_, key) in tables::all::<KeyRow>(authority, tables::KEYS)? {
        receipts.keys.entry(key.source.clone()).or_default().push(key);
    }
    for_each_chunk(view, &mut |chunk| {
        let leaves: Vec<(u64, Hash)> = chunk.iter().map(|(seq, bytes)| (*seq, merkle::leaf(bytes))).collect();
        for (seq, bytes) in chunk {
            followed.reached(*seq, &mut report.findings);
            if let Err(what) = receipts.entry(*seq, bytes)? {
                report.findings.add(*seq, what);
            }
        }
        report.receipts += chunk.len() as u64;
        followed.grow(&leaves, &mut report.findings)
    })?;
    followed.finish(log, &mut report.findings)?;
    report.outside_size = followed.outside_size;
    receipts.tables(report.receipts)?;
    receipts.findings.into_iter().for_each(|what| report.findings.add(None, what));
    Ok(report)
}

struct Receipts<'a> {
    view: &'a dyn View,
    authority: &'a dyn View,
    keys: HashMap<EntityId, Vec<KeyRow>>,
    /// The first entry of each guard's log that is not here, by the receipts seen.
    next: BTreeMap<String, u64>,
    /// The guard's checkpoint that was verified last: the receipts of a batch share one.
    opened: Option<(String, Checkpoint)>,
    findings: Vec<String>,
}

impl Receipts<'_> {
    /// One receipt; says what is wrong with it.
    fn entry(&mut self, seq: u64, bytes: &[u8]) -> Result<std::result::Result<(), String>> {
        let parsed = Entry::parse(seq, bytes).and_then(|entry| entry.record::<Held>(seq).map(|held| (entry, held)));
        let (entry, held) = match parsed {
            Ok(parsed) => parsed,
            Err(error) => return Ok(Err(error.to_string())),
        };
        if entry.kind != Kind::HeldReceipt || !is_canonical(bytes) {
            return Ok(Err("it is no held receipt in canonical JSON".into()));
        }
        let next = self.next.entry(held.log.clone()).or_default();
        *next = (*next).max(held.sent.seq + 1);
        let checkpoint = match self.checkpoint(&held)? {
            Ok(checkpoint) => checkpoint,
            Err(what) => return Ok(Err(what)),
        };
        let receipt = match held.sent.check(&checkpoint, &held.log) {
            Ok(receipt) => receipt,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let found: Option<u64> = tables::get(self.view, BY_CALL, &call_key(&receipt.call, &held.log))?;
        if found != Some(seq) {
            return Ok(Err(format!("call {} of '{}' is found at {found:?}, not here", receipt.call, held.log)));
        }
        if entry.subject != receipt.agent.unwrap_or(held.provider) {
            return Ok(Err(format!("the subject '{}' is not whose call it was", entry.subject)));
        }
        Ok(Ok(()))
    }

    /// The guard's checkpoint, if a key of the provider has signed it and the ledger knows a log that is as long.
    fn checkpoint(&mut self, held: &Held) -> Result<std::result::Result<Checkpoint, String>> {
        let note = format!("{}\n{}\n{}", held.log, held.log_key, held.checkpoint);
        if let Some((known, checkpoint)) = &self.opened
            && *known == note
        {
            return Ok(Ok(checkpoint.clone()));
        }
        let keys = self.keys.get(&held.provider).map_or(&[][..], Vec::as_slice);
        let verifiers = keys.iter().filter_map(|key| LogVerifier::of(&held.log, &key.public_key).ok());
        let Some(verifier) = verifiers.into_iter().find(|verifier| verifier.as_str() == held.log_key) else {
            return Ok(Err(format!("its log key is none of '{}'", held.provider)));
        };
        let checkpoint = match Checkpoint::open(&held.checkpoint, &verifier) {
            Ok(checkpoint) => checkpoint,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let known: Option<GuardLogRow> = tables::get(self.authority, tables::GUARD_LOGS, &held.log)?;
        if known.is_none_or(|known| known.size < checkpoint.size) {
            return Ok(Err(format!("the ledger knows of no checkpoint of '{}' at {}", held.log, checkpoint.size)));
        }
        self.opened = Some((note, checkpoint.clone()));
        Ok(Ok(checkpoint))
    }

    /// After the last receipt: the tables hold nothing else.
    fn tables(&mut self, receipts: u64) -> Result<()> {
        let mut rows = 0_u64;
        self.view.scan(BY_CALL, Scan::all(), &mut |_, _| {
            rows += 1;
            ControlFlow::Continue(())
        })?;
        if rows != receipts {
            self.findings.push(format!("{rows} calls can be found, there are {receipts} receipts"));
        }
        for (log, next) in tables::all::<u64>(self.view, NEXT)? {
            let expected = self.next.remove(&log).unwrap_or_default();
            if next != expected {
                self.findings.push(format!("of '{log}' {next} is said to be the next entry, and {expected} is"));
            }
        }
        self.findings.extend(self.next.keys().map(|log| format!("how far '{log}' is here is missing")));
        Ok(())
    }
}
