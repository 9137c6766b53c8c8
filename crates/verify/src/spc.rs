//! Statistical process control (seed 2, "SPC Baselines"): the four Western Electric rules on a value and those before it.
//! Mean and σ are over the lifetime, the recent points come from the window.

use crate::stats::{RunningStats, Spread};

/// A Western Electric rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// One point beyond 3σ.
    One,
    /// Two of the last three points beyond 2σ, on the same side.
    Two,
    /// Four of the last five points beyond 1σ, on the same side.
    Three,
    /// Eight consecutive points on the same side of the mean.
    Four,
}

impl Rule {
    /// How much a fired rule counts.
    pub fn weight(self) -> f64 {
        match self {
            Rule::One => 0.40,
            Rule::Two => 0.25,
            Rule::Three => 0.20,
            Rule::Four => 0.15,
        }
    }

    /// In words.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Rule::One => "beyond 3σ",
            Rule::Two => "2 of 3 beyond 2σ",
            Rule::Three => "4 of 5 beyond 1σ",
            Rule::Four => "8 in a row on one side of the mean",
        }
    }
}

/// The rules that each of `points`, oldest first, breaks together with those before it; none without limits to judge by.
pub(crate) fn broken(points: &[f64], limits: Option<Spread>) -> Vec<Vec<Rule>> {
    let limits = limits.filter(|spread| spread.stddev > 0.0);
    let rules = |end: usize| {
        let newest = points[..=end].iter().rev().copied();
        limits.map_or_else(Vec::new, |spread| rules_of(spread, newest).collect())
    };
    (0..points.len()).map(rules).collect()
}

/// The rules that `value` fires against `stats`; `None` while there are too few observations or nothing ever varied.
pub(crate) fn fired(stats: &RunningStats, value: f64) -> Option<impl Iterator<Item = Rule>> {
    let spread = stats.lifetime();
    if !stats.is_established() || spread.stddev == 0.0 {
        return None;
    }
    Some(rules_of(spread, std::iter::once(value).chain(stats.newest())))
}

/// The rules that the first of `points`, newest first, breaks.
fn rules_of(spread: Spread, points: impl Iterator<Item = f64>) -> impl Iterator<Item = Rule> {
    let Spread { mean, stddev } = spread;
    // How far the last eight points are off the mean.
    let mut off = [0.0; 8];
    for (slot, point) in off.iter_mut().zip(points) {
        *slot = point - mean;
    }
    // A cheap look first: the quotient decides, where it can.
    let is_beyond = |off: f64, sigmas: f64| off > sigmas * stddev * 0.999 && off / stddev > sigmas;
    let beyond = |last: usize, sigmas: f64, needed: usize| {
        let count = |side: f64| off[..last].iter().filter(|off| is_beyond(**off * side, sigmas)).count();
        count(1.0) >= needed || count(-1.0) >= needed
    };
    let on_one_side = |side: f64| off.iter().all(|off| is_beyond(*off * side, 0.0));
    let rules = [
        (Rule::One, is_beyond(off[0].abs(), 3.0)),
        (Rule::Two, beyond(3, 2.0, 2)),
        (Rule::Three, beyond(5, 1.0, 4)),
        (Rule::Four, on_one_side(1.0) || on_one_side(-1.0)),
    ];
    rules.into_iter().filter(|(_, fired)| *fired).map(|(rule, _)| rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean 0 and σ close to 1: alternating points, then `recent`, then the value.
    fn rules(recent: &[f64], value: f64) -> Vec<Rule> {
        let mut stats = RunningStats::default();
        for n in 0..2_000 {
            stats.push(if n % 2 == 0 { 1.0 } else { -1.0 });
        }
        recent.iter().for_each(|v| stats.push(*v));
        fired(&stats, value).unwrap().collect()
    }

    #[test]
    fn each_rule_fires_alone() {
        assert_eq!(rules(&[0.5, -0.5], 3.5), [Rule::One]);
        assert_eq!(rules(&[-0.5, 2.5, -0.5], 2.5), [Rule::Two]);
        assert_eq!(rules(&[-0.5, 1.5, 1.5, 1.5, -0.5], 1.5), [Rule::Three]);
        assert_eq!(rules(&[0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5], 0.5), [Rule::Four]);
        assert_eq!(rules(&[0.5, -0.5], 0.5), []);
    }

    #[test]
    fn the_two_sides_do_not_add_up() {
        assert_eq!(rules(&[-0.5, -2.5, 0.5], 2.5), []);
    }

    #[test]
    fn eight_observations_are_needed() {
        let mut stats = RunningStats::default();
        for n in 0..7 {
            stats.push(f64::from(n % 2));
            assert!(fired(&stats, 100.0).is_none());
        }
        stats.push(1.0);
        assert!(fired(&stats, 100.0).unwrap().any(|rule| rule == Rule::One));
    }

    #[test]
    fn a_constant_says_nothing() {
        let mut stats = RunningStats::default();
        (0..20).for_each(|_| stats.push(5.0));
        assert!(fired(&stats, 6.0).is_none());
    }
}
