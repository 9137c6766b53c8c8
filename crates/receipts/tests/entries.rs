//! The canonical bytes of every kind of entry in a guard's own ledger, held by vectors in `testdata/entries/`.
#![allow(clippy::unwrap_used, missing_docs, reason = "helpers of tests: a failing unwrap is how a test says no")]

use credence_ledger::{Kind, NewEntry};
use credence_protocol::{
    Canonical, Decision, EntityId, Stake, Timestamp, Uuid,
    receipt::{CallOutcome, Exact, Salts, Views, forms_of_result},
};
use credence_receipts::{
    CanaryRecord, ControlRecord, Intent, OperationAction, OperationRecord, Operator, segments::SegmentRecord,
};
use credence_testing::assert_vector;

fn at() -> Timestamp {
    "2026-11-15T12:00:00Z".parse().unwrap()
}

fn assert_entry(kind: Kind, body: Canonical) {
    let entry = NewEntry { kind, subject: EntityId::new("bot").unwrap(), body, weight: None };
    assert_vector(&format!("entries/{}.json", kind.key()), &entry.encode(at()).unwrap());
}

#[test]
fn receipts() {
    let salt = || "AAAAAAAAAAAAAAAAAAAAAA".parse().unwrap();
    let salts = Salts { arguments: salt(), result: salt() };
    let intent = Intent {
        agent: Some(EntityId::new("bot").unwrap()),
        arguments: salts.arguments(Some(&Exact::parse(r#"{"city":"Oslo","big":12345678901234567890}"#).unwrap())),
        call: Uuid::from_u128(1),
        client: Some("client 1.0".into()),
        request: Some("7".into()),
        server: "weather".into(),
        session: Some("s-1".into()),
        stake: Some(Stake::High),
        started_at: at(),
        tool: "get_weather".into(),
        uid: None,
        vantage: None,
    };
    let mut receipt = intent.into_receipt(CallOutcome::Result);
    let result = Exact::parse(r#"{"content":[{"type":"text","text":"{\"temp\": 3.50}"}]}"#).unwrap();
    receipt.result = Views::commit(&salts.result, &forms_of_result(&result));
    receipt.execution_ms = Some(84.5);
    receipt.verdict = Some(Decision::Flag);
    receipt.posterior = Some(0.625);
    receipt.checks = vec!["structure_drift".into()];
    assert_entry(Kind::Receipt, receipt.canonical().unwrap());
}

#[test]
fn canaries() {
    let canary = CanaryRecord {
        call: Uuid::from_u128(1),
        agent: Some(EntityId::new("bot").unwrap()),
        fabrication: "scaled_number".into(),
        caught: true,
    };
    assert_entry(Kind::Canary, Canonical::of(&canary).unwrap());
    let control = ControlRecord { call: canary.call, agent: canary.agent, rejected: false };
    assert_entry(Kind::Control, Canonical::of(&control).unwrap());
}

#[test]
fn operations() {
    let operation = OperationRecord {
        action: OperationAction::Off,
        at: at(),
        by: Some(Operator { terminal: Some("/dev/pts/3".into()), uid: 1000, user: Some("ada".into()) }),
        call: None,
        detail: None,
        id: Uuid::from_u128(2),
        tool: None,
    };
    assert_entry(Kind::Operation, Canonical::of(&operation).unwrap());
}

#[test]
fn segments() {
    let segment = SegmentRecord { segment: 2, previous: Some("note".into()) };
    assert_entry(Kind::Segment, Canonical::of(&segment).unwrap());
}
