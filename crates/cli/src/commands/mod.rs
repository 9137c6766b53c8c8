//! One module per command.

pub mod agent;
pub mod answer;
#[cfg(feature = "chain")]
pub mod attest;
pub mod audit;
pub mod calibrate;
pub mod calibration;
pub mod challenge;
pub mod check;
pub mod compute;
pub mod contract;
pub mod crawl;
pub mod credential;
mod demo;
pub mod evaluate;
pub mod guard;
mod hcs25;
pub mod init;
pub mod keys;
pub mod learn;
pub mod link;
pub mod log;
pub mod mcp;
pub mod probe;
pub mod receipts;
pub mod report;
pub mod reputation;
pub mod review;
pub mod rollup;
pub mod schema;
pub mod score;
pub mod serve;
pub mod signal;
pub mod source;
pub mod statement;
pub mod stats;
pub mod tags;
pub mod token;
pub mod verify;

use std::process::ExitCode;

/// Done, and the answer is "no".
pub const ANSWER_IS_NO: u8 = 2;

pub type Done = anyhow::Result<ExitCode>;

/// Exit code 0, or 2 when `bad`.
pub fn answer(bad: bool) -> ExitCode {
    if bad { ExitCode::from(ANSWER_IS_NO) } else { ExitCode::SUCCESS }
}
