//! Ed25519 keys and signatures (RFC 8032), always verified by the strict rule: no small-order keys, no malleable forms.
//!
//! A key id is the key's JWK thumbprint (RFC 7638): SHA-256 of `{"crv":"Ed25519","kty":"OKP","x":…}`, base64url, 43
//! characters. Anyone can compute it from the public key, so a key id cannot be claimed by another key.

use std::{fmt, str::FromStr};

use data_encoding::BASE64URL_NOPAD;
use ed25519_dalek::{Signer, SigningKey, VerifyingKey};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::Error;

/// Multicodec prefix of an Ed25519 public key (varint 0xed).
const ED25519_MULTICODEC: [u8; 2] = [0xed, 0x01];
/// Bytes of an Ed25519 key, public or secret.
pub(crate) const KEY_BYTES: usize = 32;

/// A signing key. Its bytes are wiped on drop and never printed.
#[derive(Clone)]
pub struct SecretKey(SigningKey);

impl SecretKey {
    /// A fresh key from the operating system's randomness.
    pub fn generate() -> Result<Self, Error> {
        let mut seed = Zeroizing::new([0; KEY_BYTES]);
        getrandom::fill(&mut *seed).map_err(|e| Error::Randomness(e.to_string()))?;
        Ok(Self::from_seed(&seed))
    }

    /// The key of a 32-byte seed (RFC 8032 §5.1.5).
    pub fn from_seed(seed: &[u8; KEY_BYTES]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// The seed, wiped on drop.
    pub fn seed(&self) -> Zeroizing<[u8; KEY_BYTES]> {
        Zeroizing::new(self.0.to_bytes())
    }

    /// The public half.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Signs `message`.
    pub fn sign(&self, message: &[u8]) -> Signature {
        Signature(self.0.sign(message).to_bytes())
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey(of {})", self.public().id())
    }
}

/// A verification key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl PublicKey {
    /// From 32 bytes; refuses points off the curve and keys of small order.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let bytes: &[u8; KEY_BYTES] = bytes.try_into().map_err(|_| Error::Key("not 32 bytes"))?;
        let key = VerifyingKey::from_bytes(bytes).map_err(|_| Error::Key("not a point on the curve"))?;
        if key.is_weak() {
            return Err(Error::Key("a weak key: everyone can sign with it"));
        }
        Ok(Self(key))
    }

    /// From base64url (a JWK's `x`) or `did:key:z…`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if let Some(multikey) = text.strip_prefix("did:key:z") {
            let bytes = bs58::decode(multikey).into_vec().map_err(|_| Error::Key("not base58"))?;
            let key = bytes.strip_prefix(&ED25519_MULTICODEC).ok_or(Error::Key("not an Ed25519 did:key"))?;
            return Self::from_bytes(key);
        }
        let bytes = BASE64URL_NOPAD
            .decode(text.as_bytes())
            .map_err(|_| Error::Key("expected did:key:z… or 43 characters of unpadded base64url"))?;
        Self::from_bytes(&bytes)
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        self.0.as_bytes()
    }

    /// The 32 bytes in base64url, as a JWK's `x`.
    pub fn to_base64url(&self) -> String {
        BASE64URL_NOPAD.encode(self.as_bytes())
    }

    /// The key id (see the module).
    pub fn id(&self) -> KeyId {
        let jwk = format!(r#"{{"crv":"Ed25519","kty":"OKP","x":"{}"}}"#, self.to_base64url());
        KeyId(Sha256::digest(jwk.as_bytes()).into())
    }

    /// `did:key:z6Mk…`.
    pub fn did_key(&self) -> String {
        let mut bytes = ED25519_MULTICODEC.to_vec();
        bytes.extend_from_slice(self.as_bytes());
        format!("did:key:z{}", bs58::encode(bytes).into_string())
    }

    /// Checks `signature` over `message` by the strict rule.
    pub fn verify(&self, message: &[u8], signature: &Signature) -> Result<(), Error> {
        let signature = ed25519_dalek::Signature::from_bytes(&signature.0);
        self.0.verify_strict(message, &signature).map_err(|_| Error::BadSignature(self.id()))
    }

    pub(crate) fn dalek(&self) -> VerifyingKey {
        self.0
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.did_key())
    }
}

impl Serialize for PublicKey {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.to_base64url())
    }
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        Self::parse(&text).map_err(de::Error::custom)
    }
}

/// Fixed-size bytes written as unpadded base64url.
macro_rules! base64url_bytes {
    ($name:ident, $len:literal, $error:expr) => {
        impl $name {
            /// From raw bytes.
            pub fn from_bytes(bytes: [u8; $len]) -> Self {
                Self(bytes)
            }

            /// The raw bytes.
            pub fn as_bytes(&self) -> &[u8; $len] {
                &self.0
            }
        }
        impl FromStr for $name {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self, Error> {
                let mut bytes = [0; $len];
                // The exact text length, so that decoding cannot overrun and one value has one spelling.
                if text.len() != BASE64URL_NOPAD.encode_len($len) {
                    return Err($error);
                }
                let decoded = BASE64URL_NOPAD.decode_mut(text.as_bytes(), &mut bytes);
                decoded.map(|_| Self(bytes)).map_err(|_| $error)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&BASE64URL_NOPAD.encode(&self.0))
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
                text.parse().map_err(de::Error::custom)
            }
        }
    };
}

/// A key's id: its JWK thumbprint.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId([u8; 32]);
base64url_bytes!(KeyId, 32, Error::Key("a key id is 43 characters of unpadded base64url"));

/// A raw Ed25519 signature.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Signature([u8; 64]);
base64url_bytes!(Signature, 64, Error::SignatureForm);

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8032 §7.1, tests 1 to 3.
    #[test]
    fn rfc_8032_vectors() {
        let hex = |text: &str| data_encoding::HEXLOWER.decode(text.as_bytes()).unwrap();
        for (seed, public, message, signature) in [
            (
                "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
                "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
                "",
                "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
            ),
            (
                "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
                "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
                "72",
                "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
            ),
            (
                "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
                "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
                "af82",
                "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
            ),
        ] {
            let key = SecretKey::from_seed(&hex(seed).try_into().unwrap());
            assert_eq!(key.public().as_bytes().to_vec(), hex(public));
            let made = key.sign(&hex(message));
            assert_eq!(made.as_bytes().to_vec(), hex(signature));
            key.public().verify(&hex(message), &made).unwrap();
            assert!(key.public().verify(b"other", &made).is_err());
        }
    }

    /// RFC 8037, appendix A.3: the thumbprint of RFC 8032's first key.
    #[test]
    fn key_id_is_the_rfc_7638_thumbprint() {
        let key = PublicKey::parse("11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo").unwrap();
        assert_eq!(key.id().to_string(), "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k");
    }

    #[test]
    fn forms_round_trip_and_secrets_stay_out_of_debug_output() {
        let key = SecretKey::generate().unwrap();
        let public = key.public();
        assert_eq!(PublicKey::parse(&public.did_key()).unwrap(), public);
        assert_eq!(PublicKey::parse(&public.to_base64url()).unwrap(), public);
        assert_eq!(public.id().to_string().parse::<KeyId>().unwrap(), public.id());
        assert!(!format!("{key:?}").contains(&BASE64URL_NOPAD.encode(&*key.seed())));
    }

    #[test]
    fn weak_and_malformed_keys_are_refused() {
        assert!(matches!(PublicKey::from_bytes(&[0; 32]), Err(Error::Key(_))));
        let mut identity = [0; 32];
        identity[0] = 1;
        assert!(matches!(PublicKey::from_bytes(&identity), Err(Error::Key(_))));
        assert!(PublicKey::parse("did:key:zabc").is_err());
        assert!("AAAA".parse::<Signature>().is_err());
    }
}
