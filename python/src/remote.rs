//! A guard that another process runs (`credence guard --serve`): the native part of `credence_trust.Guard(remote=…)`.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Instant,
};

use credence_guard::{
    GuardMode,
    embedded::{CallVerdict, NewCall, ReturnedValue},
    reports::{CheckRequest, RemoteGuard},
};
use credence_protocol::Uuid;
use pyo3::{
    prelude::*,
    types::{PyDict, PyString, PyTuple},
};

use crate::{
    engine::{json_bytes, refused},
    guard::{Verdict, caller_of, entity, mode_of, timestamp, unavailable},
    value::{walk_arguments, walk_returned},
};

/// A connection to a guard. Use `credence_trust.Guard(remote=…)`.
#[pyclass(frozen, module = "credence_trust._native")]
pub struct RemoteCore {
    remote: Arc<RemoteGuard>,
    /// The mode that this program asks for.
    at_least: Option<GuardMode>,
}

/// A call that was reported and has not ended.
#[pyclass(frozen, module = "credence_trust._native")]
pub struct RemoteBegun {
    remote: Arc<RemoteGuard>,
    call: Uuid,
    mode: GuardMode,
    since: Instant,
    ended: AtomicBool,
    /// The process that made the call: see `Begun`.
    process: u32,
}

impl RemoteBegun {
    fn is_of_another_process(&self) -> bool {
        self.process != std::process::id()
    }
}

impl Drop for RemoteBegun {
    fn drop(&mut self) {
        if !self.ended.load(Relaxed) && !self.is_of_another_process() {
            let _ = self.remote.abandon(self.call);
        }
    }
}

#[pymethods]
impl RemoteBegun {
    /// The id of the call, which is its receipt's.
    #[getter]
    fn receipt(&self) -> String {
        self.call.to_string()
    }

    /// The mode that held for the tool when the call began.
    #[getter]
    fn mode(&self) -> &'static str {
        self.mode.name()
    }

    /// Reports what a call returned. Where that fails the verdict says that there is no receipt, and in mode enforce it withholds.
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
        self.ended.store(true, Relaxed);
        let (walked, shown) = walk_returned(value, shown, is_mcp_result);
        let reported = py.detach(|| {
            let value = walked.node.exact();
            let returned = ReturnedValue {
                value: &value,
                is_mcp_result,
                is_error,
                shown: shown.as_deref(),
                opaque: walked.opaque,
                too_large: walked.too_large,
            };
            self.remote.finish(self.call, &returned, execution_ms)
        });
        let verdict = reported.unwrap_or_else(|error| {
            let why = error.to_string();
            let withheld = self.mode == GuardMode::Enforce && !is_error;
            let told = "[credence] The call was executed, and its result could not be recorded. The result is withheld. Do not \
                        blindly retry: calling it again may do it twice.";
            CallVerdict {
                call: self.call,
                mode: self.mode,
                decision: None,
                posterior: None,
                checks: Vec::new(),
                explanation: None,
                unjudged: Some("the guard could not be reached".to_owned()),
                no_receipt: Some(why),
                withheld: withheld.then(|| told.to_owned()),
            }
        });
        Ok(Some(Verdict { verdict }))
    }
}

#[pymethods]
impl RemoteCore {
    #[new]
    #[pyo3(signature = (socket, mode=None))]
    fn new(py: Python<'_>, socket: PathBuf, mode: Option<&str>) -> PyResult<Self> {
        let at_least = mode.map(mode_of).transpose()?;
        let remote = py.detach(|| RemoteGuard::connect(&socket)).map_err(unavailable)?;
        Ok(Self { remote: Arc::new(remote), at_least })
    }

    /// The mode that holds now for a tool.
    fn mode_of(&self, py: Python<'_>, tool: &str) -> PyResult<&'static str> {
        let mode = py.detach(|| self.remote.mode_of(tool)).map_err(unavailable)?;
        Ok(mode.max(self.at_least.unwrap_or(mode)).name())
    }

    /// Reports that a call is about to be made.
    #[pyo3(signature = (tool, names, args, kwargs, session=None, agent=None, stake=None, client=None, traceparent=None))]
    #[allow(clippy::too_many_arguments, reason = "as GuardCore.begin")]
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
    ) -> PyResult<RemoteBegun> {
        let arguments = walk_arguments(names, args, kwargs).node;
        let caller = caller_of(session, agent, stake)?;
        let at_least = self.at_least;
        let (call, mode) = py
            .detach(|| {
                let arguments = arguments.exact();
                let new = NewCall { tool, arguments: &arguments, caller, client, traceparent, uid: None, at_least };
                self.remote.begin(new)
            })
            .map_err(unavailable)?;
        let (remote, process) = (Arc::clone(&self.remote), std::process::id());
        Ok(RemoteBegun { remote, call, mode, since: Instant::now(), ended: AtomicBool::new(false), process })
    }

    /// Has a transcript compared with the receipts there.
    #[pyo3(signature = (messages, *, session=None, agent=None, since=None, ignored_tools=vec![], ignored_members=vec![]))]
    #[allow(clippy::too_many_arguments, reason = "as GuardCore.check")]
    fn check(
        &self,
        py: Python<'_>,
        messages: &Bound<'_, PyString>,
        session: Option<String>,
        agent: Option<&str>,
        since: Option<f64>,
        ignored_tools: Vec<String>,
        ignored_members: Vec<String>,
    ) -> PyResult<String> {
        let bytes = json_bytes("messages", messages.as_any())?;
        let transcript = String::from_utf8(bytes.into_owned()).map_err(refused)?;
        let agent = agent.map(|agent| entity("agent", agent)).transpose()?;
        let since = since.map(timestamp).transpose()?;
        let request = CheckRequest { transcript, session, agent, since, ignored_tools, ignored_members };
        py.detach(|| self.remote.check(request)).map_err(unavailable)
    }

    /// Leaves the connection to the parent, in a child process after a fork.
    fn leave_to_parent(&self) {
        self.remote.release_in_child();
    }
}
