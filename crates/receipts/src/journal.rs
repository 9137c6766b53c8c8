//! The journal: records on their way into the ledger.
//!
//! A database transaction for each call would cost more than everything else that the guard does with it. So a record is first
//! appended to a file, in one write; then the message goes on. When there is a moment without messages, the records move into the
//! ledger in one transaction and the file is emptied. A guard that was killed in between leaves them in the file: the next one
//! takes them from there, and readers of receipts read the journal, too.
//!
//! One record a line: a MAC, a space, and a JSON object told apart by `kind`:
//!
//! ```text
//! MAC {"kind":"intent","intent":{…},"private":{…}}     a call about to be forwarded
//! MAC {"kind":"receipt","receipt":{…},"private":{…}}   a call that was answered, or never will be
//! MAC {"kind":"canary","canary":{…}}                   a made-up result that was judged
//! MAC {"kind":"control","control":{…}}                 a genuine result that was judged again
//! ```
//!
//! The MAC is HMAC-SHA256 of the object under a [`JournalKey`]. A line that another process has appended has none that fits, and is
//! not signed. Any process that can read the guard's key can make one: see `docs/security.md`.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use credence_protocol::{SecretKey, receipt::Receipt};
use data_encoding::BASE64URL_NOPAD;
use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::{
    Error,
    records::{CanaryRecord, ControlRecord, Intent, NewReceipt, Private},
};

/// The file's name, in the folder of the receipts.
const FILE: &str = "journal";
/// How the names of copies end in which there are lines that cannot be read.
const DAMAGED: &str = "damaged";
/// A guard that writes may empty the file while it is read: then it is read again, at most this often.
const READINGS: usize = 3;
/// Characters of a line's MAC.
const MAC_CHARS: usize = 43;

/// The key of the MACs in one guard's journal: made of the guard's private key and the log's name.
#[derive(Clone)]
pub struct JournalKey(Zeroizing<[u8; 32]>);

/// The file, open for writing.
pub struct Journal {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// It may end in the middle of a line.
    torn: bool,
    /// There is something in it that the disk was not asked to keep.
    unsynced: bool,
}

/// What is in the file, in the order it was written. Some of it may be in the ledger already.
#[derive(Debug, Default)]
pub struct JournalContents {
    /// Calls that were about to be forwarded.
    pub intents: Vec<(Intent, Private)>,
    /// Receipts.
    pub receipts: Vec<NewReceipt>,
    /// Canaries.
    pub canaries: Vec<CanaryRecord>,
    /// Controls.
    pub controls: Vec<ControlRecord>,
    /// Lines that cannot be read, apart from an unfinished last one: its message has not gone on.
    pub unreadable: usize,
    /// Lines whose MAC is missing or does not fit: this guard did not write them.
    pub forged: usize,
}

/// One line.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Intent { intent: Box<Intent>, private: Private },
    Receipt { receipt: Box<Receipt>, private: Private },
    Canary { canary: CanaryRecord },
    Control { control: ControlRecord },
}

impl Journal {
    /// Goes on with the file in `folder`, which is made where there is none.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(FILE);
        let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        let opened = opened.and_then(|file| Ok((file.metadata()?.len(), file)));
        let (bytes, file) = opened.map_err(|e| Error::Io(path.clone(), e))?;
        Ok(Self { path, file, bytes, torn: bytes > 0, unsynced: bytes > 0 })
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
        (self.torn, self.unsynced) = (false, true);
        Ok(())
    }

    /// Empties it: everything in it is in the ledger.
    pub fn clear(&mut self) -> Result<(), Error> {
        if self.bytes > 0 {
            self.file.set_len(0).map_err(|e| Error::Io(self.path.clone(), e))?;
            (self.bytes, self.torn, self.unsynced) = (0, false, false);
        }
        Ok(())
    }

    /// Keeps only `lines`, in place of everything that is in it. A process killed meanwhile leaves the old file or the new one.
    pub fn replace(&mut self, lines: &[u8]) -> Result<(), Error> {
        let next = self.path.with_extension("next");
        let io = |e| Error::Io(next.clone(), e);
        let _ = fs::remove_file(&next);
        // The handle that is kept is the one of the new file: after the old one is gone, nothing can fail.
        let mut file = OpenOptions::new().create_new(true).append(true).mode(0o600).open(&next).map_err(io)?;
        file.write_all(lines).and_then(|()| file.sync_data()).map_err(io)?;
        fs::rename(&next, &self.path).map_err(|e| Error::Io(self.path.clone(), e))?;
        (self.file, self.bytes, self.torn, self.unsynced) = (file, lines.len() as u64, false, false);
        Ok(())
    }

    /// A handle by which the disk can be asked to keep what was written since the last time; `None` where there is nothing new.
    pub fn to_sync(&mut self) -> Option<File> {
        let file = self.file.try_clone().ok().filter(|_| self.unsynced)?;
        self.unsynced = false;
        Some(file)
    }

    /// How many bytes are in it.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Copies the file for people to look at. While the copy exists, a claim without a receipt is *unknown*, not invented.
    pub fn put_aside(&self) -> Result<PathBuf, Error> {
        let aside = self.path.with_extension(format!("{}.{DAMAGED}", crate::now().micros()));
        fs::copy(&self.path, &aside).map_err(|e| Error::Io(aside.clone(), e))?;
        Ok(aside)
    }
}

impl JournalKey {
    /// The key for the journal of the log `name`, whose guard signs with `key`.
    pub fn new(key: &SecretKey, name: &str) -> Self {
        let mut mac = keyed(&*key.seed());
        mac.update(b"credence/guard/journal\0");
        mac.update(name.as_bytes());
        Self(Zeroizing::new(mac.finalize().into_bytes().into()))
    }

    fn mac(&self, record: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = keyed(&*self.0);
        record.iter().for_each(|part| mac.update(part));
        mac
    }

    /// Adds the line of an intent to `out`; both parts are JSON.
    pub fn push_intent(&self, out: &mut Vec<u8>, intent: &[u8], private: &[u8]) {
        self.push(out, &[b"{\"kind\":\"intent\",\"intent\":", intent, b",\"private\":", private, b"}"]);
    }

    /// Adds the line of a receipt to `out`. `receipt` is the canonical form that goes into the ledger, `private` JSON.
    pub fn push_receipt(&self, out: &mut Vec<u8>, receipt: &[u8], private: &[u8]) {
        self.push(out, &[b"{\"kind\":\"receipt\",\"receipt\":", receipt, b",\"private\":", private, b"}"]);
    }

    /// Adds the line of a canary to `out`, given as JSON.
    pub fn push_canary(&self, out: &mut Vec<u8>, canary: &[u8]) {
        self.push(out, &[b"{\"kind\":\"canary\",\"canary\":", canary, b"}"]);
    }

    /// Adds the line of a control to `out`, given as JSON.
    pub fn push_control(&self, out: &mut Vec<u8>, control: &[u8]) {
        self.push(out, &[b"{\"kind\":\"control\",\"control\":", control, b"}"]);
    }

    pub(crate) fn push(&self, out: &mut Vec<u8>, record: &[&[u8]]) {
        let mac = self.mac(record).finalize().into_bytes();
        out.extend_from_slice(BASE64URL_NOPAD.encode(&mac).as_bytes());
        out.push(b' ');
        record.iter().for_each(|part| out.extend_from_slice(part));
        out.push(b'\n');
    }

    /// The record of a line; `None` where its MAC does not fit.
    pub(crate) fn open<'l>(&self, line: &'l [u8]) -> Option<&'l [u8]> {
        let (mac, rest) = line.split_at_checked(MAC_CHARS)?;
        let record = rest.strip_prefix(b" ")?;
        let mac = BASE64URL_NOPAD.decode(mac).ok()?;
        self.mac(&[record]).verify_slice(&mac).ok().map(|()| record)
    }
}

#[allow(clippy::expect_used, reason = "HMAC takes keys of any length")]
fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::<Sha256>::new_from_slice(key).expect("a key of any length")
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

/// What is in the journal of `folder`, whose guard may be running.
pub fn read(folder: &Path, key: &JournalKey) -> Result<JournalContents, Error> {
    let mut contents = read_once(folder, key)?;
    for _ in 1..READINGS {
        if contents.unreadable == 0 && contents.forged == 0 {
            break;
        }
        contents = read_once(folder, key)?;
    }
    Ok(contents)
}

fn read_once(folder: &Path, key: &JournalKey) -> Result<JournalContents, Error> {
    let path = folder.join(FILE);
    // No further than it reached when it was opened.
    let whole = File::open(&path).and_then(|file| {
        let mut bytes = Vec::new();
        let length = file.metadata()?.len();
        file.take(length).read_to_end(&mut bytes).map(|_| bytes)
    });
    let bytes = match whole {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(JournalContents::default()),
        Err(error) => return Err(Error::Io(path, error)),
    };
    let mut contents = JournalContents::default();
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    for line in bytes[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let Some(record) = key.open(line) else {
            contents.forged += 1;
            continue;
        };
        match serde_json::from_slice(record) {
            Ok(Line::Intent { intent, private }) => contents.intents.push((*intent, private)),
            Ok(Line::Receipt { receipt, private }) => {
                contents.receipts.push(NewReceipt { receipt: *receipt, private });
            }
            Ok(Line::Canary { canary }) => contents.canaries.push(canary),
            Ok(Line::Control { control }) => contents.controls.push(control),
            Err(_) => contents.unreadable += 1,
        }
    }
    Ok(contents)
}

#[cfg(test)]
mod tests;
