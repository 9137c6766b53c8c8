//! OpenAI: chat completions (`tool_calls` answered by `role: "tool"`, the older `function_call` answered by
//! `role: "function"`) and Responses items: calls answered by their outputs (`function_call`, `custom_tool_call`, `shell_call` and
//! kin), and calls that carry their result (`mcp_call`, and tools that OpenAI runs, such as `file_search_call`). Tools that OpenAI
//! runs are claims, too, although no guard can see them: a result is invented as easily in this form as in any other.

use serde_json::value::RawValue;

use super::{
    ClaimedResult, Format, Why,
    json::{self, At, Node},
    langchain,
    pairing::{Answer, Call, Id, Pairing},
};

/// Reads a tool's message.
pub(super) fn tool_message(pairing: &mut Pairing, node: &Node<'_>, at: &At<'_>) {
    // Some servers give calls no ids, and name the function.
    let name = node.tool_name.or(node.name).and_then(json::text).filter(|_| node.tool_call_id.is_none());
    let id = match name {
        Some(name) => Some(Id::Function(name.into())),
        None if node.role() == "function" => pairing.name(None, at).map(Id::Function),
        None => pairing.id(node.tool_call_id, at),
    };
    if node.content.is_none() {
        pairing.problem(at, Why::NoResult);
    }
    let status = node.status.and_then(json::text);
    let error = match status.as_deref() {
        Some("error") => Some(true),
        Some("success") => Some(false),
        _ => json::flag(node.is_error.or(node.is_error_mcp)),
    };
    let answer = pairing.answer(node.content, error, at);
    pairing.given_by(id.as_ref(), node.tool_name.or(node.name), at);
    let answers_before = pairing.answers();
    pairing.answered(Format::OpenAiChat, id, answer, at);
    let mut known =
        vec!["role", "type", "content", "tool_call_id", "name", "tool_name", "status", "is_error", "isError"];
    if let Some(structured) = langchain::structured_artifact(node)
        && pairing.answered_again(answers_before, structured)
    {
        known.push("artifact");
    }
    pairing.rest(node, &known, at);
}

/// Reads the calls that a message makes.
pub(super) fn calls(pairing: &mut Pairing, node: &Node<'_>, at: &At<'_>) {
    if let Some(calls) = node.tool_calls {
        pairing.each(calls, &at.member("tool_calls"), tool_call);
    }
    if let Some(raw) = node.function_call {
        let at = at.member("function_call");
        if let Some(function) = pairing.node(raw, &at) {
            let tool = pairing.name(function.name, &at);
            let arguments = pairing.written_arguments(function.arguments, &at);
            let call = Call { id: tool.clone().map(Id::Function), tool, server: None, arguments };
            pairing.called(Format::OpenAiChat, call, &at);
        }
    }
}

fn tool_call(pairing: &mut Pairing, raw: &RawValue, at: &At<'_>) {
    let Some(node) = pairing.node(raw, at) else { return };
    let (tool, arguments) = if let Some(custom) = node.custom.filter(|_| node.function.is_none()) {
        let at = at.member("custom");
        let Some(custom) = pairing.node(custom, &at) else { return };
        // A custom tool takes a text that need not be JSON: it stays the JSON string it is.
        (pairing.name(custom.name, &at), pairing.arguments(custom.input, &at))
    } else if let Some(function) = node.function {
        let at = at.member("function");
        let Some(function) = pairing.node(function, &at) else { return };
        (pairing.name(function.name, &at), pairing.written_arguments(function.arguments, &at))
    } else {
        (pairing.name(node.name, at), pairing.written_arguments(node.arguments.or(node.args), at))
    };
    let id = match (node.id, &tool) {
        (None, Some(tool)) => Some(Id::Function(tool.clone())),
        _ => pairing.id(node.id, at),
    };
    pairing.called(Format::OpenAiChat, Call { id, tool, server: None, arguments }, at);
    pairing.rest(&node, &["id", "type", "function", "custom", "name", "args", "arguments"], at);
}

/// Reads a Responses item; `false` when it is none that concerns tools.
pub(super) fn item(pairing: &mut Pairing, node: &Node<'_>, at: &At<'_>) -> bool {
    const FORMAT: Format = Format::OpenAiResponses;
    let kind = node.kind();
    if let Some(tool) = kind.strip_suffix("_call") {
        let call_id = node.call_id.or(node.id);
        let id = pairing.id(call_id, at);
        let named = matches!(tool, "function" | "custom_tool" | "mcp" | "tool");
        let tool = if named { pairing.name(node.name, at) } else { Some(tool.to_owned()) };
        let arguments = match tool_input(node) {
            Some((_, input)) if kind != "function_call" && kind != "mcp_call" => pairing.arguments(Some(input), at),
            _ => pairing.written_arguments(node.arguments, at),
        };
        let server = node.server_label.and_then(json::text).map(Into::into);
        let answer = own_answer(pairing, node, at);
        pairing.called_and_answered(FORMAT, Call { id, tool, server, arguments }, answer, at);
        let mut known = vec!["type", "id", "call_id", "name", "arguments", "server_label"];
        known.extend(["output", "outputs", "result", "results", "error"]);
        known.extend(tool_input(node).map(|(name, _)| name));
        // What a call is asked to do is no result.
        known.extend(["action", "pending_safety_checks"]);
        pairing.rest(node, &known, at);
    } else if kind.ends_with("_output") && node.call_id.or(node.id).is_some() {
        let id = pairing.id(node.call_id.or(node.id), at);
        let output = node.output.or(node.result);
        if output.is_none() {
            pairing.problem(at, Why::NoResult);
        }
        let answer = pairing.answer(output, None, at);
        pairing.answered(FORMAT, id, answer, at);
        pairing.rest(node, &["type", "id", "call_id", "output", "result", "acknowledged_safety_checks"], at);
    } else if kind == "tool_call_response" {
        // In messages of OpenTelemetry.
        let id = pairing.id(node.id, at);
        if node.response.or(node.result).is_none() {
            pairing.problem(at, Why::NoResult);
        }
        let answer = pairing.answer(node.response.or(node.result), None, at);
        pairing.given_by(id.as_ref(), node.name, at);
        pairing.answered(FORMAT, id, answer, at);
        // Of two results only one was read.
        let known: &[&str] = if node.response.is_some() { &["response"] } else { &["result"] };
        pairing.rest(node, &[&["type", "id", "name"], known].concat(), at);
    } else {
        return false;
    }
    true
}

/// What a tool that is no function is given.
fn tool_input<'a>(node: &Node<'a>) -> Option<(&'static str, &'a RawValue)> {
    let inputs = ["input", "args", "action", "code", "queries", "operation"];
    inputs.into_iter().find_map(|name| {
        let value = node.members.iter().find(|(one, value)| one == name && value.get() != "null")?.1;
        Some((name, value))
    })
}

/// The result that a call carries itself.
fn own_answer(pairing: &mut Pairing, node: &Node<'_>, at: &At<'_>) -> Option<Answer> {
    let outputs: Vec<&RawValue> =
        [node.output, node.outputs, node.result, node.results].into_iter().flatten().collect();
    if outputs.len() > 1 {
        pairing.unrecognised(outputs[1], at, "a second result in one call");
    }
    match (outputs.first(), node.error) {
        (Some(output), error) => {
            if error.is_some() {
                pairing.problem(at, Why::ResultAndError);
            }
            Some(pairing.answer(Some(output), error.is_some().then_some(true), at))
        }
        (None, Some(error)) => Some(pairing.whole(error, ClaimedResult::Error, Some(true), at)),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;

    const CHAT: &str = r#"{"model":"m","messages":[
        {"role":"user","content":"weather?"},
        {"role":"assistant","content":null,"tool_calls":[
            {"id":"c1","type":"function","function":{"name":"weather","arguments":" {\"lat\": 52.5200000000000001} "}},
            {"id":"c2","type":"custom","custom":{"name":"shell","input":"ls -l"}}]},
        {"role":"tool","tool_call_id":"c2","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
        {"role":"tool","tool_call_id":"c1","content":"{\"t\":1.50}"}]}"#;

    #[test]
    fn chat_results_meet_their_calls_in_any_order() {
        let transcript = clean(CHAT);
        assert_eq!(formats(&transcript), [Format::OpenAiChat]);
        assert_eq!(
            told(&transcript),
            [
                r#"messages[3] c1 weather {"lat": 52.5200000000000001} = text {"t":1.50}"#,
                r#"messages[2] c2 shell "ls -l" = items {"type":"text","text":"a"} {"type":"text","text":"b"}"#,
            ]
        );
    }

    #[test]
    fn functions_without_ids_pair_by_name_and_may_be_called_again() {
        let transcript = clean(
            r#"[{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{\"n\":1}"}},
                {"role":"function","name":"f","content":"one"},
                {"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{\"n\":2}"}},
                {"role":"function","name":"f","content":"two"}]"#,
        );
        assert_eq!(told(&transcript), [r#"[1] - f {"n":1} = text one"#, r#"[3] - f {"n":2} = text two"#]);
    }

    #[test]
    fn a_response_object_shows_calls_without_results() {
        let transcript = clean(
            r#"{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","tool_calls":[
                {"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}}]}"#,
        );
        assert_eq!(told(&transcript), ["choices[0].message.tool_calls[0] c1 f {} = nothing"]);
    }

    #[test]
    fn responses_items_pair_by_call_id() {
        let transcript = clean(
            r#"{"input":[{"role":"user","content":"hi"},
                {"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{\"big\":12345678901234567890123}"},
                {"type":"function_call_output","call_id":"c1","output":"42"},
                {"type":"custom_tool_call","call_id":"c2","name":"patch","input":"*** {"},
                {"type":"custom_tool_call_output","call_id":"c2","output":[{"type":"input_text","text":"ok"}]}],
               "output":[{"type":"mcp_call","id":"m1","server_label":"s","name":"roll","arguments":"{}","output":"4","error":null},
                {"type":"mcp_call","id":"m2","server_label":"s","name":"roll","arguments":"{}","output":null,"error":{"code":-1}},
                {"type":"mcp_call","id":"m3","server_label":"s","name":"roll","arguments":"{}","status":"in_progress"},
                {"type":"web_search_call","id":"w1","status":"completed"}]}"#,
        );
        assert_eq!(formats(&transcript), [Format::OpenAiResponses]);
        assert_eq!(
            told(&transcript),
            [
                r#"input[2] c1 f {"big":12345678901234567890123} = text 42"#,
                r#"input[4] c2 patch "*** {" = items {"type":"input_text","text":"ok"}"#,
                r#"output[0] m1 roll {} = text 4"#,
                r#"output[1] m2 roll {} = error {"code":-1} !"#,
                r#"output[2] m3 roll {} = nothing"#,
                r#"output[3] w1 web_search - = nothing"#,
            ]
        );
    }

    #[test]
    fn every_kind_of_call_and_output_is_a_claim() {
        let transcript = clean(
            r#"[{"type":"file_search_call","id":"f1","queries":["q"],"status":"completed","results":[{"text":"x"}]},
                {"type":"code_interpreter_call","id":"i1","code":"1","outputs":[{"type":"logs","logs":"2"}],"container_id":"c"},
                {"type":"shell_call","id":"x","call_id":"s1","action":{"commands":["ls"]},"status":"completed"},
                {"type":"shell_call_output","call_id":"s1","output":[{"stdout":"a","stderr":""}]},
                {"type":"function_call","call_id":"c1","name":"f","arguments":"{}","output":"x"}]"#,
        );
        assert_eq!(
            told(&transcript),
            [
                r#"[0] f1 file_search ["q"] = items {"text":"x"}"#,
                r#"[1] i1 code_interpreter "1" = items {"type":"logs","logs":"2"}"#,
                r#"[3] s1 shell {"commands":["ls"]} = items {"stdout":"a","stderr":""}"#,
                "[4] c1 f {} = text x",
            ]
        );
    }

    #[test]
    fn functions_of_servers_without_ids_are_answered_by_name() {
        let transcript = clean(
            r#"[{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"n":1}}},{"function":{"name":"f","arguments":{"n":2}}}]},
                {"role":"tool","tool_name":"f","content":"one"},{"role":"tool","tool_name":"f","content":"two"}]"#,
        );
        assert_eq!(told(&transcript), [r#"[1] - f {"n":1} = text one"#, r#"[2] - f {"n":2} = text two"#]);
    }

    #[test]
    fn arguments_that_are_not_json_are_a_problem_and_the_call_stays() {
        for (arguments, why) in [
            (r#""{\"a\":""#, "the arguments are not JSON: EOF while parsing a value"),
            (r#""""#, "the arguments are not JSON: EOF while parsing a value"),
            (r#""{} {}""#, "the arguments are not JSON: trailing characters"),
            (r#""\ud800""#, "the arguments are not JSON: half a surrogate pair"),
        ] {
            let transcript = read_text(&format!(
                r#"[{{"type":"function_call","call_id":"c","name":"f","arguments":{arguments}}},
                    {{"type":"function_call_output","call_id":"c","output":"x"}}]"#
            ));
            assert_eq!(told(&transcript), ["[1] c f - = text x"]);
            assert_eq!(problems(&transcript), [format!("[0]: {why}")]);
        }
    }

    #[test]
    fn arguments_given_as_an_object_are_taken_as_they_are() {
        let transcript =
            clean(r#"{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":{"a": 1.0}}}]}"#);
        assert_eq!(told(&transcript), [r#"tool_calls[0] c f {"a": 1.0} = nothing"#]);
    }

    #[test]
    fn missing_names_ids_and_contents_are_problems() {
        let transcript = read_text(
            r#"[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"arguments":"{}"}},7]},
                {"role":"tool","content":"x"},
                {"role":"tool","tool_call_id":"c"},
                {"type":"function_call","name":"f","arguments":"{}"},
                {"type":"mcp_call","id":"m","name":"","arguments":"{}","output":"o","error":"e"}]"#,
        );
        assert_eq!(
            told(&transcript),
            ["[2] c - {} = text ", "[1] - - - = text x", "[3] - f {} = nothing", "[4] m - {} = text o !"]
        );
        assert_eq!(
            problems(&transcript),
            [
                "[0].tool_calls[0].function: the call names no tool",
                "[0].tool_calls[1]: not a JSON object",
                "[1]: no id says which call this is",
                "[2]: the tool's answer has no content",
                "[3]: no id says which call this is",
                "[4]: the call names no tool",
                "[4]: both a result and an error; the result is read",
            ]
        );
    }

    #[test]
    fn a_tool_call_list_that_is_no_list_is_a_problem() {
        let transcript = read_text(r#"[{"role":"assistant","tool_calls":{"id":"c"}}]"#);
        assert_eq!(problems(&transcript), ["[0].tool_calls: not a JSON list"]);
        assert!(transcript.claims.is_empty() && transcript.formats.is_empty());
    }
}
