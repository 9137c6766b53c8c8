//! What a guard has counted: verdicts, canaries and controls per agent, over the windows that summaries speak of.
//!
//! The receipts are the record; the count is kept beside them with how far it reaches, and goes on from there. So a guard
//! that was killed counts no call twice and leaves none out.

use std::{collections::BTreeSet, path::Path};

use credence_engine::hcs25::output_verification::{CheckedOutput, Limits, Rollup};
use credence_protocol::Timestamp;
use credence_receipts::{
    CanaryRecord, ControlRecord, CountedCall, ReceiptBook,
    book::{BookEntry, Position},
    folder,
};
use serde::{Deserialize, Serialize};

use crate::{Error, warn};

const FILE: &str = "rollup.json";

/// The count.
#[derive(Default, Serialize, Deserialize)]
pub struct Tally {
    /// The segment up to which receipts are counted, and how many entries of it.
    reach: Position,
    rollup: Rollup,
    /// Agents that have new receipts since they were last reported.
    #[serde(default)]
    changed: BTreeSet<String>,
}

/// A call as the summaries count it.
fn check(counted: &CountedCall) -> CheckedOutput {
    CheckedOutput::new(counted.verdict, counted.posterior, counted.stake, counted.at)
}

impl Tally {
    /// From its file, with whatever receipts came after it.
    pub fn open(folder: &Path, book: Option<&ReceiptBook>) -> Result<Self, Error> {
        let path = folder.join(FILE);
        let mut tally = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|error| {
                warn(&format!("{} cannot be used ({error}): counting begins anew", path.display()));
                Self::default()
            }),
            Err(_) => Self::default(),
        };
        tally.rollup = std::mem::take(&mut tally.rollup).restored(Limits::default());
        let Some(book) = book else { return Ok(tally) };
        // What came after the count was kept, in whichever segment.
        let from = tally.reach;
        tally.reach = book.visit_from(from, &mut |entry, recorded_at| match entry {
            BookEntry::Receipt(receipt) => CountedCall::of(&receipt).into_iter().for_each(|one| tally.add(one)),
            BookEntry::Canary(canary) => tally.add_canary(&canary, recorded_at),
            BookEntry::Control(control) => tally.add_control(&control, recorded_at),
        })?;
        Ok(tally)
    }

    /// How far the count in a guard's folder reaches: the segment, and entries of it.
    pub fn reach_of(folder: &Path) -> Option<Position> {
        let kept: Tally = serde_json::from_slice(&std::fs::read(folder.join(FILE)).ok()?).ok()?;
        Some(kept.reach)
    }

    /// What is counted, with what the other guards in `state` have counted: one provider reports once.
    pub fn together(&self, state: &Path, own: &Path) -> Rollup {
        let copy = serde_json::to_value(&self.rollup).and_then(serde_json::from_value::<Rollup>);
        let mut all = copy.unwrap_or_default().restored(Limits::default());
        for (_, _, folder) in folder::all_places(state).unwrap_or_default() {
            if folder == own {
                continue;
            }
            let other =
                std::fs::read(folder.join(FILE)).ok().and_then(|bytes| serde_json::from_slice::<Tally>(&bytes).ok());
            if let Some(other) = other {
                all.absorb(&other.rollup.restored(Limits::default()));
            }
        }
        all
    }

    /// Keeps it. What it reaches is everything that was written: whoever writes counts under the same lock.
    pub fn save(&self, folder: &Path, book: Option<&ReceiptBook>) -> Result<(), Error> {
        let Some(book) = book else { return Ok(()) };
        let kept = SavedTally { reach: book.position()?, rollup: &self.rollup, changed: &self.changed };
        let bytes = serde_json::to_vec(&kept).map_err(credence_receipts::Error::from)?;
        Ok(folder::replace_file(&folder.join(FILE), &bytes)?)
    }

    /// Counts a call.
    pub fn add(&mut self, counted: CountedCall) {
        let agent = counted.agent.to_string();
        self.rollup.add(&agent, check(&counted));
        self.changed.insert(agent);
    }

    /// Counts a canary.
    pub fn add_canary(&mut self, canary: &CanaryRecord, at: Timestamp) {
        if let Some(agent) = &canary.agent {
            self.rollup.add_canary(agent.as_str(), canary.caught, at);
        }
    }

    /// Counts a control.
    pub fn add_control(&mut self, control: &ControlRecord, at: Timestamp) {
        if let Some(agent) = &control.agent {
            self.rollup.add_control(agent.as_str(), control.rejected, at);
        }
    }

    /// The agents that changed since this was last asked, and what is counted of them.
    pub fn take_changed(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.changed)
    }

    /// These agents have to be reported again.
    pub fn mark_changed(&mut self, agents: BTreeSet<String>) {
        self.changed.extend(agents);
    }
}

#[derive(Serialize)]
struct SavedTally<'a> {
    reach: Position,
    rollup: &'a Rollup,
    changed: &'a BTreeSet<String>,
}
