//! How a reader gets at the database. Readers of a WAL database share a file beside it, which SQLite has to write. Where the folder
//! cannot be written (a read-only mount, a copy that belongs to somebody else), the database is read as one that nobody changes; or
//! as a copy, where a process that was killed left a write-ahead log whose content SQLite would pass over.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use rusqlite::Connection;

use super::{Options, connection};
use crate::{Error, Result};

/// How readers get at the database.
pub(super) enum Access {
    /// Beside a writer.
    Shared,
    /// As a file that nobody changes.
    Immutable,
    /// In a copy, with its write-ahead log.
    Copied(ReadCopy),
}

/// A copy for reading; goes with its last reader.
pub(super) struct ReadCopy {
    folder: PathBuf,
    pub(super) database: PathBuf,
}

impl Drop for ReadCopy {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Opens a reader in the first way that works.
pub(super) fn open(options: &Options) -> Result<(Access, Connection)> {
    let shared = connection::open_reader(options, &Access::Shared);
    let error = match shared {
        Ok(reader) => return Ok((Access::Shared, reader)),
        Err(error @ (Error::ReadOnly(_) | Error::Io(..))) => error,
        Err(error) => return Err(error),
    };
    let access = if connection::wal(&options.path).exists() {
        // What cannot be copied either is told by the first error.
        Access::Copied(copy(&options.path).map_err(|_| error)?)
    } else {
        Access::Immutable
    };
    let reader = connection::open_reader(options, &access)?;
    Ok((access, reader))
}

/// Copies a database and its write-ahead log into a folder that only this user can read.
fn copy(database: &Path) -> std::io::Result<ReadCopy> {
    use std::os::unix::fs::DirBuilderExt;
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("credence-read-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let folder = std::env::temp_dir().join(name);
    // Fails where somebody made it before.
    fs::DirBuilder::new().mode(0o700).create(&folder)?;
    let copy = ReadCopy { database: folder.join("ledger.db"), folder };
    // Written, not copied with their permissions: a copy that cannot be written would be no better.
    for (from, to) in
        [(database.to_owned(), copy.database.clone()), (connection::wal(database), connection::wal(&copy.database))]
    {
        std::io::copy(&mut fs::File::open(from)?, &mut fs::File::create(to)?)?;
    }
    Ok(copy)
}

/// The address under which SQLite takes a file for one that nobody changes.
pub(super) fn immutable_uri(path: &Path) -> String {
    let text = path.display().to_string();
    let encoded = text.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    format!("file:{encoded}?immutable=1")
}
