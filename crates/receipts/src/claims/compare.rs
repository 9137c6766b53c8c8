//! One claim against one receipt.

use credence_protocol::receipt::{CallOutcome, Exact, Reading, Receipt, View, Views, forms_of_error, readings_of_text};

use super::{
    matching::Match,
    names::{NameMatch, compare_names},
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
    /// Of an error that the client put into words of its own.
    readings_of_error: Vec<Reading>,
    /// Parts of the result, to say what differs.
    pub parts: Vec<(String, String)>,
}

impl<'a> ComparableClaim<'a> {
    pub fn of(claim: &'a Claim) -> Self {
        let arguments = claim.arguments.as_deref().and_then(|raw| Exact::of(raw).ok());
        let unreadable = claim.arguments.is_some() && arguments.is_none();
        let (readings, parts) = match &claim.result {
            ClaimedResult::Text(text) => (readings_of_text(text), parts_of_text(text)),
            ClaimedResult::Items(items) => {
                let list = format!("[{}]", items.iter().map(|item| item.get()).collect::<Vec<_>>().join(","));
                let result = format!("{{\"content\":{list}}}");
                (readings(&list), parts_of_result(&result))
            }
            ClaimedResult::Json(raw) => (readings(raw.get()), parts_of_result(raw.get())),
            ClaimedResult::Error(raw) => {
                let forms = Exact::of(raw).map(|error| forms_of_error(&error)).unwrap_or_default();
                (forms.into_iter().map(|form| vec![form]).collect(), Vec::new())
            }
            ClaimedResult::Nothing => (Vec::new(), Vec::new()),
        };
        let readings_of_error = match &claim.result {
            ClaimedResult::Text(text) => without_preamble(text).into_iter().flat_map(readings_of_text).collect(),
            _ => Vec::new(),
        };
        Self { claim, arguments, unreadable, readings, readings_of_error, parts }
    }

    /// How the claimed name compares with the tool's.
    pub fn name_match(&self, receipt: &Receipt) -> NameMatch {
        let tool = self.claim.tool.as_ref();
        tool.map_or(NameMatch::Same, |claimed| compare_names(claimed, &receipt.tool, &receipt.server))
    }

    /// Whether the claim names the receipt's tool.
    pub fn names(&self, receipt: &Receipt) -> bool {
        self.name_match(receipt) == NameMatch::Same
    }

    /// Whether both are the very same claim, call id included.
    pub fn same(&self, other: &ComparableClaim<'_>) -> bool {
        let form = |one: &ComparableClaim<'_>| one.arguments.as_ref().map(Exact::canonical);
        self.claim.call.is_some()
            && self.claim.call == other.claim.call
            && self.claim.tool == other.claim.tool
            && self.readings == other.readings
            && form(self) == form(other)
    }
}

fn readings(json: &str) -> Vec<Reading> {
    Exact::parse(json).map(|value| value.readings()).unwrap_or_default()
}

/// What follows `Error: ` and the like, as clients put it before a tool's own words.
fn without_preamble(text: &str) -> Vec<&str> {
    const PREAMBLES: usize = 4;
    let speaks_of_errors = |before: &str| before.to_ascii_lowercase().contains("error");
    let cuts = text.match_indices(": ").take(PREAMBLES).filter(|(at, _)| speaks_of_errors(&text[..*at]));
    cuts.map(|(at, cut)| &text[at + cut.len()..]).collect()
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
        let salt = &self.private.salts.result;
        let matching =
            |views: &Option<Views>, claim: &[Reading]| views.as_ref().and_then(|views| views.matching(salt, claim));
        if let Some(view) = matching(&receipt.delivered, &claim.readings) {
            return Some(Compared::Equal(view));
        }
        // A success told as a failure is not what happened.
        let told_as_failure = claim.claim.is_error && receipt.outcome == CallOutcome::Result;
        if let Some(view) = matching(&receipt.result, &claim.readings).filter(|_| !told_as_failure) {
            return Some(Compared::Equal(view));
        }
        if matches!(receipt.outcome, CallOutcome::ToolError | CallOutcome::ProtocolError)
            && let Some(view) = matching(&receipt.result, &claim.readings_of_error)
        {
            return Some(Compared::Equal(view));
        }
        // Clients put the failure of a call into words of their own.
        let failed = matches!(receipt.outcome, CallOutcome::ProtocolError | CallOutcome::Unanswered)
            || (receipt.outcome == CallOutcome::Result && receipt.result.is_none());
        (failed && claim.claim.is_error).then_some(Compared::Failed)
    }
}
