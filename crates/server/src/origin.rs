//! Whether a request that records something may come from where it comes from.
//!
//! Browsers send what any page tells them to send, also to a service on the visitor's own machine or network. A page of another
//! site must not make its visitors record anything in an authority that is not meant for the world, so a request without a token
//! that records is refused
//!
//! - under a name that the service does not have, where it listens on loopback (a site that gave its own name the address
//!   127.0.0.1: DNS rebinding);
//! - where the browser says that another site asked (`Sec-Fetch-Site`, else `Origin`, else `Referer`), unless the request came under
//!   the name of `public_url` or through the proxy in front: what anyone may record, a browser may.
//!
//! Reading is not refused. Badges are not recorded: they can be shown on every site.

use axum::http::{HeaderMap, Method, StatusCode, header};
use url::Url;

use crate::{app::App, problem::Problem};

const SITE: &str = "sec-fetch-site";

/// Routes that record something, or have it recorded, without a token; forms and MCP have checks of their own.
const RECORDING: [(Method, &str); 5] = [
    (Method::GET, "/v1/entities/{entity}/trust-signals"),
    (Method::HEAD, "/v1/entities/{entity}/trust-signals"),
    (Method::POST, "/v1/agents/{agent}/disputes"),
    (Method::POST, "/v1/agents/{agent}/domain-challenges"),
    (Method::POST, "/v1/agents/{agent}/domain-verifications"),
];

/// Whether a request to this route records something although nobody gave a token.
pub(crate) fn records(method: &Method, route: &str) -> bool {
    RECORDING.iter().any(|(one, path)| one == method && *path == route)
}

/// Refuses what a page of another site asks for.
pub(crate) fn check(app: &App, headers: &HeaderMap) -> Result<(), Problem> {
    let refused = |detail: &str| Err(Problem::new(StatusCode::FORBIDDEN, "cross_site", detail));
    if !crate::dashboard::is_known(app, headers) {
        return refused(
            "this service is not known under that name, and this would record something: use the address it listens on",
        );
    }
    if is_foreign(headers) && !is_public(app, headers) {
        return refused(
            "a page of another site asked for this, and it would record something: send a token, or ask under the service's public_url",
        );
    }
    Ok(())
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Whether a browser says that another site asks. Programs say nothing of the kind.
fn is_foreign(headers: &HeaderMap) -> bool {
    if let Some(site) = headers.get(SITE) {
        return site != "same-origin" && site != "none";
    }
    let host = text(headers, "host").unwrap_or_default();
    let other = |from: &str| from.split_once("://").is_none_or(|(_, rest)| rest.split('/').next() != Some(host));
    match (text(headers, "origin"), text(headers, "referer")) {
        (Some(origin), _) => other(origin),
        (None, Some(page)) => other(page),
        (None, None) => false,
    }
}

/// Whether it came as the world's requests come.
fn is_public(app: &App, headers: &HeaderMap) -> bool {
    // No page can have a browser send this header unasked, and the answer to the question does not allow it.
    if app.settings.trust_forwarded_for && headers.contains_key("x-forwarded-for") {
        return true;
    }
    let Ok(public) = Url::parse(&app.settings.public_url) else { return false };
    let named =
        text(headers, header::HOST.as_str()).and_then(|host| Url::parse(&format!("{}://{host}", public.scheme())).ok());
    named.is_some_and(|named| {
        named.host() == public.host() && named.port_or_known_default() == public.port_or_known_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn other_sites_are_told_apart() {
        let foreign = |list: &[(&'static str, &'static str)]| {
            let headers: HeaderMap = list
                .iter()
                .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)))
                .chain([(header::HOST, HeaderValue::from_static("127.0.0.1:8420"))])
                .collect();
            is_foreign(&headers)
        };
        assert!(!foreign(&[]), "a program");
        for (site, is) in [("cross-site", true), ("same-site", true), ("same-origin", false), ("none", false)] {
            assert_eq!(foreign(&[("sec-fetch-site", site)]), is, "{site}");
        }
        assert!(foreign(&[("origin", "https://evil.example")]) && foreign(&[("origin", "null")]));
        assert!(!foreign(&[("origin", "http://127.0.0.1:8420")]));
        assert!(foreign(&[("referer", "https://evil.example/127.0.0.1:8420")]));
        assert!(!foreign(&[("referer", "http://127.0.0.1:8420/agents/shop")]));
        assert!(foreign(&[("sec-fetch-site", "cross-site"), ("origin", "http://127.0.0.1:8420")]));
    }
}
