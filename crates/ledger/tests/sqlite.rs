//! The embedded ledger seen from outside.
#![allow(clippy::unwrap_used, missing_docs, reason = "helpers of tests: a failing unwrap is how a test says no")]

use std::{
    ops::ControlFlow,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use credence_ledger::{
    Checkpoint, Clock, Entry, Error, Kind, Ledger, LogKey, NewEntry, NewJob, OutsideCheckpoint, Queue, Restored, Scan,
    SqliteLedger, Table, merkle, proof,
    sqlite::{Options, Sealing},
    tiles::Resource,
    write,
};
use credence_protocol::{Canonical, EntityId, SecretKey, Timestamp};
use credence_testing::until;
use serde_json::json;

const ROWS: Table = Table("rows");

fn options(folder: &Path) -> Options {
    Options {
        path: folder.join("ledger.db"),
        tables: &[ROWS],
        outside: OutsideCheckpoint::at(folder.join("checkpoint")),
        sealing: Sealing::EveryCommit,
    }
}

fn key() -> LogKey {
    LogKey::new("example.org/log", &SecretKey::from_seed(&[3; 32])).unwrap()
}

fn clock() -> Clock {
    let micros = AtomicI64::new(1_700_000_000_000_000);
    Arc::new(move || Timestamp::from_micros(micros.fetch_add(1, Ordering::Relaxed)).unwrap())
}

fn create(folder: &Path) -> SqliteLedger {
    SqliteLedger::create(options(folder), key(), clock()).unwrap()
}

fn entry(n: usize) -> NewEntry {
    let body = Canonical::of(&json!({"n": n})).unwrap();
    NewEntry { kind: Kind::Agent, subject: EntityId::new("a").unwrap(), body, weight: None }
}

fn append(ledger: &SqliteLedger, count: usize) -> Result<(), Error> {
    write(ledger, move |tx| {
        for n in 0..count {
            let appended = tx.append(&entry(n))?;
            tx.put(ROWS, &format!("a/{:06}", appended.seq), "{}")?;
        }
        Ok(())
    })
}

#[test]
fn update_delete_and_replace_are_refused_by_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = create(folder.path());
    append(&ledger, 3).unwrap();
    let raw = rusqlite::Connection::open(folder.path().join("ledger.db")).unwrap();
    for sql in [
        "UPDATE entries SET entry = '{}' WHERE seq = 1",
        "DELETE FROM entries WHERE seq = 2",
        "DELETE FROM entries",
        "INSERT OR REPLACE INTO entries VALUES (1, '{}')",
        "INSERT INTO entries VALUES (7, '{}')",
        "UPDATE entries SET seq = 9 WHERE seq = 0",
    ] {
        let refused = raw.execute(sql, []).unwrap_err().to_string();
        assert!(refused.contains("append-only"), "{sql}: {refused}");
    }
    assert_eq!(ledger.view().unwrap().size().unwrap(), 3);
}

#[test]
fn entries_rows_tiles_and_checkpoint_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = create(folder.path());
    append(&ledger, 300).unwrap();
    append(&ledger, 300).unwrap();
    ledger.close().unwrap();
    let ledger = SqliteLedger::open(options(folder.path()), key(), clock()).unwrap();
    append(&ledger, 1).unwrap();
    let view = ledger.view().unwrap();
    assert_eq!(view.size().unwrap(), 601);
    let mut seen = 0;
    view.scan(ROWS, Scan::prefix("a/"), &mut |_, _| {
        seen += 1;
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(seen, 601);
    let note = view.checkpoint().unwrap().unwrap();
    let checkpoint = credence_ledger::Checkpoint::open(&note, ledger.verifier()).unwrap();
    assert_eq!((checkpoint.size, checkpoint.root), (601, merkle::root(601, &*view).unwrap()));
    let path = proof::inclusion(601, 7, &*view).unwrap();
    let leaf = merkle::leaf(&view.entry(7).unwrap().unwrap());
    proof::check_inclusion(&path, 601, checkpoint.root, 7, leaf).unwrap();
}

#[test]
fn recorded_times_never_go_back() {
    let folder = tempfile::tempdir().unwrap();
    let micros = Arc::new(AtomicI64::new(2_000_000));
    let read = Arc::clone(&micros);
    let clock: Clock = Arc::new(move || Timestamp::from_micros(read.load(Ordering::Relaxed)).unwrap());
    let ledger = SqliteLedger::create(options(folder.path()), key(), clock).unwrap();
    append(&ledger, 1).unwrap();
    micros.store(1_000_000, Ordering::Relaxed);
    append(&ledger, 1).unwrap();
    let view = ledger.view().unwrap();
    let at = |seq| Entry::parse(seq, &view.entry(seq).unwrap().unwrap()).unwrap().recorded_at;
    assert_eq!(at(0), at(1));
}

#[test]
fn a_failed_work_leaves_nothing_and_harms_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = create(folder.path());
    let failed: Result<(), Error> = write(&ledger, |tx| {
        tx.append(&entry(1))?;
        tx.put(ROWS, "x", "{}")?;
        Err(Error::Log("on purpose".into()))
    });
    assert!(failed.unwrap_err().to_string().contains("on purpose"));
    append(&ledger, 1).unwrap();
    let view = ledger.view().unwrap();
    assert_eq!(view.size().unwrap(), 1);
    assert_eq!(view.get(ROWS, "x").unwrap(), None);
}

#[test]
fn concurrent_appends_are_all_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = create(folder.path());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..50).for_each(|_| append(&ledger, 1).unwrap()));
        }
    });
    let view = ledger.view().unwrap();
    let mut seqs = Vec::new();
    view.entries(0, &mut |seq, _| {
        seqs.push(seq);
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(seqs, (0..400).collect::<Vec<_>>());
}

#[test]
fn a_view_does_not_move() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = create(folder.path());
    append(&ledger, 2).unwrap();
    let before = ledger.view().unwrap();
    append(&ledger, 2).unwrap();
    assert_eq!(before.size().unwrap(), 2);
    assert_eq!(ledger.view().unwrap().size().unwrap(), 4);
}

#[test]
fn scans_page_in_both_directions() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = create(folder.path());
    write(&ledger, |tx| ["a/1", "a/2", "a/3", "a0", "b/1"].iter().try_for_each(|key| tx.put(ROWS, key, "{}"))).unwrap();
    let keys = |scan: Scan<'_>| {
        let mut keys = Vec::new();
        let view = ledger.view().unwrap();
        view.scan(ROWS, scan, &mut |key, _| {
            keys.push(key.to_owned());
            ControlFlow::Continue(())
        })
        .unwrap();
        keys
    };
    assert_eq!(keys(Scan::prefix("a/")), ["a/1", "a/2", "a/3"]);
    assert_eq!(keys(Scan { after: Some("a/2"), ..Scan::prefix("a/") }), ["a/3"]);
    assert_eq!(keys(Scan { reverse: true, ..Scan::prefix("a/") }), ["a/3", "a/2", "a/1"]);
    assert_eq!(keys(Scan { reverse: true, after: Some("a/3"), ..Scan::prefix("a/") }), ["a/2", "a/1"]);
    assert_eq!(keys(Scan::all()).len(), 5);
}

#[test]
fn what_is_not_ours_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let open = || SqliteLedger::open(options(folder.path()), key(), clock()).map(|_| ()).unwrap_err();
    assert!(matches!(open(), Error::Missing(_)));
    std::fs::write(&path, "this is a letter to my aunt, not a database at all\n".repeat(100)).unwrap();
    assert!(matches!(open(), Error::NotOurs(..)), "{}", open());
    assert!(matches!(SqliteLedger::create(options(folder.path()), key(), clock()).map(|_| ()), Err(Error::Exists(_))));
    std::fs::remove_file(&path).unwrap();
    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE aunt (letter TEXT)").unwrap();
    assert!(matches!(open(), Error::NotOurs(..)), "{}", open());
}

#[test]
fn a_newer_schema_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    create(folder.path()).close().unwrap();
    let raw = rusqlite::Connection::open(folder.path().join("ledger.db")).unwrap();
    raw.execute_batch("PRAGMA user_version = 99").unwrap();
    let refused = SqliteLedger::open(options(folder.path()), key(), clock()).map(|_| ()).unwrap_err();
    assert!(matches!(refused, Error::Newer { found: 99, .. }), "{refused}");
}

/// A folder made before formats settled: refused with words that say what to do, and not one byte of it changes.
#[test]
fn an_older_format_is_refused_and_never_touched() {
    let folder = tempfile::tempdir().unwrap();
    create(folder.path()).close().unwrap();
    let raw = rusqlite::Connection::open(folder.path().join("ledger.db")).unwrap();
    raw.execute_batch("PRAGMA user_version = 1; PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    drop(raw);
    let files = || {
        let read = |file: std::fs::DirEntry| (file.file_name(), std::fs::read(file.path()).unwrap());
        let mut files: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|file| read(file.unwrap())).collect();
        files.sort();
        files
    };
    let before = files();
    let writing = SqliteLedger::open(options(folder.path()), key(), clock()).map(drop);
    let reading = SqliteLedger::open_read_only(options(folder.path()), key().verifier().clone()).map(drop);
    let restoring = SqliteLedger::accept_restore(&options(folder.path()), &key()).map(drop);
    for refused in [writing, reading, restoring] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, Error::Older { found: 1, known: 4, .. }), "{refused}");
        assert!(refused.to_string().contains("credence init --data"), "{refused}");
    }
    assert!(files() == before, "something was touched");
}

/// Entries that something else put into the database under no checkpoint are not continued from.
#[test]
fn foreign_entries_without_a_checkpoint_stop_the_writer() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = create(folder.path());
    append(&ledger, 3).unwrap();
    let raw = rusqlite::Connection::open(folder.path().join("ledger.db")).unwrap();
    raw.execute("INSERT INTO entries VALUES (3, '{}')", []).unwrap();
    let refused = append(&ledger, 1).unwrap_err();
    assert!(refused.to_string().contains("4 entries, but the checkpoint is of 3"), "{refused}");
}

/// A shorter copy put in the place of a running ledger is not continued from: the same sizes would be signed twice.
#[test]
fn a_history_that_was_cut_behind_the_writer_stops_it() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = create(folder.path());
    append(&ledger, 5).unwrap();
    let raw = rusqlite::Connection::open(folder.path().join("ledger.db")).unwrap();
    raw.execute_batch("DROP TRIGGER entries_are_never_deleted; DELETE FROM entries WHERE seq > 2").unwrap();
    let refused = append(&ledger, 1).unwrap_err();
    assert!(refused.to_string().contains("3 entries where this process left 5"), "{refused}");
}

/// An entry that something else put into a guard's ledger is not sealed under the guard's key.
#[test]
fn a_foreign_entry_is_not_sealed_by_a_batched_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { sealing: Sealing::Batched, ..options(folder.path()) };
    let ledger = SqliteLedger::create(options, key(), clock()).unwrap();
    append(&ledger, 3).unwrap();
    ledger.flush().unwrap();
    let raw = rusqlite::Connection::open(folder.path().join("ledger.db")).unwrap();
    let planted = String::from_utf8(entry(9).encode("2026-11-15T12:00:00Z".parse().unwrap()).unwrap()).unwrap();
    raw.execute("INSERT INTO entries VALUES (3, ?1)", [planted]).unwrap();
    let refused = append(&ledger, 1).unwrap_err();
    assert!(refused.to_string().contains("something else wrote"), "{refused}");
}

#[test]
fn what_a_dead_process_worked_on_is_taken_over() {
    const QUEUE: Queue = Queue("queue");
    let (folder, lease) = (tempfile::tempdir().unwrap(), Duration::from_secs(7_200));
    let ledger = create(folder.path());
    ledger.jobs().put(&[NewJob::now(QUEUE, "a", "payload"), NewJob::now(QUEUE, "b", "")]).unwrap();
    let dead = ledger.jobs().claim(QUEUE, 1, lease).unwrap().remove(0);
    drop(ledger);
    let reader = SqliteLedger::open_read_only(options(folder.path()), key().verifier().clone()).unwrap();
    assert!(reader.jobs().take_over().is_err(), "who reads takes nothing over");
    drop(reader);
    let ledger = SqliteLedger::open(options(folder.path()), key(), clock()).unwrap();
    let claimed = |ledger: &SqliteLedger| {
        let claims = ledger.jobs().claim(QUEUE, 9, lease).unwrap();
        claims.into_iter().map(|claim| (claim.job.key, claim.job.attempts)).collect::<Vec<_>>()
    };
    assert_eq!(claimed(&ledger), [("b".to_owned(), 1)], "a lease outlives its process");
    ledger.jobs().take_over().unwrap();
    assert_eq!(claimed(&ledger), [("a".to_owned(), 2), ("b".to_owned(), 2)]);
    assert!(!ledger.jobs().complete(&dead).unwrap(), "what the dead one held is not its own any more");
}

#[test]
fn a_second_writer_is_told_who_the_first_is() {
    let folder = tempfile::tempdir().unwrap();
    let _first = create(folder.path());
    let refused = SqliteLedger::open(options(folder.path()), key(), clock()).map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains(&format!("pid {}", std::process::id())), "{refused}");
    SqliteLedger::open_read_only(options(folder.path()), key().verifier().clone()).unwrap();
}

#[test]
fn an_older_copy_is_refused_until_it_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let ledger = create(folder.path());
    append(&ledger, 5).unwrap();
    ledger.close().unwrap();
    let old = std::fs::read(&path).unwrap();
    let ledger = SqliteLedger::open(options(folder.path()), key(), clock()).unwrap();
    append(&ledger, 5).unwrap();
    ledger.close().unwrap();
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(folder.path().join(format!("ledger.db{suffix}")));
    }
    std::fs::write(&path, old).unwrap();
    let refused = SqliteLedger::open(options(folder.path()), key(), clock()).map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("has 5 entries, the checkpoint was made at 10"), "{refused}");
    let accept = || SqliteLedger::accept_restore(&options(folder.path()), &key()).unwrap();
    assert_eq!(accept(), Restored::Shorter { size: 5, promised: 10 });
    assert_eq!(accept(), Restored::NothingToAccept { size: 5 });
    SqliteLedger::open(options(folder.path()), key(), clock()).unwrap();
}

#[test]
fn a_missing_outside_checkpoint_is_refused_and_a_stale_one_refreshed() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = create(folder.path());
    assert!(folder.path().join("checkpoint").exists(), "from the first moment on");
    append(&ledger, 5).unwrap();
    ledger.flush().unwrap();
    let stale = std::fs::read(folder.path().join("checkpoint")).unwrap();
    append(&ledger, 5).unwrap();
    ledger.close().unwrap();
    std::fs::write(folder.path().join("checkpoint"), stale).unwrap();
    let ledger = SqliteLedger::open(options(folder.path()), key(), clock()).unwrap();
    let outside = options(folder.path()).outside.read(key().verifier()).unwrap();
    assert_eq!(outside.size, 10);
    drop(ledger);
    std::fs::remove_file(folder.path().join("checkpoint")).unwrap();
    let refused = SqliteLedger::open(options(folder.path()), key(), clock()).map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("is missing"), "{refused}");
}

#[test]
fn a_missing_table_is_refused_except_for_repair() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = create(folder.path());
    append(&ledger, 5).unwrap();
    ledger.close().unwrap();
    rusqlite::Connection::open(folder.path().join("ledger.db")).unwrap().execute_batch("DROP TABLE p_rows").unwrap();
    let refused = SqliteLedger::open(options(folder.path()), key(), clock()).map(|_| ()).unwrap_err();
    assert!(matches!(refused, Error::MissingTable(_)), "{refused}");
    let refused =
        SqliteLedger::open_read_only(options(folder.path()), key().verifier().clone()).map(|_| ()).unwrap_err();
    assert!(matches!(refused, Error::MissingTable(_)), "{refused}");
    SqliteLedger::open_for_repair(options(folder.path()), key(), clock()).unwrap();
    SqliteLedger::open(options(folder.path()), key(), clock()).unwrap();
}

#[test]
fn a_rewritten_history_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = create(folder.path());
    append(&ledger, 5).unwrap();
    ledger.close().unwrap();
    let other = tempfile::tempdir().unwrap();
    let rewritten = create(other.path());
    write(&rewritten, |tx| (10..20).try_for_each(|n| tx.append(&entry(n)).map(|_| ()))).unwrap();
    rewritten.close().unwrap();
    std::fs::copy(other.path().join("ledger.db"), folder.path().join("ledger.db")).unwrap();
    let refused = SqliteLedger::open(options(folder.path()), key(), clock()).map(|_| ()).unwrap_err();
    assert!(matches!(refused, Error::DoesNotExtend { .. }), "{refused}");
}

#[test]
fn every_resource_of_the_log_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = create(folder.path());
    append(&ledger, 600).unwrap();
    let view = ledger.view().unwrap();
    for resource in Resource::all(600) {
        let bytes = resource.read(&*view).unwrap().unwrap();
        if let Resource::Tile { width, .. } = resource {
            assert_eq!(bytes.len(), usize::from(width) * 32);
        }
    }
    // A bundle's entries hash to the leaves of the tile beside it.
    let bundle = Resource::parse("tile/entries/002.p/88").unwrap().read(&*view).unwrap().unwrap();
    let tile = Resource::parse("tile/0/002.p/88").unwrap().read(&*view).unwrap().unwrap();
    let mut rest = bundle.as_slice();
    for hash in tile.chunks(32) {
        let (length, tail) = rest.split_first_chunk::<2>().unwrap();
        let (entry, tail) = tail.split_at(u16::from_be_bytes(*length).into());
        assert_eq!(merkle::leaf(entry).0, hash);
        rest = tail;
    }
    assert!(rest.is_empty());
    assert_eq!(Resource::parse("tile/entries/002.p/89").unwrap().read(&*view).unwrap(), None);
    assert_eq!(Resource::parse("tile/0/003").unwrap().read(&*view).unwrap(), None);
}

/// A process that is killed between a commit and its seal: the entries are there, and the next process seals them.
#[test]
fn what_waits_for_its_seal_outlives_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let batched = |folder: &Path| Options { sealing: Sealing::Batched, ..options(folder) };
    let ledger = SqliteLedger::create(batched(folder.path()), key(), clock()).unwrap();
    append(&ledger, 300).unwrap();
    ledger.flush().unwrap();
    append(&ledger, 5).unwrap();
    let sealed = |ledger: &SqliteLedger| {
        let note = ledger.view().unwrap().checkpoint().unwrap().unwrap();
        Checkpoint::open(&note, ledger.verifier()).unwrap()
    };
    assert_eq!((ledger.view().unwrap().size().unwrap(), sealed(&ledger).size), (305, 300));

    // What a killed process leaves behind: its files as they are now.
    let left = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), left.path().join(file.file_name())).unwrap();
    }
    let reader = SqliteLedger::open_read_only(batched(left.path()), key().verifier().clone()).unwrap();
    assert_eq!((reader.view().unwrap().size().unwrap(), sealed(&reader).size), (305, 300));
    drop(reader);
    let again = SqliteLedger::open(batched(left.path()), key(), clock()).unwrap();
    append(&again, 2).unwrap();
    again.flush().unwrap();
    assert_eq!(sealed(&again).size, 307);
    again.close().unwrap();

    // The same entries sealed one commit at a time give the same root.
    let whole = tempfile::tempdir().unwrap();
    let one = create(whole.path());
    append(&one, 300).unwrap();
    append(&one, 5).unwrap();
    ledger.close().unwrap();
    let closed = SqliteLedger::open_read_only(batched(folder.path()), key().verifier().clone()).unwrap();
    assert_eq!(sealed(&closed), sealed(&one));

    // Entries below the seal are guarded as ever.
    drop(one);
    let raw = rusqlite::Connection::open(left.path().join("ledger.db")).unwrap();
    raw.execute_batch("DROP TRIGGER entries_are_never_deleted; DELETE FROM entries WHERE seq > 200").unwrap();
    drop(raw);
    assert!(SqliteLedger::open(batched(left.path()), key(), clock()).is_err());
}

/// Without anybody asking for it, a seal follows.
#[test]
fn a_batched_ledger_seals_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { sealing: Sealing::Batched, ..options(folder.path()) };
    let ledger = SqliteLedger::create(options, key(), clock()).unwrap();
    append(&ledger, 3).unwrap();
    until("a checkpoint is there", || ledger.view().unwrap().checkpoint().unwrap().is_some());
}
