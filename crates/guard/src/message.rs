//! JSON-RPC messages as they pass, read without taking them apart: whatever is not changed leaves as the bytes that came.
//!
//! An [`Edit`] says which bytes of a message are replaced; nothing else of it is touched, whatever else is in it.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// One message, still text.
#[derive(Deserialize)]
pub struct Message<'a> {
    /// The id, of a request or an answer.
    #[serde(borrow, default)]
    pub id: Option<&'a RawValue>,
    /// The method, of a request or a notification.
    #[serde(borrow, default)]
    pub method: Option<Cow<'a, str>>,
    /// Its parameters.
    #[serde(borrow, default)]
    pub params: Option<&'a RawValue>,
    /// The result, of an answer.
    #[serde(borrow, default)]
    pub result: Option<&'a RawValue>,
    /// The error, of an answer.
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
}

/// What a line holds.
pub enum Parsed<'a> {
    /// One message.
    One(Message<'a>),
    /// Several (protocol 2025-03-26 allowed it).
    Batch(Vec<&'a RawValue>),
    /// JSON in which a member that matters is there twice: two readers may see two different messages.
    Ambiguous(String),
    /// No JSON object and no list.
    NotJson(String),
}

/// Reads a line, without its end.
pub fn parse(line: &str) -> Parsed<'_> {
    let text = line.trim_matches([' ', '\t', '\r', '\n']);
    match text.as_bytes().first() {
        Some(b'{') => match serde_json::from_str(text) {
            Ok(message) => Parsed::One(message),
            Err(error) if error.to_string().starts_with("duplicate field") => Parsed::Ambiguous(error.to_string()),
            Err(error) => Parsed::NotJson(error.to_string()),
        },
        Some(b'[') => match serde_json::from_str(text) {
            Ok(items) => Parsed::Batch(items),
            Err(error) => Parsed::NotJson(error.to_string()),
        },
        _ => Parsed::NotJson("neither an object nor a list".to_owned()),
    }
}

impl Message<'_> {
    /// Whether it answers a request.
    pub fn is_answer(&self) -> bool {
        self.method.is_none() && self.id.is_some() && (self.result.is_some() || self.error.is_some())
    }

    /// Whether one reader may take it for an answer where another does not: it has a method and a result, or neither.
    pub fn is_doubtful(&self) -> bool {
        let answers = self.result.is_some() || self.error.is_some();
        self.id.is_some() && answers == self.method.is_some()
    }
}

/// Whether JSON could have a member of one of these names, at any depth: the name stands in it, or an escape by which a letter can be
/// written. Looking for them takes a small part of the time that reading takes.
pub(crate) fn may_name(json: &str, names: &[&str]) -> bool {
    let holds = |word: &str| memchr::memmem::find(json.as_bytes(), word.as_bytes()).is_some();
    holds("\\u") || names.iter().any(|name| holds(name))
}

/// The id of a message that cannot be read otherwise, the last where there are several.
pub fn id_of_ambiguous(line: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(line.trim()).ok()?;
    value.get("id").filter(|id| !id.is_null()).map(ToString::to_string)
}

/// The id in the first or the last bytes of a message too large to keep: it stands before or after everything else.
pub fn id_at_the_edges(head: &[u8], tail: &[u8]) -> Option<String> {
    let id_after = |text: &str, from: usize| {
        let rest = text.get(from..)?.trim_start().strip_prefix(':')?.trim_start();
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<&RawValue>();
        let id = stream.next()?.ok()?.get();
        (id.starts_with('"') || id.parse::<f64>().is_ok()).then(|| id.to_owned())
    };
    let head = String::from_utf8_lossy(head);
    let tail = String::from_utf8_lossy(tail);
    let before_payload = head.find("\"result\"").or_else(|| head.find("\"error\"")).unwrap_or(head.len());
    let first = head[..before_payload].find("\"id\"").and_then(|at| id_after(&head, at + 4));
    first.or_else(|| tail.rfind("\"id\"").and_then(|at| id_after(&tail, at + 4)))
}

/// An id as JSON-RPC tells ids apart: however a text is escaped or a number written, it is the same one.
pub fn id_key(id: &str) -> String {
    credence_protocol::receipt::Exact::parse(id).map_or_else(|_| id.to_owned(), |id| id.canonical())
}

/// Bytes of a text to be replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// Where they begin.
    pub at: usize,
    /// How many.
    pub remove: usize,
    /// What stands there instead.
    pub insert: String,
}

/// Where `part` begins in `whole`, of which it is a part.
pub fn offset(whole: &str, part: &str) -> usize {
    let at = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
    debug_assert!(at + part.len() <= whole.len(), "the part lies in the whole");
    at
}

/// The text with its edits, which do not overlap.
pub fn apply(text: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| edit.at);
    let mut out = String::with_capacity(text.len() + edits.iter().map(|edit| edit.insert.len()).sum::<usize>());
    let mut from = 0;
    for edit in edits {
        out.push_str(&text[from..edit.at]);
        out.push_str(&edit.insert);
        from = edit.at + edit.remove;
    }
    out.push_str(&text[from..]);
    out
}

/// Adds a member to the object that `raw` is. `at` is where `raw` begins in the text that is edited.
pub fn insert_member(raw: &str, at: usize, name: &str, value: &str) -> Edit {
    let empty = raw[1..].trim_start().starts_with('}');
    let comma = if empty { "" } else { "," };
    Edit { at: at + 1, remove: 0, insert: format!("\"{name}\":{value}{comma}") }
}

/// Adds an item to the end of the list that `raw` is.
pub fn push_item(raw: &str, at: usize, item: &str) -> Edit {
    let inside = raw[1..raw.len() - 1].trim_end();
    let comma = if inside.is_empty() { "" } else { "," };
    Edit { at: at + 1 + inside.len(), remove: 0, insert: format!("{comma}{item}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_edited_changes() {
        for (text, expected) in
            [(r#"{"a" : [ 1 ] }"#, r#"{"m":2,"a" : [ 1 ] }"#), ("{}", r#"{"m":2}"#), ("{ }", r#"{"m":2 }"#)]
        {
            assert_eq!(apply(text, vec![insert_member(text, 0, "m", "2")]), expected);
        }
        for (text, expected) in [("[ 1 , 2 ]", "[ 1 , 2,3 ]"), ("[]", "[3]"), ("[ ]", "[3 ]")] {
            let edited = apply(text, vec![push_item(text, 0, "3")]);
            assert_eq!(edited, expected);
            assert!(serde_json::from_str::<Vec<u8>>(&edited).is_ok());
        }
    }

    #[test]
    fn messages_are_told_apart() {
        let one = |line| match parse(line) {
            Parsed::One(message) => message,
            _ => panic!("{line}"),
        };
        assert!(one(r#" {"jsonrpc":"2.0","id":"a\"b","result":{}} "#).is_answer());
        assert!(!one(r#"{"jsonrpc":"2.0","id":1,"method":"x"}"#).is_answer());
        assert!(!one(r#"{"jsonrpc":"2.0","method":"x"}"#).is_answer());
        assert!(matches!(parse(r#"{"id":1,"result":{},"result":{}}"#), Parsed::Ambiguous(_)));
        assert!(matches!(parse(r#"[{"id":1}]"#), Parsed::Batch(items) if items.len() == 1));
        for bad in ["", "hello", "{", "[1", "\"x\"", "{\"id\":}"] {
            assert!(matches!(parse(bad), Parsed::NotJson(_)), "{bad}");
        }
        assert_eq!(id_of_ambiguous(r#"{"id":1,"result":{},"id":2}"#), Some("2".to_owned()));
    }

    #[test]
    fn a_name_is_found_however_it_is_written() {
        for named in [r#"{"task":1}"#, r#"{"a":[{ "task" : 1}]}"#, r#"{"\u0074ask":1}"#, r#"{"ta\u0073k":1}"#] {
            assert!(may_name(named, &["resultType", "task"]), "{named}");
        }
        assert!(!may_name(r#"{"tas":"k","a\"":"\\n","Task":1}"#, &["resultType", "task"]));
    }

    #[test]
    fn the_id_of_a_huge_message_is_at_its_edges() {
        let id = |head: &str, tail: &str| id_at_the_edges(head.as_bytes(), tail.as_bytes());
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":7,"result":{"x":""#, "xxx\"}}"), Some("7".to_owned()));
        assert_eq!(id(r#"{"result":{"id":9,"x":""#, r#"xx"},"jsonrpc":"2.0","id":"a-7"}"#), Some("\"a-7\"".to_owned()));
        assert_eq!(id(r#"{"result":{"x":""#, "xxx"), None);
    }
}
