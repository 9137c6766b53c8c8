//! A2A 1.0 and 0.3, over JSON-RPC or REST, as the agent's card says.
//!
//! A card may name any address: only interfaces of the origin that consent was given for are used. `history` repeats our own words,
//! so it is never read; what the target says is in the status message and the artifacts.

use std::{sync::Arc, time::Duration};

use credence_egress::{HeaderName, HeaderValue, Method};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use url::Url;

use super::{
    Conversation, Exchange, Input, Reply, Target, TargetError, Transport,
    chat::unsupported,
    wire::{Call, Wire},
};
use crate::{
    suite::{Action, Identity},
    trial::Reason,
};

const CARD: &str = "/.well-known/agent-card.json";
/// Where cards were before.
const OLD_CARD: &str = "/.well-known/agent.json";
/// How often a task that is being worked on is asked for.
const POLLS: u32 = 40;
const POLL_PAUSE: Duration = Duration::from_millis(250);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Binding {
    JsonRpc,
    Rest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V1,
    V03,
}

/// An A2A agent.
pub struct A2a {
    wire: Arc<Wire>,
    url: Url,
    binding: Binding,
    version: Version,
    tenant: Option<String>,
}

impl A2a {
    /// Reads the agent's card and takes the first interface that can be spoken.
    pub async fn discover(wire: Arc<Wire>, url: &Url) -> Result<Self, TargetError> {
        let card = read_card(&wire, url).await?;
        let interfaces = interfaces(&card);
        let (mut other_origin, mut found) = (None, None);
        for interface in interfaces {
            let Ok(parsed) = url.join(&interface.url) else { continue };
            if parsed.origin().ascii_serialization() == wire.origin() {
                found = Some((parsed, interface));
                break;
            }
            other_origin.get_or_insert(parsed.origin().ascii_serialization());
        }
        let (url, interface) = found.ok_or_else(|| {
            let why = match other_origin {
                Some(other) => format!("the agent's card points to {other}, another origin than {}", wire.origin()),
                None => "the agent's card names no interface over JSON-RPC or HTTP+JSON".to_owned(),
            };
            TargetError::new(Reason::Malformed, why)
        })?;
        Ok(Self { wire, url, binding: interface.binding, version: interface.version, tenant: interface.tenant })
    }

    async fn talk(&self, exchange: Exchange<'_>) -> Result<Reply, TargetError> {
        let Exchange { conversation, identity, input, .. } = exchange;
        match input {
            Input::Message { system, text } => {
                let text = system.map_or_else(|| text.to_owned(), |system| format!("{system}\n\n{text}"));
                let id = message_id(conversation);
                self.send(conversation, identity, &id, &text).await
            }
            Input::Act { action, text, trap_url } => self.act(conversation, identity, action, text, trap_url).await,
            Input::Results { .. } | Input::Call { .. } => Err(unsupported()),
        }
    }

    async fn send(
        &self,
        conversation: &mut Conversation,
        identity: Identity,
        id: &str,
        text: &str,
    ) -> Result<Reply, TargetError> {
        let mut message = match self.version {
            Version::V1 => json!({ "messageId": id, "role": "ROLE_USER", "parts": [{ "text": text }] }),
            Version::V03 => {
                json!({ "kind": "message", "messageId": id, "role": "user", "parts": [{ "kind": "text", "text": text }] })
            }
        };
        if let Some(context) = &conversation.context {
            message["contextId"] = json!(context);
        }
        let mut params = json!({ "message": message });
        if let Some(tenant) = &self.tenant {
            params["tenant"] = json!(tenant);
        }
        conversation.last_message = Some((id.to_owned(), text.to_owned()));
        let (answer, mut elapsed) = match self.binding {
            Binding::JsonRpc => {
                let method = if self.version == Version::V1 { "SendMessage" } else { "message/send" };
                self.rpc(identity, method, params).await?
            }
            Binding::Rest => self.rest(Method::POST, identity, "/message:send", Some(params)).await?,
        };
        let mut seen = match answer {
            Ok(result) => Seen::of(&result),
            Err(refusal) => return Ok(Reply { text: refusal, declined: true, elapsed, ..Reply::default() }),
        };
        let mut polls = 0;
        while seen.is_working() && polls < POLLS {
            tokio::time::sleep(POLL_PAUSE).await;
            polls += 1;
            let Some(task) = seen.task.clone() else { break };
            let (answer, took) = self.get_task(identity, &task).await?;
            elapsed += took + POLL_PAUSE;
            match answer {
                Ok(result) => seen = Seen::of(&result),
                Err(refusal) => return Ok(Reply { text: refusal, declined: true, elapsed, ..Reply::default() }),
            }
        }
        if seen.is_working() {
            return Err(TargetError::new(Reason::Late, "the task was not finished in time"));
        }
        conversation.context = seen.context.clone().or_else(|| conversation.context.take());
        conversation.task = seen.task.clone();
        let declined = seen.is_declined();
        if seen.text.trim().is_empty() && !declined {
            return Err(TargetError::new(Reason::Empty, "the answer says nothing"));
        }
        Ok(Reply { text: seen.text, declined, elapsed, ..Reply::default() })
    }

    async fn act(
        &self,
        conversation: &mut Conversation,
        identity: Identity,
        action: Action,
        text: Option<&str>,
        trap_url: Option<&str>,
    ) -> Result<Reply, TargetError> {
        if action == Action::Replay {
            let (id, last) = conversation.last_message.clone().ok_or_else(|| missing("message"))?;
            return self.send(conversation, identity, &id, text.unwrap_or(&last)).await;
        }
        let task = || conversation.task.clone().ok_or_else(|| missing("task"));
        let (answer, elapsed) = match action {
            Action::FetchTask => self.get_task(identity, &task()?).await?,
            Action::CancelTask => {
                let task = task()?;
                let method = if self.version == Version::V1 { "CancelTask" } else { "tasks/cancel" };
                self.either(identity, method, json!({ "id": task }), Method::POST, &format!("/tasks/{task}:cancel"))
                    .await?
            }
            Action::ListTasks => {
                let method = if self.version == Version::V1 { "ListTasks" } else { "tasks/list" };
                self.either(identity, method, json!({}), Method::GET, "/tasks").await?
            }
            Action::PushToTrap => {
                let trap = trap_url.ok_or_else(|| missing("listener"))?;
                let task = task()?;
                let (method, params) = match self.version {
                    Version::V1 => ("CreateTaskPushNotificationConfig", json!({ "taskId": task, "url": trap })),
                    Version::V03 => (
                        "tasks/pushNotificationConfig/set",
                        json!({ "taskId": task, "pushNotificationConfig": { "url": trap } }),
                    ),
                };
                let path = format!("/tasks/{task}/pushNotificationConfigs");
                self.either(identity, method, params, Method::POST, &path).await?
            }
            Action::Replay => return Err(unsupported()),
        };
        // The whole answer: what matters is whether something of another identity is in it.
        let (text, declined) = match answer {
            Ok(value) => (without_history(value).to_string(), false),
            Err(refusal) => (refusal, true),
        };
        Ok(Reply { text, declined, elapsed, ..Reply::default() })
    }

    async fn get_task(&self, identity: Identity, task: &str) -> Result<(Result<Value, String>, Duration), TargetError> {
        let method = if self.version == Version::V1 { "GetTask" } else { "tasks/get" };
        self.either(identity, method, json!({ "id": task }), Method::GET, &format!("/tasks/{task}")).await
    }

    async fn either(
        &self,
        identity: Identity,
        method: &str,
        params: Value,
        verb: Method,
        path: &str,
    ) -> Result<(Result<Value, String>, Duration), TargetError> {
        match self.binding {
            Binding::JsonRpc => self.rpc(identity, method, params).await,
            Binding::Rest => {
                let body = (verb == Method::POST).then_some(params);
                self.rest(verb, identity, path, body).await
            }
        }
    }

    /// Calls a method. An error of JSON-RPC is the target's refusal, in words.
    async fn rpc(
        &self,
        identity: Identity,
        method: &str,
        params: Value,
    ) -> Result<(Result<Value, String>, Duration), TargetError> {
        let body = json!({ "jsonrpc": "2.0", "id": "1", "method": method, "params": params });
        let headers = self.headers();
        let call = Call {
            method: Method::POST,
            url: self.url.clone(),
            identity,
            headers: &headers,
            body: Some(body),
            presented: None,
        };
        let (answer, elapsed) = self.wire.json(call).await?;
        if let Some(error) = answer.get("error") {
            return Ok((Err(error.to_string()), elapsed));
        }
        let result = answer.get("result").cloned();
        let result =
            result.ok_or_else(|| TargetError::new(Reason::Malformed, "the answer has neither result nor error"))?;
        Ok((Ok(result), elapsed))
    }

    async fn rest(
        &self,
        verb: Method,
        identity: Identity,
        path: &str,
        body: Option<Value>,
    ) -> Result<(Result<Value, String>, Duration), TargetError> {
        let mut url = self.url.clone();
        let base = url.path().trim_end_matches('/').to_owned();
        // 0.3 has its version in the path; 1.0 in a header.
        let version = if self.version == Version::V03 && !base.ends_with("/v1") { "/v1" } else { "" };
        url.set_path(&format!("{base}{version}{path}"));
        let headers = self.headers();
        let call = Call { method: verb, url, identity, headers: &headers, body, presented: None };
        let answer = self.wire.send(&call).await?;
        let value = serde_json::from_slice::<Value>(&answer.body);
        if answer.status.is_client_error() {
            let why = value.map_or_else(|_| answer.status.to_string(), |value| value.to_string());
            return Ok((Err(why), answer.elapsed));
        }
        if !answer.status.is_success() {
            return Err(super::wire::refused(answer.status, &answer.body));
        }
        let value = value.map_err(|e| TargetError::new(Reason::NotJson, format!("the answer is not JSON: {e}")))?;
        Ok((Ok(value), answer.elapsed))
    }

    fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let version = HeaderValue::from_static(if self.version == Version::V1 { "1.0" } else { "0.3" });
        vec![(HeaderName::from_static("a2a-version"), version)]
    }
}

impl Target for A2a {
    fn transport(&self) -> Transport {
        Transport::A2a
    }

    fn wire(&self) -> Option<&Wire> {
        Some(&self.wire)
    }

    fn exchange<'a>(&'a self, exchange: Exchange<'a>) -> BoxFuture<'a, Result<Reply, TargetError>> {
        Box::pin(self.talk(exchange))
    }
}

struct Interface {
    url: String,
    binding: Binding,
    version: Version,
    tenant: Option<String>,
}

/// The interfaces of a card that can be spoken, 1.0 before 0.3.
fn interfaces(card: &Value) -> Vec<Interface> {
    let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let binding = |name: &str| match name.to_ascii_uppercase().as_str() {
        "JSONRPC" => Some(Binding::JsonRpc),
        "HTTP+JSON" => Some(Binding::Rest),
        _ => None,
    };
    let mut found = Vec::new();
    for listed in card.get("supportedInterfaces").and_then(Value::as_array).into_iter().flatten() {
        let Some(binding) = text(listed, "protocolBinding").and_then(|name| binding(&name)) else { continue };
        let Some(url) = text(listed, "url") else { continue };
        let old = text(listed, "protocolVersion").is_some_and(|version| version.starts_with("0."));
        let version = if old { Version::V03 } else { Version::V1 };
        found.push(Interface { url, binding, version, tenant: text(listed, "tenant") });
    }
    found.sort_by_key(|interface| interface.version == Version::V03);
    // 0.3: one url, a preferred transport, and others besides.
    if let Some(url) = text(card, "url") {
        let preferred = text(card, "preferredTransport").unwrap_or_else(|| "JSONRPC".to_owned());
        if let Some(binding) = binding(&preferred) {
            found.push(Interface { url, binding, version: Version::V03, tenant: None });
        }
        for listed in card.get("additionalInterfaces").and_then(Value::as_array).into_iter().flatten() {
            let named = text(listed, "transport").and_then(|name| binding(&name));
            if let (Some(binding), Some(url)) = (named, text(listed, "url")) {
                found.push(Interface { url, binding, version: Version::V03, tenant: None });
            }
        }
    }
    found
}

async fn read_card(wire: &Wire, url: &Url) -> Result<Value, TargetError> {
    if url.path().ends_with(".json") {
        return Ok(wire.json(Call::get(url.clone(), Identity::First)).await?.0);
    }
    let base = url.path().trim_end_matches('/').to_owned();
    let mut tries = vec![format!("{base}{CARD}"), CARD.to_owned(), format!("{base}{OLD_CARD}")];
    tries.dedup();
    let mut last = None;
    for path in tries {
        let mut at = url.clone();
        at.set_path(&path);
        match wire.json(Call::get(at, Identity::First)).await {
            Ok((card, _)) => return Ok(card),
            Err(error) if error.ends_run => return Err(error),
            Err(error) => last = Some(error),
        }
    }
    let why = last.map_or_else(String::new, |error| format!(": {}", error.why));
    Err(TargetError::new(Reason::Malformed, format!("no agent card was found at {CARD}{why}")))
}

/// What a task or message says.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    text: String,
    state: String,
    task: Option<String>,
    context: Option<String>,
}

impl Seen {
    fn of(result: &Value) -> Self {
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        // 1.0 wraps; 0.3 says its kind.
        let task = result.get("task").unwrap_or(result);
        if let Some(message) = result.get("message").filter(|message| message.get("parts").is_some()) {
            return Self {
                text: parts(message),
                context: text(message, "contextId"),
                task: text(message, "taskId"),
                state: String::new(),
            };
        }
        if task.get("status").is_none() && task.get("parts").is_some() {
            return Self {
                text: parts(task),
                context: text(task, "contextId"),
                task: text(task, "taskId"),
                state: String::new(),
            };
        }
        let artifacts = task.get("artifacts").and_then(Value::as_array).into_iter().flatten().map(parts);
        let status = task.pointer("/status/message").map(parts);
        let words: Vec<String> = artifacts.chain(status).filter(|words| !words.is_empty()).collect();
        let state = task.pointer("/status/state").and_then(Value::as_str).unwrap_or_default();
        let state = state.trim_start_matches("TASK_STATE_").to_ascii_lowercase().replace('-', "_");
        Self { text: words.join("\n"), state, task: text(task, "id"), context: text(task, "contextId") }
    }

    fn is_working(&self) -> bool {
        matches!(self.state.as_str(), "submitted" | "working")
    }

    fn is_declined(&self) -> bool {
        matches!(self.state.as_str(), "failed" | "rejected" | "canceled" | "cancelled" | "auth_required")
    }
}

/// The words of a message or artifact; data parts count as their JSON.
fn parts(of: &Value) -> String {
    let listed = of.get("parts").and_then(Value::as_array).into_iter().flatten();
    let words = listed.filter_map(|part| match part.get("text").and_then(Value::as_str) {
        Some(text) => Some(text.to_owned()),
        None => part.get("data").map(Value::to_string),
    });
    words.collect::<Vec<_>>().join("\n")
}

/// A value without what repeats our own words.
fn without_history(mut value: Value) -> Value {
    match &mut value {
        Value::Object(members) => {
            members.remove("history");
            for member in members.values_mut() {
                *member = without_history(member.take());
            }
        }
        Value::Array(items) => {
            for item in items {
                *item = without_history(item.take());
            }
        }
        _ => {}
    }
    value
}

fn message_id(conversation: &Conversation) -> String {
    let next = conversation.messages.len();
    let last = conversation.last_message.as_ref().map_or("", |(id, _)| id.as_str());
    use sha2::{Digest, Sha256};
    let digest = Sha256::digest(format!("{} {next} {last}", conversation.name).as_bytes());
    let hex = data_encoding::HEXLOWER.encode(&digest[..16]);
    format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

fn missing(what: &str) -> TargetError {
    TargetError::new(Reason::PayloadNotReached, format!("the conversation has no {what} for this step"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_agent_says_is_read_and_our_own_words_are_not() {
        let v1 = json!({ "task": { "id": "t1", "contextId": "c1", "status": { "state": "TASK_STATE_COMPLETED",
            "message": { "parts": [{ "text": "done" }] } }, "artifacts": [{ "parts": [{ "text": "result" }, { "data": { "a": 1 } }] }],
            "history": [{ "role": "ROLE_USER", "parts": [{ "text": "our own words" }] }] } });
        let seen = Seen::of(&v1);
        assert_eq!(seen.text, "result\n{\"a\":1}\ndone");
        assert_eq!((seen.task.as_deref(), seen.context.as_deref()), (Some("t1"), Some("c1")));
        let v03 = json!({ "kind": "task", "id": "t2", "contextId": "c", "status": { "state": "input-required" }, "history": [] });
        assert_eq!(Seen::of(&v03).state, "input_required");
        let message = json!({ "kind": "message", "contextId": "c", "parts": [{ "kind": "text", "text": "hi" }] });
        assert_eq!(Seen::of(&message).text, "hi");
        assert_eq!(Seen::of(&json!({ "message": { "parts": [{ "text": "hi" }] } })).text, "hi");
        assert!(!without_history(v1).to_string().contains("our own words"));
    }

    #[test]
    fn cards_of_both_versions_name_interfaces() {
        let card = json!({ "url": "https://a/old", "preferredTransport": "JSONRPC",
            "additionalInterfaces": [{ "url": "https://a/rest", "transport": "HTTP+JSON" }],
            "supportedInterfaces": [
                { "url": "https://a/grpc", "protocolBinding": "GRPC", "protocolVersion": "1.0" },
                { "url": "https://a/03", "protocolBinding": "JSONRPC", "protocolVersion": "0.3" },
                { "url": "https://a/1", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0" }] });
        let found: Vec<_> =
            interfaces(&card).into_iter().map(|found| (found.url, found.binding, found.version)).collect();
        assert_eq!(found[0], ("https://a/1".to_owned(), Binding::Rest, Version::V1));
        assert_eq!(found[1], ("https://a/03".to_owned(), Binding::JsonRpc, Version::V03));
        assert_eq!(found.len(), 4);
        assert!(interfaces(&json!({})).is_empty());
    }
}
