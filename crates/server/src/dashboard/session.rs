//! Who looks. A token is typed into a form once; the browser then keeps a random name for it, which opens pages and nothing
//! else: the API knows no cookies. The name is forgotten after a while, with the process, or when the token ends.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use askama::Template;
use axum::{
    extract::{FromRequestParts, State},
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Redirect, Response},
};
use data_encoding::HEXLOWER;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::{
    Frame, html,
    inputs::{FormInput, QueryInput},
};
use crate::{app::App, edge::Caller, problem::Problem, tokens::Bearer};

const COOKIE: &str = "credence_session";
const HOLDS: Duration = Duration::from_secs(12 * 3600);
const MAX_SESSIONS: usize = 10_000;
/// Sessions of one token: a newer one ends the oldest.
const MAX_OF_ONE: usize = 20;
/// Bytes of a session's name.
const NAME_BYTES: usize = 32;

/// Whoever looks at a page.
pub(crate) struct Viewer {
    /// The token that is signed in. In a demo everyone has the demo's.
    pub token: Option<Arc<Bearer>>,
    pub caller: Caller,
}

impl FromRequestParts<Arc<App>> for Viewer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Infallible> {
        let caller = parts.extensions.get::<Caller>().cloned();
        let caller = caller.unwrap_or(Caller::Anyone(std::net::IpAddr::from([127, 0, 0, 1])));
        let token = match &caller {
            Caller::Token(token) => Some(Arc::clone(token)),
            Caller::Anyone(_) => signed_in(app, &parts.headers).or_else(|| app.demo.clone()),
        };
        Ok(Self { token, caller })
    }
}

/// The token that is signed in with this request's session, if it is still in force.
pub(crate) fn signed_in(app: &App, headers: &HeaderMap) -> Option<Arc<Bearer>> {
    cookie(headers).and_then(|name| app.sessions.find(name)).filter(|token| app.tokens.holds(token, app.now()))
}

/// Whether a session is named, whatever became of it.
pub(super) fn is_signed_in(headers: &HeaderMap) -> bool {
    cookie(headers).is_some()
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(';')).find_map(|one| one.trim().strip_prefix(COOKIE)?.strip_prefix('='))
}

/// Sessions by the hash of their names: what is in memory opens nothing.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<[u8; 32], Session>>);

/// Whose, and since when.
type Session = (Arc<Bearer>, Instant);

impl Sessions {
    fn find(&self, name: &str) -> Option<Arc<Bearer>> {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key: [u8; 32] = Sha256::digest(name.as_bytes()).into();
        let (token, since) = sessions.get(&key)?;
        if since.elapsed() < HOLDS {
            return Some(Arc::clone(token));
        }
        sessions.remove(&key);
        None
    }

    /// A new session's name.
    fn begin(&self, token: Arc<Bearer>) -> Result<String, Problem> {
        let mut name = [0; NAME_BYTES];
        getrandom::fill(&mut name).map_err(|e| Problem::internal(&e))?;
        let name = HEXLOWER.encode(&name);
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = |sessions: &HashMap<[u8; 32], Session>, of: Option<&str>| {
            let of_token = sessions.iter().filter(|(_, (token, _))| of.is_none_or(|id| token.id == id));
            of_token.min_by_key(|(_, (_, since))| *since).map(|(name, _)| *name)
        };
        let own = sessions.values().filter(|(other, _)| other.id == token.id).count();
        let crowded = match (own >= MAX_OF_ONE, sessions.len() >= MAX_SESSIONS) {
            (true, _) => oldest(&sessions, Some(&token.id)),
            (false, true) => oldest(&sessions, None),
            (false, false) => None,
        };
        if let Some(name) = crowded {
            sessions.remove(&name);
        }
        sessions.insert(Sha256::digest(name.as_bytes()).into(), (token, Instant::now()));
        Ok(name)
    }

    fn end(&self, name: &str) {
        let key: [u8; 32] = Sha256::digest(name.as_bytes()).into();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }
}

/// Where to go on: a path of this service, whatever the form says.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Next {
    next: String,
}

pub(super) fn path_of(next: &str) -> &str {
    let plain = |c: char| c.is_ascii_graphic() && c != '\\';
    let is_path = next.starts_with('/') && !next.starts_with("//") && next.chars().all(plain);
    if is_path { next } else { "/" }
}

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignIn<'a> {
    frame: Frame,
    next: &'a str,
    wrong: bool,
}

pub(super) async fn form(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    QueryInput(Next { next }): QueryInput<Next>,
) -> Response {
    html(StatusCode::OK, &SignIn { frame: Frame::new(&app, &viewer, "sign-in"), next: path_of(&next), wrong: false })
}

#[derive(Deserialize)]
pub(super) struct SignInForm {
    token: String,
    #[serde(default)]
    next: String,
}

pub(super) async fn sign_in(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    FormInput(SignInForm { token, next }): FormInput<SignInForm>,
) -> Response {
    let next = path_of(&next);
    let frame = Frame::new(&app, &viewer, "sign-in");
    let Some(token) = app.tokens.find(token.trim(), app.now()) else {
        return html(StatusCode::UNAUTHORIZED, &SignIn { frame, next, wrong: true });
    };
    match app.sessions.begin(token) {
        Ok(name) => with_cookie(&app, &name, HOLDS.as_secs(), next),
        Err(problem) => super::error_page(&frame, &problem),
    }
}

pub(super) async fn sign_out(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    if let Some(name) = cookie(&headers) {
        app.sessions.end(name);
    }
    with_cookie(&app, "", 0, "/")
}

fn with_cookie(app: &App, name: &str, seconds: u64, next: &str) -> Response {
    let secure = if app.office.base_url.starts_with("https://") { "; Secure" } else { "" };
    let cookie = format!("{COOKIE}={name}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}");
    let mut response = Redirect::to(next).into_response();
    if let Ok(cookie) = HeaderValue::try_from(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use credence_protocol::EntityId;

    #[test]
    fn where_to_go_on_is_here() {
        for (asked, goes) in [
            ("/tools?a=1", "/tools?a=1"),
            ("//evil.example", "/"),
            ("https://evil.example", "/"),
            ("/\\evil.example", "/"),
            ("/\t/evil.example", "/"),
            ("", "/"),
        ] {
            assert_eq!(path_of(asked), goes, "{asked}");
        }
    }

    #[test]
    fn sessions_begin_and_end() {
        let sessions = Sessions::default();
        let at = "2026-01-01T00:00:00Z".parse().unwrap();
        let name = sessions.begin(Arc::new(Bearer::operator(EntityId::new("me").unwrap(), at))).unwrap();
        assert_eq!(name.len(), 2 * NAME_BYTES);
        assert_eq!(sessions.find(&name).unwrap().name.as_str(), "me");
        assert!(sessions.find("other").is_none());
        sessions.end(&name);
        assert!(sessions.find(&name).is_none());
        let of = |id: &str| Arc::new(Bearer::operator(EntityId::new(id).unwrap(), at));
        let names: Vec<String> = (0..=MAX_OF_ONE).map(|_| sessions.begin(of("me")).unwrap()).collect();
        assert!(sessions.find(&names[0]).is_none(), "the oldest made room");
        assert!(names[1..].iter().all(|name| sessions.find(name).is_some()));
    }

    #[test]
    fn the_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, HeaderValue::from_static("a=b; credence_session=xyz; c=d"));
        assert_eq!(cookie(&headers), Some("xyz"));
        headers.insert(header::COOKIE, HeaderValue::from_static("credence_session_other=xyz"));
        assert_eq!(cookie(&headers), None);
    }
}
