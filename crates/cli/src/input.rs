//! Reading what users name, up to a limit that the error names.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use anyhow::{Context, ensure};

/// The whole file, of `limit` bytes at most.
pub fn file(path: &Path, limit: u64) -> anyhow::Result<Vec<u8>> {
    let opened = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    all(opened, limit).with_context(|| format!("cannot read {}", path.display()))
}

/// All of standard input, of `limit` bytes at most.
pub fn stdin(limit: u64) -> anyhow::Result<Vec<u8>> {
    all(io::stdin(), limit).context("cannot read standard input")
}

fn all(reader: impl Read, limit: u64) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(limit + 1).read_to_end(&mut bytes)?;
    ensure!(bytes.len() as u64 <= limit, "it is longer than {limit} bytes");
    Ok(bytes)
}

/// A whole file, or standard input for `-`.
pub fn file_or_stdin(name: &str, limit: u64) -> anyhow::Result<Vec<u8>> {
    if name == "-" { stdin(limit) } else { file(Path::new(name), limit) }
}
