//! Where a transaction of ours is.
//!
//! A receipt whose block is in the chain decides. Without one, the account's nonce does: if it has passed ours at a block under
//! the configured number of confirmations, another transaction took it and ours can never be included.

use alloy_primitives::{Address, B256, U64, U256};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{EvmChain, Head, Rpc, abi::Reputation, blocks, logs::Log, writer::transaction_id};
use crate::{
    ChainError,
    attest::{Prepared, TransactionState},
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Receipt {
    transaction_hash: B256,
    block_number: U64,
    block_hash: B256,
    status: U64,
    gas_used: U64,
    effective_gas_price: U256,
    /// On rollups: what its data cost on the chain below.
    #[serde(default)]
    l1_fee: Option<U256>,
    logs: Vec<Log>,
}

pub(super) async fn of(
    rpc: &Rpc,
    chain: &EvmChain,
    address: Address,
    prepared: &Prepared,
) -> Result<TransactionState, ChainError> {
    let id = transaction_id(prepared)?;
    if let Some(state) = included(rpc, chain, address, id).await? {
        return Ok(state);
    }
    let nonce = prepared.nonce.ok_or_else(|| ChainError::Malformed("the prepared transaction has no nonce".into()))?;
    let newest: u64 = blocks::latest(rpc).await?.number.to();
    // A chain that is younger than the confirmations cannot say.
    if let Some(deep) = newest.checked_sub(chain.confirmations.saturating_sub(1)) {
        let next: U64 = rpc.ask("eth_getTransactionCount", json!([address, U64::from(deep)])).await?;
        if next > U64::from(nonce) {
            // It may have been included between the two questions.
            let state = included(rpc, chain, address, id).await?;
            let why = format!("another transaction took its nonce {nonce}, {} blocks deep", chain.confirmations);
            return Ok(state.unwrap_or(TransactionState::Dead { why }));
        }
    }
    let known: Option<Value> = rpc.ask("eth_getTransactionByHash", json!([id])).await?;
    Ok(if known.is_some() { TransactionState::Pending } else { TransactionState::Unknown })
}

/// The state by its receipt, if there is one.
async fn included(
    rpc: &Rpc,
    chain: &EvmChain,
    address: Address,
    id: B256,
) -> Result<Option<TransactionState>, ChainError> {
    let receipt: Option<Receipt> = rpc.ask("eth_getTransactionReceipt", json!([id])).await?;
    let Some(receipt) = receipt else { return Ok(None) };
    if receipt.transaction_hash != id {
        return Err(ChainError::Malformed("the receipt of another transaction".into()));
    }
    let block = Head { number: receipt.block_number.to(), hash: receipt.block_hash };
    blocks::still_there(rpc, block).await?;
    let newest: u64 = blocks::latest(rpc).await?.number.to();
    let gas = receipt.gas_used.to::<u128>().saturating_mul(receipt.effective_gas_price.saturating_to());
    let data = receipt.l1_fee.map_or(0, |fee| fee.saturating_to::<u128>());
    let feedback = receipt.logs.iter().filter(|log| log.address == chain.reputation);
    let index = feedback
        .filter_map(Log::decode::<Reputation::NewFeedback>)
        .find(|new| new.clientAddress == address)
        .map(|new| new.feedbackIndex);
    Ok(Some(TransactionState::Included {
        block: block.number,
        block_hash: block.hash.to_string(),
        confirmations: (newest + 1).saturating_sub(block.number),
        succeeded: receipt.status == U64::from(1),
        fee: gas.saturating_add(data),
        index,
    }))
}
