//! What statements say, by kind. Their JSON Schemas are in [`schemas`](crate::schemas).

use serde::{Deserialize, Serialize};

use crate::{EntityId, RiskBand, Timestamp, strict::StrictValue};

/// Who an agent is, in its own words. Members beyond these are kept and not interpreted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IdentityRecord {
    /// The agent.
    pub agent_id: EntityId,
    /// What it runs on.
    pub model_type: String,
    /// What it can do.
    pub capability_tags: Vec<String>,
    /// How it deals with risk.
    pub risk_profile: String,
    /// How much it shows.
    pub transparency_level: String,
    /// Changes with every change of what it runs on and how it is measured.
    pub version_hash: String,
    /// The key that signs this.
    pub signature_key: String,
    /// How its risk-adjusted performance is measured.
    #[serde(default)]
    pub rap_method: Option<String>,
    /// What its volatility is measured against.
    #[serde(default)]
    pub consistency_method: Option<String>,
}

/// A claim an agent stands by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContractRecord {
    /// Its id.
    pub signal_id: String,
    /// Whose it is.
    pub origin_agent: EntityId,
    /// In what context.
    #[serde(default)]
    pub context_hash: Option<String>,
    /// How it can be verified.
    #[serde(default)]
    pub verification_hash: Option<String>,
    /// How sure the agent is.
    pub confidence_metrics: ConfidenceMetrics,
    /// How risky it says the claim is.
    pub risk_band: RiskBand,
    /// When.
    #[serde(default)]
    pub timestamp: Option<Timestamp>,
    /// Why.
    #[serde(default)]
    pub reasoning_trace: Vec<String>,
    /// What it rests on.
    #[serde(default)]
    pub source_refs: Vec<String>,
    /// How long it can be challenged.
    #[serde(default)]
    pub challenge_window_hours: Option<u32>,
}

/// How sure an agent is of its claim. Other members are kept and not interpreted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConfidenceMetrics {
    /// That the claim will be borne out.
    #[serde(default)]
    pub probability: Option<f64>,
}

/// What a contract came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerificationRecord {
    /// Its id.
    pub verification_id: String,
    /// `signal`, `challenge` or `reputation`.
    pub related_object_type: String,
    /// Which.
    pub related_object_id: String,
    /// `pending`, `final`, `inconclusive` or `rejected`.
    pub status: String,
    /// How far the claim was borne out, −1..=1.
    #[serde(default)]
    pub outcome: Option<f64>,
    /// When.
    pub timestamp: Timestamp,
}

/// A contract disputed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChallengeRecord {
    /// Its id.
    pub challenge_id: String,
    /// The contract.
    pub original_signal_id: String,
    /// Who disputes it.
    pub challenger_agent_id: EntityId,
    /// What is claimed instead.
    pub counter_claim: StrictValue,
    /// When.
    pub timestamp: Timestamp,
}

/// What a challenge came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResolutionRecord {
    /// Its id.
    pub resolution_id: String,
    /// Which.
    pub challenge_id: String,
    /// What became of it.
    pub outcome: ChallengeOutcome,
    /// Why.
    #[serde(default)]
    pub reason: Option<String>,
    /// The verification that settled it.
    #[serde(default)]
    pub evidence: Option<String>,
    /// When.
    pub timestamp: Timestamp,
}

/// What became of a challenge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChallengeOutcome {
    /// The contract was refuted.
    Successful,
    /// It was not.
    Failed,
    /// Nobody can tell.
    Inconclusive,
}

/// What one agent says of another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReviewRecord {
    /// Its id.
    pub review_id: String,
    /// Who.
    pub reviewer_agent_id: EntityId,
    /// Of whom.
    pub subject_agent_id: EntityId,
    /// How helpful it was, 0..=1.
    pub rating: f64,
    /// What they had to do with each other.
    pub interaction: Interaction,
    /// When.
    pub timestamp: Timestamp,
}

/// What a reviewer and its subject had to do with each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interaction {
    /// A contract of the subject.
    Contract(String),
    /// A receipt of a call.
    Receipt(String),
}

/// An output-verification window of an agent, as its provider reports it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SummaryRecord {
    /// The agent.
    pub agent: EntityId,
    /// `1d`, `7d` or `30d`.
    pub window: String,
    /// The `outputVerificationSummary`.
    pub summary: StrictValue,
    /// The signed checkpoint of the receipts that it was counted from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<String>,
}
