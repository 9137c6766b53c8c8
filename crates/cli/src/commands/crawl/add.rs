//! `credence crawl add`: registers sources, each with a key of its own.

use std::{fs, process::ExitCode};

use anyhow::{Context, bail, ensure};
use credence_ingest::{Source, builtin};
use credence_pipeline::{Authority, Error, NewSource, query};
use credence_protocol::{EntityId, SecretKey};
use serde_json::{Value, json};

use super::{files::read, known::folder};
use crate::{commands::Done, home::Home, keyfile, output::Output};

#[derive(clap::Args)]
pub struct AddArgs {
    /// Names of built-in sources, source files, or chains of credence.toml such as eip155:8453
    #[arg(required_unless_present = "all")]
    sources: Vec<String>,
    /// Every built-in source
    #[arg(long, conflicts_with = "sources")]
    all: bool,
    /// How much they count, instead of the weight in each file
    #[arg(long)]
    weight: Option<f64>,
}

/// What is to be added.
enum New {
    File {
        name: String,
        source: Box<Source>,
        text: String,
    },
    #[cfg(feature = "chain")]
    Chain(Box<credence_server::crawl::ChainSource>),
}

impl New {
    fn id(&self) -> &EntityId {
        match self {
            Self::File { source, .. } => &source.id,
            #[cfg(feature = "chain")]
            Self::Chain(source) => source.id(),
        }
    }
}

/// Refuses the id of a source that somebody else signs for: a key of this folder would speak in its name.
fn not_of_others(home: &Home, authority: &Authority, id: &EntityId) -> anyhow::Result<()> {
    if home.key_file(id.as_str()).exists() {
        return Ok(());
    }
    let keys = query::keys(&*authority.ledger().view()?)?;
    let has_key = keys.iter().any(|(_, row)| row.source == *id && row.revoked_from.is_none());
    ensure!(
        !has_key,
        "{id} is registered already, with a key that is not in this folder: give the file another id, or revoke that key first"
    );
    Ok(())
}

fn new(home: &Home, name: String) -> anyhow::Result<New> {
    if is_chain(&name) {
        #[cfg(feature = "chain")]
        return Ok(New::Chain(Box::new(super::chains::source(home, &name)?)));
        #[cfg(not(feature = "chain"))]
        bail!("{name} is a chain, and {} cannot read chains: build it with the feature 'chain'", home.path().display());
    }
    let (source, text) = read(&name)?;
    Ok(New::File { name, source: Box::new(source), text })
}

/// Whether this is a chain's id and no name of a source or a file.
fn is_chain(name: &str) -> bool {
    ["eip155:", "solana:"].iter().any(|namespace| name.starts_with(namespace)) && !std::path::Path::new(name).exists()
}

pub fn add(home: &Home, out: &Output, args: &AddArgs) -> Done {
    let names: Vec<String> = match args.all {
        true => builtin::FILES.iter().map(|(name, _)| (*name).to_owned()).collect(),
        false => args.sources.clone(),
    };
    // Whatever is wrong with any of them is wrong before anything is made.
    let sources: Vec<New> = names.into_iter().map(|name| new(home, name)).collect::<anyhow::Result<_>>()?;
    let authority = home.authority()?;
    for one in &sources {
        not_of_others(home, &authority, one.id())?;
    }
    let mut added = Vec::new();
    for one in sources {
        let new = match one {
            New::File { name, source, text } => {
                keep(home, &name, &source, &text)?;
                NewSource {
                    description: Some(format!("{}: a crawler of this authority", source.title)),
                    owner: Some(source.owner.clone()),
                    roots: source.roots.clone(),
                    ..NewSource::new(source.id.clone(), args.weight.unwrap_or(source.weight))
                }
            }
            #[cfg(feature = "chain")]
            New::Chain(source) => {
                super::chains::count_consistency(&authority)?;
                super::chains::registered_as(&source, args.weight)?
            }
        };
        added.push(register(home, &authority, out, new, args.weight)?);
    }
    crate::statement::score_and_flush(&authority, out)?;
    out.show(&added, || {
        let ids: Vec<&str> = added.iter().filter_map(|one| one["source"].as_str()).collect();
        format!("Added {}. They are asked about proven links: `credence agent link AGENT KIND:ID`.", ids.join(", "))
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Keeps a file that is not built in.
fn keep(home: &Home, name: &str, source: &Source, text: &str) -> anyhow::Result<()> {
    if builtin::FILES.iter().any(|(_, known)| *known == text) {
        return Ok(());
    }
    let folder = folder(home);
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    crate::traces::write(&folder.join(format!("{}.toml", source.id)), text.as_bytes())
        .with_context(|| format!("{name} could not be kept"))
}

/// Registers a source and its key, where they are not registered yet. `given` is the weight on the command line.
fn register(
    home: &Home,
    authority: &Authority,
    out: &Output,
    new: NewSource,
    given: Option<f64>,
) -> anyhow::Result<Value> {
    let id = new.source.clone();
    let weight = match authority.add_source(new.clone()) {
        Ok(_) => new.weight,
        Err(Error::SourceExists(_)) => added_before(authority, out, &new, given)?,
        Err(error) => bail!("{id}: {error}"),
    };
    let path = home.key_file(id.as_str());
    let key = if path.exists() {
        keyfile::read(&path)?
    } else {
        let key = SecretKey::generate()?;
        keyfile::write(&path, &key)?;
        key
    };
    if query::key(&*authority.ledger().view()?, key.public().id())?.is_none() {
        authority.add_key(&key.public(), id.clone())?;
    }
    Ok(json!({ "source": id, "weight": weight, "key": key.public().id() }))
}

/// Of a source that is registered already, a weight that is given counts from now on. Owner and roots stay as they were registered.
fn added_before(authority: &Authority, out: &Output, new: &NewSource, given: Option<f64>) -> anyhow::Result<f64> {
    let rows = query::sources(&*authority.ledger().view()?)?;
    let Some((_, row)) = rows.into_iter().find(|(id, _)| id == new.source.as_str()) else { return Ok(new.weight) };
    if row.owner != new.owner || row.roots != new.roots {
        out.note(&format!(
            "{} was added before, with another owner or other roots than now. Those stay: they are part of its registration",
            new.source
        ));
    }
    match given {
        Some(weight) if weight != row.weight => {
            authority.set_weight(new.source.clone(), weight)?;
            Ok(weight)
        }
        _ => Ok(row.weight),
    }
}
