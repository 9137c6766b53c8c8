//! A reviewer's key: what a guard reports of a result's content is encrypted to it, so that the authority in between cannot read it.
//!
//! HPKE (RFC 9180) in base mode with DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and ChaCha20Poly1305. The call is authenticated along: what was
//! sealed for one does not pass for another. Nothing tells who sealed it: the receipt's commitments do.
//!
//! ```text
//! sealed = base64url(encapsulated key ‖ ciphertext and tag)
//! public key = "credence-reviewer:" ‖ base64url(32 bytes)      private key = "credence-reviewer-secret:" ‖ base64url(32 bytes)
//! ```

use std::{fmt, str::FromStr};

use credence_protocol::Uuid;
use data_encoding::BASE64URL_NOPAD;
use hpke::{
    Deserializable, Kem as _, OpModeR, OpModeS, Serializable, aead::ChaCha20Poly1305, kdf::HkdfSha256,
    kem::X25519HkdfSha256, single_shot_open, single_shot_seal,
};
use zeroize::Zeroizing;

type Kem = X25519HkdfSha256;
type Public = <Kem as hpke::Kem>::PublicKey;
type Private = <Kem as hpke::Kem>::PrivateKey;
type Encapsulated = <Kem as hpke::Kem>::EncappedKey;

const INFO: &[u8] = b"credence/guard/review/1";
const PUBLIC: &str = "credence-reviewer:";
const PRIVATE: &str = "credence-reviewer-secret:";
const KEY_BYTES: usize = 32;

/// To whom content is encrypted.
#[derive(Clone)]
pub struct ReviewerPublicKey(Public);

/// Reads it.
pub struct ReviewerSecretKey(Private);

/// Makes a key pair.
pub fn generate() -> (ReviewerSecretKey, ReviewerPublicKey) {
    let (private, public) = Kem::gen_keypair();
    (ReviewerSecretKey(private), ReviewerPublicKey(public))
}

impl ReviewerPublicKey {
    /// Encrypts what is known of a call.
    pub fn seal(&self, call: Uuid, plain: &[u8]) -> Option<String> {
        let sealed = single_shot_seal::<ChaCha20Poly1305, HkdfSha256, Kem>(
            &OpModeS::Base,
            &self.0,
            INFO,
            plain,
            call.as_bytes(),
        );
        let (key, sealed) = sealed.ok()?;
        Some(BASE64URL_NOPAD.encode(&[&key.to_bytes(), sealed.as_slice()].concat()))
    }
}

impl ReviewerSecretKey {
    /// Decrypts what was sealed of a call; `None` where it was sealed for another key or call, or changed.
    pub fn open(&self, call: Uuid, sealed: &str) -> Option<Vec<u8>> {
        let bytes = BASE64URL_NOPAD.decode(sealed.as_bytes()).ok()?;
        let (key, sealed) = bytes.split_at_checked(KEY_BYTES)?;
        let key = Encapsulated::from_bytes(key).ok()?;
        let opened = single_shot_open::<ChaCha20Poly1305, HkdfSha256, Kem>(
            &OpModeR::Base,
            &self.0,
            &key,
            INFO,
            sealed,
            call.as_bytes(),
        );
        opened.ok()
    }

    /// The key as text, for a file that only its owner can read.
    pub fn to_text(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("{PRIVATE}{}", BASE64URL_NOPAD.encode(&self.0.to_bytes())))
    }
}

impl fmt::Display for ReviewerPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PUBLIC}{}", BASE64URL_NOPAD.encode(&self.0.to_bytes()))
    }
}

impl fmt::Debug for ReviewerPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ReviewerPublicKey {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let key = text.trim().strip_prefix(PUBLIC).and_then(|text| BASE64URL_NOPAD.decode(text.as_bytes()).ok());
        let key = key.and_then(|bytes| Public::from_bytes(&bytes).ok());
        key.map(Self).ok_or_else(|| format!("not a reviewer's public key: it begins with '{PUBLIC}'"))
    }
}

impl FromStr for ReviewerSecretKey {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let key = text.trim().strip_prefix(PRIVATE).and_then(|text| BASE64URL_NOPAD.decode(text.as_bytes()).ok());
        let key = key.and_then(|bytes| Private::from_bytes(&bytes).ok());
        // What is in the file stays out of the message.
        key.map(Self).ok_or_else(|| format!("not a reviewer's private key: it begins with '{PRIVATE}'"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_reviewer_reads_what_was_sealed_for_a_call() {
        let (secret, public) = generate();
        let public: ReviewerPublicKey = public.to_string().parse().unwrap();
        let secret: ReviewerSecretKey = secret.to_text().parse().unwrap();
        let (call, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let sealed = public.seal(call, b"hunter2").unwrap();
        assert_eq!(secret.open(call, &sealed).as_deref(), Some(&b"hunter2"[..]));
        assert_eq!(secret.open(other, &sealed), None, "it does not pass for another call");
        assert_eq!(generate().0.open(call, &sealed), None, "nobody else reads it");
        assert_ne!(public.seal(call, b"hunter2").unwrap(), sealed);
        for bad in ["", "AAAA", "!", &sealed[..sealed.len() - 2]] {
            assert_eq!(secret.open(call, bad), None);
        }
        assert!("credence-reviewer:AAAA".parse::<ReviewerPublicKey>().is_err());
        let wrong = "credence-reviewer-secret:hunter2".parse::<ReviewerSecretKey>().err().unwrap();
        assert!(!wrong.contains("hunter2"), "{wrong}");
    }
}
