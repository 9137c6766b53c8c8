//! The engine: what is public of it, what it is set to and what it remembers. How a call is judged is in `judge`, how the
//! engine is put to the test in `canary`, the settings of a tool in `settings`.

mod by_hand;
mod canary;
mod judge;
mod settings;

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use arc_swap::ArcSwap;
use serde::Serialize;
use serde_json::Value;

pub use self::canary::{Canary, Recall};
use self::{canary::Canaries, settings::Settings};
pub(crate) use self::{
    judge::Case,
    settings::{Resolved, thresholds, within_budget},
};
use crate::{
    Calibration, Call, Error, Limits, ToolProfile, Verdict,
    calibration::DEFAULT_BLOCK,
    call::Json,
    fields::Fields,
    memory::Trimmed,
    snapshot,
    state::{MAX_TOOL_NAME, State, ToolState},
    text,
};

/// The EMA's α of feedback.
const FEEDBACK_WEIGHT: f64 = 0.1;

/// Judges tool results. Shared by reference between threads.
pub struct Engine {
    mode: Mode,
    state: State,
    /// Read by every call, changed hardly ever: readers share nothing that they write to.
    settings: ArcSwap<Settings>,
    changing: Mutex<()>,
    canaries: Mutex<Canaries>,
}

/// Makes an [`Engine`].
#[derive(Debug, Default)]
pub struct Builder {
    mode: Mode,
    limits: Limits,
    total: Arc<AtomicUsize>,
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

    /// Where the bytes of what is remembered are counted as well: several engines may count in one place.
    pub fn counted_in(mut self, total: Arc<AtomicUsize>) -> Self {
        self.total = total;
        self
    }

    /// The engine, continuing from a snapshot.
    pub fn restore(self, snapshot: &[u8]) -> Result<Engine, Error> {
        let state = snapshot::restore(self.limits, snapshot, self.total)?;
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
        let state = State::new(self.limits, (random(), random()), self.total);
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
    /// The seed to the letter: eight checks with fixed likelihood ratios.
    Fixed,
    /// The same table corrected by each tool's own traffic, and what a model of the tool's results, learned unaided, says.
    #[default]
    Adaptive,
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
    /// Bytes of all of it, without what the allocator adds.
    pub bytes: usize,
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

    /// Forgets a tool: its profile, and what was learned of its results. Histories of its arguments and sessions age by themselves.
    pub fn forget(&self, tool: &str) -> Result<(), Error> {
        check_tool(tool)?;
        self.change(|settings| drop(settings.profiles.remove(tool)));
        let mut locked = self.state.lock(self.state.ids(tool, None, None)?);
        *locked.tool_mut() = ToolState::default();
        Ok(())
    }

    /// Sets prior, thresholds and ratios, for every tool or for one. What is absent keeps what holds without it.
    pub fn calibrate(&self, tool: Option<&str>, calibration: Calibration) -> Result<(), Error> {
        calibration.validate()?;
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
        let judged = self.with_case(call, |case, resolved| match self.mode {
            Mode::Fixed => self.fixed(case, resolved),
            Mode::Adaptive => self.adaptive(case, resolved),
        })?;
        Ok(Verdict {
            tool: call.tool.to_owned(),
            decision: judged.decision,
            posterior: judged.posterior,
            prior: judged.prior,
            stage: judged.stage,
            checks: judged.checks,
            changes: judged.changes,
            agent: call.agent.map(str::to_owned),
            stake: call.stake,
            withheld: judged.withheld,
        })
    }

    /// Tells the engine that a result was genuine, whatever the verdict on it was: it is learned at once, and what is odd in it
    /// (a new member, a value) is believed from now on. The call is given again as it was; thresholds do not move
    /// ([`record_feedback`](Self::record_feedback) moves them).
    ///
    /// ```
    /// # use credence_verify::{Call, Decision, Engine};
    /// # use serde_json::json;
    /// let engine = Engine::builder().build();
    /// for n in 0..100 {
    ///     engine.verify(&Call::new("get_order", &json!({"id": n, "status": "paid"})))?;
    /// }
    /// let error = json!("Error: no such order");
    /// assert_ne!(engine.verify(&Call::new("get_order", &error))?.decision, Decision::Accept);
    /// engine.confirm(&Call::new("get_order", &error))?;
    /// assert_eq!(engine.verify(&Call::new("get_order", &error))?.decision, Decision::Accept);
    /// # Ok::<(), credence_verify::Error>(())
    /// ```
    pub fn confirm(&self, call: &Call<'_>) -> Result<(), Error> {
        self.with_case(call, |case, resolved| self.judged_by_hand(case, resolved, true))
    }

    /// Tells the engine that a result was made up: results that show what was odd in it are doubted from now on, also where it was
    /// learned already, until it came forty times. Other oddities of the same place are not concerned.
    pub fn reject(&self, call: &Call<'_>) -> Result<(), Error> {
        self.with_case(call, |case, resolved| self.judged_by_hand(case, resolved, false))
    }

    /// Takes a call apart, and what holds for its tool.
    fn with_case<T>(&self, call: &Call<'_>, then: impl FnOnce(&Case<'_>, &Resolved) -> T) -> Result<T, Error> {
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
        Ok(then(&case, resolved))
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
            tool.model.oddities.feedback(!was_hallucination);
            if was_hallucination {
                let paths = tool.model.known_paths();
                tool.model.answers.reject_by_posterior(confidence_score, paths);
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
            bytes: self.state.bytes(),
        }
    }

    /// Forgets what was least recently used until at most `most` bytes are left.
    pub fn trim(&self, most: usize) -> Trimmed {
        self.state.trim(most)
    }
}

fn check_tool(tool: &str) -> Result<(), Error> {
    match tool.len() {
        0 => Err(Error::NoTool),
        bytes if bytes > MAX_TOOL_NAME => Err(Error::ToolName { bytes, limit: MAX_TOOL_NAME }),
        _ => Ok(()),
    }
}
