//! What the ledger takes of attestations, and what an audit finds in one that took more. What is on the chain is told by the tests of the
//! service, on a real node.

use credence_ledger::write;
use credence_pipeline::{
    Error,
    attestations::{
        Amount, AttestationRecord, AttestationStep as Step, Draft, Inclusion, MAX_NONCES, MAX_STEPS, Recorded,
        SignedTransaction, open, row, spent,
    },
    credentials::Office,
    due::{ATTEST, ATTEST_REVIEW},
    query,
    record::Record,
};
use credence_protocol::{ExternalSubject, LinkProof, Uuid};

use crate::common::{House, id as id_of, key, log_key};

const CHAIN: &str = "eip155:8453";

fn subject(n: u64) -> ExternalSubject {
    format!("erc8004:{CHAIN}:0x8004a169fb4a3325136eb29fa0ceb6d2e539a432/{n}").parse().unwrap()
}

/// Two rated agents with a registration each.
fn house() -> House {
    let house = House::in_memory(&[("credence", 1.0), ("a", 1.0), ("b", 1.0), ("c", 1.0)], &["bot", "rival"]);
    for (n, agent) in ["bot", "rival"].into_iter().enumerate() {
        let line = house.authority.claim_link(&id_of(agent), &subject(n as u64), 300).unwrap();
        let proof = LinkProof { method: "file".into(), url: None, digest: None, signature: None };
        house.authority.prove_link(&line, proof).unwrap();
        measure(&house, agent, 90.0);
    }
    house
}

fn measure(house: &House, agent: &str, value: f64) {
    for (source, tag) in [("a", "rel_uptime"), ("b", "identity_domain"), ("c", "asi01_goal_hijack")] {
        house.measure(agent, source, tag, value);
    }
    house.authority.score_now().unwrap();
}

fn draft(house: &House, agent: &str) -> AttestationRecord {
    draft_on(house, agent, CHAIN)
}

fn draft_on(house: &House, agent: &str, chain: &str) -> AttestationRecord {
    let office = Office::new("https://trust.example", key("credence"));
    let draft = Draft { agent: &id_of(agent), chain, subject: None, by: "0xab", rescore: true };
    house.authority.draft_attestation(&office, log_key().verifier(), draft).unwrap()
}

fn intended(house: &House, agent: &str) -> Uuid {
    let draft = draft(house, agent);
    house.authority.intend_attestation(draft.clone()).unwrap();
    draft.attestation
}

fn transaction(id: &str, nonce: u64, max_fee: u128) -> SignedTransaction {
    SignedTransaction {
        id: id.into(),
        nonce: Some(nonce),
        valid_until: None,
        max_fee: Amount(max_fee),
        raw: "02".into(),
    }
}

fn inclusion(id: &str, fee: u128) -> Inclusion {
    Inclusion {
        transaction: Some(id.into()),
        block: Some(9),
        block_hash: Some("0x99".into()),
        fee: Some(Amount(fee)),
        index: Some(1),
    }
}

fn step(house: &House, attestation: Uuid, step: Step) -> AttestationRecord {
    let view = house.authority.ledger().view().unwrap();
    row(&*view, attestation).unwrap().unwrap().next(attestation, step)
}

fn sent(house: &House, id: Uuid, kind: Step, transaction: SignedTransaction) -> AttestationRecord {
    let reason = (kind == Step::RevocationSent).then(|| "revoked".to_owned());
    AttestationRecord { transaction: Some(transaction), reason, ..step(house, id, kind) }
}

fn included(house: &House, id: Uuid, kind: Step, inclusion: Inclusion) -> AttestationRecord {
    AttestationRecord { inclusion: Some(inclusion), ..step(house, id, kind) }
}

/// Records a step on the newest state.
fn take(house: &House, record: AttestationRecord, budget: Option<u128>) -> Result<Recorded, Error> {
    let after = {
        let view = house.authority.ledger().view().unwrap();
        row(&*view, record.attestation).unwrap().unwrap().newest_seq()
    };
    house.authority.record_attestation_step(record, after, budget)
}

/// Records that a score of `agent` was sent to a chain.
pub(crate) fn attested(house: &House, agent: &str, chain: &str) {
    let draft = draft_on(house, agent, chain);
    house.authority.intend_attestation(draft.clone()).unwrap();
    took(house, sent(house, draft.attestation, Step::Sent, transaction("one", 4, 10)));
}

fn took(house: &House, record: AttestationRecord) {
    assert!(matches!(take(house, record, None).unwrap(), Recorded::Entry(_)));
}

fn refused(house: &House, record: AttestationRecord) -> String {
    let (before, why) = (house.size(), take(house, record, None).unwrap_err().to_string());
    assert_eq!(house.size(), before, "nothing is written");
    why
}

#[test]
fn an_attestation_goes_its_way_and_replay_gives_the_same() {
    let house = house();
    let id = intended(&house, "bot");
    let view = house.authority.ledger().view().unwrap();
    assert!(view.job(ATTEST, CHAIN).unwrap().is_some());
    drop(view);
    took(&house, sent(&house, id, Step::Sent, transaction("one", 4, 10)));
    took(&house, sent(&house, id, Step::Replaced, transaction("two", 4, 12)));
    took(&house, included(&house, id, Step::Confirmed, inclusion("one", 5)));
    took(&house, AttestationRecord { reason: Some("gone".into()), ..step(&house, id, Step::Reorganised) });
    took(&house, included(&house, id, Step::Confirmed, inclusion("two", 6)));
    took(&house, included(&house, id, Step::Final, inclusion("two", 6)));
    let view = house.authority.ledger().view().unwrap();
    assert_eq!(open(&*view, CHAIN).unwrap(), []);
    assert_eq!(spent(&*view, CHAIN, house.now(), None).unwrap(), 6, "what was reorganised costs nothing");
    drop(view);
    house.authority.set_standing(id_of("bot"), true, None).unwrap();
    assert!(house.authority.ledger().view().unwrap().job(ATTEST_REVIEW, "bot").unwrap().is_some());
    took(&house, sent(&house, id, Step::RevocationSent, transaction("three", 5, 10)));
    took(&house, sent(&house, id, Step::RevocationSent, transaction("four", 5, 12)));
    let done = Inclusion { index: None, ..inclusion("four", 3) };
    took(&house, included(&house, id, Step::Revoked, done));
    let view = house.authority.ledger().view().unwrap();
    assert_eq!(spent(&*view, CHAIN, house.now(), None).unwrap(), 9);
    let totals = query::attestation_totals(&*view).unwrap();
    assert_eq!(totals.iter().map(|total| total.steps).sum::<u64>(), 10);
    assert_eq!(totals.iter().map(|total| total.fees.0).sum::<u128>(), 9);
    drop(view);
    house.assert_sound();
}

#[test]
fn steps_that_could_write_twice_are_refused() {
    let house = house();
    let id = intended(&house, "bot");
    assert!(refused(&house, included(&house, id, Step::Confirmed, inclusion("x", 1))).contains("it is intent"));
    took(&house, sent(&house, id, Step::Sent, transaction("one", 4, 10)));
    for (record, why) in [
        (sent(&house, id, Step::Sent, transaction("two", 4, 12)), "could only replace"),
        (sent(&house, id, Step::Replaced, transaction("two", 5, 12)), "same nonce"),
        (sent(&house, id, Step::Replaced, transaction("one", 4, 12)), "same nonce"),
        (sent(&house, id, Step::Replaced, transaction("two", 4, 9)), "no lower fee"),
        (sent(&house, id, Step::RevocationSent, transaction("two", 5, 9)), "it is sent"),
        (included(&house, id, Step::Confirmed, inclusion("other", 1)), "no such transaction"),
        (included(&house, id, Step::Confirmed, Inclusion { index: None, ..inclusion("one", 1) }), "has an index"),
        (included(&house, id, Step::Final, inclusion("one", 1)), "it is sent"),
        (
            AttestationRecord { agent: id_of("rival"), ..sent(&house, id, Step::Replaced, transaction("two", 4, 12)) },
            "about 'bot'",
        ),
        (step(&house, id, Step::Replaced), "other members"),
        (
            sent(&house, id, Step::Replaced, SignedTransaction { raw: "zz zz".into(), ..transaction("two", 4, 12) }),
            "hexadecimal",
        ),
        (sent(&house, id, Step::Replaced, SignedTransaction { nonce: None, ..transaction("two", 4, 12) }), "nonce"),
    ] {
        let said = refused(&house, record);
        assert!(said.contains(why), "{said}");
    }
    // Another registration has to wait its turn, another process its state.
    let other = intended(&house, "rival");
    assert!(
        refused(&house, sent(&house, other, Step::Sent, transaction("other", 5, 1))).contains("waits for inclusion")
    );
    let stale = sent(&house, id, Step::Replaced, transaction("two", 4, 12));
    assert_eq!(house.authority.record_attestation_step(stale, 0, None).unwrap(), Recorded::MovedOn);
    for nonce in 5..5 + MAX_NONCES as u64 - 1 {
        took(&house, sent(&house, id, Step::Sent, transaction(&format!("n{nonce}"), nonce, 10)));
    }
    assert!(refused(&house, sent(&house, id, Step::Sent, transaction("last", 99, 10))).contains("nonces were used"));
    house.assert_sound();
}

#[test]
fn a_final_attestation_answers_a_few_requests_each_once() {
    let house = house();
    let id = intended(&house, "bot");
    let answer = |request: &str, transaction| {
        let request = Some(request.repeat(32));
        AttestationRecord { request, ..sent(&house, id, Step::ValidationSent, transaction) }
    };
    took(&house, sent(&house, id, Step::Sent, transaction("one", 4, 10)));
    assert!(refused(&house, answer("aa", transaction("two", 5, 10))).contains("it is sent"));
    took(&house, included(&house, id, Step::Confirmed, inclusion("one", 5)));
    took(&house, included(&house, id, Step::Final, inclusion("one", 5)));
    assert!(refused(&house, answer("zz", transaction("two", 5, 10))).contains("hexadecimal"));
    assert!(refused(&house, sent(&house, id, Step::ValidationSent, transaction("two", 5, 10))).contains("members"));
    let done = |transaction: &str| Inclusion { index: None, ..inclusion(transaction, 3) };
    for (n, request) in ["aa", "bb", "cc"].into_iter().enumerate() {
        let (nonce, names) = (5 + n as u64, [format!("{request}1"), format!("{request}2")]);
        took(&house, answer(request, transaction(&names[0], nonce, 10)));
        assert!(refused(&house, answer("dd", transaction("x", nonce, 12))).contains("another request"));
        assert!(refused(&house, answer(request, transaction(&names[1], nonce, 9))).contains("could only replace"));
        took(&house, answer(request, transaction(&names[1], nonce, 12)));
        assert!(refused(&house, included(&house, id, Step::Validated, done("other"))).contains("no such transaction"));
        match n {
            2 => {
                let reason = Some("it failed".to_owned());
                let failed = included(&house, id, Step::ValidationGivenUp, done(&names[1]));
                took(&house, AttestationRecord { reason, ..failed });
            }
            _ => took(&house, included(&house, id, Step::Validated, done(&names[1]))),
        }
        let again = refused(&house, answer(request, transaction("again", 90, 10)));
        assert!(again.contains("this request before") || again.contains("3 requests"), "{again}");
    }
    assert!(refused(&house, answer("dd", transaction("more", 9, 10))).contains("3 requests"));
    let view = house.authority.ledger().view().unwrap();
    let row = row(&*view, id).unwrap().unwrap();
    assert_eq!(row.answers.iter().map(|answer| answer.answered).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(spent(&*view, CHAIN, house.now(), None).unwrap(), 5 + 3 * 3);
    drop(view);
    house.assert_sound();
}

#[test]
fn a_node_that_changes_its_mind_does_not_fill_the_ledger() {
    let house = house();
    let id = intended(&house, "bot");
    took(&house, sent(&house, id, Step::Sent, transaction("one", 4, 10)));
    for n in 0.. {
        let record = match n % 2 {
            0 => included(&house, id, Step::Confirmed, inclusion("one", 5)),
            _ => AttestationRecord { reason: Some("gone".into()), ..step(&house, id, Step::Reorganised) },
        };
        if let Err(error) = take(&house, record, None) {
            assert!(n + 2 == MAX_STEPS && error.to_string().contains("contradicts itself"), "{n} {error}");
            break;
        }
    }
}

#[test]
fn a_budget_counts_what_was_paid_and_what_is_under_way() {
    let house = house();
    let id = intended(&house, "bot");
    let over = take(&house, sent(&house, id, Step::Sent, transaction("one", 4, 11)), Some(10)).unwrap_err();
    assert!(matches!(over, Error::AttestationBudget { .. }), "{over}");
    assert!(matches!(
        take(&house, sent(&house, id, Step::Sent, transaction("one", 4, 10)), Some(10)),
        Ok(Recorded::Entry(_))
    ));
    // A replacement takes the place of what it replaces.
    assert!(take(&house, sent(&house, id, Step::Replaced, transaction("two", 4, 12)), Some(12)).is_ok());
    took(&house, included(&house, id, Step::Confirmed, inclusion("two", 7)));
    let other = intended(&house, "rival");
    let next = || sent(&house, other, Step::Sent, transaction("other", 5, 10));
    let over = take(&house, next(), Some(21)).unwrap_err().to_string();
    assert!(over.contains("12 are used"), "{over}");
    took(&house, included(&house, id, Step::Final, inclusion("two", 7)));
    assert!(take(&house, next(), Some(16)).is_err());
    assert!(take(&house, next(), Some(17)).is_ok());
    house.assert_sound();
}

#[test]
fn an_intent_says_what_the_newest_score_says_of_a_proven_registration() {
    let house = house();
    let good = draft(&house, "bot");
    let mut wrong = Vec::new();
    for (name, change) in [
        ("value", "the document does not say"),
        ("hash", "the hash is not the document's"),
        ("subject", "is not proven to be of"),
        ("attestation", "about something else"),
        ("chain", "is not a registration on"),
    ] {
        let mut record = good.clone();
        let intent = record.intent.as_mut().unwrap();
        match name {
            "value" => intent.value -= 1,
            "hash" => intent.hash = "ab".repeat(32),
            "subject" => record.subject = subject(1),
            "attestation" => record.attestation = Uuid::from_u128(1),
            _ => record.chain = "eip155:1".into(),
        }
        wrong.push((record, change));
    }
    for (record, why) in &wrong {
        let said = house.authority.intend_attestation(record.clone()).unwrap_err().to_string();
        assert!(said.contains(why), "{said}");
    }
    // A key of somebody else; a score that is no longer the newest.
    let office = Office::new("https://trust.example", key("a"));
    let forged = Draft { agent: &id_of("bot"), chain: CHAIN, subject: None, by: "0xab", rescore: true };
    let forged = house.authority.draft_attestation(&office, log_key().verifier(), forged).unwrap();
    let said = house.authority.intend_attestation(forged.clone()).unwrap_err().to_string();
    assert!(said.contains("not signed by a key of the authority"), "{said}");
    measure(&house, "bot", 40.0);
    let said = house.authority.intend_attestation(good.clone()).unwrap_err().to_string();
    assert!(said.contains("newest score event"), "{said}");
    house.assert_sound();

    // The audit finds entries that were written past the checks.
    let before = house.audit(false).findings.count;
    write(house.authority.ledger(), move |tx| {
        let record = Record::Attestation(Box::new(forged.clone()));
        tx.append(&record.entry(&forged.agent).unwrap())?;
        Ok::<_, Error>(())
    })
    .unwrap();
    let audited = house.audit(false);
    assert!(audited.findings.count > before);
    assert!(audited.findings.listed.iter().any(|finding| finding.what.contains("not signed by a key")), "{audited:?}");
}
