//! Consent: whether a target may be probed, asked before the first packet and every minute of a run.
//!
//! The sandbox sends nothing to an origin that has not passed [`ConsentCheck::check`] with the very address that is used.

use std::{net::SocketAddr, time::Duration};

use credence_protocol::{EntityId, PublicKey};
use futures_util::future::BoxFuture;
use url::{Host, Url};

use crate::domain::{self, ExpectedLine};

/// How often consent is asked for again during a run.
pub const RECHECK: Duration = Duration::from_secs(60);

/// Decides whether an origin at an address may be probed.
pub trait ConsentCheck: Send + Sync {
    /// `Ok` where the owner of `origin` (scheme, host and port) agreed, as proved at `address`. The error is for people: what was
    /// missing and what to do.
    fn check<'a>(&'a self, origin: &'a str, address: SocketAddr) -> BoxFuture<'a, Result<(), String>>;
}

/// For targets on this machine, by an explicit flag of the operator. Refuses every other address.
#[derive(Debug, Clone, Copy)]
pub struct LoopbackOnly;

impl ConsentCheck for LoopbackOnly {
    fn check<'a>(&'a self, origin: &'a str, address: SocketAddr) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            if address.ip().is_loopback() {
                return Ok(());
            }
            Err(format!("{origin} is not on this machine, and its owner has not proved control of it"))
        })
    }
}

/// What is done with a target on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loopback {
    /// It is refused, as it is unless an operator says otherwise.
    Refuse,
    /// The operator's flag is the consent.
    Allow,
    /// Its control has to be proved as anywhere else: for a service whose agents name their addresses themselves.
    Prove,
}

/// The consent of an agent's owner: control of the target's scheme, host and port was proved for that agent, and the very address
/// that is used still serves the challenge.
///
/// The end of the challenge is not looked at here: it bounds the proof, which is in the ledger with a time of its own. An owner who removes the
/// file ends the consent within a minute.
#[derive(Debug, Clone)]
pub struct DomainConsent {
    /// The authority's keys, of which one made the challenge.
    pub keys: Vec<PublicKey>,
    /// The agent.
    pub agent: EntityId,
    /// Hosts whose control was proved for the agent, with their ports where those are not 443.
    pub proved: Vec<String>,
    /// What holds for this machine.
    pub loopback: Loopback,
}

impl DomainConsent {
    /// What can be said before the host's name is even looked up: whether control of it was proved.
    pub fn permits(&self, url: &Url) -> Result<(), String> {
        if self.loopback == Loopback::Allow && is_this_machine(url) {
            return Ok(());
        }
        let host = host_and_port(url).ok_or_else(|| format!("'{url}' names no host"))?;
        if self.proved.contains(&host) { Ok(()) } else { Err(self.not_proved(&host)) }
    }

    fn not_proved(&self, host: &str) -> String {
        let agent = &self.agent;
        format!(
            "control of {host} was not proved for '{agent}', so nothing is sent there: `credence agent prove-domain {agent} \
             https://{host}`"
        )
    }

    async fn ask(&self, origin: &str, address: SocketAddr) -> Result<(), String> {
        let url = Url::parse(origin).map_err(|_| format!("'{origin}' is not an address"))?;
        let local = address.ip().is_loopback();
        match self.loopback {
            Loopback::Refuse if local => {
                return Err(format!("{origin} is on this machine: --allow-loopback permits that"));
            }
            Loopback::Allow if local => return Ok(()),
            _ => {}
        }
        if url.scheme() != "https" && !local {
            return Err(format!("{origin} is not an https address: only those are probed"));
        }
        let host = host_and_port(&url).ok_or_else(|| format!("'{origin}' names no host"))?;
        if !self.proved.contains(&host) {
            return Err(self.not_proved(&host));
        }
        let expected = self.keys.iter().map(|key| ExpectedLine { key, agent: &self.agent, host: &host, now: None });
        let checked = domain::check_domain_at(&host, &expected.collect::<Vec<_>>(), address, local).await;
        checked.map_err(|refused| format!("the owner's consent to be probed is not there: {refused}"))
    }
}

impl ConsentCheck for DomainConsent {
    fn check<'a>(&'a self, origin: &'a str, address: SocketAddr) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(self.ask(origin, address))
    }
}

/// Whether an address says by itself that it is of this machine.
pub fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// A host as proofs name it: with its port where that is not 443.
pub fn host_and_port(url: &Url) -> Option<String> {
    let host = url.host_str()?;
    let port = url.port_or_known_default()?;
    Some(if port == 443 { host.to_owned() } else { format!("{host}:{port}") })
}
