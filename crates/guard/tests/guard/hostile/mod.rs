//! Hostile clients and servers, with the guard between them: nothing is executed without a receipt, and where the guard enforces
//! nothing reaches a client that was neither judged nor marked.
//!
//! Messages are made from a seed and a number, and every failure names both. A short run by default; 100,000 messages with `LONG_TESTS`.

mod answers;
mod bypasses;
mod client_run;
mod encodings;
mod guarded;
mod marks_rule;
mod messages;
mod mutate;
mod random;
mod reading;
mod receipts_rule;
mod requests;
mod server_run;

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use client_run::Figures;
use credence_testing::peers::installed;
use guarded::Server;
pub use guarded::signal;

fn is_long() -> bool {
    std::env::var_os("LONG_TESTS").is_some()
}

/// Runs that make up `count` messages, none of them of more than this many.
const MOST_PER_RUN: usize = 2_500;

type Run = fn(Server, &Path, u64, usize) -> Figures;

/// `short` or `long` messages to a server. Fails with every message by which the rule was broken.
fn hold(run: Run, server: Server, seed: u64, short: usize, long: usize) {
    let peers = if server.is_ours() { Some(PathBuf::new()) } else { installed() };
    let Some(peers) = peers else { return };
    let (since, mut left) = (Instant::now(), if is_long() { long } else { short });
    let mut figures = Figures::default();
    for round in 0.. {
        let count = left.min(MOST_PER_RUN);
        if count == 0 {
            break;
        }
        left -= count;
        figures.add(run(server, &peers, seed + round, count));
    }
    let share = 100 * figures.executed / figures.messages;
    eprintln!(
        "{server:?}, seed {seed:#x}: {} messages, {share} % executed something, {} broke the rule, {:.1} s",
        figures.messages,
        figures.found.len(),
        since.elapsed().as_secs_f64()
    );
    assert!(figures.found.is_empty(), "{} broke the rule:\n  {}", figures.found.len(), figures.found.join("\n  "));
    assert!(share >= 30, "only {share} % of the messages executed something");
}

#[test]
fn every_execution_of_a_server_that_accepts_anything_has_a_receipt() {
    hold(client_run::stdio, Server::Anything, 0x10, 600, 15_000);
    hold(client_run::stdio, Server::AnythingFirst, 0x20, 400, 10_000);
}

#[test]
fn every_execution_of_the_python_sdk_has_a_receipt() {
    hold(client_run::stdio, Server::Python, 0x30, 400, 12_500);
}

#[test]
fn every_execution_of_the_typescript_sdk_has_a_receipt() {
    hold(client_run::stdio, Server::TypeScript, 0x40, 400, 12_500);
}

#[test]
fn every_execution_over_http_of_a_server_that_accepts_anything_has_a_receipt() {
    hold(client_run::http, Server::Anything, 0x50, 300, 10_000);
    hold(client_run::http, Server::AnythingFirst, 0x60, 300, 5_000);
}

#[test]
fn every_execution_over_http_of_the_python_sdk_has_a_receipt() {
    hold(client_run::http, Server::Python, 0x70, 250, 7_500);
}

#[test]
fn every_execution_over_http_of_the_typescript_sdk_has_a_receipt() {
    hold(client_run::http, Server::TypeScript, 0x80, 250, 7_500);
}

#[test]
fn nothing_a_server_says_reaches_the_client_unjudged() {
    hold(server_run::stdio, Server::Anything, 0x90, 600, 12_500);
}

#[test]
fn nothing_a_server_says_over_http_reaches_the_client_unjudged() {
    hold(server_run::http, Server::Anything, 0xa0, 400, 7_500);
}
