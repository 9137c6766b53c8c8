//! After how long the answer to equal arguments changes (docs/adr/0086).
//!
//! How old an answer is, is the time since the same arguments were answered last. Ages are told apart by fours: below a second, below
//! four, and so on up to twelve days, and beyond. An age that no answer had yet is judged by the younger ones, as if answers changed at a steady pace.

use serde::{Deserialize, Serialize};

/// Ages told apart.
const AGES: usize = 12;
/// So many comparisons are what a steady pace is worth.
const STEADY: f64 = 4.0;
/// The changes that may have been about to come where none was seen.
const AT_LEAST: f64 = 0.5;
const MICROS: u64 = 1_000_000;

/// How long ago the same arguments were answered, in microseconds.
pub(crate) type Age = u64;

/// How many answers of each age were compared with the next one, and how many of them had changed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ages([(f32, f32); AGES]);

impl Ages {
    pub(super) fn learn(&mut self, age: Age, changed: bool, weight: f32) {
        let (compared, of_them) = &mut self.0[class(age)];
        *compared += weight;
        *of_them += if changed { weight } else { 0.0 };
    }

    /// How many times likelier it is that an answer of this age changed than that one of any age did.
    pub(super) fn likelier(&self, age: Age) -> f64 {
        let (compared, changed) =
            self.0.iter().fold((0.0, 0.0), |sum, of| (sum.0 + f64::from(of.0), sum.1 + f64::from(of.1)));
        if compared == 0.0 {
            return 1.0;
        }
        self.probability(age) / ((changed + AT_LEAST) / (compared + 1.0))
    }

    /// P(an answer of this age has changed).
    fn probability(&self, age: Age) -> f64 {
        let class = class(age);
        let (seconds, changed) = self.0[..=class]
            .iter()
            .enumerate()
            .fold((0.0, 0.0), |sum, (class, of)| (sum.0 + f64::from(of.0) * typical(class), sum.1 + f64::from(of.1)));
        let (compared, changed_here) = self.0[class];
        let steady = if seconds > 0.0 {
            -libm::expm1(-(changed + AT_LEAST) / seconds * typical(class))
        } else {
            // All that is known is older answers, of which at most as many had changed.
            let (compared, changed) = self.0.iter().find(|(compared, _)| *compared > 0.0).copied().unwrap_or_default();
            (f64::from(changed) + AT_LEAST) / (f64::from(compared) + 1.0)
        };
        (f64::from(changed_here) + STEADY * steady) / (f64::from(compared) + STEADY)
    }

    pub(super) fn age(&mut self, keep: f32) {
        for (compared, changed) in &mut self.0 {
            *compared *= keep;
            *changed *= keep;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|(compared, _)| *compared == 0.0)
    }

    /// Whether what was read back can be what was written.
    pub(crate) fn is_sound(&self) -> bool {
        self.0.iter().all(|(compared, changed)| compared.is_finite() && *changed >= 0.0 && changed <= compared)
    }
}

/// P(a place changed), given what it is at any age and how many times likelier a change is at this one.
pub(super) fn at_age(any: f64, likelier: f64) -> f64 {
    if any >= 1.0 { 1.0 } else { -libm::expm1(libm::log1p(-any) * likelier) }
}

fn class(age: Age) -> usize {
    let doublings = u64::BITS - (age / MICROS).leading_zeros();
    (doublings.div_ceil(2) as usize).min(AGES - 1)
}

/// An age of the class, in seconds.
fn typical(class: usize) -> f64 {
    libm::exp2(2.0 * class as f64 - 1.0)
}

/// How long ago something was, in words.
pub(super) fn ago(age: Age) -> String {
    let seconds = age / MICROS;
    let (count, unit) = match seconds {
        0 => return "less than a second ago".to_owned(),
        1..120 => (seconds, "second"),
        120..7_200 => (seconds / 60, "minute"),
        7_200..172_800 => (seconds / 3_600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!("{count} {unit}{} ago", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600 * MICROS;

    #[test]
    fn ages_are_told_apart_by_fours() {
        let classes = [0, 1, 3, 4, 15, 16, 3_600, 4 * 86_400, 400 * 86_400].map(|seconds| class(seconds * MICROS));
        assert_eq!(classes, [0, 1, 1, 2, 2, 3, 6, 10, 11]);
        assert_eq!(class(u64::MAX), AGES - 1);
    }

    #[test]
    fn answers_that_last_an_hour_change_after_hours_and_not_within_a_minute() {
        let mut ages = Ages::default();
        for n in 0..100 {
            ages.learn(20 * MICROS, false, 1.0);
            ages.learn(3 * HOUR, n % 10 != 0, 1.0);
        }
        assert!(ages.probability(20 * MICROS) < 0.01, "{}", ages.probability(20 * MICROS));
        assert!(ages.probability(3 * HOUR) > 0.85, "{}", ages.probability(3 * HOUR));
        assert!(ages.likelier(20 * MICROS) < 0.05 && ages.likelier(3 * HOUR) > 1.8);
    }

    #[test]
    fn an_age_that_no_answer_had_yet_is_judged_by_the_pace_of_the_younger_ones() {
        let mut ages = Ages::default();
        (0..300).for_each(|_| ages.learn(10 * MICROS, false, 1.0));
        assert!(ages.probability(10 * MICROS) < 0.005);
        assert!(ages.probability(10 * HOUR) > 0.9, "half a change in 40 minutes, over ten hours");
        // A tool whose answers stay for good is known by answers that were old.
        (0..100).for_each(|_| ages.learn(10 * HOUR, false, 1.0));
        assert!(ages.probability(10 * HOUR) < 0.05, "{}", ages.probability(10 * HOUR));
    }

    #[test]
    fn younger_answers_than_any_so_far_change_no_more_than_the_older_did() {
        let mut ages = Ages::default();
        (0..100).for_each(|n| ages.learn(HOUR, n % 2 == 0, 1.0));
        assert!(ages.probability(10 * MICROS) <= 0.51);
        assert_eq!(Ages::default().likelier(HOUR), 1.0, "nothing is known");
    }

    #[test]
    fn a_place_changes_with_the_whole() {
        assert_eq!(at_age(1.0, 0.1), 1.0);
        assert!((at_age(0.2, 1.0) - 0.2).abs() < 1e-12);
        assert!(at_age(0.002, 600.0) > 0.6 && at_age(0.002, 0.1) < 0.001);
    }

    #[test]
    fn ages_are_said_in_words() {
        let said = [300_000, MICROS, 119 * MICROS, 121 * MICROS, 3 * HOUR, 72 * HOUR].map(ago);
        assert_eq!(
            said,
            ["less than a second ago", "1 second ago", "119 seconds ago", "2 minutes ago", "3 hours ago", "3 days ago"]
        );
    }
}
