//! The assured score, formula [`FORMULA`] (DESIGN, *Assured score*): what can be vouched for.
//!
//! The universal score says what the sources say and how many they are. This one is the one-sided 95 % lower bound of θ, what
//! arbitrarily many fully trusted, fresh, independent sources would report over all facets of the counted dimensions. The estimate
//! and its range stand beside it. [`Parameters`] are data.
//!
//! ```text
//! signal     w = min(1, weight)     e = w · 2^(−age/half-life), nothing after ten half-lives     v = value on its scale
//! voice g    e_gk = max e, v_gk and σ_gk = e-weighted means over the sources of g under tag k
//! tag k      E = Σ e_gk     x = Σ e v / E     m² = Σ (e σ)² / E²     a = min(1, E)
//! dimension  A = Σ a     x̄ = Σ a x / A     x = (1−λ)·x̄ + λ·min_k(x̄ + a_k(x_k − x̄))
//!            p_g = Σ_k (a_k/A)(e_gk/E_k)     n_eff = 1/Σ p²     1/ν = Σ p²/max_k e_gk
//!            τ² = (ν0·τ0² + Σ_k (a_k/A) Σ_g e (v − x_k)²) / (ν0 + Σ_k (a_k/A)(E_k − Σ e²/E_k))
//!            u² = σ_f²/K · (1 − K/F), K = min(A, F)                       what was not looked at
//!            V = τ²/ν + Σ (a/A)² m² + u²     Z = σ0²/(σ0² + V)     θ = μ0 + Z(x − μ0)     sd = √(Z·V)
//! headline   θ = μ0 + Σ ω Z (x − μ0)     s² = (Σ ω (1−Z) σ0)² + Σ (ω Z)² V     low, high = θ ∓ 1.645·s within 0..=100
//!            cap = the least upper bound of a security tag by itself, not aged
//!            score = ⌊min(low, cap) + ½⌋     known = Σ ω Z     n_eff = (Σ q)²/Σ q², q_g = Σ_d ω Z p_g
//! ```
//!
//! Missing evidence only widens the range. Sums run in the order (tag, voice, input); callers that must agree to the last bit sort
//! their signals by (source, tag) first, as for `uts/1`.

mod advice;
mod compute;
mod model;
mod parameters;
mod sum;

use std::collections::{BTreeMap, BTreeSet};

use credence_protocol::{Root, ScoreStatus};
use serde::{Deserialize, Serialize};

pub use advice::{Advice, GOOD_VALUE};
pub use compute::{DimensionNumbers, Numbers, Scratch};
pub use model::{Model, TagSlot};
pub use parameters::{DIMENSIONS, Dimension, DimensionParameters, Parameters, Scale, TagParameters};

use crate::{
    Error,
    tiers::Tier,
    voices::{Speaker, Voices},
};

/// The formula's id, recorded with every score.
pub const FORMULA: &str = "uts/2";

/// One current signal under one tag, as the formula sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measurement {
    /// Its tag: [`Model::tag`].
    pub tag: TagSlot,
    /// Whose voice it is: [`Voices::voice`].
    pub voice: u32,
    /// 0..=100.
    pub value: f64,
    /// 0..=50.
    pub stddev: f64,
    /// The source's weight; above 1 counts as 1, and a signal of weight 0 is left out.
    pub weight: f64,
    /// Days between `observed_at` and the hour of evaluation; 0 for one from the near future.
    pub age_days: f64,
}

/// One current signal under one tag, by names.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Signal<'a> {
    /// Who measured.
    pub source: &'a str,
    /// Who runs the source; itself where nobody is stated.
    pub owner: Option<&'a str>,
    /// The registries that the source re-reads.
    pub roots: &'a [Root],
    /// What was measured.
    pub tag: &'a str,
    /// 0..=100.
    pub value: f64,
    /// 0..=50.
    pub stddev: f64,
    /// The source's weight.
    pub weight: f64,
    /// Days between `observed_at` and the hour of evaluation.
    pub age_days: f64,
}

impl<'a> Signal<'a> {
    /// The source, by what decides whose voice it is.
    pub fn speaker(&self) -> Speaker<'a> {
        Speaker { source: self.source, owner: self.owner, roots: self.roots, weight: self.weight }
    }
}

/// An assured score with everything that is published of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assured {
    /// What can be vouched for, 0..=100.
    pub score: u8,
    /// What is believed.
    pub estimate: f64,
    /// The standard deviation of that.
    pub sd: f64,
    /// The one-sided 95 % lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
    /// What the worst hole in security leaves possible; 100 where none was found.
    pub cap: f64,
    /// The share of the estimate that is evidence, 0..=1.
    pub known: f64,
    /// Independent voices that it is worth, by their influence.
    pub n_eff: f64,
    /// The band of the score.
    pub tier: Tier,
    /// `published`, or `unrated` where nothing that counts was measured.
    pub status: ScoreStatus,
    /// The largest change of the score when one voice is left out.
    pub fragility: u8,
    /// Tags that belong to no dimension.
    pub not_counted: Vec<String>,
    /// What was measured, by dimension.
    pub dimensions: BTreeMap<Dimension, DimensionScore>,
    /// What adds up to the score.
    pub steps: Vec<Step>,
}

/// One dimension of an assured score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DimensionScore {
    /// What is believed of it.
    pub estimate: f64,
    /// The standard deviation of that.
    pub sd: f64,
    /// The share of the estimate that is evidence, 0..=1.
    pub known: f64,
    /// Independent voices that it is worth.
    pub n_eff: f64,
    /// The tag that is worst, where the worst counts beside the mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weakest: Option<String>,
}

/// One summand of a score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// `prior`, a dimension, `doubt`, `clamp`, `cap` or `rounding`.
    pub name: String,
    /// Points, not rounded.
    pub value: f64,
}

/// What decisions look at: an assured score without what only explains it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AssuredFacts {
    /// What can be vouched for.
    pub score: u8,
    /// What is believed.
    pub estimate: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
    /// What the worst hole in security leaves possible.
    pub cap: f64,
    /// The share of the estimate that is evidence.
    pub known: f64,
    /// By dimension, in the order of [`Dimension::ALL`]; one that nobody measured has the prior and nothing known.
    pub dimensions: [DimensionFacts; DIMENSIONS],
}

/// One dimension of [`AssuredFacts`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DimensionFacts {
    /// What is believed of it.
    pub estimate: f64,
    /// The share of that which is evidence.
    pub known: f64,
    /// Whether it counts in the score.
    pub counted: bool,
}

impl Model {
    /// What decisions look at.
    pub fn facts(&self, assured: &Assured) -> AssuredFacts {
        let Assured { score, estimate, low, high, cap, known, .. } = *assured;
        let dimensions = Dimension::ALL.map(|dimension| {
            let measured = assured.dimensions.get(&dimension);
            DimensionFacts {
                estimate: measured.map_or(self.parameters().prior_mean, |measured| measured.estimate),
                known: measured.map_or(0.0, |measured| measured.known),
                counted: self.dimensions[dimension as usize].weight > 0.0,
            }
        });
        AssuredFacts { score, estimate, low, high, cap, known, dimensions }
    }

    /// The score of `signals`, with voices derived from their sources.
    pub fn score(&self, signals: &[Signal<'_>]) -> Result<Assured, Error> {
        let mut scratch = Scratch::default();
        let speakers: Vec<Speaker<'_>> = signals.iter().map(Signal::speaker).collect();
        let voices = Voices::of(&speakers);
        let mut measurements = Vec::with_capacity(signals.len());
        let mut not_counted = BTreeSet::new();
        for (n, signal) in signals.iter().enumerate() {
            let Signal { value, stddev, weight, age_days, .. } = *signal;
            // A signal under a tag without a dimension is checked like the others.
            let tag = self.tag(signal.tag);
            let checked = Measurement {
                tag: tag.unwrap_or(TagSlot(0)),
                voice: voices.voice(n).unwrap_or(0),
                value,
                stddev,
                weight,
                age_days,
            };
            compute::check(n, &checked)?;
            match tag {
                Some(_) => measurements.push(checked),
                None if weight > 0.0 => drop(not_counted.insert(signal.tag.to_owned())),
                None => {}
            }
        }
        let numbers = self.numbers(&measurements, &mut scratch)?;
        let fragility = self.fragility(&numbers, &mut scratch);
        Ok(self.assured(&numbers, fragility, not_counted.into_iter().collect()))
    }

    /// The numbers with their names, as they are published.
    pub fn assured(&self, numbers: &Numbers, fragility: u8, not_counted: Vec<String>) -> Assured {
        let dimensions = Dimension::ALL
            .into_iter()
            .filter_map(|dimension| {
                let n = numbers.dimensions[dimension as usize].as_ref()?;
                let weakest = (self.dimensions[dimension as usize].weakest_link > 0.0)
                    .then(|| self.tag_name(n.weakest).to_owned());
                let score = DimensionScore { estimate: n.estimate, sd: n.sd, known: n.known, n_eff: n.n_eff, weakest };
                Some((dimension, score))
            })
            .collect();
        Assured {
            score: numbers.score,
            estimate: numbers.estimate,
            sd: numbers.sd,
            low: numbers.low,
            high: numbers.high,
            cap: numbers.cap,
            known: numbers.known,
            n_eff: numbers.n_eff,
            tier: Tier::of(numbers.score),
            status: if numbers.rated { ScoreStatus::Published } else { ScoreStatus::Unrated },
            fragility,
            not_counted,
            dimensions,
            steps: self.steps(numbers),
        }
    }

    /// What adds up to the score, in the order given, to the last bit.
    fn steps(&self, numbers: &Numbers) -> Vec<Step> {
        let mut steps = Vec::with_capacity(DIMENSIONS + 5);
        let mut sum = 0.0;
        let mut step = |name: &str, value: f64| {
            sum += value;
            steps.push(Step { name: name.to_owned(), value });
            sum
        };
        step("prior", self.parameters().prior_mean);
        for dimension in Dimension::ALL {
            let weight = self.dimensions[dimension as usize].weight;
            let points = numbers.dimensions[dimension as usize].as_ref().map_or(0.0, |n| self.points(weight, n));
            step(dimension.name(), points);
        }
        let bound = step("doubt", -self.parameters().bound_sds * numbers.sd);
        let low = step("clamp", numbers.low - bound);
        let capped = step("cap", numbers.low.min(numbers.cap) - low);
        step("rounding", f64::from(numbers.score) - capped);
        steps
    }
}
