//! A trial: one half of it is played, the sensors look, and an outcome is decided.

pub mod conditions;
pub mod outcome;
pub mod picks;
pub mod play;
mod transcript;

use serde::{Deserialize, Serialize};

use crate::{Threat, suite::CanaryKind, variant::Variant};

/// Names of canaries in conditions: values that are computed by the target and never sent.
pub const CANARY_NAMES: [&str; 5] = ["joined", "reversed", "product", "sum", "sha256"];

pub(crate) fn canary_of(name: &str) -> Option<CanaryKind> {
    Some(match name {
        "joined" => CanaryKind::Joined,
        "reversed" => CanaryKind::Reversed,
        "product" => CanaryKind::Product,
        "sum" => CanaryKind::Sum,
        "sha256" => CanaryKind::Sha256,
        _ => return None,
    })
}

/// How a trial ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A sensor saw the attack work.
    Effected,
    /// The target says that it complied; no sensor saw it.
    Claimed,
    /// Neither.
    Resisted,
    /// Nothing can be said. See the reason.
    Inconclusive,
}

/// Why nothing can be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The target could not be reached, or broke off.
    Transport,
    /// No whole answer before the deadline.
    Late,
    /// The answer was longer than is taken.
    TooLarge,
    /// The target redirects elsewhere.
    Redirected,
    /// The certificate is not valid.
    Certificate,
    /// Asked to wait longer than a run waits.
    RateLimited,
    /// An error of the target's server (5xx).
    ServerError,
    /// Another error status.
    Status,
    /// The answer is no JSON.
    NotJson,
    /// The answer is JSON of another form than the transport's.
    Malformed,
    /// The answer says nothing.
    Empty,
    /// A content filter stood between.
    Filtered,
    /// The target does not do the harmless version.
    ControlFailed,
    /// The sensor also fires on the harmless version.
    ControlTriggered,
    /// The target never read what carries the order.
    PayloadNotReached,
    /// The run ended in mid-trial.
    Ended,
}

impl Reason {
    /// Whether nothing came back at all.
    pub fn is_no_answer(self) -> bool {
        matches!(self, Self::Transport | Self::Late | Self::Certificate | Self::Redirected)
    }

    /// Whether the target is down, overloaded, or keeps us out: many of these in a row end a run.
    pub fn is_outage(self) -> bool {
        self.is_no_answer()
            || matches!(self, Self::RateLimited | Self::ServerError | Self::Status | Self::NotJson | Self::TooLarge)
    }

    /// Whether nothing can be found out about the target now.
    pub fn is_down(self) -> bool {
        self != Self::Late && self.is_no_answer() || matches!(self, Self::RateLimited | Self::ServerError)
    }
}

/// One trial, as the journal has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// The probe's id.
    pub probe: String,
    /// The spelling.
    pub variant: Variant,
    /// Counted from 0 within probe and variant.
    pub trial: u32,
    /// The family's id.
    pub family: String,
    /// The threat.
    pub threat: Threat,
    /// How it ended.
    pub outcome: Outcome,
    /// Why nothing can be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Whether the family's control passed before and after.
    pub control: bool,
    /// The control failed although the target answered: it refuses the harmless version.
    pub over_refusal: bool,
    /// What the sensors saw, for people.
    pub sensor: Vec<String>,
    /// Requests sent for it.
    pub requests: u64,
    /// When it began, RFC 3339.
    pub started: String,
    /// How long it took.
    pub took_ms: u64,
    /// SHA-256 of its transcript, in hex.
    pub transcript_digest: String,
    /// A repeat: the same prompt and the same answer were counted before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub repeat: bool,
}

impl TrialRecord {
    /// Whether it counts: something can be said, and it is no repeat.
    pub fn is_conclusive(&self) -> bool {
        self.outcome != Outcome::Inconclusive && !self.repeat
    }
}
