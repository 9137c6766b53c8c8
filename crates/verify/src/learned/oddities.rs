//! What was odd in recent results, and how often: the door by which a change of the tool is believed (docs/adr/0024).
//!
//! An oddity is a place and a cause: `status` holds a value it never held, the result is a text. A doubtful result is not
//! learned, but its oddities are counted. One that comes again loses weight,
//!
//! ```text
//! relief = min(1, sightings · pace / NEEDED)      pace = clamp(rate / FULL_RATE, LEAST_PACE, 1)
//! ```
//!
//! where `rate` is the share of the results since its first sighting that showed it. Thirty sightings suffice at any rate, and ten
//! of what a guard reads from the server itself. Made-up results are odd in one way and then
//! in another; a new version of a tool is odd in the same way in every result. Nothing is relieved before its second sighting,
//! and that one is announced ([`ANNOUNCED`]), whatever was forgotten in between and whether or not the results were accepted. What goes
//! on without being believed is announced again after [`FORGETTING`] calls, and so is what was believed once and had stopped.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{
    answers::FactKey,
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
/// Up to this share of the results since it first came an oddity is rare.
const RARE: f32 = 0.03;
/// As many results that show a rare oddity suffice, however far they are apart, by who reports it; of what is reported, fewer than
/// [`RARE_FROM`] say nothing by themselves.
const NEEDED_RARE: f32 = 30.0;
const RARE_FROM: f32 = 15.0;
const NEEDED_RARE_UPSTREAM: f32 = 10.0;
/// Of a tool hardly known, fewer: one for each so many calls, but not less than [`NEEDED_YOUNG`].
const YOUNG: f32 = 15.0;
const NEEDED_YOUNG: f32 = 4.0;
/// From this share of the results on a sighting counts in full; below, in proportion, but not less than [`LEAST_PACE`].
const FULL_RATE: f32 = 0.2;
const LEAST_PACE: f32 = 0.2;
/// The sighting at which an oddity is announced, and from which on it is relieved and no longer blocks.
pub(crate) const ANNOUNCED: f32 = 2.0;
/// Calls within which what is announced, or believed, is one change.
const TOGETHER: u32 = 8;
/// What a sighting counts by a caller that showed it before.
const SAME_CALLER: f32 = 1.0 / 3.0;
/// Facts of an oddity told apart.
const MAX_FACTS: usize = 4;
/// What a word from outside counts.
const CONFIRMED: f32 = 12.0;
/// What is left of a believed oddity for each result without it, and of any other over [`FORGETTING`] calls.
const FADING: f32 = 0.99;
const FORGETTING: u32 = 64;
/// What was believed has stopped when it did not come for so many of its usual intervals.
const INTERVALS: u32 = 5;
/// Calls after which what goes on without being believed is announced again.
const GOES_ON: u32 = 32;
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
    sightings: f32,
    /// The same, with results that were accepted at once, each in full: it is remembered for as long as this is not forgotten.
    watched: f32,
    /// How many results showed it: what is announced goes by it.
    count: u32,
    /// The call that showed it first, and last.
    first: u32,
    last: u32,
    callers: Vec<u32>,
    /// What was found there, each time something else or the same.
    facts: Vec<FactKey>,
    /// The call at which it was announced last.
    announced: Option<u32>,
    learned: bool,
    believed: bool,
}

impl Oddity {
    /// Whether two results showed it.
    fn has_come_again(&self) -> bool {
        self.count as f32 >= ANNOUNCED
    }

    /// Whether it has stopped: it did not come for long, and what was believed at its own pace not for several times as long as it usually
    /// takes.
    fn has_stopped(&self, calls: u32) -> bool {
        let interval = self.last.wrapping_sub(self.first) / self.count.saturating_sub(1).max(1);
        let patience = if self.believed { FORGETTING.max(interval.saturating_mul(INTERVALS)) } else { FORGETTING };
        calls.wrapping_sub(self.last) >= patience
    }

    /// Whether it has come again and was not announced yet, or long ago, goes on, is not believed and is what weighs most.
    fn is_to_be_announced(&self, calls: u32, strongest: Option<OddityKey>) -> bool {
        let goes_on = |when: u32| Some(self.key) == strongest && !self.believed && calls.wrapping_sub(when) >= GOES_ON;
        self.has_come_again() && self.announced.is_none_or(goes_on)
    }
}

/// Who had a result with something odd in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sight {
    pub(crate) caller: u32,
    /// The same caller cannot confirm itself.
    pub(crate) alone: bool,
    /// The result was not accepted at once.
    pub(crate) doubted: bool,
}

/// An oddity that has come again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Announced {
    /// How many results showed it.
    pub(crate) sightings: u32,
    /// Whether two of them had the same there, or each something else.
    pub(crate) alike: bool,
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
        let rate = oddity.count as f32 / (self.calls.wrapping_sub(oddity.first) + 1) as f32;
        // What is rare and stays so is believed by how often it came, not by its share. Of a server itself nobody can space a lie out.
        let (from, rare) = match origin {
            Origin::Reported => (RARE_FROM, NEEDED_RARE),
            Origin::Upstream => (ANNOUNCED, NEEDED_RARE_UPSTREAM),
        };
        let is_rare = rate <= RARE && oddity.count as f32 >= from;
        let however_rare = if is_rare { (oddity.count as f32 / rare).min(1.0) } else { 0.0 };
        if oddity.sightings < ANNOUNCED {
            return however_rare;
        }
        let needed = match origin {
            Origin::Reported => (self.calls as f32 / YOUNG).clamp(NEEDED_YOUNG, NEEDED),
            Origin::Upstream => NEEDED_UPSTREAM,
        };
        let pace = if oddity.believed { 1.0 } else { (rate / FULL_RATE).clamp(LEAST_PACE, 1.0) };
        (oddity.sightings * pace / needed).min(1.0).max(however_rare)
    }

    /// How often an oddity was seen.
    pub(crate) fn sightings(&self, key: OddityKey) -> f32 {
        self.list.iter().find(|oddity| oddity.key == key).map_or(0.0, |oddity| oddity.sightings)
    }

    /// One more call that could be learned.
    pub(crate) fn next_call(&mut self) {
        self.calls = self.calls.wrapping_add(1);
        if self.calls.is_multiple_of(FORGETTING) {
            for oddity in self.list.iter_mut().filter(|oddity| !oddity.believed) {
                oddity.sightings *= LEFT;
                oddity.watched *= LEFT;
            }
            self.list.retain(|oddity| oddity.sightings.max(oddity.watched) >= 0.5);
        }
    }

    /// Whether an oddity was seen before.
    pub(crate) fn knows(&self, key: OddityKey) -> bool {
        self.list.iter().any(|oddity| oddity.key == key)
    }

    /// Whether two results or more showed an oddity.
    pub(crate) fn came_again(&self, key: OddityKey) -> bool {
        self.list.iter().any(|oddity| oddity.key == key && oddity.has_come_again())
    }

    /// Whether an oddity was announced.
    pub(crate) fn is_announced(&self, key: OddityKey) -> bool {
        self.list.iter().any(|oddity| oddity.key == key && oddity.announced.is_some())
    }

    /// Whether a fact was announced that is watched for.
    pub(crate) fn is_told(&self, fact: FactKey) -> bool {
        self.is_announced(watched(fact))
    }

    /// A result showed an oddity. `by` is who called: the same caller confirms itself only in part, and nobody does where the
    /// result was accepted at once.
    fn see(&mut self, (key, fact): (OddityKey, FactKey), by: Sight) {
        let calls = self.calls;
        let at = match self.list.iter().position(|oddity| oddity.key == key) {
            Some(at) => at,
            None => {
                if self.list.len() >= MAX_ODDITIES {
                    // What was only watched for goes first.
                    let rank = |oddity: &Oddity| (oddity.sightings > 0.0, oddity.count, oddity.last);
                    let least = |a: &&Oddity, b: &&Oddity| rank(a).cmp(&rank(b));
                    let evicted = self.list.iter().min_by(least).map(|oddity| oddity.key);
                    self.list.retain(|oddity| Some(oddity.key) != evicted);
                }
                self.list.push(Oddity {
                    key,
                    sightings: 0.0,
                    watched: 0.0,
                    count: 0,
                    first: calls,
                    last: calls,
                    callers: Vec::new(),
                    facts: Vec::new(),
                    announced: None,
                    learned: false,
                    believed: false,
                });
                self.list.len() - 1
            }
        };
        let oddity = &mut self.list[at];
        // What had stopped and comes again is announced anew, also where it was believed then.
        oddity.announced = oddity.announced.filter(|_| !oddity.has_stopped(calls));
        let (caller, alone, doubted) = (by.caller, by.alone, by.doubted);
        let known = oddity.callers.contains(&caller);
        if doubted {
            oddity.sightings += if known && alone { SAME_CALLER } else { 1.0 };
            oddity.sightings = oddity.sightings.min(2.0 * NEEDED);
        }
        oddity.watched = (oddity.watched + 1.0).min(2.0 * NEEDED);
        oddity.count = oddity.count.saturating_add(1);
        oddity.last = calls;
        if doubted && !known && oddity.callers.len() < MAX_CALLERS {
            oddity.callers.push(caller);
        }
        if oddity.facts.len() < MAX_FACTS && !oddity.facts.contains(&fact) {
            oddity.facts.push(fact);
        }
    }

    /// A result showed these oddities, of which `strongest` weighs most; says which is announced now. One
    /// change of a tool is odd in many places: others within [`TOGETHER`] calls of an announcement wait for the next sighting.
    pub(crate) fn see_all(
        &mut self,
        keys: &[(OddityKey, FactKey)],
        strongest: Option<OddityKey>,
        by: Sight,
    ) -> Option<Announced> {
        keys.iter().for_each(|key| self.see(*key, by));
        let soon = self.calls.wrapping_sub(self.announced_at) < TOGETHER && self.announced_at != 0;
        let mut announced: Option<Announced> = None;
        let calls = self.calls;
        for oddity in self.list.iter_mut().filter(|oddity| contains(keys, oddity.key)) {
            if (!soon || Some(oddity.key) == strongest) && oddity.is_to_be_announced(calls, strongest) {
                oddity.announced = Some(calls);
                let this = Announced { sightings: oddity.count, alike: oddity.facts.len() < oddity.count as usize };
                announced = Some(announced.map_or(this, |before| Announced {
                    sightings: before.sightings.max(this.sightings),
                    alike: before.alike || this.alike,
                }));
            }
        }
        if announced.is_some() {
            self.announced_at = calls;
            // One notice is about all of it.
            for oddity in self.list.iter_mut().filter(|oddity| contains(keys, oddity.key)) {
                oddity.announced = oddity.announced.map(|_| calls);
            }
        }
        announced
    }

    /// How many results showed it.
    pub(crate) fn count(&self, key: OddityKey) -> Option<u32> {
        self.list.iter().find(|oddity| oddity.key == key).map(|oddity| oddity.count)
    }

    /// A result shows something new, and is perhaps hardly doubted; says whether that is announced now, because the same fact came
    /// again, or another of the same cause. Both are counted apart from oddities: how soon those are believed does not depend on it.
    pub(crate) fn watch(&mut self, fact: FactKey, cause: OddityKey) -> Option<Announced> {
        let again = self.watch_for(fact).map(|sightings| Announced { sightings, alike: true });
        let alike = self.watch_for(cause ^ ANY_FACT).map(|sightings| Announced { sightings, alike: false });
        again.or(alike)
    }

    fn watch_for(&mut self, what: FactKey) -> Option<u32> {
        let key = watched(what);
        self.see((key, key), Sight { caller: 0, alone: false, doubted: false });
        let calls = self.calls;
        let again = |oddity: &&mut Oddity| oddity.key == key && oddity.announced.is_none() && oddity.has_come_again();
        let oddity = self.list.iter_mut().find(again)?;
        oddity.announced = Some(calls);
        Some(oddity.count)
    }

    /// A result with these oddities is believed; says how many results showed one that was not believed before: the `strongest`, which
    /// the words about it name, where it is one of them.
    pub(crate) fn believe(&mut self, keys: &[(OddityKey, FactKey)], strongest: Option<OddityKey>) -> Option<u32> {
        let mut most = None;
        for oddity in self.list.iter_mut().filter(|oddity| contains(keys, oddity.key)) {
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
        strongest.filter(|key| contains(keys, *key)).and_then(|key| self.count(key)).or(most)
    }

    /// A doubtful result was learned for an oddity that was announced; says how many results showed it, once.
    pub(crate) fn take_in(&mut self, key: OddityKey) -> Option<u32> {
        let oddity =
            self.list.iter_mut().find(|oddity| oddity.key == key && oddity.announced.is_some() && !oddity.learned)?;
        oddity.learned = true;
        self.changes = self.changes.saturating_add(1);
        Some(oddity.count)
    }

    /// Whether a change was ever believed.
    pub(crate) fn has_changed(&self) -> bool {
        self.changes > 0
    }

    /// A result without these oddities was believed: what was believed of others fades, for it is known by now.
    pub(crate) fn fade(&mut self, shown: &[(OddityKey, FactKey)]) {
        if self.list.is_empty() {
            return;
        }
        for oddity in self.list.iter_mut().filter(|oddity| oddity.believed && !contains(shown, oddity.key)) {
            oddity.sightings *= FADING;
        }
        let calls = self.calls;
        // What is rare is not known by being learned.
        let is_rare = |oddity: &Oddity| oddity.count as f32 >= NEEDED_RARE_UPSTREAM / 2.0 && !oddity.has_stopped(calls);
        self.list.retain(|oddity| !oddity.believed || oddity.sightings >= 0.5 || is_rare(oddity));
    }

    /// Someone says that a result with these oddities is made up: it counts for nothing.
    pub(crate) fn take_back(&mut self, keys: &[(OddityKey, FactKey)]) {
        for oddity in self.list.iter_mut().filter(|oddity| !oddity.believed && contains(keys, oddity.key)) {
            oddity.sightings = (oddity.sightings - 1.0).max(0.0);
            oddity.watched = (oddity.watched - 1.0).max(0.0);
            oddity.count = oddity.count.saturating_sub(1);
            oddity.announced = oddity.announced.filter(|_| oddity.has_come_again());
        }
        self.list.retain(|oddity| oddity.count > 0);
    }

    /// Someone says that a result is genuine.
    pub(crate) fn confirmed(&mut self) {
        self.blocked_run = 0;
    }

    /// The same, of a result that was not kept: it concerns whatever is odd and not believed yet.
    pub(crate) fn feedback(&mut self, genuine: bool) {
        if genuine {
            for oddity in self.list.iter_mut().filter(|oddity| !oddity.believed) {
                (oddity.sightings, oddity.believed) = (CONFIRMED, true);
            }
            self.blocked_run = 0;
        } else {
            self.list.retain(|oddity| oddity.believed);
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
        let callers: usize = self
            .list
            .iter()
            .map(|oddity| (oddity.callers.capacity() + oddity.facts.capacity()) * size_of::<u32>())
            .sum();
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
            && self
                .list
                .iter()
                .all(|oddity| (oddity.sightings + oddity.watched).is_finite() && oddity.callers.len() <= MAX_CALLERS)
    }
}

/// A fact as it is watched for.
fn watched(fact: FactKey) -> OddityKey {
    fact ^ WATCHED
}

/// Tells facts that are watched for from oddities.
const WATCHED: OddityKey = 0x0a7c_4ed0;
/// Tells a cause that is watched for, whatever is found, from a fact.
const ANY_FACT: OddityKey = 0x0a11_fac7;

fn contains(keys: &[(OddityKey, FactKey)], key: OddityKey) -> bool {
    keys.iter().any(|(known, _)| *known == key)
}
