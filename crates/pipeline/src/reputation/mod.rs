//! Reputation, event by event (DESIGN, *Reputation*; ADR 0008): each statement changes what is known of one agent or a few,
//! and their reputations are computed again right then, once for each entry. Part of the fold: the same online and in replay.
//!
//! What a peer's word weighs is read when it is given and kept with it, so an event touches only those it names. Words that
//! weigh nothing: of newborns, of agents run by the same owner, and the praise of an agent for its own verification provider
//! (an agent must not carry whoever vouches for it; it may still complain).

mod evidence;
pub mod rows;
mod unsay;

use std::collections::BTreeSet;

use credence_engine::{
    hcs25::providers::Party,
    reputation::{
        self as model, ContractFacts, Declared, Parameters,
        performance::{RapMethod, RiskBand, Settled},
        transparency::Checklist,
    },
};
use credence_ledger::{Appended, Transaction, View};
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

pub use evidence::{evidence, history, reviews};
pub(crate) use unsay::unsay;

use self::rows::{
    ChallengeRow, ChallengeState, ContractRow, DisputeRow, IdentityRow, ReputationRow, ReviewRow, SettledRow,
};
use crate::{
    Result, due, summaries,
    tables::{self, AgentRow},
};

/// How long a contract can be challenged when it does not say.
pub const DEFAULT_CHALLENGE_HOURS: u32 = 72;
/// Unversioned changes that are remembered: so many make the penalty full.
const MAX_UNVERSIONED: usize = 4;
/// Why an agent is to be looked at again.
const REPUTATION: &str = "reputation";
pub(crate) const HOUR_SECONDS: i64 = 3_600;
pub(crate) const DAY_SECONDS: i64 = 24 * HOUR_SECONDS;

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
    /// Made by someone else: only such events make a reputation an established one.
    by_others: bool,
}

impl<'a> Event<'a> {
    fn own(at: Appended, cause: &'a str) -> Self {
        Self { seq: at.seq, at: at.recorded_at, cause, by_others: false }
    }

    fn by_others(at: Appended, cause: &'a str) -> Self {
        Self { by_others: true, ..Self::own(at, cause) }
    }
}

pub(crate) fn identity(tx: &mut dyn Transaction, at: Appended, record: &IdentityRecord) -> Result<()> {
    let Appended { seq, recorded_at } = at;
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
        return Ok(());
    }
    touch(tx, agent, Event::own(at, "identity changed"))
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
        void: false,
    };
    tables::put(tx, tables::CONTRACTS, &record.signal_id, &row)?;
    tables::put(tx, tables::AGENT_CONTRACTS, &tables::agent_seq(agent, seq), &record.signal_id)?;
    touch(tx, agent, Event::own(at, "contract published"))?;
    let mut cited = BTreeSet::new();
    for reference in &record.source_refs {
        if let Some(row) =
            tables::get::<ContractRow>(tx, tables::CONTRACTS, reference)?.filter(|row| row.agent != *agent)
        {
            tables::put(tx, tables::DEALINGS, &format!("{reference}/{agent}"), &seq)?;
            cited.insert(row.agent);
        }
    }
    cited.iter().try_for_each(|target| cite(tx, agent, target, at))
}

/// `citer` rests a contract on some of `target`'s: adoption, once for each pair and window, as far as its word weighs.
fn cite(tx: &mut dyn Transaction, citer: &EntityId, target: &EntityId, at: Appended) -> Result<()> {
    let place = format!("{target}/{citer}");
    let former: Option<ReviewRow> = tables::get(tx, tables::CITATIONS, &place)?;
    let weight = word(tx, citer, target, Tone::Praise)?.weight();
    if weight == 0.0 || former.is_some_and(|former| former.at >= window_start(at.recorded_at)) {
        return Ok(());
    }
    tables::put(tx, tables::CITATIONS, &place, &ReviewRow { seq: at.seq, at: at.recorded_at, weight, rating: 1.0 })?;
    touch(tx, target, Event::by_others(at, "taken up by another agent"))
}

pub(crate) fn verification(tx: &mut dyn Transaction, at: Appended, record: &VerificationRecord) -> Result<()> {
    let (Some(outcome), "signal") = (record.outcome, record.related_object_type.as_str()) else { return Ok(()) };
    let id = &record.related_object_id;
    let Some(mut row) = tables::get::<ContractRow>(tx, tables::CONTRACTS, id)? else { return Ok(()) };
    row.verification = Some(record.verification_id.clone());
    settle(tx, id, &mut row, Some(outcome), at)?;
    touch(tx, &row.agent, Event::by_others(at, "contract verified"))
}

/// Says what a contract came to, instead of what was said before; or that nobody knows any more.
fn settle(tx: &mut dyn Transaction, id: &str, row: &mut ContractRow, outcome: Option<f64>, at: Appended) -> Result<()> {
    let place = |row: &ContractRow, seq: u64| format!("{}/{id}", tables::agent_seq(&row.agent, seq));
    if let Some((_, seq)) = row.outcome {
        tx.delete(tables::SETTLED, &place(row, seq))?;
    }
    row.outcome = outcome.map(|outcome| (outcome, at.seq));
    if let Some(outcome) = outcome {
        let settled = Settled { band: row.facts.band, probability: row.facts.probability, outcome };
        let place = place(row, at.seq);
        tables::put(tx, tables::SETTLED, &place, &SettledRow { at: at.recorded_at, settled })?;
    }
    Ok(tables::put(tx, tables::CONTRACTS, id, row)?)
}

pub(crate) fn challenge(tx: &mut dyn Transaction, at: Appended, record: &ChallengeRecord) -> Result<()> {
    let Appended { seq, recorded_at } = at;
    let (id, contract) = (&record.challenge_id, &record.original_signal_id);
    let Some(target) = tables::get::<ContractRow>(tx, tables::CONTRACTS, contract)? else { return Ok(()) };
    let challenger = &record.challenger_agent_id;
    let claim = claim_place(record)?;
    let before = tables::get::<u32>(tx, tables::CLAIMS, &claim)?.unwrap_or(0);
    let state = if before > 0 { ChallengeState::Resubmitted } else { ChallengeState::Open };
    let row = ChallengeRow {
        seq,
        contract: contract.clone(),
        target: target.agent,
        challenger: challenger.clone(),
        state,
        resolution: None,
    };
    tables::put(tx, tables::CHALLENGES, id, &row)?;
    tables::put(tx, tables::CLAIMS, &claim, &(before + 1))?;
    tables::put(tx, tables::DEALINGS, &format!("{contract}/{challenger}"), &seq)?;
    if before > 0 {
        let row = DisputeRow { at: recorded_at, upheld: 0.0, refuted: 0, failed: 0, resubmitted: 1 };
        tables::put(tx, tables::DISPUTES, &tables::agent_seq(challenger, seq), &row)?;
        return touch(tx, challenger, Event::own(at, "challenge put a second time"));
    }
    Ok(tables::put(tx, tables::OPEN_CHALLENGES, &format!("{challenger}/{id}"), &seq)?)
}

/// Where the claim of a challenge is remembered: the same claim by the same agent against the same contract is one.
pub(crate) fn claim_place(record: &ChallengeRecord) -> Result<String> {
    let digest = Sha256::digest(Canonical::of(&record.counter_claim)?.as_bytes());
    Ok(format!("{}/{}/{}", record.original_signal_id, record.challenger_agent_id, HEXLOWER.encode(&digest)))
}

pub(crate) fn resolution(tx: &mut dyn Transaction, at: Appended, record: &ResolutionRecord) -> Result<()> {
    let Appended { seq, recorded_at } = at;
    let id = &record.challenge_id;
    let Some(mut row) = tables::get::<ChallengeRow>(tx, tables::CHALLENGES, id)? else { return Ok(()) };
    let (target, challenger, contract) = (row.target.clone(), row.challenger.clone(), row.contract.clone());
    row.state = ChallengeState::Settled(record.outcome);
    row.resolution = Some(seq);
    tables::put(tx, tables::CHALLENGES, id, &row)?;
    tx.delete(tables::OPEN_CHALLENGES, &format!("{challenger}/{id}"))?;
    let none = DisputeRow { at: recorded_at, upheld: 0.0, refuted: 0, failed: 0, resubmitted: 0 };
    let (of_target, of_challenger) = match record.outcome {
        // A contract is refuted once, whoever else joins in.
        ChallengeOutcome::Successful if !refute(tx, &contract, id, at)? => (None, None),
        ChallengeOutcome::Successful => {
            let upheld = word(tx, &target, &challenger, Tone::Praise)?.weight();
            (Some(DisputeRow { refuted: 1, ..none }), Some(DisputeRow { upheld, ..none }))
        }
        ChallengeOutcome::Failed => {
            let upheld = word(tx, &challenger, &target, Tone::Praise)?.weight();
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
        touch(tx, agent, Event::by_others(at, cause))?;
    }
    Ok(())
}

/// The contract is refuted by `challenge`; `false` when it was before. One that was never verified came to the contrary.
fn refute(tx: &mut dyn Transaction, contract: &str, challenge: &str, at: Appended) -> Result<bool> {
    let Some(mut row) = tables::get::<ContractRow>(tx, tables::CONTRACTS, contract)? else { return Ok(false) };
    if row.refuted_by.is_some() || row.void {
        return Ok(false);
    }
    row.refuted_by = Some(challenge.to_owned());
    match row.outcome {
        None => settle(tx, contract, &mut row, Some(-1.0), at)?,
        Some(_) => tables::put(tx, tables::CONTRACTS, contract, &row)?,
    }
    Ok(true)
}

pub(crate) fn review(tx: &mut dyn Transaction, at: Appended, record: &ReviewRecord) -> Result<()> {
    let Appended { seq, recorded_at } = at;
    let (reviewer, subject) = (&record.reviewer_agent_id, &record.subject_agent_id);
    let place = format!("{subject}/{reviewer}");
    let former: Option<ReviewRow> = tables::get(tx, tables::REVIEWS, &place)?;
    let weight = word(tx, reviewer, subject, Tone::of(record.rating))?.weight();
    let said_before =
        former.is_some_and(|former| former.rating == record.rating && former.at >= window_start(recorded_at));
    if weight > 0.0 && !said_before {
        let row = ReviewRow { seq, at: recorded_at, weight, rating: record.rating };
        tables::put(tx, tables::REVIEWS, &place, &row)?;
    } else if weight == 0.0 && former.is_some() {
        // The newest word of a pair counts, and this one weighs nothing.
        tx.delete(tables::REVIEWS, &place)?;
    } else {
        return Ok(());
    }
    touch(tx, subject, Event::by_others(at, "reviewed"))
}

/// An agent's praise of whoever vouches for it from now on counts no more, also what it said before.
pub(crate) fn unpraise(tx: &mut dyn Transaction, provider: &EntityId, agent: &EntityId) -> Result<()> {
    let place = format!("{provider}/{agent}");
    if tables::get::<ReviewRow>(tx, tables::REVIEWS, &place)?.is_some_and(|row| Tone::of(row.rating) == Tone::Praise) {
        tx.delete(tables::REVIEWS, &place)?;
    }
    Ok(tx.delete(tables::CITATIONS, &place)?)
}

/// Whether a word is for or against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Praise,
    Blame,
}

impl Tone {
    pub(crate) fn of(rating: f64) -> Self {
        if rating >= 0.5 { Tone::Praise } else { Tone::Blame }
    }
}

/// What a word weighs, or why it weighs nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Word {
    Weighs(f64),
    New,
    SameOwner,
    OwnProvider,
}

impl Word {
    fn weight(self) -> f64 {
        match self {
            Word::Weighs(weight) => weight,
            Word::New | Word::SameOwner | Word::OwnProvider => 0.0,
        }
    }
}

/// What `peer`'s word on `about` weighs now, 0..=1.
pub(crate) fn word(view: &(impl View + ?Sized), peer: &EntityId, about: &EntityId, tone: Tone) -> Result<Word> {
    if party(view, peer)?.is(&party(view, about)?) {
        return Ok(Word::SameOwner);
    }
    if tone == Tone::Praise && summaries::vouches(view, about, peer)? {
        return Ok(Word::OwnProvider);
    }
    let row: Option<ReputationRow> = tables::get(view, tables::REPUTATIONS, peer.as_str())?;
    let weight = row.map_or(0.0, |row| parameters().peer_weight(row.score));
    Ok(if weight > 0.0 { Word::Weighs(weight) } else { Word::New })
}

/// Who an agent is and who runs it.
pub(crate) fn party(view: &(impl View + ?Sized), agent: &EntityId) -> Result<Party> {
    let row: Option<AgentRow> = tables::get(view, tables::AGENTS, agent.as_str())?;
    let owner = row.and_then(|row| row.owner).map(|owner| owner.to_string());
    Ok(Party { id: agent.to_string(), owner, key: None })
}

pub(crate) fn window_start(at: Timestamp) -> Timestamp {
    at.plus_seconds(-parameters().window_days * DAY_SECONDS)
}

/// Until when a reputation whose last event was at `at` says something of now.
pub(crate) fn lapses(at: Timestamp) -> Timestamp {
    at.plus_seconds(parameters().window_days * DAY_SECONDS)
}

/// Computes an agent's reputation again, after an event. At most once for an agent and entry.
fn touch(tx: &mut dyn Transaction, agent: &EntityId, event: Event<'_>) -> Result<()> {
    let parameters = parameters();
    let former: Option<ReputationRow> = tables::get(tx, tables::REPUTATIONS, agent.as_str())?;
    evidence::prune(tx, agent, event.at)?;
    let assessed = model::assess(&evidence(tx, agent, event.at)?, &parameters);
    let raw = assessed.factors.raw();
    let row = ReputationRow {
        seq: event.seq,
        at: event.at,
        cause: event.cause.to_owned(),
        events: former.as_ref().map_or(0, |former| former.events) + u64::from(event.by_others),
        score: parameters.update(raw, former.map(|former| former.score)),
        raw,
        factors: assessed.factors,
        basis: ReputationRow::basis(&assessed),
    };
    tables::put(tx, tables::REPUTATIONS, agent.as_str(), &row)?;
    tables::put(tx, tables::REPUTATION_EVENTS, &tables::agent_seq(agent, event.seq), &row)?;
    if row.events >= parameters.established_events {
        due::derive(tx, agent.as_str(), event.seq)?;
        due::derive_at(tx, agent, REPUTATION, lapses(row.at), event.seq)?;
    }
    Ok(())
}
