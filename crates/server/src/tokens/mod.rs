//! Bearer tokens: random, scoped, stored as hashes only.
//!
//! `crd_<id>_<secret>`: the id finds the record, the SHA-256 of the whole text is compared in constant time. A [`TokenStore`]
//! keeps them: [`TokenFile`] in a file beside the ledger, [`MemoryTokens`] in memory. `credence token` changes a store while
//! a service runs on it.

#[cfg(test)]
mod conformance;
mod file;
mod in_force;
mod memory;

use std::io;

use credence_protocol::{EntityId, Timestamp};
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use file::TokenFile;
pub(crate) use in_force::{Bearer, Tokens};
pub use memory::MemoryTokens;

/// What every token begins with.
pub(crate) const PREFIX: &str = "crd_";
const ID_BYTES: usize = 6;
const SECRET_BYTES: usize = 32;

/// Where tokens are kept. Several services and `credence token` may use one store at once.
///
/// Every implementation holds to this, and the conformance suite checks it:
///
/// - **One change at a time.** Changes from any number of threads and processes happen one after the other; none is lost.
/// - **Whole or not at all.** A reader sees a change completely or not yet. A change that was acknowledged is durable, as far
///   as the store outlives its process. After [`Error::Unavailable`] the change happened or did not: `list` tells which.
/// - **Hashes only.** A store is given [`Token`]s, which carry a hash; [`create`](Self::create) alone ever has the text.
/// - **Seen within a second.** [`version`](Self::version) differs after every change that [`list`](Self::list) shows, by any
///   process. A running service asks for the version once a second and lists when it differs.
/// - **Damage is an error.** Contents that cannot be read are [`Error::Damaged`], which names the store; they are neither taken
///   for an empty store nor overwritten. A running service keeps the tokens that it read before.
pub trait TokenStore: Send + Sync {
    /// All tokens, expired ones included, oldest first.
    fn list(&self) -> Result<Vec<Token>>;

    /// Keeps a token. An id that is taken is [`Error::IdTaken`].
    fn add(&self, token: Token) -> Result<()>;

    /// Removes a token; whether there was one with this id.
    fn revoke(&self, id: &str) -> Result<bool>;

    /// Differs when the tokens do. Cheap enough to ask every second.
    fn version(&self) -> Result<Version>;

    /// Makes a token and keeps it. The text is returned here and kept nowhere.
    fn create(&self, new: NewToken, now: Timestamp) -> Result<(Token, String)> {
        let (token, text) = Token::generate(new, now)?;
        self.add(token.clone())?;
        Ok((token, text))
    }
}

/// A state of a store, to compare with another state of the same store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version(pub Vec<u8>);

/// The result of a [`TokenStore`].
pub type Result<T> = std::result::Result<T, Error>;

/// Why tokens could not be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store's contents cannot be read: restore them, or remove them and make new tokens.
    #[error("{store} is damaged: {why}")]
    Damaged {
        /// Which store, as an operator finds it.
        store: String,
        /// What is wrong with it.
        why: String,
    },
    /// The store cannot be reached, such as for a full disk or a missing permission: try again once that is mended.
    #[error("{store}: {why}")]
    Unavailable {
        /// Which store, as an operator finds it.
        store: String,
        /// What the system said.
        why: io::Error,
    },
    /// There is a token with this id already: make another.
    #[error("there is a token with the id '{0}' already")]
    IdTaken(String),
    /// The system gave no random bytes.
    #[error("no random bytes for a token: {0}")]
    NoRandomness(getrandom::Error),
}

/// What a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Everything but [`Review`](Self::Review).
    Admin,
    /// Submit signals, statements and outcomes, and draft reports.
    Ingest,
    /// Have tool results judged.
    Verify,
    /// Read drafts of reports, and decide about those of others. For people: `admin` does not include it.
    Review,
}

impl Scope {
    /// All of them.
    pub const ALL: [Scope; 4] = [Scope::Admin, Scope::Ingest, Scope::Verify, Scope::Review];

    /// As in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Scope::Admin => "admin",
            Scope::Ingest => "ingest",
            Scope::Verify => "verify",
            Scope::Review => "review",
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
    /// A new token and its text.
    fn generate(new: NewToken, now: Timestamp) -> Result<(Self, String)> {
        let mut random = [0; ID_BYTES + SECRET_BYTES];
        getrandom::fill(&mut random).map_err(Error::NoRandomness)?;
        let id = HEXLOWER.encode(&random[..ID_BYTES]);
        let text = format!("{PREFIX}{id}_{}", BASE64URL_NOPAD.encode(&random[ID_BYTES..]));
        let NewToken { name, scopes, expires_at } = new;
        let hash = HEXLOWER.encode(&Sha256::digest(text.as_bytes()));
        Ok((Self { id, name, scopes, hash, created_at: now, expires_at }, text))
    }

    /// Whether it may do what `scope` allows. `admin` grants every permission but `review`: who runs an authority must not release
    /// what a program wrote without a person who was asked to read it.
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) || scope != Scope::Review && self.scopes.contains(&Scope::Admin)
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

/// The token in force with this text, for a command that checks one by itself.
pub fn find(store: std::sync::Arc<dyn TokenStore>, text: &str, now: Timestamp) -> Result<Option<Token>> {
    Ok(Tokens::open(store)?.find(text, now).map(|bearer| Token::clone(&bearer)))
}

/// What [`TokenStore::add`] does to a list.
fn push(tokens: &mut Vec<Token>, token: Token) -> Result<()> {
    if tokens.iter().any(|known| known.id == token.id) {
        return Err(Error::IdTaken(token.id));
    }
    tokens.push(token);
    Ok(())
}

/// What [`TokenStore::revoke`] does to a list.
fn remove(tokens: &mut Vec<Token>, id: &str) -> bool {
    let before = tokens.len();
    tokens.retain(|token| token.id != id);
    tokens.len() < before
}
