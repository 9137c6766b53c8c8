//! A book of receipts as a guard inside another program would use it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use credence_protocol::{
    EntityId, SecretKey, Uuid,
    receipt::{CallOutcome, Exact, Salts, Views, forms_of_result},
};
use credence_receipts::{
    BookSettings, Intent, NewReceipt, Private, ReceiptBook,
    book::{BookEntry, Position},
    claims::{CheckOptions, ClaimStatus},
    export::TrustedKey,
    folder,
    handover::{Disclosure, Known},
    now,
    parts::fingerprint,
    transcript,
};
use data_encoding::BASE64URL_NOPAD;
use serde_json::json;

const EVERYTHING: Disclosure = Disclosure { receipts: 100, salts: true };

struct Tools {
    state: tempfile::TempDir,
    provider: EntityId,
    key: SecretKey,
}

impl Tools {
    fn new() -> Self {
        let provider = EntityId::new("lab").unwrap();
        Self { state: tempfile::tempdir().unwrap(), provider, key: SecretKey::generate().unwrap() }
    }

    fn book(&self) -> (folder::Place, ReceiptBook) {
        let place = folder::take_place(self.state.path(), "functions").unwrap();
        let settings = BookSettings::new(&place, "functions", self.provider.clone(), self.key.clone());
        let book = ReceiptBook::open(settings).unwrap();
        (place, book)
    }

    /// A call of `tool` with these arguments, which returned this text.
    fn call(&self, book: &ReceiptBook, tool: &str, arguments: &str, text: &str) -> Uuid {
        let salts = Salts::generate().unwrap();
        let arguments = Exact::parse(arguments).unwrap();
        let result = json!({"content": [{"type": "text", "text": text}]}).to_string();
        let intent = Intent {
            agent: Some(EntityId::new("bot").unwrap()),
            arguments: salts.arguments(Some(&arguments)),
            call: Uuid::now_v7(),
            client: None,
            request: None,
            server: "functions".to_owned(),
            session: None,
            stake: None,
            started_at: now(),
            tool: tool.to_owned(),
            uid: None,
            vantage: None,
        };
        let mut receipt = intent.into_receipt(CallOutcome::Result);
        receipt.result = Views::commit(&salts.result, &forms_of_result(&Exact::parse(&result).unwrap()));
        let call = receipt.call;
        let print = BASE64URL_NOPAD.encode(&fingerprint(&self.key, Some(&arguments)));
        book.record([NewReceipt { receipt, private: Private { salts, print } }].iter()).unwrap();
        call
    }
}

#[test]
fn a_receipt_is_found_before_it_is_sealed_and_proved_after() {
    let tools = Tools::new();
    let (_place, book) = tools.book();
    let call = tools.call(&book, "weather", r#"{"city":"Oslo"}"#, "rain, 7 degrees");
    assert_eq!(book.status().unwrap().in_journal, 1);
    assert_eq!(
        book.find(call).unwrap().map(|found| (found.receipt.tool, found.at)),
        Some(("weather".to_owned(), None))
    );
    book.flush_journal(Vec::new()).unwrap();
    book.seal().unwrap();
    let status = book.status().unwrap();
    assert_eq!((status.log.as_str(), status.position), ("lab/guard/functions/1/1", Position(1, 2)));
    assert_eq!((status.in_journal, status.behind), (0, false));

    let proved = book.prove(call, true).unwrap().unwrap();
    let trusted = TrustedKey::parse(&tools.key.public().did_key()).unwrap();
    proved.verify(Some(&trusted)).unwrap();
    assert!(proved.salts.is_some() && book.prove(call, false).unwrap().unwrap().salts.is_none());
    let mut changed = proved.clone();
    changed.receipt.tool = "bank".to_owned();
    assert!(changed.verify(Some(&trusted)).unwrap_err().to_string().contains("not the one that is proved"));
    let other = TrustedKey::parse(&SecretKey::generate().unwrap().public().did_key()).unwrap();
    assert!(proved.verify(Some(&other)).is_err());
    assert!(book.prove(Uuid::now_v7(), false).unwrap().is_none());

    let mut seen = Vec::new();
    let reached = book.visit_from(Position::default(), &mut |entry, _| match entry {
        BookEntry::Receipt(receipt) => seen.push(receipt.call),
        other => panic!("{other:?}"),
    });
    assert_eq!((reached.unwrap(), seen), (Position(1, 2), vec![call]));
}

#[test]
fn claims_are_compared_with_what_happened() {
    let tools = Tools::new();
    let (_place, book) = tools.book();
    tools.call(&book, "weather", r#"{"city":"Oslo"}"#, "rain, 7 degrees");
    tools.call(&book, "weather", r#"{"city":"Rome"}"#, "sun, 24 degrees");
    book.flush_journal(Vec::new()).unwrap();
    book.seal().unwrap();
    let told = |id: &str, city: &str, text: &str| {
        let arguments = json!({ "city": city }).to_string();
        let call = json!({"id": id, "type": "function", "function": {"name": "weather", "arguments": arguments}});
        [
            json!({"role": "assistant", "tool_calls": [call]}),
            json!({"role": "tool", "tool_call_id": id, "content": text}),
        ]
    };
    let messages: Vec<_> = [
        told("a", "Oslo", "rain, 7 degrees"),
        told("b", "Rome", "snow, 2 degrees"),
        told("c", "Paris", "sun, 18 degrees"),
    ]
    .concat();
    let transcript = transcript::read(json!({ "messages": messages }).to_string().as_bytes()).unwrap();
    let report = book.archive().check(&tools.key, &transcript, &CheckOptions::default()).unwrap();
    let statuses: Vec<ClaimStatus> = report.claims.iter().map(|claim| claim.status).collect();
    assert_eq!(statuses, [ClaimStatus::Executed, ClaimStatus::Altered, ClaimStatus::NeverHappened]);
    assert!(report.unclaimed.is_empty() && report.problems.is_empty() && !report.is_clean());
}

#[test]
fn what_is_handed_over_proves_itself_and_extends_what_was_seen() {
    let tools = Tools::new();
    let (_place, book) = tools.book();
    let next = |known| book.current_log().next_batch(&tools.provider, known, EVERYTHING).unwrap().unwrap();
    let record = |text: &str| {
        let call = tools.call(&book, "weather", "{}", text);
        book.flush_journal(Vec::new()).unwrap();
        book.seal().unwrap();
        call
    };
    let one = record("first");
    let first = next(Known::default());
    let verifier = book.current_log().verifier;
    let checkpoint = first.batch.open_checkpoint(&verifier).unwrap();
    assert_eq!(first.batch.receipts[0].check(&checkpoint, verifier.origin()).unwrap().call, one);
    assert!(first.batch.receipts[0].salts.is_some() && !first.more);

    record("second");
    let second = next(Known { size: first.size, next: first.batch.receipts[0].seq + 1 });
    assert_eq!(second.batch.receipts.len(), 1);
    let newer = second.batch.open_checkpoint(&verifier).unwrap();
    let root = data_encoding::BASE64.encode(&checkpoint.root.0);
    second.batch.extends(&newer, first.size, &root).unwrap();
    let other = data_encoding::BASE64.encode(&[7; 32]);
    assert!(second.batch.extends(&newer, first.size, &other).is_err(), "another past");
    let mut forged = second.batch.receipts[0].clone();
    forged.entry = forged.entry.replace("weather", "banking");
    assert!(forged.check(&newer, verifier.origin()).is_err());
    let ahead = book.current_log().next_batch(&tools.provider, Known { size: 99, next: 0 }, EVERYTHING);
    assert!(ahead.unwrap_err().to_string().contains("another guard signs"));
}
