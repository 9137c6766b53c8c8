//! Proofs of payment: a feedback file may name the transaction by which the client paid the agent (`proofOfPayment`).
//!
//! A proof counts if the file is the one whose Keccak hash is on the chain, it names the client as payer and the agent's owner or wallet as
//! payee on this chain, and the transaction, at or under the block that is read, did pay: the chain's own coin, or a token of
//! the operator's list (anyone can deploy a token that says it moved). One transaction proves one payment.

use std::collections::BTreeSet;

use alloy_primitives::{Address, B256, U64, U256, keccak256};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    EvmChain, Head, Rpc,
    abi::Erc20,
    logs::{Log, LogBook},
    raters::Voice,
};
use crate::registration::{self, Hosts};

/// Feedback files that are read for one agent.
const MAX_FILES: usize = 16;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Proof {
    from_address: Address,
    to_address: Address,
    chain_id: Value,
    tx_hash: B256,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Paid {
    status: U64,
    block_number: U64,
    logs: Vec<Log>,
}

#[derive(Deserialize)]
struct Coin {
    from: Address,
    to: Option<Address>,
    value: U256,
}

/// Marks the voices whose payment is proved. What cannot be read proves nothing and is no error.
pub(super) async fn prove(
    rpc: &Rpc,
    chain: &EvmChain,
    book: &LogBook,
    agent: (U256, &[Address]),
    head: Head,
    hosts: Hosts<'_>,
    voices: &mut [Voice],
) {
    let (id, payees) = agent;
    let mut used = BTreeSet::new();
    let mut files = 0;
    for voice in voices {
        let Some((uri, hash)) = book.file(id, voice.client, voice.index) else { continue };
        files += 1;
        if files > MAX_FILES {
            break;
        }
        let Ok(file) = registration::fetch(rpc.egress(), chain.ipfs_gateway.as_ref(), uri, hosts).await else {
            continue;
        };
        if keccak256(&file.bytes) != hash {
            continue;
        }
        let document: Option<Value> = serde_json::from_slice(&file.bytes).ok();
        let proof = document.and_then(|document| serde_json::from_value(document.get("proofOfPayment")?.clone()).ok());
        let Some(proof): Option<Proof> = proof else { continue };
        let named = proof.from_address == voice.client && payees.contains(&proof.to_address);
        if named
            && is_chain(&proof.chain_id, chain.id)
            && !used.contains(&proof.tx_hash)
            && paid(rpc, chain, &proof, head).await
        {
            used.insert(proof.tx_hash);
            voice.paid = true;
        }
    }
}

/// A chain's id, as a number or in decimal.
fn is_chain(named: &Value, id: u64) -> bool {
    named.as_u64() == Some(id) || named.as_str() == Some(&id.to_string())
}

async fn paid(rpc: &Rpc, chain: &EvmChain, proof: &Proof, head: Head) -> bool {
    let receipt: Result<Option<Paid>, _> = rpc.ask("eth_getTransactionReceipt", json!([proof.tx_hash])).await;
    let Ok(Some(receipt)) = receipt else { return false };
    if receipt.status != U64::from(1) || receipt.block_number > U64::from(head.number) {
        return false;
    }
    let by_token = receipt.logs.iter().filter(|log| chain.payment_tokens.contains(&log.address)).any(|log| {
        log.decode::<Erc20::Transfer>().is_some_and(|transfer| {
            transfer.from == proof.from_address && transfer.to == proof.to_address && !transfer.value.is_zero()
        })
    });
    if by_token {
        return true;
    }
    let coin: Result<Option<Coin>, _> = rpc.ask("eth_getTransactionByHash", json!([proof.tx_hash])).await;
    matches!(coin, Ok(Some(coin)) if coin.from == proof.from_address && coin.to == Some(proof.to_address) && !coin.value.is_zero())
}
