//! Who the issuer is: `did:web` of the configured domain, or `did:key` where there is none.

use credence_protocol::PublicKey;
use serde_json::{Value, json};

/// The authority's DID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer {
    did: String,
}

impl Issuer {
    /// Of a domain, with its port when it has one; of the key where there is no domain.
    pub fn new(domain: Option<&str>, key: &PublicKey) -> Self {
        let did = match domain {
            Some(domain) => format!("did:web:{}", domain.replace(':', "%3A")),
            None => key.did_key(),
        };
        Self { did }
    }

    /// The DID.
    pub fn did(&self) -> &str {
        &self.did
    }

    /// The id under which `key` proves for this issuer: its multibase form as the fragment, as did:key has it.
    pub fn verification_method(&self, key: &PublicKey) -> String {
        format!("{}#{}", self.did, multibase(key))
    }

    /// The DID document. The first of the keys is the one in force; those after it are retired: they stay, so that what they signed
    /// can be verified, and sign nothing any more.
    pub fn document(&self, keys: &[PublicKey]) -> Value {
        let method = |key: &PublicKey| json!({ "id": self.verification_method(key), "type": "Multikey", "controller": self.did, "publicKeyMultibase": multibase(key) });
        let in_force: Vec<String> = keys.iter().take(1).map(|key| self.verification_method(key)).collect();
        json!({
            "@context": ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/multikey/v1"],
            "id": self.did,
            "verificationMethod": keys.iter().map(method).collect::<Vec<_>>(),
            "assertionMethod": in_force,
            "authentication": in_force,
        })
    }
}

fn multibase(key: &PublicKey) -> String {
    let did = key.did_key();
    did.strip_prefix("did:key:").unwrap_or(&did).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use credence_protocol::SecretKey;

    #[test]
    fn a_port_is_escaped_and_keys_are_listed() {
        let key = SecretKey::from_seed(&[1; 32]).public();
        let issuer = Issuer::new(Some("example.org:8443"), &key);
        assert_eq!(issuer.did(), "did:web:example.org%3A8443");
        let retired = SecretKey::from_seed(&[2; 32]).public();
        let document = issuer.document(&[key, retired]);
        assert_eq!(document["id"], issuer.did());
        assert_eq!(document["verificationMethod"].as_array().unwrap().len(), 2);
        for relation in ["assertionMethod", "authentication"] {
            assert_eq!(document[relation], json!([issuer.verification_method(&key)]), "no retired key in {relation}");
        }
        assert_eq!(Issuer::new(None, &key).did(), key.did_key());
    }
}
