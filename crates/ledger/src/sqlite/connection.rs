//! Connections and the schema.

use std::{fs, path::Path};

use rusqlite::{Connection, OpenFlags};

use super::{Options, Sealing};
use crate::{Error, Result, Table};

/// "CRED", in the database header: tells our files from others'.
const APPLICATION_ID: i64 = 0x4352_4544;
/// Each step takes a database from version n to n + 1. Never edit one that was released; add the next.
const MIGRATIONS: [&str; 1] = ["
    CREATE TABLE entries (seq INTEGER PRIMARY KEY, entry TEXT NOT NULL) STRICT;
    CREATE TRIGGER entries_are_never_changed BEFORE UPDATE ON entries
        BEGIN SELECT RAISE(ABORT, 'entries are append-only: a correction is a new entry'); END;
    CREATE TRIGGER entries_are_never_deleted BEFORE DELETE ON entries
        BEGIN SELECT RAISE(ABORT, 'entries are append-only: a correction is a new entry'); END;
    CREATE TRIGGER entries_are_dense BEFORE INSERT ON entries
        WHEN NEW.seq IS NOT (SELECT coalesce(max(seq) + 1, 0) FROM entries)
        BEGIN SELECT RAISE(ABORT, 'entries are append-only: only the next seq can be inserted'); END;
    CREATE TABLE tiles (level INTEGER NOT NULL, idx INTEGER NOT NULL, hashes BLOB NOT NULL, PRIMARY KEY (level, idx)) STRICT, WITHOUT ROWID;
    CREATE TABLE checkpoint (id INTEGER PRIMARY KEY CHECK (id = 0), note TEXT NOT NULL) STRICT;
"];
/// The triggers among these, which an audit looks for.
pub(super) const TRIGGERS: [&str; 3] = ["entries_are_never_changed", "entries_are_never_deleted", "entries_are_dense"];
/// Pages in the write-ahead log before they are moved into the database: 64 MiB. A page that many transactions touch is
/// moved once.
const WAL_AUTOCHECKPOINT_PAGES: i64 = 16_384;
/// Bytes of the write-ahead log from which on it is moved aside of writing, where something does that.
const MOVE_WAL_BYTES: u64 = 4 * 1024 * 1024;
/// Page cache of the writer, in KiB.
const WRITER_CACHE_KIB: i64 = 64 * 1024;
/// Prepared statements kept per connection: two for each table and a few more.
const STATEMENTS: usize = 64;

/// The SQL name of a projection's table.
pub(super) fn sql_name(table: Table) -> String {
    format!("p_{}", table.0)
}

pub(super) fn create(options: &Options) -> Result<()> {
    let connection = open(&options.path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
    let made = (|| {
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "application_id", APPLICATION_ID)?;
        migrate(&connection, options)
    })();
    if made.is_err() {
        // Nothing half-made stays behind.
        drop(connection);
        let _ = fs::remove_file(&options.path);
    }
    made.map_err(|e| translate(&options.path, e))
}

pub(super) fn open_writer(options: &Options, repair: bool) -> Result<Connection> {
    let connection = open(&options.path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let prepared = (|| {
        check_ours(&connection, &options.path)?;
        if !repair {
            check_tables(&connection, options)?;
        }
        migrate(&connection, options)?;
        let synchronous = match options.sealing {
            Sealing::EveryCommit => "FULL",
            Sealing::Batched => "NORMAL",
            Sealing::Volatile => "OFF",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection.pragma_update(None, "wal_autocheckpoint", WAL_AUTOCHECKPOINT_PAGES)?;
        connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
        Ok(())
    })();
    prepared.map_err(|e| translate(&options.path, e))?;
    Ok(connection)
}

pub(super) fn open_reader(options: &Options) -> Result<Connection> {
    // Not SQLITE_OPEN_READ_ONLY: reading a WAL database needs its shared-memory file.
    let connection = open(&options.path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let prepared = (|| {
        check_ours(&connection, &options.path)?;
        check_tables(&connection, options)?;
        connection.pragma_update(None, "query_only", true)?;
        Ok(())
    })();
    prepared.map_err(|e| translate(&options.path, e))?;
    Ok(connection)
}

/// The write-ahead log of a database.
pub(super) fn wal(database: &Path) -> std::path::PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push("-wal");
    path.into()
}

/// Moves the write-ahead log into the database once it has grown, beside whoever writes.
pub(super) fn move_wal(database: &Path, mover: &mut Option<Connection>) -> Result<()> {
    if fs::metadata(wal(database)).map_or(0, |meta| meta.len()) < MOVE_WAL_BYTES {
        return Ok(());
    }
    let connection = match mover.take() {
        Some(connection) => connection,
        None => open(database, OpenFlags::SQLITE_OPEN_READ_WRITE)?,
    };
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
    *mover = Some(connection);
    Ok(())
}

/// Refuses a ledger with entries and without one of its tables: made anew it would be empty, and wrong.
fn check_tables(connection: &Connection, options: &Options) -> Result<()> {
    let mut statement = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")?;
    let there: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    let entries: bool = connection.query_row("SELECT EXISTS (SELECT 1 FROM entries)", [], |row| row.get(0))?;
    match options.tables.iter().map(|table| sql_name(*table)).find(|name| !there.contains(name)) {
        Some(missing) if entries => Err(Error::MissingTable(missing)),
        _ => Ok(()),
    }
}

fn open(path: &Path, flags: OpenFlags) -> Result<Connection> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|e| translate(path, e.into()))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    Ok(connection)
}

fn check_ours(connection: &Connection, path: &Path) -> Result<()> {
    let id: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if id != APPLICATION_ID {
        return Err(Error::NotOurs(path.to_owned(), "a SQLite database of another program".into()));
    }
    let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let known = MIGRATIONS.len() as i64;
    if found > known {
        return Err(Error::Newer { path: path.to_owned(), found, known });
    }
    Ok(())
}

fn migrate(connection: &Connection, options: &Options) -> Result<()> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let mut steps = String::new();
    for (step, sql) in MIGRATIONS.iter().enumerate().skip(version as usize) {
        steps += &format!("{sql}; PRAGMA user_version = {};", step + 1);
    }
    for table in options.tables {
        steps += &table_sql(*table);
    }
    connection.execute_batch(&format!("BEGIN IMMEDIATE; {steps} COMMIT;")).inspect_err(|_| {
        let _ = connection.execute_batch("ROLLBACK");
    })?;
    Ok(())
}

pub(super) fn table_sql(table: Table) -> String {
    let name = sql_name(table);
    format!("CREATE TABLE IF NOT EXISTS {name} (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;")
}

/// Gives SQLite's errors their meaning here.
pub(super) fn translate(path: &Path, error: Error) -> Error {
    use rusqlite::ErrorCode::{
        CannotOpen, DatabaseBusy, DatabaseCorrupt, DiskFull, NotADatabase, ReadOnly, SystemIoFailure,
    };
    let Error::Sqlite(sqlite) = error else { return error };
    let code = sqlite.sqlite_error_code();
    match code {
        Some(DiskFull) => Error::Full(path.to_owned()),
        Some(NotADatabase) => Error::NotOurs(path.to_owned(), "not a database".into()),
        Some(ReadOnly) => Error::ReadOnly(path.to_owned()),
        Some(DatabaseCorrupt) => {
            Error::Log(format!("{} is damaged as a file ({sqlite}): restore a copy", path.display()))
        }
        Some(CannotOpen) => Error::Io(path.to_owned(), std::io::Error::other(sqlite.to_string())),
        Some(DatabaseBusy) => Error::Locked { path: path.to_owned(), pid: "unknown".into() },
        Some(SystemIoFailure) if out_of_space(path) => Error::Full(path.to_owned()),
        _ => Error::Sqlite(sqlite),
    }
}

/// SQLite reports a failed write to its shared-memory file as an I/O error even when the disk is merely full.
fn out_of_space(path: &Path) -> bool {
    let probe = path.with_extension("probe");
    let full = fs::write(&probe, [0; 8192]).is_err_and(|e| e.kind() == std::io::ErrorKind::StorageFull);
    let _ = fs::remove_file(probe);
    full
}
