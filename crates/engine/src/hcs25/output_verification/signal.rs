//! What Credence makes of a summary: the signals `output_quality` and `output_coverage` (DESIGN, *HCS-25*; ADR 0034). Derivation
//! [`DERIVATION`].
//!
//! The share of bad outputs behind an imperfect test (Rogan and Gladen): a clean agent behind a poor verifier is uncertain, not bad.
//!
//! ```text
//! n checks, y not accepted; m canaries, c caught; m0 controls (known genuine results judged in shadow), c0 not accepted
//! ρ = (c+1)/(m+2)     φ = (c0+1)/(m0+50)     t = (y+½)/(n+1)     b = clamp((t−φ)/(ρ−φ), 0, 1)     value = 100(1−b)
//! var = [V(t) + (1−b)²V(φ) + b²V(ρ)]/(ρ−φ)²          V: variances of the Beta posteriors
//! sight   BF = B(c+1, m−c+1)/(r^c (1−r)^(m−c)), r = clamp(y/n, .01, .99)     q = BF/(1+BF)     S = max(0, 2q−1)
//!         S = 0 where c/m ≤ y/n: a blind verifier rejects canaries as often as anything else
//! stddev² = 100²·var + 25²(1−S)/S;   no signal where stddev > 50 or ρ−φ ≤ .05
//! ```
//!
//! Low stakes lower value and stddev alike; high ones do not raise them: they are the caller's word. So are counts, and they cost
//! nothing to invent: n counts up to [`MAX_WEIGHED_CHECKS`], m and m0 up to [`MAX_WEIGHED_SHADOW`] each. A verifier that has shown no
//! [sight](Unseeing) says nothing, neither good nor bad.

use super::{Parameters, Summary};

/// How `output_quality` is made.
pub const DERIVATION: &str = "output-verification/2";
/// Checks beyond which a provider's word weighs no more.
pub const MAX_WEIGHED_CHECKS: u64 = 10_000;
/// Canaries, and controls, beyond which they weigh no more.
pub const MAX_WEIGHED_SHADOW: u64 = 1_000;
/// Signals' standard deviation is at most this (the widest that a value on 0..=100 can have).
const MAX_STDDEV: f64 = 50.0;
/// By how much more often canaries than genuine results must be rejected.
const MIN_SEPARATION: f64 = 0.05;
/// The standard deviation of what is believed of an agent of whom nothing is known.
const PRIOR_STDDEV: f64 = 25.0;
/// Controls that stand for "a good verifier rejects about 2 % of what is genuine", before any are judged.
const PRIOR_CONTROLS: f64 = 50.0;

/// A value with its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Estimate {
    /// 0..=100.
    pub value: f64,
    /// 0..=50.
    pub stddev: f64,
}

/// Why a summary says nothing of its agent.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum Unseeing {
    /// No canaries, or they are let through as often as the agent's outputs.
    #[error(
        "it has not shown that it tells good from bad: it caught {caught} of {canaries} canaries, and rejected {rejected:.1} % of the outputs"
    )]
    NoSight {
        /// Canaries made.
        canaries: u64,
        /// And caught.
        caught: u64,
        /// The share of the outputs that it did not accept, in percent.
        rejected: f64,
    },
    /// Canaries are hardly rejected more often than genuine results.
    #[error(
        "it hardly tells good from bad: {canaries:.0} % of the canaries and {controls:.0} % of the genuine results are rejected"
    )]
    NoSeparation {
        /// ρ, in percent.
        canaries: f64,
        /// φ, in percent.
        controls: f64,
    },
    /// What it says is less certain than knowing nothing.
    #[error("too uncertain: its standard deviation is {0:.0}")]
    TooUncertain(f64),
}

/// The signal `output_quality`, or why there is none.
pub fn quality(summary: &Summary, parameters: &Parameters) -> Result<Estimate, Unseeing> {
    let rejected = 1.0 - summary.allow_rate;
    let n = summary.total_checks.min(MAX_WEIGHED_CHECKS) as f64;
    let y = rejected * n;
    let canaries = summary.canaries.unwrap_or_default();
    let controls = summary.controls.unwrap_or_default();
    let (m, c) = capped(canaries.checks, canaries.caught);
    let (m0, c0) = capped(controls.checks, controls.rejected);

    let recall = Beta::new(c + 1.0, m - c + 1.0);
    let alarms = Beta::new(c0 + 1.0, m0 - c0 + PRIOR_CONTROLS - 1.0);
    let outputs = Beta::new(y + 0.5, n - y + 0.5);
    let separation = recall.mean - alarms.mean;
    let sight = sight(rejected, m, c);
    if sight <= 0.0 {
        let (canaries, caught) = (canaries.checks, canaries.caught);
        return Err(Unseeing::NoSight { canaries, caught, rejected: rejected * 100.0 });
    }
    if separation <= MIN_SEPARATION {
        return Err(Unseeing::NoSeparation { canaries: recall.mean * 100.0, controls: alarms.mean * 100.0 });
    }
    let bad = ((outputs.mean - alarms.mean) / separation).clamp(0.0, 1.0);
    let good = 1.0 - bad;
    let variance =
        (outputs.variance + good * good * alarms.variance + bad * bad * recall.variance) / (separation * separation);
    let stddev = libm::sqrt(1e4 * variance + PRIOR_STDDEV * PRIOR_STDDEV * (1.0 - sight) / sight);
    if stddev > MAX_STDDEV {
        return Err(Unseeing::TooUncertain(stddev));
    }
    let stake = parameters.stake_multiplier(summary).min(1.0);
    Ok(Estimate { value: 100.0 * good * stake, stddev: stddev * stake })
}

/// S, 0..=1: how surely the verifier rejects canaries more often than outputs, of which it rejects the share `rejected`.
fn sight(rejected: f64, m: f64, c: f64) -> f64 {
    if m == 0.0 || c / m <= rejected {
        return 0.0;
    }
    let r = rejected.clamp(0.01, 0.99);
    let log_factor = libm::lgamma(c + 1.0) + libm::lgamma(m - c + 1.0)
        - libm::lgamma(m + 2.0)
        - c * libm::log(r)
        - (m - c) * libm::log(1.0 - r);
    let sees = 1.0 / (1.0 + libm::exp(-log_factor));
    (2.0 * sees - 1.0).max(0.0)
}

/// Counts in shadow, of which no more than [`MAX_WEIGHED_SHADOW`] weigh.
fn capped(all: u64, part: u64) -> (f64, f64) {
    let counted = all.min(MAX_WEIGHED_SHADOW) as f64;
    let share = if all == 0 { 0.0 } else { part as f64 / all as f64 };
    (counted, share * counted)
}

struct Beta {
    mean: f64,
    variance: f64,
}

impl Beta {
    fn new(a: f64, b: f64) -> Self {
        let mean = a / (a + b);
        Self { mean, variance: mean * (1.0 - mean) / (a + b + 1.0) }
    }
}

/// The signal `output_coverage`: the count taken as Poisson's.
pub fn coverage(checks: u64, parameters: &Parameters) -> Estimate {
    let value = parameters.coverage(checks);
    let n = checks as f64;
    let slope = 100.0 * parameters.volume_scale / (parameters.volume_cap * core::f64::consts::LN_10 * (n + 1.0));
    let stddev = if value >= 100.0 { 0.0 } else { slope * libm::sqrt(n) };
    Estimate { value, stddev: stddev.clamp(0.0, MAX_STDDEV) }
}

/// What several estimates of one thing come to together.
#[derive(Debug, Clone, PartialEq)]
pub struct Joined {
    /// The weighted mean.
    pub mean: f64,
    /// The weighted mean absolute deviation from it.
    pub disagreement: f64,
    /// The mean's own standard deviation.
    pub stddev: f64,
    /// Each one's share of the weight, in order.
    pub shares: Vec<f64>,
}

/// Joins estimates by random effects (DerSimonian and Laird): each weighs the inverse of its own variance plus the variance between
/// them. Where they disagree by more than their own uncertainty they weigh nearly the same, however many checks one of them claims.
/// None without estimates.
pub fn join(estimates: &[Estimate]) -> Option<Joined> {
    let sum = |of: &dyn Fn(&Estimate) -> f64| estimates.iter().fold(0.0, |sum, estimate| sum + of(estimate));
    // An estimate of stddev 0 is a value that stakes of 0 made of one; it is not infinitely sure.
    let variance = |estimate: &Estimate| (estimate.stddev * estimate.stddev).max(1e-6);
    let (weights, squares) = (sum(&|e| 1.0 / variance(e)), sum(&|e| 1.0 / (variance(e) * variance(e))));
    let fixed = sum(&|e| e.value / variance(e)) / weights;
    let spread = sum(&|e| (e.value - fixed) * (e.value - fixed) / variance(e));
    let freedom = estimates.len().checked_sub(1)? as f64;
    let scale = weights - squares / weights;
    let between = if scale > 0.0 { ((spread - freedom) / scale).max(0.0) } else { 0.0 };
    let weight = |e: &Estimate| 1.0 / (variance(e) + between);
    let total = sum(&weight);
    let mean = sum(&|e| weight(e) * e.value) / total;
    let disagreement = sum(&|e| weight(e) * (e.value - mean).abs()) / total;
    let shares = estimates.iter().map(|e| weight(e) / total).collect();
    Some(Joined { mean, disagreement, stddev: libm::sqrt(1.0 / total), shares })
}

#[cfg(test)]
#[path = "signal_tests.rs"]
mod tests;
