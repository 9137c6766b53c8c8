//! Questions to the ledger: scores now and then, explanations, history. Reads only.

use std::{collections::BTreeMap, ops::ControlFlow};

use credence_engine::{
    certification::{Certification, Requirements},
    contribution::{self, Contribution},
    custom::{self, CustomView, Unweighted},
    universal::{self, Outcome},
};
use credence_ledger::{Entry, Scan, View};
use credence_protocol::{Alias, EntityId, TagRegistry, Timestamp};
use serde::Serialize;
use serde_json::Value;

use crate::{
    Error, Result,
    filter::{self, Weights},
    record::Input,
    tables::{self, AgentRow, ScoreRow},
};

/// Finds an agent by its id or any spelling of an alias.
pub fn resolve(view: &dyn View, name: &str) -> Result<EntityId> {
    let unknown = || Error::UnknownAgent(name.chars().take(160).collect());
    if let Ok(id) = EntityId::new(name)
        && tables::get::<AgentRow>(view, tables::AGENTS, id.as_str())?.is_some()
    {
        return Ok(id);
    }
    let alias = Alias::parse(name).map_err(|_| unknown())?;
    tables::get(view, tables::ALIASES, alias.as_str())?.ok_or_else(unknown)
}

/// An agent's score as it is now, under the sources' current weights.
#[derive(Debug, Serialize)]
pub struct LiveScore {
    /// The agent.
    pub agent: EntityId,
    /// The ledger's size that was seen.
    pub as_of: u64,
    /// The formula.
    pub formula: &'static str,
    /// The numbers.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The highest tier whose requirements are met, and what is missing for the next.
    pub certification: Certification,
    /// The authority took the agent's standing back: whatever the number says.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub revoked: bool,
    /// What went in.
    #[serde(skip)]
    pub inputs: Vec<Input>,
}

/// How to read scores: the same settings that make them.
#[derive(Debug, Clone, Copy)]
pub struct Reading<'a> {
    /// The registered tags.
    pub tags: &'a TagRegistry,
    /// What tiers require.
    pub requirements: &'a Requirements,
    /// Coverage below which a score is not published.
    pub coverage_floor: f64,
}

impl Reading<'_> {
    /// The score now.
    pub fn live(&self, view: &dyn View, agent: &EntityId) -> Result<LiveScore> {
        let inputs = filter::inputs(view, agent, &Weights::read(view)?, self.tags)?;
        let weighted: Vec<_> = filter::weighted(&inputs).collect();
        let outcome = universal::score(&weighted, self.coverage_floor)?;
        let score = outcome.rated().map_or(0, |rated| rated.score);
        let certification = self.requirements.certify(score, &filter::facts(&inputs));
        let row: Option<AgentRow> = tables::get(view, tables::AGENTS, agent.as_str())?;
        Ok(LiveScore {
            revoked: row.is_some_and(|row| row.revoked.is_some()),
            agent: agent.clone(),
            as_of: view.size()?,
            formula: universal::FORMULA,
            outcome,
            certification,
            inputs,
        })
    }

    /// The caller's own view, under the caller's weights. Sees every current signal of a scored tag, also of sources
    /// that our own weights silence; nothing of it is recorded.
    pub fn custom(
        &self,
        view: &dyn View,
        agent: &EntityId,
        weights: &BTreeMap<String, f64>,
    ) -> Result<Option<CustomView>> {
        let mut signals = Vec::new();
        tables::scan(view, tables::CURRENT, Scan::prefix(&format!("{agent}/")), |key, row: tables::CurrentRow| {
            if let Some((_, source, tag)) = tables::split_slot(key)
                && self.tags.find(tag).is_some_and(|definition| !definition.deferred)
            {
                signals.push((source.to_owned(), row.value, row.stddev));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let signals: Vec<_> = signals
            .iter()
            .map(|(source, value, stddev)| Unweighted { source, value: *value, stddev: *stddev })
            .collect();
        Ok(custom::view(&signals, weights)?)
    }

    /// The score now, and what each source did to it.
    pub fn explain(&self, view: &dyn View, agent: &EntityId) -> Result<Explanation> {
        let live = self.live(view, agent)?;
        let weighted: Vec<_> = filter::weighted(&live.inputs).collect();
        let contributions = contribution::contributions(&weighted, self.coverage_floor)?
            .into_iter()
            .map(|part| {
                let of_source = |input: &&Input| input.source.as_str() == part.source;
                let signals = live.inputs.iter().filter(of_source).cloned().collect();
                let weight = live.inputs.iter().find(of_source).map_or(0.0, |input| input.weight);
                let Contribution { source, share, mean, pull, without, .. } = part;
                SourceContribution { source: source.to_owned(), weight, share, mean, pull, without, signals }
            })
            .collect();
        Ok(Explanation { contributions, score: live })
    }
}

/// Why a score is what it is.
#[derive(Debug, Serialize)]
pub struct Explanation {
    /// The score.
    #[serde(flatten)]
    pub score: LiveScore,
    /// What each source did to it.
    pub contributions: Vec<SourceContribution>,
}

/// One source's part in a score.
#[derive(Debug, Serialize)]
pub struct SourceContribution {
    /// The source.
    pub source: String,
    /// Its weight now.
    pub weight: f64,
    /// Its share of all weight.
    pub share: f64,
    /// The mean of its signals.
    pub mean: f64,
    /// Points by which it moves the score; above 0 it raises it.
    pub pull: f64,
    /// The outcome if it had said nothing.
    pub without: Outcome,
    /// Its signals.
    pub signals: Vec<Input>,
}

/// The score event that was in force at a time, whole, as recorded.
#[derive(Debug, Serialize)]
pub struct RecordedEvent {
    /// Its entry.
    pub seq: u64,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// The event: inputs, weights, formula and every number.
    pub event: Value,
}

/// The score event of `agent` in force at `at`, by the time of recording.
pub fn score_at(view: &dyn View, agent: &EntityId, at: Timestamp) -> Result<RecordedEvent> {
    let row = last_score_before(view, agent, size_at(view, at)?)?;
    let row = row.ok_or_else(|| Error::NotThen(format!("agent '{agent}' had no score at {at}")))?;
    let bytes = view.entry(row.seq)?.unwrap_or_default();
    let entry = Entry::parse(row.seq, &bytes)?;
    Ok(RecordedEvent { seq: row.seq, recorded_at: row.recorded_at, event: entry.record(row.seq)? })
}

fn last_score_before(view: &dyn View, agent: &EntityId, size: u64) -> Result<Option<ScoreRow>> {
    let (prefix, until) = (format!("{agent}/"), tables::agent_seq(agent, size));
    let mut found = None;
    let scan = Scan { prefix: &prefix, after: Some(&until), reverse: true };
    tables::scan(view, tables::SCORE_EVENTS, scan, |_, row: ScoreRow| {
        found = Some(row);
        Ok(ControlFlow::Break(()))
    })?;
    Ok(found)
}

/// The last score of `agent` before each of these sizes of the ledger.
pub fn closings(view: &dyn View, agent: &EntityId, sizes: &[u64]) -> Result<Vec<Option<ScoreRow>>> {
    sizes.iter().map(|size| last_score_before(view, agent, *size)).collect()
}

/// How many entries had been recorded at `at`: recorded times never go back, so halving finds it.
pub fn size_at(view: &dyn View, at: Timestamp) -> Result<u64> {
    let (mut low, mut high) = (0, view.size()?);
    while low < high {
        let middle = low + (high - low) / 2;
        let bytes = view.entry(middle)?.unwrap_or_default();
        if Entry::parse(middle, &bytes)?.recorded_at <= at {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

/// An agent's scores, newest first, at most `limit` of them.
pub fn history(view: &dyn View, agent: &EntityId, limit: usize) -> Result<Vec<ScoreRow>> {
    let mut rows = Vec::new();
    if limit == 0 {
        return Ok(rows);
    }
    let prefix = format!("{agent}/");
    let scan = Scan { reverse: true, ..Scan::prefix(&prefix) };
    tables::scan(view, tables::SCORE_EVENTS, scan, |_, row: ScoreRow| {
        rows.push(row);
        Ok(if rows.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(rows)
}
