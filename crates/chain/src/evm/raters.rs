//! From feedback to a value: who counts, and how much (ingest sheet §2).
//!
//! Each client has one voice on each topic: its newest feedback that is not revoked and on the scale. A voice weighs
//!
//! `w = payment · breadth`, `payment` = 1 with a proof of payment, else 0.25; `breadth = min(1, 0.5 + 0.5·log2(1 + others)/log2(9))`,
//!
//! where `others` is how many other agents the client rated. The value is the weighted mean, with `s²` its weighted variance,
//!
//! `n_eff = (Σw)²/Σw²`, `σ = √(s²/n_eff + 25²/(n_eff + 1))`, at most 50.
//!
//! A value outside 0..=100 is on another scale. It is left out, as if it had not been given: clamping would make a 0 to 1000
//! rating a perfect score.

use alloy_primitives::Address;

use super::feedback::{Given, Topic};

/// What a voice weighs without a proof of payment.
const UNPAID: f64 = 0.25;
/// Other agents at which breadth is whole.
const WHOLE_BREADTH: f64 = 8.0;
/// Decimals that the standard allows.
const MAX_DECIMALS: u8 = 18;
/// The spread of a scale of 0 to 100 that nothing is known about: what one voice more could say.
const PRIOR_SPREAD: f64 = 25.0;
const MAX_STDDEV: f64 = 50.0;

/// One client's voice on one topic.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Voice {
    pub(super) client: Address,
    pub(super) index: u64,
    /// 0 to 100.
    pub(super) value: f64,
    pub(super) paid: bool,
    /// Other agents that the client rated; 0 where it is not known.
    pub(super) others: usize,
}

/// What the voices come to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Opinion {
    pub(super) value: f64,
    pub(super) stddev: f64,
    pub(super) effective: f64,
}

/// `value · 10^−decimals`, if it lies in 0..=100. Compared as integers: no value of 128 bits is rounded into the scale.
pub(super) fn on_scale(value: i128, decimals: u8) -> Option<f64> {
    if decimals > MAX_DECIMALS {
        return None;
    }
    let unit = 10_i128.pow(u32::from(decimals));
    // At most 10^20, which 128 bits hold.
    (0..=100 * unit).contains(&value).then(|| value as f64 / unit as f64)
}

/// The newest voice of each client on a topic, by client, and how many feedbacks were off the scale. `given` is sorted by client and index.
pub(super) fn voices(given: &[Given], topic: Topic) -> (Vec<Voice>, usize) {
    let mut voices: Vec<Voice> = Vec::new();
    let mut off_scale = 0;
    for one in given.iter().filter(|one| one.topic == topic) {
        let Some(value) = on_scale(one.value, one.decimals) else {
            off_scale += 1;
            continue;
        };
        let voice = Voice { client: one.client, index: one.index, value, paid: false, others: 0 };
        match voices.last_mut().filter(|last| last.client == one.client) {
            Some(last) => *last = voice,
            None => voices.push(voice),
        }
    }
    (voices, off_scale)
}

/// What a voice weighs.
pub(super) fn weight(voice: &Voice) -> f64 {
    let payment = if voice.paid { 1.0 } else { UNPAID };
    let breadth = 0.5 + 0.5 * libm::log2(1.0 + voice.others as f64) / libm::log2(1.0 + WHOLE_BREADTH);
    payment * breadth.min(1.0)
}

/// The opinion of all voices; none without voices.
pub(super) fn opinion(voices: &[Voice]) -> Option<Opinion> {
    let (mut total, mut squares, mut sum) = (0.0, 0.0, 0.0);
    for voice in voices {
        let weight = weight(voice);
        total += weight;
        squares += weight * weight;
        sum += weight * voice.value;
    }
    if total <= 0.0 {
        return None;
    }
    let mean = sum / total;
    let spread: f64 = voices.iter().map(|voice| weight(voice) * (voice.value - mean) * (voice.value - mean)).sum();
    let effective = total * total / squares;
    let variance = spread / total / effective + PRIOR_SPREAD * PRIOR_SPREAD / (effective + 1.0);
    Some(Opinion { value: mean.clamp(0.0, 100.0), stddev: libm::sqrt(variance).min(MAX_STDDEV), effective })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn given(client: u8, index: u64, value: i128, decimals: u8) -> Given {
        Given { client: Address::repeat_byte(client), index, value, decimals, topic: Topic::Starred }
    }

    #[test]
    fn extremes_are_exact() {
        let unit = 10_i128.pow(18);
        assert_eq!(on_scale(100 * unit, 18), Some(100.0));
        assert_eq!(on_scale(100 * unit + 1, 18), None, "one part in 10^20 above");
        assert_eq!(on_scale(1, 18), Some(1e-18));
        assert_eq!(on_scale(87_654, 3), Some(87.654));
        assert_eq!(on_scale(0, 0), Some(0.0));
        for off in [i128::MAX, i128::MIN, -1, 101] {
            assert_eq!(on_scale(off, 0), None, "{off}");
        }
        assert_eq!(on_scale(i128::MAX, 18), None);
        assert_eq!(on_scale(5, 19), None);
        assert_eq!(on_scale(5, 255), None);
    }

    #[test]
    fn the_newest_on_the_scale_counts_once() {
        let all = [given(1, 1, 10, 0), given(1, 2, 90, 0), given(1, 3, 1_000, 0), given(2, 1, 50, 0)];
        let (voices, off_scale) = voices(&all, Topic::Starred);
        assert_eq!(voices.iter().map(|voice| voice.value).collect::<Vec<_>>(), [90.0, 50.0]);
        assert_eq!(off_scale, 1);
        assert!(super::voices(&all, Topic::Uptime).0.is_empty());
    }

    #[test]
    fn payment_and_breadth_weigh() {
        let voice = |paid, others| Voice { client: Address::ZERO, index: 1, value: 1.0, paid, others };
        assert_eq!(weight(&voice(false, 0)), 0.125);
        assert_eq!(weight(&voice(true, 0)), 0.5);
        assert_eq!(weight(&voice(true, 2)), 0.75);
        assert_eq!(weight(&voice(true, 8)), 1.0);
        assert_eq!(weight(&voice(true, 1_000_000)), 1.0);
    }

    #[test]
    fn one_voice_says_little() {
        let (voices, _) = voices(&[given(1, 1, 100, 0)], Topic::Starred);
        let one = opinion(&voices).unwrap();
        assert_eq!((one.value, one.effective), (100.0, 1.0));
        assert!((one.stddev - 25.0 / 2f64.sqrt()).abs() < 1e-12, "{one:?}");
        assert_eq!(opinion(&[]), None);
    }

    proptest! {
        #[test]
        fn a_flood_is_one_voice(flood in proptest::collection::vec(0_i128..=100, 1..300), others in 0_i128..=100) {
            let mut all: Vec<Given> =
                flood.iter().enumerate().map(|(n, value)| given(1, n as u64 + 1, *value, 0)).collect();
            all.push(given(2, 1, others, 0));
            let many = opinion(&voices(&all, Topic::Starred).0).unwrap();
            let newest = [given(1, 1, flood[flood.len() - 1], 0), given(2, 1, others, 0)];
            prop_assert_eq!(many, opinion(&voices(&newest, Topic::Starred).0).unwrap());
        }

        #[test]
        fn every_opinion_is_a_signal(raw in proptest::collection::vec((0.0..=100.0_f64, any::<bool>(), 0_usize..500), 1..80)) {
            let voices: Vec<Voice> = raw
                .into_iter()
                .map(|(value, paid, others)| Voice { client: Address::ZERO, index: 1, value, paid, others })
                .collect();
            let opinion = opinion(&voices).unwrap();
            prop_assert!((0.0..=100.0).contains(&opinion.value));
            prop_assert!(opinion.stddev > 0.0 && opinion.stddev <= 50.0);
            prop_assert!(opinion.effective >= 0.999_999 && opinion.effective <= voices.len() as f64 + 1e-6);
        }
    }
}
