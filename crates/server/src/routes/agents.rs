//! Agents: who is scored.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use credence_ledger::View;
use credence_pipeline::{
    NewAgent,
    query::{self, AgentFilter, AgentPage, AssuredRow, CurrentAssured, ListedAgent, ScoreRow},
};
use credence_protocol::{Alias, EntityId};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::{MAX_PAGE, created, json};
use crate::{
    app::App,
    dashboard::ranking::{Order, Wanted},
    extract::{Admin, Json, Nothing, Params, Part},
    problem::Problem,
    schema::{Agent, AgentList, AssuredScore, Errors, Recorded, RecordedScore},
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
    /// The best first, by this score, instead of by id. Does not go with `prefix` and `after`: use `page`.
    #[param(inline)]
    pub rank: Option<Rank>,
    /// With `rank`: the page, from 1.
    #[param(minimum = 1)]
    pub page: Option<usize>,
    /// With `rank`: only agents of whom at least this share is evidence.
    #[param(minimum = 0, maximum = 1)]
    pub min_known: Option<f64>,
}

/// By which score agents are ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Rank {
    /// What can be vouched for.
    Assured,
    /// What the sources say.
    Universal,
}

/// Agents, by id or ranked
#[utoipa::path(get, path = "/v1/agents", tag = "agents", params(Page), responses((status = 200, body = AgentList), Errors))]
pub(crate) async fn list(State(app): State<Arc<App>>, Params(page): Params<Page>) -> Result<Response, Problem> {
    let limit = page_size(page.limit, PAGE)?;
    let found = match page.rank {
        Some(rank) => app.work(move |app| ranked(app, &page, rank, limit)).await?,
        None => app.read(move |_, view| find(view, &page, limit)).await?,
    };
    json(&found)
}

/// A page of agents, the best first.
fn ranked(app: &App, page: &Page, rank: Rank, limit: usize) -> Result<AgentList, Problem> {
    let wrong = |detail: &str| Problem::bad_request("bad_query", detail.to_owned());
    if !page.prefix.is_empty() || page.after.is_some() {
        return Err(wrong("rank does not go with prefix or after: ask for pages with `page`"));
    }
    let min_known = page.min_known.unwrap_or(0.0);
    if !(0.0..=1.0).contains(&min_known) {
        return Err(wrong("min_known: between 0 and 1"));
    }
    let number = page.page.unwrap_or(1);
    let start = number.checked_sub(1).ok_or_else(|| wrong("page: from 1 on"))?;
    let wanted = Wanted {
        search: page.search.clone().unwrap_or_default(),
        tier: None,
        certification: None,
        min_known,
        order: if rank == Rank::Assured { Order::Assured } else { Order::Universal },
        reverse: false,
        weights: None,
    };
    let found = app.rankings.with(app, |ranking| ranking.page(&wanted, start, limit))?;
    // A page beyond the end is empty, not the last one again.
    if found.from != start.saturating_mul(limit) {
        return Ok(AgentList { agents: Vec::new(), next: None });
    }
    let view = app.authority.ledger().view()?;
    let next = (found.from + found.rows.len() < found.matching).then(|| (number + 1).to_string());
    let agents = found.rows.iter().map(|(row, _)| Ok(shown(query::listed(&*view, &row.id)?)));
    Ok(AgentList { agents: agents.collect::<Result<_, Problem>>()?, next })
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
    if page.page.is_some() || page.min_known.is_some() {
        return Err(Problem::bad_request("bad_query", "page and min_known go with rank"));
    }
    let AgentPage { agents, next } = query::agents(view, &filter, limit)?;
    Ok(AgentList { agents: agents.into_iter().map(shown).collect(), next })
}

fn shown(listed: ListedAgent) -> Agent {
    let ListedAgent { id, row, score, assured } = listed;
    Agent {
        agent: id,
        name: row.name,
        aliases: row.aliases.iter().map(ToString::to_string).collect(),
        owner: row.owner.map(|owner| owner.to_string()),
        registered_at: row.registered_at.to_string(),
        seq: row.seq,
        revoked: row.revoked.is_some(),
        score: score.map(recorded),
        assured: assured.map(vouched),
    }
}

/// A recorded assured score.
pub(crate) fn vouched(row: AssuredRow) -> AssuredScore {
    CurrentAssured::from(row).into()
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
            Ok(shown(query::listed(view, &id)?))
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
