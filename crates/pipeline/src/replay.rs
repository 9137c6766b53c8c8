//! Replay: every projection and every score event made again from seq 0, and compared byte for byte.
//!
//! The fold is the one that runs online ([`crate::projection`]), into temporary tables. Before a score event is applied,
//! the tables are what they were when it was made, so its bytes must come out again.

use std::ops::ControlFlow;

use credence_ledger::{Appended, Entry, Ledger, Scan, View, sqlite::Scratch, write};
use credence_protocol::TagRegistry;
use serde::Serialize;

use crate::{
    Result, derive, due, filter::Weights, projection, record::Record, score, statements::StatementBody,
    tables::projections,
};

/// Entries read at a time.
pub(crate) const ENTRIES_PER_CHUNK: usize = 2_048;
/// Differences that are listed; all are counted.
pub const MAX_LISTED: usize = 50;

/// Something that is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The entry concerned, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// What is wrong.
    pub what: String,
}

/// Findings: the first few, and how many there are.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Findings {
    /// All of them, counted.
    pub count: usize,
    /// The first [`MAX_LISTED`].
    pub listed: Vec<Finding>,
}

impl Findings {
    pub(crate) fn append(&mut self, other: Findings) {
        self.count += other.count;
        let room = MAX_LISTED.saturating_sub(self.listed.len());
        self.listed.extend(other.listed.into_iter().take(room));
    }

    /// The same, each saying that it is of `place`.
    pub(crate) fn named(mut self, place: &str) -> Self {
        for finding in &mut self.listed {
            let entry = finding.seq.take().map_or(String::new(), |seq| format!("entry {seq}: "));
            finding.what = format!("{place}: {entry}{}", finding.what);
        }
        self
    }

    /// Adds what is wrong and is about no entry.
    pub fn extend(&mut self, all: impl IntoIterator<Item = String>) {
        all.into_iter().for_each(|what| self.add(None, what));
    }

    pub(crate) fn add(&mut self, seq: impl Into<Option<u64>>, what: impl Into<String>) {
        self.count += 1;
        if self.listed.len() < MAX_LISTED {
            self.listed.push(Finding { seq: seq.into(), what: what.into() });
        }
    }
}

/// What a replay compared.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Replayed {
    /// Entries folded.
    pub entries: u64,
    /// Score events made again.
    pub score_events: u64,
    /// Rows compared.
    pub rows: u64,
    /// Where they differ.
    pub differences: Findings,
}

/// Replays everything in `view`; `progress` is told how many entries are done.
pub fn replay(view: &dyn View, tags: &TagRegistry, progress: &mut dyn FnMut(u64)) -> Result<Replayed> {
    let mut fold = Fold::new(view, tags)?;
    for_each_chunk(view, &mut |chunk| {
        for (seq, bytes) in chunk {
            match Entry::parse(*seq, bytes).and_then(|entry| Record::of(*seq, &entry).map(|record| (entry, record))) {
                Ok((entry, record)) => fold.step(*seq, &entry, &record)?,
                Err(damaged) => fold.report.differences.add(*seq, damaged.to_string()),
            }
        }
        fold.report.entries += chunk.len() as u64;
        progress(fold.report.entries);
        Ok(())
    })?;
    fold.finish()
}

/// Stored entries with their seq.
type Chunk = [(u64, Vec<u8>)];

/// Reads all entries, a chunk at a time.
pub(crate) fn for_each_chunk(view: &(impl View + ?Sized), visit: &mut dyn FnMut(&Chunk) -> Result<()>) -> Result<()> {
    let mut from = 0;
    loop {
        let mut chunk = Vec::with_capacity(ENTRIES_PER_CHUNK);
        view.entries(from, &mut |seq, bytes| {
            chunk.push((seq, bytes.to_vec()));
            if chunk.len() == ENTRIES_PER_CHUNK { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        let Some((last, _)) = chunk.last() else { return Ok(()) };
        from = last + 1;
        visit(&chunk)?;
    }
}

/// The fold in progress.
pub(crate) struct Fold<'a> {
    live: &'a dyn View,
    pub(crate) scratch: Scratch<'a>,
    tags: &'a TagRegistry,
    /// Of the folded sources; read again after a source changed.
    weights: Option<Weights>,
    pub(crate) report: Replayed,
}

impl<'a> Fold<'a> {
    pub(crate) fn new(live: &'a dyn View, tags: &'a TagRegistry) -> Result<Self> {
        let scratch = Scratch::new(live, projections())?;
        Ok(Self { live, scratch, tags, weights: None, report: Replayed::default() })
    }

    /// Folds one entry in; a score event is made again first.
    pub(crate) fn step(&mut self, seq: u64, entry: &Entry, record: &Record) -> Result<()> {
        let moment = Appended { seq, recorded_at: entry.recorded_at };
        match record {
            Record::Source(_) | Record::KeyRevocation(_) | Record::Tag(_) => self.weights = None,
            Record::Statement(stated) if matches!(stated.body, StatementBody::Summary(..)) => self.weights = None,
            Record::Signal(signal) => {
                if let Some(wrong) = derive::wrong(&self.scratch, signal, moment)? {
                    self.report.differences.add(seq, wrong);
                }
            }
            Record::Withdrawal(withdrawal) => {
                if let Some(wrong) = derive::wrongly_withdrawn(&self.scratch, withdrawal, entry.recorded_at)? {
                    self.report.differences.add(seq, wrong);
                }
            }
            Record::Score(event) => {
                let weights = match &self.weights {
                    Some(weights) => weights,
                    None => self.weights.insert(Weights::read(&self.scratch)?),
                };
                let again = score::recorded_again(&self.scratch, moment, &entry.subject, event, weights, self.tags);
                self.report.score_events += 1;
                if event.as_of() > seq {
                    self.report
                        .differences
                        .add(seq, format!("the score event claims to have seen {} entries", event.as_of()));
                }
                match again {
                    Ok(again) if again.as_str() == entry.body() => {}
                    Ok(again) => {
                        let place = first_difference(entry.body(), again.as_str());
                        let what = format!("the score event of '{}' does not come out again: {place}", entry.subject);
                        self.report.differences.add(seq, what);
                    }
                    Err(error) => {
                        self.report.differences.add(seq, format!("the score event cannot be made again: {error}"))
                    }
                }
            }
            _ => {}
        }
        projection::apply(&mut self.scratch, moment, &entry.subject, record)
    }

    /// Compares every table, row by row.
    pub(crate) fn finish(mut self) -> Result<Replayed> {
        for table in projections() {
            let mut failed = None;
            let mut rebuilt = 0_u64;
            let (live, report) = (self.live, &mut self.report);
            self.scratch.scan(*table, Scan::all(), &mut |key, bytes| {
                rebuilt += 1;
                match live.get(*table, key) {
                    Ok(Some(stored)) if stored == bytes => {}
                    Ok(Some(stored)) => {
                        let (stored, bytes) = (String::from_utf8_lossy(&stored), String::from_utf8_lossy(bytes));
                        report.differences.add(
                            None,
                            format!("table {}, row '{key}': {}", table.0, first_difference(&stored, &bytes)),
                        );
                    }
                    Ok(None) => report.differences.add(None, format!("table {}, row '{key}' is missing", table.0)),
                    Err(error) => {
                        failed = Some(error);
                        return ControlFlow::Break(());
                    }
                }
                ControlFlow::Continue(())
            })?;
            if let Some(error) = failed {
                return Err(error.into());
            }
            report.rows += rebuilt;
            let scratch = &self.scratch;
            live.scan(*table, Scan::all(), &mut |key, _| {
                if matches!(scratch.get(*table, key), Ok(None)) {
                    report.differences.add(None, format!("table {}, row '{key}' follows from no entry", table.0));
                }
                ControlFlow::Continue(())
            })?;
        }
        Ok(self.report)
    }
}

/// Where two texts part, with a little around it.
fn first_difference(stored: &str, again: &str) -> String {
    let at = stored.bytes().zip(again.bytes()).position(|(a, b)| a != b).unwrap_or(stored.len().min(again.len()));
    let around = |text: &str| {
        let bytes = text.as_bytes();
        let slice = &bytes[at.saturating_sub(24).min(bytes.len())..(at + 24).min(bytes.len())];
        String::from_utf8_lossy(slice).into_owned()
    };
    format!("stored …{}… but replay gives …{}…", around(stored), around(again))
}

/// Drops every projection and builds it again from the entries, in one transaction.
pub fn rebuild(ledger: &dyn Ledger) -> Result<u64> {
    write(ledger, |tx| {
        for table in projections() {
            let mut keys = Vec::new();
            tx.scan(*table, Scan::all(), &mut |key, _| {
                keys.push(key.to_owned());
                ControlFlow::Continue(())
            })?;
            keys.iter().try_for_each(|key| tx.delete(*table, key))?;
        }
        let size = tx.size()?;
        for seq in 0..size {
            let bytes = tx.entry(seq)?.unwrap_or_default();
            let entry = Entry::parse(seq, &bytes)?;
            let record = Record::of(seq, &entry)?;
            projection::apply(tx, Appended { seq, recorded_at: entry.recorded_at }, &entry.subject, &record)?;
        }
        // Which scores were due cannot be told from the entries: look at everyone, and record only what is new.
        tx.take_jobs(due::RESCORE, usize::MAX)?;
        due::rescore_everyone(tx, size)?;
        Ok(size)
    })
}
