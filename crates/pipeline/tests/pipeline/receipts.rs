//! Receipts that guards hand in: found by log and call, kept under the rules of a ledger.

use credence_ledger::{
    Kind, Ledger, LogKey, NewEntry, Restored, SqliteLedger, memory::MemoryLedger, proof::inclusion, write,
};
use credence_pipeline::receipts::{self, AuditedReceipts, Batch, Found, HandedReceipt, ReceiptStore, Taken};
use credence_protocol::{
    Canonical, SecretKey, Uuid,
    receipt::{Exact, Salts, Views, forms_of_result},
};
use data_encoding::BASE64;
use rusqlite::Connection;
use serde_json::json;

use crate::common::{House, id, key, ticking};

fn receipts_key() -> LogKey {
    LogKey::new("example.org/log/receipts", &SecretKey::from_seed(&[3; 32])).unwrap()
}

fn uuid(n: u128) -> Uuid {
    Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_0000 + n)
}

/// A guard's log with a receipt of each call, ready to be handed in.
fn batch(house: &House, provider: &str, log: &str, tool: &str, calls: &[Uuid]) -> Batch {
    let guard = MemoryLedger::new(LogKey::new(log, &key(provider)).unwrap(), ticking(&house.clock));
    let (salts, nothing) = (Salts::generate().unwrap(), Exact::parse("{}").unwrap());
    for call in calls {
        let receipt = json!({
            "arguments": salts.arguments(Some(&nothing)), "call": call, "outcome": "result", "server": "weather",
            "started_at": "2026-11-16T09:00:00Z", "tool": tool, "verdict": "accept", "posterior": 0.04,
            "result": Views::commit(&salts.result, &forms_of_result(&nothing)),
        });
        let body = Canonical::of(&receipt).unwrap();
        let entry = NewEntry { kind: Kind::Receipt, subject: id(provider), body, weight: None };
        write(&guard, move |tx| tx.append(&entry)).unwrap();
    }
    let view = guard.view().unwrap();
    let size = view.size().unwrap();
    let handed = |seq| HandedReceipt {
        seq,
        entry: String::from_utf8(view.entry(seq).unwrap().unwrap()).unwrap(),
        proof: inclusion(size, seq, &*view).unwrap().iter().map(|hash| BASE64.encode(&hash.0)).collect(),
        salts: None,
    };
    Batch {
        provider: id(provider),
        log: log.to_owned(),
        checkpoint: view.checkpoint().unwrap().unwrap(),
        consistency: Vec::new(),
        receipts: (0..size).map(handed).collect(),
    }
}

fn open(house: &House) -> credence_ledger::Result<ReceiptStore> {
    let handed_in = credence_pipeline::query::guard_logs(&*house.authority.ledger().view().unwrap()).unwrap() > 0;
    ReceiptStore::open(house.folder.path(), receipts_key(), ticking(&house.clock), handed_in)
}

fn hand_in(house: &House, store: &ReceiptStore, batch: Batch) -> Taken {
    let checked = house.authority.check_receipts(batch).unwrap().unwrap_or_else(|refused| panic!("{refused}"));
    house.authority.take_receipts(checked, store).unwrap().unwrap_or_else(|refused| panic!("{refused}"))
}

fn audit(house: &House) -> AuditedReceipts {
    let options = ReceiptStore::options(house.folder.path());
    let outside = options.outside.read(receipts_key().verifier());
    let held = SqliteLedger::open_unchecked(options, receipts_key().verifier().clone()).unwrap();
    let authority = house.authority.ledger().view().unwrap();
    receipts::audit(&*held.view().unwrap(), receipts_key().verifier(), &outside, &*authority).unwrap()
}

/// What the audit has to say, in one text.
fn findings(house: &House) -> String {
    audit(house).findings.listed.iter().map(|finding| format!("{:?} {}\n", finding.seq, finding.what)).collect()
}

fn database(house: &House) -> Connection {
    let raw = Connection::open(house.folder.path().join("receipts.db")).unwrap();
    raw.execute_batch("DROP TRIGGER entries_are_never_changed; DROP TRIGGER entries_are_never_deleted;").unwrap();
    raw
}

/// A house with a store of ten receipts, closed.
fn ten_receipts() -> House {
    let house = House::new(&[("lab", 1.0)], &[]);
    let store = open(&house).unwrap();
    let calls: Vec<Uuid> = (0..10).map(uuid).collect();
    let taken = hand_in(&house, &store, batch(&house, "lab", "lab/guard/a/1/1", "weather", &calls));
    assert_eq!((taken.new, taken.next), (10, 10));
    house
}

/// A guard chooses its call ids. One that chooses those of another, before or after, hides nothing.
#[test]
fn a_call_id_that_another_guard_used_shadows_nothing() {
    let house = House::new(&[("lab", 1.0), ("squatter", 1.0)], &[]);
    let store = open(&house).unwrap();
    let (call, lonely) = (uuid(1), uuid(2));
    let logs = ["squatter/guard/a/1/1", "lab/guard/a/1/1", "lab/guard/b/1/1"];
    hand_in(&house, &store, batch(&house, "squatter", logs[0], "fake", &[call]));
    hand_in(&house, &store, batch(&house, "lab", logs[1], "weather", &[call, lonely]));
    hand_in(&house, &store, batch(&house, "lab", logs[2], "time", &[call]));
    for (log, tool) in logs.into_iter().zip(["fake", "weather", "time"]) {
        let held = store.find_in(log, &call).unwrap().unwrap();
        assert_eq!((held.log.as_str(), held.receipt().unwrap().tool.as_str()), (log, tool));
    }
    assert!(store.find_in("lab/guard/c/1/1", &call).unwrap().is_none());
    let Found::Several(mut named) = store.find(&call).unwrap() else { panic!("three guards used it") };
    named.sort();
    assert_eq!(named, [logs[1], logs[2], logs[0]]);
    assert!(matches!(store.find(&lonely).unwrap(), Found::One(held) if held.log == logs[1]));
    assert!(matches!(store.find(&uuid(3)).unwrap(), Found::Nothing));
    drop(store);
    assert_eq!(findings(&house), "");
    assert_eq!(audit(&house).receipts, 4);
}

#[test]
fn a_store_that_is_gone_is_not_made_anew() {
    let house = ten_receipts();
    let folder = house.folder.path();
    std::fs::remove_file(folder.join("receipts.db")).unwrap();
    let refused = open(&house).err().unwrap().to_string();
    assert!(refused.contains("is missing") && refused.contains("accept-restore --receipts"), "{refused}");
    assert!(!folder.join("receipts.db").exists());
    // Its checkpoint, too: the ledger still knows that guards handed in.
    let checkpoint = std::fs::read(folder.join("receipts.checkpoint")).unwrap();
    std::fs::remove_file(folder.join("receipts.checkpoint")).unwrap();
    let refused = open(&house).err().unwrap().to_string();
    assert!(refused.contains("guards handed in"), "{refused}");
    std::fs::write(folder.join("receipts.checkpoint"), checkpoint).unwrap();
    let restored = ReceiptStore::accept_restore(folder, &receipts_key(), ticking(&house.clock)).unwrap();
    assert_eq!(restored, Restored::Shorter { size: 0, promised: 10 });
    assert_eq!(open(&house).unwrap().size().unwrap(), 0);
}

#[test]
fn an_old_copy_is_refused_until_it_is_accepted() {
    let house = House::new(&[("lab", 1.0)], &[]);
    let path = house.folder.path().join("receipts.db");
    let first = batch(&house, "lab", "lab/guard/a/1/1", "weather", &[uuid(0)]);
    hand_in(&house, &open(&house).unwrap(), first);
    let old = std::fs::read(&path).unwrap();
    let second = batch(&house, "lab", "lab/guard/b/1/1", "weather", &[uuid(1), uuid(2)]);
    hand_in(&house, &open(&house).unwrap(), second);
    std::fs::write(&path, old).unwrap();
    let refused = open(&house).err().unwrap().to_string();
    assert!(refused.contains("has 1 entries, the checkpoint was made at 3"), "{refused}");
    assert!(findings(&house).contains("outside the database is of 3 entries, there are 1"), "{}", findings(&house));
    let restored = ReceiptStore::accept_restore(house.folder.path(), &receipts_key(), ticking(&house.clock)).unwrap();
    assert_eq!(restored, Restored::Shorter { size: 1, promised: 3 });
    assert_eq!(open(&house).unwrap().size().unwrap(), 1);
    assert_eq!(findings(&house), "");
}

/// What was changed past the ledger is found by the audit and given to nobody.
#[test]
fn a_changed_receipt_is_not_served() {
    let house = ten_receipts();
    assert_eq!(findings(&house), "");
    let raw = database(&house);
    raw.execute("UPDATE entries SET entry = replace(entry, 'weather', 'whether') WHERE seq = 3", []).unwrap();
    let store = open(&house).unwrap();
    let find = |n| store.find_in("lab/guard/a/1/1", &uuid(n));
    assert!(find(3).unwrap_err().to_string().contains("not what its log was built over"));
    assert_eq!(find(4).unwrap().unwrap().receipt().unwrap().tool, "weather");
    drop(store);
    assert!(findings(&house).contains("Some(3)"), "{}", findings(&house));
}

#[test]
fn a_table_that_finds_another_receipt_is_noticed() {
    let house = ten_receipts();
    let raw = database(&house);
    raw.execute("UPDATE p_by_call SET value = '5' WHERE key LIKE ?1", [format!("{}/%", uuid(3))]).unwrap();
    raw.execute("DELETE FROM p_by_call WHERE key LIKE ?1", [format!("{}/%", uuid(4))]).unwrap();
    raw.execute("UPDATE p_next SET value = '4'", []).unwrap();
    let store = open(&house).unwrap();
    let refused = store.find_in("lab/guard/a/1/1", &uuid(3)).unwrap_err().to_string();
    assert!(refused.contains("is not call"), "{refused}");
    drop(store);
    let found = findings(&house);
    for expected in ["Some(3)", "Some(4)", "9 calls can be found", "the next entry", "trigger"] {
        assert!(found.contains(expected), "{expected}: {found}");
    }
}

/// A held receipt rests on a key and a checkpoint in the authority's ledger.
#[test]
fn receipts_that_the_ledger_knows_nothing_of_are_found() {
    let house = ten_receipts();
    let options = ReceiptStore::options(house.folder.path());
    let outside = options.outside.read(receipts_key().verifier());
    let held = SqliteLedger::open_unchecked(options, receipts_key().verifier().clone()).unwrap();
    for (source, why) in [("lab", "knows of no checkpoint"), ("other", "its log key is none of 'lab'")] {
        let other = House::new(&[(source, 1.0)], &[]);
        let authority = other.authority.ledger().view().unwrap();
        let found =
            receipts::audit(&*held.view().unwrap(), receipts_key().verifier(), &outside, &*authority).unwrap().findings;
        assert!(found.count == 10 && found.listed[0].what.contains(why), "{found:?}");
    }
}
