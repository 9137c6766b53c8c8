//! Where guards keep their state.
//!
//! ```text
//! STATE/                           one for all guards of a user
//!   provider.jwk                   the key that signs receipts and summaries
//!   NAME/                          one for each server
//!     schemas.json                 what its tools declare of their output, and what of it holds
//!     1/                           one for each guard that runs at the same time
//!       lock
//!       engine.state  rollup.json  what was learned and counted
//!       texts.json                 what the texts beside structures usually do, by tool
//!       spool/                     what the authority has not taken yet
//!       receipts/journal           records on their way into the ledger
//!       receipts/000001/           a ledger: one segment of the receipts
//!       receipts/000001.kept       what is left of a segment that was let go
//! ```
//!
//! Two guards of one name (two clients with the same server) get a place each: neither waits for the other, and neither
//! writes what the other writes.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use credence_ledger::HeldLock;
use credence_protocol::{SecretKey, jwk::Jwk};

use crate::Error;

/// Guards of one name at the same time.
const MAX_PLACES: u32 = 64;
/// Bytes of a name.
const MAX_NAME: usize = 64;

/// One guard's place: a folder that no other guard writes to while this value lives.
pub struct Place {
    /// Its folder.
    pub folder: PathBuf,
    /// Its number.
    pub number: u32,
    _lock: HeldLock,
}

/// Where guards of this user keep their state unless told otherwise.
pub fn default_state() -> Result<PathBuf, Error> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local").join("state")));
    Ok(base.ok_or(Error::NoHome)?.join("credence").join("guard"))
}

/// The provider's key file in a state folder.
pub fn key_file(state: &Path) -> PathBuf {
    state.join("provider.jwk")
}

/// Takes the first place of `name` that no other guard holds.
pub fn take_place(state: &Path, name: &str) -> Result<Place, Error> {
    check_name(name)?;
    for number in 1..=MAX_PLACES {
        let folder = state.join(name).join(number.to_string());
        create_private(&folder)?;
        let path = folder.join("lock");
        let io = |e| Error::Io(path.clone(), e);
        let mut lock =
            OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path).map_err(io)?;
        match lock.try_lock() {
            Ok(()) => {
                // Who holds it, for people. Best effort: on a full disk the lock holds all the same.
                let _ =
                    lock.set_len(0).and_then(|()| lock.rewind()).and_then(|()| write!(lock, "{}", std::process::id()));
                return Ok(Place { folder, number, _lock: HeldLock::new(lock) });
            }
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(e)) => return Err(io(e)),
        }
    }
    Err(Error::NoPlace { name: name.to_owned(), most: MAX_PLACES })
}

/// The process that runs a guard in this folder, if one does.
pub fn running_process(folder: &Path) -> Option<String> {
    let mut lock = File::open(folder.join("lock")).ok()?;
    match lock.try_lock_shared() {
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            lock.read_to_string(&mut pid).ok()?;
            Some(pid.trim().to_owned())
        }
        _ => None,
    }
}

/// The folders of all guards, by name and number.
pub fn all_places(state: &Path) -> Result<Vec<(String, u32, PathBuf)>, Error> {
    let mut found = Vec::new();
    for (name, folder) in folders(state)? {
        for (number, folder) in folders(&folder)? {
            if let Ok(number) = number.parse() {
                found.push((name.clone(), number, folder));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn folders(of: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
    let io = |e| Error::Io(of.to_owned(), e);
    let entries = match fs::read_dir(of) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(io(e)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(io)?;
        if entry.file_type().map_err(io)?.is_dir()
            && let Ok(name) = entry.file_name().into_string()
        {
            found.push((name, entry.path()));
        }
    }
    Ok(found)
}

/// Creates a folder that only its owner can read.
pub fn create_private(folder: &Path) -> Result<(), Error> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|e| Error::Io(folder.to_owned(), e))
}

/// A server's name: it is part of paths and of the log's name.
pub fn check_name(name: &str) -> Result<(), Error> {
    let fine = (1..=MAX_NAME).contains(&name.len())
        && !name.starts_with('.')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if fine { Ok(()) } else { Err(Error::Name(name.to_owned())) }
}

/// The key in `path`, made when there is none. Two guards that start at once get the same.
pub fn read_or_create_key(path: &Path) -> Result<SecretKey, Error> {
    let io = |e| Error::Io(path.to_owned(), e);
    if !path.exists() {
        if let Some(folder) = path.parent() {
            create_private(folder)?;
        }
        let key = SecretKey::generate()?;
        let text = serde_json::to_string_pretty(&Jwk::private(&key)).map_err(|e| io(e.into()))?;
        let next = path.with_extension(format!("{}.next", std::process::id()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&next).map_err(io)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(io)?;
        // A link to what exists already fails: the other's key stays.
        let linked = fs::hard_link(&next, path);
        let _ = fs::remove_file(&next);
        match linked {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(io(e)),
            _ => {}
        }
    }
    let mode = fs::metadata(path).map_err(io)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(Error::Key(path.to_owned(), format!("others can read it (mode {:o}): chmod 600", mode & 0o777)));
    }
    let bytes = fs::read(path).map_err(io)?;
    let jwk = Jwk::parse(&bytes).map_err(|_| Error::Key(path.to_owned(), "it is not a private JWK".to_owned()))?;
    Ok(jwk.secret_key()?)
}

/// Replaces a file as a whole or not at all.
pub fn replace_file(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let io = |e| Error::Io(path.to_owned(), e);
    let next = path.with_extension("next");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&next).map_err(io)?;
    file.write_all(bytes).and_then(|()| file.sync_data()).map_err(io)?;
    fs::rename(&next, path).map_err(io)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_guards_of_one_name_get_a_place_each() {
        let state = tempfile::tempdir().unwrap();
        let one = take_place(state.path(), "fs").unwrap();
        let two = take_place(state.path(), "fs").unwrap();
        assert_eq!((one.number, two.number), (1, 2));
        assert_eq!(running_process(&one.folder), Some(std::process::id().to_string()));
        drop(one);
        assert_eq!(take_place(state.path(), "fs").unwrap().number, 1);
        assert_eq!(all_places(state.path()).unwrap().len(), 2);
        for bad in ["", "a/b", "..", ".x", &"x".repeat(65), "a+b"] {
            assert!(take_place(state.path(), bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn one_key_is_made_and_kept_from_others() {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("provider.jwk");
        let made = read_or_create_key(&path).unwrap();
        assert_eq!(read_or_create_key(&path).unwrap().public(), made.public());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(read_or_create_key(&path).unwrap_err().to_string().contains("chmod 600"));
    }
}
