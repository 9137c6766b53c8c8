//! Readers of chains as sources.

use anyhow::Context;
use credence_chain::ChainConfig;
use credence_pipeline::{Authority, NewSource, query};
use credence_protocol::{EntityId, Tag};
use credence_server::crawl::ChainSource;
use serde_json::{Value, json};
use url::Url;

use crate::{chains, home::Home};

/// The tag that a second registration measures.
const CONSISTENCY: &str = "cross_chain_consistency";
/// What a reader of ERC-8004 measures.
const TAGS: [&str; 5] =
    ["identity_onchain", "identity_key_continuity", "user_feedback", "rel_uptime", "rel_error_rate"];

/// The reader of the configured chain with this id.
pub fn source(home: &Home, id: &str) -> anyhow::Result<ChainSource> {
    let chain = chains::named(home, id)?;
    anyhow::ensure!(
        !chain.is_solana(),
        "{id} cannot be read yet: a registration on Solana cannot be linked to an agent"
    );
    reader(home, &chain)
}

/// Every chain that is configured and can be read, with its reader.
pub fn all(home: &Home) -> anyhow::Result<Vec<ChainSource>> {
    chains::configured(home)?.iter().filter(|chain| !chain.is_solana()).map(|chain| reader(home, chain)).collect()
}

fn reader(home: &Home, chain: &ChainConfig) -> anyhow::Result<ChainSource> {
    let serve = home.settings(&home.config()?.serve, &[])?;
    let contact = Url::parse(&serve.public_url).ok();
    chains::environment(home, contact.as_ref(), |environment| {
        if let Some(key) = chain.evm_key(environment)? {
            chains::refuse_shared_key(home, &chain.id, &key)?;
        }
        anyhow::Ok(ChainSource::new(chain.evm_reader(environment)?)?)
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
            "subject": ChainSource::OWNER, "owner": ChainSource::OWNER, "roots": [source.root()], "tags": TAGS })
    };
    Ok(all(home)?.into_iter().map(row).collect())
}

fn title(source: &ChainSource) -> String {
    format!("ERC-8004 registries on {}", source.chain())
}

/// As the source is registered.
pub fn registered_as(source: &ChainSource, weight: Option<f64>) -> anyhow::Result<NewSource> {
    Ok(NewSource {
        description: Some(format!("{}: a reader of this authority", title(source))),
        owner: Some(EntityId::new(ChainSource::OWNER)?),
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
