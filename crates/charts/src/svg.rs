//! A tiny SVG writer. All markup of the crate is written here, so that escaping cannot be forgotten elsewhere.
//!
//! Element and attribute names are `&'static str`: they come from this crate, never from a caller. Values and text are
//! escaped on the way in. Coordinates carry one decimal: a tenth of a unit is invisible, and the picture stays small.

use std::fmt::Write as _;

/// Coordinates beyond this are far outside every picture; longer numbers would only bloat it.
const FARTHEST: f64 = 9_999_999.0;

/// The text of the elements written so far.
#[derive(Default)]
pub(crate) struct Svg {
    out: String,
}

/// Where a text is anchored at its `x`.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// An element whose start tag is still open; one of [`done`](Self::done), [`hover`](Self::hover),
/// [`text`](Self::text) ends it.
#[must_use]
pub(crate) struct Element<'a> {
    out: &'a mut String,
    name: &'static str,
}

impl Svg {
    pub(crate) fn element(&mut self, name: &'static str) -> Element<'_> {
        self.out.push('<');
        self.out.push_str(name);
        Element { out: &mut self.out, name }
    }

    /// Opens a group whose every shape shows `hover`; pair with [`end_group`](Self::end_group).
    pub(crate) fn group(&mut self, hover: &str) {
        self.out.push_str("<g><title>");
        self.out.push_str(&escape(hover));
        self.out.push_str("</title>");
    }

    pub(crate) fn end_group(&mut self) {
        self.out.push_str("</g>");
    }

    /// A text whose baseline is at `y`.
    pub(crate) fn text(&mut self, class: &str, anchor: Anchor, x: f64, y: f64, text: &str) {
        self.anchored(class, anchor, x, y).text(text);
    }

    /// A text centred on `y`, whatever size the stylesheet gives it.
    pub(crate) fn text_centred(&mut self, class: &str, anchor: Anchor, x: f64, y: f64, text: &str) {
        self.anchored(class, anchor, x, y).attr("dy", "0.35em").text(text);
    }

    pub(crate) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let line = self.element("line").class(class);
        line.num("x1", x1).num("y1", y1).num("x2", x2).num("y2", y2).done();
    }

    pub(crate) fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) -> Element<'_> {
        let rect = self.element("rect").class(class).num("x", x).num("y", y);
        rect.num("width", width.max(0.0)).num("height", height.max(0.0))
    }

    pub(crate) fn circle(&mut self, class: &str, (x, y): (f64, f64), radius: f64) -> Element<'_> {
        self.element("circle").class(class).num("cx", x).num("cy", y).num("r", radius)
    }

    /// An open line through `points`.
    pub(crate) fn path(&mut self, class: &str, points: &[(f64, f64)]) -> Element<'_> {
        self.element("path").class(class).attr("fill", "none").attr("d", &path(points))
    }

    /// A filled shape with `points` as its outline.
    pub(crate) fn area(&mut self, class: &str, points: &[(f64, f64)]) -> Element<'_> {
        self.element("path").class(class).attr("d", &(path(points) + "Z"))
    }

    pub(crate) fn into_text(self) -> String {
        self.out
    }

    fn anchored(&mut self, class: &str, anchor: Anchor, x: f64, y: f64) -> Element<'_> {
        let text = self.element("text").class(class).num("x", x).num("y", y);
        match anchor {
            Anchor::Start => text,
            Anchor::Middle => text.attr("text-anchor", "middle"),
            Anchor::End => text.attr("text-anchor", "end"),
        }
    }
}

impl Element<'_> {
    pub(crate) fn attr(self, name: &'static str, value: &str) -> Self {
        self.out.push(' ');
        self.out.push_str(name);
        self.out.push_str("=\"");
        self.out.push_str(&escape(value));
        self.out.push('"');
        self
    }

    pub(crate) fn class(self, value: &str) -> Self {
        self.attr("class", value)
    }

    pub(crate) fn num(self, name: &'static str, value: f64) -> Self {
        self.attr(name, &coordinate(value))
    }

    pub(crate) fn done(self) {
        self.out.push_str("/>");
    }

    /// Ends the element with what hovering shows.
    pub(crate) fn hover(self, text: &str) {
        let _ = write!(self.out, "><title>{}</title></{}>", escape(text), self.name);
    }

    pub(crate) fn text(self, text: &str) {
        let _ = write!(self.out, ">{}</{}>", escape(text), self.name);
    }
}

/// Text made safe for XML content and attribute values.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars().filter_map(clean) {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

/// The character as it may be shown, or nothing. White space becomes a space; control characters and XML's
/// non-characters go, and so do the bidirectional controls with which a name could reorder the text around it.
pub(crate) fn clean(character: char) -> Option<char> {
    match character {
        '\t' | '\n' | '\r' => Some(' '),
        '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => None,
        '\u{fffe}' | '\u{ffff}' => None,
        other => (!other.is_control()).then_some(other),
    }
}

/// A coordinate with at most one decimal. What is not finite becomes 0: charts filter such numbers before drawing, and
/// this keeps an oversight from reaching the picture.
pub(crate) fn coordinate(value: f64) -> String {
    let value = if value.is_finite() { value.clamp(-FARTHEST, FARTHEST) } else { 0.0 };
    let tenths = (value * 10.0).round() as i64;
    let (sign, whole, tenth) = (if tenths < 0 { "-" } else { "" }, (tenths / 10).abs(), (tenths % 10).abs());
    if tenth == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{tenth}") }
}

fn path(points: &[(f64, f64)]) -> String {
    let mut out = String::with_capacity(points.len() * 10);
    for (index, (x, y)) in points.iter().enumerate() {
        let command = if index == 0 { 'M' } else { 'L' };
        let _ = write!(out, "{command}{} {}", coordinate(*x), coordinate(*y));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short_and_never_strange() {
        assert_eq!(coordinate(12.345), "12.3");
        assert_eq!(coordinate(-0.04), "0");
        assert_eq!(coordinate(-0.25), "-0.3");
        assert_eq!(coordinate(-7.0), "-7");
        assert_eq!(coordinate(f64::NAN), "0");
        assert_eq!(coordinate(f64::INFINITY), "0");
        assert_eq!(coordinate(1e300), "9999999");
    }

    #[test]
    fn text_cannot_leave_its_place() {
        assert_eq!(escape("a<b>&\"c'"), "a&lt;b&gt;&amp;&quot;c&#39;");
        assert_eq!(escape("a\u{0}b\u{1b}c\u{9f}d\u{ffff}e"), "abcde");
        assert_eq!(escape("two\nlines\tand a tab"), "two lines and a tab");
        assert_eq!(escape("safe\u{202e}evil\u{2066}"), "safeevil");
        assert_eq!(escape("名前 é 🙂"), "名前 é 🙂");
    }

    #[test]
    fn elements_nest_and_close() {
        let mut svg = Svg::default();
        svg.group("g & h");
        svg.circle("c-dot", (1.0, 2.0), 3.0).hover("<x>");
        svg.path("c-line", &[(0.0, 0.0), (1.5, -2.0)]).done();
        svg.end_group();
        assert_eq!(
            svg.into_text(),
            "<g><title>g &amp; h</title><circle class=\"c-dot\" cx=\"1\" cy=\"2\" r=\"3\"><title>&lt;x&gt;</title></circle>\
             <path class=\"c-line\" fill=\"none\" d=\"M0 0L1.5 -2\"/></g>"
        );
    }
}
