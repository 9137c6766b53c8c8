use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::{Subcommand, ValueEnum};
use credence_engine::{
    hcs25::Profile,
    reputation,
    universal::{self, DEFAULT_COVERAGE_FLOOR, Weighted},
};
use credence_protocol::strict;
use credence_verify::Evidence;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Done, hcs25};
use crate::{input, output::Output};

/// A model's input: a few hundred thousand signals.
const MAX_INPUT_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Subcommand)]
pub enum Command {
    /// The universal score: {"signals":[{"source","tag","value","stddev","weight"}]}
    Universal,
    /// HCS-25's output-verification adapter: an outputVerificationSummary, or
    /// {"providers":[{"id","owner"?,…summary}],"agent"?,"now"?}
    OutputVerification {
        /// Whose reading of the text
        #[arg(long, value_enum, default_value_t = Reading::Spec)]
        profile: Reading,
    },
    /// The HCS-25 trust score: {"subject":{…},"adapters":[{"adapter":"*"}],"profile"?,"stale_multiplier"?,
    /// "rounding_decimals"?,"now"?,"version"?,"compute_confidence"?,"snapshot"?}
    Hcs25,
    /// The reputation: {"c","t","p","v","q","previous"?,"alpha"?,"delta_max"?}
    Reputation,
    /// The verification engine's combiner: {"prior","signals":[{"name","fired","score","likelihood_ratio"}]}
    Posterior,
}

/// Whose reading of the output-verification text.
#[derive(Clone, Copy, ValueEnum)]
pub enum Reading {
    /// The text: quality is an integer, nothing else is rounded
    Spec,
    /// The reference implementation: two decimals at three stages
    Reference,
}

impl From<Reading> for Profile {
    fn from(reading: Reading) -> Self {
        match reading {
            Reading::Spec => Profile::Spec,
            Reading::Reference => Profile::Reference,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reputation {
    c: f64,
    t: f64,
    p: f64,
    v: f64,
    q: f64,
    previous: Option<f64>,
    alpha: Option<f64>,
    delta_max: Option<f64>,
}

fn reputation(request: &Reputation) -> anyhow::Result<Value> {
    let Reputation { c, t, p, v, q, previous, alpha, delta_max } = *request;
    reputation::Factors { c, t, p, v, q }.check()?;
    let defaults = reputation::Parameters::default();
    let factors = reputation::Factors { c, t, p, v, q: q.min(defaults.max_penalty) };
    if let Some(previous) = previous {
        ensure!((0.0..=100.0).contains(&previous), "previous {previous} is outside 0..=100");
    }
    let parameters = reputation::Parameters {
        alpha: alpha.unwrap_or(defaults.alpha),
        delta_max: delta_max.unwrap_or(defaults.delta_max),
        ..defaults
    };
    parameters.check()?;
    let raw = factors.raw();
    let score = parameters.update(raw, previous);
    Ok(json!({ "raw": raw, "score": score, "tier": reputation::Tier::of(score) }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Posterior {
    prior: f64,
    #[serde(rename = "signals")]
    checks: Vec<PosteriorCheck>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PosteriorCheck {
    #[serde(rename = "name")]
    _name: String,
    #[serde(flatten)]
    evidence: Evidence,
}

fn posterior(request: &Posterior) -> anyhow::Result<Value> {
    ensure!(request.prior > 0.0 && request.prior < 1.0, "prior {} is not between 0 and 1", request.prior);
    for (n, PosteriorCheck { evidence, .. }) in request.checks.iter().enumerate() {
        ensure!((0.0..=1.0).contains(&evidence.score), "signal {n}: score {} is outside 0..=1", evidence.score);
        let ratio = evidence.likelihood_ratio;
        ensure!(ratio > 0.0 && ratio.is_finite(), "signal {n}: likelihood_ratio {ratio} is not above 0");
    }
    let evidence = || request.checks.iter().map(|check| check.evidence);
    let posterior = credence_verify::posterior(request.prior, evidence());
    let verdict = credence_verify::decide_by_default(posterior, evidence().any(|check| check.fired));
    Ok(json!({ "posterior": posterior, "verdict": verdict }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Universal {
    signals: Vec<UniversalSignal>,
    #[serde(default = "default_floor")]
    coverage_floor: f64,
}

fn default_floor() -> f64 {
    DEFAULT_COVERAGE_FLOOR
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UniversalSignal {
    source: String,
    #[serde(rename = "tag")]
    _tag: String,
    value: f64,
    #[serde(default)]
    stddev: f64,
    #[serde(default = "one")]
    weight: f64,
}

fn one() -> f64 {
    1.0
}

pub fn run(command: Command) -> Done {
    let input = input::stdin(MAX_INPUT_BYTES)?;
    match command {
        Command::OutputVerification { profile } => {
            Output { json: true }.show(&hcs25::output_verification(&input, profile.into())?, String::new)?;
        }
        Command::Hcs25 => Output { json: true }.show(&hcs25::score(&input)?, String::new)?,
        Command::Reputation => {
            let request: Reputation = strict::object(&input).context("on standard input")?;
            Output { json: true }.show(&reputation(&request)?, String::new)?;
        }
        Command::Posterior => {
            let request: Posterior = strict::object(&input).context("on standard input")?;
            Output { json: true }.show(&posterior(&request)?, String::new)?;
        }
        Command::Universal => {
            let request: Universal = strict::object(&input).context("on standard input")?;
            let weighted: Vec<_> = request
                .signals
                .iter()
                .map(|s| Weighted { source: s.source.as_str(), value: s.value, stddev: s.stddev, weight: s.weight })
                .collect();
            Output { json: true }.show(&universal::score(&weighted, request.coverage_floor)?, String::new)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
