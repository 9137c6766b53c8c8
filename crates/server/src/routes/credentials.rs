//! Verifiable credentials, and what became of them.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use credence_output::status_list::Purpose;
use credence_pipeline::{
    answer::Refusal,
    credentials,
    query::{self, CredentialRow},
};
use credence_protocol::Uuid;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::{created, json};
use crate::{
    app::App,
    extract::{Admin, Json, Nothing, Params, Part},
    problem::Problem,
    schema::{Errors, Recorded},
};

/// How long a credential holds when nobody says.
const DAYS: u16 = 30;
const MAX_DAYS: u16 = 366;
/// Credentials of one agent that are listed.
const MAX_LISTED: usize = 100;
const VC: &str = "application/vc";

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewCredential)]
pub(crate) struct Wanted {
    /// The agent's id or alias.
    agent: String,
    /// How long it holds; 30 when not given.
    #[schema(minimum = 1, maximum = 366)]
    days: Option<u16>,
}

/// A W3C Verifiable Credential 2.0 with an `eddsa-jcs-2022` proof
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what is signed elsewhere")]
pub(crate) struct VerifiableCredential {
    #[schema(rename = "@context")]
    context: Vec<String>,
    id: String,
    r#type: Vec<String>,
    issuer: String,
    #[schema(rename = "validFrom", format = DateTime)]
    valid_from: String,
    #[schema(rename = "validUntil", format = DateTime)]
    valid_until: String,
    #[schema(rename = "credentialSubject", value_type = Object)]
    subject: Value,
    /// Where its bits are: one list for revocation, one for suspension.
    #[schema(rename = "credentialStatus", value_type = Option<Vec<Object>>)]
    status: Option<Value>,
    #[schema(value_type = Object)]
    proof: Value,
}

fn as_credential(mut response: Response) -> Response {
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(VC));
    response
}

/// Issues a credential about an agent's score
#[utoipa::path(post, path = "/v1/credentials", tag = "answers", request_body = Wanted,
    responses((status = 201, body = VerifiableCredential, content_type = "application/vc"), Errors), security(("token" = ["admin"])))]
pub(crate) async fn issue(
    State(app): State<Arc<App>>,
    _: Admin,
    Json(Wanted { agent, days }): Json<Wanted>,
) -> Result<Response, Problem> {
    created(&issued(&app, agent, days).await?).map(as_credential)
}

/// Issues a credential about an agent that holds for so many days.
pub(crate) async fn issued(app: &Arc<App>, agent: String, days: Option<u16>) -> Result<Value, Problem> {
    app.signs()?;
    if app.office.base_url.starts_with("http://0.0.0.0") || app.office.base_url.starts_with("http://[::]") {
        let detail = "a credential names where its status list is: the operator has to set public_url first";
        return Err(Problem::new(StatusCode::CONFLICT, "no_public_url", detail));
    }
    let days = days.unwrap_or(DAYS);
    if !(1..=MAX_DAYS).contains(&days) {
        return Err(Problem::unprocessable("invalid_days", format!("days: between 1 and {MAX_DAYS}")));
    }
    app.work(move |app| {
        let agent = query::resolve(&*app.authority.ledger().view()?, &agent)?;
        app.signing(app.authority.issue_credential(&app.office, &agent, days).map_err(Refusal::from))
    })
    .await
}

/// What is recorded of a credential
#[derive(Serialize, ToSchema)]
pub(crate) struct CredentialRecord {
    #[schema(format = "uuid")]
    credential: String,
    agent: String,
    seq: u64,
    #[schema(format = DateTime)]
    issued_at: String,
    #[schema(format = DateTime)]
    valid_until: String,
    /// SHA-256 of the canonical credential without its proof.
    digest: String,
    /// Its place in the status lists.
    index: u64,
    /// Taken back, for good.
    revoked: bool,
    /// Does not hold at present: its agent's standing is revoked.
    suspended: bool,
}

fn record(id: Uuid, row: &CredentialRow, suspended: bool) -> CredentialRecord {
    CredentialRecord {
        credential: id.to_string(),
        agent: row.agent.to_string(),
        seq: row.seq,
        issued_at: row.issued_at.to_string(),
        valid_until: row.valid_until.to_string(),
        digest: row.digest.clone(),
        index: row.index,
        revoked: row.revoked.is_some(),
        suspended,
    }
}

fn id_of(text: &str) -> Result<Uuid, Problem> {
    let id = text.strip_prefix("urn:uuid:").unwrap_or(text).parse();
    id.map_err(|_| Problem::not_found("unknown_credential", "a credential's id is a UUID"))
}

/// What is recorded of a credential, and whether it was taken back
#[utoipa::path(get, path = "/v1/credentials/{id}", tag = "answers", params(("id" = String, Path)),
    responses((status = 200, body = CredentialRecord), Errors))]
pub(crate) async fn show(State(app): State<Arc<App>>, Part(id): Part<String>) -> Result<Response, Problem> {
    let id = id_of(&id)?;
    let shown = app
        .read(move |_, view| {
            let row = query::credential(view, id)?;
            Ok(record(id, &row, query::is_suspended(view, &row)?))
        })
        .await?;
    json(&shown)
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = CredentialRevocation)]
pub(crate) struct Revocation {
    /// Why (public: it goes into the log).
    #[schema(max_length = 256)]
    reason: Option<String>,
}

/// Takes a credential back, for good
#[utoipa::path(post, path = "/v1/credentials/{id}/revocation", tag = "answers", params(("id" = String, Path)), request_body = Revocation,
    responses((status = 201, body = Recorded), Errors), security(("token" = ["admin"])))]
pub(crate) async fn revoke(
    State(app): State<Arc<App>>,
    _: Admin,
    Part(id): Part<String>,
    Json(Revocation { reason }): Json<Revocation>,
) -> Result<Response, Problem> {
    let id = id_of(&id)?;
    let seq = app.work(move |app| Ok(app.authority.revoke_credential(id, reason)?)).await?;
    created(&Recorded { seq })
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Credentials {
    agent: String,
    credentials: Vec<CredentialRecord>,
}

/// An agent's credentials, newest first
#[utoipa::path(get, path = "/v1/agents/{agent}/credentials", tag = "answers", params(("agent" = String, Path)),
    responses((status = 200, body = Credentials), Errors))]
pub(crate) async fn of_agent(
    State(app): State<Arc<App>>,
    Part(agent): Part<String>,
    _: Params<Nothing>,
) -> Result<Response, Problem> {
    let shown = app
        .read(move |_, view| {
            let agent = query::resolve(view, &agent)?;
            let mut listed = Vec::new();
            for (id, row) in query::credentials_of(view, &agent, MAX_LISTED)? {
                listed.push(record(id, &row, query::is_suspended(view, &row)?));
            }
            Ok(Credentials { agent: agent.to_string(), credentials: listed })
        })
        .await?;
    json(&shown)
}

/// Which credentials were taken back for good: a signed BitstringStatusList
#[utoipa::path(get, path = "/v1/status-lists/{list}", tag = "answers", params(("list" = u64, Path, maximum = 1000000)),
    responses((status = 200, body = VerifiableCredential, content_type = "application/vc"), Errors))]
pub(crate) async fn status_list(State(app): State<Arc<App>>, Part(list): Part<String>) -> Result<Response, Problem> {
    signed_list(app, &list, Purpose::Revocation).await
}

/// Which credentials do not hold at present, because their agent's standing is revoked: a signed BitstringStatusList
#[utoipa::path(get, path = "/v1/suspension-lists/{list}", tag = "answers", params(("list" = u64, Path, maximum = 1000000)),
    responses((status = 200, body = VerifiableCredential, content_type = "application/vc"), Errors))]
pub(crate) async fn suspension_list(
    State(app): State<Arc<App>>,
    Part(list): Part<String>,
) -> Result<Response, Problem> {
    signed_list(app, &list, Purpose::Suspension).await
}

async fn signed_list(app: Arc<App>, list: &str, purpose: Purpose) -> Result<Response, Problem> {
    app.signs()?;
    let none = || Problem::not_found("no_such_list", "there is no such status list");
    let list: u64 = list.parse().ok().filter(|list| *list <= 1_000_000).ok_or_else(none)?;
    let now = app.now();
    let signed =
        app.read(move |app, view| Ok(credentials::status_list(view, &app.office, purpose, list, now)?)).await?;
    let mut response = as_credential(json(&signed.ok_or_else(none)?)?);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=60"));
    Ok(response)
}
