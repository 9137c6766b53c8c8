//! V: what other agents make of this one (seed 1, §3.4).
//!
//! `V = clamp(0.35·U + 0.45·S + 0.20·H, 0, 1)`
//!
//! - U, adoption: `Σ w / (Σ w + prior)` over the agents that took any of its contracts up, each once;
//! - S, survival: the share of settled challenges in which it was not refuted, on either side: `(Σ w + ½k) / (Σ w + r + k)`
//!   over the weights w of the peers it held out against and the r times it was refuted; 0.5 without any;
//! - H, helpfulness: `Σ w·rating / (Σ w + prior)`.
//!
//! Each peer counts with its [weight](super::Parameters::peer_weight), which is 0 for a newborn: a thousand of them adopt,
//! challenge in jest and applaud to no effect. Being refuted counts in full whoever did it.

use serde::Serialize;

use super::{Parameters, sum};

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
    /// The weight of the peers it held out against.
    pub upheld: f64,
    /// How often it was refuted.
    pub refuted: u32,
    /// Reviews that count.
    pub reviews: usize,
}

/// S of the weight of peers it held out against, and of how often it was refuted; 0.5 where nothing is settled. With full
/// weights and no prior it is the plain share.
pub fn survival(upheld: f64, refuted: u32, parameters: &Parameters) -> f64 {
    let prior = parameters.prior_challenges;
    let all = upheld + f64::from(refuted) + prior;
    if all > 0.0 { (upheld + prior * parameters.neutral_survival) / all } else { parameters.neutral_survival }
}

/// H of reviews, each a weight and a rating.
pub fn helpfulness(reviews: &[(f64, f64)], parameters: &Parameters) -> f64 {
    let (sum, weights) =
        reviews.iter().fold((0.0, 0.0), |(sum, weights), (weight, rating)| (sum + weight * rating, weights + weight));
    if weights > 0.0 { sum / (weights + parameters.prior_reviews) } else { 0.0 }
}

/// U of the weights of those who took its contracts up.
pub fn adoption(citers: &[f64], parameters: &Parameters) -> f64 {
    let weights = sum(citers.iter().copied());
    if weights > 0.0 { weights / (weights + parameters.prior_reviews) } else { 0.0 }
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
        let v = value(
            adoption(&[], &parameters),
            survival(0.0, 0, &parameters),
            helpfulness(&[], &parameters),
            &parameters,
        );
        assert!((v - 0.225).abs() < 1e-12);
    }

    #[test]
    fn weightless_reviews_do_nothing_and_few_count_little() {
        let parameters = Parameters::default();
        assert_eq!(helpfulness(&vec![(0.0, 1.0); 1000], &parameters), 0.0);
        let one = helpfulness(&[(0.5, 1.0)], &parameters);
        let many = helpfulness(&[(0.5, 1.0); 20], &parameters);
        assert!((one - 1.0 / 3.0).abs() < 1e-12 && many > 0.9);
        let plain = Parameters { prior_challenges: 0.0, ..Parameters::default() };
        assert_eq!((survival(3.0, 1, &plain), survival(0.0, 0, &plain)), (0.75, 0.5));
        assert_eq!((survival(1.0, 0, &parameters), survival(0.0, 1, &parameters)), (0.75, 0.25));
        assert!(survival(0.09, 0, &parameters) < 0.55, "a weak accomplice that loses on purpose is worth little");
        assert_eq!(adoption(&[0.5, 0.5], &parameters), 0.5);
    }
}
