//! Batch scoring of every agent, in parallel: after a change of weights, or on demand. An agent whose inputs and weights
//! are what its newest score event says gets no new one, so recomputing twice records nothing twice.
//!
//! Agents go through in key order, a chunk at a time; memory does not grow with their number.

use std::{ops::ControlFlow, time::Duration};

use credence_engine::universal;
use credence_ledger::{Claim, Entry, Ledger, Scan, View, write};
use credence_protocol::{Canonical, EntityId, ScoreStatus};
use rayon::prelude::*;
use serde::Serialize;

use crate::{
    Result, due,
    filter::{self, Weights},
    record::{Input, ScoreRecord},
    score::{self, Scoring},
    tables::{self, AgentRow, ScoreRow},
};

/// How long one process that scores everyone keeps others from doing the same. Longer work is done twice at worst, and recorded once.
const LEASE: Duration = Duration::from_secs(600);
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
    let claim = ledger.jobs().claim(due::RECOMPUTE, 1, LEASE)?.pop();
    recompute_claimed(ledger, scoring, claim, progress)
}

fn recompute_claimed(
    ledger: &dyn Ledger,
    scoring: &Scoring,
    claim: Option<Claim>,
    progress: &mut dyn FnMut(usize),
) -> Result<Recomputed> {
    let done = recompute_all(ledger, scoring, progress);
    if let Some(claim) = claim {
        match &done {
            // A weight that changed meanwhile asks again.
            Ok(_) => drop(ledger.jobs().complete(&claim)?),
            // The first error says more than that the job could not be given back.
            Err(error) => drop(ledger.jobs().fail(&claim, claim.job.due, &error.to_string())),
        }
    }
    done
}

/// Asks for everyone's score again if the newest ones were made by another formula or another floor. All were made by the same:
/// whenever these change, everyone is scored again before anything else is.
pub(crate) fn ask_if_settings_changed(ledger: &dyn Ledger, scoring: &Scoring) -> Result<()> {
    let mut made_otherwise = false;
    tables::scan(&*ledger.view()?, tables::SCORES, Scan::all(), |_, row: ScoreRow| {
        made_otherwise =
            row.recorded.coverage_floor != scoring.coverage_floor || row.recorded.formula != universal::FORMULA;
        Ok(ControlFlow::Break(()))
    })?;
    if made_otherwise {
        write(ledger, |tx| {
            let size = tx.size()?;
            due::rescore_everyone(tx, size)
        })?;
    }
    Ok(())
}

/// Scores every agent if that is due and nobody else is at it; at once, if it is due at all and the caller cannot wait.
pub(crate) fn recompute_if_due(ledger: &dyn Ledger, scoring: &Scoring, at_once: bool) -> Result<()> {
    let Some(asked) = ledger.view()?.job(due::RECOMPUTE, due::EVERYONE)? else { return Ok(()) };
    let claim = ledger.jobs().claim(due::RECOMPUTE, 1, LEASE)?.pop();
    match claim {
        Some(claim) => drop(recompute_claimed(ledger, scoring, Some(claim), &mut |_| {})?),
        None if at_once => {
            recompute_claimed(ledger, scoring, None, &mut |_| {})?;
            // Somebody else has the job, or had it and died. It is done, unless something asked again meanwhile.
            write(ledger, move |tx| {
                let same = tx.job(due::RECOMPUTE, due::EVERYONE)?.is_some_and(|job| job.payload == asked.payload);
                if same { tx.delete_jobs(due::RECOMPUTE, &[due::EVERYONE]) } else { Ok(()) }
            })?;
        }
        None => {}
    }
    Ok(())
}

fn recompute_all(ledger: &dyn Ledger, scoring: &Scoring, progress: &mut dyn FnMut(usize)) -> Result<Recomputed> {
    let mut done = Recomputed::default();
    let mut after: Option<String> = None;
    loop {
        let agents = next_agents(&*ledger.view()?, after.as_deref())?;
        let Some(last) = agents.last() else { return Ok(done) };
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
        let mut weights = None;
        let mut scores = Vec::new();
        for task in &tasks {
            if task.as_of == now {
                scores.extend(task.changed.iter().cloned());
                continue;
            }
            let weights = match &weights {
                Some(weights) => weights,
                None => weights.insert(Weights::read(tx)?),
            };
            for (agent, _) in &task.changed {
                let inputs = filter::inputs(tx, agent, weights, &scoring.tags)?;
                scores.extend(changed(tx, agent, now, &inputs, &scoring)?.map(|body| (agent.clone(), body)));
            }
        }
        score::record_scores(tx, &scores)?;
        let scored: Vec<&str> = tasks.iter().flat_map(|task| &task.changed).map(|(agent, _)| agent.as_str()).collect();
        tx.delete_jobs(due::RESCORE, &scored)?;
        Ok::<_, crate::Error>(scores.len())
    })
}
