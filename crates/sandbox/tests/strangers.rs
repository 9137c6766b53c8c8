//! Targets in the manner of strangers (`crates/testing/peers/agents/strangers.py`): regular expressions and a standard library server.
//! They share no code and no reading of English with the fleet.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests: a failing unwrap is how a test says no")]

mod support;

use std::{process::Command, time::Duration};

use credence_sandbox::{Threat, report::RunResult, sensor::listener::Listener, suite::Suite, target::Transport};
use credence_testing::{fleet::Outside, peers::program};
use support::world::{World, threat};

async fn probe(name: &str, transport: Transport, threats: &[Threat]) -> RunResult {
    let running = Outside::start(Command::new("python3").arg(program("agents").join("strangers.py")).arg(name));
    let mut world = World::over(transport, &running.url).threats(threats);
    world.suite = Suite::shipped().unwrap();
    world.options.trials = 6;
    world.settings.deadline = Duration::from_secs(60);
    world.listener = Some(Listener::start("127.0.0.1:0".parse().unwrap(), None, axum::Router::new()).await.unwrap());
    world.run().await.result
}

/// The threats that a target is open to are found, and no others: those that cannot be tried have no value.
async fn check(name: &str, transport: Transport, open: &[Threat], withstood: &[Threat]) {
    let threats = [open, withstood].concat();
    let found = probe(name, transport, &threats).await;
    for (threats, fits) in [(open, (|value| value < 70.0) as fn(f64) -> bool), (withstood, |value| value > 85.0)] {
        for tag in threats {
            let result = threat(&found, tag.id());
            assert!(result.value.is_some_and(fits), "{name}: {result:#?}");
        }
    }
}

use Threat::{Asi01, Asi02, Asi03, Asi04, Asi05, Asi06, Asi07, Asi08, Asi09, Asi10};

#[tokio::test]
async fn a_bot_that_calls_what_is_named() {
    check("regex", Transport::Chat, &[Asi01, Asi02, Asi03, Asi04, Asi05, Asi07, Asi08, Asi09, Asi10], &[]).await;
}

#[tokio::test]
async fn a_bot_that_keeps_its_rules() {
    let withstood = [Asi01, Asi02, Asi03, Asi04, Asi05, Asi07, Asi08, Asi09, Asi10];
    check("careful", Transport::Chat, &[], &withstood).await;
}

/// Its words say less than ours: no sensor may need English to see that it keeps its rules.
#[tokio::test]
async fn a_bot_that_keeps_its_rules_in_german() {
    let withstood = [Asi01, Asi02, Asi03, Asi04, Asi05, Asi07, Asi08, Asi09, Asi10];
    check("german", Transport::Chat, &[], &withstood).await;
}

#[tokio::test]
async fn a_bot_that_boasts_in_words_of_its_own() {
    let found = probe("boasting", Transport::Chat, &[Asi01, Asi04, Asi07]).await;
    for result in &found.threats {
        let sum = |of: fn(&credence_sandbox::report::FamilyResult) -> u64| result.families.iter().map(of).sum::<u64>();
        assert_eq!(sum(|family| family.effected), 0, "{result:#?}");
        assert!(sum(|family| family.claimed) >= 15 && sum(|family| family.resisted) == 0, "{result:#?}");
    }
}

/// It storms its tools in harmless work, too: what cannot be told apart from an attack's effect is no resistance.
#[tokio::test]
async fn a_bot_that_calls_a_tool_without_end() {
    let found = probe("looping", Transport::Chat, &[Asi02, Asi08]).await;
    for tag in ["asi02", "asi08"] {
        let result = threat(&found, tag);
        assert!(result.value.is_none_or(|value| value < 70.0), "{result:#?}");
    }
    let why = threat(&found, "asi08").no_signal.as_deref().unwrap_or_default();
    assert!(why.contains("unasked"), "{why}");
}

#[tokio::test]
async fn a_bot_that_obeys_any_imperative() {
    check("imperative", Transport::A2a, &[Asi01, Asi04, Asi05, Asi06, Asi07, Asi10], &[Asi03]).await;
}

#[tokio::test]
async fn a_bot_with_one_drawer_for_all_users() {
    check("support-leaky", Transport::Http, &[Asi06], &[Asi01, Asi07]).await;
    check("support", Transport::Http, &[], &[Asi01, Asi06, Asi07]).await;
}

#[tokio::test]
async fn a_bot_that_renders_its_input() {
    check("greeter-careless", Transport::Http, &[Asi05], &[Asi01]).await;
    check("greeter", Transport::Http, &[], &[Asi01, Asi05]).await;
}

#[tokio::test]
async fn a_bot_that_runs_code() {
    check("runner-careless", Transport::Http, &[Asi05], &[]).await;
    check("runner", Transport::Http, &[], &[Asi05]).await;
}

#[tokio::test]
async fn a_tool_server_with_every_hole() {
    check("tools-careless", Transport::Mcp, &[Asi05], &[]).await;
    check("tools", Transport::Mcp, &[], &[Asi05]).await;
}
