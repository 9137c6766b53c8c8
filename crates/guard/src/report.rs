//! What a guard says of itself, in `guard.json` of its place, for `credence guard status`: which server it stands in front of, what it goes by,
//! whether it is switched off or waits before enforcing, and what became of alerts.

use std::{fs, path::Path};

use credence_protocol::{Timestamp, Uuid};
use credence_receipts::Operator;
use serde::{Deserialize, Serialize};

use crate::alerts::AlertCounts;

/// The file's name.
pub const FILE: &str = "guard.json";

/// What a guard says of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GuardReport {
    /// The client's label of the server.
    pub label: String,
    /// Which server that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The name that it declares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declared: Option<String>,
    /// The label led to this server before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<String>,
    /// Names that it has declared before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former_names: Vec<String>,
    /// The strictest mode of its tools, as configured.
    pub mode: String,
    /// The strictest that holds now: `observe` while it is off, `flag` while it waits.
    pub mode_now: String,
    /// The file it is configured by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// What is wrong with the newest version of that file, which does not hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_trouble: Option<String>,
    /// Sections of it that hold from the next start on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restart_for: Vec<String>,
    /// It is switched off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off: Option<Off>,
    /// What is left of the wait before enforcing, longest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<String>,
    /// When the longest time of them is over, if the system is not restarted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_until: Option<Timestamp>,
    /// The wait began anew because its file was gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wait_restarted: bool,
    /// What became of alerts; absent where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alerts: Option<AlertCounts>,
    /// How often a tool or server was found to have changed.
    #[serde(default)]
    pub changes: u64,
    /// The last of these changes, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_changes: Vec<ToldChange>,
}

/// A change that was told. What the result held stays in the quarantine, where it is encrypted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToldChange {
    /// When.
    pub at: Timestamp,
    /// How far it has come, as alerts call it.
    pub reason: String,
    /// The tool; absent where it is the server that changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The call whose result shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<Uuid>,
    /// How many results showed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sightings: Option<u32>,
}

/// Since when it is off, and who did it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Off {
    /// Since when.
    pub since: Timestamp,
    /// Who.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Operator>,
}

impl GuardReport {
    /// That of the guard in `place`.
    pub fn read(place: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(place.join(FILE)).ok()?).ok()
    }
}
