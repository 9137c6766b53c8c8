//! Limits, and what callers hear at them.

use std::{
    io::{Read, Write},
    sync::atomic::{AtomicU32, Ordering},
};

use credence_testing::{Service, signed, until};
use serde_json::json;

#[test]
fn too_many_requests_are_told_to_come_back() {
    // One a second: also a machine that is busy with other things asks more often.
    let service = Service::fresh(&["requests_per_second=1", "token_requests_per_second=0"]);
    let replies: Vec<_> = (0..30).map(|_| service.get("/v1/tags")).collect();
    let refused: Vec<_> = replies.iter().filter(|reply| reply.status == 429).collect();
    assert!(replies[0].status == 200 && refused.len() >= 10, "{}", refused.len());
    refused[0].refused(429, "rate_limited");
    assert_eq!(refused[0].header("retry-after"), "1");
    // Whoever has a token is not held up by others, and guessing tokens is limited too.
    let bearer = format!("Bearer {}", service.token);
    assert!((0..30).all(|_| service.get_with("/v1/tags", &[("authorization", &bearer)]).status == 200));
    let guess = || service.get_with("/v1/tags", &[("authorization", "Bearer crd_guess")]).status;
    assert!((0..30).any(|_| guess() == 429));
}

#[test]
fn behind_a_proxy_clients_are_told_apart() {
    let service = Service::fresh(&["requests_per_second=2", "trust_forwarded_for=true"]);
    let from = |address: &str| service.get_with("/v1/tags", &[("x-forwarded-for", address)]).status;
    assert!((0..100).any(|_| from("192.0.2.1") == 429));
    assert_eq!(from("192.0.2.2"), 200);
    assert_eq!(from("192.0.2.2, 192.0.2.3"), 200, "only what the proxy itself added counts");
}

#[test]
fn slow_bodies_are_given_up_and_hold_nobody_up() {
    // Seconds enough for whatever else is asked, on a busy machine too.
    let service = Service::fresh(&["request_seconds=5", "max_in_flight=2"]);
    service.add_shop();
    let head = format!(
        "POST /v1/agents HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{{\"agent\"",
        service.token
    );
    let anyone = "POST /v1/agents/shop/domain-challenges HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{";
    let mut slow: Vec<_> = (0..20).map(|_| service.socket()).collect();
    for (n, stream) in slow.iter_mut().enumerate() {
        stream.write_all(if n % 2 == 0 { head.as_bytes() } else { anyone.as_bytes() }).unwrap();
    }
    for _ in 0..5 {
        assert_eq!(service.get("/v1/tags").status, 200);
        assert_eq!(service.get("/healthz").status, 200);
    }
    for mut stream in slow {
        let mut answer = [0; 2048];
        let n = stream.read(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer[..n]).into_owned();
        assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("request_timeout"), "{answer}");
    }
}

#[test]
fn more_than_it_takes_is_turned_away_and_probes_never_are() {
    let service = Service::fresh(&["max_in_flight=1", "requests_per_second=0"]);
    service.add_shop();
    let turned_away = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let reply = service.get("/v1/agents");
                    if reply.status == 503 {
                        reply.refused(503, "overloaded");
                        assert_eq!(reply.header("retry-after"), "1");
                        turned_away.fetch_add(1, Ordering::Relaxed);
                    }
                    assert_eq!(service.get("/healthz").status, 200);
                    if turned_away.load(Ordering::Relaxed) > 20 {
                        break;
                    }
                }
            });
        }
    });
    assert!(turned_away.into_inner() > 0);
    let service = Service::fresh(&["requests_per_second=1"]);
    assert!((0..20).all(|_| service.get("/healthz").status == 200 && service.get("/metrics").status == 200));
}

#[test]
fn new_answers_are_fewer_than_answers() {
    let service = Service::fresh(&["new_answers_per_second=1", "requests_per_second=0"]);
    service.add_shop();
    let ask = |n: u32| service.get(&format!("/v1/entities/shop/trust-signals?url=https://shop.example/de/{n}"));
    let replies: Vec<_> = (0..20).map(ask).collect();
    assert!(replies.iter().filter(|reply| reply.status == 429).count() >= 10);
    assert!((0..20).all(|_| ask(0).status == 200), "what was signed before is given again");
}

/// A token that sends bodies and does not end them holds up its own requests, and nobody else's.
#[test]
fn slow_bodies_of_one_token_do_not_stop_the_posts_of_others() {
    let service = Service::fresh(&["max_body_memory_mib=8", "body_stall_seconds=60", "request_seconds=60"]);
    let (greedy, honest) = (service.token("verify"), service.token("verify"));
    let (megabyte, trace) = (vec![b' '; 1024 * 1024], json!({ "tool": "t", "result": 1 }));
    let head = format!(
        "POST /v1/verify HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {greedy}\r\ncontent-type: application/json\r\ncontent-length: 4000000\r\n\r\n"
    );
    let mut slow: Vec<_> = (0..60).map(|_| service.socket()).collect();
    for stream in &mut slow {
        stream.write_all(head.as_bytes()).unwrap();
        // Announcing takes nothing: what arrived does. It may be refused before all of it did.
        let _ = stream.write_all(&megabyte);
    }
    until("it has its share", || {
        let text = service.get("/metrics").text();
        let line = text.lines().find_map(|line| line.strip_prefix("credence_http_body_bytes ")).unwrap();
        line.parse::<u64>().unwrap() >= 2 * 1024 * 1024
    });
    for _ in 0..20 {
        service.post_as(&honest, "/v1/verify", &trace).ok();
        service.post("/v1/verify", &trace).ok();
    }
    let large = json!({ "tool": "t", "result": "x".repeat(900_000) });
    service.post_as(&honest, "/v1/verify", &large).ok();
    slow.iter().for_each(|stream| stream.set_nonblocking(true).unwrap());
    until("some of them are told why", || {
        slow.iter_mut().any(|stream| {
            let mut answer = [0; 2048];
            let n = stream.read(&mut answer).unwrap_or(0);
            let answer = String::from_utf8_lossy(&answer[..n]).into_owned();
            let named = answer.contains("max_body_memory_mib") && answer.contains("retry-after: 1");
            answer.starts_with("HTTP/1.1 429 ") && named
        })
    });
}

/// Places, memory and streams of `admin` are its own.
#[test]
fn admin_is_served_when_everything_is_taken() {
    let service = Service::fresh(&["max_in_flight_per_caller=3", "max_event_clients=2", "max_body_memory_mib=1"]);
    let tokens: Vec<String> = (0..4).map(|_| service.token("verify")).collect();
    let mut held = Vec::new();
    for token in &tokens {
        for n in 0..4 {
            let mut stream = service.socket();
            let body = "x".repeat(if n == 0 { 0 } else { 300_000 });
            let request = if n == 0 {
                format!("GET /v1/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n")
            } else {
                format!(
                    "POST /v1/verify HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n{body}"
                )
            };
            stream.write_all(request.as_bytes()).unwrap();
            held.push(stream);
        }
    }
    until("a token has its share", || {
        let reply = service.post_as(&tokens[0], "/v1/verify", &json!({ "tool": "t", "result": "x".repeat(400_000) }));
        reply.status == 429 || reply.status == 503
    });
    for n in 0..20 {
        service.add_agent(&format!("agent-{n}"), &[]);
        service.post("/v1/verify", &json!({ "tool": "t", "result": "x".repeat(400_000) })).ok();
    }
    let mut stream = service.socket();
    let ask = format!("GET /v1/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\r\n", service.token);
    stream.write_all(ask.as_bytes()).unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 200");
    drop(held);
}

/// Addresses share their connections: who has many leaves some to the next.
#[test]
fn one_address_does_not_take_all_connections() {
    let service = Service::fresh(&["max_connections=64", "idle_seconds=60"]);
    let greedy: Vec<_> = (0..80).map(|_| service.socket()).collect();
    until("they are there", || {
        let mut text = String::new();
        let mut other = from_address(&service, "127.0.0.9");
        other.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        other.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
        text.contains("credence_http_connections 64\n")
    });
    drop(greedy);
}

/// A connection that comes from this address.
fn from_address(service: &Service, address: &str) -> std::net::TcpStream {
    let to: std::net::SocketAddr = service.url[7..].parse().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(format!("{address}:0").parse().unwrap()).unwrap();
        socket.connect(to).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(credence_testing::PATIENCE)).unwrap();
    stream
}

/// A client that asks for much and reads nothing.
#[test]
fn who_does_not_read_is_let_go() {
    let service = Service::fresh(&["idle_seconds=1", "requests_per_second=0"]);
    let mut greedy = service.socket();
    let ask = "GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nhost: x\r\n\r\n".repeat(20);
    greedy.write_all(ask.as_bytes()).unwrap();
    until("it is let go", || service.get("/metrics").text().contains("credence_http_connections 1\n"));
    drop(greedy);
}

#[test]
fn a_bulk_submission_that_stalls_keeps_what_was_whole() {
    let service = Service::fresh(&["request_seconds=5"]);
    service.add_shop();
    let line = signed("shop", "a", "rel_uptime", 33.0).canonical().to_string();
    let mut stream = service.socket();
    let head = format!(
        "POST /v1/signals HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer {}\r\ncontent-type: application/x-ndjson\r\ncontent-length: 100000\r\n\r\n{line}\n{{\"half",
        service.token
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.contains("\"known\":false,\"line\":1") && answer.contains("request_timeout"), "{answer}");
}

#[test]
fn idle_connections_are_closed_and_too_many_are_refused() {
    // Seconds enough to open them all before the first is closed.
    let service = Service::fresh(&["max_connections=50", "idle_seconds=5", "requests_per_second=0"]);
    let idle: Vec<_> = (0..60).map(|_| service.socket()).collect();
    let refused = |mut stream: std::net::TcpStream| {
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text.contains("too_many_connections")
    };
    let count = idle.into_iter().map(refused).filter(|refused| *refused).count();
    assert!((9..=11).contains(&count), "{count}");
    until("idle ones were closed", || service.get("/metrics").text().contains("credence_http_connections 1"));
    assert_eq!(service.get("/healthz").status, 200);
}

/// Ten thousand connections that say nothing (a thousand in the short mode).
#[test]
fn a_crowd_of_idle_connections_hinders_nobody() {
    let many = if std::env::var_os("LONG_TESTS").is_some() { 9_000 } else { 1_000 };
    let service = Service::fresh(&[
        "max_connections=10000",
        "max_connections_per_address=10000",
        "idle_seconds=20",
        "requests_per_second=0",
    ]);
    let crowd: Vec<_> = (0..many).map_while(|_| std::net::TcpStream::connect(&service.url[7..]).ok()).collect();
    assert_eq!(crowd.len(), many, "this machine allows fewer open files");
    service.add_shop();
    for _ in 0..100 {
        assert_eq!(service.get("/v1/entities/shop/trust-signals?url=https://shop.example/de").status, 200);
    }
    drop(crowd);
    service.stop().audit_passes();
}

#[test]
fn large_bodies_are_refused_before_they_are_read() {
    let service = Service::fresh(&["max_body_bytes=1000"]);
    let body = json!({ "agent": "x", "name": "y".repeat(2_000) });
    service.post("/v1/agents", &body).refused(413, "body_too_large");
    // Who forgot the token hears of that, whatever the size.
    service.post_as("", "/v1/agents", &body).refused(401, "unauthorized");
    service.post_as("", "/v1/nowhere", &body).refused(404, "no_such_path");
    let signals: Vec<i32> = vec![1; 400];
    assert_eq!(service.post("/v1/signals", &json!(signals)).status, 200, "each has its own result");
}

#[test]
fn bulk_has_its_own_limits() {
    let service = Service::fresh(&["max_bulk_lines=4"]);
    service.add_shop();
    let line = |n: u32| signed("shop", "a", "rel_uptime", f64::from(n)).canonical().to_string();
    let bulk = |body: String| service.request("POST", "/v1/signals", &service.token, "application/x-ndjson", body);
    let results = |text: String| -> Vec<serde_json::Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let told = results(bulk((0..6).map(|n| line(n) + "\n").collect()).text());
    assert_eq!(told.len(), 5, "{told:?}");
    assert_eq!((&told[4]["error"]["code"], &told[4]["line"]), (&json!("too_many_items"), &json!(5)));
    // What is wrong with one line is said of that line.
    let told = results(bulk(format!("{}\n{}\nnonsense\n{}\n", line(7), "x".repeat(50_000), line(8))).text());
    let codes: Vec<_> = told.iter().map(|one| one["error"]["code"].as_str().unwrap_or("")).collect();
    assert_eq!(codes, ["", "too_large", "malformed", ""]);
    let told = results(bulk(format!("{}\n\n\n{}", line(9), line(10))).text());
    assert_eq!(told.iter().map(|one| one["line"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 4]);
    assert_eq!(bulk(String::new()).body, b"");
    // Only where bulk submissions go is there no time limit.
    service
        .request("POST", "/v1/agents", &service.token, "application/x-ndjson", "{}")
        .refused(415, "unsupported_media_type");
}
