//! Signed answers, kept until anything they were computed from changes or they expire; and the record that they left.

use std::{
    num::NonZeroUsize,
    sync::{Mutex, PoisonError},
};

use axum::http::HeaderValue;
use bytes::Bytes;
use credence_output::badge::Style;
use credence_pipeline::{
    Authority,
    responses::{ReaderClass, SentResponse},
};
use credence_protocol::{EntityId, Timestamp};
use lru::LruCache;

use crate::tail::Tail;

/// Answers kept.
const MAX_CACHED: NonZeroUsize = NonZeroUsize::new(20_000).unwrap();
/// Bytes of answers kept, together.
const MAX_CACHED_BYTES: usize = 128 * 1024 * 1024;
/// Answers of one class of readers that wait to be recorded. More do not leave within a second.
const MAX_PENDING: usize = 4_096;
/// Beside the body: the key, the headers.
const OVERHEAD: usize = 512;

/// What a cached answer is found by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum AnswerKey {
    /// Trust signals, for a page and a purpose.
    TrustSignals { entity: String, url: String, context: Option<String> },
    /// A badge.
    Badge { entity: String, style: StyleKey },
}

/// A style, as part of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum StyleKey {
    Flat,
    Pill,
}

impl From<Style> for StyleKey {
    fn from(style: Style) -> Self {
        match style {
            Style::Flat => StyleKey::Flat,
            Style::Pill => StyleKey::Pill,
        }
    }
}

impl From<StyleKey> for Style {
    fn from(key: StyleKey) -> Self {
        match key {
            StyleKey::Flat => Style::Flat,
            StyleKey::Pill => Style::Pill,
        }
    }
}

/// A signed answer, with how long it holds.
#[derive(Debug, Clone)]
pub(crate) struct CachedAnswer {
    pub agent: EntityId,
    /// The ledger's size that it saw.
    pub as_of: u64,
    /// When it was made.
    pub made: Timestamp,
    /// Until when it holds.
    pub expires: Timestamp,
    pub body: Bytes,
    pub etag: HeaderValue,
}

impl CachedAnswer {
    /// Whole seconds that it still holds.
    pub(crate) fn seconds_left(&self, now: Timestamp) -> i64 {
        (self.expires.micros() - now.micros()).max(0) / 1_000_000
    }

    /// Not in the last tenth of its life: whoever gets it should have time to use it. Nor made in a future that a clock that
    /// was set back has yet to reach.
    fn is_fresh(&self, now: Timestamp) -> bool {
        let life = self.expires.micros() - self.made.micros();
        self.made <= now && self.expires.micros() - now.micros() > life / 10
    }
}

/// The answers kept.
pub(crate) struct Answers {
    kept: Mutex<Cache>,
}

struct Cache {
    answers: LruCache<AnswerKey, CachedAnswer>,
    bytes: usize,
}

impl Default for Answers {
    fn default() -> Self {
        Self { kept: Mutex::new(Cache { answers: LruCache::new(MAX_CACHED), bytes: 0 }) }
    }
}

impl Answers {
    /// A kept answer that still holds.
    pub(crate) fn get(&self, key: &AnswerKey, tail: &Tail, now: Timestamp) -> Option<CachedAnswer> {
        let mut cache = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = cache.answers.get(key)?;
        (kept.is_fresh(now) && tail.holds(&kept.agent, kept.as_of)).then(|| kept.clone())
    }

    pub(crate) fn put(&self, key: AnswerKey, kept: CachedAnswer) {
        let mut cache = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        cache.bytes += size(&key, &kept);
        if let Some((key, former)) = cache.answers.push(key, kept) {
            cache.bytes -= size(&key, &former);
        }
        while cache.bytes > MAX_CACHED_BYTES
            && let Some((key, oldest)) = cache.answers.pop_lru()
        {
            cache.bytes -= size(&key, &oldest);
        }
    }
}

fn size(key: &AnswerKey, kept: &CachedAnswer) -> usize {
    let key = match key {
        AnswerKey::TrustSignals { entity, url, context } => {
            entity.len() + url.len() + context.as_ref().map_or(0, String::len)
        }
        AnswerKey::Badge { entity, .. } => entity.len(),
    };
    OVERHEAD + key + kept.body.len()
}

/// Answers that left and are not recorded yet.
#[derive(Default)]
pub(crate) struct Outbox {
    pending: Mutex<Pending>,
    /// One batch is recorded at a time.
    turn: Mutex<()>,
}

/// Those of readers without a token and those of bearers of tokens: neither crowds out the other.
#[derive(Default)]
struct Pending {
    anonymous: Vec<SentResponse>,
    bearers: Vec<SentResponse>,
}

impl Pending {
    fn of(&mut self, class: ReaderClass) -> &mut Vec<SentResponse> {
        match class {
            ReaderClass::Anonymous => &mut self.anonymous,
            ReaderClass::Bearer => &mut self.bearers,
        }
    }
}

impl Outbox {
    /// Takes an answer in; not where too many of its class wait.
    #[must_use]
    pub(crate) fn push(&self, sent: SentResponse) -> bool {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let of_class = pending.of(sent.class);
        let room = of_class.len() < MAX_PENDING;
        if room {
            of_class.push(sent);
        }
        room
    }

    pub(crate) fn len(&self) -> usize {
        let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.anonymous.len() + pending.bearers.len()
    }

    /// Records all that waits, as one batch. What could not be recorded waits on.
    pub(crate) fn record(&self, authority: &Authority) -> credence_pipeline::Result<()> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let batch: Vec<SentResponse> = {
            let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
            let Pending { anonymous, bearers } = &mut *pending;
            bearers.drain(..).chain(anonymous.drain(..)).collect()
        };
        let recorded = authority.record_responses(batch.clone());
        if recorded.is_err() {
            let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
            for sent in batch {
                pending.of(sent.class).push(sent);
            }
        }
        recorded.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readers without a token fill their own share, and leave the other one free.
    #[test]
    fn anonymous_readers_do_not_crowd_out_bearers_of_tokens() {
        let outbox = Outbox::default();
        let expires: Timestamp = "2026-11-17T12:00:00Z".parse().unwrap();
        let sent = |class| SentResponse { hash: "ab".repeat(32), expires, class };
        for _ in 0..MAX_PENDING {
            assert!(outbox.push(sent(ReaderClass::Anonymous)));
        }
        assert!(!outbox.push(sent(ReaderClass::Anonymous)));
        assert!(outbox.push(sent(ReaderClass::Bearer)));
        assert_eq!(outbox.len(), MAX_PENDING + 1);
    }
}
