//! `credence_trust.verification`: the engine under the names of seed 2.
//!
//! [`Engine`] is the base of the Python class `VerificationEngine`: what is called for every result is here, what is called once is in
//! `credence_trust/verification.py`. The interpreter's lock is held while a result is walked and released while it is judged, unless it is so small that
//! taking the lock again would take as long as judging.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use credence_verify::{Calibration, Call, Check, Mode, Origin, ProfileBuilder, Stage, Timestamp, Verdict};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    sync::PyOnceLock,
    types::{PyBytes, PyDict, PyString},
};
use serde_json::Value;

use crate::value::walk;

/// Below as many parts a result is judged before another thread could have begun to use the interpreter.
const FEW_PARTS: usize = 32;

/// The wrong values a caller can pass are all `ValueError`, with the engine's own words.
pub(crate) fn refused(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The engine itself. Use `credence_trust.verification.VerificationEngine`.
#[pyclass(subclass, frozen, module = "credence_trust._native")]
pub struct Engine {
    engine: credence_verify::Engine,
    mode: Mode,
    /// What was set by hand, by tool and (`None`) for all.
    calibrations: Mutex<BTreeMap<Option<String>, Calibration>>,
}

/// JSON given as bytes or text.
pub(crate) fn json_bytes<'a>(what: &str, value: &'a Bound<'_, PyAny>) -> PyResult<std::borrow::Cow<'a, [u8]>> {
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(bytes.as_bytes().into());
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(text.to_cow()?.into_owned().into_bytes().into());
    }
    Err(PyTypeError::new_err(format!("{what} is JSON as bytes or str; give a value to verify()")))
}

/// A JSON value as a Python object.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (value.to_string(),))
}

impl Engine {
    fn calibration_of(&self, tool: Option<&str>) -> Calibration {
        let all = self.calibrations.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(&tool.map(str::to_owned)).cloned().unwrap_or_default()
    }
}

/// How a call is judged beyond its result.
struct Circumstances<'a> {
    execution_time_ms: Option<f64>,
    session_id: Option<&'a str>,
    learn: bool,
    is_error: bool,
    upstream: bool,
    at: Option<Timestamp>,
}

/// A time in seconds since 1970.
fn timestamp(seconds: f64) -> PyResult<Timestamp> {
    let wrong = || PyValueError::new_err(format!("at: {seconds} is no time in seconds since 1970"));
    let micros = Some(seconds * 1e6).filter(|micros| micros.is_finite()).ok_or_else(wrong)?;
    Timestamp::from_micros(micros as i64).map_err(|_| wrong())
}

impl<'a> Circumstances<'a> {
    fn apply(&self, mut call: Call<'a>) -> Call<'a> {
        if let Some(ms) = self.execution_time_ms {
            call = call.execution_time_ms(ms);
        }
        if let Some(session) = self.session_id {
            call = call.session(session);
        }
        let origin = if self.upstream { Origin::Upstream } else { Origin::Reported };
        let call = call.learn(self.learn).is_error(self.is_error).origin(origin);
        self.at.map_or(call, |at| call.at(at))
    }
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (mode, snapshot=None))]
    fn new(mode: &str, snapshot: Option<&[u8]>) -> PyResult<Self> {
        let mode = match mode {
            "fixed" => Mode::Fixed,
            "adaptive" => Mode::Adaptive,
            other => return Err(PyValueError::new_err(format!("mode '{other}': it is 'fixed' or 'adaptive'"))),
        };
        let builder = credence_verify::Engine::builder().mode(mode);
        let engine = match snapshot {
            Some(bytes) => builder.restore(bytes).map_err(refused)?,
            None => builder.build(),
        };
        Ok(Self { engine, mode, calibrations: Mutex::default() })
    }

    /// How results are judged: "fixed" or "adaptive".
    #[getter]
    fn mode(&self) -> &'static str {
        match self.mode {
            Mode::Fixed => "fixed",
            Mode::Adaptive => "adaptive",
        }
    }

    /// Registers a profile given as JSON.
    fn _register(&self, tool: &str, profile: &str) -> PyResult<()> {
        let profile: ProfileBuilder = serde_json::from_str(profile).map_err(refused)?;
        self.engine.register(tool, profile.build().map_err(refused)?).map_err(refused)
    }

    /// Forgets a tool: its profile, and what was learned of it.
    fn _forget(&self, tool: &str) -> PyResult<()> {
        self.engine.forget(tool).map_err(refused)
    }

    /// Adds to what is set for a tool, or for all. Ratios are by the names of checks.
    #[pyo3(signature = (tool, prior, flag_threshold, block_threshold, max_false_block_rate, ratios))]
    fn _calibrate(
        &self,
        tool: Option<&str>,
        prior: Option<f64>,
        flag_threshold: Option<f64>,
        block_threshold: Option<f64>,
        max_false_block_rate: Option<f64>,
        ratios: BTreeMap<String, f64>,
    ) -> PyResult<()> {
        let mut set = self.calibration_of(tool);
        set.prior = prior.or(set.prior);
        set.flag_threshold = flag_threshold.or(set.flag_threshold);
        set.block_threshold = block_threshold.or(set.block_threshold);
        set.max_false_block_rate = max_false_block_rate.or(set.max_false_block_rate);
        for (name, ratio) in ratios {
            let Some(check) = Check::from_name(&name) else {
                let known = Check::ALL.map(Check::name).join(", ");
                return Err(PyValueError::new_err(format!("likelihood_ratios: no check '{name}'; there are {known}")));
            };
            set.likelihood_ratios.insert(check, ratio);
        }
        self.engine.calibrate(tool, set.clone()).map_err(refused)?;
        let mut all = self.calibrations.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(tool.map(str::to_owned), set);
        Ok(())
    }

    /// What is set for a tool, or for all, and what feedback made of it, as JSON.
    #[pyo3(signature = (tool=None))]
    fn _calibration(&self, tool: Option<&str>) -> PyResult<String> {
        let set = serde_json::to_value(self.calibration_of(tool)).map_err(refused)?;
        let feedback = tool.map(|tool| self.engine.feedback(tool)).transpose().map_err(refused)?;
        Ok(serde_json::json!({ "set": set, "feedback": feedback }).to_string())
    }

    /// Judge the result of one tool call.
    ///
    /// `result` is any Python value. `execution_time_ms` and `args` may be left out; the checks that need them are then left out too. With
    /// `session_id` the result is compared with earlier ones of the session. `call_stack_verified=True` says that the call is known to have
    /// run, so that its latency is not judged. `at` is when it was made, as `time.time()` gives it: the engine learns after how long the answers
    /// to equal arguments change. `learn=False` judges without learning. `response` is another name for `result`;
    /// `user_query` is accepted and not used.
    ///
    /// >>> VerificationEngine().verify("get_weather", {"temperature": 18}, 350.0).verdict
    /// 'accept'
    #[pyo3(signature = (tool_name, result=None, execution_time_ms=None, *, args=None, user_query=None, session_id=None,
                        call_stack_verified=false, response=None, learn=true, is_error=false, from_tool=false, at=None))]
    #[allow(clippy::too_many_arguments, reason = "the seed's own keywords")]
    fn verify(
        &self,
        py: Python<'_>,
        tool_name: &str,
        result: Option<&Bound<'_, PyAny>>,
        execution_time_ms: Option<f64>,
        args: Option<&Bound<'_, PyAny>>,
        user_query: Option<&Bound<'_, PyAny>>,
        session_id: Option<&str>,
        call_stack_verified: bool,
        response: Option<&Bound<'_, PyAny>>,
        learn: bool,
        is_error: bool,
        from_tool: bool,
        at: Option<f64>,
    ) -> PyResult<VerificationResult> {
        let _ = user_query;
        let (result, args) = (result.or(response).map(walk), args.map(walk));
        let parts = [&result, &args].into_iter().flatten().map(|walked| walked.parts).sum::<usize>();
        let circumstances = Circumstances {
            execution_time_ms: execution_time_ms.filter(|_| !call_stack_verified),
            session_id,
            learn,
            is_error,
            upstream: from_tool,
            at: at.map(timestamp).transpose()?,
        };
        let judge = || {
            let result = result.map_or(Value::Null, |walked| walked.node.into_value());
            let args = args.map(|walked| walked.node.into_value());
            let mut call = circumstances.apply(Call::new(tool_name, &result));
            if let Some(args) = &args {
                call = call.args(args);
            }
            self.engine.verify(&call)
        };
        let verdict = if parts < FEW_PARTS { judge() } else { py.detach(judge) };
        Ok(VerificationResult { verdict: verdict.map_err(refused)?, signals: PyOnceLock::new() })
    }

    /// Judge a result that is still JSON, as bytes or text. It is parsed without the interpreter's lock.
    #[pyo3(signature = (tool_name, result, execution_time_ms=None, *, args=None, session_id=None, learn=true, is_error=false,
                        from_tool=false, at=None))]
    #[allow(clippy::too_many_arguments, reason = "as verify")]
    fn verify_json(
        &self,
        py: Python<'_>,
        tool_name: &str,
        result: &Bound<'_, PyAny>,
        execution_time_ms: Option<f64>,
        args: Option<&Bound<'_, PyAny>>,
        session_id: Option<&str>,
        learn: bool,
        is_error: bool,
        from_tool: bool,
        at: Option<f64>,
    ) -> PyResult<VerificationResult> {
        let (result, args) = (json_bytes("result", result)?, args.map(|args| json_bytes("args", args)).transpose()?);
        let at = at.map(timestamp).transpose()?;
        let circumstances = Circumstances { execution_time_ms, session_id, learn, is_error, upstream: from_tool, at };
        let verdict = py.detach(|| {
            let mut call = circumstances.apply(Call::from_bytes(tool_name, &result));
            if let Some(args) = &args {
                call = call.args_from_bytes(args);
            }
            self.engine.verify(&call)
        });
        Ok(VerificationResult { verdict: verdict.map_err(refused)?, signals: PyOnceLock::new() })
    }

    /// Tell the engine what a result turned out to be; `confidence_score` is the confidence it had given.
    fn record_feedback(&self, tool_name: &str, confidence_score: f64, was_hallucination: bool) -> PyResult<()> {
        self.engine.record_feedback(tool_name, confidence_score, was_hallucination).map_err(refused)
    }

    /// Tell the engine that a result was genuine: it is learned at once, and results that are odd in the same way are believed.
    #[pyo3(signature = (tool_name, result, *, args=None, session_id=None))]
    fn confirm(
        &self,
        tool_name: &str,
        result: &Bound<'_, PyAny>,
        args: Option<&Bound<'_, PyAny>>,
        session_id: Option<&str>,
    ) -> PyResult<()> {
        self.answered(tool_name, result, args, session_id, true)
    }

    /// Tell the engine that a result was made up.
    #[pyo3(signature = (tool_name, result, *, args=None, session_id=None))]
    fn reject(
        &self,
        tool_name: &str,
        result: &Bound<'_, PyAny>,
        args: Option<&Bound<'_, PyAny>>,
        session_id: Option<&str>,
    ) -> PyResult<()> {
        self.answered(tool_name, result, args, session_id, false)
    }

    /// Everything learned so far, as bytes for `VerificationEngine.restore`. Profiles and calibrations are not in it.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.engine.snapshot()).map_err(refused)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// What the engine remembers, and what it had to forget, as counts.
    fn memory<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &serde_json::to_value(self.engine.memory()).map_err(refused)?)
    }

    /// What is known of a tool: control charts, structure, thresholds. `None` where nothing is.
    fn inspect<'py>(&self, py: Python<'py>, tool_name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(seen) = self.engine.inspect(tool_name).map_err(refused)? else { return Ok(None) };
        to_python(py, &serde_json::to_value(seen).map_err(refused)?).map(Some)
    }
}

impl Engine {
    fn answered(
        &self,
        tool: &str,
        result: &Bound<'_, PyAny>,
        args: Option<&Bound<'_, PyAny>>,
        session: Option<&str>,
        genuine: bool,
    ) -> PyResult<()> {
        let (result, args) = (walk(result).node.into_value(), args.map(|value| walk(value).node.into_value()));
        let mut call = Call::new(tool, &result);
        if let Some(args) = &args {
            call = call.args(args);
        }
        if let Some(session) = session {
            call = call.session(session);
        }
        if genuine { self.engine.confirm(&call) } else { self.engine.reject(&call) }.map_err(refused)
    }
}

/// The engine's answer on one call.
#[pyclass(frozen, module = "credence_trust.verification")]
pub struct VerificationResult {
    verdict: Verdict,
    signals: PyOnceLock<Py<PyDict>>,
}

/// A class of `credence_trust.verification`.
fn class<'py>(py: Python<'py>, cell: &'static PyOnceLock<Py<PyAny>>, name: &str) -> PyResult<&'py Bound<'py, PyAny>> {
    let found =
        cell.get_or_try_init(py, || Ok::<_, PyErr>(py.import("credence_trust.verification")?.getattr(name)?.unbind()))?;
    Ok(found.bind(py))
}

#[pymethods]
impl VerificationResult {
    /// "accept", "flag" or "block".
    #[getter]
    fn verdict(&self) -> &'static str {
        self.verdict.decision.name()
    }

    /// P(hallucination), 0 to 1: the same as `posterior`.
    #[getter]
    fn confidence(&self) -> f64 {
        self.verdict.posterior
    }

    /// P(hallucination) after all signals.
    #[getter]
    fn posterior(&self) -> f64 {
        self.verdict.posterior
    }

    /// P(hallucination) before looking.
    #[getter]
    fn prior(&self) -> f64 {
        self.verdict.prior
    }

    /// What each signal that could be evaluated said, by name.
    #[getter]
    fn signals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let made = self.signals.get_or_try_init(py, || {
            let (dict, class) = (PyDict::new(py), class(py, &CLASS, "SignalResult")?);
            for one in &self.verdict.checks {
                let detail = one.detail.as_deref().unwrap_or_default();
                dict.set_item(one.check.name(), class.call1((one.fired, one.score, detail, one.likelihood_ratio))?)?;
            }
            Ok::<_, PyErr>(dict.unbind())
        })?;
        Ok(made.bind(py).clone())
    }

    /// How far the engine went.
    #[getter]
    fn tier_reached<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let tier = match self.verdict.stage {
            Stage::Zero => 0,
            Stage::One => 1,
        };
        class(py, &CLASS, "VerificationTier")?.call1((tier,))
    }

    /// One plain sentence.
    #[getter]
    fn explanation(&self) -> String {
        self.verdict.explanation()
    }

    /// The same as `explanation`.
    #[getter]
    fn reason(&self) -> String {
        self.verdict.explanation()
    }

    /// Whether the verdict is "block".
    #[getter]
    fn is_hallucinated(&self) -> bool {
        self.verdict.is_hallucinated()
    }

    /// Everything in it, as `credence verify` prints it.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &serde_json::to_value(&self.verdict).map_err(refused)?)
    }

    fn __repr__(&self) -> String {
        format!("VerificationResult(verdict='{}', posterior={:?})", self.verdict.decision, self.verdict.posterior)
    }
}
