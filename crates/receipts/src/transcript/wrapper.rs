//! What lies around messages: lists, requests and responses of APIs, lines of logs, events of streams.

use serde_json::value::RawValue;

use super::{
    Why,
    accounting::shown,
    json::{self, At, Node},
    langchain, mcp,
    message::{self, Speaker},
    pairing::Pairing,
    pydantic, telemetry, vercel,
};

/// Members that hold the messages of one conversation.
const CONVERSATIONS: &[&str] = &["messages", "contents", "conversation", "history", "chat_history", "turns"];

/// Members that hold messages, or what has messages in it.
const WRAPPERS: &[&str] = &[
    "body",
    "candidates",
    "choices",
    "data",
    "events",
    "item",
    "items",
    "message",
    "msg",
    "payload",
    "request",
    "response",
    "transcript",
];

/// Types of objects in logs and streams that hold no result in themselves.
const PLAIN_TYPES: &[&str] = &[
    "agent_message",
    "agent_reasoning",
    "compacted",
    "content_block_delta",
    "content_block_start",
    "content_block_stop",
    "error",
    "event_msg",
    "file-history-snapshot",
    "message_delta",
    "message_start",
    "message_stop",
    "ping",
    "queue-operation",
    "response_item",
    "session_meta",
    "summary",
    "task_complete",
    "task_started",
    "token_count",
    "turn_aborted",
    "turn_context",
    "user_message",
];

/// Members that an object may have of which nothing else is known.
const PLAIN_MEMBERS: &[&str] = &[
    "approval_policy",
    "cli_version",
    "created",
    "created_at",
    "cwd",
    "date",
    "effort",
    "id",
    "input",
    "instructions",
    "level",
    "message",
    "model",
    "model_provider",
    "msg",
    "object",
    "originator",
    "prompt",
    "session",
    "sessionId",
    "session_id",
    "source",
    "summary",
    "system",
    "time",
    "timestamp",
    "title",
    "ts",
    "uuid",
    "version",
];

/// Reads a message, or what has messages in it.
pub(super) fn visit(pairing: &mut Pairing, raw: &RawValue, at: &At<'_>, wrappings: usize) {
    let Some(wrappings) = wrappings.checked_sub(1) else { return pairing.problem(at, Why::TooWrapped) };
    if json::is_list(raw) {
        return pairing.each(raw, at, |pairing, item, at| visit(pairing, item, at, wrappings));
    }
    let Some(node) = pairing.node(raw, at) else { return };
    if mcp::is_message(&node) {
        return mcp::message(pairing, raw, &node, at);
    }
    if message::tool_part(pairing, raw, &node, at) {
        return pairing.next_message();
    }
    if langchain::message(pairing, &node, at) {
        return;
    }
    if pydantic::message(pairing, &node, at)
        || telemetry::span(pairing, &node, at, wrappings)
        || vercel::step(pairing, &node, at, wrappings)
    {
        return;
    }
    if message::is_message(&node) {
        return message::message(pairing, raw, &node, at);
    }
    // Items of a response stand for themselves.
    if !node.kind().is_empty() && message::plain_part(pairing, raw, &node, Speaker::Other, at) {
        return pairing.next_message();
    }
    wrapper(pairing, raw, &node, at, wrappings);
}

fn wrapper(pairing: &mut Pairing, raw: &RawValue, node: &Node<'_>, at: &At<'_>, wrappings: usize) {
    let kind = node.kind();
    let streamed = kind.starts_with("response.") || kind.starts_with("content_block") || kind == "message_delta";
    let answers_before = pairing.answers();
    let mut known = vec!["type"];
    let mut identified = PLAIN_TYPES.contains(&&*kind) || streamed;
    for (name, value) in node.rest(&[]) {
        let structure = json::is_object(value) || json::is_list(value);
        let at = at.member(name);
        if pairing.ignores(name) {
            continue;
        }
        match name {
            // Pieces of a message: what they add up to is not put together here.
            "delta" | "content_block" | "item" | "part" if streamed || name == "delta" => {
                piece(pairing, value, &at);
                identified |= structure;
            }
            // As anything but lists, these are a tool's.
            "input" | "output" if json::is_list(value) => {
                visit(pairing, value, &at, wrappings);
                identified = true;
            }
            // Of a response of Bedrock.
            "output" if Node::read(value).is_ok_and(|output| output.message.is_some()) => {
                visit(pairing, value, &at, wrappings);
                identified = true;
            }
            "system" if structure => {
                message::parts(pairing, value, Speaker::Other, &at);
                identified = true;
            }
            "systemInstruction" | "system_instruction" if json::is_object(value) => {
                visit(pairing, value, &at, wrappings)
            }
            // Of a candidate in Gemini's response.
            "content" if json::is_object(value) => {
                visit(pairing, value, &at, wrappings);
                identified = true;
            }
            _ if CONVERSATIONS.contains(&name) || WRAPPERS.contains(&name) => {
                if CONVERSATIONS.contains(&name) && structure {
                    pairing.next_conversation();
                }
                if structure {
                    visit(pairing, value, &at, wrappings);
                    identified = true;
                } else if quoted(pairing, value, &at) {
                    identified = true;
                } else {
                    continue;
                }
            }
            // The last words of an agent, as its SDK ends a log.
            "result" if kind == "result" && json::is_text(value) && has(node, "num_turns") => {
                identified = true;
                pairing.prose(value, &at);
            }
            _ => continue,
        }
        known.push(name);
    }
    // What the line's message tells, once more.
    if let Some(again) = node.tool_use_result
        && !pairing.ignores("toolUseResult")
        && pairing.answered_again(answers_before, again)
    {
        known.push("toolUseResult");
    }
    if identified || kind.is_empty() && is_plain(pairing, node, &known) {
        return pairing.rest(node, &known, at);
    }
    if kind.is_empty() {
        pairing.unrecognised(raw, at, "an object that is no message, no call and no result in a known form");
    } else {
        pairing.unrecognised(raw, at, format!("an object of type '{}', which is not known", shown(&kind)));
    }
}

fn has(node: &Node<'_>, name: &str) -> bool {
    node.members.iter().any(|(one, _)| one == name)
}

/// Whether an object of no type has nothing but plain members.
fn is_plain(pairing: &Pairing, node: &Node<'_>, known: &[&str]) -> bool {
    let mut rest = node.rest(known);
    rest.all(|(name, value)| PLAIN_MEMBERS.contains(&name) || pairing.ignores(name) || !json::is_text(value))
}

/// A piece of a streamed message. Calls come in pieces, results whole: a result belongs into the message that is kept.
fn piece(pairing: &mut Pairing, value: &RawValue, at: &At<'_>) {
    if json::is_text(value) { pairing.prose(value, at) } else { pairing.search(value, at, false) }
}

/// Reads a message that a log kept as a text; `false` where the text is prose.
fn quoted(pairing: &mut Pairing, value: &RawValue, at: &At<'_>) -> bool {
    let text = json::text(value).filter(|text| text.trim_start().starts_with('{'));
    let message = text.as_deref().and_then(|text| serde_json::from_str::<&RawValue>(text).ok());
    let message = message.filter(|message| Node::read(message).is_ok_and(|node| mcp::is_message(&node)));
    if let Some(message) = message {
        visit(pairing, message, at, 1);
    }
    message.is_some()
}
