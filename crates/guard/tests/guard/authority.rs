//! What the authority is told, and what others learn from it.

use std::{
    io::{BufReader, Write},
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use credence_testing::{Service, Shell, eventually, read_request, until};
use serde_json::{Value, json};

use super::{Session, receipt_of};

/// A service that knows the provider `lab` with the guard's key, and the agent `bot`.
fn service(shell: &Shell) -> Service {
    let service = Service::fresh(&[]);
    let key = shell.json(&["guard", "key", "--state", "state", "--provider", "lab"]);
    service
        .post("/v1/sources", &json!({ "source": "lab", "weight": 1, "methodology": "https://lab.example/how" }))
        .created();
    service.post("/v1/keys", &json!({ "source": "lab", "public_key": key["public_key"] })).created();
    service.post("/v1/agents", &json!({ "agent": "bot" })).created();
    service
}

fn session(shell: &Shell, url: &str, token: &str, flags: &[&str]) -> Session {
    std::fs::write(shell.path("token"), token).unwrap();
    let mut all =
        vec!["--authority", url, "--token-file", "token", "--provider", "lab", "--agent", "bot", "--report-every", "1"];
    all.extend(flags);
    Session::start(shell, &all)
}

fn checks(service: &Service) -> Option<u64> {
    let stats = service.get("/v1/stats/bot?window=7d").ok();
    let summary = stats["summaries"].as_array()?.first()?.clone();
    summary["totalChecks"].as_u64().or_else(|| summary["summary"]["totalChecks"].as_u64())
}

#[test]
fn summaries_checkpoints_and_receipts_arrive() {
    let shell = Shell::new();
    let service = service(&shell);
    let mut guard =
        session(&shell, &service.url, &service.token, &["--send-receipts", "--send-salts", "--canaries", "1"]);
    let mut answer = Value::Null;
    for n in 0..60 {
        answer = guard.call("weather", json!({ "city": format!("City {n}") }));
    }
    guard.leave();
    let call = receipt_of(&answer);
    let held = eventually("the receipt arrives", || {
        Some(service.get(&format!("/v1/receipts/{call}"))).filter(|reply| reply.status == 200)
    });
    let held = held.json();
    assert_eq!(held["receipt"]["tool"], "weather");
    assert!(!held.to_string().contains("City 59"), "no arguments, no results");
    // Anyone can check it offline.
    std::fs::write(
        shell.path("held.jsonl"),
        json!({"receipt": held["receipt"], "log_key": held["log_key"], "proof": held["proof"]}).to_string(),
    )
    .unwrap();
    shell.ok(&["receipts", "verify", "held.jsonl", "--log-key", held["log_key"].as_str().unwrap()]);
    // The summary counts them, with canaries, and cites the checkpoint.
    assert_eq!(eventually("the summary arrives", || checks(&service).filter(|n| *n >= 60)), 60);
    let entries = service.get("/v1/stats/bot?window=7d").text();
    assert!(entries.contains("canaries") && entries.contains("controls"), "{entries}");
    // A collector of HCS-25 reads the standard's own fields at the top.
    let collected = service.get("/v1/stats/bot?window=7d").ok();
    assert_eq!((&collected["totalChecks"], &collected["windowDays"]), (&json!(60), &json!(7.0)), "{collected}");
    let rate = |name: &str| collected[name].as_f64().unwrap_or_else(|| panic!("{name}: {collected}"));
    assert!((rate("allowRate") + rate("blockRate") + rate("uncertainRate") - 1.0).abs() < 1e-9, "{collected}");
    assert!((0.0..=1.0).contains(&rate("avgConfidence")), "{collected}");
    let provider = &collected["providers"][0];
    assert_eq!((&provider["id"], &provider["checksContributed"]), (&json!("lab"), &json!(60)), "{collected}");
    assert!(provider["signerAddress"].is_string() && provider["methodologyUrl"].is_string(), "{collected}");
    // The same once more changes nothing.
    let mut again = session(&shell, &service.url, &service.token, &["--send-receipts"]);
    again.call("weather", json!({ "city": "Oslo" }));
    again.leave();
    assert_eq!(eventually("the next summary arrives", || checks(&service).filter(|n| *n > 60)), 61);
    service.get("/v1/receipts/00000000-0000-7000-8000-000000000000").refused(404, "unknown_receipt");
    let data = service.stop();
    assert!(data.path("credence-data/receipts.db").exists());
    data.audit_passes();
    data.ok(&["replay"]);
}

/// A log that shows another past than it did before is refused.
#[test]
fn a_log_with_another_past_is_refused() {
    let shell = Shell::new();
    let service = service(&shell);
    let mut guard = session(&shell, &service.url, &service.token, &["--send-receipts"]);
    (0..5).for_each(|n| drop(guard.call("echo", json!({ "n": n }))));
    guard.leave();
    let state = shell.path("state/bad");
    eventually("the first receipts arrive", || {
        let known = service.get("/v1/receipts?log=lab/guard/bad/1/1").ok();
        known["next"].as_u64().filter(|next| *next >= 6)
    });
    // The guard's owner begins anew under the same name.
    std::fs::remove_dir_all(&state).unwrap();
    let mut guard = session(&shell, &service.url, &service.token, &["--send-receipts"]);
    (0..20).for_each(|n| drop(guard.call("echo", json!({ "other": n }))));
    guard.leave();
    assert!(guard.stderr().contains("had 6 entries when it was last seen"), "{}", guard.stderr());
    assert_eq!(service.get("/v1/receipts?log=lab/guard/bad/1/1").ok()["size"], 6);
    let data = service.stop();
    data.audit_passes();
    data.ok(&["replay"]);
}

/// Receipts that no registered key signed, or that are not in the log, are refused.
#[test]
fn receipts_that_do_not_hold_are_refused() {
    let shell = Shell::new();
    let service = service(&shell);
    let mut guard = Session::start(&shell, &["--provider", "lab", "--agent", "bot"]);
    guard.call("echo", json!({ "n": 1 }));
    guard.leave();
    let export = shell.ok(&["receipts", "export", "--state", "state", "--provider", "lab"]);
    let one: Value = serde_json::from_str(export.lines().next().unwrap()).unwrap();
    let proof = one["proof"].as_str().unwrap();
    let (head, checkpoint) = proof.split_once("\n\n").unwrap();
    let mut lines = head.lines().skip(1);
    let entry = data_encoding::BASE64.decode(lines.next().unwrap().strip_prefix("extra ").unwrap().as_bytes()).unwrap();
    let seq: u64 = lines.next().unwrap().strip_prefix("index ").unwrap().parse().unwrap();
    let hashes: Vec<&str> = lines.collect();
    let batch = json!({ "provider": "lab", "log": "lab/guard/bad/1/1", "checkpoint": checkpoint,
        "receipts": [{ "seq": seq, "entry": String::from_utf8(entry).unwrap(), "proof": hashes }] });
    let changed = |path: &str, value: Value| {
        let mut batch = batch.clone();
        *batch.pointer_mut(path).unwrap() = value;
        service.post("/v1/receipts", &batch)
    };
    let entry = batch["receipts"][0]["entry"].as_str().unwrap();
    changed("/receipts/0/entry", json!(entry.replace("echo", "ecco"))).refused(422, "invalid_receipts");
    changed("/receipts/0/seq", json!(0)).refused(422, "invalid_receipts");
    changed("/checkpoint", json!(checkpoint.replace("guard/bad", "guard/bat"))).refused(422, "invalid_receipts");
    changed("/log", json!("other/guard/bad/1/1")).refused(422, "invalid_receipts");
    changed("/provider", json!("nobody")).refused(422, "invalid_receipts");
    let taken = service.post("/v1/receipts", &batch).created();
    assert_eq!((&taken["new"], &taken["known"]), (&json!(1), &json!(0)));
    let again = service.post("/v1/receipts", &batch).created();
    assert_eq!((&again["new"], &again["known"], &again["seq"]), (&json!(0), &json!(1), &taken["seq"]));
}

/// An authority that answers 500, and one that is not there: nothing is lost, and it is sent when it is back.
#[test]
fn what_the_authority_does_not_take_waits_on_disk() {
    let shell = Shell::new();
    let service = service(&shell);
    let broken = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", broken.local_addr().unwrap());
    let (asked, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (count, ended) = (Arc::clone(&asked), Arc::clone(&stop));
    let thread = std::thread::spawn(move || {
        for stream in broken.incoming() {
            if ended.load(Ordering::Relaxed) {
                return;
            }
            let mut stream = BufReader::new(stream.unwrap());
            read_request(&mut stream);
            count.fetch_add(1, Ordering::Relaxed);
            let _ = stream
                .get_mut()
                .write_all(b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    let mut guard = session(&shell, &url, "none", &[]);
    (0..30).for_each(|n| drop(guard.call("weather", json!({ "city": format!("City {n}") }))));
    until("it is asked", || asked.load(Ordering::Relaxed) > 0);
    let status = || shell.json(&["guard", "status", "--state", "state", "--provider", "lab"]);
    until("what was refused is on disk", || {
        let authority = &status()["guards"][0]["authority"];
        authority["error"].is_string() && authority["waiting"].as_u64() >= Some(1)
    });
    // The calls go on while it fails.
    (0..10).for_each(|n| drop(guard.call("weather", json!({ "city": format!("Town {n}") }))));
    guard.kill();
    stop.store(true, Ordering::Relaxed);
    let _ = std::net::TcpStream::connect(url.strip_prefix("http://").unwrap());
    thread.join().unwrap();
    let status = status();
    assert!(status["guards"][0]["authority"]["error"].as_str().unwrap().contains("500"), "{status:#}");
    assert!(status["guards"][0]["authority"]["waiting"].as_u64().unwrap() >= 1);
    // A guard that was killed goes on where it was: all 40 are counted, none twice.
    let mut guard = session(&shell, &service.url, &service.token, &[]);
    guard.call("weather", json!({ "city": "Oslo" }));
    guard.leave();
    assert_eq!(eventually("it arrives", || checks(&service).filter(|n| *n >= 41)), 41);
}

/// An authority learns verdicts and names; content only where the operator asks, and then it cannot read it. Tokens of other names see
/// nothing.
#[test]
fn what_waits_for_review_is_reported_and_content_stays_secret() {
    let shell = Shell::new();
    let service = service(&shell);
    let made = |name: &str, scope: &str| {
        let made = service.shell.json(&["token", "create", name, "--scope", scope]);
        let token = made["token"].as_str().unwrap().to_owned();
        until("the token is known", || {
            service.get_with("/v1/tags", &[("authorization", &format!("Bearer {token}"))]).status == 200
        });
        token
    };
    let (guards, reviewer, stranger) = (made("team", "ingest"), made("team", "verify"), made("others", "verify"));
    let seen = |token: &str| service.get_with("/v1/guard-reviews", &[("authorization", &format!("Bearer {token}"))]);
    std::fs::write(
        shell.path("profiles.toml"),
        "[echo]\nexpected_latency_ms = [0, 60000]\nhas_network_io = false\nrequired_fields = [\"temperature\"]\nforbidden_fields = [\"secret\"]\n",
    )
    .unwrap();
    let key = shell.json(&["guard", "reviewer-key", "reviewer.key"]);
    let public = key["public_key"].as_str().unwrap();
    // By flags, and by guard.toml.
    for (content, by_file) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut flags = vec!["--profiles", "profiles.toml", "--mode", "enforce"];
        if by_file {
            let key = format!("report_content = {content}\nreviewer_key = \"{public}\"\n");
            super::operating::configure(&shell, &format!("[reviews]\nsend = true\n{key}"));
        } else {
            flags.push("--send-reviews");
        }
        if content && !by_file {
            flags.extend(["--report-content", "--reviewer-key", public]);
        }
        let mut guard = session(&shell, &service.url, &guards, &flags);
        let call = receipt_of(&guard.call("echo", json!({ "secret": "hunter2" }))).to_owned();
        let waits = eventually("the report arrives", || {
            let listed = seen(&reviewer).ok();
            let reviews = listed["guards"][0]["reviews"].as_array()?.clone();
            reviews.into_iter().find(|one| one["call"] == call.as_str())
        });
        assert_eq!((&waits["verdict"], &waits["withheld"]), (&json!("block"), &json!(true)), "{waits}");
        assert_eq!(waits["checks"], json!(["schema_mismatch"]), "{waits}");
        assert_eq!(waits.get("sealed").is_some(), content, "{waits}");
        assert!(!seen(&reviewer).text().contains("hunter2"), "the authority cannot read it");
        assert_eq!(seen(&stranger).ok()["guards"], json!([]), "another name sees nothing");
        seen(&guards).refused(403, "insufficient_scope");
        std::fs::write(shell.path("reviewer.token"), &reviewer).unwrap();
        let remote = ["guard", "review", "--authority", &service.url, "--token-file", "reviewer.token"];
        let with_key = [&remote[..], &["--reviewer-key", "reviewer.key", &call]].concat();
        let shown = shell.json(&with_key);
        let opened = &shown["items"][0]["content"]["arguments"]["secret"];
        assert_eq!(opened == "hunter2", content, "{shown}");
        assert!(!shell.ok(&remote).contains("hunter2"));
        // Answered, it waits no more.
        shell.ok(&["guard", "accept", &call, "--state", "state", "--provider", "lab"]);
        until("the answer is reported", || {
            let listed = seen(&reviewer).ok();
            !listed.to_string().contains(&call)
        });
        guard.leave();
    }
    for (text, why) in [
        ("send = true\nreport_content = true\n", "line 1: reviews: report_content needs reviewer_key"),
        ("send = true\nreviewer_key = \"credence-reviewer:AAAA\"\n", "line 3: reviewer_key: "),
        ("report_contents = true\n", "did you mean 'report_content'?"),
    ] {
        super::operating::configure(&shell, &format!("[reviews]\n{text}"));
        shell.fails(&["guard", "config", "check", "--state", "state"], why);
    }
    shell.ok(&["guard", "reviewer-key", "other.key"]);
    shell.fails(&["guard", "reviewer-key", "other.key"], "other.key");
    std::fs::write(shell.path("other.key"), "nonsense").unwrap();
    let wrong = [
        "guard",
        "review",
        "--authority",
        &service.url,
        "--token-file",
        "reviewer.token",
        "--reviewer-key",
        "other.key",
    ];
    shell.fails(&wrong, "not a reviewer's private key");
}
