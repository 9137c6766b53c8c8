//! Contracts and challenges, with what became of them.

use std::ops::ControlFlow;

use credence_ledger::{Scan, View};
use credence_protocol::EntityId;

use crate::{
    Result,
    reputation::rows::{ChallengeRow, ContractRow},
    tables,
};

/// A contract, if one has this id.
pub fn contract(view: &(impl View + ?Sized), id: &str) -> Result<Option<ContractRow>> {
    tables::get(view, tables::CONTRACTS, id)
}

/// The newest contracts of `agent`, newest first, at most `limit` of them.
pub fn contracts_of(view: &(impl View + ?Sized), agent: &EntityId, limit: usize) -> Result<Vec<(String, ContractRow)>> {
    let mut contracts = Vec::new();
    for id in contract_ids(view, agent, limit)? {
        contracts.extend(contract(view, &id)?.map(|row| (id, row)));
    }
    Ok(contracts)
}

/// Whether `agent` has published a contract that stands.
pub fn has_contracts(view: &(impl View + ?Sized), agent: &EntityId) -> Result<bool> {
    Ok(!contract_ids(view, agent, 1)?.is_empty())
}

fn contract_ids(view: &(impl View + ?Sized), agent: &EntityId, limit: usize) -> Result<Vec<String>> {
    let (prefix, mut ids) = (format!("{agent}/"), Vec::new());
    let scan = Scan { reverse: true, ..Scan::prefix(&prefix) };
    if limit > 0 {
        tables::scan(view, tables::AGENT_CONTRACTS, scan, |_, id| {
            ids.push(id);
            Ok(if ids.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
    }
    Ok(ids)
}

/// A challenge, if one has this id.
pub fn challenge(view: &(impl View + ?Sized), id: &str) -> Result<Option<ChallengeRow>> {
    tables::get(view, tables::CHALLENGES, id)
}

/// The challenges that `agent` put or had to answer, oldest first.
pub fn challenges_of(view: &(impl View + ?Sized), agent: &EntityId) -> Result<Vec<(String, ChallengeRow)>> {
    let mut rows: Vec<(String, ChallengeRow)> = tables::all(view, tables::CHALLENGES)?;
    rows.retain(|(_, row)| row.target == *agent || row.challenger == *agent);
    rows.sort_by_key(|(_, row)| row.seq);
    Ok(rows)
}
