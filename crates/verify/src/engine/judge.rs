//! How one call is judged: two stages of checks, the combiner, the decision, and learning (seed 2, "Tiered Architecture").

use std::{collections::BTreeMap, sync::atomic::Ordering::Relaxed};

use serde_json::Value;

use super::{Engine, Resolved, thresholds, within_budget};
use crate::{
    Call, Check, CheckResult, Decision, Stage,
    calibration::{DEFAULT_BLOCK, DEFAULT_FLAG, DEFAULT_PRIOR},
    combiner::{log_odds, probability},
    consistency::{HISTORY_RESULTS, SESSION_RESULTS},
    evaluation::Evaluation,
    fields::Field,
    learned::{
        echo::arguments,
        evidence::{Evidence, together},
        model::{Last, Model},
        observation::Observation,
        observe::{Paths, observe},
        surprise::Surprises,
    },
    state::{History, Ids, Locked, ToolState},
    stats::MIN_OBSERVATIONS,
    verdict::decide,
};

/// One call, taken apart.
pub(crate) struct Case<'a> {
    pub(super) call: &'a Call<'a>,
    pub(crate) result: &'a Value,
    pub(super) args: Option<&'a Value>,
    pub(super) fields: Vec<Field>,
    pub(super) ids: Ids,
    pub(super) size: usize,
}

impl<'a> Case<'a> {
    pub(crate) fn execution_time_ms(&self) -> Option<f64> {
        self.call.execution_time_ms
    }

    fn observation(&self, model: Option<&Model>, paths: Paths) -> Observation<'a> {
        let arguments = arguments(self.args, paths);
        let ids = (self.ids.args(), self.ids.session());
        Observation::new(observe(self.result, model, paths), arguments, ids, self.call.execution_time_ms)
    }
}

/// A verdict before it is put into words.
pub(crate) struct Judged {
    pub(crate) decision: Decision,
    pub(crate) posterior: f64,
    pub(super) prior: f64,
    pub(super) stage: Stage,
    pub(crate) checks: Vec<CheckResult>,
    /// The posterior it would take to block, where only the budget of false blocks kept it from that.
    pub(crate) withheld: Option<f64>,
}

/// What a result was judged by.
struct Basis<'a> {
    observation: Observation<'a>,
    surprises: Surprises,
    /// Judged by what the tool was before it changed.
    former: bool,
}

impl Engine {
    /// The seed to the letter.
    pub(super) fn fixed(&self, case: &Case<'_>, resolved: &Resolved) -> Judged {
        let seed = self.state.seed;
        let mut evaluation = Evaluation::new(resolved, case, None);
        evaluation.schema();
        evaluation.pattern();
        let mut locked = self.state.lock(case.ids);
        evaluation.latency(&locked);
        evaluation.length(case.size);
        let (prior, block) = thresholds(&locked, &resolved.calibration);
        let mut posterior = evaluation.posterior(prior);
        let mut stage = Stage::Zero;
        if !(evaluation.any_fired() && posterior >= block) {
            stage = Stage::One;
            evaluation.history(&locked, &case.fields, seed);
            evaluation.session(&locked, &case.fields, seed);
            evaluation.spc(&locked, &case.fields, case.size, seed);
            evaluation.plausibility(&locked, &case.fields, seed);
            posterior = evaluation.posterior(prior);
        }
        let flag = resolved.calibration.flag_threshold.unwrap_or(DEFAULT_FLAG);
        let decision = decide(posterior, evaluation.any_fired(), flag, block);
        let checks = evaluation.results;
        if case.call.learn && decision != Decision::Block {
            self.learn(&mut locked, case, |_, _| {});
        }
        Judged { decision, posterior, prior, stage, checks, withheld: None }
    }

    /// The seed's table corrected by the tool's own traffic, and what was learned unaided.
    pub(super) fn adaptive(&self, case: &Case<'_>, resolved: &Resolved) -> Judged {
        let (seed, paths) = (self.state.seed, Paths::new(self.state.seed));
        let mut locked = self.state.lock(case.ids);
        let model = locked.tool().map(|tool| &tool.model);
        let mut evaluation = Evaluation::new(resolved, case, model);
        evaluation.schema();
        evaluation.pattern();
        evaluation.stated_latency();
        evaluation.length(case.size);
        let (prior, least_block) = thresholds(&locked, &resolved.calibration);
        let block = within_budget(least_block, prior, &resolved.calibration);
        let established = model.is_some_and(|model| model.results >= MIN_OBSERVATIONS as f32);
        // Before anything was learned, what a profile states decides as in mode fixed.
        let stated_block = if established { block } else { least_block };
        let start = log_odds(prior);
        let odds = evaluation.results.iter().fold(start, |sum, result| sum + result.evidence().log_ratio());
        let stated = odds - start;
        let mut posterior = probability(odds);
        let mut stage = Stage::Zero;
        let mut judged = None;
        if !(evaluation.any_fired() && posterior >= stated_block) {
            stage = Stage::One;
            let stated_checks = evaluation.results.len();
            evaluation.history(&locked, &case.fields, seed);
            evaluation.session(&locked, &case.fields, seed);
            evaluation.spc(&locked, &case.fields, case.size, seed);
            let table = evaluation.results[stated_checks..].iter().filter(|result| result.fired);
            let table = table.map(|result| result.evidence().log_ratio()).fold(0.0, f64::max);
            let mut learned = table;
            judged = Some(match locked.tool() {
                Some(tool) => {
                    let last = locked.history().map(|history| &history.last);
                    let by_hand = &resolved.calibration.likelihood_ratios;
                    let (basis, model, evidence) = compare(tool, last, case, paths, (table, by_hand));
                    evidence.checks(model, &basis.observation, case.result, &mut evaluation.results);
                    learned = evidence.log_ratio;
                    basis
                }
                None => {
                    Basis { observation: case.observation(None, paths), surprises: Surprises::none(), former: false }
                }
            });
            if learned != 0.0 {
                posterior = probability(start + together(stated, learned));
            }
        }
        let flag = resolved.calibration.flag_threshold.unwrap_or(DEFAULT_FLAG);
        let block = if stage == Stage::Zero { stated_block } else { block };
        let decision = decide(posterior, evaluation.any_fired(), flag, block);
        let checks = evaluation.results;
        if case.call.learn {
            // What is learned depends on the evidence, not on what was set by hand.
            let doubt = probability(log_odds(DEFAULT_PRIOR) + log_odds(posterior) - start);
            match judged {
                Some(basis) if decision != Decision::Block && self.is_admitted(&mut locked, doubt) => {
                    self.learn_adaptive(&mut locked, case, basis, &checks, doubt < DEFAULT_FLAG);
                }
                Some(basis) if self.is_corroborated(&mut locked, case, &basis.observation) => {
                    self.learn_adaptive(&mut locked, case, basis, &checks, false);
                }
                _ => self.suspect(&mut locked, case, paths, &checks),
            }
        }
        let withheld = (decision == Decision::Flag && posterior >= least_block).then_some(block);
        Judged { decision, posterior, prior, stage, checks, withheld }
    }

    fn learn_adaptive(
        &self,
        locked: &mut Locked<'_>,
        case: &Case<'_>,
        mut basis: Basis<'_>,
        checks: &[CheckResult],
        believed: bool,
    ) {
        let limit = self.state.paths_per_tool();
        self.learn(locked, case, |tool, history| {
            let model = match &mut tool.former {
                Some(former) if basis.former => former,
                _ => &mut tool.model,
            };
            let last = history.map(|history| &mut history.last);
            let dropped = model.learn(&mut basis.observation, &basis.surprises, last, believed, limit);
            self.state.counters.fields_dropped.fetch_add(dropped, Relaxed);
            tool.model.learn_checks(checks);
            if believed {
                tool.suspects.refute();
                tool.suspects.earn();
            }
        });
    }

    /// Whether a result that was not blocked is learned: a doubtful one takes credit, which results beyond doubt earn.
    fn is_admitted(&self, locked: &mut Locked<'_>, doubt: f64) -> bool {
        let cost = if doubt < DEFAULT_BLOCK { 0.5 } else { 1.0 };
        doubt < DEFAULT_FLAG || locked.tool_mut().suspects.spend(cost)
    }

    /// Whether another session got a blocked result, too.
    fn is_corroborated(&self, locked: &mut Locked<'_>, case: &Case<'_>, observation: &Observation<'_>) -> bool {
        case.ids.session().is_some_and(|session| locked.tool_mut().suspects.corroborates(observation, session))
    }

    /// Keeps a blocked result apart, in case it is the tool that has changed.
    fn suspect(&self, locked: &mut Locked<'_>, case: &Case<'_>, paths: Paths, checks: &[CheckResult]) {
        let limit = self.state.paths_per_tool();
        let tool = locked.tool_mut();
        let model = tool.suspects.model();
        let mut observation = case.observation(Some(model), paths);
        let surprises = model.judge(&observation, None);
        let odd = surprises.is_structural();
        model.learn(&mut observation, &surprises, None, true, limit);
        model.learn_checks(checks);
        let caller = case.ids.caller();
        tool.suspects.add(caller, &observation, odd);
        if let Some(proven) = tool.suspects.proven() {
            tool.adopt(proven);
        }
    }

    /// What both modes remember, and what `also` remembers beside it.
    fn learn(&self, locked: &mut Locked<'_>, case: &Case<'_>, also: impl FnOnce(&mut ToolState, Option<&mut History>)) {
        let limit = self.state.limits.max_fields_per_tool;
        let fields = &case.fields;
        locked.remember(
            |tool, mut history| {
                if let Some(ms) = case.call.execution_time_ms {
                    tool.latency.push(ms);
                }
                tool.size.push(case.size as f64);
                for field in fields {
                    let room = tool.fields.len() < limit;
                    match tool.fields.get_mut(&field.path) {
                        Some(stats) => stats.push(field.value),
                        None if room => tool.fields.entry(field.path).or_default().push(field.value),
                        None => drop(self.state.counters.fields_dropped.fetch_add(1, Relaxed)),
                    }
                }
                if let Some(history) = history.as_deref_mut() {
                    history.earlier.push(fields, HISTORY_RESULTS);
                }
                also(tool, history);
            },
            |session| session.push(fields, SESSION_RESULTS),
        );
    }
}

/// Judges a result by the model of its tool, or by the former one where it fits better.
fn compare<'a, 't>(
    tool: &'t ToolState,
    last: Option<&Last>,
    case: &Case<'a>,
    paths: Paths,
    (table, by_hand): (f64, &BTreeMap<Check, f64>),
) -> (Basis<'a>, &'t Model, Evidence) {
    let judge = |model: &'t Model, former: bool| {
        let observation = case.observation(Some(model), paths);
        let surprises = model.judge(&observation, last);
        (Basis { observation, surprises, former }, model, Evidence::of(surprises, model, table, by_hand))
    };
    let now = judge(&tool.model, false);
    match &tool.former {
        Some(former) if now.2.log_ratio > 0.0 => {
            let before = judge(former, true);
            if before.2.log_ratio < now.2.log_ratio { before } else { now }
        }
        _ => now,
    }
}
