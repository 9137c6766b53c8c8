//! Calibrations fitted to labelled results: for each tool a prior, likelihood ratios where they help, and thresholds that keep to
//! the share of genuine results that may be blocked.
//!
//! The first half of a tool's labelled results is fitted to, the second is measured on. Fitted ratios stand still, those of mode
//! adaptive follow the tool: each tool keeps whichever does best on results that it was not fitted to, no change among them.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{Calibration, Calibrations, Call, Check, Decision, Engine, Error, Mode, Verdict, measure};

/// Labelled results of each sort that a tool needs.
pub const LEAST_LABELLED: usize = 20;
/// How often all calls are judged: as they are, with priors, with ratios, with what was chosen.
pub const ROUNDS: usize = 4;
/// How far a fitted ratio may go, either way.
const MOST_RATIO: f64 = 1000.0;
/// The share of genuine results that may be flagged.
const MAX_FALSE_FLAGS: f64 = 0.05;

/// A call whose result is known to be genuine or fabricated, or not known.
#[derive(Debug, Clone, Copy)]
pub struct Labelled<'a> {
    /// The call.
    pub call: Call<'a>,
    /// Whether its result is fabricated; nobody knows where it is none, and it is learned only.
    pub fabricated: Option<bool>,
}

/// How well results of one sort were told from the other.
#[derive(Debug, Clone, Serialize)]
pub struct Figures {
    /// The mean squared error of the posterior.
    pub brier: f64,
    /// The mean negative log-likelihood.
    pub log_loss: f64,
    /// The calibration error.
    pub ece: f64,
    /// The share of genuine results flagged or blocked.
    pub genuine_flagged: f64,
    /// The share of genuine results blocked.
    pub genuine_blocked: f64,
    /// The share of fabricated results flagged or blocked.
    pub fabricated_flagged: f64,
    /// The share of fabricated results blocked.
    pub fabricated_blocked: f64,
}

/// A tool's figures without and with its calibration.
#[derive(Debug, Serialize)]
pub struct Gain {
    /// The tool, or all that were fitted.
    pub tool: String,
    /// Without.
    pub before: Figures,
    /// With.
    pub after: Figures,
}

/// What was fitted.
#[derive(Debug)]
pub struct Fitted {
    /// The calibrations.
    pub calibrations: Calibrations,
    /// What they gain: over all fitted tools first, then tool by tool.
    pub gains: Vec<Gain>,
    /// Tools left as they are, for want of labels.
    pub skipped: usize,
}

/// How to fit.
pub struct Fitting<'a> {
    /// Makes a fresh engine.
    pub engine: &'a dyn Fn() -> Result<Engine, Error>,
    /// Its mode.
    pub mode: Mode,
    /// The share of genuine results that may be blocked.
    pub max_false_block_rate: f64,
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

impl Fitting<'_> {
    /// Fits to `calls`, in the order in which they came; none where no tool has [`LEAST_LABELLED`] of each sort. All calls are
    /// judged [`ROUNDS`] times; `progress` is called after each of them.
    pub fn fit(&self, calls: &[Labelled<'_>], progress: &mut dyn FnMut()) -> Result<Option<Fitted>, Error> {
        let mut judge = |calibrations: &Calibrations| self.judge(calls, calibrations, progress);
        let before = judge(&Calibrations::default())?;
        let labelled =
            |tool: &Tool, fabricated: bool| tool.fit.iter().filter(|case| case.fabricated == fabricated).count();
        let fit: BTreeMap<&str, &Tool> = before
            .iter()
            .filter(|(_, tool)| labelled(tool, true).min(labelled(tool, false)) >= LEAST_LABELLED / 2)
            .map(|(name, tool)| (*name, tool))
            .collect();
        if fit.is_empty() {
            return Ok(None);
        }
        let priors = fitted(&fit, |tool| Calibration { prior: Some(prior(tool)), ..Calibration::default() });
        let ratios = fitted(&fit, |tool| Calibration {
            prior: Some(prior(tool)),
            likelihood_ratios: likelihood_ratios(tool),
            ..Calibration::default()
        });
        let nothing = fitted(&fit, |_| Calibration::default());
        let with_priors = judge(&priors)?;
        let with_ratios = judge(&ratios)?;
        let mut chosen = Calibrations::default();
        for tool in fit.keys() {
            let candidates = [(&nothing, &before), (&priors, &with_priors), (&ratios, &with_ratios)];
            let loss = |judged: &BTreeMap<&str, Tool>| figures(&judged[tool].test).log_loss;
            let best = candidates.into_iter().min_by(|a, b| loss(a.1).total_cmp(&loss(b.1)));
            let Some((calibrations, judged)) = best else { continue };
            let mut calibration = calibrations.tools[*tool].clone();
            thresholds(&mut calibration, &judged[tool].fit, self.max_false_block_rate, self.mode);
            chosen.tools.insert((*tool).to_owned(), calibration);
        }
        let after = judge(&chosen)?;
        let all = Gain { tool: "all fitted tools".to_owned(), before: over(&before, &fit), after: over(&after, &fit) };
        let each = fit.keys().map(|tool| Gain {
            tool: (*tool).to_owned(),
            before: figures(&before[tool].test),
            after: figures(&after[tool].test),
        });
        let gains = std::iter::once(all).chain(each).collect();
        Ok(Some(Fitted { calibrations: chosen, gains, skipped: before.len() - fit.len() }))
    }

    /// Runs all calls through a fresh engine.
    fn judge<'a>(
        &self,
        calls: &[Labelled<'a>],
        calibrations: &Calibrations,
        progress: &mut dyn FnMut(),
    ) -> Result<BTreeMap<&'a str, Tool>, Error> {
        let engine = (self.engine)()?;
        calibrations.apply(&engine)?;
        // Of each sort the first half is fitted to.
        let mut left: BTreeMap<(&str, bool), usize> = BTreeMap::new();
        for Labelled { call, fabricated } in calls {
            if let Some(fabricated) = fabricated {
                *left.entry((call.tool, *fabricated)).or_default() += 1;
            }
        }
        left.values_mut().for_each(|count| *count /= 2);
        let mut tools: BTreeMap<&str, Tool> = BTreeMap::new();
        for Labelled { call, fabricated: label } in calls {
            let verdict = engine.verify(&call.learn(call.learn && *label != Some(true)))?;
            if let Some(fabricated) = *label {
                let tool = tools.entry(call.tool).or_default();
                let left = left.entry((call.tool, fabricated)).or_default();
                let cases = if *left > 0 { &mut tool.fit } else { &mut tool.test };
                *left = left.saturating_sub(1);
                cases.push(Case { fabricated, verdict });
            }
            progress();
        }
        Ok(tools)
    }
}

fn fitted(tools: &BTreeMap<&str, &Tool>, fit: impl Fn(&Tool) -> Calibration) -> Calibrations {
    let tools = tools.iter().map(|(name, tool)| ((*name).to_owned(), fit(tool))).collect();
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

fn over<'a>(judged: &BTreeMap<&'a str, Tool>, fit: &BTreeMap<&'a str, &Tool>) -> Figures {
    figures(fit.keys().flat_map(|tool| &judged[tool].test))
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
