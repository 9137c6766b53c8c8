//! Control of a domain: who owns an agent's address.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use credence_pipeline::{
    query,
    tables::{self, AgentRow},
};
use credence_protocol::{AUTHORITY_SOURCE, EntityId, SignalDraft, SignedTime, Tag, Uuid, strict::StrictValue};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use super::created;
use crate::{
    app::App,
    domain::{self, HOLDS_SECONDS, Look, PATH},
    extract::{Json, Part},
    problem::Problem,
    schema::{Accepted, Errors},
};

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
        let row: Option<AgentRow> = tables::get(view, tables::AGENTS, id.as_str())?;
        let host = domain::host_of(&row.map(|row| row.aliases).unwrap_or_default(), &address)?;
        Ok((id, host))
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
    let (agent, host) = agent_and_host(&app, agent, address).await?;
    let allow_loopback = app.settings.allow_loopback_domains;
    domain::look(Look { key: &app.office.key, agent: &agent, host: &host, allow_loopback, now: app.now() }).await?;
    let admitted = app
        .work(move |app| {
            let evidence = json!({ "method": "well-known", "host": host });
            let draft = SignalDraft {
                id: Uuid::now_v7(),
                agent,
                source: EntityId::new(AUTHORITY_SOURCE)?,
                tags: vec![Tag::new("identity_domain")?],
                value: 100.0,
                stddev: 0.0,
                observed_at: SignedTime::from(app.now()),
                supersedes: None,
                evidence: Some(StrictValue(evidence)),
            };
            let signal = draft.sign(&app.office.key)?;
            match app.authority.submit(signal.canonical().as_bytes())? {
                Ok(admitted) => Ok(admitted),
                Err(rejection) => Err(Problem::from(&rejection)),
            }
        })
        .await?;
    created(&Accepted { seq: admitted.seq, known: admitted.known, remark: None })
}
