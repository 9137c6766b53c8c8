//! What a guard does with a result of some megabytes, step by step.
//!
//! `cargo run --release -p credence-guard --example large_results -- [MEGABYTES] [ROUNDS]`
//!
//! Two results: one text of lines, as a file reader gives, and a list of records, as a database gives, as structure and as the same
//! text. Each row is the best of the rounds. *All of it* is what stands between the last byte from the server and the first byte to the
//! client; the steps are measured on their own, and most of them are parts of it.

#![allow(clippy::unwrap_used, reason = "a benchmark ends where it cannot go on")]

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use credence_guard::{
    Caller, Guard, GuardMode, Settings, content, message,
    oversight::Rules,
    pending::PendingRequests,
    proxy::{self, JudgedBatch},
    received,
    settings::{DEFAULT_MESSAGE_BYTES, DEFAULT_RECEIPT_BYTES},
};
use credence_protocol::{
    EntityId, SecretKey,
    receipt::{Exact, Salts, Views, forms_of_result},
};
use credence_receipts::parts::judged_part;
use serde_json::{Value, json, value::RawValue};

/// As in the `credence` program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |n: usize, default| args.get(n).map_or(default, |text| text.parse::<f64>().unwrap());
    let (bytes, rounds) = ((number(0, 5.0) * 1e6) as usize, number(1, 7.0) as usize);
    let line =
        |n: usize| format!("{n:>7}: the {} word of a file that somebody reads, with \"quotes\" now and then\n", n % 97);
    let text: String = (0..bytes / line(0).len()).map(line).collect();
    measure("a text", &json!({ "content": [{ "type": "text", "text": text }] }), rounds);
    let record = |n: usize| json!({ "id": n, "name": format!("customer {n}"), "city": "Oslo", "balance": n as f64 * 1.25, "active": n.is_multiple_of(3) });
    let each = record(100_000).to_string().len() + 1;
    let rows: Vec<Value> = (0..bytes / each / 2).map(record).collect();
    let rows = json!({ "rows": rows });
    let result = json!({ "content": [{ "type": "text", "text": rows.to_string() }], "structuredContent": rows });
    measure("records, as structure and text", &result, rounds);
}

fn best<T>(rounds: usize, mut run: impl FnMut() -> T) -> Duration {
    (0..rounds)
        .map(|_| {
            let since = Instant::now();
            black_box(run());
            since.elapsed()
        })
        .min()
        .unwrap_or_default()
}

fn measure(name: &str, result: &Value, rounds: usize) {
    let raw = RawValue::from_string(result.to_string()).unwrap();
    let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}}", raw.get());
    println!("{name}, {:.1} MB", line.len() as f64 / 1e6);
    let show = |step: &str, took: Duration| println!("  {step:<40} {:>7.1} ms", took.as_secs_f64() * 1e3);
    show("make sure that every reader reads the same", best(rounds, || received::receive(line.as_bytes(), true)));
    show("find the answer in the message", best(rounds, || matches!(message::parse(&line), message::Parsed::One(_))));
    show("parse the result", best(rounds, || Exact::of(&raw).unwrap()));
    let exact = Exact::of(&raw).unwrap();
    show("views of the result", best(rounds, || forms_of_result(&exact)));
    let (forms, salts) = (forms_of_result(&exact), Salts::generate().unwrap());
    show("commit to the views", best(rounds, || Views::commit(&salts.result, &forms)));
    show("the value to be judged", best(rounds, || content::value(&judged_part(&exact)).unwrap()));
    let value = content::value(&judged_part(&exact)).unwrap();
    let engine = credence_verify::Engine::builder().build();
    let call = credence_verify::Call::new("read", &value);
    show("judge it", best(rounds, || engine.verify(&call).unwrap()));

    let state = tempfile::tempdir().unwrap();
    let guard = Guard::start(settings(state.path()), SecretKey::generate().unwrap()).unwrap();
    let all = best(rounds, || {
        let mut requests = PendingRequests::default();
        let asked = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{"n":1}}}"#;
        let message::Parsed::One(asked) = message::parse(asked) else { return 0 };
        let since = Instant::now();
        requests.request(&asked, &Caller::default(), "bench", since);
        let taken = proxy::take_in(&guard, line.as_bytes());
        let mut batch: JudgedBatch<'_> = Vec::new();
        let piece = proxy::from_server(&guard, &mut requests, &taken, since, &mut batch);
        guard.record(&mut batch);
        proxy::render(&piece, &batch).map_or(0, |text| text.len())
    });
    show("all of it", all);
}

fn settings(state: &std::path::Path) -> Settings {
    Settings {
        name: "bench".to_owned(),
        provider: EntityId::new("bench").unwrap(),
        rules: Rules::of_mode(GuardMode::Flag),
        caller: Caller::default(),
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
    }
}
