//! Control of a domain, proved with a file at a well-known path.

use std::{
    io::{Read, Write},
    net::TcpListener,
    sync::{Arc, Mutex},
};

use credence_testing::Service;
use serde_json::json;

/// A web server that serves one text at the well-known path, and counts.
pub fn web(content: Arc<Mutex<String>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let n = stream.read(&mut head).unwrap_or_default();
            let asked = String::from_utf8_lossy(&head[..n]).into_owned();
            let body = content.lock().unwrap().clone();
            let status =
                if asked.starts_with("GET /.well-known/credence-challenge ") { "200 OK" } else { "404 Not Found" };
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    port
}

#[test]
fn whoever_serves_the_line_owns_the_domain() {
    let service = Service::fresh(&["allow_loopback_domains=true"]);
    let served = Arc::new(Mutex::new("nothing".to_owned()));
    let port = web(Arc::clone(&served));
    let address = format!("https://localhost:{port}");
    service
        .add_agent("shop", &[&address, "https://10.0.0.1", "did:key:z6MkvAEKXrKcbyb6nmYvfA9vcz6prhHQMGAHSnb9doc927DW"]);
    let ask = format!("/v1/entities/shop/trust-signals?url={address}/x");
    assert_eq!(service.get(&ask).ok()["meta"]["status"], "pending");
    // No token: anyone may ask, only the owner can serve.
    let post = |what: &str, address: &str| {
        service.post_as("", &format!("/v1/agents/shop/{what}"), &json!({ "address": address }))
    };
    let challenge = post("domain-challenges", &address).created();
    post("domain-verifications", &address).refused(422, "domain_not_verified");
    *served.lock().unwrap() = "x".repeat(100_000);
    post("domain-verifications", &address).refused(422, "domain_not_verified");
    *served.lock().unwrap() = format!("{}\n", challenge["content"].as_str().unwrap());
    let proved = post("domain-verifications", &address).created();
    assert_eq!(service.get(&ask).ok()["meta"]["status"], "verified");
    // Again, by whomever: the same entry, and nobody is asked.
    let entries = service.get("/").ok()["entries"].clone();
    for _ in 0..5 {
        let again = post("domain-verifications", &address).created();
        assert_eq!((&again["seq"], &again["known"]), (&proved["seq"], &json!(true)));
    }
    assert!(service.get("/").ok()["entries"].as_u64().unwrap() <= entries.as_u64().unwrap() + 2);
    // What was proved of one host says nothing of another.
    service.post("/v1/agents", &json!({ "agent": "shop", "aliases": ["https://victim.example"] })).created();
    let victim = service.get("/v1/entities/shop/trust-signals?url=https://victim.example/pay").ok();
    assert_eq!(victim["meta"]["status"], "pending");
    assert_eq!(service.get(&ask).ok()["meta"]["status"], "verified");
    // Not an address of the agent's, not a web address, or one that must not be looked at.
    post("domain-challenges", "https://elsewhere.example").refused(422, "invalid_address");
    post("domain-challenges", "did:key:z6MkvAEKXrKcbyb6nmYvfA9vcz6prhHQMGAHSnb9doc927DW")
        .refused(422, "invalid_address");
    post("domain-challenges", "nonsense").refused(422, "invalid_address");
    let private = post("domain-verifications", "https://10.0.0.1");
    private.refused(422, "domain_not_verified");
    assert!(private.text().contains("not public"), "{}", private.text());
    service.stop().audit_passes();
}

#[test]
fn loopback_is_not_looked_at_unless_allowed() {
    let service = Service::fresh(&[]);
    let served = Arc::new(Mutex::new(String::new()));
    let port = web(Arc::clone(&served));
    for host in ["localhost", "127.0.0.1"] {
        let address = format!("https://{host}:{port}");
        let agent = format!("agent-{}", host.len());
        service.add_agent(&agent, &[&address]);
        let path = format!("/v1/agents/{agent}/domain-verifications");
        let reply = service.post_as("", &path, &json!({ "address": address }));
        reply.refused(422, "domain_not_verified");
        assert!(reply.text().contains("not public"), "{}", reply.text());
    }
}
