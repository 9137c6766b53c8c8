use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;
use credence_verify::{Calibrations, Decision, Engine, Verdict, fabricate::Fabrication};
use serde::Serialize;
use serde_json::{Value, json};

use super::{Done, answer};
use crate::{
    input,
    lines::Lines,
    traces::{self, MAX_TRACE_BYTES, Trace},
};

#[derive(clap::Args)]
pub struct Args {
    /// Traces, one a line: {"tool", "result", "args"?, "execution_time_ms"?, "session_id"?, "agent"?, "stake"?, "at"?,
    /// "learn"?, "id"?}; - for standard input
    #[arg(default_value = "-")]
    file: String,
    #[command(flatten)]
    engine: traces::EngineArgs,
    /// Go on from what this file holds, if it exists, and keep there what was learned
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Prior, thresholds and ratios: a TOML file (`credence calibrate` writes one)
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// Mode adaptive: the share of genuine results that may be blocked
    #[arg(long, value_name = "RATE", value_parser = traces::rate)]
    max_false_block_rate: Option<f64>,
    /// After this share of accepted results make up one of the same call, and judge an earlier accepted one again, both in
    /// shadow: the line says whether the first was caught and the second rejected (for `credence rollup`)
    #[arg(long, value_name = "SHARE", value_parser = traces::rate)]
    canaries: Option<f64>,
}

/// One line of output.
#[derive(Serialize)]
struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Value>,
    #[serde(flatten)]
    verdict: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    canary: Option<Canary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    control: Option<Control>,
}

/// A made-up result of the same call.
#[derive(Serialize)]
struct Canary {
    fabrication: Fabrication,
    /// It was not accepted.
    caught: bool,
}

/// An earlier result of the same tool that was accepted, judged again.
#[derive(Serialize)]
struct Control {
    /// It was not accepted.
    rejected: bool,
}

/// Tools for which a result is held.
const MAX_HELD: usize = 1024;

/// Spreads canaries and controls evenly over accepted results.
struct Shadow {
    share: f64,
    owed: f64,
    /// The result of each tool that will be judged again.
    held: HashMap<String, Trace>,
}

impl Shadow {
    fn is_due(&mut self, verdict: &Verdict) -> bool {
        if verdict.decision == Decision::Accept {
            self.owed += self.share;
        }
        let due = verdict.decision == Decision::Accept && self.owed >= 1.0;
        if due {
            self.owed -= 1.0;
        }
        due
    }

    fn canary(&self, engine: &Engine, trace: &Trace) -> anyhow::Result<Option<Canary>> {
        let made = engine.canary(&trace.call())?;
        Ok(made.map(|made| Canary { fabrication: made.fabrication, caught: made.verdict.decision != Decision::Accept }))
    }

    /// Judges the result that is held of the tool, and holds this one in its place.
    fn control(&mut self, engine: &Engine, trace: Trace) -> anyhow::Result<Option<Control>> {
        let tool = trace.tool.clone();
        if self.held.len() >= MAX_HELD && !self.held.contains_key(&tool) {
            return Ok(None);
        }
        let Some(former) = self.held.insert(tool, trace) else { return Ok(None) };
        let verdict = engine.verify(&former.call().learn(false))?;
        Ok(Some(Control { rejected: verdict.decision != Decision::Accept }))
    }
}

pub fn run(args: Args) -> Done {
    let engine = args.engine.build(args.state.as_deref())?;
    let mut calibrations: Calibrations = match &args.calibration {
        Some(path) => {
            let bytes = input::file(path, traces::MAX_SETTINGS_BYTES)?;
            toml::from_str(&String::from_utf8_lossy(&bytes))
                .with_context(|| format!("{} is not a calibration file", path.display()))?
        }
        None => Calibrations::default(),
    };
    calibrations.all.max_false_block_rate = args.max_false_block_rate.or(calibrations.all.max_false_block_rate);
    calibrations.apply(&engine)?;
    let mut stdout = io::stdout().lock();
    let mut bad = false;
    let mut shadow = Shadow { share: args.canaries.unwrap_or(0.0), owed: 0.0, held: HashMap::new() };
    let mut judged = || -> anyhow::Result<()> {
        for line in Lines::open(&args.file, MAX_TRACE_BYTES, 0)? {
            let (number, bytes) = line?;
            match judge(&engine, &bytes, &mut shadow) {
                Ok(line) => writeln!(stdout, "{}", serde_json::to_string(&line)?)?,
                Err(error) => {
                    bad = true;
                    writeln!(stdout, "{}", json!({ "error": format!("{error:#}"), "line": number }))?;
                }
            }
        }
        Ok(())
    };
    let done = judged();
    // What was learned is kept also where the reader of the verdicts left early.
    if let Some(path) = &args.state {
        keep(path, &engine.snapshot()?).with_context(|| format!("cannot keep the state in {}", path.display()))?;
    }
    done?;
    Ok(answer(bad))
}

/// Replaces the file as a whole or not at all.
pub fn keep(path: &Path, snapshot: &[u8]) -> io::Result<()> {
    // A name of its own: two that write at once must not meet, nor a file of the user's be replaced.
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let next = path.with_file_name(format!(".{name}.{}.next", std::process::id()));
    let mut file = File::create(&next)?;
    file.write_all(snapshot).and_then(|()| file.sync_all())?;
    fs::rename(next, path)
}

fn judge(engine: &Engine, bytes: &[u8], shadow: &mut Shadow) -> anyhow::Result<Line> {
    let trace = Trace::parse(bytes)?;
    let verdict = engine.verify(&trace.call())?;
    let (id, at) = (trace.id.clone(), trace.at.clone());
    let (canary, control) = match shadow.is_due(&verdict) {
        true => (shadow.canary(engine, &trace)?, shadow.control(engine, trace)?),
        false => (None, None),
    };
    Ok(Line { verdict, id, at, canary, control })
}
