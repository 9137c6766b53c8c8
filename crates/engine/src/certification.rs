//! Certification: the highest tier whose *requirements* are met, beside the band of the score (seed 4, "Tier
//! boundaries"; DESIGN, *Universal score*). Requirements are data: `certification.toml` beside the sources.
//!
//! An agent is certified for a tier when its universal score reaches the band and every requirement of that tier and of those
//! below is met. The assured score (`uts/2`) is a brake: its estimate must reach the band as well, and from Gold on enough must be
//! known of security and output, with no counted dimension too low. Sources are counted as [independent voices](crate::voices), and
//! attestations by the chains that their sources' roots name. What is unmet for the next tier is listed, each with what is needed
//! and what there is.

use credence_protocol::Root;
use serde::{Deserialize, Serialize};

use crate::{
    Error,
    assured::{AssuredFacts, Dimension},
    tiers::Tier,
    voices::{self, MIN_COUNTED_WEIGHT, Speaker, Voices},
};

/// The source that counts as the authority's own; all others are third parties.
pub const AUTHORITY_SOURCE: &str = "credence";

/// One current, applicable signal under one tag.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fact<'a> {
    /// Who measured.
    pub source: &'a str,
    /// Who runs the source; itself where nobody is stated.
    pub owner: Option<&'a str>,
    /// The registries that the source re-reads.
    pub roots: &'a [Root],
    /// What.
    pub tag: &'a str,
    /// 0..=100.
    pub value: f64,
    /// The source's weight.
    pub weight: f64,
}

impl<'a> Fact<'a> {
    /// The source, by what decides whose voice it is.
    pub fn speaker(&self) -> Speaker<'a> {
        Speaker { source: self.source, owner: self.owner, roots: self.roots, weight: self.weight }
    }
}

/// What a tier asks for beyond its score.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TierRequirements {
    /// The tier.
    pub tier: Tier,
    /// Independent sources at least.
    pub sources: usize,
    /// Independent sources other than the authority's voice at least.
    #[serde(default)]
    pub third_parties: usize,
    /// Thresholds on measurements.
    #[serde(default)]
    pub measured: Vec<Measured>,
    /// Attestations that must stand on several chains.
    #[serde(default)]
    pub attested: Vec<Attested>,
    /// What the assured score must show beyond an estimate that reaches the band.
    #[serde(default)]
    pub assured: Option<Brake>,
}

/// What the assured score must show.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Brake {
    /// The share that must be evidence in each of `known_dimensions`.
    pub known: f64,
    /// Where that much must be known.
    pub known_dimensions: Vec<Dimension>,
    /// The least estimate of every counted dimension.
    pub least_estimate: f64,
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

/// On at least `chains` distinct chains, sources that count give `tag` a value of `minimum` or more.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attested {
    /// What people call it.
    pub name: String,
    /// The tag.
    pub tag: String,
    /// The least value that counts as an attestation.
    pub minimum: f64,
    /// How many chains.
    pub chains: usize,
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

    /// Certifies an agent with this universal score, this assured score and these facts.
    pub fn certify(&self, score: u8, assured: &AssuredFacts, facts: &[Fact<'_>]) -> Certification {
        let speakers: Vec<Speaker<'_>> = facts.iter().map(Fact::speaker).collect();
        let candidate = Candidate { score, assured, facts, voices: Voices::of(&speakers), speakers };
        let mut tier = Tier::Unrated;
        for requirements in &self.0 {
            let missing = requirements.unmet(&candidate);
            if !missing.is_empty() {
                return Certification { tier, next: Some(requirements.tier), missing };
            }
            tier = requirements.tier;
        }
        Certification { tier, next: None, missing: Vec::new() }
    }
}

struct Candidate<'a> {
    score: u8,
    assured: &'a AssuredFacts,
    facts: &'a [Fact<'a>],
    speakers: Vec<Speaker<'a>>,
    voices: Voices,
}

impl TierRequirements {
    fn unmet(&self, candidate: &Candidate<'_>) -> Vec<Unmet> {
        let Candidate { facts, speakers, voices, assured, .. } = candidate;
        let at_least = |name: &str, needed: usize, have: usize| {
            (have < needed).then(|| unmet(name, format!("at least {needed}"), have.to_string()))
        };
        let (lowest, _) = self.tier.band();
        let score = at_least("score", lowest.into(), candidate.score.into());
        let estimate = (assured.estimate < f64::from(lowest))
            .then(|| unmet("assured estimate", format!("at least {lowest}"), format!("{:.1}", assured.estimate)));
        let sources = at_least("sources", self.sources, voices.independent());
        let third_parties = voices.independent_without(|n| speakers[n].source == AUTHORITY_SOURCE);
        let third = at_least("third-party sources", self.third_parties, third_parties);
        let measured = self.measured.iter().filter_map(|m| m.unmet(facts));
        let attested = self.attested.iter().filter_map(|a| {
            let attests = |(fact, speaker): (&Fact<'_>, &'_ Speaker<'_>)| {
                fact.tag == a.tag && fact.value >= a.minimum && speaker.weight >= MIN_COUNTED_WEIGHT
            };
            let attesting = facts.iter().zip(speakers).filter(|pair| attests(*pair)).map(|(_, speaker)| speaker);
            at_least(&a.name, a.chains, voices::chains(attesting).len())
        });
        let brake = self.assured.iter().flat_map(|brake| brake.unmet(assured));
        let listed = score.into_iter().chain(estimate).chain(sources).chain(third);
        listed.chain(measured).chain(attested).chain(brake).collect()
    }
}

impl Brake {
    fn unmet(&self, assured: &AssuredFacts) -> Vec<Unmet> {
        let all = || Dimension::ALL.into_iter().zip(assured.dimensions);
        let unknown = all()
            .filter(|(name, facts)| self.known_dimensions.contains(name) && facts.known < self.known)
            .map(|(name, facts)| {
                let (needed, have) = (format!("{:.0} %", self.known * 100.0), format!("{:.0} %", facts.known * 100.0));
                unmet(&format!("evidence of {name}"), needed, have)
            });
        let low =
            all().filter(|(_, facts)| facts.counted && facts.estimate < self.least_estimate).map(|(name, facts)| {
                unmet(
                    &format!("estimate of {name}"),
                    format!("at least {}", self.least_estimate),
                    format!("{:.1}", facts.estimate),
                )
            });
        unknown.chain(low).collect()
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
    use crate::assured::{DIMENSIONS, DimensionFacts};

    /// An assured score that holds nobody back.
    const GOOD: AssuredFacts = AssuredFacts {
        score: 90,
        estimate: 95.0,
        low: 90.0,
        high: 99.0,
        cap: 100.0,
        known: 0.9,
        dimensions: [DimensionFacts { estimate: 90.0, known: 0.9, counted: true }; DIMENSIONS],
    };

    fn fact<'a>(source: &'a str, tag: &'a str, value: f64) -> Fact<'a> {
        Fact { source, owner: None, roots: &[], tag, value, weight: 1.0 }
    }

    fn asi(value: f64) -> Vec<Fact<'static>> {
        let standard = Requirements::standard().unwrap();
        let tags: Vec<&'static str> = standard.0[2].measured[0].tags.iter().map(|t| &*t.clone().leak()).collect();
        tags.into_iter().map(|tag| fact(AUTHORITY_SOURCE, tag, value)).collect()
    }

    fn third_parties(n: usize) -> Vec<Fact<'static>> {
        let name = |i: usize| &*format!("s{i}").leak();
        (0..n).map(|i| fact(name(i), "third_party_score", 90.0)).collect()
    }

    fn roots(list: &[&str]) -> &'static [Root] {
        list.iter().map(|root| Root::new(root).unwrap()).collect::<Vec<_>>().leak()
    }

    #[test]
    fn a_high_score_without_breadth_is_not_certified() {
        let standard = Requirements::standard().unwrap();
        let thin = standard.certify(32, &GOOD, &third_parties(1));
        assert_eq!((thin.tier, thin.next), (Tier::Unrated, Some(Tier::Bronze)));
        assert_eq!(thin.missing, [unmet("sources", "at least 3".into(), "1".into())]);
    }

    #[test]
    fn requirements_gate_each_tier() {
        let standard = Requirements::standard().unwrap();
        let mut facts = third_parties(6);
        assert_eq!(standard.certify(60, &GOOD, &facts).tier, Tier::Bronze);
        facts.extend(asi(75.0));
        let silver = standard.certify(60, &GOOD, &facts);
        assert_eq!((silver.tier, silver.next), (Tier::Silver, Some(Tier::Gold)));
        assert_eq!(silver.missing.len(), 1);
        let base = roots(&["erc8004:eip155:8453"]);
        facts.push(Fact { roots: base, ..fact("chain", "identity_onchain", 100.0) });
        assert_eq!(standard.certify(60, &GOOD, &facts).tier, Tier::Gold);
        assert_eq!(standard.certify(49, &GOOD, &facts).tier, Tier::Silver, "the band must be reached as well");
    }

    #[test]
    fn sources_of_one_owner_and_sources_without_weight_are_no_breadth() {
        let standard = Requirements::standard().unwrap();
        let mut facts = third_parties(6);
        for fact in &mut facts {
            fact.owner = Some("one");
        }
        assert_eq!(standard.certify(60, &GOOD, &facts).tier, Tier::Unrated);
        let mut facts = third_parties(6);
        for fact in &mut facts {
            fact.weight = 0.000001;
        }
        assert_eq!(standard.certify(60, &GOOD, &facts).tier, Tier::Unrated);
    }

    #[test]
    fn attestations_are_counted_by_chain() {
        let standard = Requirements::standard().unwrap();
        let attested = |list: [&[&str]; 3]| {
            let mut facts = third_parties(10);
            facts.extend(asi(95.0));
            facts.extend(["rel_uptime", "rel_latency_p95", "rel_error_rate"].map(|tag| fact("s1", tag, 95.0)));
            for (name, names) in ["a", "b", "c"].into_iter().zip(list) {
                facts.push(Fact { roots: roots(names), ..fact(name, "identity_onchain", 100.0) });
            }
            standard.certify(95, &GOOD, &facts).tier
        };
        assert_eq!(attested([&[], &[], &[]]), Tier::Silver, "sources that name no chain attest to none");
        let base: &[&str] = &["erc8004:eip155:8453"];
        assert_eq!(attested([base, base, base]), Tier::Gold, "three sources on one chain are one chain");
        assert_eq!(attested([base, &["erc8004:eip155:1"], &[]]), Tier::Platinum);
        assert_eq!(attested([base, &["erc8004:eip155:1"], &["seal:solana:mainnet"]]), Tier::Diamond);
    }

    #[test]
    fn the_assured_score_is_a_brake() {
        let standard = Requirements::standard().unwrap();
        let mut facts = third_parties(7);
        facts.extend(asi(95.0));
        facts.push(Fact { roots: roots(&["erc8004:eip155:1"]), ..fact("chain", "identity_onchain", 100.0) });
        let certify = |change: &dyn Fn(&mut AssuredFacts)| {
            let mut assured = GOOD;
            change(&mut assured);
            let certification = standard.certify(69, &assured, &facts);
            (certification.tier, certification.missing.into_iter().map(|m| m.requirement).collect::<Vec<_>>())
        };
        assert_eq!(certify(&|_| {}).0, Tier::Gold);
        assert_eq!(certify(&|a| a.estimate = 49.9), (Tier::Silver, vec!["assured estimate".into()]));
        assert_eq!(certify(&|a| a.dimensions[1].known = 0.49), (Tier::Silver, vec!["evidence of output".into()]));
        assert_eq!(certify(&|a| a.dimensions[4].estimate = 49.0), (Tier::Silver, vec!["estimate of identity".into()]));
        // What is not counted holds nobody back.
        assert_eq!(
            certify(&|a| a.dimensions[5] = DimensionFacts { estimate: 0.0, known: 1.0, counted: false }).0,
            Tier::Gold
        );
    }

    #[test]
    fn disorderly_requirements_are_refused() {
        assert!(Requirements::from_toml("[[certified]]\ntier='gold'\nsources=1").is_err());
        assert!(Requirements::from_toml("nonsense = 1").is_err());
    }
}
