//! Entries: one canonical JSON object each.
//!
//! ```text
//! {"body":{…},"kind":"signal","recorded_at":"…Z","source_weight_at_time":1,"subject":"weather-bot"}
//! ```
//!
//! `source_weight_at_time` is on signals only. The sequence number is the position, not part of the object.

use credence_protocol::{Canonical, EntityId, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Error, Result};

/// The log format prefixes each entry with a 16-bit length (C2SP tlog-tiles).
pub const MAX_ENTRY_BYTES: usize = 65_535;

/// What an entry records. One kind has one form of body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A key and the source or agent it belongs to.
    Key,
    /// A source and its weight, from then on.
    Source,
    /// An agent and its aliases, as the operator describes it.
    Agent,
    /// What an agent declares of itself.
    Identity,
    /// Something outside that an agent says is its own: claimed, proven, broken or removed.
    Link,
    /// A signed signal.
    Signal,
    /// A score with its inputs.
    Score,
    /// An output-verification window.
    Summary,
    /// A signal contract of the reputation model.
    Contract,
    /// A verification log of the reputation model.
    Verification,
    /// A challenge.
    Challenge,
    /// Its resolution.
    Resolution,
    /// A review.
    Review,
    /// What really happened after someone relied on an agent.
    Outcome,
    /// How far the ledger of a guard has grown, as it was seen here.
    Checkpoint,
    /// A verifiable credential that was issued.
    Credential,
    /// A key stops counting, from a given seq on.
    KeyRevocation,
    /// A credential was taken back.
    CredentialRevocation,
    /// A signal of the authority's own that it no longer stands by.
    Withdrawal,
    /// A signal that a crawler made is disputed by the agent's owner, and what the operator decided.
    Dispute,
    /// An agent's standing was taken back, or given back.
    Standing,
    /// A run of the sandbox against an agent: what was tried, and what the sensors saw, as counts.
    Probe,
    /// Hashes of signed responses that left.
    Responses,
    /// What a person decided about a report on an agent: approved, rejected, published, corrected, withdrawn.
    Report,
    /// A step of writing an agent's score to a chain, or of taking it back.
    Attestation,
    /// From here on times are right again: entries before were recorded in the future.
    Clock,
    /// Whether a tag counts in scores, from here on.
    Tag,
    /// A tool call that happened, in a guard's own ledger.
    Receipt,
    /// A receipt that a guard handed in, in the authority's store of receipts.
    HeldReceipt,
    /// A made-up result that a guard judged in shadow, in its own ledger.
    Canary,
    /// A result known to be genuine that a guard judged in shadow, in its own ledger.
    Control,
    /// What somebody did to a guard, or the guard by itself: switched off or on, began to enforce, answered a verdict. In its own ledger.
    Operation,
    /// Where a guard's ledger begins, and which one it follows.
    Segment,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 33] = [
        Kind::Key,
        Kind::Source,
        Kind::Agent,
        Kind::Identity,
        Kind::Link,
        Kind::Signal,
        Kind::Score,
        Kind::Summary,
        Kind::Contract,
        Kind::Verification,
        Kind::Challenge,
        Kind::Resolution,
        Kind::Review,
        Kind::Outcome,
        Kind::Checkpoint,
        Kind::Credential,
        Kind::KeyRevocation,
        Kind::CredentialRevocation,
        Kind::Withdrawal,
        Kind::Dispute,
        Kind::Standing,
        Kind::Probe,
        Kind::Responses,
        Kind::Report,
        Kind::Attestation,
        Kind::Clock,
        Kind::Tag,
        Kind::Receipt,
        Kind::HeldReceipt,
        Kind::Canary,
        Kind::Control,
        Kind::Operation,
        Kind::Segment,
    ];

    /// As in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Kind::Key => "key",
            Kind::Source => "source",
            Kind::Agent => "agent",
            Kind::Identity => "identity",
            Kind::Link => "link",
            Kind::Signal => "signal",
            Kind::Score => "score",
            Kind::Summary => "summary",
            Kind::Contract => "contract",
            Kind::Verification => "verification",
            Kind::Challenge => "challenge",
            Kind::Resolution => "resolution",
            Kind::Review => "review",
            Kind::Outcome => "outcome",
            Kind::Checkpoint => "checkpoint",
            Kind::Credential => "credential",
            Kind::KeyRevocation => "key_revocation",
            Kind::CredentialRevocation => "credential_revocation",
            Kind::Withdrawal => "withdrawal",
            Kind::Dispute => "dispute",
            Kind::Standing => "standing",
            Kind::Probe => "probe",
            Kind::Responses => "responses",
            Kind::Report => "report",
            Kind::Attestation => "attestation",
            Kind::Clock => "clock",
            Kind::Tag => "tag",
            Kind::Receipt => "receipt",
            Kind::HeldReceipt => "held_receipt",
            Kind::Canary => "canary",
            Kind::Control => "control",
            Kind::Operation => "operation",
            Kind::Segment => "segment",
        }
    }
}

/// An entry to be appended; the ledger adds the time.
#[derive(Debug, Clone)]
pub struct NewEntry {
    /// What it records.
    pub kind: Kind,
    /// Whom it is about; an agent's entries live together.
    pub subject: EntityId,
    /// The record itself.
    pub body: Canonical,
    /// The source's weight, stamped on signals.
    pub weight: Option<f64>,
}

impl NewEntry {
    /// Refuses an entry that would be over the log format's limit when recorded at `at`.
    pub(crate) fn check_size(&self, at: Timestamp) -> Result<()> {
        // The rest of an entry is short: names of members, a time, an id, a weight.
        if self.body.as_bytes().len() < MAX_ENTRY_BYTES - 1024 { Ok(()) } else { self.encode(at).map(drop) }
    }

    /// The entry's bytes when recorded at `at`.
    ///
    /// JCS sorts members recursively, so an object whose members are canonical and stand in order is canonical: the body
    /// is placed, not serialised again. Kinds, times and ids have no character that JSON escapes.
    pub fn encode(&self, at: Timestamp) -> Result<Vec<u8>> {
        let Self { kind, subject, body, weight } = self;
        let kind = kind.key();
        let text = match weight {
            None => format!(r#"{{"body":{body},"kind":"{kind}","recorded_at":"{at}","subject":"{subject}"}}"#),
            Some(weight) => {
                let weight = Canonical::of(weight)?;
                format!(
                    r#"{{"body":{body},"kind":"{kind}","recorded_at":"{at}","source_weight_at_time":{weight},"subject":"{subject}"}}"#
                )
            }
        };
        if text.len() > MAX_ENTRY_BYTES {
            return Err(Error::EntryTooLarge { bytes: text.len(), limit: MAX_ENTRY_BYTES });
        }
        Ok(text.into_bytes())
    }
}

/// A stored entry, parsed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// What it records.
    pub kind: Kind,
    /// Whom it is about.
    pub subject: EntityId,
    /// When the ledger took it; never earlier than the entry before.
    pub recorded_at: Timestamp,
    /// The source's weight at that time, on signals.
    #[serde(rename = "source_weight_at_time", default)]
    pub weight: Option<f64>,
    body: Box<RawValue>,
}

impl Entry {
    /// Parses stored bytes; `seq` is for the error message.
    pub fn parse(seq: u64, bytes: &[u8]) -> Result<Self> {
        serde_json::from_slice(bytes).map_err(|e| Error::Entry { seq, why: e.to_string() })
    }

    /// The body's JSON text as stored.
    pub fn body(&self) -> &str {
        self.body.get()
    }

    /// The body as a typed record.
    pub fn record<'a, T: Deserialize<'a>>(&'a self, seq: u64) -> Result<T> {
        serde_json::from_str(self.body())
            .map_err(|e| Error::Entry { seq, why: format!("{} body: {e}", self.kind.key()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn entry(weight: Option<f64>) -> NewEntry {
        let body = Canonical::of(&json!({"b": [1, 2.50], "a": "é\"\n"})).unwrap();
        NewEntry { kind: Kind::Signal, subject: EntityId::new("a~b.c-_1").unwrap(), body, weight }
    }

    #[test]
    fn encoding_is_canonical_json() {
        let at = "2026-11-15T12:00:00Z".parse().unwrap();
        for weight in [None, Some(1.0), Some(0.1 + 0.2)] {
            let bytes = entry(weight).encode(at).unwrap();
            let value: Value = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(Canonical::of(&value).unwrap().as_bytes(), bytes);
            let parsed = Entry::parse(0, &bytes).unwrap();
            assert_eq!((parsed.kind, parsed.weight, parsed.recorded_at), (Kind::Signal, weight, at));
        }
    }

    #[test]
    fn kinds_are_written_as_they_are_read() {
        for kind in Kind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.key());
        }
    }

    #[test]
    fn the_log_formats_limit_is_kept() {
        let body = Canonical::of(&"x".repeat(MAX_ENTRY_BYTES)).unwrap();
        let too_large = NewEntry { body, ..entry(None) };
        let at = "2026-11-15T12:00:00Z".parse().unwrap();
        assert!(matches!(too_large.encode(at), Err(Error::EntryTooLarge { .. })));
    }
}
