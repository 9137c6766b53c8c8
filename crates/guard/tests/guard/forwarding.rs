//! What a client sends: nothing that a lenient server reads otherwise goes on, and each call is written down before it does.

use std::{fs, io::Write};

use credence_testing::{PATIENCE, Shell, binary, peers::program};
use serde_json::{Value, json};

use super::{Session, receipts, verifies};

/// A server that reads as leniently as any, in front of which `flags` run.
fn lenient(shell: &Shell, flags: &[&str]) -> Session {
    let mut all = vec!["guard", "--state", "state", "--name", "lenient"];
    all.extend(flags);
    let mut command = shell.command(&all);
    command.args(["--", "python3"]).arg(program("lenient_server.py")).arg(shell.path("executed"));
    Session::spawn(shell, command)
}

fn executed(shell: &Shell) -> usize {
    fs::read_to_string(shell.path("executed")).unwrap_or_default().lines().count()
}

/// Each of these made an official SDK server, or one more lenient, execute a tool without a receipt.
fn bypasses() -> Vec<(&'static str, Vec<u8>)> {
    let call = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","arguments":{}}}"#;
    let text = |text: String| text.into_bytes();
    vec![
        ("line break", text(format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\",\"params\":\r{call}\r}}"))),
        ("twice", text(call.replacen('{', r#"{"method":"ping","#, 1))),
        ("twice", text(call.replace("\"arguments\":{}", "\"arguments\":{},\"name\":\"t\""))),
        ("not JSON", text(call.replace("{}", r#"{"x":NaN}"#))),
        ("not JSON", text(format!("{call}{call}"))),
        ("not JSON", text(format!("\u{feff}{call}"))),
        ("UTF-8", [&b"{\"x\":\"\xff\","[..], &call.as_bytes()[1..]].concat()),
        ("no such member", text(call.replacen('{', r#"{"Method":"tools/call","#, 1))),
        ("without an id", text(call.replace("\"id\":7,", ""))),
        ("an id is", text(call.replace("\"id\":7", "\"id\":null"))),
        ("case", text(call.replace("tools/call", "Tools/Call"))),
        ("only letters", text(call.replace("tools/call", " tools/call"))),
        ("missing", text(call.replace("\"jsonrpc\":\"2.0\",", ""))),
        ("almost like", text(call.replace("\"arguments\":{}", "\"Arguments\":{}"))),
        ("list without", text("[]".to_owned())),
        ("a JSON object", text(format!("[[{call}]]"))),
        ("control character", text(format!("{call}\0"))),
    ]
}

#[test]
fn what_a_lenient_server_would_execute_without_a_receipt_is_not_forwarded() {
    let shell = Shell::new();
    let mut session = lenient(&shell, &["--explain-refusal"]);
    for (why, bytes) in bypasses() {
        session.send_bytes(&bytes);
        let line = session.line().unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        let error = match &answer {
            Value::Array(all) => &all[0]["error"],
            one => &one["error"],
        };
        let said = error["message"].as_str().unwrap_or_default();
        assert!(said.contains("not forwarded") && said.contains(why), "{why}: {line}");
        assert!(said.contains("(byte "), "{line}");
        assert!(matches!(error["code"].as_i64(), Some(-32700 | -32600)), "{line}");
    }
    assert!(session.call("t", json!({}))["result"].is_object(), "what can be read goes on");
    session.leave();
    assert_eq!((executed(&shell), receipts(&shell).len()), (1, 1));
    verifies(&shell);
}

#[test]
fn a_refusal_names_its_request_and_keeps_its_text_to_itself() {
    let shell = Shell::new();
    let mut session = lenient(&shell, &[]);
    session.send_raw(r#"{"jsonrpc":"2.0","id":"a","method":"ping","x":"secret"}"#);
    let answer: Value = serde_json::from_str(&session.line().unwrap()).unwrap();
    assert_eq!(answer["id"], "a");
    session
        .send_raw(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"p","x":"secret"}]"#);
    let answer: Value = serde_json::from_str(&session.line().unwrap()).unwrap();
    assert_eq!((&answer[0]["id"], &answer[1]["id"]), (&json!(1), &json!(2)), "nothing of it was sent: {answer}");
    session.send_raw("secret");
    let answer: Value = serde_json::from_str(&session.line().unwrap()).unwrap();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32700)));
    assert!(answer["error"]["message"].as_str().unwrap().contains("--explain-refusal"));
    session.leave();
    assert!(!session.stderr().contains("secret"), "{}", session.stderr());
    assert_eq!(executed(&shell), 0);
}

/// Two requests of one id: the answer of one could be booked to the other, and a receipt would tell a lie.
#[test]
fn an_id_under_way_is_not_used_again() {
    let shell = Shell::new();
    let mut session = lenient(&shell, &[]);
    let call = |id: u32, tool: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{}}}}}}"#)
    };
    session.send_raw(&call(7, "never"));
    for again in [call(7, "t"), r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#.to_owned()] {
        session.send_raw(&again);
        let line = session.line().unwrap();
        assert!(line.contains("a request with this id is under way"), "{line}");
    }
    session.send_raw(&format!("[{},{}]", call(8, "t"), call(8, "t")));
    assert!(session.line().unwrap().contains("under way"));
    session.send_raw(&call(9, "t"));
    assert!(session.line().unwrap().contains("\"id\": 9"));
    session.send_raw(&call(9, "t"));
    assert!(session.line().unwrap().contains("structuredContent"), "once it is answered an id is free again");
    session.kill();
    assert_eq!((executed(&shell), receipts(&shell).len()), (3, 3));
}

/// Line separators are legal in strings, and some readers split lines at them.
#[test]
fn what_is_forwarded_is_one_line_to_every_reader() {
    let shell = Shell::new();
    let mut session = lenient(&shell, &[]);
    let odd = "a\u{2028}b\u{2029}c\u{85}d";
    let answer = session.call("t", json!({ "echo": odd }));
    assert_eq!(answer["result"]["structuredContent"]["echo"], odd);
    session.leave();
    assert_eq!((executed(&shell), receipts(&shell).len()), (1, 1));
}

/// The guard is killed while the tool runs: the effect is there, and so is the call.
#[test]
fn a_call_whose_guard_is_killed_ends_as_unanswered() {
    let shell = Shell::new();
    let mut session = lenient(&shell, &["--agent", "bot"]);
    session.send("never", json!({ "x": 1 }));
    credence_testing::eventually("the tool runs", || (executed(&shell) == 1).then_some(()));
    session.kill();
    let unanswered = |why: &str| {
        let all = receipts(&shell);
        assert_eq!(all.len(), 1);
        let one = all.values().next().unwrap();
        assert_eq!(
            (&one["outcome"], &one["tool"], &one["agent"]),
            (&json!("unanswered"), &json!("never"), &json!("bot"))
        );
        assert!(one["unjudged"].as_str().unwrap().contains(why), "{one}");
        one.clone()
    };
    let left = unanswered("the guard ended");
    // The next guard signs it.
    lenient(&shell, &[]).leave();
    assert_eq!(unanswered("the guard ended")["call"], left["call"]);
    verifies(&shell);
}

#[test]
fn a_line_planted_in_the_journal_is_not_signed() {
    let shell = Shell::new();
    let mut session = lenient(&shell, &[]);
    session.call("t", json!({}));
    session.send("never", json!({}));
    credence_testing::eventually("the tool runs", || (executed(&shell) == 2).then_some(()));
    session.kill();
    let journal = shell.path("state/lenient/1/receipts/journal");
    let text = fs::read_to_string(&journal).unwrap();
    let line = text.lines().find(|line| line.contains("\"never\"")).unwrap();
    let mut file = fs::OpenOptions::new().append(true).open(&journal).unwrap();
    writeln!(file, "{}", line.replace("\"never\"", "\"planted\"")).unwrap();
    let mut next = lenient(&shell, &[]);
    next.leave();
    assert!(next.stderr().contains("1 lines in the journal were not written by this guard"), "{}", next.stderr());
    // Readers say that something was wrong.
    let listed = shell.run(&["receipts", "list", "--state", "state", "--json"]);
    assert_eq!(listed.code, Some(2), "{listed:?}");
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let tools: Vec<_> = listed["receipts"].as_array().unwrap().iter().map(|one| one["tool"].clone()).collect();
    assert_eq!(tools, ["t", "never"]);
}

/// Over HTTP: bodies that the guard cannot read as the server would.
#[test]
fn what_a_lenient_server_would_execute_over_http_is_not_forwarded() {
    let shell = Shell::new();
    let text = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
    let server = [text(program("lenient_server.py")), text(shell.path("executed")), "--http".to_owned()];
    let upstream = super::peers::listen(&[["python3".to_owned()].as_slice(), &server].concat(), |line| {
        Some(format!("http://127.0.0.1:{}/mcp", line.split("listening on ").nth(1)?.trim()))
    });
    let state = text(shell.path("state"));
    let flags = ["guard", "--state", &state, "--name", "h", "--listen", "127.0.0.1:0", "--upstream", &upstream.1];
    let command: Vec<String> = [binary()].into_iter().chain(flags).map(str::to_owned).collect();
    let proxy = super::peers::listen(&command, super::peers::guard_address);
    let client = reqwest::blocking::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
    let call = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","arguments":{}}}"#;
    let zipped = "import gzip, sys; sys.stdout.buffer.write(gzip.compress(sys.argv[1].encode()))";
    let gzip = std::process::Command::new("python3").args(["-c", zipped, call]).output().unwrap().stdout;
    let json_type = "application/json";
    let mut cases: Vec<(Vec<u8>, &str, Option<&str>)> = vec![
        (gzip, json_type, Some("gzip")),
        (call.encode_utf16().flat_map(u16::to_le_bytes).collect(), "application/json; charset=utf-16", None),
        (call.as_bytes().to_vec(), "text/plain", None),
    ];
    // A null byte is not sent over HTTP by this client, and a line break is harmless in a document.
    let bodies = bypasses().into_iter().filter(|(why, _)| *why != "line break");
    cases.extend(bodies.map(|(_, bytes)| (bytes, json_type, None)));
    for (body, kind, encoding) in cases {
        let shown = body.escape_ascii().to_string();
        let mut request = client.post(&proxy.1).header("content-type", kind).body(body);
        if let Some(encoding) = encoding {
            request = request.header("content-encoding", encoding);
        }
        let reply = request.send().unwrap();
        assert!(matches!(reply.status().as_u16(), 400 | 415), "{}: {shown}", reply.status());
        assert!(reply.text().unwrap().contains("not forwarded"), "{shown}");
        assert_eq!(executed(&shell), 0, "{shown}");
    }
    let pretty = serde_json::to_string_pretty(&serde_json::from_str::<Value>(call).unwrap()).unwrap();
    let post = || client.post(&proxy.1).header("content-type", json_type);
    let reply = post().header("x-http-method-override", "DELETE").body(pretty).send().unwrap();
    assert_eq!(reply.status().as_u16(), 200);
    let other_path = proxy.1.replace("/mcp", "/elsewhere");
    client.post(other_path).header("content-type", json_type).body(call).send().unwrap();
    assert_eq!((executed(&shell), receipts(&shell).len()), (2, 2), "wherever it is sent, a call has a receipt");
}
