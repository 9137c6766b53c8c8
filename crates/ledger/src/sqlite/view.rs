//! Reads: the statements shared by readers, the writer and scratch tables.

use std::{
    ops::{ControlFlow, Deref},
    sync::{Mutex, PoisonError},
};

use rusqlite::{Connection, OptionalExtension, Params, Row, types::ValueRef};

use super::connection::{TRIGGERS, sql_name};
use crate::{
    Result, Scan, Table, View,
    store::{EntryVisitor, RowVisitor},
};

/// Sorts after every key that starts with the same prefix.
const LAST: char = char::MAX;

/// A reader connection that returns to the idle ones when dropped. Connections of an embedded database are file
/// handles: they neither time out nor break, so a list of idle ones is all the pool there is.
pub(super) struct Pooled<'a> {
    connection: Option<Connection>,
    idle: &'a Mutex<Vec<Connection>>,
}

impl<'a> Pooled<'a> {
    pub(super) fn new(connection: Connection, idle: &'a Mutex<Vec<Connection>>) -> Self {
        Self { connection: Some(connection), idle }
    }
}

impl Deref for Pooled<'_> {
    type Target = Connection;
    #[allow(clippy::expect_used, reason = "taken in drop only")]
    fn deref(&self) -> &Connection {
        self.connection.as_ref().expect("present until drop")
    }
}

impl Drop for Pooled<'_> {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take()
            && (connection.is_autocommit() || connection.execute_batch("ROLLBACK").is_ok())
        {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
    }
}

/// A consistent view: a read transaction, from its first query on.
pub(super) struct SqliteView<'a>(Pooled<'a>);

impl<'a> SqliteView<'a> {
    pub(super) fn begin(connection: Pooled<'a>) -> Result<Self> {
        connection.execute_batch("BEGIN DEFERRED")?;
        let view = Self(connection);
        view.size()?; // The first query fixes what the transaction sees.
        Ok(view)
    }
}

impl View for SqliteView<'_> {
    fn size(&self) -> Result<u64> {
        size(&self.0)
    }
    fn entry(&self, seq: u64) -> Result<Option<Vec<u8>>> {
        entry(&self.0, seq)
    }
    fn entries(&self, from: u64, visit: EntryVisitor<'_>) -> Result<()> {
        entries(&self.0, from, visit)
    }
    fn get(&self, table: Table, key: &str) -> Result<Option<Vec<u8>>> {
        get(&self.0, table, key)
    }
    fn scan(&self, table: Table, range: Scan<'_>, visit: RowVisitor<'_>) -> Result<()> {
        scan(&self.0, table, range, visit)
    }
    fn tile(&self, level: u8, index: u64) -> Result<Option<Vec<u8>>> {
        tile(&self.0, level, index)
    }
    fn checkpoint(&self) -> Result<Option<String>> {
        checkpoint(&self.0)
    }
    fn missing_protections(&self) -> Result<Vec<String>> {
        missing_protections(&self.0)
    }
}

pub(super) fn size(connection: &Connection) -> Result<u64> {
    let sql = "SELECT coalesce(max(seq) + 1, 0) FROM entries";
    Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

pub(super) fn entry(connection: &Connection, seq: u64) -> Result<Option<Vec<u8>>> {
    one(connection, "SELECT entry FROM entries WHERE seq = ?1", [seq])
}

pub(super) fn entries(connection: &Connection, from: u64, visit: EntryVisitor<'_>) -> Result<()> {
    let mut statement = connection.prepare_cached("SELECT entry, seq FROM entries WHERE seq >= ?1 ORDER BY seq")?;
    let mut rows = statement.query([from])?;
    while let Some(row) = rows.next()? {
        if visit(row.get(1)?, bytes(row, 0)?).is_break() {
            break;
        }
    }
    Ok(())
}

pub(super) fn get(connection: &Connection, table: Table, key: &str) -> Result<Option<Vec<u8>>> {
    one(connection, &format!("SELECT value FROM {} WHERE key = ?1", sql_name(table)), [key])
}

pub(super) fn scan(connection: &Connection, table: Table, range: Scan<'_>, visit: RowVisitor<'_>) -> Result<()> {
    let Scan { prefix, after, reverse } = range;
    let name = sql_name(table);
    let last = format!("{prefix}{LAST}");
    let mut run = |sql: String, params: [&str; 2]| -> Result<()> {
        let mut statement = connection.prepare_cached(&sql)?;
        let mut rows = statement.query(params)?;
        while let Some(row) = rows.next()? {
            let key = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
            if let ControlFlow::Break(()) = visit(key, bytes(row, 1)?) {
                break;
            }
        }
        Ok(())
    };
    match (reverse, after) {
        (false, None) => {
            run(format!("SELECT key, value FROM {name} WHERE key >= ?1 AND key <= ?2 ORDER BY key"), [prefix, &last])
        }
        (false, Some(after)) => {
            let from = after.max(prefix);
            run(format!("SELECT key, value FROM {name} WHERE key > ?1 AND key <= ?2 ORDER BY key"), [from, &last])
        }
        (true, after) => {
            let until = after.unwrap_or(&last).min(&last);
            run(
                format!("SELECT key, value FROM {name} WHERE key >= ?1 AND key < ?2 ORDER BY key DESC"),
                [prefix, until],
            )
        }
    }
}

pub(super) fn tile(connection: &Connection, level: u8, index: u64) -> Result<Option<Vec<u8>>> {
    let Ok(index) = i64::try_from(index) else { return Ok(None) };
    one(connection, "SELECT hashes FROM tiles WHERE level = ?1 AND idx = ?2", (level, index))
}

pub(super) fn checkpoint(connection: &Connection) -> Result<Option<String>> {
    let note = one(connection, "SELECT note FROM checkpoint", [])?;
    Ok(note.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

pub(super) fn missing_protections(connection: &Connection) -> Result<Vec<String>> {
    let mut statement = connection.prepare_cached("SELECT name FROM sqlite_schema WHERE type = 'trigger'")?;
    let there: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let missing = TRIGGERS.iter().filter(|name| !there.iter().any(|there| there == *name));
    Ok(missing.map(|name| format!("trigger {name}")).collect())
}

fn one(connection: &Connection, sql: &str, params: impl Params) -> Result<Option<Vec<u8>>> {
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_row(params, |row| bytes(row, 0).map(<[u8]>::to_vec)).optional()?)
}

/// Bytes of a TEXT or BLOB column, even when damage has made the text invalid UTF-8 or changed its type.
fn bytes<'a>(row: &'a Row<'_>, column: usize) -> rusqlite::Result<&'a [u8]> {
    Ok(match row.get_ref(column)? {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes,
        _ => &[],
    })
}
