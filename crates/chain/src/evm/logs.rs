//! What only logs tell: who rated which agents, where feedback files are, when a registration changed hands.
//!
//! One book for all agents of a chain, grown range by range up to the block that readings are made at. The hash of a range's last
//! block commits to everything under it: it is the same before and after the range was read, or the range is read again. Marks of
//! earlier ranges are kept; if a block under the newest mark changed, what came after the last mark that still holds is forgotten and
//! read again.

use std::collections::{BTreeMap, VecDeque};

use alloy_primitives::{Address, B256, Bytes, LogData, U64, U256};
use alloy_sol_types::SolEvent;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    EvmChain, Head, Rpc,
    abi::{Identity, Reputation},
    blocks,
    rpc::Refusal,
};
use crate::ChainError;

/// Marks that are kept.
const MAX_MARKS: usize = 64;
/// Events that are kept, about 300 MB without addresses of files.
const MAX_EVENTS: usize = 2_000_000;
/// Bytes of a feedback file's address; longer ones are forgotten, and the feedback counts without its file.
const MAX_URI_BYTES: usize = 2048;
/// Bytes of all such addresses. Those beyond are forgotten like longer ones: anyone can write as many as they pay for.
const MAX_ALL_URI_BYTES: usize = 64 * 1024 * 1024;
/// Ranges in a row that went well, after which a larger one is tried.
const STREAK: u32 = 8;

/// What the logs of a chain's registries said up to some block.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LogBook {
    /// The last block of each range, oldest first.
    marks: VecDeque<(u64, B256)>,
    agents: BTreeMap<U256, Vec<Event>>,
    /// By client, the agents it rated and the block of the first time.
    raters: BTreeMap<Address, BTreeMap<U256, u64>>,
    events: usize,
    /// Bytes of the addresses of feedback files.
    #[serde(default)]
    uri_bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Event {
    block: u64,
    what: What,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum What {
    Transfer,
    UriUpdate,
    Feedback { client: Address, index: u64, uri: Option<String>, hash: B256 },
}

impl What {
    fn uri_bytes(&self) -> usize {
        match self {
            Self::Feedback { uri: Some(uri), .. } => uri.len(),
            _ => 0,
        }
    }
}

/// How often a registration changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Changes {
    pub(super) transfers: u32,
    pub(super) uri_updates: u32,
}

/// A log, as nodes answer it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Log {
    pub(super) address: Address,
    topics: Vec<B256>,
    data: Bytes,
    block_number: Option<U64>,
    #[serde(default)]
    removed: bool,
}

impl Log {
    /// The log as an event of this kind, if it is one.
    pub(super) fn decode<E: SolEvent>(&self) -> Option<E> {
        let data = LogData::new(self.topics.clone(), self.data.clone())?;
        E::decode_log_data_validate(&data).ok()
    }
}

impl LogBook {
    /// An empty book.
    pub fn new() -> Self {
        Self::default()
    }

    /// The last block that was read.
    pub fn read_to(&self) -> Option<Head> {
        self.marks.back().map(|(number, hash)| Head { number: *number, hash: *hash })
    }

    /// Reads on up to `head`. What was read of it stays after an error, and the next call goes on from there.
    pub(super) async fn advance(&mut self, rpc: &Rpc, chain: &EvmChain, head: Head) -> Result<(), ChainError> {
        self.rewind(rpc, head).await?;
        let mut from = self.read_to().map_or(chain.first_block, |mark| mark.number + 1);
        let (mut range, mut streak) = (chain.log_range.max(1), 0);
        while from <= head.number {
            let to = head.number.min(from.saturating_add(range - 1));
            let end = if to == head.number { Some(head) } else { blocks::by_number(rpc, to).await? };
            let end = end.ok_or(ChainError::Reorganised)?;
            match logs(rpc, chain, json!([chain.identity, chain.reputation]), json!([topics()]), from, to).await {
                Ok(found) => {
                    blocks::still_there(rpc, end).await?;
                    self.take(chain, &found)?;
                    self.mark(end);
                    from = to + 1;
                    streak += 1;
                    if streak == STREAK {
                        (range, streak) = (range.saturating_mul(2).min(chain.log_range.max(1)), 0);
                    }
                }
                Err(refusal) if !is_range(&refusal) => return Err(refusal.into()),
                Err(_) if range == 1 => return Err(ChainError::RangeRefused),
                Err(_) => (range, streak) = ((to - from).div_ceil(2).max(1), 0),
            }
        }
        Ok(())
    }

    /// Forgets what is not part of the chain any more, and what is newer than `head`.
    async fn rewind(&mut self, rpc: &Rpc, head: Head) -> Result<(), ChainError> {
        // Nothing is forgotten before it is known what to keep: a question that is given up half way leaves the book whole.
        let mut keep = self.marks.len();
        while let Some((number, hash)) = keep.checked_sub(1).and_then(|last| self.marks.get(last)).copied() {
            let mark = Head { number, hash };
            let there = match mark.number.cmp(&head.number) {
                std::cmp::Ordering::Less => blocks::by_number(rpc, mark.number).await? == Some(mark),
                std::cmp::Ordering::Equal => mark == head,
                std::cmp::Ordering::Greater => false,
            };
            if there {
                break;
            }
            keep -= 1;
        }
        if keep < self.marks.len() {
            self.marks.truncate(keep);
            let last = self.read_to().map(|mark| mark.number);
            let kept = |block: u64| last.is_some_and(|last| block <= last);
            self.agents.values_mut().for_each(|events| events.retain(|event| kept(event.block)));
            self.agents.retain(|_, events| !events.is_empty());
            self.raters.values_mut().for_each(|rated| rated.retain(|_, block| kept(*block)));
            self.raters.retain(|_, rated| !rated.is_empty());
            self.events = self.agents.values().map(Vec::len).sum();
            self.uri_bytes = self.agents.values().flatten().map(|event| event.what.uri_bytes()).sum();
        }
        Ok(())
    }

    fn mark(&mut self, end: Head) {
        self.marks.push_back((end.number, end.hash));
        if self.marks.len() > MAX_MARKS {
            self.marks.pop_front();
        }
    }

    fn take(&mut self, chain: &EvmChain, found: &[(u64, Log)]) -> Result<(), ChainError> {
        if self.events + found.len() > MAX_EVENTS {
            return Err(ChainError::Limit { what: "the number of logs", limit: MAX_EVENTS as u64 });
        }
        for (block, log) in found {
            let Some((agent, mut what)) = event(chain, log) else { continue };
            if let What::Feedback { client, uri, .. } = &mut what {
                self.raters.entry(*client).or_default().entry(agent).or_insert(*block);
                let bytes = self.uri_bytes + uri.as_ref().map_or(0, String::len);
                if bytes > MAX_ALL_URI_BYTES {
                    *uri = None;
                } else {
                    self.uri_bytes = bytes;
                }
            }
            self.agents.entry(agent).or_default().push(Event { block: *block, what });
            self.events += 1;
        }
        Ok(())
    }

    /// How often a registration changed hands or files.
    pub(super) fn changes(&self, agent: U256) -> Changes {
        let mut changes = Changes::default();
        for event in self.agents.get(&agent).into_iter().flatten() {
            match event.what {
                What::Transfer => changes.transfers += 1,
                What::UriUpdate => changes.uri_updates += 1,
                What::Feedback { .. } => {}
            }
        }
        changes
    }

    /// How many other agents a client rated.
    pub(super) fn others(&self, client: Address, agent: U256) -> usize {
        self.raters.get(&client).map_or(0, |rated| rated.len() - usize::from(rated.contains_key(&agent)))
    }

    /// The file of a feedback: its address and hash.
    pub(super) fn file(&self, agent: U256, client: Address, index: u64) -> Option<(&str, B256)> {
        self.agents.get(&agent)?.iter().find_map(|event| match &event.what {
            What::Feedback { client: by, index: at, uri: Some(uri), hash } if *by == client && *at == index => {
                Some((uri.as_str(), *hash))
            }
            _ => None,
        })
    }
}

fn topics() -> [B256; 3] {
    [Identity::Transfer::SIGNATURE_HASH, Identity::URIUpdated::SIGNATURE_HASH, Reputation::NewFeedback::SIGNATURE_HASH]
}

/// An event that matters, and its agent. The transfer by which an agent is created is none.
fn event(chain: &EvmChain, log: &Log) -> Option<(U256, What)> {
    if log.address == chain.reputation {
        let new: Reputation::NewFeedback = log.decode()?;
        let uri = Some(new.feedbackURI).filter(|uri| !uri.is_empty() && uri.len() <= MAX_URI_BYTES);
        let (client, index, hash) = (new.clientAddress, new.feedbackIndex, new.feedbackHash);
        return Some((new.agentId, What::Feedback { client, index, uri, hash }));
    }
    if let Some(transfer) = log.decode::<Identity::Transfer>() {
        let changed = !transfer.from.is_zero() && transfer.from != transfer.to;
        return changed.then_some((transfer.tokenId, What::Transfer));
    }
    log.decode::<Identity::URIUpdated>().map(|update| (update.agentId, What::UriUpdate))
}

/// Whether a smaller range may be answered.
pub(super) fn is_range(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::TooMuch(_) => true,
        Refusal::Node(error) => !error.is_rate_limit(),
        Refusal::Chain(_) => false,
    }
}

/// The logs of a range with their blocks, in the chain's order.
pub(super) async fn logs(
    rpc: &Rpc,
    chain: &EvmChain,
    addresses: serde_json::Value,
    topics: serde_json::Value,
    from: u64,
    to: u64,
) -> Result<Vec<(u64, Log)>, Refusal> {
    let filter =
        json!([{"address": addresses, "topics": topics, "fromBlock": U64::from(from), "toBlock": U64::from(to)}]);
    let found: Vec<Log> = rpc.ask("eth_getLogs", filter).await?;
    let other = || Refusal::Chain(ChainError::Malformed("eth_getLogs returned a log that was not asked for".into()));
    let mut logs = Vec::with_capacity(found.len());
    for log in found.into_iter().filter(|log| !log.removed) {
        let block = log.block_number.map(|block| block.to::<u64>()).filter(|block| (from..=to).contains(block));
        let block = block.ok_or_else(other)?;
        if log.address != chain.identity && log.address != chain.reputation {
            return Err(other());
        }
        logs.push((block, log));
    }
    Ok(logs)
}

#[cfg(test)]
mod tests {
    use alloy_sol_types::SolEvent;

    use super::*;

    fn feedback(chain: &EvmChain, index: u64, uri: &str) -> (u64, Log) {
        let event = Reputation::NewFeedback {
            agentId: U256::ZERO,
            clientAddress: Address::repeat_byte(7),
            feedbackIndex: index,
            value: 1,
            valueDecimals: 0,
            indexedTag1: B256::ZERO,
            tag1: String::new(),
            tag2: String::new(),
            endpoint: String::new(),
            feedbackURI: uri.into(),
            feedbackHash: B256::ZERO,
        };
        let data = event.encode_log_data();
        let (topics, block_number) = (data.topics().to_vec(), Some(U64::from(index)));
        (index, Log { address: chain.reputation, topics, data: data.data, block_number, removed: false })
    }

    #[test]
    fn addresses_of_files_are_kept_up_to_a_limit_and_feedback_counts_without() {
        let (chain, client) = (EvmChain::new(1), Address::repeat_byte(7));
        let mut book = LogBook::new();
        book.take(&chain, &[feedback(&chain, 1, "https://a.example/1")]).unwrap();
        assert_eq!(book.uri_bytes, 19);
        book.uri_bytes = MAX_ALL_URI_BYTES - 19;
        let more = [2, 3].map(|index| feedback(&chain, index, "https://a.example/1"));
        book.take(&chain, &more).unwrap();
        let known = |index| book.file(U256::ZERO, client, index).map(|(uri, _)| uri);
        assert_eq!([known(1), known(2), known(3)].map(|uri| uri.is_some()), [true, true, false]);
        assert_eq!((book.uri_bytes, book.events), (MAX_ALL_URI_BYTES, 3));
        let long = feedback(&chain, 4, &"u".repeat(MAX_URI_BYTES + 1));
        book.take(&chain, &[long]).unwrap();
        assert_eq!(book.events, 4);
        book.events = MAX_EVENTS;
        let full = book.take(&chain, &more).unwrap_err();
        assert!(matches!(full, ChainError::Limit { .. }), "{full}");
    }
}
