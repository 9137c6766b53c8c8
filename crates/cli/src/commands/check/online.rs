//! `--online`: whether what was signed still holds, asked where it was signed.
//!
//! A credential names its status lists. A response or badge does not name its authority, so the caller does. What comes back is
//! believed only under the same keys as the document.

use std::{io::Read, time::Duration};

use anyhow::{Context, ensure};
use credence_output::{badge, response};
use credence_protocol::PublicKey;
use reqwest::blocking::Client;
use url::{Host, Url};

use super::{MAX_FILE_BYTES, in_force};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Nobody could say whether the document still holds: neither yes nor no.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotAsked(String);

/// Asks over HTTP.
pub struct Online {
    client: Client,
    authority: Option<Url>,
}

impl Online {
    pub fn new(authority: Option<Url>) -> anyhow::Result<Self> {
        let client = Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(PATIENCE)
            .user_agent(concat!("credence/", env!("CARGO_PKG_VERSION")))
            .build()
            .context("no HTTP client")?;
        Ok(Self { client, authority })
    }

    /// The status list at `url`.
    pub fn status_list(&self, url: &str) -> anyhow::Result<Vec<u8>> {
        self.get(Url::parse(url).with_context(|| format!("'{url}' is not an address"))?)
    }

    /// Fails unless the authority gives an answer now, to the same question, that is no worse.
    pub fn response(&self, old: &response::Checked, keys: &[PublicKey]) -> anyhow::Result<()> {
        let mut url = self.route(&["v1", "entities", &old.entity, "trust-signals"])?;
        url.query_pairs_mut().append_pair("url", &old.url);
        if let Some(context) = &old.context {
            url.query_pairs_mut().append_pair("context", context);
        }
        let present =
            response::verify(&self.get(url.clone())?, keys).with_context(|| format!("the answer of {url}"))?;
        in_force(present.expires).with_context(|| format!("the answer of {url}"))?;
        ensure!(
            present.entity == old.entity && present.url == old.url && present.context == old.context,
            "{url} answered another question"
        );
        let advice = |checked: &response::Checked| checked.action.clone().unwrap_or_default();
        ensure!(
            present.status == old.status && caution(&advice(&present)) <= caution(&advice(old)),
            "its signature holds, but the authority says now that '{}' is {}, {}",
            present.entity,
            present.status,
            advice(&present)
        );
        Ok(())
    }

    /// Fails where the agent was revoked or lost its rating since. The number may have moved: that is what badges do.
    pub fn badge(&self, old: &badge::Claim, keys: &[PublicKey]) -> anyhow::Result<()> {
        let url = self.route(&["v1", "agents", old.agent.as_str(), "badge.svg"])?;
        let svg = self.get(url.clone())?;
        let present =
            badge::verify(&String::from_utf8_lossy(&svg), keys).with_context(|| format!("the badge at {url}"))?;
        in_force(present.expires).with_context(|| format!("the badge at {url}"))?;
        ensure!(present.agent == old.agent, "{url} is the badge of '{}'", present.agent);
        let shown = |claim: &badge::Claim| match claim.score {
            _ if claim.revoked => "revoked",
            Some(_) => "rated",
            None => "not rated",
        };
        ensure!(
            shown(&present) == shown(old),
            "its signature holds, but the authority says now that '{}' is {}",
            present.agent,
            shown(&present)
        );
        Ok(())
    }

    fn route(&self, parts: &[&str]) -> anyhow::Result<Url> {
        let needed = || NotAsked("--online needs --authority URL here: where the authority is reached".into());
        let mut url = self.authority.clone().ok_or_else(needed)?;
        ensure!(url.has_host(), NotAsked(format!("--authority: '{url}' is not an http address")));
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(parts);
        }
        Ok(url)
    }

    fn get(&self, url: Url) -> anyhow::Result<Vec<u8>> {
        let loopback = match url.host() {
            Some(Host::Ipv4(ip)) => ip.is_loopback(),
            Some(Host::Ipv6(ip)) => ip.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost",
            None => false,
        };
        let failed = |why: &str| NotAsked(format!("whether it still holds is not known: {url} {why}"));
        ensure!(url.scheme() == "https" || loopback, failed("is not an https address"));
        let response = self.client.get(url.clone()).send().with_context(|| failed("could not be reached"))?;
        let status = response.status().as_u16();
        ensure!(status == 200, failed(&format!("answered {status}")));
        let mut bytes = Vec::new();
        response.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).with_context(|| failed("broke off"))?;
        ensure!(bytes.len() as u64 <= MAX_FILE_BYTES, failed(&format!("sent more than {MAX_FILE_BYTES} bytes")));
        Ok(bytes)
    }
}

/// How cautious an advice is; an unknown one is the most.
fn caution(action: &str) -> u8 {
    match action {
        "proceed" => 0,
        "caution" => 1,
        _ => 2,
    }
}
