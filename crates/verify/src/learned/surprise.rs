//! How surprising a result is, aspect by aspect.

use super::{
    answers::{Fact, FactKey},
    oddities::OddityKey,
};

/// What is less rare than this is not odd: it is not looked up among what was odd before.
pub(super) const ODD: f64 = 0.25;

/// What is judged separately, because each has its own rate of false alarms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aspect {
    /// Keys and types.
    Structure,
    /// How texts and numbers are built.
    Format,
    /// Values of a closed set.
    Value,
    /// Ranges of numbers and lengths.
    Range,
    /// Repeated arguments.
    Echo,
    /// Another result for the same arguments.
    Changed,
    /// The same result for other arguments.
    Borrowed,
    /// The time it took.
    Latency,
}

pub(crate) const ASPECTS: usize = 8;
pub(crate) const ASPECT_LIST: [Aspect; ASPECTS] = [
    Aspect::Structure,
    Aspect::Format,
    Aspect::Value,
    Aspect::Range,
    Aspect::Echo,
    Aspect::Changed,
    Aspect::Borrowed,
    Aspect::Latency,
];
/// What was surprising.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Cause {
    Nothing,
    Kind,
    Missing(u32),
    NewKey,
    Keys,
    Empty,
    Characters,
    Shape,
    NumberForm,
    Value,
    Number,
    Length,
    Echo,
    Changed,
    Borrowed,
    Fast(f64),
}

impl Cause {
    /// The cause as a number; `detail` tells causes at one place apart.
    pub(super) fn code(self) -> u64 {
        match self {
            Cause::Nothing => 0,
            Cause::Kind => 1,
            Cause::Missing(nth) => 2 | u64::from(nth) << 8,
            Cause::NewKey => 3,
            Cause::Keys => 4,
            Cause::Empty => 5,
            Cause::Characters => 6,
            Cause::Shape => 7,
            Cause::NumberForm => 8,
            Cause::Value => 9,
            Cause::Number => 10,
            Cause::Length => 11,
            Cause::Echo => 12,
            Cause::Changed => 13,
            Cause::Borrowed => 14,
            Cause::Fast(_) => 15,
        }
    }

    /// The aspect that it belongs to.
    pub(super) fn aspect(self) -> Aspect {
        match self {
            Cause::Nothing | Cause::Kind | Cause::Missing(_) | Cause::NewKey | Cause::Keys | Cause::Characters => {
                Aspect::Structure
            }
            Cause::Shape | Cause::NumberForm => Aspect::Format,
            Cause::Empty | Cause::Value => Aspect::Value,
            Cause::Number | Cause::Length => Aspect::Range,
            Cause::Echo => Aspect::Echo,
            Cause::Changed => Aspect::Changed,
            Cause::Borrowed => Aspect::Borrowed,
            Cause::Fast(_) => Aspect::Latency,
        }
    }

    /// How well it identifies what is at a place, best first: a value rather than its length, a new member rather than
    /// the set that it belongs to.
    pub(super) fn rank(self) -> u8 {
        match self {
            Cause::Kind => 0,
            Cause::NewKey => 1,
            Cause::Keys => 2,
            Cause::Missing(_) => 3,
            Cause::Value | Cause::Empty => 4,
            Cause::Characters => 5,
            Cause::Shape | Cause::NumberForm => 6,
            Cause::Number | Cause::Length => 7,
            Cause::Echo => 8,
            Cause::Changed | Cause::Borrowed => 9,
            Cause::Fast(_) | Cause::Nothing => 10,
        }
    }
}

/// How surprising an aspect of a result is, at its most surprising place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Surprise {
    /// The probability that a genuine result is at least so rare.
    pub(crate) rarity: f64,
    /// Where, in the list of observed values.
    pub(crate) place: u32,
    pub(crate) why: Cause,
    /// By what share it weighs less for having been seen before.
    pub(crate) relief: f32,
    /// What it is known by when it comes again; 0 where it is not odd.
    pub(crate) key: OddityKey,
    /// The same with the manner in which it is odd, where there are several.
    pub(crate) manner: OddityKey,
    /// Someone said that results with it are made up.
    pub(crate) rejected: bool,
    /// The rarity with the relief in it: what places are compared by.
    relieved: f64,
}

/// The surprises of one result; an aspect that could not be judged has none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Surprises(pub(super) [Option<Surprise>; ASPECTS]);

impl Surprises {
    pub(crate) fn none() -> Self {
        Self([None; ASPECTS])
    }

    pub(crate) fn get(&self, aspect: Aspect) -> Option<Surprise> {
        self.0[aspect as usize]
    }

    /// Whether anything in it weighs less for having been seen before.
    pub(crate) fn is_relieved(&self) -> bool {
        self.0.iter().flatten().any(|surprise| surprise.relief > 0.0)
    }
}

/// What is known of something odd.
pub(super) struct Oddness {
    pub(super) key: OddityKey,
    pub(super) fact: FactKey,
    /// Place, cause and manner.
    pub(super) manner: OddityKey,
    /// By what share it weighs less for having been seen before.
    pub(super) relief: f32,
    /// Someone said that it is genuine.
    pub(super) confirmed: bool,
}

/// Takes what a model finds surprising.
pub(super) trait Sink {
    /// An aspect could be judged.
    fn judged(&mut self, aspect: Aspect);
    /// What the value at `place` has is so rare; `relief` is asked where it is odd.
    fn add(&mut self, aspect: Aspect, rarity: f64, place: usize, why: Cause, odd: impl FnOnce() -> Oddness);
    /// What is so rare is odd in a second, more general way.
    fn note(&mut self, rarity: f64, odd: impl FnOnce() -> Oddness);
}

impl Sink for Surprises {
    fn judged(&mut self, aspect: Aspect) {
        let none = Surprise {
            rarity: 1.0,
            place: 0,
            why: Cause::Nothing,
            relief: 0.0,
            key: 0,
            manner: 0,
            rejected: false,
            relieved: 1.0,
        };
        self.0[aspect as usize].get_or_insert(none);
    }

    fn note(&mut self, _: f64, _: impl FnOnce() -> Oddness) {}

    fn add(&mut self, aspect: Aspect, rarity: f64, place: usize, why: Cause, odd: impl FnOnce() -> Oddness) {
        let slot = &mut self.0[aspect as usize];
        if slot.is_some_and(|before| rarity >= before.relieved) {
            return;
        }
        let (key, manner, relief) = if rarity < ODD {
            let known = odd();
            (known.key, known.manner, known.relief)
        } else {
            (0, 0, 0.0)
        };
        let relieved = if relief > 0.0 { libm::pow(rarity.max(1e-9), f64::from(1.0 - relief)) } else { rarity };
        if slot.is_none_or(|before| relieved < before.relieved) {
            *slot = Some(Surprise { rarity, place: place as u32, why, relief, key, manner, rejected: false, relieved });
        }
    }
}

impl Surprises {
    /// Someone said that results with what is at `place` are made up.
    pub(super) fn reject(&mut self, place: usize, why: Cause, key: OddityKey) {
        // That equal arguments gave it before says nothing for it any more.
        self.0[Aspect::Changed as usize] = None;
        self.0[Aspect::Borrowed as usize] = None;
        let rarity = REJECTED;
        let surprise = Surprise {
            rarity,
            place: place as u32,
            why,
            relief: 0.0,
            key,
            manner: key,
            rejected: true,
            relieved: rarity,
        };
        self.0[why.aspect() as usize] = Some(surprise);
    }
}

/// How rare what was rejected is among genuine results.
const REJECTED: f64 = 1e-4;

/// Everything odd in one result.
#[derive(Default)]
pub(crate) struct Odd {
    /// By place and cause, with what was found there.
    pub(crate) keys: Vec<(OddityKey, FactKey)>,
    pub(crate) facts: Vec<Fact>,
}

impl Sink for Odd {
    fn judged(&mut self, _: Aspect) {}

    fn note(&mut self, rarity: f64, odd: impl FnOnce() -> Oddness) {
        if rarity < ODD {
            let known = odd();
            self.count(&known);
        }
    }

    fn add(&mut self, aspect: Aspect, rarity: f64, place: usize, why: Cause, odd: impl FnOnce() -> Oddness) {
        if rarity < ODD {
            let known = odd();
            self.count(&known);
            if self.facts.len() < MAX_ODD {
                let Oddness { fact: key, manner, .. } = known;
                self.facts.push(Fact { key, manner, place: place as u32, rarity, aspect, rank: why.rank() });
            }
        }
    }
}

impl Odd {
    fn count(&mut self, known: &Oddness) {
        let counted = self.keys.iter().any(|(key, _)| *key == known.key);
        if !known.confirmed && !counted && self.keys.len() < MAX_ODD {
            self.keys.push((known.key, known.fact));
        }
    }
}

/// Oddities of one result that are counted.
const MAX_ODD: usize = 48;

impl Surprise {
    /// In nats.
    pub(crate) fn nats(&self) -> f64 {
        -libm::log(self.rarity.clamp(1e-9, 1.0))
    }
}
