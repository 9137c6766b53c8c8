//! Consent as a run asks for it: of the very address that is used, again and again.
#![allow(clippy::unwrap_used, missing_docs, reason = "a failing unwrap is how a test says no")]

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{Router, http::StatusCode, routing::get};
use credence_protocol::{EntityId, SecretKey, Timestamp};
use credence_sandbox::{
    consent::{ConsentCheck, DomainConsent, Loopback, LoopbackOnly},
    domain,
};

/// A host that serves a line, and counts who comes.
struct Host {
    address: SocketAddr,
    line: Arc<Mutex<Option<String>>>,
    requests: Arc<AtomicUsize>,
}

impl Host {
    async fn start(address: &str) -> Self {
        let listener = tokio::net::TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (line, requests): (Arc<Mutex<Option<String>>>, Arc<AtomicUsize>) = Default::default();
        let (served, counted) = (Arc::clone(&line), Arc::clone(&requests));
        let answer = move || {
            counted.fetch_add(1, Ordering::SeqCst);
            let line = served.lock().unwrap().clone();
            async move { line.ok_or(StatusCode::NOT_FOUND) }
        };
        let routes = Router::new().route(domain::PATH, get(answer));
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { address, line, requests }
    }

    fn serve(&self, line: &str) {
        *self.line.lock().unwrap() = Some(line.to_owned());
    }

    fn asked(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

fn key() -> SecretKey {
    SecretKey::from_seed(&[3; 32])
}

fn consent(proved: &[String], loopback: Loopback) -> DomainConsent {
    let agent = EntityId::new("bot").unwrap();
    DomainConsent { keys: vec![key().public()], agent, proved: proved.to_vec(), loopback }
}

fn line(host: &str, expires: &str) -> String {
    let expires: Timestamp = expires.parse().unwrap();
    domain::line(&key(), &EntityId::new("bot").unwrap(), host, expires)
}

#[tokio::test]
async fn the_address_that_is_used_must_serve_the_challenge_not_the_one_that_was_proved() {
    let own = Host::start("127.0.0.1:0").await;
    let victim = Host::start(&format!("127.0.0.2:{}", own.address.port())).await;
    let host = format!("agent.test:{}", own.address.port());
    let origin = format!("https://{host}");
    let consent = consent(std::slice::from_ref(&host), Loopback::Prove);
    own.serve(&line(&host, "2026-11-20T00:00:00Z"));
    consent.check(&origin, own.address).await.unwrap();
    // The name leads elsewhere from now on: whoever is there never agreed.
    let refused = consent.check(&origin, victim.address).await.unwrap_err();
    assert!(refused.contains("consent") && refused.contains("127.0.0.2"), "{refused}");
    // Somebody else's line does not help, nor one for another host.
    victim.serve(&line("other.test", "2026-11-20T00:00:00Z"));
    assert!(consent.check(&origin, victim.address).await.is_err());
    // The owner takes the file away in mid-run.
    *own.line.lock().unwrap() = None;
    assert!(consent.check(&origin, own.address).await.unwrap_err().contains("404"));
    // A challenge that can no longer be used for a new proof still shows who is there.
    own.serve(&line(&host, "2020-01-01T00:00:00Z"));
    consent.check(&origin, own.address).await.unwrap();
}

#[tokio::test]
async fn nothing_is_asked_of_a_host_that_was_never_proved() {
    let stranger = Host::start("127.0.0.1:0").await;
    let port = stranger.address.port();
    stranger.serve(&line(&format!("agent.test:{port}"), "2026-11-20T00:00:00Z"));
    let proved = [format!("agent.test:{port}")];
    let consent = consent(&proved, Loopback::Prove);
    // Another host, another port, a name below and above.
    for origin in [
        format!("https://victim.test:{port}"),
        format!("https://agent.test:{}", port ^ 1),
        format!("https://www.agent.test:{port}"),
        "https://agent.test".to_owned(),
    ] {
        let refused = consent.check(&origin, stranger.address).await.unwrap_err();
        assert!(refused.contains("was not proved") && refused.contains("prove-domain"), "{origin}: {refused}");
    }
    let plain = consent.check(&format!("http://agent.test:{port}"), "93.184.216.34:80".parse().unwrap()).await;
    assert!(plain.unwrap_err().contains("not an https address"));
    assert_eq!(stranger.asked(), 0, "a refusal sends nothing");
}

#[tokio::test]
async fn this_machine_only_where_the_operator_says_so() {
    let local = Host::start("127.0.0.1:0").await;
    let origin = format!("http://127.0.0.1:{}", local.address.port());
    let refused = consent(&[], Loopback::Refuse).check(&origin, local.address).await.unwrap_err();
    assert!(refused.contains("--allow-loopback"), "{refused}");
    consent(&[], Loopback::Allow).check(&origin, local.address).await.unwrap();
    // The flag opens this machine and nothing else.
    let public: SocketAddr = "93.184.216.34:443".parse().unwrap();
    assert!(consent(&[], Loopback::Allow).check("https://shop.example", public).await.is_err());
    assert!(LoopbackOnly.check("https://shop.example", public).await.is_err());
    assert_eq!(local.asked(), 0);
}
