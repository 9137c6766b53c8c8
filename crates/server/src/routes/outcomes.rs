//! What really happened after someone relied on an agent.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{extract::State, response::Response};
use credence_pipeline::{
    outcomes::NewOutcome,
    query::{self, Reliability},
};
use credence_protocol::{Timestamp, Uuid};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::{created, json};
use crate::{
    app::App,
    extract::{Ingest, Json, Params},
    problem::Problem,
    schema::{Accepted, Errors},
    tokens::Bearer,
};

/// How long the curve over all agents is given again.
const CURVE_HOLDS: Duration = Duration::from_secs(2);

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Outcome)]
pub(crate) struct Reported {
    /// An id of the reporter's own: the same one again is the same outcome. Made here when not given.
    #[schema(value_type = Option<String>, format = "uuid")]
    id: Option<Uuid>,
    /// The agent's id or alias.
    agent: String,
    /// Whether it went well.
    good: bool,
    /// When someone relied on it: the score of then is put to the test. Now when not given.
    #[schema(value_type = Option<String>, format = DateTime)]
    relied_at: Option<Timestamp>,
    /// The hash of the signed answer it was relied on for.
    #[schema(pattern = "^[0-9a-f]{64}$")]
    response: Option<String>,
}

/// Reports what came of relying on an agent
///
/// The report is public, under the token's name.
#[utoipa::path(post, path = "/v1/outcomes", tag = "answers", request_body = Reported, responses((status = 201, body = Accepted), Errors),
    security(("token" = ["ingest"])))]
pub(crate) async fn report(
    State(app): State<Arc<App>>,
    Ingest(token): Ingest,
    Json(outcome): Json<Reported>,
) -> Result<Response, Problem> {
    created(&record(&app, token, outcome).await?)
}

/// Records an outcome under the token's name.
pub(crate) async fn record(app: &Arc<App>, token: Arc<Bearer>, outcome: Reported) -> Result<Accepted, Problem> {
    let admitted = app
        .work(move |app| {
            let Reported { id, agent, good, relied_at, response } = outcome;
            let new = NewOutcome {
                id: id.unwrap_or_else(Uuid::now_v7),
                agent: query::resolve(&*app.authority.ledger().view()?, &agent)?,
                good,
                relied_at,
                reporter: token.name.clone(),
                response,
            };
            Ok(app.authority.record_outcome(new)?)
        })
        .await?;
    Ok(Accepted { seq: admitted.seq, known: admitted.known, remark: None })
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Of {
    /// One agent only.
    agent: Option<String>,
}

/// How the score has done: of agents rated so, how many outcomes were good
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what the pipeline serialises")]
pub(crate) struct Calibration {
    as_of: u64,
    /// Outcomes of agents that had no published score then.
    unrated: u64,
    outcomes: u64,
    good: u64,
    bins: Vec<Bin>,
    /// The chance that the better outcome was rated higher: 0.5 says nothing, 1 is perfect order.
    concordance: Option<f64>,
}

/// Agents rated `from` to `to`
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what the engine serialises")]
pub(crate) struct Bin {
    from: u8,
    to: u8,
    outcomes: u64,
    good: u64,
    rate: f64,
    /// 95 % interval (Wilson).
    low: f64,
    high: f64,
    mean_score: f64,
}

/// The score's own reliability
#[utoipa::path(get, path = "/v1/calibration", tag = "answers", params(Of), responses((status = 200, body = Calibration), Errors))]
pub(crate) async fn calibration(
    State(app): State<Arc<App>>,
    Params(Of { agent }): Params<Of>,
) -> Result<Response, Problem> {
    let Some(agent) = agent else { return json(&*whole_curve(&app).await?) };
    let curve = app.read(move |_, view| Ok(query::reliability(view, Some(&query::resolve(view, &agent)?))?)).await?;
    json(&curve)
}

/// The curve over all agents: made once for everyone who asks within some seconds, by one at a time.
pub(crate) async fn whole_curve(app: &Arc<App>) -> Result<Arc<Reliability>, Problem> {
    let mut kept = app.curve.lock().await;
    if let Some((made, curve)) = &*kept
        && made.elapsed() < CURVE_HOLDS
    {
        return Ok(Arc::clone(curve));
    }
    let curve = Arc::new(app.read(|_, view| Ok(query::reliability(view, None)?)).await?);
    *kept = Some((Instant::now(), Arc::clone(&curve)));
    Ok(curve)
}
