//! Score events: an agent's score recorded with everything it was made from, after its signals changed.
//!
//! Agents whose signals changed are jobs of [`due::RESCORE`]; they are scored together at most [`SCORE_WITHIN`] later, one event
//! each. The jobs are put with the signals and taken with the events, so a crash in between loses nothing: the next process to open the
//! ledger finds them, and two that score at once never score the same change twice.

use std::{sync::Arc, time::Duration};

use credence_ledger::{Appended, Kind, Ledger, Overlay, Transaction, View, write};
use credence_protocol::{Canonical, EntityId, ScoreStatus, TagRegistry};

use crate::{
    Result, due,
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
}

impl Scoring {
    /// With these tags and this floor.
    pub fn new(tags: TagRegistry, coverage_floor: f64) -> Self {
        Self { tags: Arc::new(tags), coverage_floor }
    }
}

/// Scores every agent whose score is due; gives how many events were recorded. When everyone's is due, that is
/// [`crate::recompute`]'s.
pub fn score_due(ledger: &dyn Ledger, scoring: &Scoring) -> Result<usize> {
    let mut events = 0;
    loop {
        let scoring = scoring.clone();
        let (taken, recorded) = write(ledger, move |tx| {
            let jobs = tx.take_jobs(due::RESCORE, AGENTS_PER_WORK)?;
            let weights = Weights::read(tx)?;
            let mut scores = Vec::new();
            for job in &jobs {
                let agent = EntityId::new(&job.key)?;
                if let Some(body) = score_of(tx, &agent, &weights, &scoring)? {
                    scores.push((agent, body));
                }
            }
            record_scores(tx, &scores)?;
            Ok::<_, crate::Error>((jobs.len(), scores.len()))
        })?;
        events += recorded;
        if taken < AGENTS_PER_WORK {
            return Ok(events);
        }
    }
}

/// The agent's score as of now. None for an agent that was never rated and still is not.
pub(crate) fn score_of(
    tx: &dyn Transaction,
    agent: &EntityId,
    weights: &Weights,
    scoring: &Scoring,
) -> Result<Option<Canonical>> {
    let inputs = filter::inputs(tx, agent, weights, &scoring.tags)?;
    if inputs.is_empty() {
        let last: Option<ScoreRow> = tables::get(tx, tables::SCORES, agent.as_str())?;
        if last.is_none_or(|last| last.recorded.status == ScoreStatus::Unrated) {
            return Ok(None);
        }
    }
    let record = ScoreRecord::compute(agent.clone(), tx.size()?, &inputs, scoring.coverage_floor)?;
    Ok(Some(Canonical::of(&record)?))
}

/// Appends score events and projects them, together.
pub(crate) fn record_scores(tx: &mut dyn Transaction, scores: &[(EntityId, Canonical)]) -> Result<()> {
    Overlay::run(tx, |tx| scores.iter().try_for_each(|(agent, body)| append(tx, agent, body).map(drop)))
}

/// Appends a score event and projects it.
fn append(tx: &mut dyn Transaction, agent: &EntityId, body: &Canonical) -> Result<Appended> {
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
