//! A run from its plan to its result.

use std::{
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Instant,
};

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use super::{
    Cancel, RunOptions,
    family::FamilyRun,
    journal::{self, Header, Journal, JournalError, Line, VERSION},
    plan::Plan,
};
use crate::{
    benchmark,
    capability::{self, Abilities},
    report::RunResult,
    score,
    sensor::{listener::Listener, mount::Mount},
    suite::Suite,
    target::{OfferedTool, Target, TargetError, Transport},
    trial::{TrialRecord, play::Stage},
    variant::Variant,
};

/// What happens in a run, as it happens.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The run begins.
    Planned {
        /// What it would do.
        plan: &'a Plan,
        /// Trials that the journal has already.
        recorded: usize,
    },
    /// Something is found out about the target.
    Checking {
        /// What.
        what: &'a str,
    },
    /// A trial begins.
    Trying {
        /// The family.
        family: &'a str,
        /// The probe.
        probe: &'a str,
        /// The spelling.
        variant: Variant,
        /// Conclusive trials of the family so far.
        conclusive: u64,
    },
    /// A trial is recorded.
    Recorded {
        /// It.
        trial: &'a TrialRecord,
        /// Requests of this run so far.
        requests: u64,
    },
    /// A benchmark took a measurement.
    Measured {
        /// Which.
        benchmark: &'a str,
        /// How many it has.
        samples: usize,
    },
    /// A family is done.
    FamilyDone {
        /// Which.
        family: &'a str,
    },
}

/// Follows a run.
pub trait Observer: Send + Sync {
    /// Something happened. Called between requests: it should return soon.
    fn event(&self, event: Event<'_>);
}

/// Follows nothing.
#[derive(Debug, Clone, Copy)]
pub struct Quiet;

impl Observer for Quiet {
    fn event(&self, _: Event<'_>) {}
}

/// Why a run has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// See the journal's error.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Choose other threats or another transport.
    #[error("nothing of what was asked for can be tried over {0}")]
    Nothing(Transport),
    /// The target's list of tools is needed and cannot be had.
    #[error("the target's tools cannot be listed: {0}")]
    Tools(String),
}

/// A run.
pub struct Run<'a> {
    /// The probes.
    pub suite: &'a Suite,
    /// The target.
    pub target: &'a dyn Target,
    /// Its address, for the result: without credentials.
    pub address: String,
    /// What the run may do.
    pub options: RunOptions,
    /// Our listener.
    pub listener: Option<&'a Listener>,
    /// Honey tools that the operator mounted into the target.
    pub mount: Option<&'a Mount>,
    /// Where to record it.
    pub journal: Option<&'a Path>,
    /// Who follows it.
    pub observer: &'a dyn Observer,
    /// What stops it.
    pub cancel: Cancel,
}

/// What a run leaves.
#[derive(Debug, Clone)]
pub struct RunOutput {
    /// The result.
    pub result: RunResult,
    /// All trials, a later one in place of an earlier one of the same name.
    pub trials: Vec<TrialRecord>,
    /// Where the transcripts are.
    pub transcript: Option<PathBuf>,
}

/// Why a part of a run stops.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The run ends: budget, time, consent, cancelled, target down.
    Ended(String),
    /// The journal cannot be written.
    Journal(JournalError),
}

impl From<JournalError> for Stop {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

/// What the parts of a run share.
pub(crate) struct Shared<'a> {
    pub run: &'a Run<'a>,
    pub own_tools: Vec<OfferedTool>,
    pub abilities: Abilities,
    pub lines: Mutex<Vec<Line>>,
    journal: Mutex<Option<Journal>>,
    failures: AtomicU32,
    ended: Mutex<Option<String>>,
    pub started: Instant,
}

impl<'a> Shared<'a> {
    pub fn stage(&self) -> Stage<'_> {
        Stage {
            target: self.run.target,
            hits: self.run.listener.map(Listener::hits),
            mount: self.run.mount,
            own_tools: &self.own_tools,
        }
    }

    pub fn listener_base(&self) -> Option<String> {
        self.run.listener.map(|listener| listener.base().to_owned())
    }

    /// Records lines, in the journal and in memory.
    pub fn record(&self, lines: Vec<Line>, transcripts: &[Value]) -> Result<(), JournalError> {
        if let Some(journal) = self.journal.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            journal.write(&lines, transcripts)?;
        }
        for line in &lines {
            if let Line::Trial(trial) = line {
                self.run.observer.event(Event::Recorded { trial, requests: self.run.target.requests() });
            }
        }
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).extend(lines);
        Ok(())
    }

    /// Takes note of how an exchange went. Many failures in a row end the run.
    pub fn note(&self, error: Option<&TargetError>) -> Result<(), Stop> {
        if let Some(error) = error.filter(|error| error.ends_run) {
            return Err(self.end(error.why.clone()));
        }
        let Some(error) = error.filter(|error| error.reason.is_outage()) else {
            self.failures.store(0, Ordering::SeqCst);
            return Ok(());
        };
        let failures = self.failures.fetch_add(1, Ordering::SeqCst) + 1;
        if failures >= self.run.options.give_up_after {
            return Err(self.end(format!("the target failed {failures} times in a row, last: {}", error.why)));
        }
        Ok(())
    }

    /// Fails where the run is over.
    pub fn go_on(&self) -> Result<(), Stop> {
        if let Some(why) = self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone() {
            return Err(Stop::Ended(why));
        }
        if self.run.cancel.is_cancelled() {
            return Err(self.end("the run was stopped".to_owned()));
        }
        if self.run.options.time_limit.is_some_and(|limit| self.started.elapsed() >= limit) {
            return Err(self.end("the time limit is reached".to_owned()));
        }
        Ok(())
    }

    fn end(&self, why: String) -> Stop {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        Stop::Ended(ended.get_or_insert(why).clone())
    }
}

/// Says which families an outage kept from being finished, and what came in place of an answer.
fn unfinished(shared: &Shared<'_>, plan: &Plan) -> Option<String> {
    let lines = shared.lines.lock().unwrap_or_else(PoisonError::into_inner);
    let done = |family: &str| lines.iter().any(|line| matches!(line, Line::Done { family: done } if done == family));
    let families = plan.threats.iter().flat_map(|threat| &threat.families).map(|planned| planned.family.as_str());
    let open: Vec<&str> = families.filter(|family| !done(family)).collect();
    let last = lines.iter().rev().find_map(|line| match line {
        Line::Control(control) if !control.passed && open.contains(&control.family.as_str()) => Some(&control.detail),
        _ => None,
    });
    let last = last.map_or_else(String::new, |why| format!(": {why}"));
    (!open.is_empty()).then(|| format!("the target did not answer the control of {}{last}", open.join(", ")))
}

impl Run<'_> {
    /// What the run would do.
    pub fn plan(&self) -> Plan {
        Plan::new(self.suite, self.target.transport(), &self.options)
    }

    /// Runs, or continues the journal's run.
    pub async fn execute(&self) -> Result<RunOutput, RunError> {
        let started = Instant::now();
        let transport = self.target.transport();
        let plan = self.plan();
        if plan.threats.is_empty() && plan.dropped.is_empty() && !self.options.benchmarks {
            return Err(RunError::Nothing(transport));
        }
        let (journal, past) = match self.journal {
            Some(path) => {
                let (journal, lines) = Journal::open(path, &self.header())?;
                (Some(journal), lines)
            }
            None => (None, Vec::new()),
        };
        let recorded = past.iter().filter(|line| matches!(line, Line::Trial(_))).count();
        self.observer.event(Event::Planned { plan: &plan, recorded });
        let own_tools = if transport == Transport::Mcp {
            self.target.own_tools().await.map_err(|e| RunError::Tools(e.why))?
        } else {
            Vec::new()
        };
        if let Some(budget) = self.options.budget {
            self.target.limit_requests(budget.saturating_sub(score::requests_of(&past)));
        }
        let mut shared = Shared {
            run: self,
            own_tools,
            abilities: Abilities::default(),
            lines: Mutex::new(past),
            journal: Mutex::new(journal),
            failures: AtomicU32::new(0),
            ended: Mutex::new(None),
            started,
        };
        let ended = match self.all_parts(&mut shared, &plan).await {
            Ok(()) => unfinished(&shared, &plan),
            Err(Stop::Ended(why)) => Some(why),
            Err(Stop::Journal(error)) => return Err(error.into()),
        };
        let seconds = started.elapsed().as_secs_f64();
        shared.record(
            vec![Line::End {
                complete: ended.is_none(),
                why: ended.clone(),
                seconds,
                requests: self.target.requests(),
            }],
            &[],
        )?;
        let lines = shared.lines.into_inner().unwrap_or_else(PoisonError::into_inner);
        let trials = score::latest_trials(&lines);
        let result = score::result(&score::Basis {
            suite: self.suite,
            header: &self.header(),
            plan: &plan,
            abilities: &shared.abilities,
            own_tools: &shared.own_tools,
            lines: &lines,
            trials: &trials,
            ended,
        });
        Ok(RunOutput { result, trials, transcript: self.journal.map(journal::transcript_path) })
    }

    async fn all_parts(&self, shared: &mut Shared<'_>, plan: &Plan) -> Result<(), Stop> {
        shared.abilities = self.abilities(shared, plan).await?;
        let shared = &*shared;
        // A mounted server serves one trial at a time.
        let in_flight = if self.mount.is_some() { 1 } else { self.options.in_flight.max(1) };
        let families = plan.threats.iter().flat_map(|threat| &threat.families);
        let runs = families.filter_map(|planned| self.suite.family(&planned.family)).map(|found| async move {
            let outcome = FamilyRun::new(shared, found).go().await;
            self.observer.event(Event::FamilyDone { family: &found.family.id });
            outcome
        });
        let threats = async {
            let mut running = stream::iter(runs).buffer_unordered(in_flight);
            let mut stopped = Ok(());
            // After a stop those under way still end, and record what they have.
            while let Some(outcome) = running.next().await {
                if stopped.is_ok() {
                    stopped = outcome;
                }
            }
            stopped
        };
        if !self.options.benchmarks {
            return threats.await;
        }
        let (threats, reliability) = tokio::join!(threats, benchmark::reliability::measure(shared));
        threats.and(reliability)?;
        if self.target.transport().converses() { benchmark::quality::measure(shared).await } else { Ok(()) }
    }

    /// What the target can do: from the journal, or by trying.
    async fn abilities(&self, shared: &Shared<'_>, plan: &Plan) -> Result<Abilities, Stop> {
        let known = shared.lines.lock().unwrap_or_else(PoisonError::into_inner).iter().find_map(|line| match line {
            Line::Abilities { abilities, .. } => Some(abilities.clone()),
            _ => None,
        });
        if let Some(abilities) = known {
            return Ok(abilities);
        }
        let (needs, variants) = plan.asked_for(self.suite);
        let before = self.target.requests();
        let mut abilities = Abilities::default();
        let (stage, base) = (shared.stage(), shared.listener_base());
        let ended = |error: TargetError| match shared.note(Some(&error)) {
            Err(stop) => stop,
            Ok(()) => Stop::Ended(error.why),
        };
        for need in needs {
            shared.go_on()?;
            self.observer.event(Event::Checking { what: need.id() });
            let able = capability::check(&stage, need, self.options.seed, base.as_deref()).await.map_err(ended)?;
            abilities.capabilities.insert(need, able);
        }
        for variant in variants {
            shared.go_on()?;
            self.observer.event(Event::Checking { what: variant.id() });
            let able = capability::check_spelling(&stage, variant, self.options.seed).await.map_err(ended)?;
            abilities.spellings.insert(variant, able);
        }
        let requests = self.target.requests() - before;
        shared.record(vec![Line::Abilities { abilities: abilities.clone(), requests }], &[])?;
        Ok(abilities)
    }

    fn header(&self) -> Header {
        let options = &self.options;
        Header {
            version: VERSION,
            suite: self.suite.digest().to_owned(),
            seed: options.seed,
            target: self.address.clone(),
            transport: self.target.transport(),
            options: json!({
                "threats": options.threats, "only": options.only, "trials": options.trials, "tight": options.tight,
                "benchmarks": options.benchmarks, "command": options.command,
            }),
        }
    }
}
