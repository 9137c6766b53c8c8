//! V: what other agents make of this one (seed 1, §3.4).
//!
//! `V = clamp(0.35·U + 0.45·S + 0.20·H, 0, 1)`
//!
//! - U, adoption: the mean over its contracts of how far others took them up;
//! - S, survival: the share of settled challenges in which it was not refuted, on either side; 0.5 without any;
//! - H, helpfulness: `Σ w·rating / (Σ w + prior)`.
//!
//! Each peer counts with its [weight](super::Parameters::peer_weight), which is 0 for a newborn: a thousand of them adopt,
//! challenge in jest and applaud to no effect. Being refuted counts whoever did it.

use serde::Serialize;

use super::Parameters;

/// V and its parts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Validation {
    /// V.
    pub value: f64,
    /// U.
    pub adoption: f64,
    /// S.
    pub survival: f64,
    /// H.
    pub helpfulness: f64,
    /// Settled challenges that count.
    pub challenges: u32,
    /// Reviews that count.
    pub reviews: usize,
}

/// S; 0.5 where nothing is settled.
pub fn survival(upheld: u32, refuted: u32, parameters: &Parameters) -> f64 {
    let settled = upheld + refuted;
    if settled == 0 { parameters.neutral_survival } else { f64::from(upheld) / f64::from(settled) }
}

/// H of reviews, each a weight and a rating.
pub fn helpfulness(reviews: &[(f64, f64)], parameters: &Parameters) -> f64 {
    let (sum, weights) =
        reviews.iter().fold((0.0, 0.0), |(sum, weights), (weight, rating)| (sum + weight * rating, weights + weight));
    if weights > 0.0 { sum / (weights + parameters.prior_reviews) } else { 0.0 }
}

/// U of contracts, each the weight of those who took it up.
pub fn adoption(contracts: &[f64]) -> f64 {
    contracts.iter().map(|weight| weight.clamp(0.0, 1.0)).sum::<f64>() / contracts.len().max(1) as f64
}

/// V of its parts.
pub fn value(adoption: f64, survival: f64, helpfulness: f64, parameters: &Parameters) -> f64 {
    let weights = &parameters.validation;
    (weights.adoption * adoption + weights.survival * survival + weights.helpfulness * helpfulness).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cold_start() {
        let parameters = Parameters::default();
        let v = value(adoption(&[]), survival(0, 0, &parameters), helpfulness(&[], &parameters), &parameters);
        assert!((v - 0.225).abs() < 1e-12);
    }

    #[test]
    fn weightless_reviews_do_nothing_and_few_count_little() {
        let parameters = Parameters::default();
        assert_eq!(helpfulness(&vec![(0.0, 1.0); 1000], &parameters), 0.0);
        let one = helpfulness(&[(0.5, 1.0)], &parameters);
        let many = helpfulness(&[(0.5, 1.0); 20], &parameters);
        assert!((one - 1.0 / 3.0).abs() < 1e-12 && many > 0.9);
        assert_eq!(survival(3, 1, &parameters), 0.75);
        assert_eq!(adoption(&[0.5, 3.0]), 0.75);
    }
}
