//! A finished chart: its body, and the two wrappings in which it leaves.

use crate::STYLE;
use crate::svg::{coordinate, escape};

/// A finished chart, to be placed in a page or written to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chart {
    pub(crate) title: String,
    pub(crate) summary: String,
    pub(crate) class: &'static str,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) body: String,
}

impl Chart {
    /// An `<svg>` element for a page that carries [`STYLE`](crate::STYLE). It has no `<style>`, no `style` attribute and
    /// no script, and is as wide as the element around it.
    pub fn inline(&self) -> String {
        format!("<svg class=\"{}\"{}>{}{}</svg>", self.class, self.attributes(), self.head(), self.body)
    }

    /// An SVG document that needs nothing else: namespace, stylesheet and background included.
    pub fn file(&self) -> String {
        // No <?xml?> line: UTF-8 is XML's default, and without it the text can also be pasted into HTML.
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{}\" width=\"{}\" height=\"{}\"{}>{}<desc>{}</desc>\n\
             <style>\n{STYLE}</style>\n<rect class=\"c-paper\" width=\"{}\" height=\"{}\"/>\n{}\n</svg>\n",
            self.class,
            self.width,
            self.height,
            self.attributes(),
            self.head(),
            escape(&self.summary),
            self.width,
            self.height,
            self.body,
        )
    }

    /// The title as the caller gave it, not escaped.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The facts of the chart in a sentence or two, not escaped: the text alternative.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    fn attributes(&self) -> String {
        format!(
            " viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}. {}\"",
            coordinate(self.width.into()),
            coordinate(self.height.into()),
            escape(self.title.trim_end_matches('.')),
            escape(&self.summary)
        )
    }

    fn head(&self) -> String {
        format!("<title>{}</title>", escape(&self.title))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        Chart {
            title: "A & B".into(),
            summary: "Two <things>.".into(),
            class: "c-chart",
            width: 640,
            height: 280,
            body: "<g></g>".into(),
        }
    }

    #[test]
    fn inline_begins_with_title_and_says_it_all_in_the_label() {
        assert_eq!(
            chart().inline(),
            "<svg class=\"c-chart\" viewBox=\"0 0 640 280\" role=\"img\" \
             aria-label=\"A &amp; B. Two &lt;things&gt;.\"><title>A &amp; B</title><g></g></svg>"
        );
    }

    #[test]
    fn file_stands_alone() {
        let file = chart().file();
        for part in ["xmlns=\"http://www.w3.org/2000/svg\"", STYLE, "class=\"c-paper\"", "width=\"640\" height=\"280\""]
        {
            assert!(file.contains(part), "missing {part}");
        }
        assert!(!STYLE.contains(['<', '&']), "the stylesheet sits in XML text unescaped");
    }
}
