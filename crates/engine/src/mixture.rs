//! The weighted mixture of signals: its mean and its standard deviation.
//!
//! `μ = Σ wᵢvᵢ / Σ wᵢ`  and  `σ² = Σ wᵢ(σᵢ² + vᵢ²) / Σ wᵢ − μ²`
//!
//! The variance is computed in the equal form `Σ wᵢ(σᵢ² + (vᵢ − μ)²) / Σ wᵢ`, which does not lose its digits when the
//! values are close together and cannot become negative.

use crate::Error;

/// One signal as the models see it. `S` tells sources apart; any ordered key will do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weighted<S> {
    /// Who measured.
    pub source: S,
    /// 0..=100.
    pub value: f64,
    /// 0..=50.
    pub stddev: f64,
    /// The source's weight; a signal of weight 0 is left out.
    pub weight: f64,
}

/// Mean, spread and breadth of a set of signals.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mixture {
    /// μ
    pub mean: f64,
    /// σ
    pub stddev: f64,
    /// Σ w
    pub weight: f64,
    /// Distinct sources of weight above 0.
    pub sources: usize,
}

/// Mixes `signals` in the order given. `None` when none has a weight above 0.
pub fn mix<S: Ord + Copy>(signals: &[Weighted<S>]) -> Result<Option<Mixture>, Error> {
    let mut weight = 0.0;
    let mut sum = 0.0;
    for (index, signal) in signals.iter().enumerate() {
        check(index, signal)?;
        weight += signal.weight;
        sum += signal.weight * signal.value;
    }
    if weight == 0.0 {
        return Ok(None);
    }
    let mean = sum / weight;
    let mut squares = 0.0;
    for signal in signals {
        let off = signal.value - mean;
        squares += signal.weight * (signal.stddev * signal.stddev + off * off);
    }
    let stddev = libm::sqrt(squares / weight);
    Ok(Some(Mixture { mean, stddev, weight, sources: distinct_sources(signals, MIN_WEIGHT) }))
}

/// The largest weight. Far beyond any use, and far from where sums overflow.
pub const MAX_WEIGHT: f64 = 1e6;
/// The smallest weight above 0. Far from where products lose their digits.
pub const MIN_WEIGHT: f64 = 1e-6;

/// Whether a source can have this weight: 0, or within [`MIN_WEIGHT`]..=[`MAX_WEIGHT`].
pub fn is_weight(weight: f64) -> bool {
    weight == 0.0 || (MIN_WEIGHT..=MAX_WEIGHT).contains(&weight)
}

fn check<S>(index: usize, signal: &Weighted<S>) -> Result<(), Error> {
    let Weighted { value, stddev, weight, .. } = *signal;
    if !(0.0..=100.0).contains(&value) {
        return Err(Error::Value { index, value });
    }
    if !(0.0..=50.0).contains(&stddev) {
        return Err(Error::Stddev { index, stddev });
    }
    if !is_weight(weight) {
        return Err(Error::Weight { index, weight });
    }
    Ok(())
}

/// How many distinct sources have at least this weight.
pub(crate) fn distinct_sources<S: Ord + Copy>(signals: &[Weighted<S>], least_weight: f64) -> usize {
    let counted = signals.iter().filter(|s| s.weight >= least_weight).map(|s| s.source);
    // Grouped by source, as the ledger delivers them: count the changes.
    if signals.is_sorted_by(|a, b| a.source <= b.source) {
        let mut last = None;
        return counted.filter(|source| last.replace(*source) != Some(*source)).count();
    }
    let mut sources: Vec<S> = counted.collect();
    sources.sort_unstable();
    sources.dedup();
    sources.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn weighted(source: u32, value: f64, stddev: f64, weight: f64) -> Weighted<u32> {
        Weighted { source, value, stddev, weight }
    }

    #[test]
    fn signals_of_weight_0_do_not_exist() {
        let all = [weighted(1, 90.0, 1.0, 1.0), weighted(2, 10.0, 1.0, 0.0)];
        assert_eq!(mix(&all).unwrap(), mix(&all[..1]).unwrap());
        assert_eq!(mix(&all[1..]).unwrap(), None);
    }

    #[test]
    fn impossible_numbers_are_named() {
        assert_eq!(mix(&[weighted(1, 100.1, 0.0, 1.0)]), Err(Error::Value { index: 0, value: 100.1 }));
        assert!(matches!(mix(&[weighted(1, f64::NAN, 0.0, 1.0)]), Err(Error::Value { .. })));
        assert!(matches!(mix(&[weighted(1, 1.0, 51.0, 1.0)]), Err(Error::Stddev { .. })));
        assert!(matches!(mix(&[weighted(1, 1.0, 0.0, -1.0)]), Err(Error::Weight { .. })));
        for weight in [f64::INFINITY, f64::NAN, 1.7e308, 5e-324] {
            assert!(matches!(mix(&[weighted(1, 1.0, 0.0, weight)]), Err(Error::Weight { .. })), "{weight}");
        }
    }

    proptest! {
        #[test]
        fn equals_the_textbook_formula(
            signals in prop::collection::vec((0u32..6, 0.0..=100.0, 0.0..=50.0, 0.01..2.0), 1..40)
        ) {
            let signals: Vec<_> = signals.into_iter().map(|(s, v, d, w)| weighted(s, v, d, w)).collect();
            let total: f64 = signals.iter().map(|s| s.weight).sum();
            let mean = signals.iter().map(|s| s.weight * s.value).sum::<f64>() / total;
            let variance = signals.iter().map(|s| s.weight * (s.stddev.powi(2) + s.value.powi(2))).sum::<f64>() / total - mean * mean;
            let mixed = mix(&signals).unwrap().unwrap();
            prop_assert!((mixed.mean - mean).abs() < 1e-9);
            prop_assert!((mixed.stddev.powi(2) - variance).abs() < 1e-8);
            let distinct: std::collections::BTreeSet<_> = signals.iter().map(|s| s.source).collect();
            prop_assert_eq!(mixed.sources, distinct.len());
        }
    }
}
