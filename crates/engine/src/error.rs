//! What a caller can get wrong.

/// Why numbers or data were refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A value outside 0..=100 or not finite.
    #[error("signal {index}: value {value} is outside 0..=100")]
    Value {
        /// Position in the input, from 0.
        index: usize,
        /// What was given.
        value: f64,
    },
    /// A standard deviation outside 0..=50 or not finite.
    #[error("signal {index}: stddev {stddev} is outside 0..=50")]
    Stddev {
        /// Position in the input, from 0.
        index: usize,
        /// What was given.
        stddev: f64,
    },
    /// A weight that is neither 0 nor within its bounds.
    #[error("signal {index}: weight {weight} is neither 0 nor between 0.000001 and 1000000")]
    Weight {
        /// Position in the input, from 0.
        index: usize,
        /// What was given.
        weight: f64,
    },
    /// An age below 0 or not finite.
    #[error("signal {index}: age_days {age_days} is below 0 or not a number")]
    Age {
        /// Position in the input, from 0.
        index: usize,
        /// What was given.
        age_days: f64,
    },
    /// A voice that is not one of few numbers from 0.
    #[error("signal {index}: voice {voice} is too large; voices are numbered from 0")]
    Voice {
        /// Position in the input, from 0.
        index: usize,
        /// What was given.
        voice: u32,
    },
    /// Parameters of the assured score that do not parse or do not make sense.
    #[error("parameters of the assured score: {0}")]
    Parameters(String),
    /// A formula that this version does not compute.
    #[error("unknown formula '{0}': this version computes uts/1 and uts/2")]
    UnknownFormula(String),
    /// Parameters that this version does not have.
    #[error("unknown parameters {given}: this version computes uts/2 with {known}")]
    UnknownParameters {
        /// The digest that was given.
        given: String,
        /// The digest of those that ship.
        known: String,
    },
    /// A coverage floor outside 0..=1.
    #[error("coverage floor {0} is outside 0..=1")]
    Floor(f64),
    /// Assessment rules that do not parse or do not make sense.
    #[error("assessment rules: {0}")]
    Assessment(String),
    /// Certification requirements that do not parse or do not make sense.
    #[error("certification requirements: {0}")]
    Requirements(String),
}
