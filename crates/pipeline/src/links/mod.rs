//! Links: things outside that an agent says are its own (DESIGN, *Ingest*). Only over a proven link does what others say about a
//! thing feed the agent: otherwise anyone could inherit someone else's stars.
//!
//! ```text
//! claim ──► claimed ──prove──► proven ──break──► broken ──claim──► claimed
//!                                 │ remove ──► removed
//! ```
//!
//! A proven link can be claimed anew before its line ends; what came over it is withdrawn where the new line is not proven in a week.
//!
//! Each step is a `link` entry. A claim makes the nonce of the line that has to be found ([`LinkStatement`]); a proof says how the line
//! was found, and is checked again as the queue `link` says. When a link breaks or is removed, the signals that came over it are
//! withdrawn in the same unit of work. Checking itself is outside: this module records.
//!
//! - [`feeding`]: what crawlers read over links; [`alarms`]: answers that somebody has to look at;
//! - [`indexers`]: sources that repeat what we wrote to a registry ourselves;
//! - [`disputes`]: signals of crawlers that an agent's owner disputes.

pub mod alarms;
pub mod disputes;
pub mod feeding;
pub mod indexers;

use std::ops::ControlFlow;

use credence_ledger::{Appended, NewJob, Scan, Transaction, View, write};
use credence_protocol::{
    EntityId, ExternalSubject, LinkProof, LinkStatement, Signal, SubjectKind, Tag, Timestamp, Uuid, strict::StrictValue,
};
use serde::{Deserialize, Serialize};

use crate::{
    Authority, Error, Result, derive, due, query,
    record::{LinkRecord, LinkState, Record, WithdrawalRecord},
    registrations,
    registry::{append, check_text},
    tables::{self, CurrentRow, SignalPlace},
};

/// How long the line of a proof holds where nothing else is said.
pub const DEFAULT_DAYS: i64 = 365;
/// The longest that it can hold.
pub const MAX_DAYS: i64 = 1_000;
/// How often a proof is checked again.
pub const RECHECK_SECONDS: i64 = 86_400;
/// How long a link whose proof cannot be reached is still believed.
pub const PATIENCE_SECONDS: i64 = 7 * 86_400;
/// From then on before its end a link can be claimed anew.
const RENEW_SECONDS: i64 = 60 * 86_400;
/// Links of one agent.
pub const MAX_LINKS: usize = 64;

/// A link as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkRow {
    /// The entry that made it so.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// What became of it.
    pub state: LinkState,
    /// In the line of its proof.
    pub nonce: Uuid,
    /// Until when that line holds.
    pub expires: Timestamp,
    /// How it was proved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<LinkProof>,
    /// Why it is broken or removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl LinkRow {
    /// Whether it feeds the agent at `now`.
    pub fn feeds(&self, now: Timestamp) -> bool {
        self.state == LinkState::Proven && now <= self.expires
    }
}

/// A link with its two ends.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Link {
    /// The agent.
    pub agent: EntityId,
    /// The thing.
    pub link: ExternalSubject,
    /// What is known.
    #[serde(flatten)]
    pub row: LinkRow,
}

fn place(agent: &EntityId, link: &ExternalSubject) -> String {
    format!("{agent}/{link}")
}

/// One link.
pub fn link(view: &(impl View + ?Sized), agent: &EntityId, link: &ExternalSubject) -> Result<Option<LinkRow>> {
    tables::get(view, tables::LINKS, &place(agent, link))
}

/// All links of an agent.
pub fn links_of(view: &(impl View + ?Sized), agent: &EntityId) -> Result<Vec<Link>> {
    let mut links = Vec::new();
    each(view, &format!("{agent}/"), |link| {
        links.push(link);
        ControlFlow::Continue(())
    })?;
    Ok(links)
}

/// Every link.
pub fn all(view: &(impl View + ?Sized)) -> Result<Vec<Link>> {
    let mut links = Vec::new();
    each(view, "", |link| {
        links.push(link);
        ControlFlow::Continue(())
    })?;
    Ok(links)
}

/// Visits links whose key starts with `prefix`.
pub(crate) fn each(
    view: &(impl View + ?Sized),
    prefix: &str,
    mut visit: impl FnMut(Link) -> ControlFlow<()>,
) -> Result<()> {
    tables::scan(view, tables::LINKS, Scan::prefix(prefix), |key, row: LinkRow| {
        let (agent, link) = split(key)?;
        Ok(visit(Link { agent, link, row }))
    })
}

/// The two ends in the key of a row or a job of the queue `link`.
pub fn split(key: &str) -> Result<(EntityId, ExternalSubject)> {
    let (agent, link) = key.split_once('/').unwrap_or_default();
    Ok((EntityId::new(agent)?, ExternalSubject::parse(link)?))
}

impl Authority {
    /// Records that an agent says that `link` is its own, and makes the line that proves it. Entries are public, for good.
    pub fn claim_link(&self, agent: &EntityId, link: &ExternalSubject, days: i64) -> Result<LinkStatement> {
        let origin = self.origin()?;
        let (agent, link, nonce) = (agent.clone(), link.clone(), Uuid::new_v4());
        let days = days.clamp(1, MAX_DAYS);
        write(self.ledger(), move |tx| {
            let now = tx.stamp()?;
            // Whole seconds: the line is written by people.
            let expires = Timestamp::from_micros(now.plus_seconds(days * 86_400).micros() / 1_000_000 * 1_000_000)?;
            query::agent(tx, &agent)?;
            let record = LinkRecord {
                agent: agent.clone(),
                link: link.clone(),
                state: LinkState::Claimed,
                nonce,
                expires,
                proof: None,
                reason: None,
            };
            step(tx, &record, now)?;
            let (origin, agent, subject) = (origin.clone(), agent.clone(), link.clone());
            Ok(LinkStatement { origin, agent, subject, nonce, expires })
        })
    }

    /// The line that proves a link.
    pub fn link_statement(&self, agent: &EntityId, subject: &ExternalSubject) -> Result<LinkStatement> {
        let view = self.ledger().view()?;
        let row = link(&*view, agent, subject)?.ok_or_else(|| unknown(agent, subject))?;
        let (origin, agent, subject) = (self.origin()?, agent.clone(), subject.clone());
        Ok(LinkStatement { origin, agent, subject, nonce: row.nonce, expires: row.expires })
    }

    /// Records that the line was found. Gives the entry, or none where the link was proven already.
    pub fn prove_link(&self, statement: &LinkStatement, proof: LinkProof) -> Result<Option<u64>> {
        let LinkStatement { agent, subject, nonce, expires, .. } = statement.clone();
        write(self.ledger(), move |tx| {
            let now = tx.stamp()?;
            let former = link(tx, &agent, &subject)?.ok_or_else(|| unknown(&agent, &subject))?;
            if former.state == LinkState::Proven && former.nonce == nonce {
                return Ok(None);
            }
            let (agent, link, proof) = (agent.clone(), subject.clone(), Some(proof.clone()));
            let record = LinkRecord { agent, link, state: LinkState::Proven, nonce, expires, proof, reason: None };
            step(tx, &record, now).map(Some)
        })
    }

    /// Records that a proven link is broken: it stops feeding, and what it fed is withdrawn. None where it was not proven.
    pub fn break_link(&self, agent: &EntityId, subject: &ExternalSubject, reason: &str) -> Result<Option<u64>> {
        self.end_link(agent, subject, LinkState::Broken, reason)
    }

    /// Takes a link back; what it fed is withdrawn. None where it was removed already.
    pub fn remove_link(&self, agent: &EntityId, subject: &ExternalSubject, reason: &str) -> Result<Option<u64>> {
        self.end_link(agent, subject, LinkState::Removed, reason)
    }

    fn end_link(
        &self,
        agent: &EntityId,
        subject: &ExternalSubject,
        state: LinkState,
        reason: &str,
    ) -> Result<Option<u64>> {
        check_text("reason", Some(reason))?;
        let (agent, subject, reason) = (agent.clone(), subject.clone(), reason.to_owned());
        let seq = write(self.ledger(), move |tx| {
            let now = tx.stamp()?;
            let row = link(tx, &agent, &subject)?.ok_or_else(|| unknown(&agent, &subject))?;
            let over = match state {
                LinkState::Broken => row.state != LinkState::Proven,
                _ => row.state == LinkState::Removed,
            };
            if over {
                return Ok(None);
            }
            let (nonce, expires, reason) = (row.nonce, row.expires, Some(reason.clone()));
            let (agent, link) = (agent.clone(), subject.clone());
            let record = LinkRecord { agent, link, state, nonce, expires, proof: None, reason };
            let seq = step(tx, &record, now)?;
            withdraw_over(tx, &record.agent, &record.link, now)?;
            Ok::<_, Error>(Some(seq))
        })?;
        self.wake_scorer();
        Ok(seq)
    }

    /// Withdraws what came over a link that was claimed anew and not proven since. Gives how many signals; none
    /// where it is proven, or may still be proved.
    pub fn lapse_link(&self, agent: &EntityId, subject: &ExternalSubject) -> Result<usize> {
        let (agent, subject) = (agent.clone(), subject.clone());
        let withdrawn = write(self.ledger(), move |tx| {
            let now = tx.stamp()?;
            let row = link(tx, &agent, &subject)?.ok_or_else(|| unknown(&agent, &subject))?;
            let key = place(&agent, &subject);
            // Claimed a moment ago: its time is not over.
            let is_early = tx.job(due::LINK, &key)?.is_some_and(|job| job.due > now);
            if row.state == LinkState::Proven || is_early {
                return Ok(0);
            }
            tx.delete_jobs(due::LINK, &[&key])?;
            withdraw_over(tx, &agent, &subject, now)
        })?;
        self.wake_scorer();
        Ok(withdrawn)
    }
}

/// Withdraws what came over a link. What was remembered of the last answers goes with it: a link that is proven again starts anew.
fn withdraw_over(tx: &mut dyn Transaction, agent: &EntityId, link: &ExternalSubject, now: Timestamp) -> Result<usize> {
    let mut withdrawn = 0;
    for crawled in crawled_signals(tx, agent)?.into_iter().filter(|one| one.link == link.as_str()) {
        withdraw(tx, agent, &crawled)?;
        withdrawn += 1;
    }
    feeding::forget(tx, agent, link, now)?;
    Ok(withdrawn)
}

fn unknown(agent: &EntityId, link: &ExternalSubject) -> Error {
    Error::UnknownLink { agent: agent.clone(), link: link.clone() }
}

/// Appends a step after the rules.
fn step(tx: &mut dyn Transaction, record: &LinkRecord, now: Timestamp) -> Result<u64> {
    if let Some(why) = broken_rule(tx, record, now)? {
        return Err(Error::LinkStep { agent: record.agent.clone(), link: record.link.clone(), why });
    }
    append(tx, &record.agent, &Record::Link(record.clone()))
}

/// The rule that a step breaks, given what was recorded before it.
fn broken_rule(view: &(impl View + ?Sized), record: &LinkRecord, at: Timestamp) -> Result<Option<&'static str>> {
    let former = link(view, &record.agent, &record.link)?;
    let same_line = former.as_ref().is_some_and(|row| row.nonce == record.nonce && row.expires == record.expires);
    let was = |state: LinkState| former.as_ref().is_some_and(|row| row.state == state);
    let (proof, reason) = (record.proof.is_some(), record.reason.is_some());
    Ok(match record.state {
        LinkState::Claimed => {
            let lasts =
                former.as_ref().is_some_and(|row| row.feeds(at) && at.plus_seconds(RENEW_SECONDS) < row.expires);
            if proof || reason {
                Some("is claimed with a proof or a reason")
            } else if lasts {
                Some("is proven: it can be claimed anew in the last 60 days before its end")
            } else if record.expires <= at {
                Some("would be over before it begins")
            } else if former.is_none() && links_of(view, &record.agent)?.len() >= MAX_LINKS {
                Some("is one more than the 64 that an agent can have")
            } else {
                None
            }
        }
        LinkState::Proven => {
            if !proof || reason {
                Some("is proven without a proof")
            } else if !same_line || !(was(LinkState::Claimed) || was(LinkState::Broken)) {
                Some("is proven by a line that it was not claimed with")
            } else if at > record.expires {
                Some("is proven by a line that no longer holds")
            } else {
                None
            }
        }
        LinkState::Broken if !was(LinkState::Proven) => Some("is broken, and was not proven"),
        LinkState::Removed if former.is_none() || was(LinkState::Removed) => Some("is removed, and was not there"),
        LinkState::Broken | LinkState::Removed if proof || !reason || !same_line => Some("ends without a reason"),
        LinkState::Broken | LinkState::Removed => None,
    })
}

/// What is wrong with a step, for an audit.
pub(crate) fn wrong_with(view: &(impl View + ?Sized), record: &LinkRecord, at: Timestamp) -> Result<Option<String>> {
    Ok(broken_rule(view, record, at)?.map(|why| format!("the link to {} {why}", record.link)))
}

/// Folds a step in.
pub(crate) fn apply(tx: &mut dyn Transaction, at: Appended, record: &LinkRecord) -> Result<()> {
    let key = place(&record.agent, &record.link);
    let former = link(tx, &record.agent, &record.link)?;
    let row = LinkRow {
        seq: at.seq,
        at: at.recorded_at,
        state: record.state,
        nonce: record.nonce,
        expires: record.expires,
        proof: record.proof.clone(),
        reason: record.reason.clone(),
    };
    tables::put(tx, tables::LINKS, &key, &row)?;
    let over = matches!(record.state, LinkState::Broken | LinkState::Removed);
    registrations::link_changed(tx, at, &record.agent, &record.link, over)?;
    match (record.state, former) {
        (LinkState::Proven, _) => {}
        // Claimed anew: what came over the former line counts until that line ends, a week at most.
        (LinkState::Claimed, Some(former)) if former.state == LinkState::Proven => {
            let due = at.recorded_at.plus_seconds(PATIENCE_SECONDS).min(former.expires.plus_seconds(1));
            return Ok(tx.put_jobs(&[NewJob::at(due::LINK, key, due, "")])?);
        }
        (LinkState::Claimed, Some(former)) if former.state == LinkState::Claimed => return Ok(()),
        _ => return Ok(tx.delete_jobs(due::LINK, &[&key])?),
    }
    // A wallet's own signature does not go away: it ends. What a wallet owns can be sold.
    let lasts = record.link.kind() == SubjectKind::Wallet;
    let again = at.recorded_at.plus_seconds(RECHECK_SECONDS);
    let end = record.expires.plus_seconds(1);
    let due = if lasts { end } else { again.min(end) };
    Ok(tx.put_jobs(&[NewJob::at(due::LINK, key, due, "")])?)
}

/// A current signal that a crawler made.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Crawled {
    signal: Uuid,
    source: EntityId,
    tag: Tag,
    /// The link that it came over.
    link: String,
    /// When the answer was read. All signals of an answer have the same time.
    observed_at: Timestamp,
}

/// The current signals of an agent that crawlers made.
fn crawled_signals(view: &(impl View + ?Sized), agent: &EntityId) -> Result<Vec<Crawled>> {
    let mut crawled = Vec::new();
    tables::scan(view, tables::CURRENT, Scan::prefix(&format!("{agent}/")), |key, row: CurrentRow| {
        let Some((_, source, tag)) = tables::split_slot(key) else { return Ok(ControlFlow::Continue(())) };
        let signal = derive::signal_at(view, row.seq)?;
        if let Some(link) = link_of(&signal) {
            let (source, tag) = (EntityId::new(source)?, Tag::new(tag)?);
            let (signal, observed_at) = (signal.draft().id, signal.draft().observed_at.at());
            crawled.push(Crawled { signal, source, tag, link, observed_at });
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(crawled)
}

/// The link that a crawler's signal came over, as its evidence says.
pub(crate) fn link_of(signal: &Signal) -> Option<String> {
    let StrictValue(evidence) = signal.draft().evidence.as_ref()?;
    Some(evidence.get(feeding::EVIDENCE)?.get("link")?.as_str()?.to_owned())
}

fn withdraw(tx: &mut dyn Transaction, agent: &EntityId, crawled: &Crawled) -> Result<u64> {
    let Crawled { signal, source, tag, .. } = crawled.clone();
    let record = WithdrawalRecord { signal, agent: agent.clone(), tag, source: Some(source) };
    append(tx, agent, &Record::Withdrawal(record))
}

/// What is wrong with the withdrawal of a crawler's signal: it was not current, or nothing asked for it.
pub(crate) fn wrongly_withdrawn(view: &(impl View + ?Sized), withdrawal: &WithdrawalRecord) -> Result<Option<String>> {
    let WithdrawalRecord { signal, agent, tag, source } = withdrawal;
    let current = crawled_signals(view, agent)?;
    let is_it = |one: &&Crawled| one.signal == *signal && one.tag == *tag && Some(&one.source) == source.as_ref();
    let Some(crawled) = current.iter().find(is_it) else {
        let place: Option<SignalPlace> = tables::get(view, tables::SIGNAL_IDS, &signal.to_string())?;
        let what = if place.is_some() { "is no current signal of a crawler" } else { "is not recorded" };
        return Ok(Some(format!("it withdraws {signal}, which {what}")));
    };
    let row = link(view, agent, &ExternalSubject::parse(&crawled.link)?)?;
    let over = row.is_none_or(|row| row.state != LinkState::Proven);
    let disputed = disputes::is_withdrawn(view, agent, *signal)?;
    let left_out = indexers::Indexers::read(view)?.leave_out(view, agent, &crawled.source)?;
    let is_newer = |one: &Crawled| {
        one.source == crawled.source && one.link == crawled.link && one.observed_at > crawled.observed_at
    };
    let outdated = current.iter().any(is_newer);
    Ok((!over && !disputed && !left_out && !outdated).then(|| {
        format!("it withdraws {signal}, whose link is proven and which is not disputed, nor denied by its source")
    }))
}
