//! Recompute: the scores of all agents again.
//!
//! `cargo bench -p credence-pipeline --bench recompute` computes 1 M agents × 12 signals in memory, then recomputes a real
//! ledger of 20,000 agents, reading and writing included. `-- --agents 1000000` makes that ledger as large, and reports the
//! process's peak memory. The ledger's tables are filled directly; its entries are only sources and agents.
#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark")]

mod support;

use std::time::Instant;

use credence_engine::universal::{self, DEFAULT_COVERAGE_FLOOR, Weighted};
use credence_ledger::{Ledger, Table, write};
use credence_pipeline::{NewSource, TABLES};
use rayon::prelude::*;
use serde_json::json;
use support::{house, id, now};

const COMPUTED_AGENTS: usize = 1_000_000;
const SIGNALS_PER_AGENT: usize = 12;
const SOURCES: usize = 8;
const TAGS: [&str; 2] = ["rel_uptime", "user_feedback"];

fn main() {
    // `cargo test --benches` and `cargo bench` pass flags of their own; only --agents is ours.
    let args: Vec<String> = std::env::args().collect();
    let flag = args.iter().position(|arg| arg == "--agents").and_then(|at| args.get(at + 1));
    let agents: usize = flag.map_or(20_000, |text| text.parse().unwrap());
    if !args.iter().any(|arg| arg == "--ledger-only") {
        compute();
    }
    recompute(agents);
}

fn compute() {
    let signals: Vec<Weighted<u32>> = (0..COMPUTED_AGENTS * SIGNALS_PER_AGENT)
        .map(|n| Weighted {
            source: (n % SIGNALS_PER_AGENT * SOURCES / SIGNALS_PER_AGENT) as u32,
            value: (n * 37 % 101) as f64,
            stddev: (n % 7) as f64,
            weight: 1.0,
        })
        .collect();
    let score = |signals: &[Weighted<u32>]| {
        u64::from(universal::score(signals, DEFAULT_COVERAGE_FLOOR).unwrap().rated().unwrap().score)
    };
    let rate = |began: Instant, cores: usize| signals.len() as f64 / began.elapsed().as_secs_f64() / cores as f64 / 1e6;
    let began = Instant::now();
    let one: u64 = signals.chunks(SIGNALS_PER_AGENT).map(score).sum();
    let single = rate(began, 1);
    let cores = rayon::current_num_threads();
    let began = Instant::now();
    let all: u64 = signals.par_chunks(SIGNALS_PER_AGENT).map(score).sum();
    let parallel = rate(began, cores);
    assert_eq!(one, all);
    println!("computing {COMPUTED_AGENTS} agents × {SIGNALS_PER_AGENT} signals:");
    println!("  one thread            {single:>7.1} M signals/s");
    println!("  {cores} threads, per core   {parallel:>7.1} M signals/s   (at least 5 wanted)");
}

fn recompute(agents: usize) {
    let house = house();
    let ledger = house.authority.ledger();
    for n in 0..SOURCES {
        house.authority.add_source(NewSource::new(id(&format!("source-{n}")), 1.0)).unwrap();
    }
    fill(ledger, agents);
    let before = peak_mib();
    let mut times = Vec::new();
    for _ in 0..2 {
        let began = Instant::now();
        let done = house.authority.recompute(&mut |_| {}).unwrap();
        times.push((done, began.elapsed().as_secs_f64()));
    }
    let size = std::fs::metadata(house.folder.path().join("ledger.db")).unwrap().len() >> 20;
    println!("\nrecompute of a ledger with {agents} agents × {SIGNALS_PER_AGENT} signals ({size} MiB):");
    for (what, (done, seconds)) in ["reading, computing, writing", "reading, computing, nothing new"].iter().zip(times)
    {
        let rate = done.signals as f64 / seconds / 1e6;
        println!("  {what:<32} {seconds:>7.1} s   {rate:>5.2} M signals/s   {} events", done.events);
    }
    println!("  peak memory                      {:>7} MiB (before: {before} MiB)", peak_mib());
}

/// Fills the tables that a recompute reads, as signals would have.
fn fill(ledger: &dyn Ledger, agents: usize) {
    const AGENTS_PER_WORK: usize = 5_000;
    let table = |name: &str| -> Table { *TABLES.iter().find(|table| table.0 == name).unwrap() };
    let (of_agents, of_signals, registered_at) = (table("agents"), table("current"), now());
    for first in (0..agents).step_by(AGENTS_PER_WORK) {
        write(ledger, move |tx| {
            for n in first..(first + AGENTS_PER_WORK).min(agents) {
                let agent = format!("agent-{n:08}");
                let row = json!({ "seq": 0, "registered_at": registered_at, "name": null, "aliases": [] });
                tx.put(of_agents, &agent, &row.to_string())?;
                for s in 0..SIGNALS_PER_AGENT {
                    let slot = format!("{agent}/source-{}/{}", s % SOURCES, TAGS[s / SOURCES]);
                    let value = ((n * 31 + s * 17) % 101) as f64;
                    let row = json!({ "seq": 0, "observed_at": registered_at.micros(), "value": value, "stddev": 2.5 });
                    tx.put(of_signals, &slot, &row.to_string())?;
                }
            }
            Ok::<_, credence_ledger::Error>(())
        })
        .unwrap();
    }
}

/// The process's peak resident memory, where the system tells.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kib| kib >> 10)
}
