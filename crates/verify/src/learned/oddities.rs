//! What was odd in recent results, and how often: the door by which a change of the tool is believed (docs/adr/0024).
//!
//! An oddity is a place and a cause: `status` holds a value it never held, the result is a text. A doubtful result is not
//! learned, but its oddities are counted. One that comes again loses weight,
//!
//! ```text
//! relief = min(1, sightings · pace / NEEDED)      pace = clamp(rate / FULL_RATE, LEAST_PACE, 1)
//! ```
//!
//! where `rate` is the share of the results since its first sighting that showed it. Made-up results are odd in one way and then
//! in another; a new version of a tool is odd in the same way in every result. Nothing is relieved before its second sighting,
//! and that one is announced ([`ANNOUNCED`]).

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{
    observation::Observation,
    observe::{ValueKind, fold},
};
use crate::Origin;

/// Oddities told apart.
const MAX_ODDITIES: usize = 96;
/// Callers of an oddity told apart.
const MAX_CALLERS: usize = 8;
/// Sightings until an oddity says nothing any more, by who reports it.
const NEEDED: f32 = 10.0;
const NEEDED_UPSTREAM: f32 = 5.0;
/// Of a tool hardly known, fewer: one for each so many calls, but not less than [`NEEDED_YOUNG`].
const YOUNG: f32 = 15.0;
const NEEDED_YOUNG: f32 = 4.0;
/// From this share of the results on a sighting counts in full; below, in proportion, but not less than [`LEAST_PACE`].
const FULL_RATE: f32 = 0.2;
const LEAST_PACE: f32 = 0.3;
/// The sighting at which an oddity is announced, and from which on it is relieved and no longer blocks.
pub(crate) const ANNOUNCED: f32 = 2.0;
/// Calls within which what is announced, or believed, is one change.
const TOGETHER: u32 = 8;
/// What a sighting counts by a caller that showed it before.
const SAME_CALLER: f32 = 1.0 / 3.0;
/// What a word from outside counts.
const REJECTED: f32 = -40.0;
const CONFIRMED: f32 = 12.0;
/// What is left of a believed oddity for each result without it, and of any other over [`FORGETTING`] calls.
const FADING: f32 = 0.99;
const FORGETTING: u32 = 64;
const LEFT: f32 = 0.95;

/// Results blocked in a row after which the next is flagged at most.
pub(crate) const MAX_BLOCKED_RUN: u32 = 5;

/// Doubtful results that are learned on credit, and what a result beyond doubt makes good.
const CREDIT: f32 = 3.0;
const EARNED: f32 = 0.2;
/// Blocked results that are remembered to be known again.
const SIGHTINGS: usize = 16;
/// Values compared between two of them, and the share that must agree.
const COMPARED: usize = 128;
const AGREEMENT: f64 = 0.9;

/// Identifies a place and a cause.
pub(crate) type OddityKey = u32;

/// One place and cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Oddity {
    key: OddityKey,
    /// Below 0 where someone said that it was made up.
    sightings: f32,
    /// How many results showed it.
    count: u32,
    /// The call that showed it first, and last.
    first: u32,
    last: u32,
    callers: Vec<u32>,
    announced: bool,
    learned: bool,
    believed: bool,
}

/// One blocked result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Sighting {
    args: u64,
    session: u64,
    values: Box<[(u32, u32)]>,
}

impl Sighting {
    fn agrees(&self, other: &Self) -> bool {
        if self.args != other.args || self.session == other.session {
            return false;
        }
        let common = self.values.iter().filter(|value| other.values.binary_search(value).is_ok()).count();
        common as f64 >= AGREEMENT * self.values.len().max(other.values.len()) as f64
    }
}

/// The oddities of one model.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Oddities {
    list: Vec<Oddity>,
    /// Calls that could be learned.
    calls: u32,
    /// The calls at which something was announced, and believed, last.
    announced_at: u32,
    believed_at: u32,
    blocked_run: u32,
    /// Changes that were believed.
    changes: u32,
    /// Doubtful results that were learned, less what results beyond doubt made good.
    spent: f32,
    sightings: VecDeque<Sighting>,
}

impl Oddities {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// By what share an oddity weighs less for having been seen before: 0 (not at all) to 1.
    pub(crate) fn relief(&self, key: OddityKey, origin: Origin) -> f32 {
        let Some(oddity) = self.list.iter().find(|oddity| oddity.key == key) else { return 0.0 };
        if oddity.sightings < ANNOUNCED {
            return 0.0;
        }
        let needed = match origin {
            Origin::Reported => (self.calls as f32 / YOUNG).clamp(NEEDED_YOUNG, NEEDED),
            Origin::Upstream => NEEDED_UPSTREAM,
        };
        let pace = if oddity.believed {
            1.0
        } else {
            let rate = oddity.count as f32 / (self.calls.wrapping_sub(oddity.first) + 1) as f32;
            (rate / FULL_RATE).clamp(LEAST_PACE, 1.0)
        };
        (oddity.sightings * pace / needed).min(1.0)
    }

    /// Whether someone said that results with this oddity are made up, and it has not come often enough since.
    pub(crate) fn is_rejected(&self, key: OddityKey) -> bool {
        self.sightings(key) < 0.0
    }

    /// How often an oddity was seen.
    pub(crate) fn sightings(&self, key: OddityKey) -> f32 {
        self.list.iter().find(|oddity| oddity.key == key).map_or(0.0, |oddity| oddity.sightings)
    }

    /// One more call that could be learned.
    pub(crate) fn next_call(&mut self) {
        self.calls = self.calls.wrapping_add(1);
        if self.calls.is_multiple_of(FORGETTING) {
            self.list.iter_mut().filter(|oddity| !oddity.believed).for_each(|oddity| oddity.sightings *= LEFT);
            self.list.retain(|oddity| oddity.sightings.abs() >= 0.5);
        }
    }

    /// A result showed an oddity. `by` is who called; `alone` that the same caller cannot confirm itself.
    fn see(&mut self, key: OddityKey, by: u32, alone: bool) {
        let calls = self.calls;
        let at = match self.list.iter().position(|oddity| oddity.key == key) {
            Some(at) => at,
            None => {
                if self.list.len() >= MAX_ODDITIES {
                    let least = |a: &&Oddity, b: &&Oddity| (a.count, a.last).cmp(&(b.count, b.last));
                    let evicted = self.list.iter().min_by(least).map(|oddity| oddity.key);
                    self.list.retain(|oddity| Some(oddity.key) != evicted);
                }
                self.list.push(Oddity {
                    key,
                    sightings: 0.0,
                    count: 0,
                    first: calls,
                    last: calls,
                    callers: Vec::new(),
                    announced: false,
                    learned: false,
                    believed: false,
                });
                self.list.len() - 1
            }
        };
        let oddity = &mut self.list[at];
        let known = oddity.callers.contains(&by);
        oddity.sightings += if known && alone { SAME_CALLER } else { 1.0 };
        oddity.sightings = oddity.sightings.min(2.0 * NEEDED);
        oddity.count = oddity.count.saturating_add(1);
        oddity.last = calls;
        if !known && oddity.callers.len() < MAX_CALLERS {
            oddity.callers.push(by);
        }
    }

    /// A result showed these oddities, of which `strongest` weighs most; says how many showed one that is announced now. One
    /// change of a tool is odd in many places: others within [`TOGETHER`] calls of an announcement wait for the next sighting.
    pub(crate) fn see_all(
        &mut self,
        keys: &[OddityKey],
        strongest: Option<OddityKey>,
        by: u32,
        alone: bool,
    ) -> Option<u32> {
        keys.iter().for_each(|key| self.see(*key, by, alone));
        let soon = self.calls.wrapping_sub(self.announced_at) < TOGETHER && self.announced_at != 0;
        let mut most = None;
        for oddity in self.list.iter_mut().filter(|oddity| keys.contains(&oddity.key)) {
            if (!soon || Some(oddity.key) == strongest) && !oddity.announced && oddity.sightings >= ANNOUNCED {
                oddity.announced = true;
                most = most.max(Some(oddity.count));
            }
        }
        if most.is_some() {
            self.announced_at = self.calls;
        }
        most
    }

    /// A result with these oddities is believed; says how many results showed one that was not believed before.
    pub(crate) fn believe(&mut self, keys: &[OddityKey]) -> Option<u32> {
        let mut most = None;
        for oddity in self.list.iter_mut().filter(|oddity| keys.contains(&oddity.key)) {
            if !oddity.believed && oddity.sightings >= ANNOUNCED {
                oddity.believed = true;
                most = most.max(Some(oddity.count));
            }
        }
        if most.is_none() || (self.believed_at != 0 && self.calls.wrapping_sub(self.believed_at) < TOGETHER) {
            return None;
        }
        self.believed_at = self.calls;
        self.changes = self.changes.saturating_add(1);
        most
    }

    /// A doubtful result was learned for an oddity that was announced; says how many results showed it, once.
    pub(crate) fn take_in(&mut self, key: OddityKey) -> Option<u32> {
        let oddity = self.list.iter_mut().find(|oddity| oddity.key == key && oddity.announced && !oddity.learned)?;
        oddity.learned = true;
        self.changes = self.changes.saturating_add(1);
        Some(oddity.count)
    }

    /// Whether a change was ever believed.
    pub(crate) fn has_changed(&self) -> bool {
        self.changes > 0
    }

    /// A result without these oddities was believed: what was believed of others fades, for it is known by now.
    pub(crate) fn fade(&mut self, shown: &[OddityKey]) {
        if self.list.is_empty() {
            return;
        }
        for oddity in self.list.iter_mut().filter(|oddity| oddity.believed && !shown.contains(&oddity.key)) {
            oddity.sightings *= FADING;
        }
        self.list.retain(|oddity| !oddity.believed || oddity.sightings >= 0.5);
    }

    /// Someone says that results with these oddities are genuine, or that they are not.
    pub(crate) fn judged_by_hand(&mut self, keys: &[OddityKey], genuine: bool) {
        for key in keys {
            self.see(*key, 0, false);
            if let Some(oddity) = self.list.iter_mut().find(|oddity| oddity.key == *key) {
                oddity.sightings = if genuine { CONFIRMED } else { REJECTED };
                oddity.believed = genuine;
            }
        }
        if genuine {
            self.blocked_run = 0;
        }
    }

    /// The same, of a result that was not kept: it concerns whatever is odd and not believed yet.
    pub(crate) fn feedback(&mut self, genuine: bool) {
        let pending: Vec<OddityKey> = self
            .list
            .iter()
            .filter(|oddity| !oddity.believed && oddity.sightings >= 0.0)
            .map(|oddity| oddity.key)
            .collect();
        self.judged_by_hand(&pending, genuine);
        if !genuine {
            self.sightings.clear();
        }
    }

    /// Whether results were blocked for so long that blocking more would lock out a tool that has changed.
    pub(crate) fn is_locked_out(&self) -> bool {
        self.blocked_run >= MAX_BLOCKED_RUN
    }

    /// Counts results blocked in a row; says whether the next one will not be.
    pub(crate) fn count_run(&mut self, blocked: bool, accepted: bool) -> bool {
        if accepted {
            self.blocked_run = 0;
        } else if blocked {
            self.blocked_run += 1;
        }
        blocked && self.blocked_run == MAX_BLOCKED_RUN
    }

    /// A result beyond doubt: others may be doubted less.
    pub(crate) fn earn(&mut self) {
        self.spent = (self.spent - EARNED).max(0.0);
    }

    /// Takes the credit for learning one doubtful result, where there is some.
    pub(crate) fn spend(&mut self, cost: f32) -> bool {
        let has = self.spent + cost <= CREDIT;
        self.spent += if has { cost } else { 0.0 };
        has
    }

    /// Whether another session got this result, too, for the same arguments.
    pub(crate) fn corroborates(&mut self, observation: &Observation<'_>, session: u64) -> bool {
        let scalars =
            observation.seen.iter().filter(|seen| !matches!(seen.what, ValueKind::Array(_) | ValueKind::Object { .. }));
        let mut values: Vec<(u32, u32)> = scalars.map(|seen| (fold(seen.path), seen.digest())).collect();
        values.sort_unstable();
        values.truncate(COMPARED);
        let sighting = Sighting { args: observation.args_id.unwrap_or_default(), session, values: values.into() };
        if let Some(place) = self.sightings.iter().position(|earlier| earlier.agrees(&sighting)) {
            // One sighting confirms one other.
            self.sightings.remove(place);
            return true;
        }
        if self.sightings.len() >= SIGHTINGS {
            self.sightings.pop_front();
        }
        self.sightings.push_back(sighting);
        false
    }

    /// Bytes of memory beside the struct itself.
    pub(crate) fn bytes(&self) -> usize {
        let callers: usize = self.list.iter().map(|oddity| oddity.callers.capacity() * size_of::<u32>()).sum();
        let values: usize = self.sightings.iter().map(|sighting| size_of_val(&*sighting.values)).sum();
        self.list.capacity() * size_of::<Oddity>()
            + callers
            + self.sightings.capacity() * size_of::<Sighting>()
            + values
    }

    /// Whether what was read back can be what was written.
    pub(crate) fn is_sound(&self) -> bool {
        self.list.len() <= MAX_ODDITIES
            && self.sightings.len() <= SIGHTINGS
            && self.list.iter().all(|oddity| oddity.sightings.is_finite() && oddity.callers.len() <= MAX_CALLERS)
    }
}
