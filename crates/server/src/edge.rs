//! The edge: what happens to every request before and after its handler. Ids, tokens, rates, load, time, logs, numbers.
//!
//! A body is taken in before a place among the requests in flight is. A caller that sends slowly holds a connection, one of the
//! requests that it may have itself, and memory for what arrived; nothing that others need. Each caller has a share of everything
//! (`shares`, `pool`), callers without a token share apart from those with one, and `admin` apart from both.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Instant,
};

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures_util::FutureExt;
use tracing::Instrument;

use crate::{
    app::App,
    bodies::{Cut, refused, taken_in, until_read},
    extract::is_media_type,
    identity::Identity,
    limiter::network,
    origin,
    problem::{Code, Problem},
    shares::{Lane, Owner, Refusal},
    tokens::{Bearer, Scope},
    turns::PAYER,
};

pub(crate) const NDJSON: &str = "application/x-ndjson";
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// A longer id is replaced.
const MAX_REQUEST_ID: usize = 64;
/// The route of whatever is not one.
const NO_ROUTE: &str = "none";
/// Where agents that are probed go. What they present is for somebody else.
const PROBE_LISTENER: &str = "/.well-known/credence-probe/{nonce}";
/// Routes that take a body from whoever has no token.
const ANONYMOUS_BODIES: [&str; 12] = [
    PROBE_LISTENER,
    // Signed by a key of the agent, and once for each signal.
    "/v1/agents/{agent}/disputes",
    "/v1/agents/{agent}/domain-challenges",
    "/v1/agents/{agent}/domain-verifications",
    "/v1/log/consistency",
    crate::mcp::PATH,
    crate::dashboard::FORMS[0],
    crate::dashboard::FORMS[1],
    crate::dashboard::FORMS[2],
    crate::dashboard::FORMS[3],
    crate::dashboard::FORMS[4],
    crate::dashboard::FORMS[5],
];
/// Bulk submissions of one token at once.
const BULK_OF_ONE: u64 = 4;
/// Never turned away: whoever watches the service must see it.
const PROBES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];
/// Where bulk submissions go.
const BULK: &str = "/v1/signals";

/// On answers that are for this service's own pages.
#[derive(Clone, Copy)]
pub(crate) struct OwnPage;

/// Who asks.
#[derive(Clone)]
pub(crate) enum Caller {
    /// Somebody at an address.
    Anyone(IpAddr),
    /// The bearer of a token.
    Token(Arc<Bearer>),
}

impl Caller {
    /// As whom it takes its share.
    pub(crate) fn owner(&self) -> Owner {
        match self {
            Caller::Anyone(address) => Owner::Address(*address),
            Caller::Token(token) => token.owner(),
        }
    }

    /// With whom it shares.
    pub(crate) fn lane(&self) -> Lane {
        match self {
            Caller::Anyone(_) => Lane::Anonymous,
            Caller::Token(token) if token.may(Scope::Admin) => Lane::Admin,
            Caller::Token(_) => Lane::Tokens,
        }
    }
}

/// Where a connection comes from.
#[derive(Clone, Copy)]
pub(crate) struct Peer(pub SocketAddr);

fn address(app: &App, request: &Request) -> IpAddr {
    let direct = request.extensions().get::<Peer>().map_or(IpAddr::from([127, 0, 0, 1]), |peer| peer.0.ip());
    let last = || {
        let last = request.headers().get_all("x-forwarded-for").iter().next_back();
        last.and_then(|value| forwarded(value.to_str().ok()?.rsplit(',').next()?.trim()))
    };
    let found = if app.settings.trust_forwarded_for { last() } else { None };
    network(found.unwrap_or(direct))
}

/// An address as proxies write it: some add the port.
fn forwarded(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

/// An id that the caller gave, if it can stand in a log; or one of ours.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let fits = |value: &&HeaderValue| {
        (1..=MAX_REQUEST_ID).contains(&value.len())
            && value.as_bytes().iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
    };
    match headers.get(REQUEST_ID).filter(fits) {
        Some(given) => given.clone(),
        None => {
            let id = format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
            HeaderValue::try_from(id).unwrap_or(HeaderValue::from_static("-"))
        }
    }
}

/// The body did not come in time.
pub(crate) fn too_slow() -> Problem {
    Problem::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", "the body took too long to arrive: nothing was done")
}

/// Nothing is free of something that callers share: 503. The caller has its share: 429. `setting` is the limit.
pub(crate) fn refusal(app: &App, why: Refusal, setting: &str) -> Problem {
    match why {
        Refusal::All => {
            app.metrics.turned_away("load");
            let detail = format!("all of {setting} is in use: come back in a second");
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", detail).retry_after(1)
        }
        Refusal::Own => {
            app.metrics.turned_away("share");
            let detail = format!("you have your share of {setting} in use: wait for your other requests, or a second");
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", detail).retry_after(1)
        }
    }
}

fn too_often(app: &App, setting: &str) -> Problem {
    app.metrics.turned_away("rate");
    let detail = format!("more requests than {setting} allows: come back in a second");
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", detail).retry_after(1)
}

/// Wraps every handler.
pub(crate) async fn edge(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id(request.headers());
    let method = method_name(request.method());
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map_or(NO_ROUTE, MatchedPath::as_str);
    let answered = answer(&app, request, next, &id, method, route).await;
    let mut response = answered.unwrap_or_else(IntoResponse::into_response);
    let is_page = response.extensions().get::<OwnPage>().is_some();
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id.clone());
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // Pages are for whoever opens them, not for the scripts of other sites.
    if !is_page {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        headers.insert(
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("etag, retry-after, www-authenticate, x-request-id"),
        );
    }
    let code = response.extensions().get::<Code>().map_or("", |code| code.0);
    let (status, took) = (response.status(), started.elapsed());
    app.metrics.answered(method, route, status.as_u16(), took);
    let (id, status, micros) = (id.to_str().unwrap_or_default(), status.as_u16(), took.as_micros() as u64);
    match status {
        // Those who are turned away are counted: a line for each would help whoever wants to fill the disk.
        429 | 503 => tracing::debug!(id, method, route, status, micros, "turned away"),
        500.. => tracing::warn!(id, method, route, status, code, micros, "answered"),
        400.. => tracing::info!(id, method, route, status, code, micros, "refused"),
        _ => tracing::debug!(id, method, route, status, micros, "answered"),
    }
    response
}

async fn answer(
    app: &App,
    mut request: Request,
    next: Next,
    id: &HeaderValue,
    method: &'static str,
    route: &str,
) -> Result<Response, Problem> {
    if request.method() == Method::OPTIONS && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
        return Ok(preflight());
    }
    if PROBES.contains(&route) {
        // The operator's: they must be answered while others are served in turns.
        let operator = (Lane::Admin, Owner::Address(Ipv4Addr::LOCALHOST.into()));
        return PAYER.scope(operator, run(app, request, next, id, method, route)).await;
    }
    let token = bearer(request.headers()).filter(|_| route != PROBE_LISTENER);
    let (caller, identity) = admit(app, address(app, &request), token).await?;
    if let Some(Identity(did)) = &identity {
        tracing::debug!(id = id.to_str().unwrap_or_default(), method, route, caller = &**did, "identified");
    }
    if matches!(caller, Caller::Anyone(_)) && origin::records(request.method(), route) {
        origin::check(app, request.headers())?;
    }
    request.extensions_mut().insert(caller.clone());
    let payer = payer(app, &caller, request.headers());
    let (lane, owner) = (payer.lane(), payer.owner());
    let bulk = route == BULK && method == "POST" && is_media_type(request.headers(), NDJSON);
    let most = app.settings.max_in_flight_per_caller as u64;
    let slot = app.slots.take(owner, most);
    let has_body = matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH);
    let slot = match slot {
        Ok(slot) => slot,
        Err(why) => {
            let (parts, body) = request.into_parts();
            refused(&parts.headers, body).await;
            let problem = refusal(app, why, "max_in_flight_per_caller");
            return Err(if has_body { problem.closing() } else { problem });
        }
    };
    if has_body && route != NO_ROUTE && matches!(caller, Caller::Anyone(_)) && !ANONYMOUS_BODIES.contains(&route) {
        let (parts, body) = request.into_parts();
        refused(&parts.headers, body).await;
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "this needs `Authorization: Bearer TOKEN`"));
    }
    let mut _memory = None;
    if has_body && !bulk && route != NO_ROUTE {
        let (whole, memory) = taken_in(app, &caller, &payer, request).await?;
        (request, _memory) = (whole, Some(memory));
    }
    if bulk {
        let place = app.bulk.of(lane).take(owner, BULK_OF_ONE);
        let _place = place.map_err(|why| refusal(app, why, "the bulk submissions at once"))?;
        // Takes its time, and watches it itself.
        let ran = PAYER.scope((lane, owner), AssertUnwindSafe(next.run(request)).catch_unwind()).await;
        return ran.map_err(|_| Problem::internal(&"a handler panicked"));
    }
    let place = app.in_flight.of(lane).take(owner, most);
    let _place = place.map_err(|why| refusal(app, why, "max_in_flight"))?;
    let cut = request.extensions().get::<Cut>().cloned().unwrap_or_default();
    let response = PAYER.scope((lane, owner), run(app, request, next, id, method, route)).await?;
    // What a request with a body has done is told, whatever else its caller has not read yet.
    if has_body {
        return Ok(response);
    }
    until_read(response, slot, &cut, |bytes| app.large_answers.of(lane).take(owner, bytes, u64::MAX))
        .map_err(|why| refusal(app, why, "max_body_memory_mib"))
}

/// Who pays for a request out of its share: the token that is signed in on a page, else the caller.
fn payer(app: &App, caller: &Caller, headers: &HeaderMap) -> Caller {
    match caller {
        Caller::Anyone(_) => crate::dashboard::session::signed_in(app, headers).map_or(caller.clone(), Caller::Token),
        Caller::Token(_) => caller.clone(),
    }
}

/// Browsers ask before they send a token.
fn preflight() -> Response {
    let allowed = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, PUT, PATCH")),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            HeaderValue::from_static("authorization, content-type, if-none-match, last-event-id, x-request-id"),
        ),
        (header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400")),
    ];
    (StatusCode::NO_CONTENT, allowed).into_response()
}

/// The text of a bearer token; empty where the header promises one and has none that can be read.
fn bearer(headers: &HeaderMap) -> Option<String> {
    const SCHEME: &[u8] = b"bearer";
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, rest) = value.split_at_checked(SCHEME.len())?;
    let ends = rest.first().is_none_or(u8::is_ascii_whitespace);
    let text = || str::from_utf8(rest).unwrap_or_default().trim().to_owned();
    (ends && scheme.eq_ignore_ascii_case(SCHEME)).then(text)
}

/// Who asks, and whether it may ask so often.
async fn admit(app: &App, address: IpAddr, bearer: Option<String>) -> Result<(Caller, Option<Identity>), Problem> {
    let refused = |setting: &str| too_often(app, setting);
    let anyone = Caller::Anyone(address);
    let Some(text) = bearer else {
        return if app.limiter.address(address) { Ok((anyone, None)) } else { Err(refused("requests_per_second")) };
    };
    if text.starts_with(crate::tokens::PREFIX) {
        return match app.tokens.find(&text, app.now()) {
            Some(token) if app.limiter.token(&token) => Ok((Caller::Token(token), None)),
            Some(_) => Err(refused("token_requests_per_second")),
            None if app.limiter.address(address) => {
                let detail = "the token is unknown, revoked or expired";
                Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail))
            }
            None => Err(refused("requests_per_second")),
        };
    }
    if !app.limiter.address(address) {
        return Err(refused("requests_per_second"));
    }
    let identity = app.identities.identify(app, &text, address).await?;
    Ok((anyone, Some(identity)))
}

async fn run(
    app: &App,
    request: Request,
    next: Next,
    id: &HeaderValue,
    method: &'static str,
    route: &str,
) -> Result<Response, Problem> {
    let run = AssertUnwindSafe(next.run(request)).catch_unwind();
    let run = tokio::time::timeout(app.settings.request_time(), run);
    let outcome = if app.settings.otlp_endpoint.is_empty() {
        run.await
    } else {
        let name = format!("{method} {route}");
        let span = tracing::info_span!(
            "request",
            otel.name = name,
            otel.kind = "server",
            http.request.method = method,
            http.route = route,
            http.response.status_code = tracing::field::Empty,
            request.id = id.to_str().unwrap_or_default()
        );
        let outcome = run.instrument(span.clone()).await;
        if let Ok(Ok(response)) = &outcome {
            span.record("http.response.status_code", response.status().as_u16());
        }
        outcome
    };
    match outcome {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(_panic)) => Err(Problem::internal(&"a handler panicked")),
        Err(_elapsed) => {
            app.metrics.turned_away("time");
            let detail = "it took too long; whether it was done is not known: look before you ask for it again";
            Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "timed_out", detail).retry_after(5))
        }
    }
}

/// Methods that are counted by name: others are made up by whoever asks.
fn method_name(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_as_proxies_write_them() {
        let of = |text: &str| forwarded(text).map(|address| address.to_string());
        for text in ["192.0.2.1", "192.0.2.1:8080"] {
            assert_eq!(of(text).as_deref(), Some("192.0.2.1"), "{text}");
        }
        for text in ["2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:443"] {
            assert_eq!(of(text).as_deref(), Some("2001:db8::1"), "{text}");
        }
        assert_eq!(of("unknown"), None);
    }

    #[test]
    fn ids_that_could_forge_a_log_line_are_replaced() {
        let of = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, HeaderValue::from_static(text));
            request_id(&headers)
        };
        assert_eq!(of("abc-1.2_3"), "abc-1.2_3");
        for bad in ["", "a b", "a=b", "x".repeat(65).leak()] {
            assert_eq!(of(bad).len(), 32, "{bad}");
        }
    }
}
