use std::{collections::BTreeMap, process::ExitCode};

use anyhow::{Context, bail, ensure};
use clap::{Subcommand, ValueEnum};
use credence_engine::{
    assured::{self, Model, Signal},
    hcs25::Profile,
    reputation,
    universal::{self, DEFAULT_COVERAGE_FLOOR, Weighted},
    voices::{Speaker, Voices},
};
use credence_protocol::{EntityId, Root, strict};
use credence_verify::Evidence;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Done, hcs25};
use crate::{input, output::Output};

/// A model's input: a few hundred thousand signals.
const MAX_INPUT_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Subcommand)]
pub enum Command {
    /// The universal score: {"signals":[{"source","owner"?,"roots"?,"tag","value","stddev","weight"}],"coverage_floor"?}
    ///
    /// Sources with the same owner, or that share a root, count as one.
    Universal,
    /// The assured score: {"signals":[{"source","owner"?,"roots"?,"tag","value","stddev","weight","age_days"?}],
    /// "formula"?,"parameters"?}
    ///
    /// The steps of the answer add up to its score. `parameters` is the digest of the parameters to use; those of this version by
    /// default, which the answer names.
    Assured,
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
struct Assured {
    signals: Vec<AgedSignal>,
    formula: Option<String>,
    parameters: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UniversalSignal {
    source: String,
    owner: Option<EntityId>,
    roots: Option<Vec<Root>>,
    #[serde(rename = "tag")]
    _tag: String,
    value: f64,
    #[serde(default)]
    stddev: f64,
    #[serde(default = "one")]
    weight: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AgedSignal {
    source: String,
    owner: Option<EntityId>,
    roots: Option<Vec<Root>>,
    tag: String,
    value: f64,
    #[serde(default)]
    stddev: f64,
    #[serde(default = "one")]
    weight: f64,
    #[serde(default)]
    age_days: f64,
}

impl UniversalSignal {
    fn speaker(&self) -> Speaker<'_> {
        let owner = self.owner.as_ref().map(EntityId::as_str);
        Speaker { source: &self.source, owner, roots: self.roots.as_deref().unwrap_or_default(), weight: self.weight }
    }
}

impl AgedSignal {
    fn signal(&self) -> Signal<'_> {
        Signal {
            source: &self.source,
            owner: self.owner.as_ref().map(EntityId::as_str),
            roots: self.roots.as_deref().unwrap_or_default(),
            tag: &self.tag,
            value: self.value,
            stddev: self.stddev,
            weight: self.weight,
            age_days: self.age_days,
        }
    }
}

fn universal(request: &Universal) -> anyhow::Result<universal::Outcome> {
    let speakers: Vec<Speaker<'_>> = request.signals.iter().map(UniversalSignal::speaker).collect();
    one_owner_each(&speakers)?;
    let weighted: Vec<_> = request
        .signals
        .iter()
        .map(|s| Weighted { source: s.source.as_str(), value: s.value, stddev: s.stddev, weight: s.weight })
        .collect();
    Ok(universal::score_with(&weighted, Voices::of(&speakers).independent(), request.coverage_floor)?)
}

fn assured(request: &Assured) -> anyhow::Result<Value> {
    if let Some(formula) = request.formula.as_deref().filter(|formula| *formula != assured::FORMULA) {
        bail!("unknown formula '{formula}': `compute assured` computes {}", assured::FORMULA);
    }
    let model = match &request.parameters {
        Some(digest) => Model::with_digest(digest)?,
        None => Model::standard()?,
    };
    let signals: Vec<Signal<'_>> = request.signals.iter().map(AgedSignal::signal).collect();
    let speakers: Vec<Speaker<'_>> = signals.iter().map(Signal::speaker).collect();
    one_owner_each(&speakers)?;
    let mut answer = serde_json::to_value(model.score(&signals)?)?;
    answer["formula"] = json!(assured::FORMULA);
    answer["parameters"] = json!(model.digest());
    Ok(answer)
}

/// A source has one owner, however many signals it has.
fn one_owner_each(speakers: &[Speaker<'_>]) -> anyhow::Result<()> {
    let mut known: BTreeMap<&str, Speaker<'_>> = BTreeMap::new();
    for (n, speaker) in speakers.iter().enumerate() {
        let first = known.entry(speaker.source).or_insert(*speaker);
        ensure!(
            first.owner == speaker.owner,
            "signal {n}: source '{}' has another owner than in an earlier signal",
            speaker.source
        );
    }
    Ok(())
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
            Output { json: true }.show(&universal(&request)?, String::new)?;
        }
        Command::Assured => {
            let request: Assured = strict::object(&input).context("on standard input")?;
            Output { json: true }.show(&assured(&request)?, String::new)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
