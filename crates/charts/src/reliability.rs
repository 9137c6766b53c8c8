//! Reliability: what was predicted against what happened, and how many predictions each dot stands for.
//!
//! A calibrated predictor's dots lie on the diagonal. A dot's area grows with its bin's count, so the radius grows with
//! the root of it.

use crate::chart::Chart;
use crate::frame::{EDGE, LARGE_TEXT, Plot, TOP, WIDTH, finish, fitted, nothing, titled};
use crate::number::{counted, fixed, human};
use crate::scale::Linear;
use crate::svg::{Anchor, Svg};

const LEFT: f64 = 84.0;
/// Side of the square plot.
const SIDE: f64 = 240.0;
/// The histogram's distance from the plot, and its height.
const HISTOGRAM_GAP: f64 = 24.0;
const HISTOGRAM_HEIGHT: f64 = 44.0;
const HEIGHT: f64 = TOP + SIDE + HISTOGRAM_GAP + HISTOGRAM_HEIGHT + 56.0;
/// Where the legend begins.
const LEGEND: f64 = LEFT + SIDE + 36.0;
/// Radii of the smallest and the largest dot.
const RADII: (f64, f64) = (3.0, 10.0);

/// Predictions of about the same probability, and how often they came true. All but the count are 0..=1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bin {
    /// Their mean prediction.
    pub predicted: f64,
    /// The share that came true.
    pub observed: f64,
    /// Lower end of an interval of the observed share.
    pub low: f64,
    /// Upper end of it.
    pub high: f64,
    /// How many predictions.
    pub count: u64,
}

/// Observed against predicted with interval bars over the diagonal, and a histogram of the counts beneath. `error` is
/// the expected calibration error.
pub fn reliability(title: &str, bins: &[Bin], error: Option<f64>) -> Chart {
    let known: Vec<Bin> = bins.iter().copied().filter(is_known).collect();
    let most = known.iter().map(|bin| bin.count).max().unwrap_or(0);
    if most == 0 {
        return nothing(title, "No prediction has come to its outcome.");
    }
    let error = error.filter(|error| error.is_finite());
    let plot = Plot { left: LEFT, right: LEFT + SIDE, top: TOP, bottom: TOP + SIDE };
    let (x, y) = (plot.x(0.0, 1.0), plot.y(0.0, 1.0));
    let mut svg = titled(title);
    plot.y_label(&mut svg, "Observed frequency");
    plot.y_ticks(&mut svg, &y, 5, true);
    svg.line("c-axis", (plot.left, plot.bottom), (plot.right, plot.bottom));
    svg.line("c-diagonal", (plot.left, plot.bottom), (plot.right, plot.top));
    for bin in &known {
        let at = x.at(bin.predicted);
        svg.group(&described(bin));
        if bin.low.is_finite() && bin.high.is_finite() {
            let (upper, lower) = (y.at(bin.high.max(bin.low)), y.at(bin.low.min(bin.high)));
            svg.line("c-whisker", (at, upper), (at, lower));
            for end in [upper, lower] {
                svg.line("c-whisker", (at - 4.0, end), (at + 4.0, end));
            }
        }
        svg.circle("c-dot", (at, y.at(bin.observed)), radius(bin.count, most)).done();
        svg.end_group();
    }
    draw_histogram(&mut svg, &plot, &x, &known, most);
    draw_legend(&mut svg, &known, error);
    finish(title, summary(&known, error), HEIGHT, svg)
}

fn is_known(bin: &Bin) -> bool {
    bin.predicted.is_finite() && bin.observed.is_finite() && bin.count > 0
}

fn radius(count: u64, most: u64) -> f64 {
    (RADII.1 * (count as f64 / most as f64).sqrt()).max(RADII.0)
}

fn draw_histogram(svg: &mut Svg, plot: &Plot, x: &Linear, bins: &[Bin], most: u64) {
    let top = plot.bottom + HISTOGRAM_GAP;
    let under = Plot { top, bottom: top + HISTOGRAM_HEIGHT, ..*plot };
    let y = under.y(0.0, most as f64);
    let mut places: Vec<f64> = bins.iter().map(|bin| x.at(bin.predicted)).collect();
    places.sort_by(f64::total_cmp);
    let closest = places.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 0.0).fold(20.0, f64::min);
    let width = (closest * 0.8).max(2.0);
    svg.line("c-grid", (under.left, under.top), (under.right, under.top));
    svg.text_centred("c-tick", Anchor::End, under.left - 8.0, under.top + 4.0, &human(most as f64));
    for bin in bins {
        // A bin with a single prediction among thousands still shows.
        let height = (under.bottom - y.at(bin.count as f64)).max(1.0);
        let left = x.at(bin.predicted) - width / 2.0;
        svg.rect("c-bar", (left, under.bottom - height), (width, height)).hover(&described(bin));
    }
    under.x_value_ticks(svg, x, 5);
    under.x_label(svg, "Predicted probability");
}

fn draw_legend(svg: &mut Svg, bins: &[Bin], error: Option<f64>) {
    let mut y = TOP + 12.0;
    if let Some(error) = error {
        svg.text("c-label", Anchor::Start, LEGEND, y, "Expected calibration error");
        svg.text("c-figure", Anchor::Start, LEGEND, y + 32.0, &fixed(error, 3));
        y += 74.0;
    }
    let middle = LEGEND + 12.0;
    let row = LARGE_TEXT * 1.5;
    let text = |svg: &mut Svg, y: f64, text: &str| svg.text_centred("c-text", Anchor::Start, LEGEND + 34.0, y, text);
    svg.circle("c-dot", (middle, y), 7.0).done();
    text(svg, y, "a bin; area by count");
    y += row;
    svg.line("c-whisker", (middle, y - 10.0), (middle, y + 10.0));
    svg.line("c-whisker", (middle - 4.0, y - 10.0), (middle + 4.0, y - 10.0));
    svg.line("c-whisker", (middle - 4.0, y + 10.0), (middle + 4.0, y + 10.0));
    text(svg, y, "interval of the observed");
    y += row;
    svg.line("c-diagonal", (LEGEND, y + 8.0), (LEGEND + 24.0, y - 8.0));
    text(svg, y, "perfect calibration");
    let total: u128 = bins.iter().map(|bin| u128::from(bin.count)).sum();
    let total = format!("{} predictions, {}", human(total as f64), counted(bins.len(), "bin"));
    let beside = TOP + SIDE + HISTOGRAM_GAP + HISTOGRAM_HEIGHT / 2.0;
    fitted(svg, "c-label", Anchor::Start, (LEGEND, beside, true), &total, WIDTH - EDGE - LEGEND);
}

fn described(bin: &Bin) -> String {
    let mut text = format!("Predicted {}, observed {}", fixed(bin.predicted, 3), fixed(bin.observed, 3));
    if bin.low.is_finite() && bin.high.is_finite() {
        text += &format!(" ({} to {})", fixed(bin.low, 3), fixed(bin.high, 3));
    }
    text + &format!(", {}", counted(usize::try_from(bin.count).unwrap_or(usize::MAX), "prediction"))
}

fn summary(bins: &[Bin], error: Option<f64>) -> String {
    let total: u128 = bins.iter().map(|bin| u128::from(bin.count)).sum();
    let error = error.map(|error| format!("; expected calibration error {}", fixed(error, 3))).unwrap_or_default();
    let farthest = bins.iter().max_by(|a, b| distance(a).total_cmp(&distance(b)));
    let farthest = farthest.map(described).unwrap_or_default();
    let bins = counted(bins.len(), "bin");
    format!("{} predictions in {bins}{error}. Farthest from the diagonal: {}.", human(total as f64), lower(&farthest))
}

fn distance(bin: &Bin) -> f64 {
    (bin.predicted - bin.observed).abs()
}

fn lower(text: &str) -> String {
    text.replacen("Predicted", "predicted", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bin(predicted: f64, observed: f64, count: u64) -> Bin {
        Bin { predicted, observed, low: observed - 0.05, high: observed + 0.05, count }
    }

    #[test]
    fn error_counts_and_bins_are_told() {
        let chart = reliability("T", &[bin(0.1, 0.12, 400), bin(0.9, 0.7, 100)], Some(0.0561));
        assert_eq!(
            chart.summary(),
            "500 predictions in 2 bins; expected calibration error 0.056. \
             Farthest from the diagonal: predicted 0.9, observed 0.7 (0.65 to 0.75), 100 predictions."
        );
        let svg = chart.inline();
        assert!(svg.contains(">0.056<") && svg.contains("<title>Predicted 0.1, observed 0.12 (0.07 to 0.17), 400"));
        assert_eq!(svg.matches("class=\"c-bar\"").count(), 2);
    }

    #[test]
    fn a_dots_area_follows_the_count() {
        assert_eq!(radius(400, 400), 10.0);
        assert_eq!(radius(100, 400), 5.0);
        assert_eq!(radius(1, u64::MAX), 3.0);
    }

    #[test]
    fn unknown_bins_errors_and_intervals_are_left_out() {
        let strange = Bin { low: f64::NAN, high: f64::INFINITY, ..bin(0.5, 0.5, u64::MAX) };
        let chart = reliability("T", &[strange, bin(f64::NAN, 0.5, 9), bin(0.2, 0.2, 0), strange], Some(f64::NAN));
        assert!(chart.summary().contains("in 2 bins. "), "{}", chart.summary());
        assert!(!chart.inline().contains("NaN") && !chart.inline().contains("inf"));
        assert!(reliability("T", &[bin(0.2, 0.2, 0)], None).summary().starts_with("Nothing to show yet"));
    }
}
