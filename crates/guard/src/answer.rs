//! An answer of the server, and what is in it: its views for the receipt, the value for the engine, its texts, and the parts whose
//! digests are kept.

use std::borrow::Cow;

use credence_protocol::receipt::{CallOutcome, Exact, Form, View, forms_of_error, forms_of_result};
use credence_receipts::parts::{judged_part, leaves};
use serde_json::{Value, value::RawValue};

use crate::{
    agreement::{Agreement, compare},
    both::{LARGE_BYTES, both},
    content, vetting,
};

/// Bytes of an answer beyond which no parts are looked at.
const MAX_PARTS_BYTES: usize = 256 * 1024;
/// Bytes of an answer that is judged: beyond it parsing alone would hold up everything behind it.
const MAX_JUDGED_BYTES: usize = 16 * 1024 * 1024;

/// An answer from the server.
#[derive(Clone, Copy)]
pub enum Answer<'a> {
    /// A result.
    Result(&'a RawValue),
    /// A result by which the tool asks for input before it goes on.
    NeedsInput(&'a RawValue),
    /// An error of the protocol.
    Error(&'a RawValue),
    /// An answer that two readers may read differently.
    Ambiguous(&'a str),
    /// None.
    Nothing,
    /// One too large to be kept, of so many bytes.
    TooLarge(usize),
}

/// What is in an answer.
pub(crate) struct AnswerParts {
    pub outcome: CallOutcome,
    pub forms: Vec<Form>,
    /// What the engine judges.
    pub value: Option<Value>,
    pub texts: Vec<String>,
    /// There is nothing in it.
    pub empty: bool,
    /// Some of its members are not the protocol's.
    pub foreign: bool,
    /// It has structured content.
    pub structured: bool,
    /// What its content says, where that is not what its structure says.
    pub differing: Option<DifferingText>,
    pub leaves: Leaves,
}

/// The parts of a value with their forms, by which one can tell where a claim differs.
pub(crate) enum Leaves {
    /// None are looked at.
    None,
    /// Told apart.
    Apart(Vec<(String, String)>),
    /// The canonical form of the value: told apart when somebody asks, so that no call waits for it.
    Whole(String),
}

impl Leaves {
    /// Told apart.
    pub fn apart(&self) -> Cow<'_, [(String, String)]> {
        match self {
            Leaves::None => Cow::Borrowed(&[]),
            Leaves::Apart(parts) => Cow::Borrowed(parts),
            // A canonical form is always read.
            Leaves::Whole(form) => Exact::parse(form).map_or(Cow::Borrowed(&[]), |value| leaves(&value).into()),
        }
    }
}

/// Content that says something else than the structure beside it.
pub(crate) struct DifferingText {
    /// What it says, as the engine judges it; `None` where that cannot be judged.
    pub value: Option<Value>,
    /// It holds a number that neither the structure nor the arguments hold.
    pub odd_numbers: bool,
}

/// What of a result is judged.
struct ToJudge {
    /// The value, or why there is none.
    value: Result<Value, String>,
    leaves: Leaves,
}

impl ToJudge {
    fn of(result: &Exact<'_>, bytes: usize) -> Self {
        if bytes > MAX_JUDGED_BYTES {
            let why = format!("a result of {bytes} bytes; up to {MAX_JUDGED_BYTES} are judged");
            return Self { value: Err(why), leaves: Leaves::None };
        }
        let judged = judged_part(result);
        let leaves = if bytes <= MAX_PARTS_BYTES { Leaves::Apart(leaves(&judged)) } else { Leaves::None };
        let value =
            content::value(&judged).map_err(|_| "a number in the result is beyond what can be judged".to_owned());
        Self { value, leaves }
    }
}

/// What is looked at beside it.
struct Beside {
    texts: Vec<String>,
    differing: Option<DifferingText>,
}

impl Beside {
    fn of(result: &Exact<'_>, bytes: usize, arguments: Option<&Exact<'_>>, with_texts: bool) -> Self {
        let texts = if with_texts { content::texts(result) } else { Vec::new() };
        let agreement = if bytes > MAX_JUDGED_BYTES { Agreement::Same } else { compare(result, arguments) };
        let differing = match agreement {
            Agreement::Differs { content, odd_numbers } => Some(DifferingText { value: content, odd_numbers }),
            Agreement::Same => None,
        };
        Self { texts, differing }
    }
}

impl AnswerParts {
    /// Why there is no verdict on it.
    pub fn why_unjudged(&self) -> &'static str {
        match self.outcome {
            CallOutcome::ToolError => "the tool reported an error",
            CallOutcome::ProtocolError => "the server answered with an error",
            CallOutcome::Unanswered => "there was no answer",
            CallOutcome::Result => "",
        }
    }

    /// Takes an answer apart, its texts too where somebody will read them; what keeps it from being judged is told in `unjudged`.
    pub fn parse(
        answer: Answer<'_>,
        arguments: Option<&Exact<'_>>,
        with_texts: bool,
        unjudged: &mut Option<String>,
    ) -> Self {
        let mut parts = Self {
            outcome: CallOutcome::Unanswered,
            forms: Vec::new(),
            value: None,
            texts: Vec::new(),
            empty: false,
            foreign: false,
            structured: false,
            differing: None,
            leaves: Leaves::None,
        };
        match answer {
            Answer::Nothing => {}
            Answer::TooLarge(bytes) => {
                parts.outcome = CallOutcome::Result;
                *unjudged =
                    Some(format!("its answer of {bytes} bytes is larger than the guard takes, and was dropped"));
            }
            Answer::Ambiguous(why) => {
                parts.outcome = CallOutcome::Result;
                *unjudged = Some(format!("the answer can be read in two ways: {why}"));
                parts.forms = vec![(View::Whole, "ambiguous".to_owned())];
            }
            Answer::NeedsInput(raw) => {
                parts.outcome = CallOutcome::Result;
                *unjudged = Some("the tool asks for input before it goes on".to_owned());
                parts.forms = match Exact::of(raw) {
                    Ok(exact) => forms_of_result(&exact),
                    Err(_) => vec![(View::Whole, raw.get().to_owned())],
                };
            }
            Answer::Error(raw) => {
                parts.outcome = CallOutcome::ProtocolError;
                match Exact::of(raw) {
                    Ok(error) => parts.forms = forms_of_error(&error),
                    Err(_) => parts.forms = vec![(View::Whole, raw.get().to_owned())],
                }
            }
            Answer::Result(raw) => {
                parts.outcome = CallOutcome::Result;
                let exact = match Exact::of(raw) {
                    Ok(exact) => exact,
                    // The parser's words may be the server's: they stay out of what a model reads.
                    Err(_) => {
                        *unjudged = Some("a member of the result is there twice, or it is nested too deep".to_owned());
                        parts.forms = vec![(View::Whole, raw.get().to_owned())];
                        return parts;
                    }
                };
                if matches!(exact.get("isError"), Some(Exact::Word("true"))) {
                    parts.outcome = CallOutcome::ToolError;
                }
                parts.structured = exact.get("structuredContent").is_some_and(|structured| !structured.is_null());
                let bytes = raw.get().len();
                // The halves take about as long as each other.
                let (judged, beside) = both(
                    bytes >= LARGE_BYTES,
                    || {
                        parts.foreign = vetting::has_foreign_members(&exact);
                        parts.empty = !parts.foreign && content::is_empty(&exact);
                        parts.forms = forms_of_result(&exact);
                        ToJudge::of(&exact, bytes)
                    },
                    || Beside::of(&exact, bytes, arguments, with_texts),
                );
                parts.leaves = judged.leaves;
                parts.texts = beside.texts;
                parts.differing = beside.differing;
                match judged.value {
                    Ok(value) => parts.value = Some(value),
                    Err(why) => *unjudged = Some(why),
                }
            }
        }
        parts
    }
}
