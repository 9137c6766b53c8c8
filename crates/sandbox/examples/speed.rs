//! How fast a whole suite runs against a target on this machine that answers at once, and how much memory that takes.
//!
//! `cargo run --release -p credence-sandbox --example speed`
#![allow(clippy::unwrap_used, reason = "a measurement: a failing unwrap ends it")]

use std::{
    num::NonZeroU32,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{Json, Router, routing::post};
use credence_sandbox::{
    consent::LoopbackOnly,
    runner::{Cancel, Quiet, Run, RunOptions},
    sensor::listener::Listener,
    suite::Suite,
    target::{TargetSpec, Transport, connect, wire::WireSettings},
    trial::Outcome,
};
use serde_json::{Value, json};

/// Calls the first tool it is offered, and says something else otherwise.
async fn answer(Json(body): Json<Value>) -> Json<Value> {
    let last = body["messages"].as_array().and_then(|messages| messages.last()).cloned().unwrap_or_default();
    let message = match body["tools"][0]["function"]["name"].as_str().filter(|_| last["role"] == "user") {
        Some(tool) => json!({ "content": null, "tool_calls": [
            { "id": "c", "type": "function", "function": { "name": tool, "arguments": "{}" } }] }),
        None => json!({ "content": format!("Here is what I found: {}", last["content"].as_str().unwrap_or_default()) }),
    };
    Json(json!({ "choices": [{ "message": message }] }))
}

fn main() {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let router = Router::new().route("/v1/chat/completions", post(answer));
        runtime
            .block_on(async { axum::serve(tokio::net::TcpListener::from_std(socket).unwrap(), router).await.unwrap() });
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let suite = Suite::shipped().unwrap();
        let settings = WireSettings {
            allow_loopback: true,
            rate: NonZeroU32::new(1_000_000).unwrap(),
            in_flight: 8,
            ..WireSettings::default()
        };
        let spec = TargetSpec::new(Transport::Chat, &format!("http://{address}/v1"));
        let cancel = Cancel::default();
        let target = connect(&spec, settings, Arc::new(LoopbackOnly), cancel.clone()).await.unwrap();
        let listener = Listener::start("127.0.0.1:0".parse().unwrap(), None, Router::new()).await.unwrap();
        let folder = std::env::temp_dir().join(format!("credence-speed-{}.jsonl", std::process::id()));
        let options = RunOptions {
            in_flight: 8,
            benchmarks: false,
            reliability_spread: Duration::ZERO,
            trials: 10,
            ..RunOptions::default()
        };
        let run = Run {
            suite: &suite,
            target: target.as_ref(),
            address: spec.recorded_url().unwrap(),
            options,
            listener: Some(&listener),
            mount: None,
            journal: Some(&folder),
            observer: &Quiet,
            cancel,
        };
        let started = Instant::now();
        let output = run.execute().await.unwrap();
        let seconds = started.elapsed().as_secs_f64();
        let trials = output.trials.len();
        let conclusive = output.trials.iter().filter(|trial| trial.outcome != Outcome::Inconclusive).count();
        let requests = output.result.requests;
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: unknown").to_owned();
        println!("{} families, {} probes", suite.families().count(), suite.probe_count());
        println!("{trials} trials ({conclusive} conclusive), {requests} requests in {seconds:.2} s");
        println!(
            "{:.0} probes/s, {:.0} requests/s, 8 in flight; {peak}",
            trials as f64 / seconds,
            requests as f64 / seconds
        );
        let _ = std::fs::remove_file(credence_sandbox::runner::journal::transcript_path(&folder));
        let _ = std::fs::remove_file(&folder);
    });
}
