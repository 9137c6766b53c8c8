//! Tampering is found and named; what is sound replays to the same bytes.

use crate::common::{House, audit_folder, audit_view, id, key};
use credence_pipeline::{replay, tables};
use rusqlite::Connection;

/// A ledger with every kind of entry.
fn busy() -> House {
    let house = House::new(&[("lab", 1.0), ("rival", 0.5), ("third", 0.8)], &["bot", "bot-2", "bot.3"]);
    for round in 0..12 {
        for agent in ["bot", "bot-2", "bot.3"] {
            for source in ["lab", "rival", "third"] {
                house.measure(agent, source, "rel_uptime", f64::from(round * 7 % 100));
            }
        }
        house.authority.settle_scores().unwrap();
        house.advance(600);
    }
    house.authority.set_weight(id("rival"), 0.9).unwrap();
    let from = house.size();
    house.measure("bot", "third", "user_feedback", 3.0);
    house.authority.settle_scores().unwrap();
    house.authority.revoke_key(key("third").public().id(), Some(from), None).unwrap();
    house.authority.settle_scores().unwrap();
    house
}

#[test]
fn a_sound_ledger_replays_and_audits_without_findings() {
    let house = busy();
    let replayed = house.replay();
    assert_eq!(replayed.differences.count, 0, "{:#?}", replayed.differences);
    assert!(replayed.score_events > 30 && replayed.rows > 200, "{replayed:?}");
    house.assert_sound();
    let view = house.authority.ledger().view().unwrap();
    assert_eq!(audit_view(&*view, &house.folder, true).findings.count, 0, "quick");
    drop(view);
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
    // A fixed generator: the same places in every run, spread over entries and offsets.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for _ in 0..60 {
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
        assert!(named, "seq {seq}, byte {at}: {:#?}\n{}", audited.findings, String::from_utf8_lossy(&changed));
        store(&entries[seq]);
    }
    assert_eq!(audit_folder(&folder).findings.count, 0, "restored");
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
    raw.execute_batch("BEGIN; DELETE FROM entries WHERE seq = 40").unwrap();
    raw.execute_batch("ROLLBACK; BEGIN; UPDATE tiles SET hashes = zeroblob(length(hashes)) WHERE level = 0; COMMIT")
        .unwrap();
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
    raw.execute_batch("UPDATE p_current SET value = replace(value, '\"value\":', '\"value\":1') WHERE key = 'bot/lab/rel_uptime'; DELETE FROM p_scores WHERE key = 'bot-2'; INSERT INTO p_aliases VALUES ('did:web:evil.example', '\"bot\"')").unwrap();
    drop(raw);
    let differences = house.replay().differences;
    assert_eq!(differences.count, 3, "{differences:#?}");
    let size = house.size();
    replay::rebuild(house.authority.ledger()).unwrap();
    house.authority.settle_scores().unwrap();
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
    let row: tables::ScoreRow = tables::get(&*view, tables::SCORES, "bot").unwrap().unwrap();
    assert_eq!(row.recorded.weighted_mean, Some(50.0));
    drop(view);
    house.assert_sound();
}
