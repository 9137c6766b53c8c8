//! What is written to a chain: one feedback with the assured score of one agent.
//!
//! Exactly once: the caller keeps a [`Prepared`] durably before it is sent. A crash sends the same bytes again. A replacement keeps
//! the nonce, so at most one of the two is included. A new nonce is taken only when the old transaction is
//! [`TransactionState::Dead`] and [`Writer::find`] finds nothing. On Solana nothing is replaced: the same bytes are sent again until the
//! transaction is included or dead.

use std::collections::BTreeSet;

use alloy_primitives::B256;
use credence_protocol::ExternalSubject;
use serde::{Deserialize, Serialize};

use crate::{ChainError, evm, solana};

/// What to write. Everything in it is public.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attestation {
    /// The registration, `erc8004:eip155:8453:0x…/22` or `solana8004:ASSET`.
    pub subject: ExternalSubject,
    /// The score times 10^decimals.
    pub value: i64,
    /// Decimals of the value.
    pub decimals: u8,
    /// `credence`.
    pub tag1: String,
    /// The formula, `uts/2`.
    pub tag2: String,
    /// The agent's endpoint that the score is about; may be empty.
    pub endpoint: String,
    /// Where the signed score document is served.
    pub uri: String,
    /// Keccak-256 of the document's bytes, lower-case hex without 0x.
    pub document: String,
}

impl Attestation {
    /// The document's hash as bytes.
    pub(crate) fn document_hash(&self) -> Result<B256, ChainError> {
        let wrong = |_| ChainError::Malformed("the document's hash is not 32 bytes in hexadecimal".into());
        self.document.parse().map_err(wrong)
    }
}

/// A signed transaction: everything needed to send it again or to recognise it. Kept before it is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    /// The transaction's hash, or its signature on Solana.
    pub id: String,
    /// The account's nonce (EVM).
    pub nonce: Option<u64>,
    /// The last block height at which it can be included (Solana).
    pub valid_until: Option<u64>,
    /// The most that it can cost, in wei or lamports.
    pub max_fee: u128,
    /// The signed bytes: hex (EVM) or base64 (Solana).
    pub raw: String,
}

/// Where a transaction is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum TransactionState {
    /// No node knows it, and it can still be included.
    Unknown,
    /// A node holds it.
    Pending,
    /// In a block.
    Included {
        /// The block's number.
        block: u64,
        /// The block's hash.
        block_hash: String,
        /// Blocks from that one to the newest, both counted.
        confirmations: u64,
        /// Whether it did what it was for. A transaction that failed has cost its fee.
        succeeded: bool,
        /// What it cost.
        fee: u128,
        /// The feedback's index, where it wrote one.
        index: Option<u64>,
    },
    /// It can never be included: another transaction took its nonce (with enough confirmations), or its block height has passed.
    Dead {
        /// Which of them.
        why: String,
    },
}

/// What an attestation can cost, and what is there to pay it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Quote {
    /// The most that it can cost.
    pub max_fee: u128,
    /// What the attesting address must hold: that, and on Solana what an account must keep to stay.
    pub needed: u128,
    /// What the attesting address holds.
    pub balance: u128,
    /// The unit of both.
    pub unit: &'static str,
}

/// Writes to one chain with one key.
#[derive(Debug)]
pub enum Writer {
    /// A chain of the Ethereum kind.
    Evm(evm::EvmWriter),
    /// A Solana cluster.
    Solana(solana::SolanaWriter),
}

impl Writer {
    /// The chain, as a CAIP-2 id.
    pub fn chain(&self) -> &str {
        match self {
            Self::Evm(writer) => writer.chain(),
            Self::Solana(writer) => writer.chain(),
        }
    }

    /// The address that signs.
    pub fn address(&self) -> String {
        match self {
            Self::Evm(writer) => writer.address(),
            Self::Solana(writer) => writer.address(),
        }
    }

    /// Fails unless the node serves the configured chain. Called before anything is signed.
    pub async fn check_chain(&self) -> Result<(), ChainError> {
        match self {
            Self::Evm(writer) => writer.check_chain().await,
            Self::Solana(writer) => writer.check_chain().await,
        }
    }

    /// What it can cost now. Signs nothing.
    pub async fn quote(&self, attestation: &Attestation) -> Result<Quote, ChainError> {
        match self {
            Self::Evm(writer) => writer.quote(attestation).await,
            Self::Solana(writer) => writer.quote(attestation).await,
        }
    }

    /// Signs, sends nothing. Without `nonce` the account's next one is taken. `replaces`: the same nonce, and fees at least 12.5 % higher;
    /// on Solana [`ChainError::NotReplaceable`] unless it is dead.
    pub async fn prepare(
        &self,
        attestation: &Attestation,
        nonce: Option<u64>,
        replaces: Option<&Prepared>,
    ) -> Result<Prepared, ChainError> {
        match self {
            Self::Evm(writer) => writer.prepare(attestation, nonce, replaces).await,
            Self::Solana(writer) => writer.prepare(attestation, nonce, replaces).await,
        }
    }

    /// The same for taking a feedback back.
    pub async fn prepare_revocation(
        &self,
        subject: &ExternalSubject,
        index: u64,
        replaces: Option<&Prepared>,
    ) -> Result<Prepared, ChainError> {
        match self {
            Self::Evm(writer) => writer.prepare_revocation(subject, index, replaces).await,
            Self::Solana(writer) => writer.prepare_revocation(subject, index, replaces).await,
        }
    }

    /// The registrations for which a validation registry holds requests that name our address. Empty where no such registry is configured.
    pub async fn requested_validations(&self) -> Result<BTreeSet<ExternalSubject>, ChainError> {
        match self {
            Self::Evm(writer) => writer.requested_validations().await,
            Self::Solana(_) => Ok(BTreeSet::new()),
        }
    }

    /// Requests to validate the agent that name our address and are not answered with this document yet.
    pub async fn validation_requests(&self, attestation: &Attestation) -> Result<Vec<String>, ChainError> {
        match self {
            Self::Evm(writer) => writer.validation_requests(attestation).await,
            Self::Solana(_) => Ok(Vec::new()),
        }
    }

    /// Signs the answer to such a request.
    pub async fn prepare_validation(
        &self,
        request: &str,
        attestation: &Attestation,
        replaces: Option<&Prepared>,
    ) -> Result<Prepared, ChainError> {
        match self {
            Self::Evm(writer) => writer.prepare_validation(request, attestation, replaces).await,
            Self::Solana(_) => Err(ChainError::OtherRegistry("Solana has no validation registry".into())),
        }
    }

    /// Sends the bytes. That a node knows them already, or that the nonce is taken, is no error: [`Self::state`] tells.
    pub async fn send(&self, prepared: &Prepared) -> Result<(), ChainError> {
        match self {
            Self::Evm(writer) => writer.send(prepared).await,
            Self::Solana(writer) => writer.send(prepared).await,
        }
    }

    /// Where the transaction is.
    pub async fn state(&self, prepared: &Prepared) -> Result<TransactionState, ChainError> {
        match self {
            Self::Evm(writer) => writer.state(prepared).await,
            Self::Solana(writer) => writer.state(prepared).await,
        }
    }

    /// The index of our own feedback with this value and document, if it is on the chain and not revoked.
    pub async fn find(&self, attestation: &Attestation) -> Result<Option<u64>, ChainError> {
        match self {
            Self::Evm(writer) => writer.find(attestation).await,
            Self::Solana(writer) => writer.find(attestation).await,
        }
    }
}
