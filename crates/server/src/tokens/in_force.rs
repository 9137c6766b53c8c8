//! The tokens that a running service accepts: a copy in memory, read again when the store changed.

use std::{collections::HashMap, ops::Deref, sync::Arc};

use arc_swap::ArcSwap;
use credence_protocol::{EntityId, Timestamp};
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::shares::Owner;

use super::{PREFIX, Result, Scope, Token, TokenStore, Version};

/// A longer header is not one of our tokens.
const MAX_TOKEN: usize = 128;

/// A token in force.
pub(crate) struct Bearer {
    token: Token,
    /// What its id stands for: what it has under way is counted by it.
    number: u64,
}

impl Bearer {
    fn new(token: Token) -> Self {
        let number = u64::from_str_radix(&token.id, 16).unwrap_or_default();
        Self { token, number }
    }

    /// As whom it takes its part of what callers share.
    pub(crate) fn owner(&self) -> Owner {
        Owner::Token(self.number)
    }

    /// The operator's own process, which has every permission: no text opens it, and no store keeps it.
    pub(crate) fn operator(name: EntityId, now: Timestamp) -> Self {
        Self::unstored(name, Scope::Admin, now)
    }

    /// A visitor of a demo: sees what was judged for `name`.
    pub(crate) fn visitor(name: EntityId, now: Timestamp) -> Self {
        Self::unstored(name, Scope::Verify, now)
    }

    fn unstored(name: EntityId, scope: Scope, now: Timestamp) -> Self {
        let (id, hash) = (String::new(), String::new());
        Self::new(Token { id, name, scopes: vec![scope], hash, created_at: now, expires_at: None })
    }
}

impl Deref for Bearer {
    type Target = Token;
    fn deref(&self) -> &Token {
        &self.token
    }
}

/// The tokens in force.
pub(crate) struct Tokens {
    store: Arc<dyn TokenStore>,
    read: ArcSwap<Read>,
}

/// The store's tokens, as they were at a version of it.
#[derive(Default)]
struct Read {
    version: Option<Version>,
    by_id: HashMap<String, (Arc<Bearer>, [u8; 32])>,
}

impl Tokens {
    pub(crate) fn open(store: Arc<dyn TokenStore>) -> Result<Self> {
        let tokens = Self { store, read: ArcSwap::default() };
        tokens.reload()?;
        Ok(tokens)
    }

    /// Reads the store again if it changed. On an error the tokens read before stay in force.
    pub(crate) fn reload(&self) -> Result<()> {
        // Before the list: a change in between is seen by the next call.
        let version = Some(self.store.version()?);
        if version == self.read.load().version {
            return Ok(());
        }
        let mut by_id = HashMap::new();
        for token in self.store.list()? {
            let hash = HEXLOWER.decode(token.hash.as_bytes()).ok().and_then(|hash| hash.try_into().ok());
            if let Some(hash) = hash {
                by_id.insert(token.id.clone(), (Arc::new(Bearer::new(token)), hash));
            }
        }
        self.read.store(Arc::new(Read { version, by_id }));
        Ok(())
    }

    /// The token in force with this text. Takes the same time for every text that is not one.
    pub(crate) fn find(&self, text: &str, now: Timestamp) -> Option<Arc<Bearer>> {
        let read = self.read.load();
        let text = if text.len() > MAX_TOKEN { "" } else { text };
        let id = text.strip_prefix(PREFIX).and_then(|rest| rest.split_once('_')).map_or("", |(id, _)| id);
        let given: [u8; 32] = Sha256::digest(text.as_bytes()).into();
        let known = read.by_id.get(id);
        // All-zero is the digest of no text that anyone knows.
        let hash = known.map_or([0; 32], |(_, hash)| *hash);
        let same = bool::from(hash.ct_eq(&given));
        let (token, _) = known.filter(|_| same)?;
        token.expires_at.is_none_or(|end| now < end).then(|| Arc::clone(token))
    }

    /// A token as the store has it now, if it is still in force.
    pub(crate) fn renewed(&self, token: &Bearer, now: Timestamp) -> Option<Arc<Bearer>> {
        let read = self.read.load();
        let (current, _) = read.by_id.get(&token.id)?;
        current.expires_at.is_none_or(|end| now < end).then(|| Arc::clone(current))
    }

    /// Whether there is a token of this id, expired or not: one that was revoked is gone.
    pub(crate) fn knows(&self, id: &str) -> bool {
        self.read.load().by_id.contains_key(id)
    }

    /// Whether a token is still in force.
    pub(crate) fn holds(&self, token: &Bearer, now: Timestamp) -> bool {
        // The operator's own process is in no store.
        let there = token.id.is_empty() || self.read.load().by_id.contains_key(&token.id);
        there && token.expires_at.is_none_or(|end| now < end)
    }
}
