//! The proxy in front of a server that speaks streamable HTTP.
//!
//! Requests go on as they came; answers come back as they came, whether as one JSON document or as a stream of events. In
//! either only the message that answers a tool call is touched. A POST has its answer in its own response, or, where the server
//! keeps sessions, on a stream that is resumed later: calls are remembered with their exchange, and by session beyond it.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header},
    response::Response,
};
use credence_protocol::EntityId;
use credence_verify::Stake;
use futures_util::StreamExt;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::net::TcpListener;
use url::Url;

use crate::{
    Caller, Error, Guard,
    deliver::error_answer,
    events::{Events, lines_of, split_events, without_mark},
    guard::Answer,
    message::{Parsed, parse},
    proxy::{Batch, from_server, judge, render},
    settings::GuardMode,
    warn,
    watch::Watch,
};

/// Headers that belong to one connection, and those the guard sets itself.
const OWN_HEADERS: [HeaderName; 9] = [
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::TE,
    header::TRAILER,
    header::PROXY_AUTHORIZATION,
    header::PROXY_AUTHENTICATE,
    header::CONTENT_LENGTH,
    header::HOST,
];
/// Sessions whose calls are remembered beyond their exchange.
const MAX_SESSIONS: usize = 1_000;
/// How long streams may go on once the proxy is asked to end.
const GRACE: Duration = Duration::from_secs(3);
const SESSION: &str = "mcp-session-id";

/// Where to, and from where browsers may come.
#[derive(Debug, Clone)]
pub struct Route {
    /// The server.
    pub upstream: Url,
    /// Origins of web pages that may use it, besides those on this machine.
    pub allowed_origins: Vec<String>,
}

struct Proxy {
    guard: Arc<Guard>,
    route: Route,
    client: reqwest::Client,
    /// Only this machine can reach it.
    local: bool,
    /// Calls that an exchange ended without answering, by session: a stream that is resumed may answer them.
    sessions: Mutex<HashMap<String, Arc<Mutex<Watch>>>>,
}

/// Serves until `stop`, and a little longer: streams that clients keep open are cut then.
pub async fn serve(
    guard: Arc<Guard>,
    route: Route,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Error> {
    let failed = |why: String| Error::Address(format!("--upstream {}: {why}", shown(&route.upstream)));
    if !matches!(route.upstream.scheme(), "http" | "https") || route.upstream.host().is_none() {
        return Err(failed("an http or https URL is needed".to_owned()));
    }
    // Redirects are the client's business, and so is how long an answer may take.
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build();
    let client = client.map_err(|e| failed(e.to_string()))?;
    let local = listener.local_addr().is_ok_and(|address| is_local(&address));
    let proxy = Arc::new(Proxy { guard, route, client, local, sessions: Mutex::default() });
    let app = Router::new().fallback(handle).with_state(Arc::clone(&proxy));
    let (stopping, mut stopped) = tokio::sync::watch::channel(false);
    let graceful = async move {
        stop.await;
        let _ = stopping.send(true);
    };
    let serving = axum::serve(listener, app).with_graceful_shutdown(graceful).into_future();
    let overdue = async move {
        let _ = stopped.wait_for(|stopped| *stopped).await;
        tokio::time::sleep(GRACE).await;
    };
    let served = tokio::select! {
        served = serving => served.map_err(|e| Error::Io("serving".into(), e)),
        () = overdue => Ok(()),
    };
    proxy.end();
    served
}

async fn handle(State(proxy): State<Arc<Proxy>>, request: Request) -> Response {
    let mut id = None;
    match proxy.pass(request, &mut id).await {
        Ok(response) => response,
        Err((status, text)) => {
            warn(&text);
            let body = error_answer(id.as_deref().unwrap_or("null"), &format!("[credence] {text}"));
            let mut response = Response::new(Body::from(body));
            *response.status_mut() = status;
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
    }
}

type Refused = (StatusCode, String);

impl Proxy {
    async fn pass(self: &Arc<Self>, request: Request, id: &mut Option<String>) -> Result<Response, Refused> {
        let (parts, body) = request.into_parts();
        self.check_origin(&parts.headers)?;
        self.check_host(&parts)?;
        let most = self.guard.settings.max_message_bytes;
        let body = match Limited::new(body, most).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                let text = format!("a message beyond the limit of {most} bytes (--max-message)");
                return Err((StatusCode::PAYLOAD_TOO_LARGE, text));
            }
            Err(error) => return Err((StatusCode::BAD_REQUEST, format!("the request ended early: {error}"))),
        };
        let session = parts.headers.get(SESSION).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let of_session = session.as_deref().map(|session| self.session(session));
        // A stream that a client asks for carries what its session waits for; everything else answers what it carries.
        let watch = match &of_session {
            Some(of_session) if parts.method == Method::GET => Arc::clone(of_session),
            _ => Arc::default(),
        };
        let mut exchange = Exchange { proxy: Arc::clone(self), watch, session: of_session, resumable: false };
        if let Ok(text) = std::str::from_utf8(&body) {
            if let Parsed::One(message) = parse(text) {
                *id = message.id.map(|id| id.get().to_owned());
            }
            let caller = self.guard.settings.caller.clone().or(&caller(&parts.headers));
            let named = session.as_deref().map(|session| self.guard.session_name(session));
            exchange.remember(text, &caller, named.as_deref().unwrap_or(&self.guard.settings.session));
        }
        let mut headers = parts.headers;
        for own in &OWN_HEADERS {
            headers.remove(own);
        }
        // What is compressed cannot be read on the way.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let url = self.url(&parts.uri);
        let upstream = self.client.request(parts.method, url).headers(headers).body(body).send().await;
        let upstream = upstream.map_err(|error| {
            let text = format!("the tool server cannot be reached: {}", cause(&error.without_url()));
            (StatusCode::BAD_GATEWAY, text)
        })?;
        self.respond(upstream, exchange).await
    }

    /// A web page must not reach a server on this machine through the guard: its own check of the host sees the guard's.
    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Refused> {
        let Some(origin) = headers.get(header::ORIGIN).and_then(|value| value.to_str().ok()) else { return Ok(()) };
        if Url::parse(origin).is_ok_and(|url| is_of_this_machine(&url))
            || self.route.allowed_origins.iter().any(|allowed| allowed == origin)
        {
            return Ok(());
        }
        Err((StatusCode::FORBIDDEN, format!("pages of {origin} may not use this server (--allow-origin lets them)")))
    }

    /// A page whose name was made to point at this machine asks without an origin, under its own name.
    fn check_host(&self, parts: &axum::http::request::Parts) -> Result<(), Refused> {
        let named = parts.headers.get(header::HOST).map_or(Ok(""), |value| value.to_str()).unwrap_or("?");
        let named = parts.uri.authority().map_or(named, |authority| authority.as_str());
        if !self.local || named.is_empty() {
            return Ok(());
        }
        let url = Url::parse(&format!("http://{named}"));
        let allowed = |url: &Url| {
            let origins = self.route.allowed_origins.iter().filter_map(|origin| Url::parse(origin).ok());
            origins.into_iter().any(|origin| origin.host() == url.host())
        };
        if url.is_ok_and(|url| is_of_this_machine(&url) || allowed(&url)) {
            return Ok(());
        }
        let text = format!("this server is not '{named}' (--allow-origin with that name makes it so)");
        Err((StatusCode::MISDIRECTED_REQUEST, text))
    }

    fn url(&self, uri: &Uri) -> Url {
        let mut url = self.route.upstream.clone();
        // A path of the client's own is one of the server's, such as its metadata for authorization.
        if uri.path() != "/" && uri.path() != url.path() {
            url.set_path(uri.path());
        }
        if let Some(query) = uri.query() {
            url.set_query(Some(query));
        }
        url
    }

    fn session(&self, session: &str) -> Arc<Mutex<Watch>> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() >= MAX_SESSIONS && !sessions.contains_key(session) {
            let idle = sessions.iter().find(|(_, watch)| lock(watch).is_idle()).map(|(name, _)| name.clone());
            if let Some(evicted) =
                idle.or_else(|| sessions.keys().next().cloned()).and_then(|name| sessions.remove(&name))
            {
                self.unanswered(&evicted);
            }
        }
        Arc::clone(sessions.entry(session.to_owned()).or_default())
    }

    async fn respond(
        self: &Arc<Self>,
        upstream: reqwest::Response,
        mut exchange: Exchange,
    ) -> Result<Response, Refused> {
        let status = upstream.status();
        let mut headers = upstream.headers().clone();
        for own in &OWN_HEADERS {
            headers.remove(own);
        }
        // Whoever begins a session says who it is: later exchanges of it do not.
        let client = lock(&exchange.watch).client().map(str::to_owned);
        if let (Some(client), Some(begun)) = (client, headers.get(SESSION).and_then(|value| value.to_str().ok())) {
            lock(&self.session(begun)).set_client(&client);
        }
        let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kind = text(&header::CONTENT_TYPE).split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let encoded = !matches!(text(&header::CONTENT_ENCODING), "" | "identity");
        // Only an answer that is still to come may come by another stream.
        exchange.resumable = status == StatusCode::ACCEPTED || (status.is_success() && kind == "text/event-stream");
        let waits = lock(&exchange.watch).has_calls();
        let body = match kind.as_str() {
            _ if encoded && waits => {
                exchange.unreadable("its answer is encoded")?;
                Body::from_stream(upstream.bytes_stream())
            }
            "text/event-stream" => self.events(upstream, exchange),
            kind if kind.contains("json") => Body::from(self.document(upstream, exchange).await?),
            _ if waits && status != StatusCode::ACCEPTED && status.is_success() => {
                exchange.unreadable("its answer is neither JSON nor a stream of events")?;
                Body::from_stream(upstream.bytes_stream())
            }
            _ => Body::from_stream(upstream.bytes_stream()),
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }

    async fn document(self: &Arc<Self>, upstream: reqwest::Response, exchange: Exchange) -> Result<Bytes, Refused> {
        let most = self.guard.settings.max_message_bytes;
        let mut stream = upstream.bytes_stream();
        let mut whole: Vec<u8> = Vec::new();
        while let Some(part) = stream.next().await {
            let part = part.map_err(|error| {
                let text = format!("the tool server's answer ended early: {}", cause(&error.without_url()));
                (StatusCode::BAD_GATEWAY, text)
            })?;
            if whole.len() + part.len() > most {
                let text = format!("the tool server's answer is beyond the limit of {most} bytes (--max-message)");
                return Err((StatusCode::BAD_GATEWAY, text));
            }
            whole.extend_from_slice(&part);
        }
        let proxy = Arc::clone(self);
        let passed = tokio::task::spawn_blocking(move || {
            let text = String::from_utf8_lossy(without_mark(&whole)).into_owned();
            let is_message = !matches!(parse(&text), Parsed::NotJson(_));
            if !is_message && lock(&exchange.watch).has_calls() {
                exchange.unreadable("its answer is no JSON")?;
            }
            // A body that is no message (metadata, an error page) is none of the guard's business.
            if !is_message {
                return Ok(Bytes::from(whole));
            }
            let passed = proxy.messages(&exchange.watch, &[&text]);
            Ok(passed.into_iter().next().flatten().map(Bytes::from).unwrap_or_default())
        });
        passed.await.unwrap_or_else(|e| Err((StatusCode::INTERNAL_SERVER_ERROR, e.to_string())))
    }

    /// Judges messages and writes their receipts; gives what the client gets of each.
    fn messages(&self, watch: &Mutex<Watch>, texts: &[&str]) -> Vec<Option<String>> {
        let read = Instant::now();
        let mut batch: Batch<'_> = Vec::new();
        let pieces: Vec<_> = {
            let mut watch = lock(watch);
            texts.iter().map(|text| from_server(&self.guard, &mut watch, text, read, &mut batch)).collect()
        };
        let failed = self.guard.record(&mut batch).is_some();
        let given = pieces.iter().map(|piece| render(piece, &batch)).collect();
        if !failed {
            self.guard.after(&batch);
            settle_soon(&self.guard);
        }
        given
    }

    /// Receipts of calls that nothing will answer any more.
    fn unanswered(&self, watch: &Mutex<Watch>) {
        let calls = lock(watch).unanswered();
        let mut batch: Batch<'_> = Vec::new();
        for started in calls {
            judge(&self.guard, started, Answer::Nothing, Instant::now(), &mut batch);
        }
        if self.guard.record(&mut batch).is_none() {
            self.guard.after(&batch);
            settle_soon(&self.guard);
        }
    }

    /// What is left when the proxy ends.
    fn end(&self) {
        let sessions = std::mem::take(&mut *self.sessions.lock().unwrap_or_else(PoisonError::into_inner));
        sessions.values().for_each(|watch| self.unanswered(watch));
    }

    /// A stream of events, each passed on when it is whole.
    fn events(self: &Arc<Self>, upstream: reqwest::Response, exchange: Exchange) -> Body {
        let most = self.guard.settings.max_message_bytes;
        let state = (upstream.bytes_stream(), Events::default(), Arc::clone(self), exchange, false);
        let stream = futures_util::stream::unfold(state, move |state| async move {
            let (mut stream, mut events, proxy, exchange, done) = state;
            if done {
                return None;
            }
            loop {
                let (whole, ended) = match events.whole() {
                    Some(whole) => (whole, false),
                    None => match stream.next().await {
                        Some(Ok(part)) => {
                            events.push(&part);
                            if events.buffer.len() > most {
                                warn(&format!(
                                    "the server sent an event beyond the limit of {most} bytes (--max-message): the stream ends"
                                ));
                                let error = std::io::Error::other("[credence] an event beyond the limit of the guard");
                                return Some((Err(error), (stream, Events::default(), proxy, exchange, true)));
                            }
                            continue;
                        }
                        Some(Err(error)) => {
                            let error = std::io::Error::other(error.without_url());
                            return Some((Err(error), (stream, events, proxy, exchange, true)));
                        }
                        // The last event may lack the line that ends it.
                        None => (std::mem::take(&mut events.buffer), true),
                    },
                };
                let (to, of) = (Arc::clone(&proxy), Arc::clone(&exchange.watch));
                let passed = tokio::task::spawn_blocking(move || to.pass_events(&of, &whole)).await;
                let passed = passed.map_err(std::io::Error::other);
                return Some((passed, (stream, events, proxy, exchange, ended)));
            }
        });
        Body::from_stream(stream)
    }

    /// Whole events; of those that answer a call the data is replaced.
    fn pass_events(&self, watch: &Mutex<Watch>, bytes: &[u8]) -> Bytes {
        let text = String::from_utf8_lossy(bytes);
        let mut out = String::with_capacity(text.len() + 256);
        for event in split_events(&text) {
            let data: Vec<&str> = lines_of(event).filter_map(|line| line.0.strip_prefix("data:")).collect();
            let data: Vec<&str> = data.into_iter().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
            let message = data.join("\n");
            if data.is_empty() || message.trim().is_empty() {
                out.push_str(event);
                continue;
            }
            match self.messages(watch, &[&message]).into_iter().next().flatten() {
                Some(same) if same == message => out.push_str(event),
                Some(changed) => {
                    // The other lines as they were; the data where it began.
                    let mut written = false;
                    for (line, end) in lines_of(event) {
                        if !line.starts_with("data:") {
                            out.push_str(line);
                            out.push_str(end);
                        } else if !std::mem::replace(&mut written, true) {
                            let one_line = changed.replace(['\n', '\r'], " ");
                            out.push_str(&format!("data: {one_line}{end}"));
                        }
                    }
                }
                None => {}
            }
        }
        Bytes::from(out)
    }
}

/// One request and what answers it. When it is over, however it ends, calls without an answer get their receipts, or wait with
/// their session for a stream that is resumed.
struct Exchange {
    proxy: Arc<Proxy>,
    watch: Arc<Mutex<Watch>>,
    session: Option<Arc<Mutex<Watch>>>,
    /// An answer may still come by another stream.
    resumable: bool,
}

impl Exchange {
    /// Remembers what a request asks for.
    fn remember(&mut self, text: &str, caller: &Caller, session: &str) {
        let sent = Instant::now();
        let client = self.session.as_ref().and_then(|of| lock(of).client().map(str::to_owned));
        let mut watch = lock(&self.watch);
        if let Some(client) = client {
            watch.set_client(&client);
        }
        let mut one = |text: &str| {
            if let Parsed::One(message) = parse(text)
                && let Some(started) = watch.request(&message, caller, session, sent)
            {
                started.prepared = self.proxy.guard.prepare(started.arguments.as_deref());
            }
        };
        match parse(text) {
            Parsed::Batch(items) => items.iter().for_each(|item| one(item.get())),
            _ => one(text),
        }
    }

    /// An answer that cannot be read: it is recorded as such, and passed on only where nothing is withheld.
    fn unreadable(&self, why: &'static str) -> Result<(), Refused> {
        let calls = lock(&self.watch).unanswered();
        let mut batch: Batch<'_> = Vec::new();
        for started in calls {
            judge(&self.proxy.guard, started, Answer::Ambiguous(why), Instant::now(), &mut batch);
        }
        if self.proxy.guard.record(&mut batch).is_none() {
            self.proxy.guard.after(&batch);
            settle_soon(&self.proxy.guard);
        }
        let text = format!("the call was executed, and {why}: it cannot be verified; do not blindly retry");
        if self.proxy.guard.settings.mode == GuardMode::Enforce {
            return Err((StatusCode::BAD_GATEWAY, text));
        }
        warn(&text);
        Ok(())
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        match &self.session {
            // The stream of a session: what it did not answer, the next may.
            Some(session) if Arc::ptr_eq(session, &self.watch) => {}
            Some(session) if self.resumable => {
                let mut left = std::mem::take(&mut *lock(&self.watch));
                lock(session).take_over(&mut left);
            }
            _ => self.proxy.unanswered(&self.watch),
        }
    }
}

fn is_of_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(ip)) => IpAddr::V4(ip).is_loopback(),
        Some(url::Host::Ipv6(ip)) => IpAddr::V6(ip).is_loopback(),
        None => false,
    }
}

/// Has the receipts moved into the ledger, once whoever waits for an answer has it.
fn settle_soon(guard: &Arc<Guard>) {
    if guard.unsettled_for().is_none() {
        return;
    }
    let guard = Arc::clone(guard);
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(move || guard.settle_or_warn())),
        Err(_) => guard.settle_or_warn(),
    }
}

fn lock(watch: &Mutex<Watch>) -> std::sync::MutexGuard<'_, Watch> {
    watch.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A URL without what may be secret in it.
pub fn shown(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}

/// What the headers say of the caller.
fn caller(headers: &HeaderMap) -> Caller {
    let of = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).filter(|value| !value.is_empty());
    let agent = of("credence-agent")
        .and_then(|agent| EntityId::new(agent).inspect_err(|error| warn(&format!("Credence-Agent: {error}"))).ok());
    let stake = of("credence-stake").and_then(|stake| {
        let parsed = stake.parse::<Stake>().ok();
        if parsed.is_none() {
            warn(&format!("Credence-Stake: '{stake}' is neither low, medium, high nor critical"));
        }
        parsed
    });
    Caller { agent, session: of("credence-session").map(credence_protocol::receipt::cut_name), stake }
}

fn cause(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

/// Whether others can reach an address.
pub fn is_local(address: &SocketAddr) -> bool {
    address.ip().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_say_who_calls() {
        let mut headers = HeaderMap::new();
        headers.insert("credence-agent", HeaderValue::from_static("bot"));
        headers.insert("credence-stake", HeaderValue::from_static("critical"));
        headers.insert("credence-session", HeaderValue::from_static("s1"));
        let said = caller(&headers);
        assert_eq!((said.agent.unwrap().as_str(), said.stake), ("bot", Some(Stake::Critical)));
        headers.insert("credence-stake", HeaderValue::from_static("huge"));
        assert_eq!(caller(&headers).stake, None);
    }
}
