//! What tools give back, as JSON Schema: taken from the descriptions of the REST routes, so that both faces say the same.

use std::sync::{Arc, LazyLock};

use rmcp::model::JsonObject;
use serde_json::{Map, Value, json};

/// Every described form, by its name.
static FORMS: LazyLock<Value> = LazyLock::new(|| {
    let mut doc: Value = serde_json::from_str(&crate::openapi()).unwrap_or_default();
    doc["components"]["schemas"].take()
});

/// Formats of JSON Schema; OpenAPI has some of its own.
const FORMATS: [&str; 2] = ["date-time", "uuid"];

/// A described form, with everything it refers to.
pub(super) fn form(name: &str) -> Value {
    whole(&FORMS[name])
}

fn whole(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            let named = members.get("$ref").and_then(Value::as_str).and_then(|to| to.rsplit('/').next());
            if let Some(name) = named {
                return form(name);
            }
            let ours = |(name, value): &(&String, &Value)| {
                name.as_str() != "format" || value.as_str().is_some_and(|format| FORMATS.contains(&format))
            };
            Value::Object(members.iter().filter(ours).map(|(name, value)| (name.clone(), whole(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(whole).collect()),
        other => other.clone(),
    }
}

/// An object of these members, and no others.
pub(super) fn object(members: Value, required: &[&str]) -> Arc<JsonObject> {
    let schema =
        json!({ "type": "object", "properties": members, "required": required, "additionalProperties": false });
    entire(schema)
}

/// A described form as a tool's own.
pub(super) fn entire(schema: Value) -> Arc<JsonObject> {
    match schema {
        Value::Object(members) => Arc::new(members),
        _ => Arc::new(Map::new()),
    }
}
