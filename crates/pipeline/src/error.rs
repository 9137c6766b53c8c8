//! What can go wrong between a caller and the ledger.

use credence_protocol::{Alias, EntityId, ExternalSubject, KeyId, Root, Tag, Uuid};

use crate::{attestations::Amount, registry::MAX_ROOTS};

/// This crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something was not done; nothing was written then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// From the ledger.
    #[error(transparent)]
    Ledger(#[from] credence_ledger::Error),
    /// From the protocol.
    #[error(transparent)]
    Protocol(#[from] credence_protocol::Error),
    /// From the engine.
    #[error(transparent)]
    Engine(#[from] credence_engine::Error),
    /// From a receipt that was handed in.
    #[error(transparent)]
    Receipts(#[from] credence_receipts::Error),
    /// From the HCS-25 model.
    #[error(transparent)]
    Hcs25(credence_engine::hcs25::Error),
    /// No agent has this id or alias.
    #[error("no agent has the id or alias '{0}': register it with `credence agent add`")]
    UnknownAgent(String),
    /// The alias already leads to another agent.
    #[error("{alias} is already an alias of agent '{agent}'")]
    AliasTaken {
        /// The alias.
        alias: Alias,
        /// Whose it is.
        agent: EntityId,
    },
    /// The id is somebody else's: agents, sources and the authority share one namespace.
    #[error("the id '{id}' is taken by {by}: agents and sources have ids of their own")]
    IdTaken {
        /// The id.
        id: EntityId,
        /// Whose it is.
        by: &'static str,
    },
    /// It is registered already and nothing new was said.
    #[error("'{0}' is registered already, and nothing new was said of it")]
    NothingNew(EntityId),
    /// No such tag.
    #[error("unknown tag '{tag}'{}", .nearest.as_ref().map(|n| format!(": did you mean '{n}'?")).unwrap_or_default())]
    UnknownTag {
        /// The tag.
        tag: Tag,
        /// One that is registered and spelled much like it.
        nearest: Option<Tag>,
    },
    /// No such source.
    #[error("no source '{0}': add it with `credence source add`")]
    UnknownSource(String),
    /// The source is registered already.
    #[error("source '{0}' is registered already: change its weight with `credence source weight`")]
    SourceExists(EntityId),
    /// A weight that is neither 0 nor within its bounds.
    #[error("a weight is 0 or between 0.000001 and 1000000, not {0}")]
    Weight(f64),
    /// The source has this weight already.
    #[error("source '{source_id}' has weight {weight} already")]
    SameWeight {
        /// The source.
        source_id: EntityId,
        /// Its weight.
        weight: f64,
    },
    /// A source's owner is an agent that the source rates.
    #[error(
        "source '{source_id}' rates agent '{agent}': that agent cannot be its owner, because a source has no say on its owner"
    )]
    OwnerIsRated {
        /// The source.
        source_id: EntityId,
        /// The agent.
        agent: EntityId,
    },
    /// No such link.
    #[error("agent '{agent}' has no link {link}: make one with `credence agent link {agent} {link}`")]
    UnknownLink {
        /// The agent.
        agent: EntityId,
        /// The thing.
        link: ExternalSubject,
    },
    /// A step that does not follow from what was recorded of a link.
    #[error("the link of '{agent}' to {link} {why}")]
    LinkStep {
        /// The agent.
        agent: EntityId,
        /// The thing.
        link: ExternalSubject,
        /// What is in the way.
        why: &'static str,
    },
    /// A step that does not follow from what was recorded of a disputed signal.
    #[error("signal {signal}: {why}")]
    Dispute {
        /// The signal.
        signal: Uuid,
        /// What is in the way.
        why: &'static str,
    },
    /// A root that is listed twice.
    #[error("root '{0}' is listed twice")]
    RootTwice(Root),
    /// More roots than a source can have.
    #[error("a source has at most {MAX_ROOTS} roots, not {0}")]
    TooManyRoots(usize),
    /// No such key.
    #[error("no key {0} is registered: `credence keys list` shows those that are")]
    UnknownKey(KeyId),
    /// The key belongs to a source already.
    #[error("key {key} is registered already, for source '{source_id}'")]
    KeyExists {
        /// The key.
        key: KeyId,
        /// Its source.
        source_id: EntityId,
    },
    /// A rotation away from a key that no longer counts.
    #[error("key {0} is revoked: it cannot hand over to another; register the new key with `credence keys add`")]
    RevokedKey(KeyId),
    /// Revoking again, no earlier than before.
    #[error("key {key} is revoked from entry {from} on already")]
    AlreadyRevoked {
        /// The key.
        key: KeyId,
        /// From which entry on.
        from: u64,
    },
    /// A revocation from an entry that does not exist yet.
    #[error(
        "the ledger has {size} entries: a key can be revoked from entry {size} (now) or an earlier one, not from {from}"
    )]
    FutureSeq {
        /// What was asked.
        from: u64,
        /// The ledger's size.
        size: u64,
    },
    /// A rotation with a key of another source.
    #[error("key {key} belongs to source '{owner}', not to '{claimed}': nothing was changed")]
    KeyOfAnother {
        /// The key.
        key: KeyId,
        /// Whose it is.
        owner: EntityId,
        /// Whose it was said to be.
        claimed: EntityId,
    },
    /// A name, description or reason that is too long, or has characters that deceive its readers.
    #[error(
        "{field}: at most {limit} characters and no control characters, none that change the direction of text and none that are not shown, because people read it"
    )]
    Text {
        /// Which field.
        field: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A methodology that is no address.
    #[error("a methodology is an address where the method is published: https://…")]
    Methodology,
    /// A row of a projection that does not parse: dropped projections can be rebuilt.
    #[error("table {table}, row '{key}': {why}; rebuild the projections with `credence replay --rebuild`")]
    Row {
        /// The table.
        table: &'static str,
        /// The row's key.
        key: String,
        /// What is wrong.
        why: String,
    },
    /// Nothing to certify.
    #[error("agent '{0}' has no published score: there is nothing to certify yet")]
    NotRated(EntityId),
    /// The agent's standing is revoked.
    #[error("the standing of agent '{0}' is revoked: lift the revocation first")]
    AgentRevoked(EntityId),
    /// The agent's standing is what was asked for already.
    #[error("the standing of agent '{0}' is not revoked: there is nothing to lift")]
    NotRevoked(EntityId),
    /// No such credential.
    #[error("no credential {0} was issued here")]
    UnknownCredential(Uuid),
    /// The credential is revoked already.
    #[error("credential {credential} is revoked already (entry {seq})")]
    CredentialRevoked {
        /// Which.
        credential: Uuid,
        /// By which entry.
        seq: u64,
    },
    /// An outcome that cannot be.
    #[error("{0}")]
    Outcome(String),
    /// Correct the run's record.
    #[error("the run cannot be recorded: {0}")]
    Probe(String),
    /// The id of an outcome that was used for another.
    #[error("id {id} was used for another outcome (entry {seq}): a new outcome needs a new id")]
    OutcomeExists {
        /// The id.
        id: Uuid,
        /// Where.
        seq: u64,
    },
    /// A decision about a report that cannot be taken.
    #[error("{0}")]
    Report(String),
    /// A step of an attestation that cannot be taken.
    #[error("{0}")]
    Attestation(String),
    /// Wait until fees of the last 24 hours are older, or raise `daily_budget`. Nothing was signed that could be sent.
    #[error(
        "the transaction can cost {needed}, and of the {budget} that 24 hours may cost on {chain} {used} are used: wait, or raise daily_budget"
    )]
    AttestationBudget {
        /// The chain.
        chain: String,
        /// What 24 hours may cost.
        budget: Amount,
        /// What they cost, with what is under way.
        used: Amount,
        /// What the transaction can cost.
        needed: Amount,
    },
    /// A document that could not be made.
    #[error(transparent)]
    Output(#[from] credence_output::Error),
    /// A table says something else than the ledger.
    #[error(
        "{0} differs from the ledger, so nothing is signed: stop the service, run `credence audit`, and rebuild the tables with \
         `credence replay --rebuild`"
    )]
    Differs(String),
    /// Nothing was recorded at that time.
    #[error("{0}")]
    NotThen(String),
}
