//! Nothing is signed on rows that differ from the ledger.

use credence_engine::assessment::Rules;
use credence_ledger::write;
use credence_output::{badge::Style, did::Issuer};
use credence_pipeline::{
    Error, NewAgent,
    answer::{Answers, Question, Refusal},
    credentials::Office,
    integrity::{self, Checked},
};
use credence_protocol::{Alias, TagRegistry};
use serde_json::{Value, json};

use crate::{
    common::{House, id, key, log_key},
    tables,
};

fn house() -> House {
    let house = House::new(&[("lab", 1.0), ("rival", 0.5), ("third", 0.8)], &[]);
    let aliases = vec![Alias::parse("https://bot.example").unwrap()];
    house.authority.add_agent(NewAgent { aliases, ..NewAgent::new(id("bot")) }).unwrap();
    for source in ["lab", "rival", "third"] {
        house.measure("bot", source, "rel_uptime", 40.0);
    }
    house.authority.score_now().unwrap();
    house
}

/// Everything that is signed about an agent: an answer, a badge, a credential. What each gave.
fn signed(house: &House) -> [Result<(), String>; 3] {
    let (rules, key) = (Rules::standard().unwrap(), key("credence"));
    let answers = Answers::new(house.authority.reading(), &rules, &key);
    let question = Question { entity: "bot", url: "https://bot.example/", context: None };
    let told = |refusal: Refusal| match refusal {
        Refusal::Pipeline(Error::Differs(what)) => what,
        other => panic!("{other}"),
    };
    let answer = house.authority.up_to_date(|view, again| answers.on(again).answer(view, question, house.now()));
    let badge =
        house.authority.up_to_date(|view, again| answers.on(again).badge(view, "bot", Style::Flat, house.now()));
    let office = Office { issuer: Issuer::new(None, &key.public()), key: key.clone(), base_url: "http://x".into() };
    let credential = house.authority.issue_credential(&office, &id("bot"), 1);
    [
        answer.map(drop).map_err(told),
        badge.map(drop).map_err(told),
        credential.map(drop).map_err(|error| told(error.into())),
    ]
}

fn change(house: &House, table: &'static str, key: &'static str, member: &'static str, value: Value) {
    write(house.authority.ledger(), move |tx| {
        let mut row: Value = tables::get(tx, table, key).unwrap();
        assert_ne!(row[member], value);
        row[member] = value.clone();
        tables::put(tx, table, key, &row)
    })
    .unwrap();
}

fn check(house: &House) -> Checked {
    let view = house.authority.ledger().view().unwrap();
    integrity::check(&*view, log_key().verifier(), &TagRegistry::standard().unwrap(), &|| true).unwrap()
}

#[test]
fn what_is_sound_is_signed() {
    let house = house();
    assert_eq!(signed(&house), [Ok(()), Ok(()), Ok(())]);
    house.measure("bot", "lab", "rel_uptime", 90.0);
    assert_eq!(signed(&house), [Ok(()), Ok(()), Ok(())], "rescored first");
    let entries = house.size();
    assert!(matches!(check(&house), Checked::Same { entries: seen } if seen == entries), "{:?}", check(&house));
}

/// A number that was changed in a table, past the ledger, gets no signature, and no score event either.
#[test]
fn a_changed_row_gets_no_signature() {
    let newest = |house: &House| {
        let view = house.authority.ledger().view().unwrap();
        let row: Value = tables::get(&*view, "scores", "bot/uts/1").unwrap();
        row["seq"].as_u64().unwrap()
    };
    let cases = [
        ("scores", "bot/uts/1", "score", json!(99)),
        ("scores", "bot/uts/1", "mean", json!(99.5)),
        ("scores", "bot/uts/2", "score", json!(99)),
        ("scores", "bot/uts/2", "estimate", json!(99.5)),
        ("current", "bot/lab/rel_uptime", "value", json!(99.0)),
        ("sources", "rival", "weight", json!(50.0)),
        ("agents", "bot", "registered_at", json!("2020-01-01T00:00:00.000000Z")),
    ];
    for (table, key, member, value) in cases {
        let house = house();
        let (size, event) = (house.size(), newest(&house));
        change(&house, table, key, member, value);
        for outcome in signed(&house) {
            assert!(outcome.as_ref().is_err_and(|what| what.contains("bot")), "{table}.{member}: {outcome:?}");
        }
        assert_eq!((house.size(), newest(&house)), (size, event), "{table}.{member}: nothing was recorded");
        let Checked::Differ(found) = check(&house) else { panic!("{table}.{member}") };
        assert!(found.count > 0);
    }
}

/// What no signature rests on directly is found by the check of everything.
#[test]
fn any_other_difference_is_found_by_the_full_check() {
    let house = house();
    write(house.authority.ledger(), |tx| tables::put(tx, "aliases", "https://other.example", &"bot")).unwrap();
    assert_eq!(signed(&house), [Ok(()), Ok(()), Ok(())]);
    let Checked::Differ(found) = check(&house) else { panic!("an alias that follows from no entry") };
    assert!(found.listed[0].what.contains("https://other.example"), "{found:?}");
    let view = house.authority.ledger().view().unwrap();
    let tags = TagRegistry::standard().unwrap();
    let stopped = integrity::check(&*view, log_key().verifier(), &tags, &|| false).unwrap();
    assert!(matches!(stopped, Checked::Stopped));
}

/// An entry that was changed with the triggers off is not what the log was built over.
#[test]
fn a_changed_entry_gets_no_signature() {
    let folder = house().close();
    let raw = rusqlite::Connection::open(folder.path().join("ledger.db")).unwrap();
    raw.execute_batch(
        "DROP TRIGGER entries_are_never_changed;
         UPDATE entries SET entry = replace(entry, '\"score\":', '\"score\": ') WHERE entry LIKE '%\"kind\":\"score\"%';",
    )
    .unwrap();
    drop(raw);
    let clock = std::sync::Arc::new(std::sync::atomic::AtomicI64::new(
        crate::common::START.parse::<credence_protocol::Timestamp>().unwrap().plus_seconds(60).micros(),
    ));
    let ledger =
        credence_ledger::SqliteLedger::open(crate::common::options(&folder), log_key(), crate::common::ticking(&clock));
    let mut house = House::over(ledger.unwrap(), clock);
    house.folder = folder;
    for outcome in signed(&house) {
        assert!(
            outcome.as_ref().is_err_and(|what| what.contains("not the one that the log was built over")),
            "{outcome:?}"
        );
    }
}
