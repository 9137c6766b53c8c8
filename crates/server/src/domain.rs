//! Who owns a domain: the owner of an agent puts a signed line at a well-known path, and the authority looks.
//!
//! The line is signed by the authority and names agent, host and end: nothing has to be remembered, and nobody can make one.
//! Only addresses that the agent is registered for are looked at, never private ones, by their addresses after resolution;
//! redirects are not followed.

use std::time::Duration;

use credence_egress::{self as egress, Destination, Egress, EgressError, Request};
use credence_protocol::{Alias, EntityId, SecretKey, Signature, Timestamp};
use url::Url;

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
    let ask = async {
        let (destination, _place) = Destination::resolve(&url, allow_loopback, place).await?;
        // A test's or demo's host on this machine has no certificate.
        let scheme = if destination.is_loopback() { "http" } else { "https" };
        let settings = egress::Settings { loopback: allow_loopback, ..egress::Settings::for_purpose("domain") };
        let request = Request::get(&format!("{scheme}://{host}{path}"))?.max_bytes(max_bytes).deadline(PATIENCE);
        Egress::new(settings)?.pinned(destination)?.send(request).await
    };
    let answer = ask.await.map_err(|e: EgressError| e.to_string())?;
    match answer.status.as_u16() {
        200 => Ok(answer.body),
        status => Err(format!("it answered {status}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
