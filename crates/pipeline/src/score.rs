//! Score events: an agent's scores recorded with everything they were made from, after its signals changed.
//!
//! Agents whose signals changed are jobs of [`due::RESCORE`]; they are scored together at most [`SCORE_WITHIN`] later, by both formulas:
//! a `uts/1` event that lists the inputs, and right after it a `uts/2` event that names it. The jobs are put with the signals and taken
//! with the events, so a crash in between loses nothing: the next process to open the ledger finds them, and two that score at once
//! never score the same change twice. What age alone changes is [`crate::age`]'s.

use std::{sync::Arc, time::Duration};

use credence_engine::assured::{self, Model};
use credence_ledger::{Appended, Kind, Ledger, NewEntry, Overlay, Transaction, View, write};
use credence_protocol::{Canonical, EntityId, ScoreStatus, TagRegistry, Timestamp};

use crate::{
    Error, Result, age, due,
    filter::{self, Weights},
    projection, query,
    record::{AssuredRecord, Input, Record, RecordedScore, ScoreEvent, ScoreRecord},
    tables::{self, AssuredRow},
};

/// How long a changed agent waits for its score at most; the rest of a second is for the scoring itself.
pub const SCORE_WITHIN: Duration = Duration::from_millis(800);
/// Agents scored in one unit of work: between two of them signals get their turn.
pub(crate) const AGENTS_PER_WORK: usize = 200;

/// How scores are made.
#[derive(Debug, Clone)]
pub struct Scoring {
    /// The registered tags.
    pub tags: Arc<TagRegistry>,
    /// Coverage below which a score is not published.
    pub coverage_floor: f64,
    /// The assured score's parameters.
    pub model: &'static Model,
}

impl Scoring {
    /// With these tags and this floor.
    pub fn new(tags: TagRegistry, coverage_floor: f64) -> Result<Self> {
        Ok(Self { tags: Arc::new(tags), coverage_floor, model: Model::standard()? })
    }
}

/// New events of one agent: by both formulas, or by `uts/2` alone where only ages have changed.
#[derive(Debug, Clone)]
pub(crate) struct Scored {
    pub agent: EntityId,
    /// The `uts/1` event; none where the newest one stands.
    pub universal: Option<Canonical>,
    /// The `uts/2` event. What it says in `inputs_of` is replaced by the `uts/1` event's seq, where that is new.
    pub assured: Option<AssuredRecord>,
}

/// Scores every agent whose score is due; gives how many agents were. When everyone's is due, that is [`crate::recompute`]'s.
pub fn score_due(ledger: &dyn Ledger, scoring: &Scoring) -> Result<usize> {
    let mut events = 0;
    loop {
        let scoring = scoring.clone();
        let (taken, recorded) = write(ledger, move |tx| {
            let jobs = tx.take_jobs(due::RESCORE, AGENTS_PER_WORK)?;
            let weights = Weights::read(tx)?;
            let mut scores = Vec::new();
            for job in &jobs {
                scores.extend(score_of(tx, &EntityId::new(&job.key)?, &weights, &scoring)?);
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

/// The agent's scores as of now. None for an agent that was never rated and still is not.
pub(crate) fn score_of(
    tx: &dyn Transaction,
    agent: &EntityId,
    weights: &Weights,
    scoring: &Scoring,
) -> Result<Option<Scored>> {
    let inputs = filter::inputs(tx, agent, weights, &scoring.tags)?;
    scored(tx, agent, &inputs, weights, scoring, tx.size()?, tx.stamp()?)
}

/// The events that `inputs` make at `now`.
pub(crate) fn scored(
    view: &(impl View + ?Sized),
    agent: &EntityId,
    inputs: &[Input],
    weights: &Weights,
    scoring: &Scoring,
    as_of: u64,
    now: Timestamp,
) -> Result<Option<Scored>> {
    if inputs.is_empty() {
        let last = tables::universal_of(view, agent)?;
        if last.is_none_or(|last| last.recorded.status == ScoreStatus::Unrated) {
            return Ok(None);
        }
    }
    let independent = weights.voices(inputs).independent();
    let universal = ScoreRecord::compute(agent.clone(), as_of, inputs, independent, scoring.coverage_floor)?;
    let assured = assured_record(agent, as_of, 0, inputs, weights, scoring.model, age::hour_of(now)?)?;
    // An agent of whom nothing was measured that counts gets no event, unless it loses its score by that.
    let is_news = assured.assured.status != ScoreStatus::Unrated
        || tables::assured_of(view, agent)?.is_some_and(|last| last.recorded.assured.status != ScoreStatus::Unrated);
    let assured = is_news.then_some(assured);
    Ok(Some(Scored { agent: agent.clone(), universal: Some(Canonical::of(&universal)?), assured }))
}

/// The assured score of `inputs` at the hour `evaluated_at`.
pub(crate) fn assured_record(
    agent: &EntityId,
    as_of: u64,
    inputs_of: u64,
    inputs: &[Input],
    weights: &Weights,
    model: &Model,
    evaluated_at: Timestamp,
) -> Result<AssuredRecord> {
    Ok(AssuredRecord {
        agent: agent.clone(),
        as_of,
        formula: assured::FORMULA.to_owned(),
        parameters: model.digest().to_owned(),
        inputs_of,
        evaluated_at,
        assured: model.score(&filter::aged(inputs, weights, evaluated_at))?,
    })
}

/// Appends score events and projects them, together; age may change them from the next hour on.
pub(crate) fn record_scores(tx: &mut dyn Transaction, scores: &[Scored]) -> Result<()> {
    Overlay::run(tx, |tx| {
        for Scored { agent, universal, assured } in scores {
            let inputs_of = match universal {
                Some(body) => Some(append(tx, agent, body)?.seq),
                None => None,
            };
            if let Some(assured) = assured {
                let inputs_of = inputs_of.unwrap_or(assured.inputs_of);
                append(tx, agent, &Canonical::of(&AssuredRecord { inputs_of, ..assured.clone() })?)?;
                age::look_later(tx, agent, assured)?;
            }
        }
        Ok(())
    })
}

/// Appends a score event and projects it.
fn append(tx: &mut dyn Transaction, agent: &EntityId, body: &Canonical) -> Result<Appended> {
    let entry = NewEntry { kind: Kind::Score, subject: agent.clone(), body: body.clone(), weight: None };
    let at = tx.append(&entry)?;
    projection::apply(tx, at, agent, &Record::Score(ScoreEvent::parse(at.seq, body.as_str())?))?;
    Ok(at)
}

/// What a score event of `agent` must say, given the tables as they were just before it: everything but what the event itself states
/// of when it was made (`as_of`, the floor, the hour).
pub(crate) fn recorded_again(
    view: &(impl View + ?Sized),
    at: Appended,
    agent: &EntityId,
    event: &ScoreEvent,
    weights: &Weights,
    tags: &TagRegistry,
) -> Result<Canonical> {
    let inputs = filter::inputs(view, agent, weights, tags)?;
    match event {
        ScoreEvent::Universal(event) => universal_again(agent, event, &inputs, weights),
        ScoreEvent::Assured(event) => assured_again(view, at, agent, event, &inputs, weights),
    }
}

fn universal_again(agent: &EntityId, event: &RecordedScore, inputs: &[Input], weights: &Weights) -> Result<Canonical> {
    let independent = weights.voices(inputs).independent();
    let record = ScoreRecord::compute(agent.clone(), event.as_of, inputs, independent, event.coverage_floor)?;
    Ok(Canonical::of(&record)?)
}

fn assured_again(
    view: &(impl View + ?Sized),
    at: Appended,
    agent: &EntityId,
    event: &AssuredRecord,
    inputs: &[Input],
    weights: &Weights,
) -> Result<Canonical> {
    let wrong = |why: String| Err(Error::Ledger(credence_ledger::Error::Entry { seq: at.seq, why }));
    let model = Model::with_digest(&event.parameters)?;
    if event.evaluated_at != age::hour_of(at.recorded_at)? {
        return wrong(format!("it is of {}, which is not the hour that it was recorded in", event.evaluated_at));
    }
    let Some(universal) = tables::universal_of(view, agent)? else {
        return wrong(format!("there is no uts/1 event of '{agent}' before it"));
    };
    // Right after its uts/1 event both have the same inputs.
    if universal.seq + 1 != at.seq && !query::are_inputs_of(view, &universal, inputs)? {
        return wrong(format!("the uts/1 event {} was made of other signals", universal.seq));
    }
    if let Some(why) = tables::assured_of(view, agent)?.and_then(|last| age::too_soon(&last, event, at.recorded_at)) {
        return wrong(why);
    }
    let record = assured_record(agent, event.as_of, universal.seq, inputs, weights, model, event.evaluated_at)?;
    Ok(Canonical::of(&record)?)
}

/// The events of `agent` that are to be recorded at `now`, if its newest ones are behind.
pub(crate) fn news(
    view: &(impl View + ?Sized),
    agent: &EntityId,
    inputs: &[Input],
    weights: &Weights,
    scoring: &Scoring,
    as_of: u64,
    now: Timestamp,
) -> Result<Option<Scored>> {
    let other_floor =
        tables::universal_of(view, agent)?.is_some_and(|row| row.recorded.coverage_floor != scoring.coverage_floor);
    let freshness = match other_floor {
        true => Freshness::Behind,
        false => freshness(view, agent, inputs, weights, scoring.model, Some(now))?,
    };
    match freshness {
        Freshness::UpToDate => Ok(None),
        Freshness::Behind => scored(view, agent, inputs, weights, scoring, as_of, now),
        Freshness::Aged => {
            let Some(last) = tables::assured_of(view, agent)? else { return Ok(None) };
            let hour = age::hour_of(now)?;
            let record = assured_record(agent, as_of, last.recorded.inputs_of, inputs, weights, scoring.model, hour)?;
            Ok(Some(Scored { agent: agent.clone(), universal: None, assured: Some(record) }))
        }
    }
}

/// Whether the newest events of an agent are behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// Both say what would be recorded now, but for small changes by age.
    UpToDate,
    /// The signals, their weights or whose voices they are have changed.
    Behind,
    /// Age alone has changed the assured score.
    Aged,
}

/// Compares the newest events of `agent` with what would be recorded at `now`. Without a `now` age is not looked at.
pub(crate) fn freshness(
    view: &(impl View + ?Sized),
    agent: &EntityId,
    inputs: &[Input],
    weights: &Weights,
    model: &Model,
    now: Option<Timestamp>,
) -> Result<Freshness> {
    let Some(universal) = tables::universal_of(view, agent)? else {
        return Ok(if inputs.is_empty() { Freshness::UpToDate } else { Freshness::Behind });
    };
    if !query::are_inputs_of(view, &universal, inputs)?
        || universal.recorded.sources != weights.voices(inputs).independent()
    {
        return Ok(Freshness::Behind);
    }
    let again = |row: &AssuredRow| {
        let AssuredRecord { as_of, inputs_of, evaluated_at, .. } = row.recorded;
        assured_record(agent, as_of, inputs_of, inputs, weights, model, evaluated_at)
    };
    match tables::assured_of(view, agent)? {
        // Nothing that counts was measured, then and now; or it was, and there is no event of it.
        None => {
            let assured = assured_record(agent, 0, 0, inputs, weights, model, universal.recorded_at)?.assured;
            let rated = assured.status != ScoreStatus::Unrated && !inputs.is_empty();
            Ok(if rated { Freshness::Behind } else { Freshness::UpToDate })
        }
        Some(row) if again(&row)? != row.recorded => Ok(Freshness::Behind),
        Some(row) => match now {
            Some(now) if age::is_due(&row, agent, inputs, weights, model, now)? => Ok(Freshness::Aged),
            _ => Ok(Freshness::UpToDate),
        },
    }
}
