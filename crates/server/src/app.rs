//! What every request sees. How work gets its turn is in [`work`], whether anything may be signed in [`signing`].

mod signing;
mod work;

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use arc_swap::ArcSwapOption;
use credence_egress::EgressError;
use credence_engine::assessment::Rules;
use credence_ingest::{Crawler, links::Registries};
use credence_ledger::{Clock, Kind, LogKey, LogVerifier, View};
use credence_pipeline::{
    Authority,
    attestations::Total,
    credentials::Office,
    query::{self, CurrentScore, Explanation, Reading, Reliability},
    receipts::ReceiptStore,
    times,
};
use credence_protocol::{EntityId, SecretKey, Timestamp};
use credence_reports::Desk;
use credence_sandbox::sensor::listener::Hits;
use credence_verify::Verdict;
use tokio::sync::{Semaphore, broadcast, watch};
use url::Url;

use crate::{
    answers::{Answers, Outbox},
    crawl::CrawlSettings,
    dashboard::{ranking::Rankings, session::Sessions, status::Samples},
    engines::Engines,
    events::{self, Event},
    identity::Identities,
    limiter::Limiter,
    metrics::{GaugeValues, Metrics},
    peers::EstablishedPeers,
    pool::Pool,
    problem::Problem,
    routes,
    settings::Settings,
    shares::{Lanes, Shares},
    steady::SteadyClock,
    tail::Tail,
    tokens::{Bearer, TokenStore, Tokens},
    turns::Turns,
    waiting_reviews::WaitingReviews,
};

/// Reads of the ledger at once, at most: four for each processor, because they hardly wait.
const READS: usize = 32;
/// Other work at once: most of it waits for the disk, and shares its waiting.
const WORKS: usize = 32;
/// Judging that takes long, at once, at most: one processor is left to those who answer.
const JUDGINGS: usize = 32;
/// Of each of those, for the operator besides.
const ADMIN_WORKS: usize = 4;
/// Namespaces that are opened at once: files are read and written.
const OPENINGS: usize = 1;
/// Questions to other hosts at once.
const LOOKUPS: usize = 8;
/// Threads that all of those need.
pub const BLOCKING_THREADS: usize = READS + WORKS + JUDGINGS + 3 * ADMIN_WORKS + 3 * LOOKUPS + 8;
/// Listeners that read what they missed at once.
const CATCH_UPS: usize = 4;
/// Bulk submissions at once.
const BULK: u64 = 16;
/// Requests of `admin` at once, bytes of their bodies and listeners: apart from what others have.
const ADMIN_IN_FLIGHT: u64 = 64;
const ADMIN_BODIES: u64 = 32 * MIB;
const ADMIN_LISTENERS: u64 = 64;
const MIB: u64 = 1024 * 1024;
/// Callers without a token have this part of the memory for bodies besides.
const ANONYMOUS_BODIES: u64 = 4;
/// Events that a slow listener may lag behind.
const EVENTS: usize = 1_024;

/// What a service is made of.
pub struct Setup {
    /// The ledger and what writes to it.
    pub authority: Authority,
    /// Verifies the log's checkpoints.
    pub log: LogVerifier,
    /// Signs answers.
    pub key: SecretKey,
    /// Where tokens are kept.
    pub tokens: Arc<dyn TokenStore>,
    /// The authority's folder: receipts, and what engines learned.
    pub folder: PathBuf,
    /// The time of day.
    pub clock: Clock,
    /// What the operator set.
    pub settings: Settings,
    /// Where the service is reached when the settings do not say.
    pub local_url: String,
    /// Signs the log of receipts that are held here; none are without it.
    pub receipts: Option<LogKey>,
    /// A demo, and the namespace that visitors of its pages see.
    pub demo: Option<EntityId>,
    /// What keeps `clock` from jumping ahead, where something does.
    pub steady: Option<Arc<SteadyClock>>,
}

/// A running service.
pub struct App {
    pub(crate) authority: Authority,
    pub(crate) log: LogVerifier,
    pub(crate) office: Office,
    /// The chains that scores are written to, once the service attests.
    #[cfg(feature = "chain")]
    pub(crate) attesting: std::sync::OnceLock<crate::attesting::AttestingChains>,
    /// On-chain registries that are read through nodes of the operator's own.
    registries: std::sync::OnceLock<Registries>,
    pub(crate) rules: Rules,
    pub(crate) clock: Clock,
    steady: Option<Arc<SteadyClock>>,
    pub(crate) settings: Settings,
    pub(crate) tokens: Tokens,
    pub(crate) engines: Engines,
    pub(crate) receipts: Option<ReceiptStore>,
    pub(crate) waiting_reviews: WaitingReviews,
    /// Drafts of reports, and reports.
    pub(crate) desk: Desk,
    /// In a demo: what every visitor of its pages may do.
    pub(crate) demo: Option<Arc<Bearer>>,
    pub(crate) sessions: Sessions,
    pub(crate) rankings: Rankings,
    pub(crate) peers: EstablishedPeers,
    pub(crate) samples: Samples,
    pub(crate) answers: Answers,
    pub(crate) outbox: Outbox,
    pub(crate) tail: Tail,
    pub(crate) scores: broadcast::Sender<Arc<Event>>,
    pub(crate) verdicts: broadcast::Sender<Arc<Event>>,
    pub(crate) listeners: Lanes<Arc<Shares>>,
    pub(crate) metrics: Metrics,
    pub(crate) limiter: Limiter,
    /// Names that a request may give the service; any where there are none.
    pub(crate) hosts: Vec<String>,
    /// Requests of each caller, from the first byte of the body to the last of a large answer.
    pub(crate) slots: Arc<Shares>,
    /// Requests that are worked on.
    pub(crate) in_flight: Lanes<Arc<Shares>>,
    pub(crate) bulk: Lanes<Arc<Shares>>,
    /// Bytes of bodies.
    pub(crate) bodies: Lanes<Arc<Pool>>,
    /// Bytes of large answers that are not read yet.
    pub(crate) large_answers: Lanes<Arc<Pool>>,
    following: tokio::sync::Mutex<()>,
    /// Listeners that catch up at once.
    pub(crate) catch_ups: Semaphore,
    /// Proofs of control are recorded one at a time.
    pub(crate) domains: std::sync::Mutex<()>,
    /// Reads of the ledger at once, and other work: what is given up still holds its place until it is over.
    reads: Turns,
    works: Turns,
    judgings: Turns,
    openings: Turns,
    /// Questions to other hosts at once.
    pub(crate) lookups: Arc<Shares>,
    /// Callers that identify themselves with a DID.
    pub(crate) identities: Identities,
    pub(crate) connections: Arc<Pool>,
    /// The disk was full when answers that left were to be recorded last.
    pub(crate) disk_full: AtomicBool,
    /// The curve of all outcomes, and when it was made.
    pub(crate) curve: tokio::sync::Mutex<Option<(std::time::Instant, Arc<Reliability>)>>,
    /// Why the key cannot sign, if it cannot.
    unusable: ArcSwapOption<String>,
    /// What the check of the whole ledger found: a constant of [`signing`].
    ledger_check: AtomicUsize,
    /// The authority's folder.
    pub(crate) folder: PathBuf,
    /// What targets of scheduled probes fetched from the listener.
    pub(crate) probe_hits: Hits,
    /// The service is about to stop.
    pub(crate) closing: watch::Sender<bool>,
}

/// Why a service could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// From the ledger.
    #[error(transparent)]
    Ledger(#[from] credence_ledger::Error),
    /// From the engine.
    #[error(transparent)]
    Engine(#[from] credence_engine::Error),
    /// From the store of tokens.
    #[error("tokens: {0}")]
    Tokens(#[from] crate::tokens::Error),
    /// What guards handed in cannot be seen.
    #[error("receipts: {0}")]
    Receipts(String),
    /// Files, sockets.
    #[error("{0}: {1}")]
    Io(String, io::Error),
}

impl App {
    /// Puts a service together.
    pub fn new(setup: Setup) -> Result<Arc<Self>, StartError> {
        let Setup { authority, log, key, tokens, folder, clock, settings, local_url, receipts, demo, steady } = setup;
        let handed_in =
            query::guard_logs(&*authority.ledger().view()?).map_err(|e| StartError::Receipts(e.to_string()))? > 0;
        let receipts =
            receipts.map(|key| ReceiptStore::open(&folder, key, Arc::clone(&clock), handed_in)).transpose()?;
        let tokens = Tokens::open(tokens)?;
        let now = clock();
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let lanes = |admin: u64, tokens: u64, anonymous: u64| Lanes {
            admin: Shares::new(admin),
            tokens: Shares::new(tokens),
            anonymous: Shares::new(anonymous),
        };
        let memory = || Lanes {
            admin: Pool::new(ADMIN_BODIES),
            tokens: Pool::new(settings.max_body_memory_mib as u64 * MIB),
            anonymous: Pool::new((settings.max_body_memory_mib as u64 * MIB / ANONYMOUS_BODIES).max(4 * MIB)),
        };
        let in_flight = settings.max_in_flight as u64;
        let listeners = settings.max_event_clients as u64;
        let office = Office::new(settings.base_url(&local_url), key);
        let hosts = crate::mcp::http::hosts(&settings.listen, Url::parse(&office.base_url).ok().as_ref());
        let app = Arc::new(Self {
            tail: Tail::from(authority.ledger().committed()?),
            authority,
            log,
            office,
            #[cfg(feature = "chain")]
            attesting: Default::default(),
            registries: Default::default(),
            rules: Rules::standard()?,
            clock,
            steady,
            tokens,
            desk: Desk::in_folder(&folder),
            engines: Engines::new(folder.join("engines"), &settings),
            receipts,
            waiting_reviews: WaitingReviews::default(),
            demo: demo.map(|name| Arc::new(Bearer::visitor(name, now))),
            sessions: Sessions::default(),
            rankings: Rankings::default(),
            peers: EstablishedPeers::default(),
            samples: Samples::default(),
            answers: Answers::default(),
            outbox: Outbox::default(),
            scores: broadcast::Sender::new(EVENTS),
            verdicts: broadcast::Sender::new(EVENTS),
            listeners: lanes(ADMIN_LISTENERS, listeners, listeners),
            metrics: Metrics::new(),
            limiter: Limiter::new(&settings),
            hosts,
            slots: Shares::new(u64::MAX),
            in_flight: lanes(ADMIN_IN_FLIGHT, in_flight, in_flight),
            bulk: lanes(BULK, BULK, BULK),
            bodies: memory(),
            large_answers: memory(),
            following: tokio::sync::Mutex::default(),
            catch_ups: Semaphore::new(CATCH_UPS),
            domains: std::sync::Mutex::default(),
            reads: Turns::new((4 * processors).clamp(8, READS), processors, ADMIN_WORKS),
            works: Turns::new(WORKS, processors, ADMIN_WORKS),
            judgings: Turns::new((processors - 1).clamp(1, JUDGINGS), processors, ADMIN_WORKS),
            openings: Turns::new(OPENINGS, OPENINGS, OPENINGS),
            lookups: Shares::new(LOOKUPS as u64),
            identities: Identities::default(),
            connections: Pool::new(crate::serve::room_for_connections(&settings) as u64),
            disk_full: AtomicBool::new(false),
            curve: tokio::sync::Mutex::default(),
            unusable: ArcSwapOption::empty(),
            ledger_check: AtomicUsize::new(signing::CHECK_RUNS),
            closing: watch::Sender::new(false),
            folder,
            probe_hits: Hits::default(),
            settings,
        });
        app.refresh_signing_permission()?;
        Ok(app)
    }

    /// The ledger and what writes to it, for whoever embeds the service.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Where guards' receipts are held, if they are.
    pub fn receipts(&self) -> Option<&ReceiptStore> {
        self.receipts.as_ref()
    }

    /// Judges one trace, as JSON, in a namespace: what `POST /v1/verify` does, for whoever embeds the service.
    pub fn judge(&self, namespace: &EntityId, trace: &[u8]) -> Result<Verdict, String> {
        routes::verify::judge_within(self, namespace.as_str(), trace).map_err(|problem| problem.detail().to_owned())
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// What is wrong with the clock, if anything is.
    pub(crate) fn clock_trouble(&self, view: &dyn View) -> Option<String> {
        if let Some(held) = self.steady.as_ref().and_then(|steady| steady.held()) {
            let seconds = held.as_secs();
            return Some(format!(
                "the clock jumped {seconds} s ahead: time goes on as it was. Set the clock, or restart if it is right"
            ));
        }
        times::last_recorded(view).ok().flatten().and_then(|last| times::ahead(last, self.now()))
    }

    /// How scores are read.
    pub(crate) fn reading(&self) -> Reading<'_> {
        self.authority.reading()
    }

    /// An agent's newest recorded score.
    pub(crate) fn score(&self, view: &dyn View, agent: &EntityId) -> Result<CurrentScore, Problem> {
        self.with_inputs(view, agent, |view| self.reading().score(view, agent))
    }

    /// An agent's newest recorded score, and what each source did to it.
    pub(crate) fn explained(&self, view: &dyn View, agent: &EntityId) -> Result<Explanation, Problem> {
        self.with_inputs(view, agent, |view| self.reading().explain(view, agent))
    }

    /// An agent whose inputs could only be found by a replay of the ledger is rescored first: a request must not cost that much.
    fn with_inputs<T>(
        &self,
        view: &dyn View,
        agent: &EntityId,
        read: impl Fn(&dyn View) -> credence_pipeline::Result<T>,
    ) -> Result<T, Problem> {
        if !self.reading().needs_replay(view, agent)? {
            return Ok(read(view)?);
        }
        self.authority.rescore(agent)?;
        let view = self.authority.ledger().view()?;
        if self.reading().needs_replay(&*view, agent)? {
            // Signals of this agent come faster than it can be scored.
            return Err(credence_pipeline::answer::Refusal::Behind(agent.clone()).into());
        }
        Ok(read(&*view)?)
    }

    /// Looks at what is new in the ledger, and tells listeners.
    pub(crate) fn follow(&self) -> credence_ledger::Result<()> {
        let mut keys_changed = false;
        let followed = self.tail.follow(self.authority.ledger(), &mut |seq, entry| {
            keys_changed |= matches!(entry.kind, Kind::Key | Kind::KeyRevocation);
            if self.scores.receiver_count() > 0
                && let Some(event) = events::of_entry(seq, entry)
            {
                // Nobody listens any more: nothing lost.
                let _ = self.scores.send(Arc::new(event));
            }
        });
        if keys_changed {
            self.refresh_signing_permission()?;
        }
        followed
    }

    /// Looks at what is new, one caller at a time, and those who waited find it done. Not in turns with other work,
    /// because an answer that is kept needs nothing else.
    pub(crate) async fn catch_up(self: &Arc<Self>) -> Result<(), Problem> {
        if self.is_current() {
            return Ok(());
        }
        let _one_at_a_time = self.following.lock().await;
        if self.is_current() {
            return Ok(());
        }
        let app = Arc::clone(self);
        let followed = tokio::task::spawn_blocking(move || Ok(app.follow()?)).await;
        followed.unwrap_or_else(|e| Err(Problem::internal(&e)))
    }

    /// Whether everything durable was looked at.
    pub(crate) fn is_current(&self) -> bool {
        self.authority.ledger().committed().is_ok_and(|size| size <= self.tail.seen())
    }

    /// From now on proofs of on-chain registrations are checked through these.
    pub fn read_registries_with(&self, registries: Registries) {
        // A service is given them once, when it starts.
        let _ = self.registries.set(registries);
    }

    /// Asks others, as the settings say.
    pub(crate) fn crawler(&self) -> Result<Crawler, EgressError> {
        let settings = CrawlSettings {
            contact: Url::parse(&self.settings.public_url).ok(),
            mirror: Url::parse(&self.settings.crawl_mirror).ok(),
            secrets: Arc::new(|_| None),
            clock: Arc::clone(&self.clock),
            registries: self.registries.get().cloned().unwrap_or_default(),
        };
        settings.crawler()
    }

    pub(crate) fn metrics_text(&self) -> String {
        self.metrics.text(&GaugeValues {
            in_flight: self.requests_in_flight(),
            body_bytes: [&self.bodies.admin, &self.bodies.tokens, &self.bodies.anonymous]
                .map(|one| one.used())
                .iter()
                .sum(),
            connections: self.connections.used(),
            entries: self.authority.ledger().committed().unwrap_or_default(),
            responses_waiting: self.outbox.len(),
            namespaces: self.engines.len(),
            ledger_check: self.ledger_check.load(Ordering::Relaxed),
            clock_trouble: self.authority.ledger().view().is_ok_and(|view| self.clock_trouble(&*view).is_some()),
            engine_bytes: self.engines.bytes(),
            forgotten: self.engines.forgotten(),
            crawls: self.authority.ledger().view().ok().and_then(|view| query::crawls(&*view).ok()).unwrap_or_default(),
            attestations: self.attestation_totals(),
        })
    }

    /// Who signs, and where the service is reached.
    pub fn office(&self) -> &Office {
        &self.office
    }

    fn attestation_totals(&self) -> Vec<Total> {
        let view = self.authority.ledger().view().ok();
        view.and_then(|view| query::attestation_totals(&*view).ok()).unwrap_or_default()
    }

    pub(crate) fn requests_in_flight(&self) -> u64 {
        [&self.in_flight.admin, &self.in_flight.tokens, &self.in_flight.anonymous].map(|one| one.used()).iter().sum()
    }

    /// Records answers that left; remembers whether the disk was full.
    pub(crate) fn record_answers(&self) -> credence_pipeline::Result<()> {
        let recorded = self.outbox.record(&self.authority);
        let full = matches!(&recorded, Err(credence_pipeline::Error::Ledger(credence_ledger::Error::Full(_))));
        self.disk_full.store(full, Ordering::Relaxed);
        recorded
    }
}
