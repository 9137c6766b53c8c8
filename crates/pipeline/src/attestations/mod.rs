//! Attestations: an agent's assured score written to a chain, as the ledger knows it (DESIGN, *Chains*).
//!
//! ```text
//! intent ──► sent ──► confirmed ──► final ──► revocation_sent ──► revoked
//!   │        │ ▲ │        │                      └─ again, or replaced ─┘
//!   │        │ └─┼─ reorganised: its block is gone, the same bytes again
//!   │        │   └─ replaced: same nonce, higher fee. sent again: another nonce, because the old one is lost
//!   │        └─► reverted: in a block for good, and failed
//!   └────────└─► given_up: never sent, or nothing of it can be included any more
//!
//! final ──► validation_sent ──► validated, or validation_given_up: final again
//! ```
//!
//! A final attestation also answers requests of a validation registry, one at a time and [`MAX_ANSWERS`] at most.
//!
//! Every step is an `attestation` entry. The intent holds the signed score document ([`credence_output::attestation`]). `sent`, `replaced`
//! and `revocation_sent` hold the signed transaction, and are durable before a byte of it leaves: after a crash the same bytes are
//! sent again. The rules ([`rules`]) hold when an entry is written and in an audit. They keep exactly one attestation on the chain:
//!
//! - one transaction of a chain waits for inclusion at a time, so nonces are taken one after the other;
//! - a replacement has the nonce of what it replaces, so at most one of them is included;
//! - a step is recorded only on the state that its writer saw ([`Authority::record_attestation_step`]): of two nodes that both signed, one
//!   records and sends, the other throws its transaction away.
//!
//! What is on the chain is looked at outside (`credence_server::attesting`): this module records.

mod amount;
mod fold;
mod outbox;
mod rules;
mod step;

use credence_protocol::{EntityId, ExternalSubject, Timestamp, Uuid, strict::present};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use amount::Amount;
pub use outbox::{Draft, Recorded, document, fits_budget, has_attestation, of_agent, open, row, spent, totals};
pub use rules::{MAX_ANSWERS, MAX_NONCES, MAX_STEPS};
pub use step::AttestationStep;
pub(crate) use {fold::apply, rules::wrong_with};

/// The first tag of every attestation; feedback with it is never read as evidence.
pub const TAG: &str = "credence";

/// A step of an attestation, as an entry records it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttestationRecord {
    /// Which attestation.
    pub attestation: Uuid,
    /// About whom.
    pub agent: EntityId,
    /// The chain, as a CAIP-2 id.
    pub chain: String,
    /// The agent's registration there.
    pub subject: ExternalSubject,
    /// The step.
    pub step: AttestationStep,
    /// Of an intent: what is to be written.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub intent: Option<Intent>,
    /// Of `sent`, `replaced`, `validation_sent` and `revocation_sent`: the transaction.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub transaction: Option<SignedTransaction>,
    /// Of `confirmed`, `final`, `validated`, `reverted` and `revoked`: where it stands; of `validation_given_up`, where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub inclusion: Option<Inclusion>,
    /// Of `validation_sent`: the request, 32 bytes in hex.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub request: Option<String>,
    /// Of `reorganised`, `given_up`, `validation_given_up` and `revocation_sent`: why.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub reason: Option<String>,
}

impl AttestationRecord {
    /// What an intent comes to, before anything was done about it.
    pub fn first_row(&self) -> Option<AttestationRow> {
        fold::first(self)
    }
}

/// What is to be written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intent {
    /// The address that signs.
    pub by: String,
    /// The score times 10^decimals.
    pub value: i64,
    /// Decimals of the value.
    pub decimals: u8,
    /// The agent's page or endpoint; may be empty.
    pub endpoint: String,
    /// Where the document is served.
    pub uri: String,
    /// Keccak-256 of the canonical document, in hex.
    pub hash: String,
    /// The signed score document.
    pub document: Value,
}

/// A signed transaction. Anyone who has the bytes can send it, and so can we after a crash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedTransaction {
    /// Its hash, or its signature on Solana.
    pub id: String,
    /// The account's nonce (EVM).
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub nonce: Option<u64>,
    /// The last block height at which it can be included (Solana).
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub valid_until: Option<u64>,
    /// The most that it can cost.
    pub max_fee: Amount,
    /// The signed bytes.
    pub raw: String,
}

/// Where something stands on the chain.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inclusion {
    /// The transaction; none where the registry has the feedback and the node no longer knows its transaction.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub transaction: Option<String>,
    /// The block's number.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub block: Option<u64>,
    /// The block's hash.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub block_hash: Option<String>,
    /// What it cost.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub fee: Option<Amount>,
    /// The feedback's index among ours about this registration.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub index: Option<u64>,
}

/// Where an attestation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttestationState {
    /// To be written.
    Intent,
    /// Sent, and in no block that is known.
    Sent,
    /// In a block.
    Confirmed,
    /// In a block that stays.
    Final,
    /// In a block that stays, and a validation request is being answered.
    ValidationSent,
    /// It failed on the chain.
    Reverted,
    /// It will not be written.
    GivenUp,
    /// Being taken back.
    RevocationSent,
    /// Taken back.
    Revoked,
}

impl AttestationState {
    /// As in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::Intent => "intent",
            Self::Sent => "sent",
            Self::Confirmed => "confirmed",
            Self::Final => "final",
            Self::ValidationSent => "validation_sent",
            Self::Reverted => "reverted",
            Self::GivenUp => "given_up",
            Self::RevocationSent => "revocation_sent",
            Self::Revoked => "revoked",
        }
    }

    /// Whether there is something left to do.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Intent | Self::Confirmed) || self.waits_for_inclusion()
    }

    /// Whether a transaction waits to be included.
    pub fn waits_for_inclusion(self) -> bool {
        matches!(self, Self::Sent | Self::ValidationSent | Self::RevocationSent)
    }
}

/// An attestation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttestationRow {
    /// About whom.
    pub agent: EntityId,
    /// The chain.
    pub chain: String,
    /// The registration.
    pub subject: ExternalSubject,
    /// Where it stands.
    pub state: AttestationState,
    /// The entry of the score event.
    pub event: u64,
    /// The formula of the score.
    pub formula: String,
    /// The address that signs.
    pub by: String,
    /// The score times 10^decimals.
    pub value: i64,
    /// Decimals of the value.
    pub decimals: u8,
    /// The agent's page or endpoint.
    pub endpoint: String,
    /// Where the document is served.
    pub uri: String,
    /// Keccak-256 of the canonical document.
    pub hash: String,
    /// Transactions that write it, oldest first.
    pub transactions: Vec<SentTransaction>,
    /// Transactions that take it back, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revocations: Vec<SentTransaction>,
    /// The validation request that is being answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// Transactions that answer it, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub validations: Vec<SentTransaction>,
    /// Requests that were answered or given up, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Answer>,
    /// Where it stands on the chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inclusion: Option<Inclusion>,
    /// Where its revocation stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revocation: Option<Inclusion>,
    /// Why it was given up or is taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Every step, oldest first.
    pub steps: Vec<RecordedStep>,
}

/// A validation request that is over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The request.
    pub request: String,
    /// Whether it was answered.
    pub answered: bool,
}

/// A transaction with the entry that recorded it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SentTransaction {
    /// The entry.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// The transaction.
    #[serde(flatten)]
    pub transaction: SignedTransaction,
}

/// A step that was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RecordedStep {
    /// The entry.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// The step.
    pub step: AttestationStep,
}

/// How many steps of a kind a chain has seen, and what they cost.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Total {
    /// The chain.
    pub chain: String,
    /// The step.
    pub step: String,
    /// How many.
    pub steps: u64,
    /// What they cost: of steps after which a fee is certain.
    pub fees: Amount,
}

impl AttestationRow {
    /// The entry of the intent.
    pub fn intent_seq(&self) -> u64 {
        self.steps.first().map_or(0, |step| step.seq)
    }

    /// When the intent was recorded.
    pub fn intended_at(&self) -> Option<Timestamp> {
        self.steps.first().map(|step| step.at)
    }

    /// The entry of the newest step: what a next step builds on.
    pub fn newest_seq(&self) -> u64 {
        self.steps.last().map_or(0, |step| step.seq)
    }

    /// The most that what waits for inclusion, or for finality, can cost.
    pub fn pending_fee(&self) -> u128 {
        let sent = match self.state {
            AttestationState::Sent | AttestationState::Confirmed => &self.transactions,
            AttestationState::ValidationSent => &self.validations,
            AttestationState::RevocationSent => &self.revocations,
            _ => return 0,
        };
        sent.iter().map(|sent| sent.transaction.max_fee.0).max().unwrap_or_default()
    }

    /// A record of the next step, with nothing in it yet.
    pub fn next(&self, attestation: Uuid, step: AttestationStep) -> AttestationRecord {
        AttestationRecord {
            attestation,
            agent: self.agent.clone(),
            chain: self.chain.clone(),
            subject: self.subject.clone(),
            step,
            intent: None,
            transaction: None,
            inclusion: None,
            request: None,
            reason: None,
        }
    }
}
