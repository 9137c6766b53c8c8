//! Transcripts as short lines, for tests.

pub(super) use super::{ClaimedResult, Format, Transcript, read};

pub(super) fn read_text(text: &str) -> Transcript {
    read(text.as_bytes()).unwrap()
}

/// Reads a transcript that has no problems, and nothing unrecognised in it.
pub(super) fn clean(text: &str) -> Transcript {
    let transcript = read_text(text);
    assert_eq!(problems(&transcript), [""; 0]);
    assert_eq!(unrecognised(&transcript), [""; 0]);
    transcript
}

pub(super) fn unrecognised(transcript: &Transcript) -> Vec<String> {
    transcript.unrecognised.iter().map(ToString::to_string).collect()
}

pub(super) fn problems(transcript: &Transcript) -> Vec<String> {
    transcript.problems.iter().map(ToString::to_string).collect()
}

pub(super) fn formats(transcript: &Transcript) -> Vec<Format> {
    transcript.formats.iter().copied().collect()
}

/// Each claim as `at call tool arguments = result`, with `!` for an error and then the receipt.
pub(super) fn told(transcript: &Transcript) -> Vec<String> {
    let claims = transcript.claims.iter().map(|claim| {
        let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let arguments = claim.arguments.as_ref().map_or("-", |arguments| arguments.get());
        let result = match &claim.result {
            ClaimedResult::Text(text) => format!("text {text}"),
            ClaimedResult::Items(items) => items.iter().fold("items".to_owned(), |line, item| line + " " + item.get()),
            ClaimedResult::Json(json) => format!("json {json}"),
            ClaimedResult::Wrapped(json) => format!("wrapped {json}"),
            ClaimedResult::Error(json) => format!("error {json}"),
            ClaimedResult::Nothing => "nothing".to_owned(),
        };
        let mut line = format!("{} {} {} {arguments} = {result}", claim.at, or_dash(&claim.call), or_dash(&claim.tool));
        if claim.is_error {
            line += " !";
        }
        claim.receipt.iter().fold(line, |line, receipt| line + " " + receipt)
    });
    claims.collect()
}
