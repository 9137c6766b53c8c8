//! Did this tool call really give this result? One, many, and what came out later.

use std::{borrow::Cow, ops::Range, sync::Arc};

use axum::{extract::State, response::Response};
use bytes::Bytes;
use credence_protocol::strict::{self, Unreadable};
use credence_verify::{Call, Engine, Feedback, Stake, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};
use utoipa::{
    ToSchema,
    openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type},
};

use super::json as respond;
use crate::{
    app::App,
    events::Event,
    extract::{Json, Raw, Verify, invalid},
    namespace::Namespace,
    problem::Problem,
    schema::{Errors, ItemError},
    tokens::Bearer,
};

/// Traces in one batch.
const MAX_BATCH: usize = 1_000;
/// Bytes of an agent's name: it is repeated in verdicts, and those are remembered.
const MAX_AGENT_BYTES: usize = 512;
/// Bytes of a verdict, mostly.
const USUAL: usize = 1024;
/// A body up to this is judged where it arrived; a larger one off the threads that answer, and so much of a batch in one go:
/// then others have their turn.
const SMALL: usize = 64 * 1024;

/// A tool call with its result. Fields that are not known are passed over.
#[derive(Deserialize, ToSchema)]
#[serde(expecting = "a trace, as an object")]
pub(crate) struct Trace<'a> {
    #[serde(borrow)]
    #[schema(value_type = String, min_length = 1, max_length = 512)]
    tool: Cow<'a, str>,
    /// Any JSON.
    #[serde(borrow)]
    #[schema(value_type = serde_json::Value)]
    result: &'a RawValue,
    #[serde(borrow)]
    #[schema(value_type = Option<serde_json::Value>)]
    args: Option<&'a RawValue>,
    #[schema(minimum = 0)]
    execution_time_ms: Option<f64>,
    /// The tool itself says that it failed: judged by earlier errors, not by results.
    #[serde(default)]
    is_error: bool,
    #[serde(borrow)]
    #[schema(value_type = Option<String>)]
    session_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    #[schema(value_type = Option<String>, max_length = 512)]
    agent: Option<Cow<'a, str>>,
    #[schema(schema_with = optional_stake)]
    stake: Option<Stake>,
    /// When, as RFC 3339: the engine learns after how long answers change. Given back with the verdict, whatever it is.
    #[serde(borrow)]
    #[schema(value_type = Option<serde_json::Value>)]
    at: Option<&'a RawValue>,
    /// False to judge without learning from it.
    #[serde(default = "yes")]
    learn: bool,
    /// Given back with the verdict.
    #[serde(borrow)]
    #[schema(value_type = Option<serde_json::Value>)]
    id: Option<&'a RawValue>,
}

/// The schema of a stake that need not be given.
fn optional_stake() -> Schema {
    let names = ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(Stake::ALL.map(Stake::name)))
        .description(Some("What depends on a result"));
    Schema::OneOf(OneOfBuilder::new().item(names).item(ObjectBuilder::new().schema_type(Type::Null)).build())
}

fn yes() -> bool {
    true
}

impl Trace<'_> {
    fn call<'c>(&'c self, result: &'c Value, args: Option<&'c Value>) -> Call<'c> {
        let mut call = Call::new(&self.tool, result).learn(self.learn).is_error(self.is_error);
        if let Some(args) = args {
            call = call.args(args);
        }
        if let Some(ms) = self.execution_time_ms {
            call = call.execution_time_ms(ms);
        }
        if let Some(session) = &self.session_id {
            call = call.session(session);
        }
        if let Some(agent) = &self.agent {
            call = call.agent(agent);
        }
        if let Some(stake) = self.stake {
            call = call.stake(stake);
        }
        let at = self.at.and_then(|at| serde_json::from_str(at.get()).ok());
        at.map_or(call, |at| call.at(at))
    }
}

/// What the engine makes of a call.
#[derive(Serialize)]
struct Judged<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<&'a RawValue>,
    #[serde(flatten)]
    verdict: &'a Verdict,
}

#[derive(Debug, ToSchema)]
#[schema(as = Verdict)]
#[allow(dead_code, reason = "describes what the engine serialises")]
pub(crate) struct VerdictSchema {
    #[schema(value_type = Option<serde_json::Value>)]
    id: Option<()>,
    #[schema(value_type = Option<serde_json::Value>)]
    at: Option<()>,
    tool: String,
    /// `accept`, `flag` or `block`.
    verdict: String,
    /// P(fabricated).
    #[schema(minimum = 0, maximum = 1)]
    posterior: f64,
    prior: f64,
    /// 0: pre-checks alone decided to block; 1: everything was looked at.
    tier: u8,
    /// What each check that could be made found, by its name.
    signals: std::collections::BTreeMap<String, CheckSchema>,
    /// One plain sentence.
    explanation: String,
    agent: Option<String>,
    stake: Option<String>,
}

/// What one check found
#[derive(Debug, ToSchema)]
#[schema(as = CheckResult)]
#[allow(dead_code, reason = "describes what the engine serialises")]
pub(crate) struct CheckSchema {
    fired: bool,
    #[schema(minimum = 0, maximum = 1)]
    score: f64,
    likelihood_ratio: f64,
    detail: Option<String>,
}

/// Judges one tool result
///
/// What a token has judged is its own: no other token's verdicts or explanations ever rest on it.
#[utoipa::path(post, path = "/v1/verify", tag = "verification", request_body = Trace, responses((status = 200, body = VerdictSchema), Errors),
    security(("token" = ["verify"])))]
pub(crate) async fn one(
    State(app): State<Arc<App>>,
    Verify(token): Verify,
    Raw(body): Raw,
) -> Result<Response, Problem> {
    judged(&app, token, body).await.map(super::json_bytes)
}

/// The verdict on one trace, as JSON.
pub(crate) async fn judged(app: &Arc<App>, token: Arc<Bearer>, body: Bytes) -> Result<Bytes, Problem> {
    let namespace = namespace(app, &token).await?;
    if body.len() <= SMALL && !namespace.is_costly() {
        judge_one(app, &namespace, &token, &body)
    } else {
        app.judging(move |app| judge_one(app, &namespace, &token, &body)).await
    }
}

/// What was opened before costs nothing; the first time, files are read.
async fn namespace(app: &Arc<App>, token: &Arc<Bearer>) -> Result<Arc<Namespace>, Problem> {
    match app.engines.opened(token.name.as_str()) {
        Some(namespace) => Ok(namespace),
        None => app.opening(token.name.clone()).await,
    }
}

fn judge_one(app: &App, namespace: &Namespace, token: &Bearer, body: &[u8]) -> Result<Bytes, Problem> {
    let trace: Trace<'_> = parse(body)?;
    let verdict = judge(app, &namespace.engine, token.name.as_str(), &trace)?;
    let judged = Judged { id: trace.id, at: trace.at, verdict: &verdict };
    let mut text = Vec::with_capacity(USUAL);
    serde_json::to_writer(&mut text, &judged).map_err(|e| Problem::internal(&e))?;
    namespace.recent.add(app.now(), verdict, trace.execution_time_ms);
    app.engines.stay_within();
    Ok(Bytes::from(text))
}

/// The same for whoever embeds the service: judged in a namespace, without a token.
pub(crate) fn judge_within(app: &App, name: &str, body: &[u8]) -> Result<Verdict, Problem> {
    let namespace = app.engines.open(name)?;
    let trace: Trace<'_> = parse(body)?;
    let verdict = judge(app, &namespace.engine, name, &trace)?;
    namespace.recent.add(app.now(), verdict.clone(), trace.execution_time_ms);
    app.engines.stay_within();
    Ok(verdict)
}

/// An object: a list of its members' values is none.
fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    if body.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'[') {
        return Err(invalid(body, "an object is needed, not a list"));
    }
    serde_json::from_slice(body).map_err(|e| invalid(body, &e.to_string()))
}

fn judge(app: &App, engine: &Engine, namespace: &str, trace: &Trace<'_>) -> Result<Verdict, Problem> {
    if trace.agent.as_ref().is_some_and(|agent| agent.len() > MAX_AGENT_BYTES) {
        let detail = format!("agent: at most {MAX_AGENT_BYTES} bytes; it is repeated in the verdict");
        return Err(Problem::unprocessable("invalid_agent", detail));
    }
    let result = read("result", trace.result)?;
    let args = trace.args.map(|args| read("args", args)).transpose()?;
    let verdict = engine.verify(&trace.call(&result, args.as_ref()))?;
    app.metrics.judged(verdict.decision);
    if app.verdicts.receiver_count() > 0 {
        let data = json!({
            "tool": verdict.tool, "verdict": verdict.decision, "posterior": verdict.posterior, "agent": verdict.agent,
            "explanation": verdict.explanation(), "at": app.now(),
        });
        let event = Event { seq: None, name: "verdict", namespace: Some(namespace.to_owned()), data };
        // Nobody listens any more: nothing lost.
        let _ = app.verdicts.send(Arc::new(event));
    }
    Ok(verdict)
}

/// What is judged must mean one thing: of a key that occurs twice, this reader and the agent's may take different values.
fn read(what: &'static str, raw: &RawValue) -> Result<Value, Problem> {
    strict::unique(what, raw.get().as_bytes()).map_err(|error| match error {
        Unreadable::DuplicateKey(place) => {
            Problem::unprocessable("duplicate_key", format!("{place}: this key occurs twice in its object"))
        }
        Unreadable::NotJson(error) => Problem::unprocessable("invalid_result", format!("{what}: {error}")),
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Traces<'a> {
    #[serde(borrow)]
    traces: Vec<&'a RawValue>,
}

/// `{"traces": […]}`, or the list alone
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "describes two forms of one body")]
pub(crate) enum TracesOrList {
    Named(NamedTraces),
    Bare(Vec<serde_json::Value>),
}

#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Traces)]
#[allow(dead_code, reason = "describes one form of a body")]
pub(crate) struct NamedTraces {
    /// Judged in this order; each as in `/v1/verify`, and each has its own result.
    #[schema(max_items = 1000)]
    traces: Vec<serde_json::Value>,
}

#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what is put together as text")]
pub(crate) struct Verdicts {
    /// In order: a verdict, or `error`.
    results: Vec<VerdictOrError>,
}

#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "describes what is put together as text")]
pub(crate) enum VerdictOrError {
    Verdict(Box<VerdictSchema>),
    Error(Refused),
}

#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what is put together as text")]
pub(crate) struct Refused {
    error: ItemError,
}

/// Judges many tool results, each with its own result
#[utoipa::path(post, path = "/v1/verify/batch", tag = "verification", request_body = TracesOrList, responses((status = 200, body = Verdicts), Errors),
    security(("token" = ["verify"])))]
pub(crate) async fn batch(
    State(app): State<Arc<App>>,
    Verify(token): Verify,
    Raw(body): Raw,
) -> Result<Response, Problem> {
    let namespace = namespace(&app, &token).await?;
    let (whole, places) = app
        .judging(move |_| {
            let places = places(&body)?;
            Ok((body, places))
        })
        .await?;
    let mut text = String::from(r#"{"results":["#);
    let mut rest = &places[..];
    while !rest.is_empty() {
        // One at least, then as many as are small together.
        let fits = rest[1..].iter().take_while(|place| place.end - rest[0].start < SMALL).count();
        let (now, later) = rest.split_at(1 + fits);
        let (now, body) = (now.to_vec(), whole.clone());
        let (namespace, token) = (Arc::clone(&namespace), Arc::clone(&token));
        let judge = move |app: &App| now.into_iter().map(|place| item(app, &namespace, &token, &body[place])).collect();
        let judged: Vec<String> = app.judging(judge).await?;
        text += &judged.join(",");
        text += if later.is_empty() { "" } else { "," };
        rest = later;
    }
    text += "]}";
    Ok(super::json_bytes(Bytes::from(text)))
}

/// Where the traces of a batch stand in its body.
fn places(body: &Bytes) -> Result<Vec<Range<usize>>, Problem> {
    let bare = body.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'[');
    let traces: Vec<&RawValue> = if bare {
        serde_json::from_slice(body).map_err(|e| invalid(body, &e.to_string()))?
    } else {
        parse::<Traces<'_>>(body)?.traces
    };
    if traces.len() > MAX_BATCH {
        let detail = format!("{} traces, at most {MAX_BATCH} at once", traces.len());
        return Err(Problem::unprocessable("too_many_items", detail));
    }
    let start = body.as_ptr() as usize;
    let place = |trace: &&RawValue| {
        let at = trace.get().as_ptr() as usize - start;
        at..at + trace.get().len()
    };
    Ok(traces.iter().map(place).collect())
}

fn item(app: &App, namespace: &Namespace, token: &Bearer, raw: &[u8]) -> Result<String, Problem> {
    match judge_one(app, namespace, token, raw) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(problem) if problem.status.is_client_error() => {
            let error = ItemError { code: problem.code.to_owned(), detail: problem.detail().to_owned() };
            Ok(json!({ "error": error }).to_string())
        }
        Err(problem) => Err(problem),
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewFeedback {
    #[schema(min_length = 1, max_length = 512)]
    pub tool: String,
    /// The posterior that the verdict gave.
    #[schema(minimum = 0, maximum = 1)]
    pub posterior: f64,
    /// Whether the result was fabricated.
    pub fabricated: bool,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Feedback)]
pub(crate) struct FeedbackState {
    tool: String,
    /// Feedbacks so far.
    count: u64,
    /// The share that was fabricated, as it is reckoned with now.
    rate: f64,
    /// P(fabricated) before looking, as it is reckoned with now.
    prior: f64,
    /// The posterior from which on feedback alone would have a result blocked; the budget of false blocks may raise it.
    block_threshold: f64,
    /// Mean squared error of the posteriors that were fed back.
    brier: f64,
}

/// Says what came out: moves the tool's threshold and, from five on, its prior
#[utoipa::path(post, path = "/v1/feedback", tag = "verification", request_body = NewFeedback, responses((status = 200, body = FeedbackState), Errors),
    security(("token" = ["verify"])))]
pub(crate) async fn feedback(
    State(app): State<Arc<App>>,
    Verify(token): Verify,
    Json(given): Json<NewFeedback>,
) -> Result<Response, Problem> {
    respond(&record_feedback(&app, &token, given).await?)
}

/// Records what came out, in the token's own namespace.
pub(crate) async fn record_feedback(
    app: &Arc<App>,
    token: &Arc<Bearer>,
    given: NewFeedback,
) -> Result<FeedbackState, Problem> {
    let NewFeedback { tool, posterior, fabricated } = given;
    if !(0.0..=1.0).contains(&posterior) {
        return Err(Problem::unprocessable("invalid_posterior", "posterior: between 0 and 1, as the verdict gave it"));
    }
    let namespace = namespace(app, token).await?;
    let (name, now) = (tool.clone(), app.work(move |_| namespace.feedback(&tool, posterior, fabricated)).await?);
    let (tool, Feedback { count, rate, prior, block_threshold, brier }) = (name, now);
    Ok(FeedbackState { tool, count, rate, prior, block_threshold, brier })
}
