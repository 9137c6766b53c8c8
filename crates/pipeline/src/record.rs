//! The bodies of entries, by kind.

mod links;

use credence_engine::{
    assured::{self, Assured},
    universal::{self, Outcome},
};
use credence_ledger::{Entry, Kind, NewEntry};
use credence_protocol::{
    Alias, Audience, Canonical, EntityId, KeyId, PublicKey, Root, ScoreStatus, SecretKey, Signal, Signature, Tag,
    Timestamp, Uuid, strict::present,
};
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{Rejection, Result, reports::ReportRecord, statements::ParsedStatement};
pub use crate::{attestations::AttestationRecord, probes::ProbeRecord};

pub use links::{DisputeRecord, DisputeStep, LinkRecord, LinkState};

/// Inputs listed in a score event; a longer list is stored by its count and digest.
pub const MAX_LISTED_INPUTS: usize = 256;

/// A source and its weight, from then on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceRecord {
    /// The source.
    pub source: EntityId,
    /// Its weight; 0 silences it.
    pub weight: f64,
    /// Who it is, in the operator's words.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub description: Option<String>,
    /// Who runs it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub owner: Option<EntityId>,
    /// The registries that it re-reads: sources that share one are one voice. None given: as before; an empty list: none.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub roots: Option<Vec<Root>>,
    /// Where it says how it verifies outputs: with it the source is admitted as a provider.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub methodology: Option<String>,
    /// What it signs from then on must name this authority; nothing where it is not bound.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub aud: Option<Audience>,
}

impl SourceRecord {
    /// Another weight, and nothing else that is new.
    pub fn weighing(source: EntityId, weight: f64) -> Self {
        Self { source, weight, description: None, owner: None, roots: None, methodology: None, aud: None }
    }
}

/// An agent. A later record of the same agent adds to the former.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentRecord {
    /// The agent.
    pub agent: EntityId,
    /// A display name.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub name: Option<String>,
    /// Its names elsewhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<Alias>,
    /// Who runs it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub owner: Option<EntityId>,
    /// What it signs from then on must name this authority; nothing where it is not bound.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub aud: Option<Audience>,
}

/// A key and the source it belongs to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRecord {
    /// The key's id.
    pub key_id: KeyId,
    /// The key.
    pub public_key: PublicKey,
    /// Whose it is.
    pub source: EntityId,
    /// The key that handed over to this one.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub replaces: Option<KeyId>,
    /// The former key's signature over this record without the endorsement: the hand-over was its own.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub endorsement: Option<Signature>,
}

impl KeyRecord {
    /// A key of `source`.
    pub fn new(key: &PublicKey, source: EntityId) -> Self {
        Self { key_id: key.id(), public_key: *key, source, replaces: None, endorsement: None }
    }

    /// The same, handed over and endorsed by `former`.
    pub fn endorsed_by(mut self, former: &SecretKey) -> Result<Self> {
        self.replaces = Some(former.public().id());
        self.endorsement = Some(former.sign(Canonical::of(&self)?.as_bytes()));
        Ok(self)
    }

    /// Checks the endorsement under the former key.
    pub fn check_endorsement(&self, former: &PublicKey) -> Result<()> {
        let Some(endorsement) = self.endorsement else { return Ok(()) };
        let unendorsed = Self { endorsement: None, ..self.clone() };
        Ok(former.verify(Canonical::of(&unendorsed)?.as_bytes(), &endorsement)?)
    }
}

/// From `from_seq` on, what the key signed stops counting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRevocationRecord {
    /// The key.
    pub key_id: KeyId,
    /// The first entry that no longer counts.
    pub from_seq: u64,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub reason: Option<String>,
}

/// A signal of its own that the authority no longer stands by, because what it was made of is gone or past.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WithdrawalRecord {
    /// Which.
    pub signal: Uuid,
    /// About whom.
    pub agent: EntityId,
    /// What it measured.
    pub tag: Tag,
    /// The crawler that made it; none for the authority's own.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub source: Option<EntityId>,
}

/// The authority takes an agent's standing back, or gives it back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StandingRecord {
    /// The agent.
    pub agent: EntityId,
    /// Whether it is revoked from now on.
    pub revoked: bool,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub reason: Option<String>,
}

/// A credential that was issued.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialRecord {
    /// Its id.
    pub credential: Uuid,
    /// About whom.
    pub agent: EntityId,
    /// Its place among all credentials, and so in the status lists.
    pub index: u64,
    /// SHA-256 of the canonical credential without its proof, in hex.
    pub digest: String,
    /// Until when it holds.
    pub valid_until: Timestamp,
}

/// A credential taken back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialRevocationRecord {
    /// Which.
    pub credential: Uuid,
    /// About whom.
    pub agent: EntityId,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub reason: Option<String>,
}

/// What really happened after someone relied on an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutcomeRecord {
    /// Its id, chosen by the reporter: the same one again is the same outcome.
    pub id: Uuid,
    /// The agent.
    pub agent: EntityId,
    /// Whether it went well.
    pub good: bool,
    /// When someone relied on it: the score of then is what is put to the test.
    pub relied_at: Timestamp,
    /// Who reports it.
    pub reporter: EntityId,
    /// The signed response it was relied on for.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub response: Option<CitedResponse>,
}

/// A signed response that left, with all that proves it from the log alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CitedResponse {
    /// SHA-256 of what was signed, in hex.
    pub hash: String,
    /// The entry of the batch that the hash is in.
    pub entry: u64,
    /// The hash's place in that batch.
    pub index: u64,
    /// From the hash to the batch's root (RFC 6962), in base64, the hash's sibling first.
    pub path: Vec<String>,
}

/// A batch of signed responses that left. The hashes stand beside the log ([`crate::responses`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResponsesRecord {
    /// The root of the tree over the SHA-256 of what was signed (RFC 6962), in base64.
    pub root: String,
    /// How many responses.
    pub count: u64,
}

/// Entries before this one were recorded in the future; from here on times are the clock's again ([`crate::times`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockRecord {
    /// The time of the entry before.
    pub ahead: Timestamp,
}

/// Whether a tag counts in scores, from here on ([`crate::tags`]).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TagRecord {
    /// The tag.
    pub tag: Tag,
    /// Admitted, and left out of scores.
    pub deferred: bool,
}

/// One input of a score: a current, applicable signal under one of its tags.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Input {
    /// The signal's entry.
    pub seq: u64,
    /// Who signed it: found in that entry, not repeated in the event.
    #[serde(skip)]
    pub source: EntityId,
    /// When it was measured, in microseconds since 1970: found in that entry, too.
    #[serde(skip)]
    pub observed_at: i64,
    /// The tag.
    pub tag: Tag,
    /// 0..=100.
    pub value: f64,
    /// 0..=50.
    pub stddev: f64,
    /// The source's weight when the score was made.
    pub weight: f64,
}

/// The inputs in a score event.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum InputList {
    /// All of them, in the order of (source, tag).
    Listed(Vec<Input>),
    /// Too many to list: derivable from the ledger, and bound by their digest.
    Digest {
        /// How many.
        count: usize,
        /// `sha256:` and the hex digest of the canonical JSON of the list.
        digest: String,
    },
}

impl InputList {
    /// Lists `inputs`, or digests them.
    pub fn of(inputs: &[Input]) -> Result<Self> {
        if inputs.len() <= MAX_LISTED_INPUTS {
            return Ok(Self::Listed(inputs.to_vec()));
        }
        let digest = Sha256::digest(Canonical::of(&inputs)?.as_bytes());
        Ok(Self::Digest { count: inputs.len(), digest: format!("sha256:{}", HEXLOWER.encode(&digest)) })
    }
}

/// A score with everything it was made from.
#[derive(Debug, Clone, Serialize)]
pub struct ScoreRecord {
    /// The agent.
    pub agent: EntityId,
    /// The ledger's size that the score saw.
    pub as_of: u64,
    /// The formula.
    pub formula: &'static str,
    /// The coverage floor then.
    pub coverage_floor: f64,
    /// The inputs.
    pub inputs: InputList,
    /// Every output number.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl ScoreRecord {
    /// The score of `inputs`, which are of `independent` voices.
    pub fn compute(
        agent: EntityId,
        as_of: u64,
        inputs: &[Input],
        independent: usize,
        coverage_floor: f64,
    ) -> Result<Self> {
        let weighted: Vec<_> = crate::filter::weighted(inputs).collect();
        let outcome = universal::score_with(&weighted, independent, coverage_floor)?;
        Ok(Self { agent, as_of, formula: universal::FORMULA, coverage_floor, inputs: InputList::of(inputs)?, outcome })
    }
}

/// What is read back from a score event: enough to list, show and recompute it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RecordedScore {
    /// The ledger's size that the score saw.
    pub as_of: u64,
    /// The formula.
    pub formula: String,
    /// The coverage floor then.
    pub coverage_floor: f64,
    /// Whether it may be shown.
    pub status: ScoreStatus,
    /// 0..=100.
    pub score: u8,
    /// The band of the score.
    pub tier: String,
    /// 0..=1.
    pub coverage: f64,
    /// Independent sources.
    pub sources: usize,
    /// Before rounding; absent when unrated, as are those that follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Before coverage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weighted_mean: Option<f64>,
    /// The uncertainty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stddev: Option<f64>,
    /// The integral over the tier's band.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier_confidence: Option<f64>,
}

/// An assured score, formula `uts/2`. Its inputs are those of the `uts/1` event that it names; ages follow from the signals' entries,
/// voices from the `source` entries before `as_of`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AssuredRecord {
    /// The agent.
    pub agent: EntityId,
    /// The ledger's size that the score saw.
    pub as_of: u64,
    /// The formula.
    pub formula: String,
    /// The digest of its parameters.
    pub parameters: String,
    /// The entry of the `uts/1` event with the same inputs.
    pub inputs_of: u64,
    /// The hour for which ages were taken: a whole one, UTC.
    pub evaluated_at: Timestamp,
    /// Every number.
    #[serde(flatten)]
    pub assured: Assured,
}

/// A score event of either formula.
#[derive(Debug, Clone, PartialEq)]
pub enum ScoreEvent {
    /// `uts/1`.
    Universal(RecordedScore),
    /// `uts/2`.
    Assured(Box<AssuredRecord>),
}

impl ScoreEvent {
    /// Parses the body of entry `seq`, by the formula that it names.
    pub fn parse(seq: u64, body: &str) -> credence_ledger::Result<Self> {
        #[derive(Deserialize)]
        struct Named {
            formula: String,
        }
        let damaged = |why: String| credence_ledger::Error::Entry { seq, why };
        let wrong = |e: serde_json::Error| damaged(e.to_string());
        let Named { formula } = serde_json::from_str(body).map_err(wrong)?;
        match formula.as_str() {
            universal::FORMULA => Ok(Self::Universal(serde_json::from_str(body).map_err(wrong)?)),
            assured::FORMULA => Ok(Self::Assured(Box::new(serde_json::from_str(body).map_err(wrong)?))),
            _ => Err(damaged(credence_engine::Error::UnknownFormula(formula.chars().take(40).collect()).to_string())),
        }
    }

    /// The ledger's size that the score saw.
    pub fn as_of(&self) -> u64 {
        match self {
            Self::Universal(event) => event.as_of,
            Self::Assured(event) => event.as_of,
        }
    }
}

/// How far the log of a guard has grown, as it was seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointRecord {
    /// Whose guard.
    pub provider: EntityId,
    /// Which log.
    pub log: String,
    /// Its entries.
    pub size: u64,
    /// Its root, in base64.
    pub root: String,
    /// The checkpoint, as the guard signed it.
    pub checkpoint: String,
}

/// A parsed entry body.
#[derive(Debug)]
#[non_exhaustive]
pub enum Record {
    /// A key.
    Key(KeyRecord),
    /// A source.
    Source(SourceRecord),
    /// An agent.
    Agent(AgentRecord),
    /// A signal.
    Signal(Box<Signal>),
    /// A score, of either formula.
    Score(ScoreEvent),
    /// A key revoked.
    KeyRevocation(KeyRevocationRecord),
    /// A signal withdrawn.
    Withdrawal(WithdrawalRecord),
    /// Something outside that is an agent's.
    Link(LinkRecord),
    /// A crawled signal disputed.
    Dispute(DisputeRecord),
    /// An agent's standing.
    Standing(StandingRecord),
    /// A credential issued.
    Credential(CredentialRecord),
    /// A credential taken back.
    CredentialRevocation(CredentialRevocationRecord),
    /// What came of relying on an agent.
    Outcome(OutcomeRecord),
    /// How far a guard's log has grown.
    Checkpoint(CheckpointRecord),
    /// A run of the sandbox.
    Probe(Box<ProbeRecord>),
    /// Responses that left.
    Responses(ResponsesRecord),
    /// What a person decided about a report.
    Report(ReportRecord),
    /// A step of writing a score to a chain.
    Attestation(Box<AttestationRecord>),
    /// Times are right again.
    Clock(ClockRecord),
    /// Whether a tag counts.
    Tag(TagRecord),
    /// A statement of an author.
    Statement(Box<ParsedStatement>),
    /// A kind this version records but does not interpret.
    Other(Kind),
}

impl Record {
    /// Parses the body of entry `seq`.
    pub fn of(seq: u64, entry: &Entry) -> credence_ledger::Result<Self> {
        Ok(match entry.kind {
            Kind::Key => Record::Key(entry.record(seq)?),
            Kind::Source => Record::Source(entry.record(seq)?),
            Kind::Agent => Record::Agent(entry.record(seq)?),
            Kind::Identity
            | Kind::Summary
            | Kind::Contract
            | Kind::Verification
            | Kind::Challenge
            | Kind::Resolution
            | Kind::Review => {
                let damaged = |e: Rejection| credence_ledger::Error::Entry { seq, why: e.to_string() };
                Record::Statement(Box::new(ParsedStatement::parse(entry.body().as_bytes()).map_err(damaged)?))
            }
            Kind::Signal => {
                let damaged = |e: credence_protocol::Error| credence_ledger::Error::Entry { seq, why: e.to_string() };
                Record::Signal(Box::new(Signal::parse(entry.body().as_bytes()).map_err(damaged)?))
            }
            Kind::Score => Record::Score(ScoreEvent::parse(seq, entry.body())?),
            Kind::Checkpoint => Record::Checkpoint(entry.record(seq)?),
            Kind::Probe => Record::Probe(Box::new(entry.record(seq)?)),
            Kind::Responses => Record::Responses(entry.record(seq)?),
            Kind::Report => Record::Report(entry.record(seq)?),
            Kind::Attestation => Record::Attestation(Box::new(entry.record(seq)?)),
            Kind::Clock => Record::Clock(entry.record(seq)?),
            Kind::Tag => Record::Tag(entry.record(seq)?),
            Kind::Credential => Record::Credential(entry.record(seq)?),
            Kind::Outcome => Record::Outcome(entry.record(seq)?),
            Kind::KeyRevocation => Record::KeyRevocation(entry.record(seq)?),
            Kind::CredentialRevocation => Record::CredentialRevocation(entry.record(seq)?),
            Kind::Withdrawal => Record::Withdrawal(entry.record(seq)?),
            Kind::Link => Record::Link(entry.record(seq)?),
            Kind::Dispute => Record::Dispute(entry.record(seq)?),
            Kind::Standing => Record::Standing(entry.record(seq)?),
            // Of ledgers beside the authority's.
            other @ (Kind::Receipt
            | Kind::HeldReceipt
            | Kind::Canary
            | Kind::Control
            | Kind::Operation
            | Kind::Segment) => Record::Other(other),
        })
    }
}

impl Record {
    /// The entry that records this about `subject`. Signals, statements and scores have their own way in: their bytes are those
    /// that were signed or computed.
    pub fn entry(&self, subject: &EntityId) -> Result<NewEntry> {
        let (kind, body) = match self {
            Record::Agent(body) => (Kind::Agent, Canonical::of(body)?),
            Record::Source(body) => (Kind::Source, Canonical::of(body)?),
            Record::Key(body) => (Kind::Key, Canonical::of(body)?),
            Record::KeyRevocation(body) => (Kind::KeyRevocation, Canonical::of(body)?),
            Record::Withdrawal(body) => (Kind::Withdrawal, Canonical::of(body)?),
            Record::Link(body) => (Kind::Link, Canonical::of(body)?),
            Record::Dispute(body) => (Kind::Dispute, Canonical::of(body)?),
            Record::Standing(body) => (Kind::Standing, Canonical::of(body)?),
            Record::Credential(body) => (Kind::Credential, Canonical::of(body)?),
            Record::CredentialRevocation(body) => (Kind::CredentialRevocation, Canonical::of(body)?),
            Record::Outcome(body) => (Kind::Outcome, Canonical::of(body)?),
            Record::Checkpoint(body) => (Kind::Checkpoint, Canonical::of(body)?),
            Record::Probe(body) => (Kind::Probe, Canonical::of(body)?),
            Record::Responses(body) => (Kind::Responses, Canonical::of(body)?),
            Record::Report(body) => (Kind::Report, Canonical::of(body)?),
            Record::Attestation(body) => (Kind::Attestation, Canonical::of(body)?),
            Record::Clock(body) => (Kind::Clock, Canonical::of(body)?),
            Record::Tag(body) => (Kind::Tag, Canonical::of(body)?),
            Record::Statement(stated) => (stated.entry_kind(), stated.statement.canonical().clone()),
            Record::Signal(_) | Record::Score(_) | Record::Other(_) => {
                return Err(credence_ledger::Error::Log("this record is not appended by itself".into()).into());
            }
        };
        Ok(NewEntry { kind, subject: subject.clone(), body, weight: None })
    }
}
