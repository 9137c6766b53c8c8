//! Control of a domain: who owns an agent's address.

use std::sync::{Arc, PoisonError};

use axum::{extract::State, response::Response};
use credence_pipeline::query;
use credence_protocol::EntityId;
use credence_sandbox::domain::{self, ExpectedLine, HOLDS_SECONDS, PATH};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::created;
use crate::{
    app::App,
    edge::refusal,
    extract::{Json, Part},
    problem::Problem,
    schema::{Accepted, Errors},
    turns,
};

/// Domains that one caller has looked at at once.
const LOOKUPS_OF_ONE: u64 = 4;

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Address {
    /// One of the agent's aliases: `https://…` or `did:web:…`.
    address: String,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Challenge {
    agent: String,
    /// Where the line has to be served.
    url: String,
    /// The line.
    content: String,
    #[schema(format = DateTime)]
    expires_at: String,
}

async fn agent_and_host(app: &Arc<App>, agent: String, address: String) -> Result<(EntityId, String), Problem> {
    app.read(move |_, view| {
        let id = query::resolve(view, &agent)?;
        let host = domain::host_of(&query::agent(view, &id)?.aliases, &address);
        Ok((id, host.map_err(|why| Problem::unprocessable("invalid_address", why))?))
    })
    .await
}

/// A line to prove control of a domain with
///
/// Serve `content` at `url`, then ask for the verification. Anyone may ask: only the owner can serve it.
#[utoipa::path(post, path = "/v1/agents/{agent}/domain-challenges", tag = "agents", params(("agent" = String, Path)),
    request_body = Address, responses((status = 201, body = Challenge), Errors))]
pub(crate) async fn challenge(
    State(app): State<Arc<App>>,
    Part(agent): Part<String>,
    Json(Address { address }): Json<Address>,
) -> Result<Response, Problem> {
    app.signs()?;
    let (agent, host) = agent_and_host(&app, agent, address).await?;
    let expires = app.now().plus_seconds(HOLDS_SECONDS);
    created(&Challenge {
        content: domain::line(&app.office.key, &agent, &host, expires),
        url: format!("https://{host}{PATH}"),
        agent: agent.to_string(),
        expires_at: expires.to_string(),
    })
}

/// Looks whether the line is served; if so, records that the agent's owner controls the domain
#[utoipa::path(post, path = "/v1/agents/{agent}/domain-verifications", tag = "agents", params(("agent" = String, Path)),
    request_body = Address, responses((status = 201, body = Accepted), Errors))]
pub(crate) async fn verify(
    State(app): State<Arc<App>>,
    Part(agent): Part<String>,
    Json(Address { address }): Json<Address>,
) -> Result<Response, Problem> {
    app.signs()?;
    let (agent, host) = agent_and_host(&app, agent, address).await?;
    let now = app.now();
    let (who, at) = (agent.clone(), host.clone());
    // Proved lately: asking again changes nothing, and asks nobody.
    if let Some(seq) = app.read(move |_, view| Ok(query::recently_proved(view, &who, &at, now)?)).await? {
        return created(&Accepted { seq, known: true, remark: None });
    }
    let lookup = app.lookups.take(turns::payer().1, LOOKUPS_OF_ONE);
    let lookup = lookup.map_err(|why| refusal(&app, why, "the domains looked at at once").retry_after(5))?;
    let allow_loopback = app.settings.allow_loopback_domains;
    let key = app.office.key.public();
    let expected = ExpectedLine { key: &key, agent: &agent, host: &host, now: Some(now) };
    let checked = domain::check_domain(expected, allow_loopback, lookup).await;
    checked.map_err(|why| Problem::unprocessable("domain_not_verified", why))?;
    let admitted = app
        .work(move |app| {
            let _one_at_a_time = app.domains.lock().unwrap_or_else(PoisonError::into_inner);
            let recorded = app.authority.record_domain(&agent, &host, &app.office.key)?;
            recorded.map_err(|rejection| Problem::from(&rejection))
        })
        .await?;
    created(&Accepted { seq: admitted.seq, known: admitted.known, remark: None })
}
