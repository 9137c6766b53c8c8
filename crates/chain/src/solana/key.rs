//! The attesting key: an Ed25519 key of its own, from a file that only its owner may read, or from the environment.
//!
//! Three spellings are read: a JSON list of 64 bytes (what Solana's own tools write), 32 bytes in hexadecimal, and 32 or 64 bytes in base58
//! (what wallets export). It is shown nowhere: `Debug` says the address, and no error repeats what was read.

use std::{fmt, path::Path};

use alloy_primitives::hex;
use ed25519_dalek::{Signer, SigningKey};
use zeroize::Zeroizing;

use super::Pubkey;
use crate::{ChainError, key_file};

/// Bytes of a key file: a list of 64 numbers, with room for white space.
const MAX_FILE_BYTES: u64 = 1024;

/// A key that signs transactions. The key itself wipes its memory when it is dropped.
pub struct SolanaKey {
    key: SigningKey,
    address: Pubkey,
}

impl fmt::Debug for SolanaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SolanaKey").field("address", &self.address).finish_non_exhaustive()
    }
}

impl SolanaKey {
    /// Reads a file of mode 0600 (or 0400).
    pub fn from_file(path: &Path) -> Result<Self, ChainError> {
        Self::parse(&key_file::read(path, MAX_FILE_BYTES)?, &path.display().to_string())
    }

    /// Reads an environment variable.
    pub fn from_environment(variable: &str) -> Result<Self, ChainError> {
        Self::parse(&key_file::from_environment(variable)?, variable)
    }

    /// The same with the value of `variable` at hand.
    pub fn from_text(variable: &str, value: Option<String>) -> Result<Self, ChainError> {
        let text = value.ok_or_else(|| ChainError::Key(format!("{variable} is not set")))?;
        Self::parse(&Zeroizing::new(text), variable)
    }

    /// Whether it is made of the same 32 bytes as another key of the authority, which then would sign twice with one secret.
    pub fn is_made_of(&self, seed: &[u8; 32]) -> bool {
        SigningKey::from_bytes(seed) == self.key
    }

    fn parse(text: &str, shown: &str) -> Result<Self, ChainError> {
        let wrong = || {
            let why = "does not hold an Ed25519 key: a JSON list of 64 bytes, 64 hexadecimal digits, or 32 or 64 bytes in base58";
            ChainError::Key(format!("{shown} {why}"))
        };
        let bytes = decode(text.trim()).ok_or_else(wrong)?;
        let seed: &[u8; 32] = bytes.first_chunk().ok_or_else(wrong)?;
        let key = SigningKey::from_bytes(seed);
        let address = Pubkey(key.verifying_key().to_bytes());
        match bytes.get(32..) {
            Some([]) => Ok(Self { key, address }),
            Some(public) if public == address.0 => Ok(Self { key, address }),
            Some(public) if public.len() == 32 => {
                Err(ChainError::Key(format!("{shown} holds a key whose two halves do not belong together")))
            }
            _ => Err(wrong()),
        }
    }

    /// The address of the key. The caller compares it with the authority's other addresses.
    pub fn address(&self) -> Pubkey {
        self.address
    }

    pub(super) fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.key.sign(message).to_bytes()
    }
}

fn decode(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    if text.starts_with('[') {
        return serde_json::from_str(text)
            .map(Zeroizing::new)
            .ok()
            .filter(|bytes: &Zeroizing<Vec<u8>>| bytes.len() == 64);
    }
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return hex::decode(digits).map(Zeroizing::new).ok();
    }
    bs58::decode(text).into_vec().map(Zeroizing::new).ok()
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    /// The first test of RFC 8032.
    const SEED: &str = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
    const PUBLIC: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

    fn pair() -> Vec<u8> {
        hex::decode(format!("{SEED}{PUBLIC}")).unwrap()
    }

    #[test]
    fn every_spelling_is_the_same_key() {
        let (pair, address) = (pair(), Pubkey(hex::decode(PUBLIC).unwrap().try_into().unwrap()));
        let spellings = [
            format!("{pair:?}\n"),
            serde_json::to_string(&pair).unwrap(),
            format!("0x{SEED}"),
            SEED.to_owned(),
            bs58::encode(&pair[..32]).into_string(),
            bs58::encode(&pair).into_string(),
        ];
        for text in spellings {
            let key = SolanaKey::parse(&text, "k").unwrap();
            assert_eq!(key.address(), address);
            assert!(!format!("{key:?}").contains(&text[1..9]), "{key:?}");
        }
    }

    #[test]
    fn errors_name_the_place_and_not_the_key() {
        let mut torn = pair();
        torn[40] ^= 1;
        let bad = [
            String::new(),
            "[]".into(),
            format!("{:?}", &pair()[..63]),
            format!("{torn:?}"),
            bs58::encode(&torn).into_string(),
            SEED[1..].into(),
            "[1,2,\"secret-text\"]".into(),
        ];
        for text in bad {
            let error = SolanaKey::parse(&text, "wallet.json").unwrap_err();
            assert!(error.to_string().contains("wallet.json"), "{error}");
            assert!(text.len() < 9 || !error.to_string().contains(&text[1..9]), "{error}");
        }
        assert_eq!(SolanaKey::from_environment("NO_SUCH_VARIABLE_HERE").unwrap_err().reason(), "key");
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wallet.json");
        fs::write(&path, format!("{:?}", pair())).unwrap();
        for (mode, taken) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o644, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let read = SolanaKey::from_file(&path);
            assert_eq!(read.is_ok(), taken, "{mode:o}");
            if let Err(error) = read {
                assert!(error.to_string().contains("chmod 600"), "{error}");
            }
        }
    }
}
