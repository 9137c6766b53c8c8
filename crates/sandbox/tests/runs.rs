//! Runs that are stopped, continued, limited, or started twice.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests: a failing unwrap is how a test says no")]

mod support;

use std::{
    net::SocketAddr,
    num::NonZeroU32,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use credence_egress::{Egress, Names};
use credence_protocol::{EntityId, SecretKey};
use credence_sandbox::{
    Threat,
    consent::{ConsentCheck, DomainConsent, Loopback},
    domain,
    report::RunResult,
    runner::{
        Cancel, Event, Observer, RunError,
        journal::{JournalError, read},
        plan::Plan,
        preview,
    },
    target::{BUSY, Transport, connect, connect_with},
};
use futures_util::future::BoxFuture;
use support::{
    Manners, Server,
    world::{World, family},
};

/// Cancels a run after so many trials.
struct StopAfter {
    left: AtomicU32,
    cancel: Cancel,
}

impl Observer for StopAfter {
    fn event(&self, event: Event<'_>) {
        if matches!(event, Event::Recorded { .. }) && self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.cancel.cancel();
        }
    }
}

/// The numbers of a result that must not depend on interruptions.
fn numbers(result: &RunResult) -> serde_json::Value {
    let mut json = serde_json::to_value(result).unwrap();
    for member in ["duration_s", "requests"] {
        json.as_object_mut().unwrap().remove(member);
    }
    // Response times are never the same twice.
    if let Some(values) = json["benchmarks"].as_object_mut() {
        values.remove("rel_latency_p95");
    }
    json
}

async fn mixed_agent() -> Server {
    Server::agent(Manners { gullible: true, storms: true, remembers: true, ..Manners::default() }).await
}

#[tokio::test]
async fn a_stopped_run_continues_to_the_same_numbers() {
    let server = mixed_agent().await;
    let mut whole = World::chat(&server.url());
    whole.options.benchmarks = true;
    let undisturbed = whole.run().await;
    assert!(undisturbed.result.complete);
    for stop_after in [1, 7, 13, 22] {
        let folder = tempfile::tempdir().unwrap();
        let journal = folder.path().join("run.jsonl");
        let mut world = World::chat(&server.url());
        world.options.benchmarks = true;
        world.journal = Some(journal.clone());
        world.observer = Arc::new(StopAfter { left: AtomicU32::new(stop_after), cancel: world.cancel.clone() });
        let stopped = world.run().await;
        assert!(!stopped.result.complete, "{stop_after}");
        assert!(stopped.result.ended.unwrap().contains("stopped"));
        // Killed in mid-write, besides.
        let mut bytes = std::fs::read(&journal).unwrap();
        bytes.extend_from_slice(b"{\"kind\":\"trial\",\"probe\":\"as");
        std::fs::write(&journal, bytes).unwrap();
        let mut again = World::chat(&server.url());
        again.options.benchmarks = true;
        again.journal = Some(journal.clone());
        let continued = again.run().await;
        assert_eq!(numbers(&continued.result), numbers(&undisturbed.result), "stopped after {stop_after}");
        let before = server.count();
        let third = again.run().await;
        assert_eq!(numbers(&third.result), numbers(&undisturbed.result));
        assert_eq!(server.count(), before, "a finished run sends nothing more");
    }
}

#[tokio::test]
async fn a_stop_is_polite() {
    let server = mixed_agent().await;
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::chat(&server.url());
    world.journal = Some(folder.path().join("run.jsonl"));
    world.observer = Arc::new(StopAfter { left: AtomicU32::new(3), cancel: world.cancel.clone() });
    let stopped = world.run().await;
    let at_end = server.count();
    // Every request that was sent was waited for, and the journal says so.
    let (_, lines) = read(&folder.path().join("run.jsonl")).unwrap();
    assert!(lines.len() > 3);
    assert_eq!(stopped.result.requests as usize, at_end);
    // A threat that was begun is named, and has no value.
    for dropped in &stopped.result.dropped {
        let threat = stopped.result.threats.iter().find(|threat| threat.tag == dropped.tag).unwrap();
        assert!(threat.value.is_none() && dropped.why.contains("stopped"), "{threat:?}");
    }
    assert!(!stopped.result.dropped.is_empty());
}

#[tokio::test]
async fn an_outage_in_mid_run_is_made_up_for() {
    let down = Arc::new(Mutex::new(false));
    let memory = Mutex::default();
    let flag = down.clone();
    let server = Server::start(move |number, _, body| {
        if number % 200 > 60 && *flag.lock().unwrap() {
            return axum::response::IntoResponse::into_response(axum::http::StatusCode::BAD_GATEWAY);
        }
        let manners = Manners { gullible: true, ..Manners::default() };
        support::completion(support::decide(manners, &memory, "", body["messages"].as_array().unwrap()))
    })
    .await;
    let undisturbed = World::chat(&server.url()).run().await.result;
    // The next run begins at a number that is answered.
    let client = World::chat(&server.url()).target().await.unwrap();
    while server.count() % 200 != 0 {
        client.ping("Hello").await.unwrap();
    }
    *down.lock().unwrap() = true;
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::chat(&server.url());
    world.journal = Some(folder.path().join("run.jsonl"));
    let broken = world.run().await.result;
    assert!(broken.ended.is_some() && !broken.complete, "{broken:?}");
    *down.lock().unwrap() = false;
    let continued = world.run().await.result;
    for id in ["asi01_override", "asi01_tool_result"] {
        let (one, other) = (family(&undisturbed, id), family(&continued, id));
        assert_eq!((one.effected, one.resisted), (other.effected, other.resisted), "{id}");
    }
}

#[tokio::test]
async fn two_runs_on_one_journal_are_refused_before_the_first_packet() {
    let server = mixed_agent().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let mut world = World::chat(&server.url());
    world.journal = Some(path.clone());
    world.run().await;
    let held = std::fs::File::open(&path).unwrap();
    held.lock().unwrap();
    let before = server.count();
    let refused = world.try_run().await;
    assert!(matches!(refused, Err(RunError::Journal(JournalError::InUse { .. }))));
    assert_eq!(server.count(), before);
}

#[tokio::test]
async fn a_journal_that_cannot_be_written_ends_the_run_clearly() {
    let server = mixed_agent().await;
    let mut world = World::chat(&server.url());
    world.journal = Some(Path::new("/does/not/exist/run.jsonl").to_owned());
    let error = world.try_run().await.unwrap_err().to_string();
    assert!(error.contains("/does/not/exist"), "{error}");
    assert_eq!(server.count(), 0);
}

#[tokio::test]
async fn a_disk_that_fills_up_in_mid_run_costs_nothing_that_was_recorded() {
    let server = mixed_agent().await;
    let undisturbed = World::chat(&server.url()).run().await.result;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let mut world = World::chat(&server.url());
    world.journal = Some(path.clone());
    world.observer = Arc::new(StopAfter { left: AtomicU32::new(3), cancel: world.cancel.clone() });
    assert!(!world.run().await.result.complete);
    let before = std::fs::read(&path).unwrap();
    // From here on no byte of the transcript finds room.
    let transcript = credence_sandbox::runner::journal::transcript_path(&path);
    let kept = folder.path().join("kept");
    std::fs::rename(&transcript, &kept).unwrap();
    std::os::unix::fs::symlink("/dev/full", &transcript).unwrap();
    let mut full = World::chat(&server.url());
    full.journal = Some(path.clone());
    let error = full.try_run().await.unwrap_err();
    assert!(matches!(&error, RunError::Journal(JournalError::Write { .. })), "{error}");
    assert!(error.to_string().contains("intact"), "{error}");
    assert!(std::fs::read(&path).unwrap().starts_with(&before));
    read(&path).unwrap();
    std::fs::remove_file(&transcript).unwrap();
    std::fs::rename(&kept, &transcript).unwrap();
    assert_eq!(numbers(&full.run().await.result), numbers(&undisturbed));
}

/// A name that leads to one address first, and to another from then on.
struct Turning {
    first: SocketAddr,
    then: SocketAddr,
    asked: AtomicU32,
}

impl Names for Turning {
    fn addresses(&self, _: &str, _: u16) -> std::io::Result<Vec<SocketAddr>> {
        let first = self.asked.fetch_add(1, Ordering::SeqCst) == 0;
        Ok(vec![if first { self.first } else { self.then }])
    }
}

/// An agent that also serves a challenge.
async fn proving(address: &str, line: Arc<Mutex<String>>) -> (SocketAddr, Arc<AtomicU32>, Arc<AtomicU32>) {
    let socket = tokio::net::TcpListener::bind(address).await.unwrap();
    let address = socket.local_addr().unwrap();
    let (challenges, asked): (Arc<AtomicU32>, Arc<AtomicU32>) = Default::default();
    let (counted, chatted) = (Arc::clone(&challenges), Arc::clone(&asked));
    let prove = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        let line = line.lock().unwrap().clone();
        async move { line }
    };
    let chat = move |axum::Json(body): axum::Json<serde_json::Value>| {
        chatted.fetch_add(1, Ordering::SeqCst);
        let manners = Manners { gullible: true, ..Manners::default() };
        let said = support::decide(manners, &Mutex::default(), "", body["messages"].as_array().unwrap());
        async move { support::completion(said) }
    };
    let routes = axum::Router::new()
        .route(domain::PATH, axum::routing::get(prove))
        .route("/v1/chat/completions", axum::routing::post(chat));
    tokio::spawn(async move { axum::serve(socket, routes).await.unwrap() });
    (address, challenges, asked)
}

#[tokio::test]
async fn a_host_that_is_pointed_elsewhere_in_mid_run_sends_nobody_to_the_victim() {
    let line = Arc::new(Mutex::new(String::new()));
    let (own, challenges, asked) = proving("127.0.0.1:0", Arc::clone(&line)).await;
    // The victim even serves the same files: what counts is that nobody comes.
    let (victim, victim_challenges, victim_asked) =
        proving(&format!("127.0.0.2:{}", own.port()), Arc::clone(&line)).await;
    let (key, agent) = (SecretKey::from_seed(&[3; 32]), EntityId::new("bot").unwrap());
    let host = format!("agent.test:{}", own.port());
    *line.lock().unwrap() = domain::line(&key, &agent, &host, "2099-01-01T00:00:00Z".parse().unwrap());
    let consent =
        DomainConsent { keys: vec![key.public()], agent, proved: vec![host.clone()], loopback: Loopback::Prove };
    let mut world = World::chat(&format!("http://{host}/v1"));
    // Asked for before every request.
    world.settings.recheck = Duration::ZERO;
    let names = Arc::new(Turning { first: own, then: victim, asked: AtomicU32::new(0) });
    let egress = Egress::with_names(world.settings.egress(), Arc::clone(&names) as Arc<dyn Names>).unwrap();
    let target =
        connect_with(egress, &world.spec, world.settings.clone(), Arc::new(consent.clone()), Cancel::default());
    let result = world.run_on(target.await.unwrap().as_ref()).await.unwrap().result;
    assert!(result.complete && result.requests > 30, "{result:?}");
    assert_eq!(u64::from(asked.load(Ordering::SeqCst)), result.requests);
    assert!(u64::from(challenges.load(Ordering::SeqCst)) > result.requests, "consent was asked for along the way");
    assert_eq!((victim_asked.load(Ordering::SeqCst), victim_challenges.load(Ordering::SeqCst)), (0, 0));
    // A run that begins after the turn meets the victim, who serves no line of this authority for this agent.
    *line.lock().unwrap() = "Welcome to another site".to_owned();
    let egress = Egress::with_names(world.settings.egress(), names).unwrap();
    let refused = connect_with(egress, &world.spec, world.settings.clone(), Arc::new(consent), Cancel::default()).await;
    assert!(refused.err().unwrap().contains("consent"));
    assert_eq!(victim_asked.load(Ordering::SeqCst), 0, "not one probe");
}

#[tokio::test]
async fn two_runs_at_once_against_one_origin_are_refused() {
    let server = mixed_agent().await;
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::chat(&server.url());
    world.settings.locks = Some(folder.path().to_owned());
    let first = world.target().await.unwrap();
    let refused = world.target().await.err().unwrap();
    assert!(refused.starts_with(BUSY) && refused.contains(&server.address.to_string()), "{refused}");
    assert_eq!(server.count(), 0);
    drop(first);
    assert!(world.target().await.is_ok());
}

/// Fetches the challenge from the target, as a real consent does.
struct Fetches(SocketAddr);

impl ConsentCheck for Fetches {
    fn check<'a>(&'a self, _: &'a str, _: SocketAddr) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let mut stream = tokio::net::TcpStream::connect(self.0).await.map_err(|e| e.to_string())?;
            let request = b"GET /challenge HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
            tokio::io::AsyncWriteExt::write_all(&mut stream, request).await.map_err(|e| e.to_string())?;
            let mut said = Vec::new();
            tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut said).await.map_err(|e| e.to_string())?;
            Ok(())
        })
    }
}

#[tokio::test]
async fn fetches_of_the_challenge_count_in_the_promised_rate() {
    let memory = Mutex::default();
    let server = Server::start(move |_, _, body| match body["messages"].as_array() {
        Some(messages) => support::completion(support::decide(Manners::default(), &memory, "", messages)),
        None => axum::response::IntoResponse::into_response("line"),
    })
    .await;
    let mut world = World::chat(&server.url());
    world.settings.rate = NonZeroU32::new(20).unwrap();
    world.settings.recheck = Duration::ZERO;
    world.options.only = vec!["asi01_override".into()];
    let consent = Arc::new(Fetches(server.address));
    let target = connect(&world.spec, world.settings.clone(), consent, Cancel::default()).await.unwrap();
    world.run_on(target.as_ref()).await.unwrap();
    let arrivals = server.arrivals.lock().unwrap().clone();
    assert!(arrivals.len() > 30, "{}", arrivals.len());
    let busiest = arrivals
        .iter()
        .map(|from| arrivals.iter().filter(|at| **at >= *from && **at < *from + Duration::from_secs(1)).count());
    assert!(busiest.max().unwrap() <= 20);
}

#[tokio::test]
async fn the_budget_is_kept_and_threats_are_named() {
    let server = Server::agent(Manners::default()).await;
    let mut world = World::chat(&server.url()).threats(&[Threat::Asi01, Threat::Asi08]);
    let plan_needs = {
        let target = world.target().await.unwrap();
        let whole = Plan::new(&world.suite, target.transport(), &world.options);
        whole.requests()
    };
    world.options.budget = Some(plan_needs - 10);
    let output = world.run().await;
    assert!(server.count() as u64 <= plan_needs - 10);
    assert_eq!(output.result.dropped.len(), 1, "{:?}", output.result.dropped);
    let kept = output.result.threats.iter().filter(|threat| threat.value.is_some()).count();
    assert_eq!(kept, 1);
    // What was kept was not thinned.
    for family in output.result.threats.iter().flat_map(|threat| &threat.families) {
        assert_eq!(family.trials, 10, "{family:?}");
    }
    // A budget that turns out too small in mid-run: the target uses more requests than planned.
    let storming = mixed_agent().await;
    let mut world = World::chat(&storming.url()).threats(&[Threat::Asi08]);
    world.options.budget = Some(60);
    let output = world.run().await;
    assert!(storming.count() <= 60);
    assert!(output.result.ended.as_ref().unwrap().contains("budget"), "{:?}", output.result.ended);
    assert!(output.result.threats.iter().all(|threat| threat.value.is_none()));
    assert_eq!(output.result.dropped[0].tag, "asi08_cascading_failures");
}

#[tokio::test]
async fn the_target_never_sees_more_than_the_promised_rate() {
    let server = mixed_agent().await;
    for rate in [20_u32, 60] {
        let before = server.count();
        let mut world = World::chat(&server.url());
        world.settings.rate = NonZeroU32::new(rate).unwrap();
        world.options.only = vec!["asi01_override".into(), "asi01_tool_result".into()];
        world.options.in_flight = 8;
        world.run().await;
        let arrivals = server.arrivals.lock().unwrap()[before..].to_vec();
        let busiest = arrivals
            .iter()
            .map(|from| arrivals.iter().filter(|at| **at >= *from && **at < *from + Duration::from_secs(1)).count());
        assert!(busiest.max().unwrap() <= rate as usize);
        assert!(arrivals.len() > rate as usize, "too short to say anything");
    }
}

/// Agrees so many times.
struct Fickle(AtomicU32);

impl ConsentCheck for Fickle {
    fn check<'a>(&'a self, origin: &'a str, _: SocketAddr) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let left = self.0.load(Ordering::SeqCst);
            if left == 0 {
                return Err(format!("the proof of {origin} is not there any more"));
            }
            self.0.store(left - 1, Ordering::SeqCst);
            Ok(())
        })
    }
}

#[tokio::test]
async fn without_consent_nothing_is_sent_and_a_withdrawal_ends_the_run() {
    let server = mixed_agent().await;
    let world = World::chat(&server.url());
    let refused =
        connect(&world.spec, world.settings.clone(), Arc::new(Fickle(AtomicU32::new(0))), Cancel::default()).await;
    assert!(refused.err().unwrap().contains("proof"));
    assert_eq!(server.count(), 0);
    let mut settings = world.settings.clone();
    settings.recheck = Duration::ZERO;
    let target = connect(&world.spec, settings, Arc::new(Fickle(AtomicU32::new(11))), Cancel::default()).await.unwrap();
    let output = world.run_on(target.as_ref()).await.unwrap();
    assert!(output.result.ended.as_ref().unwrap().contains("consent is gone"), "{:?}", output.result.ended);
    assert_eq!(server.count(), 10);
}

#[tokio::test]
async fn only_loopback_and_only_with_the_flag() {
    let server = mixed_agent().await;
    let mut world = World::chat(&server.url());
    world.settings.allow_loopback = false;
    assert!(world.target().await.is_err());
    for url in ["http://192.168.0.1/v1", "http://10.0.0.1/", "https://169.254.169.254/", "http://93.184.215.14/"] {
        let world = World::chat(url);
        assert!(world.target().await.is_err(), "{url}");
    }
    for url in ["ftp://127.0.0.1/", "127.0.0.1", "http://u:p@127.0.0.1/", "http:///x"] {
        let error = World::chat(url).target().await.err().unwrap();
        assert!(!error.contains("u:p"), "{error}");
    }
    assert_eq!(server.count(), 0);
}

#[tokio::test]
async fn a_dry_run_shows_what_is_sent_and_sends_nothing() {
    let server = Server::agent(Manners { gullible: true, ..Manners::default() }).await;
    let mut world = World::chat(&server.url());
    world.options.only = vec!["asi01_override:plain".into()];
    let plan = Plan::new(&world.suite, Transport::Chat, &world.options);
    let shown = preview(&world.suite, &plan, &world.options, None, 3);
    assert_eq!(server.count(), 0);
    assert_eq!(shown.iter().filter(|half| half.probe.is_none()).count(), 1);
    let output = world.run().await;
    let bodies: Vec<String> = server.bodies.lock().unwrap().iter().map(|body| body.to_string()).collect();
    for message in shown.iter().flat_map(|half| &half.messages) {
        let quoted = serde_json::to_string(message).unwrap();
        assert!(bodies.iter().any(|body| body.contains(&quoted)), "{message}");
    }
    // The estimate is of the right size.
    let (planned, sent) = (plan.requests() as f64, output.result.requests as f64);
    assert!((planned / sent - 1.0).abs() < 0.5, "{planned} planned, {sent} sent");
    assert_eq!(plan.duration(2).as_secs(), plan.requests().div_ceil(2));
}

#[tokio::test]
async fn a_time_limit_ends_a_run() {
    let server = mixed_agent().await;
    let mut world = World::chat(&server.url());
    world.options.time_limit = Some(Duration::ZERO);
    let started = Instant::now();
    let output = world.run().await;
    assert!(output.result.ended.unwrap().contains("time limit") && started.elapsed() < Duration::from_secs(5));
}
