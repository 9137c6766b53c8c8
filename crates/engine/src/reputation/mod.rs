//! Reputation among agents (seed 1, the Agent Reputation Network's model v0.1; DESIGN, *Reputation*).
//!
//! ```text
//! R_new = 100 · clamp(C·T·P·V / (1 + Q), 0, 1)
//! R_t   = clamp(α·R_new + (1 − α)·R_{t−1}, 0, 100), and at most Δmax from R_{t−1};   the first: min(R_new, Δmax)
//! ```
//!
//! | factor | of | module |
//! |---|---|---|
//! | C, 0..=1 | how steady its outcomes are | [`consistency`] |
//! | T, 0..=1 | how well its claims can be followed up | [`transparency`] |
//! | P, 0..=1 | how good its outcomes are for the risk it declared | [`performance`] |
//! | V, 0..=1 | what other agents make of it | [`validation`] |
//! | Q, 0..=2 | what is erratic or abusive | [`penalty`] |
//!
//! [`Evidence`] is what is known of an agent in the window; [`assess`] makes the factors of it, and [`Parameters::update`] the
//! score; [`time`] says how fast it moves, [`readable`] what is published beside it. Everything tunable is a named [parameter](Parameters); a change of formula changes [`PROTOCOL_VERSION`].

pub mod consistency;
mod evidence;
pub mod penalty;
pub mod performance;
pub mod readable;
pub mod time;
pub mod transparency;
pub mod validation;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use evidence::{Assessed, ContractFacts, Declared, Evidence, assess};

/// The formulas and required fields that this crate implements.
pub const PROTOCOL_VERSION: &str = "arn/0.1+credence.2";

/// Everything tunable, with the seed's defaults where it gives one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parameters {
    /// How far a new computation counts against the former score.
    pub alpha: f64,
    /// The most one event moves the score.
    pub delta_max: f64,
    /// Days that are looked at.
    pub window_days: i64,
    /// The newest contracts that are looked at.
    pub window_samples: usize,
    /// Of volatility, in C.
    pub lambda: f64,
    /// Of drawdown, in C.
    pub mu: f64,
    /// Steepness of P.
    pub k: f64,
    /// Midpoint of P.
    pub m: f64,
    /// Keeps the Sharpe-like ratio finite where outcomes do not vary.
    pub epsilon: f64,
    /// The most that RAP can be, either way: a few outcomes that happen to agree are no proof of endless skill.
    pub max_rap: f64,
    /// Outcomes that weigh as much as none: few of them say little.
    pub prior_outcomes: f64,
    /// Failures that each risk band announces.
    pub band_failures: BandFailures,
    /// The parts of V.
    pub validation: ValidationWeights,
    /// S without challenges.
    pub neutral_survival: f64,
    /// Challenges that count as if their end were neutral: one that was survived is not yet a habit.
    pub prior_challenges: f64,
    /// The reputation below which an agent's word on others weighs nothing. Above 11.25, the most that an agent reaches
    /// without a single certified outcome or peer.
    pub peer_floor: f64,
    /// How steeply a word weighs more with reputation: squared, a handful of agents that barely have one cannot lift each
    /// other.
    pub peer_exponent: f64,
    /// Weight that reviews, or those who took claims up, must reach together to count half.
    pub prior_reviews: f64,
    /// Hours after which a claim that nobody settled counts as having come to nothing.
    pub unsettled_hours: i64,
    /// What an unversioned change of method adds to q2.
    pub unversioned_change: f64,
    /// What an offence adds to q3.
    pub spam_offence: f64,
    /// Failed challenges in the window that are no spam yet.
    pub failed_challenges_allowed: u32,
    /// The most that Q can be.
    pub max_penalty: f64,
    /// Events made by others from which on a reputation is no longer "new", and is emitted as a signal.
    pub established_events: u64,
}

/// Failures that each risk band announces.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BandFailures {
    /// In the low band.
    pub low: f64,
    /// In the moderate band.
    pub moderate: f64,
    /// In the high band.
    pub high: f64,
}

/// The parts of V.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ValidationWeights {
    /// Adoption.
    pub adoption: f64,
    /// Survived challenges.
    pub survival: f64,
    /// Helpfulness.
    pub helpfulness: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            alpha: 0.15,
            delta_max: 8.0,
            window_days: 30,
            window_samples: 30,
            lambda: 1.0,
            mu: 1.5,
            k: 1.2,
            m: 0.0,
            epsilon: 0.01,
            max_rap: 3.0,
            prior_outcomes: 5.0,
            band_failures: BandFailures { low: 0.1, moderate: 0.3, high: 0.6 },
            validation: ValidationWeights { adoption: 0.35, survival: 0.45, helpfulness: 0.20 },
            neutral_survival: 0.5,
            prior_challenges: 1.0,
            peer_floor: 15.0,
            peer_exponent: 2.0,
            prior_reviews: 1.0,
            unsettled_hours: 72,
            unversioned_change: 0.25,
            spam_offence: 0.25,
            failed_challenges_allowed: 3,
            max_penalty: 2.0,
            established_events: 10,
        }
    }
}

/// The bounds of α.
pub const ALPHA_BOUNDS: (f64, f64) = (0.05, 0.30);

/// The five factors.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Factors {
    /// Consistency, 0..=1.
    pub c: f64,
    /// Transparency, 0..=1.
    pub t: f64,
    /// Risk-adjusted performance, 0..=1.
    pub p: f64,
    /// Peer validation, 0..=1.
    pub v: f64,
    /// Volatility penalty, from 0.
    pub q: f64,
}

impl Factors {
    /// Refuses factors out of range.
    pub fn check(&self) -> Result<(), Error> {
        let Self { c, t, p, v, q } = *self;
        for (name, value) in [("c", c), ("t", t), ("p", p), ("v", v)] {
            if !(0.0..=1.0).contains(&value) {
                return Err(Error::Factor { name, value, bounds: "0..=1" });
            }
        }
        if !(q >= 0.0 && q.is_finite()) {
            return Err(Error::Factor { name: "q", value: q, bounds: "0 and above" });
        }
        Ok(())
    }

    /// R_new.
    pub fn raw(&self) -> f64 {
        let Self { c, t, p, v, q } = *self;
        100.0 * (c * t * p * v / (1.0 + q)).clamp(0.0, 1.0)
    }
}

/// What factors or parameters can get wrong.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A factor out of range.
    #[error("{name} {value} is outside {bounds}")]
    Factor {
        /// Which.
        name: &'static str,
        /// What was given.
        value: f64,
        /// What it should be.
        bounds: &'static str,
    },
}

impl Parameters {
    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<(), Error> {
        let (low, high) = ALPHA_BOUNDS;
        if !(low..=high).contains(&self.alpha) {
            return Err(Error::Factor { name: "alpha", value: self.alpha, bounds: "0.05..=0.30" });
        }
        if !(self.delta_max > 0.0 && self.delta_max <= 100.0) {
            return Err(Error::Factor { name: "delta_max", value: self.delta_max, bounds: "0 (exclusive) to 100" });
        }
        Ok(())
    }

    /// R_t after an event: `raw` is R_new, `previous` R_{t−1}.
    pub fn update(&self, raw: f64, previous: Option<f64>) -> f64 {
        let Some(previous) = previous else { return raw.min(self.delta_max) };
        let blended = (self.alpha * raw + (1.0 - self.alpha) * previous).clamp(0.0, 100.0);
        blended.clamp(previous - self.delta_max, previous + self.delta_max)
    }

    /// How much the word of an agent of reputation `score` weighs, 0..=1.
    pub fn peer_weight(&self, score: f64) -> f64 {
        libm::pow(((score - self.peer_floor) / (100.0 - self.peer_floor)).clamp(0.0, 1.0), self.peer_exponent)
    }
}

/// Adds up, in order; of nothing it is 0 (`Iterator::sum` says −0).
pub(crate) fn sum(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |sum, value| sum + value)
}

/// The uncertainty of a reputation that rests on so many events: that of a mean of values on 0..=100, at its widest.
pub fn stddev(events: u64) -> f64 {
    50.0 / libm::sqrt(events as f64 + 1.0)
}

/// A band of the score, by its lower bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Tier {
    /// From 85: sovereign.
    S,
    /// From 70: stable.
    A,
    /// From 55: competitive.
    B,
    /// From 40: emerging.
    C,
    /// Below: untrusted, or under review.
    D,
}

impl Tier {
    /// The tier of a score.
    pub fn of(score: f64) -> Self {
        match score {
            s if s >= 85.0 => Tier::S,
            s if s >= 70.0 => Tier::A,
            s if s >= 55.0 => Tier::B,
            s if s >= 40.0 => Tier::C,
            _ => Tier::D,
        }
    }

    /// In a word.
    pub fn meaning(self) -> &'static str {
        match self {
            Tier::S => "sovereign",
            Tier::A => "stable",
            Tier::B => "competitive",
            Tier::C => "emerging",
            Tier::D => "untrusted or under review",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tiers_go_by_their_lower_bound() {
        assert_eq!(
            [84.5, 85.0, 69.999, 55.0, 40.0, 39.9].map(Tier::of),
            [Tier::A, Tier::S, Tier::B, Tier::B, Tier::C, Tier::D]
        );
    }

    /// `reference/arn.md` §6: from 0 to 85 at best takes fourteen updates.
    #[test]
    fn trust_is_slow_to_come() {
        let parameters = Parameters::default();
        let mut score = None;
        let updates = (1..).find(|_| {
            score = Some(parameters.update(100.0, score));
            score.is_some_and(|score| score >= 85.0)
        });
        assert_eq!(updates, Some(14));
    }

    #[test]
    fn out_of_range_is_refused() {
        let good = Factors { c: 1.0, t: 1.0, p: 0.5, v: 0.5, q: 0.0 };
        assert!(good.check().is_ok());
        for bad in [Factors { c: 1.1, ..good }, Factors { q: -0.1, ..good }, Factors { v: f64::NAN, ..good }] {
            assert!(bad.check().is_err());
        }
        assert!(Parameters { alpha: 0.5, ..Parameters::default() }.check().is_err());
        assert!(Parameters { delta_max: 0.0, ..Parameters::default() }.check().is_err());
    }

    proptest! {
        #[test]
        fn one_event_never_moves_it_further_than_the_limit(raw in 0.0..=100.0_f64, previous in 0.0..=100.0_f64,
            alpha in 0.05..=0.30_f64, delta_max in 0.1..=20.0_f64) {
            let parameters = Parameters { alpha, delta_max, ..Parameters::default() };
            let score = parameters.update(raw, Some(previous));
            prop_assert!((0.0..=100.0).contains(&score) && (score - previous).abs() <= delta_max + 1e-9);
            prop_assert!(parameters.update(raw, None) <= delta_max);
        }

        #[test]
        fn better_factors_never_lower_it(f in proptest::array::uniform4(0.0..=1.0_f64), q in 0.0..=2.0_f64, better in 0.0..=1.0_f64, which in 0..5_usize) {
            let [c, t, p, v] = f;
            let factors = Factors { c, t, p, v, q };
            let mut raised = factors;
            match which {
                0 => raised.c = c.max(better),
                1 => raised.t = t.max(better),
                2 => raised.p = p.max(better),
                3 => raised.v = v.max(better),
                _ => raised.q = q * better,
            }
            prop_assert!(raised.raw() >= factors.raw());
            prop_assert!((0.0..=100.0).contains(&raised.raw()));
        }
    }
}
