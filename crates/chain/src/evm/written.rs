//! The feedback that a transaction wrote to an ERC-8004 registry.

use alloy_primitives::{Address, B256, U64, hex};
use credence_protocol::ExternalSubject;
use serde::Deserialize;
use serde_json::json;

use super::{EvmChain, Head, Rpc, abi::Reputation, blocks, chain::lower, logs::Log, rpc::Block};
use crate::{ChainError, Written};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Receipt {
    transaction_hash: B256,
    block_number: U64,
    block_hash: B256,
    status: U64,
    logs: Vec<Log>,
}

/// The feedback that a transaction wrote. `registry`: the reputation registry, where it is not at its well-known address; events of
/// other contracts count for nothing, because anyone can write such a contract.
pub(crate) async fn by_transaction(
    rpc: &Rpc,
    registry: Option<&str>,
    transaction: &str,
) -> Result<Written, ChainError> {
    let no_hash = |_| ChainError::Malformed("a transaction is named by 0x and 64 hexadecimal digits".into());
    let id: B256 = transaction.parse().map_err(no_hash)?;
    let chain_id: U64 = rpc.ask("eth_chainId", json!([])).await?;
    let chain = EvmChain::new(chain_id.to());
    let no_address = |_| ChainError::Malformed("a registry is named by 0x and 40 hexadecimal digits".into());
    let registry: Address = match registry {
        Some(text) => text.parse().map_err(no_address)?,
        None => chain.reputation,
    };
    let receipt: Option<Receipt> = rpc.ask("eth_getTransactionReceipt", json!([id])).await?;
    let absent = || ChainError::Malformed(format!("{} has no such transaction in a block", chain.caip2()));
    let receipt = receipt.filter(|receipt| receipt.transaction_hash == id).ok_or_else(absent)?;
    if receipt.status != U64::from(1) {
        return Err(ChainError::Malformed("the transaction failed: it wrote nothing".into()));
    }
    blocks::still_there(rpc, Head { number: receipt.block_number.to(), hash: receipt.block_hash }).await?;
    let mut events = receipt.logs.iter().filter(|log| log.address == registry);
    let nothing = || {
        let registry = lower(registry);
        ChainError::Malformed(format!("the transaction wrote no feedback to the registry {registry}"))
    };
    let new = events.find_map(Log::decode::<Reputation::NewFeedback>).ok_or_else(nothing)?;
    let identity = rpc.call(registry, &Reputation::getIdentityRegistryCall {}, Block::Latest).await?;
    let call = Reputation::readFeedbackCall {
        agentId: new.agentId,
        clientAddress: new.clientAddress,
        feedbackIndex: new.feedbackIndex,
    };
    let stored = rpc.call(registry, &call, Block::Latest).await?;
    if (stored.value, stored.valueDecimals) != (new.value, new.valueDecimals) {
        return Err(ChainError::Malformed("the registry holds another value than the transaction wrote".into()));
    }
    let subject = format!("erc8004:{}:{}/{}", chain.caip2(), lower(identity), new.agentId);
    let newest: u64 = blocks::latest(rpc).await?.number.to();
    let block: u64 = receipt.block_number.to();
    Ok(Written {
        chain: chain.caip2(),
        registry: lower(registry),
        subject: ExternalSubject::parse(&subject)
            .map_err(|_| ChainError::Malformed("the registration has no id that can be written".into()))?,
        by: lower(new.clientAddress),
        index: new.feedbackIndex,
        value: new.value,
        decimals: new.valueDecimals,
        tags: [new.tag1, new.tag2],
        uri: new.feedbackURI,
        document: hex::encode(new.feedbackHash),
        block,
        confirmations: (newest + 1).saturating_sub(block),
        revoked: stored.isRevoked,
        seal: None,
    })
}
