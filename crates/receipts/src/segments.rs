//! The segments of a guard's receipts, on disk: each is a ledger and a log of its own, in a folder of its own; of a segment that was
//! dropped, a file stays. This is the only place of the crate that knows which database a segment is.

use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

use credence_ledger::{
    Entry, Kind, Ledger, LogKey, LogVerifier, NewEntry, OutsideCheckpoint, SqliteLedger, Table, View, merkle,
    sqlite::{Options, Sealing},
};
use credence_protocol::{Canonical, EntityId, PublicKey, SecretKey, Timestamp, Uuid, receipt::Receipt};
use serde::{Deserialize, Serialize};

use crate::{Clock, Error, folder, now};

/// Salts by call: what stays with the guard.
pub const PRIVATE: Table = Table("private");
/// Digests of values' parts by call.
pub const PARTS: Table = Table("parts");
/// Calls that have a canary, under `control/` those that have a control, and under `operation/` ids of operations: tells whether one that is in the journal is in the
/// ledger, too.
pub const CANARIES: Table = Table("canaries");

/// Where a segment begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SegmentRecord {
    /// Its number, from 1.
    pub segment: u64,
    /// The last checkpoint of the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
}

/// What is left of a segment that was dropped: enough to prove an exported receipt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SegmentRemains {
    /// The log's name and key.
    pub log_key: String,
    /// Its last checkpoint.
    pub checkpoint: String,
    /// When its last entry was recorded.
    pub until: Timestamp,
    /// The leaf of every entry, base64, and the call of those that were receipts.
    pub entries: Vec<(String, Option<Uuid>)>,
}

/// A segment, open.
#[derive(Clone)]
pub struct SegmentLog {
    /// Its number.
    pub number: u64,
    /// Verifies its checkpoints; holds the log's name.
    pub verifier: LogVerifier,
    ledger: Arc<dyn Ledger>,
}

impl SegmentLog {
    fn of(number: u64, ledger: SqliteLedger) -> Self {
        Self { number, verifier: ledger.verifier().clone(), ledger: Arc::new(ledger) }
    }

    /// The entries, and the tables beside them.
    pub fn ledger(&self) -> &dyn Ledger {
        &*self.ledger
    }

    /// The log's name.
    pub fn name(&self) -> &str {
        self.verifier.origin()
    }
}

/// Who writes segments, and how.
#[derive(Clone)]
pub(crate) struct SegmentWriter {
    /// The folder of the receipts.
    pub folder: PathBuf,
    /// The log's name without the segment.
    pub origin: String,
    /// Signs the checkpoints.
    pub key: SecretKey,
    /// Whom entries are about that name no agent.
    pub subject: EntityId,
    /// Stamps the entries.
    pub clock: Clock,
    /// When entries are sealed under a checkpoint.
    pub sealing: Sealing,
}

impl SegmentWriter {
    fn log_key(&self, number: u64) -> Result<LogKey, Error> {
        Ok(LogKey::new(&segment_origin(&self.origin, number), &self.key)?)
    }

    fn options(&self, number: u64) -> Options {
        options(&self.folder, number, self.sealing)
    }

    /// Begins a segment.
    pub fn begin(&self, number: u64, previous: Option<String>) -> Result<SegmentLog, Error> {
        let place = segment_folder(&self.folder, number);
        folder::create_private(&place)?;
        let begun = self.begin_in_folder(number, previous);
        if begun.is_err() {
            // Nothing half-made stays behind: the next call tries again.
            let _ = fs::remove_dir_all(&place);
        }
        begun
    }

    fn begin_in_folder(&self, number: u64, previous: Option<String>) -> Result<SegmentLog, Error> {
        let ledger = SqliteLedger::create(self.options(number), self.log_key(number)?, Arc::clone(&self.clock))?;
        let body = Canonical::of(&SegmentRecord { segment: number, previous })?;
        let entry = NewEntry { kind: Kind::Segment, subject: self.subject.clone(), body, weight: None };
        credence_ledger::write(&ledger, move |tx| tx.append(&entry).map(drop))?;
        ledger.flush()?;
        Ok(SegmentLog::of(number, ledger))
    }

    /// Goes on with a segment. Gives the bytes it takes, too.
    pub fn resume(&self, number: u64) -> Result<(SegmentLog, u64), Error> {
        let options = self.options(number);
        let bytes = fs::metadata(&options.path).map_or(0, |meta| meta.len());
        let ledger = SqliteLedger::open(options, self.log_key(number)?, Arc::clone(&self.clock))?;
        Ok((SegmentLog::of(number, ledger), bytes))
    }
}

/// What stays of a segment that is dropped.
pub(crate) fn remains_of(segment: &SegmentLog) -> Result<SegmentRemains, Error> {
    let view = segment.ledger().view()?;
    let checkpoint = view.checkpoint()?.unwrap_or_default();
    let mut entries = Vec::new();
    let mut until = now();
    visit(&*view, 0, &mut |seq, bytes, entry| {
        let leaf = data_encoding::BASE64.encode(&merkle::leaf(bytes).0);
        let call = match entry.kind {
            Kind::Receipt => Some(entry.record::<Receipt>(seq)?.call),
            _ => None,
        };
        until = entry.recorded_at;
        entries.push((leaf, call));
        Ok(())
    })?;
    Ok(SegmentRemains { log_key: segment.verifier.as_str().to_owned(), checkpoint, until, entries })
}

/// Called with each seq, its bytes and the entry.
pub type EntryReader<'a> = &'a mut dyn FnMut(u64, &[u8], &Entry) -> Result<(), Error>;

/// Calls `each` with every entry from `from` on; the first error ends it.
pub fn visit(view: &dyn View, from: u64, each: EntryReader<'_>) -> Result<(), Error> {
    let mut failed = None;
    view.entries(from, &mut |seq, bytes| {
        let done = Entry::parse(seq, bytes).map_err(Error::from).and_then(|entry| each(seq, bytes, &entry));
        match done {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    failed.map_or(Ok(()), Err)
}

/// The segments in `folder`, in order, and whether they are still there; of the others only the remains are.
pub fn segments(folder: &Path) -> Result<Vec<(u64, bool)>, Error> {
    let io = |e| Error::Io(folder.to_owned(), e);
    let mut found = std::collections::BTreeMap::new();
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(io(e)),
    };
    for entry in entries {
        let name = entry.map_err(io)?.file_name();
        let name = name.to_string_lossy();
        if let Some(number) = name.strip_suffix(".kept").and_then(|number| number.parse::<u64>().ok()) {
            found.entry(number).or_insert(false);
        } else if let Ok(number) = name.parse::<u64>()
            && segment_folder(folder, number).join("ledger.db").exists()
        {
            found.insert(number, true);
        }
    }
    Ok(found.into_iter().collect())
}

/// What is left of a segment that was dropped.
pub fn read_remains(folder: &Path, number: u64) -> Result<SegmentRemains, Error> {
    let path = remains_file(folder, number);
    let bytes = fs::read(&path).map_err(|e| Error::Io(path.clone(), e))?;
    serde_json::from_slice(&bytes).map_err(|e| Error::Damaged(format!("{} is damaged: {e}", path.display())))
}

/// Opens a segment for reading; `checked` refuses one that does not add up.
pub fn open_segment(
    folder: &Path,
    number: u64,
    origin: &str,
    key: &PublicKey,
    checked: bool,
) -> Result<SegmentLog, Error> {
    let log = LogVerifier::of(&segment_origin(origin, number), key)?;
    let options = options(folder, number, Sealing::Batched);
    let ledger =
        if checked { SqliteLedger::open_read_only(options, log)? } else { SqliteLedger::open_unchecked(options, log)? };
    Ok(SegmentLog::of(number, ledger))
}

/// The name under which a guard's log of receipts is signed, without the segment.
pub fn origin(provider: &EntityId, name: &str, place: u32) -> String {
    format!("{provider}/guard/{name}/{place}")
}

/// The log's name of one segment.
pub fn segment_origin(origin: &str, number: u64) -> String {
    format!("{origin}/{number}")
}

/// A segment's folder.
pub(crate) fn segment_folder(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:06}"))
}

/// The file with the remains of a segment.
pub(crate) fn remains_file(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:06}.kept"))
}

fn options(folder: &Path, number: u64, sealing: Sealing) -> Options {
    let folder = segment_folder(folder, number);
    Options {
        path: folder.join("ledger.db"),
        tables: &[PRIVATE, PARTS, CANARIES],
        outside: OutsideCheckpoint::at(folder.join("checkpoint")),
        sealing,
    }
}

/// How much room a folder takes.
pub(crate) fn folder_bytes(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|meta| meta.len()).sum()
}
