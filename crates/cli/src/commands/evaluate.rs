//! How far can I trust this before I let it block?

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
};

use anyhow::ensure;
use credence_verify::{
    Decision, Verdict,
    fabricate::{Fabrication, Genuine},
    measure,
};
use serde::Serialize;
use serde_json::Value;

use super::{Done, answer};
use crate::{
    output::{self, Output, table},
    report,
    traces::{self, Trace},
};

/// The share of fabricated results that calibration is measured at.
const BASE_RATE: f64 = 0.15;
/// Fabrications made of one genuine result.
const PER_RESULT: usize = 3;
/// Results of a tool before it is evaluated, at the least.
const LEAST_WARM: usize = 8;
/// Recent results of a tool that others borrow from.
const POOL: usize = 32;

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

/// What was measured for one kind, or for all of them.
#[derive(Serialize)]
pub struct Measured {
    pub count: usize,
    pub auroc: f64,
    pub recall_at_1pct: f64,
    /// Calibration error, with 15 % of this kind.
    pub ece: f64,
    pub flagged: f64,
    pub blocked: f64,
}

#[derive(Serialize)]
pub struct Evaluation {
    pub tools: usize,
    pub genuine: usize,
    pub genuine_flagged: f64,
    pub genuine_blocked: f64,
    /// Over all kinds, each counting the same.
    pub auroc: f64,
    pub recall_at_1pct: f64,
    pub ece: f64,
    pub kinds: BTreeMap<Fabrication, Measured>,
    #[serde(skip)]
    pub bins: [measure::Bin; 10],
    #[serde(skip)]
    pub curves: Vec<(String, Vec<(f64, f64)>)>,
}

#[derive(Default)]
struct Scores {
    posteriors: Vec<f64>,
    flagged: usize,
    blocked: usize,
}

impl Scores {
    fn add(&mut self, verdict: &Verdict) {
        self.posteriors.push(verdict.posterior);
        self.flagged += usize::from(verdict.decision != Decision::Accept);
        self.blocked += usize::from(verdict.decision == Decision::Block);
    }

    fn share(&self, count: usize) -> f64 {
        count as f64 / self.posteriors.len().max(1) as f64
    }
}

pub fn run(out: &Output, args: Args) -> Done {
    let mut traces = traces::read(out, &args.file)?;
    traces.retain(|trace| trace.learn && !matches!(trace.fabricated(), Ok(Some(true))));
    let evaluation = evaluate(out, &args, &traces)?;
    if let Some(path) = &args.html {
        traces::write(path, report::page(&evaluation, &args.file).as_bytes())?;
    }
    if let Some(path) = &args.plot {
        traces::write(path, report::roc(&evaluation).file().as_bytes())?;
    }
    out.show(&evaluation, || human(&evaluation, args.html.as_deref()) + &output::drawn(args.plot.as_deref()))?;
    Ok(answer(false))
}

fn evaluate(out: &Output, args: &Args, traces: &[Trace]) -> anyhow::Result<Evaluation> {
    let engine = args.engine.build(None)?;
    let mut totals: HashMap<&str, usize> = HashMap::new();
    traces.iter().for_each(|trace| *totals.entry(&trace.tool).or_default() += 1);
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let mut pools: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    let mut random = fastrand::Rng::with_seed(args.seed);
    let mut honest = Scores::default();
    let mut made: BTreeMap<Fabrication, Scores> = BTreeMap::new();
    let bar = out.progress(Some(traces.len() as u64), "evaluating");
    for (n, trace) in traces.iter().enumerate() {
        let before = seen.entry(&trace.tool).or_default();
        // The first half of a tool's traces is what the engine learns before it is asked.
        let warm = *before < (totals[trace.tool.as_str()] / 2).max(LEAST_WARM);
        *before += 1;
        if !warm {
            let own = pools.get(trace.tool.as_str()).map_or(&[][..], Vec::as_slice);
            let foreign: Vec<&Vec<&Value>> =
                pools.iter().filter(|(tool, _)| **tool != trace.tool).map(|(_, pool)| pool).collect();
            let pick =
                |pool: &[&'_ Value], random: &mut fastrand::Rng| (!pool.is_empty()).then(|| random.usize(..pool.len()));
            let other = pick(own, &mut random).map(|at| own[at]);
            let foreign = (!foreign.is_empty()).then(|| foreign[random.usize(..foreign.len())]);
            let foreign = foreign.and_then(|pool| pick(pool, &mut random).map(|at| pool[at]));
            let genuine = Genuine {
                result: &trace.result,
                args: trace.args.as_ref(),
                execution_time_ms: trace.execution_time_ms,
                other,
                foreign,
            };
            let kinds = Fabrication::ALL.iter().cycle().skip(n * PER_RESULT % Fabrication::ALL.len());
            let fabricated =
                kinds.take(Fabrication::ALL.len()).filter_map(|kind| Some((*kind, kind.apply(&genuine, &mut random)?)));
            for (kind, fabricated) in fabricated.take(PER_RESULT).collect::<Vec<_>>() {
                let mut call = trace.call();
                call = call.result(&fabricated.result);
                if let Some(ms) = fabricated.execution_time_ms {
                    call = call.execution_time_ms(ms);
                }
                made.entry(kind).or_default().add(&engine.verify(&call.learn(false))?);
            }
        }
        let verdict = engine.verify(&trace.call())?;
        if !warm {
            honest.add(&verdict);
        }
        let pool = pools.entry(&trace.tool).or_default();
        if pool.len() < POOL {
            pool.push(&trace.result);
        } else {
            pool[n % POOL] = &trace.result;
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    ensure!(
        !honest.posteriors.is_empty() && !made.is_empty(),
        "too few traces: a tool is evaluated from its {}th on, and no tool has that many",
        LEAST_WARM + 1
    );
    Ok(summary(totals.len(), &honest, &made))
}

fn summary(tools: usize, honest: &Scores, made: &BTreeMap<Fabrication, Scores>) -> Evaluation {
    let genuine = &honest.posteriors;
    let kinds: BTreeMap<Fabrication, Measured> = made
        .iter()
        .map(|(kind, scores)| {
            let measured = Measured {
                count: scores.posteriors.len(),
                auroc: measure::auroc(&scores.posteriors, genuine),
                recall_at_1pct: measure::recall(&scores.posteriors, genuine, 0.01),
                ece: calibration(genuine, std::slice::from_ref(&scores)).1,
                flagged: scores.share(scores.flagged),
                blocked: scores.share(scores.blocked),
            };
            (*kind, measured)
        })
        .collect();
    let mean = |of: fn(&Measured) -> f64| kinds.values().map(of).sum::<f64>() / kinds.len() as f64;
    let (bins, ece) = calibration(genuine, &made.values().collect::<Vec<_>>());
    let curves =
        made.iter().map(|(kind, scores)| (kind.to_string(), measure::roc(&scores.posteriors, genuine))).collect();
    Evaluation {
        tools,
        genuine: genuine.len(),
        genuine_flagged: honest.share(honest.flagged),
        genuine_blocked: honest.share(honest.blocked),
        auroc: mean(|kind| kind.auroc),
        recall_at_1pct: mean(|kind| kind.recall_at_1pct),
        ece,
        kinds,
        bins,
        curves,
    }
}

/// Reliability with 15 % fabricated, each kind counting the same.
fn calibration(genuine: &[f64], made: &[&Scores]) -> ([measure::Bin; 10], f64) {
    let of_genuine = genuine.iter().map(|p| (*p, false, (1.0 - BASE_RATE) / genuine.len() as f64));
    let of_made = made.iter().flat_map(|scores| {
        let weight = BASE_RATE / made.len() as f64 / scores.posteriors.len() as f64;
        scores.posteriors.iter().map(move |p| (*p, true, weight))
    });
    measure::reliability(of_genuine.chain(of_made))
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
