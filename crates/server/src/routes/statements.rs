//! What agents, providers and the authority say, signed by themselves: contracts, challenges, reviews and the rest.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use credence_ledger::View;
use credence_pipeline::query::{self, ReviewRow};
use credence_protocol::{Statement, StatementKind};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{MAX_PAGE, created, json as respond};
use crate::{
    app::App,
    extract::{Ingest, Nothing, Params, Part, Raw, invalid},
    problem::Problem,
    schema::{Accepted, Errors},
};

/// A statement: `{author, kind, record, key_id, signature}`
///
/// `signature` is base64url(Ed25519(JCS(all but `signature`))); the record's schema is at `/v1/schemas/{kind}`.
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what is signed elsewhere")]
#[schema(as = Statement)]
pub(crate) struct Signed {
    #[schema(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._~-]+$")]
    author: String,
    /// The authority it is for, as in `aud` of `/v1/keys`. Authors that are not registered as unbound have to name it.
    aud: Option<String>,
    /// `identity`, `contract`, `verification`, `challenge`, `resolution`, `review` or `summary`.
    kind: String,
    #[schema(value_type = Object)]
    record: Value,
    key_id: String,
    signature: String,
}

async fn admit(app: Arc<App>, body: Raw, wanted: Option<StatementKind>) -> Result<Response, Problem> {
    let published = app
        .work(move |app| {
            if let Some(wanted) = wanted {
                let kind = Statement::parse(&body.0).map_err(|e| invalid(&body.0, &e.to_string()))?.kind();
                if kind != wanted {
                    let detail = format!("a {} belongs elsewhere: this takes a {}", kind.key(), wanted.key());
                    return Err(Problem::unprocessable("wrong_kind", detail));
                }
            }
            match app.authority.publish(&body.0)? {
                Ok(published) => Ok(published),
                Err(rejection) if rejection.code() == "malformed" => Err(invalid(&body.0, &rejection.to_string())),
                Err(rejection) => Err(Problem::from(&rejection)),
            }
        })
        .await?;
    created(&Accepted { seq: published.seq, known: published.known, remark: published.remark })
}

/// Submits a signed statement of any kind
#[utoipa::path(post, path = "/v1/statements", tag = "reputation", request_body = Signed, responses((status = 201, body = Accepted), Errors),
    security(("token" = ["ingest"])))]
pub(crate) async fn publish(State(app): State<Arc<App>>, _: Ingest, body: Raw) -> Result<Response, Problem> {
    admit(app, body, None).await
}

/// Publishes a contract: a claim that an agent stands by
#[utoipa::path(post, path = "/v1/contracts", tag = "reputation", request_body = Signed, responses((status = 201, body = Accepted), Errors),
    security(("token" = ["ingest"])))]
pub(crate) async fn contracts(State(app): State<Arc<App>>, _: Ingest, body: Raw) -> Result<Response, Problem> {
    admit(app, body, Some(StatementKind::Contract)).await
}

/// Disputes a contract
#[utoipa::path(post, path = "/v1/challenges", tag = "reputation", request_body = Signed, responses((status = 201, body = Accepted), Errors),
    security(("token" = ["ingest"])))]
pub(crate) async fn challenges(State(app): State<Arc<App>>, _: Ingest, body: Raw) -> Result<Response, Problem> {
    admit(app, body, Some(StatementKind::Challenge)).await
}

/// Reviews an agent
#[utoipa::path(post, path = "/v1/reviews", tag = "reputation", request_body = Signed, responses((status = 201, body = Accepted), Errors),
    security(("token" = ["ingest"])))]
pub(crate) async fn reviews(State(app): State<Arc<App>>, _: Ingest, body: Raw) -> Result<Response, Problem> {
    admit(app, body, Some(StatementKind::Review)).await
}

/// What was said, and what came of it
#[derive(Serialize, ToSchema)]
#[schema(as = StatementState)]
pub(crate) struct StatementState {
    id: String,
    /// The signed statement.
    #[schema(value_type = Object)]
    statement: Value,
    /// What became of it.
    #[schema(value_type = Object)]
    state: Value,
}

/// The statement in entry `seq`, with what became of it.
fn statement_state(view: &dyn View, id: String, seq: u64, state: Value) -> Result<StatementState, Problem> {
    Ok(StatementState { id, statement: query::record(view, seq)?, state })
}

fn unknown(code: &'static str) -> Problem {
    Problem::not_found(code, "nothing is known under that id")
}

/// A contract, and what became of it
#[utoipa::path(get, path = "/v1/contracts/{id}", tag = "reputation", params(("id" = String, Path)), responses((status = 200, body = StatementState), Errors))]
pub(crate) async fn contract(State(app): State<Arc<App>>, Part(id): Part<String>) -> Result<Response, Problem> {
    let found = app
        .read(move |_, view| {
            let row = query::contract(view, &id)?.ok_or_else(|| unknown("unknown_contract"))?;
            statement_state(view, id, row.seq, json!(row))
        })
        .await?;
    respond(&found)
}

/// A challenge, and what became of it
#[utoipa::path(get, path = "/v1/challenges/{id}", tag = "reputation", params(("id" = String, Path)), responses((status = 200, body = StatementState), Errors))]
pub(crate) async fn challenge(State(app): State<Arc<App>>, Part(id): Part<String>) -> Result<Response, Problem> {
    let found = app
        .read(move |_, view| {
            let row = query::challenge(view, &id)?.ok_or_else(|| unknown("unknown_challenge"))?;
            statement_state(view, id, row.seq, json!(row))
        })
        .await?;
    respond(&found)
}

#[derive(Serialize, ToSchema)]
pub(crate) struct AgentContracts {
    agent: String,
    /// The newest ones, with what became of them.
    contracts: Vec<ContractState>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct ContractState {
    id: String,
    #[schema(value_type = Object)]
    state: Value,
}

/// An agent's contracts, newest first
#[utoipa::path(get, path = "/v1/agents/{agent}/contracts", tag = "reputation", params(("agent" = String, Path)),
    responses((status = 200, body = AgentContracts), Errors))]
pub(crate) async fn agent_contracts(
    State(app): State<Arc<App>>,
    Part(agent): Part<String>,
    _: Params<Nothing>,
) -> Result<Response, Problem> {
    let shown = app
        .read(move |_, view| {
            let agent = query::resolve(view, &agent)?;
            let contracts = query::contracts_of(view, &agent, MAX_PAGE)?;
            let contracts = contracts.into_iter().map(|(id, row)| ContractState { id, state: json!(row) }).collect();
            Ok(AgentContracts { agent: agent.to_string(), contracts })
        })
        .await?;
    respond(&shown)
}

#[derive(Serialize, ToSchema)]
pub(crate) struct AgentReviews {
    agent: String,
    /// The newest of each reviewer whose word weighs anything, of the last 30 days; the weightiest first.
    reviews: Vec<Review>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Review {
    reviewer: String,
    seq: u64,
    #[schema(format = DateTime)]
    at: String,
    /// What the reviewer's word weighed then.
    weight: f64,
    #[schema(minimum = 0, maximum = 1)]
    rating: f64,
}

/// Reviews of an agent that count
#[utoipa::path(get, path = "/v1/agents/{agent}/reviews", tag = "reputation", params(("agent" = String, Path)),
    responses((status = 200, body = AgentReviews), Errors))]
pub(crate) async fn agent_reviews(
    State(app): State<Arc<App>>,
    Part(agent): Part<String>,
    _: Params<Nothing>,
) -> Result<Response, Problem> {
    let now = app.now();
    let shown = app
        .read(move |_, view| {
            let agent = query::resolve(view, &agent)?;
            let review = |(reviewer, row): (String, ReviewRow)| {
                let ReviewRow { seq, at, weight, rating } = row;
                Review { reviewer, seq, at: at.to_string(), weight, rating }
            };
            let reviews = query::reviews(view, &agent, now)?.into_iter().take(MAX_PAGE).map(review);
            Ok(AgentReviews { agent: agent.to_string(), reviews: reviews.collect() })
        })
        .await?;
    respond(&shown)
}
