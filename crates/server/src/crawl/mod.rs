//! The crawler at work: asks installed sources about proven links when their answers are out of date, checks proofs of links again, and
//! records what comes of it.
//!
//! ```text
//! links × sources ──plan──► jobs ──claim──► ask (bounded) ──► outcomes ──batch──► one unit of work: signals, next due times, counts
//! ```
//!
//! What is claimed and not yet recorded is bounded by [`IN_FLIGHT`]; that much, and no more, is asked again after a crash. A signal is
//! recorded when it says something new, or when the last one is a week old: an answer that stays the same is no entry a day.

mod ask;
#[cfg(feature = "chain")]
mod chain;
mod installed;
pub(crate) mod metrics;
mod outcome;
mod pauses;
mod recheck;
mod waiting;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use credence_egress::{Egress, EgressError};
use credence_ingest::{Crawler, Reason, Secrets, links::Registries};
use credence_ledger::{Clock, NewJob};
use credence_pipeline::{
    Authority, due,
    links::feeding::{CrawlOutcome, Recorded, job_key, split_job},
    query,
};
use credence_protocol::{EntityId, ExternalSubject, Timestamp};
use tokio::{sync::watch, task::JoinSet};
use url::Url;

use crate::app::App;
use ask::{Came, Paused};
pub use ask::{Target, TriedSource};
#[cfg(feature = "chain")]
pub use chain::ChainSource;
pub use installed::Installed;
use pauses::Run;
use waiting::Waiting;

/// Questions at once.
const AT_ONCE: usize = 128;
/// Questions that are claimed and whose outcome is not recorded yet, at most.
pub const IN_FLIGHT: usize = 640;
/// Outcomes recorded together.
const BATCH: usize = 256;
/// How long an outcome waits for others to be recorded with.
const BATCH_WAIT: Duration = Duration::from_millis(100);
/// How long a claimed job is held.
const LEASE: Duration = Duration::from_secs(300);
/// How often new links are looked for, and jobs that have become due.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// The same, while questions of slow sources are put off.
const PUT_OFF_WAIT: Duration = Duration::from_secs(1);

/// Questions of a host that is left alone for longer than this are given back until the pause is over; for a shorter one they are kept.
const LONG_PAUSE: Duration = Duration::from_secs(5);
/// How often it is looked whether a short pause is over.
const PAUSE_LOOK: Duration = Duration::from_millis(50);

/// What the crawler writes to.
pub trait HasAuthority: Send + Sync + 'static {
    /// The authority.
    fn authority(&self) -> &Authority;
}

impl HasAuthority for Authority {
    fn authority(&self) -> &Authority {
        self
    }
}

impl HasAuthority for App {
    fn authority(&self) -> &Authority {
        App::authority(self)
    }
}

/// How to crawl.
pub struct CrawlSettings {
    /// Where the people behind it can be reached, for the User-Agent.
    pub contact: Option<Url>,
    /// Everything is asked of this address instead.
    pub mirror: Option<Url>,
    /// Values of environment variables.
    pub secrets: Secrets,
    /// The time of day.
    pub clock: Clock,
    /// On-chain registries that are read through nodes of the operator's own.
    pub registries: Registries,
}

impl CrawlSettings {
    /// A crawler that asks so. Loopback is asked only where the mirror is there.
    pub fn crawler(&self) -> Result<Crawler, EgressError> {
        let loopback = self.mirror.as_ref().is_some_and(is_loopback);
        let mut settings = credence_egress::Settings::for_purpose("crawl");
        settings.contact.clone_from(&self.contact);
        settings.loopback = loopback;
        let crawler = Crawler::new(Egress::new(settings)?, self.mirror.clone(), Arc::clone(&self.secrets));
        Ok(crawler.with_registries(Arc::clone(&self.registries)))
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// What a run came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Totals {
    /// Questions.
    pub asked: usize,
    /// Signals recorded.
    pub signals: usize,
    /// Questions without a measurement.
    pub nothing: usize,
    /// Links whose proof was checked again.
    pub links_checked: usize,
    /// Of those, broken.
    pub links_broken: usize,
    /// Questions left for a later run: their hosts asked for a longer pause than a run waits for.
    pub put_off: usize,
}

/// Which questions a run asks.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Only about this agent.
    pub agent: Option<EntityId>,
    /// Only of this source.
    pub source: Option<EntityId>,
    /// Also before their time.
    pub now: bool,
}

impl Selection {
    fn is_everything(&self) -> bool {
        self.agent.is_none() && self.source.is_none() && !self.now
    }
}

/// The crawler of an authority.
pub struct Runner<A: HasAuthority> {
    owner: Arc<A>,
    installed: Arc<BTreeMap<EntityId, Installed>>,
    crawler: Crawler,
    clock: Clock,
}

impl<A: HasAuthority> Clone for Runner<A> {
    fn clone(&self) -> Self {
        let (owner, installed) = (Arc::clone(&self.owner), Arc::clone(&self.installed));
        Self { owner, installed, crawler: self.crawler.clone(), clock: Arc::clone(&self.clock) }
    }
}

/// Why a run ended early. What was recorded stays.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CrawlError {
    /// From the authority: the disk, most likely.
    #[error(transparent)]
    Pipeline(#[from] credence_pipeline::Error),
    /// From the ledger.
    #[error(transparent)]
    Ledger(#[from] credence_ledger::Error),
    /// No client could be made.
    #[error(transparent)]
    Egress(#[from] EgressError),
    /// A thread ended.
    #[error("a thread of the crawler ended: {0}")]
    Thread(String),
}

impl<A: HasAuthority> Runner<A> {
    /// A crawler for `owner` with these sources.
    pub fn new(owner: Arc<A>, installed: Vec<Installed>, settings: &CrawlSettings) -> Result<Self, CrawlError> {
        let installed = installed.into_iter().map(|one| (one.id().clone(), one)).collect();
        let (crawler, clock) = (settings.crawler()?, Arc::clone(&settings.clock));
        Ok(Self { owner, installed: Arc::new(installed), crawler, clock })
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, CrawlError> + Send + 'static,
    ) -> Result<T, CrawlError> {
        let this = self.clone();
        tokio::task::spawn_blocking(move || work(&this)).await.map_err(|e| CrawlError::Thread(e.to_string()))?
    }

    /// Puts a job for every proven link and installed source that has none. Gives how many links feed.
    pub async fn plan(&self) -> Result<usize, CrawlError> {
        self.blocking(|this| {
            let speaks = |link: &ExternalSubject| {
                this.installed.values().filter(|one| one.speaks_of(link)).map(|one| one.id().clone()).collect()
            };
            Ok(this.owner.authority().plan_crawls(&speaks)?)
        })
        .await
    }

    /// Crawls until `stop`: what is due, then what becomes due.
    pub async fn run_until(&self, mut stop: watch::Receiver<bool>) {
        let (mut failing, mut run) = (false, Run::default());
        loop {
            run = run.next_round();
            let done = match self.plan().await {
                Ok(_) => self.round(&Selection::default(), &stop, &mut |_| {}, &mut run).await,
                Err(error) => Err(error),
            };
            let totals = run.totals;
            match (&done, failing) {
                (Err(error), false) => tracing::error!(%error, "crawling failed: it will be tried again"),
                (Ok(()), true) => tracing::info!("crawling works again"),
                (Ok(()), false) if totals.asked > 0 => {
                    tracing::info!(asked = totals.asked, signals = totals.signals, nothing = totals.nothing, "crawled");
                }
                _ => {}
            }
            failing = done.is_err();
            let wait = if !failing && run.is_open(Instant::now()) { PUT_OFF_WAIT } else { LOOK_EVERY };
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Asks what is due, within `selection`, until nothing is left or `stop` says so. `progress` hears of totals.
    pub async fn run(
        &self,
        selection: &Selection,
        stop: &watch::Receiver<bool>,
        progress: &mut (dyn FnMut(&Totals) + Send),
    ) -> Result<Totals, CrawlError> {
        let mut run = Run::default();
        self.plan().await?;
        loop {
            let started = Instant::now();
            self.round(selection, stop, progress, &mut run).await?;
            if *stop.borrow() || !run.is_open(started) {
                return Ok(run.totals);
            }
            tokio::time::sleep(PUT_OFF_WAIT).await;
        }
    }

    /// Asks what is due.
    async fn round(
        &self,
        selection: &Selection,
        stop: &watch::Receiver<bool>,
        progress: &mut (dyn FnMut(&Totals) + Send),
        run: &mut Run,
    ) -> Result<(), CrawlError> {
        match selection.is_everything() {
            true => self.recheck_links(&mut run.totals).await?,
            false => self.recheck_selected(selection, &mut run.totals).await?,
        }
        // Without a source nothing is asked, and what is remembered of the questions stays.
        if self.installed.is_empty() {
            return Ok(());
        }
        let source = |id: &EntityId| self.installed.get(id).and_then(Installed::source);
        let (mut waiting, mut more) = (Waiting::default(), true);
        // Questions of a selection are not claimed: they are nobody else's meanwhile, and are kept while the run is patient.
        let kept = if selection.is_everything() { LONG_PAUSE } else { Duration::MAX };
        if !selection.is_everything() {
            more = false;
            self.targets(selection.clone()).await?.into_iter().for_each(|target| waiting.push(target));
        }
        let pause = |id: &EntityId| source(id).and_then(|source| self.crawler.pause_left(source));
        let mut paused: Vec<Paused> = Vec::new();
        let mut asking: JoinSet<Came> = JoinSet::new();
        let mut recording: JoinSet<Result<Vec<Recorded>, CrawlError>> = JoinSet::new();
        let mut ready: Vec<CrawlOutcome> = Vec::new();
        let mut being_recorded = 0;
        let mut since = Instant::now();
        loop {
            let stopping = *stop.borrow();
            waiting.release();
            let is_kept = |run: &Run, source: &EntityId, left| left <= kept && run.is_patient(source, left);
            paused.append(&mut waiting.take_paused(|source| pause(source).filter(|left| !is_kept(run, source, *left))));
            if !paused.is_empty() {
                self.put_off_paused(std::mem::take(&mut paused), run).await?;
            }
            while asking.len() < AT_ONCE
                && !stopping
                && let Some(target) = waiting.next(source, |id| pause(id).is_some())
            {
                let this = self.clone();
                asking.spawn(async move { this.ask(target).await });
            }
            let in_flight = asking.len() + ready.len() + being_recorded + waiting.len();
            if more && !stopping && asking.len() < AT_ONCE && in_flight + AT_ONCE <= IN_FLIGHT {
                let next = self.claim(AT_ONCE).await?;
                more = !next.is_empty();
                let refused = next.into_iter().filter_map(|target| {
                    let slow = source(&target.source);
                    waiting.claim(target, slow).err()
                });
                if let Some(last) = self.put_off(refused.collect()).await? {
                    run.go_on_for(last);
                }
                continue;
            }
            let full =
                ready.len() >= BATCH || !ready.is_empty() && (since.elapsed() >= BATCH_WAIT || asking.is_empty());
            if full && recording.is_empty() {
                let batch: Vec<CrawlOutcome> = std::mem::take(&mut ready);
                being_recorded = batch.len();
                let this = self.clone();
                recording.spawn(async move {
                    this.blocking(move |this| Ok(this.owner.authority().record_crawl(batch)?)).await
                });
            }
            if asking.is_empty() && ready.is_empty() && recording.is_empty() && (waiting.len() == 0 || stopping) {
                if !more || stopping {
                    return Ok(());
                }
                continue;
            }
            tokio::select! {
                Some(asked) = asking.join_next(), if !asking.is_empty() => {
                    let outcome = match asked.map_err(|e| CrawlError::Thread(e.to_string()))? {
                        Came::Outcome(outcome) => {
                            waiting.done(&outcome.source);
                            Some(*outcome)
                        }
                        Came::Paused(one) => {
                            let Paused { target: Target { source, refused, .. }, left, .. } = &*one;
                            let again = run.asks_again(source, *refused, *left);
                            waiting.done(source);
                            match *one {
                                Paused { otherwise: Some(failed), .. } if !again => Some(failed),
                                one if again && one.left <= kept => {
                                    waiting.hold(one.target, one.left);
                                    None
                                }
                                one => {
                                    paused.push(one);
                                    None
                                }
                            }
                        }
                    };
                    if let Some(outcome) = outcome {
                        if ready.is_empty() {
                            since = Instant::now();
                        }
                        let is_pause = matches!(&outcome.failure, Some((why, _)) if *why == Reason::RateLimited.key());
                        run.asked(&outcome.source, &job_key(&outcome.agent, &outcome.source, &outcome.link), is_pause);
                        progress(&run.totals);
                        ready.push(outcome);
                    }
                }
                Some(recorded) = recording.join_next(), if !recording.is_empty() => {
                    being_recorded = 0;
                    for one in recorded.map_err(|e| CrawlError::Thread(e.to_string()))?? {
                        match one {
                            Recorded::Signals(0) | Recorded::LinkOver => run.totals.nothing += 1,
                            Recorded::Signals(signals) => run.totals.signals += signals,
                            Recorded::Rejected(why) => {
                                tracing::warn!(why, "a crawled signal was rejected");
                                run.totals.nothing += 1;
                            }
                        }
                    }
                }
                () = tokio::time::sleep(BATCH_WAIT), if !ready.is_empty() && recording.is_empty() => {}
                () = tokio::time::sleep(PAUSE_LOOK), if waiting.len() > 0 => {}
            }
        }
    }

    /// Has questions be due again when their hosts may be asked: in this run, where it is patient enough.
    async fn put_off_paused(&self, paused: Vec<Paused>, run: &mut Run) -> Result<(), CrawlError> {
        let mut later = Vec::with_capacity(paused.len());
        for Paused { target, left, .. } in paused {
            let again = outcome::later(left);
            if run.is_patient(&target.source, left) {
                run.go_on_for(again);
            }
            run.leave(job_key(&target.agent, &target.source, &target.link));
            later.push((target, again));
        }
        self.put_off(later).await?;
        Ok(())
    }

    /// Has questions be due again later. Gives for how long the last of them waits.
    async fn put_off(&self, targets: Vec<(Target, Duration)>) -> Result<Option<Duration>, CrawlError> {
        let Some(last) = targets.iter().map(|(_, wait)| *wait).max() else { return Ok(None) };
        let now = self.now();
        let jobs = targets.into_iter().map(|(Target { agent, source, link, memory, .. }, wait)| {
            NewJob::at(due::CRAWL, job_key(&agent, &source, &link), now.plus(wait), memory)
        });
        let jobs: Vec<NewJob> = jobs.collect();
        self.blocking(move |this| Ok(this.owner.authority().put_off_crawls(jobs)?)).await?;
        Ok(Some(last))
    }

    /// Takes due jobs, with what is known of their links. Jobs of links that ended, or of sources that are gone or left out, are let go.
    async fn claim(&self, most: usize) -> Result<Vec<Target>, CrawlError> {
        self.blocking(move |this| {
            let ledger = this.owner.authority().ledger();
            let claims = ledger.jobs().claim(due::CRAWL, most, LEASE)?;
            let (view, now) = (ledger.view()?, this.now());
            let indexers = query::Indexers::read(&*view)?;
            let (mut targets, mut over) = (Vec::with_capacity(claims.len()), Vec::new());
            for claim in claims {
                let target = match split_job(&claim.job.key) {
                    Ok((agent, source, link)) if this.installed.contains_key(&source) => {
                        let row = query::link(&*view, &agent, &link)?.filter(|row| row.feeds(now));
                        let left_out = indexers.leave_out(&*view, &agent, &source)?;
                        row.filter(|_| !left_out).map(|row| Target {
                            agent,
                            source,
                            link,
                            link_seq: row.seq,
                            memory: claim.job.payload.clone(),
                            refused: 0,
                        })
                    }
                    _ => None,
                };
                match target {
                    Some(target) => targets.push(target),
                    None => over.push(claim),
                }
            }
            drop(view);
            for claim in over {
                ledger.jobs().complete(&claim)?;
            }
            Ok(targets)
        })
        .await
    }

    /// The questions of a selection that are due, or all of them.
    pub async fn targets(&self, selection: Selection) -> Result<Vec<Target>, CrawlError> {
        self.blocking(move |this| {
            let view = this.owner.authority().ledger().view()?;
            let now = this.now();
            let all = match &selection.agent {
                Some(agent) => query::links_of(&*view, agent)?,
                None => query::all_links(&*view)?,
            };
            let indexers = query::Indexers::read(&*view)?;
            let mut targets = Vec::new();
            for link in all.into_iter().filter(|link| link.row.feeds(now)) {
                for installed in this.installed.values() {
                    let source = installed.id();
                    let wanted = selection.source.as_ref().is_none_or(|wanted| wanted == source);
                    if !wanted || !installed.speaks_of(&link.link) || indexers.leave_out(&*view, &link.agent, source)? {
                        continue;
                    }
                    let job = view.job(due::CRAWL, &job_key(&link.agent, source, &link.link))?;
                    if !selection.now && job.as_ref().is_some_and(|job| job.due > now) {
                        continue;
                    }
                    targets.push(Target {
                        agent: link.agent.clone(),
                        source: source.clone(),
                        link: link.link.clone(),
                        link_seq: link.row.seq,
                        memory: job.map(|job| job.payload).unwrap_or_default(),
                        refused: 0,
                    });
                }
            }
            Ok(targets)
        })
        .await
    }
}
