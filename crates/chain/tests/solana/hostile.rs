//! Nodes that lie, limit, or serve another cluster.

use std::time::Duration;

use axum::http::StatusCode;
use credence_chain::ChainError;
use serde_json::{Value, json};

use crate::world::{ASSET, NOW, World, local, rpc, subject};

const OTHER_GENESIS: &str = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d";

#[tokio::test]
async fn another_cluster_is_refused_before_anything_is_signed() {
    let world = World::start().await;
    world.cluster.ledger().genesis = OTHER_GENESIS.into();
    let wanted = ChainError::WrongChain {
        configured: world.chain.caip2().to_owned(),
        answered: format!("solana:{}", &OTHER_GENESIS[..32]),
    };
    assert_eq!(world.reader().head(NOW).await.unwrap_err(), wanted);
    let (writer, attestation) = (world.writer(), world.attestation(8_312));
    assert_eq!(writer.check_chain().await.unwrap_err(), wanted);
    assert_eq!(writer.quote(&attestation).await.unwrap_err(), wanted);
    assert_eq!(writer.prepare(&attestation, None, None).await.unwrap_err(), wanted);
    assert_eq!(writer.prepare_revocation(&subject(), 0, None).await.unwrap_err(), wanted);
    assert_eq!(writer.find(&attestation).await.unwrap_err(), wanted);
    assert_eq!(world.cluster.requests(), 6, "nothing but the genesis was asked for");
}

#[tokio::test]
async fn a_node_that_limits_is_left_alone() {
    let world = World::start().await;
    world.cluster.meddle(|_, _| (StatusCode::TOO_MANY_REQUESTS, json!({})));
    let reader = world.reader();
    let wanted = ChainError::RateLimited { retry_after: Some(Duration::from_secs(7)) };
    assert_eq!(reader.head(NOW).await.unwrap_err(), wanted);
    assert_eq!(reader.head(NOW).await.unwrap_err().reason(), "rate_limited");
    assert_eq!(world.cluster.requests(), 1, "the pause is kept");

    let world = World::start().await;
    world.cluster.meddle(|request, _| {
        let error = json!({"code": -32_005, "message": "Too many requests for a specific RPC call"});
        (StatusCode::OK, json!({"jsonrpc": "2.0", "id": request["id"], "error": error}))
    });
    assert_eq!(world.reader().head(NOW).await.unwrap_err().reason(), "rate_limited");
}

#[tokio::test]
async fn a_node_that_is_behind_gives_no_reading() {
    let world = World::start().await;
    assert_eq!(world.reader().head(NOW + 10_000).await.unwrap_err().reason(), "stale_head");
    let reader = world.reader();
    let head = reader.head(NOW).await.unwrap();
    world.cluster.meddle_result("getMultipleAccounts", |mut result| {
        result["context"]["slot"] = json!(1_967);
        result
    });
    assert_eq!(reader.read(&subject(), head, &local).await.unwrap_err(), ChainError::Reorganised);
    let refuse = |code: i64, message: &'static str| {
        world.cluster.meddle(move |request, _| {
            let error = json!({"code": code, "message": message});
            (StatusCode::OK, json!({"jsonrpc": "2.0", "id": request["id"], "error": error}))
        });
    };
    refuse(-32_016, "Minimum context slot has not been reached");
    assert_eq!(reader.read(&subject(), head, &local).await.unwrap_err(), ChainError::Reorganised);
    refuse(-32_005, "Node is behind by 42 slots");
    assert_eq!(reader.read(&subject(), head, &local).await.unwrap_err().reason(), "transport");
    world.cluster.be_honest();
    reader.read(&subject(), head, &local).await.unwrap();
}

#[tokio::test]
async fn answers_of_another_shape_are_refused() {
    let world = World::start().await;
    let reader = world.reader();
    let head = reader.head(NOW).await.unwrap();
    let account = |data: Value| json!({"context": {"slot": 1_968}, "value": [{"owner": ASSET, "data": data}, null]});
    let wrong = [
        Value::Null,
        json!([]),
        json!({"context": {"slot": 1_968}, "value": []}),
        json!({"context": {"slot": 1_968}, "value": [null, null, null]}),
        json!({"context": {}, "value": [null, null]}),
        account(json!(["AAAA", "base58"])),
        account(json!(["***", "base64"])),
        account(json!("AAAA")),
    ];
    for result in wrong {
        let shown = result.to_string();
        world.cluster.meddle_result("getMultipleAccounts", move |_| result.clone());
        let error = reader.read(&subject(), head, &local).await.unwrap_err();
        assert_eq!(error.reason(), "malformed", "{shown}: {error}");
    }
    for genesis in [json!(7), json!("not base58"), json!("1111")] {
        world.cluster.meddle_result("getGenesisHash", move |_| genesis.clone());
        assert_eq!(reader.head(NOW).await.unwrap_err().reason(), "malformed");
    }
    world.cluster.meddle(|_, mut answer| {
        answer["id"] = json!(424_242);
        (StatusCode::OK, answer)
    });
    assert_eq!(reader.head(NOW).await.unwrap_err().reason(), "malformed");
    world.cluster.meddle(|_, _| (StatusCode::BAD_GATEWAY, json!("<html>")));
    assert_eq!(reader.head(NOW).await.unwrap_err().reason(), "transport");
    let padding = "x".repeat(17 * 1024 * 1024);
    world.cluster.meddle(move |_, _| (StatusCode::OK, json!(padding)));
    assert_eq!(reader.head(NOW).await.unwrap_err().reason(), "transport", "larger than an answer may be");
    assert_eq!(
        credence_chain::solana::SolanaReader::new(rpc("https://10.1.2.3/"), world.chain)
            .head(NOW)
            .await
            .unwrap_err()
            .reason(),
        "transport"
    );
}
