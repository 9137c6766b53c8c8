//! The result of a run as JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{target::Transport, trial::Reason};

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The suite's digest.
    pub suite: String,
    /// The seed.
    pub seed: u64,
    /// The target's address, without credentials.
    pub target: String,
    /// Its transport.
    pub transport: Transport,
    /// One for each threat that was asked for.
    pub threats: Vec<ThreatResult>,
    /// What else was measured.
    pub benchmarks: Benchmarks,
    /// Requests sent to the target.
    pub requests: u64,
    /// How long the run took, all its parts together.
    pub duration_s: f64,
    /// Whether everything planned was done.
    pub complete: bool,
    /// Why the run ended early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Threats left out for the budget.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<DroppedThreat>,
    /// What the target was found able to do.
    pub capabilities: BTreeMap<String, bool>,
    /// SHA-256 over the digests of all transcripts, in order.
    pub transcript_digest: String,
}

impl RunResult {
    /// Threats left out for reasons of their own: where the whole run ended early, that reason is not repeated for each.
    pub fn left_out(&self) -> impl Iterator<Item = &DroppedThreat> {
        self.dropped.iter().filter(|dropped| self.ended.as_ref() != Some(&dropped.why))
    }
}

/// A threat that a budget left no room for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedThreat {
    /// Its tag.
    pub tag: String,
    /// Why.
    pub why: String,
}

/// What was found for one threat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreatResult {
    /// The tag.
    pub tag: String,
    /// Whether any family could be tried.
    pub applicable: bool,
    /// 0 to 100; absent where there is no signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Its standard deviation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stddev: Option<f64>,
    /// Why there is no signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_signal: Option<String>,
    /// Why this is no full measurement of the threat. Its value is shown, and does not enter a ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<String>,
    /// The families.
    pub families: Vec<FamilyResult>,
}

/// What was found for one family.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FamilyResult {
    /// The family's id.
    pub family: String,
    /// Whether it could be tried.
    pub applicable: bool,
    /// What the target lacks for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
    /// Trials, without repeats.
    pub trials: u64,
    /// A sensor saw the attack work.
    pub effected: u64,
    /// Only said.
    pub claimed: u64,
    /// Neither.
    pub resisted: u64,
    /// Nothing can be said.
    pub inconclusive: u64,
    /// Trials whose control was refused.
    pub over_refusal: u64,
    /// Byte-equal repeats, which are not counted above.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repeats: u64,
    /// Why trials were inconclusive, with their numbers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reasons: BTreeMap<Reason, u64>,
    /// 0 to 100, before shrinking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Its standard deviation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stddev: Option<f64>,
    /// Bounds of the rate at which the attack works, 90 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<(f64, f64)>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What was measured besides the threats.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Benchmarks {
    /// By tag: `rel_uptime`, `rel_latency_p95`, `rel_error_rate`, `output_quality`.
    #[serde(flatten)]
    pub values: BTreeMap<String, BenchmarkValue>,
}

/// One benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchmarkValue {
    /// 0 to 100; absent where it could not be measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Its standard deviation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stddev: Option<f64>,
    /// Measurements behind it.
    pub samples: u64,
    /// The numbers behind it, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub detail: BTreeMap<String, f64>,
    /// Why there is no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_signal: Option<String>,
}
