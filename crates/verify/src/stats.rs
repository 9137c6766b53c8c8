//! Running statistics (seed 2, "SPC Baselines"): Welford's algorithm over the lifetime, and the last [`WINDOW`] values.

use serde::{Deserialize, Serialize};

/// Recent values kept.
pub(crate) const WINDOW: usize = 100;
/// Observations before any statistic is used.
pub(crate) const MIN_OBSERVATIONS: u64 = 8;

/// Mean and variance of everything seen, and the most recent values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunningStats {
    count: u64,
    mean: f64,
    squares: f64,
    /// A ring once it is full; `next` is the oldest then.
    recent: Vec<f64>,
    next: usize,
    /// Mean and squares of the recent values, kept up to date.
    recent_mean: f64,
    recent_squares: f64,
}

/// A mean and a standard deviation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    pub(crate) stddev: f64,
}

impl RunningStats {
    pub(crate) fn push(&mut self, value: f64) {
        self.count += 1;
        let off = value - self.mean;
        self.mean += off / self.count as f64;
        self.squares += off * (value - self.mean);
        if self.recent.len() < WINDOW {
            self.recent.push(value);
            let off = value - self.recent_mean;
            self.recent_mean += off / self.recent.len() as f64;
            self.recent_squares += off * (value - self.recent_mean);
            return;
        }
        let old = std::mem::replace(&mut self.recent[self.next], value);
        let before = self.recent_mean;
        self.recent_mean += (value - old) / WINDOW as f64;
        self.recent_squares += (value - old) * (value - self.recent_mean + old - before);
        self.next = (self.next + 1) % WINDOW;
        if self.next == 0 {
            // Once a round, so that rounding errors do not add up for ever.
            self.recent_mean = self.recent.iter().sum::<f64>() / WINDOW as f64;
            self.recent_squares = self.recent.iter().map(|v| (v - self.recent_mean) * (v - self.recent_mean)).sum();
        }
    }

    /// Whether what was read back can be what was written.
    pub(crate) fn is_sound(&self) -> bool {
        let full = self.recent.len() == WINDOW;
        self.recent.len() <= WINDOW
            && (if full { self.next < WINDOW } else { self.next == 0 })
            && self.count >= self.recent.len() as u64
    }

    /// How many were seen in all.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Whether there is enough to judge by.
    pub(crate) fn is_established(&self) -> bool {
        self.count >= MIN_OBSERVATIONS
    }

    /// Over everything seen (sample variance).
    pub(crate) fn lifetime(&self) -> Spread {
        let variance = if self.count > 1 { self.squares / (self.count - 1) as f64 } else { 0.0 };
        Spread { mean: self.mean, stddev: libm::sqrt(variance.max(0.0)) }
    }

    /// Over the recent values (sample variance).
    pub(crate) fn window(&self) -> Spread {
        let n = self.recent.len();
        let variance = if n > 1 { self.recent_squares / (n - 1) as f64 } else { 0.0 };
        Spread { mean: self.recent_mean, stddev: libm::sqrt(variance.max(0.0)) }
    }

    /// The most recent values, newest first.
    pub(crate) fn newest(&self) -> impl Iterator<Item = f64> {
        let (old, new) = self.recent.split_at(self.next);
        old.iter().rev().chain(new.iter().rev()).copied()
    }
}

impl Spread {
    /// How many standard deviations `value` lies from the mean; `None` where nothing varied yet.
    pub(crate) fn z(self, value: f64) -> Option<f64> {
        (self.stddev > 0.0).then(|| (value - self.mean) / self.stddev)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_the_textbook(values in prop::collection::vec(-1e6..1e6_f64, 2..300)) {
            let mut stats = RunningStats::default();
            values.iter().for_each(|v| stats.push(*v));
            let spread = |values: &[f64]| {
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64;
                (mean, variance.sqrt())
            };
            let (mean, stddev) = spread(&values);
            prop_assert!((stats.lifetime().mean - mean).abs() < 1e-6 && (stats.lifetime().stddev - stddev).abs() < 1e-6);
            let tail = &values[values.len().saturating_sub(WINDOW)..];
            let (mean, stddev) = spread(tail);
            prop_assert!((stats.window().mean - mean).abs() < 1e-6 && (stats.window().stddev - stddev).abs() < 1e-6);
            let newest: Vec<f64> = stats.newest().collect();
            let expected: Vec<f64> = tail.iter().rev().copied().collect();
            prop_assert_eq!(newest, expected);
        }
    }
}
