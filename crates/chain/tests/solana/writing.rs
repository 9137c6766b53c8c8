//! What is written, what it costs, where it is, and what is refused before anything is paid.

use credence_chain::{
    ChainError,
    attest::{Attestation, Prepared, TransactionState, Writer},
    solana::{FINAL_CONFIRMATIONS, Pubkey, SolanaKey},
};
use data_encoding::BASE64;
use serde_json::json;

use crate::{
    ledger::{FEE, RESERVE, Transaction, blockhash},
    world::{ASSET, World, key, subject},
};

async fn state(writer: &Writer, prepared: &Prepared) -> TransactionState {
    writer.state(prepared).await.unwrap()
}

/// Sends and lets blocks pass until it is final.
async fn land(world: &World, writer: &Writer, prepared: &Prepared) {
    writer.send(prepared).await.unwrap();
    world.cluster.ledger().advance(FINAL_CONFIRMATIONS + 1);
}

#[tokio::test]
async fn an_attestation_goes_from_unknown_to_final() {
    let world = World::start().await;
    let (writer, attestation) = (world.writer(), world.attestation(8_312));
    assert_eq!((writer.chain(), writer.address()), (world.chain.caip2(), key().address().to_string()));
    let quote = writer.quote(&attestation).await.unwrap();
    assert_eq!((quote.max_fee, quote.balance, quote.unit), (u128::from(FEE), 1_000_000_000, "lamports"));

    let prepared = writer.prepare(&attestation, None, None).await.unwrap();
    assert_eq!((prepared.nonce, prepared.valid_until, prepared.max_fee), (None, Some(1_149), u128::from(FEE)));
    assert_eq!(state(&writer, &prepared).await, TransactionState::Unknown, "signed is not sent");
    assert!(world.cluster.ledger().pool.is_empty());
    writer.send(&prepared).await.unwrap();
    writer.send(&prepared).await.unwrap();
    assert_eq!(world.cluster.ledger().pool.len(), 1);
    assert_eq!(state(&writer, &prepared).await, TransactionState::Unknown);
    world.cluster.ledger().advance(1);
    assert_eq!(state(&writer, &prepared).await, TransactionState::Pending, "in a block that may be dropped");
    assert_eq!(writer.find(&attestation).await, Ok(None));

    let included = |confirmations| TransactionState::Included {
        block: 2_001,
        block_hash: blockhash(2_001),
        confirmations,
        succeeded: true,
        fee: u128::from(FEE),
        index: Some(0),
    };
    world.cluster.ledger().advance(1);
    assert_eq!(state(&writer, &prepared).await, included(2));
    world.cluster.ledger().advance(30);
    assert_eq!(state(&writer, &prepared).await, included(FINAL_CONFIRMATIONS - 1), "old is not final");
    world.cluster.ledger().advance(1);
    assert_eq!(state(&writer, &prepared).await, included(33));
    // Sent once more, it is still one, even when its blockhash is long gone.
    writer.send(&prepared).await.unwrap();
    world.cluster.ledger().advance(500);
    writer.send(&prepared).await.unwrap();
    world.cluster.ledger().advance(1);
    assert_eq!(world.cluster.ledger().landed.len(), 1);
    assert!(matches!(state(&writer, &prepared).await, TransactionState::Included { .. }));
    assert_eq!(world.cluster.ledger().balances[&key().address()], 1_000_000_000 - FEE);
}

#[tokio::test]
async fn feedback_is_found_and_taken_back_once() {
    let world = World::start().await;
    let (writer, first, second) = (world.writer(), world.attestation(8_312), world.attestation(8_400));
    for attestation in [&first, &second] {
        assert_eq!(writer.find(attestation).await, Ok(None));
        let prepared = writer.prepare(attestation, None, None).await.unwrap();
        land(&world, &writer, &prepared).await;
    }
    assert_eq!(writer.find(&first).await, Ok(Some(0)));
    assert_eq!(writer.find(&second).await, Ok(Some(1)));
    for other in [
        Attestation { value: 8_313, ..first.clone() },
        Attestation { document: "ab".repeat(32), ..first.clone() },
        Attestation { uri: "https://authority.example/other".into(), ..first.clone() },
    ] {
        assert_eq!(writer.find(&other).await, Ok(None), "{other:?}");
    }

    let revocation = writer.prepare_revocation(&subject(), 0, None).await.unwrap();
    land(&world, &writer, &revocation).await;
    let TransactionState::Included { succeeded: true, index: None, .. } = state(&writer, &revocation).await else {
        panic!("not included")
    };
    let revoked = world.cluster.ledger().revoked.clone();
    let [(asset, index, seal)] = revoked.as_slice() else { panic!("{revoked:?}") };
    assert_eq!((*asset, *index, seal.len()), (ASSET, 0, 64));
    assert_eq!(writer.find(&first).await, Ok(None), "taken back");
    assert_eq!(writer.find(&second).await, Ok(Some(1)));
    let twice = writer.prepare_revocation(&subject(), 0, None).await.unwrap_err();
    assert!(twice.reason() == "reverted" && twice.to_string().contains("already"), "{twice}");
    let nobodys = writer.prepare_revocation(&subject(), 9, None).await.unwrap_err();
    assert!(nobodys.reason() == "reverted" && nobodys.to_string().contains("index"), "{nobodys}");
    // The same content again, after it was taken back, is a feedback of its own.
    let again = writer.prepare(&first, None, None).await.unwrap();
    land(&world, &writer, &again).await;
    assert_eq!(writer.find(&first).await, Ok(Some(2)));
}

#[tokio::test]
async fn feedback_is_found_under_a_flood() {
    let world = World::start().await;
    let (writer, attestation) = (world.writer(), world.attestation(8_312));
    let prepared = writer.prepare(&attestation, None, None).await.unwrap();
    land(&world, &writer, &prepared).await;
    // Others use the agent's account so often that no list of its transactions reaches ours.
    let flood = |address: Pubkey, name: &str| {
        let mut ledger = world.cluster.ledger();
        let (slot, example) = (ledger.slot, ledger.landed[0].clone());
        ledger.landed.extend((0..5_000).map(|n| {
            let id = format!("{name}{n}");
            Transaction { id, slot, keys: vec![address], ..example.clone() }
        }));
        ledger.advance(1);
    };
    flood(crate::world::address("agent"), "theirs");
    assert_eq!(writer.find(&attestation).await, Ok(Some(0)));
    assert_eq!(writer.find(&world.attestation(8_313)).await, Ok(None));
    // So often do we: the search says that it cannot tell.
    flood(key().address(), "ours");
    assert_eq!(writer.find(&attestation).await.unwrap_err().reason(), "limit");
    assert_eq!(writer.prepare_revocation(&subject(), 0, None).await.unwrap_err().reason(), "limit");
}

#[tokio::test]
async fn a_dropped_transaction_is_dead_only_past_its_height() {
    let world = World::start().await;
    let (writer, attestation) = (world.writer(), world.attestation(8_312));
    let prepared = writer.prepare(&attestation, None, None).await.unwrap();
    writer.send(&prepared).await.unwrap();
    world.cluster.ledger().pool.clear();
    let until = prepared.valid_until.unwrap();
    let left = until - world.cluster.ledger().height();
    // Final block heights count, not the newest.
    world.cluster.ledger().advance(left + 32);
    assert_eq!(state(&writer, &prepared).await, TransactionState::Unknown);
    let early = writer.prepare(&attestation, None, Some(&prepared)).await.unwrap_err();
    assert_eq!(early, ChainError::NotReplaceable { until });
    let early = writer.prepare_revocation(&subject(), 0, Some(&prepared)).await.unwrap_err();
    assert_eq!(early, ChainError::NotReplaceable { until });
    world.cluster.ledger().advance(1);
    // A node that has not searched so far cannot tell.
    world.cluster.meddle_result("getSignatureStatuses", |mut result| {
        result["context"]["slot"] = json!(2_100);
        result
    });
    assert_eq!(state(&writer, &prepared).await, TransactionState::Unknown);
    world.cluster.be_honest();
    let dead = state(&writer, &prepared).await;
    assert!(matches!(&dead, TransactionState::Dead { why } if why.contains(&until.to_string())), "{dead:?}");

    let second = writer.prepare(&attestation, None, Some(&prepared)).await.unwrap();
    assert_ne!(second.id, prepared.id);
    writer.send(&prepared).await.unwrap();
    land(&world, &writer, &second).await;
    assert_eq!(world.cluster.ledger().landed.len(), 1, "the dead one did not come back");
    assert_eq!(writer.find(&attestation).await, Ok(Some(0)));
}

#[tokio::test]
async fn a_transaction_that_fails_in_its_block_has_cost_its_fee() {
    let world = World::start().await;
    let (writer, attestation) = (world.writer(), world.attestation(8_312));
    let prepared = writer.prepare(&attestation, None, None).await.unwrap();
    writer.send(&prepared).await.unwrap();
    world.cluster.ledger().failure = json!({"InstructionError": [1, {"Custom": 12_300}]});
    world.cluster.ledger().advance(2);
    let TransactionState::Included { succeeded: false, index: None, fee: 5_000, .. } = state(&writer, &prepared).await
    else {
        panic!("not included")
    };
    assert_eq!(writer.find(&attestation).await, Ok(None));
    // The next one is tried first, and refused before it is signed.
    let refused = writer.prepare(&attestation, None, None).await.unwrap_err();
    assert_eq!(refused, ChainError::Reverted { reason: "error 12300".into() });
}

#[tokio::test]
async fn nothing_is_signed_that_cannot_be_paid() {
    let mut world = World::start().await;
    let attestation = world.attestation(8_312);
    let set = |balance: u64| world.cluster.ledger().balances.insert(key().address(), balance);
    for balance in [0, FEE, RESERVE + FEE - 1] {
        set(balance);
        let error = world.writer().prepare(&attestation, None, None).await.unwrap_err();
        let wanted = ChainError::InsufficientFunds { needed: (RESERVE + FEE).into(), balance: balance.into() };
        assert_eq!(error, wanted);
        let quote = world.writer().quote(&attestation).await.unwrap();
        assert_eq!((quote.balance, quote.needed), (balance.into(), (RESERVE + FEE).into()));
    }
    set(RESERVE + FEE);
    world.writer().prepare(&attestation, None, None).await.unwrap();
    world.cluster.ledger().fee = 100_001;
    let above = ChainError::FeeAboveCap { wanted: 100_001, cap: 100_000 };
    assert_eq!(world.writer().prepare(&attestation, None, None).await.unwrap_err(), above);
    assert_eq!(world.writer().quote(&attestation).await.unwrap_err(), above);
    world.fees.max_fee = 200_000;
    assert_eq!(world.writer().quote(&attestation).await.unwrap().max_fee, 100_001);
}

#[tokio::test]
async fn what_the_registry_would_refuse_is_refused_here() {
    let world = World::start().await;
    let (writer, good) = (world.writer(), world.attestation(8_312));
    let too_long = [
        Attestation { tag1: "t".repeat(33), ..good.clone() },
        Attestation { endpoint: "e".repeat(251), ..good.clone() },
        Attestation { uri: "u".repeat(251), ..good.clone() },
        Attestation { decimals: 19, ..good.clone() },
    ];
    for attestation in too_long {
        assert_eq!(writer.prepare(&attestation, None, None).await.unwrap_err().reason(), "limit", "{attestation:?}");
    }
    let longest = Attestation { endpoint: "e".repeat(250), uri: "u".repeat(250), ..good.clone() };
    let prepared = writer.prepare(&longest, None, None).await.unwrap();
    assert!(BASE64.decode(prepared.raw.as_bytes()).unwrap().len() <= 1_232);
    let odd = Attestation { document: "ab".into(), ..good.clone() };
    assert_eq!(writer.prepare(&odd, None, None).await.unwrap_err().reason(), "malformed");
    world.cluster.ledger().failure = json!({"InstructionError": [2, {"Custom": 6003}]});
    let refused = writer.prepare(&good, None, None).await.unwrap_err();
    assert_eq!((refused.reason(), writer.quote(&good).await.unwrap_err()), ("reverted", refused));
    world.cluster.ledger().accounts.clear();
    assert_eq!(writer.prepare(&good, None, None).await.unwrap_err().reason(), "no_such_agent");
}

#[tokio::test]
async fn a_node_that_lies_about_our_transaction_is_not_believed() {
    let world = World::start().await;
    let (writer, attestation) = (world.writer(), world.attestation(8_312));
    let prepared = writer.prepare(&attestation, None, None).await.unwrap();
    world.cluster.meddle_result("sendTransaction", |_| json!("1".repeat(64)));
    assert_eq!(writer.send(&prepared).await.unwrap_err().reason(), "malformed");
    world.cluster.be_honest();
    land(&world, &writer, &prepared).await;
    world.cluster.meddle_result("getTransaction", |mut result| {
        result["transaction"][0] = json!("AAAA");
        result
    });
    assert_eq!(writer.state(&prepared).await.unwrap_err().reason(), "malformed");
    world.cluster.meddle_result("getTransaction", |mut result| {
        result["slot"] = json!(7);
        result
    });
    assert_eq!(writer.state(&prepared).await.unwrap_err(), ChainError::Reorganised);
    // Without its log, a feedback of ours has no index: not "not found", which would pay twice.
    world.cluster.meddle_result("getTransaction", |mut result| {
        result["meta"]["logMessages"] = json!(["Log truncated"]);
        result
    });
    assert_eq!(writer.find(&attestation).await.unwrap_err().reason(), "malformed");
    world.cluster.meddle_result("getTransaction", |_| json!(null));
    assert_eq!(writer.find(&attestation).await.unwrap_err().reason(), "malformed");
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    use std::{fs, os::unix::fs::PermissionsExt};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("attest.key");
    fs::write(&path, "11".repeat(32)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let error = SolanaKey::from_file(&path).unwrap_err();
    assert!(error.reason() == "key" && error.to_string().contains("chmod 600"), "{error}");
    assert!(!error.to_string().contains("1111"), "{error}");
}
