//! Processes that die between any two steps, processes that work at the same time, nodes that reorganise, forget and restart.

use credence_pipeline::attestations::AttestationState as State;
use credence_server::attesting::Next;
use credence_testing::Anvil;
use serde_json::json;

use crate::{
    house::House,
    world::{CONFIRMATIONS, World},
};

/// Parts of a step: what was signed is lost; what was recorded was not sent; everything was done and nobody knows.
const PARTS: [&str; 3] = ["after looking", "after recording", "after sending"];
/// Steps of an attestation that goes well: sent, confirmed, final.
const STEPS: usize = 3;

#[tokio::test]
async fn a_process_that_dies_between_any_two_parts_of_any_step_writes_once() {
    let Some(mut house) = House::with_agents((PARTS.len() * STEPS) as u64) else { return };
    let mut agent = 0;
    for dies_in in 0..STEPS {
        for (part, words) in PARTS.iter().enumerate() {
            let attestation = house.intend(agent).await;
            for _ in 0..dies_in {
                house.attester().step(attestation).await.unwrap();
                house.world.anvil.mine(CONFIRMATIONS);
            }
            let attester = house.attester();
            let look = attester.look(attestation).await.unwrap();
            assert!(matches!(look.next, Next::Record(..)), "{dies_in} {words}: {look:?}");
            if part > 0 {
                assert!(attester.record(&look).await.unwrap());
            }
            if part > 1 {
                attester.send(&look).await.unwrap();
            }
            drop(attester);
            house.finish(attestation, true).await;
            house.assert_one(agent, attestation);
            agent += 1;
        }
    }
    assert_eq!(agent, 9);
}

#[tokio::test]
async fn of_two_workers_that_sign_one_sends() {
    let Some(mut house) = House::with_agents(2) else { return };
    let attestation = house.intend(0).await;
    // Two workers on one ledger, as two nodes of a service on one database are.
    let (one, two) = (house.attester(), house.attester());
    let looks = [one.look(attestation).await.unwrap(), two.look(attestation).await.unwrap()];
    assert!(looks.iter().all(|look| matches!(look.next, Next::Record(..))));
    assert!(one.record(&looks[0]).await.unwrap());
    assert!(!two.record(&looks[1]).await.unwrap(), "it must not send what it signed");
    // Another attestation of the same chain waits for its turn.
    let other = house.intend(1).await;
    let busy = two.step(other).await.unwrap_err().to_string();
    assert!(busy.contains(&attestation.to_string()) && busy.contains("waits for inclusion"), "{busy}");
    // Both go on at the same time, each with rounds of its own, until nothing is left.
    one.send(&looks[0]).await.unwrap();
    for _ in 0..40 {
        let (first, second) = tokio::join!(one.round(), two.round());
        first.and(second).unwrap();
        house.world.anvil.mine(1);
        if [attestation, other].iter().all(|id| house.state(*id) == State::Final) {
            break;
        }
    }
    drop((one, two));
    house.restart();
    house.assert_one(0, attestation);
    house.assert_one(1, other);
}

#[tokio::test]
async fn a_reorganisation_of_three_blocks_leaves_one() {
    let Some(mut house) = House::with_agents(1) else { return };
    house.world.settle();
    let attestation = house.intend(0).await;
    let attester = house.attester();
    attester.step(attestation).await.unwrap();
    house.world.anvil.mine(2);
    attester.step(attestation).await.unwrap();
    assert_eq!(house.state(attestation), State::Confirmed);
    let before = house.row(attestation).inclusion.unwrap();
    // The three newest blocks become three empty ones.
    house.world.anvil.ask("anvil_reorg", json!([3, []]));
    attester.step(attestation).await.unwrap();
    assert_eq!(house.steps(attestation)[3], "reorganised");
    assert!(house.row(attestation).reason.unwrap().contains(&before.block_hash.unwrap()));
    drop(attester);
    house.finish(attestation, true).await;
    house.assert_one(0, attestation);
    assert_eq!(house.row(attestation).transactions.len(), 1, "the same bytes again");
    assert_eq!(house.steps(attestation)[3..], ["reorganised", "confirmed", "final"]);
}

#[tokio::test]
async fn a_revocation_survives_crashes_reorganisations_and_a_stuck_transaction() {
    let Some(mut house) = House::with_agents(1) else { return };
    let attestation = house.intend(0).await;
    house.finish(attestation, false).await;
    house.authority().set_standing(crate::house::id("bot0"), true, None).unwrap();
    house.world.anvil.ask("evm_setAutomine", json!([false]));
    // Signed and not recorded, then recorded and not sent.
    house.attester().look(attestation).await.unwrap();
    house.restart();
    let attester = house.attester();
    let look = attester.look(attestation).await.unwrap();
    assert!(attester.record(&look).await.unwrap());
    drop(attester);
    house.restart();
    house.attester().step(attestation).await.unwrap();
    house.advance(crate::house::REPLACE_AFTER + 1);
    house.attester().step(attestation).await.unwrap();
    let row = house.row(attestation);
    assert_eq!(row.revocations.len(), 2);
    assert_eq!(row.revocations[0].transaction.nonce, row.revocations[1].transaction.nonce);
    house.world.anvil.mine(2);
    house.attester().step(attestation).await.unwrap();
    assert_eq!(house.state(attestation), State::RevocationSent, "not deep enough");
    house.world.anvil.ask("anvil_reorg", json!([2, []]));
    assert_eq!(house.world.attested(0), [(house.score(0), false)]);
    house.finish(attestation, true).await;
    assert_eq!(house.state(attestation), State::Revoked);
    assert_eq!(house.world.attested(0), [(house.score(0), true)]);
    house.assert_sound();
}

#[tokio::test]
async fn a_node_that_restarts_without_its_pool_gets_the_same_bytes_again() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state.json");
    let Some(world) = World::with(&["--state", state.to_str().unwrap(), "--preserve-historical-states"]) else {
        return;
    };
    let Some(mut house) = House::on(world, 1) else { return };
    house.world.settle();
    house.world.anvil.ask("evm_setAutomine", json!([false]));
    let attestation = house.intend(0).await;
    house.attester().step(attestation).await.unwrap();
    let dump = house.world.anvil.ask("anvil_dumpState", json!([true]));
    let Some(anvil) = Anvil::start(&[]) else { return };
    anvil.ask("anvil_loadState", json!([dump]));
    let chain = house.world.chain.clone();
    house.world = World { anvil, chain };
    house.finish(attestation, true).await;
    house.assert_one(0, attestation);
    assert_eq!(house.row(attestation).transactions.len(), 1);
}
