//! A full disk: every route that writes says so with 507, reads go on, and nothing is lost or half written.

use std::{
    fs::{self, File},
    io::Write,
    sync::{Arc, Mutex},
};

use credence_testing::{Reply, Service, key, signed, until};
use serde_json::{Value, json};

use crate::{domains::web, mcp};

const FORM: &str = "application/x-www-form-urlencoded";

/// Writes until there is no space, then a byte at a time.
fn fill(service: &Service) {
    let mut file = File::create(service.disk().join("fill")).unwrap();
    for size in [1024 * 1024, 4096, 1] {
        while file.write_all(&vec![b'x'; size]).is_ok() {}
    }
}

/// Sends a form of a page, as the browser of somebody who is signed in does.
fn form(service: &Service, path: &str, cookie: &str, body: &str) -> Reply {
    let client = reqwest::blocking::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    let request = client.build().unwrap().post(format!("{}{path}", service.url));
    let request = request.header("content-type", FORM).header("cookie", cookie).header("origin", &service.url);
    service.send(request.body(body.to_owned()))
}

#[test]
fn every_route_that_writes_says_that_the_disk_is_full() {
    let settings = ["allow_loopback_domains=true", "requests_per_second=0", "new_answers_per_second=0"];
    let Some(service) = Service::on_small_disk(24, &settings) else {
        assert!(std::env::var_os("SHARED_TESTS").is_none(), "no file system can be mounted for a test");
        eprintln!("SKIPPED: this system lets nobody mount a file system of its own");
        return;
    };
    let served = Arc::new(Mutex::new(String::new()));
    let address = format!("https://localhost:{}", web(Arc::clone(&served)));
    service.add_shop();
    service.add_agent("host", &[&address]);
    service.add_agent("other", &[]);
    let challenge = json!({ "address": address });
    let line = service.post("/v1/agents/host/domain-challenges", &challenge).created()["content"].clone();
    *served.lock().unwrap() = format!("{}\n", line.as_str().unwrap());
    let credential = service.post("/v1/credentials", &json!({ "agent": "shop" })).created();
    let credential = credential["id"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    service.post("/v1/verify", &json!({ "tool": "t", "result": 1 })).ok();
    let signed_in = form(&service, "/sign-in", "", &format!("token={}", service.token));
    let cookie = signed_in.header("set-cookie").split(';').next().unwrap().to_owned();
    assert!(cookie.starts_with("credence_session="));
    service.get("/v1/entities/shop/trust-signals?url=https://shop.example/de/kept").ok();
    let kid = key("c").public().id();

    fill(&service);
    let full = |what: &str, reply: Reply| {
        assert_eq!(reply.status, 507, "{what}: {}", reply.text());
        reply.refused(507, "storage_full");
        assert_eq!(reply.header("retry-after"), "60", "{what}");
    };
    // What fits into space that the database has already may still be written: then it is full.
    let agent = |n: u32| service.post("/v1/agents", &json!({ "agent": format!("a-{n}"), "name": "x".repeat(200) }));
    let last = (0..2_000).map(agent).find(|reply| reply.status != 201).expect("there is an end");
    full("an agent", last);
    fill(&service);
    let signal = signed("shop", "a", "rel_uptime", 12.0).canonical().to_string();
    let posts: [(&str, Value); 10] = [
        ("/v1/agents", json!({ "agent": "new" })),
        ("/v1/agents/other/standing", json!({ "revoked": true, "reason": "x" })),
        ("/v1/sources", json!({ "source": "new-source" })),
        ("/v1/keys", json!({ "source": "a", "public_key": key("a-2").public().did_key() })),
        (&format!("/v1/keys/{kid}/revocation"), json!({ "reason": "x" })),
        ("/v1/outcomes", json!({ "agent": "shop", "good": true })),
        ("/v1/credentials", json!({ "agent": "shop" })),
        (&format!("/v1/credentials/{credential}/revocation"), json!({ "reason": "x" })),
        ("/v1/feedback", json!({ "tool": "t", "posterior": 0.5, "fabricated": false })),
        ("/v1/agents/host/domain-verifications", challenge.clone()),
    ];
    for (path, body) in &posts {
        full(path, service.post(path, body));
    }
    let send =
        |method: &str, path: &str, kind: &str, body: &str| service.request(method, path, &service.token, kind, body);
    let json_kind = "application/json";
    full("a signal", send("POST", "/v1/signals", json_kind, &signal));
    full("signals", send("POST", "/v1/signals", json_kind, &format!("[{signal}]")));
    full("a weight", send("PATCH", "/v1/sources/a", json_kind, r#"{"weight":0.5}"#));
    full("a profile", send("PUT", "/v1/tools/t/profile", json_kind, r#"{"required_fields":["a"]}"#));
    // A stream has its status before its end: the last line says it.
    let bulk = send("POST", "/v1/signals", "application/x-ndjson", &signal);
    assert!(bulk.status == 507 || bulk.text().contains("storage_full"), "{}", bulk.text());
    // An answer that cannot be recorded does not leave; the first may, before that is known.
    let mut page = 0;
    until("answers are refused", || {
        page += 1;
        let reply = service.get(&format!("/v1/entities/shop/trust-signals?url=https://shop.example/de/{page}"));
        assert!(matches!(reply.status, 200 | 507), "{}", reply.text());
        reply.status == 507
    });
    full("an answer", service.get("/v1/entities/shop/trust-signals?url=https://shop.example/de/new"));
    // Pages and MCP.
    for (path, body) in [("/agents/shop/credential", ""), ("/feedback", "number=1&fabricated=false")] {
        let reply = form(&service, path, &cookie, body);
        assert_eq!(reply.status, 507, "{path}: {}", reply.text());
    }
    let told = mcp::call(&service, &service.token, "report_outcome", json!({ "agent": "shop", "good": true }));
    mcp::refused(&told, &["no space is left"]);
    // Nothing is written by these.
    service.post("/v1/verify", &json!({ "tool": "t", "result": 2 })).ok();
    service.get("/v1/agents/shop/score").ok();
    service.get("/v1/entities/shop/trust-signals?url=https://shop.example/de/kept").ok();

    // There is space again: everything works, and what was refused was not done.
    fs::remove_file(service.disk().join("fill")).unwrap();
    until("answers are recorded again", || {
        service.get("/v1/entities/shop/trust-signals?url=https://shop.example/de/again").status == 200
    });
    assert_eq!(form(&service, "/feedback", &cookie, "number=1&fabricated=false").status, 303, "it can be said again");
    for (path, body) in &posts {
        let reply = service.post(path, body);
        assert!(matches!(reply.status, 200 | 201), "{path}: {}", reply.text());
    }
    let audited = service.disk().join("credence-data");
    let copy = service.shell.path("copy");
    let ran = std::process::Command::new("cp").arg("-a").arg(audited).arg(&copy).status().unwrap();
    assert!(ran.success());
    let audit = service.shell.run(&["audit", "--data", copy.to_str().unwrap()]);
    assert_eq!(audit.code, Some(0), "{audit:?}");
}
