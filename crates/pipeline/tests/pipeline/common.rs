//! An authority in a temporary folder, with sources and agents.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use crate::tables::{self, CurrentRow};
use credence_ledger::{
    Checkpoint, Clock, Ledger, LogKey, OutsideCheckpoint, SqliteLedger, conformance::RunTwice, memory::MemoryLedger,
    sqlite::Options,
};
use credence_pipeline::{
    Authority, NewAgent, NewSource, Rejection, Settings, SourceChange, TABLES,
    admit::Admitted,
    audit::{self, Audited, Scope},
    query::{CurrentScore, ScoreRow},
    record::RecordedScore,
    replay::{self, Replayed},
};
use credence_protocol::{Audience, EntityId, SecretKey, Signal, SignalDraft, Tag, TagRegistry, Timestamp};

pub struct House {
    pub folder: tempfile::TempDir,
    pub authority: Authority,
    pub clock: Arc<AtomicI64>,
}

pub const START: &str = "2026-11-15T12:00:00Z";

pub fn id(text: &str) -> EntityId {
    EntityId::new(text).unwrap()
}

pub fn tag(text: &str) -> Tag {
    Tag::new(text).unwrap()
}

/// Another owner of a source.
pub fn run_by(owner: &str) -> SourceChange {
    SourceChange { owner: Some(id(owner)), ..SourceChange::default() }
}

/// Where a source says how it verifies, from now on.
pub fn verifying_by(methodology: &str) -> SourceChange {
    SourceChange { methodology: Some(methodology.to_owned()), ..SourceChange::default() }
}

/// What signals and statements for the tests' authority name.
pub fn aud() -> Option<Audience> {
    Some(Audience::new("example.org/log").unwrap())
}

/// The key of a source, the same in every test.
pub fn key(source: &str) -> SecretKey {
    let mut seed = [1; 32];
    seed[..source.len().min(32)].copy_from_slice(&source.as_bytes()[..source.len().min(32)]);
    SecretKey::from_seed(&seed)
}

pub fn log_key() -> LogKey {
    LogKey::new("example.org/log", &SecretKey::from_seed(&[3; 32])).unwrap()
}

/// A clock that moves on by a microsecond each time it is asked.
pub fn ticking(clock: &Arc<AtomicI64>) -> Clock {
    let read = Arc::clone(clock);
    Arc::new(move || Timestamp::from_micros(read.fetch_add(1, Ordering::Relaxed)).unwrap())
}

pub fn options(folder: &tempfile::TempDir) -> Options {
    Options {
        path: folder.path().join("ledger.db"),
        tables: TABLES,
        outside: OutsideCheckpoint::at(folder.path().join("checkpoint")),
        sealing: Default::default(),
    }
}

impl House {
    pub fn new(sources: &[(&str, f64)], agents: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(AtomicI64::new(START.parse::<Timestamp>().unwrap().micros()));
        let authority = Self::start(&folder, &clock, true);
        Self { folder, authority, clock }.furnished(sources, agents)
    }

    /// The same on a ledger in memory, which waits for no disk.
    pub fn in_memory(sources: &[(&str, f64)], agents: &[&str]) -> Self {
        let clock = Arc::new(AtomicI64::new(START.parse::<Timestamp>().unwrap().micros()));
        Self::over(MemoryLedger::new(log_key(), ticking(&clock)), clock).furnished(sources, agents)
    }

    /// The same, and every unit of work runs twice: what it does must not depend on how often it ran.
    pub fn run_twice(sources: &[(&str, f64)], agents: &[&str]) -> Self {
        let clock = Arc::new(AtomicI64::new(START.parse::<Timestamp>().unwrap().micros()));
        Self::over(RunTwice(MemoryLedger::new(log_key(), ticking(&clock))), clock).furnished(sources, agents)
    }

    /// On any ledger whose time is `clock`'s.
    pub fn over(ledger: impl Ledger + 'static, clock: Arc<AtomicI64>) -> Self {
        let settings = Settings { signer: Some(key("credence")), ..Settings::default() };
        let authority = Authority::open(Arc::new(ledger), &settings, ticking(&clock)).unwrap();
        Self { folder: tempfile::tempdir().unwrap(), authority, clock }
    }

    /// Scores are made when a test asks for them: what they say must not depend on how quick the machine is.
    fn furnished(self, sources: &[(&str, f64)], agents: &[&str]) -> Self {
        let house = self;
        house.authority.hold_scores(true);
        for (source, weight) in sources {
            house.add_source(source, *weight);
        }
        for agent in agents {
            house.authority.add_agent(NewAgent::new(id(agent))).unwrap();
        }
        house
    }

    fn start(folder: &tempfile::TempDir, clock: &Arc<AtomicI64>, create: bool) -> Authority {
        let clock = ticking(clock);
        let ledger = if create { SqliteLedger::create } else { SqliteLedger::open };
        let ledger = ledger(options(folder), log_key(), Arc::clone(&clock)).unwrap();
        let settings = Settings { signer: Some(key("credence")), ..Settings::default() };
        Authority::open(Arc::new(ledger), &settings, clock).unwrap()
    }

    pub fn reopen(self) -> Self {
        let Self { folder, authority, clock } = self;
        drop(authority);
        let authority = Self::start(&folder, &clock, false);
        Self { folder, authority, clock }
    }

    /// Closes the ledger; gives the folder, which lives on.
    pub fn close(self) -> tempfile::TempDir {
        drop(self.authority);
        self.folder
    }

    pub fn database(&self) -> PathBuf {
        self.folder.path().join("ledger.db")
    }

    pub fn advance(&self, seconds: i64) {
        self.clock.fetch_add(seconds * 1_000_000, Ordering::Relaxed);
    }

    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.clock.load(Ordering::Relaxed)).unwrap()
    }

    pub fn add_source(&self, source: &str, weight: f64) {
        self.authority.add_source(NewSource::new(id(source), weight)).unwrap();
        self.authority.add_key(&key(source).public(), id(source)).unwrap();
    }

    pub fn draft(&self, agent: &str, source: &str, tags: &[&str], value: f64) -> SignalDraft {
        let tags = tags.iter().map(|t| tag(t)).collect();
        let draft = SignalDraft::new(id(agent), id(source), tags, value, 1.0, self.now());
        SignalDraft { aud: aud(), ..draft }
    }

    pub fn send(&self, signal: &Signal) -> Result<Admitted, Rejection> {
        self.authority.submit(signal.canonical().as_bytes()).unwrap()
    }

    /// Signs and submits; must be admitted.
    pub fn admit(&self, draft: SignalDraft) -> (Signal, u64) {
        let signal = draft.clone().sign(&key(draft.source.as_str())).unwrap();
        let admitted = self.send(&signal).unwrap();
        (signal, admitted.seq)
    }

    pub fn measure(&self, agent: &str, source: &str, tag: &str, value: f64) -> (Signal, u64) {
        self.admit(self.draft(agent, source, &[tag], value))
    }

    pub fn size(&self) -> u64 {
        self.authority.ledger().view().unwrap().size().unwrap()
    }

    pub fn current(&self) -> Vec<(String, CurrentRow)> {
        tables::all(&*self.authority.ledger().view().unwrap(), tables::CURRENT)
    }

    pub fn recorded(&self, agent: &str) -> Option<RecordedScore> {
        self.authority.score_now().unwrap();
        let view = self.authority.ledger().view().unwrap();
        tables::get::<ScoreRow>(&*view, tables::SCORES, &format!("{agent}/uts/1")).map(|row| row.recorded)
    }

    /// The newest recorded score, after everyone who waits was scored.
    pub fn score(&self, agent: &str) -> CurrentScore {
        self.authority.score_now().unwrap();
        let view = self.authority.ledger().view().unwrap();
        self.authority.reading().score(&*view, &id(agent)).unwrap()
    }

    pub fn replay(&self) -> Replayed {
        let view = self.authority.ledger().view().unwrap();
        replay::replay(&*view, &TagRegistry::standard().unwrap(), &mut |_| {}).unwrap()
    }

    pub fn audit(&self, quick: bool) -> Audited {
        let kept = options(&self.folder).outside;
        let outside = kept.path().exists().then(|| kept.read(log_key().verifier()));
        let view = self.authority.ledger().view().unwrap();
        // A ledger in memory keeps no checkpoint outside: its own stands in.
        let inside = || Checkpoint::open(&view.checkpoint().unwrap().unwrap(), log_key().verifier());
        audit_view(&*view, &outside.unwrap_or_else(inside), Some(self.now()), quick)
    }

    pub fn assert_sound(&self) {
        self.authority.score_now().unwrap();
        let audited = self.audit(false);
        assert_eq!(audited.findings.count, 0, "{:#?}", audited.findings);
    }
}

fn audit_view(
    view: &dyn credence_ledger::View,
    outside: &credence_ledger::Result<credence_ledger::Checkpoint>,
    now: Option<Timestamp>,
    quick: bool,
) -> Audited {
    let tags = TagRegistry::standard().unwrap();
    let key = log_key();
    let scope = Scope { log: key.verifier(), outside, tags: &tags, now, quick };
    audit::audit(view, scope, &mut |_| {}).unwrap()
}

/// Audits a closed ledger, whatever state it is in.
pub fn audit_folder(folder: &tempfile::TempDir) -> Audited {
    let outside = options(folder).outside.read(log_key().verifier());
    let ledger = SqliteLedger::open_unchecked(options(folder), log_key().verifier().clone()).unwrap();
    audit_view(&*ledger.view().unwrap(), &outside, None, false)
}
