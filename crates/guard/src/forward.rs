//! What goes on to the server: messages that every reader reads alike, each call written into the journal before it leaves.
//!
//! ```text
//! bytes ─▶ strict reading ─▶ pending requests ─▶ intents in the journal ─▶ server
//!               │                                        │
//!               ▼ refused: an error for the client       ▼ cannot be written: refused in `enforce`, else sent with a warning
//! ```

use std::{borrow::Cow, collections::HashSet, time::Instant};

use credence_receipts::{Intent, Private};
use serde_json::{json, value::RawValue};

use crate::{
    Error, Guard,
    answer::Answer,
    deliver::error_answer,
    message::{Parsed, id_key, id_of_ambiguous, offset, parse},
    pending::{PendingRequests, StartedCall},
    proxy::{JudgedBatch, judge},
    settings::{Caller, GuardMode},
    strict::{self, Envelope, Framing, Refusal},
    warn,
};

/// Messages of a refused list that get an error each.
const MAX_REFUSED: usize = 100;
/// Bytes at the beginning of a message in which the id of one that cannot be parsed is looked for.
const ID_IN: usize = 4096;

/// A message that may go on.
pub struct Admitted<'l> {
    /// What the server gets.
    pub text: Cow<'l, str>,
    /// The ids of the calls in it.
    pub calls: Vec<String>,
    /// Their tools.
    tools: Vec<String>,
    /// What is written about each of them first; `None` where the system gives no randomness.
    begun: Vec<Option<(Intent, Private)>>,
}

/// A message that does not go on, and what the client is told.
#[derive(Debug, PartialEq, Eq)]
pub struct Refused {
    /// The answer: one error for each request in the message, or one without an id.
    pub answer: String,
    /// Why, for people.
    pub why: String,
}

/// Who sends, and how.
#[derive(Clone, Copy)]
pub struct Sender<'a> {
    /// What is known of the caller already.
    pub caller: &'a Caller,
    /// The session of callers who name none.
    pub session: &'a str,
    /// How messages are separated.
    pub framing: Framing,
}

/// Reads one message of the client and remembers what it asks for. `None` for a blank line.
pub fn admit<'l>(
    guard: &Guard,
    requests: &mut PendingRequests,
    bytes: &'l [u8],
    from: Sender<'_>,
    sent: Instant,
) -> Option<Result<Admitted<'l>, Refused>> {
    if bytes.trim_ascii().is_empty() {
        return None;
    }
    let text = match check(bytes, from.framing) {
        Ok(text) => text,
        Err(refusal) => return Some(Err(refused(guard, bytes, &refusal))),
    };
    if let Some(refusal) = id_in_use(requests, &text) {
        return Some(Err(refused(guard, bytes, &refusal)));
    }
    let (mut calls, mut tools, mut begun) = (Vec::new(), Vec::new(), Vec::new());
    let mut one = |text: &str| {
        let Parsed::One(message) = parse(text) else { return };
        if let Some(started) = requests.request(&message, from.caller, from.session, sent) {
            calls.push(started.id.clone());
            tools.push(started.tool.clone());
            begun.push(guard.begin_call(started));
        }
    };
    match parse(&text) {
        Parsed::Batch(items) => items.iter().for_each(|item| one(item.get())),
        _ => one(&text),
    }
    guard.record_unanswered(requests.take_forgotten());
    Some(Ok(Admitted { text, calls, tools, begun }))
}

/// Reads strictly: one message, or a list of them.
fn check(bytes: &[u8], framing: Framing) -> Result<Cow<'_, str>, Refusal> {
    let text = strict::read(bytes, framing)?;
    match parse(&text) {
        Parsed::Batch(items) if items.is_empty() => return Err(Refusal::new(0, "a list without messages")),
        Parsed::Batch(items) => items.iter().try_for_each(|item| {
            let start = offset(&text, item.get());
            Envelope::of(item.get()).map(drop).map_err(|refusal| refusal.shifted(start))
        })?,
        _ => drop(Envelope::of(&text)?),
    }
    Ok(text)
}

/// Refuses a request whose id another one under way has: an answer could be booked to the wrong one of them.
fn id_in_use(requests: &PendingRequests, text: &str) -> Option<Refusal> {
    let mut seen = HashSet::new();
    let mut check = |part: &str| {
        let Parsed::One(message) = parse(part) else { return None };
        let id = message.id.filter(|_| message.method.is_some())?.get();
        let fresh = !requests.awaits(id) && seen.insert(id_key(id));
        (!fresh).then(|| Refusal::new(offset(text, part), "a request with this id is under way"))
    };
    match parse(text) {
        Parsed::Batch(items) => items.iter().find_map(|item| check(item.get())),
        _ => check(text),
    }
}

/// Writes the intents of `messages` into the journal, all in one write. Those that must not go on without are taken out of
/// `messages`, and given back as refused.
pub fn begin(guard: &Guard, requests: &mut PendingRequests, messages: &mut Vec<Admitted<'_>>) -> Vec<Refused> {
    let begun: Option<Vec<_>> = messages.iter().flat_map(|message| &message.begun).map(Option::as_ref).collect();
    let begun = begun.ok_or_else(|| Error::Content("the system gives no randomness".to_owned()));
    let Err(error) = begun.and_then(|begun| guard.begin(&begun)) else { return Vec::new() };
    let why = format!("no receipt can be written: {error}");
    let enforce = |message: &Admitted<'_>| message.tools.iter().any(|tool| guard.mode_of(tool) == GuardMode::Enforce);
    let mut refused = Vec::new();
    messages.retain(|message| {
        if message.calls.is_empty() {
            return true;
        }
        if !enforce(message) {
            warn(&format!("a call goes on without one: {why}"));
            return true;
        }
        message.calls.iter().for_each(|id| requests.retract(id));
        let text = format!("[credence] not sent: {why}");
        warn(&text);
        let answers: Vec<String> = message.calls.iter().map(|id| error_answer(id, &text)).collect();
        refused.push(Refused { answer: in_list(answers), why: text });
        false
    });
    refused
}

/// What the client is told about a message that is not forwarded.
fn refused(guard: &Guard, bytes: &[u8], refusal: &Refusal) -> Refused {
    let mut why = format!("[credence] not forwarded: {refusal}");
    if guard.settings.explain_refusal {
        why += &format!(" (byte {} of {}: …{}…)", refusal.at, bytes.len(), refusal.excerpt(bytes));
    } else {
        why += " (--explain-refusal shows which byte)";
    }
    warn(&why);
    let answers: Vec<String> = ids(bytes).iter().map(|id| error(id, refusal.code(), &why)).collect();
    Refused { answer: if answers.is_empty() { error("null", refusal.code(), &why) } else { in_list(answers) }, why }
}

fn in_list(mut answers: Vec<String>) -> String {
    if answers.len() == 1 { answers.remove(0) } else { format!("[{}]", answers.join(",")) }
}

fn error(id: &str, code: i32, text: &str) -> String {
    let error = json!({ "code": code, "message": text });
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{error}}}")
}

/// The ids of the requests in a message that is refused, as far as they can be told.
fn ids(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let valid = |id: &String| id.starts_with('"') || id.parse::<i64>().is_ok();
    if let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(text.trim()) {
        let ids = items.iter().take(MAX_REFUSED).filter_map(|item| id_of_ambiguous(item.get()));
        return ids.filter(valid).collect();
    }
    if let Some(id) = id_of_ambiguous(&text) {
        return [id].into_iter().filter(valid).collect();
    }
    // Not JSON: by its text, as long as that is unambiguous.
    let head = &bytes[..bytes.len().min(ID_IN)];
    let once = String::from_utf8_lossy(head).matches("\"id\"").count() == 1;
    let found = crate::message::id_at_the_edges(head, &[]).filter(|_| once);
    found.into_iter().filter(valid).collect()
}

impl Guard {
    /// What is written about a call before it goes on; `None` where the system gives no randomness.
    fn begin_call(&self, started: &mut StartedCall) -> Option<(Intent, Private)> {
        started.prepared = self.prepare(started.arguments.as_deref());
        let prepared = started.prepared?;
        let private = Private { salts: prepared.salts, print: prepared.print_text() };
        Some((self.intent(started, prepared.arguments), private))
    }

    /// Writes receipts of calls that nothing will answer any more.
    pub(crate) fn record_unanswered(&self, calls: Vec<StartedCall>) {
        if calls.is_empty() {
            return;
        }
        let mut batch: JudgedBatch<'_> = Vec::new();
        for started in calls {
            judge(self, started, Answer::Nothing, Instant::now(), &mut batch);
        }
        if self.record(&mut batch).is_none() {
            self.after_delivery(&batch);
        }
    }
}
