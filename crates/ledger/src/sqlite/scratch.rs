//! Projections rebuilt apart: the tables are in a temporary database, the entries are those of the real ledger. Replay
//! folds into it and compares.

use credence_protocol::Timestamp;
use rusqlite::Connection;

use super::{connection, view};
use crate::{
    Appended, Error, NewEntry, Result, Scan, Table, Transaction, View,
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

    fn execute(&self, sql: &str, params: impl rusqlite::Params) -> Result<()> {
        self.tables.prepare_cached(sql)?.execute(params)?;
        Ok(())
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
    fn get(&self, table: Table, key: &str) -> Result<Option<Vec<u8>>> {
        view::get(&self.tables, table, key)
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
    fn missing_protections(&self) -> Result<Vec<String>> {
        self.entries.missing_protections()
    }
}

impl Transaction for Scratch<'_> {
    fn stamp(&self) -> Result<Timestamp> {
        Err(Error::NoWriter("a replay records nothing".into()))
    }
    fn append(&mut self, _: &NewEntry) -> Result<Appended> {
        Err(Error::NoWriter("a replay appends nothing".into()))
    }
    fn put(&mut self, table: Table, key: &str, value: &str) -> Result<()> {
        let name = connection::sql_name(table);
        self.execute(
            &format!("INSERT INTO {name} VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = excluded.value"),
            (key, value),
        )
    }
    fn delete(&mut self, table: Table, key: &str) -> Result<()> {
        self.execute(&format!("DELETE FROM {} WHERE key = ?1", connection::sql_name(table)), [key])
    }
}
