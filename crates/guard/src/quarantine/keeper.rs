//! Keeps results for review, beside the traffic: a call only puts a copy into a queue, after its client has the answer. A thread
//! encrypts and writes it, lets the oldest go beyond the bounds, and counts what it could not keep. No call waits for it, and none
//! fails with it.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
        mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender},
    },
    time::{Duration, Instant},
};

use credence_protocol::Uuid;

use super::{
    KeptItem, QuarantineError as Error, QuarantineSettings,
    store::{self, Listed, Status, Store},
};
use crate::warn;

/// Bytes that wait to be written; beyond them results are lost, and counted.
const MAX_QUEUED: usize = 32 * 1024 * 1024;
/// After this long without a new item the disk is asked to keep those before: asked for each, it would hold up the journal of calls.
const LULL: Duration = Duration::from_secs(1);
/// How often old items are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// When room is needed, this share more than is needed is made: looking for it costs more than the room.
const SPARE_SHARE: u64 = 16;
/// How long a guard that ends waits for what is in the queue.
const END_PATIENCE: Duration = Duration::from_secs(10);

/// A guard's quarantine.
pub struct Quarantine {
    store: Store,
    settings: QuarantineSettings,
    queue: Mutex<Sender<Job>>,
    queued: Arc<Queued>,
}

#[derive(Default)]
struct Queued {
    bytes: AtomicUsize,
    items: AtomicUsize,
    /// For which there was no room in the queue.
    lost: AtomicU64,
}

enum Job {
    Keep(Box<KeptItem>),
    /// Says when everything before it is done.
    Reached(SyncSender<()>),
}

impl Quarantine {
    /// Opens the quarantine of the guard in `place` and starts its thread.
    pub fn open(settings: QuarantineSettings, place: PathBuf, store: Store) -> Result<Self, Error> {
        store::prepare(&place)?;
        let status = Status::new(&settings);
        status.write(&place)?;
        let (queue, jobs) = mpsc::channel();
        let queued = Arc::new(Queued::default());
        let kept = store::list(&place)?;
        let keeper = Keeper {
            place: place.clone(),
            store: store.clone(),
            settings,
            queued: Arc::clone(&queued),
            bytes: kept.iter().map(|one| one.bytes).sum(),
            kept,
            unsynced: Vec::new(),
            looked: Instant::now(),
            status: status.clone(),
            written: status,
        };
        let spawned = std::thread::Builder::new().name("quarantine".to_owned()).spawn(move || keeper.run(&jobs));
        spawned.map_err(|e| Error::Io(place, e))?;
        Ok(Self { store, settings, queue: Mutex::new(queue), queued })
    }

    /// Keeps a result. Returns at once.
    pub fn keep(&self, item: KeptItem) {
        let item = Box::new(item.within(self.settings.largest_item()));
        let bytes = item.bytes();
        if self.queued.bytes.fetch_add(bytes, Relaxed) + bytes > MAX_QUEUED {
            self.queued.bytes.fetch_sub(bytes, Relaxed);
            self.queued.lost.fetch_add(1, Relaxed);
            return;
        }
        self.queued.items.fetch_add(1, Relaxed);
        let _ = self.queue.lock().unwrap_or_else(PoisonError::into_inner).send(Job::Keep(item));
    }

    /// What is kept, the oldest first.
    pub fn list(&self) -> Result<Vec<Listed>, Error> {
        self.store.list()
    }

    /// The kept item of a call.
    pub fn read(&self, call: Uuid) -> Result<Option<KeptItem>, Error> {
        self.store.read(call)
    }

    /// Waits until what was given to it is written, but not for ever.
    pub fn finish(&self) {
        let (done, reached) = mpsc::sync_channel(1);
        let sent = self.queue.lock().unwrap_or_else(PoisonError::into_inner).send(Job::Reached(done));
        if sent.is_ok() && reached.recv_timeout(END_PATIENCE).is_err() {
            warn("some results could not be kept for review in time");
        }
    }
}

/// The thread's side.
struct Keeper {
    place: PathBuf,
    store: Store,
    settings: QuarantineSettings,
    queued: Arc<Queued>,
    /// The oldest first. A person may have removed some.
    kept: Vec<Listed>,
    /// Bytes of them.
    bytes: u64,
    /// Those that the disk was not asked to keep.
    unsynced: Vec<Uuid>,
    /// When old ones were looked for last.
    looked: Instant,
    status: Status,
    /// The status that is on disk.
    written: Status,
}

impl Keeper {
    fn run(mut self, jobs: &Receiver<Job>) {
        loop {
            let patience = if self.unsynced.is_empty() { LOOK_EVERY } else { LULL };
            match jobs.recv_timeout(patience) {
                Ok(Job::Keep(item)) => {
                    self.queued.bytes.fetch_sub(item.bytes(), Relaxed);
                    self.keep(&item);
                    self.queued.items.fetch_sub(1, Relaxed);
                }
                Ok(Job::Reached(done)) => {
                    self.sync();
                    self.report();
                    let _ = done.send(());
                }
                Err(RecvTimeoutError::Timeout) => self.sync(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.looked.elapsed() >= LOOK_EVERY {
                self.let_old_go();
            }
            if self.queued.items.load(Relaxed) == 0 {
                self.report();
            }
        }
    }

    /// Asks the disk to keep what was written since the last time.
    fn sync(&mut self) {
        for call in std::mem::take(&mut self.unsynced) {
            if let Err(error) = self.store.sync(call) {
                warn(&format!("the disk does not keep a result for review: {error}"));
            }
        }
    }

    fn keep(&mut self, item: &KeptItem) {
        match self.store.write(item) {
            Ok(bytes) => {
                self.unsynced.push(item.call);
                self.kept.push(Listed { call: item.call, bytes, answered: false });
                self.bytes += bytes;
                if self.bytes > self.settings.max_bytes {
                    self.make_room();
                }
            }
            Err(error) => {
                // Said once in a row: a full disk would fill standard error, too.
                if self.status.lost == self.written.lost {
                    warn(&format!("a result could not be kept for review: {error}"));
                }
                self.status.lose(1, &error.to_string());
            }
        }
    }

    /// Lets the oldest go until there is room, and some to spare.
    fn make_room(&mut self) {
        self.look();
        let mut bytes = self.bytes;
        if bytes <= self.settings.max_bytes {
            return;
        }
        let wanted = self.settings.max_bytes - self.settings.max_bytes / SPARE_SHARE;
        let oldest = self.kept.iter().position(|one| {
            let enough = bytes <= wanted;
            bytes -= if enough { 0 } else { one.bytes };
            enough
        });
        self.let_go(oldest.unwrap_or(self.kept.len()));
    }

    fn let_old_go(&mut self) {
        self.looked = Instant::now();
        self.look();
        let keep = self.settings.keep;
        let young = self.kept.iter().position(|one| !store::is_old(one.call, keep));
        self.let_go(young.unwrap_or(self.kept.len()));
    }

    fn look(&mut self) {
        match store::list(&self.place) {
            Ok(kept) => (self.bytes, self.kept) = (kept.iter().map(|one| one.bytes).sum(), kept),
            Err(error) => warn(&format!("kept results cannot be listed: {error}")),
        }
    }

    /// Removes so many of the oldest.
    fn let_go(&mut self, count: usize) {
        for one in self.kept.drain(..count) {
            self.bytes -= one.bytes;
            match store::remove(&self.place, one.call) {
                Ok(true) => self.status.let_go += u64::from(!one.answered),
                Ok(false) => {}
                Err(error) => warn(&format!("a kept result cannot be removed: {error}")),
            }
        }
    }

    fn report(&mut self) {
        let lost = self.queued.lost.swap(0, Relaxed);
        if lost > 0 {
            self.status.lose(lost, "too many at once");
        }
        if self.status != self.written && self.status.write(&self.place).is_ok() {
            self.written = self.status.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quarantine::{DEFAULT_BYTES, cipher::QuarantineKey, item::Explained};
    use credence_protocol::Decision;
    use credence_testing::until;
    use serde_json::value::to_raw_value;
    use std::{fs, path::Path};

    fn item(result: &str) -> KeptItem {
        let Explained { explanation, findings } = Explained::default();
        KeptItem {
            call: Uuid::now_v7(),
            log: None,
            server: "fs".into(),
            tool: "read".into(),
            agent: None,
            session: None,
            started_at: credence_receipts::now(),
            execution_ms: Some(1.0),
            mode: "flag".into(),
            withheld: false,
            verdict: Some(Decision::Flag),
            posterior: Some(0.4),
            unjudged: None,
            explanation,
            findings,
            changes: Vec::new(),
            arguments: None,
            result: Some(to_raw_value(result).unwrap()),
            omitted_bytes: None,
        }
    }

    fn open(state: &Path, max_bytes: u64) -> (Quarantine, PathBuf) {
        let place = state.join("fs").join("1");
        let key = Arc::new(QuarantineKey::read_or_create(state).unwrap());
        let settings = QuarantineSettings { max_bytes, ..QuarantineSettings::default() };
        let store = Store::new(&place, "fs/1", key);
        (Quarantine::open(settings, place.clone(), store).unwrap(), place)
    }

    fn folder_bytes(place: &Path) -> u64 {
        let files = fs::read_dir(place.join("quarantine")).unwrap().map(|file| file.unwrap().metadata().unwrap().len());
        files.sum()
    }

    #[test]
    fn ten_thousand_results_stay_within_the_bound_and_the_newest_are_there() {
        let state = tempfile::tempdir().unwrap();
        let most = 8 * 1024 * 1024;
        let (quarantine, place) = open(state.path(), most);
        let items: Vec<KeptItem> = (0..10_000).map(|n| item(&format!("row {n} {}", "x".repeat(2000)))).collect();
        for item in &items {
            quarantine.keep(item.clone());
        }
        until("everything is written", || {
            quarantine.finish();
            quarantine.queued.items.load(Relaxed) == 0
        });
        quarantine.finish();
        let kept = store::list(&place).unwrap();
        let bytes: u64 = kept.iter().map(|one| one.bytes).sum();
        assert!(bytes <= most && folder_bytes(&place) <= most, "{bytes}");
        assert!(bytes > most / 2, "the room is used: {bytes}");
        let status = Status::read(&place).unwrap();
        assert_eq!(status.lost, 0, "{status:?}");
        assert_eq!(status.let_go + kept.len() as u64, 10_000);
        let newest = items.last().unwrap();
        let read = quarantine.read(newest.call).unwrap().unwrap();
        assert_eq!(read.result.unwrap().get(), newest.result.as_ref().unwrap().get());
        assert!(quarantine.read(items[0].call).unwrap().is_none(), "the oldest go first");
    }

    #[test]
    fn nothing_is_readable_on_disk_and_a_restart_finds_it() {
        let state = tempfile::tempdir().unwrap();
        let (quarantine, place) = open(state.path(), DEFAULT_BYTES);
        let kept = item("the password is hunter2");
        quarantine.keep(kept.clone());
        quarantine.finish();
        for file in fs::read_dir(place.join("quarantine")).unwrap() {
            let bytes = fs::read(file.unwrap().path()).unwrap();
            for secret in [&b"hunter2"[..], b"read", b"result"] {
                assert!(!bytes.windows(secret.len()).any(|part| part == secret));
            }
        }
        drop(quarantine);
        fs::write(place.join("quarantine").join(format!("{}.item.next", Uuid::now_v7())), "half").unwrap();
        let (again, _) = open(state.path(), DEFAULT_BYTES);
        assert!(again.read(kept.call).unwrap().is_some());
        assert_eq!(fs::read_dir(place.join("quarantine")).unwrap().count(), 1, "what was half-written is gone");
    }

    #[test]
    fn what_cannot_be_written_is_counted_and_said() {
        let state = tempfile::tempdir().unwrap();
        let (quarantine, place) = open(state.path(), DEFAULT_BYTES);
        fs::remove_dir_all(place.join("quarantine")).unwrap();
        for _ in 0..3 {
            quarantine.keep(item("lost"));
        }
        quarantine.finish();
        let status = Status::read(&place).unwrap();
        assert_eq!(status.lost, 3);
        assert!(status.trouble().unwrap().contains("3 results could not be kept"), "{status:?}");
        store::prepare(&place).unwrap();
        let kept = item("kept again");
        quarantine.keep(kept.clone());
        quarantine.finish();
        assert!(quarantine.read(kept.call).unwrap().is_some());
    }

    #[test]
    fn a_result_that_is_too_large_is_kept_without_its_content() {
        let state = tempfile::tempdir().unwrap();
        let (quarantine, _) = open(state.path(), 1024 * 1024);
        let large = item(&"x".repeat(300_000));
        quarantine.keep(large.clone());
        quarantine.finish();
        let read = quarantine.read(large.call).unwrap().unwrap();
        assert!(read.result.is_none() && read.omitted_bytes.unwrap() > 300_000);
        assert!(read.why_no_content().contains("more than one item may take"));
    }

    #[test]
    fn old_items_go() {
        let day = Duration::from_secs(24 * 60 * 60);
        let made = |days_ago: u64| {
            let seconds =
                u64::try_from(credence_receipts::now().micros() / 1_000_000).unwrap() - days_ago * day.as_secs();
            let mut bytes = *Uuid::now_v7().as_bytes();
            bytes[..6].copy_from_slice(&(seconds * 1000).to_be_bytes()[2..]);
            Uuid::from_bytes(bytes)
        };
        assert!(!store::is_old(made(6), 7 * day));
        assert!(store::is_old(made(8), 7 * day));
        assert!(!store::is_old(Uuid::from_u128(7), 7 * day), "an id without a time is not old");
    }
}
