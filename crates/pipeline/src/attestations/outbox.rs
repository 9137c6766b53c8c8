//! Writing steps, and reading where attestations stand.

use std::ops::ControlFlow;

use credence_engine::assured;
use credence_ledger::{
    Appended, Checkpoint, LogVerifier, Scan, View,
    proof::{self, InclusionProof},
    write,
};
use credence_output::attestation::{self as score_document, ScoreClaim};
use credence_protocol::{Audience, Canonical, EntityId, ExternalSubject, Timestamp, Uuid};
use serde_json::Value;

use super::{
    Amount, AttestationRecord, AttestationRow, AttestationStep, Intent, Total,
    fold::fee_place,
    rules::{is_of_chain, wrong_with},
};
use crate::{
    Authority, Error, Result,
    answer::{self, home_page},
    credentials::Office,
    integrity,
    links::{self, indexers::withdraw_indexed},
    query,
    record::Record,
    registry::append,
    tables,
};

/// How long fees count against the budget of a day.
const DAY_SECONDS: i64 = 86_400;

/// What to attest.
#[derive(Debug, Clone, Copy)]
pub struct Draft<'a> {
    /// About whom.
    pub agent: &'a EntityId,
    /// The chain, as a CAIP-2 id.
    pub chain: &'a str,
    /// The registration; where none is named, the agent's only proven one on that chain.
    pub subject: Option<&'a ExternalSubject>,
    /// The address that will sign.
    pub by: &'a str,
    /// Whether newer score events are recorded first where they are due.
    pub rescore: bool,
}

/// What became of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded {
    /// It is an entry.
    Entry(u64),
    /// Somebody else recorded a step first: nothing was written, and what was signed for it must not be sent.
    MovedOn,
}

impl Authority {
    /// Makes the intent of an attestation with its signed document, and records nothing but newer score events where they are due.
    pub fn draft_attestation(&self, office: &Office, log: &LogVerifier, draft: Draft<'_>) -> Result<AttestationRecord> {
        if query::agent(&*self.ledger().view()?, draft.agent)?.revoked.is_some() {
            return Err(Error::AgentRevoked(draft.agent.clone()));
        }
        if draft.rescore {
            self.rescore(draft.agent)?;
        }
        let view = self.ledger().view()?;
        let score = self.reading().score(&*view, draft.agent)?;
        integrity::basis(&*view, &score)?;
        let Some(newest) = answer::published_assured(&score) else {
            return Err(Error::NotRated(draft.agent.clone()));
        };
        let subject = match draft.subject {
            Some(subject) => subject.clone(),
            None => registration(&*view, draft.agent, draft.chain, self.now())?,
        };
        let attestation = Uuid::new_v4();
        let malformed = |e: serde_json::Error| Error::Attestation(e.to_string());
        let claim = ScoreClaim {
            attestation,
            agent: draft.agent.clone(),
            chain: draft.chain.to_owned(),
            subject: subject.clone(),
            origin: Audience::new(self.ledger().origin())?,
            formula: assured::FORMULA.to_owned(),
            parameters: newest.parameters.clone(),
            event: newest.seq,
            evaluated_at: newest.evaluated_at,
            assured: serde_json::to_value(&newest.numbers).map_err(malformed)?,
            proof: inclusion(&*view, log, newest.seq)?,
        };
        let document = score_document::sign(&claim, &office.key)?;
        let intent = Intent {
            by: draft.by.to_owned(),
            value: i64::from(newest.numbers.score),
            decimals: 0,
            endpoint: home_page(&query::agent(&*view, draft.agent)?.aliases).unwrap_or_default(),
            uri: format!("{}/v1/attestations/{attestation}/document", office.base_url),
            hash: score_document::keccak(document.as_str().as_bytes()),
            document: serde_json::from_str(document.as_str()).map_err(malformed)?,
        };
        Ok(AttestationRecord {
            attestation,
            agent: draft.agent.clone(),
            chain: draft.chain.to_owned(),
            subject,
            step: AttestationStep::Intent,
            intent: Some(intent),
            transaction: None,
            inclusion: None,
            request: None,
            reason: None,
        })
    }

    /// Records an intent.
    pub fn intend_attestation(&self, record: AttestationRecord) -> Result<u64> {
        write(self.ledger(), move |tx| {
            query::agent(tx, &record.agent)?;
            let at = Appended { seq: tx.size()?, recorded_at: tx.stamp()? };
            if let Some(why) = wrong_with(tx, &record, at)? {
                return Err(Error::Attestation(why));
            }
            append(tx, &record.agent, &Record::Attestation(Box::new(record.clone())))
        })
    }

    /// Records a step that builds on the entry `after`, if that is still the newest of this attestation. A transaction must fit into
    /// `budget`: the most that 24 hours may cost on its chain, with what is still under way.
    pub fn record_attestation_step(
        &self,
        record: AttestationRecord,
        after: u64,
        budget: Option<u128>,
    ) -> Result<Recorded> {
        let sends = record.step == AttestationStep::Sent;
        let recorded = write(self.ledger(), move |tx| {
            let known = row(tx, record.attestation)?;
            if known.is_none_or(|known| known.newest_seq() != after) {
                return Ok(Recorded::MovedOn);
            }
            let at = Appended { seq: tx.size()?, recorded_at: tx.stamp()? };
            if let Some(why) = wrong_with(tx, &record, at)? {
                return Err(Error::Attestation(why));
            }
            if let Some(transaction) = &record.transaction {
                let needed = transaction.max_fee.0;
                fits_budget(tx, &record.chain, at.recorded_at, Some(record.attestation), needed, budget)?;
            }
            let is_first = sends && !has_attestation(tx, &record.agent)?;
            let seq = append(tx, &record.agent, &Record::Attestation(Box::new(record.clone())))?;
            // From now on the registry may hold our own word, which its indexers repeat.
            if is_first {
                withdraw_indexed(tx, &record.agent)?;
            }
            Ok(Recorded::Entry(seq))
        })?;
        if sends {
            self.wake_scorer();
        }
        Ok(recorded)
    }
}

/// That an entry is in the log, as a file.
fn inclusion(view: &dyn View, log: &LogVerifier, seq: u64) -> Result<String> {
    let note = view.checkpoint()?.unwrap_or_default();
    let size = Checkpoint::open(&note, log)?.size;
    let (entry, hashes) = (view.entry(seq)?.unwrap_or_default(), proof::inclusion(size, seq, view)?);
    Ok(InclusionProof { entry, seq, hashes, checkpoint: note }.to_text())
}

/// The agent's proven registration on a chain, if there is exactly one.
fn registration(view: &dyn View, agent: &EntityId, chain: &str, now: Timestamp) -> Result<ExternalSubject> {
    let links = links::links_of(view, agent)?.into_iter();
    let mut proven = links.filter(|link| link.row.feeds(now) && is_of_chain(&link.link, chain)).map(|link| link.link);
    match (proven.next(), proven.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err(Error::Attestation(format!(
            "agent '{agent}' has no proven registration on {chain}: link one with `credence agent link {agent} KIND:ID`"
        ))),
        (Some(one), Some(other)) => Err(Error::Attestation(format!(
            "agent '{agent}' has several registrations on {chain}, {} and {}: name one with --subject",
            one.as_str(),
            other.as_str()
        ))),
    }
}

/// One attestation.
pub fn row(view: &(impl View + ?Sized), id: Uuid) -> Result<Option<AttestationRow>> {
    tables::get(view, tables::ATTESTATIONS, &id.to_string())
}

/// The attestations of a chain with something left to do, oldest first; of every chain where `chain` is empty.
pub fn open(view: &(impl View + ?Sized), chain: &str) -> Result<Vec<(Uuid, AttestationRow)>> {
    let prefix = if chain.is_empty() { String::new() } else { format!("{chain}/") };
    listed(view, tables::OPEN_ATTESTATIONS, Scan::prefix(&prefix), usize::MAX)
}

/// The attestations about an agent, newest first; about everyone, by agents, where none is given.
pub fn of_agent(
    view: &(impl View + ?Sized),
    agent: Option<&EntityId>,
    limit: usize,
) -> Result<Vec<(Uuid, AttestationRow)>> {
    let prefix = agent.map_or_else(String::new, |agent| format!("{agent}/"));
    listed(view, tables::AGENT_ATTESTATIONS, Scan { reverse: true, ..Scan::prefix(&prefix) }, limit)
}

fn listed(
    view: &(impl View + ?Sized),
    table: credence_ledger::Table,
    scan: Scan<'_>,
    limit: usize,
) -> Result<Vec<(Uuid, AttestationRow)>> {
    let mut ids: Vec<Uuid> = Vec::new();
    if limit > 0 {
        tables::scan(view, table, scan, |_, id| {
            ids.push(id);
            Ok(if ids.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
    }
    let mut rows = Vec::new();
    for id in ids {
        rows.extend(row(view, id)?.map(|row| (id, row)));
    }
    Ok(rows)
}

/// Whether a transaction was ever sent to write a score of this agent: its registries may hold our own word since.
pub fn has_attestation(view: &(impl View + ?Sized), agent: &EntityId) -> Result<bool> {
    Ok(of_agent(view, Some(agent), usize::MAX)?.iter().any(|(_, row)| !row.transactions.is_empty()))
}

/// What 24 hours cost on a chain, and the most that what is under way can cost; `but` is left out.
pub fn spent(view: &(impl View + ?Sized), chain: &str, now: Timestamp, but: Option<Uuid>) -> Result<u128> {
    let since = fee_place(chain, now.plus_seconds(-DAY_SECONDS), 0);
    let mut sum: u128 = 0;
    let scan = Scan { after: Some(&since), ..Scan::prefix("") };
    let prefix = format!("{chain}/");
    tables::scan(view, tables::ATTESTATION_FEES, Scan { prefix: &prefix, ..scan }, |_, fee: Amount| {
        sum = sum.saturating_add(fee.0);
        Ok(ControlFlow::Continue(()))
    })?;
    for (id, row) in open(view, chain)? {
        if Some(id) != but {
            sum = sum.saturating_add(row.pending_fee());
        }
    }
    Ok(sum)
}

/// How many steps of each kind each chain has seen, and what they cost.
pub fn totals(view: &(impl View + ?Sized)) -> Result<Vec<Total>> {
    Ok(tables::all(view, tables::ATTESTATION_TOTALS)?.into_iter().map(|(_, total)| total).collect())
}

/// Fails where a transaction that can cost `needed` does not fit into what 24 hours may cost.
pub fn fits_budget(
    view: &(impl View + ?Sized),
    chain: &str,
    now: Timestamp,
    but: Option<Uuid>,
    needed: u128,
    budget: Option<u128>,
) -> Result<()> {
    let Some(budget) = budget else { return Ok(()) };
    let used = spent(view, chain, now, but)?;
    if used.saturating_add(needed) <= budget {
        return Ok(());
    }
    let (chain, budget, used, needed) = (chain.to_owned(), Amount(budget), Amount(used), Amount(needed));
    Err(Error::AttestationBudget { chain, budget, used, needed })
}

/// The signed document of an attestation, as it is served: its canonical bytes.
pub fn document(view: &(impl View + ?Sized), id: Uuid) -> Result<Option<String>> {
    let Some(row) = row(view, id)? else { return Ok(None) };
    let body = query::record(view, row.intent_seq())?;
    let document: &Value = &body["intent"]["document"];
    Ok(Some(Canonical::of(document)?.as_str().to_owned()))
}
