//! Score events: an agent's score recorded with everything it was made from, after its signals changed.
//!
//! Agents whose signals changed wait in the table `pending`; they are scored together at most [`SCORE_WITHIN`] later, one
//! event each. The table is written with the signals and emptied with the events, so a crash in between loses nothing:
//! whoever opens the ledger next finds the agents still waiting.

use std::{
    ops::ControlFlow,
    sync::{Arc, Mutex},
    time::Duration,
};

use credence_ledger::{Appended, Kind, Ledger, Scan, Transaction, View, write};
use credence_protocol::{Canonical, EntityId, TagRegistry};

use crate::{
    Result,
    filter::{self, Weights},
    projection,
    record::{Record, RecordedScore, ScoreRecord},
    tables::{self, ScoreRow},
};

/// How long a changed agent waits for its score at most; the rest of a second is for the scoring itself.
pub const SCORE_WITHIN: Duration = Duration::from_millis(800);
/// Agents scored in one unit of work: between two of them signals get their turn.
const AGENTS_PER_WORK: usize = 200;

/// How scores are made.
#[derive(Debug, Clone)]
pub struct Scoring {
    /// The registered tags.
    pub tags: Arc<TagRegistry>,
    /// Coverage below which a score is not published.
    pub coverage_floor: f64,
    /// Held by whoever scores what is pending: two at once would record the same scores twice.
    pub(crate) turn: Arc<Mutex<()>>,
}

impl Scoring {
    /// With these tags and this floor.
    pub fn new(tags: TagRegistry, coverage_floor: f64) -> Self {
        Self { tags: Arc::new(tags), coverage_floor, turn: Arc::default() }
    }
}

/// Scores every agent that waits by name; gives how many events were recorded. Agents that wait because a weight changed
/// are [`crate::recompute`]'s.
pub fn score_pending(ledger: &dyn Ledger, scoring: &Scoring) -> Result<usize> {
    let mut events = 0;
    loop {
        let scoring = scoring.clone();
        let (agents, recorded) = write(ledger, move |tx| {
            let agents = pending(tx, AGENTS_PER_WORK)?;
            let weights = Weights::read(tx)?;
            let mut recorded = 0;
            for agent in &agents {
                recorded += usize::from(score_agent(tx, agent, &weights, &scoring)?);
                tx.delete(tables::PENDING, agent.as_str())?;
            }
            Ok::<_, crate::Error>((agents.len(), recorded))
        })?;
        events += recorded;
        if agents < AGENTS_PER_WORK {
            return Ok(events);
        }
    }
}

fn pending(view: &(impl View + ?Sized), limit: usize) -> Result<Vec<EntityId>> {
    let mut agents = Vec::new();
    tables::scan(view, tables::PENDING, Scan::all(), |key, _: u64| {
        if key != tables::EVERYONE {
            agents.push(EntityId::new(key)?);
        }
        Ok(if agents.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(agents)
}

/// Records the agent's score as of now. Nothing is recorded for an agent that was never rated and still is not.
pub(crate) fn score_agent(
    tx: &mut dyn Transaction,
    agent: &EntityId,
    weights: &Weights,
    scoring: &Scoring,
) -> Result<bool> {
    let inputs = filter::inputs(tx, agent, weights, &scoring.tags)?;
    if inputs.is_empty() {
        let last: Option<ScoreRow> = tables::get(tx, tables::SCORES, agent.as_str())?;
        if last.is_none_or(|last| last.recorded.status == "unrated") {
            return Ok(false);
        }
    }
    let record = ScoreRecord::compute(agent.clone(), tx.size()?, &inputs, scoring.coverage_floor)?;
    append(tx, agent, &Canonical::of(&record)?)?;
    Ok(true)
}

/// Appends a score event and projects it.
pub(crate) fn append(tx: &mut dyn Transaction, agent: &EntityId, body: &Canonical) -> Result<Appended> {
    let entry =
        credence_ledger::NewEntry { kind: Kind::Score, subject: agent.clone(), body: body.clone(), weight: None };
    let at = tx.append(&entry)?;
    let damaged = |e: serde_json::Error| credence_ledger::Error::Entry { seq: at.seq, why: e.to_string() };
    let recorded: RecordedScore = serde_json::from_str(body.as_str()).map_err(damaged)?;
    projection::apply(tx, at, agent, &Record::Score(recorded))?;
    Ok(at)
}

/// What a score event of `agent` must say, given the tables as they were just before it: everything but `as_of` and the
/// floor, which the event itself states.
pub(crate) fn recorded_again(
    view: &(impl View + ?Sized),
    agent: &EntityId,
    event: &RecordedScore,
    weights: &Weights,
    tags: &TagRegistry,
) -> Result<Canonical> {
    let inputs = filter::inputs(view, agent, weights, tags)?;
    let record = ScoreRecord::compute(agent.clone(), event.as_of, &inputs, event.coverage_floor)?;
    Ok(Canonical::of(&record)?)
}
