//! Nodes that lie, refuse or limit, and agents that do not exist.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::http::StatusCode;
use credence_chain::{ChainError, evm::LogBook};
use serde_json::{Value, json};

use crate::world::{Meddler, World, local, now};

fn is_block(request: &Value, tag: &str) -> bool {
    request["method"] == "eth_getBlockByNumber" && request["params"][0] == tag
}

fn refuse(request: &Value, code: i64, message: &str) -> (StatusCode, Value) {
    let error = json!({"code": code, "message": message});
    (StatusCode::OK, json!({"jsonrpc": "2.0", "id": request["id"], "error": error}))
}

fn number(text: &Value) -> u64 {
    u64::from_str_radix(text.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

#[tokio::test]
async fn nothing_is_read_from_another_chain_or_about_nobody() {
    let Some(mut world) = World::start() else { return };
    world.register(0, "");
    world.settle();
    let reader = world.reader();
    let head = reader.head(now()).await.unwrap();
    let nobody = reader.read(&world.subject(77), head, None, &local).await.unwrap_err();
    assert_eq!(nobody.reason(), "no_such_agent");
    world.chain.id = 8453;
    let wrong = world.reader().head(now()).await.unwrap_err();
    let wanted = ChainError::WrongChain { configured: "eip155:8453".into(), answered: "eip155:31337".into() };
    assert_eq!(wrong, wanted);
    let other = world.reader().read(&world.subject(0), head, None, &local).await.unwrap_err();
    assert_eq!(other.reason(), "other_registry");
    assert_eq!(world.reader_at("https://10.1.2.3/").head(now()).await.unwrap_err().reason(), "transport");
}

#[tokio::test]
async fn a_node_that_lies_about_the_head_gives_no_reading() {
    let Some(world) = World::start() else { return };
    world.register(0, "");
    world.rate(1, 0, 80, 0, "starred", "");
    world.settle();
    // The block is another one when it is looked at again.
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let node = Meddler::start(&world.anvil, move |request, mut answer| {
        let by_number =
            request["method"] == "eth_getBlockByNumber" && request["params"][0].as_str().unwrap().starts_with("0x");
        if by_number {
            counted.fetch_add(1, Ordering::SeqCst);
            answer["result"]["hash"] = json!(format!("0x{}", "ab".repeat(32)));
        }
        (StatusCode::OK, answer)
    })
    .await;
    let reader = world.reader_at(&node.url);
    let head = reader.head(now()).await.unwrap();
    assert_eq!(reader.read(&world.subject(0), head, None, &local).await.unwrap_err(), ChainError::Reorganised);
    assert_eq!(reader.read_logs(&mut LogBook::new(), head).await.unwrap_err(), ChainError::Reorganised);
    assert!(asked.load(Ordering::SeqCst) >= 2);

    // A final block from the future, a block that the chain does not have, a head that stands still.
    let node = Meddler::start(&world.anvil, |request, mut answer| {
        if is_block(request, "finalized") {
            answer["result"]["number"] = json!("0xffffff");
        }
        (StatusCode::OK, answer)
    })
    .await;
    assert_eq!(world.reader_at(&node.url).head(now()).await.unwrap_err().reason(), "malformed");
    let node = Meddler::start(&world.anvil, |request, mut answer| {
        if is_block(request, "finalized") {
            answer["result"]["hash"] = json!(format!("0x{}", "cd".repeat(32)));
        }
        (StatusCode::OK, answer)
    })
    .await;
    assert!(world.reader_at(&node.url).head(now()).await.is_err(), "no state at a block that is none");
    assert_eq!(world.reader().head(now() + 7_200).await.unwrap_err().reason(), "stale_head");
}

#[tokio::test]
async fn answers_of_another_shape_are_refused() {
    let Some(world) = World::start() else { return };
    world.register(0, "");
    world.rate(1, 0, 80, 0, "starred", "");
    world.settle();
    let head = world.reader().head(now()).await.unwrap();
    for wrong in
        [json!("0x"), json!("0x00"), json!(7), json!({"a": 1}), json!(format!("0x{}", "ff".repeat(64))), Value::Null]
    {
        let node = Meddler::start(&world.anvil, move |request, mut answer| {
            if request["method"] == "eth_call" {
                answer["result"] = wrong.clone();
            }
            (StatusCode::OK, answer)
        })
        .await;
        let error = world.reader_at(&node.url).read(&world.subject(0), head, None, &local).await.unwrap_err();
        assert_eq!(error.reason(), "malformed", "{error}");
    }
    let node = Meddler::start(&world.anvil, |_, mut answer| {
        answer["id"] = json!(424_242);
        (StatusCode::OK, answer)
    })
    .await;
    assert_eq!(world.reader_at(&node.url).head(now()).await.unwrap_err().reason(), "malformed");
    let node = Meddler::start(&world.anvil, |_, _| (StatusCode::BAD_GATEWAY, json!("<html>"))).await;
    assert_eq!(world.reader_at(&node.url).head(now()).await.unwrap_err().reason(), "transport");
}

#[tokio::test]
async fn a_node_that_limits_is_left_alone() {
    let Some(world) = World::start() else { return };
    world.settle();
    let node = Meddler::start(&world.anvil, |_, _| (StatusCode::TOO_MANY_REQUESTS, json!({}))).await;
    let reader = world.reader_at(&node.url);
    let wanted = ChainError::RateLimited { retry_after: Some(Duration::from_secs(7)) };
    assert_eq!(reader.head(now()).await.unwrap_err(), wanted);
    let again = reader.head(now()).await.unwrap_err();
    assert!(matches!(again, ChainError::RateLimited { retry_after: Some(left) } if left.as_secs() >= 5), "{again:?}");
    assert_eq!(node.requests.load(Ordering::SeqCst), 1, "the pause is kept");
    let node = Meddler::start(&world.anvil, |request, _| refuse(request, -32_005, "rate limit exceeded")).await;
    assert_eq!(world.reader_at(&node.url).head(now()).await.unwrap_err().reason(), "rate_limited");
}

#[tokio::test]
async fn ranges_of_logs_are_halved_until_they_are_answered() {
    let Some(mut world) = World::start() else { return };
    world.register(0, "");
    for client in 1..6 {
        world.rate(client, 0, 80, 0, "starred", "");
        world.anvil.mine(7);
    }
    world.settle();
    world.chain.log_range = 1_000;
    let head = world.reader().head(now()).await.unwrap();
    let mut whole = LogBook::new();
    world.reader().read_logs(&mut whole, head).await.unwrap();

    let refused = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&refused);
    let node = Meddler::start(&world.anvil, move |request, answer| {
        let filter = &request["params"][0];
        if request["method"] == "eth_getLogs" && number(&filter["toBlock"]) - number(&filter["fromBlock"]) >= 5 {
            counted.fetch_add(1, Ordering::SeqCst);
            return refuse(request, -32_000, "block range too large");
        }
        (StatusCode::OK, answer)
    })
    .await;
    let reader = world.reader_at(&node.url);
    let mut book = LogBook::new();
    reader.read_logs(&mut book, head).await.unwrap();
    assert!((3..12).contains(&refused.load(Ordering::SeqCst)), "{refused:?}");
    let (plain, subject) = (world.reader(), world.subject(0));
    let in_parts = plain.read(&subject, head, Some(&book), &local).await.unwrap();
    assert_eq!(in_parts, plain.read(&subject, head, Some(&whole), &local).await.unwrap());
    assert_eq!(book.read_to(), Some(head));

    let node = Meddler::start(&world.anvil, |request, answer| {
        if request["method"] == "eth_getLogs" {
            refuse(request, -32_601, "no logs here")
        } else {
            (StatusCode::OK, answer)
        }
    })
    .await;
    let none = world.reader_at(&node.url).read_logs(&mut LogBook::new(), head).await.unwrap_err();
    assert_eq!(none, ChainError::RangeRefused);
}

#[tokio::test]
async fn a_call_that_is_too_large_is_made_smaller() {
    let Some(world) = World::start() else { return };
    world.register(0, "");
    for client in 1..20 {
        world.rate(client, 0, 80, 0, "starred", "");
    }
    for _ in 0..40 {
        world.rate(20, 0, 10, 0, "starred", "");
    }
    world.rate(20, 0, 30, 0, "starred", "");
    world.settle();
    let reader = world.reader();
    let head = reader.head(now()).await.unwrap();
    let whole = reader.read(&world.subject(0), head, None, &local).await.unwrap();
    // Runs out of gas where more than eight rows would be returned.
    let node = Meddler::start(&world.anvil, |request, answer| {
        let data = request["params"][0]["data"].as_str().unwrap_or_default();
        let long = answer["result"].as_str().is_some_and(|result| result.len() > 2 * 32 * 90);
        if request["method"] == "eth_call" && data.starts_with("0xd9d84224") && long {
            return refuse(request, -32_000, "out of gas");
        }
        (StatusCode::OK, answer)
    })
    .await;
    let parts = world.reader_at(&node.url).read(&world.subject(0), head, None, &local).await.unwrap();
    let value = |reading: &credence_chain::reading::Reading| (reading.signals[0].value, reading.signals[0].stddev);
    assert_eq!(value(&parts), value(&whole));
    assert!(parts.notes.contains(&credence_chain::reading::Note::Flood), "{:?}", parts.notes);
    assert!(value(&whole).0 < 80.0);
}

#[tokio::test]
async fn logs_are_read_again_after_a_reorganisation() {
    let Some(mut world) = World::start() else { return };
    world.register(0, "");
    world.rate(1, 0, 80, 0, "starred", "");
    world.settle();
    world.chain.log_range = 2;
    let reader = world.reader();
    let before = reader.head(now()).await.unwrap();
    let snapshot = world.anvil.ask("evm_snapshot", json!([]));
    world.rate(2, 0, 80, 0, "starred", "");
    world.settle();
    let mut book = LogBook::new();
    reader.read_logs(&mut book, reader.head(now()).await.unwrap()).await.unwrap();
    // Another history from there on, in which client 3 rated.
    world.anvil.ask("evm_revert", json!([snapshot]));
    world.rate(3, 0, 80, 0, "starred", "");
    world.settle();
    world.settle();
    let head = reader.head(now()).await.unwrap();
    assert!(head.number > before.number);
    reader.read_logs(&mut book, head).await.unwrap();
    let mut fresh = LogBook::new();
    reader.read_logs(&mut fresh, head).await.unwrap();
    let known = |book: &LogBook| serde_json::to_value(book).unwrap()["agents"].clone();
    assert_eq!(known(&book), known(&fresh));
    assert!(known(&book).to_string().contains(&world.account(3).to_lowercase()));
    assert!(!known(&book).to_string().contains(&world.account(2).to_lowercase()));
}
