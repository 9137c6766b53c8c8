//! False transcripts, each of which tells something that did not happen beside something that did, and genuine ones in every form.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{cell::RefCell, collections::HashMap};

use credence_protocol::{
    EntityId, SecretKey, Timestamp, Uuid,
    receipt::{CallOutcome, Exact, Salts, Vantage, View, Views, forms_of_error, forms_of_result},
};
use credence_receipts::{
    Archive, BookSettings, Filter, Intent, NewReceipt, Private, ReceiptBook,
    claims::{CheckOptions, ClaimReport, ClaimStatus},
    folder, now,
    parts::fingerprint,
    transcript,
};
use data_encoding::BASE64URL_NOPAD;
use serde_json::{Value, json};

/// Guards of some servers, and what was called through them.
struct House {
    state: tempfile::TempDir,
    provider: EntityId,
    key: SecretKey,
    books: RefCell<HashMap<String, (folder::Place, ReceiptBook)>>,
    /// Each call starts a second after the one before.
    started: RefCell<Timestamp>,
    vantage: Option<Vantage>,
}

impl House {
    fn new() -> Self {
        Self {
            state: tempfile::tempdir().unwrap(),
            provider: EntityId::new("lab").unwrap(),
            key: SecretKey::generate().unwrap(),
            books: RefCell::default(),
            started: RefCell::new("2026-11-17T09:00:00Z".parse().unwrap()),
            vantage: None,
        }
    }

    /// A call that came to this.
    fn call(&self, server: &str, tool: &str, arguments: &Value, outcome: CallOutcome, answer: &Value) -> Uuid {
        let new = self.receipt(server, tool, arguments, outcome, answer);
        let call = new.receipt.call;
        self.record(server, &[new]);
        call
    }

    fn receipt(&self, server: &str, tool: &str, arguments: &Value, outcome: CallOutcome, answer: &Value) -> NewReceipt {
        let salts = Salts::generate().unwrap();
        let (arguments, answer) = (arguments.to_string(), answer.to_string());
        let (arguments, answer) = (Exact::parse(&arguments).unwrap(), Exact::parse(&answer).unwrap());
        let mut started = self.started.borrow_mut();
        *started = Timestamp::from_micros(started.micros() + 1_000_000).unwrap();
        let intent = Intent {
            agent: None,
            arguments: salts.arguments(Some(&arguments)),
            call: Uuid::now_v7(),
            client: None,
            request: None,
            server: server.to_owned(),
            session: None,
            stake: None,
            started_at: *started,
            tool: tool.to_owned(),
            uid: None,
            vantage: self.vantage,
        };
        let mut receipt = intent.into_receipt(outcome);
        receipt.result = match outcome {
            CallOutcome::Unanswered => None,
            CallOutcome::ProtocolError => Views::commit(&salts.result, &forms_of_error(&answer)),
            _ => Views::commit(&salts.result, &forms_of_result(&answer)),
        };
        let print = BASE64URL_NOPAD.encode(&fingerprint(&self.key, Some(&arguments)));
        NewReceipt { receipt, private: Private { salts, print } }
    }

    fn record(&self, server: &str, new: &[NewReceipt]) {
        let mut books = self.books.borrow_mut();
        let (_, book) = books.entry(server.to_owned()).or_insert_with(|| {
            let place = folder::take_place(self.state.path(), server).unwrap();
            let settings = BookSettings::new(&place, server, self.provider.clone(), self.key.clone());
            let book = ReceiptBook::open(settings).unwrap();
            (place, book)
        });
        book.record(new.iter()).unwrap();
    }

    /// A call of `tool` that returned this text.
    fn text(&self, server: &str, tool: &str, arguments: Value, text: &str) -> Uuid {
        self.call(server, tool, &arguments, CallOutcome::Result, &result(text))
    }

    fn check_with(&self, transcript: &str, options: &CheckOptions) -> (transcript::Transcript, ClaimReport) {
        for (_, book) in self.books.borrow().values() {
            book.flush_journal(Vec::new()).unwrap();
            book.seal().unwrap();
        }
        let read = transcript::read(transcript.as_bytes()).unwrap();
        let archive = Archive::open(self.state.path(), &self.provider, &self.key).unwrap();
        let report = archive.check(&self.key, &read, options).unwrap();
        assert_eq!(report.problems, [""; 0]);
        (read, report)
    }

    fn check(&self, transcript: &Value) -> ClaimReport {
        self.check_with(&transcript.to_string(), &CheckOptions::default()).1
    }

    fn statuses(&self, transcript: &Value) -> Vec<ClaimStatus> {
        self.check(transcript).claims.iter().map(|claim| claim.status).collect()
    }
}

fn result(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

/// An Anthropic exchange: a call and its result.
fn told(id: &str, tool: &str, arguments: Value, content: Value) -> [Value; 2] {
    let call = json!({ "type": "tool_use", "id": id, "name": tool, "input": arguments });
    let result = json!({ "type": "tool_result", "tool_use_id": id, "content": content });
    [json!({ "role": "assistant", "content": [call] }), json!({ "role": "user", "content": [result] })]
}

/// The same with a flag that says whether it failed.
fn told_flagged(id: &str, tool: &str, arguments: Value, content: Value, is_error: bool) -> [Value; 2] {
    let mut both = told(id, tool, arguments, content);
    both[1]["content"][0]["is_error"] = json!(is_error);
    both
}

use ClaimStatus::{Altered, Ambiguous, Executed, Failed, NeverHappened, NoResult, OutOfOrder, Repeated};

#[test]
fn a_tool_of_the_same_name_on_another_server_backs_nothing() {
    let house = House::new();
    house.text("sandbox", "transfer", json!({ "to": "a" }), "transferred 5000");
    for name in ["mcp__bank__transfer", "bank.transfer", "bank_transfer", "bank__transfer", "xsandbox_transfer"] {
        let report = house.check(&json!(told("t", name, json!({ "to": "a" }), json!("transferred 5000"))));
        assert_eq!(report.claims[0].status, Altered, "{name}");
        assert!(report.claims[0].differs[0].contains("of server 'sandbox'"), "{report:?}");
    }
    for name in ["transfer", "mcp__sandbox__transfer", "sandbox.transfer", "sandbox_transfer", "sandbox-transfer"] {
        let transcript = json!(told("t", name, json!({ "to": "a" }), json!("transferred 5000")));
        assert_eq!(house.statuses(&transcript), [Executed], "{name}");
    }
    // The server beside the name, as connectors write it.
    for (server, status) in [("bank", Altered), ("sandbox", Executed)] {
        let call = json!({ "type": "mcp_call", "id": "m", "server_label": server, "name": "transfer", "arguments": "{\"to\":\"a\"}", "output": "transferred 5000" });
        assert_eq!(house.statuses(&call), [status], "{server}");
    }
    let aliased =
        CheckOptions { server_aliases: vec![("bank".to_owned(), "sandbox".to_owned())], ..CheckOptions::default() };
    let transcript = json!(told("t", "bank.transfer", json!({ "to": "a" }), json!("transferred 5000"))).to_string();
    assert_eq!(house.check_with(&transcript, &aliased).1.claims[0].status, Executed);
}

#[test]
fn a_name_of_several_servers_is_ambiguous_until_one_is_chosen() {
    let house = House::new();
    house.text("bank", "transfer", json!({ "to": "b" }), "transferred 1");
    let call = house.text("sandbox", "transfer", json!({ "to": "a" }), "transferred 5000");
    let transcript = json!(told("t", "transfer", json!({ "to": "a" }), json!("transferred 5000")));
    let report = house.check(&transcript);
    assert_eq!(report.claims[0].status, Ambiguous);
    assert!(report.claims[0].remark.as_ref().unwrap().contains("'transfer' of 'bank' or 'transfer' of 'sandbox'"));
    let of = |server: &str| CheckOptions {
        filter: Filter { server: Some(server.to_owned()), ..Filter::default() },
        ..CheckOptions::default()
    };
    let status = |server| house.check_with(&transcript.to_string(), &of(server)).1.claims[0].status;
    assert_eq!((status("sandbox"), status("bank")), (Executed, NeverHappened));
    // A result that names its receipt says which call it is; one that names a receipt of nothing does not.
    for (receipt, expected) in [(call.to_string(), Executed), (Uuid::now_v7().to_string(), Ambiguous)] {
        let item = json!([{ "type": "text", "text": "transferred 5000", "_meta": { "credence/guard": { "receipt": receipt } } }]);
        assert_eq!(house.statuses(&json!(told("t", "transfer", json!({ "to": "a" }), item))), [expected]);
    }
}

#[test]
fn names_are_compared_letter_by_letter() {
    let house = House::new();
    house.text("bank", "查询", json!({}), "done, as asked");
    for (name, status) in [("转账", NeverHappened), ("__", NeverHappened), ("查詢", NeverHappened), ("查询", Executed)]
    {
        assert_eq!(house.statuses(&json!(told("t", name, json!({}), json!("done, as asked")))), [status], "{name}");
    }
}

#[test]
fn an_error_is_not_retold_as_a_success_or_in_other_words() {
    let house = House::new();
    let full = json!({ "content": [{ "type": "text", "text": "disk full" }], "isError": true });
    house.call("fs", "save", &json!({}), CallOutcome::ToolError, &full);
    let rpc = |result: Value| {
        json!([{ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "save", "arguments": {} } },
            { "jsonrpc": "2.0", "id": 1, "result": result }])
    };
    let bedrock = |status: &str| {
        json!([{ "role": "assistant", "content": [{ "toolUse": { "toolUseId": "t", "name": "save", "input": {} } }] },
            { "role": "user", "content": [{ "toolResult": { "toolUseId": "t", "content": [{ "text": "disk full" }], "status": status } }] }])
    };
    for (transcript, status) in [
        (rpc(full.clone()), Executed),
        (rpc(json!({ "content": [{ "type": "text", "text": "disk full" }] })), Altered),
        (rpc(json!({ "content": [{ "type": "text", "text": "disk full" }], "isError": false })), Altered),
        (rpc(json!({ "content": [{ "type": "text", "text": "saved" }] })), Altered),
        (rpc(json!({ "content": [{ "type": "text", "text": "the disk is full" }], "isError": true })), Altered),
        (bedrock("error"), Executed),
        (bedrock("success"), Altered),
        (json!(told_flagged("t", "save", json!({}), json!("disk full"), true)), Executed),
        (json!(told_flagged("t", "save", json!({}), json!("disk full"), false)), Altered),
        (json!(told("t", "save", json!({}), json!("disk full"))), Executed),
        (json!(told("t", "save", json!({}), json!("Error executing tool save: disk full"))), Executed),
        (json!(told("t", "save", json!({}), json!("Saved 7 files without an error: disk full"))), Altered),
        (json!(told_flagged("t", "save", json!({}), json!("permission denied"), true)), Altered),
    ] {
        assert_eq!(house.statuses(&transcript), [status], "{transcript}");
    }
}

#[test]
fn an_error_of_the_server_is_told_in_its_words() {
    let house = House::new();
    let error = json!({ "code": -32602, "message": "no such account" });
    house.call("bank", "pay", &json!({}), CallOutcome::ProtocolError, &error);
    for (text, flag, status) in [
        ("no such account", Some(true), Executed),
        ("MCP error -32602: no such account", Some(true), Executed),
        ("MCP error -32602: no such account", None, Executed),
        ("no such account", Some(false), Altered),
        ("the payment was made, number 77", Some(true), Altered),
        ("the payment was made, number 77", None, Altered),
    ] {
        let transcript = match flag {
            Some(flag) => told_flagged("t", "pay", json!({}), json!(text), flag),
            None => told("t", "pay", json!({}), json!(text)),
        };
        assert_eq!(house.statuses(&json!(transcript)), [status], "{text} {flag:?}");
    }
}

#[test]
fn a_call_without_an_answer_backs_no_result() {
    let house = House::new();
    house.call("bank", "pay", &json!({}), CallOutcome::Unanswered, &Value::Null);
    for (text, flag, status) in [
        ("paid, number 77", false, Altered),
        ("paid, number 77", true, Altered),
        ("", false, Altered),
        ("MCP error -32001: Request timed out", true, Failed),
        ("timed out, but it was paid", true, Altered),
    ] {
        let transcript = json!(told_flagged("t", "pay", json!({}), json!(text), flag));
        let report = house.check(&transcript);
        assert_eq!(report.claims[0].status, status, "{text}");
        let words = format!("{:?} {:?}", report.claims[0].differs, report.claims[0].remark);
        assert!(words.contains("the call was forwarded and no answer came"), "{words}");
    }
}

#[test]
fn a_call_that_the_model_goes_on_without_is_named() {
    let house = House::new();
    house.call("bank", "pay", &json!({}), CallOutcome::Unanswered, &Value::Null);
    house.text("bank", "balance", json!({}), "5000 in all");
    let call =
        json!({ "role": "assistant", "content": [{ "type": "tool_use", "id": "p", "name": "pay", "input": {} }] });
    let mut transcript = told("b", "balance", json!({}), json!("5000 in all")).to_vec();
    transcript.push(call);
    let report = house.check(&json!(transcript));
    assert_eq!(report.claims.iter().map(|one| one.status).collect::<Vec<_>>(), [Executed, NoResult]);
    assert!(report.is_clean() && report.unclaimed.is_empty(), "a call at the end may still be under way");
    transcript.push(json!({ "role": "assistant", "content": "The payment went through." }));
    let report = house.check(&json!(transcript));
    assert!(!report.is_clean() && report.claims[1].goes_on);
    let remark = report.claims[1].remark.as_ref().unwrap();
    assert!(remark.contains("no answer came") && remark.contains("goes on without it"), "{remark}");
}

#[test]
fn the_order_of_different_calls_is_checked() {
    let house = House::new();
    for n in 0..3 {
        house.text("fs", "step", json!({ "n": n }), &format!("did step {n}"));
    }
    let step = |n: u32| told(&format!("s{n}"), "step", json!({ "n": n }), json!(format!("did step {n}")));
    let in_order = |order: [u32; 3]| house.check(&json!(order.map(step).concat()));
    let report = in_order([0, 1, 2]);
    assert!(report.is_clean() && report.equal == 0, "{report:?}");
    let report = in_order([0, 2, 1]);
    let statuses: Vec<_> = report.claims.iter().map(|claim| claim.status).collect();
    assert_eq!((statuses, report.is_clean()), (vec![Executed, Executed, OutOfOrder], false));
    assert!(report.claims[2].differs[0].contains("[3].content[0]"), "{report:?}");
    // Calls that are made together have no order, whichever of them went out first; nor have two conversations.
    let calls: Vec<Value> = [2, 0, 1].map(step).iter().map(|[call, _]| call["content"][0].clone()).collect();
    let results: Vec<Value> = [1, 2, 0].map(step).iter().map(|[_, result]| result["content"][0].clone()).collect();
    let together = json!([{ "role": "assistant", "content": calls }, { "role": "user", "content": results }]);
    assert!(house.check(&together).is_clean());
    let apart = json!([{ "messages": step(2) }, { "messages": step(0) }, { "messages": step(1) }]);
    assert!(house.check(&apart).is_clean());
}

#[test]
fn the_order_of_equal_calls_is_said_to_be_unknown_and_accuses_nobody() {
    let house = House::new();
    house.text("s", "poll", json!({}), "nothing new");
    house.text("s", "poll", json!({}), "something new");
    house.text("s", "poll", json!({}), "nothing new");
    let poll = |id: &str, text: &str| told(id, "poll", json!({}), json!(text));
    // The later of the two equal calls is the one that fits.
    let report = house.check(&json!([poll("a", "something new"), poll("b", "nothing new")].concat()));
    assert!(report.is_clean() && report.equal == 0, "{report:?}");
    let all = [poll("a", "nothing new"), poll("b", "something new"), poll("c", "nothing new")].concat();
    let report = house.check(&json!(all));
    assert_eq!((report.is_clean(), report.equal), (true, 2), "{report:?}");
    let report =
        house.check(&json!([poll("a", "nothing new"), poll("b", "nothing new"), poll("c", "something new")].concat()));
    assert!(!report.is_clean());
}

#[test]
fn one_receipt_backs_one_claim_and_only_its_own() {
    let house = House::new();
    let call = house.text("s", "f", json!({ "n": 1 }), "the first result");
    house.text("s", "f", json!({ "n": 2 }), "the second result");
    let f = |id: &str, n: u32, text: &str| told(id, "f", json!({ "n": n }), json!(text));
    let first = || f("a", 1, "the first result");
    // The same claim again, and another claim of the same call.
    assert_eq!(house.statuses(&json!([first(), first()].concat())), [Executed, Repeated]);
    assert_eq!(house.statuses(&json!([first(), f("b", 1, "the first result")].concat())), [Executed, NeverHappened]);
    // Results that answer each other's calls, arguments that were others, a result in two halves.
    let crossed = json!([f("a", 1, "the second result"), f("b", 2, "the first result")].concat());
    assert_eq!(house.statuses(&crossed), [Altered, Altered]);
    assert_eq!(house.statuses(&json!(f("a", 3, "the first result"))), [Altered]);
    let half = |text: &str| json!({ "type": "tool_result", "tool_use_id": "a", "content": text });
    let halves = json!([first()[0], { "role": "user", "content": [half("the first"), half("result")] }]);
    assert!(house.statuses(&halves).iter().all(|status| *status != Executed));
    // Two results that name one receipt.
    let named =
        |text: &str| json!([{ "type": "text", "text": text, "_meta": { "credence/guard": { "receipt": call } } }]);
    let twice = json!(
        [
            told("a", "f", json!({ "n": 1 }), named("the first result")),
            told("b", "f", json!({ "n": 1 }), named("the first result"))
        ]
        .concat()
    );
    assert_eq!(house.statuses(&twice), [Executed, NeverHappened]);
    // Members that are there twice: readers differ in which of them counts.
    let duplicate = r#"[{"type":"tool_use","id":"a","name":"f","input":{"n":1}},
        {"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"the first result","text":"paid"}]}]"#;
    assert_eq!(house.check_with(duplicate, &CheckOptions::default()).1.claims[0].status, Altered);
}

#[test]
fn what_a_log_tells_twice_has_to_be_the_same_both_times() {
    let house = House::new();
    house.text("s", "f", json!({}), "the result");
    for (again, status) in
        [(json!("the result"), Executed), (result("the result")["content"].clone(), Executed), (json!("paid"), Altered)]
    {
        let [call, answer] = told("a", "f", json!({}), json!("the result"));
        let lines = json!([{ "type": "assistant", "message": call }, { "type": "user", "message": answer, "toolUseResult": again }]);
        assert_eq!(house.statuses(&lines), [status], "{again}");
    }
}

#[test]
fn it_is_said_who_could_have_forged_the_receipts() {
    for (vantage, words) in [
        (Some(Vantage::OwnUser), "neither the agent nor the tool server could have forged them"),
        (Some(Vantage::SameUser), "a program of that user could have forged them"),
        (None, "take them as forgeable"),
    ] {
        let house = House { vantage, ..House::new() };
        house.text("s", "f", json!({}), "the first result");
        let report = house.check(&json!(told("a", "f", json!({}), json!("the first result"))));
        assert!(report.isolation.len() == 1 && report.isolation[0].contains(words), "{:?}", report.isolation);
    }
}

/// A genuine call with text and structure, in every form that frameworks give it.
#[test]
fn genuine_results_are_executed_in_every_form() {
    let house = House::new();
    let whole = json!({ "content": [{ "type": "text", "text": "{\"t\":18}" }], "structuredContent": { "t": 18 } });
    house.call("w", "weather", &json!({ "city": "Oslo" }), CallOutcome::Result, &whole);
    let (arguments, text) = (json!({ "city": "Oslo" }), "{\"t\":18}");
    let function = json!({ "name": "weather", "arguments": arguments.to_string() });
    let item = json!([{ "type": "text", "text": text }]);
    let forms = [
        json!([{ "role": "assistant", "tool_calls": [{ "id": "a", "type": "function", "function": function }] }, { "role": "tool", "tool_call_id": "a", "content": text }]),
        json!([{ "type": "function_call", "call_id": "a", "name": "weather", "arguments": arguments.to_string() }, { "type": "function_call_output", "call_id": "a", "output": text }]),
        json!({ "type": "mcp_call", "id": "a", "server_label": "w", "name": "weather", "arguments": arguments.to_string(), "output": text }),
        json!(told("a", "mcp__w__weather", arguments.clone(), item.clone())),
        json!([{ "type": "mcp_tool_use", "id": "a", "name": "weather", "server_name": "w", "input": arguments }, { "type": "mcp_tool_result", "tool_use_id": "a", "is_error": false, "content": item }]),
        json!([{ "role": "assistant", "content": [{ "toolUse": { "toolUseId": "a", "name": "weather", "input": arguments } }] }, { "role": "user", "content": [{ "toolResult": { "toolUseId": "a", "content": [{ "text": text }], "status": "success" } }] }]),
        json!([{ "toolUse": { "toolUseId": "a", "name": "weather", "input": arguments } }, { "toolResult": { "toolUseId": "a", "content": [{ "json": { "t": 18 } }] } }]),
        json!([{ "toolUse": { "toolUseId": "a", "name": "weather", "input": arguments } }, { "toolResult": { "toolUseId": "a", "content": [{ "text": text }, { "json": { "t": 18 } }] } }]),
        json!({ "contents": [{ "role": "model", "parts": [{ "functionCall": { "name": "weather", "args": arguments } }] }, { "role": "user", "parts": [{ "functionResponse": { "name": "weather", "response": { "result": text } } }] }] }),
        json!([{ "functionCall": { "name": "weather", "args": arguments } }, { "functionResponse": { "name": "weather", "response": { "t": 18 } } }]),
        json!([{ "functionCall": { "name": "weather", "args": arguments } }, { "functionResponse": { "name": "weather", "response": { "result": whole } } }]),
        json!([{ "type": "ai", "content": "", "tool_calls": [{ "name": "weather", "args": arguments, "id": "a", "type": "tool_call" }] }, { "type": "tool", "content": text, "tool_call_id": "a", "status": "success" }]),
        json!([{ "role": "assistant", "content": [{ "type": "tool-call", "toolCallId": "a", "toolName": "weather", "input": arguments }] }, { "role": "tool", "content": [{ "type": "tool-result", "toolCallId": "a", "toolName": "weather", "output": { "type": "json", "value": whole } }] }]),
        json!([{ "role": "assistant", "parts": [{ "type": "tool-weather", "toolCallId": "a", "state": "output-available", "input": arguments, "output": whole }] }]),
        json!([{ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "weather", "arguments": arguments } }, { "jsonrpc": "2.0", "id": 1, "result": whole }]),
    ];
    for form in &forms {
        let (read, report) = house.check_with(&form.to_string(), &CheckOptions::default());
        assert!(report.is_clean() && !read.may_hide_claims(), "{form}\n{report:?}\n{:?}", read.unrecognised);
        assert_eq!(report.claims.len(), 1, "{form}");
        // And none of them tells another temperature.
        let lie = form.to_string().replace("18", "28");
        assert_eq!(house.check_with(&lie, &CheckOptions::default()).1.claims[0].status, Altered, "{lie}");
    }
}

/// Twice the claims take twice the work, not four times: whether all differ, all have the same arguments, or all are invented.
#[test]
fn the_work_grows_with_the_claims_and_not_with_their_square() {
    fn work(house: &House, claims: usize, tell: &dyn Fn(usize) -> (Value, String, String)) -> (u64, u64, bool) {
        let mut messages = Vec::new();
        let mut receipts = Vec::new();
        for n in 0..claims {
            let (arguments, text, claimed) = tell(n);
            receipts.push(house.receipt("s", "f", &arguments, CallOutcome::Result, &result(&text)));
            messages.extend(told(&format!("c{n}"), "f", arguments, json!(claimed)));
        }
        house.record("s", &receipts);
        let report = house.check(&json!({ "messages": messages }));
        (report.work.comparisons, report.work.segments, report.is_clean())
    }
    let few = 300;
    for (what, clean, tell) in [
        (
            "all differ",
            true,
            &(|n| (json!({ "n": n }), format!("result {n}"), format!("result {n}"))) as &dyn Fn(usize) -> _,
        ),
        ("the same arguments", true, &|n| (json!({}), format!("result {n}"), format!("result {n}"))),
        ("all equal", true, &|_| (json!({}), "nothing new".to_owned(), "nothing new".to_owned())),
        ("other results", false, &|n| (json!({ "n": n }), format!("result {n}"), format!("invented {n}"))),
    ] {
        let (once, opened, is_clean) = work(&House::new(), few, tell);
        let (thrice, opened_again, _) = work(&House::new(), 3 * few, tell);
        assert_eq!(is_clean, clean, "{what}");
        assert!(thrice <= 3 * once + 10 && once <= 4 * few as u64, "{what}: {once} comparisons, then {thrice}");
        assert_eq!((opened, opened_again), (1, 1), "{what}: one segment is opened once");
    }
}

/// How long it takes: `cargo test --release -p credence-receipts --test claims how_long -- --nocapture`, with `LONG_TESTS=1` for all.
#[test]
fn how_long_many_claims_take() {
    let house = House::new();
    let claims = if std::env::var_os("LONG_TESTS").is_some() { 27_600 } else { 500 };
    let (mut messages, mut receipts) = (Vec::new(), Vec::new());
    for n in 0..claims {
        let (arguments, text) =
            (json!({ "n": n, "path": format!("/files/{}", n % 97) }), format!("contents of file {n}"));
        receipts.push(house.receipt("s", "read_file", &arguments, CallOutcome::Result, &result(&text)));
        messages.extend(told(&format!("c{n}"), "read_file", arguments, json!(text)));
    }
    house.record("s", &receipts);
    let text = json!({ "messages": messages }).to_string();
    house.check_with("[]", &CheckOptions::default());
    let began = std::time::Instant::now();
    let read = transcript::read(text.as_bytes()).unwrap();
    let reading = began.elapsed();
    let archive = Archive::open(house.state.path(), &house.provider, &house.key).unwrap();
    let report = archive.check(&house.key, &read, &CheckOptions::default()).unwrap();
    println!(
        "{claims} claims, {} MB: read in {reading:?}, checked in {:?}",
        text.len() / 1_000_000,
        began.elapsed() - reading
    );
    assert!(report.is_clean() && report.claims.len() == claims && now() > "2026-01-01T00:00:00Z".parse().unwrap());
}

/// As a guard in process writes what Python calls `None`.
#[test]
fn a_tool_that_returned_nothing_is_told_so_and_not_otherwise() {
    let house = House::new();
    let mut new = house.receipt("s", "forget", &json!({}), CallOutcome::Result, &result(""));
    let nothing = [(View::Whole, r#"{"structuredContent":null}"#.to_owned()), (View::Structured, "null".to_owned())];
    new.receipt.result = Views::commit(&new.private.salts.result, &nothing);
    house.record("s", &[new]);
    let gemini = |response: Value| {
        json!({ "contents": [
            { "role": "model", "parts": [{ "functionCall": { "name": "forget", "args": {} } }] },
            { "role": "user", "parts": [{ "functionResponse": { "name": "forget", "response": response } }] },
        ] })
    };
    let pydantic = |content: Value| {
        let call = json!({ "part_kind": "tool-call", "tool_name": "forget", "args": {}, "tool_call_id": "a" });
        let answer =
            json!({ "part_kind": "tool-return", "tool_name": "forget", "tool_call_id": "a", "content": content });
        json!([{ "kind": "response", "parts": [call] }, { "kind": "request", "parts": [answer] }])
    };
    for told in [gemini(json!({ "result": null })), gemini(json!({ "output": null })), pydantic(Value::Null)] {
        assert_eq!(house.statuses(&told), [ClaimStatus::Executed], "{told}");
    }
    let paid = json!({ "result": "paid", "error": null });
    for told in [gemini(paid), gemini(json!({ "error": null })), pydantic(json!("paid")), pydantic(json!({}))] {
        assert_eq!(house.statuses(&told), [ClaimStatus::Altered], "{told}");
    }
}
