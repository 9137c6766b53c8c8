//! What an agent's registrations on chains, its A2A cards and its domains say, and whether they agree (`cross_chain_consistency`).
//!
//! A reader of a chain puts what a registration says into the evidence of one signal of each reading, as `crawl.registration`: digests,
//! origins and accounts, and what the domains of its file say. The reader of A2A cards does the same with `crawl.card`. Both are folded
//! into the table `registrations`, one row for each link, while that link is proven and the signal counts.
//! [`credence_engine::consistency`] compares the rows; [`crate::derive`] signs what comes out.
//!
//! Of a domain that several registrations name, the newest reading counts, while the domain is proven to be the agent's.
//!
//! Only a source that reads the chain of the link is believed: `chain-eip155-8453` for `erc8004:eip155:8453:…`. Of cards it is
//! [`CARD_READER`].

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

use credence_engine::consistency::{self, Card, Domain, Registration, Side};
use credence_ledger::{Appended, Scan, Transaction, View};
use credence_protocol::{EntityId, ExternalSubject, KeyId, Signal, SubjectKind, Timestamp, Uuid, strict::StrictValue};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    Result, due,
    links::{self, feeding::EVIDENCE},
    query,
    record::{KeyRevocationRecord, LinkState, WithdrawalRecord},
    tables,
};

/// The member of a reader's evidence.
pub const MEMBER: &str = "registration";
/// The same of a card.
pub const CARD_MEMBER: &str = "card";
/// The source that reads A2A cards.
pub const CARD_READER: &str = "crawler-a2a-card";
/// The tag.
pub(crate) const TAG: &str = "cross_chain_consistency";
/// What the id of a source that reads a chain starts with.
const READER: &str = "chain-";
/// Disagreements that are listed; all are counted.
const MAX_LISTED: usize = 32;
/// Bytes of the ids that a signal lists. What does not fit beside the others is not compared.
const MAX_ID_BYTES: usize = 1_500;

/// What a registration or a card said last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RegistrationRow {
    /// The entry of the signal that tells it.
    pub seq: u64,
    /// That signal.
    pub signal: Uuid,
    /// Who signed it.
    pub key: KeyId,
    /// What it says.
    #[serde(flatten)]
    pub says: Says,
}

/// What was read over a link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Says {
    /// Of a registration on a chain.
    Registration(Registration),
    /// Of an A2A card.
    Card(Card),
}

impl RegistrationRow {
    /// What it says, of a registration on a chain.
    pub fn registration(&self) -> Option<&Registration> {
        match &self.says {
            Says::Registration(says) => Some(says),
            Says::Card(_) => None,
        }
    }
}

/// The id of the source that reads `chain` (CAIP-2).
pub fn reader_of(chain: &str) -> String {
    format!("{READER}{}", chain.replace(':', "-"))
}

/// Whether a source reads a chain itself.
pub fn is_reader(source: &str) -> bool {
    source.starts_with(READER)
}

/// Every registration and card of an agent that counts, with its link.
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
    if rows.iter().filter(|(_, row)| row.registration().is_some()).count() < 2 {
        return Ok(None);
    }
    let links = links::links_of(view, agent)?;
    let feeding = |kinds: &[SubjectKind]| -> BTreeSet<String> {
        let of_kind = links.iter().filter(|link| kinds.contains(&link.link.kind()) && link.row.feeds(now));
        of_kind.map(|link| link.link.id().to_owned()).collect()
    };
    let mut hosts = feeding(&[SubjectKind::Host, SubjectKind::A2a]);
    let proved = query::proved_domains(view, agent)?.map(|(_, hosts)| hosts).unwrap_or_default();
    hosts.extend(proved.into_iter().filter(|one| one.holds(now)).map(|one| one.host));
    let (domains, cards) = (domains(&rows, &hosts), feeding(&[SubjectKind::A2a]));
    let registrations = rows.iter().filter_map(|(link, row)| Some(Side::Registration(link.id(), row.registration()?)));
    let cards = rows.iter().filter_map(|(link, row)| match &row.says {
        Says::Card(card) if cards.contains(link.id()) => Some(Side::Card(link.as_str(), card)),
        _ => None,
    });
    let domains = domains.iter().map(|(origin, domain)| Side::Domain(origin, domain));
    let mut used = 0;
    let fits = |side: &Side<'_>| {
        used += side.id().len();
        used <= MAX_ID_BYTES
    };
    let (most, others) = (consistency::MAX_REGISTRATIONS, consistency::MAX_OTHERS);
    let list: Vec<Side<'_>> =
        registrations.take(most).chain(cards.take(others)).chain(domains.take(others)).take_while(fits).collect();
    let Some(found) = consistency::compare(&list, &feeding(&[SubjectKind::Wallet])) else { return Ok(None) };
    let ids: Vec<&str> = list.iter().map(Side::id).collect();
    let listed: Vec<_> = found.disagreements.iter().take(MAX_LISTED).collect();
    let evidence = json!({
        "derivation": consistency::DERIVATION, "compared": ids, "all": found.all, "registrations": found.registrations,
        "disagree": listed,
    });
    Ok(Some((found.value, found.stddev, evidence)))
}

/// What each proven domain said last, where it has a file, by its origin.
fn domains<'a>(
    rows: &'a [(ExternalSubject, RegistrationRow)],
    hosts: &BTreeSet<String>,
) -> BTreeMap<&'a str, &'a Domain> {
    let mut newest: BTreeMap<&str, (u64, Option<&Domain>)> = BTreeMap::new();
    for (_, row) in rows {
        for (origin, domain) in row.registration().into_iter().flat_map(|says| &says.domains) {
            let host = origin.split_once("://").map_or(origin.as_str(), |(_, host)| host);
            let place = newest.entry(origin).or_default();
            if hosts.contains(host) && place.0 <= row.seq {
                *place = (row.seq, domain.as_ref());
            }
        }
    }
    newest.into_iter().filter_map(|(origin, (_, domain))| Some((origin, domain?))).collect()
}

/// Takes what a signal says of a registration or a card.
pub(crate) fn take(tx: &mut dyn Transaction, at: Appended, signal: &Signal) -> Result<()> {
    let Some((link, says)) = told_by(signal) else { return Ok(()) };
    let agent = &signal.draft().agent;
    let proven = links::link(tx, agent, &link)?.is_some_and(|row| row.state == LinkState::Proven);
    if !proven {
        return Ok(());
    }
    let key = format!("{agent}/{link}");
    let Some(says) = says else {
        tx.delete(tables::REGISTRATIONS, &key)?;
        return due::derive(tx, agent.as_str(), at.seq);
    };
    let row = RegistrationRow { seq: at.seq, signal: signal.draft().id, key: signal.key_id(), says };
    tables::put(tx, tables::REGISTRATIONS, &key, &row)?;
    due::derive(tx, agent.as_str(), at.seq)
}

/// The link, and what was read over it, in the evidence of a reader's signal: nothing of a card that names somebody else's host.
fn told_by(signal: &Signal) -> Option<(ExternalSubject, Option<Says>)> {
    let draft = signal.draft();
    let StrictValue(evidence) = draft.evidence.as_ref()?;
    let crawled = evidence.get(EVIDENCE)?;
    let link = ExternalSubject::parse(crawled.get("link")?.as_str()?).ok()?;
    if link.kind() == SubjectKind::A2a {
        let card: Option<Card> = serde_json::from_value(crawled.get(CARD_MEMBER)?.clone()).ok()?;
        return (draft.source.as_str() == CARD_READER).then_some((link, card.map(Says::Card)));
    }
    let registration: Registration = serde_json::from_value(crawled.get(MEMBER)?.clone()).ok()?;
    let on_chain = match link.kind() {
        SubjectKind::Erc8004 => link.id().starts_with(&format!("{}:", registration.chain)),
        SubjectKind::Solana8004 => registration.chain.starts_with("solana:"),
        _ => false,
    };
    let reads = on_chain && draft.source.as_str() == reader_of(&registration.chain);
    reads.then_some((link, Some(Says::Registration(registration))))
}

/// The link is over: what it said is forgotten. Another state of anything that is compared is news as well.
pub(crate) fn link_changed(
    tx: &mut dyn Transaction,
    at: Appended,
    agent: &EntityId,
    link: &ExternalSubject,
    over: bool,
) -> Result<()> {
    let is_compared = matches!(
        link.kind(),
        SubjectKind::Wallet | SubjectKind::Erc8004 | SubjectKind::Solana8004 | SubjectKind::A2a | SubjectKind::Host
    );
    if !is_compared {
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
