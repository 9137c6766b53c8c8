//! An agent at a glance, for lists of many: its newest score, its certification, and what each source says of it on the whole.
//!
//! The sums per source are enough to weigh the agent anew under a caller's own weights, as
//! [`custom`](credence_engine::custom) does: `μ = Σ w·Σv / Σ w·n` and `σ² = Σ w·Σ(σ² + v²) / Σ w·n − μ²`.

use std::ops::ControlFlow;

use credence_engine::tiers::Tier;
use credence_ledger::{Ledger, Scan, View};
use credence_protocol::EntityId;
use rayon::prelude::*;

use super::{Reading, inputs};
use crate::{
    Result,
    filter::{self, Weights},
    record::Input,
    tables::{self, AgentRow, CurrentRow, ScoreRow},
};

/// Agents read by one thread at a time.
const AGENTS_PER_TASK: usize = 500;

/// An agent at a glance.
#[derive(Debug, Clone)]
pub struct Overview {
    /// Which.
    pub id: EntityId,
    /// Its names, who runs it, whether its standing was revoked.
    pub agent: AgentRow,
    /// The newest recorded score.
    pub score: Option<ScoreRow>,
    /// The highest tier whose requirements are met.
    pub certification: Tier,
    /// What each source says, in the order of their names.
    pub parts: Vec<Part>,
}

/// What one source says of an agent, added up.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The source.
    pub source: EntityId,
    /// How many current signals, under tags that are scored.
    pub signals: u32,
    /// Σ v
    pub sum: f64,
    /// Σ (σ² + v²)
    pub squares: f64,
}

impl Reading<'_> {
    /// Those of `agents` that are known.
    pub fn overviews_of(
        &self,
        view: &dyn View,
        agents: impl IntoIterator<Item = impl std::borrow::Borrow<EntityId>>,
    ) -> Result<Vec<Overview>> {
        let weights = Weights::read(view)?;
        let one = |agent: &EntityId| self.overview(view, &weights, agent).transpose();
        agents.into_iter().filter_map(|agent| one(agent.borrow())).collect()
    }

    fn overview(&self, view: &dyn View, weights: &Weights, agent: &EntityId) -> Result<Option<Overview>> {
        let Some(row) = tables::get::<AgentRow>(view, tables::AGENTS, agent.as_str())? else { return Ok(None) };
        let score: Option<ScoreRow> = tables::get(view, tables::SCORES, agent.as_str())?;
        let (mut parts, mut current): (Vec<Part>, Vec<_>) = (Vec::new(), Vec::new());
        let mut sources = inputs::Sources::new();
        tables::scan(view, tables::CURRENT, Scan::prefix(&format!("{agent}/")), |key, row: CurrentRow| {
            let Some((_, source, tag)) = tables::split_slot(key) else { return Ok(ControlFlow::Continue(())) };
            if self.tags.find(tag).is_none_or(|definition| definition.deferred) {
                return Ok(ControlFlow::Continue(()));
            }
            current.extend(filter::input(key, &row, weights, self.tags)?);
            // Keys come sorted: those of one source together.
            if parts.last().is_none_or(|part| part.source.as_str() != source) {
                parts.push(Part { source: EntityId::new(source)?, signals: 0, sum: 0.0, squares: 0.0 });
            }
            if let Some(part) = parts.last_mut() {
                sources.insert(row.seq, part.source.clone());
                part.signals += 1;
                part.sum += row.value;
                part.squares += row.stddev * row.stddev + row.value * row.value;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let certification = match &score {
            None => Tier::Unrated,
            Some(event) => {
                // Where an event has too many inputs to list, those that count now stand for them: the two differ for the
                // second until the next event at most.
                let inputs: Vec<Input> = match inputs::listed(view, event, || Ok(sources))? {
                    Some(inputs) => inputs,
                    None => filter::with_a_say(current, agent, row.owner.as_ref(), weights),
                };
                let assured = filter::assured(&inputs)?;
                self.requirements.certify(event.recorded.score, &assured, &filter::facts(&inputs)).tier
            }
        };
        Ok(Some(Overview { id: agent.clone(), agent: row, score, certification, parts }))
    }

    /// Every agent, in the order of their ids, and the ledger's size that was seen before: what came since is to be looked at
    /// again.
    pub fn overviews(&self, ledger: &dyn Ledger) -> Result<(u64, Vec<Overview>)> {
        let view = ledger.view()?;
        let as_of = view.size()?;
        let mut agents = Vec::new();
        tables::scan(&*view, tables::AGENTS, Scan::all(), |key, _: serde::de::IgnoredAny| {
            agents.push(EntityId::new(key)?);
            Ok(ControlFlow::Continue(()))
        })?;
        drop(view);
        let tasks = agents.par_chunks(AGENTS_PER_TASK).map(|agents| {
            let view = ledger.view()?;
            self.overviews_of(&*view, agents)
        });
        let all: Vec<Vec<Overview>> = tasks.collect::<Result<_>>()?;
        Ok((as_of, all.into_iter().flatten().collect()))
    }
}
