//! Checks of the log, its tables and its units of work.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a suite of tests: a failing unwrap is how it says no"
)]

use std::{
    collections::BTreeSet,
    ops::ControlFlow,
    sync::atomic::{AtomicU64, Ordering},
};

use super::{Implementation, OTHER_ROWS, ROWS, SetClock, entry, log_key, numbers};
use crate::{
    Checkpoint, Entry, Error, Ledger, RowChange, Scan, Transaction, View, merkle, proof, tiles::Resource, write,
};

fn append(ledger: &dyn Ledger, range: std::ops::Range<u64>) {
    write(ledger, move |tx| {
        let entries: Vec<_> = range.clone().map(entry).collect();
        tx.append_many(&entries).map(drop)
    })
    .unwrap();
}

fn keys(view: &dyn View, scan: Scan<'_>) -> Vec<String> {
    let mut keys = Vec::new();
    view.scan(ROWS, scan, &mut |key, _| {
        keys.push(key.to_owned());
        ControlFlow::Continue(())
    })
    .unwrap();
    keys
}

fn put(ledger: &dyn Ledger, rows: &'static [&'static str]) {
    write(ledger, move |tx| rows.iter().try_for_each(|key| tx.put(ROWS, key, "{}"))).unwrap();
}

/// Entries are numbered from 0, and read back as they were written.
pub fn appends_are_dense_and_ordered(implementation: &impl Implementation) {
    let ledger = implementation.create(SetClock::default().clock());
    assert_eq!(ledger.view().unwrap().size().unwrap(), 0);
    append(&*ledger, 0..3);
    let seqs = write(&*ledger, |tx| {
        let one = tx.append(&entry(3))?.seq;
        let more = tx.append_many(&[entry(4), entry(5)])?;
        Ok::<_, Error>([one, more[0].seq, more[1].seq])
    });
    assert_eq!(seqs.unwrap(), [3, 4, 5]);
    let view = ledger.view().unwrap();
    assert_eq!(numbers(&*view), [0, 1, 2, 3, 4, 5]);
    assert_eq!((view.size().unwrap(), ledger.committed().unwrap()), (6, 6));
    assert!(view.entry(6).unwrap().is_none());
}

/// Several writers at once: every append is there once, without gaps.
pub fn appends_of_concurrent_writers_are_dense(implementation: &impl Implementation) {
    let ledger = implementation.create(SetClock::default().clock());
    std::thread::scope(|scope| {
        for writer in 0..8_u64 {
            let ledger = &ledger;
            scope.spawn(move || (0..25).for_each(|n| append(&**ledger, writer * 100 + n..writer * 100 + n + 1)));
        }
    });
    let written = numbers(&*ledger.view().unwrap());
    assert_eq!(written.len(), 200);
    assert_eq!(written.iter().collect::<BTreeSet<_>>().len(), 200, "each once");
    for writer in 0..8 {
        let own: Vec<_> = written.iter().filter(|n| **n / 100 == writer).collect();
        assert!(own.is_sorted(), "a writer's appends are in its order");
    }
}

/// A unit of work that fails leaves nothing, and those beside it stay.
pub fn a_failed_work_leaves_nothing(implementation: &impl Implementation) {
    let ledger = implementation.create(SetClock::default().clock());
    append(&*ledger, 0..1);
    let failed: Result<(), Error> = write(&*ledger, |tx| {
        tx.append(&entry(9))?;
        tx.put(ROWS, "x", "{}")?;
        Err(Error::Log("on purpose".into()))
    });
    assert!(failed.unwrap_err().to_string().contains("on purpose"));
    append(&*ledger, 1..2);
    let view = ledger.view().unwrap();
    assert_eq!(numbers(&*view), [0, 1]);
    assert_eq!(view.get(ROWS, "x").unwrap(), None);
}

/// A counter that 8 writers raise 25 times each ends at 200: nobody's work rests on what somebody else has overwritten. A work
/// that runs again leaves nothing of its earlier runs.
pub fn lost_races_run_again_on_what_others_wrote(implementation: &impl Implementation) {
    let ledger = implementation.create(SetClock::default().clock());
    let runs = std::sync::Arc::new(AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let (ledger, runs) = (&ledger, &runs);
            scope.spawn(move || {
                for _ in 0..25 {
                    let runs = runs.clone();
                    write(&**ledger, move |tx| {
                        runs.fetch_add(1, Ordering::SeqCst);
                        let counter = tx.get(ROWS, "counter")?.unwrap_or_else(|| b"0".to_vec());
                        let counter: u64 = String::from_utf8(counter).unwrap().parse().unwrap();
                        // Others get their chance to interfere.
                        std::thread::yield_now();
                        tx.append(&entry(counter))?;
                        tx.put(ROWS, "counter", &(counter + 1).to_string())
                    })
                    .unwrap();
                }
            });
        }
    });
    let view = ledger.view().unwrap();
    assert_eq!(view.get(ROWS, "counter").unwrap().unwrap(), b"200");
    assert_eq!(numbers(&*view), (0..200).collect::<Vec<_>>());
    assert!(runs.load(Ordering::SeqCst) >= 200);
}

/// A view shows one moment, whatever is written meanwhile.
pub fn a_view_does_not_move(implementation: &impl Implementation) {
    let ledger = implementation.create(SetClock::default().clock());
    append(&*ledger, 0..2);
    put(&*ledger, &["a"]);
    ledger.flush().unwrap();
    let before = ledger.view().unwrap();
    let (size, checkpoint) = (before.size().unwrap(), before.checkpoint().unwrap());
    append(&*ledger, 2..300);
    write(&*ledger, |tx| {
        tx.put(ROWS, "b", "{}")?;
        tx.delete(ROWS, "a")
    })
    .unwrap();
    assert_eq!((before.size().unwrap(), before.checkpoint().unwrap()), (size, checkpoint));
    assert_eq!(keys(&*before, Scan::all()), ["a"]);
    assert_eq!(numbers(&*before), [0, 1]);
    assert!(before.entry(2).unwrap().is_none());
    assert_eq!(before.tile(0, 0).unwrap().unwrap().len(), 64);
    drop(before);
    let after = ledger.view().unwrap();
    assert_eq!((after.size().unwrap(), keys(&*after, Scan::all())), (300, vec!["b".to_owned()]));
}

/// Within a unit of work its own writes are visible; to others they are not until it commits.
pub fn a_work_sees_its_own_writes(implementation: &impl Implementation) {
    let ledger = implementation.create(SetClock::default().clock());
    put(&*ledger, &["a", "b"]);
    let seen = write(&*ledger, |tx: &mut dyn Transaction| {
        let appended = tx.append(&entry(7))?;
        tx.put(ROWS, "c", "1")?;
        tx.put(ROWS, "a", "2")?;
        tx.delete(ROWS, "b")?;
        let mut rows = Vec::new();
        tx.scan(ROWS, Scan::all(), &mut |key, value| {
            rows.push(format!("{key}={}", String::from_utf8_lossy(value)));
            ControlFlow::Continue(())
        })?;
        assert_eq!(tx.size()?, appended.seq + 1);
        assert!(tx.entry(appended.seq)?.is_some());
        assert_eq!(tx.get_many(ROWS, &["b", "c"])?, [None, Some(b"1".to_vec())]);
        Ok::<_, Error>(rows)
    });
    assert_eq!(seen.unwrap(), ["a=2", "c=1"]);
}

/// Order is that of the bytes, not that of a language.
pub fn keys_are_ordered_by_their_bytes(implementation: &impl Implementation) {
    let ledger = implementation.create(SetClock::default().clock());
    let mut unordered = [
        "a/1",
        "a",
        "A",
        "b",
        "B",
        "ä",
        "Z",
        "_",
        "a-",
        "a0",
        "é",
        "e",
        "\u{10ffff}",
        "\u{10ffff}x",
        "日",
        "~",
        " ",
        "a\u{10ffff}b",
    ];
    put(&*ledger, &["~", "a/1", "a", "A", "b", "B", "ä", "Z", "_", "a-", "a0", "é", "e", " "]);
    put(&*ledger, &["\u{10ffff}", "\u{10ffff}x", "日", "a\u{10ffff}b"]);
    unordered.sort_unstable_by_key(|key| key.as_bytes());
    let view = ledger.view().unwrap();
    assert_eq!(keys(&*view, Scan::all()), unordered);
    unordered.reverse();
    assert_eq!(keys(&*view, Scan { reverse: true, ..Scan::all() }), unordered);
    assert_eq!(keys(&*view, Scan::prefix("a")), ["a", "a-", "a/1", "a0", "a\u{10ffff}b"]);
    assert_eq!(keys(&*view, Scan::prefix("\u{10ffff}")), ["\u{10ffff}", "\u{10ffff}x"]);
}

/// Prefix, paging by the last key, both directions, an early end.
pub fn scans_are_bounded_paged_and_reversed(implementation: &impl Implementation) {
    let ledger = implementation.create(SetClock::default().clock());
    put(&*ledger, &["a/1", "a/2", "a/3", "a0", "b/1"]);
    write(&*ledger, |tx| tx.put(OTHER_ROWS, "a/9", "{}")).unwrap();
    let view = ledger.view().unwrap();
    let found = |scan: Scan<'_>| keys(&*view, scan);
    assert_eq!(found(Scan::prefix("a/")), ["a/1", "a/2", "a/3"]);
    assert_eq!(found(Scan { after: Some("a/2"), ..Scan::prefix("a/") }), ["a/3"]);
    assert_eq!(found(Scan { after: Some("a"), ..Scan::prefix("a/") }), ["a/1", "a/2", "a/3"]);
    assert_eq!(found(Scan { after: Some("b"), ..Scan::prefix("a/") }), [""; 0]);
    assert_eq!(found(Scan { reverse: true, ..Scan::prefix("a/") }), ["a/3", "a/2", "a/1"]);
    assert_eq!(found(Scan { reverse: true, after: Some("a/3"), ..Scan::prefix("a/") }), ["a/2", "a/1"]);
    assert_eq!(found(Scan { reverse: true, after: Some("z"), ..Scan::prefix("a/") }), ["a/3", "a/2", "a/1"]);
    assert_eq!(found(Scan { reverse: true, after: Some("a"), ..Scan::prefix("a/") }), [""; 0]);
    assert_eq!(found(Scan::all()).len(), 5);
    let mut seen = 0;
    view.scan(ROWS, Scan::all(), &mut |_, _| {
        seen += 1;
        if seen == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    assert_eq!(seen, 2);
}

/// A visitor may scan and read again.
pub fn scans_can_be_nested(implementation: &impl Implementation) {
    let ledger = implementation.create(SetClock::default().clock());
    put(&*ledger, &["a", "b", "c"]);
    append(&*ledger, 0..2);
    let nested = |view: &dyn View| {
        let mut pairs = Vec::new();
        view.scan(ROWS, Scan::all(), &mut |outer, _| {
            view.scan(ROWS, Scan { after: Some(outer), ..Scan::all() }, &mut |inner, _| {
                assert!(view.get(ROWS, inner).unwrap().is_some() && view.entry(1).unwrap().is_some());
                pairs.push(format!("{outer}{inner}"));
                ControlFlow::Continue(())
            })
            .unwrap();
            ControlFlow::Continue(())
        })
        .unwrap();
        pairs
    };
    assert_eq!(nested(&*ledger.view().unwrap()), ["ab", "ac", "bc"]);
    struct AsView<'a>(&'a dyn Transaction);
    let in_a_work = write(&*ledger, move |tx| {
        let view = AsView(tx);
        let mut pairs = Vec::new();
        view.0.scan(ROWS, Scan::all(), &mut |outer, _| {
            let inner = view.0.get(ROWS, outer).unwrap();
            pairs.push((outer.to_owned(), inner.is_some()));
            ControlFlow::Continue(())
        })?;
        Ok::<_, Error>(pairs.len())
    });
    assert_eq!(in_a_work.unwrap(), 3);
}

/// Batches mean what single calls mean, in order.
pub fn many_rows_are_read_and_written_in_one_call(implementation: &impl Implementation) {
    let ledger = implementation.create(SetClock::default().clock());
    put(&*ledger, &["gone", "kept"]);
    write(&*ledger, |tx| {
        let change = |key, value| RowChange { table: ROWS, key, value };
        tx.put_many(&[
            change("a", Some("1")),
            change("a", Some("2")),
            change("gone", None),
            change("never", None),
            change("b", Some("3")),
            change("b", None),
            RowChange { table: OTHER_ROWS, key: "a", value: Some("4") },
        ])
    })
    .unwrap();
    let view = ledger.view().unwrap();
    let found = view.get_many(ROWS, &["kept", "b", "a", "gone", "a"]).unwrap();
    assert_eq!(found, [Some(b"{}".to_vec()), None, Some(b"2".to_vec()), None, Some(b"2".to_vec())]);
    assert_eq!(view.get(OTHER_ROWS, "a").unwrap(), Some(b"4".to_vec()));
    assert_eq!(view.get_many(ROWS, &[]).unwrap(), Vec::<Option<Vec<u8>>>::new());
}

/// A clock that jumps back does not reorder entries; a unit of work has one time.
pub fn times_never_go_back_and_are_one_for_a_unit(implementation: &impl Implementation) {
    let clock = SetClock::default();
    let ledger = implementation.create(clock.clock());
    append(&*ledger, 0..1);
    clock.advance(-60);
    append(&*ledger, 1..2);
    clock.advance(120);
    let moving = clock.clone();
    write(&*ledger, move |tx| {
        let stamp = tx.stamp()?;
        tx.append(&entry(2))?;
        moving.advance(5);
        assert_eq!(tx.append(&entry(3))?.recorded_at, stamp);
        Ok::<_, Error>(())
    })
    .unwrap();
    let view = ledger.view().unwrap();
    let at = |seq| Entry::parse(seq, &view.entry(seq).unwrap().unwrap()).unwrap().recorded_at;
    assert_eq!((at(0), at(2)), (at(1), at(3)));
    assert!(at(1) < at(2));
}

/// After entries in the future, a unit of work can go back to the clock, and those after it go on from there.
pub fn times_go_back_to_the_clock_where_a_unit_says_so(implementation: &impl Implementation) {
    let clock = SetClock::default();
    let ledger = implementation.create(clock.clock());
    clock.advance(86_400);
    append(&*ledger, 0..1);
    clock.advance(-86_400);
    let given_up: Result<(), Error> = write(&*ledger, |tx| {
        tx.return_to_clock()?;
        tx.append(&entry(9))?;
        Err(Error::Log("on purpose".into()))
    });
    given_up.unwrap_err();
    append(&*ledger, 1..2);
    let now = clock.now();
    write(&*ledger, move |tx| {
        assert_eq!((tx.return_to_clock()?, tx.stamp()?), (now, now));
        assert_eq!(tx.append(&entry(2))?.recorded_at, now);
        Ok::<_, Error>(())
    })
    .unwrap();
    clock.advance(1);
    append(&*ledger, 3..4);
    let view = ledger.view().unwrap();
    let at = |seq| Entry::parse(seq, &view.entry(seq).unwrap().unwrap()).unwrap().recorded_at;
    assert_eq!(at(1), at(0), "what was undone changes nothing");
    assert_eq!((at(2), at(3)), (now, now.plus_seconds(1)));
}

/// At every size the tree, its tiles and the signed checkpoint say the same.
pub fn tiles_and_checkpoint_follow_every_append(implementation: &impl Implementation) {
    let ledger = implementation.create(SetClock::default().clock());
    let mut size = 0;
    for step in [1, 1, 253, 1, 1, 300, 255] {
        append(&*ledger, size..size + step);
        size += step;
        ledger.flush().unwrap();
        let view = ledger.view().unwrap();
        let checkpoint = Checkpoint::open(&view.checkpoint().unwrap().unwrap(), log_key().verifier()).unwrap();
        assert_eq!((checkpoint.size, checkpoint.root), (size, merkle::root(size, &*view).unwrap()));
        let path = proof::inclusion(size, size / 2, &*view).unwrap();
        let leaf = merkle::leaf(&view.entry(size / 2).unwrap().unwrap());
        proof::check_inclusion(&path, size, checkpoint.root, size / 2, leaf).unwrap();
    }
    let view = ledger.view().unwrap();
    for resource in Resource::all(size) {
        assert!(resource.read(&*view).unwrap().is_some());
    }
}

/// The database refuses to change or remove entries, and says so when it no longer would.
pub fn entries_are_protected(implementation: &impl Implementation) {
    let ledger = implementation.create(SetClock::default().clock());
    append(&*ledger, 0..3);
    for answer in implementation.tamper(&*ledger) {
        let refused = answer.err().unwrap_or_else(|| panic!("the database let an entry be changed"));
        assert!(refused.contains("append-only"), "{refused}");
    }
    let view = ledger.view().unwrap();
    assert_eq!(numbers(&*view), [0, 1, 2]);
    assert_eq!(view.missing_protections().unwrap(), [""; 0]);
}

/// What was acknowledged is there after a crash, and the log goes on from it.
pub fn a_crash_loses_nothing_acknowledged(implementation: &impl Implementation) {
    let clock = SetClock::default();
    let ledger = implementation.create(clock.clock());
    append(&*ledger, 0..300);
    put(&*ledger, &["a"]);
    append(&*ledger, 300..305);
    let ledger = implementation.after_crash(ledger, clock.clock());
    assert_eq!(numbers(&*ledger.view().unwrap()).len(), 305);
    append(&*ledger, 305..310);
    ledger.flush().unwrap();
    let view = ledger.view().unwrap();
    assert_eq!(keys(&*view, Scan::all()), ["a"]);
    let checkpoint = Checkpoint::open(&view.checkpoint().unwrap().unwrap(), log_key().verifier()).unwrap();
    assert_eq!((checkpoint.size, checkpoint.root), (310, merkle::root(310, &*view).unwrap()));
}
