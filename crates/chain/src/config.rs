//! `[[chain]]` in `credence.toml`: which chain, through which node, and with which key scores are written to it.
//!
//! ```toml
//! [[chain]]
//! id = "eip155:8453"           # CAIP-2
//! rpc_env = "BASE_RPC"         # the node's address; `rpc = "https://…"` where it holds no secret
//! first_block = 41000000       # the block in which the registries were created
//!
//! [chain.attest]               # absent: nothing is ever written
//! key_file = "keys/attest-base.hex"
//! ```
//!
//! Nothing here reads a file or the environment before it is used: a setting that is never used cannot fail. An error names the
//! setting, and repeats neither the node's address nor a key.

mod attest;
mod node;

use std::{collections::BTreeSet, fmt};

use alloy_primitives::Address;
use serde::Deserialize;

use crate::{ChainError, evm::EvmChain, solana::SolanaChain};
pub use attest::{AttestConfig, DEFAULT_REPLACE_AFTER_SECONDS};
pub use node::Environment;

/// One chain, as the operator configured it.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainConfig {
    /// The chain, as a CAIP-2 id: `eip155:8453`, or `solana:` and the start of its genesis hash.
    pub id: String,
    /// The node's address.
    rpc: Option<String>,
    /// The environment variable that holds the node's address.
    rpc_env: Option<String>,
    /// The programs on Solana, and the contracts elsewhere; without them those at the well-known addresses.
    registry: Option<String>,
    atom: Option<String>,
    identity: Option<String>,
    reputation: Option<String>,
    validation: Option<String>,
    first_block: Option<u64>,
    log_range: Option<u64>,
    confirmations: Option<u64>,
    max_head_age_seconds: Option<u64>,
    /// Requests a second to the node.
    requests_per_second: Option<u32>,
    #[serde(default)]
    payment_tokens: Vec<String>,
    ipfs_gateway: Option<String>,
    /// Addresses that we attested from before, with keys that are no longer here. Their feedback is never read.
    #[serde(default)]
    own: Vec<String>,
    /// Whether the node, and hosts that registrations name, may be on this machine.
    #[serde(default)]
    pub allow_loopback: bool,
    /// How scores are written; without it they are not.
    pub attest: Option<AttestConfig>,
}

/// The address of a node may hold a key, so no address is shown.
impl fmt::Debug for ChainConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChainConfig").field("id", &self.id).field("attest", &self.attest).finish_non_exhaustive()
    }
}

/// What is wrong with a setting of a chain. Correct it in the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("[[chain]] {chain}: {setting} {why}")]
pub struct ConfigError {
    /// The chain's id, as configured.
    pub chain: String,
    /// The setting.
    pub setting: &'static str,
    /// What is wrong with it, and what to do.
    pub why: String,
}

impl ChainConfig {
    /// An error about a setting of this chain.
    fn wrong(&self, setting: &'static str, why: impl Into<String>) -> ConfigError {
        ConfigError { chain: self.id.clone(), setting, why: why.into() }
    }

    /// Checks what can be checked without a node, a file or the environment.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.is_solana() {
            self.solana()?;
        } else {
            self.evm_without_own()?;
        }
        self.check_node()?;
        self.check_attest()
    }

    /// Whether it is a cluster of Solana.
    pub fn is_solana(&self) -> bool {
        self.id.starts_with("solana:")
    }

    /// The cluster and its programs.
    pub fn solana(&self) -> Result<SolanaChain, ConfigError> {
        let mut chain = SolanaChain::new(&self.id).map_err(|e| self.wrong("id", format!("is no cluster: {e}")))?;
        let of_ethereum = [
            ("identity", self.identity.is_some()),
            ("reputation", self.reputation.is_some()),
            ("validation", self.validation.is_some()),
        ];
        if let Some((setting, _)) = of_ethereum.into_iter().find(|(_, given)| *given) {
            return Err(self.wrong(setting, "is for chains of the Ethereum kind: name registry and atom"));
        }
        let program = |setting: &'static str, text: &str| {
            text.parse().map_err(|_| self.wrong(setting, "is no address: write 32 bytes in base58"))
        };
        if let Some(registry) = &self.registry {
            chain.registry = program("registry", registry)?;
        }
        if let Some(atom) = &self.atom {
            chain.atom = program("atom", atom)?;
        }
        chain.max_head_age = self.max_head_age_seconds.unwrap_or(chain.max_head_age);
        chain.ipfs_gateway = self.gateway()?;
        Ok(chain)
    }

    fn gateway(&self) -> Result<Option<url::Url>, ConfigError> {
        self.ipfs_gateway.as_deref().map(|text| self.parse_address("ipfs_gateway", text)).transpose()
    }

    /// The number of a chain of the Ethereum kind.
    fn evm_id(&self) -> Result<u64, ConfigError> {
        let number = self.id.strip_prefix("eip155:").and_then(|id| id.parse::<u64>().ok());
        match number {
            Some(number) if self.id == format!("eip155:{number}") => Ok(number),
            _ => Err(self.wrong("id", "is no chain that this version knows: write a CAIP-2 id such as eip155:8453")),
        }
    }

    /// The chain and its contracts. Reads the attesting key, whose address is left out of every reading.
    pub fn evm(&self, environment: &Environment<'_>) -> Result<EvmChain, ConfigError> {
        let mut chain = self.evm_without_own()?;
        if let Some(key) = self.evm_key(environment)? {
            chain.own.push(key.address());
        }
        Ok(chain)
    }

    fn evm_without_own(&self) -> Result<EvmChain, ConfigError> {
        let mut chain = EvmChain::new(self.evm_id()?);
        if self.registry.is_some() || self.atom.is_some() {
            return Err(self.wrong("registry", "and atom are for Solana: name identity and reputation"));
        }
        let address = |setting: &'static str, text: &str| {
            let why = "is no address: write 0x and 40 hexadecimal digits";
            text.parse::<Address>().map_err(|_| self.wrong(setting, why))
        };
        let addresses = |setting: &'static str, list: &[String]| {
            list.iter().map(|text| address(setting, text)).collect::<Result<BTreeSet<_>, _>>()
        };
        if self.identity.is_some() != self.reputation.is_some() {
            return Err(self.wrong("identity", "and reputation belong together: name both or neither"));
        }
        if let (Some(identity), Some(reputation)) = (&self.identity, &self.reputation) {
            (chain.identity, chain.reputation) = (address("identity", identity)?, address("reputation", reputation)?);
        }
        chain.validation = self.validation.as_deref().map(|text| address("validation", text)).transpose()?;
        chain.payment_tokens = addresses("payment_tokens", &self.payment_tokens)?.into_iter().collect();
        chain.own = addresses("own", &self.own)?.into_iter().collect();
        let positive = |setting: &'static str, value: Option<u64>, default: u64| match value {
            Some(0) => Err(self.wrong(setting, "must be at least 1")),
            value => Ok(value.unwrap_or(default)),
        };
        chain.first_block = self.first_block.unwrap_or(chain.first_block);
        chain.log_range = positive("log_range", self.log_range, chain.log_range)?;
        chain.confirmations = positive("confirmations", self.confirmations, chain.confirmations)?;
        chain.max_head_age = positive("max_head_age_seconds", self.max_head_age_seconds, chain.max_head_age)?;
        chain.ipfs_gateway = self.gateway()?;
        Ok(chain)
    }
}

/// Checks a list of chains: each of them, and that none is there twice.
pub fn check(chains: &[ChainConfig]) -> Result<(), ConfigError> {
    let mut seen = BTreeSet::new();
    for chain in chains {
        chain.check()?;
        if !seen.insert(&chain.id) {
            return Err(chain.wrong("id", "is configured twice: remove one"));
        }
    }
    Ok(())
}

impl From<ConfigError> for ChainError {
    fn from(error: ConfigError) -> Self {
        Self::Configuration(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parse(value: Value) -> ChainConfig {
        serde_json::from_value(value).unwrap()
    }

    fn wrong(value: Value) -> String {
        parse(value).check().unwrap_err().to_string()
    }

    #[test]
    fn defaults_are_the_well_known_registries() {
        let chain = parse(json!({"id": "eip155:8453", "rpc": "https://node.example/"}));
        chain.check().unwrap();
        let evm = chain.evm_without_own().unwrap();
        let known = EvmChain::new(8453);
        assert_eq!((evm.identity, evm.reputation, evm.log_range), (known.identity, known.reputation, known.log_range));
        assert!(chain.attest.is_none());
    }

    #[test]
    fn errors_name_the_chain_and_the_setting() {
        let node = "https://node.example/k3y";
        for (bad, setting) in [
            (json!({"id": "eip155:08453", "rpc": node}), "id"),
            (json!({"id": "base", "rpc": node}), "id"),
            (json!({"id": "eip155:1"}), "rpc"),
            (json!({"id": "solana:mainnet", "rpc": node}), "id"),
            (json!({"id": "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "rpc": node, "atom": "0x12"}), "atom"),
            (json!({"id": "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "rpc": node, "identity": "0x12"}), "identity"),
            (json!({"id": "eip155:1", "rpc": node, "registry": "x"}), "registry"),
            (json!({"id": "eip155:1", "rpc": node, "rpc_env": "X"}), "rpc"),
            (json!({"id": "eip155:1", "rpc": "ftp://node.example/k3y"}), "rpc"),
            (json!({"id": "eip155:1", "rpc": "http://node.example/k3y"}), "rpc"),
            (json!({"id": "eip155:1", "rpc": node, "identity": "0x12"}), "identity"),
            (json!({"id": "eip155:1", "rpc": node, "validation": "0x12"}), "validation"),
            (json!({"id": "eip155:1", "rpc": node, "payment_tokens": ["usdc"]}), "payment_tokens"),
            (json!({"id": "eip155:1", "rpc": node, "log_range": 0}), "log_range"),
            (json!({"id": "eip155:1", "rpc": node, "attest": {}}), "attest.key_file"),
            (
                json!({"id": "eip155:1", "rpc": node, "attest": {"key_env": "K", "max_fee_gwei": -1.0}}),
                "attest.max_fee_gwei",
            ),
            (
                json!({"id": "eip155:1", "rpc": node, "attest": {"key_env": "K", "daily_budget": "1 ETH"}}),
                "attest.daily_budget",
            ),
        ] {
            let error = wrong(bad.clone());
            let id = bad["id"].as_str().unwrap();
            assert!(error.starts_with(&format!("[[chain]] {id}: {setting} ")), "{error}");
            assert!(!error.contains("k3y"), "{error}");
        }
    }

    #[test]
    fn a_chain_is_configured_once_and_shows_no_address() {
        let chain = parse(json!({"id": "eip155:1", "rpc": "https://node.example/k3y"}));
        assert!(!format!("{chain:?}").contains("node.example"));
        assert!(check(std::slice::from_ref(&chain)).is_ok());
        assert!(check(&[chain.clone(), chain]).unwrap_err().to_string().contains("twice"));
    }
}
