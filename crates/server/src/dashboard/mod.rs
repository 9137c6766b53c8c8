//! The dashboard: pages for people, rendered here and usable without a script (DESIGN, *Faces*).
//!
//! - `agents`, `agent`, `tools`, `log`, `sources`, `crawlers`, `outcomes`, `reports`, `status`: one file for each page, templates
//!   beside the sources;
//! - `ranking`: every agent at a glance, in memory;
//! - `session`: who looks: tokens are typed in once and never stand in an address;
//! - `assets`: the stylesheet and the scripts, from the program itself: nothing is fetched from elsewhere.
//!
//! Everything a page shows is read from the ledger and the engines by the same functions that the API answers with. What agents,
//! sources or tools call themselves is escaped by the templates, and the policy sent along allows no script but our own files.

mod agent;
mod agents;
mod assets;
mod crawlers;
mod format;
mod inputs;
mod log;
mod outcomes;
pub(crate) mod ranking;
mod reports;
pub(crate) mod session;
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

use crate::{
    app::App,
    edge::{Caller, OwnPage},
    problem::Problem,
    routes::events::{self, VerdictScope},
};

/// Nothing but our own files, and no script or style within a page.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Where open pages hear of what is new.
const LIVE: &str = "/live";
/// What browsers say of where a request comes from.
const SITE: &str = "sec-fetch-site";

/// Paths that take a form from whoever looks.
pub(crate) const FORMS: [&str; 6] =
    ["/sign-in", "/sign-out", "/feedback", "/agents/{agent}/credential", "/reports", "/reports/{report}/decision"];

/// The pages.
pub(crate) fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    Router::new()
        .route("/agents/{agent}", get(agent::page))
        .route("/agents/{agent}/credential", post(agent::credential))
        .route("/tools", get(tools::list))
        .route("/tools/{*tool}", get(tools::page))
        .route("/feedback", post(tools::feedback))
        .route("/log", get(log::page))
        .route("/sources", get(sources::page))
        .route("/crawlers", get(crawlers::page))
        .route("/outcomes", get(outcomes::page))
        .route("/reports", get(reports::list).post(reports::draft))
        .route("/reports/{report}", get(reports::page))
        .route("/reports/{report}/decision", post(reports::decide))
        .route("/status", get(status::page))
        .route("/sign-in", get(session::form).post(session::sign_in))
        .route("/sign-out", post(session::sign_out))
        .route(LIVE, get(live))
        .layer(middleware::from_fn_with_state(Arc::clone(app), from_here))
        .route("/assets/{name}", get(assets::asset))
}

/// Whether somebody with a browser asks for a page.
pub(crate) fn wants_page(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    accept.split(',').any(|one| {
        let mut parts = one.split(';').map(str::trim);
        parts.next() == Some("text/html") && !parts.any(|part| matches!(part, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    })
}

/// What is new, for pages that are open: as `/v1/events`, for whoever is signed in.
async fn live(State(app): State<Arc<App>>, viewer: Viewer, headers: HeaderMap) -> Result<Response, Problem> {
    let caller = match &viewer.token {
        Some(token) => Caller::Token(Arc::clone(token)),
        None => viewer.caller.clone(),
    };
    events::listen(app, caller, &headers, VerdictScope::Own)
}

/// Before every page: a service on somebody's own machine answers under its own names only, lest a site that renames itself be taken
/// for it; and a form that another site sends is refused, as browsers say where it comes from.
async fn from_here(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let refused = |detail: &str| {
        let problem = Problem::new(StatusCode::FORBIDDEN, "cross_site", detail);
        error_page(&Frame::bare(), &problem)
    };
    if !is_known(&app, request.headers()) {
        return refused("this service is not known under that name: open it where it says that it listens");
    }
    let is_form = request.method() == axum::http::Method::POST;
    let is_stream = request.uri().path() == LIVE && request.headers().contains_key(SITE);
    if (is_form || is_stream) && !is_from_here(request.headers()) {
        return refused("this was not asked from a page of this service: open the page and do it from there");
    }
    let signed_in = session::is_signed_in(request.headers());
    let mut response = next.run(request).await;
    response.extensions_mut().insert(OwnPage);
    if signed_in {
        // Nothing of it is to be seen after signing out.
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

/// Whether the request names this service, where that matters.
pub(crate) fn is_known(app: &App, headers: &HeaderMap) -> bool {
    let hosts = &app.hosts;
    let named = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = match named.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => named,
    };
    let name = name.trim_matches(['[', ']']);
    hosts.is_empty() || hosts.iter().any(|host| host.eq_ignore_ascii_case(name))
}

fn is_from_here(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(site) = text(SITE) {
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
    pub may_issue: bool,
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
            may_issue: agent::may_issue(app, viewer),
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
            may_issue: false,
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
            response.extensions_mut().insert(OwnPage);
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

/// For browsers that went astray.
pub(crate) fn nothing_here() -> Response {
    error_page(&Frame::bare(), &Problem::not_found("no_such_path", "There is no such page here."))
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
