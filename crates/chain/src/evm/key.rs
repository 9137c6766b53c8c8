//! The attesting key: a secp256k1 key of its own, from a file that only its owner may read, or from the environment.
//!
//! It is shown nowhere: `Debug` says the address, and no error repeats what was read.

use std::{fmt, path::Path};

use alloy_primitives::{Address, B256, Signature, hex, keccak256};
use k256::ecdsa::{RecoveryId, SigningKey};
use zeroize::Zeroizing;

use crate::{ChainError, key_file};

/// Bytes of a key file: 64 digits, `0x`, and room for white space.
const MAX_FILE_BYTES: u64 = 256;

/// A key that signs transactions. The key itself wipes its memory when it is dropped.
pub struct EvmKey {
    key: SigningKey,
    address: Address,
}

impl fmt::Debug for EvmKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EvmKey").field("address", &self.address).finish_non_exhaustive()
    }
}

impl EvmKey {
    /// Reads a file of mode 0600 (or 0400) that holds 64 hexadecimal digits.
    pub fn from_file(path: &Path) -> Result<Self, ChainError> {
        let text = key_file::read(path, MAX_FILE_BYTES)?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Reads an environment variable that holds 64 hexadecimal digits.
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
        SigningKey::from_slice(seed).is_ok_and(|other| other == self.key)
    }

    fn parse(text: &str, shown: &str) -> Result<Self, ChainError> {
        let wrong = || ChainError::Key(format!("{shown} does not hold 64 hexadecimal digits of a secp256k1 key"));
        let text = text.trim();
        let mut bytes = Zeroizing::new([0_u8; 32]);
        hex::decode_to_slice(text.strip_prefix("0x").unwrap_or(text), bytes.as_mut_slice()).map_err(|_| wrong())?;
        let key = SigningKey::from_slice(bytes.as_slice()).map_err(|_| wrong())?;
        let point = key.verifying_key().to_sec1_point(false);
        let address = Address::from_slice(&keccak256(&point.as_bytes()[1..])[12..]);
        Ok(Self { key, address })
    }

    /// The address of the key. The caller compares it with the authority's other addresses.
    pub fn address(&self) -> Address {
        self.address
    }

    /// Signs a hash, deterministically (RFC 6979) and with a low `s` (EIP-2).
    pub(super) fn sign(&self, hash: B256) -> Signature {
        let (signature, recovery): (k256::ecdsa::Signature, RecoveryId) =
            self.key.sign_prehash_recoverable(hash.as_slice());
        Signature::from_bytes_and_parity(&signature.to_bytes(), recovery.is_y_odd())
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    /// The first key of every development node.
    const KEY: &str = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";

    #[test]
    fn a_key_has_its_known_address_and_shows_nothing_else() {
        let key = EvmKey::parse(&format!("0x{KEY}\n"), "k").unwrap();
        assert_eq!(key.address().to_string(), "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
        assert!(!format!("{key:?}").contains(&KEY[..8]));
    }

    #[test]
    fn errors_name_the_place_and_not_the_key() {
        let n = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";
        for bad in ["", "0x", &KEY[1..], &format!("{KEY}00"), &"0".repeat(64), n, "zz"] {
            let error = EvmKey::parse(bad, "wallet.key").unwrap_err();
            assert!(error.to_string().contains("wallet.key"), "{error}");
            assert!(bad.len() < 8 || !error.to_string().contains(&bad[..8]), "{error}");
        }
        assert_eq!(EvmKey::from_environment("NO_SUCH_VARIABLE_HERE").unwrap_err().reason(), "key");
    }

    #[test]
    fn a_file_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wallet.key");
        fs::write(&path, KEY).unwrap();
        for (mode, taken) in
            [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o644, false), (0o660, false)]
        {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let read = EvmKey::from_file(&path);
            assert_eq!(read.is_ok(), taken, "{mode:o}");
            if let Err(error) = read {
                assert!(error.to_string().contains("chmod 600"), "{error}");
            }
        }
        assert!(EvmKey::from_file(folder.path()).is_err());
        assert!(EvmKey::from_file(&folder.path().join("none")).is_err());
    }
}
