//! How a reputation moves in time (seed 1: α within 0.05..=0.30 "depending on event frequency", computed "daily").
//!
//! ```text
//! α = clamp(0.30 / √max(1, events in seven days), 0.05, 0.30)
//! ```
//!
//! Many events a week each move the score less: a hundred claims in a minute do not carry it all the way. Between events the score
//! takes one step at every UTC midnight, so that it does not stand still in silence.

use credence_protocol::Timestamp;

use super::{ALPHA_BOUNDS, Parameters};

/// Days over which events are counted for α.
pub const FREQUENCY_DAYS: i64 = 7;
const DAY_MICROS: i64 = 86_400_000_000;

/// How far a computation counts against the former score, when so many events came within [`FREQUENCY_DAYS`].
pub fn alpha(events: u64) -> f64 {
    let (least, most) = ALPHA_BOUNDS;
    (most / libm::sqrt(events.max(1) as f64)).clamp(least, most)
}

/// Every UTC midnight after `from`, up to and with `to`.
pub fn midnights(from: Timestamp, to: Timestamp) -> impl Iterator<Item = Timestamp> {
    let first = from.micros().div_euclid(DAY_MICROS) + 1;
    let last = to.micros().div_euclid(DAY_MICROS);
    (first..=last).filter_map(|day| Timestamp::from_micros(day * DAY_MICROS).ok())
}

impl Parameters {
    /// R_t after an event or a midnight, with α by how many events came within seven days: `raw` is R_new at that time.
    pub fn step(&self, raw: f64, previous: Option<f64>, events: u64) -> f64 {
        let Some(previous) = previous else { return raw.min(self.delta_max) };
        let alpha = alpha(events);
        let blended = (alpha * raw + (1.0 - alpha) * previous).clamp(0.0, 100.0);
        blended.clamp(previous - self.delta_max, previous + self.delta_max)
    }

    /// R at the end of some midnights, from R before the first of them: one [`step`](Self::step) each, with the R_new and the events
    /// within seven days as they were then.
    pub fn daily(&self, previous: f64, midnights: impl IntoIterator<Item = (f64, u64)>) -> f64 {
        midnights.into_iter().fold(previous, |previous, (raw, events)| self.step(raw, Some(previous), events))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn frequent_events_move_less() {
        assert_eq!([0, 1].map(alpha), [0.30, 0.30]);
        assert!((alpha(4) - 0.15).abs() < 1e-15 && (alpha(36) - 0.05).abs() < 1e-15);
        assert_eq!(alpha(1_000_000), 0.05);
    }

    #[test]
    fn midnights_are_those_between() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let between = |from, to| midnights(at(from), at(to)).map(|day| day.to_string()).collect::<Vec<_>>();
        assert_eq!(
            between("2026-11-16T23:59:59Z", "2026-11-17T00:00:00Z").len(),
            1,
            "midnight itself belongs to the new day"
        );
        assert!(between("2026-11-17T00:00:00Z", "2026-11-17T23:59:59Z").is_empty());
        assert_eq!(between("2026-11-01T12:00:00Z", "2026-11-04T12:00:00Z").len(), 3);
        assert!(between("2026-11-04T12:00:00Z", "2026-11-01T12:00:00Z").is_empty(), "never backwards");
    }

    #[test]
    fn silence_moves_a_reputation_towards_what_is_left_of_its_evidence() {
        let parameters = Parameters::default();
        let after = |days: usize| parameters.daily(60.0, (0..days).map(|_| (10.0, 0)));
        assert_eq!(after(0), 60.0);
        assert_eq!(after(1), 52.0, "by 8 at most");
        assert!(after(30) < 10.1 && after(30) > 10.0);
        // Two stretches of midnights are one.
        let halves = parameters.daily(after(3), (0..4).map(|_| (10.0, 0)));
        assert_eq!(halves, after(7));
    }

    proptest! {
        #[test]
        fn steps_stay_between_where_it_is_and_where_it_goes(raw in 0.0..=100.0_f64, previous in 0.0..=100.0_f64, events in 0_u64..500) {
            let next = Parameters::default().step(raw, Some(previous), events);
            prop_assert!(next >= previous.min(raw) - 1e-12 && next <= previous.max(raw) + 1e-12);
            prop_assert!((next - previous).abs() <= 8.0 + 1e-12);
        }
    }
}
