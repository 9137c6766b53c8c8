//! The checks: the seed's eight with their default likelihood ratios (seed 2, "Signal Types & Likelihood Ratios"), and the
//! three that mode adaptive adds.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Stage;

/// One test of a result. In JSON, and in the seed, checks are called signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
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

impl Check {
    /// All of them, in the order in which they are combined.
    pub const ALL: [Check; 11] = [
        Check::SchemaMismatch,
        Check::PatternMismatch,
        Check::LatencyAnomaly,
        Check::LengthAnomaly,
        Check::HistoricalInconsistency,
        Check::SessionInconsistency,
        Check::SpcAnomaly,
        Check::ValuePlausibility,
        Check::StructureDrift,
        Check::EchoMismatch,
        Check::Determinism,
    ];

    /// The name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Check::SchemaMismatch => "schema_mismatch",
            Check::PatternMismatch => "pattern_mismatch",
            Check::LatencyAnomaly => "latency_anomaly",
            Check::LengthAnomaly => "length_anomaly",
            Check::HistoricalInconsistency => "historical_inconsistency",
            Check::SessionInconsistency => "session_inconsistency",
            Check::SpcAnomaly => "spc_anomaly",
            Check::ValuePlausibility => "value_plausibility",
            Check::StructureDrift => "structure_drift",
            Check::EchoMismatch => "echo_mismatch",
            Check::Determinism => "determinism",
        }
    }

    /// The check of this name.
    pub fn from_name(name: &str) -> Option<Check> {
        Check::ALL.into_iter().find(|check| check.name() == name)
    }

    /// P(fires | fabricated) / P(fires | genuine), before any calibration. The three of mode adaptive have no fixed ratio:
    /// these are what they are worth on a tool hardly known yet.
    pub fn default_ratio(self) -> f64 {
        match self {
            Check::SchemaMismatch => 12.0,
            Check::PatternMismatch => 6.0,
            Check::LatencyAnomaly => 3.5,
            Check::LengthAnomaly => 2.0,
            Check::HistoricalInconsistency => 4.5,
            Check::SessionInconsistency => 4.0,
            Check::SpcAnomaly | Check::ValuePlausibility => 3.0,
            Check::StructureDrift | Check::EchoMismatch | Check::Determinism => 4.0,
        }
    }

    /// The stage it belongs to.
    pub fn stage(self) -> Stage {
        match self {
            Check::SchemaMismatch | Check::PatternMismatch | Check::LatencyAnomaly | Check::LengthAnomaly => {
                Stage::Zero
            }
            _ => Stage::One,
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
