//! `guard.toml` while a guard runs: has it changed, and what does it say now?
//!
//! The file is looked at (not read) twice a second. One that has changed is read once it stayed the same from one look to the next, so
//! that a half-written file is not taken for a whole one. It is read with the same checks as at the start.

use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use super::{ConfigError, GuardConfig};

/// What tells one version of the file from another; `None` where there is no file.
type Stamp = Option<(u64, u64, i64, i64, i64, i64)>;

/// The file of a running guard.
#[derive(Debug)]
pub struct Watch {
    path: PathBuf,
    looks: Mutex<Looks>,
}

#[derive(Debug, Default)]
struct Looks {
    /// The version that was read last; the guard's own start is not known exactly.
    read: Option<Stamp>,
    /// Another version, seen at the last look.
    seen: Option<Stamp>,
    /// There was a file.
    existed: bool,
}

impl Watch {
    /// Watches `path`; `existed` where the guard has read it already.
    pub fn new(path: PathBuf, existed: bool) -> Self {
        Self { path, looks: Mutex::new(Looks { existed, ..Looks::default() }) }
    }

    /// What the file says, if it has changed.
    pub fn poll(&self) -> Option<Result<GuardConfig, ConfigError>> {
        let stamp = stamp(&self.path);
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        if looks.read == Some(stamp) {
            looks.seen = None;
            return None;
        }
        if looks.seen != Some(stamp) {
            looks.seen = Some(stamp);
            return None;
        }
        (looks.read, looks.seen) = (Some(stamp), None);
        if stamp.is_some() {
            looks.existed = true;
            return Some(GuardConfig::load(Some(&self.path)));
        }
        // Where there never was one, there is nothing to say.
        let gone = || ConfigError::Unreadable(self.path.clone(), "it is gone".to_owned());
        looks.existed.then(|| Err(gone()))
    }
}

fn stamp(path: &Path) -> Stamp {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::settings::GuardMode;

    /// As a guard does, until it is quiet.
    fn polled(watch: &Watch) -> Vec<Result<Option<GuardMode>, String>> {
        let says = |one: GuardConfig| one.all.mode.map(|at| at.value);
        (0..3).filter_map(|_| watch.poll()).map(|one| one.map(says).map_err(|e| e.to_string())).collect()
    }

    #[test]
    fn a_change_is_read_once_it_is_whole_and_errors_are_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("guard.toml");
        let watch = Watch::new(path.clone(), false);
        assert!(polled(&watch).is_empty(), "there is none");
        fs::write(&path, "mode = \"enf").unwrap();
        assert!(watch.poll().is_none(), "it may be on its way");
        fs::write(&path, "mode = \"enforce\"\n").unwrap();
        assert!(watch.poll().is_none(), "another version: looked at again");
        assert_eq!(polled(&watch), [Ok(Some(GuardMode::Enforce))]);
        assert!(polled(&watch).is_empty(), "nothing new");
        fs::write(&path, "mode = \"sometimes\"\n").unwrap();
        let wrong = polled(&watch);
        assert!(matches!(&wrong[..], [Err(why)] if why.contains("line 1")), "{wrong:?}");
        fs::remove_file(&path).unwrap();
        let gone = polled(&watch);
        assert!(matches!(&gone[..], [Err(why)] if why.contains("gone")), "{gone:?}");
        fs::write(&path, "mode = \"flag\"\n").unwrap();
        assert_eq!(polled(&watch), [Ok(Some(GuardMode::Flag))]);
    }
}
