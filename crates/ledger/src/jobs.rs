//! Work that is due, now or later: rescoring, crawls, probes, attestations, re-checks. Kept by the database that keeps the
//! ledger, so that several nodes share it and a crash loses none of it. Jobs are a queue, not a projection: they follow from
//! no entry, and replay does not compare them.
//!
//! A job is named by its queue and a key; there is at most one of a name. Who works on it holds a lease for a while, so that two
//! workers do not do the same work; a worker that dies loses its lease, and another takes over.
//!
//! ```text
//! put ──► waiting ──due──► claim ──► complete ──► gone
//!            ▲                │
//!            └── fail, lease over, or put again while claimed
//! ```

use std::time::Duration;

use credence_protocol::Timestamp;

use crate::Result;

/// A kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Queue(pub &'static str);

/// A job to be put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    /// Its queue.
    pub queue: Queue,
    /// Its name there.
    pub key: String,
    /// From when on it may be claimed; `None` for at once.
    pub due: Option<Timestamp>,
    /// What the worker needs to know.
    pub payload: String,
}

impl NewJob {
    /// A job that is due at once.
    pub fn now(queue: Queue, key: impl Into<String>, payload: impl Into<String>) -> Self {
        Self { queue, key: key.into(), due: None, payload: payload.into() }
    }

    /// A job that is due at `due`.
    pub fn at(queue: Queue, key: impl Into<String>, due: Timestamp, payload: impl Into<String>) -> Self {
        Self { queue, key: key.into(), due: Some(due), payload: payload.into() }
    }
}

/// A job as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its name in its queue.
    pub key: String,
    /// What the worker needs to know.
    pub payload: String,
    /// From when on it may be claimed.
    pub due: Timestamp,
    /// How often it was claimed.
    pub attempts: u32,
    /// Until when somebody holds it.
    pub leased_until: Option<Timestamp>,
    /// Why it failed the last time.
    pub last_error: Option<String>,
}

/// A job that this caller holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Its queue.
    pub queue: Queue,
    /// The job.
    pub job: Job,
    /// Counts how often the job was put: tells whether it was put again since.
    pub version: u64,
    /// Told apart from every other claim of the job, also after it was gone and put anew.
    pub lease: u64,
}

/// The jobs of a database. Times are those of the ledger's clock.
pub trait Jobs: Send + Sync {
    /// Puts jobs. One of the same name is replaced: its due time and payload are the new ones. A job put while somebody works
    /// on it stays, and is due again once that work ends.
    fn put(&self, jobs: &[NewJob]) -> Result<()>;
    /// Takes up to `limit` due jobs for `lease`, those that have been due longest first. Each is held by this caller until it
    /// completes or fails it, or the lease is over.
    fn claim(&self, queue: Queue, limit: usize, lease: Duration) -> Result<Vec<Claim>>;
    /// The work is done. `false` when the lease was lost before: somebody else may have done it too.
    fn complete(&self, claim: &Claim) -> Result<bool>;
    /// The work could not be done: the job is due again at `retry_at`. `false` when the lease was lost before.
    fn fail(&self, claim: &Claim, retry_at: Timestamp, why: &str) -> Result<bool>;
    /// When the next job of a queue is due or its lease over, whichever has to come first for it to be claimed.
    fn next_due(&self, queue: Queue) -> Result<Option<Timestamp>>;
    /// Ends the leases of processes that have ended, where the database can tell: where one process at a time can write, all leases that are
    /// there when it begins are such. Called before this process claims anything. Elsewhere leases end by themselves.
    fn take_over(&self) -> Result<()> {
        Ok(())
    }
}
