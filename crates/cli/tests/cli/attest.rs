//! Scores written to a chain by the real command, beside the real service, killed at any moment; and checked by somebody else.

use std::{fs, io::Write, os::unix::fs::PermissionsExt, process::Stdio, thread, time::Duration};

use alloy_primitives::{Address, U256, hex};
use alloy_sol_types::{SolCall, sol};
use credence_pipeline::{NewAgent, NewSource};
use credence_protocol::{EntityId, ExternalSubject, LinkProof, SignalDraft, Tag};
use credence_testing::{Anvil, Service, Shell, key, now};
use serde_json::{Value, json};

use crate::crawl::open;

sol! {
    function register(string agentURI) external returns (uint256);
    function readAllFeedback(uint256 agentId, address[] clientAddresses, string tag1, string tag2, bool includeRevoked) external view
        returns (address[] clients, uint64[] indexes, int128[] values, uint8[] decimals, string[] tag1s, string[] tag2s, bool[] revoked);
}

/// The account of the tests that attests: number 63 of the mnemonic that every development node uses.
const ATTESTER: usize = 63;
const ATTESTER_KEY: &str = "365820b3376c77dab008476d49f7cd7af87fc7bbd57dc490378106c3353b2b33";
const CHAIN: &str = "eip155:31337";

struct Chain {
    anvil: Anvil,
    identity: String,
    reputation: String,
}

impl Chain {
    fn start() -> Option<Self> {
        let anvil = Anvil::start(&[])?;
        let (identity, reputation) = anvil.deploy_registries();
        Some(Self { anvil, identity, reputation })
    }

    /// Our feedback about a registration: value, and whether it was taken back.
    fn attested(&self, agent: u64) -> Vec<(i128, bool)> {
        let call = readAllFeedbackCall {
            agentId: U256::from(agent),
            clientAddresses: vec![self.anvil.accounts()[ATTESTER].parse::<Address>().unwrap()],
            tag1: String::new(),
            tag2: String::new(),
            includeRevoked: true,
        };
        let data = hex::encode_prefixed(call.abi_encode());
        let answer = self.anvil.ask("eth_call", json!([{"to": self.reputation, "data": data}, "latest"]));
        let read = readAllFeedbackCall::abi_decode_returns(&hex::decode(answer.as_str().unwrap()).unwrap()).unwrap();
        read.values.into_iter().zip(read.revoked).collect()
    }

    /// An authority with rated agents `bot0` and on, each with the registration of its number, and this chain.
    fn authority(&self, agents: u64) -> Shell {
        let shell = Shell::new();
        shell.ok(&["init"]);
        let authority = open(&shell);
        let origin = authority.origin().unwrap();
        let id = |text: &str| EntityId::new(text).unwrap();
        let sources = [("a", "rel_uptime"), ("b", "identity_domain"), ("c", "asi01_goal_hijack")];
        for (source, _) in sources {
            authority.add_source(NewSource::new(id(source), 1.0)).unwrap();
            authority.add_key(&key(source).public(), id(source)).unwrap();
        }
        for n in 0..agents {
            let data = hex::encode_prefixed(registerCall { agentURI: String::new() }.abi_encode());
            self.anvil.transact(&self.anvil.accounts()[0], &self.identity, &data);
            let agent = id(&format!("bot{n}"));
            authority.add_agent(NewAgent::new(agent.clone())).unwrap();
            let link = ExternalSubject::parse(&format!("erc8004:{CHAIN}:{}/{n}", self.identity)).unwrap();
            let line = authority.claim_link(&agent, &link, 300).unwrap();
            let proof = LinkProof { method: "record".into(), url: None, digest: None, signature: None };
            authority.prove_link(&line, proof).unwrap();
            for (source, tag) in sources {
                let tags = vec![Tag::new(tag).unwrap()];
                let draft = SignalDraft::new(agent.clone(), id(source), tags, 90.0, 2.0, now()).to(origin.clone());
                authority.submit(draft.sign(&key(source)).unwrap().canonical().as_bytes()).unwrap().unwrap();
            }
        }
        authority.score_now().unwrap();
        drop(authority);
        let path = shell.path("credence-data/credence.toml");
        let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
        let (rpc, identity, reputation) = (self.anvil.url(), &self.identity, &self.reputation);
        write!(
            file,
            "\n[[chain]]\nid = \"{CHAIN}\"\nrpc = \"{rpc}\"\nidentity = \"{identity}\"\nreputation = \"{reputation}\"\nallow_loopback = true\n\
             confirmations = 1\n\n[chain.attest]\nkey_file = \"keys/attest.hex\"\nmax_fee_gwei = 100.0\nby_rule = true\n"
        )
        .unwrap();
        let secret = shell.path("credence-data/keys/attest.hex");
        fs::write(&secret, ATTESTER_KEY).unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        shell
    }
}

#[test]
fn a_score_is_attested_served_and_checked_by_anyone() {
    let Some(chain) = Chain::start() else { return };
    let shell = chain.authority(2);
    shell.fails(&["attest", "bot0", "--chain", "eip155:1"], "eip155:1 is not configured");
    shell.fails(&["attest", "nobody", "--chain", CHAIN], "no agent has the id or alias");
    let secret = shell.path("credence-data/keys/attest.hex");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
    shell.fails(&["attest", "bot0", "--chain", CHAIN], "chmod 600");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();

    let dry = shell.json(&["attest", "bot1", "--chain", CHAIN, "--dry-run"]);
    assert_eq!((dry["unit"].as_str(), dry["hash"].as_str().unwrap().len()), (Some("wei"), 64), "{dry}");
    assert_eq!((chain.attested(1), shell.json(&["attest", "list"])), (vec![], json!([])));
    let made = shell.json(&["attest", "bot1", "--chain", CHAIN]);
    assert_eq!(dry["value"], made["value"]);
    shell.ok(&["attest", "continue"]);
    assert_eq!(shell.json(&["attest", "list"])[0]["state"], "final");
    assert_eq!(chain.attested(1).len(), 1, "{made}");

    // The service attests the other one by rule, and leaves that of today alone.
    let service = Service::start(shell, &[]);
    let shell = &service.shell;
    let place = "/v1/agents/bot1/attestations";
    service.post_as(&service.token("ingest"), place, &json!({ "chain": CHAIN })).refused(403, "insufficient_scope");
    service.post(place, &json!({ "chain": "eip155:1" })).refused(422, "chain_not_configured");
    let dry = service.post(place, &json!({ "chain": CHAIN, "dry_run": true })).ok();
    assert_eq!((dry["unit"].as_str(), dry.get("attestation")), (Some("wei"), None), "{dry}");
    credence_testing::until("bot0 is attested", || {
        service.get("/v1/agents/bot0/attestations").ok()["attestations"][0]["state"] == "final"
    });
    let made = service.get("/v1/agents/bot0/attestations").ok()["attestations"][0].clone();
    let score = i128::from(made["value"].as_i64().unwrap());
    assert_eq!((chain.attested(0), chain.attested(1).len()), (vec![(score, false)], 1), "{made}");
    let id = made["attestation"].as_str().unwrap();
    let document = service.get(&format!("/v1/attestations/{id}/document"));
    assert_eq!(document.status, 200);
    let metrics = service.get("/metrics");
    let metrics = String::from_utf8(metrics.body).unwrap();
    assert!(metrics.contains("credence_attestations_total{chain=\"eip155:31337\",step=\"final\"} 2"), "{metrics}");
    let page = String::from_utf8(service.get_with("/agents/bot0", &[("accept", "text/html")]).body).unwrap();
    assert!(page.contains("Its score on chains") && page.contains(id), "{page}");

    // Somebody with a node, the keys and nothing else.
    let transaction = made["inclusion"]["transaction"].as_str().unwrap();
    let (authority_key, log_key) = (service.authority_key(), service.log_key.clone());
    let url = chain.anvil.url().to_owned();
    let mut check = vec!["check", "--attestation", transaction, "--rpc", &url, "--registry", &chain.reputation];
    check.extend(["--allow-loopback", "--key", &authority_key, "--log-key", &log_key]);
    let checked = shell.json(&check);
    let agrees: Vec<&Value> = checked["lines"].as_array().unwrap().iter().map(|line| &line["agrees"]).collect();
    assert_eq!((checked["valid"].as_bool(), agrees), (Some(true), vec![&json!(true); 5]), "{checked}");
    // Another document, another key.
    let forged = shell.path("forged.json");
    fs::write(&forged, String::from_utf8(document.body).unwrap().replace("\"score\":", "\"score\": ")).unwrap();
    let forged = forged.to_str().unwrap().to_owned();
    let (code, said) = run(shell, &[&check[..], &["--document", &forged]].concat());
    assert!(code == 2 && said.contains("document   DIFFERS"), "{code} {said}");
    let other = key("a").public().did_key();
    let with_other: Vec<&str> =
        check.iter().map(|word| if *word == authority_key { other.as_str() } else { word }).collect();
    let (code, said) = run(shell, &with_other);
    assert!(code == 2 && said.contains("signature  DIFFERS"), "{code} {said}");

    // Asked for by the operator, while the service runs.
    let asked = service.post(place, &json!({ "chain": CHAIN })).created();
    let asked_id = asked["attestation"].as_str().unwrap().to_owned();
    credence_testing::until("the one that was asked for is final", || {
        service.get(&format!("/v1/attestations/{asked_id}")).ok()["state"] == "final"
    });
    assert_eq!(chain.attested(1).len(), 2, "one by the command, one by the request");

    // Its standing is revoked: the service takes it back.
    service.post("/v1/agents/bot0/standing", &json!({ "revoked": true })).created();
    credence_testing::until("it is taken back", || {
        service.get(&format!("/v1/attestations/{id}")).ok()["state"] == "revoked"
    });
    assert_eq!(chain.attested(0), [(score, true)]);
    let (code, said) = run(shell, &check);
    assert!(code == 2 && said.contains("it was taken back"), "{code} {said}");
    let log = service.log();
    let shell = service.stop();
    assert!(!log.contains(&ATTESTER_KEY[..12]), "the key is in the log");
    shell.ok(&["audit"]);
    shell.ok(&["replay"]);
}

fn run(shell: &Shell, words: &[&str]) -> (i32, String) {
    let ran = shell.command(words).output().unwrap();
    (ran.status.code().unwrap(), String::from_utf8_lossy(&ran.stdout).into_owned())
}

#[test]
fn a_command_that_is_killed_at_any_moment_writes_once() {
    let Some(chain) = Chain::start() else { return };
    let kills: u64 = if std::env::var_os("LONG_TESTS").is_some() { 40 } else { 5 };
    let shell = chain.authority(kills);
    for n in 0..kills {
        let agent = format!("bot{n}");
        let attest = ["attest", agent.as_str(), "--chain", CHAIN];
        let mut child = shell.command(&attest).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // From before anything is recorded to after it is in a block; where it dies decides nothing below.
        thread::sleep(Duration::from_millis(40 + n * 900 / kills));
        child.kill().unwrap();
        child.wait().unwrap();
        shell.ok(&["attest", "continue"]);
        let listed = shell.json(&["attest", "list", "--agent", &agent]);
        if listed.as_array().unwrap().is_empty() {
            assert_eq!(chain.attested(n), []);
            shell.ok(&attest);
            shell.ok(&["attest", "continue"]);
        }
        assert_eq!(chain.attested(n).len(), 1, "killed after {} ms: {listed}", 40 + n * 900 / kills);
    }
    shell.ok(&["audit"]);
}
