//! *Agents*: everyone, ranked, by the authority's weights or by the visitor's own. What is chosen stands in the address, so that
//! a view can be shared.

use std::{collections::BTreeMap, sync::Arc};

use askama::Template;
use axum::{
    extract::{Query, State},
    http::StatusCode,
    response::Response,
};
use credence_engine::{custom::EVERY_OTHER_SOURCE, tiers::Tier};
use credence_pipeline::query::{self, AssuredRow, SourceRow};
use credence_protocol::{ScoreStatus, Timestamp};

use super::{
    Frame, Viewer,
    format::{When, count, encoded, one, percent, signed, tier, whole},
    html,
    ranking::{Order, Own, Page, Row, Wanted},
};
use crate::{app::App, problem::Problem};

/// Agents on one page.
const ROWS: usize = 50;
/// Days in a sparkline.
const DAYS: i64 = 30;
/// Scores that are read one by one: whoever has more in so many days is looked at by the day.
const RECENT: usize = 40;
/// Shares of evidence that can be asked for, in percent. Below 40 an agent is unknown rather than good or bad.
const EVIDENCES: [u8; 4] = [20, 40, 60, 80];
/// Sources that have a slider of their own.
const SLIDERS: usize = 10;
/// The far end of a slider.
const MOST_WEIGHT: f64 = 2.0;

/// What a visitor chose.
#[derive(Debug, Clone)]
struct Chosen {
    wanted: Wanted,
    page: usize,
    /// The sliders, also where they are not in force.
    weights: BTreeMap<String, f64>,
}

impl Chosen {
    /// From the address. What makes no sense is passed over: an old link still shows something.
    fn read(pairs: &[(String, String)]) -> Self {
        let get = |name: &str| pairs.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value.as_str());
        let weight = |value: &str| value.parse::<f64>().ok().filter(|w| (0.0..=1e6).contains(w));
        let weights: BTreeMap<String, f64> = pairs
            .iter()
            .filter_map(|(key, value)| Some((key.strip_prefix("w.")?.to_owned(), weight(value)?)))
            .take(crate::routes::scores::MAX_WEIGHTS)
            .collect();
        let order = Order::ALL.into_iter().find(|order| order.key() == get("sort")).unwrap_or(Order::Assured);
        let own = get("own") == "1" && !weights.is_empty();
        Self {
            page: get("page").parse::<usize>().unwrap_or(1).saturating_sub(1),
            wanted: Wanted {
                search: get("q").chars().take(200).collect(),
                tier: tier(get("tier")),
                certification: tier(get("certified")).filter(|tier| *tier != Tier::Unrated),
                min_known: get("known").parse::<u8>().map_or(0.0, |percent| f64::from(percent.min(100)) / 100.0),
                order,
                reverse: get("reverse") == "1",
                weights: own.then(|| weights.clone()),
            },
            weights,
        }
    }

    /// The address of this view, with some of it changed.
    fn link(&self, changed: &[(&str, String)]) -> String {
        let Wanted { search, tier, certification, min_known, order, reverse, weights } = &self.wanted;
        let key = |tier: &Option<Tier>| tier.map_or(String::new(), |tier| tier.key().to_owned());
        let mut pairs = vec![
            ("q".to_owned(), search.clone()),
            ("tier".to_owned(), key(tier)),
            ("certified".to_owned(), key(certification)),
            (
                "known".to_owned(),
                if *min_known > 0.0 { (min_known * 100.0).round().to_string() } else { String::new() },
            ),
            ("sort".to_owned(), if *order == Order::Assured { String::new() } else { order.key().to_owned() }),
            ("reverse".to_owned(), if *reverse { "1".to_owned() } else { String::new() }),
            ("page".to_owned(), String::new()),
        ];
        if let Some(weights) = weights {
            pairs.push(("own".to_owned(), "1".to_owned()));
            pairs.extend(weights.iter().map(|(source, weight)| (format!("w.{source}"), weight.to_string())));
        }
        for (name, value) in changed {
            match pairs.iter_mut().find(|(key, _)| key == name) {
                Some((_, old)) => *old = value.clone(),
                None => pairs.push(((*name).to_owned(), value.clone())),
            }
        }
        let pairs: Vec<String> = pairs
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(key, value)| format!("{}={}", encoded(key), encoded(value)))
            .collect();
        if pairs.is_empty() { "/".to_owned() } else { format!("/?{}", pairs.join("&")) }
    }
}

/// A column that can be ordered by.
struct Column {
    name: &'static str,
    link: String,
    /// `ascending`, `descending`, or nothing.
    sorted: &'static str,
    class: &'static str,
}

/// A slider.
struct Slider {
    source: String,
    label: String,
    weight: String,
    /// The authority's own weight.
    ours: String,
    /// Its far end.
    most: String,
}

/// An agent as it is listed.
struct RankedAgent {
    rank: String,
    id: String,
    path: String,
    name: String,
    /// Whether the name is another than the id.
    named: bool,
    revoked: bool,
    /// The assured score, what is believed, and the range; empty where there is none, or under the visitor's own weights.
    assured: String,
    estimate: String,
    range: String,
    evidence: String,
    known: f64,
    /// The universal score, or what the visitor's own weights come to.
    score: String,
    spread: String,
    /// Why there is no score.
    unrated: &'static str,
    tier: Option<Tier>,
    certification: Option<Tier>,
    sources: usize,
    sparkline: String,
    changed: Option<When>,
    change: String,
    up: bool,
    down: bool,
}

#[derive(Template)]
#[template(path = "agents.html")]
struct AgentsPage {
    frame: Frame,
    search: String,
    tiers: Vec<(Tier, bool)>,
    certifications: Vec<(Tier, bool)>,
    /// Percent of evidence that is asked for; whether it is chosen.
    evidences: Vec<(u8, bool)>,
    order: &'static str,
    reverse: bool,
    own: bool,
    columns: Vec<Column>,
    sliders: Vec<Slider>,
    more_sources: usize,
    agents: Vec<RankedAgent>,
    matching: String,
    all: String,
    from: usize,
    until: usize,
    previous: Option<String>,
    next: Option<String>,
    reset: String,
    as_of: String,
}

pub(crate) async fn page(
    State(app): State<Arc<App>>,
    viewer: Viewer,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Response {
    let frame = Frame::new(&app, &viewer, "agents");
    let chosen = Chosen::read(&pairs);
    let now = app.now();
    let made = app.work(move |app| make(app, &chosen, now)).await;
    super::page(frame, made, |frame, page| html(StatusCode::OK, &AgentsPage { frame, ..page }))
}

fn make(app: &App, chosen: &Chosen, now: Timestamp) -> Result<AgentsPage, Problem> {
    let (all, page) =
        app.rankings.with(app, |ranking| (ranking.len(), ranking.page(&chosen.wanted, chosen.page, ROWS)))?;
    let view = app.authority.ledger().view()?;
    let mut sources = query::sources(&*view)?;
    sources.sort_by(|a, b| b.1.weight.total_cmp(&a.1.weight).then_with(|| a.0.cmp(&b.0)));
    let Page { rows, matching, from, as_of } = page;
    let until = from + rows.len();
    let mut agents = Vec::with_capacity(rows.len());
    for (place, (row, own)) in rows.iter().enumerate() {
        let mut history = query::assured_history(&*view, &row.id, RECENT)?;
        let since = now.plus_seconds(-DAYS * 86_400);
        let change = last_change(&history);
        if history.len() == RECENT && history.last().is_some_and(|row| row.recorded_at > since) {
            let ends = app.rankings.day_ends(&*view, now, DAYS)?;
            history.truncate(1);
            history.extend(query::assured_closings(&*view, &row.id, &ends)?.into_iter().rev().flatten());
        }
        let recent = history.iter().filter(|row| row.recorded_at > since);
        let scores: Vec<Option<f64>> = recent.map(vouched).collect();
        agents.push(listed(from + place + 1, row, *own, chosen.wanted.weights.is_some(), &scores, change, now));
    }
    let at = from / ROWS;
    let to_page = |page: usize| chosen.link(&[("page", (page + 1).to_string())]);
    Ok(AgentsPage {
        frame: Frame::bare(),
        search: chosen.wanted.search.clone(),
        tiers: Tier::ALL.into_iter().map(|tier| (tier, chosen.wanted.tier == Some(tier))).collect(),
        certifications: Tier::ALL[1..].iter().map(|tier| (*tier, chosen.wanted.certification == Some(*tier))).collect(),
        evidences: EVIDENCES
            .into_iter()
            .map(|percent| (percent, (chosen.wanted.min_known * 100.0).round() == f64::from(percent)))
            .collect(),
        order: chosen.wanted.order.key(),
        reverse: chosen.wanted.reverse,
        own: chosen.wanted.weights.is_some(),
        columns: columns(chosen),
        sliders: sliders(chosen, &sources),
        more_sources: sources.len().saturating_sub(SLIDERS),
        agents,
        matching: count(matching as u64),
        all: count(all as u64),
        from: if matching == 0 { 0 } else { from + 1 },
        until,
        previous: (at > 0).then(|| to_page(at - 1)),
        next: (until < matching).then(|| to_page(at + 1)),
        reset: "/".to_owned(),
        as_of: count(as_of),
    })
}

fn listed(
    rank: usize,
    row: &Row,
    own: Option<Own>,
    by_own: bool,
    scores: &[Option<f64>],
    change: Option<(Timestamp, f64)>,
    now: Timestamp,
) -> RankedAgent {
    let published = row.published();
    // What can be vouched for rests on the authority's own weights.
    let assured = row.assured().filter(|_| !by_own);
    let unrated = match &row.score {
        _ if by_own => "none of these sources",
        None => "no score yet",
        Some(score) => match score.status {
            ScoreStatus::Partial => "too few sources",
            _ => ScoreStatus::Unrated.name(),
        },
    };
    let (mean, stddev) = match (by_own, own, published) {
        (true, Some(own), _) => (one(own.mean), one(own.stddev)),
        (false, _, Some(score)) => (score.score.to_string(), one(score.stddev)),
        _ => Default::default(),
    };
    let (changed, change) = match change {
        Some((at, by)) => (Some(at), by),
        None => (row.assured.as_ref().map(|glance| glance.recorded_at), 0.0),
    };
    let values: Vec<f64> = scores.iter().rev().flatten().copied().collect();
    let name = row.name.clone().unwrap_or_else(|| row.id.to_string());
    RankedAgent {
        rank: count(rank as u64),
        path: format!("/agents/{}", encoded(row.id.as_str())),
        named: row.name.is_some(),
        sparkline: if values.len() > 1 {
            credence_charts::sparkline(&format!("Assured score of {} over time", row.id), &values).inline()
        } else {
            String::new()
        },
        id: row.id.to_string(),
        name,
        revoked: row.revoked,
        assured: assured.map_or(String::new(), |glance| glance.score.to_string()),
        estimate: assured.map_or(String::new(), |glance| whole(glance.estimate)),
        range: assured.map_or(String::new(), |glance| format!("{}–{}", whole(glance.low), whole(glance.high))),
        evidence: assured.map_or(String::new(), |glance| percent(glance.known)),
        known: assured.map_or(0.0, |glance| glance.known),
        score: mean,
        spread: stddev,
        unrated,
        tier: published.map(|score| score.tier).filter(|_| !by_own),
        certification: Some(row.certification).filter(|tier| *tier != Tier::Unrated),
        sources: if by_own { own.map_or(0, |own| own.sources) } else { published.map_or(0, |score| score.sources) },
        changed: changed.map(|at| When::new(at, now)),
        change: if change == 0.0 { String::new() } else { signed(change) },
        up: change > 0.0,
        down: change < 0.0,
    }
}

/// The published score before rounding, so that slow changes can be seen.
fn vouched(row: &AssuredRow) -> Option<f64> {
    let numbers = &row.recorded.assured;
    (numbers.status == ScoreStatus::Published).then(|| numbers.low.min(numbers.cap))
}

/// The newest event, among those at hand, that moved the score by a point or more, and by how much.
fn last_change(history: &[AssuredRow]) -> Option<(Timestamp, f64)> {
    let score = |row: &AssuredRow| f64::from(row.recorded.assured.score);
    let moved = history.windows(2).map(|pair| (pair[0].recorded_at, score(&pair[0]) - score(&pair[1])));
    moved.into_iter().find(|(_, by)| by.abs() >= 1.0)
}

fn columns(chosen: &Chosen) -> Vec<Column> {
    let Wanted { order, reverse, .. } = &chosen.wanted;
    let column = |name, by: Option<Order>, class| {
        let Some(by) = by else { return Column { name, link: String::new(), sorted: "", class } };
        let is = *order == by;
        let again = if is && !reverse { "1" } else { "" };
        let link = chosen.link(&[("sort", by.key().to_owned()), ("reverse", again.to_owned())]);
        // Names and spreads run upwards, the others begin with the most.
        let upwards = matches!(by, Order::Name | Order::Spread);
        let sorted = match (is, upwards != *reverse) {
            (false, _) => "",
            (true, true) => "ascending",
            (true, false) => "descending",
        };
        Column { name, link, sorted, class }
    };
    if chosen.wanted.weights.is_some() {
        return vec![
            column("Agent", Some(Order::Name), "agent"),
            column("Your mean", Some(Order::Universal), "number"),
            column("±", Some(Order::Spread), "number"),
            column("Certified", Some(Order::Certification), ""),
            column("Trend", None, "trend"),
            column("Last change", Some(Order::Changed), ""),
        ];
    }
    vec![
        column("Agent", Some(Order::Name), "agent"),
        column("Assured", Some(Order::Assured), "number"),
        column("Estimate", None, "still"),
        column("Evidence", Some(Order::Evidence), ""),
        column("Universal", Some(Order::Universal), "number"),
        column("±", Some(Order::Spread), "number"),
        column("Tier", None, "still"),
        column("Certified", Some(Order::Certification), ""),
        column("Trend", None, "trend"),
        column("Last change", Some(Order::Changed), ""),
    ]
}

fn sliders(chosen: &Chosen, sources: &[(String, SourceRow)]) -> Vec<Slider> {
    let ours = |weight: f64| format!("{weight}");
    let at = |source: &str, ours: f64| chosen.weights.get(source).copied().unwrap_or(ours).to_string();
    let most =
        |source: &str, ours: f64| chosen.weights.get(source).copied().unwrap_or(ours).max(MOST_WEIGHT).to_string();
    let mut sliders: Vec<Slider> = sources
        .iter()
        .take(SLIDERS)
        .map(|(source, row)| Slider {
            weight: at(source, row.weight),
            ours: ours(row.weight),
            most: most(source, row.weight),
            label: source.clone(),
            source: source.clone(),
        })
        .collect();
    // Everyone else together, and whoever comes later: as they weigh on average.
    let rest: Vec<f64> = sources.iter().skip(SLIDERS).map(|(_, row)| row.weight).collect();
    let rest = (20.0 * rest.iter().sum::<f64>() / rest.len().max(1) as f64).round() / 20.0;
    sliders.push(Slider {
        source: EVERY_OTHER_SOURCE.to_owned(),
        label: "all others".to_owned(),
        weight: at(EVERY_OTHER_SOURCE, rest),
        ours: String::new(),
        most: most(EVERY_OTHER_SOURCE, rest),
    });
    sliders
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(address: &str) -> Chosen {
        let pairs: Vec<(String, String)> =
            url::form_urlencoded::parse(address.as_bytes()).map(|(k, v)| (k.into_owned(), v.into_owned())).collect();
        Chosen::read(&pairs)
    }

    #[test]
    fn a_view_stands_in_its_address() {
        let address = "q=a%26b&tier=gold&known=40&sort=evidence&reverse=1&own=1&w.lab=0.5&w.%2A=0";
        let chosen = read(address);
        assert_eq!((chosen.wanted.search.as_str(), chosen.wanted.tier), ("a&b", Some(Tier::Gold)));
        let weights = chosen.wanted.weights.clone().unwrap();
        assert_eq!((weights["lab"], weights["*"]), (0.5, 0.0));
        let again = read(chosen.link(&[]).strip_prefix("/?").unwrap());
        assert_eq!(format!("{again:?}"), format!("{chosen:?}"));
        assert_eq!(read(chosen.link(&[("page", "3".into())]).strip_prefix("/?").unwrap()).page, 2);
    }

    #[test]
    fn what_makes_no_sense_is_passed_over() {
        let chosen = read("tier=wood&sort=colour&known=-4&page=-1&w.lab=NaN&w.x=-1&own=1");
        assert_eq!((chosen.wanted.tier, chosen.page), (None, 0));
        assert!(chosen.wanted.weights.is_none() && chosen.wanted.order == Order::Assured);
        assert_eq!(chosen.link(&[]), "/");
    }
}
