use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::ValueEnum;
use credence_verify::{Builder, Call, Engine, ProfileBuilder, Stake, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Done, answer};
use crate::{input, lines::Lines};

/// A longer trace is reported as too long, and not read whole.
const MAX_TRACE_BYTES: usize = 16 * 1024 * 1024;
/// The state of a full engine with default limits is smaller.
const MAX_STATE_BYTES: u64 = 4 * 1024 * 1024 * 1024;
/// Profiles of some ten thousand tools.
const MAX_PROFILES_BYTES: u64 = 16 * 1024 * 1024;

#[derive(clap::Args)]
pub struct Args {
    /// Traces, one a line: {"tool", "result", "args"?, "execution_time_ms"?, "session_id"?, "agent"?, "stake"?, "at"?,
    /// "learn"?, "id"?}; - for standard input
    #[arg(default_value = "-")]
    file: String,
    /// How results are judged
    #[arg(long, value_enum, default_value_t = Mode::Adaptive)]
    mode: Mode,
    /// Go on from what this file holds, if it exists, and keep there what was learned
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// What is known of tools: a TOML file with a table for each
    #[arg(long, value_name = "FILE")]
    profiles: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Mode {
    /// Eight signals with fixed likelihood ratios
    Fixed,
    /// The same, corrected by each tool's own traffic, and what a model of its results says
    Adaptive,
}

impl Mode {
    pub fn builder(self) -> Builder {
        Engine::builder().mode(match self {
            Mode::Fixed => credence_verify::Mode::Fixed,
            Mode::Adaptive => credence_verify::Mode::Adaptive,
        })
    }
}

/// One line of input; fields that are not known are passed over.
#[derive(Deserialize)]
struct Trace {
    tool: String,
    result: Value,
    args: Option<Value>,
    execution_time_ms: Option<f64>,
    session_id: Option<String>,
    agent: Option<String>,
    stake: Option<Stake>,
    at: Option<Value>,
    #[serde(default = "yes")]
    learn: bool,
    id: Option<Value>,
}

fn yes() -> bool {
    true
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
    let engine = match &args.state {
        Some(path) if path.exists() => {
            let snapshot = input::file(path, MAX_STATE_BYTES)?;
            args.mode.builder().restore(&snapshot).with_context(|| format!("--state {}", path.display()))?
        }
        _ => args.mode.builder().build(),
    };
    if let Some(path) = &args.profiles {
        register(&engine, path)?;
    }
    let mut stdout = io::stdout().lock();
    let mut bad = false;
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
    if let Some(path) = &args.state {
        keep(path, &engine.snapshot()?).with_context(|| format!("cannot keep the state in {}", path.display()))?;
    }
    Ok(answer(bad))
}

/// Replaces the file as a whole or not at all.
fn keep(path: &Path, snapshot: &[u8]) -> io::Result<()> {
    let next = path.with_extension("next");
    let mut file = File::create(&next)?;
    file.write_all(snapshot).and_then(|()| file.sync_all())?;
    fs::rename(next, path)
}

fn register(engine: &Engine, path: &Path) -> anyhow::Result<()> {
    let bytes = input::file(path, MAX_PROFILES_BYTES)?;
    let text = String::from_utf8_lossy(&bytes);
    let profiles: BTreeMap<String, ProfileBuilder> =
        toml::from_str(&text).with_context(|| format!("{} is not a file of profiles", path.display()))?;
    for (tool, profile) in profiles {
        let registered = profile.build().and_then(|profile| engine.register(&tool, profile));
        registered.with_context(|| format!("{}, tool '{tool}'", path.display()))?;
    }
    Ok(())
}

fn judge(engine: &Engine, bytes: &[u8]) -> anyhow::Result<Line> {
    anyhow::ensure!(bytes.len() < MAX_TRACE_BYTES, "longer than {MAX_TRACE_BYTES} bytes");
    let trace: Trace = serde_json::from_slice(bytes)?;
    let mut call = Call::new(&trace.tool, &trace.result).learn(trace.learn);
    if let Some(args) = &trace.args {
        call = call.args(args);
    }
    if let Some(ms) = trace.execution_time_ms {
        call = call.execution_time_ms(ms);
    }
    if let Some(session) = &trace.session_id {
        call = call.session(session);
    }
    if let Some(agent) = &trace.agent {
        call = call.agent(agent);
    }
    if let Some(stake) = trace.stake {
        call = call.stake(stake);
    }
    Ok(Line { verdict: engine.verify(&call)?, id: trace.id, at: trace.at })
}
