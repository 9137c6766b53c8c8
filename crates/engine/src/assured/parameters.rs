//! The parameters of the assured score: `assured.toml` beside the sources, checked when it is read.
//!
//! Their digest is `sha256:` and the hex SHA-256 of the canonical JSON (RFC 8785) of the parsed parameters, defaults filled in. So
//! comments, spacing and order do not change it, and every number does.

use std::{collections::BTreeMap, fmt, fmt::Write as _, sync::OnceLock};

use credence_protocol::Canonical;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::FORMULA;
use crate::Error;

const STANDARD: &str = include_str!("../../assured.toml");
/// How far the weights of the dimensions may be from 1 together.
const WEIGHT_TOLERANCE: f64 = 1e-9;
/// Tags that parameters can have.
pub(super) const MAX_TAGS: usize = 64;
/// How many dimensions there are.
pub const DIMENSIONS: usize = 6;

/// What an agent is measured on, in the order in which it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dimension {
    /// How it withstands the ten ASI threats.
    Security,
    /// How good its outputs are.
    Output,
    /// Whether it answers, in time and without errors.
    Reliability,
    /// What those say who dealt with it.
    Reputation,
    /// Whether it is who it says.
    Identity,
    /// How many use it; published and not counted.
    Adoption,
}

impl Dimension {
    /// All of them.
    pub const ALL: [Dimension; DIMENSIONS] = [
        Dimension::Security,
        Dimension::Output,
        Dimension::Reliability,
        Dimension::Reputation,
        Dimension::Identity,
        Dimension::Adoption,
    ];

    /// The name, as in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Dimension::Security => "security",
            Dimension::Output => "output",
            Dimension::Reliability => "reliability",
            Dimension::Reputation => "reputation",
            Dimension::Identity => "identity",
            Dimension::Adoption => "adoption",
        }
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The numbers of the formula.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// The formula that they make.
    pub formula: String,
    /// μ0: what is believed where nothing is known.
    pub prior_mean: f64,
    /// σ0: how little.
    pub prior_sd: f64,
    /// τ0: by how much one fully trusted source is typically off.
    pub source_sd: f64,
    /// ν0: how many sources' agreement it takes to outweigh `source_sd`.
    pub source_sd_strength: f64,
    /// σ_f: by how much the facets of one dimension differ.
    pub facet_sd: f64,
    /// How many standard deviations below the estimate the score is.
    pub bound_sds: f64,
    /// How many half-lives until a signal is left out.
    pub expires_after_half_lives: f64,
    /// What counts how much.
    pub dimensions: BTreeMap<Dimension, DimensionParameters>,
    /// Which tag measures what.
    pub tags: BTreeMap<String, TagParameters>,
}

/// One dimension's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DimensionParameters {
    /// ω: its part of the estimate.
    pub weight: f64,
    /// F: how many tags make it fully looked at.
    pub facets: f64,
    /// λ: how much the worst tag counts beside the mean.
    #[serde(default)]
    pub weakest_link: f64,
}

/// One tag's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TagParameters {
    /// What it measures.
    pub dimension: Dimension,
    /// After how many days it counts half.
    pub half_life_days: f64,
    /// How its value is read.
    #[serde(default)]
    pub scale: Scale,
}

/// How a value is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// As it is.
    #[default]
    Plain,
    /// `100·√√(value/100)`: the geometric mean of four factors.
    FourthRoot,
}

impl Scale {
    /// The value on the scale of the others.
    pub fn read(self, value: f64) -> f64 {
        match self {
            Scale::Plain => value,
            Scale::FourthRoot => 100.0 * libm::sqrt(libm::sqrt(value / 100.0)),
        }
    }
}

impl Parameters {
    /// Reads and checks them.
    pub fn from_toml(text: &str) -> Result<Self, Error> {
        let parameters: Self = toml::from_str(text).map_err(|e| Error::Parameters(e.to_string()))?;
        parameters.check()?;
        Ok(parameters)
    }

    /// Those that ship, with their digest.
    pub(super) fn standard() -> Result<&'static (Self, String), Error> {
        static PARSED: OnceLock<Result<(Parameters, String), Error>> = OnceLock::new();
        PARSED
            .get_or_init(|| {
                let parameters = Parameters::from_toml(STANDARD)?;
                let digest = parameters.digest()?;
                Ok((parameters, digest))
            })
            .as_ref()
            .map_err(Clone::clone)
    }

    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |why: String| Err(Error::Parameters(why));
        if self.formula != FORMULA {
            return Err(Error::UnknownFormula(self.formula.clone()));
        }
        if !(0.0..=100.0).contains(&self.prior_mean) {
            return wrong(format!("prior_mean {} is outside 0..=100", self.prior_mean));
        }
        let positive = [
            ("prior_sd", self.prior_sd),
            ("source_sd", self.source_sd),
            ("source_sd_strength", self.source_sd_strength),
            ("bound_sds", self.bound_sds),
            ("expires_after_half_lives", self.expires_after_half_lives),
        ];
        if let Some((name, value)) = positive.into_iter().find(|(_, value)| !(*value > 0.0 && value.is_finite())) {
            return wrong(format!("{name} {value} is not above 0"));
        }
        if !(self.facet_sd >= 0.0 && self.facet_sd.is_finite()) {
            return wrong(format!("facet_sd {} is below 0", self.facet_sd));
        }
        self.check_dimensions()?;
        self.check_tags()
    }

    fn check_dimensions(&self) -> Result<(), Error> {
        let wrong = |why: String| Err(Error::Parameters(why));
        if let Some(missing) = Dimension::ALL.into_iter().find(|dimension| !self.dimensions.contains_key(dimension)) {
            return wrong(format!("there is no [dimensions.{missing}]"));
        }
        for (name, dimension) in &self.dimensions {
            if !(0.0..=1.0).contains(&dimension.weight) {
                return wrong(format!("dimensions.{name}: weight {} is outside 0..=1", dimension.weight));
            }
            if !(dimension.facets > 0.0 && dimension.facets.is_finite()) {
                return wrong(format!("dimensions.{name}: facets {} is not above 0", dimension.facets));
            }
            if !(0.0..=1.0).contains(&dimension.weakest_link) {
                return wrong(format!("dimensions.{name}: weakest_link {} is outside 0..=1", dimension.weakest_link));
            }
        }
        let sum: f64 = self.dimensions.values().map(|dimension| dimension.weight).sum();
        if (sum - 1.0).abs() > WEIGHT_TOLERANCE {
            return wrong(format!("the weights of the dimensions sum to {sum}, not to 1"));
        }
        Ok(())
    }

    fn check_tags(&self) -> Result<(), Error> {
        let wrong = |why: String| Err(Error::Parameters(why));
        if self.tags.len() > MAX_TAGS {
            return wrong(format!("{} tags; at most {MAX_TAGS} are possible", self.tags.len()));
        }
        for (name, tag) in &self.tags {
            if !(tag.half_life_days > 0.0 && tag.half_life_days.is_finite()) {
                return wrong(format!("tags.{name}: half_life_days {} is not above 0", tag.half_life_days));
            }
        }
        Ok(())
    }

    /// Their digest.
    pub fn digest(&self) -> Result<String, Error> {
        let canonical = Canonical::of(self).map_err(|e| Error::Parameters(e.to_string()))?;
        let mut text = "sha256:".to_owned();
        for byte in Sha256::digest(canonical.as_bytes()) {
            // Writing into a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(from: &str, to: &str) -> String {
        assert!(STANDARD.contains(from), "{from}");
        Parameters::from_toml(&STANDARD.replacen(from, to, 1)).unwrap_err().to_string()
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_named() {
        assert!(refused("weight = 0.25", "weight = 0.20").contains("sum to 0.95"));
        assert!(refused("weight = 0.25", "weight = -0.25").contains("dimensions.security: weight -0.25"));
        let half_life = refused(
            "rel_uptime = { dimension = \"reliability\", half_life_days = 7.0",
            "rel_uptime = { dimension = \"reliability\", half_life_days = 0.0",
        );
        assert!(half_life.contains("tags.rel_uptime: half_life_days 0 is not above 0"), "{half_life}");
        assert!(refused("half_life_days = 30.0", "half_life_days = nan").contains("asi01_goal_hijack"));
        assert!(refused("formula = \"uts/2\"", "formula = \"uts/9\"").contains("unknown formula 'uts/9'"));
        assert!(refused("prior_sd = 25.0", "prior_sd = 0.0").contains("prior_sd 0 is not above 0"));
        assert!(refused("prior_mean = 50.0", "prior_mean = 101.0").contains("prior_mean 101"));
        assert!(refused("facets = 10.0", "facets = 0.0").contains("facets 0"));
        assert!(refused("[dimensions.adoption]", "[dimensions.popularity]").contains("unknown variant"));
        assert!(refused("prior_sd = 25.0", "").contains("missing field"));
        assert!(refused("prior_sd = 25.0", "prior_sd = 25.0\nextra = 1").contains("unknown field"));
    }

    #[test]
    fn the_digest_is_of_the_numbers_and_not_of_the_text() {
        let (standard, digest) = Parameters::standard().unwrap();
        let without_comments: String =
            STANDARD.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect();
        assert_eq!(
            &Parameters::from_toml(&without_comments.replace("= 0.20", "=   2e-1")).unwrap().digest().unwrap(),
            digest
        );
        let mut other = standard.clone();
        other.source_sd = 15.000000000000002;
        assert_ne!(&other.digest().unwrap(), digest);
    }
}
