//! Batch scoring of every agent, in parallel: after a change of weights, or on demand. An agent whose inputs and weights
//! are what its newest score event says gets no new one, so recomputing twice records nothing twice.
//!
//! Agents go through in key order, a chunk at a time; memory does not grow with their number.

use std::ops::ControlFlow;

use credence_ledger::{Entry, Ledger, Scan, View, write};
use credence_protocol::{Canonical, EntityId, ScoreStatus};
use rayon::prelude::*;
use serde::Serialize;

use crate::{
    Result,
    filter::{self, Weights},
    record::{Input, ScoreRecord},
    score::{self, Scoring},
    tables::{self, AgentRow, ScoreRow},
};

/// Agents written together.
const AGENTS_PER_CHUNK: usize = 2_000;
/// Agents read and computed by one thread at a time.
const AGENTS_PER_TASK: usize = 125;

/// What a recompute did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Recomputed {
    /// Agents looked at.
    pub agents: usize,
    /// Signals that counted.
    pub signals: usize,
    /// Score events recorded.
    pub events: usize,
}

/// Scores every agent; `progress` is told how many are done.
pub fn recompute(ledger: &dyn Ledger, scoring: &Scoring, progress: &mut dyn FnMut(usize)) -> Result<Recomputed> {
    let asked = asked_by(&*ledger.view()?)?;
    let mut done = Recomputed::default();
    let mut after: Option<String> = None;
    loop {
        let agents = next_agents(&*ledger.view()?, after.as_deref())?;
        let Some(last) = agents.last() else { break };
        after = Some(last.to_string());
        let tasks: Vec<Task> = agents
            .par_chunks(AGENTS_PER_TASK)
            .map(|agents| Task::compute(ledger, scoring, agents))
            .collect::<Result<_>>()?;
        done.agents += agents.len();
        done.signals += tasks.iter().map(|task| task.signals).sum::<usize>();
        done.events += record(ledger, scoring, tasks)?;
        progress(done.agents);
    }
    if let Some(asked) = asked {
        write(ledger, move |tx| {
            // A weight that changed meanwhile asks again.
            if asked_by(tx)? == Some(asked) {
                tx.delete(tables::PENDING, tables::EVERYONE)?;
            }
            Ok::<_, crate::Error>(())
        })?;
    }
    Ok(done)
}

/// The entry after which everyone is to be scored again, if there is one.
pub(crate) fn asked_by(view: &(impl View + ?Sized)) -> Result<Option<u64>> {
    tables::get(view, tables::PENDING, tables::EVERYONE)
}

fn next_agents(view: &dyn View, after: Option<&str>) -> Result<Vec<EntityId>> {
    let mut agents = Vec::with_capacity(AGENTS_PER_CHUNK);
    tables::scan(view, tables::AGENTS, Scan { after, ..Scan::all() }, |key, _: AgentRow| {
        agents.push(EntityId::new(key)?);
        Ok(if agents.len() == AGENTS_PER_CHUNK { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(agents)
}

/// Some agents' new scores, as of one size of the ledger.
struct Task {
    as_of: u64,
    signals: usize,
    changed: Vec<(EntityId, Canonical)>,
}

impl Task {
    fn compute(ledger: &dyn Ledger, scoring: &Scoring, agents: &[EntityId]) -> Result<Self> {
        let view = ledger.view()?;
        let weights = Weights::read(&*view)?;
        let mut task = Self { as_of: view.size()?, signals: 0, changed: Vec::new() };
        for agent in agents {
            let inputs = filter::inputs(&*view, agent, &weights, &scoring.tags)?;
            task.signals += inputs.len();
            if let Some(body) = changed(&*view, agent, task.as_of, &inputs, scoring)? {
                task.changed.push((agent.clone(), body));
            }
        }
        Ok(task)
    }
}

/// The agent's new score event, unless its newest says the same but for `as_of`.
fn changed(
    view: &(impl View + ?Sized),
    agent: &EntityId,
    as_of: u64,
    inputs: &[Input],
    scoring: &Scoring,
) -> Result<Option<Canonical>> {
    let last: Option<ScoreRow> = tables::get(view, tables::SCORES, agent.as_str())?;
    if inputs.is_empty() && last.as_ref().is_none_or(|last| last.recorded.status == ScoreStatus::Unrated) {
        return Ok(None);
    }
    let mut record = ScoreRecord::compute(agent.clone(), as_of, inputs, scoring.coverage_floor)?;
    if let Some(last) = last {
        record.as_of = last.recorded.as_of;
        let bytes = view.entry(last.seq)?.unwrap_or_default();
        if Entry::parse(last.seq, &bytes)?.body() == Canonical::of(&record)?.as_str() {
            return Ok(None);
        }
        record.as_of = as_of;
    }
    Ok(Some(Canonical::of(&record)?))
}

/// Appends the new events. If anyone else wrote since they were computed, they are made again here, in the writer.
fn record(ledger: &dyn Ledger, scoring: &Scoring, tasks: Vec<Task>) -> Result<usize> {
    let scoring = scoring.clone();
    write(ledger, move |tx| {
        let now = tx.size()?;
        let mut events = 0;
        for task in tasks {
            if task.as_of == now {
                for (agent, body) in &task.changed {
                    score::append(tx, agent, body)?;
                    tx.delete(tables::PENDING, agent.as_str())?;
                }
                events += task.changed.len();
            } else {
                let weights = Weights::read(tx)?;
                for (agent, _) in &task.changed {
                    let inputs = filter::inputs(tx, agent, &weights, &scoring.tags)?;
                    if let Some(body) = changed(tx, agent, tx.size()?, &inputs, &scoring)? {
                        score::append(tx, agent, &body)?;
                        events += 1;
                    }
                    tx.delete(tables::PENDING, agent.as_str())?;
                }
            }
        }
        Ok::<_, crate::Error>(events)
    })
}
