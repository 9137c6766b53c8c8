//! How surprising a result is, aspect by aspect.

/// Keys and types rarer than this are unlike what was learned.
const UNLIKE: f64 = 0.1;

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
    Slow(f64),
}

/// How surprising an aspect of a result is, at its most surprising place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Surprise {
    /// The probability that a genuine result is at least so rare.
    pub(crate) rarity: f64,
    /// Where, in the list of observed values.
    pub(crate) place: u32,
    pub(crate) why: Cause,
}

/// The surprises of one result; an aspect that could not be judged has none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Surprises(pub(super) [Option<Surprise>; ASPECTS]);

impl Surprises {
    pub(crate) fn none() -> Self {
        Self([None; ASPECTS])
    }

    /// Whether keys or types are unlike what was learned.
    pub(crate) fn is_structural(&self) -> bool {
        self.get(Aspect::Structure).is_some_and(|surprise| surprise.rarity < UNLIKE)
    }

    pub(crate) fn get(&self, aspect: Aspect) -> Option<Surprise> {
        self.0[aspect as usize]
    }

    pub(super) fn judged(&mut self, aspect: Aspect) {
        self.0[aspect as usize].get_or_insert(Surprise { rarity: 1.0, place: 0, why: Cause::Nothing });
    }

    pub(super) fn add(&mut self, aspect: Aspect, rarity: f64, place: usize, why: Cause) {
        let slot = &mut self.0[aspect as usize];
        if slot.is_none_or(|before| rarity < before.rarity) {
            *slot = Some(Surprise { rarity, place: place as u32, why });
        }
    }
}

impl Surprise {
    /// In nats.
    pub(crate) fn nats(&self) -> f64 {
        -libm::log(self.rarity.clamp(1e-9, 1.0))
    }
}
