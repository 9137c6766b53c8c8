//! Agents: who is scored.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use credence_ledger::View;
use credence_pipeline::{
    NewAgent,
    query::{self, AgentFilter, AgentPage, AgentRow, ScoreRow},
};
use credence_protocol::{Alias, EntityId};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::{MAX_PAGE, created, json};
use crate::{
    app::App,
    extract::{Admin, Json, Nothing, Params, Part},
    problem::Problem,
    schema::{Agent, AgentList, Errors, Recorded, RecordedScore},
};

const PAGE: usize = 100;

#[derive(Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Page {
    /// Ids that start with this.
    #[serde(default)]
    pub prefix: String,
    /// Ids, names and aliases that contain this, whatever the case.
    pub search: Option<String>,
    /// After this id: `next` of the page before.
    pub after: Option<String>,
    /// How many at most.
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
}

/// Agents, by id
#[utoipa::path(get, path = "/v1/agents", tag = "agents", params(Page), responses((status = 200, body = AgentList), Errors))]
pub(crate) async fn list(State(app): State<Arc<App>>, Params(page): Params<Page>) -> Result<Response, Problem> {
    let limit = page_size(page.limit, PAGE)?;
    let found = app.read(move |_, view| find(view, &page, limit)).await?;
    json(&found)
}

/// A page's size, within bounds.
pub(crate) fn page_size(asked: Option<usize>, usual: usize) -> Result<usize, Problem> {
    let limit = asked.unwrap_or(usual);
    if (1..=MAX_PAGE).contains(&limit) {
        Ok(limit)
    } else {
        Err(Problem::bad_request("bad_query", format!("limit: between 1 and {MAX_PAGE}")))
    }
}

/// A page of agents.
pub(crate) fn find(view: &dyn View, page: &Page, limit: usize) -> Result<AgentList, Problem> {
    let Page { prefix, search, after, .. } = page;
    let filter = AgentFilter { prefix: prefix.clone(), search: search.clone(), after: after.clone() };
    let AgentPage { agents, next } = query::agents(view, &filter, limit)?;
    Ok(AgentList { agents: agents.into_iter().map(|agent| shown(&agent.id, agent.row, agent.score)).collect(), next })
}

fn shown(id: &str, row: AgentRow, score: Option<ScoreRow>) -> Agent {
    Agent {
        agent: id.to_owned(),
        name: row.name,
        aliases: row.aliases.iter().map(ToString::to_string).collect(),
        owner: row.owner.map(|owner| owner.to_string()),
        registered_at: row.registered_at.to_string(),
        seq: row.seq,
        revoked: row.revoked.is_some(),
        score: score.map(recorded),
    }
}

pub(crate) fn recorded(row: ScoreRow) -> RecordedScore {
    let ScoreRow { seq, recorded_at, recorded } = row;
    RecordedScore {
        seq,
        recorded_at: recorded_at.to_string(),
        as_of: recorded.as_of,
        formula: recorded.formula,
        coverage_floor: recorded.coverage_floor,
        status: recorded.status,
        score: recorded.score,
        tier: recorded.tier,
        coverage: recorded.coverage,
        sources: recorded.sources,
        mean: recorded.mean,
        weighted_mean: recorded.weighted_mean,
        stddev: recorded.stddev,
        tier_confidence: recorded.tier_confidence,
    }
}

/// One agent, by its id or alias
#[utoipa::path(get, path = "/v1/agents/{agent}", tag = "agents", params(("agent" = String, Path, description = "An id or alias")),
    responses((status = 200, body = Agent), Errors))]
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Part(agent): Part<String>,
    _: Params<Nothing>,
) -> Result<Response, Problem> {
    let found = app
        .read(move |_, view| {
            let id = query::resolve(view, &agent)?;
            let newest = query::history(view, &id, 1)?.into_iter().next();
            Ok(shown(id.as_str(), query::agent(view, &id)?, newest))
        })
        .await?;
    json(&found)
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewAgent)]
pub(crate) struct Registration {
    #[schema(value_type = String, min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._~-]+$")]
    agent: EntityId,
    /// A display name (public: it goes into the log).
    #[schema(max_length = 256)]
    name: Option<String>,
    /// Names elsewhere: `did:web:…`, `did:key:…`, `https://…`, `uaid:…`, `eip155:…`.
    #[serde(default)]
    #[schema(value_type = Vec<String>, max_items = 32)]
    aliases: Vec<Alias>,
    /// Who runs it.
    #[schema(value_type = Option<String>, min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._~-]+$")]
    owner: Option<EntityId>,
    /// What a new agent signs need not name this authority in `aud`.
    #[serde(default)]
    unbound: bool,
}

/// Aliases of one registration.
const MAX_ALIASES: usize = 32;

/// Registers an agent, or adds a name or aliases to one
#[utoipa::path(post, path = "/v1/agents", tag = "agents", request_body = Registration, responses((status = 201, body = Recorded), Errors),
    security(("token" = ["admin"])))]
pub(crate) async fn register(
    State(app): State<Arc<App>>,
    _: Admin,
    Json(new): Json<Registration>,
) -> Result<Response, Problem> {
    let Registration { agent, name, aliases, owner, unbound } = new;
    if aliases.len() > MAX_ALIASES {
        return Err(Problem::unprocessable("too_many_aliases", format!("aliases: at most {MAX_ALIASES} at once")));
    }
    let new = NewAgent { agent, name, aliases, owner, unbound };
    let seq = app.work(move |app| Ok(app.authority.add_agent(new)?)).await?;
    created(&Recorded { seq })
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewStanding {
    /// Take the standing back (true), or give it back (false).
    revoked: bool,
    /// Why (public: it goes into the log).
    #[schema(max_length = 256)]
    reason: Option<String>,
}

/// Takes an agent's standing back, or gives it back
///
/// While it is revoked, answers decline, its badge says so, and none of its credentials holds.
#[utoipa::path(post, path = "/v1/agents/{agent}/standing", tag = "agents", params(("agent" = String, Path)), request_body = NewStanding,
    responses((status = 201, body = Recorded), Errors), security(("token" = ["admin"])))]
pub(crate) async fn set_standing(
    State(app): State<Arc<App>>,
    _: Admin,
    Part(agent): Part<String>,
    Json(NewStanding { revoked, reason }): Json<NewStanding>,
) -> Result<Response, Problem> {
    let seq = app
        .work(move |app| {
            let id = query::resolve(&*app.authority.ledger().view()?, &agent)?;
            Ok(app.authority.set_standing(id, revoked, reason)?)
        })
        .await?;
    created(&Recorded { seq })
}
