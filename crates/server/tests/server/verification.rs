//! Tool results judged over HTTP.

use credence_testing::Service;
use serde_json::{Value, json};

fn weather(n: u32) -> Value {
    json!({ "tool": "get_weather", "args": { "city": format!("c{n}") }, "result": { "city": format!("c{n}"), "temperature": 15 + n % 5 },
        "execution_time_ms": 120 + n % 30, "id": n })
}

#[test]
fn verdicts_profiles_and_feedback_are_each_tokens_own_and_survive_a_restart() {
    let service = Service::fresh(&[]);
    let (mine, theirs) = (service.token("verify"), service.token("verify"));
    let profile = json!({ "required_fields": ["city", "temperature"], "expected_latency_ms": [50, 5000] });
    let path = "/v1/tools/get_weather/profile";
    service.request("GET", path, &mine, "", "").refused(404, "no_profile");
    assert_eq!(service.request("PUT", path, &mine, "application/json", profile.to_string()).status, 200);
    let made_up =
        json!({ "tool": "get_weather", "result": { "forecast": "sunny" }, "execution_time_ms": 1, "learn": false });
    let judged = service.post_as(&mine, "/v1/verify", &made_up).ok();
    assert_eq!(judged["verdict"], "block", "{judged}");
    assert_eq!(judged["signals"]["schema_mismatch"]["fired"], true);
    assert_ne!(service.post_as(&theirs, "/v1/verify", &made_up).ok()["signals"]["schema_mismatch"]["fired"], true);
    let traces: Vec<Value> = (0..50).map(weather).chain([json!({ "tool": "" , "result": 1 }), json!(7)]).collect();
    let batch = service.post_as(&mine, "/v1/verify/batch", &json!({ "traces": traces })).ok();
    let results = batch["results"].as_array().unwrap();
    assert_eq!(results.len(), 52);
    assert_eq!((&results[3]["verdict"], &results[3]["id"]), (&json!("accept"), &json!(3)));
    assert_eq!(
        (&results[50]["error"]["code"], &results[51]["error"]["code"]),
        (&json!("invalid_tool"), &json!("invalid_body"))
    );
    for _ in 0..5 {
        service
            .post_as(&mine, "/v1/feedback", &json!({ "tool": "get_weather", "posterior": 0.9, "fabricated": true }))
            .ok();
    }
    let before = service.post_as(&mine, "/v1/verify", &weather(60)).ok();
    let shell = service.stop();
    let service = Service::start(shell, &[]);
    let after = service.post_as(&mine, "/v1/verify", &weather(60)).ok();
    assert_eq!(
        after["signals"].as_object().unwrap().keys().collect::<Vec<_>>(),
        before["signals"].as_object().unwrap().keys().collect::<Vec<_>>(),
        "what was learned is there again"
    );
    let told = service
        .post_as(&mine, "/v1/feedback", &json!({ "tool": "get_weather", "posterior": 0.9, "fabricated": true }))
        .ok();
    assert_eq!(told["count"], 6);
    let other = service
        .post_as(&theirs, "/v1/feedback", &json!({ "tool": "get_weather", "posterior": 0.9, "fabricated": true }))
        .ok();
    assert_eq!(other["count"], 1);
    assert_eq!(service.request("GET", "/v1/tools", &mine, "", "").ok()["tools"], json!(["get_weather"]));
    assert_eq!(service.request("GET", "/v1/tools", &theirs, "", "").ok()["tools"], json!([]));
}

#[test]
fn after_how_long_answers_change_is_learned_from_the_times_that_come_with_calls() {
    let service = Service::fresh(&[]);
    let token = service.token("verify");
    let trace = |n: u32, leader: u32, at: Value| {
        let result = json!({ "leader": leader, "healthy": !n.is_multiple_of(3) });
        json!({ "tool": "leader", "args": { "service": n % 8 }, "result": result, "at": at })
    };
    let at = |seconds: u32| {
        json!(format!("2026-11-02T{:02}:{:02}:{:02}+02:00", 8 + seconds / 3_600, seconds / 60 % 60, seconds % 60))
    };
    let traces: Vec<Value> = (0..400).map(|n| trace(n % 8, n % 4, at(n * 10))).collect();
    service.post_as(&token, "/v1/verify/batch", &json!({ "traces": traces })).ok();
    let judged = |at: Value| {
        let mut changed = trace(2, 1, at.clone());
        changed["learn"] = json!(false);
        let judged = service.post_as(&token, "/v1/verify", &changed).ok();
        assert_eq!(judged["at"], at, "it is repeated, whatever it is");
        judged["posterior"].as_f64().unwrap()
    };
    let (soon, later, no_time) = (judged(at(4_010)), judged(at(14 * 3_600)), judged(json!({ "when": "today" })));
    assert!(later < no_time && no_time < soon * 1.1, "{soon} soon, {later} later, {no_time} without a time");
}

/// What costs more than it says: schemas that double, recursion, thousands of fields.
#[test]
fn a_profile_cannot_hold_the_service_up() {
    let service = Service::fresh(&[]);
    let token = service.token("verify");
    let put = |tool: &str, body: &Value| {
        service.request("PUT", &format!("/v1/tools/{tool}/profile"), &token, "application/json", body.to_string())
    };
    let mut definitions = serde_json::Map::new();
    for level in 0..40 {
        let next = format!("#/$defs/l{}", level + 1);
        definitions.insert(format!("l{level}"), json!({ "allOf": [{ "$ref": next }, { "$ref": next }] }));
    }
    definitions.insert("l40".into(), json!({ "type": "object" }));
    put("x", &json!({ "output_schema": { "$ref": "#/$defs/l0", "$defs": definitions } }))
        .refused(422, "invalid_profile");
    put("x", &json!({ "output_schema": { "$ref": "#" } })).refused(422, "invalid_profile");
    let greedy = json!({ "pattern": "\\p{L}{2000}" });
    put("x", &json!({ "output_schema": greedy })).refused(422, "invalid_profile");
    put("x", &json!({ "response_patterns": ["\\p{L}{2000}"] })).refused(422, "invalid_profile");
    put("x", &json!({ "required_fields": vec!["f"; 5_000] })).refused(422, "invalid_profile");
    put("x", &json!({ "required_fields": [ "f".repeat(70_000) ] })).refused(413, "too_large");
    assert_eq!(put("x", &json!({ "output_schema": { "type": "object" } })).status, 200);
    assert_eq!(service.get("/healthz").status, 200);
}

#[test]
fn acknowledged_feedback_survives_a_kill() {
    let service = Service::fresh(&[]);
    let token = service.token("verify");
    let feedback = json!({ "tool": "t", "posterior": 0.9, "fabricated": true });
    for n in 1..=6 {
        assert_eq!(service.post_as(&token, "/v1/feedback", &feedback).ok()["count"], n);
    }
    let service = Service::start(service.kill(), &[]);
    assert_eq!(service.post_as(&token, "/v1/feedback", &feedback).ok()["count"], 7);
}

#[test]
fn what_cannot_be_judged_is_said() {
    let service = Service::fresh(&["max_body_bytes=200000"]);
    let token = service.token("verify");
    let post = |body: &str| service.request("POST", "/v1/verify", &token, "application/json", body);
    post("{\"tool\": \"x\", \"result\": ").refused(400, "malformed_json");
    post("[]").refused(422, "invalid_body");
    post("{\"tool\": 7, \"result\": 1}").refused(422, "invalid_body");
    post("{\"tool\": \"x\"}").refused(422, "invalid_body");
    post("{\"tool\": \"\", \"result\": 1}").refused(422, "invalid_tool");
    post("{\"tool\": \"x\", \"result\": 1, \"execution_time_ms\": -1}").refused(422, "invalid_execution_time");
    post(&format!("{{\"tool\": \"x\", \"result\": {}1{}}}", "[".repeat(5000), "]".repeat(5000)))
        .refused(422, "invalid_result");
    // Long enough to be under way when it is refused: the refusal arrives all the same.
    for length in [200_000, 3_000_000] {
        let long = format!("{{\"tool\": \"x\", \"result\": \"{}\"}}", "y".repeat(length));
        post(&long).refused(413, "body_too_large");
        service.request("POST", "/v1/verify", "", "application/json", long).refused(401, "unauthorized");
    }
    assert_eq!(post("{\"tool\": \"x\", \"result\": 12345678901234567890123, \"unknown\": 1}").status, 200);
    let path = "/v1/tools/x/profile";
    let put = |body: &str| service.request("PUT", path, &token, "application/json", body);
    put("{\"required\": []}").refused(422, "invalid_body");
    put("{\"response_patterns\": [\"(\"]}").refused(422, "invalid_profile");
    put("{\"output_schema\": {\"type\": 7}}").refused(422, "invalid_profile");
    service
        .post_as(&token, "/v1/feedback", &json!({ "tool": "x", "posterior": 7, "fabricated": true }))
        .refused(422, "invalid_posterior");
    service.post_as(&token, "/v1/verify/batch", &json!({ "traces": vec![1; 1001] })).refused(422, "too_many_items");
}

/// Of a key that occurs twice, the agent may read the other value than the one that was judged.
#[test]
fn a_key_that_occurs_twice_is_refused_where_it_is() {
    let service = Service::fresh(&[]);
    let token = service.token("verify");
    let post = |path: &str, body: &str| service.request("POST", path, &token, "application/json", body);
    for (body, place) in [
        (r#"{"tool":"t","result":{"price":1,"price":900}}"#, "result.price"),
        (r#"{"tool":"t","result":{"items":[{"a":1},{"b":{"c":1,"\u0063":2}}]}}"#, "result.items[1].b.c"),
        (r#"{"tool":"t","args":{"to":"me","to":"you"},"result":1}"#, "args.to"),
    ] {
        let reply = post("/v1/verify", body);
        reply.refused(422, "duplicate_key");
        assert!(reply.text().contains(place), "{place}: {}", reply.text());
        let batch = post("/v1/verify/batch", &format!("[{body}]")).ok();
        assert_eq!(batch["results"][0]["error"]["code"], "duplicate_key");
    }
    post("/v1/verify", r#"{"tool":"t","result":1,"result":2}"#).refused(422, "invalid_body");
    post("/v1/verify", r#"{"tool":"t","result":[{"a":1},{"a":1e30}]}"#).ok();
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"verify_tool_result","arguments":{"tool":"t","result":{"a":1,"a":2}}}}"#;
    let told = post("/mcp", call);
    assert_eq!((told.status, &told.json()["error"]["code"]), (400, &json!(-32600)));
    assert!(told.text().contains("params.arguments.result.a"), "{}", told.text());
}

/// A batch is judged in its order however it is cut.
#[test]
fn large_batches_are_judged_in_order() {
    let service = Service::fresh(&[]);
    let token = service.token("verify");
    let trace = |n: usize| json!({ "tool": "t", "result": "x".repeat(n * 997 % 40_000), "id": n });
    let traces: Vec<Value> = (0..60).map(trace).collect();
    let judged = service.post_as(&token, "/v1/verify/batch", &json!({ "traces": traces })).ok();
    let ids: Vec<u64> = judged["results"].as_array().unwrap().iter().map(|one| one["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, (0..60).collect::<Vec<u64>>());
    assert_eq!(service.post_as(&token, "/v1/verify/batch", &json!([])).ok(), json!({ "results": [] }));
}

/// What all tokens together have judged takes no more memory than the operator allows, and `/metrics` shows it.
#[test]
fn memory_is_bounded_over_all_tokens() {
    let service = Service::fresh(&["max_engine_mib=4", "token_requests_per_second=0"]);
    let tokens: Vec<String> = (0..3).map(|_| service.token("verify")).collect();
    let number = |name: &str| -> u64 {
        let text = service.get("/metrics").text();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
    };
    service.post_as(&tokens[0], "/v1/verify/batch", &json!((0..20).map(weather).collect::<Vec<_>>())).ok();
    let odd =
        json!({ "tool": "get_weather", "args": { "city": "c1" }, "result": { "forecast": "sunny" }, "learn": false });
    let judge = |token: &str| service.post_as(token, "/v1/verify", &odd).ok();
    let before = judge(&tokens[0]);
    let wide = |n: usize| -> Value {
        let result: serde_json::Map<String, Value> =
            (0..100).map(|key| (format!("{n} {key}"), json!("text"))).collect();
        json!({ "tool": format!("tool-{n}"), "args": { "n": n }, "session_id": format!("{n}"), "result": result })
    };
    for round in 0..4 {
        for token in &tokens[1..] {
            let traces: Vec<Value> = (0..100).map(|n| wide(round * 100 + n)).collect();
            service.post_as(token, "/v1/verify/batch", &json!(traces)).ok();
            let bytes = number("credence_verify_memory_bytes");
            assert!(bytes <= 4 * 1024 * 1024 * 17 / 16, "{bytes}");
        }
    }
    assert!(number("credence_verify_forgotten{kind=\"tools\"}") > 100);
    // The one who has little was not touched: it judges as before, by what it learned.
    assert_eq!(judge(&tokens[0]), before);
    assert_ne!(judge(&tokens[1]), before, "others know nothing of that tool");
    assert!(service.log().contains("the largest namespaces forget"), "{}", service.log());
}
