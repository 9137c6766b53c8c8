//! A tool that changes is not a liar: genuine results of tools that change, err, page or stand still, judged by mode adaptive.
//!
//! Each scenario is 300 calls of a tool as it was and 300 after its change, with and without sessions, over two seeds; `LONG_TESTS` runs ten;
//! `SCENARIOS=words` only those with the words in their name, and prints each. What is rare (an error in a hundred calls) has a test of its own, of as many
//! calls as it takes.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

#[allow(dead_code, reason = "other tests use more of it")]
mod scenarios;

use std::collections::BTreeMap;

use credence_verify::{
    Call, ChangeStage, Decision, Engine, Origin,
    fabricate::{Fabrication, Genuine},
    measure::auroc,
};
use fastrand::Rng;
use scenarios::{BEFORE, Row, SCENARIOS, Scenario, Sessions};

/// Of the 300 calls after a change.
const MAX_BLOCKED: usize = 3;
const MAX_FLAGGED: usize = 24;
const MAX_BLOCKED_IN_A_ROW: usize = 10;
/// Calls after the change from which on fabrications are judged beside the genuine results.
const SETTLED: usize = 60;
const LEAST_AUROC: f64 = 0.95;
/// Fabrications of a kind from which on its AUROC counts.
const LEAST_OF_A_KIND: usize = 10;
/// Scores of one kind rest on a few dozen results: two digits are told.
const ROUNDING: f64 = 0.005;
/// Calls within which a change of state is accepted, and how many of them may be blocked.
const ACCEPTED_WITHIN: usize = 20;
const MAX_BLOCKED_OF_A_STATE: usize = 5;
/// Of forty errors in one call of a hundred, how many are doubted: reported, and of a server itself.
const MAX_DOUBTED_RARE: [usize; 2] = [24, 8];
/// Doubtful results from which on it must have been said that they are believed.
const LASTING: usize = 8;

/// Kinds of fabrication that are told from genuine results less well after a change: the change, the kind, and the AUROC that is held
/// (docs/benchmarks.md).
const WEAKER: &[(&str, &str, f64)] = &[
    ("new field in items", "omitted", 0.91),
    ("numbers become text", "reworded", 0.90),
    ("numbers become text", "borrowed", 0.93),
    ("empty tables, 25 %", "borrowed", 0.80),
    ("faster by a cache", "instant", 0.73),
    ("whole numbers become fractions", "borrowed", 0.93),
    ("counter reset", "borrowed", 0.94),
    ("nightly batch", "added", 0.94),
    ("nightly batch", "borrowed", 0.87),
    ("values drift", "borrowed", 0.92),
    ("lists of any length", "borrowed", 0.92),
    ("seconds become milliseconds", "rescaled", 0.84),
    ("nothing at weekends", "emptied", 0.92),
    ("longer texts in a block", "cut", 0.93),
    ("one more block", "cut", 0.92),
    ("jobs that wait and fail", "reworded", 0.93),
    ("limits of the rate as objects, 15 %", "added", 0.87),
    ("members that are left out, half", "omitted", 0.77),
    ("members that are left out, half", "added", 0.81),
    ("members that are left out, half", "renamed", 0.93),
    ("a text that counts past nine", "reworded", 0.90),
];

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
    /// Calls until one was accepted, after the change and after each new state of a tool that stands still, at most.
    accepted: usize,
    /// Blocked between such a change of state and the next accepted result, at most.
    blocked_until_accepted: usize,
    changes: usize,
    /// What was doubted at first is believed, and that was said.
    believed: bool,
    auroc: BTreeMap<Fabrication, (f64, f64, usize)>,
    last_explanation: String,
}

fn is_belief(stage: ChangeStage) -> bool {
    matches!(stage, ChangeStage::Believed | ChangeStage::Learned)
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
    let mut outcome = Outcome::default();
    // Since when the state that holds now has not been accepted, and how many results of it were blocked.
    let mut waiting: Option<(usize, usize)> = None;
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
        outcome.believed |= verdict.changes.iter().any(|change| is_belief(change.stage));
        // A tool with one answer for one question has a state; others have changed once.
        let stands_still = rows[BEFORE - 1].args == row.args && rows[BEFORE - 1].result == rows[BEFORE - 2].result;
        if n == BEFORE || (stands_still && rows[n - 1].result != row.result) {
            waiting.get_or_insert((n, 0));
        }
        if let Some((since, blocked)) = &mut waiting {
            *blocked += usize::from(verdict.decision == Decision::Block);
            outcome.accepted = outcome.accepted.max(n - *since);
            outcome.blocked_until_accepted = outcome.blocked_until_accepted.max(*blocked);
            if verdict.decision == Decision::Accept {
                waiting = None;
            }
        }
        if n >= BEFORE + SETTLED {
            genuine_after.push(verdict.posterior);
        }
        run = if verdict.decision == Decision::Block { run + 1 } else { 0 };
        outcome.longest = outcome.longest.max(run);
        match verdict.decision {
            Decision::Block => outcome.blocked += 1,
            Decision::Flag => outcome.flagged += 1,
            Decision::Accept => {}
        }
        if verdict.decision != Decision::Accept {
            if std::env::var_os("SCENARIOS").is_some() {
                println!("    {:3} {}", n - BEFORE, verdict.explanation());
            }
            outcome.last_explanation = format!("{}: {}", n - BEFORE, verdict.explanation());
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
fn faults(scenario: &Scenario, outcome: &Outcome, seed: u64) -> Vec<String> {
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
    if outcome.accepted >= ACCEPTED_WITHIN {
        faults.push(format!("accepted after {} calls", outcome.accepted));
    }
    if outcome.blocked_until_accepted > MAX_BLOCKED_OF_A_STATE {
        faults.push(format!("{} blocked of one state", outcome.blocked_until_accepted));
    }
    // What was doubted several times and is accepted in the end was announced, and so was that it is believed.
    if outcome.blocked + outcome.flagged >= 3 && outcome.changes == 0 {
        faults.push("nothing was announced".to_owned());
    }
    if outcome.blocked + outcome.flagged >= LASTING && !outcome.believed {
        faults.push("it was not said that it is believed".to_owned());
    }
    // Each kind that could be told from genuine results before the change still can, but for those in the list. Other seeds are not held to
    // that: with them some kinds fall below even where nothing changes (docs/benchmarks.md).
    for (kind, (was, is, count)) in outcome.auroc.iter().filter(|_| seed == 0) {
        let known = WEAKER.iter().find(|(name, weaker, _)| *name == scenario.name && kind.name() == *weaker);
        let least = known.map_or(LEAST_AUROC, |(_, _, least)| *least);
        if *was >= LEAST_AUROC && *count >= LEAST_OF_A_KIND && *is < least - ROUNDING {
            faults.push(format!("{kind}: AUROC {is:.3}, {least} wanted"));
        }
    }
    // And over all of them.
    let caught: Vec<f64> = outcome
        .auroc
        .values()
        .filter(|(was, _, count)| *was >= LEAST_AUROC && *count >= LEAST_OF_A_KIND)
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
    let seeds = if std::env::var_os("LONG_TESTS").is_some() { 10 } else { 2 };
    let only = std::env::var("SCENARIOS").ok();
    let mut wrong = Vec::new();
    for scenario in SCENARIOS.iter().filter(|s| only.as_ref().is_none_or(|words| s.name.contains(words.as_str()))) {
        for seed in 0..seeds {
            for sessions in [Sessions::Without, Sessions::Dozens, Sessions::One] {
                let outcome = run(scenario, sessions, seed);
                let faults = faults(scenario, &outcome, seed);
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

/// Errors in one call of a hundred: thousands of calls are needed to see that the errors themselves are not locked out. They are believed in
/// the end, sooner where a guard reads them from the server itself, and were announced before.
#[test]
fn rare_errors_are_not_locked_out() {
    const CALLS: usize = 4_000;
    let origins = [Origin::Reported, Origin::Upstream];
    for (name, origin) in
        ["errors in words, 1 %", "error objects, 1 %"].into_iter().flat_map(|name| origins.map(|o| (name, o)))
    {
        let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name).unwrap();
        for sessions in [Sessions::Without, Sessions::Dozens, Sessions::One] {
            let case = format!("{name} {origin:?} {sessions:?}");
            let engine = Engine::builder().build();
            let mut random = Rng::with_seed(3);
            let (mut errors, mut announced, mut usual_doubted) = (Vec::new(), None, 0);
            for n in 0..BEFORE + CALLS {
                let mut row = (scenario.tool)(&mut random, n);
                let usual = row.result.clone();
                if n >= BEFORE {
                    (scenario.change)(&mut row, &mut random, n - BEFORE);
                }
                row.session = match sessions {
                    Sessions::Without => None,
                    Sessions::Dozens => Some(format!("session-{}", n / 12)),
                    Sessions::One => Some("session".to_owned()),
                };
                let verdict = engine.verify(&call(&row).origin(origin)).unwrap();
                if n >= BEFORE && row.result != usual {
                    if !verdict.changes.is_empty() {
                        announced.get_or_insert(errors.len());
                    }
                    errors.push(verdict.decision);
                } else if n >= BEFORE {
                    usual_doubted += usize::from(verdict.decision != Decision::Accept);
                }
            }
            let blocked = errors.iter().filter(|decision| **decision == Decision::Block).count();
            println!("{case}: {blocked} of {} errors blocked; {errors:?}", errors.len());
            assert!(errors.len() == CALLS / 100 && blocked <= 2, "{case}: {blocked} of {} blocked", errors.len());
            assert!(errors[2..].iter().all(|decision| *decision != Decision::Block), "{case}: {errors:?}");
            assert!(usual_doubted <= CALLS * 3 / 100, "{case}: {usual_doubted} usual results doubted");
            let accepted = errors.iter().position(|decision| *decision == Decision::Accept);
            assert!(
                announced.is_some_and(|at| accepted.is_none_or(|accepted| at < accepted)),
                "{case}: somebody is told"
            );
            let doubted = errors.iter().filter(|decision| **decision != Decision::Accept).count();
            assert!(doubted <= MAX_DOUBTED_RARE[usize::from(origin == Origin::Upstream)], "{case}: {errors:?}");
            let (_, last) = errors.split_at(errors.len() - 10);
            assert!(last.iter().all(|decision| *decision == Decision::Accept), "{case}: {errors:?}");
        }
    }
}
