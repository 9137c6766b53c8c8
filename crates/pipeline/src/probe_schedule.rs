//! Probes that are due again and again: one job for each agent whose operator asked for it. Nobody is probed who was not asked for, and
//! consent is asked for anew at every run.
//!
//! The job's key is the agent, its payload the [`ProbeSchedule`]; a run that is over puts the next one.

use credence_ledger::{NewJob, Queue, View, write};
use credence_protocol::{EntityId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::{
    Authority, Error, Result,
    tables::{self, AgentRow},
};

/// Agents that are to be probed.
pub const PROBE: Queue = Queue("probe");
/// Hours between two runs: an hour to ninety days.
pub const EVERY_HOURS: std::ops::RangeInclusive<u32> = 1..=2160;

/// How often and how an agent is probed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbeSchedule {
    /// Hours between two runs.
    pub every_hours: u32,
    /// The agent's address.
    pub target: String,
    /// How it is spoken to.
    pub transport: String,
    /// The model to name (`chat`, `responses`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Threats to try, such as `asi01`; all where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub threats: Vec<String>,
    /// Requests of one run at most.
    pub budget: u64,
    /// Requests a second at most.
    pub rate: u32,
    /// Names of the service's environment variables that hold the tokens of a first and a second identity. Never the tokens themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub token_variables: Vec<String>,
    /// The header that carries a token; a bearer token where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_header: Option<String>,
}

/// A schedule as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Scheduled {
    /// What was asked for.
    #[serde(flatten)]
    pub schedule: ProbeSchedule,
    /// When the next run is due.
    pub next_at: Timestamp,
    /// Whether a run is under way.
    pub running: bool,
    /// Why the last run came to nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

impl Authority {
    /// Has `agent` probed from `first` on, again and again; another schedule replaces the one before.
    pub fn schedule_probes(&self, agent: &EntityId, schedule: &ProbeSchedule, first: Timestamp) -> Result<()> {
        let payload = serde_json::to_string(schedule).map_err(|e| Error::Probe(e.to_string()))?;
        let job = NewJob::at(PROBE, agent.as_str(), first, payload);
        let agent = agent.clone();
        write(self.ledger(), move |tx| {
            if tables::get::<AgentRow>(tx, tables::AGENTS, agent.as_str())?.is_none() {
                return Err(Error::UnknownAgent(agent.to_string()));
            }
            Ok(tx.put_jobs(std::slice::from_ref(&job))?)
        })
    }

    /// Ends the probes of `agent`. `false` where there were none.
    pub fn unschedule_probes(&self, agent: &EntityId) -> Result<bool> {
        let agent = agent.clone();
        write(self.ledger(), move |tx| {
            let known = tx.job(PROBE, agent.as_str())?.is_some();
            tx.delete_jobs(PROBE, &[agent.as_str()])?;
            Ok::<_, Error>(known)
        })
    }
}

/// The schedule of `agent`, if it has one.
pub(crate) fn scheduled(view: &(impl View + ?Sized), agent: &EntityId, now: Timestamp) -> Result<Option<Scheduled>> {
    let Some(job) = view.job(PROBE, agent.as_str())? else { return Ok(None) };
    let schedule = parse(&job.payload)?;
    let running = job.leased_until.is_some_and(|until| until > now);
    Ok(Some(Scheduled { schedule, next_at: job.due, running, last_error: job.last_error }))
}

/// A job's payload.
pub fn parse(payload: &str) -> Result<ProbeSchedule> {
    serde_json::from_str(payload).map_err(|e| Error::Probe(format!("a schedule that cannot be read: {e}")))
}
