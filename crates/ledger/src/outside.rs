//! The checkpoint kept outside the database: a file that the database must extend, so that a restored old copy or a
//! rewritten history does not go unnoticed (DESIGN, *The ledger*).

use std::{
    fs::{self, File},
    io::{ErrorKind, Read, Write},
    path::{Path, PathBuf},
};

use crate::{Checkpoint, Error, LogVerifier, Result, View, merkle};

/// A checkpoint with a few dozen cosignatures is far smaller.
const MAX_NOTE_BYTES: u64 = 64 * 1024;

/// The file with the last signed checkpoint.
#[derive(Debug, Clone)]
pub struct OutsideCheckpoint(PathBuf);

impl OutsideCheckpoint {
    /// Kept at `path`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Where.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Reads and verifies it. It is there from the ledger's creation on: a missing file is as bad as a wrong one.
    pub fn read(&self, log: &LogVerifier) -> Result<Checkpoint> {
        let unusable =
            |why: &dyn std::fmt::Display| Error::DoesNotExtend { why: format!("{} {why}", self.0.display()) };
        let mut note = String::new();
        match File::open(&self.0).and_then(|file| file.take(MAX_NOTE_BYTES).read_to_string(&mut note)) {
            Ok(_) => Checkpoint::open(&note, log).map_err(|e| unusable(&format_args!("cannot be used ({e})"))),
            Err(e) if e.kind() == ErrorKind::NotFound => Err(unusable(&"is missing")),
            Err(e) => Err(Error::io(&self.0, e)),
        }
    }

    /// Replaces it atomically and durably.
    pub(crate) fn write(&self, note: &str) -> Result<()> {
        let io = |e: std::io::Error| match e.kind() {
            ErrorKind::StorageFull => Error::Full(self.0.display().to_string()),
            _ => Error::io(&self.0, e),
        };
        let next = self.0.with_extension("next");
        let mut file = File::create(&next).map_err(io)?;
        file.write_all(note.as_bytes()).and_then(|()| file.sync_all()).map_err(io)?;
        fs::rename(&next, &self.0).map_err(io)?;
        let folder = self.0.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(io)
    }
}

/// Whether the log in `view` extends `older`.
pub(crate) fn extends(older: &Checkpoint, view: &dyn View) -> Result<()> {
    let size = view.size()?;
    if size < older.size {
        let why = format!("the database has {size} entries, the checkpoint was made at {}", older.size);
        return Err(Error::DoesNotExtend { why });
    }
    if merkle::root(older.size, view)? != older.root {
        let why = format!("its first {} entries are not those that the checkpoint was signed over", older.size);
        return Err(Error::DoesNotExtend { why });
    }
    Ok(())
}
