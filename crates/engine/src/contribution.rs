//! What each source did to a score: its share, its pull, and the score without it.
//!
//! `pull = share · (mean of the source − μ) · coverage`, in points of the score; pulls of all sources add up to 0.

use serde::Serialize;

use crate::{
    Error,
    mixture::{Weighted, distinct_sources, mix},
    universal::{self, Outcome},
    voices::MIN_COUNTED_WEIGHT,
};

/// One source's part in a score.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Contribution<S> {
    /// The source.
    pub source: S,
    /// How many of its signals count.
    pub signals: usize,
    /// Its share of all weight, 0..=1.
    pub share: f64,
    /// The mean of its own signals.
    pub mean: f64,
    /// Points by which it moves the weighted mean, after coverage: above 0 it raises the score.
    pub pull: f64,
    /// The outcome if this source had said nothing: it also loses what the source adds to coverage.
    pub without: Outcome,
}

/// Every source's contribution, in the order in which sources first appear, where no source is related to another.
pub fn contributions<S: Ord + Copy>(signals: &[Weighted<S>], floor: f64) -> Result<Vec<Contribution<S>>, Error> {
    contributions_with(signals, floor, |left_out| {
        let rest: Vec<_> = signals.iter().copied().filter(|s| Some(s.source) != left_out).collect();
        distinct_sources(&rest, MIN_COUNTED_WEIGHT)
    })
}

/// The same, where `independent` gives how many voices speak
/// ([`Voices::independent`](crate::voices::Voices::independent)): all of them, or without one source.
pub fn contributions_with<S: Ord + Copy>(
    signals: &[Weighted<S>],
    floor: f64,
    independent: impl Fn(Option<S>) -> usize,
) -> Result<Vec<Contribution<S>>, Error> {
    let (Outcome::Rated(whole), Some(mixture)) =
        (universal::score_with(signals, independent(None), floor)?, mix(signals)?)
    else {
        return Ok(Vec::new());
    };
    let mut sources: Vec<S> = Vec::new();
    for signal in signals.iter().filter(|s| s.weight > 0.0) {
        if !sources.contains(&signal.source) {
            sources.push(signal.source);
        }
    }
    sources
        .into_iter()
        .filter_map(|source| {
            let (own, others): (Vec<_>, Vec<_>) = signals.iter().copied().partition(|s| s.source == source);
            let own_mix = mix(&own).transpose()?;
            Some(own_mix.and_then(|own_mix| {
                let share = own_mix.weight / mixture.weight;
                Ok(Contribution {
                    source,
                    signals: own.len(),
                    share,
                    mean: own_mix.mean,
                    pull: share * (own_mix.mean - mixture.mean) * whole.coverage,
                    without: universal::score_with(&others, independent(Some(source)), floor)?,
                })
            }))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_pulls_cancel() {
        let signal = |source, value, weight| Weighted { source, value, stddev: 1.0, weight };
        let signals = [signal("a", 90.0, 1.0), signal("a", 50.0, 1.0), signal("b", 80.0, 0.5), signal("c", 10.0, 0.0)];
        let parts = contributions(&signals, 0.1).unwrap();
        assert_eq!(parts.iter().map(|p| p.source).collect::<Vec<_>>(), ["a", "b"]);
        assert!((parts.iter().map(|p| p.share).sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(parts.iter().map(|p| p.pull).sum::<f64>().abs() < 1e-12);
        assert!(parts[1].pull > 0.0);
        assert_eq!(parts[1].without, universal::score(&signals[..2], 0.1).unwrap());
    }

    #[test]
    fn leaving_out_one_of_two_sources_of_a_voice_leaves_its_breadth() {
        let signal = |source| Weighted { source, value: 80.0, stddev: 1.0, weight: 1.0 };
        let signals = [signal("a"), signal("b"), signal("c")];
        // a and b are one voice.
        let independent = |left_out: Option<&str>| if left_out == Some("c") { 1 } else { 2 };
        let parts = contributions_with(&signals, 0.1, independent).unwrap();
        let sources = |n: usize| parts[n].without.rated().unwrap().sources;
        assert_eq!([sources(0), sources(1), sources(2)], [2, 2, 1]);
    }
}
