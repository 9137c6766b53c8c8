//! *Log*: everything that was recorded, and proofs that the page checks step by step before the reader's eyes.

use std::{ops::ControlFlow, sync::Arc};

use askama::Template;
use axum::{extract::State, http::StatusCode, response::Response};
use credence_ledger::{Checkpoint, Entry, Kind, View, merkle, proof};
use credence_protocol::Timestamp;
use data_encoding::BASE64;
use serde::Deserialize;
use serde_json::Value;

use super::{
    Frame, Viewer,
    format::{When, count, encoded},
    html,
    inputs::QueryInput,
};
use crate::{app::App, problem::Problem};

/// The kinds of entry that an authority has.
const KINDS: &[Kind] = &[
    Kind::Agent,
    Kind::Attestation,
    Kind::Challenge,
    Kind::Checkpoint,
    Kind::Clock,
    Kind::Contract,
    Kind::Credential,
    Kind::CredentialRevocation,
    Kind::Dispute,
    Kind::Identity,
    Kind::Key,
    Kind::KeyRevocation,
    Kind::Link,
    Kind::Outcome,
    Kind::Probe,
    Kind::Report,
    Kind::Resolution,
    Kind::Responses,
    Kind::Review,
    Kind::Score,
    Kind::Signal,
    Kind::Source,
    Kind::Standing,
    Kind::Summary,
    Kind::Tag,
    Kind::Verification,
    Kind::Withdrawal,
];

/// Entries listed.
const ENTRIES: usize = 40;
/// Entries looked at for those that somebody wants, and how many at a time.
const MAX_ENTRIES_READ: u64 = 20_000;
const STRETCH: u64 = 1_000;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct PageQuery {
    /// An entry to look at.
    entry: String,
    /// The list begins below this one.
    before: String,
    /// Two sizes of the log.
    older: String,
    newer: String,
    /// Only entries of this kind, or about this one.
    kind: String,
    about: String,
}

struct Row {
    seq: u64,
    kind: String,
    subject: String,
    when: When,
}

/// One entry, with its proof.
struct EntryDetail {
    seq: u64,
    kind: String,
    subject: String,
    when: When,
    text: String,
    leaf: String,
    hashes: Vec<String>,
}

/// That the log grew from one size to another without changing its past.
struct GrowthProof {
    older: u64,
    newer: u64,
    older_root: String,
    newer_root: String,
    hashes: Vec<String>,
    /// And from there to the size that is signed: what is not signed promises nothing.
    onward: Vec<String>,
}

#[derive(Template)]
#[template(path = "log.html")]
struct LogPage {
    frame: Frame,
    origin: String,
    size: u64,
    size_shown: String,
    root: String,
    note: String,
    rows: Vec<Row>,
    earlier: Option<u64>,
    later: bool,
    kinds: Vec<(&'static str, bool)>,
    about: String,
    /// What was chosen, as it stands in the address.
    filter: String,
    looked_at: u64,
    entry: Option<EntryDetail>,
    grown: Option<GrowthProof>,
    wrong: String,
    base: String,
}

pub(super) async fn page(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    QueryInput(asked): QueryInput<PageQuery>,
) -> Response {
    let frame = Frame::new(&app, &viewer, "log");
    let now = app.now();
    let made = app.read(move |app, view| read(app, view, &asked, now)).await;
    super::page(frame, made, |frame, page| html(StatusCode::OK, &LogPage { frame, ..page }))
}

fn read(app: &App, view: &dyn View, asked: &PageQuery, now: Timestamp) -> Result<LogPage, Problem> {
    let note = view.checkpoint()?.unwrap_or_default();
    let none = || Problem::not_found("empty_log", "the log has no entries yet");
    if note.is_empty() {
        return Err(none());
    }
    let checkpoint = Checkpoint::open(&note, &app.log)?;
    let size = checkpoint.size;
    let end = asked.before.parse::<u64>().map_or(size, |before| before.min(size));
    let (kind, about) = (asked.kind.trim(), asked.about.trim());
    let (rows, from) = newest(view, end, kind, about, now)?;
    let mut wrong = String::new();
    let mut told = |problem: Problem| wrong = problem.detail().to_owned();
    let entry = match asked.entry.trim() {
        "" => None,
        text => show(view, text, size, now).map_err(&mut told).ok(),
    };
    let grown = match (asked.older.trim(), asked.newer.trim()) {
        ("", _) => None,
        (older, newer) => grown(view, older, newer, size).map_err(&mut told).ok(),
    };
    Ok(LogPage {
        frame: Frame::bare(),
        origin: app.log.origin().to_owned(),
        size,
        size_shown: count(size),
        root: BASE64.encode(&checkpoint.root.0),
        note,
        rows,
        earlier: (from > 0).then_some(from),
        later: end < size,
        kinds: KINDS.iter().map(|one| (one.key(), one.key() == kind)).collect(),
        about: about.to_owned(),
        filter: filter(kind, about),
        looked_at: end - from,
        entry,
        grown,
        wrong,
        base: app.office.base_url.clone(),
    })
}

/// The newest entries before `end` that are wanted, and how far back was looked.
fn newest(view: &dyn View, end: u64, kind: &str, about: &str, now: Timestamp) -> Result<(Vec<Row>, u64), Problem> {
    let any = kind.is_empty() && about.is_empty();
    let (mut rows, mut from) = (Vec::new(), end);
    while from > 0 && rows.len() < ENTRIES && end - from < MAX_ENTRIES_READ {
        let until = from;
        from = until.saturating_sub(if any { ENTRIES as u64 } else { STRETCH });
        let mut part = Vec::new();
        view.entries(from, &mut |seq, bytes| {
            if seq >= until {
                return ControlFlow::Break(());
            }
            let wanted = |entry: &Entry| {
                (kind.is_empty() || entry.kind.key() == kind) && (about.is_empty() || entry.subject.as_str() == about)
            };
            part.extend(Entry::parse(seq, bytes).ok().filter(wanted).map(|entry| row(seq, &entry, now)));
            ControlFlow::Continue(())
        })?;
        rows.extend(part.into_iter().rev());
    }
    if rows.len() > ENTRIES {
        rows.truncate(ENTRIES);
        from = rows.last().map_or(from, |row| row.seq);
    }
    Ok((rows, from))
}

fn filter(kind: &str, about: &str) -> String {
    let pair =
        |name: &str, value: &str| if value.is_empty() { String::new() } else { format!("&{name}={}", encoded(value)) };
    pair("kind", kind) + &pair("about", about)
}

fn row(seq: u64, entry: &Entry, now: Timestamp) -> Row {
    let subject = entry.subject.to_string();
    Row { seq, kind: entry.kind.key().to_owned(), subject, when: When::new(entry.recorded_at, now) }
}

fn show(view: &dyn View, text: &str, size: u64, now: Timestamp) -> Result<EntryDetail, Problem> {
    let none = || {
        Problem::not_found(
            "no_such_entry",
            format!("there is no entry {text}: the newest is {}", size.saturating_sub(1)),
        )
    };
    let seq: u64 = text.parse().ok().filter(|seq| *seq < size).ok_or_else(none)?;
    let bytes = view.entry(seq)?.ok_or_else(none)?;
    let entry = Entry::parse(seq, &bytes)?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|e| Problem::internal(&e))?;
    let hashes = proof::inclusion(size, seq, view)?;
    Ok(EntryDetail {
        seq,
        kind: entry.kind.key().to_owned(),
        subject: entry.subject.to_string(),
        when: When::new(entry.recorded_at, now),
        text: serde_json::to_string_pretty(&value).unwrap_or_default(),
        leaf: BASE64.encode(&merkle::leaf(&bytes).0),
        hashes: hashes.iter().map(|hash| BASE64.encode(&hash.0)).collect(),
    })
}

fn grown(view: &dyn View, older: &str, newer: &str, size: u64) -> Result<GrowthProof, Problem> {
    let wrong = || {
        let detail =
            format!("two sizes of the log are needed, from 1 to {size}, the older one not greater than the newer");
        Problem::bad_request("bad_query", detail)
    };
    let newer: u64 = if newer.is_empty() { size } else { newer.parse().map_err(|_| wrong())? };
    let older: u64 = older.parse().map_err(|_| wrong())?;
    if older == 0 || older > newer || newer > size {
        return Err(wrong());
    }
    let proved = |older, newer| {
        let hashes = proof::consistency(older, newer, view)?;
        Ok::<_, Problem>(hashes.iter().map(|hash| BASE64.encode(&hash.0)).collect())
    };
    let root = |size: u64| Ok::<_, Problem>(BASE64.encode(&merkle::root(size, view)?.0));
    Ok(GrowthProof {
        older,
        newer,
        older_root: root(older)?,
        newer_root: root(newer)?,
        hashes: proved(older, newer)?,
        onward: proved(newer, size)?,
    })
}
