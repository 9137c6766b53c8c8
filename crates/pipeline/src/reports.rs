//! Reports on agents, as the ledger knows them: what people decided, never the text (seed 4, R08; DESIGN, *Reports*).
//!
//! ```text
//! (draft) ─ approved ─ published ─ corrected* ─ withdrawn
//!     └─────── └─ rejected
//! ```
//!
//! A draft is no entry: entries are public. Every decision names the draft by its digest, the token that wrote it and the token that
//! decided; the two differ, in their ids and in their names. Only a report whose newest approval is of the same digest can be
//! published. The rules hold when an entry is written ([`Authority::decide_report`]) and in an audit.

use credence_ledger::{Appended, Transaction, View, write};
use credence_protocol::{EntityId, Timestamp, Uuid, strict::present};
use serde::{Deserialize, Serialize};

use crate::{
    Authority, Error, Result,
    record::Record,
    registry::{append, check_text},
    tables::{self, AgentRow},
};

/// Corrections of one report, at most: a report that needs more is withdrawn.
pub const MAX_CORRECTIONS: usize = 32;
/// A SHA-256 digest in hex.
const DIGEST_DIGITS: usize = 64;
/// Characters of a token's id.
const MAX_TOKEN_ID: usize = 64;

/// A token that drafted or decided: whose it is, and which.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenHolder {
    /// The name that the token was made for.
    pub name: EntityId,
    /// The token's id, which is not secret.
    pub token: String,
}

impl TokenHolder {
    /// Whether both are one party: the same token, or two tokens of one name.
    pub fn is_same_party(&self, other: &Self) -> bool {
        self.token == other.token || self.name == other.name
    }
}

/// What a person decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportAction {
    /// It may be published.
    Approved,
    /// It will not be published.
    Rejected,
    /// It is public from now on.
    Published,
    /// Something in it was wrong.
    Corrected,
    /// The authority no longer stands by it.
    Withdrawn,
}

impl ReportAction {
    /// As in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Published => "published",
            Self::Corrected => "corrected",
            Self::Withdrawn => "withdrawn",
        }
    }

    /// Whether it says why, in public.
    fn needs_reason(self) -> bool {
        matches!(self, Self::Rejected | Self::Corrected | Self::Withdrawn)
    }
}

/// A decision about a report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportRecord {
    /// Which report.
    pub report: Uuid,
    /// About whom it is.
    pub agent: EntityId,
    /// What was decided.
    pub action: ReportAction,
    /// SHA-256 of the report's contents in canonical JSON, in hex. Contents have a random salt: the digest tells nothing of them.
    pub digest: String,
    /// Who drafted it.
    pub drafted_by: TokenHolder,
    /// Who decided.
    pub by: TokenHolder,
    /// On publication: SHA-256 of what was signed, in hex.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub document: Option<String>,
    /// On a correction: the published report that takes the place of this one.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub replaced_by: Option<Uuid>,
    /// Why: of a rejection, a correction and a withdrawal.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub reason: Option<String>,
}

/// Where a report stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportState {
    /// Approved, not public.
    Approved,
    /// Rejected for good.
    Rejected,
    /// Public.
    Published,
    /// Public, and no longer stood by.
    Withdrawn,
}

impl ReportState {
    /// As in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Published => "published",
            Self::Withdrawn => "withdrawn",
        }
    }
}

/// A report about which somebody decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportRow {
    /// About whom.
    pub agent: EntityId,
    /// The digest of its contents.
    pub digest: String,
    /// Who drafted it.
    pub drafted_by: TokenHolder,
    /// Where it stands.
    pub state: ReportState,
    /// SHA-256 of the signed document, once it is published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
    /// Every decision, oldest first.
    pub events: Vec<ReportEvent>,
}

/// A decision that was recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReportEvent {
    /// The entry.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// What.
    pub action: ReportAction,
    /// Who.
    pub by: TokenHolder,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The report that takes its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<Uuid>,
}

impl ReportRow {
    /// The newest decision of a kind.
    pub fn newest(&self, action: ReportAction) -> Option<&ReportEvent> {
        self.events.iter().rev().find(|event| event.action == action)
    }

    /// Whether its text is public.
    pub fn is_public(&self) -> bool {
        matches!(self.state, ReportState::Published | ReportState::Withdrawn)
    }
}

impl Authority {
    /// Records what a person decided, if it can be decided now.
    pub fn decide_report(&self, record: ReportRecord) -> Result<Appended> {
        check_text("reason", record.reason.as_deref())?;
        write(self.ledger(), move |tx| {
            if tables::get::<AgentRow>(tx, tables::AGENTS, record.agent.as_str())?.is_none() {
                return Err(Error::UnknownAgent(record.agent.to_string()));
            }
            if let Some(wrong) = wrong_with(tx, &record)? {
                return Err(Error::Report(wrong));
            }
            let at = tx.stamp()?;
            let seq = append(tx, &record.agent, &Record::Report(record.clone()))?;
            Ok(Appended { seq, recorded_at: at })
        })
    }
}

/// Folds a decision in.
pub(crate) fn apply(tx: &mut dyn Transaction, at: Appended, record: &ReportRecord) -> Result<()> {
    let id = record.report.to_string();
    let known: Option<ReportRow> = tables::get(tx, tables::REPORTS, &id)?;
    let ReportRecord { agent, action, digest, drafted_by, by, document, replaced_by, reason, .. } = record.clone();
    let mut row = known.unwrap_or(ReportRow {
        agent,
        digest,
        drafted_by,
        state: ReportState::Approved,
        document: None,
        events: Vec::new(),
    });
    row.state = match action {
        ReportAction::Approved => ReportState::Approved,
        ReportAction::Rejected => ReportState::Rejected,
        ReportAction::Published => ReportState::Published,
        ReportAction::Corrected => row.state,
        ReportAction::Withdrawn => ReportState::Withdrawn,
    };
    if action == ReportAction::Published {
        row.document = document;
        tables::put(tx, tables::PUBLISHED_REPORTS, &format!("{:016}", at.seq), &record.report)?;
        tables::put(tx, tables::AGENT_REPORTS, &tables::agent_seq(&row.agent, at.seq), &record.report)?;
    }
    row.events.push(ReportEvent { seq: at.seq, at: at.recorded_at, action, by, reason, replaced_by });
    Ok(tables::put(tx, tables::REPORTS, &id, &row)?)
}

/// Why a decision cannot be taken, given what was decided before.
pub(crate) fn wrong_with(view: &(impl View + ?Sized), record: &ReportRecord) -> Result<Option<String>> {
    if let Some(malformed) = malformed(record) {
        return Ok(Some(malformed));
    }
    let row: Option<ReportRow> = tables::get(view, tables::REPORTS, &record.report.to_string())?;
    if let Some(row) = &row {
        if row.agent != record.agent || row.drafted_by != record.drafted_by {
            return Ok(Some(format!("report {} is another one, about '{}'", record.report, row.agent)));
        }
        if row.digest != record.digest {
            return Ok(Some("its contents are not those that were approved: draft it again".to_owned()));
        }
    }
    let state = row.as_ref().map(|row| row.state);
    let wrong = match (record.action, state) {
        (ReportAction::Approved, None | Some(ReportState::Approved)) => {
            let before = row.as_ref().and_then(|row| row.newest(ReportAction::Approved));
            before
                .filter(|event| event.by.is_same_party(&record.by))
                .map(|event| format!("it was approved by '{}' before (entry {})", event.by.name, event.seq))
        }
        (ReportAction::Rejected, None | Some(ReportState::Approved))
        | (ReportAction::Published, Some(ReportState::Approved))
        | (ReportAction::Withdrawn, Some(ReportState::Published)) => None,
        (ReportAction::Corrected, Some(ReportState::Published)) => {
            let corrections = row.iter().flat_map(|row| &row.events);
            let corrections = corrections.filter(|event| event.action == ReportAction::Corrected).count();
            if corrections < MAX_CORRECTIONS {
                wrong_with_replacement(view, record)?
            } else {
                Some(format!("it was corrected {MAX_CORRECTIONS} times: withdraw it"))
            }
        }
        (ReportAction::Published, None) => Some("nobody has approved it".to_owned()),
        (_, Some(state)) => Some(format!("it is {}", state.key())),
        (_, None) => Some("it was not published".to_owned()),
    };
    Ok(wrong.map(|why| format!("report {} cannot be {}: {why}", record.report, record.action.key())))
}

/// What is wrong with a record by itself.
fn malformed(record: &ReportRecord) -> Option<String> {
    let is_digest = |text: &str| text.len() == DIGEST_DIGITS && text.bytes().all(|b| b.is_ascii_hexdigit());
    let is_token =
        |text: &str| (1..=MAX_TOKEN_ID).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric());
    let ReportRecord { action, drafted_by, by, document, replaced_by, reason, .. } = record;
    if !is_digest(&record.digest) || document.as_deref().is_some_and(|hash| !is_digest(hash)) {
        return Some("a digest is 64 hex digits".to_owned());
    }
    if !is_token(&by.token) || !is_token(&drafted_by.token) {
        return Some("a decision about a report names the tokens of its drafter and of its reviewer".to_owned());
    }
    if by.is_same_party(drafted_by) {
        return Some(format!("'{}' drafted this report: somebody else has to decide about it", drafted_by.name));
    }
    if document.is_some() != (*action == ReportAction::Published)
        || replaced_by.is_some() && *action != ReportAction::Corrected
    {
        return Some(format!("a report that is {} has other members", action.key()));
    }
    if action.needs_reason() != reason.as_deref().is_some_and(|reason| !reason.trim().is_empty()) {
        return Some(if action.needs_reason() {
            format!("a report is {} for a reason: say it", action.key())
        } else {
            format!("a report is {} without a reason", action.key())
        });
    }
    None
}

/// A correction may lead to another published report about the same agent.
fn wrong_with_replacement(view: &(impl View + ?Sized), record: &ReportRecord) -> Result<Option<String>> {
    let Some(id) = record.replaced_by else { return Ok(None) };
    let row: Option<ReportRow> = tables::get(view, tables::REPORTS, &id.to_string())?;
    let fits =
        row.is_some_and(|row| row.state == ReportState::Published && row.agent == record.agent && id != record.report);
    Ok((!fits).then(|| format!("{id} is not another published report about '{}'", record.agent)))
}
