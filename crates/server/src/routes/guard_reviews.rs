//! Results that wait for a person's answer at guards.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use credence_protocol::waiting_review::ReviewReport;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{created, json};
use crate::{
    app::App,
    extract::{Ingest, Json, Nothing, Params, Verify},
    problem::Problem,
    schema::Errors,
};

/// Everything that waits for an answer at one guard
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what the protocol parses")]
#[schema(as = ReviewReport)]
pub(crate) struct ReportSchema {
    /// The guard's log: `PROVIDER/guard/SERVER/PLACE`.
    #[schema(min_length = 1, max_length = 300)]
    log: String,
    /// They take the place of what the guard reported before.
    #[schema(max_items = 200)]
    reviews: Vec<ReviewSchema>,
}

/// A result that waits for an answer
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what the protocol parses")]
#[schema(as = WaitingReview)]
pub(crate) struct ReviewSchema {
    #[schema(value_type = String, format = "uuid")]
    call: String,
    #[schema(max_length = 256)]
    tool: String,
    /// When the call was made.
    #[schema(value_type = String, format = DateTime)]
    at: String,
    /// `accept`, `flag` or `block`; absent where there is none.
    #[schema(value_type = Option<String>)]
    verdict: Option<String>,
    /// The client did not get it.
    withheld: bool,
    /// The checks that fired.
    #[schema(max_items = 64)]
    checks: Option<Vec<String>>,
    /// The members that they found odd: paths, without values.
    #[schema(max_items = 64)]
    members: Option<Vec<String>>,
    /// Arguments, result and explanation, encrypted to a reviewer's key that is not here.
    #[schema(max_length = 262144)]
    sealed: Option<String>,
}

/// What was taken
#[derive(Serialize, ToSchema)]
pub(crate) struct ReviewsTaken {
    /// Results that wait now.
    waiting: usize,
}

/// What waits at the guards of a token's name
#[derive(Serialize, ToSchema)]
pub(crate) struct ReviewList {
    guards: Vec<GuardReviews>,
}

/// What waits at one guard
#[derive(Serialize, ToSchema)]
pub(crate) struct GuardReviews {
    log: String,
    /// When the guard reported it.
    #[schema(value_type = String, format = DateTime)]
    reported_at: String,
    #[schema(value_type = Vec<ReviewSchema>)]
    reviews: Value,
}

/// Reports what waits for a person's answer at a guard
///
/// Names and verdicts, no arguments or results. Only tokens of the same name see it.
#[utoipa::path(post, path = "/v1/guard-reviews", tag = "verification", request_body = ReportSchema,
    responses((status = 201, body = ReviewsTaken), Errors), security(("token" = ["ingest"])))]
pub(crate) async fn report(
    State(app): State<Arc<App>>,
    Ingest(token): Ingest,
    Json(report): Json<ReviewReport>,
) -> Result<Response, Problem> {
    let waiting = app.waiting_reviews.take(token.name.as_str(), report, app.now())?;
    created(&ReviewsTaken { waiting })
}

/// What waits for an answer at the guards that report under the name of this token
#[utoipa::path(get, path = "/v1/guard-reviews", tag = "verification", responses((status = 200, body = ReviewList), Errors),
    security(("token" = ["verify"])))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Verify(token): Verify,
    Params(Nothing {}): Params<Nothing>,
) -> Result<Response, Problem> {
    let mut guards = Vec::new();
    for (report, at) in app.waiting_reviews.list(token.name.as_str(), app.now()) {
        let reviews = serde_json::to_value(&report.reviews).map_err(|e| Problem::internal(&e))?;
        guards.push(GuardReviews { log: report.log, reported_at: at.to_string(), reviews });
    }
    json(&ReviewList { guards })
}
