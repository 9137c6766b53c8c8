//! Questions that wait for a place, by source. A source that is asked slowly has few places, so that its questions do not hold up those
//! of others: [`places`] is what it can use in [`SECONDS`], and no more than [`HELD`] times that is claimed for it. The rest is due again
//! when the source can be expected to get to it.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use credence_ingest::Source;
use credence_protocol::EntityId;

use super::{AT_ONCE, Target, ask::Paused};

/// How long requests of a source may queue for its rate.
const SECONDS: usize = 8;
/// The fewest places of a source.
const FEWEST: usize = 4;
/// Questions claimed for each place.
const HELD: usize = 4;
/// When a question to the agents' own hosts is due again: each host has a rate of its own.
const OWN_HOST_WAIT: Duration = Duration::from_secs(5);
/// The shortest time that a question is held.
const SHORTEST_HOLD: Duration = Duration::from_millis(50);

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
pub(super) struct Waiting {
    queues: BTreeMap<EntityId, Queue>,
    /// Questions whose hosts asked for a pause, with its end.
    held: Vec<(Instant, Target)>,
}

impl Waiting {
    /// Takes a question in.
    pub fn push(&mut self, target: Target) {
        self.queues.entry(target.source.clone()).or_default().waiting.push_back(target);
    }

    /// Takes a claimed question in; or says in what time it is due again.
    pub fn claim(&mut self, target: Target, source: Option<&Source>) -> Result<(), (Target, Duration)> {
        let queue = self.queues.entry(target.source.clone()).or_default();
        let Some(source) = source.filter(|one| queue.asking + queue.waiting.len() >= HELD * places(one)) else {
            queue.waiting.push_back(target);
            return Ok(());
        };
        queue.put_off += 1;
        let rate = f64::from(source.limits.rate.per_second.get());
        let held = (HELD * places(source)) as f64;
        let turn = || Duration::from_secs_f64((held + f64::from(queue.put_off)) / rate);
        Err((target, source.host().map_or(OWN_HOST_WAIT, |_| turn())))
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
        let (_, queue) = self.queues.iter_mut().filter(free).min_by_key(|(_, queue)| queue.asking)?;
        queue.asking += 1;
        queue.waiting.pop_front()
    }

    /// A question was answered.
    pub fn done(&mut self, source: &EntityId) {
        if let Some(queue) = self.queues.get_mut(source) {
            queue.asking = queue.asking.saturating_sub(1);
        }
    }

    /// Keeps a question until a pause of its host is over.
    pub fn hold(&mut self, target: Target, left: Duration) {
        self.held.push((Instant::now() + left.max(SHORTEST_HOLD), target));
    }

    /// Has questions wait for their turn again whose pauses are over.
    pub fn release(&mut self) {
        let now = Instant::now();
        let over: Vec<_> = self.held.extract_if(.., |(until, _)| *until <= now).collect();
        over.into_iter().for_each(|(_, target)| self.push(target));
    }

    /// Takes out what waits for sources for which `pause` gives one.
    pub fn take_paused(&mut self, pause: impl Fn(&EntityId) -> Option<Duration>) -> Vec<Paused> {
        let with = self.queues.iter_mut().filter(|(_, queue)| !queue.waiting.is_empty());
        let paused = with.filter_map(|(id, queue)| Some((queue, pause(id)?)));
        let taken =
            |(queue, left): (&mut Queue, Duration)| queue.waiting.drain(..).map(move |target| (target, left)).collect();
        let taken: Vec<Vec<(Target, Duration)>> = paused.map(taken).collect();
        taken.into_iter().flatten().map(|(target, left)| Paused { target, left, otherwise: None }).collect()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.held.len() + self.queues.values().map(|queue| queue.waiting.len()).sum::<usize>()
    }
}
