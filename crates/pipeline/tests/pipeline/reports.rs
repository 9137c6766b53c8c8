//! What the ledger takes of decisions about reports, and what an audit finds in one that took more.

use credence_ledger::write;
use credence_pipeline::{
    query,
    record::Record,
    reports::{MAX_CORRECTIONS, ReportAction, ReportRecord, TokenHolder},
};
use credence_protocol::Uuid;

use crate::common::{House, id};

fn holder(name: &str) -> TokenHolder {
    TokenHolder { name: id(name), token: format!("{name}0") }
}

/// A decision by rita about a report that the writer drafted.
fn decision(report: u128, action: ReportAction) -> ReportRecord {
    let says_why = matches!(action, ReportAction::Rejected | ReportAction::Corrected | ReportAction::Withdrawn);
    ReportRecord {
        report: Uuid::from_u128(report),
        agent: id("bot"),
        action,
        digest: "ab".repeat(32),
        drafted_by: holder("writer"),
        by: holder("rita"),
        document: (action == ReportAction::Published).then(|| "cd".repeat(32)),
        replaced_by: None,
        reason: says_why.then(|| "because".to_owned()),
    }
}

use ReportAction::{Approved, Corrected, Published, Rejected, Withdrawn};

/// Decisions that nobody may take after `before`.
fn wrong() -> Vec<(&'static [ReportAction], ReportRecord)> {
    let own = |action| ReportRecord { by: holder("writer"), ..decision(1, action) };
    let same_name =
        |action| ReportRecord { by: TokenHolder { token: "other".into(), ..holder("writer") }, ..decision(1, action) };
    let same_token =
        |action| ReportRecord { by: TokenHolder { name: id("rita"), ..holder("writer") }, ..decision(1, action) };
    let other = |action| ReportRecord { digest: "ef".repeat(32), ..decision(1, action) };
    vec![
        (&[], own(Approved)),
        (&[], same_name(Approved)),
        (&[], same_token(Approved)),
        (&[], decision(1, Published)),
        (&[], decision(1, Corrected)),
        (&[], decision(1, Withdrawn)),
        (&[], ReportRecord { reason: None, ..decision(1, Rejected) }),
        (&[], ReportRecord { reason: Some(" ".into()), ..decision(1, Rejected) }),
        (&[], ReportRecord { reason: Some("because".into()), ..decision(1, Approved) }),
        (&[], ReportRecord { digest: "ab".into(), ..decision(1, Approved) }),
        (&[], ReportRecord { document: Some("cd".repeat(32)), ..decision(1, Approved) }),
        (&[], ReportRecord { by: TokenHolder { token: String::new(), ..holder("rita") }, ..decision(1, Approved) }),
        (&[Approved], decision(1, Approved)),
        (&[Approved], own(Published)),
        (&[Approved], other(Published)),
        (&[Approved], ReportRecord { document: None, ..decision(1, Published) }),
        (&[Approved], ReportRecord { agent: id("other-bot"), ..decision(1, Published) }),
        (&[Rejected], decision(1, Approved)),
        (&[Rejected], decision(1, Published)),
        (&[Approved, Published], decision(1, Published)),
        (&[Approved, Published], decision(1, Rejected)),
        (&[Approved, Published], ReportRecord { replaced_by: Some(Uuid::from_u128(1)), ..decision(1, Corrected) }),
        (&[Approved, Published], ReportRecord { replaced_by: Some(Uuid::from_u128(9)), ..decision(1, Corrected) }),
        (&[Approved, Published, Withdrawn], decision(1, Withdrawn)),
        (&[Approved, Published, Withdrawn], decision(1, Corrected)),
    ]
}

fn house(before: &[ReportAction]) -> House {
    let house = House::in_memory(&[], &["bot", "other-bot"]);
    for action in before {
        house.authority.decide_report(decision(1, *action)).unwrap();
    }
    house
}

#[test]
fn decisions_that_nobody_may_take_are_refused_and_found_in_a_forged_ledger() {
    let cases = wrong();
    assert_eq!(cases.len(), 25);
    for (before, record) in cases {
        let house = house(before);
        let size = house.authority.ledger().view().unwrap().size().unwrap();
        let refused = house.authority.decide_report(record.clone());
        assert!(refused.is_err(), "{before:?} {record:?}");
        assert_eq!(house.authority.ledger().view().unwrap().size().unwrap(), size);
        // Somebody with the keys writes it past the rules.
        let entry = Record::Report(record.clone()).entry(&record.agent).unwrap();
        write(house.authority.ledger(), move |tx| tx.append(&entry)).unwrap();
        let findings = house.audit(false).findings;
        let found = findings.listed.iter().any(|finding| finding.seq == Some(size));
        assert!(found, "{before:?} {record:?}: {findings:?}");
    }
}

#[test]
fn a_report_goes_its_way_and_replays() {
    let house = house(&[Approved, Published]);
    let view = || house.authority.ledger().view().unwrap();
    house.authority.decide_report(decision(2, Approved)).unwrap();
    // Another reviewer, where the first one's token was revoked.
    house.authority.decide_report(ReportRecord { by: holder("sam"), ..decision(2, Approved) }).unwrap();
    assert_eq!(query::reports_of(&*view(), &id("bot"), 9).unwrap().len(), 1, "an approval is not public");
    house.authority.decide_report(decision(2, Published)).unwrap();
    let replaced = ReportRecord { replaced_by: Some(Uuid::from_u128(2)), ..decision(1, Corrected) };
    house.authority.decide_report(replaced).unwrap();
    for _ in 1..MAX_CORRECTIONS {
        house.authority.decide_report(decision(1, Corrected)).unwrap();
    }
    let refused = house.authority.decide_report(decision(1, Corrected)).unwrap_err();
    assert!(refused.to_string().contains("withdraw it"), "{refused}");
    house.authority.decide_report(decision(1, Withdrawn)).unwrap();
    let listed = query::published_reports(&*view(), 9).unwrap();
    let states: Vec<_> = listed.iter().map(|(id, row)| (id.as_u128(), row.state.key())).collect();
    assert_eq!(states, [(2, "published"), (1, "withdrawn")], "newest first");
    assert!(query::reports_of(&*view(), &id("other-bot"), 9).unwrap().is_empty());
    house.assert_sound();
    let unknown = ReportRecord { agent: id("nobody"), ..decision(3, Approved) };
    assert!(house.authority.decide_report(unknown).unwrap_err().to_string().contains("'nobody'"));
}
