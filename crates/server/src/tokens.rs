//! Bearer tokens: random, scoped, stored as hashes only.
//!
//! `crd_<id>_<secret>`: the id finds the record, the SHA-256 of the whole is compared in constant time. They live in a file of
//! mode 0600 beside the ledger, which `credence token` changes and a running service reads again within a second.

use std::{
    collections::HashMap,
    fs::{self, OpenOptions},
    io::{self, Write},
    ops::Deref,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicU32},
    time::SystemTime,
};

use arc_swap::ArcSwap;
use credence_protocol::{EntityId, Timestamp};
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What every token begins with.
pub(crate) const PREFIX: &str = "crd_";
const ID_BYTES: usize = 6;
const SECRET_BYTES: usize = 32;
/// A longer header is no token of ours.
const MAX_TOKEN: usize = 128;

/// What a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Everything.
    Admin,
    /// Submit signals, statements and outcomes.
    Ingest,
    /// Have tool results judged.
    Verify,
}

impl Scope {
    /// All of them.
    pub const ALL: [Scope; 3] = [Scope::Admin, Scope::Ingest, Scope::Verify];

    /// As in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Scope::Admin => "admin",
            Scope::Ingest => "ingest",
            Scope::Verify => "verify",
        }
    }
}

/// A token, without its secret.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// Finds it; not secret.
    pub id: String,
    /// Whose it is.
    pub name: EntityId,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// SHA-256 of the whole token, in hex.
    hash: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

impl Token {
    /// Whether it may do what `scope` allows.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) || self.scopes.contains(&Scope::Admin)
    }
}

/// A token in force.
pub(crate) struct Bearer {
    token: Token,
    /// Requests under way.
    pub busy: AtomicU32,
    /// Bulk submissions among them.
    pub bulk: AtomicU32,
    /// Event streams.
    pub streams: AtomicU32,
}

impl Bearer {
    fn new(token: Token) -> Self {
        Self { token, busy: AtomicU32::default(), bulk: AtomicU32::default(), streams: AtomicU32::default() }
    }
}

impl Bearer {
    /// The operator's own process, which may everything: no text opens it, and no file keeps it.
    pub(crate) fn operator(name: EntityId, now: Timestamp) -> Self {
        let scopes = vec![Scope::Admin];
        Self::new(Token { id: String::new(), name, scopes, hash: String::new(), created_at: now, expires_at: None })
    }
}

impl Bearer {
    /// A visitor of a demo: sees what was judged for `name`.
    pub(crate) fn visitor(name: EntityId, now: Timestamp) -> Self {
        let operator = Self::operator(name, now);
        Self { token: Token { scopes: vec![Scope::Verify], ..operator.token }, ..operator }
    }
}

impl Deref for Bearer {
    type Target = Token;
    fn deref(&self) -> &Token {
        &self.token
    }
}

/// What a new token is to be.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// Whose it is.
    pub name: EntityId,
    /// What it may do.
    pub scopes: Vec<Scope>,
    /// When it ends, if it does.
    pub expires_at: Option<Timestamp>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    tokens: Vec<Token>,
}

/// The file of tokens.
pub struct TokenFile(PathBuf);

impl TokenFile {
    /// In the authority's folder.
    pub fn in_folder(folder: &Path) -> Self {
        Self(folder.join("tokens.json"))
    }

    /// All tokens.
    pub fn list(&self) -> io::Result<Vec<Token>> {
        match fs::read(&self.0) {
            Ok(bytes) => {
                let file: File = serde_json::from_slice(&bytes)
                    .map_err(|e| io::Error::other(format!("{} is damaged: {e}", self.0.display())))?;
                Ok(file.tokens)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Makes a token; the text is not kept anywhere.
    pub fn create(&self, new: NewToken, now: Timestamp) -> io::Result<(Token, String)> {
        let mut random = [0; ID_BYTES + SECRET_BYTES];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let id = HEXLOWER.encode(&random[..ID_BYTES]);
        let text = format!("{PREFIX}{id}_{}", BASE64URL_NOPAD.encode(&random[ID_BYTES..]));
        let NewToken { name, scopes, expires_at } = new;
        let hash = HEXLOWER.encode(&Sha256::digest(text.as_bytes()));
        let token = Token { id, name, scopes, hash, created_at: now, expires_at };
        self.change(|tokens| tokens.push(token.clone()))?;
        Ok((token, text))
    }

    /// Ends a token; whether there was one.
    pub fn revoke(&self, id: &str) -> io::Result<bool> {
        let mut found = false;
        self.change(|tokens| {
            found = tokens.iter().any(|token| token.id == id);
            tokens.retain(|token| token.id != id);
        })?;
        Ok(found)
    }

    /// One at a time, whole or not at all.
    fn change(&self, change: impl FnOnce(&mut Vec<Token>)) -> io::Result<()> {
        let lock = self.0.with_extension("lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(lock)?;
        lock.lock()?;
        let mut tokens = self.list()?;
        change(&mut tokens);
        let next = self.0.with_extension("next");
        let _ = fs::remove_file(&next);
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&next)?;
        let text = serde_json::to_string_pretty(&File { tokens })?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(next, &self.0)
    }

    fn changed(&self) -> Option<SystemTime> {
        fs::metadata(&self.0).and_then(|meta| meta.modified()).ok()
    }
}

/// The tokens in force.
pub(crate) struct Tokens {
    file: TokenFile,
    read: ArcSwap<Read>,
}

#[derive(Default)]
struct Read {
    changed: Option<SystemTime>,
    by_id: HashMap<String, (Arc<Bearer>, [u8; 32])>,
}

impl Tokens {
    pub(crate) fn open(file: TokenFile) -> io::Result<Self> {
        let tokens = Self { file, read: ArcSwap::default() };
        tokens.reload()?;
        Ok(tokens)
    }

    /// Reads the file again if it changed.
    pub(crate) fn reload(&self) -> io::Result<()> {
        let changed = self.file.changed();
        if changed.is_some() && changed == self.read.load().changed {
            return Ok(());
        }
        let mut by_id = HashMap::new();
        for token in self.file.list()? {
            let hash = HEXLOWER.decode(token.hash.as_bytes()).ok().and_then(|hash| hash.try_into().ok());
            if let Some(hash) = hash {
                by_id.insert(token.id.clone(), (Arc::new(Bearer::new(token)), hash));
            }
        }
        self.read.store(Arc::new(Read { changed, by_id }));
        Ok(())
    }

    /// The token in force with this text. Takes the same time for whatever is not one.
    pub(crate) fn find(&self, text: &str, now: Timestamp) -> Option<Arc<Bearer>> {
        let read = self.read.load();
        let text = if text.len() > MAX_TOKEN { "" } else { text };
        let id = text.strip_prefix(PREFIX).and_then(|rest| rest.split_once('_')).map_or("", |(id, _)| id);
        let given: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        let known = read.by_id.get(id);
        // All-zero is the digest of nothing that anyone knows.
        let hash = known.map_or([0; 32], |(_, hash)| *hash);
        let same = bool::from(hash.ct_eq(&given));
        let (token, _) = known.filter(|_| same)?;
        token.expires_at.is_none_or(|end| now < end).then(|| Arc::clone(token))
    }

    /// Whether a token is still in force.
    pub(crate) fn holds(&self, token: &Bearer, now: Timestamp) -> bool {
        // The operator's own process is in no file.
        let there = token.id.is_empty() || self.read.load().by_id.contains_key(&token.id);
        there && token.expires_at.is_none_or(|end| now < end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_by_their_text_alone_and_end() {
        let folder = tempfile::tempdir().unwrap();
        let now: Timestamp = "2026-11-16T00:00:00Z".parse().unwrap();
        let new = |scopes: &[Scope], expires_at| NewToken {
            name: EntityId::new("ops").unwrap(),
            scopes: scopes.to_vec(),
            expires_at,
        };
        let file = TokenFile::in_folder(folder.path());
        let (admin, text) = file.create(new(&[Scope::Admin], None), now).unwrap();
        let (_, short) = file.create(new(&[Scope::Verify], Some(now.plus_seconds(60))), now).unwrap();
        let tokens = Tokens::open(TokenFile::in_folder(folder.path())).unwrap();
        assert!(tokens.find(&text, now).unwrap().may(Scope::Ingest), "admin may everything");
        let verify = tokens.find(&short, now).unwrap();
        assert!(verify.may(Scope::Verify) && !verify.may(Scope::Ingest));
        assert!(tokens.find(&short, now.plus_seconds(60)).is_none(), "expired");
        let mut wrong = text.clone();
        wrong.pop();
        for bad in ["", "crd_", &wrong, &format!("{text}x"), &format!("crd_{}_x", admin.id), &"x".repeat(1000)] {
            assert!(tokens.find(bad, now).is_none(), "{bad}");
        }
        let kept = fs::read_to_string(folder.path().join("tokens.json")).unwrap();
        assert!(!kept.contains(text.rsplit('_').next().unwrap()), "the secret is not kept");
        assert!(file.revoke(&admin.id).unwrap() && !file.revoke(&admin.id).unwrap());
        tokens.read.store(Arc::default());
        tokens.reload().unwrap();
        assert!(tokens.find(&text, now).is_none(), "revoked");
    }
}
