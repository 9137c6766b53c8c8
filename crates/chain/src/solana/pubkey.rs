//! Addresses: 32 bytes in base58, and those that a program derives from seeds.
//!
//! A derived address is `SHA-256(seeds ‖ bump ‖ program ‖ "ProgramDerivedAddress")` for the largest bump of 255 to 0 for which that is no
//! point of Ed25519: nobody can hold a key for it.

use std::{fmt, str::FromStr};

use ed25519_dalek::VerifyingKey;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};

use crate::ChainError;

const DERIVED: &[u8] = b"ProgramDerivedAddress";

/// An address on Solana.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Pubkey(pub [u8; 32]);

impl Pubkey {
    /// A well-known address, read when the program is compiled.
    pub(super) const fn known(text: &'static str) -> Self {
        Self(bs58::decode(text.as_bytes()).into_array_const_unwrap())
    }

    /// The address that `program` derives from `seeds`, with its bump.
    pub(super) fn derived(seeds: &[&[u8]], program: Pubkey) -> Result<(Self, u8), ChainError> {
        for bump in (0..=u8::MAX).rev() {
            let mut hash = Sha256::new();
            for seed in seeds {
                hash.update(seed);
            }
            hash.update([bump]);
            hash.update(program.0);
            hash.update(DERIVED);
            let bytes: [u8; 32] = hash.finalize().into();
            // A verifying key is any point of the curve.
            if VerifyingKey::from_bytes(&bytes).is_err() {
                return Ok((Self(bytes), bump));
            }
        }
        Err(ChainError::Malformed("no address can be derived from these seeds".into()))
    }
}

impl fmt::Display for Pubkey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&bs58::encode(self.0).into_string())
    }
}

impl fmt::Debug for Pubkey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Pubkey {
    type Err = ChainError;

    fn from_str(text: &str) -> Result<Self, ChainError> {
        let mut bytes = [0; 32];
        match bs58::decode(text).onto(&mut bytes) {
            Ok(32) => Ok(Self(bytes)),
            _ => Err(ChainError::Malformed("an address is 32 bytes in base58".into())),
        }
    }
}

impl Serialize for Pubkey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Pubkey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn addresses_have_one_spelling() {
        let text = "8oo4dC4JvBLwy5tGgiH3WwK4B9PWxL9Z4XjA2jzkQMbQ";
        assert_eq!(text.parse::<Pubkey>().unwrap().to_string(), text);
        for bad in ["", "1", "0oo4dC4JvBLwy5tGgiH3WwK4B9PWxL9Z4XjA2jzkQMbQ", &text[4..], &format!("{text}1")] {
            assert!(bad.parse::<Pubkey>().is_err(), "{bad}");
        }
    }

    #[test]
    fn derived_addresses_are_those_of_the_registrys_client() {
        let vectors: Value = serde_json::from_str(include_str!("../../testdata/solana.json")).unwrap();
        let vectors = vectors["addresses"].as_array().unwrap();
        assert_eq!(vectors.len(), 24);
        let mut bumps = std::collections::BTreeSet::new();
        for vector in vectors {
            let key = |name: &str| vector[name].as_str().unwrap().parse::<Pubkey>().unwrap();
            let (registry, atom, asset) = (key("registry"), key("atom"), key("asset"));
            let cases: [(&str, &[&[u8]], Pubkey); 4] = [
                ("agent", &[b"agent", &asset.0], registry),
                ("stats", &[b"atom_stats", &asset.0], atom),
                ("config", &[b"atom_config"], atom),
                ("authority", &[b"atom_cpi_authority"], registry),
            ];
            for (name, seeds, program) in cases {
                let (address, bump) = Pubkey::derived(seeds, program).unwrap();
                assert_eq!(
                    (address.to_string(), u64::from(bump)),
                    (vector[name][0].as_str().unwrap().into(), vector[name][1].as_u64().unwrap())
                );
                bumps.insert(bump);
            }
        }
        assert!(bumps.len() > 3, "points of the curve were met: {bumps:?}");
    }
}
