//! What is read of an agent, and which accounts are refused.

use axum::{Json, Router, routing::get};
use credence_chain::{
    ChainError,
    reading::{Note, Reading},
};
use credence_protocol::ExternalSubject;
use serde_json::{Value, json};

use crate::{
    ledger::blockhash,
    world::{ASSET, NOW, OWNER, WALLET, World, address, agent_account, atom_stats, local, subject},
};

async fn read(world: &World) -> Result<Reading, ChainError> {
    let reader = world.reader();
    let head = reader.head(NOW).await?;
    reader.read(&subject(), head, &local).await
}

#[tokio::test]
async fn reputation_and_registration_are_read_at_a_final_slot() {
    let world = World::start().await;
    let reading = read(&world).await.unwrap();
    assert_eq!(reading.root, format!("solana8004:{}", world.chain.caip2()));
    assert_eq!((reading.block, reading.block_hash.as_str()), (1_968, blockhash(1_968).as_str()));
    let [signal] = reading.signals.as_slice() else { panic!("{:?}", reading.signals) };
    assert_eq!((signal.tag.as_str(), signal.value), ("user_feedback", 72.5));
    assert!((signal.stddev - (5.0 + 30.0 * 0.35)).abs() < 1e-12, "{}", signal.stddev);
    let wanted = json!({"quality": 7_250, "confidence": 6_500, "risk": 17, "diversity": 201, "tier": 3, "feedbacks": 41,
        "schema": 1, "block": 1_968, "block_hash": blockhash(1_968), "context_slot": 1_968});
    assert_eq!(Value::Object(signal.numbers.clone()), wanted);
    let registration = reading.registration.unwrap();
    assert_eq!(registration.chain, world.chain.caip2());
    assert_eq!((registration.owner, registration.wallet), (Some(OWNER.to_string()), Some(WALLET.to_string())));
    assert!(reading.notes.contains(&Note::NoUri), "{:?}", reading.notes);
}

#[tokio::test]
async fn confidence_narrows_and_no_rating_is_no_reputation() {
    let world = World::start().await;
    for (quality, confidence, wanted) in [(10_000, 10_000, (100.0, 5.0)), (0, 0, (0.0, 35.0))] {
        let stats = atom_stats(quality, confidence, 1);
        world.cluster.ledger().accounts.insert(address("stats"), (world.chain.atom, stats));
        let signals = read(&world).await.unwrap().signals;
        assert_eq!((signals[0].value, signals[0].stddev), wanted);
    }
    world.cluster.ledger().accounts.insert(address("stats"), (world.chain.atom, atom_stats(0, 0, 0)));
    let unrated = read(&world).await.unwrap();
    assert!(unrated.signals.is_empty() && unrated.notes.contains(&Note::NoStatistics), "{unrated:?}");
    world.cluster.ledger().accounts.remove(&address("stats"));
    let without = read(&world).await.unwrap();
    assert!(without.signals.is_empty() && without.notes.contains(&Note::NoStatistics), "{without:?}");
}

#[tokio::test]
async fn accounts_of_another_kind_give_no_reading() {
    let world = World::start().await;
    let (registry, atom) = (world.chain.registry, world.chain.atom);
    let changed = |mut data: Vec<u8>, at: usize| {
        data[at] ^= 0xff;
        data
    };
    let stats = || atom_stats(7_250, 6_500, 41);
    let cases = [
        ("stats", atom, changed(stats(), 0), "kind"),
        ("stats", atom, stats()[..560].to_vec(), "size"),
        ("stats", atom, [stats(), vec![0]].concat(), "size"),
        ("stats", registry, stats(), "another program"),
        ("stats", atom, changed(stats(), 40), "another agent"),
        ("stats", atom, changed(stats(), 548), "range"),
        ("agent", registry, changed(agent_account(""), 7), "kind"),
        ("agent", registry, agent_account("")[..200].to_vec(), "size"),
        ("agent", atom, agent_account(""), "another program"),
        ("agent", registry, changed(agent_account(""), 8 + 96), "another agent"),
        ("agent", registry, changed(agent_account(""), 8 + 130), "layout"),
        ("agent", registry, agent_account(&"u".repeat(251)), "layout"),
    ];
    for (name, owner, data, says) in cases {
        let before = world.cluster.ledger().accounts.insert(address(name), (owner, data)).unwrap();
        let error = read(&world).await.unwrap_err();
        assert!(error.reason() == "malformed" && error.to_string().contains(says), "{name}: {error} ({says})");
        world.cluster.ledger().accounts.insert(address(name), before);
    }
    read(&world).await.unwrap();
}

#[tokio::test]
async fn nothing_is_read_about_nobody_or_from_another_registry() {
    let world = World::start().await;
    let reader = world.reader();
    let head = reader.head(NOW).await.unwrap();
    let nobody = ExternalSubject::parse(&format!("solana8004:{OWNER}")).unwrap();
    assert_eq!(reader.read(&nobody, head, &local).await, Err(ChainError::NoSuchAgent(OWNER.to_string())));
    let other = ExternalSubject::parse("erc8004:eip155:1:0x8004A169FB4a3325136EB29fA0ceB6D2e539a432/1").unwrap();
    assert_eq!(reader.read(&other, head, &local).await.unwrap_err().reason(), "other_registry");
}

#[tokio::test]
async fn registration_file_and_domain_name_each_other() {
    let world = World::start().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let registry = format!("{}:{}", world.chain.caip2(), world.chain.registry);
    let back = json!([{"agentId": ASSET, "agentRegistry": registry}]);
    let file = json!({
        "type": "https://eips.ethereum.org/EIPS/eip-8004#registration-v1", "name": "Weather",
        "services": [{"name": "MCP", "endpoint": format!("{origin}/mcp")}], "registrations": back,
    });
    let known = json!({"registrations": back});
    let router = Router::new()
        .route("/agent.json", get(|| async { Json(file) }))
        .route("/.well-known/agent-registration.json", get(|| async { Json(known) }));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let account = agent_account(&format!("{origin}/agent.json"));
    world.cluster.ledger().accounts.insert(address("agent"), (world.chain.registry, account));

    let reading = read(&world).await.unwrap();
    let identity = reading.signals.iter().find(|signal| signal.tag.as_str() == "identity_onchain").unwrap();
    assert_eq!(identity.value, 100.0);
    assert_eq!(identity.numbers["block"], 1_968);
    let registration = reading.registration.unwrap();
    assert_eq!(registration.endpoints.iter().collect::<Vec<_>>(), [&origin]);
    assert_eq!(registration.points_to.iter().collect::<Vec<_>>(), [&format!("{registry}/{ASSET}")]);
    assert!(registration.name_digest.is_some());

    let reader = world.reader();
    let head = reader.head(NOW).await.unwrap();
    let unproven = reader.read(&subject(), head, &|_: &str| false).await.unwrap();
    assert!(unproven.notes.contains(&Note::UriHostNotProven), "{:?}", unproven.notes);
    assert!(unproven.signals.iter().all(|signal| signal.tag.as_str() == "user_feedback"));
}
