//! The Universal Trust Score, formula [`FORMULA`] (seed 4, "Six steps from signal to score"; DESIGN, *Universal score*).
//!
//! ```text
//! mean  = μ · coverage(n)      stddev = σ · coverage(n)      score = round half up(mean)
//! ```
//!
//! over current, applicable signals, where μ, σ are those of their [`mixture`](crate::mixture) and n counts
//! independent sources ([`voices`](crate::voices)). No constant scale factor: a good agent with thin coverage gets a thin score.
//! n = 0 is [`Outcome::Unrated`]; coverage below the floor is computed but [`ScoreStatus::Partial`], and not published.

use std::fmt;

use credence_protocol::ScoreStatus;
use serde::{Serialize, Serializer};

pub use crate::mixture::Weighted;
use crate::{
    Error,
    coverage::coverage,
    mixture::{distinct_sources, mix},
    tiers::{Tier, TierDistribution},
    voices::MIN_COUNTED_WEIGHT,
};

/// The formula's id, recorded with every score.
pub const FORMULA: &str = "uts/1";
/// Coverage below which a score is not published.
pub const DEFAULT_COVERAGE_FLOOR: f64 = 0.10;

/// What scoring gives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// No signal counts.
    Unrated,
    /// A score.
    Rated(Score),
}

/// A score with its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Score {
    /// 0..=100.
    pub score: u8,
    /// μ, before coverage.
    pub weighted_mean: f64,
    /// μ · coverage, before rounding.
    pub mean: f64,
    /// σ · coverage.
    pub stddev: f64,
    /// 0..=1.
    pub coverage: f64,
    /// Independent sources.
    pub sources: usize,
    /// The band of the score.
    pub tier: Tier,
    /// The integral over that band; no probability of anything was checked.
    pub tier_confidence: f64,
    /// The integral over every band.
    pub tier_distribution: TierDistribution,
    /// Whether it may be shown.
    pub status: ScoreStatus,
}

/// Scores `signals` of sources of which none is related to another, summing in the order given. Callers that must agree to the
/// last bit sort by (source, tag) first.
pub fn score<S: Ord + Copy>(signals: &[Weighted<S>], floor: f64) -> Result<Outcome, Error> {
    score_with(signals, distinct_sources(signals, MIN_COUNTED_WEIGHT), floor)
}

/// The same, where `independent` voices speak: [`Voices::independent`](crate::voices::Voices::independent).
pub fn score_with<S: Ord + Copy>(signals: &[Weighted<S>], independent: usize, floor: f64) -> Result<Outcome, Error> {
    if !(0.0..=1.0).contains(&floor) {
        return Err(Error::Floor(floor));
    }
    let mixture = mix(signals)?;
    let Some(mixture) = mixture.filter(|_| independent > 0) else {
        return Ok(Outcome::Unrated);
    };
    let coverage = coverage(independent);
    let mean = mixture.mean * coverage;
    let stddev = mixture.stddev * coverage;
    // 0 ≤ mean ≤ 100, so the cast is exact.
    let score = libm::floor(mean + 0.5) as u8;
    let tier = Tier::of(score);
    let tier_distribution = TierDistribution::of(mean, stddev);
    Ok(Outcome::Rated(Score {
        score,
        weighted_mean: mixture.mean,
        mean,
        stddev,
        coverage,
        sources: independent,
        tier,
        tier_confidence: tier_distribution.of_tier(tier),
        tier_distribution,
        status: if coverage < floor { ScoreStatus::Partial } else { ScoreStatus::Published },
    }))
}

impl Outcome {
    /// The score, when there is one.
    pub fn rated(&self) -> Option<&Score> {
        match self {
            Outcome::Unrated => None,
            Outcome::Rated(score) => Some(score),
        }
    }

    /// Whether it may be shown.
    pub fn status(&self) -> ScoreStatus {
        self.rated().map_or(ScoreStatus::Unrated, |score| score.status)
    }
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        /// What is defined without a signal; means and spreads are not.
        #[derive(Serialize)]
        struct Unrated {
            score: u8,
            coverage: f64,
            sources: usize,
            tier: Tier,
            status: ScoreStatus,
        }
        match self {
            Outcome::Rated(score) => score.serialize(s),
            Outcome::Unrated => {
                Unrated { score: 0, coverage: 0.0, sources: 0, tier: Tier::Unrated, status: ScoreStatus::Unrated }
                    .serialize(s)
            }
        }
    }
}

/// `66 ± 5.6 (Gold, 74% confidence)`
impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Score { score, stddev, tier, tier_confidence, .. } = self;
        write!(f, "{score} ± {stddev:.1} ({tier}, {:.0}% confidence)", tier_confidence * 100.0)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Unrated => f.write_str("unrated (no signal counts yet)"),
            Outcome::Rated(score) => score.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rounds_half_up() {
        let eight: Vec<_> = (0..8).map(|s| Weighted { source: s, value: 83.5, stddev: 0.0, weight: 1.0 }).collect();
        assert_eq!(score(&eight, 0.1).unwrap().rated().unwrap().score, 84);
    }

    #[test]
    fn below_the_floor_is_partial() {
        let one = [Weighted { source: "a", value: 90.0, stddev: 1.0, weight: 1.0 }];
        assert_eq!(score(&one, 0.32).unwrap().status(), ScoreStatus::Partial);
        assert_eq!(score(&one, 0.31).unwrap().status(), ScoreStatus::Published);
        assert_eq!(score::<&str>(&[], 0.0).unwrap().status(), ScoreStatus::Unrated);
        assert_eq!(score(&one, 1.5), Err(Error::Floor(1.5)));
    }

    #[test]
    fn a_source_that_hardly_weighs_anything_adds_no_breadth() {
        let signal = |source, weight| Weighted { source, value: 90.0, stddev: 1.0, weight };
        let one = [signal("a", 1.0)];
        let many = [signal("a", 1.0), signal("b", 0.049), signal("c", 0.000001), signal("d", 0.0)];
        let score = |signals: &[Weighted<&str>]| score(signals, 0.1).unwrap();
        assert_eq!(
            score(&many).rated().map(|s| (s.score, s.sources)),
            score(&one).rated().map(|s| (s.score, s.sources))
        );
        assert_eq!(score(&many[1..]), Outcome::Unrated, "no independent source, even with signals");
    }

    proptest! {
        #[test]
        fn stays_within_bounds(signals in prop::collection::vec((0u32..12, 0.0..=100.0, 0.0..=50.0, 0.0..2.0), 0..60)) {
            let signals: Vec<_> = signals.into_iter()
                .map(|(source, value, stddev, weight)| Weighted { source, value, stddev, weight }).collect();
            if let Outcome::Rated(s) = score(&signals, 0.1).unwrap() {
                prop_assert!(s.score <= 100 && s.stddev >= 0.0 && s.mean <= s.weighted_mean);
                prop_assert!((0.0..=1.0).contains(&s.tier_confidence));
                prop_assert_eq!(s.tier, Tier::of(s.score));
            }
        }

        #[test]
        fn another_source_never_lowers_coverage(n in 1usize..12) {
            let all: Vec<_> = (0..n).map(|source| Weighted { source, value: 50.0, stddev: 1.0, weight: 1.0 }).collect();
            let of = |signals: &[Weighted<usize>]| score(signals, 0.1).unwrap().rated().map_or(0.0, |s| s.coverage);
            prop_assert!(of(&all) >= of(&all[1..]));
        }
    }
}
