//! Amazon Bedrock's Converse: parts `toolUse` and `toolResult`. A result's content is a list of `text`, `json`, `image` and other
//! items without types; they are read as the MCP items and the structured content that they were.

use serde_json::value::RawValue;

use super::{
    ClaimedResult, Format,
    json::{self, At, Node},
    pairing::{Answer, Call, Pairing},
};

/// Reads a part; `false` when it is none that concerns tools.
pub(super) fn part(pairing: &mut Pairing, node: &Node<'_>, at: &At<'_>) -> bool {
    if let Some(raw) = node.tool_use {
        let at = at.member("toolUse");
        if let Some(call) = pairing.node(raw, &at) {
            let id = pairing.id(call.tool_use_id_camel, &at);
            let tool = pairing.name(call.name, &at);
            let arguments = pairing.arguments(call.input, &at);
            pairing.called(Format::Bedrock, Call { id, tool, server: None, arguments }, &at);
            pairing.rest(&call, &["toolUseId", "name", "input", "type"], &at);
        }
    }
    if let Some(raw) = node.tool_result {
        let at = at.member("toolResult");
        if let Some(result) = pairing.node(raw, &at) {
            let id = pairing.id(result.tool_use_id_camel, &at);
            let answer = answer(pairing, &result, &at);
            pairing.answered(Format::Bedrock, id, answer, &at);
            pairing.rest(&result, &["toolUseId", "content", "status", "type"], &at);
        }
    }
    let read = node.tool_use.or(node.tool_result).is_some();
    if read {
        pairing.rest(node, &["toolUse", "toolResult"], at);
    }
    read
}

fn answer(pairing: &mut Pairing, node: &Node<'_>, at: &At<'_>) -> Answer {
    let status = node.status.and_then(json::text);
    let error = match status.as_deref() {
        Some("success") => Some(false),
        Some("error") => Some(true),
        _ => None,
    };
    let mut answer = pairing.answer(node.content, error, at);
    if let ClaimedResult::Items(items) = &answer.said
        && let Some(result) = as_mcp_result(items)
    {
        answer.said = result;
    }
    answer
}

/// The items as the MCP result they were made of; `None` where there are others among them.
fn as_mcp_result(items: &[Box<RawValue>]) -> Option<ClaimedResult> {
    let (mut content, mut structured) = (Vec::new(), None);
    for item in items {
        let node = Node::read(item).ok()?;
        match node.members.as_slice() {
            [(name, text)] if name == "text" => content.push(format!(r#"{{"type":"text","text":{text}}}"#)),
            [(name, json)] if name == "json" && structured.is_none() => structured = Some(*json),
            [(name, image)] if name == "image" => {
                let image = Node::read(image).ok()?;
                let source = image.members.iter().find(|(name, _)| name == "source")?.1;
                let bytes = Node::read(source).ok()?.members.iter().find(|(name, _)| name == "bytes")?.1;
                content.push(format!(r#"{{"type":"image","data":{bytes}}}"#));
            }
            _ => return None,
        }
    }
    let json = match (content.is_empty(), structured) {
        (true, Some(json)) => json.get().to_owned(),
        (_, Some(json)) => format!(r#"{{"content":[{}],"structuredContent":{json}}}"#, content.join(",")),
        (_, None) => {
            let items = content.into_iter().map(RawValue::from_string).collect::<Result<_, _>>().ok()?;
            return Some(ClaimedResult::Items(items));
        }
    };
    RawValue::from_string(json).ok().map(ClaimedResult::Json)
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;

    #[test]
    fn results_meet_their_calls() {
        let transcript = clean(
            r#"{"modelId":"m","messages":[{"role":"user","content":[{"text":"hi"}]},
                {"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"hm","signature":"s"}}},{"text":"see"},
                    {"toolUse":{"toolUseId":"t1","name":"f","input":{"a": 1.0}}},{"toolUse":{"toolUseId":"t2","name":"g","input":{}}}]},
                {"role":"user","content":[{"toolResult":{"toolUseId":"t1","content":[{"json":{"n": 1.50}}],"status":"success"}},
                    {"toolResult":{"toolUseId":"t2","content":[{"text":"no"},{"image":{"format":"png","source":{"bytes":"AAAA"}}}],"status":"error"}},
                    {"cachePoint":{"type":"default"}}]}],
                "system":[{"text":"be good"}],"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{}}}}]}}"#,
        );
        assert_eq!(formats(&transcript), [Format::Bedrock]);
        assert_eq!(
            told(&transcript),
            [
                r#"messages[2].content[0].toolResult t1 f {"a": 1.0} = json {"n": 1.50}"#,
                r#"messages[2].content[1].toolResult t2 g {} = items {"type":"text","text":"no"} {"type":"image","data":"AAAA"} !"#,
            ]
        );
    }

    #[test]
    fn text_and_json_are_content_and_structure() {
        let transcript =
            read_text(r#"{"toolResult":{"toolUseId":"t","content":[{"text":"a"},{"json":[1]},{"text":"b"}]}}"#);
        assert_eq!(
            told(&transcript),
            [
                r#"toolResult t - - = json {"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"structuredContent":[1]}"#
            ]
        );
    }
}
