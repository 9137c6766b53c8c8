//! P: how good outcomes are for the risk that was declared (seed 1, §3.3).
//!
//! `P = 1 / (1 + e^(−k(RAP − m)))`
//!
//! RAP is `mean / (std + ε)` of the outcomes, or a calibration score less what risk was understated; the agent's identity
//! declares which. Undeclared, it can only cost. RAP is bounded, and drawn towards 0 while outcomes are few:
//! `clamp(RAP, −3, 3) · n / (n + prior)`.

use credence_protocol::RiskBand;
use serde::{Deserialize, Serialize};

use super::{BandFailures, Parameters, consistency::deviation, sum};

/// How risk-adjusted performance is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RapMethod {
    /// Mean outcome over its deviation.
    Sharpe,
    /// How well announced probabilities were met, less understated risk.
    Calibration,
}

impl BandFailures {
    /// The failures that a band announces.
    pub fn of(&self, band: RiskBand) -> f64 {
        match band {
            RiskBand::Low => self.low,
            RiskBand::Moderate => self.moderate,
            RiskBand::High => self.high,
        }
    }
}

/// P and what it rests on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Performance {
    /// P.
    pub value: f64,
    /// RAP, as it was used.
    pub rap: f64,
    /// The method declared.
    pub method: Option<RapMethod>,
    /// How many outcomes.
    pub samples: usize,
}

/// A settled claim: its band, the probability announced, and the outcome on −1..=1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Settled {
    /// The band.
    pub band: RiskBand,
    /// The probability announced.
    pub probability: Option<f64>,
    /// The outcome.
    pub outcome: f64,
}

impl Settled {
    /// The outcome on 0..=1.
    pub fn share(&self) -> f64 {
        (self.outcome + 1.0) / 2.0
    }
}

/// `mean / (std + ε)`; 0 of nothing.
pub fn sharpe(outcomes: &[f64], epsilon: f64) -> f64 {
    if outcomes.is_empty() {
        return 0.0;
    }
    sum(outcomes.iter().copied()) / outcomes.len() as f64 / (deviation(outcomes) + epsilon)
}

/// `1 − 4·mean((p − y)²)`, at least −1: 1 for a seer, 0 for a coin. Claims without a probability count as a coin's.
pub fn calibration(settled: &[Settled]) -> f64 {
    if settled.is_empty() {
        return 0.0;
    }
    let error = |one: &Settled| {
        let miss = one.probability.unwrap_or(0.5) - one.share();
        miss * miss
    };
    (1.0 - 4.0 * sum(settled.iter().map(error)) / settled.len() as f64).max(-1.0)
}

/// By how much failures exceed what the bands announced, over all settled claims, 0..=1.
pub fn risk_mismatch(settled: &[Settled], announced: &BandFailures) -> f64 {
    let excess = |band: RiskBand| {
        let failures: Vec<f64> = settled.iter().filter(|one| one.band == band).map(|one| 1.0 - one.share()).collect();
        let n = failures.len() as f64;
        if failures.is_empty() { 0.0 } else { (sum(failures.iter().copied()) / n - announced.of(band)).max(0.0) * n }
    };
    let excess = sum(RiskBand::ALL.into_iter().map(excess));
    excess / settled.len().max(1) as f64
}

/// P of settled claims under the declared method.
pub fn performance(settled: &[Settled], method: Option<RapMethod>, parameters: &Parameters) -> Performance {
    let outcomes: Vec<f64> = settled.iter().map(|one| one.outcome).collect();
    let full = match method {
        Some(RapMethod::Sharpe) => sharpe(&outcomes, parameters.epsilon),
        Some(RapMethod::Calibration) => calibration(settled) - risk_mismatch(settled, &parameters.band_failures),
        None => sharpe(&outcomes, parameters.epsilon).min(0.0),
    };
    let n = settled.len() as f64;
    let bounded = full.clamp(-parameters.max_rap, parameters.max_rap);
    let rap = if settled.is_empty() { 0.0 } else { bounded * n / (n + parameters.prior_outcomes) };
    Performance { value: squash(rap, parameters), rap, method, samples: settled.len() }
}

/// The logistic map of RAP to P.
pub fn squash(rap: f64, parameters: &Parameters) -> f64 {
    1.0 / (1.0 + libm::exp(-parameters.k * (rap - parameters.m)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(band: RiskBand, probability: f64, outcome: f64) -> Settled {
        Settled { band, probability: Some(probability), outcome }
    }

    #[test]
    fn methods_and_their_anchors() {
        let parameters = Parameters::default();
        assert_eq!(performance(&[], Some(RapMethod::Sharpe), &parameters).value, 0.5);
        assert!((sharpe(&[1.0, 0.0], 0.1) - 0.5 / 0.6).abs() < 1e-12);
        let seer = [settled(RiskBand::Low, 1.0, 1.0), settled(RiskBand::Low, 0.0, -1.0)];
        assert_eq!(calibration(&seer), 1.0);
        assert_eq!(calibration(&[settled(RiskBand::Low, 0.5, 1.0)]), 0.0);
        assert_eq!(calibration(&[settled(RiskBand::Low, 1.0, -1.0)]), -1.0);
        assert!(
            (risk_mismatch(&seer, &parameters.band_failures) - 0.4).abs() < 1e-12,
            "half failed, a tenth was announced"
        );
        assert_eq!(risk_mismatch(&[settled(RiskBand::High, 0.5, 0.0)], &parameters.band_failures), 0.0);
    }

    #[test]
    fn few_outcomes_say_little_and_an_undeclared_method_earns_nothing() {
        let parameters = Parameters::default();
        let good = vec![settled(RiskBand::Low, 0.9, 1.0); 30];
        let of = |n: usize, method| performance(&good[..n], method, &parameters).value;
        assert!(of(1, Some(RapMethod::Sharpe)) < of(10, Some(RapMethod::Sharpe)));
        assert_eq!(of(30, None), 0.5);
        let bad = vec![settled(RiskBand::Low, 0.9, -1.0); 30];
        assert!(performance(&bad, None, &parameters).value < 0.05);
    }
}
