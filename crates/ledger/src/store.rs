//! The contract between Credence and a database: an append-only log, ordered key-value tables for the projections, jobs that
//! are due, and consistent reads. What the tables mean is written once, in `pipeline`, for every database.
//!
//! # What an implementation promises
//!
//! - **Dense seq.** Entries are numbered 0, 1, 2, … without gaps, also with several writers in several processes. Nothing is
//!   kept in memory that another writer could make stale: size, tree edge and last recorded time are those of the database
//!   when a unit of work runs.
//! - **Units of work.** [`Ledger::submit`] takes a unit of work. It runs alone: it sees everything that was committed before
//!   it and nothing that is not, and what it reads does not change under it. It commits whole or leaves nothing. Several units
//!   may share one transaction of the database.
//! - **Retries.** A unit of work may run more than once, when another writer got in between; only what its last run wrote is
//!   kept. So it must have no effect besides the transaction it is given.
//! - **Durable before done.** A [`Ticket`] resolves when the work is durable, the Merkle tiles and the signed checkpoint over
//!   its entries included. (SQLite's batched sealing relaxes this for a guard's own ledger, and says so there.)
//! - **One time for a unit.** Every entry of a unit of work is recorded at [`Transaction::stamp`], which is never before the
//!   time of the last entry, unless the unit says so first ([`Transaction::return_to_clock`]).
//! - **Byte order.** Tables are ordered by the bytes of their keys (UTF-8), whatever the collation of the database.
//! - **Scans can be nested.** A visitor may read from the same view. An implementation whose connection cannot answer a second
//!   query during the first reads in pages.
//! - **Tables.** Most are projections, which replay drops and rebuilds. A table can also hold what follows from no entry, such as
//!   the hashes under a root that an entry holds: its rows commit with the entry, in the same unit of work, and outlive a replay.
//! - **Jobs commit with the work.** Jobs put or taken in a unit of work are there, or gone, exactly if it commits.
//! - **Protection.** The database itself refuses to change or remove an entry.
//!
//! The suite in `conformance` (feature `testing`) checks each of these, for every implementation.
//!
//! Keys of per-agent tables start with the agent's id and a slash, so an agent's rows live together and can move to another
//! shard together.

use std::{
    ops::ControlFlow,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, Receiver, SyncSender},
    },
};

use credence_protocol::Timestamp;

use crate::{
    Error, NewEntry, Result,
    jobs::{Job, Jobs, NewJob, Queue},
};

/// Where the time of day comes from.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// A table: a projection, whose rows can be dropped and rebuilt from the entries, or a list that is kept beside the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Table(pub &'static str);

/// Which rows of a table to visit, in key order.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scan<'a> {
    /// Keys that start with this.
    pub prefix: &'a str,
    /// Only keys after this one (before it, when reversed).
    pub after: Option<&'a str>,
    /// From the last key to the first.
    pub reverse: bool,
}

impl<'a> Scan<'a> {
    /// Every row.
    pub fn all() -> Self {
        Self::default()
    }
    /// Rows whose key starts with `prefix`.
    pub fn prefix(prefix: &'a str) -> Self {
        Self { prefix, ..Self::default() }
    }
}

/// A row to write, or to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowChange<'a> {
    /// The table.
    pub table: Table,
    /// The row's key.
    pub key: &'a str,
    /// Its new value; `None` removes the row.
    pub value: Option<&'a str>,
}

/// Called with each key and value; `Break` ends the scan.
pub type RowVisitor<'a> = &'a mut dyn FnMut(&str, &[u8]) -> ControlFlow<()>;
/// Called with each seq and entry; `Break` ends the scan.
pub type EntryVisitor<'a> = &'a mut dyn FnMut(u64, &[u8]) -> ControlFlow<()>;

/// A consistent read of the ledger.
pub trait View {
    /// How many entries there are.
    fn size(&self) -> Result<u64>;
    /// The bytes of one entry.
    fn entry(&self, seq: u64) -> Result<Option<Vec<u8>>>;
    /// Visits entries from `from` on, in order.
    fn entries(&self, from: u64, visit: EntryVisitor<'_>) -> Result<()>;
    /// Rows by their keys, in the order asked.
    fn get_many(&self, table: Table, keys: &[&str]) -> Result<Vec<Option<Vec<u8>>>>;
    /// One row.
    fn get(&self, table: Table, key: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.get_many(table, &[key])?.pop().flatten())
    }
    /// Visits rows in key order.
    fn scan(&self, table: Table, scan: Scan<'_>, visit: RowVisitor<'_>) -> Result<()>;
    /// The hashes of a tile, as far as they exist.
    fn tile(&self, level: u8, index: u64) -> Result<Option<Vec<u8>>>;
    /// The newest signed checkpoint: of this view's size, or of a little less where entries wait for their seal. `None` for an
    /// empty ledger.
    fn checkpoint(&self) -> Result<Option<String>>;
    /// A job, due or not.
    fn job(&self, queue: Queue, key: &str) -> Result<Option<Job>>;
    /// What is wrong with what keeps the database from changing entries: something is not there, or is not what was made.
    fn missing_protections(&self) -> Result<Vec<String>>;
}

/// What an append gives back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// The entry's sequence number.
    pub seq: u64,
    /// When it was recorded.
    pub recorded_at: Timestamp,
}

/// A unit of work in progress; sees its own changes.
pub trait Transaction: View {
    /// The time at which this unit's entries are recorded: the clock's, or the last entry's when that is later. The same
    /// throughout the unit.
    fn stamp(&self) -> Result<Timestamp>;
    /// Makes this unit's time the clock's, though the last entry's is later: the way back after entries were recorded in the
    /// future. Before anything else in the unit. Gives the time.
    fn return_to_clock(&mut self) -> Result<Timestamp>;
    /// Appends entries, in order.
    fn append_many(&mut self, entries: &[NewEntry]) -> Result<Vec<Appended>>;
    /// Appends an entry.
    fn append(&mut self, entry: &NewEntry) -> Result<Appended> {
        let appended = self.append_many(std::slice::from_ref(entry))?;
        appended.first().copied().ok_or_else(|| Error::Log("an append gave nothing back".into()))
    }
    /// Writes and removes rows, in order.
    fn put_many(&mut self, changes: &[RowChange<'_>]) -> Result<()>;
    /// Writes a row.
    fn put(&mut self, table: Table, key: &str, value: &str) -> Result<()> {
        self.put_many(&[RowChange { table, key, value: Some(value) }])
    }
    /// Removes a row.
    fn delete(&mut self, table: Table, key: &str) -> Result<()> {
        self.put_many(&[RowChange { table, key, value: None }])
    }
    /// Puts jobs, as [`Jobs::put`] does.
    fn put_jobs(&mut self, jobs: &[NewJob]) -> Result<()>;
    /// Removes and gives up to `limit` due jobs that nobody has claimed: for work that is done within this very unit.
    fn take_jobs(&mut self, queue: Queue, limit: usize) -> Result<Vec<Job>>;
    /// Removes jobs by their keys, claimed or not.
    fn delete_jobs(&mut self, queue: Queue, keys: &[&str]) -> Result<()>;
}

/// A unit of work. It may run more than once; returning `false` undoes what it wrote.
pub type Work = Box<dyn FnMut(&mut dyn Transaction) -> bool + Send>;

/// Resolves when a unit of work is durable.
#[derive(Debug)]
pub struct Ticket(Receiver<Result<()>>);

/// The other half of a [`Ticket`], kept by the ledger.
#[derive(Debug)]
pub struct Completion(SyncSender<Result<()>>);

impl Ticket {
    /// A ticket and what resolves it.
    pub fn pair() -> (Completion, Ticket) {
        let (done, ticket) = mpsc::sync_channel(1);
        (Completion(done), Ticket(ticket))
    }

    /// Waits until the work is durable, or failed.
    pub fn wait(self) -> Result<()> {
        self.0.recv().unwrap_or_else(|_| Err(Error::NoWriter("it stopped before this write was durable".into())))
    }
}

impl Completion {
    /// Resolves the ticket. A submitter that no longer waits is ignored.
    pub fn resolve(self, outcome: Result<()>) {
        let _ = self.0.send(outcome);
    }
}

/// An append-only ledger. The module's documentation is its contract.
pub trait Ledger: Send + Sync {
    /// The log's name, fixed when it was created.
    fn origin(&self) -> &str;
    /// A consistent read.
    fn view(&self) -> Result<Box<dyn View + '_>>;
    /// Queues a unit of work.
    fn submit(&self, work: Work) -> Result<Ticket>;
    /// The jobs that are kept beside the entries.
    fn jobs(&self) -> &dyn Jobs;
    /// How many entries are durable, without looking into the database where it can be helped: cheap enough to ask before
    /// every answer.
    fn committed(&self) -> Result<u64> {
        self.view()?.size()
    }

    /// Waits until everything submitted is durable and kept wherever else it is kept (the checkpoint outside).
    fn flush(&self) -> Result<()>;
}

/// Runs a unit of work and waits until it is durable. An `Err` from `work` undoes what it wrote.
pub fn write<T, E>(
    ledger: &dyn Ledger,
    work: impl FnMut(&mut dyn Transaction) -> std::result::Result<T, E> + Send + 'static,
) -> std::result::Result<T, E>
where
    T: Send + 'static,
    E: From<Error> + Send + 'static,
{
    PendingWrite::submit(ledger, work)?.wait()
}

/// A unit of work on its way, and what it gave.
pub struct PendingWrite<T, E> {
    outcome: Arc<Mutex<Option<std::result::Result<T, E>>>>,
    ticket: Ticket,
}

impl<T: Send + 'static, E: From<Error> + Send + 'static> PendingWrite<T, E> {
    /// Queues `work`, as [`write`] does, without waiting.
    pub fn submit(
        ledger: &dyn Ledger,
        mut work: impl FnMut(&mut dyn Transaction) -> std::result::Result<T, E> + Send + 'static,
    ) -> Result<Self> {
        let outcome = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&outcome);
        let ticket = ledger.submit(Box::new(move |tx| {
            let outcome = work(tx);
            let keep = outcome.is_ok();
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
            keep
        }))?;
        Ok(Self { outcome, ticket })
    }

    /// Waits until the work is durable; gives what its last run gave.
    pub fn wait(self) -> std::result::Result<T, E> {
        let durable = self.ticket.wait();
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (outcome, durable) {
            // The ledger's own error says more than what the work made of it.
            (_, Err(error)) => Err(error.into()),
            (Some(outcome), Ok(())) => outcome,
            (None, Ok(())) => Err(Error::NoWriter("it did not run this write".into()).into()),
        }
    }
}
