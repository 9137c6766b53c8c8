//! The engine: two tiers of signals, the combiner, the decision, and learning (seed 2, "Tiered Architecture").

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hasher, RandomState},
    sync::{Arc, Mutex, PoisonError, atomic::Ordering::Relaxed},
};

use arc_swap::ArcSwap;
use serde::Serialize;
use serde_json::Value;

use crate::{
    Calibration, Call, Decision, Error, Limits, Signal, SignalResult, Tier, ToolProfile, Verdict,
    calibration::{DEFAULT_BLOCK, DEFAULT_FLAG, DEFAULT_PRIOR},
    combiner::posterior,
    consistency::{HISTORY_RESULTS, HISTORY_SWING, SESSION_RESULTS, SESSION_SWING, Swings},
    fields::{self, Field, Fields},
    profile::UNKNOWN_LATENCY_MS,
    snapshot, spc,
    state::{Locked, MAX_TOOL_NAME, State},
    text,
    verdict::explain,
};

/// Below this no network call comes back, in milliseconds.
const IMPOSSIBLE_MS: f64 = 2.0;
/// Latency and range scores below this do not fire.
const LEAST_RANGE_SCORE: f64 = 0.3;
/// The least ratio of an impossible latency: near-certain fabrication.
const IMPOSSIBLE_RATIO: f64 = 15.0;
/// The same when the score is at least [`CERTAIN_SCORE`].
const CERTAIN_RATIO: f64 = 50.0;
const CERTAIN_SCORE: f64 = 0.9;
/// A pattern mismatch, and a response that should be an object and is none.
const FIXED_SCORE: f64 = 0.8;
/// Each field beyond 3σ.
const IMPLAUSIBLE_FIELD: f64 = 0.3;
/// The EMA's α of feedback.
const FEEDBACK_WEIGHT: f64 = 0.1;
/// Feedback from which on its rate is the prior.
const MIN_FEEDBACK: u64 = 5;

/// Judges tool results. Shared by reference between threads.
pub struct Engine {
    state: State,
    /// Read by every call, changed hardly ever: readers share nothing that they write to.
    settings: ArcSwap<Settings>,
    changing: Mutex<()>,
}

#[derive(Default, Clone)]
struct Settings {
    profiles: HashMap<String, Arc<ToolProfile>>,
    global: Calibration,
    tools: HashMap<String, Calibration>,
    /// What holds for a tool with settings of its own, and for all others.
    resolved: HashMap<String, Resolved>,
    others: Resolved,
}

/// What holds for one tool.
#[derive(Default, Clone)]
struct Resolved {
    profile: Option<Arc<ToolProfile>>,
    calibration: Calibration,
}

/// Makes an [`Engine`].
#[derive(Debug, Default)]
pub struct Builder {
    limits: Limits,
}

impl Builder {
    /// How much the engine may remember.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The engine, continuing from a snapshot.
    pub fn restore(self, snapshot: &[u8]) -> Result<Engine, Error> {
        let state = snapshot::restore(self.limits, snapshot)?;
        Ok(Engine { state, settings: ArcSwap::default(), changing: Mutex::default() })
    }

    /// The engine, knowing nothing yet.
    pub fn build(self) -> Engine {
        let random = || RandomState::new().build_hasher().finish();
        let state = State::new(self.limits, (random(), random()));
        Engine { state, settings: ArcSwap::default(), changing: Mutex::default() }
    }
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
        let settings = self.settings.load();
        let resolved = settings.of(call.tool);
        let fields = Fields::of(call.result, self.state.seed, self.state.limits.max_values)?.list;
        let ids = self.state.ids(call.tool, call.args, call.session_id)?;
        let size = text::length(call.result);
        let mut checks = Checks { resolved, call, signals: Vec::with_capacity(Signal::ALL.len()) };

        checks.schema();
        checks.pattern();
        let mut locked = self.state.lock(ids);
        checks.latency(&locked);
        checks.length(size);
        let (prior, block_threshold) = thresholds(&locked, &resolved.calibration);
        let mut probability = checks.posterior(prior);
        let mut tier = Tier::Zero;
        if !(checks.any_fired() && probability >= block_threshold) {
            tier = Tier::One;
            checks.history(&locked, &fields, self.state.seed);
            checks.session(&locked, &fields, self.state.seed);
            checks.spc(&locked, &fields, size, self.state.seed);
            checks.plausibility(&locked, &fields, self.state.seed);
            probability = checks.posterior(prior);
        }
        let flag_threshold = resolved.calibration.flag_threshold.unwrap_or(DEFAULT_FLAG);
        let decision = Decision::of(probability, checks.any_fired(), flag_threshold, block_threshold);
        if call.learn && decision != Decision::Block {
            self.learn(&mut locked, call, &fields, size);
        }
        drop(locked);
        let signals = checks.signals;
        Ok(Verdict {
            tool: call.tool.to_owned(),
            decision,
            posterior: probability,
            prior,
            tier,
            explanation: explain(decision, probability, &signals),
            signals,
            agent: call.agent.map(str::to_owned),
            stake: call.stake,
        })
    }

    fn learn(&self, locked: &mut Locked<'_>, call: &Call<'_>, fields: &[Field], size: usize) {
        let limit = self.state.limits.max_fields_per_tool;
        let tool = locked.tool_mut();
        if let Some(ms) = call.execution_time_ms {
            tool.latency.push(ms);
        }
        tool.size.push(size as f64);
        for field in fields {
            let room = tool.fields.len() < limit;
            match tool.fields.get_mut(&field.path) {
                Some(stats) => stats.push(field.value),
                None if room => tool.fields.entry(field.path).or_default().push(field.value),
                None => drop(self.state.counters.fields_dropped.fetch_add(1, Relaxed)),
            }
        }
        locked
            .remember(|history| history.push(fields, HISTORY_RESULTS), |session| session.push(fields, SESSION_RESULTS));
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
        let feedback = &mut locked.tool_mut().feedback;
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
    fn of(&self, tool: &str) -> &Resolved {
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
fn thresholds(locked: &Locked<'_>, calibration: &Calibration) -> (f64, f64) {
    let feedback = locked.tool().map(|tool| tool.feedback).unwrap_or_default();
    let fed_back = |least: u64| feedback.count >= least;
    let prior = if fed_back(MIN_FEEDBACK) { feedback.rate.clamp(1e-6, 1.0 - 1e-6) } else { DEFAULT_PRIOR };
    let moved = (DEFAULT_BLOCK + 2.0 * (DEFAULT_PRIOR - feedback.rate)).clamp(0.1, 0.9);
    let block = if fed_back(1) { moved } else { DEFAULT_BLOCK };
    (calibration.prior.unwrap_or(prior), calibration.block_threshold.unwrap_or(block))
}

/// The signals of one call, as far as they could be evaluated.
struct Checks<'a> {
    resolved: &'a Resolved,
    call: &'a Call<'a>,
    signals: Vec<SignalResult>,
}

impl Checks<'_> {
    fn add(&mut self, signal: Signal, fired: bool, score: f64, detail: impl FnOnce() -> String) {
        self.add_at_least(signal, 0.0, fired, score, detail);
    }

    fn add_at_least(&mut self, signal: Signal, least: f64, fired: bool, score: f64, detail: impl FnOnce() -> String) {
        let set = self.resolved.calibration.likelihood_ratios.get(&signal).copied();
        let likelihood_ratio = set.unwrap_or_else(|| signal.default_ratio()).max(least);
        let detail = fired.then(detail);
        self.signals.push(SignalResult {
            signal,
            fired,
            score: if fired { score } else { 0.0 },
            likelihood_ratio,
            detail,
        });
    }

    fn any_fired(&self) -> bool {
        self.signals.iter().any(|result| result.fired)
    }

    fn posterior(&self, prior: f64) -> f64 {
        posterior(prior, self.signals.iter().map(SignalResult::evidence))
    }

    fn schema(&mut self) {
        let resolved = self.resolved;
        let Some(profile) = &resolved.profile else { return };
        let (required, forbidden) = (profile.required(), profile.forbidden());
        let total = required.len() + forbidden.len() + usize::from(profile.schema.is_some());
        if total == 0 {
            return;
        }
        let result = self.call.result;
        if !required.is_empty() && !result.is_object() && !required.iter().any(|path| path.starts_with('[')) {
            let kind = kind(result);
            return self.add(Signal::SchemaMismatch, true, FIXED_SCORE, || {
                format!("an object was expected, the result is {kind}")
            });
        }
        let missing: Vec<&str> =
            required.iter().map(String::as_str).filter(|path| !fields::has_path(result, path)).collect();
        let present: Vec<&str> =
            forbidden.iter().map(String::as_str).filter(|path| fields::has_path(result, path)).collect();
        let broken = profile.schema.as_ref().and_then(|schema| schema.validate(result).err());
        let violations = missing.len() + present.len() + usize::from(broken.is_some());
        self.add(Signal::SchemaMismatch, violations > 0, violations as f64 / total as f64, || {
            let mut what = Vec::new();
            if !missing.is_empty() {
                what.push(format!("missing {}", missing.join(", ")));
            }
            if !present.is_empty() {
                what.push(format!("forbidden {} present", present.join(", ")));
            }
            if let Some(broken) = broken {
                let place = broken.instance_path().to_string();
                what.push(format!(
                    "breaks the output schema at {}",
                    if place.is_empty() { "its root" } else { &place }
                ));
            }
            what.join("; ")
        });
    }

    fn pattern(&mut self) {
        let Some(patterns) = self.resolved.profile.as_ref().and_then(|profile| profile.patterns.as_ref()) else {
            return;
        };
        let matched = patterns.is_match(&text::text(self.call.result));
        self.add(Signal::PatternMismatch, !matched, FIXED_SCORE, || {
            format!("matches none of {} expected patterns", patterns.len())
        });
    }

    fn latency(&mut self, locked: &Locked<'_>) {
        let Some(ms) = self.call.execution_time_ms else { return };
        let profile = self.resolved.profile.as_deref();
        let (min, max) = profile.map_or(UNKNOWN_LATENCY_MS, ToolProfile::latency_ms);
        let signal = Signal::LatencyAnomaly;
        if ms < IMPOSSIBLE_MS && profile.is_none_or(ToolProfile::has_network_io) {
            let score = 1.0 - ms / IMPOSSIBLE_MS;
            let least = if score >= CERTAIN_SCORE { CERTAIN_RATIO } else { IMPOSSIBLE_RATIO };
            return self
                .add_at_least(signal, least, true, score, || format!("{ms} ms is impossibly fast for a network call"));
        }
        if ms < min {
            let score = libm::sqrt(1.0 - ms / min);
            return self
                .add(signal, score >= LEAST_RANGE_SCORE, score, || format!("{ms} ms is below the expected {min} ms"));
        }
        if ms > max {
            let score = (ms / max - 1.0).min(1.0);
            return self
                .add(signal, score >= LEAST_RANGE_SCORE, score, || format!("{ms} ms is above the expected {max} ms"));
        }
        let stats = locked.tool().map(|tool| &tool.latency).filter(|stats| stats.is_established());
        let z = stats.and_then(|stats| stats.lifetime().z(ms)).unwrap_or_default();
        self.add(signal, z.abs() > 3.0, ((z.abs() - 3.0) / 3.0).clamp(0.0, 1.0), || {
            format!("{ms} ms is {z:.1}σ from the tool's own latencies")
        });
    }

    fn length(&mut self, size: usize) {
        let Some(profile) = &self.resolved.profile else { return };
        let (least, most) = profile.length_bounds();
        let signal = Signal::LengthAnomaly;
        match (least, most) {
            (None, None) => {}
            (Some(least), _) if size < least => {
                let score = 0.5 * (1.0 - size as f64 / least as f64);
                self.add(signal, true, score, || format!("{size} characters, at least {least} were expected"));
            }
            (_, Some(most)) if size > most => {
                self.add(signal, true, 0.2, || format!("{size} characters, at most {most} were expected"));
            }
            _ => self.add(signal, false, 0.0, String::new),
        }
    }

    fn history(&mut self, locked: &Locked<'_>, fields: &[Field], seed: u64) {
        if let Some(history) = locked.history().filter(|history| history.len() >= HISTORY_RESULTS) {
            let swings = history.swings(fields, HISTORY_SWING);
            self.swings(Signal::HistoricalInconsistency, swings, seed, "for these arguments");
        }
    }

    fn session(&mut self, locked: &Locked<'_>, fields: &[Field], seed: u64) {
        if let Some(session) = locked.session().filter(|session| session.len() > 0) {
            let swings = session.swings(fields, SESSION_SWING);
            self.swings(Signal::SessionInconsistency, swings, seed, "in this session");
        }
    }

    fn swings(&mut self, signal: Signal, swings: Swings, seed: u64, when: &str) {
        let result = self.call.result;
        self.add(signal, swings.widest.is_some(), swings.score, || {
            let (path, was, is) = swings.widest.unwrap_or_default();
            format!("field '{}': {is} where it was {was} before {when}", fields::name(result, path, seed))
        });
    }

    fn spc(&mut self, locked: &Locked<'_>, fields: &[Field], size: usize, seed: u64) {
        let Some(tool) = locked.tool() else { return };
        let (mut evaluated, mut score) = (false, 0.0);
        let mut first: Option<(Observed, spc::Rule)> = None;
        let latency = self.call.execution_time_ms.map(|ms| (Observed::Latency, &tool.latency, ms));
        let sizes = std::iter::once((Observed::Size, &tool.size, size as f64));
        let numbers = fields.iter().filter_map(|field| {
            tool.fields.get(&field.path).map(|stats| (Observed::Field(field.path), stats, field.value))
        });
        for (what, stats, value) in latency.into_iter().chain(sizes).chain(numbers) {
            let Some(rules) = spc::fired(stats, value) else { continue };
            evaluated = true;
            for rule in rules {
                score += rule.weight();
                first.get_or_insert((what, rule));
            }
        }
        if evaluated {
            let result = self.call.result;
            self.add(Signal::SpcAnomaly, first.is_some(), f64::min(score, 1.0), || {
                let Some((what, rule)) = first else { return String::new() };
                let name = match what {
                    Observed::Latency => "the latency".to_owned(),
                    Observed::Size => "the response's size".to_owned(),
                    Observed::Field(path) => format!("field '{}'", fields::name(result, path, seed)),
                };
                format!("{name} is out of control ({})", rule.describe())
            });
        }
    }

    fn plausibility(&mut self, locked: &Locked<'_>, fields: &[Field], seed: u64) {
        let Some(tool) = locked.tool() else { return };
        let (mut evaluated, mut implausible) = (false, Vec::new());
        for field in fields {
            let Some(stats) = tool.fields.get(&field.path).filter(|stats| stats.is_established()) else { continue };
            let Some(z) = stats.window().z(field.value) else { continue };
            evaluated = true;
            if z.abs() > 3.0 {
                implausible.push((field, z));
            }
        }
        if evaluated {
            let score = (IMPLAUSIBLE_FIELD * implausible.len() as f64).min(1.0);
            let result = self.call.result;
            self.add(Signal::ValuePlausibility, !implausible.is_empty(), score, || {
                implausible.first().map_or_else(String::new, |(field, z)| {
                    format!(
                        "field '{}' is {}, {z:.1}σ from its recent values",
                        fields::name(result, field.path, seed),
                        field.value
                    )
                })
            });
        }
    }
}

#[derive(Clone, Copy)]
enum Observed {
    Latency,
    Size,
    Field(fields::PathId),
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
