//! What age alone does to the assured score (DESIGN, *Assured score*).
//!
//! Evidence counts less as it gets older, so an assured score moves while nothing is recorded. An event by age is written when the
//! tier or a recommended action changes, or the score by [`MIN_MOVE`] points or more, and at most once in [`MIN_SECONDS`]. It names the
//! same `uts/1` event as the one before it: that is how events by age are told from others.
//!
//! No list of all agents is walked. An hour after an event [`due::AGE`] has a job; when it comes up, the next hour at which there is
//! something to write is searched for (strides that double up to a week, then halving), and the job waits for that hour. An agent
//! whose signals keep coming is never searched for.

use std::{ops::Range, sync::OnceLock};

use credence_engine::{
    assessment::{Action, Rules},
    assured::{Assured, Model},
};
use credence_ledger::{Ledger, Transaction, write};
use credence_protocol::{EntityId, ScoreStatus, Timestamp};

use crate::{
    Result, due,
    filter::{self, Weights},
    record::{AssuredRecord, Input},
    score::{self, AGENTS_PER_WORK, Scored, Scoring},
    tables::{self, AssuredRow},
};

/// Points by which age must move a score to be recorded.
const MIN_MOVE: u8 = 3;
/// Seconds between two events by age of one agent at least: a day.
const MIN_SECONDS: i64 = 86_400;
const HOUR_SECONDS: i64 = 3_600;
const HOUR_MICROS: i64 = HOUR_SECONDS * 1_000_000;
/// Hours between two looks ahead at most: a week.
const MAX_STRIDE_HOURS: i64 = 168;

/// The whole hour, UTC, that `at` is in.
pub(crate) fn hour_of(at: Timestamp) -> Result<Timestamp> {
    Ok(Timestamp::from_micros(at.micros().div_euclid(HOUR_MICROS) * HOUR_MICROS)?)
}

/// An event was recorded: what age does to it is looked at from the next hour on.
pub(crate) fn look_later(tx: &mut dyn Transaction, agent: &EntityId, event: &AssuredRecord) -> Result<()> {
    due::age_at(tx, agent, event.evaluated_at.plus_seconds(HOUR_SECONDS), event.as_of)
}

/// Why `event` is one event by age too many.
pub(crate) fn too_soon(last: &AssuredRow, event: &AssuredRecord, recorded_at: Timestamp) -> Option<String> {
    let by_age = last.recorded.inputs_of == event.inputs_of;
    let allowed = last.aged_at.map(|at| at.plus_seconds(MIN_SECONDS)).filter(|_| by_age)?;
    (recorded_at < allowed).then(|| format!("it is the second event by age within a day, after entry {}", last.seq))
}

/// Whether there is an event by age to be written at `now`.
pub(crate) fn is_due(
    last: &AssuredRow,
    agent: &EntityId,
    inputs: &[Input],
    weights: &Weights,
    model: &Model,
    now: Timestamp,
) -> Result<bool> {
    if last.aged_at.is_some_and(|at| now < at.plus_seconds(MIN_SECONDS)) {
        return Ok(false);
    }
    let then = score::assured_record(agent, 0, 0, inputs, weights, model, hour_of(now)?)?;
    let base = Base::new(&last.recorded.assured, weights.voices(inputs).independent(), model)?;
    Ok(base.has_moved(&then.assured))
}

/// What each context asks for, read once.
fn rules() -> Result<&'static Rules> {
    static STANDARD: OnceLock<std::result::Result<Rules, credence_engine::Error>> = OnceLock::new();
    Ok(STANDARD.get_or_init(Rules::standard).as_ref().map_err(Clone::clone)?)
}

/// The score that a change by age is measured from.
struct Base<'a> {
    assured: &'a Assured,
    model: &'a Model,
    rules: &'static Rules,
    sources: usize,
    actions: Vec<Action>,
}

impl<'a> Base<'a> {
    fn new(assured: &'a Assured, sources: usize, model: &'a Model) -> Result<Self> {
        let rules = rules()?;
        let actions = rules.actions(&model.facts(assured), sources);
        Ok(Self { assured, model, rules, sources, actions })
    }

    fn has_moved(&self, now: &Assured) -> bool {
        let before = self.assured;
        before.tier != now.tier
            || before.status != now.status
            || before.score.abs_diff(now.score) >= MIN_MOVE
            || self.rules.actions(&self.model.facts(now), self.sources) != self.actions
    }
}

/// Writes the events by age that are due; gives how many.
pub fn score_aged(ledger: &dyn Ledger, scoring: &Scoring) -> Result<usize> {
    let mut events = 0;
    if ledger.jobs().next_due(due::AGE)?.is_none() {
        return Ok(events);
    }
    loop {
        let scoring = scoring.clone();
        let (taken, recorded) = write(ledger, move |tx| {
            let jobs = tx.take_jobs(due::AGE, AGENTS_PER_WORK)?;
            if jobs.is_empty() {
                return Ok((0, 0));
            }
            let (weights, now) = (Weights::read(tx)?, tx.stamp()?);
            let (mut scores, mut later) = (Vec::new(), Vec::new());
            for job in &jobs {
                let agent = EntityId::new(&job.key)?;
                // Where a newer score is on its way, age is looked at after that.
                if due::awaits_score(tx, &agent)? {
                    continue;
                }
                let aged = aged(tx, &agent, &weights, &scoring, now)?;
                later.extend(aged.next.map(|at| (agent, at)));
                scores.extend(aged.event);
            }
            score::record_scores(tx, &scores)?;
            let size = tx.size()?;
            later.iter().try_for_each(|(agent, at)| due::age_at(tx, agent, *at, size))?;
            Ok::<_, crate::Error>((jobs.len(), scores.len()))
        })?;
        events += recorded;
        if taken < AGENTS_PER_WORK {
            return Ok(events);
        }
    }
}

/// What is to be written of one agent, and when to look again.
#[derive(Default)]
struct Aged {
    event: Option<Scored>,
    next: Option<Timestamp>,
}

fn aged(tx: &dyn Transaction, agent: &EntityId, weights: &Weights, scoring: &Scoring, now: Timestamp) -> Result<Aged> {
    let Some(last) = tables::assured_of(tx, agent)? else { return Ok(Aged::default()) };
    let inputs = filter::inputs(tx, agent, weights, &scoring.tags)?;
    let event = score::news(tx, agent, &inputs, weights, scoring, tx.size()?, now)?;
    let new = event.as_ref().and_then(|event| event.assured.as_ref());
    let aged_at = if new.is_some() { Some(now) } else { last.aged_at };
    let base = new.map_or(&last.recorded.assured, |event| &event.assured);
    let allowed = aged_at.map_or(now, |at| at.plus_seconds(MIN_SECONDS));
    let next = next_change(base, &inputs, weights, scoring.model, hour_of(now)?)?;
    // An hour begins after the time that is allowed, never before.
    let allowed = hour_of(allowed.plus_seconds(HOUR_SECONDS - 1))?;
    Ok(Aged { next: next.map(|at| at.max(allowed)), event })
}

/// The first hour after `from` at which age has moved the score away from `base`; none where it never does.
fn next_change(
    base: &Assured,
    inputs: &[Input],
    weights: &Weights,
    model: &Model,
    from: Timestamp,
) -> Result<Option<Timestamp>> {
    if base.status == ScoreStatus::Unrated || inputs.is_empty() {
        return Ok(None);
    }
    let base = Base::new(base, weights.voices(inputs).independent(), model)?;
    let moved = |hours: i64| -> Result<bool> {
        let at = from.plus_seconds(hours * HOUR_SECONDS);
        Ok(base.has_moved(&model.score(&filter::aged(inputs, weights, at))?))
    };
    let Some(found) = first_after(hours_of_change(inputs, model, from), &moved)? else { return Ok(None) };
    Ok(Some(from.plus_seconds(found * HOUR_SECONDS)))
}

/// The hours from `from` on in which age changes anything: until the last input has expired.
fn hours_of_change(inputs: &[Input], model: &Model, from: Timestamp) -> Range<i64> {
    let parameters = model.parameters();
    let left = |input: &Input| {
        let half_life = parameters.tags.get(input.tag.as_str()).map_or(0.0, |tag| tag.half_life_days);
        let hours = (parameters.expires_after_half_lives * half_life * 24.0).ceil() as i64 + 1;
        hours - from.micros().saturating_sub(input.observed_at).max(0) / HOUR_MICROS
    };
    0..inputs.iter().map(left).max().unwrap_or(0).max(0)
}

/// The first of `hours` after its start at which `moved` holds: by strides that double up to a week, and then by halving.
fn first_after(hours: Range<i64>, moved: &dyn Fn(i64) -> Result<bool>) -> Result<Option<i64>> {
    let (mut low, mut stride) = (hours.start, 1);
    while low < hours.end {
        let mut high = low + stride;
        if moved(high)? {
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if moved(middle)? { high = middle } else { low = middle }
            }
            return Ok(Some(high));
        }
        (low, stride) = (high, (stride * 2).min(MAX_STRIDE_HOURS));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_hour_is_found() {
        for wanted in [1, 2, 3, 7, 100, 167, 168, 169, 1000, 9_999] {
            let found = first_after(0..10_000, &|hour| Ok(hour >= wanted)).unwrap();
            assert_eq!(found, Some(wanted));
        }
        assert_eq!(first_after(0..10_000, &|_| Ok(false)).unwrap(), None);
    }

    #[test]
    fn hours_are_whole_also_before_1970() {
        let hour = |text: &str| hour_of(text.parse().unwrap()).unwrap().to_string();
        assert_eq!(hour("2026-11-15T12:59:59.999999Z"), hour("2026-11-15T12:00:00Z"));
        assert_eq!(hour("1969-12-31T23:30:00Z"), hour("1969-12-31T23:00:00Z"));
    }
}
