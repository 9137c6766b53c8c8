//! Receipts that guards hand in: whose they are, and that they are kept.

use credence_ledger::{LogKey, merkle};
use credence_protocol::{
    Canonical, Uuid,
    receipt::{Exact, Salts, Views, forms_of_result},
};
use credence_testing::{Service, key};
use serde_json::{Value, json};

use crate::mcp::{call, refused, text};

/// A guard's log of one receipt, as it is handed in.
fn batch(provider: &str, tool: &str, id: Uuid) -> Value {
    let log = format!("{provider}/guard/tools/1/1");
    let (salts, nothing) = (Salts::generate().unwrap(), Exact::parse("{}").unwrap());
    let receipt = json!({
        "arguments": salts.arguments(Some(&nothing)), "call": id, "outcome": "result", "server": "tools",
        "started_at": "2026-11-16T09:00:00Z", "tool": tool, "verdict": "accept", "posterior": 0.04,
        "result": Views::commit(&salts.result, &forms_of_result(&nothing)),
    });
    let entry =
        json!({ "body": receipt, "kind": "receipt", "recorded_at": "2026-11-16T09:00:01Z", "subject": provider });
    let entry = Canonical::of(&entry).unwrap().as_str().to_owned();
    let checkpoint = LogKey::new(&log, &key(provider)).unwrap().sign(1, merkle::leaf(entry.as_bytes())).unwrap();
    json!({ "provider": provider, "log": log, "checkpoint": checkpoint,
        "receipts": [{ "seq": 0, "entry": entry, "proof": [] }] })
}

#[test]
fn a_receipt_is_found_by_its_log_and_its_call() {
    let service = Service::fresh(&[]);
    let id = Uuid::now_v7();
    for (provider, tool) in [("squatter", "fake"), ("lab", "weather")] {
        service.add_source(provider);
        service.post("/v1/receipts", &batch(provider, tool, id)).created();
    }
    let ambiguous = service.get(&format!("/v1/receipts/{id}"));
    ambiguous.refused(409, "several_receipts");
    assert!(ambiguous.text().contains("lab/guard/tools/1/1") && ambiguous.text().contains("squatter/guard/tools/1/1"));
    for (provider, tool) in [("squatter", "fake"), ("lab", "weather")] {
        let held = service.get(&format!("/v1/receipts/{id}?log={provider}/guard/tools/1/1")).ok();
        assert_eq!((&held["receipt"]["tool"], &held["provider"]), (&json!(tool), &json!(provider)));
    }
    service.get(&format!("/v1/receipts/{id}?log=lab/guard/other/1/1")).refused(404, "unknown_receipt");
    let check = |arguments: Value| call(&service, "", "check_receipt", arguments);
    refused(&check(json!({ "receipt": id })), &["lab/guard/tools/1/1"]);
    let proven = check(json!({ "receipt": id, "log": "lab/guard/tools/1/1", "tool": "weather" }));
    assert!(text(&proven).starts_with("PROVEN: "), "{proven}");
    let shell = service.stop();
    let audited = shell.ok(&["audit"]);
    assert!(audited.contains("2 receipts held; nothing is wrong"), "{audited}");
}

/// The receipts have the rules of the ledger: what is gone or old is refused at the start, found by the audit, and taken only on
/// purpose.
#[test]
fn receipts_that_are_gone_are_missed() {
    let service = Service::fresh(&[]);
    service.add_source("lab");
    service.post("/v1/receipts", &batch("lab", "weather", Uuid::now_v7())).created();
    let shell = service.stop();
    for file in std::fs::read_dir(shell.path("credence-data")).unwrap() {
        let path = file.unwrap().path();
        if path.file_name().unwrap().to_string_lossy().starts_with("receipts.db") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let audited = shell.run(&["audit"]);
    assert!(audited.code == Some(2) && audited.stdout.contains("receipts.db is missing"), "{audited:?}");
    shell.fails(&["serve", "--listen", "127.0.0.1:0"], "accept-restore --receipts");
    let accepted = shell.ok(&["log", "accept-restore", "--receipts"]);
    assert!(accepted.contains("1 that a signed checkpoint promised are gone"), "{accepted}");
    Service::start(shell, &[]).stop().audit_passes();
}
