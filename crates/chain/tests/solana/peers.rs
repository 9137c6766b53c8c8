//! The same input through the registry's own client (npm `8004-solana`) and web3.js: equal bytes, equal reading.

use std::{
    fs,
    io::Write,
    process::{Command, Stdio},
};

use alloy_primitives::hex;
use credence_chain::{attest::Attestation, solana::Pubkey};
use credence_protocol::ExternalSubject;
use credence_testing::{installed, project_root};
use data_encoding::BASE64;
use serde_json::{Value, json};

use crate::world::{ASSET, COLLECTION, NOW, World, address, addresses, agent_account, atom_stats, key, local, subject};

/// Asks the peer, in one process; `None`, visibly, where it is not installed.
async fn ask(requests: Vec<(&'static str, Value)>) -> Option<Vec<Value>> {
    let folder = installed("solana")?;
    let script = project_root().join("crates/testing/peers/solana/registry.mjs").canonicalize().unwrap();
    let (count, requests) = (requests.len(), json!(requests).to_string());
    let run = move || {
        let mut node = Command::new("node");
        node.arg(script).current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = node.spawn().unwrap();
        child.stdin.take().unwrap().write_all(requests.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{requests}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let answers: Vec<Value> = tokio::task::spawn_blocking(run).await.unwrap();
    assert_eq!(answers.len(), count);
    Some(answers)
}

fn asked(world: &World, more: Value) -> Value {
    let mut all = json!({"url": world.cluster.url, "registry": world.chain.registry, "atom": world.chain.atom,
        "asset": ASSET, "signer": key().address()});
    all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    all
}

fn key_of(text: &Value) -> Pubkey {
    text.as_str().unwrap().parse().unwrap()
}

fn message(raw: &str) -> String {
    hex::encode(&BASE64.decode(raw.as_bytes()).unwrap()[65..])
}

#[tokio::test]
async fn our_transaction_is_the_one_that_the_registrys_client_builds() {
    let mut world = World::start().await;
    let plain = world.attestation(8_312);
    let mut cases = vec![
        plain.clone(),
        Attestation { value: -1, decimals: 18, endpoint: String::new(), ..plain.clone() },
        Attestation { value: i64::MIN, decimals: 0, tag1: "Größe".into(), tag2: "天気".into(), ..plain.clone() },
        Attestation { value: i64::MAX, endpoint: "e".repeat(250), uri: "u".repeat(250), ..plain.clone() },
    ];
    // The order of the accounts depends on the agent.
    for known in addresses() {
        let (asset, agent) = (key_of(&known["asset"]), key_of(&known["agent"][0]));
        let mut account = agent_account("");
        account[104..136].copy_from_slice(&asset.0);
        world.cluster.ledger().accounts.insert(agent, (world.chain.registry, account));
        let subject = ExternalSubject::parse(&format!("solana8004:{asset}")).unwrap();
        cases.push(Attestation { subject, ..plain.clone() });
    }
    let (mut ours, mut requests) = (Vec::new(), Vec::new());
    for attestation in cases {
        let given = json!({"asset": attestation.subject.id(), "value": attestation.value.to_string(), "decimals": attestation.decimals,
            "tag1": attestation.tag1, "tag2": attestation.tag2, "endpoint": attestation.endpoint,
            "uri": attestation.uri, "document": attestation.document});
        requests.push(("give", asked(&world, given)));
        ours.push(world.writer().prepare(&attestation, None, None).await.unwrap());
    }
    requests.push(("decode", json!({"raw": ours[0].raw})));
    // With a price for compute units, which the client does not set.
    world.fees.unit_price = 7;
    let priced = world.writer().prepare(&plain, None, None).await.unwrap();
    requests.push(("decode", json!({"raw": priced.raw})));
    let Some(mut answers) = ask(requests).await else { return };
    let (priced, seen) = (answers.pop().unwrap(), answers.pop().unwrap());

    assert_eq!(answers.len(), ours.len());
    for (theirs, ours) in answers.iter().zip(&ours) {
        assert_eq!(json!(message(&ours.raw)), theirs["message"]);
        assert_eq!(theirs["index"], "3", "the client counts from the account");
    }

    // What web3.js sees in ours.
    assert_eq!((&seen["verified"], &seen["signatures"]), (&json!(true), &json!(1)));
    assert_eq!(seen["payer"], json!(key().address()));
    let [budget, call] = seen["instructions"].as_array().unwrap().as_slice() else { panic!("{seen}") };
    assert_eq!(budget["data"], format!("02{}", hex::encode(400_000_u32.to_le_bytes())));
    assert_eq!(call["program"], json!(world.chain.registry));
    let accounts: Vec<&Value> = call["accounts"].as_array().unwrap().iter().map(|account| &account[0]).collect();
    let wanted = [json!(key().address()), json!(address("agent")), json!(ASSET), json!(COLLECTION)];
    assert_eq!(accounts[..4], wanted.iter().collect::<Vec<_>>());
    assert!(call["data"].as_str().unwrap().starts_with("91887b03d7a56229"), "{call}");
    assert_eq!(priced["verified"], true);
    assert_eq!(priced["instructions"][1]["data"], "030700000000000000");
    assert_eq!(priced["instructions"][2], *call);
}

#[tokio::test]
async fn our_revocation_is_the_one_that_the_registrys_client_builds() {
    let world = World::start().await;
    let writer = world.writer();
    let prepared = writer.prepare(&world.attestation(8_312), None, None).await.unwrap();
    writer.send(&prepared).await.unwrap();
    world.cluster.ledger().advance(40);
    let ours = writer.prepare_revocation(&subject(), 0, None).await.unwrap();
    let seal = message(&ours.raw)[message(&ours.raw).len() - 64..].to_owned();
    let request = asked(&world, json!({"index": "0", "seal": seal}));
    let Some(theirs) = ask(vec![("revoke", request)]).await else { return };
    assert_eq!(json!(message(&ours.raw)), theirs[0]["message"]);
}

#[tokio::test]
async fn accounts_are_read_like_the_registrys_client_reads_them() {
    let world = World::start().await;
    let uri = "ipfs://bafyone";
    let (agent, stats) = (agent_account(uri), atom_stats(9_876, 1_234, 4_294_967_297));
    world.cluster.ledger().accounts.insert(address("agent"), (world.chain.registry, agent.clone()));
    world.cluster.ledger().accounts.insert(address("stats"), (world.chain.atom, stats.clone()));
    let request = json!({"agent": hex::encode(agent), "stats": hex::encode(stats)});
    let Some(answers) = ask(vec![("accounts", request), ("vectors", json!({}))]).await else { return };
    let theirs = &answers[0];
    let reader = world.reader();
    let reading = reader.read(&subject(), reader.head(NOW).await.unwrap(), &local).await.unwrap();
    let numbers = &reading.signals[0].numbers;
    for name in ["feedbacks", "quality", "risk", "diversity", "tier", "confidence", "schema"] {
        assert_eq!(numbers[name], theirs[name], "{name}");
    }
    let registration = reading.registration.unwrap();
    assert_eq!(json!(registration.owner), theirs["owner"]);
    assert_eq!(json!(registration.wallet), theirs["wallet"]);
    assert_eq!(theirs["uri"], uri);
    let vectors: Value = serde_json::from_slice(&fs::read("testdata/solana.json").unwrap()).unwrap();
    assert_eq!(answers[1], vectors, "write the vectors anew: node registry.mjs vectors");
}
