//! A guard without a proxy: it lives in the program that calls the tools, or takes reports from such programs.
//!
//! ```text
//! begin ─▶ intent in the journal ─▶ the function runs ─▶ finish: verdict, receipt in the journal ─▶ the caller gets the value
//!                                                            └▶ a thread: review, digests, canaries, journal into the ledger
//! ```
//!
//! A caller waits for the engine and for two writes to the journal, never for the database.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use credence_protocol::SecretKey;
use credence_receipts::{Archive, claims::CheckOptions, transcript};
use serde_json::{Value, json};

pub use crate::guard::embedded::{BegunCall, CallVerdict, NewCall, ReturnedValue};
use crate::{Error, Guard, Settings, courier::CourierSettings, guard::embedded::Finished, service::Background};

/// Finished calls that wait for the thread; beyond it a caller does the work itself.
const MAX_WAITING: usize = 4096;
/// Finished calls that the thread takes at once.
const BATCH: usize = 128;
/// How long the thread waits for more calls before it takes them: waking it for each would cost the caller more than anything else.
const LULL: Duration = Duration::from_millis(20);

/// A running guard.
pub struct EmbeddedGuard {
    guard: Arc<Guard>,
    running: Mutex<Option<Running>>,
    queue: Arc<Queue>,
}

struct Running {
    background: Background,
    worker: JoinHandle<()>,
}

/// Finished calls, on their way to the thread.
#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    /// Held while calls that were taken are worked on.
    working: Mutex<()>,
    came: Condvar,
}

#[derive(Default)]
struct Waiting {
    calls: Vec<Finished>,
    /// The thread sleeps until a call comes.
    asleep: bool,
    /// The thread is to end.
    stop: bool,
    /// Nobody takes them.
    ended: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives it back where the thread cannot take it.
    fn push(&self, finished: Finished) -> Option<Finished> {
        let mut waiting = self.lock();
        if waiting.ended || waiting.calls.len() >= MAX_WAITING {
            return Some(finished);
        }
        waiting.calls.push(finished);
        if std::mem::take(&mut waiting.asleep) {
            drop(waiting);
            self.came.notify_one();
        }
        None
    }

    fn stop(&self) {
        self.lock().stop = true;
        self.came.notify_one();
    }

    /// Does what is left to do about the calls that wait; gives whether they are the last.
    fn work(&self, guard: &Guard) -> bool {
        let _one_at_a_time = self.working.lock().unwrap_or_else(PoisonError::into_inner);
        let (calls, last) = {
            let mut waiting = self.lock();
            waiting.ended |= waiting.stop;
            (std::mem::take(&mut waiting.calls), waiting.stop)
        };
        for batch in calls.chunks(BATCH) {
            guard.after_embedded(batch);
        }
        last
    }

    /// Waits for calls.
    fn wait(&self) {
        let mut waiting = self.lock();
        while waiting.calls.is_empty() && !waiting.stop {
            waiting.asleep = true;
            waiting = self.came.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        if !waiting.stop {
            // More of them, in one go.
            waiting = self.came.wait_timeout(waiting, LULL).unwrap_or_else(PoisonError::into_inner).0;
        }
        waiting.asleep = false;
    }
}

impl EmbeddedGuard {
    /// Starts a guard with its threads. [`Self::close`] ends them.
    pub fn start(settings: Settings, key: SecretKey, courier: Option<CourierSettings>) -> Result<Self, Error> {
        let guard = Guard::start(settings, key)?;
        let background = Background::start(&guard, courier)?;
        let queue = Arc::new(Queue::default());
        let worker = {
            let (guard, queue) = (Arc::clone(&guard), Arc::clone(&queue));
            let spawned = std::thread::Builder::new().name("receipts".to_owned());
            spawned.spawn(move || work(&guard, &queue)).map_err(|e| Error::Io("receipts".into(), e))?
        };
        let running = Mutex::new(Some(Running { background, worker }));
        Ok(Self { guard, running, queue })
    }

    /// The guard itself.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// Writes down that a call is about to be made. Where this fails, nothing is known of the call.
    pub fn begin(&self, new: NewCall<'_>) -> Result<BegunCall, Error> {
        self.guard.begin_embedded(new)
    }

    /// Judges what came of a call, and writes its receipt.
    pub fn finish(&self, call: BegunCall, returned: &ReturnedValue<'_>, execution_ms: f64) -> CallVerdict {
        let (verdict, finished) = self.guard.finish_embedded(call, returned, execution_ms);
        if let Some(finished) = self.queue.push(finished) {
            self.guard.after_embedded(&[finished]);
        }
        verdict
    }

    /// A call of which nothing will be heard any more.
    pub fn abandon(&self, call: BegunCall) {
        self.guard.abandon_embedded(call);
    }

    /// Moves all receipts into the ledger and signs a checkpoint over them.
    pub fn flush(&self) -> Result<(), Error> {
        self.queue.work(&self.guard);
        self.guard.flush_journal()?;
        if let Some(book) = self.guard.book() {
            book.seal()?;
        }
        Ok(())
    }

    /// Compares a transcript with the receipts of this guard's state folder; gives what `credence receipts check --json` prints, and
    /// `clean`: whether all is well. A transcript that cannot be read is [`Error::Content`].
    pub fn check(&self, bytes: &[u8], options: &CheckOptions, ignored_members: &[String]) -> Result<Value, Error> {
        let unreadable = |e: &dyn std::fmt::Display| Error::Content(e.to_string());
        let read = transcript::read_without(bytes, ignored_members).map_err(|e| unreadable(&e))?;
        self.flush()?;
        let (settings, key) = (&self.guard.settings, self.guard.key());
        let archive = Archive::open(&settings.state, &settings.provider, key)?;
        let report = archive.check(key, &read, options)?;
        let clean = report.is_clean() && report.problems.is_empty() && !read.may_hide_claims();
        let mut shown = serde_json::to_value(&report).map_err(|e| unreadable(&e))?;
        shown["clean"] = json!(clean);
        shown["formats"] = json!(read.formats.iter().map(ToString::to_string).collect::<Vec<_>>());
        shown["transcript_problems"] = json!(read.problems.iter().map(ToString::to_string).collect::<Vec<_>>());
        shown["unrecognised"] = json!(read.unrecognised);
        Ok(shown)
    }

    /// Ends its threads and keeps everything. Calls after it are still recorded; another call of this keeps them.
    pub fn close(&self) -> Result<(), Error> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Calls may have come after the first time.
        let Some(running) = running else { return self.guard.close() };
        self.queue.stop();
        let _ = running.worker.join();
        running.background.finish(&self.guard)
    }
}

impl Drop for EmbeddedGuard {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            crate::warn(&format!("a guard did not end well: {error}"));
        }
    }
}

/// Does what is left to do about finished calls, until it is told to stop.
fn work(guard: &Guard, queue: &Queue) {
    loop {
        queue.wait();
        let last = queue.work(guard);
        guard.flush_journal_or_warn();
        if last {
            return;
        }
    }
}
