//! What is known of tools.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use credence_verify::ProfileBuilder;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::json;
use crate::{
    app::App,
    extract::{Json, Part, Verify},
    problem::Problem,
    schema::Errors,
};

#[derive(Serialize, ToSchema)]
pub(crate) struct Tools {
    /// Tools with a profile.
    tools: Vec<String>,
}

/// What a tool's real results look like
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what the engine serialises")]
pub(crate) struct Profile {
    /// Shortest and longest.
    #[schema(value_type = Vec<f64>, min_items = 2, max_items = 2, required = false)]
    expected_latency_ms: Option<Vec<f64>>,
    #[schema(value_type = Vec<String>, required = false)]
    required_fields: Option<Vec<String>>,
    #[schema(value_type = Vec<String>, required = false)]
    forbidden_fields: Option<Vec<String>>,
    /// Regular expressions, one of which a result has to match.
    #[schema(value_type = Vec<String>, required = false)]
    response_patterns: Option<Vec<String>>,
    min_response_length: Option<usize>,
    max_response_length: Option<usize>,
    #[schema(value_type = bool, required = false)]
    has_network_io: Option<bool>,
    /// A JSON Schema.
    #[schema(value_type = Value, required = false)]
    output_schema: Option<Value>,
}

/// Tools that this token registered a profile for
#[utoipa::path(get, path = "/v1/tools", tag = "verification", responses((status = 200, body = Tools), Errors),
    security(("token" = ["verify"])))]
pub(crate) async fn list(State(app): State<Arc<App>>, Verify(token): Verify) -> Result<Response, Problem> {
    let tools = app.work(move |app| Ok(app.engines.open(token.name.as_str())?.profiled())).await?;
    json(&Tools { tools })
}

/// A tool's profile
#[utoipa::path(get, path = "/v1/tools/{tool}/profile", tag = "verification", params(("tool" = String, Path)),
    responses((status = 200, body = Profile), Errors), security(("token" = ["verify"])))]
pub(crate) async fn profile(
    State(app): State<Arc<App>>,
    Verify(token): Verify,
    Part(tool): Part<String>,
) -> Result<Response, Problem> {
    let profile = app.work(move |app| Ok(app.engines.open(token.name.as_str())?.profile(&tool))).await?;
    match profile {
        Some(profile) => json(&profile),
        None => Err(Problem::not_found("no_profile", "no profile was registered for this tool: PUT one")),
    }
}

/// Registers what a tool's real results look like, in place of any former profile
#[utoipa::path(put, path = "/v1/tools/{tool}/profile", tag = "verification", params(("tool" = String, Path)), request_body = Profile,
    responses((status = 200, body = Profile), Errors), security(("token" = ["verify"])))]
pub(crate) async fn set_profile(
    State(app): State<Arc<App>>,
    Verify(token): Verify,
    Part(tool): Part<String>,
    Json(profile): Json<ProfileBuilder>,
) -> Result<Response, Problem> {
    let kept = profile.clone();
    app.work(move |app| {
        let (engines, name) = (&app.engines, token.name.as_str());
        engines.open(name)?.register(&tool, profile, |bytes| engines.room_for_profiles(name, bytes))
    })
    .await?;
    json(&kept)
}
