//! The guard's own ledger: one receipt for each call, in segments.
//!
//! A receipt is in a [journal](crate::journal) before its result is forwarded, and in the database as soon as there is a moment
//! for it. The disk is asked to keep it, and a checkpoint is signed over it, at most a second later (ledger,
//! `Sealing::Batched`). When a segment is full the next one begins with the former's signed checkpoint; when all of them
//! together take more room than they may, the oldest is let go, and of it stays a file with its last checkpoint and the leaf of
//! every receipt, so that an exported receipt can be proved for ever.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use credence_ledger::{Kind, Ledger, LogVerifier, NewEntry, SqliteLedger};
use credence_protocol::{
    Canonical, EntityId, SecretKey, Uuid,
    receipt::{Receipt, Salts},
};
use serde::{Deserialize, Serialize};

use crate::{
    Error, folder,
    journal::{self, Journal},
    rollup::Counted,
    segments::{
        PARTS, PRIVATE, Segment, begin, clock, folder_bytes, keep, kept_file, log_key, open_segment, options,
        segment_folder, segment_origin, segments,
    },
    warn,
};

/// Segments that the room for receipts is divided into.
const SEGMENTS: u64 = 8;
/// No segment is smaller.
const MIN_SEGMENT_BYTES: u64 = 64 * 1024;

/// What a guard keeps to itself of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Private {
    /// The salts of its commitments.
    pub salts: Salts,
    /// Finds it by its arguments: equal for equal ones, and only here.
    #[serde(default)]
    pub print: String,
}

/// Digests of the parts of a call's arguments and result: to say which of them a claim has changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Parts {
    /// Of the arguments, with their paths.
    pub arguments: Vec<(String, String)>,
    /// Of the result.
    pub result: Vec<(String, String)>,
}

/// One receipt to be written.
#[derive(Debug, Clone)]
pub struct NewReceipt {
    /// What is in the ledger.
    pub receipt: Receipt,
    /// What is beside it.
    pub private: Private,
}

/// A made-up result and what was thought of it, as an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CanaryRecord {
    /// The call whose result it was made of.
    pub call: Uuid,
    /// The agent, as in the receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<EntityId>,
    /// What was made up.
    pub fabrication: String,
    /// It was not accepted.
    pub caught: bool,
}

/// Writes receipts.
pub struct Recorder {
    folder: PathBuf,
    origin: String,
    key: SecretKey,
    subject: EntityId,
    max_bytes: u64,
    current: Mutex<Segment>,
    waiting: Mutex<Waiting>,
}

/// Receipts that are in the journal and not in the ledger yet.
struct Waiting {
    journal: Journal,
    rows: Arc<Vec<Row>>,
    /// Since when there are any.
    since: Instant,
    /// They could not be moved: no more are taken until they are.
    behind: bool,
}

impl Waiting {
    fn hold(&mut self, rows: Vec<Row>) {
        self.rows = Arc::new(rows);
        self.since = Instant::now();
    }
}

/// A receipt, as it is written.
struct Row {
    entry: NewEntry,
    call: String,
    private: String,
    counts: Option<Counted>,
}

/// What goes with receipts into the ledger and may get lost.
#[derive(Default)]
pub struct Beside {
    /// Digests of values' parts, by call.
    pub parts: Vec<(Uuid, Parts)>,
    /// Made-up results that were judged.
    pub canaries: Vec<CanaryRecord>,
}

impl Beside {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.canaries.is_empty()
    }
}

impl Recorder {
    /// Goes on with the receipts in `folder`, or begins.
    pub fn open(
        folder: &Path,
        origin: &str,
        provider: &EntityId,
        key: &SecretKey,
        max_bytes: u64,
    ) -> Result<Self, Error> {
        let folder = folder.join("receipts");
        folder::make(&folder)?;
        let newest = segments(&folder)?.into_iter().filter(|(_, there)| *there).map(|(number, _)| number).max();
        let waiting =
            Waiting { journal: Journal::open(&folder)?, rows: Arc::default(), since: Instant::now(), behind: false };
        let recorder = |current| Self {
            folder: folder.clone(),
            origin: origin.to_owned(),
            key: key.clone(),
            subject: provider.clone(),
            max_bytes,
            current: Mutex::new(current),
            waiting: Mutex::new(waiting),
        };
        let of = |number: u64| (options(&folder, number), log_key(origin, number, key));
        let recorder = match newest {
            Some(number) => {
                let (options, log) = of(number);
                let bytes = fs::metadata(&options.path).map_or(0, |meta| meta.len());
                match SqliteLedger::open(options, log?, clock()) {
                    Ok(ledger) => recorder(Segment { number, ledger: Arc::new(ledger), bytes }),
                    Err(error @ (credence_ledger::Error::Full(_) | credence_ledger::Error::Locked { .. })) => {
                        return Err(error.into());
                    }
                    // Left as it is, for `credence receipts verify` to show: calls go on, with receipts.
                    Err(error) => {
                        warn(&format!("segment {number} of the receipts cannot be used, another is begun: {error}"));
                        recorder(begin(&folder, origin, key, provider, number + 1, None)?)
                    }
                }
            }
            None => {
                let begun = segments(&folder)?.last().map_or(1, |(number, _)| number + 1);
                recorder(begin(&folder, origin, key, provider, begun, None)?)
            }
        };
        recorder.recover()?;
        Ok(recorder)
    }

    /// Takes what a guard that was killed has left in the journal.
    fn recover(&self) -> Result<(), Error> {
        let journal::Waiting { receipts, unreadable } = journal::read(&self.folder)?;
        if unreadable > 0 {
            let aside = self.waiting().journal.put_aside()?;
            warn(&format!(
                "{unreadable} receipts in the journal cannot be read: it is put aside as {}",
                aside.display()
            ));
        }
        let mut rows = Vec::new();
        for new in &receipts {
            rows.push(self.row(new)?);
        }
        // It may have been killed after they had moved, and before the journal was emptied.
        for number in if rows.is_empty() { Vec::new() } else { self.segments()? } {
            let Ok(ledger) = self.segment(number) else { continue };
            let view = ledger.view()?;
            let mut there = Vec::with_capacity(rows.len());
            for row in &rows {
                there.push(view.get(PRIVATE, &row.call)?.is_some());
            }
            let mut there = there.into_iter();
            rows.retain(|_| !there.next().unwrap_or_default());
        }
        self.waiting().hold(rows);
        if let Err(error) = self.settle(Beside::default()) {
            warn(&format!("{} receipts stay in the journal: {error}", self.unsettled()));
        }
        Ok(())
    }

    /// The numbers of the segments that are there, in order.
    pub fn segments(&self) -> Result<Vec<u64>, Error> {
        Ok(segments(&self.folder)?.into_iter().filter(|(_, there)| *there).map(|(number, _)| number).collect())
    }

    /// A segment, to read.
    pub fn segment(&self, number: u64) -> Result<Arc<SqliteLedger>, Error> {
        let (current, ledger) = self.current();
        if number == current {
            return Ok(ledger);
        }
        Ok(Arc::new(open_segment(&self.folder, number, &self.origin, &self.key.public(), true)?))
    }

    /// The segment that is written to: its number and ledger.
    pub fn current(&self) -> (u64, Arc<SqliteLedger>) {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        (current.number, Arc::clone(&current.ledger))
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn row(&self, NewReceipt { receipt, private }: &NewReceipt) -> Result<Row, Error> {
        let subject = receipt.agent.clone().unwrap_or_else(|| self.subject.clone());
        let entry = NewEntry { kind: Kind::Receipt, subject, body: receipt.canonical()?, weight: None };
        let private = serde_json::to_string(private).map_err(|e| Error::Receipts(e.to_string()))?;
        Ok(Row { entry, call: receipt.call.to_string(), private, counts: Counted::of(receipt) })
    }

    /// Writes receipts into the journal. When it returns they outlive this process.
    pub fn record<'a>(&self, receipts: impl ExactSizeIterator<Item = &'a NewReceipt>) -> Result<(), Error> {
        let rows = receipts.map(|new| self.row(new)).collect::<Result<Vec<Row>, Error>>()?;
        let mut lines = Vec::with_capacity(1024 * rows.len());
        rows.iter().for_each(|row| journal::line(&mut lines, row.entry.body.as_bytes(), row.private.as_bytes()));
        let mut waiting = self.waiting();
        let Waiting { journal, rows: held, since, .. } = &mut *waiting;
        // A transaction that failed is over, and holds nothing any more.
        let held =
            Arc::get_mut(held).ok_or_else(|| Error::Receipts("earlier ones are still being written".to_owned()))?;
        journal.append(&lines)?;
        if held.is_empty() {
            *since = Instant::now();
        }
        held.extend(rows);
        Ok(())
    }

    /// How many receipts are in the journal alone.
    pub fn unsettled(&self) -> usize {
        self.waiting().rows.len()
    }

    /// For how long receipts have been in the journal alone; `None` where there are none, or where they cannot be moved.
    pub fn unsettled_for(&self) -> Option<Duration> {
        let waiting = self.waiting();
        (!waiting.rows.is_empty() && !waiting.behind).then(|| waiting.since.elapsed())
    }

    /// Whether receipts could not be moved from the journal to the ledger: no more should be taken until [`Self::settle`] has.
    pub fn is_behind(&self) -> bool {
        self.waiting().behind
    }

    /// Moves what is in the journal into the ledger, with what goes beside it. Gives what of it counts.
    pub fn settle(&self, beside: Beside) -> Result<Vec<Counted>, Error> {
        let mut entries = Vec::with_capacity(beside.canaries.len());
        for canary in &beside.canaries {
            let subject = canary.agent.clone().unwrap_or_else(|| self.subject.clone());
            entries.push(NewEntry { kind: Kind::Canary, subject, body: Canonical::of(canary)?, weight: None });
        }
        let mut parts = Vec::with_capacity(beside.parts.len());
        for (call, digests) in &beside.parts {
            parts.push((call.to_string(), serde_json::to_string(digests).map_err(|e| Error::Receipts(e.to_string()))?));
        }
        let mut waiting = self.waiting();
        let rows = Arc::clone(&waiting.rows);
        let bytes = rows.iter().map(|row| 2 * (row.entry.body.as_bytes().len() + row.private.len()) as u64).sum();
        let written = self.room_for(bytes).and_then(|ledger| {
            let rows = Arc::clone(&rows);
            let work = move |tx: &mut dyn credence_ledger::Transaction| {
                for row in rows.iter() {
                    tx.append(&row.entry)?;
                    tx.put(PRIVATE, &row.call, &row.private)?;
                }
                entries.iter().try_for_each(|entry| tx.append(entry).map(drop))?;
                parts.iter().try_for_each(|(call, parts)| tx.put(PARTS, call, parts))
            };
            Ok(credence_ledger::write(&*ledger, work)?)
        });
        waiting.behind = written.is_err() && !rows.is_empty();
        written?;
        self.current.lock().unwrap_or_else(PoisonError::into_inner).bytes += bytes;
        // Left as it is, what is in the ledger already is not taken from it again.
        if let Err(error) = waiting.journal.clear() {
            warn(&format!("the journal cannot be emptied: {error}"));
        }
        waiting.hold(Vec::new());
        drop(waiting);
        Ok(rows.iter().filter_map(|row| row.counts.clone()).collect())
    }

    /// The ledger for so many more bytes; begins another segment when this one is full.
    fn room_for(&self, bytes: u64) -> Result<Arc<SqliteLedger>, Error> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.bytes > 0 && current.bytes + bytes > (self.max_bytes / SEGMENTS).max(MIN_SEGMENT_BYTES) {
            current.ledger.flush()?;
            let previous = current.ledger.view()?.checkpoint()?;
            let number = current.number + 1;
            *current = begin(&self.folder, &self.origin, &self.key, &self.subject, number, previous)?;
            if let Err(error) = self.let_go(number) {
                warn(&format!("old receipts could not be let go: {error}"));
            }
        }
        Ok(Arc::clone(&current.ledger))
    }

    /// Lets go of the oldest segments until the rest have room.
    fn let_go(&self, newest: u64) -> Result<(), Error> {
        let size = |number: u64| folder_bytes(&segment_folder(&self.folder, number));
        let there: Vec<u64> =
            segments(&self.folder)?.into_iter().filter(|(_, there)| *there).map(|(number, _)| number).collect();
        let mut total: u64 = there.iter().map(|number| size(*number)).sum();
        for number in there {
            // The one before the newest stays: whoever reads it now may still need it.
            if total <= self.max_bytes || number + 1 >= newest {
                break;
            }
            let bytes = size(number);
            if let Err(error) = self.let_go_of(number) {
                // Left as it is, for `credence receipts verify` to show; the next one makes room.
                warn(&format!("segment {number} cannot be let go: {error}"));
                continue;
            }
            total -= bytes;
        }
        Ok(())
    }

    fn let_go_of(&self, number: u64) -> Result<(), Error> {
        let log = LogVerifier::of(&segment_origin(&self.origin, number), &self.key.public())?;
        let ledger = SqliteLedger::open_read_only(options(&self.folder, number), log)?;
        let kept = keep(&ledger)?;
        let text = serde_json::to_vec(&kept).map_err(|e| Error::Receipts(e.to_string()))?;
        folder::replace(&kept_file(&self.folder, number), &text)?;
        drop(ledger);
        let path = segment_folder(&self.folder, number);
        fs::remove_dir_all(&path).map_err(|e| Error::Io(path, e))
    }

    /// Signs a checkpoint over everything, and has the disk keep it.
    pub fn flush(&self) -> Result<(), Error> {
        Ok(self.current().1.flush()?)
    }
}
