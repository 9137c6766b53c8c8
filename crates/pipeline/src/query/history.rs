//! Scores over time, as they were recorded.

use std::ops::ControlFlow;

use credence_engine::{assured, universal};
use credence_ledger::{Entry, Scan, View};
use credence_protocol::{EntityId, Timestamp};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    Error, Result,
    tables::{self, AssuredRow, ScoreRow},
    times::Times,
};

/// A score event that was in force at a time, whole, as recorded.
#[derive(Debug, Serialize)]
pub struct RecordedEvent {
    /// Its entry.
    pub seq: u64,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// The event: formula and every number; inputs and weights, where it lists them.
    pub event: Value,
}

/// The score events of both formulas that were in force at a time.
#[derive(Debug, Serialize)]
pub struct RecordedEvents {
    /// By `uts/1`.
    #[serde(flatten)]
    pub universal: RecordedEvent,
    /// By `uts/2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assured: Option<RecordedEvent>,
}

/// The score events of `agent` in force at `at`, by the time of recording.
pub fn score_at(view: &dyn View, agent: &EntityId, at: Timestamp) -> Result<RecordedEvents> {
    let size = size_at(view, at)?;
    let row: Option<ScoreRow> = last_before(view, agent, universal::FORMULA, size)?;
    let row = row.ok_or_else(|| Error::NotThen(format!("agent '{agent}' had no score at {at}")))?;
    let event = |seq, recorded_at| Ok::<_, Error>(RecordedEvent { seq, recorded_at, event: super::record(view, seq)? });
    let assured: Option<AssuredRow> = last_before(view, agent, assured::FORMULA, size)?;
    let assured = assured.map(|row| event(row.seq, row.recorded_at)).transpose()?;
    Ok(RecordedEvents { universal: event(row.seq, row.recorded_at)?, assured })
}

fn last_before<T: DeserializeOwned>(view: &dyn View, agent: &EntityId, formula: &str, size: u64) -> Result<Option<T>> {
    let (prefix, until) =
        (format!("{}/", tables::score_place(agent, formula)), tables::score_event_place(agent, formula, size));
    let mut found = None;
    let scan = Scan { prefix: &prefix, after: Some(&until), reverse: true };
    tables::scan(view, tables::SCORE_EVENTS, scan, |_, row| {
        found = Some(row);
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}

/// The last score of `agent` before each of these sizes of the ledger.
pub fn closings(view: &dyn View, agent: &EntityId, sizes: &[u64]) -> Result<Vec<Option<ScoreRow>>> {
    sizes.iter().map(|size| last_before(view, agent, universal::FORMULA, *size)).collect()
}

/// The last assured score of `agent` before each of these sizes of the ledger.
pub fn assured_closings(view: &dyn View, agent: &EntityId, sizes: &[u64]) -> Result<Vec<Option<AssuredRow>>> {
    sizes.iter().map(|size| last_before(view, agent, assured::FORMULA, *size)).collect()
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

/// An agent's universal scores, newest first, at most `limit` of them.
pub fn history(view: &dyn View, agent: &EntityId, limit: usize) -> Result<Vec<ScoreRow>> {
    newest(view, agent, universal::FORMULA, limit)
}

/// An agent's assured scores, newest first, at most `limit` of them.
pub fn assured_history(view: &dyn View, agent: &EntityId, limit: usize) -> Result<Vec<AssuredRow>> {
    newest(view, agent, assured::FORMULA, limit)
}

fn newest<T: DeserializeOwned>(view: &dyn View, agent: &EntityId, formula: &str, limit: usize) -> Result<Vec<T>> {
    let mut rows = Vec::new();
    if limit == 0 {
        return Ok(rows);
    }
    let prefix = format!("{}/", tables::score_place(agent, formula));
    let scan = Scan { reverse: true, ..Scan::prefix(&prefix) };
    tables::scan(view, tables::SCORE_EVENTS, scan, |_, row| {
        rows.push(row);
        Ok(if rows.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(rows)
}
