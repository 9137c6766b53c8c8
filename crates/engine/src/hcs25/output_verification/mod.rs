//! The output-verification adapter: how good an agent's outputs are, by the verdicts of whoever checks them (seed 0).
//!
//! ```text
//! power    = clamp(blockRate / 0.05, 0, 1)                    a verifier that never blocks says nothing
//! stake    = clamp(Σ checks·{0.5, 1, 2, 3} / Σ checks, 0.5, 3), at most 1.5; 1 without stakes
//! quality  = round(clamp(allowRate · avgConfidence · power · stake · 100, 0, 100))
//! coverage = 100 · clamp(min(50, 20·log10(totalChecks + 1)) / 50, 0, 1)
//! total    = 0.7·quality + 0.3·coverage
//! ```
//!
//! Fewer than ten checks: not applicable. [`Profile::Spec`] rounds quality half up to an integer and nothing else;
//! [`Profile::Reference`] rounds all three to two decimals.
//!
//! The text leaves holes, kept because a standard's number must be the standard's: an honest agent of which 1 % is blocked
//! has a quality of 19, `uncertainRate` counts for nothing, and a caller who declares everything critical gains half. What
//! Credence itself makes of a summary is [`signal`], which closes them.

mod merge;
mod reporting;
mod rollup;
pub mod signal;
mod summary;

use serde::{Deserialize, Serialize};

pub use reporting::{BadLine, CountedLine, Naming, Rated};
pub use rollup::{CheckedOutput, Limits, RolledUp, Rollup, Window};
pub use summary::{Canaries, Controls, ProviderRef, RATE_TOLERANCE, Report, StakeDistribution, StakeLevel, Summary};

use super::{Adapter, AdapterBuilder, Component, Error, Input, Mode, Profile, Reading, Status, config::round_half_up};

/// The adapter's id.
pub const ID: &str = "output-verification";
/// The member of a subject's metadata that the adapter reads.
pub const METADATA: &str = "outputVerificationSummary";
/// Checks below which a summary says nothing.
pub const DEFAULT_MIN_CHECKS: u64 = 10;
/// The share of blocked outputs that shows a verifier's full power.
pub const FULL_POWER_BLOCK_RATE: f64 = 0.05;
/// The most that stakes can multiply quality by.
pub const MAX_STAKE_INFLUENCE: f64 = 1.5;
/// The bounds of the stake multiplier itself.
pub const STAKE_BOUNDS: (f64, f64) = (0.5, 3.0);
/// Decimals of the reference implementation.
const REFERENCE_DECIMALS: u8 = 2;

/// What implementations may set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Parameters {
    /// Where the volume stops counting.
    pub volume_cap: f64,
    /// Volume per tenfold checks.
    pub volume_scale: f64,
    /// Checks below which a summary says nothing.
    pub min_checks: u64,
    /// Quality's part of the total.
    pub quality_weight: f64,
    /// Coverage's part of the total.
    pub coverage_weight: f64,
    /// What a check counts, by its stake.
    pub stake_multipliers: Multipliers,
}

/// What a check counts, by its stake.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Multipliers {
    /// A trivial one.
    pub low: f64,
    /// An ordinary one.
    pub medium: f64,
    /// An important one.
    pub high: f64,
    /// One on which everything depends.
    pub critical: f64,
}

impl Default for Multipliers {
    fn default() -> Self {
        Self { low: 0.5, medium: 1.0, high: 2.0, critical: 3.0 }
    }
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            volume_cap: 50.0,
            volume_scale: 20.0,
            min_checks: DEFAULT_MIN_CHECKS,
            quality_weight: 0.7,
            coverage_weight: 0.3,
            stake_multipliers: Multipliers::default(),
        }
    }
}

/// The adapter's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Evaluation {
    /// How good the outputs are, 0..=100.
    pub quality: f64,
    /// How many were checked, 0..=100.
    pub coverage: f64,
    /// Both together.
    pub total: f64,
}

impl Parameters {
    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<(), Error> {
        let Multipliers { low, medium, high, critical } = self.stake_multipliers;
        let positive = [("volumeCap", self.volume_cap), ("volumeScale", self.volume_scale)];
        let weights = [
            ("qualityWeight", self.quality_weight),
            ("coverageWeight", self.coverage_weight),
            ("stakeMultipliers.low", low),
            ("stakeMultipliers.medium", medium),
            ("stakeMultipliers.high", high),
            ("stakeMultipliers.critical", critical),
        ];
        if let Some((name, value)) = positive.iter().find(|(_, value)| !(*value > 0.0 && value.is_finite())) {
            return Err(Error::Parameter(format!("{name} {value} is not above 0")));
        }
        if let Some((name, value)) = weights.iter().find(|(_, value)| !(0.0..=1e6).contains(value)) {
            return Err(Error::Parameter(format!("{name} {value} is not between 0 and 1e6")));
        }
        if self.quality_weight + self.coverage_weight == 0.0 {
            return Err(Error::Parameter("qualityWeight and coverageWeight are both 0".into()));
        }
        Ok(())
    }

    /// The adapter on one summary.
    pub fn evaluate(&self, summary: &Summary, profile: Profile) -> Evaluation {
        let quality = self.quality(summary, profile);
        let coverage = self.coverage(summary.total_checks);
        let total = |quality: f64, coverage: f64| {
            (quality * self.quality_weight + coverage * self.coverage_weight)
                / (self.quality_weight + self.coverage_weight)
        };
        match profile {
            Profile::Spec => Evaluation { quality, coverage, total: total(quality, coverage) },
            Profile::Reference => {
                let round = |value: f64| round_half_up(value, REFERENCE_DECIMALS);
                let (quality, coverage) = (round(quality), round(coverage));
                Evaluation { quality, coverage, total: round(total(quality, coverage)) }
            }
        }
    }

    /// Quality as `profile` has it, before the reference's decimals.
    pub fn quality(&self, summary: &Summary, profile: Profile) -> f64 {
        let power = (summary.block_rate / FULL_POWER_BLOCK_RATE).clamp(0.0, 1.0);
        let stake = self.stake_multiplier(summary).min(MAX_STAKE_INFLUENCE);
        let quality = summary.allow_rate * summary.avg_confidence * power * stake * 100.0;
        match profile {
            Profile::Spec => round_half_up(quality, 0).clamp(0.0, 100.0),
            Profile::Reference => quality.clamp(0.0, 100.0),
        }
    }

    /// Coverage of so many checks, unrounded.
    pub fn coverage(&self, checks: u64) -> f64 {
        let volume = libm::log10(checks as f64 + 1.0) * self.volume_scale;
        100.0 * (volume.min(self.volume_cap) / self.volume_cap).clamp(0.0, 1.0)
    }

    /// What the declared stakes multiply by; 1 where none are.
    pub fn stake_multiplier(&self, summary: &Summary) -> f64 {
        let Some(stakes) = &summary.stake_distribution else { return 1.0 };
        let Multipliers { low, medium, high, critical } = self.stake_multipliers;
        let of = |level: &Option<StakeLevel>| level.map_or(0.0, |level| level.checks as f64);
        let [l, m, h, c] = [of(&stakes.low), of(&stakes.medium), of(&stakes.high), of(&stakes.critical)];
        let checks = l + m + h + c;
        if checks == 0.0 {
            return 1.0;
        }
        ((l * low + m * medium + h * high + c * critical) / checks).clamp(STAKE_BOUNDS.0, STAKE_BOUNDS.1)
    }
}

/// The adapter for a configuration.
pub(super) fn adapter(profile: Profile, options: Parameters) -> Result<AdapterBuilder, Error> {
    options.check()?;
    let part = move |input: &Input<'_>, of: fn(&Parameters, &Summary, Profile) -> f64| {
        let Report::Applicable(summary) = report(input, &options)? else {
            return Ok(Reading::unavailable(Status::Missing));
        };
        let status = if summary.is_stale(input.now) { Status::Stale } else { Status::Ok };
        Ok(Reading { value: of(&options, &summary, profile), status })
    };
    let quality = Component::new("quality", move |input| part(input, Parameters::quality));
    let coverage =
        Component::new("coverage", move |input| part(input, |p, summary, _| p.coverage(summary.total_checks)));
    Ok(Adapter::builder(ID)
        .mode(Mode::Scoped)
        .revision(format!("{profile:?} {options:?}"))
        .applies_to(move |input| Ok(matches!(report(input, &options)?, Report::Applicable(_))))
        .component(quality.weight(options.quality_weight))
        .component(coverage.weight(options.coverage_weight)))
}

fn report(input: &Input<'_>, options: &Parameters) -> Result<Report, Error> {
    match input.metadata().0.get(METADATA) {
        Some(value) if value.is_object() => {
            let report = Summary::from_value(value, options.min_checks)?;
            if let Report::Applicable(summary) = &report {
                summary.not_from_the_future(input.now)?;
                // Who checks itself says nothing.
                if summary.providers.iter().any(|provider| provider.id == input.subject.id) {
                    return Ok(Report::None);
                }
            }
            Ok(report)
        }
        _ => Ok(Report::None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coverage_meets_its_anchors() {
        let parameters = Parameters::default();
        for (checks, coverage) in [(10, 41.6557), (50, 68.3028), (99, 80.0), (100, 80.1729), (315, 99.9875)] {
            assert!((parameters.coverage(checks) - coverage).abs() < 5e-5, "{checks}");
        }
        assert_eq!(parameters.coverage(316), 100.0);
        assert_eq!(parameters.coverage(1 << 50), 100.0);
    }

    #[test]
    fn parameters_that_make_no_sense_are_refused() {
        let refused = |change: fn(&mut Parameters), what: &str| {
            let mut parameters = Parameters::default();
            change(&mut parameters);
            let error = parameters.check().unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        };
        refused(|p| p.volume_cap = 0.0, "volumeCap 0");
        refused(|p| p.stake_multipliers.low = f64::NAN, "stakeMultipliers.low");
        refused(|p| (p.quality_weight, p.coverage_weight) = (0.0, 0.0), "both 0");
    }
}
