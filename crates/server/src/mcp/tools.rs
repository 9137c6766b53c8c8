//! The tools: what each is for, what it takes and gives back, and the way from a call to its result.

use std::sync::{Arc, LazyLock};

use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{errors, judge, probe, receipt, schemas, trust};
use crate::{app::App, edge::Caller, problem::Problem};

/// What a tool says.
pub(super) struct ToolAnswer {
    /// For the model: what to do comes first.
    pub text: String,
    /// For programs: what the tool's output schema describes.
    pub structured: Value,
    /// What follows the text, where that is another than `structured`: a document whose bytes matter.
    pub document: Option<String>,
}

impl From<ToolAnswer> for CallToolResult {
    fn from(said: ToolAnswer) -> Self {
        let ToolAnswer { text, structured, document } = said;
        let whole = document.unwrap_or_else(|| structured.to_string());
        let mut result = CallToolResult::success(vec![ContentBlock::text(text), ContentBlock::text(whole)]);
        result.structured_content = Some(structured);
        result
    }
}

/// All tools, always in this order.
pub(super) fn all() -> &'static [Tool] {
    static ALL: LazyLock<Vec<Tool>> = LazyLock::new(|| {
        vec![
            trust::check_trust(),
            trust::explain_score(),
            trust::search_agents(),
            probe::probe_summary(),
            judge::verify_tool_result(),
            receipt::check_receipt(),
            judge::report_outcome(),
        ]
    });
    &ALL
}

/// How a tool is put together.
pub(super) struct ToolSpec {
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    pub input_schema: Arc<JsonObject>,
    pub output_schema: Arc<JsonObject>,
    /// Whether it changes nothing that anyone would miss.
    pub read_only: bool,
    /// Whether the same call again does nothing more.
    pub idempotent: bool,
}

impl From<ToolSpec> for Tool {
    fn from(spec: ToolSpec) -> Self {
        let ToolSpec { name, title, description, input_schema, output_schema, read_only, idempotent } = spec;
        // Nothing is ever taken away, and nobody but this authority is asked.
        let hints = ToolAnnotations::with_title(title)
            .read_only(read_only)
            .destructive(false)
            .idempotent(idempotent)
            .open_world(false);
        Tool::new(name, description, input_schema)
            .with_title(title)
            .with_raw_output_schema(output_schema)
            .with_annotations(hints)
    }
}

/// An agent, as an argument.
pub(super) fn agent_argument(says: &str) -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": 2048, "description": says })
}

/// Calls a tool that there is.
pub(super) async fn call(app: &Arc<App>, caller: Option<Caller>, name: &str, arguments: JsonObject) -> CallToolResult {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str).map(str::to_owned);
    let about = text("entity").or_else(|| text("agent")).unwrap_or_default();
    let said = match (name, &caller) {
        ("check_trust", Some(caller)) => trust::check(app, caller, arguments).await,
        ("explain_score", _) => trust::explain(app, arguments).await,
        ("search_agents", _) => trust::search(app, arguments).await,
        ("probe_summary", _) => probe::summary(app, arguments).await,
        ("verify_tool_result", _) => judge::verify(app, caller.as_ref(), arguments).await,
        ("check_receipt", _) => receipt::check(app, arguments).await,
        ("report_outcome", _) => judge::report(app, caller.as_ref(), arguments).await,
        _ => Err(Problem::internal(&"a call of nobody, or of no tool")),
    };
    match said {
        Ok(said) => said.into(),
        Err(problem) if problem.code == "unknown_agent" => errors::unknown_agent(app, about).await,
        Err(problem) => errors::result(&problem),
    }
}

/// The arguments of a call, if they are what the tool takes.
pub(super) fn taken<T: DeserializeOwned>(name: &str, arguments: JsonObject) -> Result<T, Problem> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| {
        let schema = all().iter().find(|tool| tool.name == name).map(|tool| Arc::clone(&tool.input_schema));
        let list = |member: &str| -> String {
            let known = schema.as_ref().and_then(|schema| schema.get(member));
            let names: Vec<&str> = match known {
                Some(Value::Object(members)) => members.keys().map(String::as_str).collect(),
                Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
                _ => Vec::new(),
            };
            if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
        };
        let detail = format!("{error}. {name} takes {}; needed: {}", list("properties"), list("required"));
        Problem::unprocessable("invalid_arguments", detail)
    })
}

/// The output schema of something described for the REST routes.
pub(super) fn gives(form: &str) -> Arc<JsonObject> {
    schemas::entire(schemas::form(form))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_says_what_a_client_needs() {
        let tools = all();
        assert_eq!(tools.len(), 7);
        for tool in tools {
            let schema = |schema: &Arc<JsonObject>| Value::Object((**schema).clone()).to_string();
            assert_eq!(tool.input_schema["type"], "object", "{}", tool.name);
            assert_eq!(tool.input_schema["additionalProperties"], false, "{}", tool.name);
            let output = tool.output_schema.as_ref().unwrap();
            assert_eq!(output["type"], "object", "{}", tool.name);
            assert!(!schema(output).contains("$ref"), "{}: refers to what is not there", tool.name);
            for (name, property) in tool.input_schema["properties"].as_object().unwrap() {
                assert!(property["description"].as_str().is_some_and(|text| text.len() > 10), "{} {name}", tool.name);
            }
            let hints = tool.annotations.as_ref().unwrap();
            assert!(hints.read_only_hint.is_some() && hints.destructive_hint == Some(false), "{}", tool.name);
            assert!(tool.description.as_ref().unwrap().len() > 200, "{}", tool.name);
        }
    }

    #[test]
    fn wrong_arguments_are_told_with_the_right_ones() {
        let arguments = json!({ "entiti": "x" }).as_object().cloned().unwrap();
        let Err(problem) = taken::<trust::CheckTrustArguments>("check_trust", arguments) else { panic!("taken") };
        let said = problem.detail();
        assert!(said.contains("`entiti`") && said.contains("context, entity, url; needed: entity"), "{said}");
    }
}
