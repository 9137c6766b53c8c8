//! A registry with many agents through the real crawler: node, reader, signals in the ledger. A thousand agents with `LONG_TESTS`.

use std::{env, fs, sync::Arc, time::Instant};

use alloy_primitives::{Address, U256};
use credence_pipeline::{NewAgent, NewSource};
use credence_protocol::{LinkProof, SecretKey, Timestamp};
use credence_server::crawl::{ChainSource, CrawlSettings, Installed, Runner, Selection};
use tokio::sync::watch;

use crate::{
    house::{House, id},
    world::{World, now, registerManyCall, seedCall},
};

const RATINGS: u64 = 20;
const MOST_SECONDS: f64 = 60.0;
const MOST_MEMORY_KB: u64 = 300 * 1024;

/// The most memory that this process ever used.
fn peak_memory_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn rated(world: &World, agents: u64) {
    for _ in 0..agents / 10 {
        world.call(0, world.chain.identity, registerManyCall { agentURIs: vec![String::new(); 10] });
    }
    for agent in 0..agents {
        let call = seedCall {
            agentId: U256::from(agent),
            first: Address::left_padding_from(&(0xa_0000 + agent % 7).to_be_bytes()),
            count: U256::from(RATINGS).to(),
            value: 70,
            valueDecimals: 0,
            tag1: "starred".to_owned(),
        };
        world.call(0, world.chain.reputation, call);
    }
    world.settle();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_agents_are_crawled_in_time_and_memory() {
    let agents: u64 = if env::var_os("LONG_TESTS").is_some() { 1_000 } else { 20 };
    let Some(world) = World::start() else { return };
    rated(&world, agents);
    let Some(house) = House::on(world, 0) else { return };
    let authority = house.authority();
    for n in 0..agents {
        let agent = id(&format!("bot{n}"));
        authority.add_agent(NewAgent::new(agent.clone())).unwrap();
        let line = authority.claim_link(&agent, &house.world.subject(n), 30).unwrap();
        let proof = LinkProof { method: "record".into(), url: None, digest: None, signature: None };
        authority.prove_link(&line, proof).unwrap();
    }
    let source = ChainSource::evm(house.world.reader()).unwrap();
    let (name, key) = (source.id().clone(), SecretKey::from_seed(&[8; 32]));
    let registered =
        NewSource { roots: vec![source.root().clone()], ..NewSource::new(name.clone(), ChainSource::WEIGHT) };
    authority.add_source(registered).unwrap();
    authority.add_key(&key.public(), name).unwrap();
    let clock = Arc::new(|| Timestamp::from_micros(i64::try_from(now()).unwrap() * 1_000_000).unwrap());
    let settings =
        CrawlSettings { contact: None, mirror: None, secrets: Arc::new(|_| None), clock, registries: Arc::default() };
    let runner = Runner::new(Arc::clone(&authority), vec![Installed::chain(source, key)], &settings).unwrap();

    let started = Instant::now();
    let totals = runner.run(&Selection::default(), &watch::channel(false).1, &mut |_| {}).await.unwrap();
    let (seconds, memory) = (started.elapsed().as_secs_f64(), peak_memory_kb());
    println!("{agents} agents of {RATINGS} ratings crawled: {seconds:.1} s, at most {} MB, {totals:?}", memory / 1024);
    assert_eq!((totals.asked as u64, totals.nothing), (agents, 0));
    assert!(totals.signals as u64 >= agents, "{totals:?}");
    assert!(seconds < MOST_SECONDS, "{seconds} s");
    assert!(memory < MOST_MEMORY_KB, "{memory} kB");
}
