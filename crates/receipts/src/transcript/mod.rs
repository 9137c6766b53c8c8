//! Transcripts: what an agent says its tools gave back, read into [`Claim`]s that the receipts of a guard can be held
//! against. Nothing here judges a claim.
//!
//! | format | a call | its result |
//! |---|---|---|
//! | OpenAI chat completions | `tool_calls`, `function_call` | `role: "tool"`, `role: "function"` |
//! | OpenAI Responses | `function_call`, `custom_tool_call`, `mcp_call` | `…_output` items; in the `mcp_call` itself |
//! | Anthropic messages | `tool_use`, `mcp_tool_use` | `tool_result`, `mcp_tool_result` |
//! | MCP | a `tools/call` request | the response of the same id |
//!
//! A transcript is one JSON document or JSON lines, and may mix the formats: each object is known by its members. Arguments
//! and results stay the JSON text they were, so that no number loses a digit.

mod anthropic;
mod json;
mod mcp;
mod openai;
mod pairing;

use std::{collections::BTreeSet, fmt, sync::Arc};

use serde_json::value::RawValue;

use json::{At, Node};
use pairing::Pairing;

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
    /// The arguments as JSON; `None` when there were none, or they are not JSON (then a [`Problem`]).
    pub arguments: Option<Arc<RawValue>>,
    /// What the transcript says came back.
    pub result: ClaimedResult,
    /// Whether the transcript calls the result an error.
    pub is_error: bool,
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
    /// An error in place of a result: of JSON-RPC, or of an `mcp_call` item.
    Error(Box<RawValue>),
    /// Nothing: the transcript shows no result of the call.
    Nothing,
}

impl Transcript {
    /// Whether something could not be read that may hide a claim. A claim that is told twice was read.
    pub fn may_hide_claims(&self) -> bool {
        let hides = |why: &Why| !matches!(why, Why::SameId(_) | Why::AnsweredTwice | Why::UnknownCall(_));
        self.problems_left_out > 0 || self.problems.iter().any(|problem| hides(&problem.why))
    }

    /// Whether nothing in it is a tool call or a result, as far as it could be read.
    pub fn is_unrecognised(&self) -> bool {
        self.formats.is_empty() && self.problems.is_empty()
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
    /// JSON-RPC messages of MCP.
    Mcp,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::OpenAiChat => "OpenAI chat completions",
            Format::OpenAiResponses => "OpenAI Responses",
            Format::Anthropic => "Anthropic messages",
            Format::Mcp => "MCP",
        })
    }
}

/// Something in the transcript that could not be read, or not be paired.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {why}")]
pub struct Problem {
    /// Where, as in [`Claim::at`].
    pub at: String,
    /// What is wrong there.
    pub why: Why,
}

/// What is wrong in a place of a transcript.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Why {
    /// A line is not JSON; the lines after it are read.
    #[error("not JSON, column {column}: {message}")]
    NotJson {
        /// Where in the line, counted in bytes from 1.
        column: usize,
        /// What the parser says.
        message: String,
    },
    /// A line is not UTF-8; the lines after it are read.
    #[error("not UTF-8 text")]
    NotUtf8,
    /// A message, a call or a block is not an object.
    #[error("not a JSON object")]
    NotAnObject,
    /// A list of calls or blocks is something else.
    #[error("not a JSON list")]
    NotAList,
    /// An object names a member twice, and readers differ in which of the two they take.
    #[error("the member `{0}` is there twice; the object is not read")]
    Repeated(&'static str),
    /// An object cannot be read for another reason.
    #[error("cannot be read: {0}")]
    Unreadable(String),
    /// More lists and objects around a message than transcripts have.
    #[error("nested too deep for a transcript")]
    TooWrapped,
    /// Arguments or a result that serde_json does not parse into a value; the claim keeps the text.
    #[error("nested deeper than 127 levels")]
    TooDeep,
    /// A result of more than [`MAX_ITEMS`] items; the claim keeps it as JSON.
    #[error("more than 100000 content items")]
    TooManyItems,
    /// A result that is a JSON string but no text; the claim keeps it as JSON.
    #[error("half a surrogate pair in the text")]
    NotText,
    /// The arguments of a call are not JSON.
    #[error("the arguments are not JSON: {0}")]
    Arguments(String),
    /// A call without the name of its tool, or with one longer than [`MAX_NAME_BYTES`].
    #[error("the call names no tool")]
    NoName,
    /// A call or a result without an id.
    #[error("no id says which call this is")]
    NoId,
    /// An answer without content, or a response with neither result nor error.
    #[error("the tool's answer has no content")]
    NoResult,
    /// A result and an error at once.
    #[error("both a result and an error; the result is read")]
    ResultAndError,
    /// Two calls have one id.
    #[error("another call has the id {0}")]
    SameId(String),
    /// A result that answers no call.
    #[error("no call in the transcript has the id {0}")]
    UnknownCall(String),
    /// A second result of one call. Both are claims.
    #[error("the call was answered before (answered twice)")]
    AnsweredTwice,
}

/// Why a transcript cannot be read at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Larger than [`MAX_BYTES`]: split it.
    #[error("the transcript has {bytes} bytes; at most 256 MiB are read")]
    TooLarge {
        /// The size.
        bytes: usize,
    },
    /// Nothing but white space: probably not the file that was meant.
    #[error("the transcript is empty")]
    Empty,
    /// Not UTF-8: convert it, or find what damaged it.
    #[error("the transcript is not UTF-8 text, from byte {offset} on")]
    NotUtf8 {
        /// Where the first bad byte is, from 0 after a byte order mark.
        offset: usize,
    },
    /// Neither a JSON document nor JSON lines.
    #[error("the transcript is not JSON, line {line} column {column}: {message}")]
    NotJson {
        /// The line, from 1.
        line: usize,
        /// The column in bytes, from 1.
        column: usize,
        /// What the parser says.
        message: String,
    },
    /// More than [`MAX_CLAIMS`] calls and results: split it.
    #[error("the transcript has more than a million tool calls")]
    TooManyCalls,
}

/// Reads a transcript: a JSON document, or JSON lines. What is wrong within it is in [`Transcript::problems`].
pub fn read(bytes: &[u8]) -> Result<Transcript, Error> {
    if bytes.len() > MAX_BYTES {
        return Err(Error::TooLarge { bytes: bytes.len() });
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if bytes.trim_ascii().is_empty() {
        return Err(Error::Empty);
    }
    let mut pairing = Pairing::default();
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
    pairing.close()
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

/// Reads a message, or what has messages in it.
fn visit(pairing: &mut Pairing, raw: &RawValue, at: &At<'_>, wrappings: usize) {
    let Some(wrappings) = wrappings.checked_sub(1) else { return pairing.problem(at, Why::TooWrapped) };
    if json::is_list(raw) {
        return pairing.each(raw, at, |pairing, item, at| visit(pairing, item, at, wrappings));
    }
    let Some(node) = pairing.node(raw, at) else { return };
    if mcp::is_message(&node) {
        return mcp::message(pairing, &node, at);
    }
    if openai::item(pairing, &node, at) || anthropic::block(pairing, &node, at) {
        return;
    }
    if openai::is_message(&node) {
        if !openai::message(pairing, &node, at)
            && let Some(content) = node.content
        {
            anthropic::content(pairing, content, &at.member("content"));
        }
        return;
    }
    // As anything but lists, these two are a tool's.
    let wrappers = [
        ("input", node.input.filter(|value| json::is_list(value))),
        ("output", node.output.filter(|value| json::is_list(value))),
        ("messages", node.messages),
        ("items", node.items),
        ("transcript", node.transcript),
        ("events", node.events),
        ("choices", node.choices),
        ("message", node.message),
        ("msg", node.msg),
        ("payload", node.payload),
        ("data", node.data),
        ("request", node.request),
        ("response", node.response),
        ("body", node.body),
    ];
    for (name, value) in wrappers {
        let at = at.member(name);
        match value {
            Some(value) if json::is_list(value) || json::is_object(value) => visit(pairing, value, &at, wrappings),
            Some(value) => quoted_message(pairing, value, &at),
            None => {}
        }
    }
}

/// Reads a JSON-RPC message that a log kept as a text.
fn quoted_message(pairing: &mut Pairing, value: &RawValue, at: &At<'_>) {
    let Some(text) = json::text(value).filter(|text| text.trim_start().starts_with('{')) else { return };
    let Ok(message) = serde_json::from_str::<&RawValue>(&text) else { return };
    if let Ok(node) = Node::read(message)
        && node.jsonrpc.is_some()
    {
        mcp::message(pairing, &node, at);
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
