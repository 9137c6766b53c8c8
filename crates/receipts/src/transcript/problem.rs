//! What can be wrong with a transcript: places that cannot be read, paired or recognised, and why it cannot be read at all.

use serde::Serialize;

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
    /// A result names a tool, and its call another: who reads it takes it for the wrong tool's.
    #[error("the result is said to be of '{0}', and its call is of another tool")]
    OtherTool(String),
    /// A second result of one call. Both are claims.
    #[error("the call was answered before (answered twice)")]
    AnsweredTwice,
}

/// A part of the transcript that may tell a result, and that is in no form known here. Nothing is said of what it tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{}{}: {what}", .line.map(|line| format!("line {line}, ")).unwrap_or_default(), if .pointer.is_empty() { "the whole document" } else { .pointer })]
pub struct Unrecognised {
    /// Where, as a JSON pointer (RFC 6901) into the document, or into the line of JSON lines.
    pub pointer: String,
    /// The line it begins in, from 1; none within JSON that stands in a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// What stands there.
    pub what: String,
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
