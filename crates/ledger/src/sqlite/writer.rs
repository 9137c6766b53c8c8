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

use super::{Options, SEAL_EVERY, Sealing, connection, transaction::WriterTransaction, view};
use crate::{
    Checkpoint, Clock, Completion, Entry, Error, LogKey, OutsideCheckpoint, Result, Ticket, Work,
    merkle::{self, Edge},
};

/// A transaction takes in further works until it is this old.
const GROUP_FOR: Duration = Duration::from_millis(25);
/// The checkpoint outside the database lags behind by at most this.
const OUTSIDE_EVERY: Duration = Duration::from_secs(1);
/// Works that may wait before submitters do.
const QUEUE: usize = 1024;

/// A change of jobs, given the connection and the time.
pub(super) type JobChange = Box<dyn FnMut(&Connection, Timestamp) -> rusqlite::Result<()> + Send>;

/// What the writer is asked for.
enum Task {
    /// A unit of work.
    Work(Work),
    /// A change of jobs that belongs to no unit of work.
    Jobs(JobChange),
    /// Bring the checkpoint outside up to date.
    Flush,
}

type Submission = (Task, Completion);

pub(super) struct Writer {
    way: Way,
    thread: JoinHandle<Result<()>>,
    /// Entries that are durable.
    committed: Arc<AtomicU64>,
}

/// How tasks reach the connection.
enum Way {
    /// Through the thread that owns it: works that wait together for the disk share one wait.
    Queue(SyncSender<Submission>),
    /// On the submitter's own thread: nothing waits for the disk, and another thread only seals.
    ///
    /// Dropping `_stop` ends that thread.
    Inline { state: Arc<Mutex<State>>, _stop: SyncSender<()> },
}

/// The end of the log as it is in the database: what an append continues from.
#[derive(Clone)]
struct LogEnd {
    /// The tree under the newest checkpoint.
    edge: Edge,
    /// Leaves of entries that are in the database and under no checkpoint yet.
    unsealed: Vec<Hash>,
    /// When the last entry was recorded.
    last_recorded: Option<Timestamp>,
}

impl LogEnd {
    fn load(connection: &Connection, sealing: Sealing, key: &LogKey) -> Result<Self> {
        let size = view::size(connection)?;
        let note = view::checkpoint(connection)?;
        let sealed = note.map_or(Ok(0), |note| Checkpoint::open(&note, key.verifier()).map(|sealed| sealed.size))?;
        if sealed > size || (sealed < size && sealing != Sealing::Batched) {
            return Err(Error::Log(format!("{size} entries, but the checkpoint is of {sealed}")));
        }
        let edge = Edge::load(sealed, &Tiles(connection))?;
        // What was appended and not sealed when a process ended.
        let mut unsealed = Vec::new();
        if sealed < size {
            view::entries(connection, sealed, &mut |_, entry| {
                unsealed.push(merkle::leaf(entry));
                std::ops::ControlFlow::Continue(())
            })?;
        }
        let last_recorded = match size.checked_sub(1) {
            None => None,
            Some(seq) => {
                let bytes = view::entry(connection, seq)?.unwrap_or_default();
                Some(Entry::parse(seq, &bytes)?.recorded_at)
            }
        };
        Ok(Self { edge, unsealed, last_recorded })
    }

    fn size(&self) -> u64 {
        self.edge.size() + self.unsealed.len() as u64
    }
}

impl Writer {
    pub(super) fn start(connection: Connection, options: &Options, key: LogKey, clock: Clock) -> Result<Self> {
        let end = LogEnd::load(&connection, options.sealing, &key)?;
        let committed = Arc::new(AtomicU64::new(end.size()));
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
            sealing: options.sealing,
            seal_due: (!end.unsealed.is_empty()).then(Instant::now),
            end,
        };
        let named = || std::thread::Builder::new().name("ledger-writer".into());
        let (way, thread) = match options.sealing {
            Sealing::EveryCommit | Sealing::Volatile => {
                let (tasks, queue) = mpsc::sync_channel(QUEUE);
                (Way::Queue(tasks), named().spawn(move || state.run(&queue)))
            }
            Sealing::Batched => {
                let state = Arc::new(Mutex::new(state));
                let (stop, stopped) = mpsc::sync_channel(1);
                let sealed = Arc::clone(&state);
                (Way::Inline { state, _stop: stop }, named().spawn(move || keep_sealing(&sealed, &stopped)))
            }
        };
        Ok(Self { way, thread: thread.map_err(|e| Error::NoWriter(e.to_string()))?, committed })
    }

    pub(super) fn committed(&self) -> u64 {
        self.committed.load(Ordering::Acquire)
    }

    pub(super) fn submit(&self, work: Work) -> Result<Ticket> {
        self.send(Task::Work(work))
    }

    pub(super) fn flush(&self) -> Result<()> {
        self.send(Task::Flush)?.wait()
    }

    /// Changes jobs, in a transaction; gives what the change gave.
    pub(super) fn change_jobs<T: Send + 'static>(
        &self,
        mut change: impl FnMut(&Connection, Timestamp) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let given = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&given);
        let change: JobChange = Box::new(move |connection, now| {
            let value = change(connection, now)?;
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
            Ok(())
        });
        self.send(Task::Jobs(change))?.wait()?;
        let given = given.lock().unwrap_or_else(PoisonError::into_inner).take();
        given.ok_or_else(|| Error::NoWriter("it did not run this change".into()))
    }

    fn send(&self, task: Task) -> Result<Ticket> {
        let (done, ticket) = Ticket::pair();
        match &self.way {
            Way::Queue(tasks) => tasks.send((task, done)).map_err(|_| Error::NoWriter("it stopped".into()))?,
            Way::Inline { state, .. } => lock(state).group((task, done), &mut || None),
        }
        Ok(ticket)
    }

    pub(super) fn stop(self) -> Result<()> {
        drop(self.way);
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
    sealing: Sealing,
    seal_due: Option<Instant>,
    /// As this process left it. Another writer may have gone on from there.
    end: LogEnd,
    committed: Arc<AtomicU64>,
}

impl State {
    fn run(&mut self, queue: &Receiver<Submission>) -> Result<()> {
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
    fn group(&mut self, first: Submission, more: &mut dyn FnMut() -> Option<Submission>) {
        let mut shared = Sharing::default();
        let outcome = self.transaction(first, more, &mut shared);
        if outcome.is_err() && !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        let tell = |all: Vec<Completion>, outcome: &Result<()>| {
            all.into_iter().for_each(|done| done.resolve(outcome.clone()));
        };
        tell(shared.works, &outcome);
        if !shared.flushes.is_empty() {
            // What was committed stays committed, whatever becomes of the file.
            let outcome = outcome.and_then(|()| self.seal_now()).and_then(|()| self.write_outside());
            tell(shared.flushes, &outcome);
        }
    }

    fn transaction(
        &mut self,
        first: Submission,
        more: &mut dyn FnMut() -> Option<Submission>,
        shared: &mut Sharing,
    ) -> Result<()> {
        let path = self.path.clone();
        let translate = |e: Error| connection::translate(&path, e);
        let mut next = Some(first);
        let since = Instant::now();
        let begun = self.begin().and_then(|()| self.continue_from_database()).map_err(translate);
        let mut tx = WriterTransaction {
            connection: &self.connection,
            clock: &self.clock,
            size: self.end.size(),
            leaves: Vec::new(),
            last_recorded: self.end.last_recorded,
            stamp: None,
            failed: None,
        };
        while let Some((task, done)) = next {
            match task {
                Task::Flush => shared.flushes.push(done),
                Task::Work(work) => {
                    shared.works.push(done);
                    if begun.is_ok() {
                        tx.run(work).map_err(translate)?;
                    }
                }
                Task::Jobs(change) => {
                    shared.works.push(done);
                    if begun.is_ok() {
                        tx.change_jobs(change).map_err(translate)?;
                    }
                }
            }
            next = (since.elapsed() < GROUP_FOR).then(&mut *more).flatten();
        }
        begun?;
        let WriterTransaction { leaves, last_recorded, size, .. } = tx;
        let sealed = match self.sealing {
            Sealing::EveryCommit | Sealing::Volatile if !leaves.is_empty() => {
                Some(self.seal(&leaves).map_err(translate)?)
            }
            _ => None,
        };
        self.connection.prepare_cached("COMMIT")?.execute([]).map_err(|e| translate(e.into()))?;
        self.end.last_recorded = last_recorded;
        if let Some((edge, note)) = sealed {
            self.end.edge = edge;
            self.outside_due = Some(note);
        } else if !leaves.is_empty() {
            self.end.unsealed.extend(leaves);
            self.seal_due.get_or_insert_with(|| Instant::now() + SEAL_EVERY);
        }
        self.committed.store(size, Ordering::Release);
        Ok(())
    }

    /// In a transaction: continues from where the log ends now, also when another writer brought it there. What is there must
    /// extend what this process has seen, under a signed checkpoint: a copy that was put in its place is not continued from.
    fn continue_from_database(&mut self) -> Result<()> {
        let (size, expected) = (view::size(&self.connection)?, self.end.size());
        if size == expected {
            return Ok(());
        }
        let foreign = |why: &str| Err(Error::Log(format!("{size} entries where this process left {expected}: {why}")));
        // Nothing but the one process that holds the lock appends to a ledger that is sealed in batches.
        if size < expected || self.sealing == Sealing::Batched {
            return foreign("something else wrote to the database");
        }
        let end = LogEnd::load(&self.connection, self.sealing, &self.key)?;
        let tiles = Tiles(&self.connection);
        let note = view::checkpoint(&self.connection)?.unwrap_or_default();
        let signed = Checkpoint::open(&note, self.key.verifier())?;
        if signed.root != end.edge.root()? || merkle::root(self.end.edge.size(), &tiles)? != self.end.edge.root()? {
            return foreign("they do not extend what was there");
        }
        self.end = end;
        Ok(())
    }

    /// Writes the tiles and the signed checkpoint that come of `leaves`, in the transaction that is open.
    fn seal(&self, leaves: &[Hash]) -> Result<(Edge, String)> {
        let mut edge = self.end.edge.clone();
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
        if self.end.unsealed.is_empty() {
            self.seal_due = None;
            return Ok(None);
        }
        let sealed = (|| {
            self.begin()?;
            self.continue_from_database()?;
            let sealed = self.seal(&self.end.unsealed)?;
            self.connection.prepare_cached("COMMIT")?.execute([])?;
            Ok(sealed)
        })();
        if !self.connection.is_autocommit() {
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        let (edge, note) = sealed.map_err(|e| connection::translate(&self.path, e))?;
        self.end.edge = edge;
        self.end.unsealed.clear();
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
        outcome => outcome.map_err(|e| Error::io(&wal, e)),
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Turns of [`keep_sealing`] without an append that are a lull: two seconds.
const LULL_TURNS: u32 = 8;

/// Seals what is due until told to stop. The disk is waited for without holding up whoever appends.
fn keep_sealing(state: &Mutex<State>, stopped: &Receiver<()>) -> Result<()> {
    let mut mover = None;
    let (mut known, mut unchanged) = (None, 0_u32);
    while stopped.recv_timeout(SEAL_EVERY / 4) == Err(RecvTimeoutError::Timeout) {
        let (path, committed) = {
            let state = lock(state);
            (state.path.clone(), state.committed.load(Ordering::Acquire))
        };
        unchanged = if known == Some(committed) { unchanged.saturating_add(1) } else { 0 };
        known = Some(committed);
        // Moved here, so that no append has to. What fails is tried again, and done by the writer in the end.
        let lull = unchanged > 0 && unchanged.is_multiple_of(LULL_TURNS);
        let _ = connection::move_wal(&path, &mut mover, lull);
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
struct Sharing {
    works: Vec<Completion>,
    flushes: Vec<Completion>,
}

/// Brings the checkpoint outside up to date, if one is due.
fn write_outside(outside: &OutsideCheckpoint, due: &mut Option<String>) -> Result<()> {
    if let Some(note) = due {
        outside.write(note)?;
        *due = None;
    }
    Ok(())
}

struct Tiles<'a>(&'a Connection);

impl merkle::TileSource for Tiles<'_> {
    fn tile(&self, level: u8, index: u64) -> Result<Option<Vec<u8>>> {
        view::tile(self.0, level, index)
    }
}
