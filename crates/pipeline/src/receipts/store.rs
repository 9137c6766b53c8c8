//! Where receipts are held: a ledger of their own.
//!
//! A receipt is found by its log and its call: a guard chooses the ids of its calls, and one that hands in a receipt under the id of
//! another guard's call must not hide that one's receipt.

use std::{io::ErrorKind, ops::ControlFlow, path::Path, sync::Arc};

use credence_ledger::{
    Checkpoint, Clock, Entry, Error as LedgerError, Kind, Ledger, LogKey, LogVerifier, NewEntry, OutsideCheckpoint,
    Restored, Scan, SqliteLedger, Table, View, merkle, proof,
    sqlite::{Options, Sealing},
    write,
};
use credence_protocol::{Canonical, EntityId, Uuid};

use super::{Checked, Held, Taken};
use crate::{Rejection, Result, tables};

/// call/log → seq
pub(super) const BY_CALL: Table = Table("by_call");
/// log → the first entry of the guard's log that is not here yet
pub(super) const NEXT: Table = Table("next");
/// Logs named where several hold a receipt of one call id.
const MAX_LOGS_NAMED: usize = 10;

/// Where receipts are held: a ledger of their own, whatever database it is.
pub struct ReceiptStore {
    ledger: Arc<dyn Ledger>,
    log: LogVerifier,
}

/// What is held of a call id.
#[derive(Debug)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// One receipt.
    One(Box<Held>),
    /// Receipts in several guards' logs: the first few of the logs.
    Several(Vec<String>),
}

/// The row of a receipt.
pub(super) fn call_key(call: &Uuid, log: &str) -> String {
    format!("{call}/{log}")
}

impl ReceiptStore {
    /// The tables that its ledger needs.
    pub const TABLES: &'static [Table] = &[BY_CALL, NEXT];

    /// The store that `ledger` holds, whose checkpoints `log` verifies.
    pub fn new(ledger: Arc<dyn Ledger>, log: LogVerifier) -> Self {
        Self { ledger, log }
    }

    /// Where the SQLite store in `folder` is.
    pub fn options(folder: &Path) -> Options {
        Options {
            path: folder.join("receipts.db"),
            tables: Self::TABLES,
            outside: OutsideCheckpoint::at(folder.join("receipts.checkpoint")),
            sealing: Sealing::EveryCommit,
        }
    }

    /// What is missing of the store in `folder`, if it should be there and is not: its checkpoint is, or `handed_in` says that the
    /// authority's ledger knows of guards that handed in.
    pub fn missing(folder: &Path, handed_in: bool) -> Option<String> {
        let options = Self::options(folder);
        if options.path.exists() {
            return None;
        }
        let why = match (options.outside.path().exists(), handed_in) {
            (true, _) => format!("{} is missing, and its checkpoint is there", options.path.display()),
            (false, true) => {
                format!("{} is missing, and the ledger says that guards handed in", options.path.display())
            }
            (false, false) => return None,
        };
        Some(why)
    }

    /// Opens the SQLite store in `folder`, or makes the first one. Refuses one that does not extend its checkpoint, and to make a
    /// new one where there was one; `handed_in` as in [`missing`](Self::missing).
    pub fn open(folder: &Path, key: LogKey, clock: Clock, handed_in: bool) -> credence_ledger::Result<Self> {
        let options = Self::options(folder);
        if let Some(why) = Self::missing(folder, handed_in) {
            return Err(LedgerError::ReceiptsDoNotExtend { why });
        }
        let log = key.verifier().clone();
        let exists = options.path.exists();
        let ledger =
            if exists { SqliteLedger::open(options, key, clock) } else { SqliteLedger::create(options, key, clock) };
        let ledger = ledger.map_err(|error| match error {
            LedgerError::DoesNotExtend { why } => LedgerError::ReceiptsDoNotExtend { why },
            other => other,
        })?;
        Ok(Self::new(Arc::new(ledger), log))
    }

    /// Takes the store in `folder` as it is for the truth from now on, also where it is gone: then an empty one is made.
    pub fn accept_restore(folder: &Path, key: &LogKey, clock: Clock) -> credence_ledger::Result<Restored> {
        let options = Self::options(folder);
        if options.path.exists() {
            return SqliteLedger::accept_restore(&options, key);
        }
        let former = match options.outside.read(key.verifier()) {
            Err(LedgerError::Io(place, error)) if error.kind() != ErrorKind::NotFound => {
                return Err(LedgerError::Io(place, error));
            }
            former => former,
        };
        SqliteLedger::create(options, key.clone(), clock)?.close()?;
        Ok(former.map_or(Restored::Unknown { size: 0 }, |former| match former.size {
            0 => Restored::NothingToAccept { size: 0 },
            promised => Restored::Shorter { size: 0, promised },
        }))
    }

    pub(super) fn keep(&self, checked: Checked, seq: u64) -> Result<std::result::Result<Taken, Rejection>> {
        let Checked { batch, verifier, calls, .. } = checked;
        let kept = write(&*self.ledger, move |tx| {
            let (mut new, mut known) = (0, 0);
            let mut next: u64 = tables::get(tx, NEXT, &batch.log)?.unwrap_or_default();
            for (sent, (call, subject)) in batch.receipts.iter().zip(&calls) {
                let key = call_key(call, &batch.log);
                if let Some(at) = tables::get::<u64>(tx, BY_CALL, &key)? {
                    if held(tx, at)?.sent.entry != sent.entry {
                        let why = format!("call {call} of this log is here already, with another receipt");
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

    /// The receipt of a call in the log of one guard.
    pub fn find_in(&self, log: &str, call: &Uuid) -> Result<Option<Held>> {
        let view = self.ledger.view()?;
        let seq: Option<u64> = tables::get(&*view, BY_CALL, &call_key(call, log))?;
        seq.map(|seq| self.verified(&*view, seq, call, log)).transpose()
    }

    /// What is held of a call id, whichever guards chose it.
    pub fn find(&self, call: &Uuid) -> Result<Found> {
        let view = self.ledger.view()?;
        let mut logs: Vec<(String, u64)> = Vec::new();
        let prefix = format!("{call}/");
        tables::scan(&*view, BY_CALL, Scan::prefix(&prefix), |key, seq: u64| {
            logs.push((key[prefix.len()..].to_owned(), seq));
            Ok(if logs.len() < MAX_LOGS_NAMED { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        match logs.as_slice() {
            [] => Ok(Found::Nothing),
            [(log, seq)] => Ok(Found::One(Box::new(self.verified(&*view, *seq, call, log)?))),
            _ => Ok(Found::Several(logs.into_iter().map(|(log, _)| log).collect())),
        }
    }

    /// The receipt at `seq`, if it is what the store's signed checkpoint was made over and what the table says it is. What was
    /// changed past the ledger is not given to anyone.
    fn verified(&self, view: &dyn View, seq: u64, call: &Uuid, log: &str) -> Result<Held> {
        let held = self.proved(view, seq)?;
        if held.log != log || held.receipt()?.call != *call {
            return Err(LedgerError::Log(format!("entry {seq} of receipts.db is not call {call} of '{log}'")).into());
        }
        Ok(held)
    }

    fn proved(&self, view: &dyn View, seq: u64) -> Result<Held> {
        let note = view.checkpoint()?.unwrap_or_default();
        let Checkpoint { size, root, .. } = Checkpoint::open(&note, &self.log)?;
        let bytes = view.entry(seq)?.unwrap_or_default();
        proof::check_inclusion(&proof::inclusion(size, seq, view)?, size, root, seq, merkle::leaf(&bytes))
            .map_err(|_| LedgerError::Log(format!("entry {seq} of receipts.db is not what its log was built over")))?;
        Ok(Entry::parse(seq, &bytes)?.record(seq)?)
    }

    /// The newest receipts of an agent's calls, newest first, among the `looked_at` newest of all.
    pub fn newest(&self, agent: &EntityId, limit: usize, looked_at: u64) -> Result<Vec<Held>> {
        let view = self.ledger.view()?;
        let size = view.size()?;
        let mut found = Vec::new();
        for seq in (size.saturating_sub(looked_at)..size).rev() {
            let bytes = view.entry(seq)?.unwrap_or_default();
            if Entry::parse(seq, &bytes)?.subject == *agent {
                found.push(self.proved(&*view, seq)?);
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
