//! What pages take in: an address or a form that cannot be read gets a page that says so.

use axum::{
    Form,
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::request::Parts,
    response::Response,
};
use serde::de::DeserializeOwned;

use super::{Frame, error_page};
use crate::problem::Problem;

fn unreadable(why: &str) -> Response {
    error_page(
        &Frame::bare(),
        &Problem::bad_request("bad_query", format!("That address or form cannot be read: {why}")),
    )
}

/// What stands behind the `?`.
pub(super) struct QueryInput<T>(pub T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for QueryInput<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        Query::try_from_uri(&parts.uri).map(|Query(asked)| Self(asked)).map_err(|e| unreadable(&e.body_text()))
    }
}

/// A part of the path.
pub(super) struct PathInput(pub String);

impl<S: Send + Sync> FromRequestParts<S> for PathInput {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Response> {
        let named = Path::<String>::from_request_parts(parts, state).await;
        named.map(|Path(name)| Self(name)).map_err(|e| unreadable(&e.body_text()))
    }
}

/// A form that was sent.
pub(super) struct FormInput<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for FormInput<T> {
    type Rejection = Response;

    async fn from_request(request: Request, state: &S) -> Result<Self, Response> {
        let sent = Form::<T>::from_request(request, state).await;
        sent.map(|Form(sent)| Self(sent)).map_err(|e| unreadable(&e.body_text()))
    }
}
