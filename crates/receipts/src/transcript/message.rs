//! Messages of a conversation and the parts of their content, in any format: who says it, the calls and results in it, and the
//! plain parts, which are no results.

use serde_json::value::RawValue;

use super::{
    accounting::{result_in, shown},
    anthropic, bedrock, gemini,
    json::{self, At, Node},
    openai,
    pairing::Pairing,
    vercel,
};

/// Who says a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaker {
    /// A model.
    Assistant,
    /// A tool: what it says is a result.
    Tool,
    /// A person or an operator.
    Other,
    /// Nobody who is named: a list of content items alone may be a tool's.
    Nobody,
}

impl Speaker {
    /// Who has this role, in small letters.
    pub(super) fn of(role: &str) -> Option<Self> {
        Some(match role {
            "assistant" | "ai" | "model" | "agent" => Speaker::Assistant,
            "tool" | "function" => Speaker::Tool,
            "user" | "human" | "system" | "developer" | "" => Speaker::Other,
            _ => return None,
        })
    }
}

/// Types of whole messages.
const MESSAGE_TYPES: &[&str] =
    &["", "message", "user", "assistant", "system", "developer", "human", "ai", "tool", "function", "agent"];

/// Whether the node is a message of a conversation rather than something around one.
pub(super) fn is_message(node: &Node<'_>) -> bool {
    let list = |value: Option<&RawValue>| value.is_some_and(json::is_list);
    node.tool_calls.is_some()
        || node.function_call.is_some_and(json::is_object)
        || node.content.is_some_and(|content| node.role.is_some() || json::is_list(content))
        || list(node.parts)
        || list(node.tool_invocations)
        || Speaker::of(&node.role()) == Some(Speaker::Tool)
}

/// Reads a message.
pub(super) fn message(pairing: &mut Pairing, raw: &RawValue, node: &Node<'_>, at: &At<'_>) {
    let role = node.role();
    let Some(speaker) = Speaker::of(&role) else {
        return pairing.unrecognised(raw, at, format!("a message of role '{}', which is not known", shown(&role)));
    };
    let kind = node.kind();
    if !MESSAGE_TYPES.contains(&&*kind) {
        return pairing.unrecognised(raw, at, format!("a message of type '{}', which is not known", shown(&kind)));
    }
    // Of what else a result has, `Pairing::rest` names the place.
    let of_result = ["isError", "is_error", "tool_call_id", "tool_use_id", "toolCallId", "toolUseId"];
    if speaker != Speaker::Tool
        && let Some((name, _)) = node.rest(&[]).find(|(name, _)| of_result.contains(name))
    {
        return pairing.unrecognised(
            raw,
            at,
            format!("a member '{name}', as results have, in a message that is not a tool's"),
        );
    }
    let unsaid = role.is_empty() && kind.is_empty() && node.content.is_some_and(json::is_list);
    speak(pairing, node, if unsaid { Speaker::Nobody } else { speaker }, at);
}

/// Reads what `speaker` says.
pub(super) fn speak(pairing: &mut Pairing, node: &Node<'_>, speaker: Speaker, at: &At<'_>) {
    pairing.next_message();
    let mut has_parts = false;
    if let Some(list) = node.parts.filter(|value| json::is_list(value)) {
        has_parts = true;
        parts(pairing, list, speaker, &at.member("parts"));
    }
    if speaker == Speaker::Tool {
        let of_parts = node.content.filter(|content| json::is_list(content) && holds_results(content));
        match of_parts {
            Some(list) => parts(pairing, list, speaker, &at.member("content")),
            None if has_parts && node.content.is_none() => {}
            None => return openai::tool_message(pairing, node, at),
        }
        return pairing.rest(node, &["role", "content", "parts", "id"], at);
    }
    openai::calls(pairing, node, at);
    if let Some(content) = node.content {
        let at = at.member("content");
        if json::is_list(content) {
            parts(pairing, content, speaker, &at);
        } else if json::is_object(content) {
            part(pairing, content, speaker, &at);
        } else {
            said(pairing, content, speaker, &at);
        }
    }
    if let Some(list) = node.tool_invocations {
        pairing.each(list, &at.member("toolInvocations"), vercel::invocation);
    }
    pairing.rest(node, &["role", "content", "parts", "tool_calls", "function_call", "toolInvocations"], at);
}

/// Whether a tool's content is a list of results rather than the items of one.
fn holds_results(content: &RawValue) -> bool {
    let mut any = false;
    let _ = json::items(content, |_, item| {
        any = Node::read(item).is_ok_and(|node| {
            node.kind() == "tool-result"
                || node.kind().ends_with("tool_result")
                || node.tool_result.or(node.function_response).or(node.function_response_snake).is_some()
        });
        !any
    });
    any
}

/// Reads the parts of a message.
pub(super) fn parts(pairing: &mut Pairing, list: &RawValue, speaker: Speaker, at: &At<'_>) {
    pairing.each(list, at, |pairing, raw, at| part(pairing, raw, speaker, at));
}

/// Reads one part of a message: a call, a result, or something plain.
pub(super) fn part(pairing: &mut Pairing, raw: &RawValue, speaker: Speaker, at: &At<'_>) {
    if json::is_text(raw) {
        return said(pairing, raw, speaker, at);
    }
    if !json::is_object(raw) {
        if !json::is_empty(raw) {
            pairing.unrecognised(raw, at, "neither a text nor an object");
        }
        return;
    }
    let Some(node) = pairing.node(raw, at) else { return };
    if tool_part(pairing, raw, &node, at) {
        return;
    }
    if matches!(speaker, Speaker::Tool | Speaker::Nobody) {
        let whose = if speaker == Speaker::Tool {
            "a tool's words that answer no call"
        } else {
            "words of nobody who is named"
        };
        return pairing.unrecognised(raw, at, whose);
    }
    if !plain_part(pairing, raw, &node, speaker, at) {
        pairing.unrecognised(raw, at, format!("a part of type '{}', which is not known", shown(&node.kind())));
    }
}

/// Reads a part that is neither a call nor a result; `false` when its type is not known.
pub(super) fn plain_part(
    pairing: &mut Pairing,
    raw: &RawValue,
    node: &Node<'_>,
    speaker: Speaker,
    at: &At<'_>,
) -> bool {
    let kind = node.kind();
    let Some(known) = plain_members(&kind) else { return false };
    let listed = pairing.transcript.unrecognised.len();
    for (name, value) in node.rest(&["type"]) {
        let at = at.member(name);
        if !known.contains(&name) {
            pairing.leftover(name, value, &at);
        } else if json::is_text(value) {
            let spoken = matches!(name, "text" | "content") && !matches!(&*kind, "thinking" | "reasoning");
            said(pairing, value, if spoken { speaker } else { Speaker::Other }, &at);
        } else {
            pairing.search(value, &at, false);
        }
    }
    // What has the marks of a result, none of which is a list or an object that was listed.
    if pairing.transcript.unrecognised.len() == listed
        && let Some(what) = result_in(node)
    {
        pairing.unrecognised(raw, at, format!("{what} in a part of type '{}'", shown(&kind)));
    }
    true
}

/// Reads a part that is a call or a result; `false` when it is neither.
pub(super) fn tool_part(pairing: &mut Pairing, raw: &RawValue, node: &Node<'_>, at: &At<'_>) -> bool {
    openai::item(pairing, node, at)
        || anthropic::block(pairing, node, at)
        || vercel::part(pairing, node, at)
        || bedrock::part(pairing, node, at)
        || gemini::part(pairing, raw, node, at)
}

/// A text that `speaker` says.
fn said(pairing: &mut Pairing, text: &RawValue, speaker: Speaker, at: &At<'_>) {
    if speaker == Speaker::Assistant && json::text(text).is_none_or(|text| !text.trim().is_empty()) {
        pairing.spoke();
    }
    pairing.prose(text, at);
}

/// The members of a plain part of this type; `None` where the type is not known.
fn plain_members(kind: &str) -> Option<&'static [&'static str]> {
    const ATTACHMENT: &[&str] = &[
        "audio",
        "context",
        "data",
        "detail",
        "document",
        "file",
        "file_data",
        "file_id",
        "file_url",
        "filename",
        "format",
        "image",
        "image_url",
        "input_audio",
        "mediaType",
        "media_type",
        "mimeType",
        "mime_type",
        "source",
        "title",
        "url",
        "video",
        "video_url",
    ];
    Some(match kind {
        "text" => &["text", "content"],
        "input_text" | "output_text" | "summary_text" | "reasoning_text" => &["text"],
        "refusal" => &["refusal"],
        "thinking" => &["thinking", "signature"],
        "redacted_thinking" => &["data"],
        "reasoning" | "redacted-reasoning" => &["text", "summary", "content", "encrypted_content", "details", "data"],
        "compaction" | "compaction_summary" => &["content", "encrypted_content"],
        "image" | "image_url" | "input_image" | "audio" | "input_audio" | "file" | "input_file" | "document"
        | "video" | "video_url" | "media" | "container_upload" => ATTACHMENT,
        "source-url" | "source-document" => &["sourceId", "url", "title", "mediaType", "filename"],
        "step-start" | "item_reference" | "mcp_approval_response" => &[],
        // A list of definitions, and a request to be allowed to call.
        "mcp_list_tools" => &["tools", "server_label"],
        "mcp_approval_request" => &["arguments", "name", "server_label"],
        // Gemini's and Bedrock's parts have no type.
        "" => &[
            "text",
            "thought",
            "thoughtSignature",
            "thought_signature",
            "inlineData",
            "inline_data",
            "fileData",
            "file_data",
            "image",
            "document",
            "video",
            "audio",
            "reasoningContent",
            "cachePoint",
            "guardContent",
        ],
        _ => return None,
    })
}
