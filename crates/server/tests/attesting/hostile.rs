//! Nodes that lie, and nodes of another chain.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use axum::http::StatusCode;
use credence_chain::{attest::Writer, evm::FeePolicy};
use credence_pipeline::attestations::{AttestationState as State, MAX_NONCES};
use serde_json::{Value, json};

use crate::{
    house::{House, chain},
    world::{CONFIRMATIONS, GWEI, Meddler},
};

fn policy() -> FeePolicy {
    FeePolicy { max_fee_per_gas: 100 * GWEI, ..FeePolicy::default() }
}

#[tokio::test]
async fn a_node_of_another_chain_changes_nothing() {
    let Some(mut house) = House::with_agents(1) else { return };
    let elsewhere = Arc::new(AtomicBool::new(true));
    let switch = Arc::clone(&elsewhere);
    let meddler = Meddler::start(&house.world.anvil, move |request, mut answer| {
        if request["method"] == "eth_chainId" && switch.load(Ordering::SeqCst) {
            answer["result"] = json!("0x1");
        }
        (StatusCode::OK, answer)
    })
    .await;
    let writer = || Writer::Evm(house.world.writer_with(&meddler.url, policy()));
    let attestation = house.intend(0).await;
    let before = house.entries();
    let attester = house.attester_of(house.authority(), chain(writer()));
    let error = attester.step(attestation).await.unwrap_err().to_string();
    assert!(error.contains("eip155:1, and eip155:31337 is configured"), "{error}");
    elsewhere.store(false, Ordering::SeqCst);
    attester.step(attestation).await.unwrap();
    house.world.anvil.mine(1);
    attester.step(attestation).await.unwrap();
    assert_eq!(house.state(attestation), State::Confirmed);
    // It must not look as if the chain had been reorganised.
    elsewhere.store(true, Ordering::SeqCst);
    attester.step(attestation).await.unwrap_err();
    assert_eq!((house.state(attestation), house.entries()), (State::Confirmed, before + 2));
    drop(attester);
    house.finish(attestation, false).await;
    house.assert_one(0, attestation);
}

/// The node denies everything about transactions that it included, and is believed only so often.
#[tokio::test]
async fn a_node_that_denies_what_it_included_costs_a_bounded_number_of_transactions() {
    let Some(house) = House::with_agents(1) else { return };
    let meddler = Meddler::start(&house.world.anvil, |request, mut answer| {
        let method = request["method"].as_str().unwrap_or_default();
        if ["eth_getTransactionReceipt", "eth_getTransactionByHash"].contains(&method) {
            answer["result"] = Value::Null;
        }
        // getLastIndex: none of ours.
        let call = request["params"][0]["data"].as_str().unwrap_or_default();
        if method == "eth_call" && call.starts_with("0xf2d81759") {
            answer["result"] = json!(format!("0x{}", "0".repeat(64)));
        }
        (StatusCode::OK, answer)
    })
    .await;
    let attestation = house.intend(0).await;
    let writer = Writer::Evm(house.world.writer_with(&meddler.url, policy()));
    let attester = house.attester_of(house.authority(), chain(writer));
    for _ in 0..60 {
        attester.step(attestation).await.unwrap();
        house.world.anvil.mine(CONFIRMATIONS + 1);
    }
    assert_eq!(house.state(attestation), State::GivenUp);
    assert_eq!(house.world.attested(0).len(), MAX_NONCES);
    drop(attester);
    house.assert_sound();
}

/// A node that lost its index of transactions still has the registry.
#[tokio::test]
async fn what_the_registry_has_is_not_written_again() {
    let Some(house) = House::with_agents(1) else { return };
    let meddler = Meddler::start(&house.world.anvil, |request, mut answer| {
        let method = request["method"].as_str().unwrap_or_default();
        if ["eth_getTransactionReceipt", "eth_getTransactionByHash"].contains(&method) {
            answer["result"] = Value::Null;
        }
        (StatusCode::OK, answer)
    })
    .await;
    let attestation = house.intend(0).await;
    let writer = Writer::Evm(house.world.writer_with(&meddler.url, policy()));
    let attester = house.attester_of(house.authority(), chain(writer));
    for _ in 0..6 {
        attester.step(attestation).await.unwrap();
        house.world.anvil.mine(CONFIRMATIONS + 1);
    }
    let row = house.row(attestation);
    assert_eq!(row.inclusion.unwrap().index, Some(1));
    drop(attester);
    house.assert_one(0, attestation);
}
