//! Batch scoring of every agent by both formulas, in parallel: after a change of weights, owners or roots, or on demand. An agent whose
//! newest score events say what would be recorded now gets no new ones, so recomputing twice records nothing twice.
//!
//! Agents go through in key order, a chunk at a time; memory does not grow with their number.

use std::{ops::ControlFlow, time::Duration};

use credence_ledger::{Claim, Clock, Ledger, Scan, View, write};
use credence_protocol::{EntityId, Timestamp};
use rayon::prelude::*;
use serde::Serialize;

use crate::{
    Result, age, due,
    filter::{self, Weights},
    score::{self, Scored, Scoring},
    tables::{self, AgentRow},
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
    /// Agents of whom new score events were recorded.
    pub events: usize,
}

/// Scores every agent; `progress` is told how many are done.
pub fn recompute(
    ledger: &dyn Ledger,
    scoring: &Scoring,
    clock: &Clock,
    progress: &mut dyn FnMut(usize),
) -> Result<Recomputed> {
    let claim = ledger.jobs().claim(due::RECOMPUTE, 1, LEASE)?.pop();
    recompute_claimed(ledger, scoring, clock, claim, progress)
}

fn recompute_claimed(
    ledger: &dyn Ledger,
    scoring: &Scoring,
    clock: &Clock,
    claim: Option<Claim>,
    progress: &mut dyn FnMut(usize),
) -> Result<Recomputed> {
    let done = recompute_all(ledger, scoring, clock, progress);
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

/// Asks for everyone's score again if the newest ones were made by another formula, another floor or other parameters. All were
/// made by the same: whenever these change, everyone is scored again before anything else is.
pub(crate) fn ask_if_settings_changed(ledger: &dyn Ledger, scoring: &Scoring) -> Result<()> {
    let view = ledger.view()?;
    let mut first = None;
    view.scan(tables::SCORES, Scan::all(), &mut |key, _| {
        first = key.split_once('/').map(|(agent, _)| agent.to_owned());
        ControlFlow::Break(())
    })?;
    let Some(agent) = first.map(|agent| EntityId::new(&agent)).transpose()? else { return Ok(()) };
    let universal = tables::universal_of(&*view, &agent)?;
    let assured = tables::assured_of(&*view, &agent)?;
    let made_otherwise = universal.is_some_and(|row| row.recorded.coverage_floor != scoring.coverage_floor)
        || assured.is_some_and(|row| row.recorded.parameters != scoring.model.digest());
    if made_otherwise {
        write(ledger, |tx| {
            let size = tx.size()?;
            due::rescore_everyone(tx, size)
        })?;
    }
    Ok(())
}

/// Scores every agent if that is due and nobody else is at it; at once, if it is due at all and the caller cannot wait.
pub(crate) fn recompute_if_due(ledger: &dyn Ledger, scoring: &Scoring, clock: &Clock, at_once: bool) -> Result<()> {
    let Some(asked) = ledger.view()?.job(due::RECOMPUTE, due::EVERYONE)? else { return Ok(()) };
    let claim = ledger.jobs().claim(due::RECOMPUTE, 1, LEASE)?.pop();
    match claim {
        Some(claim) => drop(recompute_claimed(ledger, scoring, clock, Some(claim), &mut |_| {})?),
        None if at_once => {
            recompute_claimed(ledger, scoring, clock, None, &mut |_| {})?;
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

fn recompute_all(
    ledger: &dyn Ledger,
    scoring: &Scoring,
    clock: &Clock,
    progress: &mut dyn FnMut(usize),
) -> Result<Recomputed> {
    let mut done = Recomputed::default();
    let mut after: Option<String> = None;
    loop {
        let agents = next_agents(&*ledger.view()?, after.as_deref())?;
        let Some(last) = agents.last() else { return Ok(done) };
        after = Some(last.to_string());
        let now = clock();
        let tasks: Vec<Task> = agents
            .par_chunks(AGENTS_PER_TASK)
            .map(|agents| Task::compute(ledger, scoring, agents, now))
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

/// Some agents' new scores, as of one size of the ledger and one hour.
struct Task {
    as_of: u64,
    hour: Timestamp,
    signals: usize,
    changed: Vec<Scored>,
}

impl Task {
    fn compute(ledger: &dyn Ledger, scoring: &Scoring, agents: &[EntityId], now: Timestamp) -> Result<Self> {
        let view = ledger.view()?;
        let weights = Weights::read(&*view)?;
        let mut task = Self { as_of: view.size()?, hour: age::hour_of(now)?, signals: 0, changed: Vec::new() };
        for agent in agents {
            let inputs = filter::inputs(&*view, agent, &weights, &scoring.tags)?;
            task.signals += inputs.len();
            task.changed.extend(score::news(&*view, agent, &inputs, &weights, scoring, task.as_of, now)?);
        }
        Ok(task)
    }
}

/// Appends the new events. If anyone else wrote since they were computed, or another hour has begun, they are made again here, in
/// the writer.
fn record(ledger: &dyn Ledger, scoring: &Scoring, tasks: Vec<Task>) -> Result<usize> {
    let scoring = scoring.clone();
    write(ledger, move |tx| {
        let (size, now) = (tx.size()?, tx.stamp()?);
        let mut weights = None;
        let mut scores = Vec::new();
        for task in &tasks {
            if task.as_of == size && task.hour == age::hour_of(now)? {
                scores.extend(task.changed.iter().cloned());
                continue;
            }
            let weights = match &weights {
                Some(weights) => weights,
                None => weights.insert(Weights::read(tx)?),
            };
            for Scored { agent, .. } in &task.changed {
                let inputs = filter::inputs(tx, agent, weights, &scoring.tags)?;
                scores.extend(score::news(tx, agent, &inputs, weights, &scoring, size, now)?);
            }
        }
        score::record_scores(tx, &scores)?;
        let scored: Vec<&str> = tasks.iter().flat_map(|task| &task.changed).map(|one| one.agent.as_str()).collect();
        tx.delete_jobs(due::RESCORE, &scored)?;
        Ok::<_, crate::Error>(scores.len())
    })
}
