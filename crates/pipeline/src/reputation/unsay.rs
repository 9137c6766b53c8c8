//! A key was revoked: what it said from some entry on stops counting as evidence, and the agents concerned are computed again.
//! What others said since, under keys that count, stays.

use std::collections::BTreeSet;

use credence_ledger::{Appended, Transaction};
use credence_protocol::{EntityId, records::ChallengeRecord};

use super::{
    Event, claim_place,
    rows::{ChallengeRow, ChallengeState, ContractRow, IdentityRow, ReviewRow},
    settle, touch,
};
use crate::{
    Result,
    statements::{Said, Stated},
    summaries::{self, SummaryRow},
    tables,
};

/// Takes back what was said, each with its entry.
pub(crate) fn unsay(tx: &mut dyn Transaction, at: Appended, said: &[(u64, Stated)]) -> Result<()> {
    let mut touched: BTreeSet<EntityId> = BTreeSet::new();
    for (seq, stated) in said {
        match &stated.said {
            Said::Contract(record) => {
                let row = tables::get::<ContractRow>(tx, tables::CONTRACTS, &record.signal_id)?;
                if let Some(mut row) = row.filter(|row| row.seq == *seq) {
                    tx.delete(tables::AGENT_CONTRACTS, &tables::agent_seq(&row.agent, row.seq))?;
                    row.void = true;
                    settle(tx, &record.signal_id, &mut row, None, at)?;
                    touched.insert(row.agent);
                }
                for reference in &record.source_refs {
                    let cited = tables::get::<ContractRow>(tx, tables::CONTRACTS, reference)?;
                    if let Some(cited) = cited {
                        let place = format!("{}/{}", cited.agent, record.origin_agent);
                        touched.extend(forget(tx, tables::CITATIONS, &place, *seq)?.then_some(cited.agent));
                    }
                }
            }
            Said::Verification(record) => {
                let row = tables::get::<ContractRow>(tx, tables::CONTRACTS, &record.related_object_id)?;
                let theirs =
                    |row: &ContractRow| row.verification.as_ref() == Some(&record.verification_id) && !row.void;
                if let Some(mut row) = row.filter(theirs) {
                    row.verification = None;
                    let refuted = row.refuted_by.is_some().then_some(-1.0);
                    settle(tx, &record.related_object_id, &mut row, refuted, at)?;
                    touched.insert(row.agent);
                }
            }
            Said::Review(record) => {
                let place = format!("{}/{}", record.subject_agent_id, record.reviewer_agent_id);
                touched.extend(forget(tx, tables::REVIEWS, &place, *seq)?.then(|| record.subject_agent_id.clone()));
            }
            Said::Summary(record, _) => {
                let place = summaries::place(&record.agent, &record.window, stated.statement.author());
                let row = tables::get::<SummaryRow>(tx, tables::SUMMARIES, &place)?;
                if row.is_some_and(|row| row.seq == *seq) {
                    tx.delete(tables::SUMMARIES, &place)?;
                    crate::due::derive(tx, record.agent.as_str(), at.seq)?;
                    summaries::vouching_changed(tx, stated.statement.author(), at.seq)?;
                }
            }
            Said::Identity(record) => {
                let row = tables::get::<IdentityRow>(tx, tables::IDENTITIES, record.agent_id.as_str())?;
                if row.is_some_and(|row| row.seq == *seq) {
                    tx.delete(tables::IDENTITIES, record.agent_id.as_str())?;
                    touched.insert(record.agent_id.clone());
                }
            }
            Said::Resolution(record) => {
                let row = tables::get::<ChallengeRow>(tx, tables::CHALLENGES, &record.challenge_id)?;
                if let Some(row) = row.filter(|row| row.resolution == Some(*seq)) {
                    touched.extend(reopen(tx, &record.challenge_id, row, *seq, at)?);
                }
            }
            Said::Challenge(record) => {
                let row = tables::get::<ChallengeRow>(tx, tables::CHALLENGES, &record.challenge_id)?;
                if let Some(row) = row.filter(|row| row.seq == *seq) {
                    touched.insert(annul(tx, record, row)?);
                }
            }
        }
    }
    // Who never had a reputation gets none from words that were taken back.
    for agent in touched {
        if tx.get(tables::REPUTATIONS, agent.as_str())?.is_some() {
            touch(tx, &agent, Event::own(at, "a key was revoked"))?;
        }
    }
    Ok(())
}

/// Removes a pair's word if it is the one of entry `seq`.
fn forget(tx: &mut dyn Transaction, table: credence_ledger::Table, place: &str, seq: u64) -> Result<bool> {
    let theirs = tables::get::<ReviewRow>(tx, table, place)?.is_some_and(|row| row.seq == seq);
    if theirs {
        tx.delete(table, place)?;
    }
    Ok(theirs)
}

/// A resolution that no longer counts: the challenge is open again, and neither side won or lost.
fn reopen(tx: &mut dyn Transaction, id: &str, mut row: ChallengeRow, seq: u64, at: Appended) -> Result<[EntityId; 2]> {
    for agent in [&row.target, &row.challenger] {
        tx.delete(tables::DISPUTES, &tables::agent_seq(agent, seq))?;
    }
    if let Some(mut contract) = tables::get::<ContractRow>(tx, tables::CONTRACTS, &row.contract)?
        && contract.refuted_by.as_deref() == Some(id)
    {
        contract.refuted_by = None;
        match contract.outcome {
            Some((_, settled)) if settled == seq => settle(tx, &row.contract, &mut contract, None, at)?,
            _ => tables::put(tx, tables::CONTRACTS, &row.contract, &contract)?,
        }
    }
    row.resolution = None;
    if row.state != ChallengeState::Void {
        row.state = ChallengeState::Open;
        tables::put(tx, tables::OPEN_CHALLENGES, &format!("{}/{id}", row.challenger), &row.seq)?;
    }
    tables::put(tx, tables::CHALLENGES, id, &row)?;
    Ok([row.target, row.challenger])
}

/// A challenge that its author did not put: nothing of it is held against the author. What the authority found about the
/// contract stands.
fn annul(tx: &mut dyn Transaction, record: &ChallengeRecord, mut row: ChallengeRow) -> Result<EntityId> {
    let challenger = row.challenger.clone();
    tx.delete(tables::OPEN_CHALLENGES, &format!("{challenger}/{}", record.challenge_id))?;
    for seq in [Some(row.seq), row.resolution].into_iter().flatten() {
        tx.delete(tables::DISPUTES, &tables::agent_seq(&challenger, seq))?;
    }
    let claim = claim_place(record)?;
    match tables::get::<u32>(tx, tables::CLAIMS, &claim)? {
        Some(times) if times > 1 => tables::put(tx, tables::CLAIMS, &claim, &(times - 1))?,
        _ => tx.delete(tables::CLAIMS, &claim)?,
    }
    row.state = ChallengeState::Void;
    tables::put(tx, tables::CHALLENGES, &record.challenge_id, &row)?;
    Ok(challenger)
}
