//! Where `guard.toml` is, and whose it must be.
//!
//! The file decides what a guard withholds, so somebody else must not be able to write it: it belongs to the user or to root, neither it nor its
//! folder is writable by the group or by others, and no folder above can be replaced by another user. A symbolic link is followed,
//! and what it leads to is checked the same way. The working directory is never looked into.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::Read,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::{fs::OFlags, process::geteuid};

use super::ConfigError;

/// Bytes of the file.
const MAX_BYTES: u64 = 1024 * 1024;
/// Only the group or others could write.
const WRITABLE_BY_OTHERS: u32 = 0o022;
const WORLD_WRITABLE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Where the user keeps it; `None` where the environment names no folder. A relative `XDG_CONFIG_HOME` does not count, as its
/// specification says: it would mean the working directory.
pub fn default_path() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")))?;
    Some(base.join("credence").join("guard.toml"))
}

/// The text of the file, if nobody else can have written it.
pub fn read(path: &Path) -> Result<String, ConfigError> {
    let unreadable = |why: String| ConfigError::Unreadable(path.to_owned(), why);
    let unsafe_file = |why: String| ConfigError::Unsafe(path.to_owned(), why);
    check_folders(path).map_err(unsafe_file)?;
    // Does not wait where it is a pipe.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = opened.map_err(|e| unreadable(format!("it cannot be read: {e}")))?;
    let real = fs::canonicalize(path).map_err(|e| unreadable(e.to_string()))?;
    if real != std::path::absolute(path).unwrap_or_default() {
        check_folders(&real).map_err(|why| unsafe_file(format!("it leads to {}: {why}", real.display())))?;
    }
    let meta = file.metadata().map_err(|e| unreadable(e.to_string()))?;
    if !meta.is_file() {
        return Err(unreadable("it is not a file".to_owned()));
    }
    let name = real.display();
    check_owner(&meta).map_err(|why| unsafe_file(format!("{name} {why}")))?;
    if meta.mode() & WRITABLE_BY_OTHERS != 0 {
        return Err(unsafe_file(format!(
            "others can write it (mode {:o}): chmod go-w '{name}', after a look at what it says",
            meta.mode() & 0o777
        )));
    }
    read_text(file, meta.len()).map_err(unreadable)
}

fn read_text(file: File, length: u64) -> Result<String, String> {
    let too_large = || format!("it has more than {} MiB: a configuration has a few lines", MAX_BYTES / 1024 / 1024);
    if length > MAX_BYTES {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(too_large());
    }
    String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        format!("line {line} is not UTF-8: save the file as UTF-8")
    })
}

/// The folder it is in is written by its owner alone; those above cannot be replaced by another user.
fn check_folders(path: &Path) -> Result<(), String> {
    let path = std::path::absolute(path).map_err(|e| e.to_string())?;
    for (above, folder) in path.ancestors().skip(1).enumerate() {
        // What is missing is told when the file is opened.
        let Ok(meta) = fs::metadata(folder) else { continue };
        let name = folder.display();
        check_owner(&meta).map_err(|why| format!("its folder {name} {why}"))?;
        let (mode, sticky) = (meta.mode(), meta.mode() & STICKY != 0);
        let writable = if above == 0 { mode & WRITABLE_BY_OTHERS != 0 } else { mode & WORLD_WRITABLE != 0 && !sticky };
        if writable {
            return Err(format!(
                "others can write its folder {name} (mode {:o}) and so replace it: chmod go-w '{name}'",
                mode & 0o777
            ));
        }
    }
    Ok(())
}

fn check_owner(meta: &Metadata) -> Result<(), String> {
    let own = geteuid().as_raw();
    if meta.uid() == own || meta.uid() == 0 {
        return Ok(());
    }
    Err(format!(
        "belongs to user {}, and not to you (user {own}) or root: chown it, after a look at what it says",
        meta.uid()
    ))
}

/// The text of a small file with a secret: only its owner may read it.
pub fn read_secret(path: &Path) -> Result<String, ConfigError> {
    let unreadable = |why: String| ConfigError::Unreadable(path.to_owned(), why);
    let mut file = File::open(path).map_err(|e| unreadable(format!("it cannot be read: {e}")))?;
    let meta = file.metadata().map_err(|e| unreadable(e.to_string()))?;
    check_owner(&meta).map_err(|why| ConfigError::Unsafe(path.to_owned(), format!("it {why}")))?;
    if meta.mode() & 0o077 != 0 {
        let why = format!("others can read the secret in it (mode {:o}): chmod 600", meta.mode() & 0o777);
        return Err(ConfigError::Unsafe(path.to_owned(), why));
    }
    let mut text = String::new();
    (&mut file).take(8192).read_to_string(&mut text).map_err(|e| unreadable(e.to_string()))?;
    Ok(text.trim().to_owned())
}
