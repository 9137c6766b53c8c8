//! A whole run stays small. Alone in its file: the peak is of the process.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests: a failing unwrap is how a test says no")]

mod support;

use credence_sandbox::{sensor::listener::Listener, suite::Suite};
use credence_testing::fleet::fleet;
use support::world::World;

/// Bytes that the process had at its largest.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

#[tokio::test]
async fn a_whole_run_takes_less_than_200_megabytes_with_its_target() {
    let careful = fleet().into_iter().find(|agent| agent.name == "careful chat").unwrap();
    let running = careful.start();
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::chat(&running.endpoint(careful.transport));
    world.suite = Suite::shipped().unwrap();
    world.options.in_flight = 8;
    world.options.benchmarks = true;
    world.journal = Some(folder.path().join("run.jsonl"));
    world.listener = Some(Listener::start("127.0.0.1:0".parse().unwrap(), None, axum::Router::new()).await.unwrap());
    let result = world.run().await.result;
    assert!(result.complete && result.requests > 1_000, "{}", result.requests);
    let Some(peak) = peak() else { return };
    println!("peak {} MB over {} requests", peak / 1_000_000, result.requests);
    assert!(peak < 200_000_000, "{peak} bytes");
}
