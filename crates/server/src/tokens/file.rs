//! Tokens in a JSON file of mode 0600, for an authority on one machine.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Error, Result, Token, TokenStore, Version};

/// The file of tokens.
pub struct TokenFile(PathBuf);

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    tokens: Vec<Token>,
}

impl TokenFile {
    /// In the authority's folder.
    pub fn in_folder(folder: &Path) -> Self {
        Self(folder.join("tokens.json"))
    }

    /// The file's bytes; none where there is no file yet.
    fn read(&self) -> Result<Option<Vec<u8>>> {
        match fs::read(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => read.map(Some).map_err(|why| self.unavailable(why)),
        }
    }

    /// Holds a lock file while it reads, changes and replaces the file: processes change it one at a time, and a reader finds
    /// the old file or the new one.
    fn change(&self, change: impl FnOnce(&mut Vec<Token>) -> Result<()>) -> Result<()> {
        let unavailable = |why| self.unavailable(why);
        let lock = self.0.with_extension("lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(lock);
        let lock = lock.map_err(unavailable)?;
        lock.lock().map_err(unavailable)?;
        let mut tokens = self.list()?;
        change(&mut tokens)?;
        self.replace(&Contents { tokens }).map_err(unavailable)
    }

    fn replace(&self, contents: &Contents) -> io::Result<()> {
        let next = self.0.with_extension("next");
        // Left by a process that was killed here.
        let _ = fs::remove_file(&next);
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&next)?;
        let text = serde_json::to_string_pretty(contents)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(next, &self.0)?;
        // Else a power cut may bring the old file back, and with it a revoked token.
        self.0.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    }

    fn unavailable(&self, why: io::Error) -> Error {
        Error::Unavailable { store: self.0.display().to_string(), why }
    }
}

impl TokenStore for TokenFile {
    fn list(&self) -> Result<Vec<Token>> {
        let Some(bytes) = self.read()? else { return Ok(Vec::new()) };
        let contents: Contents = serde_json::from_slice(&bytes)
            .map_err(|e| Error::Damaged { store: self.0.display().to_string(), why: e.to_string() })?;
        Ok(contents.tokens)
    }

    fn add(&self, token: Token) -> Result<()> {
        self.change(|tokens| super::push(tokens, token))
    }

    fn revoke(&self, id: &str) -> Result<bool> {
        let mut found = false;
        self.change(|tokens| {
            found = super::remove(tokens, id);
            Ok(())
        })?;
        Ok(found)
    }

    /// A digest of the bytes: two changes within one tick of the file system's clock have the same modification time.
    fn version(&self) -> Result<Version> {
        let digest = self.read()?.map(|bytes| Sha256::digest(&bytes).to_vec());
        Ok(Version(digest.unwrap_or_default()))
    }
}
