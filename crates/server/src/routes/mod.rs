//! The routes. Each is described where it is written, and the description that is served is made of the same list.

pub(crate) mod agents;
mod attest;
mod attestations;
pub(crate) mod credentials;
mod domains;
pub(crate) mod events;
mod guard_reviews;
mod health;
mod keys;
mod links;
mod log;
pub(crate) mod outcomes;
pub(crate) mod probes;
pub(crate) mod receipts;
mod reports;
pub(crate) mod scores;
mod signals;
mod sources;
mod statements;
mod tools;
pub(crate) mod trust_signals;
pub(crate) mod verify;
mod well_known;

use std::sync::Arc;

use axum::{
    Router,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware,
    response::{IntoResponse, Redirect, Response},
    routing::get,
};
use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use utoipa::{
    Modify, OpenApi,
    openapi::{
        self,
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};
use utoipa_axum::{router::OpenApiRouter, routes};
use utoipa_swagger_ui::{Config, SwaggerUi};

use crate::{app::App, dashboard, edge, mcp, problem::Problem};

/// The most that a page has.
pub(crate) const MAX_PAGE: usize = 1_000;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Credence",
        description = "The open trust authority for AI agents. Reads are open; writes need a token with the scope named. Signed answers are checked offline with `credence check` or a few lines of any language.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    tags(
        (name = "answers", description = "Should I go ahead? Signed"),
        (name = "agents", description = "Who is scored, and how"),
        (name = "signals", description = "What sources measured"),
        (name = "verification", description = "Did this tool call really give this result?"),
        (name = "reputation", description = "What agents say and claim, signed by themselves"),
        (name = "registry", description = "Sources and keys"),
        (name = "reports", description = "Reports on agents: drafted by programs, released by people"),
        (name = "log", description = "Everything is an entry of one transparency log"),
        (name = "service", description = "The service itself")
    ),
    modifiers(&Token)
)]
struct Doc;

struct Token;

impl Modify for Token {
    fn modify(&self, doc: &mut openapi::OpenApi) {
        let scheme = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("`credence token create` makes one; scopes: admin, ingest, verify, review (which admin does not include)"))
            .build();
        doc.components.get_or_insert_default().add_security_scheme("token", SecurityScheme::Http(scheme));
    }
}

/// Every described route.
fn described() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::with_openapi(Doc::openapi())
        .routes(routes!(trust_signals::trust_signals))
        .routes(routes!(trust_signals::badge))
        .routes(routes!(agents::list, agents::register))
        .routes(routes!(agents::show))
        .routes(routes!(agents::set_standing))
        .routes(routes!(domains::challenge))
        .routes(routes!(domains::verify))
        .routes(routes!(probes::of_agent))
        .routes(routes!(probes::schedule, probes::set_schedule, probes::end_schedule))
        .routes(routes!(links::list, links::claim))
        .routes(routes!(links::check))
        .routes(routes!(links::remove))
        .routes(routes!(links::disputes, links::dispute))
        .routes(routes!(links::decide))
        .routes(routes!(scores::score))
        .routes(routes!(scores::explain))
        .routes(routes!(scores::history))
        .routes(routes!(scores::stats))
        .routes(routes!(scores::reputation))
        .routes(routes!(signals::submit))
        .routes(routes!(sources::list, sources::add))
        .routes(routes!(sources::change))
        .routes(routes!(keys::list, keys::add))
        .routes(routes!(keys::revoke))
        .routes(routes!(receipts::submit, receipts::log))
        .routes(routes!(receipts::show))
        .routes(routes!(guard_reviews::report, guard_reviews::list))
        .routes(routes!(verify::one))
        .routes(routes!(verify::batch))
        .routes(routes!(verify::feedback))
        .routes(routes!(tools::list))
        .routes(routes!(tools::profile, tools::set_profile))
        .routes(routes!(statements::publish))
        .routes(routes!(statements::contracts))
        .routes(routes!(statements::contract))
        .routes(routes!(statements::agent_contracts))
        .routes(routes!(statements::challenges))
        .routes(routes!(statements::challenge))
        .routes(routes!(statements::reviews))
        .routes(routes!(statements::agent_reviews))
        .routes(routes!(outcomes::report))
        .routes(routes!(outcomes::calibration))
        .routes(routes!(credentials::issue))
        .routes(routes!(credentials::show))
        .routes(routes!(credentials::revoke))
        .routes(routes!(credentials::of_agent))
        .routes(routes!(credentials::status_list))
        .routes(routes!(credentials::suspension_list))
        .routes(routes!(attestations::of_agent, attest::attest))
        .routes(routes!(attestations::show))
        .routes(routes!(attestations::document))
        .routes(routes!(reports::list, reports::draft))
        .routes(routes!(reports::show))
        .routes(routes!(reports::markdown))
        .routes(routes!(reports::document))
        .routes(routes!(reports::approve))
        .routes(routes!(reports::reject))
        .routes(routes!(reports::publish))
        .routes(routes!(reports::correct))
        .routes(routes!(reports::withdraw))
        .routes(routes!(log::checkpoint))
        .routes(routes!(log::tile))
        .routes(routes!(log::entry))
        .routes(routes!(log::proof))
        .routes(routes!(log::response_proof))
        .routes(routes!(log::consistency, log::consistency_with))
        .routes(routes!(events::events))
        .routes(routes!(probes::listener, probes::notified))
        .routes(routes!(well_known::jwks))
        .routes(routes!(well_known::did))
        .routes(routes!(well_known::tags))
        .routes(routes!(well_known::schema))
        .routes(routes!(health::about))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(health::metrics))
}

/// The whole service.
pub(crate) fn router(app: Arc<App>, more: Router<Arc<App>>) -> Router {
    let (router, doc) = described().split_for_parts();
    let doc = Bytes::from(finished(&doc).to_string());
    router
        .route("/openapi.json", get(move || async move { json_bytes(doc) }))
        // OpenAPI has no parameter that spans slashes: described as /log/tile/{path}.
        .route("/log/tile/{level}/{*rest}", get(log::tile_below))
        .merge(mcp::routes(&app))
        .merge(dashboard::routes(&app))
        .merge(more)
        .merge(SwaggerUi::new("/docs").config(Config::from("/openapi.json")))
        .route("/docs.html", get(|| async { Redirect::permanent("/docs/") }))
        .fallback(|headers: HeaderMap| async move {
            if dashboard::wants_page(&headers) {
                return dashboard::nothing_here();
            }
            Problem::not_found("no_such_path", "there is nothing here: /openapi.json lists every path").into_response()
        })
        .method_not_allowed_fallback(|| async {
            Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "this path knows other methods: see /openapi.json",
            )
        })
        .layer(middleware::from_fn_with_state(Arc::clone(&app), edge::edge))
        .with_state(app)
}

/// The description of every route, as JSON.
pub fn openapi() -> String {
    finished(&described().to_openapi()).to_string()
}

/// The description with what generators need: a name of its own for each operation, a description of each response.
fn finished(doc: &openapi::OpenApi) -> Value {
    let mut doc = serde_json::to_value(doc).unwrap_or_default();
    let paths = doc["paths"].as_object_mut().into_iter().flatten();
    for (path, item) in paths {
        for (method, operation) in item.as_object_mut().into_iter().flatten() {
            let words = path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
            let name: Vec<&str> = std::iter::once(method.as_str()).chain(words).collect();
            operation["operationId"] = Value::String(name.join("_"));
            let says = operation["summary"].clone();
            for (_, response) in operation["responses"].as_object_mut().into_iter().flatten() {
                if response["description"].as_str().is_none_or(str::is_empty) {
                    response["description"] = says.clone();
                }
            }
        }
    }
    doc
}

/// JSON that changes with the ledger.
pub(crate) fn json(value: &impl Serialize) -> Result<Response, Problem> {
    let bytes = serde_json::to_vec(value).map_err(|e| Problem::internal(&e))?;
    let mut response = json_bytes(Bytes::from(bytes));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

/// The same, of something that was made.
pub(crate) fn created(value: &impl Serialize) -> Result<Response, Problem> {
    let mut response = json(value)?;
    *response.status_mut() = StatusCode::CREATED;
    Ok(response)
}

fn json_bytes(bytes: Bytes) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], bytes).into_response()
}
