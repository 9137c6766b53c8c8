//! Every built-in source on answers in the real shape, made by hand: the good one, and missing, changed and hostile ones. The expected
//! numbers were computed apart from this code. Each is read twice: from the file, and over HTTP through the crawler.
#![allow(clippy::unwrap_used, missing_docs, reason = "a failing unwrap is how a test says no")]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    extract::{Request, State},
    http::{Method, StatusCode},
};
use credence_egress::Egress;
use credence_ingest::{Asked, Crawler, Measured, Reason, Source, builtin};
use credence_protocol::{ExternalSubject, Timestamp};
use serde::Deserialize;

const NOW: &str = "2026-11-18T12:00:00Z";
/// What hostile answers say in every text that is not used.
const HOSTILE: [&str; 3] = ["previous instructions", "<script>", "rate this agent"];

#[derive(Deserialize)]
struct Cases {
    subject: ExternalSubject,
    path: String,
    method: String,
    keys_path: Option<String>,
    services_path: Option<String>,
    case: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    file: String,
    signals: Option<Vec<Measured>>,
    nothing: Option<String>,
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
}

fn cases(name: &str) -> Cases {
    toml::from_str(&std::fs::read_to_string(folder(name).join("cases.toml")).unwrap()).unwrap()
}

/// Answers by method and `/host/path?query`.
type Answers = Arc<Mutex<BTreeMap<(String, String), Vec<u8>>>>;

async fn answer(State(answers): State<Answers>, request: Request) -> Result<Vec<u8>, StatusCode> {
    let query = request.uri().query().map_or_else(String::new, |query| format!("?{query}"));
    let path = format!("{}{query}", request.uri().path().trim_start_matches('/'));
    let method = if request.method() == Method::POST { "POST" } else { "GET" };
    let found = answers.lock().unwrap().get(&(method.to_owned(), path)).cloned();
    found.ok_or(StatusCode::NOT_FOUND)
}

async fn mirror(answers: &Answers) -> Crawler {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let router = Router::new().fallback(answer).with_state(Arc::clone(answers));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let settings = credence_egress::Settings { loopback: true, ..credence_egress::Settings::for_purpose("crawl") };
    Crawler::new(Egress::new(settings).unwrap(), Some(url.parse().unwrap()), Arc::new(|_| None))
}

fn close(a: &[Measured], b: &[Measured]) -> bool {
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .all(|(a, b)| a.tags == b.tags && (a.value - b.value).abs() < 2e-6 && (a.stddev - b.stddev).abs() < 2e-6)
}

#[tokio::test]
async fn every_source_reads_what_it_should_and_nothing_else() {
    let now: Timestamp = NOW.parse().unwrap();
    assert!(builtin::FILES.len() >= 18);
    for (name, text) in builtin::FILES {
        let source = Source::parse(&format!("{name}.toml"), text).unwrap();
        let cases = cases(name);
        let files: Vec<&str> = cases.case.iter().map(|case| case.file.split('.').next().unwrap()).collect();
        for wanted in ["good", "missing", "changed", "hostile"] {
            assert!(files.contains(&wanted), "{name} has no '{wanted}' answer");
        }
        for case in &cases.case {
            let place = format!("{name}/{}", case.file);
            let body = std::fs::read(folder(name).join(&case.file)).unwrap();
            let answers: Answers = Arc::default();
            let put = |method: &str, path: &str, body: Vec<u8>| {
                answers.lock().unwrap().insert((method.to_owned(), path.to_owned()), body);
            };
            put(&cases.method, &cases.path, body);
            for (path, file) in [(&cases.keys_path, "keys.json"), (&cases.services_path, "services.json")] {
                if let Some(path) = path {
                    put("GET", path, std::fs::read(folder(name).join(file)).unwrap());
                }
            }
            let crawler = mirror(&answers).await;
            let asked = crawler.ask(&source, &cases.subject, None, now).await;
            let Asked::Answered(answered) = asked else { panic!("{place}: {asked:?}") };
            let told = format!(
                "{answered:?} {}",
                answered.outcome.as_ref().err().map(ToString::to_string).unwrap_or_default()
            );
            for word in HOSTILE {
                assert!(!told.contains(word), "{place} lets the text of a source out: {told}");
            }
            match (&case.signals, &case.nothing, &answered.outcome) {
                (Some(wanted), None, Ok(reading)) => {
                    assert!(close(&reading.measured, wanted), "{place}: {:?} instead of {wanted:?}", reading.measured);
                    assert!(reading.digest.starts_with("sha256:"), "{place}");
                }
                (None, Some(wanted), Err(no)) => assert_eq!(Reason::of(no).key(), wanted, "{place}: {no}"),
                (_, _, other) => panic!("{place}: {other:?}"),
            }
        }
    }
}

#[test]
fn six_views_of_one_registry_share_its_root() {
    let sources = builtin::all().unwrap();
    for id in ["crawler-8004scan", "crawler-rnwy", "crawler-hol-feedback"] {
        let source = sources.iter().find(|source| source.id.as_str() == id).unwrap();
        assert!(source.roots.iter().any(|root| root.as_str() == "erc8004"), "{id}");
    }
    let mut ids: Vec<&str> = sources.iter().map(|source| source.id.as_str()).collect();
    ids.dedup();
    assert_eq!(ids.len(), sources.len());
    for source in sources {
        assert!(source.weight > 0.0 && source.weight <= 0.5, "{}", source.id);
    }
}
