//! Reputation, event by event (DESIGN, *Reputation*; ADR 0008): each statement changes what is known of one agent or a few,
//! and their reputations are computed again right then, once for each entry. Part of the fold: the same online and in replay.
//!
//! Between events R takes a step at every midnight ([`daily`]); how far a step goes depends on how many events a week had.
//!
//! Two parts. [`fold`] turns statements into evidence: rows that say what is known. [`touch`] makes the next reputation of the
//! evidence. When a key is revoked, [`groups`](crate::statements::groups) derives the evidence again without what the key said, and each agent whose
//! evidence changed takes one step.
//!
//! What a peer's word weighs is read when it is given and kept with it, so an event touches only those it names. Words that
//! weigh nothing: of newborns, of agents run by the same owner, and the praise of an agent for its own verification provider
//! (an agent must not carry whoever vouches for it; it may still complain).

mod daily;
mod evidence;
mod fold;
pub mod rows;

use credence_engine::{
    hcs25::providers::Party,
    reputation::{self as model, Parameters},
};
use credence_ledger::{Appended, Transaction, View};
use credence_protocol::{EntityId, Timestamp};

pub(crate) use daily::{SIGNAL_MOVE, next_midnight, next_move, reputation_at, settle_days, settle_days_before};
pub use evidence::{evidence, history, reviews};
pub(crate) use fold::{apply, claim_place, end_praise, fold_contract_again, fold_identity_again, fold_words_again};

use self::rows::ReputationRow;
use crate::{
    Result, due, summaries,
    tables::{self, AgentRow},
};

/// How long a contract can be challenged when it does not say.
pub const DEFAULT_CHALLENGE_HOURS: u32 = 72;
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

/// What `peer`'s word on `about` weighs at `at`, 0..=1.
pub(crate) fn word(
    view: &(impl View + ?Sized),
    peer: &EntityId,
    about: &EntityId,
    tone: Tone,
    at: Timestamp,
) -> Result<Word> {
    if party(view, peer)?.is(&party(view, about)?) {
        return Ok(Word::SameOwner);
    }
    if tone == Tone::Praise && summaries::vouches(view, about, peer)? {
        return Ok(Word::OwnProvider);
    }
    let row = reputation_at(view, peer, at)?;
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

/// Makes the next reputation of `agent`, whose evidence changed by an entry that is no statement on it. One that never had a
/// reputation gets none from that.
pub(crate) fn evidence_changed(tx: &mut dyn Transaction, agent: &EntityId, at: Appended, cause: &str) -> Result<()> {
    match tx.get(tables::REPUTATIONS, agent.as_str())? {
        Some(_) => touch(tx, agent, Event::own(at, cause)),
        None => Ok(()),
    }
}

/// Computes an agent's reputation again, after an event. At most once for an agent and entry.
fn touch(tx: &mut dyn Transaction, agent: &EntityId, event: Event<'_>) -> Result<()> {
    let parameters = parameters();
    let former = reputation_at(tx, agent, event.at)?;
    // With this one.
    let events_of_week = daily::Frequency::read(tx, agent)?.at(event.at) + 1;
    evidence::prune(tx, agent, event.at)?;
    let assessed = model::assess(&evidence(tx, agent, event.at)?, &parameters);
    let raw = assessed.factors.raw();
    let row = ReputationRow {
        seq: event.seq,
        at: event.at,
        cause: event.cause.to_owned(),
        events: former.as_ref().map_or(0, |former| former.events) + u64::from(event.by_others),
        score: parameters.step(raw, former.map(|former| former.score), events_of_week),
        computed_at: event.at,
        raw,
        factors: assessed.factors,
        basis: ReputationRow::basis(&assessed),
    };
    tables::put(tx, tables::REPUTATIONS, agent.as_str(), &row)?;
    tables::put(tx, tables::REPUTATION_EVENTS, &tables::agent_seq(agent, event.seq), &row)?;
    if row.events >= parameters.established_events {
        due::derive(tx, agent.as_str(), event.seq)?;
        due::derive_at(tx, agent, REPUTATION, lapses(row.at), event.seq)?;
        if let Some(midnight) = next_midnight(event.at) {
            due::derive_at(tx, agent, due::MIDNIGHT, midnight, event.seq)?;
        }
    }
    Ok(())
}
