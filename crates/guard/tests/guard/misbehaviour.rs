//! Servers and clients that do what they should not: the session survives where it can, and no receipt is lost or doubled.

use credence_testing::{Shell, binary, peers::program};
use serde_json::{Value, json};

use super::{Session, receipt_of, receipts, verifies};

fn good(session: &mut Session) {
    let answer = session.call("weather", json!({ "city": "Oslo" }));
    assert!(answer["result"]["structuredContent"].is_object(), "{answer}");
}

/// A server that crashes: the call that waited gets an error that says so, and a receipt.
#[test]
fn a_crash_is_told_and_recorded() {
    let shell = Shell::new();
    let mut session = Session::start(&shell, &[]);
    good(&mut session);
    let answer = session.call("crash", json!({}));
    let said = answer["error"]["message"].as_str().unwrap();
    assert!(said.contains("exit status: 3") && said.contains("do not blindly retry"), "{said}");
    assert_eq!(session.line(), None);
    assert_eq!(session.leave(), Some(3), "the server's own exit code");
    let all = receipts(&shell);
    let mut outcomes: Vec<&str> = all.values().map(|one| one["outcome"].as_str().unwrap()).collect();
    outcomes.sort_unstable();
    assert_eq!(outcomes, ["result", "unanswered"]);
    verifies(&shell);
}

/// A server that never answers, and a client that leaves mid-call.
#[test]
fn a_client_that_leaves_mid_call_leaves_a_receipt() {
    let shell = Shell::new();
    let mut session = Session::start(&shell, &[]);
    good(&mut session);
    let hung = session.send("hang", json!({ "x": 1 }));
    session.send_raw(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": hung}}).to_string(),
    );
    session.leave();
    assert_eq!(session.line(), None, "what was given up is not answered");
    assert_eq!(receipts(&shell).values().filter(|one| one["outcome"] == "unanswered").count(), 1);
    verifies(&shell);
}

/// What is no message is kept from the client, and shown to the operator.
#[test]
fn garbage_is_kept_from_the_client() {
    let shell = Shell::new();
    let mut session = Session::start(&shell, &[]);
    let answer = session.call("garbage", json!({}));
    assert!(answer["result"].is_object(), "{answer}");
    good(&mut session);
    session.leave();
    assert!(session.stderr().contains("something that is not a message"), "{}", session.stderr());
    assert_eq!(receipts(&shell).len(), 2);
}

#[test]
fn answers_that_nobody_waits_for_have_no_receipt_and_do_not_pass_an_enforcing_guard() {
    for mode in ["flag", "enforce"] {
        let shell = Shell::new();
        let mut session = Session::start(&shell, &["--mode", mode]);
        for tool in ["unknown_id", "twice"] {
            let id = session.send(tool, json!({}));
            assert!(session.answer(id)["result"].is_object());
        }
        let last = session.send("weather", json!({ "city": "Oslo" }));
        let mut before: Vec<Value> = Vec::new();
        loop {
            let message: Value = serde_json::from_str(&session.line().unwrap()).unwrap();
            if message["id"] == last {
                break;
            }
            before.push(message);
        }
        let unasked = before.iter().filter(|message| message.get("result").is_some()).count();
        assert_eq!(unasked == 0, mode == "enforce", "{mode}: {before:?}");
        session.leave();
        assert_eq!(receipts(&shell).len(), 3, "{mode}");
        assert!(session.stderr().contains("which nobody waits for"));
        verifies(&shell);
    }
}

/// A line beyond the limit is dropped, whoever waits is told, and the next call works.
#[test]
fn a_line_too_large_to_keep_is_dropped_and_told() {
    let shell = Shell::new();
    let mut session = Session::start(&shell, &["--max-message", "1"]);
    for id_first in [false, true] {
        let answer = session.call("huge", json!({ "bytes": 3_000_000, "id_first": id_first }));
        let said = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{}", answer.to_string().len()));
        assert!(said.contains("was executed") && said.contains("larger than the guard takes"), "{said}");
    }
    good(&mut session);
    // And one that the client sends.
    let id = session.send("echo", json!({ "text": "x".repeat(2_000_000) }));
    assert!(session.answer(id)["error"]["message"].as_str().unwrap().contains("was not sent"));
    good(&mut session);
    session.leave();
    assert_eq!(receipts(&shell).len(), 4);
    verifies(&shell);
}

/// A hundred megabytes within the limit pass as they are, without a verdict.
#[test]
fn a_hundred_megabytes_pass() {
    let shell = Shell::new();
    let mut session = Session::start(&shell, &[]);
    let answer = session.call("huge", json!({ "bytes": 100_000_000 }));
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().len() >= 99_000_000);
    let said = &answer["result"]["_meta"]["credence/guard"];
    assert_eq!(said["failed"], "open");
    assert!(said["unjudged"].as_str().unwrap().contains("are judged"), "{said}");
    good(&mut session);
    session.leave();
    assert_eq!(receipts(&shell).len(), 2);
}

#[test]
fn floods_pieces_and_ends_without_a_newline_are_survived() {
    let shell = Shell::new();
    let mut session = Session::start(&shell, &[]);
    let id = session.send("flood", json!({ "n": 20_000 }));
    let mut notes = 0;
    loop {
        let message: Value = serde_json::from_str(&session.line().unwrap()).unwrap();
        if message["id"] == id && message.get("method").is_none() {
            break;
        }
        notes += 1;
    }
    assert_eq!(notes, 20_000);
    assert!(session.call("split", json!({}))["result"].is_object());
    assert!(session.call("no_newline_exit", json!({}))["result"].is_object());
    assert_eq!(session.line(), None);
    session.leave();
    assert_eq!(receipts(&shell).len(), 3);
    verifies(&shell);
}

/// A result that two readers may read differently does not pass, in no mode.
#[test]
fn an_ambiguous_answer_is_not_taken_for_a_result() {
    for mode in ["observe", "flag", "enforce"] {
        let shell = Shell::new();
        let mut session = Session::start(&shell, &["--mode", mode]);
        let answer = session.call("duplicate_keys", json!({}));
        assert!(answer.get("result").is_none(), "{mode}: {answer}");
        let said = answer["error"]["message"].as_str().unwrap();
        assert!(said.contains("was executed") && said.contains("two ways"), "{said}");
        good(&mut session);
        session.leave();
        let all = receipts(&shell);
        assert_eq!(all.len(), 2);
        assert_eq!(all.values().filter(|one| one["unjudged"].is_string()).count(), 1);
    }
}

/// Two guards of one server at once: each has its own place, and both are found.
#[test]
fn two_guards_on_one_state_do_not_meet() {
    let shell = Shell::new();
    let (mut one, mut two) = (Session::start(&shell, &[]), Session::start(&shell, &[]));
    for session in [&mut one, &mut two] {
        (0..20).for_each(|_| good(session));
    }
    one.leave();
    two.leave();
    assert!(two.stderr().contains("another guard of 'bad' is running") || one.stderr().contains("another guard"));
    assert_eq!(receipts(&shell).len(), 40);
    verifies(&shell);
}

/// Nothing more can be written: an enforcing guard withholds, the others let pass and say so.
#[test]
fn a_full_disk_fails_closed_or_open_as_the_mode_says() {
    for (mode, failed) in [("flag", "open"), ("enforce", "closed")] {
        let shell = Shell::new();
        let server = program("bad_server.py");
        // Files may not grow beyond this many blocks; the signal that says so is ignored, as on a full disk there is none.
        let script = format!(
            "trap '' XFSZ; ulimit -f 600; exec {} guard --state state --name bad --mode {mode} -- python3 {}",
            binary(),
            server.display()
        );
        let mut command = std::process::Command::new("bash");
        command.args(["-c", &script]).current_dir(shell.folder.path());
        let mut session = Session::spawn(&shell, command);
        let mut first_failure = None;
        for n in 0..2_000 {
            let answer = session.call("weather", json!({ "city": "Oslo" }));
            let said = &answer["result"]["_meta"]["credence/guard"];
            if said["failed"].is_string() || answer["error"].is_object() {
                first_failure = Some((n, answer));
                break;
            }
        }
        let (n, answer) = first_failure.expect("the files cannot grow for ever");
        assert!(n > 10, "{n}: {answer}");
        let said = &answer["result"]["_meta"]["credence/guard"];
        let not_sent = answer["error"]["message"].as_str().is_some_and(|why| why.contains("not sent: no receipt"));
        if not_sent {
            assert_eq!(mode, "enforce", "the other modes send it all the same");
            // The disk stays full: the next call is not sent either.
            assert!(session.call("weather", json!({ "city": "Oslo" }))["error"].is_object());
        } else {
            assert_eq!(said["failed"], failed);
            assert!(said["no_receipt"].is_string() && said.get("receipt").is_none(), "{said}");
            assert_eq!(answer["result"]["isError"] == true, mode == "enforce", "{answer}");
            assert_eq!(answer["result"].get("structuredContent").is_some(), mode == "flag");
            assert!(session.stderr().contains("a receipt could not be written"));
        }
        session.kill();
        let all = receipts(&shell);
        let answered = all.values().filter(|one| one["outcome"] == "result").count();
        assert_eq!(answered, n, "every one before has its receipt");
        // One whose intent found room, and whose receipt did not.
        assert!(all.len() <= n + 1 && !(not_sent && all.len() > n), "{} of {n}", all.len());
        verifies(&shell);
    }
}

/// Receipts that were damaged are left for whoever looks into it; calls go on, with receipts, however often a guard starts.
#[test]
fn damaged_receipts_do_not_keep_a_guard_from_starting() {
    let shell = Shell::new();
    let mut session = Session::start(&shell, &["--agent", "bot"]);
    good(&mut session);
    session.leave();
    let folder = std::fs::read_dir(shell.path("state")).unwrap().flatten().find(|one| one.path().join("1").is_dir());
    let database = folder.unwrap().path().join("1/receipts/000001/ledger.db");
    let mut bytes = std::fs::read(&database).unwrap();
    bytes[..100].fill(b'x');
    std::fs::write(&database, bytes).unwrap();
    for _ in 0..2 {
        let mut session = Session::start(&shell, &["--agent", "bot"]);
        good(&mut session);
        session.leave();
    }
    let listed = shell.run(&["receipts", "list", "--state", "state", "--json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(listed["receipts"].as_array().unwrap().len(), 2, "{listed}");
    let ran = shell.run(&["receipts", "verify", "--state", "state"]);
    assert_ne!(ran.code, Some(0), "{ran:?}");
}

/// SIGKILL while calls are under way: every result that reached the client has its receipt.
#[test]
fn every_result_that_reached_the_client_has_its_receipt_after_a_kill() {
    let shell = Shell::new();
    let mut delivered: Vec<String> = Vec::new();
    for round in 0..5 {
        let mut session = Session::start(&shell, &["--agent", "bot"]);
        for n in 0..64 {
            session.send("echo", json!({ "n": n, "round": round }));
        }
        for n in 0..100 + round * 37 {
            let line = session.line().unwrap();
            let answer: Value = serde_json::from_str(&line).unwrap();
            delivered.push(receipt_of(&answer).to_owned());
            session.send("echo", json!({ "n": n + 64, "round": round }));
        }
        session.kill();
        // What was on its way when it died.
        while let Some(line) = session.line() {
            if let Ok(answer) = serde_json::from_str::<Value>(&line) {
                delivered.push(receipt_of(&answer).to_owned());
            }
        }
        let there = receipts(&shell);
        let missing = delivered.iter().filter(|call| !there.contains_key(*call)).count();
        assert_eq!(missing, 0, "before any guard runs again");
    }
    let mut session = Session::start(&shell, &["--agent", "bot"]);
    good(&mut session);
    session.leave();
    let all = receipts(&shell);
    let unique: std::collections::HashSet<&String> = delivered.iter().collect();
    assert_eq!(unique.len(), delivered.len(), "no two results have one receipt");
    assert!(delivered.len() >= 500);
    for call in &delivered {
        assert!(all.contains_key(call), "{call} has no receipt");
    }
    verifies(&shell);
}
