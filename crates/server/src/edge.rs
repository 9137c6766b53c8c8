//! The edge: what happens to every request before and after its handler. Ids, tokens, rates, load, time, logs, numbers.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    num::NonZeroU32,
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
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use tracing::Instrument;

use crate::{app::App, extract::media_type, problem::Problem, settings::Settings, tokens::Token};

pub(crate) const NDJSON: &str = "application/x-ndjson";
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// A longer id is replaced.
const MAX_REQUEST_ID: usize = 64;
/// The route of whatever is not one.
const NO_ROUTE: &str = "none";

/// Who asks.
#[derive(Clone)]
pub(crate) enum Caller {
    /// Somebody at an address.
    Anyone,
    /// The bearer of a token.
    Token(Arc<Token>),
}

/// Where a connection comes from.
#[derive(Clone, Copy)]
pub(crate) struct Peer(pub SocketAddr);

/// How much one caller may ask (GCRA, twice a second's worth at once).
pub(crate) struct Limiter {
    addresses: Option<DefaultKeyedRateLimiter<IpAddr>>,
    tokens: Option<DefaultKeyedRateLimiter<String>>,
}

impl Limiter {
    pub(crate) fn new(settings: &Settings) -> Self {
        fn quota(per_second: u32) -> Option<Quota> {
            let rate = NonZeroU32::new(per_second)?;
            Some(Quota::per_second(rate).allow_burst(rate.saturating_add(per_second)))
        }
        Self {
            addresses: quota(settings.requests_per_second).map(RateLimiter::keyed),
            tokens: quota(settings.token_requests_per_second).map(RateLimiter::keyed),
        }
    }

    fn address(&self, address: IpAddr) -> bool {
        self.addresses.as_ref().is_none_or(|limiter| limiter.check_key(&network(address)).is_ok())
    }

    fn token(&self, token: &Token) -> bool {
        self.tokens.as_ref().is_none_or(|limiter| limiter.check_key(&token.id).is_ok())
    }

    /// Forgets whoever has not asked for a while.
    pub(crate) fn forget(&self) {
        if let Some(limiter) = &self.addresses {
            limiter.retain_recent();
        }
        if let Some(limiter) = &self.tokens {
            limiter.retain_recent();
        }
    }
}

/// Whoever has one address of an IPv6 network has them all.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => IpAddr::V4(v4),
            None => IpAddr::V6(Ipv6Addr::from(u128::from(v6) >> 64 << 64)),
        },
        v4 => v4,
    }
}

fn address(app: &App, request: &Request) -> IpAddr {
    let direct = request.extensions().get::<Peer>().map_or(IpAddr::from([127, 0, 0, 1]), |peer| peer.0.ip());
    if !app.settings.trust_forwarded_for {
        return direct;
    }
    let last = request.headers().get_all("x-forwarded-for").iter().next_back();
    let last = last.and_then(|value| value.to_str().ok()?.rsplit(',').next()?.trim().parse().ok());
    last.unwrap_or(direct)
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

pub(crate) fn timed_out() -> Problem {
    Problem::new(
        StatusCode::REQUEST_TIMEOUT,
        "request_timeout",
        "the request took too long to arrive or to be answered",
    )
}

/// Wraps every handler.
pub(crate) async fn edge(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let id = request_id(request.headers());
    let method = known(request.method());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let mut response = match admit(&app, &mut request) {
        Err(problem) => problem.into_response(),
        Ok(()) => match app.in_flight.try_acquire() {
            Err(_) => {
                app.metrics.turned_away("load");
                let detail = "more requests are being worked on than this service takes: come back in a second";
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", detail).retry_after(1).into_response()
            }
            Ok(_permit) => handle(&app, request, next, &id, method, route.as_ref()).await,
        },
    };
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id.clone());
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    let (status, took) = (response.status(), started.elapsed());
    let route = route.as_ref().map_or(NO_ROUTE, MatchedPath::as_str);
    app.metrics.answered(method, route, status.as_u16(), took);
    let (id, status, micros) = (id.to_str().unwrap_or_default(), status.as_u16(), took.as_micros() as u64);
    match status {
        500.. => tracing::warn!(id, method, route, status, micros, "answered"),
        400.. => tracing::info!(id, method, route, status, micros, "refused"),
        _ => tracing::debug!(id, method, route, status, micros, "answered"),
    }
    response
}

/// Who asks, and whether it may ask so often.
fn admit(app: &App, request: &mut Request) -> Result<(), Problem> {
    let too_many = || {
        app.metrics.turned_away("rate");
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", "too many requests: come back in a second")
            .retry_after(1)
    };
    let address = address(app, request);
    let caller = match request.headers().get(header::AUTHORIZATION) {
        None => Caller::Anyone,
        Some(value) => {
            let text = value.to_str().ok().and_then(|text| {
                let (scheme, token) = text.split_once(' ')?;
                scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
            });
            match app.tokens.find(text.unwrap_or_default(), app.now()) {
                Some(token) => Caller::Token(token),
                None if !app.limiter.address(address) => return Err(too_many()),
                None => {
                    let detail = "the token is unknown, revoked or expired";
                    return Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail));
                }
            }
        }
    };
    let allowed = match &caller {
        Caller::Anyone => app.limiter.address(address),
        Caller::Token(token) => app.limiter.token(token),
    };
    request.extensions_mut().insert(caller);
    if allowed { Ok(()) } else { Err(too_many()) }
}

async fn handle(
    app: &App,
    request: Request,
    next: Next,
    id: &HeaderValue,
    method: &'static str,
    route: Option<&MatchedPath>,
) -> Response {
    // A bulk submission takes its time; every part of it has to come in time.
    let bulk = media_type(request.headers()) == Some(NDJSON);
    let run = AssertUnwindSafe(next.run(request)).catch_unwind();
    let run = async {
        if bulk {
            return Ok(run.await);
        }
        tokio::time::timeout(app.settings.request_time(), run).await
    };
    let outcome = if app.settings.otlp_endpoint.is_empty() {
        run.await
    } else {
        let route = route.map_or(NO_ROUTE, MatchedPath::as_str);
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
        Ok(Ok(response)) => response,
        Ok(Err(_panic)) => Problem::internal(&"a handler panicked").into_response(),
        Err(_elapsed) => {
            app.metrics.turned_away("time");
            timed_out().into_response()
        }
    }
}

/// Methods that are counted by name: others are made up by whoever asks.
fn known(method: &Method) -> &'static str {
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
    fn networks_not_addresses() {
        let network = |text: &str| network(text.parse().unwrap()).to_string();
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(network("::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(network("192.0.2.1"), "192.0.2.1");
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
