//! Watched from outside the process: nothing is sent to any address but the target's and our own listener's.
//!
//! The test runs itself in a network namespace of its own (`credence_testing::watched`).
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests: a failing unwrap is how a test says no")]

mod support;

use std::{net::TcpStream, time::Duration};

use axum::{Json, http::StatusCode, response::IntoResponse};
use credence_sandbox::{Threat, target::Transport};
use credence_testing::watched::{ELSEWHERE, is_inside, packets_of};
use serde_json::json;
use support::{Manners, Server, world::World};

#[test]
fn the_watch_sees_what_leaves() {
    if is_inside() {
        let _ = TcpStream::connect_timeout(&ELSEWHERE.parse().unwrap(), Duration::from_millis(200));
        return;
    }
    if let Some(packets) = packets_of("the_watch_sees_what_leaves") {
        assert!(packets > 0);
    }
}

#[test]
fn nothing_goes_to_other_addresses() {
    if !is_inside() {
        if let Some(packets) = packets_of("nothing_goes_to_other_addresses") {
            assert_eq!(packets, 0);
        }
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // Somebody else on this machine, whom targets try to have attacked.
        let victim = Server::agent(Manners::default()).await;
        let at_victim = format!("http://{}/v1", victim.address);
        // A whole run against an honest target.
        let honest = Server::agent(Manners { gullible: true, remembers: true, ..Manners::default() }).await;
        let mut world = World::chat(&honest.url());
        world.options.benchmarks = true;
        assert!(world.run().await.result.complete);
        // Targets that redirect, to an address and to a name.
        for to in [format!("http://{ELSEWHERE}/"), "http://somewhere.example/".to_owned(), at_victim.clone()] {
            let server = Server::start(move |_, _, _| (StatusCode::TEMPORARY_REDIRECT, [("location", to.clone())]).into_response()).await;
            let result = World::chat(&server.url()).threats(&[Threat::Asi01]).run().await.result;
            assert!(result.threats.iter().all(|threat| threat.value.is_none()));
        }
        // Cards that point elsewhere.
        for to in [format!("http://{ELSEWHERE}/"), "https://somewhere.example/".to_owned(), at_victim] {
            let card = json!({ "url": to, "supportedInterfaces": [{ "url": to, "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }] });
            let server = Server::start(move |_, _, _| Json(card.clone()).into_response()).await;
            assert!(World::over(Transport::A2a, &server.url()).target().await.is_err());
        }
        // Targets outside of this machine, and names that lead nowhere, are refused.
        assert!(World::chat(&format!("http://{ELSEWHERE}/v1")).target().await.is_err());
        assert_eq!(victim.count(), 0);
    });
}
