//! Which signals a score is made of: the agent's current ones, from a source of weight above 0, under a tag that is not
//! deferred (seed 4, "pipeline/filter").

use std::{collections::BTreeMap, ops::ControlFlow};

use credence_engine::{certification::Fact, universal::Weighted};
use credence_ledger::{Scan, View};
use credence_protocol::{EntityId, Tag, TagRegistry};

use crate::{
    Result,
    record::Input,
    summaries,
    tables::{self, CurrentRow, SourceRow},
};

/// The weight of every source, now, and on whom it has no say.
#[derive(Debug, Clone, Default)]
pub struct Weights(BTreeMap<EntityId, Weight>);

#[derive(Debug, Clone, Default)]
struct Weight {
    weight: f64,
    /// Where the source is itself an agent: its verification providers. It must not carry whoever vouches for it.
    vouched_for_by: Vec<String>,
}

impl Weights {
    /// Reads them.
    pub fn read(view: &(impl View + ?Sized)) -> Result<Self> {
        let mut weights = BTreeMap::new();
        for (source, row) in tables::all::<SourceRow>(view, tables::SOURCES)? {
            let vouched_for_by = summaries::providers_of(view, &source)?;
            weights.insert(EntityId::new(&source)?, Weight { weight: row.weight, vouched_for_by });
        }
        Ok(Self(weights))
    }

    /// The source as it is known, and its weight; none where it has no say on `agent`.
    fn find(&self, source: &str, agent: &str) -> Option<(&EntityId, f64)> {
        let (source, known) = self.0.get_key_value(source)?;
        (!known.vouched_for_by.iter().any(|provider| provider == agent)).then_some((source, known.weight))
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
    Ok(inputs)
}

/// The input that a current signal is, unless it is left out.
pub fn input(slot: &str, row: &CurrentRow, weights: &Weights, tags: &TagRegistry) -> Result<Option<Input>> {
    let Some((agent, source, tag)) = tables::split_slot(slot) else { return Ok(None) };
    let Some((source, weight)) = weights.find(source, agent).filter(|(_, weight)| *weight > 0.0) else {
        return Ok(None);
    };
    let deferred = tags.find(tag).is_none_or(|definition| definition.deferred);
    if deferred {
        return Ok(None);
    }
    let CurrentRow { seq, value, stddev, .. } = *row;
    Ok(Some(Input { seq, source: source.clone(), tag: Tag::new(tag)?, value, stddev, weight }))
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

/// The inputs as certification sees them.
pub fn facts(inputs: &[Input]) -> Vec<Fact<'_>> {
    inputs
        .iter()
        .map(|input| Fact {
            source: input.source.as_str(),
            tag: input.tag.as_str(),
            value: input.value,
            weight: input.weight,
        })
        .collect()
}
