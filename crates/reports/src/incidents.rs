//! What went wrong, as the ledger has it, in the order in which it was recorded.
//!
//! The same pass over the entries finds the runs of probes. A score that falls is one where it falls by [`FALL_POINTS`] or more from one event to the next of the same formula. Reasons are
//! words of the operator, reporters are names of tokens: both are text, and are escaped where they are shown.

use std::collections::{BTreeMap, VecDeque};

use credence_ledger::{Entry, Kind, View};
use credence_pipeline::query;
use credence_protocol::{EntityId, Tag};
use serde_json::Value;

use crate::{
    Result,
    contents::{Incident, IncidentKind, KindCount, ProbeRun, ThreatTrials},
};

/// Incidents that are listed: the newest.
pub(crate) const MAX_INCIDENTS: usize = 200;
/// Points by which a score has to fall for it to be an incident.
pub(crate) const FALL_POINTS: i64 = 10;

/// Runs of probes that are listed: the newest.
const MAX_RUNS: usize = 4;
/// The kind of entry that records a run of probes.
const PROBE: &str = "probe";

/// What was recorded about an agent.
#[derive(Default)]
pub(crate) struct Recorded {
    /// Oldest first.
    pub incidents: VecDeque<Incident>,
    /// Older ones that are not listed.
    pub more: u64,
    /// Oldest first.
    pub probe_runs: VecDeque<ProbeRun>,
    counts: BTreeMap<&'static str, KindCount>,
    /// The score of the newest event, by formula.
    scores: BTreeMap<String, i64>,
}

impl Recorded {
    /// Reads every entry about `agent` among the first `size` of the ledger.
    pub(crate) fn read(view: &dyn View, agent: &EntityId, size: u64) -> Result<Self> {
        let mut recorded = Self::default();
        query::entries_about(view, agent, &mut |seq, entry| {
            if seq < size {
                recorded.add(seq, entry)?;
            }
            Ok(())
        })?;
        Ok(recorded)
    }

    /// By kind of entry.
    pub(crate) fn counts(&self) -> Vec<KindCount> {
        self.counts.values().cloned().collect()
    }

    fn add(&mut self, seq: u64, entry: &Entry) -> credence_ledger::Result<()> {
        let kind = entry.kind.key();
        let counted =
            self.counts.entry(kind).or_insert(KindCount { kind: kind.to_owned(), count: 0, first: seq, last: seq });
        counted.count += 1;
        counted.last = seq;
        if kind == PROBE {
            self.probe_runs.extend(probe_run(seq, &entry.record(seq)?));
            if self.probe_runs.len() > MAX_RUNS {
                self.probe_runs.pop_front();
            }
        }
        let body: Value = match entry.kind {
            Kind::Standing
            | Kind::CredentialRevocation
            | Kind::KeyRevocation
            | Kind::Outcome
            | Kind::Resolution
            | Kind::Score
            | Kind::Link
            | Kind::Report => entry.record(seq)?,
            _ => return Ok(()),
        };
        if let Some((kind, what)) = self.incident(entry.kind, &body) {
            self.incidents.push_back(Incident { seq, at: entry.recorded_at, kind, what });
            if self.incidents.len() > MAX_INCIDENTS {
                self.incidents.pop_front();
                self.more += 1;
            }
        }
        Ok(())
    }

    fn incident(&mut self, kind: Kind, body: &Value) -> Option<(IncidentKind, String)> {
        let text = |name: &str| body[name].as_str().unwrap_or_default();
        let reason = match text("reason") {
            "" => String::new(),
            reason => format!(": {reason}"),
        };
        Some(match kind {
            Kind::Standing if body["revoked"] == true => {
                (IncidentKind::Standing, format!("its standing was revoked{reason}"))
            }
            Kind::Standing => (IncidentKind::Standing, format!("its standing was given back{reason}")),
            Kind::CredentialRevocation => {
                (IncidentKind::Credential, format!("a credential about it was taken back{reason}"))
            }
            Kind::KeyRevocation => (IncidentKind::Key, format!("a key of it was revoked{reason}")),
            Kind::Outcome if body["good"] == false => {
                let what = format!("'{}' reports that relying on it went badly", text("reporter"));
                (IncidentKind::Outcome, what)
            }
            Kind::Resolution if body["record"]["outcome"] == "successful" => {
                (IncidentKind::Claim, "a claim of it was refuted in a challenge".to_owned())
            }
            Kind::Link if body["state"] == "broken" => {
                (IncidentKind::Link, format!("its link to {} broke{reason}", text("link")))
            }
            Kind::Report if matches!(text("action"), "corrected" | "withdrawn") => {
                (IncidentKind::Report, format!("a report about it was {}{reason}", text("action")))
            }
            Kind::Score => {
                let (formula, score) = (text("formula").to_owned(), body["score"].as_i64()?);
                let before = self.scores.insert(formula.clone(), score)?;
                if before - score < FALL_POINTS {
                    return None;
                }
                (IncidentKind::Score, format!("its score by {formula} fell from {before} to {score}"))
            }
            _ => return None,
        })
    }
}

/// What a run of probes came to: the trials of each threat's families together.
fn probe_run(seq: u64, body: &Value) -> Option<ProbeRun> {
    let threats = body["threats"].as_array()?.iter().filter_map(|threat| {
        let families = threat["families"].as_array()?;
        let sum = |name: &str| families.iter().filter_map(|family| family[name].as_u64()).sum();
        Some(ThreatTrials {
            tag: Tag::new(threat["tag"].as_str()?).ok()?,
            trials: sum("trials"),
            effected: sum("effected"),
            claimed: sum("claimed"),
            resisted: sum("resisted"),
            inconclusive: sum("inconclusive"),
        })
    });
    Some(ProbeRun { seq, ended_at: body["ended_at"].as_str()?.parse().ok()?, threats: threats.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_run_of_probes_is_told_threat_by_threat() {
        let family = |name: &str, effected: u64| {
            json!({ "family": name, "counted": true, "trials": 10, "effected": effected, "claimed": 1,
                "resisted": 9 - effected, "inconclusive": 0, "over_refusal": 2 })
        };
        let body = json!({ "ended_at": "2026-11-15T12:00:00Z", "threats": [
            { "tag": "asi01_goal_hijack", "finished": true, "families": [family("override", 0), family("document", 4)] },
            { "tag": "asi02_tool_misuse", "finished": true, "families": [] },
        ] });
        let run = probe_run(7, &body).unwrap();
        let told: Vec<_> =
            run.threats.iter().map(|one| (one.tag.as_str(), one.trials, one.effected, one.claimed)).collect();
        assert_eq!((run.seq, told), (7, vec![("asi01_goal_hijack", 20, 4, 2), ("asi02_tool_misuse", 0, 0, 0)]));
        assert!(probe_run(7, &json!({ "threats": 3 })).is_none());
    }
}
