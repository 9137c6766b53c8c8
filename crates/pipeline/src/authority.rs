//! The authority: a ledger and everything that writes to it.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use credence_engine::{certification::Requirements, universal::DEFAULT_COVERAGE_FLOOR};
use credence_ledger::{Ledger, Ticket, sqlite::Clock};
use credence_protocol::{SecretKey, TagRegistry, Timestamp};
use rayon::prelude::*;

use crate::{
    Rejection, Result,
    admit::{self, Admitted, Checked, Gate, Verdict},
    derive,
    recompute::{self, Recomputed},
    score::{self, SCORE_WITHIN, Scoring},
};

/// Signals checked and settled together at most. Large, because signals that come together often touch the same pages.
pub const SIGNALS_PER_BATCH: usize = 4_096;
/// Batches that may be on their way to the disk while the next is checked.
const BATCHES_IN_FLIGHT: usize = 3;

/// What a feed has to give.
#[derive(Debug)]
pub enum Fed {
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
}

impl Default for Settings {
    fn default() -> Self {
        Self { coverage_floor: DEFAULT_COVERAGE_FLOOR, signer: None }
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
}

impl Authority {
    /// Takes charge of a ledger opened for writing. Agents that a crash left unscored are scored first.
    pub fn open(ledger: Arc<dyn Ledger>, settings: &Settings, clock: Clock) -> Result<Self> {
        let tags = TagRegistry::standard()?;
        let scoring = Scoring::new(tags.clone(), settings.coverage_floor);
        let maker = Maker { scoring: scoring.clone(), signer: settings.signer.clone(), refused: Arc::default() };
        maker.make_all(&*ledger)?;
        let scorer = Scorer::start(Arc::clone(&ledger), maker.clone());
        let requirements = Requirements::standard()?;
        Ok(Self { ledger, gate: Gate::new(tags), scoring, requirements, clock, maker, scorer })
    }

    /// The authority's time.
    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
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
                if batch.is_empty() { Fed::End } else { Fed::Batch(batch) }
            },
            each,
        )
    }

    /// Admits signals as they come. `feed` gives the next batch, of [`SIGNALS_PER_BATCH`] at most; its argument says
    /// whether it may wait for one. While none is there, what is under way is finished and `each` hears of it.
    pub fn submit_feed(&self, feed: &mut dyn FnMut(bool) -> Fed, each: &mut dyn FnMut(usize, Verdict)) -> Result<()> {
        let mut in_flight: VecDeque<InFlight> = VecDeque::new();
        let mut position = 0;
        let mut more = true;
        while more || !in_flight.is_empty() {
            let fed = if more { feed(in_flight.is_empty()) } else { Fed::NothingYet };
            match &fed {
                Fed::Batch(batch) => in_flight.push_back(self.begin(batch)?),
                Fed::NothingYet => {}
                Fed::End => more = false,
            }
            let idle = !matches!(fed, Fed::Batch(_));
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
        let check = |bytes: &Vec<u8>| self.gate.check(self.ledger(), bytes, now);
        let checked: Vec<std::result::Result<Checked, Rejection>> = match batch {
            [one] => vec![check(one)?],
            many => many.par_iter().map(check).collect::<Result<_>>()?,
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
        let settled = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&settled);
        let ticket = self.ledger.submit(Box::new(move |tx| {
            let outcome = admit::settle(tx, passed);
            let keep = outcome.is_ok();
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
            keep
        }))?;
        Ok(InFlight { rejected: verdicts, settled, ticket })
    }

    /// Scores every waiting agent now instead of within a second.
    pub fn settle_scores(&self) -> Result<()> {
        self.maker.make_all(self.ledger())
    }

    /// While held, scores are made by [`settle_scores`](Self::settle_scores) alone: for whoever puts a past together and decides
    /// itself when in it scores were made.
    pub fn hold_scores(&self, held: bool) {
        self.scorer.hold(held);
    }

    /// Scores every agent again; those with nothing new get no new event.
    pub fn recompute(&self, progress: &mut dyn FnMut(usize)) -> Result<Recomputed> {
        let _turn = self.scoring.turn.lock().unwrap_or_else(PoisonError::into_inner);
        recompute::recompute(self.ledger(), &self.scoring, progress)
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
    refused: Arc<Mutex<Option<String>>>,
}

impl Maker {
    /// Own signals first, because scores follow from them; then both kinds of waiting: agents by name, and everyone.
    fn make_all(&self, ledger: &dyn Ledger) -> Result<()> {
        let scoring = &self.scoring;
        let _turn = scoring.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = &self.signer {
            let emitted = derive::emit(ledger, key)?;
            *self.refused.lock().unwrap_or_else(PoisonError::into_inner) = emitted.refused;
        }
        let everyone = recompute::asked_by(&*ledger.view()?)?.is_some();
        if everyone {
            recompute::recompute(ledger, scoring, &mut |_| {})?;
        }
        score::score_pending(ledger, scoring)?;
        Ok(())
    }
}

/// A batch on its way to the disk.
struct InFlight {
    /// In the order submitted; `None` where the writer decides.
    rejected: Vec<Option<Rejection>>,
    settled: Arc<Mutex<Option<Result<Vec<Verdict>>>>>,
    ticket: Ticket,
}

impl InFlight {
    fn wait(self) -> Result<Vec<Verdict>> {
        let durable = self.ticket.wait();
        let settled = self.settled.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The ledger's own error says more than what the work made of it.
        durable?;
        let mut settled = settled.transpose()?.unwrap_or_default().into_iter();
        let decided = self.rejected.into_iter().map(|rejected| match rejected {
            Some(rejection) => Some(Err(rejection)),
            None => settled.next(),
        });
        Ok(decided.flatten().collect())
    }
}

/// Scores waiting agents in the background, together, within a second.
struct Scorer {
    shared: Arc<(Mutex<Waiting>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Waiting {
    since: Option<Instant>,
    held: bool,
    stop: bool,
}

impl Scorer {
    fn start(ledger: Arc<dyn Ledger>, maker: Maker) -> Self {
        let shared: Arc<(Mutex<Waiting>, Condvar)> = Arc::default();
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("scorer".into()).spawn(move || {
            let (waiting, woken) = &*theirs;
            loop {
                let mut state = waiting.lock().unwrap_or_else(PoisonError::into_inner);
                loop {
                    if state.stop {
                        return;
                    }
                    let waits = state.since.filter(|_| !state.held);
                    let left = waits.map(|since| SCORE_WITHIN.saturating_sub(since.elapsed()));
                    state = match left {
                        Some(Duration::ZERO) => break,
                        Some(left) => woken.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                        None => woken.wait(state).unwrap_or_else(PoisonError::into_inner),
                    };
                }
                state.since = None;
                drop(state);
                // What fails here (a full disk) stays pending and is tried again with the next signal or start.
                let _ = maker.make_all(&*ledger);
            }
        });
        Self { shared, thread: thread.ok() }
    }

    fn hold(&self, held: bool) {
        let (waiting, woken) = &*self.shared;
        waiting.lock().unwrap_or_else(PoisonError::into_inner).held = held;
        woken.notify_one();
    }

    fn wake(&self) {
        let (waiting, woken) = &*self.shared;
        let mut state = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if state.since.is_none() {
            state.since = Some(Instant::now());
            woken.notify_one();
        }
    }
}

impl Drop for Scorer {
    fn drop(&mut self) {
        let (waiting, woken) = &*self.shared;
        waiting.lock().unwrap_or_else(PoisonError::into_inner).stop = true;
        woken.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
