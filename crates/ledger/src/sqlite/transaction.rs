//! A unit of work in the writer: reads and writes on the writing connection, in a savepoint of its own.

use credence_protocol::Timestamp;
use rusqlite::Connection;
use tlog_tiles::Hash;

use super::{jobs, rows, view, writer::JobChange};
use crate::{
    Appended, Clock, Error, Job, NewEntry, NewJob, Queue, Result, RowChange, Scan, Table, Transaction, View, Work,
    merkle,
    store::{EntryVisitor, RowVisitor},
};

/// Units of work on the writing connection, one after the other in one transaction of the database.
pub(super) struct WriterTransaction<'a> {
    pub(super) connection: &'a Connection,
    pub(super) clock: &'a Clock,
    pub(super) size: u64,
    pub(super) leaves: Vec<Hash>,
    pub(super) last_recorded: Option<Timestamp>,
    /// The time of the current unit of work, once it was asked for.
    pub(super) stamp: Option<Timestamp>,
    /// The first error that a statement of the current work met, whatever the work made of it.
    pub(super) failed: Option<Error>,
}

impl WriterTransaction<'_> {
    /// Runs one work in a savepoint of its own. An error here fails the whole transaction.
    pub(super) fn run(&mut self, mut work: Work) -> Result<()> {
        let before = (self.size, self.leaves.len(), self.last_recorded);
        self.stamp = Some(self.now());
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

    pub(super) fn change_jobs(&mut self, mut change: JobChange) -> Result<()> {
        Ok(change(self.connection, self.now())?)
    }

    /// A clock that jumps back must not reorder what was recorded.
    fn now(&self) -> Timestamp {
        let now = (self.clock)();
        self.last_recorded.map_or(now, |last| last.max(now))
    }

    /// Remembers what went wrong: a full disk may have rolled the transaction back already, so no work may continue in it.
    fn checked<T>(&mut self, done: rusqlite::Result<T>) -> Result<T> {
        done.map_err(|error| {
            let text = error.to_string();
            self.failed.get_or_insert(error.into());
            Error::NoWriter(text)
        })
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
    fn get_many(&self, table: Table, keys: &[&str]) -> Result<Vec<Option<Vec<u8>>>> {
        view::get_many(self.connection, table, keys)
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
    fn job(&self, queue: Queue, key: &str) -> Result<Option<Job>> {
        jobs::read(self.connection, queue, key)
    }
    fn missing_protections(&self) -> Result<Vec<String>> {
        view::missing_protections(self.connection)
    }
}

impl Transaction for WriterTransaction<'_> {
    fn stamp(&self) -> Result<Timestamp> {
        Ok(self.stamp.unwrap_or_else(|| self.now()))
    }

    fn return_to_clock(&mut self) -> Result<Timestamp> {
        let now = (self.clock)();
        self.stamp = Some(now);
        Ok(now)
    }

    fn append_many(&mut self, entries: &[NewEntry]) -> Result<Vec<Appended>> {
        let recorded_at = self.stamp()?;
        let mut appended = Vec::with_capacity(entries.len());
        for entry in entries {
            let bytes = entry.encode(recorded_at)?;
            let seq = self.size;
            let text = std::str::from_utf8(&bytes).map_err(|e| Error::Entry { seq, why: e.to_string() })?;
            let statement = self.connection.prepare_cached("INSERT INTO entries VALUES (?1, ?2)");
            let done = statement.and_then(|mut insert| insert.execute((seq, text)));
            self.checked(done)?;
            self.leaves.push(merkle::leaf(&bytes));
            self.size += 1;
            self.last_recorded = Some(recorded_at);
            appended.push(Appended { seq, recorded_at });
        }
        Ok(appended)
    }

    fn put_many(&mut self, changes: &[RowChange<'_>]) -> Result<()> {
        let done = rows::change(self.connection, changes);
        self.checked(done)
    }

    fn put_jobs(&mut self, jobs: &[NewJob]) -> Result<()> {
        let done = jobs::put(self.connection, jobs, self.stamp()?);
        self.checked(done)
    }

    fn take_jobs(&mut self, queue: Queue, limit: usize) -> Result<Vec<Job>> {
        let done = jobs::take(self.connection, queue, limit, self.stamp()?);
        self.checked(done)
    }

    fn delete_jobs(&mut self, queue: Queue, keys: &[&str]) -> Result<()> {
        let done = jobs::delete(self.connection, queue, keys);
        self.checked(done)
    }
}
