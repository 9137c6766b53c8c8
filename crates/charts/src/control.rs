//! A control chart: observations around their mean, with limits at one, two and three standard deviations.

use crate::chart::Chart;
use crate::frame::{BELOW, EDGE, LARGE_TEXT, LINE_GAPS, Plot, TOP, WIDTH, finish, fitted, nothing, titled, width_of};
use crate::number::{counted, human};
use crate::scale::{LabelVisibility, Linear, room, thin};
use crate::svg::{Anchor, Svg};

const HEIGHT: f64 = 320.0;
/// Where the plot ends and the limits' labels begin.
const RIGHT: f64 = 502.0;
/// More points than this are thinned to it; marked ones always stay.
const MOST_POINTS: usize = 240;
/// Up to this many points are drawn large.
const FEW_POINTS: usize = 60;
/// Marks told one by one in the summary.
const TOLD_MARKS: usize = 3;
/// Limits in the order of their importance, which decides whose label stays when they are close.
const LIMITS: [f64; 7] = [0.0, 3.0, -3.0, 2.0, -2.0, 1.0, -1.0];

/// Something to point out at one observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The observation's place in [`Series::points`], from 0.
    pub index: usize,
    /// Why it is marked.
    pub text: String,
}

/// Observations of one quantity, in order, with the mean and deviation they are judged by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Series<'a> {
    /// What is measured.
    pub name: &'a str,
    /// In which unit; may be empty.
    pub unit: &'a str,
    /// The observations, oldest first.
    pub points: &'a [f64],
    /// The centre line.
    pub mean: f64,
    /// The distance of the limits.
    pub stddev: f64,
    /// Below this nothing can be, where there is such a bound: limits below it are not drawn.
    pub least: Option<f64>,
    /// Observations drawn as marked.
    pub marks: &'a [Mark],
}

/// A control chart: centre line, labelled limits, the observations joined, and the marked ones as diamonds.
pub fn control(title: &str, series: &Series<'_>) -> Chart {
    let known: Vec<(usize, f64)> = series.points.iter().copied().enumerate().filter(|(_, v)| v.is_finite()).collect();
    if known.is_empty() {
        return nothing(title, "Nothing has been measured.");
    }
    let limits = limits(series);
    let values = known.iter().map(|(_, value)| *value).chain(limits.iter().map(|(_, at)| *at));
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    let plot = Plot { left: 92.0, right: RIGHT, top: TOP, bottom: HEIGHT - BELOW };
    // A margin of four hundredths, so that the outermost dots are whole.
    let margin = (high / 25.0 - low / 25.0).abs();
    let y = plot.y(low - margin, high + margin);
    let count = series.points.len();
    let x = Linear::new((1.0, count as f64), (plot.left + 10.0, plot.right - 10.0));

    let mut svg = titled(title);
    let marked = known.iter().filter(|(index, _)| series.marks.iter().any(|mark| mark.index == *index)).count();
    draw_label(&mut svg, &plot, series, marked);
    draw_limits(&mut svg, &plot, &y, &limits);
    plot.y_ticks(&mut svg, &y, 6, false);
    let ticks = Linear::new((1.0, count as f64), (0.0, 1.0)).ticks(8).0.into_iter().filter(|at| at.fract() == 0.0);
    let ticks: Vec<f64> = [1.0].into_iter().chain(ticks.filter(|at| *at > 1.0)).collect();
    let ticks: Vec<(f64, String)> = ticks.into_iter().map(|at| (x.at(at), format!("{at:.0}"))).collect();
    plot.x_ticks(&mut svg, &ticks);
    plot.x_label(&mut svg, "Observation, in order");
    draw_points(&mut svg, series, &known, &x, &y);
    finish(title, summary(series, &known, marked), HEIGHT, svg)
}

/// The centre and the limits with their distance in deviations; only the known ones.
fn limits(series: &Series<'_>) -> Vec<(f64, f64)> {
    let has_spread = series.stddev.is_finite() && series.stddev > 0.0;
    let all = LIMITS.into_iter().filter(|sigmas| *sigmas == 0.0 || has_spread);
    let placed = all.map(|s| (s, if s == 0.0 { series.mean } else { series.mean + s * series.stddev }));
    let least = series.least.unwrap_or(f64::NEG_INFINITY);
    placed.filter(|(_, at)| at.is_finite() && *at >= least).collect()
}

fn draw_label(svg: &mut Svg, plot: &Plot, series: &Series<'_>, marked: usize) {
    let label = if series.unit.is_empty() { series.name.into() } else { format!("{}, {}", series.name, series.unit) };
    if marked == 0 {
        return plot.y_label(svg, &label);
    }
    let legend = format!("{marked} marked");
    let left = WIDTH - EDGE - 130.0;
    fitted(svg, "c-label", Anchor::Start, (EDGE, 48.0, false), &label, left - 2.0 * EDGE);
    svg.area("c-mark", &diamond((left, 43.0))).done();
    svg.text("c-label", Anchor::Start, left + 14.0, 48.0, &legend);
}

fn draw_limits(svg: &mut Svg, plot: &Plot, y: &Linear, limits: &[(f64, f64)]) {
    for sigmas in [3.0, 2.0, 1.0] {
        let place = |sign: f64| limits.iter().find(|(s, _)| *s == sign * sigmas).map(|(_, at)| y.at(*at));
        if let Some(upper) = place(1.0) {
            let lower = place(-1.0).unwrap_or(plot.bottom);
            svg.rect("c-zone", (plot.left, upper), (plot.width(), lower - upper)).done();
        }
    }
    let places: Vec<f64> = limits.iter().map(|(_, at)| y.at(*at)).collect();
    for (((sigmas, at), y), shown) in limits.iter().zip(&places).zip(room(&places, LINE_GAPS.0, LINE_GAPS.1)) {
        let name = match *sigmas {
            0.0 => String::from("mean"),
            sigmas if sigmas > 0.0 => format!("+{sigmas}σ"),
            sigmas => format!("−{}σ", -sigmas),
        };
        let label = format!("{name} {}", human(*at));
        svg.group(&label);
        let class = if *sigmas == 0.0 { "c-centre".into() } else { format!("c-limit-{}", sigmas.abs()) };
        svg.line(&class, (plot.left, *y), (plot.right, *y));
        let left = plot.right + 6.0;
        let fits = width_of(&label) * LARGE_TEXT <= WIDTH - left;
        match shown {
            LabelVisibility::Never => {}
            LabelVisibility::Always if fits => svg.text_centred("c-tick", Anchor::Start, left, *y, &label),
            LabelVisibility::Always => {
                // A cut number would be a wrong one: the large text names the limit alone.
                svg.text_centred("c-tick c-extra", Anchor::Start, left, *y, &label);
                svg.text_centred("c-tick c-narrow", Anchor::Start, left, *y, &name);
            }
            LabelVisibility::Wide => svg.text_centred("c-tick c-extra", Anchor::Start, left, *y, &label),
        }
        svg.end_group();
    }
}

fn draw_points(svg: &mut Svg, series: &Series<'_>, known: &[(usize, f64)], x: &Linear, y: &Linear) {
    let values: Vec<f64> = known.iter().map(|(_, value)| *value).collect();
    let kept = thin(&values, MOST_POINTS);
    let is_marked = |index: usize| series.marks.iter().any(|mark| mark.index == index);
    let drawn = known.iter().enumerate().filter(|(n, (index, _))| kept.binary_search(n).is_ok() || is_marked(*index));
    let drawn: Vec<(usize, f64)> = drawn.map(|(_, point)| *point).collect();
    let place = |(index, value): (usize, f64)| (x.at(index as f64 + 1.0), y.at(value));
    let line: Vec<(f64, f64)> = drawn.iter().map(|point| place(*point)).collect();
    svg.path("c-line", &line).done();
    let (class, radius) = if drawn.len() <= FEW_POINTS { ("c-dot", 3.5) } else { ("c-dot c-dense", 1.8) };
    let (marked, plain): (Vec<_>, Vec<_>) = drawn.iter().partition(|(index, _)| is_marked(*index));
    for point in plain {
        svg.circle(class, place(point), radius).hover(&described(series, point));
    }
    for point in marked {
        let hover = format!("{}: {}", described(series, point), texts(series, point.0));
        svg.area("c-mark", &diamond(place(point))).hover(&hover);
    }
}

fn diamond((x, y): (f64, f64)) -> [(f64, f64); 4] {
    const HALF: f64 = 7.0;
    [(x, y - HALF), (x + HALF, y), (x, y + HALF), (x - HALF, y)]
}

fn texts(series: &Series<'_>, index: usize) -> String {
    let texts: Vec<&str> =
        series.marks.iter().filter(|mark| mark.index == index).map(|mark| mark.text.as_str()).collect();
    texts.join("; ")
}

fn described(series: &Series<'_>, (index, value): (usize, f64)) -> String {
    format!("Observation {}: {}", index + 1, with_unit(value, series.unit))
}

fn with_unit(value: f64, unit: &str) -> String {
    if unit.is_empty() { human(value) } else { format!("{} {unit}", human(value)) }
}

fn summary(series: &Series<'_>, known: &[(usize, f64)], marked: usize) -> String {
    let last = known.last().map(|(_, value)| with_unit(*value, series.unit)).unwrap_or_default();
    let mut text = format!("{} of {}, the last {last}", counted(known.len(), "observation"), series.name);
    if series.mean.is_finite() {
        text += &format!("; mean {}", human(series.mean));
    }
    if series.stddev.is_finite() {
        text += &format!(", standard deviation {}", human(series.stddev.max(0.0)));
    }
    if marked == 0 {
        return text + ". None is marked.";
    }
    let mut told: Vec<String> = Vec::new();
    for (index, _) in known.iter().filter(|(index, _)| series.marks.iter().any(|mark| mark.index == *index)) {
        if told.len() == TOLD_MARKS {
            told.push(format!("and {} more", marked - TOLD_MARKS));
            break;
        }
        told.push(format!("{} ({})", index + 1, texts(series, *index)));
    }
    format!("{text}. {marked} marked: {}.", told.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series<'a>(points: &'a [f64], marks: &'a [Mark]) -> Series<'a> {
        Series { name: "latency", unit: "ms", points, mean: 1_200.0, stddev: 100.0, least: None, marks }
    }

    #[test]
    fn limits_marks_and_values_are_told() {
        let marks = [Mark { index: 2, text: "above 3σ".into() }, Mark { index: 9, text: "not there".into() }];
        let chart = control("T", &series(&[1_210.0, 1_150.0, 1_600.0, 1_190.0], &marks));
        assert_eq!(
            chart.summary(),
            "4 observations of latency, the last 1.19 k ms; mean 1.2 k, standard deviation 100. 1 marked: 3 (above 3σ)."
        );
        let svg = chart.inline();
        for part in [
            "<title>Observation 3: 1.6 k ms: above 3σ</title>",
            "+3σ 1.5 k",
            "−3σ 900",
            "mean 1.2 k",
            ">1 marked<",
            ">latency, ms<",
            "c-limit-1",
        ] {
            assert!(svg.contains(part), "missing {part}");
        }
        assert_eq!(svg.matches("<circle").count(), 3);
        assert!(!svg.contains("not there"));
    }

    #[test]
    fn unknown_values_leave_a_chart_of_the_rest() {
        let points = [f64::NAN, 5.0, f64::INFINITY, 5.0];
        let unknown = Series { mean: f64::NAN, stddev: f64::NAN, ..series(&points, &[]) };
        let svg = control("T", &unknown).inline();
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(!svg.contains("σ") && !svg.contains("NaN") && !svg.contains("inf"));
        assert!(control("T", &series(&points[..1], &[])).summary().starts_with("Nothing to show yet"));
    }

    #[test]
    fn no_deviation_draws_the_centre_alone() {
        let svg = control("T", &Series { stddev: 0.0, ..series(&[1_200.0; 3], &[]) }).inline();
        assert!(svg.contains("c-centre") && !svg.contains("c-limit"));
    }

    #[test]
    fn marks_survive_thinning() {
        let points: Vec<f64> = (0..3_000).map(|n| 1_200.0 + f64::from(n % 11)).collect();
        let marks = [Mark { index: 1_717, text: "a run of eight".into() }];
        let svg = control("T", &series(&points, &marks)).inline();
        assert!(svg.contains("a run of eight"));
        assert!(svg.matches("<circle").count() <= MOST_POINTS);
    }

    #[test]
    fn the_largest_numbers_do_not_break_the_scale() {
        let svg = control("T", &Series { mean: 0.0, stddev: f64::MAX, ..series(&[f64::MAX, f64::MIN], &[]) }).inline();
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn what_cannot_be_negative_has_no_limit_there() {
        let points = [10.0, 12.0, 300.0, 11.0];
        let series = Series {
            name: "latency",
            unit: "ms",
            points: &points,
            mean: 83.0,
            stddev: 140.0,
            least: Some(0.0),
            marks: &[],
        };
        let drawn = control("t", &series).inline();
        assert!(drawn.contains("+3σ") && !drawn.contains("−1σ"), "{drawn}");
        assert!(control("t", &Series { least: None, ..series }).inline().contains("−1σ"));
    }
}
