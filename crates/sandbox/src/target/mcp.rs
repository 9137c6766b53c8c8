//! A tool server (MCP) over streamable HTTP: its own tools are listed and called.
//!
//! `initialize` first, as servers up to 2025-11-25 want it; one that has no such method is spoken to without. Answers come as JSON or
//! as an event stream, of which the message with our id is taken.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use credence_egress::{HeaderName, HeaderValue, Method};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use url::Url;

use super::{
    Caller, Exchange, Input, OfferedTool, Reply, Target, TargetError, Transport,
    chat::unsupported,
    wire::{Call, Wire, refused},
};
use crate::{suite::Identity, trial::Reason};

/// The version that is asked for.
pub(super) const VERSION: &str = "2025-11-25";
/// Pages of a list of tools at most.
const MAX_PAGES: usize = 20;

/// An MCP server over HTTP.
pub struct Mcp {
    wire: Arc<Wire>,
    url: Url,
    session: Mutex<[Option<String>; 3]>,
    version: Mutex<String>,
    next: AtomicU64,
}

impl Mcp {
    /// Says hello.
    pub async fn open(wire: Arc<Wire>, url: &Url) -> Result<Self, TargetError> {
        let version = Mutex::new(VERSION.to_owned());
        let server = Self { wire, url: url.clone(), session: Mutex::default(), version, next: AtomicU64::new(1) };
        server.hello(Identity::First).await?;
        if server.wire.has_second_identity() {
            server.hello(Identity::Second).await?;
        }
        Ok(server)
    }

    async fn hello(&self, identity: Identity) -> Result<(), TargetError> {
        let caller = Request { identity, presented: None, session: self.session_of(identity) };
        let (opened, session) = self.request(&caller, "initialize", initialize()).await?;
        if let Some(session) = session {
            self.session.lock().unwrap_or_else(PoisonError::into_inner)[place(identity)] = Some(session);
        }
        if let Ok(result) = opened.0 {
            if let Some(version) = result.get("protocolVersion").and_then(Value::as_str) {
                *self.version.lock().unwrap_or_else(PoisonError::into_inner) = version.to_owned();
            }
            let caller = Request { identity, presented: None, session: self.session_of(identity) };
            self.post(&caller, initialized(), "notifications/initialized").await?;
        }
        Ok(())
    }

    /// Opens a session as somebody whom the operator did not name. `Err`: the server lets nobody in like that.
    async fn stranger(&self, presented: &str) -> Result<Result<Option<String>, Reply>, TargetError> {
        let mut caller = Request { identity: Identity::Anonymous, presented: Some(presented), session: None };
        let ((opened, elapsed), session) = match self.request(&caller, "initialize", initialize()).await {
            Err(error) => return shut_out(error).map(Err),
            Ok(opened) => opened,
        };
        // A server without this method is spoken to without.
        if opened.is_err() && session.is_none() {
            return Ok(Ok(None));
        }
        caller.session = session.clone();
        match self.post(&caller, initialized(), "notifications/initialized").await {
            Ok(_) => Ok(Ok(session)),
            Err(error) => shut_out(error).map(|reply| Err(Reply { elapsed, ..reply })),
        }
    }

    fn session_of(&self, identity: Identity) -> Option<String> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)[place(identity)].clone()
    }

    /// Sends a request. An error of JSON-RPC is the server's refusal. With the session that the answer opens.
    async fn request(
        &self,
        caller: &Request<'_>,
        method: &str,
        params: Value,
    ) -> Result<((Result<Value, String>, Duration), Option<String>), TargetError> {
        let id = self.next.fetch_add(1, Ordering::SeqCst);
        let body = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let (answer, elapsed, session) = self.post(caller, body, method).await?;
        let answer = answer.ok_or_else(|| TargetError::new(Reason::Empty, "the server said nothing"))?;
        Ok(((outcome(&answer)?, elapsed), session))
    }

    /// The same as an identity of the operator's, in its own session.
    async fn own_request(
        &self,
        identity: Identity,
        method: &str,
        params: Value,
    ) -> Result<(Result<Value, String>, Duration), TargetError> {
        let caller = Request { identity, presented: None, session: self.session_of(identity) };
        let (answer, session) = self.request(&caller, method, params).await?;
        if let Some(session) = session {
            self.session.lock().unwrap_or_else(PoisonError::into_inner)[place(identity)] = Some(session);
        }
        Ok(answer)
    }

    async fn post(
        &self,
        caller: &Request<'_>,
        body: Value,
        method: &str,
    ) -> Result<(Option<Value>, Duration, Option<String>), TargetError> {
        let id = body.get("id").cloned();
        let headers = self.headers(caller.session.as_deref(), method);
        let call = Call {
            method: Method::POST,
            url: self.url.clone(),
            identity: caller.identity,
            headers: &headers,
            body: Some(body),
            presented: caller.presented,
        };
        let answer = self.wire.send(&call).await?;
        let session = answer.headers.get("mcp-session-id").and_then(|value| value.to_str().ok()).map(str::to_owned);
        let stream = answer.content_type().as_deref() == Some("text/event-stream");
        let found =
            if stream { from_stream(&answer.body, id.as_ref()) } else { serde_json::from_slice(&answer.body).ok() };
        // Who is not let in may get any body with it.
        if [401, 403].contains(&answer.status.as_u16()) {
            return Err(refused(answer.status, &answer.body));
        }
        match found {
            Some(value) => Ok((Some(value), answer.elapsed, session)),
            None if answer.status.is_success() && (id.is_none() || answer.body.is_empty()) => {
                Ok((None, answer.elapsed, session))
            }
            None if answer.status.is_success() => Err(TargetError::new(Reason::NotJson, "the answer is not JSON")),
            None => Err(refused(answer.status, &answer.body)),
        }
    }

    fn headers(&self, session: Option<&str>, method: &str) -> Vec<(HeaderName, HeaderValue)> {
        let version = self.version.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut headers =
            vec![(HeaderName::from_static("accept"), HeaderValue::from_static("application/json, text/event-stream"))];
        if method != "initialize" {
            headers.extend(
                HeaderValue::from_str(&version).map(|value| (HeaderName::from_static("mcp-protocol-version"), value)),
            );
        }
        let session = session.and_then(|session| HeaderValue::from_str(session).ok());
        headers.extend(session.map(|value| (HeaderName::from_static("mcp-session-id"), value)));
        headers
    }

    async fn talk(&self, exchange: Exchange<'_>) -> Result<Reply, TargetError> {
        let Input::Call { name, arguments, caller } = exchange.input else { return Err(unsupported()) };
        let params = json!({ "name": name, "arguments": arguments });
        if caller == Caller::default() && exchange.identity != Identity::Anonymous {
            let (answer, elapsed) = self.own_request(exchange.identity, "tools/call", params).await?;
            return Ok(called(answer, elapsed));
        }
        let presented = caller.credential.unwrap_or_default();
        let session = match caller.session {
            Some(owner) => self.session_of(owner),
            None => match self.stranger(presented).await? {
                Ok(session) => session,
                Err(reply) => return Ok(reply),
            },
        };
        let stranger = Request { identity: Identity::Anonymous, presented: Some(presented), session };
        match self.request(&stranger, "tools/call", params).await {
            Ok(((answer, elapsed), _)) => Ok(called(answer, elapsed)),
            Err(error) => shut_out(error),
        }
    }

    async fn list(&self) -> Result<(Vec<OfferedTool>, Duration), TargetError> {
        let (mut tools, mut cursor, mut took) = (Vec::new(), None, Duration::ZERO);
        for _ in 0..MAX_PAGES {
            let params = cursor.map_or_else(|| json!({}), |cursor: String| json!({ "cursor": cursor }));
            let (answer, elapsed) = self.own_request(Identity::First, "tools/list", params).await?;
            took += elapsed;
            let page = answer.map_err(|why| TargetError::new(Reason::Malformed, format!("tools/list: {why}")))?;
            tools.extend(listed(&page));
            cursor = page.get("nextCursor").and_then(Value::as_str).map(str::to_owned);
            if cursor.is_none() {
                break;
            }
        }
        Ok((tools, took))
    }
}

impl Target for Mcp {
    fn transport(&self) -> Transport {
        Transport::Mcp
    }

    fn wire(&self) -> Option<&Wire> {
        Some(&self.wire)
    }

    fn has_session(&self) -> bool {
        self.session_of(Identity::First).is_some()
    }

    fn exchange<'a>(&'a self, exchange: Exchange<'a>) -> BoxFuture<'a, Result<Reply, TargetError>> {
        Box::pin(self.talk(exchange))
    }

    fn own_tools(&self) -> BoxFuture<'_, Result<Vec<OfferedTool>, TargetError>> {
        Box::pin(async { Ok(self.list().await?.0) })
    }

    fn ping<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Reply, TargetError>> {
        Box::pin(async {
            let (_, elapsed) = self.own_request(Identity::First, "tools/list", json!({})).await?;
            Ok(Reply { elapsed, ..Reply::default() })
        })
    }
}

/// Who sends a request, and in which session.
struct Request<'a> {
    identity: Identity,
    presented: Option<&'a str>,
    session: Option<String>,
}

fn initialized() -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })
}

/// A client error to somebody who presented nothing valid is the server's refusal; anything else stays an error.
fn shut_out(error: TargetError) -> Result<Reply, TargetError> {
    if error.reason == Reason::Status {
        return Ok(Reply { text: error.why, declined: true, ..Reply::default() });
    }
    Err(error)
}

fn place(identity: Identity) -> usize {
    match identity {
        Identity::First => 0,
        Identity::Second => 1,
        Identity::Anonymous => 2,
    }
}

pub(super) fn initialize() -> Value {
    json!({ "protocolVersion": VERSION, "capabilities": {},
            "clientInfo": { "name": "credence-probe", "version": env!("CARGO_PKG_VERSION") } })
}

/// The result of an answer, or its error in words.
pub(super) fn outcome(answer: &Value) -> Result<Result<Value, String>, TargetError> {
    if let Some(error) = answer.get("error") {
        return Ok(Err(error.to_string()));
    }
    let result = answer.get("result").cloned();
    result.map(Ok).ok_or_else(|| TargetError::new(Reason::Malformed, "the answer has neither result nor error"))
}

/// What a tool of the target answered. An error is an answer too.
pub(super) fn called(answer: Result<Value, String>, elapsed: Duration) -> Reply {
    let result = match answer {
        Ok(result) => result,
        Err(refusal) => return Reply { text: refusal, declined: true, elapsed, ..Reply::default() },
    };
    let content = result.get("content").and_then(Value::as_array).into_iter().flatten();
    let mut words: Vec<String> = content
        .map(|item| match item.get("text").and_then(Value::as_str) {
            Some(text) => text.to_owned(),
            None => item.pointer("/resource/text").and_then(Value::as_str).map_or_else(String::new, str::to_owned),
        })
        .collect();
    words.extend(result.get("structuredContent").map(Value::to_string));
    let declined = result.get("isError").and_then(Value::as_bool).unwrap_or_default();
    Reply { text: words.join("\n"), declined, elapsed, ..Reply::default() }
}

pub(super) fn listed(page: &Value) -> Vec<OfferedTool> {
    let tools = page.get("tools").and_then(Value::as_array).into_iter().flatten();
    let text = |tool: &Value, name: &str| tool.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let read = |tool: &Value| OfferedTool {
        name: text(tool, "name"),
        description: text(tool, "description"),
        parameters: tool.get("inputSchema").cloned().unwrap_or_else(|| json!({ "type": "object" })),
    };
    tools.map(read).filter(|tool| !tool.name.is_empty()).collect()
}

/// The message with our id in an event stream, or the last one.
fn from_stream(body: &[u8], id: Option<&Value>) -> Option<Value> {
    let text = String::from_utf8_lossy(body).replace("\r\n", "\n");
    let data = |event: &str| -> String {
        let lines = event.lines().filter_map(|line| line.strip_prefix("data:"));
        lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n")
    };
    let messages: Vec<Value> = text.split("\n\n").filter_map(|event| serde_json::from_str(&data(event)).ok()).collect();
    messages.into_iter().rev().find(|message| message.get("id") == id && id.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_found_in_a_stream() {
        let body = b"event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\nid: 2\r\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\ndata: \"result\":{}}\n\n";
        assert_eq!(from_stream(body, Some(&json!(7))).unwrap()["result"], json!({}));
        assert_eq!(from_stream(body, Some(&json!(8))), None);
    }

    #[test]
    fn errors_of_tools_are_answers_that_decline() {
        let result = json!({ "content": [{ "type": "text", "text": "no such file" }], "isError": true });
        let reply = called(Ok(result), Duration::ZERO);
        assert_eq!((reply.text.as_str(), reply.declined), ("no such file", true));
        assert!(called(Err("x".into()), Duration::ZERO).declined);
        assert!(outcome(&json!({ "id": 1 })).is_err());
    }
}
