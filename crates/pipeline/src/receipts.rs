//! Receipts that guards hand in, so that others can check a claim without asking the agent (DESIGN, *Receipts*).
//!
//! How far a guard's log has grown is an entry of the authority's ledger: from then on the guard cannot show anybody another
//! past. A log that does not extend what was seen of it is refused. The receipts themselves are kept beside the ledger, in
//! an append-only log of their own: there are as many as calls, and no score is made of them.

use std::{path::Path, sync::Arc};

use credence_ledger::{
    Appended, Checkpoint, Clock, Entry, Kind, Ledger, LogKey, LogVerifier, NewEntry, OutsideCheckpoint, SqliteLedger,
    Table, Transaction, View,
    proof::InclusionProof,
    sqlite::{Options, Sealing},
    write,
};
use credence_protocol::{Canonical, EntityId, Uuid, receipt::Receipt};
pub use credence_receipts::handover::{Batch, HandedReceipt};
use data_encoding::BASE64;
use serde::{Deserialize, Serialize};

use crate::{
    Authority, Rejection, Result,
    record::{CheckpointRecord, Record},
    registry,
    tables::{self, KeyRow, SourceRow},
};

/// Receipts of one batch.
pub const MAX_BATCH: usize = 1_000;
/// Bytes of a guard's checkpoint.
const MAX_NOTE_BYTES: usize = 4 * 1024;
/// Bytes of a guard's log's name.
const MAX_LOG_BYTES: usize = 300;

const BY_CALL: Table = Table("by_call");
const NEXT: Table = Table("next");

/// What is known of a guard's log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuardLogRow {
    /// The entry that says so.
    pub seq: u64,
    /// Whose.
    pub provider: EntityId,
    /// How many entries it has.
    pub size: u64,
    /// Its root, in base64.
    pub root: String,
}

/// A receipt as it is held here.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Held {
    /// Whose guard wrote it.
    pub provider: EntityId,
    /// Which log it is in.
    pub log: String,
    /// What that log's checkpoints are verified with.
    pub log_key: String,
    /// Everything to prove it.
    #[serde(flatten)]
    pub sent: HandedReceipt,
    /// The checkpoint that the proof leads to.
    pub checkpoint: String,
}

/// A batch whose checkpoint and proofs hold.
pub struct Checked {
    batch: Batch,
    checkpoint: Checkpoint,
    verifier: LogVerifier,
    calls: Vec<(Uuid, EntityId)>,
}

/// What came of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Taken {
    /// The entry of the authority's ledger that holds the checkpoint.
    pub seq: u64,
    /// How many receipts were new.
    pub new: usize,
    /// How many were here already.
    pub known: usize,
    /// The first entry of the guard's log that is not here yet.
    pub next: u64,
}

/// Refused, for a reason that the submitter can act on.
fn refused(error: &credence_receipts::Error) -> Rejection {
    Rejection::Receipts(error.to_string())
}

impl Authority {
    /// Checks a batch: who signed, that the log extends what was seen of it, that every receipt is in it.
    pub fn check_receipts(&self, batch: Batch) -> Result<std::result::Result<Checked, Rejection>> {
        let malformed = |why: String| Ok(Err(Rejection::Receipts(why)));
        let view = self.ledger().view()?;
        if batch.receipts.len() > MAX_BATCH {
            return malformed(format!("{} receipts, the limit is {MAX_BATCH} at once", batch.receipts.len()));
        }
        if batch.checkpoint.len() > MAX_NOTE_BYTES || batch.log.len() > MAX_LOG_BYTES {
            return malformed("the checkpoint or the log's name is too long".into());
        }
        if !batch.log.starts_with(&format!("{}/guard/", batch.provider)) {
            return malformed(format!(
                "the log of a guard of '{0}' is called {0}/guard/…, not '{1}'",
                batch.provider, batch.log
            ));
        }
        if tables::get::<SourceRow>(&*view, tables::SOURCES, batch.provider.as_str())?.is_none() {
            return Ok(Err(Rejection::UnknownSource(batch.provider)));
        }
        let (checkpoint, verifier) = match self.signed(&*view, &batch)? {
            Ok(signed) => signed,
            Err(rejection) => return Ok(Err(rejection)),
        };
        if let Some(known) = tables::get::<GuardLogRow>(&*view, tables::GUARD_LOGS, &batch.log)?
            && let Err(error) = batch.extends(&checkpoint, known.size, &known.root)
        {
            return Ok(Err(refused(&error)));
        }
        let mut calls = Vec::with_capacity(batch.receipts.len());
        for sent in &batch.receipts {
            match sent.check(&checkpoint, &batch.log) {
                Ok(receipt) => {
                    let subject = receipt.agent.unwrap_or_else(|| batch.provider.clone());
                    calls.push((receipt.call, subject));
                }
                Err(error) => return Ok(Err(refused(&error))),
            }
        }
        Ok(Ok(Checked { batch, checkpoint, verifier, calls }))
    }

    /// The checkpoint, if a key of the provider that counts has signed it.
    fn signed(
        &self,
        view: &dyn View,
        batch: &Batch,
    ) -> Result<std::result::Result<(Checkpoint, LogVerifier), Rejection>> {
        let mut signed = None;
        let mut revoked = None;
        tables::scan(view, tables::KEYS, credence_ledger::Scan::all(), |_, row: KeyRow| {
            if row.source == batch.provider {
                let verifier = LogVerifier::of(&batch.log, &row.public_key)?;
                if let Ok(checkpoint) = batch.open_checkpoint(&verifier) {
                    match row.revoked_from {
                        Some(from) => revoked = Some(Rejection::RevokedKey { key: row.public_key.id(), from }),
                        None => signed = Some((checkpoint, verifier)),
                    }
                }
            }
            Ok(std::ops::ControlFlow::Continue(()))
        })?;
        let unsigned = || {
            Rejection::Receipts(format!(
                "no registered key of '{}' has signed this checkpoint of log '{}'",
                batch.provider, batch.log
            ))
        };
        Ok(signed.ok_or_else(|| revoked.unwrap_or_else(unsigned)))
    }

    /// Records how far the log has grown, and keeps the receipts.
    pub fn take_receipts(
        &self,
        checked: Checked,
        store: &ReceiptStore,
    ) -> Result<std::result::Result<Taken, Rejection>> {
        let Checked { batch, checkpoint, .. } = &checked;
        let record = CheckpointRecord {
            provider: batch.provider.clone(),
            log: batch.log.clone(),
            size: checkpoint.size,
            root: BASE64.encode(&checkpoint.root.0),
            checkpoint: batch.checkpoint.clone(),
        };
        let again = batch.clone();
        let size = checkpoint.clone();
        let recorded = write(self.ledger(), move |tx| {
            // Looked at again: another batch may have come in between.
            if let Some(known) = tables::get::<GuardLogRow>(tx, tables::GUARD_LOGS, &record.log)? {
                if (known.size, &known.root) == (record.size, &record.root) {
                    return Ok(Ok(known.seq));
                }
                if let Err(error) = again.extends(&size, known.size, &known.root) {
                    return Ok::<_, crate::Error>(Err(refused(&error)));
                }
            }
            registry::append(tx, &record.provider, &Record::Checkpoint(record.clone())).map(Ok)
        })?;
        match recorded {
            Err(rejection) => Ok(Err(rejection)),
            Ok(seq) => store.keep(checked, seq),
        }
    }

    /// What is known of a guard's log.
    pub fn guard_log(&self, log: &str) -> Result<Option<GuardLogRow>> {
        tables::get(&*self.ledger().view()?, tables::GUARD_LOGS, log)
    }
}

/// Folds a checkpoint in.
pub(crate) fn apply(tx: &mut dyn Transaction, at: Appended, record: &CheckpointRecord) -> Result<()> {
    let CheckpointRecord { provider, log, size, root, .. } = record.clone();
    Ok(tables::put(tx, tables::GUARD_LOGS, &log, &GuardLogRow { seq: at.seq, provider, size, root })?)
}

/// Where receipts are held: a ledger of their own, whatever database it is.
pub struct ReceiptStore {
    ledger: Arc<dyn Ledger>,
}

impl ReceiptStore {
    /// The tables that its ledger needs.
    pub const TABLES: &'static [Table] = &[BY_CALL, NEXT];

    /// The store that `ledger` holds.
    pub fn new(ledger: Arc<dyn Ledger>) -> Self {
        Self { ledger }
    }

    /// Opens the SQLite store in `folder`, or makes one.
    pub fn open(folder: &Path, key: LogKey, clock: Clock) -> credence_ledger::Result<Self> {
        let options = Options {
            path: folder.join("receipts.db"),
            tables: Self::TABLES,
            outside: OutsideCheckpoint::at(folder.join("receipts.checkpoint")),
            sealing: Sealing::EveryCommit,
        };
        let exists = options.path.exists();
        let ledger =
            if exists { SqliteLedger::open(options, key, clock) } else { SqliteLedger::create(options, key, clock) };
        ledger.map(|ledger| Self::new(Arc::new(ledger)))
    }

    fn keep(&self, checked: Checked, seq: u64) -> Result<std::result::Result<Taken, Rejection>> {
        let Checked { batch, verifier, calls, .. } = checked;
        let kept = write(&*self.ledger, move |tx| {
            let (mut new, mut known) = (0, 0);
            let mut next: u64 = tables::get(tx, NEXT, &batch.log)?.unwrap_or_default();
            for (sent, (call, subject)) in batch.receipts.iter().zip(&calls) {
                // Another provider's receipt of the same call is another receipt.
                let key = format!("{call}/{}", batch.provider);
                if let Some(at) = tables::get::<u64>(tx, BY_CALL, &key)? {
                    let held = held(tx, at)?;
                    if held.log != batch.log || held.sent.entry != sent.entry {
                        let why = format!("call {call} is here already, with another receipt");
                        return Ok::<_, crate::Error>(Err(Rejection::Receipts(why)));
                    }
                    known += 1;
                } else {
                    let record = Held {
                        provider: batch.provider.clone(),
                        log: batch.log.clone(),
                        log_key: verifier.as_str().to_owned(),
                        sent: sent.clone(),
                        checkpoint: batch.checkpoint.clone(),
                    };
                    let body = Canonical::of(&record)?;
                    let entry = NewEntry { kind: Kind::HeldReceipt, subject: subject.clone(), body, weight: None };
                    let at = tx.append(&entry)?;
                    tables::put(tx, BY_CALL, &key, &at.seq)?;
                    new += 1;
                }
                next = next.max(sent.seq + 1);
            }
            tables::put(tx, NEXT, &batch.log, &next)?;
            Ok(Ok((new, known, next)))
        })?;
        Ok(kept.map(|(new, known, next)| Taken { seq, new, known, next }))
    }

    /// The receipt of a call: the one that was handed in first, where several providers have one.
    pub fn find(&self, call: &Uuid) -> Result<Option<Held>> {
        let view = self.ledger.view()?;
        let mut first = None;
        tables::scan(&*view, BY_CALL, credence_ledger::Scan::prefix(&format!("{call}/")), |_, seq: u64| {
            first = Some(first.map_or(seq, |first: u64| first.min(seq)));
            Ok(std::ops::ControlFlow::Continue(()))
        })?;
        first.map(|seq| held(&*view, seq)).transpose()
    }

    /// The newest receipts of an agent's calls, newest first, among the `looked_at` newest of all.
    pub fn newest(&self, agent: &EntityId, limit: usize, looked_at: u64) -> Result<Vec<Held>> {
        let view = self.ledger.view()?;
        let size = view.size()?;
        let mut found = Vec::new();
        for seq in (size.saturating_sub(looked_at)..size).rev() {
            let bytes = view.entry(seq)?.unwrap_or_default();
            let entry = Entry::parse(seq, &bytes)?;
            if entry.subject == *agent {
                found.push(entry.record(seq)?);
            }
            if found.len() == limit {
                break;
            }
        }
        Ok(found)
    }

    /// How many receipts are held.
    pub fn size(&self) -> Result<u64> {
        Ok(self.ledger.view()?.size()?)
    }

    /// The first entry of a guard's log that is not here yet.
    pub fn next(&self, log: &str) -> Result<u64> {
        Ok(tables::get(&*self.ledger.view()?, NEXT, log)?.unwrap_or_default())
    }

    /// Has the disk keep everything.
    pub fn flush(&self) -> credence_ledger::Result<()> {
        self.ledger.flush()
    }
}

fn held(view: &(impl View + ?Sized), seq: u64) -> Result<Held> {
    let bytes = view.entry(seq)?.unwrap_or_default();
    Ok(Entry::parse(seq, &bytes)?.record(seq)?)
}

impl Held {
    /// The receipt.
    pub fn receipt(&self) -> Result<Receipt> {
        Ok(self.sent.receipt()?)
    }

    /// The proof, as anyone can check it with the log's key.
    pub fn proof(&self) -> std::result::Result<InclusionProof, Rejection> {
        self.sent.inclusion_proof(&self.checkpoint).map_err(|error| refused(&error))
    }
}
