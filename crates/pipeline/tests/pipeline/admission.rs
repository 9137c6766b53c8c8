//! What is admitted, what is rejected and why, and what counts afterwards.

use crate::common::{House, id, key, tag};
use credence_ledger::Entry;
use credence_pipeline::{Error, NewAgent, Rejection, query};
use credence_protocol::{Alias, ScoreStatus, SecretKey, Signal};
use credence_testing::until;

fn house() -> House {
    House::new(&[("lab", 1.0), ("rival", 0.5)], &["bot", "other"])
}

/// The rejection's code; nothing may have been written.
fn rejected(house: &House, signal: &Signal) -> &'static str {
    let before = house.size();
    let rejection = house.send(signal).unwrap_err();
    assert_eq!(house.size(), before, "{rejection}");
    assert!(!rejection.to_string().is_empty());
    rejection.code()
}

#[test]
fn every_rejection_has_its_reason_and_writes_nothing() {
    let house = house();
    let lab = key("lab");
    let good = || house.draft("bot", "lab", &["rel_uptime"], 90.0);

    let mut draft = good();
    draft.tags = vec![tag("rel_uptme")];
    let unknown_tag = draft.sign(&lab).unwrap();
    assert_eq!(rejected(&house, &unknown_tag), "unknown_tag");
    assert!(house.send(&unknown_tag).unwrap_err().to_string().contains("did you mean 'rel_uptime'?"));

    let mut draft = good();
    draft.tags = vec![tag("peer_reputation")];
    assert_eq!(rejected(&house, &draft.sign(&lab).unwrap()), "tag_not_permitted");

    let stranger = SecretKey::from_seed(&[99; 32]);
    assert_eq!(rejected(&house, &good().sign(&stranger).unwrap()), "unknown_key");
    assert_eq!(rejected(&house, &good().sign(&key("rival")).unwrap()), "key_not_of_source");

    let signed = good().sign(&lab).unwrap();
    let forged = signed.canonical().as_str().replace("\"value\":90", "\"value\":99");
    assert_eq!(rejected(&house, &Signal::parse(forged.as_bytes()).unwrap()), "bad_signature");

    let mut draft = good();
    draft.agent = id("nobody");
    assert_eq!(rejected(&house, &draft.sign(&lab).unwrap()), "unknown_agent");

    let mut draft = good();
    draft.observed_at = house.now().plus_seconds(61).into();
    assert_eq!(rejected(&house, &draft.sign(&lab).unwrap()), "observed_in_future");
    let mut draft = good();
    draft.observed_at = house.now().plus_seconds(59).into();
    house.admit(draft);

    let (first, _) = house.measure("bot", "lab", "rel_uptime", 90.0);
    let mut draft = first.draft().clone();
    draft.value = 91.0;
    assert_eq!(rejected(&house, &draft.sign(&lab).unwrap()), "duplicate_id");

    let mut draft = good();
    draft.supersedes = Some(house.draft("bot", "lab", &["rel_uptime"], 1.0).id);
    assert_eq!(rejected(&house, &draft.sign(&lab).unwrap()), "unknown_superseded");

    let mut draft = house.draft("bot", "rival", &["rel_uptime"], 1.0);
    draft.supersedes = Some(first.draft().id);
    assert_eq!(rejected(&house, &draft.sign(&key("rival")).unwrap()), "foreign_superseded");
    let mut draft = house.draft("other", "lab", &["rel_uptime"], 1.0);
    draft.supersedes = Some(first.draft().id);
    assert_eq!(rejected(&house, &draft.sign(&lab).unwrap()), "foreign_superseded");

    house.authority.revoke_key(lab.public().id(), None, None).unwrap();
    assert_eq!(rejected(&house, &good().sign(&lab).unwrap()), "revoked_key");
    house.assert_sound();
}

#[test]
fn malformed_input_is_rejected_with_its_own_codes() {
    let house = house();
    let signal = house.draft("bot", "lab", &["rel_uptime"], 90.0).sign(&key("lab")).unwrap();
    let text = signal.canonical().as_str();
    for (input, code) in [
        (text[..text.len() / 2].to_owned(), "malformed"),
        (text.replace("\"value\":90", "\"value\":90,\"value\":90"), "malformed"),
        (text.replace("\"value\":90", "\"value\":NaN"), "malformed"),
        (text.replace("\"value\":90", "\"value\":100.1"), "value_out_of_range"),
        (text.replace("\"stddev\":1", "\"stddev\":51"), "stddev_out_of_range"),
        (text.replace("\"agent\":\"bot\"", "\"agent\":\"..\""), "malformed"),
        (text.replace("\"agent\"", &format!("\"evidence\":{{\"x\":\"{}\"}},\"agent\"", "y".repeat(5000))), "too_large"),
        (String::new(), "malformed"),
        (" ".repeat(100_000), "too_large"),
    ] {
        let rejection = house.authority.submit(input.as_bytes()).unwrap().unwrap_err();
        assert_eq!(rejection.code(), code, "{rejection}: {input:.80}");
    }
    assert_eq!(house.size(), 6, "two sources, two keys, two agents");
}

#[test]
fn the_same_signal_again_is_the_same_entry() {
    let house = house();
    let (signal, seq) = house.measure("bot", "lab", "rel_uptime", 90.0);
    let again = house.send(&signal).unwrap();
    assert_eq!((again.seq, again.known), (seq, true));
    // Even within one batch, and after its key was revoked.
    let fresh = house.draft("bot", "lab", &["rel_uptime"], 91.0).sign(&key("lab")).unwrap();
    let twice = vec![fresh.canonical().as_bytes().to_vec(); 2];
    let mut verdicts = Vec::new();
    house.authority.submit_all(twice, &mut |_, verdict| verdicts.push(verdict.unwrap().known)).unwrap();
    assert_eq!(verdicts, [false, true]);
    house.authority.revoke_key(key("lab").public().id(), None, None).unwrap();
    assert!(house.send(&signal).unwrap().known);
}

#[test]
fn the_weight_at_the_time_is_stamped() {
    let house = house();
    let (_, before) = house.measure("bot", "lab", "rel_uptime", 90.0);
    house.authority.set_weight(id("lab"), 0.25).unwrap();
    let (_, after) = house.measure("bot", "lab", "rel_uptime", 91.0);
    let view = house.authority.ledger().view().unwrap();
    let weight = |seq| Entry::parse(seq, &view.entry(seq).unwrap().unwrap()).unwrap().weight;
    assert_eq!((weight(before), weight(after)), (Some(1.0), Some(0.25)));
    house.assert_sound();
}

#[test]
fn the_newest_measurement_is_current_however_late_it_arrives() {
    let house = house();
    let old = house.draft("bot", "lab", &["rel_uptime", "rel_error_rate"], 10.0);
    house.advance(60);
    let (_, newest) = house.measure("bot", "lab", "rel_uptime", 90.0);
    let (_, late) = house.admit(old);
    let current: Vec<_> = house.current().into_iter().map(|(slot, row)| (slot, row.seq)).collect();
    assert_eq!(current, [("bot/lab/rel_error_rate".to_owned(), late), ("bot/lab/rel_uptime".to_owned(), newest)]);
}

#[test]
fn a_superseded_signal_stops_counting_for_all_its_tags() {
    let house = house();
    let (first, _) = house.admit(house.draft("bot", "lab", &["rel_uptime", "rel_error_rate"], 10.0));
    let mut correction = house.draft("bot", "lab", &["rel_uptime"], 90.0);
    correction.observed_at = house.now().plus_seconds(-3600).into();
    correction.supersedes = Some(first.draft().id);
    let (_, seq) = house.admit(correction);
    let current = house.current();
    assert_eq!(current.len(), 1, "{current:?}");
    assert_eq!((current[0].0.as_str(), current[0].1.seq), ("bot/lab/rel_uptime", seq));
    house.assert_sound();
}

#[test]
fn a_revoked_key_takes_its_signals_and_corrections_with_it() {
    let house = house();
    let (first, first_seq) = house.measure("bot", "lab", "rel_uptime", 80.0);
    let stolen = SecretKey::from_seed(&[42; 32]);
    house.authority.add_key(&stolen.public(), id("lab")).unwrap();
    let from = house.size();
    let mut correction = house.draft("bot", "lab", &["rel_uptime"], 1.0);
    correction.supersedes = Some(first.draft().id);
    house.send(&correction.sign(&stolen).unwrap()).unwrap();
    house.advance(10);
    house.send(&house.draft("bot", "lab", &["user_feedback"], 1.0).sign(&stolen).unwrap()).unwrap();
    assert_eq!(house.score("bot").outcome.rated().unwrap().weighted_mean, 1.0);
    house.authority.revoke_key(stolen.public().id(), Some(from), Some("stolen".into())).unwrap();
    let current: Vec<_> = house.current().into_iter().map(|(slot, row)| (slot, row.seq)).collect();
    assert_eq!(current, [("bot/lab/rel_uptime".to_owned(), first_seq)]);
    assert_eq!(house.recorded("bot").unwrap().weighted_mean, Some(80.0));
    house.assert_sound();
}

#[test]
fn an_agent_that_loses_its_last_signal_becomes_unrated_once() {
    let house = house();
    let from = house.size();
    house.measure("bot", "lab", "rel_uptime", 80.0);
    assert_eq!(house.recorded("bot").unwrap().status, ScoreStatus::Published);
    house.authority.revoke_key(key("lab").public().id(), Some(from), None).unwrap();
    assert_eq!(house.recorded("bot").unwrap().status, ScoreStatus::Unrated);
    let size = house.size();
    house.authority.recompute(&mut |_| {}).unwrap();
    assert_eq!(house.size(), size);
    assert_eq!(house.recorded("other"), None, "never rated: nothing is recorded");
    house.assert_sound();
}

#[test]
fn deferred_tags_are_admitted_and_not_scored() {
    let house = house();
    house.measure("bot", "lab", "cross_chain_consistency", 1.0);
    assert_eq!(house.recorded("bot"), None);
    house.measure("bot", "lab", "rel_uptime", 80.0);
    assert_eq!(house.recorded("bot").unwrap().weighted_mean, Some(80.0));
    house.assert_sound();
}

#[test]
fn a_change_of_weight_rescores_and_weight_0_silences() {
    let house = house();
    house.measure("bot", "lab", "rel_uptime", 100.0);
    house.measure("bot", "rival", "rel_uptime", 0.0);
    assert_eq!(house.recorded("bot").unwrap().sources, 2);
    house.authority.set_weight(id("rival"), 0.0).unwrap();
    let after = house.recorded("bot").unwrap();
    assert_eq!((after.sources, after.weighted_mean), (1, Some(100.0)));
    assert!(matches!(house.authority.set_weight(id("rival"), 0.0), Err(Error::SameWeight { .. })));
    for weight in [f64::NAN, -1.0, 1.7e308, 5e-324] {
        assert!(matches!(house.authority.set_weight(id("rival"), weight), Err(Error::Weight(_))), "{weight}");
    }
    house.assert_sound();
}

#[test]
fn scores_are_coalesced_and_follow_within_a_second() {
    let house = house();
    let before = house.size();
    for value in 0..50 {
        house.measure("bot", "lab", "rel_uptime", f64::from(value));
    }
    let view = || house.authority.ledger().view().unwrap();
    house.authority.hold_scores(false);
    until("a score event comes by itself", || !query::history(&*view(), &id("bot"), 100).unwrap().is_empty());
    house.authority.score_now().unwrap();
    let events = house.size() - before - 50;
    assert_eq!(events, 2, "a score event by each formula for 50 signals that waited together");
}

#[test]
fn scores_at_a_time_are_those_in_force_then() {
    let house = house();
    house.measure("bot", "lab", "rel_uptime", 80.0);
    house.recorded("bot");
    house.advance(3600);
    let noon = house.now();
    house.advance(3600);
    house.measure("bot", "rival", "rel_uptime", 80.0);
    house.recorded("bot");
    house.authority.set_weight(id("lab"), 3.0).unwrap();
    house.recorded("bot");
    let view = house.authority.ledger().view().unwrap();
    let then = query::score_at(&*view, &id("bot"), noon).unwrap();
    assert_eq!(
        (&then.universal.event["sources"], &then.universal.event["inputs"][0]["weight"]),
        (&1.into(), &1.into())
    );
    let now = query::score_at(&*view, &id("bot"), house.now()).unwrap();
    assert_eq!((&now.universal.event["sources"], &now.universal.event["inputs"][0]["weight"]), (&2.into(), &3.into()));
    assert!(matches!(
        query::score_at(&*view, &id("bot"), "2020-01-01T00:00:00Z".parse().unwrap()),
        Err(Error::NotThen(_))
    ));
    assert_eq!(query::history(&*view, &id("bot"), 10).unwrap().len(), 3);
}

#[test]
fn aliases_lead_to_one_agent() {
    let house = house();
    let alias = |text: &str| Alias::parse(text).unwrap();
    let add = |agent: &str, aliases: &[&str]| {
        let aliases = aliases.iter().map(|a| alias(a)).collect();
        house.authority.add_agent(NewAgent { name: Some("Bot".into()), aliases, ..NewAgent::new(id(agent)) })
    };
    add("bot", &["did:web:Bot.example"]).unwrap();
    assert!(matches!(add("other", &["did:web:bot.example"]), Err(Error::AliasTaken { .. })));
    assert!(matches!(add("bot", &["did:web:bot.example"]), Err(Error::NothingNew(_))));
    let view = house.authority.ledger().view().unwrap();
    assert_eq!(query::resolve(&*view, "did:web:BOT.example").unwrap(), id("bot"));
    assert_eq!(query::resolve(&*view, "bot").unwrap(), id("bot"));
    for unknown in ["nobody", "did:web:nobody.example", "..", "a b"] {
        assert!(matches!(query::resolve(&*view, unknown), Err(Error::UnknownAgent(_))), "{unknown}");
    }
}

#[test]
fn keys_are_rotated_with_an_endorsement_and_revoked_from_then_on() {
    let house = house();
    let (old, new) = (key("lab"), SecretKey::from_seed(&[43; 32]));
    house.measure("bot", "lab", "rel_uptime", 80.0);
    house.authority.rotate_key(id("lab"), &old, &new.public()).unwrap();
    let draft = house.draft("bot", "lab", &["rel_uptime"], 90.0);
    assert!(matches!(house.send(&draft.clone().sign(&old).unwrap()), Err(Rejection::RevokedKey { .. })));
    assert_eq!(house.score("bot").outcome.rated().unwrap().weighted_mean, 80.0, "what was signed before still counts");
    house.send(&draft.sign(&new).unwrap()).unwrap();
    assert!(matches!(
        house.authority.rotate_key(id("lab"), &old, &SecretKey::from_seed(&[44; 32]).public()),
        Err(Error::RevokedKey(_))
    ));
    assert!(matches!(house.authority.add_key(&new.public(), id("rival")), Err(Error::KeyExists { .. })));
    let another = house.authority.rotate_key(id("rival"), &new, &SecretKey::from_seed(&[45; 32]).public());
    assert!(matches!(another, Err(Error::KeyOfAnother { .. })));
    let forged = NewAgent { name: Some("two\nlines".into()), ..NewAgent::new(id("bot")) };
    assert!(matches!(house.authority.add_agent(forged), Err(Error::Text { .. })));
    assert!(matches!(house.authority.revoke_key(new.public().id(), Some(9_999), None), Err(Error::FutureSeq { .. })));
    assert!(matches!(house.authority.revoke_key(old.public().id(), None, None), Err(Error::AlreadyRevoked { .. })));
    house.assert_sound();
}

#[test]
fn a_batch_reports_each_item_in_order() {
    let house = house();
    let lab = key("lab");
    let good =
        |value| house.draft("bot", "lab", &["rel_uptime"], value).sign(&lab).unwrap().canonical().as_bytes().to_vec();
    let mut lines: Vec<Vec<u8>> = (0..2_000).map(|n| good(f64::from(n % 100))).collect();
    lines[7] = b"{".to_vec();
    lines[1_500] = good(1.0).iter().map(|b| if *b == b'1' { b'2' } else { *b }).collect();
    let mut outcomes = Vec::new();
    house.authority.submit_all(lines, &mut |n, verdict| outcomes.push((n, verdict.is_ok()))).unwrap();
    assert_eq!(outcomes.len(), 2_000);
    let bad: Vec<_> = outcomes.iter().filter(|(_, ok)| !ok).map(|(n, _)| *n).collect();
    assert_eq!(bad, [7, 1_500]);
    assert!(outcomes.iter().enumerate().all(|(n, (position, _))| n == *position));
    house.assert_sound();
}

#[test]
fn many_inputs_are_recorded_by_digest() {
    let sources: Vec<String> = (0..30).map(|n| format!("s{n}")).collect();
    let list: Vec<(&str, f64)> = sources.iter().map(|s| (s.as_str(), 1.0)).collect();
    let house = House::new(&list, &["bot"]);
    let tags: Vec<&str> = vec![
        "rel_uptime",
        "rel_latency_p95",
        "rel_error_rate",
        "model_capability",
        "payment_activity",
        "identity_domain",
        "identity_onchain",
        "user_feedback",
        "user_adoption",
        "oss_popularity",
    ];
    for source in &sources {
        house.admit(house.draft("bot", source, &tags, 50.0));
    }
    house.recorded("bot");
    let view = house.authority.ledger().view().unwrap();
    let event = query::score_at(&*view, &id("bot"), house.now()).unwrap().universal.event;
    assert_eq!(event["inputs"]["count"], 300);
    assert!(event["inputs"]["digest"].as_str().unwrap().starts_with("sha256:"));
    house.assert_sound();
}

/// A floor that the operator changes holds for every score from the next start on, also of agents that nothing new is known of.
#[test]
fn another_floor_scores_everyone_again() {
    use std::sync::Arc;
    let clock = Arc::new(std::sync::atomic::AtomicI64::new(1_800_000_000_000_000));
    let ledger = credence_ledger::memory::MemoryLedger::new(crate::common::log_key(), crate::common::ticking(&clock));
    let house = House::over(ledger.clone(), Arc::clone(&clock));
    house.add_source("lab", 1.0);
    house.authority.add_agent(NewAgent::new(id("bot"))).unwrap();
    house.measure("bot", "lab", "rel_uptime", 90.0);
    assert_eq!(house.recorded("bot").unwrap().status, ScoreStatus::Published);
    drop(house);
    let settings = credence_pipeline::Settings { coverage_floor: 0.5, ..Default::default() };
    let again =
        credence_pipeline::Authority::open(Arc::new(ledger), &settings, crate::common::ticking(&clock)).unwrap();
    let view = again.ledger().view().unwrap();
    let newest = query::history(&*view, &id("bot"), 1).unwrap().remove(0).recorded;
    assert_eq!((newest.status, newest.coverage_floor), (ScoreStatus::Partial, 0.5));
}
