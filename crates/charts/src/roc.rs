//! Receiver operating characteristic: how many true alarms a detector gains for the false ones it accepts.

use crate::chart::Chart;
use crate::frame::{BELOW, EDGE, Plot, TOP, WIDTH, finish, fitted, nothing, titled};
use crate::number::{counted, fixed};
use crate::scale::thin;
use crate::svg::{Anchor, Svg};

/// Side of the square plot.
const SIDE: f64 = 250.0;
const LEFT: f64 = 56.0;
/// Where the legend begins, and the distance of its rows.
const LEGEND: f64 = LEFT + SIDE + 34.0;
const ROW: f64 = 27.0;
/// Colours and dashes of the stylesheet; their counts share no factor, so 30 curves differ.
const COLOURS: usize = 6;
const DASHES: usize = 5;
/// More points than this are thinned to it.
const MOST_POINTS: usize = 120;
/// Up to this many points have dots, seen when hovered: drawn always, they would hide the dashes.
const FEW_POINTS: usize = 40;
/// Curves told one by one in the summary.
const TOLD_CURVES: usize = 6;

/// One detector's curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Curve<'a> {
    /// The detector.
    pub name: &'a str,
    /// Pairs of false and true positive rate, 0..=1, ascending.
    pub points: &'a [(f64, f64)],
    /// The area under the curve, 0..=1.
    pub area: f64,
}

/// Curves over the diagonal of chance, with a legend that gives each curve's area.
pub fn roc(title: &str, curves: &[Curve<'_>]) -> Chart {
    let points: Vec<Vec<(f64, f64)>> = curves.iter().map(rates).collect();
    let drawable = points.iter().filter(|points| !points.is_empty()).count();
    if drawable == 0 {
        return nothing(title, "No detector has been measured.");
    }
    let plot = Plot { left: LEFT, right: LEFT + SIDE, top: TOP, bottom: TOP + SIDE };
    let (x, y) = (plot.x(0.0, 1.0), plot.y(0.0, 1.0));
    let mut svg = titled(title);
    plot.y_label(&mut svg, "True positive rate");
    plot.y_ticks(&mut svg, &y, 5, true);
    plot.x_value_ticks(&mut svg, &x, 5);
    plot.x_label(&mut svg, "False positive rate");
    svg.line("c-diagonal", (plot.left, plot.bottom), (plot.right, plot.top));
    let rows = draw_legend(&mut svg, curves, &points);
    for (index, (curve, points)) in curves.iter().zip(&points).enumerate().filter(|(_, (_, points))| !points.is_empty())
    {
        let places: Vec<(f64, f64)> = points.iter().map(|(fpr, tpr)| (x.at(*fpr), y.at(*tpr))).collect();
        svg.path(&format!("c-line {}", stroke(index)), &places).hover(&described(curve));
        for ((fpr, tpr), place) in points.iter().zip(&places).filter(|_| points.len() <= FEW_POINTS) {
            let rates = format!("{}: false {}, true {}", curve.name, fixed(*fpr, 3), fixed(*tpr, 3));
            svg.circle(&format!("c-dot c-hit c-fill-{}", index % COLOURS), *place, 4.0).hover(&rates);
        }
    }
    let height = (plot.bottom + BELOW).max(TOP + ROW * rows as f64 + 24.0);
    finish(title, summary(curves, drawable), height, svg)
}

/// The known points of a curve, cut to 0..=1 and thinned.
fn rates(curve: &Curve<'_>) -> Vec<(f64, f64)> {
    let known = curve.points.iter().filter(|(fpr, tpr)| fpr.is_finite() && tpr.is_finite());
    let cut: Vec<(f64, f64)> = known.map(|(fpr, tpr)| (fpr.clamp(0.0, 1.0), tpr.clamp(0.0, 1.0))).collect();
    let heights: Vec<f64> = cut.iter().map(|(_, tpr)| *tpr).collect();
    thin(&heights, MOST_POINTS).into_iter().map(|index| cut[index]).collect()
}

fn stroke(index: usize) -> String {
    format!("c-stroke-{} c-dash-{}", index % COLOURS, index % DASHES)
}

/// A row per curve, with its line, name and area; gives the number of rows.
fn draw_legend(svg: &mut Svg, curves: &[Curve<'_>], points: &[Vec<(f64, f64)>]) -> usize {
    let row = |svg: &mut Svg, number: usize, class: &str, name: &str, area: &str| {
        let y = TOP + 8.0 + ROW * number as f64;
        svg.line(class, (LEGEND, y), (LEGEND + 34.0, y));
        let left = LEGEND + 42.0;
        fitted(svg, "c-text", Anchor::Start, (left, y, true), name, WIDTH - EDGE - 76.0 - left);
        svg.text_centred("c-value", Anchor::End, WIDTH - EDGE, y, area);
    };
    svg.text_centred("c-label", Anchor::End, WIDTH - EDGE, TOP + 8.0, "area under the curve");
    for (index, (curve, points)) in curves.iter().zip(points).enumerate() {
        let area = match (points.is_empty(), curve.area.is_finite()) {
            (true, _) => "no data".into(),
            (false, true) => fixed(curve.area, 3),
            (false, false) => "unknown".into(),
        };
        svg.group(&described(curve));
        row(svg, index + 1, &format!("c-line {}", stroke(index)), curve.name, &area);
        svg.end_group();
    }
    row(svg, curves.len() + 1, "c-diagonal", "chance", "0.5");
    curves.len() + 2
}

fn described(curve: &Curve<'_>) -> String {
    if curve.area.is_finite() { format!("{}: area {}", curve.name, fixed(curve.area, 3)) } else { curve.name.into() }
}

fn summary(curves: &[Curve<'_>], drawable: usize) -> String {
    let mut told: Vec<String> = curves.iter().take(TOLD_CURVES).map(described).collect();
    if curves.len() > TOLD_CURVES {
        told.push(format!("and {} more", curves.len() - TOLD_CURVES));
    }
    format!(
        "{} of true against false positive rate. {}. Chance has area 0.5.",
        counted(drawable, "curve"),
        told.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINTS: [(f64, f64); 4] = [(0.0, 0.0), (0.1, 0.7), (0.4, 0.9), (1.0, 1.0)];

    #[test]
    fn areas_names_and_points_are_told() {
        let curves = [
            Curve { name: "engine", points: &POINTS, area: 0.8512 },
            Curve { name: "baseline", points: &POINTS[..2], area: f64::NAN },
        ];
        let chart = roc("T", &curves);
        assert_eq!(
            chart.summary(),
            "2 curves of true against false positive rate. engine: area 0.851; baseline. Chance has area 0.5."
        );
        let svg = chart.inline();
        for part in [">0.851<", ">unknown<", ">chance<", "<title>engine: false 0.1, true 0.7</title>", "c-dash-1"] {
            assert!(svg.contains(part), "missing {part}");
        }
    }

    #[test]
    fn many_curves_differ_by_more_than_colour_and_get_room() {
        let curves: Vec<Curve<'_>> = (0..30).map(|_| Curve { name: "n", points: &POINTS, area: 0.5 }).collect();
        let styles: std::collections::BTreeSet<String> = (0..30).map(stroke).collect();
        assert_eq!(styles.len(), 30);
        assert!(f64::from(roc("T", &curves).height) > 30.0 * ROW);
    }

    #[test]
    fn unknown_points_are_left_out() {
        let points = [(f64::NAN, 0.2), (0.3, f64::INFINITY), (0.5, 7.0)];
        let svg = roc("T", &[Curve { name: "x", points: &points, area: 0.5 }]).inline();
        assert_eq!(svg.matches("<circle").count(), 1);
        assert!(roc("T", &[Curve { name: "x", points: &points[..2], area: 0.5 }]).summary().starts_with("Nothing"));
        assert!(roc("T", &[]).summary().starts_with("Nothing"));
    }
}
