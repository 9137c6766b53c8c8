//! What a run remembers: its totals, and how long it has waited for sources that ask for pauses.
//!
//! A question whose host asked for a pause (429, or 503 with `Retry-After`) is asked when the pause is over. A run waits for that while
//! the source answers now and then: once it has said nothing but "later" for [`PATIENCE`], or would, its questions are a later run's, and
//! those that were sent are recorded as failures. The same after [`MOST_REFUSALS`] of one question. Time is measured by the machine, not
//! by the authority's clock, so that a clock that stands still keeps no run from ending.

use std::{
    collections::{BTreeMap, HashSet},
    time::{Duration, Instant},
};

use credence_protocol::EntityId;

use super::Totals;

/// How long a run waits for a source that says nothing but "later".
const PATIENCE: Duration = Duration::from_secs(120);
/// How often a source can say "later" to one question of a run.
const MOST_REFUSALS: u32 = 6;

/// One run, or the rounds of a service.
#[derive(Default)]
pub(super) struct Run {
    pub totals: Totals,
    /// Until when questions were put off that the run waits for.
    until: Option<Instant>,
    /// Sources that asked for a pause and did not answer since.
    silent_since: BTreeMap<EntityId, Instant>,
    /// Questions that a later run asks, unless this one gets to them.
    left: HashSet<String>,
}

impl Run {
    /// The same with nothing counted: what sources said stays.
    pub fn next_round(self) -> Self {
        Self { silent_since: self.silent_since, ..Self::default() }
    }

    /// Whether a pause of `source` that lasts `left` longer is waited for.
    pub fn is_patient(&self, source: &EntityId, left: Duration) -> bool {
        let waited = self.silent_since.get(source).map_or(Duration::ZERO, Instant::elapsed);
        waited.saturating_add(left) <= PATIENCE
    }

    /// Whether a question to `source` is asked again when its pause is over.
    pub fn asks_again(&mut self, source: &EntityId, refused: u32, left: Duration) -> bool {
        self.silent_since.entry(source.clone()).or_insert_with(Instant::now);
        refused <= MOST_REFUSALS && self.is_patient(source, left)
    }

    /// A question was asked, to its end.
    pub fn asked(&mut self, source: &EntityId, job: &str, is_pause: bool) {
        if !is_pause {
            self.silent_since.remove(source);
        }
        self.totals.asked += 1;
        self.left.remove(job);
        self.totals.put_off = self.left.len();
    }

    /// A question is left for a later run, unless this one gets to it.
    pub fn leave(&mut self, job: String) {
        self.left.insert(job);
        self.totals.put_off = self.left.len();
    }

    /// The run goes on for `wait`: questions are due by then.
    pub fn go_on_for(&mut self, wait: Duration) {
        self.until = self.until.max(Some(Instant::now() + wait));
    }

    /// Whether questions were put off until after `moment`.
    pub fn is_open(&self, moment: Instant) -> bool {
        self.until.is_some_and(|until| moment <= until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_waits_for_who_answers_now_and_then() {
        let (mut run, source) = (Run::default(), EntityId::new("crawler-stars").unwrap());
        let minute = Duration::from_secs(60);
        assert!(run.asks_again(&source, 1, minute));
        assert!(!run.asks_again(&source, 1, 3 * minute), "too long at once");
        assert!(!run.asks_again(&source, MOST_REFUSALS + 1, minute), "one question too often");
        run.silent_since.insert(source.clone(), Instant::now().checked_sub(minute + minute / 2).unwrap());
        assert!(!run.asks_again(&source, 1, minute), "too long together");
        run.asked(&source, "job", true);
        assert!(!run.is_patient(&source, minute), "a failure is no answer");
        run = run.next_round();
        assert!(!run.is_patient(&source, minute), "a service remembers it");
        run.asked(&source, "job", false);
        assert!(run.is_patient(&source, minute));
    }

    #[test]
    fn what_is_asked_in_the_end_was_not_put_off() {
        let (mut run, source) = (Run::default(), EntityId::new("crawler-stars").unwrap());
        ["a", "b", "a"].into_iter().for_each(|job| run.leave(job.to_owned()));
        assert_eq!(run.totals.put_off, 2);
        run.asked(&source, "a", false);
        assert_eq!((run.totals.asked, run.totals.put_off), (1, 1));
    }
}
