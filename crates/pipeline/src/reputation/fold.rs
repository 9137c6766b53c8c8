//! From statements to evidence: what each statement does to the rows, and the same again for a whole group of statements.

use std::collections::BTreeSet;

use credence_engine::reputation::{
    ContractFacts, Declared,
    performance::{RapMethod, Settled},
    transparency::Checklist,
};
use credence_ledger::{Appended, Transaction};
use credence_protocol::{
    Canonical, EntityId,
    records::{
        ChallengeOutcome, ChallengeRecord, ContractRecord, IdentityRecord, ResolutionRecord, ReviewRecord,
        VerificationRecord,
    },
};
use data_encoding::HEXLOWER;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{
    DEFAULT_CHALLENGE_HOURS, Event, HOUR_SECONDS, Tone,
    rows::{ChallengeRow, ChallengeState, ContractRow, DisputeRow, IdentityRow, ReputationRow, ReviewRow, SettledRow},
    touch, window_start, word,
};
use crate::{
    Result,
    statements::{
        ParsedStatement, StatementBody,
        groups::{Group, Pass},
    },
    tables,
};

/// Unversioned changes that are remembered: so many make the penalty full.
const MAX_UNVERSIONED: usize = 4;

/// An agent whose evidence a statement changed, and in which way.
type AgentEvent<'a> = (EntityId, Event<'a>);

/// Folds a statement in right after its entry was appended, and makes the next reputation of whom it touches.
pub(crate) fn apply(tx: &mut dyn Transaction, pass: &Pass, stated: &ParsedStatement) -> Result<()> {
    let touched = match &stated.body {
        StatementBody::Identity(record) => identity(tx, pass, record)?,
        StatementBody::Contract(record) => {
            let mut touched = vec![contract(tx, pass, record)?];
            for target in cited(tx, pass.at, record)? {
                // Its own reputation first: what its word weighs follows from it.
                touch_all(tx, std::mem::take(&mut touched))?;
                touched.extend(citation(tx, pass, &record.origin_agent, &target)?);
            }
            touched
        }
        StatementBody::Verification(record) => verification(tx, pass, record)?,
        StatementBody::Challenge(record) => challenge(tx, pass, record)?,
        StatementBody::Resolution(record) => resolution(tx, pass, record)?,
        StatementBody::Review(record) => review(tx, pass, record)?,
        StatementBody::Summary(..) => Vec::new(),
    };
    touch_all(tx, touched)
}

fn touch_all(tx: &mut dyn Transaction, touched: Vec<AgentEvent<'_>>) -> Result<()> {
    touched.into_iter().try_for_each(|(agent, event)| touch(tx, &agent, event))
}

fn identity<'a>(tx: &mut dyn Transaction, pass: &Pass, record: &IdentityRecord) -> Result<Vec<AgentEvent<'a>>> {
    let Appended { seq, recorded_at } = pass.at;
    let agent = &record.agent_id;
    let former: Option<IdentityRow> = tables::get(tx, tables::IDENTITIES, agent.as_str())?;
    let versioned = json!([record.model_type, record.risk_profile, record.rap_method, record.consistency_method]);
    let mut changes = former.as_ref().map_or_else(Vec::new, |former| former.unversioned_changes.clone());
    let known = changes.len();
    if former.as_ref().is_some_and(|former| former.version_hash == record.version_hash && former.versioned != versioned)
    {
        changes.push(recorded_at);
    }
    let fault = changes.len() > known;
    changes.drain(..changes.len().saturating_sub(MAX_UNVERSIONED));
    let declared = Declared {
        rap_method: match record.rap_method.as_deref() {
            Some("sharpe") => Some(RapMethod::Sharpe),
            Some("calibration") => Some(RapMethod::Calibration),
            _ => None,
        },
        confidence_bands: record.consistency_method.as_deref() == Some("confidence_bands"),
    };
    let changed = fault || former.is_some_and(|former| former.declared != declared);
    let version_hash = record.version_hash.clone();
    let row = IdentityRow { seq, version_hash, versioned, declared, unversioned_changes: changes };
    tables::put(tx, tables::IDENTITIES, agent.as_str(), &row)?;
    // Who has done nothing yet has no reputation to compute: its first is that of its first contract.
    if !changed || tables::get::<ReputationRow>(tx, tables::REPUTATIONS, agent.as_str())?.is_none() {
        return Ok(Vec::new());
    }
    Ok(vec![(agent.clone(), Event::own(pass.at, "identity changed"))])
}

/// The contract itself. One whose key no longer counts stays known as void, so that its id is not taken for a new one.
fn contract<'a>(tx: &mut dyn Transaction, pass: &Pass, record: &ContractRecord) -> Result<AgentEvent<'a>> {
    let Appended { seq, recorded_at } = pass.at;
    let there = |present: bool| f64::from(u8::from(present));
    let facts = ContractFacts {
        context: record.context_hash.clone(),
        probability: record.confidence_metrics.probability,
        band: record.risk_band,
        checklist: Checklist {
            reasoning_trace: there(!record.reasoning_trace.is_empty()),
            source_refs: there(!record.source_refs.is_empty()),
            context_hash: there(record.context_hash.is_some()),
            verification_hash: there(record.verification_hash.is_some()),
            timestamp: there(record.timestamp.is_some()),
            schema_valid: 1.0,
        },
    };
    let agent = &record.origin_agent;
    let hours = record.challenge_window_hours.unwrap_or(DEFAULT_CHALLENGE_HOURS);
    let row = ContractRow {
        seq,
        agent: agent.clone(),
        at: recorded_at,
        closes: recorded_at.plus_seconds(i64::from(hours) * HOUR_SECONDS),
        facts,
        outcome: None,
        verification: None,
        refuted_by: None,
        verification_hash: record.verification_hash.clone(),
        void: !pass.counts,
    };
    tables::put(tx, tables::CONTRACTS, &record.signal_id, &row)?;
    if pass.counts {
        tables::put(tx, tables::AGENT_CONTRACTS, &tables::agent_seq(agent, seq), &record.signal_id)?;
    }
    Ok((agent.clone(), Event::own(pass.at, "contract published")))
}

/// Whose contracts a contract cites; notes that its author has dealt with them.
fn cited(tx: &mut dyn Transaction, at: Appended, record: &ContractRecord) -> Result<BTreeSet<EntityId>> {
    let agent = &record.origin_agent;
    let mut cited = BTreeSet::new();
    for reference in &record.source_refs {
        if let Some(row) =
            tables::get::<ContractRow>(tx, tables::CONTRACTS, reference)?.filter(|row| row.agent != *agent && !row.void)
        {
            tables::put(tx, tables::DEALINGS, &format!("{reference}/{agent}"), &at.seq)?;
            cited.insert(row.agent);
        }
    }
    Ok(cited)
}

/// `citer` rests a contract on some of `target`'s: adoption, once for each pair and window, as far as its word weighs.
fn citation<'a>(
    tx: &mut dyn Transaction,
    pass: &Pass,
    citer: &EntityId,
    target: &EntityId,
) -> Result<Option<AgentEvent<'a>>> {
    let place = format!("{target}/{citer}");
    let former: Option<ReviewRow> = tables::get(tx, tables::CITATIONS, &place)?;
    let group = Group::Words { agent: target.clone(), peer: citer.clone() };
    let weight =
        pass.weight(tx, &group, |tx| Ok(word(tx, citer, target, Tone::Praise, pass.at.recorded_at)?.weight()))?;
    let Appended { seq, recorded_at } = pass.at;
    if weight == 0.0 || former.is_some_and(|former| former.at >= window_start(recorded_at)) {
        return Ok(None);
    }
    tables::put(tx, tables::CITATIONS, &place, &ReviewRow { seq, at: recorded_at, weight, rating: 1.0 })?;
    Ok(Some((target.clone(), Event::by_others(pass.at, "taken up by another agent"))))
}

fn verification<'a>(tx: &mut dyn Transaction, pass: &Pass, record: &VerificationRecord) -> Result<Vec<AgentEvent<'a>>> {
    let (Some(outcome), "signal") = (record.outcome, record.related_object_type.as_str()) else {
        return Ok(Vec::new());
    };
    let id = &record.related_object_id;
    let row = tables::get::<ContractRow>(tx, tables::CONTRACTS, id)?;
    let Some(mut row) = row.filter(|row| !row.void) else { return Ok(Vec::new()) };
    row.verification = Some(record.verification_id.clone());
    record_outcome(tx, id, &mut row, outcome, pass.at)?;
    Ok(vec![(row.agent, Event::by_others(pass.at, "contract verified"))])
}

/// Records what a contract came to, instead of what was known before.
fn record_outcome(tx: &mut dyn Transaction, id: &str, row: &mut ContractRow, outcome: f64, at: Appended) -> Result<()> {
    let place = |row: &ContractRow, seq: u64| format!("{}/{id}", tables::agent_seq(&row.agent, seq));
    if let Some((_, seq)) = row.outcome {
        tx.delete(tables::SETTLED, &place(row, seq))?;
    }
    row.outcome = Some((outcome, at.seq));
    let settled = Settled { band: row.facts.band, probability: row.facts.probability, outcome };
    tables::put(tx, tables::SETTLED, &place(row, at.seq), &SettledRow { at: at.recorded_at, settled })?;
    Ok(tables::put(tx, tables::CONTRACTS, id, row)?)
}

/// A challenge. One whose key no longer counts stays known as void, and nothing of it is held against its author.
fn challenge<'a>(tx: &mut dyn Transaction, pass: &Pass, record: &ChallengeRecord) -> Result<Vec<AgentEvent<'a>>> {
    let Appended { seq, recorded_at } = pass.at;
    let (id, contract) = (&record.challenge_id, &record.original_signal_id);
    let Some(target) = tables::get::<ContractRow>(tx, tables::CONTRACTS, contract)? else { return Ok(Vec::new()) };
    let challenger = &record.challenger_agent_id;
    let claim = claim_place(record)?;
    let before = tables::get::<u32>(tx, tables::CLAIMS, &claim)?.unwrap_or(0);
    // Nobody has to answer for a claim against a contract that its agent did not publish.
    let state = match (pass.counts && !target.void, before) {
        (false, _) => ChallengeState::Void,
        (true, 0) => ChallengeState::Open,
        (true, _) => ChallengeState::Resubmitted,
    };
    let row = ChallengeRow {
        seq,
        contract: contract.clone(),
        target: target.agent,
        challenger: challenger.clone(),
        state,
        resolution: None,
    };
    tables::put(tx, tables::CHALLENGES, id, &row)?;
    if state == ChallengeState::Void {
        return Ok(Vec::new());
    }
    tables::put(tx, tables::CLAIMS, &claim, &(before + 1))?;
    tables::put(tx, tables::DEALINGS, &format!("{contract}/{challenger}"), &seq)?;
    if state == ChallengeState::Open {
        tables::put(tx, tables::OPEN_CHALLENGES, &format!("{challenger}/{id}"), &seq)?;
        return Ok(Vec::new());
    }
    let row = DisputeRow { resubmitted: 1, ..DisputeRow::none(recorded_at) };
    tables::put(tx, tables::DISPUTES, &tables::agent_seq(challenger, seq), &row)?;
    Ok(vec![(challenger.clone(), Event::own(pass.at, "challenge put a second time"))])
}

/// Where the claim of a challenge is remembered: the same claim by the same agent against the same contract is one.
pub(crate) fn claim_place(record: &ChallengeRecord) -> Result<String> {
    let digest = Sha256::digest(Canonical::of(&record.counter_claim)?.as_bytes());
    Ok(format!("{}/{}/{}", record.original_signal_id, record.challenger_agent_id, HEXLOWER.encode(&digest)))
}

fn resolution<'a>(tx: &mut dyn Transaction, pass: &Pass, record: &ResolutionRecord) -> Result<Vec<AgentEvent<'a>>> {
    let Appended { seq, recorded_at } = pass.at;
    let id = &record.challenge_id;
    let Some(mut row) = tables::get::<ChallengeRow>(tx, tables::CHALLENGES, id)? else { return Ok(Vec::new()) };
    let (target, challenger, contract) = (row.target.clone(), row.challenger.clone(), row.contract.clone());
    let is_void = row.state == ChallengeState::Void;
    if !is_void {
        row.state = ChallengeState::Settled(record.outcome);
        tx.delete(tables::OPEN_CHALLENGES, &format!("{challenger}/{id}"))?;
    }
    row.resolution = Some(seq);
    tables::put(tx, tables::CHALLENGES, id, &row)?;
    // What it weighs that one stood up to the other: the word of whom it was won against.
    let upheld = match record.outcome {
        ChallengeOutcome::Successful => Some((&target, &challenger)),
        ChallengeOutcome::Failed => Some((&challenger, &target)),
        ChallengeOutcome::Inconclusive => None,
    };
    let upheld = match upheld {
        Some((peer, about)) => pass.weight(tx, &Group::Contract(contract.clone()), |tx| {
            Ok(word(tx, peer, about, Tone::Praise, pass.at.recorded_at)?.weight())
        })?,
        None => 0.0,
    };
    let none = DisputeRow::none(recorded_at);
    let (of_target, of_challenger) = match record.outcome {
        // A contract is refuted once, however many join in.
        ChallengeOutcome::Successful if !refute(tx, &contract, id, pass.at)? => (None, None),
        ChallengeOutcome::Successful => (Some(DisputeRow { refuted: 1, ..none }), Some(DisputeRow { upheld, ..none })),
        ChallengeOutcome::Failed if is_void_contract(tx, &contract)? => (None, None),
        ChallengeOutcome::Failed => {
            (Some(DisputeRow { upheld, ..none }), Some(DisputeRow { refuted: 1, failed: 1, ..none }))
        }
        ChallengeOutcome::Inconclusive => (None, None),
    };
    let causes = match record.outcome {
        ChallengeOutcome::Successful => ["refuted by a challenge", "challenge of its own succeeded"],
        ChallengeOutcome::Failed => ["withstood a challenge", "challenge of its own failed"],
        ChallengeOutcome::Inconclusive => ["challenged without a result"; 2],
    };
    let of_challenger = of_challenger.filter(|_| !is_void);
    let mut touched = Vec::new();
    for ((agent, dispute), cause) in [(target, of_target), (challenger, of_challenger)].into_iter().zip(causes) {
        if let Some(dispute) = dispute {
            tables::put(tx, tables::DISPUTES, &tables::agent_seq(&agent, seq), &dispute)?;
        }
        touched.push((agent, Event::by_others(pass.at, cause)));
    }
    Ok(touched)
}

fn is_void_contract(tx: &dyn Transaction, id: &str) -> Result<bool> {
    Ok(tables::get::<ContractRow>(tx, tables::CONTRACTS, id)?.is_none_or(|row| row.void))
}

/// The contract is refuted by `challenge`; `false` when it was before. One that was never verified came to the contrary.
fn refute(tx: &mut dyn Transaction, contract: &str, challenge: &str, at: Appended) -> Result<bool> {
    let Some(mut row) = tables::get::<ContractRow>(tx, tables::CONTRACTS, contract)? else { return Ok(false) };
    if row.refuted_by.is_some() || row.void {
        return Ok(false);
    }
    row.refuted_by = Some(challenge.to_owned());
    match row.outcome {
        None => record_outcome(tx, contract, &mut row, -1.0, at)?,
        Some(_) => tables::put(tx, tables::CONTRACTS, contract, &row)?,
    }
    Ok(true)
}

fn review<'a>(tx: &mut dyn Transaction, pass: &Pass, record: &ReviewRecord) -> Result<Vec<AgentEvent<'a>>> {
    let Appended { seq, recorded_at } = pass.at;
    let (reviewer, subject) = (&record.reviewer_agent_id, &record.subject_agent_id);
    let place = format!("{subject}/{reviewer}");
    let former: Option<ReviewRow> = tables::get(tx, tables::REVIEWS, &place)?;
    let group = Group::Words { agent: subject.clone(), peer: reviewer.clone() };
    let tone = Tone::of(record.rating);
    let weight = pass.weight(tx, &group, |tx| Ok(word(tx, reviewer, subject, tone, pass.at.recorded_at)?.weight()))?;
    let said_before =
        former.is_some_and(|former| former.rating == record.rating && former.at >= window_start(recorded_at));
    if weight > 0.0 && !said_before {
        let row = ReviewRow { seq, at: recorded_at, weight, rating: record.rating };
        tables::put(tx, tables::REVIEWS, &place, &row)?;
    } else if weight == 0.0 && former.is_some() {
        // The newest word of a pair counts, and this one weighs nothing.
        tx.delete(tables::REVIEWS, &place)?;
    } else {
        return Ok(Vec::new());
    }
    Ok(vec![(subject.clone(), Event::by_others(pass.at, "reviewed"))])
}

/// `provider` reports on `agent` from now on: the agent's praise of its provider counts no more, also what it said before.
pub(crate) fn end_praise(tx: &mut dyn Transaction, provider: &EntityId, agent: &EntityId) -> Result<()> {
    let place = format!("{provider}/{agent}");
    if tables::get::<ReviewRow>(tx, tables::REVIEWS, &place)?.is_some_and(|row| Tone::of(row.rating) == Tone::Praise) {
        tx.delete(tables::REVIEWS, &place)?;
    }
    Ok(tx.delete(tables::CITATIONS, &place)?)
}

/// A contract, its verifications, challenges and resolutions, folded again.
pub(crate) fn fold_contract_again(
    tx: &mut dyn Transaction,
    id: &str,
    statements: &[(Pass, ParsedStatement)],
) -> Result<()> {
    let former: Option<ContractRow> = tables::get(tx, tables::CONTRACTS, id)?;
    if let Some(ContractRow { agent, seq, outcome, .. }) = &former {
        tx.delete(tables::AGENT_CONTRACTS, &tables::agent_seq(agent, *seq))?;
        if let Some((_, at)) = outcome {
            tx.delete(tables::SETTLED, &format!("{}/{id}", tables::agent_seq(agent, *at)))?;
        }
        tx.delete(tables::CONTRACTS, id)?;
    }
    for (pass, stated) in statements {
        match &stated.body {
            StatementBody::Challenge(record) => {
                let challenger = &record.challenger_agent_id;
                tx.delete(tables::CLAIMS, &claim_place(record)?)?;
                tx.delete(tables::OPEN_CHALLENGES, &format!("{challenger}/{}", record.challenge_id))?;
                tx.delete(tables::DISPUTES, &tables::agent_seq(challenger, pass.at.seq))?;
            }
            StatementBody::Resolution(record) => {
                if let Some(row) = tables::get::<ChallengeRow>(tx, tables::CHALLENGES, &record.challenge_id)? {
                    for agent in [&row.target, &row.challenger] {
                        tx.delete(tables::DISPUTES, &tables::agent_seq(agent, pass.at.seq))?;
                    }
                }
            }
            _ => {}
        }
    }
    for (pass, stated) in statements {
        match &stated.body {
            StatementBody::Contract(record) => drop(contract(tx, pass, record)?),
            StatementBody::Challenge(record) => drop(challenge(tx, pass, record)?),
            StatementBody::Verification(record) if pass.counts => drop(verification(tx, pass, record)?),
            StatementBody::Resolution(record) if pass.counts => drop(resolution(tx, pass, record)?),
            _ => {}
        }
    }
    Ok(())
}

/// What `peer` says of `agent`, folded again.
pub(crate) fn fold_words_again(
    tx: &mut dyn Transaction,
    agent: &EntityId,
    peer: &EntityId,
    statements: &[(Pass, ParsedStatement)],
) -> Result<()> {
    let place = format!("{agent}/{peer}");
    tx.delete(tables::REVIEWS, &place)?;
    tx.delete(tables::CITATIONS, &place)?;
    for (pass, stated) in statements.iter().filter(|(pass, _)| pass.counts) {
        match &stated.body {
            StatementBody::Review(record) => drop(review(tx, pass, record)?),
            StatementBody::Contract(_) => drop(citation(tx, pass, peer, agent)?),
            StatementBody::Summary(..) => end_praise(tx, agent, peer)?,
            _ => {}
        }
    }
    Ok(())
}

/// What an agent declares of itself, folded again.
pub(crate) fn fold_identity_again(
    tx: &mut dyn Transaction,
    agent: &EntityId,
    statements: &[(Pass, ParsedStatement)],
) -> Result<()> {
    tx.delete(tables::IDENTITIES, agent.as_str())?;
    for (pass, stated) in statements.iter().filter(|(pass, _)| pass.counts) {
        if let StatementBody::Identity(record) = &stated.body {
            identity(tx, pass, record)?;
        }
    }
    Ok(())
}
