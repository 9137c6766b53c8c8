//! Why a signal is not admitted (DESIGN, *Signals*). Each reason has a stable code for machines and a sentence that says
//! what to do; nothing is written for a rejected signal.

use credence_protocol::{EntityId, Error as Malformed, KeyId, Tag, Timestamp, Uuid};

/// A reason a caller can act on.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// Form, range, size or signature: found without looking at any state.
    #[error(transparent)]
    Invalid(#[from] Malformed),
    /// The tag is not registered.
    #[error("unknown tag '{tag}'{}", .nearest.as_ref().map(|n| format!(": did you mean '{n}'?")).unwrap_or_default())]
    UnknownTag {
        /// The tag.
        tag: Tag,
        /// A registered one like it.
        nearest: Option<Tag>,
    },
    /// Only the authority emits this tag.
    #[error("tag '{tag}' is emitted by the authority alone, not by '{source_id}'")]
    TagNotPermitted {
        /// The tag.
        tag: Tag,
        /// Who tried.
        source_id: EntityId,
    },
    /// No such key.
    #[error("unknown key {0}: register the source's key first")]
    UnknownKey(KeyId),
    /// The key belongs to someone else.
    #[error("key {key} belongs to source '{owner}', not to '{claimed}'")]
    KeyNotOfSource {
        /// The key.
        key: KeyId,
        /// Whose it is.
        owner: EntityId,
        /// Who the signal says measured.
        claimed: EntityId,
    },
    /// The key was revoked.
    #[error("key {key} is revoked from entry {from} on: sign with the source's current key")]
    RevokedKey {
        /// The key.
        key: KeyId,
        /// From which entry on.
        from: u64,
    },
    /// The agent is not registered.
    #[error("unknown agent '{0}': register it first")]
    UnknownAgent(EntityId),
    /// Measured later than now.
    #[error("observed_at {observed_at} is in the future (it is {now} here): check the clock that measured")]
    Future {
        /// What the signal says.
        observed_at: Timestamp,
        /// The authority's time.
        now: Timestamp,
    },
    /// The same id with other content.
    #[error("id {id} was used for other content (entry {seq}): a new measurement needs a new id")]
    DuplicateId {
        /// The id.
        id: Uuid,
        /// Where it was used.
        seq: u64,
    },
    /// What it supersedes is not in the ledger.
    #[error("it supersedes {0}, which is not in the ledger: submit that first")]
    UnknownSuperseded(Uuid),
    /// What it supersedes is not of the same source and agent.
    #[error(
        "it supersedes {id}, a signal of source '{source_id}' about '{agent}': only one's own about the same agent can be superseded"
    )]
    ForeignSuperseded {
        /// The id.
        id: Uuid,
        /// Who signed that.
        source_id: EntityId,
        /// About whom.
        agent: EntityId,
    },
}

impl Rejection {
    /// A stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Rejection::Invalid(invalid) => match invalid {
                Malformed::TooLarge { .. } => "too_large",
                Malformed::Value(_) => "value_out_of_range",
                Malformed::Stddev(_) => "stddev_out_of_range",
                Malformed::BadSignature(_) => "bad_signature",
                _ => "malformed",
            },
            Rejection::UnknownTag { .. } => "unknown_tag",
            Rejection::TagNotPermitted { .. } => "tag_not_permitted",
            Rejection::UnknownKey(_) => "unknown_key",
            Rejection::KeyNotOfSource { .. } => "key_not_of_source",
            Rejection::RevokedKey { .. } => "revoked_key",
            Rejection::UnknownAgent(_) => "unknown_agent",
            Rejection::Future { .. } => "observed_in_future",
            Rejection::DuplicateId { .. } => "duplicate_id",
            Rejection::UnknownSuperseded(_) => "unknown_superseded",
            Rejection::ForeignSuperseded { .. } => "foreign_superseded",
        }
    }
}
