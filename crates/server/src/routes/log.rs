//! The transparency log: checkpoint, tiles, entries, proofs.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use credence_ledger::{
    Checkpoint, View,
    proof::{self, ConsistencyProof, InclusionProof},
    tiles::Resource,
};
use credence_pipeline::responses::ResponseProof;
use data_encoding::BASE64;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::json;
use crate::{
    app::App,
    extract::{Params, Part, is_media_type, unsupported, whole},
    problem::Problem,
    schema::Errors,
};

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const BYTES: HeaderValue = HeaderValue::from_static("application/octet-stream");
/// What is in the log stays as it is.
const FOREVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const NOT_AT_ALL: HeaderValue = HeaderValue::from_static("no-cache");

/// The newest signed checkpoint (C2SP tlog-checkpoint)
#[utoipa::path(get, path = "/log/checkpoint", tag = "log", responses((status = 200, body = String, content_type = "text/plain"), Errors))]
pub(crate) async fn checkpoint(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let bytes = app.read(|_, view| Ok(Resource::Checkpoint.read(view)?)).await?;
    let bytes = bytes.ok_or_else(|| Problem::not_found("empty_log", "the log has no entries yet"))?;
    Ok(([(header::CONTENT_TYPE, TEXT), (header::CACHE_CONTROL, NOT_AT_ALL)], bytes).into_response())
}

/// A tile or a bundle of entries (C2SP tlog-tiles)
///
/// The path goes on after `tile/` as the specification says, slashes included: `0/x001/234`, `0/000.p/17`,
/// `entries/000.p/17`.
#[utoipa::path(get, path = "/log/tile/{path}", tag = "log", params(("path" = String, Path)),
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream"), Errors))]
pub(crate) async fn tile(State(app): State<Arc<App>>, Part(path): Part<String>) -> Result<Response, Problem> {
    resource(app, path).await
}

/// The same, as the path really is.
pub(crate) async fn tile_below(
    State(app): State<Arc<App>>,
    Part((level, rest)): Part<(String, String)>,
) -> Result<Response, Problem> {
    resource(app, format!("{level}/{rest}")).await
}

async fn resource(app: Arc<App>, path: String) -> Result<Response, Problem> {
    let none = || Problem::not_found("no_such_tile", "there is no such tile in the log");
    // Nothing but the paths of the specification: they name rows, not files.
    let resource = Resource::parse(&format!("tile/{path}")).ok_or_else(none)?;
    let bytes = app.read(move |_, view| Ok(resource.read(view)?)).await?.ok_or_else(none)?;
    Ok(([(header::CONTENT_TYPE, BYTES), (header::CACHE_CONTROL, FOREVER)], bytes).into_response())
}

fn seq_of(text: &str) -> Result<u64, Problem> {
    text.parse().map_err(|_| Problem::not_found("no_such_entry", "an entry is named by its number"))
}

fn read_entry(view: &dyn View, seq: u64) -> Result<Vec<u8>, Problem> {
    let none = || Problem::not_found("no_such_entry", format!("there is no entry {seq}"));
    // Entry numbers are signed in the database.
    if i64::try_from(seq).is_err() {
        return Err(none());
    }
    view.entry(seq)?.ok_or_else(none)
}

/// An entry, whole: what the log commits to
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what the ledger holds")]
pub(crate) struct Entry {
    kind: String,
    subject: String,
    #[schema(format = DateTime)]
    recorded_at: String,
    #[schema(value_type = Object)]
    body: serde_json::Value,
    /// On signals: the source's weight when it was admitted.
    source_weight_at_time: Option<f64>,
}

/// One entry
#[utoipa::path(get, path = "/v1/log/entries/{seq}", tag = "log", params(("seq" = u64, Path)), responses((status = 200, body = Entry), Errors))]
pub(crate) async fn entry(State(app): State<Arc<App>>, Part(seq): Part<String>) -> Result<Response, Problem> {
    let seq = seq_of(&seq)?;
    let bytes = app.read(move |_, view| read_entry(view, seq)).await?;
    let kind = HeaderValue::from_static("application/json");
    Ok(([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, FOREVER)], bytes).into_response())
}

fn prove(app: &App, view: &dyn View, seq: u64) -> Result<String, Problem> {
    let entry = read_entry(view, seq)?;
    let note = view.checkpoint()?.unwrap_or_default();
    let checkpoint = Checkpoint::open(&note, &app.log)?;
    let hashes = proof::inclusion(checkpoint.size, seq, view)?;
    Ok(InclusionProof { entry, seq, hashes, checkpoint: note }.to_text())
}

fn as_text(text: String) -> Response {
    ([(header::CONTENT_TYPE, TEXT), (header::CACHE_CONTROL, NOT_AT_ALL)], text).into_response()
}

/// Proves that an entry is in the log (C2SP tlog-proof); the proof holds the entry, and `credence check` verifies it offline
#[utoipa::path(get, path = "/v1/log/proofs/{seq}", tag = "log", params(("seq" = u64, Path)),
    responses((status = 200, body = String, content_type = "text/plain"), Errors))]
pub(crate) async fn proof(State(app): State<Arc<App>>, Part(seq): Part<String>) -> Result<Response, Problem> {
    let seq = seq_of(&seq)?;
    app.read(move |app, view| prove(app, view, seq)).await.map(as_text)
}

/// Proves that a signed answer left and was recorded
///
/// `hash` is SHA-256 of the canonical answer without its signature, in hex: its ETag. It is recorded within a second or so, and
/// kept for 90 days after the answer expired where there is room. The proof holds two paths, which `credence check` verifies
/// offline: from the hash to the root of its batch, and from the entry with that root to a signed checkpoint.
#[utoipa::path(get, path = "/v1/log/responses/{hash}", tag = "log", params(("hash" = String, Path)),
    responses((status = 200, body = String, content_type = "text/plain"), Errors))]
pub(crate) async fn response_proof(State(app): State<Arc<App>>, Part(hash): Part<String>) -> Result<Response, Problem> {
    let found = app.read(move |app, view| Ok(ResponseProof::make(view, &app.log, &hash.to_ascii_lowercase())?)).await?;
    let not_yet = || {
        let detail = "that answer is not recorded, or its hash is no longer kept; one that just left is recorded within a second";
        Problem::not_found("not_recorded", detail).retry_after(1)
    };
    found.map(|proof| as_text(proof.to_text())).ok_or_else(not_yet)
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct From {
    /// The size of an earlier checkpoint.
    #[param(minimum = 1)]
    older: u64,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Consistency {
    older: u64,
    newer: u64,
    /// RFC 6962 consistency proof, base64.
    hashes: Vec<String>,
    /// The newer signed checkpoint.
    checkpoint: String,
}

/// Proves that the log extends an earlier state of itself
#[utoipa::path(get, path = "/v1/log/consistency", tag = "log", params(From), responses((status = 200, body = Consistency), Errors))]
pub(crate) async fn consistency(
    State(app): State<Arc<App>>,
    Params(From { older }): Params<From>,
) -> Result<Response, Problem> {
    let shown = app
        .read(move |app, view| {
            let note = view.checkpoint()?.unwrap_or_default();
            let newer = Checkpoint::open(&note, &app.log)?.size;
            let hashes = proof::consistency(older, newer, view)?;
            let hashes = hashes.iter().map(|hash| BASE64.encode(&hash.0)).collect();
            Ok(Consistency { older, newer, hashes, checkpoint: note })
        })
        .await?;
    json(&shown)
}

/// Bytes of a checkpoint, cosignatures included.
const MAX_CHECKPOINT: usize = 16 * 1024;

/// Proves that the log extends a checkpoint that somebody kept, as a file that `credence check` verifies offline
#[utoipa::path(post, path = "/v1/log/consistency", tag = "log", request_body(content = String, content_type = "text/plain", description = "The older signed checkpoint"),
    responses((status = 200, body = String, content_type = "text/plain"), Errors))]
pub(crate) async fn consistency_with(State(app): State<Arc<App>>, request: Request) -> Result<Response, Problem> {
    if !is_media_type(request.headers(), "text/plain") {
        return Err(unsupported("text/plain"));
    }
    let bytes = whole(request.into_body(), MAX_CHECKPOINT).await?;
    let wrong = |why: &dyn std::fmt::Display| Problem::unprocessable("invalid_checkpoint", why.to_string());
    let older = String::from_utf8(bytes.to_vec()).map_err(|e| wrong(&e))?;
    let size = Checkpoint::open(&older, &app.log).map_err(|e| wrong(&e))?.size;
    app.read(move |app, view| {
        let newer = view.checkpoint()?.unwrap_or_default();
        let hashes = proof::consistency(size, Checkpoint::open(&newer, &app.log)?.size, view)?;
        Ok(as_text(ConsistencyProof { hashes, older, newer }.to_text()))
    })
    .await
}
