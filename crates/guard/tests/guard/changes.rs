//! Tools that change, err, page or stand still, behind the real guard in mode `enforce`: genuine results reach the client, and what is
//! made up is still told apart from them.
//!
//! The scenarios are those of the engine (`verify/tests/scenarios`): 300 calls of a tool as it was and 300 after its change. Here a
//! server answers with them over pipes, the guard is restarted between the two halves, and its verdicts are read from `_meta`.
//! Fabrications are judged by what the guard has learned and kept, each on its own. Then the guard meets one itself. The usual suite has the changes that users reported, each without sessions; `LONG_TESTS` has all of them, with and without sessions;
//! `SCENARIOS=words` only those with the words in their name.

#[path = "../../../verify/tests/scenarios/mod.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod scenarios;

use std::{collections::BTreeMap, fmt::Write as _, fs};

use credence_guard::content;
use credence_protocol::receipt::Exact;
use credence_receipts::parts::judged_part;
use credence_testing::{Shell, peers::program};
use credence_verify::{
    Call, Engine, Origin,
    fabricate::{Fabrication, Genuine},
    measure::auroc,
};
use fastrand::Rng;
use scenarios::{AFTER, BEFORE, Row, SCENARIOS, Scenario, Sessions};
use serde_json::{Value, json};

use super::{Session, receipts};

/// Of the 300 calls after a change.
const MAX_BLOCKED: usize = 3;
const MAX_FLAGGED: usize = 24;
const MAX_BLOCKED_IN_A_ROW: usize = 10;
/// Calls after the change within which one is accepted.
const ACCEPTED_WITHIN: usize = 20;
/// Results of each half from which on genuine ones count for the AUROC.
const SETTLED: usize = 60;
const LEAST_AUROC: f64 = 0.95;
/// Fabrications of a kind from which on its AUROC counts.
const FABRICATIONS: usize = 10;
/// Fabrications are made of so many calls that would have followed those of a half.
const FOLLOWING: usize = 26;
/// A real server does not keep a test waiting: its latencies are divided by this, in the scenarios that are about them.
const FASTER: f64 = 100.0;

/// One call and what the server answers.
struct Scripted {
    arguments: Value,
    session: Option<String>,
    result: Value,
    wait_ms: Option<f64>,
}

/// What the guard said of it.
struct Judged {
    /// `None` for an error that the tool declares.
    verdict: Option<String>,
    posterior: f64,
}

/// How a server hands on an object: with its structure, as the SDKs do, or as text alone.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Handing {
    Structured,
    Text,
}

fn mcp_result(value: &Value, is_error: bool, handing: Handing) -> Value {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut result = json!({ "content": [{ "type": "text", "text": text }] });
    if value.is_object() && handing == Handing::Structured {
        result["structuredContent"] = value.clone();
    }
    if is_error {
        result["isError"] = json!(true);
    }
    result
}

/// A scenario, how its server hands on results, and a folder with the guard's state.
struct Stage<'a> {
    scenario: &'a Scenario,
    handing: Handing,
    shell: Shell,
}

impl Stage<'_> {
    fn scripted(&self, row: &Row) -> Scripted {
        let about_time = ["slow", "faster"].iter().any(|word| self.scenario.name.contains(word));
        Scripted {
            arguments: row.args.clone(),
            session: row.session.clone(),
            result: mcp_result(&row.result, row.is_error, self.handing),
            wait_ms: row.ms.filter(|_| about_time).map(|ms| ms / FASTER),
        }
    }

    /// Makes these calls through a guard, one after the other.
    fn replay(&self, calls: &[Scripted]) -> Vec<Judged> {
        let mut script = String::new();
        for call in calls {
            let mut line = json!({ "result": call.result });
            if let Some(wait) = call.wait_ms {
                line["wait_ms"] = json!(wait);
            }
            writeln!(script, "{line}").unwrap();
        }
        let file = self.shell.path("replay.jsonl");
        fs::write(&file, script).unwrap();
        let server = program("replay_server.py");
        let flags =
            ["guard", "--state", "state", "--name", "replay", "--mode", "enforce", "--canaries", "0", "--", "python3"];
        let mut command = self.shell.command(&flags);
        command.arg(server).env("REPLAY", file);
        let mut session = Session::spawn(&self.shell, command);
        let judged = calls.iter().map(|call| judged(&mut session, call)).collect();
        assert_eq!(session.leave(), Some(0), "{}", session.stderr());
        judged
    }

    /// Fabrications of each kind and their posteriors, each judged by what the guard has learned so far, without learning from it.
    fn fabrications(&self, genuine: &[Row], random: &mut Rng) -> BTreeMap<Fabrication, Vec<f64>> {
        let learned = fs::read(self.shell.path("state/replay/1/engine.state")).unwrap();
        let engine = Engine::builder().restore(&learned).unwrap();
        let execution_ms = self.execution_ms();
        let foreign = json!({"ticker": "ABC", "bid": 10.5, "ask": 10.7});
        let mut posteriors: BTreeMap<Fabrication, Vec<f64>> = BTreeMap::new();
        // How long an answer takes is the server's own doing here.
        for kind in Fabrication::ALL.into_iter().filter(|kind| *kind != Fabrication::Instant) {
            for (n, row) in genuine.iter().enumerate() {
                let genuine = Genuine {
                    result: &row.result,
                    args: Some(&row.args),
                    execution_time_ms: row.ms,
                    other: Some(&genuine[(n + 7) % genuine.len()].result),
                    foreign: Some(&foreign),
                };
                let Some(made) = kind.apply(&genuine, random) else { continue };
                let value = self.judged_value(&made.result);
                let mut call = Call::new("tool", &value).args(&row.args).execution_time_ms(execution_ms);
                if let Some(session) = &row.session {
                    call = call.session(session);
                }
                let verdict = engine.verify(&call.origin(Origin::Upstream).learn(false)).unwrap();
                posteriors.entry(kind).or_default().push(verdict.posterior);
            }
        }
        posteriors
    }

    /// What the guard gives the engine of a result.
    fn judged_value(&self, result: &Value) -> Value {
        let text = mcp_result(result, false, self.handing).to_string();
        content::value(&judged_part(&Exact::parse(&text).unwrap())).unwrap()
    }

    /// How long the server usually took, as the guard measured it.
    fn execution_ms(&self) -> f64 {
        let mut all: Vec<f64> =
            receipts(&self.shell).values().filter_map(|receipt| receipt["execution_ms"].as_f64()).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    }
}

fn judged(session: &mut Session, call: &Scripted) -> Judged {
    let mut params = json!({ "name": "tool", "arguments": call.arguments });
    if let Some(caller) = &call.session {
        params["_meta"] = json!({ "credence/session": caller });
    }
    let id = session.next;
    session.next += 1;
    session.send_raw(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string());
    let answer = session.answer(id);
    let (result, meta) = (&answer["result"], &answer["result"]["_meta"]["credence/guard"]);
    let verdict = meta["verdict"].as_str().map(str::to_owned);
    match verdict.as_deref() {
        // Nobody but the model pays for a verdict: what is believed arrives as it was.
        Some("accept") => {
            assert_eq!(result["content"], call.result["content"], "{answer}");
            assert_eq!(result["structuredContent"], call.result["structuredContent"], "{answer}");
        }
        Some(_) => {}
        None => assert!(call.result["isError"] == true && meta["unjudged"].is_string(), "{answer}"),
    }
    Judged { verdict, posterior: meta["posterior"].as_f64().unwrap_or_default() }
}

/// The calls that would follow the tool's first half, or those `since` its change.
fn following(scenario: &Scenario, since: Option<usize>, sessions: Sessions, random: &mut Rng) -> Vec<Row> {
    let first = BEFORE + since.unwrap_or_default();
    let calls = (0..FOLLOWING).map(|n| {
        let mut row = (scenario.tool)(random, first + n);
        if let Some(since) = since {
            (scenario.change)(&mut row, random, since + n);
        }
        row.session = (sessions != Sessions::Without).then(|| "session".to_owned());
        row
    });
    calls.collect()
}

/// Replays a scenario; gives what is wrong with the outcome.
fn faults(scenario: &Scenario, sessions: Sessions, handing: Handing, seed: u64) -> Vec<String> {
    let stage = Stage { scenario, handing, shell: Shell::new() };
    let rows = scenario.rows(sessions, seed);
    let mut random = Rng::with_seed(seed);
    let calls: Vec<Scripted> = rows.iter().map(|row| stage.scripted(row)).collect();

    let genuine_before = stage.replay(&calls[..BEFORE]);
    let made_before = stage.fabrications(&following(scenario, None, sessions, &mut random), &mut random);
    let genuine_after = stage.replay(&calls[BEFORE..]);
    let made_after = stage.fabrications(&following(scenario, Some(AFTER), sessions, &mut random), &mut random);

    // One that has nothing of this tool, after all of this: the client is told, or does not get it.
    let foreign =
        Row { result: json!({"ticker": "ABC", "bid": 10.5, "ask": 10.7}), is_error: false, ..rows[BEFORE].clone() };
    let met = stage.replay(&[stage.scripted(&foreign)]);

    let verdicts: Vec<Option<&str>> = genuine_after.iter().map(|one| one.verdict.as_deref()).collect();
    let blocked = verdicts.iter().filter(|verdict| **verdict == Some("block")).count();
    let doubted = verdicts.iter().filter(|verdict| matches!(verdict, Some("flag" | "block"))).count();
    let in_a_row = verdicts.chunk_by(|one, next| one == next).filter(|run| run[0] == Some("block")).map(<[_]>::len);
    let in_a_row = in_a_row.max().unwrap_or_default();
    let accepted = verdicts.iter().position(|verdict| *verdict == Some("accept")).unwrap_or(AFTER);
    let posteriors = |of: &[Judged]| -> Vec<f64> {
        of.iter().skip(SETTLED).filter(|one| one.verdict.is_some()).map(|one| one.posterior).collect()
    };
    let (before, after) = (posteriors(&genuine_before), posteriors(&genuine_after));
    // What could be told from genuine results before the change still can.
    let caught: Vec<(Fabrication, f64)> = made_after
        .iter()
        .filter(|(kind, made)| {
            let was = made_before.get(kind).map_or(0.0, |made| auroc(made, &before));
            was >= LEAST_AUROC && made.len() >= FABRICATIONS
        })
        .map(|(kind, made)| (*kind, auroc(made, &after)))
        .collect();
    let mean = caught.iter().map(|(_, auroc)| auroc).sum::<f64>() / caught.len().max(1) as f64;
    let low: Vec<String> =
        caught.iter().filter(|(_, is)| *is < LEAST_AUROC).map(|(kind, is)| format!("{kind} {is:.2}")).collect();
    println!(
        "{:45} {sessions:?} {handing:?} {seed}: blocked {blocked} doubted {doubted} in a row {in_a_row} accepted {accepted} AUROC \
         {mean:.3} over {} kinds {low:?}",
        scenario.name,
        caught.len()
    );
    let wrong = [
        (met[0].verdict.as_deref() == Some("accept"), "a result of another tool is accepted".to_owned()),
        (blocked > MAX_BLOCKED, format!("{blocked} blocked")),
        (doubted > MAX_FLAGGED, format!("{doubted} flagged or blocked")),
        (in_a_row > MAX_BLOCKED_IN_A_ROW, format!("{in_a_row} blocked in a row")),
        (accepted >= ACCEPTED_WITHIN, format!("first accepted at {accepted}")),
        (mean < LEAST_AUROC, format!("AUROC {mean:.3} over {} kinds: {low:?}", caught.len())),
    ];
    wrong.into_iter().filter(|(is, _)| *is).map(|(_, what)| what).collect()
}

fn hold(name: &str, handing: Handing) {
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name).unwrap_or_else(|| panic!("no '{name}'"));
    let faults = faults(scenario, Sessions::Without, handing, 0);
    assert!(faults.is_empty(), "{name}: {}", faults.join(", "));
}

macro_rules! changes {
    ($($test:ident: $scenario:literal, $handing:ident;)*) => {
        $(#[test]
        fn $test() {
            hold($scenario, Handing::$handing);
        })*
    };
}

changes! {
    a_constant_text_that_changes: "constant answer, then another text", Text;
    a_constant_object_that_changes: "constant answer, then another object", Structured;
    a_status_that_changes_every_33_calls: "another status every 33 calls", Text;
    a_new_field: "new field", Structured;
    a_renamed_field: "renamed field", Text;
    a_second_version_in_an_envelope: "v2 envelope", Structured;
    another_locale: "other locale", Structured;
    empty_lists: "empty lists, 10 %", Text;
    nulls: "nulls, 20 %", Structured;
    last_pages: "last pages", Structured;
    rare_errors_in_words: "errors in words, 1 %", Text;
    frequent_errors_in_words: "errors in words, 30 %", Structured;
    frequent_error_objects: "error objects, 30 %", Text;
    ids_that_gain_a_digit: "ids gain a digit", Structured;
}

fn every_change(sessions: Sessions) {
    if std::env::var_os("LONG_TESTS").is_none() {
        return;
    }
    let only = std::env::var("SCENARIOS").unwrap_or_default();
    let mut wrong = Vec::new();
    for (n, scenario) in SCENARIOS.iter().enumerate().filter(|(_, scenario)| scenario.name.contains(&only)) {
        let handing = if n % 2 == 0 { Handing::Structured } else { Handing::Text };
        let faults = faults(scenario, sessions, handing, 1);
        if !faults.is_empty() {
            wrong.push(format!("{} ({sessions:?}, {handing:?}): {}", scenario.name, faults.join(", ")));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), SCENARIOS.len(), wrong.join("\n"));
}

#[test]
fn every_change_without_sessions() {
    every_change(Sessions::Without);
}

#[test]
fn every_change_in_many_sessions() {
    every_change(Sessions::Dozens);
}

#[test]
fn every_change_in_one_session() {
    every_change(Sessions::One);
}
