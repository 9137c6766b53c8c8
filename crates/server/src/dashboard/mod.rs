//! The dashboard: pages for people, rendered here and usable without a script (DESIGN, *Faces*).
//!
//! - `agents`, `agent`, `tools`, `log`, `sources`, `outcomes`, `status`: one file for each page, templates beside the sources;
//! - `ranking`: every agent at a glance, in memory;
//! - `session`: who looks: tokens are typed in once and never stand in an address;
//! - `assets`: the stylesheet and the scripts, from the program itself: nothing is fetched from elsewhere.
//!
//! Everything a page shows is read from the ledger and the engines by the same functions that the API answers with. What agents,
//! sources or tools call themselves is escaped by the templates, and the policy sent along allows no script but our own files.

mod agent;
mod agents;
mod assets;
mod log;
mod outcomes;
pub(crate) mod ranking;
pub(crate) mod session;
mod shown;
mod sources;
pub(crate) mod status;
mod tools;

use std::sync::Arc;

use askama::Template;
use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{get, post},
};

pub(crate) use agents::page as front;
pub(crate) use session::Viewer;

use crate::{app::App, edge::Caller, problem::Problem, routes::events};

/// Nothing but our own files, and no script or style within a page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Paths that take a form from whoever looks.
pub(crate) const FORMS: [&str; 4] = ["/sign-in", "/sign-out", "/feedback", "/agents/{agent}/credential"];

/// The pages.
pub(crate) fn routes() -> Router<Arc<App>> {
    Router::new()
        .route("/agents/{agent}", get(agent::page))
        .route("/agents/{agent}/credential", post(agent::credential))
        .route("/tools", get(tools::list))
        .route("/tools/{*tool}", get(tools::page))
        .route("/feedback", post(tools::feedback))
        .route("/log", get(log::page))
        .route("/sources", get(sources::page))
        .route("/outcomes", get(outcomes::page))
        .route("/status", get(status::page))
        .route("/sign-in", get(session::form).post(session::sign_in))
        .route("/sign-out", post(session::sign_out))
        .route("/live", get(live))
        .layer(middleware::from_fn(from_here))
        .route("/assets/{name}", get(assets::asset))
}

/// Whether somebody with a browser asks for a page.
pub(crate) fn wants_page(headers: &HeaderMap) -> bool {
    headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains("text/html"))
}

/// What is new, for pages that are open: as `/v1/events`, for whoever is signed in.
async fn live(State(app): State<Arc<App>>, viewer: Viewer, headers: HeaderMap) -> Result<Response, Problem> {
    let caller = match &viewer.token {
        Some(token) => Caller::Token(Arc::clone(token)),
        None => viewer.caller.clone(),
    };
    events::listen(app, caller, &headers)
}

/// A form that another site sends is refused: browsers say where it comes from.
async fn from_here(request: Request, next: Next) -> Response {
    if request.method() == axum::http::Method::POST && !is_from_here(request.headers()) {
        let detail = "this form was not sent from a page of this service: open the page and send it from there";
        return error_page(&Frame::bare(), &Problem::new(StatusCode::FORBIDDEN, "cross_site", detail));
    }
    next.run(request).await
}

fn is_from_here(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(site) = text("sec-fetch-site") {
        return site == "same-origin";
    }
    let origin = text("origin").and_then(|origin| origin.split_once("://")).map(|(_, host)| host);
    origin.is_some() && origin == text("host")
}

/// What every page has around it.
pub(crate) struct Frame {
    /// The part of the navigation it belongs to.
    pub at: &'static str,
    /// The name of the token that is signed in.
    pub viewer: Option<String>,
    pub is_admin: bool,
    /// A simulation, and not an authority.
    pub demo: bool,
    /// Changes with the stylesheet and the scripts.
    pub build: &'static str,
    pub version: &'static str,
    pub entries: u64,
    pub log_key: String,
}

impl Frame {
    fn new(app: &App, viewer: &Viewer, at: &'static str) -> Self {
        let token = viewer.token.as_deref();
        Self {
            at,
            viewer: token.map(|token| token.name.to_string()),
            is_admin: token.is_some_and(|token| token.may(crate::tokens::Scope::Admin)),
            demo: app.demo.is_some(),
            entries: app.authority.ledger().committed().unwrap_or_default(),
            log_key: app.log.as_str().to_owned(),
            ..Self::bare()
        }
    }

    fn bare() -> Self {
        Self {
            at: "",
            viewer: None,
            is_admin: false,
            demo: false,
            build: assets::build(),
            version: env!("CARGO_PKG_VERSION"),
            entries: 0,
            log_key: String::new(),
        }
    }
}

/// A page as it is sent.
fn html(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => {
            let mut response = (status, text).into_response();
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
            headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
            headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
            headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
            headers.insert(header::VARY, HeaderValue::from_static("accept, cookie"));
            response
        }
        Err(error) => Problem::internal(&error).into_response(),
    }
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage<'a> {
    frame: &'a Frame,
    status: u16,
    title: &'a str,
    detail: &'a str,
}

fn error_page(frame: &Frame, problem: &Problem) -> Response {
    let title = problem.status.canonical_reason().unwrap_or("Error");
    let page = ErrorPage { frame, status: problem.status.as_u16(), title, detail: problem.detail() };
    html(problem.status, &page)
}

/// A page, or a page that says why there is none.
fn page<T>(frame: Frame, made: Result<T, Problem>, show: impl FnOnce(Frame, T) -> Response) -> Response {
    match made {
        Ok(made) => show(frame, made),
        Err(problem) => error_page(&frame, &problem),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_other_sites_are_told_apart() {
        let headers = |list: &[(&'static str, &'static str)]| {
            list.iter()
                .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
                .collect::<HeaderMap>()
        };
        assert!(is_from_here(&headers(&[("sec-fetch-site", "same-origin")])));
        for site in ["cross-site", "same-site", "none"] {
            assert!(
                !is_from_here(&headers(&[("sec-fetch-site", site), ("origin", "http://a"), ("host", "a")])),
                "{site}"
            );
        }
        assert!(is_from_here(&headers(&[("origin", "http://a:1"), ("host", "a:1")])));
        assert!(!is_from_here(&headers(&[("origin", "http://b"), ("host", "a")])));
        assert!(!is_from_here(&headers(&[("origin", "null"), ("host", "null")])));
        assert!(!is_from_here(&headers(&[("host", "a")])));
    }
}
