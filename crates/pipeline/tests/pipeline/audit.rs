//! Tampering is found and named; what is sound replays to the same bytes.

use crate::{
    common::{House, audit_folder, id, key},
    tables,
};
use credence_ledger::{Entry, Kind, NewEntry, write};
use credence_pipeline::{Error, NewAgent, projection, record::Record, replay};
use credence_protocol::{Canonical, PublicKey, SecretKey};
use rusqlite::Connection;
use serde_json::json;

/// A ledger with every kind of entry.
fn busy() -> House {
    let house = House::new(&[("lab", 1.0), ("rival", 0.5), ("third", 0.8)], &["bot", "bot-2", "bot.3"]);
    for round in 0..12 {
        for agent in ["bot", "bot-2", "bot.3"] {
            for source in ["lab", "rival", "third"] {
                house.measure(agent, source, "rel_uptime", f64::from(round * 7 % 100));
            }
        }
        house.authority.score_now().unwrap();
        house.advance(600);
    }
    house.authority.set_weight(id("rival"), 0.9).unwrap();
    let from = house.size();
    house.measure("bot", "third", "user_feedback", 3.0);
    house.authority.score_now().unwrap();
    house.authority.revoke_key(key("third").public().id(), Some(from), None).unwrap();
    house.authority.score_now().unwrap();
    house
}

#[test]
fn a_sound_ledger_replays_and_audits_without_findings() {
    let house = busy();
    let replayed = house.replay();
    assert_eq!(replayed.differences.count, 0, "{:#?}", replayed.differences);
    assert!(replayed.score_events > 30 && replayed.rows > 200, "{replayed:?}");
    house.assert_sound();
    assert_eq!(house.audit(true).findings.count, 0, "quick");
    let house = house.reopen();
    house.assert_sound();
}

/// Takes the protection off, as an attacker with the file would.
fn unprotected(folder: &tempfile::TempDir) -> Connection {
    let raw = Connection::open(folder.path().join("ledger.db")).unwrap();
    raw.execute_batch(
        "DROP TRIGGER entries_are_never_changed; DROP TRIGGER entries_are_never_deleted; DROP TRIGGER entries_are_dense;",
    )
    .unwrap();
    raw
}

#[test]
fn any_changed_byte_of_any_entry_is_found_and_named() {
    let folder = busy().close();
    let raw = unprotected(&folder);
    let entries: Vec<Vec<u8>> = raw
        .prepare("SELECT CAST(entry AS BLOB) FROM entries ORDER BY seq")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    // Other places in every run; the seed is in the message of a failure.
    let seed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let mut state = seed;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let rounds = if std::env::var_os("LONG_TESTS").is_some() { 2_000 } else { 60 };
    for _ in 0..rounds {
        let seq = random(entries.len());
        let mut changed = entries[seq].clone();
        let at = random(changed.len());
        changed[at] ^= 1 << random(7);
        let store = |bytes: &[u8]| {
            raw.execute("UPDATE entries SET entry = CAST(?2 AS TEXT) WHERE seq = ?1", (seq, bytes)).unwrap();
        };
        store(&changed);
        let audited = audit_folder(&folder);
        let named = audited.findings.listed.iter().any(|finding| finding.seq == Some(seq as u64));
        assert!(
            named,
            "seed {seed}, seq {seq}, byte {at}: {:#?}\n{}",
            audited.findings,
            String::from_utf8_lossy(&changed)
        );
        store(&entries[seq]);
    }
    let findings = audit_folder(&folder).findings;
    let only_triggers = findings.listed.iter().all(|finding| finding.what.starts_with("trigger"));
    assert!(findings.count == 3 && only_triggers, "restored: {findings:#?}");
}

#[test]
fn missing_entries_forged_tiles_and_a_foreign_checkpoint_are_found() {
    let folder = busy().close();
    let found = |what: &str| {
        let audited = audit_folder(&folder);
        let named = audited.findings.listed.iter().any(|finding| finding.what.contains(what));
        assert!(named, "{what}: {:#?}", audited.findings);
    };
    let raw = unprotected(&folder);
    raw.execute_batch("UPDATE tiles SET hashes = zeroblob(length(hashes)) WHERE level = 0").unwrap();
    found("its hash differs");
    let folder = busy().close();
    unprotected(&folder).execute_batch("DELETE FROM entries WHERE seq = 40").unwrap();
    let audited = audit_folder(&folder);
    assert!(
        audited.findings.listed.iter().any(|f| f.seq == Some(40) && f.what.contains("missing")),
        "{:#?}",
        audited.findings
    );
    let folder = busy().close();
    std::fs::write(folder.path().join("checkpoint"), "example.org/log\n1\nAAAA\n\n— x y\n").unwrap();
    assert!(audit_folder(&folder).findings.count > 0);
}

#[test]
fn a_tampered_projection_is_found_and_rebuilt() {
    let house = busy();
    let raw = Connection::open(house.database()).unwrap();
    raw.execute_batch("UPDATE p_current SET value = replace(value, '\"value\":', '\"value\":1') WHERE key = 'bot/lab/rel_uptime'; DELETE FROM p_scores WHERE key = 'bot-2/uts/2'; INSERT INTO p_aliases VALUES ('did:web:evil.example', '\"bot\"')").unwrap();
    drop(raw);
    let differences = house.replay().differences;
    assert_eq!(differences.count, 3, "{differences:#?}");
    let size = house.size();
    replay::rebuild(house.authority.ledger()).unwrap();
    house.authority.score_now().unwrap();
    assert_eq!(house.replay().differences.count, 0);
    assert_eq!(house.size(), size, "rebuilding appends nothing");
    house.assert_sound();
}

#[test]
fn agents_left_unscored_by_a_crash_are_scored_on_start() {
    let house = House::new(&[("lab", 1.0)], &["bot"]);
    house.measure("bot", "lab", "rel_uptime", 50.0);
    // Dropped before the scorer's turn: as far as the ledger is concerned, a crash.
    let house = house.reopen();
    let view = house.authority.ledger().view().unwrap();
    let row: credence_pipeline::query::ScoreRow = tables::get(&*view, tables::SCORES, "bot/uts/1").unwrap();
    assert_eq!(row.recorded.weighted_mean, Some(50.0));
    drop(view);
    house.assert_sound();
}

/// Changes the newest stored entry whose text is like `like`; gives its seq.
fn change(raw: &Connection, like: &str, from: &str, to: &str) -> u64 {
    let seq: u64 = raw.query_row("SELECT max(seq) FROM entries WHERE entry LIKE ?1", [like], |row| row.get(0)).unwrap();
    let changed =
        raw.execute("UPDATE entries SET entry = replace(entry, ?2, ?3) WHERE seq = ?1", (seq, from, to)).unwrap();
    assert_eq!(changed, 1);
    seq
}

#[test]
fn an_entry_that_cannot_even_be_recomputed_is_named_like_any_other() {
    for (formula, from, to) in [
        ("uts/1", "\"coverage_floor\":0.1", "\"coverage_floor\":9.1"),
        ("uts/1", "\"as_of\":", "\"as_of\":9"),
        ("uts/2", "\"as_of\":", "\"as_of\":9"),
        ("uts/2", "\"parameters\":\"sha256:", "\"parameters\":\"sha256:00"),
        ("uts/2", "\"inputs_of\":", "\"inputs_of\":9"),
        ("uts/2", ":00:00.000000Z\",\"formula\"", ":59:00.000000Z\",\"formula\""),
        ("uts/2", "\"formula\":\"uts/2\"", "\"formula\":\"uts/3\""),
        ("uts/2", "\"known\":", "\"known\":1"),
    ] {
        let folder = busy().close();
        let seq = change(&unprotected(&folder), &format!("%\"formula\":\"{formula}\"%\"kind\":\"score\"%"), from, to);
        let audited = audit_folder(&folder);
        assert!(audited.findings.listed.iter().any(|f| f.seq == Some(seq)), "{from}: {:#?}", audited.findings);
    }
}

#[test]
fn a_gap_of_any_size_is_one_finding() {
    let folder = busy().close();
    unprotected(&folder).execute_batch("INSERT INTO entries VALUES (1000000000000000, '{}')").unwrap();
    let audited = audit_folder(&folder);
    assert!(audited.findings.listed.iter().any(|f| f.what.contains("are missing")), "{:#?}", audited.findings);
}

/// Whoever holds the log's key can append what admission would refuse, and sign for it. The audit still says so.
#[test]
fn a_history_that_breaks_the_rules_is_found_though_the_log_is_signed() {
    let entry = |kind, subject: &str, body: serde_json::Value| NewEntry {
        kind,
        subject: id(subject),
        body: Canonical::of(&body).unwrap(),
        weight: None,
    };
    let lab = key("lab").public();
    let third = key("third").public();
    let stranger = SecretKey::from_seed(&[55; 32]).public();
    let key_body = |key: &PublicKey, source: &str| json!({"key_id": key.id(), "public_key": key, "source": source});
    let cases = [
        (entry(Kind::Key, "third", key_body(&third, "third")), "registered before"),
        (entry(Kind::Key, "rival", key_body(&lab, "rival")), "registered before"),
        (entry(Kind::Key, "nobody", key_body(&stranger, "nobody")), "was not registered"),
        (entry(Kind::Source, "lab", json!({"source": "lab", "weight": -5})), "is no weight"),
        (entry(Kind::KeyRevocation, "lab", json!({"key_id": stranger.id(), "from_seq": 3})), "was not registered"),
        (entry(Kind::KeyRevocation, "lab", json!({"key_id": lab.id(), "from_seq": 1_000_000})), "did not exist"),
        (
            entry(Kind::Agent, "bot-2", json!({"agent": "bot-2", "aliases": ["did:web:bot.example"]})),
            "was an alias of 'bot'",
        ),
        (entry(Kind::Agent, "bot-2", json!({"agent": "bot"})), "is not whom the body is about"),
    ];
    for (forged, expected) in cases {
        let house = busy();
        let aliases = vec!["did:web:bot.example".parse().unwrap()];
        house.authority.add_agent(NewAgent { aliases, ..NewAgent::new(id("bot")) }).unwrap();
        let seq = write(house.authority.ledger(), move |tx| {
            let at = tx.append(&forged)?;
            let stored = Entry::parse(at.seq, &tx.entry(at.seq)?.unwrap())?;
            projection::apply(tx, at, &stored.subject, &Record::of(at.seq, &stored)?)?;
            Ok::<_, Error>(at.seq)
        })
        .unwrap();
        let findings = house.audit(false).findings;
        let named = findings.listed.iter().any(|f| f.seq == Some(seq) && f.what.contains(expected));
        assert!(named, "{expected}: {findings:#?}");
    }
}

#[test]
fn long_chains_of_corrections_cost_no_more_than_short_ones() {
    let house = House::new(&[("lab", 1.0)], &["bot"]);
    let mut last = None;
    let lines: Vec<Vec<u8>> = (0..4_000)
        .map(|n| {
            let mut draft = house.draft("bot", "lab", &["rel_uptime", "user_feedback"], f64::from(n % 100));
            draft.supersedes = last;
            last = Some(draft.id);
            draft.sign(&key("lab")).unwrap().canonical().as_bytes().to_vec()
        })
        .collect();
    // With a scan of all earlier signals for each this takes minutes; the runner would end it.
    let mut admitted = 0;
    house.authority.submit_all(lines, &mut |_, verdict| admitted += usize::from(verdict.is_ok())).unwrap();
    assert_eq!((admitted, house.current().len()), (4_000, 2));
    house.assert_sound();
}

#[test]
fn an_agent_that_was_never_scored_is_found() {
    let house = House::new(&[("lab", 1.0)], &["bot"]);
    house.measure("bot", "lab", "rel_uptime", 90.0);
    // Someone who does not want it scored takes it out of the queue before its turn comes.
    credence_ledger::write(house.authority.ledger(), |tx| {
        tx.delete_jobs(credence_pipeline::due::RESCORE, &["bot"]).map_err(credence_pipeline::Error::from)
    })
    .unwrap();
    let audited = house.audit(false);
    let found = |finding: &credence_pipeline::replay::Finding| {
        finding.what.contains("'bot' has signals that count and was never scored")
    };
    assert!(audited.findings.listed.iter().any(found), "{audited:?}");
}

/// A trigger of the right name that does nothing protects nothing.
#[test]
fn triggers_are_compared_by_what_they_do() {
    let folder = House::new(&[], &["bot"]).close();
    let raw = Connection::open(folder.path().join("ledger.db")).unwrap();
    raw.execute_batch(
        "DROP TRIGGER entries_are_never_changed;
         CREATE TRIGGER entries_are_never_changed BEFORE UPDATE ON entries BEGIN SELECT 1; END;
         CREATE TRIGGER helpful AFTER INSERT ON tiles BEGIN DELETE FROM checkpoint; END;",
    )
    .unwrap();
    let audited = audit_folder(&folder);
    let found: Vec<&str> = audited.findings.listed.iter().map(|finding| finding.what.as_str()).collect();
    assert!(found[0].contains("entries_are_never_changed is not the one"), "{found:?}");
    assert!(found[1].contains("helpful does not belong there"), "{found:?}");
    assert_eq!(found.len(), 2);
}
