//! The score document of an attestation: what the hash that is written to a chain stands for (DESIGN, *Chains*).
//!
//! `{ "type": "credence-attestation/1", attestation, agent, chain, subject, origin, formula, parameters, event, evaluated_at, assured,
//! proof, kid, signature }`
//!
//! `assured` are the numbers of the score event at entry `event`, `proof` shows that this entry is in the log `origin` (C2SP
//! tlog-proof, with the entry and a signed checkpoint in it). Anyone who has the log's key, the authority's key and the document needs
//! nothing else. Its canonical bytes are served, and the chain holds their Keccak-256.

use credence_protocol::{Audience, EntityId, ExternalSubject, PublicKey, SecretKey, Timestamp, Uuid};
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha3::{Digest, Keccak256};

use crate::{
    Error,
    document::{self, Document},
};

/// The form of document.
pub const TYPE: &str = "credence-attestation/1";

/// Bytes of a whole document.
pub const MAX_BYTES: usize = 16 * 1024;

/// What is signed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScoreClaim {
    /// Which attestation.
    pub attestation: Uuid,
    /// About whom.
    pub agent: EntityId,
    /// The chain that it is written to, as a CAIP-2 id.
    pub chain: String,
    /// The agent's registration there.
    pub subject: ExternalSubject,
    /// The log that holds the score event.
    pub origin: Audience,
    /// The formula of the score.
    pub formula: String,
    /// The digest of its parameters.
    pub parameters: String,
    /// The entry of the score event.
    pub event: u64,
    /// The hour for which ages were taken.
    pub evaluated_at: Timestamp,
    /// The numbers.
    pub assured: Value,
    /// That the event is in the log: a C2SP tlog-proof, with the entry.
    pub proof: String,
}

impl ScoreClaim {
    /// The score, 0 to 100.
    pub fn score(&self) -> Option<u8> {
        self.assured.get("score").and_then(Value::as_u64).and_then(|score| u8::try_from(score).ok())
    }
}

/// Makes and signs a document.
pub fn sign(claim: &ScoreClaim, key: &SecretKey) -> Result<Document, Error> {
    let Value::Object(mut body) = serde_json::to_value(claim).map_err(malformed)? else {
        return Err(Error::Malformed("not a JSON object".into()));
    };
    body.insert("type".into(), TYPE.into());
    let document = Document::sign(body, key)?;
    let bytes = document.as_str().len();
    if bytes > MAX_BYTES {
        return Err(Error::TooLarge { what: "score document".into(), bytes, limit: MAX_BYTES });
    }
    Ok(document)
}

/// Whether a document looks like one.
pub fn recognises(value: &Value) -> bool {
    value.get("type").and_then(Value::as_str).is_some_and(|kind| kind.starts_with("credence-attestation/"))
}

/// Checks a document's form and signature.
pub fn verify(bytes: &[u8], keys: &[PublicKey]) -> Result<ScoreClaim, Error> {
    let mut body = document::verify(bytes, keys)?.body;
    body.remove("kid");
    let kind = body.remove("type").and_then(|kind| kind.as_str().map(str::to_owned)).unwrap_or_default();
    if kind != TYPE {
        return Err(Error::Malformed(format!("it is of type {kind:.40}, this program knows {TYPE}")));
    }
    let claim: ScoreClaim = serde_json::from_value(Value::Object(body)).map_err(malformed)?;
    if claim.score().is_none_or(|score| score > 100) {
        return Err(Error::Malformed("the document has no score of 0 to 100".into()));
    }
    Ok(claim)
}

/// Keccak-256 in lower-case hex: what a chain holds of a document.
pub fn keccak(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Keccak256::digest(bytes))
}

fn malformed(error: serde_json::Error) -> Error {
    Error::Malformed(format!("it is no score document: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claim() -> ScoreClaim {
        let registry = "0x8004a169fb4a3325136eb29fa0ceb6d2e539a432";
        ScoreClaim {
            attestation: Uuid::from_u128(7),
            agent: EntityId::new("bot").unwrap(),
            chain: "eip155:8453".into(),
            subject: ExternalSubject::parse(&format!("erc8004:eip155:8453:{registry}/22")).unwrap(),
            origin: Audience::new("example.org/log").unwrap(),
            formula: "uts/2".into(),
            parameters: "sha256:00".into(),
            event: 12,
            evaluated_at: "2026-11-15T12:00:00Z".parse().unwrap(),
            assured: json!({ "score": 71, "low": 70.52 }),
            proof: "proof".into(),
        }
    }

    #[test]
    fn a_document_reads_back_and_any_change_is_noticed() {
        let key = SecretKey::from_seed(&[4; 32]);
        let document = sign(&claim(), &key).unwrap();
        let value: Value = serde_json::from_str(document.as_str()).unwrap();
        assert!(recognises(&value));
        assert_eq!(verify(document.as_str().as_bytes(), &[key.public()]).unwrap(), claim());
        let changed = document.as_str().replace("\"score\":71", "\"score\":99");
        assert!(verify(changed.as_bytes(), &[key.public()]).is_err());
        let other = SecretKey::from_seed(&[5; 32]).public();
        assert!(matches!(verify(document.as_str().as_bytes(), &[other]), Err(Error::UnknownKey(_))));
    }

    #[test]
    fn documents_without_a_score_or_of_another_form_are_refused() {
        let key = SecretKey::from_seed(&[4; 32]);
        let verified = |claim: &ScoreClaim| verify(sign(claim, &key).unwrap().as_str().as_bytes(), &[key.public()]);
        for assured in [json!({}), json!({ "score": 101 }), json!({ "score": 71.5 }), json!({ "score": -1 })] {
            assert!(verified(&ScoreClaim { assured, ..claim() }).is_err());
        }
        let long = ScoreClaim { proof: "x".repeat(MAX_BYTES), ..claim() };
        assert!(matches!(sign(&long, &key), Err(Error::TooLarge { .. })));
        let Value::Object(body) = json!({ "type": "credence-report/1" }) else { unreachable!() };
        let report = Document::sign(body, &key).unwrap();
        assert!(verify(report.as_str().as_bytes(), &[key.public()]).unwrap_err().to_string().contains("type"));
    }

    /// The vectors of the empty text and of "abc" in the Keccak reference.
    #[test]
    fn keccak_is_that_of_ethereum() {
        assert_eq!(keccak(b""), "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470");
        assert_eq!(keccak(b"abc"), "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45");
    }
}
