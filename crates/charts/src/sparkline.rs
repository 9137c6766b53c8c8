//! A sparkline: a score's course at the size of a word. [`SPAN`] points are its height, wherever they lie on 0..=100, so that the
//! slopes of two of them compare; only a course that moved further is drawn smaller.

use crate::chart::Chart;
use crate::number::{counted, fixed};
use crate::scale::{Linear, thin};
use crate::svg::{Anchor, Svg};

const WIDTH: f64 = 120.0;
const HEIGHT: f64 = 28.0;
/// Room for the last dot at the edges.
const MARGIN: f64 = 4.0;
/// Points of the score from the bottom to the top.
const SPAN: f64 = 30.0;
/// A point per unit of width is all that can be seen.
const MOST_POINTS: usize = 120;

/// 120 by 28 units, no axes, the last point dotted.
pub fn sparkline(label: &str, values: &[f64]) -> Chart {
    let known: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let mut svg = Svg::default();
    let summary = match known.last() {
        None => {
            svg.text_centred("c-label", Anchor::Middle, WIDTH / 2.0, HEIGHT / 2.0, "no scores yet");
            "Nothing to show yet. No score has been recorded.".into()
        }
        Some(last) => {
            draw(&mut svg, &known);
            summary(*last, &known)
        }
    };
    let (width, height) = (WIDTH as u32, HEIGHT as u32);
    Chart { title: label.into(), summary, class: "c-chart c-spark", width, height, body: svg.into_text() }
}

fn draw(svg: &mut Svg, scores: &[f64]) {
    // What cannot be a score is drawn at the edge of the scale.
    let values: Vec<f64> = scores.iter().map(|score| score.clamp(0.0, 100.0)).collect();
    let values = values.as_slice();
    let x = Linear::new((0.0, values.len().saturating_sub(1).max(1) as f64), (MARGIN, WIDTH - MARGIN));
    let y = Linear::new(range(values), (HEIGHT - MARGIN, MARGIN));
    let kept = thin(values, MOST_POINTS);
    let mut places: Vec<(f64, f64)> = kept.into_iter().map(|index| (x.at(index as f64), y.at(values[index]))).collect();
    if let [(only, _)] = places.as_mut_slice() {
        // The latest score stands at the right, as in the rows above and below it.
        *only = WIDTH - MARGIN;
    } else {
        svg.path("c-line", &places).done();
    }
    if let (Some(place), Some(value)) = (places.last(), scores.last()) {
        svg.circle("c-dot", *place, 3.0).hover(&fixed(*value, 1));
    }
}

/// What the height shows: the values in the middle, and nothing beyond the scale.
fn range(values: &[f64]) -> (f64, f64) {
    let lowest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let span = (highest - lowest).max(SPAN);
    let from = ((lowest + highest - span) / 2.0).clamp(0.0, 100.0 - span);
    (from, from + span)
}

fn summary(last: f64, values: &[f64]) -> String {
    let lowest = fixed(values.iter().copied().fold(f64::INFINITY, f64::min), 1);
    let highest = fixed(values.iter().copied().fold(f64::NEG_INFINITY, f64::max), 1);
    let count = counted(values.len(), "value");
    format!("Latest {}, lowest {lowest}, highest {highest}, of {count}.", fixed(last, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_compare_and_the_last_point_has_its_value() {
        assert_eq!(
            [range(&[50.0, 60.0]), range(&[2.0]), range(&[95.0, 99.0])],
            [(40.0, 70.0), (0.0, 30.0), (70.0, 100.0)]
        );
        assert_eq!(range(&[10.0, 90.0]), (10.0, 90.0));
        let svg = sparkline("agent", &[0.0, 100.0, 50.0]).inline();
        assert!(svg.contains("d=\"M4 24L60 4L116 14\""), "{svg}");
        assert!(svg.contains("cx=\"116\" cy=\"14\" r=\"3\"><title>50</title>"));
        assert!(svg.contains("viewBox=\"0 0 120 28\""));
    }

    #[test]
    fn one_value_is_a_dot_and_none_is_words() {
        let one = sparkline("agent", &[f64::NAN, 72.0]).inline();
        assert!(one.contains("cx=\"116\"") && !one.contains("<path"));
        assert!(sparkline("agent", &[f64::NAN]).inline().contains("no scores yet"));
    }

    #[test]
    fn thousands_of_values_stay_small() {
        let values: Vec<f64> = (0..9_000).map(|n| f64::from(n % 100)).collect();
        assert!(sparkline("agent", &values).inline().len() < 2_000);
    }
}
