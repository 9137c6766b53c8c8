//! Proofs for many receipts at once: each segment is opened once, its checkpoint verified once, and its entries hashed once. If
//! they add up to the checkpoint, every receipt under it is proved; if not, each is proved by itself, so that one changed entry
//! does not discredit the others.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use credence_ledger::{
    Checkpoint, Kind, LogVerifier, merkle,
    proof::{self, InclusionProof},
};
use credence_protocol::{
    Uuid,
    receipt::{CallOutcome, Receipt},
};

use crate::{
    Archive, Error, FoundReceipt, PartDigests,
    archive::SEAL_PATIENCE,
    digest_rows,
    segments::{SegmentLog, segments, visit},
};

/// How often a running guard's log is looked at again.
const POLL: Duration = Duration::from_millis(100);

/// A receipt's place under a checkpoint.
pub(super) struct Proved {
    pub seq: u64,
    pub checkpoint_size: u64,
    /// The proof as a file, where it was asked for.
    pub proof: Option<String>,
}

/// A segment that was opened.
struct Opened {
    log: SegmentLog,
    note: String,
    checkpoint: Checkpoint,
    /// All entries under the checkpoint are those that it was signed over.
    adds_up: bool,
}

/// Proves receipts.
pub(super) struct Prover<'a> {
    archive: &'a Archive,
    opened: HashMap<(usize, u64), Result<Opened, String>>,
    /// Segments opened so far.
    pub opens: u64,
}

impl<'a> Prover<'a> {
    pub fn new(archive: &'a Archive) -> Self {
        Self { archive, opened: HashMap::new(), opens: 0 }
    }

    fn segment(&mut self, source: usize, number: u64) -> &Result<Opened, String> {
        let (archive, opens) = (self.archive, &mut self.opens);
        self.opened.entry((source, number)).or_insert_with(|| {
            *opens += 1;
            open(archive, source, number).map_err(|error| error.to_string())
        })
    }

    fn is_sealed(&mut self, found: &FoundReceipt) -> bool {
        let Some((segment, seq)) = found.at else { return false };
        // One that cannot be opened does not get better by waiting.
        self.segment(found.source, segment).as_ref().map_or(true, |opened| seq < opened.checkpoint.size)
    }

    /// Waits, once for all of them, until receipts of running guards are sealed; finds those that moved from the journal.
    pub fn settle(&mut self, receipts: &mut [&mut FoundReceipt]) -> Result<(), Error> {
        let since = Instant::now();
        loop {
            self.find_moved(receipts)?;
            let mut waits = false;
            let mut again = HashSet::new();
            for found in receipts.iter() {
                // A call that was not answered yet may stay so.
                let under_way = found.at.is_none() && found.receipt.outcome == CallOutcome::Unanswered;
                if !under_way && self.archive.sources[found.source].running.is_some() && !self.is_sealed(found) {
                    waits = true;
                    again.extend(found.at.map(|(segment, _)| (found.source, segment)));
                }
            }
            if !waits || since.elapsed() > SEAL_PATIENCE {
                return Ok(());
            }
            std::thread::sleep(POLL);
            self.opened.retain(|segment, _| !again.contains(segment));
        }
    }

    /// Finds the entries of receipts that were in the journal.
    fn find_moved(&self, receipts: &mut [&mut FoundReceipt]) -> Result<(), Error> {
        let mut sought: HashMap<(usize, Uuid), &mut FoundReceipt> = receipts
            .iter_mut()
            .filter(|found| found.at.is_none())
            .map(|found| ((found.source, found.receipt.call), &mut **found))
            .collect();
        for (number, source) in self.archive.sources.iter().enumerate() {
            if !sought.keys().any(|(of, _)| *of == number) {
                continue;
            }
            for (segment, there) in segments(&source.folder)?.into_iter().rev() {
                if !there || !sought.keys().any(|(of, _)| *of == number) {
                    continue;
                }
                let Ok(log) = source.segment(segment) else { continue };
                visit(&*log.ledger().view()?, 0, &mut |seq, _, entry| {
                    if entry.kind == Kind::Receipt
                        && let Some(found) = sought.remove(&(number, entry.record::<Receipt>(seq)?.call))
                    {
                        found.at = Some((segment, seq));
                    }
                    Ok(())
                })?;
            }
        }
        Ok(())
    }

    /// Proves a receipt.
    pub fn prove(&mut self, found: &FoundReceipt, with_proof: bool) -> Result<Proved, String> {
        let running = self.archive.sources[found.source].running.is_some();
        let unsealed = || {
            let why = if running {
                "no checkpoint is signed over it yet, although its guard runs: see what that says of its receipts"
            } else {
                "no checkpoint is signed over it yet: its guard ended before; it is signed when a guard starts again"
            };
            Error::Unsealed(why).to_string()
        };
        let (segment, seq) = found.at.ok_or_else(unsealed)?;
        let opened = self.segment(found.source, segment).as_ref().map_err(Clone::clone)?;
        let checkpoint_size = opened.checkpoint.size;
        if seq >= checkpoint_size {
            return Err(unsealed());
        }
        if opened.adds_up && !with_proof {
            return Ok(Proved { seq, checkpoint_size, proof: None });
        }
        let proof = opened.proof(seq).map_err(|error| error.to_string())?;
        Ok(Proved { seq, checkpoint_size, proof: with_proof.then(|| proof.to_text()) })
    }

    /// The digests of a call's parts, as far as they are there.
    pub fn parts(&mut self, found: &FoundReceipt) -> PartDigests {
        let mut read = || {
            let opened = self.segment(found.source, found.at?.0).as_ref().ok()?;
            digest_rows::read(&*opened.log.ledger().view().ok()?, found.receipt.call)
        };
        read().unwrap_or_default()
    }
}

fn open(archive: &Archive, source: usize, number: u64) -> Result<Opened, Error> {
    let log = archive.sources[source].segment(number)?;
    let view = log.ledger().view()?;
    let note = view.checkpoint()?.unwrap_or_default();
    let checkpoint = Checkpoint::open(&note, &log.verifier)?;
    let mut leaves = Vec::new();
    visit(&*view, 0, &mut |seq, bytes, _| {
        if seq < checkpoint.size {
            leaves.push(merkle::leaf(bytes));
        }
        Ok(())
    })?;
    let mut edge = merkle::Edge::default();
    edge.extend(&leaves);
    let adds_up = edge.size() == checkpoint.size && edge.root()? == checkpoint.root;
    drop(view);
    Ok(Opened { log, note, checkpoint, adds_up })
}

impl Opened {
    /// The proof of one entry, verified.
    fn proof(&self, seq: u64) -> Result<InclusionProof, Error> {
        let verifier: &LogVerifier = &self.log.verifier;
        let view = self.log.ledger().view()?;
        let entry = view.entry(seq)?.unwrap_or_default();
        let hashes = proof::inclusion(self.checkpoint.size, seq, &*view)?;
        let proof = InclusionProof { entry, seq, hashes, checkpoint: self.note.clone() };
        proof.verify(verifier)?;
        Ok(proof)
    }
}
