//! Reports on agents: drafts, for their drafter and for reviewers; what people decided; what is public.

use std::sync::Arc;

use axum::{
    Extension,
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};
use credence_pipeline::{
    query,
    reports::{ReportEvent, TokenHolder},
};
use credence_reports::{Actor, Listed, Report, markdown, page::Links};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::{created, json};
use crate::{
    app::App,
    edge::Caller,
    extract::{Ingest, Json, Nothing, Params, Part, Review},
    problem::Problem,
    reporting::{self, Decided, ReportDecision, report_id},
    schema::Errors,
};

/// Reports in a list when nobody says, and at most.
const LISTED: usize = 50;
const MAX_LISTED: usize = 200;

/// A report to draft
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewReport {
    /// The agent's id or alias.
    agent: String,
    /// What the drafter adds in words of its own; shown as such.
    #[schema(max_length = 4000)]
    summary: Option<String>,
}

/// Whose token, and which
#[derive(Serialize, ToSchema)]
pub(crate) struct ReportParty {
    name: String,
    /// The token's id, which is not secret.
    token: String,
}

impl From<&TokenHolder> for ReportParty {
    fn from(holder: &TokenHolder) -> Self {
        Self { name: holder.name.to_string(), token: holder.token.clone() }
    }
}

/// What a person decided about a report
#[derive(Serialize, ToSchema)]
#[schema(as = ReportEvent)]
pub(crate) struct EventShown {
    /// The entry.
    seq: u64,
    #[schema(format = DateTime)]
    at: String,
    /// `approved`, `rejected`, `published`, `corrected` or `withdrawn`.
    action: &'static str,
    by: ReportParty,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// The report that takes its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    replaced_by: Option<String>,
}

impl From<&ReportEvent> for EventShown {
    fn from(event: &ReportEvent) -> Self {
        Self {
            seq: event.seq,
            at: event.at.to_string(),
            action: event.action.key(),
            by: (&event.by).into(),
            reason: event.reason.clone(),
            replaced_by: event.replaced_by.map(|id| id.to_string()),
        }
    }
}

/// A report
#[derive(Serialize, ToSchema)]
#[schema(as = Report)]
pub(crate) struct ReportShown {
    #[schema(format = "uuid")]
    report: String,
    agent: String,
    /// `draft`, `approved`, `rejected`, `published` or `withdrawn`.
    state: &'static str,
    /// SHA-256 of the contents in canonical JSON.
    digest: String,
    drafted_by: ReportParty,
    #[schema(format = DateTime)]
    drafted_at: String,
    /// What people decided, oldest first.
    events: Vec<EventShown>,
    /// What it says: numbers, each beside the entry that it was recorded in.
    #[schema(value_type = Object)]
    contents: Value,
}

fn shown(report: &Report, reader: Option<&Actor>) -> Result<ReportShown, Problem> {
    let sheet = report.sheet();
    let contents = report.json_for(reader).ok_or(credence_reports::Error::Unknown(sheet.report()))?;
    Ok(ReportShown {
        report: sheet.report().to_string(),
        agent: sheet.agent().to_string(),
        state: report.state(),
        digest: sheet.digest().to_owned(),
        drafted_by: sheet.drafted_by().into(),
        drafted_at: sheet.drafted_at().to_string(),
        events: report.row().map(|row| row.events.iter().map(EventShown::from).collect()).unwrap_or_default(),
        contents: contents.clone(),
    })
}

/// Nobody keeps a copy of what is not public.
fn private_unless_public(mut response: Response, report: &Report) -> Response {
    if !matches!(report, Report::Published(_)) {
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    response
}

/// Drafts a report on an agent from the ledger
///
/// The draft is seen by its drafter and by tokens with scope `review`, and by nobody else until one of those, not the drafter's, has
/// approved and published it.
#[utoipa::path(post, path = "/v1/reports", tag = "reports", request_body = NewReport,
    responses((status = 201, body = ReportShown), Errors), security(("token" = ["ingest"])))]
pub(crate) async fn draft(
    State(app): State<Arc<App>>,
    Ingest(token): Ingest,
    Json(NewReport { agent, summary }): Json<NewReport>,
) -> Result<Response, Problem> {
    let reader = reporting::actor(&token);
    let report = reporting::draft(&app, token, agent, summary).await?;
    Ok(private_unless_public(created(&shown(&report, Some(&reader))?)?, &report))
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    /// About this agent alone: its id or alias.
    agent: Option<String>,
    /// At most so many.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
}

/// A report in a list
#[derive(Serialize, ToSchema)]
pub(crate) struct ListedReport {
    #[schema(format = "uuid")]
    report: String,
    agent: String,
    /// `draft`, `approved`, `rejected`, `published` or `withdrawn`.
    state: &'static str,
    digest: String,
    drafted_by: ReportParty,
    /// When it was published; when it was drafted, where it is not public.
    #[schema(format = DateTime)]
    at: String,
    /// Something in it was corrected.
    corrected: bool,
}

impl From<Listed> for ListedReport {
    fn from(listed: Listed) -> Self {
        Self {
            report: listed.report.to_string(),
            agent: listed.agent.to_string(),
            state: listed.state,
            digest: listed.digest,
            drafted_by: (&listed.drafted_by).into(),
            at: listed.at.to_string(),
            corrected: listed.corrected,
        }
    }
}

/// Reports, newest first
#[derive(Serialize, ToSchema)]
pub(crate) struct ReportList {
    reports: Vec<ListedReport>,
}

/// Reports that were published; for a drafter also its drafts, for reviewers all drafts
#[utoipa::path(get, path = "/v1/reports", tag = "reports", params(ListQuery),
    responses((status = 200, body = ReportList), Errors))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Params(ListQuery { agent, limit }): Params<ListQuery>,
) -> Result<Response, Problem> {
    let limit = limit.unwrap_or(LISTED);
    if !(1..=MAX_LISTED).contains(&limit) {
        return Err(Problem::unprocessable("invalid_limit", format!("limit: between 1 and {MAX_LISTED}")));
    }
    let reader = reporting::actor_of(&caller);
    let listed = app
        .read(move |app, view| {
            let agent = agent.map(|agent| query::resolve(view, &agent)).transpose()?;
            Ok(app.desk.list(view, agent.as_ref(), reader.as_ref(), limit)?)
        })
        .await?;
    let mut response = json(&ReportList { reports: listed.into_iter().map(ListedReport::from).collect() })?;
    if matches!(caller, Caller::Token(_)) {
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    Ok(response)
}

/// A report, what people decided about it, and what it says
#[utoipa::path(get, path = "/v1/reports/{report}", tag = "reports", params(("report" = String, Path)),
    responses((status = 200, body = ReportShown), Errors))]
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Part(report): Part<String>,
    _: Params<Nothing>,
) -> Result<Response, Problem> {
    let (report, reader) = reporting::find(&app, report_id(&report)?, reporting::actor_of(&caller)).await?;
    Ok(private_unless_public(json(&shown(&report, reader.as_ref())?)?, &report))
}

/// A report to be read, as Markdown
#[utoipa::path(get, path = "/v1/reports/{report}/markdown", tag = "reports", params(("report" = String, Path)),
    responses((status = 200, body = String, content_type = "text/markdown"), Errors))]
pub(crate) async fn markdown(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Part(report): Part<String>,
    _: Params<Nothing>,
) -> Result<Response, Problem> {
    let (report, reader) = reporting::find(&app, report_id(&report)?, reporting::actor_of(&caller)).await?;
    let page = report.page_for(reader.as_ref()).ok_or(credence_reports::Error::Unknown(report.sheet().report()))?;
    let text = markdown::render(&page, &Links::to(&app.office.base_url));
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/markdown; charset=utf-8")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    Ok(private_unless_public((headers, text).into_response(), &report))
}

/// A published report with its signature
#[derive(ToSchema)]
#[allow(dead_code, reason = "describes what is signed elsewhere")]
pub(crate) struct SignedReport {
    /// `credence-report/1`.
    r#type: String,
    #[schema(format = "uuid")]
    report: String,
    agent: String,
    #[schema(value_type = Object)]
    contents: Value,
    /// SHA-256 of the contents in canonical JSON.
    digest: String,
    drafted_by: String,
    approved_by: String,
    /// The entry of the approval.
    approval: u64,
    /// The signed checkpoint of the log that it was made from.
    checkpoint: String,
    kid: String,
    signature: String,
}

/// The signed document of a published report, for `credence check`
#[utoipa::path(get, path = "/v1/reports/{report}/document", tag = "reports", params(("report" = String, Path)),
    responses((status = 200, body = SignedReport), Errors))]
pub(crate) async fn document(
    State(app): State<Arc<App>>,
    Part(report): Part<String>,
    _: Params<Nothing>,
) -> Result<Response, Problem> {
    match reporting::find(&app, report_id(&report)?, None).await? {
        (Report::Published(published), _) => {
            let headers = [
                (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
                (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
            ];
            Ok((headers, published.document().to_owned()).into_response())
        }
        (other, _) => Err(credence_reports::Error::Unknown(other.sheet().report()).into()),
    }
}

/// What was decided, and where it is recorded
#[derive(Serialize, ToSchema)]
pub(crate) struct ReportDecided {
    #[schema(format = "uuid")]
    report: String,
    /// Where the report stands now.
    state: &'static str,
    /// The entry.
    seq: u64,
}

fn decided(Decided { report, state, seq }: Decided) -> Result<Response, Problem> {
    created(&ReportDecided { report: report.to_string(), state, seq })
}

/// What was read
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportApproval {
    /// The digest of the contents that the reviewer read: others are not approved.
    #[schema(min_length = 64, max_length = 64)]
    digest: Option<String>,
}

/// Approves a draft of somebody else
#[utoipa::path(post, path = "/v1/reports/{report}/approval", tag = "reports", params(("report" = String, Path)),
    request_body = ReportApproval, responses((status = 201, body = ReportDecided), Errors), security(("token" = ["review"])))]
pub(crate) async fn approve(
    State(app): State<Arc<App>>,
    Review(token): Review,
    Part(report): Part<String>,
    Json(ReportApproval { digest }): Json<ReportApproval>,
) -> Result<Response, Problem> {
    decided(reporting::decide(&app, token, report_id(&report)?, ReportDecision::Approve { digest }).await?)
}

/// Why
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportReason {
    /// Public: it goes into the log.
    #[schema(min_length = 1, max_length = 256)]
    reason: String,
}

/// Rejects a draft of somebody else, for good
#[utoipa::path(post, path = "/v1/reports/{report}/rejection", tag = "reports", params(("report" = String, Path)),
    request_body = ReportReason, responses((status = 201, body = ReportDecided), Errors), security(("token" = ["review"])))]
pub(crate) async fn reject(
    State(app): State<Arc<App>>,
    Review(token): Review,
    Part(report): Part<String>,
    Json(ReportReason { reason }): Json<ReportReason>,
) -> Result<Response, Problem> {
    decided(reporting::decide(&app, token, report_id(&report)?, ReportDecision::Reject { reason }).await?)
}

/// Nothing more to say
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportPublication {}

/// Signs and publishes a report that was approved
#[utoipa::path(post, path = "/v1/reports/{report}/publication", tag = "reports", params(("report" = String, Path)),
    request_body = ReportPublication, responses((status = 201, body = ReportDecided), Errors), security(("token" = ["review"])))]
pub(crate) async fn publish(
    State(app): State<Arc<App>>,
    Review(token): Review,
    Part(report): Part<String>,
    Json(ReportPublication {}): Json<ReportPublication>,
) -> Result<Response, Problem> {
    decided(reporting::decide(&app, token, report_id(&report)?, ReportDecision::Publish).await?)
}

/// What was wrong
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportCorrection {
    /// Public: it goes into the log, and stands on the report's page.
    #[schema(min_length = 1, max_length = 256)]
    reason: String,
    /// A published report about the same agent that takes the place of this one.
    #[schema(format = "uuid")]
    replaced_by: Option<String>,
}

/// Says what was wrong with a published report
#[utoipa::path(post, path = "/v1/reports/{report}/correction", tag = "reports", params(("report" = String, Path)),
    request_body = ReportCorrection, responses((status = 201, body = ReportDecided), Errors), security(("token" = ["review"])))]
pub(crate) async fn correct(
    State(app): State<Arc<App>>,
    Review(token): Review,
    Part(report): Part<String>,
    Json(ReportCorrection { reason, replaced_by }): Json<ReportCorrection>,
) -> Result<Response, Problem> {
    let replaced_by = replaced_by.as_deref().map(report_id).transpose()?;
    let decision = ReportDecision::Correct { reason, replaced_by };
    decided(reporting::decide(&app, token, report_id(&report)?, decision).await?)
}

/// Takes a published report back; it stays readable, and says so
#[utoipa::path(post, path = "/v1/reports/{report}/withdrawal", tag = "reports", params(("report" = String, Path)),
    request_body = ReportReason, responses((status = 201, body = ReportDecided), Errors), security(("token" = ["review"])))]
pub(crate) async fn withdraw(
    State(app): State<Arc<App>>,
    Review(token): Review,
    Part(report): Part<String>,
    Json(ReportReason { reason }): Json<ReportReason>,
) -> Result<Response, Problem> {
    decided(reporting::decide(&app, token, report_id(&report)?, ReportDecision::Withdraw { reason }).await?)
}
