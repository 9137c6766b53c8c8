//! Accounting: no part of a transcript that can tell a result is passed over.
//!
//! Each reader names the members it knows. What is left of an object goes through [`Pairing::leftover`]:
//!
//! | what is left | it is |
//! |---|---|
//! | null, true, false; a number; empty lists and objects | nothing, unless its name is that of a result |
//! | a text | prose, unless its name is that of a result, or JSON in it is a result |
//! | a list or object that APIs put beside messages ([`METADATA`]) | nothing, unless a result is in it |
//! | any other list or object | unrecognised |
//!
//! What is unrecognised is listed with its place, and the transcript does not pass.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{
    MAX_PROBLEMS, Unrecognised,
    json::{self, At, Node},
    pairing::Pairing,
    text::json_within,
};

/// Lists and objects that APIs and logs put beside messages and that are not shown to a model as a tool's words.
const METADATA: &[&str] = &[
    "_meta",
    "additional_kwargs",
    "additionalModelRequestFields",
    "annotations",
    "attachments",
    "audio",
    "betas",
    "billing",
    "cache_control",
    "cacheControl",
    "cachePoint",
    "caller",
    "callProviderMetadata",
    "candidatesTokensDetails",
    "citationMetadata",
    "citations",
    "compactMetadata",
    "container",
    "content_filter_results",
    "context_management",
    "error",
    "experimental_providerMetadata",
    "generation_config",
    "generationConfig",
    "git",
    "groundingMetadata",
    "guardrailConfig",
    "headers",
    "incomplete_details",
    "inferenceConfig",
    "info",
    "invalid_tool_calls",
    "logit_bias",
    "logprobs",
    "logprobsResult",
    "mcp_servers",
    "meta",
    "metadata",
    "metrics",
    "modalities",
    "options",
    "prediction",
    "prompt",
    "prompt_filter_results",
    "promptFeedback",
    "provider_options",
    "provider_specific_fields",
    "providerMetadata",
    "providerOptions",
    "rate_limits",
    "reasoning",
    "reasoning_details",
    "requestMetadata",
    "response_metadata",
    "ResponseMetadata",
    "safety_ratings",
    "safetyRatings",
    "safetySettings",
    "sandbox_policy",
    "signature",
    "snapshot",
    "stop",
    "stop_details",
    "stop_sequences",
    "stream_options",
    "tags",
    "thinking",
    "thinkingMetadata",
    "timings",
    "todos",
    "toolMetadata",
    "tool_call_chunks",
    "trace",
    "urlContextMetadata",
    "usage",
    "usage_metadata",
    "usageMetadata",
    "user_info",
    "web_search_options",
];

/// Definitions of tools and of formats: schemas, in which members may have any name.
const DEFINITIONS: &[&str] = &[
    "functions",
    "outputConfig",
    "output_config",
    "output_format",
    "responseSchema",
    "response_format",
    "toolChoice",
    "toolConfig",
    "tool_choice",
    "tool_config",
    "tools",
];

/// Words in the name of a member that tell a result.
const RESULT_WORDS: &[&str] = &["observation", "output", "response", "result", "returned", "toolreturn"];
/// Words that make such a name one of something else: `output_tokens`, `response_id`.
const OTHER_WORDS: &[&str] = &["count", "duration", "effort", "filter", "format", "index", "metadata", "time", "token"];

/// How deep objects are searched for results.
const MAX_SEARCHED: usize = 48;

/// Whether a member of this name tells a result.
fn names_a_result(name: &str) -> bool {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    let has = |words: &[&str]| words.iter().any(|word| plain.contains(word));
    // In another case some readers take these for the members they know.
    let in_other_case = ["type", "role", "content"].contains(&plain.as_str()) && plain != name;
    in_other_case || (has(RESULT_WORDS) && !has(OTHER_WORDS) && !plain.ends_with("id"))
}

/// What an object that stands where no result belongs has of one.
pub(super) fn result_in(node: &Node<'_>) -> Option<String> {
    const MEMBERS: &[&str] = &[
        "gen_ai.tool.call.result",
        "functionResponse",
        "function_response",
        "isError",
        "is_error",
        "structuredContent",
        "structured_content",
        "toolCallId",
        "toolInvocation",
        "toolResult",
        "toolUseId",
        "toolUseResult",
        "tool_call_id",
        "tool_result",
        "tool_results",
        "tool_use_id",
    ];
    const ROLES: &[&str] = &["function", "ipython", "observation", "tool", "tool_response", "tool_result"];
    if let Some((name, _)) = node.rest(&[]).find(|(name, _)| MEMBERS.contains(name)) {
        return Some(format!("a member '{name}'"));
    }
    let role = node.role();
    if ROLES.contains(&role.as_str()) && node.rest(&["role"]).next().is_some() {
        return Some(format!("a message of role '{role}'"));
    }
    let kind = node.kind().to_ascii_lowercase().replace('-', "_");
    let known = [
        "dynamic_tool",
        "function_response",
        "mcp_call",
        "tool_invocation",
        "tool_message",
        "tool_return",
        "tool_call_response",
    ];
    let ends = ["tool_result", "call_output", "toolmessage"];
    if ends.iter().any(|end| kind.ends_with(end)) || known.contains(&kind.as_str()) {
        return Some(format!("a part of type '{kind}'"));
    }
    let part = node.part_kind.and_then(json::text).unwrap_or_default();
    if part.ends_with("return") || part == "retry-prompt" && node.tool_name.is_some() {
        return Some(format!("a part of kind '{part}'"));
    }
    let answers = node.jsonrpc.is_some() && node.method.is_none() && node.result.or(node.error).is_some();
    answers.then(|| "a JSON-RPC response".to_owned())
}

impl Pairing {
    /// Lists a part that is in no known form.
    pub(super) fn unrecognised(&mut self, raw: &RawValue, at: &At<'_>, what: impl Into<String>) {
        if self.transcript.unrecognised.len() >= MAX_PROBLEMS {
            self.transcript.problems_left_out += 1;
            return;
        }
        self.places.push(raw.get().as_ptr() as usize);
        let place = Unrecognised { pointer: at.pointer(), line: at.line(), what: what.into() };
        self.transcript.unrecognised.push(place);
    }

    /// Accounts for the members of an object that its reader does not know.
    pub(super) fn rest(&mut self, node: &Node<'_>, known: &[&str], at: &At<'_>) {
        for (name, value) in node.rest(known) {
            self.leftover(name, value, &at.member(name));
        }
    }

    /// Accounts for a member that its reader does not know.
    pub(super) fn leftover(&mut self, name: &str, value: &RawValue, at: &At<'_>) {
        if self.ignores(name) || json::is_empty(value) || matches!(value.get(), "true" | "false") {
            return;
        }
        let structure = json::is_object(value) || json::is_list(value);
        // How a response's text is to be written.
        let text_settings = || {
            let settings = ["format", "verbosity"];
            name == "text" && Node::read(value).is_ok_and(|node| node.rest(&settings).next().is_none())
        };
        if structure && (DEFINITIONS.contains(&name) || text_settings()) {
            self.search(value, at, false);
        } else if structure && METADATA.contains(&name) {
            self.search(value, at, true);
        } else if structure || names_a_result(name) {
            self.unrecognised(value, at, format!("the member '{}' is not known, and can be a result", shown(name)));
        } else {
            self.prose(value, at);
        }
    }

    /// Whether the caller says that members of this name are no results.
    pub(super) fn ignores(&self, name: &str) -> bool {
        self.ignored_members.iter().any(|one| one == name)
    }

    /// Looks for results where none belong; `names` also by the names of members.
    pub(super) fn search(&mut self, raw: &RawValue, at: &At<'_>, names: bool) {
        if let Some(what) = find(raw, names, MAX_SEARCHED) {
            self.unrecognised(raw, at, format!("{what} where no result belongs"));
        }
    }

    /// A text that somebody says. What it tells of a result in words cannot be checked; JSON in it can be a result.
    pub(super) fn prose(&mut self, raw: &RawValue, at: &At<'_>) {
        if !json::is_text(raw) {
            return;
        }
        // Half a surrogate pair: whatever stands in it, two readers may read it differently.
        let Some(text) = json::text(raw) else {
            return self.unrecognised(raw, at, "half a surrogate pair in the text");
        };
        if let Some(what) = find_in_text(&text, MAX_SEARCHED) {
            self.unrecognised(raw, at, format!("JSON in this text has {what}, as results have"));
        }
    }
}

/// What looks like a result in a value.
fn find(raw: &RawValue, names: bool, levels: usize) -> Option<String> {
    let Some(levels) = levels.checked_sub(1) else { return Some("nesting too deep to be searched".to_owned()) };
    if json::is_text(raw) {
        return find_in_text(&json::text(raw).unwrap_or_default(), levels);
    }
    if json::is_list(raw) {
        let mut found = None;
        let read = json::items(raw, |_, item| {
            found = find(item, names, levels);
            found.is_none()
        });
        return read.err().map(|why| why.to_string()).or(found);
    }
    if !json::is_object(raw) {
        return None;
    }
    let node = match Node::read(raw) {
        Ok(node) => node,
        Err(why) => return Some(why.to_string()),
    };
    let named = |(name, value): &(&str, &RawValue)| {
        names && names_a_result(name) && !value.get().starts_with(|c: char| c == '-' || c.is_ascii_alphanumeric())
    };
    if let Some((name, _)) = node.rest(&[]).find(named) {
        return Some(format!("a member '{}'", shown(name)));
    }
    result_in(&node).or_else(|| node.rest(&[]).find_map(|(_, value)| find(value, names, levels)))
}

/// What looks like a result in the JSON that stands in a text.
fn find_in_text(text: &str, levels: usize) -> Option<String> {
    json_within(text, |object| find(object, false, levels))
}

/// A name as a message quotes it.
pub(super) fn shown(name: &str) -> Cow<'_, str> {
    const MOST: usize = 80;
    if name.chars().count() <= MOST { name.into() } else { name.chars().take(MOST).collect::<String>().into() }
}
