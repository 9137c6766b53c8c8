//! Receipts: a call that happened, and what may be claimed of it.

use credence_ledger::{LogKey, merkle, proof::InclusionProof};
use credence_protocol::{
    Canonical, SecretKey, Uuid,
    receipt::{Exact, Salts, Views, forms_of_result},
};
use credence_testing::Service;
use serde_json::{Value, json};

use super::{call, refused, text};

/// One receipt in a log of its own.
pub struct Proof {
    pub text: String,
    pub log_key: String,
    salts: Salts,
    call: Uuid,
}

impl Proof {
    pub fn new() -> Self {
        Self::of("receipt")
    }

    fn of(kind: &str) -> Self {
        let (salts, call) = (Salts::generate().unwrap(), Uuid::now_v7());
        let arguments = Exact::parse(r#"{"city":"Oslo"}"#).unwrap();
        let result = Exact::parse(r#"{"content":[{"type":"text","text":"{\"temperature\": 4}"}]}"#).unwrap();
        let receipt = json!({
            "arguments": salts.arguments(Some(&arguments)), "call": call, "outcome": "result", "server": "weather",
            "started_at": "2026-11-16T09:00:00Z", "tool": "get_weather", "verdict": "accept", "posterior": 0.04,
            "result": Views::commit(&salts.result, &forms_of_result(&result)),
        });
        let entry =
            json!({ "body": receipt, "kind": kind, "recorded_at": "2026-11-16T09:00:01Z", "subject": "weather" });
        let entry = Canonical::of(&entry).unwrap().as_str().as_bytes().to_vec();
        let key = LogKey::new("guard.example/log", &SecretKey::from_seed(&[7; 32])).unwrap();
        let checkpoint = key.sign(1, merkle::leaf(&entry)).unwrap();
        let text = InclusionProof { entry, seq: 0, hashes: Vec::new(), checkpoint }.to_text();
        Self { text, log_key: key.verifier().as_str().to_owned(), salts, call }
    }

    fn with(&self, more: Value) -> Value {
        let mut all = json!({ "proof": self.text, "log_key": self.log_key });
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    }

    /// Claims, and what is to be said of each.
    pub fn claims(&self) -> Vec<(Value, &'static str)> {
        let salts = json!(self.salts);
        let (city, other) = (json!({ "city": "Oslo" }), json!({ "city": "Rome" }));
        let whole = json!({ "content": [{ "type": "text", "text": "{\"temperature\": 4}" }], "isError": false });
        let true_claim =
            json!({ "tool": "mcp__weather__get_weather", "arguments": city, "result": whole, "salts": salts });
        let another_key = LogKey::new("guard.example/log", &SecretKey::from_seed(&[8; 32])).unwrap();
        vec![
            (self.with(json!({})), "proven"),
            (self.with(json!({ "result": whole })), "proven"),
            (self.with(json!({ "arguments": city, "salts": salts })), "proven"),
            (self.with(true_claim), "executed"),
            (self.with(json!({ "result": { "temperature": 4 }, "salts": salts })), "executed"),
            (self.with(json!({ "result": "{\"temperature\": 4}", "salts": salts, "receipt": self.call })), "executed"),
            (self.with(json!({ "result": { "temperature": 14 }, "salts": salts })), "altered"),
            (self.with(json!({ "arguments": other, "result": whole, "salts": salts })), "altered"),
            (self.with(json!({ "tool": "get_time" })), "altered"),
            (self.with(json!({ "receipt": Uuid::now_v7() })), "altered"),
            (json!({ "proof": self.text.replacen("extra ", "extra AAAA", 1), "log_key": self.log_key }), "unproven"),
            (json!({ "proof": self.text, "log_key": another_key.verifier().as_str() }), "unproven"),
            (json!({ "receipt": self.call }), "unknown"),
        ]
    }
}

#[test]
fn what_a_receipt_cannot_show_is_told() {
    let service = Service::fresh(&["requests_per_second=0"]);
    let proof = Proof::new();
    let check = |arguments: Value| call(&service, "", "check_receipt", arguments);
    refused(&check(json!({})), &["proof", "receipt"]);
    refused(&check(json!({ "proof": proof.text })), &["log_key", "whoever runs the guard"]);
    refused(&check(json!({ "proof": proof.text, "log_key": "key" })), &["log_key"]);
    refused(&check(json!({ "proof": "hello", "log_key": proof.log_key })), &["not a proof"]);
    refused(&check(json!({ "receipt": "seven" })), &["UUID"]);
    let key = Proof::of("canary");
    refused(&check(json!({ "proof": key.text, "log_key": key.log_key })), &["kind 'canary'", "not a receipt"]);
    let unknown = check(json!({ "receipt": proof.call }));
    assert!(text(&unknown).starts_with("UNKNOWN: ") && text(&unknown).contains("does not mean"), "{unknown}");
    let altered = check(proof.with(json!({ "result": "sunny", "salts": proof.salts })));
    assert!(text(&altered).contains("differs in: result"), "{altered}");
    assert_eq!(altered["structuredContent"]["result_matches"], false);
    assert_eq!(altered["structuredContent"]["receipt"]["tool"], "get_weather");
}
