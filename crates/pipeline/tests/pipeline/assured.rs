//! Assured scores in the ledger: beside universal ones, by age, and by whose voices they are.

use credence_engine::{assessment::Rules, assured};
use credence_pipeline::{
    Error, NewAgent, NewSource, SourceChange,
    answer::{Answers, Question},
    query::{self, AssuredRow, Formula, Ranking},
};
use credence_protocol::{Alias, ScoreStatus};
use proptest::prelude::*;
use serde_json::Value;

use crate::common::{House, id, key, run_by};

const DAY: i64 = 86_400;
const HOUR: i64 = 3_600;

/// Tags of every counted dimension.
const WATCHED: [&str; 6] =
    ["asi01_goal_hijack", "asi05_code_execution", "rel_uptime", "output_quality", "user_feedback", "identity_domain"];

/// An agent that four sources have measured well, and its house.
fn watched() -> House {
    let house = House::in_memory(&[("a", 1.0), ("b", 1.0), ("c", 1.0), ("d", 1.0)], &["bot"]);
    for source in ["a", "b", "c", "d"] {
        // Verification results come from the authority alone.
        for tag in WATCHED.iter().filter(|tag| **tag != "output_quality") {
            house.measure("bot", source, tag, 95.0);
        }
    }
    house.authority.score_now().unwrap();
    house
}

fn assured_events(house: &House, agent: &str) -> Vec<AssuredRow> {
    let view = house.authority.ledger().view().unwrap();
    query::assured_history(&*view, &id(agent), 1_000).unwrap()
}

/// Makes what is due, day by day, as a service does.
fn live(house: &House, days: i64) {
    for _ in 0..days {
        house.advance(DAY);
        house.authority.score_due().unwrap();
    }
}

#[test]
fn both_formulas_are_recorded_together() {
    let house = watched();
    let score = house.score("bot");
    let assured = score.assured.clone().unwrap();
    assert_eq!((Some(assured.inputs_of), assured.seq), (score.seq, score.seq.unwrap() + 1));
    assert_eq!(assured.formula, assured::FORMULA);
    assert!(assured.numbers.low < assured.numbers.estimate && assured.numbers.status == ScoreStatus::Published);
    let sum: f64 = assured.numbers.steps.iter().map(|step| step.value).sum();
    assert!((sum - f64::from(assured.numbers.score)).abs() < 1e-9, "the steps add up");
    let line = score.to_string();
    assert!(line.contains(" assured · estimate ") && line.contains(" % · universal "), "{line}");
    house.assert_sound();
}

/// Nothing is recorded for weeks, and the score falls: events come by themselves, at most one a day, and each has a reason.
#[test]
fn age_alone_is_recorded_and_not_more_than_once_a_day() {
    let house = watched();
    let signals = house.size();
    live(&house, 120);
    let events = assured_events(&house, "bot");
    let view = house.authority.ledger().view().unwrap();
    assert_eq!(query::history(&*view, &id("bot"), 10).unwrap().len(), 1, "the universal score does not age");
    drop(view);
    assert!(events.len() > 5, "{}", events.len());
    assert!(events.len() as i64 <= 121 && house.size() - signals == events.len() as u64 - 1);
    for pair in events.windows(2) {
        let [after, before] = pair else { unreachable!() };
        assert!(after.recorded_at >= before.recorded_at.plus_seconds(DAY) || before.aged_at.is_none());
        assert_eq!(after.recorded.inputs_of, before.recorded.inputs_of);
        let (now, then) = (&after.recorded.assured, &before.recorded.assured);
        assert!(now.score.abs_diff(then.score) >= 1, "an event by age says something new");
        assert!(now.known < then.known);
    }
    let newest = &events[0].recorded.assured;
    let first = &events[events.len() - 1].recorded.assured;
    assert!(newest.score + 20 < first.score, "{} → {}", first.score, newest.score);
    house.assert_sound();
    // A reader gets what is recorded; it is not behind.
    let view = house.authority.ledger().view().unwrap();
    assert!(!house.authority.reading().is_behind(&*view, &id("bot"), house.now()).unwrap());
}

/// A service that stood still for weeks records once when it comes back, and a signed answer does not wait for it.
#[test]
fn an_answer_after_a_long_silence_rests_on_an_event_of_now() {
    let house = watched();
    let aliases = vec![Alias::parse("https://bot.example/").unwrap()];
    house.authority.add_agent(NewAgent { aliases, ..NewAgent::new(id("bot")) }).unwrap();
    house.advance(40 * DAY);
    let answer = answer(&house, "bot", "https://bot.example/");
    let events = assured_events(&house, "bot");
    assert_eq!(events.len(), 2);
    assert_eq!(answer["assessment"]["extensions"]["assuredEvent"]["value"], events[0].seq);
    assert!(events[0].recorded.evaluated_at >= house.now().plus_seconds(-2 * HOUR));
    house.assert_sound();
}

fn answer(house: &House, agent: &str, url: &str) -> Value {
    let (rules, key, now) = (Rules::standard().unwrap(), key("credence"), house.now());
    let answers = Answers::new(house.authority.reading(), &rules, &key);
    let question = Question { entity: agent, url, context: Some("high-value") };
    let made = house.authority.up_to_date(|view, rescored| answers.on(rescored).answer(view, question, now)).unwrap();
    serde_json::from_str(made.document.as_str()).unwrap()
}

#[test]
fn owners_and_roots_decide_whose_voices_they_are() {
    let house = watched();
    let before = house.score("bot");
    assert_eq!(before.outcome.rated().unwrap().sources, 4);
    // Three of the four turn out to be run by one owner.
    for source in ["b", "c", "d"] {
        house.authority.change_source(id(source), run_by("acme")).unwrap();
    }
    let after = house.score("bot");
    assert_eq!(after.outcome.rated().unwrap().sources, 2);
    assert!(after.assured.as_ref().unwrap().numbers.score < before.assured.as_ref().unwrap().numbers.score);
    // And the fourth reads what one of them reads.
    let reads = |roots: &[&str]| SourceChange {
        roots: Some(roots.iter().map(|root| root.parse().unwrap()).collect()),
        ..SourceChange::default()
    };
    house.authority.change_source(id("a"), reads(&["erc8004"])).unwrap();
    house.authority.change_source(id("b"), reads(&["erc8004:eip155:8453"])).unwrap();
    assert_eq!(house.score("bot").outcome.rated().unwrap().sources, 1);
    house.authority.change_source(id("b"), reads(&[])).unwrap();
    assert_eq!(house.score("bot").outcome.rated().unwrap().sources, 2);
    let size = house.size();
    house.authority.recompute(&mut |_| {}).unwrap();
    assert_eq!(house.size(), size, "recomputing records nothing twice");
    house.assert_sound();
}

#[test]
fn bad_owners_and_roots_are_refused_and_nothing_is_written() {
    let house = watched();
    let size = house.size();
    let rated = house.authority.change_source(id("a"), run_by("bot"));
    assert!(matches!(rated, Err(Error::OwnerIsRated { .. })), "{rated:?}");
    let root = |text: &str| text.parse().unwrap();
    let twice = NewSource { roots: vec![root("npm"), root("npm")], ..NewSource::new(id("new"), 1.0) };
    assert!(matches!(house.authority.add_source(twice), Err(Error::RootTwice(_))));
    let many = (0..17).map(|n| root(&format!("r{n}"))).collect();
    let many = NewSource { roots: many, ..NewSource::new(id("new"), 1.0) };
    assert!(matches!(house.authority.add_source(many), Err(Error::TooManyRoots(17))));
    let nothing = house.authority.change_source(id("a"), SourceChange::default());
    assert!(matches!(nothing, Err(Error::NothingNew(_))));
    assert_eq!(house.size(), size);
}

/// Seven sources of next to no weight make no breadth, and an agent that has nothing else is unrated by the first formula.
#[test]
fn sources_of_next_to_no_weight_are_no_breadth() {
    let sources: Vec<(String, f64)> = (0..7).map(|n| (format!("cheap-{n}"), 0.02)).collect();
    let named: Vec<(&str, f64)> = sources.iter().map(|(name, weight)| (name.as_str(), *weight)).collect();
    let house = House::in_memory(&named, &["bot"]);
    for (source, _) in &named {
        house.measure("bot", source, "rel_uptime", 90.0);
    }
    let score = house.score("bot");
    assert_eq!(score.outcome.status(), ScoreStatus::Unrated);
    let assured = score.assured.unwrap();
    assert!(
        assured.numbers.status == ScoreStatus::Published && assured.numbers.score < 15,
        "{:?}",
        assured.numbers.score
    );
    house.assert_sound();
}

#[test]
fn a_revoked_key_takes_both_scores_back() {
    let house = watched();
    let before = house.score("bot").assured.unwrap().numbers.score;
    for source in ["b", "c"] {
        house.authority.revoke_key(key(source).public().id(), Some(0), None).unwrap();
    }
    let after = house.score("bot");
    assert_eq!(after.outcome.rated().unwrap().sources, 2);
    assert!(after.assured.unwrap().numbers.score < before);
    for source in ["a", "d"] {
        house.authority.revoke_key(key(source).public().id(), Some(0), None).unwrap();
    }
    let none = house.score("bot");
    assert_eq!(none.outcome.status(), ScoreStatus::Unrated);
    assert_eq!(none.assured.unwrap().numbers.status, ScoreStatus::Unrated);
    house.assert_sound();
}

#[test]
fn a_kill_between_signals_and_scores_loses_neither_formula() {
    let house = House::new(&[("lab", 1.0)], &["bot"]);
    house.measure("bot", "lab", "rel_uptime", 90.0);
    let house = house.reopen();
    let score = house.score("bot");
    assert!(score.assured.is_some_and(|assured| Some(assured.inputs_of) == score.seq));
    // What was due by age while it was down is recorded when it is back.
    house.advance(30 * DAY);
    let house = house.reopen();
    assert_eq!(assured_events(&house, "bot").len(), 2);
    house.assert_sound();
}

#[test]
fn agents_are_ranked_by_either_formula_and_filtered_by_what_is_known() {
    let house = watched();
    house.authority.add_agent(NewAgent::new(id("thin"))).unwrap();
    for source in ["a", "b", "c", "d"] {
        house.measure("thin", source, "rel_uptime", 99.0);
    }
    house.authority.score_now().unwrap();
    let (_, all) = house.authority.reading().overviews(house.authority.ledger()).unwrap();
    let ranked =
        |by, min_known| Ranking { by, min_known }.of(&all).iter().map(|one| one.id.to_string()).collect::<Vec<_>>();
    assert_eq!(ranked(Formula::Universal, 0.0), ["thin", "bot"]);
    assert_eq!(ranked(Formula::Assured, 0.0), ["bot", "thin"]);
    assert_eq!(ranked(Formula::Assured, 0.4), ["bot"]);
}

/// The largest answer: sixty sources, each under every tag that it may use.
#[test]
fn the_assessment_of_an_agent_with_sixty_sources_fits() {
    let names: Vec<String> = (0..60).map(|n| format!("source-{n}")).collect();
    let sources: Vec<(&str, f64)> = names.iter().map(|name| (name.as_str(), 1.0)).collect();
    let house = House::in_memory(&sources, &[]);
    let aliases = vec![Alias::parse("https://bot.example/").unwrap()];
    house.authority.add_agent(NewAgent { aliases, ..NewAgent::new(id("bot")) }).unwrap();
    for (n, (source, _)) in sources.iter().enumerate() {
        for tag in ["asi01_goal_hijack", "asi05_code_execution", "rel_uptime", "user_feedback", "identity_domain"] {
            house.measure("bot", source, tag, 33.333 + n as f64 / 7.0);
        }
    }
    let answer = answer(&house, "bot", "https://bot.example/");
    let assessment = &answer["assessment"];
    assert!(assessment.to_string().len() <= 4096, "{}", assessment.to_string().len());
    assert!(assessment["reasoning"].as_str().unwrap().chars().count() <= 500);
    let highlights = assessment["highlights"].to_string();
    assert!(
        highlights.contains("over 2 kinds of threat")
            && !answer.to_string().replace("not a probability of anything", "").contains("robability"),
        "{highlights}"
    );
    // Three hundred measurements, of which sixty-four are listed, and it says so.
    let left_out = answer["signals"].as_array().unwrap().iter().find(|one| one["type"] == "credence.leftOut").unwrap();
    assert_eq!((left_out["data"]["leftOut"].as_u64(), left_out["data"]["listed"].as_u64()), (Some(236), Some(64)));
    house.assert_sound();
}

#[test]
fn an_agent_nobody_measured_has_no_verified_identity() {
    let house = House::in_memory(&[("lab", 1.0)], &[]);
    let aliases = vec![Alias::parse("https://bot.example/").unwrap()];
    house.authority.add_agent(NewAgent { aliases, ..NewAgent::new(id("bot")) }).unwrap();
    let kinds = |answer: &Value| -> Vec<String> {
        let kinds = answer["signals"].as_array().unwrap().iter().map(|one| one["type"].as_str().unwrap().to_owned());
        kinds.collect()
    };
    let unknown = answer(&house, "bot", "https://bot.example/");
    assert_eq!(kinds(&unknown), ["credence.registration"]);
    assert!(unknown["assessment"]["reasoning"].as_str().unwrap().contains("too little is known"));
    house.measure("bot", "lab", "identity_domain", 100.0);
    assert!(kinds(&answer(&house, "bot", "https://bot.example/")).contains(&"identity".to_owned()));
}

/// One step of a random history.
fn step(house: &House, what: u8, who: usize, number: f64) {
    let (source, agent) = (["a", "b", "c"][who % 3], ["bot", "rival"][who % 2]);
    match what {
        0..=5 => drop(house.measure(agent, source, WATCHED[(number * 97.0) as usize % 3], (number * 100.0).round())),
        6 => drop(house.authority.set_weight(id(source), if number < 0.3 { 0.0 } else { number })),
        7 => drop(house.authority.change_source(id(source), run_by(["acme", "zeta"][(number * 2.0) as usize % 2]))),
        8 => {
            let roots = if number < 0.5 { Vec::new() } else { vec!["npm".parse().unwrap()] };
            drop(house.authority.change_source(id(source), SourceChange { roots: Some(roots), ..Default::default() }));
        }
        9 => house.advance((number * 20.0) as i64 * DAY),
        _ => house.authority.score_due().unwrap(),
    }
}

fn random_history(steps: &[(u8, usize, f64)]) -> House {
    let house = House::in_memory(&[("a", 1.0), ("b", 0.5), ("c", 0.04)], &["bot", "rival"]);
    steps.iter().for_each(|(what, who, number)| step(&house, *what, *who, *number));
    house
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    /// Whatever happens, both formulas replay and audit byte for byte.
    #[test]
    fn any_history_replays(steps in prop::collection::vec((0u8..11, 0usize..6, 0.0..1.0_f64), 1..40)) {
        let house = random_history(&steps);
        house.authority.score_now().unwrap();
        let audited = house.audit(true);
        prop_assert_eq!(audited.findings.count, 0, "{:#?}", audited.findings);
        let size = house.size();
        house.authority.recompute(&mut |_| {}).unwrap();
        prop_assert_eq!(house.size(), size, "recomputing records nothing twice");
    }
}

/// A long history by both formulas, replayed and audited. `LONG_TESTS=1` makes it a hundred thousand signals.
#[test]
fn many_signals_replay_by_both_formulas() {
    let signals = if std::env::var_os("LONG_TESTS").is_some() { 100_000 } else { 2_000 };
    let agents: Vec<String> = (0..50).map(|n| format!("agent-{n}")).collect();
    let house = House::in_memory(
        &[("a", 1.0), ("b", 0.7), ("c", 0.3), ("d", 0.02)],
        &agents.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let mut random = 88_172_645_463_325_252_u64;
    let mut next = |n: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % n as u64) as usize
    };
    for n in 0..signals / 500 {
        let batch = (0..500).map(|_| {
            let (agent, source) = (&agents[next(50)], ["a", "b", "c", "d"][next(4)]);
            let tag = ["asi01_goal_hijack", "rel_uptime", "user_feedback", "identity_domain"][next(4)];
            let draft = house.draft(agent, source, &[tag], next(101) as f64);
            draft.sign(&key(source)).unwrap().canonical().as_bytes().to_vec()
        });
        let batch: Vec<Vec<u8>> = batch.collect();
        house.authority.submit_all(batch, &mut |_, verdict| assert!(verdict.is_ok(), "{verdict:?}")).unwrap();
        house.authority.score_now().unwrap();
        if n % 5 == 4 {
            house.authority.change_source(id("b"), run_by(if n % 2 == 0 { "acme" } else { "zeta" })).unwrap();
        }
        house.advance(DAY);
        house.authority.score_due().unwrap();
    }
    let audited = house.audit(true);
    assert_eq!(audited.findings.count, 0, "{:#?}", audited.findings);
    assert!(audited.score_events > (signals / 500 * 50) as u64, "{}", audited.score_events);
}
