//! One run at a time against an origin: the rate that a target was promised holds for all runs of this machine together.
//!
//! On Linux a name in the system's own table of sockets stands for the run (an abstract socket): it is the same for every user, needs no
//! file, and is nobody's to leave behind. A lock file in the user's state folder does the same on other systems, for that user alone, and
//! for containers that share the folder. The system gives both back when the process ends, however it ends.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

/// How the error begins that says that another run is under way.
pub const BUSY: &str = "another run against";

/// Keeps other runs away from an origin until it is dropped.
#[derive(Debug)]
pub(super) struct OriginLock {
    _file: File,
    #[cfg(target_os = "linux")]
    _name: Option<std::os::unix::net::UnixListener>,
}

impl OriginLock {
    /// Takes the lock of an origin; fails where another run has it.
    pub(super) fn take(folder: &Path, origin: &str) -> Result<Self, String> {
        let cannot =
            |path: &Path, why: &std::io::Error| format!("cannot lock {} against other runs: {why}", path.display());
        fs::create_dir_all(folder).map_err(|e| cannot(folder, &e))?;
        let name = data_encoding::HEXLOWER.encode(&Sha256::digest(origin.as_bytes())[..16]);
        let path = folder.join(format!("{name}.lock"));
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let file = opened.map_err(|e| cannot(&path, &e))?;
        let busy = |whose: &str| {
            format!(
                "{BUSY} {origin} is under way{whose}, and two at once would exceed the rate it was promised: wait for it to end"
            )
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(busy("")),
            Err(TryLockError::Error(e)) => return Err(cannot(&path, &e)),
        }
        Ok(Self {
            _file: file,
            #[cfg(target_os = "linux")]
            _name: machine_name(&name).map_err(|()| busy(" (another user's)"))?,
        })
    }
}

/// Takes the origin's name on this machine; fails where another process has it. `None` where the system has no such names for us: the file
/// holds then.
#[cfg(target_os = "linux")]
fn machine_name(name: &str) -> Result<Option<std::os::unix::net::UnixListener>, ()> {
    use std::os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixListener},
    };
    let Ok(address) = SocketAddr::from_abstract_name(format!("credence-probe-{name}")) else { return Ok(None) };
    match UnixListener::bind_addr(&address) {
        Ok(listener) => Ok(Some(listener)),
        Err(e) if e.kind() == std::io::ErrorKind::AddrInUse => Err(()),
        Err(_) => Ok(None),
    }
}

/// The folder of locks: `credence/probes` in `$XDG_STATE_HOME`, else in `~/.local/state`, else in the folder of temporary files.
pub fn state_folder() -> PathBuf {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    base.unwrap_or_else(std::env::temp_dir).join("credence").join("probes")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names hold on the whole machine, where these tests may be running twice.
    fn origin(name: &str) -> String {
        format!("https://{name}-{}.example", std::process::id())
    }

    #[test]
    fn an_origin_has_one_run_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("a/b");
        let (a, b) = (origin("a"), origin("b"));
        let first = OriginLock::take(&folder, &a).unwrap();
        let refused = OriginLock::take(&folder, &a).unwrap_err();
        assert!(refused.contains(&format!("another run against {a}")), "{refused}");
        assert!(OriginLock::take(&folder, &b).is_ok());
        drop(first);
        assert!(OriginLock::take(&folder, &a).is_ok());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn another_users_run_keeps_others_away_too() {
        // Each user has a folder of their own.
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let origin = origin("users");
        let first = OriginLock::take(one.path(), &origin).unwrap();
        let refused = OriginLock::take(other.path(), &origin).unwrap_err();
        assert!(refused.starts_with(BUSY) && refused.contains("another user's"), "{refused}");
        drop(first);
        assert!(OriginLock::take(other.path(), &origin).is_ok());
    }
}
