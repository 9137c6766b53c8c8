//! An authority with rated agents whose registrations are on a node of the tests, and everything that drives it.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use credence_chain::attest::Writer;
use credence_ledger::{Clock, LogKey, OutsideCheckpoint, SqliteLedger, sqlite::Options};
use credence_pipeline::{
    Authority, NewAgent, NewSource, Settings, TABLES,
    attestations::{AttestationRow, AttestationState, AttestationStep},
    audit::{self, Scope},
    credentials::Office,
    query,
};
use credence_protocol::{
    Audience, EntityId, ExternalSubject, LinkProof, SecretKey, SignalDraft, Tag, TagRegistry, Timestamp, Uuid,
};
use credence_server::attesting::{AttestError, Attester, AttestingChain, Pace};
use tempfile::TempDir;

use crate::{
    node::Node,
    world::{CONFIRMATIONS, World, now},
};

const ORIGIN: &str = "example.org/log";
const SOURCES: [(&str, &str); 3] = [("a", "rel_uptime"), ("b", "identity_domain"), ("c", "asi01_goal_hijack")];
/// After so long a transaction is replaced.
pub const REPLACE_AFTER: u64 = 180;

/// On an EVM node, unless a test names another.
pub struct House<N = World> {
    pub world: N,
    pub folder: TempDir,
    clock: Arc<AtomicI64>,
    authority: Option<Arc<Authority>>,
}

pub fn id(text: &str) -> EntityId {
    EntityId::new(text).unwrap()
}

fn key(name: &str) -> SecretKey {
    let mut seed = [1; 32];
    seed[..name.len()].copy_from_slice(name.as_bytes());
    SecretKey::from_seed(&seed)
}

fn log_key() -> LogKey {
    LogKey::new(ORIGIN, &SecretKey::from_seed(&[3; 32])).unwrap()
}

/// What the tests' chain is like, but for what a test changes.
pub fn chain(writer: Writer) -> AttestingChain {
    AttestingChain {
        writer,
        confirmations: CONFIRMATIONS,
        replace_after_seconds: REPLACE_AFTER,
        daily_budget: None,
        by_rule: false,
        local: true,
    }
}

impl House {
    /// With so many agents, `bot0` and on, each with the registration of its number.
    pub fn with_agents(agents: u64) -> Option<Self> {
        Self::on(World::start()?, agents)
    }
}

impl<N: Node> House<N> {
    pub fn on(world: N, agents: u64) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(AtomicI64::new(i64::try_from(now()).unwrap() * 1_000_000));
        let mut house = Self { world, folder, clock, authority: None };
        drop(SqliteLedger::create(house.options(), log_key(), house.clock()).unwrap());
        house.restart();
        let authority = house.authority();
        authority.add_source(NewSource::new(id("credence"), 1.0)).unwrap();
        authority.add_key(&key("credence").public(), id("credence")).unwrap();
        for (source, _) in SOURCES {
            authority.add_source(NewSource::new(id(source), 1.0)).unwrap();
            authority.add_key(&key(source).public(), id(source)).unwrap();
        }
        for n in 0..agents {
            house.world.register_agent(n);
            house.add_agent(n);
        }
        Some(house)
    }

    fn add_agent(&self, n: u64) {
        self.add_agent_with(&format!("bot{n}"), &self.world.subject_of(n));
    }

    /// A rated agent with a proven registration.
    pub fn add_agent_with(&self, agent: &str, subject: &ExternalSubject) {
        let authority = self.authority();
        authority.add_agent(NewAgent::new(id(agent))).unwrap();
        let line = authority.claim_link(&id(agent), subject, 30).unwrap();
        let proof = LinkProof { method: "file".into(), url: None, digest: None, signature: None };
        authority.prove_link(&line, proof).unwrap();
        self.measure(agent, 90.0);
    }

    /// Every source says so of an agent, and it is scored.
    pub fn measure(&self, agent: &str, value: f64) {
        for (source, tag) in SOURCES {
            let tags = vec![Tag::new(tag).unwrap()];
            let draft = SignalDraft::new(id(agent), id(source), tags, value, 2.0, self.now());
            let signal = draft.to(Audience::new(ORIGIN).unwrap()).sign(&key(source)).unwrap();
            self.authority().submit(signal.canonical().as_bytes()).unwrap().unwrap();
        }
        self.authority().score_now().unwrap();
    }

    fn options(&self) -> Options {
        Options {
            path: self.folder.path().join("ledger.db"),
            tables: TABLES,
            outside: OutsideCheckpoint::at(self.folder.path().join("checkpoint")),
            sealing: Default::default(),
        }
    }

    fn clock(&self) -> Clock {
        let clock = Arc::clone(&self.clock);
        Arc::new(move || Timestamp::from_micros(clock.fetch_add(1, Ordering::Relaxed)).unwrap())
    }

    pub fn now(&self) -> Timestamp {
        (self.clock())()
    }

    pub fn advance(&self, seconds: u64) {
        self.clock.fetch_add(i64::try_from(seconds).unwrap() * 1_000_000, Ordering::Relaxed);
    }

    /// A process that opens the ledger.
    fn process(&self) -> Arc<Authority> {
        let ledger = SqliteLedger::open(self.options(), log_key(), self.clock()).unwrap();
        let settings = Settings { signer: Some(key("credence")), ..Settings::default() };
        Arc::new(Authority::open(Arc::new(ledger), &settings, self.clock()).unwrap())
    }

    /// The process dies, and another one starts.
    pub fn restart(&mut self) {
        self.authority = None;
        self.authority = Some(self.process());
    }

    pub fn authority(&self) -> Arc<Authority> {
        Arc::clone(self.authority.as_ref().unwrap())
    }

    pub fn attester(&self) -> Attester<Authority> {
        let confirmations = self.world.confirmations();
        self.attester_of(self.authority(), AttestingChain { confirmations, ..chain(self.world.any_writer()) })
    }

    /// What looks lost is believed at once: in these tests nodes are in step with themselves.
    pub fn attester_of(&self, authority: Arc<Authority>, chain: AttestingChain) -> Attester<Authority> {
        let office = Office::new("http://127.0.0.1:1", key("credence"));
        let pace = Pace { look: Duration::from_millis(10), again_seconds: 0, looks_until_lost: 1 };
        Attester::new(authority, office, log_key().verifier().clone(), self.clock(), vec![chain], pace)
    }

    /// Intends to attest `bot{n}`.
    pub async fn intend(&self, n: u64) -> Uuid {
        self.intend_by(&self.attester(), n).await.unwrap()
    }

    pub async fn intend_by(&self, attester: &Attester<Authority>, n: u64) -> Result<Uuid, AttestError> {
        let draft = attester.draft(&id(&format!("bot{n}")), &self.world.chain_id(), None, true).await?;
        let attestation = draft.attestation;
        attester.intend(draft).await?;
        Ok(attestation)
    }

    pub fn row(&self, id: Uuid) -> AttestationRow {
        query::attestation(&*self.authority().ledger().view().unwrap(), id).unwrap().unwrap()
    }

    pub fn state(&self, id: Uuid) -> AttestationState {
        self.row(id).state
    }

    pub fn steps(&self, id: Uuid) -> Vec<&'static str> {
        self.row(id).steps.iter().map(|step| step.step.key()).collect()
    }

    pub fn entries(&self) -> u64 {
        self.authority().ledger().view().unwrap().size().unwrap()
    }

    pub fn score(&self, n: u64) -> i128 {
        let authority = self.authority();
        let row = query::assured(&*authority.ledger().view().unwrap(), &id(&format!("bot{n}"))).unwrap().unwrap();
        i128::from(row.recorded.assured.score)
    }

    /// Drives until it is over: each step by another process where `restarting`, a block between any two.
    pub async fn finish(&mut self, id: Uuid, restarting: bool) {
        for _ in 0..40 {
            if restarting {
                self.restart();
            }
            self.attester().step(id).await.unwrap();
            if !self.state(id).is_open() {
                return;
            }
            self.world.pass();
        }
        panic!("{:?}", self.row(id));
    }

    /// Exactly one attestation of `bot{n}` is on the chain, not revoked, and the ledger is sound.
    pub fn assert_one(&self, n: u64, attestation: Uuid) {
        assert_eq!(self.world.written(n), [(self.score(n), false)], "{:?}", self.steps(attestation));
        assert_eq!(self.state(attestation), AttestationState::Final, "{:?}", self.steps(attestation));
        self.assert_sound();
    }

    /// Replay and audit find nothing, and the key is in no file.
    pub fn assert_sound(&self) {
        let authority = self.authority();
        authority.flush().unwrap();
        let outside = OutsideCheckpoint::at(self.folder.path().join("checkpoint")).read(log_key().verifier());
        let tags = TagRegistry::standard().unwrap();
        let view = authority.ledger().view().unwrap();
        let log = log_key();
        let scope = Scope { log: log.verifier(), outside: &outside, tags: &tags, now: None, quick: false };
        let audited = audit::audit(&*view, scope, &mut |_| {}).unwrap();
        assert_eq!(audited.findings.count, 0, "{:?}", audited.findings);
        for file in fs::read_dir(self.folder.path()).unwrap() {
            let bytes = fs::read(file.unwrap().path()).unwrap();
            let secret = self.world.secret();
            assert!(!bytes.windows(16).any(|part| part == secret), "the attesting key is in a file");
        }
    }

    pub fn is_at(&self, id: Uuid, step: AttestationStep) -> bool {
        self.row(id).steps.last().unwrap().step == step
    }
}
