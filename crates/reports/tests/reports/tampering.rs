//! The database behind the back of the rules.

use credence_reports::{Error, Report};

use crate::common::{Office, actor, all_in_force, key, reviewer};

/// Changes that the database itself refuses, of a draft.
const REFUSED: [&str; 9] = [
    "UPDATE reports SET state = 'published'",
    "UPDATE reports SET state = 'approved'",
    "UPDATE reports SET state = 'approved', approver = 'writer', approver_token = 'other', approved_digest = digest, approval = 1",
    "UPDATE reports SET state = 'approved', approver = 'rita', approver_token = 'writer1', approved_digest = digest, approval = 1",
    "UPDATE reports SET state = 'approved', approver = 'rita', approver_token = 'rita1', approved_digest = 'other', approval = 1",
    "UPDATE reports SET contents = replace(contents, 'shop', 'shap')",
    "UPDATE reports SET drafter_token = 'somebody'",
    "UPDATE reports SET document = '{}'",
    "INSERT INTO reports (id, agent, contents, digest, drafter, drafter_token, drafted_at, state, approver, approver_token,
     approved_digest, approval, document, publisher, publisher_token, publication) SELECT 'x', agent, contents, digest, drafter,
     drafter_token, drafted_at, 'published', 'rita', 'rita1', digest, 1, '{}', 'rita', 'rita1', 2 FROM reports",
];

#[test]
fn the_database_refuses_what_the_types_refuse() {
    let office = Office::scored();
    let report = office.draft("x");
    let database = office.database();
    for sql in REFUSED {
        let refused = database.execute(sql, []);
        assert!(refused.is_err(), "{sql}");
    }
    office.desk.approve(&office.authority, report, &reviewer("rita"), None, &all_in_force).unwrap();
    for sql in [
        "UPDATE reports SET state = 'published', publisher = 'rita', publisher_token = 'rita1', publication = 1",
        "UPDATE reports SET state = 'published', document = '{}', publisher = 'rita', publisher_token = 'rita1', publication = 0",
        "UPDATE reports SET state = 'published', document = '{}', publisher = 'writer', publisher_token = 'w', publication = 99",
        "UPDATE reports SET state = 'draft'",
        "UPDATE reports SET contents = '{}'",
        "DELETE FROM reports",
    ] {
        assert!(database.execute(sql, []).is_err(), "{sql}");
    }
}

/// An attacker who may write the file drops the constraints first.
fn force(office: &Office, sql: &str) {
    let database = office.database();
    let triggers: Vec<String> = {
        let mut all = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'trigger'").unwrap();
        all.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    };
    for trigger in triggers {
        database.execute_batch(&format!("DROP TRIGGER {trigger}")).unwrap();
    }
    database.execute_batch("PRAGMA ignore_check_constraints = ON").unwrap();
    assert_eq!(database.execute(sql, []).unwrap(), 1, "{sql}");
}

#[test]
fn a_row_that_was_made_public_by_hand_is_shown_to_nobody() {
    let office = Office::scored();
    let report = office.draft("the secret of the shop");
    force(&office, "UPDATE reports SET state = 'published', document = contents, publication = 1, approval = 1");
    let view = office.authority.ledger().view().unwrap();
    let stranger = office.desk.find(&*view, report, None);
    assert!(matches!(stranger, Err(Error::Unknown(_))), "{stranger:?}");
    let seen = office.desk.find(&*view, report, Some(&actor("rita", true)));
    assert!(matches!(seen, Err(Error::Changed { .. })), "{seen:?}");
    assert!(office.desk.list(&*view, None, None, 10).unwrap().is_empty());
    let size = office.size();
    let (authority, rita) = (&office.authority, reviewer("rita"));
    assert!(office.desk.approve(authority, report, &rita, None, &all_in_force).is_err());
    assert!(office.desk.publish(authority, &key("credence"), report, &rita, &all_in_force).is_err());
    assert!(office.desk.withdraw(authority, report, &rita, "x".into()).is_err());
    assert_eq!(office.size(), size);
}

#[test]
fn a_draft_that_was_changed_after_its_approval_is_not_published() {
    for change in [
        "UPDATE reports SET contents = replace(contents, 'fair', 'foul')",
        "UPDATE reports SET contents = replace(contents, '\"score\":', '\"score\": ')",
        "UPDATE reports SET digest = replace(digest, substr(digest, 1, 4), 'ffff'), approved_digest = digest",
        "UPDATE reports SET drafter = 'somebody', drafter_token = 'somebody1'",
        "UPDATE reports SET agent = 'credence'",
    ] {
        let office = Office::scored();
        let report = office.draft("a fair shop");
        let (authority, rita) = (&office.authority, reviewer("rita"));
        office.desk.approve(authority, report, &rita, None, &all_in_force).unwrap();
        let size = office.size();
        force(&office, change);
        let refused = office.desk.publish(authority, &key("credence"), report, &rita, &all_in_force);
        assert!(matches!(refused, Err(Error::Changed { .. })), "{change}: {refused:?}");
        assert_eq!(office.size(), size, "{change}");
    }
}

#[test]
fn a_published_text_that_was_changed_is_not_shown() {
    let office = Office::scored();
    let report = office.draft("a fair shop");
    let (authority, rita) = (&office.authority, reviewer("rita"));
    office.desk.approve(authority, report, &rita, None, &all_in_force).unwrap();
    office.desk.publish(authority, &key("credence"), report, &rita, &all_in_force).unwrap();
    let view = authority.ledger().view().unwrap();
    assert!(matches!(office.desk.find(&*view, report, None).unwrap(), Report::Published(_)));
    force(&office, "UPDATE reports SET document = replace(document, 'fair', 'foul')");
    assert!(matches!(office.desk.find(&*view, report, None), Err(Error::Changed { .. })));
    std::fs::remove_file(office.folder.path().join("reports.db")).unwrap();
    let gone = office.desk.find(&*view, report, None).unwrap_err();
    assert!(gone.to_string().contains("the text of a published report is gone"), "{gone}");
}

/// Contents from before a member was added: what was drafted is what is signed, byte for byte.
#[test]
fn contents_of_an_older_form_stay_readable() {
    let office = Office::scored();
    let contents = office.gather("shop", &actor("writer", false), None).unwrap();
    let mut value = contents.value().unwrap();
    value.as_object_mut().unwrap().remove("probe_runs").unwrap();
    let (id, digest) = (contents.report, credence_output::report::digest(&value).unwrap());
    office.draft("makes the database");
    let insert = "INSERT INTO reports (id, agent, contents, digest, drafter, drafter_token, drafted_at, state)
                  VALUES (?1, 'shop', ?2, ?3, 'writer', 'writer1', 0, 'draft')";
    let text = credence_protocol::Canonical::of(&value).unwrap();
    office.database().execute(insert, [&id.to_string(), text.as_str(), &digest]).unwrap();
    let (authority, rita) = (&office.authority, reviewer("rita"));
    office.desk.approve(authority, id, &rita, Some(&digest), &all_in_force).unwrap();
    let published = office.desk.publish(authority, &key("credence"), id, &rita, &all_in_force).unwrap();
    assert!(published.document().contains(text.as_str()));
    let view = authority.ledger().view().unwrap();
    assert_eq!(office.desk.find(&*view, id, None).unwrap().json_for(None), Some(&value));
}

#[test]
fn a_file_of_another_program_is_refused() {
    let office = Office::scored();
    let contents = || office.gather("shop", &actor("writer", false), None).unwrap();
    let database = office.database();
    database.execute_batch("CREATE TABLE t (x)").unwrap();
    assert!(matches!(office.desk.draft(contents()), Err(Error::Database { .. })));
    drop(database);
    std::fs::write(office.folder.path().join("reports.db"), "").unwrap();
    office.desk.draft(contents()).unwrap();
}
