//! `credence probe`: what does an agent do when somebody tries?

mod args;
mod outcome;
mod progress;
mod setup;

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::{Context, anyhow, bail};
use args::ProbeArgs;
use credence_sandbox::{
    judge::{Judge, Judged},
    report::{Comparison, Report},
    runner::{Cancel, Run, RunOutput, journal},
    suite::{Suite, SuiteError},
    target,
};
use progress::Progress;
use serde_json::{Value, json};
use setup::{Audience, Listening, Setup};

use super::Done;
use crate::{home::Home, output::Output, traces};

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Sub>,
    #[command(flatten)]
    probe: ProbeArgs,
}

#[derive(clap::Subcommand)]
pub enum Sub {
    /// Check probe files: those of a folder together with those that ship with the program, or the latter alone
    Lint {
        /// A folder with .toml files
        folder: Option<PathBuf>,
    },
}

pub fn run(home: &Home, out: &Output, args: Args) -> Done {
    match args.command {
        Some(Sub::Lint { folder }) => lint(out, folder),
        None => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            runtime.block_on(probe(home, out, &args.probe))
        }
    }
}

fn lint(out: &Output, folder: Option<PathBuf>) -> Done {
    let loaded = match &folder {
        Some(folder) => Suite::with_folder(folder),
        None => Suite::shipped(),
    };
    match loaded {
        Ok(suite) => {
            let families = suite.families().count();
            let shown =
                json!({ "valid": true, "suite": suite.digest(), "families": families, "probes": suite.probe_count() });
            out.show(&shown, || {
                format!(
                    "{families} families with {} probes are in order.\nsuite {}",
                    suite.probe_count(),
                    suite.digest()
                )
            })?;
            Ok(ExitCode::SUCCESS)
        }
        Err(SuiteError::Findings(findings)) => {
            let told: Vec<String> = findings.iter().map(ToString::to_string).collect();
            out.show(&json!({ "valid": false, "mistakes": told }), || told.join("\n"))?;
            Ok(super::answer(true))
        }
        Err(SuiteError::Syntax { file, why }) => {
            out.show(&json!({ "valid": false, "mistakes": [format!("{file}: {why}")] }), || format!("{file}: {why}"))?;
            Ok(super::answer(true))
        }
        Err(other) => Err(other.into()),
    }
}

async fn probe(home: &Home, out: &Output, args: &ProbeArgs) -> Done {
    let suite = match &args.probes {
        Some(folder) => Suite::with_folder(folder)?,
        None => Suite::shipped()?,
    };
    // Read before anything is sent: a mistake in a file name should cost nothing.
    let earlier = args.compare.as_deref().map(journal::read).transpose()?;
    let judge = judge_of(args)?;
    let setup = Setup::of(home, args, &suite)?;
    if args.dry_run {
        return setup.dry_run(out, args, &suite);
    }
    setup.check_recordable(home, args)?;
    let cancel = Cancel::default();
    let stop = cancel.clone();
    let interrupts = tokio::spawn(async move {
        // Without signals there is no polite stop, and the journal is complete all the same.
        if asked_to_stop().await.is_ok() {
            stop.cancel();
        }
    });
    let listening = Listening::start(args, &suite, &setup).await?;
    let target = if args.command.is_empty() {
        let consent = setup.consent(home, args)?;
        let connected = target::connect(&setup.spec, setup.wire.clone(), Arc::from(consent), cancel.clone()).await;
        connected.map_err(|why| setup::refused(&why, args))?
    } else {
        target::start(&args.command, setup.wire.clone(), cancel.clone()).await.map_err(anyhow::Error::msg)?
    };
    out.note(&format!("seed {}, journal {}", setup.options.seed, setup.journal.display()));
    if let Some(url) = listening.mounted() {
        out.note(&format!("the honey tools are an MCP server at {url}: mount it into the agent"));
    }
    let progress = Progress::new(out);
    let run = Run {
        suite: &suite,
        target: &*target,
        address: setup.address.clone(),
        options: setup.options.clone(),
        listener: listening.listener.as_ref(),
        mount: listening.mount.as_ref(),
        journal: Some(&setup.journal),
        observer: &progress,
        cancel: cancel.clone(),
    };
    let output = run.execute().await;
    progress.finish();
    interrupts.abort();
    let output = output?;
    let comparison = earlier.map(|earlier| setup::comparison(earlier, &output));
    let transcripts = setup.transcripts(&output)?;
    let judged = match judge {
        Some(judge) => Some(annotated(out, &judge, &output, &transcripts).await),
        None => None,
    };
    // A judge that does not answer costs its word, not the run.
    let (judged, judge_error) = match judged {
        Some(Ok(judged)) => (Some(judged), None),
        Some(Err(why)) => (None, Some(why)),
        None => (None, None),
    };
    let command = setup.command(args, Audience::Operator);
    if let Some(path) = &args.html {
        let made_at = crate::home::now().to_string();
        let report = Report {
            result: &output.result,
            suite: &suite,
            trials: &output.trials,
            transcripts: &transcripts,
            agent: args.agent.as_deref(),
            made_at: &made_at,
            command: &setup.command(args, Audience::Owner),
            judged: judged.as_ref(),
        };
        traces::write(path, report.page().as_bytes())?;
    }
    let recorded = setup.record(home, args, &output)?;
    let shown =
        Shown { suite: &suite, comparison, judged, judge_error, recorded, command: &command, journal: &setup.journal };
    show(out, args, &output, &shown)?;
    Ok(outcome::exit_code(args, &output.result))
}

/// What is shown besides the result.
struct Shown<'a> {
    suite: &'a Suite,
    comparison: Option<Comparison>,
    judged: Option<Judged>,
    judge_error: Option<String>,
    recorded: Option<u64>,
    command: &'a str,
    journal: &'a std::path::Path,
}

fn show(out: &Output, args: &ProbeArgs, output: &RunOutput, shown: &Shown<'_>) -> anyhow::Result<()> {
    let mut value = serde_json::to_value(&output.result)?;
    if let Some(comparison) = &shown.comparison {
        value["comparison"] = serde_json::to_value(comparison)?;
    }
    if let Some(judged) = &shown.judged {
        value["judge"] = serde_json::to_value(judged)?;
    }
    if let Some(why) = &shown.judge_error {
        value["judge_error"] = json!(why);
    }
    if let Some(seq) = shown.recorded {
        value["entry"] = json!(seq);
    }
    out.show(&value, || outcome::human(args, output, shown))
}

/// The judge, where one was named. Its token comes from the environment.
fn judge_of(args: &ProbeArgs) -> anyhow::Result<Option<Judge>> {
    let Some(url) = &args.judge else { return Ok(None) };
    let token = std::env::var(args::JUDGE_TOKEN).ok();
    let model = args.judge_model.as_deref().unwrap_or("default");
    let judge =
        Judge::new(url, model, token.as_deref(), args.allow_loopback).map_err(|why| anyhow!("--judge: {why}"))?;
    Ok(Some(judge))
}

/// Waits for SIGINT or SIGTERM.
async fn asked_to_stop() -> std::io::Result<()> {
    #[cfg(unix)]
    {
        let mut terminated = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted,
            _ = terminated.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c().await
}

async fn annotated(out: &Output, judge: &Judge, output: &RunOutput, transcripts: &[Value]) -> Result<Judged, String> {
    let all = output.trials.iter().filter(|trial| trial.is_conclusive()).count();
    let bar = out.progress(Some(all as u64), "asking the judge");
    let judged = judge.annotate(&output.trials, transcripts, &mut |done| bar.set_position(done as u64)).await;
    bar.finish_and_clear();
    judged
}

/// A folder for journals that nobody named.
fn journal_folder(home: &Home) -> anyhow::Result<PathBuf> {
    let folder = if home.config_file().exists() { home.path().join("probes") } else { std::env::temp_dir() };
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    if !folder.is_dir() {
        bail!("{} is not a folder", folder.display());
    }
    Ok(folder)
}
