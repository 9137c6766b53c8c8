//! Signed answers, for a page and a purpose; and badges.

use std::sync::{Arc, atomic::Ordering};

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use credence_output::badge::Style;
use credence_pipeline::{
    answer::{self, Answers, Question},
    responses::{ReaderClass, SentResponse},
};
use credence_protocol::Timestamp;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use crate::{
    answers::{AnswerKey, CachedAnswer},
    app::App,
    edge::Caller,
    extract::{Params, Part},
    problem::Problem,
    schema::{Errors, TrustSignals},
    shares::Owner,
};

/// How long a badge may be shown from a cache: README pages show them for long.
const BADGE_SECONDS: i64 = 300;

#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Purpose {
    /// The page that the asking agent is really on.
    #[param(max_length = 2048, example = "https://weather.example/today")]
    url: String,
    /// What for: `purchase`, `inquiry`, `high-value`; anything else gives a general answer. The answer repeats it as it was sent, up to
    /// 64 characters; a longer one is ignored.
    context: Option<String>,
}

/// Should I go ahead? A signed answer
///
/// Facts in `signals`, an opinion in `assessment`, both under one signature; verify it with the key that `kid` names in
/// `/.well-known/jwks.json`. Its hash is in the log within a second: `/v1/log/responses/{hash}` proves it.
#[utoipa::path(get, path = "/v1/entities/{entity}/trust-signals", tag = "answers", params(("entity" = String, Path, description = "An agent's id or alias"), Purpose),
    responses((status = 200, body = TrustSignals), (status = 304, description = "What If-None-Match names still holds"), Errors))]
pub(crate) async fn trust_signals(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Part(entity): Part<String>,
    Params(Purpose { url, context }): Params<Purpose>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let answer =
        signed(&app, &caller, entity, &url, context.as_deref()).await.map_err(|problem| match problem.code {
            "unknown_agent" => problem.coded("entityNotFound"),
            "internal_error" => problem.coded("internalError"),
            _ => problem,
        })?;
    let seconds = answer.seconds_left(app.now());
    Ok(deliver(&answer, &headers, "application/json", seconds))
}

/// The answer that was given last, if it still holds.
pub(crate) async fn kept(
    app: &Arc<App>,
    entity: String,
    url: &str,
    context: Option<&str>,
) -> Result<Option<CachedAnswer>, Problem> {
    let url = answer::checked_url(url)?.to_owned();
    let context = answer::sent_context(context).map(str::to_owned);
    let anyone = Owner::Address(std::net::Ipv4Addr::UNSPECIFIED.into());
    find(app, &AnswerKey::TrustSignals { entity, url, context }, anyone, app.now()).await
}

/// The answer, kept or new: whoever asks and however, it is the same one, and recorded in the same way.
pub(crate) async fn signed(
    app: &Arc<App>,
    caller: &Caller,
    entity: String,
    url: &str,
    context: Option<&str>,
) -> Result<CachedAnswer, Problem> {
    // As the answer will have them: what differs in nothing else is one answer.
    let url = answer::checked_url(url)?.to_owned();
    let context = answer::sent_context(context).map(str::to_owned);
    let key = AnswerKey::TrustSignals { entity, url, context };
    let now = app.now();
    match find(app, &key, caller.owner(), now).await? {
        Some(kept) => Ok(kept),
        None => make(app, caller, key, now).await,
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct BadgeQuery {
    #[param(inline)]
    style: Option<StyleName>,
}

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StyleName {
    Flat,
    Pill,
}

/// An agent's score as an SVG that carries its own proof
#[utoipa::path(get, path = "/v1/agents/{agent}/badge.svg", tag = "answers", params(("agent" = String, Path), BadgeQuery),
    responses((status = 200, body = String, content_type = "image/svg+xml"), (status = 304, description = "Unchanged"), Errors))]
pub(crate) async fn badge(
    State(app): State<Arc<App>>,
    Extension(caller): Extension<Caller>,
    Part(agent): Part<String>,
    Params(BadgeQuery { style }): Params<BadgeQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let style = match style {
        None | Some(StyleName::Flat) => Style::Flat,
        Some(StyleName::Pill) => Style::Pill,
    };
    let key = AnswerKey::Badge { entity: agent, style: style.into() };
    let now = app.now();
    let answer = match find(&app, &key, caller.owner(), now).await? {
        Some(kept) => kept,
        None => make(&app, &caller, key, now).await?,
    };
    let seconds = answer.seconds_left(app.now()).min(BADGE_SECONDS);
    let mut response = deliver(&answer, &headers, "image/svg+xml", seconds);
    let policy = HeaderValue::from_static("default-src 'none'; sandbox");
    response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    Ok(response)
}

/// A kept answer, if nothing that it was made of has changed.
async fn find(app: &Arc<App>, key: &AnswerKey, asks: Owner, now: Timestamp) -> Result<Option<CachedAnswer>, Problem> {
    app.catch_up().await?;
    let Some((kept, taken_over)) = app.answers.get(key, asks, &app.tail, now) else { return Ok(None) };
    app.metrics.answers_reused.inc();
    if taken_over && matches!(key, AnswerKey::TrustSignals { .. }) {
        // Recorded for somebody without a token: a flood of those must not push out the hash that a bearer holds.
        let hash = kept.etag.to_str().unwrap_or_default().trim_matches('"').to_owned();
        // Where there is no room it stays as it was recorded.
        let _ = app.outbox.push(SentResponse { hash, expires: kept.expires, class: ReaderClass::Bearer });
    }
    Ok(Some(kept))
}

async fn make(app: &Arc<App>, caller: &Caller, key: AnswerKey, now: Timestamp) -> Result<CachedAnswer, Problem> {
    app.signs()?;
    if let Err(setting) = app.limiter.new_answer(caller) {
        app.metrics.turned_away("answers");
        let detail = format!(
            "more new answers than {setting} allows, and each is signed and recorded: come back in a second, or use a token"
        );
        return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", detail).retry_after(1));
    }
    let class = match caller {
        Caller::Anyone(_) => ReaderClass::Anonymous,
        Caller::Token(_) => ReaderClass::Bearer,
    };
    let owner = caller.owner();
    app.work(move |app| {
        let answers = Answers::new(app.reading(), &app.rules, &app.office.key);
        let kept = match &key {
            AnswerKey::TrustSignals { entity, url, context } => {
                let question = Question { entity, url, context: context.as_deref() };
                let (as_of, answer) = app.signing(app.authority.up_to_date(|view, rescored| {
                    Ok((view.size()?, answers.on(rescored).answer(view, question, now)?))
                }))?;
                // No answer leaves that could not be recorded.
                if app.disk_full.load(Ordering::Relaxed) {
                    return Err(Problem::storage_full(&"answers cannot be recorded"));
                }
                let (hash, expires) = (answer.document.hash().to_owned(), answer.expires);
                if !app.outbox.push(SentResponse { hash, expires, class }) {
                    let detail = "more answers were signed than can be recorded: come back in a few seconds";
                    return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", detail).retry_after(5));
                }
                CachedAnswer {
                    agent: answer.agent,
                    as_of,
                    made: now,
                    expires: answer.expires,
                    etag: quoted(answer.document.hash()),
                    body: Bytes::from(answer.document.as_str().to_owned()),
                }
            }
            AnswerKey::Badge { entity, style } => {
                let (as_of, badge) = app.signing(app.authority.up_to_date(|view, rescored| {
                    Ok((view.size()?, answers.on(rescored).badge(view, entity, (*style).into(), now)?))
                }))?;
                CachedAnswer {
                    agent: badge.agent,
                    as_of,
                    made: now,
                    expires: badge.expires,
                    etag: quoted(&badge.hash),
                    body: Bytes::from(badge.svg),
                }
            }
        };
        // The tables may have been found to differ meanwhile.
        app.signs()?;
        app.metrics.answers_made.inc();
        app.answers.put(key, kept.clone(), owner);
        Ok(kept)
    })
    .await
}

fn quoted(hash: &str) -> HeaderValue {
    HeaderValue::try_from(format!("\"{hash}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

/// Whether an `If-None-Match` names `etag`: a list, weak or not, or anything at all.
fn names(asked: &HeaderValue, etag: &HeaderValue) -> bool {
    let (Ok(asked), Ok(etag)) = (asked.to_str(), etag.to_str()) else { return false };
    asked.split(',').map(str::trim).any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == etag)
}

fn deliver(kept: &CachedAnswer, asked: &HeaderMap, kind: &'static str, seconds: i64) -> Response {
    let same = asked.get(header::IF_NONE_MATCH).is_some_and(|asked| names(asked, &kept.etag));
    let mut response = if same {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let mut response = Response::new(axum::body::Body::from(kept.body.clone()));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    };
    let headers = response.headers_mut();
    headers.insert(header::ETAG, kept.etag.clone());
    let holds = HeaderValue::try_from(format!("public, max-age={seconds}"));
    headers.insert(header::CACHE_CONTROL, holds.unwrap_or(HeaderValue::from_static("no-cache")));
    response
}
