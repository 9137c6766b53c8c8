//! Our own feedback for one agent, read back from our transactions.
//!
//! The registry keeps no feedback in its accounts, only digests. So the transactions of our address and those of the agent's account are
//! listed, and those in both are read. A list that is cut off tells nothing about what is older than its end; if both lists are cut off,
//! the search fails: taking "not found" for "not written" would pay twice.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::B256;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Pubkey, SolanaChain, instruction, instruction::Call, landed, message};
use crate::{ChainError, rpc::Rpc};

/// Transactions in one answer, and answers for one address.
const PAGE: usize = 1000;
const MAX_PAGES: usize = 5;
/// Transactions that are read.
const MAX_TRANSACTIONS: usize = 256;

/// Feedback of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) index: u64,
    pub(super) seal: B256,
    pub(super) revoked: bool,
}

/// Our feedback for `asset`, the newest first, up to the first for which `wanted` holds.
pub(super) async fn find(
    rpc: &Rpc,
    chain: &SolanaChain,
    client: Pubkey,
    asset: Pubkey,
    wanted: impl Fn(&Given) -> bool,
) -> Result<Option<Given>, ChainError> {
    let (ours, agents) = (list(rpc, client).await?, list(rpc, chain.agent_address(asset)?).await?);
    let candidates = in_both(&ours, &agents)
        .ok_or(ChainError::Limit { what: "the transactions to search", limit: (PAGE * MAX_PAGES) as u64 })?;
    if candidates.len() > MAX_TRANSACTIONS {
        return Err(ChainError::Limit { what: "our transactions with this agent", limit: MAX_TRANSACTIONS as u64 });
    }
    let mut revoked = BTreeSet::new();
    for signature in candidates {
        let landed = landed::transaction(rpc, signature).await?;
        let missing = || ChainError::Malformed("the node lists a transaction and does not have it".into());
        let landed = landed.ok_or_else(missing)?;
        let Some(transaction) = message::decode(&landed.bytes) else { continue };
        if transaction.payer != client {
            continue;
        }
        let calls = transaction.calls.iter().filter(|(program, ..)| *program == chain.registry);
        for call in calls.filter_map(|(_, accounts, data)| instruction::decode(accounts, data)) {
            match call {
                Call::Revoke { asset: of, index } if of == asset => drop(revoked.insert(index)),
                Call::Give { asset: of, seal } if of == asset => {
                    let mut events = landed.feedback.iter();
                    let event = events.find(|new| (new.asset, new.client, new.seal) == (asset, client, seal));
                    let index = event.map(|event| event.index);
                    let missing = || ChainError::Malformed("the node shows a feedback of ours without its log".into());
                    let index = index.ok_or_else(missing)?;
                    let given = Given { index, seal, revoked: revoked.contains(&index) };
                    if wanted(&given) {
                        return Ok(Some(given));
                    }
                }
                _ => {}
            }
        }
    }
    Ok(None)
}

/// Transactions of an address that succeeded, the newest first.
struct Listing {
    /// Signature and slot.
    found: Vec<(String, u64)>,
    complete: bool,
}

#[derive(Deserialize)]
struct Entry {
    signature: String,
    slot: u64,
    err: Option<Value>,
}

async fn list(rpc: &Rpc, address: Pubkey) -> Result<Listing, ChainError> {
    let (mut found, mut before) = (Vec::new(), None::<String>);
    for _ in 0..MAX_PAGES {
        let mut options = json!({"limit": PAGE, "commitment": "confirmed"});
        if let Some(before) = &before {
            options["before"] = json!(before);
        }
        let page: Vec<Entry> = rpc.ask("getSignaturesForAddress", json!([address, options])).await?;
        let last = page.len() < PAGE;
        before = page.last().map(|entry| entry.signature.clone());
        found.extend(page.into_iter().filter(|entry| entry.err.is_none()).map(|entry| (entry.signature, entry.slot)));
        if last {
            return Ok(Listing { found, complete: true });
        }
    }
    Ok(Listing { found, complete: false })
}

/// Signatures that may be in both lists. `None` if neither is complete.
fn in_both<'a>(ours: &'a Listing, agents: &'a Listing) -> Option<Vec<&'a str>> {
    let (whole, other) = match (ours.complete, agents.complete) {
        (true, _) => (ours, agents),
        (false, true) => (agents, ours),
        (false, false) => return None,
    };
    let known: BTreeMap<&str, u64> = other.found.iter().map(|(signature, slot)| (signature.as_str(), *slot)).collect();
    let end = if other.complete { None } else { other.found.last().map(|(_, slot)| *slot).or(Some(u64::MAX)) };
    let may_be = |(signature, slot): &&(String, u64)| {
        known.contains_key(signature.as_str()) || end.is_some_and(|end| *slot <= end)
    };
    Some(whole.found.iter().filter(may_be).map(|(signature, _)| signature.as_str()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(found: &[(&str, u64)], complete: bool) -> Listing {
        Listing { found: found.iter().map(|(signature, slot)| ((*signature).to_owned(), *slot)).collect(), complete }
    }

    #[test]
    fn what_a_cut_list_does_not_reach_stays_possible() {
        let ours = [("d", 40), ("b", 20), ("a", 10)];
        let agents = [("e", 50), ("d", 40), ("a", 10)];
        let (ours, whole) = (listing(&ours, true), listing(&agents, true));
        assert_eq!(in_both(&ours, &whole).unwrap(), ["d", "a"]);
        let cut = listing(&agents[..2], false);
        assert_eq!(in_both(&ours, &cut).unwrap(), ["d", "b", "a"]);
        assert_eq!(in_both(&cut, &ours).unwrap(), ["d", "b", "a"]);
        assert_eq!(in_both(&ours, &listing(&[], false)).unwrap(), ["d", "b", "a"]);
        assert_eq!(in_both(&cut, &listing(&agents, false)), None);
    }
}
