//! Questions that wait for a place, by source. A source that is asked slowly has few places, so that its questions do not hold up those
//! of others: [`places`] is what it can use in [`SECONDS`], and no more than [`HELD`] times that is claimed for it. The rest is due again
//! when the source can be expected to get to it.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use credence_ingest::Source;
use credence_protocol::EntityId;

use super::{AT_ONCE, Target, ask::Unsent};

/// How long requests of a source may queue for its rate.
const SECONDS: usize = 8;
/// The fewest places of a source.
const FEWEST: usize = 4;
/// Questions claimed for each place.
const HELD: usize = 4;
/// When a question to the agents' own hosts is due again, in seconds: each host has a rate of its own.
const OWN_HOST_SECONDS: f64 = 5.0;

/// Questions of a host that is left alone for longer than this are due again after the pause; for a shorter one they are kept.
const LONG_PAUSE: Duration = Duration::from_secs(5);

/// How many questions a source is asked at once.
fn places(source: &Source) -> usize {
    match source.host() {
        Some(_) => (source.limits.rate.per_second.get() as usize).saturating_mul(SECONDS).clamp(FEWEST, AT_ONCE),
        None => AT_ONCE / 2,
    }
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Target>,
    asking: usize,
    put_off: u32,
}

/// Questions by source.
#[derive(Default)]
pub(super) struct Waiting(BTreeMap<EntityId, Queue>);

impl Waiting {
    /// Takes a question in.
    pub fn push(&mut self, target: Target) {
        self.0.entry(target.source.clone()).or_default().waiting.push_back(target);
    }

    /// Takes a claimed question in; or says in how many seconds it is due again.
    pub fn claim(&mut self, target: Target, source: Option<&Source>) -> Result<(), (Target, f64)> {
        let queue = self.0.entry(target.source.clone()).or_default();
        let Some(source) = source.filter(|one| queue.asking + queue.waiting.len() >= HELD * places(one)) else {
            queue.waiting.push_back(target);
            return Ok(());
        };
        queue.put_off += 1;
        let rate = f64::from(source.limits.rate.per_second.get());
        let held = (HELD * places(source)) as f64;
        Err((target, if source.host().is_some() { (held + f64::from(queue.put_off)) / rate } else { OWN_HOST_SECONDS }))
    }

    /// The next question of the source that is asked least, among those with a place left whose host may be asked.
    pub fn next<'a>(
        &mut self,
        source: impl Fn(&EntityId) -> Option<&'a Source>,
        paused: impl Fn(&EntityId) -> bool,
    ) -> Option<Target> {
        let free = |(id, queue): &(&EntityId, &mut Queue)| {
            !queue.waiting.is_empty() && queue.asking < source(id).map_or(AT_ONCE, places) && !paused(id)
        };
        let (_, queue) = self.0.iter_mut().filter(free).min_by_key(|(_, queue)| queue.asking)?;
        queue.asking += 1;
        queue.waiting.pop_front()
    }

    /// A question was answered.
    pub fn done(&mut self, source: &EntityId) {
        if let Some(queue) = self.0.get_mut(source) {
            queue.asking = queue.asking.saturating_sub(1);
        }
    }

    /// Takes out what waits for sources whose hosts are left alone for so long that nobody waits for them here: with that time.
    pub fn take_paused(&mut self, pause: impl Fn(&EntityId) -> Option<Duration>) -> Vec<Unsent> {
        let long = |id: &EntityId| pause(id).filter(|left| *left > LONG_PAUSE);
        let with = self.0.iter_mut().filter(|(_, queue)| !queue.waiting.is_empty());
        let paused = with.filter_map(|(id, queue)| Some((queue, long(id)?)));
        paused.flat_map(|(queue, left)| queue.waiting.drain(..).map(move |target| Unsent { target, left })).collect()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.0.values().map(|queue| queue.waiting.len()).sum()
    }
}
