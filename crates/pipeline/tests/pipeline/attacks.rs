//! What attackers gain, in numbers. `docs/attacks.md` states them, and these tests hold it to what they measure.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use credence_pipeline::NewAgent;
use credence_protocol::StatementKind;
use serde_json::{Value, json};

use crate::common::{House, id};

/// The measured line must stand in the document, word for word.
fn documented(line: &str) {
    println!("{line}");
    let text = std::fs::read_to_string("../../docs/attacks.md").unwrap();
    assert!(text.contains(line), "docs/attacks.md does not say: {line}");
}

/// An agent's universal score by now: the mean, before rounding.
fn universal(house: &House, agent: &str) -> f64 {
    house.authority.score_now().unwrap();
    house.score(agent).outcome.rated().map_or(0.0, |score| score.mean)
}

fn quality(house: &House, agent: &str) -> Option<f64> {
    house.authority.score_now().unwrap();
    let slot = format!("{agent}/credence/output_quality");
    house.current().into_iter().find(|(place, _)| *place == slot).map(|(_, row)| row.value)
}

fn with(mut record: Value, field: &str, value: Value) -> Value {
    record["summary"][field] = value;
    record
}

/// Three sources that measure 60.
fn ordinary(agents: &[&str]) -> House {
    let house = House::network_in_memory(agents);
    for source in ["uptime", "probes"] {
        house.add_source(source, 1.0);
        house.measure(agents[0], source, "rel_uptime", 60.0);
    }
    house
}

#[test]
fn a_rubber_stamp_provider() {
    let house = ordinary(&["bot"]);
    house.provider("stamp");
    let before = universal(&house, "bot");
    house.report("stamp", house.blind_summary("bot", 1.0, 0.0, 10_000)).unwrap();
    let after = universal(&house, "bot");
    documented(&format!("| lets everything pass, 10,000 checks | {before:.1} | {after:.1} | {:+.1} |", after - before));
    assert_eq!(after, before, "a verifier that never blocks says nothing");
    let lies = with(house.summary("bot", 1.0, 0.0, 10_000), "canaries", json!({"checks": 1000, "caught": 1000}));
    house.report("stamp", lies).unwrap();
    let after = universal(&house, "bot");
    documented(&format!("| and lies about 1,000 canaries | {before:.1} | {after:.1} | {:+.1} |", after - before));
    house.provider("honest");
    house.report("honest", house.summary("bot", 0.4, 0.6, 1_000)).unwrap();
    let after = universal(&house, "bot");
    documented(&format!(
        "| the same, beside an honest provider who blocks 60 % | {before:.1} | {after:.1} | {:+.1} |",
        after - before
    ));
    house.assert_sound();
}

#[test]
fn a_provider_colluding_with_an_agent_against_an_honest_one() {
    for (checks, shown) in [(1_000, "1,000"), (100_000, "100,000"), ((1 << 53) - 1, "9,007,199,254,740,991")] {
        let house = House::network_in_memory(&["bot"]);
        house.provider("honest");
        house.provider("friend");
        house.report("honest", house.summary("bot", 0.4, 0.6, 1_000)).unwrap();
        let before = quality(&house, "bot").unwrap();
        house.report("friend", house.summary("bot", 0.95, 0.05, checks)).unwrap();
        let after = quality(&house, "bot").unwrap();
        documented(&format!(
            "| {shown} invented checks against 1,000 honest ones | {before:.1} | {after:.1} | {:+.1} |",
            after - before
        ));
        assert!(after - before < 10.0);
    }
}

#[test]
fn trivial_claims_farmed() {
    let house = House::network_in_memory(&["bot"]);
    house.provider("lab");
    let stakes = |level: &str| {
        with(house.summary("bot", 0.9, 0.1, 1_000), "stakeDistribution", json!({level: {"checks": 1000}}))
    };
    house.report("lab", stakes("medium")).unwrap();
    let medium = quality(&house, "bot").unwrap();
    house.report("lab", stakes("low")).unwrap();
    let low = quality(&house, "bot").unwrap();
    documented(&format!(
        "| outputs: 1,000 trivial checks instead of ordinary ones | {medium:.1} | {low:.1} | {:+.1} |",
        low - medium
    ));
    assert!(low < medium);
    house.report("lab", stakes("critical")).unwrap();
    let critical = quality(&house, "bot").unwrap();
    documented(&format!(
        "| outputs: all of them called critical | {medium:.1} | {critical:.1} | {:+.1} |",
        critical - medium
    ));
    assert_eq!(critical, medium);
    house.establish("bot", 20);
    let twenty = house.reputation("bot").unwrap().score;
    house.establish("bot", 0);
    for n in 20..200 {
        let name = format!("trivial-{n}");
        house.contract("bot", &name);
        house.verify(&name, 1.0);
    }
    let many = house.reputation("bot").unwrap().score;
    documented(&format!(
        "| reputation: 200 trivial contracts, all borne out, instead of 20 | {twenty:.1} | {many:.1} | {:+.1} |",
        many - twenty
    ));
    assert!(many < 22.5, "without a peer nobody gets further");
}

/// Registers agents and lets each publish a spotless contract, several at a time.
fn crowd(house: &House, names: &[String]) {
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    house.authority.add_agent(NewAgent::new(id(name))).unwrap();
                    house.introduce(name);
                    let record = house.contract_record(name, &format!("{name}-0"));
                    if let Err(rejection) = house.say(name, StatementKind::Contract, record) {
                        *failed.lock().unwrap() = Some(rejection);
                    }
                }
            });
        }
    });
    assert_eq!(failed.into_inner().unwrap(), None);
}

#[test]
fn a_thousand_newborn_sybils() {
    let house = House::network_in_memory(&["bot"]);
    house.establish("bot", 20);
    let before = house.reputation("bot").unwrap();
    let names: Vec<String> = (0..1000).map(|n| format!("sybil-{n}")).collect();
    crowd(&house, &names);
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut cites = house.contract_record(name, &format!("{name}-cites"));
                    cites["source_refs"] = json!((0..20).map(|n| format!("bot-{n}")).collect::<Vec<_>>());
                    house.say(name, StatementKind::Contract, cites).unwrap();
                    let review = house.review_record(name, "bot", "bot-3", 1.0);
                    let review = with_id(review, name);
                    house.say(name, StatementKind::Review, review).unwrap();
                }
            });
        }
    });
    let after = house.reputation("bot").unwrap();
    documented(&format!(
        "| 1,000 newborns applaud and cite | {:.1} | {:.1} | {:+.1} |",
        before.score,
        after.score,
        after.score - before.score
    ));
    assert_eq!(after.score, before.score);
    assert!(house.reputation("sybil-1").unwrap().score < 15.0);
}

fn with_id(mut record: Value, id: &str) -> Value {
    record["review_id"] = json!(format!("review-{id}"));
    record
}

/// Sybils that somebody certified: each has ten outcomes that an admitted verifier signed.
#[test]
fn sybils_whom_a_verifier_certified() {
    let house = House::network_in_memory(&["bot"]);
    house.establish("bot", 20);
    let before = house.reputation("bot").unwrap().score;
    let names: Vec<String> = (0..20).map(|n| format!("sybil-{n}")).collect();
    crowd(&house, &names);
    for name in &names {
        house.identify(name, "v1", "sharpe");
        for n in 1..=10 {
            let contract = format!("{name}-{n}");
            house.contract(name, &contract);
            house.verify(&contract, 1.0);
        }
    }
    for name in &names {
        let mut cites = house.contract_record(name, &format!("{name}-cites"));
        cites["source_refs"] = json!((0..20).map(|n| format!("bot-{n}")).collect::<Vec<_>>());
        house.say(name, StatementKind::Contract, cites).unwrap();
        house.review(name, "bot", "bot-3", 1.0);
    }
    let after = house.reputation("bot").unwrap().score;
    documented(&format!(
        "| 20 sybils with ten certified outcomes each applaud and cite | {before:.1} | {after:.1} | {:+.1} |",
        after - before
    ));
    assert!(after - before < 15.0);
    house.assert_sound();
}

/// Agents with a good record of their own that agree to take up and praise whatever the others claim.
#[test]
fn a_ring_of_agents_that_applaud_each_other() {
    let house = House::network_in_memory(&[]);
    let names: Vec<String> = (0..8).map(|n| format!("ring-{n}")).collect();
    for name in &names {
        house.authority.add_agent(NewAgent::new(id(name))).unwrap();
        house.introduce(name);
        house.establish(name, 10);
    }
    let best = || names.iter().map(|name| house.reputation(name).unwrap().score).fold(0.0, f64::max);
    let before = best();
    for round in 0..10 {
        for name in &names {
            let mut record = house.contract_record(name, &format!("{name}-round-{round}"));
            record["source_refs"] =
                json!(names.iter().filter(|peer| *peer != name).map(|peer| format!("{peer}-9")).collect::<Vec<_>>());
            house.say(name, StatementKind::Contract, record).unwrap();
            house.verify(&format!("{name}-round-{round}"), 1.0);
            for peer in names.iter().filter(|peer| *peer != name) {
                house.review(name, peer, &format!("{peer}-9"), 1.0 - 0.001 * f64::from(round));
            }
        }
    }
    let after = best();
    documented(&format!(
        "| a ring of 8 that applaud and cite each other, ten rounds | {before:.1} | {after:.1} | {:+.1} |",
        after - before
    ));
    assert!(after - before < 15.0);
    house.assert_sound();
}

/// Whoever joins in after the first refutation adds nothing.
#[test]
fn a_pile_on() {
    let house = House::network_in_memory(&["bot"]);
    house.establish("bot", 20);
    let names: Vec<String> = (0..20).map(|n| format!("rival-{n}")).collect();
    crowd(&house, &names);
    house.contract("bot", "slip");
    for name in &names {
        house.challenge(name, "slip", &format!("by-{name}"));
    }
    house.resolve("by-rival-0", "successful");
    let before = house.reputation("bot").unwrap();
    for name in &names[1..] {
        house.resolve(&format!("by-{name}"), "successful");
    }
    let after = house.reputation("bot").unwrap();
    documented(&format!(
        "| 19 rivals join in after a first refutation: what the score moves towards | {:.1} | {:.1} | {:+.1} |",
        before.raw,
        after.raw,
        after.raw - before.raw
    ));
    assert_eq!(after.raw, before.raw);
}

#[test]
fn a_challenge_spammer() {
    let house = House::network_in_memory(&["bot", "spammer"]);
    house.establish("bot", 20);
    house.establish("spammer", 20);
    let before = (house.reputation("bot").unwrap().score, house.reputation("spammer").unwrap().score);
    for n in 0..50 {
        let (contract, challenge) = (format!("claim-{n}"), format!("ch-{n}"));
        house.contract("bot", &contract);
        house.challenge("spammer", &contract, &challenge);
        house.resolve(&challenge, "failed");
    }
    let after = (house.reputation("bot").unwrap().score, house.reputation("spammer").unwrap().score);
    documented(&format!(
        "| the target, after 50 failed challenges | {:.1} | {:.1} | {:+.1} |",
        before.0,
        after.0,
        after.0 - before.0
    ));
    documented(&format!("| the spammer | {:.1} | {:.1} | {:+.1} |", before.1, after.1, after.1 - before.1));
    assert!((after.0 - before.0).abs() < 5.0 && after.1 < 2.0);
    house.assert_sound();
}

/// Claims that nobody settles do not push out what earlier ones came to.
#[test]
fn a_bad_record_flooded_with_new_claims() {
    let house = House::network_in_memory(&["bot"]);
    house.establish("bot", 10);
    for n in 0..20 {
        let name = format!("bad-{n}");
        house.contract("bot", &name);
        house.verify(&name, -1.0);
    }
    let before = house.reputation("bot").unwrap();
    for n in 0..100 {
        house.contract("bot", &format!("flood-{n}"));
    }
    let after = house.reputation("bot").unwrap();
    documented(&format!(
        "| 100 new claims after 20 bad outcomes | {:.1} | {:.1} | {:+.1} |",
        before.score,
        after.score,
        after.score - before.score
    ));
    assert!(after.score < before.score + 0.1 && after.factors.p == before.factors.p);
}

#[test]
fn an_agent_that_behaves_for_sixty_days_and_then_turns() {
    let house = House::network_in_memory(&["bot"]);
    house.identify("bot", "v1", "sharpe");
    let mut day = 0;
    let mut live = |outcome: f64| {
        let name = format!("day-{day}");
        house.contract("bot", &name);
        house.verify(&name, outcome);
        house.advance(86_400);
        day += 1;
        house.reputation("bot").unwrap()
    };
    let mut good = live(1.0);
    for _ in 1..60 {
        good = live(1.0);
    }
    let mut scores = Vec::new();
    while scores.len() < 30 {
        let before = scores.last().copied().unwrap_or(good.score);
        let row = live(-1.0);
        assert!(row.score <= before + 1e-9 && before - row.score <= 16.0, "two events of at most 8 a day");
        scores.push(row.score);
    }
    let half = scores.iter().position(|score| *score < good.score / 2.0).unwrap() + 1;
    documented(&format!(
        "| one day after it turned | {:.1} | {:.1} | {:+.1} |",
        good.score,
        scores[0],
        scores[0] - good.score
    ));
    documented(&format!(
        "| seven days after | {:.1} | {:.1} | {:+.1} |",
        good.score,
        scores[6],
        scores[6] - good.score
    ));
    documented(&format!(
        "| thirty days after | {:.1} | {:.1} | {:+.1} |",
        good.score,
        scores[29],
        scores[29] - good.score
    ));
    documented(&format!("Half of its reputation is gone after {half} days."));
    house.assert_sound();
}
