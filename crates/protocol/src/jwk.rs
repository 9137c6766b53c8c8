//! Keys as JSON Web Keys (RFC 7517, RFC 8037): what key files hold and what `/.well-known/jwks.json` publishes.

use data_encoding::BASE64URL_NOPAD;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::{Error, KeyId, PublicKey, SecretKey, strict};

/// One Ed25519 key as a JWK. `d` is there in a private one only.
#[derive(Clone, Serialize, Deserialize)]
pub struct Jwk {
    kty: String,
    crv: String,
    x: String,
    /// The key id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kid: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    d: Option<Zeroizing<String>>,
}

/// A set of public keys.
#[derive(Clone, Serialize, Deserialize)]
pub struct Jwks {
    /// The keys.
    pub keys: Vec<Jwk>,
}

impl Jwk {
    /// The public JWK of `key`.
    pub fn public(key: &PublicKey) -> Self {
        Self {
            kty: "OKP".into(),
            crv: "Ed25519".into(),
            x: key.to_base64url(),
            kid: Some(key.id().to_string()),
            d: None,
        }
    }

    /// The private JWK of `key`, for its key file.
    pub fn private(key: &SecretKey) -> Self {
        let d = Zeroizing::new(BASE64URL_NOPAD.encode(&*key.seed()));
        Self { d: Some(d), ..Self::public(&key.public()) }
    }

    /// Reads a JWK.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        strict::typed(bytes)
    }

    /// The public key; checks that `kid`, where it looks like a key id, is this key's.
    pub fn public_key(&self) -> Result<PublicKey, Error> {
        if self.kty != "OKP" || self.crv != "Ed25519" {
            return Err(Error::Key("a JWK with kty OKP and crv Ed25519 is needed"));
        }
        let key = PublicKey::parse(&self.x)?;
        let named: Option<KeyId> = self.kid.as_deref().and_then(|kid| kid.parse().ok());
        match named {
            Some(named) if named != key.id() => Err(Error::KeyMismatch { named, given: key.id() }),
            _ => Ok(key),
        }
    }

    /// The secret key; checks that it belongs to the public half.
    pub fn secret_key(&self) -> Result<SecretKey, Error> {
        let d = self.d.as_ref().ok_or(Error::Key("this JWK holds only a public key (no 'd')"))?;
        let seed =
            BASE64URL_NOPAD.decode(d.as_bytes()).map(Zeroizing::new).map_err(|_| Error::Key("'d' is not base64url"))?;
        let seed: &[u8; 32] = seed.as_slice().try_into().map_err(|_| Error::Key("'d' is not 32 bytes"))?;
        let key = SecretKey::from_seed(seed);
        if key.public() != self.public_key()? {
            return Err(Error::Key("'d' and 'x' are not halves of one key"));
        }
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_jwk_round_trips_and_public_jwk_has_no_secret() {
        let key = SecretKey::generate().unwrap();
        let text = serde_json::to_vec(&Jwk::private(&key)).unwrap();
        assert_eq!(*Jwk::parse(&text).unwrap().secret_key().unwrap().seed(), *key.seed());
        let public = serde_json::to_string(&Jwk::public(&key.public())).unwrap();
        assert!(!public.contains("\"d\""));
        assert!(Jwk::parse(public.as_bytes()).unwrap().secret_key().is_err());
    }

    #[test]
    fn mismatched_halves_are_refused() {
        let (a, b) = (SecretKey::generate().unwrap(), SecretKey::generate().unwrap());
        let mixed = Jwk { x: b.public().to_base64url(), kid: None, ..Jwk::private(&a) };
        assert!(mixed.secret_key().is_err());
        let renamed = Jwk { kid: Some(b.public().id().to_string()), ..Jwk::public(&a.public()) };
        assert!(matches!(renamed.public_key(), Err(Error::KeyMismatch { .. })));
    }
}
