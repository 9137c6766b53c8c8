//! Signed responses that left: one entry a batch, hashes beside the log, proofs from hash to root to log.

use credence_ledger::{Entry, write};
use credence_pipeline::{
    Authority, Settings,
    outcomes::NewOutcome,
    replay,
    responses::{DEFAULT_HASHES, HashRow, KEPT_SECONDS, ReaderClass, ResponseProof, SentResponse},
};
use credence_protocol::Uuid;
use serde_json::Value;

use crate::{
    common::{House, id, log_key, ticking},
    tables,
};

const HASHES: &str = "response_hashes";

fn hash(n: usize) -> String {
    format!("{n:064x}")
}

fn sent(house: &House, range: std::ops::Range<usize>, class: ReaderClass) -> Vec<SentResponse> {
    range.map(|n| SentResponse { hash: hash(n), expires: house.now().plus_seconds(600), class }).collect()
}

fn proof(house: &House, n: usize) -> Option<ResponseProof> {
    let view = house.authority.ledger().view().unwrap();
    ResponseProof::make(&*view, log_key().verifier(), &hash(n)).unwrap()
}

fn outcome(response: Option<String>) -> NewOutcome {
    let (agent, reporter) = (id("bot"), id("reader"));
    NewOutcome { id: Uuid::from_u128(7), agent, good: true, relied_at: None, reporter, response }
}

/// A house whose authority keeps so many hashes of each class.
fn house_with_room_for(response_hashes: u64) -> House {
    let House { folder, authority, clock } = House::new(&[], &["bot"]);
    drop(authority);
    let options = crate::common::options(&folder);
    let ledger = credence_ledger::SqliteLedger::open(options, log_key(), ticking(&clock)).unwrap();
    let settings = Settings { response_hashes, ..Settings::default() };
    let authority = Authority::open(std::sync::Arc::new(ledger), &settings, ticking(&clock)).unwrap();
    House { folder, authority, clock }
}

#[test]
fn a_batch_is_one_small_entry_and_every_hash_in_it_is_proved() {
    for house in [House::new(&[], &["bot"]), House::run_twice(&[], &["bot"])] {
        let before = house.size();
        house.authority.record_responses(sent(&house, 0..700, ReaderClass::Anonymous)).unwrap().unwrap();
        let seq = house.authority.record_responses(sent(&house, 700..701, ReaderClass::Bearer)).unwrap().unwrap();
        assert_eq!((house.size(), seq), (before + 2, before + 1));
        assert_eq!(house.authority.record_responses(Vec::new()).unwrap(), None, "nothing left, nothing recorded");
        let view = house.authority.ledger().view().unwrap();
        let bytes = view.entry(before).unwrap().unwrap();
        assert!(bytes.len() < 300, "{} bytes, however many hashes", bytes.len());
        for n in [0, 1, 255, 256, 699, 700] {
            let proof = proof(&house, n).unwrap();
            let text = proof.to_text();
            let read = ResponseProof::parse(&text).unwrap();
            assert_eq!(read, proof);
            assert_eq!(read.verify(log_key().verifier()).unwrap().size, before + 2);
            // Another hash, another place, another path, another entry: none of it is proved.
            let other = text.replace(&hash(n), &hash(n + 1));
            assert!(ResponseProof::parse(&other).unwrap().verify(log_key().verifier()).is_err());
            let mut moved = proof.clone();
            moved.cited.index += 1;
            assert!(moved.verify(log_key().verifier()).is_err());
            let mut cut = proof.clone();
            assert!(cut.cited.path.pop().is_none() || cut.verify(log_key().verifier()).is_err());
            let mut elsewhere = proof.clone();
            elsewhere.inclusion = self::proof(&house, if n == 700 { 0 } else { 700 }).unwrap().inclusion;
            assert!(elsewhere.verify(log_key().verifier()).is_err());
        }
        assert!(proof(&house, 701).is_none());
        let audited = house.audit(false);
        assert_eq!((audited.findings.count, audited.response_hashes), (0, 701), "{:?}", audited.findings);
    }
}

/// Replay compares the projections and rebuilds them; what follows from no entry stays as it is.
#[test]
fn a_rebuild_leaves_the_hashes_beside_the_log() {
    let house = House::new(&[], &["bot"]);
    house.authority.record_responses(sent(&house, 0..20, ReaderClass::Anonymous)).unwrap();
    assert_eq!(house.replay().differences.count, 0);
    replay::rebuild(house.authority.ledger()).unwrap();
    assert!((0..20).all(|n| proof(&house, n).is_some()));
    house.assert_sound();
}

#[test]
fn beyond_the_bound_the_oldest_of_the_same_class_go_first() {
    let house = house_with_room_for(50);
    house.authority.record_responses(sent(&house, 0..40, ReaderClass::Bearer)).unwrap();
    for batch in 1..=20 {
        let range = batch * 100..batch * 100 + 10;
        house.authority.record_responses(sent(&house, range, ReaderClass::Anonymous)).unwrap();
        house.advance(1);
    }
    assert!((0..40).all(|n| proof(&house, n).is_some()), "bearers of tokens keep theirs");
    let kept: Vec<usize> = (1..=20).filter(|batch| proof(&house, batch * 100 + 3).is_some()).collect();
    assert_eq!(kept, [16, 17, 18, 19, 20]);
    let view = house.authority.ledger().view().unwrap();
    assert_eq!(tables::all::<HashRow>(&*view, HASHES).len(), 90);
    drop(view);
    house.assert_sound();
}

#[test]
fn hashes_go_ninety_days_after_their_answers_expired() {
    let house = house_with_room_for(DEFAULT_HASHES);
    for class in [ReaderClass::Anonymous, ReaderClass::Bearer] {
        let first = if class == ReaderClass::Bearer { 10 } else { 0 };
        house.authority.record_responses(sent(&house, first..first + 10, class)).unwrap();
    }
    house.advance(KEPT_SECONDS + 500);
    house.authority.record_responses(sent(&house, 20..21, ReaderClass::Anonymous)).unwrap();
    assert!((0..21).all(|n| proof(&house, n).is_some()), "their time is not over");
    house.advance(200);
    house.authority.record_responses(sent(&house, 21..22, ReaderClass::Anonymous)).unwrap();
    assert!((0..20).all(|n| proof(&house, n).is_none()) && proof(&house, 20).is_some() && proof(&house, 21).is_some());
    house.assert_sound();
}

/// An outcome holds the path from the answer's hash to the log: it is verified though the hash is no longer kept.
#[test]
fn an_outcome_carries_the_path_of_the_answer_it_cites() {
    let house = house_with_room_for(3);
    house.authority.record_responses(sent(&house, 0..3, ReaderClass::Anonymous)).unwrap();
    let admitted = house.authority.record_outcome(outcome(Some(hash(1)))).unwrap();
    house.authority.record_responses(sent(&house, 10..13, ReaderClass::Anonymous)).unwrap();
    assert!(proof(&house, 1).is_none());
    let again = house.authority.record_outcome(outcome(Some(hash(1)))).unwrap();
    assert!((again.seq, again.known) == (admitted.seq, true), "the same outcome, though the hash is gone");
    assert!(house.authority.record_outcome(outcome(Some(hash(2)))).is_err(), "another answer makes it another outcome");
    let unknown = NewOutcome { id: Uuid::from_u128(8), ..outcome(Some(hash(2))) };
    let refused = house.authority.record_outcome(unknown).unwrap_err().to_string();
    assert!(refused.contains("no longer kept"), "{refused}");
    let view = house.authority.ledger().view().unwrap();
    let bytes = view.entry(admitted.seq).unwrap().unwrap();
    let body: Value = Entry::parse(admitted.seq, &bytes).unwrap().record(admitted.seq).unwrap();
    assert_eq!(body["response"]["path"].as_array().unwrap().len(), 2, "{body}");
    drop(view);
    house.assert_sound();
}

#[test]
fn a_forged_citation_and_a_changed_hash_are_found() {
    let house = House::new(&[], &["bot"]);
    house.authority.record_responses(sent(&house, 0..3, ReaderClass::Anonymous)).unwrap();
    write(house.authority.ledger(), |tx| {
        let mut row: HashRow = tables::get(tx, HASHES, &hash(1)).unwrap();
        row.index = 2;
        tables::put(tx, HASHES, &hash(1), &row)
    })
    .unwrap();
    let audited = house.audit(false);
    assert_eq!(audited.findings.count, 1, "{:?}", audited.findings);
    assert!(audited.findings.listed[0].what.contains(&hash(1)));
    // The same path in an entry: the holder of the log's key can sign it, and it is still wrong.
    let wrong = house.authority.record_outcome(outcome(Some(hash(1)))).unwrap_err().to_string();
    assert!(wrong.contains("does not lead"), "{wrong}");
    let record = credence_pipeline::record::OutcomeRecord {
        id: Uuid::from_u128(9),
        agent: id("bot"),
        good: true,
        relied_at: house.now(),
        reporter: id("reader"),
        response: Some(credence_pipeline::record::CitedResponse {
            hash: hash(77),
            entry: proof(&house, 0).unwrap().cited.entry,
            index: 0,
            path: proof(&house, 0).unwrap().cited.path,
        }),
    };
    let seq = write(house.authority.ledger(), move |tx| {
        let record = credence_pipeline::record::Record::Outcome(record.clone());
        let at = tx.append(&record.entry(&id("bot"))?)?;
        credence_pipeline::projection::apply(tx, at, &id("bot"), &record)?;
        Ok::<_, credence_pipeline::Error>(at.seq)
    })
    .unwrap();
    let audited = house.audit(false);
    assert!(
        audited.findings.listed.iter().any(|found| found.seq == Some(seq) && found.what.contains("does not lead")),
        "{:?}",
        audited.findings
    );
}

/// A hash that a bearer of a token holds too is not pushed out by readers without one.
#[test]
fn what_a_bearer_reads_counts_among_the_bearers() {
    let house = house_with_room_for(10);
    house.authority.record_responses(sent(&house, 0..2, ReaderClass::Anonymous)).unwrap();
    house.authority.record_responses(sent(&house, 0..1, ReaderClass::Bearer)).unwrap();
    let first = proof(&house, 0).unwrap();
    house.authority.record_responses(sent(&house, 10..40, ReaderClass::Anonymous)).unwrap();
    assert!(proof(&house, 1).is_none(), "the oldest of those without a token goes");
    assert_eq!(proof(&house, 0).unwrap().cited, first.cited, "and is proved by its first batch");
    // Counted once: bearers have their whole share.
    house.authority.record_responses(sent(&house, 100..109, ReaderClass::Bearer)).unwrap();
    assert!(proof(&house, 0).is_some());
    house.authority.record_responses(sent(&house, 109..110, ReaderClass::Bearer)).unwrap();
    assert!(proof(&house, 0).is_none());
}
