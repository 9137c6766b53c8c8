//! What is known of an agent in the window, gathered from the tables.

use std::ops::ControlFlow;

use credence_engine::reputation::{Evidence, performance::Settled};
use credence_ledger::{Scan, Table, Transaction, View};
use credence_protocol::{EntityId, Timestamp};

use super::{
    HOUR_SECONDS, parameters,
    rows::{ContractRow, DisputeRow, IdentityRow, ReputationRow, ReviewRow, SettledRow},
    window_start,
};
use crate::{Result, tables};

/// What is known of an agent in the window that ends at `at`.
pub fn evidence(view: &(impl View + ?Sized), agent: &EntityId, at: Timestamp) -> Result<Evidence> {
    let since = window_start(at);
    let identity: Option<IdentityRow> = tables::get(view, tables::IDENTITIES, agent.as_str())?;
    let contracts = contracts(view, agent, since)?;
    let mut settled = settled(view, agent, since)?;
    // A claim that nobody settled in time came to nothing. Else one could publish both sides of everything, and have the
    // right one verified.
    let overdue = at.plus_seconds(-parameters().unsettled_hours * HOUR_SECONDS);
    let unsettled = contracts.iter().filter(|row| row.outcome.is_none() && row.at <= overdue);
    settled.extend(unsettled.map(|row| {
        let nothing = Settled { band: row.facts.band, probability: row.facts.probability, outcome: 0.0 };
        (row.at.plus_seconds(parameters().unsettled_hours * HOUR_SECONDS), nothing)
    }));
    settled.sort_by_key(|(at, _)| *at);
    let mut evidence = Evidence {
        declared: identity.as_ref().map(|identity| identity.declared).unwrap_or_default(),
        unversioned_changes: identity
            .map_or(0, |identity| identity.unversioned_changes.iter().filter(|at| **at >= since).count() as u32),
        contracts: contracts.into_iter().map(|row| row.facts).collect(),
        settled: settled.into_iter().map(|(_, settled)| settled).collect(),
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
    evidence.reviews = words(view, tables::REVIEWS, &prefix, since)?;
    evidence.citers = words(view, tables::CITATIONS, &prefix, since)?.into_iter().map(|(weight, _)| weight).collect();
    Ok(evidence)
}

fn words(view: &(impl View + ?Sized), table: Table, prefix: &str, since: Timestamp) -> Result<Vec<(f64, f64)>> {
    let mut words = Vec::new();
    tables::scan(view, table, Scan::prefix(prefix), |_, row: ReviewRow| {
        if row.at >= since {
            words.push((row.weight, row.rating));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(words)
}

/// Who has reviewed `agent` within the window, of those whose word weighs something, the weightiest first.
pub fn reviews(view: &(impl View + ?Sized), agent: &EntityId, now: Timestamp) -> Result<Vec<(String, ReviewRow)>> {
    let (since, prefix) = (window_start(now), format!("{agent}/"));
    let mut reviews = Vec::new();
    tables::scan(view, tables::REVIEWS, Scan::prefix(&prefix), |key, row: ReviewRow| {
        if row.at >= since {
            reviews.push((key[prefix.len()..].to_owned(), row));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    reviews.sort_by(|(_, one), (_, other)| other.weight.total_cmp(&one.weight).then(other.at.cmp(&one.at)));
    Ok(reviews)
}

/// Forgets words from before the window, so that they are not read again and again.
pub(super) fn prune(tx: &mut dyn Transaction, agent: &EntityId, at: Timestamp) -> Result<()> {
    let (since, prefix) = (window_start(at), format!("{agent}/"));
    for table in [tables::REVIEWS, tables::CITATIONS] {
        let mut past = Vec::new();
        tables::scan(tx, table, Scan::prefix(&prefix), |key, row: ReviewRow| {
            if row.at < since {
                past.push(key.to_owned());
            }
            Ok(ControlFlow::Continue(()))
        })?;
        past.iter().try_for_each(|key| tx.delete(table, key))?;
    }
    Ok(())
}

/// The newest contracts of the window, oldest first.
fn contracts(view: &(impl View + ?Sized), agent: &EntityId, since: Timestamp) -> Result<Vec<ContractRow>> {
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
        contracts.extend(row.filter(|row| row.at >= since));
    }
    Ok(contracts)
}

/// What the newest settled contracts of the window came to, newest first.
fn settled(view: &(impl View + ?Sized), agent: &EntityId, since: Timestamp) -> Result<Vec<(Timestamp, Settled)>> {
    let prefix = format!("{agent}/");
    let (mut settled, limit) = (Vec::new(), parameters().window_samples);
    tables::scan(view, tables::SETTLED, Scan { reverse: true, ..Scan::prefix(&prefix) }, |_, row: SettledRow| {
        if row.at < since {
            return Ok(ControlFlow::Break(()));
        }
        settled.push((row.at, row.settled));
        Ok(if settled.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    settled.reverse();
    Ok(settled)
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
