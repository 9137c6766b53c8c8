//! What clients get wrong: stable codes, no 500, nothing lost, nothing secret in the log.

use credence_testing::{Service, draft, key, signed, until};
use serde_json::{Value, json};

#[test]
fn each_mistake_has_its_code() {
    let service = Service::fresh(&["requests_per_second=0"]);
    service.add_shop();
    let post = |path: &str, body: &str| service.request("POST", path, &service.token, "application/json", body);
    let long = "x".repeat(129);
    for (path, body, status, code) in [
        ("/v1/agents", "{", 400, "malformed_json"),
        ("/v1/agents", "[]", 422, "invalid_body"),
        ("/v1/agents", "null", 422, "invalid_body"),
        ("/v1/agents", "{\"agent\": 7}", 422, "invalid_body"),
        ("/v1/agents", "{\"agent\": \"x\", \"agent\": \"y\"}", 422, "invalid_body"),
        ("/v1/agents", "{\"agent\": \"x\", \"nme\": \"y\"}", 422, "invalid_body"),
        ("/v1/agents", "{\"agent\": \"a/b\"}", 422, "invalid_body"),
        ("/v1/agents", "{\"agent\": \"..\"}", 422, "invalid_body"),
        ("/v1/agents", &format!("{{\"agent\": \"{long}\"}}"), 422, "invalid_body"),
        ("/v1/agents", "{\"agent\": \"x\", \"name\": \"a\\nb\"}", 422, "invalid_text"),
        ("/v1/agents", "{\"agent\": \"x\", \"aliases\": [\"nonsense\"]}", 422, "invalid_body"),
        ("/v1/agents", "{\"agent\": \"y\", \"aliases\": [\"https://shop.example/de\"]}", 409, "alias_taken"),
        ("/v1/agents", "{\"agent\": \"shop\"}", 409, "nothing_new"),
        ("/v1/sources", "{\"source\": \"a\"}", 409, "source_exists"),
        ("/v1/sources", "{\"source\": \"z\", \"weight\": -1}", 422, "invalid_weight"),
        ("/v1/sources", "{\"source\": \"z\", \"weight\": 1e999}", 422, "invalid_body"),
        ("/v1/sources", "{\"source\": \"z\", \"methodology\": \"by feel\"}", 422, "invalid_methodology"),
        ("/v1/keys", "{\"source\": \"a\", \"public_key\": \"short\"}", 422, "invalid_key"),
        (
            "/v1/keys",
            "{\"source\": \"nobody\", \"public_key\": \"did:key:z6MkvAEKXrKcbyb6nmYvfA9vcz6prhHQMGAHSnb9doc927DW\"}",
            404,
            "unknown_source",
        ),
        ("/v1/keys/nonsense/revocation", "{}", 404, "unknown_key"),
        ("/v1/signals", "{", 400, "malformed_json"),
        ("/v1/signals", "{}", 422, "invalid_body"),
        ("/v1/signals", "[1, 2", 400, "malformed_json"),
        ("/v1/statements", "{}", 422, "invalid_body"),
        ("/v1/contracts", "{}", 422, "invalid_body"),
        ("/v1/outcomes", "{\"agent\": \"nobody\", \"good\": true}", 404, "unknown_agent"),
        ("/v1/outcomes", "{\"agent\": \"shop\", \"good\": \"yes\"}", 422, "invalid_body"),
        ("/v1/outcomes", "{\"agent\": \"shop\", \"good\": true, \"response\": \"x\"}", 422, "invalid_outcome"),
        (
            "/v1/outcomes",
            &format!("{{\"agent\": \"shop\", \"good\": true, \"response\": \"{}\"}}", "0".repeat(64)),
            422,
            "invalid_outcome",
        ),
        (
            "/v1/keys",
            "{\"source\": \"credence\", \"public_key\": \"did:key:z6MkvAEKXrKcbyb6nmYvfA9vcz6prhHQMGAHSnb9doc927DW\"}",
            403,
            "not_over_http",
        ),
        (
            "/v1/outcomes",
            "{\"agent\": \"shop\", \"good\": true, \"relied_at\": \"1999-01-01T00:00:00Z\"}",
            422,
            "invalid_outcome",
        ),
        ("/v1/agents/nobody/standing", "{\"revoked\": true}", 404, "unknown_agent"),
    ] {
        let reply = post(path, body);
        assert_eq!(
            (reply.status, reply.json()["code"].as_str().unwrap()),
            (status, code),
            "{path} {body}: {}",
            reply.text()
        );
    }
    for (path, status, code) in [
        ("/v1/agents?limit=0", 400, "bad_query"),
        ("/v1/agents?limit=many", 400, "bad_query"),
        ("/v1/agents?limt=5", 400, "bad_query"),
        ("/v1/agents/a%2Fb", 404, "unknown_agent"),
        ("/v1/agents/%ff", 400, "bad_path"),
        ("/v1/agents/shop/score?at=yesterday", 400, "bad_query"),
        ("/v1/agents/shop/score?at=1999-01-01T00:00:00Z", 404, "not_then"),
        ("/v1/agents/shop/score?weights=a", 400, "bad_query"),
        ("/v1/agents/shop/score?weights=a:-1", 422, "invalid_numbers"),
        ("/v1/agents/shop/score?weights=a:1,a:2", 400, "bad_query"),
        ("/v1/agents/shop/score?weights=a:NaN", 422, "invalid_numbers"),
        ("/v1/stats/shop?window=9d", 422, "invalid_window"),
        ("/v1/log/entries/99999999999999999999", 404, "no_such_entry"),
        ("/v1/log/entries/18446744073709551615", 404, "no_such_entry"),
        ("/v1/log/proofs/99999", 404, "no_such_entry"),
        ("/v1/log/consistency?older=0", 404, "no_proof"),
        ("/v1/log/consistency?older=18446744073709551615", 404, "no_proof"),
        ("/log/tile/0/..%2f..%2fetc%2fpasswd", 404, "no_such_tile"),
        ("/log/tile/0/x001/../000", 404, "no_such_tile"),
        ("/log/tile/%2e%2e/checkpoint", 404, "no_such_tile"),
        ("/log/tile/63/000", 404, "no_such_tile"),
        ("/log/tile/0/000.p/255", 404, "no_such_tile"),
        ("/log/tile/../checkpoint", 404, "no_such_tile"),
        ("/log/../credence-data/keys/credence.jwk", 404, "no_such_path"),
        ("/v1/nope", 404, "no_such_path"),
        ("/v1/schemas/nope", 404, "no_such_schema"),
    ] {
        // By hand: a client would tidy the path before it is sent.
        let reply = service.raw(format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes());
        assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {reply}");
        assert!(reply.contains(&format!("\"code\":\"{code}\"")), "{path}: {reply}");
    }
    service.request("POST", "/v1/agents", &service.token, "text/plain", "{}").refused(415, "unsupported_media_type");
    service.request("POST", "/v1/signals", &service.token, "text/csv", "a,b").refused(415, "unsupported_media_type");
    service.request("DELETE", "/v1/agents", &service.token, "", "").refused(405, "method_not_allowed");
    assert!(!service.log().contains("ERROR"), "{}", service.log());
    service.stop().audit_passes();
}

#[test]
fn a_batch_has_a_result_for_each() {
    let service = Service::fresh(&[]);
    service.add_shop();
    let good: Value = serde_json::from_str(signed("shop", "a", "rel_uptime", 41.0).canonical().as_str()).unwrap();
    let mut forged = good.clone();
    forged["value"] = json!(99);
    let other: Value = serde_json::from_str(signed("nobody", "a", "rel_uptime", 41.0).canonical().as_str()).unwrap();
    let batch = service.post("/v1/signals", &json!([good, forged, 7, other, good])).ok();
    let codes: Vec<&str> =
        batch["results"].as_array().unwrap().iter().map(|one| one["error"]["code"].as_str().unwrap_or("")).collect();
    assert_eq!(codes, ["", "bad_signature", "malformed", "unknown_agent", ""]);
    assert_eq!(
        (&batch["admitted"], &batch["rejected"], &batch["results"][4]["known"]),
        (&json!(2), &json!(3), &json!(true))
    );
    service.stop().audit_passes();
}

/// The secret of `crd_<id>_<secret>`, which may hold underscores itself.
fn secret_part(token: &str) -> &str {
    token.splitn(3, '_').nth(2).unwrap()
}

#[test]
fn tokens_and_scopes() {
    let service = Service::fresh(&["requests_per_second=0"]);
    service.add_shop();
    let (ingest, verify) = (service.token("ingest"), service.token("verify"));
    let agent = json!({ "agent": "x" });
    service.post_as("", "/v1/agents", &agent).refused(401, "unauthorized");
    assert_eq!(service.post_as("", "/v1/agents", &agent).header("www-authenticate"), "Bearer");
    service.post_as(&ingest, "/v1/agents", &agent).refused(403, "insufficient_scope");
    service
        .post_as(&verify, "/v1/outcomes", &json!({ "agent": "shop", "good": true }))
        .refused(403, "insufficient_scope");
    service.post_as(&ingest, "/v1/verify", &json!({ "tool": "t", "result": 1 })).refused(403, "insufficient_scope");
    service.post_as(&ingest, "/v1/outcomes", &json!({ "agent": "shop", "good": true })).created();
    let mut wrong = ingest.clone();
    wrong.replace_range(20..21, if &ingest[20..21] == "A" { "B" } else { "A" });
    for bad in [wrong.as_str(), "crd_", "crd_x", &format!("crd_{}", "y".repeat(5_000)), "crd_a b c"] {
        service.post_as(bad, "/v1/agents", &agent).refused(401, "unauthorized");
        service.get_with("/v1/agents", &[("authorization", &format!("Bearer {bad}"))]).refused(401, "unauthorized");
    }
    // Other schemes open nothing and close nothing; a bearer token that identifies nobody is refused, on public routes too.
    assert_eq!(service.get_with("/v1/agents", &[("authorization", "Basic dXNlcjpwYXNz")]).status, 200);
    for foreign in ["Bearer eyJhbGciOiJFZERTQSJ9.e30.c2ln", "Bearer x", "Bearer", "bearer  ", "Bearer\tx"] {
        service.get_with("/v1/agents", &[("authorization", foreign)]).refused(401, "unauthorized");
    }
    service.post_as("eyJhbGciOiJFZERTQSJ9.e30.c2ln", "/v1/agents", &agent).refused(401, "unauthorized");
    // Ended from the command line, while the service runs.
    let listed = service.shell.json(&["token", "list"]);
    let of = |name: &str| listed.as_array().unwrap().iter().find(|token| token["name"] == name).unwrap()["id"].clone();
    let named =
        listed.as_array().unwrap().iter().find(|token| token["scopes"] == json!(["ingest"])).unwrap()["name"].clone();
    let named = named.as_str().unwrap().to_owned();
    assert!(!listed.to_string().contains(secret_part(&ingest)));
    service.shell.ok(&["token", "revoke", of(&named).as_str().unwrap()]);
    service.shell.fails(&["token", "revoke", "nonsense"], "no token has the id");
    until("the token has ended", || {
        service.post_as(&ingest, "/v1/outcomes", &json!({ "agent": "shop", "good": true })).status == 401
    });
    let log = service.log();
    for secret in [&service.token, &ingest, &verify, &wrong] {
        assert!(!log.contains(secret_part(secret)), "a secret is in the log");
    }
    let key = std::fs::read_to_string(service.shell.path("credence-data/keys/credence.jwk")).unwrap();
    let key: Value = serde_json::from_str(&key).unwrap();
    assert!(!log.contains(key["d"].as_str().unwrap()));
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(service.shell.path("credence-data/tokens.json")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn bytes_that_are_no_requests() {
    let service = Service::fresh(&["idle_seconds=2", "requests_per_second=0"]);
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"GET / HTTP/1.1\r\nhost: x\r\nbad header\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/agents HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nabcdef",
        b"POST /v1/agents HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"\r\n\r\n\r\n\r\n",
        b"GET /v1/agents/%0d%0ax-evil:%201 HTTP/1.1\r\nhost: x\r\nx-request-id: a%0d%0ab\r\nconnection: close\r\n\r\n",
    ] {
        let answer = service.raw(bytes);
        assert!(!answer.contains("HTTP/1.1 5") && !answer.to_lowercase().contains("\r\nx-evil"), "{answer}");
    }
    let huge = format!("GET / HTTP/1.1\r\nhost: x\r\nx-long: {}\r\n\r\n", "y".repeat(200_000));
    let answer = service.raw(huge.as_bytes());
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    assert_eq!(service.get("/healthz").status, 200);
    let reply = service.get_with("/healthz", &[("x-request-id", "mine-1")]);
    assert_eq!(reply.header("x-request-id"), "mine-1");
    assert!(!service.log().contains("ERROR"));
}

#[test]
fn the_audience_is_shown_and_asked_for_and_ids_are_one_namespace() {
    let service = Service::fresh(&[]);
    service.add_shop();
    let aud = credence_testing::ORIGIN;
    for path in ["/v1/keys", "/v1/keys?limit=1", "/.well-known/jwks.json", "/"] {
        assert_eq!(service.get(path).ok()["aud"], aud, "{path}");
    }
    let public_key = key("open").public().did_key();
    service.post("/v1/sources", &json!({ "source": "open", "unbound": true })).created();
    assert_eq!(service.post("/v1/keys", &json!({ "source": "open", "public_key": public_key })).created()["aud"], aud);
    let sources = service.get("/v1/sources").ok();
    let of = |name: &str| {
        sources["sources"].as_array().unwrap().iter().find(|one| one["source"] == name).unwrap()["aud"].clone()
    };
    assert_eq!((of("a"), of("open")), (json!(aud), Value::Null));
    let send = |source: &str, aud: Option<&str>| {
        let mut signal = draft("shop", source, "rel_uptime", 50.0);
        signal.aud = aud.map(|aud| aud.parse().unwrap());
        let signal = signal.sign(&key(source)).unwrap();
        service.request("POST", "/v1/signals", &service.token, "application/json", signal.canonical().to_string())
    };
    let missing = send("a", None);
    missing.refused(422, "no_audience");
    assert!(missing.json()["detail"].as_str().unwrap().contains(aud), "{}", missing.text());
    send("a", Some("example.com/other")).refused(422, "other_audience");
    send("open", None).created();
    send("open", Some("example.com/other")).refused(422, "other_audience");

    service.post("/v1/agents", &json!({ "agent": "a" })).refused(409, "id_taken");
    service.post("/v1/agents", &json!({ "agent": "credence" })).refused(409, "id_taken");
    service.post("/v1/sources", &json!({ "source": "shop" })).refused(409, "id_taken");
    // Another spelling of an address that is taken; any spelling finds it.
    let other = json!({ "agent": "rival", "aliases": ["did:web:SHOP.example.:de"] });
    service.post("/v1/agents", &other).refused(409, "alias_taken");
    for spelling in
        ["https:%2F%2FSHOP.example.%2Fde", "did:web:sh%25%36fp.example:de", "https:%2F%2Fsh%E2%80%8Bop.example%2Fde"]
    {
        assert_eq!(service.get(&format!("/v1/agents/{spelling}")).ok()["agent"], "shop", "{spelling}");
    }
    let page = "/v1/entities/shop/trust-signals?url=https%3A%2F%2Fshop.example.%2Fde%2Fa";
    assert_eq!(service.get(page).ok()["meta"]["url"], "https://shop.example./de/a");
}

#[test]
fn large_doubles_are_evidence_and_large_integers_are_not() {
    let service = Service::fresh(&[]);
    service.add_shop();
    let send = |evidence: &str| {
        let mut signal = draft("shop", "a", "rel_uptime", 50.0);
        signal.evidence = Some(credence_protocol::strict::typed(evidence.as_bytes()).unwrap());
        let signal = signal.sign(&key("a")).unwrap().canonical().to_string();
        service.request("POST", "/v1/signals", &service.token, "application/json", signal)
    };
    send(r#"{"tokens":1e30,"small":1.5e-300}"#).created();
    let digits = signed("shop", "a", "rel_uptime", 50.0).canonical().to_string();
    let digits = digits.replacen('{', r#"{"evidence":{"n":1000000000000000000000000000000},"#, 1);
    let refused = service.request("POST", "/v1/signals", &service.token, "application/json", digits);
    assert!(refused.status == 422 && refused.text().contains("2^53"), "{}", refused.text());
    service.stop().audit_passes();
}
