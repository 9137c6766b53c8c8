//! The assured score on an agent's page: its sum, its dimensions, its history, and what would raise it.

use credence_engine::assured::{Assured, Dimension};
use credence_ledger::View;
use credence_pipeline::query::{self, CurrentAssured, Explanation};
use credence_protocol::{EntityId, ScoreStatus, Timestamp};

use crate::{
    dashboard::format::{When, one, percent, signed, whole},
    problem::Problem,
    score_charts,
};

/// Scores in the chart.
const HISTORY: usize = 1_000;
/// A cap that lies below the lower bound by less is not worth a word.
const VISIBLE: f64 = 0.05;

/// What the page shows.
pub(super) struct AssuredView {
    pub score: u8,
    pub estimate: String,
    pub range: String,
    pub known: String,
    /// The steps of the score as a sum: `50 + security 8.2 + … = 68`.
    pub sum: String,
    /// Bars, one for each dimension.
    pub dimensions: String,
    pub rows: Vec<DimensionRow>,
    pub history: String,
    pub events: usize,
    /// Where a hole in security holds the score down: how far.
    pub cap: Option<String>,
    pub advice: Vec<String>,
    pub evaluated: When,
    pub aged: Option<When>,
    pub seq: u64,
    pub inputs_of: u64,
    pub formula: String,
    pub fragility: u8,
    pub not_counted: Vec<String>,
}

/// A dimension.
pub(super) struct DimensionRow {
    pub name: &'static str,
    pub estimate: String,
    pub sd: String,
    pub known: String,
    pub n_eff: String,
    /// What it adds to the score.
    pub points: String,
    pub up: bool,
    pub weakest: String,
}

/// What the page shows of an explained score; none where nothing that counts is measured.
pub(super) fn view(
    view: &dyn View,
    agent: &EntityId,
    explained: &Explanation,
    now: Timestamp,
) -> Result<Option<AssuredView>, Problem> {
    let published = |one: &&CurrentAssured| one.numbers.status == ScoreStatus::Published;
    let Some(current) = explained.score.assured.as_ref().filter(published) else { return Ok(None) };
    let numbers = &current.numbers;
    let history = query::assured_history(view, agent, HISTORY)?;
    Ok(Some(AssuredView {
        score: numbers.score,
        estimate: whole(numbers.estimate),
        range: format!("{}–{}", whole(numbers.low), whole(numbers.high)),
        known: percent(numbers.known),
        sum: numbers.sum(),
        dimensions: bars(numbers),
        rows: Dimension::ALL.into_iter().filter_map(|dimension| row(numbers, dimension)).collect(),
        events: history.len(),
        history: score_charts::assured_history("Estimate over time", &history).inline(),
        cap: (numbers.low - numbers.cap > VISIBLE).then(|| whole(numbers.cap)),
        advice: explained.advice.iter().map(ToString::to_string).collect(),
        evaluated: When::new(current.evaluated_at, now),
        aged: current.aged_at.map(|at| When::new(at, now)),
        seq: current.seq,
        inputs_of: current.inputs_of,
        formula: current.formula.clone(),
        fragility: numbers.fragility,
        not_counted: numbers.not_counted.clone(),
    }))
}

fn bars(numbers: &Assured) -> String {
    let labelled: Vec<(String, f64)> = Dimension::ALL
        .into_iter()
        .map(|dimension| {
            let score = numbers.dimensions.get(&dimension);
            let known =
                score.map_or_else(|| "no evidence".to_owned(), |score| format!("{} evidence", percent(score.known)));
            (format!("{dimension}, {known}"), score.map_or(50.0, |score| score.estimate))
        })
        .collect();
    let bars: Vec<credence_charts::Bar<'_>> =
        labelled.iter().map(|(label, value)| credence_charts::Bar { label, value: *value }).collect();
    credence_charts::bars("What is believed, by dimension", "points", &bars, 100.0).inline()
}

fn row(numbers: &Assured, dimension: Dimension) -> Option<DimensionRow> {
    let score = numbers.dimensions.get(&dimension)?;
    let points = numbers.steps.iter().find(|step| step.name == dimension.name()).map_or(0.0, |step| step.value);
    Some(DimensionRow {
        name: dimension.name(),
        estimate: one(score.estimate),
        sd: one(score.sd),
        known: percent(score.known),
        n_eff: one(score.n_eff),
        points: signed(points),
        up: points >= 0.0,
        weakest: score.weakest.clone().unwrap_or_default(),
    })
}
