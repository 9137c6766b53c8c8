//! Receipts that guards hand in, so that others can check a claim without asking the agent (DESIGN, *Receipts*).
//!
//! How far a guard's log has grown is an entry of the authority's ledger: from then on the guard cannot show anybody another
//! past. A log that does not extend what was seen of it is refused. The receipts themselves are kept beside the ledger, in
//! an append-only log of their own ([`ReceiptStore`]): there are as many as calls, and no score is made of them. That log has the
//! rules of the ledger: a checkpoint outside its database, which it must extend, an audit, and a restore that must be accepted.

mod audit;
mod store;

use credence_ledger::{Appended, Checkpoint, LogVerifier, Transaction, View, proof::InclusionProof, write};
use credence_protocol::{EntityId, Uuid, receipt::Receipt};
pub use credence_receipts::handover::{Batch, HandedReceipt};

pub use audit::{AuditedReceipts, audit};
pub use store::{Found, ReceiptStore};

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
