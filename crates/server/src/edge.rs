//! The edge: what happens to every request before and after its handler. Ids, tokens, rates, load, time, logs, numbers.
//!
//! A body is taken in before a place among the requests in flight is: whoever sends slowly holds a connection, nothing else.

use std::{
    net::{IpAddr, SocketAddr},
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Instant,
};

use axum::{
    body::Body,
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures_util::FutureExt;
use tracing::Instrument;

use crate::{
    app::App,
    extract::{is_media_type, linger, too_large, whole},
    identity::Identity,
    limiter::{BulkSlot, network},
    problem::{Code, Problem},
    tokens::Bearer,
};

pub(crate) const NDJSON: &str = "application/x-ndjson";
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// A longer id is replaced.
const MAX_REQUEST_ID: usize = 64;
/// The route of whatever is not one.
const NO_ROUTE: &str = "none";
/// Bytes of a body that comes without a token: proofs of control of a domain and questions are short.
const MAX_ANONYMOUS_BODY: usize = 16 * 1024;
/// Routes that take a body from whoever has no token.
const ANONYMOUS_BODIES: [&str; 8] = [
    "/v1/agents/{agent}/domain-challenges",
    "/v1/agents/{agent}/domain-verifications",
    "/v1/log/consistency",
    crate::mcp::PATH,
    crate::dashboard::FORMS[0],
    crate::dashboard::FORMS[1],
    crate::dashboard::FORMS[2],
    crate::dashboard::FORMS[3],
];
/// Bulk submissions of one token at once.
const BULK_OF_ONE: u32 = 4;
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

/// Where a connection comes from.
#[derive(Clone, Copy)]
pub(crate) struct Peer(pub SocketAddr);

fn address(app: &App, request: &Request) -> IpAddr {
    let direct = request.extensions().get::<Peer>().map_or(IpAddr::from([127, 0, 0, 1]), |peer| peer.0.ip());
    let last = || {
        let last = request.headers().get_all("x-forwarded-for").iter().next_back();
        last.and_then(|value| value.to_str().ok()?.rsplit(',').next()?.trim().parse().ok())
    };
    let found = if app.settings.trust_forwarded_for { last() } else { None };
    network(found.unwrap_or(direct))
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

fn overloaded() -> Problem {
    let detail = "more requests are being worked on than this service takes: come back in a second";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", detail).retry_after(1)
}

fn too_many() -> Problem {
    let detail = "too many requests, or too many at once: come back in a second";
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
        return run(app, request, next, id, method, route).await;
    }
    let (caller, identity) = admit(app, address(app, &request), bearer(request.headers())).await?;
    if let Some(Identity(did)) = &identity {
        tracing::debug!(id = id.to_str().unwrap_or_default(), method, route, caller = &**did, "identified");
    }
    request.extensions_mut().insert(caller.clone());
    let bulk = route == BULK && method == "POST" && is_media_type(request.headers(), NDJSON);
    let turned_away = |reason: &'static str, problem: Problem| {
        app.metrics.turned_away(reason);
        problem
    };
    let _slot = app.limiter.slot(&caller).ok_or_else(|| turned_away("rate", too_many()))?;
    let has_body = matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH);
    if has_body && route != NO_ROUTE && matches!(caller, Caller::Anyone(_)) && !ANONYMOUS_BODIES.contains(&route) {
        let (parts, body) = request.into_parts();
        refused(&parts.headers, body).await;
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", "this needs `Authorization: Bearer TOKEN`"));
    }
    let _one_of_few = match (&caller, bulk) {
        (Caller::Token(token), true) => {
            Some(BulkSlot::take(&token.bulk, BULK_OF_ONE).ok_or_else(|| turned_away("rate", too_many()))?)
        }
        _ => None,
    };
    if has_body && !bulk && route != NO_ROUTE {
        request = taken_in(app, &caller, request).await?;
    }
    let places = if bulk { &app.bulk } else { &app.in_flight };
    let _permit = places.try_acquire().map_err(|_| turned_away("load", overloaded()))?;
    if bulk {
        // Takes its time, and watches it itself.
        let ran = AssertUnwindSafe(next.run(request)).catch_unwind().await;
        return ran.map_err(|_| Problem::internal(&"a handler panicked"));
    }
    run(app, request, next, id, method, route).await
}

/// A body that nobody reads any more. Whoever asked first whether to send it is told by the refusal.
async fn refused(headers: &HeaderMap, body: Body) {
    if !headers.contains_key(header::EXPECT) {
        linger(body).await;
    }
}

/// The request with its whole body.
async fn taken_in(app: &App, caller: &Caller, request: Request) -> Result<Request, Problem> {
    let limit = match caller {
        Caller::Anyone(_) => app.settings.max_body_bytes.min(MAX_ANONYMOUS_BODY),
        Caller::Token(_) => app.settings.max_body_bytes,
    };
    let (parts, body) = request.into_parts();
    // Memory for what it says it has, or may have; all bodies on their way together have a bound.
    let length = parts.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if length.is_some_and(|length| length > limit) {
        refused(&parts.headers, body).await;
        return Err(too_large(limit));
    }
    let kib = u32::try_from(length.unwrap_or(limit) / 1024 + 1).unwrap_or(u32::MAX);
    let _memory = app.bodies.try_acquire_many(kib).map_err(|_| {
        app.metrics.turned_away("load");
        overloaded()
    })?;
    let bytes = tokio::time::timeout(app.settings.request_time(), whole(body, limit)).await;
    let bytes = bytes.map_err(|_| {
        app.metrics.turned_away("time");
        too_slow()
    })??;
    Ok(Request::from_parts(parts, Body::from(bytes)))
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
    let refused = || {
        app.metrics.turned_away("rate");
        too_many()
    };
    let anyone = Caller::Anyone(address);
    let Some(text) = bearer else {
        return if app.limiter.address(address) { Ok((anyone, None)) } else { Err(refused()) };
    };
    if text.starts_with(crate::tokens::PREFIX) {
        return match app.tokens.find(&text, app.now()) {
            Some(token) if app.limiter.token(&token) => Ok((Caller::Token(token), None)),
            None if app.limiter.address(address) => {
                let detail = "the token is unknown, revoked or expired";
                Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail))
            }
            _ => Err(refused()),
        };
    }
    if !app.limiter.address(address) {
        return Err(refused());
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
