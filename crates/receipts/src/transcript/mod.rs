//! Transcripts: what an agent says its tools gave back, read into [`Claim`]s that the receipts of a guard can be held
//! against. Nothing here judges a claim.
//!
//! | format | a call | its result |
//! |---|---|---|
//! | OpenAI chat completions | `tool_calls`, `function_call` | `role: "tool"`, `role: "function"` |
//! | OpenAI Responses | `function_call` and other `…_call` items | `…_output` items; in the item itself |
//! | Anthropic messages | `tool_use`, `mcp_tool_use`, `server_tool_use` | `tool_result` and other `…_tool_result` blocks |
//! | Bedrock Converse | `toolUse` | `toolResult` |
//! | Gemini | `functionCall`, `executableCode` | `functionResponse`, `codeExecutionResult` |
//! | LangChain | `tool_calls` of an `ai` message | `tool` messages |
//! | Vercel's AI SDK | `tool-call`, `tool-NAME`, `dynamic-tool` | `tool-result`; in the part itself |
//! | Pydantic AI | parts of kind `tool-call` | parts of kind `tool-return`, `retry-prompt` |
//! | OpenTelemetry GenAI | `execute_tool` spans, `tool_call` parts | in the span itself; `tool_call_response` parts |
//! | MCP | a `tools/call` request | the response of the same id, or to `tasks/result` |
//!
//! A transcript is one JSON document or JSON lines, and may mix the formats: each object is known by its members. Arguments
//! and results stay the JSON text they were, so that no number loses a digit. No part is passed over: what can be a result and
//! is in no known form is [`Transcript::unrecognised`] (see `accounting`).
//!
//! - `wrapper`: what lies around messages; `message`: messages and their parts; one module for each format;
//! - `pairing`: which result answers which call; `accounting`, `text`: what is left over.

mod accounting;
mod anthropic;
mod bedrock;
mod gemini;
mod json;
mod langchain;
mod mcp;
mod message;
mod openai;
mod pairing;
mod problem;
mod pydantic;
mod telemetry;
mod text;
mod vercel;
mod wrapper;

use std::{collections::BTreeSet, fmt, sync::Arc};

use serde_json::value::RawValue;

pub use problem::{Error, Problem, Unrecognised, Why};

use json::At;
use pairing::Pairing;
use wrapper::visit;

/// The largest transcript read, in bytes (256 MiB).
pub const MAX_BYTES: usize = 256 << 20;

/// The most claims read from one transcript.
pub const MAX_CLAIMS: usize = 1_000_000;

/// The most problems listed for one transcript; more are counted.
pub const MAX_PROBLEMS: usize = 10_000;

/// The most content items of one result taken apart; a longer list is kept as [`ClaimedResult::Json`].
pub const MAX_ITEMS: usize = 100_000;

/// The longest name of a tool, in bytes.
pub const MAX_NAME_BYTES: usize = 1024;

/// The deepest nesting serde_json parses into a value.
pub const MAX_DEPTH: usize = 127;

/// How many lists and wrapping objects may lie around a message.
const MAX_WRAPPINGS: usize = 12;

/// What a transcript says of tools.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Transcript {
    /// The calls in the order of the transcript, with what it says came back; results of no known call where they stand.
    pub claims: Vec<Claim>,
    /// What could not be read, or not be paired.
    pub problems: Vec<Problem>,
    /// How many problems past [`MAX_PROBLEMS`] are not listed.
    pub problems_left_out: usize,
    /// Parts that can be results and are in no known form.
    pub unrecognised: Vec<Unrecognised>,
    /// The formats in which calls or results were seen; empty when there were none.
    pub formats: BTreeSet<Format>,
}

/// A tool result as the transcript tells it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Claim {
    /// Where the result is, or the call when there is no result: `messages[4].content[0]`, `line 12: message`.
    pub at: String,
    /// The transcript's own id of the call; a JSON-RPC id as text.
    pub call: Option<String>,
    /// The receipt the result names in `_meta["credence/guard"].receipt`, where the transcript kept it.
    pub receipt: Option<String>,
    /// The tool; `None` when the result answers no call in the transcript, or the call names no tool (then a [`Problem`]).
    pub tool: Option<String>,
    /// The server, where the transcript names it beside the tool.
    pub server: Option<String>,
    /// The arguments as JSON; `None` when there were none, or they are not JSON (then a [`Problem`]).
    pub arguments: Option<Arc<RawValue>>,
    /// What the transcript says came back.
    pub result: ClaimedResult,
    /// What the transcript says of the same result in other places.
    pub again: Vec<ClaimedResult>,
    /// Whether the transcript calls the result an error.
    pub is_error: bool,
    /// Whether the transcript calls it a success: not every format says so.
    pub is_success: bool,
    /// When call and result come in the transcript.
    pub order: Order,
    /// There is no result, and the model goes on after the call.
    pub is_followed: bool,
}

/// The place of a call and its result among all calls and results of a transcript.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Order {
    /// Which conversation: only within one is there an order.
    pub conversation: usize,
    /// When the call comes.
    pub called: usize,
    /// When the result comes; 0 without one.
    pub answered: usize,
}

/// A result as the transcript tells it. JSON nested deeper than [`MAX_DEPTH`] is kept too, with a [`Problem`].
#[derive(Debug)]
pub enum ClaimedResult {
    /// A text.
    Text(String),
    /// A list of content items.
    Items(Vec<Box<RawValue>>),
    /// A whole MCP `CallToolResult`, or other JSON that is neither text nor list.
    Json(Box<RawValue>),
    /// JSON that may be the result, or hold it in its only member `result`, `output` or `error`.
    Wrapped(Box<RawValue>),
    /// An error in place of a result: of JSON-RPC, or of an `mcp_call` item.
    Error(Box<RawValue>),
    /// Nothing: the transcript shows no result of the call.
    Nothing,
}

impl Claim {
    /// Whether one of the two tells a success and the other a failure, or they name two receipts.
    fn contradicts(&self, other: &Claim) -> bool {
        let two_receipts = matches!((&self.receipt, &other.receipt), (Some(one), Some(two)) if one != two);
        (self.is_error && other.is_success) || (self.is_success && other.is_error) || two_receipts
    }
}

impl Transcript {
    /// Whether something could not be read or recognised that may hide a claim. A claim that is told twice was read.
    pub fn may_hide_claims(&self) -> bool {
        let hides = |why: &Why| !matches!(why, Why::SameId(_) | Why::AnsweredTwice | Why::UnknownCall(_));
        self.problems_left_out > 0
            || !self.unrecognised.is_empty()
            || self.problems.iter().any(|problem| hides(&problem.why))
    }

    /// Whether nothing in it is a tool call or a result, as far as it could be read.
    pub fn is_unrecognised(&self) -> bool {
        self.formats.is_empty() && self.problems.is_empty() && self.unrecognised.is_empty()
    }
}

/// A format of transcripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Messages of OpenAI's chat completions.
    OpenAiChat,
    /// Items of OpenAI's Responses.
    OpenAiResponses,
    /// Content blocks of Anthropic's messages.
    Anthropic,
    /// Parts of Bedrock's Converse.
    Bedrock,
    /// Parts of Gemini's contents.
    Gemini,
    /// Parts of messages of Vercel's AI SDK.
    Vercel,
    /// Messages of Pydantic AI.
    PydanticAi,
    /// Spans of OpenTelemetry.
    OpenTelemetry,
    /// JSON-RPC messages of MCP.
    Mcp,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::OpenAiChat => "OpenAI chat completions",
            Format::OpenAiResponses => "OpenAI Responses",
            Format::Anthropic => "Anthropic messages",
            Format::Bedrock => "Bedrock Converse",
            Format::Gemini => "Gemini",
            Format::Vercel => "Vercel AI SDK",
            Format::PydanticAi => "Pydantic AI",
            Format::OpenTelemetry => "OpenTelemetry GenAI",
            Format::Mcp => "MCP",
        })
    }
}

/// Reads a transcript: a JSON document, or JSON lines. What is wrong within it is in [`Transcript::problems`], what is not
/// recognised in [`Transcript::unrecognised`].
pub fn read(bytes: &[u8]) -> Result<Transcript, Error> {
    read_without(bytes, &[])
}

/// Reads a transcript in which members of these names, outside of calls and results, are known to be no results.
pub fn read_without(bytes: &[u8], ignored_members: &[String]) -> Result<Transcript, Error> {
    if bytes.len() > MAX_BYTES {
        return Err(Error::TooLarge { bytes: bytes.len() });
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if bytes.trim_ascii().is_empty() {
        return Err(Error::Empty);
    }
    let mut pairing = Pairing::without(ignored_members);
    match document(bytes) {
        Ok(document) => visit(&mut pairing, document, &At::Document, MAX_WRAPPINGS),
        Err(error) if !mostly_json_lines(bytes) => return Err(error),
        Err(_) => {
            for (number, line) in lines(bytes) {
                let at = At::Line(number);
                match parse_line(line) {
                    Ok(value) => visit(&mut pairing, value, &at, MAX_WRAPPINGS),
                    Err(why) => pairing.problem(&at, why),
                }
            }
        }
    }
    let (mut transcript, places) = pairing.close()?;
    number_lines(bytes, &mut transcript.unrecognised, &places);
    Ok(transcript)
}

/// Finds the lines in which what is unrecognised begins; `places` are addresses, outside of `bytes` for JSON within texts.
fn number_lines(bytes: &[u8], unrecognised: &mut [Unrecognised], places: &[usize]) {
    let first = bytes.as_ptr() as usize;
    let offset = |place: usize| place.checked_sub(first).filter(|offset| *offset < bytes.len());
    let mut found: Vec<(usize, &mut Unrecognised)> =
        places.iter().zip(unrecognised).filter_map(|(place, one)| Some((offset(*place)?, one))).collect();
    found.sort_by_key(|(offset, _)| *offset);
    let (mut line, mut counted) = (1, 0);
    for (offset, one) in found {
        line += bytes[counted..offset].iter().filter(|byte| **byte == b'\n').count();
        counted = offset;
        one.line = Some(line);
    }
}

fn document(bytes: &[u8]) -> Result<&RawValue, Error> {
    let text = str::from_utf8(bytes).map_err(|error| Error::NotUtf8 { offset: error.valid_up_to() })?;
    serde_json::from_str(text).map_err(|error| Error::NotJson {
        line: error.line(),
        column: error.column(),
        message: json::message(&error),
    })
}

/// Whether half of the lines or more are each an object or a list: a document that breaks off has few such lines, JSON
/// lines with a damaged line in between have many.
fn mostly_json_lines(bytes: &[u8]) -> bool {
    let (mut whole, mut all) = (0usize, 0usize);
    for (_, line) in lines(bytes) {
        all += 1;
        whole += usize::from(matches!(line.first(), Some(b'{' | b'[')) && parse_line(line).is_ok());
    }
    all > 1 && whole * 2 >= all
}

/// The lines that are not blank, with their numbers from 1.
fn lines(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let numbered = (1..).zip(bytes.split(|byte| *byte == b'\n'));
    numbered.map(|(number, line)| (number, line.trim_ascii())).filter(|(_, line)| !line.is_empty())
}

fn parse_line(line: &[u8]) -> Result<&RawValue, Why> {
    let text = str::from_utf8(line).map_err(|_| Why::NotUtf8)?;
    serde_json::from_str(text).map_err(|error| Why::NotJson { column: error.column(), message: json::message(&error) })
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod unknown_forms;
