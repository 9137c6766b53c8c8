//! A tool that changes is not a liar: genuine results of tools that change, err, page or stand still, judged by mode adaptive.
//!
//! Each scenario is 300 calls of a tool as it was and 300 after its change, with and without sessions. `LONG_TESTS` runs more seeds;
//! `SCENARIOS=words` only those with the words in their name, and prints each.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

#[allow(dead_code, reason = "other tests use more of it")]
mod scenarios;

use std::collections::BTreeMap;

use credence_verify::{
    Call, Decision, Engine,
    fabricate::{Fabrication, Genuine},
    measure::auroc,
};
use fastrand::Rng;
use scenarios::{AFTER, BEFORE, Row, SCENARIOS, Scenario, Sessions};

/// Of the 300 calls after a change.
const MAX_BLOCKED: usize = 3;
const MAX_FLAGGED: usize = 24;
const MAX_BLOCKED_IN_A_ROW: usize = 10;
/// Calls after the change from which on fabrications are judged beside the genuine results.
const SETTLED: usize = 60;
const LEAST_AUROC: f64 = 0.95;

fn call<'a>(row: &'a Row) -> Call<'a> {
    let mut call = Call::new("tool", &row.result).args(&row.args).is_error(row.is_error);
    if let Some(ms) = row.ms {
        call = call.execution_time_ms(ms);
    }
    if let Some(session) = &row.session {
        call = call.session(session);
    }
    call
}

#[derive(Debug, Default)]
struct Outcome {
    blocked: usize,
    flagged: usize,
    longest: usize,
    /// The first accepted after the change.
    accepted: usize,
    changes: usize,
    auroc: BTreeMap<Fabrication, (f64, f64, usize)>,
    last_explanation: String,
}

fn fabrications(
    engine: &Engine,
    row: &Row,
    other: &Row,
    n: usize,
    random: &mut Rng,
    out: &mut BTreeMap<Fabrication, Vec<f64>>,
) {
    let foreign = serde_json::json!({"ticker": "ABC", "bid": 10.5, "ask": 10.7});
    let genuine = Genuine {
        result: &row.result,
        args: Some(&row.args),
        execution_time_ms: row.ms,
        other: Some(&other.result),
        foreign: Some(&foreign),
    };
    let kinds = Fabrication::ALL.iter().cycle().skip(n * 3 % Fabrication::ALL.len()).take(3);
    for kind in kinds {
        let Some(made) = kind.apply(&genuine, random) else { continue };
        let mut shadow = call(row).result(&made.result);
        if let Some(ms) = made.execution_time_ms {
            shadow = shadow.execution_time_ms(ms);
        }
        out.entry(*kind).or_default().push(engine.verify(&shadow.learn(false)).unwrap().posterior);
    }
}

fn run(scenario: &Scenario, sessions: Sessions, seed: u64) -> Outcome {
    let engine = Engine::builder().build();
    let rows = scenario.rows(sessions, seed);
    let mut random = Rng::with_seed(seed);
    let mut outcome = Outcome { accepted: AFTER, ..Outcome::default() };
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    let (mut genuine_before, mut genuine_after) = (Vec::new(), Vec::new());
    let mut run = 0;
    for (n, row) in rows.iter().enumerate() {
        if (BEFORE / 3..BEFORE).contains(&n) {
            fabrications(&engine, row, &rows[n - 7], n, &mut random, &mut before);
        } else if n >= BEFORE + SETTLED {
            fabrications(&engine, row, &rows[n - 7], n, &mut random, &mut after);
        }
        let verdict = engine.verify(&call(row)).unwrap();
        if n < BEFORE {
            if n >= BEFORE / 3 {
                genuine_before.push(verdict.posterior);
            }
            continue;
        }
        outcome.changes += verdict.changes.len();
        if n >= BEFORE + SETTLED {
            genuine_after.push(verdict.posterior);
        }
        run = if verdict.decision == Decision::Block { run + 1 } else { 0 };
        outcome.longest = outcome.longest.max(run);
        match verdict.decision {
            Decision::Block => outcome.blocked += 1,
            Decision::Flag => outcome.flagged += 1,
            Decision::Accept => outcome.accepted = outcome.accepted.min(n - BEFORE),
        }
        if verdict.decision != Decision::Accept {
            if std::env::var_os("SCENARIOS").is_some() {
                println!("    {:3} {}", n - BEFORE, verdict.explanation);
            }
            outcome.last_explanation = format!("{}: {}", n - BEFORE, verdict.explanation);
        }
    }
    for (kind, posteriors) in after {
        let of = |made: &[f64], genuine: &[f64]| auroc(made, genuine);
        let was = before.get(&kind).map_or(0.0, |made: &Vec<f64>| of(made, &genuine_before));
        outcome.auroc.insert(kind, (was, of(&posteriors, &genuine_after), posteriors.len()));
    }
    outcome
}

/// What is wrong with an outcome.
fn faults(scenario: &Scenario, outcome: &Outcome) -> Vec<String> {
    let mut faults = Vec::new();
    if outcome.blocked > MAX_BLOCKED {
        faults.push(format!("{} blocked", outcome.blocked));
    }
    if outcome.flagged + outcome.blocked > MAX_FLAGGED {
        faults.push(format!("{} flagged", outcome.flagged + outcome.blocked));
    }
    if outcome.longest > MAX_BLOCKED_IN_A_ROW {
        faults.push(format!("{} blocked in a row", outcome.longest));
    }
    if outcome.accepted >= 20 {
        faults.push(format!("first accepted at {}", outcome.accepted));
    }
    let _ = scenario;
    // What could be told from genuine results before the change still can.
    let caught: Vec<f64> = outcome
        .auroc
        .values()
        .filter(|(was, _, count)| *was >= LEAST_AUROC && *count >= 10)
        .map(|(_, is, _)| *is)
        .collect();
    let mean = caught.iter().sum::<f64>() / caught.len().max(1) as f64;
    if mean < LEAST_AUROC {
        faults.push(format!("AUROC {mean:.3} over {} kinds", caught.len()));
    }
    faults
}

#[test]
fn change_is_not_a_lie() {
    let seeds = if std::env::var_os("LONG_TESTS").is_some() { 10 } else { 1 };
    let only = std::env::var("SCENARIOS").ok();
    let mut wrong = Vec::new();
    for scenario in SCENARIOS.iter().filter(|s| only.as_ref().is_none_or(|words| s.name.contains(words.as_str()))) {
        for seed in 0..seeds {
            for sessions in [Sessions::Without, Sessions::Dozens, Sessions::One] {
                let outcome = run(scenario, sessions, seed);
                let faults = faults(scenario, &outcome);
                let low: Vec<String> = outcome
                    .auroc
                    .iter()
                    .filter(|(_, (was, is, _))| *was >= LEAST_AUROC && *is < LEAST_AUROC)
                    .map(|(kind, (was, is, _))| format!("{kind} {was:.2}→{is:.2}"))
                    .collect();
                println!(
                    "{:45} {sessions:?} {seed}: blocked {} flagged {} in a row {} accepted {} changes {} {low:?} {faults:?}",
                    scenario.name, outcome.blocked, outcome.flagged, outcome.longest, outcome.accepted, outcome.changes
                );
                if !faults.is_empty() {
                    wrong.push(format!(
                        "{} ({sessions:?}, seed {seed}): {}; last: {}",
                        scenario.name,
                        faults.join(", "),
                        outcome.last_explanation
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {} scenarios:\n{}", wrong.len(), SCENARIOS.len() * 3, wrong.join("\n"));
}
