//! From what an operator says of a target to something that can be probed.

use std::sync::Arc;

use credence_egress::Egress;
use sha2::{Digest, Sha256};
use url::Url;

use super::{
    Target, Transport,
    a2a::A2a,
    chat::Chat,
    http::{HttpTarget, HttpTemplate},
    mcp::Mcp,
    redact::{Redacted, Redactor},
    responses::Responses,
    stdio::StdioServer,
    wire::{Wire, WireSettings},
};
use crate::{consent::ConsentCheck, runner::Cancel};

/// What an operator says of a target.
#[derive(Debug, Clone)]
pub struct TargetSpec {
    /// Its transport.
    pub transport: Transport,
    /// Its address. For A2A the agent's base or its card.
    pub url: String,
    /// The model to name (`chat`, `responses`).
    pub model: Option<String>,
    /// The request and where the answer is (`http`).
    pub http: HttpTemplate,
}

impl TargetSpec {
    /// A target at an address.
    pub fn new(transport: Transport, url: &str) -> Self {
        Self { transport, url: url.to_owned(), model: None, http: HttpTemplate::default() }
    }

    /// The parsed address; fails where it is none or holds a password.
    pub fn parsed_url(&self) -> Result<Url, String> {
        let text = &self.url;
        let url = Url::parse(text).map_err(|e| format!("the target is not an address: {e}. Use https://host/path"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err("the address holds a user name or password: give credentials in the environment".to_owned());
        }
        if !url.has_host() || !["http", "https"].contains(&url.scheme()) {
            return Err("the target is not an http address: use https://host/path".to_owned());
        }
        Ok(url)
    }

    /// The address as it is recorded: without query and fragment, which may hold a secret.
    pub fn recorded_url(&self) -> Result<String, String> {
        let mut url = self.parsed_url()?;
        url.set_query(None);
        url.set_fragment(None);
        Ok(url.to_string())
    }
}

/// Connects to a target: resolves it, asks for consent, and reads its card where it has one. Nothing is sent before consent.
pub async fn connect(
    spec: &TargetSpec,
    settings: WireSettings,
    consent: Arc<dyn ConsentCheck>,
    cancel: Cancel,
) -> Result<Box<dyn Target>, String> {
    let egress = Egress::new(settings.egress()).map_err(|e| e.to_string())?;
    connect_with(egress, spec, settings, consent, cancel).await
}

/// The same with a client of the caller's, which should be made with [`WireSettings::egress`].
pub async fn connect_with(
    egress: Egress,
    spec: &TargetSpec,
    settings: WireSettings,
    consent: Arc<dyn ConsentCheck>,
    cancel: Cancel,
) -> Result<Box<dyn Target>, String> {
    let url = spec.parsed_url()?;
    let redactor = Redactor::new(settings.credentials.iter().flatten());
    let wire = Wire::open_with(egress, &url, settings, consent, cancel).await?;
    let failed = |error| redactor.error(error).why;
    let target: Box<dyn Target> = match spec.transport {
        Transport::Chat => Box::new(Chat::new(wire, &url, spec.model.clone())),
        Transport::Responses => Box::new(Responses::new(wire, &url, spec.model.clone())),
        Transport::A2a => Box::new(A2a::discover(wire, &url).await.map_err(failed)?),
        Transport::Mcp => Box::new(Mcp::open(wire, &url).await.map_err(failed)?),
        Transport::Http => Box::new(HttpTarget::new(wire, &url, spec.http.clone())?),
    };
    Ok(Box::new(Redacted { target, redactor }))
}

/// Tells commands of tool servers apart where their arguments, which may hold a token, must not stand.
pub fn command_digest(command: &[String]) -> String {
    let mut hash = Sha256::new();
    for word in command {
        hash.update((word.len() as u64).to_be_bytes());
        hash.update(word.as_bytes());
    }
    data_encoding::HEXLOWER.encode(&hash.finalize())
}

/// Starts a tool server as a process of this machine (`mcp` over standard input and output). Only an operator may name a command.
pub async fn start(command: &[String], settings: WireSettings, cancel: Cancel) -> Result<Box<dyn Target>, String> {
    Ok(Box::new(StdioServer::start(command, settings, cancel).await?))
}
