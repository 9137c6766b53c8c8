//! JSON-RPC to one node, through the one door out.
//!
//! A node's address may hold a key in its path, so no error and no `Debug` shows more of it than the host. The text of a node's error
//! is used to classify it and is not repeated.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use credence_egress::{Egress, EgressError, HeaderValue, Rate, Request, StatusCode};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use url::Url;

use crate::{ChainError, evm, solana};

/// Bytes of one answer. An `eth_call` of 200 clients is about 150 kB, a full range of logs a few MB.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;
/// How long one answer may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// One node. Cloning is cheap.
#[derive(Clone)]
pub struct Rpc {
    egress: Egress,
    url: Url,
    rate: Option<Rate>,
    next_id: Arc<AtomicU64>,
}

impl fmt::Debug for Rpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rpc").field("host", &self.url.host_str().unwrap_or_default()).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Envelope {
    jsonrpc: Option<String>,
    id: Option<Value>,
    /// Present and null is an answer: "there is none".
    #[serde(default, deserialize_with = "present")]
    result: Option<Value>,
    error: Option<NodeError>,
}

fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// What a node answers instead of a result.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct NodeError {
    #[serde(default)]
    pub(crate) code: i64,
    #[serde(default)]
    pub(crate) message: String,
    #[serde(default)]
    pub(crate) data: Option<Value>,
}

/// Why a request got no result.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// As the caller sees it.
    Chain(ChainError),
    /// The answer is larger than ours may be, or late: a smaller question may be answered.
    TooMuch(ChainError),
    /// The node's own error.
    Node(NodeError),
}

impl From<EgressError> for Refusal {
    fn from(error: EgressError) -> Self {
        match error {
            EgressError::TooLarge { .. } | EgressError::Late { .. } => Self::TooMuch(error.into()),
            other => Self::Chain(other.into()),
        }
    }
}

impl From<ChainError> for Refusal {
    fn from(error: ChainError) -> Self {
        Self::Chain(error)
    }
}

impl From<Refusal> for ChainError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Chain(error) | Refusal::TooMuch(error) => error,
            Refusal::Node(error) => error.into_chain(),
        }
    }
}

impl NodeError {
    pub(crate) fn says(&self, words: &[&str]) -> bool {
        let message = self.message.to_ascii_lowercase();
        words.iter().any(|word| message.contains(word))
    }

    pub(crate) fn is_rate_limit(&self) -> bool {
        self.code == 429 || self.says(&["rate limit", "too many requests", "compute units per second", "request limit"])
    }

    fn into_chain(self) -> ChainError {
        if self.is_rate_limit() {
            return ChainError::RateLimited { retry_after: None };
        }
        if solana::is_behind(&self) {
            return ChainError::Transport("it says that it is behind its cluster".into());
        }
        if let Some(reason) = solana::preflight_reason(&self).or_else(|| evm::revert_reason(&self)) {
            return ChainError::Reverted { reason };
        }
        ChainError::Malformed(format!("the node refuses the request with code {}", self.code))
    }
}

impl Rpc {
    /// The node at `url`. `rate`: how often it may be asked, where that is more or less than the client's default.
    pub fn new(egress: Egress, url: Url, rate: Option<Rate>) -> Self {
        Self { egress, url, rate, next_id: Arc::new(AtomicU64::new(1)) }
    }

    /// The client that requests go through.
    pub(crate) fn egress(&self) -> &Egress {
        &self.egress
    }

    /// Asks, and reads the result as `T`.
    pub(crate) async fn ask<T: DeserializeOwned>(&self, method: &'static str, params: Value) -> Result<T, Refusal> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string().into_bytes();
        let mut request = Request::post(self.url.as_str(), HeaderValue::from_static("application/json"), body)?
            .max_bytes(MAX_ANSWER_BYTES)
            .deadline(DEADLINE);
        if let Some(rate) = self.rate {
            request = request.rate(rate);
        }
        let answer = self.egress.send(request).await?;
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            return Err(ChainError::RateLimited { retry_after: answer.retry_after() }.into());
        }
        // Many nodes send an error of theirs with 400, 413 or 500: only the envelope tells.
        let envelope: Result<Envelope, _> = serde_json::from_slice(&answer.body);
        let envelope = match envelope {
            Ok(envelope) if envelope.jsonrpc.as_deref() == Some("2.0") => envelope,
            _ if answer.status == StatusCode::SERVICE_UNAVAILABLE => {
                return Err(ChainError::RateLimited { retry_after: answer.retry_after() }.into());
            }
            _ if answer.status == StatusCode::PAYLOAD_TOO_LARGE => {
                return Err(Refusal::TooMuch(malformed(method, "413")));
            }
            _ if !answer.status.is_success() => {
                return Err(ChainError::Transport(format!(
                    "{method} was answered with status {}",
                    answer.status.as_u16()
                ))
                .into());
            }
            _ => return Err(malformed(method, "no JSON-RPC answer").into()),
        };
        if let Some(error) = envelope.error {
            return Err(Refusal::Node(error));
        }
        if envelope.id != Some(Value::from(id)) {
            return Err(malformed(method, "the answer to another question").into());
        }
        let result = envelope.result.ok_or_else(|| malformed(method, "neither result nor error"))?;
        serde_json::from_value(result).map_err(|_| malformed(method, "a result of another shape").into())
    }
}

fn malformed(method: &str, what: &str) -> ChainError {
    ChainError::Malformed(format!("{method}: {what}"))
}
