//! A guard's receipts: one for each call, in segments. This is the front of the crate.
//!
//! A receipt is in the [`journal`] before its result is forwarded, and in the database as soon as there is a moment
//! for it. The disk is asked to keep it, and a checkpoint is signed over it, at most a second later (ledger,
//! `Sealing::Batched`). When a segment is full the next one begins with the former's signed checkpoint; when all of them
//! together take more room than they may, the oldest is dropped, and of it stays a file with its last checkpoint and the leaf of
//! every receipt, so that an exported receipt can be proved for ever.

mod pending;
mod rotation;

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use credence_ledger::{Kind, NewEntry, sqlite::Sealing};
use credence_protocol::{Canonical, EntityId, SecretKey, Timestamp, Uuid, receipt::Receipt};
use serde::{Deserialize, Serialize};

use crate::{
    Archive, Clock, Error, FoundReceipt, Warn,
    archive::Source,
    digest_rows::DigestRow,
    export::ExportedReceipt,
    folder::{self, Place},
    journal::{self, Journal, JournalContents, JournalKey},
    now,
    operation_journal::{self, OperationJournal},
    records::{CanaryRecord, ControlRecord, CountedCall, Intent, NewReceipt, PartDigests, Private, unanswered},
    segments::{CANARIES, PRIVATE, SegmentLog, SegmentWriter, origin, segments, visit},
};
use pending::{PendingRows, ReceiptRow, Rows, ShadowRow};
use rotation::CurrentSegment;

/// Bytes of receipts kept, over all segments: about a million receipts.
pub const DEFAULT_MAX_BYTES: u64 = 2 * 1024 * 1024 * 1024;
/// How a book is opened.
#[derive(Clone)]
pub struct BookSettings {
    /// The guard's place.
    pub place: PathBuf,
    /// The place's number.
    pub number: u32,
    /// The server's name.
    pub server: String,
    /// Under whose name the log is signed.
    pub provider: EntityId,
    /// The provider's key.
    pub key: SecretKey,
    /// Bytes kept, over all segments.
    pub max_bytes: u64,
    /// Nothing waits for the disk: for receipts that need not outlive the process.
    pub volatile: bool,
    /// Stamps the entries.
    pub clock: Clock,
    /// Tells the operator.
    pub warn: Warn,
}

impl BookSettings {
    /// The receipts of `server` in `place`, with the time of day as their clock, and silent.
    pub fn new(place: &Place, server: &str, provider: EntityId, key: SecretKey) -> Self {
        Self {
            place: place.folder.clone(),
            number: place.number,
            server: server.to_owned(),
            provider,
            key,
            max_bytes: DEFAULT_MAX_BYTES,
            volatile: false,
            clock: Arc::new(now),
            warn: Arc::new(|_| ()),
        }
    }
}

/// One guard's receipts: recorded, sealed, read and proved.
pub struct ReceiptBook {
    writer: SegmentWriter,
    source: Source,
    max_bytes: u64,
    current: Mutex<CurrentSegment>,
    pending: Mutex<PendingRows>,
    warn: Warn,
    recovered: Recovered,
}

/// Lines of the journal that could not be taken over when the book was opened. They are put aside and not signed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Lines that cannot be read.
    pub unreadable: usize,
    /// Lines that this guard did not write, or that were changed.
    pub forged: usize,
    /// A segment that could not be used, so that another was begun.
    pub unusable_segment: Option<u64>,
}

/// How far receipts reach: a segment, and how many entries of it. JSON: `[segment, entries]`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position(pub u64, pub u64);

/// An entry that counts.
#[derive(Debug, Clone, PartialEq)]
pub enum BookEntry {
    /// A receipt.
    Receipt(Box<Receipt>),
    /// A canary.
    Canary(CanaryRecord),
    /// A control.
    Control(ControlRecord),
}

/// What [`ReceiptBook::flush_journal`] moved into the ledger.
#[derive(Debug, Default)]
pub struct Flushed {
    /// What summaries count of the receipts.
    pub calls: Vec<CountedCall>,
    /// The canaries.
    pub canaries: Vec<CanaryRecord>,
    /// The controls.
    pub controls: Vec<ControlRecord>,
}

/// How a book is doing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BookStatus {
    /// The log's name, with the segment that is written to.
    pub log: String,
    /// How far the ledger reaches.
    pub position: Position,
    /// Records in the journal alone.
    pub in_journal: usize,
    /// They could not be moved into the ledger.
    pub behind: bool,
}

impl ReceiptBook {
    /// Goes on with the receipts of a place, or begins. Takes over what a killed guard left in the journal.
    pub fn open(settings: BookSettings) -> Result<Self, Error> {
        let BookSettings { place, number, server, provider, key, max_bytes, volatile, clock, warn } = settings;
        let folder = place.join("receipts");
        folder::create_private(&folder)?;
        let origin = origin(&provider, &server, number);
        let source = Source {
            server,
            place: number,
            folder: folder.clone(),
            running: Some(std::process::id().to_string()),
            origin: origin.clone(),
            key: key.public(),
            journal_key: JournalKey::new(&key, &origin),
            operation_key: operation_journal::key(&key, &origin),
        };
        let sealing = if volatile { Sealing::Volatile } else { Sealing::Batched };
        let writer = SegmentWriter { folder: folder.clone(), origin, key, subject: provider, clock, sealing };
        let pending = PendingRows::new(Journal::open(&folder)?);
        let (current, unusable_segment) = CurrentSegment::open(&writer, &warn)?;
        let recovered = Recovered { unusable_segment, ..Recovered::default() };
        let (current, pending) = (Mutex::new(current), Mutex::new(pending));
        let mut book = Self { writer, source, max_bytes, current, pending, warn, recovered };
        (book.recovered.unreadable, book.recovered.forged) = book.recover()?;
        Ok(book)
    }

    /// What could not be taken over when the book was opened.
    pub fn recovered(&self) -> Recovered {
        self.recovered
    }

    /// Takes what a guard that was killed has left in the journal. Gives how many lines are unreadable, and how many forged.
    fn recover(&self) -> Result<(usize, usize), Error> {
        let JournalContents { intents, mut receipts, canaries, controls, unreadable, forged } =
            journal::read(&self.writer.folder, self.journal_key())?;
        if unreadable + forged > 0 {
            let aside = self.pending().journal.put_aside()?.display().to_string();
            if unreadable > 0 {
                self.warn(&format!("{unreadable} receipts in the journal cannot be read: it is put aside as {aside}"));
            }
            if forged > 0 {
                self.warn(&format!(
                    "{forged} lines in the journal were not written by this guard, or were changed: they are not signed; the \
                     journal is put aside as {aside}"
                ));
            }
        }
        receipts.extend(unanswered(intents, &receipts, "the guard ended before an answer came"));
        let mut rows = Rows {
            receipts: receipts.iter().map(|new| self.receipt_row(new)).collect::<Result<_, _>>()?,
            canaries: canaries.into_iter().map(|canary| self.canary_row(canary)).collect::<Result<_, _>>()?,
            controls: controls.into_iter().map(|control| self.control_row(control)).collect::<Result<_, _>>()?,
        };
        // It may have been killed after they had moved, and before the journal was emptied.
        for number in if rows.len() == 0 { Vec::new() } else { self.segments()? } {
            let Ok(segment) = self.segment(number) else { continue };
            let view = segment.ledger().view()?;
            let mut moved = std::collections::HashSet::new();
            for row in &rows.receipts {
                if view.get(PRIVATE, &row.call)?.is_some() {
                    moved.insert(row.call.clone());
                }
            }
            rows.receipts.retain(|row| !moved.contains(&row.call));
            moved.clear();
            let shadow = rows.canaries.iter().map(|row| &row.place).chain(rows.controls.iter().map(|row| &row.place));
            for place in shadow {
                if view.get(CANARIES, place)?.is_some() {
                    moved.insert(place.clone());
                }
            }
            rows.canaries.retain(|row| !moved.contains(&row.place));
            rows.controls.retain(|row| !moved.contains(&row.place));
        }
        self.pending().hold(rows);
        if let Err(error) = self.flush_journal(Vec::new()) {
            self.warn(&format!("{} receipts stay in the journal: {error}", self.in_journal()));
        }
        Ok((unreadable, forged))
    }

    fn warn(&self, text: &str) {
        (self.warn)(text);
    }

    fn current(&self) -> MutexGuard<'_, CurrentSegment> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pending(&self) -> MutexGuard<'_, PendingRows> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The folder of the receipts.
    pub(crate) fn folder(&self) -> &std::path::Path {
        &self.writer.folder
    }

    pub(crate) fn subject(&self, agent: Option<&EntityId>) -> EntityId {
        agent.unwrap_or(&self.writer.subject).clone()
    }

    fn receipt_row(&self, NewReceipt { receipt, private }: &NewReceipt) -> Result<ReceiptRow, Error> {
        let subject = self.subject(receipt.agent.as_ref());
        let entry = NewEntry { kind: Kind::Receipt, subject, body: receipt.canonical()?, weight: None };
        let private = serde_json::to_string(private)?;
        Ok(ReceiptRow {
            entry,
            id: receipt.call,
            call: receipt.call.to_string(),
            private,
            counted: CountedCall::of(receipt),
        })
    }

    fn canary_row(&self, record: CanaryRecord) -> Result<ShadowRow<CanaryRecord>, Error> {
        let subject = self.subject(record.agent.as_ref());
        let entry = NewEntry { kind: Kind::Canary, subject, body: Canonical::of(&record)?, weight: None };
        Ok(ShadowRow { entry, place: record.call.to_string(), record })
    }

    fn control_row(&self, record: ControlRecord) -> Result<ShadowRow<ControlRecord>, Error> {
        let subject = self.subject(record.agent.as_ref());
        let entry = NewEntry { kind: Kind::Control, subject, body: Canonical::of(&record)?, weight: None };
        Ok(ShadowRow { entry, place: format!("control/{}", record.call), record })
    }

    /// What people did to this guard and it has not taken up yet.
    pub fn operation_journal(&self) -> OperationJournal {
        self.source.operation_journal()
    }

    fn journal_key(&self) -> &JournalKey {
        &self.source.journal_key
    }

    /// Writes into the journal that these calls are about to be forwarded. When it returns, each of them ends with a receipt: the
    /// one that is [recorded](Self::record) later, or one that says that no answer came.
    pub fn begin<'a>(&self, calls: impl Iterator<Item = (&'a Intent, &'a Private)>) -> Result<(), Error> {
        let (mut lines, mut under_way) = (Vec::new(), Vec::new());
        for (intent, private) in calls {
            let begins = lines.len();
            let (written, private) = (serde_json::to_vec(intent)?, serde_json::to_vec(private)?);
            self.journal_key().push_intent(&mut lines, &written, &private);
            under_way.push((intent.call, lines[begins..].to_vec()));
        }
        let mut pending = self.pending();
        pending.journal.append(&lines)?;
        pending.under_way.extend(under_way);
        Ok(())
    }

    /// Asks the disk to keep what is in the journal. Calls go on meanwhile.
    pub fn sync_journal(&self) -> Result<(), Error> {
        let file = self.pending().journal.to_sync();
        let synced = file.map_or(Ok(()), |file| file.sync_data());
        synced.map_err(|e| Error::Io(self.writer.folder.clone(), e))
    }

    /// Calls that were forwarded and have no receipt yet.
    pub fn under_way(&self) -> usize {
        self.pending().under_way.len()
    }

    /// Writes receipts into the journal. When it returns they outlive this process.
    pub fn record<'a>(&self, receipts: impl ExactSizeIterator<Item = &'a NewReceipt>) -> Result<(), Error> {
        let rows = receipts.map(|new| self.receipt_row(new)).collect::<Result<Vec<_>, Error>>()?;
        let mut lines = Vec::with_capacity(1024 * rows.len());
        for row in &rows {
            self.journal_key().push_receipt(&mut lines, row.entry.body.as_bytes(), row.private.as_bytes());
        }
        let mut pending = self.pending();
        let calls: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
        pending.append(&lines, |pending| pending.receipts.extend(rows))?;
        for call in calls {
            pending.under_way.remove(&call);
        }
        Ok(())
    }

    /// Writes what was judged in shadow into the journal.
    pub fn record_shadow(&self, canaries: &[CanaryRecord], controls: &[ControlRecord]) -> Result<(), Error> {
        let canaries = canaries.iter().map(|one| self.canary_row(one.clone())).collect::<Result<Vec<_>, Error>>()?;
        let controls = controls.iter().map(|one| self.control_row(one.clone())).collect::<Result<Vec<_>, Error>>()?;
        let mut lines = Vec::with_capacity(256 * (canaries.len() + controls.len()));
        canaries.iter().for_each(|row| self.journal_key().push_canary(&mut lines, row.entry.body.as_bytes()));
        controls.iter().for_each(|row| self.journal_key().push_control(&mut lines, row.entry.body.as_bytes()));
        self.pending().append(&lines, |pending| {
            pending.canaries.extend(canaries);
            pending.controls.extend(controls);
        })
    }

    /// How many records are in the journal alone.
    pub fn in_journal(&self) -> usize {
        self.pending().rows.len()
    }

    /// For how long records have been in the journal alone; `None` where there are none, or where they cannot be moved.
    pub fn in_journal_for(&self) -> Option<Duration> {
        let pending = self.pending();
        (pending.rows.len() > 0 && !pending.behind).then(|| pending.since.elapsed())
    }

    /// Whether records could not be moved from the journal to the ledger: record no more until [`Self::flush_journal`] succeeds.
    pub fn is_behind(&self) -> bool {
        self.pending().behind
    }

    /// Moves what is in the journal into the ledger, with the digests of parts, which are lost if this fails.
    pub fn flush_journal(&self, parts: Vec<(Uuid, PartDigests)>) -> Result<Flushed, Error> {
        let digests =
            parts.iter().map(|(call, parts)| DigestRow::of(*call, parts)).collect::<Result<Vec<_>, Error>>()?;
        let mut pending = self.pending();
        let rows = Arc::clone(&pending.rows);
        let bytes = rows.bytes();
        let written = self.segment_with_room(bytes).and_then(|segment| {
            let rows = Arc::clone(&rows);
            let work = move |tx: &mut dyn credence_ledger::Transaction| {
                for row in &rows.receipts {
                    tx.append(&row.entry)?;
                    tx.put(PRIVATE, &row.call, &row.private)?;
                }
                let canaries = rows.canaries.iter().map(|row| (&row.entry, &row.place));
                for (entry, place) in canaries.chain(rows.controls.iter().map(|row| (&row.entry, &row.place))) {
                    tx.append(entry)?;
                    tx.put(CANARIES, place, "1")?;
                }
                digests.iter().try_for_each(|row| row.put(tx))
            };
            Ok(credence_ledger::write(segment.ledger(), work)?)
        });
        pending.behind = written.is_err() && rows.len() > 0;
        written?;
        self.current().bytes += bytes;
        // Left as it is, what is in the ledger already is not taken from it again.
        if let Err(error) = pending.clear_journal() {
            self.warn(&format!("the journal cannot be emptied: {error}"));
        }
        pending.hold(Rows::default());
        drop(pending);
        Ok(Flushed {
            calls: rows.receipts.iter().filter_map(|row| row.counted.clone()).collect(),
            canaries: rows.canaries.iter().map(|row| row.record.clone()).collect(),
            controls: rows.controls.iter().map(|row| row.record.clone()).collect(),
        })
    }

    /// Signs a checkpoint over everything in the ledger, and has the disk keep it.
    pub fn seal(&self) -> Result<(), Error> {
        let segment = self.current_log();
        Ok(segment.ledger().flush()?)
    }

    /// The newest signed checkpoint.
    pub fn checkpoint(&self) -> Result<Option<String>, Error> {
        let segment = self.current_log();
        let checkpoint = segment.ledger().view()?.checkpoint()?;
        Ok(checkpoint)
    }

    /// How far the ledger reaches.
    pub fn position(&self) -> Result<Position, Error> {
        let segment = self.current_log();
        Ok(Position(segment.number, segment.ledger().committed()?))
    }

    /// The numbers of the segments that are there, in order.
    pub fn segments(&self) -> Result<Vec<u64>, Error> {
        let all = segments(&self.writer.folder)?;
        Ok(all.into_iter().filter(|(_, there)| *there).map(|(number, _)| number).collect())
    }

    /// Opens a segment anew, for reading; refused where its entries, tiles and checkpoint do not agree.
    pub fn open_checked(&self, number: u64) -> Result<SegmentLog, Error> {
        self.source.segment(number)
    }

    /// The segment that is written to.
    pub fn current_log(&self) -> SegmentLog {
        self.current().log.clone()
    }

    /// A segment, for reading.
    pub(crate) fn segment(&self, number: u64) -> Result<SegmentLog, Error> {
        let current = self.current_log();
        if number == current.number {
            return Ok(current);
        }
        self.source.segment(number)
    }

    /// Calls `each` with the receipts and canaries after `from`, in whichever segment, and when they were recorded. Gives how far
    /// that reached. The operator is told of a segment that cannot be read.
    pub fn visit_from(&self, from: Position, each: &mut dyn FnMut(BookEntry, Timestamp)) -> Result<Position, Error> {
        let mut reached = from;
        for number in self.segments()?.into_iter().filter(|number| *number >= from.0) {
            let segment = match self.segment(number) {
                Ok(segment) => segment,
                // `credence receipts verify` shows it.
                Err(error) => {
                    self.warn(&format!(
                        "the receipts of segment {number} that were not counted yet are not counted: {error}"
                    ));
                    continue;
                }
            };
            let view = segment.ledger().view()?;
            let first = if number == from.0 { from.1 } else { 0 };
            visit(&*view, first, &mut |seq, _, entry| {
                match entry.kind {
                    Kind::Receipt => each(BookEntry::Receipt(entry.record(seq)?), entry.recorded_at),
                    Kind::Canary => each(BookEntry::Canary(entry.record(seq)?), entry.recorded_at),
                    Kind::Control => each(BookEntry::Control(entry.record(seq)?), entry.recorded_at),
                    _ => {}
                }
                Ok(())
            })?;
            reached = Position(number, view.size()?);
        }
        Ok(reached)
    }

    /// This book's receipts, to be searched and compared with claims.
    pub fn archive(&self) -> Archive {
        Archive::of(vec![self.source.clone()])
    }

    /// The receipt of a call.
    pub fn find(&self, call: Uuid) -> Result<Option<FoundReceipt>, Error> {
        Ok(self.archive().find(call)?.map(|(found, _)| found))
    }

    /// The receipt of a call with everything to check it elsewhere; `disclose` adds the salts. `None` where there is no receipt.
    pub fn prove(&self, call: Uuid, disclose: bool) -> Result<Option<ExportedReceipt>, Error> {
        let archive = self.archive();
        let Some((found, private)) = archive.find(call)? else { return Ok(None) };
        archive.export(&found, private.as_ref(), disclose).map(Some)
    }

    /// How the book is doing.
    pub fn status(&self) -> Result<BookStatus, Error> {
        let segment = self.current_log();
        let (in_journal, behind) = {
            let pending = self.pending();
            (pending.rows.len(), pending.behind)
        };
        let position = Position(segment.number, segment.ledger().committed()?);
        Ok(BookStatus { log: segment.name().to_owned(), position, in_journal, behind })
    }
}
