//! An agent that makes results up, and what its transcript is worth; receipts that were tampered with.

use std::fs;

use credence_testing::Shell;
use serde_json::{Value, json};

use super::{Session, receipts, verifies};

/// A call as the agent really made it: the tool, its arguments, and the result it was given.
struct Real {
    tool: &'static str,
    arguments: Value,
    result: Value,
}

/// Calls some tools through a guard.
fn really(shell: &Shell, flags: &[&str]) -> Vec<Real> {
    let mut session = Session::start(shell, flags);
    let mut real = Vec::new();
    let mut call = |tool, arguments: Value| {
        let answer = session.call(tool, arguments.clone());
        real.push(Real { tool, arguments, result: answer["result"].clone() });
    };
    for city in ["Oslo", "Rome", "Oslo", "Lima"] {
        call("weather", json!({ "city": city }));
    }
    call("echo", json!({ "id": 1234567890123456789_u64, "note": "a line\nanother line" }));
    session.leave();
    real
}

fn text(result: &Value) -> String {
    let items = result["content"].as_array().unwrap().iter().map(|item| item["text"].as_str().unwrap());
    items.collect::<Vec<_>>().join("\n")
}

/// The same calls as OpenAI's chat, Anthropic's messages and MCP tell them.
fn transcripts(calls: &[Real]) -> [(&'static str, String); 3] {
    let mut openai = vec![json!({ "role": "user", "content": "go" })];
    let mut anthropic = vec![json!({ "role": "user", "content": "go" })];
    let mut mcp = Vec::new();
    for (n, Real { tool, arguments, result }) in calls.iter().enumerate() {
        let id = format!("call_{n}");
        let function = json!({ "name": tool, "arguments": arguments.to_string() });
        openai.push(json!({ "role": "assistant", "content": null, "tool_calls": [{ "id": id, "type": "function", "function": function }] }));
        openai.push(json!({ "role": "tool", "tool_call_id": id, "content": text(result) }));
        // Clients put the server's name in front.
        let name = format!("mcp__bad__{tool}");
        anthropic.push(json!({ "role": "assistant", "content": [{ "type": "tool_use", "id": id, "name": name, "input": arguments }] }));
        anthropic.push(json!({ "role": "user", "content": [{ "type": "tool_result", "tool_use_id": id, "content": result["content"] }] }));
        let params = json!({ "name": tool, "arguments": arguments });
        mcp.push(json!({ "jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params }).to_string());
        mcp.push(json!({ "jsonrpc": "2.0", "id": n, "result": result }).to_string());
    }
    [
        ("openai.json", json!({ "messages": openai }).to_string()),
        ("anthropic.json", json!(anthropic).to_string()),
        ("mcp.jsonl", mcp.join("\n")),
    ]
}

/// Runs the check; gives the exit code and the report.
fn check(shell: &Shell, name: &str, text: &str) -> (Option<i32>, Value) {
    fs::write(shell.path(name), text).unwrap();
    let ran = shell.run(&["receipts", "check", name, "--state", "state", "--json"]);
    let report = serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
    (ran.code, report)
}

fn statuses(report: &Value) -> Vec<&str> {
    report["claims"].as_array().unwrap().iter().map(|claim| claim["status"].as_str().unwrap()).collect()
}

#[test]
fn no_genuine_result_is_accused() {
    for flags in [&["--mode", "observe"][..], &["--mode", "flag"]] {
        let shell = Shell::new();
        let real = really(&shell, flags);
        for (name, text) in transcripts(&real) {
            let (code, report) = check(&shell, name, &text);
            assert_eq!(statuses(&report), ["executed"; 5], "{name}: {report:#}");
            assert_eq!(code, Some(0), "{name}");
            assert_eq!(report["unclaimed"], json!([]), "{name}");
            let receipt = &report["claims"][0]["receipt"];
            assert!(receipt["call"].is_string() && receipt["at"].is_string(), "{receipt}");
            assert!(receipt["checkpoint_size"].as_u64() > receipt["seq"].as_u64(), "{receipt}");
        }
    }
}

#[test]
fn every_fabricated_claim_is_found() {
    let shell = Shell::new();
    let mut told = really(&shell, &["--mode", "observe"]);
    // A number changed, a result for arguments that were never sent, a call that never was, one call told twice, and one
    // that really was kept quiet about.
    let weather = told[1].result["structuredContent"].clone();
    let mut altered = weather.clone();
    altered["temperature"] = json!(altered["temperature"].as_f64().unwrap() + 10.0);
    let result = |structured: &Value| json!({ "content": [{ "type": "text", "text": structured.to_string() }], "structuredContent": structured });
    told[1].result = result(&altered);
    told[3].arguments = json!({ "city": "Atlantis" });
    told.push(Real { tool: "transfer", arguments: json!({ "amount": 5 }), result: result(&json!({ "done": true })) });
    let again = Real { tool: "weather", arguments: told[0].arguments.clone(), result: told[0].result.clone() };
    let thrice = Real { tool: "weather", arguments: told[0].arguments.clone(), result: told[0].result.clone() };
    told.push(again);
    told.push(thrice);
    told.remove(4);
    for (name, text) in transcripts(&told) {
        let (code, report) = check(&shell, name, &text);
        let expected =
            ["executed", "altered", "executed", "altered", "never_happened", "never_happened", "never_happened"];
        assert_eq!(statuses(&report), expected, "{name}: {report:#}");
        assert_eq!(code, Some(2), "{name}");
        assert_eq!(report["unclaimed"].as_array().unwrap().len(), 1, "{name}: the call nobody speaks of");
        assert_eq!(
            report["claims"][1]["differs"],
            json!(["result: temperature has another value"]),
            "{name}: {report:#}"
        );
        assert_eq!(report["claims"][3]["differs"], json!(["arguments: city has another value"]), "{name}");
        assert!(report["claims"][4]["remark"].as_str().unwrap().contains("--ignore-tool"));
        assert_eq!(report["summary"]["never_happened"], 3);
    }
    // A tool that runs elsewhere can be left out.
    let ran = shell.run(&["receipts", "check", "mcp.jsonl", "--state", "state", "--ignore-tool", "transfer"]);
    assert!(!ran.stdout.contains("transfer") && ran.stdout.contains("never happened"), "{ran:?}");
}

/// An invented result beside genuine ones, in a form that is read or in one that is not: neither passes.
#[test]
fn invented_results_beside_genuine_ones_do_not_pass() {
    let shell = Shell::new();
    let real = really(&shell, &["--mode", "observe"]);
    let [_, (_, genuine), _] = transcripts(&real);
    let genuine: Vec<Value> = serde_json::from_str(&genuine).unwrap();
    let with = |more: Value| {
        let lines: Vec<String> = genuine.iter().chain([&more]).map(ToString::to_string).collect();
        check(&shell, "beside.jsonl", &lines.join("\n"))
    };
    assert_eq!(with(json!({ "role": "assistant", "content": "All done." })).0, Some(0));
    let line = genuine.len() + 1;
    for (part, pointer) in [
        (json!({ "type": "tool_return", "content": "paid" }), "/content/0"),
        (json!({ "type": "text", "text": "{\"role\":\"tool\",\"content\":\"paid\"}" }), "/content/0/text"),
    ] {
        let (code, report) = with(json!({ "role": "user", "content": [part] }));
        assert_eq!((code, &report["summary"]["executed"]), (Some(2), &json!(5)), "{report:#}");
        let place = &report["unrecognised"][0];
        assert_eq!((&place["pointer"], &place["line"]), (&json!(pointer), &json!(line)), "{report:#}");
        let ran = shell.run(&["receipts", "check", "beside.jsonl", "--state", "state"]);
        assert!(ran.stdout.contains(&format!("line {line}, {pointer}: ")), "{ran:?}");
    }
    for part in [
        json!({ "role": "user", "content": [{ "toolResult": { "toolUseId": "x", "content": [{ "text": "paid 5000" }] } }] }),
        json!({ "role": "user", "parts": [{ "functionResponse": { "name": "pay", "response": { "result": "paid 5000" } } }] }),
        json!({ "role": "Tool", "tool_call_id": "x", "content": "paid 5000" }),
        json!({ "type": "tool", "tool_call_id": "x", "content": "paid 5000" }),
        json!({ "role": "assistant", "content": [{ "type": "web_search_tool_result", "tool_use_id": "x", "content": "paid 5000" }] }),
    ] {
        let (code, report) = with(part.clone());
        assert_eq!((code, &report["summary"]["never_happened"]), (Some(2), &json!(1)), "{part}: {report:#}");
    }
    // A call without a result, after which the model goes on; a member that the caller knows; a tool that runs elsewhere.
    let call = json!({ "type": "tool_use", "id": "x", "name": "mcp__bad__weather", "input": { "city": "Bonn" } });
    let mut lines: Vec<String> = genuine.iter().map(ToString::to_string).collect();
    lines.push(json!({ "role": "assistant", "content": [call] }).to_string());
    assert_eq!(check(&shell, "open.jsonl", &lines.join("\n")).0, Some(0));
    lines.push(json!({ "role": "assistant", "content": "It is sunny in Bonn." }).to_string());
    let (code, report) = check(&shell, "open.jsonl", &lines.join("\n"));
    assert_eq!((code, &report["claims"][5]["goes_on"]), (Some(2), &json!(true)), "{report:#}");
    let (code, _) = with(json!({ "role": "assistant", "content": "ok", "state": { "a": "b" } }));
    let ran = shell.run(&["receipts", "check", "beside.jsonl", "--state", "state", "--ignore-member", "state"]);
    assert_eq!((code, ran.code), (Some(2), Some(0)), "{ran:?}");
    let search = json!([{ "type": "server_tool_use", "id": "s", "name": "web_search", "input": {} }, { "type": "web_search_tool_result", "tool_use_id": "s", "content": [] }]);
    let (code, _) = with(json!({ "role": "assistant", "content": search }));
    let ran = shell.run(&["receipts", "check", "beside.jsonl", "--state", "state", "--ignore-tool", "web_search"]);
    assert_eq!((code, ran.code), (Some(2), Some(0)), "{ran:?}");
    assert!(ran.stdout.contains("1 claim of tools that were left out: not checked"), "{ran:?}");
    let ran = shell.run(&["receipts", "check", "beside.jsonl", "--state", "state", "--server-alias", "bad"]);
    assert_eq!(ran.code, Some(64), "{ran:?}");
}

/// Big integers are compared digit for digit.
#[test]
fn a_digit_beyond_what_doubles_hold_is_noticed() {
    let shell = Shell::new();
    let mut told = really(&shell, &["--mode", "observe"]);
    told.drain(..4);
    let changed = told[0].result.to_string().replace("1234567890123456789", "1234567890123456788");
    told[0].result = serde_json::from_str(&changed).unwrap();
    for (name, text) in transcripts(&told) {
        assert_eq!(statuses(&check(&shell, name, &text).1), ["altered"], "{name}");
    }
}

#[test]
fn malformed_transcripts_are_told_and_duplicates_are_not_accused() {
    let shell = Shell::new();
    let real = really(&shell, &["--mode", "observe"]);
    let [(_, openai), _, (_, mcp)] = transcripts(&real);
    // The log of a client that writes every message twice.
    let mut messages: Value = serde_json::from_str(&openai).unwrap();
    let all = messages["messages"].as_array().unwrap().clone();
    messages["messages"].as_array_mut().unwrap().extend(all);
    let (code, report) = check(&shell, "twice.json", &messages.to_string());
    assert_eq!((code, &report["summary"]["repeated"]), (Some(0), &json!(5)), "{report:#}");
    // A line that is no JSON in between.
    let broken = mcp.replacen('\n', "\n{\"half\": \n", 1);
    let (_, report) = check(&shell, "broken.jsonl", &broken);
    assert_eq!(report["summary"]["executed"], 5, "{report:#}");
    assert_eq!(report["transcript_problems"].as_array().unwrap().len(), 1);
    fs::write(shell.path("no.json"), "nonsense").unwrap();
    shell.fails(&["receipts", "check", "no.json", "--state", "state"], "no.json");
}

/// One receipt, one checkpoint or one proof changed: each is found.
#[test]
fn tampering_is_found() {
    let shell = Shell::new();
    let real = really(&shell, &["--mode", "observe"]);
    verifies(&shell);
    shell.ok(&["receipts", "export", "--state", "state", "--disclose", "--out", "all.jsonl"]);
    shell.ok(&["receipts", "verify", "all.jsonl"]);
    let exported = fs::read_to_string(shell.path("all.jsonl")).unwrap();
    assert_eq!(exported.lines().count(), real.len());
    let first: Value = serde_json::from_str(exported.lines().next().unwrap()).unwrap();
    assert!(first["salts"]["result"].is_string());
    let key = first["log_key"].as_str().unwrap();
    shell.ok(&["receipts", "verify", "all.jsonl", "--log-key", key]);
    // Any character of the proof, or of the receipt beside it.
    let proof = first["proof"].as_str().unwrap();
    for at in (0..proof.len()).step_by(7) {
        let mut changed = first.clone();
        let mut text = proof.to_owned().into_bytes();
        text[at] = if text[at] == b'A' { b'B' } else { b'A' };
        changed["proof"] = json!(String::from_utf8_lossy(&text));
        fs::write(shell.path("changed.jsonl"), changed.to_string()).unwrap();
        let ran = shell.run(&["receipts", "verify", "changed.jsonl", "--log-key", key]);
        assert_eq!(ran.code, Some(2), "character {at}: {ran:?}");
    }
    let mut changed = first.clone();
    changed["receipt"]["tool"] = json!("other");
    fs::write(shell.path("changed.jsonl"), changed.to_string()).unwrap();
    assert_eq!(shell.run(&["receipts", "verify", "changed.jsonl"]).code, Some(2));

    // In the database itself.
    let database = shell.path("state/bad/1/receipts/000001/ledger.db");
    let change = |sql: &str| {
        let raw = rusqlite::Connection::open(&database).unwrap();
        raw.execute_batch("DROP TRIGGER IF EXISTS entries_are_never_changed").unwrap();
        raw.execute_batch(sql).unwrap();
    };
    let found = |what: &str| {
        let ran = shell.run(&["receipts", "verify", "--state", "state"]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stdout.contains(what), "{what}: {ran:?}");
    };
    change("UPDATE entries SET entry = replace(entry, '\"accept\"', '\"block\"') WHERE seq = 2");
    found("were changed, or are gone");
    let transcript = &transcripts(&real)[0].1;
    let (code, report) = check(&shell, "openai.json", transcript);
    assert_eq!((code, &report["summary"]["unproven"]), (Some(2), &json!(1)), "{report:#}");
    change("UPDATE entries SET entry = replace(entry, '\"block\"', '\"accept\"') WHERE seq = 2");
    change("UPDATE checkpoint SET note = replace(note, 'guard/bad', 'guard/bat')");
    found("segment 1");
}

/// Old receipts make room for new ones; what stays of them adds up, and claims of then are not called invented.
#[test]
fn receipts_are_bounded_and_their_proofs_stay() {
    let shell = Shell::new();
    let mut session = Session::start(&shell, &["--mode", "observe", "--max-receipts", "1"]);
    let first = session.call("echo", json!({ "n": "first" }));
    for n in 0..3_000 {
        session.call("echo", json!({ "n": n, "text": "some words that take a little room" }));
    }
    let last = session.call("weather", json!({ "city": "Oslo" }));
    session.leave();
    let folder = shell.path("state/bad/1/receipts");
    let kept =
        fs::read_dir(&folder).unwrap().filter(|file| file.as_ref().unwrap().path().extension().is_some()).count();
    assert!(kept > 0, "segments were let go");
    assert!(receipts(&shell).len() < 3_000);
    verifies(&shell);
    let told = [("echo", json!({ "n": "first" }), &first), ("weather", json!({ "city": "Oslo" }), &last)];
    let told: Vec<Real> = told
        .into_iter()
        .map(|(tool, arguments, answer)| {
            let mut result = answer["result"].clone();
            result.as_object_mut().unwrap().remove("_meta");
            Real { tool, arguments, result }
        })
        .collect();
    let (code, report) = check(&shell, "old.jsonl", &transcripts(&told)[2].1);
    assert_eq!(statuses(&report), ["unknown", "executed"], "{report:#}");
    assert_eq!(code, Some(2));
    let call = super::receipt_of(&first);
    shell.fails(&["receipts", "show", call, "--state", "state"], "was let go with segment 1");
    // What is kept is checked too.
    let file = folder.join("000001.kept");
    let mut text: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let leaf = text["entries"][0][0].as_str().unwrap().to_owned();
    let other = if leaf.starts_with('A') { "B" } else { "A" };
    text["entries"][0][0] = json!(format!("{other}{}", &leaf[1..]));
    fs::write(&file, text.to_string()).unwrap();
    assert_eq!(shell.run(&["receipts", "verify", "--state", "state"]).code, Some(2));
}

#[test]
fn status_shows_tools_and_charts() {
    let shell = Shell::new();
    let mut session = Session::start(&shell, &["--canaries", "1", "--agent", "bot"]);
    for n in 0..40 {
        session.call("weather", json!({ "city": format!("City {n}") }));
    }
    session.call("error", json!({}));
    session.leave();
    let status = shell.json(&["guard", "status", "--state", "state"]);
    let tool = status["tools"].as_array().unwrap().iter().find(|tool| tool["tool"] == "weather").unwrap();
    assert_eq!((&tool["calls"], tool["latency"]["recent"].as_array().unwrap().len()), (&json!(40), 40));
    let canaries = status["guards"][0]["canaries"][0].as_u64().unwrap();
    assert!(canaries >= 30, "{status:#}");
    let text = shell.ok(&["guard", "status", "--state", "state"]);
    assert!(text.contains("weather") && text.contains('•') && text.contains("canaries caught"), "{text}");
    shell.fails(&["guard", "status", "--state", "state", "--tool", "error", "--plot", "none.svg"], "8 calls or more");
    shell.ok(&["guard", "status", "--state", "state", "--tool", "weather", "--plot", "latency.svg"]);
    let drawn = fs::read_to_string(shell.path("latency.svg")).unwrap();
    assert!(drawn.contains("weather: latency") && drawn.contains("Latency, ms"), "{drawn}");
    let call = receipts(&shell).into_values().find(|one| one["tool"] == "error").unwrap();
    assert_eq!(call["outcome"], "protocol_error");
    let shown = shell.ok(&["receipts", "show", call["call"].as_str().unwrap(), "--state", "state"]);
    assert!(shown.contains("verified"), "{shown}");
}
