//! Many calls over many argument sets and sessions: memory stays within its limits. 10 million calls in the long mode.
#![allow(clippy::unwrap_used, missing_docs, reason = "helpers of tests: a failing unwrap is how a test says no")]

use credence_verify::{Call, Engine, Limits};
use serde_json::json;

const ARGUMENT_SETS: usize = 100_000;
const SESSIONS: usize = 10_000;
/// What the limits below come to, with room for the allocator: a history of a few fields is about 600 bytes.
const MAX_RESIDENT_MIB: u64 = 100;

fn resident_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib >> 10)
}

#[test]
fn memory_stays_within_its_limits() {
    let calls: usize = if std::env::var_os("LONG_TESTS").is_some() { 10_000_000 } else { 300_000 };
    let limits = Limits { max_tools: 100, max_histories: 40_000, max_sessions: 5_000, ..Limits::default() };
    let engine = Engine::builder().limits(limits).build();
    let sessions: Vec<String> = (0..SESSIONS).map(|n| format!("session-{n}")).collect();
    let results: Vec<_> =
        (0..100).map(|n| json!({"price": 100 + n, "volume": n * 3, "name": "x", "tags": [n, n + 1]})).collect();
    for n in 0..calls {
        let mixed = n.wrapping_mul(2_654_435_761);
        let tool = ["search", "quote", "weather", "mail"][mixed % 4];
        // Half of the calls come again and again, so that their histories fill; the others push them out.
        let (sets, talks) = if n % 2 == 0 { (1_000, 100) } else { (ARGUMENT_SETS, SESSIONS) };
        let args = json!({"q": mixed % sets});
        let call = Call::new(tool, &results[mixed % 100]).args(&args).session(&sessions[mixed % talks]);
        engine.verify(&call.execution_time_ms(200.0 + (mixed % 50) as f64)).unwrap();
    }
    let memory = engine.memory();
    // Each of the 64 shards may exceed by one.
    assert!(memory.histories <= 40_064 && memory.sessions <= 5_064, "{memory:?}");
    assert!(memory.evicted_histories > 0 && memory.evicted_sessions > 0, "{memory:?}");
    let resident = resident_mib();
    assert!(resident.is_none_or(|mib| mib < MAX_RESIDENT_MIB), "{resident:?} MiB, {memory:?}");
    println!("{calls} calls, {resident:?} MiB resident, {memory:?}");
}
