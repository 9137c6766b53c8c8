//! Reads and writes of a unit of work gathered into few calls of the database.
//!
//! Code that folds entries reads and writes row by row. Over a network each of these would be a round trip. An [`Overlay`]
//! stands between: rows that will be needed are fetched ahead with [`Overlay::prefetch`], what is written stays here and goes
//! to the database in three calls at the end, or before a read that needs it there (a scan, an entry by its seq).

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
};

use credence_protocol::Timestamp;

use crate::{
    Appended, Job, NewEntry, NewJob, Queue, Result, RowChange, Scan, Table, Transaction, View,
    store::{EntryVisitor, RowVisitor},
};

/// A transaction whose reads and writes are gathered.
pub struct Overlay<'a> {
    /// Borrowed for writing by [`flush`](Self::flush) alone, which no visitor can reach: a visitor holds no `&mut Overlay`, and
    /// before a scan begins nothing is left to flush.
    inner: RefCell<&'a mut dyn Transaction>,
    stamp: Timestamp,
    /// Entries in the database, those of this unit of work that went there included.
    stored: RefCell<u64>,
    unwritten: RefCell<Unwritten>,
    /// Rows as they are, read or written here.
    rows: RefCell<Rows>,
}

/// Rows by table and key; `None` where the database has none.
type Rows = HashMap<(Table, String), Option<Vec<u8>>>;

/// What the database does not have yet.
#[derive(Default)]
struct Unwritten {
    entries: Vec<NewEntry>,
    rows: BTreeMap<(Table, String), Option<String>>,
    jobs: BTreeMap<(Queue, String), NewJob>,
}

impl<'a> Overlay<'a> {
    /// Runs `work` over `tx`, then writes what it wrote.
    pub fn run<T, E: From<crate::Error>>(
        tx: &'a mut dyn Transaction,
        work: impl FnOnce(&mut Overlay<'a>) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let (stamp, size) = (tx.stamp()?, tx.size()?);
        let mut overlay = Self {
            inner: RefCell::new(tx),
            stamp,
            stored: RefCell::new(size),
            unwritten: RefCell::default(),
            rows: RefCell::default(),
        };
        let value = work(&mut overlay)?;
        overlay.flush()?;
        Ok(value)
    }

    /// Fetches rows that will be needed.
    pub fn prefetch<'k>(&self, table: Table, keys: impl IntoIterator<Item = &'k str>) -> Result<()> {
        let mut missing: Vec<&str> = {
            let rows = self.rows.borrow();
            keys.into_iter().filter(|key| !rows.contains_key(&(table, (*key).to_owned()))).collect()
        };
        missing.sort_unstable();
        missing.dedup();
        if missing.is_empty() {
            return Ok(());
        }
        let found = self.inner.borrow().get_many(table, &missing)?;
        let mut rows = self.rows.borrow_mut();
        rows.extend(missing.iter().zip(found).map(|(key, row)| ((table, (*key).to_owned()), row)));
        Ok(())
    }

    /// Gives the database what it does not have yet.
    fn flush(&self) -> Result<()> {
        let Unwritten { entries, rows, jobs } = self.unwritten.take();
        if entries.is_empty() && rows.is_empty() && jobs.is_empty() {
            return Ok(());
        }
        let mut inner = self.inner.borrow_mut();
        if !entries.is_empty() {
            inner.append_many(&entries)?;
            *self.stored.borrow_mut() += entries.len() as u64;
        }
        if !rows.is_empty() {
            let changes: Vec<RowChange<'_>> = rows
                .iter()
                .map(|((table, key), value)| RowChange { table: *table, key, value: value.as_deref() })
                .collect();
            inner.put_many(&changes)?;
        }
        if !jobs.is_empty() {
            inner.put_jobs(&jobs.into_values().collect::<Vec<_>>())?;
        }
        Ok(())
    }
}

impl View for Overlay<'_> {
    fn size(&self) -> Result<u64> {
        Ok(*self.stored.borrow() + self.unwritten.borrow().entries.len() as u64)
    }

    fn entry(&self, seq: u64) -> Result<Option<Vec<u8>>> {
        if seq >= *self.stored.borrow() {
            self.flush()?;
        }
        self.inner.borrow().entry(seq)
    }

    fn entries(&self, from: u64, visit: EntryVisitor<'_>) -> Result<()> {
        self.flush()?;
        self.inner.borrow().entries(from, visit)
    }

    fn get_many(&self, table: Table, keys: &[&str]) -> Result<Vec<Option<Vec<u8>>>> {
        self.prefetch(table, keys.iter().copied())?;
        let rows = self.rows.borrow();
        Ok(keys.iter().map(|key| rows.get(&(table, (*key).to_owned())).cloned().flatten()).collect())
    }

    fn scan(&self, table: Table, scan: Scan<'_>, visit: RowVisitor<'_>) -> Result<()> {
        self.flush()?;
        self.inner.borrow().scan(table, scan, visit)
    }

    fn tile(&self, level: u8, index: u64) -> Result<Option<Vec<u8>>> {
        self.inner.borrow().tile(level, index)
    }

    fn checkpoint(&self) -> Result<Option<String>> {
        self.inner.borrow().checkpoint()
    }

    fn job(&self, queue: Queue, key: &str) -> Result<Option<Job>> {
        self.flush()?;
        self.inner.borrow().job(queue, key)
    }

    fn missing_protections(&self) -> Result<Vec<String>> {
        self.inner.borrow().missing_protections()
    }
}

impl Transaction for Overlay<'_> {
    fn stamp(&self) -> Result<Timestamp> {
        Ok(self.stamp)
    }

    fn append_many(&mut self, entries: &[NewEntry]) -> Result<Vec<Appended>> {
        let first = self.size()?;
        for entry in entries {
            entry.check_size(self.stamp)?;
        }
        self.unwritten.borrow_mut().entries.extend_from_slice(entries);
        let seqs = first..first + entries.len() as u64;
        Ok(seqs.map(|seq| Appended { seq, recorded_at: self.stamp }).collect())
    }

    fn put_many(&mut self, changes: &[RowChange<'_>]) -> Result<()> {
        let (mut unwritten, mut rows) = (self.unwritten.borrow_mut(), self.rows.borrow_mut());
        for RowChange { table, key, value } in changes {
            let at = (*table, (*key).to_owned());
            rows.insert(at.clone(), value.map(|value| value.as_bytes().to_vec()));
            unwritten.rows.insert(at, value.map(str::to_owned));
        }
        Ok(())
    }

    fn put_jobs(&mut self, jobs: &[NewJob]) -> Result<()> {
        let mut unwritten = self.unwritten.borrow_mut();
        unwritten.jobs.extend(jobs.iter().map(|job| ((job.queue, job.key.clone()), job.clone())));
        Ok(())
    }

    fn take_jobs(&mut self, queue: Queue, limit: usize) -> Result<Vec<Job>> {
        self.flush()?;
        self.inner.borrow_mut().take_jobs(queue, limit)
    }

    fn delete_jobs(&mut self, queue: Queue, keys: &[&str]) -> Result<()> {
        self.flush()?;
        self.inner.borrow_mut().delete_jobs(queue, keys)
    }
}
