//! Reputation, event by event (DESIGN, *Reputation*; ADR 0008): each statement changes what is known of one agent or two,
//! and their reputations are computed again right then. Part of the fold: the same online and in replay.
//!
//! What a peer's word weighs is read when it is given and kept with it, so an event touches only those it names. Words that
//! weigh nothing: of newborns, of agents run by the same owner, and of an agent on its own verification provider (an agent
//! must not carry whoever vouches for it).

pub mod rows;

use std::ops::ControlFlow;

use credence_engine::{
    hcs25::providers::Party,
    reputation::{
        self as model, ContractFacts, Declared, Evidence, Parameters,
        performance::{RapMethod, RiskBand, Settled},
        transparency::Checklist,
    },
};
use credence_ledger::{Appended, Scan, Transaction, View};
use credence_protocol::{
    Canonical, EntityId, Timestamp,
    records::{
        ChallengeOutcome, ChallengeRecord, ContractRecord, IdentityRecord, ResolutionRecord, ReviewRecord,
        VerificationRecord,
    },
};
use data_encoding::HEXLOWER;
use serde_json::json;
use sha2::{Digest, Sha256};

use self::rows::{
    ChallengeRow, ChallengeState, ContractRow, DisputeRow, IdentityRow, ReputationRow, ReviewRow, SettledRow,
};
use crate::{
    Result, summaries,
    tables::{self, AgentRow},
};

/// How long a contract can be challenged when it does not say.
pub const DEFAULT_CHALLENGE_HOURS: u32 = 72;
const HOUR_SECONDS: i64 = 3_600;
const DAY_SECONDS: i64 = 24 * HOUR_SECONDS;

/// The parameters in force. One set per protocol version: a change is a new version.
pub fn parameters() -> Parameters {
    Parameters::default()
}

/// An event that something is to be made of.
#[derive(Clone, Copy)]
struct Event<'a> {
    seq: u64,
    at: Timestamp,
    cause: &'a str,
}

pub(crate) fn identity(tx: &mut dyn Transaction, at: Appended, record: &IdentityRecord) -> Result<()> {
    let Appended { seq, recorded_at } = at;
    let agent = &record.agent_id;
    let former: Option<IdentityRow> = tables::get(tx, tables::IDENTITIES, agent.as_str())?;
    let versioned = json!([record.model_type, record.risk_profile, record.rap_method, record.consistency_method]);
    let mut changes = former.as_ref().map_or_else(Vec::new, |former| former.unversioned_changes.clone());
    let since = window_start(recorded_at);
    changes.retain(|at| *at >= since);
    if former.is_some_and(|former| former.version_hash == record.version_hash && former.versioned != versioned) {
        changes.push(recorded_at);
    }
    let declared = Declared {
        rap_method: match record.rap_method.as_deref() {
            Some("sharpe") => Some(RapMethod::Sharpe),
            Some("calibration") => Some(RapMethod::Calibration),
            _ => None,
        },
        confidence_bands: record.consistency_method.as_deref() == Some("confidence_bands"),
    };
    let version_hash = record.version_hash.clone();
    let row = IdentityRow { seq, version_hash, versioned, declared, unversioned_changes: changes };
    tables::put(tx, tables::IDENTITIES, agent.as_str(), &row)?;
    // Who has done nothing yet has no reputation to compute: its first is that of its first contract.
    if tables::get::<ReputationRow>(tx, tables::REPUTATIONS, agent.as_str())?.is_none() {
        return Ok(());
    }
    touch(tx, agent, Event { seq, at: recorded_at, cause: "identity declared" })
}

pub(crate) fn contract(tx: &mut dyn Transaction, at: Appended, record: &ContractRecord) -> Result<()> {
    let Appended { seq, recorded_at } = at;
    let there = |present: bool| f64::from(u8::from(present));
    let facts = ContractFacts {
        context: record.context_hash.clone(),
        probability: record.confidence_metrics.probability,
        band: match record.risk_band.as_str() {
            "low" => RiskBand::Low,
            "high" => RiskBand::High,
            _ => RiskBand::Moderate,
        },
        checklist: Checklist {
            reasoning_trace: there(!record.reasoning_trace.is_empty()),
            source_refs: there(!record.source_refs.is_empty()),
            context_hash: there(record.context_hash.is_some()),
            verification_hash: there(record.verification_hash.is_some()),
            timestamp: there(record.timestamp.is_some()),
            schema_valid: 1.0,
        },
        adoption: 0.0,
    };
    let agent = &record.origin_agent;
    let hours = record.challenge_window_hours.unwrap_or(DEFAULT_CHALLENGE_HOURS);
    let closes = recorded_at.plus_seconds(i64::from(hours) * HOUR_SECONDS);
    let row =
        ContractRow { seq, agent: agent.clone(), at: recorded_at, closes, facts, outcome: None, verification: None };
    tables::put(tx, tables::CONTRACTS, &record.signal_id, &row)?;
    tables::put(tx, tables::AGENT_CONTRACTS, &tables::agent_seq(agent, seq), &record.signal_id)?;
    touch(tx, agent, Event { seq, at: recorded_at, cause: "contract published" })?;
    for cited in &record.source_refs {
        cite(tx, agent, cited, Event { seq, at: recorded_at, cause: "contract taken up by another agent" })?;
    }
    Ok(())
}

/// `citer` rests a contract on `cited`: adoption, once for each agent, as far as its word weighs.
fn cite(tx: &mut dyn Transaction, citer: &EntityId, cited: &str, event: Event<'_>) -> Result<()> {
    let Some(mut row) = tables::get::<ContractRow>(tx, tables::CONTRACTS, cited)? else { return Ok(()) };
    let place = format!("{cited}/{citer}");
    let weight = word(tx, citer, &row.agent)?;
    if weight == 0.0 || tables::get::<f64>(tx, tables::CITATIONS, &place)?.is_some() {
        return Ok(());
    }
    tables::put(tx, tables::CITATIONS, &place, &weight)?;
    row.facts.adoption += weight;
    tables::put(tx, tables::CONTRACTS, cited, &row)?;
    touch(tx, &row.agent, event)
}

pub(crate) fn verification(tx: &mut dyn Transaction, at: Appended, record: &VerificationRecord) -> Result<()> {
    let (Some(outcome), "signal") = (record.outcome, record.related_object_type.as_str()) else { return Ok(()) };
    let id = &record.related_object_id;
    let Some(mut row) = tables::get::<ContractRow>(tx, tables::CONTRACTS, id)? else { return Ok(()) };
    row.verification = Some(record.verification_id.clone());
    settle(tx, id, &mut row, Some(outcome), at)?;
    touch(tx, &row.agent, Event { seq: at.seq, at: at.recorded_at, cause: "contract verified" })
}

pub(crate) fn challenge(tx: &mut dyn Transaction, at: Appended, record: &ChallengeRecord) -> Result<()> {
    let Appended { seq, recorded_at } = at;
    let (id, contract) = (&record.challenge_id, &record.original_signal_id);
    let Some(target) = tables::get::<ContractRow>(tx, tables::CONTRACTS, contract)? else { return Ok(()) };
    let challenger = &record.challenger_agent_id;
    let claim = claim_place(record)?;
    let again = tables::get::<String>(tx, tables::CLAIMS, &claim)?.is_some();
    let state = if again { ChallengeState::Resubmitted } else { ChallengeState::Open };
    let row =
        ChallengeRow { seq, contract: contract.clone(), target: target.agent, challenger: challenger.clone(), state };
    tables::put(tx, tables::CHALLENGES, id, &row)?;
    if again {
        let row = DisputeRow { at: recorded_at, upheld: 0.0, refuted: 0, failed: 0, resubmitted: 1 };
        tables::put(tx, tables::DISPUTES, &tables::agent_seq(challenger, seq), &row)?;
        return touch(tx, challenger, Event { seq, at: recorded_at, cause: "challenge put a second time" });
    }
    tables::put(tx, tables::CLAIMS, &claim, id)?;
    Ok(tables::put(tx, tables::OPEN_CHALLENGES, &format!("{challenger}/{id}"), &seq)?)
}

/// Where the claim of a challenge is remembered: the same claim by the same agent against the same contract is one.
fn claim_place(record: &ChallengeRecord) -> Result<String> {
    let digest = Sha256::digest(Canonical::of(&record.counter_claim)?.as_bytes());
    Ok(format!("{}/{}/{}", record.original_signal_id, record.challenger_agent_id, HEXLOWER.encode(&digest)))
}

pub(crate) fn resolution(tx: &mut dyn Transaction, at: Appended, record: &ResolutionRecord) -> Result<()> {
    let Appended { seq, recorded_at } = at;
    let id = &record.challenge_id;
    let Some(mut row) = tables::get::<ChallengeRow>(tx, tables::CHALLENGES, id)? else { return Ok(()) };
    let (target, challenger) = (row.target.clone(), row.challenger.clone());
    row.state = ChallengeState::Settled(record.outcome);
    let contract = row.contract.clone();
    tables::put(tx, tables::CHALLENGES, id, &row)?;
    tx.delete(tables::OPEN_CHALLENGES, &format!("{challenger}/{id}"))?;
    let none = DisputeRow { at: recorded_at, upheld: 0.0, refuted: 0, failed: 0, resubmitted: 0 };
    let (of_target, of_challenger) = match record.outcome {
        ChallengeOutcome::Successful => {
            refute(tx, &contract, at)?;
            let upheld = word(tx, &target, &challenger)?;
            (Some(DisputeRow { refuted: 1, ..none }), Some(DisputeRow { upheld, ..none }))
        }
        ChallengeOutcome::Failed => {
            let upheld = word(tx, &challenger, &target)?;
            (Some(DisputeRow { upheld, ..none }), Some(DisputeRow { refuted: 1, failed: 1, ..none }))
        }
        ChallengeOutcome::Inconclusive => (None, None),
    };
    let causes = match record.outcome {
        ChallengeOutcome::Successful => ["refuted by a challenge", "challenge of its own succeeded"],
        ChallengeOutcome::Failed => ["withstood a challenge", "challenge of its own failed"],
        ChallengeOutcome::Inconclusive => ["challenged without a result"; 2],
    };
    for ((agent, dispute), cause) in [(&target, of_target), (&challenger, of_challenger)].into_iter().zip(causes) {
        if let Some(dispute) = dispute {
            tables::put(tx, tables::DISPUTES, &tables::agent_seq(agent, seq), &dispute)?;
        }
        touch(tx, agent, Event { seq, at: recorded_at, cause })?;
    }
    Ok(())
}

/// A claim that was refuted and never verified came to the contrary.
fn refute(tx: &mut dyn Transaction, contract: &str, at: Appended) -> Result<()> {
    match tables::get::<ContractRow>(tx, tables::CONTRACTS, contract)? {
        Some(mut row) if row.outcome.is_none() => settle(tx, contract, &mut row, Some(-1.0), at),
        _ => Ok(()),
    }
}

/// Says what a contract came to, instead of what was said before; or that nobody knows any more.
fn settle(tx: &mut dyn Transaction, id: &str, row: &mut ContractRow, outcome: Option<f64>, at: Appended) -> Result<()> {
    if let Some((_, seq)) = row.outcome {
        tx.delete(tables::SETTLED, &tables::agent_seq(&row.agent, seq))?;
    }
    row.outcome = outcome.map(|outcome| (outcome, at.seq));
    if let Some(outcome) = outcome {
        let settled = Settled { band: row.facts.band, probability: row.facts.probability, outcome };
        let place = tables::agent_seq(&row.agent, at.seq);
        tables::put(tx, tables::SETTLED, &place, &SettledRow { at: at.recorded_at, settled })?;
    }
    Ok(tables::put(tx, tables::CONTRACTS, id, row)?)
}

pub(crate) fn review(tx: &mut dyn Transaction, at: Appended, record: &ReviewRecord) -> Result<()> {
    let Appended { seq, recorded_at } = at;
    let (reviewer, subject) = (&record.reviewer_agent_id, &record.subject_agent_id);
    let place = format!("{subject}/{reviewer}");
    let former: Option<ReviewRow> = tables::get(tx, tables::REVIEWS, &place)?;
    let weight = word(tx, reviewer, subject)?;
    if weight > 0.0 {
        let row = ReviewRow { seq, at: recorded_at, weight, rating: record.rating };
        tables::put(tx, tables::REVIEWS, &place, &row)?;
    } else if former.is_some() {
        // The newest word of a pair counts, and this one weighs nothing.
        tx.delete(tables::REVIEWS, &place)?;
    } else {
        return Ok(());
    }
    touch(tx, subject, Event { seq, at: recorded_at, cause: "reviewed" })
}

/// What `peer`'s word on `about` weighs now, 0..=1.
pub(crate) fn word(view: &(impl View + ?Sized), peer: &EntityId, about: &EntityId) -> Result<f64> {
    if party(view, peer)?.is(&party(view, about)?) || summaries::vouches(view, about, peer)? {
        return Ok(0.0);
    }
    let row: Option<ReputationRow> = tables::get(view, tables::REPUTATIONS, peer.as_str())?;
    Ok(row.map_or(0.0, |row| parameters().peer_weight(row.score)))
}

/// Who an agent is and who runs it.
pub(crate) fn party(view: &(impl View + ?Sized), agent: &EntityId) -> Result<Party> {
    let row: Option<AgentRow> = tables::get(view, tables::AGENTS, agent.as_str())?;
    let owner = row.and_then(|row| row.owner).map(|owner| owner.to_string());
    Ok(Party { id: agent.to_string(), owner, key: None })
}

fn window_start(at: Timestamp) -> Timestamp {
    at.plus_seconds(-parameters().window_days * DAY_SECONDS)
}

/// Computes an agent's reputation again, after an event.
fn touch(tx: &mut dyn Transaction, agent: &EntityId, event: Event<'_>) -> Result<()> {
    let parameters = parameters();
    let former: Option<ReputationRow> = tables::get(tx, tables::REPUTATIONS, agent.as_str())?;
    let assessed = model::assess(&evidence(tx, agent, event.at)?, &parameters);
    let raw = assessed.factors.raw();
    let row = ReputationRow {
        seq: event.seq,
        at: event.at,
        cause: event.cause.to_owned(),
        events: former.as_ref().map_or(0, |former| former.events) + 1,
        score: parameters.update(raw, former.map(|former| former.score)),
        raw,
        factors: assessed.factors,
        basis: ReputationRow::basis(&assessed),
    };
    tables::put(tx, tables::REPUTATIONS, agent.as_str(), &row)?;
    tables::put(tx, tables::REPUTATION_EVENTS, &tables::agent_seq(agent, event.seq), &row)?;
    if row.events >= parameters.established_events {
        tables::put(tx, tables::DERIVE, agent.as_str(), &event.seq)?;
    }
    Ok(())
}

/// What is known of an agent in the window that ends at `at`.
pub fn evidence(view: &(impl View + ?Sized), agent: &EntityId, at: Timestamp) -> Result<Evidence> {
    let since = window_start(at);
    let identity: Option<IdentityRow> = tables::get(view, tables::IDENTITIES, agent.as_str())?;
    let mut evidence = Evidence {
        declared: identity.as_ref().map(|identity| identity.declared).unwrap_or_default(),
        unversioned_changes: identity
            .map_or(0, |identity| identity.unversioned_changes.iter().filter(|at| **at >= since).count() as u32),
        contracts: contracts(view, agent, since)?,
        settled: settled(view, agent, since)?,
        ..Evidence::default()
    };
    let prefix = format!("{agent}/");
    tables::scan(view, tables::DISPUTES, Scan { reverse: true, ..Scan::prefix(&prefix) }, |_, row: DisputeRow| {
        if row.at < since {
            return Ok(ControlFlow::Break(()));
        }
        evidence.upheld += row.upheld;
        evidence.refuted += row.refuted;
        evidence.failed_challenges += row.failed;
        evidence.resubmitted_challenges += row.resubmitted;
        Ok(ControlFlow::Continue(()))
    })?;
    tables::scan(view, tables::REVIEWS, Scan::prefix(&prefix), |_, row: ReviewRow| {
        if row.at >= since {
            evidence.reviews.push((row.weight, row.rating));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(evidence)
}

/// The newest contracts of the window, oldest first.
fn contracts(view: &(impl View + ?Sized), agent: &EntityId, since: Timestamp) -> Result<Vec<ContractFacts>> {
    let prefix = format!("{agent}/");
    let (mut ids, limit) = (Vec::new(), parameters().window_samples);
    let scan = Scan { reverse: true, ..Scan::prefix(&prefix) };
    tables::scan(view, tables::AGENT_CONTRACTS, scan, |_, id: String| {
        ids.push(id);
        Ok(if ids.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    let mut contracts = Vec::with_capacity(ids.len());
    for id in ids.iter().rev() {
        let row: Option<ContractRow> = tables::get(view, tables::CONTRACTS, id)?;
        contracts.extend(row.filter(|row| row.at >= since).map(|row| row.facts));
    }
    Ok(contracts)
}

/// What the newest settled contracts of the window came to, oldest first.
fn settled(view: &(impl View + ?Sized), agent: &EntityId, since: Timestamp) -> Result<Vec<Settled>> {
    let prefix = format!("{agent}/");
    let (mut settled, limit) = (Vec::new(), parameters().window_samples);
    tables::scan(view, tables::SETTLED, Scan { reverse: true, ..Scan::prefix(&prefix) }, |_, row: SettledRow| {
        if row.at < since {
            return Ok(ControlFlow::Break(()));
        }
        settled.push(row.settled);
        Ok(if settled.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    settled.reverse();
    Ok(settled)
}

/// A key was revoked: what it said from some entry on stops counting. Gives the agents concerned.
pub(crate) fn unsay(tx: &mut dyn Transaction, at: Appended, said: &[crate::statements::Stated]) -> Result<()> {
    use crate::statements::Said;
    let mut touched = std::collections::BTreeSet::new();
    for stated in said {
        match &stated.said {
            Said::Contract(record) => {
                if let Some(mut row) = tables::get::<ContractRow>(tx, tables::CONTRACTS, &record.signal_id)? {
                    tx.delete(tables::AGENT_CONTRACTS, &tables::agent_seq(&row.agent, row.seq))?;
                    settle(tx, &record.signal_id, &mut row, None, at)?;
                    touched.insert(row.agent);
                }
            }
            Said::Verification(record) => {
                let row = tables::get::<ContractRow>(tx, tables::CONTRACTS, &record.related_object_id)?;
                if let Some(mut row) = row.filter(|row| row.verification.as_ref() == Some(&record.verification_id)) {
                    row.verification = None;
                    settle(tx, &record.related_object_id, &mut row, None, at)?;
                    touched.insert(row.agent);
                }
            }
            Said::Review(record) => {
                tx.delete(tables::REVIEWS, &format!("{}/{}", record.subject_agent_id, record.reviewer_agent_id))?;
                touched.insert(record.subject_agent_id.clone());
            }
            Said::Summary(record, _) => {
                let place = summaries::place(&record.agent, &record.window, stated.statement.author());
                tx.delete(tables::SUMMARIES, &place)?;
                tables::put(tx, tables::DERIVE, record.agent.as_str(), &at.seq)?;
            }
            Said::Identity(_) | Said::Challenge(_) | Said::Resolution(_) => {}
        }
    }
    for agent in touched {
        touch(tx, &agent, Event { seq: at.seq, at: at.recorded_at, cause: "a key was revoked" })?;
    }
    Ok(())
}

/// An agent's reputations, newest first.
pub fn history(view: &(impl View + ?Sized), agent: &EntityId, limit: usize) -> Result<Vec<ReputationRow>> {
    let mut rows = Vec::new();
    let prefix = format!("{agent}/");
    let scan = Scan { reverse: true, ..Scan::prefix(&prefix) };
    tables::scan(view, tables::REPUTATION_EVENTS, scan, |_, row: ReputationRow| {
        rows.push(row);
        Ok(if rows.len() >= limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(rows)
}
