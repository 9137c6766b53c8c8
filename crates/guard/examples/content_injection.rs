//! How often the signal `content_injection` fires, per set, with the Wilson 95 % interval and the time per result.
//!
//! Reads rows as `scripts/injection/rows.py` writes them, on standard input. Rows of one `stream` share the places; `seen` rows are
//! learned, `genuine` and `attack` rows judged and not learned, `online` rows judged once their tool was seen 20 times and learned. A
//! line of `{"text", "set"}` is judged as the first result of an unknown tool. `--show SET` lists what was found in one set instead,
//! and `--explain SET` with the text.
use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use credence_guard::injection::{Places, SEEN_FROM, Subject, ToolNames, scan, scan_in_place};
use serde_json::Value;

#[derive(Default)]
struct Counts {
    results: usize,
    fired: usize,
    bytes: usize,
    took: Duration,
    why: BTreeMap<String, usize>,
}

fn wilson(hits: usize, n: usize) -> (f64, f64) {
    let (n, z) = (n as f64, 1.96_f64);
    let p = hits as f64 / n;
    let middle = (p + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z / (1.0 + z * z / n) * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

fn main() {
    let option = |name: &str| std::env::args().skip_while(|argument| argument != name).nth(1);
    let (show, explain) = (option("--show"), option("--explain"));
    let mut sets: BTreeMap<String, Counts> = BTreeMap::new();
    let mut streams: HashMap<String, (Mutex<Places>, HashMap<String, u32>)> = HashMap::new();
    scan(["warm"]);
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(mut row) = serde_json::from_str::<Value>(&line) else { continue };
        let set = row["set"].as_str().unwrap_or_default().to_owned();
        let (stream, tool) =
            (row["stream"].as_str().unwrap_or(&line).to_owned(), row["tool"].as_str().unwrap_or("t").to_owned());
        let phase = row["phase"].as_str().unwrap_or("genuine").to_owned();
        let names: Vec<&str> = row["tools"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let tools = ToolNames::new(names);
        let arguments = row["args"].to_string();
        // A text that is JSON is looked at as the guard does: as what it holds.
        let result = if row["text"].is_string() { row["text"].take() } else { row["result"].take() };
        let parsed = result.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let value = parsed.filter(|value| value.is_object() || value.is_array()).unwrap_or(result);
        let (places, seen) = streams.entry(stream).or_default();
        let times = seen.entry(tool.clone()).or_default();
        let judged = match phase.as_str() {
            "seen" => false,
            "online" => *times >= SEEN_FROM,
            _ => true,
        };
        let learn = matches!(phase.as_str(), "seen" | "online");
        *times += u32::from(learn);
        let subject = Subject { tool: &tool, value: &value, content: None, arguments: &arguments, is_error: false };
        // The best of three, for other programs may run on the machine; what is learned is learned once.
        let mut took = Duration::MAX;
        for _ in 0..if judged { 3 } else { 0 } {
            let start = Instant::now();
            std::hint::black_box(scan_in_place(places, &tools, subject, false));
            took = took.min(start.elapsed());
        }
        let finding = scan_in_place(places, &tools, subject, learn);
        if !judged {
            continue;
        }
        let counts = sets.entry(set.clone()).or_default();
        counts.results += 1;
        counts.fired += usize::from(finding.fired);
        counts.bytes += value.to_string().len();
        counts.took += took;
        if finding.fired {
            *counts.why.entry(finding.why.join("+")).or_default() += 1;
        }
        if show.as_deref() == Some(&set) {
            println!("{:.2} {} {} {}", finding.score, finding.fired, tool, finding.reasons());
        }
        if explain.as_deref() == Some(&set) && finding.fired {
            println!("{:.2} {tool} {}", finding.score, finding.explanation());
        }
    }
    if show.is_some() || explain.is_some() {
        return;
    }
    println!(
        "{:<52} {:>6} {:>6} {:>8}  {:<16} {:>10} {:>10}",
        "set", "n", "fired", "rate", "95 %", "bytes", "us/result"
    );
    for (set, counts) in sets {
        let (low, high) = wilson(counts.fired, counts.results);
        let (n, fired) = (counts.results, counts.fired);
        let rate = 100.0 * fired as f64 / n as f64;
        let each = counts.took.as_secs_f64() * 1e6 / n as f64;
        let bytes = counts.bytes / n;
        println!(
            "{set:<52} {n:>6} {fired:>6} {rate:>7.2}%  {:>5.2}..{:<6.2}    {bytes:>10} {each:>10.2}",
            100.0 * low,
            100.0 * high
        );
    }
}
