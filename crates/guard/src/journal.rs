//! Receipts on their way into the ledger.
//!
//! A transaction of the database for each call would cost more than everything else that the guard does with it. So a receipt is
//! first appended to a file, in one write: then its result goes on. When there is a moment without messages the receipts that
//! came together move into the ledger, in one transaction, and the file is emptied. A guard that was killed in between leaves
//! them in the file: the next one takes them from there, and whoever reads receipts looks there too.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{Error, receipts::NewReceipt};

/// The file's name, in the folder of the receipts.
const FILE: &str = "journal";

/// The file, to write.
pub struct Journal {
    path: PathBuf,
    file: File,
    bytes: u64,
}

/// What is in the file.
#[derive(Debug, Default)]
pub struct Waiting {
    /// Receipts, in the order they were written. Some may be in the ledger already.
    pub receipts: Vec<NewReceipt>,
    /// Lines that cannot be read, apart from one that was never finished: its result has not gone on.
    pub unreadable: usize,
}

impl Journal {
    /// Goes on with the file in `folder`, which is made where there is none.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(FILE);
        let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        let opened = opened.and_then(|file| Ok((file.metadata()?.len(), file)));
        let (bytes, file) = opened.map_err(|e| Error::Io(path.clone(), e))?;
        Ok(Self { path, file, bytes })
    }

    /// Appends lines, all or none. When it returns they outlive this process.
    pub fn append(&mut self, lines: &[u8]) -> Result<(), Error> {
        if let Err(error) = self.file.write_all(lines) {
            // A line of which only a part found room would spoil the next.
            let _ = self.file.set_len(self.bytes);
            return Err(Error::Io(self.path.clone(), error));
        }
        self.bytes += lines.len() as u64;
        Ok(())
    }

    /// Empties it: everything in it is in the ledger.
    pub fn clear(&mut self) -> Result<(), Error> {
        if self.bytes > 0 {
            self.file.set_len(0).map_err(|e| Error::Io(self.path.clone(), e))?;
            self.bytes = 0;
        }
        Ok(())
    }

    /// Puts a copy aside, for people to look at.
    pub fn put_aside(&self) -> Result<PathBuf, Error> {
        let aside = self.path.with_extension("damaged");
        fs::copy(&self.path, &aside).map_err(|e| Error::Io(aside.clone(), e))?;
        Ok(aside)
    }
}

/// One line. `receipt` is the canonical form that goes into the ledger, `private` JSON.
pub fn line(out: &mut Vec<u8>, receipt: &[u8], private: &[u8]) {
    for part in [b"{\"receipt\":".as_slice(), receipt, b",\"private\":", private, b"}\n"] {
        out.extend_from_slice(part);
    }
}

/// What waits in the file of `folder`, which may be that of a guard that runs.
pub fn read(folder: &Path) -> Result<Waiting, Error> {
    #[derive(Deserialize)]
    struct Line {
        receipt: credence_protocol::receipt::Receipt,
        private: crate::receipts::Private,
    }
    let path = folder.join(FILE);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Waiting::default()),
        Err(error) => return Err(Error::Io(path, error)),
    };
    let mut waiting = Waiting::default();
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    for line in bytes[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        match serde_json::from_slice(line) {
            Ok(Line { receipt, private }) => waiting.receipts.push(NewReceipt { receipt, private }),
            Err(_) => waiting.unreadable += 1,
        }
    }
    Ok(waiting)
}
