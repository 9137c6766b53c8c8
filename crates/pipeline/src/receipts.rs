//! Receipts that guards hand in, so that others can check a claim without asking the agent (DESIGN, *Receipts*).
//!
//! How far a guard's log has grown is an entry of the authority's ledger: from then on the guard cannot show anybody another
//! past. A log that does not extend what was seen of it is refused. The receipts themselves are kept beside the ledger, in
//! an append-only log of their own: there are as many as calls, and no score is made of them.

use std::path::Path;

use credence_ledger::{
    Appended, Checkpoint, Clock, Entry, Hash, Kind, Ledger, LogKey, LogVerifier, NewEntry, OutsideCheckpoint,
    SqliteLedger, Table, Transaction, View,
    proof::{self, InclusionProof},
    sqlite::{Options, Sealing},
    write,
};
use credence_protocol::{
    Canonical, EntityId, Uuid,
    receipt::{MAX_RECEIPT_BYTES, Receipt, Salts},
    strict::present,
};
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
/// Hashes of a proof: a log of 2^63 entries has no longer one.
const MAX_HASHES: usize = 64;

const BY_CALL: Table = Table("by_call");
const NEXT: Table = Table("next");

/// What a guard hands in: how far its log has grown, and some of its receipts.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// Whose guard it is.
    pub provider: EntityId,
    /// The log's name: `PROVIDER/guard/SERVER/PLACE/SEGMENT`.
    pub log: String,
    /// Its newest signed checkpoint.
    pub checkpoint: String,
    /// That it extends the checkpoint that was seen last: hashes in base64. Empty for the first.
    #[serde(default)]
    pub consistency: Vec<String>,
    /// Receipts.
    #[serde(default)]
    pub receipts: Vec<Sent>,
}

/// One receipt on its way.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sent {
    /// The entry's number in the guard's log.
    pub seq: u64,
    /// The entry, as it is in the log.
    pub entry: String,
    /// The way from it to the checkpoint's root: hashes in base64.
    pub proof: Vec<String>,
    /// The salts, where the guard discloses them: whoever has a claim can then check it.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub salts: Option<Salts>,
}

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
    pub sent: Sent,
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

fn hashes(texts: &[String]) -> std::result::Result<Vec<Hash>, Rejection> {
    let hash = |text: &String| BASE64.decode(text.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok()).map(Hash);
    let all: Option<Vec<Hash>> = texts.iter().map(hash).collect();
    all.filter(|all| all.len() <= MAX_HASHES)
        .ok_or_else(|| Rejection::Receipts("a proof is at most 64 hashes in base64".into()))
}

impl Authority {
    /// Checks a batch: who signed, that the log extends what was seen of it, that every receipt is in it.
    pub fn check_receipts(&self, batch: Batch) -> Result<std::result::Result<Checked, Rejection>> {
        let refused = |why: String| Ok(Err(Rejection::Receipts(why)));
        let view = self.ledger().view()?;
        if batch.receipts.len() > MAX_BATCH {
            return refused(format!("{} receipts, the limit is {MAX_BATCH} at once", batch.receipts.len()));
        }
        if batch.checkpoint.len() > MAX_NOTE_BYTES || batch.log.len() > MAX_LOG_BYTES {
            return refused("the checkpoint or the log's name is too long".into());
        }
        if !batch.log.starts_with(&format!("{}/guard/", batch.provider)) {
            return refused(format!(
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
            && let Err(rejection) = extends(&known, &checkpoint, &batch)
        {
            return Ok(Err(rejection));
        }
        let mut calls = Vec::with_capacity(batch.receipts.len());
        for sent in &batch.receipts {
            match included(sent, &checkpoint, &batch.checkpoint, &verifier) {
                Ok(receipt) => {
                    let subject = receipt.agent.unwrap_or_else(|| batch.provider.clone());
                    calls.push((receipt.call, subject));
                }
                Err(rejection) => return Ok(Err(rejection)),
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
                if let Ok(checkpoint) = Checkpoint::open(&batch.checkpoint, &verifier) {
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
                if let Err(rejection) = extends(&known, &size, &again) {
                    return Ok::<_, crate::Error>(Err(rejection));
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

fn extends(known: &GuardLogRow, checkpoint: &Checkpoint, batch: &Batch) -> std::result::Result<(), Rejection> {
    let same = known.root == BASE64.encode(&checkpoint.root.0);
    if known.size == checkpoint.size && same {
        return Ok(());
    }
    let root = BASE64.decode(known.root.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok()).map(Hash);
    let proved = root.is_some_and(|root| {
        hashes(&batch.consistency).is_ok_and(|hashes| {
            proof::check_consistency(&hashes, (checkpoint.size, checkpoint.root), (known.size, root)).is_ok()
        })
    });
    if proved {
        return Ok(());
    }
    Err(Rejection::Receipts(format!(
        "the log '{}' had {} entries when it was last seen, and it is not shown that these {} extend them: send the proof of \
         consistency",
        batch.log, known.size, checkpoint.size
    )))
}

/// Checks that a receipt is in the log that the checkpoint was signed over.
fn included(
    sent: &Sent,
    checkpoint: &Checkpoint,
    note: &str,
    verifier: &LogVerifier,
) -> std::result::Result<Receipt, Rejection> {
    let refused = |why: String| Rejection::Receipts(format!("entry {}: {why}", sent.seq));
    if sent.entry.len() > MAX_RECEIPT_BYTES {
        return Err(refused(format!("a receipt has at most {MAX_RECEIPT_BYTES} bytes")));
    }
    let entry = Entry::parse(sent.seq, sent.entry.as_bytes()).map_err(|e| refused(e.to_string()))?;
    if entry.kind != Kind::Receipt {
        return Err(refused(format!("it is a {}, not a receipt", entry.kind.key())));
    }
    let receipt: Receipt = entry.record(sent.seq).map_err(|e| refused(e.to_string()))?;
    let proof = InclusionProof {
        entry: sent.entry.clone().into_bytes(),
        seq: sent.seq,
        hashes: hashes(&sent.proof)?,
        checkpoint: note.to_owned(),
    };
    let leaf = credence_ledger::merkle::leaf(&proof.entry);
    proof::check_inclusion(&proof.hashes, checkpoint.size, checkpoint.root, sent.seq, leaf)
        .map_err(|e| refused(format!("{e} (log {})", verifier.origin())))?;
    Ok(receipt)
}

/// Folds a checkpoint in.
pub(crate) fn apply(tx: &mut dyn Transaction, at: Appended, record: &CheckpointRecord) -> Result<()> {
    let CheckpointRecord { provider, log, size, root, .. } = record.clone();
    Ok(tables::put(tx, tables::GUARD_LOGS, &log, &GuardLogRow { seq: at.seq, provider, size, root })?)
}

/// Where receipts are held.
pub struct ReceiptStore(SqliteLedger);

impl ReceiptStore {
    /// Opens the store in `folder`, or makes one.
    pub fn open(folder: &Path, key: LogKey, clock: Clock) -> credence_ledger::Result<Self> {
        let options = Options {
            path: folder.join("receipts.db"),
            tables: &[BY_CALL, NEXT],
            outside: OutsideCheckpoint::at(folder.join("receipts.checkpoint")),
            sealing: Sealing::EveryCommit,
        };
        let exists = options.path.exists();
        let ledger =
            if exists { SqliteLedger::open(options, key, clock) } else { SqliteLedger::create(options, key, clock) };
        ledger.map(Self)
    }

    fn keep(&self, checked: Checked, seq: u64) -> Result<std::result::Result<Taken, Rejection>> {
        let Checked { batch, verifier, calls, .. } = checked;
        let kept = write(&self.0, move |tx| {
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
                    let entry = NewEntry { kind: Kind::Receipt, subject: subject.clone(), body, weight: None };
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
        let view = self.0.view()?;
        let mut first = None;
        tables::scan(&*view, BY_CALL, credence_ledger::Scan::prefix(&format!("{call}/")), |_, seq: u64| {
            first = Some(first.map_or(seq, |first: u64| first.min(seq)));
            Ok(std::ops::ControlFlow::Continue(()))
        })?;
        first.map(|seq| held(&*view, seq)).transpose()
    }

    /// The newest receipts of an agent's calls, newest first, among the `looked_at` newest of all.
    pub fn newest(&self, agent: &EntityId, limit: usize, looked_at: u64) -> Result<Vec<Held>> {
        let view = self.0.view()?;
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
        Ok(self.0.view()?.size()?)
    }

    /// The first entry of a guard's log that is not here yet.
    pub fn next(&self, log: &str) -> Result<u64> {
        Ok(tables::get(&*self.0.view()?, NEXT, log)?.unwrap_or_default())
    }

    /// Has the disk keep everything.
    pub fn flush(&self) -> credence_ledger::Result<()> {
        self.0.flush()
    }
}

fn held(view: &(impl View + ?Sized), seq: u64) -> Result<Held> {
    let bytes = view.entry(seq)?.unwrap_or_default();
    Ok(Entry::parse(seq, &bytes)?.record(seq)?)
}

impl Held {
    /// The receipt.
    pub fn receipt(&self) -> credence_ledger::Result<Receipt> {
        Entry::parse(self.sent.seq, self.sent.entry.as_bytes())?.record(self.sent.seq)
    }

    /// The proof, as anyone can check it with the log's key.
    pub fn proof(&self) -> std::result::Result<InclusionProof, Rejection> {
        Ok(InclusionProof {
            entry: self.sent.entry.clone().into_bytes(),
            seq: self.sent.seq,
            hashes: hashes(&self.sent.proof)?,
            checkpoint: self.checkpoint.clone(),
        })
    }
}
