//! *Tools*: what the verification engine makes of each tool: control charts, verdicts with their reasons, what was learned, the
//! thresholds that hold. A token sees its own namespace and no other.

use std::sync::Arc;

use askama::Template;
use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Redirect, Response},
};
use credence_protocol::Timestamp;
use credence_verify::{
    Verdict,
    inspect::{ControlSeries, Inspection, KnownPath, Type},
};
use serde::Deserialize;

use super::{
    Frame, Viewer,
    format::{When, count, encoded, percent, short},
    html,
    inputs::{FormInput, PathInput, QueryInput},
    session::path_of,
};
use crate::{
    app::App,
    namespace::Namespace,
    problem::Problem,
    recent::{RecentVerdict, Unanswerable, VerdictFilter},
    routes::verify,
    tokens::Scope,
};

/// Verdicts listed.
const VERDICTS: usize = 40;
/// Numeric fields with a chart of their own.
const FIELDS: usize = 8;

/// A tool in the list.
struct ToolRow {
    name: String,
    path: String,
    accepted: String,
    flagged: String,
    blocked: String,
    last: Option<When>,
    block_threshold: String,
    profile: bool,
}

#[derive(Template)]
#[template(path = "tools.html")]
struct ToolsPage {
    frame: Frame,
    allowed: bool,
    tools: Vec<ToolRow>,
    verdicts: Vec<VerdictRow>,
    doubtful: bool,
    /// Whose results alone; empty for everybody's.
    agent: String,
    /// The same in an address.
    of_agent: String,
    base: String,
}

/// A verdict as it is shown.
struct VerdictRow {
    number: u64,
    when: When,
    tool: String,
    tool_path: String,
    agent: Option<String>,
    agent_path: String,
    decision: &'static str,
    posterior: String,
    answered: Option<bool>,
    explanation: String,
    took: String,
    checks: Vec<FiredCheck>,
}

struct FiredCheck {
    name: &'static str,
    score: String,
    ratio: String,
    detail: String,
}

#[derive(Template)]
#[template(path = "tool.html")]
struct ToolPage {
    frame: Frame,
    tool: String,
    path: String,
    known: Option<ToolKnowledge>,
    verdicts: Vec<VerdictRow>,
    doubtful: bool,
    /// Where feedback leads back to.
    here: String,
    thanks: bool,
    feedback: Feedback,
}

struct Feedback {
    count: u64,
    rate: String,
    brier: String,
}

/// What is known of a tool.
struct ToolKnowledge {
    results: String,
    charts: Vec<Chart>,
    more_fields: usize,
    structure: Vec<PathRow>,
    changed: bool,
    prior: String,
    flag: String,
    block: String,
    budget: String,
    rates: Vec<(&'static str, String, String)>,
    profile: bool,
}

struct Chart {
    svg: String,
    broken: usize,
    /// So many points are marked that the rules do not fit the values.
    unfit: bool,
}

struct PathRow {
    path: String,
    types: String,
    presence: String,
    holds: String,
}

impl ToolsPage {
    /// For whoever may not see any.
    fn closed() -> Self {
        let (tools, verdicts, doubtful) = (Vec::new(), Vec::new(), false);
        let (agent, of_agent, base) = (String::new(), String::new(), String::new());
        Self { frame: Frame::bare(), allowed: false, tools, verdicts, doubtful, agent, of_agent, base }
    }
}

fn may(viewer: &Viewer) -> bool {
    viewer.token.as_ref().is_some_and(|token| token.may(Scope::Verify))
}

pub(super) async fn list(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    QueryInput(asked): QueryInput<PageQuery>,
) -> Response {
    let frame = Frame::new(&app, &viewer, "tools");
    let base = app.office.base_url.clone();
    let Some(token) = viewer.token.clone().filter(|_| may(&viewer)) else {
        return html(StatusCode::OK, &ToolsPage { frame, base, ..ToolsPage::closed() });
    };
    let (now, doubtful, agent) = (app.now(), asked.doubtful(), asked.agent.trim().to_owned());
    let of_agent = if agent.is_empty() { String::new() } else { encoded(&agent) };
    let whose = agent.clone();
    let made = app
        .work(move |app| {
            let namespace = app.engines.open(token.name.as_str())?;
            let counted = namespace.recent.tools();
            let profiled = namespace.profiled();
            let mut names: Vec<&String> = counted.keys().chain(&profiled).collect();
            names.sort_unstable();
            names.dedup();
            let tools = names.into_iter().map(|name| {
                let tallied = counted.get(name);
                let of = |n: usize| count(tallied.map_or(0, |tallied| tallied.verdicts[n]));
                ToolRow {
                    path: format!("/tools/{}", encoded(name)),
                    accepted: of(0),
                    flagged: of(1),
                    blocked: of(2),
                    last: tallied.map(|tallied| When::new(tallied.last, now)),
                    block_threshold: namespace.engine.block_threshold(name).map_or("–".to_owned(), percent),
                    profile: profiled.contains(name),
                    name: name.clone(),
                }
            });
            let agent = Some(whose.as_str()).filter(|agent| !agent.is_empty());
            let verdicts = namespace.recent.newest(&VerdictFilter { agent, doubtful, tool: None }, VERDICTS);
            Ok((tools.collect(), verdicts.iter().map(|recent| verdict_row(recent, now)).collect()))
        })
        .await;
    super::page(frame, made, |frame, (tools, verdicts)| {
        html(StatusCode::OK, &ToolsPage { frame, allowed: true, tools, verdicts, doubtful, agent, of_agent, base })
    })
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct PageQuery {
    thanks: String,
    /// `doubtful`: those flagged and blocked.
    only: String,
    /// Those on what this agent reported.
    agent: String,
}

impl PageQuery {
    fn doubtful(&self) -> bool {
        self.only == "doubtful"
    }
}

pub(super) async fn page(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    PathInput(tool): PathInput,
    QueryInput(asked): QueryInput<PageQuery>,
) -> Response {
    let frame = Frame::new(&app, &viewer, "tools");
    let Some(token) = viewer.token.clone().filter(|_| may(&viewer)) else {
        return Redirect::to(&format!("/sign-in?next={}", encoded(&format!("/tools/{}", encoded(&tool)))))
            .into_response();
    };
    let now = app.now();
    let made = app.work(move |app| one(&*app.engines.open(token.name.as_str())?, tool, &asked, now)).await;
    super::page(frame, made, |frame, page| html(StatusCode::OK, &ToolPage { frame, ..page }))
}

fn one(namespace: &Namespace, tool: String, asked: &PageQuery, now: Timestamp) -> Result<ToolPage, Problem> {
    let inspection = namespace.engine.inspect(&tool)?;
    let profile = namespace.profile(&tool).is_some();
    let (doubtful, thanks) = (asked.doubtful(), !asked.thanks.is_empty());
    let verdicts: Vec<VerdictRow> = namespace
        .recent
        .newest(&VerdictFilter { tool: Some(&tool), doubtful, agent: None }, VERDICTS)
        .iter()
        .map(|recent| verdict_row(recent, now))
        .collect();
    if inspection.is_none() && !profile && verdicts.is_empty() && !namespace.recent.tools().contains_key(&tool) {
        return Err(Problem::not_found("unknown_tool", format!("no result of '{tool}' was judged for this token")));
    }
    let fed_back = namespace.engine.feedback(&tool)?;
    let feedback = Feedback { count: fed_back.count, rate: percent(fed_back.rate), brier: short(fed_back.brier) };
    let known = inspection.map(|inspection| known(&inspection, profile));
    let path = format!("/tools/{}", encoded(&tool));
    Ok(ToolPage {
        frame: Frame::bare(),
        here: format!("{path}{}", if doubtful { "?only=doubtful" } else { "" }),
        path,
        tool,
        known,
        verdicts,
        doubtful,
        thanks,
        feedback,
    })
}

/// Marked points up to which nothing is concluded.
const MARKED: usize = 5;

fn known(inspection: &Inspection, profile: bool) -> ToolKnowledge {
    let mut charts = vec![
        chart("Latency", "ms", Some(0.0), &inspection.latency),
        chart("Size of the result", "characters", Some(0.0), &inspection.size),
    ];
    let fields = inspection.fields.iter().take(FIELDS);
    charts.extend(fields.map(|(name, series)| chart(&format!("Field {name}"), "", None, series)));
    let rates = inspection.checks.iter().map(|rate| (rate.check.name(), short(rate.evaluated), percent(rate.rate)));
    ToolKnowledge {
        results: count(inspection.results),
        charts: charts.into_iter().flatten().collect(),
        more_fields: inspection.numeric_fields.saturating_sub(FIELDS.min(inspection.fields.len())),
        structure: inspection.structure.iter().map(path).collect(),
        changed: inspection.changed,
        prior: percent(inspection.prior),
        flag: percent(inspection.flag_threshold),
        block: percent(inspection.block_threshold),
        budget: percent(inspection.max_false_block_rate),
        rates: rates.collect(),
        profile,
    }
}

/// A control chart, once there is something to draw.
fn chart(title: &str, unit: &str, least: Option<f64>, series: &ControlSeries) -> Option<Chart> {
    let marks: Vec<credence_charts::Mark> = series
        .points
        .iter()
        .enumerate()
        .filter(|(_, point)| !point.breaks.is_empty())
        .map(|(index, point)| credence_charts::Mark { index, text: point.breaks.join(", ") })
        .collect();
    let points: Vec<f64> = series.points.iter().map(|point| point.value).collect();
    let drawn = credence_charts::Series {
        name: title,
        unit,
        points: &points,
        mean: series.mean,
        stddev: series.stddev,
        least,
        marks: &marks,
    };
    (points.len() > 1).then(|| Chart {
        svg: credence_charts::control(title, &drawn).inline(),
        broken: marks.len(),
        unfit: marks.len() > MARKED && marks.len() * 5 > points.len(),
    })
}

fn path(known: &KnownPath) -> PathRow {
    let types: Vec<&str> = known.types.iter().map(|kind| kind.name()).collect();
    let mut holds = Vec::new();
    if let Some((low, high)) = known.numbers {
        holds.push(format!("{} to {}", short(low), short(high)));
    }
    if let Some((low, high)) =
        known.lengths.filter(|_| known.types.iter().any(|t| matches!(t, Type::String | Type::Array)))
    {
        holds.push(format!("length {} to {}", short(low.round()), short(high.round())));
    }
    if let Some(values) = known.values {
        holds.push(format!("{values} known value{}", if values == 1 { "" } else { "s" }));
    }
    if known.echoes {
        holds.push("repeats an argument".to_owned());
    }
    PathRow {
        path: if known.path.is_empty() { "(the result)".to_owned() } else { known.path.clone() },
        types: types.join(" or "),
        presence: percent(known.presence),
        holds: holds.join(", "),
    }
}

fn verdict_row(recent: &RecentVerdict, now: Timestamp) -> VerdictRow {
    let Verdict { tool, decision, posterior, agent, checks, .. } = &recent.verdict;
    let fired = checks.iter().filter(|result| result.fired).map(|result| FiredCheck {
        name: result.check.name(),
        score: short(result.score),
        ratio: short(result.likelihood_ratio),
        detail: result.detail.clone().unwrap_or_default(),
    });
    VerdictRow {
        number: recent.number,
        when: When::new(recent.at, now),
        tool_path: format!("/tools/{}", encoded(tool)),
        tool: tool.clone(),
        agent_path: agent.as_ref().map_or(String::new(), |agent| format!("/agents/{}", encoded(agent))),
        agent: agent.clone(),
        decision: decision.name(),
        posterior: percent(*posterior),
        answered: recent.answered,
        explanation: recent.verdict.explanation(),
        took: recent.execution_time_ms.map_or(String::new(), |ms| format!("{} ms", short(ms))),
        checks: fired.collect(),
    }
}

#[derive(Deserialize)]
pub(super) struct FeedbackForm {
    /// The verdict.
    number: u64,
    fabricated: bool,
    #[serde(default)]
    next: String,
}

/// What `POST /v1/feedback` does, for whoever is signed in.
pub(super) async fn feedback(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    FormInput(said): FormInput<FeedbackForm>,
) -> Response {
    let frame = Frame::new(&app, &viewer, "tools");
    let Some(token) = viewer.token.as_ref().filter(|_| may(&viewer)) else {
        let detail = "feedback counts for the token that asked for the verdict: sign in with a token of scope 'verify'";
        return super::error_page(&frame, &Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail));
    };
    let FeedbackForm { number, fabricated, next } = said;
    let answered = app.engines.opened(token.name.as_str()).ok_or(Unanswerable::Gone);
    let (tool, posterior) = match answered.and_then(|namespace| namespace.recent.answer(number, fabricated)) {
        Ok(answered) => answered,
        Err(why) => {
            let detail = match why {
                Unanswerable::Gone => {
                    "that verdict is not remembered any more: POST /v1/feedback takes what you know of it"
                }
                Unanswerable::Answered => "somebody has answered that verdict already: each counts once",
            };
            return super::error_page(&frame, &Problem::new(StatusCode::CONFLICT, "not_answerable", detail));
        }
    };
    match verify::record_feedback(&app, token, verify::NewFeedback { tool, posterior, fabricated }).await {
        Ok(_) => {
            let next = path_of(&next);
            let joined = if next.contains('?') { '&' } else { '?' };
            Redirect::to(&format!("{next}{joined}thanks=1")).into_response()
        }
        Err(problem) => {
            if let Some(namespace) = app.engines.opened(token.name.as_str()) {
                namespace.recent.retract_answer(number);
            }
            super::error_page(&frame, &problem)
        }
    }
}
