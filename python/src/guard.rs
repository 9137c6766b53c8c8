//! The guard inside a Python program: the native part of `credence_trust.Guard`.
//!
//! [`GuardCore::begin`] and [`GuardCore::finish`] stand around every call. Arguments and results are walked with the interpreter's lock
//! held; commitments, judging and writing happen without it.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    engine::{json_bytes, refused},
    value::{walk, walk_arguments, walk_returned},
};
use credence_guard::{
    Caller, GuardMode, Settings,
    config::{GuardConfig, effective::Flags},
    content,
    courier::CourierSettings,
    embedded::{BegunCall, CallVerdict, EmbeddedGuard, NewCall, ReturnedValue},
    oversight::Rules,
    quarantine::QuarantineSettings,
    settings::{DEFAULT_MESSAGE_BYTES, DEFAULT_RECEIPT_BYTES},
};
use credence_protocol::{
    EntityId, SecretKey, Stake, Timestamp, Uuid,
    receipt::{Exact, Vantage},
};
use credence_receipts::{Filter, claims::CheckOptions, folder};
use credence_verify::{Mode, ProfileBuilder};
use pyo3::{
    create_exception,
    exceptions::{PyRuntimeError, PyValueError},
    prelude::*,
    types::{PyDict, PyString, PyTuple},
};

create_exception!(
    credence_trust,
    GuardUnavailable,
    PyRuntimeError,
    "The guard cannot record calls: its state cannot be opened or written."
);

pub(crate) fn unavailable(error: impl std::fmt::Display) -> PyErr {
    GuardUnavailable::new_err(error.to_string())
}

/// Warnings of the guard's threads, until Python takes them to its log.
static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// Warnings that wait at most.
const MAX_WARNINGS: usize = 1000;

fn keep_warning(text: &str) {
    let mut all = WARNINGS.lock().unwrap_or_else(PoisonError::into_inner);
    if all.len() >= MAX_WARNINGS {
        return;
    }
    all.push(text.to_owned());
    if all.len() == 1 {
        // By another thread: this one may hold what a thread with the interpreter's lock waits for. Without one, the next call of
        // the guard's passes it on.
        let _ = std::thread::Builder::new().name("warnings".to_owned()).spawn(log_warnings);
    }
}

fn log_warnings() {
    // `None` while the interpreter ends.
    Python::try_attach(|py| {
        let _ = py.import("credence_trust.guard").and_then(|guard| guard.call_method0("_pass_warnings"));
    });
}

/// The warnings since the last call.
#[pyfunction]
pub fn take_warnings() -> Vec<String> {
    std::mem::take(&mut *WARNINGS.lock().unwrap_or_else(PoisonError::into_inner))
}

pub(crate) fn mode_of(name: &str) -> PyResult<GuardMode> {
    match name {
        "observe" => Ok(GuardMode::Observe),
        "flag" => Ok(GuardMode::Flag),
        "enforce" => Ok(GuardMode::Enforce),
        other => Err(PyValueError::new_err(format!("mode '{other}': it is 'observe', 'flag' or 'enforce'"))),
    }
}

pub(crate) fn entity(what: &str, id: &str) -> PyResult<EntityId> {
    EntityId::new(id).map_err(|e| PyValueError::new_err(format!("{what} '{id}': {e}")))
}

pub(crate) fn caller_of(session: Option<String>, agent: Option<&str>, stake: Option<&str>) -> PyResult<Caller> {
    let agent = agent.map(|agent| entity("agent", agent)).transpose()?;
    Ok(Caller { agent, session, stake: stake_of(stake)? })
}

/// A time of Python's: seconds since 1970.
pub(crate) fn timestamp(seconds: f64) -> PyResult<Timestamp> {
    Timestamp::from_micros((seconds * 1e6) as i64)
        .map_err(|_| PyValueError::new_err(format!("since {seconds}: it is a time in seconds since 1970")))
}

fn stake_of(name: Option<&str>) -> PyResult<Option<Stake>> {
    name.map(str::parse).transpose().map_err(refused)
}

/// Where receipts are, and whose.
struct Keeping {
    state: PathBuf,
    provider: EntityId,
    key: SecretKey,
}

impl Keeping {
    fn open(state: Option<PathBuf>, provider: &str, key_file: Option<PathBuf>) -> PyResult<Self> {
        let state = state.map_or_else(folder::default_state, Ok).map_err(unavailable)?;
        let file = key_file.unwrap_or_else(|| folder::key_file(&state));
        let key = folder::read_or_create_key(&file).map_err(unavailable)?;
        Ok(Self { state, provider: entity("provider", provider)?, key })
    }
}

/// A running guard. Use `credence_trust.Guard`.
#[pyclass(frozen, module = "credence_trust._native")]
pub struct GuardCore {
    embedded: Arc<EmbeddedGuard>,
}

/// A call that has begun.
#[pyclass(frozen, module = "credence_trust._native")]
pub struct Begun {
    embedded: Arc<EmbeddedGuard>,
    call: Mutex<Option<BegunCall>>,
    id: Uuid,
    mode: GuardMode,
    since: Instant,
    /// The process that made the call. A child that was forked meanwhile has a copy of this, and no part in the call.
    process: u32,
}

impl Begun {
    fn is_of_another_process(&self) -> bool {
        self.process != std::process::id()
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let call = self.call.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(call) = call {
            if self.is_of_another_process() {
                // The last reference would end the parent's guard.
                std::mem::forget(Arc::clone(&self.embedded));
            } else {
                self.embedded.abandon(call);
            }
        }
    }
}

#[pymethods]
impl Begun {
    /// The id of the call, which is its receipt's.
    #[getter]
    fn receipt(&self) -> String {
        self.id.to_string()
    }

    /// The mode that held for the tool when the call began.
    #[getter]
    fn mode(&self) -> &'static str {
        self.mode.name()
    }

    /// Judges what a call returned, and writes its receipt. `shown` is the text that the model gets of it; without it the receipt also
    /// stands for what `str` makes of plain values. With `is_error` the value is the text of an error, with `is_mcp_result` the whole
    /// result of an MCP tool. `None`: the process was forked since, and the call is the parent's.
    #[pyo3(signature = (value, shown=None, is_error=false, is_mcp_result=false))]
    fn finish(
        &self,
        py: Python<'_>,
        value: &Bound<'_, PyAny>,
        shown: Option<&Bound<'_, PyString>>,
        is_error: bool,
        is_mcp_result: bool,
    ) -> PyResult<Option<Verdict>> {
        let execution_ms = self.since.elapsed().as_secs_f64() * 1000.0;
        if self.is_of_another_process() {
            return Ok(None);
        }
        let Some(call) = self.call.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Err(PyRuntimeError::new_err("this call has ended already"));
        };
        let (walked, shown) = walk_returned(value, shown, is_mcp_result);
        let verdict = py.detach(|| {
            let value = walked.node.exact();
            let returned = ReturnedValue {
                value: &value,
                is_mcp_result,
                is_error,
                shown: shown.as_deref(),
                opaque: walked.opaque,
                too_large: walked.too_large,
            };
            self.embedded.finish(call, &returned, execution_ms)
        });
        Ok(Some(Verdict { verdict }))
    }
}

#[pymethods]
impl GuardCore {
    #[new]
    #[pyo3(signature = (name, *, mode=None, agent=None, session=None, stake=None, state=None, provider="guard", key_file=None,
                        verify="adaptive", config=None, content_injection=None, canaries=None, authority=None, token=None,
                        report_every=60.0, send_receipts=false, send_salts=false))]
    #[allow(clippy::too_many_arguments, reason = "every setting of a guard, by name")]
    fn new(
        py: Python<'_>,
        name: &str,
        mode: Option<&str>,
        agent: Option<&str>,
        session: Option<String>,
        stake: Option<&str>,
        state: Option<PathBuf>,
        provider: &str,
        key_file: Option<PathBuf>,
        verify: &str,
        config: Option<PathBuf>,
        content_injection: Option<bool>,
        canaries: Option<f64>,
        authority: Option<&str>,
        token: Option<String>,
        report_every: f64,
        send_receipts: bool,
        send_salts: bool,
    ) -> PyResult<Self> {
        folder::check_name(name).map_err(refused)?;
        let verify = match verify {
            "adaptive" => Mode::Adaptive,
            "fixed" => Mode::Fixed,
            other => return Err(PyValueError::new_err(format!("verify '{other}': it is 'adaptive' or 'fixed'"))),
        };
        let caller = caller_of(session.clone(), agent, stake)?;
        let courier = authority
            .map(|url| {
                let authority = url.parse().map_err(|e| PyValueError::new_err(format!("authority '{url}': {e}")))?;
                let every = Duration::try_from_secs_f64(report_every).map_err(refused)?;
                Ok::<_, PyErr>(CourierSettings {
                    authority,
                    token,
                    every,
                    receipts: send_receipts,
                    salts: send_salts,
                    reviews: None,
                })
            })
            .transpose()?;
        let flags = Flags { mode: mode.map(mode_of).transpose()?, content_injection, canaries };
        let config = GuardConfig::load(config.as_deref()).map_err(refused)?;
        let file = config.quarantine;
        let quarantine = if file.enabled {
            QuarantineSettings {
                max_bytes: file.max_mib.saturating_mul(1024 * 1024),
                keep: Duration::from_secs(file.days * 24 * 60 * 60),
            }
        } else {
            QuarantineSettings::off()
        };
        credence_guard::send_warnings_to(keep_warning);
        let keeping = Keeping::open(state, provider, key_file)?;
        let settings = Settings {
            name: name.to_owned(),
            provider: keeping.provider.clone(),
            rules: Rules { config: Arc::new(config), flags, watched: None, launch: None },
            session: session.unwrap_or_else(|| Uuid::now_v7().to_string()),
            caller,
            verify,
            profiles: Default::default(),
            calibrations: Vec::new(),
            state: keeping.state.clone(),
            max_receipt_bytes: DEFAULT_RECEIPT_BYTES,
            quarantine,
            vantage: Vantage::InProcess,
            max_message_bytes: DEFAULT_MESSAGE_BYTES,
            explain_refusal: false,
        };
        let key = keeping.key.clone();
        let embedded = py.detach(|| EmbeddedGuard::start(settings, key, courier)).map_err(unavailable)?;
        Ok(Self { embedded: Arc::new(embedded) })
    }

    /// The mode that holds now for a tool.
    fn mode_of(&self, tool: &str) -> &'static str {
        self.embedded.guard().mode_of(tool).name()
    }

    /// The folder of this guard's state.
    #[getter]
    fn place(&self) -> PathBuf {
        self.embedded.guard().place.folder.clone()
    }

    /// Calls so far.
    #[getter]
    fn calls(&self) -> u64 {
        self.embedded.guard().calls()
    }

    /// Has the engine judge a tool by a profile, given as JSON.
    fn register(&self, tool: &str, profile: &str) -> PyResult<()> {
        let profile: ProfileBuilder = serde_json::from_str(profile).map_err(refused)?;
        self.embedded.guard().register_profile(tool, profile.build().map_err(refused)?).map_err(refused)
    }

    /// Has the engine judge a tool by a JSON Schema, and by nothing else.
    fn register_schema(&self, tool: &str, schema: &str) -> PyResult<()> {
        let profile = content::profile(serde_json::from_str(schema).map_err(refused)?, true).map_err(refused)?;
        self.embedded.guard().register_profile(tool, profile).map_err(refused)
    }

    /// Writes down that a call is about to be made.
    #[pyo3(signature = (tool, names, args, kwargs, session=None, agent=None, stake=None, client=None, traceparent=None))]
    #[allow(clippy::too_many_arguments, reason = "called once, from Guard")]
    fn begin(
        &self,
        py: Python<'_>,
        tool: &str,
        names: &Bound<'_, PyTuple>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
        session: Option<String>,
        agent: Option<&str>,
        stake: Option<&str>,
        client: Option<String>,
        traceparent: Option<String>,
    ) -> PyResult<Begun> {
        let arguments = walk_arguments(names, args, kwargs).node;
        let caller = caller_of(session, agent, stake)?;
        let begun = py.detach(|| {
            let arguments = arguments.exact();
            let new = NewCall { tool, arguments: &arguments, caller, client, traceparent, uid: None, at_least: None };
            self.embedded.begin(new)
        });
        let call = begun.map_err(unavailable)?;
        Ok(Begun {
            embedded: Arc::clone(&self.embedded),
            id: call.id(),
            mode: call.mode(),
            call: Mutex::new(Some(call)),
            since: Instant::now(),
            process: std::process::id(),
        })
    }

    /// Compares a transcript with the receipts; gives what `credence receipts check --json` prints, as JSON.
    #[pyo3(signature = (messages, *, session=None, agent=None, since=None, ignored_tools=vec![], ignored_members=vec![], own=true))]
    #[allow(clippy::too_many_arguments, reason = "called once, from Guard")]
    fn check(
        &self,
        py: Python<'_>,
        messages: &Bound<'_, PyAny>,
        session: Option<String>,
        agent: Option<&str>,
        since: Option<f64>,
        ignored_tools: Vec<String>,
        ignored_members: Vec<String>,
        own: bool,
    ) -> PyResult<String> {
        let bytes = json_bytes("messages", messages)?;
        let agent = agent.map(|agent| entity("agent", agent)).transpose()?;
        let server = own.then(|| self.embedded.guard().settings.name.clone());
        let filter = Filter { server, agent, session, since: since.map(timestamp).transpose()?, ..Filter::default() };
        py.detach(|| {
            let options = CheckOptions { filter, ignored_tools, ..CheckOptions::default() };
            let report = self.embedded.check(&bytes, &options, &ignored_members).map_err(|error| match error {
                credence_guard::Error::Content(why) => refused(why),
                other => unavailable(other),
            })?;
            Ok(report.to_string())
        })
    }

    /// Moves all receipts into the ledger, and signs a checkpoint over them.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.embedded.flush()).map_err(unavailable)
    }

    /// Ends the guard's threads and keeps everything.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.embedded.close()).map_err(unavailable)
    }

    /// Leaves the guard as it is, for ever: in a child process after a fork its threads are gone, and its files are the parent's.
    fn leave_to_parent(&self) {
        std::mem::forget(Arc::clone(&self.embedded));
    }
}

/// What the guard thinks of one call.
#[pyclass(frozen, module = "credence_trust")]
pub struct Verdict {
    pub(crate) verdict: CallVerdict,
}

#[pymethods]
impl Verdict {
    /// "accept", "flag" or "block"; `None` where the result was not judged.
    #[getter]
    fn verdict(&self) -> Option<&'static str> {
        self.verdict.decision.map(|decision| decision.name())
    }

    /// P(fabricated), 0 to 1.
    #[getter]
    fn posterior(&self) -> Option<f64> {
        self.verdict.posterior
    }

    /// The id of the call, which is its receipt's.
    #[getter]
    fn receipt(&self) -> String {
        self.verdict.call.to_string()
    }

    /// The mode that held for the tool.
    #[getter]
    fn mode(&self) -> &'static str {
        self.verdict.mode.name()
    }

    /// The checks that fired.
    #[getter]
    fn signals(&self) -> Vec<String> {
        self.verdict.checks.clone()
    }

    /// What the engine says of a result that it does not accept.
    #[getter]
    fn explanation(&self) -> Option<&str> {
        self.verdict.explanation.as_deref().filter(|text| !text.is_empty())
    }

    /// Why there is no verdict.
    #[getter]
    fn unjudged(&self) -> Option<&str> {
        self.verdict.unjudged.as_deref()
    }

    /// Why no receipt could be written.
    #[getter]
    fn no_receipt(&self) -> Option<&str> {
        self.verdict.no_receipt.as_deref()
    }

    /// What the model is told in place of a result that it must not get.
    #[getter]
    fn withheld(&self) -> Option<&str> {
        self.verdict.withheld.as_deref()
    }

    /// Whether there is nothing to tell: the result was accepted or is an error, and its receipt is written.
    #[getter]
    fn quiet(&self) -> bool {
        let verdict = &self.verdict;
        let accepted = verdict.decision.is_none_or(|one| one == credence_protocol::Decision::Accept);
        accepted && verdict.no_receipt.is_none() && verdict.withheld.is_none()
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<(Py<PyAny>, (String,))> {
        let read = py.import("credence_trust._native")?.getattr("verdict_from_json")?.unbind();
        Ok((read, (serde_json::to_string(&self.verdict).map_err(refused)?,)))
    }

    fn __repr__(&self) -> String {
        let verdict = self.verdict().map_or("None".to_owned(), |name| format!("'{name}'"));
        format!("Verdict(verdict={verdict}, posterior={:?}, receipt='{}')", self.verdict.posterior, self.receipt())
    }
}

/// Lets go of the parent's locks, in a child process right after a fork.
#[pyfunction]
pub fn release_locks_in_child() {
    credence_receipts::release_locks_in_child();
}

/// A verdict as it was pickled.
#[pyfunction]
pub fn verdict_from_json(text: &str) -> PyResult<Verdict> {
    Ok(Verdict { verdict: serde_json::from_str(text).map_err(refused)? })
}

/// Refuses a caller that cannot be one, before any call is made.
#[pyfunction]
#[pyo3(signature = (session, agent=None, stake=None))]
pub fn check_caller(session: Option<String>, agent: Option<&str>, stake: Option<&str>) -> PyResult<()> {
    caller_of(session, agent, stake).map(drop)
}

/// The mode that `guard.toml` and the program ask for: of a tool, or of the guard. It needs no state.
#[pyfunction]
#[pyo3(signature = (name, tool=None, mode=None, config=None))]
pub fn configured_mode(
    name: &str,
    tool: Option<&str>,
    mode: Option<&str>,
    config: Option<PathBuf>,
) -> PyResult<&'static str> {
    let flags = Flags { mode: mode.map(mode_of).transpose()?, ..Flags::default() };
    let config = GuardConfig::load(config.as_deref()).map_err(refused)?;
    Ok(config.effective(name, tool, &flags).mode.value.name())
}

/// The canonical text and its SHA-256: two values are the same to receipts if these are.
#[pyfunction]
pub fn canonical_form(value: &Bound<'_, PyAny>) -> (String, bool) {
    let walked = walk(value);
    (walked.node.canonical(), walked.opaque)
}

/// What a receipt takes for the text that a model is shown of a value, where it does not have Python print it: for tests.
#[pyfunction]
pub fn printed(value: &Bound<'_, PyAny>) -> Option<String> {
    walk(value).printed()
}

/// Whether a canonical text is read back as the same: for tests.
#[pyfunction]
pub fn is_canonical(text: &str) -> bool {
    Exact::parse(text).is_ok_and(|exact| exact.canonical() == text)
}
