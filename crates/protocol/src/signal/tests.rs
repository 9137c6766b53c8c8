use super::*;
use serde_json::{Value, json};

fn key() -> SecretKey {
    SecretKey::from_seed(&[7; 32])
}

fn fields() -> Value {
    json!({
        "id": "01932c07-8f4b-7cc3-8a5e-0242ac120002", "agent": "weather-bot", "source": "uptime-lab",
        "tags": ["rel_uptime"], "value": 99.2, "stddev": 0.5, "observed_at": "2026-11-15T12:00:00+01:00",
        "evidence": {"samples": 10, "url": "https://example.com"},
    })
}

fn draft_with(field: &str, value: Value) -> Result<SignalDraft, Error> {
    let mut fields = fields();
    fields[field] = value;
    SignalDraft::parse(fields.to_string().as_bytes())
}

#[test]
fn a_signed_signal_survives_any_respelling_of_its_json() {
    let signal = SignalDraft::parse(fields().to_string().as_bytes()).unwrap().sign(&key()).unwrap();
    let value: Value = serde_json::from_str(signal.canonical().as_str()).unwrap();
    let pretty = serde_json::to_vec_pretty(&value).unwrap();
    let received = Signal::parse(&pretty).unwrap();
    received.verify(&key().public()).unwrap();
    assert_eq!(received, signal);
    // The author's own spelling of the time is what was signed.
    assert_eq!(value["observed_at"], "2026-11-15T12:00:00+01:00");
}

#[test]
fn changing_any_character_of_a_signal_is_noticed() {
    let signal = SignalDraft::parse(fields().to_string().as_bytes()).unwrap().sign(&key()).unwrap();
    let text = signal.canonical().as_bytes();
    for at in 0..text.len() {
        let mut changed = text.to_vec();
        changed[at] = if changed[at] == b'1' { b'2' } else { b'1' };
        let outcome = Signal::parse(&changed).and_then(|s| s.verify(&key().public()));
        assert!(outcome.is_err(), "byte {at}: {}", String::from_utf8_lossy(&changed));
    }
}

#[test]
fn out_of_range_and_misshapen_fields_are_named() {
    for (field, value, expected) in [
        ("value", json!(100.1), "value 100.1"),
        ("value", json!(-1), "value -1"),
        ("value", json!("99"), "invalid type"),
        ("stddev", json!(51), "stddev 51"),
        ("tags", json!([]), "at least one"),
        ("tags", json!(["rel_uptime", "rel_uptime"]), "twice"),
        ("tags", json!(["No Tag"]), "not a well-formed tag"),
        ("agent", json!(".."), "not an entity id"),
        ("agent", json!("a/b"), "not an entity id"),
        ("id", json!("01932C07-8F4B-7CC3-8A5E-0242AC120002"), "UUIDv7"),
        ("id", json!("b0d3cf1e-6c4f-4d49-9d7e-111111111111"), "UUIDv7"),
        ("supersedes", Value::Null, "invalid type: null"),
        ("supersedes", json!("x"), "supersedes"),
        ("observed_at", json!("yesterday"), "RFC 3339"),
        ("evidence", json!([1]), "object"),
        ("colour", json!("red"), "unknown field `colour`"),
        ("evidence", json!({"x": "y".repeat(5000)}), "limit is 4096"),
    ] {
        let error = draft_with(field, value.clone()).and_then(|d| d.sign(&key())).unwrap_err().to_string();
        assert!(error.contains(expected), "{field} = {value}: {error}");
    }
    assert!(Signal::parse(fields().to_string().as_bytes()).unwrap_err().to_string().contains("key_id"));
}

#[test]
fn nan_is_not_json_and_not_a_value() {
    assert!(matches!(SignalDraft::parse(br#"{"value":NaN}"#), Err(Error::Malformed(_))));
    let mut draft = SignalDraft::parse(fields().to_string().as_bytes()).unwrap();
    draft.value = f64::NAN;
    assert!(matches!(draft.sign(&key()), Err(Error::Value(_))));
}

#[test]
fn duplicate_fields_are_refused_at_every_depth() {
    let text = fields().to_string();
    let top = text.replacen("\"value\":", "\"value\":1,\"value\":", 1);
    assert!(SignalDraft::parse(top.as_bytes()).unwrap_err().to_string().contains("duplicate field `value`"));
    let nested = text.replacen("\"samples\":", "\"samples\":1,\"samples\":", 1);
    assert!(SignalDraft::parse(nested.as_bytes()).unwrap_err().to_string().contains("duplicate key \"samples\""));
}

#[test]
fn batches_verify_and_name_the_bad_one() {
    let (a, b) = (key(), SecretKey::from_seed(&[8; 32]));
    let sign = |value: f64, key: &SecretKey| {
        let mut draft = SignalDraft::parse(fields().to_string().as_bytes()).unwrap();
        draft.value = value;
        draft.sign(key).unwrap()
    };
    let (x, y) = (sign(1.0, &a), sign(2.0, &b));
    verify_batch(&[(&x, &a.public()), (&y, &b.public())]).unwrap();
    let forged = y.canonical().as_str().replacen("\"value\":2", "\"value\":3", 1);
    let forged = Signal::parse(forged.as_bytes()).unwrap();
    assert_eq!(verify_batch(&[(&x, &a.public()), (&forged, &b.public())]), Err(Error::BadSignature(b.public().id())));
    assert!(matches!(verify_batch(&[(&x, &b.public())]), Err(Error::KeyMismatch { .. })));
}

#[test]
fn new_drafts_carry_the_time_in_their_id() {
    let at: Timestamp = "2026-11-15T12:00:00.123456Z".parse().unwrap();
    let id = |s: &str| EntityId::new(s).unwrap();
    let draft = SignalDraft::new(id("a"), id("s"), vec![Tag::new("rel_uptime").unwrap()], 1.0, 0.0, at);
    assert_eq!(draft.id.get_timestamp().unwrap().to_unix().0, 1_794_744_000);
    draft.sign(&key()).unwrap();
}

#[test]
fn the_signed_bytes_are_the_canonical_form_without_the_signature() {
    let evidences = [json!({}), json!({"signature": "x", "nested": {"signature": "\"signature\":\"AAAA\","}})];
    for evidence in evidences {
        for supersedes in [None, Some("01932c07-8f4b-7cc3-8a5e-0242ac120003")] {
            let mut all = fields();
            all["evidence"] = evidence.clone();
            if let Some(id) = supersedes {
                all["supersedes"] = json!(id);
            }
            let signal = SignalDraft::parse(all.to_string().as_bytes()).unwrap().sign(&key()).unwrap();
            let signed = Canonical::of(&Signed { draft: signal.draft(), key_id: signal.key_id() }).unwrap();
            assert_eq!(signal.signed_bytes(), signed.as_bytes());
        }
    }
}
