//! The score's own reliability: of agents rated so, how many outcomes were good.
//!
//! A score is no probability, so there is no line it should lie on; what it promises is order. Better rated agents should turn
//! out well more often, which [`Curve::concordance`] measures: the chance that of two agents with different outcomes the one
//! that did well was rated higher (0.5 says nothing, 1 is perfect order).

use serde::Serialize;

/// How wide a bin is, in points of the score.
pub const BIN_WIDTH: u8 = 10;
/// 95 %, two-sided.
const Z: f64 = 1.959_963_984_540_054;
const BINS: usize = 10;

/// One outcome, and the score at the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rated {
    /// 0..=100.
    pub score: u8,
    /// Whether it went well.
    pub good: bool,
}

/// A bin of the curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bin {
    /// The lowest score in it.
    pub from: u8,
    /// The highest score in it.
    pub to: u8,
    /// Outcomes.
    pub outcomes: u64,
    /// Good ones.
    pub good: u64,
    /// The share of good ones.
    pub rate: f64,
    /// The share's 95 % interval (Wilson), lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The mean score in it.
    pub mean_score: f64,
}

/// The curve.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// Outcomes.
    pub outcomes: u64,
    /// Good ones.
    pub good: u64,
    /// Bins that have any, by score.
    pub bins: Vec<Bin>,
    /// The chance that the better outcome was rated higher; none while all outcomes are alike.
    pub concordance: Option<f64>,
}

/// The curve of `rated`, whatever their order.
pub fn curve(rated: &[Rated]) -> Curve {
    // By score: how many, how many good.
    let mut counts = [(0_u64, 0_u64); 101];
    for one in rated {
        let at = &mut counts[usize::from(one.score.min(100))];
        at.0 += 1;
        at.1 += u64::from(one.good);
    }
    let mut bins = Vec::new();
    for bin in 0..BINS {
        let from = bin * usize::from(BIN_WIDTH);
        let to = if bin + 1 == BINS { 100 } else { from + usize::from(BIN_WIDTH) - 1 };
        let (mut outcomes, mut good, mut sum) = (0, 0, 0);
        for (score, (all, well)) in counts.iter().enumerate().take(to + 1).skip(from) {
            outcomes += all;
            good += well;
            sum += all * score as u64;
        }
        if outcomes > 0 {
            let (low, high) = wilson(good, outcomes);
            let (rate, mean_score) = (good as f64 / outcomes as f64, sum as f64 / outcomes as f64);
            bins.push(Bin { from: from as u8, to: to as u8, outcomes, good, rate, low, high, mean_score });
        }
    }
    let good = rated.iter().filter(|one| one.good).count() as u64;
    Curve { outcomes: rated.len() as u64, good, bins, concordance: concordance(&counts) }
}

fn concordance(counts: &[(u64, u64); 101]) -> Option<f64> {
    let (mut bad_below, mut won, mut bad, mut good) = (0.0, 0.0, 0.0, 0.0);
    for (all, well) in counts {
        let (well, ill) = (*well as f64, (all - well) as f64);
        won += well * (bad_below + 0.5 * ill);
        bad_below += ill;
        bad += ill;
        good += well;
    }
    (bad > 0.0 && good > 0.0).then(|| won / (bad * good))
}

/// The Wilson interval of a share.
fn wilson(good: u64, all: u64) -> (f64, f64) {
    let (n, p) = (all as f64, good as f64 / all as f64);
    let centre = (p + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
    let half = Z / (1.0 + Z * Z / n) * libm::sqrt(p * (1.0 - p) / n + Z * Z / (4.0 * n * n));
    ((centre - half).max(0.0), (centre + half).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rated(score: u8, good: usize, bad: usize) -> Vec<Rated> {
        let one = |good| Rated { score, good };
        std::iter::repeat_n(one(true), good).chain(std::iter::repeat_n(one(false), bad)).collect()
    }

    #[test]
    fn bins_counts_and_intervals() {
        let all = [rated(12, 1, 3), rated(19, 0, 1), rated(55, 6, 4), rated(100, 10, 0)].concat();
        let curve = curve(&all);
        assert_eq!((curve.outcomes, curve.good, curve.bins.len()), (25, 17, 3));
        let Bin { from, to, outcomes, good, rate, low, high, mean_score } = curve.bins[1];
        assert_eq!((from, to, outcomes, good, rate, mean_score), (50, 59, 10, 6, 0.6, 55.0));
        // Wilson's interval of 6 in 10, by the textbook formula: 0.3127 to 0.8318.
        assert!((low - 0.3127).abs() < 1e-4 && (high - 0.8318).abs() < 1e-4, "{low} {high}");
        assert_eq!((curve.bins[2].from, curve.bins[2].to, curve.bins[2].rate), (90, 100, 1.0));
        // 10 in 10: 0.7225 to 1.
        assert!((curve.bins[2].low - 0.7225).abs() < 1e-4 && (curve.bins[2].high - 1.0).abs() < 1e-12);
    }

    #[test]
    fn concordance_is_order() {
        assert_eq!(curve(&[rated(10, 0, 5), rated(90, 5, 0)].concat()).concordance, Some(1.0));
        assert_eq!(curve(&[rated(10, 5, 0), rated(90, 0, 5)].concat()).concordance, Some(0.0));
        assert_eq!(curve(&rated(50, 3, 9)).concordance, Some(0.5));
        assert_eq!(curve(&rated(50, 3, 0)).concordance, None);
        assert_eq!(curve(&[]).outcomes, 0);
    }
}
