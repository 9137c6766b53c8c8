//! What is read, down to the exact number.

use std::{collections::BTreeMap, process::Command};

use alloy_primitives::{Address, B256, U256, address, keccak256};
use credence_chain::{
    evm::{EvmChain, LogBook},
    reading::{Measured, Note, Reading},
};
use credence_testing::{Anvil, project_root};
use serde_json::{Value, json};

use crate::world::{World, local, now, payCall, seedCall, setAgentURICall, transferFromCall};

pub fn signal<'a>(reading: &'a Reading, tag: &str) -> &'a Measured {
    let found = reading.signals.iter().find(|signal| signal.tag.as_str() == tag);
    found.unwrap_or_else(|| panic!("no {tag} in {reading:?}"))
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

/// The formula of the ingest sheet for voices of equal payment, written down a second time.
fn expected(voices: &[(f64, usize)]) -> (f64, f64, f64) {
    let weight = |others: usize| (0.5 + 0.5 * (1.0 + others as f64).ln() / 9f64.ln()).min(1.0) / 4.0;
    let total: f64 = voices.iter().map(|(_, others)| weight(*others)).sum();
    let mean = voices.iter().map(|(value, others)| weight(*others) * value).sum::<f64>() / total;
    let spread = voices.iter().map(|(value, others)| weight(*others) * (value - mean).powi(2)).sum::<f64>() / total;
    let effective = total.powi(2) / voices.iter().map(|(_, others)| weight(*others).powi(2)).sum::<f64>();
    (mean, (spread / effective + 625.0 / (effective + 1.0)).sqrt(), effective)
}

fn by_ethers(world: &World, agent: u64, block_hash: &str) -> Value {
    let peers = Anvil::installed().unwrap();
    let script = std::fs::canonicalize(project_root().join("crates/testing/peers/evm/read.mjs")).unwrap();
    let ran = Command::new("node")
        .arg(script)
        .arg(peers)
        .args([world.anvil.url(), &world.chain.identity.to_string(), &world.chain.reputation.to_string()])
        .args([&agent.to_string(), block_hash])
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).unwrap()
}

#[tokio::test]
async fn fifty_clients_are_read_to_the_exact_number() {
    let Some(world) = World::start() else { return };
    for agent in 0..4 {
        world.register(0, &format!("data:application/json,{agent}"));
    }
    // Forty-nine clients with one rating each, in different decimals; every seventh takes it back.
    let mut voices: BTreeMap<usize, (f64, usize)> = BTreeMap::new();
    for client in 1..50 {
        let value = (client as i128 * 37) % 101;
        let decimals = (client % 19) as u8;
        world.rate(client, 1, value * 10_i128.pow(decimals.into()), decimals, "starred", "");
        if client % 7 == 0 {
            world.revoke(client, 1, 1);
        } else {
            voices.insert(client, (value as f64, 0));
        }
        // Every fifth rated another agent too, every tenth two.
        for other in 0..client % 5 / 4 + client % 10 / 9 {
            world.rate(client, 2 + other as u64, 50, 0, "starred", "");
            voices.entry(client).and_modify(|(_, others)| *others += 1);
        }
    }
    // One floods, and means the last: 12.5.
    for n in 0..200 {
        world.rate(50, 1, if n == 199 { 125 } else { 1_000 }, 1, "starred", "");
    }
    voices.insert(50, (12.5, 0));
    // A newer rating replaces an older one; a value off the scale does not.
    world.rate(1, 1, 99, 0, "starred", "");
    voices.get_mut(&1).unwrap().0 = 99.0;
    for extreme in [10_i128.pow(38), -10_i128.pow(38), 101, -1] {
        world.rate(2, 1, extreme, 0, "starred", "");
    }
    world.rate(3, 1, 100 * 10_i128.pow(18) + 1, 18, "starred", "");
    // Other tags, our own tag.
    world.rate(4, 1, 9_977, 2, "uptime", "day");
    world.rate(5, 1, 885, 1, "successRate", "");
    world.rate(6, 1, 1, 0, "persona", "");
    world.rate(51, 1, 0, 0, "credence", "uts/2");
    world.rate(52, 1, 0, 0, "starred", "credence");
    world.settle();

    let reader = world.reader();
    let head = reader.head(now()).await.unwrap();
    let mut book = LogBook::new();
    reader.read_logs(&mut book, head).await.unwrap();
    let reading = reader.read(&world.subject(1), head, Some(&book), &local).await.unwrap();
    assert_eq!(reading.root, "erc8004:eip155:31337");
    assert_eq!((reading.block, reading.block_hash.clone()), (head.number, head.hash.to_string()));
    let all: Vec<(f64, usize)> = voices.values().copied().collect();
    assert_eq!(all.len(), 43, "49 without seven, and the flood");
    let (mean, stddev, effective) = expected(&all);
    let feedback = signal(&reading, "user_feedback");
    assert!(close(feedback.value, mean) && close(feedback.stddev, stddev), "{feedback:?}, not {mean} ± {stddev}");
    assert!(close(feedback.numbers["effective"].as_f64().unwrap(), effective));
    assert_eq!((&feedback.numbers["voices"], &feedback.numbers["off_scale"]), (&json!(43), &json!(5)));
    assert_eq!(feedback.numbers["block_hash"], json!(head.hash));
    assert_eq!(signal(&reading, "rel_uptime").value, 99.77);
    assert_eq!(signal(&reading, "rel_error_rate").value, 88.5);
    assert!(close(signal(&reading, "rel_uptime").stddev, 25.0 / 2f64.sqrt()));
    assert_eq!(signal(&reading, "identity_key_continuity").value, 100.0);
    let registration = reading.registration.as_ref().unwrap();
    assert_eq!(registration.owner.as_deref(), Some(world.account(0).to_lowercase().as_str()));

    let ethers = by_ethers(&world, 1, &head.hash.to_string());
    assert_eq!(ethers["owner"].as_str(), registration.owner.as_deref());
    assert_eq!(ethers["wallet"].as_str(), registration.wallet.as_deref());
    assert_eq!(feedback.numbers["clients"], ethers["clients"]);
    assert_eq!(feedback.numbers["feedbacks"], json!(ethers["rows"].as_array().unwrap().len()));
    for (tag, topic) in [("user_feedback", "starred"), ("rel_uptime", "uptime"), ("rel_error_rate", "successRate")] {
        let (ours, theirs) = (signal(&reading, tag), &ethers["opinions"][topic]);
        assert_eq!(ours.numbers["voices"], theirs["voices"], "{tag}");
        assert!(close(ours.value, theirs["mean"].as_f64().unwrap()), "{tag}: {ours:?}, {theirs}");
        assert!(close(ours.stddev, theirs["stddev"].as_f64().unwrap()), "{tag}: {ours:?}, {theirs}");
    }
}

#[tokio::test]
async fn what_we_wrote_ourselves_is_never_read() {
    let Some(mut world) = World::start() else { return };
    world.register(0, "");
    world.rate(7, 0, 100, 0, "starred", "");
    world.settle();
    world.chain.own = vec![world.address(7)];
    let reader = world.reader();
    let head = reader.head(now()).await.unwrap();
    let reading = reader.read(&world.subject(0), head, None, &local).await.unwrap();
    assert_eq!(reading.signals, []);
    assert!(reading.notes.contains(&Note::NoUri) && reading.notes.contains(&Note::NoLogs), "{:?}", reading.notes);
}

#[tokio::test]
async fn agents_without_clients_and_with_ten_thousand() {
    let Some(world) = World::start() else { return };
    world.register(0, "");
    world.register(0, "");
    let first = address!("00000000000000000000000000000000000a0000");
    for part in 0..50_u64 {
        let first = Address::from_word((U256::from_be_bytes(first.into_word().0) + U256::from(part * 200)).into());
        let call = seedCall {
            agentId: U256::from(1),
            first,
            count: U256::from(200).to(),
            value: 60,
            valueDecimals: 0,
            tag1: "starred".into(),
        };
        world.call(0, world.chain.reputation, call);
    }
    world.settle();
    let reader = world.reader();
    let head = reader.head(now()).await.unwrap();
    assert_eq!(reader.read(&world.subject(0), head, None, &local).await.unwrap().signals, []);
    let reading = reader.read(&world.subject(1), head, None, &local).await.unwrap();
    let feedback = signal(&reading, "user_feedback");
    assert_eq!(feedback.numbers["voices"], json!(10_000));
    // 60 to 69, equally often.
    assert!(close(feedback.value, 64.5), "{feedback:?}");
    assert!(close(feedback.stddev, (8.25 / 1e4 + 625.0 / 10_001_f64).sqrt()), "{feedback:?}");
}

#[tokio::test]
async fn changing_hands_lowers_continuity_and_forgets_the_wallet() {
    let Some(world) = World::start() else { return };
    world.register(0, "");
    let identity = world.chain.identity;
    let (from, to) = (world.address(0), world.address(9));
    world.call(0, identity, setAgentURICall { agentId: U256::ZERO, newURI: "ipfs://bafy".into() });
    world.call(0, identity, transferFromCall { from, to, agentId: U256::ZERO });
    world.settle();
    let reader = world.reader();
    let head = reader.head(now()).await.unwrap();
    let mut book = LogBook::new();
    reader.read_logs(&mut book, head).await.unwrap();
    let reading = reader.read(&world.subject(0), head, Some(&book), &local).await.unwrap();
    assert!(close(signal(&reading, "identity_key_continuity").value, 57.0));
    let registration = reading.registration.unwrap();
    assert_eq!((registration.owner, registration.wallet), (Some(format!("{to:#x}")), None));
    assert!(reading.notes.contains(&Note::UriNotSupported), "no gateway: {:?}", reading.notes);
    // A book survives being stored.
    let stored = serde_json::to_string(&book).unwrap();
    assert_eq!(serde_json::from_str::<LogBook>(&stored).unwrap(), book);
}

#[tokio::test]
async fn payments_weigh_when_the_chain_shows_them() {
    let Some(mut world) = World::start() else { return };
    world.register(0, "");
    let token: Address = world.anvil.deploy("Token", "").parse().unwrap();
    let fake: Address = world.anvil.deploy("Token", "").parse().unwrap();
    world.chain.payment_tokens = vec![token];
    let owner = world.address(0);
    let pay = |world: &World, token: Address, from: usize| -> String {
        let call = payCall { from: world.address(from), to: owner, value: U256::from(5) };
        world.call(from, token, call)["transactionHash"].as_str().unwrap().to_owned()
    };
    let rate = |world: &World, client: usize, from: usize, tx: &str, value: i128, hash: Option<B256>| {
        let proof = json!({"fromAddress": world.account(from), "toAddress": owner, "chainId": "31337", "txHash": tx});
        let file = json!({"proofOfPayment": proof}).to_string();
        let uri = format!("data:application/json,{}", file.replace('"', "%22"));
        let hash = hash.unwrap_or_else(|| keccak256(&file));
        world.rate_with_file(client, 0, (value, 0), ["starred", ""], &uri, hash);
    };
    let good = pay(&world, token, 1);
    rate(&world, 1, 1, &good, 100, None);
    // Another's payment, a token of one's own, a file that is not the one on the chain, a payment used twice, none at all.
    rate(&world, 2, 1, &good, 0, None);
    let invented = pay(&world, fake, 3);
    rate(&world, 3, 3, &invented, 0, None);
    let paid = pay(&world, token, 4);
    rate(&world, 4, 4, &paid, 0, Some(B256::ZERO));
    world.rate(5, 0, 0, 0, "starred", "");
    let coin = world.anvil.ask("eth_sendTransaction", json!([{"from": world.account(6), "to": owner, "value": "0x1"}]));
    rate(&world, 6, 6, coin.as_str().unwrap(), 100, None);
    world.settle();
    let reader = world.reader();
    let head = reader.head(now()).await.unwrap();
    let mut book = LogBook::new();
    reader.read_logs(&mut book, head).await.unwrap();
    let reading = reader.read(&world.subject(0), head, Some(&book), &local).await.unwrap();
    let feedback = signal(&reading, "user_feedback");
    assert_eq!(feedback.numbers["paid"], json!(2));
    // Two voices of weight 1 say 100, four of a quarter say 0.
    assert!(close(feedback.value, 200.0 / 3.0), "{feedback:?}");
    assert!(close(feedback.numbers["effective"].as_f64().unwrap(), 9.0 / 2.25), "{feedback:?}");
}

#[tokio::test]
async fn registries_that_do_not_belong_together_are_refused() {
    let Some(mut world) = World::start() else { return };
    world.settle();
    let other: Address = world.anvil.deploy("IdentityRegistry", "").parse().unwrap();
    world.settle();
    world.chain = EvmChain { identity: other, ..world.chain };
    assert_eq!(world.reader().head(now()).await.unwrap_err().reason(), "malformed");
    world.chain = EvmChain { reputation: Address::repeat_byte(7), ..world.chain };
    let error = world.reader().head(now()).await.unwrap_err();
    assert!(error.to_string().contains("no contract"), "{error}");
}
