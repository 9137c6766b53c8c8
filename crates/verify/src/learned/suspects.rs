//! What was blocked, in case it is the tool that has changed.
//!
//! A blocked result is not learned. But a model of its own is made of the results blocked one after another; once it has
//! seen enough of them, from more than one caller, and none of the old kind came in between, it takes the old model's place
//! (docs/adr/0005).

use serde::{Deserialize, Serialize};

use super::model::Model;

/// Results blocked in a row after which a tool is taken to have changed.
const PROVEN: u32 = 40;
/// How many of them a word from outside is worth.
const WORD: u32 = 16;
/// At most one in so many of them may be unlike the others.
const ODD: u32 = 4;
/// From so many callers (arguments and session) they must come.
const LEAST_CALLERS: usize = 2;

/// Results blocked in a row.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Suspects {
    model: Option<Box<Model>>,
    run: u32,
    vouched: u32,
    /// Those that the model of the others did not expect.
    odd: u32,
    callers: Vec<u64>,
}

impl Suspects {
    /// A result that was believed: whatever was blocked before was not a change of the tool.
    pub(crate) fn refute(&mut self) {
        if self.run > 0 {
            *self = Self::default();
        }
    }

    /// Someone says that a blocked result was genuine, or that it was not.
    pub(crate) fn word(&mut self, genuine: bool) {
        if genuine {
            self.vouched = self.vouched.saturating_add(WORD);
        } else {
            *self = Self::default();
        }
    }

    /// The model of what was blocked so far.
    pub(crate) fn model(&mut self) -> &mut Model {
        self.model.get_or_insert_default()
    }

    /// One more was blocked, and learned.
    pub(crate) fn add(&mut self, caller: u64, odd: bool) {
        self.run += 1;
        self.odd += u32::from(odd);
        if self.callers.len() < LEAST_CALLERS && !self.callers.contains(&caller) {
            self.callers.push(caller);
        }
    }

    /// The model that takes the old one's place, once it has proved stable.
    pub(crate) fn proven(&mut self) -> Option<Model> {
        let stable = self.odd * ODD <= self.run;
        let enough = stable && self.run + self.vouched >= PROVEN && self.callers.len() >= LEAST_CALLERS;
        if !enough {
            return None;
        }
        let model = self.model.take();
        *self = Self::default();
        model.map(|model| *model)
    }

    pub(crate) fn is_sound(&self) -> bool {
        self.model.as_ref().is_none_or(|model| model.is_sound())
    }
}
