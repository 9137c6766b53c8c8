//! Errors as callers see them: `application/problem+json` (RFC 9457) with a `code` that stays.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use credence_pipeline::{Error, Rejection, answer::Refusal};
use serde::Serialize;
use utoipa::ToSchema;

/// Characters of a detail: it may quote what was sent.
const MAX_DETAIL: usize = 600;

/// An error as it leaves.
#[derive(Debug, Clone)]
pub struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) code: &'static str,
    detail: String,
    retry_after: Option<u32>,
    /// The rest of the body is not read: the connection ends, and the client is told.
    closes: bool,
}

/// The code of an error, for the log.
#[derive(Clone, Copy)]
pub(crate) struct Code(pub &'static str);

/// The body of every error.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct Body<'a> {
    /// A URN made of the code.
    r#type: String,
    /// What the status means.
    title: &'a str,
    /// The HTTP status.
    status: u16,
    /// Stays the same between versions: for programs.
    code: &'a str,
    /// What is wrong, and what to do: for people and models.
    detail: &'a str,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        let mut detail: String = detail.into();
        if let Some((end, _)) = detail.char_indices().nth(MAX_DETAIL) {
            detail.truncate(end);
            detail.push('…');
        }
        Self { status, code, detail, retry_after: None, closes: false }
    }

    pub(crate) fn bad_request(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, detail)
    }

    pub(crate) fn unprocessable(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, detail)
    }

    pub(crate) fn not_found(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, detail)
    }

    /// Something of ours: what it is goes to the log, not to the caller.
    pub(crate) fn internal(error: &dyn std::fmt::Display) -> Self {
        tracing::error!(error = %error, "a request failed");
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal_error",
            "something failed here: the operator's log says what",
        )
    }

    /// The tables differ from the ledger: nothing is signed.
    pub(crate) fn differs() -> Self {
        let detail = "the tables here differ from the ledger, so nothing is signed: the operator has to rebuild them";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ledger_differs", detail).retry_after(60)
    }

    /// The disk is full.
    pub(crate) fn storage_full(error: &dyn std::fmt::Display) -> Self {
        tracing::error!(%error, "no space left");
        let detail = "no space is left here: nothing of this request was written; try again later";
        Self::new(StatusCode::INSUFFICIENT_STORAGE, "storage_full", detail).retry_after(60)
    }

    pub(crate) fn retry_after(self, seconds: u32) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// The connection ends with it.
    pub(crate) fn closing(self) -> Self {
        Self { closes: true, ..self }
    }

    /// The same under another code: some protocols have their own.
    pub(crate) fn coded(self, code: &'static str) -> Self {
        Self { code, ..self }
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self { status, code, detail, retry_after, closes } = self;
        let title = status.canonical_reason().unwrap_or("Error");
        let r#type = format!("urn:credence:problem:{code}");
        let body = Body { r#type, title, status: status.as_u16(), code, detail: &detail };
        let body = serde_json::to_string(&body).unwrap_or_default();
        let mut response = (status, body).into_response();
        response.extensions_mut().insert(Code(code));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if closes {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        use StatusCode as S;
        let (status, code) = match &error {
            Error::Ledger(inner) => return inner.into(),
            Error::UnknownAgent(_) => (S::NOT_FOUND, "unknown_agent"),
            Error::AliasTaken { .. } => (S::CONFLICT, "alias_taken"),
            Error::IdTaken { .. } => (S::CONFLICT, "id_taken"),
            Error::NothingNew(_) => (S::CONFLICT, "nothing_new"),
            Error::UnknownSource(_) => (S::NOT_FOUND, "unknown_source"),
            Error::SourceExists(_) => (S::CONFLICT, "source_exists"),
            Error::Weight(_) => (S::UNPROCESSABLE_ENTITY, "invalid_weight"),
            Error::SameWeight { .. } => (S::CONFLICT, "nothing_new"),
            Error::UnknownKey(_) => (S::NOT_FOUND, "unknown_key"),
            Error::KeyExists { .. } => (S::CONFLICT, "key_exists"),
            Error::RevokedKey(_) => (S::CONFLICT, "revoked_key"),
            Error::AlreadyRevoked { .. } => (S::CONFLICT, "already_revoked"),
            Error::FutureSeq { .. } => (S::UNPROCESSABLE_ENTITY, "future_seq"),
            Error::KeyOfAnother { .. } => (S::CONFLICT, "key_of_another"),
            Error::Text { .. } => (S::UNPROCESSABLE_ENTITY, "invalid_text"),
            Error::UnknownLink { .. } => (S::NOT_FOUND, "unknown_link"),
            Error::LinkStep { .. } => (S::CONFLICT, "link_step"),
            Error::Dispute { .. } => (S::CONFLICT, "dispute_step"),
            Error::Methodology => (S::UNPROCESSABLE_ENTITY, "invalid_methodology"),
            Error::NotRated(_) => (S::CONFLICT, "not_rated"),
            Error::AgentRevoked(_) => (S::CONFLICT, "agent_revoked"),
            Error::NotRevoked(_) => (S::CONFLICT, "not_revoked"),
            Error::UnknownCredential(_) => (S::NOT_FOUND, "unknown_credential"),
            Error::CredentialRevoked { .. } => (S::CONFLICT, "already_revoked"),
            Error::Outcome(_) => (S::UNPROCESSABLE_ENTITY, "invalid_outcome"),
            Error::Probe(_) => (S::UNPROCESSABLE_ENTITY, "invalid_probe"),
            Error::OutcomeExists { .. } => (S::CONFLICT, "duplicate_id"),
            Error::Report(_) => (S::CONFLICT, "report_state"),
            Error::Attestation(_) => (S::CONFLICT, "attestation_step"),
            Error::AttestationBudget { .. } => (S::CONFLICT, "attestation_budget"),
            Error::NotThen(_) => (S::NOT_FOUND, "not_then"),
            Error::Differs(_) => return Self::differs(),
            Error::Engine(_) => (S::UNPROCESSABLE_ENTITY, "invalid_numbers"),
            _ => return Self::internal(&error),
        };
        // Said on the command line with the command that helps; here with the route.
        let detail = match &error {
            Error::UnknownAgent(name) => {
                format!("no agent has the id or alias '{name}': POST /v1/agents registers one")
            }
            Error::UnknownSource(name) => format!("no source '{name}': POST /v1/sources registers one"),
            Error::SourceExists(name) => {
                format!("source '{name}' is registered already: PATCH /v1/sources/{name} changes it")
            }
            Error::UnknownKey(key) => format!("no key {key} is registered: GET /v1/keys lists those that are"),
            Error::Outcome(why) => why.clone(),
            other => other.to_string(),
        };
        Self::new(status, code, detail)
    }
}

/// Files of the service.
impl From<std::io::Error> for Problem {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        match error.kind() {
            StorageFull | QuotaExceeded | FileTooLarge => Self::storage_full(&error),
            _ => Self::internal(&error),
        }
    }
}

impl From<&credence_ledger::Error> for Problem {
    fn from(error: &credence_ledger::Error) -> Self {
        match error {
            credence_ledger::Error::Full(_) => Self::storage_full(error),
            credence_ledger::Error::EntryTooLarge { .. } => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", error.to_string())
            }
            credence_ledger::Error::Proof(why) => Self::not_found("no_proof", why.clone()),
            other => Self::internal(other),
        }
    }
}

impl From<credence_ledger::Error> for Problem {
    fn from(error: credence_ledger::Error) -> Self {
        Self::from(&error)
    }
}

impl From<&Rejection> for Problem {
    fn from(rejection: &Rejection) -> Self {
        let code = rejection.code();
        let status = match code {
            "too_large" => StatusCode::PAYLOAD_TOO_LARGE,
            "duplicate_id" | "already_resolved" | "already_verified" | "already_refuted" | "resubmitted"
            | "older_summary" => StatusCode::CONFLICT,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Self::new(status, code, rejection.to_string())
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Pipeline(error) => error.into(),
            Refusal::Url => Self::bad_request("entityMismatch", refusal.to_string()),
            Refusal::Mismatch { .. } => Self::bad_request("entityMismatch", refusal.to_string()),
            Refusal::Behind(_) => {
                let detail = "new signals of that agent come in faster than it can be scored: come back in a second";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", detail).retry_after(1)
            }
            other => Self::internal(&other),
        }
    }
}

impl From<credence_verify::Error> for Problem {
    fn from(error: credence_verify::Error) -> Self {
        use credence_verify::Error as E;
        let (status, code) = match &error {
            E::NoTool | E::ToolName { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_tool"),
            E::ExecutionTime(_) => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_execution_time"),
            E::TooLarge { .. } | E::TooManyBytes { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            E::Pattern { .. } | E::Schema(_) => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_profile"),
            E::NotJson { .. } => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_result"),
            E::Setting(_) => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_profile"),
            _ => return Self::internal(&error),
        };
        Self::new(status, code, error.to_string())
    }
}

impl From<credence_protocol::Error> for Problem {
    fn from(error: credence_protocol::Error) -> Self {
        Self::bad_request("malformed", error.to_string())
    }
}
