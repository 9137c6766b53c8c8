//! Scores that were written to chains, and the documents whose hashes stand there.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use credence_pipeline::{
    attestations::{AttestationRow, Inclusion},
    query,
};
use credence_protocol::Uuid;
use serde::Serialize;
use utoipa::ToSchema;

use super::json;
use crate::{
    app::App,
    extract::{Nothing, Params, Part},
    problem::Problem,
    schema::Errors,
};

/// Attestations of one agent that are listed.
const MAX_LISTED: usize = 100;

/// Where a feedback, or its revocation, stands on its chain
#[derive(Serialize, ToSchema)]
#[schema(as = AttestationInclusion)]
pub(crate) struct InclusionShown {
    /// The transaction's hash; none where the registry has the feedback and the node no longer knows its transaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_hash: Option<String>,
    /// What it cost, in the chain's smallest unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    fee: Option<String>,
    /// The feedback's index among ours about this registration.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<u64>,
}

impl From<&Inclusion> for InclusionShown {
    fn from(inclusion: &Inclusion) -> Self {
        let Inclusion { transaction, block, block_hash, fee, index } = inclusion.clone();
        Self { transaction, block, block_hash, fee: fee.map(|fee| fee.to_string()), index }
    }
}

/// A step of an attestation
#[derive(Serialize, ToSchema)]
#[schema(as = AttestationStep)]
pub(crate) struct StepShown {
    /// The entry.
    seq: u64,
    #[schema(format = DateTime)]
    at: String,
    /// `intent`, `sent`, `replaced`, `confirmed`, `reorganised`, `final`, `validation_sent`, `validated`, `validation_given_up`,
    /// `reverted`, `given_up`, `revocation_sent` or `revoked`.
    step: &'static str,
}

/// A score that is written to a chain
#[derive(Serialize, ToSchema)]
#[schema(as = Attestation)]
pub(crate) struct AttestationShown {
    #[schema(format = "uuid")]
    attestation: String,
    agent: String,
    /// CAIP-2.
    chain: String,
    /// The agent's registration there.
    subject: String,
    /// `intent`, `sent`, `confirmed`, `final`, `validation_sent`, `reverted`, `given_up`, `revocation_sent` or `revoked`.
    state: &'static str,
    /// The score.
    value: i64,
    /// The entry of the score event.
    event: u64,
    formula: String,
    /// The address that signs.
    by: String,
    /// Where the signed document is served.
    uri: String,
    /// Keccak-256 of the document, as it stands on the chain.
    hash: String,
    /// Hashes of the transactions that write it, oldest first: at most one is included.
    transactions: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inclusion: Option<InclusionShown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revocation: Option<InclusionShown>,
    /// Why it was given up, or taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    steps: Vec<StepShown>,
}

fn shown(id: Uuid, row: &AttestationRow) -> AttestationShown {
    let step = |step: &credence_pipeline::attestations::RecordedStep| StepShown {
        seq: step.seq,
        at: step.at.to_string(),
        step: step.step.key(),
    };
    AttestationShown {
        attestation: id.to_string(),
        agent: row.agent.to_string(),
        chain: row.chain.clone(),
        subject: row.subject.as_str().to_owned(),
        state: row.state.key(),
        value: row.value,
        event: row.event,
        formula: row.formula.clone(),
        by: row.by.clone(),
        uri: row.uri.clone(),
        hash: row.hash.clone(),
        transactions: row.transactions.iter().map(|sent| sent.transaction.id.clone()).collect(),
        inclusion: row.inclusion.as_ref().map(InclusionShown::from),
        revocation: row.revocation.as_ref().map(InclusionShown::from),
        reason: row.reason.clone(),
        steps: row.steps.iter().map(step).collect(),
    }
}

/// Attestations, newest first
#[derive(Serialize, ToSchema)]
pub(crate) struct Attestations {
    agent: String,
    attestations: Vec<AttestationShown>,
}

/// An agent's scores that are written to chains, newest first
#[utoipa::path(get, path = "/v1/agents/{agent}/attestations", tag = "agents", params(("agent" = String, Path)),
    responses((status = 200, body = Attestations), Errors))]
pub(crate) async fn of_agent(
    State(app): State<Arc<App>>,
    Part(agent): Part<String>,
    _: Params<Nothing>,
) -> Result<Response, Problem> {
    let listed = app
        .read(move |_, view| {
            let agent = query::resolve(view, &agent)?;
            let rows = query::attestations_of(view, Some(&agent), MAX_LISTED)?;
            let attestations = rows.iter().map(|(id, row)| shown(*id, row)).collect();
            Ok(Attestations { agent: agent.to_string(), attestations })
        })
        .await?;
    json(&listed)
}

fn unknown() -> Problem {
    Problem::not_found(
        "unknown_attestation",
        "there is no such attestation: an agent's are at /v1/agents/{agent}/attestations",
    )
}

fn id_of(text: &str) -> Result<Uuid, Problem> {
    text.parse().map_err(|_| unknown())
}

/// One attestation, and where it stands
#[utoipa::path(get, path = "/v1/attestations/{id}", tag = "agents", params(("id" = String, Path)),
    responses((status = 200, body = AttestationShown), Errors))]
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Part(id): Part<String>,
    _: Params<Nothing>,
) -> Result<Response, Problem> {
    let id = id_of(&id)?;
    let row = app.read(move |_, view| Ok(query::attestation(view, id)?)).await?;
    json(&shown(id, &row.ok_or_else(unknown)?))
}

/// The signed score document of an attestation
///
/// Exactly the bytes whose Keccak-256 stands on the chain. `credence check --attestation` verifies chain, document, signature and log
/// proof.
#[utoipa::path(get, path = "/v1/attestations/{id}/document", tag = "agents", params(("id" = String, Path)),
    responses((status = 200, body = Object), Errors))]
pub(crate) async fn document(
    State(app): State<Arc<App>>,
    Part(id): Part<String>,
    _: Params<Nothing>,
) -> Result<Response, Problem> {
    let id = id_of(&id)?;
    let document = app.read(move |_, view| Ok(query::attestation_document(view, id)?)).await?;
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        // What an entry holds stays as it is.
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
    ];
    Ok((headers, document.ok_or_else(unknown)?).into_response())
}
