//! OpenAI-compatible responses: the target carries the conversation under the id of its last response.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use url::Url;

use super::{
    Exchange, Input, OfferedTool, Reply, Target, TargetError, ToolCall, Transport,
    chat::{arguments, endpoint, text_of, unsupported},
    wire::{Call, Wire},
};
use crate::trial::Reason;

/// A responses target.
pub struct Responses {
    wire: Arc<Wire>,
    url: Url,
    model: String,
}

impl Responses {
    /// `url` is the base (`https://host/v1`) or the whole address of the endpoint.
    pub fn new(wire: Arc<Wire>, url: &Url, model: Option<String>) -> Self {
        Self { wire, url: endpoint(url, "/responses"), model: model.unwrap_or_else(|| "default".to_owned()) }
    }

    async fn talk(&self, exchange: Exchange<'_>) -> Result<Reply, TargetError> {
        let Exchange { conversation, identity, tools, input } = exchange;
        let mut body = json!({ "model": self.model });
        let user = |text: &str| json!({ "role": "user", "content": text });
        body["input"] = match input {
            Input::Message { system, text } => {
                if let Some(system) = system {
                    body["instructions"] = json!(system);
                }
                json!([user(text)])
            }
            Input::Results { results, text } => {
                let told = results.iter().map(|result| {
                    json!({ "type": "function_call_output", "call_id": result.call, "output": result.content })
                });
                told.chain(text.map(user)).collect()
            }
            Input::Act { .. } | Input::Call { .. } => return Err(unsupported()),
        };
        if let Some(id) = &conversation.context {
            body["previous_response_id"] = json!(id);
        }
        if !tools.is_empty() {
            body["tools"] = tools.iter().map(offer).collect();
        }
        let (answer, elapsed) = self.wire.json(Call::post(self.url.clone(), identity, body)).await?;
        let reply = read(&answer)?;
        conversation.context = answer.get("id").and_then(Value::as_str).map(str::to_owned);
        Ok(Reply { elapsed, ..reply })
    }
}

impl Target for Responses {
    fn transport(&self) -> Transport {
        Transport::Responses
    }

    fn wire(&self) -> Option<&Wire> {
        Some(&self.wire)
    }

    fn exchange<'a>(&'a self, exchange: Exchange<'a>) -> BoxFuture<'a, Result<Reply, TargetError>> {
        Box::pin(self.talk(exchange))
    }
}

fn offer(tool: &OfferedTool) -> Value {
    json!({ "type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters,
            "strict": false })
}

fn read(answer: &Value) -> Result<Reply, TargetError> {
    let output = answer.get("output").and_then(Value::as_array);
    let output = output.ok_or_else(|| TargetError::new(Reason::Malformed, "the answer has no output"))?;
    let incomplete = answer.pointer("/incomplete_details/reason").and_then(Value::as_str);
    if incomplete == Some("content_filter") {
        return Err(TargetError::new(Reason::Filtered, "a content filter withheld the answer"));
    }
    let of =
        |kind: &'static str| output.iter().filter(move |item| item.get("type").and_then(Value::as_str) == Some(kind));
    let texts: Vec<String> = of("message").map(|message| text_of(message.get("content"))).collect();
    let read_call = |(n, item): (usize, &Value)| {
        let name = item.get("name")?.as_str()?.to_owned();
        let id = item.get("call_id").or_else(|| item.get("id")).and_then(Value::as_str);
        let id = id.map_or_else(|| format!("call_{n}"), str::to_owned);
        Some(ToolCall { id, name, arguments: arguments(item.get("arguments")) })
    };
    let calls: Vec<ToolCall> = of("function_call").enumerate().filter_map(read_call).collect();
    let text = texts.join("\n");
    if text.trim().is_empty() && calls.is_empty() {
        return Err(TargetError::new(Reason::Empty, "the answer says nothing"));
    }
    Ok(Reply { text, calls, ..Reply::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_calls_are_read() {
        let answer = json!({ "id": "r1", "output": [
            { "type": "reasoning", "summary": [] },
            { "type": "message", "content": [{ "type": "output_text", "text": "Hello" }] },
            { "type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"a\":1}" },
        ] });
        let reply = read(&answer).unwrap();
        assert_eq!(reply.text, "Hello");
        assert_eq!(reply.calls, [ToolCall { id: "c1".into(), name: "f".into(), arguments: json!({ "a": 1 }) }]);
        assert_eq!(read(&json!({ "output": [] })).unwrap_err().reason, Reason::Empty);
        assert_eq!(read(&json!({ "error": "x" })).unwrap_err().reason, Reason::Malformed);
    }
}
