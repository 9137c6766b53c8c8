//! Reads: the statements shared by readers, the writer and scratch tables.

use std::{
    ops::{ControlFlow, Deref},
    sync::{Mutex, PoisonError},
};

use rusqlite::{Connection, OptionalExtension, Params, Row, types::ValueRef};

use super::{
    connection::{TRIGGERS, sql_name},
    jobs,
};
use crate::{
    Job, Queue, Result, Scan, Table, View,
    store::{EntryVisitor, RowVisitor},
};

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
    fn get_many(&self, table: Table, keys: &[&str]) -> Result<Vec<Option<Vec<u8>>>> {
        get_many(&self.0, table, keys)
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
    fn job(&self, queue: Queue, key: &str) -> Result<Option<Job>> {
        jobs::read(&self.0, queue, key)
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

pub(super) fn get_many(connection: &Connection, table: Table, keys: &[&str]) -> Result<Vec<Option<Vec<u8>>>> {
    let sql = format!("SELECT value FROM {} WHERE key = ?1", sql_name(table));
    let mut statement = connection.prepare_cached(&sql)?;
    let rows = keys.iter().map(|key| statement.query_row([key], |row| bytes(row, 0).map(<[u8]>::to_vec)).optional());
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// The first text after every text that starts with `prefix`; `None` when there is none.
fn after_prefix(prefix: &str) -> Option<String> {
    let mut rest = prefix.to_owned();
    while let Some(last) = rest.pop() {
        // Characters sort as their UTF-8 bytes do; the range skips code points that are not characters.
        if let Some(next) = (last..=char::MAX).nth(1) {
            rest.push(next);
            return Some(rest);
        }
    }
    None
}

pub(super) fn scan(connection: &Connection, table: Table, range: Scan<'_>, visit: RowVisitor<'_>) -> Result<()> {
    let Scan { prefix, after, reverse } = range;
    let end = after_prefix(prefix);
    let (from, from_op) = match after.filter(|_| !reverse) {
        Some(after) if after >= prefix => (after, ">"),
        _ => (prefix, ">="),
    };
    let until = match (after.filter(|_| reverse), &end) {
        (Some(after), Some(end)) => Some(after.min(end)),
        (Some(after), None) => Some(after),
        (None, end) => end.as_deref(),
    };
    let name = sql_name(table);
    let upper = if until.is_some() { " AND key < ?2" } else { "" };
    let order = if reverse { " DESC" } else { "" };
    let sql = format!("SELECT key, value FROM {name} WHERE key {from_op} ?1{upper} ORDER BY key{order}");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = match until {
        Some(until) => statement.query([from, until])?,
        None => statement.query([from])?,
    };
    while let Some(row) = rows.next()? {
        let key = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        if let ControlFlow::Break(()) = visit(key, bytes(row, 1)?) {
            break;
        }
    }
    Ok(())
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
    let mut statement = connection.prepare_cached("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")?;
    let there: Vec<(String, String)> =
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<rusqlite::Result<_>>()?;
    let mut wrong = Vec::new();
    for (name, expected) in TRIGGERS {
        match there.iter().find(|(there, _)| there == name) {
            None => wrong.push(format!("trigger {name} is missing")),
            Some((_, sql)) if sql != expected => wrong.push(format!("trigger {name} is not the one that was made")),
            Some(_) => {}
        }
    }
    // One that was added can undo what ours refuse.
    let ours = |name: &str| TRIGGERS.iter().any(|(ours, _)| *ours == name);
    let added = there.iter().filter(|(name, _)| !ours(name));
    wrong.extend(added.map(|(name, _)| format!("trigger {name} does not belong there")));
    Ok(wrong)
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
