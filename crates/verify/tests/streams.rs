//! Mode adaptive on real streams, recorded from cloud APIs and agent benchmarks. They belong to others and are not part of
//! this project; on a machine without them this says so and passes, unless `SHARED_TESTS=required` is set.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

use std::collections::BTreeMap;

use credence_testing::shared;
use credence_verify::{
    Call, Decision, Engine,
    measure::{auroc, recall, reliability},
};
use serde_json::Value;

/// The share of fabricated results that calibration is measured at.
const BASE_RATE: f64 = 0.15;
/// Kinds of fabrication with fewer rows are left out of averages.
const LEAST_ROWS: usize = 20;

struct Row {
    kind: Option<String>,
    novel: bool,
    posterior: f64,
    flagged: bool,
    blocked: bool,
}

fn judge(stream: &str) -> Option<Vec<Row>> {
    let text = shared(&format!("data/streams/{stream}.jsonl"))?;
    let engine = Engine::builder().build();
    let mut rows = Vec::new();
    for line in text.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let mut call = Call::new(row["tool"].as_str().unwrap(), &row["result"]).args(&row["args"]);
        call = call.session(row["session_id"].as_str().unwrap()).learn(row["learn"].as_bool().unwrap_or(true));
        if let Some(ms) = row["execution_time_ms"].as_f64() {
            call = call.execution_time_ms(ms);
        }
        let verdict = engine.verify(&call).unwrap();
        if let Some(label) = row["label"].as_u64() {
            rows.push(Row {
                kind: (label == 1).then(|| row["mutation"].as_str().unwrap().to_owned()),
                novel: row["novel"].as_bool().unwrap(),
                posterior: verdict.posterior,
                flagged: verdict.decision != Decision::Accept,
                blocked: verdict.decision == Decision::Block,
            });
        }
    }
    Some(rows)
}

struct Score {
    auroc: f64,
    recall: f64,
    error: f64,
    blocked: f64,
    flagged: f64,
}

fn score<'a>(rows: impl Iterator<Item = &'a Row> + Clone) -> Score {
    let genuine: Vec<f64> = rows.clone().filter(|row| row.kind.is_none()).map(|row| row.posterior).collect();
    let blocked = rows.clone().filter(|row| row.kind.is_none() && row.blocked).count();
    let flagged = rows.clone().filter(|row| row.kind.is_none() && row.flagged).count();
    let mut kinds: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for row in rows {
        if let Some(kind) = &row.kind {
            kinds.entry(kind).or_default().push(row.posterior);
        }
    }
    kinds.retain(|_, rows| rows.len() >= LEAST_ROWS);
    let mean = |of: &dyn Fn(&[f64]) -> f64| kinds.values().map(|rows| of(rows)).sum::<f64>() / kinds.len() as f64;
    let honest = genuine.iter().map(|p| (*p, false, (1.0 - BASE_RATE) / genuine.len() as f64));
    let made = kinds
        .values()
        .flat_map(|rows| rows.iter().map(|p| (*p, true, BASE_RATE / kinds.len() as f64 / rows.len() as f64)));
    Score {
        auroc: mean(&|rows| auroc(rows, &genuine)),
        recall: mean(&|rows| recall(rows, &genuine, 0.01)),
        error: reliability(honest.chain(made)).1,
        blocked: blocked as f64 / genuine.len() as f64,
        flagged: flagged as f64 / genuine.len() as f64,
    }
}

/// The AUROC of each kind of fabrication, and its rows.
fn by_kind(rows: &[Row]) -> Vec<(&str, f64, usize)> {
    let genuine: Vec<f64> = rows.iter().filter(|row| row.kind.is_none()).map(|row| row.posterior).collect();
    let mut kinds: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for row in rows {
        if let Some(kind) = &row.kind {
            kinds.entry(kind).or_default().push(row.posterior);
        }
    }
    kinds.into_iter().map(|(kind, rows)| (kind, auroc(&rows, &genuine), rows.len())).collect()
}

fn check(stream: &str) {
    let Some(rows) = judge(stream) else { return };
    let (all, novel) = (score(rows.iter()), score(rows.iter().filter(|row| row.novel)));
    let figures = format!(
        "{stream}: AUROC {:.3}, novel {:.3}; blocked {:.4}; flagged {:.4}; recall at 1 % {:.3}; ECE {:.3}",
        all.auroc, novel.auroc, all.blocked, all.flagged, all.recall, all.error
    );
    println!("{figures}");
    for (kind, auroc, count) in by_kind(&rows) {
        println!("  {kind}: AUROC {auroc:.3} of {count} rows");
    }
    assert!(all.auroc >= 0.97, "{figures}");
    assert!(novel.auroc >= 0.93, "{figures}");
    assert!(all.blocked <= 0.01, "{figures}");
    assert!(all.flagged <= 0.03, "{figures}");
    assert!(all.recall >= 0.88, "{figures}");
    assert!(all.error <= 0.03, "{figures}");
}

#[test]
fn azure_and_github() {
    check("azure_github");
}

#[test]
fn tau_airline() {
    check("tau_airline");
}

#[test]
fn bfcl() {
    check("bfcl");
}
