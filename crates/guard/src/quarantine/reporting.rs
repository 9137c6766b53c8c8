//! What an authority is told of results that wait for an answer: names and verdicts. Content only where the operator asks for it, and
//! then encrypted to a reviewer's key ([`super::reviewer_key`]).

use std::time::Duration;

use credence_protocol::{
    Timestamp,
    waiting_review::{MAX_NAME_BYTES, MAX_NAMES, MAX_REVIEWS, MAX_SEALED, ReviewReport, WaitingReview},
};
use reqwest::blocking::Client;
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::{
    KeptItem, Quarantine, QuarantineError as Error,
    reviewer_key::{ReviewerPublicKey, ReviewerSecretKey},
};

/// The route.
pub const PATH: &str = "/v1/guard-reviews";
/// Characters of encrypted content in one report: a service takes 4 MiB at once.
const MAX_SEALED_IN_REPORT: usize = 3 * 1024 * 1024;
/// How long the authority may take to answer a reviewer.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is reported.
#[derive(Debug, Clone, Default)]
pub struct ReviewReporting {
    /// Content too, encrypted to this key.
    pub content: Option<ReviewerPublicKey>,
}

impl Quarantine {
    /// The newest results that wait for an answer, as an authority is told of them.
    pub fn report(&self, log: String, reporting: &ReviewReporting) -> Result<ReviewReport, Error> {
        let waiting: Vec<_> = self.list()?.into_iter().filter(|one| !one.answered).collect();
        let mut left = MAX_SEALED_IN_REPORT;
        let mut reviews = Vec::new();
        for one in &waiting[waiting.len().saturating_sub(MAX_REVIEWS)..] {
            // One that is damaged, or was let go in the meantime, is nothing to report.
            let Ok(Some(item)) = self.read(one.call) else { continue };
            let mut review = names_of(&item);
            if let Some(key) = &reporting.content {
                let plain = serde_json::to_vec(&item).map_err(|e| Error::Io("a report".into(), e.into()))?;
                let sealed = key.seal(item.call, &plain).filter(|sealed| sealed.len() <= MAX_SEALED.min(left));
                left -= sealed.as_ref().map_or(0, String::len);
                review.sealed = sealed;
            }
            reviews.push(review);
        }
        Ok(ReviewReport { log, reviews })
    }
}

/// What an authority sees of a result.
fn names_of(item: &KeptItem) -> WaitingReview {
    let mut paths = Vec::new();
    if let Some(result) = &item.result {
        let value: Value = serde_json::from_str(result.get()).unwrap_or_default();
        collect(value.get("structuredContent").unwrap_or(&value), "", &mut paths);
        let texts = value.get("content").and_then(Value::as_array).into_iter().flatten();
        for text in texts.filter_map(|item| item.get("text").and_then(Value::as_str)) {
            if let Ok(value) = serde_json::from_str::<Value>(text) {
                collect(&value, "", &mut paths);
            }
        }
    }
    paths.sort_unstable();
    paths.dedup();
    let told = || {
        let details = item.findings.iter().filter_map(|one| one.detail.as_deref());
        details.chain(item.changes.iter().map(|one| one.what.as_str()))
    };
    let named = |path: &String| told().any(|text| names(text, path));
    let cut = |text: &str| {
        text.chars()
            .scan(0, |bytes, c| {
                *bytes += c.len_utf8();
                (*bytes <= MAX_NAME_BYTES).then_some(c)
            })
            .collect::<String>()
    };
    let changes = item.changes.iter().map(|one| format!("change: {}", one.reason));
    let checks = item.findings.iter().map(|one| cut(&one.check)).chain(changes);
    WaitingReview {
        call: item.call,
        tool: cut(&item.tool),
        at: item.started_at,
        verdict: item.verdict,
        withheld: item.withheld,
        checks: checks.take(MAX_NAMES).collect(),
        members: paths
            .iter()
            .filter(|path| path.len() <= MAX_NAME_BYTES && named(path))
            .take(MAX_NAMES)
            .cloned()
            .collect(),
        sealed: None,
    }
}

/// The paths of a value's members, as the engine writes them.
fn collect(value: &Value, path: &str, paths: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                collect(member, &path, paths);
                paths.push(path);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, &format!("{path}[]"), paths)),
        _ => {}
    }
}

/// Whether a text names a path, and not a longer one.
fn names(text: &str, path: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || "_-.[]".contains(c);
    text.match_indices(path).any(|(at, _)| {
        let before = text[..at].chars().next_back().is_some_and(part);
        let after = text[at + path.len()..].chars().next().is_some_and(part);
        !path.is_empty() && !before && !after
    })
}

/// What waits at one guard, as an authority tells it.
#[derive(Debug, Deserialize)]
pub struct ReportedGuard {
    /// Its log.
    pub log: String,
    /// When it reported.
    pub reported_at: Timestamp,
    /// What waits.
    pub reviews: Vec<WaitingReview>,
}

#[derive(Deserialize)]
struct Reported {
    guards: Vec<ReportedGuard>,
}

/// Asks an authority what waits at the guards that report under the token's name.
pub fn ask(authority: &Url, token: &str) -> Result<Vec<ReportedGuard>, String> {
    let client = Client::builder().timeout(PATIENCE).build().map_err(|e| e.to_string())?;
    let url = format!("{}{PATH}", authority.as_str().trim_end_matches('/'));
    let answer = client.get(url).bearer_auth(token).send();
    let answer = answer.map_err(|e| format!("it cannot be reached: {}", crate::innermost_cause(&e.without_url())))?;
    let status = answer.status();
    let body = answer.bytes().unwrap_or_default();
    if !status.is_success() {
        let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
        let detail = problem["detail"].as_str().unwrap_or("no reason given");
        return Err(format!("it answered {}: {detail}", status.as_u16()));
    }
    let reported: Reported = serde_json::from_slice(&body).map_err(|e| format!("its answer cannot be read: {e}"))?;
    Ok(reported.guards)
}

/// The content of a reported result, where it was sent for this key.
pub fn open(review: &WaitingReview, key: &ReviewerSecretKey) -> Option<KeptItem> {
    let plain = key.open(review.call, review.sealed.as_deref()?)?;
    let item: KeptItem = serde_json::from_slice(&plain).ok()?;
    (item.call == review.call).then_some(item)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_named_and_values_are_not() {
        let value: Value = serde_json::from_str(r#"{"items":[{"price":1,"price_net":2}],"id":7}"#).unwrap();
        let mut paths = Vec::new();
        collect(&value, "", &mut paths);
        paths.sort_unstable();
        assert_eq!(paths, ["id", "items", "items[].price", "items[].price_net"]);
        assert!(names("`items[].price` is 1, usually 5 to 9", "items[].price"));
        assert!(!names("`items[].price_net` is 1", "items[].price") && !names("the items[].price", "items"));
        assert!(!names("provided", "id") && names("`id` is new", "id"));
    }
}
