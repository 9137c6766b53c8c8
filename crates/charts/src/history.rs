//! A score over time: its mean as a line, one standard deviation to either side as a ribbon, over the tier bands.

use crate::bands::{Band, holding, usable};
use crate::chart::Chart;
use crate::frame::{BELOW, EDGE, LINE_GAPS, Plot, TOP, WIDTH, finish, fitted, nothing, titled};
use crate::number::{counted, fixed};
use crate::scale::{Linear, room, thin};
use crate::svg::{Anchor, Svg};
use crate::time::{moment, period, ticks};

const HEIGHT: f64 = 300.0;
/// Where the plot ends and the names of the bands begin.
const RIGHT: f64 = 506.0;
/// Room beside the last dot for its value in large text.
const VALUE_WIDTH: f64 = 62.0;
/// More points than this are thinned to it, keeping ends and extremes.
const MOST_DOTS: usize = 120;
/// Up to this many points are drawn large.
const FEW_DOTS: usize = 40;

/// A score at a moment.
#[derive(Debug, Clone, PartialEq)]
pub struct ScorePoint {
    /// Microseconds since 1970 UTC.
    pub at: i64,
    /// The mean, 0..=100.
    pub mean: f64,
    /// The standard deviation, in the same points.
    pub stddev: f64,
    /// What hovering shows; when empty, the date and the score.
    pub label: String,
}

/// A line with a ±1σ ribbon over tier bands. `points` are oldest first; there may be one, or none.
pub fn history(title: &str, points: &[ScorePoint], bands: &[Band<'_>]) -> Chart {
    let mut known: Vec<&ScorePoint> = points.iter().filter(|point| point.mean.is_finite()).collect();
    known.sort_by_key(|point| point.at);
    let (Some(first), Some(last)) = (known.first(), known.last()) else {
        return nothing(title, "No score has been recorded.");
    };
    let means: Vec<f64> = known.iter().map(|point| point.mean).collect();
    let kept: Vec<&ScorePoint> = thin(&means, MOST_DOTS).into_iter().map(|index| known[index]).collect();
    let bands = usable(bands.iter().copied());

    let plot = Plot { left: 54.0, right: RIGHT, top: TOP, bottom: HEIGHT - BELOW };
    let y = plot.y(0.0, 100.0);
    let x = Time::new(first.at, last.at, &plot);
    let mut svg = titled(title);
    plot.y_label(&mut svg, "Score, 0 to 100, with ±1 standard deviation");
    draw_bands(&mut svg, &plot, &y, &bands);
    plot.y_ticks(&mut svg, &y, 5, true);
    let dates: Vec<(f64, String)> =
        ticks(first.at, last.at, 6).into_iter().map(|(at, text)| (x.at(at), text)).collect();
    plot.x_ticks(&mut svg, &dates);
    plot.x_label(&mut svg, &format!("Time (UTC), {}", period(first.at, last.at)));
    draw_points(&mut svg, &kept, &x, &y);
    finish(title, summary(&means, first, last, &bands), HEIGHT, svg)
}

/// The horizontal scale. Moments are subtracted as integers first: as `f64` they would lose their microseconds.
struct Time {
    first: i64,
    scale: Linear,
}

impl Time {
    fn new(first: i64, last: i64, plot: &Plot) -> Self {
        let span = last.saturating_sub(first) as f64;
        // A margin, so that the first dot is whole and the last has its value beside it; one moment alone sits in the
        // middle.
        let (from, to) = (plot.left + 8.0, plot.right - VALUE_WIDTH);
        let domain = if span > 0.0 { (0.0, span) } else { (-1.0, 1.0) };
        Self { first, scale: Linear::new(domain, (from, to)) }
    }

    fn at(&self, moment: i64) -> f64 {
        self.scale.at(moment.saturating_sub(self.first) as f64)
    }
}

fn draw_bands(svg: &mut Svg, plot: &Plot, y: &Linear, bands: &[(usize, Band<'_>)]) {
    let middles: Vec<f64> = bands.iter().map(|(_, band)| y.at((band.from + band.to) / 2.0)).collect();
    for (((index, band), middle), shown) in bands.iter().zip(&middles).zip(room(&middles, LINE_GAPS.0, LINE_GAPS.1)) {
        let (upper, lower) = (y.at(band.to), y.at(band.from));
        svg.group(&band.described());
        let wash = format!("c-band-{index} c-wash");
        svg.rect(&wash, (plot.left, upper), (plot.width(), lower - upper)).done();
        // A solid edge beside the name ties name and stretch together without relying on the tint.
        svg.rect(&format!("c-band-{index}"), (plot.right, upper + 1.0), (4.0, lower - upper - 2.0)).done();
        if let Some(class) = shown.class("c-tick") {
            let left = plot.right + 10.0;
            fitted(svg, &class, Anchor::Start, (left, *middle, true), band.name, WIDTH - EDGE / 2.0 - left);
        }
        svg.end_group();
    }
}

fn draw_points(svg: &mut Svg, points: &[&ScorePoint], x: &Time, y: &Linear) {
    let places: Vec<(f64, f64)> = points.iter().map(|point| (x.at(point.at), y.at(point.mean))).collect();
    let edge = |point: &ScorePoint, sign: f64| (x.at(point.at), y.at(point.mean + sign * spread(point)));
    if let [point] = points {
        svg.line("c-whisker", edge(point, 1.0), edge(point, -1.0));
    } else {
        let upper = points.iter().map(|point| edge(point, 1.0));
        let lower = points.iter().rev().map(|point| edge(point, -1.0));
        svg.area("c-ribbon", &upper.chain(lower).collect::<Vec<_>>()).done();
        svg.path("c-line", &places).done();
    }
    let (class, radius) = if points.len() <= FEW_DOTS { ("c-dot", 4.0) } else { ("c-dot c-dense", 2.0) };
    for (point, place) in points.iter().zip(&places) {
        let label = if point.label.is_empty() { described(point) } else { point.label.clone() };
        svg.circle(class, *place, radius).hover(&label);
    }
    if let (Some(point), Some((x, y))) = (points.last(), places.last()) {
        svg.text_centred("c-value", Anchor::Start, x + 8.0, *y, &fixed(point.mean, 1));
    }
}

fn described(point: &ScorePoint) -> String {
    format!("{}: {}", moment(point.at), with_spread(point))
}

fn with_spread(point: &ScorePoint) -> String {
    if point.stddev.is_finite() {
        format!("{} ± {}", fixed(point.mean, 1), fixed(spread(point), 1))
    } else {
        fixed(point.mean, 1)
    }
}

fn spread(point: &ScorePoint) -> f64 {
    if point.stddev.is_finite() { point.stddev.max(0.0) } else { 0.0 }
}

fn summary(means: &[f64], first: &ScorePoint, last: &ScorePoint, bands: &[(usize, Band<'_>)]) -> String {
    let count = counted(means.len(), "score");
    let band = holding(bands, last.mean).map(|band| format!(" ({})", band.name)).unwrap_or_default();
    let latest = format!("{}{band}", with_spread(last));
    if means.len() == 1 {
        return format!("{count}, on {}: {latest}.", moment(last.at));
    }
    let lowest = means.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (lowest, highest) = (fixed(lowest, 1), fixed(highest, 1));
    format!(
        "{count}, {}. The latest is {latest}, the lowest {lowest}, the highest {highest}.",
        period(first.at, last.at)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000_000;
    const BANDS: [Band<'_>; 2] =
        [Band { name: "Low", from: 0.0, to: 60.0 }, Band { name: "High", from: 60.0, to: 100.0 }];

    fn point(day: i64, mean: f64) -> ScorePoint {
        ScorePoint { at: (19_846 + day) * DAY, mean, stddev: 5.0, label: format!("day {day}") }
    }

    #[test]
    fn says_what_the_line_shows() {
        let chart = history("T", &[point(0, 41.0), point(3, 72.28), point(9, 60.0)], &BANDS);
        assert_eq!(
            chart.summary(),
            "3 scores, 3 May 2024 to 12 May 2024. The latest is 60 ± 5 (High), the lowest 41, the highest 72.3."
        );
        let svg = chart.inline();
        for part in ["<title>day 3</title>", "c-ribbon", "c-band-1", ">High<", "<title>Low, 0 to 60</title>", ">9 May<"]
        {
            assert!(svg.contains(part), "missing {part}");
        }
    }

    #[test]
    fn one_point_has_a_whisker_instead_of_a_ribbon() {
        let svg = history("T", &[point(0, 41.0)], &BANDS).inline();
        assert!(svg.contains("c-whisker") && !svg.contains("c-ribbon"));
        assert_eq!(svg.matches("<circle").count(), 1);
    }

    #[test]
    fn many_points_are_thinned_but_extremes_stay() {
        let mut points: Vec<ScorePoint> = (0..1_000).map(|day| point(day, 50.0 + (day % 7) as f64)).collect();
        points[333].mean = 3.0;
        points[777].mean = 99.0;
        let svg = history("T", &points, &BANDS).inline();
        assert!(svg.matches("<circle").count() <= MOST_DOTS);
        for day in [0, 333, 777, 999] {
            assert!(svg.contains(&format!("<title>day {day}</title>")), "day {day}");
        }
    }

    #[test]
    fn unknown_means_are_left_out_and_unknown_spreads_are_none() {
        let mut points = [point(0, 50.0), point(1, f64::NAN), point(2, 55.0)];
        points[2].stddev = f64::INFINITY;
        points[2].label.clear();
        let chart = history("T", &points, &BANDS);
        assert!(chart.summary().starts_with("2 scores"));
        assert!(chart.inline().contains("<title>5 May 2024, 00:00 UTC: 55</title>"));
        // 55 of 100 between 244 (zero) and 64: the ribbon's end has no height and lies on the line's.
        assert!(chart.inline().contains("L444 145L444 145L"), "{}", chart.inline());
        assert!(history("T", &points[1..2], &BANDS).summary().starts_with("Nothing to show yet"));
    }
}
