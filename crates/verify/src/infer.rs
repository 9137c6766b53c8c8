//! Profiles inferred from traces: what all real responses of a tool had in common.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use crate::{ProfileBuilder, ToolProfile, fields::has_path, text};

/// Paths that are considered as required fields.
const MAX_PATHS: usize = 256;
/// How deep they lead.
const MAX_LEVELS: usize = 6;
/// Traces that are needed to say what is always there.
const LEAST_RESULTS: usize = 5;
/// How far beyond what was seen latencies and lengths may go.
const ROOM: f64 = 2.0;
/// A tool that is never faster makes network calls, in milliseconds.
const NETWORK_MS: f64 = 2.0;

/// Watches the genuine results of one tool.
#[derive(Debug, Default, Clone)]
pub struct Inference {
    results: usize,
    others: usize,
    latency_ms: Option<(f64, f64)>,
    length: Option<(usize, usize)>,
    /// Paths that every object had so far.
    paths: Option<Vec<String>>,
    kinds: BTreeMap<&'static str, usize>,
}

/// What was found about a tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Findings {
    /// Results seen.
    pub results: usize,
    /// The fastest and the slowest, in milliseconds.
    pub latency_ms: Option<(f64, f64)>,
    /// The shortest and the longest response, in characters.
    pub length: Option<(usize, usize)>,
    /// Fields that every response had.
    pub required_fields: Vec<String>,
    /// How many responses were of which type.
    pub types: BTreeMap<&'static str, usize>,
}

impl Inference {
    /// One more genuine result.
    pub fn observe(&mut self, result: &Value, execution_time_ms: Option<f64>) {
        self.results += 1;
        let length = text::length(result);
        let (least, most) = self.length.unwrap_or((length, length));
        self.length = Some((least.min(length), most.max(length)));
        if let Some(ms) = execution_time_ms.filter(|ms| *ms >= 0.0 && ms.is_finite()) {
            let (least, most) = self.latency_ms.unwrap_or((ms, ms));
            self.latency_ms = Some((least.min(ms), most.max(ms)));
        }
        let kind = match result {
            Value::Object(_) => "object",
            Value::Array(_) => "array",
            Value::String(_) => "text",
            Value::Number(_) => "number",
            Value::Bool(_) => "boolean",
            Value::Null => "null",
        };
        *self.kinds.entry(kind).or_default() += 1;
        if !result.is_object() {
            self.others += 1;
            return;
        }
        match &mut self.paths {
            Some(paths) => paths.retain(|path| has_path(result, path)),
            None => {
                let mut paths = Vec::new();
                collect(result, "", 0, &mut paths);
                paths.sort();
                paths.dedup();
                // In an array each item must have it.
                paths.retain(|path| has_path(result, path));
                self.paths = Some(paths);
            }
        }
    }

    /// What was found.
    pub fn findings(&self) -> Findings {
        let always = self.results >= LEAST_RESULTS && self.others == 0;
        let required_fields = self.paths.iter().filter(|_| always).flatten().cloned().collect();
        Findings {
            results: self.results,
            latency_ms: self.latency_ms,
            length: self.length,
            required_fields,
            types: self.kinds.clone(),
        }
    }

    /// The profile, with room for what was not seen yet.
    pub fn profile(&self) -> ProfileBuilder {
        let findings = self.findings();
        let mut profile = ToolProfile::builder().required_fields(findings.required_fields);
        if let Some((least, most)) = findings.latency_ms {
            let round = |ms: f64| libm::round(ms * 100.0) / 100.0;
            profile = profile.expected_latency_ms(round(least / ROOM), round(most * ROOM));
            profile = profile.has_network_io(least >= NETWORK_MS);
        }
        if let Some((least, most)) = findings.length.filter(|_| self.results >= LEAST_RESULTS) {
            profile = profile.min_response_length((least as f64 / ROOM) as usize);
            profile = profile.max_response_length((most as f64 * ROOM) as usize);
        }
        profile
    }
}

fn collect(value: &Value, path: &str, level: usize, out: &mut Vec<String>) {
    if level > MAX_LEVELS || out.len() >= MAX_PATHS {
        return;
    }
    match value {
        // A key with dots or brackets would be read as a path; one with digits in a row is likely data.
        Value::Object(members) => {
            for (key, member) in members {
                let digits = key.as_bytes().windows(3).any(|three| three.iter().all(u8::is_ascii_digit));
                if key.is_empty() || digits || key.contains(['.', '[', ']']) {
                    continue;
                }
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                if out.len() < MAX_PATHS {
                    out.push(path.clone());
                }
                collect(member, &path, level + 1, out);
            }
        }
        Value::Array(items) => {
            if let Some(first) = items.first() {
                collect(first, &format!("{path}[]"), level + 1, out);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_all_have_in_common_is_required() {
        let mut inference = Inference::default();
        for n in 0..10 {
            let extra = if n % 2 == 0 { json!(1) } else { json!(null) };
            let mut result =
                json!({"id": n, "items": [{"p": 1, "q": 2}, {"p": 2}], "owner": {"mail": "x"}, "c_123": 1});
            if n % 3 == 0 {
                result["sometimes"] = extra;
            }
            inference.observe(&result, Some(50.0 + f64::from(n)));
        }
        let findings = inference.findings();
        assert_eq!(findings.required_fields, ["id", "items", "items[].p", "owner", "owner.mail"]);
        assert_eq!(findings.latency_ms, Some((50.0, 59.0)));
        assert!(inference.profile().build().is_ok());
    }

    #[test]
    fn where_texts_come_too_nothing_is_required() {
        let mut inference = Inference::default();
        (0..10).for_each(|_| inference.observe(&json!({"a": 1}), None));
        inference.observe(&json!("Error: not found"), None);
        assert!(inference.findings().required_fields.is_empty());
    }
}
