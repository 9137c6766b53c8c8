//! LangChain: messages whose type says who speaks (`human`, `ai`, `tool`), as `model_dump`, `messages_to_dict` (members in
//! `data`) and `dumps` (`"lc": 1`, members in `kwargs`) write them.

use super::{
    json::{self, At, Node},
    message::{Speaker, speak},
    pairing::Pairing,
};

/// Reads a message; `false` when it is none.
pub(super) fn message(pairing: &mut Pairing, node: &Node<'_>, at: &At<'_>) -> bool {
    let kind = node.kind();
    if let Some(kwargs) = node.kwargs.filter(|_| node.lc.is_some() && kind == "constructor") {
        let Some(speaker) = node.id.and_then(class).as_deref().and_then(of_class) else { return false };
        inner(pairing, kwargs, speaker, &at.member("kwargs"));
        pairing.rest(node, &["lc", "type", "id", "kwargs"], at);
        return true;
    }
    let Some(speaker) = of_type(&kind).filter(|_| node.role.is_none() && node.message.is_none()) else { return false };
    if node.content.is_some() {
        speak(pairing, node, speaker, at);
        return true;
    }
    let of_dict = node.data.filter(|data| Node::read(data).is_ok_and(|data| data.content.is_some()));
    if let Some(data) = of_dict {
        inner(pairing, data, speaker, &at.member("data"));
        pairing.rest(node, &["type", "data"], at);
    }
    of_dict.is_some()
}

fn inner(pairing: &mut Pairing, raw: &serde_json::value::RawValue, speaker: Speaker, at: &At<'_>) {
    if let Some(node) = pairing.node(raw, at) {
        speak(pairing, &node, speaker, at);
    }
}

/// The structured content that LangChain's MCP adapters keep beside a tool's content, where it is all there is.
pub(super) fn structured_artifact<'a>(node: &Node<'a>) -> Option<&'a serde_json::value::RawValue> {
    let artifact = Node::read(node.artifact?).ok()?;
    let structured = artifact.structured_content_snake.filter(|_| artifact.rest(&[]).count() == 1)?;
    (json::is_object(structured) || json::is_list(structured)).then_some(structured)
}

/// The last part of the path that names a class.
fn class(path: &serde_json::value::RawValue) -> Option<String> {
    let mut last = None;
    json::items(path, |_, part| {
        last = json::text(part).map(Into::into);
        true
    })
    .ok()?;
    last
}

fn of_class(name: &str) -> Option<Speaker> {
    match name.trim_end_matches("Chunk") {
        "ToolMessage" | "FunctionMessage" => Some(Speaker::Tool),
        "AIMessage" => Some(Speaker::Assistant),
        "HumanMessage" | "SystemMessage" => Some(Speaker::Other),
        _ => None,
    }
}

fn of_type(kind: &str) -> Option<Speaker> {
    match kind {
        "tool" | "function" => Some(Speaker::Tool),
        "ai" => Some(Speaker::Assistant),
        "human" | "system" => Some(Speaker::Other),
        class => of_class(class),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;

    const CALL: &str = r#""content":"","additional_kwargs":{"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},
        "response_metadata":{"finish_reason":"tool_calls"},"tool_calls":[{"name":"f","args":{"n":1},"id":"a","type":"tool_call"}],"invalid_tool_calls":[]"#;
    const RESULT: &str = r#""content":"x","tool_call_id":"a","name":"f","status":"success","artifact":null"#;

    #[test]
    fn every_way_to_write_messages_is_read() {
        let id = |class: &str| format!(r#"["langchain","schema","messages","{class}"]"#);
        let forms = [
            format!(r#"[{{"type":"human","content":"hi"}},{{"type":"ai",{CALL}}},{{"type":"tool",{RESULT}}}]"#),
            format!(
                r#"[{{"type":"ai","data":{{"type":"ai",{CALL}}}}},{{"type":"tool","data":{{"type":"tool",{RESULT}}}}}]"#
            ),
            format!(
                r#"[{{"lc":1,"type":"constructor","id":{},"kwargs":{{{CALL}}}}},{{"lc":1,"type":"constructor","id":{},"kwargs":{{{RESULT}}}}}]"#,
                id("AIMessage"),
                id("ToolMessage")
            ),
        ];
        for form in forms {
            let transcript = clean(&form);
            let line = told(&transcript).concat();
            assert!(line.ends_with(r#" a f {"n":1} = text x"#), "{line}: {form}");
            assert!(transcript.claims[0].is_success, "{form}");
        }
    }
}
