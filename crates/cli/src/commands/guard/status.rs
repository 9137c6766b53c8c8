use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::bail;
use credence_charts::{MIN_OBSERVATIONS, Observed};
use credence_guard::{
    courier,
    identity::model_folder,
    quarantine::reviewer::{self, KeptReader, QuarantineCounts},
    report::{GuardReport, Off, ToldChange},
    schemas::Schemas,
    switch,
};
use credence_protocol::{
    Decision, SecretKey, Timestamp,
    receipt::{CallOutcome, Receipt},
};
use credence_receipts::archive::{Archive, Filter, Source};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::{StateArgs, review, servers, watch};
use crate::{
    commands::Done,
    output::{self, Output},
    traces,
};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    keeping: StateArgs,
    /// Only this server: its label, or the name of its folder
    #[arg(long)]
    server: Option<String>,
    /// Only this tool
    #[arg(long)]
    tool: Option<String>,
    /// Only calls from this time on
    #[arg(long, value_name = "TIME")]
    since: Option<Timestamp>,
    /// No control charts
    #[arg(long)]
    no_charts: bool,
    /// Draw the control chart of a tool's latency into an SVG file; --tool says which where there are several
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Show it again whenever something changes; with --json one object a line
    #[arg(long, conflicts_with = "plot")]
    watch: bool,
}

#[derive(Default, Serialize)]
struct Tool {
    server: String,
    tool: String,
    calls: u64,
    accepted: u64,
    flagged: u64,
    blocked: u64,
    failed: u64,
    unjudged: u64,
    unanswered: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<Timestamp>,
    #[serde(serialize_with = "latency")]
    latency: Observed,
}

/// Latencies in milliseconds: mean and limits over all calls, the newest of them, and how many of those are beyond the limits.
fn latency<S: Serializer>(observed: &Observed, serializer: S) -> Result<S::Ok, S::Error> {
    let (lower, upper) = observed.limits();
    json!({
        "count": observed.count(), "mean": observed.mean(), "lower": lower, "upper": upper, "recent": observed.recent(),
        "beyond": observed.beyond(),
    })
    .serialize(serializer)
}

impl Tool {
    fn add(&mut self, receipt: &Receipt) {
        self.calls += 1;
        self.last = self.last.max(Some(receipt.started_at));
        match (receipt.outcome, receipt.verdict) {
            (_, Some(Decision::Accept)) => self.accepted += 1,
            (_, Some(Decision::Flag)) => self.flagged += 1,
            (_, Some(Decision::Block)) => self.blocked += 1,
            (CallOutcome::ToolError | CallOutcome::ProtocolError, None) => self.failed += 1,
            (CallOutcome::Unanswered, None) => self.unanswered += 1,
            (CallOutcome::Result, None) => self.unjudged += 1,
        }
        if let Some(ms) = receipt.execution_ms {
            self.latency.add(ms);
        }
    }
}

pub fn run(out: &Output, args: Args) -> Done {
    if args.watch {
        return watch::watch(out, &|| look(&args).map(|seen| (seen.shown, seen.text)));
    }
    let seen = look(&args)?;
    out.show(&seen.shown, || seen.text)?;
    Ok(super::super::answer(seen.problems))
}

/// The status at one moment.
struct Seen {
    shown: Value,
    text: String,
    /// Something could not be read.
    problems: bool,
}

fn look(args: &Args) -> anyhow::Result<Seen> {
    let state = args.keeping.folder()?;
    let key = args.keeping.secret(false)?;
    let archive = Archive::open(&state, &args.keeping.provider, &key)?;
    let servers = servers::meant_by(&state, args.server.as_deref())?;
    let is_meant = |server: &String| servers.as_ref().is_none_or(|servers| servers.contains(server));
    let filter = Filter { tool: args.tool.clone(), since: args.since, ..Filter::default() };
    let mut tools: BTreeMap<(String, String), Tool> = BTreeMap::new();
    let mut problems = Vec::new();
    archive.visit(
        &filter,
        &mut |found, _| {
            let server = archive.sources[found.source].server.clone();
            if !is_meant(&server) {
                return Ok(());
            }
            let place = (server.clone(), found.receipt.tool.clone());
            let tool = tools.entry(place).or_insert_with(|| Tool {
                server,
                tool: found.receipt.tool.clone(),
                ..Tool::default()
            });
            tool.add(&found.receipt);
            Ok(())
        },
        &mut |problem| problems.push(problem),
    )?;
    if let Some(path) = &args.plot {
        let drawable: Vec<&Tool> = tools.values().filter(|tool| tool.latency.count() >= MIN_OBSERVATIONS).collect();
        let [tool] = drawable[..] else {
            let names: Vec<&str> = drawable.iter().map(|tool| tool.tool.as_str()).collect();
            bail!(
                "--plot draws one tool with {MIN_OBSERVATIONS} calls or more, and {} fit{}: name it with --tool and --server",
                names.len(),
                if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) }
            );
        };
        let title = format!("{} {}: latency", tool.server, tool.tool);
        traces::write(path, tool.latency.chart(&title, "Latency", "ms").file().as_bytes())?;
    }
    let shown = archive.sources.iter().filter(|source| is_meant(&source.server));
    let guards: Vec<_> = shown.map(|source| guard(&state, &key, &archive, source)).collect();
    let offered = offered(&state, &guards, &mut problems);
    let shown = json!({
        "state": state, "guards": guards, "tools": tools.values().collect::<Vec<_>>(), "offered_schemas": offered, "problems": problems,
    });
    let text = {
        let mut text = String::new();
        for guard in &guards {
            text += &guard.line();
        }
        let rows = tools.values().map(|tool| {
            vec![
                tool.server.clone(),
                tool.tool.clone(),
                tool.calls.to_string(),
                tool.accepted.to_string(),
                tool.flagged.to_string(),
                tool.blocked.to_string(),
                (tool.failed + tool.unanswered).to_string(),
                tool.unjudged.to_string(),
                format!("{:.1} ms", tool.latency.mean()),
                tool.last.map(output::moment).unwrap_or_default(),
            ]
        });
        let header =
            ["server", "tool", "calls", "accepted", "flagged", "blocked", "failed", "unjudged", "mean", "last call"];
        text += &output::table(&header, &header[2..9], rows);
        text.push('\n');
        if !args.no_charts {
            for tool in tools.values().filter(|tool| tool.latency.count() >= MIN_OBSERVATIONS) {
                let beyond = match tool.latency.beyond() {
                    0 => String::new(),
                    n => format!(", {n} beyond the limits"),
                };
                text += &format!(
                    "\n  {} {}: milliseconds, the last {} calls{beyond}\n",
                    tool.server,
                    tool.tool,
                    tool.latency.recent().len()
                );
                text += &tool.latency.text();
            }
        }
        for one in &offered {
            text += &format!(
                "\n{} {}: since {} it declares an output schema that accepts more, or none; results are judged by the former one. \
                 `credence guard accept-schema {} {}` accepts it.\n",
                one.server,
                one.tool,
                output::moment(one.at),
                one.server,
                one.tool
            );
        }
        for problem in &problems {
            text += &format!("\ncannot be read: {problem}");
        }
        text += &output::drawn(args.plot.as_deref());
        text
    };
    Ok(Seen { shown, text, problems: !problems.is_empty() })
}

/// An output schema that nobody has accepted yet.
#[derive(Serialize)]
struct OfferedSchema {
    server: String,
    tool: String,
    at: Timestamp,
}

fn offered(state: &Path, guards: &[GuardLine], problems: &mut Vec<String>) -> Vec<OfferedSchema> {
    let mut servers: Vec<&str> = guards.iter().map(|guard| guard.server.as_str()).collect();
    servers.dedup();
    let mut offered = Vec::new();
    for name in servers {
        match Schemas::read(&model_folder(&state.join(name))) {
            Ok(schemas) => offered.extend(schemas.tools.into_iter().filter_map(|(tool, schema)| {
                Some(OfferedSchema { server: name.to_owned(), tool, at: schema.offered?.at })
            })),
            Err(error) => problems.push(error.to_string()),
        }
    }
    offered
}

/// One guard.
#[derive(Serialize)]
struct GuardLine {
    server: String,
    place: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<String>,
    /// Made-up results that were judged in shadow, and how many were caught.
    canaries: (u64, u64),
    /// Results that were flagged or withheld and wait for an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    quarantine: Option<QuarantineCounts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authority: Option<courier::Progress>,
    /// What the guard says of itself: as it is, where it runs, or was when it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    says: Option<GuardReport>,
    /// The last changes that it told, newest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    last_changes: Vec<ShownChange>,
}

/// A change that was told, and what the quarantine has of it.
#[derive(Serialize)]
struct ShownChange {
    #[serde(flatten)]
    told: ToldChange,
    /// What changed, in words: it can repeat parts of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    what: Option<String>,
}

impl ShownChange {
    fn of(told: &ToldChange, kept: &KeptReader, source: &Source) -> Self {
        let item = told.call.and_then(|call| kept.read(source.place_folder(), &source.name(), call));
        let changes = item.map(|item| item.changes).unwrap_or_default();
        let what = changes.into_iter().find(|change| change.reason == told.reason).map(|change| change.what);
        Self { told: told.clone(), what }
    }

    fn line(&self) -> String {
        let ToldChange { at, reason, tool, call, sightings } = &self.told;
        let mut line = format!("  {} {reason}", output::moment(*at));
        if let Some(tool) = tool {
            line += &format!(": {}", review::visible(tool));
        }
        if let Some(sightings) = sightings {
            line += &format!(" ({})", output::count(*sightings as usize, "result"));
        }
        if let Some(what) = &self.what {
            line += &format!(": {}", review::visible(what));
        }
        if let Some(call) = call {
            line += &format!("; call {call}");
        }
        line
    }
}

fn guard(state: &Path, key: &SecretKey, archive: &Archive, source: &Source) -> GuardLine {
    let canaries = archive.canaries(source).unwrap_or_default();
    let sum = canaries.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let says = says(state, key, source);
    let kept = KeptReader::open(state);
    let told = says.iter().flat_map(|report| report.last_changes.iter().rev());
    GuardLine {
        last_changes: told.map(|told| ShownChange::of(told, &kept, source)).collect(),
        server: source.server.clone(),
        place: source.place,
        process: source.running.clone(),
        canaries: sum,
        quarantine: reviewer::waiting(source.place_folder()).ok().flatten(),
        authority: courier::progress(source.place_folder()),
        says,
    }
}

/// What a guard says of itself; whether it is switched off is known better where it does not run.
fn says(state: &Path, key: &SecretKey, source: &Source) -> Option<GuardReport> {
    let mut report = GuardReport::read(source.place_folder())?;
    if source.running.is_none() {
        let off = switch::off_since(&state.join(&source.server), key);
        report.off = off.map(|record| Off { since: record.at, by: record.by });
    }
    Some(report)
}

impl GuardLine {
    /// What it says of itself, for people.
    fn said(&self) -> String {
        let Some(report) = &self.says else { return String::new() };
        let mut lines = Vec::new();
        let server = report.server.as_deref().unwrap_or(&report.label);
        let declared = report.declared.as_ref().map(|name| format!(", which calls itself '{name}'"));
        lines.push(format!("in front of {server}{}", declared.unwrap_or_default()));
        if let Some(former) = &report.follows {
            lines.push(format!(
                "the label '{}' led to {former} before: this server has a model of its own",
                report.label
            ));
        }
        if !report.former_names.is_empty() {
            lines.push(format!(
                "it called itself {} before: each name has a model of its own",
                report.former_names.join(", ")
            ));
        }
        let mode = match (&report.off, report.waits.as_slice()) {
            (Some(off), _) => {
                let who = off.by.as_ref().map(|by| {
                    let user = by.user.clone().unwrap_or_else(|| format!("user {}", by.uid));
                    let terminal = by.terminal.as_ref().map(|terminal| format!(" at {terminal}"));
                    format!(" by {user}{}", terminal.unwrap_or_default())
                });
                format!(
                    "SWITCHED OFF since {}{}: results pass unjudged",
                    output::moment(off.since),
                    who.unwrap_or_default()
                )
            }
            (None, []) => format!("mode {}", report.mode),
            (None, waits) => {
                let until =
                    report.waits_until.map(|until| format!(", until {}", output::moment(until))).unwrap_or_default();
                let again = if report.wait_restarted { " (began anew: its file was gone)" } else { "" };
                format!(
                    "mode {}, which acts as {} for another {}{until}{again}",
                    report.mode,
                    report.mode_now,
                    waits.join(", ")
                )
            }
        };
        lines.push(mode);
        if let Some(trouble) = &report.config_trouble {
            lines.push(format!("the former configuration holds: {trouble}"));
        }
        if !report.restart_for.is_empty() {
            lines.push(format!("restart it for what guard.toml says of {}", report.restart_for.join(", ")));
        }
        if let Some(alerts) = &report.alerts {
            let mut text = format!("alerts: {} sent, {} failed", alerts.sent, alerts.failed);
            if alerts.dropped + alerts.suppressed > 0 {
                text += &format!(", {} dropped, {} over the limit of a minute", alerts.dropped, alerts.suppressed);
            }
            if let Some(error) = &alerts.error {
                text += &format!(" ({error})");
            }
            lines.push(text);
            lines.extend(alerts.off.as_ref().map(|why| format!("ALERTS ARE OFF: {why}")));
        }
        if report.changes > 0 || !self.last_changes.is_empty() {
            lines.push(format!("changes: {}", report.changes));
            lines.extend(self.last_changes.iter().map(ShownChange::line));
        }
        lines.into_iter().map(|line| format!("  {line}\n")).collect()
    }

    fn line(&self) -> String {
        let mut text = match &self.process {
            Some(process) => format!("{}/{}: running as process {process}", self.server, self.place),
            None => format!("{}/{}: not running", self.server, self.place),
        };
        if self.canaries.0 > 0 {
            text += &format!("; {} of {} canaries caught", self.canaries.1, self.canaries.0);
        }
        if let Some(quarantine) = &self.quarantine {
            text += &review::waiting_text(quarantine);
        }
        if let Some(progress) = &self.authority {
            text += &match (&progress.error, &progress.sent_at) {
                (Some(error), _) => format!("; {}: {error} ({} waiting)", progress.authority, progress.waiting),
                (None, Some(at)) => {
                    let at = at.parse().map_or_else(|_| at.clone(), output::moment);
                    format!("; {}: told at {at}", progress.authority)
                }
                (None, None) => format!("; {}: nothing told yet", progress.authority),
            };
        }
        text + "\n" + &self.said()
    }
}
