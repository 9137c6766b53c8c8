use std::{collections::BTreeMap, path::PathBuf};

use anyhow::bail;
use credence_charts::{Mark, Series};
use credence_guard::courier;
use credence_protocol::{
    Decision, Timestamp,
    receipt::{CallOutcome, Receipt},
};
use credence_receipts::archive::{Archive, Filter, Source};
use serde::Serialize;
use serde_json::json;

use super::StateArgs;
use crate::{
    commands::Done,
    output::{self, Output},
    traces,
};

/// Points of a control chart.
const POINTS: usize = 60;
/// A chart of fewer calls says nothing (seed 2: eight observations).
const MIN_POINTS: u64 = 8;
/// Rows of a control chart.
const ROWS: usize = 7;
/// Standard deviations from the mean to the limits (seed 2: Shewhart).
const LIMIT_SIGMAS: f64 = 3.0;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    keeping: StateArgs,
    /// Only this server
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
    latency: Chart,
}

/// Latencies in milliseconds: mean and limits over all calls, and the last of them.
#[derive(Default, Serialize)]
struct Chart {
    count: u64,
    mean: f64,
    #[serde(skip)]
    squares: f64,
    lower: f64,
    upper: f64,
    recent: Vec<f64>,
    /// How many of the recent are beyond the limits.
    beyond: usize,
}

impl Chart {
    fn add(&mut self, value: f64) {
        self.count += 1;
        let delta = value - self.mean;
        self.mean += delta / self.count as f64;
        self.squares += delta * (value - self.mean);
        if self.recent.len() == POINTS {
            self.recent.remove(0);
        }
        self.recent.push(value);
    }

    fn finish(&mut self) {
        let sigma = (self.squares / self.count.saturating_sub(1).max(1) as f64).sqrt();
        self.lower = (self.mean - LIMIT_SIGMAS * sigma).max(0.0);
        self.upper = self.mean + LIMIT_SIGMAS * sigma;
        self.beyond = self.recent.iter().filter(|value| **value > self.upper || **value < self.lower).count();
    }

    /// The same as an SVG file.
    fn plot(&self, tool: &Tool) -> String {
        let beyond = |value: &f64| *value > self.upper || *value < self.lower;
        let marks: Vec<Mark> = self
            .recent
            .iter()
            .enumerate()
            .filter(|(_, value)| beyond(value))
            .map(|(index, _)| Mark { index, text: "beyond 3σ".to_owned() })
            .collect();
        let series = Series {
            name: "Latency",
            unit: "ms",
            points: &self.recent,
            mean: self.mean,
            stddev: (self.upper - self.mean) / LIMIT_SIGMAS,
            least: Some(0.0),
            marks: &marks,
        };
        credence_charts::control(&format!("{} {}: latency", tool.server, tool.tool), &series).file()
    }

    /// Points by height, the mean as a line, the limits above and below; `!` beyond them.
    fn draw(&self) -> String {
        let top = self.recent.iter().copied().fold(self.upper, f64::max);
        let bottom = self.recent.iter().copied().fold(self.lower, f64::min);
        let height = (top - bottom).max(f64::MIN_POSITIVE);
        let row = |value: f64| (((top - value) / height) * (ROWS - 1) as f64).round() as usize;
        let mut lines = vec![vec![' '; self.recent.len()]; ROWS];
        for (at, mark) in [(self.mean, '─'), (self.upper, '┄'), (self.lower, '┄')] {
            lines[row(at).min(ROWS - 1)].fill(mark);
        }
        for (n, value) in self.recent.iter().enumerate() {
            let mark = if *value > self.upper || *value < self.lower { '!' } else { '•' };
            lines[row(*value).min(ROWS - 1)][n] = mark;
        }
        let label = |n: usize| match n {
            n if n == row(self.upper).min(ROWS - 1) => format!("{:>9.1}", self.upper),
            n if n == row(self.mean).min(ROWS - 1) => format!("{:>9.1}", self.mean),
            n if n == row(self.lower).min(ROWS - 1) => format!("{:>9.1}", self.lower),
            _ => " ".repeat(9),
        };
        let lines = lines.into_iter().enumerate();
        lines.map(|(n, line)| format!("    {} {}\n", label(n), line.into_iter().collect::<String>())).collect()
    }
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
    let state = args.keeping.folder()?;
    let key = args.keeping.secret(false)?.public();
    let archive = Archive::open(&state, &args.keeping.provider, &key)?;
    let filter =
        Filter { server: args.server.clone(), tool: args.tool.clone(), since: args.since, ..Filter::default() };
    let mut tools: BTreeMap<(String, String), Tool> = BTreeMap::new();
    let mut problems = Vec::new();
    archive.visit(
        &filter,
        &mut |found, _| {
            let server = archive.sources[found.source].server.clone();
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
    tools.values_mut().for_each(|tool| tool.latency.finish());
    if let Some(path) = &args.plot {
        let drawable: Vec<&Tool> = tools.values().filter(|tool| tool.latency.count >= MIN_POINTS).collect();
        let [tool] = drawable[..] else {
            let names: Vec<&str> = drawable.iter().map(|tool| tool.tool.as_str()).collect();
            bail!(
                "--plot draws one tool with {MIN_POINTS} calls or more, and {} fit{}: name it with --tool and --server",
                names.len(),
                if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) }
            );
        };
        traces::write(path, tool.latency.plot(tool).as_bytes())?;
    }
    let guards: Vec<_> = archive.sources.iter().map(|source| guard(&archive, source)).collect();
    let shown =
        json!({ "state": state, "guards": guards, "tools": tools.values().collect::<Vec<_>>(), "problems": problems });
    out.show(&shown, || {
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
                format!("{:.1} ms", tool.latency.mean),
                tool.last.map(|at| at.to_string()).unwrap_or_default(),
            ]
        });
        let header =
            ["server", "tool", "calls", "accepted", "flagged", "blocked", "failed", "unjudged", "mean", "last call"];
        text += &output::table(&header, &header[2..9], rows);
        text.push('\n');
        if !args.no_charts {
            for tool in tools.values().filter(|tool| tool.latency.count >= MIN_POINTS) {
                let beyond = match tool.latency.beyond {
                    0 => String::new(),
                    n => format!(", {n} beyond the limits"),
                };
                text += &format!(
                    "\n  {} {}: milliseconds, the last {} calls{beyond}\n",
                    tool.server,
                    tool.tool,
                    tool.latency.recent.len()
                );
                text += &tool.latency.draw();
            }
        }
        for problem in &problems {
            text += &format!("\ncannot be read: {problem}");
        }
        text += &output::drawn(args.plot.as_deref());
        text
    })?;
    Ok(super::super::answer(!problems.is_empty()))
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
    #[serde(skip_serializing_if = "Option::is_none")]
    authority: Option<courier::Progress>,
}

fn guard(archive: &Archive, source: &Source) -> GuardLine {
    let canaries = archive.canaries(source).unwrap_or_default();
    let sum = canaries.values().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    GuardLine {
        server: source.server.clone(),
        place: source.place,
        process: source.running.clone(),
        canaries: sum,
        authority: courier::progress(source.place_folder()),
    }
}

impl GuardLine {
    fn line(&self) -> String {
        let mut text = match &self.process {
            Some(process) => format!("{}/{}: running as process {process}", self.server, self.place),
            None => format!("{}/{}: not running", self.server, self.place),
        };
        if self.canaries.0 > 0 {
            text += &format!("; {} of {} canaries caught", self.canaries.1, self.canaries.0);
        }
        if let Some(progress) = &self.authority {
            text += &match (&progress.error, &progress.sent_at) {
                (Some(error), _) => format!("; {}: {error} ({} waiting)", progress.authority, progress.waiting),
                (None, Some(at)) => format!("; {}: told at {at}", progress.authority),
                (None, None) => format!("; {}: nothing told yet", progress.authority),
            };
        }
        text + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_shows_what_is_beyond_the_limits() {
        let mut chart = Chart::default();
        for n in 0..59 {
            chart.add(10.0 + f64::from(n % 3));
        }
        chart.add(60.0);
        chart.finish();
        assert_eq!(chart.beyond, 1);
        let drawn = chart.draw();
        assert_eq!(drawn.lines().count(), ROWS);
        assert_eq!(drawn.matches('!').count(), 1);
        assert!(drawn.lines().next().is_some_and(|top| top.ends_with('!')), "{drawn}");
    }
}
