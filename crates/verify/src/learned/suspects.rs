//! What was blocked, in case it is the tool that has changed.
//!
//! A blocked result is not learned, with two exceptions (docs/adr/0005). Where another session got the same result for the
//! same arguments, it is learned like any other: made-up results do not agree. And a model of its own is made of results
//! blocked one after another; once it has seen enough of them, from more than one caller, and none of the old kind came in
//! between, it takes the old model's place.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{
    counts::Categories,
    model::Model,
    observation::Observation,
    observe::{ValueKind, fold},
};

/// Results blocked in a row after which a tool is taken to have changed.
const PROVEN: u32 = 40;
/// How many of them a word from outside is worth.
const WORD: u32 = 16;
/// This share of them must look the same from outside: a flood of all kinds of results is no new version.
const ALIKE: f32 = 0.75;
/// At most one in so many of them may be unlike the others.
const ODD: u32 = 4;
/// From so many callers (arguments and session) they must come.
const LEAST_CALLERS: usize = 2;

/// Doubtful results that are learned on credit, and what a result beyond doubt makes good.
const CREDIT: f32 = 3.0;
const EARNED: f32 = 0.2;
/// Blocked results that are remembered to be known again.
const SIGHTINGS: usize = 16;
/// Values compared between two of them, and the share that must agree.
const COMPARED: usize = 128;
const AGREEMENT: f64 = 0.9;

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

/// Results blocked in a row.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Suspects {
    model: Option<Box<Model>>,
    run: u32,
    vouched: u32,
    /// Those that the model of the others did not expect.
    odd: u32,
    /// What they look like from outside.
    outlines: Categories,
    callers: Vec<u64>,
    sightings: VecDeque<Sighting>,
    /// Doubtful results that were learned, less what results beyond doubt made good.
    spent: f32,
}

impl Suspects {
    /// A result that was believed: whatever was blocked before was not a change of the tool.
    pub(crate) fn refute(&mut self) {
        if self.run > 0 {
            let sightings = std::mem::take(&mut self.sightings);
            *self = Self { sightings, spent: self.spent, ..Self::default() };
        }
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

    /// Someone says that a blocked result was genuine, or that it was not.
    pub(crate) fn feedback(&mut self, genuine: bool) {
        if genuine {
            self.vouched = self.vouched.saturating_add(WORD);
        } else {
            *self = Self::default();
        }
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

    /// The model of what was blocked so far.
    pub(crate) fn model(&mut self) -> &mut Model {
        self.model.get_or_insert_default()
    }

    /// One more was blocked, and learned.
    pub(crate) fn add(&mut self, caller: u64, observation: &Observation<'_>, odd: bool) {
        self.run += 1;
        let _grown = self.outlines.learn(observation.outline(), self.run);
        self.odd += u32::from(odd);
        if self.callers.len() < LEAST_CALLERS && !self.callers.contains(&caller) {
            self.callers.push(caller);
        }
    }

    /// The model that takes the old one's place, once it has proved stable.
    pub(crate) fn proven(&mut self) -> Option<Model> {
        let stable = self.odd * ODD <= self.run && self.outlines.share_of_most() >= ALIKE;
        let enough = stable && self.run + self.vouched >= PROVEN && self.callers.len() >= LEAST_CALLERS;
        if !enough {
            return None;
        }
        let model = self.model.take();
        *self = Self::default();
        model.map(|model| *model)
    }

    /// Bytes of memory beside the struct itself.
    pub(crate) fn bytes(&self) -> usize {
        let model = self.model.as_ref().map_or(0, |model| size_of::<Model>() + model.bytes());
        let values: usize = self.sightings.iter().map(|sighting| size_of_val(&*sighting.values)).sum();
        model + self.sightings.capacity() * size_of::<Sighting>() + values + self.outlines.bytes()
    }

    pub(crate) fn recount(&mut self) {
        if let Some(model) = &mut self.model {
            model.recount();
        }
    }

    pub(crate) fn is_sound(&self) -> bool {
        self.model.as_ref().is_none_or(|model| model.is_sound())
    }
}
