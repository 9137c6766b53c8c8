use std::path::PathBuf;

use anyhow::Context;
use credence_verify::{
    Error,
    fit::{Figures, Fitted, Fitting, Gain, LEAST_LABELLED, Labelled, ROUNDS},
};
use serde_json::json;

use super::{Done, answer, evaluate::percent};
use crate::{
    output::{Output, table},
    traces::{self, Trace},
};

#[derive(clap::Args)]
pub struct Args {
    /// Labelled traces, one a line, in the order in which they came: "label" 0 genuine, 1 fabricated; those without one are
    /// learned only; - for standard input
    #[arg(default_value = "-")]
    file: String,
    #[command(flatten)]
    engine: traces::EngineArgs,
    /// The share of genuine results that may be blocked
    #[arg(long, value_name = "RATE", default_value_t = 0.01, value_parser = traces::rate)]
    max_false_block_rate: f64,
    /// Where to write the calibration, as TOML, for `credence verify --calibration`
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub fn run(out: &Output, args: Args) -> Done {
    let traces = traces::read(out, &args.file)?;
    let label = |trace| -> anyhow::Result<Labelled<'_>> {
        let trace: &Trace = trace;
        Ok(Labelled { call: trace.call(), fabricated: trace.fabricated()? })
    };
    let calls: Vec<Labelled<'_>> = traces.iter().map(label).collect::<anyhow::Result<_>>()?;
    let bar = out.progress(Some((ROUNDS * calls.len()) as u64), "judging");
    // Files are read once, so that what is wrong with them is told in their words.
    args.engine.build(None)?;
    let fresh = || args.engine.build(None).map_err(|error| Error::Setting(format!("{error:#}")));
    let fitting =
        Fitting { engine: &fresh, mode: args.engine.mode.of_engine(), max_false_block_rate: args.max_false_block_rate };
    let fitted = fitting.fit(&calls, &mut || bar.inc(1))?;
    bar.finish_and_clear();
    let Fitted { calibrations: chosen, gains, skipped } = fitted.with_context(|| {
        format!(
            "no tool has {LEAST_LABELLED} results labelled 0 (genuine) and {LEAST_LABELLED} labelled 1 (fabricated)"
        )
    })?;
    let text = format!(
        "# Fitted to labelled traces by `credence calibrate`; read by `credence verify --calibration`.\n\n{}",
        toml::to_string(&chosen)?
    );
    if let Some(path) = &args.out {
        traces::write(path, text.as_bytes())?;
    }
    out.show(&json!({ "calibration": chosen, "measured": gains, "tools_without_enough_labels": skipped }), || {
        let rows = gains.iter().map(|Gain { tool, before: b, after: a }| {
            let pair = |of: fn(&Figures) -> f64| format!("{:.3} → {:.3}", of(b), of(a));
            let shares = |of: fn(&Figures) -> f64| format!("{} → {}", percent(of(b)), percent(of(a)));
            vec![
                tool.clone(),
                pair(|f| f.brier),
                pair(|f| f.ece),
                shares(|f| f.genuine_blocked),
                shares(|f| f.fabricated_blocked),
                shares(|f| f.fabricated_flagged),
            ]
        });
        let header = ["tool", "Brier", "ECE", "genuine blocked", "made up: blocked", "made up: flagged"];
        let mut human = table(&header, &header[1..], rows);
        human += "\n\nMeasured on the second half of each tool's labelled results; fitted to the first.";
        if skipped > 0 {
            human += &format!("\nLeft as they are, for want of labels: {}", crate::output::count(skipped, "tool"));
        }
        match &args.out {
            Some(path) => human + &format!("\nThe calibration is in {}.", path.display()),
            None => format!("{human}\n\n{text}"),
        }
    })?;
    Ok(answer(false))
}
