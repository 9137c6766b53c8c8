//! The state as snapshots hold it: what is written, what is read back, and what earlier versions wrote.

use std::sync::{Arc, Mutex, PoisonError, atomic::AtomicUsize};

use credence_protocol::Timestamp;
use serde::{
    Deserialize, Serialize, Serializer,
    ser::{SerializeSeq, SerializeStruct},
};

use super::{Cache, History, Id, Limits, SHARDS, Shard, State, ToolState};
use crate::{
    Error,
    consistency::Earlier,
    learned::{ages::Ages, lately::Latelies, model::Model},
    memory::{Counter, Weighed},
    stats::RunningStats,
};

/// Everything in one shard, least recently used first.
#[derive(Deserialize)]
pub(crate) struct SavedShard {
    tools: Vec<(Id, ToolState)>,
    histories: Vec<(Id, History)>,
    sessions: Vec<(Id, Earlier)>,
    /// After how long a tool's answers to equal arguments change, and when the arguments were answered last.
    ages: Vec<(Id, Ages)>,
    answered: Vec<(Id, i64)>,
    /// Where a tool's values were lately, and those of its errors.
    lately: Vec<(Id, bool, Latelies)>,
}

/// Everything the engine learned, as it is read back; [`State`] itself is what is written.
#[derive(Deserialize)]
pub(crate) struct Saved {
    keys: (u64, u64),
    shards: Vec<SavedShard>,
}

/// The same as earlier versions wrote it, which knew less.
#[derive(Deserialize)]
pub(crate) struct EarlierSaved<S> {
    keys: (u64, u64),
    shards: Vec<S>,
}

/// A shard of version 4: tools, histories and sessions.
pub(crate) type Shard4 = (Vec<(Id, ToolState)>, Vec<(Id, History)>, Vec<(Id, Earlier)>);
/// Of version 5: with ages.
pub(crate) type Shard5 =
    (Vec<(Id, ToolState)>, Vec<(Id, History)>, Vec<(Id, Earlier)>, Vec<(Id, Ages)>, Vec<(Id, i64)>);

impl From<Shard4> for SavedShard {
    fn from((tools, histories, sessions): Shard4) -> Self {
        (tools, histories, sessions, Vec::new(), Vec::new()).into()
    }
}

impl From<Shard5> for SavedShard {
    fn from((tools, histories, sessions, ages, answered): Shard5) -> Self {
        Self { tools, histories, sessions, ages, answered, lately: Vec::new() }
    }
}

impl<S: Into<SavedShard>> From<EarlierSaved<S>> for Saved {
    fn from(EarlierSaved { keys, shards }: EarlierSaved<S>) -> Self {
        Self { keys, shards: shards.into_iter().map(Into::into).collect() }
    }
}

/// Written shard by shard, without a copy: others may learn meanwhile in the shards that are not being written.
impl Serialize for State {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Shards<'a>(&'a [Mutex<Shard>]);
        impl Serialize for Shards<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut list = serializer.serialize_seq(Some(self.0.len()))?;
                for shard in self.0 {
                    list.serialize_element(&*shard.lock().unwrap_or_else(PoisonError::into_inner))?;
                }
                list.end()
            }
        }
        let mut saved = serializer.serialize_struct("Saved", 2)?;
        saved.serialize_field("keys", &self.keys)?;
        saved.serialize_field("shards", &Shards(&self.shards))?;
        saved.end()
    }
}

impl Serialize for Shard {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct List<'a, T>(&'a Cache<T>);
        impl<T: Serialize> Serialize for List<'_, T> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut list = serializer.serialize_seq(Some(self.0.len()))?;
                for (id, used) in self.0.iter().rev() {
                    list.serialize_element(&(id, &used.value))?;
                }
                list.end()
            }
        }
        let mut saved = serializer.serialize_struct("SavedShard", 6)?;
        saved.serialize_field("tools", &List(&self.tools))?;
        saved.serialize_field("histories", &List(&self.histories))?;
        saved.serialize_field("sessions", &List(&self.sessions))?;
        let aged = self.tools.iter().filter(|(_, used)| !used.value.model.ages.is_empty());
        let ages: Vec<(&Id, &Ages)> = aged.map(|(id, used)| (id, &used.value.model.ages)).collect();
        saved.serialize_field("ages", &ages)?;
        let answered = self.histories.iter().filter_map(|(id, used)| Some((id, used.value.last.at?.micros())));
        saved.serialize_field("answered", &answered.collect::<Vec<_>>())?;
        let models = self.tools.iter().flat_map(|(id, used)| {
            let errors = used.value.errors.as_deref().map(|errors| (id, true, errors.latelies()));
            [Some((id, false, used.value.model.latelies())), errors]
        });
        let known = models.flatten().filter(|(_, _, list)| !list.is_empty());
        saved.serialize_field("lately", &known.collect::<Vec<_>>())?;
        saved.end()
    }
}

impl State {
    /// A state that continues from what was saved. Beyond the limits the least recently used are left behind.
    pub(crate) fn restore(limits: Limits, saved: Saved, total: Arc<AtomicUsize>) -> Result<Self, Error> {
        if saved.shards.len() != SHARDS {
            return Err(Error::Snapshot(format!("{} shards instead of {SHARDS}", saved.shards.len())));
        }
        let stats = |tool: &ToolState| {
            let stats = tool.fields.values().chain([&tool.latency, &tool.size]).all(RunningStats::is_sound);
            stats && tool.errors.iter().map(|errors| &**errors).chain([&tool.model]).all(Model::is_sound)
        };
        let ages = saved.shards.iter().flat_map(|shard| &shard.ages).all(|(_, ages)| ages.is_sound());
        let lists = saved.shards.iter().flat_map(|shard| &shard.lately).flat_map(|(_, _, list)| list);
        let lately = lists.into_iter().all(|(_, lately)| lately.is_sound());
        if !ages || !lately || !saved.shards.iter().flat_map(|shard| &shard.tools).all(|(_, tool)| stats(tool)) {
            return Err(Error::Snapshot("statistics that cannot be".into()));
        }
        let state = Self::new(limits, saved.keys, total);
        for (shard, saved) in state.shards.iter().zip(saved.shards) {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let Shard { tools, histories, sessions, .. } = &mut *shard;
            for (id, mut tool) in saved.tools {
                tool.recount();
                state.refill(tools, id, tool, &state.counters.tools, limits.max_tools);
            }
            for (id, history) in saved.histories {
                state.refill(histories, id, history, &state.counters.histories, limits.max_histories);
            }
            for (id, session) in saved.sessions {
                state.refill(sessions, id, session, &state.counters.sessions, limits.max_sessions);
            }
            for (id, ages) in saved.ages {
                if let Some(used) = tools.peek_mut(&id) {
                    used.value.model.ages = ages;
                }
            }
            for (id, of_errors, list) in saved.lately {
                let tool = tools.peek_mut(&id).map(|used| &mut used.value);
                let model =
                    tool.and_then(|tool| if of_errors { tool.errors.as_deref_mut() } else { Some(&mut tool.model) });
                if let Some(model) = model {
                    model.restore_latelies(list);
                }
            }
            for (id, at) in saved.answered {
                if let Some(used) = histories.peek_mut(&id) {
                    used.value.last.at = Timestamp::from_micros(at).ok();
                }
            }
        }
        Ok(state)
    }

    fn refill<T: Default + Weighed>(&self, cache: &mut Cache<T>, id: Id, value: T, counter: &Counter, limit: usize) {
        let used = self.entry(cache, id, counter, limit, 0);
        used.value = value;
        self.weigh(cache, id, counter);
    }
}
