//! One run at a time against an origin: the rate that a target was promised holds for all runs of this machine's user together.
//!
//! A lock file for each origin in the user's state folder. The system gives the lock back when the process ends, however it ends.

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
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(format!(
                "{BUSY} {origin} is under way, and two at once would exceed the rate it was promised: wait for it to end"
            )),
            Err(TryLockError::Error(e)) => Err(cannot(&path, &e)),
        }
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

    #[test]
    fn an_origin_has_one_run_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("a/b");
        let first = OriginLock::take(&folder, "https://a.example").unwrap();
        let refused = OriginLock::take(&folder, "https://a.example").unwrap_err();
        assert!(refused.contains("another run against https://a.example"), "{refused}");
        assert!(OriginLock::take(&folder, "https://b.example").is_ok());
        drop(first);
        assert!(OriginLock::take(&folder, "https://a.example").is_ok());
    }
}
