//! What an agent's registrations on chains say, and whether they agree (`cross_chain_consistency`).
//!
//! A reader of a chain puts what a registration says into the evidence of one signal of each reading, as `crawl.registration`: digests,
//! origins and accounts. It is folded into the table `registrations`, one row for each link, while that link is proven and the signal
//! counts. [`credence_engine::consistency`] compares the rows; [`crate::derive`] signs what comes out.
//!
//! Only a source that reads the chain of the link is believed: `chain-eip155-8453` for `erc8004:eip155:8453:…`.

use std::{collections::BTreeSet, ops::ControlFlow};

use credence_engine::consistency::{self, Registration};
use credence_ledger::{Appended, Scan, Transaction, View};
use credence_protocol::{EntityId, ExternalSubject, KeyId, Signal, SubjectKind, Timestamp, Uuid, strict::StrictValue};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    Result, due,
    links::{self, feeding::EVIDENCE},
    record::{KeyRevocationRecord, LinkState, WithdrawalRecord},
    tables,
};

/// The member of a reader's evidence.
pub const MEMBER: &str = "registration";
/// The tag.
pub(crate) const TAG: &str = "cross_chain_consistency";
/// What the id of a source that reads a chain starts with.
const READER: &str = "chain-";
/// Disagreements that are listed; all are counted.
const MAX_LISTED: usize = 32;

/// What a registration said last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegistrationRow {
    /// The entry of the signal that tells it.
    pub seq: u64,
    /// That signal.
    pub signal: Uuid,
    /// Who signed it.
    pub key: KeyId,
    /// What it says.
    pub registration: Registration,
}

/// The id of the source that reads `chain` (CAIP-2).
pub fn reader_of(chain: &str) -> String {
    format!("{READER}{}", chain.replace(':', "-"))
}

/// Whether a source reads a chain itself.
pub fn is_reader(source: &str) -> bool {
    source.starts_with(READER)
}

/// Every registration of an agent that counts, with its link.
pub fn registrations_of(
    view: &(impl View + ?Sized),
    agent: &EntityId,
) -> Result<Vec<(ExternalSubject, RegistrationRow)>> {
    let mut rows = Vec::new();
    tables::scan(view, tables::REGISTRATIONS, Scan::prefix(&format!("{agent}/")), |key, row: RegistrationRow| {
        rows.push((links::split(key)?.1, row));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(rows)
}

/// What the registrations of an agent come to at `now`: value, stddev and evidence. Nothing with one registration.
pub(crate) fn compare(
    view: &(impl View + ?Sized),
    agent: &EntityId,
    now: Timestamp,
) -> Result<Option<(f64, f64, Value)>> {
    let rows = registrations_of(view, agent)?;
    if rows.len() < 2 {
        return Ok(None);
    }
    let list: Vec<(&str, &Registration)> = rows.iter().map(|(link, row)| (link.id(), &row.registration)).collect();
    let proven: BTreeSet<String> = links::links_of(view, agent)?
        .into_iter()
        .filter(|link| link.link.kind() == SubjectKind::Wallet && link.row.feeds(now))
        .map(|link| link.link.id().to_owned())
        .collect();
    let Some(found) = consistency::compare(&list, &proven) else { return Ok(None) };
    let ids: Vec<&str> = list.iter().take(consistency::MAX_REGISTRATIONS).map(|(id, _)| *id).collect();
    let listed: Vec<_> = found.disagreements.iter().take(MAX_LISTED).collect();
    let evidence = json!({
        "derivation": consistency::DERIVATION, "registrations": ids, "comparisons": found.comparisons,
        "agreeing": found.comparisons - found.disagreements.len(), "disagree": listed,
    });
    Ok(Some((found.value, found.stddev, evidence)))
}

/// Takes what a signal says of a registration.
pub(crate) fn take(tx: &mut dyn Transaction, at: Appended, signal: &Signal) -> Result<()> {
    let Some((link, registration)) = told_by(signal) else { return Ok(()) };
    let agent = &signal.draft().agent;
    let proven = links::link(tx, agent, &link)?.is_some_and(|row| row.state == LinkState::Proven);
    if !proven {
        return Ok(());
    }
    let row = RegistrationRow { seq: at.seq, signal: signal.draft().id, key: signal.key_id(), registration };
    tables::put(tx, tables::REGISTRATIONS, &format!("{agent}/{link}"), &row)?;
    due::derive(tx, agent.as_str(), at.seq)
}

/// The link and the registration in the evidence of a reader's signal.
fn told_by(signal: &Signal) -> Option<(ExternalSubject, Registration)> {
    let draft = signal.draft();
    let StrictValue(evidence) = draft.evidence.as_ref()?;
    let crawled = evidence.get(EVIDENCE)?;
    let registration: Registration = serde_json::from_value(crawled.get(MEMBER)?.clone()).ok()?;
    let link = ExternalSubject::parse(crawled.get("link")?.as_str()?).ok()?;
    let on_chain = match link.kind() {
        SubjectKind::Erc8004 => link.id().starts_with(&format!("{}:", registration.chain)),
        SubjectKind::Solana8004 => registration.chain.starts_with("solana:"),
        _ => false,
    };
    (on_chain && draft.source.as_str() == reader_of(&registration.chain)).then_some((link, registration))
}

/// The link is over: what it said is forgotten. Another state of a wallet or a registration is news as well.
pub(crate) fn link_changed(
    tx: &mut dyn Transaction,
    at: Appended,
    agent: &EntityId,
    link: &ExternalSubject,
    over: bool,
) -> Result<()> {
    if !matches!(link.kind(), SubjectKind::Wallet | SubjectKind::Erc8004 | SubjectKind::Solana8004) {
        return Ok(());
    }
    if over {
        tx.delete(tables::REGISTRATIONS, &format!("{agent}/{link}"))?;
    }
    due::derive(tx, agent.as_str(), at.seq)
}

/// Forgets what a withdrawn signal said.
pub(crate) fn forget_withdrawn(tx: &mut dyn Transaction, at: Appended, record: &WithdrawalRecord) -> Result<()> {
    if record.source.is_none() {
        return Ok(());
    }
    forget(tx, at, &record.agent, &|row| row.signal == record.signal)
}

/// Forgets what a revoked key signed.
pub(crate) fn forget_signed(
    tx: &mut dyn Transaction,
    at: Appended,
    agent: &EntityId,
    record: &KeyRevocationRecord,
) -> Result<()> {
    forget(tx, at, agent, &|row| row.key == record.key_id && row.seq >= record.from_seq)
}

fn forget(
    tx: &mut dyn Transaction,
    at: Appended,
    agent: &EntityId,
    which: &dyn Fn(&RegistrationRow) -> bool,
) -> Result<()> {
    for (link, row) in registrations_of(tx, agent)? {
        if which(&row) {
            tx.delete(tables::REGISTRATIONS, &format!("{agent}/{link}"))?;
            due::derive(tx, agent.as_str(), at.seq)?;
        }
    }
    Ok(())
}
