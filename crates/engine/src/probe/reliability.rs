//! Reliability: how long an agent takes to answer.
//!
//! The 95th percentile of few samples is uncertain: its one-sided 95 % upper bound is the smallest sample of rank r with
//! `P(Binomial(n, 0.95) ≥ r) ≤ 0.05`, and with fewer than 59 samples only the largest one is left to name.

use serde::{Deserialize, Serialize};

use super::{Estimate, NoSignal};
use crate::beta;

/// Calls that the reliability benchmark needs.
pub const MIN_CALLS: u64 = 20;
const PERCENTILE: f64 = 0.95;
const CONFIDENCE: f64 = 0.95;
/// The standard normal's 95 % quantile.
const Z95: f64 = 1.644_853_626_951_472_6;
/// At this and below the value is 100.
const FAST_MS: f64 = 200.0;
/// At [`FAST_MS`] times this and above, half a minute, the value is 0.
const SLOW_FACTOR: f64 = 150.0;

/// The 95th percentile of response times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Answers that were timed.
    pub samples: u64,
    /// The 95th percentile, in milliseconds.
    pub p95_ms: u64,
    /// Its upper bound: with 95 % confidence it is not above this. The largest sample where there are fewer than 59.
    pub bound_ms: u64,
}

impl Latency {
    /// From response times in milliseconds; none without any.
    pub fn of(samples: &[u64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable();
        let rank = libm::ceil(PERCENTILE * sorted.len() as f64) as usize;
        let p95_ms = *sorted.get(rank.checked_sub(1)?)?;
        let bound_ms = *sorted.get(latency_bound_rank(sorted.len() as u64) as usize - 1)?;
        Some(Self { samples: sorted.len() as u64, p95_ms, bound_ms })
    }

    /// The signal `rel_latency_p95`, or why there is none.
    pub fn estimate(self) -> Result<Estimate, NoSignal> {
        if self.samples < MIN_CALLS {
            return Err(NoSignal::TooFewSamples { samples: self.samples, needed: MIN_CALLS });
        }
        let value = latency_value(self.p95_ms);
        let stddev = (value - latency_value(self.bound_ms.max(self.p95_ms))) / Z95;
        Ok(Estimate { value, stddev: stddev.clamp(0.0, super::MAX_STDDEV) })
    }
}

/// 100 for an answer within 200 ms, 0 for one after 30 s, by the logarithm in between.
pub fn latency_value(ms: u64) -> f64 {
    let slower = libm::log((ms as f64 / FAST_MS).max(1.0)) / libm::log(SLOW_FACTOR);
    100.0 * (1.0 - slower).clamp(0.0, 1.0)
}

/// The rank, from 1, of the sample that bounds the 95th percentile from above with 95 % confidence; the last where none does.
pub fn latency_bound_rank(samples: u64) -> u64 {
    // P(Binomial(n, p) ≥ r) = I_p(r, n−r+1): the percentile is above the sample of rank r only if at least r samples lie below it.
    let exceeded = |rank: u64| beta::cdf(PERCENTILE, rank as f64, (samples - rank + 1) as f64);
    let first = libm::ceil(PERCENTILE * samples as f64) as u64;
    (first.max(1)..=samples).find(|rank| exceeded(*rank) <= 1.0 - CONFIDENCE).unwrap_or(samples)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_needs_59_samples() {
        // 0.95^58 = 0.0510 and 0.95^59 = 0.0485: only from 59 on is the largest sample a bound at 95 %.
        assert!(0.95_f64.powi(58) > 0.05 && 0.95_f64.powi(59) <= 0.05);
        for (samples, rank) in [(1, 1), (10, 10), (20, 20), (58, 58), (59, 59), (93, 92)] {
            assert_eq!(latency_bound_rank(samples), rank, "{samples}");
        }
    }

    #[test]
    fn a_percentile_is_a_sample_and_its_bound_is_not_below_it() {
        let samples: Vec<u64> = (1..=100).collect();
        let latency = Latency::of(&samples).unwrap();
        assert_eq!((latency.p95_ms, latency.bound_ms), (95, 99));
        let few = Latency::of(&[100; 10]).unwrap();
        assert_eq!((few.p95_ms, few.bound_ms), (100, 100));
        assert_eq!(few.estimate(), Err(NoSignal::TooFewSamples { samples: 10, needed: MIN_CALLS }));
        assert!(Latency::of(&[]).is_none());
    }

    #[test]
    fn slow_answers_are_worth_less_and_one_slow_one_makes_it_uncertain() {
        assert_eq!((latency_value(0), latency_value(200), latency_value(30_000)), (100.0, 100.0, 0.0));
        let fast = Latency::of(&[300; 40]).unwrap().estimate().unwrap();
        let mut one_slow = vec![300; 39];
        one_slow.push(20_000);
        let slow = Latency::of(&one_slow).unwrap().estimate().unwrap();
        assert_eq!(fast.value, slow.value);
        assert!(fast.stddev == 0.0 && slow.stddev > 40.0, "{slow:?}");
    }
}
