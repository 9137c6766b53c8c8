//! Which parts of a claim differ, by their digests: what the parts were is not kept.

use std::collections::HashMap;

use credence_protocol::receipt::CallOutcome;

use super::compare::{Candidate, ComparableClaim};
use crate::{
    parts::{digest, digests},
    records::PartDigests,
};

/// Differences that are named.
const MAX_DIFFERENCES: usize = 8;

/// Which parts of the claimed result differ from the receipt's.
pub(super) fn result_differences(one: &Candidate, parts: &PartDigests, claim: &ComparableClaim<'_>) -> Vec<String> {
    let outcome = match one.found.receipt.outcome {
        CallOutcome::Unanswered => "the call was forwarded and no answer came",
        CallOutcome::ProtocolError if claim.claim.is_success => {
            "the server answered with an error; the claim calls it a success"
        }
        CallOutcome::ProtocolError if claim.claim.is_error => {
            "the server answered with an error; the claim tells it in other words"
        }
        CallOutcome::ProtocolError => "the server answered with an error; the claim shows something else",
        CallOutcome::Result if claim.claim.is_error => "the call succeeded; the claim calls it an error",
        CallOutcome::ToolError if claim.claim.is_success => "the tool reported an error; the claim calls it a success",
        CallOutcome::ToolError if !claim.claim.is_error => "the tool reported an error; the claim shows something else",
        CallOutcome::Result | CallOutcome::ToolError => "",
    };
    if !outcome.is_empty() {
        return vec![outcome.to_owned()];
    }
    let claimed: Vec<(String, String)> =
        claim.parts.iter().map(|(path, form)| (path.clone(), digest(&one.private.salts.result, path, form))).collect();
    if one.found.receipt.outcome == CallOutcome::Result
        && one.found.receipt.unjudged.is_some()
        && parts.result.is_empty()
    {
        return vec!["the result, which the guard could not read in one way".to_owned()];
    }
    let named = compare("result", &parts.result, &claimed);
    if named.is_empty() { vec!["the result".to_owned()] } else { named }
}

/// Which parts of the claimed arguments differ from the receipt's.
pub(super) fn argument_differences(one: &Candidate, parts: &PartDigests, claim: &ComparableClaim<'_>) -> Vec<String> {
    let claimed =
        claim.arguments.as_ref().map(|value| digests(value, &one.private.salts.arguments)).unwrap_or_default();
    let named = compare("arguments", &parts.arguments, &claimed);
    if named.is_empty() { vec!["the arguments".to_owned()] } else { named }
}

/// Which parts differ, by their digests: what they were is not kept.
fn compare(what: &str, real: &[(String, String)], claimed: &[(String, String)]) -> Vec<String> {
    if real.is_empty() {
        return Vec::new();
    }
    let reals: HashMap<&str, &str> = real.iter().map(|(path, digest)| (path.as_str(), digest.as_str())).collect();
    let claims: HashMap<&str, &str> = claimed.iter().map(|(path, digest)| (path.as_str(), digest.as_str())).collect();
    let name = |path: &str| if path.is_empty() { what.to_owned() } else { format!("{what}: {path}") };
    let mut differs: Vec<String> = Vec::new();
    for (path, digest) in claimed {
        match reals.get(path.as_str()) {
            Some(real) if real == digest => {}
            Some(_) => differs.push(format!("{} has another value", name(path))),
            None => differs.push(format!("{} was not there", name(path))),
        }
    }
    for (path, _) in real {
        if !claims.contains_key(path.as_str()) {
            differs.push(format!("{} is missing", name(path)));
        }
    }
    let more = differs.len().saturating_sub(MAX_DIFFERENCES);
    differs.truncate(MAX_DIFFERENCES);
    if more > 0 {
        differs.push(format!("and {more} more"));
    }
    differs
}
