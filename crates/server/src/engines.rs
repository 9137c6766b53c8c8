//! Verification engines, one for each namespace: what one token's bearer has judged is never seen by another (DESIGN,
//! *Verification engine*). A namespace has the token's name, so that a new token under the same name goes on where the old one
//! ended.
//!
//! All namespaces together take `max_engine_mib` of memory. Where that is not enough,
//!
//! 1. namespaces that nobody used for a minute are saved and closed: they lose nothing, and are read back when they are used;
//! 2. the largest ones forget what they used least recently, down to a common level, never below an equal share for each open
//!    namespace. Nobody can push out another who has less than that. What is forgotten so is counted in `/metrics` and logged; it
//!    is learned anew when the tool is used again. Feedback goes with its tool, profiles never go.
//!
//! Profiles cannot be forgotten, so they have a quarter of the memory, of which a namespace can always have its part.

use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError, RwLock, TryLockError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use axum::http::StatusCode;
use credence_verify::{Mode, Trimmed};

use crate::{
    namespace::Namespace,
    problem::Problem,
    settings::{Settings, VerifyMode},
};

/// A namespace that nobody used for so long is closed where memory is short.
const IDLE_SECONDS: u64 = 60;
/// The same where there are too many namespaces, and another needs the place.
const UNUSED_SECONDS: u64 = 1;
/// How often it is logged that something was forgotten.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// All namespaces.
pub(crate) struct Engines {
    folder: PathBuf,
    mode: Mode,
    most: usize,
    /// Bytes, at most and now.
    most_bytes: usize,
    bytes: Arc<AtomicUsize>,
    since: Instant,
    open: RwLock<HashMap<String, Arc<Namespace>>>,
    /// One is opened or closed at a time, and users of another do not wait for it.
    opening: Mutex<()>,
    /// When it was told last that something was forgotten; held while something is.
    trimming: Mutex<Option<Instant>>,
    /// Tools, histories, sessions.
    forgotten: [AtomicU64; 3],
}

impl Engines {
    pub(crate) fn new(folder: PathBuf, settings: &Settings) -> Self {
        let mode = match settings.verify_mode {
            VerifyMode::Adaptive => Mode::Adaptive,
            VerifyMode::Fixed => Mode::Fixed,
        };
        Self {
            folder,
            mode,
            most: settings.max_namespaces,
            most_bytes: settings.max_engine_mib * 1024 * 1024,
            bytes: Arc::default(),
            since: Instant::now(),
            open: RwLock::default(),
            opening: Mutex::default(),
            trimming: Mutex::default(),
            forgotten: Default::default(),
        }
    }

    /// A namespace that was used since the start.
    pub(crate) fn opened(&self, name: &str) -> Option<Arc<Namespace>> {
        let found = self.open.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()?;
        found.used.store(self.since.elapsed().as_secs(), Ordering::Relaxed);
        Some(found)
    }

    /// A namespace. Reads files the first time.
    pub(crate) fn open(&self, name: &str) -> Result<Arc<Namespace>, Problem> {
        if let Some(namespace) = self.opened(name) {
            return Ok(namespace);
        }
        let _turn = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(namespace) = self.opened(name) {
            return Ok(namespace);
        }
        if self.len() >= self.most && !self.close_one(UNUSED_SECONDS)? {
            let detail = format!("all of max_namespaces ({}) is in use", self.most);
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_namespaces", detail).retry_after(2));
        }
        let opened = Namespace::read(self.mode, &self.folder, name, &self.bytes)?;
        // Its profiles were accepted before: others that came meanwhile do not keep it out.
        opened.used.store(self.since.elapsed().as_secs(), Ordering::Relaxed);
        let namespace = Arc::new(opened);
        self.open.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), Arc::clone(&namespace));
        self.stay_within();
        Ok(namespace)
    }

    /// Saves and closes the namespace that was not used for the longest time, if that is longer than `idle` seconds and nobody
    /// has it at hand; whether there was one. Needs the lock on opening.
    fn close_one(&self, idle: u64) -> io::Result<bool> {
        let now = self.since.elapsed().as_secs();
        let closed = {
            let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
            let free = open.iter().filter(|(_, one)| Arc::strong_count(one) == 1);
            let idle = free.filter(|(_, one)| now.saturating_sub(one.used.load(Ordering::Relaxed)) > idle);
            let oldest = idle.min_by_key(|(_, one)| one.used.load(Ordering::Relaxed)).map(|(name, _)| name.clone());
            oldest.and_then(|name| open.remove_entry(&name))
        };
        let Some((name, namespace)) = closed else { return Ok(false) };
        let saved = namespace.save();
        if saved.is_err() {
            // What could not be saved stays.
            self.open.write().unwrap_or_else(PoisonError::into_inner).insert(name, namespace);
        }
        saved.map(|()| true)
    }

    /// Closes namespaces that nobody uses while memory is short.
    pub(crate) fn close_idle(&self) -> io::Result<()> {
        while self.bytes() > self.most_bytes / 4 * 3 {
            let _turn = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
            if !self.close_one(IDLE_SECONDS)? {
                break;
            }
        }
        Ok(())
    }

    /// Has the largest namespaces forget, where all together take more than they may. Called after something was learned.
    pub(crate) fn stay_within(&self) {
        let bytes = self.bytes();
        if bytes <= self.most_bytes {
            return;
        }
        // A caller that comes while another is at it goes on, unless there is far too much.
        let mut told = match self.trimming.try_lock() {
            Ok(told) => told,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) if bytes < self.most_bytes / 16 * 17 => return,
            Err(TryLockError::WouldBlock) => self.trimming.lock().unwrap_or_else(PoisonError::into_inner),
        };
        if self.bytes() <= self.most_bytes {
            return;
        }
        let open: Vec<Arc<Namespace>> =
            self.open.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        let sizes: Vec<usize> = open.iter().map(|one| one.bytes()).collect();
        // A little less than they may: not for every call anew.
        let level = level(&sizes, self.most_bytes - self.most_bytes / 64);
        for (namespace, _) in open.iter().zip(&sizes).filter(|(_, size)| **size > level) {
            let Trimmed { tools, histories, sessions } = namespace.trim(level);
            for (all, more) in self.forgotten.iter().zip([tools, histories, sessions]) {
                all.fetch_add(more, Ordering::Relaxed);
            }
            if told.is_none_or(|last| last.elapsed() > TELL_EVERY) {
                *told = Some(Instant::now());
                tracing::warn!(
                    namespace = namespace.name(),
                    tools,
                    histories,
                    sessions,
                    "max_engine_mib is used up: the largest namespaces forget what they used least recently"
                );
            }
        }
    }

    /// Whether there is memory for so many bytes of profiles in a namespace.
    pub(crate) fn room_for_profiles(&self, name: &str, bytes: usize) -> Result<(), Problem> {
        let most = self.most_bytes / 4;
        let others: usize = {
            let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
            open.iter().filter(|(other, _)| *other != name).map(|(_, one)| one.profiles_memory()).sum()
        };
        if others + bytes <= most || bytes <= most / self.most {
            return Ok(());
        }
        let detail = "the profiles of all tokens take the part of max_engine_mib that is for them: register fewer or smaller ones";
        Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_profiles", detail).retry_after(60))
    }

    /// Keeps what every engine has learned; gives the first error.
    pub(crate) fn save(&self) -> io::Result<()> {
        let all: Vec<_> = self.open.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        let mut first = Ok(());
        for namespace in all {
            let saved = namespace.save();
            first = first.and(saved);
        }
        first
    }

    /// How many are open.
    pub(crate) fn len(&self) -> usize {
        self.open.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Memory of all of them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// What was forgotten since the start because memory was short.
    pub(crate) fn forgotten(&self) -> Trimmed {
        let [tools, histories, sessions] = self.forgotten.each_ref().map(|count| count.load(Ordering::Relaxed));
        Trimmed { tools, histories, sessions }
    }
}

/// The size to which all larger ones have to shrink so that together they take `most`: never less than an equal share.
fn level(sizes: &[usize], most: usize) -> usize {
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable();
    let mut left = most;
    for (at, size) in sizes.iter().enumerate() {
        let share = left / (sizes.len() - at);
        if *size > share {
            return share;
        }
        left -= size;
    }
    usize::MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use credence_verify::Call;
    use serde_json::{Map, Value, json};

    fn engines(folder: &std::path::Path, namespaces: usize) -> Engines {
        let settings = Settings { max_engine_mib: 8, max_namespaces: namespaces, ..Settings::default() };
        Engines::new(folder.to_owned(), &settings)
    }

    /// A call of a tool with a result of its own kind.
    fn judge(engines: &Engines, name: &str, n: usize) {
        let namespace = engines.open(name).unwrap();
        let wide: Map<String, Value> = (0..40).map(|key| (format!("{n} {key}"), json!(format!("text {n}")))).collect();
        let (tool, args, result) = (format!("tool-{n}"), json!({ "n": n }), Value::Object(wide));
        namespace.engine.verify(&Call::new(&tool, &result).args(&args).session(&tool)).unwrap();
        drop(namespace);
        engines.stay_within();
    }

    #[test]
    fn the_level_takes_from_the_largest_only() {
        assert_eq!(level(&[10, 10, 10], 30), usize::MAX);
        assert_eq!(level(&[10, 100, 1_000], 300), 190);
        assert_eq!(level(&[100, 100, 100, 100], 200), 50);
        assert_eq!(level(&[], 1), usize::MAX);
    }

    /// Memory has a bound over all tokens, and those who have little keep it whatever others do.
    #[test]
    fn greedy_namespaces_forget_and_small_ones_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let engines = engines(folder.path(), 64);
        for n in 0..12 {
            judge(&engines, "honest", n);
        }
        let honest = engines.open("honest").unwrap();
        let learned = honest.engine.memory();
        assert!(learned.tools == 12 && learned.bytes < 8 * 1024 * 1024 / 11);
        for n in 0..1_500 {
            judge(&engines, &format!("greedy-{}", n % 10), n);
            assert!(engines.bytes() <= engines.most_bytes / 16 * 17);
        }
        let all: usize = engines.open.read().unwrap().values().map(|one| one.bytes()).sum();
        assert_eq!(engines.bytes(), all, "the sum is what the engines say");
        let forgotten = engines.forgotten();
        assert!(forgotten.tools > 100, "{forgotten:?}");
        assert_eq!(honest.engine.memory(), learned, "nothing of it was forgotten");
        for n in 0..10 {
            let share = engines.open(&format!("greedy-{n}")).unwrap().bytes();
            assert!(share > engines.most_bytes / 22, "{share}: none is pushed out by the others");
        }
    }

    #[test]
    fn what_is_closed_for_room_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut engines = engines(folder.path(), 2);
        judge(&engines, "one", 1);
        judge(&engines, "two", 2);
        assert_eq!(engines.open("three").err().unwrap().code, "too_many_namespaces", "both were used just now");
        // As if a while had gone by.
        engines.since -= Duration::from_secs(10);
        judge(&engines, "three", 3);
        assert_eq!(engines.len(), 2);
        engines.since -= Duration::from_secs(10);
        let memory = |name: &str| engines.open(name).unwrap().engine.memory();
        assert_eq!((memory("one").tools, memory("two").tools), (1, 1));
    }
}
