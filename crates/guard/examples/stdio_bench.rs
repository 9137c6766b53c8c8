//! What a guard adds to a call: a stdio tool server called directly and through a guard, in one run.
//!
//! `cargo run --release -p credence-guard --example stdio_bench -- [CALLS] [ROUNDS]`
//!
//! The server is this program itself, asked with `serve`: it answers at once, or after a millisecond, as a quick tool does.
//! Where the machine is virtual and idle in between, waking a halted processor is a good part of every hop, guarded or not.
//! The guard is this program too, asked with `guard`: what `credence guard` runs.

#![allow(clippy::unwrap_used, reason = "a benchmark ends where it cannot go on")]

use std::{
    io::{self, BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use credence_guard::{
    Caller, Guard, GuardMode, Settings,
    oversight::Rules,
    quarantine::QuarantineSettings,
    settings::{DEFAULT_MESSAGE_BYTES, DEFAULT_RECEIPT_BYTES},
    stdio,
};
use credence_protocol::{EntityId, SecretKey};
use credence_verify::ProfileBuilder;
use serde_json::{Value, json};

/// Calls under way at once, where the rate is measured.
const UNDER_WAY: usize = 64;

/// As in the `credence` program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("serve") => serve(Duration::from_micros(args[1].parse().unwrap())),
        Some("guard") => guard(Path::new(&args[1]), &args[2], args.get(3).map(String::as_str)),
        _ => {
            let number = |n: usize, default| args.get(n).map_or(default, |text| text.parse().unwrap());
            let (calls, rounds) = (number(0, 3_000), number(1, 4));
            bench("0", calls, rounds);
            bench("1000", calls / 3, rounds);
            bench_quarantine(calls, rounds);
        }
    }
}

/// As `credence guard --mode flag --agent bench -- stdio_bench serve`. With `doubted` every result is blocked by a profile, and kept for
/// review unless it is `doubted, off`.
fn guard(state: &Path, takes: &str, doubted: Option<&str>) {
    let profile =
        ProfileBuilder::default().expected_latency_ms(0.0, 1e9).has_network_io(false).required_fields(["absent"]);
    let settings = Settings {
        name: "bench".to_owned(),
        provider: EntityId::new("bench").unwrap(),
        rules: Rules::of_mode(GuardMode::Flag),
        caller: Caller { agent: Some(EntityId::new("bench").unwrap()), ..Caller::default() },
        session: "bench".to_owned(),
        verify: credence_verify::Mode::Adaptive,
        profiles: doubted.map(|_| ("get_weather".to_owned(), profile)).into_iter().collect(),
        calibrations: Vec::new(),
        state: state.to_owned(),
        max_receipt_bytes: DEFAULT_RECEIPT_BYTES,
        quarantine: if doubted == Some("off") { QuarantineSettings::off() } else { QuarantineSettings::default() },
        max_message_bytes: DEFAULT_MESSAGE_BYTES,
        explain_refusal: false,
        vantage: credence_protocol::receipt::Vantage::SameUser,
    };
    let guard = Guard::start(settings, SecretKey::generate().unwrap()).unwrap();
    let me = std::env::current_exe().unwrap();
    let server = stdio::Upstream::Command(me.to_str().unwrap().to_owned(), vec!["serve".to_owned(), takes.to_owned()]);
    stdio::run(&guard, server).unwrap();
    guard.close().unwrap();
}

fn serve(takes: Duration) {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        let Some(id) = message.get("id") else { continue };
        if !takes.is_zero() {
            std::thread::sleep(takes);
        }
        let n = message["params"]["arguments"]["n"].as_u64().unwrap_or_default();
        let structured =
            json!({"temperature": 10 + n % 20, "humidity": 40 + n % 30, "city": format!("city-{}", n % 50)});
        let result =
            json!({"content": [{"type": "text", "text": structured.to_string()}], "structuredContent": structured});
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string() + "\n";
        if out.write_all(answer.as_bytes()).and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}

struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    fn send(&mut self, n: usize) {
        let arguments = json!({"city": format!("city-{}", n % 50), "n": n});
        let params = json!({"name": "get_weather", "arguments": arguments});
        let line = json!({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params}).to_string() + "\n";
        self.input.write_all(line.as_bytes()).unwrap();
    }

    fn receive(&mut self) {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "the peer ended");
        assert!(line.contains("\"result\""), "{line}");
    }

    /// One call after another.
    fn latencies(&mut self, calls: usize) -> Vec<Duration> {
        let one = |n| {
            let since = Instant::now();
            self.send(n);
            self.receive();
            since.elapsed()
        };
        (0..calls).map(one).collect()
    }

    /// Calls a second with some always under way.
    fn rate(&mut self, calls: usize) -> f64 {
        let since = Instant::now();
        (0..UNDER_WAY).for_each(|n| self.send(n));
        for n in UNDER_WAY..calls {
            self.receive();
            self.send(n);
        }
        (0..UNDER_WAY).for_each(|_| self.receive());
        calls as f64 / since.elapsed().as_secs_f64()
    }

    fn stop(mut self) {
        drop(self.input);
        self.child.wait().unwrap();
    }
}

fn bench(takes: &str, calls: usize, rounds: usize) {
    let me = std::env::current_exe().unwrap();
    let state = tempfile::tempdir().unwrap();
    let mut direct = Peer::start(Command::new(&me).args(["serve", takes]));
    let mut guarded = Peer::start(Command::new(&me).arg("guard").arg(state.path()).arg(takes));
    // Warm, and learned.
    direct.latencies(500);
    guarded.latencies(500);
    println!("the tool takes {takes} µs");
    println!("round  direct p50/p99 µs   guarded p50/p99 µs   added p50/p99 µs   direct/guarded calls a second");
    for round in 1..=rounds {
        let (mut d, mut g) = (direct.latencies(calls), guarded.latencies(calls));
        d.sort();
        g.sort();
        let at = |of: &[Duration], q: f64| of[((of.len() - 1) as f64 * q) as usize].as_secs_f64() * 1e6;
        let (d50, d99, g50, g99) = (at(&d, 0.5), at(&d, 0.99), at(&g, 0.5), at(&g, 0.99));
        // A server that takes its time one call after another has a rate of its own.
        let more = if takes == "0" { 5 * calls } else { UNDER_WAY };
        let (rate_d, rate_g) = (direct.rate(more), guarded.rate(more));
        let added = format!("{:.0} / {:.0}", g50 - d50, g99 - d99);
        println!(
            "{round:>5}  {d50:>8.0} / {d99:<8.0} {g50:>8.0} / {g99:<8.0} {added:>16}   {rate_d:>10.0} / {rate_g:.0}"
        );
    }
    direct.stop();
    guarded.stop();
}

/// What keeping a blocked result for review adds, where every result is blocked.
fn bench_quarantine(calls: usize, rounds: usize) {
    let me = std::env::current_exe().unwrap();
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let start = |folder: &tempfile::TempDir, quarantine: &str| {
        Peer::start(Command::new(&me).arg("guard").arg(folder.path()).args(["0", quarantine]))
    };
    let (mut without, mut with) = (start(&folders[0], "off"), start(&folders[1], "on"));
    without.latencies(500);
    with.latencies(500);
    println!("every result is blocked\nround  not kept p50/p99 µs   kept p50/p99 µs   added p50/p99 µs");
    for round in 1..=rounds {
        let (mut w, mut k) = (without.latencies(calls), with.latencies(calls));
        w.sort();
        k.sort();
        let at = |of: &[Duration], q: f64| of[((of.len() - 1) as f64 * q) as usize].as_secs_f64() * 1e6;
        let (w50, w99, k50, k99) = (at(&w, 0.5), at(&w, 0.99), at(&k, 0.5), at(&k, 0.99));
        println!("{round:>5}  {w50:>8.0} / {w99:<8.0} {k50:>8.0} / {k99:<8.0} {:>6.0} / {:.0}", k50 - w50, k99 - w99);
    }
    without.stop();
    with.stop();
}
