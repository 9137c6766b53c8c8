//! One claim against one receipt.

use std::borrow::Cow;

use credence_protocol::receipt::{CallOutcome, Exact, Reading, View, Views, forms_of_error, readings_of_text};
use sha2::{Digest, Sha256};

use super::{
    matching::Match,
    wording::{tells_no_answer, without_preamble},
};
use crate::{
    FoundReceipt,
    parts::{judged_part, leaves},
    records::Private,
    transcript::{Claim, ClaimedResult},
};

/// A receipt among those that claims are held against.
pub(super) struct Candidate {
    pub found: FoundReceipt,
    pub private: Private,
    /// The number of its tool.
    pub kind: usize,
    /// A claim is backed by it.
    pub claimed: bool,
}

/// A claim, made comparable.
pub(super) struct ComparableClaim<'a> {
    pub claim: &'a Claim,
    pub arguments: Option<Exact<'a>>,
    /// There are arguments, and two readers may read them differently.
    unreadable: bool,
    pub readings: Vec<Reading>,
    /// Of what is told of the same result elsewhere.
    again: Vec<Vec<Reading>>,
    /// Of an error, without the words that the client put around it.
    readings_of_error: Vec<Reading>,
    /// It says that no answer came, and nothing else.
    tells_no_answer: bool,
    /// Parts of the result, to say what differs.
    pub parts: Vec<(String, String)>,
}

impl<'a> ComparableClaim<'a> {
    pub fn of(claim: &'a Claim) -> Self {
        let arguments = claim.arguments.as_deref().and_then(|raw| Exact::of(raw).ok());
        let unreadable = claim.arguments.is_some() && arguments.is_none();
        let tool = claim.tool.as_deref().unwrap_or_default();
        let text = only_text(&claim.result);
        let told_errors = text.as_deref().map(|text| without_preamble(text, tool)).unwrap_or_default();
        Self {
            claim,
            arguments,
            unreadable,
            readings: readings_of(&claim.result),
            again: claim.again.iter().map(readings_of).collect(),
            readings_of_error: told_errors.into_iter().flat_map(readings_of_text).collect(),
            tells_no_answer: std::iter::once(&claim.result)
                .chain(&claim.again)
                .all(|told| only_text(told).is_some_and(|text| tells_no_answer(&text, tool))),
            parts: parts_of(&claim.result),
        }
    }

    /// What two claims have in common that are one and the same, call id included; `None` where that cannot be told.
    pub fn identity(&self) -> Option<(&'a str, [u8; 32])> {
        let call = self.claim.call.as_deref()?;
        if self.readings.is_empty() || self.unreadable {
            return None;
        }
        let arguments = self.arguments.as_ref().map(Exact::canonical);
        let Claim { tool, server, is_error, is_success, .. } = self.claim;
        // Not a quick hash: two claims that were made to collide would pass for one.
        let told = format!("{:?}", (tool, server, is_error, is_success, arguments, &self.readings, &self.again));
        Some((call, Sha256::digest(told).into()))
    }
}

/// The ways to read a claimed result.
fn readings_of(result: &ClaimedResult) -> Vec<Reading> {
    match result {
        ClaimedResult::Text(text) => readings_of_text(text),
        ClaimedResult::Items(items) => readings(&list_of(items)),
        ClaimedResult::Json(raw) => readings(raw.get()),
        ClaimedResult::Wrapped(raw) => {
            let mut all = readings(raw.get());
            if let Ok(Exact::Object(members)) = Exact::of(raw) {
                let mut told = members.iter().filter(|(_, value)| !value.is_null());
                match (told.next(), told.next()) {
                    (Some((name, value)), None) if ["result", "output", "error"].contains(&name.as_ref()) => {
                        all.extend(match value {
                            Exact::Text(text) => readings_of_text(text),
                            other => other.readings(),
                        });
                    }
                    // A tool that returned nothing.
                    (None, _) => {
                        let named = ["result", "output"].into_iter().find_map(|name| members.get(name));
                        all.extend(named.into_iter().flat_map(Exact::readings));
                    }
                    _ => {}
                }
            }
            all
        }
        ClaimedResult::Error(raw) => {
            let forms = Exact::of(raw).map(|error| match &error {
                Exact::Text(text) => readings_of_text(text).concat(),
                other => forms_of_error(other),
            });
            forms.unwrap_or_default().into_iter().map(|form| vec![form]).collect()
        }
        ClaimedResult::Nothing => Vec::new(),
    }
}

fn parts_of(result: &ClaimedResult) -> Vec<(String, String)> {
    match result {
        ClaimedResult::Text(text) => parts_of_text(text),
        ClaimedResult::Items(items) => match items.as_slice() {
            // Frameworks have types of their own for it.
            [only] => match Exact::of(only).map(|item| item.get("text").and_then(Exact::as_text).map(str::to_owned)) {
                Ok(Some(text)) => parts_of_text(&text),
                _ => parts_of_items(items),
            },
            _ => parts_of_items(items),
        },
        ClaimedResult::Json(raw) | ClaimedResult::Wrapped(raw) => parts_of_result(raw.get()),
        ClaimedResult::Error(_) | ClaimedResult::Nothing => Vec::new(),
    }
}

fn parts_of_items(items: &[Box<serde_json::value::RawValue>]) -> Vec<(String, String)> {
    parts_of_result(&format!("{{\"content\":{}}}", list_of(items)))
}

fn list_of(items: &[Box<serde_json::value::RawValue>]) -> String {
    format!("[{}]", items.iter().map(|item| item.get()).collect::<Vec<_>>().join(","))
}

/// The text of a result that is nothing but one.
fn only_text(result: &ClaimedResult) -> Option<Cow<'_, str>> {
    let of_value = |value: &Exact<'_>| {
        let text = value.as_text().or_else(|| value.get("text").and_then(Exact::as_text));
        text.or_else(|| value.get("message").and_then(Exact::as_text)).map(str::to_owned)
    };
    match result {
        ClaimedResult::Text(text) => Some(Cow::Borrowed(text)),
        ClaimedResult::Items(items) if items.len() == 1 => of_value(&Exact::of(&items[0]).ok()?).map(Cow::Owned),
        ClaimedResult::Error(raw) => of_value(&Exact::of(raw).ok()?).map(Cow::Owned),
        ClaimedResult::Wrapped(raw) => of_value(Exact::of(raw).ok()?.get("error")?).map(Cow::Owned),
        ClaimedResult::Json(raw) => match Exact::of(raw).ok()?.get("content")? {
            Exact::List(items) if items.len() == 1 => of_value(&items[0]).map(Cow::Owned),
            _ => None,
        },
        _ => None,
    }
}

fn readings(json: &str) -> Vec<Reading> {
    Exact::parse(json).map(|value| value.readings()).unwrap_or_default()
}

fn parts_of_text(text: &str) -> Vec<(String, String)> {
    match Exact::parse(text) {
        Ok(value @ Exact::Object(_)) if value.get("content").is_some() => parts_of_result(text),
        Ok(value @ (Exact::Object(_) | Exact::List(_))) => leaves(&value),
        _ => leaves(&Exact::Text(text.into())),
    }
}

fn parts_of_result(json: &str) -> Vec<(String, String)> {
    Exact::parse(json).map(|value| leaves(&judged_part(&value))).unwrap_or_default()
}

/// How a result compares.
pub(super) enum Compared {
    /// Equal, in this view.
    Equal(View),
    /// Both say that the call failed.
    Failed,
}

impl Compared {
    /// As a match with candidate `n`.
    pub fn at(self, n: usize) -> Match {
        match self {
            Compared::Equal(view) => Match::Executed(n, view),
            Compared::Failed => Match::Failed(n),
        }
    }
}

impl Candidate {
    /// Whether the claimed arguments are those of the receipt.
    pub fn arguments_match(&self, claim: &ComparableClaim<'_>) -> bool {
        !claim.unreadable && self.private.salts.arguments(claim.arguments.as_ref()) == self.found.receipt.arguments
    }

    /// How the claimed result compares; `None` where it is another.
    pub fn result(&self, claim: &ComparableClaim<'_>) -> Option<Compared> {
        let receipt = &self.found.receipt;
        // Clients say in their own words that no answer came, or that it was dropped. Such a call backs nothing else.
        let without_result = receipt.outcome == CallOutcome::Unanswered || receipt.result.is_none();
        if without_result {
            let told = claim.tells_no_answer && !claim.claim.is_success;
            return told.then_some(Compared::Failed);
        }
        let failed = matches!(receipt.outcome, CallOutcome::ToolError | CallOutcome::ProtocolError);
        // A failure told as a success is not what happened.
        if failed && claim.claim.is_success {
            return None;
        }
        let matching = |views: &Option<Views>, readings: &[Reading]| {
            views.as_ref().and_then(|views| views.matching(&self.private.salts.result, readings))
        };
        let matched = matching(&receipt.delivered, &claim.readings)
            // Nor is a success told as a failure.
            .or_else(|| matching(&receipt.result, &claim.readings).filter(|_| failed || !claim.claim.is_error))
            .or_else(|| matching(&receipt.result, &claim.readings_of_error).filter(|_| failed))?;
        let everywhere = claim
            .again
            .iter()
            .all(|again| matching(&receipt.delivered, again).or_else(|| matching(&receipt.result, again)).is_some());
        everywhere.then_some(Compared::Equal(matched))
    }
}
