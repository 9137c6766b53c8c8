//! The engine: two tiers of signals, the combiner, the decision, and learning (seed 2, "Tiered Architecture").

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hasher, RandomState},
    sync::{Arc, Mutex, PoisonError, atomic::Ordering::Relaxed},
};

use arc_swap::ArcSwap;
use serde::Serialize;

use crate::{
    Calibration, Call, Decision, Error, Limits, Signal, Tier, ToolProfile, Verdict,
    calibration::{DEFAULT_BLOCK, DEFAULT_FLAG, DEFAULT_PRIOR},
    checks::Checks,
    consistency::{HISTORY_RESULTS, SESSION_RESULTS},
    fields::{Field, Fields},
    snapshot,
    state::{Locked, MAX_TOOL_NAME, State},
    text,
    verdict::explain,
};

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
pub(crate) struct Resolved {
    pub(crate) profile: Option<Arc<ToolProfile>>,
    pub(crate) calibration: Calibration,
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
