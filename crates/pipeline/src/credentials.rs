//! Credentials: what the authority vouches for in a form that others can carry, and what it takes back (seed 4; DESIGN,
//! *Assessment*).
//!
//! Every credential has a place in two status lists, in the order of issue. An agent's standing can be revoked: its credentials
//! are suspended then, its badge says so, and answers decline. That can be lifted; a single credential taken back stays so.

use std::ops::ControlFlow;

use credence_engine::assured::Assured;
use credence_ledger::{Appended, Scan, Transaction, View, write};
use credence_output::{
    credential::{self, Claim},
    did::Issuer,
    status_list::{self, MIN_BITS, Purpose, StatusList},
};
use credence_protocol::{Canonical, EntityId, SecretKey, Timestamp, Uuid};
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    Authority, Error, Result, answer, due, integrity,
    query::{self, CurrentScore, Reading},
    record::{CredentialRecord, CredentialRevocationRecord, Record, StandingRecord},
    registry::{append, check_text},
    rescore::rescore,
    tables::{self, AgentRow},
};

/// Credentials in one status list.
pub const LIST_LENGTH: u64 = MIN_BITS as u64;
/// How long a status list can be relied on.
const LIST_SECONDS: i64 = 3600;
/// The type of our credentials.
const KIND: &str = "AgentTrustCredential";
/// The type of a status list's own credential.
const LIST_KIND: &str = "BitstringStatusListCredential";

/// A credential that was issued.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CredentialRow {
    /// The entry.
    pub seq: u64,
    /// When.
    pub issued_at: Timestamp,
    /// About whom.
    pub agent: EntityId,
    /// Its place in the status lists.
    pub index: u64,
    /// SHA-256 of the canonical credential without its proof, in hex.
    pub digest: String,
    /// Until when it holds.
    pub valid_until: Timestamp,
    /// The entry that took this one back; the agent's standing apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<u64>,
}

/// Who issues, and where its status lists are.
#[derive(Clone)]
pub struct Office {
    /// The issuer.
    pub issuer: Issuer,
    /// Its key.
    pub key: SecretKey,
    /// Where the service is reached, without a slash at the end.
    pub base_url: String,
}

impl Office {
    /// The office of the service at `base_url`: did:web where others reach it over https, did:key elsewhere.
    pub fn new(base_url: &str, key: SecretKey) -> Self {
        let base_url = base_url.trim_end_matches('/').to_owned();
        Self { issuer: Issuer::new(base_url.strip_prefix("https://"), &key.public()), key, base_url }
    }

    fn list_url(&self, list: u64, purpose: Purpose) -> String {
        let name = match purpose {
            Purpose::Revocation => "status-lists",
            Purpose::Suspension => "suspension-lists",
        };
        format!("{}/v1/{name}/{list}", self.base_url)
    }

    fn status(&self, index: u64) -> Value {
        let (list, place) = (index / LIST_LENGTH, (index % LIST_LENGTH) as usize);
        let entry = |purpose| status_list::entry(&self.list_url(list, purpose), place, purpose);
        json!([entry(Purpose::Revocation), entry(Purpose::Suspension)])
    }
}

impl Authority {
    /// Issues a credential about `agent` that holds for `days`, and records it.
    pub fn issue_credential(&self, office: &Office, agent: &EntityId, days: u16) -> Result<Value> {
        let office = office.clone();
        let agent = agent.clone();
        let (scoring, requirements) = (self.scoring().clone(), self.requirements().clone());
        write(self.ledger(), move |tx| {
            let reading = Reading { tags: &scoring.tags, requirements: &requirements };
            let row: AgentRow = require(tx, &agent)?;
            if row.revoked.is_some() {
                return Err(Error::AgentRevoked(agent.clone()));
            }
            rescore(tx, &agent, &scoring)?;
            let score = reading.score(&*tx, &agent)?;
            integrity::basis(tx, &score)?;
            let id = Uuid::new_v4();
            let index = next_index(tx)?;
            let now = tx.stamp()?;
            let valid_until = now.plus_seconds(i64::from(days) * 86_400);
            let claim = Claim {
                id: format!("urn:uuid:{id}"),
                issuer: office.issuer.did().to_owned(),
                kind: KIND,
                subject: subject(&row, &score)?,
                valid_from: now,
                valid_until,
                status: Some(office.status(index)),
            };
            let method = office.issuer.verification_method(&office.key.public());
            let issued = credential::issue(claim, &office.key, &method)?;
            let record =
                CredentialRecord { credential: id, agent: agent.clone(), index, digest: digest(&issued)?, valid_until };
            append(tx, &agent, &Record::Credential(record))?;
            Ok(issued)
        })
    }

    /// Takes one credential back, for good.
    pub fn revoke_credential(&self, id: Uuid, reason: Option<String>) -> Result<u64> {
        check_text("reason", reason.as_deref())?;
        write(self.ledger(), move |tx| {
            let row: Option<CredentialRow> = tables::get(tx, tables::CREDENTIALS, &id.to_string())?;
            let row = row.ok_or(Error::UnknownCredential(id))?;
            if let Some(seq) = row.revoked {
                return Err(Error::CredentialRevoked { credential: id, seq });
            }
            let record =
                CredentialRevocationRecord { credential: id, agent: row.agent.clone(), reason: reason.clone() };
            append(tx, &row.agent, &Record::CredentialRevocation(record))
        })
    }

    /// Takes an agent's standing back, or gives it back.
    pub fn set_standing(&self, agent: EntityId, revoked: bool, reason: Option<String>) -> Result<u64> {
        check_text("reason", reason.as_deref())?;
        write(self.ledger(), move |tx| {
            let row: AgentRow = require(tx, &agent)?;
            match (row.revoked.is_some(), revoked) {
                (true, true) => return Err(Error::AgentRevoked(agent.clone())),
                (false, false) => return Err(Error::NotRevoked(agent.clone())),
                _ => {}
            }
            let record = StandingRecord { agent: agent.clone(), revoked, reason: reason.clone() };
            append(tx, &agent, &Record::Standing(record))
        })
    }
}

fn require(view: &(impl View + ?Sized), agent: &EntityId) -> Result<AgentRow> {
    query::agent(view, agent)
}

/// What is said of an agent.
fn subject(row: &AgentRow, current: &CurrentScore) -> Result<serde_json::Map<String, Value>> {
    let outcome = answer::published(current);
    let score = outcome.rated().ok_or_else(|| Error::NotRated(current.agent.clone()))?;
    let did = row.aliases.iter().find(|alias| alias.as_str().starts_with("did:"));
    let id = did.map_or_else(|| format!("urn:credence:agent:{}", current.agent), ToString::to_string);
    let mut subject = json!({
        "id": id, "agent": current.agent, "score": score.score, "mean": score.mean, "stddev": score.stddev, "tier": score.tier,
        "tierConfidence": score.tier_confidence, "certification": current.certification.tier, "coverage": score.coverage,
        "sources": score.sources, "formula": current.formula, "asOf": current.as_of, "scoreEvent": current.seq,
    });
    if let Some(assured) = answer::published_assured(current) {
        let Assured { score, estimate, low, high, known, tier, .. } = &assured.numbers;
        subject["assured"] = json!({
            "score": score, "estimate": estimate, "low": low, "high": high, "known": known, "tier": tier,
            "formula": assured.formula, "parameters": assured.parameters, "evaluatedAt": assured.evaluated_at,
            "scoreEvent": assured.seq,
        });
    }
    Ok(subject.as_object().cloned().unwrap_or_default())
}

/// SHA-256 of a credential without its proof, in hex.
fn digest(credential: &Value) -> Result<String> {
    let mut document = credential.clone();
    if let Some(members) = document.as_object_mut() {
        members.remove("proof");
    }
    Ok(HEXLOWER.encode(&Sha256::digest(Canonical::of(&document)?.as_bytes())))
}

pub(crate) fn place(index: u64) -> String {
    format!("{index:016}")
}

fn next_index(view: &(impl View + ?Sized)) -> Result<u64> {
    let mut next = 0;
    view.scan(tables::CREDENTIAL_INDEXES, Scan { reverse: true, ..Scan::all() }, &mut |key, _| {
        next = key.parse::<u64>().map_or(0, |last| last + 1);
        ControlFlow::Break(())
    })?;
    Ok(next)
}

/// The signed status list `list`; none before any credential has its place there.
pub fn status_list(
    view: &dyn View,
    office: &Office,
    purpose: Purpose,
    list: u64,
    now: Timestamp,
) -> Result<Option<Value>> {
    if list > 0 && list > next_index(view)?.saturating_sub(1) / LIST_LENGTH {
        return Ok(None);
    }
    let mut bits = StatusList::new(0);
    let (first, mut failed) = (list * LIST_LENGTH, None);
    let before = first.checked_sub(1).map(place);
    let scan = Scan { after: before.as_deref(), ..Scan::all() };
    let table = match purpose {
        Purpose::Revocation => tables::REVOKED_CREDENTIALS,
        Purpose::Suspension => tables::SUSPENDED_CREDENTIALS,
    };
    view.scan(table, scan, &mut |key, _| {
        let Some(at) = key.parse::<u64>().ok().filter(|index| *index < first + LIST_LENGTH) else {
            return ControlFlow::Break(());
        };
        failed = bits.revoke((at - first) as usize).err();
        if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    failed.map_or(Ok(()), Err)?;
    let url = office.list_url(list, purpose);
    let claim = Claim {
        id: url.clone(),
        issuer: office.issuer.did().to_owned(),
        kind: LIST_KIND,
        subject: bits.subject(&url, purpose)?,
        valid_from: now,
        valid_until: now.plus_seconds(LIST_SECONDS),
        status: None,
    };
    let method = office.issuer.verification_method(&office.key.public());
    Ok(Some(credential::issue(claim, &office.key, &method)?))
}

pub(crate) fn issued(tx: &mut dyn Transaction, at: Appended, record: &CredentialRecord) -> Result<()> {
    let CredentialRecord { credential, agent, index, digest, valid_until } = record.clone();
    let row = CredentialRow {
        seq: at.seq,
        issued_at: at.recorded_at,
        agent: agent.clone(),
        index,
        digest,
        valid_until,
        revoked: None,
    };
    tables::put(tx, tables::CREDENTIALS, &credential.to_string(), &row)?;
    tables::put(tx, tables::CREDENTIAL_INDEXES, &place(index), &credential)?;
    Ok(tables::put(tx, tables::AGENT_CREDENTIALS, &tables::agent_seq(&agent, index), &credential)?)
}

pub(crate) fn revoked(tx: &mut dyn Transaction, at: Appended, record: &CredentialRevocationRecord) -> Result<()> {
    let id = record.credential.to_string();
    let Some(mut row) = tables::get::<CredentialRow>(tx, tables::CREDENTIALS, &id)? else { return Ok(()) };
    row.revoked = row.revoked.or(Some(at.seq));
    tables::put(tx, tables::CREDENTIALS, &id, &row)?;
    Ok(tables::put(tx, tables::REVOKED_CREDENTIALS, &place(row.index), &at.seq)?)
}

pub(crate) fn standing(tx: &mut dyn Transaction, at: Appended, record: &StandingRecord) -> Result<()> {
    let Some(mut row) = tables::get::<AgentRow>(tx, tables::AGENTS, record.agent.as_str())? else { return Ok(()) };
    row.revoked = record.revoked.then_some(at.seq);
    tables::put(tx, tables::AGENTS, record.agent.as_str(), &row)?;
    due::review_attestations(tx, &record.agent, at.seq)?;
    for (_, credential) in query::credentials_of(tx, &record.agent, usize::MAX)? {
        let place = place(credential.index);
        if record.revoked {
            tables::put(tx, tables::SUSPENDED_CREDENTIALS, &place, &at.seq)?;
        } else {
            tx.delete(tables::SUSPENDED_CREDENTIALS, &place)?;
        }
    }
    Ok(())
}

/// For audits: places are given in order, once.
pub(crate) fn wrong_with_issue(view: &(impl View + ?Sized), record: &CredentialRecord) -> Result<Option<String>> {
    if tables::get::<CredentialRow>(view, tables::CREDENTIALS, &record.credential.to_string())?.is_some() {
        return Ok(Some(format!("credential {} was issued before", record.credential)));
    }
    let next = next_index(view)?;
    Ok((record.index != next).then(|| format!("its place in the status lists is {}, not {next}", record.index)))
}

/// For audits.
pub(crate) fn wrong_with_standing(view: &(impl View + ?Sized), record: &StandingRecord) -> Result<Option<String>> {
    let row: Option<AgentRow> = tables::get(view, tables::AGENTS, record.agent.as_str())?;
    let same = row.is_some_and(|row| row.revoked.is_some() == record.revoked);
    Ok(same.then(|| "the standing was so before".to_owned()))
}

/// For audits.
pub(crate) fn wrong_with_revocation(
    view: &(impl View + ?Sized),
    record: &CredentialRevocationRecord,
) -> Result<Option<String>> {
    let row: Option<CredentialRow> = tables::get(view, tables::CREDENTIALS, &record.credential.to_string())?;
    Ok(match row {
        None => Some(format!("it takes back credential {}, which was not issued", record.credential)),
        Some(row) if row.agent != record.agent => Some(format!("the credential is about '{}'", row.agent)),
        Some(CredentialRow { revoked: Some(seq), .. }) => Some(format!("entry {seq} took the credential back before")),
        Some(_) => None,
    })
}
