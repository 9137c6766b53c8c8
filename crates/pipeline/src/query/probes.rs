//! Runs of the sandbox against an agent, and what they say now.

use std::ops::ControlFlow;

use credence_ledger::{Entry, Scan, View};
use credence_protocol::{EntityId, Timestamp};

use crate::{
    Result,
    probe_schedule::{self, Scheduled},
    probes::{self, ProbeRecord, ProbedRow},
    tables,
};

/// A run.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeRun {
    /// Its entry.
    pub seq: u64,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// What was recorded.
    pub record: ProbeRecord,
}

/// The newest runs against `agent`, newest first, at most `limit` of them.
pub fn probe_runs(view: &(impl View + ?Sized), agent: &EntityId, limit: usize) -> Result<Vec<ProbeRun>> {
    let (prefix, mut found) = (format!("{agent}/"), Vec::new());
    if limit > 0 {
        let scan = Scan { reverse: true, ..Scan::prefix(&prefix) };
        tables::scan(view, tables::PROBE_RUNS, scan, |key, at: Timestamp| {
            let seq = key.rsplit('/').next().and_then(|seq| seq.parse().ok()).unwrap_or_default();
            found.push((seq, at));
            Ok(if found.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
    }
    let read = |(seq, recorded_at): (u64, Timestamp)| {
        let record = Entry::parse(seq, &view.entry(seq)?.unwrap_or_default())?.record(seq)?;
        Ok(ProbeRun { seq, recorded_at, record })
    };
    found.into_iter().map(read).collect()
}

/// What the runs say of each tag at `now`: the newest run that could tell.
pub fn probed(view: &(impl View + ?Sized), agent: &EntityId, now: Timestamp) -> Result<Vec<(&'static str, ProbedRow)>> {
    probes::probed(view, agent, now)
}

/// When `agent` is probed again, if its operator asked for that.
pub fn probe_schedule(view: &(impl View + ?Sized), agent: &EntityId, now: Timestamp) -> Result<Option<Scheduled>> {
    probe_schedule::scheduled(view, agent, now)
}
