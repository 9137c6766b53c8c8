//! Who owns a domain: the owner of an agent puts a signed line at a well-known path, and the authority looks.
//!
//! The line is signed by the authority and names agent, host and end: nothing has to be remembered, and nobody can make one.
//! Only addresses that the agent is registered for are looked at, never private ones, by their addresses after resolution;
//! redirects are not followed.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs},
    time::Duration,
};

use axum::http::StatusCode;
use credence_protocol::{Alias, EntityId, SecretKey, Signature, Timestamp};
use url::{Host, Url};

use crate::{problem::Problem, shares::Share};

/// Where the line has to be.
pub(crate) const PATH: &str = "/.well-known/credence-challenge";
/// How long a challenge holds.
pub(crate) const HOLDS_SECONDS: i64 = 7 * 86_400;
const VERSION: &str = "credence-domain-control-v1";
const PATIENCE: Duration = Duration::from_secs(5);
const MAX_BYTES: usize = 4096;

/// What an owner puts at the path.
pub(crate) fn line(key: &SecretKey, agent: &EntityId, host: &str, expires: Timestamp) -> String {
    let seconds = expires.micros() / 1_000_000;
    let signature = key.sign(signed(agent, host, seconds).as_bytes());
    format!("{VERSION} {agent} {host} {seconds} {signature}")
}

fn signed(agent: &EntityId, host: &str, seconds: i64) -> String {
    format!("{VERSION} {agent} {host} {seconds}")
}

/// Whether `text` is a line of ours for this agent and host that still holds.
fn check_line(key: &SecretKey, agent: &EntityId, host: &str, text: &str, now: Timestamp) -> Result<(), &'static str> {
    let parts: Vec<&str> = text.trim().split(' ').collect();
    let [version, named, domain, seconds, signature] = parts.as_slice() else {
        return Err("what is there is not a challenge");
    };
    if *version != VERSION || *named != agent.as_str() || *domain != host {
        return Err("the challenge that is there is for another agent or domain");
    }
    let seconds: i64 = seconds.parse().map_err(|_| "the challenge has no time")?;
    let signature: Signature = signature.parse().map_err(|_| "the challenge has no signature")?;
    key.public()
        .verify(signed(agent, host, seconds).as_bytes(), &signature)
        .map_err(|_| "the challenge was not made by this authority")?;
    if now.micros() / 1_000_000 > seconds { Err("the challenge has expired: ask for a new one") } else { Ok(()) }
}

/// The host (with its port when it has one) among an agent's aliases that `address` names.
pub(crate) fn host_of(aliases: &[Alias], address: &str) -> Result<String, Problem> {
    let wanted =
        Alias::parse(address).map_err(|e| Problem::unprocessable("invalid_address", format!("address: {e}")))?;
    let of = |alias: &Alias| -> Option<String> {
        let text = alias.as_str();
        if let Some(rest) = text.strip_prefix("did:web:") {
            return Some(rest.split(':').next()?.replace("%3A", ":").replace("%3a", ":").to_ascii_lowercase());
        }
        let url = Url::parse(text).ok().filter(|url| url.scheme() == "https")?;
        let host = url.host_str()?;
        Some(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
    };
    let registered = aliases.iter().any(|alias| alias.key() == wanted.key());
    of(&wanted).filter(|_| registered).ok_or_else(|| {
        let detail = "address: one of the agent's own aliases, https://… or did:web:…";
        Problem::unprocessable("invalid_address", detail)
    })
}

/// A client that follows nothing and asks no proxy.
fn builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .timeout(PATIENCE)
        .connect_timeout(PATIENCE)
        .user_agent(concat!("credence/", env!("CARGO_PKG_VERSION")))
}

/// A check of who controls a domain: what the line has to say, and where it has to be.
pub(crate) struct DomainCheck<'a> {
    pub key: &'a SecretKey,
    pub agent: &'a EntityId,
    pub host: &'a str,
    pub allow_loopback: bool,
    pub now: Timestamp,
}

/// Fetches the line and checks it. The place is held until the last thread that works on it is free.
pub(crate) async fn check_domain(check: DomainCheck<'_>, place: Share) -> Result<(), Problem> {
    let DomainCheck { key, agent, host, allow_loopback, now } = check;
    let failed = |why: &str| Problem::unprocessable("domain_not_verified", format!("https://{host}{PATH}: {why}"));
    let wanted = Document { host, path: PATH, allow_loopback, max_bytes: MAX_BYTES };
    let bytes = fetch(wanted, place).await.map_err(|why| failed(&why))?;
    check_line(key, agent, host, &String::from_utf8_lossy(&bytes), now).map_err(failed)
}

/// A document on another host.
pub(crate) struct Document<'a> {
    /// With its port when it has one.
    pub host: &'a str,
    pub path: &'a str,
    pub allow_loopback: bool,
    pub max_bytes: usize,
}

/// Fetches a document from a public address, or says why not. The place is held until the last thread that works on it is free.
pub(crate) async fn fetch(wanted: Document<'_>, place: Share) -> Result<Vec<u8>, String> {
    let Document { host, path, allow_loopback, max_bytes } = wanted;
    let url = Url::parse(&format!("https://{host}{path}")).map_err(|_| "not an address")?;
    let (port, name) = (url.port_or_known_default().unwrap_or(443), url.host_str().unwrap_or_default().to_owned());
    let mut _kept = None;
    let addresses: Vec<SocketAddr> = match url.host() {
        Some(Host::Ipv4(ip)) => vec![(ip, port).into()],
        Some(Host::Ipv6(ip)) => vec![(ip, port).into()],
        _ => {
            // A name server may take its time: the thread that waits for it keeps the place.
            let asked = (name.clone(), port);
            let resolve = tokio::task::spawn_blocking(move || {
                let found = asked.to_socket_addrs().map(Iterator::collect::<Vec<_>>);
                (found, place)
            });
            let found = tokio::time::timeout(PATIENCE, resolve).await;
            let (found, kept) = found
                .map_err(|_| "its name took too long to resolve")?
                .map_err(|_| "its name could not be resolved")?;
            _kept = Some(kept);
            found.map_err(|_| "its name does not resolve")?
        }
    };
    let loopback =
        allow_loopback && !addresses.is_empty() && addresses.iter().all(|address| address.ip().is_loopback());
    if !loopback && (addresses.is_empty() || !addresses.iter().all(|address| is_public(address.ip()))) {
        return Err("it leads to an address that is not public".into());
    }
    // Pinned to what was looked at: a name that resolves to something else a moment later changes nothing.
    let client = builder().resolve_to_addrs(&name, &addresses).build().map_err(|e| e.to_string())?;
    let url = if loopback { format!("http://{host}{path}") } else { url.to_string() };
    let mut response = client
        .get(url)
        .send()
        .await
        .map_err(|e| if e.is_timeout() { "it took too long" } else { "it could not be reached" })?;
    if response.status() != StatusCode::OK.as_u16() {
        return Err(format!("it answered {}", response.status().as_u16()));
    }
    let mut bytes = Vec::new();
    while let Some(part) = response.chunk().await.map_err(|_| "it broke off")? {
        bytes.extend_from_slice(&part);
        if bytes.len() > max_bytes {
            return Err("what is there is far too long".into());
        }
    }
    Ok(bytes)
}

/// Whether an address belongs to the public internet.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => is_public_v4(v4),
            None => is_public_v6(v6),
        },
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let special = ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_multicast()
        || ip.is_broadcast()
        || ip.is_documentation()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        // 6to4 relays, and anycast services of the network itself (IANA's registry of special-purpose addresses).
        || matches!([a, b, c], [192, 88, 99] | [192, 31, 196] | [192, 52, 193] | [192, 175, 48])
        || (a == 198 && (18..20).contains(&b));
    !special
}

/// Only what is handed out at present, 2000::/3, without its special parts.
fn is_public_v6(ip: Ipv6Addr) -> bool {
    let [first, second, ..] = ip.segments();
    let special = first == 0x2002
        || (first == 0x2001 && second < 0x200)
        || (first == 0x2001 && second == 0xdb8)
        || (first == 0x3fff && second < 0x1000);
    (first & 0xe000) == 0x2000 && !special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_not_looked_at() {
        for public in
            ["93.184.215.14", "8.8.8.8", "192.88.98.1", "2606:2800:21f:cb07::1", "3fff:1000::1", "::ffff:8.8.8.8"]
        {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for private in [
            "127.0.0.1",
            "10.0.0.1",
            "172.16.3.4",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "192.0.0.8",
            "192.88.99.1",
            "192.31.196.1",
            "192.52.193.9",
            "192.175.48.1",
            "198.18.0.1",
            "203.0.113.5",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "2002:7f00:1::",
            "2001:db8::1",
            "3fff::1",
            "3fff:fff::1",
            "64:ff9b::7f00:1",
            "240.0.0.1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
    }

    #[test]
    fn a_line_is_for_one_agent_one_host_and_a_time() {
        let key = SecretKey::from_seed(&[3; 32]);
        let (bot, other) = (EntityId::new("bot").unwrap(), EntityId::new("other").unwrap());
        let now: Timestamp = "2026-11-16T00:00:00Z".parse().unwrap();
        let text = line(&key, &bot, "shop.example", now.plus_seconds(60));
        assert!(check_line(&key, &bot, "shop.example", &format!("{text}\n"), now).is_ok());
        assert!(check_line(&key, &other, "shop.example", &text, now).is_err());
        assert!(check_line(&key, &bot, "evil.example", &text, now).is_err());
        assert!(check_line(&key, &bot, "shop.example", &text, now.plus_seconds(62)).is_err());
        assert!(check_line(&SecretKey::from_seed(&[4; 32]), &bot, "shop.example", &text, now).is_err());
        assert!(check_line(&key, &bot, "shop.example", "<html>not found</html>", now).is_err());
        let later = text.replace(&(now.plus_seconds(60).micros() / 1_000_000).to_string(), "99999999999");
        assert!(check_line(&key, &bot, "shop.example", &later, now).is_err());
    }
}
