//! How long pages take: the list of agents with a hundred thousand of them, and the page of an agent that five thousand signals
//! are about. Signed, admitted and scored for real; asked over loopback, one at a time, and by several at once.
//!
//! `cargo run --release -p credence-server --example pages_bench [AGENTS]`
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "a program to measure with, not to build on")]

use std::{path::Path, sync::Arc, time::Instant};

use credence_ledger::{Clock, LogKey, OutsideCheckpoint, SqliteLedger, sqlite::Options};
use credence_pipeline::{Authority, NewAgent, NewSource, TABLES};
use credence_protocol::{AUTHORITY_SOURCE, Alias, EntityId, SecretKey, SignalDraft, Tag, TagRegistry, Timestamp};
use credence_server::{App, Setup, settings::Settings, tokens::MemoryTokens};
use tokio::net::TcpListener;

/// As in the `credence` binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Signals about the agent whose page is measured.
const SIGNALS: usize = 5_000;
/// Sources of them; each measures every tag.
const SOURCES: usize = 20;
/// Requests of each kind.
const REQUESTS: usize = 300;
/// Who ask at once in the second round.
const AT_ONCE: usize = 4;

fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap();
    Timestamp::from_micros(since.as_micros().try_into().unwrap()).unwrap()
}

fn id(text: &str) -> EntityId {
    EntityId::new(text).unwrap()
}

fn authority(folder: &Path, log: LogKey, key: &SecretKey, clock: &Clock, agents: usize) -> Authority {
    let options = Options {
        path: folder.join("ledger.db"),
        tables: TABLES,
        outside: OutsideCheckpoint::at(folder.join("checkpoint")),
        sealing: Default::default(),
    };
    let ledger = SqliteLedger::create(options, log, Arc::clone(clock)).unwrap();
    let settings = credence_pipeline::Settings { signer: Some(key.clone()), ..Default::default() };
    let authority = Authority::open(Arc::new(ledger), &settings, Arc::clone(clock)).unwrap();
    authority.add_source(NewSource::new(id(AUTHORITY_SOURCE), 1.0)).unwrap();
    authority.add_key(&key.public(), id(AUTHORITY_SOURCE)).unwrap();
    let keys: Vec<(EntityId, SecretKey)> = (0..SOURCES)
        .map(|n| {
            let (source, key) = (id(&format!("source-{n:02}")), SecretKey::generate().unwrap());
            authority.add_source(NewSource::new(source.clone(), 1.0)).unwrap();
            authority.add_key(&key.public(), source.clone()).unwrap();
            (source, key)
        })
        .collect();
    let mut random = fastrand::Rng::with_seed(7);
    let started = Instant::now();
    // Registered by several, so that they share their waiting for the disk.
    std::thread::scope(|scope| {
        for part in 0..64 {
            let authority = &authority;
            scope.spawn(move || {
                for n in (part..agents).step_by(64) {
                    let name = Some(format!("Agent number {n} of many"));
                    authority.add_agent(NewAgent { name, ..NewAgent::new(id(&format!("agent-{n:06}"))) }).unwrap();
                }
            });
        }
    });
    let tags = ["rel_uptime", "identity_domain", "asi01_goal_hijack"];
    let mut batch = Vec::new();
    let sign = |agent: &str, (source, key): &(EntityId, SecretKey), tag: &str, value: f64| {
        let draft = SignalDraft::new(id(agent), source.clone(), vec![Tag::new(tag).unwrap()], value, 3.0, now());
        let draft = draft.to(authority.origin().unwrap());
        draft.sign(key).unwrap().canonical().as_bytes().to_vec()
    };
    for n in 0..agents {
        let agent = format!("agent-{n:06}");
        for (at, tag) in tags.iter().enumerate() {
            batch.push(sign(&agent, &keys[(n + at) % SOURCES], tag, random.f64() * 100.0));
        }
        if batch.len() >= 4_096 || n + 1 == agents {
            let mut signals = std::mem::take(&mut batch).into_iter();
            authority.submit_all(&mut signals, &mut |_, verdict| assert!(verdict.is_ok())).unwrap();
        }
    }
    let aliases = vec![Alias::parse("https://busy.example").unwrap()];
    authority.add_agent(NewAgent { aliases, ..NewAgent::new(id("busy")) }).unwrap();
    let registry = TagRegistry::standard().unwrap();
    let open: Vec<String> = registry
        .iter()
        .filter(|tag| !tag.deferred && tag.may_be_emitted_by(&keys[0].0))
        .map(|tag| tag.name.to_string())
        .collect();
    for n in 0..SIGNALS {
        let tag = &open[n / SOURCES % open.len()];
        let signal = sign("busy", &keys[n % SOURCES], tag, 60.0 + random.f64() * 30.0);
        authority.submit(&signal).unwrap().unwrap();
        if n % 10 == 0 {
            authority.score_now().unwrap();
        }
    }
    authority.score_now().unwrap();
    eprintln!(
        "{agents} agents, {} entries, made in {:.0} s",
        authority.ledger().committed().unwrap(),
        started.elapsed().as_secs_f64()
    );
    authority
}

async fn ask(client: &reqwest::Client, url: &str) -> (f64, usize) {
    let started = Instant::now();
    let response = client.get(url).header("accept", "text/html").send().await.unwrap();
    assert_eq!(response.status(), 200, "{url}");
    let bytes = response.bytes().await.unwrap().len();
    (started.elapsed().as_secs_f64() * 1e3, bytes)
}

fn told(name: &str, mut times: Vec<f64>, bytes: usize) -> String {
    times.sort_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    format!("{name:<44} {:>7.1} {:>7.1} {:>7.1} {:>9}", at(0.5), at(0.95), times[times.len() - 1], bytes)
}

async fn measure(client: &reqwest::Client, name: &str, url: &str) {
    for at_once in [1, AT_ONCE] {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..at_once {
            let (client, url) = (client.clone(), url.to_owned());
            tasks.spawn(async move {
                let mut times = Vec::new();
                let mut size = 0;
                for _ in 0..REQUESTS / at_once {
                    let (ms, bytes) = ask(&client, &url).await;
                    times.push(ms);
                    size = bytes;
                }
                (times, size)
            });
        }
        let all = tasks.join_all().await;
        let size = all[0].1;
        let times = all.into_iter().flat_map(|(times, _)| times).collect();
        println!("{}", told(&format!("{name}, {at_once} at once"), times, size));
    }
}

#[tokio::main]
async fn main() {
    let agents = std::env::args().nth(1).map_or(100_000, |text| text.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let clock: Clock = Arc::new(now);
    let (key, log) =
        (SecretKey::generate().unwrap(), LogKey::new("bench/log", &SecretKey::generate().unwrap()).unwrap());
    let verifier = log.verifier().clone();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let local_url = format!("http://{}", listener.local_addr().unwrap());
    let (path, signer, its_clock) = (folder.path().to_owned(), key.clone(), Arc::clone(&clock));
    let authority =
        tokio::task::spawn_blocking(move || authority(&path, log, &signer, &its_clock, agents)).await.unwrap();
    let settings = Settings { requests_per_second: 0, new_answers_per_second: 0, ..Settings::default() };
    let app = App::new(Setup {
        authority,
        log: verifier,
        key,
        tokens: Arc::new(MemoryTokens::default()),
        folder: folder.path().to_owned(),
        clock,
        settings,
        local_url: local_url.clone(),
        receipts: None,
        demo: None,
        steady: None,
    })
    .unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let service = tokio::spawn(credence_server::serve(app, listener, async { drop(stopped.await) }));
    let client = reqwest::Client::new();
    let url = |path: &str| format!("{local_url}{path}");
    let (first, _) = ask(&client, &url("/")).await;
    println!("the first look at the list (reads everything): {first:.0} ms");
    println!("{:<44} {:>7} {:>7} {:>7} {:>9}", "page", "p50 ms", "p95 ms", "max ms", "bytes");
    for (name, path) in [
        ("nothing (/healthz)", "/healthz"),
        ("agents", "/"),
        ("agents, searched", "/?q=number%2077"),
        ("agents, by name, page 1000", "/?sort=name&page=1000"),
        ("agents, own weights", "/?own=1&w.source-01=1&w.source-02=0.5&w.%2A=0.1"),
        ("agent with 5,000 signals", "/agents/busy"),
        ("agent with three", "/agents/agent-000007"),
        ("log", "/log"),
        ("sources", "/sources"),
    ] {
        measure(&client, name, &url(path)).await;
    }
    let _ = stop.send(());
    service.await.unwrap().unwrap();
}
