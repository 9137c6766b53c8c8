//! What Credence makes of a summary: the signals `output_quality` and `output_coverage` (DESIGN, *HCS-25*; ADRs 0007, 0013).
//!
//! ```text
//! power   = caught / canaries                  with at least 50 canaries
//!         = clamp(blockRate / 0.05, 0, 1)      without
//! quality = 100 · allowRate · avgConfidence · power · min(1, stake)
//! ```
//!
//! Three differences from the standard's quality. Power is what canaries show, where there are
//! enough: an agent is not rated by how often it gave occasion to be blocked. A report without [shown power](unshown_power) does not count at all, instead of as 0: a verifier
//! that lets everything pass says nothing, and must not pull anyone up or down. And stakes can lower quality but not raise
//! it: they are the caller's word.
//!
//! The uncertainty is that of the counts behind it: each rate as a Beta posterior under Jeffreys' prior, put together by the
//! delta method.

use super::{FULL_POWER_BLOCK_RATE, Parameters, Summary};

/// Canaries below which a recall shows nothing.
pub const MIN_CANARIES: u64 = 50;
/// Signals' standard deviation is at most this (the widest that a value on 0..=100 can have).
const MAX_STDDEV: f64 = 50.0;

/// A value with its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Estimate {
    /// 0..=100.
    pub value: f64,
    /// 0..=50.
    pub stddev: f64,
}

/// Why a summary's power counts for nothing yet: neither enough blocks nor enough canaries have shown any. Then the provider
/// says nothing of the agent, neither good nor bad.
pub fn unshown_power(summary: &Summary) -> Option<String> {
    let canaries = summary.canaries.map_or(0, |canaries| canaries.checks);
    let shown = summary.block_rate >= FULL_POWER_BLOCK_RATE || canaries >= MIN_CANARIES;
    (!shown).then(|| {
        format!(
            "it has not shown that it tells good from bad: {:.1} % blocked and {canaries} canaries, of which {:.0} % or {MIN_CANARIES} are needed",
            summary.block_rate * 100.0,
            FULL_POWER_BLOCK_RATE * 100.0,
        )
    })
}

/// How able to tell good from bad a provider has shown itself, 0..=1, and the variance of that.
pub fn power(summary: &Summary) -> (f64, f64) {
    if let Some(canaries) = summary.canaries.filter(|canaries| canaries.checks >= MIN_CANARIES) {
        let made = canaries.checks as f64;
        let recall = canaries.caught as f64 / made;
        return (recall, beta_variance(recall, made));
    }
    let n = summary.total_checks as f64;
    let ratio = summary.block_rate / FULL_POWER_BLOCK_RATE;
    let spread = libm::sqrt(beta_variance(summary.block_rate, n)) / FULL_POWER_BLOCK_RATE;
    (ratio.clamp(0.0, 1.0), capped_variance(ratio, spread).min(0.25))
}

/// The signal `output_quality`.
pub fn quality(summary: &Summary, parameters: &Parameters) -> Estimate {
    let n = summary.total_checks as f64;
    let (power, power_variance) = power(summary);
    let stake = parameters.stake_multiplier(summary).min(1.0);
    let (allow, confidence) = (summary.allow_rate, summary.avg_confidence);
    let scale = 100.0 * stake;
    let square = |x: f64| x * x;
    // The spread of single confidences is not reported; a value on 0..=1 with this mean has at most that of a coin.
    let variance = square(confidence * power) * beta_variance(allow, n)
        + square(allow * power) * beta_variance(confidence, n)
        + square(allow * confidence) * power_variance;
    Estimate {
        value: (scale * allow * confidence * power).clamp(0.0, 100.0),
        stddev: (scale * libm::sqrt(variance)).clamp(0.0, MAX_STDDEV),
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

/// The variance of `min(X, 1)` for a normal X: what is far above the cap is not uncertain any more.
fn capped_variance(mean: f64, spread: f64) -> f64 {
    let m = (mean - 1.0) / spread;
    let density = libm::exp(-m * m / 2.0) / libm::sqrt(2.0 * core::f64::consts::PI);
    let below = 0.5 * libm::erfc(m / core::f64::consts::SQRT_2);
    let shortfall = density - m * below;
    let second = (1.0 + m * m) * below - m * density;
    (spread * spread * (second - shortfall * shortfall)).max(0.0)
}

/// The variance of a rate of which `n` observations are known, under Jeffreys' prior.
fn beta_variance(rate: f64, n: f64) -> f64 {
    let (a, b) = (rate * n + 0.5, (1.0 - rate) * n + 0.5);
    a * b / ((a + b) * (a + b) * (a + b + 1.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Canaries, Evaluation, Summary};
    use super::*;
    use crate::hcs25::Profile;

    fn summary(allow: f64, block: f64, checks: u64, canaries: Option<Canaries>) -> Summary {
        Summary {
            allow_rate: allow,
            block_rate: block,
            uncertain_rate: None,
            avg_confidence: 0.95,
            total_checks: checks,
            stake_distribution: None,
            window_days: None,
            providers: Vec::new(),
            canaries,
            updated_at: None,
        }
    }

    #[test]
    fn canaries_show_the_power_that_an_honest_agent_gives_no_occasion_for() {
        let parameters = Parameters::default();
        let caught = |checks, caught| Some(Canaries { checks, caught });
        let honest = quality(&summary(0.99, 0.01, 1000, caught(200, 180)), &parameters);
        assert!((honest.value - 100.0 * 0.99 * 0.95 * 0.9).abs() < 1e-9, "{honest:?}");
        assert!(unshown_power(&summary(0.99, 0.01, 1000, caught(49, 49))).unwrap().contains("49 canaries"));
        assert_eq!(unshown_power(&summary(0.99, 0.01, 1000, caught(50, 0))), None);
        assert_eq!(unshown_power(&summary(0.9, 0.05, 1000, None)), None);
        let rubber_stamp = quality(&summary(1.0, 0.0, 1000, caught(500, 0)), &parameters);
        assert_eq!(rubber_stamp.value, 0.0);
    }

    #[test]
    fn fabricating_does_not_raise_quality() {
        let parameters = Parameters::default();
        let canaries = Some(Canaries { checks: 200, caught: 160 });
        let of = |block: f64| quality(&summary(1.0 - block, block, 1000, canaries), &parameters).value;
        let falling = [0.0, 0.01, 0.05, 0.12, 0.5, 1.0];
        assert!(falling.windows(2).all(|pair| of(pair[0]) > of(pair[1])), "{:?}", falling.map(of));
    }

    #[test]
    fn more_checks_are_less_uncertain() {
        let parameters = Parameters::default();
        let stddev = |checks| quality(&summary(0.9, 0.1, checks, None), &parameters).stddev;
        assert!(stddev(10) > 2.0 * stddev(100) && stddev(100) > 2.0 * stddev(1000), "{} {}", stddev(10), stddev(100));
        assert!(stddev(10) > 5.0 && stddev(100_000) < 0.2);
        // Continuous in the rate: nothing jumps where power is certain.
        let at = |block: f64| quality(&summary(0.9, block, 10_000, None), &parameters).stddev;
        assert!(
            (at(0.08) - at(0.1)).abs() < 0.2 && at(0.05) > at(0.06) && at(0.06) >= at(0.08),
            "{} {}",
            at(0.05),
            at(0.08)
        );
        assert!(coverage(10, &parameters).stddev > coverage(100, &parameters).stddev);
        assert_eq!(coverage(1000, &parameters), Estimate { value: 100.0, stddev: 0.0 });
    }

    proptest! {
        #[test]
        fn blocks_show_power_only_where_canaries_do_not(block in 0.0..=1.0_f64, more in 0.0..=1.0_f64, checks in 10..100_000_u64,
            canaries in proptest::option::of((0..500_u64, 0..500_u64))) {
            let canaries = canaries.map(|(a, b)| Canaries { checks: a.max(b), caught: a.min(b) });
            let of = |block: f64| power(&summary(1.0 - block, block, checks, canaries)).0;
            let (less, more) = (of(block.min(more)), of(block.max(more)));
            prop_assert!(less <= more && (0.0..=1.0).contains(&less) && (0.0..=1.0).contains(&more));
            if canaries.is_some_and(|canaries| canaries.checks >= MIN_CANARIES) {
                prop_assert_eq!(less, more);
            }
        }

        #[test]
        fn quality_and_its_uncertainty_stay_in_bounds(allow in 0.0..=1.0_f64, rest in 0.0..=1.0_f64, checks in 10..u64::MAX / 2048) {
            let summary = summary(allow, (1.0 - allow) * rest, checks, None);
            let parameters = Parameters::default();
            for estimate in [quality(&summary, &parameters), coverage(checks, &parameters)] {
                prop_assert!((0.0..=100.0).contains(&estimate.value) && (0.0..=50.0).contains(&estimate.stddev), "{:?}", estimate);
            }
            for profile in [Profile::Spec, Profile::Reference] {
                let Evaluation { quality, coverage, total } = parameters.evaluate(&summary, profile);
                prop_assert!([quality, coverage, total].iter().all(|value| (0.0..=100.0).contains(value)));
            }
        }
    }

    #[test]
    fn declaring_everything_critical_gains_nothing() {
        let parameters = Parameters::default();
        let plain = summary(0.6, 0.1, 100, None);
        let mut critical = plain.clone();
        let level = super::super::StakeLevel { checks: 100, allow_rate: None, avg_confidence: None };
        critical.stake_distribution =
            Some(super::super::StakeDistribution { critical: Some(level), ..Default::default() });
        assert_eq!(quality(&critical, &parameters), quality(&plain, &parameters));
        let mut trivial = plain.clone();
        trivial.stake_distribution = Some(super::super::StakeDistribution { low: Some(level), ..Default::default() });
        assert!((quality(&trivial, &parameters).value * 2.0 - quality(&plain, &parameters).value).abs() < 1e-9);
    }
}
