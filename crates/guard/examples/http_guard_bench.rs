//! What a guard adds to a call over streamable HTTP: a tool server called directly and through a guard, in one run.
//!
//! `cargo run --release -p credence-guard --example http_guard_bench -- [CALLS] [ROUNDS]`
//!
//! The server is this program itself, asked with `serve`, and the guard is this program too, asked with `guard`: what `credence guard
//! --upstream URL --listen ADDRESS` runs. One client with one connection that stays open; each answer is one JSON document. What is
//! added is the difference of the percentiles.

#![allow(clippy::unwrap_used, reason = "a benchmark ends where it cannot go on")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use credence_guard::{
    Caller, Guard, GuardMode, Settings,
    http::HttpSettings,
    oversight::Rules,
    service,
    settings::{DEFAULT_MESSAGE_BYTES, DEFAULT_RECEIPT_BYTES},
};
use credence_protocol::{EntityId, SecretKey};
use serde_json::{Value, json};

/// As in the `credence` program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("serve") => serve(&args[1]),
        Some("guard") => guard(&args[1], &args[2], Path::new(&args[3])),
        _ => {
            let number = |n: usize, default| args.get(n).map_or(default, |text| text.parse().unwrap());
            bench(number(0, 2_000), number(1, 3));
        }
    }
}

fn serve(address: &str) {
    for connection in TcpListener::bind(address).unwrap().incoming() {
        let mut connection = Http::over(connection.unwrap());
        std::thread::spawn(move || {
            while let Some(body) = connection.read() {
                let asked: Value = serde_json::from_slice(&body).unwrap();
                let n = asked["params"]["arguments"]["n"].as_u64().unwrap_or_default();
                let structured =
                    json!({"temperature": 10 + n % 20, "humidity": 40 + n % 30, "city": format!("city-{}", n % 50)});
                let result = json!({"content": [{"type": "text", "text": structured.to_string()}], "structuredContent": structured});
                let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}).to_string();
                connection.write("HTTP/1.1 200 OK\r\ncontent-type: application/json", &answer);
            }
        });
    }
}

fn guard(listen: &str, upstream: &str, state: &Path) {
    let settings = Settings {
        name: "bench".to_owned(),
        provider: EntityId::new("bench").unwrap(),
        rules: Rules::of_mode(GuardMode::Flag),
        caller: Caller { agent: Some(EntityId::new("bench").unwrap()), ..Caller::default() },
        session: "bench".to_owned(),
        verify: credence_verify::Mode::Adaptive,
        profiles: Default::default(),
        calibrations: Vec::new(),
        state: state.to_owned(),
        max_receipt_bytes: DEFAULT_RECEIPT_BYTES,
        quarantine: Default::default(),
        max_message_bytes: DEFAULT_MESSAGE_BYTES,
        explain_refusal: false,
        vantage: credence_protocol::receipt::Vantage::SameUser,
    };
    let http =
        HttpSettings { upstream: format!("http://{upstream}/mcp").parse().unwrap(), allowed_origins: Vec::new() };
    let guard = Guard::start(settings, SecretKey::generate().unwrap()).unwrap();
    service::run_http(&guard, None, http, listen).unwrap();
}

/// A connection that stays open, on either side.
struct Http {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

impl Http {
    fn over(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        Self { reader: BufReader::new(stream.try_clone().unwrap()), writer: stream }
    }

    /// The body of the next request or response; `None` at the end.
    fn read(&mut self) -> Option<Vec<u8>> {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body).ok()?;
        Some(body)
    }

    fn write(&mut self, head: &str, body: &str) {
        let text = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        self.writer.write_all(text.as_bytes()).unwrap();
    }
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An address that nobody listens on.
fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn connected(address: SocketAddr) -> Http {
    let since = Instant::now();
    loop {
        match TcpStream::connect(address) {
            Ok(stream) => return Http::over(stream),
            Err(error) => assert!(since.elapsed() < Duration::from_secs(10), "{address}: {error}"),
        }
    }
}

fn latencies(http: &mut Http, address: SocketAddr, calls: usize) -> Vec<Duration> {
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream"
    );
    let one = |n: usize| {
        let arguments = json!({"city": format!("city-{}", n % 50), "n": n});
        let params = json!({"name": "get_weather", "arguments": arguments});
        let asked = json!({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params}).to_string();
        let since = Instant::now();
        http.write(&head, &asked);
        let body = http.read().unwrap();
        let took = since.elapsed();
        assert!(body.windows(8).any(|part| part == b"\"result\""), "{}", String::from_utf8_lossy(&body));
        took
    };
    (0..calls).map(one).collect()
}

fn bench(calls: usize, rounds: usize) {
    let (me, state) = (std::env::current_exe().unwrap(), tempfile::tempdir().unwrap());
    let (server, guarded) = (free(), free());
    let _server = Running(Command::new(&me).args(["serve", &server.to_string()]).spawn().unwrap());
    let mut direct = connected(server);
    let mut command = Command::new(&me);
    command.args(["guard", &guarded.to_string(), &server.to_string()]).arg(state.path()).stderr(Stdio::null());
    let _guard = Running(command.spawn().unwrap());
    let mut through = connected(guarded);
    // Warm, and learned.
    latencies(&mut direct, server, 500);
    latencies(&mut through, guarded, 500);
    println!("round  direct p50/p99 µs   guarded p50/p99 µs   added p50/p99 µs");
    for round in 1..=rounds {
        let (mut d, mut g) = (latencies(&mut direct, server, calls), latencies(&mut through, guarded, calls));
        d.sort();
        g.sort();
        let at = |of: &[Duration], q: f64| of[((of.len() - 1) as f64 * q) as usize].as_secs_f64() * 1e6;
        let (d50, d99, g50, g99) = (at(&d, 0.5), at(&d, 0.99), at(&g, 0.5), at(&g, 0.99));
        println!("{round:>5}  {d50:>8.0} / {d99:<8.0} {g50:>8.0} / {g99:<8.0} {:>8.0} / {:.0}", g50 - d50, g99 - d99);
    }
}
