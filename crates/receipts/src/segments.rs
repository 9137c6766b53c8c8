//! The segments of a guard's receipts, on disk: each is a ledger and a log of its own, in a folder of its own; of those that were let
//! go, a file stays.

use std::{
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use credence_ledger::{
    Entry, Kind, Ledger, LogKey, LogVerifier, NewEntry, OutsideCheckpoint, SqliteLedger, Table, View, merkle,
    sqlite::{Options, Sealing},
};
use credence_protocol::{Canonical, EntityId, PublicKey, SecretKey, Timestamp, Uuid, receipt::Receipt};
use serde::{Deserialize, Serialize};

use crate::{Error, folder};

/// Salts by call: what stays with the guard.
pub const PRIVATE: Table = Table("private");
/// Digests of values' parts by call.
pub const PARTS: Table = Table("parts");

/// Where a segment begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SegmentRecord {
    /// Its number, from 1.
    pub segment: u64,
    /// The last checkpoint of the one before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
}

/// What is left of a segment that was let go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// The log's name and key.
    pub log_key: String,
    /// Its last checkpoint.
    pub checkpoint: String,
    /// When its last entry was recorded.
    pub until: Timestamp,
    /// The leaf of every entry, base64, and the call of those that were receipts.
    pub entries: Vec<(String, Option<Uuid>)>,
}

/// The segment that is written to.
pub(crate) struct Segment {
    pub number: u64,
    pub ledger: Arc<SqliteLedger>,
    /// Bytes written, about.
    pub bytes: u64,
}

/// Begins a segment.
pub(crate) fn begin(
    folder: &Path,
    origin: &str,
    key: &SecretKey,
    subject: &EntityId,
    number: u64,
    previous: Option<String>,
) -> Result<Segment, Error> {
    let place = segment_folder(folder, number);
    folder::make(&place)?;
    let begun = begin_in(options(folder, number), log_key(origin, number, key)?, subject, number, previous);
    if begun.is_err() {
        // Nothing half-made stays behind: the next call tries again.
        let _ = fs::remove_dir_all(&place);
    }
    begun
}

fn begin_in(
    options: Options,
    log: LogKey,
    subject: &EntityId,
    number: u64,
    previous: Option<String>,
) -> Result<Segment, Error> {
    let ledger = SqliteLedger::create(options, log, clock())?;
    let record = SegmentRecord { segment: number, previous };
    let entry = NewEntry { kind: Kind::Segment, subject: subject.clone(), body: Canonical::of(&record)?, weight: None };
    credence_ledger::write(&ledger, move |tx| tx.append(&entry).map(drop))?;
    ledger.flush()?;
    Ok(Segment { number, ledger: Arc::new(ledger), bytes: 0 })
}

/// What stays of a segment.
pub(crate) fn keep(ledger: &SqliteLedger) -> Result<Kept, Error> {
    let view = ledger.view()?;
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
    Ok(Kept { log_key: ledger.verifier().as_str().to_owned(), checkpoint, until, entries })
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

/// The segments in `folder`, in order, and whether they are still there or only what was kept of them.
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

/// What was kept of a segment that was let go.
pub fn kept(folder: &Path, number: u64) -> Result<Kept, Error> {
    let path = kept_file(folder, number);
    let bytes = fs::read(&path).map_err(|e| Error::Io(path.clone(), e))?;
    serde_json::from_slice(&bytes).map_err(|e| Error::Receipts(format!("{} is damaged: {e}", path.display())))
}

/// Opens a segment for reading; `checked` refuses one that does not add up.
pub fn open_segment(
    folder: &Path,
    number: u64,
    origin: &str,
    key: &PublicKey,
    checked: bool,
) -> Result<SqliteLedger, Error> {
    let log = LogVerifier::of(&segment_origin(origin, number), key)?;
    let options = options(folder, number);
    Ok(if checked { SqliteLedger::open_read_only(options, log)? } else { SqliteLedger::open_unchecked(options, log)? })
}

/// The name under which a guard's log of receipts is signed, without the segment.
pub fn origin(provider: &EntityId, name: &str, place: u32) -> String {
    format!("{provider}/guard/{name}/{place}")
}

/// The log's name of one segment.
pub fn segment_origin(origin: &str, number: u64) -> String {
    format!("{origin}/{number}")
}

/// The key that signs one segment.
pub(crate) fn log_key(origin: &str, number: u64, key: &SecretKey) -> Result<LogKey, Error> {
    Ok(LogKey::new(&segment_origin(origin, number), key)?)
}

/// A segment's folder.
pub(crate) fn segment_folder(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:06}"))
}

/// The file of what was kept of a segment.
pub(crate) fn kept_file(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:06}.kept"))
}

/// How a segment's ledger is opened.
pub(crate) fn options(folder: &Path, number: u64) -> Options {
    let folder = segment_folder(folder, number);
    Options {
        path: folder.join("ledger.db"),
        tables: &[PRIVATE, PARTS],
        outside: OutsideCheckpoint::at(folder.join("checkpoint")),
        sealing: Sealing::Batched,
    }
}

/// How much room a folder takes.
pub(crate) fn folder_bytes(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| file.metadata().ok()).map(|meta| meta.len()).sum()
}

/// What the ledger goes by.
pub(crate) fn clock() -> credence_ledger::sqlite::Clock {
    Arc::new(now)
}

/// The time of day.
#[allow(clippy::expect_used, reason = "a system clock before the year 10000")]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX)).expect("before the year 10000")
}
