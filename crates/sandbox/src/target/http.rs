//! Any HTTP endpoint, by a template of the body and a JSON pointer to the answer.
//!
//! In the template the string `$INPUT` stands for the message and `$CONVERSATION` for a name of the conversation; both may stand
//! inside longer strings. The whole of a plain-text answer is the answer where no pointer is given.

use std::sync::Arc;

use credence_egress::{HeaderName, HeaderValue, Method};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use url::Url;

use super::{
    Exchange, Input, Reply, Target, TargetError, Transport,
    chat::{as_text, text_of, unsupported},
    wire::{Call, Wire, refused},
};
use crate::trial::Reason;

/// What is sent and where the answer is.
#[derive(Debug, Clone, PartialEq)]
pub struct HttpTemplate {
    /// The body.
    pub body: Value,
    /// JSON pointer to the answer. `None`: the usual places, or the whole of a plain text.
    pub answer: Option<String>,
    /// Headers besides the credentials; for nothing secret.
    pub headers: Vec<(String, String)>,
}

impl Default for HttpTemplate {
    fn default() -> Self {
        let body = json!({ "message": "$INPUT", "conversation_id": "$CONVERSATION" });
        Self { body, answer: None, headers: Vec::new() }
    }
}

/// Where answers usually are.
const USUAL: [&str; 8] = ["/answer", "/response", "/reply", "/output", "/text", "/message", "/content", "/result"];

/// A plain HTTP target.
pub struct HttpTarget {
    wire: Arc<Wire>,
    url: Url,
    template: HttpTemplate,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl HttpTarget {
    /// Fails where the template has no slot for the message.
    pub fn new(wire: Arc<Wire>, url: &Url, template: HttpTemplate) -> Result<Self, String> {
        if !template.body.to_string().contains("$INPUT") {
            return Err("the template of the body has no $INPUT".to_owned());
        }
        if let Some(pointer) =
            template.answer.as_ref().filter(|pointer| !pointer.is_empty() && !pointer.starts_with('/'))
        {
            return Err(format!("'{pointer}' is not a JSON pointer: it begins with '/'"));
        }
        let header = |(name, value): &(String, String)| {
            let name: HeaderName = name.parse().map_err(|_| format!("'{name}' is not the name of a header"))?;
            let value =
                HeaderValue::from_str(value).map_err(|_| format!("the value of {name} is not one of a header"))?;
            Ok((name, value))
        };
        let headers = template.headers.iter().map(header).collect::<Result<_, String>>()?;
        Ok(Self { wire, url: url.clone(), template, headers })
    }

    async fn talk(&self, exchange: Exchange<'_>) -> Result<Reply, TargetError> {
        let Exchange { conversation, identity, input, .. } = exchange;
        let text = match input {
            Input::Message { system: Some(system), text } => format!("{system}\n\n{text}"),
            Input::Message { system: None, text } => text.to_owned(),
            _ => return Err(unsupported()),
        };
        let body = filled(&self.template.body, &text, &conversation.name);
        let call = Call {
            method: Method::POST,
            url: self.url.clone(),
            identity,
            headers: &self.headers,
            body: Some(body),
            presented: None,
        };
        let answer = self.wire.send(&call).await?;
        if !answer.status.is_success() {
            return Err(refused(answer.status, &answer.body));
        }
        let text = self.read(&answer.body, answer.content_type().as_deref())?;
        if text.trim().is_empty() {
            return Err(TargetError::new(Reason::Empty, "the answer says nothing"));
        }
        Ok(Reply { text, elapsed: answer.elapsed, ..Reply::default() })
    }

    fn read(&self, body: &[u8], content_type: Option<&str>) -> Result<String, TargetError> {
        let value = match serde_json::from_slice::<Value>(body) {
            Ok(value) => value,
            Err(_) if self.template.answer.is_none() && content_type == Some("text/plain") => {
                return Ok(String::from_utf8_lossy(body).into_owned());
            }
            Err(e) => return Err(TargetError::new(Reason::NotJson, format!("the answer is not JSON: {e}"))),
        };
        let found = match &self.template.answer {
            Some(pointer) => value.pointer(pointer),
            None if value.is_string() => Some(&value),
            None => USUAL.iter().find_map(|pointer| value.pointer(pointer)),
        };
        let place = self.template.answer.as_deref().unwrap_or("any of the usual places");
        let found =
            found.ok_or_else(|| TargetError::new(Reason::Malformed, format!("the answer has nothing at {place}")))?;
        Ok(match found {
            Value::Array(_) => text_of(Some(found)),
            other => as_text(other),
        })
    }
}

fn filled(template: &Value, text: &str, conversation: &str) -> Value {
    match template {
        // One pass: what the message holds is not replaced again.
        Value::String(slot) => {
            let parts = slot.split("$INPUT").map(|part| part.replace("$CONVERSATION", conversation));
            Value::String(parts.collect::<Vec<_>>().join(text))
        }
        Value::Array(items) => items.iter().map(|item| filled(item, text, conversation)).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, member)| (name.clone(), filled(member, text, conversation))).collect()
        }
        other => other.clone(),
    }
}

impl Target for HttpTarget {
    fn transport(&self) -> Transport {
        Transport::Http
    }

    fn wire(&self) -> Option<&Wire> {
        Some(&self.wire)
    }

    fn exchange<'a>(&'a self, exchange: Exchange<'a>) -> BoxFuture<'a, Result<Reply, TargetError>> {
        Box::pin(self.talk(exchange))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_filled_once() {
        let template = json!({ "a": ["$INPUT", 1], "b": { "c": "x $CONVERSATION: $INPUT!" } });
        let found = filled(&template, "tell me $CONVERSATION and $INPUT", "c1");
        assert_eq!(found["a"][0], "tell me $CONVERSATION and $INPUT");
        assert_eq!(found["b"]["c"], "x c1: tell me $CONVERSATION and $INPUT!");
    }
}
