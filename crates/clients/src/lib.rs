//! The configuration files of MCP clients: where each client keeps its servers ([`Client`]), and how a server there is put under
//! the guard and taken out again ([`plan_install`], [`plan_uninstall`]). `credence guard install` and `uninstall` are this crate.
//!
//! A server the client starts over stdio, `npx -y server`, becomes `credence guard --name fs -- npx -y server`. Only
//! the server's `command` and `args` are spliced; every other byte of the file stays, comments and line ends included.
//! A [`Plan`] is made first and shows what would change ([`Plan::diff`]); nothing is written before [`Plan::apply`].
//!
//! Uninstalling does not copy a backup back: it takes each guarded server's own command from behind the `--`, so what
//! was changed after installing survives. If nothing was, the file is again byte for byte what it was.
//!
//! Backups: before a file is written its text is kept beside it as `NAME.before-credence` (`.2`, `.3`, … when that
//! name is taken by another text). Uninstalling removes the backups that hold just what the file holds again, and
//! makes none then; when no backup holds that, none is removed and the guarded text is kept as one more.

mod clients;
mod document;
mod edit;
mod error;
mod file;
mod json;
mod slug;
mod toml;
mod tree;
pub mod units;
mod yaml;

use std::{
    fs,
    path::{Path, PathBuf},
};

use similar::TextDiff;

pub use clients::{Candidate, Client, Environment, Scope, System};
use document::{Kind, Server, servers};
pub use error::{Error, FilePosition};
pub use file::MAX_CONFIG_BYTES;
pub use slug::MAX_SLUG_BYTES;
use slug::Slugs;

/// The guard as a configuration has it: the executable, and the flags between `--name` and `--`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guarding {
    executable: String,
    flags: Vec<String>,
}

impl Guarding {
    /// A guard run by `executable`, whose path must be absolute: a client starts it from a folder and with a search
    /// path of its own.
    pub fn new(executable: &Path, flags: Vec<String>) -> Result<Self, Error> {
        let refused = |why| Error::Executable { path: executable.to_owned(), why };
        if !executable.is_absolute() {
            return Err(refused("the path is not absolute"));
        }
        let executable = executable.to_str().ok_or_else(|| refused("the path is not Unicode"))?.to_owned();
        if flags.iter().any(|flag| flag == "--") {
            return Err(Error::FlagDashes);
        }
        Ok(Self { executable, flags })
    }
}

/// What happens to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// It comes under a guard.
    Guarded {
        /// The name the guard gives it.
        slug: String,
    },
    /// It comes out of its guard.
    Unguarded,
    /// It is under a guard and stays as it is, whatever the guard's flags.
    AlreadyGuarded,
    /// It is not under a guard, so there is nothing to take out.
    NotGuarded,
    /// It is reached over the network, where this guard is not.
    Remote {
        /// Its address, without credentials, query and fragment.
        url: String,
    },
    /// It stays as it is, for this reason.
    Unsupported(&'static str),
}

/// A server and what happens to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerChange {
    /// Its name in the configuration.
    pub name: String,
    /// The project it is for, where a file has servers for several.
    pub project: Option<String>,
    /// What happens to it.
    pub change: Change,
    /// How it is started, where it comes under a guard.
    pub command: Option<ServerCommand>,
}

/// How a server is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerCommand {
    /// The program and its arguments.
    pub words: Vec<String>,
    /// Variables of its environment.
    pub env: Vec<(String, String)>,
}

/// A change to a configuration that is worked out and not yet made.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The file, as it was named.
    pub path: PathBuf,
    /// Its text.
    pub before: String,
    /// The text it will have.
    pub after: String,
    /// Its servers, in order.
    pub servers: Vec<ServerChange>,
    target: PathBuf,
    restores: bool,
}

/// What [`Plan::apply`] did beside writing the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// Where the text from before is kept.
    pub backup: Option<PathBuf>,
    /// Backups removed because the file holds their text again.
    pub removed: Vec<PathBuf>,
}

/// Plans putting every stdio server of a configuration under the guard. `servers_at` is [`Client::servers_at`].
pub fn plan_install(path: &Path, servers_at: &[&[&str]], guarding: &Guarding) -> Result<Plan, Error> {
    let Guarding { executable, flags } = guarding;
    let (target, before) = file::read(path)?;
    let found = servers(path, &before, servers_at)?;
    let mut slugs = Slugs::default();
    let mut bare = Vec::new();
    for Server { name, kind, .. } in &found {
        let Kind::Stdio(stdio) = kind else { continue };
        match stdio.guarded(executable) {
            Some(guarded) => guarded.slug.into_iter().for_each(|slug| slugs.keep(name, slug)),
            None => bare.push(name.as_str()),
        }
    }
    slugs.assign(bare.into_iter());
    let mut splices = Vec::new();
    let servers = changes(&found, |name, stdio| {
        if stdio.guarded(executable).is_some() {
            return Change::AlreadyGuarded;
        }
        let slug = slugs.of(name);
        splices.extend(stdio.guard(&before, executable, &slug, flags));
        Change::Guarded { slug }
    });
    let after = edit::spliced(&before, splices);
    Ok(Plan { path: path.to_owned(), before, after, servers, target, restores: false })
}

/// Plans taking every guarded server of a configuration out of its guard. A guard is known by the name of its
/// executable, or by being `executable`.
pub fn plan_uninstall(path: &Path, servers_at: &[&[&str]], executable: &Path) -> Result<Plan, Error> {
    let executable = executable.to_str().unwrap_or_default();
    let (target, before) = file::read(path)?;
    let found = servers(path, &before, servers_at)?;
    let mut splices = Vec::new();
    let servers = changes(&found, |_, stdio| {
        let Some(guarded) = stdio.guarded(executable) else { return Change::NotGuarded };
        let Some(restored) = stdio.unguard(&before, &guarded) else {
            return Change::Unsupported("no command follows the `--` in its args, or a comment stands between them");
        };
        splices.extend(restored);
        Change::Unguarded
    });
    let after = edit::spliced(&before, splices);
    Ok(Plan { path: path.to_owned(), before, after, servers, target, restores: true })
}

fn changes(found: &[Server], mut stdio: impl FnMut(&str, &document::Stdio) -> Change) -> Vec<ServerChange> {
    let changed = found.iter().map(|Server { name, within, kind }| {
        let change = match kind {
            Kind::Stdio(server) => stdio(name, server),
            Kind::Remote { url } => Change::Remote { url: url.clone() },
            Kind::Unsupported(why) => Change::Unsupported(why),
        };
        let command = match (kind, &change) {
            (Kind::Stdio(server), Change::Guarded { .. }) => Some(server.started_by()),
            _ => None,
        };
        ServerChange { name: name.clone(), project: within.clone(), change, command }
    });
    changed.collect()
}

impl Plan {
    /// Whether there is anything to write.
    pub fn changes(&self) -> bool {
        self.before != self.after
    }

    /// The change as a unified diff, empty when there is none. It quotes lines of the file, and those may hold keys. Carriage returns
    /// before line breaks are left out: no change is about them.
    pub fn diff(&self) -> String {
        if !self.changes() {
            return String::new();
        }
        let name = self.path.display().to_string();
        let [before, after] = [&self.before, &self.after].map(|text| text.replace("\r\n", "\n"));
        TextDiff::from_lines(&before, &after).unified_diff().header(&name, &name).to_string()
    }

    /// Keeps a backup and writes the file, unless nothing changes. A link is followed: the file it leads to is
    /// written, and the backup is beside that.
    pub fn apply(&self) -> Result<Applied, Error> {
        if !self.changes() {
            return Ok(Applied::default());
        }
        let same = if self.restores { file::backups_holding(&self.target, &self.after) } else { Vec::new() };
        if same.is_empty() {
            let (backup, new) = file::back_up(&self.target, &self.before)?;
            file::replace(&self.target, &self.before, &self.after).inspect_err(|_| {
                if new {
                    let _ = fs::remove_file(&backup);
                }
            })?;
            return Ok(Applied { backup: Some(backup), removed: Vec::new() });
        }
        file::replace(&self.target, &self.before, &self.after)?;
        let removed = same.into_iter().filter(|path| fs::remove_file(path).is_ok()).collect();
        Ok(Applied { backup: None, removed })
    }
}

#[cfg(test)]
mod tests;
