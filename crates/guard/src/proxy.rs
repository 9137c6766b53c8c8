//! What both proxies do with a message from the server: find out whether it answers a call, have it judged, and put together
//! what the client gets. Messages are taken in batches, so that their receipts share one commit.

use std::time::Instant;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    answer::Answer,
    deliver::error_answer,
    guard::{Guard, JudgedCall},
    message::{Edit, Message, Parsed, apply, id_at_the_edges, id_of_ambiguous, offset, parse},
    pending::{PendingRequest, PendingRequests, StartedCall},
    settings::GuardMode,
    warn,
};

/// Characters of a line that is no message, as the operator sees it.
const SHOWN: usize = 500;

/// Calls that were judged, with the answers they came from.
pub type JudgedBatch<'l> = Vec<(JudgedCall, Answer<'l>)>;

/// What becomes of a message.
pub enum Piece<'l> {
    /// It passes as it is.
    Raw(&'l str),
    /// It does not pass.
    Withheld,
    /// It answers the call with this number in the batch.
    Call {
        /// Which.
        number: usize,
        /// The message; empty where it was too large to keep.
        message: &'l str,
        /// The result in it.
        result: Option<&'l str>,
    },
    /// Several messages in one.
    Several(Vec<Piece<'l>>),
}

/// The parts of a result by which a call goes on instead of ending.
#[derive(Deserialize)]
struct Continuation<'a> {
    #[serde(borrow, default, rename = "resultType")]
    result_type: Option<&'a str>,
    #[serde(default)]
    task: Option<Task>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "structuredContent")]
    structured: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "isError")]
    is_error: Option<&'a RawValue>,
}

impl<'a> Continuation<'a> {
    fn of(result: &'a str) -> Option<Self> {
        if result.starts_with('{') { serde_json::from_str(result).ok() } else { None }
    }

    /// Whether it holds nothing that a client could take for a tool's result.
    fn is_bare(&self) -> bool {
        self.content.is_none() && self.structured.is_none() && self.is_error.is_none()
    }

    fn needs_input(&self) -> bool {
        self.result_type == Some("input_required") && self.is_bare()
    }

    fn task(self, started: &StartedCall) -> Option<String> {
        let bare = self.is_bare();
        self.task.filter(|_| bare && started.as_task).map(|task| task.id)
    }
}

#[derive(Deserialize)]
struct Task {
    #[serde(rename = "taskId")]
    id: String,
}

/// Looks at one line from the server; judged calls are added to `batch`.
pub fn from_server<'l>(
    guard: &Guard,
    requests: &mut PendingRequests,
    line: &'l str,
    read: Instant,
    batch: &mut JudgedBatch<'l>,
) -> Piece<'l> {
    match parse(line) {
        Parsed::One(message) => one(guard, requests, line, &message, read, batch),
        Parsed::Batch(items) => {
            // A list in a list is no message.
            let mut each = |item: &'l RawValue| match item.get().starts_with('[') {
                true => Piece::Withheld,
                false => from_server(guard, requests, item.get(), read, batch),
            };
            Piece::Several(items.into_iter().map(&mut each).collect())
        }
        Parsed::Ambiguous(why) => {
            let call = id_of_ambiguous(line).filter(|id| requests.awaits(id)).map(|id| (requests.answered(&id), id));
            warn(&format!("the server sent a message that can be read in two ways ({why})"));
            match call {
                Some((Some(PendingRequest::Call(started)), _)) => {
                    let answer = Answer::Ambiguous("a member is there twice");
                    judge(guard, *started, answer, read, batch);
                    Piece::Call { number: batch.len() - 1, message: line, result: None }
                }
                _ if guard.settings.mode == GuardMode::Enforce => Piece::Withheld,
                _ => Piece::Raw(line),
            }
        }
        Parsed::NotJson(why) => {
            if !line.trim().is_empty() {
                let shown: String = line.chars().take(SHOWN).collect();
                warn(&format!("the server printed what is no message ({why}), kept from the client: {shown}"));
            }
            Piece::Withheld
        }
    }
}

fn one<'l>(
    guard: &Guard,
    requests: &mut PendingRequests,
    line: &'l str,
    message: &Message<'l>,
    read: Instant,
    batch: &mut JudgedBatch<'l>,
) -> Piece<'l> {
    if let Some(id) = message.id.filter(|id| message.is_doubtful() && requests.awaits(id.get())) {
        // One reader takes it for the answer, another does not.
        return match requests.answered(id.get()) {
            Some(PendingRequest::Call(started)) => {
                judge(guard, *started, Answer::Ambiguous("it has a method and a result, or neither"), read, batch);
                Piece::Call { number: batch.len() - 1, message: line, result: None }
            }
            _ if guard.settings.mode == GuardMode::Enforce => Piece::Withheld,
            _ => Piece::Raw(line),
        };
    }
    let (Some(id), true) = (message.id, message.is_answer()) else { return Piece::Raw(line) };
    let started = match requests.answered(id.get()) {
        None => return unexpected_answer(guard, line, id.get()),
        Some(PendingRequest::Other) => return Piece::Raw(line),
        Some(PendingRequest::Tools) => {
            if let Some(result) = message.result {
                guard.learn_tools(result);
            }
            return Piece::Raw(line);
        }
        // Not ready yet: it is asked for again.
        Some(PendingRequest::TaskResult(_)) if message.error.is_some() && message.result.is_none() => {
            return Piece::Raw(line);
        }
        Some(PendingRequest::TaskResult(task)) => match guard.task(&task) {
            Some(started) => StartedCall { id: id.get().to_owned(), ..started },
            None if guard.settings.mode == GuardMode::Enforce => {
                warn("the server gave the result of a task that no call became: withheld");
                return Piece::Withheld;
            }
            None => return Piece::Raw(line),
        },
        Some(PendingRequest::Call(started)) => *started,
    };
    let answer = match (message.result, message.error) {
        (Some(result), None) => {
            if let Some(on) = Continuation::of(result.get()) {
                if on.needs_input() {
                    return Piece::Raw(line);
                }
                if let Some(task) = on.task(&started) {
                    guard.became_task(task, started);
                    return Piece::Raw(line);
                }
            }
            Answer::Result(result)
        }
        (None, Some(error)) => Answer::Error(error),
        // Both: readers differ in which they take.
        _ => Answer::Ambiguous("it has a result and an error"),
    };
    judge(guard, started, answer, read, batch);
    Piece::Call { number: batch.len() - 1, message: line, result: message.result.map(RawValue::get) }
}

/// An answer that nobody waits for: to an unknown id, or a second one.
fn unexpected_answer<'l>(guard: &Guard, line: &'l str, id: &str) -> Piece<'l> {
    let id: String = id.chars().take(SHOWN).collect();
    if guard.settings.mode == GuardMode::Enforce {
        warn(&format!("the server answered {id}, which nobody waits for: withheld"));
        Piece::Withheld
    } else {
        warn(&format!("the server answered {id}, which nobody waits for"));
        Piece::Raw(line)
    }
}

/// A message too large to keep, of which the first and the last bytes are known.
pub fn too_large<'l>(
    guard: &Guard,
    requests: &mut PendingRequests,
    head: &[u8],
    tail: &[u8],
    bytes: usize,
    batch: &mut JudgedBatch<'l>,
) -> Piece<'l> {
    let most = guard.settings.max_message_bytes;
    warn(&format!("the server sent a message of {bytes} bytes, and {most} is the limit (--max-message): dropped"));
    match id_at_the_edges(head, tail).and_then(|id| requests.answered(&id)) {
        Some(PendingRequest::Call(started)) => {
            judge(guard, *started, Answer::TooLarge(bytes), Instant::now(), batch);
            Piece::Call { number: batch.len() - 1, message: "", result: None }
        }
        _ => Piece::Withheld,
    }
}

/// Judges and adds to the batch.
pub fn judge<'l>(guard: &Guard, started: StartedCall, answer: Answer<'l>, read: Instant, batch: &mut JudgedBatch<'l>) {
    let execution_ms = read.saturating_duration_since(started.instant).as_secs_f64() * 1000.0;
    batch.push((guard.judge(started, answer, execution_ms), answer));
}

/// What the client gets of a message, once the batch was recorded; `None` where it gets nothing.
pub fn render(piece: &Piece<'_>, batch: &JudgedBatch<'_>) -> Option<String> {
    match piece {
        Piece::Raw(line) => Some((*line).to_owned()),
        Piece::Withheld => None,
        Piece::Call { number, message, result } => {
            let judged = &batch[*number].0;
            Some(match (judged.delivery(), result) {
                (None, _) => (*message).to_owned(),
                (Some(Ok(text)), Some(result)) => {
                    let edit = Edit { at: offset(message, result), remove: result.len(), insert: text.to_owned() };
                    apply(message, vec![edit])
                }
                (Some(Ok(text) | Err(text)), _) => error_answer(judged.id(), text),
            })
        }
        Piece::Several(pieces) => {
            let parts: Vec<String> = pieces.iter().filter_map(|piece| render(piece, batch)).collect();
            (!parts.is_empty()).then(|| format!("[{}]", parts.join(",")))
        }
    }
}
