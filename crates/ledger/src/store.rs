//! The interface a database implements to be a ledger. Narrow on purpose: an append, ordered key-value tables for the
//! projections, and consistent reads. What the tables mean is written once, above, for every database.
//!
//! Keys of per-agent tables start with the agent's id and a slash, so an agent's rows live together and can move to
//! another shard together.

use std::{
    ops::ControlFlow,
    sync::{Arc, Mutex, mpsc},
};

use credence_protocol::Timestamp;

use crate::{Error, NewEntry, Result};

/// A projection's table. Its rows can be dropped and rebuilt from the entries.
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
    /// One row.
    fn get(&self, table: Table, key: &str) -> Result<Option<Vec<u8>>>;
    /// Visits rows in key order.
    fn scan(&self, table: Table, scan: Scan<'_>, visit: RowVisitor<'_>) -> Result<()>;
    /// The hashes of a tile, as far as they exist.
    fn tile(&self, level: u8, index: u64) -> Result<Option<Vec<u8>>>;
    /// The newest signed checkpoint: of this view's size, or of a little less where entries wait for their seal. None for an
    /// empty ledger.
    fn checkpoint(&self) -> Result<Option<String>>;
    /// What should keep the database from changing entries, and is not there.
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

/// A write in progress; sees its own changes.
pub trait Transaction: View {
    /// The time that the next entry will not be recorded before: the clock's, or the last entry's when that is later.
    fn stamp(&self) -> Result<Timestamp>;
    /// Appends an entry.
    fn append(&mut self, entry: &NewEntry) -> Result<Appended>;
    /// Writes a row.
    fn put(&mut self, table: Table, key: &str, value: &str) -> Result<()>;
    /// Removes a row.
    fn delete(&mut self, table: Table, key: &str) -> Result<()>;
}

/// A unit of work for the writer. Returning `false` undoes what it wrote.
pub type Work = Box<dyn FnOnce(&mut dyn Transaction) -> bool + Send>;

/// Resolves when a unit of work is durable.
pub struct Ticket(pub(crate) mpsc::Receiver<Result<()>>);

impl Ticket {
    /// Waits until the work is durable, or failed.
    pub fn wait(self) -> Result<()> {
        self.0.recv().unwrap_or_else(|_| Err(Error::NoWriter("it stopped before this write was durable".into())))
    }
}

/// An append-only ledger.
pub trait Ledger: Send + Sync {
    /// A consistent read.
    fn view(&self) -> Result<Box<dyn View + '_>>;
    /// Queues work for the single writer. Works queued together share one transaction and one fsync.
    fn submit(&self, work: Work) -> Result<Ticket>;
    /// How many entries are durable, without looking into the database where it can be helped: cheap enough to ask before
    /// every answer.
    fn committed(&self) -> Result<u64> {
        self.view()?.size()
    }

    /// Waits until everything submitted is durable and kept wherever else it is kept (the checkpoint outside).
    fn flush(&self) -> Result<()>;
}

/// Runs `work` in the writer and waits until it is durable. An `Err` from `work` undoes what it wrote.
pub fn write<T, E>(
    ledger: &dyn Ledger,
    work: impl FnOnce(&mut dyn Transaction) -> std::result::Result<T, E> + Send + 'static,
) -> std::result::Result<T, E>
where
    T: Send + 'static,
    E: From<Error> + Send + 'static,
{
    let slot = Arc::new(Mutex::new(None));
    let filled = Arc::clone(&slot);
    let ticket = ledger.submit(Box::new(move |tx| {
        let outcome = work(tx);
        let keep = outcome.is_ok();
        *filled.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(outcome);
        keep
    }))?;
    let durable = ticket.wait();
    let outcome = slot.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    match (outcome, durable) {
        (Some(Err(error)), _) => Err(error),
        (_, Err(error)) => Err(error.into()),
        (Some(Ok(value)), Ok(())) => Ok(value),
        (None, Ok(())) => Err(Error::NoWriter("it did not run this write".into()).into()),
    }
}
