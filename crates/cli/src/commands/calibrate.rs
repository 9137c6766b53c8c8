use std::{collections::BTreeMap, path::PathBuf};

use anyhow::ensure;
use credence_verify::{Calibration, Check, Decision, Verdict, measure};
use serde::Serialize;
use serde_json::json;

use super::{Done, answer, evaluate::percent, verify::Calibrations};
use crate::{
    output::{Output, table},
    traces::{self, Mode, Trace},
};

/// Labelled results of each sort that a tool needs.
const LEAST_LABELLED: usize = 20;
/// How far a fitted ratio may go, either way.
const MOST_RATIO: f64 = 1000.0;
/// The share of genuine results that may be flagged.
const MAX_FALSE_FLAGS: f64 = 0.05;

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

/// One labelled result, judged.
struct Case {
    fabricated: bool,
    verdict: Verdict,
}

/// The first half is fitted to, the second is measured on.
#[derive(Default)]
struct Tool {
    fit: Vec<Case>,
    test: Vec<Case>,
}

#[derive(Serialize)]
struct Figures {
    brier: f64,
    log_loss: f64,
    ece: f64,
    genuine_flagged: f64,
    genuine_blocked: f64,
    fabricated_flagged: f64,
    fabricated_blocked: f64,
}

pub fn run(out: &Output, args: Args) -> Done {
    let traces = traces::read(out, &args.file)?;
    let before = judge(out, &args, &traces, &Calibrations::default())?;
    let labelled = |tool: &Tool, fabricated: bool| tool.fit.iter().filter(|case| case.fabricated == fabricated).count();
    let fit: BTreeMap<&String, &Tool> = before
        .iter()
        .filter(|(_, tool)| labelled(tool, true).min(labelled(tool, false)) >= LEAST_LABELLED / 2)
        .collect();
    ensure!(
        !fit.is_empty(),
        "no tool has {LEAST_LABELLED} results labelled 0 (genuine) and {LEAST_LABELLED} labelled 1 (fabricated)"
    );
    // Ratios that are fitted stand still, those of mode adaptive follow the tool: each tool keeps what does best on results
    // it was not fitted to, nothing among it.
    let priors = fitted(&fit, |tool| Calibration { prior: Some(prior(tool)), ..Calibration::default() });
    let ratios = fitted(&fit, |tool| Calibration {
        prior: Some(prior(tool)),
        likelihood_ratios: likelihood_ratios(tool),
        ..Calibration::default()
    });
    let nothing = fitted(&fit, |_| Calibration::default());
    let with_priors = judge(out, &args, &traces, &priors)?;
    let with_ratios = judge(out, &args, &traces, &ratios)?;
    let mut chosen = Calibrations::default();
    for tool in fit.keys() {
        let candidates = [(&nothing, &before), (&priors, &with_priors), (&ratios, &with_ratios)];
        let loss = |judged: &BTreeMap<String, Tool>| figures(&judged[*tool].test).log_loss;
        let best = candidates.into_iter().min_by(|a, b| loss(a.1).total_cmp(&loss(b.1)));
        let Some((calibrations, judged)) = best else { continue };
        let mut calibration = calibrations.tools[*tool].clone();
        thresholds(&mut calibration, &judged[*tool].fit, args.max_false_block_rate, args.engine.mode);
        chosen.tools.insert((*tool).clone(), calibration);
    }
    let after = judge(out, &args, &traces, &chosen)?;
    let text = format!(
        "# Fitted to labelled traces by `credence calibrate`; read by `credence verify --calibration`.\n\n{}",
        toml::to_string(&chosen)?
    );
    if let Some(path) = &args.out {
        traces::write(path, text.as_bytes())?;
    }
    let all: Vec<(String, Figures, Figures)> = std::iter::once("all fitted tools".to_owned())
        .map(|name| (name, over(&before, &fit), over(&after, &fit)))
        .chain(fit.keys().map(|tool| ((*tool).clone(), figures(&before[*tool].test), figures(&after[*tool].test))))
        .collect();
    let skipped = before.len() - fit.len();
    let shown: Vec<_> = all.iter().map(|(tool, b, a)| json!({ "tool": tool, "before": b, "after": a })).collect();
    out.show(&json!({ "calibration": chosen, "measured": shown, "tools_without_enough_labels": skipped }), || {
        let rows = all.iter().map(|(tool, b, a)| {
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

/// Runs all traces through a fresh engine.
fn judge(
    out: &Output,
    args: &Args,
    traces: &[Trace],
    calibrations: &Calibrations,
) -> anyhow::Result<BTreeMap<String, Tool>> {
    let engine = args.engine.build(None)?;
    calibrations.apply(&engine)?;
    // Of each sort the first half is fitted to.
    let mut left: BTreeMap<(&str, bool), usize> = BTreeMap::new();
    for trace in traces {
        if let Some(fabricated) = trace.fabricated()? {
            *left.entry((&trace.tool, fabricated)).or_default() += 1;
        }
    }
    left.values_mut().for_each(|count| *count /= 2);
    let mut tools: BTreeMap<String, Tool> = BTreeMap::new();
    let bar = out.progress(Some(traces.len() as u64), "judging");
    for trace in traces {
        let label = trace.fabricated()?;
        let verdict = engine.verify(&trace.call().learn(trace.learn && label != Some(true)))?;
        if let Some(fabricated) = label {
            let tool = tools.entry(trace.tool.clone()).or_default();
            let left = left.entry((&trace.tool, fabricated)).or_default();
            let cases = if *left > 0 { &mut tool.fit } else { &mut tool.test };
            *left = left.saturating_sub(1);
            cases.push(Case { fabricated, verdict });
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(tools)
}

fn fitted(tools: &BTreeMap<&String, &Tool>, fit: impl Fn(&Tool) -> Calibration) -> Calibrations {
    let tools = tools.iter().map(|(name, tool)| ((*name).clone(), fit(tool))).collect();
    Calibrations { tools, ..Calibrations::default() }
}

/// Thresholds that keep to the shares. Mode adaptive keeps to its budget by itself, so that they are set there only where
/// there are results enough to tell.
fn thresholds(calibration: &mut Calibration, cases: &[Case], max_false_block_rate: f64, mode: Mode) {
    let genuine: Vec<f64> = cases.iter().filter(|case| !case.fabricated).map(|case| case.verdict.posterior).collect();
    let tells = |share: f64| matches!(mode, Mode::Fixed) || genuine.len() as f64 * share >= 1.0;
    calibration.max_false_block_rate = Some(max_false_block_rate);
    if tells(max_false_block_rate) {
        let just_above = |cut: f64| cut + (1.0 - cut) / 4.0;
        calibration.block_threshold = Some(round(just_above(measure::cut(&genuine, max_false_block_rate)).max(0.5)));
    }
    if tells(MAX_FALSE_FLAGS) {
        let most = calibration.block_threshold.unwrap_or(0.5);
        calibration.flag_threshold = Some(round(measure::cut(&genuine, MAX_FALSE_FLAGS).clamp(0.05, most)));
    }
}

/// The share that was fabricated, with one more of each sort than there was.
fn prior(tool: &Tool) -> f64 {
    let fabricated = tool.fit.iter().filter(|case| case.fabricated).count();
    round((fabricated as f64 + 1.0) / (tool.fit.len() as f64 + 2.0))
}

/// How much more often each check fires on fabricated results than on genuine ones.
fn likelihood_ratios(tool: &Tool) -> BTreeMap<Check, f64> {
    let rate = |check: Check, fabricated: bool| {
        let cases = tool.fit.iter().filter(|case| case.fabricated == fabricated);
        let evaluated: Vec<bool> =
            cases.filter_map(|case| case.verdict.check(check).map(|result| result.fired)).collect();
        let fired = evaluated.iter().filter(|fired| **fired).count() as f64;
        (evaluated.len() >= LEAST_LABELLED / 2).then(|| (fired + 0.5) / (evaluated.len() as f64 + 1.0))
    };
    let ratio = |check: Check| Some(rate(check, true)? / rate(check, false)?);
    let ratios = Check::ALL.into_iter().filter_map(|check| Some((check, ratio(check)?)));
    ratios.map(|(check, ratio)| (check, round(ratio.clamp(1.0 / MOST_RATIO, MOST_RATIO)))).collect()
}

fn over(judged: &BTreeMap<String, Tool>, fit: &BTreeMap<&String, &Tool>) -> Figures {
    figures(fit.keys().flat_map(|tool| &judged[*tool].test))
}

fn figures<'a>(cases: impl IntoIterator<Item = &'a Case>) -> Figures {
    let cases: Vec<&Case> = cases.into_iter().collect();
    let mean = |of: &dyn Fn(&Case) -> f64| cases.iter().map(|case| of(case)).sum::<f64>() / cases.len().max(1) as f64;
    let truth = |case: &Case| f64::from(u8::from(case.fabricated));
    let share = |fabricated: bool, least: Decision| {
        let of: Vec<&&Case> = cases.iter().filter(|case| case.fabricated == fabricated).collect();
        let hit = of.iter().filter(|case| case.verdict.decision >= least).count();
        hit as f64 / of.len().max(1) as f64
    };
    let likelihood = |case: &Case| {
        let p = case.verdict.posterior.clamp(1e-6, 1.0 - 1e-6);
        if case.fabricated { p } else { 1.0 - p }
    };
    Figures {
        brier: mean(&|case| (case.verdict.posterior - truth(case)).powi(2)),
        log_loss: mean(&|case| -likelihood(case).ln()),
        ece: measure::reliability(cases.iter().map(|case| (case.verdict.posterior, case.fabricated, 1.0))).1,
        genuine_flagged: share(false, Decision::Flag),
        genuine_blocked: share(false, Decision::Block),
        fabricated_flagged: share(true, Decision::Flag),
        fabricated_blocked: share(true, Decision::Block),
    }
}

/// Four digits are more than the data know.
fn round(number: f64) -> f64 {
    (number * 1e4).round() / 1e4
}
