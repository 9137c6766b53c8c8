//! Starting, running, ending; and being ended.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use credence_testing::{Service, Shell, read_request, signal, signed, until};
use serde_json::{Value, json};

#[test]
fn settings_come_from_the_file_the_environment_and_flags_and_typos_are_told() {
    let shell = Shell::new();
    shell.ok(&["init"]);
    let config = shell.path("credence-data/credence.toml");
    let written = std::fs::read_to_string(&config).unwrap();
    let with = |text: &str| std::fs::write(&config, format!("{written}\n{text}")).unwrap();
    with("[serve]\nlistn = \"127.0.0.1:0\"\n");
    shell.fails(&["serve"], "did you mean 'listen'?");
    with("listen = \"127.0.0.1:0\"\n");
    shell.fails(&["serve"], "did you mean 'listen' in [serve]?");
    with("coverage_flor = 0.2\n");
    shell.fails(&["score", "x"], "did you mean 'coverage_floor'?");
    with("[serve]\nlisten = \"not an address\"\n");
    shell.fails(&["serve"], "cannot listen on not an address");
    let empty = Shell::new();
    empty.fails(&["serve", "--listen", "not an address"], "cannot listen on");
    empty.fails(&["serve", "--listen", "127.0.0.1:0", "--set", "otlp_endpoint=nonsense"], "otlp_endpoint");
    assert!(!empty.path("credence-data").exists(), "nothing was made");
    with("[serve]\nmax_body_bytes = 50\n");
    shell.fails(&["serve", "--set", "max_inflight=1"], "did you mean 'max_in_flight'?");
    shell.fails(&["serve", "--set", "max_in_flight=0"], "at least 1");
    let mut command = shell.command(&["serve"]);
    let ran = command.env("CREDENCE_LISTN", "x").output().unwrap();
    assert!(String::from_utf8(ran.stderr).unwrap().contains("did you mean CREDENCE_LISTEN?"));
    // File, then environment, then flags.
    let service = Service::start_with(shell, &[], &[]);
    service.post("/v1/agents", &json!({ "agent": "x".repeat(60) })).refused(413, "body_too_large");
    let shell = service.stop();
    let service = Service::start_with(shell, &[], &[("CREDENCE_MAX_BODY_BYTES", "1000")]);
    service.post("/v1/agents", &json!({ "agent": "x".repeat(60) })).created();
    let shell = service.stop();
    let service = Service::start_with(shell, &["max_body_bytes=50"], &[("CREDENCE_MAX_BODY_BYTES", "1000")]);
    service.post("/v1/agents", &json!({ "agent": "y".repeat(60) })).refused(413, "body_too_large");
}

#[test]
fn the_first_token_is_shown_once_and_two_services_do_not_share_a_ledger() {
    let service = Service::fresh(&[]);
    assert!(service.token.starts_with("crd_"));
    let second = service.shell.run(&["serve", "--listen", "127.0.0.1:0"]);
    assert_eq!(second.code, Some(1));
    assert!(second.stderr.contains("is writing to"), "{second:?}");
    // Reading beside it works.
    service.shell.ok(&["agent", "list"]);
    let token = service.token.clone();
    let shell = service.stop();
    let service = Service::start(shell, &[]);
    assert_eq!(service.token, token, "none is made where there is one");
    service.add_agent("x", &[]);
}

#[test]
fn events_as_they_happen_and_what_was_missed() {
    let service = Service::fresh(&[]);
    service.add_shop();
    let verify = service.token("verify");
    let listen = |headers: &str| {
        let mut stream = service.socket();
        write!(stream, "GET /v1/events HTTP/1.1\r\nhost: x\r\n{headers}\r\n").unwrap();
        BufReader::new(stream)
    };
    let next = |stream: &mut BufReader<TcpStream>, wanted: &str| -> (String, Value) {
        let (mut id, mut name) = (String::new(), String::new());
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            if let Some(value) = line.strip_prefix("id: ") {
                id = value.trim().to_owned();
            } else if let Some(value) = line.strip_prefix("event: ") {
                name = value.trim().to_owned();
            } else if let Some(value) = line.strip_prefix("data: ")
                && name == wanted
            {
                return (id, serde_json::from_str(value).unwrap());
            }
        }
    };
    let mut anyone = listen("");
    let mut owner = listen(&format!("authorization: Bearer {verify}\r\n"));
    // A client that has the head of the answer is listening.
    for stream in [&mut anyone, &mut owner] {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(stream.read_line(&mut head).unwrap() > 0, "the stream ended: {head}");
        }
        assert!(head.contains("text/event-stream"), "{head}");
    }
    service.post_as(&verify, "/v1/verify", &json!({ "tool": "t", "result": 1 })).ok();
    service.submit("shop", "a", "rel_uptime", 12.0);
    let (_, verdict) = next(&mut owner, "verdict");
    assert_eq!((&verdict["tool"], &verdict["verdict"]), (&json!("t"), &json!("accept")));
    let (id, score) = next(&mut anyone, "score");
    assert_eq!(score["agent"], "shop");
    // Away for a while: what was missed comes first.
    drop(anyone);
    service.submit("shop", "a", "rel_uptime", 55.0);
    until("it is scored again", || {
        service.get("/v1/agents/shop").ok()["score"]["seq"].as_u64().unwrap() > id.parse().unwrap()
    });
    let mut back = listen(&format!("last-event-id: {id}\r\n"));
    let (again, _) = next(&mut back, "score");
    assert!(again.parse::<u64>().unwrap() > id.parse().unwrap());
    // Listeners do not keep the service from ending.
    service.stop().audit_passes();
}

#[test]
fn an_end_in_order_loses_nothing() {
    let service = Service::fresh(&["requests_per_second=0"]);
    service.add_shop();
    let answer = service.get("/v1/entities/shop/trust-signals?url=https://shop.example/de/last");
    let hash = answer.header("etag").trim_matches('"').to_owned();
    let before = service.get("/v1/agents/shop/score").ok();
    service.submit("shop", "a", "rel_uptime", 5.0);
    let shell = service.stop();
    std::fs::write(shell.path("answer.json"), &answer.body).unwrap();
    assert!(
        shell.ok(&["log", "prove", "answer.json"]).contains("tlog-proof"),
        "recorded although it had just left: {hash}"
    );
    let (listed, now) = (shell.json(&["agent", "list"]), shell.json(&["score", "shop"]));
    assert_eq!(listed[0]["score"]["score"], now["score"]);
    assert!(now["rescoring_due"].is_null() && now["score"] != before["score"], "scored although it had just come");
    shell.audit_passes();
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Everything at once, then SIGKILL; five times. What was acknowledged is there, and the audit passes.
#[test]
fn killed_under_mixed_load_nothing_acknowledged_is_lost() {
    let mut shell = Shell::new();
    let acknowledged: Arc<Mutex<BTreeMap<u64, String>>> = Arc::default();
    let answered = AtomicU32::new(0);
    for round in 0..5 {
        let service = Service::start(shell, &["requests_per_second=0", "token_requests_per_second=0"]);
        if round == 0 {
            service.add_shop();
        }
        let verify = service.token("verify");
        let stop = AtomicBool::new(false);
        let before = (acknowledged.lock().unwrap().len(), answered.load(Ordering::Relaxed));
        let going = || !stop.load(Ordering::Relaxed);
        let (url, client) = (&service.url, reqwest::blocking::Client::builder().no_proxy().build().unwrap());
        let post = |token: &str, path: &str, body: String| -> Option<Value> {
            let request = client.post(format!("{url}{path}")).header("content-type", "application/json");
            let response = request.header("authorization", format!("Bearer {token}")).body(body).send().ok()?;
            // What was cut off was not acknowledged.
            response.status().is_success().then(|| serde_json::from_slice(&response.bytes().ok()?).ok()).flatten()
        };
        let (service_, acknowledged, verify, answered, post, going, client, stop) =
            (&service, &acknowledged, &verify, &answered, &post, &going, &client, &stop);
        std::thread::scope(|scope| {
            let service = service_;
            for writer in 0..2_u32 {
                scope.spawn(move || {
                    for n in 0.. {
                        if !going() {
                            break;
                        }
                        let signal = signed("shop", "a", "rel_latency_p95", f64::from((n + writer) % 100))
                            .canonical()
                            .to_string();
                        let id = serde_json::from_str::<Value>(&signal).unwrap()["id"].as_str().unwrap().to_owned();
                        if let Some(done) = post(&service.token, "/v1/signals", signal) {
                            acknowledged.lock().unwrap().insert(done["seq"].as_u64().unwrap(), id);
                        }
                    }
                });
            }
            scope.spawn(move || {
                while going() {
                    if let Some(done) =
                        post(&service.token, "/v1/outcomes", json!({ "agent": "shop", "good": true }).to_string())
                    {
                        acknowledged.lock().unwrap().insert(done["seq"].as_u64().unwrap(), "outcome".into());
                    }
                }
            });
            scope.spawn(move || {
                for n in 0.. {
                    if !going() {
                        break;
                    }
                    let ask = format!("{}/v1/entities/shop/trust-signals?url=https://shop.example/de/{n}", service.url);
                    if client.get(ask).send().is_ok_and(|response| response.status() == 200) {
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                    let _ = post(verify, "/v1/verify", json!({ "tool": "t", "result": n }).to_string());
                }
            });
            // Also where this thread fails: the others would go on for ever.
            let _stop = StopOnDrop(stop);
            until("enough was acknowledged and answered", || {
                acknowledged.lock().unwrap().len() >= before.0 + 60 + 20 * round
                    && answered.load(Ordering::Relaxed) >= before.1 + 20
            });
            assert!(signal("KILL", service.pid()));
            // The clients go on until nobody listens any more.
            until("it is gone", || TcpStream::connect(service.url.strip_prefix("http://").unwrap()).is_err());
        });
        shell = service.kill();
        shell.audit_passes();
    }
    let acknowledged = acknowledged.lock().unwrap();
    assert!(acknowledged.len() > 50 && answered.load(Ordering::Relaxed) > 50, "{}", acknowledged.len());
    let database = rusqlite::Connection::open(shell.path("credence-data/ledger.db")).unwrap();
    for (seq, id) in acknowledged.iter() {
        let entry: String =
            database.query_row("SELECT entry FROM entries WHERE seq = ?1", [seq], |row| row.get(0)).unwrap();
        assert!(entry.contains(id), "entry {seq} is not what was acknowledged");
    }
}

#[test]
fn traces_reach_a_collector() {
    let collector = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = collector.local_addr().unwrap().port();
    let got: Arc<Mutex<Vec<u8>>> = Arc::default();
    let theirs = Arc::clone(&got);
    std::thread::spawn(move || {
        for stream in collector.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let request = read_request(&mut stream);
            theirs.lock().unwrap().extend(request);
            let _ = stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    let service = Service::fresh(&[&format!("otlp_endpoint=http://127.0.0.1:{port}")]);
    service.get_with("/v1/tags", &[("x-request-id", "traced-request")]);
    service.stop();
    let got = String::from_utf8_lossy(&got.lock().unwrap()).into_owned();
    assert!(got.starts_with("POST /v1/traces"), "{got}");
    assert!(got.contains("GET /v1/tags") && got.contains("traced-request") && got.contains("credence"), "{got}");
}

#[test]
fn logs_can_be_json() {
    let service = Service::fresh(&["log=debug", "log_format=json"]);
    service.get_with("/v1/agents/nobody", &[("x-request-id", "find-me")]);
    service.get("/healthz");
    let log = service.log();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let line = lines.iter().find(|line| line["id"] == "find-me").unwrap();
    assert_eq!(
        (&line["status"], &line["route"], &line["method"]),
        (&json!(404), &json!("/v1/agents/{agent}"), &json!("GET"))
    );
    assert!(lines.iter().any(|line| line["route"] == "/healthz"));
    let metrics = service.get("/metrics").text();
    assert!(
        metrics.contains("credence_http_requests_total{method=\"GET\",route=\"/v1/agents/{agent}\",status=\"404\"} 1"),
        "{metrics}"
    );
}

#[test]
fn a_revoked_key_signs_nothing() {
    let service = Service::fresh(&[]);
    service.add_shop();
    let keys = service.get("/.well-known/jwks.json").ok();
    let kid = keys["keys"][0]["kid"].as_str().unwrap().to_owned();
    let ask = "/v1/entities/shop/trust-signals?url=https://shop.example/de";
    assert_eq!(service.get(ask).status, 200);
    service.post(&format!("/v1/keys/{kid}/revocation"), &json!({ "reason": "stolen" })).created();
    until("it is known", || service.get("/readyz").status == 503);
    service.get(ask).refused(503, "signing_key_unusable");
    service.get("/v1/agents/shop/badge.svg").refused(503, "signing_key_unusable");
    service.post("/v1/credentials", &json!({ "agent": "shop" })).refused(503, "signing_key_unusable");
    assert_eq!(service.get("/.well-known/jwks.json").ok()["keys"], json!([]));
    assert_eq!(service.get("/v1/agents/shop/score").status, 200, "what is not signed is still read");
    // The same after a restart; then another key, and everything works again.
    let shell = service.stop();
    let service = Service::start(shell, &[]);
    service.get(ask).refused(503, "signing_key_unusable");
    let shell = service.stop();
    std::fs::rename(shell.path("credence-data/keys/credence.jwk"), shell.path("stolen.jwk")).unwrap();
    shell.ok(&["keys", "generate", "credence"]);
    let service = Service::start(shell, &[]);
    assert_eq!(service.get(ask).status, 200);
    let now = service.get("/.well-known/jwks.json").ok();
    assert_eq!(now["keys"].as_array().unwrap().len(), 1);
    assert_ne!(now["keys"][0]["kid"], kid.as_str());
    service.stop().audit_passes();
}

#[test]
fn a_key_that_was_handed_over_is_still_published() {
    let service = Service::fresh(&[]);
    service.add_shop();
    let answer = service.get("/v1/entities/shop/trust-signals?url=https://shop.example/de").text();
    let shell = service.stop();
    shell.ok(&["keys", "rotate", "credence"]);
    let service = Service::start(shell, &[]);
    let keys = service.get("/.well-known/jwks.json");
    assert_eq!(keys.json()["keys"].as_array().unwrap().len(), 2);
    std::fs::write(service.shell.path("answer.json"), answer).unwrap();
    std::fs::write(service.shell.path("jwks.json"), keys.body).unwrap();
    assert!(service.shell.ok(&["check", "answer.json", "--key", "jwks.json"]).contains("shop is verified"));
    std::fs::write(service.shell.path("did.json"), service.get("/.well-known/did.json").body).unwrap();
    assert!(service.shell.ok(&["check", "answer.json", "--key", "did.json"]).contains("shop is verified"));
    service.shell.fails(&["check", "answer.json", "--key", "nowhere.json"], "nor a readable file");
}

#[test]
fn listeners_miss_nothing_and_hear_of_standings() {
    let service = Service::fresh(&["token_requests_per_second=0"]);
    service.add_shop();
    let first: u64 = service.get("/v1/agents/shop").ok()["score"]["seq"].as_u64().unwrap();
    service.post("/v1/agents/shop/standing", &json!({ "revoked": true, "reason": "fraud" })).created();
    for (path, field) in [("score", "revoked"), ("explain", "revoked"), ("history", "revoked")] {
        assert_eq!(service.get(&format!("/v1/agents/shop/{path}")).ok()[field], true, "{path}");
    }
    let listen = |last: &str| {
        let mut stream = service.socket();
        write!(stream, "GET /v1/events HTTP/1.1\r\nhost: x\r\nlast-event-id: {last}\r\n\r\n").unwrap();
        BufReader::new(stream)
    };
    let until_line = |stream: &mut BufReader<TcpStream>, wanted: &str| {
        let mut line = String::new();
        while !line.contains(wanted) {
            line.clear();
            assert!(stream.read_line(&mut line).unwrap() > 0, "the stream ended before {wanted}");
        }
        line
    };
    assert!(until_line(&mut listen(&first.to_string()), "\"revoked\"").contains("fraud"));
    // An id from another ledger: what happens from now on is heard all the same.
    let mut stranger = listen("999999999");
    until_line(&mut stranger, "text/event-stream");
    service.submit("shop", "a", "rel_uptime", 3.0);
    assert!(until_line(&mut stranger, "\"agent\":\"shop\"").contains("\"score\""));
    // A token that ends takes its stream along.
    let verify = service.token("verify");
    let mut stream = service.socket();
    write!(stream, "GET /v1/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {verify}\r\n\r\n").unwrap();
    let listed = service.shell.json(&["token", "list"]);
    let id =
        listed.as_array().unwrap().iter().find(|token| token["scopes"] == json!(["verify"])).unwrap()["id"].clone();
    service.shell.ok(&["token", "revoke", id.as_str().unwrap()]);
    let mut rest = String::new();
    BufReader::new(stream).read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("0\r\n\r\n"), "it was ended, not left open");
}

/// A row that was changed while the service was stopped gets no signature; the check at the start finds what no answer rests on.
#[test]
fn nothing_is_signed_on_tables_that_differ_from_the_ledger() {
    let ask = "/v1/entities/shop/trust-signals?url=https://shop.example/de";
    let changes = [
        "UPDATE p_scores SET value = json_set(value, '$.score', 99) WHERE key = 'shop/uts/1'",
        "UPDATE p_scores SET value = json_set(value, '$.score', 99) WHERE key = 'shop/uts/2'",
        "INSERT INTO p_aliases VALUES ('https://else.example', '\"shop\"')",
    ];
    for (change, at_once) in changes.into_iter().zip([true, true, false]) {
        let service = Service::fresh(&[]);
        service.add_shop();
        until("the start was checked", || service.get("/metrics").text().contains("credence_ledger_check 1"));
        assert_eq!((service.get(ask).status, service.get("/readyz").text()), (200, "ready\n".to_owned()));
        let shell = service.stop();
        let raw = rusqlite::Connection::open(shell.path("credence-data/ledger.db")).unwrap();
        assert_eq!(raw.execute(change, []).unwrap(), 1);
        drop(raw);
        let service = Service::start(shell, &[]);
        if at_once {
            service.get(ask).refused(503, "ledger_differs");
            service.get("/v1/agents/shop/badge.svg").refused(503, "ledger_differs");
        }
        until("the whole ledger is checked", || service.get("/readyz").status == 503);
        service.get("/readyz").refused(503, "ledger_differs");
        service.get(&format!("{ask}/2")).refused(503, "ledger_differs");
        assert!(service.get("/metrics").text().contains("credence_ledger_check 2"));
        // What is not signed goes on, and a rebuild puts it right.
        assert_eq!(service.get("/v1/agents/shop").status, 200);
        let shell = service.stop();
        shell.ok(&["replay", "--rebuild"]);
        let service = Service::start(shell, &[]);
        assert_eq!(service.get(ask).status, 200);
        service.stop().audit_passes();
    }
}
