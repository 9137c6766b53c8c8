//! What a recorded score event was made of, and whether the same still counts.
//!
//! An event lists its inputs without their sources: a source is found in the signal's slot while that signal is current, else in
//! its entry. Past [`MAX_LISTED_INPUTS`](crate::record::MAX_LISTED_INPUTS) an event has a digest instead; then the inputs are
//! those that count now if they have that digest, else they are derived from the ledger as it was.

use std::{collections::BTreeMap, ops::ControlFlow};

use credence_engine::assured::Model;
use credence_ledger::{Appended, Entry, Scan, View, sqlite::Scratch};
use credence_protocol::{Canonical, EntityId, Tag, TagRegistry, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    Result,
    filter::{self, Weights},
    projection,
    record::{Input, InputList, Record},
    score::{self, Freshness},
    tables::{self, CurrentRow, ScoreRow},
};

/// Source and time of signals that are current, by the signal's entry.
pub(super) type Sources = BTreeMap<u64, (EntityId, i64)>;

#[derive(Deserialize)]
#[serde(untagged)]
enum Listed {
    All(Vec<ListedInput>),
    Digest {},
}

#[derive(Deserialize)]
struct ListedInput {
    seq: u64,
    tag: Tag,
    value: f64,
    stddev: f64,
    weight: f64,
}

/// The inputs of an agent's newest score event, in its order.
pub(super) fn inputs_of(view: &dyn View, agent: &EntityId, event: &ScoreRow, tags: &TagRegistry) -> Result<Vec<Input>> {
    match listed(view, event, || current_sources(view, agent))? {
        Some(inputs) => Ok(inputs),
        None => match unlisted(view, agent, event, tags)? {
            Some(inputs) => Ok(inputs),
            None => inputs_at(view, event.recorded.as_of, agent, tags),
        },
    }
}

/// The inputs that the event lists; none where it has their digest instead.
pub(super) fn listed(
    view: &dyn View,
    event: &ScoreRow,
    sources: impl FnOnce() -> Result<Sources>,
) -> Result<Option<Vec<Input>>> {
    let list = match recorded(view, event)? {
        Listed::All(list) => list,
        Listed::Digest {} => return Ok(None),
    };
    let sources = sources()?;
    let input = |one: ListedInput| {
        let (source, observed_at) = match sources.get(&one.seq) {
            Some(known) => known.clone(),
            None => {
                let signal = super::record(view, one.seq)?;
                let at: Timestamp = signal["observed_at"].as_str().unwrap_or_default().parse()?;
                (EntityId::new(signal["source"].as_str().unwrap_or_default())?, at.micros())
            }
        };
        let ListedInput { seq, tag, value, stddev, weight } = one;
        Ok(Input { seq, source, observed_at, tag, value, stddev, weight })
    };
    list.into_iter().map(input).collect::<Result<_>>().map(Some)
}

fn recorded(view: &dyn View, event: &ScoreRow) -> Result<Listed> {
    let damaged = |e: serde_json::Error| credence_ledger::Error::Entry { seq: event.seq, why: e.to_string() };
    Ok(serde_json::from_value(super::record(view, event.seq)?["inputs"].take()).map_err(damaged)?)
}

/// The inputs that count now, where they are those of the event.
fn unlisted(view: &dyn View, agent: &EntityId, event: &ScoreRow, tags: &TagRegistry) -> Result<Option<Vec<Input>>> {
    let now = filter::inputs(view, agent, &Weights::read(view)?, tags)?;
    Ok(are_of(&now, &super::record(view, event.seq)?["inputs"])?.then_some(now))
}

fn current_sources(view: &dyn View, agent: &EntityId) -> Result<Sources> {
    let mut sources = Sources::new();
    tables::scan(view, tables::CURRENT, Scan::prefix(&format!("{agent}/")), |key, row: CurrentRow| {
        if let Some((_, source, _)) = tables::split_slot(key) {
            sources.insert(row.seq, (EntityId::new(source)?, row.observed_at));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(sources)
}

fn are_of(inputs: &[Input], recorded: &Value) -> Result<bool> {
    Ok(Canonical::of(&InputList::of(inputs)?)?.as_str() == Canonical::of(recorded)?.as_str())
}

/// Whether `event` was made of `inputs`.
pub(crate) fn are_inputs_of(view: &(impl View + ?Sized), event: &ScoreRow, inputs: &[Input]) -> Result<bool> {
    are_of(inputs, &super::record(view, event.seq)?["inputs"])
}

/// Whether the newest score events of `agent` are behind: other signals or weights count by now, they are other voices, or age has
/// changed the assured score by so much that it is recorded.
pub(super) fn is_behind(view: &dyn View, agent: &EntityId, tags: &TagRegistry, now: Timestamp) -> Result<bool> {
    let weights = Weights::read(view)?;
    let inputs = filter::inputs(view, agent, &weights, tags)?;
    let freshness = score::freshness(view, agent, &inputs, &weights, Model::standard()?, Some(now))?;
    Ok(freshness != Freshness::UpToDate)
}

/// Whether the inputs of the newest event can only be found by folding the ledger again: there are too many to list, and others
/// count by now.
pub(super) fn need_replay(view: &dyn View, agent: &EntityId, tags: &TagRegistry) -> Result<bool> {
    let Some(event) = tables::universal_of(view, agent)? else { return Ok(false) };
    let digest = matches!(recorded(view, &event)?, Listed::Digest {});
    Ok(digest && unlisted(view, agent, &event, tags)?.is_none())
}

/// The inputs that counted when the ledger had `size` entries: folds all of them, which takes as long as a replay.
fn inputs_at(view: &dyn View, size: u64, agent: &EntityId, tags: &TagRegistry) -> Result<Vec<Input>> {
    let mut scratch = Scratch::new(view, tables::projections())?;
    for seq in 0..size {
        let entry = Entry::parse(seq, &view.entry(seq)?.unwrap_or_default())?;
        let record = Record::of(seq, &entry)?;
        let at = Appended { seq, recorded_at: entry.recorded_at };
        projection::apply(&mut scratch, at, &entry.subject, &record)?;
    }
    filter::inputs(&scratch, agent, &Weights::read(&scratch)?, tags)
}
