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
        answers::{Fact, FactKey},
        echo::arguments,
        evidence::{Evidence, together},
        model::Model,
        observation::Observation,
        observe::{Paths, fold, mix, observe},
        oddities::{ANNOUNCED, Announced, MAX_BLOCKED_RUN, Oddities, OddityKey, Sight},
        surprise::{Aspect, Odd, Surprises},
    },
    state::{History, Ids, Locked, ToolState},
    stats::MIN_OBSERVATIONS,
    verdict::decide,
};

/// Results from which on a tool is well known.
const WELL_KNOWN: f32 = 180.0;

/// From this posterior on what is odd in an accepted result is watched for, and from this on the result is not learned before it
/// came again. In between it is learned, except for what is odd in it.
const WATCHED: f64 = 0.03;
const HELD_BACK: f64 = 0.1;
/// What is rarer than this was hardly ever there.
const NEW: f64 = 0.1;

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

    pub(super) fn observation(&self, model: Option<&Model>, paths: Paths, locked: &Locked<'_>) -> Observation<'a> {
        let arguments = arguments(self.args, paths);
        let ids = (self.ids.args(), self.ids.session());
        let seen = observe(self.result, model, paths);
        let last = locked.history().map(|history| &history.last);
        Observation::new(seen, arguments, ids, self.call.execution_time_ms).at(self.call.at, last)
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
pub(super) struct Basis<'a> {
    pub(super) observation: Observation<'a>,
    pub(super) surprises: Surprises,
    /// What weighs most in it.
    pub(super) strongest: Option<OddityKey>,
    pub(super) aspect: Option<Aspect>,
    /// It was odd before in the same way, or nearly.
    pub(super) recurring: bool,
    /// It shows what someone rejected.
    pub(super) rejected: Option<FactKey>,
    /// The part of its output schema that it breaks.
    pub(super) schema: Option<OddityKey>,
    /// It is a text unlike those before in a new way, and others were, too: it is not blocked for that, and not learned for not being
    /// blocked.
    pub(super) unlike: bool,
    /// It is built in a new way where the same few texts were given again and again: it is not blocked for that.
    pub(super) of_few: bool,
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
        let mut stage = Stage::Zero;
        let mut posterior = if evaluation.any_fired() { evaluation.posterior(prior) } else { f64::NEG_INFINITY };
        if posterior < block {
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
        let schema = SchemaDoor::of(evaluation.broken_schema, model, origin);
        let (schema_before, schema_left) = evaluation.relieve_schema(schema.relief);
        let odds = evaluation.results.iter().fold(start, |sum, result| sum + result.evidence().log_ratio());
        let stated = odds - start;
        let stated_unrelieved = stated + schema_before - schema_left;
        let mut posterior = probability(odds);
        // Had nothing odd been seen before.
        let mut unrelieved = if schema.relief > 0.0 { probability(start + stated_unrelieved) } else { posterior };
        // Were the schema not broken.
        let mut otherwise = probability(odds - schema_left);
        let mut recurring = false;
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
                    let observation = case.observation(Some(model), paths, &locked);
                    let (surprises, rejected) = model.judge(&observation, last, origin);
                    let evidence = Evidence::of(surprises, model, table, by_hand);
                    let set_by_hand = |check: Check| by_hand.contains_key(&check);
                    weigh_table(&mut evaluation.results[stated_checks..], evidence.aspect.is_none(), set_by_hand);
                    evidence.checks(model, &observation, case.result, &mut evaluation.results);
                    if evaluation.any_fired() {
                        // What weighs most comes first.
                        evaluation.results.sort_by(|a, b| b.weight().total_cmp(&a.weight()));
                    }
                    learned = (evidence.log_ratio, evidence.unrelieved);
                    recurring = evidence.recurring;
                    let mut strongest = evidence.strongest;
                    let rejected = rejected.or(schema.rejected());
                    if schema.key.is_some() && schema_before > learned.1 {
                        (strongest, recurring) = (schema.key, schema.relief > 0.0);
                    }
                    let first = evidence.aspect.and_then(|aspect| surprises.get(aspect));
                    let unlike =
                        first.is_some_and(|first| !recurring && model.is_one_of_unlike_texts(&observation, first));
                    let of_few = first.is_some_and(|first| model.is_one_of_few_texts(&observation, first));
                    let (aspect, schema) = (evidence.aspect, schema.key);
                    Basis { observation, surprises, strongest, aspect, recurring, rejected, schema, unlike, of_few }
                }
                None => Basis::of_statement(case.observation(None, paths, &locked), schema),
            });
            if learned != (0.0, 0.0) {
                posterior = probability(start + together(stated, learned.0));
                unrelieved = if learned.0 == learned.1 && schema.relief == 0.0 {
                    posterior
                } else {
                    probability(start + together(stated_unrelieved, learned.1))
                };
                otherwise = probability(start + together(stated - schema_left, learned.0));
            }
        } else if schema.key.is_some() && otherwise < stated_block {
            // What a server declares of itself can be wrong: what breaks it is counted like anything odd.
            judged = Some(Basis::of_statement(case.observation(model, paths, &locked), schema));
        }
        let flag = resolved.calibration.flag_threshold.unwrap_or(DEFAULT_FLAG);
        let block = if stage == Stage::Zero { stated_block } else { block };
        let mut decision = decide(posterior, evaluation.any_fired(), flag, block);
        let mut unlocked = false;
        if decision == Decision::Block
            && let Some(basis) = &judged
        {
            // What has come before in the same way is flagged: blocked again and again, a changed tool would be locked out.
            let locked_out = model.is_some_and(|model| model.oddities.is_locked_out());
            // By the count: what is rare fades between two sightings.
            let came_again = || {
                let strongest = basis.strongest.filter(|_| basis.rejected.is_none());
                strongest.zip(model).is_some_and(|(key, model)| model.oddities.came_again(key))
            };
            let learned = stage == Stage::One && (recurring || basis.unlike || basis.of_few || came_again());
            unlocked = locked_out || learned || (schema.came_again && otherwise < block);
            decision = if unlocked { Decision::Flag } else { decision };
        }
        let checks = evaluation.results;
        let mut changes = Vec::new();
        if case.call.learn {
            // What is learned depends on the evidence, not on what was set by hand.
            let by_default = |posterior: f64| {
                if prior == DEFAULT_PRIOR {
                    return posterior;
                }
                probability(log_odds(DEFAULT_PRIOR) + log_odds(posterior) - start)
            };
            let (doubt, plain) = (by_default(posterior), by_default(unrelieved));
            if let Some(basis) = judged {
                self.take_in(&mut locked, case, basis, (&checks, decision), (posterior, doubt, plain), &mut changes);
            }
        }
        let withheld = (decision == Decision::Flag && posterior >= least_block).then_some(block);
        Judged { decision, posterior, prior, stage, checks, withheld: withheld.filter(|_| !unlocked), changes }
    }

    /// Learns a result, or counts what is odd in it. `posterior` is as it was given, `doubt` at the default prior, `plain` what that
    /// would be had nothing odd been seen before.
    fn take_in(
        &self,
        locked: &mut Locked<'_>,
        case: &Case<'_>,
        basis: Basis<'_>,
        (checks, decision): (&[CheckResult], Decision),
        (posterior, doubt, plain): (f64, f64, f64),
        changes: &mut Vec<Change>,
    ) {
        let is_error = case.call.is_error;
        let what = || explain_oddity(checks);
        if let Some(rejected) = basis.rejected {
            // It counts for nothing but itself.
            let model = locked.tool_mut().shape_mut(is_error);
            model.oddities.next_call();
            if model.oddities.count_run(decision == Decision::Block, false) {
                changes.push(Change { stage: ChangeStage::LockedOut, sightings: MAX_BLOCKED_RUN, what: what() });
            }
            if let Some(sightings) = model.answers.repeated(rejected) {
                changes.push(Change { stage: ChangeStage::Recurring, sightings, what: what() });
            }
            return;
        }
        let accepted = doubt < DEFAULT_FLAG;
        let doubted = !accepted || plain >= DEFAULT_FLAG;
        // A lie that is missed by a little comes again: what nearly was doubted is watched, and so is what was odd before.
        let oddities = locked.tool().and_then(|tool| tool.shape(is_error)).map(|model| &model.oddities);
        let fired = || checks.iter().any(|result| result.fired);
        let again = || oddities.is_some_and(|oddities| !oddities.is_empty()) && fired();
        let mut odd = if doubted || plain >= WATCHED || again() {
            self.odd(locked, case, &basis.observation, (checks, basis.schema))
        } else {
            Odd::default()
        };
        if !doubted && plain < HELD_BACK {
            odd.keys.retain(|(key, _)| oddities.is_some_and(|oddities| oddities.knows(*key)));
        }
        // Equal arguments that were answered before cannot come from another caller: their answer may change by itself.
        let answered = locked.history().is_some_and(|history| history.last.is_known()) || case.ids.args().is_none();
        let by = Sight { caller: case.ids.caller(), alone: !answered, doubted };
        let model = locked.tool_mut().shape_mut(is_error);
        let known = model.results;
        if !accepted {
            model.answers.doubt(basis.observation.id(), posterior, (&odd.facts, basis.aspect));
        }
        let watched = if plain >= WATCHED { new_facts(&basis.surprises, &odd.facts) } else { Vec::new() };
        let odd = odd.keys;
        let oddities = &mut model.oddities;
        oddities.next_call();
        if let Some(Announced { sightings, alike }) = oddities.see_all(&odd, basis.strongest, by) {
            // The words name what weighs most, which need not be what has come again.
            let named = basis.strongest.and_then(|key| oddities.count(key));
            let (sightings, alike) =
                named.map_or((sightings, alike), |own| if own > 1 { (own, alike) } else { (sightings, false) });
            let what = if alike { what() } else { format!("{}; something else was odd there before", what()) };
            changes.push(Change { stage: ChangeStage::Recurring, sightings, what });
        }
        // A lie may be hardly odd each time it is told.
        let told = watched.iter().filter_map(|new| oddities.watch(new.fact, new.cause)).last();
        if let Some(Announced { sightings, alike }) = told
            && changes.is_empty()
        {
            let what = if alike { what() } else { format!("{}; it was something else before", what()) };
            changes.push(Change { stage: ChangeStage::Recurring, sightings, what });
        }
        if oddities.count_run(decision == Decision::Block, accepted) {
            changes.push(Change { stage: ChangeStage::LockedOut, sightings: MAX_BLOCKED_RUN, what: what() });
        }
        // What is nearly doubted in a tool well known does not become usual before it was announced, or one lie would do for the next.
        let counted = basis.strongest.filter(|key| odd.iter().any(|(counted, _)| counted == key));
        let heard = counted.is_none_or(|key| oddities.is_announced(key));
        let unheard = plain >= HELD_BACK && known >= WELL_KNOWN && !heard;
        let is_held = |fact: FactKey| accepted && known >= WELL_KNOWN && !oddities.is_told(fact);
        let held: Vec<u32> = watched.iter().filter(|new| is_held(new.fact)).map(|new| new.place).collect();
        if accepted {
            let odd = if doubted { &*odd } else { &[] };
            if let Some(sightings) = oddities.believe(odd, basis.strongest) {
                changes.push(Change { stage: ChangeStage::Believed, sightings, what: what() });
            }
            oddities.fade(odd);
            oddities.earn();
        }
        let on_credit = |oddities: &mut Oddities| {
            // What is odd in a tool well known is not learned before it was announced.
            let seen = || basis.recurring || basis.strongest.is_some_and(|key| oddities.sightings(key) >= ANNOUNCED);
            let cost = if doubt < DEFAULT_BLOCK { 0.5 } else { 1.0 };
            decision != Decision::Block && !basis.unlike && (known < WELL_KNOWN || seen()) && oddities.spend(cost)
        };
        let learned = if accepted {
            !unheard
        } else {
            on_credit(oddities)
                || case.ids.session().is_some_and(|session| oddities.corroborates(&basis.observation, session))
        };
        if learned {
            if !accepted && known >= MIN_OBSERVATIONS as f32 {
                let taken = basis.strongest.and_then(|key| oddities.take_in(key));
                let stage = if taken.is_some() { ChangeStage::Believed } else { ChangeStage::Learned };
                changes.push(Change { stage, sightings: taken.unwrap_or(1), what: explain_oddity(checks) });
            }
            self.learn_adaptive(locked, case, basis, checks, (accepted, doubt), &held);
        }
    }

    /// Everything odd in a result, by the tool's model and by the table.
    pub(super) fn odd(
        &self,
        locked: &Locked<'_>,
        case: &Case<'_>,
        observation: &Observation<'_>,
        (checks, schema): (&[CheckResult], Option<OddityKey>),
    ) -> Odd {
        let last = locked.history().map(|history| &history.last);
        let model = locked.tool().and_then(|tool| tool.shape(case.call.is_error));
        let mut odd = model.map_or_else(Odd::default, |model| model.odd(observation, last));
        let fired = checks.iter().filter(|result| result.fired);
        odd.keys.extend(fired.map(|result| {
            let of_schema = schema.filter(|_| result.check == Check::SchemaMismatch);
            let key = of_schema.unwrap_or_else(|| table_key(result.check));
            (key, key)
        }));
        odd
    }

    pub(super) fn learn_adaptive(
        &self,
        locked: &mut Locked<'_>,
        case: &Case<'_>,
        mut basis: Basis<'_>,
        checks: &[CheckResult],
        (believed, doubt): (bool, f64),
        held: &[u32],
    ) {
        let limit = self.state.paths_per_tool();
        let is_error = case.call.is_error;
        let mut also = |tool: &mut ToolState, history: Option<&mut History>| {
            let model = tool.shape_mut(is_error);
            let last = history.filter(|_| !is_error).map(|history| &mut history.last);
            let dropped = model.learn(&mut basis.observation, &basis.surprises, last, (believed, doubt), held, limit);
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

    /// What both modes remember, and what `also` remembers beside it.
    pub(super) fn learn(
        &self,
        locked: &mut Locked<'_>,
        case: &Case<'_>,
        also: impl FnOnce(&mut ToolState, Option<&mut History>),
    ) {
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

impl<'a> Basis<'a> {
    /// Nothing but what the profile states is known of it.
    fn of_statement(observation: Observation<'a>, schema: SchemaDoor) -> Self {
        Self {
            observation,
            surprises: Surprises::none(),
            strongest: schema.key,
            aspect: None,
            recurring: schema.relief > 0.0,
            rejected: schema.rejected(),
            schema: schema.key,
            unlike: false,
            of_few: false,
        }
    }
}

/// What is known of results that break the output schema in the same part (docs/adr/0024, rule 9).
#[derive(Clone, Copy, Default)]
struct SchemaDoor {
    /// The part as an oddity; none where the schema is kept.
    key: Option<OddityKey>,
    relief: f32,
    /// Two results or more broke it there.
    came_again: bool,
    is_rejected: bool,
}

impl SchemaDoor {
    fn of(broken: Option<u64>, model: Option<&Model>, origin: Origin) -> Self {
        let key = broken.map(schema_key);
        let Some((key, model)) = key.zip(model) else { return Self { key, ..Self::default() } };
        if model.answers.is_rejected(key) {
            return Self { key: Some(key), is_rejected: true, ..Self::default() };
        }
        let relief = if model.answers.is_confirmed(key) { 1.0 } else { model.oddities.relief(key, origin) };
        Self { key: Some(key), relief, came_again: model.oddities.came_again(key), is_rejected: false }
    }

    fn rejected(self) -> Option<FactKey> {
        self.key.filter(|_| self.is_rejected)
    }
}

/// A part of a schema that is broken, as an oddity.
pub(super) fn schema_key(part: u64) -> OddityKey {
    fold(mix(TABLE ^ part, Check::SchemaMismatch as u64))
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

/// Only the strongest of the table's content checks counts, and only where nothing learned weighs more: the others are counted with 1.
fn weigh_table(checks: &mut [CheckResult], counts: bool, set_by_hand: impl Fn(Check) -> bool) {
    let strongest = checks.iter().map(CheckResult::weight).fold(f64::NEG_INFINITY, f64::max);
    for result in checks.iter_mut().filter(|result| result.fired && !set_by_hand(result.check)) {
        if !counts || result.weight() < strongest {
            result.likelihood_ratio = 1.0;
        }
    }
}

/// What is new in a result, by aspect.
fn new_facts(surprises: &Surprises, facts: &[Fact]) -> Vec<NewFact> {
    let new = [Aspect::Structure, Aspect::Format, Aspect::Value, Aspect::Range].into_iter().filter_map(|aspect| {
        let surprise = surprises.get(aspect)?;
        // The rarest, also where something less rare weighs more, because this has come before.
        let here = facts.iter().filter(|fact| fact.aspect == aspect && fact.rarity < NEW.min(surprise.rarity * EQUAL));
        let rarest = here.min_by(|a, b| a.rarity.total_cmp(&b.rarity));
        let listed = rarest.map(|fact| NewFact { fact: fact.key, cause: fact.manner, place: fact.place });
        // Of a result with much that is odd not every fact is listed.
        let unlisted = || NewFact { fact: surprise.key, cause: surprise.manner, place: surprise.place };
        listed.or_else(|| (surprise.rarity < NEW).then(unlisted))
    });
    new.collect()
}

/// Rarities that differ by less are equal.
const EQUAL: f64 = 1.0 + 1e-9;

/// Something new at a place.
struct NewFact {
    fact: FactKey,
    /// The place, the cause and its manner, whatever is found there: lies that fill a closed set with a new value each time share nothing else.
    cause: OddityKey,
    place: u32,
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
    let most = fired.max_by(|a, b| a.weight().total_cmp(&b.weight()));
    most.and_then(|result| result.detail.clone()).unwrap_or_else(|| "results are unlike those before".to_owned())
}
