//! OpenAI: chat completions (`tool_calls` answered by `role: "tool"`, the older `function_call` answered by
//! `role: "function"`) and Responses items (`function_call`, `custom_tool_call` and their outputs; `mcp_call`, which carries
//! call and result together). Tools that OpenAI runs itself, such as web search, are no claims: no guard could see them.

use serde_json::value::RawValue;

use super::{
    ClaimedResult, Format, Why,
    json::{self, At, Node},
    pairing::{Call, Id, Pairing},
};

/// Reads what a chat message says of tools; `true` when the message is a tool's result and has nothing else to say.
pub(super) fn message(pairing: &mut Pairing, node: &Node<'_>, at: &At<'_>) -> bool {
    let role = node.role();
    if role == "tool" || role == "function" {
        let id = if role == "tool" {
            pairing.id(node.tool_call_id, at)
        } else {
            pairing.name(node.name, at).map(Id::Function)
        };
        if node.content.is_none() {
            pairing.problem(at, Why::NoResult);
        }
        let answer = pairing.answer(node.content, false, at);
        pairing.answered(Format::OpenAiChat, id, answer, at);
        return true;
    }
    if let Some(calls) = node.tool_calls {
        pairing.each(calls, &at.member("tool_calls"), tool_call);
    }
    if let Some(raw) = node.function_call {
        let at = at.member("function_call");
        if let Some(function) = pairing.node(raw, &at) {
            let tool = pairing.name(function.name, &at);
            let arguments = pairing.written_arguments(function.arguments, &at);
            let call = Call { id: tool.clone().map(Id::Function), tool, arguments };
            pairing.called(Format::OpenAiChat, call, &at);
        }
    }
    false
}

fn tool_call(pairing: &mut Pairing, raw: &RawValue, at: &At<'_>) {
    let Some(node) = pairing.node(raw, at) else { return };
    let id = pairing.id(node.id, at);
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
        (pairing.name(node.name, at), pairing.written_arguments(node.arguments, at))
    };
    pairing.called(Format::OpenAiChat, Call { id, tool, arguments }, at);
}

/// Reads a Responses item; `false` when it is none that concerns tools.
pub(super) fn item(pairing: &mut Pairing, node: &Node<'_>, at: &At<'_>) -> bool {
    const FORMAT: Format = Format::OpenAiResponses;
    match &*node.kind() {
        "function_call" => {
            let id = pairing.id(node.call_id.or(node.id), at);
            let tool = pairing.name(node.name, at);
            let arguments = pairing.written_arguments(node.arguments, at);
            pairing.called(FORMAT, Call { id, tool, arguments }, at);
        }
        "custom_tool_call" => {
            let id = pairing.id(node.call_id.or(node.id), at);
            let tool = pairing.name(node.name, at);
            let arguments = pairing.arguments(node.input, at);
            pairing.called(FORMAT, Call { id, tool, arguments }, at);
        }
        "function_call_output" | "custom_tool_call_output" => {
            let id = pairing.id(node.call_id, at);
            if node.output.is_none() {
                pairing.problem(at, Why::NoResult);
            }
            let answer = pairing.answer(node.output, false, at);
            pairing.answered(FORMAT, id, answer, at);
        }
        "mcp_call" => mcp_call(pairing, node, at),
        _ => return false,
    }
    true
}

fn mcp_call(pairing: &mut Pairing, node: &Node<'_>, at: &At<'_>) {
    // The id pairs nothing here, but an id used twice is still worth a word.
    let id = pairing.id(node.id, at);
    let tool = pairing.name(node.name, at);
    let arguments = pairing.written_arguments(node.arguments, at);
    let answer = match (node.output, node.error) {
        (Some(output), error) => {
            if error.is_some() {
                pairing.problem(at, Why::ResultAndError);
            }
            Some(pairing.answer(Some(output), error.is_some(), at))
        }
        (None, Some(error)) => Some(pairing.whole(error, ClaimedResult::Error, true, at)),
        (None, None) => None,
    };
    pairing.called_and_answered(Format::OpenAiResponses, Call { id, tool, arguments }, answer, at);
}

/// Whether the node is a message of a conversation, OpenAI's or Anthropic's, rather than something around one.
pub(super) fn is_message(node: &Node<'_>) -> bool {
    node.tool_calls.is_some()
        || node.function_call.is_some_and(json::is_object)
        || node.content.is_some_and(|content| node.role.is_some() || json::is_list(content))
        || matches!(&*node.role(), "tool" | "function")
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
            ]
        );
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
