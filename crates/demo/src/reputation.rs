//! What agents say, claim, dispute and think of each other, signed by themselves.
//!
//! A claim is published, sometimes resting on another agent's; a day later it may be disputed, two days later a verifier says what
//! it came to and the authority settles the dispute by that, and the next day whoever rested on it says what it thinks of its author.

use credence_pipeline::{NewAgent, statements::outcome_of};
use credence_protocol::{AUTHORITY_SOURCE, EntityId, StatementKind};
use serde_json::{Value, json};

use crate::{
    Error,
    cast::{CAST, Character, FANS, FANS_FROM, PRAISED},
    history::Day,
    sources::CAREFUL,
    tools::{normal, round},
    world::{World, character, new_key},
};

/// The share of days on which an agent claims something.
const CLAIMS_A_DAY: f64 = 0.3;
/// How often a claim rests on somebody else's.
const RESTS_ON_ANOTHER: f64 = 0.6;
/// Whoever disputes what does not hold.
const CHALLENGER: &str = "harbor-support";
/// How often it notices.
const NOTICES: f64 = 0.45;
/// Who disputes what does hold, now and then, and loses.
const RASH: &str = "wildcat-ops";
const RASH_ABOUT: &str = "ledgerly";
/// Days of the story between two waves of praise.
const WAVE_EVERY: f64 = 6.0;

/// What was claimed and is not settled yet.
#[derive(Default)]
pub(crate) struct Claims {
    open: Vec<Claim>,
    made: u32,
    reviews: u32,
}

struct Claim {
    id: String,
    agent: &'static str,
    /// The day it was published.
    number: u32,
    /// How far it will be borne out.
    outcome: f64,
    /// Whose claim it rests on.
    rests_on: Option<(String, &'static str)>,
    challenge: Option<String>,
}

impl World {
    /// A day's conversation.
    pub(crate) fn talk(&mut self, day: Day) -> Result<(), Error> {
        self.resolve_claims(day)?;
        self.dispute(day)?;
        for one in CAST.iter().filter(|one| one.claims && one.is_active(day.story)) {
            if day.number == 0 || day.brings(one.joins) {
                self.introduce(one.id, "general-purpose model with tools")?;
            }
            if self.rng.f64() < CLAIMS_A_DAY {
                self.claim(one, day)?;
            }
        }
        self.praise(day)
    }

    /// Who it is, in its own words.
    fn introduce(&mut self, agent: &str, model: &str) -> Result<(), Error> {
        let key = self.keys[agent].public().to_base64url();
        let record = json!({
            "agent_id": agent, "model_type": model, "capability_tags": ["tools", "research"], "risk_profile": "moderate",
            "transparency_level": "full", "version_hash": "v1", "signature_key": key, "rap_method": "sharpe",
        });
        self.queue(self.sign_statement(agent, StatementKind::Identity, record)?);
        Ok(())
    }

    fn claim(&mut self, one: &'static Character, day: Day) -> Result<(), Error> {
        let candidates: Vec<(String, &'static str)> = (self.claims.open.iter())
            .filter(|claim| claim.agent != one.id && claim.number + 1 >= day.number)
            .map(|claim| (claim.id.clone(), claim.agent))
            .collect();
        let rests = !candidates.is_empty() && self.rng.f64() < RESTS_ON_ANOTHER;
        // Of two at hand it takes the one whose author is better.
        let merit = |other: &(String, &'static str)| character(other.1).map_or(0.0, |other| other.merit.at(day.story));
        let rests_on = rests.then(|| {
            let [a, b] = [0, 1].map(|_| candidates[self.rng.usize(..candidates.len())].clone());
            if merit(&a) >= merit(&b) { a } else { b }
        });
        let chance = one.goes_well(day.story);
        let holds = self.rng.f64() < chance;
        // What fails of the careful fails by little.
        let outcome = if holds { 0.8 + 0.2 * self.rng.f64() } else { -(1.0 - chance).max(0.15) - 0.2 * self.rng.f64() };
        let outcome = round(outcome, 2);
        self.claims.made += 1;
        let id = format!("claim-{:04}", self.claims.made);
        let probability = round((chance + 0.04 * normal(&mut self.rng)).clamp(0.05, 0.99), 2);
        let record = contract(one, &id, probability, rests_on.as_ref(), day);
        self.queue(self.sign_statement(one.id, StatementKind::Contract, record)?);
        let claim = Claim { id, agent: one.id, number: day.number, outcome, rests_on, challenge: None };
        self.claims.open.push(claim);
        Ok(())
    }

    /// Yesterday's claims are looked at by those who dispute.
    fn dispute(&mut self, day: Day) -> Result<(), Error> {
        for place in 0..self.claims.open.len() {
            let claim = &self.claims.open[place];
            if claim.number + 1 != day.number || claim.challenge.is_some() {
                continue;
            }
            let (false_claim, notices, rash) = (claim.outcome < 0.0, self.rng.f64(), self.rng.f64());
            let by = if false_claim && claim.agent != CHALLENGER && notices < NOTICES {
                CHALLENGER
            } else if !false_claim && claim.agent == RASH_ABOUT && rash < 0.15 {
                RASH
            } else {
                continue;
            };
            let id = format!("dispute-{}", claim.id);
            let record = json!({
                "challenge_id": id, "original_signal_id": claim.id, "challenger_agent_id": by,
                "counter_claim": { "holds": false, "checked_against": "the same question, asked again" },
                "reasoning_trace": ["asked the tool itself", "its answer differs"], "timestamp": day.end,
            });
            self.queue(self.sign_statement(by, StatementKind::Challenge, record)?);
            self.claims.open[place].challenge = Some(id);
        }
        Ok(())
    }

    /// A verifier says what claims came to; the authority settles disputes by that; whoever rested on them says what it thinks.
    fn resolve_claims(&mut self, day: Day) -> Result<(), Error> {
        let open = std::mem::take(&mut self.claims.open);
        let (due, open): (Vec<_>, Vec<_>) = open.into_iter().partition(|claim| claim.number + 2 <= day.number);
        self.claims.open = open;
        for claim in due {
            let verification = format!("check-{}", claim.id);
            let record = json!({
                "verification_id": verification, "related_object_type": "signal", "related_object_id": claim.id,
                "context_hash": "none", "verification_hash": "none", "timestamp": day.end, "status": "final",
                "outcome": claim.outcome,
            });
            self.queue(self.sign_statement(CAREFUL, StatementKind::Verification, record)?);
            if let Some(challenge) = &claim.challenge {
                let record = json!({
                    "resolution_id": format!("settled-{challenge}"), "challenge_id": challenge,
                    "outcome": outcome_of(claim.outcome), "evidence": verification, "timestamp": day.end,
                });
                self.queue(self.sign_statement(AUTHORITY_SOURCE, StatementKind::Resolution, record)?);
            }
            if let Some((other, author)) = &claim.rests_on {
                let merit = character(author).map_or(0.5, |one| one.goes_well(day.story));
                let rating = round((merit + 0.08 * normal(&mut self.rng)).clamp(0.0, 1.0), 2);
                self.review(claim.agent, author, other, rating, day)?;
            }
        }
        Ok(())
    }

    fn review(&mut self, by: &str, of: &str, contract: &str, rating: f64, day: Day) -> Result<(), Error> {
        self.claims.reviews += 1;
        let record = json!({
            "review_id": format!("review-{:04}", self.claims.reviews), "reviewer_agent_id": by, "subject_agent_id": of,
            "rating": rating, "interaction": { "contract": contract }, "timestamp": day.end,
        });
        self.queue(self.sign_statement(by, StatementKind::Review, record)?);
        Ok(())
    }

    /// The crowd: each of them comes, says who it is, takes a claim up to have had to do with its author, and praises it.
    fn praise(&mut self, day: Day) -> Result<(), Error> {
        let Some(claim) = self.claims.open.iter().find(|claim| claim.agent == PRAISED).map(|claim| claim.id.clone())
        else {
            return Ok(());
        };
        for (number, fan) in FANS.iter().enumerate() {
            let from = FANS_FROM + number as f64;
            let joined = self.has_joined(fan);
            let wave = (day.story - from) % WAVE_EVERY < day.step();
            if day.story < from || joined && !wave {
                continue;
            }
            if !joined {
                let name = Some(format!("Happy User {:02}", number + 1));
                self.authority().add_agent(NewAgent { name, ..NewAgent::new(EntityId::new(fan)?) })?;
                let key = new_key(self.authority(), fan)?;
                self.keys.insert((*fan).to_owned(), key);
                self.introduce(fan, "a script")?;
            }
            self.claims.made += 1;
            let record = json!({
                "signal_id": format!("claim-{:04}", self.claims.made), "origin_agent": fan, "risk_band": "low",
                "confidence_metrics": { "probability": 0.99 }, "source_refs": [claim], "timestamp": day.end,
            });
            self.queue(self.sign_statement(fan, StatementKind::Contract, record)?);
            self.review(fan, PRAISED, &claim, 1.0, day)?;
        }
        Ok(())
    }
}

/// A claim as it is published. Whoever is careless in the rest leaves out how the claim can be followed up.
fn contract(one: &Character, id: &str, probability: f64, rests_on: Option<&(String, &str)>, day: Day) -> Value {
    let risk = match probability {
        p if p >= 0.8 => "low",
        p if p >= 0.55 => "moderate",
        _ => "high",
    };
    let mut refs = vec![format!("https://{}/claims/{id}", one.host.unwrap_or("unknown.example"))];
    refs.extend(rests_on.map(|(other, _)| other.clone()));
    let mut record = json!({
        "signal_id": id, "origin_agent": one.id, "risk_band": risk, "timestamp": day.end, "source_refs": refs,
        "confidence_metrics": { "probability": probability },
    });
    if one.merit.at(day.story) >= 60.0 {
        record["reasoning_trace"] = json!(["asked two tools", "both agree"]);
        record["context_hash"] = json!(format!("ctx-{id}"));
        record["verification_hash"] = json!(format!("how-{id}"));
    }
    record
}
