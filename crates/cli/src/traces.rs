//! Recorded tool calls, as JSON Lines.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail, ensure};
use clap::ValueEnum;
use credence_verify::{Builder, Call, Engine, ProfileBuilder, Stake};
use serde::Deserialize;
use serde_json::Value;

use crate::{input, lines::Lines, output::Output};

/// A longer trace is reported as too long, and not read whole.
pub const MAX_TRACE_BYTES: usize = 16 * 1024 * 1024;

/// How results are judged.
#[derive(Clone, Copy, ValueEnum)]
pub enum Mode {
    /// Eight checks with fixed likelihood ratios
    Fixed,
    /// The same, corrected by each tool's own traffic, and what a model of its results says
    Adaptive,
}

impl Mode {
    pub fn of_engine(self) -> credence_verify::Mode {
        match self {
            Mode::Fixed => credence_verify::Mode::Fixed,
            Mode::Adaptive => credence_verify::Mode::Adaptive,
        }
    }

    fn builder(self) -> Builder {
        Engine::builder().mode(self.of_engine())
    }
}

/// The state of a full engine with default limits is smaller.
const MAX_STATE_BYTES: u64 = 4 * 1024 * 1024 * 1024;
/// Profiles, or calibrations, of some ten thousand tools.
pub const MAX_SETTINGS_BYTES: u64 = 16 * 1024 * 1024;

/// Which engine judges.
#[derive(clap::Args)]
pub struct EngineArgs {
    /// How results are judged
    #[arg(long, value_enum, default_value_t = Mode::Adaptive)]
    pub mode: Mode,
    /// What is known of tools: a TOML file with a table for each (`credence learn` writes one)
    #[arg(long, value_name = "FILE")]
    profiles: Option<PathBuf>,
}

impl EngineArgs {
    /// The engine, going on from what `state` holds, if it exists.
    pub fn build(&self, state: Option<&Path>) -> anyhow::Result<Engine> {
        let engine = match state {
            Some(path) if path.exists() => {
                let snapshot = input::file(path, MAX_STATE_BYTES)?;
                self.mode.builder().restore(&snapshot).with_context(|| format!("--state {}", path.display()))?
            }
            _ => self.mode.builder().build(),
        };
        if let Some(path) = &self.profiles {
            register(&engine, path)?;
        }
        Ok(engine)
    }
}

/// The profiles in a file.
pub fn profiles(path: &Path) -> anyhow::Result<BTreeMap<String, ProfileBuilder>> {
    let bytes = input::file(path, MAX_SETTINGS_BYTES)?;
    let text = String::from_utf8_lossy(&bytes);
    toml::from_str(&text).with_context(|| format!("{} is not a file of profiles", path.display()))
}

fn register(engine: &Engine, path: &Path) -> anyhow::Result<()> {
    for (tool, profile) in profiles(path)? {
        let registered = profile.build().and_then(|profile| engine.register(&tool, profile));
        registered.with_context(|| format!("{}, tool '{tool}'", path.display()))?;
    }
    Ok(())
}

/// One line; fields that are not known are passed over.
#[derive(Deserialize)]
pub struct Trace {
    pub tool: String,
    pub result: Value,
    pub args: Option<Value>,
    pub execution_time_ms: Option<f64>,
    /// The tool itself says that it failed.
    #[serde(default)]
    pub is_error: bool,
    pub session_id: Option<String>,
    pub agent: Option<String>,
    pub stake: Option<Stake>,
    /// When, as RFC 3339; whatever it is, it is repeated.
    pub at: Option<Value>,
    #[serde(default = "yes")]
    pub learn: bool,
    pub id: Option<Value>,
    /// 1 fabricated, 0 genuine.
    pub label: Option<Value>,
}

fn yes() -> bool {
    true
}

impl Trace {
    pub fn parse(bytes: &[u8]) -> anyhow::Result<Self> {
        ensure!(bytes.len() < MAX_TRACE_BYTES, "longer than {MAX_TRACE_BYTES} bytes");
        Ok(serde_json::from_slice(bytes)?)
    }

    pub fn call(&self) -> Call<'_> {
        let mut call = Call::new(&self.tool, &self.result).learn(self.learn).is_error(self.is_error);
        if let Some(args) = &self.args {
            call = call.args(args);
        }
        if let Some(ms) = self.execution_time_ms {
            call = call.execution_time_ms(ms);
        }
        if let Some(session) = &self.session_id {
            call = call.session(session);
        }
        if let Some(agent) = &self.agent {
            call = call.agent(agent);
        }
        if let Some(stake) = self.stake {
            call = call.stake(stake);
        }
        let at = self.at.as_ref().and_then(Value::as_str).and_then(|at| at.parse().ok());
        at.map_or(call, |at| call.at(at))
    }

    /// What the engine would refuse, refused with its line.
    fn check(&self) -> anyhow::Result<()> {
        ensure!(!self.tool.is_empty() && self.tool.len() <= 512, "the tool's name is empty or longer than 512 bytes");
        if let Some(ms) = self.execution_time_ms {
            ensure!((0.0..=1e12).contains(&ms), "execution_time_ms {ms} is not a time");
        }
        self.fabricated().map(drop)
    }

    /// Whether it is known to be fabricated; `None` when nobody said.
    pub fn fabricated(&self) -> anyhow::Result<Option<bool>> {
        Ok(match &self.label {
            None | Some(Value::Null) => None,
            Some(Value::Bool(flag)) => Some(*flag),
            Some(Value::Number(number)) if number.as_u64() == Some(0) => Some(false),
            Some(Value::Number(number)) if number.as_u64() == Some(1) => Some(true),
            Some(other) => bail!("label {other} is neither 0 (genuine) nor 1 (fabricated)"),
        })
    }
}

/// A share above 0 and at most 1, from the command line.
pub fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| format!("'{text}' is not a number"))?;
    if rate > 0.0 && rate <= 1.0 { Ok(rate) } else { Err(format!("{rate} is not above 0 and at most 1")) }
}

/// All traces of a file, in order. One that cannot be read fails the whole: figures over a part would mislead.
pub fn read(out: &Output, file: &str) -> anyhow::Result<Vec<Trace>> {
    let bar = out.progress(None, "reading traces");
    let mut traces = Vec::new();
    for line in Lines::open(file, MAX_TRACE_BYTES, 0)? {
        let (number, bytes) = line?;
        let trace = Trace::parse(&bytes).and_then(|trace| trace.check().map(|()| trace));
        traces.push(trace.with_context(|| format!("{file}, line {number}"))?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    ensure!(!traces.is_empty(), "{file} has no traces");
    Ok(traces)
}

/// Writes a file, whole or not at all.
pub fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    crate::commands::verify::keep(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}
