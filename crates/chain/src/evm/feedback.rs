//! Feedback about one agent, read from the registry's state at one block: `getClients`, then `readAllFeedback` for some clients at a time.
//!
//! Part of the clients at a time, because a call that returns thousands of rows runs into a node's gas or size limit. A part that is
//! refused is halved; a single client whose rows cannot be read at once is read by its newest rows alone, which is all that counts.

use std::collections::BTreeSet;

use alloy_primitives::{Address, U256};

use super::{
    EvmChain, Head, Rpc,
    abi::Reputation,
    rpc::{Block, Refusal},
};
use crate::ChainError;

/// Clients in one call.
const CLIENTS_AT_ONCE: usize = 200;
/// Clients of one agent.
const MAX_CLIENTS: usize = 50_000;
/// Refused parts after which the node is not asked on.
const MAX_REFUSALS: usize = 256;
/// Newest rows that are read of a client who gave more than can be read at once.
const NEWEST_OF_A_FLOOD: u64 = 16;
/// Our own feedback, from any address: it would be our score that comes back as evidence for itself.
const OWN_TAG: &str = "credence";

/// What a tag measures. Others mean nothing here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Topic {
    /// `starred`, 0 to 100.
    Starred,
    /// `uptime`, a percentage.
    Uptime,
    /// `successRate`, a percentage.
    SuccessRate,
}

impl Topic {
    pub(super) const ALL: [Self; 3] = [Self::Starred, Self::Uptime, Self::SuccessRate];

    fn of(tag1: &str) -> Option<Self> {
        match tag1 {
            "starred" => Some(Self::Starred),
            "uptime" => Some(Self::Uptime),
            "successRate" => Some(Self::SuccessRate),
            _ => None,
        }
    }
}

/// One feedback that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) client: Address,
    /// From 1, by client.
    pub(super) index: u64,
    pub(super) value: i128,
    pub(super) decimals: u8,
    pub(super) topic: Topic,
}

/// All feedback of an agent.
#[derive(Debug, Default)]
pub(super) struct Feedback {
    /// By client and index.
    pub(super) given: Vec<Given>,
    /// Clients, without those left out.
    pub(super) clients: usize,
    /// Rows that were read, whatever their tag.
    pub(super) rows: usize,
    /// Whether some client was read by its newest rows alone.
    pub(super) flooded: bool,
}

/// Reads all feedback but that of `left_out`.
pub(super) async fn read(
    rpc: &Rpc,
    chain: &EvmChain,
    agent: U256,
    head: Head,
    left_out: &BTreeSet<Address>,
) -> Result<Feedback, ChainError> {
    let at = Block::Hash(head.hash);
    let clients = rpc.call(chain.reputation, &Reputation::getClientsCall { agentId: agent }, at).await?;
    if clients.len() > MAX_CLIENTS {
        return Err(ChainError::Limit { what: "the number of clients", limit: MAX_CLIENTS as u64 });
    }
    let clients: BTreeSet<Address> = clients.into_iter().filter(|client| !left_out.contains(client)).collect();
    let clients: Vec<Address> = clients.into_iter().collect();
    let mut feedback = Feedback { clients: clients.len(), ..Feedback::default() };
    let mut parts: Vec<&[Address]> = clients.chunks(CLIENTS_AT_ONCE).rev().collect();
    let mut refusals = 0;
    while let Some(part) = parts.pop() {
        match rows(rpc, chain, agent, at, part, &mut feedback).await {
            Ok(()) => {}
            Err(refusal) if !may_be_size(&refusal) || refusals == MAX_REFUSALS => return Err(refusal.into()),
            Err(_) => {
                refusals += 1;
                match part {
                    [client] => newest(rpc, chain, agent, at, *client, &mut feedback).await?,
                    many => {
                        let (first, second) = many.split_at(many.len() / 2);
                        parts.extend([second, first]);
                    }
                }
            }
        }
    }
    feedback.given.sort_unstable_by_key(|given| (given.client, given.index));
    Ok(feedback)
}

/// Whether a smaller question may be answered.
fn may_be_size(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::TooMuch(_) => true,
        Refusal::Node(error) => !error.is_rate_limit(),
        Refusal::Chain(_) => false,
    }
}

/// All rows of some clients.
async fn rows(
    rpc: &Rpc,
    chain: &EvmChain,
    agent: U256,
    at: Block,
    clients: &[Address],
    feedback: &mut Feedback,
) -> Result<(), Refusal> {
    let call = Reputation::readAllFeedbackCall {
        agentId: agent,
        clientAddresses: clients.to_vec(),
        tag1: String::new(),
        tag2: String::new(),
        includeRevoked: false,
    };
    let read = rpc.call(chain.reputation, &call, at).await?;
    let count = read.clients.len();
    let lengths = [
        read.indexes.len(),
        read.values.len(),
        read.decimals.len(),
        read.tag1s.len(),
        read.tag2s.len(),
        read.revoked.len(),
    ];
    if lengths.iter().any(|length| *length != count) {
        return Err(ChainError::Malformed("readAllFeedback returned lists of different lengths".into()).into());
    }
    feedback.rows += count;
    for row in 0..count {
        if clients.binary_search(&read.clients[row]).is_err() {
            return Err(ChainError::Malformed("readAllFeedback returned a client that was not asked for".into()).into());
        }
        let given = Row {
            client: read.clients[row],
            index: read.indexes[row],
            value: read.values[row],
            decimals: read.decimals[row],
            tag1: &read.tag1s[row],
            tag2: &read.tag2s[row],
            revoked: read.revoked[row],
        };
        feedback.given.extend(given.counted());
    }
    Ok(())
}

/// The newest rows of one client.
async fn newest(
    rpc: &Rpc,
    chain: &EvmChain,
    agent: U256,
    at: Block,
    client: Address,
    feedback: &mut Feedback,
) -> Result<(), ChainError> {
    feedback.flooded = true;
    let last = Reputation::getLastIndexCall { agentId: agent, clientAddress: client };
    let last = rpc.call(chain.reputation, &last, at).await?;
    let first = last.saturating_sub(NEWEST_OF_A_FLOOD) + 1;
    for index in first..=last {
        let call = Reputation::readFeedbackCall { agentId: agent, clientAddress: client, feedbackIndex: index };
        let read = rpc.call(chain.reputation, &call, at).await?;
        feedback.rows += 1;
        let (value, decimals, revoked) = (read.value, read.valueDecimals, read.isRevoked);
        let row = Row { client, index, value, decimals, tag1: &read.tag1, tag2: &read.tag2, revoked };
        feedback.given.extend(row.counted());
    }
    Ok(())
}

struct Row<'a> {
    client: Address,
    index: u64,
    value: i128,
    decimals: u8,
    tag1: &'a str,
    tag2: &'a str,
    revoked: bool,
}

impl Row<'_> {
    fn counted(self) -> Option<Given> {
        let own = [self.tag1, self.tag2].iter().any(|tag| tag.eq_ignore_ascii_case(OWN_TAG));
        let topic = Topic::of(self.tag1).filter(|_| !own && !self.revoked)?;
        Some(Given { client: self.client, index: self.index, value: self.value, decimals: self.decimals, topic })
    }
}
