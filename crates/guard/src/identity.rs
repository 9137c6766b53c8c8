//! Which server stands behind a label.
//!
//! A client's label (`--name`) says nothing about what it runs: two projects may both call their server `db`, and one label may lead to
//! another server tomorrow. What was learned of one must not be used against the other, so a model belongs to
//!
//! ```text
//! (label, how the server is started or reached, the name it declares in `initialize`)
//! ```
//!
//! - How it is started: the program without runners, versions and options, with the files and folders that it is given
//!   ([`server_words`](crate::server_words)); or its URL without credentials, query and fragment; or its socket. A new version or a new
//!   token is the same server.
//! - The first server of a label has the folder `STATE/LABEL`, others `STATE/LABEL-` and a part of their fingerprint. One server under
//!   two labels has two folders (ADR 29).
//! - The declared name comes after the guard has started. When it is another than before, the guard goes on with the model of that name,
//!   in files of its own beside the first one's.

use std::{
    fs::{self, File, OpenOptions},
    path::{Path, PathBuf},
};

use credence_protocol::{Timestamp, is_deceptive};
use credence_receipts::{folder, now};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use url::Url;

use crate::{Error, server_words, warn};

const FILE: &str = "identity.json";
const LOCK: &str = "identity.lock";
/// Names that one server may have declared; with ever new ones it could have everything it is known for forgotten.
const MAX_DECLARED: usize = 8;
/// Characters of a declared name that are kept.
const MAX_NAME: usize = 128;
/// Characters of a fingerprint in names of folders and files.
const SHORT: usize = 8;

/// How a server is started or reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Launch {
    /// A program and its arguments.
    Command(Vec<String>),
    /// An address.
    Url(Url),
    /// A Unix socket.
    Socket(PathBuf),
}

impl Launch {
    /// What tells one server from another: no versions, no flags, no secrets.
    fn words(&self) -> Vec<String> {
        match self {
            Self::Command(command) => server_words::words(command),
            Self::Url(url) => vec!["url".to_owned(), plain_url(url)],
            Self::Socket(path) => vec!["socket".to_owned(), path.display().to_string()],
        }
    }

    /// Equal for equal servers.
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.words())
    }

    /// Those that it had in another version, or while its files were not there yet.
    fn former_fingerprints(&self) -> Vec<String> {
        match self {
            Self::Command(command) => {
                server_words::former_words(command).iter().map(|words| fingerprint(words)).collect()
            }
            Self::Url(_) | Self::Socket(_) => Vec::new(),
        }
    }

    /// For people: which server that is. Positional arguments are left out, for they may be secret.
    pub fn description(&self) -> String {
        match self {
            Self::Command(_) => self.words().first().cloned().unwrap_or_default(),
            Self::Url(url) => plain_url(url),
            Self::Socket(path) => path.display().to_string(),
        }
    }
}

/// Without credentials, query and fragment.
pub(crate) fn plain_url(url: &Url) -> String {
    let mut url = url.clone();
    let _ = url.set_username("").and_then(|()| url.set_password(None));
    url.set_query(None);
    url.set_fragment(None);
    url.to_string()
}

fn fingerprint(words: &[String]) -> String {
    let mut hash = Sha256::new();
    for word in words {
        hash.update((word.len() as u64).to_be_bytes());
        hash.update(word.as_bytes());
    }
    data_encoding::HEXLOWER.encode(&hash.finalize()[..16])
}

/// A name that a server has declared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredName {
    /// The name.
    pub name: String,
    /// Since when it is known.
    pub since: Timestamp,
    /// What its files have in their names; empty for the first.
    pub suffix: String,
}

/// What is known of the server in one folder, in a file for all guards of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerIdentity {
    /// The client's label.
    pub label: String,
    /// The fingerprint of how it is started or reached.
    pub launch: String,
    /// The same for people.
    pub description: String,
    /// The names it has declared, oldest first.
    #[serde(default)]
    pub declared: Vec<DeclaredName>,
    /// The newest of them, by number.
    #[serde(default)]
    pub current: Option<usize>,
    /// The label led to this server before, which is in another folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<String>,
    /// Since when it is known.
    pub since: Timestamp,
}

impl ServerIdentity {
    /// That of the server in `folder`; `None` where there is none.
    pub fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(folder.join(FILE)).ok()?).ok()
    }

    /// The name that it declares.
    pub fn declared_name(&self) -> Option<&str> {
        Some(self.declared.get(self.current?)?.name.as_str())
    }

    /// What the files of the current model have in their names.
    pub fn suffix(&self) -> String {
        self.current.and_then(|current| self.declared.get(current)).map(|one| one.suffix.clone()).unwrap_or_default()
    }
}

/// The folder of a server's current model: its schemas and its wait before enforcing.
pub fn model_folder(server: &Path) -> PathBuf {
    let suffix = ServerIdentity::read(server).map(|identity| identity.suffix()).unwrap_or_default();
    folder_of_suffix(server, &suffix)
}

/// The folder of the model with this suffix.
pub fn folder_of_suffix(server: &Path, suffix: &str) -> PathBuf {
    if suffix.is_empty() { server.to_owned() } else { server.join(format!("model{suffix}")) }
}

/// The name of a model's file in a guard's place: `engine.state`, `engine-1a2b3c4d.state`.
pub fn file_of_suffix(stem: &str, suffix: &str, ending: &str) -> String {
    format!("{stem}{suffix}.{ending}")
}

/// The folder of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFolder {
    /// Its name in the state's folder.
    pub name: String,
    /// Nobody has asked for this server before: [`Self::give_back`] takes that back.
    pub is_new: bool,
}

impl ServerFolder {
    /// The server never ran: its label is free again, where nothing else is known of it. What a mistyped command was must not own it.
    pub fn give_back(&self, state: &Path, launch: &Launch) -> Result<(), Error> {
        let server = state.join(&self.name);
        let _lock = lock(&server)?;
        let unused = |known: ServerIdentity| known.launch == launch.fingerprint() && known.declared.is_empty();
        // Another guard of the same server may have heard from it.
        let own = std::process::id().to_string();
        let others = folder::all_places(state)?.into_iter().filter(|(name, _, _)| *name == self.name);
        let mut running = others.filter_map(|(_, _, place)| folder::running_process(&place));
        if self.is_new && running.all(|process| process == own) && ServerIdentity::read(&server).is_some_and(unused) {
            let path = server.join(FILE);
            fs::remove_file(&path).map_err(|e| Error::Io(path, e))?;
        }
        Ok(())
    }
}

/// Finds the folder of the server that `label` leads to, or makes one.
pub fn find(state: &Path, label: &str, launch: &Launch) -> Result<ServerFolder, Error> {
    folder::check_name(label)?;
    let print = launch.fingerprint();
    let formers = launch.former_fingerprints();
    let short: String = label.chars().take(64 - SHORT - 1).collect();
    let named = |print: &String| format!("{short}-{}", &print[..SHORT]);
    let names: Vec<String> =
        std::iter::once(label.to_owned()).chain([&print].into_iter().chain(&formers).map(named)).collect();
    let known = |name: &String| ServerIdentity::read(&state.join(name));
    if let Some(name) = names.iter().find(|name| known(name).is_some_and(|known| known.launch == print)) {
        return Ok(ServerFolder { name: name.clone(), is_new: false });
    }
    for name in &names {
        let is_former = |known: &ServerIdentity| formers.contains(&known.launch);
        if known(name).is_some_and(|known| is_former(&known)) && take_over(&state.join(name), launch, is_former)? {
            return Ok(ServerFolder { name: name.clone(), is_new: false });
        }
    }
    let identity = |follows: Option<String>| ServerIdentity {
        label: label.to_owned(),
        launch: print.clone(),
        description: launch.description(),
        declared: Vec::new(),
        current: None,
        follows,
        since: now(),
    };
    let (first, is_new) = claim(&state.join(label), || identity(None))?;
    if first.launch == print {
        return Ok(ServerFolder { name: label.to_owned(), is_new });
    }
    let name = named(&print);
    let (own, is_new) = claim(&state.join(&name), || identity(Some(first.description.clone())))?;
    if own.launch != print {
        return Err(Error::Content(format!(
            "{} holds another server: give this one a label of its own with --name",
            state.join(&name).display()
        )));
    }
    if is_new {
        warn(&format!(
            "'{label}' was another server until now ({}): this one ({}) starts afresh, with its state in '{name}'",
            first.description, own.description
        ));
    }
    Ok(ServerFolder { name, is_new })
}

/// Goes on with what is known under a fingerprint that the server had before; whether nobody else was quicker.
fn take_over(server: &Path, launch: &Launch, is_former: impl FnOnce(&ServerIdentity) -> bool) -> Result<bool, Error> {
    let _lock = lock(server)?;
    let Some(known) = ServerIdentity::read(server).filter(is_former) else { return Ok(false) };
    write(server, &ServerIdentity { launch: launch.fingerprint(), description: launch.description(), ..known })?;
    Ok(true)
}

/// The identity in `folder`, and whether it is new; where there is none it is the given one. State of a time before identities is taken
/// over by the first server that asks for it.
fn claim(server: &Path, new: impl FnOnce() -> ServerIdentity) -> Result<(ServerIdentity, bool), Error> {
    let _lock = lock(server)?;
    if let Some(known) = ServerIdentity::read(server) {
        return Ok((known, false));
    }
    if server.join(FILE).exists() {
        warn(&format!(
            "{} cannot be read: the server that runs now is taken for the one it was about",
            server.join(FILE).display()
        ));
    }
    let identity = new();
    write(server, &identity)?;
    Ok((identity, true))
}

/// What became of a name that a server declares.
#[derive(Debug, PartialEq, Eq)]
pub enum Declared {
    /// The one that was known, or the first.
    Same,
    /// Another: from now on the model with this suffix counts.
    Another {
        /// The name before.
        former: String,
        /// What the files of its model have in their names.
        suffix: String,
    },
    /// One more than a server may have: the model stays.
    TooMany,
}

/// Takes in the name that the server in `server` declares.
pub fn declare(server: &Path, name: &str) -> Result<Declared, Error> {
    let name: String = name.chars().filter(|c| !is_deceptive(*c)).take(MAX_NAME).collect();
    let _lock = lock(server)?;
    let Some(mut identity) = ServerIdentity::read(server) else { return Ok(Declared::Same) };
    if identity.declared_name() == Some(name.as_str()) {
        return Ok(Declared::Same);
    }
    let former = identity.declared_name().map(str::to_owned);
    let known = identity.declared.iter().position(|one| one.name == name);
    let current = match known {
        Some(known) => known,
        None if identity.declared.len() >= MAX_DECLARED => return Ok(Declared::TooMany),
        None => {
            let suffix = match identity.declared.is_empty() {
                true => String::new(),
                false => format!("-{}", &fingerprint(std::slice::from_ref(&name))[..SHORT]),
            };
            identity.declared.push(DeclaredName { name, since: now(), suffix });
            identity.declared.len() - 1
        }
    };
    identity.current = Some(current);
    write(server, &identity)?;
    Ok(match former {
        Some(former) => Declared::Another { former, suffix: identity.suffix() },
        None => Declared::Same,
    })
}

fn lock(server: &Path) -> Result<File, Error> {
    folder::create_private(server)?;
    let path = server.join(LOCK);
    let io = |e| Error::Io(path.clone(), e);
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(io)?;
    file.lock().map_err(io)?;
    Ok(file)
}

fn write(server: &Path, identity: &ServerIdentity) -> Result<(), Error> {
    let text = serde_json::to_vec_pretty(identity).map_err(|e| Error::Content(e.to_string()))?;
    Ok(folder::replace_file(&server.join(FILE), &text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> Launch {
        Launch::Command(line.split(' ').map(str::to_owned).collect())
    }

    fn name(state: &tempfile::TempDir, label: &str, launch: &Launch) -> String {
        find(state.path(), label, launch).unwrap().name
    }

    /// As the version before wrote it.
    fn write_former(state: &tempfile::TempDir, folder: &str, label: &str, launch: &Launch) {
        let launch_print = launch.former_fingerprints().pop().unwrap();
        assert_ne!(launch_print, launch.fingerprint());
        let identity = ServerIdentity {
            label: label.into(),
            launch: launch_print,
            description: "x".into(),
            declared: vec![DeclaredName { name: "X".into(), since: now(), suffix: String::new() }],
            current: Some(0),
            follows: None,
            since: now(),
        };
        fs::create_dir_all(state.path().join(folder)).unwrap();
        write(&state.path().join(folder), &identity).unwrap();
    }

    #[test]
    fn state_under_a_former_fingerprint_is_found_by_one_server() {
        let state = tempfile::tempdir().unwrap();
        let (one, two) = (command("server --cwd /a"), command("server --cwd /b"));
        write_former(&state, "s", "s", &one);
        assert_eq!(name(&state, "s", &one), "s");
        let other = name(&state, "s", &two);
        assert_ne!(other, "s", "the two were taken for one before");
        assert_eq!((name(&state, "s", &one), name(&state, "s", &two)), ("s".to_owned(), other));
        let known = ServerIdentity::read(&state.path().join("s")).unwrap();
        assert_eq!((known.launch, known.declared.len()), (one.fingerprint(), 1));
        // Also that of a second server of a label.
        let (first, second) = (command("npx git"), command("java -jar /x.jar"));
        assert_eq!(name(&state, "t", &first), "t");
        let folder = format!("t-{}", &second.former_fingerprints().pop().unwrap()[..SHORT]);
        write_former(&state, &folder, "t", &second);
        assert_eq!((name(&state, "t", &second), name(&state, "t", &second)), (folder.clone(), folder));
    }

    #[test]
    fn a_server_that_never_ran_does_not_keep_its_label() {
        let state = tempfile::tempdir().unwrap();
        let (mistyped, meant) = (command("npx flies"), command("npx files"));
        let taken = find(state.path(), "s", &mistyped).unwrap();
        assert!(taken.is_new);
        taken.give_back(state.path(), &mistyped).unwrap();
        let found = find(state.path(), "s", &meant).unwrap();
        assert_eq!((found.name.as_str(), found.is_new), ("s", true));
        // Nothing is given back that somebody knows already, or that another has taken meanwhile.
        let again = find(state.path(), "s", &meant).unwrap();
        assert!(!again.is_new);
        again.give_back(state.path(), &meant).unwrap();
        taken.give_back(state.path(), &mistyped).unwrap();
        declare(&state.path().join("s"), "Files").unwrap();
        found.give_back(state.path(), &meant).unwrap();
        assert!(ServerIdentity::read(&state.path().join("s")).is_some());
    }

    #[test]
    fn versions_flags_and_secrets_make_no_other_server() {
        for (a, b) in [
            ("npx -y @scope/files@1.2.3 /tmp", "npx @scope/files@latest /tmp"),
            ("uvx git-server==0.4 --repo a", "uvx git-server"),
            ("docker run -i --rm -e TOKEN=a mcp/github:1", "docker run -i -e TOKEN=b mcp/github"),
            ("server --token a", "server --token b"),
            ("python3 /srv/a.py", "/usr/bin/python3 /srv/a.py"),
            ("npx mcp-remote https://x.example/mcp?key=1", "npx -y mcp-remote https://u:p@x.example/mcp"),
        ] {
            assert_eq!(command(a).fingerprint(), command(b).fingerprint(), "{a} / {b}");
        }
        for (a, b) in [
            ("npx files /tmp", "npx files /srv"),
            ("npx files", "npx git"),
            ("python3 /srv/a.py", "python3 /srv/b/a.py"),
            ("sh -c one", "sh -c two"),
            ("python3 -c while:one", "python3 -c while:two"),
            ("node -e one", "node -e two"),
            ("npx mcp-remote https://x.example/mcp", "npx mcp-remote https://y.example/mcp"),
        ] {
            assert_ne!(command(a).fingerprint(), command(b).fingerprint(), "{a} / {b}");
        }
        let secret = command("npx db postgres://me:hunter2@h/db --password hunter2");
        assert!(!secret.description().contains("hunter2"), "{}", secret.description());
    }

    #[test]
    fn two_servers_of_one_label_have_two_folders_and_find_them_again() {
        let state = tempfile::tempdir().unwrap();
        let (one, two) = (command("npx files /tmp"), command("npx git"));
        assert_eq!(name(&state, "s", &one), "s");
        let other = name(&state, "s", &two);
        assert!(other.starts_with("s-") && other.len() == 10, "{other}");
        assert_eq!(name(&state, "s", &one), "s");
        assert_eq!(name(&state, "s", &two), other);
        let identity = ServerIdentity::read(&state.path().join(&other)).unwrap();
        assert_eq!((identity.label.as_str(), identity.follows.as_deref()), ("s", Some("files")));
        assert_ne!(name(&state, "t", &one), "s", "one server under two labels has two folders");
    }

    #[test]
    fn state_of_before_is_found_again() {
        let state = tempfile::tempdir().unwrap();
        fs::create_dir_all(state.path().join("s/1")).unwrap();
        assert_eq!(name(&state, "s", &command("npx files")), "s");
        assert_ne!(name(&state, "s", &command("npx git")), "s");
    }

    #[test]
    fn another_declared_name_has_a_model_of_its_own_up_to_a_bound() {
        let state = tempfile::tempdir().unwrap();
        find(state.path(), "s", &command("npx files")).unwrap();
        let server = state.path().join("s");
        assert_eq!(declare(&server, "Files").unwrap(), Declared::Same);
        assert_eq!(declare(&server, "Files").unwrap(), Declared::Same);
        assert_eq!(model_folder(&server), server);
        let Declared::Another { former, suffix } = declare(&server, "Evil").unwrap() else { panic!() };
        assert_eq!(former, "Files");
        assert!(!suffix.is_empty() && model_folder(&server) == folder_of_suffix(&server, &suffix));
        let Declared::Another { suffix, .. } = declare(&server, "Files").unwrap() else { panic!() };
        assert_eq!(suffix, "", "the first one's model is found again");
        for n in 2..MAX_DECLARED {
            assert!(matches!(declare(&server, &format!("n{n}")).unwrap(), Declared::Another { .. }));
        }
        assert_eq!(declare(&server, "one more").unwrap(), Declared::TooMany);
    }

    #[test]
    fn long_labels_stay_within_the_limit() {
        let state = tempfile::tempdir().unwrap();
        let label = "x".repeat(64);
        find(state.path(), &label, &command("npx files")).unwrap();
        assert_eq!(name(&state, &label, &command("npx git")).len(), 64);
    }
}
