//! A transaction that a node has in a block.

use data_encoding::BASE64;
use serde::Deserialize;
use serde_json::{Value, json};

use super::instruction::{self, NewFeedback};
use crate::{ChainError, rpc::Rpc};

/// A transaction in a block.
#[derive(Debug)]
pub(super) struct Landed {
    pub(super) slot: u64,
    pub(super) succeeded: bool,
    /// What it cost, in lamports.
    pub(super) fee: u64,
    /// The signed bytes.
    pub(super) bytes: Vec<u8>,
    /// The registry's events.
    pub(super) feedback: Vec<NewFeedback>,
}

#[derive(Deserialize)]
struct Raw {
    slot: u64,
    meta: Option<Meta>,
    /// The bytes, and how they are written.
    transaction: (String, String),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    err: Option<Value>,
    fee: u64,
    #[serde(default)]
    log_messages: Option<Vec<String>>,
}

/// The transaction with a signature, if the node has it in a confirmed block.
pub(super) async fn transaction(rpc: &Rpc, signature: &str) -> Result<Option<Landed>, ChainError> {
    let options = json!({"encoding": "base64", "commitment": "confirmed", "maxSupportedTransactionVersion": 0});
    let raw: Option<Raw> = rpc.ask("getTransaction", json!([signature, options])).await?;
    let Some(raw) = raw else { return Ok(None) };
    let wrong = || ChainError::Malformed("a transaction without its bytes or its outcome".into());
    let (text, encoding) = raw.transaction;
    let bytes = BASE64.decode(text.as_bytes()).ok().filter(|_| encoding == "base64").ok_or_else(wrong)?;
    let meta = raw.meta.ok_or_else(wrong)?;
    let feedback = meta.log_messages.iter().flatten().filter_map(|line| instruction::new_feedback(line)).collect();
    Ok(Some(Landed { slot: raw.slot, succeeded: meta.err.is_none(), fee: meta.fee, bytes, feedback }))
}
