//! Reading a configuration and replacing it: bounded, with a backup, all at once, and never over someone else's change.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use crate::{Error, tree::place};

/// The largest file we read.
pub const MAX_CONFIG_BYTES: u64 = 4 * 1024 * 1024;

/// Backups of one file beyond which we make no more.
const MAX_BACKUPS: u32 = 99;

/// What a backup's name ends in, but for the number of a second one.
const BACKUP: &str = "before-credence";

/// Reads a configuration; with it comes the file that `path` leads to, where links end.
pub(crate) fn read(path: &Path) -> Result<(PathBuf, String), Error> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => Error::NotFound { looked: vec![path.to_owned()] },
        _ => Error::Read { path: path.to_owned(), source },
    };
    // Asked before opening: opening a pipe would wait for its other end.
    let metadata = fs::metadata(path).map_err(failed)?;
    if !metadata.is_file() {
        return Err(Error::NotAFile { path: path.to_owned() });
    }
    let link = fs::symlink_metadata(path).map_err(failed)?.is_symlink();
    let target = if link { fs::canonicalize(path).map_err(failed)? } else { path.to_owned() };
    let mut bytes = Vec::new();
    let file = File::open(&target).map_err(failed)?;
    file.take(MAX_CONFIG_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_CONFIG_BYTES {
        return Err(Error::TooLarge { path: path.to_owned(), bytes: metadata.len().max(bytes.len() as u64) });
    }
    let text = String::from_utf8(bytes)
        .map_err(|error| Error::NotUtf8 { at: place(path, error.as_bytes(), error.utf8_error().valid_up_to()) })?;
    Ok((target, text))
}

/// Replaces a file's text by another, keeping its permissions and its owner; refuses when it is not `before` any more.
pub(crate) fn replace(target: &Path, before: &str, after: &str) -> Result<(), Error> {
    let failed = |source| Error::Write { path: target.to_owned(), source };
    let metadata = writable(target, before)?;
    let process = std::process::id();
    let (temporary, file) = create_first(target, (0..MAX_BACKUPS).map(|n| format!(".credence-{process}-{n}.tmp")))?;
    let written = fill(file, after, &metadata).map_err(failed);
    // Asked again at the last moment: what stays open is the time of one rename.
    let done =
        written.and_then(|()| writable(target, before)).and_then(|_| fs::rename(&temporary, target).map_err(failed));
    if done.is_err() {
        let _ = fs::remove_file(&temporary);
    } else if cfg!(unix)
        && let Some(Ok(folder)) = target.parent().map(File::open)
    {
        let _ = folder.sync_all();
    }
    done
}

/// Keeps `before` beside the file and says where, and whether the backup is new: one that holds just this is enough.
pub(crate) fn back_up(target: &Path, before: &str) -> Result<(PathBuf, bool), Error> {
    let metadata = writable(target, before)?;
    if let Some(known) = backups_holding(target, before).into_iter().next() {
        return Ok((known, false));
    }
    let (path, file) = create_first(target, (1..=MAX_BACKUPS).map(backup_suffix))?;
    fill(file, before, &metadata).map_err(|source| {
        let _ = fs::remove_file(&path);
        Error::Write { path: path.clone(), source }
    })?;
    Ok((path, true))
}

/// The backups of a file that hold exactly `text`.
pub(crate) fn backups_holding(target: &Path, text: &str) -> Vec<PathBuf> {
    let same = |path: &PathBuf| {
        let metadata = fs::symlink_metadata(path);
        let likely = metadata.is_ok_and(|found| found.is_file() && found.len() == text.len() as u64);
        likely && fs::read(path).is_ok_and(|bytes| bytes == text.as_bytes())
    };
    (1..=MAX_BACKUPS).map(|number| with_suffix(target, &backup_suffix(number))).filter(same).collect()
}

fn backup_suffix(number: u32) -> String {
    if number == 1 { format!(".{BACKUP}") } else { format!(".{BACKUP}.{number}") }
}

fn with_suffix(target: &Path, suffix: &str) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    target.with_file_name(name)
}

/// Checks that the file may be written and still is `before`.
fn writable(target: &Path, before: &str) -> Result<Metadata, Error> {
    let changed = || Error::Changed { path: target.to_owned() };
    let metadata = fs::metadata(target).map_err(|_| changed())?;
    // A rename needs no right to the file itself; who took that right away did not mean it to be rewritten.
    if metadata.permissions().readonly() || OpenOptions::new().write(true).open(target).is_err() {
        return Err(Error::NotWritable { path: target.to_owned() });
    }
    let same = metadata.len() == before.len() as u64 && fs::read(target).is_ok_and(|now| now == before.as_bytes());
    if same { Ok(metadata) } else { Err(changed()) }
}

/// Creates the first file beside `target` whose name is free. Others cannot read it: settings have keys in them.
fn create_first(target: &Path, mut suffixes: impl Iterator<Item = String>) -> Result<(PathBuf, File), Error> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let created = suffixes.find_map(|suffix| {
        let path = with_suffix(target, &suffix);
        match options.open(&path) {
            Ok(file) => Some(Ok((path, file))),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
            Err(source) => Some(Err(Error::Write { path, source })),
        }
    });
    created.unwrap_or_else(|| Err(Error::TooManyBackups { path: target.to_owned(), count: MAX_BACKUPS }))
}

/// Writes `text` to a new file and gives it the owner and the permissions of another.
fn fill(mut file: File, text: &str, like: &Metadata) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
            fchown(&file, Some(like.uid()), Some(like.gid()))?;
        }
    }
    file.set_permissions(like.permissions())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.json");
        fs::write(&path, text).unwrap();
        (folder, path)
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_cannot_be_a_configuration_is_not_read() {
        let (folder, path) = file(b"ok\n \xe9\xff");
        assert_eq!(
            read(&path).unwrap_err().to_string(),
            format!("{}:2:2: not UTF-8; save the file as UTF-8 and try again", path.display())
        );
        let missing = folder.path().join("none.json");
        let error = read(&missing).unwrap_err().to_string();
        assert!(error.contains("none.json") && error.contains("--config FILE"), "{error}");
        assert!(matches!(read(folder.path()), Err(Error::NotAFile { .. })));
        assert!(matches!(read(&path.join("below")), Err(Error::Read { .. })));
        fs::write(&path, vec![b' '; MAX_CONFIG_BYTES as usize + 1]).unwrap();
        assert!(matches!(read(&path), Err(Error::TooLarge { bytes, .. }) if bytes == MAX_CONFIG_BYTES + 1));
        fs::write(&path, vec![b' '; MAX_CONFIG_BYTES as usize]).unwrap();
        assert_eq!(read(&path).unwrap().1.len() as u64, MAX_CONFIG_BYTES);
    }

    #[test]
    fn a_changed_file_is_not_replaced() {
        let (folder, path) = file(b"theirs");
        assert!(matches!(replace(&path, "before", "after"), Err(Error::Changed { .. })));
        assert!(matches!(back_up(&path, "before"), Err(Error::Changed { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"theirs");
        assert_eq!(names(folder.path()), ["c.json"]);
        fs::remove_file(&path).unwrap();
        assert!(matches!(replace(&path, "before", "after"), Err(Error::Changed { .. })));
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn backups_never_overwrite_one_another() {
        let (folder, path) = file(b"one");
        assert_eq!(back_up(&path, "one").unwrap(), (folder.path().join("c.json.before-credence"), true));
        assert_eq!(back_up(&path, "one").unwrap(), (folder.path().join("c.json.before-credence"), false));
        fs::write(&path, "two").unwrap();
        assert_eq!(back_up(&path, "two").unwrap(), (folder.path().join("c.json.before-credence.2"), true));
        assert_eq!(fs::read(folder.path().join("c.json.before-credence")).unwrap(), b"one");
        for number in 1..=MAX_BACKUPS {
            fs::write(with_suffix(&path, &backup_suffix(number)), "x").unwrap();
        }
        assert!(matches!(back_up(&path, "two"), Err(Error::TooManyBackups { .. })));
    }

    #[cfg(unix)]
    #[test]
    fn permissions_are_kept_and_respected() {
        use std::os::unix::fs::PermissionsExt;
        let (folder, path) = file(b"before");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let (backup, _) = back_up(&path, "before").unwrap();
        replace(&path, "before", "after").unwrap();
        assert_eq!((mode(&path), mode(&backup)), (0o640, 0o640));
        assert_eq!(fs::read(&path).unwrap(), b"after");
        assert_eq!(names(folder.path()), ["c.json", "c.json.before-credence"]);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        assert!(matches!(replace(&path, "after", "again"), Err(Error::NotWritable { .. })));
        assert!(matches!(back_up(&path, "after"), Err(Error::NotWritable { .. })));
        assert_eq!(names(folder.path()), ["c.json", "c.json.before-credence"]);
    }
}
