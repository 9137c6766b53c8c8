//! The wait before enforcing: `enforce_after = "7d"` or `enforce_after = 500`.
//!
//! Until it is over, mode `enforce` acts as `flag`. How much of it has passed is kept in `enforcement.json` beside the server's schemas, for
//! all guards of that server, so a restart does not begin it anew. What counts as time:
//!
//! ```text
//! same start of the system:  what its uptime clock says, which nobody sets; the time that no guard ran counts too
//! another start:             what the wall clock says, at least 0 and at most MAX_GAP
//! ```
//!
//! so a clock that jumps ahead by years makes it a day shorter at most. When it begins and when it is over are operation entries in the
//! guard's ledger: where the file is gone although the ledger knows of it, a wait that was over stays over, and one that was under way
//! begins anew, which is said.

use std::{
    fs::{self, File, OpenOptions},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use credence_protocol::Timestamp;
use credence_receipts::{OperationAction, OperationRecord, ReceiptBook, book::Position, folder, now};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::{Error, config::EnforceAfter, warn};

const FILE: &str = "enforcement.json";
const LOCK: &str = "enforcement.lock";
/// Time that is believed to have passed between two starts of the system, at most.
pub const MAX_GAP: Duration = Duration::from_secs(24 * 3600);

/// A moment by the clocks that count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// Tells one start of the system from another.
    pub boot: String,
    /// Milliseconds since then, those asleep included.
    pub uptime_ms: u64,
    /// The wall clock.
    pub wall: Timestamp,
}

impl Moment {
    /// Now.
    pub fn now() -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_else(|_| "unknown".to_owned());
        let uptime = clock_gettime(ClockId::Boottime);
        let uptime_ms = uptime.tv_sec.unsigned_abs() * 1000 + uptime.tv_nsec.unsigned_abs() / 1_000_000;
        Self { boot: boot.trim().to_owned(), uptime_ms, wall: now() }
    }
}

/// How much of the wait has passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// When it began.
    pub began: Timestamp,
    /// Milliseconds that count.
    pub passed_ms: u64,
    /// Calls since it began.
    pub calls: u64,
    boot: String,
    uptime_ms: u64,
    wall: Timestamp,
    /// It began anew because its file was gone.
    #[serde(default)]
    pub restarted: bool,
}

impl Progress {
    fn begin(at: Moment, restarted: bool) -> Self {
        let Moment { boot, uptime_ms, wall } = at;
        Self { began: wall, passed_ms: 0, calls: 0, boot, uptime_ms, wall, restarted }
    }

    /// That of the server whose model is in `folder`; `None` where nothing waits.
    pub fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(folder.join(FILE)).ok()?).ok()
    }

    /// Milliseconds that have passed at `at`.
    fn passed_at(&self, at: &Moment) -> u64 {
        let gap = match self.boot == at.boot && at.uptime_ms >= self.uptime_ms {
            true => at.uptime_ms - self.uptime_ms,
            false => {
                let wall = (at.wall.micros() - self.wall.micros()).max(0).unsigned_abs() / 1000;
                wall.min(u64::try_from(MAX_GAP.as_millis()).unwrap_or(u64::MAX))
            }
        };
        self.passed_ms.saturating_add(gap)
    }

    fn advance(&mut self, at: &Moment, calls: u64) {
        self.passed_ms = self.passed_at(at);
        self.calls = self.calls.saturating_add(calls);
        (self.boot, self.uptime_ms, self.wall) = (at.boot.clone(), at.uptime_ms, at.wall);
    }

    /// What is left of a wait, now; `None` where it is over.
    pub fn left(&self, after: EnforceAfter) -> Option<EnforceAfter> {
        left(after, Duration::from_millis(self.passed_at(&Moment::now())), self.calls)
    }
}

fn left(after: EnforceAfter, passed: Duration, calls: u64) -> Option<EnforceAfter> {
    match after {
        EnforceAfter::Time(time) => time.checked_sub(passed).filter(|left| !left.is_zero()).map(EnforceAfter::Time),
        EnforceAfter::Calls(all) => all.checked_sub(calls).filter(|left| *left > 0).map(EnforceAfter::Calls),
    }
}

/// The wait of one guard's server.
pub struct Wait {
    folder: PathBuf,
    passed_ms: AtomicU64,
    calls: AtomicU64,
    /// Calls that are not in the file yet.
    unkept: AtomicU64,
    progress: Mutex<Progress>,
    /// That it is over is recorded.
    over: AtomicBool,
    waits: Vec<EnforceAfter>,
}

/// A wait that was opened, and what has to be said of it.
pub struct OpenedWait {
    /// The wait.
    pub wait: Wait,
    /// Its file was gone: what was done about it.
    pub trouble: Option<String>,
}

impl Wait {
    /// Goes on with the wait of the model in `folder`, or begins it. `waits` are all that any tool of the server has.
    pub fn open(folder: &Path, waits: Vec<EnforceAfter>, book: Option<&ReceiptBook>) -> Result<OpenedWait, Error> {
        let at = Moment::now();
        let _lock = lock(folder)?;
        let path = folder.join(FILE);
        let (mut progress, mut trouble) = (Progress::read(folder), None);
        if progress.is_none() {
            let known = book.map(|book| book.operations(Position::default())).transpose()?.unwrap_or_default();
            let here = |operation: &&OperationRecord| {
                let of_wait = matches!(operation.action, OperationAction::Waiting | OperationAction::Enforcing);
                of_wait
                    && operation
                        .detail
                        .as_deref()
                        .is_some_and(|detail| detail.starts_with(&format!("{} ", model_of(folder))))
            };
            let last = known.iter().rev().find(here);
            let was_over = last.is_some_and(|last| last.action == OperationAction::Enforcing);
            let mut new = Progress::begin(at.clone(), last.is_some() && !was_over);
            if was_over {
                (new.passed_ms, new.calls) = (u64::MAX / 2, u64::MAX / 2);
            }
            trouble = last.map(|_| match was_over {
                true => format!(
                    "{} was gone: the ledger says that the wait before enforcing is over, so it is",
                    path.display()
                ),
                false => format!("{} was gone: the wait before enforcing begins anew", path.display()),
            });
            if !was_over && let Some(book) = book {
                let words: Vec<String> = waits.iter().map(ToString::to_string).collect();
                let why = if new.restarted { "; its file was gone" } else { "" };
                let detail = format!("{} {}{why}", model_of(folder), words.join(", "));
                book.record_operation(&OperationRecord::by_guard(OperationAction::Waiting, Some(detail)))?;
            }
            progress = Some(new);
        }
        let mut progress = progress.unwrap_or_else(|| Progress::begin(at.clone(), false));
        progress.advance(&at, 0);
        write(folder, &progress)?;
        let (passed, calls) = (progress.passed_ms, progress.calls);
        let over = waits.iter().all(|after| left(*after, Duration::from_millis(passed), calls).is_none());
        let wait = Self {
            folder: folder.to_owned(),
            passed_ms: AtomicU64::new(passed),
            calls: AtomicU64::new(calls),
            unkept: AtomicU64::new(0),
            progress: Mutex::new(progress),
            over: AtomicBool::new(over),
            waits,
        };
        Ok(OpenedWait { wait, trouble })
    }

    /// Counts calls.
    pub fn count(&self, calls: u64) {
        self.calls.fetch_add(calls, Relaxed);
        self.unkept.fetch_add(calls, Relaxed);
    }

    /// Whether this wait is over.
    pub fn is_over(&self, after: EnforceAfter) -> bool {
        self.left(after).is_none()
    }

    /// What is left of it.
    pub fn left(&self, after: EnforceAfter) -> Option<EnforceAfter> {
        left(after, Duration::from_millis(self.passed_ms.load(Relaxed)), self.calls.load(Relaxed))
    }

    /// Looks at the clock.
    pub fn tick(&self) {
        let passed = self.progress.lock().unwrap_or_else(PoisonError::into_inner).passed_at(&Moment::now());
        self.passed_ms.fetch_max(passed, Relaxed);
    }

    /// Keeps how much has passed, with what other guards of the server have counted. Records when all of it is over.
    pub fn keep(&self, book: Option<&ReceiptBook>) -> Result<(), Error> {
        {
            let _lock = lock(&self.folder)?;
            let mut own = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
            let mut progress = Progress::read(&self.folder).unwrap_or_else(|| own.clone());
            progress.advance(&Moment::now(), self.unkept.swap(0, Relaxed));
            write(&self.folder, &progress)?;
            self.passed_ms.fetch_max(progress.passed_ms, Relaxed);
            self.calls.fetch_max(progress.calls, Relaxed);
            *own = progress;
        }
        if self.over.load(Relaxed) || !self.waits.iter().all(|after| self.is_over(*after)) {
            return Ok(());
        }
        let words: Vec<String> = self.waits.iter().map(ToString::to_string).collect();
        let detail = format!("{} after {}", model_of(&self.folder), words.join(", "));
        if let Some(book) = book {
            book.record_operation(&OperationRecord::by_guard(OperationAction::Enforcing, Some(detail)))?;
        }
        warn(&format!("the wait before enforcing is over ({})", words.join(", ")));
        self.over.store(true, Relaxed);
        Ok(())
    }
}

/// Names the model in operation entries: its folder, without what is above.
fn model_of(folder: &Path) -> String {
    folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn lock(folder: &Path) -> Result<File, Error> {
    folder::create_private(folder)?;
    let path = folder.join(LOCK);
    let io = |e| Error::Io(path.clone(), e);
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(io)?;
    file.lock().map_err(io)?;
    Ok(file)
}

fn write(folder: &Path, progress: &Progress) -> Result<(), Error> {
    let text = serde_json::to_vec_pretty(progress).map_err(|e| Error::Content(e.to_string()))?;
    Ok(folder::replace_file(&folder.join(FILE), &text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400_000;

    fn at(boot: &str, uptime_ms: u64, wall: &str) -> Moment {
        Moment { boot: boot.to_owned(), uptime_ms, wall: wall.parse().unwrap() }
    }

    #[test]
    fn time_passes_by_a_clock_that_nobody_sets() {
        let mut progress = Progress::begin(at("a", 1000, "2026-01-01T00:00:00Z"), false);
        progress.advance(&at("a", 1000 + 2 * DAY, "2026-01-03T00:00:00Z"), 3);
        assert_eq!((progress.passed_ms, progress.calls), (2 * DAY, 3));
        // The wall clock jumps ten years ahead, and back.
        progress.advance(&at("a", 2000 + 2 * DAY, "2036-01-03T00:00:00Z"), 0);
        assert_eq!(progress.passed_ms, 2 * DAY + 1000);
        progress.advance(&at("a", 3000 + 2 * DAY, "2016-01-03T00:00:00Z"), 0);
        assert_eq!(progress.passed_ms, 2 * DAY + 2000);
    }

    #[test]
    fn over_a_restart_of_the_system_a_jump_counts_a_day_at_most() {
        let mut progress = Progress::begin(at("a", 1000, "2026-01-01T00:00:00Z"), false);
        progress.advance(&at("b", 10, "2026-01-01T06:00:00Z"), 0);
        assert_eq!(progress.passed_ms, DAY / 4, "an honest night counts as it was");
        progress.advance(&at("c", 10, "2099-01-01T00:00:00Z"), 0);
        assert_eq!(progress.passed_ms, DAY / 4 + DAY);
        progress.advance(&at("d", 10, "2000-01-01T00:00:00Z"), 0);
        assert_eq!(progress.passed_ms, DAY / 4 + DAY, "backwards counts nothing");
    }

    #[test]
    fn what_is_left_is_told_until_nothing_is() {
        let week = EnforceAfter::Time(Duration::from_secs(7 * 86_400));
        let day = |n: u64| Duration::from_secs(n * 86_400);
        assert_eq!(left(week, day(5), 0), Some(EnforceAfter::Time(day(2))));
        assert_eq!((left(week, day(7), 0), left(week, day(8), 0)), (None, None));
        assert_eq!(left(EnforceAfter::Calls(5), day(9), 4), Some(EnforceAfter::Calls(1)));
        assert_eq!(left(EnforceAfter::Calls(5), day(0), 5), None);
    }

    #[test]
    fn several_guards_count_together_and_a_restart_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Wait::open(folder.path(), vec![EnforceAfter::Calls(10)], None).unwrap().wait;
        let (one, two) = (open(), open());
        one.count(6);
        two.count(3);
        one.keep(None).unwrap();
        two.keep(None).unwrap();
        assert_eq!(two.left(EnforceAfter::Calls(10)), Some(EnforceAfter::Calls(1)));
        two.count(1);
        assert!(two.is_over(EnforceAfter::Calls(10)));
        two.keep(None).unwrap();
        assert!(open().is_over(EnforceAfter::Calls(10)));
    }
}
