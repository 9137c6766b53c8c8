//! The node: its address, from the file or the environment, and how often it is asked.

use std::{num::NonZeroU32, path::Path};

use credence_egress::{Egress, Rate, Settings};
use url::{Host, Url};

use super::{ChainConfig, ConfigError};
use crate::{Rpc, evm::EvmReader, solana::SolanaReader};

/// Requests a second to a node, where nothing else is configured.
const DEFAULT_RATE: u32 = 10;
/// The same for a node on this machine.
const LOOPBACK_RATE: u32 = 10_000;

/// Where settings find what the file only names.
#[derive(Clone, Copy)]
pub struct Environment<'a> {
    /// The folder that files are relative to.
    pub folder: &'a Path,
    /// Where the authority can be reached, for the User-Agent.
    pub contact: Option<&'a Url>,
    /// Values of environment variables.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
}

impl ChainConfig {
    /// Reads this chain's registries.
    pub fn evm_reader(&self, environment: &Environment<'_>) -> Result<EvmReader, ConfigError> {
        Ok(EvmReader::new(self.rpc(environment)?, self.evm(environment)?))
    }

    /// Reads this cluster's registry.
    pub fn solana_reader(&self, environment: &Environment<'_>) -> Result<SolanaReader, ConfigError> {
        Ok(SolanaReader::new(self.rpc(environment)?, self.solana()?))
    }

    /// The node. Asks it nothing.
    pub fn rpc(&self, environment: &Environment<'_>) -> Result<Rpc, ConfigError> {
        let url = self.address(environment)?;
        let default = if self.allow_loopback { LOOPBACK_RATE } else { DEFAULT_RATE };
        let per_second = NonZeroU32::new(self.requests_per_second.unwrap_or(default)).unwrap_or(NonZeroU32::MIN);
        let rate = Rate { per_second, burst: per_second };
        let mut settings = Settings::for_purpose("chain");
        settings.contact = environment.contact.cloned();
        settings.loopback = self.allow_loopback;
        if self.allow_loopback {
            settings.rate = rate;
        }
        let egress = Egress::new(settings).map_err(|e| self.wrong("rpc", format!("cannot be asked: {e}")))?;
        Ok(Rpc::new(egress, url, Some(rate)))
    }

    /// Checks the node's address, where it is in the file.
    pub(super) fn check_node(&self) -> Result<(), ConfigError> {
        match (&self.rpc, &self.rpc_env) {
            (Some(_), Some(_)) => Err(self.wrong("rpc", "and rpc_env are both there: remove one")),
            (None, None) => Err(self.wrong("rpc", "is missing: name the node's address, or rpc_env")),
            (Some(text), None) => self.parse_address("rpc", text).map(drop),
            (None, Some(_)) => Ok(()),
        }
    }

    fn address(&self, environment: &Environment<'_>) -> Result<Url, ConfigError> {
        self.check_node()?;
        let Some(name) = &self.rpc_env else {
            return self.parse_address("rpc", self.rpc.as_deref().unwrap_or_default());
        };
        let text = (environment.variable)(name)
            .ok_or_else(|| self.wrong("rpc_env", format!("names {name}, which is not set in the environment")))?;
        self.parse_address("rpc_env", text.trim())
    }

    pub(super) fn parse_address(&self, setting: &'static str, text: &str) -> Result<Url, ConfigError> {
        let local = |url: &Url| match url.host() {
            Some(Host::Ipv4(ip)) => ip.is_loopback(),
            Some(Host::Ipv6(ip)) => ip.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost",
            None => false,
        };
        let url = Url::parse(text).ok().filter(Url::has_host);
        match url {
            Some(url) if local(&url) && !self.allow_loopback => {
                Err(self.wrong(setting, "is on this machine: set allow_loopback = true"))
            }
            Some(url) if url.scheme() == "https" || url.scheme() == "http" && local(&url) => Ok(url),
            _ => Err(self.wrong(setting, "holds no https address")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_environment_holds_the_address_and_nothing_shows_it() {
        let folder = tempfile::tempdir().unwrap();
        let variable = |name: &str| match name {
            "NODE" => Some("https://node.example/k3y\n".to_owned()),
            "BROKEN" => Some("k3y".to_owned()),
            _ => None,
        };
        let environment = Environment { folder: folder.path(), contact: None, variable: &variable };
        let rpc = |name: &str| {
            let chain: ChainConfig = serde_json::from_value(json!({"id": "eip155:1", "rpc_env": name})).unwrap();
            chain.rpc(&environment)
        };
        assert!(!format!("{:?}", rpc("NODE").unwrap()).contains("k3y"));
        assert!(!rpc("BROKEN").unwrap_err().to_string().contains("k3y"));
        assert!(rpc("NONE").unwrap_err().to_string().contains("names NONE, which is not set"));
    }

    #[test]
    fn this_machine_is_asked_only_where_the_operator_allows_it() {
        let chain = |allow: bool| -> ChainConfig {
            serde_json::from_value(json!({"id": "eip155:1", "rpc": "http://127.0.0.1:8545", "allow_loopback": allow}))
                .unwrap()
        };
        assert!(chain(true).check().is_ok());
        assert!(chain(false).check().unwrap_err().to_string().contains("allow_loopback"));
    }
}
