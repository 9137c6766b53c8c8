//! What somebody else reads of a transaction of ours, and what a node cannot make up.

use axum::http::StatusCode;
use credence_chain::{ChainError, Written, attest::Writer, solana::FINAL_CONFIRMATIONS};
use data_encoding::BASE64;
use serde_json::{Value, json};

use crate::world::{World, key, subject};

async fn written(world: &World, transaction: &str) -> Result<Written, ChainError> {
    Written::by_transaction(&world.rpc(), None, transaction).await
}

/// Writes a score; its transaction.
async fn attest(world: &World, writer: &Writer, value: i64) -> String {
    let prepared = writer.prepare(&world.attestation(value), None, None).await.unwrap();
    writer.send(&prepared).await.unwrap();
    world.cluster.ledger().advance(FINAL_CONFIRMATIONS + 1);
    prepared.id
}

fn why(refused: Result<Written, ChainError>) -> String {
    refused.unwrap_err().to_string()
}

#[tokio::test]
async fn a_feedback_is_read_back_from_its_transaction() {
    let world = World::start().await;
    let writer = world.writer();
    let (first, second) = (attest(&world, &writer, 8_312).await, attest(&world, &writer, 8_400).await);
    let read = written(&world, &second).await.unwrap();
    let attestation = world.attestation(8_400);
    assert_eq!((read.chain.as_str(), &read.subject), (world.chain.caip2(), &subject()));
    assert_eq!((&read.registry, &read.by), (&world.chain.registry.to_string(), &key().address().to_string()));
    assert_eq!((read.index, read.value, read.decimals), (1, 8_400, 2));
    assert_eq!((read.tags, read.uri), (["credence".into(), "uts/2".into()], attestation.uri));
    assert_eq!((read.document, read.revoked), (attestation.document, false));
    let landed = world.cluster.ledger().landed[1].slot;
    let newest = world.cluster.ledger().slot - 1;
    assert_eq!((read.block, read.confirmations), (landed, newest + 1 - landed));
    assert!(read.confirmations >= FINAL_CONFIRMATIONS, "{}", read.confirmations);
    let seal = read.seal.unwrap();
    assert!(seal.logged == seal.computed && seal.logged.len() == 64);

    let revocation = writer.prepare_revocation(&subject(), 1, None).await.unwrap();
    writer.send(&revocation).await.unwrap();
    world.cluster.ledger().advance(2);
    assert!(written(&world, &second).await.unwrap().revoked);
    assert!(!written(&world, &first).await.unwrap().revoked, "only the second was taken back");
    let nothing = why(written(&world, &revocation.id).await);
    assert!(nothing.contains("wrote no feedback to the registry"), "{nothing}");
}

#[tokio::test]
async fn a_node_cannot_make_up_what_somebody_signed() {
    let world = World::start().await;
    let writer = world.writer();
    let (first, second) = (attest(&world, &writer, 8_312).await, attest(&world, &writer, 8_400).await);
    let others = world.cluster.ledger().landed[1].bytes.clone();
    let meddle = |change: fn(&mut Value, &[u8])| {
        let others = others.clone();
        world.cluster.meddle(move |request, mut answer| {
            if request["method"] == "getTransaction" {
                change(&mut answer["result"], &others);
            }
            (StatusCode::OK, answer)
        });
    };
    meddle(|result, others| result["transaction"][0] = json!(BASE64.encode(others)));
    let other = why(written(&world, &first).await);
    assert!(other.contains("another transaction than the one that was asked for"), "{other}");
    // One byte of the content, and the signature as it was.
    meddle(|result, _| {
        let mut bytes = BASE64.decode(result["transaction"][0].as_str().unwrap().as_bytes()).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        result["transaction"][0] = json!(BASE64.encode(&bytes));
    });
    assert!(why(written(&world, &first).await).contains("another transaction"));
    meddle(|result, _| result["meta"]["logMessages"] = json!([]));
    assert!(why(written(&world, &first).await).contains("without the registry's log"));
    meddle(|result, _| result["meta"]["err"] = json!({"InstructionError": [0, {"Custom": 1}]}));
    assert!(why(written(&world, &first).await).contains("it wrote nothing"));
    // Another seal in the log is shown as what it is.
    meddle(|result, _| {
        let line = result["meta"]["logMessages"][0].as_str().unwrap().trim_start_matches("Program data: ");
        let mut event = BASE64.decode(line.as_bytes()).unwrap();
        *event.last_mut().unwrap() ^= 1;
        result["meta"]["logMessages"][0] = json!(format!("Program data: {}", BASE64.encode(&event)));
    });
    let seal = written(&world, &second).await.unwrap().seal.unwrap();
    assert_ne!(seal.logged, seal.computed);
    // Another cluster is another chain: the document will not be about it.
    world.cluster.meddle_result("getGenesisHash", |_| json!("5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d"));
    let elsewhere = why(written(&world, &first).await);
    assert!(
        elsewhere.contains("8oo4dC4JvBLwy5tGgiH3WwK4B9PWxL9Z4XjA2jzkQMbQ"),
        "its registry was not called: {elsewhere}"
    );
}

#[tokio::test]
async fn what_names_no_transaction_is_refused() {
    let world = World::start().await;
    let first = attest(&world, &world.writer(), 8_312).await;
    let nobodys = bs58::encode([7; 64]).into_string();
    assert!(why(written(&world, &nobodys).await).contains("has no such transaction"));
    for odd in ["", "mainnet", &first[4..], "0O", &first.replace(&first[..1], "0")] {
        let refused = why(written(&world, odd).await);
        assert!(refused.contains("a transaction is named by"), "{odd}: {refused}");
    }
    let registry = Some("AToMufS4QD6hEXvcvBDg9m1AHeCLpmZQsyfYa5h9MwAF");
    let other = why(Written::by_transaction(&world.rpc(), registry, &first).await);
    assert!(other.contains("wrote no feedback to the registry AToMufS4QD6h"), "{other}");
}
