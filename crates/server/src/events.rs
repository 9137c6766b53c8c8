//! What listeners hear of: scores, from the ledger; verdicts, to the token that asked for them and to operators.

use credence_ledger::{Entry, Kind};
use serde_json::{Value, json};

/// Something that happened.
#[derive(Debug)]
pub(crate) struct Event {
    /// The entry; verdicts have none.
    pub seq: Option<u64>,
    /// `score` or `verdict`.
    pub name: &'static str,
    /// The token whose it is; none where it is everyone's.
    pub namespace: Option<String>,
    pub data: Value,
}

/// What an entry tells listeners.
pub(crate) fn of_entry(seq: u64, entry: &Entry) -> Option<Event> {
    if entry.kind != Kind::Score {
        return None;
    }
    let body: Value = entry.record(seq).ok()?;
    let data = json!({
        "agent": entry.subject, "seq": seq, "recorded_at": entry.recorded_at, "status": body["status"], "score": body["score"],
        "stddev": body["stddev"], "tier": body["tier"],
    });
    Some(Event { seq: Some(seq), name: "score", namespace: None, data })
}
