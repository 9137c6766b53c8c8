//! Receipts on their way into the ledger.
//!
//! A transaction of the database for each call would cost more than everything else that the guard does with it. So a receipt is
//! first appended to a file, in one write: then its result goes on. When there is a moment without messages the receipts that
//! came together move into the ledger, in one transaction, and the file is emptied. A guard that was killed in between leaves
//! them in the file: the next one takes them from there, and whoever reads receipts looks there too.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{Error, receipts::NewReceipt};

/// The file's name, in the folder of the receipts.
const FILE: &str = "journal";
/// How the names of copies end in which there are lines that cannot be read.
const DAMAGED: &str = "damaged";
/// A guard that writes may empty the file while it is read: it is read again, so many times.
const READINGS: usize = 3;

/// The file, to write.
pub struct Journal {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// It may end in the middle of a line.
    torn: bool,
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
        Ok(Self { path, file, bytes, torn: bytes > 0 })
    }

    /// Appends lines, all or none. When it returns they outlive this process.
    pub fn append(&mut self, lines: &[u8]) -> Result<(), Error> {
        let begun = if self.torn { self.file.write_all(b"\n") } else { Ok(()) };
        if let Err(error) = begun.and_then(|()| self.file.write_all(lines)) {
            // A line of which only a part found room would spoil the next.
            if self.file.set_len(self.bytes).is_err() {
                self.torn = true;
                self.bytes = self.file.metadata().map_or(self.bytes, |meta| meta.len());
            }
            return Err(Error::Io(self.path.clone(), error));
        }
        self.bytes += lines.len() as u64 + u64::from(self.torn);
        self.torn = false;
        Ok(())
    }

    /// Empties it: everything in it is in the ledger.
    pub fn clear(&mut self) -> Result<(), Error> {
        if self.bytes > 0 {
            self.file.set_len(0).map_err(|e| Error::Io(self.path.clone(), e))?;
            (self.bytes, self.torn) = (0, false);
        }
        Ok(())
    }

    /// Puts a copy aside, for people to look at: as long as it is there, nobody is accused for want of a receipt.
    pub fn put_aside(&self) -> Result<PathBuf, Error> {
        let aside = self.path.with_extension(format!("{}.{DAMAGED}", crate::segments::now().micros()));
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

/// The copies in `folder` in which there are lines that cannot be read.
pub fn damaged(folder: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|file| file.path());
    let mut found: Vec<PathBuf> = files
        .filter(|path| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            name.starts_with(FILE) && name.ends_with(DAMAGED)
        })
        .collect();
    found.sort();
    found
}

/// What waits in the file of `folder`, which may be that of a guard that runs.
pub fn read(folder: &Path) -> Result<Waiting, Error> {
    let mut waiting = read_once(folder)?;
    for _ in 1..READINGS {
        if waiting.unreadable == 0 {
            break;
        }
        waiting = read_once(folder)?;
    }
    Ok(waiting)
}

fn read_once(folder: &Path) -> Result<Waiting, Error> {
    #[derive(Deserialize)]
    struct Line {
        receipt: credence_protocol::receipt::Receipt,
        private: crate::receipts::Private,
    }
    let path = folder.join(FILE);
    // No further than it reached when it was opened.
    let whole = File::open(&path).and_then(|file| {
        let mut bytes = Vec::new();
        let length = file.metadata()?.len();
        file.take(length).read_to_end(&mut bytes).map(|_| bytes)
    });
    let bytes = match whole {
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

#[cfg(test)]
mod tests {
    use credence_ledger::Ledger;
    use credence_protocol::{
        EntityId, SecretKey, Uuid,
        receipt::{CallOutcome, Receipt, Salts},
    };

    use super::*;
    use crate::{
        reading::{Archive, Filter, Found},
        receipts::{Beside, Private, Recorder},
        segments::{now, origin},
    };

    struct Place {
        state: tempfile::TempDir,
        provider: EntityId,
        key: SecretKey,
    }

    impl Place {
        fn new() -> Self {
            let (state, provider) = (tempfile::tempdir().unwrap(), EntityId::new("lab").unwrap());
            crate::folder::make(&state.path().join("fs/1")).unwrap();
            Self { state, provider, key: SecretKey::generate().unwrap() }
        }

        fn folder(&self) -> PathBuf {
            self.state.path().join("fs/1/receipts")
        }

        fn recorder(&self) -> Recorder {
            let log = origin(&self.provider, "fs", 1);
            Recorder::open(&self.state.path().join("fs/1"), &log, &self.provider, &self.key, 1 << 24).unwrap()
        }

        fn found(&self) -> (Vec<Found>, Vec<String>) {
            let archive = Archive::open(self.state.path(), &self.provider, &self.key.public()).unwrap();
            let (mut all, mut problems) = (Vec::new(), Vec::new());
            let each = &mut |found: Found, private: Option<Private>| {
                assert!(private.is_some());
                all.push(found);
                Ok(())
            };
            archive.visit(&Filter::default(), each, &mut |problem| problems.push(problem)).unwrap();
            (all, problems)
        }
    }

    fn new(tool: &str) -> NewReceipt {
        let salts = Salts::generate().unwrap();
        let receipt = Receipt {
            agent: None,
            arguments: salts.arguments(None),
            call: Uuid::now_v7(),
            client: None,
            content_injection: None,
            delivered: None,
            execution_ms: Some(1.5),
            outcome: CallOutcome::Result,
            posterior: Some(0.25),
            request: Some("1".to_owned()),
            result: None,
            server: "fs".to_owned(),
            session: Some("a \"session\"\n".to_owned()),
            checks: Vec::new(),
            stake: None,
            started_at: now(),
            tool: tool.to_owned(),
            unjudged: None,
            verdict: None,
        };
        NewReceipt { receipt, private: Private { salts, print: String::new() } }
    }

    #[test]
    fn what_a_killed_guard_left_is_read_and_taken_once() {
        let place = Place::new();
        let killed = place.recorder();
        let all = [new("one"), new("two"), new("three")];
        killed.record(all[..1].iter()).unwrap();
        assert_eq!(killed.settle(Beside::default()).unwrap().len(), 0, "of nobody");
        killed.record(all[1..].iter()).unwrap();
        let left = fs::read(place.folder().join(FILE)).unwrap();
        drop(killed);
        // Without a guard that runs.
        let (found, problems) = place.found();
        assert_eq!(found.iter().map(|one| one.at.is_some()).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!(found.iter().map(|one| &one.receipt).collect::<Vec<_>>(), all.each_ref().map(|one| &one.receipt));
        assert_eq!(problems, [""; 0]);
        let archive = Archive::open(place.state.path(), &place.provider, &place.key.public()).unwrap();
        assert!(archive.find(all[2].receipt.call).unwrap().is_some_and(|(found, _)| found.at.is_none()));
        assert_eq!(archive.sources[0].audit().unwrap(), (3, Vec::new()));
        let why = archive.proof(&found[1]).err().map(|error| error.to_string());
        assert!(why.is_some_and(|why| why.contains("when a guard starts again")));

        let next = place.recorder();
        assert_eq!((next.unsettled(), next.current().1.view().unwrap().size().unwrap()), (0, 4));
        assert_eq!(fs::metadata(place.folder().join(FILE)).unwrap().len(), 0);
        next.flush().unwrap();
        assert!(archive.proof(&found[1]).is_ok(), "it was found in the journal, and is in the log now");
        drop(next);
        // Killed after they had moved, and before the journal was emptied.
        fs::write(place.folder().join(FILE), left).unwrap();
        assert_eq!(place.found().0.len(), 3);
        let again = place.recorder();
        assert_eq!(again.current().1.view().unwrap().size().unwrap(), 4);
    }

    #[test]
    fn a_line_that_was_never_finished_is_none_and_a_damaged_one_is_told() {
        let place = Place::new();
        place.recorder().record([new("one"), new("two")].iter()).unwrap();
        let path = place.folder().join(FILE);
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 10]).unwrap();
        let read = read(&place.folder()).unwrap();
        assert_eq!((read.receipts.len(), read.unreadable), (1, 0));
        let mut damaged = whole.clone();
        damaged[3] = b'!';
        fs::write(&path, &damaged).unwrap();
        let (found, problems) = place.found();
        assert_eq!((found.len(), problems.len()), (1, 1), "{problems:?}");
        let next = place.recorder();
        assert_eq!(next.current().1.view().unwrap().size().unwrap(), 2);
        // It is still known that there was one.
        let aside = super::damaged(&place.folder());
        assert_eq!(fs::read(&aside[0]).unwrap(), damaged);
        let (found, problems) = place.found();
        assert_eq!((found.len(), problems.len()), (1, 1), "{problems:?}");
        let archive = Archive::open(place.state.path(), &place.provider, &place.key.public()).unwrap();
        assert_eq!(archive.sources[0].audit().unwrap().1.len(), 1);
    }

    #[test]
    fn what_finds_no_room_leaves_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(folder.path()).unwrap();
        journal.append(b"{}\n").unwrap();
        // As on a full disk: a file that cannot be written to.
        journal.file = File::open(folder.path().join(FILE)).unwrap();
        assert!(journal.append(b"{}\n").is_err());
        assert_eq!(fs::read(folder.path().join(FILE)).unwrap(), b"{}\n");
        // A part of a line that could not be taken away, either, does not spoil the next.
        fs::write(folder.path().join(FILE), b"{}\n{\"rec").unwrap();
        let mut journal = Journal::open(folder.path()).unwrap();
        journal.append(b"{}\n").unwrap();
        journal.append(b"{}\n").unwrap();
        assert_eq!(fs::read(folder.path().join(FILE)).unwrap(), b"{}\n{\"rec\n{}\n{}\n");
        assert_eq!(journal.bytes, 15);
    }
}
