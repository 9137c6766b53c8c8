//! What listeners hear of: scores and standings, from the ledger; verdicts, to the token that asked for them and to operators.

use credence_ledger::{Entry, Kind};
use serde_json::{Value, json};

/// Something that happened.
#[derive(Debug)]
pub(crate) struct Event {
    /// The entry; verdicts have none.
    pub seq: Option<u64>,
    /// `score`, `standing` or `verdict`.
    pub name: &'static str,
    /// The namespace whose it is; none where it is everyone's.
    pub namespace: Option<String>,
    pub data: Value,
}

/// What an entry tells listeners.
pub(crate) fn of_entry(seq: u64, entry: &Entry) -> Option<Event> {
    let body: Value = match entry.kind {
        Kind::Score | Kind::Standing => entry.record(seq).ok()?,
        _ => return None,
    };
    if entry.kind == Kind::Standing {
        let data = json!({
            "agent": entry.subject, "seq": seq, "recorded_at": entry.recorded_at, "revoked": body["revoked"],
            "reason": body["reason"],
        });
        return Some(Event { seq: Some(seq), name: "standing", namespace: None, data });
    }
    let data = json!({
        "agent": entry.subject, "seq": seq, "recorded_at": entry.recorded_at, "status": body["status"], "score": body["score"],
        "stddev": body["stddev"], "tier": body["tier"],
    });
    Some(Event { seq: Some(seq), name: "score", namespace: None, data })
}
