//! Scores over time, as they were recorded.

use std::ops::ControlFlow;

use credence_ledger::{Entry, Scan, View};
use credence_protocol::{EntityId, Timestamp};
use serde::Serialize;
use serde_json::Value;

use crate::{
    Error, Result,
    tables::{self, ScoreRow},
    times::Times,
};

/// The score event that was in force at a time, whole, as recorded.
#[derive(Debug, Serialize)]
pub struct RecordedEvent {
    /// Its entry.
    pub seq: u64,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// The event: inputs, weights, formula and every number.
    pub event: Value,
}

/// The score event of `agent` in force at `at`, by the time of recording.
pub fn score_at(view: &dyn View, agent: &EntityId, at: Timestamp) -> Result<RecordedEvent> {
    let row = last_score_before(view, agent, size_at(view, at)?)?;
    let row = row.ok_or_else(|| Error::NotThen(format!("agent '{agent}' had no score at {at}")))?;
    Ok(RecordedEvent { seq: row.seq, recorded_at: row.recorded_at, event: super::record(view, row.seq)? })
}

fn last_score_before(view: &dyn View, agent: &EntityId, size: u64) -> Result<Option<ScoreRow>> {
    let (prefix, until) = (format!("{agent}/"), tables::agent_seq(agent, size));
    let mut found = None;
    let scan = Scan { prefix: &prefix, after: Some(&until), reverse: true };
    tables::scan(view, tables::SCORE_EVENTS, scan, |_, row: ScoreRow| {
        found = Some(row);
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}

/// The last score of `agent` before each of these sizes of the ledger.
pub fn closings(view: &dyn View, agent: &EntityId, sizes: &[u64]) -> Result<Vec<Option<ScoreRow>>> {
    sizes.iter().map(|size| last_score_before(view, agent, *size)).collect()
}

/// How many entries had been recorded at `at`: times never go back once they are put right, so halving finds it.
pub fn size_at(view: &dyn View, at: Timestamp) -> Result<u64> {
    let times = Times::read(view)?;
    let (mut low, mut high) = (0, view.size()?);
    while low < high {
        let middle = low + (high - low) / 2;
        let bytes = view.entry(middle)?.unwrap_or_default();
        if times.of(middle, Entry::parse(middle, &bytes)?.recorded_at) <= at {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

/// An agent's scores, newest first, at most `limit` of them.
pub fn history(view: &dyn View, agent: &EntityId, limit: usize) -> Result<Vec<ScoreRow>> {
    let mut rows = Vec::new();
    if limit == 0 {
        return Ok(rows);
    }
    let prefix = format!("{agent}/");
    let scan = Scan { reverse: true, ..Scan::prefix(&prefix) };
    tables::scan(view, tables::SCORE_EVENTS, scan, |_, row: ScoreRow| {
        rows.push(row);
        Ok(if rows.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(rows)
}
