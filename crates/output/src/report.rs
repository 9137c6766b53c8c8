//! A published report on an agent: its contents as they were reviewed, who drafted and who approved it, and the checkpoint of the
//! log that it was made from (seed 4, R08; DESIGN, *Reports*).
//!
//! `{ "type": "credence-report/1", report, agent, contents, digest, drafted_by, approved_by, approval, checkpoint, kid, signature }`
//!
//! `digest = hex(SHA-256(JCS(contents)))` is what the log's entries call it by: `approval` is the entry in which a person approved
//! just these contents.

use credence_protocol::{Canonical, EntityId, PublicKey, SecretKey, Uuid};
use data_encoding::HEXLOWER;
use serde::Serialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::{
    Error,
    document::{self, Document},
};

/// The form of document.
pub const TYPE: &str = "credence-report/1";

/// Bytes of a whole report.
pub const MAX_BYTES: usize = 900 * 1024;

/// What is signed.
#[derive(Debug, Clone, Serialize)]
pub struct Claim<'a> {
    /// Which report.
    pub report: Uuid,
    /// About whom.
    pub agent: &'a EntityId,
    /// The contents.
    pub contents: &'a Value,
    /// Who drafted it.
    pub drafted_by: &'a EntityId,
    /// Who approved it.
    pub approved_by: &'a EntityId,
    /// The entry of the approval.
    pub approval: u64,
    /// The signed checkpoint of the log that it was made from.
    pub checkpoint: &'a str,
}

/// SHA-256 of contents in canonical JSON, in hex.
pub fn digest(contents: &Value) -> Result<String, Error> {
    Ok(HEXLOWER.encode(&Sha256::digest(Canonical::of(contents)?.as_bytes())))
}

/// Makes and signs a report.
pub fn sign(claim: &Claim<'_>, key: &SecretKey) -> Result<Document, Error> {
    let malformed = |e: serde_json::Error| Error::Malformed(e.to_string());
    let Value::Object(mut body) = serde_json::to_value(claim).map_err(malformed)? else {
        return Err(Error::Malformed("not a JSON object".into()));
    };
    body.insert("type".into(), TYPE.into());
    body.insert("digest".into(), digest(claim.contents)?.into());
    let document = Document::sign(body, key)?;
    let bytes = document.as_str().len();
    if bytes > MAX_BYTES {
        return Err(Error::TooLarge { what: "report".into(), bytes, limit: MAX_BYTES });
    }
    Ok(document)
}

/// What a verified report says of itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// Which report.
    pub report: Uuid,
    /// About whom.
    pub agent: String,
    /// Who drafted it.
    pub drafted_by: String,
    /// Who approved it.
    pub approved_by: String,
    /// The entry of the approval.
    pub approval: u64,
    /// The digest of its contents, by which the log's entries call it.
    pub digest: String,
    /// The signed checkpoint that it was made from.
    pub checkpoint: String,
    /// SHA-256 of what was signed.
    pub hash: String,
}

/// Whether a document looks like a report.
pub fn recognises(value: &Value) -> bool {
    value.get("type").and_then(Value::as_str).is_some_and(|kind| kind.starts_with("credence-report/"))
}

/// Checks a report's form, digest and signature.
pub fn verify(bytes: &[u8], keys: &[PublicKey]) -> Result<Checked, Error> {
    let verified = document::verify(bytes, keys)?;
    let body: &Map<String, Value> = &verified.body;
    let missing = |name: &str| Error::Malformed(format!("the report has no {name}"));
    let text = |name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned).ok_or_else(|| missing(name));
    let kind = text("type")?;
    if kind != TYPE {
        return Err(Error::Malformed(format!("it is of type {kind:.40}, this program knows {TYPE}")));
    }
    let contents = body.get("contents").ok_or_else(|| missing("contents"))?;
    let checked = Checked {
        report: text("report")?.parse().map_err(|_| missing("report"))?,
        agent: text("agent")?,
        drafted_by: text("drafted_by")?,
        approved_by: text("approved_by")?,
        approval: body.get("approval").and_then(Value::as_u64).ok_or_else(|| missing("approval"))?,
        digest: text("digest")?,
        checkpoint: text("checkpoint")?,
        hash: verified.hash,
    };
    if digest(contents)? != checked.digest {
        return Err(Error::Malformed("the contents are not those that its digest names".into()));
    }
    if checked.drafted_by == checked.approved_by {
        return Err(Error::Malformed(format!("'{}' drafted and approved it", checked.drafted_by)));
    }
    Ok(checked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn signed(contents: &Value, approved_by: &str) -> Result<Document, Error> {
        let (agent, drafted_by) = (EntityId::new("bot").unwrap(), EntityId::new("writer").unwrap());
        let claim = Claim {
            report: Uuid::from_u128(7),
            agent: &agent,
            contents,
            drafted_by: &drafted_by,
            approved_by: &EntityId::new(approved_by).unwrap(),
            approval: 12,
            checkpoint: "note",
        };
        sign(&claim, &SecretKey::from_seed(&[4; 32]))
    }

    #[test]
    fn a_report_is_what_was_approved() {
        let keys = [SecretKey::from_seed(&[4; 32]).public()];
        let contents = json!({ "score": 71 });
        let document = signed(&contents, "rita").unwrap();
        let value: Value = serde_json::from_str(document.as_str()).unwrap();
        assert!(recognises(&value));
        let checked = verify(document.as_str().as_bytes(), &keys).unwrap();
        assert_eq!((checked.agent.as_str(), checked.approval), ("bot", 12));
        assert_eq!((checked.digest, checked.hash.as_str()), (digest(&contents).unwrap(), document.hash()));
        let changed = document.as_str().replace("\"score\":71", "\"score\":99");
        assert!(verify(changed.as_bytes(), &keys).is_err());
    }

    #[test]
    fn contents_that_its_digest_does_not_name_and_own_approvals_are_refused() {
        let key = SecretKey::from_seed(&[4; 32]);
        let own = signed(&json!({}), "writer").unwrap();
        assert!(
            verify(own.as_str().as_bytes(), &[key.public()]).unwrap_err().to_string().contains("drafted and approved")
        );
        let document = signed(&json!({ "score": 71 }), "rita").unwrap();
        let Value::Object(mut body) = serde_json::from_str(document.as_str()).unwrap() else { unreachable!() };
        body.insert("contents".into(), json!({ "score": 99 }));
        let resigned = Document::sign(body, &key).unwrap();
        let error = verify(resigned.as_str().as_bytes(), &[key.public()]).unwrap_err();
        assert!(error.to_string().contains("digest"), "{error}");
        let long = json!({ "text": "x".repeat(MAX_BYTES) });
        assert!(matches!(signed(&long, "rita"), Err(Error::TooLarge { .. })));
    }
}
