//! Laws of the assured score, each searched with at least 10,000 cases. The bounds are those that `docs/attacks.md` states.
#![allow(clippy::unwrap_used, reason = "helpers of tests: a failing unwrap is how a test says no")]

use credence_engine::assured::{Dimension, Measurement, Model, Numbers, Scale, Scratch};
use proptest::{collection::vec, prelude::*, sample::select};

/// Cases of each search.
const CASES: u32 = 10_000;
/// Points that raising a value may take off the estimate, and off the score, through disagreement.
const RAISED_VALUE: (f64, f64) = (0.2, 0.3);
/// Points that one more source, which says what is believed of the dimension, may take off the score.
const ONE_MORE_SOURCE: f64 = 2.5;
/// Points per unit of weight that a source of tiny weight moves the lower bound.
const PER_WEIGHT: f64 = 150.0;
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
    let all = (select(tags()), 0_u32..8, number(0.0, 100.0, &[0.0, 100.0]), number(0.0, 50.0, &[0.0, 3.0]), weight, age);
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

fn config() -> ProptestConfig {
    ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn numbers_are_within_their_bounds(signals in agent()) {
        let mut scratch = Scratch::default();
        let n = model().numbers(&signals, &mut scratch).unwrap();
        prop_assert!(n.score <= 100 && (0.0..=1.0).contains(&n.known) && n.sd > 0.0 && n.sd <= 25.0);
        prop_assert!(0.0 <= n.low && n.low <= n.high && n.high <= 100.0 && (0.0..=100.0).contains(&n.cap));
        prop_assert!((0.0..=100.0).contains(&n.estimate) && (0.0..=8.000001).contains(&n.n_eff));
        for d in n.dimensions.iter().flatten() {
            prop_assert!(d.known > 0.0 && d.known < 1.0 && d.sd > 0.0 && d.sd <= 25.0 && d.n_eff >= 0.999999, "{:?}", d);
        }
        let assured = model().assured(&n, model().fragility(&n, &mut scratch), Vec::new());
        prop_assert_eq!(assured.steps.iter().fold(0.0, |sum, step| sum + step.value), f64::from(n.score));
    }

    #[test]
    fn fragility_is_the_largest_change_without_one_voice(signals in agent()) {
        let mut scratch = Scratch::default();
        let whole = model().numbers(&signals, &mut scratch).unwrap();
        let fragility = model().fragility(&whole, &mut scratch);
        let without = (0..8).map(|voice| {
            let rest: Vec<_> = signals.iter().copied().filter(|s| s.voice != voice).collect();
            numbers(&rest).score.abs_diff(whole.score)
        });
        prop_assert_eq!(Some(fragility), without.max());
    }

    #[test]
    fn raising_a_value_hardly_lowers_anything(signals in agent(), which in any::<prop::sample::Index>(), by in 0.0..=1.0_f64) {
        let mut raised = signals.clone();
        let signal = which.get_mut(&mut raised);
        signal.value += (100.0 - signal.value) * by;
        let (before, after) = (numbers(&signals), numbers(&raised));
        prop_assert!(after.estimate >= before.estimate - RAISED_VALUE.0, "{} {}", before.estimate, after.estimate);
        prop_assert!(exact(&after) >= exact(&before) - RAISED_VALUE.1, "{} {}", exact(&before), exact(&after));
    }

    #[test]
    fn one_more_source_that_agrees_hardly_lowers_the_score(signals in agent(), tag in select(tags()), weight in number(0.000001, 1.0, &[1.0])) {
        let parameters = model().parameters().tags[tag];
        let slot = model().tag(tag).unwrap();
        // A tag that nobody measured, of a dimension that somebody did: there the new source says what is believed.
        let signals: Vec<_> = signals.into_iter().filter(|s| s.tag != slot).collect();
        let before = numbers(&signals);
        let Some(dimension) = before.dimensions[parameters.dimension as usize] else { return Ok(()) };
        let value = match parameters.scale {
            Scale::Plain => dimension.mean.min(100.0),
            Scale::FourthRoot => 100.0 * (dimension.mean / 100.0).powi(4).min(1.0),
        };
        let mut more = signals.clone();
        more.push(Measurement { tag: slot, voice: 8, value, stddev: 0.0, weight, age_days: 0.0 });
        let after = numbers(&more);
        prop_assert!(after.low >= before.low - ONE_MORE_SOURCE, "{} {}", before.low, after.low);
    }

    #[test]
    fn a_source_of_tiny_weight_moves_next_to_nothing(signals in agent(), tag in select(tags()), value in 0.0..=100.0_f64) {
        const TINY: f64 = 0.000001;
        // Tiny beside what is there: sources of some weight, none of them about to expire.
        let there = |s: &Measurement| Measurement { weight: s.weight.max(0.01), age_days: s.age_days % 30.0, ..*s };
        let signals: Vec<_> = signals.iter().map(there).collect();
        let mut more = signals.clone();
        let slot = model().tag(tag).unwrap();
        more.push(Measurement { tag: slot, voice: 8, value, stddev: 0.0, weight: TINY, age_days: 0.0 });
        let (before, after) = (numbers(&signals), numbers(&more));
        prop_assert!((after.low - before.low).abs() <= PER_WEIGHT * TINY, "{} {}", before.low, after.low);
        prop_assert!(after.cap >= before.cap.min(LEAST_CAP_OF_NOTHING) - PER_WEIGHT * TINY, "{} {}", before.cap, after.cap);
    }

    #[test]
    fn waiting_hardly_lifts_a_score(signals in agent(), days in prop_oneof![0.0..10.0_f64, 0.0..200.0_f64, 0.0..4000.0_f64]) {
        let later: Vec<_> = signals.iter().map(|s| Measurement { age_days: s.age_days + days, ..*s }).collect();
        let (before, after) = (numbers(&signals), numbers(&later));
        if before.rated {
            prop_assert!(exact(&after) <= exact(&before) + WAITING.0 || !after.rated, "{} {}", exact(&before), exact(&after));
        }
        if !after.rated {
            prop_assert!(exact(&after) <= WAITING.1);
        }
        prop_assert!(after.cap == before.cap, "a hole in security does not age");
    }

    #[test]
    fn missing_evidence_only_widens(signals in agent(), dimension in select(Dimension::ALL.to_vec())) {
        let model = model();
        let rest: Vec<_> = signals.iter().copied()
            .filter(|s| model.dimension_of(model.tag_name(s.tag)) != Some(dimension)).collect();
        let (with, without) = (numbers(&signals), numbers(&rest));
        prop_assert!(without.sd >= with.sd - 1e-9 && without.known <= with.known + 1e-12, "{} {}", with.sd, without.sd);
    }

    #[test]
    fn the_order_of_voices_and_a_voice_of_weight_0_change_nothing(signals in agent()) {
        let mut scratch = Scratch::default();
        let mut turned = signals.clone();
        turned.reverse();
        turned.push(Measurement { weight: 0.0, voice: 9, ..signals[0] });
        let (a, b) = (model().numbers(&signals, &mut scratch).unwrap(), model().numbers(&turned, &mut scratch).unwrap());
        prop_assert!((a.estimate - b.estimate).abs() < 1e-9 && (a.low - b.low).abs() < 1e-9 && (a.cap - b.cap).abs() < 1e-9);
    }
}
