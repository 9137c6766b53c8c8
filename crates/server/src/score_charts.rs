//! Charts that are the same on a page and in a file: scores over time, and how they held up.

use credence_charts::{Band, Bin, Chart, ScorePoint};
use credence_engine::{reliability::Curve, tiers::Tier};
use credence_pipeline::query::{AssuredRow, ScoreRow};
use credence_protocol::{ScoreStatus, Timestamp};

/// The bands of the score.
pub fn bands() -> Vec<Band<'static>> {
    let band = |tier: Tier| {
        let (from, to) = tier.band();
        let (from, to) = (f64::from(from), f64::from(to));
        // Bands meet halfway between the highest score of one and the lowest of the next.
        let (from, to) = ((from - 0.5).max(0.0), if to == 100.0 { 100.0 } else { to + 0.5 });
        Band { name: tier.name(), from, to }
    };
    Tier::ALL.into_iter().map(band).collect()
}

/// An agent's published universal scores over time; `rows` are its recorded ones, newest first.
pub fn history(title: &str, rows: &[ScoreRow]) -> Chart {
    let published = rows.iter().rev().filter(|row| row.recorded.status == ScoreStatus::Published);
    let points = published.filter_map(|row| {
        Some(point(row.recorded_at, row.seq, row.recorded.mean?, row.recorded.stddev?, row.recorded.score))
    });
    credence_charts::history(title, &points.collect::<Vec<_>>(), &bands())
}

/// An agent's published assured scores over time, by their estimates; `rows` are its recorded ones, newest first.
pub fn assured_history(title: &str, rows: &[AssuredRow]) -> Chart {
    let published = rows.iter().rev().filter(|row| row.recorded.assured.status == ScoreStatus::Published);
    let points = published.map(|row| {
        let numbers = &row.recorded.assured;
        point(row.recorded_at, row.seq, numbers.estimate, numbers.sd, numbers.score)
    });
    credence_charts::history(title, &points.collect::<Vec<_>>(), &bands())
}

fn point(at: Timestamp, seq: u64, mean: f64, stddev: f64, score: u8) -> ScorePoint {
    let time = at.to_string();
    let minute = time.get(..16).unwrap_or(&time).replace('T', " ");
    let label = format!("{minute}: {mean:.1} ± {stddev:.1}, score {score}, entry {seq}");
    ScorePoint { at: at.micros(), mean, stddev, label }
}

/// Of agents rated so, the share of good outcomes; and how far that is from the score on average, by outcomes.
pub fn reliability(title: &str, curve: &Curve) -> (Chart, Option<f64>) {
    let bins: Vec<Bin> = curve
        .bins
        .iter()
        .map(|bin| Bin {
            predicted: bin.mean_score / 100.0,
            observed: bin.rate,
            low: bin.low,
            high: bin.high,
            count: bin.outcomes,
        })
        .collect();
    let total: u64 = bins.iter().map(|bin| bin.count).sum();
    let off: f64 = bins.iter().map(|bin| bin.count as f64 * (bin.predicted - bin.observed).abs()).sum();
    let error = (total > 0).then(|| off / total as f64);
    (credence_charts::reliability(title, &bins, error), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_leave_no_gap() {
        let bands = bands();
        assert_eq!((bands[0].from, bands[5].to), (0.0, 100.0));
        assert!(bands.windows(2).all(|pair| pair[0].to == pair[1].from));
    }
}
