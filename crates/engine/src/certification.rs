//! Certification: the highest tier whose *requirements* are met, beside the band of the score (seed 4, "Tier
//! boundaries"; DESIGN, *Universal score*). Requirements are data: `certification.toml` beside the sources.
//!
//! An agent is certified for a tier when its score reaches the band and every requirement of that tier and of those
//! below is met. What is unmet for the next tier is listed, each with what is needed and what there is.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{Error, tiers::Tier};

/// The source that counts as the authority's own; all others are third parties.
pub const AUTHORITY_SOURCE: &str = "credence";

/// One current, applicable signal under one tag.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fact<'a> {
    /// Who measured.
    pub source: &'a str,
    /// What.
    pub tag: &'a str,
    /// 0..=100.
    pub value: f64,
    /// The source's weight.
    pub weight: f64,
}

/// What a tier asks for beyond its score.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TierRequirements {
    /// The tier.
    pub tier: Tier,
    /// Distinct sources at least.
    pub sources: usize,
    /// Distinct sources other than the authority at least.
    #[serde(default)]
    pub third_parties: usize,
    /// Thresholds on measurements.
    #[serde(default)]
    pub measured: Vec<Measured>,
    /// Attestations that several sources must make.
    #[serde(default)]
    pub attested: Vec<Attested>,
}

/// Every one of `tags` is measured, and its weighted mean over the sources reaches `minimum`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// What people call it.
    pub name: String,
    /// The tags.
    pub tags: Vec<String>,
    /// The least value.
    pub minimum: f64,
}

/// At least `sources` distinct sources give `tag` a value of `minimum` or more.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attested {
    /// What people call it.
    pub name: String,
    /// The tag.
    pub tag: String,
    /// The least value that counts as an attestation.
    pub minimum: f64,
    /// How many sources.
    pub sources: usize,
}

/// Requirements of all certified tiers, lowest first.
#[derive(Debug, Clone)]
pub struct Requirements(Vec<TierRequirements>);

/// A requirement that is not met.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Unmet {
    /// What it is about.
    pub requirement: String,
    /// What is needed.
    pub needed: String,
    /// What there is.
    pub have: String,
}

/// The result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Certification {
    /// The highest tier certified; [`Tier::Unrated`] when none is.
    pub tier: Tier,
    /// The next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Tier>,
    /// What is missing for it.
    pub missing: Vec<Unmet>,
}

impl Requirements {
    /// The requirements that ship with Credence.
    pub fn standard() -> Result<Self, Error> {
        Self::from_toml(include_str!("../certification.toml"))
    }

    /// Reads `[[certified]]` tables, lowest tier first, one for each tier above Unrated.
    pub fn from_toml(text: &str) -> Result<Self, Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            certified: Vec<TierRequirements>,
        }
        let file: File = toml::from_str(text).map_err(|e| Error::Requirements(e.to_string()))?;
        let listed: Vec<Tier> = file.certified.iter().map(|r| r.tier).collect();
        if listed != Tier::ALL[1..] {
            return Err(Error::Requirements(
                "list bronze, silver, gold, platinum, diamond, once each, in this order".into(),
            ));
        }
        Ok(Self(file.certified))
    }

    /// Certifies an agent with this score and these facts.
    pub fn certify(&self, score: u8, facts: &[Fact<'_>]) -> Certification {
        let mut tier = Tier::Unrated;
        for requirements in &self.0 {
            let missing = requirements.unmet(score, facts);
            if !missing.is_empty() {
                return Certification { tier, next: Some(requirements.tier), missing };
            }
            tier = requirements.tier;
        }
        Certification { tier, next: None, missing: Vec::new() }
    }
}

impl TierRequirements {
    fn unmet(&self, score: u8, facts: &[Fact<'_>]) -> Vec<Unmet> {
        let distinct = |keep: &dyn Fn(&Fact<'_>) -> bool| {
            facts.iter().filter(|f| keep(f)).map(|f| f.source).collect::<BTreeSet<_>>().len()
        };
        let at_least = |name: &str, needed: usize, have: usize| {
            (have < needed).then(|| unmet(name, format!("at least {needed}"), have.to_string()))
        };
        let (lowest, _) = self.tier.band();
        let score = at_least("score", lowest.into(), score.into());
        let sources = at_least("sources", self.sources, distinct(&|_| true));
        let third = at_least("third-party sources", self.third_parties, distinct(&|f| f.source != AUTHORITY_SOURCE));
        let measured = self.measured.iter().filter_map(|m| m.unmet(facts));
        let attested = self.attested.iter().filter_map(|a| {
            let have = distinct(&|f| f.tag == a.tag && f.value >= a.minimum);
            at_least(&a.name, a.sources, have)
        });
        score.into_iter().chain(sources).chain(third).chain(measured).chain(attested).collect()
    }
}

impl Measured {
    fn unmet(&self, facts: &[Fact<'_>]) -> Option<Unmet> {
        let mean = |tag: &str| {
            let (sum, weight) = facts
                .iter()
                .filter(|f| f.tag == tag)
                .fold((0.0, 0.0), |(sum, weight), f| (sum + f.weight * f.value, weight + f.weight));
            (weight > 0.0).then(|| sum / weight)
        };
        let short: Vec<String> = self
            .tags
            .iter()
            .filter_map(|tag| match mean(tag) {
                None => Some(format!("{tag} not measured")),
                Some(mean) if mean < self.minimum => Some(format!("{tag} {mean:.1}")),
                Some(_) => None,
            })
            .collect();
        let needed = format!("{} on each of {} measurements", self.minimum, self.tags.len());
        (!short.is_empty()).then(|| unmet(&self.name, needed, short.join(", ")))
    }
}

fn unmet(requirement: &str, needed: String, have: String) -> Unmet {
    Unmet { requirement: requirement.to_owned(), needed, have }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asi(value: f64) -> Vec<Fact<'static>> {
        let standard = Requirements::standard().unwrap();
        let tags: Vec<&'static str> = standard.0[2].measured[0].tags.iter().map(|t| &*t.clone().leak()).collect();
        tags.into_iter().map(|tag| Fact { source: AUTHORITY_SOURCE, tag, value, weight: 1.0 }).collect()
    }

    fn third_parties(n: usize) -> Vec<Fact<'static>> {
        let name = |i: usize| &*format!("s{i}").leak();
        (0..n).map(|i| Fact { source: name(i), tag: "third_party_score", value: 90.0, weight: 1.0 }).collect()
    }

    #[test]
    fn a_high_score_without_breadth_is_not_certified() {
        let standard = Requirements::standard().unwrap();
        let thin = standard.certify(32, &third_parties(1));
        assert_eq!((thin.tier, thin.next), (Tier::Unrated, Some(Tier::Bronze)));
        assert_eq!(thin.missing, [unmet("sources", "at least 3".into(), "1".into())]);
    }

    #[test]
    fn requirements_gate_each_tier() {
        let standard = Requirements::standard().unwrap();
        let mut facts = third_parties(6);
        assert_eq!(standard.certify(60, &facts).tier, Tier::Bronze);
        facts.extend(asi(75.0));
        let silver = standard.certify(60, &facts);
        assert_eq!((silver.tier, silver.next), (Tier::Silver, Some(Tier::Gold)));
        assert_eq!(silver.missing.len(), 1);
        facts.push(Fact { source: "chain", tag: "identity_onchain", value: 100.0, weight: 1.0 });
        assert_eq!(standard.certify(60, &facts).tier, Tier::Gold);
        assert_eq!(standard.certify(49, &facts).tier, Tier::Silver, "the band must be reached as well");
    }

    #[test]
    fn disorderly_requirements_are_refused() {
        assert!(Requirements::from_toml("[[certified]]\ntier='gold'\nsources=1").is_err());
        assert!(Requirements::from_toml("nonsense = 1").is_err());
    }
}
