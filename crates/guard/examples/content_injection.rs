//! Reads JSONL `{"text", "set"}` on standard input and prints how often the signal fires per set, with the Wilson 95 %
//! interval, and the time per KiB. `--show SET` lists the scores and kinds in one set instead.
use std::collections::BTreeMap;
use std::io::BufRead;
use std::time::{Duration, Instant};

use credence_guard::injection::scan;

fn strings<'a>(value: &'a serde_json::Value, into: &mut Vec<&'a str>) {
    match value {
        serde_json::Value::String(text) => into.push(text),
        serde_json::Value::Array(items) => items.iter().for_each(|item| strings(item, into)),
        serde_json::Value::Object(members) => members.values().for_each(|item| strings(item, into)),
        _ => {}
    }
}

fn wilson(hits: usize, n: usize) -> (f64, f64) {
    let (n, z) = (n as f64, 1.96_f64);
    let p = hits as f64 / n;
    let middle = (p + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z / (1.0 + z * z / n) * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

fn main() {
    let show = std::env::args().skip_while(|argument| argument != "--show").nth(1);
    let mut sets: BTreeMap<String, (usize, usize, usize, Duration)> = BTreeMap::new();
    scan(["warm"]);
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(row) = serde_json::from_str::<serde_json::Value>(&line) else { continue };
        let (Some(text), Some(set)) = (row["text"].as_str(), row["set"].as_str()) else { continue };
        // A result that is JSON is looked at as the guard does: its strings.
        let parsed =
            serde_json::from_str::<serde_json::Value>(text).ok().filter(|value| value.is_object() || value.is_array());
        let mut texts = Vec::new();
        match &parsed {
            Some(value) => strings(value, &mut texts),
            None => texts.push(text),
        }
        let bytes: usize = texts.iter().map(|text| text.len()).sum();
        let start = Instant::now();
        let finding = scan(texts);
        let took = start.elapsed();
        let entry = sets.entry(set.to_owned()).or_default();
        entry.0 += 1;
        entry.1 += usize::from(finding.fired);
        entry.2 += bytes;
        entry.3 += took;
        if show.as_deref() == Some(set) {
            println!("{:.2} {:?} {}", finding.score, finding.why, text.len());
        }
    }
    if show.is_some() {
        return;
    }
    println!(
        "{:<52} {:>6} {:>6} {:>8}  {:<16} {:>9} {:>10}",
        "set", "n", "fired", "rate", "95 %", "us/KiB", "us/result"
    );
    for (set, (n, fired, bytes, took)) in sets {
        let (low, high) = wilson(fired, n);
        let rate = 100.0 * fired as f64 / n as f64;
        let cost = took.as_secs_f64() * 1e6 / (bytes as f64 / 1024.0).max(0.001);
        let each = took.as_secs_f64() * 1e6 / n as f64;
        println!(
            "{set:<52} {n:>6} {fired:>6} {rate:>7.2}%  {:>5.2}..{:<6.2}    {cost:>8.2} {each:>10.2}",
            100.0 * low,
            100.0 * high
        );
    }
}
