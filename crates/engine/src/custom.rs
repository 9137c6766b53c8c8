//! A consumer's own view: the same signals under the caller's source weights (seed 4, R07; DESIGN, *Consumer weights*).
//!
//! This module sees signals only. It does not use the universal score, coverage or tiers (a test below reads its own
//! source to make sure), and nothing it computes is ever recorded.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    Error,
    mixture::{Weighted, mix},
};

/// The key under which a caller weighs every source it does not name.
pub const EVERY_OTHER_SOURCE: &str = "*";

/// One signal, without any weight of ours.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unweighted<'a> {
    /// Who measured.
    pub source: &'a str,
    /// 0..=100.
    pub value: f64,
    /// 0..=50.
    pub stddev: f64,
}

/// What an agent looks like through the caller's weights.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CustomView {
    /// The weighted mean, 0..=100.
    pub mean: f64,
    /// The mixture's standard deviation.
    pub stddev: f64,
    /// Distinct sources that counted.
    pub sources: usize,
    /// Sources of this agent that the caller's weights leave out.
    pub left_out: Vec<String>,
}

/// Weighs `signals` by `weights`; `None` when the weights leave nothing.
pub fn view(signals: &[Unweighted<'_>], weights: &BTreeMap<String, f64>) -> Result<Option<CustomView>, Error> {
    let other = weights.get(EVERY_OTHER_SOURCE).copied().unwrap_or(0.0);
    let weight = |source: &str| weights.get(source).copied().unwrap_or(other);
    let weighted: Vec<_> = signals
        .iter()
        .map(|&Unweighted { source, value, stddev }| Weighted { source, value, stddev, weight: weight(source) })
        .collect();
    let mut left_out: Vec<String> = weighted.iter().filter(|s| s.weight == 0.0).map(|s| s.source.to_owned()).collect();
    left_out.sort_unstable();
    left_out.dedup();
    let mixture = mix(&weighted)?;
    Ok(mixture.map(|m| CustomView { mean: m.mean, stddev: m.stddev, sources: m.sources, left_out }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_callers_weights_decide() {
        let signal = |source, value| Unweighted { source, value, stddev: 0.0 };
        let signals = [signal("a", 100.0), signal("b", 50.0), signal("c", 0.0)];
        let weights = |list: &[(&str, f64)]| list.iter().map(|(s, w)| (s.to_string(), *w)).collect();
        let only = view(&signals, &weights(&[("a", 3.0), ("b", 1.0)])).unwrap().unwrap();
        assert_eq!((only.mean, only.sources), (87.5, 2));
        assert_eq!(only.left_out, ["c"]);
        let rest = view(&signals, &weights(&[("a", 0.0), ("*", 1.0)])).unwrap().unwrap();
        assert_eq!(rest.mean, 25.0);
        assert_eq!(view(&signals, &weights(&[])).unwrap(), None);
        assert!(view(&signals, &weights(&[("a", -1.0)])).is_err());
    }

    /// The firewall of R07: no path in this module leads to the universal score.
    #[test]
    fn does_not_import_the_universal_score() {
        let code: String = include_str!("custom.rs")
            .split("#[cfg(test)]")
            .next()
            .unwrap()
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .collect();
        for forbidden in ["universal", "coverage", "tiers", "certification", "super::", "crate::*"] {
            assert!(!code.contains(forbidden), "custom.rs names {forbidden}");
        }
    }
}
