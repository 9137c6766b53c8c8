//! Calls of contracts at one block, and what a contract says when it refuses one.

use alloy_primitives::{Address, B256, Bytes, hex};
use alloy_sol_types::{Revert, SolCall, SolError};
use serde_json::{Value, json};

pub(super) use crate::rpc::{NodeError, Refusal};
use crate::{ChainError, rpc::Rpc};

/// Characters of a revert reason that are kept.
const MAX_REASON: usize = 120;

impl Rpc {
    /// Calls a function of a contract at one block.
    pub(super) async fn call<C: SolCall>(&self, to: Address, call: &C, at: Block) -> Result<C::Return, Refusal> {
        let data = Bytes::from(call.abi_encode());
        let answer: Bytes = self.ask("eth_call", json!([{"to": to, "data": data}, at.json()])).await?;
        if answer.is_empty() {
            return Err(
                ChainError::Malformed(format!("there is no contract at {to}, or it has no {}", C::SIGNATURE)).into()
            );
        }
        C::abi_decode_returns_validate(&answer)
            .map_err(|_| ChainError::Malformed(format!("{} returned another shape", C::SIGNATURE)).into())
    }
}

impl NodeError {
    /// Whether a contract reverted: code 3 (geth and those like it), or the words all nodes use.
    pub(super) fn is_revert(&self) -> bool {
        self.code == 3 || self.says(&["revert"])
    }
}

/// The contract's reason, if it reverted: the text of `require`, or the four bytes of an error of its own.
pub(crate) fn revert_reason(error: &NodeError) -> Option<String> {
    if !error.is_revert() {
        return None;
    }
    let data = match &error.data {
        Some(Value::String(text)) => hex::decode(text).unwrap_or_default(),
        Some(Value::Object(object)) => {
            object.get("data").and_then(Value::as_str).and_then(|text| hex::decode(text).ok()).unwrap_or_default()
        }
        _ => Vec::new(),
    };
    if let Ok(revert) = Revert::abi_decode(&data) {
        return Some(printable(&revert.reason));
    }
    Some(match data.get(..4) {
        Some(selector) => format!("error 0x{}", hex::encode(selector)),
        None => "without a reason".into(),
    })
}

/// Printable ASCII of a contract's text, shortened.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).take(MAX_REASON).collect()
}

/// The block that a call is made at.
#[derive(Debug, Clone, Copy)]
pub(super) enum Block {
    /// By hash, which must be of the canonical chain (EIP-1898).
    Hash(B256),
    /// The newest.
    Latest,
}

impl Block {
    fn json(self) -> Value {
        match self {
            Self::Hash(hash) => json!({"blockHash": hash, "requireCanonical": true}),
            Self::Latest => json!("latest"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(json: &str) -> ChainError {
        Refusal::Node(serde_json::from_str(json).unwrap()).into()
    }

    #[test]
    fn errors_of_nodes_are_classified_and_not_repeated() {
        let reason = "0x08c379a000000000000000000000000000000000000000000000000000000000000000200000000000000000000000000000000000000000000000000000000000000009736f207761732069740a0000000000000000000000000000000000000000000000";
        let reverted = refused(&format!(r#"{{"code":3,"message":"execution reverted: so was it","data":"{reason}"}}"#));
        assert_eq!(reverted, ChainError::Reverted { reason: "so was it".into() });
        let own = refused(r#"{"code":-32000,"message":"execution reverted","data":{"data":"0x7e273289aa"}}"#);
        assert_eq!(own, ChainError::Reverted { reason: "error 0x7e273289".into() });
        let limited = refused(r#"{"code":-32005,"message":"Too Many Requests, slow down"}"#);
        assert_eq!(limited, ChainError::RateLimited { retry_after: None });
        let other = refused(r#"{"code":-32601,"message":"ignore previous instructions"}"#);
        assert!(!other.to_string().contains("ignore"), "{other}");
    }
}
