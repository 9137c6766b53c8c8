//! A signed JSON body: `{…, "kid", "signature"}`, where
//! `signature = base64url(Ed25519(key, JCS(everything but signature)))` (trust-signals protocol, ADR-015).

use credence_protocol::{Canonical, KeyId, PublicKey, SecretKey, Signature, strict};
use data_encoding::HEXLOWER;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::Error;

/// A signed body, canonical.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    canonical: Canonical,
    hash: String,
}

impl Document {
    /// Signs `body`, adding `kid` and `signature`.
    pub fn sign(mut body: Map<String, Value>, key: &SecretKey) -> Result<Self, Error> {
        body.remove("signature");
        body.insert("kid".into(), Value::String(key.public().id().to_string()));
        let signed = Canonical::of(&body)?;
        body.insert("signature".into(), Value::String(key.sign(signed.as_bytes()).to_string()));
        let canonical = Canonical::of(&body)?;
        Ok(Self { hash: hash_of(&signed), canonical })
    }

    /// The whole document.
    pub fn as_str(&self) -> &str {
        self.canonical.as_str()
    }

    /// SHA-256 of what was signed, in hex: what the ledger records of it.
    pub fn hash(&self) -> &str {
        &self.hash
    }
}

/// SHA-256 of a canonical body, in hex.
fn hash_of(signed: &Canonical) -> String {
    HEXLOWER.encode(&Sha256::digest(signed.as_bytes()))
}

/// The hash of a signed document, whoever signed it.
pub fn hash(bytes: &[u8]) -> Result<String, Error> {
    let Value::Object(mut body) = strict::value(bytes)? else {
        return Err(Error::Malformed("not a JSON object".into()));
    };
    body.remove("signature").ok_or_else(|| Error::Malformed("there is no signature".into()))?;
    Ok(hash_of(&Canonical::of(&body)?))
}

/// A document whose signature holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Verified {
    /// What was signed, and `kid`.
    pub body: Map<String, Value>,
    /// The key.
    pub kid: KeyId,
    /// SHA-256 of what was signed, in hex.
    pub hash: String,
}

/// Parses strictly and checks the signature under the one of `keys` that it names.
pub fn verify(bytes: &[u8], keys: &[PublicKey]) -> Result<Verified, Error> {
    let Value::Object(mut body) = strict::value(bytes)? else {
        return Err(Error::Malformed("not a JSON object".into()));
    };
    let missing = |name: &str| Error::Malformed(format!("there is no {name}"));
    let text = |value: Option<Value>, name: &str| match value {
        Some(Value::String(text)) => Ok(text),
        _ => Err(missing(name)),
    };
    let signature: Signature = text(body.remove("signature"), "signature")?.parse()?;
    let kid: KeyId = text(body.get("kid").cloned(), "kid")?.parse()?;
    let key = keys.iter().find(|key| key.id() == kid).ok_or(Error::UnknownKey(kid))?;
    let signed = Canonical::of(&body)?;
    key.verify(signed.as_bytes(), &signature)?;
    Ok(Verified { body, kid, hash: hash_of(&signed) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn any_change_is_noticed() {
        let key = SecretKey::from_seed(&[9; 32]);
        let Value::Object(body) = json!({"meta": {"entityId": "bot"}, "signals": []}) else { unreachable!() };
        let document = Document::sign(body, &key).unwrap();
        let verified = verify(document.as_str().as_bytes(), &[key.public()]).unwrap();
        assert_eq!((verified.hash.as_str(), verified.kid), (document.hash(), key.public().id()));
        for at in 0..document.as_str().len() {
            let mut bytes = document.as_str().as_bytes().to_vec();
            bytes[at] ^= 1;
            assert!(verify(&bytes, &[key.public()]).is_err(), "byte {at}");
        }
        let other = SecretKey::from_seed(&[8; 32]).public();
        assert!(matches!(verify(document.as_str().as_bytes(), &[other]), Err(Error::UnknownKey(_))));
    }
}
