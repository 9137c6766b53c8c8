//! Hostile clients and servers, with the guard between them: nothing is executed without a receipt, and where the guard enforces
//! nothing reaches a client that was neither judged nor marked.
//!
//! Messages are made from a seed and a number, and every failure names both. A short run by default; 100,000 messages with `LONG_TESTS`;
//! other ones with `HOSTILE_SEED`, a number that is added to the seeds.

mod answers;
mod bypasses;
mod client_run;
mod encodings;
mod guarded;
mod killing;
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
use credence_testing::{Shell, peers::installed};
use guarded::Server;
pub use guarded::signal;
use killing::{Moment, Victim};

fn is_long() -> bool {
    std::env::var_os("LONG_TESTS").is_some()
}

/// Runs that make up `count` messages, none of them of more than this many.
const MOST_PER_RUN: usize = 2_500;

type Run = fn(Server, &Path, u64, usize) -> Figures;

/// What is added to every seed, to try other messages than usual.
fn other_seed() -> u64 {
    std::env::var("HOSTILE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_default()
}

/// `short` or `long` messages to a server. Fails with every message by which the rule was broken.
fn hold(run: Run, server: Server, seed: u64, short: usize, long: usize) {
    let peers = if server.is_ours() { Some(PathBuf::new()) } else { installed() };
    let Some(peers) = peers else { return };
    let (since, mut left) = (Instant::now(), if is_long() { long } else { short });
    let seed = seed + other_seed();
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

#[test]
fn a_schema_that_its_server_loosens_blocks_on_and_text_beside_structure_is_a_finding() {
    assert_eq!(server_run::loosened(), Vec::<String>::new());
}

/// Kills at so many moments in folders of their own, `SIDE_BY_SIDE` at once; fails with every effect that has no intent.
fn kill(count: usize, one: impl Fn(&Shell, usize, Moment) -> Vec<String> + Sync) {
    const SIDE_BY_SIDE: usize = 3;
    let (since, moments, one) = (Instant::now(), killing::moments(count), &one);
    let mut found: Vec<String> = Vec::new();
    let mut executed = 0;
    std::thread::scope(|scope| {
        let moments = &moments;
        let threads = (0..SIDE_BY_SIDE).map(|first| {
            scope.spawn(move || {
                let shell = Shell::new();
                let mine = moments.iter().enumerate().skip(first).step_by(SIDE_BY_SIDE);
                let mut found: Vec<String> = mine.flat_map(|(round, moment)| one(&shell, round, *moment)).collect();
                found.extend(killing::settled(&shell));
                (found, receipts_rule::executions(&shell).len())
            })
        });
        for thread in threads.collect::<Vec<_>>() {
            let (mine, done) = thread.join().unwrap();
            found.extend(mine);
            executed += done;
        }
    });
    eprintln!("{count} moments, {executed} executions, {:.1} s", since.elapsed().as_secs_f64());
    assert!(executed >= count, "only {executed} executions at {count} moments");
    assert!(found.is_empty(), "{} effects without an intent:\n  {}", found.len(), found.join("\n  "));
}

fn moments() -> usize {
    if is_long() { 50 } else { 20 }
}

#[test]
fn every_effect_has_an_intent_when_the_guard_is_killed() {
    kill(moments(), |shell, round, moment| killing::stdio(shell, round, Victim::Guard, moment));
}

#[test]
fn every_effect_has_an_intent_when_the_server_is_killed() {
    kill(moments(), |shell, round, moment| killing::stdio(shell, round, Victim::Server, moment));
}

#[test]
fn every_effect_has_an_intent_when_the_guard_is_killed_over_http() {
    kill(moments() / 2, killing::http);
}
