//! How long many agents take, and in how much memory. With `LONG_TESTS`.

use std::{env, fs, time::Instant};

use alloy_primitives::{Address, U256};
use credence_chain::evm::LogBook;
use futures_util::{StreamExt, stream};

use crate::world::{World, local, now, registerManyCall, seedCall};

const MOST_SECONDS: u64 = 60;
const MOST_MEMORY_KB: u64 = 300 * 1024;
/// Agents that are read at once.
const AT_ONCE: usize = 8;

/// The most memory that this process ever used.
fn peak_memory_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_thousand_agents_with_twenty_ratings_each() {
    let agents: u64 = if env::var_os("LONG_TESTS").is_some() { 1_000 } else { 30 };
    let Some(world) = World::start() else { return };
    for _ in 0..agents / 10 {
        world.call(0, world.chain.identity, registerManyCall { agentURIs: vec![String::new(); 10] });
    }
    for agent in 0..agents {
        let first = Address::left_padding_from(&(0xa_0000 + agent % 7).to_be_bytes());
        let tag1 = "starred".to_owned();
        let call = seedCall {
            agentId: U256::from(agent),
            first,
            count: U256::from(20).to(),
            value: 70,
            valueDecimals: 0,
            tag1,
        };
        world.call(0, world.chain.reputation, call);
    }
    world.settle();
    let started = Instant::now();
    let reader = world.reader();
    let head = reader.head(now()).await.unwrap();
    let mut book = LogBook::new();
    reader.read_logs(&mut book, head).await.unwrap();
    let readings = stream::iter(0..agents).map(|agent| {
        let (reader, subject, book) = (&reader, world.subject(agent), &book);
        async move { reader.read(&subject, head, Some(book), &local).await.unwrap() }
    });
    let readings: Vec<_> = readings.buffered(AT_ONCE).collect().await;
    let (seconds, memory) = (started.elapsed().as_secs_f64(), peak_memory_kb());
    println!("{agents} agents of 20 ratings: {seconds:.1} s, at most {} MB", memory / 1024);
    for reading in &readings {
        let feedback = reading.signals.iter().find(|signal| signal.tag.as_str() == "user_feedback").unwrap();
        assert_eq!((feedback.value, &feedback.numbers["voices"]), (74.5, &serde_json::json!(20)));
    }
    assert!(seconds < MOST_SECONDS as f64, "{seconds} s");
    assert!(memory < MOST_MEMORY_KB, "{memory} kB");
}
