use credence_protocol::{
    EntityId, SecretKey, Uuid,
    receipt::{CallOutcome, Salts},
};

use super::*;
use crate::{Archive, BookSettings, Filter, FoundReceipt, ReceiptBook, now};

struct Place {
    state: tempfile::TempDir,
    provider: EntityId,
    key: SecretKey,
}

impl Place {
    fn new() -> Self {
        let (state, provider) = (tempfile::tempdir().unwrap(), EntityId::new("lab").unwrap());
        Self { state, provider, key: SecretKey::generate().unwrap() }
    }

    fn folder(&self) -> PathBuf {
        self.state.path().join("fs/1/receipts")
    }

    fn book(&self) -> ReceiptBook {
        let place = crate::folder::take_place(self.state.path(), "fs").unwrap();
        let settings = BookSettings::new(&place, "fs", self.provider.clone(), self.key.clone());
        ReceiptBook::open(BookSettings { max_bytes: 1 << 24, ..settings }).unwrap()
    }

    fn journal_key(&self) -> JournalKey {
        JournalKey::new(&self.key, &crate::segments::origin(&self.provider, "fs", 1))
    }

    fn found(&self) -> (Vec<FoundReceipt>, Vec<String>) {
        let archive = Archive::open(self.state.path(), &self.provider, &self.key).unwrap();
        let (mut all, mut problems) = (Vec::new(), Vec::new());
        let each = &mut |found: FoundReceipt, private: Option<Private>| {
            assert!(private.is_some());
            all.push(found);
            Ok(())
        };
        archive.visit(&Filter::default(), each, &mut |problem| problems.push(problem)).unwrap();
        (all, problems)
    }
}

fn intent(tool: &str, salts: &Salts) -> Intent {
    Intent {
        agent: None,
        arguments: salts.arguments(None),
        call: Uuid::now_v7(),
        client: None,
        request: Some("1".to_owned()),
        server: "fs".to_owned(),
        session: Some("a \"session\"\n".to_owned()),
        stake: None,
        started_at: now(),
        tool: tool.to_owned(),
        uid: None,
        vantage: None,
    }
}

fn new(tool: &str) -> NewReceipt {
    let salts = Salts::generate().unwrap();
    let mut receipt = intent(tool, &salts).into_receipt(CallOutcome::Result);
    receipt.execution_ms = Some(1.5);
    receipt.posterior = Some(0.25);
    NewReceipt { receipt, private: Private { salts, print: String::new() } }
}

fn canary(of: &NewReceipt) -> CanaryRecord {
    CanaryRecord { call: of.receipt.call, agent: None, fabrication: "swap".to_owned(), caught: true }
}

#[test]
fn lines_are_told_apart_by_their_kind() {
    let folder = tempfile::tempdir().unwrap();
    let new = new("one");
    let (intent, private) = (intent("two", &new.private.salts), serde_json::to_vec(&new.private).unwrap());
    let key = JournalKey::new(&SecretKey::generate().unwrap(), "log");
    let mut lines = Vec::new();
    key.push_intent(&mut lines, &serde_json::to_vec(&intent).unwrap(), &private);
    key.push_receipt(&mut lines, new.receipt.canonical().unwrap().as_bytes(), &private);
    key.push_canary(&mut lines, &serde_json::to_vec(&canary(&new)).unwrap());
    key.push(&mut lines, &[b"{\"kind\":\"other\"}"]);
    key.push(&mut lines, &[b"{\"receipt\":{}}"]);
    Journal::open(folder.path()).unwrap().append(&lines).unwrap();
    let read = read(folder.path(), &key).unwrap();
    assert_eq!(read.intents, [(intent, new.private.clone())]);
    assert_eq!((&read.receipts[0].receipt, &read.receipts[0].private), (&new.receipt, &new.private));
    assert_eq!((read.canaries, read.unreadable, read.forged), (vec![canary(&new)], 2, 0));
}

#[test]
fn a_call_under_way_outlives_a_killed_guard() {
    let place = Place::new();
    let killed = place.book();
    let (answered, open) = (new("answered"), new("open"));
    let intents = [&answered, &open]
        .map(|new| Intent { call: new.receipt.call, ..intent(&new.receipt.tool, &new.private.salts) });
    let privates = [&answered.private, &open.private];
    killed.begin(intents.iter().zip(privates)).unwrap();
    killed.record([answered.clone()].iter()).unwrap();
    assert_eq!(killed.under_way(), 1);
    // What is flushed leaves the journal; what is under way stays.
    killed.flush_journal(Vec::new()).unwrap();
    let outcomes =
        |found: Vec<FoundReceipt>| found.iter().map(|one| (one.receipt.call, one.receipt.outcome)).collect::<Vec<_>>();
    let expected = [(answered.receipt.call, CallOutcome::Result), (open.receipt.call, CallOutcome::Unanswered)];
    assert_eq!(outcomes(place.found().0), expected);
    let left = fs::read(place.folder().join(FILE)).unwrap();
    drop(killed);
    let next = place.book();
    assert_eq!((next.in_journal(), next.under_way(), next.position().unwrap().1), (0, 0, 3));
    assert_eq!(outcomes(place.found().0), expected);
    assert_eq!(fs::metadata(place.folder().join(FILE)).unwrap().len(), 0);
    drop(next);
    // Killed before the journal was emptied: nothing is written twice.
    fs::write(place.folder().join(FILE), left).unwrap();
    assert_eq!(place.book().position().unwrap().1, 3);
}

#[test]
fn calls_under_way_do_not_make_the_journal_grow() {
    let place = Place::new();
    let book = place.book();
    let open = new("open");
    let intent = Intent { call: open.receipt.call, ..intent("open", &open.private.salts) };
    book.begin([(&intent, &open.private)].into_iter()).unwrap();
    let bytes = || fs::metadata(place.folder().join(FILE)).unwrap().len();
    for _ in 0..8 {
        let many: Vec<NewReceipt> = (0..400).map(|_| new("done")).collect();
        book.record(many.iter()).unwrap();
        book.flush_journal(Vec::new()).unwrap();
    }
    assert!(bytes() < 1_100_000, "{}", bytes());
    book.record([new("one more")].iter()).unwrap();
    drop(book);
    let (found, problems) = place.found();
    assert_eq!((found.len(), problems.len()), (8 * 400 + 2, 0));
    assert_eq!(found.iter().filter(|one| one.receipt.outcome == CallOutcome::Unanswered).count(), 1);
}

#[test]
fn a_line_that_the_guard_did_not_write_is_not_signed() {
    let place = Place::new();
    place.book().record([new("real")].iter()).unwrap();
    let planted = new("planted");
    let private = serde_json::to_vec(&planted.private).unwrap();
    let body = planted.receipt.canonical().unwrap();
    let mut lines = Vec::new();
    // Under another key, under this guard's key for another log, without a MAC, and with the MAC of another line.
    JournalKey::new(&SecretKey::generate().unwrap(), "x").push_receipt(&mut lines, body.as_bytes(), &private);
    JournalKey::new(&place.key, "other").push_receipt(&mut lines, body.as_bytes(), &private);
    let unkeyed =
        format!("{{\"kind\":\"receipt\",\"receipt\":{body},\"private\":{}}}\n", String::from_utf8(private).unwrap());
    lines.extend_from_slice(unkeyed.as_bytes());
    let path = place.folder().join(FILE);
    let real = fs::read(&path).unwrap();
    lines.extend_from_slice(&real[..=MAC_CHARS]);
    lines.extend_from_slice(unkeyed.as_bytes());
    fs::write(&path, [real, lines].concat()).unwrap();
    assert_eq!(read(&place.folder(), &place.journal_key()).unwrap().forged, 4);
    let tools = |found: Vec<FoundReceipt>| found.into_iter().map(|one| one.receipt.tool).collect::<Vec<_>>();
    let (found, problems) = place.found();
    assert_eq!(tools(found), ["real"]);
    assert!(problems[0].contains("4 lines in the journal were not written by the guard"), "{problems:?}");
    assert_eq!(place.book().position().unwrap().1, 2, "the segment's first entry and one receipt");
    assert_eq!(tools(place.found().0), ["real"]);
    assert_eq!(super::damaged(&place.folder()).len(), 1, "kept for people to look at");
}

#[test]
fn canaries_of_a_killed_guard_are_taken_once() {
    let place = Place::new();
    let killed = place.book();
    let one = new("one");
    killed.record([one.clone()].iter()).unwrap();
    let control = ControlRecord { call: one.receipt.call, agent: None, rejected: false };
    killed.record_shadow(&[canary(&one)], &[control]).unwrap();
    let left = fs::read(place.folder().join(FILE)).unwrap();
    drop(killed);
    let caught = || {
        let archive = Archive::open(place.state.path(), &place.provider, &place.key).unwrap();
        archive.canaries(&archive.sources[0]).unwrap().get("swap").copied()
    };
    assert_eq!(caught(), None);
    assert_eq!(place.book().position().unwrap().1, 4);
    assert_eq!(caught(), Some((1, 1)));
    fs::write(place.folder().join(FILE), left).unwrap();
    assert_eq!(place.book().position().unwrap().1, 4);
    assert_eq!(caught(), Some((1, 1)));
}

#[test]
fn what_a_killed_guard_left_is_read_and_taken_once() {
    let place = Place::new();
    let killed = place.book();
    let all = [new("one"), new("two"), new("three")];
    killed.record(all[..1].iter()).unwrap();
    assert_eq!(killed.flush_journal(Vec::new()).unwrap().calls.len(), 0, "of nobody");
    killed.record(all[1..].iter()).unwrap();
    let left = fs::read(place.folder().join(FILE)).unwrap();
    drop(killed);
    // Without a guard that runs.
    let (found, problems) = place.found();
    assert_eq!(found.iter().map(|one| one.at.is_some()).collect::<Vec<_>>(), [true, false, false]);
    assert_eq!(found.iter().map(|one| &one.receipt).collect::<Vec<_>>(), all.each_ref().map(|one| &one.receipt));
    assert_eq!(problems, [""; 0]);
    let archive = Archive::open(place.state.path(), &place.provider, &place.key).unwrap();
    assert!(archive.find(all[2].receipt.call).unwrap().is_some_and(|(found, _)| found.at.is_none()));
    assert_eq!(archive.sources[0].audit(None).unwrap(), (3, Vec::new()));
    let why = archive.proof(&found[1]).err().map(|error| error.to_string());
    assert!(why.is_some_and(|why| why.contains("when a guard starts again")));

    let next = place.book();
    assert_eq!((next.in_journal(), next.position().unwrap().1), (0, 4));
    assert_eq!(fs::metadata(place.folder().join(FILE)).unwrap().len(), 0);
    next.seal().unwrap();
    assert!(archive.proof(&found[1]).is_ok(), "it was found in the journal, and is in the log now");
    drop(next);
    // Killed after they had moved, and before the journal was emptied.
    fs::write(place.folder().join(FILE), left).unwrap();
    assert_eq!(place.found().0.len(), 3);
    let again = place.book();
    assert_eq!(again.position().unwrap().1, 4);
}

#[test]
fn a_line_that_was_never_finished_is_none_and_a_damaged_one_is_told() {
    let place = Place::new();
    place.book().record([new("one"), new("two")].iter()).unwrap();
    let path = place.folder().join(FILE);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 10]).unwrap();
    let read = read(&place.folder(), &place.journal_key()).unwrap();
    assert_eq!((read.receipts.len(), read.unreadable, read.forged), (1, 0, 0));
    let mut damaged = whole.clone();
    damaged[20] = b'!';
    fs::write(&path, &damaged).unwrap();
    let (found, problems) = place.found();
    assert_eq!((found.len(), problems.len()), (1, 1), "{problems:?}");
    let next = place.book();
    assert_eq!(next.position().unwrap().1, 2);
    // It is still known that there was one.
    let aside = super::damaged(&place.folder());
    assert_eq!(fs::read(&aside[0]).unwrap(), damaged);
    let (found, problems) = place.found();
    assert_eq!((found.len(), problems.len()), (1, 1), "{problems:?}");
    let archive = Archive::open(place.state.path(), &place.provider, &place.key).unwrap();
    assert_eq!(archive.sources[0].audit(None).unwrap().1.len(), 1);
}

#[test]
fn what_finds_no_room_leaves_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(folder.path()).unwrap();
    journal.append(b"{}\n").unwrap();
    // As on a full disk: a file that cannot be written to.
    journal.file = File::open(folder.path().join(FILE)).unwrap();
    assert!(journal.append(b"{}\n").is_err());
    assert_eq!(fs::read(folder.path().join(FILE)).unwrap(), b"{}\n");
    // A part of a line that could not be taken away, either, does not spoil the next.
    fs::write(folder.path().join(FILE), b"{}\n{\"rec").unwrap();
    let mut journal = Journal::open(folder.path()).unwrap();
    journal.append(b"{}\n").unwrap();
    journal.append(b"{}\n").unwrap();
    assert_eq!(fs::read(folder.path().join(FILE)).unwrap(), b"{}\n{\"rec\n{}\n{}\n");
    assert_eq!(journal.bytes, 15);
}
