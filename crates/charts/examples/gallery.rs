//! Writes one of every chart, and the awkward cases, to a directory, with two pages that show them inline.
//!
//! `cargo run --example gallery -- out`
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure is how a test says no")]

use credence_charts::{
    Band, Bar, Bin, Chart, Curve, Mark, Pull, STYLE, ScorePoint, Series, Share, bars, control, distribution, history,
    pulls, reliability, roc, sparkline,
};
use std::fs;
use std::path::Path;

const DAY: i64 = 86_400_000_000;
/// 3 May 2024.
const START: i64 = 19_846 * DAY;
const BANDS: [Band<'_>; 6] = [
    Band { name: "Unproven", from: 0.0, to: 20.0 },
    Band { name: "Bronze", from: 20.0, to: 40.0 },
    Band { name: "Silver", from: 40.0, to: 60.0 },
    Band { name: "Gold", from: 60.0, to: 75.0 },
    Band { name: "Platinum", from: 75.0, to: 90.0 },
    Band { name: "Sovereign", from: 90.0, to: 100.0 },
];

fn main() -> std::io::Result<()> {
    let out = std::env::args().nth(1).unwrap_or_else(|| "out".into());
    let out = Path::new(&out);
    fs::create_dir_all(out)?;
    let charts = charts();
    let mut body = String::new();
    for (name, chart) in &charts {
        fs::write(out.join(format!("{name}.svg")), chart.file())?;
        body += &format!("<figure>{}<figcaption>{}</figcaption></figure>\n", chart.inline(), name);
    }
    let page = |theme: &str| {
        format!(
            "<!doctype html><meta charset=utf-8><meta name=viewport content='width=device-width'>\
             <style>{STYLE}\nbody{{margin:0;padding:12px;background:var(--c-paper);color:var(--c-muted);\
             font:12px system-ui}}main{{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,600px),1fr));\
             gap:16px}}figure{{margin:0;padding:8px;border:1px solid var(--c-grid);border-radius:8px;\
             container-type:inline-size}}{theme}</style><main>{body}</main>"
        )
    };
    fs::write(out.join("index.html"), page(""))?;
    // The dark values for a browser that cannot be told to prefer them.
    let dark = STYLE.split_once("(prefers-color-scheme: dark) {").and_then(|(_, rest)| rest.split_once("\n}\n"));
    fs::write(out.join("dark.html"), page(dark.map_or("", |(values, _)| values)))
}

fn charts() -> Vec<(&'static str, Chart)> {
    let wave = |n: f64| (n * 1.7).sin() * 3.0 + (n * 0.31).cos() * 4.0;
    let scores = |count: i64, step: i64| -> Vec<ScorePoint> {
        let at = |n: i64| {
            let grown = 84.0 - 52.0 * (-(n as f64) * 4.0 / count as f64).exp();
            let mean = (grown + wave(n as f64)).clamp(0.0, 100.0);
            ScorePoint {
                at: START + n * step,
                mean,
                stddev: 12.0 * (1.2 - n as f64 / count as f64),
                label: String::new(),
            }
        };
        (0..count).map(at).collect()
    };
    let shares = |values: [f64; 6]| -> Vec<Share<'static>> {
        BANDS.into_iter().zip(values).map(|(band, share)| Share { band, share }).collect()
    };
    let latencies: Vec<f64> =
        (0..36).map(|n| 1_240.0 + wave(f64::from(n)) * 21.0 + if n == 23 { 420.0 } else { 0.0 }).collect();
    let marks =
        [Mark { index: 23, text: "above +3σ".into() }, Mark { index: 30, text: "two of three beyond 2σ".into() }];
    let latency = Series {
        name: "Response time",
        unit: "ms",
        points: &latencies,
        mean: 1_240.0,
        stddev: 92.0,
        least: None,
        marks: &marks,
    };
    let tiny: Vec<f64> = (0..400).map(|n| 0.00012 + wave(f64::from(n)) * 0.000004).collect();
    let rates = Series {
        name: "Error rate",
        unit: "errors per call",
        points: &tiny,
        mean: 0.00012,
        stddev: 0.000014,
        least: None,
        marks: &[],
    };
    let bent =
        |power: f64| (0..=20).map(|n| (f64::from(n) / 20.0, (f64::from(n) / 20.0).powf(power))).collect::<Vec<_>>();
    let (good, fair, poor) = (bent(0.12), bent(0.3), bent(0.7));
    let curves = [
        Curve { name: "Credence engine", points: &good, area: 0.893 },
        Curve { name: "Source average", points: &fair, area: 0.769 },
        Curve { name: "Star rating of the marketplace", points: &poor, area: 0.588 },
    ];
    let bins: Vec<Bin> = (0..10)
        .map(|n| {
            let predicted = f64::from(n) / 10.0 + 0.05;
            let observed = (predicted + wave(f64::from(n)) * 0.012).clamp(0.0, 1.0);
            let count = [820, 410, 220, 130, 95, 110, 180, 340, 690, 1_480][n as usize];
            let half = 1.0 / f64::from(count as u32).sqrt();
            Bin { predicted, observed, low: (observed - half).max(0.0), high: (observed + half).min(1.0), count }
        })
        .collect();
    let pull = |label, value, detail: &str| Pull { label, value, detail: detail.into() };
    let many = [
        pull("Signed test results (CI)", 6.4, "214 receipts"),
        pull("Peer attestations", 3.15, "8 peers"),
        pull("Incident: leaked a customer's address", -4.8, "confirmed 3 May"),
        pull("Response time drift", -0.6, "two runs beyond 2σ"),
        pull("Idle", 0.0, ""),
    ];
    let amounts = [
        Bar { label: "Coverage", value: 71.0 },
        Bar { label: "Consistency", value: 88.5 },
        Bar { label: "Independence of the sources", value: 42.0 },
    ];
    let hostile = "</svg><script>alert(1)</script> & \"Quotes\" in a title that is far too long for its line";
    vec![
        ("history", history("Score of agent 7", &scores(48, 3 * DAY), &BANDS)),
        ("history-many", history("A busy day", &scores(900, DAY / 900), &BANDS)),
        ("history-years", history("Seven years", &scores(60, 45 * DAY), &BANDS[..4])),
        ("history-one", history("First score", &scores(40, DAY)[20..21], &BANDS)),
        ("history-none", history("Score of agent 8", &[], &BANDS)),
        (
            "distribution",
            distribution("Where the score lies", 71.5, 7.2, 66, &shares([0.0, 0.0, 0.055, 0.631, 0.309, 0.005])),
        ),
        ("distribution-spike", distribution("A certain score", 82.0, 0.0, 82, &shares([0.0, 0.0, 0.0, 0.0, 1.0, 0.0]))),
        (
            "distribution-wide",
            distribution("Hardly known", 48.0, 24.0, 3, &shares([0.12, 0.25, 0.32, 0.18, 0.09, 0.04])),
        ),
        ("control", control("Response time", &latency)),
        ("control-many", control("Error rate", &rates)),
        ("roc", roc("Telling honest agents from others", &curves)),
        ("reliability", reliability("Do predictions come true?", &bins, Some(0.0312))),
        ("pulls", pulls("What moved the score", "score points", &many)),
        ("pulls-up", pulls("Only good news", "score points", &many[..2])),
        ("bars", bars("Parts of the score", "of 100", &amounts, 100.0)),
        ("hostile", pulls(hostile, "<b>", &[pull(hostile, 1e9, hostile)])),
        ("spark", sparkline("Agent 7", &scores(48, DAY).iter().map(|point| point.mean).collect::<Vec<_>>())),
        ("spark-none", sparkline("Agent 8", &[])),
    ]
}
