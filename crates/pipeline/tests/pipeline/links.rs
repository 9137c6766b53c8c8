//! Links, what crawlers read over them, and disputes: every step recorded, checked by the audit, and withdrawn where a link ends.

use credence_pipeline::{
    Error,
    due::{CRAWL, LINK},
    links::{
        self, LinkRow,
        disputes::dispute,
        feeding::{CrawlOutcome, EVIDENCE, Recorded, crawls, job_key, split_job},
    },
    record::{DisputeRecord, DisputeStep, LinkState},
};
use credence_protocol::{ExternalSubject, LinkProof, LinkStatement, Signal, Uuid, strict::StrictValue};
use serde_json::json;

use crate::common::{House, id, key, tag};

fn subject(text: &str) -> ExternalSubject {
    text.parse().unwrap()
}

fn host() -> ExternalSubject {
    subject("host:shop.example")
}

fn proof() -> LinkProof {
    LinkProof { method: "file".into(), url: Some("https://shop.example/x".into()), digest: None, signature: None }
}

fn proven(house: &House, agent: &str, link: &ExternalSubject) -> LinkRow {
    let line = house.authority.claim_link(&id(agent), link, 30).unwrap();
    assert!(house.authority.prove_link(&line, proof()).unwrap().is_some());
    row(house, agent, link)
}

fn row(house: &House, agent: &str, link: &ExternalSubject) -> LinkRow {
    let view = house.authority.ledger().view().unwrap();
    links::link(&*view, &id(agent), link).unwrap().unwrap()
}

fn crawled(house: &House, agent: &str, link: &ExternalSubject, value: f64) -> Signal {
    let mut draft = house.draft(agent, "crawler", &["user_feedback"], value);
    draft.evidence = Some(StrictValue(json!({ EVIDENCE: { "link": link, "numbers": { "good": 9 } } })));
    draft.sign(&key("crawler")).unwrap()
}

fn outcome(house: &House, agent: &str, link: &ExternalSubject, link_seq: u64, signals: Vec<Signal>) -> CrawlOutcome {
    CrawlOutcome {
        agent: id(agent),
        link: link.clone(),
        link_seq,
        source: id("crawler"),
        signals,
        outdated: Vec::new(),
        again: house.now().plus_seconds(3600),
        memory: "{}".into(),
        failure: None,
        alarm: false,
        quota: Some(7),
    }
}

fn houses() -> [House; 2] {
    let (sources, agents): (&[(&str, f64)], &[&str]) = (&[("crawler", 0.5), ("lab", 1.0)], &["bot", "other"]);
    [House::new(sources, agents), House::run_twice(sources, agents)]
}

#[test]
fn a_link_is_claimed_proven_broken_and_proven_again() {
    for house in houses() {
        let line = house.authority.claim_link(&id("bot"), &host(), 30).unwrap();
        assert_eq!(row(&house, "bot", &host()).state, LinkState::Claimed);
        assert_eq!(house.authority.link_statement(&id("bot"), &host()).unwrap(), line);
        assert_eq!(LinkStatement::parse(&line.line()).unwrap(), line);
        assert!(house.authority.ledger().jobs().next_due(LINK).unwrap().is_none(), "a claim is not checked by itself");
        house.authority.prove_link(&line, proof()).unwrap().unwrap();
        assert_eq!(house.authority.prove_link(&line, proof()).unwrap(), None, "nothing new");
        assert!(row(&house, "bot", &host()).feeds(house.now()));
        let again = house.authority.ledger().jobs().next_due(LINK).unwrap().unwrap();
        assert!(again <= house.now().plus_seconds(links::RECHECK_SECONDS));
        house.authority.break_link(&id("bot"), &host(), "the line is gone").unwrap().unwrap();
        let broken = row(&house, "bot", &host());
        assert_eq!((broken.state, broken.reason.as_deref()), (LinkState::Broken, Some("the line is gone")));
        assert!(house.authority.ledger().jobs().next_due(LINK).unwrap().is_none());
        assert_eq!(house.authority.break_link(&id("bot"), &host(), "again").unwrap(), None);
        // The owner puts the same line back.
        house.authority.prove_link(&line, proof()).unwrap().unwrap();
        house.authority.remove_link(&id("bot"), &host(), "sold").unwrap().unwrap();
        assert_eq!(house.authority.remove_link(&id("bot"), &host(), "sold").unwrap(), None);
        let next = house.authority.claim_link(&id("bot"), &host(), 30).unwrap();
        assert_ne!(next.nonce, line.nonce);
        house.assert_sound();
        assert_eq!(house.replay().differences.count, 0);
    }
}

#[test]
fn steps_that_do_not_follow_are_refused_and_nothing_is_written() {
    let [house, _] = houses();
    let line = house.authority.claim_link(&id("bot"), &host(), 30).unwrap();
    let size = house.size();
    let other = LinkStatement { nonce: Uuid::new_v4(), ..line.clone() };
    let refused = house.authority.prove_link(&other, proof()).unwrap_err().to_string();
    assert!(refused.contains("not claimed with"), "{refused}");
    let later = LinkStatement { expires: line.expires.plus_seconds(1), ..line.clone() };
    assert!(house.authority.prove_link(&later, proof()).is_err());
    let unknown = house.authority.prove_link(&LinkStatement { agent: id("other"), ..line.clone() }, proof());
    assert!(matches!(unknown, Err(Error::UnknownLink { .. })));
    assert!(house.authority.claim_link(&id("nobody"), &host(), 30).is_err());
    assert_eq!(house.size(), size);
    house.advance(31 * 86_400);
    assert!(house.authority.prove_link(&line, proof()).unwrap_err().to_string().contains("no longer holds"));
    let renewed = house.authority.claim_link(&id("bot"), &host(), 365).unwrap();
    house.authority.prove_link(&renewed, proof()).unwrap();
    let refused = house.authority.claim_link(&id("bot"), &host(), 365).unwrap_err().to_string();
    assert!(refused.contains("is proven"), "{refused}");
    house.assert_sound();
}

#[test]
fn two_agents_can_prove_the_same_host_and_only_each_its_own() {
    let [house, _] = houses();
    proven(&house, "bot", &host());
    house.authority.claim_link(&id("other"), &host(), 30).unwrap();
    assert_eq!(row(&house, "other", &host()).state, LinkState::Claimed);
}

#[test]
fn what_is_read_over_a_link_is_recorded_with_its_job_and_counted() {
    for house in houses() {
        let link = proven(&house, "bot", &host());
        let feeding = house.authority.plan_crawls(&|_| vec![id("crawler")]).unwrap();
        assert_eq!(feeding, 1);
        let claims = house.authority.ledger().jobs().claim(CRAWL, 10, std::time::Duration::from_secs(60)).unwrap();
        let job = job_key(&id("bot"), &id("crawler"), &host());
        assert_eq!(claims[0].job.key, job);
        assert_eq!(split_job(&job).unwrap(), (id("bot"), id("crawler"), host()));
        let signal = crawled(&house, "bot", &host(), 90.0);
        let recorded =
            house.authority.record_crawl(vec![outcome(&house, "bot", &host(), link.seq, vec![signal])]).unwrap();
        assert_eq!(recorded, [Recorded::Signals(1)]);
        let view = house.authority.ledger().view().unwrap();
        let kept = view.job(CRAWL, &job).unwrap().unwrap();
        assert!(kept.leased_until.is_none() && kept.due > house.now(), "{kept:?}");
        // Planning again asks nothing before its time.
        drop(view);
        house.authority.plan_crawls(&|_| vec![id("crawler")]).unwrap();
        let again = house.authority.ledger().jobs().claim(CRAWL, 10, std::time::Duration::from_secs(60)).unwrap();
        assert!(again.is_empty(), "{again:?}");
        let counted = crawls(&*house.authority.ledger().view().unwrap()).unwrap();
        assert_eq!((counted[0].1.signals, counted[0].1.quota), (1, Some(7)));
        house.assert_sound();
    }
}

#[test]
fn nothing_is_recorded_over_a_link_that_ended_meanwhile() {
    let [house, _] = houses();
    let link = proven(&house, "bot", &host());
    let signal = crawled(&house, "bot", &host(), 90.0);
    house.authority.break_link(&id("bot"), &host(), "the domain was sold").unwrap();
    let size = house.size();
    let late = outcome(&house, "bot", &host(), link.seq, vec![signal.clone()]);
    assert_eq!(house.authority.record_crawl(vec![late.clone()]).unwrap(), [Recorded::LinkOver]);
    // Claimed is not proven, and a new proof is another one.
    let line = house.authority.claim_link(&id("bot"), &host(), 30).unwrap();
    assert_eq!(house.authority.record_crawl(vec![late.clone()]).unwrap(), [Recorded::LinkOver]);
    house.authority.prove_link(&line, proof()).unwrap();
    assert_eq!(house.authority.record_crawl(vec![late]).unwrap(), [Recorded::LinkOver]);
    assert_eq!(house.size(), size + 2, "two steps of the link, and no signal");
    assert!(house.current().is_empty());
}

#[test]
fn a_broken_link_takes_what_it_fed_with_it_and_nothing_else() {
    for house in houses() {
        let link = proven(&house, "bot", &host());
        let other = subject("repository:github.com/acme/weather");
        let repository = proven(&house, "bot", &other);
        let over_host = crawled(&house, "bot", &host(), 90.0);
        let mut over_repository = house.draft("bot", "crawler", &["oss_popularity"], 50.0);
        over_repository.evidence = Some(StrictValue(json!({ EVIDENCE: { "link": other } })));
        let over_repository = over_repository.sign(&key("crawler")).unwrap();
        let outcomes = vec![
            outcome(&house, "bot", &host(), link.seq, vec![over_host]),
            outcome(&house, "bot", &other, repository.seq, vec![over_repository]),
        ];
        assert_eq!(house.authority.record_crawl(outcomes).unwrap(), [Recorded::Signals(1), Recorded::Signals(1)]);
        house.measure("bot", "lab", "rel_uptime", 99.0);
        assert_eq!(house.current().len(), 3);
        house.authority.break_link(&id("bot"), &host(), "names another agent").unwrap();
        let left: Vec<String> = house.current().into_iter().map(|(key, _)| key).collect();
        assert_eq!(left, ["bot/crawler/oss_popularity", "bot/lab/rel_uptime"]);
        house.assert_sound();
        assert_eq!(house.replay().differences.count, 0);
    }
}

/// A card was signed and is no longer: that it is signed is not true any more, though the source is well and the link proven.
#[test]
fn what_a_newer_answer_denies_is_withdrawn() {
    for house in houses() {
        let link = proven(&house, "bot", &host());
        let told = |tag: &str| {
            let mut draft = house.draft("bot", "crawler", &[tag], 90.0);
            draft.evidence = Some(StrictValue(json!({ EVIDENCE: { "link": host() } })));
            draft.sign(&key("crawler")).unwrap()
        };
        let first = outcome(&house, "bot", &host(), link.seq, vec![told("user_feedback"), told("identity_domain")]);
        house.authority.record_crawl(vec![first]).unwrap();
        assert_eq!(house.current().len(), 2);
        house.advance(3_600);
        let outdated = vec![tag("identity_domain")];
        let silent =
            CrawlOutcome { outdated: outdated.clone(), ..outcome(&house, "bot", &host(), link.seq, Vec::new()) };
        house.authority.record_crawl(vec![silent]).unwrap();
        assert_eq!(house.current().len(), 2, "an answer that measures nothing takes nothing back");
        let newer = outcome(&house, "bot", &host(), link.seq, vec![told("user_feedback")]);
        house.authority.record_crawl(vec![CrawlOutcome { outdated, ..newer }]).unwrap();
        let left: Vec<String> = house.current().into_iter().map(|(key, _)| key).collect();
        assert_eq!(left, ["bot/crawler/user_feedback"]);
        house.assert_sound();
        assert_eq!(house.replay().differences.count, 0);
    }
}

/// A proven link is claimed anew, and the new line is never found: what came over the old one does not count for good.
#[test]
fn what_came_over_a_link_that_is_claimed_anew_counts_until_the_new_line_is_due() {
    for house in houses() {
        let link = proven(&house, "bot", &host());
        let over_host = crawled(&house, "bot", &host(), 90.0);
        house.authority.record_crawl(vec![outcome(&house, "bot", &host(), link.seq, vec![over_host])]).unwrap();
        let line = house.authority.claim_link(&id("bot"), &host(), 300).unwrap();
        let due = house.authority.ledger().jobs().next_due(LINK).unwrap().unwrap();
        assert!(due <= house.now().plus_seconds(links::PATIENCE_SECONDS));
        // A second claim does not put it off.
        house.advance(86_400);
        let line = LinkStatement { nonce: row(&house, "bot", &host()).nonce, ..line };
        assert_eq!(house.authority.lapse_link(&id("bot"), &host()).unwrap(), 0, "there is time left");
        house.authority.claim_link(&id("bot"), &host(), 300).unwrap();
        assert_eq!(house.authority.ledger().jobs().next_due(LINK).unwrap(), Some(due));
        assert!(house.authority.prove_link(&line, proof()).is_err(), "the line of the first claim");
        assert_eq!(house.current().len(), 1);
        house.advance(7 * 86_400);
        assert_eq!(house.authority.lapse_link(&id("bot"), &host()).unwrap(), 1);
        assert!(house.current().is_empty());
        assert!(house.authority.ledger().jobs().next_due(LINK).unwrap().is_none());
        assert_eq!(row(&house, "bot", &host()).state, LinkState::Claimed);
        house.assert_sound();
        assert_eq!(house.replay().differences.count, 0);
    }
}

#[test]
fn a_renewed_link_keeps_what_it_fed() {
    let [house, _] = houses();
    let link = proven(&house, "bot", &host());
    let over_host = crawled(&house, "bot", &host(), 90.0);
    house.authority.record_crawl(vec![outcome(&house, "bot", &host(), link.seq, vec![over_host])]).unwrap();
    let line = house.authority.claim_link(&id("bot"), &host(), 300).unwrap();
    house.advance(3 * 86_400);
    house.authority.prove_link(&line, proof()).unwrap().unwrap();
    house.advance(5 * 86_400);
    assert_eq!(house.authority.lapse_link(&id("bot"), &host()).unwrap(), 0);
    assert_eq!(house.current().len(), 1);
    house.assert_sound();
}

/// A wallet's signature over its own link holds until the line ends. A registration can be sold by the wallet that signed.
#[test]
fn a_signature_of_an_owner_is_checked_again_every_day() {
    let [house, _] = houses();
    let signed = LinkProof { method: "signature".into(), url: None, digest: None, signature: Some("5ig".into()) };
    let address = "11111111111111111111111111111112";
    let again = |subject: &str| {
        let line = house.authority.claim_link(&id("bot"), &subject.parse().unwrap(), 30).unwrap();
        house.authority.prove_link(&line, signed.clone()).unwrap().unwrap();
        let due = house.authority.ledger().jobs().next_due(LINK).unwrap().unwrap();
        house.authority.remove_link(&id("bot"), &line.subject, "over").unwrap();
        (due.micros() - house.now().micros()) / 1_000_000
    };
    let day = links::RECHECK_SECONDS;
    assert!(again(&format!("wallet:solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp:{address}")) > 29 * day);
    assert!(again(&format!("solana8004:{address}")) <= day);
}

#[test]
fn the_owner_disputes_a_crawled_signal_and_the_operator_decides() {
    for house in houses() {
        house.authority.add_key(&key("bot").public(), id("bot")).unwrap();
        let link = proven(&house, "bot", &host());
        let signal = crawled(&house, "bot", &host(), 10.0);
        let crawled_id = signal.draft().id;
        house.authority.record_crawl(vec![outcome(&house, "bot", &host(), link.seq, vec![signal])]).unwrap();
        let (own, _) = house.measure("bot", "lab", "rel_uptime", 99.0);
        let record = |agent: &str, signal: Uuid, step, text: &str| DisputeRecord {
            agent: id(agent),
            signal,
            step,
            text: text.into(),
            key_id: None,
            signature: None,
        };
        let opened = record("bot", crawled_id, DisputeStep::Opened, "that repository is a fork");
        let refused = |record: DisputeRecord, hint: &str| {
            let size = house.size();
            let said = house.authority.dispute(record).unwrap_err().to_string();
            assert!(said.contains(hint), "{said}");
            assert_eq!(house.size(), size);
        };
        refused(record("bot", own.draft().id, DisputeStep::Opened, "no"), "no crawler made it");
        refused(record("other", crawled_id, DisputeStep::Opened, "no"), "no signal about this agent");
        refused(record("bot", crawled_id, DisputeStep::Kept, "no"), "no dispute of it is open");
        refused(record("bot", crawled_id, DisputeStep::Opened, " "), "say why");
        refused(record("bot", crawled_id, DisputeStep::Opened, "a\u{202e}b"), "direction of text");
        refused(opened.clone().signed_by(&key("other")).unwrap(), "not the agent's");
        let mut forged = opened.clone().signed_by(&key("bot")).unwrap();
        forged.text = "something else".into();
        refused(forged, "signature does not hold");
        house.authority.dispute(opened.clone().signed_by(&key("bot")).unwrap()).unwrap();
        refused(opened, "disputed before");
        assert_eq!(house.current().len(), 2, "a dispute alone changes nothing");
        house.authority.dispute(record("bot", crawled_id, DisputeStep::Withdrawn, "it is a fork")).unwrap();
        assert_eq!(house.current().len(), 1);
        let view = house.authority.ledger().view().unwrap();
        let row = dispute(&*view, &id("bot"), crawled_id).unwrap().unwrap();
        assert_eq!(
            (row.step, row.statement.as_str(), row.signed),
            (DisputeStep::Withdrawn, "that repository is a fork", true)
        );
        assert_eq!(row.decision.as_deref(), Some("it is a fork"));
        drop(view);
        house.assert_sound();
        assert_eq!(house.replay().differences.count, 0);
    }
}

#[test]
fn a_kept_signal_still_counts() {
    let [house, _] = houses();
    let link = proven(&house, "bot", &host());
    let signal = crawled(&house, "bot", &host(), 10.0);
    let (agent, id_of) = (id("bot"), signal.draft().id);
    house.authority.record_crawl(vec![outcome(&house, "bot", &host(), link.seq, vec![signal])]).unwrap();
    for (step, text) in [(DisputeStep::Opened, "wrong"), (DisputeStep::Kept, "it is right")] {
        let record = DisputeRecord {
            agent: agent.clone(),
            signal: id_of,
            step,
            text: text.into(),
            key_id: None,
            signature: None,
        };
        house.authority.dispute(record).unwrap();
    }
    assert_eq!(house.current().len(), 1);
    house.assert_sound();
}

#[test]
fn an_authority_that_withdraws_without_a_reason_is_found_out() {
    use credence_ledger::write;
    use credence_pipeline::{
        projection,
        record::{Record, WithdrawalRecord},
    };
    let [house, _] = houses();
    let link = proven(&house, "bot", &host());
    let signal = crawled(&house, "bot", &host(), 10.0);
    let withdrawn = signal.draft().id;
    house.authority.record_crawl(vec![outcome(&house, "bot", &host(), link.seq, vec![signal])]).unwrap();
    let (lab, _) = house.measure("bot", "lab", "rel_uptime", 99.0);
    for (signal, tag_name, source) in [(withdrawn, "user_feedback", "crawler"), (lab.draft().id, "rel_uptime", "lab")] {
        let record = WithdrawalRecord { signal, agent: id("bot"), tag: tag(tag_name), source: Some(id(source)) };
        write(house.authority.ledger(), move |tx| {
            let record = Record::Withdrawal(record.clone());
            let at = tx.append(&record.entry(&id("bot")).unwrap())?;
            projection::apply(tx, at, &id("bot"), &record).unwrap();
            Ok::<_, credence_ledger::Error>(())
        })
        .unwrap();
    }
    let found = house.audit(false).findings;
    let text = format!("{found:?}");
    assert!(text.contains("link is proven and which is not disputed"), "{text}");
    assert!(text.contains("no current signal of a crawler"), "{text}");
}

fn said(agent: &str, signal: Uuid, step: DisputeStep) -> DisputeRecord {
    DisputeRecord { agent: id(agent), signal, step, text: "it is a fork".into(), key_id: None, signature: None }
}

fn job(house: &House, agent: &str, link: &ExternalSubject) -> Option<credence_ledger::Job> {
    house.authority.ledger().view().unwrap().job(CRAWL, &job_key(&id(agent), &id("crawler"), link)).unwrap()
}

#[test]
fn a_withdrawn_signal_does_not_come_back_until_the_withdrawal_is_lifted() {
    for house in houses() {
        let link = proven(&house, "bot", &host());
        let record = |value: f64| {
            let signal = crawled(&house, "bot", &host(), value);
            let made = signal.draft().id;
            let outcome = outcome(&house, "bot", &host(), link.seq, vec![signal]);
            (made, house.authority.record_crawl(vec![outcome]).unwrap().remove(0))
        };
        let (disputed, _) = record(10.0);
        assert!(house.authority.dispute(said("bot", disputed, DisputeStep::Lifted)).is_err(), "nothing to lift");
        house.authority.dispute(said("bot", disputed, DisputeStep::Opened)).unwrap();
        assert_eq!(record(11.0).1, Recorded::Signals(1), "an open dispute changes nothing");
        house.authority.dispute(said("bot", disputed, DisputeStep::Withdrawn)).unwrap();
        house.advance(8 * 86_400);
        for value in [10.0, 55.0] {
            assert_eq!(record(value).1, Recorded::Signals(0), "the next crawl does not undo the operator's decision");
        }
        // Another source, another link and another agent are not concerned.
        house.measure("bot", "lab", "user_feedback", 40.0);
        let other = proven(&house, "other", &host());
        let outcome = outcome(&house, "other", &host(), other.seq, vec![crawled(&house, "other", &host(), 10.0)]);
        assert_eq!(house.authority.record_crawl(vec![outcome]).unwrap(), [Recorded::Signals(1)]);
        house.authority.dispute(said("bot", disputed, DisputeStep::Lifted)).unwrap();
        let again = job(&house, "bot", &host()).unwrap();
        assert!(
            again.due <= house.now() && again.payload.is_empty(),
            "asked again at once, from the beginning: {again:?}"
        );
        assert_eq!(record(10.0).1, Recorded::Signals(1));
        house.assert_sound();
        assert_eq!(house.replay().differences.count, 0);
    }
}

#[test]
fn what_was_withdrawn_or_rejected_is_not_remembered() {
    let [house, _] = houses();
    let link = proven(&house, "bot", &host());
    let signal = crawled(&house, "bot", &host(), 10.0);
    house.authority.record_crawl(vec![outcome(&house, "bot", &host(), link.seq, vec![signal.clone()])]).unwrap();
    assert_eq!(job(&house, "bot", &host()).unwrap().payload, "{}");
    // The same id with another value is refused.
    let mut other = crawled(&house, "bot", &host(), 60.0).draft().clone();
    other.id = signal.draft().id;
    let other = other.sign(&key("crawler")).unwrap();
    let became = house.authority.record_crawl(vec![outcome(&house, "bot", &host(), link.seq, vec![other])]).unwrap();
    assert!(matches!(&became[0], Recorded::Rejected(_)), "{became:?}");
    assert_eq!(job(&house, "bot", &host()).unwrap().payload, "", "a rejected reading was never recorded");
    // Broken and proven again before the question is due: it is asked at once.
    house.authority.record_crawl(vec![outcome(&house, "bot", &host(), link.seq, Vec::new())]).unwrap();
    house.authority.break_link(&id("bot"), &host(), "gone").unwrap();
    assert!(job(&house, "bot", &host()).is_none());
    let line = house.authority.link_statement(&id("bot"), &host()).unwrap();
    house.authority.prove_link(&line, proof()).unwrap();
    house.authority.plan_crawls(&|_| vec![id("crawler")]).unwrap();
    let again = job(&house, "bot", &host()).unwrap();
    assert!(again.due <= house.now() && again.payload.is_empty(), "{again:?}");
}

#[test]
fn an_alarm_is_of_a_source_a_reason_and_so_many_agents() {
    let [house, _] = houses();
    let links = ["bot", "other"].map(|agent| (agent, proven(&house, agent, &host()).seq));
    let record = |n: usize, failure: Option<(&'static str, &str)>, alarm: bool| {
        let (agent, seq) = links[n];
        let failure = failure.map(|(reason, why)| (reason, why.to_owned()));
        let outcome = CrawlOutcome { failure, alarm, ..outcome(&house, agent, &host(), seq, Vec::new()) };
        house.authority.record_crawl(vec![outcome]).unwrap();
    };
    let alarms = || {
        let rows = crawls(&*house.authority.ledger().view().unwrap()).unwrap();
        rows[0]
            .1
            .alarms
            .iter()
            .map(|(reason, alarm)| (reason.clone(), alarm.agents, alarm.why.clone()))
            .collect::<Vec<_>>()
    };
    record(0, Some(("wrong_shape", "no score")), true);
    record(1, None, false);
    assert_eq!(
        alarms(),
        [("wrong_shape".to_owned(), 1, "no score".to_owned())],
        "another agent's success ends nothing"
    );
    record(1, Some(("wrong_shape", "no stars")), true);
    assert_eq!(alarms(), [("wrong_shape".to_owned(), 2, "no stars".to_owned())]);
    record(1, Some(("unreachable", "down")), false);
    assert_eq!(alarms()[0].1, 2, "nothing was heard that would end it");
    record(1, Some(("bad_signature", "forged")), true);
    assert_eq!(alarms().iter().map(|(_, agents, _)| *agents).collect::<Vec<_>>(), [1, 1]);
    record(0, None, false);
    assert_eq!(alarms().len(), 1);
    house.authority.break_link(&id("other"), &host(), "gone").unwrap();
    assert!(alarms().is_empty(), "a question that is no longer asked has no alarm");
}
