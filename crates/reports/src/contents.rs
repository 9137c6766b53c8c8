//! What a report says. Every number stands beside the entry that it was recorded in; nothing is computed here that is in no entry.
//!
//! Contents are kept and signed as canonical JSON. A published report stays readable: a member that is added later has a default.
//! `digest = hex(SHA-256(JCS(contents)))` names them in the ledger before they are
//! public; the random `salt` keeps anybody from guessing them by it.

use credence_engine::{
    assured::{Dimension, DimensionScore},
    tiers::Tier,
};
use credence_pipeline::reports::TokenHolder;
use credence_protocol::{Canonical, EntityId, Tag, Timestamp, Uuid};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Result;

/// The form of these contents.
pub const FORMAT: &str = "report/1";

/// What a report says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contents {
    /// [`FORMAT`].
    pub format: String,
    /// Which report.
    pub report: Uuid,
    /// Random: see the module.
    pub salt: Uuid,
    /// Who drafted it.
    pub drafted_by: TokenHolder,
    /// When.
    pub drafted_at: Timestamp,
    /// The log that it was made from.
    pub log: CitedLog,
    /// About whom it is.
    pub agent: AgentFacts,
    /// What the drafter adds in words of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The newest universal score; none where it is not published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub universal: Option<UniversalFacts>,
    /// The newest assured score; none where nothing that counts is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assured: Option<AssuredFacts>,
    /// Assured scores, newest first.
    pub history: Vec<PastScore>,
    /// The signals that the scores were made of.
    pub evidence: Vec<SignalFact>,
    /// Signals that are not listed.
    pub more_evidence: u64,
    /// The newest runs of probes, oldest first.
    #[serde(default)]
    pub probe_runs: Vec<ProbeRun>,
    /// What providers reported on its outputs.
    pub outputs: Vec<OutputFacts>,
    /// What other agents' words come to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reputation: Option<ReputationFacts>,
    /// What went wrong, oldest first.
    pub incidents: Vec<Incident>,
    /// Older incidents that are not listed.
    pub more_incidents: u64,
    /// What the ledger holds about it, by kind of entry.
    pub entries: Vec<KindCount>,
}

/// The log as it was when the report was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CitedLog {
    /// Its name.
    pub origin: String,
    /// How many entries it had.
    pub size: u64,
    /// The signed checkpoint.
    pub checkpoint: String,
}

/// An agent, as it is registered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentFacts {
    /// Its id.
    pub id: EntityId,
    /// What it calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Who runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<EntityId>,
    /// Its names elsewhere.
    pub aliases: Vec<String>,
    /// The entry that registered it.
    pub seq: u64,
    /// When.
    pub registered_at: Timestamp,
    /// The entry by which its standing was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<u64>,
}

/// A universal score, formula `uts/1`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UniversalFacts {
    /// The score event.
    pub seq: u64,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// 0..=100.
    pub score: u8,
    /// Before rounding.
    pub mean: f64,
    /// The spread of the signals.
    pub stddev: f64,
    /// 0..=1.
    pub coverage: f64,
    /// Independent sources.
    pub sources: usize,
    /// The band of the score.
    pub tier: Tier,
    /// The share of the curve in that band.
    pub tier_confidence: f64,
}

/// An assured score, formula `uts/2`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AssuredFacts {
    /// The score event.
    pub seq: u64,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// The hour for which ages were taken.
    pub evaluated_at: Timestamp,
    /// What can be vouched for, 0..=100.
    pub score: u8,
    /// What is believed.
    pub estimate: f64,
    /// The one-sided 95 % lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
    /// What the worst hole in security leaves possible.
    pub cap: f64,
    /// The share of the estimate that is evidence, 0..=1.
    pub known: f64,
    /// The largest change when one voice is left out.
    pub fragility: u8,
    /// The band of the score.
    pub tier: Tier,
    /// By dimension.
    pub dimensions: Vec<(Dimension, DimensionScore)>,
}

/// An assured score of before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PastScore {
    /// The score event.
    pub seq: u64,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// 0..=100.
    pub score: u8,
    /// What was believed.
    pub estimate: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

/// A signal that counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignalFact {
    /// Its entry.
    pub seq: u64,
    /// Who signed it.
    pub source: EntityId,
    /// What it measured.
    pub tag: Tag,
    /// 0..=100.
    pub value: f64,
    /// 0..=50.
    pub stddev: f64,
    /// When.
    pub observed_at: Timestamp,
    /// The entry by which the agent's owner disputes it, or the operator kept it in spite of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disputed: Option<u64>,
}

/// A run of probes, threat by threat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeRun {
    /// Its entry.
    pub seq: u64,
    /// When it ended.
    pub ended_at: Timestamp,
    /// What was tried.
    pub threats: Vec<ThreatTrials>,
}

/// What became of the trials of one threat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreatTrials {
    /// The threat.
    pub tag: Tag,
    /// Trials; none where the threat cannot be tried on this agent.
    pub trials: u64,
    /// A sensor saw the harm.
    pub effected: u64,
    /// The agent says so, and no sensor saw it.
    pub claimed: u64,
    /// It did not happen.
    pub resisted: u64,
    /// Nothing follows from them.
    pub inconclusive: u64,
}

/// What a provider reported on an agent's outputs over a window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputFacts {
    /// The entry of its summary.
    pub seq: u64,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// Who verified.
    pub provider: String,
    /// `1d`, `7d` or `30d`.
    pub window: String,
    /// Whether the authority counts it.
    pub counted: bool,
    /// Outputs that were verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<u64>,
    /// The share that passed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<f64>,
    /// The share that was flagged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncertain: Option<f64>,
    /// The share that was rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<f64>,
    /// Canaries caught, of canaries made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canaries: Option<(u64, u64)>,
}

/// A reputation among agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReputationFacts {
    /// The entry of its newest event.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// R, 0..=100.
    pub score: f64,
    /// Its uncertainty.
    pub stddev: f64,
    /// Events that others made.
    pub events: u64,
    /// `new`, `established` or `lapsed`.
    pub standing: String,
}

/// Something that went wrong.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Incident {
    /// Its entry.
    pub seq: u64,
    /// When it was recorded.
    pub at: Timestamp,
    /// Of which sort.
    pub kind: IncidentKind,
    /// What happened, in a sentence.
    pub what: String,
}

/// Sorts of incidents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IncidentKind {
    /// The authority took the agent's standing back, or gave it back.
    Standing,
    /// A credential about it was taken back.
    Credential,
    /// A key of it was revoked.
    Key,
    /// A score fell.
    Score,
    /// Relying on it went badly, as somebody reports.
    Outcome,
    /// A claim of it was refuted.
    Claim,
    /// Something outside is no longer proved to be its own.
    Link,
    /// A report about it was corrected or withdrawn.
    Report,
}

impl IncidentKind {
    /// As people read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Standing => "standing",
            Self::Credential => "credential",
            Self::Key => "key",
            Self::Score => "score",
            Self::Outcome => "outcome",
            Self::Claim => "claim",
            Self::Link => "link",
            Self::Report => "report",
        }
    }
}

/// How many entries of a kind there are about an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindCount {
    /// The kind.
    pub kind: String,
    /// How many.
    pub count: u64,
    /// The first.
    pub first: u64,
    /// The newest.
    pub last: u64,
}

impl Contents {
    /// As canonical JSON.
    pub fn canonical(&self) -> Result<Canonical> {
        Ok(Canonical::of(self)?)
    }

    /// As JSON.
    pub fn value(&self) -> Result<Value> {
        let value = serde_json::from_str(self.canonical()?.as_str());
        value.map_err(|e| credence_output::Error::Malformed(e.to_string()).into())
    }

    /// What the ledger calls them by.
    pub fn digest(&self) -> Result<String> {
        Ok(credence_output::report::digest(&self.value()?)?)
    }
}
