//! One question, and what it comes to.

use std::{collections::BTreeSet, time::Duration};

use credence_egress::{HeaderValue, Validators};
use credence_ingest::{Asked, Card, NoReading, Reading, Reason, Source};
use credence_pipeline::links::feeding::CrawlOutcome;
use credence_protocol::{EntityId, ExternalSubject};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    HasAuthority, Installed, Runner,
    installed::Asks,
    outcome::{self, Found, Made},
};

/// A source to be asked about a link of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// About whom.
    pub agent: EntityId,
    /// Whom to ask.
    pub source: EntityId,
    /// About what.
    pub link: ExternalSubject,
    /// The entry by which the link is proven.
    pub(super) link_seq: u64,
    /// What is remembered of the last time.
    pub(super) memory: String,
    /// How often in this run the source answered that it has to wait.
    pub(super) refused: u32,
}

/// A question whose host asked for a pause.
pub(super) struct Paused {
    pub target: Target,
    /// How long the pause still is.
    pub left: Duration,
    /// What is recorded where nobody waits for the end of the pause. Nothing where the question was not sent.
    pub otherwise: Option<CrawlOutcome>,
}

/// What came of a question.
pub(super) enum Came {
    /// It is to be recorded.
    Outcome(Box<CrawlOutcome>),
    /// It can be asked when a pause is over.
    Paused(Box<Paused>),
}

impl Came {
    fn recorded(outcome: CrawlOutcome) -> Self {
        Self::Outcome(Box::new(outcome))
    }
}

/// What is remembered of a question until it is asked again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Memory {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
    /// Failures in a row.
    pub failures: u32,
    /// The last reading, and when it was recorded as signals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<(Reading, credence_protocol::Timestamp)>,
    /// What the last signals said of a card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub card: Option<Card>,
    /// By which version of the file.
    pub version: u32,
    /// The entry by which the link was proven then; 0 where that is not known.
    pub link_seq: u64,
}

impl Memory {
    pub fn parse(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }

    fn validators(&self) -> Option<Validators> {
        let value = |text: &Option<String>| text.as_deref().and_then(|text| HeaderValue::from_str(text).ok());
        let validators = Validators { etag: value(&self.etag), last_modified: value(&self.last_modified) };
        (validators.etag.is_some() || validators.last_modified.is_some()).then_some(validators)
    }

    pub fn remember(&mut self, validators: &Validators) {
        let text =
            |value: &Option<HeaderValue>| value.as_ref().and_then(|value| value.to_str().ok()).map(str::to_owned);
        (self.etag, self.last_modified) = (text(&validators.etag), text(&validators.last_modified));
    }
}

/// What a source says, without recording it.
#[derive(Debug, Serialize)]
pub struct TriedSource {
    /// About whom.
    pub agent: EntityId,
    /// Whom was asked.
    pub source: EntityId,
    /// About what.
    pub link: ExternalSubject,
    /// The numbers, and what they come to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reading: Option<Reading>,
    /// What each signal would be recorded with.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Value>,
    /// Why nothing was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nothing: Option<String>,
}

impl<A: HasAuthority> Runner<A> {
    /// Asks, and gives what is to be recorded; or the question, where its host asked for a pause.
    pub(super) async fn ask(&self, target: Target) -> Came {
        let mut memory = Memory::parse(&target.memory);
        let Some(installed) = self.installed.get(&target.source) else {
            return Came::recorded(outcome::let_go(&target, self.now()));
        };
        // An answer that was read by another version of the file says nothing about what this one reads, and what was recorded over a
        // link that broke since was withdrawn.
        let same_link = memory.link_seq == 0 || memory.link_seq == target.link_seq;
        if memory.version != installed.version() || !same_link {
            memory = Memory { failures: memory.failures, version: installed.version(), ..Memory::default() };
        }
        memory.link_seq = target.link_seq;
        match &installed.asks {
            Asks::File(source) => self.ask_file(&target, installed, source, memory).await,
            #[cfg(feature = "chain")]
            Asks::Chain(source) => {
                let found = self.read_chain(&target, source).await;
                let made = self.made(&target, installed);
                Came::recorded(match found {
                    Ok(found) => made.measured(memory, found, None),
                    Err(failure) => made.failed(memory, failure.reason, failure.why, failure.retry_after),
                })
            }
        }
    }

    fn made<'a>(&self, target: &'a Target, installed: &'a Installed) -> Made<'a> {
        Made { target, installed, now: self.now(), origin: self.owner.authority().origin().ok() }
    }

    async fn ask_file(&self, target: &Target, installed: &Installed, source: &Source, memory: Memory) -> Came {
        let can_age = memory.recorded.as_ref().is_some_and(|(reading, _)| reading.can_age(source));
        let since = memory.validators().filter(|_| can_age);
        let asked = self.crawler.ask(source, &target.link, since.as_ref(), self.now()).await;
        let made = self.made(target, installed);
        Came::recorded(match asked {
            Asked::Unchanged => match memory.recorded.clone() {
                // The answer stays the same, and is a day older.
                Some((reading, _)) => match reading.later(source, made.now) {
                    Ok(reading) => match self.found_by_file(target, source, reading).await {
                        Ok(found) => made.measured(memory, found, None),
                        Err(why) => made.failed(memory, Reason::Unreachable, why, None),
                    },
                    Err(no) => made.failed(memory, Reason::of(&no), no.to_string(), None),
                },
                None => made.failed(memory, Reason::Absent, "there is nothing to compare with".into(), None),
            },
            Asked::Answered(answered) => {
                let mut memory = memory;
                memory.remember(&answered.validators);
                match answered.outcome {
                    Ok(reading) => match self.found_by_file(target, source, reading).await {
                        Ok(found) => made.measured(memory, found, answered.quota),
                        Err(why) => made.failed(memory, Reason::Unreachable, why, None),
                    },
                    Err(no) => {
                        let mut outcome = made.failed(memory, Reason::of(&no), no.to_string(), None);
                        outcome.quota = answered.quota;
                        outcome
                    }
                }
            }
            Asked::Failed(failure) if failure.reason == Reason::RateLimited => {
                let left = failure.retry_after.unwrap_or_default();
                let refused = target.refused + u32::from(!failure.unsent);
                let otherwise =
                    (!failure.unsent).then(|| made.failed(memory, failure.reason, failure.why, failure.retry_after));
                return Came::Paused(Box::new(Paused {
                    target: Target { refused, ..target.clone() },
                    left,
                    otherwise,
                }));
            }
            Asked::Failed(failure) => made.failed(memory, failure.reason, failure.why, failure.retry_after),
        })
    }

    /// What an answer comes to, with the hosts that are proven to be the agent's where a card names hosts.
    async fn found_by_file(&self, target: &Target, source: &Source, reading: Reading) -> Result<Found, String> {
        let (agent, now) = (target.agent.clone(), self.now());
        let hosts = match &reading.card {
            None => BTreeSet::new(),
            Some(_) => {
                let known = self.blocking(move |this| this.hosts_and_links(&agent, now)).await;
                known.map_err(|error| format!("the agent's links could not be read: {error}"))?.0
            }
        };
        Ok(Found::by_file(target, source, reading, &hosts))
    }

    /// Reads a registration, with what is proven to be the agent's.
    #[cfg(feature = "chain")]
    async fn read_chain(&self, target: &Target, source: &super::ChainSource) -> Result<Found, super::chain::Failure> {
        let (agent, now) = (target.agent.clone(), self.now());
        let known = self.blocking(move |this| this.hosts_and_links(&agent, now)).await;
        let (hosts, own) = known.map_err(|error| super::chain::Failure {
            reason: Reason::Unreachable,
            why: format!("the agent's links could not be read: {error}"),
            retry_after: None,
        })?;
        source.read(&target.link, &hosts, &own, now).await
    }

    /// The hosts that have a proven link with an agent, and the ids of all its links.
    fn hosts_and_links(
        &self,
        agent: &EntityId,
        now: credence_protocol::Timestamp,
    ) -> Result<(BTreeSet<String>, BTreeSet<String>), super::CrawlError> {
        use credence_pipeline::query;
        use credence_protocol::SubjectKind;
        let view = self.owner.authority().ledger().view()?;
        let links = query::links_of(&*view, agent)?;
        let is_host = |link: &&query::Link| matches!(link.link.kind(), SubjectKind::Host | SubjectKind::A2a);
        let linked =
            links.iter().filter(is_host).filter(|link| link.row.feeds(now)).map(|link| link.link.id().to_owned());
        let mut hosts: BTreeSet<String> = linked.collect();
        let proved = query::proved_domains(&*view, agent)?.map(|(_, hosts)| hosts).unwrap_or_default();
        hosts.extend(proved.into_iter().filter(|one| one.holds(now)).map(|one| one.host));
        Ok((hosts, links.iter().map(|link| link.link.id().to_owned()).collect()))
    }

    /// Asks, and records nothing.
    pub async fn try_source(&self, target: Target) -> TriedSource {
        let found = match self.installed.get(&target.source).map(|installed| &installed.asks) {
            None => Err("the source is not installed".into()),
            Some(Asks::File(source)) => match self.crawler.ask(source, &target.link, None, self.now()).await {
                Asked::Answered(answered) => match answered.outcome {
                    Ok(reading) => self.found_by_file(&target, source, reading).await,
                    Err(why) => Err(NoReading::to_string(&why)),
                },
                Asked::Unchanged => Err("not changed".into()),
                Asked::Failed(failure) => Err(failure.why),
            },
            #[cfg(feature = "chain")]
            Some(Asks::Chain(source)) => self.read_chain(&target, source).await.map_err(|failure| failure.why),
        };
        let Target { agent, source, link, .. } = target;
        let (reading, evidence, nothing) = match found {
            Ok(found) => (Some(found.reading), found.evidence, None),
            Err(why) => (None, Vec::new(), Some(why)),
        };
        TriedSource { agent, source, link, reading, evidence, nothing }
    }
}
