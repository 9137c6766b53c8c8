//! Many answers of a hostile server through a guard that enforces, and the rule held against what the client got.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

use credence_testing::Shell;
use serde_json::json;

use super::{
    answers::{BREAKS, HTTP, LINES, SPLIT},
    client_run::Figures,
    guarded::{Http, Piped, Server},
    marks_rule::Marks,
    mutate,
    random::Random,
    receipts_rule::recorded,
};

const WINDOW: usize = 50;
/// Connections at once.
const CONNECTIONS: usize = 4;
const ANSWER: Duration = Duration::from_secs(20);

/// What must not arrive unmarked: the words of answer `index`.
fn nonce(seed: u64, index: usize) -> String {
    format!("Nonce{seed:x}q{index}z")
}

/// The nonces in a text.
fn nonces(text: &str) -> Vec<String> {
    let found = text.match_indices("Nonce").filter_map(|(at, _)| {
        let end = text[at..].find('z')?;
        let one = &text[at..=at + end];
        let digits = one.strip_prefix("Nonce")?.strip_suffix('z')?.split_once('q')?;
        (digits.1.parse::<usize>().is_ok() && u64::from_str_radix(digits.0, 16).is_ok()).then(|| one.to_owned())
    });
    found.collect()
}

/// What the server answers to call `index`: first every escape that has a name, then whatever chance makes of them. As Latin-1.
fn answer(seed: u64, index: usize) -> (String, String) {
    let named = |name: &str, text: &str| (name.to_owned(), text.replace("NONCE", &nonce(seed, index)));
    if let Some(answer) = LINES.get(index) {
        return named(answer.name, answer.bytes);
    }
    if let Some(at) = BREAKS.get(index - LINES.len()) {
        let mut bytes = [0; 4];
        let as_latin_1: String = at.encode_utf8(&mut bytes).bytes().map(char::from).collect();
        return named(&format!("a notification split at {at:?}"), &SPLIT.replace('|', &as_latin_1));
    }
    let mut random = Random::new(seed, index);
    let (name, text) = named(&format!("seed {seed:#x}, answer {index}"), LINES[random.below(LINES.len())].bytes);
    let mut bytes: Vec<u8> = text.chars().map(|c| c as u8).collect();
    for _ in 0..random.below(3) {
        mutate::scratch(&mut random, &mut bytes);
    }
    if random.percent(20) {
        let more = LINES[random.below(LINES.len())].bytes.replace("NONCE", &nonce(seed, index));
        let at = random.pick(&["\r", "\n", "", " ", "\u{1e}"]);
        bytes.extend(at.chars().chain(more.chars()).map(|c| c as u8));
    }
    (name, bytes.into_iter().map(char::from).collect())
}

fn call(index: usize, arguments: &serde_json::Value) -> String {
    json!({ "jsonrpc": "2.0", "id": index + 1, "method": "tools/call", "params": { "name": "say", "arguments": arguments } })
        .to_string()
}

fn figures(count: usize, wrong: BTreeMap<String, String>, shown: impl Fn(usize) -> (String, String)) -> Figures {
    let found = wrong.into_iter().map(|(nonce, why)| {
        let index = nonce.trim_end_matches('z').split_once('q').and_then(|(_, index)| index.parse().ok());
        let (name, text) = index.filter(|index| *index < count).map(&shown).unwrap_or_default();
        format!("{name} ({nonce}): {why}\n      {}", text.escape_debug())
    });
    Figures { messages: count, executed: count, found: found.collect() }
}

/// `count` answers over standard output.
pub fn stdio(server: Server, peers: &Path, seed: u64, count: usize) -> Figures {
    let shell = Shell::new();
    let mut guard = Piped::start(&shell, server, peers, "enforce");
    guard.initialize();
    for index in 0..count {
        let raw = answer(seed, index).1 + "\n";
        guard.send(call(index, &json!({ "raw": raw })).as_bytes());
        if index % WINDOW == WINDOW - 1 {
            guard.sync();
        }
    }
    guard.sync();
    guard.end();
    let wrong = Marks::new(recorded(&shell)).violations(&guard.output(), nonces);
    figures(count, wrong, |index| answer(seed, index))
}

/// What the server answers to request `index`: arguments of the call.
fn http_answer(seed: u64, index: usize) -> (String, serde_json::Value) {
    let body = |text: &str| text.replace("NONCE", &nonce(seed, index));
    if let Some(answer) = HTTP.get(index) {
        let headers: Vec<_> = answer.headers.iter().map(|(name, value)| json!([name, body(value)])).collect();
        return (
            answer.name.to_owned(),
            json!({ "status": answer.status, "headers": headers, "raw": body(answer.body) }),
        );
    }
    let mut random = Random::new(!seed, index);
    let (name, raw) = answer(seed, index - HTTP.len());
    let raw = raw.replace(&nonce(seed, index - HTTP.len()), &nonce(seed, index));
    let forms = if random.percent(70) { &HTTP[..2] } else { HTTP };
    let form = &forms[random.below(forms.len())];
    let raw = if form.body.starts_with("data") { format!("data: {}\n\n", raw.replace('\n', "\ndata: ")) } else { raw };
    let headers: Vec<_> = form.headers.iter().map(|(name, value)| json!([name, body(value)])).collect();
    (format!("{name}, {}", form.name), json!({ "status": form.status, "headers": headers, "raw": raw }))
}

/// `count` answers over HTTP.
pub fn http(server: Server, peers: &Path, seed: u64, count: usize) -> Figures {
    let shell = Shell::new();
    let guard = Http::start(&shell, server, peers, "enforce");
    let host = guard.address().to_owned();
    let ask = |index: usize| {
        let body = call(index, &http_answer(seed, index).1);
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             Connection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        (index, Http::exchange(&host, (head + &body).as_bytes(), ANSWER))
    };
    let ask = &ask;
    let delivered: Vec<(usize, Vec<u8>)> = std::thread::scope(|scope| {
        let some = |first: usize| scope.spawn(move || (first..count).step_by(CONNECTIONS).map(ask).collect::<Vec<_>>());
        let threads: Vec<_> = (0..CONNECTIONS).map(some).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    guard.end();
    let marks = Marks::new(recorded(&shell));
    let mut wrong = BTreeMap::new();
    for (index, got) in &delivered {
        let at = got.windows(4).position(|end| end == b"\r\n\r\n").unwrap_or(got.len());
        let (head, body) = (String::from_utf8_lossy(&got[..at]).to_ascii_lowercase(), unchunked(&got[at..]));
        wrong.extend(marks.violations(&body, nonces));
        // What is read otherwise, or elsewhere, than where the guard looked.
        for header in ["\nlocation:", "\ncontent-encoding:", "\nalt-svc:", "\nrefresh:", "charset=utf-7"] {
            if head.contains(header) {
                let why = format!(
                    "the client is told {}",
                    head.lines().find(|line| line.contains(header.trim())).unwrap_or(header)
                );
                wrong.entry(nonce(seed, *index)).or_insert(why);
            }
        }
    }
    figures(count, wrong, |index| {
        let (name, arguments) = http_answer(seed, index);
        (name, arguments.to_string())
    })
}

/// A body without the marks of its chunks.
fn unchunked(body: &[u8]) -> Vec<u8> {
    let body = body.strip_prefix(b"\r\n\r\n").unwrap_or(body);
    let mut out = Vec::new();
    let mut rest = body;
    while let Some(end) = rest.windows(2).position(|end| end == b"\r\n") {
        let size = std::str::from_utf8(&rest[..end]).ok().and_then(|size| usize::from_str_radix(size.trim(), 16).ok());
        let Some(part) = size.and_then(|size| rest.get(end + 2..end + 2 + size)) else { return body.to_vec() };
        out.extend_from_slice(part);
        rest = &rest[(end + 4 + part.len()).min(rest.len())..];
    }
    if rest.is_empty() { out } else { body.to_vec() }
}

/// A tool whose declared schema its server loosens, and whose text says something else than its structure. Gives what reached the
/// client of what should not have.
pub fn loosened() -> Vec<String> {
    let shell = Shell::new();
    let mut guard = Piped::start(&shell, Server::Anything, Path::new(""), "enforce");
    guard.initialize();
    let mut next = 100;
    let mut ask = |guard: &mut Piped, method: &str, params: serde_json::Value| {
        next += 1;
        guard.send(json!({ "jsonrpc": "2.0", "id": next, "method": method, "params": params }).to_string().as_bytes());
        guard.sync();
        next
    };
    let declare = |schema: serde_json::Value| {
        let tool = json!({ "name": "say", "inputSchema": { "type": "object" }, "outputSchema": schema });
        let raw = format!("{{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{}}}\n", json!({ "tools": [tool] }));
        json!({ "_meta": { "raw": raw } })
    };
    let said = |structure: serde_json::Value, text: &str| {
        let result = json!({ "content": [{ "type": "text", "text": text }], "structuredContent": structure });
        let raw = format!("{{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{result}}}\n");
        json!({ "name": "say", "arguments": { "raw": raw } })
    };
    let number = json!({ "type": "number" });
    let strict = json!({ "type": "object", "properties": { "t": number, "h": number }, "required": ["t", "h"] });
    ask(&mut guard, "tools/list", declare(strict));
    let mut wrong = Vec::new();
    let bad = |n: usize| {
        let bad = json!({ "x": nonce(0xb0, n) });
        said(bad.clone(), &bad.to_string())
    };
    ask(&mut guard, "tools/call", bad(0));
    for (n, loose) in [json!({}), json!(null), json!({ "type": "object" })].into_iter().enumerate() {
        ask(&mut guard, "tools/list", declare(loose));
        ask(&mut guard, "tools/call", bad(n + 1));
    }
    for n in 0..20 {
        let good = json!({ "t": 20.5 + f64::from(n % 7), "h": 40 + n });
        ask(&mut guard, "tools/call", said(good.clone(), &good.to_string()));
    }
    let beside = ask(
        &mut guard,
        "tools/call",
        said(json!({ "t": 21.5, "h": 44 }), &format!("{}: 99.5 degrees", nonce(0xb0, 9))),
    );
    guard.end();
    let beside_nonce = nonce(0xb0, 9);
    let delivered: BTreeSet<String> = nonces(&String::from_utf8_lossy(&guard.output())).into_iter().collect();
    let all = recorded(&shell);
    let found = all.iter().find(|(receipt, _)| receipt.request.as_deref() == Some(beside.to_string().as_str()));
    for nonce in delivered {
        match found {
            // Structure and text that disagree are a finding.
            Some((receipt, _)) if nonce == beside_nonce && !receipt.checks.is_empty() => {}
            _ => wrong.push(nonce),
        }
    }
    wrong
}
