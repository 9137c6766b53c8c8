//! Horizontal bars, one row per thing: what pulled a score up or down, plain amounts, and intervals.
//!
//! A row is a label, a bar and the value in figures. The picture grows with the rows, so nothing is ever squeezed.

use crate::chart::Chart;
use crate::frame::{EDGE, WIDTH, finish, fitted, nothing, titled};
use crate::number::{counted, human, signed};
use crate::scale::Linear;
use crate::svg::{Anchor, Svg};

/// Height of a row and of its bar.
const ROW: f64 = 32.0;
const THICK: f64 = 16.0;
/// Where the bars begin and end; labels are left of it, figures right of it.
const LEFT: f64 = 250.0;
const RIGHT: f64 = 540.0;
/// Middle of the first row, under the title alone and under a line that names the directions.
const FIRST_ROW: f64 = 58.0;
const FIRST_PULL: f64 = 82.0;
/// Rows told one by one in the summary.
const TOLD_ROWS: usize = 3;

/// What one source did to a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Pull<'a> {
    /// The source.
    pub label: &'a str,
    /// By how much it raised (above zero) or lowered the value.
    pub value: f64,
    /// More about it, shown on hovering; may be empty.
    pub detail: String,
}

/// An amount.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar<'a> {
    /// Of what.
    pub label: &'a str,
    /// How much, from zero up.
    pub value: f64,
}

/// A number that is known only within bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval<'a> {
    /// Of what.
    pub label: &'a str,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
    /// What was measured.
    pub value: f64,
    /// The figures of the row, such as `3 of 10`.
    pub figures: String,
}

/// Bars to the right of zero for what raised the value and to the left for what lowered it, with signed figures.
pub fn pulls(title: &str, unit: &str, pulls: &[Pull<'_>]) -> Chart {
    let known: Vec<&Pull<'_>> = pulls.iter().filter(|pull| pull.value.is_finite()).collect();
    if known.is_empty() {
        return nothing(title, "Nothing has pulled in either direction.");
    }
    let low = known.iter().map(|pull| pull.value).fold(0.0, f64::min);
    let high = known.iter().map(|pull| pull.value).fold(0.0, f64::max);
    let x = Linear::new((low, if high == low { 1.0 } else { high }), (LEFT, RIGHT));
    let zero = x.at(0.0);
    let bottom = FIRST_PULL - ROW / 2.0 + ROW * known.len() as f64;
    let mut svg = titled(title);
    if low < 0.0 {
        svg.text("c-label", Anchor::End, zero - 8.0, 54.0, "← lowered");
    }
    if high > 0.0 {
        svg.text("c-label", Anchor::Start, zero + 8.0, 54.0, "raised →");
    }
    for (index, pull) in known.iter().enumerate() {
        let middle = FIRST_PULL + ROW * index as f64;
        let value = signed(pull.value);
        let detail = if pull.detail.is_empty() { String::new() } else { format!(". {}", pull.detail) };
        let (class, from, to) =
            if pull.value < 0.0 { ("c-lowered", x.at(pull.value), zero) } else { ("c-raised", zero, x.at(pull.value)) };
        svg.group(&format!("{}: {}{detail}", pull.label, with_unit(&value, unit)));
        row(&mut svg, middle, pull.label, &value);
        bar(&mut svg, class, middle, (from, to));
        svg.end_group();
    }
    svg.line("c-axis", (zero, FIRST_PULL - ROW / 2.0), (zero, bottom));
    let height = foot(&mut svg, bottom, &[(zero, "0".into())], unit);
    finish(title, pulls_summary(&known, unit), height, svg)
}

/// Plain bars from zero to `max`.
pub fn bars(title: &str, unit: &str, bars: &[Bar<'_>], max: f64) -> Chart {
    let known: Vec<&Bar<'_>> = bars.iter().filter(|bar| bar.value.is_finite()).collect();
    if known.is_empty() {
        return nothing(title, "Nothing has been counted.");
    }
    let largest = known.iter().map(|bar| bar.value).fold(0.0, f64::max);
    let max = [max, largest, 1.0].into_iter().find(|max| max.is_finite() && *max > 0.0).unwrap_or(1.0);
    let x = Linear::new((0.0, max), (LEFT, RIGHT));
    let bottom = FIRST_ROW - ROW / 2.0 + ROW * known.len() as f64;
    let mut svg = titled(title);
    for (index, each) in known.iter().enumerate() {
        let middle = FIRST_ROW + ROW * index as f64;
        let value = human(each.value);
        svg.group(&format!("{}: {} of {}", each.label, with_unit(&value, unit), human(max)));
        row(&mut svg, middle, each.label, &value);
        svg.rect("c-track", (LEFT, middle - THICK / 2.0), (RIGHT - LEFT, THICK)).attr("rx", "2").done();
        bar(&mut svg, "c-bar", middle, (LEFT, x.at(each.value)));
        svg.end_group();
    }
    svg.line("c-axis", (LEFT, FIRST_ROW - ROW / 2.0), (LEFT, bottom));
    let height = foot(&mut svg, bottom, &[(LEFT, "0".into()), (RIGHT, human(max))], unit);
    finish(title, bars_summary(&known, unit, max), height, svg)
}

/// Bars from the lower to the upper bound, with a mark at the value, on a scale from zero to `max`.
pub fn intervals(title: &str, unit: &str, intervals: &[Interval<'_>], max: f64) -> Chart {
    let finite = |one: &&Interval<'_>| [one.low, one.high, one.value].iter().all(|number| number.is_finite());
    let known: Vec<&Interval<'_>> = intervals.iter().filter(finite).collect();
    if known.is_empty() || !max.is_finite() || max <= 0.0 {
        return nothing(title, "Nothing has been measured.");
    }
    let x = Linear::new((0.0, max), (LEFT, RIGHT));
    let within = |value: f64| x.at(value.clamp(0.0, max));
    let bottom = FIRST_ROW - ROW / 2.0 + ROW * known.len() as f64;
    let mut svg = titled(title);
    for (index, each) in known.iter().enumerate() {
        let middle = FIRST_ROW + ROW * index as f64;
        let bounds = with_unit(&format!("{} to {}", human(each.low), human(each.high)), unit);
        svg.group(&format!("{}: {}, {bounds}", each.label, each.figures));
        row(&mut svg, middle, each.label, &each.figures);
        svg.rect("c-track", (LEFT, middle - THICK / 2.0), (RIGHT - LEFT, THICK)).attr("rx", "2").done();
        bar(&mut svg, "c-bar", middle, (within(each.low), within(each.high.max(each.low))));
        let at = within(each.value);
        svg.line("c-axis", (at, middle - THICK / 2.0 - 3.0), (at, middle + THICK / 2.0 + 3.0));
        svg.end_group();
    }
    let height = foot(&mut svg, bottom, &[(LEFT, "0".into()), (RIGHT, human(max))], unit);
    let told = known.iter().take(TOLD_ROWS).map(|one| format!("{} {}", one.label, one.figures));
    let told: Vec<String> = told.collect();
    let summary =
        format!("{} on a scale of 0 to {}: {}.", counted(known.len(), "interval"), human(max), told.join(", "));
    finish(title, summary, height, svg)
}

/// The label and the figure of a row, and an invisible ground that makes the whole row hoverable.
fn row(svg: &mut Svg, middle: f64, label: &str, value: &str) {
    svg.rect("c-ground", (0.0, middle - ROW / 2.0), (WIDTH, ROW)).attr("fill", "none").done();
    fitted(svg, "c-text", Anchor::End, (LEFT - 12.0, middle, true), label, LEFT - 12.0 - EDGE);
    svg.text_centred("c-value", Anchor::End, WIDTH - EDGE, middle, value);
}

fn bar(svg: &mut Svg, class: &str, middle: f64, (from, to): (f64, f64)) {
    // Nothing is drawn for nothing, but something however small is seen.
    let width = if to - from > 0.0 { (to - from).max(1.0) } else { 0.0 };
    let left = if class == "c-lowered" { to - width } else { from };
    svg.rect(class, (left, middle - THICK / 2.0), (width, THICK)).attr("rx", "2").done();
}

/// The values under the bars and the unit; gives the height of the whole picture.
fn foot(svg: &mut Svg, bottom: f64, ticks: &[(f64, String)], unit: &str) -> f64 {
    for (x, label) in ticks {
        svg.text("c-tick", Anchor::Middle, *x, bottom + 20.0, label);
    }
    if unit.is_empty() {
        return bottom + 32.0;
    }
    fitted(svg, "c-label", Anchor::End, (WIDTH - EDGE, bottom + 44.0, false), unit, WIDTH - 2.0 * EDGE);
    bottom + 56.0
}

fn with_unit(value: &str, unit: &str) -> String {
    if unit.is_empty() { value.into() } else { format!("{value} {unit}") }
}

fn pulls_summary(pulls: &[&Pull<'_>], unit: &str) -> String {
    let raised = pulls.iter().filter(|pull| pull.value > 0.0).count();
    let lowered = pulls.iter().filter(|pull| pull.value < 0.0).count();
    let mut strongest = pulls.to_vec();
    strongest.sort_by(|a, b| b.value.abs().total_cmp(&a.value.abs()));
    let told = strongest.iter().take(TOLD_ROWS).map(|pull| format!("{} {}", pull.label, signed(pull.value)));
    let told: Vec<String> = told.collect();
    let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
    format!("{raised} raised and {lowered} lowered it; strongest{unit}: {}.", told.join(", "))
}

fn bars_summary(bars: &[&Bar<'_>], unit: &str, max: f64) -> String {
    let mut largest = bars.to_vec();
    largest.sort_by(|a, b| b.value.total_cmp(&a.value));
    let told =
        largest.iter().take(TOLD_ROWS).map(|bar| format!("{} {}", bar.label, with_unit(&human(bar.value), unit)));
    let told: Vec<String> = told.collect();
    format!("{} on a scale of 0 to {}; largest: {}.", counted(bars.len(), "bar"), human(max), told.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pull(label: &str, value: f64) -> Pull<'_> {
        Pull { label, value, detail: "since May".into() }
    }

    #[test]
    fn pulls_go_both_ways_from_zero_with_signs() {
        let chart = pulls("T", "points", &[pull("tests", 6.0), pull("complaint", -3.0), pull("idle", 0.0)]);
        assert_eq!(chart.summary(), "1 raised and 1 lowered it; strongest (points): tests +6, complaint −3, idle 0.");
        let svg = chart.inline();
        for part in [">+6<", ">−3<", "<title>tests: +6 points. since May</title>", ">points<", "raised →", "← lowered"]
        {
            assert!(svg.contains(part), "missing {part}");
        }
        // -3..6 on 250..540: zero is a third of the way.
        assert!(
            svg.contains("class=\"c-raised\" x=\"346.7\"") && svg.contains("class=\"c-lowered\" x=\"250\""),
            "{svg}"
        );
    }

    #[test]
    fn a_long_label_is_cut_but_hovers_in_full() {
        let label = "a source with a very long name indeed";
        let svg = pulls("T", "", &[pull(label, 1.0)]).inline();
        assert!(svg.contains(&format!("<title>{label}: +1. since May</title>")));
        assert!(!svg.contains(&format!(">{label}</text>")) && svg.contains("…</text>"));
    }

    #[test]
    fn the_picture_grows_with_the_rows() {
        let one = pulls("T", "", &[pull("a", 1.0)]).height;
        let ten = pulls("T", "", &vec![pull("a", 1.0); 10]).height;
        assert_eq!(f64::from(ten - one), 9.0 * ROW);
    }

    #[test]
    fn intervals_stay_within_the_scale_and_mark_the_value() {
        let one = |low, high, value| Interval { label: "<a>", low, high, value, figures: "3 of 10".into() };
        let svg = intervals("T", "%", &[one(-5.0, 50.0, 25.0), one(50.0, 500.0, f64::NAN)], 100.0).inline();
        assert!(svg.contains("class=\"c-bar\" x=\"250\" y=\"50\" width=\"145\""), "{svg}");
        assert!(svg.contains("&lt;a&gt;: 3 of 10, −5 to 50 %") && svg.matches("c-bar").count() == 1, "{svg}");
        assert!(intervals("T", "", &[], 1.0).summary().starts_with("Nothing to show yet"));
    }

    #[test]
    fn bars_stay_within_the_scale() {
        let of = |value, max| bars("T", "calls", &[Bar { label: "a", value }], max).inline();
        assert!(of(50.0, 100.0).contains("class=\"c-bar\" x=\"250\" y=\"50\" width=\"145\""));
        assert!(of(500.0, 100.0).contains("class=\"c-bar\" x=\"250\" y=\"50\" width=\"290\""));
        assert!(of(-5.0, 100.0).contains("class=\"c-bar\" x=\"250\" y=\"50\" width=\"0\""));
        assert!(of(1_234.0, f64::NAN).contains(">1.23 k<"));
        assert!(
            bars("T", "", &[Bar { label: "a", value: f64::NAN }], 1.0).summary().starts_with("Nothing to show yet")
        );
    }
}
