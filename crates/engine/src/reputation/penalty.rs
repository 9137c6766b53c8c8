//! Q: what is erratic or abusive (seed 1, §3.5): `Q = min(2, q1 + q2 + q3)`, each part 0..=1.
//!
//! - q1: probabilities that swing for one context (where C does not count them already);
//! - q2: risk that was understated, and changes of model or method without a new version;
//! - q3: challenge spam: failed challenges beyond those allowed in the window, and identical resubmissions.

use serde::Serialize;

use super::Parameters;

/// Q and its parts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Penalty {
    /// Q.
    pub value: f64,
    /// Output instability.
    pub instability: f64,
    /// Risk band abuse and unversioned changes.
    pub abuse: f64,
    /// Challenge spam.
    pub spam: f64,
}

impl Penalty {
    /// Of its parts.
    pub fn new(instability: f64, abuse: f64, spam: f64, parameters: &Parameters) -> Self {
        let [instability, abuse, spam] = [instability, abuse, spam].map(|part| part.clamp(0.0, 1.0));
        Self { value: (instability + abuse + spam).min(parameters.max_penalty), instability, abuse, spam }
    }
}

/// q3 of an agent's own challenges in the window.
pub fn spam(failed: u32, resubmitted: u32, parameters: &Parameters) -> f64 {
    let offences = failed.saturating_sub(parameters.failed_challenges_allowed).saturating_add(resubmitted);
    (f64::from(offences) * parameters.spam_offence).min(1.0)
}

/// q2 of understated risk and of changes without a new version.
pub fn abuse(risk_mismatch: f64, unversioned_changes: u32, parameters: &Parameters) -> f64 {
    (risk_mismatch + f64::from(unversioned_changes) * parameters.unversioned_change).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_failures_are_no_spam_and_the_sum_is_bounded() {
        let parameters = Parameters::default();
        assert_eq!((spam(3, 0, &parameters), spam(4, 0, &parameters), spam(0, 1, &parameters)), (0.0, 0.25, 0.25));
        assert_eq!(spam(1000, 0, &parameters), 1.0);
        assert_eq!(abuse(0.1, 1, &parameters), 0.35);
        assert_eq!(Penalty::new(1.0, 1.0, 1.0, &parameters).value, 2.0);
    }
}
