//! Roots: the registries that a source re-reads. Names of `A-Z a-z 0-9 . _ ~ -` joined by colons, from general to particular:
//! `erc8004` is a registry, `erc8004:eip155:8453` the same registry on one chain (CAIP-2 `eip155:8453`).
//!
//! A root covers what extends it after a colon: a reader of `erc8004` reads what a reader of `erc8004:eip155:8453` reads.

use std::sync::Arc;

use crate::{Error, limits::MAX_ENTITY_ID_BYTES, text::checked_text};

/// Namespaces of CAIP-2 chain ids that a root can name.
const CHAIN_NAMESPACES: [&str; 12] = [
    "aptos", "bip122", "cosmos", "eip155", "hedera", "near", "polkadot", "solana", "starknet", "stellar", "sui",
    "tezos",
];

/// What a source re-reads. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Root(Arc<str>);

impl Root {
    /// Checks `root` against the rule above.
    pub fn new(root: &str) -> Result<Self, Error> {
        let legal = |b: u8| b.is_ascii_alphanumeric() || b"._~-".contains(&b);
        let is_name = |name: &str| !name.is_empty() && name.bytes().all(legal);
        if root.len() > MAX_ENTITY_ID_BYTES || !root.split(':').all(is_name) {
            return Err(Error::Root(root.chars().take(160).collect()));
        }
        Ok(Self(root.into()))
    }

    /// The root as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a reader of this root reads all that a reader of `other` reads.
    pub fn covers(&self, other: &Root) -> bool {
        other.0.strip_prefix(&*self.0).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    }

    /// This root and every root that covers it, from particular to general.
    pub fn and_what_covers_it(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(Some(&*self.0), |root| root.rsplit_once(':').map(|(general, _)| general))
    }

    /// The chain that it names: a CAIP-2 id such as `eip155:8453`.
    pub fn chain(&self) -> Option<&str> {
        let mut start = 0;
        for name in self.0.split(':') {
            if CHAIN_NAMESPACES.contains(&name) {
                let reference = self.0[start + name.len()..].strip_prefix(':')?.split(':').next()?;
                return Some(&self.0[start..start + name.len() + 1 + reference.len()]);
            }
            start += name.len() + 1;
        }
        None
    }
}

checked_text!(Root, new);

#[cfg(test)]
mod tests {
    use super::*;

    fn root(text: &str) -> Root {
        Root::new(text).unwrap()
    }

    #[test]
    fn covers_what_extends_it_after_a_colon() {
        assert!(root("erc8004").covers(&root("erc8004:eip155:8453")));
        assert!(root("erc8004:eip155:8453").covers(&root("erc8004:eip155:8453")));
        assert!(!root("erc8004:eip155:8453").covers(&root("erc8004")));
        assert!(!root("erc80").covers(&root("erc8004")), "half a name covers nothing");
        assert!(!root("erc8004:eip155:84").covers(&root("erc8004:eip155:8453")));
        let all: Vec<_> = root("a:b:c").and_what_covers_it().map(str::to_owned).collect();
        assert_eq!(all, ["a:b:c", "a:b", "a"]);
    }

    #[test]
    fn names_its_chain() {
        assert_eq!(root("erc8004:eip155:8453").chain(), Some("eip155:8453"));
        assert_eq!(root("erc8004:eip155:8453:0x12").chain(), Some("eip155:8453"));
        assert_eq!(
            root("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp").chain(),
            Some("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp")
        );
        for without in ["erc8004", "solana", "seal:solana", "registry:other:1"] {
            assert_eq!(root(without).chain(), None, "{without}");
        }
    }

    #[test]
    fn refuses_what_is_no_name() {
        for bad in ["", ":", "a:", ":a", "a::b", "a b", "a/b", "naïve", &"a".repeat(129)] {
            assert!(Root::new(bad).is_err(), "{bad:?}");
        }
    }
}
