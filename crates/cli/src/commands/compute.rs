use std::process::ExitCode;

use anyhow::Context;
use clap::Subcommand;
use credence_engine::universal::{self, DEFAULT_COVERAGE_FLOOR, Weighted};
use credence_protocol::strict;
use serde::Deserialize;

use super::Done;
use crate::{input, output::Output};

/// A model's input: a few hundred thousand signals.
const MAX_INPUT_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Subcommand)]
pub enum Command {
    /// The universal score: {"signals":[{"source","tag","value","stddev","weight"}]}
    Universal,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Universal {
    signals: Vec<UniversalSignal>,
    #[serde(default = "default_floor")]
    coverage_floor: f64,
}

fn default_floor() -> f64 {
    DEFAULT_COVERAGE_FLOOR
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UniversalSignal {
    source: String,
    #[serde(rename = "tag")]
    _tag: String,
    value: f64,
    #[serde(default)]
    stddev: f64,
    #[serde(default = "one")]
    weight: f64,
}

fn one() -> f64 {
    1.0
}

pub fn run(command: Command) -> Done {
    let input = input::stdin(MAX_INPUT_BYTES)?;
    match command {
        Command::Universal => {
            let request: Universal = strict::typed(&input).context("on standard input")?;
            let weighted: Vec<_> = request
                .signals
                .iter()
                .map(|s| Weighted { source: s.source.as_str(), value: s.value, stddev: s.stddev, weight: s.weight })
                .collect();
            Output { json: true }.show(&universal::score(&weighted, request.coverage_floor)?, String::new)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
