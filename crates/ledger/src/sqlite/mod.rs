//! The embedded ledger: SQLite in WAL mode, one writer thread with group commit, any number of readers.
//!
//! - `entries(seq, entry)`: triggers refuse UPDATE, DELETE and any INSERT but the next seq;
//! - `tiles`, `checkpoint`: the Merkle log, written in the same transaction as the entries;
//! - `p_…(key, value)`: projections.
//!
//! Under [`Sealing::EveryCommit`] an append is acknowledged after a commit with `synchronous = FULL`, tiles and signed
//! checkpoint included. Under [`Sealing::Batched`] it is acknowledged once it is in the database, where it outlives the
//! process; fsync, tiles and checkpoint follow within a second (docs/adr/0011). One process writes at a time, held by a lock
//! file.

mod access;
mod connection;
mod jobs;
mod rows;
mod scratch;
mod transaction;
mod view;
mod writer;

use std::{
    fs::{self, OpenOptions, TryLockError},
    io::{Read, Seek, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use rusqlite::Connection;

pub use scratch::Scratch;

use crate::{
    Checkpoint, Clock, Error, Jobs, Ledger, LogKey, LogVerifier, OutsideCheckpoint, Result, Table, Ticket, View, Work,
    held_lock::HeldLock,
    merkle::{self, Edge},
    outside,
};
use access::Access;
use view::{Pooled, SqliteView};
use writer::Writer;

/// How long a second writer waits for the first: a command that follows another should not fail, a service should.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// When appended entries are made durable and sealed under a signed checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sealing {
    /// With the commit, before the append is acknowledged: nothing that was acknowledged is lost, whatever fails.
    #[default]
    EveryCommit,
    /// Within [`SEAL_EVERY`] of the commit. What was acknowledged outlives the process, however it ends; a machine that fails
    /// may take the last second with it.
    Batched,
    /// With the commit, and nothing waits for the disk: for a ledger that is not to outlive its process.
    Volatile,
}

/// How long entries wait for their seal under [`Sealing::Batched`].
pub const SEAL_EVERY: Duration = Duration::from_secs(1);

/// How to open a ledger.
#[derive(Clone)]
pub struct Options {
    /// The database file.
    pub path: PathBuf,
    /// The projections' tables, created when missing.
    pub tables: &'static [Table],
    /// Where the last checkpoint is kept outside the database.
    pub outside: OutsideCheckpoint,
    /// When appends are sealed.
    pub sealing: Sealing,
}

/// What accepting a restored database meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restored {
    /// The database extends its checkpoint: nothing was changed.
    NothingToAccept {
        /// Its entries.
        size: u64,
    },
    /// Entries that a signed checkpoint promised are gone, or were written anew.
    Shorter {
        /// The entries there are.
        size: u64,
        /// The entries there were.
        promised: u64,
    },
    /// The entries that a signed checkpoint promised are not the ones that are there.
    Rewritten {
        /// The entries there are.
        size: u64,
        /// The entries that were promised.
        promised: u64,
    },
    /// There was no usable checkpoint to compare with.
    Unknown {
        /// The entries there are.
        size: u64,
    },
}

/// An embedded ledger.
pub struct SqliteLedger {
    options: Options,
    log: LogVerifier,
    idle_readers: Mutex<Vec<Connection>>,
    /// After the readers: a copy goes when they are closed.
    access: Access,
    writer: Option<Writer>,
    /// Held while this process may write.
    _lock: Option<HeldLock>,
}

impl SqliteLedger {
    /// Creates a new, empty ledger.
    pub fn create(options: Options, key: LogKey, clock: Clock) -> Result<Self> {
        if options.path.exists() {
            return Err(Error::Exists(options.path.display().to_string()));
        }
        let lock = lock(&options.path)?;
        connection::create(&options)?;
        // From the first moment on there is something that the database must extend.
        let promised = key.sign(0, merkle::root(0, &Edge::default())?).and_then(|note| options.outside.write(&note));
        if let Err(error) = promised {
            // Nothing half-made stays behind.
            let _ = fs::remove_file(&options.path);
            return Err(error);
        }
        Self::start(options, key, clock, lock, false)
    }

    /// Opens for writing and reading. Refuses a database that is not ours, is damaged at its edge, is written by another
    /// process, or does not extend the checkpoint kept outside it.
    pub fn open(options: Options, key: LogKey, clock: Clock) -> Result<Self> {
        require(&options.path)?;
        let lock = lock(&options.path)?;
        Self::start(options, key, clock, lock, false)
    }

    /// Opens for writing even though tables are missing: to rebuild them.
    pub fn open_for_repair(options: Options, key: LogKey, clock: Clock) -> Result<Self> {
        require(&options.path)?;
        let lock = lock(&options.path)?;
        Self::start(options, key, clock, lock, true)
    }

    fn start(options: Options, key: LogKey, clock: Clock, lock: HeldLock, repair: bool) -> Result<Self> {
        let connection = connection::open_writer(&options, repair)?;
        let log = key.verifier().clone();
        let (access, idle_readers) = (Access::Shared, Mutex::default());
        let mut ledger = Self { options, log, access, idle_readers, writer: None, _lock: Some(lock) };
        let outside = ledger.check()?;
        // A process that was killed may have left the file behind by more than a second.
        if let Some(inside) = ledger.view()?.checkpoint()?
            && inside != outside.note
        {
            // The file must not promise what the disk does not have.
            writer::sync_wal(&ledger.options.path)?;
            ledger.options.outside.write(&inside)?;
        }
        ledger.writer = Some(Writer::start(connection, &ledger.options, key, clock)?);
        Ok(ledger)
    }

    /// Opens for reading, beside a writer in this or another process; also from a folder that cannot be written.
    pub fn open_read_only(options: Options, log: LogVerifier) -> Result<Self> {
        let ledger = Self::open_unchecked(options, log)?;
        ledger.check()?;
        Ok(ledger)
    }

    /// Opens for reading without any check, for audits that report what is wrong instead of refusing.
    pub fn open_unchecked(options: Options, log: LogVerifier) -> Result<Self> {
        require(&options.path)?;
        let (access, reader) = access::open(&options)?;
        Ok(Self { options, log, access, idle_readers: Mutex::new(vec![reader]), writer: None, _lock: None })
    }

    /// Checks that the size, the tiles and both checkpoints agree; gives the one outside. No entry is hashed: that is what
    /// an audit is for.
    fn check(&self) -> Result<Checkpoint> {
        // The file first: the database may grow in between, never shrink.
        let outside = self.options.outside.read(&self.log)?;
        let view = self.view()?;
        match (view.size()?, view.checkpoint()?) {
            (0, None) => {}
            (size, Some(note)) => {
                let inside = Checkpoint::open(&note, &self.log)?;
                if inside.size != size && (self.options.sealing != Sealing::Batched || inside.size > size) {
                    return Err(Error::Log(format!("{size} entries, but the checkpoint is of {}", inside.size)));
                }
                if merkle::root(inside.size, &*view)? != inside.root {
                    return Err(Error::Log("its tiles do not add up to the checkpoint in the database".into()));
                }
            }
            // The first second of a ledger.
            (_, None) if self.options.sealing == Sealing::Batched => {}
            (size, None) => return Err(Error::Log(format!("{size} entries and no checkpoint"))),
        }
        outside::extends(&outside, &*view)?;
        Ok(outside)
    }

    /// Takes the database as it is for the truth from now on, although the checkpoint outside says otherwise.
    pub fn accept_restore(options: &Options, key: &LogKey) -> Result<Restored> {
        require(&options.path)?;
        let _lock = lock(&options.path)?;
        let ledger = Self::open_unchecked(options.clone(), key.verifier().clone())?;
        let former = options.outside.read(key.verifier());
        let view = ledger.view()?;
        let size = view.size()?;
        let note = match view.checkpoint()? {
            Some(note) => note,
            None if size == 0 => key.sign(0, merkle::root(0, &Edge::default())?)?,
            None => return Err(Error::Log("the database has no checkpoint".into())),
        };
        let inside = Checkpoint::open(&note, key.verifier())?;
        let restored = match former {
            Ok(former) if outside::extends(&former, &*view).is_ok() => return Ok(Restored::NothingToAccept { size }),
            Ok(former) if former.size > size => Restored::Shorter { size, promised: former.size },
            Ok(former) => Restored::Rewritten { size: inside.size, promised: former.size },
            Err(_) => Restored::Unknown { size },
        };
        options.outside.write(&note)?;
        Ok(restored)
    }

    fn reader(&self) -> Result<Pooled<'_>> {
        let idle = self.idle_readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = idle.map_or_else(|| connection::open_reader(&self.options, &self.access), Ok)?;
        Ok(Pooled::new(connection, &self.idle_readers))
    }

    fn writer(&self) -> Result<&Writer> {
        self.writer.as_ref().ok_or_else(|| Error::NoWriter("the ledger is open for reading only".into()))
    }

    /// The key that verifies this log's checkpoints.
    pub fn verifier(&self) -> &LogVerifier {
        &self.log
    }

    /// How this ledger was opened.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Stops writing, after everything submitted is durable and the checkpoint outside is up to date.
    pub fn close(mut self) -> Result<()> {
        self.writer.take().map_or(Ok(()), Writer::stop)
    }
}

/// Whoever forgets to close still loses nothing: the queue is emptied before the lock is released.
impl Drop for SqliteLedger {
    fn drop(&mut self) {
        if let Some(writer) = self.writer.take() {
            let _ = writer.stop();
        }
    }
}

impl Ledger for SqliteLedger {
    fn origin(&self) -> &str {
        self.log.origin()
    }

    fn view(&self) -> Result<Box<dyn View + '_>> {
        Ok(Box::new(SqliteView::begin(self.reader()?)?))
    }

    fn submit(&self, work: Work) -> Result<Ticket> {
        self.writer()?.submit(work)
    }

    fn jobs(&self) -> &dyn Jobs {
        self
    }

    fn committed(&self) -> Result<u64> {
        match &self.writer {
            Some(writer) => Ok(writer.committed()),
            None => self.view()?.size(),
        }
    }

    fn flush(&self) -> Result<()> {
        self.writer.as_ref().map_or(Ok(()), Writer::flush)
    }
}

/// Refuses a path without a ledger, and one of another format, before anything is touched.
fn require(path: &Path) -> Result<()> {
    connection::check_header(path)
}

/// Takes the write lock: an advisory lock on `<database>.lock`, which the system releases when the process ends,
/// however it ends.
fn lock(database: &Path) -> Result<HeldLock> {
    let mut path = database.as_os_str().to_owned();
    path.push(".lock");
    let path = PathBuf::from(path);
    let io = |e| Error::io(&path, e);
    if let Some(folder) = database.parent() {
        fs::create_dir_all(folder).map_err(io)?;
    }
    let mut file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path).map_err(io)?;
    let since = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if since.elapsed() < LOCK_PATIENCE => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                file.read_to_string(&mut pid).map_err(io)?;
                let pid = if pid.is_empty() { "unknown".into() } else { pid.trim().to_owned() };
                return Err(Error::Locked { place: database.display().to_string(), pid });
            }
            Err(TryLockError::Error(e)) => return Err(io(e)),
        }
    }
    // Who holds it, for the other's error message. Best effort: a full disk must not stop a reader of this message.
    let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| write!(file, "{}", std::process::id()));
    Ok(HeldLock::new(file))
}
