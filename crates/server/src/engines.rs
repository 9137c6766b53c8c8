//! Verification engines, one for each namespace: what a token has judged is never seen by another (DESIGN, *Verification
//! engine*). What they learned is kept in files and survives a restart.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use credence_verify::{Engine, Mode, ProfileBuilder};

use crate::{problem::Problem, settings::VerifyMode};

/// A namespace: the engine, and the profiles that were registered.
pub(crate) struct Namespace {
    pub engine: Engine,
    profiles: Mutex<BTreeMap<String, ProfileBuilder>>,
    files: Files,
}

#[derive(Clone)]
struct Files {
    state: PathBuf,
    profiles: PathBuf,
}

/// All namespaces.
pub(crate) struct Engines {
    folder: PathBuf,
    mode: Mode,
    most: usize,
    open: RwLock<HashMap<String, Arc<Namespace>>>,
}

impl Engines {
    pub(crate) fn new(folder: PathBuf, mode: VerifyMode, most: usize) -> Self {
        let mode = match mode {
            VerifyMode::Adaptive => Mode::Adaptive,
            VerifyMode::Fixed => Mode::Fixed,
        };
        Self { folder, mode, most, open: RwLock::default() }
    }

    /// The namespace of a token, if it was used since the start.
    pub(crate) fn opened(&self, id: &str) -> Option<Arc<Namespace>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    /// The namespace of a token. Reads files the first time.
    pub(crate) fn open(&self, id: &str) -> Result<Arc<Namespace>, Problem> {
        if let Some(namespace) = self.opened(id) {
            return Ok(namespace);
        }
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(namespace) = open.get(id) {
            return Ok(Arc::clone(namespace));
        }
        if open.len() >= self.most {
            let detail = format!("{} tokens use the verification engine here, the limit: ask the operator", self.most);
            return Err(Problem::new(axum::http::StatusCode::SERVICE_UNAVAILABLE, "too_many_namespaces", detail)
                .retry_after(60));
        }
        let namespace = Arc::new(Namespace::read(self.mode, &self.folder, id));
        open.insert(id.to_owned(), Arc::clone(&namespace));
        Ok(namespace)
    }

    /// Keeps what every engine has learned; gives the first error.
    pub(crate) fn save(&self) -> io::Result<()> {
        let all: Vec<_> = self.open.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        all.iter().fold(Ok(()), |first, namespace| first.and(namespace.save()))
    }

    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.open.read().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Namespace {
    /// From its files. What cannot be read is put aside, and the engine starts anew: judging goes on.
    fn read(mode: Mode, folder: &Path, id: &str) -> Self {
        let files =
            Files { state: folder.join(format!("{id}.state")), profiles: folder.join(format!("{id}.profiles.json")) };
        let engine = match fs::read(&files.state) {
            Ok(bytes) => match Engine::builder().mode(mode).restore(&bytes) {
                Ok(engine) => engine,
                Err(error) => {
                    let aside = files.state.with_extension("unreadable");
                    tracing::error!(file = %files.state.display(), %error, "what was learned cannot be read: put aside");
                    let _ = fs::rename(&files.state, aside);
                    Engine::builder().mode(mode).build()
                }
            },
            Err(_) => Engine::builder().mode(mode).build(),
        };
        let profiles: BTreeMap<String, ProfileBuilder> = match fs::read(&files.profiles) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|error| {
                tracing::error!(file = %files.profiles.display(), %error, "profiles cannot be read: put aside");
                let _ = fs::rename(&files.profiles, files.profiles.with_extension("unreadable"));
                BTreeMap::new()
            }),
            Err(_) => BTreeMap::new(),
        };
        for (tool, profile) in &profiles {
            if let Err(error) = profile.clone().build().and_then(|profile| engine.register(tool, profile)) {
                tracing::error!(tool, %error, "a profile does not hold any more");
            }
        }
        Self { engine, profiles: Mutex::new(profiles), files }
    }

    /// Registers a profile, durably.
    pub(crate) fn register(&self, tool: &str, profile: ProfileBuilder) -> Result<(), Problem> {
        let built = profile.clone().build()?;
        let mut profiles = self.profiles.lock().unwrap_or_else(PoisonError::into_inner);
        self.engine.register(tool, built)?;
        profiles.insert(tool.to_owned(), profile);
        let text = serde_json::to_vec_pretty(&*profiles).map_err(|e| Problem::internal(&e))?;
        keep(&self.files.profiles, &text).map_err(|e| Problem::internal(&e))
    }

    /// The profile of a tool.
    pub(crate) fn profile(&self, tool: &str) -> Option<ProfileBuilder> {
        self.profiles.lock().unwrap_or_else(PoisonError::into_inner).get(tool).cloned()
    }

    /// Tools with a profile.
    pub(crate) fn tools(&self) -> Vec<String> {
        self.profiles.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    fn save(&self) -> io::Result<()> {
        keep(&self.files.state, &self.engine.snapshot().map_err(io::Error::other)?)
    }
}

/// Replaces the file as a whole or not at all.
fn keep(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let next = path.with_extension("next");
    let mut file = File::create(&next)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(next, path)
}
