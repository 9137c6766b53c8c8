//! The signals: the seed's eight with their default likelihood ratios (seed 2, "Signal Types & Likelihood Ratios"), and the
//! three that mode adaptive adds.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Tier;

/// A signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// Required fields are missing, forbidden ones present, or the output schema is broken.
    SchemaMismatch,
    /// The response matches none of the expected patterns.
    PatternMismatch,
    /// Impossibly fast, too slow, or unlike the tool's own latencies.
    LatencyAnomaly,
    /// The response is shorter or longer than its bounds.
    LengthAnomaly,
    /// Unlike earlier results for the same arguments.
    HistoricalInconsistency,
    /// Unlike earlier results in the same session.
    SessionInconsistency,
    /// A statistical outlier by the Western Electric rules.
    SpcAnomaly,
    /// `fixed`: a numeric field beyond mean ± 3σ of its recent values. `adaptive`: a value outside the set, or a number or
    /// length outside the range, that its path had so far.
    ValuePlausibility,
    /// `adaptive`: keys, types or formats unlike what was learned.
    StructureDrift,
    /// `adaptive`: a value that used to repeat an argument does not.
    EchoMismatch,
    /// `adaptive`: the same arguments gave another result, or other arguments this very one.
    Determinism,
}

impl Signal {
    /// All of them, in the order in which they are combined.
    pub const ALL: [Signal; 11] = [
        Signal::SchemaMismatch,
        Signal::PatternMismatch,
        Signal::LatencyAnomaly,
        Signal::LengthAnomaly,
        Signal::HistoricalInconsistency,
        Signal::SessionInconsistency,
        Signal::SpcAnomaly,
        Signal::ValuePlausibility,
        Signal::StructureDrift,
        Signal::EchoMismatch,
        Signal::Determinism,
    ];

    /// The name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Signal::SchemaMismatch => "schema_mismatch",
            Signal::PatternMismatch => "pattern_mismatch",
            Signal::LatencyAnomaly => "latency_anomaly",
            Signal::LengthAnomaly => "length_anomaly",
            Signal::HistoricalInconsistency => "historical_inconsistency",
            Signal::SessionInconsistency => "session_inconsistency",
            Signal::SpcAnomaly => "spc_anomaly",
            Signal::ValuePlausibility => "value_plausibility",
            Signal::StructureDrift => "structure_drift",
            Signal::EchoMismatch => "echo_mismatch",
            Signal::Determinism => "determinism",
        }
    }

    /// The signal of this name.
    pub fn from_name(name: &str) -> Option<Signal> {
        Signal::ALL.into_iter().find(|signal| signal.name() == name)
    }

    /// P(fires | fabricated) / P(fires | genuine), before any calibration. The three of mode adaptive have no fixed ratio:
    /// these are what they are worth on a tool hardly known yet.
    pub fn default_ratio(self) -> f64 {
        match self {
            Signal::SchemaMismatch => 12.0,
            Signal::PatternMismatch => 6.0,
            Signal::LatencyAnomaly => 3.5,
            Signal::LengthAnomaly => 2.0,
            Signal::HistoricalInconsistency => 4.5,
            Signal::SessionInconsistency => 4.0,
            Signal::SpcAnomaly | Signal::ValuePlausibility => 3.0,
            Signal::StructureDrift | Signal::EchoMismatch | Signal::Determinism => 4.0,
        }
    }

    /// The tier it belongs to.
    pub fn tier(self) -> Tier {
        match self {
            Signal::SchemaMismatch | Signal::PatternMismatch | Signal::LatencyAnomaly | Signal::LengthAnomaly => {
                Tier::Zero
            }
            _ => Tier::One,
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
