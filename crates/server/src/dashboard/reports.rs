//! *Reports*: what was published, for everybody; drafts, for their authors and for reviewers, who decide here.

use std::sync::Arc;

use askama::Template;
use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use credence_pipeline::query;
use credence_protocol::Timestamp;
use credence_reports::{Actor, Listed, Report, html as report_html, page::Links};
use serde::Deserialize;

use super::{
    Frame, Viewer,
    format::{When, encoded},
    html,
    inputs::{FormInput, PathInput, QueryInput},
};
use crate::{
    app::App,
    problem::Problem,
    reporting::{self, ReportDecision, report_id},
    tokens::Scope,
};

/// Reports in a list.
const LISTED: usize = 100;

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct PageQuery {
    /// One agent only.
    agent: String,
}

struct ReportRow {
    path: String,
    id: String,
    agent: String,
    agent_path: String,
    state: &'static str,
    drafted_by: String,
    when: When,
    corrected: bool,
}

impl ReportRow {
    fn new(listed: &Listed, now: Timestamp) -> Self {
        Self {
            path: format!("/reports/{}", listed.report),
            id: listed.report.to_string(),
            agent: listed.agent.to_string(),
            agent_path: format!("/agents/{}", encoded(listed.agent.as_str())),
            state: listed.state,
            drafted_by: listed.drafted_by.name.to_string(),
            when: When::new(listed.at, now),
            corrected: listed.corrected,
        }
    }
}

#[derive(Template)]
#[template(path = "reports.html")]
struct ReportsPage {
    frame: Frame,
    agent: String,
    published: Vec<ReportRow>,
    waiting: Vec<ReportRow>,
    /// Whether the visitor may see drafts.
    sees_drafts: bool,
    may_draft: bool,
}

fn actor_of(viewer: &Viewer) -> Option<Actor> {
    viewer.token.as_deref().map(reporting::actor)
}

fn may(viewer: &Viewer, scope: Scope) -> bool {
    viewer.token.as_deref().is_some_and(|token| token.may(scope))
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    QueryInput(asked): QueryInput<PageQuery>,
) -> Response {
    let frame = Frame::new(&app, &viewer, "reports");
    let (now, reader) = (app.now(), actor_of(&viewer));
    let (sees_drafts, may_draft) =
        (may(&viewer, Scope::Ingest) || may(&viewer, Scope::Review), may(&viewer, Scope::Ingest));
    let name = asked.agent.trim().to_owned();
    let made = app
        .read(move |app, view| {
            let agent = (!name.is_empty()).then(|| query::resolve(view, &name)).transpose()?;
            let rows = |listed: Vec<Listed>| listed.iter().map(|one| ReportRow::new(one, now)).collect();
            Ok(ReportsPage {
                frame: Frame::bare(),
                published: rows(app.desk.public(view, agent.as_ref(), LISTED)?),
                waiting: rows(app.desk.waiting(view, agent.as_ref(), reader.as_ref(), LISTED)?),
                agent: agent.map(|agent| agent.to_string()).unwrap_or_default(),
                sees_drafts,
                may_draft,
            })
        })
        .await;
    super::page(frame, made, |frame, page| html(StatusCode::OK, &ReportsPage { frame, ..page }))
}

#[derive(Template)]
#[template(path = "report.html")]
struct ReportPage {
    frame: Frame,
    id: String,
    title: String,
    path: String,
    agent: String,
    agent_path: String,
    state: &'static str,
    digest: String,
    is_public: bool,
    /// The report, rendered and escaped.
    article: String,
    /// Whether the visitor may decide about it.
    decides: bool,
    /// It was approved with a token that is revoked since: somebody else approves it again.
    lapsed: bool,
    /// The drafter looks at its own draft.
    own: bool,
}

pub(super) async fn page(State(app): State<Arc<App>>, viewer: Viewer, PathInput(report): PathInput) -> Response {
    let frame = Frame::new(&app, &viewer, "reports");
    let made = read(&app, &viewer, &report).await;
    super::page(frame, made, |frame, page| html(StatusCode::OK, &ReportPage { frame, ..page }))
}

async fn read(app: &Arc<App>, viewer: &Viewer, report: &str) -> Result<ReportPage, Problem> {
    let (report, reader) = reporting::find(app, report_id(report)?, actor_of(viewer)).await?;
    let sheet = report.sheet();
    let page = report.page_for(reader.as_ref()).ok_or(credence_reports::Error::Unknown(sheet.report()))?;
    let own = reader.as_ref().is_some_and(|reader| reader.holder().is_same_party(sheet.drafted_by()));
    let lapsed = match &report {
        Report::Reviewed(reviewed) => reviewed.approving_token().is_some_and(|token| !app.tokens.knows(token)),
        _ => false,
    };
    let final_state = matches!(report.state(), "rejected" | "withdrawn");
    Ok(ReportPage {
        frame: Frame::bare(),
        id: sheet.report().to_string(),
        title: report.title(),
        path: format!("/reports/{}", sheet.report()),
        agent: sheet.agent().to_string(),
        agent_path: format!("/agents/{}", encoded(sheet.agent().as_str())),
        state: report.state(),
        digest: sheet.digest().to_owned(),
        is_public: matches!(report, Report::Published(_)),
        article: report_html::article(&page, &Links::default()),
        decides: reader.is_some_and(|reader| reader.is_reviewer()) && !own && !final_state,
        lapsed,
        own,
    })
}

#[derive(Deserialize)]
pub(super) struct DraftForm {
    agent: String,
    #[serde(default)]
    summary: String,
}

pub(super) async fn draft(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    FormInput(DraftForm { agent, summary }): FormInput<DraftForm>,
) -> Response {
    let frame = Frame::new(&app, &viewer, "reports");
    let token = viewer.token.filter(|token| token.may(Scope::Ingest));
    let drafted = match token {
        Some(token) => reporting::draft(&app, token, agent.trim().to_owned(), Some(summary)).await,
        None => {
            let detail = "a report is drafted with a token of scope 'ingest': sign in with one";
            Err(Problem::new(StatusCode::FORBIDDEN, "insufficient_scope", detail))
        }
    };
    match drafted {
        Ok(report) => Redirect::to(&format!("/reports/{}", report.sheet().report())).into_response(),
        Err(problem) => super::error_page(&frame, &problem),
    }
}

#[derive(Deserialize)]
pub(super) struct DecisionForm {
    action: String,
    #[serde(default)]
    digest: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    replaced_by: String,
}

impl DecisionForm {
    fn decision(self) -> Result<ReportDecision, Problem> {
        let Self { action, digest, reason, replaced_by } = self;
        Ok(match action.as_str() {
            "approve" => ReportDecision::Approve { digest: Some(digest) },
            "reject" => ReportDecision::Reject { reason },
            "publish" => ReportDecision::Publish,
            "correct" => {
                let replaced_by = Some(replaced_by.trim()).filter(|id| !id.is_empty()).map(report_id).transpose()?;
                ReportDecision::Correct { reason, replaced_by }
            }
            "withdraw" => ReportDecision::Withdraw { reason },
            _ => return Err(Problem::bad_request("bad_query", "That is nothing that can be decided about a report.")),
        })
    }
}

pub(super) async fn decide(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    PathInput(report): PathInput,
    FormInput(form): FormInput<DecisionForm>,
) -> Response {
    let frame = Frame::new(&app, &viewer, "reports");
    match decided(&app, viewer, &report, form).await {
        Ok(path) => Redirect::to(&path).into_response(),
        Err(problem) => super::error_page(&frame, &problem),
    }
}

async fn decided(app: &Arc<App>, viewer: Viewer, report: &str, form: DecisionForm) -> Result<String, Problem> {
    let Some(token) = viewer.token.filter(|token| token.may(Scope::Review)) else {
        let detail = "reports are decided about with a token of scope 'review', which 'admin' does not include: sign in with one";
        return Err(Problem::new(StatusCode::FORBIDDEN, "insufficient_scope", detail));
    };
    let decided = reporting::decide(app, token, report_id(report)?, form.decision()?).await?;
    Ok(format!("/reports/{}", decided.report))
}
