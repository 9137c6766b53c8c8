//! How many bytes what the engine remembers takes, and how it forgets when there is less room.
//!
//! Bytes are what the values hold, with the room that lists and tables leave empty; what the allocator adds is not in them. Each
//! entry knows what it was counted with, so the sums never drift.

use std::sync::{
    PoisonError,
    atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

use crate::{
    consistency::Earlier,
    state::{Cache, History, Shard, State, ToolState},
};

/// Something whose memory is counted.
pub(crate) trait Weighed {
    /// Bytes, the struct itself included.
    fn bytes(&self) -> usize;
}

/// An entry of a cache: its key, when it was used, and its place in the list and the table.
const ENTRY: usize = 96;

impl Weighed for ToolState {
    fn bytes(&self) -> usize {
        let field = size_of::<(crate::fields::PathId, crate::stats::RunningStats)>();
        let errors = self.errors.as_ref().map_or(0, |errors| size_of_val(&**errors) + errors.bytes());
        ENTRY + size_of::<Self>() + self.fields.capacity() * field + self.model.bytes() + errors
    }
}

impl Weighed for History {
    fn bytes(&self) -> usize {
        ENTRY + size_of::<Self>() + self.earlier.bytes() + self.last.bytes()
    }
}

impl Weighed for Earlier {
    fn bytes(&self) -> usize {
        ENTRY + size_of::<Self>() + Earlier::bytes(self)
    }
}

/// How many of a kind there are, how many bytes they take, and how many were forgotten.
#[derive(Default)]
pub(crate) struct Counter {
    pub(crate) kept: AtomicUsize,
    pub(crate) bytes: AtomicUsize,
    pub(crate) evicted: AtomicU64,
}

/// What was forgotten to make room.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Trimmed {
    /// Tools.
    pub tools: u64,
    /// Argument sets with a history.
    pub histories: u64,
    /// Sessions.
    pub sessions: u64,
}

impl State {
    /// Bytes of everything remembered.
    pub(crate) fn bytes(&self) -> usize {
        let counters = &self.counters;
        [&counters.tools, &counters.histories, &counters.sessions].iter().map(|kind| kind.bytes.load(Relaxed)).sum()
    }

    /// Forgets what was least recently used until at most `most` bytes are left: histories and sessions first, because a tool's
    /// model serves all of its calls; at most half of the room is left to them.
    pub(crate) fn trim(&self, most: usize) -> Trimmed {
        let forgotten = |trimmed: &mut Trimmed, one: Option<Forgotten>| match one {
            Some(Forgotten::Tool) => trimmed.tools += 1,
            Some(Forgotten::History) => trimmed.histories += 1,
            Some(Forgotten::Session) => trimmed.sessions += 1,
            None => {}
        };
        let mut trimmed = Trimmed::default();
        let small = || self.counters.histories.bytes.load(Relaxed) + self.counters.sessions.bytes.load(Relaxed);
        let (over, small_over) = (|| self.bytes() > most, || small() > most / 2);
        // Calls, then tools, then what calls are left.
        for (tools, more) in [(false, &small_over as &dyn Fn() -> bool), (true, &over), (false, &over)] {
            let mut found = true;
            while over() && more() && found {
                found = false;
                // A few of each shard in turn: each has its own order of use.
                for shard in &self.shards {
                    let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
                    for _ in 0..FROM_EACH_SHARD {
                        let one = if tools { self.forget_tool(&mut shard) } else { self.forget_call(&mut shard) };
                        found |= one.is_some();
                        forgotten(&mut trimmed, one);
                        if one.is_none() {
                            break;
                        }
                    }
                    if !over() || !more() {
                        break;
                    }
                }
            }
        }
        trimmed
    }

    fn forget_tool(&self, shard: &mut Shard) -> Option<Forgotten> {
        self.forget(&mut shard.tools, &self.counters.tools).then_some(Forgotten::Tool)
    }

    fn forget_call(&self, shard: &mut Shard) -> Option<Forgotten> {
        let oldest = |tick: Option<u64>| tick.unwrap_or(u64::MAX);
        let history = oldest(shard.histories.peek_lru().map(|(_, used)| used.tick));
        let session = oldest(shard.sessions.peek_lru().map(|(_, used)| used.tick));
        if session < history {
            self.forget(&mut shard.sessions, &self.counters.sessions).then_some(Forgotten::Session)
        } else {
            self.forget(&mut shard.histories, &self.counters.histories).then_some(Forgotten::History)
        }
    }

    /// Forgets the least recently used; whether there was one.
    pub(crate) fn forget<T>(&self, cache: &mut Cache<T>, counter: &Counter) -> bool {
        let Some((_, used)) = cache.pop_lru() else { return false };
        counter.kept.fetch_sub(1, Relaxed);
        counter.evicted.fetch_add(1, Relaxed);
        self.shrink(counter, used.bytes);
        true
    }

    /// Counts an entry that was `before` bytes and is `after` now.
    pub(crate) fn grow(&self, counter: &Counter, before: usize, after: usize) {
        if after > before {
            counter.bytes.fetch_add(after - before, Relaxed);
            self.total.fetch_add(after - before, Relaxed);
        } else if before > after {
            self.shrink(counter, before - after);
        }
    }

    fn shrink(&self, counter: &Counter, bytes: usize) {
        counter.bytes.fetch_sub(bytes, Relaxed);
        self.total.fetch_sub(bytes, Relaxed);
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.total.fetch_sub(self.bytes(), Relaxed);
    }
}

const FROM_EACH_SHARD: usize = 4;

#[derive(Clone, Copy)]
enum Forgotten {
    Tool,
    History,
    Session,
}
