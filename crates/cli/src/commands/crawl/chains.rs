//! Readers of chains as sources.

use std::sync::Arc;

use anyhow::{Context, ensure};
use credence_chain::{ChainConfig, solana::MAIN_CLUSTER};
use credence_ingest::links::{Registries, RegistryReader};
use credence_pipeline::{Authority, NewSource, query};
use credence_protocol::{EntityId, Tag};
use credence_server::crawl::ChainSource;
use serde_json::{Value, json};
use url::Url;

use crate::{chains, home::Home};

/// The tag that a second registration measures.
const CONSISTENCY: &str = "cross_chain_consistency";

/// The reader of the configured chain with this id.
pub fn source(home: &Home, id: &str) -> anyhow::Result<ChainSource> {
    reader(home, &chains::named(home, id)?)
}

/// Every chain that is configured, with its reader.
pub fn all(home: &Home) -> anyhow::Result<Vec<ChainSource>> {
    chains::configured(home)?.iter().map(|chain| reader(home, chain)).collect()
}

/// What reads the configured chains, for proofs of links.
pub fn registries(home: &Home) -> anyhow::Result<Registries> {
    let readers = all(home)?.into_iter().map(|source| Arc::new(source) as Arc<dyn RegistryReader>);
    Ok(readers.collect())
}

fn reader(home: &Home, chain: &ChainConfig) -> anyhow::Result<ChainSource> {
    let serve = home.settings(&home.config()?.serve, &[])?;
    let contact = Url::parse(&serve.public_url).ok();
    chains::environment(home, contact.as_ref(), |environment| {
        chains::refuse_shared_key(home, chain, environment)?;
        anyhow::Ok(match chain.is_solana() {
            true => ChainSource::solana(chain.solana_reader(environment)?)?,
            false => ChainSource::evm(chain.evm_reader(environment)?)?,
        })
    })
    .with_context(|| home.config_file().display().to_string())
}

/// As `crawl list` shows configured chains.
pub fn listed(home: &Home) -> anyhow::Result<Vec<Value>> {
    if !home.config_file().exists() {
        return Ok(Vec::new());
    }
    let row = |source: ChainSource| {
        json!({ "name": source.chain(), "id": source.id(), "title": title(&source), "version": 1, "built_in": false,
            "subject": source.owner(), "owner": source.owner(), "roots": [source.root()], "tags": source.tags() })
    };
    Ok(all(home)?.into_iter().map(row).collect())
}

fn title(source: &ChainSource) -> String {
    let registries = if source.owner() == "solana8004" { "8004 registry and ATOM" } else { "ERC-8004 registries" };
    format!("{registries} on {}", source.chain())
}

/// As the source is registered. A link names an asset and no cluster, and is proved on the main one: elsewhere the same address may be
/// somebody else's.
pub fn registered_as(source: &ChainSource, weight: Option<f64>) -> anyhow::Result<NewSource> {
    ensure!(
        source.owner() != "solana8004" || source.chain() == MAIN_CLUSTER,
        "{} is not read: registrations on Solana are proved on the main cluster, {MAIN_CLUSTER}",
        source.chain()
    );
    Ok(NewSource {
        description: Some(format!("{}: a reader of this authority", title(source))),
        owner: Some(EntityId::new(source.owner())?),
        roots: vec![source.root().clone()],
        ..NewSource::new(source.id().clone(), weight.unwrap_or(ChainSource::WEIGHT))
    })
}

/// With the first chain, whether registrations agree begins to count, unless the operator decided otherwise.
pub fn count_consistency(authority: &Authority) -> anyhow::Result<()> {
    if query::Deferral::read(&*authority.ledger().view()?)?.row(CONSISTENCY).is_none() {
        authority.set_tag(&Tag::new(CONSISTENCY)?, false)?;
    }
    Ok(())
}
