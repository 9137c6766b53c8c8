//! An authority with an agent that three sources speak of.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use credence_ledger::{LogKey, OutsideCheckpoint, SqliteLedger, sqlite::Options};
use credence_pipeline::{
    Authority, NewAgent, NewSource, Settings, TABLES,
    audit::{self, Scope},
    query,
    reports::TokenHolder,
};
use credence_protocol::{Audience, EntityId, SecretKey, Signal, SignalDraft, Tag, TagRegistry, Timestamp, Uuid};
use credence_reports::{
    Actor, Contents, Desk, Reviewer,
    gather::{Request, gather},
};

pub struct Office {
    pub folder: tempfile::TempDir,
    pub authority: Authority,
    pub desk: Desk,
    clock: Arc<AtomicI64>,
}

pub fn id(text: &str) -> EntityId {
    EntityId::new(text).unwrap()
}

pub fn key(owner: &str) -> SecretKey {
    let mut seed = [1; 32];
    seed[..owner.len()].copy_from_slice(owner.as_bytes());
    SecretKey::from_seed(&seed)
}

fn log_key() -> LogKey {
    LogKey::new("example.org/log", &SecretKey::from_seed(&[3; 32])).unwrap()
}

pub fn actor(name: &str, reviews: bool) -> Actor {
    Actor::new(id(name), &format!("{name}1"), reviews)
}

pub fn reviewer(name: &str) -> Reviewer {
    actor(name, true).reviewer().unwrap()
}

/// No token was revoked.
pub fn all_in_force(_: &TokenHolder) -> bool {
    true
}

impl Office {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let start: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
        let clock = Arc::new(AtomicI64::new(start.micros()));
        let read = Arc::clone(&clock);
        let ticking: credence_ledger::Clock =
            Arc::new(move || Timestamp::from_micros(read.fetch_add(1, Ordering::Relaxed)).unwrap());
        let options = Options {
            path: folder.path().join("ledger.db"),
            tables: TABLES,
            outside: OutsideCheckpoint::at(folder.path().join("checkpoint")),
            sealing: Default::default(),
        };
        let ledger = SqliteLedger::create(options, log_key(), Arc::clone(&ticking)).unwrap();
        let settings = Settings { signer: Some(key("credence")), ..Settings::default() };
        let authority = Authority::open(Arc::new(ledger), &settings, ticking).unwrap();
        authority.hold_scores(true);
        for source in ["credence", "lab", "scan", "peer"] {
            authority.add_source(NewSource::new(id(source), 1.0)).unwrap();
            authority.add_key(&key(source).public(), id(source)).unwrap();
        }
        let desk = Desk::in_folder(folder.path());
        let office = Self { folder, authority, desk, clock };
        office.add_agent("shop", None);
        office
    }

    /// An agent that nobody speaks of.
    pub fn add_agent(&self, agent: &str, name: Option<&str>) {
        let new = NewAgent { name: name.map(str::to_owned), ..NewAgent::new(id(agent)) };
        self.authority.add_agent(new).unwrap();
    }

    /// Three sources speak of the shop.
    pub fn scored() -> Self {
        let office = Self::new();
        office.measure("lab", "rel_uptime", 95.0);
        office.measure("scan", "asi01_goal_hijack", 90.0);
        office.measure("peer", "identity_domain", 100.0);
        office.authority.score_now().unwrap();
        office
    }

    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.clock.load(Ordering::Relaxed)).unwrap()
    }

    pub fn advance(&self, seconds: i64) {
        self.clock.fetch_add(seconds * 1_000_000, Ordering::Relaxed);
    }

    pub fn measure(&self, source: &str, tag: &str, value: f64) {
        let draft = SignalDraft {
            id: Uuid::now_v7(),
            aud: Some(Audience::new("example.org/log").unwrap()),
            ..SignalDraft::new(id("shop"), id(source), vec![Tag::new(tag).unwrap()], value, 2.0, self.now())
        };
        let signal: Signal = draft.sign(&key(source)).unwrap();
        self.authority.submit(signal.canonical().as_bytes()).unwrap().unwrap();
    }

    pub fn gather(&self, agent: &str, drafter: &Actor, summary: Option<&str>) -> credence_reports::Result<Contents> {
        let view = self.authority.ledger().view().unwrap();
        let log = log_key();
        let request = Request {
            reading: self.authority.reading(),
            log: log.verifier(),
            agent: &query::resolve(&*view, agent)?,
            drafter: drafter.holder().clone(),
            summary: summary.map(str::to_owned),
            now: self.now(),
        };
        gather(&*view, request)
    }

    /// A draft about the shop, by `writer`.
    pub fn draft(&self, summary: &str) -> Uuid {
        let contents = self.gather("shop", &actor("writer", false), Some(summary)).unwrap();
        self.desk.draft(contents).unwrap().sheet().report()
    }

    /// How many entries there are.
    pub fn size(&self) -> u64 {
        self.authority.ledger().view().unwrap().size().unwrap()
    }

    /// What an audit finds wrong, and a replay besides.
    pub fn findings(&self) -> Vec<String> {
        let log = log_key();
        self.authority.flush().unwrap();
        let outside = OutsideCheckpoint::at(self.folder.path().join("checkpoint")).read(log.verifier());
        let tags = TagRegistry::standard().unwrap();
        let scope = Scope { log: log.verifier(), outside: &outside, tags: &tags, now: None, quick: false };
        let view = self.authority.ledger().view().unwrap();
        let audited = audit::audit(&*view, scope, &mut |_| {}).unwrap();
        audited.findings.listed.iter().map(|finding| finding.what.clone()).collect()
    }

    pub fn database(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.folder.path().join("reports.db")).unwrap()
    }
}
