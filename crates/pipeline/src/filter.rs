//! Which signals a score is made of: the agent's current ones, from a source of weight above 0, under a tag that is not
//! deferred (seed 4, "pipeline/filter"): by the newest `tag` entry, or else by the registry.

use std::{collections::BTreeMap, ops::ControlFlow};

use credence_engine::{
    assured::{self, Assured, AssuredFacts, Measurement, Model},
    certification::Fact,
    universal::Weighted,
    voices::{Speaker, Voices},
};
use credence_ledger::{Scan, View};
use credence_protocol::{EntityId, Root, Tag, TagRegistry, Timestamp};

use crate::{
    Result,
    record::Input,
    summaries,
    tables::{self, AgentRow, CurrentRow, SourceRow},
    tags::Deferral,
};

/// The weight of every source, now, on whom it has no say, and which tags count.
#[derive(Debug, Clone, Default)]
pub struct Weights {
    sources: BTreeMap<EntityId, Weight>,
    tags: Deferral,
}

#[derive(Debug, Clone, Default)]
struct Weight {
    weight: f64,
    owner: Option<EntityId>,
    roots: Vec<Root>,
    /// The verification providers of the agent that runs the source: it must not carry those who vouch for it.
    vouched_for_by: Vec<String>,
}

impl Weights {
    /// Reads them.
    pub fn read(view: &(impl View + ?Sized)) -> Result<Self> {
        let mut weights = BTreeMap::new();
        for (source, row) in tables::all::<SourceRow>(view, tables::SOURCES)? {
            let mut vouched_for_by = summaries::providers_of(view, &source)?;
            if let Some(owner) = &row.owner {
                vouched_for_by.extend(summaries::providers_of(view, owner.as_str())?);
            }
            let SourceRow { weight, owner, roots, .. } = row;
            weights.insert(EntityId::new(&source)?, Weight { weight, owner, roots, vouched_for_by });
        }
        Ok(Self { sources: weights, tags: Deferral::read(view)? })
    }

    /// Whether `tag` is left out of scores.
    pub(crate) fn is_deferred(&self, tag: &str, registry: &TagRegistry) -> bool {
        self.tags.is_deferred(tag, registry)
    }

    /// The source as it is known, and its weight.
    fn find(&self, source: &str) -> Option<(&EntityId, f64)> {
        self.sources.get_key_value(source).map(|(source, known)| (source, known.weight))
    }

    /// The source of an input, by what decides whose voice it is.
    fn speaker<'a>(&'a self, input: &'a Input) -> Speaker<'a> {
        let known = self.sources.get(&input.source);
        Speaker {
            source: input.source.as_str(),
            owner: known.and_then(|known| known.owner.as_ref()).map(EntityId::as_str),
            roots: known.map_or(&[], |known| &known.roots),
            weight: input.weight,
        }
    }

    /// Whose voices the inputs are: the n of `uts/1` and of every requirement, and the groups of `uts/2`.
    pub fn voices(&self, inputs: &[Input]) -> Voices {
        Voices::of(&inputs.iter().map(|input| self.speaker(input)).collect::<Vec<_>>())
    }

    /// Whether `source` has no say on `agent`: it is the agent, or is run by the same owner.
    fn is_kin(&self, source: &EntityId, agent: &str, owner: Option<&EntityId>) -> bool {
        let theirs = self.sources.get(source).and_then(|known| known.owner.as_ref());
        source.as_str() == agent
            || theirs.is_some_and(|theirs| theirs.as_str() == agent || Some(theirs) == owner)
            || owner == Some(source)
    }

    /// Whether `agent`, or a provider that is its kin, vouches for `source`.
    fn is_vouched_for(&self, source: &EntityId, agent: &str, owner: Option<&EntityId>) -> bool {
        let kin = |provider: &str| {
            let known = self.sources.get_key_value(provider).map(|(id, _)| id);
            provider == agent || known.is_some_and(|provider| self.is_kin(provider, agent, owner))
        };
        self.sources.get(source).is_some_and(|known| known.vouched_for_by.iter().any(|provider| kin(provider)))
    }
}

/// The inputs of an agent's score, in the order of (source, tag).
pub fn inputs(
    view: &(impl View + ?Sized),
    agent: &EntityId,
    weights: &Weights,
    tags: &TagRegistry,
) -> Result<Vec<Input>> {
    let mut inputs = Vec::new();
    tables::scan(view, tables::CURRENT, Scan::prefix(&format!("{agent}/")), |key, row: CurrentRow| {
        inputs.extend(input(key, &row, weights, tags)?);
        Ok(ControlFlow::Continue(()))
    })?;
    let row: Option<AgentRow> = tables::get(view, tables::AGENTS, agent.as_str())?;
    Ok(with_a_say(inputs, agent, row.and_then(|row| row.owner).as_ref(), weights))
}

/// Those inputs whose sources have a say on `agent`: neither its kin, nor whom it vouches for.
pub(crate) fn with_a_say(
    mut inputs: Vec<Input>,
    agent: &EntityId,
    owner: Option<&EntityId>,
    weights: &Weights,
) -> Vec<Input> {
    inputs.retain(|input: &Input| !weights.is_kin(&input.source, agent.as_str(), owner));
    without_circles(inputs, agent, owner, weights)
}

/// Leaves out what would raise `agent` and comes from those it vouches for: their praise must not carry whoever carries
/// them. What they say against it stays, or a provider could silence its critics by reporting on them.
fn without_circles(
    mut inputs: Vec<Input>,
    agent: &EntityId,
    owner: Option<&EntityId>,
    weights: &Weights,
) -> Vec<Input> {
    let circular = |input: &Input| weights.is_vouched_for(&input.source, agent.as_str(), owner);
    if !inputs.iter().any(circular) {
        return inputs;
    }
    const MIDDLE: f64 = 50.0;
    let (sum, total) = inputs
        .iter()
        .filter(|input| !circular(input))
        .fold((0.0, 0.0), |(sum, total), input| (sum + input.weight * input.value, total + input.weight));
    let mean = if total > 0.0 { sum / total } else { MIDDLE };
    inputs.retain(|input| !circular(input) || input.value <= mean);
    inputs
}

/// The input that a current signal is, unless it is left out.
pub fn input(slot: &str, row: &CurrentRow, weights: &Weights, tags: &TagRegistry) -> Result<Option<Input>> {
    let Some((_, source, tag)) = tables::split_slot(slot) else { return Ok(None) };
    let Some((source, weight)) = weights.find(source).filter(|(_, weight)| *weight > 0.0) else {
        return Ok(None);
    };
    if weights.is_deferred(tag, tags) {
        return Ok(None);
    }
    let CurrentRow { seq, observed_at, value, stddev } = *row;
    Ok(Some(Input { seq, source: source.clone(), observed_at, tag: Tag::new(tag)?, value, stddev, weight }))
}

/// The inputs as the score model sees them.
pub fn weighted(inputs: &[Input]) -> impl Iterator<Item = Weighted<&str>> {
    inputs.iter().map(|input| Weighted {
        source: input.source.as_str(),
        value: input.value,
        stddev: input.stddev,
        weight: input.weight,
    })
}

/// The inputs as the assured score sees them at `evaluated_at`.
pub fn aged<'a>(inputs: &'a [Input], weights: &'a Weights, evaluated_at: Timestamp) -> Vec<assured::Signal<'a>> {
    const DAY_MICROS: f64 = 86_400e6;
    let signal = |input: &'a Input| {
        let Speaker { source, owner, roots, weight } = weights.speaker(input);
        // Signals of the near future are of now.
        let age_days = evaluated_at.micros().saturating_sub(input.observed_at).max(0) as f64 / DAY_MICROS;
        let (tag, value, stddev) = (input.tag.as_str(), input.value, input.stddev);
        assured::Signal { source, owner, roots, tag, value, stddev, weight, age_days }
    };
    inputs.iter().map(signal).collect()
}

/// The same as the model's own measurements, without those that count in no dimension.
pub fn measurements(inputs: &[Input], weights: &Weights, model: &Model, evaluated_at: Timestamp) -> Vec<Measurement> {
    let voices = weights.voices(inputs);
    let signals = aged(inputs, weights, evaluated_at).into_iter().enumerate();
    let measurement = |(n, signal): (usize, assured::Signal<'_>)| {
        let assured::Signal { tag, value, stddev, weight, age_days, .. } = signal;
        Some(Measurement { tag: model.tag(tag)?, voice: voices.voice(n)?, value, stddev, weight, age_days })
    };
    signals.filter_map(measurement).collect()
}

/// The inputs as certification sees them.
pub fn facts<'a>(inputs: &'a [Input], weights: &'a Weights) -> Vec<Fact<'a>> {
    let fact = |input: &'a Input| {
        let Speaker { source, owner, roots, weight } = weights.speaker(input);
        Fact { source, owner, roots, tag: input.tag.as_str(), value: input.value, weight }
    };
    inputs.iter().map(fact).collect()
}

/// What certification and assessment look at of a recorded assured score; where there is none, of nothing.
pub fn assured_facts(assured: Option<&Assured>) -> Result<AssuredFacts> {
    let model = Model::standard()?;
    Ok(match assured {
        Some(assured) => model.facts(assured),
        None => model.facts(&model.score(&[])?),
    })
}
