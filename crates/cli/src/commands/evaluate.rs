//! How far can I trust this before I let it block?

use std::path::PathBuf;

use anyhow::Context;
use credence_verify::{
    Call,
    evaluate::{self, Evaluation, LEAST_WARM},
};

use super::{Done, answer};
use crate::{
    output::{self, Output, table},
    report,
    traces::{self, Trace},
};

#[derive(clap::Args)]
pub struct Args {
    /// Genuine traces, one a line, in the order in which they came; those labelled 1 are passed over; - for standard input
    #[arg(default_value = "-")]
    file: String,
    #[command(flatten)]
    engine: traces::EngineArgs,
    /// Write a page with the ROC curve and the reliability diagram
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Draw the ROC curve into an SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// The seed of what is made up
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub fn run(out: &Output, args: Args) -> Done {
    let mut traces = traces::read(out, &args.file)?;
    traces.retain(|trace| trace.learn && !matches!(trace.fabricated(), Ok(Some(true))));
    let calls: Vec<Call<'_>> = traces.iter().map(Trace::call).collect();
    let bar = out.progress(Some(calls.len() as u64), "evaluating");
    let engine = args.engine.build(None)?;
    let evaluation = evaluate::evaluate(&engine, &calls, args.seed, &mut || bar.inc(1))?;
    bar.finish_and_clear();
    let evaluation = evaluation.with_context(|| {
        format!("too few traces: a tool is evaluated from its {}th on, and no tool has that many", LEAST_WARM + 1)
    })?;
    if let Some(path) = &args.html {
        traces::write(path, report::page(&evaluation, &args.file).as_bytes())?;
    }
    if let Some(path) = &args.plot {
        traces::write(path, report::roc(&evaluation).file().as_bytes())?;
    }
    out.show(&evaluation, || human(&evaluation, args.html.as_deref()) + &output::drawn(args.plot.as_deref()))?;
    Ok(answer(false))
}

fn human(evaluation: &Evaluation, html: Option<&std::path::Path>) -> String {
    let rows = evaluation.kinds.iter().map(|(kind, measured)| {
        vec![
            kind.to_string(),
            measured.count.to_string(),
            format!("{:.3}", measured.auroc),
            percent(measured.recall_at_1pct),
            format!("{:.3}", measured.ece),
            percent(measured.flagged),
            percent(measured.blocked),
        ]
    });
    let header = ["made up", "results", "AUROC", "recall at 1 % FPR", "ECE", "flagged", "blocked"];
    let mut text = table(&header, &header[1..], rows);
    text += &format!(
        "\n\n{} genuine results of {}: {} flagged or blocked, {} blocked.\nOver all kinds: AUROC {:.3}, recall at 1 % false positives {}, calibration error (ECE, 15 % fabricated) {:.3}.",
        evaluation.genuine,
        crate::output::count(evaluation.tools, "tool"),
        percent(evaluation.genuine_flagged),
        percent(evaluation.genuine_blocked),
        evaluation.auroc,
        percent(evaluation.recall_at_1pct),
        evaluation.ece,
    );
    if let Some(path) = html {
        text += &format!("\nROC curve and reliability diagram: {}", path.display());
    }
    text
}

pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}
