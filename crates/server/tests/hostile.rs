//! The service under hostile load: many tokens, tools and names, slow bodies, heads and readers, 250 addresses. Memory stays below
//! its bound, honest callers are served, and `admin` always is. Until everyone was answered often enough; for five minutes with
//! `LONG_TESTS`, which then also holds how long others wait.
//!
//! Honest callers have a thread of their own: on one with the hostile ones, their times would be those of the queue inside this test.
#![allow(clippy::unwrap_used, missing_docs, reason = "helpers of tests: a failing unwrap is how a test says no")]

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use credence_protocol::{EntityId, Timestamp};
use credence_server::tokens::{NewToken, Scope, TokenFile, TokenStore};
use credence_testing::{PATIENCE, Service, now, until};
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpSocket, TcpStream},
    time::{sleep, timeout},
};

/// Callers that mean harm.
const ADDRESSES: u32 = 250;
const TOKENS: usize = 48;
/// With `LONG_TESTS` no honest request may wait longer. Without, only one that hangs fails: the machine may be busy with other things.
const LONGEST: Duration = Duration::from_secs(10);
/// Answers to each honest caller, before the load and under it, without `LONG_TESTS`.
const ANSWERS: usize = 60;

const ENGINE_MIB: u64 = 32;
const BODY_MIB: u64 = 32;
const CONNECTIONS: u64 = 4_096;
/// As `docs/service.md` states it, in MiB.
const BOUND_MIB: u64 = 2 * ENGINE_MIB + BODY_MIB * 3 + 128 + CONNECTIONS * 32 / 1024 + 256;

struct Target {
    to: SocketAddr,
    /// No honest request may wait longer.
    longest: Duration,
    end: AtomicBool,
    /// Requests of those who mean harm that were answered, and how.
    served: AtomicU64,
    refused: AtomicU64,
}

impl Target {
    fn goes_on(&self) -> bool {
        !self.end.load(Relaxed)
    }

    fn count(&self, status: Option<u16>) {
        match status {
            Some(200..=299) => self.served.fetch_add(1, Relaxed),
            Some(_) => self.refused.fetch_add(1, Relaxed),
            None => 0,
        };
    }
}

/// A connection that asks and waits.
struct Client {
    from: Ipv4Addr,
    to: SocketAddr,
    stream: Option<BufReader<TcpStream>>,
}

impl Client {
    fn new(from: Ipv4Addr, to: SocketAddr) -> Self {
        Self { from, to, stream: None }
    }

    async fn connected(&mut self) -> std::io::Result<&mut BufReader<TcpStream>> {
        if self.stream.is_none() {
            let socket = TcpSocket::new_v4()?;
            socket.bind((self.from, 0).into())?;
            self.stream = Some(BufReader::new(socket.connect(self.to).await?));
        }
        Ok(self.stream.as_mut().unwrap())
    }

    /// The status and body of the answer; none where the connection was closed.
    async fn ask(&mut self, request: &[u8]) -> Option<(u16, Vec<u8>)> {
        let answer = self.try_ask(request).await;
        if !matches!(&answer, Ok((_, _, false))) {
            self.stream = None;
        }
        answer.ok().map(|(status, body, _)| (status, body))
    }

    async fn try_ask(&mut self, request: &[u8]) -> std::io::Result<(u16, Vec<u8>, bool)> {
        let stream = self.connected().await?;
        stream.get_mut().write_all(request).await?;
        let (mut head, mut length, mut close) = (String::new(), 0, false);
        loop {
            let start = head.len();
            if stream.read_line(&mut head).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            let line = head[start..].trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            length = line.strip_prefix("content-length: ").map_or(length, |value| value.parse().unwrap());
            close |= line == "connection: close";
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        Ok((head[9..12].parse().unwrap(), body, close))
    }
}

fn get(path: &str, token: &str) -> Vec<u8> {
    let bearer = if token.is_empty() { String::new() } else { format!("authorization: Bearer {token}\r\n") };
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{bearer}\r\n").into_bytes()
}

fn post(path: &str, token: &str, body: &str) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// How long requests of one kind took.
#[derive(Default)]
struct Times(Mutex<Vec<Duration>>);

impl Times {
    fn quantile(&self, part: f64) -> Duration {
        let mut times = self.0.lock().unwrap().clone();
        times.sort_unstable();
        times[((times.len() - 1) as f64 * part) as usize]
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn clear(&self) {
        self.0.lock().unwrap().clear();
    }
}

/// Asks steadily, and must be answered each time.
async fn honest(
    target: Arc<Target>,
    what: &'static str,
    from: Ipv4Addr,
    times: Arc<Times>,
    mut request: impl FnMut(u32) -> Vec<u8> + Send,
) -> u32 {
    let mut client = Client::new(from, target.to);
    let mut n = 0;
    while target.goes_on() {
        n += 1;
        let (request, since) = (request(n), Instant::now());
        let longest = target.longest;
        let waited = |_| panic!("{what} waited for {longest:?}");
        let mut answer = timeout(longest, client.ask(&request)).await.unwrap_or_else(waited);
        if answer.is_none() {
            // A connection that was idle may have been closed as the request was on its way.
            answer = timeout(longest, client.ask(&request)).await.unwrap_or_else(waited);
        }
        let (status, body) = answer.unwrap_or_else(|| panic!("{what}: the connection was closed"));
        assert!((200..300).contains(&status), "{what}: {status} {}", String::from_utf8_lossy(&body));
        times.0.lock().unwrap().push(since.elapsed());
        sleep(Duration::from_millis(25)).await;
    }
    n
}

/// New tools with wide results, so that memory grows; now and then a large batch.
async fn greedy_learner(target: Arc<Target>, token: String, seed: u32) {
    let mut client = Client::new(Ipv4Addr::new(127, 0, 2, (seed % 250) as u8 + 1), target.to);
    for n in 0_u32.. {
        if !target.goes_on() {
            return;
        }
        let trace = |n: u32| {
            let result: Map<String, Value> =
                (0..60).map(|key| (format!("{seed} {n} {key}"), json!(format!("text {n}")))).collect();
            json!({ "tool": format!("{seed}-{n}-{}", "x".repeat(400)), "args": { "n": n }, "session_id": format!("{n}"), "result": result })
        };
        let answer = if n % 16 == 0 {
            let traces: Vec<Value> = (0..100).map(|more| trace(n * 1_000 + more)).collect();
            client.ask(&post("/v1/verify/batch", &token, &json!(traces).to_string())).await
        } else {
            client.ask(&post("/v1/verify", &token, &trace(n).to_string())).await
        };
        target.count(answer.map(|(status, _)| status));
        sleep(Duration::from_millis(50)).await;
    }
}

/// A body of which a part comes, and then a byte now and then.
async fn slow_body(target: Arc<Target>, request: Vec<u8>, part: usize, from: Ipv4Addr) {
    while target.goes_on() {
        let mut client = Client::new(from, target.to);
        if let Ok(stream) = client.connected().await {
            let stream = stream.get_mut();
            let _ = stream.write_all(&request).await;
            let _ = stream.write_all(&vec![b' '; part]).await;
            while target.goes_on() && stream.write_all(b" ").await.is_ok() {
                // Until it is answered, which is a refusal.
                let mut answer = [0; 512];
                if timeout(Duration::from_millis(400), stream.read(&mut answer)).await.is_ok() {
                    target.refused.fetch_add(1, Relaxed);
                    break;
                }
            }
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// An address that has ever new answers signed, and begins requests that it does not end, or answers that it does not read.
async fn crowd(target: Arc<Target>, number: u32) {
    let from = Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 0, 3, 1)) + number);
    let mut idle = Client::new(from, target.to);
    let mut client = Client::new(from, target.to);
    for n in 0_u32.. {
        if !target.goes_on() {
            return;
        }
        let purpose = ["purchase", "inquiry", "high-value"][n as usize % 3];
        let path =
            format!("/v1/entities/shop/trust-signals?url=https://shop.example/de/{number}/{n}&context={purpose}");
        target.count(client.ask(&get(&path, "")).await.map(|(status, _)| status));
        if n % 16 == 0 {
            idle.stream = None;
            if let Ok(stream) = idle.connected().await {
                let greedy = get("/docs/swagger-ui-bundle.js", "");
                let half = b"GET /v1/agents HTTP/1.1\r\nhost: localhost\r\nx-slow: ".to_vec();
                let _ = stream.get_mut().write_all(if number.is_multiple_of(2) { &greedy } else { &half }).await;
            }
        }
        sleep(Duration::from_millis(250)).await;
    }
}

fn token(store: &TokenFile, name: &str, scope: Scope, at: Timestamp) -> String {
    let new = NewToken { name: EntityId::new(name).unwrap(), scopes: vec![scope], expires_at: None };
    store.create(new, at).unwrap().1
}

fn resident_mib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() >> 10
}

fn metric(service: &Service, name: &str) -> u64 {
    let text = service.get("/metrics").text();
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap().parse().unwrap()
}

#[test]
fn nobody_is_crowded_out() {
    let long = std::env::var_os("LONG_TESTS").is_some();
    let settings = [
        format!("max_engine_mib={ENGINE_MIB}"),
        format!("max_body_memory_mib={BODY_MIB}"),
        format!("max_connections={CONNECTIONS}"),
    ];
    let service = Service::fresh(&settings.each_ref().map(String::as_str));
    service.add_shop();
    let store = TokenFile::in_folder(&service.shell.path("credence-data"));
    let greedy: Vec<String> =
        (0..TOKENS).map(|n| token(&store, &format!("greedy-{n}"), Scope::Verify, now())).collect();
    let bulky: Vec<String> = (0..4).map(|n| token(&store, &format!("bulky-{n}"), Scope::Ingest, now())).collect();
    let mine = token(&store, "honest", Scope::Verify, now());
    until("the tokens are known", || {
        service.get_with("/v1/tags", &[("authorization", &format!("Bearer {mine}"))]).status == 200
    });
    let target = Arc::new(Target {
        to: service.url[7..].parse().unwrap(),
        longest: if long { LONGEST } else { PATIENCE },
        end: AtomicBool::new(false),
        served: AtomicU64::default(),
        refused: AtomicU64::default(),
    });
    let thread = || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (honest_thread, hostile_thread) = (thread(), thread());
    let kinds = ["verify", "answer", "score", "anonymous answer", "admin"];
    let times: Vec<Arc<Times>> = kinds.iter().map(|_| Arc::default()).collect();
    let from = Ipv4Addr::new(127, 0, 1, 1);
    let mut callers = Vec::new();
    {
        let _inside = honest_thread.enter();
        let spawn = |at: usize, from: Ipv4Addr, request: Box<dyn FnMut(u32) -> Vec<u8> + Send>| {
            tokio::spawn(honest(Arc::clone(&target), kinds[at], from, Arc::clone(&times[at]), request))
        };
        let answer = "/v1/entities/shop/trust-signals?url=https://shop.example/de/mine";
        let (t1, t2, t3, admin) = (mine.clone(), mine.clone(), mine.clone(), service.token.clone());
        callers.push(spawn(0, from, Box::new(move |n| {
            let body = json!({ "tool": "weather", "args": { "city": n % 50 }, "result": { "city": n % 50, "temperature": 12 + n % 9, "sky": "clear" } });
            post("/v1/verify", &t1, &body.to_string())
        })));
        callers.push(spawn(1, from, Box::new(move |_| get(answer, &t2))));
        callers.push(spawn(2, from, Box::new(move |_| get("/v1/agents/shop/score", &t3))));
        let own = Ipv4Addr::new(127, 0, 1, 2);
        callers.push(spawn(
            3,
            own,
            Box::new(move |_| get("/v1/entities/shop/trust-signals?url=https://shop.example/de/theirs", "")),
        ));
        callers.push(spawn(
            4,
            from,
            Box::new(move |n| match n % 3 {
                0 => post("/v1/agents", &admin, &json!({ "agent": format!("agent-{n}") }).to_string()),
                1 => post("/v1/verify", &admin, &json!({ "tool": "t", "result": "x".repeat(100_000) }).to_string()),
                _ => get("/v1/agents/shop/explain", &admin),
            }),
        ));
    }
    let answered = || times.iter().all(|times| times.count() >= ANSWERS);
    if long {
        std::thread::sleep(Duration::from_secs(20));
    }
    until("every honest caller is answered", answered);
    let unloaded: Vec<Duration> = times.iter().map(|times| times.quantile(0.99)).collect();
    times.iter().for_each(|times| times.clear());
    {
        let _inside = hostile_thread.enter();
        for (n, token) in greedy.iter().enumerate() {
            let seed = n as u32;
            if n % 3 == 0 {
                tokio::spawn(greedy_learner(Arc::clone(&target), token.clone(), seed));
            } else {
                for _ in 0..6 {
                    let head = format!(
                        "POST /v1/verify HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\ncontent-type: application/json\r\ncontent-length: 4000000\r\n\r\n"
                    );
                    let from = Ipv4Addr::new(127, 0, 2, (n % 250) as u8 + 1);
                    tokio::spawn(slow_body(Arc::clone(&target), head.into_bytes(), 512 * 1024, from));
                }
            }
        }
        for token in &bulky {
            for _ in 0..4 {
                let head = format!(
                    "POST /v1/signals HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\ncontent-type: application/x-ndjson\r\ncontent-length: 4000000\r\n\r\n"
                );
                tokio::spawn(slow_body(Arc::clone(&target), head.into_bytes(), 1, Ipv4Addr::new(127, 0, 2, 200)));
            }
        }
        for number in 0..ADDRESSES {
            tokio::spawn(crowd(Arc::clone(&target), number));
        }
    }
    let (since, mut resident, mut learned) = (Instant::now(), 0, 0);
    let forgotten = || metric(&service, "credence_verify_forgotten{kind=\"tools\"}");
    let at_least = if long { Duration::from_secs(300) } else { Duration::ZERO };
    loop {
        resident = resident.max(resident_mib(service.pid()));
        learned = learned.max(metric(&service, "credence_verify_memory_bytes"));
        // The load was hostile, all of the memory for what was learned was wanted, and everyone was answered.
        let enough = target.refused.load(Relaxed) > 100 && forgotten() > 0 && answered();
        if enough && since.elapsed() >= at_least {
            break;
        }
        assert!(
            since.elapsed() < at_least + PATIENCE,
            "refused {}, forgotten {}",
            target.refused.load(Relaxed),
            forgotten()
        );
        // Between two looks: asking for the metrics is load, too.
        std::thread::sleep(Duration::from_millis(500));
    }
    let load = since.elapsed().as_secs();
    target.end.store(true, Relaxed);
    let counts: Vec<u32> = callers.into_iter().map(|caller| honest_thread.block_on(caller).unwrap()).collect();
    let forgotten = forgotten();
    println!(
        "{load} s: {} hostile requests served, {} refused; {resident} MiB resident of {BOUND_MIB}, {} MiB learned of {ENGINE_MIB}, {forgotten} tools forgotten",
        target.served.load(Relaxed),
        target.refused.load(Relaxed),
        learned >> 20
    );
    for (at, what) in kinds.iter().enumerate() {
        let quantiles = [0.5, 0.99, 1.0].map(|part| times[at].quantile(part));
        println!(
            "{what}: {} requests; p99 unloaded {:?}; loaded p50, p99, most {quantiles:?}",
            counts[at], unloaded[at]
        );
    }
    hostile_thread.shutdown_background();
    assert!(resident < BOUND_MIB, "{resident} MiB");
    assert!(learned <= ENGINE_MIB * 1024 * 1024 / 16 * 17, "{learned}");
    if long {
        for at in 0..kinds.len() {
            let (before, after) = (unloaded[at], times[at].quantile(0.99));
            assert!(
                after <= Duration::from_millis(250) && after <= before * 10,
                "{}: {before:?}, {after:?}",
                kinds[at]
            );
        }
    }
    service.stop().audit_passes();
}
