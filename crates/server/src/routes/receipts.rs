//! Receipts that guards hand in, and what they prove to others.

use std::sync::Arc;

use axum::{extract::State, http::StatusCode, response::Response};
use credence_pipeline::receipts::{self, Batch, Found, ReceiptStore};
use credence_protocol::{Uuid, receipt::Salts};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::{created, json};
use crate::{
    app::App,
    extract::{Ingest, Json, Params, Part},
    problem::Problem,
    schema::Errors,
};

/// What a guard hands in
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what the pipeline parses")]
#[schema(as = ReceiptBatch)]
pub(crate) struct BatchSchema {
    /// Whose guard it is: a registered source.
    #[schema(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._~-]+$")]
    provider: String,
    /// The log's name: `PROVIDER/guard/SERVER/PLACE/SEGMENT`.
    #[schema(max_length = 300)]
    log: String,
    /// Its newest checkpoint, signed by a key of the provider.
    #[schema(max_length = 4096)]
    checkpoint: String,
    /// That it extends the checkpoint seen last: hashes in base64.
    #[schema(max_items = 64)]
    consistency: Option<Vec<String>>,
    #[schema(max_items = 1000)]
    receipts: Option<Vec<SentReceipt>>,
}

/// One receipt with its proof
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what the pipeline parses")]
pub(crate) struct SentReceipt {
    #[schema(minimum = 0)]
    seq: u64,
    /// The entry of the guard's log, as it is there.
    entry: String,
    /// The way to the checkpoint's root: hashes in base64.
    proof: Vec<String>,
    /// Where the guard discloses them: `{"arguments", "result"}`.
    #[schema(value_type = Option<Object>)]
    salts: Option<Value>,
}

/// What came of it
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what the pipeline serialises")]
#[schema(as = ReceiptsTaken)]
pub(crate) struct Taken {
    /// The entry of this authority's ledger that holds the checkpoint.
    seq: u64,
    new: u64,
    known: u64,
    /// The first entry of the guard's log that is not here yet.
    next: u64,
}

fn store(app: &App) -> Result<&ReceiptStore, Problem> {
    app.receipts.as_ref().ok_or_else(|| Problem::not_found("no_receipts", "this service holds no receipts"))
}

/// Hands in receipts of a guard
///
/// The checkpoint is recorded in the ledger: from then on the guard's log has one past. Receipts hold commitments, not arguments
/// or results.
#[utoipa::path(post, path = "/v1/receipts", tag = "verification", request_body = BatchSchema, responses((status = 201, body = Taken), Errors),
    security(("token" = ["ingest"])))]
pub(crate) async fn submit(
    State(app): State<Arc<App>>,
    _: Ingest,
    Json(batch): Json<Batch>,
) -> Result<Response, Problem> {
    let taken = app
        .work(move |app| {
            let store = store(app)?;
            let checked = app.authority.check_receipts(batch)?.map_err(|rejection| Problem::from(&rejection))?;
            app.authority.take_receipts(checked, store)?.map_err(|rejection| Problem::from(&rejection))
        })
        .await?;
    created(&taken)
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct OfLog {
    /// The log's name.
    log: String,
}

/// How far a guard's log is known here
#[derive(Serialize, ToSchema)]
pub(crate) struct KnownLog {
    log: String,
    /// Entries under the checkpoint seen last; 0 when none was.
    size: u64,
    /// The first entry that is not here yet.
    next: u64,
}

/// How far a guard's log is known here
#[utoipa::path(get, path = "/v1/receipts", tag = "verification", params(OfLog), responses((status = 200, body = KnownLog), Errors))]
pub(crate) async fn log(
    State(app): State<Arc<App>>,
    Params(OfLog { log }): Params<OfLog>,
) -> Result<Response, Problem> {
    let known = app
        .work(move |app| {
            let size = app.authority.guard_log(&log)?.map_or(0, |row| row.size);
            Ok(KnownLog { size, next: store(app)?.next(&log)?, log })
        })
        .await?;
    json(&known)
}

/// A receipt with everything to check it offline
#[derive(Serialize, ToSchema)]
pub(crate) struct HeldReceipt {
    #[schema(value_type = Object)]
    receipt: credence_protocol::receipt::Receipt,
    /// The agent's own program recorded or reported the call (`vantage` in the receipt): the receipt is its word.
    self_reported: bool,
    provider: String,
    /// The guard's log.
    log: String,
    /// What the log's checkpoints are verified with.
    log_key: String,
    /// The C2SP proof that it is in the guard's log; `credence receipts verify` checks it.
    proof: String,
    #[schema(value_type = Option<Object>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    salts: Option<Salts>,
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct InLog {
    /// The guard's log: needed where several guards used one id for a call.
    log: Option<String>,
}

/// Finds the receipt of a call: in one guard's log, or in whichever holds one, if it is one only.
pub(crate) fn find(
    store: &ReceiptStore,
    call: &Uuid,
    log: Option<&str>,
) -> Result<Option<Box<receipts::Held>>, Problem> {
    match log {
        Some(log) => Ok(store.find_in(log, call)?.map(Box::new)),
        None => match store.find(call)? {
            Found::Nothing => Ok(None),
            Found::One(held) => Ok(Some(held)),
            Found::Several(logs) => {
                let detail = format!("several guards handed in a call of that id: name one log of {}", logs.join(", "));
                Err(Problem::new(StatusCode::CONFLICT, "several_receipts", detail))
            }
        },
    }
}

/// The receipt of a call
///
/// Guards choose the ids of their calls. Where several used one id, `log` says whose receipt is meant.
#[utoipa::path(get, path = "/v1/receipts/{call}", tag = "verification", params(("call" = String, Path, description = "The guard's id of the call", format = "uuid"), InLog),
    responses((status = 200, body = HeldReceipt), Errors))]
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Part(call): Part<String>,
    Params(InLog { log }): Params<InLog>,
) -> Result<Response, Problem> {
    let call: Uuid = call.parse().map_err(|_| Problem::bad_request("bad_call", "a call's id is a UUID"))?;
    let held = app
        .work(move |app| {
            let held = find(store(app)?, &call, log.as_deref())?;
            let missing = || Problem::not_found("unknown_receipt", "no receipt of that call was handed in");
            let held = held.ok_or_else(missing)?;
            let receipt = held.receipt()?;
            Ok(HeldReceipt {
                self_reported: receipt.vantage.is_some_and(|vantage| !vantage.is_independent()),
                receipt,
                proof: held.proof().map_err(|rejection| Problem::from(&rejection))?.to_text(),
                provider: held.provider.to_string(),
                log: held.log.clone(),
                log_key: held.log_key,
                salts: held.sent.salts,
            })
        })
        .await?;
    json(&held)
}
