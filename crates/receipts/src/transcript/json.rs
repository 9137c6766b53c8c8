//! JSON kept as the transcript wrote it. The transcript's own objects are read one level at a time, each member a piece of
//! the original text; what tools were given and gave back is never parsed into numbers.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::Why;

/// How far a receipt is looked for: in an object in the text of an item in a list in an object in a text.
const RECEIPT_LEVELS: usize = 6;
/// Characters of a member's name that a place shows.
const MAX_SHOWN_NAME: usize = 80;

macro_rules! node {
    ($($field:ident: $name:literal,)*) => {
        /// One object of the transcript: the members any of the formats uses, `None` where absent or null; and all of its
        /// members as they stand there, so that none is passed over.
        #[derive(Default)]
        pub(super) struct Node<'a> {
            $(pub(super) $field: Option<&'a RawValue>,)*
            pub(super) members: Vec<(Cow<'a, str>, &'a RawValue)>,
            repeated: Option<&'static str>,
        }

        impl<'a> Visitor<'a> for Members {
            type Value = Node<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Node<'a>, A::Error> {
                let mut node = Node::default();
                while let Some((Name(name), value)) = map.next_entry::<Name<'a>, &'a RawValue>()? {
                    match &*name {
                        $($name => {
                            let before = node.$field.replace(value).map(|_| $name);
                            node.repeated = node.repeated.or(before);
                        })*
                        _ => {}
                    }
                    node.members.push((name, value));
                }
                $(node.$field = node.$field.filter(|value| value.get() != "null");)*
                Ok(node)
            }
        }
    };
}

node! {
    args: "args",
    arguments: "arguments",
    artifact: "artifact",
    attributes: "attributes",
    body: "body",
    call_id: "call_id",
    call_id_camel: "callId",
    candidates: "candidates",
    chat_history: "chat_history",
    choices: "choices",
    code_execution_result: "codeExecutionResult",
    code_execution_result_snake: "code_execution_result",
    content: "content",
    content_block: "content_block",
    contents: "contents",
    conversation: "conversation",
    custom: "custom",
    data: "data",
    delta: "delta",
    error: "error",
    error_text: "errorText",
    events: "events",
    executable_code: "executableCode",
    executable_code_snake: "executable_code",
    function: "function",
    function_call: "function_call",
    function_call_camel: "functionCall",
    function_response: "functionResponse",
    function_response_snake: "function_response",
    history: "history",
    id: "id",
    image: "image",
    input: "input",
    is_error: "is_error",
    is_error_mcp: "isError",
    item: "item",
    items: "items",
    json: "json",
    jsonrpc: "jsonrpc",
    kind: "type",
    kwargs: "kwargs",
    lc: "lc",
    message: "message",
    message_kind: "kind",
    messages: "messages",
    method: "method",
    msg: "msg",
    name: "name",
    outcome: "outcome",
    output: "output",
    outputs: "outputs",
    params: "params",
    part_kind: "part_kind",
    parts: "parts",
    payload: "payload",
    request: "request",
    response: "response",
    result: "result",
    result_type: "resultType",
    results: "results",
    role: "role",
    server_label: "server_label",
    server_name: "server_name",
    state: "state",
    status: "status",
    structured_content: "structuredContent",
    structured_content_snake: "structured_content",
    system: "system",
    system_instruction: "systemInstruction",
    system_instruction_snake: "system_instruction",
    task: "task",
    task_id: "taskId",
    text: "text",
    thought: "thought",
    tool_call_id: "tool_call_id",
    tool_call_id_camel: "toolCallId",
    tool_calls: "tool_calls",
    tool_invocation: "toolInvocation",
    tool_invocations: "toolInvocations",
    tool_name: "tool_name",
    tool_name_camel: "toolName",
    tool_result: "toolResult",
    tool_use: "toolUse",
    tool_use_id: "tool_use_id",
    tool_use_id_camel: "toolUseId",
    tool_use_result: "toolUseResult",
    transcript: "transcript",
    turns: "turns",
    value: "value",
}

struct Members;

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Node<'a> {
    /// Reads an object, refusing one that names a member of ours twice: which of the two counts is anybody's guess.
    pub(super) fn read(raw: &'a RawValue) -> Result<Self, Why> {
        if !is_object(raw) {
            return Err(Why::NotAnObject);
        }
        let node = serde_json::Deserializer::from_str(raw.get()).deserialize_map(Members).map_err(unreadable)?;
        node.repeated.map_or(Ok(node), |name| Err(Why::Repeated(name)))
    }

    /// The `type` member, empty when there is none.
    pub(super) fn kind(&self) -> Cow<'a, str> {
        self.kind.and_then(text).unwrap_or_default()
    }

    /// The `role` member in small letters, empty when there is none.
    pub(super) fn role(&self) -> String {
        self.role.and_then(text).unwrap_or_default().to_ascii_lowercase()
    }

    /// The members that are not among `known`, and say something.
    pub(super) fn rest<'n>(&'n self, known: &'n [&'n str]) -> impl Iterator<Item = (&'n str, &'a RawValue)> {
        let rest = self.members.iter().filter(|(name, value)| !known.contains(&&**name) && !is_empty(value));
        rest.map(|(name, value)| (&**name, *value))
    }
}

/// Where in the transcript something is.
#[derive(Clone, Copy)]
pub(super) enum At<'p> {
    Document,
    Line(usize),
    Member(&'p At<'p>, &'p str),
    Index(&'p At<'p>, usize),
}

impl<'p> At<'p> {
    pub(super) fn member(&'p self, name: &'p str) -> At<'p> {
        At::Member(self, name)
    }

    pub(super) fn index(&'p self, index: usize) -> At<'p> {
        At::Index(self, index)
    }
}

impl At<'_> {
    /// The place as a JSON pointer (RFC 6901) into the document or the line.
    pub(super) fn pointer(&self) -> String {
        match self {
            At::Document | At::Line(_) => String::new(),
            At::Member(parent, name) => {
                let name: String = name.chars().take(MAX_SHOWN_NAME).collect();
                format!("{}/{}", parent.pointer(), name.replace('~', "~0").replace('/', "~1"))
            }
            At::Index(parent, index) => format!("{}/{index}", parent.pointer()),
        }
    }

    /// The line, where each line is a document.
    pub(super) fn line(&self) -> Option<usize> {
        match self {
            At::Document => None,
            At::Line(number) => Some(*number),
            At::Member(parent, _) | At::Index(parent, _) => parent.line(),
        }
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::Document => f.write_str("document"),
            At::Line(number) => write!(f, "line {number}"),
            At::Member(At::Document, name) => f.write_str(name),
            At::Index(At::Document, index) => write!(f, "[{index}]"),
            At::Member(line @ At::Line(_), name) => write!(f, "{line}: {name}"),
            At::Index(line @ At::Line(_), index) => write!(f, "{line}: [{index}]"),
            At::Member(parent, name) => write!(f, "{parent}.{name}"),
            At::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Calls `each` with the items of a list, in order, until it says `false`.
pub(super) fn items<'a>(list: &'a RawValue, each: impl FnMut(usize, &'a RawValue) -> bool) -> Result<(), Why> {
    struct Items<F>(F);

    impl<'a, F: FnMut(usize, &'a RawValue) -> bool> Visitor<'a> for Items<F> {
        type Value = ();

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }

        fn visit_seq<A: SeqAccess<'a>>(mut self, mut list: A) -> Result<(), A::Error> {
            let (mut index, mut go_on) = (0, true);
            while go_on && let Some(item) = list.next_element()? {
                go_on = (self.0)(index, item);
                index += 1;
            }
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok(())
        }
    }

    if !is_list(list) {
        return Err(Why::NotAList);
    }
    serde_json::Deserializer::from_str(list.get()).deserialize_seq(Items(each)).map_err(unreadable)
}

pub(super) fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

pub(super) fn is_list(raw: &RawValue) -> bool {
    raw.get().starts_with('[')
}

pub(super) fn is_text(raw: &RawValue) -> bool {
    raw.get().starts_with('"')
}

/// Whether the value says nothing: null, or a list or an object without anything in it.
pub(super) fn is_empty(raw: &RawValue) -> bool {
    let inner = raw.get().strip_prefix(['{', '[']).and_then(|rest| rest.strip_suffix(['}', ']']));
    raw.get() == "null" || inner.is_some_and(|inner| inner.trim().is_empty())
}

/// The text a JSON string stands for; `None` for other values and for strings that are no text (half a surrogate pair).
pub(super) fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    if !is_text(raw) {
        return None;
    }
    serde_json::from_str(raw.get()).ok().map(|Name(text)| text)
}

/// A flag, where it is one.
pub(super) fn flag(raw: Option<&RawValue>) -> Option<bool> {
    match raw?.get() {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

/// Whether a whole MCP result calls itself an error.
pub(super) fn result_flag(raw: &RawValue) -> Option<bool> {
    let result = is_object(raw).then(|| Node::read(raw).ok()).flatten()?;
    result.content.filter(|content| is_list(content))?;
    flag(result.is_error_mcp.or(result.is_error))
}

/// How deep lists and objects are nested: 0 for a number or a text.
pub(super) fn depth(raw: &RawValue) -> usize {
    let (mut depth, mut deepest, mut in_text, mut escaped) = (0usize, 0, false, false);
    for byte in raw.get().bytes() {
        if in_text {
            in_text = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
            continue;
        }
        match byte {
            b'"' => in_text = true,
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// The receipt a guard put into a result: `_meta["credence/guard"].receipt` of the result, of an item in its content, or of
/// a JSON object written out as its text.
pub(super) fn receipt(result: &RawValue) -> Option<String> {
    receipt_within(result, RECEIPT_LEVELS)
}

fn receipt_within(result: &RawValue, levels: usize) -> Option<String> {
    #[derive(Deserialize)]
    struct Stamped<'a> {
        #[serde(borrow, rename = "_meta")]
        meta: Option<&'a RawValue>,
        #[serde(borrow)]
        content: Option<&'a RawValue>,
        #[serde(borrow)]
        text: Option<&'a RawValue>,
    }

    #[derive(Deserialize)]
    struct Meta {
        #[serde(rename = "credence/guard")]
        guard: Guard,
    }

    #[derive(Deserialize)]
    struct Guard {
        receipt: String,
    }

    let levels = levels.checked_sub(1)?;
    if is_text(result) {
        let inner = text(result)?;
        let inner = Some(inner.trim()).filter(|inner| inner.starts_with('{'))?;
        return receipt_within(serde_json::from_str(inner).ok()?, levels);
    }
    if is_list(result) {
        let mut found = None;
        let read = items(result, |_, item| {
            found = receipt_within(item, levels);
            found.is_none()
        });
        return read.ok().and(found);
    }
    if !is_object(result) {
        return None;
    }
    let stamped: Stamped<'_> = serde_json::from_str(result.get()).ok()?;
    let own =
        stamped.meta.and_then(|meta| serde_json::from_str::<Meta>(meta.get()).ok()).map(|meta| meta.guard.receipt);
    own.or_else(|| receipt_within(stamped.content?, levels)).or_else(|| receipt_within(stamped.text?, levels))
}

/// serde_json's words without its position, which counts from the start of the piece at hand.
pub(super) fn message(error: &serde_json::Error) -> String {
    let mut message = error.to_string();
    if let Some(end) = message.rfind(" at line ") {
        message.truncate(end);
    }
    message
}

fn unreadable(error: serde_json::Error) -> Why {
    Why::Unreadable(message(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn depth_counts_brackets_outside_texts_only() {
        for (text, expected) in
            [("1", 0), ("[]", 1), (r#"{"a":[{}]}"#, 3), (r#"["[[[\"[[", "\\", []]"#, 2), (r#"[[],[],[]]"#, 2)]
        {
            assert_eq!(depth(&raw(text)), expected, "{text}");
        }
    }

    #[test]
    fn the_depth_limit_is_the_one_of_serde_json() {
        let nested = |levels: usize| raw(&format!("{}{}", "[".repeat(levels), "]".repeat(levels)));
        let parses = |levels| serde_json::from_str::<serde_json::Value>(nested(levels).get()).is_ok();
        assert!(parses(super::super::MAX_DEPTH) && !parses(super::super::MAX_DEPTH + 1));
    }

    #[test]
    fn a_name_counts_as_repeated_however_it_is_written_and_whatever_its_value() {
        for text in [r#"{"id":1,"id":1}"#, r#"{"id":null,"\u0069d":1}"#] {
            assert!(matches!(Node::read(&raw(text)), Err(Why::Repeated("id"))), "{text}");
        }
        assert!(Node::read(&raw(r#"{"note":1,"note":2,"id":null}"#)).unwrap().id.is_none());
    }

    #[test]
    fn receipts_are_found_in_results_items_and_texts() {
        let stamp = r#"{"x":1e400,"_meta":{"other":1,"credence\/guard":{"receipt":"r1","n":2}}}"#;
        let quoted = serde_json::to_string(stamp).unwrap();
        for text in [
            stamp.to_owned(),
            quoted.clone(),
            format!("[{stamp}]"),
            format!(r#"[1,{{"type":"text","text":"plain"}},{{"type":"text","text":{quoted}}}]"#),
            format!(r#"{{"content":[{{"text":{quoted}}}]}}"#),
            serde_json::to_string(&format!(r#"{{"content":[{{"text":{quoted}}}]}}"#)).unwrap(),
        ] {
            assert_eq!(receipt(&raw(&text)).as_deref(), Some("r1"), "{text}");
        }
        for text in [r#"{"_meta":{"credence/guard":{"receipt":7}}}"#, r#"{"a":{"_meta":{}}}"#, r#""{""#, "3"] {
            assert_eq!(receipt(&raw(text)), None, "{text}");
        }
    }
}
