//! Callers that identify themselves with a JWT of a did:web.

use std::{
    io::{BufReader, Write},
    net::TcpListener,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use credence_protocol::SecretKey;
use credence_testing::{Service, now, read_request};
use data_encoding::BASE64URL_NOPAD;
use serde_json::{Value, json};

const ROUTE: &str = "/v1/tags";

/// A host that serves one document, whatever is asked for, and counts.
struct Host {
    port: u16,
    document: Arc<Mutex<String>>,
    asked: Arc<AtomicUsize>,
}

impl Host {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (document, asked) = (Arc::new(Mutex::new(String::new())), Arc::new(AtomicUsize::new(0)));
        let (served, counted) = (Arc::clone(&document), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                read_request(&mut BufReader::new(&mut stream));
                counted.fetch_add(1, Ordering::SeqCst);
                let body = served.lock().unwrap().clone();
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                    body.len()
                );
            }
        });
        Self { port, document, asked }
    }

    /// A DID of this host. Each path is a DID of its own, so that nothing kept of one is used for another.
    fn did(&self, path: &str) -> String {
        format!("did:web:localhost%3A{}{path}", self.port)
    }

    /// Serves the document of `did` with this key, in force or only listed.
    fn serve(&self, did: &str, key: &SecretKey, in_force: bool) {
        let multibase = key.public().did_key().replace("did:key:", "");
        let methods = if in_force { json!(["#key"]) } else { json!([]) };
        let document = json!({
            "id": did,
            "verificationMethod": [{ "id": "#key", "type": "Multikey", "controller": did, "publicKeyMultibase": multibase }],
            "authentication": methods,
        });
        *self.document.lock().unwrap() = document.to_string();
    }
}

fn jwt(key: &SecretKey, header: &Value, claims: &Value) -> String {
    let part = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
    let signed = format!("{}.{}", part(header), part(claims));
    let signature = key.sign(signed.as_bytes());
    format!("{signed}.{signature}")
}

fn ask(service: &Service, token: &str) -> credence_testing::Reply {
    service.get_with(ROUTE, &[("authorization", &format!("Bearer {token}"))])
}

#[test]
fn a_valid_jwt_of_a_did_web_identifies_and_anything_else_is_refused() {
    let service = Service::fresh(&["allow_loopback_domains=true", "log=debug"]);
    let (host, key) = (Host::start(), SecretKey::from_seed(&[9; 32]));
    let did = host.did("");
    host.serve(&did, &key, true);
    let audience = service.url.strip_prefix("http://").unwrap();
    let seconds = now().micros() / 1_000_000;
    let header = json!({ "alg": "EdDSA", "typ": "JWT", "kid": "#key" });
    let claims = json!({ "iss": did, "aud": audience, "iat": seconds, "exp": seconds + 3600 });
    let with = |changes: Value| {
        let mut claims = claims.clone();
        claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        claims
    };

    let good = jwt(&key, &header, &claims);
    assert_eq!(ask(&service, &good).status, 200);
    assert!(service.log().contains(&format!("caller=\"{did}\"")), "{}", service.log());
    for allowed in [
        jwt(&key, &json!({ "alg": "EdDSA" }), &claims),
        jwt(&key, &json!({ "alg": "EdDSA", "kid": format!("{did}#key") }), &claims),
        jwt(&key, &header, &with(json!({ "aud": ["other.example", audience] }))),
        // Clocks differ by a minute.
        jwt(&key, &header, &with(json!({ "iat": seconds - 3600, "exp": seconds - 20 }))),
        jwt(&key, &header, &with(json!({ "iat": seconds + 30 }))),
    ] {
        let reply = ask(&service, &allowed);
        assert_eq!(reply.status, 200, "{}", reply.text());
    }
    assert_eq!(host.asked.load(Ordering::SeqCst), 1, "the document is kept for a while");

    let mut forged = good.clone();
    forged.replace_range(
        good.len() - 10..good.len() - 9,
        if &good[good.len() - 10..good.len() - 9] == "A" { "B" } else { "A" },
    );
    for (bad, why) in [
        (forged, "signature does not hold"),
        (jwt(&SecretKey::from_seed(&[8; 32]), &header, &claims), "signature does not hold"),
        (jwt(&key, &json!({ "alg": "none" }), &claims), "EdDSA"),
        (jwt(&key, &json!({ "alg": "HS256" }), &claims), "EdDSA"),
        (jwt(&key, &json!({ "alg": "EdDSA", "crit": ["x"] }), &claims), "crit"),
        (jwt(&key, &json!({ "alg": "EdDSA", "kid": "#other" }), &claims), "kid"),
        (jwt(&key, &header, &with(json!({ "aud": "other.example" }))), "aud is not"),
        (jwt(&key, &header, &with(json!({ "iat": seconds - 3600, "exp": seconds - 120 }))), "expired"),
        (jwt(&key, &header, &with(json!({ "iat": seconds + 300 }))), "future"),
        (jwt(&key, &header, &with(json!({ "nbf": seconds + 300 }))), "future"),
        (jwt(&key, &header, &with(json!({ "exp": seconds + 400_000 }))), "more than a day"),
        (jwt(&key, &header, &with(json!({ "iss": key.public().did_key() }))), "did:web"),
        (jwt(&key, &header, &json!({ "iss": did, "aud": audience })), "iat and exp"),
        ("nonsense".to_owned(), "not a JWT"),
    ] {
        let reply = ask(&service, &bad);
        reply.refused(401, "unauthorized");
        assert!(reply.text().contains(why), "{why}: {}", reply.text());
        assert_eq!(reply.header("www-authenticate"), "Bearer");
    }
    // Identified is not authorized.
    service.post_as(&good, "/v1/agents", &json!({ "agent": "x" })).refused(401, "unauthorized");
    // Without a header everyone is served.
    assert_eq!(service.get(ROUTE).status, 200);
}

#[test]
fn a_did_that_does_not_resolve_to_a_key_in_force_identifies_nobody() {
    let service = Service::fresh(&["allow_loopback_domains=true"]);
    let (host, key) = (Host::start(), SecretKey::from_seed(&[9; 32]));
    let seconds = now().micros() / 1_000_000;
    let audience = service.url.strip_prefix("http://").unwrap().to_owned();
    let token = |did: &str| {
        let claims = json!({ "iss": did, "aud": audience, "iat": seconds, "exp": seconds + 3600 });
        jwt(&key, &json!({ "alg": "EdDSA" }), &claims)
    };
    let refused = |did: &str, why: &str| {
        let reply = ask(&service, &token(did));
        reply.refused(401, "unauthorized");
        assert!(reply.text().contains(why), "{why}: {}", reply.text());
    };
    let retired = host.did(":retired");
    host.serve(&retired, &key, false);
    refused(&retired, "no Ed25519 key to authenticate with");
    let other = host.did(":other");
    host.serve("did:web:victim.example", &key, true);
    refused(&other, "of another DID");
    *host.document.lock().unwrap() = "x".repeat(200_000);
    refused(&host.did(":long"), "is longer than");
    refused("did:web:localhost%3A1", "could not be reached");
    refused("did:web:10.0.0.1", "not public");
    refused("did:web:169.254.169.254:latest", "not public");
    // A host that accepts and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    refused(&format!("did:web:localhost%3A{}", silent.local_addr().unwrap().port()), "took too long");

    // Without the operator's word loopback is not asked.
    let strict = Service::fresh(&[]);
    let before = host.asked.load(Ordering::SeqCst);
    let claims = json!({ "iss": host.did(":x"), "aud": strict.url.strip_prefix("http://").unwrap(), "iat": seconds, "exp": seconds + 60 });
    let reply = ask(&strict, &jwt(&key, &json!({ "alg": "EdDSA" }), &claims));
    reply.refused(401, "unauthorized");
    assert!(reply.text().contains("not public"), "{}", reply.text());
    assert_eq!(host.asked.load(Ordering::SeqCst), before);
}
