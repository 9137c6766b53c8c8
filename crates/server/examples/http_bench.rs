//! A service to measure: a small authority, and echo handlers behind the same edge, which answer with as many bytes as the
//! handlers they are compared with. `scripts/bench-http` drives it with wrk.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "a program to measure with, not to build on")]

use std::{path::Path, sync::Arc, time::SystemTime};

use axum::{
    Router,
    http::header,
    routing::{get, post},
};
use bytes::Bytes;
use credence_ledger::{Clock, LogKey, OutsideCheckpoint, SqliteLedger, sqlite::Options};
use credence_pipeline::{Authority, NewAgent, NewSource, TABLES};
use credence_protocol::{AUTHORITY_SOURCE, Alias, EntityId, SecretKey, SignalDraft, Tag, Timestamp};
use credence_server::{
    App, Setup,
    settings::Settings,
    tokens::{MemoryTokens, NewToken, Scope, TokenStore},
};
use tokio::net::TcpListener;

/// As in the `credence` binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Timestamp::from_micros(since.as_micros().try_into().unwrap()).unwrap()
}

fn id(text: &str) -> EntityId {
    EntityId::new(text).unwrap()
}

/// An authority with one agent that three sources speak of.
fn authority(folder: &Path, log: LogKey, key: &SecretKey, clock: &Clock) -> Authority {
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
    let aliases = vec![Alias::parse("https://shop.example").unwrap()];
    authority.add_agent(NewAgent { aliases, ..NewAgent::new(id("shop")) }).unwrap();
    for (n, tag) in ["rel_uptime", "identity_domain", "asi01_goal_hijack"].into_iter().enumerate() {
        let (source, key) = (id(&format!("s{n}")), SecretKey::generate().unwrap());
        authority.add_source(NewSource::new(source.clone(), 1.0)).unwrap();
        authority.add_key(&key.public(), source.clone()).unwrap();
        let draft = SignalDraft::new(id("shop"), source, vec![Tag::new(tag).unwrap()], 95.0, 2.0, now());
        let draft = draft.to(authority.origin().unwrap());
        authority.submit(draft.sign(&key).unwrap().canonical().as_bytes()).unwrap().unwrap();
    }
    authority.score_now().unwrap();
    authority
}

#[tokio::main]
async fn main() {
    let mut args = std::env::args().skip(1);
    let folder = args.next().expect("a folder that does not exist yet");
    let sizes: Vec<usize> = args.map(|size| size.parse().unwrap()).collect();
    let [verdict, answer] = sizes[..] else { panic!("bytes of a verdict and of an answer") };
    let folder = Path::new(&folder);
    std::fs::create_dir(folder).unwrap();
    let clock: Clock = Arc::new(now);
    let (key, log) =
        (SecretKey::generate().unwrap(), LogKey::new("bench/log", &SecretKey::generate().unwrap()).unwrap());
    let verifier = log.verifier().clone();
    let new = NewToken { name: id("bench"), scopes: vec![Scope::Verify], expires_at: None };
    let tokens = Arc::new(MemoryTokens::default());
    let (_, token) = tokens.create(new, now()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let local_url = format!("http://{}", listener.local_addr().unwrap());
    println!("{local_url} {token}");
    let app = App::new(Setup {
        authority: authority(folder, log, &key, &clock),
        log: verifier,
        key,
        tokens,
        folder: folder.to_owned(),
        clock,
        settings: Settings { requests_per_second: 0, token_requests_per_second: 0, ..Settings::default() },
        local_url,
        receipts: None,
        demo: None,
        steady: None,
    })
    .unwrap();
    let echo = |bytes: usize| {
        let body = Bytes::from(vec![b'x'; bytes]);
        move || async move { ([(header::CONTENT_TYPE, "application/json")], body) }
    };
    let verdict = Bytes::from(vec![b'x'; verdict]);
    let more = Router::new()
        .route("/echo/verify", post(|_: Bytes| async move { ([(header::CONTENT_TYPE, "application/json")], verdict) }))
        .route("/echo/answer", get(echo(answer)));
    credence_server::serve_with(app, more, listener, async { drop(tokio::signal::ctrl_c().await) }).await.unwrap();
}
