//! How far an engine can be trusted before it may block: genuine results of real tools, and results made up of them, judged in
//! the order in which they came.
//!
//! The first half of a tool's results is learned; each later one is judged, and [`PER_RESULT`] fabrications of it are judged in
//! shadow beside it. Every kind of fabrication counts the same.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use serde_json::Value;

use crate::{
    Call, Decision, Engine, Error, Verdict,
    call::Json,
    fabricate::{Fabrication, Genuine},
    measure,
};

/// The share of fabricated results that calibration is measured at.
const BASE_RATE: f64 = 0.15;
/// Fabrications made of one genuine result.
pub const PER_RESULT: usize = 3;
/// Results of a tool before it is evaluated, at the least.
pub const LEAST_WARM: usize = 8;
/// Recent results of a tool that fabrications borrow from.
const POOL: usize = 32;

/// What was measured for one kind of fabrication.
#[derive(Debug, Serialize)]
pub struct Measured {
    /// How many were judged.
    pub count: usize,
    /// The area under the ROC curve.
    pub auroc: f64,
    /// The share caught at 1 % false positives.
    pub recall_at_1pct: f64,
    /// Calibration error, with 15 % of this kind.
    pub ece: f64,
    /// The share flagged or blocked.
    pub flagged: f64,
    /// The share blocked.
    pub blocked: f64,
}

/// What was measured in all.
#[derive(Debug, Serialize)]
pub struct Evaluation {
    /// Tools.
    pub tools: usize,
    /// Genuine results judged.
    pub genuine: usize,
    /// The share of them flagged or blocked.
    pub genuine_flagged: f64,
    /// The share of them blocked.
    pub genuine_blocked: f64,
    /// Over all kinds, each counting the same, as are those that follow.
    pub auroc: f64,
    /// The share caught at 1 % false positives.
    pub recall_at_1pct: f64,
    /// Calibration error, with 15 % fabricated.
    pub ece: f64,
    /// Kind by kind.
    pub kinds: BTreeMap<Fabrication, Measured>,
    /// The reliability diagram.
    #[serde(skip)]
    pub bins: [measure::Bin; 10],
    /// ROC curves, by kind.
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

/// Evaluates a fresh `engine` on genuine `calls`, in their order; none where no tool has more than [`LEAST_WARM`] of them. Calls
/// whose result is not parsed JSON are learned only. `progress` is called after each call.
pub fn evaluate(
    engine: &Engine,
    calls: &[Call<'_>],
    seed: u64,
    progress: &mut dyn FnMut(),
) -> Result<Option<Evaluation>, Error> {
    let mut totals: HashMap<&str, usize> = HashMap::new();
    calls.iter().for_each(|call| *totals.entry(call.tool).or_default() += 1);
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let mut pools: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut honest = Scores::default();
    let mut made: BTreeMap<Fabrication, Scores> = BTreeMap::new();
    for (n, call) in calls.iter().enumerate() {
        let before = seen.entry(call.tool).or_default();
        let warm = *before < (totals[call.tool] / 2).max(LEAST_WARM);
        *before += 1;
        if !warm && let Some(result) = parsed(call.result) {
            let own = pools.get(call.tool).map_or(&[][..], Vec::as_slice);
            let foreign: Vec<&Vec<&Value>> =
                pools.iter().filter(|(tool, _)| **tool != call.tool).map(|(_, pool)| pool).collect();
            let pick =
                |pool: &[&'_ Value], random: &mut fastrand::Rng| (!pool.is_empty()).then(|| random.usize(..pool.len()));
            let other = pick(own, &mut random).map(|at| own[at]);
            let foreign = (!foreign.is_empty()).then(|| foreign[random.usize(..foreign.len())]);
            let foreign = foreign.and_then(|pool| pick(pool, &mut random).map(|at| pool[at]));
            let genuine = Genuine {
                result,
                args: call.args.and_then(parsed),
                execution_time_ms: call.execution_time_ms,
                other,
                foreign,
            };
            let kinds = Fabrication::ALL.iter().cycle().skip(n * PER_RESULT % Fabrication::ALL.len());
            let fabricated =
                kinds.take(Fabrication::ALL.len()).filter_map(|kind| Some((*kind, kind.apply(&genuine, &mut random)?)));
            for (kind, fabricated) in fabricated.take(PER_RESULT).collect::<Vec<_>>() {
                let mut shadow = call.result(&fabricated.result);
                if let Some(ms) = fabricated.execution_time_ms {
                    shadow = shadow.execution_time_ms(ms);
                }
                made.entry(kind).or_default().add(&engine.verify(&shadow.learn(false))?);
            }
        }
        let verdict = engine.verify(call)?;
        if !warm {
            honest.add(&verdict);
        }
        if let Some(result) = parsed(call.result) {
            let pool = pools.entry(call.tool).or_default();
            if pool.len() < POOL {
                pool.push(result);
            } else {
                pool[n % POOL] = result;
            }
        }
        progress();
    }
    let enough = !honest.posteriors.is_empty() && !made.is_empty();
    Ok(enough.then(|| summary(totals.len(), &honest, &made)))
}

fn parsed(json: Json<'_>) -> Option<&Value> {
    match json {
        Json::Value(value) => Some(value),
        Json::Bytes(_) => None,
    }
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
