//! The trust-signals response (seed 3): `{ meta, signals[], assessment?, kid, signature }`.
//!
//! `signals` are facts, each `{type, verifiedAt, data}` of at most 4 KiB; the score and its tier are interpretation and
//! travel in `assessment.extensions`.

use credence_engine::assessment::{Assessment, MAX_BYTES, Standing};
use credence_protocol::{EntityId, PublicKey, SecretKey, Timestamp, Uuid};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    Error,
    document::{self, Document},
};

/// Bytes of one signal.
pub const MAX_SIGNAL_BYTES: usize = 4096;

/// What the response is about.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    /// A UUID v4.
    pub response_id: Uuid,
    /// About whom.
    pub entity_id: EntityId,
    /// Its standing.
    pub status: Standing,
    /// The page the agent is on.
    pub url: String,
    /// The agent's purpose, when it said one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// When it was made.
    pub timestamp: Timestamp,
    /// Until when it can be relied on.
    pub expires: Timestamp,
}

/// A verified fact.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fact {
    #[serde(rename = "type")]
    kind: &'static str,
    verified_at: Timestamp,
    data: Map<String, Value>,
}

impl Fact {
    /// A fact of `kind`; refused when empty or over the cap.
    pub fn new(kind: &'static str, verified_at: Timestamp, data: Map<String, Value>) -> Result<Self, Error> {
        if data.is_empty() {
            return Err(Error::Malformed(format!("a signal of type {kind} without data")));
        }
        let fact = Self { kind, verified_at, data };
        let bytes = serde_json::to_vec(&fact).map_err(|e| Error::Malformed(e.to_string()))?.len();
        if bytes > MAX_SIGNAL_BYTES {
            return Err(Error::TooLarge { what: format!("signal {kind}"), bytes, limit: MAX_SIGNAL_BYTES });
        }
        Ok(fact)
    }

    /// Its type.
    pub fn kind(&self) -> &'static str {
        self.kind
    }
}

/// Makes and signs a response.
pub fn sign(meta: &Meta, facts: &[Fact], assessment: Option<&Assessment>, key: &SecretKey) -> Result<Document, Error> {
    let value = |part: serde_json::Result<Value>| part.map_err(|e| Error::Malformed(e.to_string()));
    let mut body = Map::new();
    body.insert("meta".into(), value(serde_json::to_value(meta))?);
    body.insert("signals".into(), value(serde_json::to_value(facts))?);
    if let Some(assessment) = assessment {
        let assessment = value(serde_json::to_value(assessment))?;
        let bytes = assessment.to_string().len();
        if bytes > MAX_BYTES {
            return Err(Error::TooLarge { what: "assessment".into(), bytes, limit: MAX_BYTES });
        }
        body.insert("assessment".into(), assessment);
    }
    Document::sign(body, key)
}

/// What a verified response says.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// About whom.
    pub entity: String,
    /// The page it was asked for.
    pub url: String,
    /// The purpose it was asked for, if one was named.
    pub context: Option<String>,
    /// Its standing.
    pub status: String,
    /// The recommendation, if there is one.
    pub action: Option<String>,
    /// Until when it can be relied on.
    pub expires: Timestamp,
    /// SHA-256 of what was signed.
    pub hash: String,
}

/// Whether a document looks like a response.
pub fn recognises(value: &Value) -> bool {
    value.get("meta").is_some_and(Value::is_object) && value.get("signals").is_some_and(Value::is_array)
}

/// Checks a response's form and signature.
pub fn verify(bytes: &[u8], keys: &[PublicKey]) -> Result<Checked, Error> {
    let verified = document::verify(bytes, keys)?;
    let meta = &verified.body.get("meta").cloned().unwrap_or_default();
    let text = |name: &str| {
        let value = meta.get(name).and_then(Value::as_str);
        value.map(str::to_owned).ok_or_else(|| Error::Malformed(format!("meta has no {name}")))
    };
    let action = verified.body.get("assessment").and_then(|assessment| assessment.get("action")?.as_str());
    Ok(Checked {
        entity: text("entityId")?,
        url: text("url")?,
        context: meta.get("context").and_then(Value::as_str).map(str::to_owned),
        status: text("status")?,
        action: action.map(str::to_owned),
        expires: text("expires")?.parse()?,
        hash: verified.hash,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn meta() -> Meta {
        Meta {
            response_id: Uuid::new_v4(),
            entity_id: EntityId::new("weather-bot").unwrap(),
            status: Standing::Verified,
            url: "https://weather.example/".into(),
            context: Some("purchase".into()),
            timestamp: "2026-11-16T00:00:00Z".parse().unwrap(),
            expires: "2026-11-16T01:00:00Z".parse().unwrap(),
        }
    }

    fn data(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn signed_and_checked() {
        let key = SecretKey::from_seed(&[4; 32]);
        let at = meta().timestamp;
        let facts = [Fact::new("reputation", at, data(json!({"sourceCount": 3}))).unwrap()];
        let document = sign(&meta(), &facts, None, &key).unwrap();
        let checked = verify(document.as_str().as_bytes(), &[key.public()]).unwrap();
        assert_eq!(
            (checked.entity.as_str(), checked.status.as_str(), checked.action),
            ("weather-bot", "verified", None)
        );
        let value: Value = serde_json::from_str(document.as_str()).unwrap();
        assert!(recognises(&value));
        assert_eq!(value["signals"][0]["verifiedAt"], "2026-11-16T00:00:00.000000Z");
        assert_eq!(value["signature"].as_str().unwrap().len(), 86);
    }

    #[test]
    fn empty_and_oversized_facts_are_refused() {
        let at = meta().timestamp;
        assert!(Fact::new("identity", at, Map::new()).is_err());
        let long = data(json!({"legalName": "x".repeat(5000)}));
        assert!(matches!(Fact::new("identity", at, long), Err(Error::TooLarge { .. })));
    }
}
