//! A clock that was wrong: what it recorded in the future, and the way back.

use credence_ledger::Entry;
use credence_pipeline::{outcomes::NewOutcome, query, times::AcceptedClock};
use credence_protocol::{Timestamp, Uuid};

use crate::common::{House, id};

const FIVE_YEARS: i64 = 5 * 365 * 86_400;

fn recorded_at(house: &House, seq: u64) -> Timestamp {
    let view = house.authority.ledger().view().unwrap();
    Entry::parse(seq, &view.entry(seq).unwrap().unwrap()).unwrap().recorded_at
}

fn add_agent(house: &House, name: &str) -> u64 {
    house.authority.add_agent(credence_pipeline::NewAgent::new(id(name))).unwrap()
}

#[test]
fn entries_in_the_future_are_found_and_times_can_be_put_right() {
    for house in [House::new(&[("lab", 1.0)], &["bot"]), House::run_twice(&[("lab", 1.0)], &["bot"])] {
        house.measure("bot", "lab", "rel_uptime", 90.0);
        house.authority.score_now().unwrap();
        assert_eq!(house.authority.accept_clock().unwrap(), AcceptedClock::NothingToAccept);
        let before = house.now();
        house.advance(60);
        house.advance(FIVE_YEARS);
        let poisoned = add_agent(&house, "early");
        house.advance(-FIVE_YEARS);
        // The clock is right again, and everything is recorded years ahead of it.
        house.advance(60);
        let after = add_agent(&house, "later");
        assert!(recorded_at(&house, after) >= recorded_at(&house, poisoned));
        house.measure("bot", "lab", "rel_uptime", 20.0);
        house.authority.score_now().unwrap();
        let audited = house.audit(false);
        assert!(audited.findings.listed.iter().any(|found| found.what.contains("accept-clock")), "{audited:?}");
        assert_eq!(audited.findings.count, 1, "{:?}", audited.findings);

        let size = house.size();
        let AcceptedClock::Returned { seq, ahead, now } = house.authority.accept_clock().unwrap() else {
            panic!("there is something to accept")
        };
        assert_eq!((seq, recorded_at(&house, seq)), (size, now));
        assert!(ahead > now.plus_seconds(FIVE_YEARS / 2) && now <= house.now());
        house.advance(60);
        let right = house.now();
        let next = add_agent(&house, "latest");
        assert!(recorded_at(&house, next) >= right && recorded_at(&house, next) < right.plus_seconds(1));
        // A question about a time has one answer again.
        let view = house.authority.ledger().view().unwrap();
        let at = |time| query::size_at(&*view, time).unwrap();
        assert!(at(before) <= poisoned, "{} {poisoned}", at(before));
        assert_eq!((at(now.plus_seconds(-1)), at(now)), (poisoned, seq + 1));
        assert_eq!(at(right.plus_seconds(10)), view.size().unwrap());
        drop(view);
        // Who is due is scored now, not in five years.
        house.measure("bot", "lab", "rel_uptime", 70.0);
        assert_eq!(house.score("bot").inputs.len(), 1);
        assert!(house.score("bot").inputs[0].value == 70.0);
        assert_eq!(house.authority.accept_clock().unwrap(), AcceptedClock::NothingToAccept);
        house.assert_sound();
        assert_eq!(house.audit(false).clock_corrections, 1);
        assert_eq!(house.replay().differences.count, 0);
    }
}

/// An outcome is held against the score that was in force, whatever time was written on it.
#[test]
fn scores_recorded_in_the_future_are_in_force_when_times_are_right_again() {
    let house = House::new(&[("lab", 1.0), ("rival", 1.0), ("third", 1.0)], &["bot"]);
    for source in ["lab", "rival", "third"] {
        house.measure("bot", source, "rel_uptime", 90.0);
    }
    house.advance(FIVE_YEARS);
    house.authority.score_now().unwrap();
    house.advance(-FIVE_YEARS);
    house.authority.accept_clock().unwrap();
    let (agent, reporter) = (id("bot"), id("reader"));
    let outcome = NewOutcome { id: Uuid::from_u128(1), agent, good: true, relied_at: None, reporter, response: None };
    house.authority.record_outcome(outcome).unwrap();
    let view = house.authority.ledger().view().unwrap();
    let reliability = credence_pipeline::query::reliability(&*view, None).unwrap();
    assert_eq!(reliability.unrated, 0, "it was rated then");
}

/// A `clock` entry where nothing was ahead is a way to forge times, and is found.
#[test]
fn a_correction_of_nothing_is_found() {
    use credence_pipeline::{
        projection,
        record::{ClockRecord, Record},
    };
    let house = House::new(&[], &["bot"]);
    let ahead = house.now().plus_seconds(FIVE_YEARS);
    let seq = credence_ledger::write(house.authority.ledger(), move |tx| {
        let record = Record::Clock(ClockRecord { ahead });
        let at = tx.append(&record.entry(&id("credence"))?)?;
        projection::apply(tx, at, &id("credence"), &record)?;
        Ok::<_, credence_pipeline::Error>(at.seq)
    })
    .unwrap();
    let audited = house.audit(false);
    assert!(audited.findings.listed.iter().any(|found| found.seq == Some(seq)), "{:?}", audited.findings);
}

/// What the authority measured itself in the future does not stay the newest for years.
#[test]
fn own_signals_of_the_future_do_not_stay() {
    let house = House::network(&["bot"]);
    house.provider("lab");
    house.report("lab", house.summary("bot", 0.9, 0.1, 200)).unwrap();
    // Derived while the clock is three days ahead: within the report's window.
    house.advance(3 * 86_400);
    let (early, _) = house.signal_of("bot", "output_quality").unwrap();
    house.advance(-3 * 86_400);
    house.authority.accept_clock().unwrap();
    house.report("lab", house.summary("bot", 0.5, 0.5, 4_000)).unwrap();
    let (now, _) = house.signal_of("bot", "output_quality").unwrap();
    assert!(now < early - 20.0, "{early} {now}");
    house.assert_sound();
    assert_eq!(house.replay().differences.count, 0);
}
