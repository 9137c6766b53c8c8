//! Who the authority is, and by what it goes.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{HeaderValue, header},
    response::Response,
};
use credence_ledger::View;
use credence_pipeline::query;
use credence_protocol::{
    PublicKey,
    jwk::{Jwk, Jwks},
    schemas,
};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::json;
use crate::{app::App, extract::Part, problem::Problem, schema::Errors};

/// How long keys may be kept by whoever asks: a revocation is to be seen soon.
const KEYS_HOLD: HeaderValue = HeaderValue::from_static("public, max-age=300");

/// The keys that what leaves can be verified with.
fn keys(app: &App, view: &dyn View) -> Result<Vec<PublicKey>, Problem> {
    Ok(query::authority_keys(view, app.office.key.public().id())?)
}

fn held(mut response: Response) -> Response {
    response.headers_mut().insert(header::CACHE_CONTROL, KEYS_HOLD);
    response
}

#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what the protocol serialises")]
pub(crate) struct KeySet {
    keys: Vec<JsonWebKey>,
    /// What signals and statements for this authority name as their `aud`: the origin of its log.
    aud: String,
}

/// RFC 7517, RFC 8037
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what the protocol serialises")]
pub(crate) struct JsonWebKey {
    kty: String,
    crv: String,
    /// The 32 bytes of the key, base64url.
    #[schema(min_length = 43, max_length = 43)]
    x: String,
    /// The key's id, as in `kid` of what it signed.
    kid: String,
}

/// The keys that signed answers can be verified with
#[utoipa::path(get, path = "/.well-known/jwks.json", tag = "service", responses((status = 200, body = KeySet), Errors))]
pub(crate) async fn jwks(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let keys = app.read(keys).await?;
    #[derive(Serialize)]
    struct Set<'a> {
        #[serde(flatten)]
        set: Jwks,
        aud: &'a str,
    }
    let set = Jwks { keys: keys.iter().map(Jwk::public).collect() };
    json(&Set { set, aud: app.log.origin() }).map(held)
}

#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what the output layer serialises")]
pub(crate) struct DidDocument {
    #[schema(rename = "@context")]
    context: Vec<String>,
    id: String,
    #[schema(rename = "verificationMethod", value_type = Vec<Object>)]
    methods: Value,
    #[schema(rename = "assertionMethod")]
    assertion: Vec<String>,
    authentication: Vec<String>,
}

/// The issuer's DID document
#[utoipa::path(get, path = "/.well-known/did.json", tag = "service", responses((status = 200, body = DidDocument), Errors))]
pub(crate) async fn did(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let keys = app.read(keys).await?;
    json(&app.office.issuer.document(&keys)).map(held)
}

#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what the protocol serialises")]
pub(crate) struct TagList {
    #[schema(value_type = Vec<Object>)]
    tags: Value,
}

/// The tags that signals can have
#[utoipa::path(get, path = "/v1/tags", tag = "signals", responses((status = 200, body = TagList), Errors))]
pub(crate) async fn tags(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let tags: Vec<_> = app.authority.scoring().tags.iter().collect();
    json(&serde_json::json!({ "tags": tags }))
}

/// The JSON Schema of a record
#[utoipa::path(get, path = "/v1/schemas/{name}", tag = "reputation", params(("name" = String, Path)),
    responses((status = 200, body = Object), Errors))]
pub(crate) async fn schema(Part(name): Part<String>) -> Result<Response, Problem> {
    let found = schemas::ALL.iter().find(|(known, _)| *known == name);
    let names: Vec<&str> = schemas::ALL.iter().map(|(known, _)| *known).collect();
    let none = || Problem::not_found("no_such_schema", format!("there are {}", names.join(", ")));
    let (_, text) = found.ok_or_else(none)?;
    json(&serde_json::from_str::<Value>(text).map_err(|e| Problem::internal(&e))?)
}
