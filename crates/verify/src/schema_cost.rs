//! What a JSON Schema may cost. References are cheap to write and can double the work each time: a schema is unfolded on paper
//! first, and one that would grow too large, or into itself, is refused. Counted too high rather than too low: every member of every
//! object, whether it is a keyword or not.

use std::collections::HashMap;

use serde_json::Value;

use crate::Error;

/// Parts of a schema, references followed.
pub(crate) const MAX_STEPS: u64 = 20_000;
/// Parts of a schema times values of a result: beyond, the schema is not asked.
pub(crate) const MAX_WORK: u64 = 1_000_000;
/// Patterns in a schema: each is compiled.
const MAX_PATTERNS: usize = 32;

/// How many parts `schema` has, references followed; refuses one that could cost too much.
pub(crate) fn check(schema: &Value) -> Result<u64, Error> {
    let dialect = schema.get("$schema").and_then(Value::as_str).unwrap_or_default();
    if ["draft-03", "draft-04"].iter().any(|old| dialect.contains(old)) {
        return Err(Error::Schema("drafts before 6 are not supported".into()));
    }
    let mut unfolding = Unfolding { root: schema, known: HashMap::new(), patterns: 0 };
    let steps = unfolding.steps(schema, true)?;
    if steps > MAX_STEPS {
        let why = format!("with its references followed it has {steps} parts, the limit is {MAX_STEPS}");
        return Err(Error::Schema(why));
    }
    if unfolding.patterns > MAX_PATTERNS {
        let why = format!("it has {} patterns, the limit is {MAX_PATTERNS}", unfolding.patterns);
        return Err(Error::Schema(why));
    }
    Ok(steps)
}

/// How many values there are in `value`, up to `most`.
pub(crate) fn values(value: &Value, most: u64) -> u64 {
    let more = |count: u64, next: &Value| if count >= most { count } else { count + values(next, most - count) };
    match value {
        Value::Object(members) => members.values().fold(1, more),
        Value::Array(items) => items.iter().fold(1, more),
        _ => 1,
    }
}

struct Unfolding<'a> {
    root: &'a Value,
    /// What was referred to: its steps, or nothing while they are being counted.
    known: HashMap<&'a str, Option<u64>>,
    patterns: usize,
}

impl<'a> Unfolding<'a> {
    fn steps(&mut self, value: &'a Value, root: bool) -> Result<u64, Error> {
        match value {
            Value::Object(members) => {
                let mut steps: u64 = 1;
                for (name, member) in members {
                    let more = match (name.as_str(), member) {
                        ("$ref", Value::String(target)) => self.referred(target)?,
                        ("$id", Value::String(_)) if !root => {
                            return Err(Error::Schema("$id inside a schema is not supported".into()));
                        }
                        ("$dynamicRef" | "$recursiveRef" | "$anchor" | "$dynamicAnchor", Value::String(_)) => {
                            return Err(Error::Schema(format!("{name} is not supported: use $ref and #/$defs/name")));
                        }
                        ("pattern", Value::String(_)) => {
                            self.patterns += 1;
                            1
                        }
                        ("patternProperties", Value::Object(by_pattern)) => {
                            self.patterns += by_pattern.len();
                            self.steps(member, false)?
                        }
                        _ => self.steps(member, false)?,
                    };
                    steps = steps.saturating_add(more);
                }
                Ok(steps)
            }
            Value::Array(items) => {
                items.iter().try_fold(1_u64, |steps, item| Ok(steps.saturating_add(self.steps(item, false)?)))
            }
            _ => Ok(1),
        }
    }

    fn referred(&mut self, target: &'a str) -> Result<u64, Error> {
        match self.known.get(target) {
            Some(Some(steps)) => return Ok(*steps),
            Some(None) => {
                return Err(Error::Schema(format!("'{target}' refers to itself: recursive schemas are not supported")));
            }
            None => {}
        }
        // What is escaped may be read otherwise by whoever follows it.
        let plain = target.strip_prefix('#').filter(|pointer| !pointer.contains(['%', '~']));
        let found = plain.and_then(|pointer| self.root.pointer(pointer)).ok_or_else(|| {
            Error::Schema(format!(
                "'{target}' is not in the schema: references are plain pointers such as #/$defs/name"
            ))
        })?;
        self.known.insert(target, None);
        let steps = self.steps(found, target == "#")?;
        self.known.insert(target, Some(steps));
        Ok(steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Each level asks for the next one twice.
    fn definitions(levels: usize) -> serde_json::Map<String, Value> {
        let mut definitions = serde_json::Map::new();
        for level in 0..levels {
            let next = format!("#/$defs/l{}", level + 1);
            definitions.insert(format!("l{level}"), json!({ "allOf": [{ "$ref": next }, { "$ref": next }] }));
        }
        definitions.insert(format!("l{levels}"), json!({ "type": "object" }));
        definitions
    }

    #[test]
    fn what_doubles_is_refused_and_what_is_shared_is_not() {
        let doubling = |levels| json!({ "$ref": "#/$defs/l0", "$defs": definitions(levels) });
        assert!(check(&doubling(3)).is_ok());
        for levels in [20, 60, 200] {
            assert!(check(&doubling(levels)).unwrap_err().to_string().contains("limit"), "{levels}");
        }
        let price = json!({ "properties": { "a": { "$ref": "#/$defs/p" }, "b": { "$ref": "#/$defs/p" } }, "$defs": { "p": { "type": "number" } } });
        assert!(check(&price).is_ok());
    }

    #[test]
    fn it_cannot_be_hidden() {
        let mut escaped = definitions(30);
        escaped.insert("a%31".into(), json!(true));
        escaped.insert("a1".into(), json!({ "$ref": "#/$defs/l0" }));
        for hidden in [
            json!({ "properties": { "definitions": { "$ref": "#/$defs/l0" } }, "$defs": definitions(30) }),
            json!({ "properties": { "$defs": { "$ref": "#/$defs/l0" } }, "$defs": definitions(30) }),
            json!({ "$ref": "#/$defs/a%31", "$defs": escaped }),
            json!({ "properties": { "x": { "$id": "urn:x", "$ref": "#/$defs/l0", "$defs": definitions(30) } }, "$defs": { "l0": true } }),
            json!({ "$schema": "http://json-schema.org/draft-04/schema#", "items": { "id": "urn:x" } }),
            json!({ "allOf": vec![json!({ "pattern": "a" }); 40] }),
        ] {
            assert!(check(&hidden).is_err(), "{hidden}");
        }
    }

    #[test]
    fn what_has_no_end_is_refused() {
        for endless in [
            json!({ "$ref": "#" }),
            json!({ "properties": { "child": { "$ref": "#" } } }),
            json!({ "$ref": "#/$defs/a", "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } } }),
            json!({ "$ref": "https://elsewhere.example/schema" }),
            json!({ "$ref": "#/$defs/none" }),
            json!({ "$dynamicRef": "#x" }),
        ] {
            assert!(check(&endless).is_err(), "{endless}");
        }
    }

    #[test]
    fn values_are_counted_as_far_as_needed() {
        assert_eq!(values(&json!({ "a": [1, 2, { "b": null }] }), 100), 6);
        assert!(values(&json!(vec![0; 1_000]), 10) <= 11);
    }
}
