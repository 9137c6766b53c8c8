//! Everything that is read for a person or for an answer. Reads only: no other crate opens a table.
//!
//! | question | function |
//! |---|---|
//! | who is this agent, which agents are there | [`resolve`], [`agent`], [`agents`], [`similar_agents`] |
//! | what is its score, and why | [`Reading::score`], [`Reading::explain`], [`Reading::custom`] |
//! | is that score up to date | [`Reading::is_behind`] |
//! | what was its score | [`score_at`], [`history`], [`closings`]; [`assured_history`], [`assured_closings`] |
//! | all agents, to be ranked | [`Reading::overviews`], [`Ranking`] |
//! | what do other agents say of it | [`reputation`], [`reputation_history`], [`reviews`] |
//! | what became of a contract or a challenge | [`contract`], [`contracts_of`], [`challenge`], [`challenges_of`] |
//! | what do providers report of its outputs | [`stats`] |
//! | what did probes of it come to | [`probe_runs`], [`probed`], [`probe_schedule`] |
//! | did the scores hold | [`reliability`] |
//! | which credentials does it have, which domains did it prove | [`credential`], [`credentials_of`], [`is_suspended`], [`proved_domains`] |
//! | what else is its own, what is disputed of what was read there, how sources are doing | [`link`], [`links_of`], [`all_links`], [`disputes_of`], [`crawls`], [`Indexers`] |
//! | what do its registrations on chains say, which tags count | [`registrations_of`], [`Deferral`] |
//! | who may sign, and what it counts for | [`sources`], [`key`], [`keys`], [`keys_after`], [`authority_keys`] |
//! | which reports on it were published, and what became of one | [`report`], [`published_reports`], [`reports_of`] |
//! | what was written of it to chains | [`attestation`], [`attestations_of`], [`open_attestations`], [`attestation_document`], [`has_attestation`] |
//! | what was recorded about it | [`entries_about`] |
//! | where in the log is it | [`record`], [`recorded`], [`size_at`], [`guard_logs`] |
//!
//! **One rule for scores**: what is shown, ranked and signed is the newest recorded score event of an agent by each formula, with the
//! inputs that the `uts/1` event lists. They are at most a second behind the signals; a signer checks [`Reading::is_behind`] first.

mod agents;
mod credentials;
mod domains;
mod history;
mod inputs;
mod measured;
mod overview;
mod probes;
mod registry;
mod reports;
mod reputation;
mod score;
mod statements;

use credence_ledger::{Entry, View};
use credence_protocol::Timestamp;
use serde_json::Value;

pub use self::{
    agents::{AgentFilter, AgentPage, ListedAgent, agent, agents, listed, resolve, similar_agents},
    credentials::{Revocable, credential, credentials_of, is_suspended, revocable},
    domains::{proved_domains, recently_proved},
    history::{RecordedEvent, RecordedEvents, assured_closings, assured_history, closings, history, score_at, size_at},
    measured::{reliability, stats},
    overview::{Formula, Glance, Overview, Part, Ranking},
    probes::{ProbeRun, probe_runs, probe_schedule, probed},
    registry::{authority_keys, guard_logs, key, keys, keys_after, sources},
    reports::{entries_about, published_reports, report, reports_of},
    reputation::{Reputation, established_reputations, reputation, reputation_history, reviews},
    score::{CurrentAssured, CurrentScore, Explanation, Reading, SourceContribution, assured, headline},
    statements::{challenge, challenges_of, contract, contracts_of, has_contracts},
};
pub use crate::{
    attestations::{
        AttestationRow, AttestationState, document as attestation_document, fits_budget as fits_attestation_budget,
        has_attestation, of_agent as attestations_of, open as open_attestations, row as attestation,
        totals as attestation_totals,
    },
    credentials::CredentialRow,
    domains::Proved,
    links::{
        Link, LinkRow,
        alarms::Alarm,
        all as all_links,
        disputes::{DisputedInput, DisputedRow, dispute, disputed_among, disputes_of},
        feeding::{CrawlRow, crawls},
        indexers::Indexers,
        link, links_of,
    },
    outcomes::Reliability,
    probes::ProbedRow,
    registrations::{RegistrationRow, registrations_of},
    reports::{ReportEvent, ReportRow, ReportState},
    reputation::rows::{ChallengeRow, ChallengeState, ContractRow, ReputationRow, ReviewRow},
    summaries::{Oddity, Reported, Stats},
    tables::{AgentRow, AssuredRow, KeyRow, ScoreRow, SourceRow},
    tags::{Deferral, TagRow},
};

pub(crate) use self::inputs::are_inputs_of;
use crate::{Authority, Result};

impl Authority {
    /// How this authority's scores are read.
    pub fn reading(&self) -> Reading<'_> {
        Reading { tags: &self.scoring().tags, requirements: self.requirements() }
    }
}

/// The body of entry `seq`, as JSON.
pub fn record(view: &(impl View + ?Sized), seq: u64) -> Result<Value> {
    recorded(view, seq).map(|(_, body)| body)
}

/// When entry `seq` was recorded, and its body, as JSON.
pub fn recorded(view: &(impl View + ?Sized), seq: u64) -> Result<(Timestamp, Value)> {
    let entry = Entry::parse(seq, &view.entry(seq)?.unwrap_or_default())?;
    Ok((entry.recorded_at, entry.record(seq)?))
}
