//! A ledger that counts the calls that reach the database: over a network each is a round trip.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use credence_protocol::Timestamp;

use crate::{
    Appended, Claim, EntryVisitor, Job, Jobs, Ledger, NewEntry, NewJob, Queue, Result, RowChange, RowVisitor, Scan,
    Table, Ticket, Transaction, View, Work,
};

/// Counts the calls on the ledger behind it: of units of work, of views and of jobs.
pub struct Counted<L> {
    inner: L,
    calls: Arc<AtomicU64>,
}

impl<L: Ledger> Counted<L> {
    /// Counts calls on `inner`.
    pub fn new(inner: L) -> Self {
        Self { inner, calls: Arc::default() }
    }

    /// Calls since the last time this was asked.
    pub fn take_calls(&self) -> u64 {
        self.calls.swap(0, Ordering::SeqCst)
    }

    fn counted_jobs(&self) -> &dyn Jobs {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.inner.jobs()
    }
}

impl<L: Ledger> Ledger for Counted<L> {
    fn origin(&self) -> &str {
        self.inner.origin()
    }
    fn view(&self) -> Result<Box<dyn View + '_>> {
        Ok(Box::new(CountedView { inner: self.inner.view()?, calls: &self.calls }))
    }
    fn submit(&self, mut work: Work) -> Result<Ticket> {
        let calls = Arc::clone(&self.calls);
        self.inner.submit(Box::new(move |tx| work(&mut CountedTransaction { inner: tx, calls: &calls })))
    }
    fn jobs(&self) -> &dyn Jobs {
        self
    }
    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }
}

impl<L: Ledger> Jobs for Counted<L> {
    fn put(&self, jobs: &[NewJob]) -> Result<()> {
        self.counted_jobs().put(jobs)
    }
    fn claim(&self, queue: Queue, limit: usize, lease: Duration) -> Result<Vec<Claim>> {
        self.counted_jobs().claim(queue, limit, lease)
    }
    fn complete(&self, claim: &Claim) -> Result<bool> {
        self.counted_jobs().complete(claim)
    }
    fn fail(&self, claim: &Claim, retry_at: Timestamp, why: &str) -> Result<bool> {
        self.counted_jobs().fail(claim, retry_at, why)
    }
    fn next_due(&self, queue: Queue) -> Result<Option<Timestamp>> {
        self.counted_jobs().next_due(queue)
    }
}

struct CountedView<'a> {
    inner: Box<dyn View + 'a>,
    calls: &'a AtomicU64,
}

impl CountedView<'_> {
    fn count(&self) -> &dyn View {
        self.calls.fetch_add(1, Ordering::SeqCst);
        &*self.inner
    }
}

struct CountedTransaction<'a> {
    inner: &'a mut dyn Transaction,
    calls: &'a AtomicU64,
}

impl CountedTransaction<'_> {
    fn count(&self) -> &dyn Transaction {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.inner
    }

    fn count_mut(&mut self) -> &mut dyn Transaction {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.inner
    }
}

/// Every read counts, in a view and in a unit of work.
macro_rules! counted_reads {
    ($counted:ident) => {
        impl View for $counted<'_> {
            fn size(&self) -> Result<u64> {
                self.count().size()
            }
            fn entry(&self, seq: u64) -> Result<Option<Vec<u8>>> {
                self.count().entry(seq)
            }
            fn entries(&self, from: u64, visit: EntryVisitor<'_>) -> Result<()> {
                self.count().entries(from, visit)
            }
            fn get_many(&self, table: Table, keys: &[&str]) -> Result<Vec<Option<Vec<u8>>>> {
                self.count().get_many(table, keys)
            }
            fn scan(&self, table: Table, scan: Scan<'_>, visit: RowVisitor<'_>) -> Result<()> {
                self.count().scan(table, scan, visit)
            }
            fn tile(&self, level: u8, index: u64) -> Result<Option<Vec<u8>>> {
                self.count().tile(level, index)
            }
            fn checkpoint(&self) -> Result<Option<String>> {
                self.count().checkpoint()
            }
            fn job(&self, queue: Queue, key: &str) -> Result<Option<Job>> {
                self.count().job(queue, key)
            }
            fn missing_protections(&self) -> Result<Vec<String>> {
                self.count().missing_protections()
            }
        }
    };
}

counted_reads!(CountedView);
counted_reads!(CountedTransaction);

impl Transaction for CountedTransaction<'_> {
    fn stamp(&self) -> Result<Timestamp> {
        self.count().stamp()
    }
    fn return_to_clock(&mut self) -> Result<Timestamp> {
        self.count_mut().return_to_clock()
    }
    fn append_many(&mut self, entries: &[NewEntry]) -> Result<Vec<Appended>> {
        self.count_mut().append_many(entries)
    }
    fn put_many(&mut self, changes: &[RowChange<'_>]) -> Result<()> {
        self.count_mut().put_many(changes)
    }
    fn put_jobs(&mut self, jobs: &[NewJob]) -> Result<()> {
        self.count_mut().put_jobs(jobs)
    }
    fn take_jobs(&mut self, queue: Queue, limit: usize) -> Result<Vec<Job>> {
        self.count_mut().take_jobs(queue, limit)
    }
    fn delete_jobs(&mut self, queue: Queue, keys: &[&str]) -> Result<()> {
        self.count_mut().delete_jobs(queue, keys)
    }
}
