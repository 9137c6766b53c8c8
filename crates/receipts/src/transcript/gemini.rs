//! Google's Gemini: parts `functionCall` and `functionResponse`, in either spelling, and `executableCode` with
//! `codeExecutionResult`, which Google runs. Calls without an id are answered in their order, function by function.

use serde_json::value::RawValue;

use super::{
    ClaimedResult, Format,
    json::{self, At, Node},
    pairing::{Call, Id, Pairing},
};

/// The name of the tool that runs code at Google.
const CODE_EXECUTION: &str = "code_execution";

/// Reads a part; `false` when it is none that concerns tools.
pub(super) fn part(pairing: &mut Pairing, raw: &RawValue, node: &Node<'_>, at: &At<'_>) -> bool {
    let of_openai =
        |call: &&RawValue| node.role.is_some() || Node::read(call).is_ok_and(|call| call.arguments.is_some());
    let snake = node.function_call.filter(|call| json::is_object(call) && !of_openai(call));
    if let Some(call) = node.function_call_camel.or(snake) {
        let at = at.member(if snake.is_some() { "function_call" } else { "functionCall" });
        if let Some(call) = pairing.node(call, &at) {
            let tool = pairing.name(call.name, &at);
            let id = id(pairing, call.id, tool.as_deref(), &at);
            let arguments = pairing.arguments(call.args, &at);
            // Google's SDK answers calls that have an id by their names.
            if let (Some(tool), Some(id @ Id::Conversation(_))) = (&tool, &id) {
                pairing.may_be_answered_by_name(tool, id);
            }
            pairing.called(Format::Gemini, Call { id, tool, server: None, arguments }, &at);
            pairing.rest(&call, &["name", "id", "args"], &at);
        }
    } else if let Some(raw) = node.function_response.or(node.function_response_snake) {
        let at = at.member(if node.function_response.is_some() { "functionResponse" } else { "function_response" });
        if let Some(response) = pairing.node(raw, &at) {
            let name = pairing.name(response.name, &at);
            let open = name.as_deref().filter(|_| response.id.is_none()).and_then(|name| pairing.first_open(name));
            let id = open.or_else(|| id(pairing, response.id, name.as_deref(), &at));
            let value = response.response.unwrap_or(raw);
            let error = Node::read(value).ok().and_then(|value| {
                let failed = value.error.is_some() && value.members.len() == 1;
                if failed { Some(true) } else { json::flag(value.is_error_mcp) }
            });
            let answer = pairing.whole(value, ClaimedResult::Wrapped, error, &at);
            pairing.given_by(id.as_ref(), response.name, &at);
            pairing.answered(Format::Gemini, id, answer, &at);
            pairing.rest(&response, &["name", "id", "response"], &at);
        }
    } else if let Some(code) = node.executable_code.or(node.executable_code_snake) {
        let (tool, id) = (Some(CODE_EXECUTION.to_owned()), Some(Id::Function(CODE_EXECUTION.to_owned())));
        let arguments = pairing.arguments(Some(code), at);
        pairing.called(Format::Gemini, Call { id, tool, server: None, arguments }, at);
    } else if let Some(result) = node.code_execution_result.or(node.code_execution_result_snake) {
        let answer = pairing.whole(result, ClaimedResult::Json, None, at);
        pairing.answered(Format::Gemini, Some(Id::Function(CODE_EXECUTION.to_owned())), answer, at);
    } else {
        return false;
    }
    let parts = [
        "functionCall",
        "function_call",
        "functionResponse",
        "function_response",
        "executableCode",
        "executable_code",
        "codeExecutionResult",
        "code_execution_result",
    ];
    let known = |name: &str| parts.contains(&name);
    if node.rest(&[]).filter(|(name, _)| known(name)).count() > 1 {
        pairing.unrecognised(raw, at, "a call and a result, or two of them, in one part");
    }
    pairing.rest(node, &parts, at);
    true
}

fn id(pairing: &mut Pairing, id: Option<&RawValue>, name: Option<&str>, at: &At<'_>) -> Option<Id> {
    match id {
        Some(_) => pairing.id(id, at),
        None => name.map(|name| Id::Function(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;

    #[test]
    fn parallel_calls_without_ids_are_answered_in_order() {
        let transcript = clean(
            r#"{"systemInstruction":{"parts":[{"text":"be good"}]},"contents":[{"role":"user","parts":[{"text":"hi"}]},
                {"role":"model","parts":[{"text":"hm","thought":true},{"functionCall":{"name":"f","args":{"n":1}},"thoughtSignature":"x"},
                    {"functionCall":{"name":"f","args":{"n":2}}},{"functionCall":{"id":"c3","name":"g","args":{}}}]},
                {"role":"user","parts":[{"functionResponse":{"id":"c3","name":"g","response":{"error":"no"}}},
                    {"functionResponse":{"name":"f","response":{"result":"one"}}},{"functionResponse":{"name":"f","response":{"result":"two"}}}]}]}"#,
        );
        assert_eq!(formats(&transcript), [Format::Gemini]);
        assert_eq!(
            told(&transcript),
            [
                r#"contents[2].parts[1].functionResponse - f {"n":1} = wrapped {"result":"one"}"#,
                r#"contents[2].parts[2].functionResponse - f {"n":2} = wrapped {"result":"two"}"#,
                r#"contents[2].parts[0].functionResponse c3 g {} = wrapped {"error":"no"} !"#,
            ]
        );
    }

    #[test]
    fn the_python_spelling_and_code_execution_are_read() {
        let transcript = clean(
            r#"{"candidates":[{"content":{"role":"model","parts":[{"function_call":{"name":"f","args":{}}},
                {"executable_code":{"language":"PYTHON","code":"1+1"}},{"code_execution_result":{"outcome":"OUTCOME_OK","output":"2"}}]},
                "finishReason":"STOP","index":0}],"usageMetadata":{"totalTokenCount":3}}"#,
        );
        assert_eq!(
            told(&transcript),
            [
                "candidates[0].content.parts[0].function_call - f {} = nothing",
                r#"candidates[0].content.parts[2] - code_execution {"language":"PYTHON","code":"1+1"} = json {"outcome":"OUTCOME_OK","output":"2"}"#,
            ]
        );
    }
}
