//! The suite that every implementation of the contract passes ([`crate::store`], [`crate::jobs`]).
//!
//! An implementation describes itself as an [`Implementation`]; [`ledger_suite!`](crate::ledger_suite) makes a test of each
//! check. [`Counted`] counts the calls that reach a database.

mod counted;
mod jobs;
mod ledger;
mod wrappers;

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use credence_protocol::{Canonical, EntityId, SecretKey, Timestamp};
use serde_json::json;

pub use counted::Counted;
pub use jobs::*;
pub use ledger::*;
pub use wrappers::{Overlaid, RunTwice};

use crate::{Clock, Entry, Kind, Ledger, LogKey, NewEntry, Table, View};

/// The tables that the suite writes to.
pub const TABLES: &[Table] = &[ROWS, OTHER_ROWS];
const ROWS: Table = Table("rows");
const OTHER_ROWS: Table = Table("other_rows");

/// A way to keep a ledger, put to the test.
pub trait Implementation {
    /// A new, empty ledger with [`TABLES`], signed by [`log_key`].
    fn create(&self, clock: Clock) -> Arc<dyn Ledger>;
    /// The ledger as another process finds it after the one that held `ledger` was killed.
    fn after_crash(&self, ledger: Arc<dyn Ledger>, clock: Clock) -> Arc<dyn Ledger>;
    /// Tries to change an entry and to remove one, past the ledger, with the database's own means. What the database answered,
    /// once for each try; empty where there are no such means.
    fn tamper(&self, ledger: &dyn Ledger) -> Vec<std::result::Result<(), String>>;
}

/// The key of every ledger in the suite.
pub fn log_key() -> LogKey {
    #[allow(clippy::expect_used, reason = "a fixed name and seed")]
    LogKey::new("example.org/log", &SecretKey::from_seed(&[3; 32])).expect("a valid name")
}

/// A clock that is set by hand.
#[derive(Clone)]
pub struct SetClock(Arc<AtomicI64>);

impl Default for SetClock {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(1_700_000_000_000_000)))
    }
}

impl SetClock {
    /// The clock as a ledger takes it.
    pub fn clock(&self) -> Clock {
        let clock = self.clone();
        Arc::new(move || clock.now())
    }

    /// Now.
    #[allow(clippy::expect_used, reason = "the suite sets times of this century")]
    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst)).expect("a time that can be written")
    }

    /// Moves the clock by so many seconds, back when negative.
    pub fn advance(&self, seconds: i64) {
        self.0.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
    }
}

#[allow(clippy::unwrap_used, reason = "a suite of tests: a failing unwrap is how it says no")]
fn entry(n: u64) -> NewEntry {
    let body = Canonical::of(&json!({"n": n})).unwrap();
    NewEntry { kind: Kind::Agent, subject: EntityId::new("a").unwrap(), body, weight: None }
}

/// The numbers in the entries, in order.
#[allow(clippy::unwrap_used, reason = "a suite of tests: a failing unwrap is how it says no")]
fn numbers(view: &dyn View) -> Vec<u64> {
    let mut numbers = Vec::new();
    view.entries(0, &mut |seq, bytes| {
        let body: serde_json::Value = Entry::parse(seq, bytes).unwrap().record(seq).unwrap();
        assert_eq!(seq, numbers.len() as u64, "entries come in order, without gaps");
        numbers.push(body["n"].as_u64().unwrap());
        std::ops::ControlFlow::Continue(())
    })
    .unwrap();
    numbers
}

/// Makes one test of each check of both suites, for an [`Implementation`] that `$implementation` makes.
#[macro_export]
macro_rules! ledger_suite {
    ($implementation:expr) => {
        $crate::ledger_suite!(@each $implementation;
            appends_are_dense_and_ordered, appends_of_concurrent_writers_are_dense, a_failed_work_leaves_nothing,
            lost_races_run_again_on_what_others_wrote, a_view_does_not_move, a_work_sees_its_own_writes,
            keys_are_ordered_by_their_bytes, scans_are_bounded_paged_and_reversed, scans_can_be_nested,
            many_rows_are_read_and_written_in_one_call, times_never_go_back_and_are_one_for_a_unit,
            times_go_back_to_the_clock_where_a_unit_says_so,
            tiles_and_checkpoint_follow_every_append, entries_are_protected, a_crash_loses_nothing_acknowledged,
            jobs_are_kept_with_the_work_that_put_them, due_jobs_are_claimed_once, a_lost_lease_is_taken_over,
            a_job_put_while_claimed_is_due_again, failed_jobs_come_back_when_told, jobs_outlive_a_crash,
            concurrent_claims_never_overlap, later_jobs_wait_for_their_time
        );
    };
    (@each $implementation:expr; $($check:ident),+) => {
        $(#[test] fn $check() { $crate::conformance::$check(&$implementation); })+
    };
}
