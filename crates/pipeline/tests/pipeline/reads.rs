//! What is read for people and answers: the newest recorded event, and nothing that has passed.

use std::path::{Path, PathBuf};

use credence_engine::{assessment::Rules, certification::Fact, universal::Outcome};
use credence_output::{badge::Style, did::Issuer};
use credence_pipeline::{
    NewAgent,
    answer::{Answers, Question, Refusal},
    credentials::Office,
    filter, query,
};
use credence_protocol::{Alias, TagRegistry};
use serde_json::Value;

use crate::common::{House, id, key};

const PAGE: &str = "https://alice.example/";

impl House {
    fn at_home(&self, agent: &str) {
        let aliases = vec![Alias::parse(PAGE).unwrap()];
        self.authority.add_agent(NewAgent { aliases, ..NewAgent::new(id(agent)) }).unwrap();
    }

    /// A signed answer, made as services make them.
    fn answer(&self, agent: &str) -> Value {
        let (rules, key, now) = (Rules::standard().unwrap(), key("credence"), self.now());
        let answers = Answers::new(self.authority.reading(), &rules, &key);
        let question = Question { entity: agent, url: PAGE, context: None };
        let answer =
            self.authority.up_to_date(|view, rescored| answers.on(rescored).answer(view, question, now)).unwrap();
        serde_json::from_str(answer.document.as_str()).unwrap()
    }
}

fn fact<'a>(answer: &'a Value, kind: &str) -> Option<&'a Value> {
    answer["signals"].as_array().unwrap().iter().find(|fact| fact["type"] == kind).map(|fact| &fact["data"])
}

#[test]
fn reviews_outside_the_window_are_in_no_answer() {
    let house = House::network(&["alice", "bob"]);
    house.at_home("alice");
    house.add_source("lab", 1.0);
    house.establish("alice", 12);
    house.establish("bob", 12);
    house.take_up("bob", "alice-2");
    house.review("bob", "alice", "alice-2", 1.0);
    house.measure("alice", "lab", "rel_uptime", 90.0);
    // How many there are is a fact; what they come to is the authority's opinion.
    let reviews = |answer: &Value| {
        let rating = &answer["assessment"]["extensions"]["aggregateRating"]["value"];
        (fact(answer, "reputation").unwrap()["reviewCount"].as_u64(), rating.as_f64())
    };
    assert_eq!(reviews(&house.answer("alice")), (Some(1), Some(1.0)));

    house.advance(31 * 86_400);
    assert_eq!(reviews(&house.answer("alice")), (None, None));
    let view = house.authority.ledger().view().unwrap();
    assert!(query::reviews(&*view, &id("alice"), house.now()).unwrap().is_empty());
}

#[test]
fn a_lapsed_reputation_is_in_no_answer() {
    let house = House::network(&["alice"]);
    house.at_home("alice");
    house.establish("alice", 12);
    let told = |answer: &Value| {
        let highlights = answer["assessment"]["highlights"].to_string();
        assert!(fact(answer, "credence.reputation").is_none(), "an opinion is no fact");
        let told = answer["assessment"]["extensions"].get("reputation").is_some();
        (told, highlights.contains("Reputation among agents"))
    };
    assert_eq!(told(&house.answer("alice")), (true, true));
    let standing = || {
        let view = house.authority.ledger().view().unwrap();
        query::reputation(&*view, &id("alice"), house.now()).unwrap().unwrap()
    };
    assert_eq!((standing().standing(), standing().counts()), ("established", true));

    house.advance(31 * 86_400);
    assert_eq!(told(&house.answer("alice")), (false, false));
    assert_eq!((standing().standing(), standing().counts()), ("lapsed", false));
    assert!(standing().published(&id("alice"))["notes"].as_str().unwrap().contains("lapsed"));
}

/// A revocation takes effect when what was signed before it has expired.
#[test]
fn what_is_signed_holds_for_minutes_and_a_badge_for_an_hour() {
    let house = House::network(&["alice"]);
    house.at_home("alice");
    let (rules, key, now) = (Rules::standard().unwrap(), key("credence"), house.now());
    let answers = Answers::new(house.authority.reading(), &rules, &key);
    let holds = |context| {
        let question = Question { entity: "alice", url: PAGE, context };
        let answer = house.authority.up_to_date(|view, rescored| answers.on(rescored).answer(view, question, now));
        (answer.unwrap().expires.micros() - now.micros()) / 1_000_000
    };
    for context in [None, Some("purchase"), Some("inquiry"), Some("something else")] {
        assert_eq!(holds(context), 600, "{context:?}");
    }
    for context in ["high-value", "High Value", "HIGH_VALUE"] {
        assert_eq!(holds(Some(context)), 300, "{context}");
    }
    let badge = house.authority.up_to_date(|view, on| answers.on(on).badge(view, "alice", Style::Pill, now)).unwrap();
    assert_eq!(badge.expires, now.plus_seconds(3600));
}

/// Shown is the newest event, also while others count; signed is nothing that rests on an event that is behind.
#[test]
fn what_is_shown_and_signed_is_the_newest_recorded_event() {
    let house = House::new(&[("credence", 1.0), ("lab", 1.0), ("watch", 2.0)], &["alice"]);
    house.at_home("alice");
    house.measure("alice", "lab", "rel_uptime", 80.0);
    house.measure("alice", "watch", "rel_uptime", 80.0);
    let first = house.score("alice");
    assert!(first.seq.is_some() && first.inputs.len() == 2);

    house.authority.hold_scores(true);
    house.measure("alice", "lab", "rel_uptime", 20.0);
    house.authority.set_weight(id("watch"), 0.5).unwrap();
    let (rules, key) = (Rules::standard().unwrap(), key("credence"));
    let answers = Answers::new(house.authority.reading(), &rules, &key);
    let question = Question { entity: "alice", url: PAGE, context: None };
    let shown = || {
        let view = house.authority.ledger().view().unwrap();
        let reading = house.authority.reading();
        let explained = reading.explain(&*view, &id("alice")).unwrap();
        let listed = reading.overviews_of(&*view, [id("alice")]).unwrap().remove(0);
        let refused = answers.answer(&*view, question, house.now());
        let badge = answers.badge(&*view, "alice", Style::Flat, house.now());
        (explained, listed, reading.is_behind(&*view, &id("alice"), house.now()).unwrap(), refused, badge)
    };
    let (explained, listed, behind, refused, badge) = shown();
    assert!(behind && matches!(refused, Err(Refusal::Behind(_))) && matches!(badge, Err(Refusal::Behind(_))));
    assert_eq!((explained.score.seq, explained.score.outcome), (first.seq, first.outcome));
    assert_eq!(listed.score.map(|row| row.seq), first.seq);
    let weights: Vec<f64> = explained.contributions.iter().map(|part| part.weight).collect();
    assert_eq!(weights, [1.0, 2.0], "those of the event");
    assert!(explained.contributions.iter().all(|part| part.mean == 80.0));

    let answer = house.answer("alice");
    let (explained, listed, behind, ..) = shown();
    assert!(!behind && explained.score.seq > first.seq);
    let event = explained.score.seq.unwrap();
    assert_eq!(answer["assessment"]["extensions"]["scoreEvent"]["value"], event);
    assert_eq!(answer["assessment"]["extensions"]["trustScore"]["value"], listed.score.unwrap().recorded.score);
    assert_eq!(explained.contributions.iter().map(|part| part.weight).collect::<Vec<_>>(), [1.0, 0.5]);
    assert!(house.authority.ledger().view().unwrap().size().unwrap() > event);

    let now = house.now();
    let badge = house
        .authority
        .up_to_date(|view, rescored| answers.on(rescored).badge(view, "alice", Style::Flat, now))
        .unwrap();
    let claim = credence_output::badge::verify(&badge.svg, &[key.public()]).unwrap();
    assert_eq!(claim.event, Some(event));

    // A credential is issued in the same unit of work that scores.
    house.measure("alice", "lab", "rel_uptime", 60.0);
    let office = Office {
        issuer: Issuer::new(None, &key.public()),
        key: key.clone(),
        base_url: "https://authority.example".into(),
    };
    let credential = house.authority.issue_credential(&office, &id("alice"), 1).unwrap();
    let subject = &credential["credentialSubject"];
    let (explained, _, behind, ..) = shown();
    assert!(!behind);
    assert_eq!(subject["scoreEvent"].as_u64(), explained.score.seq);
    assert_eq!(subject["asOf"], explained.score.as_of);
    house.authority.hold_scores(false);
    house.assert_sound();
}

/// Past 256 inputs an event holds their digest: they are those that count now, or those of the ledger as it was.
#[test]
fn inputs_that_are_not_listed_are_found_again() {
    let sources: Vec<String> = (0..12).map(|n| format!("source-{n:02}")).collect();
    let mut all: Vec<(&str, f64)> = sources.iter().map(|source| (source.as_str(), 1.0)).collect();
    all.push(("credence", 1.0));
    let house = House::new(&all, &["alice"]);
    let registry = TagRegistry::standard().unwrap();
    let own = ["output_quality", "output_coverage", "peer_reputation"];
    let tags: Vec<&str> = registry
        .iter()
        .filter(|tag| !tag.deferred && !own.contains(&tag.name.as_str()))
        .map(|tag| tag.name.as_str())
        .collect();
    for (n, source) in sources.iter().enumerate() {
        house.admit(house.draft("alice", source, &tags, 50.0 + n as f64));
    }
    let before = house.score("alice");
    assert!(before.inputs.len() == 12 * tags.len() && before.inputs.len() > 256);

    house.authority.hold_scores(true);
    house.measure("alice", "source-00", "rel_uptime", 3.0);
    house.authority.set_weight(id("source-01"), 0.1).unwrap();
    let view = house.authority.ledger().view().unwrap();
    let reading = house.authority.reading();
    assert!(reading.needs_replay(&*view, &id("alice")).unwrap());
    let then = reading.explain(&*view, &id("alice")).unwrap();
    assert_eq!((then.score.seq, &then.score.inputs), (before.seq, &before.inputs));
    drop(view);

    assert!(house.authority.rescore(&id("alice")).unwrap());
    assert!(!house.authority.rescore(&id("alice")).unwrap(), "nothing new");
    let view = house.authority.ledger().view().unwrap();
    assert!(!reading.needs_replay(&*view, &id("alice")).unwrap());
    let now = reading.explain(&*view, &id("alice")).unwrap();
    assert!(now.score.seq > before.seq && now.score.inputs.iter().any(|input| input.value == 3.0));
    let weights = filter::Weights::read(&*view).unwrap();
    let facts: Vec<Fact<'_>> = filter::facts(&now.score.inputs, &weights);
    let Outcome::Rated(score) = now.score.outcome else { panic!("rated") };
    let assured = filter::assured_facts(now.score.assured.as_ref().map(|assured| &assured.numbers)).unwrap();
    assert_eq!(now.score.certification, house.authority.requirements().certify(score.score, &assured, &facts));
}

/// Tables are opened here alone: everything else asks [`query`].
#[test]
fn no_other_crate_opens_tables() {
    const OPENERS: [&str; 6] = ["tables::", "ledger::Table", " Table(", "Scan::", "Scan {", ".scan("];
    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let crates = Path::new(&std::env::var("CARGO_MANIFEST_DIR").unwrap()).parent().unwrap().to_owned();
    let (mut files, mut opened) = (Vec::new(), Vec::new());
    for name in ["server", "cli", "demo"] {
        sources(&crates.join(name).join("src"), &mut files);
    }
    assert!(files.len() > 80, "{} files", files.len());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let lines = text.lines().enumerate().filter(|(_, line)| OPENERS.iter().any(|opener| line.contains(opener)));
        opened.extend(lines.map(|(n, line)| format!("{}:{}: {}", file.display(), n + 1, line.trim())));
    }
    assert!(opened.is_empty(), "these open tables instead of asking pipeline::query:\n{}", opened.join("\n"));
}
