//! Vercel's AI SDK: `tool-call` and `tool-result` parts of model messages, and the parts of UI messages that hold a call and its
//! result together (`tool-NAME`, `dynamic-tool`, the older `tool-invocation`).

use serde_json::value::RawValue;

use super::{
    ClaimedResult, Format,
    json::{self, At, Node},
    message::{self, Speaker},
    pairing::{Answer, Call, Pairing},
    wrapper::visit,
};

/// Reads a step of `generateText` or `streamText`: what the model said and what its tools gave, and under `response` the messages so
/// far, which tell it again. `false` when it is none.
pub(super) fn step(pairing: &mut Pairing, node: &Node<'_>, at: &At<'_>, wrappings: usize) -> bool {
    let has = |name: &str| node.members.iter().any(|(one, _)| one == name);
    let of_step = node.role.is_none() && node.kind.is_none() && has("finishReason") && has("usage");
    let lists = ["content", "toolCalls", "toolResults"];
    let Some(response) = node.response.filter(|_| of_step && lists.iter().any(|name| has(name))) else { return false };
    pairing.tells_again();
    pairing.next_message();
    for (name, value) in node.rest(&[]).filter(|(name, value)| lists.contains(name) && json::is_list(value)) {
        message::parts(pairing, value, Speaker::Assistant, &at.member(name));
    }
    visit(pairing, response, &at.member("response"), wrappings);
    if let Some(request) = node.request.filter(|request| !json::is_empty(request)) {
        visit(pairing, request, &at.member("request"), wrappings);
    }
    for (name, value) in node.rest(&["response", "request"]) {
        let at = at.member(name);
        match name {
            _ if lists.contains(&name) && json::is_list(value) => {}
            // Which model it was, and what it says of its own.
            "model" | "warnings" | "sources" | "files" | "reasoning" => pairing.search(value, &at, true),
            _ => pairing.leftover(name, value, &at),
        }
    }
    true
}

/// Reads a part; `false` when it is none that concerns tools.
pub(super) fn part(pairing: &mut Pairing, node: &Node<'_>, at: &At<'_>) -> bool {
    let kind = node.kind();
    match &*kind {
        "tool-call" => {
            let call = call(pairing, node, node.tool_name_camel, at);
            pairing.called(Format::Vercel, call, at);
            pairing.rest(node, &["type", "toolCallId", "toolName", "input", "args"], at);
        }
        "tool-result" | "tool-error" => {
            // The arguments stand there once more: others than the call's make it another call.
            if node.input.or(node.args).is_some() {
                let call = call(pairing, node, node.tool_name_camel, at);
                pairing.called_if_new(Format::Vercel, call, at);
            }
            let id = pairing.id(node.tool_call_id_camel, at);
            let failed = json::flag(node.is_error_mcp).or((kind == "tool-error").then_some(true));
            let answer = match node.output {
                Some(output) => typed_output(pairing, output, failed, at),
                None => pairing.answer(node.result.or(node.error), failed, at),
            };
            pairing.given_by(id.as_ref(), node.tool_name_camel, at);
            pairing.answered(Format::Vercel, id, answer, at);
            let known = ["type", "toolCallId", "toolName", "output", "result", "error", "isError", "input", "args"];
            pairing.rest(node, &known, at);
        }
        "tool-invocation" => {
            if let Some(raw) = node.tool_invocation {
                invocation(pairing, raw, &at.member("toolInvocation"));
            }
            pairing.rest(node, &["type", "toolInvocation"], at);
        }
        "dynamic-tool" => together(pairing, node, None, at),
        _ => match kind.strip_prefix("tool-").filter(|_| node.tool_call_id_camel.is_some()) {
            Some(name) => together(pairing, node, Some(name), at),
            None => return false,
        },
    }
    true
}

/// Reads a call with its result, as UI messages of earlier versions hold it.
pub(super) fn invocation(pairing: &mut Pairing, raw: &RawValue, at: &At<'_>) {
    if let Some(node) = pairing.node(raw, at) {
        together(pairing, &node, None, at);
    }
}

fn together(pairing: &mut Pairing, node: &Node<'_>, name: Option<&str>, at: &At<'_>) {
    let mut call = call(pairing, node, node.tool_name_camel.filter(|_| name.is_none()), at);
    if let Some(name) = name {
        call.tool = Some(name.to_owned());
    }
    let answer = match (node.output.or(node.result), node.error_text) {
        (Some(output), None) => Some(pairing.answer(Some(output), None, at)),
        (None, Some(error)) => Some(pairing.answer(Some(error), Some(true), at)),
        (Some(output), Some(_)) => {
            pairing.problem(at, super::Why::ResultAndError);
            Some(pairing.answer(Some(output), Some(true), at))
        }
        (None, None) => None,
    };
    let id = call.id.clone();
    pairing.called_and_answered(Format::Vercel, call, answer, at);
    pairing.given_by(id.as_ref(), node.tool_name_camel, at);
    let known = ["type", "toolCallId", "toolName", "input", "args", "output", "result", "errorText", "rawInput"];
    pairing.rest(node, &known, at);
}

fn call(pairing: &mut Pairing, node: &Node<'_>, name: Option<&RawValue>, at: &At<'_>) -> Call {
    let id = pairing.id(node.tool_call_id_camel, at);
    // Where the type names the tool there is no other name.
    let tool = if name.is_none() && node.kind().starts_with("tool-") && node.kind() != "tool-call" {
        None
    } else {
        pairing.name(name, at)
    };
    let arguments = pairing.arguments(node.input.or(node.args), at);
    Call { id, tool, server: None, arguments }
}

/// An output with its type beside it: `{"type": "text", "value": "…"}`.
fn typed_output(pairing: &mut Pairing, output: &RawValue, failed: Option<bool>, at: &At<'_>) -> Answer {
    let read = json::is_object(output).then(|| Node::read(output).ok()).flatten();
    let Some((kind, value)) = read.and_then(|node| Some((node.kind(), node.value?))) else {
        return pairing.answer(Some(output), failed, at);
    };
    let known = matches!(&*kind, "text" | "json" | "content" | "error-text" | "error-json");
    if !known {
        return pairing.whole(output, ClaimedResult::Json, failed, at);
    }
    let failed = failed.or(kind.starts_with("error-").then_some(true));
    pairing.answer(Some(value), failed, at)
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;

    #[test]
    fn model_messages_are_read() {
        let transcript = clean(
            r#"[{"role":"assistant","content":[{"type":"text","text":"see"},{"type":"tool-call","toolCallId":"a","toolName":"f","input":{"n":1}},
                    {"type":"tool-call","toolCallId":"b","toolName":"g","args":{}}]},
                {"role":"tool","content":[{"type":"tool-result","toolCallId":"a","toolName":"f","output":{"type":"json","value":{"content":[]}}},
                    {"type":"tool-result","toolCallId":"b","toolName":"g","output":{"type":"error-text","value":"no"}}]}]"#,
        );
        assert_eq!(formats(&transcript), [Format::Vercel]);
        assert_eq!(
            told(&transcript),
            [r#"[1].content[0] a f {"n":1} = json {"content":[]}"#, r#"[1].content[1] b g {} = text no !"#]
        );
    }

    #[test]
    fn ui_messages_hold_call_and_result_together() {
        let transcript = clean(
            r#"[{"id":"m","role":"assistant","parts":[{"type":"step-start"},
                {"type":"tool-weather","toolCallId":"a","state":"output-available","input":{"c":1},"output":{"t":2}},
                {"type":"dynamic-tool","toolName":"g","toolCallId":"b","state":"output-error","input":{},"errorText":"no"},
                {"type":"tool-invocation","toolInvocation":{"state":"result","toolCallId":"c","toolName":"h","args":{},"result":"x"}},
                {"type":"tool-later","toolCallId":"d","state":"input-available","input":{}}]}]"#,
        );
        assert_eq!(
            told(&transcript),
            [
                r#"[0].parts[1] a weather {"c":1} = json {"t":2}"#,
                "[0].parts[2] b g {} = text no !",
                "[0].parts[3].toolInvocation c h {} = text x",
                "[0].parts[4] d later {} = nothing",
            ]
        );
    }
}
