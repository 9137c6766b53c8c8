//! The files of one guard's quarantine.
//!
//! ```text
//! STATE/NAME/1/quarantine/CALL.item      a kept result, encrypted
//! STATE/NAME/1/quarantine/CALL.answer    what a person said of it, encrypted
//! STATE/NAME/1/quarantine.status         bounds, and what could not be kept
//! ```
//!
//! A file is written under another name and then renamed: it is there as a whole or not at all. The call's id is a UUID of version 7,
//! so its name says when the call was made.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use credence_protocol::{Timestamp, Uuid};
use credence_receipts::{OperationAction, Operator, folder, now};
use serde::{Deserialize, Serialize};

use super::{KeptItem, QuarantineError as Error, QuarantineSettings, cipher::QuarantineKey};

/// The folder of kept results, in a guard's place.
const FOLDER: &str = "quarantine";
const ITEM: &str = "item";
const ANSWER: &str = "answer";
const UNFINISHED: &str = "next";
/// The file of bounds and losses.
const STATUS: &str = "quarantine.status";
/// Its length: written in place, so that it can be written on a full disk.
const STATUS_BYTES: usize = 1024;
/// Bytes of its text about what went wrong.
const MAX_WHY: usize = 300;
/// What the smallest file takes on most disks.
const BLOCK: u64 = 4096;

/// What a person said of a kept result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Accept or reject.
    pub action: OperationAction,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub by: Operator,
}

/// A kept result, without looking into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// The call.
    pub call: Uuid,
    /// Bytes on disk.
    pub bytes: u64,
    /// A person has said what it is.
    pub answered: bool,
}

/// How a quarantine is doing, for people.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Bytes that it may take; 0 where nothing is kept.
    pub max_bytes: u64,
    /// Seconds that a kept result stays.
    pub keep_seconds: u64,
    /// Results that should have been kept and are not, since the guard started.
    pub lost: u64,
    /// Results that were let go before anyone answered: the room was needed, or they were old.
    pub let_go: u64,
    /// Why the last one is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// Reads and writes the files of one guard.
#[derive(Clone)]
pub struct Store {
    place: PathBuf,
    name: String,
    key: Arc<QuarantineKey>,
}

impl Store {
    /// The quarantine of the guard in `place`, whose name `name` (server and number) is bound into each file.
    pub fn new(place: &Path, name: &str, key: Arc<QuarantineKey>) -> Self {
        Self { place: place.to_owned(), name: name.to_owned(), key }
    }

    fn path(&self, call: Uuid, kind: &str) -> PathBuf {
        self.place.join(FOLDER).join(format!("{call}.{kind}"))
    }

    fn context(&self, call: Uuid, kind: &str) -> String {
        format!("{}\0{kind}\0{call}", self.name)
    }

    /// Writes an item; gives the bytes that it takes. [`Self::sync`] asks the disk to keep it.
    pub fn write(&self, item: &KeptItem) -> Result<u64, Error> {
        let plain = serde_json::to_vec(item).map_err(|e| Error::Io(self.path(item.call, ITEM), e.into()))?;
        self.write_file(item.call, ITEM, plain, false)
    }

    fn write_file(&self, call: Uuid, kind: &str, plain: Vec<u8>, sync: bool) -> Result<u64, Error> {
        let path = self.path(call, kind);
        let io = |e| Error::Io(path.clone(), e);
        let sealed = self.key.seal(&self.context(call, kind), plain)?;
        let next = path.with_extension(format!("{kind}.{UNFINISHED}"));
        let written =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&next).and_then(|mut file| {
                file.write_all(&sealed)?;
                if sync { file.sync_data() } else { Ok(()) }
            });
        let done = written.and_then(|()| fs::rename(&next, &path));
        if done.is_err() {
            let _ = fs::remove_file(&next);
        }
        done.map_err(io)?;
        Ok(on_disk(sealed.len() as u64))
    }

    /// Asks the disk to keep the item of a call, if there still is one.
    pub fn sync(&self, call: Uuid) -> Result<(), Error> {
        let path = self.path(call, ITEM);
        match File::open(&path).and_then(|file| file.sync_data()) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::Io(path, e)),
            _ => Ok(()),
        }
    }

    /// What is kept, the oldest first.
    pub fn list(&self) -> Result<Vec<Listed>, Error> {
        list(&self.place)
    }

    /// The item of a call; `None` where there is none.
    pub fn read(&self, call: Uuid) -> Result<Option<KeptItem>, Error> {
        self.read_file(call, ITEM)
    }

    /// What a person said of it.
    pub fn answer(&self, call: Uuid) -> Result<Option<Answer>, Error> {
        self.read_file(call, ANSWER)
    }

    /// Keeps what a person said of it.
    pub fn write_answer(&self, call: Uuid, answer: &Answer) -> Result<(), Error> {
        let plain = serde_json::to_vec(answer).map_err(|e| Error::Io(self.path(call, ANSWER), e.into()))?;
        self.write_file(call, ANSWER, plain, true).map(drop)
    }

    fn read_file<T: serde::de::DeserializeOwned>(&self, call: Uuid, kind: &str) -> Result<Option<T>, Error> {
        let path = self.path(call, kind);
        let file = match fs::read(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::Io(path, e)),
        };
        let plain = self.key.open_sealed(&self.context(call, kind), &file);
        let parsed = plain.and_then(|plain| serde_json::from_slice(&plain).ok());
        parsed.map(Some).ok_or_else(|| Error::Damaged { path, key: self.key.path.clone(), call })
    }
}

/// The kept results of the guard in `place`, the oldest first.
pub fn list(place: &Path) -> Result<Vec<Listed>, Error> {
    let folder = place.join(FOLDER);
    let io = |e| Error::Io(folder.clone(), e);
    let files = match fs::read_dir(&folder) {
        Ok(files) => files,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(io(e)),
    };
    let (mut items, mut answers) = (Vec::new(), std::collections::HashMap::new());
    for file in files {
        let file = file.map_err(io)?;
        let name = file.file_name();
        let Some((call, kind)) = name.to_str().and_then(|name| name.split_once('.')) else { continue };
        let Ok(call) = Uuid::try_parse(call) else { continue };
        let Ok(meta) = file.metadata() else { continue };
        match kind {
            ITEM => items.push((call, on_disk(meta.len()))),
            ANSWER => drop(answers.insert(call, on_disk(meta.len()))),
            _ => {}
        }
    }
    items.sort_unstable();
    let listed = items.into_iter().map(|(call, bytes)| {
        let answer = answers.get(&call);
        Listed { call, bytes: bytes + answer.copied().unwrap_or_default(), answered: answer.is_some() }
    });
    Ok(listed.collect())
}

/// Makes the folder ready; what was being written when a guard was killed, or the machine lost its power, is removed.
pub fn prepare(place: &Path) -> Result<(), Error> {
    let folder = place.join(FOLDER);
    folder::create_private(&folder)?;
    for file in fs::read_dir(&folder).map_err(|e| Error::Io(folder.clone(), e))?.flatten() {
        let empty = file.metadata().is_ok_and(|meta| meta.len() == 0);
        if empty || file.path().extension().is_some_and(|kind| kind == UNFINISHED) {
            let _ = fs::remove_file(file.path());
        }
    }
    Ok(())
}

/// Removes a kept result; gives whether there was one.
pub fn remove(place: &Path, call: Uuid) -> Result<bool, Error> {
    let mut there = false;
    for kind in [ANSWER, ITEM] {
        let path = place.join(FOLDER).join(format!("{call}.{kind}"));
        match fs::remove_file(&path) {
            Ok(()) => there = true,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(Error::Io(path, e)),
        }
    }
    Ok(there)
}

/// Whether a call was made longer ago than `keep`.
pub fn is_old(call: Uuid, keep: Duration) -> bool {
    let made = call.get_timestamp().map(|made| made.to_unix());
    let age = made.map(|(seconds, _)| now().micros() / 1_000_000 - i64::try_from(seconds).unwrap_or(i64::MAX));
    age.is_some_and(|age| age > i64::try_from(keep.as_secs()).unwrap_or(i64::MAX))
}

/// What a file of so many bytes takes.
fn on_disk(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK).max(1) * BLOCK
}

impl Status {
    /// Of a quarantine that begins.
    pub fn new(settings: &QuarantineSettings) -> Self {
        Self { max_bytes: settings.max_bytes, keep_seconds: settings.keep.as_secs(), ..Self::default() }
    }

    /// How the quarantine of the guard in `place` is doing; `None` where it never had one.
    pub fn read(place: &Path) -> Option<Self> {
        let text = fs::read_to_string(place.join(STATUS)).ok()?;
        serde_json::from_str(text.trim_end()).ok()
    }

    /// One more is lost, for this reason.
    pub fn lose(&mut self, lost: u64, why: &str) {
        let end = (0..=MAX_WHY.min(why.len())).rev().find(|end| why.is_char_boundary(*end)).unwrap_or_default();
        self.lost += lost;
        (self.why, self.at) = (Some(why[..end].to_owned()), Some(now()));
    }

    /// Writes it over what was there.
    pub fn write(&self, place: &Path) -> Result<(), Error> {
        let path = place.join(STATUS);
        let io = |e| Error::Io(path.clone(), e);
        let text = serde_json::to_string(self).map_err(|e| io(e.into()))?;
        let file: File =
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path).map_err(io)?;
        file.write_all_at(format!("{text:STATUS_BYTES$}").as_bytes(), 0).map_err(io)
    }

    /// What a person should know.
    pub fn trouble(&self) -> Option<String> {
        let mut said = Vec::new();
        if self.lost > 0 {
            let why = self.why.as_deref().unwrap_or("unknown");
            said.push(format!("{} results could not be kept for review ({why})", self.lost));
        }
        if self.let_go > 0 {
            said.push(format!("{} kept results were let go before anyone answered", self.let_go));
        }
        (!said.is_empty()).then(|| said.join("; "))
    }
}
