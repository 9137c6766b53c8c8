//! A guard without a proxy: what it writes about calls, and what it withholds.
#![allow(clippy::unwrap_used, missing_docs, reason = "helpers of tests: a failing unwrap is how a test says no")]

use std::{path::Path, sync::Arc};

use credence_guard::{
    Caller, GuardMode, Settings,
    embedded::{BegunCall, CallVerdict, EmbeddedGuard, NewCall, ReturnedValue},
    oversight::Rules,
    quarantine::QuarantineSettings,
    reports::{self, CheckRequest, RemoteGuard, ReportQuota},
    settings::{DEFAULT_MESSAGE_BYTES, DEFAULT_RECEIPT_BYTES},
};
use credence_protocol::{
    Decision, EntityId, SecretKey,
    receipt::{CallOutcome, Exact, Receipt, Vantage},
};
use credence_receipts::{Archive, CountedCall, Filter, claims::CheckOptions, transcript};
use credence_verify::ToolProfile;
use serde_json::json;

fn settings(state: &Path, mode: GuardMode) -> Settings {
    Settings {
        name: "tests".to_owned(),
        provider: EntityId::new("guard").unwrap(),
        rules: Rules::of_mode(mode),
        caller: Caller { agent: Some(EntityId::new("bot").unwrap()), session: None, stake: None },
        session: "process".to_owned(),
        verify: credence_verify::Mode::Adaptive,
        profiles: Default::default(),
        calibrations: Vec::new(),
        state: state.to_owned(),
        max_receipt_bytes: DEFAULT_RECEIPT_BYTES,
        quarantine: QuarantineSettings::off(),
        vantage: Vantage::InProcess,
        max_message_bytes: DEFAULT_MESSAGE_BYTES,
        explain_refusal: false,
    }
}

fn key() -> SecretKey {
    SecretKey::from_seed(&[7; 32])
}

fn guard(state: &Path, mode: GuardMode) -> EmbeddedGuard {
    EmbeddedGuard::start(settings(state, mode), key(), None).unwrap()
}

fn new_call<'a>(tool: &'a str, arguments: &'a Exact<'a>) -> NewCall<'a> {
    let caller = Caller::default();
    NewCall { tool, arguments, caller, client: None, traceparent: None, uid: None, at_least: None }
}

fn begin(guard: &EmbeddedGuard, tool: &str, arguments: &str) -> BegunCall {
    let arguments = Exact::parse(arguments).unwrap();
    guard.begin(new_call(tool, &arguments)).unwrap()
}

fn finish(guard: &EmbeddedGuard, call: BegunCall, value: &str, shown: Option<&str>) -> CallVerdict {
    let value = Exact::parse(value).unwrap();
    guard.finish(
        call,
        &ReturnedValue { value: &value, is_mcp_result: false, is_error: false, shown, opaque: false, too_large: false },
        12.5,
    )
}

fn archive(state: &Path) -> Archive {
    Archive::open(state, &EntityId::new("guard").unwrap(), &key()).unwrap()
}

fn receipts(state: &Path) -> Vec<Receipt> {
    let mut found = Vec::new();
    let each = &mut |one: credence_receipts::FoundReceipt, _| {
        found.push(one.receipt.clone());
        Ok(())
    };
    archive(state).visit(&Filter::default(), each, &mut |problem| panic!("{problem}")).unwrap();
    found.sort_by_key(|receipt| receipt.call);
    found
}

#[test]
fn a_call_has_a_receipt_that_says_where_it_is_from() {
    let state = tempfile::tempdir().unwrap();
    let guard = guard(state.path(), GuardMode::Flag);
    let call = begin(&guard, "get_rate", r#"{"currency":"EUR"}"#);
    let id = call.id();
    let verdict = finish(&guard, call, r#"{"rate":1.25}"#, Some("{'rate': 1.25}"));
    assert_eq!((verdict.call, verdict.decision, verdict.withheld), (id, Some(Decision::Accept), None));
    guard.close().unwrap();
    let all = receipts(state.path());
    let [receipt] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!((receipt.vantage, receipt.outcome, receipt.uid), (Some(Vantage::InProcess), CallOutcome::Result, None));
    assert_eq!(receipt.session.as_deref(), Some("process"));
    assert_eq!(CountedCall::of(receipt), None, "self-reported calls are in no summary");
    let by_proxy = Receipt { vantage: Some(Vantage::SameUser), ..receipt.clone() };
    assert!(CountedCall::of(&by_proxy).is_some());
}

#[test]
fn a_claim_is_compared_with_the_value_and_with_what_was_shown() {
    let state = tempfile::tempdir().unwrap();
    let guard = guard(state.path(), GuardMode::Flag);
    for currency in ["EUR", "CHF", "GBP"] {
        let call = begin(&guard, "get_rate", &json!({ "currency": currency }).to_string());
        finish(&guard, call, r#"{"rate":12345678901234567890}"#, Some("{'rate': 12345678901234567890}"));
    }
    guard.close().unwrap();
    let claim = |number: u32, currency: &str, result: &str| {
        let function = json!({ "name": "get_rate", "arguments": json!({ "currency": currency }).to_string() });
        let id = format!("c{number}");
        [
            json!({ "role": "assistant", "tool_calls": [{ "id": id, "type": "function", "function": function }] }),
            json!({ "role": "tool", "tool_call_id": id, "content": result }),
        ]
    };
    let messages = [
        claim(1, "EUR", r#"{"rate": 12345678901234567890}"#),
        claim(2, "CHF", "{'rate': 12345678901234567890}"),
        claim(3, "GBP", r#"{"rate": 12345678901234567168}"#),
        claim(4, "JPY", r#"{"rate": 12345678901234567890}"#),
    ];
    let text = serde_json::to_vec(&messages.concat()).unwrap();
    let read = transcript::read(&text).unwrap();
    let report = archive(state.path()).check(&key(), &read, &CheckOptions::default()).unwrap();
    let statuses: Vec<String> = report.claims.iter().map(|claim| json!(claim.status).to_string()).collect();
    assert_eq!(statuses, [r#""executed""#, r#""executed""#, r#""altered""#, r#""never_happened""#]);
    assert!(report.isolation[0].contains("inside the agent's own process"), "{:?}", report.isolation);
}

#[test]
fn enforcing_withholds_and_tells_the_model() {
    let state = tempfile::tempdir().unwrap();
    let guard = guard(state.path(), GuardMode::Enforce);
    let profile = ToolProfile::builder().expected_latency_ms(0.0, 1e9).has_network_io(false).required_fields(["rate"]);
    guard.guard().register_profile("get_rate", profile.build().unwrap()).unwrap();
    let verdict = finish(&guard, begin(&guard, "get_rate", "{}"), r#"{"nothing":1}"#, None);
    assert_eq!(verdict.decision, Some(Decision::Block));
    let told = verdict.withheld.unwrap();
    assert!(told.contains("was executed") && told.contains(&verdict.call.to_string()), "{told}");
    assert_eq!(finish(&guard, begin(&guard, "get_rate", "{}"), r#"{"rate":1}"#, None).withheld, None);
    guard.close().unwrap();
    let all = receipts(state.path());
    assert!(all[0].delivered.is_some() && all[1].delivered.is_none());
}

#[test]
fn a_call_that_nobody_ends_is_unanswered() {
    let state = tempfile::tempdir().unwrap();
    {
        let guard = guard(state.path(), GuardMode::Flag);
        guard.abandon(begin(&guard, "given_up", "{}"));
        // As in a process that is killed: nothing is closed.
        std::mem::forget(begin(&guard, "under_way", "{}"));
        guard.close().unwrap();
    }
    let guard = guard(state.path(), GuardMode::Flag);
    guard.close().unwrap();
    let outcomes: Vec<_> = receipts(state.path()).into_iter().map(|receipt| (receipt.tool, receipt.outcome)).collect();
    let unanswered = |tool: &str| (tool.to_owned(), CallOutcome::Unanswered);
    assert_eq!(outcomes, [unanswered("given_up"), unanswered("under_way")]);
}

#[test]
fn calls_after_the_end_are_still_recorded() {
    let state = tempfile::tempdir().unwrap();
    let guard = guard(state.path(), GuardMode::Flag);
    guard.close().unwrap();
    finish(&guard, begin(&guard, "late", "{}"), "1", None);
    guard.close().unwrap();
    assert_eq!(receipts(state.path()).len(), 1);
}

#[test]
fn a_caller_can_ask_for_more_than_the_guards_mode_and_not_for_less() {
    let state = tempfile::tempdir().unwrap();
    let guard = guard(state.path(), GuardMode::Flag);
    let profile = ToolProfile::builder().expected_latency_ms(0.0, 1e9).has_network_io(false).required_fields(["rate"]);
    guard.guard().register_profile("get_rate", profile.build().unwrap()).unwrap();
    let arguments = Exact::parse("{}").unwrap();
    let withheld = |at_least| {
        let call = guard.begin(NewCall { at_least, ..new_call("get_rate", &arguments) }).unwrap();
        let mode = call.mode();
        (mode, finish(&guard, call, r#"{"nothing":1}"#, None).withheld.is_some())
    };
    assert_eq!(withheld(None), (GuardMode::Flag, false));
    assert_eq!(withheld(Some(GuardMode::Observe)), (GuardMode::Flag, false));
    assert_eq!(withheld(Some(GuardMode::Enforce)), (GuardMode::Enforce, true));
}

/// A guard that takes reports, and a transcript about a call of `get_rate`.
fn serving(folder: &Path, quota: ReportQuota) -> (Arc<EmbeddedGuard>, std::path::PathBuf, String) {
    let guard = Arc::new(guard(&folder.join("state"), GuardMode::Flag));
    let socket = folder.join("socket");
    reports::serve(Arc::clone(&guard), &socket, quota).unwrap();
    let function = json!({ "name": "get_rate", "arguments": "{}" });
    let messages = json!([
        { "role": "assistant", "tool_calls": [{ "id": "c1", "type": "function", "function": function }] },
        { "role": "tool", "tool_call_id": "c1", "content": "{\"rate\":1.25}" },
    ]);
    (guard, socket, messages.to_string())
}

fn status(remote: &RemoteGuard, transcript: &str) -> String {
    let report = remote.check(CheckRequest { transcript: transcript.to_owned(), ..CheckRequest::default() }).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    report["claims"][0]["status"].as_str().unwrap().to_owned()
}

#[test]
fn a_program_is_told_of_the_receipts_of_its_own_user_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (guard, socket, transcript) = serving(folder.path(), ReportQuota::default());
    let arguments = Exact::parse("{}").unwrap();
    let of_another = guard.begin(NewCall { uid: Some(64_003), ..new_call("get_rate", &arguments) }).unwrap();
    finish(&guard, of_another, r#"{"rate":1.25}"#, None);
    let remote = RemoteGuard::connect(&socket).unwrap();
    assert_eq!(status(&remote, &transcript), "never_happened");
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let new = NewCall { traceparent: Some(parent.to_owned()), ..new_call("get_rate", &arguments) };
    let (call, _) = remote.begin(new).unwrap();
    let value = Exact::parse(r#"{"rate":1.25}"#).unwrap();
    let returned = ReturnedValue {
        value: &value,
        is_mcp_result: false,
        is_error: false,
        shown: None,
        opaque: false,
        too_large: false,
    };
    remote.finish(call, &returned, 1.0).unwrap();
    assert_eq!(status(&remote, &transcript), "executed");
}

#[test]
fn each_user_has_a_quota() {
    let folder = tempfile::tempdir().unwrap();
    let quota = ReportQuota { calls_per_second: 0.0, burst: 5.0, connections: 2, under_way: 2, check: 3.0 };
    let (_guard, socket, transcript) = serving(folder.path(), quota);
    let (one, _two) = (RemoteGuard::connect(&socket).unwrap(), RemoteGuard::connect(&socket).unwrap());
    let refused = RemoteGuard::connect(&socket).err().unwrap().to_string();
    assert!(refused.contains("too many connections"), "{refused}");
    let arguments = Exact::parse("{}").unwrap();
    let begin = || one.begin(new_call("get_rate", &arguments)).map_err(|error| error.to_string());
    let (first, _) = begin().unwrap();
    begin().unwrap();
    let refused = begin().unwrap_err();
    assert!(refused.contains("quota"), "too many under way: {refused}");
    one.abandon(first).unwrap();
    // Two calls of five are used: one comparison takes the rest. Nothing was executed.
    assert_ne!(status(&one, &transcript), "executed");
    let again = CheckRequest { transcript, ..CheckRequest::default() };
    let refused = one.check(again).unwrap_err().to_string();
    assert!(refused.contains("quota"), "{refused}");
    let refused = begin().unwrap_err();
    assert!(refused.contains("quota"), "the same quota is for calls: {refused}");
}
