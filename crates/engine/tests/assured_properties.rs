//! Laws of the assured score, each searched with [`CASES`] agents. The bounds are those that `docs/attacks.md` states.
#![allow(clippy::unwrap_used, reason = "helpers of tests: a failing unwrap is how a test says no")]

use credence_engine::assured::{Dimension, Measurement, Model, Numbers, Scale, Scratch};
use proptest::{collection::vec, prelude::*, sample::select};

/// Cases of each search.
const CASES: u32 = 50_000;
/// Points that raising a value may take off the estimate, and off the score, through disagreement.
const RAISED_VALUE: (f64, f64) = (0.2, 0.3);
/// Points that one more source, which says the mean of its dimension, may take off the lower bound.
const ONE_MORE_SOURCE: f64 = 3.0;
/// The weight of a source that next to nothing is thought of.
const TINY: f64 = 0.000001;
/// Points that it moves the lower bound by, beside sources of weight 0.01 or more.
const TINY_MOVES: f64 = 0.0002;
/// What the cap of a source of tiny weight leaves at least.
const LEAST_CAP_OF_NOTHING: f64 = 91.0;
/// Points that waiting lifts the score of a rated agent, and the score that an agent without signals left has at most.
const WAITING: (f64, f64) = (7.0, 13.0);

fn model() -> &'static Model {
    Model::standard().unwrap()
}

fn numbers(signals: &[Measurement]) -> Numbers {
    model().numbers(signals, &mut Scratch::default()).unwrap()
}

/// The score before rounding.
fn exact(numbers: &Numbers) -> f64 {
    numbers.low.min(numbers.cap)
}

fn tags() -> Vec<&'static str> {
    model().parameters().tags.keys().map(String::as_str).collect()
}

fn number(least: f64, most: f64, edges: &'static [f64]) -> impl Strategy<Value = f64> {
    prop_oneof![2 => least..most, 1 => select(edges)]
}

fn signal() -> impl Strategy<Value = Measurement> {
    let weight = prop_oneof![2 => Just(1.0), 2 => 0.000001..1.0_f64, 1 => 1.0..1000.0_f64, 1 => 0.000001..0.1_f64];
    let age = prop_oneof![2 => Just(0.0), 2 => 0.0..60.0_f64, 1 => 0.0..2000.0_f64];
    let all =
        (select(tags()), 0_u32..8, number(0.0, 100.0, &[0.0, 100.0]), number(0.0, 50.0, &[0.0, 3.0]), weight, age);
    all.prop_map(|(tag, voice, value, stddev, weight, age_days)| Measurement {
        tag: model().tag(tag).unwrap(),
        voice,
        value,
        stddev,
        weight,
        age_days,
    })
}

/// An agent: around one merit, or at random.
fn agent() -> impl Strategy<Value = Vec<Measurement>> {
    (vec(signal(), 1..26), 0.0..100.0_f64, any::<bool>()).prop_map(|(mut signals, merit, alike)| {
        if alike {
            signals.iter_mut().for_each(|signal| signal.value = 0.8 * merit + 0.2 * signal.value);
        }
        signals
    })
}

/// A source of numbers for the search: SplitMix64, the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0..1
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn tag(&mut self, tags: &[&'static str]) -> &'static str {
        tags[self.below(tags.len())]
    }

    /// An agent as the strategy above makes it.
    fn agent(&mut self, tags: &[&'static str]) -> Vec<Measurement> {
        let (merit, alike) = (self.unit() * 100.0, self.below(2) == 0);
        (0..1 + self.below(25))
            .map(|_| {
                let value = [self.unit() * 100.0, self.unit() * 100.0, 0.0, 100.0][self.below(4)];
                Measurement {
                    tag: model().tag(self.tag(tags)).unwrap(),
                    voice: self.below(8) as u32,
                    value: if alike { 0.8 * merit + 0.2 * value } else { value },
                    stddev: [self.unit() * 50.0, 3.0, 0.0][self.below(3)],
                    weight: [1.0, 1.0, 0.000001 + 0.999 * self.unit(), 0.000001 + 0.1 * self.unit(), 1000.0]
                        [self.below(5)],
                    age_days: [0.0, 0.0, self.unit() * 60.0, self.unit() * 2000.0][self.below(4)],
                }
            })
            .collect()
    }
}

/// A law: what must hold of an agent, and of a change that it takes from the numbers.
type Law = fn(&[Measurement], &mut Random) -> Result<(), TestCaseError>;

/// Holds a law to [`CASES`] agents.
fn search(law: Law) {
    let tags = tags();
    for case in 0..u64::from(CASES) {
        let mut random = Random(case);
        let agent = random.agent(&tags);
        if let Err(error) = law(&agent, &mut random) {
            panic!("case {case}: {error}\n{agent:#?}");
        }
    }
}

fn numbers_are_within_their_bounds(signals: &[Measurement], _: &mut Random) -> Result<(), TestCaseError> {
    let mut scratch = Scratch::default();
    let n = model().numbers(signals, &mut scratch).unwrap();
    prop_assert!(n.score <= 100 && (0.0..=1.0).contains(&n.known) && n.sd > 0.0 && n.sd <= 25.0);
    prop_assert!(0.0 <= n.low && n.low <= n.high && n.high <= 100.0 && (0.0..=100.0).contains(&n.cap));
    prop_assert!((0.0..=100.0).contains(&n.estimate) && (0.0..=8.000001).contains(&n.n_eff));
    for d in n.dimensions.iter().flatten() {
        prop_assert!(d.known > 0.0 && d.known < 1.0 && d.sd > 0.0 && d.sd <= 25.0 && d.n_eff >= 0.999999, "{:?}", d);
    }
    let assured = model().assured(&n, model().fragility(&n, &mut scratch), Vec::new());
    prop_assert_eq!(assured.steps.iter().fold(0.0, |sum, step| sum + step.value), f64::from(n.score));
    Ok(())
}

fn fragility_is_the_largest_change_without_one_voice(
    signals: &[Measurement],
    _: &mut Random,
) -> Result<(), TestCaseError> {
    let mut scratch = Scratch::default();
    let whole = model().numbers(signals, &mut scratch).unwrap();
    let fragility = model().fragility(&whole, &mut scratch);
    let without = (0..8).map(|voice| {
        let rest: Vec<_> = signals.iter().copied().filter(|s| s.voice != voice).collect();
        numbers(&rest).score.abs_diff(whole.score)
    });
    prop_assert_eq!(Some(fragility), without.max());
    Ok(())
}

fn raising_a_value_hardly_lowers_anything(signals: &[Measurement], random: &mut Random) -> Result<(), TestCaseError> {
    let mut raised = signals.to_vec();
    let signal = &mut raised[random.below(signals.len())];
    signal.value += (100.0 - signal.value) * random.unit();
    let (before, after) = (numbers(signals), numbers(&raised));
    prop_assert!(after.estimate >= before.estimate - RAISED_VALUE.0, "{} {}", before.estimate, after.estimate);
    prop_assert!(exact(&after) >= exact(&before) - RAISED_VALUE.1, "{} {}", exact(&before), exact(&after));
    Ok(())
}

/// Under a tag that nobody measured, of a dimension that somebody did: there the new source says what is believed.
fn one_more_source_that_agrees_hardly_lowers_the_bound(
    signals: &[Measurement],
    random: &mut Random,
) -> Result<(), TestCaseError> {
    let tag = random.tag(&tags());
    let parameters = model().parameters().tags[tag];
    let slot = model().tag(tag).unwrap();
    let signals: Vec<_> = signals.iter().copied().filter(|s| s.tag != slot).collect();
    let before = numbers(&signals);
    let Some(dimension) = before.dimensions[parameters.dimension as usize] else { return Ok(()) };
    let value = match parameters.scale {
        Scale::Plain => dimension.mean.min(100.0),
        Scale::FourthRoot => 100.0 * (dimension.mean / 100.0).powi(4).min(1.0),
    };
    let weight = if random.below(2) == 0 { 1.0 } else { 0.000001 + 0.99 * random.unit() };
    let mut more = signals;
    more.push(Measurement { tag: slot, voice: 8, value, stddev: 0.0, weight, age_days: 0.0 });
    let after = numbers(&more);
    prop_assert!(after.low >= before.low - ONE_MORE_SOURCE, "{} {}", before.low, after.low);
    Ok(())
}

fn a_source_of_tiny_weight_moves_next_to_nothing(
    signals: &[Measurement],
    random: &mut Random,
) -> Result<(), TestCaseError> {
    // Tiny beside what is there: sources of some weight, none of them about to expire.
    let there = |s: &Measurement| Measurement { weight: s.weight.max(0.01), age_days: s.age_days % 30.0, ..*s };
    let signals: Vec<_> = signals.iter().map(there).collect();
    let slot = model().tag(random.tag(&tags())).unwrap();
    let mut more = signals.clone();
    let value = [0.0, 100.0, random.unit() * 100.0][random.below(3)];
    more.push(Measurement { tag: slot, voice: 8, value, stddev: 0.0, weight: TINY, age_days: 0.0 });
    let (before, after) = (numbers(&signals), numbers(&more));
    prop_assert!((after.low - before.low).abs() <= TINY_MOVES, "{} {}", before.low, after.low);
    prop_assert!(after.cap >= before.cap.min(LEAST_CAP_OF_NOTHING) - TINY_MOVES, "{} {}", before.cap, after.cap);
    Ok(())
}

fn waiting_hardly_lifts_a_score(signals: &[Measurement], random: &mut Random) -> Result<(), TestCaseError> {
    let days = random.unit() * [10.0, 200.0, 4000.0][random.below(3)];
    let later: Vec<_> = signals.iter().map(|s| Measurement { age_days: s.age_days + days, ..*s }).collect();
    let (before, after) = (numbers(signals), numbers(&later));
    if after.rated {
        prop_assert!(exact(&after) <= exact(&before) + WAITING.0, "{} {}", exact(&before), exact(&after));
    } else {
        prop_assert!(exact(&after) <= WAITING.1, "{}", exact(&after));
    }
    prop_assert!(after.cap == before.cap, "a hole in security does not age");
    Ok(())
}

fn missing_evidence_only_widens(signals: &[Measurement], random: &mut Random) -> Result<(), TestCaseError> {
    let dimension = Dimension::ALL[random.below(Dimension::ALL.len())];
    let of_it = |s: &Measurement| model().dimension_of(model().tag_name(s.tag)) == Some(dimension);
    let rest: Vec<_> = signals.iter().copied().filter(|s| !of_it(s)).collect();
    let (with, without) = (numbers(signals), numbers(&rest));
    prop_assert!(without.sd >= with.sd - 1e-9 && without.known <= with.known + 1e-12, "{} {}", with.sd, without.sd);
    Ok(())
}

fn the_order_of_signals_and_a_voice_of_weight_0_change_nothing(
    signals: &[Measurement],
    _: &mut Random,
) -> Result<(), TestCaseError> {
    let mut turned = signals.to_vec();
    turned.reverse();
    turned.push(Measurement { weight: 0.0, voice: 9, ..signals[0] });
    let (a, b) = (numbers(signals), numbers(&turned));
    prop_assert!(
        (a.estimate - b.estimate).abs() < 1e-9 && (a.low - b.low).abs() < 1e-9 && (a.cap - b.cap).abs() < 1e-9
    );
    Ok(())
}

/// Each law twice: by proptest, which shrinks what breaks it, and by a search.
macro_rules! laws {
    ($($law:ident),* $(,)?) => {
        mod by_proptest {
            use super::*;
            proptest! {
                #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
                $(#[test]
                fn $law(signals in agent(), seed in any::<u64>()) {
                    super::$law(&signals, &mut Random(seed))?;
                })*
            }
        }
        mod by_search {
            $(#[test]
            fn $law() {
                super::search(super::$law);
            })*
        }
    };
}

laws!(
    numbers_are_within_their_bounds,
    fragility_is_the_largest_change_without_one_voice,
    raising_a_value_hardly_lowers_anything,
    one_more_source_that_agrees_hardly_lowers_the_bound,
    a_source_of_tiny_weight_moves_next_to_nothing,
    waiting_hardly_lifts_a_score,
    missing_evidence_only_widens,
    the_order_of_signals_and_a_voice_of_weight_0_change_nothing,
);

#[test]
fn the_bounds_are_those_of_the_document() {
    let text = std::fs::read_to_string("../../docs/attacks.md").unwrap();
    for line in [
        format!("| one value is raised: the estimate falls by at most | {} |", RAISED_VALUE.0),
        format!("| one value is raised: the score falls by at most | {} |", RAISED_VALUE.1),
        format!("under a tag that nobody measured: the lower bound falls by at most | {ONE_MORE_SOURCE:.1} |"),
        format!("| a source of weight {TINY} comes: the lower bound moves by at most | {} |", TINY_MOVES),
        format!("| a source of weight {TINY} comes: a cap that it makes is at least | {LEAST_CAP_OF_NOTHING} |"),
        format!("the score of an agent that stays rated rises by at most | {} |", WAITING.0),
        format!("until nothing counts any more: the score is at most | {} |", WAITING.1),
        "a search over 50,000 random agents".to_owned(),
    ] {
        assert!(text.contains(&line), "docs/attacks.md does not say: {line}");
    }
    assert_eq!(CASES, 50_000);
}
