//! Source files: those built in, and those in the folder `crawlers`, which come before a built-in one of the same id.

use std::{fs, path::PathBuf};

use anyhow::Context;
use credence_ingest::{Source, builtin};
use credence_pipeline::{Authority, query};
use credence_protocol::{EntityId, SecretKey};
use credence_server::crawl::Installed;

use crate::{home::Home, keyfile};

/// A source file that is at hand.
pub struct Known {
    /// Its name, without the ending.
    pub name: String,
    pub source: Source,
    pub built_in: bool,
}

/// Where files of the operator's own are kept.
pub fn folder(home: &Home) -> PathBuf {
    home.path().join("crawlers")
}

/// Every source file that is at hand.
pub fn known(home: &Home) -> anyhow::Result<Vec<Known>> {
    let mut all = Vec::new();
    let folder = folder(home);
    if folder.exists() {
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        let mut paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
        paths.sort();
        for path in paths.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "toml")) {
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let source = Source::parse(&path.display().to_string(), &text)?;
            all.push(Known { name, source, built_in: false });
        }
    }
    for (name, text) in builtin::FILES {
        let source = Source::parse(&format!("{name}.toml"), text)?;
        if !all.iter().any(|known| known.source.id == source.id) {
            all.push(Known { name: (*name).to_owned(), source, built_in: true });
        }
    }
    Ok(all)
}

/// The sources that were added: registered, with a key in this folder that counts.
pub fn installed(home: &Home, authority: &Authority) -> anyhow::Result<Vec<Installed>> {
    let view = authority.ledger().view()?;
    let registered = query::sources(&*view)?;
    let key_of = |id: &EntityId| -> anyhow::Result<Option<SecretKey>> {
        let path = home.key_file(id.as_str());
        if !registered.iter().any(|(known, _)| known == id.as_str()) || !path.exists() {
            return Ok(None);
        }
        let key = keyfile::read(&path)?;
        let row = query::key(&*view, key.public().id())?;
        Ok(row.filter(|row| row.source == *id && row.revoked_from.is_none()).map(|_| key))
    };
    let mut installed = Vec::new();
    for Known { source, .. } in known(home)? {
        if let Some(key) = key_of(&source.id)? {
            installed.push(Installed::file(source, key));
        }
    }
    #[cfg(feature = "chain")]
    for source in super::chains::all(home)? {
        if let Some(key) = key_of(source.id())? {
            installed.push(Installed::chain(source, key));
        }
    }
    Ok(installed)
}
