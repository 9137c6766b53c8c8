//! Scheduled runs: a task that claims what is due, probes one agent at a time, and records what came of it.
//!
//! A run holds its job by a lease that outlasts it. A run that is refused or fails is tried again after its usual interval, with the reason
//! kept beside the schedule: an owner who takes the consent back is not asked every minute.
//!
//! The journal and transcript of a run are in the authority's folder ([`journals`]); a run that a restart broke off goes on from there.
//! Credentials come from the service's environment: a schedule names variables, which begin with [`TOKEN_PREFIX`], so that it cannot send
//! another secret of the service to a target.

mod journals;

use std::{num::NonZeroU32, path::Path, sync::Arc, time::Duration};

use credence_ledger::{Claim, NewJob};
use credence_pipeline::probe_schedule::{self, PROBE, ProbeSchedule};
use credence_protocol::{EntityId, Timestamp};
use credence_sandbox::{
    Threat,
    consent::{DomainConsent, Loopback},
    runner::{Cancel, Quiet, Run, RunError, RunOptions, RunOutput, journal::JournalError},
    sensor::listener::Listener,
    suite::Suite,
    target::{
        self, TargetSpec,
        wire::{Credential, WireSettings},
    },
};
use tokio::sync::watch;

use super::{FinishedRun, consent_of};
use crate::app::App;

/// How often it is looked whether a run is due.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A run takes at most so long, and its job is held a little longer.
const TIME_LIMIT: Duration = Duration::from_secs(2 * 3600);
const LEASE: Duration = Duration::from_secs(2 * 3600 + 900);
/// How long one answer may take.
const DEADLINE: Duration = Duration::from_secs(20);
/// Requests under way at once.
const IN_FLIGHT: usize = 4;
/// When a run is tried again that another one against the same target keeps from starting.
const BUSY_SECONDS: i64 = 600;
/// How environment variables begin whose value may be sent to a target.
const TOKEN_PREFIX: &str = "CREDENCE_PROBE_TOKEN";
/// Where the listener is, below the service's address.
const LISTENER: &str = "/.well-known/credence-probe";

/// Probes what is due until the service closes.
pub(crate) async fn run(app: Arc<App>) {
    let mut closing = app.closing.subscribe();
    loop {
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = closed(&mut closing) => return,
        }
        match claim(&app).await {
            Ok(Some(claim)) => one(&app, claim, &mut closing).await,
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "due probes cannot be read"),
        }
    }
}

/// Waits until the service closes.
async fn closed(closing: &mut watch::Receiver<bool>) {
    // An error says that the service is gone, which is the same.
    drop(closing.wait_for(|closing| *closing).await);
}

async fn claim(app: &Arc<App>) -> Result<Option<Claim>, String> {
    let app = Arc::clone(app);
    let claimed = tokio::task::spawn_blocking(move || {
        let jobs = app.authority.ledger().jobs();
        // Most services have none: what is looked at every second should cost nothing.
        if jobs.next_due(PROBE)?.is_none_or(|due| due > app.now()) {
            return Ok(Vec::new());
        }
        jobs.claim(PROBE, 1, LEASE)
    });
    let claimed: credence_ledger::Result<Vec<Claim>> = claimed.await.map_err(|e| e.to_string())?;
    Ok(claimed.map_err(|e| e.to_string())?.into_iter().next())
}

/// Runs one job and puts the next.
async fn one(app: &Arc<App>, claim: Claim, closing: &mut watch::Receiver<bool>) {
    let cancel = Cancel::default();
    let agent = claim.job.key.clone();
    let outcome = {
        let probing = probe(app, &claim, cancel.clone());
        tokio::pin!(probing);
        tokio::select! {
            outcome = &mut probing => outcome,
            () = closed(closing) => {
                cancel.cancel();
                probing.await
            }
        }
    };
    match &outcome {
        Ok(Done::Recorded(seq)) => {
            app.metrics.probes_recorded.inc();
            tracing::info!(agent, seq, "probed");
        }
        Ok(Done::Stopped) => tracing::info!(agent, "the probe was stopped, and is due again"),
        Err(why) => {
            app.metrics.probes_failed.inc();
            tracing::warn!(agent, why, "not probed");
        }
    }
    let app = Arc::clone(app);
    let settled = tokio::task::spawn_blocking(move || settle(&app, &claim, outcome)).await;
    if let Ok(Err(error)) = settled {
        tracing::warn!(%error, "a probe's job could not be settled");
    }
}

enum Done {
    Recorded(u64),
    Stopped,
}

fn settle(app: &App, claim: &Claim, outcome: Result<Done, String>) -> credence_pipeline::Result<()> {
    let jobs = app.authority.ledger().jobs();
    let hours = probe_schedule::parse(&claim.job.payload).map_or(24, |schedule| schedule.every_hours);
    let next = app.now().plus_seconds(i64::from(hours) * 3600);
    match outcome {
        Ok(Done::Recorded(_)) => {
            // An operator who ended the schedule meanwhile took the job away: it must not come back.
            let still = app.authority.ledger().view()?.job(PROBE, &claim.job.key)?.is_some();
            if still {
                jobs.put(&[NewJob::at(PROBE, claim.job.key.clone(), next, claim.job.payload.clone())])?;
            }
            jobs.complete(claim)?;
        }
        Ok(Done::Stopped) => {
            jobs.fail(claim, app.now(), "the service stopped")?;
        }
        Err(why) => {
            // A run from the command line ends some day, and is no reason to leave one out.
            let due = if why.starts_with(target::BUSY) { app.now().plus_seconds(BUSY_SECONDS) } else { next };
            jobs.fail(claim, due, &why)?;
        }
    }
    Ok(())
}

async fn probe(app: &Arc<App>, claim: &Claim, cancel: Cancel) -> Result<Done, String> {
    let schedule = probe_schedule::parse(&claim.job.payload).map_err(|e| e.to_string())?;
    let agent = EntityId::new(&claim.job.key).map_err(|e| e.to_string())?;
    let consent = consent(app, agent.clone()).await?;
    let spec = spec(&schedule)?;
    let origin = spec.parsed_url()?.origin().ascii_serialization();
    let (theirs, stop) = (Arc::clone(app), cancel.clone());
    let journal = journals::current(&app.folder, &agent).map_err(|e| format!("no journal can be kept: {e}"))?;
    let kept = journal.clone();
    // On a thread and a runtime of its own: a run of hours must not share those that answer.
    let running = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
        runtime.block_on(execute(&theirs, &schedule, &spec, consent, &kept, stop))
    });
    let output = running.await.map_err(|e| e.to_string())?;
    if cancel.is_cancelled() {
        return Ok(Done::Stopped);
    }
    journals::put_away(&journal);
    let output = output?;
    if let Some(why) = output.result.ended.clone().filter(|_| output.trials.is_empty()) {
        return Err(why);
    }
    let app = Arc::clone(app);
    let recorded = tokio::task::spawn_blocking(move || {
        let finished = FinishedRun { agent: &agent, origin: &origin, output: &output, now: app.now() };
        let record = finished.record()?;
        app.authority.record_probe(record).map_err(|e| e.to_string())
    });
    Ok(Done::Recorded(recorded.await.map_err(|e| e.to_string())??.seq))
}

async fn consent(app: &Arc<App>, agent: EntityId) -> Result<DomainConsent, String> {
    let app = Arc::clone(app);
    let asked = tokio::task::spawn_blocking(move || {
        let view = app.authority.ledger().view().map_err(|e| e.to_string())?;
        consent_of(&*view, &agent, &app.office.key.public(), loopback(&app), app.now()).map_err(|e| e.to_string())
    });
    asked.await.map_err(|e| e.to_string())?
}

/// A service's agents name their addresses themselves: on this machine too their control has to be proved.
pub(crate) fn loopback(app: &App) -> Loopback {
    if app.settings.allow_loopback_domains { Loopback::Prove } else { Loopback::Refuse }
}

async fn execute(
    app: &App,
    schedule: &ProbeSchedule,
    spec: &TargetSpec,
    consent: DomainConsent,
    journal: &Path,
    cancel: Cancel,
) -> Result<RunOutput, String> {
    consent.permits(&spec.parsed_url()?)?;
    let suite = Suite::shipped().map_err(|e| e.to_string())?;
    let wire = WireSettings {
        allow_loopback: app.settings.allow_loopback_domains,
        rate: NonZeroU32::new(schedule.rate).unwrap_or(NonZeroU32::MIN),
        in_flight: IN_FLIGHT,
        // A service that stops waits for requests under way.
        deadline: DEADLINE,
        contact: app.office.base_url.parse().ok(),
        credentials: credentials(schedule)?,
        locks: Some(target::state_folder()),
        ..WireSettings::default()
    };
    let target = target::connect(spec, wire, Arc::new(consent), cancel.clone()).await?;
    let listener =
        Listener::hosted(format!("{}{LISTENER}", app.office.base_url.trim_end_matches('/')), app.probe_hits.clone());
    let mut run = Run {
        suite: &suite,
        target: &*target,
        address: spec.recorded_url()?,
        options: options(app, schedule)?,
        listener: Some(&listener),
        mount: None,
        journal: Some(journal),
        observer: &Quiet,
        cancel,
    };
    run.options.seed = journals::seed_of(journal).unwrap_or(run.options.seed);
    match run.execute().await {
        // What is there is of another schedule, or damaged: it is kept as the last one, and a new run begins.
        Err(RunError::Journal(JournalError::OtherRun { .. } | JournalError::Damaged { .. })) => {
            journals::put_away(journal);
            run.execute().await
        }
        other => other,
    }
    .map_err(|e| e.to_string())
}

/// Fails where a schedule names variables or a header that cannot be used.
pub(crate) fn check_credentials(schedule: &ProbeSchedule) -> Result<(), String> {
    let usable = |name: &String| {
        let plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        name.starts_with(TOKEN_PREFIX) && name.len() <= 128 && name.chars().all(plain)
    };
    if schedule.token_variables.len() > 2 || !schedule.token_variables.iter().all(usable) {
        return Err(format!(
            "token_variables: at most two names of environment variables that begin with {TOKEN_PREFIX}, never a token itself"
        ));
    }
    if let Some(name) = &schedule.token_header {
        Credential::header(name, "").map_err(|why| format!("token_header: {why}"))?;
    }
    Ok(())
}

/// What the service's environment has under the names of a schedule.
fn credentials(schedule: &ProbeSchedule) -> Result<[Option<Credential>; 2], String> {
    check_credentials(schedule)?;
    let of = |variable: Option<&String>| -> Result<Option<Credential>, String> {
        let Some(variable) = variable else { return Ok(None) };
        let token = std::env::var(variable).map_err(|_| format!("the service's environment has no {variable}"))?;
        let made = match &schedule.token_header {
            Some(name) => Credential::header(name, &token),
            None => Credential::bearer(&token),
        };
        made.map(Some).map_err(|why| format!("{variable}: {why}"))
    };
    Ok([of(schedule.token_variables.first())?, of(schedule.token_variables.get(1))?])
}

/// What an operator asked for, checked: at the door, and again when it runs.
pub(crate) fn spec(schedule: &ProbeSchedule) -> Result<TargetSpec, String> {
    let transport = schedule.transport.parse()?;
    let spec = TargetSpec { model: schedule.model.clone(), ..TargetSpec::new(transport, &schedule.target) };
    spec.parsed_url()?;
    Ok(spec)
}

fn options(app: &App, schedule: &ProbeSchedule) -> Result<RunOptions, String> {
    Ok(RunOptions {
        seed: seed(app.now()),
        threats: threats(schedule)?,
        budget: Some(schedule.budget),
        time_limit: Some(TIME_LIMIT),
        in_flight: IN_FLIGHT,
        reliability_spread: Duration::from_secs(app.settings.probe_spread_seconds),
        ..RunOptions::default()
    })
}

/// The threats of a schedule.
pub(crate) fn threats(schedule: &ProbeSchedule) -> Result<Vec<Threat>, String> {
    if schedule.threats.is_empty() {
        return Ok(Threat::ALL.to_vec());
    }
    schedule.threats.iter().map(|threat| threat.parse()).collect()
}

/// Another one for every run, so that an agent cannot learn the values of the last.
fn seed(now: Timestamp) -> u64 {
    let mut bytes = [0; 8];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u64::from_le_bytes(bytes) >> 11,
        Err(_) => now.micros().unsigned_abs() >> 11,
    }
}
