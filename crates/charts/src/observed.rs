//! Observations of one quantity as they come, and the limits they are judged by: `mean ± 3σ` over all of them (Shewhart), with
//! the newest kept to be drawn.

use std::collections::VecDeque;

use crate::{
    chart::Chart,
    control::{Mark, Series, control},
};

/// Observations that are kept to be drawn.
const POINTS: usize = 60;
/// A chart of fewer observations says nothing (seed 2: eight observations).
pub const MIN_OBSERVATIONS: u64 = 8;
/// Standard deviations from the mean to the limits.
const LIMIT_SIGMAS: f64 = 3.0;
/// Lines of a chart drawn as text.
const ROWS: usize = 7;

/// Observations of one quantity that cannot be below zero, such as a time.
#[derive(Debug, Clone, Default)]
pub struct Observed {
    count: u64,
    mean: f64,
    squares: f64,
    recent: VecDeque<f64>,
}

impl Observed {
    /// Takes one in.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        let delta = value - self.mean;
        self.mean += delta / self.count as f64;
        self.squares += delta * (value - self.mean);
        if self.recent.len() == POINTS {
            self.recent.pop_front();
        }
        self.recent.push_back(value);
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their mean.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The newest of them, oldest first.
    pub fn recent(&self) -> Vec<f64> {
        self.recent.iter().copied().collect()
    }

    /// The limits over all of them, the lower one not below zero.
    pub fn limits(&self) -> (f64, f64) {
        let reach = LIMIT_SIGMAS * self.stddev();
        ((self.mean - reach).max(0.0), self.mean + reach)
    }

    /// How many of the newest are beyond the limits.
    pub fn beyond(&self) -> usize {
        self.recent.iter().filter(|value| self.is_beyond(**value)).count()
    }

    fn stddev(&self) -> f64 {
        (self.squares / self.count.saturating_sub(1).max(1) as f64).sqrt()
    }

    fn is_beyond(&self, value: f64) -> bool {
        let (lower, upper) = self.limits();
        value > upper || value < lower
    }

    /// As a control chart, with those beyond the limits marked.
    pub fn chart(&self, title: &str, name: &str, unit: &str) -> Chart {
        let points = self.recent();
        let marks: Vec<Mark> = points
            .iter()
            .enumerate()
            .filter(|(_, value)| self.is_beyond(**value))
            .map(|(index, _)| Mark { index, text: "beyond 3σ".to_owned() })
            .collect();
        let (mean, stddev) = (self.mean, self.stddev());
        control(title, &Series { name, unit, points: &points, mean, stddev, least: Some(0.0), marks: &marks })
    }

    /// As lines of text: points by height, the mean as a line, the limits above and below, `!` for points beyond them.
    pub fn text(&self) -> String {
        let (lower, upper) = self.limits();
        let top = self.recent.iter().copied().fold(upper, f64::max);
        let bottom = self.recent.iter().copied().fold(lower, f64::min);
        let height = (top - bottom).max(f64::MIN_POSITIVE);
        let row = |value: f64| ((((top - value) / height) * (ROWS - 1) as f64).round() as usize).min(ROWS - 1);
        let mut lines = vec![vec![' '; self.recent.len()]; ROWS];
        for (at, mark) in [(self.mean, '─'), (upper, '┄'), (lower, '┄')] {
            lines[row(at)].fill(mark);
        }
        for (n, value) in self.recent.iter().enumerate() {
            lines[row(*value)][n] = if self.is_beyond(*value) { '!' } else { '•' };
        }
        let label = |n: usize| match n {
            n if n == row(upper) => format!("{upper:>9.1}"),
            n if n == row(self.mean) => format!("{:>9.1}", self.mean),
            n if n == row(lower) => format!("{lower:>9.1}"),
            _ => " ".repeat(9),
        };
        let lines = lines.into_iter().enumerate();
        lines.map(|(n, line)| format!("    {} {}\n", label(n), line.into_iter().collect::<String>())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_shows_what_is_beyond_the_limits() {
        let mut observed = Observed::default();
        for n in 0..59 {
            observed.add(10.0 + f64::from(n % 3));
        }
        observed.add(60.0);
        assert_eq!((observed.count(), observed.beyond()), (60, 1));
        let drawn = observed.text();
        assert_eq!(drawn.lines().count(), ROWS);
        assert_eq!(drawn.matches('!').count(), 1);
        assert!(drawn.lines().next().is_some_and(|top| top.ends_with('!')), "{drawn}");
        assert!(observed.chart("latency", "Latency", "ms").inline().contains("beyond 3σ"));
    }

    #[test]
    fn only_the_newest_are_kept_and_all_count() {
        let mut observed = Observed::default();
        (0..100).for_each(|n| observed.add(f64::from(n)));
        assert_eq!((observed.recent().len(), observed.recent()[0], observed.mean()), (60, 40.0, 49.5));
        assert_eq!(observed.limits().0, 0.0, "a time is not negative");
    }
}
