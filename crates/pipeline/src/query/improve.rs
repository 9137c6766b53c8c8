//! What would raise an agent's assured score most: the score computed again with one thing different, for each of a few things.
//!
//! | step | what is different |
//! |---|---|
//! | `measure` | nothing was measured in a dimension, and a fully trusted source measures all of it |
//! | `confirm` | one more independent, fully trusted source measures what is measured, and finds the same |
//! | `refresh` | everything that was measured in a dimension is measured again today, with the same results |
//! | `repair` | the worst tag of security gets as good as the others of its dimension |
//!
//! A new source is assumed to find what the others found on average; where nobody measured, what is believed of the agent. So these
//! are no promises: they say where evidence is missing.

use credence_engine::assured::{Assured, Dimension, Model, Signal};
use serde::Serialize;

use super::CurrentScore;
use crate::{
    Result,
    filter::{self, Weights},
};

/// Improvements listed at most.
const MAX_LISTED: usize = 3;
/// A source that no agent has: ids have no spaces.
const NEWCOMER: &str = "a new source";
/// What is assumed of a new source's uncertainty.
const ASSUMED_STDDEV: f64 = 3.0;

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// Have it measured at all.
    Measure,
    /// Have another independent source measure it.
    Confirm,
    /// Have it measured again.
    Refresh,
    /// Mend what was found.
    Repair,
}

/// Something that would raise an agent's assured score.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Improvement {
    /// What to do.
    pub step: Step,
    /// In which dimension.
    pub dimension: Dimension,
    /// The tag to mend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The score that would follow.
    pub score: u8,
    /// Points more than now.
    pub gain: u8,
}

impl std::fmt::Display for Improvement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { step, dimension, tag, score, gain } = self;
        let dimension = dimension.name();
        match step {
            Step::Measure => write!(f, "measure {dimension}, of which nothing is known")?,
            Step::Confirm => write!(f, "have another independent source measure {dimension}")?,
            Step::Refresh => write!(f, "measure {dimension} again: what is known is old")?,
            Step::Repair => write!(f, "mend {}, the worst of {dimension}", tag.as_deref().unwrap_or(dimension))?,
        }
        write!(f, ": +{gain}, to {score}")
    }
}

/// What would raise `score` most, the largest gain first.
pub(super) fn improvements(score: &CurrentScore, weights: &Weights) -> Result<Vec<Improvement>> {
    let Some(assured) = &score.assured else { return Ok(Vec::new()) };
    let model = Model::standard()?;
    let signals = filter::aged(&score.inputs, weights, assured.evaluated_at);
    let mut all = Vec::new();
    for dimension in Dimension::ALL {
        if model.parameters().dimensions.get(&dimension).is_some_and(|one| one.weight > 0.0) {
            all.extend(in_dimension(model, &signals, &assured.numbers, dimension)?);
        }
    }
    all.retain(|one| one.gain > 0);
    // What was found first stays first among equals.
    all.sort_by_key(|one| std::cmp::Reverse(one.gain));
    all.truncate(MAX_LISTED);
    Ok(all)
}

fn in_dimension<'a>(
    model: &'a Model,
    signals: &[Signal<'a>],
    now: &Assured,
    dimension: Dimension,
) -> Result<Vec<Improvement>> {
    let within = |signal: &&Signal<'_>| model.dimension_of(signal.tag) == Some(dimension);
    let values: Vec<f64> = signals.iter().filter(within).map(|signal| signal.value).collect();
    let mean = if values.is_empty() { now.estimate } else { values.iter().sum::<f64>() / values.len() as f64 };
    let newcomer = |tag: &'a str| Signal {
        source: NEWCOMER,
        owner: None,
        roots: &[],
        tag,
        value: mean,
        stddev: ASSUMED_STDDEV,
        weight: 1.0,
        age_days: 0.0,
    };
    let improved = |step, tag: Option<&str>, changed: Vec<Signal<'_>>| -> Result<Improvement> {
        let score = model.score(&changed)?.score;
        let (tag, gain) = (tag.map(str::to_owned), score.saturating_sub(now.score));
        Ok(Improvement { step, dimension, tag, score, gain })
    };
    let added = signals.iter().copied().chain(model.tags_of(dimension).map(newcomer)).collect();
    if values.is_empty() {
        return Ok(vec![improved(Step::Measure, None, added)?]);
    }
    let measured = |tag: &str| signals.iter().any(|signal| signal.tag == tag);
    let confirmed: Vec<Signal<'_>> =
        signals.iter().copied().chain(model.tags_of(dimension).filter(|tag| measured(tag)).map(newcomer)).collect();
    let mut all = vec![improved(Step::Confirm, None, confirmed)?];
    let renewed = signals.iter().map(|signal| match within(&signal) {
        true => Signal { age_days: 0.0, ..*signal },
        false => *signal,
    });
    all.push(improved(Step::Refresh, None, renewed.collect())?);
    let weakest = now.dimensions.get(&dimension).and_then(|numbers| numbers.weakest.as_deref());
    if let Some(weakest) = weakest {
        let mended = signals.iter().map(|signal| match signal.tag == weakest && signal.value < mean {
            true => Signal { value: mean, age_days: 0.0, ..*signal },
            false => *signal,
        });
        all.push(improved(Step::Repair, Some(weakest), mended.collect())?);
    }
    Ok(all)
}
