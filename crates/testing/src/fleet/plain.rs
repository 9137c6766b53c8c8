//! A plain HTTP face: `POST /ask {"message", "session", "user"}` answers `{"reply"}`.

use std::sync::Arc;

use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Response},
    routing::post,
};
use serde_json::json;

use super::agent::{Agent, identity, parsed};

pub(super) fn routes(agent: Arc<Agent>) -> Router {
    Router::new().route("/ask", post(ask)).with_state(agent)
}

async fn ask(State(agent): State<Arc<Agent>>, headers: HeaderMap, body: Bytes) -> Response {
    if let Some(fault) = agent.fault().await {
        return fault;
    }
    let request = match parsed(&body) {
        Ok(request) => request,
        Err(refused) => return *refused,
    };
    let text = |name: &str| request[name].as_str().unwrap_or_default().to_owned();
    let reply = agent.converse(&text("session"), &identity(&headers), &text("message")).await;
    Json(json!({"reply": reply})).into_response()
}
