//! How much disk receipts take.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use credence_protocol::{
    Decision, EntityId, SecretKey, Timestamp, Uuid,
    receipt::{CallOutcome, Exact, Receipt, Salts, Vantage, Views, forms_of_result},
};
use credence_receipts::{
    BookSettings, Intent, NewReceipt, PartDigests, Private, ReceiptBook, folder,
    parts::{digests, fingerprint, judged_part},
};
use data_encoding::BASE64URL_NOPAD;

/// Receipts written for the measurement.
const RECEIPTS: usize = 4_000;
/// Bytes of disk that one receipt of a typical call may take, with everything beside it.
const MAX_BYTES_PER_RECEIPT: u64 = 2_048;

/// A call with two arguments and a structured result of a dozen values, and everything a guard says of it.
fn typical(n: usize, key: &SecretKey) -> (NewReceipt, PartDigests) {
    call(n, 2, key)
}

/// The same with a forecast of so many days, each of two values.
fn call(n: usize, days: usize, key: &SecretKey) -> (NewReceipt, PartDigests) {
    let forecast = (1..=days).map(|day| format!(r#"{{"day":{day},"high":{}}}"#, (n + day) % 31)).collect::<Vec<_>>();
    let arguments = format!(r#"{{"city":"town {n}","days":{}}}"#, n % 7);
    let value = format!(
        r#"{{"city":"town {n}","temperature":{}.5,"humidity":{},"wind":{{"speed":{}.25,"from":"north-west"}},"updated":"2026-11-17T09:{:02}:00Z","forecast":[{}],"station":"s-{}"}}"#,
        n % 30,
        n % 100,
        n % 11,
        n % 60,
        forecast.join(","),
        n * 7919
    );
    let text = serde_json::Value::from(value.as_str());
    let result = format!(r#"{{"content":[{{"type":"text","text":{text}}}],"structuredContent":{value}}}"#);
    let (arguments, result) = (Exact::parse(&arguments).unwrap(), Exact::parse(&result).unwrap());
    let salts = Salts::generate().unwrap();
    let intent = Intent {
        agent: Some(EntityId::new("research-assistant").unwrap()),
        arguments: salts.arguments(Some(&arguments)),
        call: Uuid::now_v7(),
        client: Some("claude-code 2.1".to_owned()),
        request: Some(n.to_string()),
        server: "weather".to_owned(),
        session: Some("5f0c2f0e-7f0b-4d3c-9a55-0c1d7f5a9b11".to_owned()),
        stake: None,
        started_at: Timestamp::from_micros(1_763_000_000_000_000 + n as i64 * 1_000_003).unwrap(),
        tool: "get_forecast".to_owned(),
        uid: None,
        vantage: Some(Vantage::SameUser),
    };
    let receipt = Receipt {
        execution_ms: Some(12.25 + n as f64 / 7.0),
        posterior: Some(0.001 + (n % 997) as f64 / 1e6),
        result: Views::commit(&salts.result, &forms_of_result(&result)),
        verdict: Some(Decision::Accept),
        ..intent.into_receipt(CallOutcome::Result)
    };
    let parts = PartDigests {
        arguments: digests(&arguments, &salts.arguments),
        result: digests(&judged_part(&result), &salts.result),
    };
    let print = BASE64URL_NOPAD.encode(&fingerprint(key, Some(&arguments)));
    (NewReceipt { receipt, private: Private { salts, print } }, parts)
}

/// What the files below a folder take on disk: whole blocks, not lengths.
fn on_disk(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let bytes = entries.map(|entry| {
        let meta = entry.metadata().unwrap();
        if meta.is_dir() { on_disk(&entry.path()) } else { meta.len().next_multiple_of(4_096) }
    });
    bytes.sum()
}

#[test]
fn a_receipt_takes_little_disk() {
    // Typical calls, and calls whose results are lists of up to 31 items, 40 values on average.
    measure(&typical);
    measure(&|n, key| call(n, n % 32, key));
}

fn measure(call: &dyn Fn(usize, &SecretKey) -> (NewReceipt, PartDigests)) {
    let state = tempfile::tempdir().unwrap();
    let key = SecretKey::generate().unwrap();
    let place = folder::take_place(state.path(), "weather").unwrap();
    let book =
        ReceiptBook::open(BookSettings::new(&place, "weather", EntityId::new("lab").unwrap(), key.clone())).unwrap();
    let mut written = 0;
    while written < RECEIPTS {
        // As a guard does: a batch, then the digests of its parts.
        let batch: Vec<_> = (written..written + 20).map(|n| call(n, &key)).collect();
        book.record(batch.iter().map(|(new, _)| new)).unwrap();
        book.flush_journal(batch.into_iter().map(|(new, parts)| (new.receipt.call, parts)).collect()).unwrap();
        written += 20;
    }
    book.seal().unwrap();
    let busy = on_disk(state.path()) / RECEIPTS as u64;
    // In a lull the write-ahead log is emptied.
    let until = Instant::now() + credence_testing::PATIENCE;
    let mut open = busy;
    while open > MAX_BYTES_PER_RECEIPT && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
        open = on_disk(state.path()) / RECEIPTS as u64;
    }
    drop(book);
    let closed = on_disk(state.path()) / RECEIPTS as u64;
    println!("{busy} bytes per receipt in a burst, {open} in a lull, {closed} when the guard has ended");
    assert!(closed <= MAX_BYTES_PER_RECEIPT, "{closed} bytes per receipt");
    assert!(open <= MAX_BYTES_PER_RECEIPT, "{open} bytes per receipt while the guard runs");
}

/// The bytes of write-ahead logs below a folder.
fn logs(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => logs(&entry.path()),
        Ok(meta) if entry.file_name().to_string_lossy().ends_with("-wal") => meta.len(),
        _ => 0,
    });
    bytes.sum()
}

#[test]
fn a_lull_empties_the_write_ahead_log_and_what_follows_is_kept() {
    let state = tempfile::tempdir().unwrap();
    let key = SecretKey::generate().unwrap();
    let place = folder::take_place(state.path(), "weather").unwrap();
    let settings = BookSettings::new(&place, "weather", EntityId::new("lab").unwrap(), key.clone());
    let book = ReceiptBook::open(settings).unwrap();
    let mut calls = Vec::new();
    for n in 0..3 {
        let (new, parts) = typical(n, &key);
        let call = new.receipt.call;
        book.record([new].iter()).unwrap();
        book.flush_journal(vec![(call, parts)]).unwrap();
        assert!(logs(state.path()) > 0);
        let until = Instant::now() + credence_testing::PATIENCE;
        while logs(state.path()) > 0 {
            assert!(Instant::now() < until, "the log was not emptied");
            std::thread::sleep(Duration::from_millis(20));
        }
        calls.push(call);
    }
    for call in calls {
        assert!(book.find(call).unwrap().is_some());
        assert!(book.prove(call, true).unwrap().is_some());
    }
}
