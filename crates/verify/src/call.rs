//! What is judged: one tool call with its result.

use credence_protocol::{Stake, Timestamp};
use serde_json::Value;

/// JSON, parsed or not.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Json<'a> {
    Value(&'a Value),
    Bytes(&'a [u8]),
}

/// One tool call. Only the tool's name and the result are needed; what else is given, more checks can use.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub(crate) tool: &'a str,
    pub(crate) result: Json<'a>,
    pub(crate) args: Option<Json<'a>>,
    pub(crate) execution_time_ms: Option<f64>,
    pub(crate) session_id: Option<&'a str>,
    pub(crate) agent: Option<&'a str>,
    pub(crate) stake: Option<Stake>,
    pub(crate) learn: bool,
    pub(crate) is_error: bool,
    pub(crate) origin: Origin,
    pub(crate) at: Option<Timestamp>,
}

/// Who says that this is the tool's result.
///
/// It decides how soon a lasting change is believed (mode adaptive; docs/adr/0024).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Origin {
    /// An agent, or a transcript: it may be made up by who reports it.
    #[default]
    Reported,
    /// The tool itself: the caller read it from the server's own answer, as a guard does.
    Upstream,
}

impl<'a> Call<'a> {
    /// A call of `tool` that gave `result`.
    pub fn new(tool: &'a str, result: &'a Value) -> Self {
        Self::with(tool, Json::Value(result))
    }

    /// A call of `tool` that gave these bytes of JSON. They are parsed when they are judged; what is no JSON is an error
    /// then.
    ///
    /// ```
    /// # use credence_verify::{Call, Engine};
    /// let engine = Engine::builder().build();
    /// let call = Call::from_bytes("get_weather", br#"{"temperature": 18}"#).args_from_bytes(br#"{"city": "London"}"#);
    /// assert!(engine.verify(&call).is_ok());
    /// assert!(engine.verify(&Call::from_bytes("get_weather", b"{\"temperature\": ")).is_err());
    /// ```
    pub fn from_bytes(tool: &'a str, result: &'a [u8]) -> Self {
        Self::with(tool, Json::Bytes(result))
    }

    fn with(tool: &'a str, result: Json<'a>) -> Self {
        Self {
            tool,
            result,
            args: None,
            execution_time_ms: None,
            session_id: None,
            agent: None,
            stake: None,
            learn: true,
            is_error: false,
            origin: Origin::Reported,
            at: None,
        }
    }

    /// The same call with another result.
    pub fn result(self, result: &'a Value) -> Self {
        Self { result: Json::Value(result), ..self }
    }

    /// With these arguments: enables historical consistency, echoes and determinism.
    pub fn args(self, args: &'a Value) -> Self {
        Self { args: Some(Json::Value(args)), ..self }
    }

    /// With these arguments, as bytes of JSON.
    pub fn args_from_bytes(self, args: &'a [u8]) -> Self {
        Self { args: Some(Json::Bytes(args)), ..self }
    }

    /// That took so long: enables the latency check.
    pub fn execution_time_ms(self, ms: f64) -> Self {
        Self { execution_time_ms: Some(ms), ..self }
    }

    /// In this session: enables session consistency.
    pub fn session(self, id: &'a str) -> Self {
        Self { session_id: Some(id), ..self }
    }

    /// By this agent: carried through to the verdict.
    pub fn agent(self, agent: &'a str) -> Self {
        Self { agent: Some(agent), ..self }
    }

    /// With this much at stake: carried through to the verdict.
    pub fn stake(self, stake: Stake) -> Self {
        Self { stake: Some(stake), ..self }
    }

    /// Whether the engine learns from it. It does by default, unless it blocks; the verdict is the same either way.
    pub fn learn(self, learn: bool) -> Self {
        Self { learn, ..self }
    }

    /// The tool itself says that it failed (MCP: `isError`). Errors are judged by earlier errors, not by results.
    pub fn is_error(self, is_error: bool) -> Self {
        Self { is_error, ..self }
    }

    /// Made at this time: enables learning after how long the answer to equal arguments changes (mode adaptive).
    pub fn at(self, at: Timestamp) -> Self {
        Self { at: Some(at), ..self }
    }

    /// Who says that this is the tool's result; an agent by default.
    pub fn origin(self, origin: Origin) -> Self {
        Self { origin, ..self }
    }
}
