//! What every request sees.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use credence_engine::assessment::Rules;
use credence_ledger::{LogVerifier, View, sqlite::Clock};
use credence_output::did::Issuer;
use credence_pipeline::{Authority, credentials::Office, query::Reading};
use credence_protocol::{SecretKey, Timestamp};
use tokio::sync::{Semaphore, broadcast, watch};

use crate::{
    answers::{Answers, Outbox},
    edge::Limiter,
    engines::Engines,
    events::{self, Event},
    metrics::{Metrics, Now},
    problem::Problem,
    settings::Settings,
    tail::Tail,
    tokens::{TokenFile, Tokens},
};

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
    /// The authority's folder: tokens, and what engines learned.
    pub folder: PathBuf,
    /// The time of day.
    pub clock: Clock,
    /// What the operator set.
    pub settings: Settings,
    /// Where the service is reached when the settings do not say.
    pub local_url: String,
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
    pub(crate) answers: Answers,
    pub(crate) outbox: Outbox,
    pub(crate) tail: Tail,
    pub(crate) events: broadcast::Sender<Arc<Event>>,
    pub(crate) event_clients: Arc<Semaphore>,
    pub(crate) metrics: Metrics,
    pub(crate) limiter: Limiter,
    pub(crate) in_flight: Semaphore,
    pub(crate) connections: AtomicUsize,
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
    /// Files, sockets.
    #[error("{0}: {1}")]
    Io(String, io::Error),
}

impl App {
    /// Puts a service together.
    pub fn new(setup: Setup) -> Result<Arc<Self>, StartError> {
        let Setup { authority, log, key, folder, clock, settings, local_url } = setup;
        let tokens = Tokens::open(TokenFile::in_folder(&folder)).map_err(|e| StartError::Io("tokens".into(), e))?;
        let public = (!settings.public_url.is_empty()).then(|| settings.public_url.trim_end_matches('/').to_owned());
        let domain = public.as_deref().and_then(|url| url.strip_prefix("https://"));
        let issuer = Issuer::new(domain, &key.public());
        let office = Office { issuer, key, base_url: public.unwrap_or(local_url) };
        Ok(Arc::new(Self {
            tail: Tail::from(authority.ledger().committed()?),
            authority,
            log,
            office,
            rules: Rules::standard()?,
            clock,
            tokens,
            engines: Engines::new(folder.join("engines"), settings.verify_mode, settings.max_namespaces),
            answers: Answers::default(),
            outbox: Outbox::default(),
            events: broadcast::Sender::new(EVENTS),
            event_clients: Arc::new(Semaphore::new(settings.max_event_clients)),
            metrics: Metrics::new(),
            limiter: Limiter::new(&settings),
            in_flight: Semaphore::new(settings.max_in_flight),
            connections: AtomicUsize::new(0),
            closing: watch::Sender::new(false),
            settings,
        }))
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// How scores are read.
    pub(crate) fn reading(&self) -> Reading<'_> {
        let scoring = self.authority.scoring();
        Reading {
            tags: &scoring.tags,
            requirements: self.authority.requirements(),
            coverage_floor: scoring.coverage_floor,
        }
    }

    /// Work that waits for the disk, off the threads that answer.
    pub(crate) async fn work<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&App) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let app = Arc::clone(self);
        tokio::task::spawn_blocking(move || work(&app)).await.unwrap_or_else(|e| Err(Problem::internal(&e)))
    }

    /// A consistent read.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&App, &dyn View) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.work(move |app| read(app, &*app.authority.ledger().view()?)).await
    }

    /// Looks at what is new in the ledger, and tells listeners.
    pub(crate) fn follow(&self) -> credence_ledger::Result<()> {
        self.tail.follow(self.authority.ledger(), &mut |seq, entry| {
            if self.events.receiver_count() > 0
                && let Some(event) = events::of_entry(seq, entry)
            {
                // Nobody listens any more: nothing lost.
                let _ = self.events.send(Arc::new(event));
            }
        })
    }

    /// Whether everything durable was looked at.
    pub(crate) fn is_current(&self) -> bool {
        self.authority.ledger().committed().is_ok_and(|size| size <= self.tail.seen())
    }

    pub(crate) fn metrics_text(&self) -> String {
        self.metrics.text(&Now {
            in_flight: self.settings.max_in_flight.saturating_sub(self.in_flight.available_permits()),
            connections: self.connections.load(Ordering::Relaxed),
            entries: self.authority.ledger().committed().unwrap_or_default(),
            responses_waiting: self.outbox.len(),
            namespaces: self.engines.len(),
        })
    }
}
