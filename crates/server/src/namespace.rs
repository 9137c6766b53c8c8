//! One namespace of the verification engine: what was learned for one token's name, its profiles and its feedback.
//!
//! What was learned is kept in snapshots; feedback, which somebody was told is recorded, also in a journal that is durable before
//! the answer. A snapshot says how far into which journal it reaches, so nothing counts twice.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, BufRead, BufReader, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use axum::http::StatusCode;
use credence_verify::{Builder, Engine, Feedback, Mode, ProfileBuilder, Trimmed};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    problem::Problem,
    recent::{Recent, ToolTally},
};

/// Profiles of one namespace.
const MAX_PROFILES: usize = 1_000;
/// Bytes of one profile.
const MAX_PROFILE_BYTES: usize = 64 * 1024;
/// Bytes of all profiles of a namespace.
const MAX_PROFILES_BYTES: usize = 4 * 1024 * 1024;
/// Feedbacks after which a journal is begun anew.
const JOURNAL_LINES: u64 = 1_000;
/// A namespace of which nothing was learned: locks and empty tables.
const EMPTY_BYTES: usize = 64 * 1024;
/// What a profile takes for each byte of its text: expressions and schemas are compiled.
const PROFILE_FACTOR: usize = 8;

/// A namespace: the engine, and the profiles that were registered.
pub(crate) struct Namespace {
    pub engine: Engine,
    profiles: Mutex<BTreeMap<String, ProfileBuilder>>,
    journal: Mutex<Journal>,
    /// What was judged recently.
    pub recent: Recent,
    files: Files,
    pub(crate) used: AtomicU64,
    /// Text of its profiles, in bytes.
    profile_bytes: AtomicUsize,
    /// Where the memory of all namespaces is counted.
    total: Arc<AtomicUsize>,
    /// A profile makes judging costly: it is not done on the threads that answer.
    costly: AtomicBool,
}

/// Where a namespace is kept.
struct Files {
    folder: PathBuf,
    name: String,
}

impl Files {
    fn state(&self) -> PathBuf {
        self.folder.join(format!("{}.state", self.name))
    }
    /// How the results of each tool were judged.
    fn tools(&self) -> PathBuf {
        self.folder.join(format!("{}.tools.json", self.name))
    }
    fn profiles(&self) -> PathBuf {
        self.folder.join(format!("{}.profiles.json", self.name))
    }
    /// The numbers of the journals there are, in order.
    fn journals(&self) -> io::Result<Vec<u64>> {
        let prefix = format!("{}.feedback.", self.name);
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let name = entry?.file_name();
            numbers.extend(name.to_str().and_then(|name| name.strip_prefix(&prefix)?.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }
    fn journal(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{}.feedback.{number}", self.name))
    }
}

/// Feedback that is not in a snapshot yet, and some that is.
struct Journal {
    file: File,
    number: u64,
    lines: u64,
}

/// How far a snapshot reaches: the first line of its file.
#[derive(Default, Serialize, Deserialize)]
struct Reach {
    journal: u64,
    lines: u64,
}

/// A line of the journal.
#[derive(Serialize, Deserialize)]
struct Line {
    tool: String,
    posterior: f64,
    fabricated: bool,
}

impl Namespace {
    /// From its files. What cannot be read is put aside, and the engine starts anew: judging goes on.
    pub(crate) fn read(mode: Mode, folder: &Path, name: &str, total: &Arc<AtomicUsize>) -> io::Result<Self> {
        let builder = || Engine::builder().mode(mode).counted_in(Arc::clone(total));
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let files = Files { folder: folder.to_owned(), name: name.to_owned() };
        let (engine, reach) = match fs::read(files.state()) {
            Ok(bytes) => restore(builder(), &bytes).unwrap_or_else(|error| {
                put_aside(&files.state(), &error);
                (builder().build(), Reach::default())
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (builder().build(), Reach::default()),
            Err(error) => return Err(error),
        };
        let journal = replay(&engine, &files, &reach)?;
        let profiles: BTreeMap<String, ProfileBuilder> = read_or_put_aside(&files.profiles())?;
        let tools: BTreeMap<String, ToolTally> = read_or_put_aside(&files.tools())?;
        let mut costly = false;
        for (tool, profile) in &profiles {
            let built = profile.clone().build().inspect(|profile| costly |= profile.is_costly());
            if let Err(error) = built.and_then(|profile| engine.register(tool, profile)) {
                tracing::error!(tool, %error, "a profile does not hold any more");
            }
        }
        let profile_bytes: usize = profiles.values().map(size).sum();
        total.fetch_add(EMPTY_BYTES + PROFILE_FACTOR * profile_bytes, Ordering::Relaxed);
        Ok(Self {
            engine,
            profiles: Mutex::new(profiles),
            journal: Mutex::new(journal),
            recent: Recent::from(tools, Arc::clone(total)),
            files,
            used: AtomicU64::default(),
            profile_bytes: AtomicUsize::new(profile_bytes),
            total: Arc::clone(total),
            costly: AtomicBool::new(costly),
        })
    }

    /// Memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.engine.memory().bytes + self.fixed_bytes()
    }

    fn fixed_bytes(&self) -> usize {
        EMPTY_BYTES + self.profiles_memory() + self.recent.bytes()
    }

    /// Memory of its profiles, which are never forgotten.
    pub(crate) fn profiles_memory(&self) -> usize {
        PROFILE_FACTOR * self.profile_bytes.load(Ordering::Relaxed)
    }

    /// Forgets until it takes `most` bytes, as far as that goes.
    pub(crate) fn trim(&self, most: usize) -> Trimmed {
        if self.fixed_bytes() > most / 2 {
            self.recent.forget();
        }
        self.engine.trim(most.saturating_sub(self.fixed_bytes()))
    }

    /// The name of the token.
    pub(crate) fn name(&self) -> &str {
        &self.files.name
    }

    /// Registers a profile, durably. `room` says whether there is memory for so many bytes of profiles in this namespace.
    pub(crate) fn register(
        &self,
        tool: &str,
        profile: ProfileBuilder,
        room: impl FnOnce(usize) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let bytes = size(&profile);
        if bytes > MAX_PROFILE_BYTES {
            let detail = format!("the profile has {bytes} bytes, the limit is {MAX_PROFILE_BYTES}");
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail));
        }
        let built = profile.clone().build()?;
        let mut profiles = self.profiles.lock().unwrap_or_else(PoisonError::into_inner);
        let others: usize = profiles.iter().filter(|(name, _)| *name != tool).map(|(_, one)| size(one)).sum();
        if others + bytes > MAX_PROFILES_BYTES || profiles.len() >= MAX_PROFILES && !profiles.contains_key(tool) {
            let detail = format!("at most {MAX_PROFILES} profiles of {MAX_PROFILES_BYTES} bytes together");
            return Err(Problem::unprocessable("too_many_profiles", detail));
        }
        room(PROFILE_FACTOR * (others + bytes))?;
        if built.is_costly() {
            self.costly.store(true, Ordering::Release);
        }
        self.engine.register(tool, built)?;
        profiles.insert(tool.to_owned(), profile);
        let before = self.profile_bytes.swap(others + bytes, Ordering::Relaxed);
        self.total.fetch_add(PROFILE_FACTOR * (others + bytes), Ordering::Relaxed);
        self.total.fetch_sub(PROFILE_FACTOR * before, Ordering::Relaxed);
        let text = serde_json::to_vec(&*profiles).map_err(|e| Problem::internal(&e))?;
        Ok(keep(&self.files.profiles(), &[&text])?)
    }

    /// Whether judging may take long.
    pub(crate) fn is_costly(&self) -> bool {
        self.costly.load(Ordering::Acquire)
    }

    /// The profile of a tool.
    pub(crate) fn profile(&self, tool: &str) -> Option<ProfileBuilder> {
        self.profiles.lock().unwrap_or_else(PoisonError::into_inner).get(tool).cloned()
    }

    /// Tools with a profile.
    pub(crate) fn profiled(&self) -> Vec<String> {
        self.profiles.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Records what came out, durably.
    pub(crate) fn feedback(&self, tool: &str, posterior: f64, fabricated: bool) -> Result<Feedback, Problem> {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        let line = Line { tool: tool.to_owned(), posterior, fabricated };
        let mut text = serde_json::to_vec(&line).map_err(|e| Problem::internal(&e))?;
        text.push(b'\n');
        let before = journal.file.metadata()?.len();
        let written = journal.file.write_all(&text).and_then(|()| journal.file.sync_data());
        let told = written.map_err(Problem::from).and_then(|()| {
            self.engine.record_feedback(tool, posterior, fabricated)?;
            Ok(self.engine.feedback(tool)?)
        });
        if told.is_err() {
            // Half a line, or one that was not taken, must not stay.
            let _ = journal.file.set_len(before);
        } else {
            journal.lines += 1;
        }
        told
    }

    pub(crate) fn save(&self) -> io::Result<()> {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        let snapshot = self.engine.snapshot().map_err(io::Error::other)?;
        let next = if journal.lines > JOURNAL_LINES { journal.number + 1 } else { journal.number };
        let begun = (next != journal.number).then(|| append_to(&self.files.journal(next))).transpose()?;
        let reach = Reach { journal: next, lines: if begun.is_some() { 0 } else { journal.lines } };
        let head = serde_json::to_vec(&reach)?;
        keep(&self.files.state(), &[&head, b"\n", &snapshot])?;
        keep(&self.files.tools(), &[&serde_json::to_vec(&self.recent.tools())?])?;
        if let Some(file) = begun {
            for old in self.files.journals()?.into_iter().filter(|number| *number < next) {
                let _ = fs::remove_file(self.files.journal(old));
            }
            *journal = Journal { file, number: next, lines: 0 };
        }
        Ok(())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.total.fetch_sub(EMPTY_BYTES + self.profiles_memory(), Ordering::Relaxed);
    }
}

fn size(profile: &ProfileBuilder) -> usize {
    serde_json::to_vec(profile).map_or(usize::MAX, |text| text.len())
}

fn restore(builder: Builder, bytes: &[u8]) -> Result<(Engine, Reach), String> {
    let end = bytes.iter().position(|b| *b == b'\n').ok_or("it has no head")?;
    let reach: Reach = serde_json::from_slice(&bytes[..end]).map_err(|e| e.to_string())?;
    let engine = builder.restore(&bytes[end + 1..]).map_err(|e| e.to_string())?;
    Ok((engine, reach))
}

/// Feeds back what the snapshot has not seen, from every journal that it does not reach beyond; a last line that was cut off was
/// not acknowledged.
fn replay(engine: &Engine, files: &Files, reach: &Reach) -> io::Result<Journal> {
    let newer: Vec<u64> = files.journals()?.into_iter().filter(|number| *number >= reach.journal).collect();
    let number = newer.last().copied().unwrap_or(reach.journal);
    let (mut lines, mut whole) = (0, 0);
    for one in newer {
        let seen = if one == reach.journal { reach.lines } else { 0 };
        (lines, whole) = replay_one(engine, &files.journal(one), seen)?;
    }
    let file = append_to(&files.journal(number))?;
    file.set_len(whole)?;
    Ok(Journal { file, number, lines })
}

/// How many whole lines a journal has, and their bytes.
fn replay_one(engine: &Engine, path: &Path, seen: u64) -> io::Result<(u64, u64)> {
    let mut reader = BufReader::new(File::open(path)?);
    let (mut lines, mut whole, mut text) = (0, 0_u64, Vec::new());
    while reader.read_until(b'\n', &mut text)? > 0 && text.ends_with(b"\n") {
        whole += text.len() as u64;
        if lines >= seen
            && let Ok(line) = serde_json::from_slice::<Line>(&text)
        {
            let _ = engine.record_feedback(&line.tool, line.posterior, line.fabricated);
        }
        lines += 1;
        text.clear();
    }
    Ok((lines, whole))
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// A file by names; an empty one where there is none.
fn read_or_put_aside<T: DeserializeOwned>(path: &Path) -> io::Result<BTreeMap<String, T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes).unwrap_or_else(|error| {
            put_aside(path, &error.to_string());
            BTreeMap::new()
        })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error),
    }
}

fn put_aside(path: &Path, error: &str) {
    tracing::error!(file = %path.display(), error, "what was kept cannot be read: it is put aside");
    let mut aside = path.as_os_str().to_owned();
    aside.push(".unreadable");
    let _ = fs::rename(path, aside);
}

/// Replaces the file as a whole or not at all.
fn keep(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let mut next = path.as_os_str().to_owned();
    next.push(".next");
    let next = PathBuf::from(next);
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&next)?;
    parts.iter().try_for_each(|part| file.write_all(part))?;
    file.sync_all()?;
    fs::rename(next, path)?;
    // The name too is on disk then.
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feedback_counts_once_whenever_the_process_ends() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Namespace::read(Mode::Adaptive, folder.path(), "mine", &Arc::default()).unwrap();
        let count = |namespace: &Namespace| namespace.engine.feedback("t").unwrap().count;
        let first = open();
        for _ in 0..3 {
            first.feedback("t", 0.4, false).unwrap();
        }
        // Ended without a word.
        drop(first);
        let second = open();
        assert_eq!(count(&second), 3);
        second.save().unwrap();
        second.feedback("t", 0.4, false).unwrap();
        drop(second);
        // A line cut off in the middle was not acknowledged.
        append_to(&folder.path().join("mine.feedback.0")).unwrap().write_all(b"{\"tool\":\"t\",\"poste").unwrap();
        let third = open();
        assert_eq!(count(&third), 4);
        for _ in 0..JOURNAL_LINES {
            third.feedback("t", 0.4, false).unwrap();
        }
        third.save().unwrap();
        assert!(!folder.path().join("mine.feedback.0").exists() && folder.path().join("mine.feedback.1").exists());
        third.feedback("t", 0.4, false).unwrap();
        drop(third);
        assert_eq!(count(&open()), 5 + JOURNAL_LINES);
        // What was learned is damaged: what was acknowledged since the last journal was begun still counts, and once.
        fs::write(folder.path().join("mine.state"), b"damaged").unwrap();
        let fourth = open();
        assert_eq!(count(&fourth), 1);
        for _ in 0..=JOURNAL_LINES {
            fourth.feedback("t", 0.4, false).unwrap();
        }
        fourth.save().unwrap();
        drop(fourth);
        assert_eq!(count(&open()), 2 + JOURNAL_LINES);
    }

    #[test]
    fn what_cannot_be_read_is_put_aside() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("mine.state"), b"{}\nnonsense").unwrap();
        fs::write(folder.path().join("mine.profiles.json"), b"nonsense").unwrap();
        let namespace = Namespace::read(Mode::Fixed, folder.path(), "mine", &Arc::default()).unwrap();
        assert!(namespace.profiled().is_empty());
        assert!(folder.path().join("mine.state.unreadable").exists());
        assert!(folder.path().join("mine.profiles.json.unreadable").exists());
    }
}
