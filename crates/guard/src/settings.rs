//! Guard configuration.

use std::{collections::BTreeMap, path::PathBuf};

use credence_protocol::{EntityId, receipt::Vantage};
use credence_verify::{Calibration, Mode, ProfileBuilder, Stake};
use serde::{Deserialize, Serialize};

use crate::{oversight::Rules, quarantine::QuarantineSettings};

/// What is done about a result that is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardMode {
    /// Nothing: it passes, and its `_meta` says what was thought of it.
    Observe,
    /// It passes with a note that the model can read.
    #[default]
    Flag,
    /// One that is blocked does not pass: the model gets an error that explains.
    Enforce,
}

impl GuardMode {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            GuardMode::Observe => "observe",
            GuardMode::Flag => "flag",
            GuardMode::Enforce => "enforce",
        }
    }
}

/// Who calls, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Caller {
    /// The agent.
    pub agent: Option<EntityId>,
    /// The session.
    pub session: Option<String>,
    /// What is at stake.
    pub stake: Option<Stake>,
}

impl Caller {
    /// What this one says, and where it says nothing, what `other` says.
    pub fn or(self, other: &Caller) -> Caller {
        Caller {
            agent: self.agent.or_else(|| other.agent.clone()),
            session: self.session.or_else(|| other.session.clone()),
            stake: self.stake.or(other.stake),
        }
    }
}

/// How a guard works.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The client's label of the server: letters, digits, `.`, `_`, `-`.
    pub name: String,
    /// Under whose name receipts and summaries are signed.
    pub provider: EntityId,
    /// What `guard.toml` and flags say, and which server this is.
    pub rules: Rules,
    /// What the operator said of callers; nobody else can say otherwise.
    pub caller: Caller,
    /// The session of callers who name none.
    pub session: String,
    /// How results are judged.
    pub verify: Mode,
    /// What is known of tools.
    pub profiles: BTreeMap<String, ProfileBuilder>,
    /// Calibrations of all tools (`None`) and of single ones.
    pub calibrations: Vec<(Option<String>, Calibration)>,
    /// Where guards keep their state.
    pub state: PathBuf,
    /// Bytes of receipts kept, over all segments.
    pub max_receipt_bytes: u64,
    /// How much is kept of results that were flagged or withheld.
    pub quarantine: QuarantineSettings,
    /// Who else could write receipts in this guard's name: [`crate::isolation::vantage`] tells.
    pub vantage: Vantage,
    /// Bytes of one message.
    pub max_message_bytes: usize,
    /// Whether a client whose message is not forwarded is shown which byte it was refused for, and the text around it.
    pub explain_refusal: bool,
}

/// Bytes of receipts kept.
pub const DEFAULT_RECEIPT_BYTES: u64 = credence_receipts::book::DEFAULT_MAX_BYTES;
/// Bytes of one message.
pub const DEFAULT_MESSAGE_BYTES: usize = 128 * 1024 * 1024;
/// The share of accepted results of which a made-up variant is judged.
pub const DEFAULT_CANARIES: f64 = 0.02;
