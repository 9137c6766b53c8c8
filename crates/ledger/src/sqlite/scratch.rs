//! Projections rebuilt apart: the tables are in a temporary database, the entries are those of the real ledger. Replay
//! folds into it and compares.

use credence_protocol::Timestamp;
use rusqlite::Connection;

use super::{connection, rows, view};
use crate::{
    Appended, Error, Job, NewEntry, NewJob, Queue, Result, RowChange, Scan, Table, Transaction, View,
    store::{EntryVisitor, RowVisitor},
};

/// Temporary tables over another view's entries. SQLite keeps them in memory and spills to an unlinked file.
pub struct Scratch<'a> {
    entries: &'a dyn View,
    tables: Connection,
}

impl<'a> Scratch<'a> {
    /// Empty tables.
    pub fn new(entries: &'a dyn View, tables: &[Table]) -> Result<Self> {
        // An empty name is SQLite's own way to ask for a temporary on-disk database.
        let connection = Connection::open("")?;
        connection.pragma_update(None, "journal_mode", "OFF")?;
        connection.pragma_update(None, "synchronous", "OFF")?;
        connection.set_prepared_statement_cache_capacity(64);
        for table in tables {
            connection.execute_batch(&connection::table_sql(*table))?;
        }
        connection.execute_batch("BEGIN")?;
        Ok(Self { entries, tables: connection })
    }
}

impl View for Scratch<'_> {
    fn size(&self) -> Result<u64> {
        self.entries.size()
    }
    fn entry(&self, seq: u64) -> Result<Option<Vec<u8>>> {
        self.entries.entry(seq)
    }
    fn entries(&self, from: u64, visit: EntryVisitor<'_>) -> Result<()> {
        self.entries.entries(from, visit)
    }
    fn get_many(&self, table: Table, keys: &[&str]) -> Result<Vec<Option<Vec<u8>>>> {
        view::get_many(&self.tables, table, keys)
    }
    fn scan(&self, table: Table, scan: Scan<'_>, visit: RowVisitor<'_>) -> Result<()> {
        view::scan(&self.tables, table, scan, visit)
    }
    fn tile(&self, level: u8, index: u64) -> Result<Option<Vec<u8>>> {
        self.entries.tile(level, index)
    }
    fn checkpoint(&self) -> Result<Option<String>> {
        self.entries.checkpoint()
    }
    fn job(&self, queue: Queue, key: &str) -> Result<Option<Job>> {
        self.entries.job(queue, key)
    }
    fn missing_protections(&self) -> Result<Vec<String>> {
        self.entries.missing_protections()
    }
}

impl Transaction for Scratch<'_> {
    fn stamp(&self) -> Result<Timestamp> {
        Err(Error::NoWriter("a replay records nothing".into()))
    }
    fn return_to_clock(&mut self) -> Result<Timestamp> {
        Err(Error::NoWriter("a replay records nothing".into()))
    }
    fn append_many(&mut self, _: &[NewEntry]) -> Result<Vec<Appended>> {
        Err(Error::NoWriter("a replay appends nothing".into()))
    }
    fn put_many(&mut self, changes: &[RowChange<'_>]) -> Result<()> {
        rows::change(&self.tables, changes).map_err(Error::from)
    }
    /// Jobs follow from no entry: a replay makes none.
    fn put_jobs(&mut self, _: &[NewJob]) -> Result<()> {
        Ok(())
    }
    fn take_jobs(&mut self, _: Queue, _: usize) -> Result<Vec<Job>> {
        Ok(Vec::new())
    }
    fn delete_jobs(&mut self, _: Queue, _: &[&str]) -> Result<()> {
        Ok(())
    }
}
