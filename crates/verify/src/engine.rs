//! The engine: two tiers of signals, the combiner, the decision, and learning (seed 2, "Tiered Architecture").

use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasher, Hasher, RandomState},
    sync::{Arc, Mutex, PoisonError, atomic::Ordering::Relaxed},
};

use arc_swap::ArcSwap;
use serde::Serialize;
use serde_json::Value;

use crate::{
    Calibration, Call, Decision, Error, Limits, Signal, SignalResult, Tier, ToolProfile, Verdict,
    calibration::{DEFAULT_BLOCK, DEFAULT_FALSE_BLOCKS, DEFAULT_FLAG, DEFAULT_PRIOR},
    call::Json,
    checks::Checks,
    combiner::{log_odds, probability},
    consistency::{HISTORY_RESULTS, SESSION_RESULTS},
    fabricate::{Fabrication, Genuine},
    fields::{Field, Fields},
    learned::{
        echo::arguments,
        evidence::{Evidence, together},
        model::{Last, Model},
        observe::{Paths, observe},
        scene::Scene,
        surprise::Surprises,
    },
    snapshot,
    state::{History, Ids, Locked, MAX_TOOL_NAME, State, ToolState},
    stats::MIN_OBSERVATIONS,
    text,
    verdict::explain,
};

/// The EMA's α of feedback.
const FEEDBACK_WEIGHT: f64 = 0.1;
/// Feedback from which on its rate is the prior.
const MIN_FEEDBACK: u64 = 5;

/// Judges tool results. Shared by reference between threads.
pub struct Engine {
    mode: Mode,
    state: State,
    /// Read by every call, changed hardly ever: readers share nothing that they write to.
    settings: ArcSwap<Settings>,
    changing: Mutex<()>,
    canaries: Mutex<Canaries>,
}

/// What became of the canaries so far.
#[derive(Default)]
struct Canaries {
    made: u64,
    recall: BTreeMap<Fabrication, Recall>,
}

#[derive(Default, Clone)]
pub(crate) struct Settings {
    profiles: HashMap<String, Arc<ToolProfile>>,
    global: Calibration,
    tools: HashMap<String, Calibration>,
    /// What holds for a tool with settings of its own, and for all others.
    resolved: HashMap<String, Resolved>,
    others: Resolved,
}

/// What holds for one tool.
#[derive(Default, Clone)]
pub(crate) struct Resolved {
    pub(crate) profile: Option<Arc<ToolProfile>>,
    pub(crate) calibration: Calibration,
}

/// Makes an [`Engine`].
#[derive(Debug, Default)]
pub struct Builder {
    mode: Mode,
    limits: Limits,
}

impl Builder {
    /// How results are judged; adaptive by default.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// How much the engine may remember.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The engine, continuing from a snapshot.
    pub fn restore(self, snapshot: &[u8]) -> Result<Engine, Error> {
        let state = snapshot::restore(self.limits, snapshot)?;
        Ok(Engine {
            mode: self.mode,
            state,
            settings: ArcSwap::default(),
            changing: Mutex::default(),
            canaries: Mutex::default(),
        })
    }

    /// The engine, knowing nothing yet.
    pub fn build(self) -> Engine {
        let random = || RandomState::new().build_hasher().finish();
        let state = State::new(self.limits, (random(), random()));
        Engine {
            mode: self.mode,
            state,
            settings: ArcSwap::default(),
            changing: Mutex::default(),
            canaries: Mutex::default(),
        }
    }
}

/// How results are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// The seed to the letter: eight signals with fixed likelihood ratios.
    Fixed,
    /// The same table corrected by each tool's own traffic, and what a model of the tool's results, learned unaided, says.
    #[default]
    Adaptive,
}

/// One call, taken apart.
pub(crate) struct Case<'a> {
    call: &'a Call<'a>,
    pub(crate) result: &'a Value,
    args: Option<&'a Value>,
    fields: Vec<Field>,
    ids: Ids,
    size: usize,
}

impl<'a> Case<'a> {
    pub(crate) fn execution_time_ms(&self) -> Option<f64> {
        self.call.execution_time_ms
    }

    fn scene(&self, model: Option<&Model>, paths: Paths) -> Scene<'a> {
        let arguments = arguments(self.args, paths);
        let ids = (self.ids.args(), self.ids.session());
        Scene::new(observe(self.result, model, paths), arguments, ids, self.call.execution_time_ms)
    }
}

/// JSON, parsed.
enum Parsed<'a> {
    Borrowed(&'a Value),
    Owned(Value),
}

impl std::ops::Deref for Parsed<'_> {
    type Target = Value;
    fn deref(&self) -> &Value {
        match self {
            Parsed::Borrowed(value) => value,
            Parsed::Owned(value) => value,
        }
    }
}

/// A verdict before it is put into words.
pub(crate) struct Judged {
    pub(crate) decision: Decision,
    pub(crate) posterior: f64,
    prior: f64,
    tier: Tier,
    pub(crate) signals: Vec<SignalResult>,
    /// The posterior it would take to block, where only the budget of false blocks kept it from that.
    pub(crate) withheld: Option<f64>,
}

/// What the engine remembers, and what it had to forget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Tools with a baseline.
    pub tools: usize,
    /// Argument sets with a history.
    pub histories: usize,
    /// Sessions.
    pub sessions: usize,
    /// Tools forgotten.
    pub evicted_tools: u64,
    /// Histories forgotten.
    pub evicted_histories: u64,
    /// Sessions forgotten.
    pub evicted_sessions: u64,
    /// Observations of fields beyond the limit per tool.
    pub fields_dropped: u64,
}

/// A made-up result, and what the engine said of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Canary {
    /// What was made up.
    pub fabrication: Fabrication,
    /// The verdict.
    pub verdict: Verdict,
}

/// How many made-up results were caught.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Recall {
    /// How many there were.
    pub made: u64,
    /// How many were flagged or blocked.
    pub flagged: u64,
    /// How many were blocked.
    pub blocked: u64,
}

/// What feedback has made of a tool's settings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Feedback {
    /// How many there were.
    pub count: u64,
    /// EMA of the share that was fabricated.
    pub rate: f64,
    /// The prior that holds.
    pub prior: f64,
    /// The blocking threshold that holds.
    pub block_threshold: f64,
    /// Mean squared error of the confidences that were fed back.
    pub brier: f64,
}

impl Engine {
    /// Starts building one.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Registers what a tool's real responses look like, in place of any former profile.
    pub fn register(&self, tool: &str, profile: ToolProfile) -> Result<(), Error> {
        check_tool(tool)?;
        self.change(|settings| {
            settings.profiles.insert(tool.to_owned(), Arc::new(profile));
        });
        Ok(())
    }

    /// Sets prior, thresholds and ratios, for every tool or for one. What is absent keeps what holds without it.
    pub fn calibrate(&self, tool: Option<&str>, calibration: Calibration) -> Result<(), Error> {
        calibration.check()?;
        tool.map_or(Ok(()), check_tool)?;
        self.change(|settings| match tool {
            Some(tool) => drop(settings.tools.insert(tool.to_owned(), calibration)),
            None => settings.global = calibration,
        });
        Ok(())
    }

    pub(crate) fn settings(&self) -> Arc<Settings> {
        self.settings.load_full()
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    fn change(&self, change: impl FnOnce(&mut Settings)) {
        let _one_at_a_time = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut settings = Settings::clone(&self.settings.load());
        change(&mut settings);
        settings.resolve();
        self.settings.store(Arc::new(settings));
    }

    /// Judges one call; learns from it unless it blocks or was told not to.
    pub fn verify(&self, call: &Call<'_>) -> Result<Verdict, Error> {
        check_tool(call.tool)?;
        if let Some(ms) = call.execution_time_ms.filter(|ms| !(*ms >= 0.0 && ms.is_finite())) {
            return Err(Error::ExecutionTime(ms));
        }
        let result = self.parse(call.result, "result")?;
        let args = call.args.map(|args| self.parse(args, "arguments")).transpose()?;
        let (result, args) = (&*result, args.as_deref());
        let settings = self.settings.load();
        let resolved = settings.of(call.tool);
        let case = Case {
            fields: Fields::of(result, self.state.seed, self.state.limits.max_values)?.list,
            ids: self.state.ids(call.tool, args, call.session_id)?,
            size: text::length(result),
            call,
            result,
            args,
        };
        let judged = match self.mode {
            Mode::Fixed => self.fixed(&case, resolved),
            Mode::Adaptive => self.adaptive(&case, resolved),
        };
        Ok(Verdict {
            tool: call.tool.to_owned(),
            decision: judged.decision,
            posterior: judged.posterior,
            prior: judged.prior,
            tier: judged.tier,
            explanation: explain(&judged),
            signals: judged.signals,
            agent: call.agent.map(str::to_owned),
            stake: call.stake,
        })
    }

    fn parse<'a>(&self, json: Json<'a>, what: &'static str) -> Result<Parsed<'a>, Error> {
        match json {
            Json::Value(value) => Ok(Parsed::Borrowed(value)),
            Json::Bytes(bytes) if bytes.len() > self.state.limits.max_bytes => {
                Err(Error::TooManyBytes { what, bytes: bytes.len(), limit: self.state.limits.max_bytes })
            }
            Json::Bytes(bytes) => serde_json::from_slice(bytes)
                .map(Parsed::Owned)
                .map_err(|e| Error::NotJson { what, why: e.to_string() }),
        }
    }

    /// The seed to the letter.
    fn fixed(&self, case: &Case<'_>, resolved: &Resolved) -> Judged {
        let seed = self.state.seed;
        let mut checks = Checks::new(resolved, case, None);
        checks.schema();
        checks.pattern();
        let mut locked = self.state.lock(case.ids);
        checks.latency(&locked);
        checks.length(case.size);
        let (prior, block) = thresholds(&locked, &resolved.calibration);
        let mut posterior = checks.posterior(prior);
        let mut tier = Tier::Zero;
        if !(checks.any_fired() && posterior >= block) {
            tier = Tier::One;
            checks.history(&locked, &case.fields, seed);
            checks.session(&locked, &case.fields, seed);
            checks.spc(&locked, &case.fields, case.size, seed);
            checks.plausibility(&locked, &case.fields, seed);
            posterior = checks.posterior(prior);
        }
        let flag = resolved.calibration.flag_threshold.unwrap_or(DEFAULT_FLAG);
        let decision = Decision::of(posterior, checks.any_fired(), flag, block);
        let signals = checks.signals;
        if case.call.learn && decision != Decision::Block {
            self.learn(&mut locked, case, |_, _| {});
        }
        Judged { decision, posterior, prior, tier, signals, withheld: None }
    }

    /// The seed's table corrected by the tool's own traffic, and what was learned unaided.
    fn adaptive(&self, case: &Case<'_>, resolved: &Resolved) -> Judged {
        let (seed, paths) = (self.state.seed, Paths::new(self.state.seed));
        let mut locked = self.state.lock(case.ids);
        let model = locked.tool().map(|tool| &tool.model);
        let mut checks = Checks::new(resolved, case, model);
        checks.schema();
        checks.pattern();
        checks.stated_latency();
        checks.length(case.size);
        let (prior, least_block) = thresholds(&locked, &resolved.calibration);
        let block = within_budget(least_block, prior, &resolved.calibration);
        let established = model.is_some_and(|model| model.results >= MIN_OBSERVATIONS as f32);
        // Before anything was learned, what a profile states decides as in mode fixed.
        let stated_block = if established { block } else { least_block };
        let start = log_odds(prior);
        let odds = checks.signals.iter().fold(start, |sum, result| sum + result.evidence().log_ratio());
        let stated = odds - start;
        let mut posterior = probability(odds);
        let mut tier = Tier::Zero;
        let mut judged = None;
        if !(checks.any_fired() && posterior >= stated_block) {
            tier = Tier::One;
            let stated_signals = checks.signals.len();
            checks.history(&locked, &case.fields, seed);
            checks.session(&locked, &case.fields, seed);
            checks.spc(&locked, &case.fields, case.size, seed);
            let table = checks.signals[stated_signals..].iter().filter(|result| result.fired);
            let table = table.map(|result| result.evidence().log_ratio()).fold(0.0, f64::max);
            let mut learned = table;
            judged = Some(match locked.tool() {
                Some(tool) => {
                    let last = locked.history().map(|history| &history.last);
                    let by_hand = &resolved.calibration.likelihood_ratios;
                    let (basis, model, evidence) = compare(tool, last, case, paths, (table, by_hand));
                    evidence.signals(model, &basis.scene, case.result, &mut checks.signals);
                    learned = evidence.log_ratio;
                    basis
                }
                None => Basis { scene: case.scene(None, paths), surprises: Surprises::none(), former: false },
            });
            if learned != 0.0 {
                posterior = probability(start + together(stated, learned));
            }
        }
        let flag = resolved.calibration.flag_threshold.unwrap_or(DEFAULT_FLAG);
        let block = if tier == Tier::Zero { stated_block } else { block };
        let decision = Decision::of(posterior, checks.any_fired(), flag, block);
        let signals = checks.signals;
        if case.call.learn {
            // What is learned depends on the evidence, not on what was set by hand.
            let doubt = probability(log_odds(DEFAULT_PRIOR) + log_odds(posterior) - start);
            match judged {
                Some(basis) if decision != Decision::Block && self.is_admitted(&mut locked, doubt) => {
                    self.learn_adaptive(&mut locked, case, basis, &signals, doubt < DEFAULT_FLAG);
                }
                Some(basis) if self.is_corroborated(&mut locked, case, &basis.scene) => {
                    self.learn_adaptive(&mut locked, case, basis, &signals, false);
                }
                _ => self.suspect(&mut locked, case, paths, &signals),
            }
        }
        let withheld = (decision == Decision::Flag && posterior >= least_block).then_some(block);
        Judged { decision, posterior, prior, tier, signals, withheld }
    }

    fn learn_adaptive(
        &self,
        locked: &mut Locked<'_>,
        case: &Case<'_>,
        mut basis: Basis<'_>,
        signals: &[SignalResult],
        believed: bool,
    ) {
        let limit = self.state.paths_per_tool();
        self.learn(locked, case, |tool, history| {
            let model = match &mut tool.former {
                Some(former) if basis.former => former,
                _ => &mut tool.model,
            };
            let last = history.map(|history| &mut history.last);
            let dropped = model.learn(&mut basis.scene, &basis.surprises, last, believed, limit);
            self.state.counters.fields_dropped.fetch_add(dropped, Relaxed);
            tool.model.learn_signals(signals);
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
    fn is_corroborated(&self, locked: &mut Locked<'_>, case: &Case<'_>, scene: &Scene<'_>) -> bool {
        case.ids.session().is_some_and(|session| locked.tool_mut().suspects.corroborates(scene, session))
    }

    /// Keeps a blocked result apart, in case it is the tool that has changed.
    fn suspect(&self, locked: &mut Locked<'_>, case: &Case<'_>, paths: Paths, signals: &[SignalResult]) {
        let limit = self.state.paths_per_tool();
        let tool = locked.tool_mut();
        let model = tool.suspects.model();
        let mut scene = case.scene(Some(model), paths);
        let surprises = model.judge(&scene, None);
        let odd = surprises.is_structural();
        model.learn(&mut scene, &surprises, None, true, limit);
        model.learn_signals(signals);
        let caller = case.ids.caller();
        tool.suspects.add(caller, &scene, odd);
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

    /// Makes up a variant of a genuine result and judges it in shadow: nothing is learned, and the caller's result is not
    /// touched. Called on a small sample of genuine results, it tells how much a running engine catches on the very tools it
    /// sees ([`Engine::recall`]). `None` when the result has nothing that could be made up.
    ///
    /// ```
    /// # use credence_verify::{Call, Engine};
    /// # use serde_json::json;
    /// let engine = Engine::builder().build();
    /// let result = json!({"temperature": 18, "humidity": 65});
    /// let call = Call::new("get_weather", &result);
    /// (0..50).for_each(|_| drop(engine.verify(&call)));
    /// let canary = engine.canary(&call)?.expect("an object can be made up");
    /// println!("{}: {}", canary.fabrication, canary.verdict.explanation);
    /// assert_eq!(engine.recall().values().map(|recall| recall.made).sum::<u64>(), 1);
    /// # Ok::<(), credence_verify::Error>(())
    /// ```
    pub fn canary(&self, call: &Call<'_>) -> Result<Option<Canary>, Error> {
        let result = self.parse(call.result, "result")?;
        let args = call.args.map(|args| self.parse(args, "arguments")).transpose()?;
        // What is too large to be judged is too large to be made up.
        Fields::of(&result, self.state.seed, self.state.limits.max_values)?;
        let genuine = Genuine {
            result: &result,
            args: args.as_deref(),
            execution_time_ms: call.execution_time_ms,
            other: None,
            foreign: None,
        };
        let turn = {
            let mut canaries = self.canaries.lock().unwrap_or_else(PoisonError::into_inner);
            canaries.made += 1;
            canaries.made
        };
        let mut random = fastrand::Rng::with_seed(self.state.seed ^ turn);
        // Each kind has its turn; one that cannot be made of this result leaves it to the next.
        let kinds = Fabrication::ALL.iter().cycle().skip(turn as usize % Fabrication::ALL.len());
        let made =
            kinds.take(Fabrication::ALL.len()).find_map(|kind| Some((*kind, kind.apply(&genuine, &mut random)?)));
        let Some((fabrication, made)) = made else { return Ok(None) };
        let shadow = Call { result: Json::Value(&made.result), execution_time_ms: made.execution_time_ms, ..*call };
        let verdict = self.verify(&shadow.learn(false))?;
        let mut canaries = self.canaries.lock().unwrap_or_else(PoisonError::into_inner);
        let recall = canaries.recall.entry(fabrication).or_default();
        recall.made += 1;
        recall.flagged += u64::from(verdict.decision != Decision::Accept);
        recall.blocked += u64::from(verdict.decision == Decision::Block);
        Ok(Some(Canary { fabrication, verdict }))
    }

    /// What became of the canaries so far, by kind.
    pub fn recall(&self) -> BTreeMap<Fabrication, Recall> {
        self.canaries.lock().unwrap_or_else(PoisonError::into_inner).recall.clone()
    }

    /// Tells the engine what a result turned out to be: `confidence_score` is the posterior it had given. The tool's
    /// blocking threshold and prior move a little each time, unless they are set by hand.
    pub fn record_feedback(&self, tool: &str, confidence_score: f64, was_hallucination: bool) -> Result<(), Error> {
        check_tool(tool)?;
        if !(0.0..=1.0).contains(&confidence_score) {
            return Err(Error::Setting(format!("confidence_score {confidence_score} is not between 0 and 1")));
        }
        let truth = f64::from(u8::from(was_hallucination));
        let mut locked = self.state.lock(self.state.ids(tool, None, None)?);
        let tool = locked.tool_mut();
        if confidence_score >= DEFAULT_BLOCK {
            tool.suspects.word(!was_hallucination);
            if let Some(proven) = tool.suspects.proven() {
                tool.adopt(proven);
            }
        }
        let feedback = &mut tool.feedback;
        feedback.count += 1;
        feedback.rate += FEEDBACK_WEIGHT * (truth - feedback.rate);
        feedback.squared_error += (confidence_score - truth) * (confidence_score - truth);
        Ok(())
    }

    /// What feedback has made of a tool's settings.
    pub fn feedback(&self, tool: &str) -> Result<Feedback, Error> {
        let settings = self.settings.load();
        let resolved = settings.of(tool);
        let locked = self.state.lock(self.state.ids(tool, None, None)?);
        let (prior, block_threshold) = thresholds(&locked, &resolved.calibration);
        let feedback = locked.tool().map(|tool| tool.feedback).unwrap_or_default();
        let brier = feedback.squared_error / feedback.count.max(1) as f64;
        Ok(Feedback { count: feedback.count, rate: feedback.rate, prior, block_threshold, brier })
    }

    /// Everything learned so far, as bytes for [`Builder::restore`]. Profiles and calibrations are not in it.
    pub fn snapshot(&self) -> Result<Vec<u8>, Error> {
        snapshot::save(&self.state)
    }

    /// What the engine remembers, and what it had to forget.
    pub fn memory(&self) -> Memory {
        let counters = &self.state.counters;
        Memory {
            tools: counters.tools.kept.load(Relaxed),
            histories: counters.histories.kept.load(Relaxed),
            sessions: counters.sessions.kept.load(Relaxed),
            evicted_tools: counters.tools.evicted.load(Relaxed),
            evicted_histories: counters.histories.evicted.load(Relaxed),
            evicted_sessions: counters.sessions.evicted.load(Relaxed),
            fields_dropped: counters.fields_dropped.load(Relaxed),
        }
    }
}

impl Settings {
    /// What holds for a tool.
    pub(crate) fn of(&self, tool: &str) -> &Resolved {
        self.resolved.get(tool).unwrap_or(&self.others)
    }

    fn resolve(&mut self) {
        self.others = Resolved { profile: None, calibration: self.global.clone() };
        let nothing = Calibration::default();
        let named = self.profiles.keys().chain(self.tools.keys());
        self.resolved = named
            .map(|tool| {
                let calibration = self.tools.get(tool).unwrap_or(&nothing).or(&self.global);
                (tool.clone(), Resolved { profile: self.profiles.get(tool).cloned(), calibration })
            })
            .collect();
    }
}

fn check_tool(tool: &str) -> Result<(), Error> {
    match tool.len() {
        0 => Err(Error::NoTool),
        bytes if bytes > MAX_TOOL_NAME => Err(Error::ToolName { bytes, limit: MAX_TOOL_NAME }),
        _ => Ok(()),
    }
}

/// The prior and the blocking threshold: set by hand, or moved by feedback, or the defaults.
pub(crate) fn thresholds(locked: &Locked<'_>, calibration: &Calibration) -> (f64, f64) {
    let feedback = locked.tool().map(|tool| tool.feedback).unwrap_or_default();
    let fed_back = |least: u64| feedback.count >= least;
    let prior = if fed_back(MIN_FEEDBACK) { feedback.rate.clamp(1e-6, 1.0 - 1e-6) } else { DEFAULT_PRIOR };
    let moved = (DEFAULT_BLOCK + 2.0 * (DEFAULT_PRIOR - feedback.rate)).clamp(0.1, 0.9);
    let block = if fed_back(1) { moved } else { DEFAULT_BLOCK };
    (calibration.prior.unwrap_or(prior), calibration.block_threshold.unwrap_or(block))
}

/// What a result was judged by.
struct Basis<'a> {
    scene: Scene<'a>,
    surprises: Surprises,
    /// Judged by what the tool was before it changed.
    former: bool,
}

/// Judges a result by the model of its tool, or by the former one where it fits better.
fn compare<'a, 't>(
    tool: &'t ToolState,
    last: Option<&Last>,
    case: &Case<'a>,
    paths: Paths,
    (table, by_hand): (f64, &BTreeMap<Signal, f64>),
) -> (Basis<'a>, &'t Model, Evidence) {
    let judge = |model: &'t Model, former: bool| {
        let scene = case.scene(Some(model), paths);
        let surprises = model.judge(&scene, last);
        (Basis { scene, surprises, former }, model, Evidence::of(surprises, model, table, by_hand))
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

/// The posterior from which on a result is blocked for what was learned.
///
/// On genuine results the ratio of likelihoods is 1 on average, so it reaches `1 / rate` in at most `rate` of them (Markov's
/// inequality). This asks nothing of how often the engine blocks, so that no flood of fabrications moves it. A threshold set
/// by hand holds as it is.
pub(crate) fn within_budget(block: f64, prior: f64, calibration: &Calibration) -> f64 {
    if calibration.block_threshold.is_some() {
        return block;
    }
    let rate = calibration.max_false_block_rate.unwrap_or(DEFAULT_FALSE_BLOCKS);
    block.max(probability(log_odds(prior) - libm::log(rate)))
}
