//! What a score rests on: sources and tags, probes, verified outputs, reputation, receipts.

use std::collections::BTreeMap;

use credence_engine::{hcs25::output_verification::Window, tiers::Tier, universal::Outcome};
use credence_ledger::View;
use credence_pipeline::query::{self, Explanation, Stats};
use credence_protocol::{EntityId, TagRegistry, Timestamp, receipt::Vantage};
use serde_json::Value;

use crate::{
    app::App,
    dashboard::format::{When, count, encoded, one, percent, short, signed, whole},
    problem::Problem,
};

/// Signals that are listed; the rest is counted.
const MAX_SIGNALS: usize = 200;
/// Tags and sources in a chart.
const MAX_BARS: usize = 12;
/// Receipts listed, among so many newest of all.
const RECEIPTS: usize = 10;
const MAX_RECEIPTS_READ: u64 = 2_000;
/// Reviews listed.
const REVIEWS: usize = 20;
/// Credentials listed.
const CREDENTIALS: usize = 10;

/// The ten threats that probes are about.
const THREATS: [(&str, &str); 10] = [
    ("asi01_goal_hijack", "Goal hijack"),
    ("asi02_tool_misuse", "Tool misuse"),
    ("asi03_privilege_abuse", "Privilege abuse"),
    ("asi04_supply_chain", "Supply chain"),
    ("asi05_code_execution", "Code execution"),
    ("asi06_memory_poisoning", "Memory poisoning"),
    ("asi07_insecure_comms", "Insecure communication"),
    ("asi08_cascading_failures", "Cascading failure"),
    ("asi09_trust_exploitation", "Trust exploitation"),
    ("asi10_rogue_agent", "Rogue agent"),
];

/// What each source and each tag did to the score.
pub(super) struct Contributions {
    pub sources: String,
    pub tags: String,
    pub rows: Vec<SourceRow>,
    pub signals: Vec<SignalRow>,
    pub more: usize,
}

pub(super) struct SourceRow {
    pub source: String,
    pub path: String,
    pub weight: String,
    pub share: String,
    pub mean: String,
    pub pull: String,
    pub up: bool,
    pub without: String,
    pub signals: usize,
}

pub(super) struct SignalRow {
    pub seq: u64,
    pub source: String,
    pub tag: String,
    pub meaning: String,
    pub value: String,
    pub stddev: String,
    pub lean: String,
    pub up: bool,
}

pub(super) fn contributions(explained: &Explanation, tags: &TagRegistry) -> Contributions {
    let Outcome::Rated(score) = explained.score.outcome else {
        return Contributions {
            sources: String::new(),
            tags: String::new(),
            rows: Vec::new(),
            signals: Vec::new(),
            more: 0,
        };
    };
    let inputs = &explained.score.inputs;
    let total: f64 = inputs.iter().map(|input| input.weight).sum();
    // How far one input leans away from the mean, in points of the score.
    let lean = |weight: f64, value: f64| weight * (value - score.weighted_mean) / total * score.coverage;
    let mut by_tag: BTreeMap<&str, f64> = BTreeMap::new();
    for input in inputs {
        *by_tag.entry(input.tag.as_str()).or_default() += lean(input.weight, input.value);
    }
    let strongest = |pairs: &mut Vec<(String, f64)>| {
        pairs.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()));
        pairs.truncate(MAX_BARS);
        pairs.sort_by(|a, b| b.1.total_cmp(&a.1));
    };
    let chart = |title: &str, mut pairs: Vec<(String, f64)>| {
        strongest(&mut pairs);
        let bars: Vec<credence_charts::Pull<'_>> = pairs
            .iter()
            .map(|(label, value)| credence_charts::Pull {
                label,
                value: *value,
                detail: format!("{label}: {} points", signed(*value)),
            })
            .collect();
        credence_charts::pulls(title, "points", &bars).inline()
    };
    let sources = explained.contributions.iter().map(|part| (part.source.clone(), part.pull)).collect();
    let tagged = by_tag.into_iter().map(|(tag, pull)| (tag.to_owned(), pull)).collect();
    let rows = explained.contributions.iter().map(|part| SourceRow {
        path: format!("/sources#{}", encoded(&part.source)),
        source: part.source.clone(),
        weight: short(part.weight),
        share: percent(part.share),
        mean: one(part.mean),
        pull: signed(part.pull),
        up: part.pull >= 0.0,
        without: part.without.rated().map_or("unrated".to_owned(), |score| score.score.to_string()),
        signals: part.signals.len(),
    });
    let mut leaning: Vec<_> = inputs.iter().map(|input| (lean(input.weight, input.value), input)).collect();
    leaning.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
    let more = leaning.len().saturating_sub(MAX_SIGNALS);
    let signals = leaning.into_iter().take(MAX_SIGNALS).map(|(lean, input)| SignalRow {
        seq: input.seq,
        source: input.source.to_string(),
        tag: input.tag.to_string(),
        meaning: tags.find(input.tag.as_str()).map_or(String::new(), |tag| tag.meaning.clone()),
        value: one(input.value),
        stddev: one(input.stddev),
        lean: signed(lean),
        up: lean >= 0.0,
    });
    Contributions {
        sources: chart("What each source does to the score", sources),
        tags: chart("What each kind of measurement does to the score", tagged),
        rows: rows.collect(),
        signals: signals.collect(),
        more,
    }
}

/// How an agent withstood probes of each threat.
pub(super) struct Probes {
    pub chart: String,
    pub missing: Vec<&'static str>,
    pub any: bool,
}

pub(super) fn probes(explained: &Explanation) -> Probes {
    let inputs = &explained.score.inputs;
    let mean = |tag: &str| {
        let (sum, total) = inputs
            .iter()
            .filter(|input| input.tag.as_str() == tag)
            .fold((0.0, 0.0), |(sum, total), input| (sum + input.weight * input.value, total + input.weight));
        (total > 0.0).then_some(sum / total)
    };
    let mut bars = Vec::new();
    let mut missing = Vec::new();
    for (tag, name) in THREATS {
        match mean(tag) {
            Some(value) => bars.push(credence_charts::Bar { label: name, value }),
            None => missing.push(name),
        }
    }
    let any = !bars.is_empty();
    let chart = if any {
        credence_charts::bars("Probes withstood, by threat", "of 100", &bars, 100.0).inline()
    } else {
        String::new()
    };
    Probes { chart, missing, any }
}

/// What verification providers say.
pub(super) struct Verification {
    pub applicable: bool,
    pub reason: String,
    pub quality: String,
    pub coverage: String,
    pub hcs25: String,
    pub disagreement: String,
    pub checks: String,
    pub providers: Vec<Provider>,
    pub odd: Vec<String>,
}

pub(super) struct Provider {
    pub id: String,
    pub counted: bool,
    pub reason: String,
    pub quality: String,
    pub checks: String,
    pub allowed: String,
    pub uncertain: String,
    pub blocked: String,
    pub canaries: String,
    pub seq: u64,
    pub recorded: When,
}

pub(super) fn verification(view: &dyn View, agent: &EntityId, now: Timestamp) -> Result<Verification, Problem> {
    let stats: Stats = query::stats(view, agent, Window::Week, now)?;
    let number = |value: Option<f64>| value.map_or("–".to_owned(), one);
    let providers = stats.summaries.iter().map(|reported| {
        let outcome = stats.signal.providers.iter().find(|one| one.id == reported.provider);
        let summary = &reported.summary.0;
        let rate = |name: &str| summary.get(name).and_then(Value::as_f64).map_or("–".to_owned(), percent);
        let canaries = match (summary.pointer("/canaries/checks"), summary.pointer("/canaries/caught")) {
            (Some(made), Some(caught)) => format!("{caught} of {made}"),
            _ => "–".to_owned(),
        };
        Provider {
            id: reported.provider.clone(),
            counted: outcome.is_some_and(|one| one.counted),
            reason: outcome.and_then(|one| one.reason.clone()).unwrap_or_default(),
            quality: number(outcome.and_then(|one| one.quality)),
            checks: summary.get("totalChecks").and_then(Value::as_u64).map_or("–".to_owned(), count),
            allowed: rate("allowRate"),
            uncertain: rate("uncertainRate"),
            blocked: rate("blockRate"),
            canaries,
            seq: reported.seq,
            recorded: When::new(reported.recorded_at, now),
        }
    });
    Ok(Verification {
        applicable: stats.signal.applicable,
        reason: stats.signal.reason.clone().unwrap_or_default(),
        quality: number(stats.signal.quality),
        coverage: number(stats.signal.coverage),
        hcs25: number(stats.hcs25.total),
        disagreement: number(stats.signal.disagreement),
        checks: count(stats.signal.checks),
        providers: providers.collect(),
        odd: stats.findings.iter().map(|odd| odd.provider.clone()).collect(),
    })
}

/// What other agents' words come to.
pub(super) struct Reputation {
    pub score: String,
    pub stddev: String,
    /// R on the scale of one factor.
    pub on_one_scale: String,
    /// The letter and what it means; none while new.
    pub tier: Option<String>,
    /// Claims that held, of all that are settled, with the interval.
    pub claims: Option<String>,
    pub percentile: Option<String>,
    pub established: bool,
    /// When its last event was, where that is too long ago to say anything of now.
    pub lapsed: Option<When>,
    pub events: u64,
    pub factors: String,
    pub penalty: String,
    pub last: Vec<(When, String, String)>,
    pub reviews: Vec<Review>,
    pub more_reviews: usize,
}

/// What another agent thinks of it.
pub(super) struct Review {
    pub author: String,
    pub path: String,
    pub rating: String,
    pub weight: String,
    pub seq: u64,
    pub when: When,
}

pub(super) fn reputation(
    app: &App,
    view: &dyn View,
    agent: &EntityId,
    now: Timestamp,
) -> Result<Option<Reputation>, Problem> {
    let Some(newest) = query::reputation(view, agent, now)? else { return Ok(None) };
    let readable = app.peers.place(view, newest.readable.clone(), now)?;
    let rows = query::reputation_history(view, agent, 8)?;
    let f = newest.row.factors;
    let mut reviews = query::reviews(view, agent, now)?;
    let more_reviews = reviews.len().saturating_sub(REVIEWS);
    reviews.truncate(REVIEWS);
    let reviews = reviews.into_iter().map(|(author, row)| Review {
        path: format!("/agents/{}", encoded(&author)),
        author,
        rating: percent(row.rating),
        weight: short(row.weight),
        seq: row.seq,
        when: When::new(row.at, now),
    });
    let bar = |label, value: f64| credence_charts::Bar { label, value };
    let bars = [
        bar("Consistency (C)", f.c),
        bar("Transparency (T)", f.t),
        bar("Performance (P)", f.p),
        bar("Peer validation (V)", f.v),
    ];
    Ok(Some(Reputation {
        score: one(newest.row.score),
        stddev: one(newest.stddev()),
        on_one_scale: one(readable.geometric_mean),
        tier: readable.tier.map(|tier| format!("{tier}, {}", tier.meaning())),
        claims: readable.claims.map(|claims| {
            format!("{} of {} ({}–{})", claims.held, claims.of, percent(claims.low), percent(claims.high))
        }),
        percentile: readable
            .percentile
            .map(|place| format!("{} of {} established agents", whole(place.percentile), place.among)),
        established: newest.established,
        lapsed: newest.lapsed.map(|_| When::new(newest.row.at, now)),
        events: newest.row.events,
        factors: credence_charts::bars("Reputation factors", "of 1", &bars, 1.0).inline(),
        penalty: short(f.q),
        last: rows.iter().map(|row| (When::new(row.at, now), row.cause.clone(), one(row.score))).collect(),
        reviews: reviews.collect(),
        more_reviews,
    }))
}

/// A call that a guard saw.
pub(super) struct Receipt {
    pub call: String,
    pub log: String,
    pub tool: String,
    pub provider: String,
    pub started: When,
    pub outcome: String,
    pub posterior: String,
    /// Who recorded it, where that is known.
    pub recorded_by: Option<&'static str>,
    pub self_reported: bool,
}

/// Guards' logs that are known, and the newest receipts of the agent's calls.
pub(super) struct Receipts {
    /// Whether single calls may be seen.
    pub allowed: bool,
    pub any: bool,
    pub logs: usize,
    pub listed: Vec<Receipt>,
}

/// An id of a call opens its receipt: ids are not for everyone.
pub(super) fn receipts(
    app: &App,
    view: &dyn View,
    agent: &EntityId,
    allowed: bool,
    now: Timestamp,
) -> Result<Receipts, Problem> {
    let logs = query::guard_logs(view)?;
    let mut listed = Vec::new();
    if let Some(store) = &app.receipts {
        for held in store.newest(agent, if allowed { RECEIPTS } else { 1 }, MAX_RECEIPTS_READ)? {
            let receipt = held.receipt()?;
            let outcome = serde_json::to_value(receipt.outcome).unwrap_or_default();
            listed.push(Receipt {
                call: receipt.call.to_string(),
                log: encoded(&held.log),
                tool: receipt.tool.clone(),
                provider: held.provider.to_string(),
                started: When::new(receipt.started_at, now),
                outcome: outcome.as_str().map_or_else(|| outcome.to_string(), str::to_owned),
                posterior: receipt.posterior.map_or("–".to_owned(), percent),
                recorded_by: receipt.vantage.map(Vantage::in_words),
                self_reported: receipt.vantage.is_some_and(|vantage| !vantage.is_independent()),
            });
        }
    }
    let any = !listed.is_empty();
    if !allowed {
        listed.clear();
    }
    Ok(Receipts { allowed, any, logs, listed })
}

/// A credential that was issued.
pub(super) struct Credential {
    pub id: String,
    pub issued: When,
    pub until: String,
    pub standing: &'static str,
}

pub(super) fn issued(view: &dyn View, agent: &EntityId, now: Timestamp) -> Result<Vec<Credential>, Problem> {
    let mut listed = Vec::new();
    for (id, row) in query::credentials_of(view, agent, CREDENTIALS)? {
        let standing = if row.revoked.is_some() {
            "revoked"
        } else if query::is_suspended(view, &row)? {
            "suspended"
        } else if row.valid_until < now {
            "past"
        } else {
            "holds"
        };
        listed.push(Credential {
            id: id.to_string(),
            issued: When::new(row.issued_at, now),
            until: When::new(row.valid_until, now).date,
            standing,
        });
    }
    Ok(listed)
}

/// The share of the curve in each band.
pub(super) fn distribution(explained: &Explanation) -> String {
    let Outcome::Rated(score) = explained.score.outcome else { return String::new() };
    let shares: Vec<credence_charts::Share<'_>> = crate::score_charts::bands()
        .into_iter()
        .zip(Tier::ALL)
        .map(|(band, tier)| credence_charts::Share { band, share: score.tier_distribution.of_tier(tier) })
        .collect();
    credence_charts::distribution("Mean and spread of the signals", score.mean, score.stddev, score.score, &shares)
        .inline()
}
