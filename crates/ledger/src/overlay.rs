//! Reads and writes of a unit of work gathered into few calls of the database.
//!
//! Code that folds entries reads and writes row by row. Over a network each of these would be a round trip. An [`Overlay`]
//! stands between: rows that will be needed are fetched ahead with [`Overlay::prefetch`], what is written stays here and goes
//! to the database in three calls at the end, or before a read that needs it there (a scan, an entry by its seq).

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet, HashMap},
};

use credence_protocol::Timestamp;

use crate::{
    Appended, Error, Job, NewEntry, NewJob, Queue, Result, RowChange, Scan, Table, Transaction, View,
    store::{EntryVisitor, RowVisitor},
};

/// Rows by table and key, as they are for this unit of work; `None` where there is no such row.
type Rows = HashMap<Table, HashMap<String, Option<Vec<u8>>>>;

/// A transaction whose reads and writes are gathered.
pub struct Overlay<'a> {
    /// Borrowed for writing by [`flush`](Self::flush) alone, which no visitor can reach: a visitor holds no `&mut Overlay`, and
    /// before a scan begins nothing is left to flush.
    inner: RefCell<&'a mut dyn Transaction>,
    stamp: Timestamp,
    /// Entries in the database, those of this unit of work that went there included.
    stored: RefCell<u64>,
    /// Entries and jobs that the database does not have yet.
    entries: RefCell<Vec<NewEntry>>,
    jobs: RefCell<BTreeMap<(Queue, String), NewJob>>,
    /// Rows read or written here.
    rows: RefCell<Rows>,
    /// Those that the database does not have yet. In the order of their keys, which a database likes, and which is the same each
    /// time.
    unwritten: RefCell<BTreeSet<(Table, String)>>,
}

impl<'a> Overlay<'a> {
    /// Runs `work` over `tx`, then writes what it wrote.
    pub fn run<T, E: From<Error>>(
        tx: &'a mut dyn Transaction,
        work: impl FnOnce(&mut Overlay<'a>) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let (stamp, size) = (tx.stamp()?, tx.size()?);
        let mut overlay = Self {
            inner: RefCell::new(tx),
            stamp,
            stored: RefCell::new(size),
            entries: RefCell::default(),
            jobs: RefCell::default(),
            rows: RefCell::default(),
            unwritten: RefCell::default(),
        };
        let value = work(&mut overlay)?;
        overlay.flush()?;
        Ok(value)
    }

    /// Fetches rows that will be needed.
    pub fn prefetch<'k>(&self, table: Table, keys: impl IntoIterator<Item = &'k str>) -> Result<()> {
        let mut missing: Vec<&str> = {
            let rows = self.rows.borrow();
            let known = rows.get(&table);
            keys.into_iter().filter(|key| !known.is_some_and(|known| known.contains_key(*key))).collect()
        };
        missing.sort_unstable();
        missing.dedup();
        if missing.is_empty() {
            return Ok(());
        }
        let found = self.inner.borrow().get_many(table, &missing)?;
        let mut rows = self.rows.borrow_mut();
        let known = rows.entry(table).or_default();
        known.extend(missing.iter().zip(found).map(|(key, value)| ((*key).to_owned(), value)));
        Ok(())
    }

    /// Gives the database what it does not have yet.
    fn flush(&self) -> Result<()> {
        let (entries, unwritten) = (self.entries.take(), self.unwritten.take());
        if entries.is_empty() && unwritten.is_empty() && self.jobs.borrow().is_empty() {
            return Ok(());
        }
        let mut inner = self.inner.borrow_mut();
        if !entries.is_empty() {
            inner.append_many(&entries)?;
            *self.stored.borrow_mut() += entries.len() as u64;
        }
        if !unwritten.is_empty() {
            let rows = self.rows.borrow();
            let mut changes: Vec<RowChange<'_>> = Vec::with_capacity(unwritten.len());
            for (table, key) in &unwritten {
                let value = rows.get(table).and_then(|rows| rows.get(key)).and_then(Option::as_deref);
                let value = value.map(std::str::from_utf8).transpose();
                let value = value.map_err(|e| Error::Database(format!("row '{key}' is no text: {e}")))?;
                changes.push(RowChange { table: *table, key, value });
            }
            inner.put_many(&changes)?;
        }
        let jobs = self.jobs.take();
        if !jobs.is_empty() {
            inner.put_jobs(&jobs.into_values().collect::<Vec<_>>())?;
        }
        Ok(())
    }
}

impl View for Overlay<'_> {
    fn size(&self) -> Result<u64> {
        Ok(*self.stored.borrow() + self.entries.borrow().len() as u64)
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
        let known = rows.get(&table);
        let value = |key: &str| known.and_then(|known| known.get(key)).cloned().flatten();
        Ok(keys.iter().map(|key| value(key)).collect())
    }

    fn get(&self, table: Table, key: &str) -> Result<Option<Vec<u8>>> {
        if let Some(row) = self.rows.borrow().get(&table).and_then(|known| known.get(key)) {
            return Ok(row.clone());
        }
        Ok(self.get_many(table, &[key])?.pop().flatten())
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

    fn return_to_clock(&mut self) -> Result<Timestamp> {
        self.stamp = self.inner.borrow_mut().return_to_clock()?;
        Ok(self.stamp)
    }

    fn append_many(&mut self, entries: &[NewEntry]) -> Result<Vec<Appended>> {
        let first = self.size()?;
        for entry in entries {
            entry.check_size(self.stamp)?;
        }
        self.entries.borrow_mut().extend_from_slice(entries);
        let seqs = first..first + entries.len() as u64;
        Ok(seqs.map(|seq| Appended { seq, recorded_at: self.stamp }).collect())
    }

    fn put_many(&mut self, changes: &[RowChange<'_>]) -> Result<()> {
        let mut rows = self.rows.borrow_mut();
        let mut unwritten = self.unwritten.borrow_mut();
        for RowChange { table, key, value } in changes {
            let value = value.map(|value| value.as_bytes().to_vec());
            rows.entry(*table).or_default().insert((*key).to_owned(), value);
            unwritten.insert((*table, (*key).to_owned()));
        }
        Ok(())
    }

    fn put_jobs(&mut self, jobs: &[NewJob]) -> Result<()> {
        let mut kept = self.jobs.borrow_mut();
        kept.extend(jobs.iter().map(|job| ((job.queue, job.key.clone()), job.clone())));
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
