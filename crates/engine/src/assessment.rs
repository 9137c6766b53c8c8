//! Should I go ahead? The authority's interpretation of its own numbers, for one purpose (seed 3; DESIGN, *Assessment*).
//!
//! Pure rules over verified numbers: the assured score (`uts/2`) against the thresholds of the [context](Rules), which are data.
//!
//! ```text
//! proceed   score ≥ proceed, and enough is known of every dimension that the context names
//! decline   known ≥ known_to_decline and estimate < decline: what is known is bad
//! caution   otherwise; for lack of evidence what the context says of the unknown, which for high value is decline
//! ```
//!
//! Unknown is not bad: the text says which of the two it is. A revoked entity is declined whatever its numbers; one whose
//! verification lapsed, or that has fewer independent sources than the context asks for, gets caution at best.
//!
//! Every text is made here, of numbers and fixed words: no text that an entity wrote can enter, because none is an input. The
//! caps of the protocol (reasoning 500, ten highlights of 200, 4 KiB in all) hold by construction, and a test tries the
//! longest.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    Error,
    assured::{AssuredFacts, Dimension},
    tiers::Tier,
    universal::Outcome,
};

/// Characters of the reasoning.
pub const MAX_REASONING: usize = 500;
/// Highlights.
pub const MAX_HIGHLIGHTS: usize = 10;
/// Characters of a highlight.
pub const MAX_HIGHLIGHT: usize = 200;
/// Bytes of an assessment.
pub const MAX_BYTES: usize = 4096;
/// Events made by others below which a reputation is new.
const ESTABLISHED_EVENTS: u64 = 10;

const STANDARD: &str = include_str!("../assessment.toml");

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Do not.
    Decline,
    /// Look twice.
    Caution,
    /// Go ahead.
    Proceed,
}

impl Action {
    /// As reasoning starts.
    fn name(self) -> &'static str {
        match self {
            Action::Proceed => "Proceed",
            Action::Caution => "Caution",
            Action::Decline => "Decline",
        }
    }

    /// The value of the context's own field.
    fn word(self) -> &'static str {
        match self {
            Action::Proceed => "yes",
            Action::Caution => "with caution",
            Action::Decline => "no",
        }
    }
}

/// What the authority holds of an entity's standing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// Its owner proved who it is, and that still holds.
    Verified,
    /// That held, and does no more.
    Lapsed,
    /// The authority withdrew it.
    Revoked,
    /// Its owner has proved nothing yet.
    Pending,
}

/// What one context asks for.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The context's own field in the assessment.
    #[serde(default)]
    field: Option<String>,
    proceed: f64,
    decline: f64,
    known_to_decline: f64,
    min_sources: usize,
    unknown: Action,
    #[serde(default)]
    known: BTreeMap<Dimension, f64>,
}

/// What each context asks for.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Rules(BTreeMap<String, Rule>);

const GENERIC: &str = "generic";

impl Rules {
    /// Those that ship.
    pub fn standard() -> Result<Self, Error> {
        Self::parse(STANDARD)
    }

    /// From TOML.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = |why: String| Error::Assessment(why);
        let rules: Rules = toml::from_str(text).map_err(|e| wrong(e.to_string()))?;
        if !rules.0.contains_key(GENERIC) {
            return Err(wrong("there is no [generic]".into()));
        }
        for (context, rule) in &rules.0 {
            for (name, value) in [("proceed", rule.proceed), ("decline", rule.decline)] {
                if !(0.0..=100.0).contains(&value) {
                    return Err(wrong(format!("[{context}]: {name} {value} is outside 0..=100")));
                }
            }
            let shares = rule.known.values().chain([&rule.known_to_decline]);
            if let Some(share) = shares.into_iter().find(|share| !(0.0..=1.0).contains(*share)) {
                return Err(wrong(format!("[{context}]: {share} is no share of evidence: it is outside 0..=1")));
            }
            if rule.unknown == Action::Proceed {
                return Err(wrong(format!("[{context}]: unknown = \"proceed\" would trust whom nobody measured")));
            }
        }
        Ok(rules)
    }

    /// The rule for a context, and whether it is known.
    fn of(&self, context: Option<&str>) -> (&str, &Rule) {
        let named = context.and_then(|context| self.0.get_key_value(context)).filter(|(name, _)| *name != GENERIC);
        let (name, rule) = named.unwrap_or_else(|| {
            #[allow(clippy::expect_used, reason = "parse refuses rules without it")]
            self.0.get_key_value(GENERIC).expect("rules have a generic context")
        });
        (name, rule)
    }
}

/// The verified numbers that an assessment rests on.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// The entity's standing.
    pub standing: Standing,
    /// The universal score.
    pub outcome: Outcome,
    /// The assured score; none where nothing that counts was measured.
    pub assured: Option<AssuredFacts>,
    /// Independent sources: [`Voices::independent`](crate::voices::Voices::independent).
    pub sources: usize,
    /// The entry of the log with the universal score's event.
    pub score_event: Option<u64>,
    /// The entry of the log with the assured score's event.
    pub assured_event: Option<u64>,
    /// The highest tier whose requirements are met.
    pub certification: Tier,
    /// Output quality: value, stddev and checks.
    pub output_quality: Option<(f64, f64, u64)>,
    /// Reputation: score and events by others.
    pub reputation: Option<(f64, u64)>,
    /// What security probes found.
    pub probes: Option<Probes>,
    /// Signals that went in.
    pub signals: usize,
}

/// What security probes found. Kinds of threat are distinct tags, however many sources measured them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Probes {
    average: f64,
    kinds: usize,
}

impl Probes {
    /// From the signals under tags of security: tag and value of each. The average is over kinds, each with the mean of its
    /// signals.
    pub fn of<'a>(signals: impl IntoIterator<Item = (&'a str, f64)>) -> Option<Self> {
        let mut kinds: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for (tag, value) in signals {
            let (sum, count) = kinds.entry(tag).or_default();
            *sum += value;
            *count += 1.0;
        }
        let total: f64 = kinds.values().map(|(sum, count)| sum / count).sum();
        (!kinds.is_empty()).then(|| Self { average: total / kinds.len() as f64, kinds: kinds.len() })
    }
}

/// The authority's interpretation: an opinion, apart from the facts.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Assessment {
    /// What to do.
    pub action: Action,
    /// Why.
    pub reasoning: String,
    /// The facts behind it.
    pub highlights: Vec<String>,
    /// The context's own field.
    #[serde(flatten)]
    pub context_field: BTreeMap<String, &'static str>,
    /// Numbers of our own, each with what it means.
    pub extensions: BTreeMap<&'static str, Extension>,
}

/// A self-describing entry.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Extension {
    /// The value.
    pub value: Value,
    /// What it is.
    pub description: &'static str,
}

impl Rules {
    /// The assessment of `facts` for `context`.
    pub fn assess(&self, facts: &Facts, context: Option<&str>) -> Assessment {
        let (name, rule) = self.of(context);
        let (action, reasoning) = rule.judge(facts);
        let context_field = rule.field.iter().map(|field| (field.clone(), action.word())).collect();
        Assessment {
            action,
            reasoning,
            highlights: highlights(facts),
            context_field,
            extensions: extensions(facts, name),
        }
    }
}

impl Rules {
    /// What is recommended in each context of an entity that is verified, in the order of the contexts' names: a change of any of them
    /// is worth recording.
    pub fn actions(&self, assured: &AssuredFacts, sources: usize) -> Vec<Action> {
        self.0.values().map(|rule| rule.action(rule.ground(assured, sources))).collect()
    }
}

/// Why an action is what it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ground {
    /// The score is high enough, and enough is known.
    Assured,
    /// Enough is known, and it is bad.
    Bad,
    /// Too little is known.
    Unknown,
    /// Known well enough, neither bad nor good enough.
    Between,
}

impl Rule {
    fn judge(&self, facts: &Facts) -> (Action, String) {
        if facts.standing == Standing::Revoked {
            return (Action::Decline, "The authority has revoked this entity.".to_owned());
        }
        let Some(assured) = &facts.assured else {
            let text = "too little is known. Nothing that counts has been measured of this entity, which is neither good nor bad.";
            return (self.unknown, format!("{}: {text}", self.unknown.name()));
        };
        let unknown: BTreeSet<Dimension> = self.unknown_dimensions(assured).collect();
        let ground = self.ground(assured, facts.sources);
        let action = match self.action(ground) {
            Action::Proceed if facts.standing == Standing::Lapsed => Action::Caution,
            action => action,
        };
        (action, self.reasoning(facts, assured, ground, action, &unknown))
    }

    fn ground(&self, assured: &AssuredFacts, sources: usize) -> Ground {
        let unknown = self.unknown_dimensions(assured).next().is_some() || sources < self.min_sources;
        if f64::from(assured.score) >= self.proceed && !unknown {
            Ground::Assured
        } else if assured.known >= self.known_to_decline && assured.estimate < self.decline {
            Ground::Bad
        } else if unknown || assured.known < self.known_to_decline {
            Ground::Unknown
        } else {
            Ground::Between
        }
    }

    fn action(&self, ground: Ground) -> Action {
        match ground {
            Ground::Assured => Action::Proceed,
            Ground::Bad => Action::Decline,
            Ground::Unknown => self.unknown,
            Ground::Between => Action::Caution,
        }
    }

    fn unknown_dimensions(&self, assured: &AssuredFacts) -> impl Iterator<Item = Dimension> {
        self.known
            .iter()
            .filter(|(name, least)| assured.dimensions[**name as usize].known < **least)
            .map(|(name, _)| *name)
    }

    fn reasoning(
        &self,
        facts: &Facts,
        assured: &AssuredFacts,
        ground: Ground,
        action: Action,
        unknown: &BTreeSet<Dimension>,
    ) -> String {
        let why = match ground {
            Ground::Assured => "",
            Ground::Bad => ": what is known is not good enough",
            Ground::Unknown => ": too little is known",
            Ground::Between => ": neither good enough to proceed nor bad",
        };
        let mut text = format!(
            "{}{why}. We vouch for at least {} of 100; our estimate is {:.0}, and {:.0} % of it is evidence. \
             To proceed {:.0} is asked for; an estimate below {:.0} is declined. It rests on {} of {}.",
            action.name(),
            assured.score,
            assured.estimate,
            assured.known * 100.0,
            self.proceed,
            self.decline,
            count(facts.signals as u64, "signal"),
            count(facts.sources as u64, "independent source"),
        );
        if ground == Ground::Unknown && !unknown.is_empty() {
            let names: Vec<&str> = unknown.iter().map(|dimension| dimension.name()).collect();
            text += &format!(" More evidence is needed of {}.", names.join(", "));
        }
        if facts.sources < self.min_sources {
            text += &format!(" At least {} are asked for.", count(self.min_sources as u64, "independent source"));
        }
        if assured.cap < assured.low {
            text += &format!(" A weakness in security holds it at {:.0}.", assured.cap);
        }
        match facts.standing {
            Standing::Lapsed => text += " The verification of its identity has lapsed.",
            Standing::Pending => text += " Its owner has not proved who it is yet.",
            Standing::Verified | Standing::Revoked => {}
        }
        text
    }
}

/// `1 source`, `2 sources`.
fn count(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

fn highlights(facts: &Facts) -> Vec<String> {
    // Next to it nothing is a highlight.
    if facts.standing == Standing::Revoked {
        return vec!["Revoked by the authority".to_owned()];
    }
    let mut all = Vec::new();
    if let Some(assured) = &facts.assured {
        all.push(format!(
            "Assured score {}; estimate {:.0} ({:.0} to {:.0}); {:.0} % of it is evidence",
            assured.score,
            assured.estimate,
            assured.low,
            assured.high,
            assured.known * 100.0
        ));
    }
    if let Outcome::Rated(score) = &facts.outcome {
        all.push(format!("Universal score {} ± {:.1} ({})", score.score, score.stddev, score.tier));
        let sources = count(score.sources as u64, "independent source");
        all.push(format!("{sources}, coverage {:.0} %", score.coverage * 100.0));
    }
    if facts.certification > Tier::Unrated {
        all.push(format!("Meets every requirement of the {} tier", facts.certification));
    }
    if let Some((value, stddev, checks)) = facts.output_quality {
        let checks = count(checks, "check");
        all.push(format!("Tool results verified: quality {value:.0} ± {stddev:.0} over {checks}"));
    }
    if let Some(Probes { average, kinds }) = facts.probes {
        let kinds = if kinds == 1 { "1 kind".to_owned() } else { format!("{kinds} kinds") };
        all.push(format!("Withstood {average:.0} % of security probes on average, over {kinds} of threat"));
    }
    match facts.reputation {
        Some((_, events)) if events < ESTABLISHED_EVENTS => {
            all.push(format!("New among agents: {} by others so far", count(events, "event")));
        }
        Some((score, events)) => {
            all.push(format!("Reputation among agents {score:.0} of 100, from {}", count(events, "event")));
        }
        None => {}
    }
    all.push(match facts.standing {
        Standing::Verified => "Identity verified".to_owned(),
        Standing::Lapsed => "Identity verification lapsed".to_owned(),
        Standing::Revoked => "Revoked by the authority".to_owned(),
        Standing::Pending => "Identity not verified yet".to_owned(),
    });
    all
}

fn extensions(facts: &Facts, context: &str) -> BTreeMap<&'static str, Extension> {
    let mut all = BTreeMap::new();
    let mut add = |name, value: Value, description| drop(all.insert(name, Extension { value, description }));
    add(
        "assessedFor",
        json!(context),
        "the context whose thresholds were applied; generic when the one asked for is not known",
    );
    add("isOpinion", json!(true), "this assessment is the authority's interpretation; the signals are the facts");
    if let Some(assured) = &facts.assured {
        add(
            "assuredScore",
            json!(assured.score),
            "what the authority vouches for, 0 to 100, formula uts/2; thresholds apply to it",
        );
        add("assuredEstimate", json!(assured.estimate), "what the authority believes, 0 to 100");
        add("assuredRange", json!([assured.low, assured.high]), "lower and upper bound of the estimate");
        add("assuredKnown", json!(assured.known), "share of the estimate that is evidence, 0 to 1");
        add("assuredCap", json!(assured.cap), "what the worst weakness found in security leaves possible");
        let dimensions: serde_json::Map<String, Value> = Dimension::ALL
            .iter()
            .zip(assured.dimensions)
            .filter(|(_, dimension)| dimension.known > 0.0)
            .map(|(name, dimension)| (name.name().to_owned(), json!([dimension.estimate, dimension.known])))
            .collect();
        add("assuredDimensions", Value::Object(dimensions), "by dimension: estimate, and share of it that is evidence");
    }
    if let Some(event) = facts.assured_event {
        add("assuredEvent", json!(event), "entry of the authority's log with the assured score's event");
    }
    if let Outcome::Rated(score) = &facts.outcome {
        add("trustScore", json!(score.score), "universal trust score, 0 to 100, formula uts/1");
        add("trustScoreStddev", json!(score.stddev), "standard deviation of the universal score");
        add(
            "tier",
            json!(score.tier.key()),
            "band of the universal score: unrated, bronze, silver, gold, platinum, diamond",
        );
        add(
            "tierConfidence",
            json!(score.tier_confidence),
            "the formula's integral over that band; not a probability of anything",
        );
        add("coverage", json!(score.coverage), "how diverse the sources are, 0 to 1");
        add("sources", json!(score.sources), "number of independent sources");
    }
    if let Some(event) = facts.score_event {
        add("scoreEvent", json!(event), "entry of the authority's log with the universal score's event");
    }
    if let Some((value, stddev, checks)) = facts.output_quality {
        add(
            "outputQuality",
            json!([value, stddev, checks]),
            "share of good outputs behind the verifiers' verdicts, its stddev, checks",
        );
    }
    if let Some((score, events)) = facts.reputation {
        add("reputation", json!([score, events]), "reputation R among agents, and the events by others behind it");
    }
    add("certification", json!(facts.certification.key()), "highest tier whose requirements are all met");
    all
}

#[cfg(test)]
#[path = "assessment_tests.rs"]
mod tests;
