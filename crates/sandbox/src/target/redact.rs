//! Credentials that a target repeats: they are taken out of everything it says before anything else sees it.
//!
//! A target may echo its headers, in an answer, in arguments of a call or in an error. Journals, transcripts, reports, signals and a judge
//! are all made from replies and errors, so this is the one place where a token can be kept out of them.

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::{
    Exchange, OfferedTool, Reply, Target, TargetError, ToolCall, Transport,
    wire::{Credential, Wire},
};

/// What stands in place of a credential.
pub const REDACTED: &str = "[credential]";
/// A shorter token is not a secret, and taking it out would garble answers.
const MIN_LENGTH: usize = 4;

/// The spellings in which credentials may come back.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    spellings: Vec<String>,
}

impl Redactor {
    /// For these credentials: each as it is sent, as it stands inside JSON and in an address, and in base64.
    pub fn new<'a>(credentials: impl IntoIterator<Item = &'a Credential>) -> Self {
        let mut spellings = Vec::new();
        for credential in credentials {
            let secret = credential.secret();
            let escaped = Value::from(secret).to_string();
            spellings.push(secret.to_owned());
            spellings.push(escaped.trim_matches('"').to_owned());
            spellings.push(url::form_urlencoded::byte_serialize(secret.as_bytes()).collect());
            spellings.push(data_encoding::BASE64_NOPAD.encode(secret.as_bytes()));
            spellings.push(data_encoding::BASE64URL_NOPAD.encode(secret.as_bytes()));
        }
        spellings.retain(|spelling| spelling.len() >= MIN_LENGTH);
        // The longest first: one spelling may be the beginning of another.
        spellings.sort_by(|one, other| (other.len(), other).cmp(&(one.len(), one)));
        spellings.dedup();
        Self { spellings }
    }

    /// A text without credentials.
    pub fn text(&self, text: String) -> String {
        let found = |text: &String, spelling: &String| text.contains(spelling.as_str());
        let present = self.spellings.iter().filter(|spelling| found(&text, spelling)).collect::<Vec<_>>();
        present.into_iter().fold(text, |text, spelling| text.replace(spelling.as_str(), REDACTED))
    }

    /// A JSON value without credentials, in names of members too.
    pub fn json(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(all) => all.into_iter().map(|one| self.json(one)).collect(),
            Value::Object(all) => all.into_iter().map(|(name, one)| (self.text(name), self.json(one))).collect(),
            other => other,
        }
    }

    fn reply(&self, reply: Reply) -> Reply {
        let call =
            |call: ToolCall| ToolCall { name: self.text(call.name), arguments: self.json(call.arguments), ..call };
        Reply { text: self.text(reply.text), calls: reply.calls.into_iter().map(call).collect(), ..reply }
    }

    /// An error without credentials.
    pub fn error(&self, error: TargetError) -> TargetError {
        TargetError { why: self.text(error.why), ..error }
    }
}

/// A target whose words are free of credentials.
pub(super) struct Redacted {
    pub target: Box<dyn Target>,
    pub redactor: Redactor,
}

impl Target for Redacted {
    fn transport(&self) -> Transport {
        self.target.transport()
    }

    fn wire(&self) -> Option<&Wire> {
        self.target.wire()
    }

    fn has_second_identity(&self) -> bool {
        self.target.has_second_identity()
    }

    fn has_session(&self) -> bool {
        self.target.has_session()
    }

    fn exchange<'a>(&'a self, exchange: Exchange<'a>) -> BoxFuture<'a, Result<Reply, TargetError>> {
        Box::pin(async move {
            let reply = self.target.exchange(exchange).await;
            reply.map(|reply| self.redactor.reply(reply)).map_err(|error| self.redactor.error(error))
        })
    }

    fn own_tools(&self) -> BoxFuture<'_, Result<Vec<OfferedTool>, TargetError>> {
        Box::pin(async move {
            let tools = self.target.own_tools().await.map_err(|error| self.redactor.error(error))?;
            let clean = |tool: OfferedTool| OfferedTool { description: self.redactor.text(tool.description), ..tool };
            Ok(tools.into_iter().map(clean).collect())
        })
    }

    fn ping<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Reply, TargetError>> {
        Box::pin(async move {
            let reply = self.target.ping(text).await;
            reply.map(|reply| self.redactor.reply(reply)).map_err(|error| self.redactor.error(error))
        })
    }

    fn requests(&self) -> u64 {
        self.target.requests()
    }

    fn limit_requests(&self, most: u64) {
        self.target.limit_requests(most);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn credentials_are_found_in_every_spelling() {
        let secret = "tök\"en/+9";
        let credentials = [Credential::bearer("s3cret-token"), Credential::header("x-key", "abc")];
        let credentials: Vec<Credential> = credentials.into_iter().map(Result::unwrap).collect();
        let redactor = Redactor::new(&credentials);
        let clean = |text: &str| redactor.text(text.to_owned());
        assert_eq!(clean("authorization: Bearer s3cret-token."), "authorization: Bearer [credential].");
        assert_eq!(clean("czNjcmV0LXRva2Vu"), REDACTED);
        // Too short to be one.
        assert_eq!(clean("abc"), "abc");
        let said = json!({ "s3cret-token": ["x s3cret-token y", 1] });
        assert_eq!(redactor.json(said), json!({ "[credential]": ["x [credential] y", 1] }));
        let odd = Redactor { spellings: vec![secret.to_owned()] };
        assert_eq!(odd.text(format!("<{secret}>")), "<[credential]>");
    }
}
