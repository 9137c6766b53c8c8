//! What a proof of a link says, in one line that a file holds or a wallet signs:
//!
//! ```text
//! credence-link-v1 trust.example/log weather-bot repository:github.com/acme/weather 4f2a… 2027-11-18T12:00:00Z
//! ```
//!
//! Version, origin of the authority's log, agent, subject, nonce, end. It names both sides, so that it holds for no other agent, no other
//! thing and no other authority; the nonce is the authority's, so that nobody can prepare it.

use serde::{Deserialize, Serialize};

use crate::{Audience, EntityId, Error, ExternalSubject, Timestamp, Uuid};

/// The first word.
const VERSION: &str = "credence-link-v1";

/// The line of a proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkStatement {
    /// The authority.
    pub origin: Audience,
    /// The agent.
    pub agent: EntityId,
    /// What it says is its own.
    pub subject: ExternalSubject,
    /// Made by the authority.
    pub nonce: Uuid,
    /// Until when the line holds.
    pub expires: Timestamp,
}

impl LinkStatement {
    /// The line, without a line break.
    pub fn line(&self) -> String {
        let Self { origin, agent, subject, nonce, expires } = self;
        format!("{VERSION} {origin} {agent} {subject} {} {expires}", nonce.simple())
    }

    /// Reads a line.
    pub fn parse(line: &str) -> Result<Self, Error> {
        let malformed = || Error::Malformed(format!("not a line of a link: {VERSION} ORIGIN AGENT KIND:ID NONCE END"));
        let words: Vec<&str> = line.trim().split(' ').collect();
        let [VERSION, origin, agent, subject, nonce, expires] = words.as_slice() else { return Err(malformed()) };
        let statement = Self {
            origin: Audience::new(origin)?,
            agent: EntityId::new(agent)?,
            subject: ExternalSubject::parse(subject)?,
            nonce: Uuid::parse_str(nonce).map_err(|_| malformed())?,
            expires: expires.parse()?,
        };
        // One spelling: a line that reads the same is the same.
        if statement.line() == line.trim() { Ok(statement) } else { Err(malformed()) }
    }
}

/// How a link was proved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkProof {
    /// `file`, `signature`, `label` or `record`.
    pub method: String,
    /// Where the line stood.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// `sha256:` and the digest of what stood there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The wallet's signature over the line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_back_and_has_one_spelling() {
        let statement = LinkStatement {
            origin: Audience::new("trust.example/log").unwrap(),
            agent: EntityId::new("weather-bot").unwrap(),
            subject: ExternalSubject::parse("repository:github.com/acme/weather").unwrap(),
            nonce: Uuid::from_u128(7),
            expires: "2027-11-18T12:00:00Z".parse().unwrap(),
        };
        let line = statement.line();
        assert_eq!(LinkStatement::parse(&format!("{line}\n")).unwrap(), statement);
        let others = [
            line.replace("github.com/acme", "GitHub.com/acme"),
            line.replace(' ', "  "),
            format!("{line} more"),
            line.replace("v1", "v2"),
            String::new(),
        ];
        for other in others {
            assert!(LinkStatement::parse(&other).is_err(), "{other}");
        }
    }
}
