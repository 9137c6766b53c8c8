//! The checkpoint kept outside the database: a file that the database must extend, so that a restored old copy or a
//! rewritten history does not go unnoticed (DESIGN, *The ledger*).

use std::{
    fs::{self, File},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

use crate::{Checkpoint, Error, LogVerifier, Result, View, merkle};

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

    /// Reads and verifies it; `None` when there is no such file yet.
    pub fn read(&self, log: &LogVerifier) -> Result<Option<Checkpoint>> {
        match fs::read_to_string(&self.0) {
            Ok(note) => Checkpoint::open(&note, log)
                .map(Some)
                .map_err(|e| Error::DoesNotExtend { why: format!("{} cannot be used ({e})", self.0.display()) }),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::Io(self.0.clone(), e)),
        }
    }

    /// Replaces it atomically and durably.
    pub(crate) fn write(&self, note: &str) -> Result<()> {
        let io = |e| Error::Io(self.0.clone(), e);
        let next = self.0.with_extension("next");
        let mut file = File::create(&next).map_err(io)?;
        file.write_all(note.as_bytes()).and_then(|()| file.sync_all()).map_err(io)?;
        fs::rename(&next, &self.0).map_err(io)?;
        let folder = self.0.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(io)
    }

    /// Whether `view` extends the checkpoint: at least as long, and the same root at its size.
    pub fn check(&self, log: &LogVerifier, view: &dyn View) -> Result<()> {
        match self.read(log)? {
            Some(outside) => extends(&outside, view),
            None => Ok(()),
        }
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
