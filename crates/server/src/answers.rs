//! Signed answers, kept until anything they were computed from changes or they expire; and the record that they left.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use axum::http::HeaderValue;
use bytes::Bytes;
use credence_output::badge::Style;
use credence_pipeline::{
    Authority,
    responses::{ReaderClass, SentResponse},
};
use credence_protocol::{EntityId, Timestamp};

use crate::{shares::Owner, tail::Tail};

/// Answers kept.
const MAX_CACHED: usize = 20_000;
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

/// The answers kept, in shares: callers without a token have half, those with one the other half. Where a half is full, the caller
/// in it who had the most made loses its oldest: a caller that asks for ever new pages pushes out its own.
#[derive(Default)]
pub(crate) struct Answers {
    kept: RwLock<Cache>,
}

#[derive(Default)]
struct Cache {
    answers: HashMap<Arc<AnswerKey>, Kept>,
    anonymous: Half,
    tokens: Half,
    /// Counts up with every answer.
    number: u64,
}

struct Kept {
    answer: CachedAnswer,
    owner: Owner,
    number: u64,
}

/// What one half of the callers had made.
#[derive(Default)]
struct Half {
    bytes: usize,
    count: usize,
    owners: HashMap<Owner, Owned>,
    /// The same by size, for the largest.
    by_bytes: BTreeSet<(usize, Owner)>,
}

/// What one caller had made, the oldest first. Those that were replaced since have another number.
#[derive(Default)]
struct Owned {
    bytes: usize,
    count: usize,
    made: VecDeque<(u64, Arc<AnswerKey>)>,
}

impl Half {
    fn add(&mut self, owner: Owner, bytes: usize, made: (u64, Arc<AnswerKey>)) {
        let owned = self.owners.entry(owner).or_default();
        self.by_bytes.remove(&(owned.bytes, owner));
        owned.bytes += bytes;
        owned.count += 1;
        owned.made.push_back(made);
        self.by_bytes.insert((owned.bytes, owner));
        self.bytes += bytes;
        self.count += 1;
    }

    /// An answer of `owner` is gone; its line in the list goes when it is come to.
    fn subtract(&mut self, owner: Owner, bytes: usize) {
        let Some(owned) = self.owners.get_mut(&owner) else { return };
        self.by_bytes.remove(&(owned.bytes, owner));
        owned.bytes -= bytes;
        owned.count -= 1;
        self.bytes -= bytes;
        self.count -= 1;
        if owned.count == 0 {
            self.owners.remove(&owner);
        } else {
            self.by_bytes.insert((owned.bytes, owner));
        }
    }

    /// The oldest of the caller who has most.
    fn oldest_of_largest(&mut self) -> Option<(u64, Arc<AnswerKey>)> {
        let (_, owner) = self.by_bytes.last()?;
        self.owners.get_mut(owner)?.made.pop_front()
    }
}

impl Cache {
    fn half(&mut self, owner: Owner) -> &mut Half {
        match owner {
            Owner::Address(_) => &mut self.anonymous,
            Owner::Token(_) => &mut self.tokens,
        }
    }

    fn put(&mut self, key: Arc<AnswerKey>, answer: CachedAnswer, owner: Owner) {
        self.remove(&key);
        self.number += 1;
        let (number, bytes) = (self.number, size(&key, &answer));
        self.half(owner).add(owner, bytes, (number, Arc::clone(&key)));
        self.answers.insert(key, Kept { answer, owner, number });
        let Self { answers, anonymous, tokens, .. } = self;
        let half = if matches!(owner, Owner::Address(_)) { anonymous } else { tokens };
        if let Some(owned) = half.owners.get_mut(&owner).filter(|owned| owned.made.len() > 2 * owned.count + 16) {
            // Most of the list was replaced.
            owned.made.retain(|(number, key)| answers.get(key).is_some_and(|kept| kept.number == *number));
        }
        while self.half(owner).bytes > MAX_CACHED_BYTES / 2 || self.half(owner).count > MAX_CACHED / 2 {
            let Some((number, key)) = self.half(owner).oldest_of_largest() else { break };
            if self.answers.get(&key).is_some_and(|kept| kept.number == number) {
                self.remove(&key);
            }
        }
    }

    fn remove(&mut self, key: &AnswerKey) {
        if let Some((key, kept)) = self.answers.remove_entry(key) {
            self.half(kept.owner).subtract(kept.owner, size(&key, &kept.answer));
        }
    }
}

impl Answers {
    /// A kept answer that still holds.
    /// The second is whether a bearer of a token asks for the first time for what was made for somebody without one.
    pub(crate) fn get(
        &self,
        key: &AnswerKey,
        asks: Owner,
        tail: &Tail,
        now: Timestamp,
    ) -> Option<(CachedAnswer, bool)> {
        let (answer, owner) = {
            let cache = self.kept.read().unwrap_or_else(PoisonError::into_inner);
            let kept = cache.answers.get(key)?;
            (kept.answer.clone(), kept.owner)
        };
        if !answer.is_fresh(now) || !tail.holds(&answer.agent, answer.as_of) {
            return None;
        }
        let taken_over = matches!((owner, asks), (Owner::Address(_), Owner::Token(_)));
        if taken_over {
            // Made for somebody without a token: those cannot push out any more what a token's bearer uses.
            self.put(key.clone(), answer.clone(), asks);
        }
        Some((answer, taken_over))
    }

    /// Forgets all of them.
    pub(crate) fn clear(&self) {
        *self.kept.write().unwrap_or_else(PoisonError::into_inner) = Cache::default();
    }

    /// Keeps an answer that `owner` had made.
    pub(crate) fn put(&self, key: AnswerKey, answer: CachedAnswer, owner: Owner) {
        let mut cache = self.kept.write().unwrap_or_else(PoisonError::into_inner);
        cache.put(Arc::new(key), answer, owner);
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

    fn key(n: u32) -> AnswerKey {
        AnswerKey::TrustSignals { entity: "shop".into(), url: format!("https://shop.example/{n}"), context: None }
    }

    fn answer() -> CachedAnswer {
        let at: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        CachedAnswer {
            agent: EntityId::new("shop").unwrap(),
            as_of: 0,
            made: at,
            expires: at.plus_seconds(600),
            body: Bytes::from_static(&[0; 100]),
            etag: HeaderValue::from_static("x"),
        }
    }

    #[test]
    fn a_flood_pushes_out_what_the_flooder_had_made() {
        let answers = Answers::default();
        let (token, other, address) = (Owner::Token(1), Owner::Token(2), |n: u8| Owner::Address([192, 0, 2, n].into()));
        let has = |n: u32| answers.kept.read().unwrap().answers.contains_key(&key(n));
        answers.put(key(1), answer(), token);
        answers.put(key(2), answer(), address(1));
        // From many addresses, and then from another token.
        for n in 0..30_000 {
            answers.put(key(100 + n), answer(), address(10 + (n % 200) as u8));
        }
        assert!(has(1) && has(2), "a caller that had little made keeps it");
        for n in 0..30_000 {
            answers.put(key(100_000 + n), answer(), other);
        }
        assert!(has(1) && !has(100_000) && has(129_999));
        let mut cache = answers.kept.write().unwrap();
        assert!(cache.answers.len() <= MAX_CACHED);
        assert_eq!(cache.anonymous.count + cache.tokens.count, cache.answers.len());
        let bytes: usize = cache.answers.iter().map(|(key, kept)| size(key, &kept.answer)).sum();
        assert_eq!(cache.anonymous.bytes + cache.tokens.bytes, bytes);
        // The same again in the place of the first: nothing is counted twice.
        let (before, count) = (cache.tokens.bytes, cache.tokens.count);
        (0..1_000).for_each(|_| cache.put(Arc::new(key(1)), answer(), token));
        assert_eq!((cache.tokens.bytes, cache.tokens.count), (before, count));
        assert!(cache.tokens.owners[&token].made.len() < 50);
    }

    #[test]
    fn what_a_bearer_uses_is_in_the_bearers_share() {
        let (answers, tail, now) = (Answers::default(), Tail::from(0), answer().made);
        answers.put(key(1), answer(), Owner::Address([192, 0, 2, 1].into()));
        assert!(answers.get(&key(1), Owner::Token(1), &tail, now).is_some());
        assert_eq!(answers.kept.read().unwrap().answers[&key(1)].owner, Owner::Token(1));
        assert!(answers.get(&key(1), Owner::Address([192, 0, 2, 1].into()), &tail, now).is_some());
        assert!(answers.get(&key(1), Owner::Token(1), &tail, answer().expires).is_none());
    }
}
