//! The service itself.

use std::sync::Arc;

use axum::{
    extract::{Query, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

use super::json;
use crate::{
    app::App,
    dashboard::{self, Viewer},
    problem::Problem,
    schema::Errors,
};

#[derive(Serialize, ToSchema)]
pub(crate) struct About {
    service: &'static str,
    version: &'static str,
    /// The issuer of credentials.
    issuer: String,
    /// Verifies checkpoints (C2SP signed-note).
    log_key: String,
    /// What signals and statements for this authority name as their `aud`: the origin of its log.
    aud: String,
    /// Where this is reached.
    url: String,
    /// To try it out.
    docs: String,
    entries: u64,
}

/// What this is; for browsers, the dashboard
#[utoipa::path(get, path = "/", tag = "service", responses((status = 200, body = About), Errors))]
pub(crate) async fn about(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    headers: HeaderMap,
    query: Query<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    if dashboard::wants_page(&headers) && dashboard::is_known(&app, &headers) {
        return Ok(dashboard::front(State(app), viewer, query).await);
    }
    let mut response = json(&About {
        service: "credence",
        version: env!("CARGO_PKG_VERSION"),
        issuer: app.office.issuer.did().to_owned(),
        log_key: app.log.as_str().to_owned(),
        aud: app.log.origin().to_owned(),
        url: app.office.base_url.clone(),
        docs: format!("{}/docs/", app.office.base_url),
        entries: app.authority.ledger().committed()?,
    })?;
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

/// Whether the process answers
#[utoipa::path(get, path = "/healthz", tag = "service", responses((status = 200, body = String, content_type = "text/plain"), Errors))]
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// Whether the service can do its work: the ledger can be read and written, its key may sign, and it is not about to stop
///
/// The text says what else an operator should know, such as a clock that jumped.
#[utoipa::path(get, path = "/readyz", tag = "service", responses((status = 200, body = String, content_type = "text/plain"), Errors))]
pub(crate) async fn readyz(State(app): State<Arc<App>>) -> Result<String, Problem> {
    let not_ready = |why: &str| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", why).retry_after(1);
    if *app.closing.borrow() {
        return Err(not_ready("the service is about to stop"));
    }
    app.signs()?;
    app.work(|app| Ok(app.authority.flush()?)).await.map_err(|_| not_ready("the ledger cannot be written"))?;
    let read = app.read(|app, view| view.size().map(|_| app.clock_trouble(view)).map_err(Problem::from)).await;
    let trouble = read.map_err(|_| not_ready("the ledger cannot be read"))?;
    // Still ready: what is answered is right, and nothing else could do better with this clock.
    Ok(trouble.map_or("ready\n".to_owned(), |trouble| format!("ready, but {trouble}\n")))
}

/// Numbers for an operator
#[utoipa::path(get, path = "/metrics", tag = "service", responses((status = 200, body = String, content_type = "application/openmetrics-text"), Errors))]
pub(crate) async fn metrics(State(app): State<Arc<App>>) -> Response {
    let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], app.metrics_text()).into_response()
}
