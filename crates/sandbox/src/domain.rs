//! Who controls a domain: the owner of an agent serves a signed line at a well-known path, and the authority fetches it.
//!
//! The line is signed by the authority and names agent, host and end: nothing has to be remembered, and nobody else can make one. Only
//! hosts that the agent is registered for are asked, never private addresses, by their addresses after resolution; redirects are not
//! followed. The service, `credence agent prove-domain` and the [consent](crate::consent) to a run use this one implementation.

use std::{net::SocketAddr, time::Duration};

use credence_egress::{Destination, Egress, EgressError, Request, Settings};
use credence_protocol::{Alias, EntityId, PublicKey, SecretKey, Signature, Timestamp};
use url::Url;

/// Where the line has to be.
pub const PATH: &str = "/.well-known/credence-challenge";
/// How long a line can be used to prove control.
pub const HOLDS_SECONDS: i64 = 7 * 86_400;
const VERSION: &str = "credence-domain-control-v1";
const PATIENCE: Duration = Duration::from_secs(5);
const MAX_BYTES: usize = 4096;

/// What an owner serves at [`PATH`].
pub fn line(key: &SecretKey, agent: &EntityId, host: &str, expires: Timestamp) -> String {
    let seconds = expires.micros() / 1_000_000;
    let signature = key.sign(signed(agent, host, seconds).as_bytes());
    format!("{VERSION} {agent} {host} {seconds} {signature}")
}

fn signed(agent: &EntityId, host: &str, seconds: i64) -> String {
    format!("{VERSION} {agent} {host} {seconds}")
}

/// What a line has to say.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedLine<'a> {
    /// The authority's key.
    pub key: &'a PublicKey,
    /// The agent.
    pub agent: &'a EntityId,
    /// The host, with its port where that is not 443.
    pub host: &'a str,
    /// The time at which it must still hold; `None` where control was proved before and the line only has to be there still.
    pub now: Option<Timestamp>,
}

impl ExpectedLine<'_> {
    /// Whether `text` is that line.
    fn check(&self, text: &str) -> Result<(), &'static str> {
        let parts: Vec<&str> = text.trim().split(' ').collect();
        let [version, named, domain, seconds, signature] = parts.as_slice() else {
            return Err("what is there is not a challenge");
        };
        if *version != VERSION || *named != self.agent.as_str() || *domain != self.host {
            return Err("the challenge that is there is for another agent or domain");
        }
        let seconds: i64 = seconds.parse().map_err(|_| "the challenge has no time")?;
        let signature: Signature = signature.parse().map_err(|_| "the challenge has no signature")?;
        self.key
            .verify(signed(self.agent, self.host, seconds).as_bytes(), &signature)
            .map_err(|_| "the challenge was not made by this authority")?;
        let is_past = self.now.is_some_and(|now| now.micros() / 1_000_000 > seconds);
        if is_past { Err("the challenge has expired: ask for a new one") } else { Ok(()) }
    }
}

/// The host (with its port where it has one) among an agent's aliases that `address` names.
pub fn host_of(aliases: &[Alias], address: &str) -> Result<String, String> {
    let wanted = Alias::parse(address).map_err(|e| format!("address: {e}"))?;
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
    let unusable = || "address: one of the agent's own aliases, https://… or did:web:…".to_owned();
    of(&wanted).filter(|_| registered).ok_or_else(unusable)
}

/// Fetches the line from where the host's name leads, and checks it. `hold` is given back by the last thread that works on it: a place
/// in a queue, say.
pub async fn check_domain<H: Send + 'static>(
    expected: ExpectedLine<'_>,
    allow_loopback: bool,
    hold: H,
) -> Result<(), String> {
    let host = expected.host;
    let failed = |why: &str| format!("https://{host}{PATH}: {why}");
    let wanted = Document { host, path: PATH, allow_loopback, max_bytes: MAX_BYTES };
    let bytes = fetch(wanted, hold).await.map_err(|why| failed(&why))?;
    expected.check(&String::from_utf8_lossy(&bytes)).map_err(failed)
}

/// Fetches the line from one address, whatever the host's name leads to by now, and checks that it is one of the expected.
pub async fn check_domain_at(
    host: &str,
    expected: &[ExpectedLine<'_>],
    address: SocketAddr,
    allow_loopback: bool,
) -> Result<(), String> {
    let failed = |why: &str| format!("https://{host}{PATH} at {}: {why}", address.ip());
    let name = host_name(host).map_err(|why| failed(&why))?;
    let destination = Destination { host: name, addresses: vec![address] };
    let bytes = ask(host, PATH, destination, allow_loopback, MAX_BYTES).await.map_err(|why| failed(&why))?;
    let text = String::from_utf8_lossy(&bytes);
    let mut refused = "this authority has no key";
    for expected in expected {
        match expected.check(&text) {
            Ok(()) => return Ok(()),
            Err(why) => refused = why,
        }
    }
    Err(failed(refused))
}

/// A document on another host.
#[derive(Debug, Clone, Copy)]
pub struct Document<'a> {
    /// With its port when it has one.
    pub host: &'a str,
    /// The path.
    pub path: &'a str,
    /// Whether the host may be this machine.
    pub allow_loopback: bool,
    /// The most that is read.
    pub max_bytes: usize,
}

/// Fetches a document from a public address, or says why not. `hold` is held until the last thread that works on it is free.
pub async fn fetch<H: Send + 'static>(wanted: Document<'_>, hold: H) -> Result<Vec<u8>, String> {
    let Document { host, path, allow_loopback, max_bytes } = wanted;
    let url = Url::parse(&format!("https://{host}{path}")).map_err(|_| "not an address")?;
    let resolved = Destination::resolve(&url, allow_loopback, hold).await;
    let (destination, _hold) = resolved.map_err(|e| e.to_string())?;
    ask(host, path, destination, allow_loopback, max_bytes).await
}

async fn ask(
    host: &str,
    path: &str,
    destination: Destination,
    allow_loopback: bool,
    max_bytes: usize,
) -> Result<Vec<u8>, String> {
    // A test's or demo's host on this machine has no certificate.
    let scheme = if destination.is_loopback() { "http" } else { "https" };
    let settings = Settings { loopback: allow_loopback, ..Settings::for_purpose("domain") };
    let exchange = async {
        let request = Request::get(&format!("{scheme}://{host}{path}"))?.max_bytes(max_bytes).deadline(PATIENCE);
        Egress::new(settings)?.pinned(destination)?.send(request).await
    };
    let answer = exchange.await.map_err(|e: EgressError| e.to_string())?;
    match answer.status.as_u16() {
        200 => Ok(answer.body),
        status => Err(format!("it answered {status}")),
    }
}

/// A host without its port.
fn host_name(host: &str) -> Result<String, String> {
    let url = Url::parse(&format!("https://{host}/")).map_err(|_| "not an address")?;
    url.host_str().map(str::to_owned).ok_or_else(|| "not an address".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_for_one_agent_one_host_and_a_time() {
        let key = SecretKey::from_seed(&[3; 32]);
        let public = key.public();
        let (bot, other) = (EntityId::new("bot").unwrap(), EntityId::new("other").unwrap());
        let now: Timestamp = "2026-11-16T00:00:00Z".parse().unwrap();
        let text = line(&key, &bot, "shop.example", now.plus_seconds(60));
        let expected = ExpectedLine { key: &public, agent: &bot, host: "shop.example", now: Some(now) };
        assert!(expected.check(&format!("{text}\n")).is_ok());
        assert!(ExpectedLine { agent: &other, ..expected }.check(&text).is_err());
        assert!(ExpectedLine { host: "evil.example", ..expected }.check(&text).is_err());
        assert!(ExpectedLine { now: Some(now.plus_seconds(62)), ..expected }.check(&text).is_err());
        assert!(ExpectedLine { now: None, ..expected }.check(&text).is_ok());
        let stranger = SecretKey::from_seed(&[4; 32]).public();
        assert!(ExpectedLine { key: &stranger, ..expected }.check(&text).is_err());
        assert!(expected.check("<html>not found</html>").is_err());
        let later = text.replace(&(now.plus_seconds(60).micros() / 1_000_000).to_string(), "99999999999");
        assert!(expected.check(&later).is_err());
    }
}
