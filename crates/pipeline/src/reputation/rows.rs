//! The rows of the reputation's tables.

use credence_engine::reputation::{Assessed, ContractFacts, Declared, Factors, performance::Settled};
use credence_protocol::{EntityId, Timestamp, records::ChallengeOutcome};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What an agent declares of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IdentityRow {
    /// The entry.
    pub seq: u64,
    /// Its version then.
    pub version_hash: String,
    /// What must not change without a new version.
    pub versioned: Value,
    /// What its measurement depends on.
    pub declared: Declared,
    /// When it changed without a new version.
    pub unversioned_changes: Vec<Timestamp>,
}

/// A claim, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContractRow {
    /// The entry.
    pub seq: u64,
    /// Whose.
    pub agent: EntityId,
    /// When it was recorded.
    pub at: Timestamp,
    /// Until when it can be challenged.
    pub closes: Timestamp,
    /// What the formulas see.
    pub facts: ContractFacts,
    /// What it came to, −1..=1, and the entry that said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<(f64, u64)>,
    /// The final verification, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification: Option<String>,
    /// The challenge that refuted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refuted_by: Option<String>,
    /// What it can be verified by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verification_hash: Option<String>,
    /// The key that signed it was revoked: it is no contract any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub void: bool,
}

/// A settled claim, as the formulas see it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SettledRow {
    /// When it was settled.
    pub at: Timestamp,
    /// Its band, the probability announced, and the outcome.
    #[serde(flatten)]
    pub settled: Settled,
}

/// A challenge, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChallengeRow {
    /// The entry.
    pub seq: u64,
    /// The contract.
    pub contract: String,
    /// Whose it is.
    pub target: EntityId,
    /// Who disputes it.
    pub challenger: EntityId,
    /// What became of it.
    pub state: ChallengeState,
    /// The entry that settled it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolution: Option<u64>,
}

/// Where a challenge stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChallengeState {
    /// Not settled.
    Open,
    /// The same claim had been put before: never opened, and spam.
    Resubmitted,
    /// The key that signed it was revoked: nobody put it.
    Void,
    /// Settled.
    Settled(ChallengeOutcome),
}

/// What settled challenges, and its own conduct in them, say of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DisputeRow {
    /// When.
    pub at: Timestamp,
    /// It was not refuted, by a peer whose word weighed this.
    pub upheld: f64,
    /// It was refuted.
    pub refuted: u32,
    /// A challenge of its own failed.
    pub failed: u32,
    /// It put a challenge a second time.
    pub resubmitted: u32,
}

impl DisputeRow {
    /// Nothing yet.
    pub(crate) fn none(at: Timestamp) -> Self {
        Self { at, upheld: 0.0, refuted: 0, failed: 0, resubmitted: 0 }
    }
}

/// A review, or a citation, that weighs something.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReviewRow {
    /// The entry.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// What the reviewer's word weighed then.
    pub weight: f64,
    /// 0..=1.
    pub rating: f64,
}

/// A reputation after an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReputationRow {
    /// The entry that was the event.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// What happened.
    pub cause: String,
    /// Events so far that others made: its own publications prove nothing.
    pub events: u64,
    /// When R was computed last: at the event, or at a midnight since.
    pub computed_at: Timestamp,
    /// R_t.
    pub score: f64,
    /// R_new.
    pub raw: f64,
    /// The five numbers.
    pub factors: Factors,
    /// What each rests on.
    pub basis: Value,
}

impl ReputationRow {
    /// What an assessment rests on, as JSON.
    pub(crate) fn basis(assessed: &Assessed) -> Value {
        serde_json::to_value(assessed).unwrap_or_default()
    }
}
