//! An agent's score: the newest recorded event, what it was made of, and what each source did to it.

use std::{collections::BTreeMap, fmt, ops::ControlFlow};

use credence_engine::{
    assured::{Advice, Assured, Model},
    certification::{Certification, Requirements},
    contribution::{self, Contribution},
    custom::{self, CustomView, Unweighted},
    tiers::{Tier, TierDistribution},
    universal::{self, DEFAULT_COVERAGE_FLOOR, Outcome, Score},
};
use credence_ledger::{Scan, View};
use credence_protocol::{EntityId, ScoreStatus, TagRegistry, Timestamp};
use serde::Serialize;

use super::inputs;
use crate::{
    Result,
    filter::{self, Weights},
    links::disputes::{self, DisputedInput},
    record::{AssuredRecord, Input, RecordedScore},
    tables::{self, AgentRow, AssuredRow, ScoreRow},
    tags::Deferral,
};

/// Tags that are named as what would raise a score.
const MAX_ADVICE: usize = 3;

/// How to read scores: the same settings that make them.
#[derive(Debug, Clone, Copy)]
pub struct Reading<'a> {
    /// The registered tags.
    pub tags: &'a TagRegistry,
    /// What tiers require.
    pub requirements: &'a Requirements,
}

/// An agent's newest recorded score.
#[derive(Debug, Serialize)]
pub struct CurrentScore {
    /// The agent.
    pub agent: EntityId,
    /// The entry of the score event; none where the agent was never rated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// When it was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_at: Option<Timestamp>,
    /// The ledger's size that the event saw; where there is none, the size that was looked at.
    pub as_of: u64,
    /// The formula.
    pub formula: String,
    /// The numbers.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The newest recorded assured score; none where nothing that counts was ever measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assured: Option<CurrentAssured>,
    /// The highest tier whose requirements are met, and what is missing for the next.
    pub certification: Certification,
    /// The authority took the agent's standing back: whatever the number says.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub revoked: bool,
    /// Signals in it that the agent's owner disputes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disputed: Vec<DisputedInput>,
    /// What went in.
    #[serde(skip)]
    pub inputs: Vec<Input>,
    /// The coverage floor of the event.
    #[serde(skip)]
    coverage_floor: f64,
}

/// An agent's newest recorded assured score.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CurrentAssured {
    /// The entry of the score event.
    pub seq: u64,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// The formula.
    pub formula: String,
    /// The digest of its parameters.
    pub parameters: String,
    /// The entry of the `uts/1` event that lists its inputs.
    pub inputs_of: u64,
    /// The hour for which ages were taken.
    pub evaluated_at: Timestamp,
    /// When an event was last recorded by age alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aged_at: Option<Timestamp>,
    /// The numbers.
    #[serde(flatten)]
    pub numbers: Assured,
}

impl From<AssuredRow> for CurrentAssured {
    fn from(row: AssuredRow) -> Self {
        let AssuredRow { seq, recorded_at, aged_at, recorded } = row;
        let AssuredRecord { formula, parameters, inputs_of, evaluated_at, assured: numbers, .. } = recorded;
        Self { seq, recorded_at, formula, parameters, inputs_of, evaluated_at, aged_at, numbers }
    }
}

/// An assured score in a line: `68 assured · estimate 81 (68–94) · evidence 76 %`.
pub fn headline(assured: &Assured) -> String {
    let Assured { score, estimate, low, high, known, status, .. } = assured;
    if *status == ScoreStatus::Unrated {
        return "not assured: nothing that counts is measured".to_owned();
    }
    format!("{score} assured · estimate {estimate:.0} ({low:.0}–{high:.0}) · evidence {:.0} %", known * 100.0)
}

impl fmt::Display for CurrentAssured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&headline(&self.numbers))
    }
}

/// `68 assured · estimate 81 (68–94) · evidence 76 % · universal 91 ± 16.7 (Diamond)`
impl fmt::Display for CurrentScore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.assured {
            Some(assured) => write!(f, "{assured} · ")?,
            None => f.write_str("not assured · ")?,
        }
        match self.outcome.rated() {
            Some(Score { score, stddev, tier, .. }) => write!(f, "universal {score} ± {stddev:.1} ({tier})"),
            None => f.write_str("universal unrated"),
        }
    }
}

/// An agent's newest recorded assured score.
pub fn assured(view: &(impl View + ?Sized), agent: &EntityId) -> Result<Option<AssuredRow>> {
    tables::assured_of(view, agent)
}

impl Reading<'_> {
    /// The newest recorded score, with the inputs of its event.
    pub fn score(&self, view: &dyn View, agent: &EntityId) -> Result<CurrentScore> {
        let row: Option<AgentRow> = tables::get(view, tables::AGENTS, agent.as_str())?;
        let event = tables::universal_of(view, agent)?;
        let assured = tables::assured_of(view, agent)?.map(CurrentAssured::from);
        let inputs = match &event {
            Some(event) => inputs::inputs_of(view, agent, event, self.tags)?,
            None => Vec::new(),
        };
        let outcome = event.as_ref().map_or(Outcome::Unrated, |event| outcome(&event.recorded));
        let score = outcome.rated().map_or(0, |rated| rated.score);
        let weights = Weights::read(view)?;
        let facts = filter::assured_facts(assured.as_ref().map(|assured| &assured.numbers))?;
        let certification = self.requirements.certify(score, &facts, &filter::facts(&inputs, &weights));
        let (seq, recorded_at) = (event.as_ref().map(|event| event.seq), event.as_ref().map(|event| event.recorded_at));
        let (as_of, formula, coverage_floor) = match event {
            Some(ScoreRow { recorded, .. }) => (recorded.as_of, recorded.formula, recorded.coverage_floor),
            None => (view.size()?, universal::FORMULA.to_owned(), DEFAULT_COVERAGE_FLOOR),
        };
        let seqs = inputs.iter().map(|input| input.seq).collect();
        let disputed = disputes::disputed_among(view, agent, &seqs)?;
        Ok(CurrentScore {
            disputed,
            revoked: row.is_some_and(|row| row.revoked.is_some()),
            agent: agent.clone(),
            seq,
            recorded_at,
            as_of,
            formula,
            outcome,
            assured,
            certification,
            inputs,
            coverage_floor,
        })
    }

    /// Whether the newest events are behind at `now`: other signals or weights count by now, or age has changed the assured score, and
    /// rescoring is due.
    pub fn is_behind(&self, view: &dyn View, agent: &EntityId, now: Timestamp) -> Result<bool> {
        inputs::is_behind(view, agent, self.tags, now)
    }

    /// Whether [`score`](Self::score) and [`explain`](Self::explain) have to fold the whole ledger to find the event's inputs:
    /// a service rescores the agent instead.
    pub fn needs_replay(&self, view: &dyn View, agent: &EntityId) -> Result<bool> {
        inputs::need_replay(view, agent, self.tags)
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
        let deferral = Deferral::read(view)?;
        tables::scan(view, tables::CURRENT, Scan::prefix(&format!("{agent}/")), |key, row: tables::CurrentRow| {
            if let Some((_, source, tag)) = tables::split_slot(key)
                && !deferral.is_deferred(tag, self.tags)
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

    /// The newest recorded score, and what each source did to it.
    pub fn explain(&self, view: &dyn View, agent: &EntityId) -> Result<Explanation> {
        let score = self.score(view, agent)?;
        let weighted: Vec<_> = filter::weighted(&score.inputs).collect();
        let weights = Weights::read(view)?;
        let independent = |left_out: Option<&str>| {
            let others = score.inputs.iter().filter(|input| Some(input.source.as_str()) != left_out).cloned();
            weights.voices(&others.collect::<Vec<_>>()).independent()
        };
        let contributions = contribution::contributions_with(&weighted, score.coverage_floor, independent)?
            .into_iter()
            .map(|part| {
                let of_source = |input: &&Input| input.source.as_str() == part.source;
                let signals = score.inputs.iter().filter(of_source).cloned().collect();
                let weight = score.inputs.iter().find(of_source).map_or(0.0, |input| input.weight);
                let Contribution { source, share, mean, pull, without, .. } = part;
                SourceContribution { source: source.to_owned(), weight, share, mean, pull, without, signals }
            })
            .collect();
        Ok(Explanation { contributions, advice: advice(&score, &weights)?, score })
    }
}

/// Under which tags one more source would raise the assured score most.
fn advice(score: &CurrentScore, weights: &Weights) -> Result<Vec<Advice>> {
    let Some(assured) = &score.assured else { return Ok(Vec::new()) };
    let model = Model::standard()?;
    Ok(model.advice(&filter::measurements(&score.inputs, weights, model, assured.evaluated_at), MAX_ADVICE)?)
}

/// The recorded numbers; the tiers' shares, which no row repeats, follow from mean and stddev.
pub(super) fn outcome(recorded: &RecordedScore) -> Outcome {
    let RecordedScore { status, mean: Some(mean), weighted_mean: Some(weighted_mean), stddev: Some(stddev), .. } =
        *recorded
    else {
        return Outcome::Unrated;
    };
    if status == ScoreStatus::Unrated {
        return Outcome::Unrated;
    }
    let tier = Tier::of(recorded.score);
    let tier_distribution = TierDistribution::of(mean, stddev);
    Outcome::Rated(Score {
        score: recorded.score,
        weighted_mean,
        mean,
        stddev,
        coverage: recorded.coverage,
        sources: recorded.sources,
        tier,
        tier_confidence: recorded.tier_confidence.unwrap_or_else(|| tier_distribution.of_tier(tier)),
        tier_distribution,
        status,
    })
}

/// Why a score is what it is.
#[derive(Debug, Serialize)]
pub struct Explanation {
    /// The score.
    #[serde(flatten)]
    pub score: CurrentScore,
    /// What each source did to the universal score.
    pub contributions: Vec<SourceContribution>,
    /// What would raise the assured score most.
    pub advice: Vec<Advice>,
}

/// One source's part in a score.
#[derive(Debug, Serialize)]
pub struct SourceContribution {
    /// The source.
    pub source: String,
    /// Its weight in the event.
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
