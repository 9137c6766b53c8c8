//! What the sandbox finds out about the demo's agents, measured by the real sandbox and kept in `probed.json`.
//!
//! An agent of merit m is a careful agent that forgets its care in a share of its conversations: the worse it is, the more often. Both
//! halves are agents of the fleet, on loopback. `BLESS=1` measures all of them again.
#![allow(clippy::unwrap_used, reason = "a failing unwrap is how a test says no")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use credence_demo::probed::{PROBED, ProbedLevel, Recorded};
use credence_pipeline::probes::{Benchmarks, ProbeRecord};
use credence_protocol::EntityId;
use credence_sandbox::{
    consent::LoopbackOnly,
    runner::{Cancel, Quiet, Run, RunOptions},
    sensor::listener::Listener,
    suite::Suite,
    target::{Conversation, Exchange, Reply, Target, TargetError, TargetSpec, Transport, connect, wire::WireSettings},
    trial::Reason,
};
use credence_server::probing::FinishedRun;
use credence_testing::fleet::{self, Ability, Character, Fault, Running, Style, Weakness};
use futures_util::future::BoxFuture;

const SEED: u64 = 20_261_118;

fn agent(weak: Vec<Weakness>) -> Running {
    let able = vec![Ability::Fetch, Ability::Code, Ability::Memory];
    let character = Character {
        name: "of the demo",
        transport: fleet::Transport::Chat,
        style: Style::Works,
        able,
        weak,
        fault: Fault::None,
        vulnerable: Vec::new(),
        perhaps: Vec::new(),
    };
    character.start()
}

/// Everything that can be wrong with an agent without keeping it from harmless work.
fn careless() -> Vec<Weakness> {
    use Weakness as W;
    vec![
        W::ObeysMaterial,
        W::ObeysResults,
        W::YieldsToOverrides,
        W::IgnoresRules,
        W::IgnoresBounds,
        W::TrustsClaims,
        W::ObeysDescriptions,
        W::InstallsAnything,
        W::RunsCode,
        W::SharesMemory,
        W::RemembersMaterial,
        W::TrustsPeers,
        W::RetriesForever,
        W::IgnoresRetryAfter,
        W::InventsValues,
        W::YieldsToPressure,
        W::ApprovesWhatIsUrgent,
        W::CopiesItself,
        W::SilencesOversight,
    ]
}

/// How call `n` to an agent of this merit goes: how long the answer takes, or whether it is missing (`Err(true)`) or an error. The worse an
/// agent is, the slower it is and the more often it fails.
fn reliability_at(merit: f64, n: u64) -> Result<Duration, bool> {
    let lack = (1.0 - merit / 100.0).clamp(0.0, 1.0);
    // Evenly spread over the calls, so that 24 of them show the rate.
    let phase = |step: f64| (n as f64 * step).fract();
    if phase(0.618_034) < 0.26 * lack {
        return Err(true);
    }
    if phase(0.754_878) < 0.4 * lack {
        return Err(false);
    }
    let millis = 180.0 * 40.0_f64.powf(lack) * (0.8 + 0.4 * phase(0.569_840));
    Ok(Duration::from_millis(millis as u64))
}

/// A careful agent that is careless in a share of its conversations, and does not always answer.
struct Mixed {
    careful: Box<dyn Target>,
    careless: Box<dyn Target>,
    /// The share, 0 to 1.
    share: f64,
    merit: f64,
    pings: AtomicU64,
}

impl Mixed {
    /// The same conversation is always with the same half.
    fn half(&self, conversation: &Conversation) -> &dyn Target {
        let digits =
            conversation.name.get(..8).and_then(|start| u32::from_str_radix(start, 16).ok()).unwrap_or_default();
        if f64::from(digits) < self.share * f64::from(u32::MAX) { &*self.careless } else { &*self.careful }
    }
}

impl Target for Mixed {
    fn transport(&self) -> Transport {
        Transport::Chat
    }

    fn has_second_identity(&self) -> bool {
        self.careful.has_second_identity()
    }

    fn exchange<'a>(&'a self, exchange: Exchange<'a>) -> BoxFuture<'a, Result<Reply, TargetError>> {
        self.half(exchange.conversation).exchange(exchange)
    }

    /// How long it takes and how often it fails is said, not waited for.
    fn ping<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Reply, TargetError>> {
        let n = self.pings.fetch_add(1, Ordering::SeqCst);
        let simulated = reliability_at(self.merit, n);
        Box::pin(async move {
            match simulated {
                Err(true) => Err(TargetError::new(Reason::Late, "no answer")),
                Err(false) => Err(TargetError::new(Reason::Status, "the target answered 500")),
                Ok(took) => self.careful.ping(text).await.map(|reply| Reply { elapsed: took, ..reply }),
            }
        })
    }

    fn requests(&self) -> u64 {
        self.careful.requests() + self.careless.requests() + self.pings.load(Ordering::SeqCst)
    }
}

async fn connected(to: &Running) -> Box<dyn Target> {
    let spec = TargetSpec::new(Transport::Chat, &format!("{}/v1", to.origin));
    let rate = std::num::NonZeroU32::new(100_000).unwrap();
    let wire = WireSettings { allow_loopback: true, rate, in_flight: 8, ..WireSettings::default() };
    connect(&spec, wire, Arc::new(LoopbackOnly), Cancel::default()).await.unwrap()
}

/// Measures an agent of this merit, or a careful one with one hole.
fn measured(merit: f64, hole: Option<Vec<Weakness>>) -> Recorded {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (share, weak) = match hole {
            Some(weak) => (1.0, weak),
            None => ((1.0 - merit / 100.0) * 0.5, careless()),
        };
        let (careful, careless) = (agent(Vec::new()), agent(weak));
        let target = Mixed {
            careful: connected(&careful).await,
            careless: connected(&careless).await,
            share,
            merit,
            pings: AtomicU64::new(0),
        };
        let suite = Suite::shipped().unwrap();
        let listener = Listener::start("127.0.0.1:0".parse().unwrap(), None, axum::Router::new()).await.unwrap();
        let run = Run {
            suite: &suite,
            target: &target,
            address: "http://127.0.0.1:1/".to_owned(),
            options: RunOptions {
                seed: SEED,
                // One after another: families share a careless agent's memory, and the recording has to come out the same.
                in_flight: 1,
                reliability_spread: Duration::ZERO,
                ..RunOptions::default()
            },
            listener: Some(&listener),
            mount: None,
            journal: None,
            observer: &Quiet,
            cancel: Cancel::default(),
        };
        let output = run.execute().await.unwrap();
        assert!(output.result.complete, "{:?}", output.result.ended);
        let finished = FinishedRun {
            agent: &EntityId::new("demo").unwrap(),
            origin: "http://127.0.0.1:1",
            output: &output,
            now: "2026-11-18T00:00:00Z".parse().unwrap(),
        };
        let ProbeRecord { suite, transcript, requests, threats, benchmarks, .. } = finished.record().unwrap();
        // What outputs are worth is the verifiers' story here.
        let benchmarks = Benchmarks { quality: None, ..benchmarks };
        // Nonces of conversations are in the transcript, ports are not; its digest is kept as it came out.
        Recorded { suite, seed: SEED, transcript, requests, threats, benchmarks }
    })
}

#[test]
fn what_the_demo_tells_of_probes_was_measured() {
    let hole = || Some(vec![Weakness::RunsCode]);
    if std::env::var_os("BLESS").is_some() {
        let levels: Vec<ProbedLevel> = (0..=10)
            .map(|tenth| ProbedLevel { merit: f64::from(tenth) * 10.0, run: measured(f64::from(tenth) * 10.0, None) })
            .collect();
        let all = serde_json::json!({ "levels": levels, "hole": measured(82.0, hole()) });
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("probed.json");
        std::fs::write(path, serde_json::to_string_pretty(&all).unwrap() + "\n").unwrap();
        return;
    }
    let probed = PROBED.as_ref().unwrap();
    assert_eq!(probed.levels.len(), 11);
    // The best, the worst and one between; all of them where there is time.
    let long = std::env::var_os("LONG_TESTS").is_some();
    for level in probed.levels.iter().filter(|level| long || [0.0, 60.0, 100.0].contains(&level.merit)) {
        let again = measured(level.merit, None);
        let found = (&again.suite, &again.threats, &again.benchmarks);
        let ProbedLevel { merit, run } = level;
        assert_eq!(found, (&run.suite, &run.threats, &run.benchmarks), "merit {merit}: BLESS=1 measures again");
    }
    let again = measured(82.0, hole());
    assert_eq!(again.threats, probed.hole.threats, "BLESS=1 measures again");
}
