//! Disputes: an agent's owner says that a crawled signal is wrong; the statement stands beside the signal, and the operator withdraws the
//! signal or keeps it. A withdrawal lasts: what the source says under these tags over that link is not recorded until the operator lifts it.
//! Each step is a `dispute` entry. The statement is the owner's text: it is shown, escaped, and decides nothing.

use std::{collections::BTreeSet, ops::ControlFlow};

use credence_ledger::{Appended, NewJob, Scan, Transaction, View, write};
use credence_protocol::{EntityId, ExternalSubject, Tag, Timestamp, Uuid};
use serde::{Deserialize, Serialize};

use crate::{
    Authority, Error, Result, due,
    record::{DisputeRecord, DisputeStep, Record},
    registry::{append, check_text},
    tables::{self, KeyRow, SignalPlace},
};

/// A disputed signal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DisputedRow {
    /// The entry of the last step.
    pub seq: u64,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// The last step.
    pub step: DisputeStep,
    /// What the owner says.
    pub statement: String,
    /// Whether a key of the agent signed it.
    pub signed: bool,
    /// Why the operator decided so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
}

fn place(agent: &EntityId, signal: Uuid) -> String {
    format!("{agent}/{signal}")
}

/// What was said of a signal.
pub fn dispute(view: &(impl View + ?Sized), agent: &EntityId, signal: Uuid) -> Result<Option<DisputedRow>> {
    tables::get(view, tables::DISPUTED, &place(agent, signal))
}

/// Every disputed signal of an agent.
pub fn disputes_of(view: &(impl View + ?Sized), agent: &EntityId) -> Result<Vec<(Uuid, DisputedRow)>> {
    let mut all = Vec::new();
    let prefix = format!("{agent}/");
    tables::scan(view, tables::DISPUTED, Scan::prefix(&prefix), |key, row: DisputedRow| {
        if let Ok(signal) = Uuid::parse_str(&key[prefix.len()..]) {
            all.push((signal, row));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(all)
}

/// A disputed signal in a score.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DisputedInput {
    /// The signal.
    pub signal: Uuid,
    /// Its entry.
    pub seq: u64,
    /// Whether it is open, or the operator kept it.
    pub step: DisputeStep,
    /// The entry of that step. The owner's statement is there and with the agent's disputes: it is text of someone who is rated, and
    /// scores are read by models.
    pub dispute: u64,
}

/// The disputed ones among the signals with these entries.
pub fn disputed_among(
    view: &(impl View + ?Sized),
    agent: &EntityId,
    seqs: &BTreeSet<u64>,
) -> Result<Vec<DisputedInput>> {
    let mut found = Vec::new();
    for (signal, row) in disputes_of(view, agent)? {
        let place: Option<SignalPlace> = tables::get(view, tables::SIGNAL_IDS, &signal.to_string())?;
        if let Some(place) = place.filter(|place| seqs.contains(&place.seq)) {
            found.push(DisputedInput { signal, seq: place.seq, step: row.step, dispute: row.seq });
        }
    }
    Ok(found)
}

/// The tags under which the operator withdrew what `source` says of an agent over a link. A withdrawal lasts until it is lifted: the
/// source would say the same again with the next answer.
pub(super) fn withdrawn_by(
    view: &(impl View + ?Sized),
    agent: &EntityId,
    source: &EntityId,
    link: &ExternalSubject,
) -> Result<BTreeSet<Tag>> {
    let mut tags = BTreeSet::new();
    for (signal, row) in disputes_of(view, agent)? {
        if row.step != DisputeStep::Withdrawn {
            continue;
        }
        let place: Option<SignalPlace> = tables::get(view, tables::SIGNAL_IDS, &signal.to_string())?;
        let Some(place) = place else { continue };
        let signal = crate::derive::signal_at(view, place.seq)?;
        let same_link = super::link_of(&signal).is_some_and(|over| over == link.as_str());
        if signal.draft().source == *source && same_link {
            tags.extend(signal.draft().tags.iter().cloned());
        }
    }
    Ok(tags)
}

pub(super) fn is_withdrawn(view: &(impl View + ?Sized), agent: &EntityId, signal: Uuid) -> Result<bool> {
    Ok(dispute(view, agent, signal)?.is_some_and(|row| row.step == DisputeStep::Withdrawn))
}

impl Authority {
    /// Records a step of a dispute. Where the operator withdraws, the signal stops counting in the same unit of work.
    pub fn dispute(&self, record: DisputeRecord) -> Result<u64> {
        check_text("text", Some(&record.text))?;
        let seq = write(self.ledger(), move |tx| {
            if let Some(why) = broken_rule(tx, &record)? {
                return Err(Error::Dispute { signal: record.signal, why });
            }
            let seq = append(tx, &record.agent, &Record::Dispute(record.clone()))?;
            if record.step == DisputeStep::Withdrawn {
                for crawled in super::crawled_signals(tx, &record.agent)? {
                    if crawled.signal == record.signal {
                        super::withdraw(tx, &record.agent, &crawled)?;
                    }
                }
            }
            if record.step == DisputeStep::Lifted {
                ask_again(tx, &record)?;
            }
            Ok(seq)
        })?;
        self.wake_scorer();
        Ok(seq)
    }
}

/// Asks the source again after a withdrawal was lifted, without memory of the last answer.
fn ask_again(tx: &mut dyn Transaction, record: &DisputeRecord) -> Result<()> {
    let place: Option<SignalPlace> = tables::get(tx, tables::SIGNAL_IDS, &record.signal.to_string())?;
    let Some(place) = place else { return Ok(()) };
    let signal = crate::derive::signal_at(tx, place.seq)?;
    let link = super::link_of(&signal).and_then(|link| ExternalSubject::parse(&link).ok());
    let Some(link) = link else { return Ok(()) };
    let key = super::feeding::job_key(&record.agent, &signal.draft().source, &link);
    Ok(tx.put_jobs(&[NewJob::now(due::CRAWL, key, "")])?)
}

fn broken_rule(view: &(impl View + ?Sized), record: &DisputeRecord) -> Result<Option<&'static str>> {
    let former = dispute(view, &record.agent, record.signal)?;
    let is_open = former.as_ref().is_some_and(|row| row.step == DisputeStep::Opened);
    if record.text.trim().is_empty() {
        return Ok(Some("say why"));
    }
    if record.step != DisputeStep::Opened {
        let signed = record.key_id.is_some() || record.signature.is_some();
        let is_withdrawn = former.as_ref().is_some_and(|row| row.step == DisputeStep::Withdrawn);
        let follows = if record.step == DisputeStep::Lifted { is_withdrawn } else { is_open };
        return Ok(match (follows, signed) {
            (false, _) if record.step == DisputeStep::Lifted => Some("it is not withdrawn"),
            (false, _) => Some("no dispute of it is open"),
            (true, true) => Some("the operator's decision is not signed by the agent"),
            (true, false) => None,
        });
    }
    let place: Option<SignalPlace> = tables::get(view, tables::SIGNAL_IDS, &record.signal.to_string())?;
    let Some(place) = place.filter(|place| place.agent == record.agent) else {
        return Ok(Some("it is no signal about this agent"));
    };
    if super::link_of(&crate::derive::signal_at(view, place.seq)?).is_none() {
        return Ok(Some("no crawler made it: ask its source, or challenge what it rests on"));
    }
    if former.is_some() {
        return Ok(Some("it was disputed before"));
    }
    let Some(key) = record.key_id else {
        return Ok(record.signature.is_some().then_some("it is signed by no key"));
    };
    let row: Option<KeyRow> = tables::get(view, tables::KEYS, &key.to_string())?;
    let own = row.filter(|row| row.source == record.agent && row.revoked_from.is_none());
    Ok(match own {
        None => Some("the key that signed it is not the agent's"),
        Some(row) if record.signature.is_none() || record.verify(&row.public_key).is_err() => {
            Some("the signature does not hold")
        }
        Some(_) => None,
    })
}

/// What is wrong with a step, for an audit.
pub(crate) fn wrong_with(view: &(impl View + ?Sized), record: &DisputeRecord) -> Result<Option<String>> {
    Ok(broken_rule(view, record)?.map(|why| format!("the dispute of {}: {why}", record.signal)))
}

/// Folds a step in.
pub(crate) fn apply(tx: &mut dyn Transaction, at: Appended, record: &DisputeRecord) -> Result<()> {
    let key = place(&record.agent, record.signal);
    let former: Option<DisputedRow> = tables::get(tx, tables::DISPUTED, &key)?;
    let row = match former {
        Some(former) if record.step != DisputeStep::Opened => {
            DisputedRow { seq: at.seq, step: record.step, decision: Some(record.text.clone()), ..former }
        }
        _ => DisputedRow {
            seq: at.seq,
            opened_at: at.recorded_at,
            step: record.step,
            statement: record.text.clone(),
            signed: record.signature.is_some(),
            decision: None,
        },
    };
    Ok(tables::put(tx, tables::DISPUTED, &key, &row)?)
}
