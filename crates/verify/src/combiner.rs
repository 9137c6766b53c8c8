//! The Bayesian combiner (seed 2, "How the Bayesian Combiner Works"): log-odds, one term per evaluated check.
//!
//! ```text
//! fired:  + ln(1 + (LR − 1) · score)          absent:  − ln(max(LR · 0.1, 1.01))
//! ```
//!
//! A check that could not be evaluated contributes no term at all.

use serde::Deserialize;

use crate::calibration::DEFAULT_PRIOR;

/// What one evaluated check says.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct Evidence {
    /// Whether it fired.
    pub fired: bool,
    /// How strongly, 0..=1.
    pub score: f64,
    /// P(fires | fabricated) / P(fires | genuine).
    pub likelihood_ratio: f64,
}

/// The share of a ratio that a check's absence keeps.
const ABSENT_SHARE: f64 = 0.1;
/// The least an absent check says.
const ABSENT_LEAST: f64 = 1.01;

/// P(fabricated) after the evidence, summed in the order given.
pub fn posterior(prior: f64, evidence: impl IntoIterator<Item = Evidence>) -> f64 {
    probability(evidence.into_iter().fold(log_odds(prior), |sum, check| sum + check.log_ratio()))
}

/// The odds of [`DEFAULT_PRIOR`], as their logarithm: of most calls, and a logarithm costs as much as a check.
const DEFAULT_ODDS: f64 = -1.7346010553881064;

/// The odds of a probability, as their logarithm.
pub(crate) fn log_odds(probability: f64) -> f64 {
    if probability == DEFAULT_PRIOR {
        return DEFAULT_ODDS;
    }
    libm::log(probability / (1.0 - probability))
}

/// The probability of log-odds.
pub(crate) fn probability(log_odds: f64) -> f64 {
    // The form that does not overflow, whichever way the odds point.
    if log_odds >= 0.0 {
        1.0 / (1.0 + libm::exp(-log_odds))
    } else {
        let odds = libm::exp(log_odds);
        odds / (1.0 + odds)
    }
}

impl Evidence {
    pub(crate) fn log_ratio(self) -> f64 {
        if self.fired {
            libm::log(1.0 + (self.likelihood_ratio - 1.0) * self.score)
        } else {
            -libm::log((self.likelihood_ratio * ABSENT_SHARE).max(ABSENT_LEAST))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn vectors() {
        // Relative to the crate, where tests run: a path compiled in would outlive a move of the checkout.
        let path = "../../testdata/models.json";
        let vectors: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let cases = vectors["posterior"].as_array().unwrap();
        assert!(cases.len() >= 6);
        for case in cases {
            let evidence: Vec<Evidence> = serde_json::from_value(case["input"]["signals"].clone()).unwrap();
            let actual = posterior(case["input"]["prior"].as_f64().unwrap(), evidence);
            let expected = case["posterior"].as_f64().unwrap();
            assert!((actual - expected).abs() <= 1e-9, "{actual} ≠ {expected}");
        }
    }

    #[test]
    fn the_default_prior_has_the_odds_that_it_would_be_given() {
        assert_eq!(DEFAULT_ODDS, libm::log(DEFAULT_PRIOR / (1.0 - DEFAULT_PRIOR)));
    }

    #[test]
    fn extremes_stay_probabilities() {
        let strong = |fired| std::iter::repeat_n(Evidence { fired, score: 1.0, likelihood_ratio: 1e9 }, 100);
        assert!(posterior(0.5, strong(true)) > 0.999_999);
        let low = posterior(0.5, strong(false));
        assert!((0.0..1e-9).contains(&low));
    }
}
