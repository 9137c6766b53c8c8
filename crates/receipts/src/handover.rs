//! Handing receipts to an authority: how far a guard's log has grown, and some of its receipts, each with its proof.
//!
//! A guard makes a [`Batch`] with [`SegmentLog::next_batch`]; an authority checks one with [`Batch::open_checkpoint`],
//! [`Batch::extends`] and [`HandedReceipt::check`]. Which keys count, and what was seen of a log before, is the authority's business.

use credence_ledger::{
    Checkpoint, Entry, Hash, Kind, LogVerifier, View,
    proof::{self, InclusionProof},
};
use credence_protocol::{
    EntityId,
    receipt::{MAX_RECEIPT_BYTES, Receipt, Salts},
    strict::present,
};
use data_encoding::BASE64;
use serde::{Deserialize, Serialize};

use crate::{
    Error,
    records::Private,
    segments::{PRIVATE, SegmentLog, visit},
};

/// Hashes of a proof: a log of 2^63 entries has no longer one.
const MAX_HASHES: usize = 64;

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
    /// Proves that it extends the checkpoint that the authority saw last: hashes in base64. Empty for the first.
    #[serde(default)]
    pub consistency: Vec<String>,
    /// Receipts.
    #[serde(default)]
    pub receipts: Vec<HandedReceipt>,
}

/// One receipt of a batch.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandedReceipt {
    /// The entry's number in the guard's log.
    pub seq: u64,
    /// The entry, as it is in the log.
    pub entry: String,
    /// The path from it to the checkpoint's root: hashes in base64.
    pub proof: Vec<String>,
    /// The salts, where the guard discloses them: a claim can then be checked.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub salts: Option<Salts>,
}

/// What an authority has of a log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Known {
    /// Entries under the last checkpoint that it saw.
    pub size: u64,
    /// The first entry that it does not have.
    pub next: u64,
}

/// What is handed over besides the checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Disclosure {
    /// At most this many receipts; 0 for none.
    pub receipts: usize,
    /// Their salts, too.
    pub salts: bool,
}

/// A batch to hand over.
#[derive(Debug, Clone)]
pub struct NextBatch {
    /// The batch.
    pub batch: Batch,
    /// Entries under its checkpoint.
    pub size: u64,
    /// There are more receipts after it.
    pub more: bool,
}

impl SegmentLog {
    /// The next batch for an authority that has `known` of this log. `None` while no checkpoint is signed.
    pub fn next_batch(
        &self,
        provider: &EntityId,
        known: Known,
        disclosure: Disclosure,
    ) -> Result<Option<NextBatch>, Error> {
        let view = self.ledger().view()?;
        let Some(note) = view.checkpoint()? else { return Ok(None) };
        let size = Checkpoint::open(&note, &self.verifier)?.size;
        if known.size > size || known.next > size {
            return Err(Error::Diverged { log: self.name().to_owned(), known: known.size, here: size });
        }
        let consistency = match known.size {
            older if older > 0 && older < size => encoded(&proof::consistency(older, size, &*view)?),
            _ => Vec::new(),
        };
        let (receipts, more) = receipts(&*view, size, known.next, disclosure)?;
        let batch =
            Batch { provider: provider.clone(), log: self.name().to_owned(), checkpoint: note, consistency, receipts };
        Ok(Some(NextBatch { batch, size, more }))
    }
}

/// Receipts from `next` on, below `size`, and whether there are more.
fn receipts(
    view: &dyn View,
    size: u64,
    next: u64,
    disclosure: Disclosure,
) -> Result<(Vec<HandedReceipt>, bool), Error> {
    let (mut receipts, mut more) = (Vec::new(), false);
    if disclosure.receipts == 0 {
        return Ok((receipts, more));
    }
    visit(view, next, &mut |seq, bytes, entry| {
        if seq >= size || entry.kind != Kind::Receipt || more {
            return Ok(());
        }
        // What the authority would not take must not keep back the rest.
        if bytes.len() > MAX_RECEIPT_BYTES {
            return Ok(());
        }
        if receipts.len() == disclosure.receipts {
            more = true;
            return Ok(());
        }
        let mut salts = None;
        if disclosure.salts {
            let receipt: Receipt = entry.record(seq)?;
            let row = view.get(PRIVATE, &receipt.call.to_string())?.unwrap_or_default();
            salts = serde_json::from_slice::<Private>(&row).ok().map(|private| private.salts);
        }
        let entry = String::from_utf8_lossy(bytes).into_owned();
        receipts.push(HandedReceipt { seq, entry, proof: encoded(&proof::inclusion(size, seq, view)?), salts });
        Ok(())
    })?;
    Ok((receipts, more))
}

impl Batch {
    /// The checkpoint, if `verifier`'s key has signed it.
    pub fn open_checkpoint(&self, verifier: &LogVerifier) -> Result<Checkpoint, Error> {
        Ok(Checkpoint::open(&self.checkpoint, verifier)?)
    }

    /// Checks that `checkpoint`, this batch's, extends a log that had `size` entries and this root, in base64.
    pub fn extends(&self, checkpoint: &Checkpoint, size: u64, root: &str) -> Result<(), Error> {
        if size == checkpoint.size && root == BASE64.encode(&checkpoint.root.0) {
            return Ok(());
        }
        let older = BASE64.decode(root.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok()).map(Hash);
        let proved = older.is_some_and(|older| {
            decoded(&self.consistency).is_ok_and(|hashes| {
                proof::check_consistency(&hashes, (checkpoint.size, checkpoint.root), (size, older)).is_ok()
            })
        });
        if proved {
            return Ok(());
        }
        Err(Error::NotProved(format!(
            "the log '{}' had {size} entries when it was last seen, and it is not shown that these {} extend them: send the proof \
             of consistency",
            self.log, checkpoint.size
        )))
    }
}

impl HandedReceipt {
    /// The receipt, if it is in the log that `checkpoint` was signed over.
    pub fn check(&self, checkpoint: &Checkpoint, log: &str) -> Result<Receipt, Error> {
        let refused = |why: String| Error::NotProved(format!("entry {}: {why}", self.seq));
        if self.entry.len() > MAX_RECEIPT_BYTES {
            return Err(refused(format!("a receipt has at most {MAX_RECEIPT_BYTES} bytes")));
        }
        let entry = Entry::parse(self.seq, self.entry.as_bytes()).map_err(|e| refused(e.to_string()))?;
        if entry.kind != Kind::Receipt {
            return Err(refused(format!("it is a {}, not a receipt", entry.kind.key())));
        }
        let receipt: Receipt = entry.record(self.seq).map_err(|e| refused(e.to_string()))?;
        let leaf = credence_ledger::merkle::leaf(self.entry.as_bytes());
        proof::check_inclusion(&decoded(&self.proof)?, checkpoint.size, checkpoint.root, self.seq, leaf)
            .map_err(|e| refused(format!("{e} (log {log})")))?;
        Ok(receipt)
    }

    /// The receipt, unchecked.
    pub fn receipt(&self) -> Result<Receipt, Error> {
        Ok(Entry::parse(self.seq, self.entry.as_bytes())?.record(self.seq)?)
    }

    /// The proof that leads to `checkpoint`, as anyone can check it with the log's key.
    pub fn inclusion_proof(&self, checkpoint: &str) -> Result<InclusionProof, Error> {
        Ok(InclusionProof {
            entry: self.entry.clone().into_bytes(),
            seq: self.seq,
            hashes: decoded(&self.proof)?,
            checkpoint: checkpoint.to_owned(),
        })
    }
}

fn encoded(hashes: &[Hash]) -> Vec<String> {
    hashes.iter().map(|hash| BASE64.encode(&hash.0)).collect()
}

fn decoded(texts: &[String]) -> Result<Vec<Hash>, Error> {
    let hash = |text: &String| Some(Hash(BASE64.decode(text.as_bytes()).ok()?.try_into().ok()?));
    let hashes: Option<Vec<Hash>> = if texts.len() <= MAX_HASHES { texts.iter().map(hash).collect() } else { None };
    hashes.ok_or_else(|| Error::NotProved("a proof is at most 64 hashes in base64".to_owned()))
}
