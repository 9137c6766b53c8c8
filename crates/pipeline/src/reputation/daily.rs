//! Reputation between events: one step at every UTC midnight (seed 1, "computed daily"), with the evidence that the window of then
//! still holds. Part of the fold and no entry: the steps between an agent's last event and the next are taken when that is folded, and
//! those up to a reading are taken for the reading alone. Both follow from the tables and a time, so replay takes the same ones.

use std::ops::ControlFlow;

use credence_engine::reputation::{
    self as model,
    time::{FREQUENCY_DAYS, midnights},
};
use credence_ledger::{Scan, Transaction, View};
use credence_protocol::{EntityId, Timestamp};

use super::{DAY_SECONDS, evidence, lapses, parameters, rows::ReputationRow};
use crate::{
    Result,
    reputation::rows::{ChallengeRow, ContractRow},
    statements::{ParsedStatement, StatementBody},
    summaries, tables,
};

/// Events that are counted for the frequency: with more of them a step is as small as it gets.
const MAX_COUNTED_EVENTS: usize = 40;
/// A move of R that is worth a new signal.
pub(crate) const SIGNAL_MOVE: f64 = 1.0;

/// The reputation of `agent` at `at`: after its last event, and a step at every midnight since.
pub(crate) fn reputation_at(
    view: &(impl View + ?Sized),
    agent: &EntityId,
    at: Timestamp,
) -> Result<Option<ReputationRow>> {
    let row: Option<ReputationRow> = tables::get(view, tables::REPUTATIONS, agent.as_str())?;
    row.map(|row| moved_on(view, agent, row, at)).transpose()
}

/// Takes the steps of `agent` up to `at`, for good: before an entry of then changes its evidence.
pub(crate) fn settle_days(tx: &mut dyn Transaction, agent: &EntityId, at: Timestamp) -> Result<()> {
    let Some(row) = tables::get::<ReputationRow>(tx, tables::REPUTATIONS, agent.as_str())? else { return Ok(()) };
    if midnights(row.computed_at, at).next().is_none() {
        return Ok(());
    }
    let row = moved_on(tx, agent, row, at)?;
    Ok(tables::put(tx, tables::REPUTATIONS, agent.as_str(), &row)?)
}

/// The same for every agent whose evidence a statement of `at` may change.
pub(crate) fn settle_days_before(tx: &mut dyn Transaction, stated: &ParsedStatement, at: Timestamp) -> Result<()> {
    for agent in concerned(tx, stated)? {
        settle_days(tx, &agent, at)?;
    }
    Ok(())
}

fn concerned(view: &(impl View + ?Sized), stated: &ParsedStatement) -> Result<Vec<EntityId>> {
    let owner = |id: &str| -> Result<Option<EntityId>> {
        Ok(tables::get::<ContractRow>(view, tables::CONTRACTS, id)?.map(|row| row.agent))
    };
    let mut agents = Vec::new();
    match &stated.body {
        StatementBody::Identity(record) => agents.push(record.agent_id.clone()),
        StatementBody::Contract(record) => {
            agents.push(record.origin_agent.clone());
            for reference in &record.source_refs {
                agents.extend(owner(reference)?);
            }
        }
        StatementBody::Verification(record) => agents.extend(owner(&record.related_object_id)?),
        StatementBody::Challenge(record) => {
            agents.push(record.challenger_agent_id.clone());
            agents.extend(owner(&record.original_signal_id)?);
        }
        StatementBody::Resolution(record) => {
            let row: Option<ChallengeRow> = tables::get(view, tables::CHALLENGES, &record.challenge_id)?;
            agents.extend(row.into_iter().flat_map(|row| [row.target, row.challenger]));
        }
        StatementBody::Review(record) => agents.push(record.subject_agent_id.clone()),
        // It may end praise.
        StatementBody::Summary(..) => agents.extend(summaries::agents_behind(view, stated.statement.author())?),
    }
    Ok(agents)
}

fn moved_on(
    view: &(impl View + ?Sized),
    agent: &EntityId,
    mut row: ReputationRow,
    at: Timestamp,
) -> Result<ReputationRow> {
    let mut days = midnights(row.computed_at, at).peekable();
    if days.peek().is_none() {
        return Ok(row);
    }
    let (parameters, frequency) = (parameters(), Frequency::read(view, agent)?);
    // The window of a midnight after this one holds nothing that could leave it.
    let empty_from = lapses(row.at).plus_seconds(DAY_SECONDS);
    let mut is_final = false;
    for midnight in days {
        if !is_final {
            let assessed = model::assess(&evidence(view, agent, midnight)?, &parameters);
            (row.raw, row.factors) = (assessed.factors.raw(), assessed.factors);
            row.basis = ReputationRow::basis(&assessed);
            is_final = midnight > empty_from;
        }
        row.score = parameters.step(row.raw, Some(row.score), frequency.at(midnight));
        row.computed_at = midnight;
    }
    Ok(row)
}

/// When an agent's newest events were.
pub(super) struct Frequency(Vec<Timestamp>);

impl Frequency {
    pub(super) fn read(view: &(impl View + ?Sized), agent: &EntityId) -> Result<Self> {
        let (prefix, mut times) = (format!("{agent}/"), Vec::new());
        let scan = Scan { reverse: true, ..Scan::prefix(&prefix) };
        tables::scan(view, tables::REPUTATION_EVENTS, scan, |_, row: ReputationRow| {
            times.push(row.at);
            Ok(if times.len() == MAX_COUNTED_EVENTS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(Self(times))
    }

    /// How many events came within seven days before `at`.
    pub(super) fn at(&self, at: Timestamp) -> u64 {
        let since = at.plus_seconds(-FREQUENCY_DAYS * DAY_SECONDS);
        self.0.iter().filter(|time| **time > since && **time <= at).count() as u64
    }
}

/// The first midnight after `now` at which R differs from `said` by [`SIGNAL_MOVE`], while the reputation says something.
pub(crate) fn next_move(
    view: &(impl View + ?Sized),
    agent: &EntityId,
    said: f64,
    now: Timestamp,
) -> Result<Option<Timestamp>> {
    let Some(mut row) = reputation_at(view, agent, now)? else { return Ok(None) };
    for midnight in midnights(now, lapses(row.at)) {
        row = moved_on(view, agent, row, midnight)?;
        if (row.score - said).abs() >= SIGNAL_MOVE {
            return Ok(Some(midnight));
        }
    }
    Ok(None)
}

/// The midnight after `at`.
pub(crate) fn next_midnight(at: Timestamp) -> Option<Timestamp> {
    midnights(at, at.plus_seconds(DAY_SECONDS)).next()
}
