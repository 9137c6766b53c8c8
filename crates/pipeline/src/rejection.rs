//! Why a signal or a statement is not admitted (DESIGN, *Signals*, *Reputation*). Each reason has a stable code for machines and a sentence that says
//! what to do; nothing is written for a rejected signal.

use credence_engine::hcs25;
use credence_protocol::{
    Audience, EntityId, Error as Malformed, KeyId, StatementKind, Tag, Timestamp, Uuid, records::ChallengeOutcome,
};

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
    /// It names another authority.
    #[error(
        "aud is '{given}': it is for another authority; what is for this one is signed with \"aud\": \"{expected}\""
    )]
    OtherAudience {
        /// What it names.
        given: Audience,
        /// This authority.
        expected: Audience,
    },
    /// It names no authority, and its author is bound to one.
    #[error(
        "aud is missing: '{author}' is bound to this authority, and what it signs names it: \"aud\": \"{expected}\""
    )]
    NoAudience {
        /// Who signed.
        author: EntityId,
        /// This authority.
        expected: Audience,
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
    /// The source is not registered: the key is an agent's.
    #[error("'{0}' is not a registered source: only sources send signals")]
    UnknownSource(EntityId),
    /// A record that fails its schema.
    #[error("{} record, at {path}: {why}", .kind.key())]
    Schema {
        /// What it should be.
        kind: StatementKind,
        /// Where, as a JSON pointer; `/` is the record itself.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// StatementBody in another's name.
    #[error("{field} is '{named}', but the statement is signed by '{author}': everyone speaks for itself")]
    NotAuthor {
        /// The field.
        field: &'static str,
        /// Whom it names.
        named: EntityId,
        /// Who signed.
        author: EntityId,
    },
    /// The same id with other content.
    #[error("{} id '{id}' was used for other content (entry {seq}): a new record needs a new id", .kind.key())]
    DuplicateRecord {
        /// What it is.
        kind: StatementKind,
        /// The id.
        id: String,
        /// Where it was used.
        seq: u64,
    },
    /// Dated later than now.
    #[error("its time {at} is in the future (it is {now} here): check the clock of its author")]
    FutureStatement {
        /// What it says.
        at: Timestamp,
        /// The authority's time.
        now: Timestamp,
    },
    /// No such contract.
    #[error("no contract '{0}' is known: publish it first")]
    UnknownContract(String),
    /// No such challenge.
    #[error("no challenge '{0}' is known")]
    UnknownChallenge(String),
    /// The challenge is settled, or was never opened.
    #[error("challenge '{id}' is settled already: {outcome}")]
    AlreadyResolved {
        /// Which.
        id: String,
        /// What became of it.
        outcome: String,
    },
    /// The contract can no longer be challenged.
    #[error("contract '{contract}' could be challenged until {closed}: its window has closed")]
    WindowClosed {
        /// Which.
        contract: String,
        /// When it closed.
        closed: Timestamp,
    },
    /// The contract is refuted already.
    #[error("contract '{contract}' came to the contrary already ({why}): there is nothing left to refute")]
    AlreadyRefuted {
        /// Which.
        contract: String,
        /// By what.
        why: String,
    },
    /// The same claim a third time.
    #[error("the same claim was put against '{0}' twice before")]
    Resubmitted(String),
    /// An agent that has not said who it is.
    #[error("'{0}' has not said who it is: declare its identity first (`credence agent identify`)")]
    NoIdentity(EntityId),
    /// Challenging oneself.
    #[error("'{0}' cannot challenge its own contract")]
    OwnContract(EntityId),
    /// Too many open challenges.
    #[error("'{challenger}' has {limit} open challenges, the limit: wait until one is settled")]
    TooManyOpen {
        /// Who.
        challenger: EntityId,
        /// The limit.
        limit: usize,
    },
    /// Reviewing oneself.
    #[error("'{0}' cannot review itself")]
    OwnReview(EntityId),
    /// A review of someone the reviewer had nothing to do with.
    #[error("the review cites no interaction with '{subject}': {why}")]
    NoInteraction {
        /// Who was reviewed.
        subject: EntityId,
        /// What is wrong with what it cites.
        why: String,
    },
    /// A verification by someone who may not.
    #[error("'{author}' cannot verify this contract: {why}")]
    NotVerifier {
        /// Who tried.
        author: EntityId,
        /// Why not.
        why: &'static str,
    },
    /// A second final word.
    #[error("contract '{contract}' is settled already, by '{verification}'")]
    AlreadyVerified {
        /// Which.
        contract: String,
        /// The first.
        verification: String,
    },
    /// A resolution by anyone but the authority.
    #[error("challenges are resolved by the authority, not by '{0}'")]
    NotAuthority(EntityId),
    /// A resolution that contradicts the verification it names.
    #[error("a resolution as {outcome:?} does not follow from {evidence}")]
    NotSupported {
        /// What was said.
        outcome: ChallengeOutcome,
        /// What it rests on.
        evidence: String,
    },
    /// An identity that names another key than the one that signed it.
    #[error("signature_key is not the key {0} that signed the identity")]
    IdentityKey(KeyId),
    /// A summary by someone who is not a provider.
    #[error(
        "'{0}' is not admitted as a verification provider: an operator admits it by naming its methodology (`credence source provider`)"
    )]
    NotProvider(EntityId),
    /// A provider that speaks of itself.
    #[error("self-reported: '{provider}' is the agent '{agent}', or both have one owner")]
    SelfReported {
        /// The provider.
        provider: EntityId,
        /// The agent.
        agent: EntityId,
    },
    /// A summary that is not newer than the one there is.
    #[error(
        "'{provider}' reported a window of {window} that ended at {newest} already: this one, {given}, is not newer"
    )]
    OlderSummary {
        /// The provider.
        provider: EntityId,
        /// Which window.
        window: String,
        /// The end of the newest.
        newest: Timestamp,
        /// The end of this one.
        given: Timestamp,
    },
    /// Receipts of a guard that do not hold.
    #[error("{0}")]
    Receipts(String),
    /// A summary that does not hold together.
    #[error(transparent)]
    Summary(#[from] hcs25::Error),
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
            Rejection::OtherAudience { .. } => "other_audience",
            Rejection::NoAudience { .. } => "no_audience",
            Rejection::UnknownAgent(_) => "unknown_agent",
            Rejection::Future { .. } => "observed_in_future",
            Rejection::DuplicateId { .. } => "duplicate_id",
            Rejection::UnknownSuperseded(_) => "unknown_superseded",
            Rejection::ForeignSuperseded { .. } => "foreign_superseded",
            Rejection::UnknownSource(_) => "unknown_source",
            Rejection::Schema { .. } => "schema_violation",
            Rejection::NotAuthor { .. } => "not_author",
            Rejection::DuplicateRecord { .. } => "duplicate_id",
            Rejection::FutureStatement { .. } => "in_future",
            Rejection::UnknownContract(_) => "unknown_contract",
            Rejection::UnknownChallenge(_) => "unknown_challenge",
            Rejection::AlreadyResolved { .. } => "already_resolved",
            Rejection::WindowClosed { .. } => "window_closed",
            Rejection::AlreadyRefuted { .. } => "already_refuted",
            Rejection::Resubmitted(_) => "resubmitted",
            Rejection::NoIdentity(_) => "no_identity",
            Rejection::OwnContract(_) => "own_contract",
            Rejection::TooManyOpen { .. } => "too_many_open",
            Rejection::OwnReview(_) => "own_review",
            Rejection::NoInteraction { .. } => "no_interaction",
            Rejection::NotVerifier { .. } => "not_verifier",
            Rejection::AlreadyVerified { .. } => "already_verified",
            Rejection::NotAuthority(_) => "not_authority",
            Rejection::NotSupported { .. } => "not_supported",
            Rejection::IdentityKey(_) => "identity_key",
            Rejection::NotProvider(_) => "not_provider",
            Rejection::SelfReported { .. } => "self_reported",
            Rejection::OlderSummary { .. } => "older_summary",
            Rejection::Summary(_) => "invalid_summary",
            Rejection::Receipts(_) => "invalid_receipts",
        }
    }
}
