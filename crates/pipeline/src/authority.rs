//! The authority: a ledger and everything that writes to it.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use credence_engine::{certification::Requirements, universal::DEFAULT_COVERAGE_FLOOR};
use credence_ledger::{Clock, Ledger, PendingWrite};
use credence_protocol::{Audience, SecretKey, Signal, TagRegistry, Timestamp};
use rayon::prelude::*;

use crate::{
    Error, Rejection, Result,
    admit::{self, Admitted, Gate, Verdict},
    age, derive, due,
    recompute::{self, Recomputed},
    responses::DEFAULT_HASHES,
    score::{self, SCORE_WITHIN, Scoring},
};

/// Signals checked and settled together at most. Large, because signals that come together often touch the same pages.
pub const SIGNALS_PER_BATCH: usize = 4_096;
/// How often to look whether something lapsed without anything being recorded.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// Batches that may be on their way to the disk while the next is checked.
const BATCHES_IN_FLIGHT: usize = 3;

/// What a feed has to give.
#[derive(Debug)]
pub enum Feed {
    /// Signals.
    Batch(Vec<Vec<u8>>),
    /// None at the moment. Only if it was not to wait.
    NothingYet,
    /// No more, ever.
    End,
}

/// What an operator can set.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Coverage below which a score is not published.
    pub coverage_floor: f64,
    /// Signs the authority's own signals; without it none are emitted, and they wait.
    pub signer: Option<SecretKey>,
    /// Hashes of signed responses that are kept beside the log, of readers without a token and of bearers of tokens each.
    pub response_hashes: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { coverage_floor: DEFAULT_COVERAGE_FLOOR, signer: None, response_hashes: DEFAULT_HASHES }
    }
}

/// The ledger with the rules for what enters it.
pub struct Authority {
    ledger: Arc<dyn Ledger>,
    gate: Gate,
    scoring: Scoring,
    requirements: Requirements,
    clock: Clock,
    maker: Maker,
    scorer: Scorer,
    response_hashes: u64,
}

impl Authority {
    /// Takes charge of a ledger opened for writing. Agents that a crash left unscored are scored first.
    pub fn open(ledger: Arc<dyn Ledger>, settings: &Settings, clock: Clock) -> Result<Self> {
        let tags = TagRegistry::standard()?;
        let scoring = Scoring::new(tags.clone(), settings.coverage_floor)?;
        let signer = settings.signer.clone();
        let maker = Maker { scoring: scoring.clone(), signer, clock: clock.clone(), refused: Arc::default() };
        recompute::ask_if_settings_changed(&*ledger, &scoring)?;
        maker.make_all(&*ledger, true)?;
        let scorer = Scorer::start(Arc::clone(&ledger), maker.clone(), clock.clone());
        let requirements = Requirements::standard()?;
        let gate = Gate::new(tags, Audience::new(ledger.origin())?);
        let response_hashes = settings.response_hashes;
        Ok(Self { ledger, gate, scoring, requirements, clock, maker, scorer, response_hashes })
    }

    /// The authority's time.
    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Hashes of responses that are kept of each class of readers.
    pub(crate) fn response_hashes(&self) -> u64 {
        self.response_hashes
    }

    /// What signals and statements for this authority name: the origin of its log.
    pub fn origin(&self) -> Result<Audience> {
        Ok(Audience::new(self.ledger.origin())?)
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Why the authority's own signals could not be emitted, if they could not.
    pub fn own_signals_refused(&self) -> Option<String> {
        self.maker.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The ledger.
    pub fn ledger(&self) -> &dyn Ledger {
        &*self.ledger
    }

    /// How scores are made.
    pub fn scoring(&self) -> &Scoring {
        &self.scoring
    }

    /// What tiers require.
    pub fn requirements(&self) -> &Requirements {
        &self.requirements
    }

    /// Admits one signal; returns when it is durable.
    pub fn submit(&self, signal: &[u8]) -> Result<Verdict> {
        let mut verdict = Ok(Admitted { seq: 0, known: true });
        self.submit_all(std::iter::once(signal.to_vec()), &mut |_, this| verdict = this)?;
        Ok(verdict)
    }

    /// Admits signals that are all at hand. `each` hears of every one, by its position, in order and only when it is
    /// durable. Checking runs on all cores while earlier batches are written.
    pub fn submit_all(
        &self,
        signals: impl IntoIterator<Item = Vec<u8>>,
        each: &mut dyn FnMut(usize, Verdict),
    ) -> Result<()> {
        let mut signals = signals.into_iter();
        self.submit_feed(
            &mut |_| {
                let batch: Vec<_> = signals.by_ref().take(SIGNALS_PER_BATCH).collect();
                if batch.is_empty() { Feed::End } else { Feed::Batch(batch) }
            },
            each,
        )
    }

    /// Admits signals as they come. `feed` gives the next batch, of [`SIGNALS_PER_BATCH`] at most; its argument says
    /// whether it may wait for one. While none is there, what is under way is finished and `each` hears of it.
    pub fn submit_feed(&self, feed: &mut dyn FnMut(bool) -> Feed, each: &mut dyn FnMut(usize, Verdict)) -> Result<()> {
        let mut in_flight: VecDeque<InFlight> = VecDeque::new();
        let mut position = 0;
        let mut more = true;
        while more || !in_flight.is_empty() {
            let fed = if more { feed(in_flight.is_empty()) } else { Feed::NothingYet };
            match &fed {
                Feed::Batch(batch) => in_flight.push_back(self.begin(batch)?),
                Feed::NothingYet => {}
                Feed::End => more = false,
            }
            let idle = !matches!(fed, Feed::Batch(_));
            if (idle || in_flight.len() > BATCHES_IN_FLIGHT)
                && let Some(oldest) = in_flight.pop_front()
            {
                let verdicts = oldest.wait()?;
                // Not before: woken too early, the scorer would find nothing and sleep on.
                self.scorer.wake();
                for verdict in verdicts {
                    each(position, verdict);
                    position += 1;
                }
            }
        }
        Ok(())
    }

    /// Checks a batch and hands it to the writer.
    fn begin(&self, batch: &[Vec<u8>]) -> Result<InFlight> {
        let now = (self.clock)();
        let parse = |bytes: &Vec<u8>| Signal::parse(bytes).map_err(Rejection::from);
        let check = |parsed: std::result::Result<Signal, Rejection>| parsed.and_then(|one| self.gate.check(one, now));
        let parsed: Vec<_> = match batch {
            [one] => vec![parse(one)],
            many => many.par_iter().map(parse).collect(),
        };
        self.gate.read_keys(self.ledger(), parsed.iter().flatten().map(Signal::key_id))?;
        let checked: Vec<_> = match batch {
            [_] => parsed.into_iter().map(check).collect(),
            _ => parsed.into_par_iter().map(check).collect(),
        };
        let mut verdicts = Vec::with_capacity(checked.len());
        let mut passed = Vec::with_capacity(checked.len());
        for outcome in checked {
            match outcome {
                Ok(signal) => {
                    passed.push(signal);
                    verdicts.push(None);
                }
                Err(rejection) => verdicts.push(Some(rejection)),
            }
        }
        let pending = PendingWrite::submit(self.ledger(), move |tx| admit::record_batch(tx, &passed))?;
        Ok(InFlight { rejected: verdicts, pending })
    }

    /// Scores every waiting agent now instead of within a second.
    pub fn score_now(&self) -> Result<()> {
        self.maker.make_all(self.ledger(), true)
    }

    /// Makes what is due, as the background does; what somebody else is at is left to them.
    pub fn score_due(&self) -> Result<()> {
        self.maker.make_all(self.ledger(), false)
    }

    /// While held, scores are made by [`score_now`](Self::score_now) alone: for a caller that builds a past and decides
    /// itself when in it scores were made.
    pub fn hold_scores(&self, held: bool) {
        self.scorer.hold(held);
    }

    /// Scores every agent again; those with nothing new get no new event.
    pub fn recompute(&self, progress: &mut dyn FnMut(usize)) -> Result<Recomputed> {
        recompute::recompute(self.ledger(), &self.scoring, &self.clock, progress)
    }

    /// Waits until everything is durable and the checkpoint outside the database is up to date.
    pub fn flush(&self) -> Result<()> {
        Ok(self.ledger.flush()?)
    }

    pub(crate) fn wake_scorer(&self) {
        self.scorer.wake();
    }
}

/// Makes what follows from entries: the authority's own signals, then scores.
#[derive(Clone)]
struct Maker {
    scoring: Scoring,
    signer: Option<SecretKey>,
    clock: Clock,
    refused: Arc<Mutex<Option<String>>>,
}

impl Maker {
    /// Own signals first, because scores follow from them; then everyone's scores, where that is due, those of agents whose
    /// signals changed, and those that age has changed.
    fn make_all(&self, ledger: &dyn Ledger, at_once: bool) -> Result<()> {
        if let Some(key) = &self.signer {
            let emitted = derive::emit(ledger, key)?;
            // A refusal stands until its agents are looked at again.
            if emitted.looked_at > 0 || emitted.refused.is_some() {
                *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = emitted.refused;
            }
        }
        recompute::recompute_if_due(ledger, &self.scoring, &self.clock, at_once)?;
        score::score_due(ledger, &self.scoring)?;
        age::score_aged(ledger, &self.scoring)?;
        Ok(())
    }

    /// When the next of it is due, as far as that is known by now.
    fn next_due(&self, ledger: &dyn Ledger) -> Result<Option<Timestamp>> {
        let mut next: Option<Timestamp> = None;
        for queue in [due::RESCORE, due::RECOMPUTE, due::AGE, due::DERIVE] {
            let due = ledger.jobs().next_due(queue)?.filter(|_| queue != due::DERIVE || self.signer.is_some());
            next = [next, due].into_iter().flatten().min();
        }
        Ok(next)
    }
}

/// A batch on its way to the disk.
struct InFlight {
    /// In the order submitted; `None` where the writer decides.
    rejected: Vec<Option<Rejection>>,
    pending: PendingWrite<Vec<Verdict>, Error>,
}

impl InFlight {
    fn wait(self) -> Result<Vec<Verdict>> {
        let mut recorded = self.pending.wait()?.into_iter();
        let decided = self.rejected.into_iter().map(|rejected| match rejected {
            Some(rejection) => Some(Err(rejection)),
            None => recorded.next(),
        });
        Ok(decided.flatten().collect())
    }
}

/// Makes what is due in the background: within a second of a change, and when something lapses.
struct Scorer {
    shared: Arc<(Mutex<Wakeup>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Wakeup {
    /// When the first change happened that nothing was made of yet.
    since: Option<Instant>,
    held: bool,
    stop: bool,
}

impl Wakeup {
    /// How long to wait yet. Without a change, the time for another look at what lapses by itself.
    fn wait(&self, looked: Instant) -> Duration {
        if self.held {
            return LOOK_EVERY;
        }
        match self.since {
            Some(since) => SCORE_WITHIN.saturating_sub(since.elapsed()),
            None => LOOK_EVERY.saturating_sub(looked.elapsed()),
        }
    }
}

impl Scorer {
    fn start(ledger: Arc<dyn Ledger>, maker: Maker, clock: Clock) -> Self {
        let shared: Arc<(Mutex<Wakeup>, Condvar)> = Arc::default();
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("scorer".into()).spawn(move || {
            let (wakeup, woken) = &*theirs;
            let mut looked = Instant::now();
            loop {
                let mut state = wakeup.lock().unwrap_or_else(PoisonError::into_inner);
                let changed = loop {
                    if state.stop {
                        return;
                    }
                    match state.wait(looked) {
                        Duration::ZERO => break state.since.take().is_some(),
                        left => state = woken.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                    }
                };
                drop(state);
                looked = Instant::now();
                let lapsed = || maker.next_due(&*ledger).is_ok_and(|due| due.is_some_and(|due| due <= clock()));
                if changed || lapsed() {
                    // What fails here (a full disk) stays due, and is tried again at the next look.
                    let _ = maker.make_all(&*ledger, false);
                }
            }
        });
        Self { shared, thread: thread.ok() }
    }

    fn hold(&self, held: bool) {
        let (wakeup, woken) = &*self.shared;
        wakeup.lock().unwrap_or_else(PoisonError::into_inner).held = held;
        woken.notify_one();
    }

    fn wake(&self) {
        let (wakeup, woken) = &*self.shared;
        let mut state = wakeup.lock().unwrap_or_else(PoisonError::into_inner);
        if state.since.is_none() {
            state.since = Some(Instant::now());
            woken.notify_one();
        }
    }
}

impl Drop for Scorer {
    fn drop(&mut self) {
        let (wakeup, woken) = &*self.shared;
        wakeup.lock().unwrap_or_else(PoisonError::into_inner).stop = true;
        woken.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
