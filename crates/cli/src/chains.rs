//! The chains of `credence.toml`, with what they need of this folder and the environment.

use std::fs;

use anyhow::{Context, bail};
use credence_chain::{
    ChainConfig,
    config::{self, Environment},
};
use url::Url;

use crate::{home::Home, keyfile};

/// The configured chains, checked.
pub fn configured(home: &Home) -> anyhow::Result<Vec<ChainConfig>> {
    let file = home.config_file();
    let mut chains = Vec::new();
    for (n, table) in home.config()?.chain.into_iter().enumerate() {
        let name = table.get("id").and_then(toml::Value::as_str).map_or_else(|| format!("{}", n + 1), str::to_owned);
        let chain: ChainConfig = table.try_into().with_context(|| format!("{}: [[chain]] {name}", file.display()))?;
        chains.push(chain);
    }
    config::check(&chains).with_context(|| file.display().to_string())?;
    Ok(chains)
}

/// The configured chain with this CAIP-2 id.
pub fn named(home: &Home, id: &str) -> anyhow::Result<ChainConfig> {
    let chains = configured(home)?;
    let known: Vec<String> = chains.iter().map(|chain| chain.id.clone()).collect();
    chains.into_iter().find(|chain| chain.id == id).with_context(|| {
        let file = home.config_file();
        match known.is_empty() {
            true => format!("no chain is configured: add [[chain]] with id = \"{id}\" to {}", file.display()),
            false => format!("{id} is not configured in {}, which has {}", file.display(), known.join(", ")),
        }
    })
}

/// Calls `with` with what settings refer to: this folder, and the process's environment.
pub fn environment<T>(home: &Home, contact: Option<&Url>, with: impl FnOnce(&Environment<'_>) -> T) -> T {
    let variable = |name: &str| std::env::var(name).ok();
    with(&Environment { folder: home.path(), contact, variable: &variable })
}

/// Fails if a key of the authority is the chain's attesting key: what leaks of one would be the other.
pub fn refuse_shared_key(home: &Home, chain: &ChainConfig, environment: &Environment<'_>) -> anyhow::Result<()> {
    let (evm, solana) = match chain.is_solana() {
        true => (None, chain.solana_key(environment)?),
        false => (chain.evm_key(environment)?, None),
    };
    let is_made_of = |seed: &[u8; 32]| {
        evm.as_ref().is_some_and(|key| key.is_made_of(seed)) || solana.as_ref().is_some_and(|key| key.is_made_of(seed))
    };
    let folder = home.path().join("keys");
    let mut files = vec![home.log_key_file()];
    if folder.exists() {
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        files.extend(entries.filter_map(|entry| Some(entry.ok()?.path())));
    }
    for file in files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "jwk") && file.exists()) {
        if is_made_of(&keyfile::read(file)?.seed()) {
            let chain = &chain.id;
            bail!("[[chain]] {chain}: the attesting key is also in {}: make one of its own", file.display());
        }
    }
    Ok(())
}
