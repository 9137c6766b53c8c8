//! Who decides what, and what the ledger records of it.

use std::{os::unix::fs::PermissionsExt, sync::Barrier};

use credence_pipeline::{query, reports::ReportAction};
use credence_protocol::Uuid;
use credence_reports::{Error, Report};

use crate::common::{Office, actor, all_in_force, id, key, reviewer};

#[test]
fn a_person_who_did_not_draft_it_approves_and_publishes_a_report() {
    let office = Office::scored();
    let before = office.size();
    let report = office.draft("Reliable. Ask again in May.");
    assert_eq!(office.size(), before, "a draft is no entry");
    let mode = std::fs::metadata(office.folder.path().join("reports.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let (authority, desk, rita) = (&office.authority, &office.desk, reviewer("rita"));
    let reviewed = desk.approve(authority, report, &rita, None, &all_in_force).unwrap();
    assert_eq!(reviewed.row().newest(ReportAction::Approved).unwrap().by.name, id("rita"));
    let published = desk.publish(authority, &key("credence"), report, &rita, &all_in_force).unwrap();
    let checked =
        credence_output::report::verify(published.document().as_bytes(), &[key("credence").public()]).unwrap();
    assert_eq!((checked.drafted_by.as_str(), checked.approved_by.as_str()), ("writer", "rita"));
    assert_eq!((checked.report, checked.checkpoint.as_str()), (report, &*published.contents().log.checkpoint));
    let view = authority.ledger().view().unwrap();
    let row = query::report(&*view, report).unwrap().unwrap();
    assert_eq!(row.document.as_deref(), Some(checked.hash.as_str()));
    let entry = String::from_utf8(view.entry(row.events[0].seq).unwrap().unwrap()).unwrap();
    assert!(entry.contains(r#""by":{"name":"rita","token":"rita1"}"#) && entry.contains(published.sheet().digest()));
    assert!(!entry.contains("May"), "{entry}");

    // What became of it is an entry, and stands on its page.
    let second = office.draft("");
    desk.approve(authority, second, &rita, None, &all_in_force).unwrap();
    desk.publish(authority, &key("credence"), second, &rita, &all_in_force).unwrap();
    desk.correct(authority, report, &rita, "it was March".into(), Some(second)).unwrap();
    desk.withdraw(authority, report, &reviewer("sam"), "superseded".into()).unwrap();
    let view = authority.ledger().view().unwrap();
    let found = desk.find(&*view, report, None).unwrap();
    assert_eq!(found.state(), "withdrawn");
    let page = credence_reports::markdown::render(&found.page_for(None).unwrap(), &Default::default());
    assert!(page.contains("**Withdrawn** on 2026-11-15 by sam") && page.contains("superseded"), "{page}");
    assert!(page.contains("it was March See [report") && page.contains(&second.to_string()), "{page}");
    let actions: Vec<_> = found.row().unwrap().events.iter().map(|event| event.action.key()).collect();
    assert_eq!(actions, ["approved", "published", "corrected", "withdrawn"]);
    assert_eq!(office.findings(), [""; 0]);
    for refused in [
        desk.withdraw(authority, report, &rita, "again".into()).unwrap_err(),
        desk.correct(authority, report, &rita, "again".into(), None).unwrap_err(),
    ] {
        assert!(refused.to_string().contains("it is withdrawn"), "{refused}");
    }
}

#[test]
fn neither_the_drafter_nor_somebody_without_the_scope_decides() {
    let office = Office::scored();
    let (authority, desk) = (&office.authority, &office.desk);
    let report = office.draft("x");
    assert!(matches!(actor("rita", false).reviewer(), Err(Error::NeedsReview(_))));
    let same_token = credence_reports::Actor::new(id("another-name"), "writer1", true).reviewer().unwrap();
    let same_name = credence_reports::Actor::new(id("writer"), "other", true).reviewer().unwrap();
    let size = office.size();
    for own in [&same_token, &same_name] {
        let refused = [
            desk.approve(authority, report, own, None, &all_in_force).map(drop),
            desk.reject(authority, report, own, "no".into()).map(drop),
        ];
        for refused in refused {
            assert!(matches!(refused, Err(Error::OwnDraft(_))), "{refused:?}");
        }
    }
    desk.approve(authority, report, &reviewer("rita"), None, &all_in_force).unwrap();
    for own in [&same_token, &same_name] {
        let refused = desk.publish(authority, &key("credence"), report, own, &all_in_force);
        assert!(matches!(refused, Err(Error::OwnDraft(_))), "{refused:?}");
    }
    assert_eq!(office.size(), size + 1, "the approval alone is recorded");
}

#[test]
fn a_draft_is_published_by_no_other_way() {
    let office = Office::scored();
    let (authority, desk, rita) = (&office.authority, &office.desk, reviewer("rita"));
    let report = office.draft("x");
    let publish = |report| desk.publish(authority, &key("credence"), report, &rita, &all_in_force);
    let refused = publish(report).unwrap_err();
    assert!(refused.to_string().ends_with("cannot be published: it is draft"), "{refused}");
    assert!(matches!(publish(Uuid::new_v4()), Err(Error::Unknown(_))));
    let other = desk.approve(authority, report, &rita, Some(&"0".repeat(64)), &all_in_force);
    assert!(matches!(other, Err(Error::OtherDigest(_))));
    desk.approve(authority, report, &rita, None, &all_in_force).unwrap();
    // Approved or not, nobody else sees it.
    let view = authority.ledger().view().unwrap();
    for stranger in [None, Some(actor("ops", false))] {
        assert!(matches!(desk.find(&*view, report, stranger.as_ref()), Err(Error::Unknown(_))));
        assert!(desk.list(&*view, None, stranger.as_ref(), 10).unwrap().is_empty());
    }
    for reader in [actor("writer", false), actor("sam", true)] {
        assert_eq!(desk.find(&*view, report, Some(&reader)).unwrap().state(), "approved");
        assert_eq!(desk.list(&*view, None, Some(&reader), 10).unwrap().len(), 1);
    }
    // Others' drafts do not crowd out one's own.
    for _ in 0..3 {
        let contents = office.gather("shop", &actor("other", false), None).unwrap();
        desk.draft(contents).unwrap();
    }
    let own = desk.waiting(&*view, Some(&id("shop")), Some(&actor("writer", false)), 1).unwrap();
    assert_eq!((own.len(), own[0].report), (1, report));
    assert_eq!(desk.waiting(&*view, Some(&id("shop")), Some(&actor("sam", true)), 9).unwrap().len(), 4);
    assert!(desk.waiting(&*view, Some(&id("lab")), Some(&actor("sam", true)), 9).unwrap().is_empty());
    desk.reject(authority, report, &reviewer("sam"), "the summary is not fair".into()).unwrap();
    for refused in [publish(report).map(drop), desk.approve(authority, report, &rita, None, &all_in_force).map(drop)] {
        assert!(matches!(refused, Err(Error::State { state: "rejected", .. })), "{refused:?}");
    }
    let another_key = desk.publish(authority, &key("lab"), office.approved("rita"), &rita, &all_in_force);
    assert!(matches!(another_key, Err(Error::Key(_))), "{another_key:?}");
    for reason in ["", "  ", &"x".repeat(300)] {
        assert!(desk.reject(authority, office.draft("y"), &rita, reason.to_owned()).is_err(), "{reason:?}");
    }
    assert_eq!(office.findings(), [""; 0]);
}

impl Office {
    fn approved(&self, by: &str) -> Uuid {
        let report = self.draft("z");
        self.desk.approve(&self.authority, report, &reviewer(by), None, &all_in_force).unwrap();
        report
    }
}

#[test]
fn of_reviewers_who_decide_at_once_one_decides() {
    const REVIEWERS: usize = 6;
    let office = Office::scored();
    let report = office.draft("x");
    let start = Barrier::new(REVIEWERS);
    let decided: Vec<bool> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..REVIEWERS)
            .map(|n| {
                let (office, start) = (&office, &start);
                scope.spawn(move || {
                    let by = reviewer(&format!("reviewer{n}"));
                    start.wait();
                    match n % 2 {
                        0 => office.desk.approve(&office.authority, report, &by, None, &all_in_force).is_ok(),
                        _ => office.desk.reject(&office.authority, report, &by, "no".into()).is_ok(),
                    }
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let view = office.authority.ledger().view().unwrap();
    let row = query::report(&*view, report).unwrap().unwrap();
    assert_eq!(row.events.len(), decided.iter().filter(|won| **won).count());
    // One approval and one rejection after it, or one rejection.
    let actions: Vec<_> = row.events.iter().map(|event| event.action).collect();
    use ReportAction::{Approved, Rejected};
    assert!(actions == [Rejected] || actions == [Approved, Rejected], "{actions:?}");
    assert_eq!(office.findings(), [""; 0]);
}

#[test]
fn an_approval_ends_with_its_token() {
    let office = Office::scored();
    let (authority, desk, sam) = (&office.authority, &office.desk, reviewer("sam"));
    let report = office.approved("rita");
    let rita_is_gone = |holder: &credence_pipeline::reports::TokenHolder| holder.name != id("rita");
    let refused = desk.publish(authority, &key("credence"), report, &sam, &rita_is_gone);
    assert!(matches!(refused, Err(Error::ApprovalRevoked(_))), "{refused:?}");
    // Nobody approves what is approved, unless that approval ended.
    assert!(desk.approve(authority, report, &sam, None, &all_in_force).is_err());
    desk.approve(authority, report, &sam, None, &rita_is_gone).unwrap();
    let published = desk.publish(authority, &key("credence"), report, &sam, &rita_is_gone).unwrap();
    assert!(published.document().contains(r#""approved_by":"sam""#));
    assert_eq!(office.findings(), [""; 0]);
}

#[test]
fn the_ledger_is_believed_after_a_crash_between_entry_and_row() {
    let office = Office::scored();
    let (authority, desk, rita) = (&office.authority, &office.desk, reviewer("rita"));
    let (file, copy) = (office.folder.path().join("reports.db"), office.folder.path().join("copy.db"));
    let report = office.draft("x");
    std::fs::copy(&file, &copy).unwrap();
    desk.approve(authority, report, &rita, None, &all_in_force).unwrap();
    std::fs::copy(&copy, &file).unwrap();
    let view = authority.ledger().view().unwrap();
    assert!(matches!(desk.find(&*view, report, Some(&actor("rita", true))).unwrap(), Report::Reviewed(_)));
    let published = desk.publish(authority, &key("credence"), report, &rita, &all_in_force).unwrap();
    // The row as it was after the document was kept and before the entry was.
    std::fs::copy(&copy, &file).unwrap();
    let database = office.database();
    let view = authority.ledger().view().unwrap();
    let refused = desk.find(&*view, report, None).unwrap_err();
    assert!(matches!(refused, Error::Changed { .. }), "an old copy has no document: {refused}");
    database
        .execute_batch(
            "UPDATE reports SET state = 'approved', approver = 'rita', approver_token = 'rita1', approved_digest = digest, approval = 1",
        )
        .unwrap();
    database.execute("UPDATE reports SET document = ?1", [published.document()]).unwrap();
    assert!(matches!(desk.find(&*view, report, None).unwrap(), Report::Published(_)));
    desk.withdraw(authority, report, &rita, "a test".into()).unwrap();
    let state: String = database.query_row("SELECT state FROM reports", [], |row| row.get(0)).unwrap();
    assert_eq!(state, "withdrawn");
}
