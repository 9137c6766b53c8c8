//! The seed's eight checks, each with its formula (seed 2; DESIGN, *Verification engine*). One that could not be evaluated adds
//! nothing: no profile, no history yet, no execution time given.

use std::hash::Hasher;

use serde_json::Value;
use siphasher::sip::SipHasher13;

use crate::{
    Check, CheckResult, ToolProfile,
    combiner::posterior,
    consistency::{HISTORY_RESULTS, HISTORY_SWING, SESSION_SWING, Swings},
    engine::{Case, Resolved},
    fields::{self, Field},
    learned::model::Model,
    profile::UNKNOWN_LATENCY_MS,
    readable::readable,
    schema_cost, spc,
    state::Locked,
    stats::Spread,
    text,
};

/// Below this no network call comes back, in milliseconds.
const IMPOSSIBLE_MS: f64 = 2.0;
/// Latency and range scores below this do not fire.
const LEAST_RANGE_SCORE: f64 = 0.3;
/// The least ratio of an impossible latency: near-certain fabrication.
const IMPOSSIBLE_RATIO: f64 = 15.0;
/// The same when the score is at least [`CERTAIN_SCORE`].
const CERTAIN_RATIO: f64 = 50.0;
const CERTAIN_SCORE: f64 = 0.9;
/// A pattern mismatch, and a response that should be an object and is none.
const FIXED_SCORE: f64 = 0.8;
/// Each field beyond 3σ.
const IMPLAUSIBLE_FIELD: f64 = 0.3;
/// The checks on one call, as far as they could be evaluated.
pub(crate) struct Evaluation<'a> {
    pub(crate) resolved: &'a Resolved,
    pub(crate) result: &'a Value,
    pub(crate) execution_time_ms: Option<f64>,
    pub(crate) results: Vec<CheckResult>,
    /// Mode adaptive: knows how often each fires on this tool's own traffic.
    pub(crate) model: Option<&'a Model>,
    /// Where the result breaks an output schema that may err, and nothing else that the profile says of its members: the part of the
    /// schema, as a number that stays the same.
    pub(crate) broken_schema: Option<u64>,
}

impl<'a> Evaluation<'a> {
    pub(crate) fn new(resolved: &'a Resolved, case: &Case<'a>, model: Option<&'a Model>) -> Self {
        let results = Vec::with_capacity(Check::ALL.len());
        let execution_time_ms = case.execution_time_ms();
        Self { resolved, result: case.result, execution_time_ms, results, model, broken_schema: None }
    }

    fn add(&mut self, check: Check, fired: bool, score: f64, detail: impl FnOnce() -> String) {
        self.add_at_least(check, 0.0, fired, score, detail);
    }

    fn add_at_least(&mut self, check: Check, least: f64, fired: bool, score: f64, detail: impl FnOnce() -> String) {
        let set = self.resolved.calibration.likelihood_ratios.get(&check).copied();
        let correction = || self.model.map_or(1.0, |model| model.correction(check));
        let likelihood_ratio = set
            .unwrap_or_else(|| check.default_ratio().max(least) * correction())
            .max(if set.is_some() { least } else { 0.0 });
        let detail = fired.then(detail);
        self.results.push(CheckResult {
            check,
            fired,
            score: if fired { score } else { 0.0 },
            likelihood_ratio,
            detail,
        });
    }

    /// Has a broken output schema weigh less by this share; gives its evidence before and after, in nats.
    pub(crate) fn relieve_schema(&mut self, relief: f32) -> (f64, f64) {
        let fired = |result: &&mut CheckResult| result.check == Check::SchemaMismatch && result.fired;
        let Some(result) = self.results.iter_mut().find(fired) else { return (0.0, 0.0) };
        let before = result.evidence().log_ratio();
        if relief > 0.0 && before > 0.0 && result.score > 0.0 {
            let left = before * f64::from(1.0 - relief);
            result.likelihood_ratio = 1.0 + libm::expm1(left) / result.score;
        }
        (before, result.evidence().log_ratio())
    }

    pub(crate) fn any_fired(&self) -> bool {
        self.results.iter().any(|result| result.fired)
    }

    pub(crate) fn posterior(&self, prior: f64) -> f64 {
        posterior(prior, self.results.iter().map(CheckResult::evidence))
    }

    pub(crate) fn schema(&mut self) {
        let resolved = self.resolved;
        let Some(profile) = &resolved.profile else { return };
        let (required, forbidden) = (profile.required(), profile.forbidden());
        let result = self.result;
        // A schema that would cost too much on so large a result is not asked.
        let room = schema_cost::MAX_WORK / profile.schema_steps.max(1);
        let schema = profile.schema.as_ref().filter(|_| schema_cost::values(result, room + 1) <= room);
        let total = required.len() + forbidden.len() + usize::from(schema.is_some());
        if total == 0 {
            return;
        }
        if !required.is_empty() && !result.is_object() && !required.iter().any(|path| path.starts_with('[')) {
            let kind = kind(result);
            return self.add(Check::SchemaMismatch, true, FIXED_SCORE, || {
                format!("an object was expected, the result is {kind}")
            });
        }
        let missing: Vec<&str> =
            required.iter().map(String::as_str).filter(|path| !fields::has_path(result, path)).collect();
        let present: Vec<&str> =
            forbidden.iter().map(String::as_str).filter(|path| fields::has_path(result, path)).collect();
        let broken = schema.and_then(|schema| schema.validate(result).err());
        let violations = missing.len() + present.len() + usize::from(broken.is_some());
        if let Some(broken) = broken.as_ref().filter(|_| violations == 1 && profile.schema_may_err()) {
            self.broken_schema = Some(number_of(broken.schema_path().as_str()));
        }
        let kept = self.model.map_or((0.0, 0.0), |model| model.fired(Check::SchemaMismatch));
        self.add(Check::SchemaMismatch, violations > 0, violations as f64 / total as f64, || {
            let mut what = Vec::new();
            if !missing.is_empty() {
                what.push(format!("missing {}", missing.join(", ")));
            }
            if !present.is_empty() {
                what.push(format!("forbidden {} present", present.join(", ")));
            }
            if let Some(broken) = &broken {
                what.push(describe_broken(broken, kept));
            }
            what.join("; ")
        });
    }

    pub(crate) fn pattern(&mut self) {
        let Some(patterns) = self.resolved.profile.as_ref().and_then(|profile| profile.patterns.as_ref()) else {
            return;
        };
        let matched = patterns.is_match(&text::text(self.result));
        self.add(Check::PatternMismatch, !matched, FIXED_SCORE, || {
            format!("matches none of {} expected patterns", patterns.len())
        });
    }

    /// The latency against what the profile states, and nothing else.
    pub(crate) fn stated_latency(&mut self) {
        let Some((ms, profile)) = self.execution_time_ms.zip(self.resolved.profile.as_deref()) else { return };
        if !self.latency_bounds(ms, Some(profile)) {
            self.add(Check::LatencyAnomaly, false, 0.0, String::new);
        }
    }

    pub(crate) fn latency(&mut self, locked: &Locked<'_>) {
        let Some(ms) = self.execution_time_ms else { return };
        let check = Check::LatencyAnomaly;
        if self.latency_bounds(ms, self.resolved.profile.as_deref()) {
            return;
        }
        let stats = locked.tool().map(|tool| &tool.latency).filter(|stats| stats.is_established());
        let z = stats.and_then(|stats| stats.lifetime().z(ms)).unwrap_or_default();
        self.add(check, z.abs() > 3.0, ((z.abs() - 3.0) / 3.0).clamp(0.0, 1.0), || {
            let usual = stats.map_or(0.0, |stats| stats.lifetime().mean);
            format!("{} ms is {z:.1}σ from the tool's own latencies, {} ms on average", readable(ms), readable(usual))
        });
    }

    /// The latency against its bounds; says whether it is outside of them.
    fn latency_bounds(&mut self, ms: f64, profile: Option<&ToolProfile>) -> bool {
        let check = Check::LatencyAnomaly;
        let (min, max) = profile.map_or(UNKNOWN_LATENCY_MS, ToolProfile::latency_ms);
        if ms < IMPOSSIBLE_MS && profile.is_none_or(ToolProfile::has_network_io) {
            let score = 1.0 - ms / IMPOSSIBLE_MS;
            let least = if score >= CERTAIN_SCORE { CERTAIN_RATIO } else { IMPOSSIBLE_RATIO };
            self.add_at_least(check, least, true, score, || {
                format!("{} ms is impossibly fast for a network call", readable(ms))
            });
            return true;
        }
        if ms < min {
            let score = libm::sqrt(1.0 - ms / min);
            self.add(check, score >= LEAST_RANGE_SCORE, score, || {
                format!("{} ms is below the expected {} ms", readable(ms), readable(min))
            });
            return true;
        }
        if ms > max {
            let score = (ms / max - 1.0).min(1.0);
            self.add(check, score >= LEAST_RANGE_SCORE, score, || {
                format!("{} ms is above the expected {} ms", readable(ms), readable(max))
            });
            return true;
        }
        false
    }

    pub(crate) fn length(&mut self, size: usize) {
        let Some(profile) = &self.resolved.profile else { return };
        let (least, most) = profile.length_bounds();
        let check = Check::LengthAnomaly;
        match (least, most) {
            (None, None) => {}
            (Some(least), _) if size < least => {
                let score = 0.5 * (1.0 - size as f64 / least as f64);
                self.add(check, true, score, || format!("{size} characters, at least {least} were expected"));
            }
            (_, Some(most)) if size > most => {
                self.add(check, true, 0.2, || format!("{size} characters, at most {most} were expected"));
            }
            _ => self.add(check, false, 0.0, String::new),
        }
    }

    pub(crate) fn history(&mut self, locked: &Locked<'_>, fields: &[Field], seed: u64) {
        let history = locked.history().map(|history| &history.earlier);
        if let Some(earlier) = history.filter(|earlier| earlier.len() >= HISTORY_RESULTS) {
            let swings = earlier.swings(fields, HISTORY_SWING);
            self.swings(Check::HistoricalInconsistency, swings, seed, "for these arguments");
        }
    }

    pub(crate) fn session(&mut self, locked: &Locked<'_>, fields: &[Field], seed: u64) {
        if let Some(session) = locked.session().filter(|session| session.len() > 0) {
            let swings = session.swings(fields, SESSION_SWING);
            self.swings(Check::SessionInconsistency, swings, seed, "in this session");
        }
    }

    fn swings(&mut self, check: Check, swings: Swings, seed: u64, when: &str) {
        let result = self.result;
        self.add(check, swings.widest.is_some(), swings.score, || {
            let (path, was, is) = swings.widest.unwrap_or_default();
            let (is, was) = (readable(is), readable(was));
            format!("field '{}': {is} where it was {was} before {when}", fields::name(result, path, seed))
        });
    }

    pub(crate) fn spc(&mut self, locked: &Locked<'_>, fields: &[Field], size: usize, seed: u64) {
        let Some(tool) = locked.tool() else { return };
        let (mut evaluated, mut score) = (false, 0.0);
        let mut first: Option<(Observed, f64, Spread, spc::Rule)> = None;
        // Mode adaptive judges the time by itself: slowness is no evidence.
        let latency = self.execution_time_ms.filter(|_| self.model.is_none());
        let latency = latency.map(|ms| (Observed::Latency, &tool.latency, ms));
        let sizes = std::iter::once((Observed::Size, &tool.size, size as f64));
        let numbers = fields.iter().filter_map(|field| {
            tool.fields.get(&field.path).map(|stats| (Observed::Field(field.path), stats, field.value))
        });
        for (what, stats, value) in latency.into_iter().chain(sizes).chain(numbers) {
            let Some(rules) = spc::fired(stats, value) else { continue };
            evaluated = true;
            for rule in rules {
                score += rule.weight();
                first.get_or_insert((what, value, stats.lifetime(), rule));
            }
        }
        if evaluated {
            let result = self.result;
            self.add(Check::SpcAnomaly, first.is_some(), f64::min(score, 1.0), || {
                let Some((what, value, usual, rule)) = first else { return String::new() };
                let name = match what {
                    Observed::Latency => "the latency".to_owned(),
                    Observed::Size => "the response's size".to_owned(),
                    Observed::Field(path) => ["'", &fields::name(result, path, seed), "'"].concat(),
                };
                let (is, mean, spread) = (readable(value), readable(usual.mean), readable(usual.stddev));
                [
                    &name,
                    " is ",
                    &is,
                    " and has drifted: it was ",
                    &mean,
                    " ± ",
                    &spread,
                    " so far (",
                    rule.describe(),
                    ")",
                ]
                .concat()
            });
        }
    }

    pub(crate) fn plausibility(&mut self, locked: &Locked<'_>, fields: &[Field], seed: u64) {
        let Some(tool) = locked.tool() else { return };
        let (mut evaluated, mut implausible) = (false, Vec::new());
        for field in fields {
            let Some(stats) = tool.fields.get(&field.path).filter(|stats| stats.is_established()) else { continue };
            let Some(z) = stats.window().z(field.value) else { continue };
            evaluated = true;
            if z.abs() > 3.0 {
                implausible.push((field, z));
            }
        }
        if evaluated {
            let score = (IMPLAUSIBLE_FIELD * implausible.len() as f64).min(1.0);
            let result = self.result;
            self.add(Check::ValuePlausibility, !implausible.is_empty(), score, || {
                implausible.first().map_or_else(String::new, |(field, z)| {
                    let (name, is) = (fields::name(result, field.path, seed), readable(field.value));
                    let usual = tool.fields.get(&field.path).map_or(0.0, |stats| stats.window().mean);
                    format!("field '{name}' is {is}, {z:.1}σ from its recent values, {} on average", readable(usual))
                })
            });
        }
    }
}

#[derive(Clone, Copy)]
enum Observed {
    Latency,
    Size,
    Field(fields::PathId),
}

/// Where and how a result breaks its output schema; `kept` is how many results were held against it, and how many broke it.
fn describe_broken(broken: &jsonschema::ValidationError<'_>, (seen, broke): (f32, f32)) -> String {
    let path = broken.instance_path().as_str();
    let place = match path {
        "" => "the result".to_owned(),
        path => format!("'{}'", fields::shortened(dotted(path))),
    };
    let value: &Value = broken.instance();
    let is = match value {
        Value::Number(number) => readable(number.as_f64().unwrap_or_default()),
        Value::String(text) if text.chars().count() > SHOWN => {
            format!("{:?}…", text.chars().take(SHOWN).collect::<String>())
        }
        Value::String(text) => format!("{text:?}"),
        Value::Bool(is) => is.to_string(),
        other => kind(other).to_owned(),
    };
    let rule: String = broken.masked_with("it").to_string().chars().take(2 * SHOWN).collect();
    let usual = match libm::roundf(seen) as u32 {
        0 => String::new(),
        seen => format!("; {} of {seen} results before kept to it", seen - (libm::roundf(broke) as u32).min(seen)),
    };
    format!("breaks the output schema: {place} is {is} ({rule}){usual}")
}

/// A JSON Pointer as paths are written elsewhere: `/items/3/price` is `items[].price`.
fn dotted(pointer: &str) -> String {
    let mut name = String::new();
    for step in pointer.split('/').skip(1) {
        if !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit()) {
            name += "[]";
            continue;
        }
        let step = step.replace("~1", "/").replace("~0", "~");
        name = if name.is_empty() { step } else { format!("{name}.{step}") };
    }
    name
}

/// Characters of a text that are shown.
const SHOWN: usize = 60;

/// A text as a number that is the same in every process: it is kept in snapshots.
fn number_of(text: &str) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(text.as_bytes());
    hasher.finish()
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
