//! Reading one agent: its registration and what ATOM says of it, both from one final slot.
//!
//! `user_feedback = quality / 100`, with `σ = 5 + 30 · (1 − confidence / 10,000)`: what ATOM is not sure of says little. An agent
//! without scored feedback has no reputation, which is not zero. Feedback of ours carries no score, so that ATOM does not count it and we
//! do not read ourselves.

use std::collections::BTreeSet;

use credence_protocol::{ExternalSubject, Tag};
use serde_json::{Map, json};

use super::{
    AgentAccount, AtomStats, Pubkey, SolanaChain,
    accounts::FULL,
    node::{self, Commitment},
};
use crate::{
    ChainError,
    reading::{Measured, Note, Reading, Registered, Registration},
    registration::{self, Hosts},
    rpc::Rpc,
};

const LEAST_STDDEV: f64 = 5.0;
const DOUBT_STDDEV: f64 = 30.0;

/// The final block that readings are made at, or after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SolanaHead {
    /// Its slot.
    pub slot: u64,
    /// Its hash, which has the form of an address.
    pub blockhash: Pubkey,
}

/// Reads one cluster's registry.
#[derive(Debug, Clone)]
pub struct SolanaReader {
    rpc: Rpc,
    chain: SolanaChain,
}

impl SolanaReader {
    /// Reads `chain` from the node at `rpc`.
    pub fn new(rpc: Rpc, chain: SolanaChain) -> Self {
        Self { rpc, chain }
    }

    /// The chain that is read.
    pub fn chain(&self) -> &SolanaChain {
        &self.chain
    }

    /// The newest final block. Fails unless the node serves the configured cluster and is in step with it. `now` in seconds since 1970.
    pub async fn head(&self, now: u64) -> Result<SolanaHead, ChainError> {
        node::check_chain(&self.rpc, &self.chain).await?;
        let (slot, newest) = node::blockhash(&self.rpc, Commitment::Finalized).await?;
        let time: Option<u64> = self.rpc.ask("getBlockTime", json!([slot])).await?;
        let time = time.ok_or_else(|| ChainError::Malformed("the node's newest block has no time".into()))?;
        let age_seconds = now.saturating_sub(time);
        if age_seconds > self.chain.max_head_age {
            return Err(ChainError::StaleHead { age_seconds });
        }
        Ok(SolanaHead { slot, blockhash: newest.blockhash })
    }

    /// Who holds a registration and where its file is, in a final block. `now` in seconds since 1970.
    pub async fn registered(&self, subject: &ExternalSubject, now: u64) -> Result<Registered, ChainError> {
        let asset = self.chain.asset(subject)?;
        let head = self.head(now).await?;
        let address = [self.chain.agent_address(asset)?];
        let (_, accounts) = node::accounts(&self.rpc, &address, Commitment::Finalized, head.slot).await?;
        let account = accounts.into_iter().next().flatten();
        let account = account.ok_or_else(|| ChainError::NoSuchAgent(subject.id().to_owned()))?;
        let agent = AgentAccount::parse(&account, self.chain.registry, asset)?;
        let registry = format!("{}:{}", self.chain.caip2(), self.chain.registry);
        Ok(Registered { registry, owner: agent.owner.to_string(), uri: agent.uri })
    }

    /// Reads one agent at `head` or after it: a node keeps no state of the past. `hosts` tells which hosts have a proven link with the
    /// agent. `context_slot` among a signal's numbers is the slot that the accounts are from.
    pub async fn read(
        &self,
        subject: &ExternalSubject,
        head: SolanaHead,
        hosts: Hosts<'_>,
    ) -> Result<Reading, ChainError> {
        let asset = self.chain.asset(subject)?;
        let addresses = [self.chain.agent_address(asset)?, self.chain.stats_address(asset)?];
        let (slot, accounts) = node::accounts(&self.rpc, &addresses, Commitment::Finalized, head.slot).await?;
        let mut accounts = accounts.into_iter();
        let agent = accounts.next().flatten().ok_or_else(|| ChainError::NoSuchAgent(subject.id().to_owned()))?;
        let agent = AgentAccount::parse(&agent, self.chain.registry, asset)?;
        let stats = accounts.next().flatten();
        let stats = stats.map(|account| AtomStats::parse(&account, self.chain.atom, asset)).transpose()?;
        let mut reading = Reading {
            subject: subject.clone(),
            root: self.chain.root(),
            block: head.slot,
            block_hash: head.blockhash.to_string(),
            registration: None,
            signals: Vec::new(),
            notes: BTreeSet::new(),
        };
        match stats.filter(|stats| stats.feedback_count > 0) {
            Some(stats) => reading.signals.extend(reputation(&stats)),
            None => drop(reading.notes.insert(Note::NoStatistics)),
        }
        let registration = Registration {
            chain: self.chain.caip2().to_owned(),
            owner: Some(agent.owner.to_string()),
            wallet: agent.wallet.map(|wallet| wallet.to_string()),
            ..Registration::default()
        };
        let asked = registration::Asked {
            egress: self.rpc.egress(),
            gateway: self.chain.ipfs_gateway.as_ref(),
            uri: &agent.uri,
            own: &self.chain.registration(asset),
            hosts,
        };
        registration::read(&asked, registration, &mut reading).await;
        for signal in &mut reading.signals {
            signal.numbers.insert("block".into(), json!(head.slot));
            signal.numbers.insert("block_hash".into(), json!(head.blockhash));
            signal.numbers.insert("context_slot".into(), json!(slot));
        }
        Ok(reading)
    }
}

fn reputation(stats: &AtomStats) -> Option<Measured> {
    let confidence = f64::from(stats.confidence) / f64::from(FULL);
    let numbers = Map::from_iter([
        ("quality".to_owned(), json!(stats.quality)),
        ("confidence".to_owned(), json!(stats.confidence)),
        ("risk".to_owned(), json!(stats.risk)),
        ("diversity".to_owned(), json!(stats.diversity)),
        ("tier".to_owned(), json!(stats.tier)),
        ("feedbacks".to_owned(), json!(stats.feedback_count)),
        ("schema".to_owned(), json!(stats.schema)),
    ]);
    let (value, stddev) = (f64::from(stats.quality) / 100.0, LEAST_STDDEV + DOUBT_STDDEV * (1.0 - confidence));
    Tag::new("user_feedback").ok().map(|tag| Measured { tag, value, stddev, numbers })
}
