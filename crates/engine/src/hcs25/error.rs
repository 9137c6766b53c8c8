//! What a configuration, a subject or a summary can get wrong.

use credence_protocol::Timestamp;

/// Why nothing was scored.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An adapter's id is not lower-case words joined by hyphens.
    #[error("adapterId '{0}' is not lower-case words joined by hyphens, each starting with a letter")]
    AdapterId(String),
    /// Two adapters have one id.
    #[error("adapterId '{0}' is a duplicate: it must be unique within a configuration")]
    DuplicateAdapter(String),
    /// No adapter has this id.
    #[error("no adapter '{id}' is in the catalogue{}", .near.map(|near| format!(": did you mean '{near}'?")).unwrap_or_default())]
    UnknownAdapter {
        /// What was asked for.
        id: String,
        /// One that is spelled like it.
        near: Option<&'static str>,
    },
    /// A configuration without adapters.
    #[error("a configuration needs at least one adapter")]
    NoAdapters,
    /// An adapter without components.
    #[error("adapter '{0}' has no component: it needs at least one")]
    NoComponents(String),
    /// Two components of an adapter have one name.
    #[error("component '{0}' is there twice")]
    DuplicateComponent(String),
    /// A component's name is not a key.
    #[error("adapter '{adapter}': component name '{name}' is not made of letters, digits, '_', '-' and dots")]
    ComponentName {
        /// The adapter.
        adapter: String,
        /// The name.
        name: String,
    },
    /// A default component key is not a key.
    #[error("adapter '{adapter}': defaultComponentKey '{key}' is not made of letters, digits, '_', '-' and dots")]
    DefaultComponentKey {
        /// The adapter.
        adapter: String,
        /// The key.
        key: String,
    },
    /// A weight below 0 or not finite.
    #[error("{of}: weight {weight} is not a finite number from 0 to 1e12")]
    Weight {
        /// Whose.
        of: String,
        /// What was given.
        weight: f64,
    },
    /// A stale multiplier outside 0..=1.
    #[error("staleMultiplier {0} is outside 0..=1")]
    StaleMultiplier(f64),
    /// More decimals than there is use for.
    #[error("roundingDecimals {0} is not an integer from 0 to 6")]
    RoundingDecimals(f64),
    /// A version that is no count.
    #[error("version {0} is not a non-negative integer")]
    Version(f64),
    /// A configuration that changed without a higher version.
    #[error(
        "version {version} does not follow {former}: a changed configuration needs a higher version, because scores are comparable only under the same one"
    )]
    NotMonotonic {
        /// The version given.
        version: u64,
        /// The version before.
        former: u64,
    },
    /// Options that the adapter does not have, or that make no sense.
    #[error("adapter '{adapter}', options: {why}")]
    Options {
        /// The adapter.
        adapter: String,
        /// What is wrong.
        why: String,
    },
    /// A subject that does not parse or has an empty field.
    #[error("subject: {0}")]
    Subject(String),
    /// A snapshot's key is not a signal id.
    #[error("'{0}' is not a signal id: at least two lower-case segments joined by dots")]
    SignalId(String),
    /// A snapshot that does not parse.
    #[error("signal snapshot: {0}")]
    Snapshot(String),
    /// A summary that does not parse.
    #[error("outputVerificationSummary: {0}")]
    Summary(String),
    /// A rate outside 0..=1.
    #[error("outputVerificationSummary: {field} {value} is outside 0..=1")]
    Rate {
        /// Which, as a path.
        field: String,
        /// What was given.
        value: f64,
    },
    /// Rates that add up to more than everything.
    #[error(
        "outputVerificationSummary: allowRate, blockRate and uncertainRate add up to {sum}, more than 1 (tolerance {tolerance})"
    )]
    RatesExceedOne {
        /// What they add up to.
        sum: f64,
        /// What is let pass for rounding.
        tolerance: f64,
    },
    /// A count below 0 or with a fraction.
    #[error("outputVerificationSummary: {field} {value} is not a count: a whole number of at least 0 is needed")]
    Count {
        /// Which, as a path.
        field: String,
        /// What was given.
        value: String,
    },
    /// Parts above their whole.
    #[error("outputVerificationSummary: {parts} has {sum} checks, more than totalChecks {total}")]
    PartsExceedTotal {
        /// Which parts.
        parts: &'static str,
        /// What they add up to.
        sum: u64,
        /// The whole.
        total: u64,
    },
    /// A report from after it was read.
    #[error("outputVerificationSummary: updatedAt {updated_at} is after now, {now}: check the clocks")]
    Future {
        /// What it says.
        updated_at: Timestamp,
        /// The time of reading.
        now: Timestamp,
    },
    /// Two reports of one provider.
    #[error("provider '{0}' is listed twice: one report each")]
    DuplicateProvider(String),
    /// A parameter of the output-verification formulas that makes no sense.
    #[error("{0}")]
    Parameter(String),
}
