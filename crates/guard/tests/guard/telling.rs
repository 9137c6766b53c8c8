//! Whom a guard tells: alerts by a command and a webhook, metrics in a file and on a socket, spans to a collector. The receivers here are
//! stubs on loopback that take in what arrives and decode it.

use std::{
    fs,
    io::{BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::net::UnixStream,
    sync::mpsc::{self, Receiver},
};

use credence_testing::{PATIENCE, Shell, eventually, read_request};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest, common::v1::any_value::Value as OtlpValue, trace::v1::Span,
};
use prost::Message as _;
use serde_json::{Value, json};

use super::{
    Session,
    operating::{PROFILE, bad, configure, is_withheld, session},
    receipt_of,
};

/// A stub that answers each request with `status` and gives what it got: head and body.
fn stub(status: &'static str) -> (String, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (send, got) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, send) = (stream.unwrap(), send.clone());
            std::thread::spawn(move || answer_all(stream, status, &send));
        }
    });
    (url, got)
}

fn answer_all(stream: TcpStream, status: &str, send: &mpsc::Sender<Vec<u8>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let request = read_request(&mut reader);
        if request.is_empty() || send.send(request).is_err() {
            return;
        }
        if write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").is_err() {
            return;
        }
    }
}

fn split(request: &[u8]) -> (String, Vec<u8>) {
    let end = request.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
    (String::from_utf8(request[..end].to_vec()).unwrap(), request[end..].to_vec())
}

fn alerts(shell: &Shell) -> Value {
    shell.json(&["guard", "status", "--state", "state"])["guards"][0]["says"]["alerts"].clone()
}

#[test]
fn a_webhook_is_told_of_blocks_and_lock_outs_and_never_of_content() {
    let shell = Shell::new();
    let (url, got) = stub("204 No Content");
    configure(
        &shell,
        &format!(
            "mode = \"enforce\"\n[alerts.webhook]\nurl = \"{url}/hook\"\nheader = \"Authorization\"\nenv = \"HOOK_SECRET\"\n"
        ),
    );
    let server = credence_testing::peers::program("bad_server.py");
    fs::write(shell.path("profiles.toml"), PROFILE).unwrap();
    let flags = [
        "guard",
        "--state",
        "state",
        "--name",
        "bad",
        "--profiles",
        "profiles.toml",
        "--",
        "python3",
        server.to_str().unwrap(),
    ];
    let mut command = shell.command(&flags);
    command.env("HOOK_SECRET", "Bearer s3cret");
    let mut guard = Session::spawn(&shell, command);
    let mut calls = Vec::new();
    for _ in 0..6 {
        let answer = guard.call("echo", bad());
        assert!(is_withheld(&answer), "{answer}");
        calls.push(receipt_of(&answer).to_owned());
    }
    let mut told: Vec<Value> = Vec::new();
    while told.len() < 7 {
        let (head, body) = split(&got.recv_timeout(PATIENCE).unwrap());
        assert!(head.starts_with("POST /hook HTTP/1.1") && head.contains("Bearer s3cret"), "{head}");
        let text = String::from_utf8(body).unwrap();
        assert!(!text.contains("hunter2") && !text.contains("secret"), "no arguments, no results: {text}");
        told.push(serde_json::from_str(&text).unwrap());
    }
    let of = |kind: &str| told.iter().filter(|one| one["kind"] == kind).cloned().collect::<Vec<Value>>();
    let blocked = of("block");
    assert_eq!(blocked.iter().map(|one| one["call"].as_str().unwrap()).collect::<Vec<_>>(), calls);
    assert!(blocked.iter().all(|one| one["tool"] == "echo" && one["verdict"] == "block" && one["server"] == "bad"));
    let locked = of("lock_out");
    assert_eq!((locked.len(), &locked[0]["call"]), (1, &json!(calls[4])), "once, at the fifth in a row: {told:?}");
    guard.leave();
    assert_eq!(alerts(&shell)["sent"], 7);
    let kept = fs::read_to_string(shell.path("state/bad/1/guard.json")).unwrap();
    assert!(!kept.contains("s3cret") && !guard.stderr().contains("s3cret"), "the secret stays where it is");
}

/// A client that does not set the variable must not lose its tools for it.
#[test]
fn without_the_secret_of_its_webhook_a_guard_starts_and_says_that_alerts_are_off() {
    let shell = Shell::new();
    let (url, got) = stub("204 No Content");
    let told = shell.path("told.jsonl");
    let command = serde_json::to_string(&["sh", "-c", &format!("cat >> '{}'", told.display())]).unwrap();
    configure(
        &shell,
        &format!(
            "[alerts]\ncommand = {command}\n[alerts.webhook]\nurl = \"{url}/\"\nheader = \"Authorization\"\nenv = \"HOOK_SECRET\"\n"
        ),
    );
    let mut guard = session(&shell, &["--mode", "enforce"]);
    assert!(is_withheld(&guard.call("echo", bad())), "it judges");
    guard.leave();
    assert!(guard.stderr().contains("alerts are not sent to the webhook: the environment has no HOOK_SECRET"));
    assert!(fs::read_to_string(told).unwrap().contains("\"block\""), "the other receiver is told");
    assert!(got.try_recv().is_err());
    assert!(alerts(&shell)["off"].as_str().unwrap().contains("HOOK_SECRET"));
    let status = shell.ok(&["guard", "status", "--state", "state"]);
    assert!(
        status.contains("ALERTS ARE OFF: the webhook gets nothing: the environment has no HOOK_SECRET"),
        "{status}"
    );
}

/// A tool server that had the webhook's secret could send alerts of its own.
#[test]
fn neither_the_server_nor_the_alerts_program_gets_the_guards_secrets() {
    const SECRETS: [&str; 4] =
        ["HOOK_SECRET", "CREDENCE_GUARD_TOKEN", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"];
    let shell = Shell::new();
    let (url, got) = stub("204 No Content");
    let seen = |name: &str| shell.path(name).display().to_string();
    let command = serde_json::to_string(&["sh", "-c", &format!("env > '{}'", seen("alert.env"))]).unwrap();
    configure(
        &shell,
        &format!(
            "[alerts]\ncommand = {command}\n[alerts.webhook]\nurl = \"{url}/\"\nheader = \"Authorization\"\nenv = \"HOOK_SECRET\"\n"
        ),
    );
    fs::write(shell.path("profiles.toml"), PROFILE).unwrap();
    let server = credence_testing::peers::program("bad_server.py");
    let started = format!("env > '{}'; exec python3 '{}'", seen("server.env"), server.display());
    let flags =
        ["guard", "--state", "state", "--name", "bad", "--profiles", "profiles.toml", "--", "sh", "-c", &started];
    let mut command = shell.command(&flags);
    for name in SECRETS {
        command.env(name, "Authorization=s3cret");
    }
    command.env("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf");
    let mut guard = Session::spawn(&shell, command);
    guard.call("echo", bad());
    guard.leave();
    let (head, _) = split(&got.recv_timeout(PATIENCE).unwrap());
    assert!(head.contains("Authorization=s3cret"), "the guard has it: {head}");
    for name in ["server.env", "alert.env"] {
        let environment = fs::read_to_string(shell.path(name)).unwrap();
        assert!(environment.contains("PATH=") && !environment.contains("s3cret"), "{name}: {environment}");
        assert!(environment.contains("OTEL_EXPORTER_OTLP_PROTOCOL"), "what is no secret is handed on: {name}");
    }
}

#[test]
fn a_webhook_that_is_away_holds_up_nobody_and_is_counted() {
    let shell = Shell::new();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    configure(&shell, &format!("[alerts.webhook]\nurl = \"http://{nobody}/\"\n"));
    let mut guard = session(&shell, &[]);
    guard.call("echo", bad());
    let failed = eventually("the failure is told", || alerts(&shell)["failed"].as_u64().filter(|failed| *failed == 1));
    assert_eq!(failed, 1);
    assert_eq!(guard.call("weather", json!({ "city": "Oslo" }))["result"]["isError"], Value::Null);
    guard.leave();
    assert!(alerts(&shell)["error"].as_str().unwrap().contains("cannot be reached"));
    assert!(shell.ok(&["guard", "status", "--state", "state"]).contains("alerts: 0 sent, 1 failed"));
}

#[test]
fn a_command_gets_the_alert_in_variables_and_on_standard_input() {
    let shell = Shell::new();
    let told = shell.path("told.jsonl");
    let script = format!(
        "cat >> '{0}'; printf '%s %s %s\\n' \"$CREDENCE_ALERT_KIND\" \"$CREDENCE_ALERT_TOOL\" \"${{CREDENCE_GUARD_KEY-none}}\" >> '{0}'",
        told.display()
    );
    let command = serde_json::to_string(&["sh", "-c", &script]).unwrap();
    configure(&shell, &format!("[alerts]\non = [\"block\"]\ncommand = {command}\n"));
    let mut guard = session(&shell, &[]);
    let call = receipt_of(&guard.call("echo", bad())).to_owned();
    guard.leave();
    let text = fs::read_to_string(&told).unwrap();
    let alert: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!((&alert["kind"], &alert["reason"], &alert["call"]), (&json!("block"), &json!("blocked"), &json!(call)));
    assert_eq!(text.lines().nth(1), Some("block echo none"), "the guard's key is not handed on");
    assert!(!text.contains("hunter2"));
}

/// A server whose tool `get` declares what the file `schema.json` says.
const DECLARING: &str = r#"
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    tool = {"name": "get", "inputSchema": {"type": "object"}, "outputSchema": json.load(open("schema.json"))}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": {"tools": [tool]}}), flush=True)
"#;

#[test]
fn a_looser_schema_is_told() {
    let shell = Shell::new();
    let (url, got) = stub("200 OK");
    configure(&shell, &format!("[alerts.webhook]\nurl = \"{url}/\"\n"));
    fs::write(shell.path("server.py"), DECLARING).unwrap();
    for (n, required) in [json!(["a", "b"]), json!([])].into_iter().enumerate() {
        let schema = json!({ "type": "object", "properties": { "a": { "type": "number" } }, "required": required });
        fs::write(shell.path("schema.json"), schema.to_string()).unwrap();
        let flags = ["guard", "--state", "state", "--name", "db", "--", "python3", "./server.py"];
        let mut guard = Session::spawn(&shell, shell.command(&flags));
        guard.send_raw(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
        guard.answer(1);
        guard.leave();
        let told = got.try_recv().ok().map(|request| serde_json::from_slice::<Value>(&split(&request).1).unwrap());
        let told = told.map(|alert| (alert["kind"].clone(), alert["reason"].clone(), alert["tool"].clone()));
        let looser = (json!("tampering"), json!("schema_loosened"), json!("get"));
        assert_eq!(told, (n == 1).then_some(looser), "{}", guard.stderr());
    }
}

/// A planted line in the journal, and a ledger that does not verify: each is told.
#[test]
fn tampering_is_told() {
    let shell = Shell::new();
    let (url, got) = stub("200 OK");
    configure(&shell, &format!("[alerts]\non = [\"tampering\"]\n[alerts.webhook]\nurl = \"{url}/\"\n"));
    let mut guard = session(&shell, &[]);
    guard.call("echo", bad());
    guard.leave();
    let journal = shell.path("state/bad/1/receipts/journal");
    fs::write(&journal, format!("{} {{\"kind\":\"receipt\"}}\n", "A".repeat(43))).unwrap();
    let mut guard = session(&shell, &[]);
    guard.leave();
    let (_, body) = split(&got.recv_timeout(PATIENCE).unwrap());
    let alert: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&alert["kind"], &alert["reason"]), (&json!("tampering"), &json!("journal_forged")));
    // The signed checkpoint of another log: the ledger does not extend it.
    fs::write(shell.path("state/bad/1/receipts/000001/checkpoint"), "not a checkpoint\n").unwrap();
    let mut guard = session(&shell, &[]);
    guard.leave();
    let (_, body) = split(&got.recv_timeout(PATIENCE).unwrap());
    let alert: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(alert["reason"], "ledger_unusable", "{alert}; {}", guard.stderr());
}

/// The engine's own notices of a tool that has changed for good reach somebody.
#[test]
fn a_change_is_told() {
    let shell = Shell::new();
    let (url, got) = stub("200 OK");
    configure(&shell, &format!("[alerts]\non = [\"change\"]\n[alerts.webhook]\nurl = \"{url}/\"\n"));
    let mut guard = Session::start(&shell, &["--mode", "observe"]);
    for n in 0..60 {
        guard.call("echo", json!({ "id": n, "name": format!("customer {n}"), "city": "Oslo", "active": true }));
    }
    for n in 0..80 {
        guard.call(
            "echo",
            json!({ "key": format!("k-{n}"), "label": format!("Customer No. {n}"), "tags": ["new"], "score": 0.5 }),
        );
    }
    guard.leave();
    let mut reasons = Vec::new();
    while let Ok(request) = got.try_recv() {
        let alert: Value = serde_json::from_slice(&split(&request).1).unwrap();
        assert_eq!((&alert["kind"], &alert["tool"]), (&json!("change"), &json!("echo")));
        assert!(!alert.to_string().contains("Customer"), "{alert}");
        reasons.push(alert["reason"].as_str().unwrap().to_owned());
    }
    let known = |reason: &String| ["recurring", "learned", "believed_again"].contains(&reason.as_str());
    assert!(!reasons.is_empty() && reasons.iter().all(known), "{reasons:?}");
    assert!(shell.json(&["guard", "status", "--state", "state"])["guards"][0]["says"]["changes"].as_u64() > Some(1));
}

/// The value of the line that begins with `line`.
fn number(text: &str, line: &str) -> Option<f64> {
    text.lines().find_map(|one| one.strip_prefix(line)?.trim().parse().ok())
}

#[test]
fn metrics_are_in_a_file() {
    let shell = Shell::new();
    configure(
        &shell,
        &format!("mode = \"enforce\"\n[metrics]\nfile = \"{}/{{server}}.prom\"\n", shell.folder.path().display()),
    );
    let mut guard = session(&shell, &[]);
    guard.call("echo", bad());
    guard.call("echo", json!({ "temperature": 18, "humidity": 60 }));
    guard.call("error", json!({}));
    guard.leave();
    let text = fs::read_to_string(shell.path("bad.prom")).unwrap();
    for (line, value) in [
        ("credence_guard_calls_total{server=\"bad\",place=\"bad/1\",tool=\"echo\",verdict=\"block\"}", 1.0),
        ("credence_guard_calls_total{server=\"bad\",place=\"bad/1\",tool=\"echo\",verdict=\"accept\"}", 1.0),
        ("credence_guard_withheld_total{server=\"bad\",place=\"bad/1\",tool=\"echo\"}", 1.0),
        ("credence_guard_unjudged_total{server=\"bad\",place=\"bad/1\",tool=\"error\"}", 1.0),
        ("credence_guard_added_seconds_count{server=\"bad\",place=\"bad/1\",direction=\"to_client\"}", 3.0),
        ("credence_guard_journal_records{server=\"bad\",place=\"bad/1\"}", 0.0),
        ("credence_guard_enforcing{server=\"bad\",place=\"bad/1\"}", 1.0),
        ("credence_guard_switched_off{server=\"bad\",place=\"bad/1\"}", 0.0),
        ("credence_guard_alerts{server=\"bad\",place=\"bad/1\",outcome=\"sent\"}", 0.0),
        ("credence_guard_up{server=\"bad\",place=\"bad/1\"}", 0.0),
    ] {
        assert_eq!(number(&text, line), Some(value), "{line}\n{text}");
    }
    assert!(!text.contains("hunter2"));
    is_prometheus_text(&text);
}

/// Prometheus' text form: every sample belongs to the family described above it, under the family's name and what its type adds.
fn is_prometheus_text(text: &str) {
    let mut family = ("", "");
    for line in text.lines() {
        if let Some(described) = line.strip_prefix("# TYPE ") {
            family = described.split_once(' ').unwrap();
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let name = line.split(['{', ' ']).next().unwrap();
        let added = name.strip_prefix(family.0).unwrap_or_else(|| panic!("{line} is not of {family:?}"));
        let of_kind: &[&str] = if family.1 == "histogram" { &["_sum", "_count", "_bucket"] } else { &[""] };
        assert!(of_kind.contains(&added), "{line} is not of {family:?}");
        assert!(family.1 != "counter" || name.ends_with("_total"), "{line}");
        let value = line.rsplit(' ').next().unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
    assert!(text.contains("# TYPE credence_guard_calls_total counter\n") && text.ends_with('\n'), "{text}");
}

#[test]
fn metrics_are_on_a_socket() {
    let shell = Shell::new();
    let folder = shell.folder.path().display();
    configure(&shell, &format!("[metrics]\nsocket = \"{folder}/{{server}}.sock\"\n"));
    // What a guard that was killed has left.
    drop(std::os::unix::net::UnixListener::bind(shell.path("bad.sock")).unwrap());
    let mut guard = session(&shell, &[]);
    guard.call("weather", json!({ "city": "Oslo" }));
    // The client has its answer before the call is counted.
    eventually("the call is counted", || {
        let mut stream = UnixStream::connect(shell.path("bad.sock")).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: guard\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"), "{text}");
        assert!(text.contains("credence_guard_up{server=\"bad\",place=\"bad/1\"} 1\n"), "{text}");
        let counted =
            "credence_guard_calls_total{server=\"bad\",place=\"bad/1\",tool=\"weather\",verdict=\"accept\"} 1";
        text.contains(counted).then_some(())
    });
    // A second guard of the same server has its own.
    let mut second = session(&shell, &[]);
    second.call("weather", json!({ "city": "Rome" }));
    let mut stream = UnixStream::connect(shell.path("bad-2.sock")).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: guard\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let mut series = text.lines().filter(|line| line.starts_with("credence_guard_"));
    assert!(series.all(|line| line.contains("server=\"bad\",place=\"bad/2\"")), "{text}");
    second.leave();
    guard.leave();
}

fn attribute(span: &Span, key: &str) -> Option<String> {
    let value = span.attributes.iter().find(|one| one.key == key)?.value.clone()?.value?;
    Some(match value {
        OtlpValue::StringValue(text) => text,
        OtlpValue::BoolValue(value) => value.to_string(),
        OtlpValue::DoubleValue(value) => value.to_string(),
        other => format!("{other:?}"),
    })
}

#[test]
fn every_call_is_a_span_by_the_conventions() {
    let shell = Shell::new();
    let (url, got) = stub("200 OK");
    configure(&shell, &format!("mode = \"enforce\"\n[telemetry]\notlp_endpoint = \"{url}\"\n"));
    let mut guard = session(&shell, &[]);
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let params =
        json!({ "name": "echo", "arguments": bad(), "_meta": { "traceparent": parent, "credence/session": "s-1" } });
    guard.send_raw(&json!({ "jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": params }).to_string());
    let withheld = guard.answer(77);
    guard.call("weather", json!({ "city": "Oslo" }));
    guard.leave();
    let mut spans: Vec<Span> = Vec::new();
    while spans.len() < 2 {
        let (head, body) = split(&got.recv_timeout(PATIENCE).unwrap());
        assert!(head.starts_with("POST /v1/traces"), "{head}");
        assert!(!String::from_utf8_lossy(&body).contains("hunter2"), "no arguments, no results");
        let request = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
        let scopes = request.resource_spans.into_iter().flat_map(|one| one.scope_spans);
        spans.extend(scopes.flat_map(|one| one.spans));
    }
    let span = spans.iter().find(|span| span.name == "tools/call echo").unwrap();
    assert_eq!(span.kind, 3, "client");
    assert_eq!(data_encoding::HEXLOWER.encode(&span.trace_id), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(data_encoding::HEXLOWER.encode(&span.parent_span_id), "00f067aa0ba902b7");
    assert!(span.end_time_unix_nano >= span.start_time_unix_nano && span.start_time_unix_nano > 0);
    for (key, value) in [
        ("mcp.method.name", "tools/call"),
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "echo"),
        ("jsonrpc.request.id", "77"),
        ("mcp.session.id", "s-1"),
        ("network.transport", "pipe"),
        ("credence.server", "bad"),
        ("credence.verdict", "block"),
        ("credence.withheld", "true"),
        ("credence.mode", "enforce"),
        ("error.type", "withheld"),
    ] {
        assert_eq!(attribute(span, key).as_deref(), Some(value), "{key}: {span:?}");
    }
    assert_eq!(attribute(span, "credence.call").as_deref(), Some(receipt_of(&withheld)));
    let fine = spans.iter().find(|span| span.name == "tools/call weather").unwrap();
    assert_eq!((attribute(fine, "error.type"), attribute(fine, "mcp.session.id")), (None, None));
}

/// A collector that is away costs a call nothing, and the guard ends all the same.
#[test]
fn a_collector_that_is_away_holds_up_nobody() {
    let shell = Shell::new();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    configure(&shell, &format!("[telemetry]\notlp_endpoint = \"http://{nobody}\"\n"));
    let mut guard = session(&shell, &[]);
    for n in 0..20 {
        assert_ne!(guard.call("weather", json!({ "city": format!("City {n}") }))["result"]["isError"], true);
    }
    assert_eq!(guard.leave(), Some(0), "{}", guard.stderr());
}
