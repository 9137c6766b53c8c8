//! Signatures of others: JSON Web Signatures (RFC 7515) with ES256 or EdDSA, and keys as JWK sets (RFC 7517).
//!
//! Only these two algorithms, by the key's own type: what a header says cannot choose another. Keys come from an address that the
//! source file or the subject's own host names, never from the header of what they verify.

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use credence_protocol::{PublicKey, Signature};
use data_encoding::{BASE64, BASE64URL_NOPAD};
use serde::Deserialize;

/// Keys in one set that are looked at.
const MAX_KEYS: usize = 64;

/// A set of public keys.
#[derive(Debug, Clone, Default)]
pub struct KeySet(Vec<Key>);

#[derive(Debug, Clone)]
struct Key {
    kid: Option<String>,
    key: KeyForm,
}

#[derive(Debug, Clone)]
enum KeyForm {
    /// An uncompressed point.
    P256(Vec<u8>),
    Ed25519(PublicKey),
}

#[derive(Deserialize)]
struct SetFile {
    keys: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct KeyFile {
    kty: String,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
}

impl KeySet {
    /// Reads a JWK set. Keys of other kinds are left out.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let file: SetFile = serde_json::from_slice(bytes).ok()?;
        let keys = file.keys.into_iter().take(MAX_KEYS).filter_map(|key| serde_json::from_value::<KeyFile>(key).ok());
        Some(Self(keys.filter_map(Key::of).collect()))
    }

    /// Whether one of the keys made `signature` over `message` with `alg`. With a `kid` only the key of that name is asked.
    pub fn verify(&self, alg: &str, kid: Option<&str>, message: &[u8], signature: &[u8]) -> bool {
        let named = |key: &&Key| kid.is_none_or(|kid| key.kid.as_deref() == Some(kid));
        self.0.iter().filter(named).any(|key| match (&key.key, alg) {
            (KeyForm::P256(point), "ES256") => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature).is_ok()
            }
            (KeyForm::Ed25519(key), "EdDSA" | "Ed25519") => {
                let bytes: Result<[u8; 64], _> = signature.try_into();
                bytes.is_ok_and(|bytes| key.verify(message, &Signature::from_bytes(bytes)).is_ok())
            }
            _ => false,
        })
    }
}

impl Key {
    fn of(file: KeyFile) -> Option<Self> {
        if file.purpose.as_deref().is_some_and(|purpose| purpose != "sig") {
            return None;
        }
        let coordinate = |text: Option<String>| {
            BASE64URL_NOPAD.decode(text?.as_bytes()).ok().filter(|bytes: &Vec<u8>| bytes.len() == 32)
        };
        let key = match (file.kty.as_str(), file.crv.as_deref()) {
            ("EC", Some("P-256")) => {
                let (x, y) = (coordinate(file.x)?, coordinate(file.y)?);
                KeyForm::P256([&[4], x.as_slice(), y.as_slice()].concat())
            }
            ("OKP", Some("Ed25519")) => KeyForm::Ed25519(PublicKey::from_bytes(&coordinate(file.x)?).ok()?),
            _ => return None,
        };
        Some(Self { kid: file.kid, key })
    }
}

/// The protected header of a signature.
#[derive(Debug, Deserialize)]
pub(crate) struct Header {
    pub alg: String,
    pub kid: Option<String>,
    pub jku: Option<String>,
    /// Extensions that a reader must understand: there are none that we do.
    pub crit: Option<serde_json::Value>,
}

impl Header {
    pub fn parse(protected: &str) -> Option<Self> {
        let bytes = BASE64URL_NOPAD.decode(protected.as_bytes()).ok()?;
        serde_json::from_slice::<Self>(&bytes).ok().filter(|header| header.crit.is_none())
    }
}

/// What a JWS signs: `BASE64URL(header) . BASE64URL(payload)`.
pub(crate) fn signing_input(protected: &str, payload: &[u8]) -> Vec<u8> {
    format!("{protected}.{}", BASE64URL_NOPAD.encode(payload)).into_bytes()
}

/// Base64 in either alphabet, padded or not.
pub(crate) fn any_base64(text: &str) -> Option<Vec<u8>> {
    let bare = text.trim_end_matches('=');
    BASE64URL_NOPAD.decode(bare.replace('+', "-").replace('/', "_").as_bytes()).ok().or_else(|| {
        // The last character may hold bits that are not zero in lax encoders: not taken.
        BASE64.decode(text.as_bytes()).ok()
    })
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::{
        rand::SystemRandom,
        signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair},
    };
    use credence_protocol::SecretKey;
    use serde_json::json;

    use super::*;

    fn p256() -> (EcdsaKeyPair, serde_json::Value) {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        let point = pair.public_key().as_ref().to_vec();
        let jwk = json!({"kty": "EC", "crv": "P-256", "kid": "k1", "use": "sig",
            "x": BASE64URL_NOPAD.encode(&point[1..33]), "y": BASE64URL_NOPAD.encode(&point[33..])});
        (pair, jwk)
    }

    #[test]
    fn both_algorithms_verify_and_nothing_else_does() {
        let (pair, es) = p256();
        let ed = SecretKey::from_seed(&[5; 32]);
        let okp = json!({"kty": "OKP", "crv": "Ed25519", "kid": "k2", "x": ed.public().to_base64url()});
        let rsa = json!({"kty": "RSA", "n": "AQAB", "e": "AQAB"});
        let set = KeySet::parse(json!({"keys": [rsa, es, okp]}).to_string().as_bytes()).unwrap();
        let signature = pair.sign(&SystemRandom::new(), b"message").unwrap();
        let signature = signature.as_ref();
        assert!(set.verify("ES256", Some("k1"), b"message", signature));
        assert!(set.verify("ES256", None, b"message", signature));
        assert!(!set.verify("ES256", Some("k2"), b"message", signature));
        assert!(!set.verify("none", Some("k1"), b"message", signature));
        assert!(!set.verify("HS256", Some("k1"), b"message", signature));
        assert!(!set.verify("ES256", Some("k1"), b"massage", signature));
        assert!(!set.verify("ES256", Some("k1"), b"message", &signature[..63]));
        let other = *ed.sign(b"message").as_bytes();
        assert!(set.verify("EdDSA", Some("k2"), b"message", &other));
        assert!(!set.verify("ES256", Some("k2"), b"message", &other));
    }

    #[test]
    fn the_vector_of_rfc_7515_verifies() {
        // Appendix A.3: ES256.
        let jwk = json!({"keys": [{"kty": "EC", "crv": "P-256",
            "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]});
        let set = KeySet::parse(jwk.to_string().as_bytes()).unwrap();
        let payload = b"{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n \"http://example.com/is_root\":true}";
        let message = signing_input("eyJhbGciOiJFUzI1NiJ9", payload);
        let signature = "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
        assert!(set.verify("ES256", None, &message, &any_base64(signature).unwrap()));
    }

    #[test]
    fn headers_with_extensions_are_refused() {
        let encode = |value: serde_json::Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
        assert!(Header::parse(&encode(json!({"alg": "ES256", "kid": "a"}))).is_some());
        assert!(Header::parse(&encode(json!({"alg": "ES256", "crit": ["b64"], "b64": false}))).is_none());
        assert!(Header::parse("%%%").is_none());
    }
}
