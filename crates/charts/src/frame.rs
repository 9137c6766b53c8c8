//! What all charts share: the page they are drawn on, their title, axes and the sentence said when there is nothing.
//!
//! Vertical plan of a chart, in units: title on 24, the label of the vertical axis on 48, the plot from [`TOP`] to
//! [`BELOW`] above the lower edge, under it the ticks' values and the label of the horizontal axis.

use crate::chart::Chart;
use crate::number::tick;
use crate::scale::{Linear, room};
use crate::svg::{Anchor, Svg, clean};

/// Width of every chart but the sparkline.
pub(crate) const WIDTH: f64 = 640.0;
/// Size of text where the picture is wide; the same in `chart.css`.
pub(crate) const SMALL_TEXT: f64 = 14.0;
/// Size of text on the narrowest screens, for which layouts leave room; the same in `chart.css`.
pub(crate) const LARGE_TEXT: f64 = 20.0;
/// How much wider bold text is.
const BOLD: f64 = 1.15;
/// Upper edge of the plot.
pub(crate) const TOP: f64 = 64.0;
/// Height of what is under the plot.
pub(crate) const BELOW: f64 = 56.0;
/// Margin at the left and right edge of the picture.
pub(crate) const EDGE: f64 = 12.0;

/// Distance of two lines of text, small and large.
pub(crate) const LINE_GAPS: (f64, f64) = (SMALL_TEXT * 1.1, LARGE_TEXT * 1.1);

/// The rectangle in which data is drawn.
pub(crate) struct Plot {
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
}

impl Plot {
    pub(crate) fn x(&self, low: f64, high: f64) -> Linear {
        Linear::new((low, high), (self.left, self.right))
    }

    pub(crate) fn y(&self, low: f64, high: f64) -> Linear {
        Linear::new((low, high), (self.bottom, self.top))
    }

    pub(crate) fn width(&self) -> f64 {
        self.right - self.left
    }

    /// The label of the vertical axis, above its upper end, where it reads without turning the head.
    pub(crate) fn y_label(&self, svg: &mut Svg, label: &str) {
        fitted(svg, "c-label", Anchor::Start, (EDGE, 48.0, false), label, WIDTH - 2.0 * EDGE);
    }

    /// The label of the horizontal axis, under its ticks at the right end.
    pub(crate) fn x_label(&self, svg: &mut Svg, label: &str) {
        fitted(svg, "c-label", Anchor::End, (self.right, self.bottom + 46.0, false), label, self.right - EDGE);
    }

    /// Values of the vertical axis, with faint lines across if `grid`.
    pub(crate) fn y_ticks(&self, svg: &mut Svg, scale: &Linear, most: usize, grid: bool) {
        let (values, step) = scale.ticks(most);
        let places: Vec<f64> = values.iter().map(|value| scale.at(*value)).collect();
        for ((value, y), shown) in values.iter().zip(&places).zip(room(&places, LINE_GAPS.0, LINE_GAPS.1)) {
            if grid {
                svg.line("c-grid", (self.left, *y), (self.right, *y));
            }
            if let Some(class) = shown.class("c-tick") {
                svg.text_centred(&class, Anchor::End, self.left - 8.0, *y, &tick(*value, step));
            }
        }
    }

    /// Values of the horizontal axis with short marks, and the axis itself.
    pub(crate) fn x_ticks(&self, svg: &mut Svg, ticks: &[(f64, String)]) {
        svg.line("c-axis", (self.left, self.bottom), (self.right, self.bottom));
        let widest = ticks.iter().map(|(_, label)| width_of(label)).fold(0.0, f64::max);
        let places: Vec<f64> = ticks.iter().map(|(x, _)| *x).collect();
        let shown = room(&places, (widest + 1.0) * SMALL_TEXT, (widest + 1.0) * LARGE_TEXT);
        for ((x, label), shown) in ticks.iter().zip(shown) {
            svg.line("c-axis", (*x, self.bottom), (*x, self.bottom + 4.0));
            if let Some(class) = shown.class("c-tick") {
                svg.text(&class, Anchor::Middle, *x, self.bottom + 22.0, label);
            }
        }
    }

    /// [`x_ticks`](Self::x_ticks) at round values of a linear scale.
    pub(crate) fn x_value_ticks(&self, svg: &mut Svg, scale: &Linear, most: usize) {
        let (values, step) = scale.ticks(most);
        let ticks: Vec<(f64, String)> = values.iter().map(|value| (scale.at(*value), tick(*value, step))).collect();
        self.x_ticks(svg, &ticks);
    }
}

/// A drawing that begins with the visible title.
pub(crate) fn titled(title: &str) -> Svg {
    let mut svg = Svg::default();
    // The title is 1.15 times the text's size.
    fitted(&mut svg, "c-title", Anchor::Start, (EDGE, 24.0, false), title, (WIDTH - 2.0 * EDGE) / BOLD / 1.15);
    svg
}

/// The chart as it leaves, `height` units high.
pub(crate) fn finish(title: &str, summary: String, height: f64, svg: Svg) -> Chart {
    let height = height.ceil() as u32;
    Chart { title: title.into(), summary, class: "c-chart", width: WIDTH as u32, height, body: svg.into_text() }
}

/// A chart that says in words that there is nothing to draw, and why.
pub(crate) fn nothing(title: &str, reason: &str) -> Chart {
    let mut svg = titled(title);
    let middle = WIDTH / 2.0;
    svg.rect("c-empty", (EDGE, 44.0), (WIDTH - 2.0 * EDGE, 84.0)).attr("rx", "8").done();
    svg.text("c-text", Anchor::Middle, middle, 82.0, "Nothing to show yet");
    svg.text("c-label", Anchor::Middle, middle, 110.0, &fit(reason, WIDTH - 2.0 * EDGE, LARGE_TEXT));
    finish(title, format!("Nothing to show yet. {reason}"), 144.0, svg)
}

/// A caller's text at a baseline or, if `centred`, around it, cut to `width` units. Where the large text must be cut
/// shorter than the small, both are written and the stylesheet shows the one that fits.
pub(crate) fn fitted(svg: &mut Svg, class: &str, anchor: Anchor, place: (f64, f64, bool), text: &str, width: f64) {
    let (x, y, centred) = place;
    let (long, short) = (fit(text, width, SMALL_TEXT), fit(text, width, LARGE_TEXT));
    let mut write = |class: &str, text: &str| {
        if centred { svg.text_centred(class, anchor, x, y, text) } else { svg.text(class, anchor, x, y, text) }
    };
    if long == short {
        return write(class, &long);
    }
    write(&format!("{class} c-extra"), &long);
    write(&format!("{class} c-narrow"), &short);
}

/// `text` cut with … so that it fits `width` units when drawn in `size`.
pub(crate) fn fit(text: &str, width: f64, size: f64) -> String {
    let room = width / size;
    let mut out = String::new();
    let mut used = 0.0;
    let ellipsis = width_of("…");
    let mut characters = text.chars().filter_map(clean).peekable();
    while let Some(character) = characters.next() {
        used += advance(character);
        let needed = if characters.peek().is_some() { used + ellipsis } else { used };
        // The rest may still fit without the ellipsis; only a whole rest that fits saves the character.
        if needed > room && used + characters.clone().map(advance).sum::<f64>() > room {
            let kept = out.trim_end().len();
            out.truncate(kept);
            out.push('…');
            return out;
        }
        out.push(character);
    }
    out
}

/// Width of a text as a multiple of its size, estimated on the safe side: the font is the reader's.
pub(crate) fn width_of(text: &str) -> f64 {
    text.chars().map(advance).sum()
}

fn advance(character: char) -> f64 {
    match character {
        ' ' | 'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 0.31,
        'f' | 'r' | 't' | '(' | ')' | '[' | ']' | '-' | '/' => 0.4,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' => 0.92,
        '<' | '>' | '+' | '=' | '&' => 0.84,
        'A'..='Z' => 0.7,
        '0'..='9' => 0.64,
        '\0'..='\u{7f}' => 0.6,
        '\u{80}'..='\u{10ff}' => 0.65,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_and_short_ones_left() {
        assert_eq!(fit("short", 200.0, LARGE_TEXT), "short");
        let cut = fit(&"many words ".repeat(20), 200.0, LARGE_TEXT);
        assert!(cut.ends_with('…') && width_of(&cut) * LARGE_TEXT <= 200.0, "{cut}");
        assert!(width_of(&fit(&"漢".repeat(900), 200.0, LARGE_TEXT)) * LARGE_TEXT <= 200.0);
        assert_eq!(fit("", 10.0, LARGE_TEXT), "");
    }

    #[test]
    fn a_text_that_just_fits_is_not_cut() {
        let text = "exactly as wide";
        assert_eq!(fit(text, width_of(text) * LARGE_TEXT + 0.001, LARGE_TEXT), text);
    }

    #[test]
    fn a_text_is_written_twice_only_when_the_sizes_need_different_cuts() {
        let written = |text: &str| {
            let mut svg = Svg::default();
            fitted(&mut svg, "c-text", Anchor::Start, (0.0, 0.0, false), text, 100.0);
            svg.into_text()
        };
        assert_eq!(written("short").matches("<text").count(), 1);
        let both = written("twelve chars");
        assert!(both.contains("c-extra\" x=\"0\" y=\"0\">twelve chars<") && both.contains("c-narrow"), "{both}");
    }

    #[test]
    fn sizes_are_those_of_the_stylesheet() {
        assert!(crate::STYLE.contains(&format!("font-size: {SMALL_TEXT}px;")));
        assert!(crate::STYLE.contains(&format!("font-size: {LARGE_TEXT}px;")));
    }

    #[test]
    fn an_empty_chart_says_so() {
        let chart = nothing("T", "No score was given.");
        assert!(chart.inline().contains(">Nothing to show yet<"));
        assert_eq!(chart.summary(), "Nothing to show yet. No score was given.");
    }
}
