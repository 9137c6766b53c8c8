use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;
use credence_verify::{Calibration, Engine, Verdict};
use serde::{Deserialize, Serialize};
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
}

/// A calibration file: what holds for every tool, and for some.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Calibrations {
    pub all: Calibration,
    pub tools: BTreeMap<String, Calibration>,
}

impl Calibrations {
    pub fn apply(&self, engine: &Engine) -> anyhow::Result<()> {
        engine.calibrate(None, self.all.clone()).context("[all]")?;
        for (tool, calibration) in &self.tools {
            engine.calibrate(Some(tool), calibration.clone()).with_context(|| format!("tool '{tool}'"))?;
        }
        Ok(())
    }
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
    let mut judged = || -> anyhow::Result<()> {
        for line in Lines::open(&args.file, MAX_TRACE_BYTES, 0)? {
            let (number, bytes) = line?;
            match judge(&engine, &bytes) {
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

fn judge(engine: &Engine, bytes: &[u8]) -> anyhow::Result<Line> {
    let trace = Trace::parse(bytes)?;
    Ok(Line { verdict: engine.verify(&trace.call())?, id: trace.id, at: trace.at })
}
