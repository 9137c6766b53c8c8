//! Keys: by what sources and agents are recognised.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode, response::Response};
use credence_pipeline::query::{self, KeyRow};
use credence_protocol::{AUTHORITY_SOURCE, EntityId, KeyId, PublicKey};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{agents, created, json};
use crate::{
    app::App,
    extract::{Admin, Json, Params, Part},
    problem::Problem,
    schema::{Errors, Recorded},
};

#[derive(Serialize, ToSchema)]
pub(crate) struct Key {
    key_id: String,
    /// The source or agent whose it is.
    source: String,
    /// As did:key.
    did: String,
    /// The key that handed over to this one.
    replaces: Option<String>,
    /// What it signed from this entry on does not count.
    revoked_from: Option<u64>,
    seq: u64,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Keys {
    keys: Vec<Key>,
    /// What signals and statements for this authority name as their `aud`: the origin of its log.
    aud: String,
    /// Ask with `after` set to this for the next page; none at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Page {
    /// After this key id: `next` of the page before.
    after: Option<String>,
    /// How many at most.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Keys, by id
#[utoipa::path(get, path = "/v1/keys", tag = "registry", params(Page), responses((status = 200, body = Keys), Errors))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Params(Page { after, limit }): Params<Page>,
) -> Result<Response, Problem> {
    let limit = agents::page_size(limit, 100)?;
    let page = app
        .read(move |app, view| {
            let (rows, more) = query::keys_after(view, after.as_deref(), limit)?;
            let key = |(id, row): (String, KeyRow)| Key {
                key_id: id,
                source: row.source.to_string(),
                did: row.public_key.did_key(),
                replaces: row.replaces.map(|key| key.to_string()),
                revoked_from: row.revoked_from,
                seq: row.seq,
            };
            let keys: Vec<Key> = rows.into_iter().map(key).collect();
            let next = keys.last().filter(|_| more).map(|last| last.key_id.clone());
            Ok(Keys { keys, aud: app.log.origin().to_owned(), next })
        })
        .await?;
    json(&page)
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewKey)]
pub(crate) struct Registration {
    /// The source or agent whose it is.
    #[schema(value_type = String, min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._~-]+$")]
    source: EntityId,
    /// `did:key:…`, or the 32 bytes as base64url.
    public_key: String,
}

#[derive(Serialize, ToSchema)]
#[schema(as = RegisteredKey)]
pub(crate) struct Registered {
    /// What the key is called in signals and statements: its RFC 7638 thumbprint.
    key_id: String,
    /// What signals and statements for this authority name as their `aud`.
    aud: String,
    seq: u64,
}

/// Registers a public key of a source or an agent
#[utoipa::path(post, path = "/v1/keys", tag = "registry", request_body = Registration,
    responses((status = 201, body = Registered), Errors), security(("token" = ["admin"])))]
pub(crate) async fn add(
    State(app): State<Arc<App>>,
    _: Admin,
    Json(Registration { source, public_key }): Json<Registration>,
) -> Result<Response, Problem> {
    if source.as_str() == AUTHORITY_SOURCE {
        let detail =
            "keys of the authority itself are changed where its folder is (`credence keys rotate`), not over HTTP";
        return Err(Problem::new(StatusCode::FORBIDDEN, "not_over_http", detail));
    }
    let key =
        PublicKey::parse(&public_key).map_err(|e| Problem::unprocessable("invalid_key", format!("public_key: {e}")))?;
    let seq = app.work(move |app| Ok(app.authority.add_key(&key, source)?)).await?;
    created(&Registered { key_id: key.id().to_string(), aud: app.log.origin().to_owned(), seq })
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = KeyRevocation)]
pub(crate) struct Revocation {
    /// The first entry that no longer counts; the next one when not given.
    from: Option<u64>,
    /// Why (public: it goes into the log).
    #[schema(max_length = 256)]
    reason: Option<String>,
}

/// Revokes a key: what it signed from an entry on stops counting
#[utoipa::path(post, path = "/v1/keys/{key}/revocation", tag = "registry", params(("key" = String, Path)), request_body = Revocation,
    responses((status = 201, body = Recorded), Errors), security(("token" = ["admin"])))]
pub(crate) async fn revoke(
    State(app): State<Arc<App>>,
    _: Admin,
    Part(key): Part<String>,
    Json(Revocation { from, reason }): Json<Revocation>,
) -> Result<Response, Problem> {
    let key: KeyId = key.parse().map_err(|_| Problem::not_found("unknown_key", "no key has such an id"))?;
    let seq = app.work(move |app| Ok(app.authority.revoke_key(key, from, reason)?)).await?;
    created(&Recorded { seq })
}
