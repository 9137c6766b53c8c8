//! How well verdicts tell fabricated results from genuine ones (DESIGN, *Measures*).

/// The probability that a fabricated result has a higher posterior than a genuine one, ties counting half.
pub fn auroc(fabricated: &[f64], genuine: &[f64]) -> f64 {
    let mut ranked: Vec<(f64, bool)> = fabricated.iter().map(|p| (*p, true)).collect();
    ranked.extend(genuine.iter().map(|p| (*p, false)));
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut at, mut ranks) = (0, 0.0);
    while at < ranked.len() {
        let tied = ranked[at..].iter().take_while(|(p, _)| *p == ranked[at].0).count();
        let rank = (2 * at + tied + 1) as f64 / 2.0;
        ranks += rank * ranked[at..at + tied].iter().filter(|(_, fabricated)| *fabricated).count() as f64;
        at += tied;
    }
    let (n1, n0) = (fabricated.len() as f64, genuine.len() as f64);
    (ranks - n1 * (n1 + 1.0) / 2.0) / (n1 * n0)
}

/// The least posterior that at most `rate` of the genuine results exceed.
pub fn cut(genuine: &[f64], rate: f64) -> f64 {
    let mut sorted = genuine.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() as f64 * (1.0 - rate)) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(1.0)
}

/// The share of fabricated results above the posterior that at most `rate` of the genuine ones exceed.
pub fn recall(fabricated: &[f64], genuine: &[f64], rate: f64) -> f64 {
    let cut = cut(genuine, rate);
    fabricated.iter().filter(|p| **p > cut).count() as f64 / fabricated.len().max(1) as f64
}

/// Points of the ROC curve, from (0, 0) to (1, 1): the share of genuine results at or above a posterior, and of fabricated
/// ones.
pub fn roc(fabricated: &[f64], genuine: &[f64]) -> Vec<(f64, f64)> {
    let mut ranked: Vec<(f64, bool)> = fabricated.iter().map(|p| (*p, true)).collect();
    ranked.extend(genuine.iter().map(|p| (*p, false)));
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (n1, n0) = (fabricated.len().max(1) as f64, genuine.len().max(1) as f64);
    let (mut caught, mut alarms) = (0.0, 0.0);
    let mut points = vec![(0.0, 0.0)];
    for (n, (p, fabricated)) in ranked.iter().enumerate() {
        if *fabricated {
            caught += 1.0
        } else {
            alarms += 1.0
        }
        if ranked.get(n + 1).is_none_or(|next| next.0 != *p) {
            points.push((alarms / n0, caught / n1));
        }
    }
    points
}

/// One bin of a reliability diagram.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Bin {
    /// The weight in it.
    pub weight: f64,
    /// The mean posterior.
    pub predicted: f64,
    /// The share that was fabricated.
    pub observed: f64,
}

/// The reliability of posteriors, each with a weight and whether it was fabricated: ten bins, and the expected calibration
/// error.
pub fn reliability(posteriors: impl IntoIterator<Item = (f64, bool, f64)>) -> ([Bin; 10], f64) {
    let mut bins = [Bin::default(); 10];
    let mut total = 0.0;
    for (posterior, fabricated, weight) in posteriors {
        let bin = &mut bins[((posterior * 10.0) as usize).min(9)];
        bin.weight += weight;
        bin.predicted += weight * posterior;
        bin.observed += if fabricated { weight } else { 0.0 };
        total += weight;
    }
    let error =
        bins.iter().map(|bin| (bin.predicted - bin.observed).abs()).sum::<f64>() / f64::max(total, f64::MIN_POSITIVE);
    for bin in bins.iter_mut().filter(|bin| bin.weight > 0.0) {
        bin.predicted /= bin.weight;
        bin.observed /= bin.weight;
        bin.weight /= total;
    }
    (bins, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        assert_eq!(auroc(&[0.9, 0.8], &[0.1, 0.2]), 1.0);
        assert_eq!(auroc(&[0.5], &[0.5]), 0.5);
        assert_eq!(auroc(&[0.9, 0.1], &[0.5]), 0.5);
        let genuine: Vec<f64> = (0..100).map(|n| f64::from(n) / 100.0).collect();
        assert_eq!(cut(&genuine, 0.01), 0.99);
        assert_eq!(recall(&[0.995, 0.5], &genuine, 0.01), 0.5);
        assert_eq!(roc(&[0.9], &[0.1]), [(0.0, 0.0), (0.0, 1.0), (1.0, 1.0)]);
        let (bins, error) = reliability([(0.05, false, 1.0), (0.95, true, 1.0)]);
        assert!((error - 0.05).abs() < 1e-12);
        assert_eq!((bins[0].observed, bins[9].observed), (0.0, 1.0));
    }
}
