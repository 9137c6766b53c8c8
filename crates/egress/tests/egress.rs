//! Against a host on this machine that behaves badly.
#![allow(clippy::unwrap_used, missing_docs, reason = "a failing unwrap is how a test says no")]

use std::{
    net::SocketAddr,
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::{Body, Bytes},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use credence_egress::{
    Destination, Egress, EgressError, HeaderName, HeaderValue, Rate, Redirects, Request, Settings, Validators,
};

struct Host {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
}

impl Host {
    async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&requests);
        let routes = Router::new()
            .route("/hello", get(|| async { "hello" }))
            .route("/headers", get(|headers: HeaderMap| async move { format!("{headers:?}") }))
            .route("/etag", get(tagged))
            .route("/big", get(|| async { "x".repeat(2000) }))
            .route("/endless", get(endless))
            .route("/stuck", get(std::future::pending::<&'static str>))
            .route("/packed", get(|| async { ([(header::CONTENT_ENCODING, "gzip")], "…") }))
            .route("/busy", get(|| async { (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "60")], "") }))
            .route("/quota", get(|| async { used_up(StatusCode::FORBIDDEN, "0", "60") }))
            .route("/quota-left", get(|| async { used_up(StatusCode::FORBIDDEN, "3", "60") }))
            .route("/refused", get(|| async { (StatusCode::FORBIDDEN, [(header::RETRY_AFTER, "0")], "") }))
            .route("/broken", get(|| async { (StatusCode::INTERNAL_SERVER_ERROR, [(header::RETRY_AFTER, LONG)], "") }))
            .route("/limited", get(|| async { StatusCode::TOO_MANY_REQUESTS }))
            .route("/error", get(|| async { (StatusCode::INTERNAL_SERVER_ERROR, "oops") }))
            .route("/moved", get(|| async { moved("/headers") }))
            .route("/round", get(|| async { moved("/round") }))
            .route("/metadata", get(|| async { moved("https://169.254.169.254/latest") }))
            .route("/plain", get(|| async { moved("http://shop.example/") }))
            .route("/post", post(|body: Bytes| async move { body }))
            .route("/post-moved", post(|| async { (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, "/post")]) }))
            .layer(axum::middleware::map_request(move |request: axum::extract::Request| {
                counted.fetch_add(1, Ordering::SeqCst);
                async move { request }
            }));
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { address, requests }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn asked(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

/// More seconds than there are until the year 9999.
const LONG: &str = "99999999999999";

fn used_up(status: StatusCode, left: &'static str, reset: &'static str) -> Response {
    (status, [("x-ratelimit-remaining", left), ("x-ratelimit-reset", reset)]).into_response()
}

fn moved(to: &'static str) -> Response {
    (StatusCode::FOUND, [(header::LOCATION, to)]).into_response()
}

async fn tagged(headers: HeaderMap) -> Response {
    if headers.get(header::IF_NONE_MATCH).is_some_and(|tag| tag == "\"one\"") {
        return StatusCode::NOT_MODIFIED.into_response();
    }
    ([(header::ETAG, "\"one\"")], "document").into_response()
}

async fn endless() -> Response {
    let part = || Ok::<_, std::convert::Infallible>(Bytes::from_static(&[b'x'; 1024]));
    Response::new(Body::from_stream(futures_util::stream::repeat_with(part)))
}

fn quick() -> Rate {
    Rate { per_second: NonZeroU32::new(10_000).unwrap(), burst: NonZeroU32::new(10_000).unwrap() }
}

fn local() -> Egress {
    Egress::new(Settings { loopback: true, rate: quick(), ..Settings::for_purpose("test") }).unwrap()
}

#[tokio::test]
async fn an_answer_comes_whole_with_its_address() {
    let host = Host::start().await;
    let answer = local().send(Request::get(&host.url("/hello")).unwrap()).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.body.as_slice()), (200, &b"hello"[..]));
    assert_eq!(answer.address, Some(host.address));
    let answer = local().send(Request::get(&host.url("/error")).unwrap()).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.body.as_slice()), (500, &b"oops"[..]));
    let json = HeaderValue::from_static("application/json");
    let answer = local().send(Request::post(&host.url("/post"), json, b"{}".to_vec()).unwrap()).await.unwrap();
    assert_eq!(answer.body, b"{}");
}

#[tokio::test]
async fn without_permission_nothing_reaches_this_machine() {
    let host = Host::start().await;
    let public = Egress::new(Settings { rate: quick(), ..Settings::for_purpose("test") }).unwrap();
    let port = host.address.port();
    for url in [
        format!("http://127.0.0.1:{port}/hello"),
        format!("https://127.0.0.1:{port}/hello"),
        format!("https://localhost:{port}/hello"),
        format!("https://[::ffff:127.0.0.1]:{port}/hello"),
        format!("https://2130706433:{port}/hello"),
        format!("https://0x7f.1:{port}/hello"),
        format!("https://0.0.0.0:{port}/hello"),
    ] {
        let refused = public.send(Request::get(&url).unwrap()).await.unwrap_err();
        assert!(matches!(refused, EgressError::NotPublic { .. } | EgressError::NotHttps(_)), "{url}: {refused}");
    }
    assert_eq!(host.asked(), 0);
}

#[tokio::test]
async fn permission_for_this_machine_opens_no_other_private_address() {
    for url in ["https://10.0.0.1/", "https://192.168.1.1/", "https://169.254.169.254/", "https://[fe80::1]/"] {
        let refused = local().send(Request::get(url).unwrap()).await.unwrap_err();
        assert!(matches!(refused, EgressError::NotPublic { .. }), "{url}: {refused}");
    }
    let refused = local().send(Request::get("http://shop.example/").unwrap()).await.unwrap_err();
    assert_eq!(refused, EgressError::NotHttps("http://shop.example".into()));
}

#[tokio::test]
async fn redirections_are_followed_only_where_the_request_says() {
    let host = Host::start().await;
    let get = |path: &str, redirects| Request::get(&host.url(path)).unwrap().redirects(redirects);
    let refused = local().send(get("/moved", Redirects::Refuse)).await.unwrap_err();
    assert!(matches!(refused, EgressError::Redirected { .. }), "{refused}");
    let request = get("/moved", Redirects::SameOrigin(1))
        .secret(HeaderName::from_static("x-api-key"), HeaderValue::from_static("s3cret"));
    let answer = local().send(request).await.unwrap();
    let seen = String::from_utf8(answer.body).unwrap();
    assert!(seen.contains("credence/") && !seen.contains("s3cret"), "{seen}");
    let refused = local().send(get("/round", Redirects::SameOrigin(3))).await.unwrap_err();
    assert!(matches!(refused, EgressError::Redirected { .. }), "{refused}");
    let refused = local().send(get("/metadata", Redirects::USUAL)).await.unwrap_err();
    assert!(matches!(refused, EgressError::NotPublic { .. }), "{refused}");
    let refused = local().send(get("/plain", Redirects::USUAL)).await.unwrap_err();
    assert_eq!(refused, EgressError::NotHttps("http://shop.example".into()));
    let text = HeaderValue::from_static("text/plain");
    let posted = Request::post(&host.url("/post-moved"), text, b"x".to_vec()).unwrap().redirects(Redirects::USUAL);
    let refused = local().send(posted).await.unwrap_err();
    assert!(matches!(refused, EgressError::Redirected { .. }), "{refused}");
}

#[tokio::test]
async fn size_time_and_encoding_are_bounded() {
    let host = Host::start().await;
    let get = |path: &str| Request::get(&host.url(path)).unwrap();
    assert_eq!(local().send(get("/big").max_bytes(2000)).await.unwrap().body.len(), 2000);
    for path in ["/big", "/endless"] {
        let refused = local().send(get(path).max_bytes(1999)).await.unwrap_err();
        assert_eq!(refused, EgressError::TooLarge { host: "127.0.0.1".into(), limit: 1999 }, "{path}");
    }
    let refused = local().send(get("/stuck").deadline(Duration::from_millis(50))).await.unwrap_err();
    assert!(matches!(refused, EgressError::Late { .. }), "{refused}");
    let refused = local().send(get("/packed")).await.unwrap_err();
    assert!(matches!(refused, EgressError::Encoded { .. }), "{refused}");
}

#[tokio::test]
async fn a_document_that_did_not_change_is_not_sent_again() {
    let host = Host::start().await;
    let egress = local();
    let first = egress.send(Request::get(&host.url("/etag")).unwrap()).await.unwrap();
    let again = Request::get(&host.url("/etag")).unwrap().if_changed(&Validators::of(&first));
    let second = egress.send(again).await.unwrap();
    assert!(!first.is_unchanged() && second.is_unchanged() && second.body.is_empty());
}

#[tokio::test]
async fn a_host_that_asks_for_a_pause_gets_it() {
    let host = Host::start().await;
    let egress = local();
    let answer = egress.send(Request::get(&host.url("/busy")).unwrap()).await.unwrap();
    assert_eq!(answer.retry_after(), Some(Duration::from_secs(60)));
    let refused = egress.clone().send(Request::get(&host.url("/hello")).unwrap()).await.unwrap_err();
    assert!(matches!(refused, EgressError::Paused { .. }), "{refused}");
    assert_eq!(host.asked(), 1);
}

/// GitHub answers 403 where a quota is used up. A 403 that says nothing of the kind is an answer.
#[tokio::test]
async fn a_quota_that_is_used_up_is_a_pause() {
    let (host, egress) = (Host::start().await, local());
    for path in ["/quota-left", "/refused", "/broken"] {
        let answer = egress.send(Request::get(&host.url(path)).unwrap()).await.unwrap();
        assert_eq!(answer.pause(), None, "{path}");
    }
    let day = Duration::from_secs(86_400);
    let broken = egress.send(Request::get(&host.url("/broken")).unwrap()).await.unwrap();
    assert_eq!(broken.retry_after(), Some(day), "a day is the longest pause, also where nobody keeps it");
    let answer = egress.send(Request::get(&host.url("/quota")).unwrap()).await.unwrap();
    assert_eq!((answer.status, answer.pause()), (StatusCode::FORBIDDEN, Some(Duration::from_secs(60))));
    let refused = egress.send(Request::get(&host.url("/hello")).unwrap()).await.unwrap_err();
    assert!(matches!(refused, EgressError::Paused { .. }), "{refused}");
}

#[tokio::test]
async fn a_host_that_says_only_that_it_was_too_much_is_left_alone_for_a_while() {
    let host = Host::start().await;
    let egress = local();
    let url = host.url("/limited").parse().unwrap();
    assert_eq!(egress.pause_left(&url), None);
    let answer = egress.send(Request::get(&host.url("/limited")).unwrap()).await.unwrap();
    assert_eq!((answer.status, answer.retry_after()), (StatusCode::TOO_MANY_REQUESTS, None));
    let refused = egress.send(Request::get(&host.url("/hello")).unwrap()).await.unwrap_err();
    assert!(matches!(refused, EgressError::Paused { .. }), "{refused}");
    assert_eq!(host.asked(), 1);
    tokio::time::sleep(egress.pause_left(&url).unwrap()).await;
    assert!(egress.send(Request::get(&host.url("/hello")).unwrap()).await.is_ok());
}

#[tokio::test]
async fn a_host_sees_no_more_requests_than_its_rate() {
    let host = Host::start().await;
    let (per_second, burst) = (20, 5);
    let rate = Rate { per_second: NonZeroU32::new(per_second).unwrap(), burst: NonZeroU32::new(burst).unwrap() };
    let egress = Egress::new(Settings { loopback: true, rate, ..Settings::for_purpose("test") }).unwrap();
    let started = Instant::now();
    for n in 1..=15_u32 {
        egress.send(Request::get(&host.url("/hello")).unwrap()).await.unwrap();
        // A slow machine sends fewer; none may send more.
        let allowed = f64::from(burst) + started.elapsed().as_secs_f64() * f64::from(per_second);
        assert!(f64::from(n) <= allowed.floor() + 1.0, "{n} after {:?}", started.elapsed());
    }
}

#[tokio::test]
async fn a_pinned_client_asks_one_host_at_its_checked_address() {
    let (host, other) = (Host::start().await, Host::start().await);
    // The name leads nowhere: only the pinned address can answer.
    let destination = Destination { host: "shop.invalid".into(), addresses: vec![host.address] };
    let pinned = local().pinned(destination).unwrap();
    let refused = pinned.send(Request::get(&other.url("/hello")).unwrap()).await.unwrap_err();
    assert!(matches!(refused, EgressError::OtherHost { .. }), "{refused}");
    assert_eq!(other.asked(), 0);
    let local_pin = local().resolve(&host.url("/").parse().unwrap()).await.unwrap();
    assert_eq!(local_pin.addresses, [host.address]);
    let answer = local().pinned(local_pin).unwrap().send(Request::get(&host.url("/hello")).unwrap()).await.unwrap();
    assert_eq!(answer.body, b"hello");
    let answer =
        pinned.send(Request::get(&format!("http://shop.invalid:{}/hello", host.address.port())).unwrap()).await;
    assert_eq!(answer.unwrap().body, b"hello");
    // TLS to the pinned address: it was reached, and has no certificate.
    let reached = pinned.send(Request::get("https://shop.invalid/hello").unwrap()).await.unwrap_err();
    assert!(matches!(reached, EgressError::Unreachable { .. } | EgressError::Certificate { .. }), "{reached}");
    let unpinned = local().send(Request::get("https://shop.invalid/hello").unwrap()).await.unwrap_err();
    assert!(matches!(unpinned, EgressError::Unresolved { .. }), "{unpinned}");
}

#[tokio::test]
async fn errors_repeat_neither_path_nor_query() {
    let closed = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let request = Request::get(&format!("http://{closed}/path?token=s3cret")).unwrap();
    let failed = local().send(request).await.unwrap_err();
    assert!(matches!(failed, EgressError::Unreachable { .. }) && !failed.to_string().contains("s3cret"), "{failed}");
}

/// A resolver whose answer changes.
struct Turning(std::sync::Mutex<std::net::IpAddr>);

impl credence_egress::Names for Turning {
    fn addresses(&self, _: &str, port: u16) -> std::io::Result<Vec<SocketAddr>> {
        Ok(vec![SocketAddr::new(*self.0.lock().unwrap(), port)])
    }
}

#[tokio::test]
async fn what_another_resolver_says_is_checked_and_a_pinned_client_does_not_follow_it() {
    let host = Host::start().await;
    let names = Arc::new(Turning(std::sync::Mutex::new("127.0.0.1".parse().unwrap())));
    let settings = Settings { loopback: true, ..Settings::for_purpose("test") };
    let egress = Egress::with_names(settings, Arc::clone(&names) as _).unwrap();
    let url = format!("http://agent.test:{}/hello", host.address.port());
    let destination = egress.resolve(&url.parse().unwrap()).await.unwrap();
    assert_eq!(destination.addresses, [host.address]);
    let pinned = egress.pinned(destination).unwrap();
    assert_eq!(pinned.send(Request::get(&url).unwrap()).await.unwrap().body, b"hello");
    *names.0.lock().unwrap() = "10.0.0.7".parse().unwrap();
    assert!(matches!(egress.resolve(&url.parse().unwrap()).await, Err(EgressError::NotPublic { .. })));
    // New connections too go to where the name led before.
    assert_eq!(pinned.send(Request::get(&url).unwrap()).await.unwrap().address, Some(host.address));
}
