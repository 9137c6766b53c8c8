//! The page of an evaluation: self-contained, no script, nothing fetched.

use std::fmt::Write as _;

use crate::commands::evaluate::{Evaluation, percent};

const SIZE: f64 = 340.0;
const MARGIN: f64 = 46.0;

/// The page.
pub fn page(evaluation: &Evaluation, file: &str) -> String {
    let mut rows = String::new();
    for (kind, measured) in &evaluation.kinds {
        let _ = writeln!(
            rows,
            "<tr><td>{kind}</td><td>{}</td><td>{:.3}</td><td>{}</td><td>{:.3}</td><td>{}</td><td>{}</td></tr>",
            measured.count,
            measured.auroc,
            percent(measured.recall_at_1pct),
            measured.ece,
            percent(measured.flagged),
            percent(measured.blocked)
        );
    }
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>How far can it be trusted?</title>\n<style>{STYLE}</style>\n<h1>How far can it be trusted before it may block?</h1>\n\
         <p>Results were made up from the genuine traces of <code>{}</code> and judged beside them: {} genuine results of {}. \
         Of the genuine ones {} were flagged or blocked, {} blocked. Over all kinds: AUROC {:.3}, recall at 1 % false positives {}, \
         expected calibration error {:.3} at 15 % fabricated.</p>\n<div class=\"plots\">\n{}\n{}\n</div>\n<table>\n\
         <tr><th>made up</th><th>results</th><th>AUROC</th><th>recall at 1 % FPR</th><th>ECE</th><th>flagged</th><th>blocked</th></tr>\n{rows}</table>\n</html>\n",
        escape(file),
        evaluation.genuine,
        crate::output::count(evaluation.tools, "tool"),
        percent(evaluation.genuine_flagged),
        percent(evaluation.genuine_blocked),
        evaluation.auroc,
        percent(evaluation.recall_at_1pct),
        evaluation.ece,
        roc(evaluation),
        reliability(evaluation),
    )
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:68rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}\
.plots{display:flex;flex-wrap:wrap;gap:1.5rem}svg{max-width:100%;height:auto}table{border-collapse:collapse;margin-top:1rem}\
td,th{padding:.2rem .8rem .2rem 0;text-align:right;border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}\
.axis{stroke:#888;fill:none}.grid{stroke:#e4e4e4}.chance{stroke:#bbb;stroke-dasharray:4 4}.curve{fill:none;stroke-width:1.5}\
text{font:12px system-ui,sans-serif;fill:#444}.title{font-size:14px;font-weight:600}\
@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#151515}text{fill:#bbb}.grid{stroke:#333}td,th{border-color:#333}}";

fn x(share: f64) -> f64 {
    MARGIN + share * SIZE
}

fn y(share: f64) -> f64 {
    MARGIN + (1.0 - share) * SIZE
}

/// Title, axes and grid of a plot over the unit square.
fn frame(title: &str, horizontal: &str, vertical: &str) -> String {
    let mut svg = format!(
        "<svg viewBox=\"0 0 {w} {h}\" width=\"{w}\" height=\"{h}\" role=\"img\" aria-label=\"{title}\">\n<text class=\"title\" x=\"{m}\" y=\"24\">{title}</text>\n",
        w = SIZE + 2.0 * MARGIN + 90.0,
        h = SIZE + 2.0 * MARGIN,
        m = MARGIN
    );
    for tick in 0..=5 {
        let share = f64::from(tick) / 5.0;
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{0} {1}V{2}M{3} {4}H{5}\"/><text x=\"{0}\" y=\"{6}\" text-anchor=\"middle\">{share}</text><text x=\"{7}\" y=\"{8}\" text-anchor=\"end\">{share}</text>",
            x(share),
            y(0.0),
            y(1.0),
            x(0.0),
            y(share),
            x(1.0),
            y(0.0) + 18.0,
            x(0.0) - 8.0,
            y(share) + 4.0
        );
    }
    let _ = writeln!(
        svg,
        "<path class=\"axis\" d=\"M{0} {1}V{2}H{3}\"/><text x=\"{4}\" y=\"{5}\" text-anchor=\"middle\">{horizontal}</text><text transform=\"translate(14 {6}) rotate(-90)\" text-anchor=\"middle\">{vertical}</text>",
        x(0.0),
        y(1.0),
        y(0.0),
        x(1.0),
        x(0.5),
        y(0.0) + 36.0,
        y(0.5)
    );
    svg
}

fn roc(evaluation: &Evaluation) -> String {
    let mut svg = frame("ROC by kind", "genuine results above the threshold", "fabricated results above it");
    let _ = writeln!(svg, "<path class=\"chance\" d=\"M{} {}L{} {}\"/>", x(0.0), y(0.0), x(1.0), y(1.0));
    for (nth, (kind, points)) in evaluation.curves.iter().enumerate() {
        let hue = nth * 360 / evaluation.curves.len().max(1);
        let path: Vec<String> = points.iter().map(|(a, b)| format!("{:.1} {:.1}", x(*a), y(*b))).collect();
        let _ = writeln!(
            svg,
            "<path class=\"curve\" stroke=\"hsl({hue} 65% 45%)\" d=\"M{}\"/><text x=\"{}\" y=\"{}\" style=\"fill:hsl({hue} 65% 45%)\">{kind}</text>",
            path.join("L"),
            x(1.0) + 8.0,
            MARGIN + 14.0 * (nth as f64 + 1.0)
        );
    }
    svg + "</svg>"
}

fn reliability(evaluation: &Evaluation) -> String {
    let mut svg = frame("Reliability", "P(fabricated) as given", "share that was fabricated");
    let _ = writeln!(svg, "<path class=\"chance\" d=\"M{} {}L{} {}\"/>", x(0.0), y(0.0), x(1.0), y(1.0));
    for bin in evaluation.bins.iter().filter(|bin| bin.weight > 0.0) {
        // The area of a point is the weight behind it.
        let radius = 3.0 + 14.0 * bin.weight.sqrt();
        let _ = writeln!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius:.1}\" fill=\"hsl(210 70% 50%)\" fill-opacity=\".6\"><title>{:.3} given, {:.3} observed, {} of the weight</title></circle>",
            x(bin.predicted),
            y(bin.observed),
            bin.predicted,
            bin.observed,
            percent(bin.weight)
        );
    }
    svg + "</svg>"
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
