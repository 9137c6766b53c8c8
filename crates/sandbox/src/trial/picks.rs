//! Calling a target's own tools (`mcp`): which ones fit, and the least arguments that their schemas require.

use serde_json::{Map, Value, json};

use crate::{
    sensor::patterns::compiled,
    suite::{Limit, Pick, ToolUse, template},
    target::OfferedTool,
};

/// Tools that one family tries at most.
pub const MAX_PICKS: usize = 8;

/// Words in a tool's name that say that it changes something. Such tools are left alone: a path that leaves its folder is a harmless
/// question to a tool that reads, and an overwritten file to one that writes.
const CHANGES: [&str; 36] = [
    "add", "append", "apply", "book", "buy", "cancel", "change", "clear", "copy", "create", "delete", "deploy",
    "destroy", "drop", "edit", "erase", "insert", "install", "kill", "modify", "move", "order", "patch", "pay", "post",
    "publish", "purge", "put", "remove", "rename", "save", "send", "set", "update", "upload", "write",
];

fn changes_something(tool: &OfferedTool) -> bool {
    let mut words = String::new();
    for letter in tool.name.chars() {
        if letter.is_uppercase() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words.split(|c: char| !c.is_alphanumeric()).any(|word| CHANGES.contains(&word))
}

/// The tools that fit, with the argument that fits, in the target's order. Tools that change something are not among them.
pub fn fitting<'a>(pick: &Pick, tools: &'a [OfferedTool]) -> Vec<(&'a OfferedTool, &'a str)> {
    let Some(parameter) = compiled(&pick.parameter) else { return Vec::new() };
    let tool_fits = |tool: &OfferedTool| match &pick.tool {
        Some(pattern) => {
            compiled(pattern).is_some_and(|regex| regex.is_match(&tool.name) || regex.is_match(&tool.description))
        }
        None => true,
    };
    let argument = |tool: &'a OfferedTool| {
        let properties = tool.parameters.get("properties")?.as_object()?;
        let takes_text = |schema: &Value| match schema.get("type") {
            Some(Value::String(kind)) => kind == "string",
            Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
            _ => schema.get("anyOf").is_some(),
        };
        let fits = |(name, schema): &(&'a String, &Value)| {
            if pick.limit.is_some() {
                return parameter.is_match(name) && maximum(schema).is_some();
            }
            parameter.is_match(name) && takes_text(schema) && schema.get("enum").is_none()
        };
        properties.iter().find(fits).map(|(name, _)| name.as_str())
    };
    let found = tools
        .iter()
        .filter(|tool| tool_fits(tool) && !changes_something(tool))
        .filter_map(|tool| Some((tool, argument(tool)?)));
    found.take(MAX_PICKS).collect()
}

/// The tool to call and its arguments.
pub fn arguments(
    call: &ToolUse,
    tools: &[OfferedTool],
    pick: usize,
    fill: &impl Fn(&str) -> Option<String>,
) -> Result<(String, Value), String> {
    let filled = |text: &str| template::fill(text, fill).map_err(|e| e.to_string());
    let (name, mut arguments) = match (&call.pick, &call.name) {
        (Some(wanted), _) => {
            let found = fitting(wanted, tools);
            let (tool, argument) = found.get(pick % found.len().max(1)).ok_or("no tool of the target fits")?;
            let mut arguments = least(&tool.parameters);
            let value = filled(call.value.as_deref().unwrap_or_default())?;
            let value = match wanted.limit {
                Some(side) => bounded(&tool.parameters["properties"][argument], side, &value)?,
                None => Value::String(value),
            };
            arguments.insert((*argument).to_owned(), value);
            (tool.name.clone(), arguments)
        }
        (None, Some(name)) => (filled(name)?, Map::new()),
        (None, None) => return Err("the call has neither pick nor name".to_owned()),
    };
    for (name, value) in &call.arguments {
        arguments.insert(name.clone(), template::fill_json(value, fill).map_err(|e| e.to_string())?);
    }
    Ok((name, Value::Object(arguments)))
}

/// The largest whole number that a schema allows, where it says so.
fn maximum(schema: &Value) -> Option<i64> {
    let is_number = matches!(schema.get("type").and_then(Value::as_str), Some("integer" | "number"));
    let whole = |name: &str| schema.get(name).and_then(Value::as_f64).map(|most| most.floor() as i64);
    let most = whole("maximum").or_else(|| whole("exclusiveMaximum").map(|most| most - 1))?;
    // Beyond that there is no number that JSON carries exactly.
    (is_number && most.abs() < 1 << 52).then_some(most)
}

/// A number on one side of the limit in a schema, made from the call's value.
fn bounded(schema: &Value, side: Limit, value: &str) -> Result<Value, String> {
    let most = maximum(schema).ok_or("the argument has no maximum")?;
    let given: i64 = value.parse().map_err(|_| format!("'{value}' is not a whole number"))?;
    let least = schema.get("minimum").and_then(Value::as_f64).map_or(1, |least| least.ceil() as i64).min(most);
    Ok(match side {
        Limit::Within => json!(least + given.rem_euclid(most - least + 1)),
        Limit::Beyond => json!(most + given.max(1)),
    })
}

/// The required members of a schema, each with the simplest value that fits.
fn least(schema: &Value) -> Map<String, Value> {
    let required = schema.get("required").and_then(Value::as_array);
    let names = required.into_iter().flatten().filter_map(Value::as_str);
    let of = |name: &str| {
        schema.pointer("/properties").and_then(|properties| properties.get(name)).map_or(json!("x"), simplest)
    };
    names.map(|name| (name.to_owned(), of(name))).collect()
}

fn simplest(schema: &Value) -> Value {
    if let Some(given) = ["default", "const"].into_iter().find_map(|name| schema.get(name)) {
        return given.clone();
    }
    if let Some(first) = schema.get("enum").or_else(|| schema.get("examples")).and_then(|list| list.get(0)) {
        return first.clone();
    }
    if let Some(first) = ["anyOf", "oneOf"].into_iter().find_map(|name| schema.get(name)?.get(0)) {
        return simplest(first);
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str),
        Some(kind) => kind.as_str(),
        None => None,
    };
    match kind {
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        Some("boolean") => json!(false),
        Some("array") => json!([]),
        Some("object") => Value::Object(least(schema)),
        Some("null") => Value::Null,
        _ => json!("x"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, parameters: Value) -> OfferedTool {
        OfferedTool { name: name.into(), description: format!("Does {name}"), parameters }
    }

    #[test]
    fn tools_that_change_something_are_left_alone() {
        let path = json!({ "type": "object", "properties": { "path": { "type": "string" } } });
        let names =
            ["read_file", "write_file", "moveFile", "create-directory", "list_directory", "settings", "getFile"];
        let tools: Vec<OfferedTool> = names.iter().map(|name| tool(name, path.clone())).collect();
        let pick = Pick { parameter: "path".into(), tool: None, limit: None };
        let found: Vec<&str> = fitting(&pick, &tools).iter().map(|(tool, _)| tool.name.as_str()).collect();
        assert_eq!(found, ["read_file", "list_directory", "settings", "getFile"]);
    }

    #[test]
    fn values_are_on_the_side_of_the_limit_that_is_wanted() {
        for (schema, most) in [
            (json!({ "type": "integer", "minimum": 5, "maximum": 40 }), 40),
            (json!({ "type": "number", "exclusiveMaximum": 100 }), 99),
            (json!({ "type": "integer", "maximum": 1 }), 1),
        ] {
            for given in ["1", "77", "9000"] {
                let number = |side| bounded(&schema, side, given).unwrap().as_i64().unwrap();
                assert!(number(Limit::Within) <= most && number(Limit::Within) >= 1, "{schema}");
                assert!(number(Limit::Beyond) > most, "{schema}");
            }
        }
        for schema in [json!({ "type": "integer" }), json!({ "type": "string", "maximum": 4 }), json!({})] {
            assert_eq!(maximum(&schema), None, "{schema}");
        }
    }

    #[test]
    fn tools_are_picked_by_their_schema_and_called_with_the_least() {
        let tools = [
            tool("sum", json!({ "type": "object", "properties": { "a": { "type": "number" } } })),
            tool(
                "fetch",
                json!({ "type": "object", "required": ["url", "mode", "depth", "deep"], "properties": {
                "url": { "type": "string", "format": "uri" }, "mode": { "enum": ["raw", "text"] },
                "depth": { "type": "integer", "minimum": 2 }, "deep": { "type": "object", "required": ["x"], "properties": { "x": { "type": "boolean" } } },
                "note": { "type": "string" } } }),
            ),
            tool(
                "open",
                json!({ "type": "object", "properties": { "page_URL": { "anyOf": [{ "type": "string" }, { "type": "null" }] } } }),
            ),
        ];
        let pick = Pick { parameter: "url".into(), tool: None, limit: None };
        assert_eq!(
            fitting(&pick, &tools).iter().map(|(tool, _)| tool.name.as_str()).collect::<Vec<_>>(),
            ["fetch", "open"]
        );
        let narrow = Pick { parameter: "url".into(), tool: Some("^does open".into()), limit: None };
        assert_eq!(fitting(&narrow, &tools).len(), 1);
        let call = ToolUse {
            pick: Some(pick),
            name: None,
            value: Some("http://{nonce}".into()),
            arguments: Map::new(),
            times: 1,
        };
        let fill = |name: &str| Some(format!("<{name}>"));
        let (name, found) = arguments(&call, &tools, 2, &fill).unwrap();
        assert_eq!(name, "fetch");
        assert_eq!(found, json!({ "url": "http://<nonce>", "mode": "raw", "depth": 2, "deep": { "x": false } }));
        assert_eq!(arguments(&call, &tools, 1, &fill).unwrap().0, "open");
        assert!(arguments(&call, &tools[..1], 0, &fill).is_err());
    }
}
