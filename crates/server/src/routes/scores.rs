//! Scores: now, then, under the caller's own weights; why; over time. And what scores are made of.

use std::{collections::BTreeMap, sync::Arc};

use axum::{extract::State, response::Response};
use credence_engine::hcs25::output_verification::Window;
use credence_ledger::View;
use credence_pipeline::query;
use credence_protocol::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::{IntoParams, ToSchema};

use super::{agents, json as respond};
use crate::{
    app::App,
    extract::{Nothing, Params, Part},
    problem::Problem,
    schema::{AnyScore, Errors, Explanation, History},
};

/// Sources that a caller's own weights may name.
pub(crate) const MAX_WEIGHTS: usize = 256;

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct When {
    /// The score that was in force then (RFC 3339), as recorded.
    #[param(format = DateTime)]
    at: Option<String>,
    /// Your own source weights, such as `lab:1,*:0.2`; nothing is recorded.
    #[param(pattern = r"^[^:,]+:[0-9.]+(,[^:,]+:[0-9.]+)*$", example = "lab:1,*:0.2")]
    weights: Option<String>,
}

/// An agent's score
#[utoipa::path(get, path = "/v1/agents/{agent}/score", tag = "agents", params(("agent" = String, Path), When),
    responses((status = 200, body = AnyScore), Errors))]
pub(crate) async fn score(
    State(app): State<Arc<App>>,
    Part(agent): Part<String>,
    Params(When { at, weights }): Params<When>,
) -> Result<Response, Problem> {
    if at.is_some() && weights.is_some() {
        return Err(Problem::bad_request("bad_query", "at and weights do not go together"));
    }
    let at: Option<Timestamp> =
        at.map(|text| text.parse()).transpose().map_err(|e| Problem::bad_request("bad_query", format!("at: {e}")))?;
    let weights = weights.map(|text| parse_weights(&text)).transpose()?;
    let shown = app
        .read(move |app, view| {
            let id = query::resolve(view, &agent)?;
            let value = |shown: serde_json::Result<Value>| shown.map_err(|e| Problem::internal(&e));
            if let Some(at) = at {
                return value(serde_json::to_value(query::score_at(view, &id, at)?));
            }
            if let Some(weights) = weights {
                let custom = app.reading().custom(view, &id, &weights)?;
                return Ok(json!({ "agent": id, "custom": custom, "weights": weights }));
            }
            value(serde_json::to_value(app.score(view, &id)?))
        })
        .await?;
    respond(&shown)
}

fn parse_weights(text: &str) -> Result<BTreeMap<String, f64>, Problem> {
    let wrong = |why: &str| Problem::bad_request("bad_query", format!("weights: {why}, as in lab:1,*:0.2"));
    let mut weights = BTreeMap::new();
    for part in text.split(',') {
        let (source, weight) = part.rsplit_once(':').ok_or_else(|| wrong("source:weight pairs"))?;
        let weight: f64 = weight.parse().map_err(|_| wrong("a weight is a number"))?;
        if weights.insert(source.to_owned(), weight).is_some() {
            return Err(wrong("each source once"));
        }
    }
    if weights.len() > MAX_WEIGHTS {
        return Err(wrong(&format!("at most {MAX_WEIGHTS} sources")));
    }
    Ok(weights)
}

/// Why an agent's score is what it is
#[utoipa::path(get, path = "/v1/agents/{agent}/explain", tag = "agents", params(("agent" = String, Path)),
    responses((status = 200, body = Explanation), Errors))]
pub(crate) async fn explain(
    State(app): State<Arc<App>>,
    Part(agent): Part<String>,
    _: Params<Nothing>,
) -> Result<Response, Problem> {
    let explained = app.read(move |app, view| app.explained(view, &query::resolve(view, &agent)?)).await?;
    respond(&explained)
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Newest {
    /// How many at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// An agent's scores over time, newest first
#[utoipa::path(get, path = "/v1/agents/{agent}/history", tag = "agents", params(("agent" = String, Path), Newest),
    responses((status = 200, body = History), Errors))]
pub(crate) async fn history(
    State(app): State<Arc<App>>,
    Part(agent): Part<String>,
    Params(Newest { limit }): Params<Newest>,
) -> Result<Response, Problem> {
    let limit = agents::page_size(limit, 50)?;
    let shown = app.read(move |_, view| history_of(view, &agent, limit)).await?;
    respond(&shown)
}

pub(crate) fn history_of(view: &dyn View, agent: &str, limit: usize) -> Result<History, Problem> {
    let id = query::resolve(view, agent)?;
    let scores = query::history(view, &id, limit)?.into_iter().map(agents::recorded).collect();
    let assured = query::assured_history(view, &id, limit)?.into_iter().map(agents::vouched).collect();
    let revoked = query::agent(view, &id)?.revoked.is_some();
    Ok(History { agent: id.to_string(), revoked, scores, assured })
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Over {
    /// 7d where nothing is said.
    #[param(inline, value_type = Option<WindowName>)]
    window: Option<String>,
}

/// Describes the windows.
#[derive(Deserialize, ToSchema)]
#[allow(dead_code, reason = "describes what is parsed by the engine")]
pub(crate) enum WindowName {
    #[serde(rename = "1d")]
    Day,
    #[serde(rename = "7d")]
    Week,
    #[serde(rename = "30d")]
    Month,
}

/// An HCS-25 `outputVerificationSummary` of all providers whose reports count, in the standard's own fields; everything else beside them
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
#[allow(dead_code, reason = "describes what the pipeline serialises")]
pub(crate) struct Stats {
    #[schema(minimum = 0, maximum = 1)]
    allow_rate: f64,
    #[schema(minimum = 0, maximum = 1)]
    block_rate: f64,
    #[schema(minimum = 0, maximum = 1)]
    uncertain_rate: f64,
    /// The mean calibrated probability that a verdict is right, as the providers say.
    #[schema(minimum = 0, maximum = 1)]
    avg_confidence: f64,
    /// 0 where no report counts: `hcs25.reason` says why.
    total_checks: u64,
    #[schema(value_type = Option<Object>)]
    stake_distribution: Option<Value>,
    window_days: f64,
    /// Each `{id, signerAddress?, methodologyUrl?, checksContributed}`; none where no report counts.
    #[schema(value_type = Option<Vec<Object>>)]
    providers: Option<Value>,
    #[schema(format = DateTime)]
    updated_at: Option<String>,
    agent: String,
    window: String,
    /// As HCS-25 computes it.
    #[schema(value_type = Object)]
    hcs25: Value,
    /// As the authority's own signals have it.
    #[schema(value_type = Object)]
    signal: Value,
    #[schema(value_type = Vec<Object>)]
    findings: Value,
    /// Each provider's `outputVerificationSummary`.
    #[schema(value_type = Vec<Object>)]
    summaries: Value,
}

/// What verification providers say of an agent's outputs
#[utoipa::path(get, path = "/v1/stats/{agent}", tag = "agents", params(("agent" = String, Path), Over),
    responses((status = 200, body = Stats), Errors))]
pub(crate) async fn stats(
    State(app): State<Arc<App>>,
    Part(agent): Part<String>,
    Params(Over { window }): Params<Over>,
) -> Result<Response, Problem> {
    let window = match window.as_deref() {
        None => Window::Week,
        Some(text) => Window::parse(text).ok_or_else(|| {
            let known: Vec<&str> = Window::ALL.iter().map(|window| window.key()).collect();
            Problem::unprocessable("invalid_window", format!("window: one of {}", known.join(", ")))
        })?,
    };
    let now = app.now();
    let shown = app.read(move |_, view| Ok(query::stats(view, &query::resolve(view, &agent)?, window, now)?)).await?;
    respond(&shown)
}

/// An agent's reputation among agents
#[derive(Serialize, ToSchema)]
pub(crate) struct Reputation {
    agent: String,
    /// `new` (a low score means unknown, not bad), `established`, or `lapsed` (no event in 30 days: it says nothing of now).
    standing: &'static str,
    /// Events that others made.
    events: u64,
    /// The `reputation-score` record; none before the first event.
    #[schema(value_type = Option<Object>)]
    reputation: Option<Value>,
    stddev: Option<f64>,
    /// What makes R readable: `{score, state, tier?, geometric_mean, claims?: {held, of, low, high}, percentile?: {percentile, among}}`.
    /// A new agent has no letter.
    #[schema(value_type = Option<Object>)]
    readable: Option<Value>,
    /// What each factor rests on.
    #[schema(value_type = Option<Object>)]
    basis: Option<Value>,
    /// The newest events.
    #[schema(value_type = Vec<Object>)]
    last: Vec<Value>,
}

/// An agent's reputation: the score, its five factors and what moved them last
#[utoipa::path(get, path = "/v1/agents/{agent}/reputation", tag = "reputation", params(("agent" = String, Path), Newest),
    responses((status = 200, body = Reputation), Errors))]
pub(crate) async fn reputation(
    State(app): State<Arc<App>>,
    Part(agent): Part<String>,
    Params(Newest { limit }): Params<Newest>,
) -> Result<Response, Problem> {
    let limit = agents::page_size(limit, 5)?;
    let now = app.now();
    let shown = app
        .read(move |app, view| {
            let id = query::resolve(view, &agent)?;
            let rows = query::reputation_history(view, &id, limit)?;
            let newest = query::reputation(view, &id, now)?;
            let readable =
                newest.as_ref().map(|newest| app.peers.place(view, newest.readable.clone(), now)).transpose()?;
            Ok(Reputation {
                standing: newest.as_ref().map_or("new", query::Reputation::standing),
                events: newest.as_ref().map_or(0, |newest| newest.row.events),
                reputation: newest.as_ref().map(|newest| newest.published(&id)),
                stddev: newest.as_ref().map(query::Reputation::stddev),
                readable: readable.map(|readable| json!(readable)),
                basis: newest.map(|newest| newest.row.basis),
                last: rows.iter().map(|row| json!(row)).collect(),
                agent: id.to_string(),
            })
        })
        .await?;
    respond(&shown)
}
