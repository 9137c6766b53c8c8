//! What every request sees.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use arc_swap::ArcSwapOption;
use axum::http::StatusCode;
use credence_engine::assessment::Rules;
use credence_ledger::{Clock, Kind, LogKey, LogVerifier, View};
use credence_pipeline::{
    Authority,
    credentials::Office,
    derive,
    outcomes::Reliability,
    query::{CurrentScore, Explanation, Reading},
    receipts::ReceiptStore,
};
use credence_protocol::{EntityId, SecretKey, Timestamp};
use credence_verify::Verdict;
use tokio::sync::{Semaphore, broadcast, watch};

use crate::{
    answers::{Answers, Outbox},
    dashboard::{ranking::Rankings, session::Sessions, status::Samples},
    engines::Engines,
    events::{self, Event},
    identity::Identities,
    limiter::{Counts, Limiter},
    metrics::{GaugeValues, Metrics},
    problem::Problem,
    routes,
    settings::Settings,
    tail::Tail,
    tokens::{Bearer, TokenStore, Tokens},
};

/// Reads of the ledger at once.
const READS: usize = 32;
/// Other work at once: most of it waits for the disk, and shares its waiting.
const WORKS: usize = 32;
/// Questions to other hosts at once.
const LOOKUPS: usize = 8;
/// Threads that all of those need.
pub const BLOCKING_THREADS: usize = READS + WORKS + LOOKUPS + 8;
/// Memory for bodies on their way, in KiB.
const BODIES_KIB: usize = 256 * 1024;
/// Listeners that read what they missed at once.
const CATCH_UPS: usize = 4;
/// Bulk submissions at once.
const BULK: usize = 16;
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
}

/// A running service.
pub struct App {
    pub(crate) authority: Authority,
    pub(crate) log: LogVerifier,
    pub(crate) office: Office,
    pub(crate) rules: Rules,
    clock: Clock,
    pub(crate) settings: Settings,
    pub(crate) tokens: Tokens,
    pub(crate) engines: Engines,
    pub(crate) receipts: Option<ReceiptStore>,
    /// In a demo: what every visitor of its pages may do.
    pub(crate) demo: Option<Arc<Bearer>>,
    pub(crate) sessions: Sessions,
    pub(crate) rankings: Rankings,
    pub(crate) samples: Samples,
    pub(crate) answers: Answers,
    pub(crate) outbox: Outbox,
    pub(crate) tail: Tail,
    pub(crate) scores: broadcast::Sender<Arc<Event>>,
    pub(crate) verdicts: broadcast::Sender<Arc<Event>>,
    /// Listeners without a token, and with one: neither keeps the other out.
    pub(crate) listeners: Arc<Semaphore>,
    pub(crate) token_listeners: Arc<Semaphore>,
    pub(crate) listeners_of: Arc<Counts>,
    pub(crate) metrics: Metrics,
    pub(crate) limiter: Limiter,
    pub(crate) in_flight: Semaphore,
    pub(crate) bulk: Semaphore,
    /// Memory for bodies on their way, in KiB.
    pub(crate) bodies: Semaphore,
    /// Listeners that catch up at once.
    pub(crate) catch_ups: Semaphore,
    /// Proofs of control are recorded one at a time.
    pub(crate) domains: std::sync::Mutex<()>,
    /// Reads of the ledger at once, and other work: what is given up still holds its place until it is over.
    reads: Arc<Semaphore>,
    works: Arc<Semaphore>,
    /// Questions to other hosts at once.
    pub(crate) lookups: Arc<Semaphore>,
    /// Callers that identify themselves with a DID.
    pub(crate) identities: Identities,
    pub(crate) connections: AtomicUsize,
    pub(crate) connections_of: Counts,
    /// The curve of all outcomes, and when it was made.
    pub(crate) curve: tokio::sync::Mutex<Option<(std::time::Instant, Arc<Reliability>)>>,
    /// Why the key cannot sign, if it cannot.
    unusable: ArcSwapOption<String>,
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
    /// Files, sockets.
    #[error("{0}: {1}")]
    Io(String, io::Error),
}

impl App {
    /// Puts a service together.
    pub fn new(setup: Setup) -> Result<Arc<Self>, StartError> {
        let Setup { authority, log, key, tokens, folder, clock, settings, local_url, receipts, demo } = setup;
        let receipts = receipts.map(|key| ReceiptStore::open(&folder, key, Arc::clone(&clock))).transpose()?;
        let tokens = Tokens::open(tokens)?;
        let now = clock();
        let office = Office::new(settings.base_url(&local_url), key);
        let app = Arc::new(Self {
            tail: Tail::from(authority.ledger().committed()?),
            authority,
            log,
            office,
            rules: Rules::standard()?,
            clock,
            tokens,
            engines: Engines::new(folder.join("engines"), settings.verify_mode, settings.max_namespaces),
            receipts,
            demo: demo.map(|name| Arc::new(Bearer::visitor(name, now))),
            sessions: Sessions::default(),
            rankings: Rankings::default(),
            samples: Samples::default(),
            answers: Answers::default(),
            outbox: Outbox::default(),
            scores: broadcast::Sender::new(EVENTS),
            verdicts: broadcast::Sender::new(EVENTS),
            listeners: Arc::new(Semaphore::new(settings.max_event_clients)),
            token_listeners: Arc::new(Semaphore::new(settings.max_event_clients)),
            listeners_of: Arc::default(),
            metrics: Metrics::new(),
            limiter: Limiter::new(&settings),
            in_flight: Semaphore::new(settings.max_in_flight),
            bulk: Semaphore::new(BULK),
            bodies: Semaphore::new(BODIES_KIB),
            catch_ups: Semaphore::new(CATCH_UPS),
            domains: std::sync::Mutex::default(),
            reads: Arc::new(Semaphore::new(READS)),
            works: Arc::new(Semaphore::new(WORKS)),
            lookups: Arc::new(Semaphore::new(LOOKUPS)),
            identities: Identities::default(),
            connections_of: Counts::default(),
            curve: tokio::sync::Mutex::default(),
            unusable: ArcSwapOption::empty(),
            connections: AtomicUsize::new(0),
            closing: watch::Sender::new(false),
            settings,
        });
        app.refresh_signing_permission()?;
        Ok(app)
    }

    /// Whether the authority's key may sign. Asked at the start, and whenever a key or a revocation was recorded.
    fn refresh_signing_permission(&self) -> credence_ledger::Result<()> {
        let view = self.authority.ledger().view()?;
        let why = derive::unusable(&*view, &self.office.key)
            .unwrap_or_else(|error| Some(format!("whether the key may sign cannot be seen: {error}")));
        if let Some(why) = &why {
            tracing::error!(why, "nothing can be signed");
        }
        self.unusable.store(why.map(Arc::new));
        Ok(())
    }

    /// Refuses where nothing can be signed.
    pub(crate) fn signs(&self) -> Result<(), Problem> {
        match &*self.unusable.load() {
            None => Ok(()),
            Some(_) => {
                let detail = "the authority's signing key does not count any more: the operator has to give it another";
                Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "signing_key_unusable", detail).retry_after(60))
            }
        }
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

    /// Work that waits for the disk, off the threads that answer.
    pub(crate) async fn work<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&App) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.within(&self.works, work).await
    }

    /// The place is held until the work is over, also where nobody waits for it any more: what was given up must not pile up.
    async fn within<T: Send + 'static>(
        self: &Arc<Self>,
        places: &Arc<Semaphore>,
        work: impl FnOnce(&App) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let place = Arc::clone(places).acquire_owned().await.map_err(|e| Problem::internal(&e))?;
        let app = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || {
            let done = work(&app);
            drop(place);
            done
        });
        done.await.unwrap_or_else(|e| Err(Problem::internal(&e)))
    }

    /// A consistent read.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&App, &dyn View) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.within(&self.reads, move |app| read(app, &*app.authority.ledger().view()?)).await
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

    /// Whether everything durable was looked at.
    pub(crate) fn is_current(&self) -> bool {
        self.authority.ledger().committed().is_ok_and(|size| size <= self.tail.seen())
    }

    pub(crate) fn metrics_text(&self) -> String {
        self.metrics.text(&GaugeValues {
            in_flight: self.settings.max_in_flight.saturating_sub(self.in_flight.available_permits()),
            connections: self.connections.load(Ordering::Relaxed),
            entries: self.authority.ledger().committed().unwrap_or_default(),
            responses_waiting: self.outbox.len(),
            namespaces: self.engines.len(),
        })
    }
}
