//! What agents, providers and the authority say, signed by themselves: contracts, challenges, reviews and the rest.

use std::{ops::ControlFlow, sync::Arc};

use axum::{extract::State, response::Response};
use credence_ledger::{Entry, Scan, Table};
use credence_pipeline::{
    query,
    reputation::rows::{ChallengeRow, ContractRow, ReviewRow},
    tables,
};
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
#[schema(as = Said)]
pub(crate) struct StatementState {
    id: String,
    /// The signed statement.
    #[schema(value_type = Object)]
    statement: Value,
    /// What became of it.
    #[schema(value_type = Object)]
    state: Value,
}

async fn find<T: serde::de::DeserializeOwned + Serialize + 'static>(
    app: Arc<App>,
    id: String,
    table: Table,
    seq_of: fn(&T) -> u64,
    code: &'static str,
) -> Result<Response, Problem> {
    let said = app
        .read(move |_, view| {
            let row: Option<T> = tables::get(view, table, &id)?;
            let row = row.ok_or_else(|| Problem::not_found(code, "nothing is known under that id"))?;
            let seq = seq_of(&row);
            let bytes = view.entry(seq)?.unwrap_or_default();
            let statement: Value = Entry::parse(seq, &bytes)?.record(seq)?;
            Ok(StatementState { id, statement, state: json!(row) })
        })
        .await?;
    respond(&said)
}

/// A contract, and what became of it
#[utoipa::path(get, path = "/v1/contracts/{id}", tag = "reputation", params(("id" = String, Path)), responses((status = 200, body = StatementState), Errors))]
pub(crate) async fn contract(State(app): State<Arc<App>>, Part(id): Part<String>) -> Result<Response, Problem> {
    find::<ContractRow>(app, id, tables::CONTRACTS, |row| row.seq, "unknown_contract").await
}

/// A challenge, and what became of it
#[utoipa::path(get, path = "/v1/challenges/{id}", tag = "reputation", params(("id" = String, Path)), responses((status = 200, body = StatementState), Errors))]
pub(crate) async fn challenge(State(app): State<Arc<App>>, Part(id): Part<String>) -> Result<Response, Problem> {
    find::<ChallengeRow>(app, id, tables::CHALLENGES, |row| row.seq, "unknown_challenge").await
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
            let (prefix, mut ids) = (format!("{agent}/"), Vec::new());
            let scan = Scan { reverse: true, ..Scan::prefix(&prefix) };
            tables::scan(view, tables::AGENT_CONTRACTS, scan, |_, id: String| {
                ids.push(id);
                Ok(if ids.len() == MAX_PAGE { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            let mut contracts = Vec::new();
            for id in ids {
                let row: Option<ContractRow> = tables::get(view, tables::CONTRACTS, &id)?;
                contracts.extend(row.map(|row| ContractState { id, state: json!(row) }));
            }
            Ok(AgentContracts { agent: agent.to_string(), contracts })
        })
        .await?;
    respond(&shown)
}

#[derive(Serialize, ToSchema)]
pub(crate) struct AgentReviews {
    agent: String,
    /// The newest of each reviewer whose word weighs anything.
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
    let shown = app
        .read(move |_, view| {
            let agent = query::resolve(view, &agent)?;
            let (prefix, mut reviews) = (format!("{agent}/"), Vec::new());
            tables::scan(view, tables::REVIEWS, Scan::prefix(&prefix), |key, row: ReviewRow| {
                let reviewer = key[prefix.len()..].to_owned();
                let ReviewRow { seq, at, weight, rating } = row;
                reviews.push(Review { reviewer, seq, at: at.to_string(), weight, rating });
                Ok(if reviews.len() == MAX_PAGE { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            Ok(AgentReviews { agent: agent.to_string(), reviews })
        })
        .await?;
    respond(&shown)
}
