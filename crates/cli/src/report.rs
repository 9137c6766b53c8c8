//! The page of an evaluation: self-contained, no script, nothing fetched.

use std::fmt::Write as _;

use credence_charts::{Bin, Chart, Curve};
use credence_verify::evaluate::Evaluation;

use crate::commands::evaluate::percent;

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
         <title>How far can it be trusted?</title>\n<style>{}\n{STYLE}</style>\n<h1>How far can it be trusted before it may block?</h1>\n\
         <p>Results were made up from the genuine traces of <code>{}</code> and judged beside them: {} genuine results of {}. \
         Of the genuine ones {} were flagged or blocked, {} blocked. Over all kinds: AUROC {:.3}, recall at 1 % false positives {}, \
         expected calibration error {:.3} at 15 % fabricated.</p>\n<div class=\"plots\">\n<div>{}</div>\n<div>{}</div>\n</div>\n<table>\n\
         <tr><th>made up</th><th>results</th><th>AUROC</th><th>recall at 1 % FPR</th><th>ECE</th><th>flagged</th><th>blocked</th></tr>\n{rows}</table>\n</html>\n",
        credence_charts::STYLE,
        escape(file),
        evaluation.genuine,
        crate::output::count(evaluation.tools, "tool"),
        percent(evaluation.genuine_flagged),
        percent(evaluation.genuine_blocked),
        evaluation.auroc,
        percent(evaluation.recall_at_1pct),
        evaluation.ece,
        roc(evaluation).inline(),
        reliability(evaluation).inline(),
    )
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:76rem;margin:2rem auto;padding:0 1rem;color:var(--c-ink);background:var(--c-paper)}\
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,28rem),1fr));gap:1.5rem}.plots div{container-type:inline-size}\
table{border-collapse:collapse;margin-top:1rem}\
td,th{padding:.2rem .8rem .2rem 0;text-align:right;border-bottom:1px solid var(--c-grid)}td:first-child,th:first-child{text-align:left}";

/// How each kind is told from the genuine.
pub fn roc(evaluation: &Evaluation) -> Chart {
    let curves = evaluation.curves.iter().zip(evaluation.kinds.values());
    let curves: Vec<Curve<'_>> =
        curves.map(|((name, points), measured)| Curve { name, points, area: measured.auroc }).collect();
    credence_charts::roc("Made-up results told from genuine ones", &curves)
}

/// Whether probabilities are what they say.
fn reliability(evaluation: &Evaluation) -> Chart {
    let made: usize = evaluation.kinds.values().map(|kind| kind.count).sum();
    let all = (evaluation.genuine + made) as f64;
    // Weighed to 15 % fabricated: an interval of the weights would say less than it seems to.
    let bins: Vec<Bin> = evaluation
        .bins
        .iter()
        .filter(|bin| bin.weight > 0.0)
        .map(|bin| Bin {
            predicted: bin.predicted,
            observed: bin.observed,
            low: bin.observed,
            high: bin.observed,
            count: (bin.weight * all).round() as u64,
        })
        .collect();
    credence_charts::reliability("Reliability: P(fabricated) as given, and as it was", &bins, Some(evaluation.ece))
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
