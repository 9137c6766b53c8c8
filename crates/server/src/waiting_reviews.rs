//! Results that wait for a person's answer, as guards report them. A guard sends everything that waits, again and again, so they are held in
//! memory: after a restart the next reports bring them back.
//!
//! Tokens of one name see what tokens of that name reported, and nothing else. A name has [`MAX_NAMESPACE_BYTES`] and
//! [`MAX_LOGS`] guards, all names together [`MAX_BYTES`]; a report that would go beyond is refused, and nobody loses anything by it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, PoisonError},
};

use axum::http::StatusCode;
use credence_protocol::{
    Timestamp,
    waiting_review::{ReviewReport, WaitingReview},
};

use crate::problem::Problem;

/// Guards that report under one name.
const MAX_LOGS: usize = 256;
/// Bytes of all reports under one name.
const MAX_NAMESPACE_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of all reports.
const MAX_BYTES: usize = 64 * 1024 * 1024;
/// A guard that has not reported for so long is forgotten: its own results are gone by then.
const KEPT_SECONDS: i64 = 7 * 24 * 60 * 60;

/// The reports of all guards.
#[derive(Default)]
pub(crate) struct WaitingReviews {
    reports: Mutex<HashMap<String, BTreeMap<String, Held>>>,
}

struct Held {
    at: Timestamp,
    bytes: usize,
    reviews: Vec<WaitingReview>,
}

impl WaitingReviews {
    /// Takes a guard's report in place of the one before.
    pub fn take(&self, namespace: &str, report: ReviewReport, now: Timestamp) -> Result<usize, Problem> {
        report.check().map_err(|why| Problem::unprocessable("invalid_reviews", why))?;
        let mut all = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        forget_old(&mut all, now);
        let bytes = report.bytes();
        let total: usize = all.values().flat_map(BTreeMap::values).map(|held| held.bytes).sum();
        let own = all.get(namespace);
        let former = own.and_then(|own| own.get(&report.log)).map_or(0, |held| held.bytes);
        let used: usize = own.map_or(0, |own| own.values().map(|held| held.bytes).sum());
        let guards = own.map_or(0, BTreeMap::len) + usize::from(former == 0);
        let full =
            |what: String| Problem::new(StatusCode::INSUFFICIENT_STORAGE, "too_many_reviews", what).retry_after(60);
        if guards > MAX_LOGS {
            return Err(full(format!("{MAX_LOGS} guards report under this token's name already, which is the limit")));
        }
        if used - former + bytes > MAX_NAMESPACE_BYTES {
            let most = format!("the reports under this token's name would take more than {MAX_NAMESPACE_BYTES} bytes");
            return Err(full(most + ": answer some, or send less content"));
        }
        if total - former + bytes > MAX_BYTES {
            return Err(full(format!("all reports would take more than {MAX_BYTES} bytes: try again later")));
        }
        let count = report.reviews.len();
        let own = all.entry(namespace.to_owned()).or_default();
        if report.reviews.is_empty() {
            own.remove(&report.log);
        } else {
            own.insert(report.log, Held { at: now, bytes, reviews: report.reviews });
        }
        Ok(count)
    }

    /// Everything that waits under a name, guard by guard.
    pub fn list(&self, namespace: &str, now: Timestamp) -> Vec<(ReviewReport, Timestamp)> {
        let mut all = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        forget_old(&mut all, now);
        let own = all.get(namespace).into_iter().flatten();
        own.map(|(log, held)| (ReviewReport { log: log.clone(), reviews: held.reviews.clone() }, held.at)).collect()
    }
}

fn forget_old(all: &mut HashMap<String, BTreeMap<String, Held>>, now: Timestamp) {
    for own in all.values_mut() {
        own.retain(|_, held| held.at.plus_seconds(KEPT_SECONDS) > now);
    }
    all.retain(|_, own| !own.is_empty());
}

#[cfg(test)]
mod tests {
    use super::*;
    use credence_protocol::Uuid;

    fn at() -> Timestamp {
        "2026-11-18T12:00:00Z".parse().unwrap()
    }

    fn report(log: &str, reviews: usize, sealed: usize) -> ReviewReport {
        let review = WaitingReview {
            call: Uuid::from_u128(1),
            tool: "t".into(),
            at: at(),
            verdict: None,
            withheld: true,
            checks: Vec::new(),
            members: Vec::new(),
            sealed: Some("x".repeat(sealed)),
        };
        ReviewReport { log: log.into(), reviews: vec![review; reviews] }
    }

    #[test]
    fn names_see_their_own_and_a_report_replaces_the_one_before() {
        let held = WaitingReviews::default();
        held.take("ann", report("a/guard/fs/1", 3, 10), at()).unwrap();
        held.take("ann", report("a/guard/fs/1", 2, 10), at()).unwrap();
        held.take("bob", report("a/guard/fs/1", 1, 10), at()).unwrap();
        assert_eq!(held.list("ann", at())[0].0.reviews.len(), 2);
        assert_eq!(held.list("bob", at())[0].0.reviews.len(), 1);
        assert!(held.list("eve", at()).is_empty());
        held.take("ann", report("a/guard/fs/1", 0, 0), at()).unwrap();
        assert!(held.list("ann", at()).is_empty(), "nothing waits any more");
        assert!(held.list("bob", at().plus_seconds(KEPT_SECONDS + 1)).is_empty(), "a guard that is gone is forgotten");
    }

    #[test]
    fn limits_hold_for_each_name_and_for_all_and_are_named() {
        let held = WaitingReviews::default();
        let large = |log: &str| report(log, 30, 256 * 1024);
        held.take("ann", large("a/guard/1/1"), at()).unwrap();
        let refused = held.take("ann", large("a/guard/2/1"), at()).unwrap_err();
        assert!(refused.detail().contains("8388608"), "{}", refused.detail());
        held.take("ann", large("a/guard/1/1"), at()).unwrap();
        for n in 0..7 {
            held.take(&format!("n{n}"), large("a/guard/1/1"), at()).unwrap();
        }
        let refused = held.take("late", large("a/guard/1/1"), at()).unwrap_err();
        assert!(refused.detail().contains("67108864"), "{}", refused.detail());
        assert_eq!(held.list("ann", at()).len(), 1, "nobody loses anything by it");
        let many = WaitingReviews::default();
        for n in 0..MAX_LOGS {
            many.take("ann", report(&format!("a/guard/{n}/1"), 1, 0), at()).unwrap();
        }
        assert!(many.take("ann", report("a/guard/x/1", 1, 0), at()).unwrap_err().detail().contains("256 guards"));
        many.take("ann", report("a/guard/0/1", 2, 0), at()).unwrap();
    }
}
