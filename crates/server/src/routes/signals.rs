//! Signals: one, a batch, or bulk as JSON Lines.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::BytesMut;
use credence_pipeline::{SIGNALS_PER_BATCH, admit::Verdict};
use serde_json::value::RawValue;

use super::{created, json};
use crate::{
    app::App,
    edge::{NDJSON, too_slow},
    extract::{Ingest, invalid, is_media_type, next_part, unsupported, whole},
    problem::Problem,
    schema::{Accepted, Batch, Errors, Item, ItemError, OneOrManySignals},
};

/// Signals in one JSON array.
const MAX_ARRAY: usize = 1_000;
/// Bytes of a line: a signal has 4 KiB at most.
const MAX_LINE: usize = 16 * 1024;

/// Submits signals that their sources signed
///
/// `application/json`: one signal (201, or the error itself), or an array of up to 1,000 (200, each with its own result).
/// `application/x-ndjson`: a signal a line, a result a line. An answer means durable. What was admitted before is admitted
/// again as the same entry.
#[utoipa::path(post, path = "/v1/signals", tag = "signals",
    request_body(content((OneOrManySignals = "application/json"), (String = "application/x-ndjson")), description = "Signed signals"),
    responses((status = 201, body = Accepted), (status = 200, content((Batch = "application/json"), (String = "application/x-ndjson"))), Errors),
    security(("token" = ["ingest"])))]
pub(crate) async fn submit(State(app): State<Arc<App>>, _: Ingest, request: Request) -> Result<Response, Problem> {
    if is_media_type(request.headers(), "application/json") {
        array_or_one(app, request.into_body()).await
    } else if is_media_type(request.headers(), NDJSON) {
        bulk(app, request.into_body()).await
    } else {
        Err(unsupported("application/json or application/x-ndjson"))
    }
}

async fn array_or_one(app: Arc<App>, body: Body) -> Result<Response, Problem> {
    let bytes = whole(body, app.settings.max_body_bytes).await?;
    if bytes.iter().find(|b| !b.is_ascii_whitespace()) != Some(&b'[') {
        let signal = bytes.clone();
        let verdict = app.work(move |app| Ok(app.authority.submit(&signal)?)).await?;
        count(&app, &verdict);
        return match verdict {
            Ok(admitted) => created(&Accepted { seq: admitted.seq, known: admitted.known, remark: None }),
            Err(rejection) if rejection.code() == "malformed" => Err(invalid(&bytes, &rejection.to_string())),
            Err(rejection) => Err(Problem::from(&rejection)),
        };
    }
    let signals: Vec<Box<RawValue>> =
        serde_json::from_slice(&bytes).map_err(|e| Problem::bad_request("malformed_json", e.to_string()))?;
    if signals.len() > MAX_ARRAY {
        let detail = format!("{} signals, at most {MAX_ARRAY} at once: send more as {NDJSON}", signals.len());
        return Err(Problem::unprocessable("too_many_items", detail));
    }
    let signals: Vec<Vec<u8>> = signals.iter().map(|raw| raw.get().as_bytes().to_vec()).collect();
    let items = admit(&app, signals, None).await?;
    let rejected = items.iter().filter(|item| item.error.is_some()).count() as u64;
    json(&Batch { admitted: items.len() as u64 - rejected, rejected, results: items })
}

/// Admits a batch; with `first_line`, results carry their lines.
async fn admit(app: &Arc<App>, signals: Vec<Vec<u8>>, first_line: Option<u64>) -> Result<Vec<Item>, Problem> {
    app.work(move |app| {
        let mut items = Vec::with_capacity(signals.len());
        app.authority.submit_all(signals, &mut |at, verdict| {
            count(app, &verdict);
            items.push(item(verdict, first_line.map(|first| first + at as u64)));
        })?;
        Ok(items)
    })
    .await
}

fn count(app: &App, verdict: &Verdict) {
    if verdict.is_ok() {
        app.metrics.signals_admitted.inc()
    } else {
        app.metrics.signals_rejected.inc()
    };
}

fn item(verdict: Verdict, line: Option<u64>) -> Item {
    match verdict {
        Ok(admitted) => Item { seq: Some(admitted.seq), known: Some(admitted.known), error: None, line },
        Err(rejection) => {
            let error = ItemError { code: rejection.code().to_owned(), detail: rejection.to_string() };
            Item { seq: None, known: None, error: Some(error), line }
        }
    }
}

/// Reads lines as they come and admits them in batches. What was admitted before something went wrong stays admitted: the
/// last line of the answer says where it ended.
async fn bulk(app: Arc<App>, mut body: Body) -> Result<Response, Problem> {
    let patience = app.settings.request_time();
    let (since, longest) = (Instant::now(), Duration::from_secs(app.settings.bulk_seconds));
    let mut lines = Lines::default();
    let mut results: Vec<Item> = Vec::new();
    let ended = loop {
        if since.elapsed() > longest {
            break Err(too_slow());
        }
        let part = match next_part(&mut body, patience).await {
            Ok(part) => part,
            Err(problem) => break Err(problem),
        };
        let last = part.is_none();
        if let Err(problem) = lines.take(part.as_deref(), app.settings.max_bulk_lines) {
            break Err(problem);
        }
        if lines.ready.len() >= SIGNALS_PER_BATCH || (last && !lines.ready.is_empty()) {
            match flush(&app, &mut lines, &mut results).await {
                Ok(()) => {}
                Err(problem) => break Err(problem),
            }
        }
        if last {
            break Ok(());
        }
    };
    let ended = match ended {
        // Lines that were whole are admitted, whatever became of the rest.
        Err(problem) if !lines.ready.is_empty() => flush(&app, &mut lines, &mut results).await.and(Err(problem)),
        ended => ended,
    };
    if let Err(problem) = ended {
        if results.is_empty() {
            return Err(problem);
        }
        // What follows the last result was not admitted: from there on it can be sent again.
        let line = results.last().and_then(|last| last.line).map_or(1, |last| last + 1);
        results.push(refused(&problem, Some(line)));
    }
    let mut text = String::new();
    for result in &results {
        text += &serde_json::to_string(result).map_err(|e| Problem::internal(&e))?;
        text.push('\n');
    }
    Ok(([(header::CONTENT_TYPE, HeaderValue::from_static(NDJSON))], text).into_response())
}

fn refused(problem: &Problem, line: Option<u64>) -> Item {
    let error = ItemError { code: problem.code.to_owned(), detail: problem.detail().to_owned() };
    Item { seq: None, known: None, error: Some(error), line }
}

async fn flush(app: &Arc<App>, lines: &mut Lines, results: &mut Vec<Item>) -> Result<(), Problem> {
    let batch = std::mem::take(&mut lines.ready);
    let signals = batch.iter().filter_map(|(_, line)| line.clone().ok()).collect();
    let mut admitted = admit(app, signals, None).await?.into_iter();
    for (number, line) in batch {
        let item = match line {
            Ok(_) => admitted.next().map(|item| Item { line: Some(number), ..item }),
            Err(problem) => Some(refused(&problem, Some(number))),
        };
        results.extend(item);
    }
    Ok(())
}

/// Bytes cut into lines.
#[derive(Default)]
struct Lines {
    rest: BytesMut,
    /// Lines that are whole, with their numbers, or what is wrong with them; blank ones are passed over.
    ready: Vec<(u64, Result<Vec<u8>, Problem>)>,
    count: u64,
    /// The line at hand is too long: its rest is passed over.
    skipping: bool,
}

impl Lines {
    /// Takes the next part in, or the end.
    fn take(&mut self, part: Option<&[u8]>, most: usize) -> Result<(), Problem> {
        self.rest.extend_from_slice(part.unwrap_or(b"\n"));
        while let Some(end) = self.rest.iter().position(|b| *b == b'\n') {
            let line = self.rest.split_to(end + 1);
            self.add(&line[..end], most)?;
        }
        if self.rest.len() > MAX_LINE {
            self.skipping = true;
            self.rest.clear();
        }
        Ok(())
    }

    fn add(&mut self, line: &[u8], most: usize) -> Result<(), Problem> {
        let line = line.trim_ascii();
        let too_long = std::mem::take(&mut self.skipping) || line.len() > MAX_LINE;
        if self.count == most as u64 {
            if line.is_empty() && !too_long {
                return Ok(());
            }
            let detail = format!("more than {most} lines at once: send the rest in another request");
            return Err(Problem::unprocessable("too_many_items", detail));
        }
        self.count += 1;
        if too_long {
            let detail = format!("the line is longer than {MAX_LINE} bytes");
            let problem = Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail);
            self.ready.push((self.count, Err(problem)));
        } else if !line.is_empty() {
            self.ready.push((self.count, Ok(line.to_vec())));
        }
        Ok(())
    }
}
