//! How one call is judged: two stages of checks, the combiner, the decision, and learning (seed 2, "Tiered Architecture").

use std::sync::atomic::Ordering::Relaxed;

use serde_json::Value;

use super::{Engine, Resolved, thresholds, within_budget};
use crate::{
    Call, Change, ChangeStage, Check, CheckResult, Decision, Origin, Stage,
    calibration::{DEFAULT_BLOCK, DEFAULT_FLAG, DEFAULT_PRIOR},
    combiner::{log_odds, probability},
    consistency::{HISTORY_RESULTS, SESSION_RESULTS},
    evaluation::Evaluation,
    fields::Field,
    learned::{
        echo::arguments,
        evidence::{Evidence, together},
        model::Model,
        observation::Observation,
        observe::{Paths, fold, mix, observe},
        oddities::{ANNOUNCED, MAX_BLOCKED_RUN, Oddities, OddityKey},
        surprise::Surprises,
    },
    state::{History, Ids, Locked, ToolState},
    stats::MIN_OBSERVATIONS,
    verdict::decide,
};

/// Results from which on a tool is well known.
const WELL_KNOWN: f32 = 180.0;

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
    pub(crate) changes: Vec<Change>,
}

/// What a result was judged by.
struct Basis<'a> {
    observation: Observation<'a>,
    surprises: Surprises,
    /// What weighs most in it.
    strongest: Option<OddityKey>,
    /// It was odd before in the same way, or nearly.
    recurring: bool,
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
        Judged { decision, posterior, prior, stage, checks, withheld: None, changes: Vec::new() }
    }

    /// The seed's table corrected by the tool's own traffic, and what was learned unaided.
    pub(super) fn adaptive(&self, case: &Case<'_>, resolved: &Resolved) -> Judged {
        let (seed, paths) = (self.state.seed, Paths::new(self.state.seed));
        let (is_error, origin) = (case.call.is_error, case.call.origin);
        let mut locked = self.state.lock(case.ids);
        let model = locked.tool().and_then(|tool| tool.shape(is_error));
        let mut evaluation = Evaluation::new(resolved, case, model);
        // A profile says what results look like, not errors.
        if !is_error {
            evaluation.schema();
            evaluation.pattern();
            evaluation.stated_latency();
            evaluation.length(case.size);
        }
        let (prior, least_block) = thresholds(&locked, &resolved.calibration);
        let block = within_budget(least_block, prior, &resolved.calibration);
        let established = model.is_some_and(|model| model.results >= MIN_OBSERVATIONS as f32);
        // Before anything was learned, what a profile states decides as in mode fixed.
        let stated_block = if established { block } else { least_block };
        let start = log_odds(prior);
        let odds = evaluation.results.iter().fold(start, |sum, result| sum + result.evidence().log_ratio());
        let stated = odds - start;
        let mut posterior = probability(odds);
        // Had nothing odd been seen before.
        let mut unrelieved = posterior;
        let mut recurring = false;
        let mut strongest = None;
        let mut stage = Stage::Zero;
        let mut judged = None;
        if !(evaluation.any_fired() && posterior >= stated_block) {
            stage = Stage::One;
            let stated_checks = evaluation.results.len();
            if !is_error {
                evaluation.history(&locked, &case.fields, seed);
                evaluation.session(&locked, &case.fields, seed);
                evaluation.spc(&locked, &case.fields, case.size, seed);
            }
            let table = table_evidence(&evaluation.results[stated_checks..], model, origin);
            let mut learned = (table.0 * f64::from(1.0 - table.1), table.0);
            judged = Some(match model {
                Some(model) => {
                    let last = locked.history().map(|history| &history.last);
                    let by_hand = &resolved.calibration.likelihood_ratios;
                    let observation = case.observation(Some(model), paths);
                    let surprises = model.judge(&observation, last, origin);
                    let evidence = Evidence::of(surprises, model, table, by_hand);
                    evidence.checks(model, &observation, case.result, &mut evaluation.results);
                    learned = (evidence.log_ratio, evidence.unrelieved);
                    recurring = evidence.recurring;
                    strongest = evidence.strongest;
                    Basis { observation, surprises, strongest, recurring }
                }
                None => Basis {
                    observation: case.observation(None, paths),
                    surprises: Surprises::none(),
                    strongest,
                    recurring,
                },
            });
            if learned != (0.0, 0.0) {
                posterior = probability(start + together(stated, learned.0));
                unrelieved =
                    if learned.0 == learned.1 { posterior } else { probability(start + together(stated, learned.1)) };
            }
        }
        let flag = resolved.calibration.flag_threshold.unwrap_or(DEFAULT_FLAG);
        let block = if stage == Stage::Zero { stated_block } else { block };
        let mut decision = decide(posterior, evaluation.any_fired(), flag, block);
        let mut unlocked = false;
        if decision == Decision::Block && stage == Stage::One {
            // What has come before in the same way is flagged: blocked again and again, a changed tool would be locked out.
            let locked_out = model.is_some_and(|model| model.oddities.is_locked_out());
            unlocked = recurring || locked_out;
            decision = if unlocked { Decision::Flag } else { decision };
        }
        let checks = evaluation.results;
        let mut changes = Vec::new();
        if case.call.learn {
            // What is learned depends on the evidence, not on what was set by hand.
            let by_default = |posterior: f64| probability(log_odds(DEFAULT_PRIOR) + log_odds(posterior) - start);
            let (doubt, plain) = (by_default(posterior), by_default(unrelieved));
            if let Some(basis) = judged {
                self.take_in(&mut locked, case, basis, (&checks, decision), (doubt, plain), &mut changes);
            }
        }
        let withheld = (decision == Decision::Flag && posterior >= least_block).then_some(block);
        Judged { decision, posterior, prior, stage, checks, withheld: withheld.filter(|_| !unlocked), changes }
    }

    /// Learns a result, or counts what is odd in it. `doubt` is its posterior at the default prior, `plain` what that were had
    /// nothing odd been seen before.
    fn take_in(
        &self,
        locked: &mut Locked<'_>,
        case: &Case<'_>,
        basis: Basis<'_>,
        (checks, decision): (&[CheckResult], Decision),
        (doubt, plain): (f64, f64),
        changes: &mut Vec<Change>,
    ) {
        let accepted = doubt < DEFAULT_FLAG;
        let odd = if accepted && plain < DEFAULT_FLAG {
            Vec::new()
        } else {
            self.odd(locked, case, &basis.observation, checks)
        };
        // Equal arguments that were answered before cannot come from another caller: their answer may change by itself.
        let answered = locked.history().is_some_and(|history| history.last.is_known()) || case.ids.args().is_none();
        let caller = case.ids.caller();
        let is_error = case.call.is_error;
        let model = locked.tool_mut().shape_mut(is_error);
        let known = model.results;
        let oddities = &mut model.oddities;
        oddities.next_call();
        let what = || explain_oddity(checks);
        if let Some(sightings) = oddities.see_all(&odd, basis.strongest, caller, !answered) {
            changes.push(Change { stage: ChangeStage::Recurring, sightings, what: what() });
        }
        if oddities.count_run(decision == Decision::Block, accepted) {
            changes.push(Change { stage: ChangeStage::LockedOut, sightings: MAX_BLOCKED_RUN, what: what() });
        }
        if accepted {
            if let Some(sightings) = oddities.believe(&odd) {
                changes.push(Change { stage: ChangeStage::Believed, sightings, what: what() });
            }
            oddities.fade(&odd);
            oddities.earn();
        }
        let on_credit = |oddities: &mut Oddities| {
            // What is odd in a tool well known is not learned before it was announced.
            let seen = || basis.recurring || basis.strongest.is_some_and(|key| oddities.sightings(key) >= ANNOUNCED);
            let cost = if doubt < DEFAULT_BLOCK { 0.5 } else { 1.0 };
            let rejected = odd.iter().any(|key| oddities.is_rejected(*key));
            decision != Decision::Block && !rejected && (known < WELL_KNOWN || seen()) && oddities.spend(cost)
        };
        let learned = accepted
            || on_credit(oddities)
            || case.ids.session().is_some_and(|session| oddities.corroborates(&basis.observation, session));
        if learned {
            if !accepted && known >= MIN_OBSERVATIONS as f32 {
                let taken = basis.strongest.and_then(|key| oddities.take_in(key));
                let stage = if taken.is_some() { ChangeStage::Believed } else { ChangeStage::Learned };
                changes.push(Change { stage, sightings: taken.unwrap_or(1), what: explain_oddity(checks) });
            }
            self.learn_adaptive(locked, case, basis, checks, accepted, doubt);
        }
    }

    /// Everything odd in a result, by the tool's model and by the table.
    fn odd(
        &self,
        locked: &Locked<'_>,
        case: &Case<'_>,
        observation: &Observation<'_>,
        checks: &[CheckResult],
    ) -> Vec<OddityKey> {
        let last = locked.history().map(|history| &history.last);
        let model = locked.tool().and_then(|tool| tool.shape(case.call.is_error));
        let mut odd = model.map_or_else(Vec::new, |model| model.odd(observation, last));
        odd.extend(checks.iter().filter(|result| result.fired).map(|result| table_key(result.check)));
        odd
    }

    fn learn_adaptive(
        &self,
        locked: &mut Locked<'_>,
        case: &Case<'_>,
        mut basis: Basis<'_>,
        checks: &[CheckResult],
        believed: bool,
        doubt: f64,
    ) {
        let limit = self.state.paths_per_tool();
        let is_error = case.call.is_error;
        let mut also = |tool: &mut ToolState, history: Option<&mut History>| {
            let model = tool.shape_mut(is_error);
            let last = history.filter(|_| !is_error).map(|history| &mut history.last);
            let dropped = model.learn(&mut basis.observation, &basis.surprises, last, believed, doubt, limit);
            self.state.counters.fields_dropped.fetch_add(dropped, Relaxed);
            model.learn_checks(checks);
        };
        if is_error {
            // An error is no answer: histories, sessions and charts are of results.
            also(locked.tool_mut(), None);
        } else {
            self.learn(locked, case, also);
        }
    }

    /// Learns a result that someone vouches for, or doubts what is odd in it from now on.
    pub(super) fn judged_by_hand(&self, case: &Case<'_>, resolved: &Resolved, genuine: bool) {
        let paths = Paths::new(self.state.seed);
        let mut locked = self.state.lock(case.ids);
        if self.mode == super::Mode::Fixed {
            if genuine {
                self.learn(&mut locked, case, |_, _| {});
            }
            return;
        }
        let is_error = case.call.is_error;
        let model = locked.tool().and_then(|tool| tool.shape(is_error));
        let observation = case.observation(model, paths);
        let mut evaluation = Evaluation::new(resolved, case, model);
        if !is_error {
            evaluation.history(&locked, &case.fields, self.state.seed);
            evaluation.session(&locked, &case.fields, self.state.seed);
            evaluation.spc(&locked, &case.fields, case.size, self.state.seed);
        }
        let checks = evaluation.results;
        let odd = self.odd(&locked, case, &observation, &checks);
        locked.tool_mut().shape_mut(is_error).oddities.judged_by_hand(&odd, genuine);
        if genuine {
            let surprises = Surprises::none();
            self.learn_adaptive(
                &mut locked,
                case,
                Basis { observation, surprises, strongest: None, recurring: false },
                &checks,
                true,
                0.0,
            );
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

/// The evidence of the table's own content checks, in nats, and by what share it weighs less for having been there before.
fn table_evidence(checks: &[CheckResult], model: Option<&Model>, origin: Origin) -> (f64, f32) {
    let fired = checks.iter().filter(|result| result.fired).map(|result| {
        let relief = model.map_or(0.0, |model| model.oddities.relief(table_key(result.check), origin));
        (result.evidence().log_ratio(), relief)
    });
    let left = |(nats, relief): (f64, f32)| nats * f64::from(1.0 - relief);
    fired.fold((0.0, 0.0), |most, next| if left(next) > left(most) { next } else { most })
}

/// A check of the table, as an oddity.
fn table_key(check: Check) -> OddityKey {
    fold(mix(TABLE, check as u64))
}

/// Tells checks of the table from paths.
const TABLE: u64 = 0x7ab1_e0dd;

/// What weighed most, in words.
fn explain_oddity(checks: &[CheckResult]) -> String {
    let fired = checks.iter().filter(|result| result.fired && result.detail.is_some());
    let most = fired.max_by(|a, b| a.evidence().log_ratio().total_cmp(&b.evidence().log_ratio()));
    most.and_then(|result| result.detail.clone()).unwrap_or_else(|| "results are unlike those before".to_owned())
}
