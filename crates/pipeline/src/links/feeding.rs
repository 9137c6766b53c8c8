//! What crawlers read over links: signals, when to ask again, and how each source is doing, recorded together. So after a crash nothing
//! that was recorded is asked again before its time, and nothing that was asked and not recorded is lost: its job is still there.
//!
//! A signal's evidence is `{"crawl": {"link", "file", "response", "numbers"}}`: which link it came over, the source file by its version
//! and digest, the digest of the answer, the numbers used. Of a reader of a chain, `block` and `block_hash` instead of `file` and
//! `response`, and in one signal of each reading the `registration` ([`crate::registrations`]).

use std::{collections::BTreeMap, ops::ControlFlow};

use credence_ledger::{NewJob, Transaction, View, write};
use credence_protocol::{EntityId, ExternalSubject, Signal, Tag, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Link, alarms, disputes, indexers::Indexers, link};
use crate::{
    Authority, Error, Rejection, Result,
    admit::{self, Checked},
    due,
    tables::{self, SourceRow},
};

/// The member of a crawler's evidence.
pub const EVIDENCE: &str = "crawl";
/// Jobs put in one unit of work.
const JOBS_AT_ONCE: usize = 2_000;

/// How a source is doing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CrawlRow {
    /// When it last answered with something to read.
    pub last_success: Option<Timestamp>,
    /// When it last did not, and why.
    pub last_failure: Option<(Timestamp, String)>,
    /// Answers of another form than required, by reason: kept apart, one row for each question.
    #[serde(default, skip_deserializing, skip_serializing_if = "BTreeMap::is_empty")]
    pub alarms: BTreeMap<String, alarms::Alarm>,
    /// Answers read.
    pub answers: u64,
    /// Signals recorded.
    pub signals: u64,
    /// Why not, how often.
    pub failures: BTreeMap<String, u64>,
    /// Requests that the source still allows, as it said last.
    pub quota: Option<u64>,
}

/// What became of one question.
#[derive(Debug, Clone)]
pub struct CrawlOutcome {
    /// About whom.
    pub agent: EntityId,
    /// What was asked about.
    pub link: ExternalSubject,
    /// The entry by which the link was proven when the question was asked.
    pub link_seq: u64,
    /// Who was asked.
    pub source: EntityId,
    /// What it comes to, signed.
    pub signals: Vec<Signal>,
    /// Tags that the last answer measured and this one denies: what was said under them is out of date.
    pub outdated: Vec<Tag>,
    /// When to ask again.
    pub again: Timestamp,
    /// What the crawler remembers until then.
    pub memory: String,
    /// Why nothing was measured: for counting, and in words.
    pub failure: Option<(&'static str, String)>,
    /// Somebody has to look.
    pub alarm: bool,
    /// Requests that the source still allows.
    pub quota: Option<u64>,
}

/// What became of recording it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded {
    /// So many signals.
    Signals(usize),
    /// The link was broken in the meantime, or the source is left out for this agent: nothing counts, and nothing is asked any more.
    LinkOver,
    /// A signal was rejected.
    Rejected(String),
}

/// The key of a job of the queue `crawl`.
pub fn job_key(agent: &EntityId, source: &EntityId, link: &ExternalSubject) -> String {
    format!("{agent}/{source}/{link}")
}

/// Agent, source and link of a job of the queue `crawl`.
pub fn split_job(key: &str) -> Result<(EntityId, EntityId, ExternalSubject)> {
    let mut parts = key.splitn(3, '/');
    let mut next = || parts.next().unwrap_or_default();
    Ok((EntityId::new(next())?, EntityId::new(next())?, ExternalSubject::parse(next())?))
}

/// How sources are doing.
pub fn crawls(view: &(impl View + ?Sized)) -> Result<Vec<(String, CrawlRow)>> {
    let mut rows: Vec<(String, CrawlRow)> = tables::all(view, tables::CRAWLS)?;
    for (source, row) in &mut rows {
        row.alarms = alarms::of(view, source)?;
    }
    Ok(rows)
}

/// Drops the questions of a link, with what is remembered of their answers.
pub(super) fn forget(tx: &mut dyn Transaction, agent: &EntityId, link: &ExternalSubject, now: Timestamp) -> Result<()> {
    let mut keys = Vec::new();
    for (source, _) in tables::all::<SourceRow>(tx, tables::SOURCES)? {
        let source = EntityId::new(&source)?;
        alarms::set(tx, (&source, agent, link), None, now)?;
        keys.push(job_key(agent, &source, link));
    }
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    Ok(tx.delete_jobs(due::CRAWL, &keys)?)
}

impl Authority {
    /// Puts a job for every proven link and every source that speaks of it, where there is none yet. Gives how many links feed.
    pub fn plan_crawls(&self, speaks: &dyn Fn(&ExternalSubject) -> Vec<EntityId>) -> Result<usize> {
        let now = self.now();
        let mut links: Vec<Link> = Vec::new();
        let view = self.ledger().view()?;
        super::each(&*view, "", |link| {
            if link.row.feeds(now) {
                links.push(link);
            }
            ControlFlow::Continue(())
        })?;
        let mut jobs = Vec::new();
        let indexers = Indexers::read(&*view)?;
        for Link { agent, link, .. } in &links {
            for source in speaks(link) {
                if indexers.leave_out(&*view, agent, &source)? {
                    continue;
                }
                let key = job_key(agent, &source, link);
                if view.job(due::CRAWL, &key)?.is_none() {
                    jobs.push(NewJob::now(due::CRAWL, key, ""));
                }
                if jobs.len() == JOBS_AT_ONCE {
                    self.ledger().jobs().put(&std::mem::take(&mut jobs))?;
                }
            }
        }
        drop(view);
        if !jobs.is_empty() {
            self.ledger().jobs().put(&jobs)?;
        }
        Ok(links.len())
    }

    /// Has claimed questions be due again later, without having been asked.
    pub fn put_off_crawls(&self, jobs: Vec<NewJob>) -> Result<()> {
        write(self.ledger(), move |tx| {
            // A job that is put while it is claimed would be held until its lease is over.
            let keys: Vec<&str> = jobs.iter().map(|job| job.key.as_str()).collect();
            tx.delete_jobs(due::CRAWL, &keys)?;
            Ok::<_, Error>(tx.put_jobs(&jobs)?)
        })
    }

    /// Records outcomes: signals, jobs and counts in one unit of work.
    pub fn record_crawl(&self, outcomes: Vec<CrawlOutcome>) -> Result<Vec<Recorded>> {
        let wakes = outcomes.iter().any(|outcome| !outcome.signals.is_empty());
        let recorded = write(self.ledger(), move |tx| record(tx, &outcomes))?;
        if wakes {
            self.wake_scorer();
        }
        Ok(recorded)
    }
}

fn record(tx: &mut dyn Transaction, outcomes: &[CrawlOutcome]) -> Result<Vec<Recorded>> {
    let now = tx.stamp()?;
    let mut over = Vec::with_capacity(outcomes.len());
    let (mut checked, mut told) = (Vec::new(), Vec::with_capacity(outcomes.len()));
    let indexers = Indexers::read(tx)?;
    for outcome in outcomes {
        let row = link(tx, &outcome.agent, &outcome.link)?;
        let feeds = row.is_some_and(|row| row.feeds(now) && row.seq == outcome.link_seq)
            && !indexers.leave_out(tx, &outcome.agent, &outcome.source)?;
        over.push(!feeds);
        let before = checked.len();
        if feeds && !outcome.signals.is_empty() {
            let withdrawn = disputes::withdrawn_by(tx, &outcome.agent, &outcome.source, &outcome.link)?;
            let counts = |signal: &&Signal| !signal.draft().tags.iter().any(|tag| withdrawn.contains(tag));
            checked.extend(outcome.signals.iter().filter(counts).cloned().map(Checked::own));
        }
        told.push(checked.len() - before);
    }
    let mut verdicts = admit::record_batch(tx, &checked)?.into_iter();
    let mut rows: BTreeMap<&str, CrawlRow> = BTreeMap::new();
    let (mut keys, mut jobs, mut recorded) = (Vec::new(), Vec::new(), Vec::new());
    for ((outcome, over), told) in outcomes.iter().zip(over).zip(told) {
        let key = job_key(&outcome.agent, &outcome.source, &outcome.link);
        keys.push(key.clone());
        let became = if over { Recorded::LinkOver } else { verdict(told, &mut verdicts) };
        if matches!(became, Recorded::Signals(told) if told > 0) && !outcome.outdated.is_empty() {
            withdraw_outdated(tx, outcome)?;
        }
        if !over {
            // What was rejected is not known from last time.
            let memory = if matches!(became, Recorded::Rejected(_)) { String::new() } else { outcome.memory.clone() };
            jobs.push(NewJob::at(due::CRAWL, key, outcome.again, memory));
        }
        let question = (&outcome.source, &outcome.agent, &outcome.link);
        match &outcome.failure {
            Some((reason, why)) if outcome.alarm && !over => {
                alarms::set(tx, question, Some((*reason, why.as_str())), now)?
            }
            // A source that could not be reached may still answer otherwise than it should.
            Some(_) if !over => {}
            _ => alarms::set(tx, question, None, now)?,
        }
        let name = outcome.source.as_str();
        if !rows.contains_key(name) {
            rows.insert(name, tables::get(tx, tables::CRAWLS, name)?.unwrap_or_default());
        }
        if let Some(row) = rows.get_mut(name) {
            count(row, outcome, &became, now);
        }
        recorded.push(became);
    }
    // Claimed ones too: what is recorded is done.
    let names: Vec<&str> = keys.iter().map(String::as_str).collect();
    tx.delete_jobs(due::CRAWL, &names)?;
    tx.put_jobs(&jobs)?;
    for (source, row) in rows {
        tables::put(tx, tables::CRAWLS, source, &row)?;
    }
    Ok::<_, Error>(recorded)
}

/// Withdraws what a source said over a link under tags that its newer answer denies: a card that is no longer signed.
fn withdraw_outdated(tx: &mut dyn Transaction, outcome: &CrawlOutcome) -> Result<()> {
    for crawled in super::crawled_signals(tx, &outcome.agent)? {
        let same = crawled.source == outcome.source && crawled.link == outcome.link.as_str();
        if same && outcome.outdated.contains(&crawled.tag) {
            super::withdraw(tx, &outcome.agent, &crawled)?;
        }
    }
    Ok(())
}

fn verdict(
    told: usize,
    verdicts: &mut impl Iterator<Item = std::result::Result<admit::Admitted, Rejection>>,
) -> Recorded {
    let mine: Vec<_> = verdicts.take(told).collect();
    match mine.iter().find_map(|verdict| verdict.as_ref().err()) {
        Some(rejection) => Recorded::Rejected(rejection.to_string()),
        None => Recorded::Signals(mine.len()),
    }
}

fn count(row: &mut CrawlRow, outcome: &CrawlOutcome, became: &Recorded, now: Timestamp) {
    row.quota = outcome.quota.or(row.quota);
    match (&outcome.failure, became) {
        (Some((reason, why)), _) => {
            *row.failures.entry((*reason).to_owned()).or_default() += 1;
            row.last_failure = Some((now, why.clone()));
        }
        (None, Recorded::Rejected(why)) => {
            *row.failures.entry("rejected".to_owned()).or_default() += 1;
            row.last_failure = Some((now, why.clone()));
        }
        (None, Recorded::Signals(signals)) => {
            row.answers += 1;
            row.signals += *signals as u64;
            row.last_success = Some(now);
        }
        (None, Recorded::LinkOver) => {}
    }
}
