//! Who may use the proxy, and who they say they are: web pages and names from elsewhere are refused, headers name the caller.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, StatusCode, header, request::Parts};
use credence_protocol::EntityId;
use credence_verify::Stake;
use serde_json::json;
use url::Url;

use super::{HttpSettings, Refused};
use crate::{Caller, warn};

impl HttpSettings {
    /// A web page must not reach a server on this machine through the guard: its own check of the host sees the guard's.
    pub(super) fn check_origin(&self, headers: &HeaderMap) -> Result<(), Refused> {
        let Some(origin) = headers.get(header::ORIGIN).and_then(|value| value.to_str().ok()) else { return Ok(()) };
        if Url::parse(origin).is_ok_and(|url| is_of_this_machine(&url))
            || self.allowed_origins.iter().any(|allowed| allowed == origin)
        {
            return Ok(());
        }
        Err((StatusCode::FORBIDDEN, format!("pages of {origin} may not use this server (--allow-origin lets them)")))
    }

    /// A page whose name was made to point at this machine asks without an origin, under its own name.
    pub(super) fn check_host(&self, parts: &Parts, is_local: bool) -> Result<(), Refused> {
        let named = parts.headers.get(header::HOST).map_or(Ok(""), |value| value.to_str()).unwrap_or("?");
        let named = parts.uri.authority().map_or(named, |authority| authority.as_str());
        if !is_local || named.is_empty() || is_plainly_of_this_machine(named) {
            return Ok(());
        }
        let url = Url::parse(&format!("http://{named}"));
        let allowed = |url: &Url| {
            let origins = self.allowed_origins.iter().filter_map(|origin| Url::parse(origin).ok());
            origins.into_iter().any(|origin| origin.host() == url.host())
        };
        if url.is_ok_and(|url| is_of_this_machine(&url) || allowed(&url)) {
            return Ok(());
        }
        let text = format!("this server is not '{named}' (--allow-origin with that name makes it so)");
        Err((StatusCode::MISDIRECTED_REQUEST, text))
    }
}

fn is_of_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(url::Host::Ipv4(ip)) => IpAddr::V4(ip).is_loopback(),
        Some(url::Host::Ipv6(ip)) => IpAddr::V6(ip).is_loopback(),
        None => false,
    }
}

/// The same of a host as most clients write it, with or without a port: what is found here need not be parsed.
fn is_plainly_of_this_machine(host: &str) -> bool {
    let (host, port) = host.split_once(':').unwrap_or((host, "0"));
    matches!(host, "127.0.0.1" | "localhost") && port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok()
}

/// A URL without what may be secret in it.
pub fn without_secrets(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}

/// What the headers say of the caller.
pub(super) fn caller(headers: &HeaderMap) -> Caller {
    let of = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).filter(|value| !value.is_empty());
    let agent = of("credence-agent")
        .and_then(|agent| EntityId::new(agent).inspect_err(|error| warn(&format!("Credence-Agent: {error}"))).ok());
    let stake = of("credence-stake").and_then(|stake| {
        let parsed: Option<Stake> = serde_json::from_value(json!(stake)).ok();
        if parsed.is_none() {
            warn(&format!("Credence-Stake: '{stake}' is neither low, medium, high nor critical"));
        }
        parsed
    });
    Caller { agent, session: of("credence-session").map(credence_protocol::receipt::cut_name), stake }
}

/// Whether only this machine can reach an address.
pub fn is_local(address: &SocketAddr) -> bool {
    address.ip().is_loopback()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_host_that_is_not_parsed_is_one_of_this_machine() {
        let hosts =
            ["127.0.0.1", "localhost", "localhost.", "LOCALHOST", "127.0.0.1.example", "evil@localhost", "127.1", ""];
        let ports = ["", ":", ":0", ":80", ":65535", ":65536", ":+80", ":-1", ":80@evil", ":80/", ":80:80", ":\u{661}"];
        for named in hosts.iter().flat_map(|host| ports.map(|port| format!("{host}{port}"))) {
            let parsed = Url::parse(&format!("http://{named}")).is_ok_and(|url| is_of_this_machine(&url));
            assert!(parsed || !is_plainly_of_this_machine(&named), "{named}");
        }
        assert!(is_plainly_of_this_machine("127.0.0.1:8931") && is_plainly_of_this_machine("localhost"));
    }

    #[test]
    fn headers_say_who_calls() {
        let mut headers = HeaderMap::new();
        headers.insert("credence-agent", HeaderValue::from_static("bot"));
        headers.insert("credence-stake", HeaderValue::from_static("critical"));
        headers.insert("credence-session", HeaderValue::from_static("s1"));
        let said = caller(&headers);
        assert_eq!((said.agent.unwrap().as_str(), said.stake), ("bot", Some(Stake::Critical)));
        headers.insert("credence-stake", HeaderValue::from_static("huge"));
        assert_eq!(caller(&headers).stake, None);
    }
}
