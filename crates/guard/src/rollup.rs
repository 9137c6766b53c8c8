//! What a guard has counted: verdicts and canaries per agent, over the windows that summaries speak of.
//!
//! The receipts are the record; the count is kept beside them with how far it reaches, and goes on from there. So a guard
//! that was killed counts no call twice and leaves none out.

use std::{collections::BTreeSet, path::Path};

use credence_engine::hcs25::output_verification::{CheckedOutput, Limits, Rollup};
use credence_ledger::{Kind, Ledger};
use credence_protocol::{EntityId, Timestamp, receipt::Receipt};
use serde::{Deserialize, Serialize};

use crate::{
    Error, folder,
    receipts::{CanaryRecord, Recorder},
    segments::visit,
    warn,
};

const FILE: &str = "rollup.json";

/// The count.
#[derive(Default, Serialize, Deserialize)]
pub struct Tally {
    /// The segment up to which receipts are counted, and how many entries of it.
    reach: (u64, u64),
    rollup: Rollup,
    /// Agents that have new receipts since they were last reported.
    #[serde(default)]
    changed: BTreeSet<String>,
}

/// What counts of a receipt.
#[derive(Debug, Clone)]
pub struct Counted {
    agent: EntityId,
    output: CheckedOutput,
}

impl Counted {
    /// Of a call that was judged, of an agent that has a name.
    pub fn of(receipt: &Receipt) -> Option<Self> {
        let (Some(agent), Some(verdict), Some(posterior)) = (&receipt.agent, receipt.verdict, receipt.posterior) else {
            return None;
        };
        let output = CheckedOutput::new(verdict, posterior, receipt.stake, receipt.started_at);
        Some(Self { agent: agent.clone(), output })
    }
}

impl Tally {
    /// From its file, with whatever receipts came after it.
    pub fn open(folder: &Path, recorder: Option<&Recorder>) -> Result<Self, Error> {
        let path = folder.join(FILE);
        let mut tally = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|error| {
                warn(&format!("{} cannot be used ({error}): counting begins anew", path.display()));
                Self::default()
            }),
            Err(_) => Self::default(),
        };
        tally.rollup = std::mem::take(&mut tally.rollup).restored(Limits::default());
        let Some(recorder) = recorder else { return Ok(tally) };
        // What came after the count was kept, in whichever segment.
        let (segment, entries) = tally.reach;
        for number in recorder.segments()?.into_iter().filter(|number| *number >= segment) {
            let ledger = match recorder.segment(number) {
                Ok(ledger) => ledger,
                // `credence receipts verify` shows it.
                Err(error) => {
                    warn(&format!(
                        "the receipts of segment {number} that were not counted yet are not counted: {error}"
                    ));
                    continue;
                }
            };
            let view = ledger.view()?;
            let from = if number == segment { entries } else { 0 };
            visit(&*view, from, &mut |seq, _, entry| {
                match entry.kind {
                    Kind::Receipt => Counted::of(&entry.record(seq)?).into_iter().for_each(|one| tally.add(one)),
                    Kind::Canary => tally.add_canary(&entry.record(seq)?, entry.recorded_at),
                    _ => {}
                }
                Ok(())
            })?;
            tally.reach = (number, view.size()?);
        }
        Ok(tally)
    }

    /// How far the count in a guard's folder reaches: the segment, and entries of it.
    pub fn reach_of(folder: &Path) -> Option<(u64, u64)> {
        let kept: Tally = serde_json::from_slice(&std::fs::read(folder.join(FILE)).ok()?).ok()?;
        Some(kept.reach)
    }

    /// What is counted, with what the other guards in `state` have counted: one provider reports once.
    pub fn together(&self, state: &Path, own: &Path) -> Rollup {
        let copy = serde_json::to_value(&self.rollup).and_then(serde_json::from_value::<Rollup>);
        let mut all = copy.unwrap_or_default().restored(Limits::default());
        for (_, _, folder) in folder::all(state).unwrap_or_default() {
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
    pub fn save(&self, folder: &Path, recorder: Option<&Recorder>) -> Result<(), Error> {
        let Some(recorder) = recorder else { return Ok(()) };
        let (number, ledger) = recorder.current();
        let kept = Kept { reach: (number, ledger.committed()?), rollup: &self.rollup, changed: &self.changed };
        let bytes = serde_json::to_vec(&kept).map_err(|e| Error::Receipts(e.to_string()))?;
        folder::replace(&folder.join(FILE), &bytes)
    }

    /// Counts a call.
    pub fn add(&mut self, counted: Counted) {
        let agent = counted.agent.to_string();
        self.rollup.add(&agent, counted.output);
        self.changed.insert(agent);
    }

    /// Counts a canary.
    pub fn add_canary(&mut self, canary: &CanaryRecord, at: Timestamp) {
        if let Some(agent) = &canary.agent {
            self.rollup.add_canary(agent.as_str(), canary.caught, at);
        }
    }

    /// The agents that changed since this was last asked, and what is counted of them.
    pub fn take_changed(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.changed)
    }

    /// Those agents have to be reported again.
    pub fn changed_again(&mut self, agents: BTreeSet<String>) {
        self.changed.extend(agents);
    }
}

#[derive(Serialize)]
struct Kept<'a> {
    reach: (u64, u64),
    rollup: &'a Rollup,
    changed: &'a BTreeSet<String>,
}
