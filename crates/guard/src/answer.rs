//! What is in an answer: its views for the receipt, the value for the engine, its texts, and the parts by which a claim that differs
//! can be told where.

use credence_protocol::{
    SecretKey,
    receipt::{CallOutcome, Exact, Form, Salt, View, cut_name, forms_of_error, forms_of_result},
};
use serde_json::Value;

use crate::{content, guard::Answer};

/// Parts of a value of which digests are kept, to say which of them a claim has changed.
const MAX_PARTS: usize = 256;
/// Bytes of an answer beyond which no parts are looked at.
const MAX_PARTS_BYTES: usize = 256 * 1024;
/// Bytes of an answer that is judged: beyond it parsing alone would hold up everything behind it.
const MAX_JUDGED_BYTES: usize = 16 * 1024 * 1024;

/// What is in an answer.
pub(crate) struct Look {
    pub outcome: CallOutcome,
    pub forms: Vec<Form>,
    /// What the engine judges.
    pub value: Option<Value>,
    pub texts: Vec<String>,
    /// There is nothing in it.
    pub empty: bool,
    /// Parts with their forms.
    pub leaves: Vec<(String, String)>,
}

impl Look {
    /// Why there is no verdict on it.
    pub fn outcome_word(&self) -> &'static str {
        match self.outcome {
            CallOutcome::ToolError => "the tool reported an error",
            CallOutcome::ProtocolError => "the server answered with an error",
            CallOutcome::Unanswered => "there was no answer",
            CallOutcome::Result => "",
        }
    }
}

/// Looks into an answer; what keeps it from being judged is told in `unjudged`.
pub(crate) fn look(answer: Answer<'_>, unjudged: &mut Option<String>) -> Look {
    let mut look = Look {
        outcome: CallOutcome::Unanswered,
        forms: Vec::new(),
        value: None,
        texts: Vec::new(),
        empty: false,
        leaves: Vec::new(),
    };
    match answer {
        Answer::Nothing => {}
        Answer::TooLarge(bytes) => {
            look.outcome = CallOutcome::Result;
            *unjudged = Some(format!("its answer of {bytes} bytes is larger than the guard takes, and was dropped"));
        }
        Answer::Ambiguous(why) => {
            look.outcome = CallOutcome::Result;
            *unjudged = Some(format!("the answer can be read in two ways: {why}"));
            look.forms = vec![(View::Whole, "ambiguous".to_owned())];
        }
        Answer::Error(raw) => {
            look.outcome = CallOutcome::ProtocolError;
            match Exact::of(raw) {
                Ok(error) => look.forms = forms_of_error(&error),
                Err(_) => look.forms = vec![(View::Whole, raw.get().to_owned())],
            }
        }
        Answer::Result(raw) => {
            look.outcome = CallOutcome::Result;
            let exact = match Exact::of(raw) {
                Ok(exact) => exact,
                // The parser's words may be the server's: they stay out of what a model reads.
                Err(_) => {
                    *unjudged = Some("a member of the result is there twice, or it is nested too deep".to_owned());
                    look.forms = vec![(View::Whole, raw.get().to_owned())];
                    return look;
                }
            };
            if matches!(exact.get("isError"), Some(Exact::Word("true"))) {
                look.outcome = CallOutcome::ToolError;
            }
            look.forms = forms_of_result(&exact);
            look.texts = content::texts(&exact);
            look.empty = content::is_empty(&exact);
            if raw.get().len() > MAX_JUDGED_BYTES {
                *unjudged = Some(format!("a result of {} bytes; up to {MAX_JUDGED_BYTES} are judged", raw.get().len()));
                return look;
            }
            let judged = content::judged(&exact);
            if raw.get().len() <= MAX_PARTS_BYTES {
                look.leaves = leaves(&judged);
            }
            match content::value(&judged) {
                Ok(value) => look.value = Some(value),
                Err(_) => *unjudged = Some("a number in the result is beyond what can be judged".to_owned()),
            }
        }
    }
    look
}

/// The parts of a value, with their forms: its leaves, or the lines of a text.
pub fn leaves(value: &Exact<'_>) -> Vec<(String, String)> {
    let mut parts = Vec::new();
    if let Exact::Text(text) = value {
        let lines = text.lines().take(MAX_PARTS).enumerate();
        return lines.map(|(n, line)| (format!("line {}", n + 1), line.trim_end().to_owned())).collect();
    }
    value.leaves(&mut |path, form| {
        if parts.len() < MAX_PARTS {
            parts.push((cut_name(path), form.to_owned()));
        }
    });
    parts
}

/// The digests of a value's parts.
pub fn digests(value: &Exact<'_>, salt: &Salt) -> Vec<(String, String)> {
    leaves(value).into_iter().map(|(path, form)| (path.clone(), digest(salt, &path, &form))).collect()
}

/// By which a receipt is found from its arguments. Keyed, so that it says nothing to others.
pub fn fingerprint(key: &SecretKey, arguments: Option<&Exact<'_>>) -> [u8; 16] {
    use sha2::{Digest, Sha256};
    let form = arguments.filter(|value| !value.is_null()).map_or_else(|| "{}".to_owned(), Exact::canonical);
    let mut hash = Sha256::new();
    hash.update(b"credence/guard/fingerprint");
    hash.update(*key.seed());
    hash.update(form.as_bytes());
    let mut print = [0; 16];
    print.copy_from_slice(&hash.finalize()[..16]);
    print
}

/// The digest of one part: enough of it to tell two values apart.
pub fn digest(salt: &Salt, path: &str, form: &str) -> String {
    let mut text = salt.commit(path, form).to_string();
    text.truncate(16);
    text
}
