//! OpenAI-compatible chat completions: the client carries the whole conversation, and offers tools with each request.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use url::Url;

use super::{
    Exchange, Input, OfferedTool, Reply, Target, TargetError, ToolCall, Transport,
    wire::{Call, Wire},
};
use crate::trial::Reason;

const PATH: &str = "/chat/completions";

/// A chat target.
pub struct Chat {
    wire: Arc<Wire>,
    url: Url,
    model: String,
}

impl Chat {
    /// `url` is the base (`https://host/v1`) or the whole address of the endpoint.
    pub fn new(wire: Arc<Wire>, url: &Url, model: Option<String>) -> Self {
        Self { wire, url: endpoint(url, PATH), model: model.unwrap_or_else(|| "default".to_owned()) }
    }

    async fn talk(&self, exchange: Exchange<'_>) -> Result<Reply, TargetError> {
        let Exchange { conversation, identity, tools, input } = exchange;
        let messages = &mut conversation.messages;
        match input {
            Input::Message { system, text } => {
                if let Some(system) = system {
                    messages.push(json!({ "role": "system", "content": system }));
                }
                messages.push(json!({ "role": "user", "content": text }));
            }
            Input::Results { results, text } => {
                let told = results.iter().map(|result| {
                    json!({ "role": "tool", "tool_call_id": result.call, "name": result.name, "content": result.content })
                });
                messages.extend(told);
                if let Some(text) = text {
                    messages.push(json!({ "role": "user", "content": text }));
                }
            }
            Input::Act { .. } | Input::Call { .. } => return Err(unsupported()),
        }
        let mut body = json!({ "model": self.model, "messages": messages });
        if !tools.is_empty() {
            body["tools"] = tools.iter().map(offer).collect();
        }
        let (answer, elapsed) = self.wire.json(Call::post(self.url.clone(), identity, body)).await?;
        let (reply, message) = read(&answer)?;
        messages.push(message);
        Ok(Reply { elapsed, ..reply })
    }
}

impl Target for Chat {
    fn transport(&self) -> Transport {
        Transport::Chat
    }

    fn wire(&self) -> Option<&Wire> {
        Some(&self.wire)
    }

    fn exchange<'a>(&'a self, exchange: Exchange<'a>) -> BoxFuture<'a, Result<Reply, TargetError>> {
        Box::pin(self.talk(exchange))
    }
}

fn offer(tool: &OfferedTool) -> Value {
    json!({
        "type": "function",
        "function": { "name": tool.name, "description": tool.description, "parameters": tool.parameters },
    })
}

/// The reply, and the message to carry on with.
fn read(answer: &Value) -> Result<(Reply, Value), TargetError> {
    let malformed = |what: &str| TargetError::new(Reason::Malformed, format!("the answer has no {what}"));
    let choice = answer.pointer("/choices/0").ok_or_else(|| malformed("choices[0]"))?;
    if choice.get("finish_reason").and_then(Value::as_str) == Some("content_filter") {
        return Err(TargetError::new(Reason::Filtered, "a content filter withheld the answer"));
    }
    let message =
        choice.get("message").filter(|message| message.is_object()).ok_or_else(|| malformed("choices[0].message"))?;
    let mut text = text_of(message.get("content"));
    if let Some(refusal) = message.get("refusal").and_then(Value::as_str) {
        text.push_str(refusal);
    }
    let listed = message.get("tool_calls").and_then(Value::as_array);
    let read = listed.into_iter().flatten().enumerate().filter_map(|(n, call)| Some((read_call(n, call)?, call)));
    let (calls, given): (Vec<ToolCall>, Vec<&Value>) = read.unzip();
    if text.trim().is_empty() && calls.is_empty() {
        return Err(TargetError::new(Reason::Empty, "the answer says nothing"));
    }
    let mut kept = json!({ "role": "assistant", "content": message.get("content").cloned().unwrap_or(Value::Null) });
    if !calls.is_empty() {
        // With the ids that we made up where there were none. A text of arguments goes back as it came: agents compare it with what
        // they said.
        let called = calls.iter().zip(given).map(|(call, given)| {
            let said = given.pointer("/function/arguments").and_then(Value::as_str);
            let arguments =
                said.filter(|said| !said.trim().is_empty()).map_or_else(|| as_text(&call.arguments), str::to_owned);
            json!({ "id": call.id, "type": "function", "function": { "name": call.name, "arguments": arguments } })
        });
        kept["tool_calls"] = called.collect();
    }
    Ok((Reply { text, calls, ..Reply::default() }, kept))
}

fn read_call(n: usize, call: &Value) -> Option<ToolCall> {
    let function = call.get("function")?;
    let name = function.get("name")?.as_str()?.to_owned();
    let id = call.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
    let id = id.map_or_else(|| format!("call_{n}"), str::to_owned);
    Some(ToolCall { id, name, arguments: arguments(function.get("arguments")) })
}

/// Arguments come as JSON in a string; one that is no JSON stays a string. Some targets send the object itself.
pub(crate) fn arguments(value: Option<&Value>) -> Value {
    match value {
        Some(Value::String(text)) if text.trim().is_empty() => json!({}),
        Some(Value::String(text)) => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone())),
        Some(other) => other.clone(),
        None => json!({}),
    }
}

pub(crate) fn as_text(arguments: &Value) -> String {
    match arguments {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The words of a content member: a text, or a list of parts.
pub(crate) fn text_of(content: Option<&Value>) -> String {
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text").or_else(|| part.get("refusal"))?.as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

pub(crate) fn endpoint(url: &Url, path: &str) -> Url {
    let mut endpoint = url.clone();
    let base = url.path().trim_end_matches('/');
    if !base.ends_with(path) {
        endpoint.set_path(&format!("{base}{path}"));
    }
    endpoint
}

pub(crate) fn unsupported() -> TargetError {
    TargetError::new(Reason::Malformed, "this transport has no such step")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_several_forms_are_read() {
        let plain = json!({ "choices": [{ "message": { "role": "assistant", "content": "Hello" } }] });
        assert_eq!(read(&plain).unwrap().0.text, "Hello");
        let parts = json!({ "choices": [{ "message": { "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }] } }] });
        assert_eq!(read(&parts).unwrap().0.text, "a\nb");
        let call = json!({ "choices": [{ "finish_reason": "tool_calls", "message": { "content": null, "tool_calls": [
            { "id": "c1", "type": "function", "function": { "name": "f", "arguments": "{\"a\": 1}" } },
            { "type": "function", "function": { "name": "g", "arguments": "{a: 1" } },
            { "id": "c3", "function": { "name": "h" } },
            { "id": "c4" },
        ] } }] });
        let (reply, message) = read(&call).unwrap();
        let seen: Vec<_> =
            reply.calls.iter().map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.clone())).collect();
        assert_eq!(seen, [("c1", "f", json!({ "a": 1 })), ("call_1", "g", json!("{a: 1")), ("c3", "h", json!({}))]);
        assert_eq!(message["tool_calls"][1]["function"]["arguments"], "{a: 1");
        let spaced = json!({ "choices": [{ "message": { "content": null, "tool_calls": [
            { "id": "c1", "function": { "name": "f", "arguments": "{ \"b\": 1, \"a\": 2 }" } }] } }] });
        let (_, message) = read(&spaced).unwrap();
        assert_eq!(message["tool_calls"][0]["function"]["arguments"], "{ \"b\": 1, \"a\": 2 }");
    }

    #[test]
    fn what_is_no_answer_has_its_reason() {
        let reason = |value: Value| read(&value).unwrap_err().reason;
        assert_eq!(reason(json!({})), Reason::Malformed);
        assert_eq!(reason(json!({ "choices": [{ "message": "x" }] })), Reason::Malformed);
        assert_eq!(reason(json!({ "choices": [{ "message": { "content": "" } }] })), Reason::Empty);
        assert_eq!(
            reason(json!({ "choices": [{ "finish_reason": "content_filter", "message": { "content": "" } }] })),
            Reason::Filtered
        );
    }

    #[test]
    fn the_endpoint_is_found_from_its_base() {
        for (given, found) in [
            ("http://h/v1", "http://h/v1/chat/completions"),
            ("http://h/v1/", "http://h/v1/chat/completions"),
            ("http://h", "http://h/chat/completions"),
            ("http://h/v1/chat/completions", "http://h/v1/chat/completions"),
        ] {
            assert_eq!(endpoint(&given.parse().unwrap(), PATH).as_str(), found);
        }
    }
}
