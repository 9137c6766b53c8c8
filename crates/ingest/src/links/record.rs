//! Proofs in a registry's own record: the line stands in a text that only the owner of the registration can write.
//!
//! Not in every text: registries also serve what others say (feedback, readmes of forks). So each kind names the part of the record that is
//! the owner's.

use credence_egress::Redirects;
use credence_protocol::{LinkProof, LinkStatement, SubjectKind};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::{CheckFailure, fetch, not_ours};
use crate::{Crawler, source::digest};

/// Texts of a record that are looked at.
const MAX_TEXTS: usize = 10_000;

pub(super) async fn check(crawler: &Crawler, statement: &LinkStatement) -> Result<LinkProof, CheckFailure> {
    look(crawler, statement, Redirects::SameOrigin(3)).await
}

/// The agent card of a host that proves the host itself: without redirections, as its file.
pub(super) async fn card(crawler: &Crawler, statement: &LinkStatement) -> Result<LinkProof, CheckFailure> {
    look(crawler, statement, Redirects::Refuse).await
}

async fn look(crawler: &Crawler, statement: &LinkStatement, redirects: Redirects) -> Result<LinkProof, CheckFailure> {
    let (url, owned) = place(statement);
    let bytes = fetch(crawler, &url, redirects).await?;
    let record: Value = serde_json::from_slice(&bytes).map_err(|_| CheckFailure::not(format!("{url} is not JSON")))?;
    let parts: Vec<&Value> = owned.iter().filter_map(|pointer| record.pointer(pointer)).collect();
    found(&parts, &url, statement)?;
    Ok(LinkProof { method: "record".into(), url: Some(url), digest: Some(digest(&bytes)), signature: None })
}

/// Whether one of the texts below `parts` holds the line.
pub(super) fn found(parts: &[&Value], place: &str, statement: &LinkStatement) -> Result<(), CheckFailure> {
    let line = statement.line();
    let mut texts = Vec::new();
    parts.iter().for_each(|part| collect(part, &mut texts));
    if texts.iter().any(|text| holds(text, &line)) {
        return Ok(());
    }
    let others = texts.iter().flat_map(|text| text.lines()).filter_map(|text| LinkStatement::parse(text).ok());
    Err(CheckFailure::not(not_ours(place, statement, others)))
}

/// Whether `line` stands in `text`, not as the beginning of a longer word.
fn holds(text: &str, line: &str) -> bool {
    let is_end = |rest: &str| rest.chars().next().is_none_or(|c| !c.is_ascii_alphanumeric());
    text.match_indices(line).any(|(at, _)| is_end(&text[at + line.len()..]))
}

fn collect<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    if texts.len() >= MAX_TEXTS {
        return;
    }
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(elements) => elements.iter().for_each(|one| collect(one, texts)),
        Value::Object(members) => members.values().for_each(|one| collect(one, texts)),
        _ => {}
    }
}

/// Where the record of a subject is, and which parts of it are the owner's.
fn place(statement: &LinkStatement) -> (String, &'static [&'static str]) {
    let subject = &statement.subject;
    let escape = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let parts: std::collections::BTreeMap<&str, String> = subject.parts().into_iter().collect();
    let part = |name: &str| escape(parts.get(name).map_or("", String::as_str));
    match subject.kind() {
        SubjectKind::Package => match parts.get("system").map(String::as_str) {
            Some("pypi") => (format!("https://pypi.org/pypi/{}/{}/json", part("name"), part("version")), &["/info"]),
            Some("cargo") => (format!("https://crates.io/api/v1/crates/{}", part("name")), &["/crate"]),
            _ => (format!("https://registry.npmjs.org/{}/{}", part("name"), part("version")), &[""]),
        },
        SubjectKind::Mcp => (
            format!("https://registry.modelcontextprotocol.io/v0.1/servers/{}/versions/latest", part("name")),
            &["/server", "/_meta/io.modelcontextprotocol.registry~1publisher-provided"],
        ),
        SubjectKind::Uaid => (
            format!("https://hol.org/registry/api/v1/resolve/{}", part("uaid")),
            &["/agent/profile", "/agent/description"],
        ),
        // The alignment card is what an owner publishes there.
        SubjectKind::Mnemom => (format!("https://api.mnemom.ai/v1/agents/{}/alignment-card", part("id")), &[""]),
        _ => (format!("https://{}/.well-known/agent-card.json", subject.id()), &[""]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_not_the_beginning_of_another() {
        assert!(holds("see: a b 2027-01-01T00:00:00Z.", "a b 2027-01-01T00:00:00Z"));
        assert!(holds("a b c", "a b c"));
        assert!(!holds("a b cd", "a b c"));
    }
}
