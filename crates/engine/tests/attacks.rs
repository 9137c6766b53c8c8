//! What attackers gain under three formulas: `uts/1` by heads (the seed's letter), `uts/1` by independent sources, and `uts/2`.
//! `docs/attacks.md` states the numbers, and this test holds it to what it measures.
#![allow(clippy::unwrap_used, reason = "helpers of tests: a failing unwrap is how a test says no")]

use std::collections::BTreeSet;

use credence_engine::{
    assured::{Model, Signal},
    universal::{self, DEFAULT_COVERAGE_FLOOR, Weighted},
    voices::{Speaker, Voices},
};

/// Gains beyond this are named in the document with what they take.
const SMALL: i32 = 5;

const ASI: [&str; 10] = [
    "asi01_goal_hijack",
    "asi02_tool_misuse",
    "asi03_privilege_abuse",
    "asi04_supply_chain",
    "asi05_code_execution",
    "asi06_memory_poisoning",
    "asi07_insecure_comms",
    "asi08_cascading_failures",
    "asi09_trust_exploitation",
    "asi10_rogue_agent",
];
const RELIABILITY: [&str; 3] = ["rel_uptime", "rel_latency_p95", "rel_error_rate"];
const OTHERS: [&str; 9] = [
    "output_quality",
    "identity_domain",
    "identity_onchain",
    "identity_key_continuity",
    "transparency_disclosure",
    "compliance_evidence",
    "user_feedback",
    "third_party_score",
    "payment_activity",
];

type Signals = Vec<Signal<'static>>;

fn signal(source: &'static str, tag: &'static str, value: f64, weight: f64) -> Signal<'static> {
    Signal { source, owner: None, roots: &[], tag, value, stddev: 3.0, weight, age_days: 0.0 }
}

fn name(kind: &str, n: usize) -> &'static str {
    format!("{kind}-{n}").leak()
}

/// An agent that seven sources watch, all of one opinion.
fn watched(value: f64) -> Signals {
    let mut all: Signals = ASI.iter().map(|tag| signal("red-team", tag, value, 1.0)).collect();
    all.extend(RELIABILITY.iter().map(|tag| signal("uptime", tag, value, 1.0)));
    for (source, tag, weight) in [
        ("credence", "output_quality", 1.0),
        ("credence", "output_coverage", 1.0),
        ("registry", "identity_domain", 0.8),
        ("chain", "identity_onchain", 0.7),
        ("users", "user_feedback", 0.6),
        ("directory", "third_party_score", 0.7),
    ] {
        all.push(signal(source, tag, value, weight));
    }
    all
}

/// The same by three sources of each kind.
fn watched_by_three(value: f64) -> Signals {
    let again = |n: usize| {
        watched(value).into_iter().map(move |s| Signal { source: format!("{}-{n}", s.source).leak(), weight: 1.0, ..s })
    };
    (0..3).flat_map(again).collect()
}

fn without(signals: &Signals, left_out: impl Fn(&Signal<'_>) -> bool) -> Signals {
    signals.iter().copied().filter(|s| !left_out(s)).collect()
}

fn changed(signals: &Signals, change: impl Fn(&mut Signal<'static>)) -> Signals {
    let mut all = signals.clone();
    all.iter_mut().for_each(change);
    all
}

fn with(signals: &Signals, more: impl IntoIterator<Item = Signal<'static>>) -> Signals {
    signals.iter().copied().chain(more).collect()
}

fn is_probe(signal: &Signal<'_>) -> bool {
    signal.tag.starts_with("asi")
}

/// Every attack: what it is, and the signals before and after.
fn attacks() -> Vec<(&'static str, Signals, Signals)> {
    let honest: Signals = RELIABILITY.iter().map(|tag| signal("lab", tag, 90.0, 1.0)).collect();
    let small = |weight: f64, tags: &'static [&'static str]| {
        (0..7).flat_map(move |n| tags.iter().map(move |tag| signal(name("small", n), tag, 90.0, weight)))
    };
    let red_team: Signals = ASI.iter().map(|tag| signal("red-team", tag, 20.0, 1.0)).collect();
    let sybils = (0..10).flat_map(|n| ASI.iter().map(move |tag| signal(name("sybil", n), tag, 100.0, 0.01)));
    let one = vec![signal("lab", "rel_uptime", 90.0, 1.0)];
    let three: Signals = (0..3).map(|n| signal(name("lab", n), "rel_uptime", 40.0, 1.0)).collect();
    let praised = |tag| with(&three, [signal("friend", tag, 100.0, 1.0)]);
    let chatty = OTHERS.iter().filter(|tag| **tag != "user_feedback").chain(["rel_uptime"].iter());
    let insecure = changed(&watched(90.0), |s| {
        if is_probe(s) {
            s.value = 30.0;
        }
    });
    let open = changed(&insecure, |s| {
        if is_probe(s) {
            s.value = 0.0;
        }
    });
    let doubted = vec![signal("lab", "rel_uptime", 50.0, 1.0)];
    let owned = (0..8).map(|n| Signal { owner: Some("one"), ..signal(name("owned", n), "rel_uptime", 95.0, 0.5) });
    let everything = || ASI.iter().chain(&RELIABILITY).chain(&OTHERS);
    let unprobed = without(&watched_by_three(95.0), |s| s.tag == ASI[4]);
    let hole = |weight: f64| signal("stranger", ASI[4], 0.0, weight);
    let at_40 = watched(40.0);
    let at_95 = watched(95.0);
    vec![
        (
            "seven sources of weight 0.02 repeat what one honest source says",
            honest.clone(),
            with(&honest, small(0.02, &RELIABILITY)),
        ),
        (
            "seven sources of weight 0.000001 say 90 of all that nobody measured",
            honest.clone(),
            with(&honest, small(0.000001, &OTHERS)),
        ),
        (
            "seven sources of weight 0.02 say 90 of all that nobody measured",
            honest.clone(),
            with(&honest, small(0.02, &OTHERS)),
        ),
        ("ten sybils of weight 0.01 say 100, the red team says 20", red_team.clone(), with(&red_team, sybils)),
        (
            "a source of weight 0.02 says 0 beside one honest 90",
            one.clone(),
            with(&one, [signal("x", "rel_uptime", 0.0, 0.02)]),
        ),
        (
            "a friend who praised one threat praises nine more, three honest sources say 40",
            praised(ASI[0]),
            with(&praised(ASI[0]), ASI[1..].iter().map(|tag| signal("friend", tag, 100.0, 1.0))),
        ),
        (
            "a fully trusted friend praises nine tags that nobody measured, three honest sources say 40",
            praised("user_feedback"),
            with(&praised("user_feedback"), chatty.map(|tag| signal("friend", tag, 100.0, 1.0))),
        ),
        ("good, then sixty silent days", at_95.clone(), changed(&at_95, |s| s.age_days = 60.0)),
        (
            "runs any code it is sent: asi05 from 95 to 0",
            at_95.clone(),
            changed(&at_95, |s| {
                if s.tag == ASI[4] {
                    s.value = 0.0;
                }
            }),
        ),
        ("refuses the red team at security 30, all else 90", insecure.clone(), without(&insecure, is_probe)),
        ("refuses the red team at security 0, all else 90", open.clone(), without(&open, is_probe)),
        ("eight sources of one owner say 95, an honest one says 50", doubted.clone(), with(&doubted, owned)),
        ("the first source of all says 100", Vec::new(), vec![signal("lab", "rel_uptime", 100.0, 1.0)]),
        (
            "a friend of weight 1000 says 100, seven sources say 40",
            at_40.clone(),
            with(&at_40, [signal("friend", "user_feedback", 100.0, 1000.0)]),
        ),
        (
            "stars and downloads are bought at 60",
            watched(60.0),
            with(
                &watched(60.0),
                [signal("stars", "oss_popularity", 100.0, 1.0), signal("shop", "user_adoption", 100.0, 1.0)],
            ),
        ),
        (
            "a stolen key of weight 0.7 praises an agent at 40",
            at_40.clone(),
            changed(&at_40, |s| {
                if s.source == "directory" {
                    s.value = 100.0;
                }
            }),
        ),
        (
            "a stolen key of weight 0.7 blackens an agent at 95",
            at_95.clone(),
            changed(&at_95, |s| {
                if s.source == "directory" {
                    s.value = 0.0;
                }
            }),
        ),
        (
            "a fully trusted liar says 100 under every tag of an agent at 40",
            at_40.clone(),
            with(&at_40, everything().map(|tag| signal("liar", tag, 100.0, 1.0))),
        ),
        (
            "a source of weight 0.3 says 0 under a threat nobody else probed",
            unprobed.clone(),
            with(&unprobed, [hole(0.3)]),
        ),
        ("the same of weight 0.1", unprobed.clone(), with(&unprobed, [hole(0.1)])),
        (
            "a friend is the first to speak of security: 100 under one threat",
            without(&at_95, is_probe),
            with(&without(&at_95, is_probe), [signal("friend", ASI[0], 100.0, 1.0)]),
        ),
    ]
}

/// The score by heads, by independent sources, and assured.
fn scores(signals: &Signals) -> [u8; 3] {
    let weighted: Vec<_> = signals
        .iter()
        .map(|s| Weighted { source: s.source, value: s.value, stddev: s.stddev, weight: s.weight })
        .collect();
    let speakers: Vec<Speaker<'_>> = signals.iter().map(Signal::speaker).collect();
    let heads = signals.iter().map(|s| s.source).collect::<BTreeSet<_>>().len();
    let by =
        |n| universal::score_with(&weighted, n, DEFAULT_COVERAGE_FLOOR).unwrap().rated().map_or(0, |score| score.score);
    [by(heads), by(Voices::of(&speakers).independent()), Model::standard().unwrap().score(signals).unwrap().score]
}

#[test]
fn attacks_are_documented_as_measured() {
    let text = std::fs::read_to_string("../../docs/attacks.md").unwrap();
    let mut missing = Vec::new();
    for (what, before, after) in attacks() {
        let (before, after) = (scores(&before), scores(&after));
        let cell = |n: usize| {
            let (before, after) = (i32::from(before[n]), i32::from(after[n]));
            format!("{before} → {after} ({:+})", after - before)
        };
        let line = format!("| {what} | {} | {} | {} |", cell(0), cell(1), cell(2));
        if !text.contains(&line) {
            missing.push(line);
        }
        let gain = i32::from(after[2]) - i32::from(before[2]);
        // The attack's own words in bold, in the text that says what it takes.
        if gain > SMALL && !text.contains(&format!("**{what}**")) {
            missing.push(format!("what this gain of {gain} takes: **{what}**"));
        }
    }
    assert!(missing.is_empty(), "docs/attacks.md does not say:\n{}", missing.join("\n"));
}

#[test]
fn what_a_score_takes_is_documented_as_measured() {
    let text = std::fs::read_to_string("../../docs/score.md").unwrap();
    let assured = |of: fn(f64) -> Signals| [98.0, 95.0, 90.0].map(|value| scores(&of(value))[2]);
    for (what, [a, b, c]) in [
        ("one of each kind (7 in all)", assured(watched)),
        ("three of each kind (21 in all), all of weight 1", assured(watched_by_three)),
    ] {
        let line = format!("| {what} | {a} | {b} | {c} |");
        assert!(text.contains(&line), "docs/score.md does not say: {line}");
    }
}
