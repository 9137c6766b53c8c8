//! What the engine says when a tool has changed (docs/adr/0024): not that a result is made up, but that what is usual is
//! about to become something else, or has.

use serde::{Deserialize, Serialize};

/// How far a change has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChangeStage {
    /// The same oddity has come several times. It will be believed if it goes on: look at it now. A lie told again and again
    /// looks the same.
    Recurring,
    /// A doubtful result was learned, on credit or because two sessions agree: the next one like it may be believed.
    Learned,
    /// It has come so often that it is believed from now on.
    Believed,
    /// Every result for a while was blocked. From now on they are flagged, so that a changed tool is not locked out.
    LockedOut,
}

/// A change of a tool, as the engine sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// How far it has come.
    pub stage: ChangeStage,
    /// How many results showed it.
    pub sightings: u32,
    /// What it is, in plain words.
    pub what: String,
}
