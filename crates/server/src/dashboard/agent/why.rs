//! "Why this score on this date": the recorded event with its inputs, weights and formula, computed again here.

use credence_engine::{
    assured::Assured,
    coverage::coverage,
    mixture::{Weighted, mix},
    universal::{self, Outcome},
};
use credence_ledger::View;
use credence_pipeline::query::{self, RecordedEvent, RecordedEvents};
use credence_protocol::{EntityId, ScoreStatus, Timestamp};
use serde::Deserialize;

use crate::{
    dashboard::format::{When, encoded},
    problem::Problem,
};

/// A recorded score, and the same computed again.
pub(super) struct Why {
    pub at: When,
    pub recorded: When,
    pub seq: u64,
    pub as_of: u64,
    pub formula: String,
    pub status: ScoreStatus,
    pub inputs: Vec<Input>,
    /// Where there are too many to list: their digest.
    pub digest: Option<(usize, String)>,
    /// Each step of the formula, with numbers.
    pub steps: Vec<Step>,
    /// Whether the same numbers come out, to the last bit.
    pub replayed: Option<bool>,
    /// The assured score in force then.
    pub assured: Option<AssuredThen>,
}

/// An assured score as recorded.
pub(super) struct AssuredThen {
    pub seq: u64,
    pub recorded: When,
    pub formula: String,
    pub line: String,
    pub sum: String,
}

/// A step of the formula, and its numbers.
pub(super) type Step = (String, String);

/// An input as it counted then.
pub(super) struct Input {
    pub seq: u64,
    pub source: String,
    pub source_path: String,
    pub tag: String,
    pub value: f64,
    pub stddev: f64,
    pub weight: f64,
    /// Whether the signal's own entry says so.
    pub as_signed: bool,
}

#[derive(Deserialize)]
struct Event {
    as_of: u64,
    formula: String,
    coverage_floor: f64,
    status: ScoreStatus,
    inputs: Inputs,
    /// Independent sources.
    sources: usize,
    score: Option<u8>,
    mean: Option<f64>,
    stddev: Option<f64>,
    coverage: Option<f64>,
    tier_confidence: Option<f64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Inputs {
    Listed(Vec<Recorded>),
    Digest { count: usize, digest: String },
}

#[derive(Deserialize)]
struct Recorded {
    seq: u64,
    tag: String,
    value: f64,
    stddev: f64,
    weight: f64,
}

/// A date as browsers send it means its end; a time means that time.
pub(super) fn parse(text: &str, now: Timestamp) -> Result<Timestamp, Problem> {
    let wrong =
        |_| Problem::bad_request("bad_query", "at: a date such as 2026-11-16, or a time such as 2026-11-16T12:00:00Z");
    let at: Timestamp = match text.len() {
        10 => format!("{text}T23:59:59.999999Z").parse().map_err(wrong)?,
        _ => text.parse().map_err(wrong)?,
    };
    Ok(at.min(now))
}

/// The score of `agent` that was in force at `at`.
pub(super) fn why(view: &dyn View, agent: &EntityId, at: Timestamp, now: Timestamp) -> Result<Why, Problem> {
    let RecordedEvents { universal: recorded, assured } = query::score_at(view, agent, at)?;
    let assured = assured.map(|event| assured_then(event, now)).transpose()?;
    let event: Event = serde_json::from_value(recorded.event).map_err(|e| Problem::internal(&e))?;
    let (inputs, digest) = match &event.inputs {
        Inputs::Listed(list) => (list.iter().map(|one| input(view, agent, one)).collect::<Result<Vec<_>, _>>()?, None),
        Inputs::Digest { count, digest } => (Vec::new(), Some((*count, digest.clone()))),
    };
    let (steps, replayed) = if digest.is_none() { again(&event, &inputs)? } else { (Vec::new(), None) };
    Ok(Why {
        at: When::new(at, now),
        recorded: When::new(recorded.recorded_at, now),
        seq: recorded.seq,
        as_of: event.as_of,
        formula: event.formula,
        status: event.status,
        inputs,
        digest,
        steps,
        replayed,
        assured,
    })
}

fn assured_then(event: RecordedEvent, now: Timestamp) -> Result<AssuredThen, Problem> {
    #[derive(Deserialize)]
    struct Numbers {
        formula: String,
        #[serde(flatten)]
        numbers: Assured,
    }
    let RecordedEvent { seq, recorded_at, event } = event;
    let Numbers { formula, numbers } = serde_json::from_value(event).map_err(|e| Problem::internal(&e))?;
    let line = query::headline(&numbers);
    Ok(AssuredThen { seq, recorded: When::new(recorded_at, now), formula, line, sum: numbers.sum() })
}

/// The signal itself, in its own entry: who signed it, and whether the score's event says of it what it says.
fn input(view: &dyn View, agent: &EntityId, recorded: &Recorded) -> Result<Input, Problem> {
    #[derive(Deserialize)]
    struct Signed {
        agent: String,
        source: String,
        tags: Vec<String>,
        value: f64,
        stddev: f64,
    }
    let signed: Signed =
        serde_json::from_value(query::record(view, recorded.seq)?).map_err(|e| Problem::internal(&e))?;
    let as_signed = signed.agent == agent.as_str()
        && signed.tags.contains(&recorded.tag)
        && (signed.value, signed.stddev) == (recorded.value, recorded.stddev);
    let Recorded { seq, value, stddev, weight, .. } = *recorded;
    let source_path = format!("/sources#{}", encoded(&signed.source));
    Ok(Input { seq, source: signed.source, source_path, tag: recorded.tag.clone(), value, stddev, weight, as_signed })
}

/// The formula, step by step, on what was recorded; and whether the same came out.
fn again(event: &Event, inputs: &[Input]) -> Result<(Vec<Step>, Option<bool>), Problem> {
    let weighted: Vec<Weighted<&str>> = inputs
        .iter()
        .map(|i| Weighted { source: i.source.as_str(), value: i.value, stddev: i.stddev, weight: i.weight })
        .collect();
    let failed = |e: credence_engine::Error| Problem::internal(&e);
    // Which sources are independent follows from their owners and roots of then, in entries of their own: a replay derives it.
    let outcome = universal::score_with(&weighted, event.sources, event.coverage_floor).map_err(failed)?;
    let Some(mixture) = mix(&weighted).map_err(failed)? else {
        return Ok((Vec::new(), Some(event.status == ScoreStatus::Unrated)));
    };
    let Outcome::Rated(score) = outcome else { return Ok((Vec::new(), Some(event.status == ScoreStatus::Unrated))) };
    let sum: f64 = inputs.iter().map(|i| i.weight * i.value).sum();
    let n = event.sources;
    let steps = [
        ("Σ w".to_owned(), format!("{:.3}, over {} inputs", mixture.weight, inputs.len())),
        ("μ = Σ w·v / Σ w".to_owned(), format!("{sum:.3} / {:.3} = {:.4}", mixture.weight, mixture.mean)),
        ("σ = √(Σ w·(σᵢ² + vᵢ²) / Σ w − μ²)".to_owned(), format!("{:.4}", mixture.stddev)),
        ("coverage = min(1, log₂(n + 1) / log₂ 9)".to_owned(), format!("{n} independent sources: {:.6}", coverage(n))),
        ("mean = μ · coverage".to_owned(), format!("{:.4} · {:.6} = {:.4}", mixture.mean, score.coverage, score.mean)),
        ("stddev = σ · coverage".to_owned(), format!("{:.4}", score.stddev)),
        ("score = round half up(mean)".to_owned(), format!("{}, {}", score.score, score.tier)),
    ];
    let same = inputs.iter().all(|input| input.as_signed)
        && event.formula == universal::FORMULA
        && event.status == score.status
        && event.score == Some(score.score)
        && event.mean == Some(score.mean)
        && event.stddev == Some(score.stddev)
        && event.coverage == Some(score.coverage)
        && event.tier_confidence == Some(score.tier_confidence);
    Ok((steps.into(), Some(same)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn input(source: &str, value: f64) -> Input {
        let (source, tag) = (source.to_owned(), "rel_uptime".to_owned());
        Input { seq: 1, source, source_path: String::new(), tag, value, stddev: 1.0, weight: 1.0, as_signed: true }
    }

    #[test]
    fn what_was_altered_does_not_come_out_the_same() {
        let inputs = [input("a", 90.0), input("b", 80.0)];
        let weighted: Vec<_> = inputs
            .iter()
            .map(|i| Weighted { source: i.source.as_str(), value: i.value, stddev: i.stddev, weight: i.weight })
            .collect();
        let Ok(Outcome::Rated(score)) = universal::score(&weighted, 0.1) else { panic!("two sources rate") };
        let event = |mean: f64, status: &str, formula: &str| -> Event {
            let event = json!({
                "as_of": 9, "formula": formula, "coverage_floor": 0.1, "status": status, "inputs": [], "sources": 2, "score": score.score,
                "mean": mean, "stddev": score.stddev, "coverage": score.coverage, "tier_confidence": score.tier_confidence,
            });
            serde_json::from_value(event).unwrap()
        };
        let same = |event: &Event, inputs: &[Input]| again(event, inputs).unwrap().1;
        assert_eq!(same(&event(score.mean, "published", "uts/1"), &inputs), Some(true));
        assert_eq!(same(&event(score.mean + 1e-9, "published", "uts/1"), &inputs), Some(false));
        assert_eq!(same(&event(score.mean, "partial", "uts/1"), &inputs), Some(false));
        assert_eq!(same(&event(score.mean, "published", "uts/2"), &inputs), Some(false));
        let mut other = [input("a", 90.0), input("b", 80.0)];
        other[0].as_signed = false;
        assert_eq!(same(&event(score.mean, "published", "uts/1"), &other), Some(false));
        assert_eq!(same(&event(score.mean, "published", "uts/1"), &[input("a", 90.0), input("b", 81.0)]), Some(false));
    }
}
