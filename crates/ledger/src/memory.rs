//! A ledger in memory, for tests: a second implementation of the contract, with several writers at once.
//!
//! Every commit makes a new version; a view reads the version it began with. Writers run side by side on a version each and
//! commit only if nobody committed since; otherwise their work runs again on the newer version. A writer that lost three times
//! holds the others back and runs once more.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use credence_protocol::Timestamp;

use crate::{
    Appended, Claim, Clock, Error, Job, Jobs, Ledger, LogKey, NewEntry, NewJob, Queue, Result, RowChange, Scan, Table,
    Ticket, Transaction, View, Work,
    merkle::{self, Edge},
    store::{EntryVisitor, RowVisitor},
};

/// Runs that may lose against other writers before the others are held back.
const OPTIMISTIC_RUNS: usize = 3;

/// Values with their past: at each key, what it was from which version on.
struct Versioned<K, V>(BTreeMap<K, Vec<(u64, Option<V>)>>);

impl<K, V> Default for Versioned<K, V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord, V> Versioned<K, V> {
    fn set(&mut self, version: u64, key: K, value: Option<V>) {
        self.0.entry(key).or_default().push((version, value));
    }

    fn get(&self, version: u64, key: &K) -> Option<&V> {
        self.0.get(key).and_then(|past| at(past, version))
    }

    fn range(&self, version: u64, from: Bound<K>) -> impl Iterator<Item = (&K, &V)> {
        self.0.range((from, Bound::Unbounded)).filter_map(move |(key, past)| Some((key, at(past, version)?)))
    }
}

fn at<V>(past: &[(u64, Option<V>)], version: u64) -> Option<&V> {
    past.iter().rev().find(|(since, _)| *since <= version).and_then(|(_, value)| value.as_ref())
}

#[derive(Clone)]
struct StoredJob {
    job: Job,
    version: u64,
    lease: u64,
}

impl StoredJob {
    fn claimable(&self, now: Timestamp) -> bool {
        self.job.due <= now && self.job.leased_until.is_none_or(|until| until <= now)
    }
}

type Rows = BTreeMap<(Table, String), Option<Vec<u8>>>;
type ChangedJobs = BTreeMap<(Queue, String), Option<StoredJob>>;

#[derive(Default)]
struct State {
    version: u64,
    entries: Vec<Arc<[u8]>>,
    /// The size of the log at each version.
    sizes: Vec<(u64, Option<u64>)>,
    rows: Versioned<(Table, String), Vec<u8>>,
    tiles: Versioned<(u8, u64), Vec<u8>>,
    checkpoints: Versioned<(), String>,
    jobs: Versioned<(Queue, String), StoredJob>,
    edge: Edge,
    last_recorded: Option<Timestamp>,
}

struct Store {
    state: RwLock<State>,
    /// Held while committing, and by a writer that must not lose again for its whole run.
    commit: Mutex<()>,
    key: LogKey,
    clock: Clock,
    /// The next lease.
    leases: AtomicU64,
}

/// A ledger in memory. Clones are further writers on the same ledger.
#[derive(Clone)]
pub struct MemoryLedger(Arc<Store>);

impl MemoryLedger {
    /// An empty ledger. Tables need no declaration.
    pub fn new(key: LogKey, clock: Clock) -> Self {
        let state = RwLock::new(State::default());
        Self(Arc::new(Store { state, commit: Mutex::default(), key, clock, leases: AtomicU64::new(1) }))
    }

    /// Runs `work` until it commits.
    fn run(&self, work: &mut dyn FnMut(&mut MemoryTransaction) -> bool) -> Result<()> {
        for run in 0.. {
            let held = (run >= OPTIMISTIC_RUNS).then(|| self.0.commits());
            let mut tx = MemoryTransaction::begin(&self.0);
            let keep = work(&mut tx);
            if !keep {
                return Ok(());
            }
            let _turn = held.unwrap_or_else(|| self.0.commits());
            if self.0.read().version == tx.view.version {
                return tx.commit();
            }
        }
        Ok(())
    }

    fn change_jobs<T>(&self, mut change: impl FnMut(&mut MemoryTransaction) -> Result<T>) -> Result<T> {
        let mut outcome = None;
        self.run(&mut |tx| {
            let given = change(tx);
            let keep = given.is_ok();
            outcome = Some(given);
            keep
        })?;
        outcome.unwrap_or_else(|| Err(Error::NoWriter("it did not run".into())))
    }

    /// Ends a claim; whether it was still held.
    fn release(&self, claim: &Claim, retry: Option<(Timestamp, &str)>) -> Result<bool> {
        self.change_jobs(|tx| {
            let name = (claim.queue, claim.job.key.clone());
            let Some(mut stored) = tx.stored_job(&name).filter(|stored| stored.lease == claim.lease) else {
                return Ok(false);
            };
            if stored.job.leased_until.take().is_none() {
                return Ok(false);
            }
            let put_again = stored.version != claim.version;
            stored.job.last_error = retry.map(|(_, why)| why.to_owned());
            if let Some((at, _)) = retry.filter(|_| !put_again) {
                stored.job.due = at;
            }
            let kept = retry.is_some() || put_again;
            tx.jobs.insert(name, kept.then_some(stored));
            Ok(true)
        })
    }
}

impl Store {
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn commits(&self) -> MutexGuard<'_, ()> {
        self.commit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ledger for MemoryLedger {
    fn origin(&self) -> &str {
        self.0.key.verifier().origin()
    }

    fn view(&self) -> Result<Box<dyn View + '_>> {
        Ok(Box::new(MemoryView::newest(&self.0)))
    }

    fn submit(&self, mut work: Work) -> Result<Ticket> {
        let (done, ticket) = Ticket::pair();
        done.resolve(self.run(&mut |tx| work(tx)));
        Ok(ticket)
    }

    fn jobs(&self) -> &dyn Jobs {
        self
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }
}

impl Jobs for MemoryLedger {
    fn put(&self, jobs: &[NewJob]) -> Result<()> {
        self.change_jobs(|tx| tx.put_jobs(jobs))
    }

    fn claim(&self, queue: Queue, limit: usize, lease: Duration) -> Result<Vec<Claim>> {
        self.change_jobs(|tx| {
            let now = tx.stamp;
            let mut claims = Vec::new();
            for mut stored in tx.claimable(queue, limit) {
                stored.lease = self.0.leases.fetch_add(1, Ordering::Relaxed);
                stored.job.attempts += 1;
                stored.job.leased_until = Some(now.plus(lease));
                claims.push(Claim { queue, job: stored.job.clone(), version: stored.version, lease: stored.lease });
                tx.jobs.insert((queue, stored.job.key.clone()), Some(stored));
            }
            Ok(claims)
        })
    }

    fn complete(&self, claim: &Claim) -> Result<bool> {
        self.release(claim, None)
    }

    fn fail(&self, claim: &Claim, retry_at: Timestamp, why: &str) -> Result<bool> {
        self.release(claim, Some((retry_at, why)))
    }

    fn next_due(&self, queue: Queue) -> Result<Option<Timestamp>> {
        let state = self.0.read();
        let jobs = state.jobs.range(state.version, Bound::Included((queue, String::new())));
        let times = jobs.take_while(|((of, _), _)| *of == queue).map(|(_, stored)| {
            let Job { due, leased_until, .. } = stored.job;
            leased_until.map_or(due, |until| until.max(due))
        });
        Ok(times.min())
    }
}

/// One version of the ledger.
struct MemoryView {
    store: Arc<Store>,
    version: u64,
    size: u64,
}

impl MemoryView {
    fn newest(store: &Arc<Store>) -> Self {
        let state = store.read();
        let size = at(&state.sizes, state.version).copied().unwrap_or(0);
        Self { store: Arc::clone(store), version: state.version, size }
    }

    /// Rows of a range as they are in this version, with `changes` on top, in the order of the scan.
    fn rows(&self, table: Table, scan: Scan<'_>, changes: &Rows) -> Vec<(String, Vec<u8>)> {
        let within = |key: &str| {
            let side = scan.after.is_none_or(|after| if scan.reverse { key < after } else { key > after });
            key.starts_with(scan.prefix) && side
        };
        let state = self.store.read();
        let from = Bound::Included((table, scan.prefix.to_owned()));
        let stored = state.rows.range(self.version, from);
        let stored = stored.take_while(|((of, key), _)| *of == table && key.starts_with(scan.prefix));
        let mut rows: BTreeMap<&str, &[u8]> = BTreeMap::new();
        rows.extend(stored.filter(|((_, key), _)| within(key)).map(|((_, key), row)| (key.as_str(), row.as_slice())));
        for ((of, key), row) in changes {
            match row {
                _ if *of != table || !within(key) => {}
                Some(row) => drop(rows.insert(key, row)),
                None => drop(rows.remove(key.as_str())),
            }
        }
        let rows = rows.into_iter().map(|(key, row)| (key.to_owned(), row.to_vec()));
        if scan.reverse { rows.rev().collect() } else { rows.collect() }
    }

    fn stored(&self, seq: u64) -> Option<Arc<[u8]>> {
        let index = usize::try_from(seq).ok().filter(|_| seq < self.size)?;
        self.store.read().entries.get(index).cloned()
    }
}

fn visit_rows(rows: Vec<(String, Vec<u8>)>, visit: RowVisitor<'_>) {
    for (key, row) in rows {
        if visit(&key, &row).is_break() {
            break;
        }
    }
}

impl View for MemoryView {
    fn size(&self) -> Result<u64> {
        Ok(self.size)
    }
    fn entry(&self, seq: u64) -> Result<Option<Vec<u8>>> {
        Ok(self.stored(seq).map(|entry| entry.to_vec()))
    }
    fn entries(&self, from: u64, visit: EntryVisitor<'_>) -> Result<()> {
        for seq in from..self.size {
            let Some(entry) = self.stored(seq) else { break };
            if visit(seq, &entry).is_break() {
                break;
            }
        }
        Ok(())
    }
    fn get_many(&self, table: Table, keys: &[&str]) -> Result<Vec<Option<Vec<u8>>>> {
        let state = self.store.read();
        Ok(keys.iter().map(|key| state.rows.get(self.version, &(table, (*key).to_owned())).cloned()).collect())
    }
    fn scan(&self, table: Table, scan: Scan<'_>, visit: RowVisitor<'_>) -> Result<()> {
        visit_rows(self.rows(table, scan, &Rows::new()), visit);
        Ok(())
    }
    fn tile(&self, level: u8, index: u64) -> Result<Option<Vec<u8>>> {
        Ok(self.store.read().tiles.get(self.version, &(level, index)).cloned())
    }
    fn checkpoint(&self) -> Result<Option<String>> {
        Ok(self.store.read().checkpoints.get(self.version, &()).cloned())
    }
    fn job(&self, queue: Queue, key: &str) -> Result<Option<Job>> {
        let state = self.store.read();
        Ok(state.jobs.get(self.version, &(queue, key.to_owned())).map(|stored| stored.job.clone()))
    }
    /// Entries are behind a type that only grows: nothing can be missing.
    fn missing_protections(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// A run of a unit of work: a version, and what the run changed.
struct MemoryTransaction {
    view: MemoryView,
    stamp: Timestamp,
    entries: Vec<Arc<[u8]>>,
    rows: Rows,
    jobs: ChangedJobs,
}

impl MemoryTransaction {
    fn begin(store: &Arc<Store>) -> Self {
        let view = MemoryView::newest(store);
        let now = (store.clock)();
        let stamp = store.read().last_recorded.map_or(now, |last| last.max(now));
        Self { view, stamp, entries: Vec::new(), rows: Rows::new(), jobs: ChangedJobs::new() }
    }

    fn stored_job(&self, name: &(Queue, String)) -> Option<StoredJob> {
        match self.jobs.get(name) {
            Some(changed) => changed.clone(),
            None => self.view.store.read().jobs.get(self.view.version, name).cloned(),
        }
    }

    /// Due jobs that nobody holds, those due longest first.
    fn claimable(&self, queue: Queue, limit: usize) -> Vec<StoredJob> {
        let mut names: Vec<(Queue, String)> = {
            let state = self.view.store.read();
            let stored = state.jobs.range(self.view.version, Bound::Included((queue, String::new())));
            stored.map(|(name, _)| name.clone()).take_while(|(of, _)| *of == queue).collect()
        };
        names.extend(self.jobs.keys().filter(|(of, _)| *of == queue).cloned());
        names.sort();
        names.dedup();
        let jobs = names.iter().filter_map(|name| self.stored_job(name));
        let mut jobs: Vec<StoredJob> = jobs.filter(|stored| stored.claimable(self.stamp)).collect();
        jobs.sort_by(|one, other| (one.job.due, &one.job.key).cmp(&(other.job.due, &other.job.key)));
        jobs.truncate(limit);
        jobs
    }

    /// Makes the run the newest version. The caller holds the commit lock.
    fn commit(self) -> Result<()> {
        let Self { view, stamp, entries, rows, jobs } = self;
        let mut state = view.store.state.write().unwrap_or_else(PoisonError::into_inner);
        let version = state.version + 1;
        if !entries.is_empty() {
            let leaves: Vec<_> = entries.iter().map(|entry| merkle::leaf(entry)).collect();
            let mut edge = state.edge.clone();
            let tiles = edge.extend(&leaves);
            let note = view.store.key.sign(edge.size(), edge.root()?)?;
            for tile in tiles {
                state.tiles.set(version, (tile.level, tile.index), Some(tile.hashes));
            }
            state.checkpoints.set(version, (), Some(note));
            state.sizes.push((version, Some(edge.size())));
            state.edge = edge;
            state.entries.extend(entries);
            state.last_recorded = Some(stamp);
        }
        rows.into_iter().for_each(|(key, row)| state.rows.set(version, key, row));
        jobs.into_iter().for_each(|(name, job)| state.jobs.set(version, name, job));
        state.version = version;
        Ok(())
    }
}

impl View for MemoryTransaction {
    fn size(&self) -> Result<u64> {
        Ok(self.view.size + self.entries.len() as u64)
    }
    fn entry(&self, seq: u64) -> Result<Option<Vec<u8>>> {
        let own = seq.checked_sub(self.view.size).and_then(|at| self.entries.get(usize::try_from(at).ok()?));
        own.map_or_else(|| self.view.entry(seq), |entry| Ok(Some(entry.to_vec())))
    }
    fn entries(&self, from: u64, visit: EntryVisitor<'_>) -> Result<()> {
        for seq in from..self.size()? {
            let Some(entry) = self.entry(seq)? else { break };
            if visit(seq, &entry).is_break() {
                break;
            }
        }
        Ok(())
    }
    fn get_many(&self, table: Table, keys: &[&str]) -> Result<Vec<Option<Vec<u8>>>> {
        let stored = self.view.get_many(table, keys)?;
        let changed = |key: &str| self.rows.get(&(table, key.to_owned()));
        Ok(keys.iter().zip(stored).map(|(key, row)| changed(key).map_or(row, Clone::clone)).collect())
    }
    fn scan(&self, table: Table, scan: Scan<'_>, visit: RowVisitor<'_>) -> Result<()> {
        visit_rows(self.view.rows(table, scan, &self.rows), visit);
        Ok(())
    }
    fn tile(&self, level: u8, index: u64) -> Result<Option<Vec<u8>>> {
        self.view.tile(level, index)
    }
    fn checkpoint(&self) -> Result<Option<String>> {
        self.view.checkpoint()
    }
    fn job(&self, queue: Queue, key: &str) -> Result<Option<Job>> {
        Ok(self.stored_job(&(queue, key.to_owned())).map(|stored| stored.job))
    }
    fn missing_protections(&self) -> Result<Vec<String>> {
        self.view.missing_protections()
    }
}

impl Transaction for MemoryTransaction {
    fn stamp(&self) -> Result<Timestamp> {
        Ok(self.stamp)
    }

    fn return_to_clock(&mut self) -> Result<Timestamp> {
        self.stamp = (self.view.store.clock)();
        Ok(self.stamp)
    }
    fn append_many(&mut self, entries: &[NewEntry]) -> Result<Vec<Appended>> {
        let mut appended = Vec::with_capacity(entries.len());
        for entry in entries {
            let seq = self.size()?;
            self.entries.push(entry.encode(self.stamp)?.into());
            appended.push(Appended { seq, recorded_at: self.stamp });
        }
        Ok(appended)
    }

    fn put_many(&mut self, changes: &[RowChange<'_>]) -> Result<()> {
        let rows = changes.iter().map(|change| {
            let key = (change.table, change.key.to_owned());
            (key, change.value.map(|value| value.as_bytes().to_vec()))
        });
        self.rows.extend(rows);
        Ok(())
    }

    fn put_jobs(&mut self, jobs: &[NewJob]) -> Result<()> {
        for NewJob { queue, key, due, payload } in jobs {
            let name = (*queue, key.clone());
            let due = due.unwrap_or(self.stamp);
            let stored = match self.stored_job(&name) {
                Some(former) => StoredJob {
                    job: Job { due, payload: payload.clone(), ..former.job },
                    version: former.version + 1,
                    lease: former.lease,
                },
                None => {
                    let job = Job {
                        key: key.clone(),
                        payload: payload.clone(),
                        due,
                        attempts: 0,
                        leased_until: None,
                        last_error: None,
                    };
                    StoredJob { job, version: 1, lease: 0 }
                }
            };
            self.jobs.insert(name, Some(stored));
        }
        Ok(())
    }

    fn take_jobs(&mut self, queue: Queue, limit: usize) -> Result<Vec<Job>> {
        let taken = self.claimable(queue, limit);
        self.jobs.extend(taken.iter().map(|stored| ((queue, stored.job.key.clone()), None)));
        Ok(taken.into_iter().map(|stored| stored.job).collect())
    }

    fn delete_jobs(&mut self, queue: Queue, keys: &[&str]) -> Result<()> {
        self.jobs.extend(keys.iter().map(|key| ((queue, (*key).to_owned()), None)));
        Ok(())
    }
}
