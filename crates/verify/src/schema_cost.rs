//! What a JSON Schema may cost. References are cheap to write and can double the work each time: a schema is unfolded on paper
//! first, and one that would grow too large, or into itself, is refused.

use std::collections::HashMap;

use serde_json::Value;

use crate::Error;

/// Subschemas, references followed.
pub(crate) const MAX_STEPS: u64 = 20_000;

/// Refuses a schema that could cost more than [`MAX_STEPS`] for one value.
pub(crate) fn check(schema: &Value) -> Result<(), Error> {
    let steps = Unfolding { root: schema, known: HashMap::new() }.steps(schema)?;
    if steps > MAX_STEPS {
        let why = format!("with its references followed it has {steps} parts, the limit is {MAX_STEPS}");
        return Err(Error::Schema(why));
    }
    Ok(())
}

struct Unfolding<'a> {
    root: &'a Value,
    /// What was referred to: its steps, or nothing while they are being counted.
    known: HashMap<&'a str, Option<u64>>,
}

impl<'a> Unfolding<'a> {
    fn steps(&mut self, value: &'a Value) -> Result<u64, Error> {
        match value {
            Value::Object(members) => {
                let mut steps: u64 = 1;
                for (name, member) in members {
                    let more = match (name.as_str(), member) {
                        ("$ref", Value::String(target)) => self.referred(target)?,
                        ("$dynamicRef" | "$recursiveRef", Value::String(_)) => {
                            return Err(Error::Schema(format!("{name} is not supported: use $ref")));
                        }
                        // Looked at when something refers to it.
                        ("$defs" | "definitions", _) => 0,
                        _ => self.steps(member)?,
                    };
                    steps = steps.saturating_add(more);
                }
                Ok(steps)
            }
            Value::Array(items) => {
                items.iter().try_fold(1_u64, |steps, item| Ok(steps.saturating_add(self.steps(item)?)))
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
        let found = target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let found = found.ok_or_else(|| {
            Error::Schema(format!("'{target}' is not in the schema: references are JSON pointers such as #/$defs/name"))
        })?;
        self.known.insert(target, None);
        let steps = self.steps(found)?;
        self.known.insert(target, Some(steps));
        Ok(steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Each level asks for the next one twice.
    fn doubling(levels: usize) -> Value {
        let mut definitions = serde_json::Map::new();
        for level in 0..levels {
            let next = format!("#/$defs/l{}", level + 1);
            definitions.insert(format!("l{level}"), json!({ "allOf": [{ "$ref": next }, { "$ref": next }] }));
        }
        definitions.insert(format!("l{levels}"), json!({ "type": "object" }));
        json!({ "$ref": "#/$defs/l0", "$defs": definitions })
    }

    #[test]
    fn what_doubles_is_refused_and_what_is_shared_is_not() {
        assert!(check(&doubling(3)).is_ok());
        for levels in [20, 60, 200] {
            assert!(check(&doubling(levels)).unwrap_err().to_string().contains("limit"), "{levels}");
        }
        let price = json!({ "properties": { "a": { "$ref": "#/$defs/p" }, "b": { "$ref": "#/$defs/p" } }, "$defs": { "p": { "type": "number" } } });
        assert!(check(&price).is_ok());
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
}
