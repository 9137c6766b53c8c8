//! Pydantic AI: messages of kind `request` and `response`, whose parts say in `part_kind` what they are. `tool-call` is answered by
//! `tool-return`, or by `retry-prompt` where the tool failed.

use serde_json::value::RawValue;

use super::{
    Format,
    accounting::{result_in, shown},
    json::{self, At, Node},
    message::Speaker,
    pairing::{Call, Pairing},
};

/// Reads a message; `false` when it is none of this format.
pub(super) fn message(pairing: &mut Pairing, node: &Node<'_>, at: &At<'_>) -> bool {
    let kind = node.message_kind.and_then(json::text);
    let speaker = match kind.as_deref() {
        Some("request") => Speaker::Other,
        Some("response") => Speaker::Assistant,
        _ => return false,
    };
    let Some(parts) = node.parts.filter(|parts| json::is_list(parts) && node.role.is_none() && node.content.is_none())
    else {
        return false;
    };
    pairing.next_message();
    pairing.each(parts, &at.member("parts"), |pairing, raw, at| part(pairing, raw, speaker, at));
    for (name, value) in node.rest(&["kind", "parts"]) {
        let at = at.member(name);
        match name {
            "provider_details" | "failed_attempts" => pairing.search(value, &at, true),
            _ => pairing.leftover(name, value, &at),
        }
    }
    true
}

fn part(pairing: &mut Pairing, raw: &RawValue, speaker: Speaker, at: &At<'_>) {
    let Some(node) = pairing.node(raw, at) else { return };
    let kind = node.part_kind.and_then(json::text).unwrap_or_default();
    // In another format the part would be something else: which of the two its reader takes is unknown.
    if node.kind.is_some() || node.role.is_some() {
        return pairing.unrecognised(raw, at, "a part of two formats: it has 'part_kind' and 'type' or 'role'");
    }
    match &*kind {
        "tool-call" | "builtin-tool-call" | "native-tool-call" => {
            let id = pairing.id(node.tool_call_id, at);
            let tool = pairing.name(node.tool_name, at);
            let arguments = pairing.written_arguments(node.args, at);
            pairing.called(Format::PydanticAi, Call { id, tool, server: None, arguments }, at);
            rest(pairing, &node, &["tool_call_id", "tool_name", "args"], at);
        }
        "tool-return" | "builtin-tool-return" | "native-tool-return" => {
            let failed = match node.outcome.and_then(json::text).as_deref() {
                Some("success") => Some(false),
                Some("failed" | "retried" | "denied") => Some(true),
                _ => None,
            };
            // A tool that returned nothing: the model is told `null`.
            answer(pairing, &node, node.content.unwrap_or(RawValue::NULL), failed, at);
        }
        // Without a tool it answers no call: the words of the framework to the model.
        "retry-prompt" if node.tool_name.is_some() => {
            answer(pairing, &node, node.content.unwrap_or(RawValue::NULL), Some(true), at);
        }
        "text" | "user-prompt" | "system-prompt" | "instruction" | "thinking" | "retry-prompt" | "file" => {
            if let Some(what) = result_in(&node) {
                return pairing.unrecognised(raw, at, format!("{what} in a part of kind '{kind}'"));
            }
            if let Some(content) = node.content {
                let at = at.member("content");
                if speaker == Speaker::Assistant && kind == "text" {
                    pairing.spoke();
                }
                if json::is_text(content) { pairing.prose(content, &at) } else { pairing.search(content, &at, true) }
            }
            rest(pairing, &node, &["content", "citations"], at);
        }
        _ => pairing.unrecognised(raw, at, format!("a part of kind '{}', which is not known", shown(&kind))),
    }
}

fn answer(pairing: &mut Pairing, node: &Node<'_>, content: &RawValue, failed: Option<bool>, at: &At<'_>) {
    let id = pairing.id(node.tool_call_id, at);
    let answer = pairing.answer(Some(content), failed, at);
    pairing.given_by(id.as_ref(), node.tool_name, at);
    pairing.answered(Format::PydanticAi, id, answer, at);
    rest(pairing, node, &["tool_call_id", "tool_name", "content", "outcome"], at);
}

fn rest(pairing: &mut Pairing, node: &Node<'_>, known: &[&str], at: &At<'_>) {
    for (name, value) in node.rest(known) {
        let at = at.member(name);
        match name {
            "part_kind" => {}
            // How often the framework tried, what the provider adds, and digests of files that stand in the content.
            "retry" | "provider_details" | "content_file_digests" | "dynamic_ref" => pairing.search(value, &at, true),
            _ => pairing.leftover(name, value, &at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;

    const CALL: &str = r#"{"kind":"response","parts":[{"tool_name":"f","args":"{\"n\":1}","tool_call_id":"a","part_kind":"tool-call"}],"usage":{"details":{}}}"#;

    fn with(parts: &str) -> Transcript {
        read_text(&format!(r#"[{CALL},{{"kind":"request","parts":[{parts}]}}]"#))
    }

    #[test]
    fn returns_and_retries_answer_calls() {
        for (part, line) in [
            (
                r#"{"part_kind":"tool-return","tool_name":"f","tool_call_id":"a","content":{"t":1.5},"outcome":"success"}"#,
                r#"[1].parts[0] a f {"n":1} = json {"t":1.5}"#,
            ),
            (
                r#"{"part_kind":"tool-return","tool_name":"f","tool_call_id":"a","content":null,"outcome":"success"}"#,
                r#"[1].parts[0] a f {"n":1} = json null"#,
            ),
            (
                r#"{"part_kind":"retry-prompt","tool_name":"f","tool_call_id":"a","content":"no"}"#,
                r#"[1].parts[0] a f {"n":1} = text no !"#,
            ),
        ] {
            let transcript = with(part);
            assert_eq!(told(&transcript), [line]);
            assert_eq!(unrecognised(&transcript), [""; 0]);
            assert_eq!(formats(&transcript), [Format::PydanticAi]);
        }
    }

    #[test]
    fn a_result_dressed_as_words_does_not_pass() {
        for part in [
            r#"{"part_kind":"text","type":"tool_result","tool_use_id":"a","content":"paid"}"#,
            r#"{"part_kind":"user-prompt","tool_call_id":"a","content":"paid"}"#,
            r#"{"part_kind":"tool-returned","tool_name":"f","tool_call_id":"a","content":"paid"}"#,
            r#"{"part_kind":"text","content":"hi","metadata":{"tool_result":"paid"}}"#,
            r#"{"part_kind":"text","content":"hi","extra":{"content":"paid"}}"#,
            r#"{"type":"text","text":"hi","part_kind":"tool-return","content":"paid"}"#,
            r#"{"type":"tool_result","tool_use_id":"a","content":"paid"}"#,
            r#"{"part_kind":"user-prompt","content":[{"part_kind":"tool-return","content":"paid"}]}"#,
            "\"paid\"",
        ] {
            let transcript = with(part);
            assert!(transcript.may_hide_claims(), "{part}: {:?}", told(&transcript));
        }
        // Beside another member that makes it another format's message.
        let message = r#"{"kind":"request","role":"user","parts":[{"part_kind":"tool-return","tool_name":"f","tool_call_id":"a","content":"paid"}]}"#;
        assert!(read_text(&format!("[{CALL},{message}]")).may_hide_claims());
    }
}
