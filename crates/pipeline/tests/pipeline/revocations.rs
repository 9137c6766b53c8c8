//! What a revoked key said stops counting, and nothing else does.

use credence_pipeline::{
    NewSource,
    reputation::rows::{ChallengeRow, ChallengeState, ContractRow},
};
use credence_protocol::{Statement, StatementKind, records::ChallengeOutcome, strict::StrictValue};
use serde_json::json;

use crate::{
    common::{House, aud, id, key},
    tables,
};

#[test]
fn what_a_revoked_key_said_stops_counting() {
    let house = House::network(&["alice", "bob"]);
    house.establish("alice", 12);
    house.establish("bob", 12);
    let from = house.size();
    house.take_up("bob", "alice-2");
    house.review("bob", "alice", "alice-2", 1.0);
    house.contract("bob", "tainted");
    let before = house.reputation("alice").unwrap();
    assert!(before.basis["validation"]["helpfulness"].as_f64().unwrap() > 0.0);
    house.authority.revoke_key(key("bob").public().id(), Some(from), None).unwrap();
    let after = house.reputation("alice").unwrap();
    assert_eq!(
        (after.basis["validation"]["helpfulness"].as_f64(), after.cause.as_str()),
        (Some(0.0), "a key was revoked")
    );
    assert_eq!(after.basis["validation"]["adoption"], 0.0, "what it took up, too");
    assert_eq!(house.reputation("bob").unwrap().basis["transparency"]["contracts"], 12);
    let late = house.say("judge", StatementKind::Verification, house.verification_record("tainted", 1.0)).unwrap_err();
    assert_eq!(late.code(), "unknown_contract");
    house.assert_sound();
}

#[test]
fn a_resolution_under_a_revoked_key_is_undone() {
    let house = House::network(&["alice", "bob"]);
    house.establish("alice", 5);
    house.contract("alice", "claim");
    house.challenge("bob", "claim", "ch");
    let from = house.size();
    house.resolve("ch", "successful");
    assert_eq!(house.reputation("alice").unwrap().basis["validation"]["refuted"], 1);
    house.authority.revoke_key(key("credence").public().id(), Some(from), None).unwrap();
    assert_eq!(house.reputation("alice").unwrap().basis["validation"]["refuted"], 0);
    let view = house.authority.ledger().view().unwrap();
    let row: ChallengeRow = tables::get(&*view, tables::CHALLENGES, "ch").unwrap();
    assert_eq!((row.state, row.resolution), (ChallengeState::Open, None));
    drop(view);
    house.assert_sound();
}

#[test]
fn revoking_a_former_key_takes_nothing_from_its_successor() {
    let house = House::network(&["alice", "bob"]);
    house.establish("alice", 12);
    house.establish("bob", 12);
    let from = house.size();
    house.take_up("bob", "alice-2");
    house.review("bob", "alice", "alice-2", 1.0);
    house.authority.rotate_key(id("bob"), &key("bob"), &key("bob-2").public()).unwrap();
    house.advance(60);
    let record = StrictValue(house.review_record("bob", "alice", "alice-2", 0.9));
    let again = Statement::sign(id("bob"), aud(), StatementKind::Review, record, &key("bob-2")).unwrap();
    house.authority.publish(again.canonical().as_bytes()).unwrap().unwrap();
    house.authority.revoke_key(key("bob").public().id(), Some(from), None).unwrap();
    assert!(house.reputation("alice").unwrap().basis["validation"]["helpfulness"].as_f64().unwrap() > 0.0);
    house.assert_sound();
}

#[test]
fn challenges_under_a_revoked_key_are_not_held_against_their_author() {
    let house = House::network(&["alice", "bob"]);
    house.establish("alice", 5);
    house.establish("bob", 5);
    let from = house.size();
    house.contract("alice", "claim");
    house.challenge("bob", "claim", "lost");
    house.resolve("lost", "failed");
    house.challenge("bob", "claim", "open");
    let mut again = house.challenge_record("bob", "claim", "open");
    again["challenge_id"] = "again".into();
    house.say("bob", StatementKind::Challenge, again.clone()).unwrap();
    assert_eq!(house.reputation("bob").unwrap().basis["penalty"]["spam"], 0.25);
    house.authority.rotate_key(id("bob"), &key("bob"), &key("bob-2").public()).unwrap();
    house.authority.revoke_key(key("bob").public().id(), Some(from), None).unwrap();
    let bob = house.reputation("bob").unwrap();
    assert_eq!((&bob.basis["penalty"]["spam"], &bob.basis["validation"]["refuted"]), (&json!(0.0), &json!(0)));
    assert_eq!(
        house.say("credence", StatementKind::Resolution, house.resolution_record("open", "failed")).unwrap_err().code(),
        "already_resolved"
    );
    again["challenge_id"] = "mine".into();
    let mine = Statement::sign(id("bob"), aud(), StatementKind::Challenge, StrictValue(again), &key("bob-2")).unwrap();
    assert_eq!(
        house.authority.publish(mine.canonical().as_bytes()).unwrap().unwrap().remark,
        None,
        "its own claim is its first"
    );
    house.assert_sound();
}

#[test]
fn a_revoked_verifier_leaves_each_refutation_standing_and_void_contracts_alone() {
    let house = House::network(&["alice", "bob"]);
    house.provider("lab");
    house.establish("alice", 3);
    for n in 0..3 {
        let (contract, challenge) = (format!("c-{n}"), format!("ch-{n}"));
        house.contract("alice", &contract);
        house.challenge("bob", &contract, &challenge);
        house.say("lab", StatementKind::Verification, house.verification_record(&contract, -1.0)).unwrap();
        house.resolve(&challenge, "successful");
    }
    let samples = || house.reputation("alice").unwrap().basis["performance"]["samples"].clone();
    let before = samples();
    house.authority.revoke_key(key("lab").public().id(), Some(0), None).unwrap();
    assert_eq!(samples(), before, "each is settled by its refutation");
    let from = house.size();
    house.contract("alice", "taken-back");
    house.challenge("bob", "taken-back", "late");
    house.authority.revoke_key(key("alice").public().id(), Some(from), None).unwrap();
    let resolved = house.say("credence", StatementKind::Resolution, house.resolution_record("late", "successful"));
    assert_eq!(resolved.unwrap_err().code(), "unknown_contract");
    house.assert_sound();
}

/// A second key of an agent is stolen and speaks for it; revoked, it leaves what the agent said itself before.
#[test]
fn the_word_before_a_revoked_one_counts_again() {
    let house = House::network(&["alice", "bob"]);
    house.establish("alice", 12);
    house.establish("bob", 12);
    house.take_up("bob", "alice-2");
    house.review("bob", "alice", "alice-2", 0.9);
    let helpfulness = || house.reputation("alice").unwrap().basis["validation"]["helpfulness"].as_f64().unwrap();
    let own = helpfulness();
    assert!(own > 0.0);
    house.authority.add_key(&key("stolen").public(), id("bob")).unwrap();
    let from = house.size();
    let record = StrictValue(house.review_record("bob", "alice", "alice-2", 0.0));
    let forged = Statement::sign(id("bob"), aud(), StatementKind::Review, record, &key("stolen")).unwrap();
    house.authority.publish(forged.canonical().as_bytes()).unwrap().unwrap();
    assert!(helpfulness() < own);
    let steps = house.reputation("alice").unwrap().score;
    house.authority.revoke_key(key("stolen").public().id(), Some(from), None).unwrap();
    assert_eq!(helpfulness(), own, "its own word stands again");
    assert!((house.reputation("alice").unwrap().score - steps).abs() <= 8.0, "one bounded step");
    house.assert_sound();
}

/// The first of two successful challenges was resolved under a key that is revoked: the contract is refuted by the other.
#[test]
fn what_a_revoked_resolution_stood_before_takes_its_place() {
    let house = House::network(&["alice", "bob", "carol"]);
    house.establish("alice", 5);
    house.contract("alice", "claim");
    house.challenge("bob", "claim", "first");
    house.challenge("carol", "claim", "second");
    house.authority.add_key(&key("second-desk").public(), id("credence")).unwrap();
    let from = house.size();
    let record = StrictValue(house.resolution_record("first", "successful"));
    let resolved =
        Statement::sign(id("credence"), aud(), StatementKind::Resolution, record, &key("second-desk")).unwrap();
    house.authority.publish(resolved.canonical().as_bytes()).unwrap().unwrap();
    house.resolve("second", "successful");
    let refuted = |agent: &str| house.reputation(agent).unwrap().basis["validation"]["refuted"].clone();
    assert_eq!(refuted("alice"), 1);
    house.authority.revoke_key(key("second-desk").public().id(), Some(from), None).unwrap();
    assert_eq!(refuted("alice"), 1, "the other refutation stands");
    let view = house.authority.ledger().view().unwrap();
    let state = |challenge: &str| tables::get::<ChallengeRow>(&*view, tables::CHALLENGES, challenge).unwrap().state;
    assert_eq!(state("first"), ChallengeState::Open);
    assert_eq!(state("second"), ChallengeState::Settled(ChallengeOutcome::Successful));
    let contract: ContractRow = tables::get(&*view, tables::CONTRACTS, "claim").unwrap();
    assert_eq!(contract.refuted_by.as_deref(), Some("second"));
    drop(view);
    house.assert_sound();
}

/// A provider's newest report was signed by a revoked key: the one before it is current again.
#[test]
fn the_report_before_a_revoked_one_counts_again() {
    let house = House::network(&["alice"]);
    house.say("judge", StatementKind::Summary, house.summary("alice", 0.9, 0.1, 100)).unwrap();
    house.authority.score_now().unwrap();
    let before = house.current();
    assert!(!before.is_empty());
    house.authority.add_key(&key("judge-2").public(), id("judge")).unwrap();
    house.advance(60);
    let from = house.size();
    let record = StrictValue(house.summary("alice", 0.1, 0.9, 100));
    let forged = Statement::sign(id("judge"), aud(), StatementKind::Summary, record, &key("judge-2")).unwrap();
    house.authority.publish(forged.canonical().as_bytes()).unwrap().unwrap();
    house.authority.score_now().unwrap();
    let values = |rows: &[(String, tables::CurrentRow)]| {
        rows.iter().map(|(slot, row)| (slot.clone(), row.value)).collect::<Vec<_>>()
    };
    assert_ne!(values(&house.current()), values(&before));
    house.authority.revoke_key(key("judge-2").public().id(), Some(from), None).unwrap();
    house.authority.score_now().unwrap();
    assert_eq!(values(&house.current()), values(&before));
    house.assert_sound();
}

/// A provider reports on its customer with two keys. One is revoked: the other report still vouches, and the customer's praise of the
/// agent behind the provider stays out.
#[test]
fn praise_of_a_provider_does_not_come_back_while_another_report_stands() {
    let house = House::network(&["alice", "judge-bot"]);
    house.establish("alice", 12);
    house.establish("judge-bot", 12);
    house.take_up("alice", "judge-bot-2");
    house.review("alice", "judge-bot", "judge-bot-2", 1.0);
    let helpfulness = || house.reputation("judge-bot").unwrap().basis["validation"]["helpfulness"].as_f64().unwrap();
    assert!(helpfulness() > 0.0);
    let (owner, methodology) = (Some(id("judge-bot")), Some("https://example.org/how".into()));
    house.authority.add_source(NewSource { methodology, owner, ..NewSource::new(id("judge-lab"), 1.0) }).unwrap();
    for name in ["judge-lab", "judge-lab-2"] {
        house.authority.add_key(&key(name).public(), id("judge-lab")).unwrap();
    }
    let from = house.size();
    house.say("judge-lab", StatementKind::Summary, house.summary("alice", 0.9, 0.1, 100)).unwrap();
    house.advance(60);
    let record = StrictValue(house.summary("alice", 0.9, 0.1, 120));
    let second = Statement::sign(id("judge-lab"), aud(), StatementKind::Summary, record, &key("judge-lab-2")).unwrap();
    house.authority.publish(second.canonical().as_bytes()).unwrap().unwrap();
    let reviews = || {
        let view = house.authority.ledger().view().unwrap();
        credence_pipeline::query::reviews(&*view, &id("judge-bot"), house.now()).unwrap().len()
    };
    house.authority.revoke_key(key("judge-lab").public().id(), Some(from), None).unwrap();
    assert_eq!(reviews(), 0, "the other report stands");
    house.authority.revoke_key(key("judge-lab-2").public().id(), Some(from), None).unwrap();
    assert_eq!(reviews(), 1, "nobody vouches for alice any more");
    house.assert_sound();
}

/// A contract turns void: those who disputed it have nothing open, and nothing held against them.
#[test]
fn challenges_of_a_void_contract_are_void_too() {
    let house = House::network(&["alice", "bob"]);
    house.establish("alice", 3);
    house.establish("bob", 3);
    let from = house.size();
    for n in 0..10 {
        house.contract("alice", &format!("c-{n}"));
        house.challenge("bob", &format!("c-{n}"), &format!("ch-{n}"));
    }
    house.authority.rotate_key(id("alice"), &key("alice"), &key("alice-2").public()).unwrap();
    house.authority.revoke_key(key("alice").public().id(), Some(from), None).unwrap();
    house.say("bob", StatementKind::Challenge, house.challenge_record("bob", "alice-1", "real")).unwrap();
    house.assert_sound();
}
