//! `[chain.attest]`: the key that writes scores, and what that may cost.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{ChainConfig, ConfigError, Environment};
use crate::{
    ChainError,
    attest::Writer,
    evm::{EvmKey, EvmWriter, FeePolicy},
    solana::{SolanaFees, SolanaKey, SolanaWriter},
};

/// After so long a transaction that is not included is replaced by one that offers more.
pub const DEFAULT_REPLACE_AFTER_SECONDS: u64 = 180;
const WEI_PER_GWEI: f64 = 1e9;
/// A cap above a million gwei is a mistake of units.
const MAX_GWEI: f64 = 1e6;

/// How scores are written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttestConfig {
    /// The key's file, of mode 0600, relative to the authority's folder.
    key_file: Option<PathBuf>,
    /// The environment variable that holds the key.
    key_env: Option<String>,
    /// Whether `serve` attests by itself.
    #[serde(default)]
    pub by_rule: bool,
    /// The most for a unit of gas, base fee and tip together (Ethereum kind).
    max_fee_gwei: Option<f64>,
    /// The most for one transaction, and what a compute unit is worth in millionths of a lamport (Solana).
    max_fee_lamports: Option<u64>,
    unit_price: Option<u64>,
    /// The most that all attestations of 24 hours may cost, in wei or lamports.
    daily_budget: Option<String>,
    /// After so long a transaction that is not included is replaced.
    #[serde(default = "default_replace_after")]
    pub replace_after_seconds: u64,
}

fn default_replace_after() -> u64 {
    DEFAULT_REPLACE_AFTER_SECONDS
}

impl ChainConfig {
    pub(super) fn check_attest(&self) -> Result<(), ConfigError> {
        let Some(attest) = &self.attest else { return Ok(()) };
        match (&attest.key_file, &attest.key_env) {
            (None, None) => Err(self.wrong("attest.key_file", "is missing: name the key's file, or attest.key_env")),
            (Some(_), Some(_)) => Err(self.wrong("attest.key_file", "and attest.key_env are both there: remove one")),
            _ if attest.replace_after_seconds == 0 => {
                Err(self.wrong("attest.replace_after_seconds", "must be at least 1"))
            }
            _ => self.fees().and(self.daily_budget()).map(drop),
        }
    }

    /// The attesting key on a chain of the Ethereum kind; `None` where nothing is written.
    pub fn evm_key(&self, environment: &Environment<'_>) -> Result<Option<EvmKey>, ConfigError> {
        self.key(environment, EvmKey::from_file, EvmKey::from_text)
    }

    /// The attesting key on Solana; `None` where nothing is written.
    pub fn solana_key(&self, environment: &Environment<'_>) -> Result<Option<SolanaKey>, ConfigError> {
        self.key(environment, SolanaKey::from_file, SolanaKey::from_text)
    }

    fn key<K>(
        &self,
        environment: &Environment<'_>,
        from_file: fn(&Path) -> Result<K, ChainError>,
        from_text: fn(&str, Option<String>) -> Result<K, ChainError>,
    ) -> Result<Option<K>, ConfigError> {
        self.check_attest()?;
        let Some(attest) = &self.attest else { return Ok(None) };
        let (setting, key) = match (&attest.key_file, &attest.key_env) {
            (Some(file), _) => ("attest.key_file", from_file(&environment.folder.join(file))),
            (None, name) => {
                let name = name.as_deref().unwrap_or_default();
                ("attest.key_env", from_text(name, (environment.variable)(name)))
            }
        };
        key.map(Some).map_err(|e| self.wrong(setting, format!("names a key that does not work: {e}")))
    }

    /// Writes to this chain; `None` where nothing is written.
    pub fn writer(&self, environment: &Environment<'_>) -> Result<Option<Writer>, ConfigError> {
        if self.is_solana() {
            let Some(key) = self.solana_key(environment)? else { return Ok(None) };
            let (rpc, chain) = (self.rpc(environment)?, self.solana()?);
            return Ok(Some(Writer::Solana(SolanaWriter::new(rpc, chain, key, self.solana_fees()))));
        }
        let Some(key) = self.evm_key(environment)? else { return Ok(None) };
        let (rpc, chain) = (self.rpc(environment)?, self.evm(environment)?);
        Ok(Some(Writer::Evm(EvmWriter::new(rpc, chain, key, self.fees()?))))
    }

    fn solana_fees(&self) -> SolanaFees {
        let default = SolanaFees::default();
        let set = |of: fn(&AttestConfig) -> Option<u64>| self.attest.as_ref().and_then(of);
        SolanaFees {
            max_fee: set(|attest| attest.max_fee_lamports).unwrap_or(default.max_fee),
            unit_price: set(|attest| attest.unit_price).unwrap_or(default.unit_price),
            ..default
        }
    }

    /// What a transaction may cost.
    pub fn fees(&self) -> Result<FeePolicy, ConfigError> {
        let mut fees = FeePolicy::default();
        if let Some(gwei) = self.attest.as_ref().and_then(|attest| attest.max_fee_gwei) {
            if !(gwei > 0.0 && gwei <= MAX_GWEI) {
                return Err(self.wrong("attest.max_fee_gwei", "must be above 0 and at most 1000000"));
            }
            fees.max_fee_per_gas = (gwei * WEI_PER_GWEI).round() as u128;
            fees.max_tip = fees.max_tip.min(fees.max_fee_per_gas);
        }
        Ok(fees)
    }

    /// The most that all attestations of 24 hours may cost; `None`: no limit but each transaction's own.
    pub fn daily_budget(&self) -> Result<Option<u128>, ConfigError> {
        let Some(text) = self.attest.as_ref().and_then(|attest| attest.daily_budget.as_deref()) else {
            return Ok(None);
        };
        let why = "is no whole number: write the chain's smallest unit, such as \"2000000000000000\" wei";
        text.parse().map(Some).map_err(|_| self.wrong("attest.daily_budget", why))
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use serde_json::json;

    use super::*;

    const KEY: &str = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";

    #[test]
    fn what_we_attest_from_is_left_out_of_readings() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("attest.hex");
        fs::write(&file, KEY).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let environment = Environment { folder: folder.path(), contact: None, variable: &|_| None };
        let former = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
        let chain: ChainConfig = serde_json::from_value(json!({
            "id": "eip155:8453", "rpc": "https://node.example/", "own": [former],
            "attest": {"key_file": "attest.hex", "max_fee_gwei": 0.5, "daily_budget": "2000000000000000"}
        }))
        .unwrap();
        let own: Vec<String> = chain.evm(&environment).unwrap().own.iter().map(ToString::to_string).collect();
        assert_eq!(own, [former, "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"]);
        assert_eq!(chain.fees().unwrap().max_fee_per_gas, 500_000_000);
        assert_eq!(chain.daily_budget(), Ok(Some(2_000_000_000_000_000)));
        assert_eq!(chain.writer(&environment).unwrap().unwrap().chain(), "eip155:8453");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let error = chain.evm(&environment).unwrap_err().to_string();
        assert!(error.contains("attest.key_file") && error.contains("chmod 600"), "{error}");
    }

    #[test]
    fn a_chain_without_a_key_is_never_written_to() {
        let environment = Environment { folder: Path::new("."), contact: None, variable: &|_| None };
        let chain: ChainConfig =
            serde_json::from_value(json!({"id": "eip155:8453", "rpc": "https://node.example/"})).unwrap();
        assert!(chain.writer(&environment).unwrap().is_none());
    }
}
