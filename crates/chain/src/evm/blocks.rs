//! Blocks: which chain a node serves, and the one block that a reading is made at.

use alloy_primitives::{B256, U64, U256};
use serde::Deserialize;
use serde_json::json;

use super::{EvmChain, Rpc, rpc::Refusal};
use crate::ChainError;

/// The block that readings are made at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Its number.
    pub number: u64,
    /// Its hash: evidence of every reading.
    pub hash: B256,
}

/// What is used of a block's header.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Header {
    pub(super) number: U64,
    pub(super) hash: B256,
    timestamp: U64,
    #[serde(default)]
    pub(super) base_fee_per_gas: Option<U256>,
}

impl Header {
    pub(super) fn head(&self) -> Head {
        Head { number: self.number.to(), hash: self.hash }
    }
}

/// Fails unless the node serves the configured chain.
pub(super) async fn check_chain(rpc: &Rpc, chain: &EvmChain) -> Result<(), ChainError> {
    let answered: U64 = rpc.ask("eth_chainId", json!([])).await?;
    let answered: u64 = answered.to();
    if answered == chain.id {
        return Ok(());
    }
    Err(ChainError::WrongChain { configured: chain.caip2(), answered: format!("eip155:{answered}") })
}

/// The newest block.
pub(super) async fn latest(rpc: &Rpc) -> Result<Header, ChainError> {
    let header: Option<Header> = rpc.ask("eth_getBlockByNumber", json!(["latest", false])).await?;
    header.ok_or_else(|| ChainError::Malformed("the node has no newest block".into()))
}

/// The block of a number, if the node has one.
pub(super) async fn by_number(rpc: &Rpc, number: u64) -> Result<Option<Head>, ChainError> {
    let header: Option<Header> = rpc.ask("eth_getBlockByNumber", json!([U64::from(number), false])).await?;
    match header.map(|header| header.head()) {
        Some(head) if head.number != number => {
            Err(ChainError::Malformed("the node answered with a block of another number".into()))
        }
        head => Ok(head),
    }
}

/// The block that readings are made at: the newest finalized one or, where the node does not know that word, the one under the
/// configured number of confirmations. `now` in seconds since 1970.
pub(super) async fn finalized(rpc: &Rpc, chain: &EvmChain, now: u64) -> Result<Head, ChainError> {
    let newest = latest(rpc).await?;
    let age_seconds = now.saturating_sub(newest.timestamp.to());
    if age_seconds > chain.max_head_age {
        return Err(ChainError::StaleHead { age_seconds });
    }
    let number: u64 = newest.number.to();
    let header: Option<Header> = match rpc.ask("eth_getBlockByNumber", json!(["finalized", false])).await {
        Ok(header) => header,
        Err(Refusal::Node(error)) if !error.is_rate_limit() => None,
        Err(refusal) => return Err(refusal.into()),
    };
    match header.map(|header| header.head()) {
        Some(head) if head.number > number => {
            Err(ChainError::Malformed("the finalized block is newer than the newest".into()))
        }
        Some(head) => Ok(head),
        None => {
            let wanted = number.saturating_sub(chain.confirmations);
            by_number(rpc, wanted).await?.ok_or_else(|| ChainError::Malformed("the node has no final block".into()))
        }
    }
}

/// Fails if the block is not part of the chain any more.
pub(super) async fn still_there(rpc: &Rpc, head: Head) -> Result<(), ChainError> {
    if by_number(rpc, head.number).await? == Some(head) { Ok(()) } else { Err(ChainError::Reorganised) }
}
