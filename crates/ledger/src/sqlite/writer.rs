//! The single writer: a thread that owns the writing connection. Works that wait together share one transaction.

use std::{
    fs::File,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use credence_protocol::Timestamp;
use rusqlite::Connection;
use tlog_tiles::Hash;

use super::{Clock, Options, SEAL_EVERY, Sealing, connection, view};
use crate::{
    Appended, Checkpoint, Entry, Error, LogKey, NewEntry, OutsideCheckpoint, Result, Scan, Table, Ticket, Transaction,
    View, Work,
    merkle::{self, Edge},
    store::{EntryVisitor, RowVisitor},
};

/// A transaction takes in further works until it is this old.
const GROUP_FOR: Duration = Duration::from_millis(25);
/// The checkpoint outside the database lags behind by at most this.
const OUTSIDE_EVERY: Duration = Duration::from_secs(1);
/// Works that may wait before submitters do.
const QUEUE: usize = 1024;

type Done = SyncSender<Result<()>>;
/// A unit of work, or `None` to bring the checkpoint outside up to date.
type Job = (Option<Work>, Done);

pub(super) struct Writer {
    route: Route,
    thread: JoinHandle<Result<()>>,
    /// Entries that are durable.
    committed: Arc<AtomicU64>,
}

/// How works reach the connection.
enum Route {
    /// Through the thread that owns it: works that wait together for the disk share one wait.
    Queue(SyncSender<Job>),
    /// On the submitter's own thread: nothing waits for the disk, and another thread only seals.
    ///
    /// Dropping `_stop` ends that thread.
    Inline { state: Arc<Mutex<State>>, _stop: SyncSender<()> },
}

impl Writer {
    pub(super) fn start(connection: Connection, options: &Options, key: LogKey, clock: Clock) -> Result<Self> {
        let size = view::size(&connection)?;
        let sealed = match options.sealing {
            Sealing::EveryCommit | Sealing::Volatile => size,
            Sealing::Batched => view::checkpoint(&connection)?
                .map_or(Ok(0), |note| Checkpoint::open(&note, key.verifier()).map(|sealed| sealed.size))?,
        };
        let edge = Edge::load(sealed, &Tiles(&connection))?;
        // What was appended and not sealed when the process ended.
        let mut unsealed = Vec::new();
        if sealed < size {
            view::entries(&connection, sealed, &mut |_, entry| {
                unsealed.push(merkle::leaf(entry));
                std::ops::ControlFlow::Continue(())
            })?;
        }
        let last_recorded = match size.checked_sub(1) {
            None => None,
            Some(seq) => {
                let bytes = view::entry(&connection, seq)?.unwrap_or_default();
                Some(Entry::parse(seq, &bytes)?.recorded_at)
            }
        };
        let committed = Arc::new(AtomicU64::new(size));
        #[allow(unused_mut, reason = "moved into one of two threads")]
        let mut state = State {
            committed: Arc::clone(&committed),
            connection,
            path: options.path.clone(),
            outside: options.outside.clone(),
            outside_turn: Arc::default(),
            outside_due: None,
            outside_written: Instant::now(),
            key,
            clock,
            edge,
            sealing: options.sealing,
            seal_due: (!unsealed.is_empty()).then(Instant::now),
            unsealed,
            last_recorded,
        };
        let named = || std::thread::Builder::new().name("ledger-writer".into());
        let (route, thread) = match options.sealing {
            Sealing::EveryCommit | Sealing::Volatile => {
                let (jobs, queue) = mpsc::sync_channel(QUEUE);
                (Route::Queue(jobs), named().spawn(move || state.run(&queue)))
            }
            Sealing::Batched => {
                let state = Arc::new(Mutex::new(state));
                let (stop, stopped) = mpsc::sync_channel(1);
                let sealed = Arc::clone(&state);
                (Route::Inline { state, _stop: stop }, named().spawn(move || keep_sealing(&sealed, &stopped)))
            }
        };
        Ok(Self { route, thread: thread.map_err(|e| Error::NoWriter(e.to_string()))?, committed })
    }

    pub(super) fn committed(&self) -> u64 {
        self.committed.load(Ordering::Acquire)
    }

    pub(super) fn submit(&self, work: Option<Work>) -> Result<Ticket> {
        let (done, ticket) = mpsc::sync_channel(1);
        match &self.route {
            Route::Queue(jobs) => jobs.send((work, done)).map_err(|_| Error::NoWriter("it stopped".into()))?,
            Route::Inline { state, .. } => lock(state).group((work, done), &mut || None),
        }
        Ok(Ticket(ticket))
    }

    pub(super) fn stop(self) -> Result<()> {
        drop(self.route);
        self.thread.join().unwrap_or_else(|_| Err(Error::NoWriter("it panicked".into())))
    }
}

struct State {
    connection: Connection,
    path: std::path::PathBuf,
    outside: OutsideCheckpoint,
    /// One writes to that file at a time.
    outside_turn: Arc<Mutex<()>>,
    /// A checkpoint newer than the one outside.
    outside_due: Option<String>,
    outside_written: Instant,
    key: LogKey,
    clock: Clock,
    edge: Edge,
    sealing: Sealing,
    /// Leaves of entries that are in the database and under no checkpoint yet.
    unsealed: Vec<Hash>,
    seal_due: Option<Instant>,
    last_recorded: Option<Timestamp>,
    committed: Arc<AtomicU64>,
}

impl State {
    fn run(&mut self, queue: &Receiver<Job>) -> Result<()> {
        loop {
            let outside = self.outside_due.as_ref().map(|_| self.outside_written + OUTSIDE_EVERY);
            let first = match outside.into_iter().chain(self.seal_due).min() {
                Some(due) => queue.recv_timeout(due.saturating_duration_since(Instant::now())),
                None => queue.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match first {
                Ok(first) => self.group(first, &mut || queue.try_recv().ok()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return self.seal_now().and_then(|()| self.write_outside());
                }
            }
            if self.seal_due.is_some_and(|due| due <= Instant::now()) && self.seal_now().is_err() {
                // Kept due and tried again: a full disk may pass.
                self.seal_due = Some(Instant::now() + SEAL_EVERY);
            }
            if self.outside_due.is_some() && self.outside_written.elapsed() >= OUTSIDE_EVERY {
                // Kept due and tried again: a full disk may pass.
                let _ = self.write_outside();
            }
        }
    }

    fn write_outside(&mut self) -> Result<()> {
        self.outside_written = Instant::now();
        let _turn = self.outside_turn.lock();
        write_outside(&self.outside, &mut self.outside_due)
    }

    /// Runs `first` and whatever else is waiting in one transaction, then tells everyone.
    fn group(&mut self, first: Job, more: &mut dyn FnMut() -> Option<Job>) {
        let mut waiting = Waiting::default();
        let outcome = self.transaction(first, more, &mut waiting);
        if outcome.is_err() && !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        // A submitter that no longer waits is no concern here.
        let path = self.path.clone();
        let tell = |all: Vec<Done>, outcome: &Result<()>| {
            for done in all {
                let _ = done.send(outcome.as_ref().map_err(|error| again(&path, error)).copied());
            }
        };
        tell(waiting.works, &outcome);
        if !waiting.flushes.is_empty() {
            // What was committed stays committed, whatever becomes of the file.
            let outcome = outcome.and_then(|()| self.seal_now()).and_then(|()| self.write_outside());
            tell(waiting.flushes, &outcome);
        }
    }

    fn transaction(&mut self, first: Job, more: &mut dyn FnMut() -> Option<Job>, waiting: &mut Waiting) -> Result<()> {
        let path = self.path.clone();
        let translate = |e: Error| connection::translate(&path, e);
        let mut next = Some(first);
        let since = Instant::now();
        let begun = self.begin().map_err(translate);
        let size = begun.and_then(|()| view::size(&self.connection));
        let expected = self.edge.size() + self.unsealed.len() as u64;
        let size = size.and_then(|size| {
            let foreign =
                format!("{size} entries where this process left {expected}: something else wrote to the database");
            if size == expected { Ok(size) } else { Err(Error::Log(foreign)) }
        });
        let mut tx = WriterTransaction {
            connection: &self.connection,
            clock: &self.clock,
            size: expected,
            leaves: Vec::new(),
            last_recorded: self.last_recorded,
            failed: None,
        };
        while let Some((work, done)) = next {
            match work {
                None => waiting.flushes.push(done),
                Some(work) => {
                    waiting.works.push(done);
                    if size.is_ok() {
                        tx.run(work).map_err(translate)?;
                    }
                }
            }
            next = (since.elapsed() < GROUP_FOR).then(&mut *more).flatten();
        }
        size?;
        let WriterTransaction { leaves, last_recorded, size, .. } = tx;
        let sealed = match self.sealing {
            Sealing::EveryCommit | Sealing::Volatile if !leaves.is_empty() => {
                Some(self.seal(&leaves).map_err(translate)?)
            }
            _ => None,
        };
        self.connection.prepare_cached("COMMIT")?.execute([]).map_err(|e| translate(e.into()))?;
        self.last_recorded = last_recorded;
        if let Some((edge, note)) = sealed {
            self.edge = edge;
            self.outside_due = Some(note);
        } else if !leaves.is_empty() {
            self.unsealed.extend(leaves);
            self.seal_due.get_or_insert_with(|| Instant::now() + SEAL_EVERY);
        }
        self.committed.store(size, Ordering::Release);
        Ok(())
    }

    /// Writes the tiles and the signed checkpoint that come of `leaves`, in the transaction that is open.
    fn seal(&self, leaves: &[Hash]) -> Result<(Edge, String)> {
        let mut edge = self.edge.clone();
        for tile in edge.extend(leaves) {
            let sql = "INSERT INTO tiles VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET hashes = excluded.hashes";
            let index = tile.index as i64; // Below 2^55: there are 256 leaves to a tile.
            self.connection.prepare_cached(sql)?.execute((tile.level, index, tile.hashes))?;
        }
        let note = self.key.sign(edge.size(), edge.root()?)?;
        let sql = "INSERT INTO checkpoint VALUES (0, ?1) ON CONFLICT DO UPDATE SET note = excluded.note";
        self.connection.prepare_cached(sql)?.execute([&note])?;
        Ok((edge, note))
    }

    fn begin(&self) -> Result<()> {
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        Ok(())
    }

    /// Seals what was appended since the last seal, and has the disk keep it.
    fn seal_now(&mut self) -> Result<()> {
        if let Some(note) = self.seal_unsealed()? {
            self.outside_due = Some(note);
        }
        // Also what an earlier attempt has sealed, and could not have the disk keep.
        if self.outside_due.is_some() { sync_wal(&self.path) } else { Ok(()) }
    }

    /// Writes tiles and checkpoint of what was appended since the last seal; gives the checkpoint.
    fn seal_unsealed(&mut self) -> Result<Option<String>> {
        if self.unsealed.is_empty() {
            self.seal_due = None;
            return Ok(None);
        }
        let sealed = (|| {
            self.begin()?;
            let sealed = self.seal(&self.unsealed)?;
            self.connection.prepare_cached("COMMIT")?.execute([])?;
            Ok(sealed)
        })();
        if !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        let (edge, note) = sealed.map_err(|e| connection::translate(&self.path, e))?;
        self.edge = edge;
        self.unsealed.clear();
        self.seal_due = None;
        Ok(Some(note))
    }
}

/// Has the disk keep what was committed: with `synchronous = NORMAL` a commit writes to the write-ahead log and does not wait.
pub(super) fn sync_wal(database: &Path) -> Result<()> {
    let wal = connection::wal(database);
    match File::open(&wal).and_then(|file| file.sync_data()) {
        // Everything was moved into the database, which waits for the disk.
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        outcome => outcome.map_err(|e| Error::Io(wal, e)),
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Seals what is due until told to stop. The disk is waited for without holding up whoever appends.
fn keep_sealing(state: &Mutex<State>, stopped: &Receiver<()>) -> Result<()> {
    let mut mover = None;
    while stopped.recv_timeout(SEAL_EVERY / 4) == Err(RecvTimeoutError::Timeout) {
        let path = lock(state).path.clone();
        // Moved here, so that no append has to. What fails is tried again, and done by the writer in the end.
        let _ = connection::move_wal(&path, &mut mover);
        let (note, outside, turn) = {
            let mut state = lock(state);
            if state.seal_due.is_none_or(|due| due > Instant::now()) {
                continue;
            }
            match state.seal_unsealed() {
                Ok(note) => {
                    let note = note.or_else(|| state.outside_due.take());
                    (note, state.outside.clone(), Arc::clone(&state.outside_turn))
                }
                // Kept due and tried again: a full disk may pass.
                Err(_) => continue,
            }
        };
        let Some(note) = note else { continue };
        let written = sync_wal(&path).and_then(|()| {
            let _turn = turn.lock();
            outside.write(&note)
        });
        if written.is_err() {
            let mut state = lock(state);
            state.outside_due.get_or_insert(note);
            state.seal_due.get_or_insert_with(|| Instant::now() + SEAL_EVERY);
        }
    }
    let mut state = lock(state);
    state.seal_now()?;
    state.write_outside()
}

/// Who shared a transaction.
#[derive(Default)]
struct Waiting {
    works: Vec<Done>,
    flushes: Vec<Done>,
}

/// Brings the checkpoint outside up to date, if one is due.
fn write_outside(outside: &OutsideCheckpoint, due: &mut Option<String>) -> Result<()> {
    if let Some(note) = due {
        outside.write(note)?;
        *due = None;
    }
    Ok(())
}

/// Says the same error again, to everyone who shared the transaction.
fn again(path: &std::path::Path, error: &Error) -> Error {
    match error {
        Error::Full(path) => Error::Full(path.clone()),
        Error::Locked { path, pid } => Error::Locked { path: path.clone(), pid: pid.clone() },
        Error::Log(why) => Error::Log(why.clone()),
        other => Error::Io(path.to_owned(), std::io::Error::other(other.to_string())),
    }
}

struct WriterTransaction<'a> {
    connection: &'a Connection,
    clock: &'a Clock,
    size: u64,
    leaves: Vec<Hash>,
    last_recorded: Option<Timestamp>,
    /// The first error that a statement of the current work met, whatever the work made of it.
    failed: Option<Error>,
}

impl WriterTransaction<'_> {
    /// Runs one work in a savepoint of its own. An error here fails the whole transaction.
    fn run(&mut self, work: Work) -> Result<()> {
        let before = (self.size, self.leaves.len(), self.last_recorded);
        self.connection.prepare_cached("SAVEPOINT work")?.execute([])?;
        let keep = work(self);
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if !keep {
            self.connection.prepare_cached("ROLLBACK TO work")?.execute([])?;
            self.size = before.0;
            self.leaves.truncate(before.1);
            self.last_recorded = before.2;
        }
        self.connection.prepare_cached("RELEASE work")?.execute([])?;
        Ok(())
    }

    fn execute(&mut self, sql: &str, params: impl rusqlite::Params) -> Result<()> {
        let done = self.connection.prepare_cached(sql).and_then(|mut statement| statement.execute(params));
        match done {
            Ok(_) => Ok(()),
            Err(error) => {
                // A full disk may have rolled the transaction back already: no work may continue in it.
                let text = error.to_string();
                self.failed.get_or_insert(error.into());
                Err(Error::NoWriter(text))
            }
        }
    }
}

impl View for WriterTransaction<'_> {
    fn size(&self) -> Result<u64> {
        Ok(self.size)
    }
    fn entry(&self, seq: u64) -> Result<Option<Vec<u8>>> {
        view::entry(self.connection, seq)
    }
    fn entries(&self, from: u64, visit: EntryVisitor<'_>) -> Result<()> {
        view::entries(self.connection, from, visit)
    }
    fn get(&self, table: Table, key: &str) -> Result<Option<Vec<u8>>> {
        view::get(self.connection, table, key)
    }
    fn scan(&self, table: Table, scan: Scan<'_>, visit: RowVisitor<'_>) -> Result<()> {
        view::scan(self.connection, table, scan, visit)
    }
    fn tile(&self, level: u8, index: u64) -> Result<Option<Vec<u8>>> {
        view::tile(self.connection, level, index)
    }
    fn checkpoint(&self) -> Result<Option<String>> {
        view::checkpoint(self.connection)
    }
    fn missing_protections(&self) -> Result<Vec<String>> {
        view::missing_protections(self.connection)
    }
}

impl Transaction for WriterTransaction<'_> {
    fn stamp(&self) -> Result<Timestamp> {
        // A clock that jumps back must not reorder what was recorded.
        let now = (self.clock)();
        Ok(self.last_recorded.map_or(now, |last| last.max(now)))
    }
    fn append(&mut self, entry: &NewEntry) -> Result<Appended> {
        let recorded_at = self.stamp()?;
        let bytes = entry.encode(recorded_at)?;
        let leaf = merkle::leaf(&bytes);
        let seq = self.size;
        let text = std::str::from_utf8(&bytes).map_err(|e| Error::Entry { seq, why: e.to_string() })?;
        self.execute("INSERT INTO entries VALUES (?1, ?2)", (seq, text))?;
        self.leaves.push(leaf);
        self.size += 1;
        self.last_recorded = Some(recorded_at);
        Ok(Appended { seq, recorded_at })
    }

    fn put(&mut self, table: Table, key: &str, value: &str) -> Result<()> {
        let name = connection::sql_name(table);
        let sql = format!("INSERT INTO {name} VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = excluded.value");
        self.execute(&sql, (key, value))
    }

    fn delete(&mut self, table: Table, key: &str) -> Result<()> {
        self.execute(&format!("DELETE FROM {} WHERE key = ?1", connection::sql_name(table)), [key])
    }
}

struct Tiles<'a>(&'a Connection);

impl merkle::TileSource for Tiles<'_> {
    fn tile(&self, level: u8, index: u64) -> Result<Option<Vec<u8>>> {
        view::tile(self.0, level, index)
    }
}
