//! From an answer to signals, and when to ask again.
//!
//! - measured, or absent: after the time to live, ± 10 % so that questions spread;
//! - another form than required, a signature that does not hold: after the time to live, six hours at most;
//! - 429: a run waits for the pause ([`super::pauses`]);
//! - no answer, or a 429 that nobody waits for: after a minute, two, four, … up to the time to live, and never before the source allows it.

use std::{collections::BTreeSet, time::Duration};

use credence_ingest::{Card, Measured, Reading, Reason, Source};
use credence_pipeline::{
    links::feeding::{CrawlOutcome, EVIDENCE},
    registrations::CARD_MEMBER,
};
use credence_protocol::{Audience, Signal, SignalDraft, Timestamp, strict::StrictValue};
use serde_json::{Value, json};

use super::{
    Installed,
    ask::{Memory, Target},
};

/// The first wait after a failure.
const FIRST_WAIT: Duration = Duration::from_secs(60);
/// The longest wait after an answer of another form.
const LOOK_AGAIN: Duration = Duration::from_secs(6 * 3600);
/// The longest pause that a source can ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(24 * 3600);
/// An unchanged measurement is recorded again after this.
const REFRESH_SECONDS: i64 = 7 * 86_400;
/// Bytes of a card's origins.
const MAX_CARD_BYTES: usize = 1_024;
/// Points that make a measurement a new one.
const MIN_MOVE: f64 = 0.5;

/// What an outcome is made of.
pub(super) struct Made<'a> {
    pub target: &'a Target,
    pub installed: &'a Installed,
    pub now: Timestamp,
    pub origin: Option<Audience>,
}

/// What an answer measured.
pub(super) struct Found {
    pub reading: Reading,
    /// The evidence of each signal.
    pub evidence: Vec<Value>,
    /// Whether another digest is news also where no number moved.
    pub digest_is_news: bool,
    /// What the evidence says of a card.
    pub card: Option<Card>,
}

impl Found {
    /// What an answer measured that was read by a source file. `hosts` have a proven link with the agent: a card that names another one is
    /// compared with nothing.
    pub fn by_file(target: &Target, source: &Source, reading: Reading, hosts: &BTreeSet<String>) -> Self {
        let card = reading.card.clone().filter(|card| is_small(card) && card.hosts().all(|host| hosts.contains(host)));
        let evidence = json!({ EVIDENCE: {
            "link": target.link,
            "file": { "id": source.id, "version": source.version, "digest": source.digest },
            "response": reading.digest,
            "numbers": reading.numbers,
        }});
        let mut evidence = vec![evidence; reading.measured.len()];
        // Null: nothing of the card is taken, and what was taken before is no longer what it says.
        if let (Some(_), Some(first)) = (&reading.card, evidence.first_mut()) {
            first[EVIDENCE][CARD_MEMBER] = json!(card);
        }
        Self { reading, evidence, digest_is_news: false, card }
    }
}

impl Made<'_> {
    /// There is a measurement.
    pub fn measured(&self, memory: Memory, found: Found, quota: Option<u64>) -> CrawlOutcome {
        let mut memory = Memory { failures: 0, ..memory };
        let is_news = match &memory.recorded {
            Some((last, at)) => {
                self.now >= at.plus_seconds(REFRESH_SECONDS)
                    || differs(&last.measured, &found.reading.measured)
                    || found.digest_is_news && last.digest != found.reading.digest
                    || memory.card != found.card
            }
            None => true,
        };
        let outdated = match (&memory.recorded, self.installed.source()) {
            (Some((last, _)), Some(source)) if is_news => {
                let denied = source.denied(&found.reading.numbers);
                last.measured.iter().flat_map(|one| &one.tags).filter(|tag| denied.contains(tag)).cloned().collect()
            }
            _ => Vec::new(),
        };
        let signals = if is_news { self.signals(&found) } else { Some(Vec::new()) };
        let Some(signals) = signals else {
            return self.failed(memory, Reason::WrongShape, "the evidence does not fit into a signal".into(), None);
        };
        if is_news {
            memory.recorded = Some((found.reading, self.now));
            memory.card = found.card;
        }
        let again = self.now.plus(spread(self.installed.ttl()));
        CrawlOutcome { quota, outdated, ..self.outcome(&memory, signals, again) }
    }

    /// There is none.
    pub fn failed(&self, memory: Memory, reason: Reason, why: String, retry_after: Option<Duration>) -> CrawlOutcome {
        let ttl = self.installed.ttl();
        let memory = Memory { failures: memory.failures.saturating_add(1), ..memory };
        let wait = if reason.is_answer() {
            spread(ttl)
        } else if reason.is_alarming() {
            spread(ttl.min(LOOK_AGAIN))
        } else {
            let doubled = FIRST_WAIT.saturating_mul(1 << memory.failures.saturating_sub(1).min(16));
            spread(doubled.min(ttl)).max(retry_after.unwrap_or_default().min(LONGEST_PAUSE))
        };
        if reason.is_alarming() {
            tracing::warn!(source = %self.target.source, why, "a source answers otherwise than its file says");
        }
        let mut outcome = self.outcome(&memory, Vec::new(), self.now.plus(wait));
        outcome.failure = Some((reason.key(), why));
        outcome.alarm = reason.is_alarming();
        outcome
    }

    fn outcome(&self, memory: &Memory, signals: Vec<Signal>, again: Timestamp) -> CrawlOutcome {
        let Target { agent, source, link, link_seq, .. } = self.target.clone();
        let memory = serde_json::to_string(memory).unwrap_or_default();
        CrawlOutcome {
            agent,
            link,
            link_seq,
            source,
            signals,
            outdated: Vec::new(),
            again,
            memory,
            failure: None,
            alarm: false,
            quota: None,
        }
    }

    fn signals(&self, found: &Found) -> Option<Vec<Signal>> {
        let sign = |(measured, evidence): (&Measured, &Value)| {
            let Measured { tags, value, stddev } = measured.clone();
            let agent = self.target.agent.clone();
            let mut draft = SignalDraft::new(agent, self.installed.id().clone(), tags, value, stddev, self.now);
            draft.aud.clone_from(&self.origin);
            draft.evidence = Some(StrictValue(evidence.clone()));
            draft.sign(&self.installed.key).ok()
        };
        found.reading.measured.iter().zip(&found.evidence).map(sign).collect()
    }
}

/// Whether a card fits into a signal.
fn is_small(card: &Card) -> bool {
    card.endpoints.iter().map(|origin| origin.len() + 3).sum::<usize>() <= MAX_CARD_BYTES
}

/// A job of a source that is no longer installed.
pub(super) fn let_go(target: &Target, now: Timestamp) -> CrawlOutcome {
    let Target { agent, source, link, link_seq, memory, .. } = target.clone();
    let failure = Some((Reason::Absent.key(), "the source is not installed".to_owned()));
    let again = now.plus(LOOK_AGAIN);
    CrawlOutcome {
        agent,
        link,
        link_seq,
        source,
        signals: Vec::new(),
        outdated: Vec::new(),
        again,
        memory,
        failure,
        alarm: false,
        quota: None,
    }
}

fn differs(last: &[Measured], new: &[Measured]) -> bool {
    let same = |a: &Measured, b: &Measured| {
        a.tags == b.tags && (a.value - b.value).abs() < MIN_MOVE && (a.stddev - b.stddev).abs() < MIN_MOVE
    };
    last.len() != new.len() || !last.iter().zip(new).all(|(a, b)| same(a, b))
}

/// Up to twenty percent more: questions that wait for the same moment spread.
pub(super) fn later(wait: Duration) -> Duration {
    wait.mul_f64(1.0 + 0.2 * fastrand::f64())
}

/// Ten percent more or less.
fn spread(wait: Duration) -> Duration {
    wait.mul_f64(0.9 + 0.2 * fastrand::f64())
}

#[cfg(test)]
mod tests {
    use credence_protocol::{EntityId, SecretKey};

    use super::*;

    fn made(installed: &Installed, target: &Target) -> (Timestamp, CrawlOutcome, CrawlOutcome) {
        let now: Timestamp = "2026-11-18T12:00:00Z".parse().unwrap();
        let made = Made { target, installed, now, origin: None };
        let wait = Some(Duration::from_secs(7_200));
        let first = made.failed(Memory::default(), Reason::RateLimited, "429".into(), wait);
        let later = made.failed(Memory { failures: 3, ..Memory::default() }, Reason::ServerError, "503".into(), None);
        (now, first, later)
    }

    #[test]
    fn failures_are_tried_again_later_and_later_and_never_too_early() {
        let text = credence_ingest::builtin::FILES.iter().find(|(name, _)| *name == "github").unwrap().1;
        let source = || credence_ingest::Source::parse("github.toml", text).unwrap();
        let installed = Installed::file(source(), SecretKey::from_seed(&[1; 32]));
        let target = Target {
            agent: EntityId::new("bot").unwrap(),
            source: installed.id().clone(),
            link: "repository:github.com/acme/weather".parse().unwrap(),
            link_seq: 1,
            memory: String::new(),
            refused: 0,
        };
        let (now, first, later) = made(&installed, &target);
        assert!(first.again >= now.plus_seconds(7_200), "the source's word counts");
        assert_eq!(Memory::parse(&first.memory).failures, 1);
        let endless = Made { target: &target, installed: &installed, now, origin: None };
        let endless = endless.failed(Memory::default(), Reason::Refused, "403".into(), Some(Duration::MAX));
        assert_eq!(endless.again, now.plus_seconds(86_400), "and no pause is too long to be kept");
        let minutes = (later.again.micros() - now.micros()) / 60_000_000;
        assert!((7..=9).contains(&minutes), "the fourth wait is eight minutes: {minutes}");
        let made = Made { target: &target, installed: &installed, now, origin: None };
        let reading = |value: f64| {
            let reading = Reading {
                measured: vec![Measured { tags: vec!["oss_popularity".parse().unwrap()], value, stddev: 15.0 }],
                numbers: [("stars".to_owned(), 7.0)].into(),
                digest: "sha256:00".into(),
                ..Reading::default()
            };
            Found::by_file(&target, &source(), reading, &BTreeSet::new())
        };
        let first = made.measured(Memory::default(), reading(50.0), None);
        assert_eq!(first.signals.len(), 1);
        let memory = Memory::parse(&first.memory);
        assert_eq!(made.measured(memory.clone(), reading(50.2), None).signals.len(), 0, "the same is no news");
        assert_eq!(made.measured(memory.clone(), reading(51.0), None).signals.len(), 1);
        let mut another = reading(50.0);
        another.reading.digest = "sha256:11".into();
        another.digest_is_news = true;
        assert_eq!(
            made.measured(memory.clone(), another, None).signals.len(),
            1,
            "a registration that changed is news"
        );
        let week = Made { now: now.plus_seconds(REFRESH_SECONDS), ..made };
        assert_eq!(week.measured(memory, reading(50.0), None).signals.len(), 1, "a week later it is said again");
    }
}
