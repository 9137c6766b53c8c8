//! Signed answers, kept until anything they were computed from changes or they expire; and the record that they left.

use std::{
    collections::VecDeque,
    num::NonZeroUsize,
    sync::{Mutex, PoisonError},
};

use axum::http::HeaderValue;
use bytes::Bytes;
use credence_output::badge::Style;
use credence_pipeline::{Authority, MAX_RESPONSES};
use credence_protocol::{EntityId, Timestamp};
use lru::LruCache;

use crate::tail::Tail;

/// Answers kept.
const MAX_CACHED: NonZeroUsize = NonZeroUsize::new(20_000).unwrap();
/// Bytes of answers kept, together.
const MAX_CACHED_BYTES: usize = 128 * 1024 * 1024;
/// Hashes that wait to be recorded: no answer leaves that could not be within some ten seconds.
const MAX_PENDING: usize = 8 * MAX_RESPONSES;
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

/// Hashes of answers that left and are not recorded yet.
#[derive(Default)]
pub(crate) struct Outbox {
    pending: Mutex<VecDeque<String>>,
}

impl Outbox {
    /// Takes a hash in; not where too many wait.
    #[must_use]
    pub(crate) fn push(&self, hash: &str) -> bool {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let room = pending.len() < MAX_PENDING;
        if room {
            pending.push_back(hash.to_owned());
        }
        room
    }

    pub(crate) fn len(&self) -> usize {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Records what waits, as one entry; whether there was anything. What could not be recorded waits on.
    pub(crate) fn record(&self, authority: &Authority) -> credence_pipeline::Result<bool> {
        let batch: Vec<String> = {
            let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
            let count = pending.len().min(MAX_RESPONSES);
            pending.drain(..count).collect()
        };
        if batch.is_empty() {
            return Ok(false);
        }
        let recorded = authority.record_responses(batch.clone(), 0);
        if recorded.is_err() {
            let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
            batch.into_iter().rev().for_each(|hash| pending.push_front(hash));
        }
        recorded.map(|_| true)
    }
}
