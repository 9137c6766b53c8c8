//! What the intervals are worth: agents whose true rates are known.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests: a failing unwrap is how a test says no")]

mod support;

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use credence_sandbox::{
    runner::RunOptions,
    suite::Suite,
    target::{Exchange, Input, Reply, Target, TargetError, Transport},
};
use credence_testing::fleet::fleet;
use futures_util::future::BoxFuture;
use serde_json::json;
use support::{
    Manners, decide,
    world::{World, family},
};

/// Uniform numbers, the same in every run of the test (SplitMix64).
struct Uniform(u64);

impl Uniform {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// An agent in this process that falls for an attack at a known rate.
struct Fickle {
    rate: f64,
    uniform: Mutex<Uniform>,
    requests: AtomicU64,
}

impl Target for Fickle {
    fn transport(&self) -> Transport {
        Transport::Chat
    }

    fn has_second_identity(&self) -> bool {
        false
    }

    fn exchange<'a>(&'a self, exchange: Exchange<'a>) -> BoxFuture<'a, Result<Reply, TargetError>> {
        Box::pin(async move {
            self.requests.fetch_add(1, Ordering::SeqCst);
            let Input::Message { text, .. } = exchange.input else { unreachable!() };
            let gullible = self.uniform.lock().unwrap().next() < self.rate;
            let message = json!({ "role": "user", "content": text });
            let said = decide(Manners { gullible, ..Manners::default() }, &Mutex::default(), "", &[message]);
            Ok(Reply { text: said["content"].as_str().unwrap().to_owned(), ..Reply::default() })
        })
    }

    fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }
}

/// The share of 400 agents whose true rate lies inside the interval, and the mean number of trials. Rates are drawn from Beta(1, 3).
async fn coverage(options: RunOptions) -> (f64, f64) {
    let mut rates = Uniform(20_261_118);
    let (mut held, mut trials) = (0, 0);
    let agents = 400;
    for n in 0..agents {
        // The inverse of Beta(1, 3)'s distribution function.
        let rate = 1.0 - (1.0 - rates.next()).cbrt();
        let target = Fickle { rate, uniform: Mutex::new(Uniform(n)), requests: AtomicU64::new(0) };
        let mut world = World::chat("http://127.0.0.1/");
        world.options =
            RunOptions { seed: n, only: vec!["asi01_override".into()], benchmarks: false, ..options.clone() };
        let found = world.run_on(&target).await.unwrap().result;
        let family = family(&found, "asi01_override");
        let (low, high) = family.interval.unwrap();
        held += u32::from(low <= rate && rate <= high);
        trials += family.trials;
    }
    (f64::from(held) / agents as f64, trials as f64 / agents as f64)
}

#[tokio::test]
async fn intervals_of_90_percent_hold_at_the_default_budget() {
    let (share, trials) = coverage(RunOptions::default()).await;
    println!("default budget: {:.1} % of intervals hold, {trials:.1} trials", 100.0 * share);
    assert!(share >= 0.85, "{share}");
    assert!((trials - 10.0).abs() < 0.01, "{trials}");
}

/// Two agents of the fleet behind one address: each conversation meets the weak one at a known rate, else the careful one.
struct Mixed {
    weak: Box<dyn Target>,
    careful: Box<dyn Target>,
    rate: f64,
    seed: u64,
}

impl Mixed {
    /// A conversation stays with its agent.
    fn agent(&self, conversation: &str) -> &dyn Target {
        let named = conversation.bytes().fold(self.seed, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        if Uniform(named).next() < self.rate { &*self.weak } else { &*self.careful }
    }
}

impl Target for Mixed {
    fn transport(&self) -> Transport {
        Transport::Chat
    }

    fn has_second_identity(&self) -> bool {
        false
    }

    fn exchange<'a>(&'a self, exchange: Exchange<'a>) -> BoxFuture<'a, Result<Reply, TargetError>> {
        let agent = self.agent(&exchange.conversation.name);
        agent.exchange(exchange)
    }

    fn requests(&self) -> u64 {
        self.weak.requests() + self.careful.requests()
    }
}

/// Families of the shipped suite, each with an agent of the fleet that falls for it, whatever the wording.
const SHIPPED: [(&str, &str); 4] = [
    ("asi01_document", "obeys documents"),
    ("asi01_tool_result", "obeys tool results"),
    ("asi08_error", "retries forever"),
    ("asi08_rate_limit", "retries at once"),
];

#[tokio::test]
async fn intervals_of_shipped_families_hold() {
    let suite = Suite::shipped().unwrap();
    let start = |name: &str| fleet().into_iter().find(|agent| agent.name == name).unwrap().start();
    let careful = start("careful chat");
    let agents: u64 = if std::env::var_os("LONG_TESTS").is_some() { 100 } else { 50 };
    let mut rates = Uniform(1_118);
    let mut held = 0;
    for (id, name) in SHIPPED {
        let weak = start(name);
        let mut of_family = 0;
        for n in 0..agents {
            let rate = 1.0 - (1.0 - rates.next()).cbrt();
            let connected = |origin: &str| World::chat(&format!("{origin}/v1"));
            let (one, other) = (connected(&weak.origin), connected(&careful.origin));
            let target =
                Mixed { weak: one.target().await.unwrap(), careful: other.target().await.unwrap(), rate, seed: n };
            let mut world = one;
            world.suite = suite.clone();
            world.options = RunOptions { seed: n, only: vec![id.into()], benchmarks: false, ..RunOptions::default() };
            let found = world.run_on(&target).await.unwrap().result;
            let family = family(&found, id);
            assert_eq!(family.effected + family.claimed + family.resisted, 10, "{family:?}");
            let (low, high) = family.interval.unwrap();
            of_family += u32::from(low <= rate && rate <= high);
        }
        println!("{id}: {of_family} of {agents} intervals hold");
        held += of_family;
    }
    let share = f64::from(held) / (agents as f64 * SHIPPED.len() as f64);
    assert!(share >= 0.85, "{share}");
}

#[tokio::test]
async fn ending_early_does_not_break_the_intervals() {
    let (share, trials) = coverage(RunOptions { trials: 40, tight: 0.25, ..RunOptions::default() }).await;
    println!(
        "up to 40 trials, ending at a width of 0.25: {:.1} % of intervals hold, {trials:.1} trials",
        100.0 * share
    );
    assert!(share >= 0.85, "{share}");
    // Many do end early, or the test says nothing.
    assert!(trials < 32.0, "{trials}");
}
