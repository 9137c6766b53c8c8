//! Calibration: what is set by hand or fitted, globally or for one tool. Each setting takes effect exactly as given.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Check, Engine, Error};

/// P(fabricated) before looking, by default.
pub(crate) const DEFAULT_PRIOR: f64 = 0.15;
/// From this posterior on a result is flagged, by default.
pub(crate) const DEFAULT_FLAG: f64 = 0.2;
/// From this posterior on a result is blocked, by default.
pub(crate) const DEFAULT_BLOCK: f64 = 0.5;

/// The share of genuine results that may be blocked, by default.
pub(crate) const DEFAULT_FALSE_BLOCKS: f64 = 0.01;

/// Settings; what is absent keeps what holds without it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Calibration {
    /// P(fabricated) before looking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prior: Option<f64>,
    /// Flag from this posterior on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flag_threshold: Option<f64>,
    /// Block from this posterior on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_threshold: Option<f64>,
    /// Mode adaptive: the share of genuine results that may be blocked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_false_block_rate: Option<f64>,
    /// Likelihood ratios by check.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub likelihood_ratios: BTreeMap<Check, f64>,
}

/// Calibrations of many tools, as a file holds them: what is set for every tool, and for some.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Calibrations {
    /// For every tool.
    pub all: Calibration,
    /// For these tools.
    pub tools: BTreeMap<String, Calibration>,
}

impl Calibrations {
    /// Sets them; refused with the place of the first that makes no sense.
    pub fn apply(&self, engine: &Engine) -> Result<(), Error> {
        engine.calibrate(None, self.all.clone()).map_err(|e| Error::Setting(format!("[all]: {e}")))?;
        for (tool, calibration) in &self.tools {
            let set = engine.calibrate(Some(tool), calibration.clone());
            set.map_err(|e| Error::Setting(format!("tool '{tool}': {e}")))?;
        }
        Ok(())
    }
}

impl Calibration {
    /// Refuses numbers that are no probabilities or ratios.
    pub fn validate(&self) -> Result<(), Error> {
        let wrong = |what: String| Err(Error::Setting(what));
        if let Some(prior) = self.prior.filter(|p| !(*p > 0.0 && *p < 1.0)) {
            return wrong(format!("prior {prior} is not between 0 and 1"));
        }
        for (name, threshold) in [("flag_threshold", self.flag_threshold), ("block_threshold", self.block_threshold)] {
            if let Some(threshold) = threshold.filter(|t| !(0.0..=1.0).contains(t)) {
                return wrong(format!("{name} {threshold} is not between 0 and 1"));
            }
        }
        if let Some(rate) = self.max_false_block_rate.filter(|rate| !(*rate > 0.0 && *rate <= 1.0)) {
            return wrong(format!("max_false_block_rate {rate} is not above 0 and at most 1"));
        }
        for (check, ratio) in &self.likelihood_ratios {
            if !(*ratio > 0.0 && ratio.is_finite()) {
                return wrong(format!("the likelihood ratio of {check}, {ratio}, is not above 0"));
            }
        }
        Ok(())
    }

    /// This one where it says something, else `other`.
    pub(crate) fn or(&self, other: &Self) -> Self {
        let mut likelihood_ratios = other.likelihood_ratios.clone();
        likelihood_ratios.extend(&self.likelihood_ratios);
        Self {
            prior: self.prior.or(other.prior),
            flag_threshold: self.flag_threshold.or(other.flag_threshold),
            block_threshold: self.block_threshold.or(other.block_threshold),
            max_false_block_rate: self.max_false_block_rate.or(other.max_false_block_rate),
            likelihood_ratios,
        }
    }
}
