//! The projections: ordered tables derived from the entries. Rows are JSON, so that a person with `sqlite3` can read
//! them. Keys of per-agent tables start with the agent.
//!
//! | table | key | row |
//! |---|---|---|
//! | `agents` | agent | name, aliases |
//! | `aliases` | what all spellings of an alias have in common | agent |
//! | `sources` | source | weight |
//! | `keys` | key id | source, public key, revocation |
//! | `signal_ids` | id | where the signal is |
//! | `slots` | agent/source/tag/observed_at/seq | every signal under each of its tags, oldest first |
//! | `superseded` | id/seq | that the signal at seq supersedes this one |
//! | `current` | agent/source/tag | the current signal of each slot |
//! | `scores` | agent/formula | the newest score by each formula |
//! | `score_events` | agent/formula/seq | every score |
//! | `records` | kind/id | where a statement with an id of its own is |
//! | `identities` | agent | what an agent declares of itself |
//! | `contracts` | id | a claim, and what became of it |
//! | `agent_contracts` | agent/seq | the contracts of an agent, oldest first |
//! | `settled` | agent/seq/contract | what an agent's contracts came to, oldest first |
//! | `citations` | agent/peer | who took an agent's contracts up, and what that weighs |
//! | `dealings` | contract/agent | that an agent took a contract up or disputed it |
//! | `withdrawn` | agent/source/tag | the entry before which the authority's own signals of a slot are dead |
//! | `challenges` | id | a challenge, and what became of it |
//! | `open_challenges` | challenger/id | those not settled yet |
//! | `claims` | contract/challenger/digest | what was claimed against a contract |
//! | `disputes` | agent/seq | what settled challenges say of an agent |
//! | `reviews` | agent/reviewer | the newest review of each pair that weighs anything |
//! | `reputations` | agent | the reputation now |
//! | `reputation_events` | agent/seq | every reputation |
//! | `bearings` | group/seq | that the statement at seq bears on a group ([`crate::statements`]), and what it weighed |
//! | `summaries` | agent/window/provider | the newest output-verification summary |
//! | `stakes` | provider/window | checks by stake in all of a provider's reports |
//! | `credentials` | id | a credential that was issued |
//! | `credential_indexes` | index | the id of the credential there |
//! | `agent_credentials` | agent/index | the id of the credential |
//! | `revoked_credentials` | index | the entry that took a credential back |
//! | `suspended_credentials` | index | the entry that revoked the standing of a credential's agent |
//! | `outcomes` | agent/seq | what came of relying on an agent |
//! | `outcome_ids` | id | the entry |
//! | `probe_runs` | agent/seq | when a run of the sandbox was recorded |
//! | `probed` | agent/tag | what the newest run that could tell says of a tag |
//! | `guard_logs` | log | how far a guard's log has grown |
//! | `reports` | id | what people decided about a report |
//! | `published_reports` | seq | the id of the report that this entry published |
//! | `agent_reports` | agent/seq | the same, by agent |
//! | `attestations` | id | an agent's score that is written to a chain, and where that stands |
//! | `agent_attestations` | agent/seq | the id of the attestation |
//! | `open_attestations` | chain/seq | the id of an attestation with something left to do |
//! | `attestation_fees` | chain/time/seq | what a transaction cost |
//! | `attestation_totals` | chain/step | how many such steps there were, and what they cost |
//! | `clock` | seq | when times became right again, after entries in the future |
//! | `agent_attestations` | agent/seq | the id of an attestation of its score on a chain |
//! | `tags` | tag | whether it counts in scores, where an entry said so |
//! | `registrations` | agent/KIND:ID | what a registration on a chain says, as it was read last |
//!
//! Beside the log, and no projections: what they hold follows from no entry ([`crate::responses`]).
//!
//! | table | key | row |
//! |---|---|---|
//! | `response_hashes` | hash | a signed response that left, and its path to the root in the log |
//! | `response_ages` | class/until/hash | the order in which those hashes go; count/class: how many there are |
//! | `crawls` | source | how a crawled source is doing |
//! | `crawl_alarms` | source/agent/KIND:ID | that its answer has another form than required |

use std::ops::ControlFlow;

use credence_engine::{assured, universal};
use credence_ledger::{Scan, Table, Transaction, View};
use credence_protocol::{Alias, Audience, EntityId, KeyId, PublicKey, Root, Tag, Timestamp, Uuid};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    Error, Result,
    record::{AssuredRecord, RecordedScore},
};

/// agent → [`AgentRow`]
pub const AGENTS: Table = Table("agents");
/// [`Alias::key`] → [`EntityId`]
pub const ALIASES: Table = Table("aliases");
/// source → [`SourceRow`]
pub const SOURCES: Table = Table("sources");
/// key id → [`KeyRow`]
pub const KEYS: Table = Table("keys");
/// agent/source/tag/observed_at/seq → [`SlotRow`]
pub const SLOTS: Table = Table("slots");
/// id/seq → the [`KeyId`] that signed the superseding signal
pub const SUPERSEDED: Table = Table("superseded");
/// id → [`SignalPlace`]
pub const SIGNAL_IDS: Table = Table("signal_ids");
/// agent/source/tag → [`CurrentRow`]
pub const CURRENT: Table = Table("current");
/// agent/formula → [`ScoreRow`], [`AssuredRow`]
pub const SCORES: Table = Table("scores");
/// agent/formula/seq → [`ScoreRow`], [`AssuredRow`]
pub const SCORE_EVENTS: Table = Table("score_events");
/// kind/id → seq
pub const RECORDS: Table = Table("records");
/// group/seq → [`BearingRow`](crate::statements::groups::BearingRow)
pub const BEARINGS: Table = Table("bearings");
/// agent → [`IdentityRow`](crate::reputation::rows::IdentityRow)
pub const IDENTITIES: Table = Table("identities");
/// id → [`ContractRow`](crate::reputation::rows::ContractRow)
pub const CONTRACTS: Table = Table("contracts");
/// agent/seq → id
pub const AGENT_CONTRACTS: Table = Table("agent_contracts");
/// agent/seq/contract → [`SettledRow`](crate::reputation::rows::SettledRow)
pub const SETTLED: Table = Table("settled");
/// agent/peer → [`ReviewRow`](crate::reputation::rows::ReviewRow)
pub const CITATIONS: Table = Table("citations");
/// contract/agent → seq
pub const DEALINGS: Table = Table("dealings");
/// agent/source/tag → seq
pub const WITHDRAWN: Table = Table("withdrawn");
/// id → [`ChallengeRow`](crate::reputation::rows::ChallengeRow)
pub const CHALLENGES: Table = Table("challenges");
/// challenger/id → seq
pub const OPEN_CHALLENGES: Table = Table("open_challenges");
/// contract/challenger/digest → how often
pub const CLAIMS: Table = Table("claims");
/// agent/seq → [`DisputeRow`](crate::reputation::rows::DisputeRow)
pub const DISPUTES: Table = Table("disputes");
/// agent/reviewer → [`ReviewRow`](crate::reputation::rows::ReviewRow)
pub const REVIEWS: Table = Table("reviews");
/// agent → [`ReputationRow`](crate::reputation::rows::ReputationRow)
pub const REPUTATIONS: Table = Table("reputations");
/// agent/seq → [`ReputationRow`](crate::reputation::rows::ReputationRow)
pub const REPUTATION_EVENTS: Table = Table("reputation_events");
/// agent/window/provider → [`SummaryRow`](crate::summaries::SummaryRow)
pub const SUMMARIES: Table = Table("summaries");
/// provider/window → all checks, and those high or critical
pub const STAKES: Table = Table("stakes");
/// id → [`CredentialRow`](crate::credentials::CredentialRow)
pub const CREDENTIALS: Table = Table("credentials");
/// index → id
pub const CREDENTIAL_INDEXES: Table = Table("credential_indexes");
/// agent/index → id
pub const AGENT_CREDENTIALS: Table = Table("agent_credentials");
/// index → seq
pub const REVOKED_CREDENTIALS: Table = Table("revoked_credentials");
/// index → seq
pub const SUSPENDED_CREDENTIALS: Table = Table("suspended_credentials");
/// agent/seq → [`OutcomeRow`](crate::outcomes::OutcomeRow)
pub const OUTCOMES: Table = Table("outcomes");
/// id → seq
pub const OUTCOME_IDS: Table = Table("outcome_ids");
/// agent/seq → when
pub const PROBE_RUNS: Table = Table("probe_runs");
/// agent/tag → [`ProbedRow`](crate::probes::ProbedRow)
pub const PROBED: Table = Table("probed");
/// log → [`GuardLogRow`](crate::receipts::GuardLogRow)
pub const GUARD_LOGS: Table = Table("guard_logs");
/// id → [`ReportRow`](crate::reports::ReportRow)
pub const REPORTS: Table = Table("reports");
/// seq → id
pub const PUBLISHED_REPORTS: Table = Table("published_reports");
/// agent/seq → id
pub const AGENT_REPORTS: Table = Table("agent_reports");
/// agent/KIND:ID → [`LinkRow`](crate::links::LinkRow)
pub const LINKS: Table = Table("links");
/// agent/signal → [`DisputedRow`](crate::links::disputes::DisputedRow)
pub const DISPUTED: Table = Table("disputed");
/// id → [`AttestationRow`](crate::attestations::AttestationRow)
pub const ATTESTATIONS: Table = Table("attestations");
/// agent/seq → id
pub const AGENT_ATTESTATIONS: Table = Table("agent_attestations");
/// chain/seq → id
pub const OPEN_ATTESTATIONS: Table = Table("open_attestations");
/// chain/time/seq → [`Amount`](crate::attestations::Amount)
pub const ATTESTATION_FEES: Table = Table("attestation_fees");
/// chain/step → [`Total`](crate::attestations::Total)
pub const ATTESTATION_TOTALS: Table = Table("attestation_totals");
/// seq → when times became right again
pub const CLOCK: Table = Table("clock");
/// tag → [`TagRow`](crate::tags::TagRow)
pub const TAGS: Table = Table("tags");
/// agent/KIND:ID → [`RegistrationRow`](crate::registrations::RegistrationRow)
pub const REGISTRATIONS: Table = Table("registrations");
/// hash → [`HashRow`](crate::responses::HashRow)
pub const RESPONSE_HASHES: Table = Table("response_hashes");
/// class/until/hash → nothing; count/class → how many
pub const RESPONSE_AGES: Table = Table("response_ages");
/// source → [`CrawlRow`](crate::links::feeding::CrawlRow)
pub const CRAWLS: Table = Table("crawls");
/// source/agent/KIND:ID → [`AlarmRow`](crate::links::alarms::AlarmRow)
pub const CRAWL_ALARMS: Table = Table("crawl_alarms");
/// Every table: the projections, and after them those that replay leaves alone.
pub const TABLES: &[Table] = &[
    AGENTS,
    ALIASES,
    SOURCES,
    KEYS,
    SIGNAL_IDS,
    SLOTS,
    SUPERSEDED,
    CURRENT,
    SCORES,
    SCORE_EVENTS,
    RECORDS,
    BEARINGS,
    IDENTITIES,
    CONTRACTS,
    AGENT_CONTRACTS,
    SETTLED,
    CITATIONS,
    DEALINGS,
    WITHDRAWN,
    CHALLENGES,
    OPEN_CHALLENGES,
    CLAIMS,
    DISPUTES,
    REVIEWS,
    REPUTATIONS,
    REPUTATION_EVENTS,
    SUMMARIES,
    STAKES,
    CREDENTIALS,
    CREDENTIAL_INDEXES,
    AGENT_CREDENTIALS,
    REVOKED_CREDENTIALS,
    SUSPENDED_CREDENTIALS,
    OUTCOMES,
    OUTCOME_IDS,
    PROBE_RUNS,
    PROBED,
    GUARD_LOGS,
    REPORTS,
    PUBLISHED_REPORTS,
    AGENT_REPORTS,
    LINKS,
    DISPUTED,
    ATTESTATIONS,
    AGENT_ATTESTATIONS,
    OPEN_ATTESTATIONS,
    ATTESTATION_FEES,
    ATTESTATION_TOTALS,
    CLOCK,
    TAGS,
    REGISTRATIONS,
    RESPONSE_HASHES,
    RESPONSE_AGES,
    CRAWLS,
    CRAWL_ALARMS,
];

/// The projections.
pub fn projections() -> &'static [Table] {
    TABLES.split_last_chunk::<4>().map_or(TABLES, |(projections, _)| projections)
}

/// An agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentRow {
    /// The entry that registered it.
    pub seq: u64,
    /// When.
    pub registered_at: Timestamp,
    /// A display name.
    pub name: Option<String>,
    /// Its names elsewhere.
    pub aliases: Vec<Alias>,
    /// Who runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<EntityId>,
    /// What it signs must name this authority, where it is bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aud: Option<Audience>,
    /// The entry by which its standing was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<u64>,
}

/// A source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceRow {
    /// The entry that set the weight.
    pub seq: u64,
    /// The weight.
    pub weight: f64,
    /// Who it is.
    pub description: Option<String>,
    /// Who runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<EntityId>,
    /// The registries that it re-reads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<Root>,
    /// How it verifies outputs, where it is admitted as a provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub methodology: Option<String>,
    /// What it signs must name this authority, where it is bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aud: Option<Audience>,
}

/// A key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeyRow {
    /// The entry that registered it.
    pub seq: u64,
    /// Whose it is.
    pub source: EntityId,
    /// The key.
    pub public_key: PublicKey,
    /// The key it replaced.
    pub replaces: Option<KeyId>,
    /// From this entry on it does not count.
    pub revoked_from: Option<u64>,
}

impl KeyRow {
    /// Whether what the key signed at `seq` counts.
    pub fn counts_at(&self, seq: u64) -> bool {
        self.revoked_from.is_none_or(|from| seq < from)
    }
}

/// A signal under one of its tags.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlotRow {
    /// Its id.
    pub id: Uuid,
    /// Who signed.
    pub key: KeyId,
    /// 0..=100.
    pub value: f64,
    /// 0..=50.
    pub stddev: f64,
}

/// Where a signal is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SignalPlace {
    /// Its entry.
    pub seq: u64,
    /// About whom.
    pub agent: EntityId,
    /// Who measured.
    pub source: EntityId,
    /// Its tags.
    pub tags: Vec<Tag>,
}

/// The current signal of one (agent, source, tag).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CurrentRow {
    /// Its entry.
    pub seq: u64,
    /// Microseconds since 1970.
    pub observed_at: i64,
    /// 0..=100.
    pub value: f64,
    /// 0..=50.
    pub stddev: f64,
}

/// A recorded score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScoreRow {
    /// Its entry.
    pub seq: u64,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// The numbers.
    #[serde(flatten)]
    pub recorded: RecordedScore,
}

/// A recorded assured score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AssuredRow {
    /// Its entry.
    pub seq: u64,
    /// When it was recorded.
    pub recorded_at: Timestamp,
    /// When an event was last recorded by age alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aged_at: Option<Timestamp>,
    /// The event.
    #[serde(flatten)]
    pub recorded: AssuredRecord,
}

/// `agent/formula`.
pub fn score_place(agent: &EntityId, formula: &str) -> String {
    format!("{agent}/{formula}")
}

/// `agent/formula/seq`, with the seq in a form that sorts.
pub fn score_event_place(agent: &EntityId, formula: &str, seq: u64) -> String {
    format!("{agent}/{formula}/{seq:016}")
}

/// An agent's newest universal score.
pub fn universal_of(view: &(impl View + ?Sized), agent: &EntityId) -> Result<Option<ScoreRow>> {
    get(view, SCORES, &score_place(agent, universal::FORMULA))
}

/// An agent's newest assured score.
pub fn assured_of(view: &(impl View + ?Sized), agent: &EntityId) -> Result<Option<AssuredRow>> {
    get(view, SCORES, &score_place(agent, assured::FORMULA))
}

/// `agent/seq`, with the seq in a form that sorts.
pub fn agent_seq(agent: &EntityId, seq: u64) -> String {
    format!("{agent}/{seq:016}")
}

/// `agent/source/tag`.
pub fn slot(agent: &EntityId, source: &EntityId, tag: &Tag) -> String {
    format!("{agent}/{source}/{tag}")
}

/// A signal's place in a slot: times and seqs in a form that sorts, times before 1970 included.
pub fn slot_place(slot: &str, observed_at: i64, seq: u64) -> String {
    let sortable = observed_at as u64 ^ (1 << 63);
    format!("{slot}/{sortable:020}/{seq:016}")
}

/// `observed_at` and `seq` out of such a place.
pub fn split_place(place: &str) -> Option<(i64, u64)> {
    let mut parts = place.rsplit('/');
    let seq = parts.next()?.parse().ok()?;
    let sortable: u64 = parts.next()?.parse().ok()?;
    Some(((sortable ^ (1 << 63)) as i64, seq))
}

/// The three parts of an `agent/source/tag` key.
pub fn split_slot(key: &str) -> Option<(&str, &str, &str)> {
    let (agent, rest) = key.split_once('/')?;
    let (source, tag) = rest.split_once('/')?;
    Some((agent, source, tag))
}

/// Reads a row.
pub fn get<T: DeserializeOwned>(view: &(impl View + ?Sized), table: Table, key: &str) -> Result<Option<T>> {
    view.get(table, key)?.map(|bytes| parse(table, key, &bytes)).transpose()
}

/// Writes a row.
pub fn put(tx: &mut dyn Transaction, table: Table, key: &str, row: &impl Serialize) -> credence_ledger::Result<()> {
    let text = serde_json::to_string(row).map_err(|e| credence_ledger::Error::Log(format!("{}: {e}", table.0)))?;
    tx.put(table, key, &text)
}

/// Parses a row.
pub fn parse<T: DeserializeOwned>(table: Table, key: &str, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|e| Error::Row { table: table.0, key: key.to_owned(), why: e.to_string() })
}

/// Visits parsed rows until `visit` breaks or fails.
pub fn scan<T: DeserializeOwned>(
    view: &(impl View + ?Sized),
    table: Table,
    range: Scan<'_>,
    mut visit: impl FnMut(&str, T) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let mut failed = None;
    view.scan(table, range, &mut |key, bytes| match parse(table, key, bytes).and_then(|row| visit(key, row)) {
        Ok(flow) => flow,
        Err(error) => {
            failed = Some(error);
            ControlFlow::Break(())
        }
    })?;
    failed.map_or(Ok(()), Err)
}

/// All rows of a small table.
pub fn all<T: DeserializeOwned>(view: &(impl View + ?Sized), table: Table) -> Result<Vec<(String, T)>> {
    let mut rows = Vec::new();
    scan(view, table, Scan::all(), |key, row| {
        rows.push((key.to_owned(), row));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(rows)
}
