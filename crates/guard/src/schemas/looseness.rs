//! Whether a JSON Schema accepts nothing that another one refuses.
//!
//! [`is_as_strict`] answers yes only where it can tell, keyword by keyword; of what it does not know it says no. A schema that was
//! rewritten in an equal form may therefore be taken for a looser one: a person is asked once too often, never once too little.

use std::cell::Cell;

use serde_json::{Map, Value};

/// Comparisons of one schema with another: alternatives inside alternatives are cheap to write and dear to compare.
const MAX_STEPS: u32 = 20_000;
/// Nesting that is followed.
const MAX_DEPTH: usize = 64;
/// Keywords that say nothing about which values are valid.
const ANNOTATIONS: [&str; 12] = [
    "$id",
    "$comment",
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$anchor",
];
/// Keywords whose number may only fall, and those whose number may only rise.
const UPPER: [&str; 5] = ["maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"];
const LOWER: [&str; 5] = ["minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"];

/// Whether every value that `new` accepts is one that `old` accepts, as far as can be told.
pub fn is_as_strict(new: &Value, old: &Value) -> bool {
    // Another dialect gives the same keywords another meaning.
    let same_dialect = dialects(new) == dialects(old);
    new == old || same_dialect && Comparison { new_root: new, old_root: old, steps: Cell::new(0) }.schema(new, old, 0)
}

struct Comparison<'a> {
    new_root: &'a Value,
    old_root: &'a Value,
    steps: Cell<u32>,
}

impl<'a> Comparison<'a> {
    fn schema(&self, new: &'a Value, old: &'a Value, depth: usize) -> bool {
        self.steps.set(self.steps.get() + 1);
        if depth > MAX_DEPTH || self.steps.get() > MAX_STEPS {
            return false;
        }
        if new == old && !has_references(new) {
            return true;
        }
        let (new, old) = (resolved(new, self.new_root), resolved(old, self.old_root));
        match (new, old) {
            (_, Value::Bool(true)) | (Value::Bool(false), _) => true,
            (new, Value::Object(old)) if says_nothing(old) => !new.is_null(),
            // In older dialects a reference makes everything beside it void.
            (Value::Object(new), _) if new.contains_key("$ref") => false,
            (Value::Object(new), Value::Object(old)) => {
                let rest =
                    old.iter().filter(|(keyword, _)| *keyword != "$schema" && !ANNOTATIONS.contains(&keyword.as_str()));
                let mut rest = rest.map(|(keyword, value)| self.keyword(keyword, value, new, old, depth));
                rest.all(|strict| strict)
            }
            _ => false,
        }
    }

    /// Whether `new` refuses what this keyword of `old` refuses.
    fn keyword(
        &self,
        keyword: &str,
        was: &'a Value,
        new: &'a Map<String, Value>,
        old: &'a Map<String, Value>,
        depth: usize,
    ) -> bool {
        let is = new.get(keyword);
        let both = |one: fn(f64, f64) -> bool| match (is.and_then(Value::as_f64), was.as_f64()) {
            (Some(is), Some(was)) => one(is, was),
            _ => false,
        };
        match keyword {
            "type" => {
                types(new).is_some_and(|new| types(old).is_some_and(|old| new.iter().all(|one| covers(&old, one))))
            }
            "required" => list(was).iter().all(|one| is.is_some_and(|is| list(is).contains(one))),
            "enum" => values(new).is_some_and(|new| new.iter().all(|one| list(was).contains(one))),
            "const" => values(new).is_some_and(|new| new.iter().all(|one| *one == was)),
            "properties" => self.properties(was, new, old, depth),
            // Which properties these speak of is decided by everything beside them.
            "unevaluatedProperties" => new == old,
            "additionalProperties" => {
                let Some(is) = is else { return *was == Value::Bool(true) };
                if new.get("patternProperties") != old.get("patternProperties") {
                    return false;
                }
                // A property that is named now was one of these before.
                let named = new.get("properties").and_then(Value::as_object).into_iter().flatten();
                let before = |name: &String| old.get("properties").and_then(|all| all.get(name)).is_some();
                let mut added = named.filter(|(name, _)| !before(name));
                self.schema(is, was, depth + 1) && added.all(|(_, schema)| self.schema(schema, was, depth + 1))
            }
            "contains" if ["minContains", "maxContains"].iter().any(|bound| new.get(*bound) != old.get(*bound)) => {
                false
            }
            "items" | "contains" | "propertyNames" | "additionalItems" if !was.is_array() => match is {
                Some(is) => {
                    let same_first = new.get("prefixItems") == old.get("prefixItems");
                    same_first && !is.is_array() && self.schema(is, was, depth + 1)
                }
                None => *was == Value::Bool(true),
            },
            "allOf" => {
                let new: Vec<&Value> = is.map(list).unwrap_or_default();
                list(was).iter().all(|was| new.iter().any(|is| self.schema(is, was, depth + 1)))
            }
            "anyOf" => {
                let new: Vec<&Value> = is.map(list).unwrap_or_default();
                !new.is_empty() && new.iter().all(|is| list(was).iter().any(|was| self.schema(is, was, depth + 1)))
            }
            "uniqueItems" => *was == Value::Bool(false) || is == Some(was),
            "multipleOf" => is == Some(was),
            keyword if UPPER.contains(&keyword) => both(|is, was| is <= was),
            keyword if LOWER.contains(&keyword) => both(|is, was| is >= was),
            _ => is == Some(was) && !has_references(was) && !depends_on_siblings(keyword),
        }
    }

    fn properties(
        &self,
        was: &'a Value,
        new: &'a Map<String, Value>,
        old: &'a Map<String, Value>,
        depth: usize,
    ) -> bool {
        let Some(was) = was.as_object() else { return false };
        was.iter().all(|(name, was)| match new.get("properties").and_then(|all| all.get(name)) {
            Some(is) => self.schema(is, was, depth + 1),
            // No longer named: as strict as the rule for the others.
            None if new.get("patternProperties") != old.get("patternProperties") => false,
            None => match new.get("additionalProperties") {
                Some(others) => self.schema(others, was, depth + 1),
                None => *was == Value::Bool(true) || was.as_object().is_some_and(says_nothing),
            },
        })
    }
}

/// The dialects that a schema and its parts name, in order.
fn dialects(schema: &Value) -> Vec<&Value> {
    match schema {
        Value::Array(items) => items.iter().flat_map(dialects).collect(),
        Value::Object(members) => {
            let own = members.get("$schema").into_iter();
            own.chain(members.values().flat_map(dialects)).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a part of a schema refers to another, which may have changed.
fn has_references(schema: &Value) -> bool {
    match schema {
        Value::Array(items) => items.iter().any(has_references),
        Value::Object(members) => {
            members.iter().any(|(name, value)| name.ends_with("ef") && name.starts_with('$') || has_references(value))
        }
        _ => false,
    }
}

/// Keywords whose meaning hangs on the keywords beside them: equal text does not make them equal.
fn depends_on_siblings(keyword: &str) -> bool {
    matches!(keyword, "$ref" | "then" | "else" | "unevaluatedItems" | "$dynamicRef" | "$recursiveRef")
}

fn says_nothing(schema: &Map<String, Value>) -> bool {
    schema.keys().all(|keyword| keyword == "$schema" || ANNOTATIONS.contains(&keyword.as_str()))
}

/// What a reference to a part of the same document refers to.
fn resolved<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let mut schema = schema;
    for _ in 0..MAX_DEPTH {
        // Beside other keywords a reference is one condition of several.
        let alone = |members: &Map<String, Value>| {
            members.keys().filter(|keyword| *keyword != "$schema" && !ANNOTATIONS.contains(&keyword.as_str())).count()
                == 1
        };
        let Some(members) = schema.as_object().filter(|members| alone(members)) else { return schema };
        let Some(path) = members.get("$ref").and_then(Value::as_str).and_then(|path| path.strip_prefix('#')) else {
            return schema;
        };
        match root.pointer(path) {
            Some(target) => schema = target,
            None => return schema,
        }
    }
    schema
}

fn list(value: &Value) -> Vec<&Value> {
    value.as_array().map(|all| all.iter().collect()).unwrap_or_default()
}

fn types(schema: &Map<String, Value>) -> Option<Vec<&str>> {
    match schema.get("type")? {
        Value::String(one) => Some(vec![one]),
        Value::Array(all) => all.iter().map(Value::as_str).collect(),
        _ => None,
    }
}

fn covers(types: &[&str], one: &str) -> bool {
    types.contains(&one) || one == "integer" && types.contains(&"number")
}

/// All values that a schema accepts, where it lists them.
fn values(schema: &Map<String, Value>) -> Option<Vec<&Value>> {
    match (schema.get("const"), schema.get("enum")) {
        (Some(one), _) => Some(vec![one]),
        (None, Some(Value::Array(all))) => Some(all.iter().collect()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(properties: Value, required: Value) -> Value {
        json!({"type": "object", "properties": properties, "required": required})
    }

    #[test]
    fn what_accepts_no_more_is_as_strict() {
        let old = object(json!({"t": {"type": "number", "maximum": 60}, "c": {"enum": ["a", "b"]}}), json!(["t"]));
        for new in [
            old.clone(),
            json!({"description": "new", "type": "object", "properties": old["properties"], "required": ["c", "t"]}),
            object(
                json!({"t": {"type": "integer", "maximum": 50}, "c": {"const": "a"}, "d": {"type": "string"}}),
                json!(["t", "d"]),
            ),
            json!({"type": "object", "properties": {"t": {"$ref": "#/$defs/T"}, "c": {"enum": ["b"]}}, "required": ["t"],
                   "$defs": {"T": {"type": "number", "maximum": 60}}}),
            json!(false),
        ] {
            assert!(is_as_strict(&new, &old), "{new}");
        }
        let closed = json!({"type": "object", "properties": {"a": {}}, "additionalProperties": false});
        assert!(is_as_strict(&json!({"type": "object", "additionalProperties": false}), &closed));
        let either = json!({"anyOf": [{"type": "string"}, {"type": "null"}]});
        assert!(is_as_strict(&json!({"anyOf": [{"type": "string", "minLength": 1}]}), &either));
        for nothing in [json!({}), json!(true), json!({"title": "t"})] {
            assert!(is_as_strict(&old, &nothing) && is_as_strict(&nothing, &nothing), "{nothing}");
        }
    }

    #[test]
    fn what_accepts_more_is_not() {
        let old = object(
            json!({"t": {"type": "integer", "minimum": 0}, "c": {"enum": ["a", "b"]}, "l": {"type": "array", "items": {"type": "string"}}}),
            json!(["t"]),
        );
        for new in [
            json!({}),
            json!(true),
            json!({"type": "object"}),
            object(old["properties"].clone(), json!([])),
            object(
                json!({"t": {"type": "number", "minimum": 0}, "c": {"enum": ["a", "b"]}, "l": old["properties"]["l"]}),
                json!(["t"]),
            ),
            object(
                json!({"t": {"type": "integer", "minimum": -1}, "c": {"enum": ["a", "b"]}, "l": old["properties"]["l"]}),
                json!(["t"]),
            ),
            object(
                json!({"t": {"type": "integer", "minimum": 0}, "c": {"enum": ["a", "b", "c"]}, "l": old["properties"]["l"]}),
                json!(["t"]),
            ),
            object(
                json!({"t": {"type": "integer", "minimum": 0}, "c": {"enum": ["a", "b"]}, "l": {"type": "array"}}),
                json!(["t"]),
            ),
            object(
                json!({"t": {"$ref": "#/$defs/missing"}, "c": {"enum": ["a"]}, "l": old["properties"]["l"]}),
                json!(["t"]),
            ),
            json!({"anyOf": [old, {}]}),
            json!(null),
        ] {
            assert!(!is_as_strict(&new, &old), "{new}");
        }
        let closed = json!({"type": "object", "properties": {"a": {}}, "additionalProperties": false});
        assert!(!is_as_strict(
            &json!({"type": "object", "properties": {"a": {}, "b": {}}, "additionalProperties": false}),
            &closed
        ));
        let patterned = json!({"type": "object", "properties": {"a": {}}, "patternProperties": {"": {}}, "additionalProperties": false});
        assert!(!is_as_strict(&patterned, &closed));
        let text = |length: u32| json!({"$defs": {"T": {"type": "string", "maxLength": length}}, "not": {"$ref": "#/$defs/T"}});
        assert!(!is_as_strict(&text(5), &text(7)), "what it refers to has changed");
        let bomb = |leaf: Value| (0..12).fold(leaf, |inner, _| json!({"anyOf": [inner, inner, {"type": "null"}]}));
        assert!(!is_as_strict(&bomb(json!({"type": "string"})), &bomb(json!({"type": "string", "maxLength": 5}))));
        let recursive = json!({"$ref": "#"});
        assert!(!is_as_strict(&recursive, &old));
    }

    /// Keywords that take another's place, or change what those beside them mean.
    #[test]
    fn what_loosens_by_a_detour_is_not_as_strict() {
        let old = object(json!({"t": {"type": "number"}}), json!(["t"]));
        let pattern = json!({"type": "object", "required": ["t"], "patternProperties": {"^t$": {}},
            "additionalProperties": {"type": "number"}});
        assert!(!is_as_strict(&pattern, &old));
        let mut dialect = old.clone();
        dialect["$schema"] = json!("http://json-schema.org/draft-07/schema#");
        assert!(!is_as_strict(&dialect, &old));
        let mut reference = old.clone();
        (reference["$ref"], reference["$defs"]) = (json!("#/$defs/any"), json!({"any": {}}));
        assert!(!is_as_strict(&reference, &old));
        let contains = json!({"type": "array", "contains": {"type": "number"}});
        assert!(!is_as_strict(&json!({"type": "array", "contains": {"type": "number"}, "minContains": 0}), &contains));
        let closed = json!({"type": "object", "unevaluatedProperties": false});
        let open = json!({"type": "object", "unevaluatedProperties": false, "allOf": [{"additionalProperties": true}]});
        assert!(!is_as_strict(&open, &closed));
    }
}
