//! The proxy in front of a server that speaks streamable HTTP.
//!
//! Requests go on once they were [read strictly](crate::strict); answers come back as [`received`](crate::received), whether as one JSON
//! document or as a stream of events. A POST has its answer in its own response, or, where the server
//! keeps sessions, on a stream that is resumed later: calls are remembered with their exchange, and by session beyond it.

mod access;
mod delivered;
mod exchange;
mod request;
mod spin;
mod stream;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::{HeaderName, HeaderValue, Method, StatusCode, Uri, header},
    response::Response,
    serve::ListenerExt,
};
use futures_util::StreamExt;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::net::TcpListener;
use url::Url;

use crate::{
    Error, Guard,
    deliver::error_answer,
    events::without_mark,
    innermost_cause,
    message::{Parsed, parse},
    metrics::Direction,
    pending::PendingRequests,
    proxy::{JudgedBatch, from_server, render, take_in},
    received::Received,
    settings::GuardMode,
    warn,
};
use access::caller;
pub use access::{is_local, without_secrets};
use delivered::finish_after_answer;
use exchange::Exchange;
use request::{Carries, clean_headers};
use spin::Spinning;

/// Headers that belong to one connection, and those the guard sets itself.
const OWN_HEADERS: [HeaderName; 11] = [
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::TE,
    header::TRAILER,
    header::PROXY_AUTHORIZATION,
    header::PROXY_AUTHENTICATE,
    header::CONTENT_LENGTH,
    header::HOST,
    // They send a client to another address, past the guard.
    header::ALT_SVC,
    header::REFRESH,
];
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
/// Sessions whose calls are remembered beyond their exchange.
const MAX_SESSIONS: usize = 1_000;
/// How long streams may go on once the proxy is asked to end.
const GRACE: Duration = Duration::from_secs(3);
/// So long without a call is a lull; receipts wait for none longer than this.
const LULL: Duration = Duration::from_millis(20);
const MAX_IN_JOURNAL_FOR: Duration = Duration::from_millis(250);
/// A message up to this is worked on where it arrived.
const SMALL: usize = 16 * 1024;
const SESSION: &str = "mcp-session-id";

/// Which server is proxied, and which web pages may use it.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// The server.
    pub upstream: Url,
    /// Origins of web pages that may use it, besides those on this machine.
    pub allowed_origins: Vec<String>,
}

struct Proxy {
    guard: Arc<Guard>,
    settings: HttpSettings,
    client: reqwest::Client,
    /// Only this machine can reach it.
    local: bool,
    /// Calls that an exchange ended without answering, by session: a stream that is resumed may answer them.
    sessions: Mutex<HashMap<String, Arc<Mutex<PendingRequests>>>>,
    /// Somebody waits for a lull.
    flushing: Arc<AtomicBool>,
    /// Somebody looks for an answer without sleeping.
    spinning: Spinning,
}

/// Serves until `stop`, and a little longer: streams that clients keep open are cut then.
pub async fn serve(
    guard: Arc<Guard>,
    settings: HttpSettings,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), Error> {
    let failed = |why: String| Error::Address(format!("--upstream {}: {why}", without_secrets(&settings.upstream)));
    if !matches!(settings.upstream.scheme(), "http" | "https") || settings.upstream.host().is_none() {
        return Err(failed("an http or https URL is needed".to_owned()));
    }
    // Redirects are not followed. How long an answer may take is the client's business.
    let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build();
    let client = client.map_err(|e| failed(e.to_string()))?;
    let local = listener.local_addr().is_ok_and(|address| is_local(&address));
    let proxy = Arc::new(Proxy {
        guard,
        settings,
        client,
        local,
        sessions: Mutex::default(),
        flushing: Arc::default(),
        spinning: Spinning::default(),
    });
    let app = Router::new().fallback(handle).with_state(Arc::clone(&proxy));
    // A small event must not wait for the next one.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
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
            json_response(status, error_answer(id.as_deref().unwrap_or("null"), &format!("[credence] {text}")))
        }
    }
}

fn json_response(status: StatusCode, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

type Refused = (StatusCode, String);

impl Proxy {
    async fn pass(self: &Arc<Self>, request: Request, id: &mut Option<String>) -> Result<Response, Refused> {
        let (parts, body) = request.into_parts();
        self.settings.check_origin(&parts.headers)?;
        self.settings.check_host(&parts, self.local)?;
        let most = self.guard.settings.max_message_bytes;
        let body = match Limited::new(body, most).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                let text = format!("a message beyond the limit of {most} bytes (--max-message)");
                return Err((StatusCode::PAYLOAD_TOO_LARGE, text));
            }
            Err(error) => return Err((StatusCode::BAD_REQUEST, format!("the request ended early: {error}"))),
        };
        let proxy = Arc::clone(self);
        let (parts, body, carries) = here_or_aside(body.len(), move || {
            let carries = proxy.settings.check_request(&parts, &body);
            (parts, body, carries)
        })
        .await?;
        let carries = carries?;
        let session = parts.headers.get(SESSION).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let of_session = session.as_deref().map(|session| self.session(session));
        // A stream that a client asks for carries what its session waits for; everything else answers what it carries.
        let requests = match &of_session {
            Some(of_session) if parts.method == Method::GET => Arc::clone(of_session),
            _ => Arc::default(),
        };
        let accepts = parts.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let streams = parts.method == Method::GET && (session.is_some() || accepts.contains("text/event-stream"));
        let mut exchange =
            Exchange { proxy: Arc::clone(self), requests, session: of_session, resumable: false, streams };
        let mut body = body;
        if carries == Carries::Message {
            let caller = self.guard.settings.caller.clone().or(&caller(&parts.headers));
            let named = session.as_deref().map(|session| self.guard.session_name(session));
            let named = named.unwrap_or_else(|| self.guard.settings.session.clone());
            let (kept, begun, known) = here_or_aside(body.len(), move || {
                let begun = exchange.begin(&body, &caller, &named);
                let known = begun.as_ref().ok().and_then(|text| id_of(text));
                (exchange, begun, known)
            })
            .await?;
            (exchange, *id) = (kept, known);
            body = match begun {
                Ok(text) => Bytes::from(text),
                Err(refused) => return Ok(json_response(StatusCode::BAD_REQUEST, refused.answer)),
            };
        }
        let mut headers = parts.headers;
        clean_headers(&mut headers, &carries);
        for own in &OWN_HEADERS {
            headers.remove(own);
        }
        // What is compressed cannot be read on the way.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let url = self.url(&parts.uri);
        let upstream = self.client.request(parts.method, url).headers(headers).body(body).send();
        let upstream = self.spinning.wait(upstream).await.map_err(|error| {
            let text = format!("the tool server cannot be reached: {}", innermost_cause(&error.without_url()));
            (StatusCode::BAD_GATEWAY, text)
        })?;
        // A client that followed would speak to the server without the guard.
        if let Some(to) = upstream.headers().get(header::LOCATION)
            && self.settings.is_own_path(parts.uri.path())
        {
            let to = to.to_str().ok().and_then(|to| self.settings.upstream.join(to).ok());
            let to = to.map(|to| without_secrets(&to)).unwrap_or_default();
            // Not for the client: these are the server's words.
            warn(&format!("the tool server sends its clients to {to}: is that what --upstream should say?"));
            let text = "the tool server sends its clients to another address, which the guard's standard error names";
            return Err((StatusCode::BAD_GATEWAY, text.to_owned()));
        }
        self.respond(upstream, exchange).await
    }

    fn url(&self, uri: &Uri) -> Url {
        let mut url = self.settings.upstream.clone();
        // A path of the client's own is one of the server's, such as its metadata for authorization.
        if !self.settings.is_own_path(uri.path()) {
            url.set_path(uri.path());
        }
        if let Some(query) = uri.query() {
            url.set_query(Some(query));
        }
        url
    }

    fn session(&self, session: &str) -> Arc<Mutex<PendingRequests>> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() >= MAX_SESSIONS && !sessions.contains_key(session) {
            let idle = sessions.iter().find(|(_, requests)| lock(requests).is_idle()).map(|(name, _)| name.clone());
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
        let client = lock(&exchange.requests).client().map(str::to_owned);
        if let (Some(client), Some(begun)) = (client, headers.get(SESSION).and_then(|value| value.to_str().ok())) {
            lock(&self.session(begun)).set_client(&client);
        }
        let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let kind = text(&header::CONTENT_TYPE).split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let encoded = !matches!(text(&header::CONTENT_ENCODING), "" | "identity");
        // It was read as UTF-8, and must not be read otherwise.
        if headers.get(header::CONTENT_TYPE).is_some_and(|value| value.as_bytes().contains(&b';')) && !encoded {
            match kind.as_str() {
                "text/event-stream" => drop(headers.insert(header::CONTENT_TYPE, EVENT_STREAM)),
                "application/json" => drop(headers.insert(header::CONTENT_TYPE, JSON)),
                _ => {}
            }
        }
        // Only an answer that is still to come may come by another stream.
        exchange.resumable = status == StatusCode::ACCEPTED || (status.is_success() && kind == "text/event-stream");
        let waits = lock(&exchange.requests).has_calls();
        let enforce = self.guard.mode() == GuardMode::Enforce;
        // Some clients read any answer to a GET as a stream, whatever it says it is.
        let stream = kind == "text/event-stream" || exchange.streams && status.is_success() && !kind.contains("json");
        let unreadable = match kind.as_str() {
            _ if encoded && (waits || stream || enforce && exchange.expects_answer()) => Some("its answer is encoded"),
            _ if stream || kind.contains("json") || !waits || status == StatusCode::ACCEPTED => None,
            _ if status.is_success() => Some("its answer is neither JSON nor a stream of events"),
            _ => None,
        };
        let body = match unreadable {
            Some(why) => Passed::json(exchange.unreadable(why)?),
            None if stream => Passed::Messages(EVENT_STREAM, self.events(upstream, exchange)),
            None if kind.contains("json") => self.document(upstream, exchange, status).await?,
            // Nobody needs a body here, and some client might read one.
            None if enforce && status == StatusCode::ACCEPTED => Passed::Body(Body::empty()),
            None if enforce && waits => Passed::json(exchange.failed(status)),
            None => Passed::Body(Body::from_stream(upstream.bytes_stream())),
        };
        let (kind, body) = match body {
            Passed::Body(body) => (None, body),
            Passed::Messages(kind, body) => (Some(kind), body),
        };
        // What the guard has read is what it says it is, to every client.
        if let Some(kind) = kind {
            headers.remove(header::CONTENT_ENCODING);
            headers.remove(header::LOCATION);
            headers.insert(header::CONTENT_TYPE, kind);
        }
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }

    async fn document(
        self: &Arc<Self>,
        upstream: reqwest::Response,
        exchange: Exchange,
        status: StatusCode,
    ) -> Result<Passed, Refused> {
        let most = self.guard.settings.max_message_bytes;
        let mut stream = upstream.bytes_stream();
        let mut whole: Vec<u8> = Vec::new();
        while let Some(part) = stream.next().await {
            let part = part.map_err(|error| {
                let text = format!("the tool server's answer ended early: {}", innermost_cause(&error.without_url()));
                (StatusCode::BAD_GATEWAY, text)
            })?;
            if whole.len() + part.len() > most {
                let text = format!("the tool server's answer is beyond the limit of {most} bytes (--max-message)");
                return Err((StatusCode::BAD_GATEWAY, text));
            }
            whole.extend_from_slice(&part);
        }
        let proxy = Arc::clone(self);
        here_or_aside(whole.len(), move || proxy.pass_document(whole, &exchange, status)).await?
    }

    /// A whole document: one message, several, or something else.
    fn pass_document(&self, whole: Vec<u8>, exchange: &Exchange, status: StatusCode) -> Result<Passed, Refused> {
        let enforce = self.guard.mode() == GuardMode::Enforce;
        let waits = lock(&exchange.requests).has_calls();
        let bytes = without_mark(&whole);
        // Metadata and error pages are none of the guard's business.
        if !is_message(bytes, exchange) {
            return match waits {
                true if status.is_success() => Ok(Passed::json(exchange.unreadable("its answer is no JSON")?)),
                true if enforce => Ok(Passed::json(exchange.failed(status))),
                _ => Ok(Passed::Body(Body::from(whole))),
            };
        }
        let received = take_in(&self.guard, bytes);
        let unreadable = matches!(received, Received::Unreadable { .. });
        let passed = self.messages(&exchange.requests, &[received]).into_iter().next().flatten();
        match passed {
            Some(text) => Ok(Passed::json(text)),
            None if unreadable && waits => Ok(Passed::json(exchange.unreadable("its answer is no JSON")?)),
            None if unreadable => Err((StatusCode::BAD_GATEWAY, "the tool server's answer cannot be read".to_owned())),
            None => Ok(Passed::Body(Body::empty())),
        }
    }

    /// Judges messages and writes their receipts; gives what the client gets of each.
    fn messages(&self, requests: &Mutex<PendingRequests>, received: &[Received<'_>]) -> Vec<Option<String>> {
        let read = Instant::now();
        let mut batch: JudgedBatch<'_> = Vec::new();
        let pieces: Vec<_> = {
            let mut requests = lock(requests);
            received.iter().map(|one| from_server(&self.guard, &mut requests, one, read, &mut batch)).collect()
        };
        let failed = self.guard.record(&mut batch).is_some();
        let given = pieces.iter().map(|piece| render(piece, &batch)).collect();
        self.guard.oversight().added(Direction::ToClient, read.elapsed());
        if !failed {
            let bytes = received.iter().map(Received::bytes).sum();
            finish_after_answer(&self.guard, batch, bytes);
            self.flush_journal_soon();
        }
        given
    }

    /// Receipts of calls that nothing will answer any more.
    fn unanswered(&self, requests: &Mutex<PendingRequests>) {
        let calls = lock(requests).unanswered();
        self.guard.record_unanswered(calls);
        self.flush_journal_soon();
    }

    /// Has the receipts moved into the ledger in the next lull: calls wait for the database while they are.
    fn flush_journal_soon(&self) {
        if self.guard.in_journal_for().is_none() || self.flushing.swap(true, Relaxed) {
            return;
        }
        let (guard, flushing) = (Arc::clone(&self.guard), Arc::clone(&self.flushing));
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            flushing.store(false, Relaxed);
            return guard.flush_journal_or_warn();
        };
        runtime.spawn(async move {
            let mut calls = guard.calls();
            loop {
                tokio::time::sleep(LULL).await;
                let before = std::mem::replace(&mut calls, guard.calls());
                if calls == before || guard.in_journal_for().is_none_or(|waited| waited > MAX_IN_JOURNAL_FOR) {
                    break;
                }
            }
            // What is recorded from now on is for the next time.
            flushing.store(false, Relaxed);
            tokio::task::spawn_blocking(move || guard.flush_journal_or_warn());
        });
    }

    /// What is left when the proxy ends.
    fn end(&self) {
        let sessions = std::mem::take(&mut *self.sessions.lock().unwrap_or_else(PoisonError::into_inner));
        sessions.values().for_each(|requests| self.unanswered(requests));
    }
}

/// What a client gets as the body of a response.
enum Passed {
    /// As the server's headers describe it.
    Body(Body),
    /// Messages that the guard has read or written, and their media type.
    Messages(HeaderValue, Body),
}

impl Passed {
    fn json(text: String) -> Self {
        Passed::Messages(JSON, Body::from(text))
    }
}

/// The id of a single message, as JSON.
fn id_of(text: &str) -> Option<String> {
    match parse(text) {
        Parsed::One(message) => message.id.map(|id| id.get().to_owned()),
        _ => None,
    }
}

/// Whether a document is a message of the protocol, for some reader.
fn is_message(bytes: &[u8], exchange: &Exchange) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let names_itself = || text.contains("\"jsonrpc\"");
    match parse(&text) {
        Parsed::One(message) => message.is_answer() || message.method.is_some() || names_itself(),
        Parsed::Batch(_) | Parsed::Ambiguous(_) => true,
        Parsed::NotJson(_) => exchange.expects_answer() && text.trim_start().starts_with(['{', '[']) || names_itself(),
    }
}

/// Works on so many bytes: where they are, or aside, so that others have their turn. Another thread takes as long to wake as a small message takes.
async fn here_or_aside<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refused> {
    if bytes <= SMALL {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await.map_err(|e| (StatusCode::INTERNAL_SERVER_ERROR, e.to_string()))
}

fn lock(requests: &Mutex<PendingRequests>) -> std::sync::MutexGuard<'_, PendingRequests> {
    requests.lock().unwrap_or_else(PoisonError::into_inner)
}
