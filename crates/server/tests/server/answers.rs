//! Signed answers over HTTP: kept, recorded, provable, and gone when what they rest on changes.

use credence_testing::{Service, independent, signed, until};
use serde_json::{Value, json};

const ASK: &str = "/v1/entities/shop/trust-signals?url=https%3A%2F%2Fshop.example%2Fde%2Fa%3Fx%3D1";

#[test]
fn an_answer_is_kept_until_what_it_rests_on_changes() {
    let service = Service::fresh(&[]);
    service.add_shop();
    let first = service.get(&format!("{ASK}&context=purchase"));
    assert_eq!((first.status, first.header("content-type")), (200, "application/json"));
    let answer = first.json();
    assert_eq!(
        (&answer["meta"]["status"], &answer["meta"]["url"]),
        (&json!("verified"), &json!("https://shop.example/de/a?x=1"))
    );
    let seconds: u64 = first.header("cache-control").strip_prefix("public, max-age=").unwrap().parse().unwrap();
    assert!((500..=600).contains(&seconds), "{seconds}");

    // The same bytes again, or only word that they still hold.
    let again = service.get(&format!("{ASK}&context=purchase"));
    assert_eq!(again.body, first.body);
    let etag = first.header("etag").to_owned();
    let unchanged = service.get_with(&format!("{ASK}&context=purchase"), &[("if-none-match", &etag)]);
    assert_eq!((unchanged.status, unchanged.body.len()), (304, 0));
    for same in [format!("W/{etag}"), format!("\"x\", {etag}"), "*".to_owned()] {
        assert_eq!(service.get_with(&format!("{ASK}&context=purchase"), &[("if-none-match", &same)]).status, 304);
    }

    // A score event or a recorded response changes nothing; a signal, a weight, a key, the standing does.
    let mut last = first.body.clone();
    let mut differs = |service: &Service, what: &str| {
        let now = service.get(&format!("{ASK}&context=purchase"));
        assert_eq!(now.status, 200, "{what}: {}", now.text());
        assert_ne!(now.body, last, "{what}");
        last = now.body;
        serde_json::from_slice::<Value>(&last).unwrap()
    };
    service.submit("shop", "a", "rel_error_rate", 80.0);
    differs(&service, "a signal");
    service.request("PATCH", "/v1/sources/b", &service.token, "application/json", r#"{"weight":2}"#).ok();
    differs(&service, "a weight");
    let keys = service.get("/v1/keys").ok();
    let c = keys["keys"].as_array().unwrap().iter().find(|key| key["source"] == "c").unwrap()["key_id"].clone();
    service.post(&format!("/v1/keys/{}/revocation", c.as_str().unwrap()), &json!({ "from": 0 })).created();
    differs(&service, "a key");
    service.post("/v1/agents/shop/standing", &json!({ "revoked": true })).created();
    let revoked = differs(&service, "the standing");
    assert_eq!((&revoked["meta"]["status"], &revoked["assessment"]["action"]), (&json!("revoked"), &json!("decline")));
    service.post("/v1/agents/shop/standing", &json!({ "revoked": false })).created();
    assert_eq!(differs(&service, "the standing again")["meta"]["status"], "verified");
    // What concerns somebody else does not.
    service.add_agent("other", &[]);
    service.submit("other", "a", "rel_uptime", 10.0);
    assert_eq!(service.get(&format!("{ASK}&context=purchase")).body, last);
    service.stop().audit_passes();
}

#[test]
fn purposes_spelled_otherwise_are_assessed_alike_and_repeated_as_sent() {
    let service = Service::fresh(&[]);
    service.add_shop();
    let plain = service.get(&format!("{ASK}&context=high-value")).json();
    assert_eq!(plain["meta"]["context"], "high-value");
    for (spelled, sent) in [("HIGH-VALUE", "HIGH-VALUE"), ("high_value", "high_value"), ("High%20Value", "High Value")]
    {
        let reply = service.get(&format!("{ASK}&context={spelled}"));
        let answer = reply.json();
        assert_eq!(answer["meta"]["context"], sent);
        assert_eq!(answer["assessment"], plain["assessment"], "{spelled}");
        let seconds: u64 = reply.header("cache-control").strip_prefix("public, max-age=").unwrap().parse().unwrap();
        assert!(seconds <= 300, "{spelled}: {seconds}");
    }
    let other = service.get(&format!("{ASK}&context=Buy_a%20house")).json();
    assert_eq!(other["meta"]["context"], "Buy_a house");
    let absurd = service.get(&format!("{ASK}&context={}", "x".repeat(5_000))).json();
    assert!(absurd["meta"].get("context").is_none());
}

#[test]
fn high_value_answers_hold_five_minutes_at_most() {
    let service = Service::fresh(&[]);
    service.add_shop();
    let answer = service.get(&format!("{ASK}&context=high-value"));
    let seconds: u64 = answer.header("cache-control").strip_prefix("public, max-age=").unwrap().parse().unwrap();
    assert!(seconds <= 300, "{seconds}");
    assert!(answer.json()["assessment"]["safeForHighValue"].is_string());
}

#[test]
fn an_answer_that_left_is_in_the_log_and_its_proof_checks_offline() {
    let service = Service::fresh(&[]);
    service.add_shop();
    let answer = service.get(ASK);
    let hash = answer.header("etag").trim_matches('"').to_owned();
    let proof = || service.get(&format!("/v1/log/responses/{hash}"));
    until("the answer is recorded", || proof().status == 200);
    let text = proof().text();
    std::fs::write(service.shell.path("proof.txt"), &text).unwrap();
    let checked = service.shell.ok(&["check", "proof.txt", "--key", &service.log_key]);
    assert!(checked.contains("valid proof of a response") && checked.contains(&hash), "{checked}");
    let forged = text.replace(&hash, &"1".repeat(64));
    std::fs::write(service.shell.path("forged.txt"), forged).unwrap();
    let checked = service.shell.run(&["check", "forged.txt", "--key", &service.log_key]);
    assert!(checked.code == Some(2) && checked.stdout.contains("does not lead"), "{}", checked.stdout);
    std::fs::write(service.shell.path("answer.json"), &answer.body).unwrap();
    std::fs::write(service.shell.path("jwks.json"), service.get("/.well-known/jwks.json").body).unwrap();
    assert!(service.shell.ok(&["check", "answer.json", "--key", "jwks.json"]).contains("shop is verified"));
    service.get(&format!("/v1/log/responses/{}", "0".repeat(64))).refused(404, "not_recorded");
}

/// Ten thousand pages make ten thousand answers, and a handful of entries.
#[test]
fn varied_addresses_do_not_flood_the_ledger() {
    let unlimited = ["requests_per_second=0", "new_answers_per_second=0", "anonymous_answers_per_second=0"];
    let service = Service::fresh(&unlimited);
    service.add_shop();
    let since = std::time::Instant::now();
    let before = service.get("/").ok()["entries"].as_u64().unwrap();
    for n in 0..2_000 {
        let path = format!("/v1/entities/shop/trust-signals?url=https%3A%2F%2Fshop.example%2Fde%2F{n}");
        assert_eq!(service.get(&path).status, 200);
    }
    let shell = service.stop();
    // One entry a second at most, however many seconds it took.
    let seconds = since.elapsed().as_secs();
    let entries = shell.size() - before;
    assert!(entries <= seconds + 4, "{entries} entries in {seconds} s");
    shell.audit_passes();
}

#[test]
fn an_independent_verifier_accepts_answers_and_the_log_as_served() {
    let service = Service::fresh(&["requests_per_second=0"]);
    service.add_shop();
    let asked = service.get(&format!("{ASK}&context=inquiry"));
    let (answer, hash) = (asked.text(), asked.header("etag").trim_matches('"').to_owned());
    let key = service.authority_key();
    let Some(said) = independent(&["response", &key], &answer) else { return };
    assert_eq!(said, "accepted, and no change is");
    // Past a full tile, so that there are two levels.
    let lines: Vec<String> =
        (0..300).map(|n| signed("shop", "a", "rel_latency_p95", f64::from(n % 100)).canonical().to_string()).collect();
    let reply = service.request("POST", "/v1/signals", &service.token, "application/x-ndjson", lines.join("\n"));
    assert_eq!((reply.status, reply.text().lines().count()), (200, 300));
    // Once nothing is under way any more, the log stands still: the answer is recorded, the last signal scored, all sealed.
    let last: Value = serde_json::from_str(reply.text().lines().last().unwrap()).unwrap();
    until("the answer is recorded", || service.get(&format!("/v1/log/responses/{hash}")).status == 200);
    until("the signals are scored", || {
        service.get("/v1/agents/shop").ok()["score"]["seq"].as_u64() > last["seq"].as_u64()
    });
    until("everything is sealed", || {
        let sealed = service.get("/log/checkpoint").text().lines().nth(1).and_then(|size| size.parse::<u64>().ok());
        sealed == service.get("/").ok()["entries"].as_u64()
    });
    let said = independent(&["log", &service.log_key, &service.url], "").unwrap();
    let size = service.get("/").ok()["entries"].as_u64().unwrap();
    assert!(size > 300);
    // A checkpoint that somebody kept, and the proof that today's log extends it, for `credence check`.
    let kept = service.get("/log/checkpoint").text();
    service.submit("shop", "a", "rel_uptime", 1.0);
    let proof = service.request("POST", "/v1/log/consistency", "", "text/plain", kept);
    std::fs::write(service.shell.path("extends.txt"), &proof.body).unwrap();
    assert!(service.shell.ok(&["check", "extends.txt", "--key", &service.log_key]).contains("extends itself"));
    service.request("POST", "/v1/log/consistency", "", "text/plain", "nonsense").refused(422, "invalid_checkpoint");
    assert_eq!(said, format!("{size} entries agree"));
}

#[test]
fn what_the_protocol_calls_its_errors() {
    let service = Service::fresh(&[]);
    service.add_shop();
    service.get("/v1/entities/nobody/trust-signals?url=https://shop.example/de").refused(404, "entityNotFound");
    for outside in [
        "https://shop.example/",
        "https://evil.example/de",
        "http://shop.example/de",
        "x",
        "https://shop.example/de/../x",
    ] {
        service.get(&format!("/v1/entities/shop/trust-signals?url={outside}")).refused(400, "entityMismatch");
    }
    service.get("/v1/entities/shop/trust-signals").refused(400, "bad_query");
    service.get_with(ASK, &[("authorization", "Bearer crd_nonsense")]).refused(401, "unauthorized");
    assert_eq!(service.get(&format!("{ASK}&some-extension=1")).status, 200, "extension parameters are passed over");
}

#[test]
fn badges_in_two_looks_that_check_offline() {
    let service = Service::fresh(&[]);
    service.add_shop();
    service.add_agent("fresh", &[]);
    let key = service.authority_key();
    let flat = service.get("/v1/agents/shop/badge.svg");
    assert_eq!((flat.status, flat.header("content-type")), (200, "image/svg+xml"));
    assert!(flat.header("content-security-policy").contains("default-src 'none'"));
    let pill = service.get("/v1/agents/shop/badge.svg?style=pill");
    assert_ne!(flat.body, pill.body);
    assert_eq!(service.get("/v1/agents/shop/badge.svg").body, flat.body);
    for (name, badge) in [("flat.svg", &flat), ("pill.svg", &pill)] {
        std::fs::write(service.shell.path(name), &badge.body).unwrap();
        assert!(service.shell.ok(&["check", name, "--key", &key]).starts_with("valid badge: shop is rated"));
    }
    assert!(service.get("/v1/agents/fresh/badge.svg").text().contains("not rated"));
    service.get("/v1/agents/shop/badge.svg?style=round").refused(400, "bad_query");
    service.post("/v1/agents/shop/standing", &json!({ "revoked": true, "reason": "test" })).created();
    let revoked = service.get("/v1/agents/shop/badge.svg");
    assert!(revoked.text().contains(">revoked<"));
    std::fs::write(service.shell.path("revoked.svg"), &revoked.body).unwrap();
    assert!(service.shell.ok(&["check", "revoked.svg", "--key", &key]).contains("revoked"));
}

#[test]
fn outcomes_make_the_scores_own_curve() {
    let service = Service::fresh(&[]);
    service.add_shop();
    service.add_agent("poor", &[]);
    service.submit("poor", "a", "rel_uptime", 10.0);
    until("the poor one is scored", || service.get("/v1/agents/poor").ok()["score"]["status"] == "published");
    for n in 0..20 {
        service.post("/v1/outcomes", &json!({ "agent": "shop", "good": n % 10 != 0 })).created();
        service.post("/v1/outcomes", &json!({ "agent": "poor", "good": n % 4 == 0 })).created();
    }
    // The same again, though nobody says when: the same outcome.
    let again = json!({ "id": "018f3c2e-0000-7000-8000-000000000002", "agent": "unheard-of", "good": true });
    service.add_agent("unheard-of", &[]);
    assert_eq!(service.post("/v1/outcomes", &again).created()["known"], false);
    assert_eq!(service.post("/v1/outcomes", &again).created()["known"], true);
    let id = "018f3c2e-0000-7000-8000-000000000001";
    let outcome =
        json!({ "id": id, "agent": "https://shop.example/de", "good": true, "relied_at": "2999-01-01T00:00:00Z" });
    service.post("/v1/outcomes", &outcome).refused(422, "invalid_outcome");
    let at = service.get("/v1/agents/shop").ok()["score"]["recorded_at"].clone();
    let outcome = json!({ "id": id, "agent": "https://shop.example/de", "good": true, "relied_at": at });
    assert_eq!(service.post("/v1/outcomes", &outcome).created()["known"], false);
    assert_eq!(service.post("/v1/outcomes", &outcome).created()["known"], true);
    let other = json!({ "id": id, "agent": "shop", "good": false, "relied_at": at });
    service.post("/v1/outcomes", &other).refused(409, "duplicate_id");
    service.add_agent("unrated", &[]);
    service.post("/v1/outcomes", &json!({ "agent": "unrated", "good": true })).created();
    let curve = service.get("/v1/calibration").ok();
    assert_eq!((&curve["outcomes"], &curve["good"], &curve["unrated"]), (&json!(41), &json!(24), &json!(2)));
    assert!(curve["concordance"].as_f64().unwrap() > 0.7, "{curve}");
    assert_eq!(curve["bins"].as_array().unwrap().len(), 2);
    let one = service.get("/v1/calibration?agent=poor").ok();
    assert_eq!((&one["outcomes"], &one["good"]), (&json!(20), &json!(5)));
    let shell = service.stop();
    let told = shell.ok(&["calibration"]);
    assert!(told.contains("of pairs") && told.contains("●"), "{told}");
    shell.audit_passes();
    shell.ok(&["replay"]);
}

/// A genuine answer about somebody else, or about another page, proves nothing of whom the caller deals with.
#[test]
fn check_demands_whom_and_which_page_and_asks_whether_it_still_holds() {
    let service = Service::fresh(&[]);
    service.add_shop();
    let (shell, key) = (&service.shell, service.authority_key());
    std::fs::write(shell.path("answer.json"), service.get(&format!("{ASK}&context=Purchase")).body).unwrap();
    std::fs::write(shell.path("badge.svg"), service.get("/v1/agents/shop/badge.svg").body).unwrap();
    let vc = service.post("/v1/credentials", &json!({ "agent": "shop" })).created();
    std::fs::write(shell.path("vc.json"), vc.to_string()).unwrap();
    let check = |file: &str, demands: &[&str]| shell.run(&[&["check", file, "--key", &key], demands].concat());
    let page = "https://Shop.example:443/de/a?x=1#top";
    for (file, demands) in [
        ("answer.json", &["--entity", "shop", "--url", page][..]),
        ("badge.svg", &["--entity", "shop"]),
        ("vc.json", &["--entity", "shop"]),
    ] {
        let ran = check(file, demands);
        assert_eq!(ran.code, Some(0), "{file}: {ran:?}");
    }
    for (file, demands, why) in [
        ("answer.json", &["--entity", "bank"][..], "is about 'shop', not about 'bank'"),
        (
            "answer.json",
            &["--entity", "shop", "--url", "https://shop.example/de/b"],
            "not about https://shop.example/de/b",
        ),
        ("answer.json", &["--url", "https://shop.example/de/a"], "not about https://shop.example/de/a"),
        ("answer.json", &["--url", "https://shop.example.evil/de/a?x=1"], "is about the page"),
        ("badge.svg", &["--entity", "bank"], "is about 'shop', not about 'bank'"),
        ("badge.svg", &["--url", page], "names no page"),
        ("vc.json", &["--entity", "bank"], "not about 'bank'"),
        ("vc.json", &["--url", page], "names no page"),
    ] {
        let ran = check(file, demands);
        assert!(ran.code == Some(2) && ran.stdout.contains(why), "{file} {demands:?}: {ran:?}");
    }

    let online = ["--online", "--authority", &service.url];
    for file in ["answer.json", "badge.svg", "vc.json"] {
        let ran = check(file, &online);
        assert!(ran.code == Some(0), "{file}: {ran:?}");
    }
    assert!(check("vc.json", &["--online"]).stdout.contains("Not taken back, as of now"));
    shell.fails(&["check", "answer.json", "--key", &key, "--online"], "--authority");
    let closed = ["--online", "--authority", "http://127.0.0.1:9"];
    let ran = check("answer.json", &closed);
    assert!(ran.code == Some(1) && ran.stderr.contains("is not known"), "neither yes nor no: {ran:?}");

    service.post("/v1/agents/shop/standing", &json!({ "revoked": true })).created();
    for (file, why) in
        [("answer.json", "is revoked, decline"), ("badge.svg", "is revoked"), ("vc.json", "is suspended")]
    {
        assert_eq!(check(file, &[]).code, Some(0), "{file}: nobody was asked");
        let ran = check(file, &online);
        assert!(ran.code == Some(2) && ran.stdout.contains(why), "{file}: {ran:?}");
    }
}
