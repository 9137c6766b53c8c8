//! An agent at a glance, for lists of many: its newest score, its certification, and what each source says of it on the whole.
//!
//! The sums per source are enough to weigh the agent anew under a caller's own weights, as
//! [`custom`](credence_engine::custom) does: `μ = Σ w·Σv / Σ w·n` and `σ² = Σ w·Σ(σ² + v²) / Σ w·n − μ²`.

use std::ops::ControlFlow;

use credence_engine::{assured::Assured, tiers::Tier};
use credence_ledger::{Ledger, Scan, View};
use credence_protocol::{EntityId, ScoreStatus, Timestamp};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Reading, inputs};
use crate::{
    Result,
    filter::{self, Weights},
    record::Input,
    tables::{self, AgentRow, AssuredRow, CurrentRow, ScoreRow},
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
    /// The newest recorded universal score.
    pub score: Option<ScoreRow>,
    /// The newest recorded assured score.
    pub assured: Option<Glance>,
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

/// The headline of an assured score: a list of a million agents must fit into memory.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Glance {
    /// Its entry.
    pub seq: u64,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// 0..=100.
    pub score: u8,
    /// The band of the score.
    pub tier: Tier,
    /// Whether it may be shown.
    pub status: ScoreStatus,
    /// What is believed.
    pub estimate: f64,
    /// The lower end of the range.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The share of the estimate that is evidence, 0..=1.
    pub known: f64,
}

impl From<AssuredRow> for Glance {
    fn from(row: AssuredRow) -> Self {
        let Assured { score, tier, status, estimate, low, high, known, .. } = row.recorded.assured;
        Self { seq: row.seq, recorded_at: row.recorded_at, score, tier, status, estimate, low, high, known }
    }
}

/// By which formula agents are ranked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Formula {
    /// `uts/2`: what can be vouched for.
    #[default]
    Assured,
    /// `uts/1`: what the sources say, and how many they are.
    Universal,
}

/// How agents are ranked, and which are left out.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Ranking {
    /// By which score.
    pub by: Formula,
    /// Only agents of whom at least this share is evidence, 0..=1.
    pub min_known: f64,
}

impl Ranking {
    /// The agents that `self` asks for, the best first; those without a published score last, by id.
    pub fn of<'a>(&self, agents: impl IntoIterator<Item = &'a Overview>) -> Vec<&'a Overview> {
        let mut ranked: Vec<&Overview> = agents.into_iter().filter(|agent| agent.known() >= self.min_known).collect();
        ranked.sort_by(|one, other| {
            // An estimate tells apart whom the score does not.
            let key = |agent: &Overview| (agent.score_by(self.by), agent.mean_by(self.by));
            let ((score, mean), (others, other_mean)) = (key(one), key(other));
            others.cmp(&score).then(other_mean.total_cmp(&mean)).then_with(|| one.id.cmp(&other.id))
        });
        ranked
    }
}

impl Overview {
    /// The published score by a formula.
    pub fn score_by(&self, formula: Formula) -> Option<u8> {
        match formula {
            Formula::Assured => {
                self.assured.filter(|glance| glance.status == ScoreStatus::Published).map(|glance| glance.score)
            }
            Formula::Universal => {
                let recorded = self.score.as_ref().map(|row| &row.recorded);
                recorded.filter(|one| one.status == ScoreStatus::Published).map(|one| one.score)
            }
        }
    }

    fn mean_by(&self, formula: Formula) -> f64 {
        match formula {
            Formula::Assured => self.assured.map_or(0.0, |glance| glance.estimate),
            Formula::Universal => self.score.as_ref().and_then(|row| row.recorded.mean).unwrap_or(0.0),
        }
    }

    /// The share of the assured estimate that is evidence, 0..=1.
    pub fn known(&self) -> f64 {
        self.assured.map_or(0.0, |glance| glance.known)
    }
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
        let score = tables::universal_of(view, agent)?;
        let assured = tables::assured_of(view, agent)?;
        let (mut parts, mut current): (Vec<Part>, Vec<_>) = (Vec::new(), Vec::new());
        let mut sources = inputs::Sources::new();
        tables::scan(view, tables::CURRENT, Scan::prefix(&format!("{agent}/")), |key, row: CurrentRow| {
            let Some((_, source, tag)) = tables::split_slot(key) else { return Ok(ControlFlow::Continue(())) };
            if weights.is_deferred(tag, self.tags) {
                return Ok(ControlFlow::Continue(()));
            }
            current.extend(filter::input(key, &row, weights, self.tags)?);
            // Keys come sorted: those of one source together.
            if parts.last().is_none_or(|part| part.source.as_str() != source) {
                parts.push(Part { source: EntityId::new(source)?, signals: 0, sum: 0.0, squares: 0.0 });
            }
            if let Some(part) = parts.last_mut() {
                sources.insert(row.seq, (part.source.clone(), row.observed_at));
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
                let facts = filter::assured_facts(assured.as_ref().map(|row| &row.recorded.assured))?;
                self.requirements.certify(event.recorded.score, &facts, &filter::facts(&inputs, weights)).tier
            }
        };
        let assured = assured.map(Glance::from);
        Ok(Some(Overview { id: agent.clone(), agent: row, score, assured, certification, parts }))
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
