//! Our own feedback on the chain: whether an attestation was written already, however it got there.
//!
//! The registry's state tells value, tags and index; the document's hash stands in the logs alone. Where the logs cannot be read, our
//! newest feedback with the same value is taken for it: writing once too little costs nothing.

use alloy_primitives::{Address, B256, U256};
use alloy_sol_types::SolEvent;
use serde_json::json;

use super::{
    EvmChain, Rpc,
    abi::Reputation,
    blocks,
    logs::{is_range, logs},
    rpc::Block,
};
use crate::{ChainError, attest::Attestation};

/// Ranges of logs that are searched, from the newest block down.
const MAX_RANGES: usize = 64;

pub(super) async fn find(
    rpc: &Rpc,
    chain: &EvmChain,
    address: Address,
    attestation: &Attestation,
    document: B256,
) -> Result<Option<u64>, ChainError> {
    let agent = chain.agent_id(&attestation.subject)?;
    let newest: u64 = blocks::latest(rpc).await?.number.to();
    let last = Reputation::getLastIndexCall { agentId: agent, clientAddress: address };
    let last = rpc.call(chain.reputation, &last, Block::Latest).await?;
    if last == 0 {
        return Ok(None);
    }
    let call = Reputation::readAllFeedbackCall {
        agentId: agent,
        clientAddresses: vec![address],
        tag1: attestation.tag1.clone(),
        tag2: attestation.tag2.clone(),
        includeRevoked: false,
    };
    let read = rpc.call(chain.reputation, &call, Block::Latest).await?;
    let rows = read.clients.iter().zip(&read.indexes).zip(read.values.iter().zip(&read.decimals)).zip(&read.revoked);
    let mut candidates: Vec<u64> = rows
        .filter(|((_, (value, decimals)), revoked)| {
            **value == i128::from(attestation.value) && **decimals == attestation.decimals && !**revoked
        })
        .filter(|(((client, _), _), _)| **client == address)
        .map(|(((_, index), _), _)| *index)
        .collect();
    if candidates.is_empty() {
        return Ok(None);
    }
    let search = Search { rpc, chain, agent, address };
    if let Some(found) = search.document(&mut candidates, document, newest).await? {
        return Ok(Some(found));
    }
    // Those that are left could not be told from their logs.
    Ok(candidates.into_iter().find(|index| *index == last))
}

struct Search<'a> {
    rpc: &'a Rpc,
    chain: &'a EvmChain,
    agent: U256,
    address: Address,
}

impl Search<'_> {
    /// The candidate with the document. Candidates with another one are struck off.
    async fn document(
        &self,
        candidates: &mut Vec<u64>,
        document: B256,
        newest: u64,
    ) -> Result<Option<u64>, ChainError> {
        let client = B256::left_padding_from(self.address.as_slice());
        let topics = json!([Reputation::NewFeedback::SIGNATURE_HASH, B256::from(self.agent), client]);
        let (mut to, mut range) = (newest, self.chain.log_range.max(1));
        for _ in 0..MAX_RANGES {
            let from = to.saturating_sub(range - 1).max(self.chain.first_block.min(to));
            match logs(self.rpc, self.chain, json!([self.chain.reputation]), topics.clone(), from, to).await {
                Ok(found) => {
                    for new in found.iter().filter_map(|(_, log)| log.decode::<Reputation::NewFeedback>()) {
                        if new.feedbackHash == document && candidates.contains(&new.feedbackIndex) {
                            return Ok(Some(new.feedbackIndex));
                        }
                        candidates.retain(|index| *index != new.feedbackIndex);
                    }
                    if candidates.is_empty() || from <= self.chain.first_block {
                        break;
                    }
                    to = from - 1;
                }
                Err(refusal) if !is_range(&refusal) => return Err(refusal.into()),
                Err(_) if range == 1 => break,
                Err(_) => range = (range / 2).max(1),
            }
        }
        Ok(None)
    }
}
