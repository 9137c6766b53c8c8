//! Runs of the sandbox: what they found, and when an agent is probed again.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use credence_engine::probe::Trials;
use credence_pipeline::{
    probe_schedule::{EVERY_HOURS, ProbeSchedule, Scheduled},
    query,
};
use credence_protocol::EntityId;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::json;
use crate::{
    app::App,
    extract::{Admin, Json, Nothing, Params, Part},
    probing::{consent_of, schedule},
    problem::Problem,
    schema::Errors,
};

/// Runs listed when nothing is said, and at most.
const USUAL: usize = 10;
const MOST: usize = 100;
/// Requests of one scheduled run: the whole suite takes some two thousand.
const MAX_BUDGET: u64 = 20_000;
const USUAL_BUDGET: u64 = 4_000;
const MAX_RATE: u32 = 50;
const USUAL_RATE: u32 = 2;

/// What runs of the sandbox found out about an agent
#[derive(Serialize, ToSchema)]
pub(crate) struct Probes {
    pub agent: String,
    /// What the newest run that could tell says of each tag.
    pub current: Vec<ProbedTag>,
    /// The newest runs, newest first.
    pub runs: Vec<ProbeRun>,
}

/// One tag
#[derive(Serialize, ToSchema)]
pub(crate) struct ProbedTag {
    pub tag: String,
    pub value: f64,
    pub stddev: f64,
    /// The run's entry.
    pub run: u64,
    #[schema(format = DateTime)]
    pub recorded_at: String,
}

/// One run
#[derive(Serialize, ToSchema)]
pub(crate) struct ProbeRun {
    /// Its entry.
    pub seq: u64,
    #[schema(format = DateTime)]
    pub recorded_at: String,
    #[schema(format = DateTime)]
    pub started_at: String,
    #[schema(format = DateTime)]
    pub ended_at: String,
    /// Scheme, host and port that were probed.
    pub target: String,
    pub transport: String,
    /// The digest of the probes.
    pub suite: String,
    pub seed: u64,
    /// The digest of the transcript, which stays with the operator.
    pub transcript: String,
    pub requests: u64,
    pub threats: Vec<ProbedThreat>,
}

/// One threat of a run
#[derive(Serialize, ToSchema)]
pub(crate) struct ProbedThreat {
    pub tag: String,
    /// 0 to 100; absent where there is no signal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stddev: Option<f64>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_signal: Option<String>,
    pub families: Vec<ProbedFamily>,
}

/// One family of a threat
#[derive(Serialize, ToSchema)]
pub(crate) struct ProbedFamily {
    pub family: String,
    pub trials: u64,
    pub effected: u64,
    pub claimed: u64,
    pub resisted: u64,
    pub inconclusive: u64,
    pub over_refusal: u64,
    /// The rate at which attacks take effect: the lower end of the middle 90 %.
    pub low: f64,
    /// And the upper end.
    pub high: f64,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Limit {
    /// Runs at most, 1 to 100 [default: 10].
    #[param(minimum = 1, maximum = 100)]
    limit: Option<usize>,
}

/// The listener of scheduled runs: a URL that a probe plants. Every nonce gets an answer, also one that no run watches
#[utoipa::path(get, path = "/.well-known/credence-probe/{nonce}", tag = "service", params(("nonce" = String, Path)),
    responses((status = 200, body = String, content_type = "text/plain"), Errors))]
pub(crate) async fn listener(State(app): State<Arc<App>>, Part(nonce): Part<String>) -> Response {
    let mut response = app.probe_hits.answer(&nonce).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The same for agents that send notifications to the URL of a probe
#[utoipa::path(post, path = "/.well-known/credence-probe/{nonce}", tag = "service", params(("nonce" = String, Path)),
    responses((status = 200, body = String, content_type = "text/plain"), Errors))]
pub(crate) async fn notified(app: State<Arc<App>>, nonce: Part<String>) -> Response {
    listener(app, nonce).await
}

/// What runs of the sandbox found out about an agent
#[utoipa::path(get, path = "/v1/agents/{agent}/probes", tag = "agents", params(("agent" = String, Path), Limit),
    responses((status = 200, body = Probes), Errors))]
pub(crate) async fn of_agent(
    State(app): State<Arc<App>>,
    Part(agent): Part<String>,
    Params(Limit { limit }): Params<Limit>,
) -> Result<Response, Problem> {
    let limit = limit.unwrap_or(USUAL);
    if !(1..=MOST).contains(&limit) {
        return Err(Problem::unprocessable("invalid_limit", format!("limit: 1 to {MOST}")));
    }
    json(&found(&app, agent, limit).await?)
}

/// What was found out about an agent, with its newest runs.
pub(crate) async fn found(app: &Arc<App>, agent: String, limit: usize) -> Result<Probes, Problem> {
    let now = app.now();
    app.read(move |_, view| {
        let id = query::resolve(view, &agent)?;
        let current = query::probed(view, &id, now)?.into_iter().map(|(tag, row)| ProbedTag {
            tag: tag.to_owned(),
            value: row.value,
            stddev: row.stddev,
            run: row.seq,
            recorded_at: row.at.to_string(),
        });
        let runs = query::probe_runs(view, &id, limit)?.into_iter().map(shown);
        Ok(Probes { agent: id.to_string(), current: current.collect(), runs: runs.collect() })
    })
    .await
}

fn shown(run: query::ProbeRun) -> ProbeRun {
    let query::ProbeRun { seq, recorded_at, record } = run;
    let values = record.values();
    let threats = record.threats.iter().map(|threat| {
        let found = values.iter().find(|(tag, _)| *tag == threat.tag.as_str()).map(|(_, value)| *value);
        let broken_off = (!threat.finished).then(|| "the run did not try all its families in full".to_owned());
        let families = threat.families.iter().map(|family| {
            let trials: Trials = family.conclusive();
            let (low, high) = trials.interval();
            ProbedFamily {
                family: family.family.clone(),
                trials: family.trials,
                effected: family.effected,
                claimed: family.claimed,
                resisted: family.resisted,
                inconclusive: family.inconclusive,
                over_refusal: family.over_refusal,
                low,
                high,
            }
        });
        ProbedThreat {
            tag: threat.tag.to_string(),
            value: found.and_then(Result::ok).map(|estimate| estimate.value),
            stddev: found.and_then(Result::ok).map(|estimate| estimate.stddev),
            no_signal: broken_off.or_else(|| found.and_then(Result::err).map(|why| why.to_string())),
            families: families.collect(),
        }
    });
    ProbeRun {
        seq,
        recorded_at: recorded_at.to_string(),
        started_at: record.started_at.to_string(),
        ended_at: record.ended_at.to_string(),
        target: record.target.clone(),
        transport: record.transport.clone(),
        suite: record.suite.clone(),
        seed: record.seed,
        transcript: record.transcript.clone(),
        requests: record.requests,
        threats: threats.collect(),
    }
}

/// How often and how an agent is probed
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewProbeSchedule {
    /// Hours between two runs, from an hour to ninety days.
    #[schema(minimum = 1, maximum = 2160)]
    every_hours: u32,
    /// The agent's address, on a host whose control is proved for it.
    #[schema(max_length = 2048)]
    target: String,
    /// `chat`, `responses`, `a2a`, `mcp` or `http`.
    transport: String,
    /// The model to name (`chat`, `responses`).
    #[schema(max_length = 256)]
    model: Option<String>,
    /// Threats to try, such as `asi01`; all ten where none is named.
    #[serde(default)]
    #[schema(max_items = 10)]
    threats: Vec<String>,
    /// Requests of one run at most [default: 4000].
    #[schema(minimum = 1, maximum = 20_000)]
    budget: Option<u64>,
    /// Requests a second at most [default: 2].
    #[schema(minimum = 1, maximum = 50)]
    rate: Option<u32>,
    /// Names of environment variables of the service that hold the agent's tokens: of a first identity, and of a second. A name begins
    /// with `CREDENCE_PROBE_TOKEN`.
    #[serde(default)]
    #[schema(max_items = 2)]
    token_variables: Vec<String>,
    /// The header that carries a token [default: authorization, as a bearer token].
    #[schema(max_length = 64)]
    token_header: Option<String>,
}

/// When an agent is probed again
#[derive(Serialize, ToSchema)]
pub(crate) struct ShownSchedule {
    agent: String,
    every_hours: u32,
    target: String,
    transport: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    threats: Vec<String>,
    budget: u64,
    rate: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    token_variables: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_header: Option<String>,
    #[schema(format = DateTime)]
    next_at: String,
    running: bool,
    /// Why the last run came to nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
}

impl NewProbeSchedule {
    fn checked(self) -> Result<ProbeSchedule, Problem> {
        let invalid = |detail: String| Problem::unprocessable("invalid_schedule", detail);
        let Self { every_hours, target, transport, model, threats, budget, rate, token_variables, token_header } = self;
        let (budget, rate) = (budget.unwrap_or(USUAL_BUDGET), rate.unwrap_or(USUAL_RATE));
        let long = |text: &str, most: usize| text.chars().count() > most;
        if !EVERY_HOURS.contains(&every_hours) {
            return Err(invalid(format!("every_hours: {} to {}", EVERY_HOURS.start(), EVERY_HOURS.end())));
        }
        if !(1..=MAX_BUDGET).contains(&budget) || !(1..=MAX_RATE).contains(&rate) {
            return Err(invalid(format!("budget: 1 to {MAX_BUDGET}; rate: 1 to {MAX_RATE}")));
        }
        if long(&target, 2048) || model.as_deref().is_some_and(|model| long(model, 256)) || threats.len() > 10 {
            return Err(invalid("target: at most 2048 characters; model: 256; threats: 10".to_owned()));
        }
        let schedule = ProbeSchedule {
            every_hours,
            target,
            transport,
            model,
            threats,
            budget,
            rate,
            token_variables,
            token_header,
        };
        schedule::check_credentials(&schedule).map_err(invalid)?;
        schedule::spec(&schedule).map_err(|why| invalid(format!("target, transport: {why}")))?;
        schedule::threats(&schedule).map_err(|why| invalid(format!("threats: {why}")))?;
        Ok(schedule)
    }
}

/// Has an agent probed again and again
///
/// The first run is due at once. Control of the target's host has to be proved for the agent, and the challenge has to be served during
/// every run. The same path with another schedule replaces it.
#[utoipa::path(put, path = "/v1/agents/{agent}/probe-schedule", tag = "agents", params(("agent" = String, Path)),
    request_body = NewProbeSchedule, responses((status = 200, body = ShownSchedule), Errors), security(("token" = ["admin"])))]
pub(crate) async fn set_schedule(
    State(app): State<Arc<App>>,
    _: Admin,
    Part(agent): Part<String>,
    Json(new): Json<NewProbeSchedule>,
) -> Result<Response, Problem> {
    app.signs()?;
    let schedule = new.checked()?;
    let now = app.now();
    let shown = app
        .work(move |app| {
            let view = app.authority.ledger().view()?;
            let id = query::resolve(&*view, &agent)?;
            let consent = consent_of(&*view, &id, &app.office.key.public(), schedule::loopback(app), now)?;
            let url = schedule::spec(&schedule).and_then(|spec| spec.parsed_url());
            let permitted = url.and_then(|url| consent.permits(&url));
            permitted.map_err(|why| Problem::unprocessable("domain_not_proved", why))?;
            drop(view);
            app.authority.schedule_probes(&id, &schedule, now)?;
            standing_schedule(app, &id)
        })
        .await?;
    json(&shown)
}

/// When an agent is probed again
#[utoipa::path(get, path = "/v1/agents/{agent}/probe-schedule", tag = "agents", params(("agent" = String, Path)),
    responses((status = 200, body = ShownSchedule), Errors), security(("token" = ["admin"])))]
pub(crate) async fn schedule(
    State(app): State<Arc<App>>,
    _: Admin,
    Part(agent): Part<String>,
    _: Params<Nothing>,
) -> Result<Response, Problem> {
    let shown = app
        .work(move |app| {
            let id = query::resolve(&*app.authority.ledger().view()?, &agent)?;
            standing_schedule(app, &id)
        })
        .await?;
    json(&shown)
}

/// Ends the probes of an agent
#[utoipa::path(delete, path = "/v1/agents/{agent}/probe-schedule", tag = "agents", params(("agent" = String, Path)),
    responses((status = 204, description = "it is not probed any more"), Errors), security(("token" = ["admin"])))]
pub(crate) async fn end_schedule(
    State(app): State<Arc<App>>,
    _: Admin,
    Part(agent): Part<String>,
    _: Params<Nothing>,
) -> Result<StatusCode, Problem> {
    app.work(move |app| {
        let id = query::resolve(&*app.authority.ledger().view()?, &agent)?;
        if app.authority.unschedule_probes(&id)? { Ok(StatusCode::NO_CONTENT) } else { Err(none(&id)) }
    })
    .await
}

fn none(agent: &EntityId) -> Problem {
    Problem::not_found("no_schedule", format!("'{agent}' is not probed by a schedule: PUT one here"))
}

fn standing_schedule(app: &App, agent: &EntityId) -> Result<ShownSchedule, Problem> {
    let found = query::probe_schedule(&*app.authority.ledger().view()?, agent, app.now())?;
    let Scheduled { schedule, next_at, running, last_error } = found.ok_or_else(|| none(agent))?;
    let ProbeSchedule { every_hours, target, transport, model, threats, budget, rate, token_variables, token_header } =
        schedule;
    let (agent, next_at) = (agent.to_string(), next_at.to_string());
    Ok(ShownSchedule {
        agent,
        every_hours,
        target,
        transport,
        model,
        threats,
        budget,
        rate,
        token_variables,
        token_header,
        next_at,
        running,
        last_error,
    })
}
