//! Key files: a private JWK, readable by its owner alone; or the same JWK in an environment variable.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::Path,
};

use anyhow::{Context, bail, ensure};
use credence_protocol::{
    KeyId, PublicKey, SecretKey,
    jwk::{Jwk, Jwks},
};

use crate::input;

/// The only mode a key file may have.
const OWNER_ONLY: u32 = 0o600;

/// A key file is far smaller, and so is a set of a few hundred keys.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Writes a new key file; never over an existing one, and never a part of one.
pub fn write(path: &Path, key: &SecretKey) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(&Jwk::private(key))?;
    text.push('\n');
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(OWNER_ONLY)
        .open(path)
        .with_context(|| format!("cannot create key file {}", path.display()))?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = fs::remove_file(path);
    }
    written.with_context(|| format!("cannot write key file {}", path.display()))
}

/// Reads a key file that nobody else can read.
pub fn read(path: &Path) -> anyhow::Result<SecretKey> {
    let shown = path.display();
    let meta = fs::metadata(path).with_context(|| format!("cannot read key file {shown}"))?;
    ensure!(meta.is_file(), "key file {shown} is not a file");
    let mode = meta.permissions().mode();
    ensure!(
        mode & 0o077 == 0,
        "key file {shown} can be read by others (mode {:o}): run `chmod 600 {shown}`",
        mode & 0o777
    );
    let bytes = input::file(path, MAX_FILE_BYTES)?;
    // The parser's message would quote the file: only say which file it was.
    let key = Jwk::parse(&bytes).ok().map(|jwk| jwk.secret_key());
    match key {
        Some(key) => key.with_context(|| format!("key file {shown}")),
        None => bail!("key file {shown} is not a private JWK"),
    }
}

/// The key in environment variable `name`, else in the file.
pub fn from_environment_or(name: &str, path: &Path) -> anyhow::Result<SecretKey> {
    match std::env::var(name) {
        Ok(text) => match Jwk::parse(text.as_bytes()) {
            Ok(jwk) => jwk.secret_key().with_context(|| format!("environment variable {name}")),
            Err(_) => bail!("environment variable {name} is not a private JWK"),
        },
        Err(_) => read(path),
    }
}

/// Public keys from text: `did:key:…`, base64url, or a file with a JWK or JWKS.
pub fn public_keys(text: &str) -> anyhow::Result<Vec<PublicKey>> {
    if let Ok(key) = PublicKey::parse(text) {
        return Ok(vec![key]);
    }
    let bytes = input::file(Path::new(text), MAX_FILE_BYTES)
        .with_context(|| format!("'{text}' is neither a public key (did:key:… or base64url) nor a readable file"))?;
    if let Some(keys) = in_did_document(&bytes) {
        return Ok(keys);
    }
    let keys = match serde_json::from_slice::<Jwks>(&bytes) {
        Ok(set) => set.keys,
        Err(_) => vec![Jwk::parse(&bytes).map_err(|_| anyhow::anyhow!("{text} is neither a JWK nor a JWKS"))?],
    };
    keys.iter().map(|jwk| jwk.public_key().with_context(|| format!("in {text}"))).collect()
}

/// The keys that a DID document lists.
fn in_did_document(bytes: &[u8]) -> Option<Vec<PublicKey>> {
    let document: serde_json::Value = serde_json::from_slice(bytes).ok()?;
    let methods = document.get("verificationMethod")?.as_array()?;
    let key = |method: &serde_json::Value| {
        PublicKey::parse(&format!("did:key:{}", method.get("publicKeyMultibase")?.as_str()?)).ok()
    };
    Some(methods.iter().filter_map(key).collect())
}

/// The one of `keys` with this id.
pub fn find(keys: &[PublicKey], id: KeyId) -> Option<&PublicKey> {
    keys.iter().find(|key| key.id() == id)
}
