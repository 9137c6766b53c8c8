//! SEAL v1: the hash of a feedback's content, the leaves of an agent's hash chains, and the chains.
//!
//! - `seal = keccak256("8004_SEAL_V1____" ‖ value ‖ decimals ‖ score flag ‖ score ‖ file flag ‖ [file hash] ‖ tag1 ‖ tag2 ‖ endpoint ‖ uri)`:
//!   numbers little-endian, strings as u16 length and UTF-8.
//! - `leaf = keccak256(prefix ‖ asset ‖ client ‖ index ‖ … ‖ slot)`, one form for each of feedback, response and revocation.
//! - `chain = keccak256(previous ‖ domain ‖ leaf)`.
//!
//! One name, two encodings of the value: the program and its client write 16 bytes ([`Encoding::I128`]), its documentation 8
//! ([`Encoding::I64`], with other limits). Feedback of ours is sealed in the first.

use alloy_primitives::{B256, Keccak256};

use super::Pubkey;
use crate::ChainError;

const SEAL: &[u8] = b"8004_SEAL_V1____";
const FEEDBACK_LEAF: &[u8] = b"8004_LEAF_V1____";
const RESPONSE_LEAF: &[u8] = b"8004_RSP_LEAF_V1";
const REVOKE_LEAF: &[u8] = b"8004_RVK_LEAF_V1";
/// Decimals of a value, at most.
const MAX_DECIMALS: u8 = 18;
const MAX_SCORE: u8 = 100;

/// How the value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// 16 bytes: the program and its client. Tags of 32 bytes, endpoint and address of 250.
    I128,
    /// 8 bytes: the documentation. Tags of 64 bytes, an endpoint of 256, an address of 512.
    I64,
}

impl Encoding {
    /// Bytes of a tag, the endpoint and the address, at most.
    fn limits(self) -> [u64; 3] {
        match self {
            Self::I128 => [32, 250, 250],
            Self::I64 => [64, 256, 512],
        }
    }
}

/// What is sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content<'a> {
    /// The value times 10^decimals.
    pub value: i128,
    /// Decimals of the value.
    pub decimals: u8,
    /// 0 to 100, where the feedback counts for ATOM.
    pub score: Option<u8>,
    /// Hash of the document that the address names.
    pub file: Option<B256>,
    /// The first tag.
    pub tag1: &'a str,
    /// The second tag.
    pub tag2: &'a str,
    /// The endpoint that it is about.
    pub endpoint: &'a str,
    /// Where the document is.
    pub uri: &'a str,
}

impl Content<'_> {
    /// Fails where the registry would refuse it.
    pub fn check(&self, encoding: Encoding) -> Result<(), ChainError> {
        let [tag, endpoint, uri] = encoding.limits();
        let sizes = [
            ("the first tag in bytes", self.tag1, tag),
            ("the second tag in bytes", self.tag2, tag),
            ("the endpoint in bytes", self.endpoint, endpoint),
            ("the document's address in bytes", self.uri, uri),
        ];
        for (what, text, limit) in sizes {
            if text.len() as u64 > limit {
                return Err(ChainError::Limit { what, limit });
            }
        }
        if self.decimals > MAX_DECIMALS {
            return Err(ChainError::Limit { what: "the value's decimals", limit: u64::from(MAX_DECIMALS) });
        }
        if self.score.is_some_and(|score| score > MAX_SCORE) {
            return Err(ChainError::Limit { what: "the score", limit: u64::from(MAX_SCORE) });
        }
        Ok(())
    }

    /// The seal.
    pub fn seal(&self, encoding: Encoding) -> Result<B256, ChainError> {
        self.check(encoding)?;
        let mut hash = Keccak256::new();
        hash.update(SEAL);
        match encoding {
            Encoding::I128 => hash.update(self.value.to_le_bytes()),
            Encoding::I64 => {
                let narrow = i64::try_from(self.value);
                let value = narrow.map_err(|_| ChainError::Malformed("the value does not fit into 64 bits".into()))?;
                hash.update(value.to_le_bytes());
            }
        }
        hash.update([self.decimals, u8::from(self.score.is_some()), self.score.unwrap_or_default()]);
        hash.update([u8::from(self.file.is_some())]);
        if let Some(file) = self.file {
            hash.update(file);
        }
        for text in [self.tag1, self.tag2, self.endpoint, self.uri] {
            // The limits are far below 2^16.
            hash.update(u16::try_from(text.len()).unwrap_or(u16::MAX).to_le_bytes());
            hash.update(text);
        }
        Ok(hash.finalize())
    }
}

/// Which feedback a leaf is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The agent.
    pub asset: Pubkey,
    /// Who gave the feedback.
    pub client: Pubkey,
    /// Its index among the agent's feedback.
    pub index: u64,
    /// The slot in which the event happened.
    pub slot: u64,
}

impl Place {
    /// The leaf of a feedback.
    pub fn feedback_leaf(&self, seal: B256) -> B256 {
        self.leaf(FEEDBACK_LEAF, &[seal.as_slice()])
    }

    /// The leaf of a response to it.
    pub fn response_leaf(&self, responder: Pubkey, response: B256, seal: B256) -> B256 {
        self.leaf(RESPONSE_LEAF, &[&responder.0, response.as_slice(), seal.as_slice()])
    }

    /// The leaf of its revocation.
    pub fn revoke_leaf(&self, seal: B256) -> B256 {
        self.leaf(REVOKE_LEAF, &[seal.as_slice()])
    }

    fn leaf(&self, prefix: &[u8], parts: &[&[u8]]) -> B256 {
        let mut hash = Keccak256::new();
        hash.update(prefix);
        hash.update(self.asset.0);
        hash.update(self.client.0);
        hash.update(self.index.to_le_bytes());
        for part in parts {
            hash.update(part);
        }
        hash.update(self.slot.to_le_bytes());
        hash.finalize()
    }
}

/// The three hash chains of an agent. Each starts with 32 zero bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashChain {
    /// Feedback.
    Feedback,
    /// Responses to feedback.
    Response,
    /// Revocations.
    Revoke,
}

impl HashChain {
    /// The chain's digest after one more leaf.
    pub fn extend(self, previous: B256, leaf: B256) -> B256 {
        let domain: &[u8] = match self {
            Self::Feedback => b"8004_FEEDBACK_V1",
            Self::Response => b"8004_RESPONSE_V1",
            Self::Revoke => b"8004_REVOKE_V1",
        };
        let mut hash = Keccak256::new();
        hash.update(previous);
        hash.update(domain);
        hash.update(leaf);
        hash.finalize()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    const KNOWN: Content<'_> = Content {
        value: 9977,
        decimals: 2,
        score: None,
        file: None,
        tag1: "uptime",
        tag2: "day",
        endpoint: "",
        uri: "ipfs://QmTest123",
    };

    fn hash(text: &str) -> B256 {
        text.parse().unwrap()
    }

    #[test]
    fn both_encodings_of_a_known_seal() {
        let wide = KNOWN.seal(Encoding::I128).unwrap();
        assert_eq!(wide, hash("98f98e22c278d9b7fe8163399aefd87d2ab0c9e27701fcb0c40b6249501a76eb"));
        let narrow = KNOWN.seal(Encoding::I64).unwrap();
        assert_eq!(narrow, hash("95e4e651a4833ff431d6a290307d37bb3402e4bbad49b0252625b105195b40b6"));
        let place = Place { asset: Pubkey([0xAA; 32]), client: Pubkey([0xBB; 32]), index: 0, slot: 12_345 };
        let leaf = hash("f78cdf372fa01d5c228e5e71e2d738fd1d705c3165f4b2797bd5effac0dd2627");
        assert_eq!(place.feedback_leaf(wide), leaf);
    }

    #[test]
    fn seals_leaves_and_chains_are_those_of_the_registrys_client() {
        let vectors: Value = serde_json::from_str(include_str!("../../testdata/solana.json")).unwrap();
        let vectors = vectors["seals"].as_array().unwrap();
        assert_eq!(vectors.len(), 8);
        for vector in vectors {
            let text = |name: &str| vector[name].as_str().unwrap();
            let bytes = |name: &str| hash(text(name));
            let content = Content {
                value: text("value").parse().unwrap(),
                decimals: vector["decimals"].as_u64().unwrap().try_into().unwrap(),
                score: vector["score"].as_u64().map(|score| score.try_into().unwrap()),
                file: vector["file"].as_str().map(hash),
                tag1: text("tag1"),
                tag2: text("tag2"),
                endpoint: text("endpoint"),
                uri: text("uri"),
            };
            let seal = content.seal(Encoding::I128).unwrap();
            assert_eq!(seal, bytes("seal"), "{content:?}");
            let key = |name: &str| Pubkey(bytes(name).0);
            let (index, slot) = (text("index").parse().unwrap(), text("slot").parse().unwrap());
            let place = Place { asset: key("asset"), client: key("client"), index, slot };
            let leaves = [
                ("feedback", HashChain::Feedback, place.feedback_leaf(seal)),
                ("response", HashChain::Response, place.response_leaf(key("responder"), bytes("response"), seal)),
                ("revoke", HashChain::Revoke, place.revoke_leaf(seal)),
            ];
            for (name, chain, leaf) in leaves {
                assert_eq!(leaf, bytes(&format!("{name}_leaf")), "{content:?}");
                assert_eq!(chain.extend(bytes("before"), leaf), bytes(&format!("{name}_chain")), "{content:?}");
            }
        }
    }

    #[test]
    fn sizes_are_counted_in_bytes_and_limited() {
        let (exact, above) = ("é".repeat(16), "é".repeat(17));
        assert!(Content { tag1: &exact, tag2: &exact, ..KNOWN }.seal(Encoding::I128).is_ok());
        let long = "u".repeat(251);
        let wrong = [
            Content { tag1: &above, ..KNOWN },
            Content { tag2: &above, ..KNOWN },
            Content { endpoint: &long, ..KNOWN },
            Content { uri: &long, ..KNOWN },
            Content { decimals: 19, ..KNOWN },
            Content { score: Some(101), ..KNOWN },
        ];
        let limits = wrong.map(|content| match content.seal(Encoding::I128).unwrap_err() {
            ChainError::Limit { limit, .. } => limit,
            other => panic!("{other}"),
        });
        assert_eq!(limits, [32, 32, 250, 250, 18, 100]);
        assert!(Content { tag1: &above, uri: &long, ..KNOWN }.seal(Encoding::I64).is_ok());
        let wide = Content { value: i128::from(i64::MAX) + 1, ..KNOWN };
        assert_eq!(wide.seal(Encoding::I64).unwrap_err().reason(), "malformed");
        assert!(wide.seal(Encoding::I128).is_ok());
    }
}
