//! The operator has a score written to a chain. The service then drives it like those that it writes by rule.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use credence_protocol::ExternalSubject;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    app::App,
    extract::{Admin, Json, Part},
    problem::Problem,
    schema::Errors,
};

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewAttestation)]
#[cfg_attr(not(feature = "chain"), allow(dead_code, reason = "parsed, and refused"))]
pub(crate) struct Wanted {
    /// The chain, as configured: CAIP-2, such as `eip155:8453`.
    #[schema(max_length = 128)]
    chain: String,
    /// The agent's registration, where it has several on that chain.
    #[schema(value_type = Option<String>, max_length = 512)]
    subject: Option<ExternalSubject>,
    /// Say what would be written and what it costs; record and send nothing.
    #[serde(default)]
    dry_run: bool,
}

/// What is to be written, and what that can cost
#[derive(Serialize, ToSchema)]
#[schema(as = IntendedAttestation)]
#[cfg_attr(not(feature = "chain"), allow(dead_code, reason = "part of the description"))]
pub(crate) struct Intended {
    /// None in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    attestation: Option<String>,
    agent: String,
    chain: String,
    subject: String,
    /// The score.
    value: i64,
    /// The address that signs.
    by: String,
    /// Where the signed document will be served, and its Keccak-256.
    uri: String,
    hash: String,
    /// The most that it can cost, and what `by` holds, in `unit`.
    max_fee: String,
    balance: String,
    unit: &'static str,
}

/// Has an agent's assured score written to a chain
///
/// 201: the intent is recorded, and the service goes on with it; `/v1/attestations/{id}` says how far it is. 200: a dry run.
#[utoipa::path(post, path = "/v1/agents/{agent}/attestations", tag = "agents", params(("agent" = String, Path)),
    request_body = Wanted, responses((status = 201, body = Intended), (status = 200, body = Intended), Errors),
    security(("token" = ["admin"])))]
pub(crate) async fn attest(
    State(app): State<Arc<App>>,
    _: Admin,
    Part(agent): Part<String>,
    Json(wanted): Json<Wanted>,
) -> Result<Response, Problem> {
    intend(app, agent, wanted).await
}

fn not_configured(why: impl Into<String>) -> Problem {
    Problem::unprocessable("chain_not_configured", why)
}

#[cfg(not(feature = "chain"))]
async fn intend(_app: Arc<App>, _agent: String, _wanted: Wanted) -> Result<Response, Problem> {
    Err(not_configured("this service is built without chains"))
}

#[cfg(feature = "chain")]
async fn intend(app: Arc<App>, agent: String, wanted: Wanted) -> Result<Response, Problem> {
    use credence_pipeline::query;

    use super::{created, json};
    use crate::{edge::refusal, turns};

    /// Attestations that one caller prepares at once.
    const AT_ONCE: u64 = 2;
    let none = || not_configured("no chain is configured for writing: [chain.attest] in credence.toml");
    let attester = app.attester().ok_or_else(none)?;
    let agent = app.read(move |_, view| Ok(query::resolve(view, &agent)?)).await?;
    let lookup = app.lookups.take(turns::payer().1, AT_ONCE);
    let _place = lookup.map_err(|why| refusal(&app, why, "the attestations prepared at once").retry_after(5))?;
    let chain = attester.chain(&wanted.chain).map_err(problem)?;
    let draft = attester.draft(&agent, &wanted.chain, wanted.subject.as_ref(), !wanted.dry_run).await;
    let draft = draft.map_err(problem)?;
    let quote = attester.check_fee(chain, &draft).await.map_err(problem)?;
    let missing = || Problem::internal(&"an intent says what it is to write");
    let intent = draft.intent.clone().ok_or_else(missing)?;
    let shown = Intended {
        attestation: (!wanted.dry_run).then(|| draft.attestation.to_string()),
        agent: agent.to_string(),
        chain: wanted.chain,
        subject: draft.subject.as_str().to_owned(),
        value: intent.value,
        by: intent.by,
        uri: intent.uri,
        hash: intent.hash,
        max_fee: quote.max_fee.to_string(),
        balance: quote.balance.to_string(),
        unit: quote.unit,
    };
    if wanted.dry_run {
        return json(&shown);
    }
    attester.intend(draft).await.map_err(problem)?;
    created(&shown)
}

/// What the operator can do about it.
#[cfg(feature = "chain")]
fn problem(error: crate::attesting::AttestError) -> Problem {
    use axum::http::StatusCode;
    use credence_chain::ChainError;

    use crate::attesting::AttestError;

    let passing = error.is_passing();
    match error {
        AttestError::Pipeline(error) => error.into(),
        AttestError::Ledger(error) => error.into(),
        AttestError::NotConfigured(_) => not_configured(error.to_string()),
        AttestError::NotPublic(_) => Problem::unprocessable("not_public", error.to_string()),
        // A contract's own words are anyone's text.
        AttestError::Chain(ChainError::Reverted { .. }) => {
            Problem::unprocessable("reverted", "the contract refuses the call")
        }
        AttestError::Chain(chain) if passing => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, chain.reason(), chain.to_string()).retry_after(5)
        }
        AttestError::Chain(chain) => Problem::unprocessable(chain.reason(), chain.to_string()),
        other => Problem::internal(&other),
    }
}
