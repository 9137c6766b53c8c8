//! The JSON Schemas of statements, compiled once.

use std::sync::LazyLock;

use credence_protocol::StatementKind;
use jsonschema::Validator;
use serde_json::Value;

use crate::Rejection;

/// The validator of each kind; `None` for a schema that does not compile, which a test rules out.
static VALIDATORS: LazyLock<[(StatementKind, Option<Validator>); 7]> = LazyLock::new(|| {
    use StatementKind::{Challenge, Contract, Identity, Resolution, Review, Summary, Verification};
    [Identity, Contract, Verification, Challenge, Resolution, Review, Summary]
        .map(|kind| (kind, compile(kind.schema())))
});

fn compile(schema: &str) -> Option<Validator> {
    let schema: Value = serde_json::from_str(schema).ok()?;
    jsonschema::options().should_validate_formats(true).build(&schema).ok()
}

/// Checks a record of `kind`; the first violation is named with its place.
pub fn validate(kind: StatementKind, record: &Value) -> Result<(), Rejection> {
    let unusable = || Rejection::Schema { kind, path: "/".into(), why: "its schema does not compile".into() };
    let validator = VALIDATORS.iter().find(|(of, _)| *of == kind).and_then(|(_, validator)| validator.as_ref());
    let error = match validator.ok_or_else(unusable)?.iter_errors(record).next() {
        None => return Ok(()),
        Some(error) => error,
    };
    let place = error.instance_path().to_string();
    let path = if place.is_empty() { "/".to_owned() } else { place };
    Err(Rejection::Schema { kind, path, why: error.to_string().chars().take(300).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_schema_compiles() {
        assert!(VALIDATORS.iter().all(|(_, validator)| validator.is_some()));
        assert!(credence_protocol::schemas::ALL.iter().all(|(_, schema)| compile(schema).is_some()));
    }

    #[test]
    fn violations_are_named_with_their_place() {
        let bad = json!({"signal_id": "c", "origin_agent": "a", "confidence_metrics": {"probability": 2}, "risk_band": "low"});
        let error = validate(StatementKind::Contract, &bad).unwrap_err().to_string();
        assert!(error.contains("at /confidence_metrics/probability"), "{error}");
        let missing = validate(StatementKind::Review, &json!({})).unwrap_err().to_string();
        assert!(missing.contains("at /") && missing.contains("review_id"), "{missing}");
        let reason = json!({"resolution_id": "r", "challenge_id": "c", "outcome": "inconclusive", "timestamp": "2026-11-15T12:00:00Z"});
        assert!(validate(StatementKind::Resolution, &reason).unwrap_err().to_string().contains("reason"));
        let pending = json!({"verification_id": "v", "related_object_type": "signal", "related_object_id": "c", "context_hash": "h",
            "verification_hash": "h", "timestamp": "2026-11-15T12:00:00Z", "status": "pending", "outcome": 1});
        assert!(validate(StatementKind::Verification, &pending).unwrap_err().to_string().contains("/status"));
    }
}
