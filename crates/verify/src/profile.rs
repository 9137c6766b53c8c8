//! Tool profiles (seed 2, "Registering Tool Profiles"): what a real response looks like.

use jsonschema::Validator;
use regex::{RegexSet, RegexSetBuilder};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Error, schema_cost};

/// Fields that a profile may name.
const MAX_FIELDS: usize = 1_000;
/// Patterns of a profile.
const MAX_PATTERNS: usize = 100;
/// Bytes of a pattern when it is compiled.
const PATTERN_SIZE: usize = 256 * 1024;
/// Bytes of all its patterns.
const MAX_PATTERN_BYTES: usize = 64 * 1024;
/// Plausible latencies of a tool whose profile names none, in milliseconds.
pub(crate) const DEFAULT_LATENCY_MS: (f64, f64) = (50.0, 30_000.0);
/// Plausible latencies of a tool without a profile, in milliseconds.
pub(crate) const UNKNOWN_LATENCY_MS: (f64, f64) = (2.0, 60_000.0);

/// What is written down of a tool: the data behind a [`ToolProfile`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProfileBuilder {
    expected_latency_ms: (f64, f64),
    #[serde(skip_serializing_if = "Vec::is_empty")]
    required_fields: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    forbidden_fields: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    response_patterns: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    min_response_length: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_response_length: Option<usize>,
    has_network_io: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_schema: Option<Value>,
    #[serde(skip)]
    schema_may_err: bool,
}

impl Default for ProfileBuilder {
    fn default() -> Self {
        Self {
            expected_latency_ms: DEFAULT_LATENCY_MS,
            required_fields: Vec::new(),
            forbidden_fields: Vec::new(),
            response_patterns: Vec::new(),
            min_response_length: None,
            max_response_length: None,
            has_network_io: true,
            output_schema: None,
            schema_may_err: false,
        }
    }
}

/// What a real response looks like, checked and compiled.
#[derive(Debug)]
pub struct ToolProfile {
    pub(crate) data: ProfileBuilder,
    pub(crate) patterns: Option<RegexSet>,
    pub(crate) schema: Option<Validator>,
    /// What the schema may cost for one value.
    pub(crate) schema_steps: u64,
}

impl ToolProfile {
    /// A profile with the defaults: 50 ms to 30 s, network I/O, nothing else known.
    pub fn builder() -> ProfileBuilder {
        ProfileBuilder::default()
    }

    /// Whether judging by it can take long: it has a schema or patterns.
    pub fn is_costly(&self) -> bool {
        self.schema.is_some() || self.patterns.is_some()
    }

    pub(crate) fn latency_ms(&self) -> (f64, f64) {
        self.data.expected_latency_ms
    }
    pub(crate) fn has_network_io(&self) -> bool {
        self.data.has_network_io
    }
    pub(crate) fn required(&self) -> &[String] {
        &self.data.required_fields
    }
    pub(crate) fn forbidden(&self) -> &[String] {
        &self.data.forbidden_fields
    }
    pub(crate) fn schema_may_err(&self) -> bool {
        self.data.schema_may_err
    }
    pub(crate) fn length_bounds(&self) -> (Option<usize>, Option<usize>) {
        (self.data.min_response_length, self.data.max_response_length)
    }
}

impl ProfileBuilder {
    /// The least and the greatest plausible latency.
    pub fn expected_latency_ms(mut self, min: f64, max: f64) -> Self {
        self.expected_latency_ms = (min, max);
        self
    }

    /// Fields that a real response has; paths such as `items[].price` reach inside.
    pub fn required_fields(mut self, fields: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.required_fields = fields.into_iter().map(Into::into).collect();
        self
    }

    /// Fields that a real response never has.
    pub fn forbidden_fields(mut self, fields: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.forbidden_fields = fields.into_iter().map(Into::into).collect();
        self
    }

    /// Regular expressions of which a real response matches at least one. Matching takes linear time.
    pub fn response_patterns(mut self, patterns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.response_patterns = patterns.into_iter().map(Into::into).collect();
        self
    }

    /// The least length of the response as JSON text, in characters.
    pub fn min_response_length(mut self, length: usize) -> Self {
        self.min_response_length = Some(length);
        self
    }

    /// The greatest length of the response as JSON text, in characters.
    pub fn max_response_length(mut self, length: usize) -> Self {
        self.max_response_length = Some(length);
        self
    }

    /// Whether the tool makes network calls: then nothing real takes less than 2 ms.
    pub fn has_network_io(mut self, network: bool) -> Self {
        self.has_network_io = network;
        self
    }

    /// A JSON Schema of real responses; references to other documents are not followed.
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.output_schema = Some(schema);
        self
    }

    /// The schema is what the tool declares of itself, not what an operator states: mode adaptive does not block results that break it
    /// for ever (docs/adr/0024, rule 9).
    pub fn schema_may_err(mut self, may_err: bool) -> Self {
        self.schema_may_err = may_err;
        self
    }

    /// Checks the numbers, compiles patterns and schema.
    pub fn build(self) -> Result<ToolProfile, Error> {
        let (min, max) = self.expected_latency_ms;
        if !(min >= 0.0 && max.is_finite() && min <= max) {
            return Err(Error::Setting(format!(
                "expected_latency_ms ({min}, {max}): needs 0 ≤ min ≤ max, in milliseconds"
            )));
        }
        if let (Some(least), Some(most)) = (self.min_response_length, self.max_response_length)
            && least > most
        {
            return Err(Error::Setting(format!("min_response_length {least} exceeds max_response_length {most}")));
        }
        if let Some(both) = self.required_fields.iter().find(|field| self.forbidden_fields.contains(field)) {
            return Err(Error::Setting(format!("field '{both}' is both required and forbidden")));
        }
        if self.required_fields.iter().chain(&self.forbidden_fields).any(String::is_empty) {
            return Err(Error::Setting("a field's name is empty".into()));
        }
        let fields = self.required_fields.len() + self.forbidden_fields.len();
        if fields > MAX_FIELDS {
            return Err(Error::Setting(format!("{fields} fields are named, the limit is {MAX_FIELDS}")));
        }
        let bytes: usize = self.response_patterns.iter().map(String::len).sum();
        if self.response_patterns.len() > MAX_PATTERNS || bytes > MAX_PATTERN_BYTES {
            let (count, most) = (self.response_patterns.len(), MAX_PATTERNS);
            let why = format!("{count} patterns of {bytes} bytes, the limit is {most} of {MAX_PATTERN_BYTES}");
            return Err(Error::Setting(format!("response_patterns: {why}")));
        }
        for pattern in &self.response_patterns {
            // One by one, for an error that names the pattern.
            regex::RegexBuilder::new(pattern)
                .size_limit(PATTERN_SIZE)
                .build()
                .map_err(|e| Error::Pattern { pattern: pattern.clone(), why: e.to_string() })?;
        }
        let patterns = match self.response_patterns.as_slice() {
            [] => None,
            list => Some(
                RegexSetBuilder::new(list)
                    .size_limit(4 * PATTERN_SIZE)
                    .dfa_size_limit(4 * PATTERN_SIZE)
                    .build()
                    .map_err(|e| Error::Pattern { pattern: list.join(" | "), why: e.to_string() })?,
            ),
        };
        let schema_steps = self.output_schema.as_ref().map_or(Ok(0), schema_cost::check)?;
        // Patterns in it in linear time too, and small when compiled: they come from outside like the rest.
        let patterns_of_schema =
            jsonschema::PatternOptions::regex().size_limit(PATTERN_SIZE).dfa_size_limit(PATTERN_SIZE);
        let options = jsonschema::options().with_pattern_options(patterns_of_schema);
        let schema = self.output_schema.as_ref().map(|schema| options.build(schema)).transpose();
        let schema = schema.map_err(|e| Error::Schema(e.to_string()))?;
        Ok(ToolProfile { data: self, patterns, schema, schema_steps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_makes_no_sense_is_refused() {
        let profile = ToolProfile::builder;
        assert!(profile().build().is_ok());
        assert!(profile().expected_latency_ms(5.0, 1.0).build().is_err());
        assert!(profile().expected_latency_ms(f64::NAN, 1.0).build().is_err());
        assert!(profile().expected_latency_ms(-1.0, 1.0).build().is_err());
        assert!(profile().min_response_length(9).max_response_length(1).build().is_err());
        assert!(profile().required_fields(["a"]).forbidden_fields(["a"]).build().is_err());
        assert!(profile().required_fields([""]).build().is_err());
        let pattern = profile().response_patterns(["fine", "("]).build().unwrap_err();
        assert!(pattern.to_string().contains("'('"), "{pattern}");
        assert!(profile().output_schema(json!({"type": "nonsense"})).build().is_err());
    }

    #[test]
    fn profiles_are_data() {
        let text = json!({"expected_latency_ms": [1, 2], "required_fields": ["a"]});
        let read: ProfileBuilder = serde_json::from_value(text).unwrap();
        assert_eq!(read, ToolProfile::builder().expected_latency_ms(1.0, 2.0).required_fields(["a"]));
        assert!(serde_json::from_value::<ProfileBuilder>(json!({"requierd_fields": []})).is_err());
    }
}
