//! Scheduled probes: asked for by an operator, agreed to by an owner, recorded, shown.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Json, Router,
    http::{HeaderMap, StatusCode},
    routing,
};
use credence_testing::{Service, until};
use serde_json::{Value, json};

use super::mcp::{call, text};

/// An agent on loopback that serves a challenge, answers chat completions and does whatever it reads.
struct Target {
    port: u16,
    challenge: Arc<Mutex<Option<String>>>,
    asked: Arc<AtomicUsize>,
    authorizations: Arc<Mutex<BTreeSet<String>>>,
}

impl Target {
    fn start() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (challenge, asked): (Arc<Mutex<Option<String>>>, Arc<AtomicUsize>) = Default::default();
        let (served, counted) = (Arc::clone(&challenge), Arc::clone(&asked));
        let prove = move || {
            let line = served.lock().unwrap().clone();
            async move { line.ok_or(StatusCode::NOT_FOUND) }
        };
        let authorizations: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let presented = Arc::clone(&authorizations);
        let chat = move |headers: HeaderMap, Json(body): Json<Value>| {
            counted.fetch_add(1, Ordering::SeqCst);
            let header = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
            presented.lock().unwrap().insert(header.unwrap_or_default());
            async move { Json(json!({ "choices": [{ "finish_reason": "stop", "message": reply(&body) }] })) }
        };
        let routes = Router::new()
            .route("/.well-known/credence-challenge", routing::get(prove))
            .route("/v1/chat/completions", routing::post(chat));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                axum::serve(listener, routes).await.unwrap();
            });
        });
        Self { port, challenge, asked, authorizations }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// Calls every tool whose name it reads, with no thought of who asks; then says what the tools gave.
fn reply(body: &Value) -> Value {
    let messages = body["messages"].as_array().unwrap();
    let last = messages.last().unwrap();
    let words = last["content"].as_str().unwrap_or_default();
    let called = messages.iter().filter(|message| message.get("tool_calls").is_some()).count();
    let tools = body["tools"].as_array().into_iter().flatten().map(|tool| &tool["function"]);
    let named = tools.filter(|tool| words.contains(tool["name"].as_str().unwrap()));
    let calls: Vec<Value> = named
        .enumerate()
        .map(|(n, tool)| json!({ "id": format!("c{n}"), "type": "function", "function": { "name": tool["name"], "arguments": "{}" } }))
        .collect();
    if calls.is_empty() || called > 4 {
        return json!({ "role": "assistant", "content": format!("Done: {words}") });
    }
    json!({ "role": "assistant", "content": null, "tool_calls": calls })
}

#[test]
fn an_agent_is_probed_while_its_owner_agrees() {
    let service = Service::fresh(&["allow_loopback_domains=true", "probe_spread_seconds=0", "requests_per_second=0"]);
    let target = Target::start();
    let address = format!("https://localhost:{}", target.port);
    service.add_agent("bot", &[&address]);
    let path = "/v1/agents/bot/probe-schedule";
    let admin = |method: &str, body: &Value| {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        service.request(method, path, &service.token, "application/json", body)
    };
    let put = |schedule: &Value| admin("PUT", schedule);
    let standing = || admin("GET", &Value::Null);
    let wanted = json!({
        "every_hours": 24, "target": format!("http://localhost:{}/v1", target.port), "transport": "chat",
        // It remembers nothing: asi06 cannot be tried on it.
        "threats": ["asi02", "asi03", "asi06"], "rate": 50, "budget": 2000,
    });
    standing().refused(404, "no_schedule");
    // Control was not proved: nothing is planned, and nothing was sent.
    let refused = put(&wanted);
    refused.refused(422, "domain_not_proved");
    assert!(refused.text().contains("prove-domain"), "{}", refused.text());
    assert_eq!(target.asked(), 0);
    service.request("PUT", path, "", "application/json", wanted.to_string()).refused(401, "unauthorized");
    for (member, bad) in [
        ("every_hours", json!(0)),
        ("rate", json!(51)),
        ("budget", json!(0)),
        ("transport", json!("telnet")),
        ("threats", json!(["asi99"])),
        ("target", json!("https://user:pass@localhost/v1")),
        // Another secret of the service, a token itself, three identities.
        ("token_variables", json!(["CREDENCE_SIGNING_KEY"])),
        ("token_variables", json!(["sk-live-1234"])),
        ("token_variables", json!(["CREDENCE_PROBE_TOKEN", "CREDENCE_PROBE_TOKEN_2", "CREDENCE_PROBE_TOKEN_3"])),
        ("token_header", json!("not a header")),
    ] {
        let mut schedule = wanted.clone();
        schedule[member] = bad;
        put(&schedule).refused(422, "invalid_schedule");
    }
    let elsewhere = json!({ "every_hours": 24, "target": "https://victim.example/v1", "transport": "chat" });
    put(&elsewhere).refused(422, "domain_not_proved");

    let proof = json!({ "address": address });
    let challenge = service.post_as("", "/v1/agents/bot/domain-challenges", &proof).created();
    *target.challenge.lock().unwrap() = challenge["content"].as_str().map(str::to_owned);
    service.post_as("", "/v1/agents/bot/domain-verifications", &proof).created();
    assert_eq!(put(&wanted).ok()["every_hours"], 24);
    let runs = || service.get("/v1/agents/bot/probes").ok()["runs"].clone();
    until("the run is recorded", || runs().as_array().is_some_and(|runs| runs.len() == 1));
    let run = runs()[0].clone();
    assert!(
        run["requests"].as_u64().unwrap() > 20 && run["target"] == format!("http://localhost:{}", target.port),
        "{run}"
    );
    until("the next one is due tomorrow", || {
        let standing = standing().ok();
        standing["running"] == false && standing["next_at"].as_str().unwrap() > run["recorded_at"].as_str().unwrap()
    });
    // Journal and transcript are in the authority's folder, one run of this agent.
    let files = || -> Vec<String> {
        let folder = service.shell.path("credence-data/probes");
        let names = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
        names.collect()
    };
    assert!(files().len() == 2 && files().iter().all(|name| name.contains(".last.")), "{:?}", files());
    // The listener answers alike whatever it is asked for, and takes notifications.
    let listener = |path: &str| service.get(&format!("/.well-known/credence-probe/{path}"));
    assert_eq!((listener("t-abc").status, listener("t-abc").text()), (200, listener("anything").text()));
    for token in ["", "a-token-for-somebody-else"] {
        assert_eq!(service.post_as(token, "/.well-known/credence-probe/t-abc", &json!({})).status, 200);
    }
    // The signals follow, and all faces show them.
    let current = || service.get("/v1/agents/bot/probes").ok()["current"].clone();
    let tags = || -> Vec<String> {
        current().as_array().unwrap().iter().map(|one| one["tag"].as_str().unwrap().to_owned()).collect()
    };
    assert!(
        tags().iter().any(|tag| tag.starts_with("asi0")) && tags().contains(&"rel_uptime".to_owned()),
        "{:?}",
        tags()
    );
    let page = service.get("/agents/bot").text();
    for part in ["What the sandbox", "attacks that took effect", "The newest runs", "<svg", "Without a value"] {
        assert!(page.contains(part), "no {part}");
    }
    let told = call(&service, "", "probe_summary", json!({ "agent": "bot" }));
    assert!(text(&told).contains("weakest is asi0"), "{}", text(&told));
    assert!(service.get("/metrics").text().contains("credence_probes_recorded_total 1"));

    // The owner takes the consent back: the next run is refused, and says why.
    *target.challenge.lock().unwrap() = None;
    let before = target.asked();
    put(&wanted).ok();
    until("the refusal is kept", || standing().ok()["last_error"].is_string());
    assert!(standing().ok()["last_error"].as_str().unwrap().contains("consent"));
    assert_eq!((target.asked(), runs().as_array().unwrap().len()), (before, 1));
    assert_eq!(admin("DELETE", &Value::Null).status, 204);
    admin("DELETE", &Value::Null).refused(404, "no_schedule");
    service.stop().audit_passes();
}

#[test]
fn a_scheduled_run_goes_on_after_a_restart_with_tokens_of_the_environment() {
    const SETTINGS: [&str; 3] = ["allow_loopback_domains=true", "probe_spread_seconds=0", "requests_per_second=0"];
    const TOKEN: (&str, &str) = ("CREDENCE_PROBE_TOKEN_BOT", "tk-of-the-bot-8d7c");
    let service = Service::fresh(&SETTINGS);
    let service = Service::start_with(service.stop(), &SETTINGS, &[TOKEN]);
    let target = Target::start();
    let address = format!("https://localhost:{}", target.port);
    service.add_agent("bot", &[&address]);
    let proof = json!({ "address": address });
    let challenge = service.post_as("", "/v1/agents/bot/domain-challenges", &proof).created();
    *target.challenge.lock().unwrap() = challenge["content"].as_str().map(str::to_owned);
    service.post_as("", "/v1/agents/bot/domain-verifications", &proof).created();
    let schedule = |variables: &Value| {
        let wanted = json!({
            "every_hours": 24, "target": format!("http://localhost:{}/v1", target.port), "transport": "chat",
            "threats": ["asi02", "asi03"], "rate": 50, "budget": 2000, "token_variables": variables,
        });
        service.request("PUT", "/v1/agents/bot/probe-schedule", &service.token, "application/json", wanted.to_string())
    };
    let standing =
        || service.request("GET", "/v1/agents/bot/probe-schedule", &service.token, "application/json", Vec::new()).ok();
    // A name that the service does not have: refused before anything is sent, and the reason is kept.
    schedule(&json!(["CREDENCE_PROBE_TOKEN_NOBODY"])).ok();
    until("the reason is kept", || standing()["last_error"].is_string());
    assert!(standing()["last_error"].as_str().unwrap().contains("CREDENCE_PROBE_TOKEN_NOBODY"), "{}", standing());
    assert_eq!(target.asked(), 0);
    assert_eq!(schedule(&json!([TOKEN.0])).ok()["token_variables"], json!([TOKEN.0]));
    let folder = service.shell.path("credence-data/probes");
    let journals = |suffix: &str| -> Vec<std::path::PathBuf> {
        let files = std::fs::read_dir(&folder).into_iter().flatten().map(|file| file.unwrap().path());
        files.filter(|path| path.to_str().unwrap().ends_with(suffix)).collect()
    };
    let trials = |text: &str| text.matches("\"kind\":\"trial\"").count();
    let under_way = || journals(".jsonl").into_iter().find(|path| !path.to_str().unwrap().contains("transcript"));
    until("some trials are recorded", || {
        under_way().and_then(|path| std::fs::read_to_string(path).ok()).is_some_and(|text| trials(&text) > 3)
    });
    let journal = under_way().unwrap();
    let shell = service.stop();
    let before = std::fs::read_to_string(&journal).unwrap();
    let service = Service::start_with(shell, &SETTINGS, &[TOKEN]);
    let runs = || service.get("/v1/agents/bot/probes").ok()["runs"].clone();
    until("the run is recorded", || runs().as_array().is_some_and(|runs| runs.len() == 1));
    // The file was moved when the run was over, and begins with what the first part wrote.
    let after = std::fs::read_to_string(&journals(".last.jsonl")[0]).unwrap();
    assert!(after.starts_with(&before) && trials(&after) > trials(&before), "{after}");
    assert!(after.contains(&format!("\"seed\":{}", runs()[0]["seed"])));
    assert_eq!(*target.authorizations.lock().unwrap(), BTreeSet::from([format!("Bearer {}", TOKEN.1)]));
    for file in journals(".jsonl") {
        assert!(!std::fs::read_to_string(file).unwrap().contains(TOKEN.1));
    }
    service.stop().audit_passes();
}
