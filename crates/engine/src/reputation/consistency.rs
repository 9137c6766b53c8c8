//! C: how steady an agent is (seed 1, §3.1).
//!
//! `C = e^(−λσ) · e^(−μ·DD)`, with the volatility σ and the drawdown DD on 0..=1.
//!
//! Where there are outcomes, both are of their series; an agent may declare that its errors against its own confidence be
//! taken for σ. Where there are none, σ is the spread of probabilities it gave for one context, or else how its risk bands
//! jump. Outcomes are on −1..=1: their standard deviation is at most 1 as it is.

use credence_protocol::RiskBand;
use serde::Serialize;

use super::{Parameters, sum};

/// What σ was taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The series of outcomes.
    Outcomes,
    /// Outcomes against the confidence announced.
    ConfidenceBands,
    /// Probabilities given for one context.
    Probabilities,
    /// Jumps between risk bands.
    RiskBands,
    /// Nothing: there is no series yet.
    Nothing,
}

/// C and what it rests on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Consistency {
    /// C.
    pub value: f64,
    /// What σ was taken from.
    pub basis: Basis,
    /// σ.
    pub volatility: f64,
    /// DD.
    pub drawdown: f64,
    /// How many values.
    pub samples: usize,
}

impl Consistency {
    /// Of a volatility and a drawdown, each brought into 0..=1.
    pub fn new(basis: Basis, volatility: f64, drawdown: f64, samples: usize, parameters: &Parameters) -> Self {
        let (volatility, drawdown) = (volatility.clamp(0.0, 1.0), drawdown.clamp(0.0, 1.0));
        let value = libm::exp(-parameters.lambda * volatility) * libm::exp(-parameters.mu * drawdown);
        Self { value, basis, volatility, drawdown, samples }
    }
}

/// The standard deviation of `values`; 0 of fewer than two.
pub fn deviation(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let n = values.len() as f64;
    let mean = sum(values.iter().copied()) / n;
    libm::sqrt(sum(values.iter().map(|value| (value - mean) * (value - mean))) / n)
}

/// The deepest fall of the running sum below its peak, as a share of the deepest possible.
pub fn drawdown(outcomes: &[f64]) -> f64 {
    let (mut sum, mut peak, mut deepest) = (0.0_f64, 0.0_f64, 0.0_f64);
    for outcome in outcomes {
        sum += outcome;
        peak = peak.max(sum);
        deepest = deepest.max(peak - sum);
    }
    deepest / outcomes.len().max(1) as f64
}

/// The spread of probabilities within one context, over all contexts with more than one: 1 when they swing from 0 to 1.
pub fn instability<'a>(probabilities: impl Iterator<Item = (&'a str, f64)>) -> Option<(f64, usize)> {
    let mut contexts: std::collections::BTreeMap<&str, Vec<f64>> = std::collections::BTreeMap::new();
    for (context, probability) in probabilities {
        contexts.entry(context).or_default().push(probability);
    }
    let repeated: Vec<&Vec<f64>> = contexts.values().filter(|values| values.len() > 1).collect();
    let samples: usize = repeated.iter().map(|values| values.len()).sum();
    let weighted = sum(repeated.iter().map(|values| 2.0 * deviation(values) * values.len() as f64));
    (samples > 0).then(|| (weighted / samples as f64, samples))
}

/// How far the risk band jumps from one contract to the next, on average: 1 when always from one end to the other.
pub fn band_shifts(bands: &[RiskBand]) -> Option<(f64, usize)> {
    let steps = bands.windows(2).map(|pair| (pair[0] as i32 - pair[1] as i32).unsigned_abs());
    (bands.len() > 1).then(|| (f64::from(steps.sum::<u32>()) / (2.0 * (bands.len() - 1) as f64), bands.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_is_one_and_a_fall_costs() {
        let parameters = Parameters::default();
        let of = |outcomes: &[f64]| {
            Consistency::new(Basis::Outcomes, deviation(outcomes), drawdown(outcomes), outcomes.len(), &parameters)
                .value
        };
        assert_eq!(of(&[0.5; 10]), 1.0);
        assert!((of(&[-1.0; 10]) - libm::exp(-1.5)).abs() < 1e-12, "steadily wrong is a full drawdown");
        let turned: Vec<f64> = [1.0; 20].into_iter().chain([-1.0; 10]).collect();
        let mixed: Vec<f64> = (0..30).map(|n| if n % 3 == 2 { -1.0 } else { 1.0 }).collect();
        assert!(of(&turned) < of(&mixed), "the same outcomes in a row are worse than spread out");
    }

    #[test]
    fn alternatives_where_there_are_no_outcomes() {
        assert_eq!(instability([("a", 0.0), ("a", 1.0), ("b", 0.4)].into_iter()), Some((1.0, 2)));
        assert_eq!(instability([("a", 0.5), ("b", 0.4)].into_iter()), None);
        assert_eq!(band_shifts(&[RiskBand::Low, RiskBand::High, RiskBand::Low]), Some((1.0, 3)));
        assert_eq!(band_shifts(&[RiskBand::Low; 3]), Some((0.0, 3)));
        assert_eq!(band_shifts(&[RiskBand::Low]), None);
    }
}
