//! *Status*: how the service is doing: throughput, latencies, what waits, memory. The same numbers as `/metrics`, for eyes.

use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use askama::Template;
use axum::{extract::State, http::StatusCode, response::Response};

use super::{
    Frame, Viewer,
    format::{count, short},
    html,
};
use crate::app::App;

/// Seconds of the past that are remembered.
const REMEMBERED: usize = 301;
/// The spans over which rates are told, in seconds.
const SPANS: [usize; 3] = [10, 60, 300];
/// Routes listed, those asked most.
const ROUTES: usize = 20;

/// Totals at one moment.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    totals: [u64; 4],
}

/// What the totals count.
const COUNTED: [&str; 4] = ["Requests answered", "Tool results judged", "Signals admitted over HTTP", "Ledger entries"];

/// The totals of the last minutes, one a second.
#[derive(Default)]
pub(crate) struct Samples(Mutex<VecDeque<Sample>>);

impl Samples {
    /// Called every second.
    pub(crate) fn take(&self, app: &App) {
        let sample = Sample { at: Instant::now(), totals: totals(app) };
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.len() == REMEMBERED {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// How many a second, over each span; none where the service is younger.
    fn rates(&self, now: Sample) -> Vec<[Option<f64>; SPANS.len()]> {
        let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let rate = |what: usize, span: usize| {
            let back = Duration::from_secs(span as u64);
            let first = samples.iter().find(|sample| now.at.duration_since(sample.at) <= back)?;
            let seconds = now.at.duration_since(first.at).as_secs_f64();
            let long_enough = seconds > 0.5 * span as f64;
            long_enough.then(|| (now.totals[what] - first.totals[what].min(now.totals[what])) as f64 / seconds)
        };
        (0..COUNTED.len()).map(|what| SPANS.map(|span| rate(what, span))).collect()
    }
}

fn totals(app: &App) -> [u64; 4] {
    let entries = app.authority.ledger().committed().unwrap_or_default();
    [app.metrics.requests_total(), app.metrics.judged_total(), app.metrics.signals_admitted.get(), entries]
}

struct Rate {
    what: &'static str,
    total: String,
    rates: Vec<String>,
}

/// How long answers of a route took.
struct Latency {
    route: String,
    answered: String,
    mean: String,
    half: String,
    most: String,
}

#[derive(Template)]
#[template(path = "status.html")]
struct StatusPage {
    frame: Frame,
    rates: Vec<Rate>,
    latencies: Vec<Latency>,
    facts: Vec<(&'static str, String, &'static str)>,
}

pub(super) async fn page(State(app): State<Arc<App>>, viewer: Viewer) -> Response {
    let frame = Frame::new(&app, &viewer, "status");
    let made = app.work(|app| Ok(read(app))).await;
    super::page(frame, made, |frame, page| html(StatusCode::OK, &StatusPage { frame, ..page }))
}

fn read(app: &App) -> StatusPage {
    let now = Sample { at: Instant::now(), totals: totals(app) };
    let rates = COUNTED.iter().zip(now.totals).zip(app.samples.rates(now)).map(|((what, total), rates)| Rate {
        what,
        total: count(total),
        rates: rates.iter().map(|rate| rate.map_or("–".to_owned(), |rate| format!("{rate:.1}"))).collect(),
    });
    let settings = &app.settings;
    let in_flight = app.requests_in_flight();
    let facts = vec![
        (
            "Requests under way",
            format!("{} of {}", count(in_flight), count(settings.max_in_flight as u64)),
            "at once, at most, with a token; as many without",
        ),
        ("Open connections", count(app.connections.used()), "pages that are open hold one each"),
        (
            "Answers waiting to be recorded",
            count(app.outbox.len() as u64),
            "signed answers that left; recorded each second",
        ),
        ("Verification namespaces", count(app.engines.len() as u64), "tokens that had results judged"),
        (
            "Learned",
            format!("{} of {} MiB", short(app.engines.bytes() as f64 / 1048576.0), settings.max_engine_mib),
            "memory of all namespaces",
        ),
        (
            "Memory",
            memory().map_or("–".to_owned(), |bytes| format!("{} MiB", short(bytes as f64 / 1048576.0))),
            "resident, of the whole process",
        ),
        ("Receipts held", receipts(app), "handed in by guards"),
    ];
    StatusPage { frame: Frame::bare(), rates: rates.collect(), latencies: latencies(&app.metrics_text()), facts }
}

fn receipts(app: &App) -> String {
    app.receipts.as_ref().and_then(|store| store.size().ok()).map_or("–".to_owned(), count)
}

/// Resident memory, where the system tells.
fn memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Latencies by route, out of the histogram that `/metrics` shows: bounds, not exact values.
fn latencies(text: &str) -> Vec<Latency> {
    #[derive(Default)]
    struct Histogram {
        count: f64,
        sum: f64,
        buckets: Vec<(f64, f64)>,
    }
    let mut routes: BTreeMap<&str, Histogram> = BTreeMap::new();
    for line in text.lines() {
        let Some(line) = line.strip_prefix("credence_http_request_seconds_") else { continue };
        let Some((labelled, value)) = line.rsplit_once(' ') else { continue };
        let label = |name: &str| {
            let from = labelled.find(&format!("{name}=\""))? + name.len() + 2;
            labelled[from..].split('"').next()
        };
        let (Some(route), Ok(value)) = (label("route"), value.parse::<f64>()) else { continue };
        let histogram = routes.entry(route).or_default();
        if labelled.starts_with("count") {
            histogram.count = value;
        } else if labelled.starts_with("sum") {
            histogram.sum = value;
        } else if let Some(bound) = label("le") {
            histogram.buckets.push((bound.parse().unwrap_or(f64::INFINITY), value));
        }
    }
    let mut routes: Vec<_> = routes.into_iter().filter(|(_, histogram)| histogram.count > 0.0).collect();
    routes.sort_by(|a, b| b.1.count.total_cmp(&a.1.count));
    let within = |histogram: &Histogram, share: f64| {
        let bound =
            histogram.buckets.iter().find(|(_, reached)| *reached >= share * histogram.count).map(|(bound, _)| *bound);
        match bound {
            Some(bound) if bound.is_finite() => format!("≤ {} ms", short(bound * 1e3)),
            _ => "> 5 s".to_owned(),
        }
    };
    let row = |(route, histogram): (&str, Histogram)| Latency {
        route: route.to_owned(),
        answered: count(histogram.count as u64),
        mean: format!("{} ms", short(1e3 * histogram.sum / histogram.count)),
        half: within(&histogram, 0.5),
        most: within(&histogram, 0.99),
    };
    routes.into_iter().take(ROUTES).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_come_out_of_the_histogram() {
        let text = "\
# TYPE credence_http_request_seconds histogram
credence_http_request_seconds_sum{route=\"/v1/x\"} 0.5
credence_http_request_seconds_count{route=\"/v1/x\"} 100
credence_http_request_seconds_bucket{le=\"0.001\",route=\"/v1/x\"} 60
credence_http_request_seconds_bucket{le=\"0.01\",route=\"/v1/x\"} 98
credence_http_request_seconds_bucket{le=\"1.0\",route=\"/v1/x\"} 100
credence_http_request_seconds_bucket{le=\"+Inf\",route=\"/v1/x\"} 100
credence_other 3
";
        let rows = latencies(text);
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].answered.as_str(), rows[0].mean.as_str()), ("100", "5 ms"));
        assert_eq!((rows[0].half.as_str(), rows[0].most.as_str()), ("≤ 1 ms", "≤ 1000 ms"));
    }
}
