//! Statements by what they bear on, and evidence derived again without some of them.
//!
//! | group | its statements |
//! |---|---|
//! | `contract/ID` | the contract, verifications and challenges of it, resolutions of those |
//! | `words/AGENT/PEER` | what one agent says of another: reviews, contracts that cite it; and a report by AGENT on PEER, which ends PEER's praise |
//! | `identity/AGENT` | what an agent declares of itself |
//! | `summary/AGENT/WINDOW/PROVIDER` | a provider's reports on a window |
//!
//! The rows that a group's statements lead to depend on no other group. So when a key is revoked from some entry on, the groups
//! that it spoke in are folded again from their statements, in order, without those that no longer count; nothing has to know
//! how to take a statement back. What a word weighed when it was given was kept with it (`bearings`), and is used again.

use std::{collections::BTreeSet, ops::ControlFlow};

use credence_ledger::{Appended, Entry, Scan, Transaction, View};
use credence_protocol::{EntityId, KeyId};
use serde::{Deserialize, Serialize};

use super::{ParsedStatement, StatementBody};
use crate::{
    Result, due,
    reputation::{
        self,
        rows::{ChallengeRow, ContractRow},
    },
    summaries,
    tables::{self, KeyRow},
};

/// What statements bear on together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Group {
    /// A contract and what became of it.
    Contract(String),
    /// What `peer` says of `agent`.
    Words {
        /// Of whom.
        agent: EntityId,
        /// Who says it.
        peer: EntityId,
    },
    /// What an agent declares of itself.
    Identity(EntityId),
    /// A provider's reports on an agent's window.
    Summary {
        /// The agent.
        agent: EntityId,
        /// The window.
        window: String,
        /// The provider.
        provider: EntityId,
    },
}

/// A statement in a group.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct BearingRow {
    /// Who signed it.
    pub key: KeyId,
    /// What it weighed when it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Of a summary: checks by stake in the provider's reports before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stakes_before: Option<(u64, u64)>,
}

impl Group {
    fn prefix(&self) -> String {
        match self {
            Group::Contract(id) => format!("contract/{id}/"),
            Group::Words { agent, peer } => format!("words/{agent}/{peer}/"),
            Group::Identity(agent) => format!("identity/{agent}/"),
            Group::Summary { agent, window, provider } => format!("summary/{agent}/{window}/{provider}/"),
        }
    }

    fn place(&self, seq: u64) -> String {
        format!("{}{seq:016}", self.prefix())
    }

    /// The group's statements, oldest first, with their places in the ledger and whether they still count.
    fn statements(&self, view: &(impl View + ?Sized)) -> Result<Vec<(Pass, ParsedStatement)>> {
        let prefix = self.prefix();
        let mut bearings = Vec::new();
        tables::scan(view, tables::BEARINGS, Scan::prefix(&prefix), |place, row: BearingRow| {
            // The id of a contract may end in a slash and more: only a seq may follow the prefix.
            if let Ok(seq) = place[prefix.len()..].parse::<u64>() {
                bearings.push((seq, row));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let mut statements = Vec::with_capacity(bearings.len());
        for (seq, row) in bearings {
            let entry = Entry::parse(seq, &view.entry(seq)?.unwrap_or_default())?;
            let damaged = |why: String| credence_ledger::Error::Entry { seq, why };
            let stated = ParsedStatement::parse(entry.body().as_bytes()).map_err(|e| damaged(e.to_string()))?;
            let key: Option<KeyRow> = tables::get(view, tables::KEYS, &row.key.to_string())?;
            let counts = key.is_some_and(|key| key.counts_at(seq));
            let at = Appended { seq, recorded_at: entry.recorded_at };
            statements.push((Pass { at, key: row.key, counts, kept: Some(row) }, stated));
        }
        Ok(statements)
    }

    /// Folds the group's statements again, those that count.
    fn fold_again(&self, tx: &mut dyn Transaction) -> Result<()> {
        let statements = self.statements(tx)?;
        match self {
            Group::Contract(id) => reputation::fold_contract_again(tx, id, &statements),
            Group::Words { agent, peer } => reputation::fold_words_again(tx, agent, peer, &statements),
            Group::Identity(agent) => reputation::fold_identity_again(tx, agent, &statements),
            Group::Summary { agent, window, provider } => {
                summaries::fold_again(tx, &summaries::place(agent, window, provider), &statements)
            }
        }
    }

    /// Agents whose evidence the group is part of.
    fn concerns(&self, view: &(impl View + ?Sized)) -> Result<BTreeSet<EntityId>> {
        let mut agents = BTreeSet::new();
        match self {
            Group::Contract(_) => {
                for (_, stated) in self.statements(view)? {
                    match stated.body {
                        StatementBody::Contract(record) => agents.insert(record.origin_agent),
                        StatementBody::Challenge(record) => agents.insert(record.challenger_agent_id),
                        _ => continue,
                    };
                }
            }
            Group::Words { agent, .. } | Group::Identity(agent) => {
                agents.insert(agent.clone());
            }
            Group::Summary { .. } => {}
        }
        Ok(agents)
    }
}

/// One statement on its way into the rows: right after its entry was appended, or again later.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pass {
    /// Its entry.
    pub at: Appended,
    /// Who signed it.
    key: KeyId,
    /// Whether its key counts there.
    pub counts: bool,
    /// What was kept of the first pass.
    kept: Option<BearingRow>,
}

impl Pass {
    /// The first one.
    pub(crate) fn first(at: Appended, key: KeyId) -> Self {
        Self { at, key, counts: true, kept: None }
    }

    /// Notes that the statement bears on `group`.
    pub(crate) fn bears_on(&self, tx: &mut dyn Transaction, group: &Group) -> Result<()> {
        self.keep(tx, group, BearingRow { key: self.key, weight: None, stakes_before: None })
    }

    fn keep(&self, tx: &mut dyn Transaction, group: &Group, row: BearingRow) -> Result<()> {
        Ok(tables::put(tx, tables::BEARINGS, &group.place(self.at.seq), &row)?)
    }

    /// What the statement's word weighs in `group`: by `now` in the first pass, as kept later.
    pub(crate) fn weight(
        &self,
        tx: &mut dyn Transaction,
        group: &Group,
        now: impl FnOnce(&dyn Transaction) -> Result<f64>,
    ) -> Result<f64> {
        if let Some(kept) = &self.kept {
            return Ok(kept.weight.unwrap_or(0.0));
        }
        let weight = now(tx)?;
        self.keep(tx, group, BearingRow { key: self.key, weight: Some(weight), stakes_before: None })?;
        Ok(weight)
    }

    /// The same for the stakes in a provider's reports before.
    pub(crate) fn stakes_before(
        &self,
        tx: &mut dyn Transaction,
        group: &Group,
        now: impl FnOnce(&mut dyn Transaction) -> Result<(u64, u64)>,
    ) -> Result<(u64, u64)> {
        if let Some(kept) = &self.kept {
            return Ok(kept.stakes_before.unwrap_or_default());
        }
        let stakes = now(tx)?;
        self.keep(tx, group, BearingRow { key: self.key, weight: None, stakes_before: Some(stakes) })?;
        Ok(stakes)
    }
}

/// The groups that a statement bears on.
pub(crate) fn groups_of(view: &(impl View + ?Sized), stated: &ParsedStatement) -> Result<BTreeSet<Group>> {
    let contract = |id: &str| -> Result<Option<ContractRow>> { tables::get(view, tables::CONTRACTS, id) };
    let mut groups = BTreeSet::new();
    match &stated.body {
        StatementBody::Identity(record) => {
            groups.insert(Group::Identity(record.agent_id.clone()));
        }
        StatementBody::Contract(record) => {
            groups.insert(Group::Contract(record.signal_id.clone()));
            let peer = &record.origin_agent;
            for reference in &record.source_refs {
                if let Some(cited) = contract(reference)?.filter(|cited| cited.agent != *peer) {
                    groups.insert(Group::Words { agent: cited.agent, peer: peer.clone() });
                }
            }
        }
        StatementBody::Verification(record) if record.related_object_type == "signal" => {
            groups.insert(Group::Contract(record.related_object_id.clone()));
        }
        StatementBody::Verification(_) => {}
        StatementBody::Challenge(record) => {
            groups.insert(Group::Contract(record.original_signal_id.clone()));
        }
        StatementBody::Resolution(record) => {
            let row: Option<ChallengeRow> = tables::get(view, tables::CHALLENGES, &record.challenge_id)?;
            groups.extend(row.map(|row| Group::Contract(row.contract)));
        }
        StatementBody::Review(record) => {
            let (agent, peer) = (record.subject_agent_id.clone(), record.reviewer_agent_id.clone());
            groups.insert(Group::Words { agent, peer });
        }
        StatementBody::Summary(record, _) => {
            // Whether it bears on what its agent says of the provider is noted where it is folded.
            let provider = stated.statement.author().clone();
            let (agent, window) = (record.agent.clone(), record.window.clone());
            groups.insert(Group::Summary { agent, window, provider: provider.clone() });
            for agent in summaries::agents_behind(view, &provider)? {
                groups.insert(Group::Words { agent, peer: record.agent.clone() });
            }
        }
    }
    Ok(groups)
}

/// A key was revoked at `at`: derives again what rests on the statements that it no longer stands for. Agents whose evidence
/// changed take one step of their reputation; what it was before stays recorded.
pub(crate) fn derive_again(tx: &mut dyn Transaction, at: Appended, revoked: &[ParsedStatement]) -> Result<()> {
    let (mut groups, mut agents) = (BTreeSet::new(), BTreeSet::new());
    for stated in revoked {
        groups.extend(groups_of(tx, stated)?);
    }
    for group in &groups {
        agents.extend(group.concerns(tx)?);
    }
    let mut before = Vec::with_capacity(agents.len());
    for agent in &agents {
        reputation::settle_days(tx, agent, at.recorded_at)?;
        before.push(reputation::evidence(tx, agent, at.recorded_at)?);
    }
    for group in &groups {
        group.fold_again(tx)?;
        if let Group::Summary { agent, provider, .. } = group {
            due::derive(tx, agent.as_str(), at.seq)?;
            summaries::vouching_changed(tx, provider, at.seq)?;
            // A report that counts again ends praise that was given in between.
            for behind in summaries::agents_behind(tx, provider)? {
                if summaries::vouches(tx, &behind, agent)? {
                    reputation::end_praise(tx, &behind, agent)?;
                }
            }
        }
    }
    for (agent, before) in agents.iter().zip(before) {
        if reputation::evidence(tx, agent, at.recorded_at)? != before {
            reputation::evidence_changed(tx, agent, at, "a key was revoked")?;
        }
    }
    Ok(())
}
