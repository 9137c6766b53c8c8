//! How often the database is called: over a network each call is a round trip.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use credence_ledger::{Ledger, SqliteLedger, conformance::Counted, memory::MemoryLedger};
use credence_pipeline::NewAgent;

use crate::common::{House, id, key, log_key, options, ticking};

/// Lets a test ask a ledger that an authority owns.
struct Shared<L>(Arc<Counted<L>>);

impl<L: Ledger> Ledger for Shared<L> {
    fn origin(&self) -> &str {
        self.0.origin()
    }
    fn view(&self) -> credence_ledger::Result<Box<dyn credence_ledger::View + '_>> {
        self.0.view()
    }
    fn submit(&self, work: credence_ledger::Work) -> credence_ledger::Result<credence_ledger::Ticket> {
        self.0.submit(work)
    }
    fn jobs(&self) -> &dyn credence_ledger::Jobs {
        self.0.jobs()
    }
    fn flush(&self) -> credence_ledger::Result<()> {
        self.0.flush()
    }
}

/// 500 signals of 500 agents, the most that a batch can differ: at most 20 calls.
fn five_hundred_agents(ledger: impl Ledger + 'static, clock: Arc<AtomicI64>) {
    let counted = Arc::new(Counted::new(ledger));
    let house = House::over(Shared(Arc::clone(&counted)), clock);
    house.authority.hold_scores(true);
    for source in ["lab", "rival"] {
        house.add_source(source, 1.0);
    }
    let agents: Vec<String> = (0..500).map(|n| format!("agent-{n}")).collect();
    for agent in &agents {
        house.authority.add_agent(NewAgent::new(id(agent))).unwrap();
    }
    for round in 0..3 {
        let signals: Vec<Vec<u8>> = agents
            .iter()
            .enumerate()
            .map(|(n, agent)| {
                let source = ["lab", "rival"][n % 2];
                let draft = house.draft(agent, source, &["rel_uptime", "rel_error_rate"], f64::from(round) * 10.0);
                draft.sign(&key(source)).unwrap().canonical().as_bytes().to_vec()
            })
            .collect();
        counted.take_calls();
        let mut admitted = 0;
        house.authority.submit_all(signals, &mut |_, verdict| admitted += usize::from(verdict.is_ok())).unwrap();
        let calls = counted.take_calls();
        assert_eq!(admitted, 500);
        assert!(calls <= 20, "{calls} calls");
        assert!(calls > 0, "they were counted");
        house.clock.fetch_add(1_000_000, Ordering::Relaxed);
    }
    house.authority.score_now().unwrap();
    assert_eq!(house.current().len(), 1_000);
}

/// Each signal signed by another source whose key was not met before: their keys are read together, known or not.
#[test]
fn keys_of_a_batch_are_read_together() {
    let clock = Arc::new(AtomicI64::new(1_800_000_000_000_000));
    let counted = Arc::new(Counted::new(MemoryLedger::new(log_key(), ticking(&clock))));
    let house = House::over(Shared(Arc::clone(&counted)), clock);
    house.authority.hold_scores(true);
    house.authority.add_agent(NewAgent::new(id("alice"))).unwrap();
    let sources: Vec<String> = (0..200).map(|n| format!("source-{n}")).collect();
    sources.iter().take(100).for_each(|source| house.add_source(source, 1.0));
    let signed = |source: &String| {
        let draft = house.draft("alice", source, &["rel_uptime"], 50.0);
        draft.sign(&key(source)).unwrap().canonical().as_bytes().to_vec()
    };
    let signals: Vec<Vec<u8>> = sources.iter().map(signed).collect();
    counted.take_calls();
    let (mut admitted, mut refused) = (0, 0);
    let mut each = |_: usize, verdict: credence_pipeline::admit::Verdict| match verdict {
        Ok(_) => admitted += 1,
        Err(credence_pipeline::Rejection::UnknownKey(_)) => refused += 1,
        Err(other) => panic!("{other}"),
    };
    house.authority.submit_all(signals, &mut each).unwrap();
    let calls = counted.take_calls();
    assert_eq!((admitted, refused), (100, 100));
    assert!(calls <= 20, "{calls} calls");
}

#[test]
fn a_batch_of_signals_is_few_calls_in_memory() {
    let clock = Arc::new(AtomicI64::new(1_800_000_000_000_000));
    five_hundred_agents(MemoryLedger::new(log_key(), ticking(&clock)), clock);
}

#[test]
fn a_batch_of_signals_is_few_calls_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(AtomicI64::new(1_800_000_000_000_000));
    let ledger = SqliteLedger::create(options(&folder), log_key(), ticking(&clock)).unwrap();
    five_hundred_agents(ledger, clock);
}
