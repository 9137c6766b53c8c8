//! Numbers for an operator, in Prometheus' text form.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use credence_pipeline::{attestations::Total, links::feeding::CrawlRow};
use credence_verify::{Decision, Trimmed};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::{attestation_metrics::AttestationMetrics, crawl::metrics::CrawlMetrics};

const SECONDS: [f64; 11] = [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.25, 1.0, 5.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    route: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

/// What is counted.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    /// All of those together.
    all_requests: AtomicU64,
    seconds: Family<RouteLabels, Histogram, fn() -> Histogram>,
    turned_away: Family<ReasonLabels, Counter>,
    /// Accept, flag, block.
    verdicts: [Counter; 3],
    pub signals_admitted: Counter,
    pub signals_rejected: Counter,
    pub answers_made: Counter,
    pub answers_reused: Counter,
    pub probes_recorded: Counter,
    pub probes_failed: Counter,
    in_flight: Gauge,
    connections: Gauge,
    entries: Gauge,
    responses_waiting: Gauge,
    namespaces: Gauge,
    clock_trouble: Gauge,
    ledger_check: Gauge,
    engine_bytes: Gauge,
    body_bytes: Gauge,
    forgotten: Family<KindLabels, Gauge>,
    crawl: CrawlMetrics,
    attestations: AttestationMetrics,
}

/// What is looked up when somebody asks.
pub(crate) struct GaugeValues {
    pub in_flight: u64,
    pub body_bytes: u64,
    pub connections: u64,
    pub entries: u64,
    pub responses_waiting: usize,
    pub namespaces: usize,
    pub clock_trouble: bool,
    pub ledger_check: usize,
    pub engine_bytes: usize,
    pub forgotten: Trimmed,
    pub crawls: Vec<(String, CrawlRow)>,
    pub attestations: Vec<Total>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("credence");
        let histogram: fn() -> Histogram = || Histogram::new(SECONDS);
        let metrics = Self {
            requests: Family::default(),
            all_requests: AtomicU64::default(),
            seconds: Family::new_with_constructor(histogram),
            turned_away: Family::default(),
            verdicts: Default::default(),
            signals_admitted: Counter::default(),
            signals_rejected: Counter::default(),
            answers_made: Counter::default(),
            answers_reused: Counter::default(),
            probes_recorded: Counter::default(),
            probes_failed: Counter::default(),
            in_flight: Gauge::default(),
            connections: Gauge::default(),
            entries: Gauge::default(),
            responses_waiting: Gauge::default(),
            namespaces: Gauge::default(),
            clock_trouble: Gauge::default(),
            ledger_check: Gauge::default(),
            engine_bytes: Gauge::default(),
            body_bytes: Gauge::default(),
            forgotten: Family::default(),
            crawl: CrawlMetrics::default(),
            attestations: AttestationMetrics::default(),
            registry: Registry::default(),
        };
        let r = &mut registry;
        r.register("http_requests", "Requests answered", metrics.requests.clone());
        r.register("http_request_seconds", "Time to answer", metrics.seconds.clone());
        r.register("http_turned_away", "Requests and connections turned away", metrics.turned_away.clone());
        for (counter, name) in metrics.verdicts.iter().zip(["accepted", "flagged", "blocked"]) {
            r.register(format!("results_{name}"), format!("Tool results {name}"), counter.clone());
        }
        r.register("signals_admitted", "Signals admitted over HTTP", metrics.signals_admitted.clone());
        r.register("signals_rejected", "Signals rejected over HTTP", metrics.signals_rejected.clone());
        r.register("answers_made", "Answers and badges signed", metrics.answers_made.clone());
        r.register("answers_reused", "Answers and badges given again", metrics.answers_reused.clone());
        r.register(
            "probes_recorded",
            "Scheduled runs of the sandbox that were recorded",
            metrics.probes_recorded.clone(),
        );
        r.register("probes_failed", "Scheduled runs that were refused or failed", metrics.probes_failed.clone());
        r.register("http_in_flight", "Requests being worked on", metrics.in_flight.clone());
        r.register("http_connections", "Open connections", metrics.connections.clone());
        r.register("ledger_entries", "Entries in the ledger", metrics.entries.clone());
        r.register(
            "responses_waiting",
            "Answers that left and are not recorded yet",
            metrics.responses_waiting.clone(),
        );
        r.register("verify_namespaces", "Tokens that use the verification engine", metrics.namespaces.clone());
        r.register(
            "clock_trouble",
            "1 while the clock is not believed or entries are ahead of it",
            metrics.clock_trouble.clone(),
        );
        r.register(
            "ledger_check",
            "The tables against the ledger: 0 not known yet, 1 the same, 2 different, and nothing is signed",
            metrics.ledger_check.clone(),
        );
        let says = "Memory of what all namespaces together have learned, in bytes";
        r.register("verify_memory_bytes", says, metrics.engine_bytes.clone());
        let says = "What namespaces forgot since the start because the memory for all was used up";
        r.register("verify_forgotten", says, metrics.forgotten.clone());
        r.register("http_body_bytes", "Bodies in memory, in bytes", metrics.body_bytes.clone());
        metrics.crawl.register(&mut registry);
        metrics.attestations.register(&mut registry);
        Self { registry, ..metrics }
    }

    pub(crate) fn answered(&self, method: &'static str, route: &str, status: u16, took: Duration) {
        self.all_requests.fetch_add(1, Ordering::Relaxed);
        self.requests.get_or_create(&RequestLabels { method, route: route.to_owned(), status }).inc();
        self.seconds.get_or_create(&RouteLabels { route: route.to_owned() }).observe(took.as_secs_f64());
    }

    pub(crate) fn turned_away(&self, reason: &'static str) {
        self.turned_away.get_or_create(&ReasonLabels { reason }).inc();
    }

    pub(crate) fn requests_total(&self) -> u64 {
        self.all_requests.load(Ordering::Relaxed)
    }

    pub(crate) fn judged_total(&self) -> u64 {
        self.verdicts.iter().map(Counter::get).sum()
    }

    pub(crate) fn judged(&self, decision: Decision) {
        self.verdicts[decision as usize].inc();
    }

    pub(crate) fn text(&self, now: &GaugeValues) -> String {
        let gauge = |gauge: &Gauge, value: u64| {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        };
        gauge(&self.in_flight, now.in_flight);
        gauge(&self.connections, now.connections);
        gauge(&self.body_bytes, now.body_bytes);
        gauge(&self.engine_bytes, now.engine_bytes as u64);
        let Trimmed { tools, histories, sessions } = now.forgotten;
        for (kind, value) in [("tools", tools), ("histories", histories), ("sessions", sessions)] {
            gauge(&self.forgotten.get_or_create(&KindLabels { kind }), value);
        }
        self.crawl.set(&now.crawls);
        self.attestations.set(&now.attestations);
        gauge(&self.entries, now.entries);
        gauge(&self.responses_waiting, now.responses_waiting as u64);
        gauge(&self.namespaces, now.namespaces as u64);
        gauge(&self.ledger_check, now.ledger_check as u64);
        gauge(&self.clock_trouble, u64::from(now.clock_trouble));
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
