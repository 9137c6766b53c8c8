//! What people answered: facts that were rejected or confirmed (docs/adr/0025).
//!
//! A fact is a place, a cause and what was found there: `status` has the value `lost`, `items[]` has the new member `tax`, the result
//! is a text. A rejection is about the facts that made a result odd, as they were when it was judged. A result that
//! shows one of them again is doubted, whatever was learned meanwhile, until it came [`REJECTED`] times. A confirmation is about all
//! facts that are odd in a result; they are not odd any more.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{
    observe::{fold, mix},
    oddities::OddityKey,
    surprise::{Aspect, Cause},
};
use crate::fields::PathId;

/// Identifies a place, a cause and what was found.
pub(crate) type FactKey = u32;

/// Repeats of a rejected fact after which it is like any other: no answer locks a tool out for good.
const REJECTED: u32 = 40;
/// Facts of either answer that are remembered.
const MAX_ANSWERS: usize = 64;
/// Doubtful results of which is remembered what was odd in them.
const MAX_DOUBTED: usize = 32;
/// Facts that a doubtful result is known again by.
const MAX_FACTS: usize = 6;
/// Facts up to this much less rare than the rarest count as what was odd.
const ABOUT_AS_RARE: f64 = 1.5;
/// A posterior that is given back is the one of a result, up to what its way through JSON costs.
const SAME_POSTERIOR: f64 = 1e-6;

/// The key of a fact.
pub(crate) fn fact(path: PathId, why: Cause, what: u32) -> FactKey {
    fold(mix(path ^ FACT, why.code() | u64::from(what) << 32))
}

/// Tells facts from oddities.
const FACT: u64 = 0xfac7_0000_0000;

/// One fact of a result, and how rare it was.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fact {
    pub(crate) key: FactKey,
    /// The place, the cause and its manner, whatever was found.
    pub(crate) manner: OddityKey,
    pub(crate) place: u32,
    pub(crate) rarity: f64,
    pub(crate) aspect: Aspect,
    /// How well it identifies what is at the place, best first.
    pub(crate) rank: u8,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Rejection {
    key: FactKey,
    /// How often it came since.
    repeats: u32,
    /// Paths that were known when it was rejected.
    paths: u32,
}

/// A doubtful result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Doubted {
    result: u64,
    args: u64,
    posterior: f64,
    facts: Box<[FactKey]>,
}

/// The answers about one tool.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answers {
    rejected: Vec<Rejection>,
    confirmed: VecDeque<FactKey>,
    doubted: VecDeque<Doubted>,
}

impl Answers {
    pub(crate) fn has_rejections(&self) -> bool {
        !self.rejected.is_empty()
    }

    pub(crate) fn is_rejected(&self, key: FactKey) -> bool {
        self.rejected.iter().any(|rejection| rejection.key == key)
    }

    /// How many paths were known when a fact was rejected, where it was.
    pub(crate) fn rejected_when(&self, key: FactKey) -> Option<u32> {
        self.rejected.iter().find(|rejection| rejection.key == key).map(|rejection| rejection.paths)
    }

    pub(crate) fn is_confirmed(&self, key: FactKey) -> bool {
        !self.confirmed.is_empty() && self.confirmed.contains(&key)
    }

    /// Remembers what was odd in a doubtful result; `strongest` is the aspect that weighed most.
    pub(crate) fn doubt(
        &mut self,
        (result, args): (u64, u64),
        posterior: f64,
        (facts, strongest): (&[Fact], Option<Aspect>),
    ) {
        self.doubted.retain(|doubted| (doubted.result, doubted.args) != (result, args));
        if self.doubted.len() >= MAX_DOUBTED {
            self.doubted.pop_front();
        }
        self.doubted.push_back(Doubted { result, args, posterior, facts: identifying(facts, strongest).into() });
    }

    /// A result is made up: it is known again by what was odd in it when it was judged. `now` is what is odd in it today, `whole` the
    /// fact that these arguments gave this result: where nothing was odd, only the very same is rejected. `paths` are known by now.
    pub(crate) fn reject(
        &mut self,
        (result, args): (u64, u64),
        (now, strongest): (&[Fact], Option<Aspect>),
        (whole, paths): (FactKey, u32),
    ) {
        let doubted = self.doubted.iter().find(|doubted| (doubted.result, doubted.args) == (result, args));
        let then = doubted.map(|doubted| doubted.facts.to_vec()).filter(|facts| !facts.is_empty());
        let facts = then.unwrap_or_else(|| identifying(now, strongest));
        self.reject_all(if facts.is_empty() { std::slice::from_ref(&whole) } else { &facts }, paths);
    }

    /// The result that got this posterior is made up.
    pub(crate) fn reject_by_posterior(&mut self, posterior: f64, paths: u32) {
        let same = |doubted: &&Doubted| (doubted.posterior - posterior).abs() < SAME_POSTERIOR;
        let facts = self.doubted.iter().rev().find(same).map(|doubted| doubted.facts.to_vec());
        self.reject_all(&facts.unwrap_or_default(), paths);
    }

    fn reject_all(&mut self, facts: &[FactKey], paths: u32) {
        self.confirmed.retain(|key| !facts.contains(key));
        self.rejected.retain(|rejection| !facts.contains(&rejection.key));
        self.rejected.extend(facts.iter().map(|key| Rejection { key: *key, repeats: 0, paths }));
        let surplus = self.rejected.len().saturating_sub(MAX_ANSWERS);
        self.rejected.drain(..surplus);
    }

    /// A result is genuine, and so are its facts.
    pub(crate) fn confirm(&mut self, facts: &[Fact]) {
        facts.iter().for_each(|fact| self.confirm_key(fact.key));
    }

    /// A fact that no model knows of, such as a part of a declared schema that is broken, is genuine.
    pub(crate) fn confirm_key(&mut self, key: FactKey) {
        self.withdraw(key);
        if !self.confirmed.contains(&key) {
            self.confirmed.push_back(key);
        }
        let surplus = self.confirmed.len().saturating_sub(MAX_ANSWERS);
        self.confirmed.drain(..surplus);
    }

    /// It is made up.
    pub(crate) fn reject_key(&mut self, key: FactKey, paths: u32) {
        self.reject_all(&[key], paths);
    }

    /// Takes a rejection back.
    pub(crate) fn withdraw(&mut self, key: FactKey) {
        self.rejected.retain(|rejection| rejection.key != key);
    }

    /// A rejected fact came again. Says how often it did, where that is to be told: the first time, and when it came so often that
    /// it is like any other from now on.
    pub(crate) fn repeated(&mut self, key: FactKey) -> Option<u32> {
        let rejection = self.rejected.iter_mut().find(|rejection| rejection.key == key)?;
        rejection.repeats += 1;
        let repeats = rejection.repeats;
        if repeats >= REJECTED {
            self.withdraw(key);
        }
        (repeats == 1 || repeats >= REJECTED).then_some(repeats)
    }

    /// Bytes of memory beside the struct itself.
    pub(crate) fn bytes(&self) -> usize {
        let facts: usize = self.doubted.iter().map(|doubted| size_of_val(&*doubted.facts)).sum();
        self.rejected.capacity() * size_of::<Rejection>()
            + self.confirmed.capacity() * size_of::<FactKey>()
            + self.doubted.capacity() * size_of::<Doubted>()
            + facts
    }

    /// Whether what was read back can be what was written.
    pub(crate) fn is_sound(&self) -> bool {
        self.rejected.len() <= MAX_ANSWERS
            && self.confirmed.len() <= MAX_ANSWERS
            && self.doubted.len() <= MAX_DOUBTED
            && self.doubted.iter().all(|doubted| doubted.facts.len() <= MAX_FACTS && doubted.posterior.is_finite())
    }
}

/// The facts that a result is known again by: where the aspect that weighed most was rarest, what identifies best what is there. A genuine
/// value that is merely seldom, beside one that is made up, is not among them.
fn identifying(facts: &[Fact], strongest: Option<Aspect>) -> Vec<FactKey> {
    let weighed = |fact: &&Fact| strongest.is_none_or(|aspect| fact.aspect == aspect);
    let rarest = facts.iter().filter(weighed).map(|fact| fact.rarity).fold(f64::INFINITY, f64::min);
    let places: Vec<u32> = facts
        .iter()
        .filter(weighed)
        .filter(|fact| fact.rarity <= ABOUT_AS_RARE * rarest)
        .map(|fact| fact.place)
        .collect();
    let best = |fact: &&Fact| !facts.iter().any(|other| other.place == fact.place && other.rank < fact.rank);
    let mut keys = Vec::new();
    for fact in facts.iter().filter(|fact| places.contains(&fact.place)).filter(best) {
        if !keys.contains(&fact.key) && keys.len() < MAX_FACTS {
            keys.push(fact.key);
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn odd(key: FactKey, place: u32, rarity: f64, rank: u8) -> Fact {
        let aspect = if key == 3 { Aspect::Format } else { Aspect::Value };
        Fact { key, manner: key, place, rarity, aspect, rank }
    }

    #[test]
    fn a_result_is_known_again_by_what_was_oddest_in_it() {
        let facts = [odd(1, 3, 0.002, 3), odd(2, 3, 0.001, 5), odd(3, 4, 0.0005, 0), odd(4, 5, 0.0025, 1)];
        assert_eq!(identifying(&facts, Some(Aspect::Value)), [1], "the best of the place whose values were rarest");
        assert_eq!(identifying(&facts, None), [3], "where nothing learned weighed most, the rarest");
    }

    #[test]
    fn the_last_answer_about_a_fact_holds_and_others_stay() {
        let mut answers = Answers::default();
        answers.reject((7, 0), (&[odd(1, 0, 0.01, 0), odd(2, 1, 0.01, 0)], None), (9, 0));
        answers.confirm(&[odd(1, 0, 0.01, 0)]);
        assert!(!answers.is_rejected(1) && answers.is_confirmed(1) && answers.is_rejected(2));
        answers.reject((8, 0), (&[odd(1, 0, 0.01, 0)], None), (9, 0));
        assert!(answers.is_rejected(1) && !answers.is_confirmed(1));
    }

    #[test]
    fn a_rejection_is_about_what_was_odd_at_the_time() {
        let mut answers = Answers::default();
        answers.doubt((7, 1), 0.625, (&[odd(1, 0, 0.01, 0)], None));
        answers.doubt((8, 1), 0.875, (&[odd(2, 0, 0.01, 0)], None));
        answers.reject((7, 1), (&[odd(3, 0, 0.01, 0)], None), (9, 0));
        assert!(answers.is_rejected(1) && !answers.is_rejected(3));
        answers.reject_by_posterior(0.875, 0);
        assert!(answers.is_rejected(2));
    }

    #[test]
    fn no_rejection_lasts_for_ever() {
        let mut answers = Answers::default();
        answers.reject((7, 0), (&[odd(1, 0, 0.01, 0)], None), (9, 0));
        let told: Vec<u32> = (0..REJECTED).filter_map(|_| answers.repeated(1)).collect();
        assert_eq!((told, answers.is_rejected(1)), (vec![1, REJECTED], false));
    }
}
