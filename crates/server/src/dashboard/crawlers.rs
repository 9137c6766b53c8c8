//! *Crawlers*: how each source that is asked is doing: last success, why nothing was measured, signals, quota, alarms.

use std::sync::Arc;

use askama::Template;
use axum::{extract::State, http::StatusCode, response::Response};
use credence_pipeline::query::{self, Alarm};

use super::{
    Frame, Viewer,
    format::{When, count},
    html,
};
use crate::{app::App, problem::Problem};

/// Answers of another form than required.
struct AlarmView {
    since: When,
    why: String,
    agents: u64,
}

struct Row {
    source: String,
    last_success: Option<When>,
    answers: String,
    signals: String,
    failures: Vec<(String, String)>,
    last_failure: Option<(When, String)>,
    alarms: Vec<AlarmView>,
    quota: String,
}

#[derive(Template)]
#[template(path = "crawlers.html")]
struct CrawlersPage {
    frame: Frame,
    rows: Vec<Row>,
    on: bool,
}

pub(super) async fn page(State(app): State<Arc<App>>, viewer: Viewer) -> Response {
    let frame = Frame::new(&app, &viewer, "sources");
    let made = app.work(read).await;
    super::page(frame, made, |frame, page| html(StatusCode::OK, &CrawlersPage { frame, ..page }))
}

fn read(app: &App) -> Result<CrawlersPage, Problem> {
    let now = app.now();
    let rows = query::crawls(&*app.authority.ledger().view()?)?.into_iter().map(|(source, row)| Row {
        source,
        last_success: row.last_success.map(|at| When::new(at, now)),
        answers: count(row.answers),
        signals: count(row.signals),
        failures: row.failures.into_iter().map(|(reason, n)| (reason.replace('_', " "), count(n))).collect(),
        last_failure: row.last_failure.map(|(at, why)| (When::new(at, now), why)),
        alarms: row
            .alarms
            .into_values()
            .map(|Alarm { since, why, agents }| AlarmView { since: When::new(since, now), why, agents })
            .collect(),
        quota: row.quota.map_or("–".to_owned(), count),
    });
    Ok(CrawlersPage { frame: Frame::bare(), rows: rows.collect(), on: app.settings.crawl })
}
