//! One small function for each number of the catalogue that is more than a field.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::hcs25::{Component, Error, Input, Metadata, Reading, Status};

pub(super) fn parse<T: DeserializeOwned + Default>(options: Option<&Value>) -> Result<T, String> {
    options.map_or_else(|| Ok(T::default()), |value| T::deserialize(value).map_err(|error| error.to_string()))
}

pub(super) fn log(x: f64, cap: f64) -> f64 {
    (100.0 * libm::log1p(x.max(0.0)) / libm::log1p(cap)).clamp(0.0, 100.0)
}

pub(super) fn five_stars(rating: f64) -> f64 {
    rating / 5.0 * 100.0
}

pub(super) fn from(value: Option<f64>) -> Reading {
    Reading::of(value, None)
}

pub(super) fn first(m: &Metadata, paths: &[&str]) -> Option<f64> {
    paths.iter().find_map(|path| m.number(path))
}

pub(super) fn acp(m: &Metadata, field: &str) -> Option<f64> {
    m.number(&format!("metrics.{field}")).or_else(|| m.number(field))
}

/// A timeout or error is kept only where there is no number at all.
pub(super) fn uptime(m: &Metadata) -> Reading {
    const DAY_MINUTES: f64 = 1440.0;
    let measured = m.number("availabilityScore").map(|score| if score <= 1.0 { score * 100.0 } else { score });
    let last_seen = || m.number("metrics.minsFromLastOnline").map(|minutes| 100.0 * (1.0 - minutes / DAY_MINUTES));
    let online = || m.get("metrics.isOnline").and_then(Value::as_bool).map(|on| if on { 100.0 } else { 0.0 });
    let status = m.status("availabilityStatus").unwrap_or(Status::Missing);
    match measured.or_else(last_seen).or_else(online) {
        Some(value) => Reading { value, status: if status == Status::Stale { Status::Stale } else { Status::Ok } },
        None if matches!(status, Status::Timeout | Status::Error) => Reading::unavailable(status),
        None => Reading::unavailable(Status::Missing),
    }
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct EthosOptions {
    baseline_score: f64,
    max_score: f64,
    max_contribution: f64,
}

impl Default for EthosOptions {
    fn default() -> Self {
        Self { baseline_score: 1200.0, max_score: 2000.0, max_contribution: 100.0 }
    }
}

pub(super) fn ethos(options: Option<&Value>) -> Result<Vec<Component>, Error> {
    let EthosOptions { baseline_score, max_score, max_contribution } = parse(options).map_err(Error::Parameter)?;
    let share = move |raw: f64| match max_score > baseline_score {
        true => ((raw - baseline_score) / (max_score - baseline_score)).clamp(0.0, 1.0),
        false => 1.0,
    };
    Ok(vec![Component::new("score", move |input| {
        let m = input.metadata();
        let raw = first(m, &["ethosComposite.score", "ethosScore"]);
        Ok(Reading::of(raw.map(|raw| max_contribution * share(raw)), m.status("ethosScoreStatus")))
    })])
}

pub(super) fn simple_eval(m: &Metadata, exam: &str) -> Reading {
    let of = |prefix: &str| {
        let score = m.number(&format!("additional.{prefix}{exam}Score"));
        (score, m.status(&format!("additional.{prefix}{exam}Status")))
    };
    let (a2a, nanda) = (of("a2a"), of("nanda"));
    let (score, status) = if a2a.0.is_some() || nanda.0.is_none() && a2a.1.is_some() { a2a } else { nanda };
    Reading::of(score, status)
}

pub(super) fn agentverse_insights(m: &Metadata) -> Reading {
    let number = |field: &str| m.number(&format!("additional.agentverseInsights{field}"));
    let proxies = || {
        let fields = ["ReadmeQualityScore", "ReadmeUniquenessScore", "InteractionsScore"];
        let present: Vec<f64> = fields.iter().filter_map(|field| number(field)).collect();
        (!present.is_empty()).then(|| 100.0 * present.iter().sum::<f64>() / present.len() as f64)
    };
    Reading::of(number("Rating").map(five_stars).or_else(proxies), m.status("additional.agentverseInsightsStatus"))
}

pub(super) fn agentverse_verifier(m: &Metadata) -> Reading {
    const SLOW_SECONDS: f64 = 30.0;
    let number = |field: &str| m.number(&format!("additional.agentverseInsights{field}"));
    let counters = |of: &str| {
        let tried = number(&format!("Verifier{of}Interactions")).unwrap_or(0.0);
        (tried, number(&format!("Verifier{of}SuccessInteractions")).unwrap_or(0.0))
    };
    let recent = counters("Recent");
    let (tried, succeeded) = if recent.0 > 0.0 { recent } else { counters("Total") };
    if tried <= 0.0 {
        return Reading::unavailable(Status::Missing);
    }
    let prompt = number("AvgResponseTime").map_or(1.0, |seconds| (1.0 - seconds / SLOW_SECONDS).clamp(0.0, 1.0));
    let volume = (libm::log1p(tried) / libm::log1p(1000.0)).clamp(0.0, 1.0);
    Reading::ok(100.0 * (succeeded / tried).clamp(0.0, 1.0) * prompt * volume)
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
struct ConnectivityOptions {
    targets: Vec<String>,
}

pub(super) fn connectivity(options: Option<&Value>) -> Result<Vec<Component>, Error> {
    const STATUS: &str = "additional.connectivityStatus";
    let ConnectivityOptions { targets } = parse(options).map_err(Error::Parameter)?;
    if targets.is_empty() {
        let read = |m: &Metadata| Reading::of(m.number("additional.connectivityScore"), m.status(STATUS));
        let whole = Component::new("score", move |input| Ok(read(input.metadata())));
        return Ok(vec![whole.not_scorable_when_unavailable()]);
    }
    let component = |target: String| {
        let name = target.clone();
        let read = move |input: &Input<'_>| {
            let m = input.metadata();
            let score = m.get("additional.connectivityTargets").and_then(|targets| targets.get(&target)?.as_f64());
            Ok(Reading::of(score, m.status(STATUS)))
        };
        Component::new(name, read).not_scorable_when_unavailable()
    };
    Ok(targets.into_iter().map(component).collect())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TierOptions {
    tiers: Vec<TierOption>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TierOption {
    score: f64,
    patterns: Vec<String>,
}

/// Ours, as of 2026; an operator who knows better gives `tiers`.
const MODEL_TIERS: [(f64, &[&str]); 5] = [
    (95.0, &["gpt-5", "claude-opus-4", "gemini-3-pro", "gemini-2.5-pro", "o3", "grok-4"]),
    (
        85.0,
        &[
            "o3-mini",
            "claude-sonnet-4",
            "gpt-4.1",
            "o4-mini",
            "deepseek-r1",
            "deepseek-v3",
            "qwen3",
            "kimi-k2",
            "gemini-2.5-flash",
        ],
    ),
    (70.0, &["gpt-4o", "claude-3.5", "claude-3.7", "claude-haiku-4", "llama-4", "mistral-large", "gemini-2.0"]),
    (55.0, &["gpt-4o-mini", "llama-3.3", "llama-3.1", "mixtral", "gemini-1.5", "command-r", "qwen2.5"]),
    (35.0, &["gpt-3.5", "llama-2", "mistral-7b", "gemma-2", "phi-3"]),
];
/// The score of a model that no pattern names.
const UNKNOWN_MODEL: f64 = 50.0;

impl Default for TierOptions {
    fn default() -> Self {
        let own = |(score, patterns): &(f64, &[&str])| TierOption {
            score: *score,
            patterns: patterns.iter().map(|pattern| (*pattern).to_owned()).collect(),
        };
        Self { tiers: MODEL_TIERS.iter().map(own).collect() }
    }
}

/// A guess by name, silent as soon as anything was measured.
pub(super) fn model_tier(options: Option<&Value>) -> Result<Vec<Component>, Error> {
    const MEASURED: [&str; 4] = ["openrouterEval", "chatbotArenaEval", "huggingFaceEval", "openLlmEval"];
    let TierOptions { tiers } = parse(options).map_err(Error::Parameter)?;
    let read = move |m: &Metadata| {
        let measured = MEASURED.iter().any(|prefix| m.text(&format!("additional.{prefix}Status")) == Some("ok"));
        let ids = ["openrouterModelId", "modelId", "model"];
        let id = ids.iter().find_map(|field| m.text(&format!("additional.{field}")).or_else(|| m.text(field)));
        let Some(id) = id.filter(|_| !measured) else { return Reading::unavailable(Status::Missing) };
        let id = id.to_lowercase();
        // The longest name wins: `gpt-4o-mini` is not `gpt-4o`. Of equally long ones, the first.
        let mut hit: Option<(usize, f64)> = None;
        for (pattern, score) in tiers.iter().flat_map(|tier| tier.patterns.iter().map(|pattern| (pattern, tier.score)))
        {
            if names(&id, pattern) && hit.is_none_or(|(length, _)| pattern.len() > length) {
                hit = Some((pattern.len(), score));
            }
        }
        Reading::ok(hit.map_or(UNKNOWN_MODEL, |(_, score)| score))
    };
    Ok(vec![Component::new("score", move |input| Ok(read(input.metadata()))).not_scorable_when_unavailable()])
}

/// Whether `pattern` stands in `id` as whole parts: nothing alphanumeric touches it.
fn names(id: &str, pattern: &str) -> bool {
    let pattern = pattern.to_lowercase();
    let edge = |c: Option<char>| !c.is_some_and(char::is_alphanumeric);
    !pattern.is_empty()
        && id
            .match_indices(&pattern)
            .any(|(at, hit)| edge(id[..at].chars().next_back()) && edge(id[at + hit.len()..].chars().next()))
}

pub(super) fn ans(m: &Metadata, name: &str) -> Reading {
    let section = m.get("ansTrustDiscovery");
    let number = section.and_then(|section| section.get(format!("ans-trust-discovery.{name}"))?.as_f64());
    Reading::of(number, m.status("ansTrustDiscovery.ansTrustDiscoveryStatus"))
}
