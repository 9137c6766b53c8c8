//! Reading one agent: everything at one block, and nothing if that block is gone at the end.

use std::collections::BTreeSet;

use alloy_primitives::{Address, U256};
use credence_protocol::{ExternalSubject, Tag};
use futures_util::future::{OptionFuture, join, join3};
use serde_json::{Map, json};

use super::{
    EvmChain, Head, LogBook, Rpc,
    abi::{Identity, Reputation},
    blocks,
    chain::lower,
    continuity,
    feedback::{self, Feedback, Topic},
    payments, raters,
    rpc::{Block, Refusal},
};
use crate::{
    ChainError,
    reading::{Measured, Note, Reading, Registered, Registration},
    registration::{self, Hosts},
};

/// Reads one chain's registries.
#[derive(Debug, Clone)]
pub struct EvmReader {
    rpc: Rpc,
    chain: EvmChain,
}

/// What the registry itself says of an agent.
struct Entry {
    id: U256,
    owner: Address,
    wallet: Option<Address>,
    uri: String,
}

impl EvmReader {
    /// Reads `chain` from the node at `rpc`.
    pub fn new(rpc: Rpc, chain: EvmChain) -> Self {
        Self { rpc, chain }
    }

    /// The chain that is read.
    pub fn chain(&self) -> &EvmChain {
        &self.chain
    }

    /// The block to read at: the newest finalized one. Fails unless the node serves the configured chain and the reputation registry there
    /// belongs to the identity registry. `now` in seconds since 1970.
    pub async fn head(&self, now: u64) -> Result<Head, ChainError> {
        blocks::check_chain(&self.rpc, &self.chain).await?;
        let head = blocks::finalized(&self.rpc, &self.chain, now).await?;
        let call = Reputation::getIdentityRegistryCall {};
        let identity = self.rpc.call(self.chain.reputation, &call, Block::Hash(head.hash)).await?;
        if identity != self.chain.identity {
            let why = "the reputation registry belongs to another identity registry than the configured one";
            return Err(ChainError::Malformed(why.into()));
        }
        Ok(head)
    }

    /// Who holds a registration and where its file is, at the newest finalized block. `now` in seconds since 1970.
    pub async fn registered(&self, subject: &ExternalSubject, now: u64) -> Result<Registered, ChainError> {
        let id = self.chain.agent_id(subject)?;
        let head = self.head(now).await?;
        let entry = self.entry(subject, id, head).await?;
        blocks::still_there(&self.rpc, head).await?;
        let registry = format!("{}:{}", self.chain.caip2(), lower(self.chain.identity));
        Ok(Registered { registry, owner: lower(entry.owner), uri: entry.uri })
    }

    /// Reads the logs on up to `head`.
    pub async fn read_logs(&self, book: &mut LogBook, head: Head) -> Result<(), ChainError> {
        book.advance(&self.rpc, &self.chain, head).await
    }

    /// Reads one agent at `head`. `book` is used if it was read to `head`. `hosts` tells which hosts have a proven link with the agent.
    pub async fn read(
        &self,
        subject: &ExternalSubject,
        head: Head,
        book: Option<&LogBook>,
        hosts: Hosts<'_>,
    ) -> Result<Reading, ChainError> {
        let id = self.chain.agent_id(subject)?;
        let entry = self.entry(subject, id, head).await?;
        let book = book.filter(|book| book.read_to() == Some(head));
        let mut reading = Reading {
            subject: subject.clone(),
            root: self.chain.root(),
            block: head.number,
            block_hash: head.hash.to_string(),
            registration: None,
            signals: Vec::new(),
            notes: BTreeSet::new(),
        };
        reading.notes.extend(book.is_none().then_some(Note::NoLogs));
        let left_out: BTreeSet<Address> =
            self.chain.own.iter().copied().chain([entry.owner]).chain(entry.wallet).collect();
        let feedback = feedback::read(&self.rpc, &self.chain, id, head, &left_out);
        let (feedback, ()) = join(feedback, self.identity(&entry, subject, hosts, &mut reading)).await;
        let feedback = feedback?;
        reading.notes.extend(feedback.flooded.then_some(Note::Flood));
        reading.signals.extend(book.and_then(|book| continuity::measure(book.changes(id))));
        for topic in Topic::ALL {
            reading.signals.extend(self.opinion(&entry, &feedback, topic, head, book, hosts).await);
        }
        blocks::still_there(&self.rpc, head).await?;
        for signal in &mut reading.signals {
            signal.numbers.insert("block".into(), json!(head.number));
            signal.numbers.insert("block_hash".into(), json!(head.hash));
        }
        Ok(reading)
    }

    async fn entry(&self, subject: &ExternalSubject, id: U256, head: Head) -> Result<Entry, ChainError> {
        let (to, at) = (self.chain.identity, Block::Hash(head.hash));
        let (owner_call, uri_call, wallet_call) = (
            Identity::ownerOfCall { tokenId: id },
            Identity::tokenURICall { tokenId: id },
            Identity::getAgentWalletCall { agentId: id },
        );
        let (owner, uri, wallet) = join3(
            self.rpc.call(to, &owner_call, at),
            self.rpc.call(to, &uri_call, at),
            self.rpc.call(to, &wallet_call, at),
        )
        .await;
        let none = || ChainError::NoSuchAgent(subject.id().to_owned());
        let owner = match owner {
            Err(Refusal::Node(error)) if error.is_revert() => return Err(none()),
            other => other?,
        };
        if owner.is_zero() {
            return Err(none());
        }
        let wallet = if_given(wallet)?.filter(|wallet| !wallet.is_zero());
        Ok(Entry { id, owner, wallet, uri: if_given(uri)?.unwrap_or_default() })
    }

    /// The registration with its file, and `identity_onchain`.
    async fn identity(&self, entry: &Entry, subject: &ExternalSubject, hosts: Hosts<'_>, reading: &mut Reading) {
        let registration = Registration {
            chain: self.chain.caip2(),
            owner: Some(lower(entry.owner)),
            wallet: entry.wallet.map(lower),
            ..Registration::default()
        };
        let asked = registration::Asked {
            egress: self.rpc.egress(),
            gateway: self.chain.ipfs_gateway.as_ref(),
            uri: &entry.uri,
            own: subject.id(),
            hosts,
        };
        registration::read(&asked, registration, reading).await;
    }

    async fn opinion(
        &self,
        entry: &Entry,
        feedback: &Feedback,
        topic: Topic,
        head: Head,
        book: Option<&LogBook>,
        hosts: Hosts<'_>,
    ) -> Option<Measured> {
        let (mut voices, off_scale) = raters::voices(&feedback.given, topic);
        if let Some(book) = book {
            for voice in &mut voices {
                voice.others = book.others(voice.client, entry.id);
            }
        }
        let payees: Vec<Address> = [entry.owner].into_iter().chain(entry.wallet).collect();
        let proving = book
            .map(|book| payments::prove(&self.rpc, &self.chain, book, (entry.id, &payees), head, hosts, &mut voices));
        OptionFuture::from(proving).await;
        let opinion = raters::opinion(&voices)?;
        let paid = voices.iter().filter(|voice| voice.paid).count();
        let numbers = Map::from_iter([
            ("clients".to_owned(), json!(feedback.clients)),
            ("feedbacks".to_owned(), json!(feedback.rows)),
            ("voices".to_owned(), json!(voices.len())),
            ("paid".to_owned(), json!(paid)),
            ("off_scale".to_owned(), json!(off_scale)),
            ("effective".to_owned(), json!(opinion.effective)),
        ]);
        let tag = match topic {
            Topic::Starred => "user_feedback",
            Topic::Uptime => "rel_uptime",
            Topic::SuccessRate => "rel_error_rate",
        };
        Tag::new(tag).ok().map(|tag| Measured { tag, value: opinion.value, stddev: opinion.stddev, numbers })
    }
}

/// What a contract of the same interface may not have: a call that reverts is an answer.
fn if_given<T>(answer: Result<T, Refusal>) -> Result<Option<T>, ChainError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(Refusal::Node(error)) if error.is_revert() => Ok(None),
        Err(refusal) => Err(refusal.into()),
    }
}
