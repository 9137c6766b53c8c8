//! The journal of operations: what a person did to a guard, on its way into the guard's own ledger.
//!
//! A command (`credence guard accept CALL`, …) appends a line to the file `operations` in the guard's place. The guard, which may be
//! running or start later, takes the lines up: it learns from them, writes each as an entry ([`crate::operation`]) into its ledger, and
//! empties the file once both are kept.
//!
//! ```text
//! MAC {"action":"accept","at":"…","by":{"terminal":"/dev/pts/3","uid":1000,"user":"ann"},"call":"…","id":"…"}
//! ```
//!
//! The MAC is HMAC-SHA256 under a key made of the guard's private key, the log's name and a word of its own: a line that somebody
//! without that key has planted, or copied from another guard or from the journal of receipts, is not believed. Writers and the
//! guard lock the file, so that no line is lost while it is emptied.
//!
//! `credence guard off` and `on` append lines of the same form to the file `switch` in the server's folder. It is never emptied: its last
//! line is the state of the switch.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use credence_protocol::SecretKey;

use crate::{Error, OperationRecord, journal::JournalKey};

/// The file's name, in the guard's place.
const FILE: &str = "operations";
/// The name of the file with what switched a server's guards off and on, in the server's folder.
const SWITCH: &str = "switch";
/// How the names of copies end in which there are lines that nobody with the key wrote.
const REFUSED: &str = "refused";
/// Copies that are kept.
const MAX_COPIES: usize = 8;
/// Bytes of it beyond which nothing more is taken until the guard has taken up what is there: some ten thousand operations.
const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// The file of operations of one guard.
pub struct OperationJournal {
    path: PathBuf,
    name: &'static str,
    key: JournalKey,
}

/// What is in the file.
#[derive(Debug, Default)]
pub struct WaitingOperations {
    /// In the order they were written.
    pub operations: Vec<OperationRecord>,
    /// Lines whose MAC is missing or does not fit, or that say nothing known: they count for nothing.
    pub refused: usize,
    /// Bytes up to the last whole line.
    bytes: u64,
    /// The file's name.
    file: &'static str,
}

impl WaitingOperations {
    /// What is wrong with the file, in words.
    pub fn trouble(&self) -> Option<String> {
        let WaitingOperations { refused, file, .. } = self;
        (*refused > 0).then(|| {
            let (lines, were, they) = if *refused == 1 { ("line", "was", "it counts") } else { ("lines", "were", "they count") };
            format!("{refused} {lines} in '{file}' {were} not written by this guard's commands, or {were} changed: {they} for nothing")
        })
    }
}

/// The key of the MACs in the file of the log `name`.
pub(crate) fn key(key: &SecretKey, name: &str) -> JournalKey {
    JournalKey::new(key, &format!("{name}/{FILE}"))
}

impl OperationJournal {
    pub(crate) fn new(place: &Path, key: JournalKey) -> Self {
        Self { path: place.join(FILE), name: FILE, key }
    }

    /// The file of switchings of the server in `server`, for all its guards: nobody empties it.
    pub fn of_switch(server: &Path, secret: &SecretKey) -> Self {
        let folder = server.file_name().unwrap_or_default().to_string_lossy();
        Self { path: server.join(SWITCH), name: SWITCH, key: JournalKey::new(secret, &format!("{folder}/{SWITCH}")) }
    }

    /// Bytes of the file; `None` where there is none.
    pub fn length(&self) -> Option<u64> {
        std::fs::metadata(&self.path).ok().map(|meta| meta.len())
    }

    fn io(&self, error: io::Error) -> Error {
        Error::Io(self.path.clone(), error)
    }

    fn open_locked(&self) -> Result<File, Error> {
        let opened = OpenOptions::new().create(true).read(true).append(true).mode(0o600).open(&self.path);
        let file = opened.map_err(|e| self.io(e))?;
        file.lock().map_err(|e| self.io(e))?;
        Ok(file)
    }

    /// Adds operations. When it returns the disk has them; where it fails, none is there.
    pub fn append(&self, operations: &[OperationRecord]) -> Result<(), Error> {
        let mut lines = Vec::new();
        for operation in operations {
            self.key.push(&mut lines, &[&serde_json::to_vec(operation)?]);
        }
        let mut file = self.open_locked()?;
        let before = file.metadata().map_err(|e| self.io(e))?.len();
        // After a line that was cut off, a new one.
        if ends_torn(&file, before).map_err(|e| self.io(e))? {
            lines.insert(0, b'\n');
        }
        if before + lines.len() as u64 > MAX_BYTES {
            return Err(Error::OperationsFull { path: self.path.clone(), most: MAX_BYTES });
        }
        let written = file.write_all(&lines).and_then(|()| file.sync_data());
        written.map_err(|e| {
            let _ = file.set_len(before);
            self.io(e)
        })
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        std::fs::metadata(&self.path).map_or(true, |meta| meta.len() == 0)
    }

    /// Copies the file for people to look at, unless there are enough copies already. Gives the newest copy.
    pub fn put_aside(&self) -> Result<PathBuf, Error> {
        if let Some(newest) = self.copies().pop().filter(|_| self.copies().len() >= MAX_COPIES) {
            return Ok(newest);
        }
        let aside = self.path.with_extension(format!("{}.{REFUSED}", crate::now().micros()));
        std::fs::copy(&self.path, &aside).map_err(|e| Error::Io(aside.clone(), e))?;
        Ok(aside)
    }

    /// The copies in which there are lines that nobody with the key wrote, the oldest first.
    pub fn copies(&self) -> Vec<PathBuf> {
        let folder = self.path.parent().map(std::fs::read_dir);
        let files = folder.into_iter().flatten().flatten().flatten().map(|file| file.path());
        let mut found: Vec<PathBuf> = files
            .filter(|path| {
                let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                name.starts_with(self.name) && name.ends_with(REFUSED)
            })
            .collect();
        found.sort();
        found
    }

    /// What is in it.
    pub fn read(&self) -> Result<WaitingOperations, Error> {
        let mut found = WaitingOperations { file: self.name, ..WaitingOperations::default() };
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
            Err(error) => return Err(self.io(error)),
        };
        file.lock_shared().map_err(|e| self.io(e))?;
        let mut bytes = Vec::new();
        (&file).take(MAX_BYTES).read_to_end(&mut bytes).map_err(|e| self.io(e))?;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            // One without an end was never acknowledged.
            let Some(line) = line.strip_suffix(b"\n") else { break };
            found.bytes += line.len() as u64 + 1;
            let record = self.key.open(line).and_then(|record| serde_json::from_slice(record).ok());
            match record {
                Some(operation) => found.operations.push(operation),
                None if line.is_empty() => {}
                None => found.refused += 1,
            }
        }
        Ok(found)
    }

    /// Empties the file, unless something was added since `taken` was read: then all of it stays, for the next time. Gives whether
    /// it is empty.
    pub fn clear(&self, taken: &WaitingOperations) -> Result<bool, Error> {
        let file = self.open_locked()?;
        let same = file.metadata().map_err(|e| self.io(e))?.len() == taken.bytes;
        if same {
            file.set_len(0).map_err(|e| self.io(e))?;
        }
        Ok(same)
    }
}

/// Whether a file of so many bytes ends in the middle of a line.
fn ends_torn(file: &File, bytes: u64) -> io::Result<bool> {
    let mut last = [b'\n'];
    if bytes > 0 {
        file.read_exact_at(&mut last, bytes - 1)?;
    }
    Ok(last != *b"\n")
}

#[cfg(test)]
mod tests {
    use credence_protocol::Uuid;

    use super::*;
    use crate::{OperationAction, Operator};

    fn operation(n: u128) -> OperationRecord {
        OperationRecord {
            action: OperationAction::Accept,
            at: crate::now(),
            by: Some(Operator { terminal: Some("/dev/pts/3".into()), uid: 1000, user: Some("ann".into()) }),
            call: Some(Uuid::from_u128(n)),
            detail: None,
            id: Uuid::from_u128(1000 + n),
            tool: Some("weather".into()),
        }
    }

    fn journal(folder: &Path, name: &str) -> OperationJournal {
        OperationJournal::new(folder, key(&SecretKey::from_seed(&[7; 32]), name))
    }

    #[test]
    fn what_is_written_is_read_once_and_what_comes_later_stays() {
        let folder = tempfile::tempdir().unwrap();
        let journal = journal(folder.path(), "guard/fs/1");
        assert!(journal.is_empty() && journal.read().unwrap().operations.is_empty());
        journal.append(&[operation(1), operation(2)]).unwrap();
        let taken = journal.read().unwrap();
        let calls: Vec<_> = taken.operations.iter().map(|one| one.call).collect();
        assert_eq!(calls, [Some(Uuid::from_u128(1)), Some(Uuid::from_u128(2))]);
        journal.append(&[operation(3)]).unwrap();
        assert!(!journal.clear(&taken).unwrap());
        let all = journal.read().unwrap();
        assert_eq!(all.operations.len(), 3, "nothing that was not read is lost");
        assert!(journal.clear(&all).unwrap() && journal.is_empty());
    }

    /// Somebody who can write the file and has no key: forged, changed, copied from another guard, cut off.
    #[test]
    fn planted_lines_are_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, other) = (tempfile::tempdir().unwrap(), journal(folder.path(), "guard/other/1"));
        other.append(&[operation(9)]).unwrap();
        let copied = std::fs::read(folder.path().join(FILE)).unwrap();
        let journal = journal(ours.path(), "guard/fs/1");
        journal.append(&[operation(1)]).unwrap();
        let genuine = std::fs::read_to_string(ours.path().join(FILE)).unwrap();
        let changed = genuine.replace("accept", "reject");
        let planted = format!("{} {}\n", "A".repeat(43), serde_json::to_string(&operation(5)).unwrap());
        let all =
            [genuine.as_bytes(), &copied, changed.as_bytes(), planted.as_bytes(), b"\n", &genuine.as_bytes()[..60]];
        std::fs::write(ours.path().join(FILE), all.concat()).unwrap();
        let read = journal.read().unwrap();
        assert_eq!((read.operations.len(), read.refused), (1, 3));
        assert_eq!(read.operations[0].call, Some(Uuid::from_u128(1)));
        assert!(read.trouble().unwrap().contains("3 lines"));
        let copies: Vec<PathBuf> = (0..20).map(|_| journal.put_aside().unwrap()).collect();
        assert!(copies.iter().all(|copy| journal.copies().contains(copy)));
        assert_eq!(journal.copies().len(), MAX_COPIES, "somebody who plants lines cannot fill the disk with copies");
    }

    #[test]
    fn a_guard_that_never_comes_back_is_told_of() {
        let folder = tempfile::tempdir().unwrap();
        let journal = journal(folder.path(), "guard/fs/1");
        let many: Vec<OperationRecord> = (0..10_000).map(operation).collect();
        journal.append(&many).unwrap();
        let error = journal.append(&many).unwrap_err().to_string();
        assert!(error.contains("start its guard") && error.contains("4194304"), "{error}");
        assert_eq!(journal.read().unwrap().operations.len(), 10_000, "nothing of what was refused is there");
    }
}
