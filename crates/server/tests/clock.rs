//! A clock that jumps back: answers are made for the time it is, what is recorded stays in order, nothing fails.
#![allow(clippy::unwrap_used, missing_docs, reason = "a failing unwrap is how a test says no")]

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use credence_ledger::{Clock, LogKey, OutsideCheckpoint, SqliteLedger, sqlite::Options};
use credence_pipeline::{Authority, NewAgent, NewSource, TABLES};
use credence_protocol::{AUTHORITY_SOURCE, Alias, EntityId, SecretKey, Timestamp};
use credence_server::{
    App, Setup,
    settings::Settings,
    tokens::{MemoryTokens, NewToken, Scope, TokenStore},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

fn id(text: &str) -> EntityId {
    EntityId::new(text).unwrap()
}

fn authority(folder: &Path, log: LogKey, key: &SecretKey, clock: &Clock) -> Authority {
    let outside = OutsideCheckpoint::at(folder.join("checkpoint"));
    let options = Options { path: folder.join("ledger.db"), tables: TABLES, outside, sealing: Default::default() };
    let ledger = SqliteLedger::create(options, log, Arc::clone(clock)).unwrap();
    let authority =
        Authority::open(Arc::new(ledger), &credence_pipeline::Settings::default(), Arc::clone(clock)).unwrap();
    authority.add_source(NewSource::new(id(AUTHORITY_SOURCE), 1.0)).unwrap();
    authority.add_key(&key.public(), id(AUTHORITY_SOURCE)).unwrap();
    let aliases = vec![Alias::parse("https://shop.example").unwrap()];
    authority.add_agent(NewAgent { aliases, ..NewAgent::new(id("shop")) }).unwrap();
    authority
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_jumps_back() {
    let folder = tempfile::tempdir().unwrap();
    let noon: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
    let micros = Arc::new(AtomicI64::new(noon.micros()));
    let shared = Arc::clone(&micros);
    let clock: Clock = Arc::new(move || Timestamp::from_micros(shared.load(Ordering::Relaxed)).unwrap());
    let (key, log) =
        (SecretKey::from_seed(&[1; 32]), LogKey::new("test/log", &SecretKey::from_seed(&[2; 32])).unwrap());
    let verifier = log.verifier().clone();
    let new = NewToken { name: id("ops"), scopes: vec![Scope::Admin], expires_at: Some(noon.plus_seconds(60)) };
    let tokens = Arc::new(MemoryTokens::default());
    let (_, token) = tokens.create(new, noon).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let app = App::new(Setup {
        authority: authority(folder.path(), log, &key, &clock),
        log: verifier,
        key,
        tokens,
        folder: folder.path().to_owned(),
        clock,
        settings: Settings::default(),
        local_url: url.clone(),
        receipts: None,
        demo: None,
        steady: None,
    })
    .unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let served = tokio::spawn(credence_server::serve(app, listener, async move { drop(stopped.await) }));
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let get = async |path: String| {
        let response = client.get(format!("{url}{path}")).send().await.unwrap();
        (
            response.status().as_u16(),
            serde_json::from_slice::<Value>(&response.bytes().await.unwrap()).unwrap_or_default(),
        )
    };
    let report = async || {
        let request = client.post(format!("{url}/v1/outcomes")).header("content-type", "application/json");
        let body = json!({ "agent": "shop", "good": true }).to_string();
        let response = request.header("authorization", format!("Bearer {token}")).body(body).send().await.unwrap();
        (response.status().as_u16(), serde_json::from_slice::<Value>(&response.bytes().await.unwrap()).unwrap())
    };
    let ask = "/v1/entities/shop/trust-signals?url=https://shop.example/".to_owned();
    let (status, first) = get(ask.clone()).await;
    assert_eq!((status, &first["meta"]["expires"]), (200, &json!("2026-11-16T12:10:00.000000Z")));
    let (status, before) = report().await;
    assert_eq!(status, 201, "{before}");

    micros.store(noon.plus_seconds(-7200).micros(), Ordering::Relaxed);
    let (status, back) = get(ask.clone()).await;
    assert_eq!(
        (status, &back["meta"]["timestamp"]),
        (200, &json!("2026-11-16T10:00:00.000000Z")),
        "not one from the future"
    );
    let (status, after) = report().await;
    assert_eq!(status, 201, "{after}");
    let recorded =
        async |seq: &Value| get(format!("/v1/log/entries/{seq}")).await.1["recorded_at"].as_str().unwrap().to_owned();
    assert!(recorded(&after["seq"]).await >= recorded(&before["seq"]).await, "what is recorded stays in order");
    assert_eq!(get("/readyz".into()).await.0, 200);
    let told = client.get(format!("{url}/readyz")).send().await.unwrap().text().await.unwrap();
    assert!(told.starts_with("ready, but the newest entry") && told.contains("accept-clock"), "{told}");
    let metrics = client.get(format!("{url}/metrics")).send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("credence_clock_trouble 1"), "{metrics}");

    // Forward again, past the token's end and the answer's.
    micros.store(noon.plus_seconds(7200).micros(), Ordering::Relaxed);
    assert_eq!(client.get(format!("{url}/readyz")).send().await.unwrap().text().await.unwrap(), "ready\n");
    assert_eq!(report().await.0, 401);
    let (_, later) = get(ask).await;
    assert_eq!(later["meta"]["timestamp"], "2026-11-16T14:00:00.000000Z");
    stop.send(()).unwrap();
    served.await.unwrap().unwrap();
}
