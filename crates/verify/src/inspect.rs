//! What an engine knows of a tool, for people to look at: its control charts, what it learned, the thresholds that hold.

use serde::Serialize;

use crate::{
    Check, Engine, Error, Rule,
    calibration::{DEFAULT_FALSE_BLOCKS, DEFAULT_FLAG},
    engine::{thresholds, within_budget},
    fields::named,
    learned::observe::Paths,
    spc,
    stats::RunningStats,
};

/// What is known of one tool. It shows what earlier results had: it is for whoever may see them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Inspection {
    /// Results learned in all.
    pub results: u64,
    /// Milliseconds, of the calls that came with them.
    pub latency: ControlSeries,
    /// Characters of the results.
    pub size: ControlSeries,
    /// The numeric fields whose names are known, by name.
    pub fields: Vec<(String, ControlSeries)>,
    /// Numeric fields in all.
    pub numeric_fields: usize,
    /// What results look like, parents before members.
    pub structure: Vec<KnownPath>,
    /// Whether the tool has changed since it is known.
    pub changed: bool,
    /// P(fabricated) before looking.
    pub prior: f64,
    /// The posterior from which on a result is flagged.
    pub flag_threshold: f64,
    /// The posterior from which on a result is blocked.
    pub block_threshold: f64,
    /// Genuine results that may be blocked at most, as a share.
    pub max_false_block_rate: f64,
    /// How often each check fired on results that were learned.
    #[serde(rename = "signals")]
    pub checks: Vec<CheckRate>,
}

/// The most recent values of something measured, with the limits they are judged by.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ControlSeries {
    /// Values seen in all.
    pub count: u64,
    /// Over all of them.
    pub mean: f64,
    /// Over all of them.
    pub stddev: f64,
    /// The most recent, oldest first, each with the rules that it breaks.
    pub points: Vec<ControlPoint>,
}

/// One value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ControlPoint {
    /// The value.
    pub value: f64,
    /// The Western Electric rules that it breaks, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub breaks: Vec<&'static str>,
}

/// A path that occurs in a tool's results.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KnownPath {
    /// `items[].price`; empty for the result itself.
    pub path: String,
    /// What it was so far.
    pub types: Vec<Type>,
    /// In what share of the results it was.
    pub presence: f64,
    /// The least and the greatest number.
    pub numbers: Option<(f64, f64)>,
    /// The shortest and the longest text or list.
    pub lengths: Option<(f64, f64)>,
    /// How many values there were, where it is a closed set.
    pub values: Option<usize>,
    /// Whether it repeats an argument.
    pub echoes: bool,
}

/// A JSON type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Type {
    /// `null`
    Null,
    /// `true` or `false`
    Boolean,
    /// A number
    Number,
    /// A string
    String,
    /// A list
    Array,
    /// An object
    Object,
}

impl Type {
    /// In the order in which the model counts them.
    pub(crate) const ALL: [Type; 6] =
        [Type::Null, Type::Boolean, Type::Number, Type::String, Type::Array, Type::Object];

    /// Its name in JSON Schema.
    pub fn name(self) -> &'static str {
        match self {
            Type::Null => "null",
            Type::Boolean => "boolean",
            Type::Number => "number",
            Type::String => "string",
            Type::Array => "array",
            Type::Object => "object",
        }
    }
}

/// How often a check fired on results that were learned: its false-alarm rate, as far as they were genuine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CheckRate {
    /// Which.
    #[serde(rename = "signal")]
    pub check: Check,
    /// Results on which it could be evaluated; older ones count less.
    pub evaluated: f64,
    /// The share on which it fired.
    pub rate: f64,
}

impl Engine {
    /// The posterior from which on a result of a tool is blocked, as things are.
    pub fn block_threshold(&self, tool: &str) -> Result<f64, Error> {
        let (settings, state) = (self.settings(), self.state());
        let calibration = &settings.of(tool).calibration;
        let (prior, least) = thresholds(&state.lock(state.ids(tool, None, None)?), calibration);
        Ok(match self.mode() {
            crate::Mode::Adaptive => within_budget(least, prior, calibration),
            crate::Mode::Fixed => least,
        })
    }

    /// What is known of a tool; none where nothing is.
    pub fn inspect(&self, tool: &str) -> Result<Option<Inspection>, Error> {
        let (settings, state) = (self.settings(), self.state());
        let calibration = &settings.of(tool).calibration;
        let locked = state.lock(state.ids(tool, None, None)?);
        let (prior, least) = thresholds(&locked, calibration);
        let Some(known) = locked.tool() else { return Ok(None) };
        let told = known.model.known(Paths::new(state.seed));
        let mut fields: Vec<_> = told
            .iter()
            .filter_map(|(steps, path)| {
                let id = named(steps.iter().map(|step| step.as_deref()), state.seed);
                Some((path.path.clone(), series(known.fields.get(&id)?)))
            })
            .collect();
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        let checks = Check::ALL.into_iter().filter_map(|check| {
            let (evaluated, fired) = known.model.fired(check);
            let rate = f64::from(fired / evaluated.max(1.0));
            (evaluated > 0.0).then_some(CheckRate { check, evaluated: f64::from(evaluated), rate })
        });
        Ok(Some(Inspection {
            results: known.size.count(),
            latency: series(&known.latency),
            size: series(&known.size),
            numeric_fields: known.fields.len(),
            fields,
            structure: told.into_iter().map(|(_, path)| path).collect(),
            changed: known.model.oddities.has_changed(),
            prior,
            flag_threshold: calibration.flag_threshold.unwrap_or(DEFAULT_FLAG),
            block_threshold: match self.mode() {
                crate::Mode::Adaptive => within_budget(least, prior, calibration),
                crate::Mode::Fixed => least,
            },
            max_false_block_rate: calibration.max_false_block_rate.unwrap_or(DEFAULT_FALSE_BLOCKS),
            checks: checks.collect(),
        }))
    }
}

fn series(stats: &RunningStats) -> ControlSeries {
    let spread = stats.lifetime();
    let mut points: Vec<f64> = stats.newest().collect();
    points.reverse();
    let broken = spc::broken(&points, stats.is_established().then_some(spread));
    let points = points
        .into_iter()
        .zip(broken)
        .map(|(value, rules)| ControlPoint { value, breaks: rules.into_iter().map(Rule::describe).collect() });
    ControlSeries { count: stats.count(), mean: spread.mean, stddev: spread.stddev, points: points.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Call;
    use serde_json::json;

    #[test]
    fn what_was_learned_can_be_read() {
        let engine = Engine::builder().build();
        assert_eq!(engine.inspect("t").unwrap(), None);
        for n in 0..40 {
            let args = json!({ "city": format!("c{n}") });
            let result = json!({
                "city": format!("c{n}"), "temperature": 10 + n % 7, "state": if n % 2 == 0 { "sun" } else { "rain" },
                "hours": [{ "wind": n % 5 }, { "wind": 3 }],
            });
            engine.verify(&Call::new("t", &result).args(&args).execution_time_ms(100.0 + (n % 9) as f64)).unwrap();
        }
        let seen = engine.inspect("t").unwrap().unwrap();
        assert_eq!((seen.results, seen.latency.count, seen.latency.points.len()), (40, 40, 40));
        assert!((100.0..109.0).contains(&seen.latency.mean) && seen.latency.stddev > 1.0);
        let names: Vec<_> = seen.fields.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["hours[].wind", "temperature"]);
        let path = |name: &str| seen.structure.iter().find(|path| path.path == name).unwrap();
        assert_eq!(path("").types, [Type::Object]);
        assert_eq!(path("state").values, Some(2));
        assert!(path("city").echoes && !path("state").echoes);
        let (low, high) = path("temperature").numbers.unwrap();
        assert!((low - 10.0).abs() < 1e-6 && (high - 16.0).abs() < 1e-6, "{low} {high}");
        assert!(seen.block_threshold >= seen.flag_threshold && seen.prior > 0.0);
        assert!(seen.checks.iter().any(|rate| rate.check == Check::SpcAnomaly));
    }

    #[test]
    fn a_point_beyond_the_limits_is_marked() {
        let engine = Engine::builder().build();
        let result = json!({ "a": 1 });
        for n in 0..60 {
            let ms = if n == 50 { 400.0 } else { 100.0 + f64::from(n % 5) };
            engine.verify(&Call::new("t", &result).execution_time_ms(ms)).unwrap();
        }
        let latency = engine.inspect("t").unwrap().unwrap().latency;
        let marked: Vec<f64> =
            latency.points.iter().filter(|p| p.breaks.contains(&"beyond 3σ")).map(|p| p.value).collect();
        assert_eq!(marked, [400.0]);
    }
}
