//! Reports of this service: what a route and a page do alike. Who the caller is was checked at the edge; before a decision it is
//! looked up again, because a token that was just revoked must not publish anything.

use std::sync::Arc;

use axum::http::StatusCode;
use credence_pipeline::{query, reports::ReportAction};
use credence_protocol::Uuid;
use credence_reports::{
    Actor, Error, Report,
    gather::{Request, gather},
};

use crate::{
    app::App,
    edge::Caller,
    problem::Problem,
    tokens::{Bearer, Scope},
};

/// What a reviewer decides.
pub(crate) enum ReportDecision {
    /// `digest` is that of the contents that the reviewer read.
    Approve {
        digest: Option<String>,
    },
    Reject {
        reason: String,
    },
    Publish,
    Correct {
        reason: String,
        replaced_by: Option<Uuid>,
    },
    Withdraw {
        reason: String,
    },
}

/// What was recorded.
pub(crate) struct Decided {
    pub report: Uuid,
    pub state: &'static str,
    pub seq: u64,
}

/// The holder of a token, as far as reports go.
pub(crate) fn actor(token: &Bearer) -> Actor {
    Actor::new(token.name.clone(), &token.id, token.may(Scope::Review))
}

/// The same for the caller, where there is a token.
pub(crate) fn actor_of(caller: &Caller) -> Option<Actor> {
    match caller {
        Caller::Token(token) => Some(actor(token)),
        Caller::Anyone(_) => None,
    }
}

/// The id of a report in a path. Anything else is not found.
pub(crate) fn report_id(text: &str) -> Result<Uuid, Problem> {
    text.parse().map_err(|_| Problem::not_found("unknown_report", "a report's id is a UUID"))
}

/// Drafts a report on an agent.
pub(crate) async fn draft(
    app: &Arc<App>,
    token: Arc<Bearer>,
    agent: String,
    summary: Option<String>,
) -> Result<Report, Problem> {
    app.work(move |app| {
        let agent = query::resolve(&*app.authority.ledger().view()?, &agent)?;
        // The report rests on the newest events: none of them is to be behind.
        app.authority.rescore(&agent)?;
        let view = app.authority.ledger().view()?;
        let request = Request {
            reading: app.reading(),
            log: &app.log,
            agent: &agent,
            drafter: actor(&token).holder().clone(),
            summary,
            now: app.now(),
        };
        let contents = gather(&*view, request)?;
        Ok(Report::Draft(app.desk.draft(contents)?))
    })
    .await
}

/// Takes a decision.
pub(crate) async fn decide(
    app: &Arc<App>,
    token: Arc<Bearer>,
    report: Uuid,
    decision: ReportDecision,
) -> Result<Decided, Problem> {
    app.work(move |app| {
        app.tokens.reload().map_err(|e| Problem::internal(&e))?;
        let token = app.tokens.renewed(&token, app.now()).ok_or_else(|| {
            let detail = "the token was revoked or has expired: nothing was decided";
            Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
        })?;
        let by = actor(&token).reviewer()?;
        let in_force = |holder: &credence_pipeline::reports::TokenHolder| app.tokens.knows(&holder.token);
        let (authority, desk) = (&app.authority, &app.desk);
        let (action, row) = match decision {
            ReportDecision::Approve { digest } => {
                let reviewed = desk.approve(authority, report, &by, digest.as_deref(), &in_force)?;
                (ReportAction::Approved, reviewed.row().clone())
            }
            ReportDecision::Reject { reason } => {
                (ReportAction::Rejected, desk.reject(authority, report, &by, reason)?.row().clone())
            }
            ReportDecision::Publish => {
                app.signs()?;
                let published = desk.publish(authority, &app.office.key, report, &by, &in_force)?;
                (ReportAction::Published, published.row().clone())
            }
            ReportDecision::Correct { reason, replaced_by } => {
                let corrected = desk.correct(authority, report, &by, reason, replaced_by)?;
                (ReportAction::Corrected, corrected.row().clone())
            }
            ReportDecision::Withdraw { reason } => {
                (ReportAction::Withdrawn, desk.withdraw(authority, report, &by, reason)?.row().clone())
            }
        };
        let seq = row.newest(action).map(|event| event.seq).unwrap_or_default();
        Ok(Decided { report, state: row.state.key(), seq })
    })
    .await
}

/// A report, for a reader who may see it.
pub(crate) async fn find(
    app: &Arc<App>,
    report: Uuid,
    reader: Option<Actor>,
) -> Result<(Report, Option<Actor>), Problem> {
    app.read(move |app, view| Ok((app.desk.find(view, report, reader.as_ref())?, reader))).await
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        use StatusCode as S;
        let (status, code) = match &error {
            Error::Unknown(_) => {
                return Self::not_found("unknown_report", "there is no such report, or it is not yours to see");
            }
            Error::NeedsReview(_) => (S::FORBIDDEN, "insufficient_scope"),
            Error::OwnDraft(_) => (S::FORBIDDEN, "own_draft"),
            Error::State { .. } => (S::CONFLICT, "report_state"),
            Error::OtherDigest(_) => (S::CONFLICT, "other_digest"),
            Error::ApprovalRevoked(_) => (S::CONFLICT, "approval_revoked"),
            Error::NotInEntry { .. } => (S::CONFLICT, "not_in_entry"),
            Error::Summary(_) => (S::UNPROCESSABLE_ENTITY, "invalid_summary"),
            Error::TooManyDrafts { .. } => (S::CONFLICT, "too_many_drafts"),
            Error::Output(credence_output::Error::TooLarge { .. }) => (S::PAYLOAD_TOO_LARGE, "too_large"),
            Error::Key(_) => (S::SERVICE_UNAVAILABLE, "signing_key_unusable"),
            Error::Changed { .. } => (S::SERVICE_UNAVAILABLE, "report_changed"),
            _ => {
                return match error {
                    Error::Pipeline(error) => error.into(),
                    other => Self::internal(&other),
                };
            }
        };
        if let Error::Changed { .. } = &error {
            tracing::error!(%error, "a report differs from the ledger");
        }
        Self::new(status, code, error.to_string())
    }
}
