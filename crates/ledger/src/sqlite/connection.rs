//! Connections and the schema.

use std::{
    fs::{self, File},
    io::{ErrorKind, Read},
    path::Path,
    sync::Arc,
};

use rusqlite::{Connection, OpenFlags};

use super::{
    Options, Sealing,
    access::{Access, immutable_uri},
};
use crate::{Error, Result, Table};

/// "CRED", in the database header: tells our files from others'.
const APPLICATION_ID: i64 = 0x4352_4544;
/// The format of the database and of the entries in it. A change that an older program cannot read, or whose entries an older
/// program would write differently, is a new number; a database of another number is refused, untouched.
const FORMAT: i64 = 4;
const SCHEMA: &str = "
    CREATE TABLE entries (seq INTEGER PRIMARY KEY, entry TEXT NOT NULL) STRICT;
    CREATE TABLE tiles (level INTEGER NOT NULL, idx INTEGER NOT NULL, hashes BLOB NOT NULL, PRIMARY KEY (level, idx)) STRICT, WITHOUT ROWID;
    CREATE TABLE checkpoint (id INTEGER PRIMARY KEY CHECK (id = 0), note TEXT NOT NULL) STRICT;
    CREATE TABLE jobs (
        queue TEXT NOT NULL, key TEXT NOT NULL, due INTEGER NOT NULL, payload TEXT NOT NULL,
        version INTEGER NOT NULL, lease INTEGER NOT NULL, leased_until INTEGER, attempts INTEGER NOT NULL, last_error TEXT,
        PRIMARY KEY (queue, key)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX jobs_due ON jobs (queue, due);
";
/// The triggers that protect the entries, by name and text. An audit compares the text: one of the same name could do nothing.
pub(super) const TRIGGERS: [(&str, &str); 3] = [
    (
        "entries_are_never_changed",
        "CREATE TRIGGER entries_are_never_changed BEFORE UPDATE ON entries \
         BEGIN SELECT RAISE(ABORT, 'entries are append-only: a correction is a new entry'); END",
    ),
    (
        "entries_are_never_deleted",
        "CREATE TRIGGER entries_are_never_deleted BEFORE DELETE ON entries \
         BEGIN SELECT RAISE(ABORT, 'entries are append-only: a correction is a new entry'); END",
    ),
    (
        "entries_are_dense",
        "CREATE TRIGGER entries_are_dense BEFORE INSERT ON entries \
         WHEN NEW.seq IS NOT (SELECT coalesce(max(seq) + 1, 0) FROM entries) \
         BEGIN SELECT RAISE(ABORT, 'entries are append-only: only the next seq can be inserted'); END",
    ),
];
/// Pages in the write-ahead log before they are moved into the database: 64 MiB. A page that many transactions touch is
/// moved once.
const WAL_AUTOCHECKPOINT_PAGES: i64 = 16_384;
/// Bytes of the write-ahead log from which on it is moved aside of writing, where something does that.
const MOVE_WAL_BYTES: u64 = 512 * 1024;
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
        let triggers: String = TRIGGERS.iter().map(|(_, sql)| format!("{sql};")).collect();
        create_tables(&connection, options, &format!("{SCHEMA} {triggers} PRAGMA user_version = {FORMAT};"))
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
        create_tables(&connection, options, "")?;
        let synchronous = match options.sealing {
            Sealing::EveryCommit => "FULL",
            Sealing::Batched => "NORMAL",
            Sealing::Volatile => "OFF",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection.pragma_update(None, "wal_autocheckpoint", WAL_AUTOCHECKPOINT_PAGES)?;
        if options.sealing == Sealing::Batched {
            // What a burst made of the file goes when it is begun anew.
            connection.pragma_update(None, "journal_size_limit", MOVE_WAL_BYTES)?;
        }
        connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
        Ok(())
    })();
    prepared.map_err(|e| translate(&options.path, e))?;
    Ok(connection)
}

pub(super) fn open_reader(options: &Options, access: &Access) -> Result<Connection> {
    let connection = match access {
        // Not SQLITE_OPEN_READ_ONLY: reading a WAL database needs its shared-memory file.
        Access::Shared => open(&options.path, OpenFlags::SQLITE_OPEN_READ_WRITE)?,
        Access::Immutable => {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
            open(Path::new(&immutable_uri(&options.path)), flags)?
        }
        Access::Copied(copy) => open(&copy.database, OpenFlags::SQLITE_OPEN_READ_WRITE)?,
    };
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

/// Moves the write-ahead log into the database once it has grown, beside other writers; in a `lull` also what little there is, and
/// leaves the file empty.
pub(super) fn move_wal(database: &Path, mover: &mut Option<Connection>, lull: bool) -> Result<()> {
    let bytes = fs::metadata(wal(database)).map_or(0, |meta| meta.len());
    if bytes == 0 || (bytes < MOVE_WAL_BYTES && !lull) {
        return Ok(());
    }
    let connection = match mover.take() {
        Some(connection) => connection,
        None => {
            let connection = open(database, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            // Readers and writers go first: the next lull comes.
            connection.busy_timeout(std::time::Duration::ZERO)?;
            connection
        }
    };
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))?;
    if lull {
        // Everything has moved and is on disk: what is left to do keeps a writer for a moment only.
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    }
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
        return Err(Error::NotOurs(path.display().to_string(), "a SQLite database of another program".into()));
    }
    check_format(path, connection.pragma_query_value(None, "user_version", |row| row.get(0))?)
}

/// Refuses a database of another format.
fn check_format(path: &Path, found: i64) -> Result<()> {
    let place = path.display().to_string();
    match found.cmp(&FORMAT) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => Err(Error::Newer { place, found, known: FORMAT }),
        std::cmp::Ordering::Less => Err(Error::Older { place, found, known: FORMAT }),
    }
}

/// Refuses a file of another format by its header, before SQLite opens it: opening would already create files beside it. A file
/// that says nothing yet (its first page is still in the write-ahead log) is left to SQLite.
pub(super) fn check_header(path: &Path) -> Result<()> {
    let mut header = [0; 72];
    match File::open(path).and_then(|mut file| file.read_exact(&mut header)) {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::NotFound => return Err(Error::Missing(path.display().to_string())),
        Err(e) if e.kind() == ErrorKind::UnexpectedEof => return Ok(()),
        Err(e) => return Err(Error::io(path, e)),
    }
    // The SQLite file format, 1.3: user version at 60, application id at 68, both big-endian.
    let number =
        |at: usize| i64::from(u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]));
    match (number(68), number(60)) {
        (APPLICATION_ID, format) if format != 0 => check_format(path, format),
        _ => Ok(()),
    }
}

/// Creates the projections' tables that are missing.
fn create_tables(connection: &Connection, options: &Options, before: &str) -> Result<()> {
    let tables: String = options.tables.iter().map(|table| table_sql(*table)).collect();
    connection.execute_batch(&format!("BEGIN IMMEDIATE; {before} {tables} COMMIT;")).inspect_err(|_| {
        let _ = connection.execute_batch("ROLLBACK");
    })?;
    Ok(())
}

pub(super) fn table_sql(table: Table) -> String {
    let name = sql_name(table);
    format!("CREATE TABLE IF NOT EXISTS {name} (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;")
}

/// Where an error happened, before anybody said where the database is.
const SOMEWHERE: &str = "the database";

/// Gives SQLite's errors their meaning here.
impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{
            CannotOpen, DatabaseBusy, DatabaseCorrupt, DiskFull, NotADatabase, ReadOnly, SystemIoFailure,
        };
        let place = SOMEWHERE.to_owned();
        match error.sqlite_error_code() {
            Some(DiskFull) => Error::Full(place),
            Some(NotADatabase) => Error::NotOurs(place, "not a database".into()),
            Some(ReadOnly) => Error::ReadOnly(place),
            Some(DatabaseCorrupt) => Error::Log(format!("{place} is damaged as a file ({error}): restore a copy")),
            Some(DatabaseBusy) => Error::Locked { place, pid: "unknown".into() },
            Some(CannotOpen | SystemIoFailure) => Error::Io(place, Arc::new(std::io::Error::other(error.to_string()))),
            _ => Error::Database(error.to_string()),
        }
    }
}

/// Says where an error happened, and finds a full disk behind an I/O error.
pub(super) fn translate(path: &Path, error: Error) -> Error {
    let place = path.display().to_string();
    match error {
        Error::Full(at) if at == SOMEWHERE => Error::Full(place),
        Error::NotOurs(at, why) if at == SOMEWHERE => Error::NotOurs(place, why),
        Error::ReadOnly(at) if at == SOMEWHERE => Error::ReadOnly(place),
        Error::Locked { place: at, pid } if at == SOMEWHERE => Error::Locked { place, pid },
        Error::Log(why) => Error::Log(why.replacen(SOMEWHERE, &place, usize::from(why.starts_with(SOMEWHERE)))),
        Error::Io(at, _) if at == SOMEWHERE && out_of_space(path) => Error::Full(place),
        Error::Io(at, error) if at == SOMEWHERE => Error::Io(place, error),
        other => other,
    }
}

/// SQLite reports a failed write to its shared-memory file as an I/O error even when the disk is merely full.
fn out_of_space(path: &Path) -> bool {
    let probe = path.with_extension("probe");
    let full = fs::write(&probe, [0; 8192]).is_err_and(|e| e.kind() == ErrorKind::StorageFull);
    let _ = fs::remove_file(probe);
    full
}
