//! Proofs of links of every kind that can be fetched, and the attacker's versions of each.
#![allow(clippy::unwrap_used, missing_docs, reason = "a failing unwrap is how a test says no")]

mod common;

use common::World;
use credence_ingest::links::{self, CheckFailure};
use credence_protocol::{Audience, EntityId, ExternalSubject, LinkProof, LinkStatement, SecretKey, Timestamp, Uuid};
use data_encoding::{BASE64, HEXLOWER};
use serde_json::json;
use sha2::{Digest, Sha256};

const CONTRACT: &str = "0x8004a169fb4a3325136eb29fa0ceb6d2e539a432";

fn now() -> Timestamp {
    "2026-11-18T12:00:00Z".parse().unwrap()
}

fn statement(agent: &str, subject: &str) -> LinkStatement {
    LinkStatement {
        origin: Audience::new("trust.example/log").unwrap(),
        agent: EntityId::new(agent).unwrap(),
        subject: ExternalSubject::parse(subject).unwrap(),
        nonce: Uuid::from_u128(0x1234),
        expires: "2027-11-18T12:00:00Z".parse().unwrap(),
    }
}

async fn check(world: &World, statement: &LinkStatement) -> Result<LinkProof, CheckFailure> {
    links::check(&world.crawler().await, statement, None, now()).await
}

#[tokio::test]
async fn files_prove_hosts_repositories_and_models() {
    let places = [
        ("host:shop.example", "shop.example/.well-known/credence-link"),
        ("repository:github.com/acme/weather", "raw.githubusercontent.com/acme/weather/HEAD/.well-known/credence-link"),
        ("repository:gitlab.com/acme/weather", "gitlab.com/acme/weather/-/raw/HEAD/.well-known/credence-link"),
        ("repository:codeberg.org/acme/weather", "codeberg.org/acme/weather/raw/HEAD/.well-known/credence-link"),
        ("model:huggingface.co/Acme/W", "huggingface.co/Acme/W/resolve/main/.well-known/credence-link"),
    ];
    for (subject, path) in places {
        let world = World::default();
        let wanted = statement("bot", subject);
        let (two, other) = (statement("other", subject).line(), wanted.line());
        world.put(path, 200, format!("{two}\r\n{other}\n"));
        let proof = check(&world, &wanted).await.unwrap();
        assert_eq!((proof.method.as_str(), proof.url.is_some()), ("file", true));
        world.put(path, 200, two);
        let failed = check(&world, &wanted).await.unwrap_err();
        assert!(matches!(&failed, CheckFailure::NotProved(why) if why.contains("another agent")), "{failed}");
        world.remove(path);
        assert!(matches!(check(&world, &wanted).await, Err(CheckFailure::NotProved(_))), "{subject}: gone");
        world.put(path, 503, "");
        assert!(matches!(check(&world, &wanted).await, Err(CheckFailure::Unreachable(_))), "{subject}: down");
        world.put_with(path, 302, &[("location", "http://127.0.0.1:1/")], "");
        assert!(matches!(check(&world, &wanted).await, Err(CheckFailure::NotProved(_))), "{subject}: sent elsewhere");
    }
}

#[tokio::test]
async fn a_line_holds_until_its_end() {
    let world = World::default();
    let wanted = statement("bot", "host:shop.example");
    world.put("shop.example/.well-known/credence-link", 200, wanted.line());
    let late = links::check(&world.crawler().await, &wanted, None, wanted.expires.plus_seconds(1)).await;
    assert!(matches!(late, Err(CheckFailure::NotProved(why)) if why.contains("make a new one")));
}

#[tokio::test]
async fn records_prove_registrations_where_only_the_owner_writes() {
    let meta = "io.modelcontextprotocol.registry/publisher-provided";
    let cases = [
        (
            "mcp:io.github.acme/weather",
            "registry.modelcontextprotocol.io/v0.1/servers/io%2Egithub%2Eacme%2Fweather/versions/latest",
            json!({"server": {"name": "x"}, "_meta": {meta: {"credence": "LINE"}}}),
            json!({"server": {"name": "x"}, "reviews": ["LINE"]}),
        ),
        (
            "a2a:agent.shop.example",
            "agent.shop.example/.well-known/agent-card.json",
            json!({"name": "x", "capabilities": {"extensions": [{"uri": "u", "description": "LINE"}]}}),
            json!({"name": "x"}),
        ),
        (
            "package:pkg:npm/@acme/weather@1.0.0",
            "registry.npmjs.org/%40acme%2Fweather/1%2E0%2E0",
            json!({"name": "@acme/weather", "credence": "LINE"}),
            json!({"name": "@acme/weather"}),
        ),
        (
            "package:pkg:pypi/weather@1.0",
            "pypi.org/pypi/weather/1%2E0/json",
            json!({"info": {"description": "# Weather\n\nLINE\n"}}),
            json!({"info": {}, "vulnerabilities": [{"details": "LINE"}]}),
        ),
        (
            "uaid:aid:QmWeather;uid=0;registry=hol;proto=a2a",
            "hol.org/registry/api/v1/resolve/uaid%3Aaid%3AQmWeather%3Buid%3D0%3Bregistry%3Dhol%3Bproto%3Da2a",
            json!({"agent": {"name": "x", "description": "Weather", "profile": {"bio": "see LINE"}}}),
            json!({"agent": {"name": "x", "metadata": {"comments": ["LINE"]}}}),
        ),
        (
            "mnemom:agent-123",
            "api.mnemom.ai/v1/agents/agent%2D123/alignment-card",
            json!({"card_id": "c", "autonomy": {}, "extensions": {"credence": "LINE"}}),
            json!({"card_id": "c"}),
        ),
    ];
    for (subject, path, good, bad) in cases {
        let world = World::default();
        let wanted = statement("bot", subject);
        let fill = |value: &serde_json::Value| value.to_string().replace("LINE", &wanted.line());
        world.put(path, 200, fill(&good));
        assert_eq!(check(&world, &wanted).await.unwrap().method, "record", "{subject}");
        world.put(path, 200, fill(&bad));
        assert!(matches!(check(&world, &wanted).await, Err(CheckFailure::NotProved(_))), "{subject}");
        world.put(path, 200, "not json");
        assert!(matches!(check(&world, &wanted).await, Err(CheckFailure::NotProved(_))), "{subject}");
    }
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(bytes)))
}

#[tokio::test]
async fn labels_prove_containers() {
    let wanted = statement("bot", "container:docker.io/acme/weather");
    let world = World::default();
    let base = "registry-1.docker.io/v2/acme/weather";
    world.put(
        "auth.docker.io/token?service=registry.docker.io&scope=repository%3Aacme%2Fweather%3Apull",
        200,
        r#"{"token": "t"}"#,
    );
    let serve = |label: &str| {
        let config = json!({"config": {"Labels": {"dev.credence.link": label}}}).to_string();
        let manifest = json!({"config": {"digest": digest(config.as_bytes())}}).to_string();
        world.put(&format!("{base}/blobs/{}", digest(config.as_bytes())), 200, config);
        world.put(&format!("{base}/manifests/{}", digest(manifest.as_bytes())), 200, manifest.clone());
        world.put(
            &format!("{base}/manifests/latest"),
            200,
            json!({"manifests": [{"digest": digest(manifest.as_bytes())}]}).to_string(),
        );
    };
    serve(&wanted.line());
    assert_eq!(check(&world, &wanted).await.unwrap().method, "label");
    serve(&statement("other", "container:docker.io/acme/weather").line());
    let failed = check(&world, &wanted).await.unwrap_err().to_string();
    assert!(failed.contains("another agent"), "{failed}");
    // A manifest cannot lead to another address.
    world.put(&format!("{base}/manifests/latest"), 200, json!({"config": {"digest": "../../evil"}}).to_string());
    assert!(matches!(check(&world, &wanted).await, Err(CheckFailure::NotProved(_))));
}

#[tokio::test]
async fn registrations_on_a_chain_name_each_other() {
    let wanted = statement("bot", &format!("erc8004:eip155:8453:{CONTRACT}/22"));
    let world = World::default();
    let serve = |file: serde_json::Value| {
        let uri = format!("data:application/json;base64,{}", BASE64.encode(file.to_string().as_bytes()));
        let padded = uri.len().div_ceil(32) * 64;
        let body = format!("0x{:064x}{:064x}{:0<padded$}", 32, uri.len(), HEXLOWER.encode(uri.as_bytes()));
        world.put("mainnet.base.org/", 200, json!({"jsonrpc": "2.0", "id": 1, "result": body}).to_string());
    };
    let file = |id: u64| {
        json!({"services": [{"name": "credence", "endpoint": wanted.line()}],
            "registrations": [{"agentId": id, "agentRegistry": format!("eip155:8453:{CONTRACT}")}]})
    };
    serve(file(22));
    assert_eq!(check(&world, &wanted).await.unwrap().method, "record");
    // A contract of the attacker's, whose token 22 names itself and holds the line.
    let evil = "0x66600000000000000000000000000000000000aa";
    let stolen = statement("bot", &format!("erc8004:eip155:8453:{evil}/22"));
    let named = json!({"services": [{"name": "credence", "endpoint": stolen.line()}],
        "registrations": [{"agentId": 22, "agentRegistry": format!("eip155:8453:{evil}")}]});
    serve(named);
    assert!(check(&world, &stolen).await.unwrap_err().to_string().contains("is not the ERC-8004 registry"));
    // A file of somebody else's registration.
    serve(file(23));
    assert!(check(&world, &wanted).await.unwrap_err().to_string().contains("does not name this registration"));
    serve(json!({"registrations": file(22)["registrations"]}));
    assert!(check(&world, &wanted).await.unwrap_err().to_string().contains("does not hold the line"));
    world.put("mainnet.base.org/", 200, json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 3}}).to_string());
    assert!(check(&world, &wanted).await.unwrap_err().to_string().contains("no such token"));
}

#[tokio::test]
async fn a_registration_on_solana_is_proved_by_its_owner_or_by_its_file() {
    const REGISTRY: &str = "8oo4dC4JvBLwy5tGgiH3WwK4B9PWxL9Z4XjA2jzkQMbQ";
    let (owner, asset) = (SecretKey::from_seed(&[4; 32]), [17_u8; 32]);
    let name = bs58::encode(asset).into_string();
    let wanted = statement("bot", &format!("solana8004:{name}"));
    let world = World::default();
    let account = |of: [u8; 32], owner: &SecretKey, uri: &str| {
        let mut data = vec![0xf1, 0x77, 0x45, 0x8c, 0xe9, 0x09, 0x70, 0x32];
        [[1; 32], [2; 32], *owner.public().as_bytes(), of].iter().for_each(|key| data.extend(key));
        // Bump, a flag, a wallet, three digests with counts, no parent, two flags.
        data.extend([254, 1, 1]);
        data.extend([9; 32 + 3 * 40]);
        data.extend([0, 0, 1]);
        data.extend(u32::try_from(uri.len()).unwrap().to_le_bytes());
        data.extend(uri.as_bytes());
        json!({"pubkey": name, "account": {"owner": REGISTRY, "data": [BASE64.encode(&data), "base64"]}})
    };
    let serve = |found: Vec<serde_json::Value>| {
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": found});
        world.put("api.mainnet-beta.solana.com/", 200, answer.to_string());
    };
    let signed = |key: &SecretKey, text: &str| bs58::encode(key.sign(text.as_bytes()).as_bytes()).into_string();
    let by = async |signature: &str| links::check(&world.crawler().await, &wanted, Some(signature), now()).await;

    serve(vec![account(asset, &owner, "")]);
    let good = signed(&owner, &wanted.line());
    let proof = by(&good).await.unwrap();
    assert_eq!((proof.method.as_str(), proof.signature), ("signature", Some(good.clone())));
    assert!(by(&signed(&owner, "another text")).await.unwrap_err().to_string().contains("did not sign"));
    assert!(check(&world, &wanted).await.unwrap_err().to_string().contains("names no file"));
    // It was sold: the former owner's signature proves nothing any more.
    serve(vec![account(asset, &SecretKey::from_seed(&[5; 32]), "")]);
    assert!(matches!(by(&good).await, Err(CheckFailure::NotProved(_))));

    let file = |id: &str| {
        let file = json!({"services": [{"name": "credence", "endpoint": wanted.line()}], "registrations":
            [{"agentId": id, "agentRegistry": format!("solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp:{REGISTRY}")}]});
        format!("data:application/json;base64,{}", BASE64.encode(file.to_string().as_bytes()))
    };
    serve(vec![account(asset, &owner, &file(&name))]);
    assert_eq!(check(&world, &wanted).await.unwrap().method, "record");
    serve(vec![account(asset, &owner, &file("another"))]);
    assert!(check(&world, &wanted).await.unwrap_err().to_string().contains("does not name this registration"));

    // A node that shows somebody else's account, two of them, none, or refuses, proves nothing.
    serve(vec![account([18; 32], &owner, "")]);
    assert!(matches!(by(&good).await, Err(CheckFailure::Unreachable(_))));
    serve(vec![account(asset, &owner, ""), account(asset, &owner, "")]);
    assert!(matches!(by(&good).await, Err(CheckFailure::Unreachable(_))));
    serve(vec![]);
    assert!(by(&good).await.unwrap_err().to_string().contains("no such asset"));
    let refused = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32010}});
    world.put("api.mainnet-beta.solana.com/", 200, refused.to_string());
    assert!(matches!(by(&good).await, Err(CheckFailure::Unreachable(_))));
}

#[tokio::test]
async fn an_agent_card_proves_its_host_too() {
    let world = World::default();
    let wanted = statement("bot", "host:shop.example");
    let (file, card) = ("shop.example/.well-known/credence-link", "shop.example/.well-known/agent-card.json");
    let with = |line: &str| json!({"name": "x", "capabilities": {"extensions": [{"uri": "u", "description": line}]}});
    world.put(card, 200, with(&wanted.line()).to_string());
    assert_eq!(check(&world, &wanted).await.unwrap().method, "record");
    // The card of another agent, and a line that is about the card alone.
    for other in [statement("other", "host:shop.example"), statement("bot", "a2a:shop.example")] {
        world.put(card, 200, with(&other.line()).to_string());
        assert!(matches!(check(&world, &wanted).await, Err(CheckFailure::NotProved(_))));
    }
    world.put(card, 503, "");
    assert!(matches!(check(&world, &wanted).await, Err(CheckFailure::Unreachable(_))), "the proof may be there");
    world.put(file, 200, wanted.line());
    assert_eq!(check(&world, &wanted).await.unwrap().method, "file");
    world.remove(file);
    world.put_with(card, 302, &[("location", "http://127.0.0.1:1/")], "");
    assert!(matches!(check(&world, &wanted).await, Err(CheckFailure::NotProved(_))));
}
