//! W3C Verifiable Credentials 2.0 with Data Integrity proofs, cryptosuite `eddsa-jcs-2022`.
//!
//! ```text
//! hashData   = SHA256(JCS(proof without proofValue)) ‖ SHA256(JCS(document without proof))
//! proofValue = "z" + base58btc(Ed25519(key, hashData))
//! ```
//!
//! The proof carries the document's `@context`, so that it cannot be moved under another.

use credence_protocol::{Canonical, PublicKey, SecretKey, Signature, Timestamp, strict};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::Error;

/// The base context, first in every credential.
pub const CONTEXT_V2: &str = "https://www.w3.org/ns/credentials/v2";
/// Gives terms without a definition of their own a place.
pub const CONTEXT_UNDEFINED_TERMS: &str = "https://www.w3.org/ns/credentials/undefined-terms/v2";
const SUITE: &str = "eddsa-jcs-2022";

/// What a credential of ours says.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The credential's id, a URL or URN.
    pub id: String,
    /// The issuer's DID.
    pub issuer: String,
    /// The type beside `VerifiableCredential`.
    pub kind: &'static str,
    /// About whom and what; has an `id`.
    pub subject: Map<String, Value>,
    /// From when.
    pub valid_from: Timestamp,
    /// Until when.
    pub valid_until: Timestamp,
    /// Where it can be seen whether it was revoked.
    pub status: Option<Value>,
}

/// Issues a credential, proved by `key` under `verification_method`.
pub fn issue(claim: Claim, key: &SecretKey, verification_method: &str) -> Result<Value, Error> {
    let Claim { id, issuer, kind, subject, valid_from, valid_until, status } = claim;
    let mut document = json!({
        "@context": [CONTEXT_V2, CONTEXT_UNDEFINED_TERMS], "id": id, "type": ["VerifiableCredential", kind],
        "issuer": issuer, "validFrom": valid_from, "validUntil": valid_until, "credentialSubject": subject,
    });
    if let Some(status) = status {
        document["credentialStatus"] = status;
    }
    add_proof(document, key, verification_method, &valid_from.to_string())
}

/// Adds a proof to any document.
pub fn add_proof(
    mut document: Value,
    key: &SecretKey,
    verification_method: &str,
    created: &str,
) -> Result<Value, Error> {
    let members = document.as_object_mut().ok_or_else(|| Error::Malformed("not a JSON object".into()))?;
    members.remove("proof");
    let mut proof = json!({
        "type": "DataIntegrityProof", "cryptosuite": SUITE, "created": created,
        "verificationMethod": verification_method, "proofPurpose": "assertionMethod",
    });
    if let Some(context) = members.get("@context") {
        proof["@context"] = context.clone();
    }
    let signature = key.sign(&hash_data(&proof, &document)?);
    proof["proofValue"] = Value::String(format!("z{}", bs58::encode(signature.as_bytes()).into_string()));
    document["proof"] = proof;
    Ok(document)
}

fn hash_data(proof: &Value, document: &Value) -> Result<Vec<u8>, Error> {
    let mut data = Sha256::digest(Canonical::of(proof)?.as_bytes()).to_vec();
    data.extend_from_slice(&Sha256::digest(Canonical::of(document)?.as_bytes()));
    Ok(data)
}

/// A credential whose proof holds. Whether it is still valid at some time, or revoked, is another question.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The credential without its proof.
    pub document: Value,
    /// The method that proved it.
    pub verification_method: String,
}

impl Checked {
    /// Whether `at` lies within its validity; a bound that is not there does not bind.
    pub fn is_valid_at(&self, at: Timestamp) -> Result<bool, Error> {
        let bound = |name: &str| -> Result<Option<Timestamp>, Error> {
            let text = self.document.get(name).and_then(Value::as_str);
            Ok(text.map(str::parse).transpose()?)
        };
        Ok(bound("validFrom")?.is_none_or(|from| from <= at) && bound("validUntil")?.is_none_or(|until| at <= until))
    }
}

/// Whether a document looks like a credential.
pub fn recognises(value: &Value) -> bool {
    value.get("proof").is_some() && value.get("@context").is_some()
}

/// Checks a credential's proof under the one of `keys` that its verification method names (by its multibase fragment), or
/// under the only one given.
pub fn verify(bytes: &[u8], keys: &[PublicKey]) -> Result<Checked, Error> {
    let mut document = strict::value(bytes)?;
    let members = document.as_object_mut().ok_or_else(|| Error::Malformed("not a JSON object".into()))?;
    let wrong = |why: &str| Error::Malformed(why.to_owned());
    let Some(Value::Object(mut proof)) = members.remove("proof") else {
        return Err(wrong("there is no proof, or several"));
    };
    let text = |proof: &Map<String, Value>, name: &str| {
        proof
            .get(name)
            .and_then(Value::as_str)
            .map(str::to_owned)
            .ok_or_else(|| Error::Malformed(format!("the proof has no {name}")))
    };
    if text(&proof, "type")? != "DataIntegrityProof" || text(&proof, "cryptosuite")? != SUITE {
        return Err(wrong("the proof is not of cryptosuite eddsa-jcs-2022"));
    }
    if text(&proof, "proofPurpose")? != "assertionMethod" {
        return Err(wrong("the proof's purpose is not assertionMethod"));
    }
    if let Some(created) = proof.get("created") {
        created.as_str().unwrap_or_default().parse::<Timestamp>()?;
    }
    if let Some(context) = proof.get("@context").cloned() {
        // The suite lets contexts be appended after signing. Nobody signed those, so they are not taken.
        if members.get("@context") != Some(&context) {
            return Err(wrong("the document's @context is not the one that was proved"));
        }
    }
    let value = text(&proof, "proofValue")?;
    proof.remove("proofValue");
    let bytes = value.strip_prefix('z').and_then(|text| bs58::decode(text).into_vec().ok());
    let bytes: [u8; 64] = bytes
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| wrong("proofValue is not a base58btc signature"))?;
    let method = text(&proof, "verificationMethod")?;
    let fragment = method.rsplit_once('#').map_or(method.as_str(), |(_, fragment)| fragment);
    let is = |key: &PublicKey| key.did_key() == format!("did:key:{fragment}") || key.id().to_string() == fragment;
    let named = keys.iter().find(|key| is(key));
    let key = match (named, keys) {
        (Some(key), _) => key,
        (None, [only]) => only,
        _ => return Err(Error::Malformed(format!("none of the keys given is {method}"))),
    };
    key.verify(&hash_data(&Value::Object(proof), &document)?, &Signature::from_bytes(bytes))?;
    Ok(Checked { document, verification_method: method })
}

#[cfg(test)]
mod tests {
    use super::*;
    use data_encoding::HEXLOWER;

    const MULTIKEY: &str = "z6MkrJVnaZkeFzdQyMZu1cgjg7k1pZZ6pvBQ7XJPt4swbTQ2";

    /// The W3C's vector (vc-di-eddsa, TestVectors/eddsa-jcs-2022), byte for byte.
    #[test]
    fn the_w3c_vector() {
        let seed = HEXLOWER.decode(b"c96ef9ea10c5e414c471723aff9de72c35fa5b70fae97e8832ecac7d2e2b8ed6").unwrap();
        let key = SecretKey::from_seed(&seed.try_into().unwrap());
        assert_eq!(key.public().did_key(), format!("did:key:{MULTIKEY}"));
        let document = json!({
            "@context": ["https://www.w3.org/ns/credentials/v2", "https://www.w3.org/ns/credentials/examples/v2"],
            "id": "urn:uuid:58172aac-d8ba-11ed-83dd-0b3aef56cc33", "type": ["VerifiableCredential", "AlumniCredential"],
            "name": "Alumni Credential", "description": "A minimum viable example of an Alumni Credential.",
            "issuer": "https://vc.example/issuers/5678", "validFrom": "2023-01-01T00:00:00Z",
            "credentialSubject": {"id": "did:example:abcdefgh", "alumniOf": "The School of Examples"},
        });
        let method = format!("did:key:{MULTIKEY}#{MULTIKEY}");
        let signed = add_proof(document, &key, &method, "2023-02-24T23:36:38Z").unwrap();
        let expected = "z2HnFSSPPBzR36zdDgK8PbEHeXbR56YF24jwMpt3R1eHXQzJDMWS93FCzpvJpwTWd3GAVFuUfjoJdcnTMuVor51aX";
        assert_eq!(signed["proof"]["proofValue"], expected);
        let checked = verify(signed.to_string().as_bytes(), &[key.public()]).unwrap();
        assert_eq!(checked.verification_method, method);
        assert!(checked.is_valid_at("2026-01-01T00:00:00Z".parse().unwrap()).unwrap());
        assert!(!checked.is_valid_at("2022-01-01T00:00:00Z".parse().unwrap()).unwrap());
    }

    fn ours() -> (SecretKey, Value) {
        let key = SecretKey::from_seed(&[5; 32]);
        let did = key.public().did_key();
        let claim = Claim {
            id: "urn:uuid:58172aac-d8ba-11ed-83dd-0b3aef56cc33".into(),
            issuer: did.clone(),
            kind: "AgentTrustCredential",
            subject: json!({"id": "urn:credence:agent:bot", "score": 66}).as_object().unwrap().clone(),
            valid_from: "2026-11-16T00:00:00Z".parse().unwrap(),
            valid_until: "2026-12-16T00:00:00Z".parse().unwrap(),
            status: None,
        };
        let method = format!("{did}#{}", did.trim_start_matches("did:key:"));
        let credential = issue(claim, &key, &method).unwrap();
        (key, credential)
    }

    #[test]
    fn any_change_is_noticed() {
        let (key, credential) = ours();
        let text = credential.to_string();
        verify(text.as_bytes(), &[key.public()]).unwrap();
        for at in 0..text.len() {
            let mut bytes = text.as_bytes().to_vec();
            bytes[at] ^= 1;
            assert!(verify(&bytes, &[key.public()]).is_err(), "byte {at}: {}", &text[at.saturating_sub(9)..=at]);
        }
    }

    #[test]
    fn a_proof_cannot_be_moved_under_another_context() {
        let (key, mut credential) = ours();
        credential["@context"] = json!(["https://evil.example/v2"]);
        let error = verify(credential.to_string().as_bytes(), &[key.public()]).unwrap_err().to_string();
        assert!(error.contains("@context"), "{error}");
    }
}
