//! Solana by the real command, against a node of the tests' own that answers with the main cluster's genesis hash: linked, read,
//! attested, killed at any moment, and checked by somebody else.

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use axum::http::StatusCode;
use credence_chain::{
    Rpc,
    attest::{Attestation, Writer},
    solana::{FINAL_CONFIRMATIONS, Pubkey, SolanaChain, SolanaFees, SolanaKey, SolanaWriter},
};
use credence_egress::{Egress, Settings};
use credence_pipeline::{NewAgent, NewSource, query};
use credence_protocol::{EntityId, ExternalSubject, LinkProof, SignalDraft, Tag, Uuid};
use credence_testing::{Service, Shell, key, now, until};
use data_encoding::BASE64;
use ed25519_dalek::{Signer, SigningKey};
use serde_json::{Value, json};

use crate::{
    cluster::Cluster,
    crawl::open,
    ledger::{FEE, Ledger},
};

const GENESIS: &str = "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d";
const CHAIN: &str = "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp";
const DEVNET: &str = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1";
const REGISTRY: &str = "8oo4dC4JvBLwy5tGgiH3WwK4B9PWxL9Z4XjA2jzkQMbQ";
/// Where the program keeps accounts of its assets, as the registry's own client derives them.
const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../chain/testdata/solana.json");
const BALANCE: u64 = 1_000_000_000;

/// A running cluster whose slots pass by themselves.
struct World {
    cluster: Cluster,
    assets: Vec<(Pubkey, Pubkey, Pubkey)>,
    owner: SigningKey,
    stop: Arc<AtomicBool>,
    _runtime: tokio::runtime::Runtime,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The registry's account of an asset.
fn agent_account(asset: Pubkey, owner: Pubkey) -> Vec<u8> {
    let mut data = vec![0xf1, 0x77, 0x45, 0x8c, 0xe9, 0x09, 0x70, 0x32];
    for key in [Pubkey([13; 32]), Pubkey([14; 32]), owner, asset] {
        data.extend(key.0);
    }
    data.extend([254, 1, 1]);
    data.extend([12; 32]);
    data.extend([0; 3 * 40 + 3]);
    for text in ["", "Agent <script>alert(1)</script>", ""] {
        data.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
        data.extend(text.as_bytes());
    }
    data.resize(748, 0);
    data
}

/// What ATOM holds: quality 72.5, confidence 65 %, 41 scores.
fn atom_stats(asset: Pubkey) -> Vec<u8> {
    let mut data = vec![0; 561];
    data[..8].copy_from_slice(&[0xbe, 0xbb, 0x32, 0x3b, 0xcb, 0x27, 0x88, 0xf4]);
    data[40..72].copy_from_slice(&asset.0);
    data[88..96].copy_from_slice(&41_u64.to_le_bytes());
    data[547..549].copy_from_slice(&7_250_u16.to_le_bytes());
    data[555] = 3;
    data[557..559].copy_from_slice(&6_500_u16.to_le_bytes());
    data[560] = 1;
    data
}

impl World {
    fn start() -> Self {
        let chain = SolanaChain::new(CHAIN).unwrap();
        let unix = u64::try_from(now().micros() / 1_000_000).unwrap();
        let mut ledger = Ledger::new(&chain, GENESIS, unix);
        let owner = SigningKey::from_bytes(&[21; 32]);
        let vectors: Value = serde_json::from_slice(&fs::read(VECTORS).unwrap()).unwrap();
        let known = vectors["addresses"].as_array().unwrap().iter().filter(|one| one["registry"] == REGISTRY);
        let place = |text: &Value| text.as_str().unwrap().parse::<Pubkey>().unwrap();
        // The first is the system program.
        let assets: Vec<_> =
            known.skip(1).map(|one| (place(&one["asset"]), place(&one["agent"][0]), place(&one["stats"][0]))).collect();
        for (asset, agent, stats) in &assets {
            let account = agent_account(*asset, Pubkey(owner.verifying_key().to_bytes()));
            ledger.accounts.insert(*agent, (chain.registry, account));
            ledger.accounts.insert(*stats, (chain.atom, atom_stats(*asset)));
        }
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let cluster = runtime.block_on(Cluster::start(ledger));
        let stop = Arc::new(AtomicBool::new(false));
        let (blocks, over) = (cluster.clone(), Arc::clone(&stop));
        thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(20));
                blocks.ledger().advance(1);
            }
        });
        Self { cluster, assets, owner, stop, _runtime: runtime }
    }

    fn subject(&self, n: usize) -> String {
        format!("solana8004:{}", self.assets[n].0)
    }

    /// Feedback that the registry holds about an asset.
    fn written(&self, n: usize) -> u64 {
        self.cluster.ledger().feedback.get(&self.assets[n].1).copied().unwrap_or_default()
    }

    /// An authority with rated agents `bot0` and on, and this cluster.
    fn authority(&self, agents: usize) -> Shell {
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
            let agent = id(&format!("bot{n}"));
            authority.add_agent(NewAgent::new(agent.clone())).unwrap();
            for (source, tag) in sources {
                // Each agent has a score of its own.
                let (tags, value) = (vec![Tag::new(tag).unwrap()], 95.0 - 6.0 * n as f64);
                let draft = SignalDraft::new(agent.clone(), id(source), tags, value, 2.0, now()).to(origin.clone());
                authority.submit(draft.sign(&key(source)).unwrap().canonical().as_bytes()).unwrap().unwrap();
            }
        }
        authority.score_now().unwrap();
        drop(authority);
        let mut file = fs::OpenOptions::new().append(true).open(shell.path("credence-data/credence.toml")).unwrap();
        write!(
            file,
            "\n[[chain]]\nid = \"{CHAIN}\"\nrpc = \"{}\"\nallow_loopback = true\n\n\
             [chain.attest]\nkey_file = \"keys/attest.json\"\nmax_fee_lamports = 6000\n",
            self.cluster.url
        )
        .unwrap();
        // As Solana's own tools write it: secret and public half, as a list of numbers.
        let secret = SigningKey::from_bytes(&[22; 32]);
        let path = shell.path("credence-data/keys/attest.json");
        fs::write(&path, json!(secret.to_keypair_bytes().to_vec()).to_string()).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        self.cluster.ledger().balances.insert(Pubkey(secret.verifying_key().to_bytes()), BALANCE);
        shell
    }

    /// Links every agent by the operator's word.
    fn link_all(&self, shell: &Shell, agents: usize) {
        let authority = open(shell);
        for n in 0..agents {
            let (agent, link) =
                (EntityId::new(&format!("bot{n}")).unwrap(), ExternalSubject::parse(&self.subject(n)).unwrap());
            let line = authority.claim_link(&agent, &link, 300).unwrap();
            let proof = LinkProof { method: "record".into(), url: None, digest: None, signature: None };
            authority.prove_link(&line, proof).unwrap();
        }
    }

    /// Writes a feedback of anyone's choice, with a key of their own; its transaction.
    fn write(&self, folder: &Path, attestation: &Attestation) -> String {
        let path = folder.join("stranger.hex");
        fs::write(&path, "ab".repeat(32)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let key = SolanaKey::from_file(&path).unwrap();
        self.cluster.ledger().balances.insert(key.address(), BALANCE);
        let egress = Egress::new(Settings { loopback: true, ..Settings::for_purpose("test") }).unwrap();
        let rpc = Rpc::new(egress, self.cluster.url.parse().unwrap(), None);
        let writer =
            Writer::Solana(SolanaWriter::new(rpc, SolanaChain::new(CHAIN).unwrap(), key, SolanaFees::default()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let id = runtime.block_on(async {
            let prepared = writer.prepare(attestation, None, None).await.unwrap();
            writer.send(&prepared).await.unwrap();
            prepared.id
        });
        self.cluster.ledger().advance(FINAL_CONFIRMATIONS + 1);
        id
    }
}

fn run(shell: &Shell, words: &[&str]) -> (i32, String) {
    let ran = shell.command(words).output().unwrap();
    let said = [ran.stdout, ran.stderr].concat();
    (ran.status.code().unwrap(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn a_registration_is_linked_read_attested_and_checked_by_the_command() {
    let world = World::start();
    let shell = world.authority(2);
    let (mirror, subject) = (world.cluster.url.trim_end_matches('/').to_owned(), world.subject(0));

    // The wallet that owns the registration signs the line; nobody else's signature does.
    let claimed = shell.json(&["agent", "link", "bot0", &subject, "--yes"]);
    let line = claimed["line"].as_str().unwrap().to_owned();
    let sign = |key: &SigningKey| bs58::encode(key.sign(line.as_bytes()).to_bytes()).into_string();
    let strangers = sign(&SigningKey::from_bytes(&[23; 32]));
    let refused = run(&shell, &["agent", "link", "bot0", &subject, "--signature", &strangers, "--mirror", &mirror]);
    assert!(refused.0 == 2 && refused.1.contains("did not sign"), "{refused:?}");
    let signature = sign(&world.owner);
    let linked = shell.json(&["agent", "link", "bot0", &subject, "--signature", &signature, "--mirror", &mirror]);
    assert_eq!(linked["state"], "proven", "{linked}");

    // Read like any other source. Another cluster has nothing to do with what is proved on this one.
    let config = shell.path("credence-data/credence.toml");
    let before = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{before}\n[[chain]]\nid = \"{DEVNET}\"\nrpc = \"https://node.example\"\n")).unwrap();
    shell.fails(&["crawl", "add", DEVNET], "proved on the main cluster");
    fs::write(&config, before).unwrap();
    shell.ok(&["crawl", "add", CHAIN]);
    let tried = shell.json(&["crawl", "--dry-run", "--mirror", &mirror]);
    assert_eq!(tried[0]["evidence"][0]["crawl"]["registration"]["chain"], CHAIN, "{tried}");
    let crawled = shell.json(&["crawl", "--mirror", &mirror]);
    assert_eq!((&crawled["asked"], &crawled["signals"]), (&json!(1), &json!(1)), "{crawled}");
    assert_eq!(shell.json(&["crawl", "--mirror", &mirror])["asked"], 0, "not before its time");
    let explained = shell.json(&["explain", "bot0"]).to_string();
    assert!(explained.contains("chain-solana-5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp") && !explained.contains("<script"));

    // What it would cost; then the cap, the wallet, the key file; then the write.
    let attest = ["attest", "bot0", "--chain", CHAIN];
    let dry = shell.json(&[&attest[..], &["--dry-run"]].concat());
    assert_eq!(
        (&dry["unit"], &dry["max_fee"], &dry["balance"]),
        (&json!("lamports"), &json!("5000"), &json!("1000000000")),
        "{dry}"
    );
    let text = shell.ok(&[&attest[..], &["--dry-run"]].concat());
    assert!(text.contains("5000 lamports"), "{text}");
    assert_eq!((world.written(0), shell.json(&["attest", "list"])), (0, json!([])));
    world.cluster.ledger().fee = 6_001;
    shell.fails(&attest, "6001");
    world.cluster.ledger().fee = FEE;
    let balances = std::mem::take(&mut world.cluster.ledger().balances);
    let address = balances.keys().next().unwrap().to_string();
    shell.fails(&attest, &format!("attesting from {address} on {CHAIN}"));
    world.cluster.ledger().balances = balances;
    let secret = shell.path("credence-data/keys/attest.json");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o640)).unwrap();
    shell.fails(&attest, "chmod 600");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    shell.fails(&["attest", "bot1", "--chain", CHAIN], "no proven registration");
    assert_eq!(world.written(0), 0, "nothing was sent");
    let made = shell.json(&attest);
    assert_eq!(dry["value"], made["value"]);
    shell.ok(&["attest", "continue"]);
    let listed = shell.json(&["attest", "list", "--agent", "bot0"]);
    let finals: Vec<&Value> = listed.as_array().unwrap().iter().filter(|one| one["state"] == "final").collect();
    assert_eq!((finals.len(), world.written(0)), (1, 1), "{listed}");

    // Somebody with a node, the keys and the document.
    let id: Uuid = finals[0]["attestation"].as_str().unwrap().parse().unwrap();
    let transaction = finals[0]["inclusion"]["transaction"].as_str().unwrap();
    let authority = open(&shell);
    let document = query::attestation_document(&*authority.ledger().view().unwrap(), id).unwrap().unwrap();
    drop(authority);
    let document: Vec<u8> = document.as_bytes().to_vec();
    let file = shell.path("score.json");
    fs::write(&file, &document).unwrap();
    let file = file.to_str().unwrap().to_owned();
    let config: toml::Table = fs::read_to_string(shell.path("credence-data/credence.toml")).unwrap().parse().unwrap();
    let log_key = config["log_key"].as_str().unwrap().to_owned();
    let authority_key = shell.path("credence-data/keys/credence.jwk").to_str().unwrap().to_owned();
    let url = world.cluster.url.clone();
    let check_with = |shell: &Shell, transaction: &str, document: &str, key: &str, log_key: &str| {
        let words = ["check", "--attestation", transaction, "--rpc", &url, "--allow-loopback"];
        run(shell, &[&words[..], &["--document", document, "--key", key, "--log-key", log_key]].concat())
    };
    let check = |transaction: &str, document: &str, key: &str, log_key: &str| {
        check_with(&shell, transaction, document, key, log_key)
    };
    let (code, said) = check(transaction, &file, &authority_key, &log_key);
    assert_eq!((code, said.matches(" agrees ").count()), (0, 6), "{said}");
    assert!(said.contains("seal ") && said.ends_with("valid attestation\n"), "{said}");
    let differs = |(code, said): (i32, String), what: &[&str]| {
        let lines: Vec<&str> = said.lines().filter(|line| line.contains("DIFFERS")).collect();
        let named: Vec<&str> = lines.iter().map(|line| line.split_whitespace().next().unwrap()).collect();
        assert_eq!((code, named.as_slice()), (2, what), "{said}");
    };
    // Each part by itself: another key of the authority, another log, another document, a seal that is not the content's.
    differs(check(transaction, &file, &key("a").public().did_key(), &log_key), &["signature"]);
    let others = Shell::new();
    others.ok(&["init"]);
    let other_log: toml::Table =
        fs::read_to_string(others.path("credence-data/credence.toml")).unwrap().parse().unwrap();
    differs(check(transaction, &file, &authority_key, other_log["log_key"].as_str().unwrap()), &["log"]);
    let spaced = shell.path("spaced.json");
    fs::write(&spaced, String::from_utf8(document.clone()).unwrap().replacen("\"agent\":", "\"agent\": ", 1)).unwrap();
    differs(check(transaction, spaced.to_str().unwrap(), &authority_key, &log_key), &["document"]);
    world.cluster.meddle(|request, mut answer| {
        if request["method"] == "getTransaction" {
            let log = &mut answer["result"]["meta"]["logMessages"][0];
            let mut event =
                BASE64.decode(log.as_str().unwrap().trim_start_matches("Program data: ").as_bytes()).unwrap();
            *event.last_mut().unwrap() ^= 1;
            *log = json!(format!("Program data: {}", BASE64.encode(&event)));
        }
        (StatusCode::OK, answer)
    });
    differs(check(transaction, &file, &authority_key, &log_key), &["seal"]);
    world.cluster.be_honest();
    // A stranger writes the same document with another value, and about another registration.
    let score: Value = serde_json::from_slice(&document).unwrap();
    let score = score["assured"]["score"].as_i64().unwrap();
    let forged = Attestation {
        subject: ExternalSubject::parse(&subject).unwrap(),
        value: score + 1,
        decimals: 0,
        tag1: "credence".into(),
        tag2: "uts/2".into(),
        endpoint: String::new(),
        uri: "https://authority.example/document".into(),
        document: credence_output::attestation::keccak(&document),
    };
    let higher = world.write(&shell.path(""), &forged);
    differs(check(&higher, &file, &authority_key, &log_key), &["value"]);
    let elsewhere =
        Attestation { subject: ExternalSubject::parse(&world.subject(1)).unwrap(), value: score, ..forged.clone() };
    let elsewhere = world.write(&shell.path(""), &elsewhere);
    differs(check(&elsewhere, &file, &authority_key, &log_key), &["value"]);
    let (code, said) = check(&bs58::encode([9; 64]).into_string(), &file, &authority_key, &log_key);
    assert!(code == 1 && said.contains("no such transaction"), "{code} {said}");

    // Its standing is revoked: the service takes it back, and the check says so.
    open(&shell).set_standing(EntityId::new("bot0").unwrap(), true, None).unwrap();
    let service = Service::start(shell, &[]);
    until("it is taken back", || service.get(&format!("/v1/attestations/{id}")).ok()["state"] == "revoked");
    let shell = service.stop();
    let revoked = world.cluster.ledger().revoked.len();
    assert_eq!((revoked, world.written(0)), (1, 2), "ours, and the stranger's");
    let taken = check_with(&shell, transaction, &file, &authority_key, &log_key);
    assert!(taken.1.contains("it was taken back"), "{}", taken.1);
    differs(taken, &["chain"]);
    shell.ok(&["replay"]);
    shell.audit_passes();
}

#[test]
fn a_command_that_is_killed_at_any_moment_writes_once_on_solana() {
    let world = World::start();
    let kills = if std::env::var_os("LONG_TESTS").is_some() { world.assets.len() } else { 4 };
    let shell = world.authority(kills);
    world.link_all(&shell, kills);
    for n in 0..kills {
        let agent = format!("bot{n}");
        let attest = ["attest", agent.as_str(), "--chain", CHAIN];
        let mut child = shell.command(&attest).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // From before anything is recorded to after it is in a block; where it dies decides nothing below.
        let after = 40 + n as u64 * 900 / kills as u64;
        thread::sleep(Duration::from_millis(after));
        child.kill().unwrap();
        child.wait().unwrap();
        shell.ok(&["attest", "continue"]);
        let listed = shell.json(&["attest", "list", "--agent", &agent]);
        if listed.as_array().unwrap().is_empty() {
            assert_eq!(world.written(n), 0);
            shell.ok(&attest);
            shell.ok(&["attest", "continue"]);
        }
        assert_eq!(world.written(n), 1, "killed after {after} ms: {listed}");
    }
    shell.audit_passes();
}
