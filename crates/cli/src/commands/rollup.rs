use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use credence_engine::hcs25::{
    Profile,
    output_verification::{
        Check, DEFAULT_MIN_CHECKS, Limits, Parameters, ProviderRef, RolledUp, Rollup, Stake, Verdict, Window, signal,
    },
};
use credence_pipeline::query;
use credence_protocol::{
    EntityId, Statement, StatementKind, Timestamp, limits::MAX_CLOCK_SKEW_SECONDS, strict::StrictValue,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Done, answer};
use crate::{
    home::{Home, now},
    lines::Lines,
    output::{self, Output},
    statement,
    traces::MAX_TRACE_BYTES,
};

#[derive(clap::Args)]
pub struct Args {
    /// Verdicts, one a line, as `credence verify` prints them; - for standard input
    #[arg(default_value = "-")]
    file: String,
    /// Who verified
    #[arg(long, value_name = "SOURCE")]
    provider: EntityId,
    /// Only verdicts on this agent; those that name none are taken for its own
    #[arg(long)]
    agent: Option<String>,
    /// The end of the windows [default: the time of the newest verdict]
    #[arg(long, value_name = "TIME")]
    end: Option<Timestamp>,
    /// Sign the summaries as the provider and submit them to the authority
    #[arg(long)]
    submit: bool,
    /// The provider's private key [default: the environment's CREDENCE_SIGNING_KEY, else keys/PROVIDER.jwk]
    #[arg(long, value_name = "FILE", requires = "submit")]
    key: Option<PathBuf>,
}

/// A line of `credence verify`; what else it has is passed over.
#[derive(Deserialize)]
struct Line {
    verdict: Option<String>,
    posterior: Option<f64>,
    agent: Option<String>,
    stake: Option<Stake>,
    at: Option<Timestamp>,
    canary: Option<Canary>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Canary {
    caught: bool,
}

/// What was read.
#[derive(Default)]
struct Read {
    verdicts: u64,
    /// Lines that stand for a trace that could not be judged.
    unjudged: u64,
    /// Verdicts on other agents than the one asked for, or on none.
    others: u64,
    /// The first few that could not be read.
    bad: Vec<(u64, String)>,
    bad_count: u64,
}

pub fn run(home: &Home, out: &Output, args: Args) -> Done {
    let mut rollup = Rollup::new(Limits::default());
    let read = fill(&mut rollup, out, &args)?;
    let end = match args.end.or_else(|| rollup.newest()) {
        Some(end) => end,
        None if read.bad_count > 0 => {
            bail!("{}: no line is a verdict; line {}: {}", args.file, read.bad[0].0, read.bad[0].1)
        }
        None => bail!("{} has no verdicts on an agent: lines need an `agent`, or name one with --agent", args.file),
    };
    let agents: Vec<String> = rollup.agents().map(str::to_owned).collect();
    let mut rolled = Vec::new();
    for agent in &agents {
        for window in Window::ALL {
            if let Some(mut up) = rollup.summary(agent, window, end) {
                let checks = Some(up.summary.total_checks);
                up.summary.providers = vec![ProviderRef {
                    id: args.provider.to_string(),
                    signer_address: None,
                    methodology_url: None,
                    checks_contributed: checks,
                }];
                rolled.push(up);
            }
        }
    }
    let submitted = if args.submit { Some(submit(home, out, &args, &rolled)?) } else { None };
    show(out, &args, &rollup, &read, &rolled, submitted.as_deref())?;
    let refused = submitted.iter().flatten().any(Result::is_err);
    Ok(answer(refused || read.bad_count > 0))
}

fn fill(rollup: &mut Rollup, out: &Output, args: &Args) -> anyhow::Result<Read> {
    let bar = out.progress(None, "verdicts");
    let mut read = Read::default();
    let started = now();
    for line in Lines::open(&args.file, MAX_TRACE_BYTES, 0)? {
        let (number, bytes) = line?;
        bar.inc(1);
        if let Err(error) = add(rollup, &mut read, args, &bytes, started) {
            const EXAMPLES: usize = 5;
            read.bad_count += 1;
            if read.bad.len() < EXAMPLES {
                read.bad.push((number, format!("{error:#}")));
            }
        }
    }
    bar.finish_and_clear();
    Ok(read)
}

fn add(rollup: &mut Rollup, read: &mut Read, args: &Args, bytes: &[u8], started: Timestamp) -> anyhow::Result<()> {
    let line: Line = serde_json::from_slice(bytes)?;
    if line.error.is_some() {
        read.unjudged += 1;
        return Ok(());
    }
    let verdict = match line.verdict.as_deref().context("it has no `verdict`")? {
        "accept" | "allow" => Verdict::Allow,
        "flag" | "uncertain" => Verdict::Uncertain,
        "block" => Verdict::Block,
        other => bail!("verdict '{}' is neither accept, flag nor block", other.chars().take(40).collect::<String>()),
    };
    let bad = line.posterior.context("it has no `posterior`")?;
    ensure!((0.0..=1.0).contains(&bad), "posterior {bad} is outside 0..=1");
    let at = line.at.unwrap_or(started);
    ensure!(at <= started.plus_seconds(MAX_CLOCK_SKEW_SECONDS), "its time {at} is in the future");
    let agent = match (&args.agent, line.agent) {
        (Some(asked), None) => asked.clone(),
        (Some(asked), Some(agent)) if *asked == agent => agent,
        (None, Some(agent)) => agent,
        _ => {
            read.others += 1;
            return Ok(());
        }
    };
    read.verdicts += 1;
    rollup.add(&agent, Check { verdict, confidence: verdict.confidence(bad), stake: line.stake, at });
    if let Some(canary) = line.canary {
        rollup.add_canary(&agent, canary.caught, at);
    }
    Ok(())
}

type Submitted = Result<u64, String>;

fn submit(home: &Home, out: &Output, args: &Args, rolled: &[RolledUp]) -> anyhow::Result<Vec<Submitted>> {
    let authority = home.authority()?;
    let key = statement::signing_key(home, &args.provider, args.key.as_ref())?;
    let mut submitted = Vec::with_capacity(rolled.len());
    for up in rolled {
        let agent = query::resolve(&*authority.ledger().view()?, &up.agent);
        let published = match agent {
            Err(error) => Err(error.to_string()),
            Ok(agent) => {
                let record = json!({ "agent": agent, "window": up.window, "summary": up.summary });
                let provider = args.provider.clone();
                let signed = Statement::sign(provider, StatementKind::Summary, StrictValue(record), &key)?;
                let published = authority.publish(signed.canonical().as_bytes())?;
                published.map(|published| published.seq).map_err(|rejection| rejection.to_string())
            }
        };
        submitted.push(published);
    }
    statement::settle(&authority, out)?;
    Ok(submitted)
}

fn show(
    out: &Output,
    args: &Args,
    rollup: &Rollup,
    read: &Read,
    rolled: &[RolledUp],
    submitted: Option<&[Submitted]>,
) -> anyhow::Result<()> {
    let parameters = Parameters::default();
    let numbers = |up: &RolledUp| {
        let enough = up.summary.total_checks >= DEFAULT_MIN_CHECKS;
        let unshown = signal::unshown_power(&up.summary);
        let quality = unshown.map_or_else(|| Ok(signal::quality(&up.summary, &parameters)), Err);
        enough.then(|| (parameters.evaluate(&up.summary, Profile::Spec), quality))
    };
    let entry = |n: usize| submitted.and_then(|all| all.get(n));
    let summaries: Vec<Value> = rolled
        .iter()
        .enumerate()
        .map(|(n, up)| {
            let mut item = json!({ "agent": up.agent, "window": up.window, "summary": up.summary });
            if let Some((standard, quality)) = numbers(up) {
                item["hcs25"] = json!(standard);
                match quality {
                    Ok(quality) => item["output_quality"] = json!(quality),
                    Err(reason) => item["no_output_quality"] = json!(reason),
                }
            }
            match entry(n) {
                Some(Ok(seq)) => item["seq"] = json!(seq),
                Some(Err(error)) => item["error"] = json!(error),
                None => {}
            }
            item
        })
        .collect();
    let bad: Vec<Value> = read.bad.iter().map(|(line, error)| json!({ "line": line, "error": error })).collect();
    let shown = json!({
        "provider": args.provider, "verdicts": read.verdicts, "unjudged": read.unjudged, "others": read.others,
        "bad_lines": read.bad_count, "bad": bad, "late": rollup.late(), "forgotten_agents": rollup.forgotten(),
        "summaries": summaries,
    });
    out.show(&shown, || {
        let percent = |share: f64| format!("{:.1}%", share * 100.0);
        let lines = rolled.iter().enumerate().map(|(n, up)| {
            let s = &up.summary;
            let (standard, quality) =
                numbers(up).map_or(("too few".to_owned(), String::new()), |(standard, quality)| {
                    let quality =
                        quality.map_or("no power shown".to_owned(), |q| format!("{:.1} ± {:.1}", q.value, q.stddev));
                    (standard.quality.to_string(), quality)
                });
            let canaries = s.canaries.map_or(String::new(), |c| format!("{} of {}", c.caught, c.checks));
            let mut line = vec![
                up.agent.clone(),
                up.window.key().to_owned(),
                s.total_checks.to_string(),
                percent(s.allow_rate),
                percent(s.block_rate),
                percent(s.uncertain_rate.unwrap_or_default()),
                format!("{:.3}", s.avg_confidence),
                canaries,
                standard,
                quality,
            ];
            line.extend(entry(n).map(|entry| match entry {
                Ok(seq) => format!("entry {seq}"),
                Err(error) => error.clone(),
            }));
            line
        });
        let mut header = vec![
            "agent",
            "window",
            "checks",
            "allowed",
            "blocked",
            "uncertain",
            "confidence",
            "canaries",
            "HCS-25",
            "output_quality",
        ];
        header.extend(submitted.map(|_| "submitted"));
        let mut text = output::table(&header, &header[2..9], lines);
        text += &format!("\n\n{} verdicts by {}", read.verdicts, args.provider);
        for (count, what) in [
            (read.unjudged, "traces could not be judged"),
            (read.others, "verdicts on other agents, or on none"),
            (rollup.late(), "verdicts older than every window"),
            (rollup.forgotten(), "agents were forgotten to bound memory"),
            (read.bad_count, "lines could not be read"),
        ] {
            if count > 0 {
                text += &format!("; {count} {what}");
            }
        }
        for (line, error) in &read.bad {
            text += &format!("\n  line {line}: {error}");
        }
        text
    })
}
