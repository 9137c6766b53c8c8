//! *Agent*: how far it can be trusted, why, since when, and how to check all of it.

mod assured;
mod attested;
mod evidence;
mod linked;
mod probe_runs;
mod why;

use std::sync::Arc;

use askama::Template;
use axum::{
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use credence_engine::{certification::Unmet, tiers::Tier, universal::Outcome};
use credence_ledger::View;
use credence_pipeline::query;
use credence_protocol::{EntityId, ScoreStatus, Timestamp};
use serde::Deserialize;
use serde_json::Value;

use self::probe_runs::ProbeSection;
use super::{
    Frame, Viewer,
    format::{When, encoded, one, percent},
    html,
    inputs::{PathInput, QueryInput},
};
use crate::{app::App, edge::Caller, origin, problem::Problem, routes::trust_signals, score_charts, tokens::Scope};
use assured::AssuredView;
use attested::AttestationView;
use evidence::{Contributions, Credential, Probes, Receipts, Reputation, Verification};
use linked::{DisputeView, LinkView};
use why::Why;

/// Scores in the chart.
const HISTORY: usize = 1_000;
/// How long a credential holds that is issued here.
const CREDENTIAL_DAYS: u16 = 30;

/// The contexts that are shown: what stands in the address, and what people call it.
const CONTEXTS: [(&str, &str); 4] =
    [("general", "General"), ("purchase", "Purchase"), ("inquiry", "Inquiry"), ("high-value", "High value")];

#[derive(Deserialize)]
#[serde(default)]
pub(super) struct PageQuery {
    /// A date or a time.
    at: String,
    context: String,
}

impl Default for PageQuery {
    fn default() -> Self {
        Self { at: String::new(), context: "general".to_owned() }
    }
}

/// The answer that a client gets.
enum Answer {
    Given {
        /// `proceed`, `caution` or `decline`.
        action: String,
        reasoning: String,
        highlights: Vec<String>,
        /// The whole document.
        text: String,
        kid: String,
    },
    Refused(String),
}

#[derive(Template)]
#[template(path = "agent.html")]
struct AgentPage {
    frame: Frame,
    id: String,
    path: String,
    name: String,
    owner: Option<String>,
    aliases: Vec<String>,
    revoked: bool,
    /// When its standing was revoked, why, and the entry.
    revocation: Option<(When, String, u64)>,
    has_address: bool,
    registered: When,
    registered_seq: u64,
    assured: Option<AssuredView>,
    score: Option<Headline>,
    unpublished: &'static str,
    certification: Option<Tier>,
    next_tier: Option<Tier>,
    missing: Vec<Unmet>,
    distribution: String,
    history: String,
    events: usize,
    contributions: Contributions,
    contexts: Vec<(&'static str, &'static str, bool)>,
    answer: Answer,
    answer_url: String,
    probes: Probes,
    probe_runs: ProbeSection,
    verification: Verification,
    reputation: Option<Reputation>,
    receipts: Receipts,
    credentials: Vec<Credential>,
    domains: Vec<String>,
    links: Vec<LinkView>,
    attestations: Vec<AttestationView>,
    disputes: Vec<DisputeView>,
    why: Option<Why>,
    why_wrong: String,
    today: String,
    first_day: String,
    newest_seq: Option<u64>,
    base: String,
}

struct Headline {
    score: u8,
    /// Before coverage, and after it.
    weighted: String,
    mean: String,
    stddev: String,
    tier: Tier,
    tier_confidence: String,
    coverage: String,
    sources: usize,
    inputs: usize,
}

pub(super) async fn page(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    PathInput(name): PathInput,
    QueryInput(asked): QueryInput<PageQuery>,
    headers: HeaderMap,
) -> Response {
    let frame = Frame::new(&app, &viewer, "agents");
    // A page that refreshes itself has no answers signed: each is recorded for good.
    // Nor does one that another site had the browser open, where that site may not record.
    let refresh = headers.contains_key("x-refresh") || origin::check(&app, &headers).is_err();
    let sees_calls = may_issue(&app, &viewer);
    let made = make(&app, &viewer.caller, name, asked, PageOptions { refresh, sees_calls }).await;
    super::page(frame, made, |frame, page| html(StatusCode::OK, &AgentPage { frame, ..page }))
}

/// How a page is looked at.
#[derive(Clone, Copy)]
struct PageOptions {
    /// By itself, to be up to date.
    refresh: bool,
    /// By somebody who may see who called what.
    sees_calls: bool,
}

async fn make(
    app: &Arc<App>,
    caller: &Caller,
    name: String,
    asked: PageQuery,
    PageOptions { refresh, sees_calls }: PageOptions,
) -> Result<AgentPage, Problem> {
    let now = app.now();
    let context = CONTEXTS.iter().map(|(key, _)| *key).find(|key| *key == asked.context).unwrap_or("general");
    let mut page = app.read(move |app, view| read(app, view, &name, &asked.at, sees_calls, now)).await?;
    page.contexts = CONTEXTS.iter().map(|(key, name)| (*key, *name, *key == context)).collect();
    // An agent answers for its own addresses: the first will do.
    let address = page.aliases.iter().find(|alias| alias.starts_with("https://")).cloned();
    page.answer = match &address {
        Some(address) => {
            let (entity, context) = (page.id.clone(), Some(context));
            let answered = if refresh {
                trust_signals::kept(app, entity, address, context).await
            } else {
                trust_signals::signed(app, caller, entity, address, context).await.map(Some)
            };
            match answered {
                Ok(Some(kept)) => answer(&kept.body),
                Ok(None) => Answer::Refused(
                    "What it rests on has changed since: load the page again for the answer of now.".to_owned(),
                ),
                Err(problem) => Answer::Refused(problem.detail().to_owned()),
            }
        }
        None => Answer::Refused("It has no https address: answers are about an agent at an address.".to_owned()),
    };
    let address = address.unwrap_or_else(|| "https://…".to_owned());
    page.answer_url = format!(
        "{}/v1/entities/{}/trust-signals?url={}&context={context}",
        page.base,
        encoded(&page.id),
        encoded(&address)
    );
    Ok(page)
}

fn read(
    app: &App,
    view: &dyn View,
    name: &str,
    at: &str,
    sees_calls: bool,
    now: Timestamp,
) -> Result<AgentPage, Problem> {
    let id = query::resolve(view, name)?;
    let row = query::agent(view, &id)?;
    let explained = app.explained(view, &id)?;
    let history = query::history(view, &id, HISTORY)?;
    let (why, why_wrong) = match at {
        "" => (None, String::new()),
        at => match why::parse(at, now).and_then(|at| why::why(view, &id, at, now)) {
            Ok(why) => (Some(why), String::new()),
            Err(problem) => (None, problem.detail().to_owned()),
        },
    };
    let (score, unpublished) = match &explained.score.outcome {
        Outcome::Rated(score) if score.status == ScoreStatus::Published => {
            let headline = Headline {
                score: score.score,
                weighted: one(score.weighted_mean),
                mean: one(score.mean),
                stddev: one(score.stddev),
                tier: score.tier,
                tier_confidence: percent(score.tier_confidence),
                coverage: percent(score.coverage),
                sources: score.sources,
                inputs: explained.score.inputs.len(),
            };
            (Some(headline), "")
        }
        Outcome::Rated(_) => (None, "too few sources for a score that could be published"),
        Outcome::Unrated => (None, "no signal counts yet"),
    };
    let certification = &explained.score.certification;
    let registered = When::new(row.registered_at, now);
    Ok(AgentPage {
        frame: Frame::bare(),
        path: format!("/agents/{}", encoded(id.as_str())),
        name: row.name.clone().unwrap_or_else(|| id.to_string()),
        owner: row.owner.as_ref().map(ToString::to_string),
        aliases: row.aliases.iter().map(ToString::to_string).collect(),
        revoked: row.revoked.is_some(),
        revocation: row.revoked.map(|seq| revocation(view, seq, now)).transpose()?,
        has_address: row.aliases.iter().any(|alias| alias.as_str().starts_with("https://")),
        registered_seq: row.seq,
        unpublished,
        assured: assured::view(view, &id, &explained, now)?,
        certification: Some(certification.tier).filter(|tier| *tier != Tier::Unrated),
        next_tier: certification.next,
        missing: certification.missing.clone(),
        distribution: if score.is_some() { evidence::distribution(&explained) } else { String::new() },
        score,
        history: score_charts::history("Score over time", &history).inline(),
        events: history.len(),
        contributions: evidence::contributions(&explained, &app.authority.scoring().tags),
        contexts: Vec::new(),
        answer: Answer::Refused(String::new()),
        answer_url: String::new(),
        probes: evidence::probes(&explained),
        probe_runs: probe_runs::section(view, &id, now)?,
        verification: evidence::verification(view, &id, now)?,
        reputation: evidence::reputation(app, view, &id, now)?,
        receipts: evidence::receipts(app, view, &id, sees_calls, now)?,
        credentials: evidence::issued(view, &id, now)?,
        domains: proved(view, &id, now)?,
        links: linked::links(view, &id, now)?,
        attestations: attested::attestations(view, &id, now)?,
        disputes: linked::disputes(view, &id, now)?,
        why,
        why_wrong,
        today: now.to_string().chars().take(10).collect(),
        first_day: registered.iso.chars().take(10).collect(),
        registered,
        newest_seq: history.first().map(|row| row.seq),
        base: app.office.base_url.clone(),
        id: id.to_string(),
    })
}

fn revocation(view: &dyn View, seq: u64, now: Timestamp) -> Result<(When, String, u64), Problem> {
    let (at, record) = query::recorded(view, seq)?;
    Ok((When::new(at, now), record["reason"].as_str().unwrap_or_default().to_owned(), seq))
}

fn proved(view: &dyn View, agent: &EntityId, now: Timestamp) -> Result<Vec<String>, Problem> {
    let proved = query::proved_domains(view, agent)?.map(|(_, proved)| proved).unwrap_or_default();
    Ok(proved.into_iter().filter(|one| one.holds(now)).map(|one| one.host).collect())
}

/// What stands in a signed answer.
fn answer(body: &[u8]) -> Answer {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let assessment = &value["assessment"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let highlights = assessment["highlights"].as_array().into_iter().flatten();
    Answer::Given {
        action: text(&assessment["action"]),
        reasoning: text(&assessment["reasoning"]),
        highlights: highlights.map(text).collect(),
        text: serde_json::to_string_pretty(&value).unwrap_or_default(),
        kid: text(&value["kid"]),
    }
}

/// Whether the viewer may what an operator may on this page: have credentials issued, see single calls. In a demo everyone may.
pub(super) fn may_issue(app: &App, viewer: &Viewer) -> bool {
    app.demo.is_some() || viewer.token.as_ref().is_some_and(|token| token.may(Scope::Admin))
}

/// Issues a credential about the agent and hands it over as a file: what `POST /v1/credentials` does.
pub(super) async fn credential(State(app): State<Arc<App>>, viewer: Viewer, PathInput(name): PathInput) -> Response {
    let frame = Frame::new(&app, &viewer, "agents");
    if !may_issue(&app, &viewer) {
        let detail = "a credential is issued by the operator: sign in with a token of scope 'admin'";
        return super::error_page(&frame, &Problem::new(StatusCode::FORBIDDEN, "insufficient_scope", detail));
    }
    match crate::routes::credentials::issued(&app, name, Some(CREDENTIAL_DAYS)).await {
        Ok(credential) => {
            let name = credential["credentialSubject"]["agent"].as_str().unwrap_or("agent").to_owned();
            let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).collect();
            let text = serde_json::to_string_pretty(&credential).unwrap_or_default();
            let mut response = text.into_response();
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/vc"));
            let file = HeaderValue::try_from(format!("attachment; filename=\"{name}.credential.json\""));
            headers.insert(header::CONTENT_DISPOSITION, file.unwrap_or(HeaderValue::from_static("attachment")));
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        Err(problem) => super::error_page(&frame, &problem),
    }
}
