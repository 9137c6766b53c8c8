//! `/mcp` of the service: streamable HTTP without sessions, one message a request.
//!
//! A page in somebody's browser must not speak to a service on that person's machine: an `Origin` that is not the service's own is
//! refused, and so, where the service listens on loopback, is a `Host` that is neither that nor its public name. A service that
//! listens elsewhere is meant to be reached, under whatever names it has.

use std::{net::IpAddr, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
};
use credence_protocol::strict::{self, Unreadable};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::never::NeverSessionManager,
};
use serde_json::json;
use url::{Host, Url};

use super::{PATH, Server};
use crate::{app::App, extract::whole};

/// JSON-RPC's code for what is no JSON.
const PARSE_ERROR: i32 = -32700;
/// And for messages that are not requests.
const INVALID_REQUEST: i32 = -32600;
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The route.
pub(crate) fn routes(app: &Arc<App>) -> Router<Arc<App>> {
    let (base, limit) = (Url::parse(&app.office.base_url).ok(), app.settings.max_body_bytes);
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .with_max_request_body_bytes(limit)
        .with_allowed_hosts(hosts(&app.settings.listen, base.as_ref()))
        .with_allowed_origins(origins(base.as_ref()))
        .enforce_origin_validation();
    let server = Server { app: Arc::clone(app), operator: None };
    let service =
        StreamableHttpService::new(move || Ok(server.clone()), Arc::new(NeverSessionManager::default()), config);
    Router::new().route(
        PATH,
        post(move |request: Request| async move {
            let (parts, body) = request.into_parts();
            // Taken in by the edge already: nothing is waited for.
            let bytes = match whole(body, limit).await {
                Ok(bytes) => bytes,
                Err(problem) => return problem.into_response(),
            };
            // Of a key that occurs twice the transport would take one, and nobody would hear of the other.
            match strict::unique("", &bytes) {
                Ok(_) => {}
                Err(Unreadable::NotJson(error)) => {
                    return unreadable(PARSE_ERROR, &format!("the body is no JSON: {error}"));
                }
                Err(Unreadable::DuplicateKey(place)) => {
                    let place = place.trim_start_matches('.');
                    return unreadable(INVALID_REQUEST, &format!("{place}: this key occurs twice in its object"));
                }
            }
            service.handle(Request::from_parts(parts, Body::from(bytes))).await.map(Body::new)
        }),
    )
}

/// What cannot be read has no id to answer to.
fn unreadable(code: i32, message: &str) -> Response {
    let error = json!({ "code": code, "message": message });
    let body = json!({ "jsonrpc": "2.0", "id": null, "error": error }).to_string();
    (StatusCode::BAD_REQUEST, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// Hosts that a request may name; none for any.
pub(crate) fn hosts(listen: &str, base: Option<&Url>) -> Vec<String> {
    let host = listen.rsplit_once(':').map_or(listen, |(host, _)| host).trim_matches(['[', ']']);
    let local = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    if !local {
        return Vec::new();
    }
    let public = base.and_then(Url::host_str).map(str::to_owned);
    LOOPBACK.map(str::to_owned).into_iter().chain([host.to_owned()]).chain(public).collect()
}

/// Origins that a request may come from: the service's own pages.
fn origins(base: Option<&Url>) -> Vec<String> {
    let Some(base) = base else { return Vec::new() };
    let (Some(host), Some(port)) = (base.host_str(), base.port_or_known_default()) else { return Vec::new() };
    let loopback = match base.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    let also = if loopback { vec!["localhost", "127.0.0.1", "[::1]"] } else { Vec::new() };
    std::iter::once(host).chain(also).map(|host| format!("{}://{host}:{port}", base.scheme())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_on_loopback_knows_its_names() {
        let public = Url::parse("https://trust.example").unwrap();
        assert_eq!(hosts("127.0.0.1:8420", Some(&public)).last().unwrap(), "trust.example");
        assert!(hosts("[::1]:0", None).contains(&"::1".to_owned()));
        for open in ["0.0.0.0:8420", "[::]:8420", "192.0.2.1:80"] {
            assert!(hosts(open, Some(&public)).is_empty(), "{open}");
        }
    }

    #[test]
    fn only_its_own_pages_are_its_own() {
        let of = |text: &str| origins(Some(&Url::parse(text).unwrap()));
        assert_eq!(of("https://trust.example"), ["https://trust.example:443"]);
        assert!(of("http://127.0.0.1:8420").contains(&"http://localhost:8420".to_owned()));
        assert!(origins(None).is_empty());
    }
}
