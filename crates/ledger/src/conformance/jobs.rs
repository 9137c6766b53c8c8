//! Checks of the jobs.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a suite of tests: a failing unwrap is how it says no"
)]

use std::{collections::BTreeSet, sync::Mutex, time::Duration};

use super::{Implementation, SetClock, entry};
use crate::{Claim, Error, NewJob, Queue, write};

const QUEUE: Queue = Queue("queue");
const OTHER: Queue = Queue("other");
const LEASE: Duration = Duration::from_secs(60);

fn names(claims: &[Claim]) -> Vec<&str> {
    claims.iter().map(|claim| claim.job.key.as_str()).collect()
}

/// Jobs put or taken in a unit of work are there, or gone, exactly if it commits.
pub fn jobs_are_kept_with_the_work_that_put_them(implementation: &impl Implementation) {
    let ledger = implementation.create(SetClock::default().clock());
    let undone: Result<(), Error> = write(&*ledger, |tx| {
        tx.put_jobs(&[NewJob::now(QUEUE, "undone", "")])?;
        assert!(tx.job(QUEUE, "undone")?.is_some(), "a work sees its own jobs");
        Err(Error::Log("on purpose".into()))
    });
    assert!(undone.is_err());
    write(&*ledger, |tx| {
        tx.append(&entry(0))?;
        tx.put_jobs(&[NewJob::now(QUEUE, "b", "1"), NewJob::now(QUEUE, "a", "2"), NewJob::now(OTHER, "a", "3")])
    })
    .unwrap();
    let view = ledger.view().unwrap();
    assert!(view.job(QUEUE, "undone").unwrap().is_none());
    assert_eq!(view.job(QUEUE, "b").unwrap().unwrap().payload, "1");
    drop(view);
    let kept: Result<(), Error> = write(&*ledger, |tx| {
        assert_eq!(tx.take_jobs(QUEUE, 10)?.len(), 2);
        assert!(tx.job(QUEUE, "a")?.is_none());
        Err(Error::Log("on purpose".into()))
    });
    assert!(kept.is_err());
    let taken = write(&*ledger, |tx| tx.take_jobs(QUEUE, 1)).unwrap();
    assert_eq!(taken[0].key, "a", "equally due: in the order of their names");
    write(&*ledger, |tx| tx.delete_jobs(QUEUE, &["b", "never"])).unwrap();
    assert_eq!(write(&*ledger, |tx| tx.take_jobs(QUEUE, 10)).unwrap(), []);
    assert_eq!(names(&ledger.jobs().claim(OTHER, 10, LEASE).unwrap()), ["a"]);
}

/// A claimed job is nobody else's; a completed one is gone.
pub fn due_jobs_are_claimed_once(implementation: &impl Implementation) {
    let ledger = implementation.create(SetClock::default().clock());
    let jobs = ledger.jobs();
    jobs.put(&[NewJob::now(QUEUE, "a", ""), NewJob::now(QUEUE, "b", ""), NewJob::now(QUEUE, "c", "")]).unwrap();
    let first = jobs.claim(QUEUE, 2, LEASE).unwrap();
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first[0].job.attempts, 1);
    assert_eq!(names(&jobs.claim(QUEUE, 2, LEASE).unwrap()), ["c"]);
    assert_eq!(jobs.claim(QUEUE, 2, LEASE).unwrap(), []);
    assert_eq!(write(&*ledger, |tx| tx.take_jobs(QUEUE, 10)).unwrap(), [], "what is claimed is not taken");
    assert!(jobs.complete(&first[0]).unwrap());
    assert!(!jobs.complete(&first[0]).unwrap(), "it is gone");
    let view = ledger.view().unwrap();
    assert!(view.job(QUEUE, "a").unwrap().is_none());
    assert!(view.job(QUEUE, "b").unwrap().unwrap().leased_until.is_some());
}

/// A worker that dies loses its lease to another, and cannot end the other's work.
pub fn a_lost_lease_is_taken_over(implementation: &impl Implementation) {
    let clock = SetClock::default();
    let ledger = implementation.create(clock.clock());
    let jobs = ledger.jobs();
    jobs.put(&[NewJob::now(QUEUE, "a", "")]).unwrap();
    let dead = jobs.claim(QUEUE, 1, LEASE).unwrap().remove(0);
    assert_eq!(jobs.next_due(QUEUE).unwrap(), Some(clock.now().plus(LEASE)));
    clock.advance(61);
    let heir = jobs.claim(QUEUE, 1, LEASE).unwrap().remove(0);
    assert_eq!(heir.job.attempts, 2);
    assert!(!jobs.complete(&dead).unwrap());
    assert!(!jobs.fail(&dead, clock.now(), "late").unwrap());
    assert!(jobs.complete(&heir).unwrap());
    // The same name anew is another job: an old claim does not end it.
    jobs.put(&[NewJob::now(QUEUE, "a", "")]).unwrap();
    let anew = jobs.claim(QUEUE, 1, LEASE).unwrap().remove(0);
    assert!(!jobs.complete(&dead).unwrap() && !jobs.complete(&heir).unwrap());
    assert!(jobs.complete(&anew).unwrap());
}

/// A job put again while somebody works on it is due again afterwards.
pub fn a_job_put_while_claimed_is_due_again(implementation: &impl Implementation) {
    let clock = SetClock::default();
    let ledger = implementation.create(clock.clock());
    let jobs = ledger.jobs();
    jobs.put(&[NewJob::now(QUEUE, "a", "old")]).unwrap();
    let claim = jobs.claim(QUEUE, 1, LEASE).unwrap().remove(0);
    jobs.put(&[NewJob::now(QUEUE, "a", "new")]).unwrap();
    assert_eq!(jobs.claim(QUEUE, 1, LEASE).unwrap(), [], "not beside the one who works on it");
    assert!(jobs.complete(&claim).unwrap());
    let again = jobs.claim(QUEUE, 1, LEASE).unwrap().remove(0);
    assert_eq!(again.job.payload, "new");
    jobs.put(&[NewJob::at(QUEUE, "a", clock.now().plus_seconds(100), "newer")]).unwrap();
    assert!(jobs.fail(&again, clock.now(), "no").unwrap());
    assert_eq!(jobs.claim(QUEUE, 1, LEASE).unwrap(), [], "what was put says when it is due");
    clock.advance(100);
    assert_eq!(jobs.claim(QUEUE, 1, LEASE).unwrap()[0].job.payload, "newer");
}

/// A failed job is due when its worker said, with the reason.
pub fn failed_jobs_come_back_when_told(implementation: &impl Implementation) {
    let clock = SetClock::default();
    let ledger = implementation.create(clock.clock());
    let jobs = ledger.jobs();
    jobs.put(&[NewJob::now(QUEUE, "a", "")]).unwrap();
    let claim = jobs.claim(QUEUE, 1, LEASE).unwrap().remove(0);
    assert!(jobs.fail(&claim, clock.now().plus_seconds(30), "it rained").unwrap());
    assert_eq!(jobs.claim(QUEUE, 1, LEASE).unwrap(), []);
    assert_eq!(jobs.next_due(QUEUE).unwrap(), Some(clock.now().plus_seconds(30)));
    clock.advance(30);
    let again = jobs.claim(QUEUE, 1, LEASE).unwrap().remove(0);
    assert_eq!((again.job.attempts, again.job.last_error.as_deref()), (2, Some("it rained")));
}

/// A crash loses neither jobs nor leases.
pub fn jobs_outlive_a_crash(implementation: &impl Implementation) {
    let clock = SetClock::default();
    let ledger = implementation.create(clock.clock());
    let later = clock.now().plus_seconds(1_000);
    write(&*ledger, move |tx| {
        tx.append(&entry(0))?;
        tx.put_jobs(&[NewJob::now(QUEUE, "a", "1"), NewJob::now(QUEUE, "b", ""), NewJob::at(QUEUE, "c", later, "")])
    })
    .unwrap();
    let held = ledger.jobs().claim(QUEUE, 1, LEASE).unwrap().remove(0);
    let ledger = implementation.after_crash(ledger, clock.clock());
    let jobs = ledger.jobs();
    assert_eq!(names(&jobs.claim(QUEUE, 10, LEASE).unwrap()), ["b"]);
    assert!(jobs.complete(&held).unwrap());
    clock.advance(1_000);
    assert_eq!(names(&jobs.claim(QUEUE, 10, LEASE).unwrap()), ["b", "c"]);
}

/// Many workers: every job is claimed by exactly one of them.
pub fn concurrent_claims_never_overlap(implementation: &impl Implementation) {
    let ledger = implementation.create(SetClock::default().clock());
    let all: Vec<NewJob> = (0..120).map(|n| NewJob::now(QUEUE, format!("{n:03}"), "")).collect();
    ledger.jobs().put(&all).unwrap();
    let claimed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                loop {
                    let claims = ledger.jobs().claim(QUEUE, 5, LEASE).unwrap();
                    if claims.is_empty() {
                        return;
                    }
                    claims.iter().for_each(|claim| assert!(ledger.jobs().complete(claim).unwrap()));
                    claimed.lock().unwrap().extend(claims.into_iter().map(|claim| claim.job.key));
                }
            });
        }
    });
    let claimed = claimed.into_inner().unwrap();
    assert_eq!((claimed.len(), claimed.iter().collect::<BTreeSet<_>>().len()), (120, 120));
    assert_eq!(ledger.jobs().next_due(QUEUE).unwrap(), None);
}

/// A job is not given before its time; putting it again moves its time.
pub fn later_jobs_wait_for_their_time(implementation: &impl Implementation) {
    let clock = SetClock::default();
    let ledger = implementation.create(clock.clock());
    let jobs = ledger.jobs();
    let at = |seconds| clock.now().plus_seconds(seconds);
    let (soon, late) = (at(10), at(20));
    jobs.put(&[NewJob::at(QUEUE, "late", late, ""), NewJob::at(QUEUE, "soon", soon, "")]).unwrap();
    assert_eq!(jobs.claim(QUEUE, 10, LEASE).unwrap(), []);
    assert_eq!((jobs.next_due(QUEUE).unwrap(), jobs.next_due(OTHER).unwrap()), (Some(soon), None));
    clock.advance(20);
    assert_eq!(names(&jobs.claim(QUEUE, 10, LEASE).unwrap()), ["soon", "late"], "those due longest first");
    jobs.put(&[NewJob::at(OTHER, "a", at(10), "")]).unwrap();
    jobs.put(&[NewJob::at(OTHER, "a", at(30), "")]).unwrap();
    clock.advance(10);
    assert_eq!(jobs.claim(OTHER, 10, LEASE).unwrap(), []);
}
