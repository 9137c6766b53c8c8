//! *Outcomes and calibration*: what came of relying on agents, against the scores they had then.

use std::sync::Arc;

use askama::Template;
use axum::{extract::State, http::StatusCode, response::Response};
use credence_pipeline::query;
use serde::Deserialize;

use super::{
    Frame, Viewer,
    format::{count, one, percent},
    html,
    inputs::QueryInput,
};
use crate::{app::App, problem::Problem, routes::outcomes::whole_curve, score_charts};

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct PageQuery {
    /// One agent only.
    agent: String,
}

struct Bin {
    from: u8,
    to: u8,
    outcomes: String,
    good: String,
    rate: String,
    interval: String,
    mean_score: String,
}

#[derive(Template)]
#[template(path = "outcomes.html")]
struct OutcomesPage {
    frame: Frame,
    agent: String,
    outcomes: u64,
    outcomes_shown: String,
    good: String,
    unrated: String,
    concordance: Option<String>,
    /// The mean distance of the curve from the diagonal, by outcomes.
    error: String,
    chart: String,
    bins: Vec<Bin>,
}

pub(super) async fn page(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    QueryInput(asked): QueryInput<PageQuery>,
) -> Response {
    let frame = Frame::new(&app, &viewer, "outcomes");
    let made = read(&app, asked.agent.trim().to_owned()).await;
    super::page(frame, made, |frame, page| html(StatusCode::OK, &OutcomesPage { frame, ..page }))
}

async fn read(app: &Arc<App>, agent: String) -> Result<OutcomesPage, Problem> {
    let (id, reliability) = if agent.is_empty() {
        (None, whole_curve(app).await?)
    } else {
        let of_agent = move |_: &App, view: &dyn credence_ledger::View| {
            let id = query::resolve(view, &agent)?;
            let reliability = query::reliability(view, Some(&id))?;
            Ok((Some(id), Arc::new(reliability)))
        };
        app.read(of_agent).await?
    };
    let query::Reliability { unrated, curve, .. } = &*reliability;
    let (chart, error) = score_charts::reliability("Reliability of the scores", curve);
    let bins = curve.bins.iter().map(|bin| Bin {
        from: bin.from,
        to: bin.to,
        outcomes: count(bin.outcomes),
        good: count(bin.good),
        rate: percent(bin.rate),
        interval: format!("{} to {}", percent(bin.low), percent(bin.high)),
        mean_score: one(bin.mean_score),
    });
    Ok(OutcomesPage {
        frame: Frame::bare(),
        agent: id.map(|id| id.to_string()).unwrap_or_default(),
        outcomes: curve.outcomes,
        outcomes_shown: count(curve.outcomes),
        good: count(curve.good),
        unrated: count(*unrated),
        concordance: curve.concordance.map(percent),
        error: error.map_or("–".to_owned(), percent),
        chart: chart.inline(),
        bins: bins.collect(),
    })
}
