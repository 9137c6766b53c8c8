//! What the engine remembers, in bounded memory and without a global lock.
//!
//! Everything of a tool lives in one of [`SHARDS`] shards, each under its own lock. Tools, argument histories and sessions
//! are counted over all shards; past a limit the least recently used of the shard at hand makes room, and what nobody used
//! for long goes by itself.

mod saved;

use std::{
    hash::{BuildHasherDefault, Hash, Hasher},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

use lru::LruCache;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use siphasher::sip128::{Hasher128, SipHasher13};

pub(crate) use self::saved::{EarlierSaved, Saved, Shard4, Shard5};
use crate::{
    Error,
    consistency::Earlier,
    fields::{MAX_DEPTH, PathId},
    learned::model::{Last, Model},
    memory::{Counter, Weighed},
    stats::RunningStats,
};

const SHARDS: usize = 64;

/// How much the engine may remember.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Tools with a baseline.
    pub max_tools: usize,
    /// Numeric fields per tool; further ones have no baseline.
    pub max_fields_per_tool: usize,
    /// Mode adaptive: paths per tool of which is known what they look like; further ones are not judged.
    pub max_paths_per_tool: usize,
    /// Mode adaptive: such paths over all tools. The more tools there are, the fewer paths a new one gets. A path takes a
    /// hundred bytes to two kilobytes.
    pub max_paths: usize,
    /// Argument sets with a history, over all tools.
    pub max_histories: usize,
    /// Sessions, over all tools.
    pub max_sessions: usize,
    /// Calls learned beside it (in the same one of 64 shards) after which an unused tool, history or session is forgotten.
    pub max_idle_calls: u64,
    /// Bytes of one result or its arguments, given as bytes; larger ones are refused.
    pub max_bytes: usize,
    /// Values in one result or its arguments; larger ones are refused.
    pub max_values: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_tools: 10_000,
            max_fields_per_tool: 512,
            max_paths_per_tool: 512,
            max_paths: 200_000,
            max_histories: 100_000,
            max_sessions: 20_000,
            max_idle_calls: 1_000_000,
            max_bytes: 64 * 1024 * 1024,
            max_values: 200_000,
        }
    }
}

/// However many tools there are, each may have as many paths known.
const LEAST_PATHS: usize = 16;

/// The longest tool name, in bytes.
pub(crate) const MAX_TOOL_NAME: usize = 512;

/// An identity that a caller's text cannot be bent to: keyed SipHash, 128 bits.
pub(crate) type Id = u128;

/// Ids are uniformly distributed already.
#[derive(Default)]
pub(crate) struct Folded(u64);

impl Hasher for Folded {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 ^= u64::from_ne_bytes(word);
        }
    }
    fn write_u64(&mut self, word: u64) {
        self.0 ^= word;
    }
}

type Build = BuildHasherDefault<Folded>;

/// A value and when it was last used.
pub(crate) struct Used<T> {
    value: T,
    pub(crate) tick: u64,
    /// As it was counted last.
    pub(crate) bytes: usize,
}

pub(crate) type Cache<T> = LruCache<Id, Used<T>, Build>;

/// A tool's baseline.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ToolState {
    pub(crate) latency: RunningStats,
    pub(crate) size: RunningStats,
    pub(crate) fields: std::collections::HashMap<PathId, RunningStats, Build>,
    pub(crate) feedback: FeedbackState,
    /// Mode adaptive: what the tool's results look like.
    pub(crate) model: Model,
    /// And its errors, where it says that they are.
    pub(crate) errors: Option<Box<Model>>,
}

impl ToolState {
    /// Counts the memory anew, after it was read back.
    fn recount(&mut self) {
        self.model.recount();
        if let Some(errors) = &mut self.errors {
            errors.recount();
        }
    }

    /// What results look like, or errors.
    pub(crate) fn shape(&self, is_error: bool) -> Option<&Model> {
        if is_error { self.errors.as_deref() } else { Some(&self.model) }
    }

    /// The same, made when missing.
    pub(crate) fn shape_mut(&mut self, is_error: bool) -> &mut Model {
        if is_error { self.errors.get_or_insert_default() } else { &mut self.model }
    }
}

/// Earlier results for the same arguments.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct History {
    pub(crate) earlier: Earlier,
    pub(crate) last: Last,
}

/// What people said of a tool's verdicts (seed 2, "Adaptive Thresholds").
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct FeedbackState {
    pub(crate) count: u64,
    /// EMA of the share that was fabricated.
    pub(crate) rate: f64,
    /// Sum of squared errors of the confidences that were fed back.
    pub(crate) squared_error: f64,
}

impl Default for FeedbackState {
    fn default() -> Self {
        Self { count: 0, rate: crate::calibration::DEFAULT_PRIOR, squared_error: 0.0 }
    }
}

/// One shard.
pub(crate) struct Shard {
    /// Calls learned here: the shard's own clock, because a shared one would be fought over.
    ticks: u64,
    pub(crate) tools: Cache<ToolState>,
    pub(crate) histories: Cache<History>,
    pub(crate) sessions: Cache<Earlier>,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) tools: Counter,
    pub(crate) histories: Counter,
    pub(crate) sessions: Counter,
    pub(crate) fields_dropped: AtomicU64,
}

pub(crate) struct State {
    pub(crate) shards: Vec<Mutex<Shard>>,
    /// Bytes of this and of all other engines that count in the same place.
    pub(crate) total: Arc<AtomicUsize>,
    pub(crate) limits: Limits,
    pub(crate) counters: Counters,
    pub(crate) seed: u64,
    keys: (u64, u64),
}

/// The identities of one call.
#[derive(Clone, Copy)]
pub(crate) struct Ids {
    tool: Id,
    history: Option<Id>,
    session: Option<Id>,
}

impl Ids {
    /// The arguments, as the model of a tool knows them.
    pub(crate) fn args(&self) -> Option<u64> {
        self.history.map(|id| id as u64)
    }

    /// The session, where there is one.
    pub(crate) fn session(&self) -> Option<u64> {
        self.session.map(|id| id as u64)
    }

    /// Who called: the session and the arguments.
    pub(crate) fn caller(&self) -> u32 {
        (self.session.unwrap_or_default() ^ self.history.unwrap_or_default().rotate_left(64)) as u32
    }
}

impl State {
    pub(crate) fn new(limits: Limits, keys: (u64, u64), total: Arc<AtomicUsize>) -> Self {
        let shard = || {
            Mutex::new(Shard {
                ticks: 0,
                tools: LruCache::unbounded_with_hasher(Build::default()),
                histories: LruCache::unbounded_with_hasher(Build::default()),
                sessions: LruCache::unbounded_with_hasher(Build::default()),
            })
        };
        Self {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            total,
            limits,
            counters: Counters::default(),
            seed: keys.0 ^ keys.1,
            keys,
        }
    }

    /// The identities of a call; equal arguments have one, whatever the order of their keys.
    pub(crate) fn ids(&self, tool: &str, args: Option<&Value>, session: Option<&str>) -> Result<Ids, Error> {
        let tool_id = self.hash(|hasher| tool.hash(hasher));
        let limit = self.limits.max_values;
        let too_large = |()| Error::TooLarge { what: "arguments", limit };
        let history = args.map(|args| {
            let mut budget = limit;
            let args = self.value(args, &mut budget, 0)?;
            Ok(mix(tool_id, args))
        });
        let session = session.map(|session| self.hash(|hasher| (1_u8, tool_id, session).hash(hasher)));
        Ok(Ids { tool: tool_id, history: history.transpose().map_err(too_large)?, session })
    }

    fn hash(&self, feed: impl FnOnce(&mut SipHasher13)) -> Id {
        let mut hasher = SipHasher13::new_with_keys(self.keys.0, self.keys.1);
        feed(&mut hasher);
        hasher.finish128().as_u128()
    }

    fn value(&self, value: &Value, budget: &mut usize, depth: usize) -> Result<Id, ()> {
        if *budget == 0 || depth > MAX_DEPTH {
            return Err(());
        }
        *budget -= 1;
        Ok(match value {
            Value::Null => self.hash(|h| h.write_u8(0)),
            Value::Bool(flag) => self.hash(|h| (1_u8, flag).hash(h)),
            Value::Number(number) => match number.as_i64() {
                Some(integer) => self.hash(|h| (2_u8, integer).hash(h)),
                None => self.hash(|h| (3_u8, (number.as_f64().unwrap_or_default() + 0.0).to_bits()).hash(h)),
            },
            Value::String(text) => self.hash(|h| (4_u8, text).hash(h)),
            Value::Array(items) => {
                let items =
                    items.iter().map(|item| self.value(item, budget, depth + 1)).collect::<Result<Vec<_>, _>>()?;
                self.hash(|h| (5_u8, items).hash(h))
            }
            Value::Object(members) => {
                // A sum does not care for the order of its terms.
                let mut sum: Id = 0;
                for (key, member) in members {
                    let member = self.value(member, budget, depth + 1)?;
                    sum = sum.wrapping_add(mix(self.hash(|h| (6_u8, key).hash(h)), member));
                }
                mix(sum, members.len() as Id)
            }
        })
    }

    /// Paths that a tool may have known, given how many tools there are.
    pub(crate) fn paths_per_tool(&self) -> usize {
        let share = self.limits.max_paths / self.counters.tools.kept.load(Relaxed).max(1);
        self.limits.max_paths_per_tool.min(share.max(LEAST_PATHS))
    }

    /// Locks the shard of a call.
    pub(crate) fn lock(&self, ids: Ids) -> Locked<'_> {
        let shard = &self.shards[(ids.tool as usize) % SHARDS];
        let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        Locked { shard, state: self, ids, learned: false }
    }
}

/// One identity of two. Both are keyed hashes already, which nobody outside can choose.
fn mix(a: Id, b: Id) -> Id {
    (a.rotate_left(47) ^ b).wrapping_mul(0x2d35_8dcc_aa6c_78a5_8bb8_4b93_962e_acc9)
}

impl State {
    /// The entry of `id`, most recently used now; makes room first where there is none.
    fn entry<'a, T: Default>(
        &self,
        cache: &'a mut Cache<T>,
        id: Id,
        counter: &Counter,
        limit: usize,
        tick: u64,
    ) -> &'a mut Used<T> {
        if !cache.contains(&id) {
            let full = counter.kept.load(Relaxed) >= limit.max(1);
            let idle =
                cache.peek_lru().is_some_and(|(_, used)| used.tick.saturating_add(self.limits.max_idle_calls) < tick);
            if full || idle {
                self.forget(cache, counter);
            }
            counter.kept.fetch_add(1, Relaxed);
        }
        let used = cache.get_or_insert_mut(id, || Used { value: T::default(), tick, bytes: 0 });
        used.tick = tick;
        used
    }

    /// Counts an entry again, after it changed.
    fn weigh<T: Weighed>(&self, cache: &mut Cache<T>, id: Id, counter: &Counter) {
        if let Some(used) = cache.peek_mut(&id) {
            let before = std::mem::replace(&mut used.bytes, used.value.bytes());
            self.grow(counter, before, used.bytes);
        }
    }
}

/// The part of the memory that one call concerns.
pub(crate) struct Locked<'a> {
    shard: MutexGuard<'a, Shard>,
    state: &'a State,
    ids: Ids,
    /// Something was learned: its memory is counted again at the end.
    learned: bool,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        if !self.learned {
            return;
        }
        let Self { shard, state, ids, .. } = self;
        let Shard { tools, histories, sessions, .. } = &mut **shard;
        state.weigh(tools, ids.tool, &state.counters.tools);
        if let Some(id) = ids.history {
            state.weigh(histories, id, &state.counters.histories);
        }
        if let Some(id) = ids.session {
            state.weigh(sessions, id, &state.counters.sessions);
        }
    }
}

impl Locked<'_> {
    pub(crate) fn tool(&self) -> Option<&ToolState> {
        self.shard.tools.peek(&self.ids.tool).map(|used| &used.value)
    }

    pub(crate) fn history(&self) -> Option<&History> {
        self.ids.history.and_then(|id| self.shard.histories.peek(&id)).map(|used| &used.value)
    }

    pub(crate) fn session(&self) -> Option<&Earlier> {
        self.ids.session.and_then(|id| self.shard.sessions.peek(&id)).map(|used| &used.value)
    }

    /// The tool's state, made when missing.
    pub(crate) fn tool_mut(&mut self) -> &mut ToolState {
        let Self { shard, state, ids, learned } = self;
        *learned = true;
        shard.ticks += 1;
        let tick = shard.ticks;
        &mut state.entry(&mut shard.tools, ids.tool, &state.counters.tools, state.limits.max_tools, tick).value
    }

    /// The histories of the call's arguments and session, made when missing.
    pub(crate) fn remember(
        &mut self,
        history: impl FnOnce(&mut ToolState, Option<&mut History>),
        session: impl FnOnce(&mut Earlier),
    ) {
        let Self { shard, state, ids, learned } = self;
        *learned = true;
        shard.ticks += 1;
        let (limits, counters, tick) = (&state.limits, &state.counters, shard.ticks);
        let Shard { tools, histories, sessions, .. } = &mut **shard;
        let tool = &mut state.entry(tools, ids.tool, &counters.tools, limits.max_tools, tick).value;
        let earlier = ids
            .history
            .map(|id| &mut state.entry(histories, id, &counters.histories, limits.max_histories, tick).value);
        history(tool, earlier);
        if let Some(id) = ids.session {
            session(&mut state.entry(sessions, id, &counters.sessions, limits.max_sessions, tick).value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn equal_arguments_have_one_identity_whatever_their_order() {
        let state = State::new(Limits::default(), (1, 2), Arc::default());
        let id = |args: &Value| state.ids("t", Some(args), None).unwrap().history;
        let one: Value = serde_json::from_str(r#"{"a": 1, "b": {"c": [1, 2], "d": null}}"#).unwrap();
        let two: Value = serde_json::from_str(r#"{"b": {"d": null, "c": [1, 2]}, "a": 1}"#).unwrap();
        assert_eq!(id(&one), id(&two));
        for other in [
            json!({"a": 2}),
            json!({"a": "1"}),
            json!([1, 2]),
            json!([2, 1]),
            json!({"a": {"b": 1}}),
            json!(null),
            json!({}),
        ] {
            assert_ne!(id(&one), id(&other), "{other}");
        }
        assert_ne!(state.ids("u", Some(&one), None).unwrap().history, id(&one), "another tool");
    }

    #[test]
    fn limits_hold_over_all_shards() {
        let limits = Limits { max_tools: 100, max_histories: 50, max_sessions: 50, ..Limits::default() };
        let state = State::new(limits, (1, 2), Arc::default());
        for n in 0..10_000 {
            let (tool, args) = (format!("tool-{}", n % 500), json!({ "n": n }));
            let mut locked = state.lock(state.ids(&tool, Some(&args), Some(&tool)).unwrap());
            locked.tool_mut();
            locked.remember(|_, _| {}, |_| {});
        }
        let Counters { tools, histories, sessions, .. } = &state.counters;
        // A shard that holds nothing yet cannot make room: each may exceed the limit by one.
        for (counter, limit) in [(tools, 100), (histories, 50), (sessions, 50)] {
            let kept = counter.kept.load(Relaxed);
            assert!(kept <= limit + SHARDS, "{kept} kept, the limit is {limit}");
            assert!(counter.evicted.load(Relaxed) > 0);
        }
    }
}
