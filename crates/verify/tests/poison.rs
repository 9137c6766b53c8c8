//! Lies among what the engine learns: what they cost, and that none is believed in silence (docs/adr/0024).
#![allow(clippy::unwrap_used, missing_docs, reason = "a test")]

#[allow(dead_code, reason = "other tests use more of it")]
mod scenarios;

use std::collections::BTreeMap;

use credence_testing::shared;
use credence_verify::{
    Call, Decision, Engine, Origin,
    fabricate::{Fabrication, Genuine},
    measure::recall,
};
use fastrand::Rng;
use scenarios::{Row, Sessions, Tool, tools};
use serde_json::{Value, json};

/// Of three fabricated rows beside each genuine one, the share that is learned: a tenth of what is learned are lies of all kinds.
const LEARNED_LIES: f64 = 1.0 / 27.0;
/// What they may cost of the recall at 1 % false positives, on average over the streams and twenty seeds. Two seeds are less certain.
const MAX_COST: f64 = 0.05;
const MAX_COST_OF_TWO_SEEDS: f64 = 0.06;
/// Kinds of fabrication with fewer rows are left out of averages.
const LEAST_ROWS: usize = 20;

fn stream_call(row: &Value) -> Call<'_> {
    let call = Call::new(row["tool"].as_str().unwrap(), &row["result"]).args(&row["args"]);
    let call = call.session(row["session_id"].as_str().unwrap());
    row["execution_time_ms"].as_f64().map_or(call, |ms| call.execution_time_ms(ms))
}

/// Recall at 1 % false positives, over the kinds of fabrication, with or without lies among what is learned.
fn stream_recall(rows: &[Value], lies: Option<u64>) -> f64 {
    let engine = Engine::builder().build();
    let mut random = Rng::with_seed(lies.unwrap_or_default());
    let mut genuine = Vec::new();
    let mut kinds: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for row in rows {
        let call = stream_call(row);
        if row["label"].as_u64() == Some(1) {
            let own = lies.is_some() && random.f64() < LEARNED_LIES;
            let verdict = engine.verify(&call.learn(own)).unwrap();
            kinds.entry(row["mutation"].as_str().unwrap()).or_default().push(verdict.posterior);
            continue;
        }
        let verdict = engine.verify(&call).unwrap();
        if row["label"].as_u64() == Some(0) {
            genuine.push(verdict.posterior);
        }
    }
    kinds.retain(|_, rows| rows.len() >= LEAST_ROWS);
    kinds.values().map(|rows| recall(rows, &genuine, 0.01)).sum::<f64>() / kinds.len() as f64
}

#[test]
fn diverse_lies_cost_little_recall() {
    let (seeds, most): (u64, f64) =
        if std::env::var_os("LONG_TESTS").is_some() { (20, MAX_COST) } else { (2, MAX_COST_OF_TWO_SEEDS) };
    let mut costs = Vec::new();
    for stream in ["azure_github", "tau_airline", "bfcl"] {
        let Some(text) = shared(&format!("data/streams/{stream}.jsonl")) else { return };
        let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let clean = stream_recall(&rows, None);
        let poisoned = (1..=seeds).map(|seed| stream_recall(&rows, Some(seed))).sum::<f64>() / seeds as f64;
        println!("{stream}: recall at 1 % {clean:.3}, with lies {poisoned:.3}");
        costs.push(clean - poisoned);
    }
    let mean = costs.iter().sum::<f64>() / costs.len() as f64;
    assert!(mean <= most, "lies cost {mean:.3} of the recall: {costs:.3?}");
}

/// How a lie is told again.
#[derive(Debug, Clone, Copy)]
enum Told {
    /// Word for word.
    Verbatim,
    /// The same change in the same place.
    InPlace,
    /// The same kind of change, anywhere.
    Anywhere,
}

fn call(row: &Row, origin: Origin) -> Call<'_> {
    let call = Call::new("tool", &row.result).args(&row.args).execution_time_ms(row.ms.unwrap()).origin(origin);
    row.session.as_ref().map_or(call, |session| call.session(session))
}

/// Which member an explanation is about, for what cause, and whether something is below what was usual there.
fn about(explanation: &str) -> Option<(String, &'static str, bool)> {
    let causes = ["; in ", "new or rare", "built unlike", "with characters", "did not have", "lacks", "mostly was"];
    let cause = causes.into_iter().find(|cause| explanation.contains(*cause))?;
    let verbs = [" is ", " has ", " lacks "];
    let end = verbs.iter().filter_map(|verb| explanation.find(*verb)).min()?;
    let number = |text: &str| text.split_whitespace().find_map(|word| word.parse::<f64>().ok());
    let (found, usual) = explanation.split_once("; in ").unwrap_or_default();
    let low = number(usual.split_once("was ").unwrap_or_default().1);
    let is_below = number(&found[end.min(found.len())..]).zip(low).is_some_and(|(found, low)| found < low);
    Some((explanation[..end].to_owned(), cause, is_below))
}

/// Tells a lie of one kind with every twentieth result; gives the tellings until it was believed, and until the first alarm.
///
/// An alarm counts when it comes with a telling, or with a genuine result that is odd at the same place, for the same cause and on the same
/// side as an earlier telling, if the engine that was never lied to does not raise one at this result: it was raised because of the lie.
fn tell(
    tool: Tool,
    (kind, told): (Fabrication, Told),
    sessions: Sessions,
    origin: Origin,
    seed: u64,
) -> (Option<usize>, Option<usize>) {
    let (engine, control) = (Engine::builder().build(), Engine::builder().build());
    let mut random = Rng::with_seed(seed);
    let mut verbatim: Option<Value> = None;
    let (mut tellings, mut alarm) = (0, None);
    let mut shown: Vec<(String, &'static str, bool)> = Vec::new();
    let foreign = json!({"ticker": "ABC", "bid": 10.5, "ask": 10.7});
    let mut other: Option<Row> = None;
    for n in 0..1_000 {
        let mut row = tool(&mut random, n);
        row.session = match sessions {
            Sessions::Without => None,
            Sessions::Dozens => Some(format!("session-{}", n / 12)),
            Sessions::One => Some("session".to_owned()),
        };
        if n >= 200 && n % 20 == 0 {
            let genuine = Genuine {
                result: &row.result,
                args: Some(&row.args),
                execution_time_ms: row.ms,
                other: other.as_ref().map(|other| &other.result),
                foreign: Some(&foreign),
            };
            let made = kind.apply(
                &genuine,
                &mut match told {
                    Told::Anywhere => random.fork(),
                    _ => Rng::with_seed(seed),
                },
            );
            let Some(made) = made else { continue };
            let result = match told {
                Told::Verbatim => verbatim.get_or_insert(made.result).clone(),
                _ => made.result,
            };
            let lie = Row { result, ms: made.execution_time_ms, ..row.clone() };
            let verdict = engine.verify(&call(&lie, origin)).unwrap();
            let plain = control.verify(&call(&lie, origin).learn(false)).unwrap();
            tellings += 1;
            if std::env::var_os("LIES").is_some() {
                println!(
                    "    {tellings:2} {} changes {:?}; without the lies: {}",
                    verdict.explanation(),
                    verdict.changes,
                    plain.explanation()
                );
            }
            // What is doubted without the lie in it, too, is not doubted for the lie.
            let doubted_for_the_lie = plain.decision != Decision::Accept
                && control.verify(&call(&row, origin).learn(false)).unwrap().decision == Decision::Accept;
            if verdict.decision == Decision::Accept && doubted_for_the_lie {
                return (Some(tellings), alarm);
            }
            if !verdict.changes.is_empty() {
                alarm.get_or_insert(tellings);
            }
            let fired = verdict.checks.iter().filter(|check| check.fired);
            shown.extend(fired.filter_map(|check| about(check.detail.as_ref()?)));
            continue;
        }
        let verdict = engine.verify(&call(&row, origin)).unwrap();
        let plain = control.verify(&call(&row, origin)).unwrap();
        if plain.changes.is_empty()
            && verdict.changes.iter().any(|change| about(&change.what).is_some_and(|oddity| shown.contains(&oddity)))
        {
            alarm.get_or_insert(tellings);
        }
        other = Some(row);
    }
    (None, alarm)
}

const TOOLS: [(&str, Tool); 7] = [
    ("order", tools::order),
    ("weather", tools::weather),
    ("search", tools::search),
    ("text", tools::read_text),
    ("user", tools::user),
    ("metrics", tools::metrics),
    ("sql", tools::sql),
];

/// Tells every kind of lie in every way. Those whose description has the words of `LIES` in it are printed, the others left out.
fn none_is_believed_in_silence(tools: &[(&str, Tool)], callers: &[Sessions], origin: Origin, seeds: u64) {
    let only = std::env::var("LIES").unwrap_or_default();
    let (mut silent, mut believed, mut runs) = (Vec::new(), Vec::new(), 0);
    let ways = [Told::Verbatim, Told::InPlace, Told::Anywhere];
    let lies = Fabrication::ALL.into_iter().flat_map(|kind| ways.map(|told| (kind, told)));
    for ((name, tool), (kind, told)) in tools.iter().flat_map(|tool| lies.clone().map(move |lie| (tool, lie))) {
        for (seed, sessions) in (0..seeds).flat_map(|seed| callers.iter().map(move |sessions| (seed, *sessions))) {
            let words = format!("{name} {kind} {told:?} sessions {sessions:?} seed {seed}");
            if !words.contains(&only) {
                continue;
            }
            runs += 1;
            if !only.is_empty() {
                println!("{words}");
            }
            let (at, alarm) = tell(*tool, (kind, told), sessions, origin, seed);
            let Some(at) = at else { continue };
            believed.push(at);
            if alarm.is_none_or(|alarm| alarm >= at) {
                silent.push(format!("{words}: believed at telling {at}"));
            }
        }
    }
    believed.sort_unstable();
    println!(
        "{} of {runs} believed, earliest {:?}, median {:?}",
        believed.len(),
        believed.first(),
        believed.get(believed.len() / 2)
    );
    assert!(silent.is_empty(), "{} of {runs} believed in silence:\n{}", silent.len(), silent.join("\n"));
}

#[test]
fn a_repeated_lie_is_not_believed_in_silence() {
    if std::env::var_os("LONG_TESTS").is_some() {
        none_is_believed_in_silence(&TOOLS, &[Sessions::Without, Sessions::Dozens], Origin::Reported, 10);
    } else {
        none_is_believed_in_silence(&TOOLS[..3], &[Sessions::Dozens], Origin::Reported, 1);
    }
}

/// Nobody else confirms what a single caller says, and nobody is told apart where calls have no sessions.
#[test]
fn neither_of_a_single_caller_nor_without_sessions() {
    if std::env::var_os("LONG_TESTS").is_some() {
        none_is_believed_in_silence(&TOOLS, &[Sessions::One], Origin::Reported, 10);
    } else {
        none_is_believed_in_silence(&TOOLS[..2], &[Sessions::Without, Sessions::One], Origin::Reported, 1);
    }
}

/// Nor of what a guard reads from the server itself, which is believed sooner.
#[test]
fn neither_of_the_server_itself() {
    if std::env::var_os("LONG_TESTS").is_some() {
        none_is_believed_in_silence(&TOOLS, &[Sessions::Without, Sessions::Dozens], Origin::Upstream, 5);
    } else {
        none_is_believed_in_silence(&TOOLS[..3], &[Sessions::Without], Origin::Upstream, 1);
    }
}
