//! Proofs that a thing outside belongs to an agent: where the line of a proof stands, and how it is checked.
//!
//! | subject | proof | where |
//! |---|---|---|
//! | host | file, or record | `https://HOST/.well-known/credence-link`, or any text of the agent card there; without redirections |
//! | repository | file | `.well-known/credence-link` on the default branch |
//! | model | file | `.well-known/credence-link` in the model's repository |
//! | wallet | signature | EIP-191 (EVM) or Ed25519 (Solana) over exactly the line |
//! | container | label | `dev.credence.link` of the image that `latest` names |
//! | package | record | the version's own metadata: a field of `package.json`, the description on PyPI or crates.io |
//! | a2a | record | any text of the agent card |
//! | mcp | record | any text of `server`, or of its publisher's `_meta` |
//! | erc8004 | record | any text of the registration file that the chain names, which must name the registration |
//! | solana8004 | signature, or record | Ed25519 by the wallet that owns the registration; or as for erc8004 |
//! | uaid | record | the description or profile that the HOL registry resolves the id to |
//! | mnemom | record | any text of the agent's alignment card |
//!
//! A file may hold lines for several agents. A proof that is gone, or that is of another agent, breaks the link; a host that does not
//! answer breaks it only after a while, which is the caller's decision ([`CheckFailure::Unreachable`]).

mod container;
mod erc8004;
mod record;
mod registration_file;
mod registries;
mod solana8004;
mod wallet;

use credence_egress::{HeaderName, HeaderValue, Redirects, Request};
use credence_protocol::{ExternalSubject, LinkProof, LinkStatement, SubjectKind, Timestamp};
use url::Url;

use crate::{Crawler, Failure, Reason, source::digest};
pub use registries::{Answering, Registered, Registries, RegistryReader};

/// Where files stand.
pub const WELL_KNOWN: &str = "/.well-known/credence-link";
/// Bytes of a file or record.
const MAX_BYTES: usize = 1024 * 1024;

/// Why a link is not proved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckFailure {
    /// There was an answer, and it is no proof. The words are ours.
    #[error("{0}")]
    NotProved(String),
    /// There was no answer: try again later.
    #[error("{0}")]
    Unreachable(String),
}

impl CheckFailure {
    fn not(why: impl Into<String>) -> Self {
        Self::NotProved(why.into())
    }

    fn of(failure: Failure) -> Self {
        let answers = matches!(
            failure.reason,
            Reason::Absent | Reason::Refused | Reason::Redirected | Reason::Forbidden | Reason::TooLarge
        );
        if answers { Self::NotProved(failure.why) } else { Self::Unreachable(failure.why) }
    }
}

/// What the owner has to do, in one sentence.
pub fn instructions(subject: &ExternalSubject) -> String {
    let part = |name: &str| subject.parts().into_iter().find(|(part, _)| *part == name).map(|(_, value)| value);
    match subject.kind() {
        SubjectKind::Host => format!("Serve the line at https://{}{WELL_KNOWN}, or in a text of the agent card there", subject.id()),
        SubjectKind::Repository => format!("Commit the line to {} in the default branch", &WELL_KNOWN[1..]),
        SubjectKind::Model => format!("Upload the line as {} to the model's repository", &WELL_KNOWN[1..]),
        SubjectKind::Wallet if part("namespace").as_deref() == Some("solana") => {
            "Sign exactly the line with the wallet (signMessage) and give the signature, in base58, with --signature".into()
        }
        SubjectKind::Wallet => {
            "Sign exactly the line with the wallet (personal_sign, EIP-191) and give the signature with --signature 0x…".into()
        }
        SubjectKind::Container => format!("Build the image with the label {}=\"LINE\" and push it as latest", container::LABEL),
        SubjectKind::Package => "Publish the version with the line in its metadata: a field \"credence\" in package.json, or the description".into(),
        SubjectKind::A2a => format!("Put the line into a text of the card at https://{}/.well-known/agent-card.json, such as an extension's description", subject.id()),
        SubjectKind::Mcp => "Publish the server with the line in _meta[\"io.modelcontextprotocol.registry/publisher-provided\"]".into(),
        SubjectKind::Erc8004 => "Add a service {\"name\": \"credence\", \"endpoint\": \"LINE\"} to the registration file, and this registration to its registrations".into(),
        SubjectKind::Uaid => "Put the line into the description or the profile of the registration".into(),
        SubjectKind::Mnemom => "Put the line into a text of the agent's alignment card".into(),
        SubjectKind::Solana8004 => {
            "Sign exactly the line with the wallet that owns the registration (signMessage) and give the signature, in base58, with --signature; or add a service {\"name\": \"credence\", \"endpoint\": \"LINE\"} to the registration file, and this registration to its registrations, and give --check".into()
        }
    }
}

/// Whether a wallet signs: the subject, or the one that owns it.
pub fn needs_signature(subject: &ExternalSubject) -> bool {
    matches!(subject.kind(), SubjectKind::Wallet | SubjectKind::Solana8004)
}

/// Checks the proof of a link at `now`. `signature` is the wallet's, where the subject is one or is owned by one.
pub async fn check(
    crawler: &Crawler,
    statement: &LinkStatement,
    signature: Option<&str>,
    now: Timestamp,
) -> Result<LinkProof, CheckFailure> {
    if now > statement.expires {
        return Err(CheckFailure::not(format!("the line held until {}: make a new one", statement.expires)));
    }
    let subject = &statement.subject;
    let parts: std::collections::BTreeMap<&str, String> = subject.parts().into_iter().collect();
    let part = |name: &str| parts.get(name).map_or("", String::as_str);
    match subject.kind() {
        SubjectKind::Host => {
            let url = format!("https://{}{WELL_KNOWN}", subject.id());
            host(crawler, statement, &url).await
        }
        SubjectKind::Repository => {
            let (owner, name) = (part("owner"), part("name"));
            let url = match part("forge") {
                "github.com" => format!("https://raw.githubusercontent.com/{owner}/{name}/HEAD{WELL_KNOWN}"),
                "gitlab.com" => format!("https://gitlab.com/{owner}/{name}/-/raw/HEAD{WELL_KNOWN}"),
                _ => format!("https://codeberg.org/{owner}/{name}/raw/HEAD{WELL_KNOWN}"),
            };
            file(crawler, statement, &url, Redirects::SameOrigin(3)).await
        }
        SubjectKind::Model => {
            let url = format!("https://huggingface.co/{}/{}/resolve/main{WELL_KNOWN}", part("owner"), part("name"));
            file(crawler, statement, &url, Redirects::SameOrigin(3)).await
        }
        SubjectKind::Wallet => {
            let given = signature.ok_or_else(|| CheckFailure::not("the wallet's signature is missing"))?;
            wallet::check(part("namespace"), part("address"), &statement.line(), given).map_err(CheckFailure::not)?;
            Ok(LinkProof { method: "signature".into(), url: None, digest: None, signature: Some(given.to_owned()) })
        }
        SubjectKind::Container => container::check(crawler, statement, part("namespace"), part("name")).await,
        SubjectKind::Erc8004 => {
            erc8004::check(crawler, statement, (part("chain"), part("contract"), part("token")), now).await
        }
        SubjectKind::Solana8004 => solana8004::check(crawler, statement, part("asset"), signature, now).await,
        SubjectKind::Package | SubjectKind::A2a | SubjectKind::Mcp | SubjectKind::Uaid | SubjectKind::Mnemom => {
            record::check(crawler, statement).await
        }
    }
}

/// Fetches a document, bounded.
async fn fetch(crawler: &Crawler, url: &str, redirects: Redirects) -> Result<Vec<u8>, CheckFailure> {
    let url = Url::parse(url).map_err(|_| CheckFailure::not("the subject has no address"))?;
    let accept = HeaderValue::from_static("application/json, */*;q=0.5");
    let build = |url: &Url| {
        let request = Request::get(url.as_str())?.header(HeaderName::from_static("accept"), accept);
        Ok(request.max_bytes(MAX_BYTES).redirects(redirects))
    };
    Ok(crawler.send_checked(build, &url).await.map_err(CheckFailure::of)?.body)
}

/// A host is proved by its file, or by its agent card. As long as one of the two cannot be reached, nobody knows that the proof is gone.
async fn host(crawler: &Crawler, statement: &LinkStatement, url: &str) -> Result<LinkProof, CheckFailure> {
    let by_file = match file(crawler, statement, url, Redirects::Refuse).await {
        Ok(proof) => return Ok(proof),
        Err(failure) => failure,
    };
    match (record::card(crawler, statement).await, by_file) {
        (Ok(proof), _) => Ok(proof),
        (Err(unreachable @ CheckFailure::Unreachable(_)), CheckFailure::NotProved(_)) => Err(unreachable),
        (Err(_), by_file) => Err(by_file),
    }
}

/// A file with the line in it.
async fn file(
    crawler: &Crawler,
    statement: &LinkStatement,
    url: &str,
    redirects: Redirects,
) -> Result<LinkProof, CheckFailure> {
    let bytes = fetch(crawler, url, redirects).await?;
    let text = String::from_utf8_lossy(&bytes);
    let line = statement.line();
    if text.lines().any(|found| found.trim() == line) {
        return Ok(LinkProof {
            method: "file".into(),
            url: Some(url.to_owned()),
            digest: Some(digest(&bytes)),
            signature: None,
        });
    }
    let other = text.lines().filter_map(|line| LinkStatement::parse(line).ok());
    Err(CheckFailure::not(not_ours(url, statement, other)))
}

/// Says why lines that are there do not prove this link.
fn not_ours(place: &str, wanted: &LinkStatement, found: impl IntoIterator<Item = LinkStatement>) -> String {
    let mut why = format!("{place} does not hold the line");
    for other in found {
        if other.origin != wanted.origin {
            why = format!("{place} holds a line for another authority");
        } else if other.agent != wanted.agent {
            why = format!("{place} names another agent");
        } else if other.subject != wanted.subject {
            why = format!("{place} names another thing than {}", wanted.subject);
        } else {
            return format!("{place} holds an older line: replace it by the new one");
        }
    }
    why
}

#[cfg(test)]
mod tests {
    use credence_protocol::{Audience, EntityId, Uuid};

    use super::*;

    #[test]
    fn what_is_there_instead_is_said() {
        let wanted = LinkStatement {
            origin: Audience::new("trust.example/log").unwrap(),
            agent: EntityId::new("bot").unwrap(),
            subject: ExternalSubject::parse("host:shop.example").unwrap(),
            nonce: Uuid::from_u128(1),
            expires: "2027-01-01T00:00:00Z".parse().unwrap(),
        };
        let said = |other: LinkStatement| not_ours("it", &wanted, [other]);
        assert!(
            said(LinkStatement { agent: EntityId::new("other").unwrap(), ..wanted.clone() }).contains("another agent")
        );
        assert!(
            said(LinkStatement { origin: Audience::new("x/log").unwrap(), ..wanted.clone() }).contains("authority")
        );
        assert!(said(LinkStatement { nonce: Uuid::from_u128(2), ..wanted.clone() }).contains("older line"));
        let elsewhere = ExternalSubject::parse("host:other.example").unwrap();
        assert!(said(LinkStatement { subject: elsewhere, ..wanted.clone() }).contains("another thing"));
        assert!(not_ours("it", &wanted, []).contains("does not hold"));
    }
}
