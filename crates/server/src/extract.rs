//! What handlers take in. Every refusal is a [`Problem`].

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::{HeaderMap, StatusCode, header, request::Parts},
};
use credence_protocol::strict;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::{
    app::App,
    edge::Caller,
    problem::Problem,
    tokens::{Bearer, Scope},
};

/// A body of JSON, parsed strictly: no key twice, no integer beyond 2^53, nothing unknown.
pub(crate) struct Json<T>(pub T);

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let Raw(bytes) = Raw::from_request(request, app).await?;
        strict::object(&bytes).map(Self).map_err(|e| invalid(&bytes, &e.to_string()))
    }
}

/// What is no JSON, or JSON that is not what was asked for.
pub(crate) fn invalid(bytes: &[u8], why: &str) -> Problem {
    let why = why.strip_prefix("malformed JSON: ").unwrap_or(why);
    match serde_json::from_slice::<IgnoredAny>(bytes) {
        Err(error) => Problem::bad_request("malformed_json", format!("the body is no JSON: {error}")),
        Ok(_) => Problem::unprocessable("invalid_body", why),
    }
}

/// A body that says it is JSON, as it came.
pub(crate) struct Raw(pub Bytes);

impl FromRequest<Arc<App>> for Raw {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        if !is_media_type(request.headers(), "application/json") {
            return Err(unsupported("application/json"));
        }
        whole(request.into_body(), app.settings.max_body_bytes).await.map(Self)
    }
}

pub(crate) fn unsupported(wanted: &str) -> Problem {
    let detail = format!("send a body with Content-Type: {wanted}");
    Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail)
}

/// Whether the body says it is of this media type, whatever the parameters.
pub(crate) fn is_media_type(headers: &HeaderMap, wanted: &str) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(wanted)
}

/// How much of a body that is refused is still read, and how long: whoever is cut off while it sends never sees the answer.
const LINGER_BYTES: usize = 4 * 1024 * 1024;
const LINGER_TIME: Duration = Duration::from_secs(2);

/// Reads on for a while and forgets what it read, so that the refusal that follows arrives.
pub(crate) async fn linger(mut body: Body) {
    let read = async {
        let mut left = LINGER_BYTES;
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                return;
            }
        }
    };
    // Whoever is slower than that is cut off.
    let _ = tokio::time::timeout(LINGER_TIME, read).await;
}

/// The whole body, if it is within the limit.
pub(crate) async fn whole(mut body: Body, limit: usize) -> Result<Bytes, Problem> {
    match Limited::new(&mut body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            linger(body).await;
            Err(too_large(limit))
        }
        Err(_) => Err(Problem::bad_request("incomplete_body", "the body ended before it was complete")),
    }
}

pub(crate) fn too_large(limit: usize) -> Problem {
    let detail = format!("the body is over the limit of {limit} bytes: send less at once");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", detail)
}

/// The next part of a body that comes in its own time, if it comes in `patience`.
pub(crate) async fn next_part(body: &mut Body, patience: Duration) -> Result<Option<Bytes>, Problem> {
    loop {
        let frame = tokio::time::timeout(patience, body.frame()).await.map_err(|_| crate::edge::too_slow())?;
        match frame {
            None => return Ok(None),
            Some(Err(_)) => {
                return Err(Problem::bad_request("incomplete_body", "the body ended before it was complete"));
            }
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// Query parameters.
pub(crate) struct Params<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<Arc<App>> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, Problem> {
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(value)) => Ok(Self(value)),
            Err(error) => {
                let why = error.body_text();
                let why = why.strip_prefix("Failed to deserialize query string: ").unwrap_or(&why);
                Err(Problem::bad_request("bad_query", why))
            }
        }
    }
}

/// No query parameters at all: one that is not known is told.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// A part of the path.
pub(crate) struct Part<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<Arc<App>> for Part<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        match Path::from_request_parts(parts, app).await {
            Ok(Path(value)) => Ok(Self(value)),
            Err(error) => Err(Problem::bad_request("bad_path", error.body_text())),
        }
    }
}

/// Whoever asks has a token with a scope.
pub(crate) fn scoped(caller: Option<&Caller>, scope: Scope) -> Result<Arc<Bearer>, Problem> {
    match caller {
        Some(Caller::Token(token)) if token.may(scope) => Ok(Arc::clone(token)),
        Some(Caller::Token(token)) => {
            let detail = format!("this needs a token with scope '{}', and '{}' has none", scope.key(), token.name);
            Err(Problem::new(StatusCode::FORBIDDEN, "insufficient_scope", detail))
        }
        _ => {
            let detail = format!(
                "this needs `Authorization: Bearer TOKEN` with scope '{}': `credence token` makes one",
                scope.key()
            );
            Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail))
        }
    }
}

macro_rules! scope {
    ($name:ident, $doc:literal) => {
        #[doc = $doc]
        #[allow(dead_code, reason = "some handlers need the scope only")]
        pub(crate) struct $name(pub Arc<Bearer>);

        impl FromRequestParts<Arc<App>> for $name {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, Problem> {
                scoped(parts.extensions.get::<Caller>(), Scope::$name).map(Self)
            }
        }
    };
}

scope!(Admin, "A token that grants every permission but review.");
scope!(Ingest, "A token that may submit.");
scope!(Verify, "A token that may have results judged.");
scope!(Review, "A token of a person who decides about reports.");
