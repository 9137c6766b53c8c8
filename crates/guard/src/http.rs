//! The proxy in front of a server that speaks streamable HTTP.
//!
//! Requests go on as they came; answers come back as they came, whether as one JSON document or as a stream of events. In
//! either only the message that answers a tool call is touched. A POST has its answer in its own response, or, where the server
//! keeps sessions, on a stream that is resumed later: calls are remembered with their exchange, and by session beyond it.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header},
    response::Response,
};
use credence_protocol::EntityId;
use credence_verify::Stake;
use futures_util::StreamExt;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::json;
use tokio::net::TcpListener;
use url::Url;

use crate::{
    Caller, Error, Guard,
    guard::Answer,
    message::{Parsed, parse},
    proxy::{Batch, from_server, judge, render},
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
    /// Calls that an exchange ended without answering, by session.
    sessions: Mutex<HashMap<String, Arc<Mutex<Watch>>>>,
}

/// Serves until `stop`.
pub async fn serve(
    guard: Arc<Guard>,
    route: Route,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Error> {
    let failed = |why: String| Error::Address(format!("--upstream {}: {why}", route.upstream));
    if !matches!(route.upstream.scheme(), "http" | "https") || route.upstream.host().is_none() {
        return Err(failed("an http or https URL is needed".to_owned()));
    }
    // Redirects are the client's business, and so is how long an answer may take.
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build();
    let client = client.map_err(|e| failed(e.to_string()))?;
    let proxy = Arc::new(Proxy { guard, route, client, sessions: Mutex::default() });
    let app = Router::new().fallback(handle).with_state(Arc::clone(&proxy));
    let served = axum::serve(listener, app).with_graceful_shutdown(stop).await;
    proxy.end();
    served.map_err(|e| Error::Io("serving".into(), e))
}

async fn handle(State(proxy): State<Arc<Proxy>>, request: Request) -> Response {
    match proxy.pass(request).await {
        Ok(response) => response,
        Err((status, text)) => {
            warn(&text);
            let body = json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32603, "message": format!("[credence] {text}") } });
            let mut response = Response::new(Body::from(body.to_string()));
            *response.status_mut() = status;
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
    }
}

type Refused = (StatusCode, String);

impl Proxy {
    async fn pass(self: &Arc<Self>, request: Request) -> Result<Response, Refused> {
        let (parts, body) = request.into_parts();
        self.check_origin(&parts.headers)?;
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
        let watch = self.watch(session.as_deref());
        let sent = Instant::now();
        if let Ok(text) = std::str::from_utf8(&body) {
            let caller = self.guard.settings.caller.clone().or(&caller(&parts.headers));
            let named = session.as_deref().unwrap_or(&self.guard.settings.session);
            self.remember(&mut lock(&watch), text, &caller, named, sent);
        }
        let mut headers = parts.headers;
        for own in &OWN_HEADERS {
            headers.remove(own);
        }
        // What is compressed cannot be read on the way.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let url = self.url(&parts.uri);
        let upstream = self.client.request(parts.method, url).headers(headers).body(body).send().await;
        let upstream = match upstream {
            Ok(upstream) => upstream,
            Err(error) => {
                self.unanswered(&watch, session.is_none());
                let text = format!("the tool server cannot be reached: {}", cause(&error.without_url()));
                return Err((StatusCode::BAD_GATEWAY, text));
            }
        };
        self.respond(upstream, watch, session.is_none()).await
    }

    /// A web page must not reach a server on this machine through the guard: its own check of the host sees the guard's.
    fn check_origin(&self, headers: &HeaderMap) -> Result<(), Refused> {
        let Some(origin) = headers.get(header::ORIGIN).and_then(|value| value.to_str().ok()) else { return Ok(()) };
        let local = Url::parse(origin).ok().is_some_and(|url| match url.host() {
            Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            Some(url::Host::Ipv4(ip)) => IpAddr::V4(ip).is_loopback(),
            Some(url::Host::Ipv6(ip)) => IpAddr::V6(ip).is_loopback(),
            None => false,
        });
        if local || self.route.allowed_origins.iter().any(|allowed| allowed == origin) {
            return Ok(());
        }
        Err((StatusCode::FORBIDDEN, format!("pages of {origin} may not use this server (--allow-origin lets them)")))
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

    fn watch(&self, session: Option<&str>) -> Arc<Mutex<Watch>> {
        let Some(session) = session else { return Arc::default() };
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() >= MAX_SESSIONS && !sessions.contains_key(session) {
            let idle = sessions.iter().find(|(_, watch)| lock(watch).is_idle()).map(|(name, _)| name.clone());
            if let Some(name) = idle.or_else(|| sessions.keys().next().cloned()) {
                sessions.remove(&name);
            }
        }
        Arc::clone(sessions.entry(session.to_owned()).or_default())
    }

    fn remember(&self, watch: &mut Watch, text: &str, caller: &Caller, session: &str, sent: Instant) {
        match parse(text) {
            Parsed::One(message) => {
                if let Some(started) = watch.request(&message, caller, session, sent) {
                    started.prepared = self.guard.prepare(started.arguments.as_deref());
                }
            }
            Parsed::Batch(items) => {
                items.iter().for_each(|item| self.remember(watch, item.get(), caller, session, sent));
            }
            Parsed::Ambiguous(_) | Parsed::NotJson(_) => {}
        }
    }

    async fn respond(
        self: &Arc<Self>,
        upstream: reqwest::Response,
        watch: Arc<Mutex<Watch>>,
        alone: bool,
    ) -> Result<Response, Refused> {
        let status = upstream.status();
        let mut headers = upstream.headers().clone();
        for own in &OWN_HEADERS {
            headers.remove(own);
        }
        let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let body = match kind.as_str() {
            "text/event-stream" => self.events(upstream, watch, alone),
            "application/json" => Body::from(self.document(upstream, watch, alone).await?),
            // Nothing in it can be an answer to a call.
            _ => {
                if alone {
                    self.unanswered(&watch, true);
                }
                Body::from_stream(upstream.bytes_stream())
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }

    async fn document(
        self: &Arc<Self>,
        upstream: reqwest::Response,
        watch: Arc<Mutex<Watch>>,
        alone: bool,
    ) -> Result<Bytes, Refused> {
        let most = self.guard.settings.max_message_bytes;
        let mut stream = upstream.bytes_stream();
        let mut whole: Vec<u8> = Vec::new();
        while let Some(part) = stream.next().await {
            let part = part.map_err(|error| {
                self.unanswered(&watch, alone);
                (
                    StatusCode::BAD_GATEWAY,
                    format!("the tool server's answer ended early: {}", cause(&error.without_url())),
                )
            })?;
            if whole.len() + part.len() > most {
                self.unanswered(&watch, alone);
                let text = format!("the tool server's answer is beyond the limit of {most} bytes (--max-message)");
                return Err((StatusCode::BAD_GATEWAY, text));
            }
            whole.extend_from_slice(&part);
        }
        let proxy = Arc::clone(self);
        let passed = tokio::task::spawn_blocking(move || {
            let text = String::from_utf8_lossy(&whole).into_owned();
            let passed = proxy.messages(&watch, &[&text]);
            proxy.unanswered(&watch, alone);
            // A body that is no message (metadata, an error page) is none of the guard's business.
            match passed.into_iter().next().flatten() {
                Some(changed) => Bytes::from(changed),
                None if matches!(parse(&text), Parsed::NotJson(_)) => Bytes::from(whole),
                None => Bytes::new(),
            }
        });
        passed.await.map_err(|e| (StatusCode::INTERNAL_SERVER_ERROR, e.to_string()))
    }

    /// Judges messages and writes their receipts; gives what the client gets of each.
    fn messages(&self, watch: &Mutex<Watch>, texts: &[&str]) -> Vec<Option<String>> {
        let read = Instant::now();
        let mut batch: Batch<'_> = Vec::new();
        let pieces: Vec<_> = {
            let mut watch = lock(watch);
            texts
                .iter()
                .map(|text| match parse(text) {
                    Parsed::NotJson(_) => None,
                    _ => Some(from_server(&self.guard, &mut watch, text, read, &mut batch)),
                })
                .collect()
        };
        let failed = self.guard.record(&mut batch).is_some();
        let given = pieces.iter().map(|piece| piece.as_ref().and_then(|piece| render(piece, &batch))).collect();
        if !failed {
            self.guard.after(&batch);
        }
        given
    }

    /// Receipts of calls that this exchange was about, and did not answer.
    fn unanswered(&self, watch: &Mutex<Watch>, alone: bool) {
        if !alone {
            return;
        }
        let calls = lock(watch).unanswered();
        let mut batch: Batch<'_> = Vec::new();
        for started in calls {
            judge(&self.guard, started, Answer::Nothing, Instant::now(), &mut batch);
        }
        if self.guard.record(&mut batch).is_none() {
            self.guard.after(&batch);
        }
    }

    /// What is left when the proxy ends.
    fn end(&self) {
        let sessions = std::mem::take(&mut *self.sessions.lock().unwrap_or_else(PoisonError::into_inner));
        sessions.values().for_each(|watch| self.unanswered(watch, true));
    }

    /// A stream of events, each passed on when it is whole.
    fn events(self: &Arc<Self>, upstream: reqwest::Response, watch: Arc<Mutex<Watch>>, alone: bool) -> Body {
        let ending = Ending { proxy: Arc::clone(self), watch: Arc::clone(&watch), alone };
        let most = self.guard.settings.max_message_bytes;
        let state = (upstream.bytes_stream(), Vec::<u8>::new(), Arc::clone(self), watch, ending, false);
        let stream = futures_util::stream::unfold(state, move |state| async move {
            let (mut stream, mut buffer, proxy, watch, ending, done) = state;
            if done {
                return None;
            }
            loop {
                if let Some(end) = whole_events(&buffer) {
                    let events: Vec<u8> = buffer.drain(..end).collect();
                    let (to, of) = (Arc::clone(&proxy), Arc::clone(&watch));
                    let passed = tokio::task::spawn_blocking(move || to.pass_events(&of, &events)).await;
                    let passed = passed.map_err(std::io::Error::other);
                    return Some((passed, (stream, buffer, proxy, watch, ending, false)));
                }
                match stream.next().await {
                    Some(Ok(part)) => buffer.extend_from_slice(&part),
                    Some(Err(error)) => {
                        let error = std::io::Error::other(error.without_url());
                        return Some((Err(error), (stream, buffer, proxy, watch, ending, true)));
                    }
                    // The last event may lack the line that ends it.
                    None => {
                        let rest = std::mem::take(&mut buffer);
                        return Some((Ok(Bytes::from(rest)), (stream, buffer, proxy, watch, ending, true)));
                    }
                }
                if buffer.len() > most {
                    warn(&format!(
                        "the server sent an event beyond the limit of {most} bytes (--max-message): the stream ends"
                    ));
                    let error = std::io::Error::other("[credence] an event beyond the limit of the guard");
                    return Some((Err(error), (stream, Vec::new(), proxy, watch, ending, true)));
                }
            }
        });
        Body::from_stream(stream)
    }

    /// Whole events; of those that answer a call the data is replaced.
    fn pass_events(&self, watch: &Mutex<Watch>, bytes: &[u8]) -> Bytes {
        let text = String::from_utf8_lossy(bytes);
        let mut out = String::with_capacity(text.len() + 256);
        for event in split_events(&text) {
            let data: Vec<&str> = event.lines().filter_map(|line| line.strip_prefix("data:")).collect();
            let data: Vec<&str> = data.into_iter().map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
            let message = data.join("\n");
            if matches!(parse(&message), Parsed::NotJson(_)) {
                out.push_str(event);
                continue;
            }
            match self.messages(watch, &[&message]).into_iter().next().flatten() {
                Some(same) if same == message => out.push_str(event),
                Some(changed) => {
                    // The other lines as they were; the data where it began.
                    let mut written = false;
                    for line in event.split_inclusive('\n') {
                        if !line.starts_with("data:") {
                            out.push_str(line);
                        } else if !std::mem::replace(&mut written, true) {
                            let one_line = changed.replace(['\n', '\r'], " ");
                            let end = &line[line.trim_end_matches(['\r', '\n']).len()..];
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

/// When a stream ends, or the client lets go of it: calls of this exchange that have no answer get their receipts.
struct Ending {
    proxy: Arc<Proxy>,
    watch: Arc<Mutex<Watch>>,
    alone: bool,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.proxy.unanswered(&self.watch, self.alone);
    }
}

fn lock(watch: &Mutex<Watch>) -> std::sync::MutexGuard<'_, Watch> {
    watch.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where the last whole event of a stream ends: after a blank line.
fn whole_events(buffer: &[u8]) -> Option<usize> {
    let mut end = None;
    let mut line_start = 0;
    for (at, byte) in buffer.iter().enumerate() {
        if *byte == b'\n' {
            let line = &buffer[line_start..at];
            if line.is_empty() || line == b"\r" {
                end = Some(at + 1);
            }
            line_start = at + 1;
        }
    }
    end
}

/// The events of a text, each with its end.
fn split_events(text: &str) -> Vec<&str> {
    let mut events = Vec::new();
    let (mut start, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        at += line.len();
        if line.trim_end_matches(['\r', '\n']).is_empty() {
            events.push(&text[start..at]);
            start = at;
        }
    }
    if start < text.len() {
        events.push(&text[start..]);
    }
    events
}

/// What the headers say of the caller.
fn caller(headers: &HeaderMap) -> Caller {
    let of = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).filter(|value| !value.is_empty());
    let agent = of("credence-agent")
        .and_then(|agent| EntityId::new(agent).inspect_err(|error| warn(&format!("Credence-Agent: {error}"))).ok());
    let stake = of("credence-stake").and_then(|stake| {
        let parsed: Option<Stake> = serde_json::from_value(json!(stake)).ok();
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
    fn events_are_cut_where_they_end() {
        assert_eq!(whole_events(b"data: 1\n\ndata: 2"), Some(9));
        assert_eq!(whole_events(b"data: 1\r\n\r\n"), Some(11));
        assert_eq!(whole_events(b"data: 1\n"), None);
        assert_eq!(split_events("id: 1\ndata: a\n\n: ping\n\nrest"), ["id: 1\ndata: a\n\n", ": ping\n\n", "rest"]);
    }

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
