//! Strict reading of JSON-RPC messages: a message goes on only if every reader sees the same one in it.
//!
//! Lenient readers differ. Some split a line at a carriage return, some take the first of two members and some the last, some read
//! `NaN`, invalid UTF-8 or a member called `Method`. A message that one reader takes for a notification and another for a tool call
//! would be executed without a receipt. So [`read`] refuses:
//!
//! - bytes that are not UTF-8, a byte order mark, raw control characters, half of a surrogate pair; in a line also every line break
//! - text that is not exactly one JSON value (RFC 8259), or nested more than [`MAX_DEPTH`] deep
//! - an object with two members of one name, at any depth
//!
//! [`Envelope::of`] then refuses what is JSON and not a JSON-RPC message, or one in which a lenient reader could find other members.
//! Line separators that are legal inside strings (U+0085, U+2028, U+2029) and split lines for some readers leave as escapes: the value
//! is the same.

use std::{borrow::Cow, collections::HashSet, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::message::offset;

/// Nesting that is looked into. The receipts' form of JSON has the same limit.
const MAX_DEPTH: usize = 64;
/// Characters of a message shown around the byte it was refused for.
const SHOWN: usize = 24;
/// Members of an object up to which names are compared one by one.
const FEW_MEMBERS: usize = 12;
/// The members of a JSON-RPC message.
const MEMBERS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];
/// The members of a tool call's parameters that mean something.
const CALL_MEMBERS: [&str; 5] = ["name", "arguments", "_meta", "task", "inputResponses"];

/// How messages are separated from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// One message a line: a line break inside would make it two.
    Line,
    /// One message a document: line breaks between tokens are replaced by spaces.
    Document,
}

/// Why a message is not forwarded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What is wrong with it. Holds no text of the message.
    pub why: String,
    /// The byte at which it was found.
    pub at: usize,
    /// It cannot be parsed; otherwise it parses and is not a valid message.
    pub unparsable: bool,
}

impl Refusal {
    pub(crate) fn new(at: usize, why: impl Into<String>) -> Self {
        Self { why: why.into(), at, unparsable: false }
    }

    fn unparsable(at: usize, why: impl Into<String>) -> Self {
        Self { unparsable: true, ..Self::new(at, why) }
    }

    /// JSON-RPC's code for it.
    pub fn code(&self) -> i32 {
        if self.unparsable { -32700 } else { -32600 }
    }

    /// The same of a part that begins at byte `start`.
    pub(crate) fn shifted(mut self, start: usize) -> Self {
        self.at += start;
        self
    }

    /// The text around the byte, escaped so that it can be printed.
    pub fn excerpt(&self, bytes: &[u8]) -> String {
        let around = &bytes[self.at.saturating_sub(SHOWN).min(bytes.len())..(self.at + SHOWN).min(bytes.len())];
        around.escape_ascii().to_string()
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

/// Reads one message strictly. Gives it as it may be forwarded: the same value, which no reader can split.
pub fn read(bytes: &[u8], framing: Framing) -> Result<Cow<'_, str>, Refusal> {
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|e| Refusal::unparsable(e.valid_up_to(), "it is not UTF-8"))?;
    let breaks = |byte: u8| framing == Framing::Document && matches!(byte, b'\n' | b'\r');
    if let Some(at) = bytes.iter().position(|byte| *byte < b' ' && *byte != b'\t' && !breaks(*byte)) {
        let what = if matches!(bytes[at], b'\n' | b'\r') { "a line break" } else { "a raw control character" };
        return Err(Refusal::unparsable(at, format!("it holds {what}")));
    }
    let raw: &RawValue = serde_json::from_str(text).map_err(|e| unparsable(text, &e))?;
    check_escapes(text)?;
    check_members(text, raw, 0)?;
    Ok(unsplittable(text))
}

/// Refuses half of a surrogate pair: readers drop it, replace it, keep it, or refuse the text that it stands in.
fn check_escapes(text: &str) -> Result<(), Refusal> {
    let bytes = text.as_bytes();
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut at = 0;
    // In valid JSON a backslash begins an escape, wherever it stands.
    while let Some(next) = bytes[at..].iter().position(|byte| *byte == b'\\') {
        at += next;
        at += match (unit(at), unit(at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => return Err(Refusal::unparsable(at, "it holds half of a surrogate pair")),
            _ => 2,
        };
    }
    Ok(())
}

/// Replaces what some readers split lines at: in strings by an escape, between tokens by a space.
fn unsplittable(text: &str) -> Cow<'_, str> {
    let splits = |c: char| matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}');
    if !text.bytes().any(|byte| matches!(byte, b'\n' | b'\r' | 0xc2 | 0xe2)) || !text.contains(splits) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            // Strict JSON has none of these outside strings, and no raw break inside.
            '\n' | '\r' => out.push(' '),
            c if splits(c) => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

fn unparsable(text: &str, error: &serde_json::Error) -> Refusal {
    let words = error.to_string();
    let words = words.split(" at line ").next().unwrap_or_default();
    Refusal::unparsable(position(text, error), format!("it is not JSON: {words}"))
}

/// The byte at which the parser stopped.
fn position(text: &str, error: &serde_json::Error) -> usize {
    let before: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    (before + error.column().saturating_sub(1)).min(text.len())
}

/// Refuses two members of one name, at any depth.
fn check_members(whole: &str, raw: &RawValue, depth: usize) -> Result<(), Refusal> {
    let text = raw.get();
    let begins = offset(whole, text);
    if depth > MAX_DEPTH {
        return Err(Refusal::new(begins, format!("it is nested more than {MAX_DEPTH} deep")));
    }
    match text.as_bytes().first() {
        Some(b'{') => {
            let Members(members) = serde_json::from_str(text)
                .map_err(|e| Refusal::new(begins + position(text, &e), "a member is there twice"))?;
            members.iter().try_for_each(|(_, value)| check_members(whole, value, depth + 1))
        }
        Some(b'[') => {
            let items: Vec<&RawValue> = serde_json::from_str(text).map_err(|e| unparsable(text, &e).shifted(begins))?;
            items.iter().try_for_each(|value| check_members(whole, value, depth + 1))
        }
        _ => Ok(()),
    }
}

/// The members of an object, in order. A name that is there twice is an error.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

/// The members of the object that `text` is, in order; `None` where it is none, or a name is there twice.
pub(crate) fn members(text: &str) -> Option<Vec<(Cow<'_, str>, &RawValue)>> {
    serde_json::from_str::<Members<'_>>(text).ok().map(|Members(members)| members)
}

/// A member's name, borrowed where it holds no escapes.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members: Vec<(Cow<'de, str>, &'de RawValue)> = Vec::new();
                let mut many: HashSet<Cow<'de, str>> = HashSet::new();
                while let Some(Name(name)) = map.next_key()? {
                    let twice = if members.len() < FEW_MEMBERS {
                        members.iter().any(|(known, _)| *known == name)
                    } else {
                        if many.is_empty() {
                            many.extend(members.iter().map(|(known, _)| known.clone()));
                        }
                        !many.insert(name.clone())
                    };
                    if twice {
                        return Err(A::Error::custom("twice"));
                    }
                    members.push((name, map.next_value()?));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Visit)
    }
}

/// What kind of message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Envelope {
    /// A request for a tool's result.
    Call,
    /// Any other request.
    Request,
    /// A notification.
    Notification,
    /// An answer.
    Answer,
}

impl Envelope {
    /// Checks one message that was [read](read) strictly.
    pub fn of(text: &str) -> Result<Self, Refusal> {
        let refused = |part: &str, why: &str| Refusal::new(offset(text, part), why);
        let Members(members) = serde_json::from_str(text).map_err(|_| Refusal::new(0, "a message is a JSON object"))?;
        if let Some((_, value)) = members.iter().find(|(name, _)| !MEMBERS.contains(&name.as_ref())) {
            return Err(refused(value.get(), "a JSON-RPC message has no such member"));
        }
        let get = |name: &str| members.iter().find(|(member, _)| member == name).map(|(_, value)| value.get());
        match get("jsonrpc") {
            Some("\"2.0\"") => {}
            Some(other) => return Err(refused(other, "\"jsonrpc\" must be \"2.0\"")),
            None => return Err(Refusal::new(0, "\"jsonrpc\": \"2.0\" is missing")),
        }
        let id = get("id");
        if let Some(id) = id.filter(|id| !is_id(id)) {
            return Err(refused(id, "an id is a text or an integer of 64 bits"));
        }
        let (result, error) = (get("result"), get("error"));
        let Some(method) = get("method") else {
            return match (id, result, error) {
                (Some(_), Some(_), None) | (Some(_), None, Some(_)) => Ok(Self::Answer),
                _ => Err(Refusal::new(0, "it is neither a request nor a notification nor an answer")),
            };
        };
        if let Some(extra) = result.or(error) {
            return Err(refused(extra, "a message with a method has neither a result nor an error"));
        }
        let name: String = serde_json::from_str(method).map_err(|_| refused(method, "a method is a text"))?;
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_/$.-".contains(&b)) {
            return Err(refused(method, "a method's name has only letters, digits and _ / $ . -"));
        }
        let params = get("params");
        if let Some(params) = params.filter(|params| !params.starts_with(['{', '['])) {
            return Err(refused(params, "parameters are an object or a list"));
        }
        if name != "tools/call" {
            if name.eq_ignore_ascii_case("tools/call") {
                return Err(refused(method, "a method's name is written in the case that the protocol gives it"));
            }
            return Ok(if id.is_some() { Self::Request } else { Self::Notification });
        }
        if id.is_none() {
            return Err(refused(method, "a tool call without an id cannot be answered"));
        }
        check_call(text, params)?;
        Ok(Self::Call)
    }
}

/// A call whose parameters every reader reads as we do.
fn check_call(text: &str, params: Option<&str>) -> Result<(), Refusal> {
    let Some(params) = params else { return Err(Refusal::new(0, "a tool call without parameters")) };
    let refused = |part: &str, why: &str| Refusal::new(offset(text, part), why);
    let Ok(Members(members)) = serde_json::from_str(params) else {
        return Err(refused(params, "the parameters of a tool call are an object"));
    };
    for (name, value) in &members {
        // Some readers (Go's encoding/json) match names in any case, and the last one counts.
        if CALL_MEMBERS.iter().any(|known| name != known && folded(name) == folded(known)) {
            return Err(refused(value.get(), "a member of the parameters is called almost like one of the protocol"));
        }
    }
    let get = |name: &str| members.iter().find(|(member, _)| member == name).map(|(_, value)| value.get());
    match get("name") {
        Some(name) if name.starts_with('"') => {}
        Some(other) => return Err(refused(other, "a tool's name is a text")),
        None => return Err(refused(params, "a tool call without the tool's name")),
    }
    match get("arguments") {
        None | Some("null") => Ok(()),
        Some(arguments) if arguments.starts_with('{') => Ok(()),
        Some(other) => Err(refused(other, "the arguments of a tool call are an object")),
    }
}

/// A name as readers that ignore case compare it: by Unicode's simple folding, under which `ſ` is `s` and the Kelvin sign is `k`.
pub(crate) fn folded(name: &str) -> String {
    name.chars()
        // Some readers trim names, or end them at a zero.
        .filter(|c| !c.is_control() && !c.is_whitespace())
        .map(|c| match c {
            '\u{17f}' => 's',
            '\u{212a}' => 'k',
            c => c.to_ascii_lowercase(),
        })
        .collect()
}

fn is_id(id: &str) -> bool {
    id.starts_with('"') || id.parse::<i64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        /// However many members there are, and however a name is written.
        #[test]
        fn a_name_that_is_there_twice_is_found(names in proptest::collection::vec(0..60_u8, 0..30), escaped: u32) {
            let written = |(n, name): (usize, &u8)| match escaped >> n & 1 {
                0 => format!("\"m{name}\":{n}"),
                _ => format!("\"\\u006d{name}\":{n}"),
            };
            let text = format!("{{{}}}", names.iter().enumerate().map(written).collect::<Vec<_>>().join(","));
            let different: HashSet<&u8> = names.iter().collect();
            let read = members(&text);
            proptest::prop_assert_eq!(read.is_some(), different.len() == names.len(), "{}", text);
            let kept: Option<Vec<String>> = read.map(|all| all.into_iter().map(|(name, _)| name.into_owned()).collect());
            let plain: Vec<String> = names.iter().map(|name| format!("m{name}")).collect();
            proptest::prop_assert!(kept.is_none_or(|kept| kept == plain));
        }
    }

    fn call(text: &str) -> Result<Envelope, Refusal> {
        let read = read(text.as_bytes(), Framing::Line)?;
        Envelope::of(&read)
    }

    #[test]
    fn what_readers_read_differently_is_refused_at_its_byte() {
        let wrapped = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\",\"params\":\r{\"a\":1}}";
        for (bytes, at, why) in [
            (wrapped.as_bytes(), wrapped.find('\r').unwrap(), "line break"),
            (b"{\"a\":\"\x01\"}", 6, "control character"),
            (b"{\"a\":NaN}", 5, "not JSON"),
            (b"{\"a\":\"\xff\"}", 6, "UTF-8"),
            (b"\xef\xbb\xbf{}", 0, "not JSON"),
            (b"{\"a\":1,\"a\":2}", 9, "twice"),
            (b"{\"a\":{\"b\":1,\"\\u0062\":2}}", 19, "twice"),
            (b"{} {}", 3, "not JSON"),
            (b"{\"a\":1}\0", 7, "control character"),
            (b"{\"a\":01}", 6, "not JSON"),
            (b"{\"a\":1,}", 7, "not JSON"),
            (b"/*x*/{}", 0, "not JSON"),
            (br#"{"a":"\\\ud83d\ude00 \ud83d"}"#, 21, "surrogate"),
            (br#"{"\udc00":1}"#, 2, "surrogate"),
            (br#"{"a":"\ud83d\ud83d"}"#, 6, "surrogate"),
        ] {
            let refusal = read(bytes, Framing::Line).unwrap_err();
            assert!(refusal.why.contains(why), "{refusal:?}");
            assert_eq!(refusal.at, at, "{refusal:?} in {}", bytes.escape_ascii());
            assert!(refusal.excerpt(bytes).is_ascii());
        }
        let deep = "[".repeat(70) + &"]".repeat(70);
        assert!(read(deep.as_bytes(), Framing::Line).unwrap_err().why.contains("nested"));
    }

    #[test]
    fn what_is_forwarded_cannot_be_split_and_is_the_same_value() {
        let text = "{\"a\":\"x\u{2028}\u{85}é\\r\"}\r";
        let read_line = read(text.as_bytes(), Framing::Line).unwrap();
        assert_eq!(read_line, "{\"a\":\"x\\u2028\\u0085é\\r\"}");
        let pretty = "{\r\n  \"a\": \"\\n\"\n}";
        assert!(read(pretty.as_bytes(), Framing::Line).is_err());
        let document = read(pretty.as_bytes(), Framing::Document).unwrap();
        assert!(!document.contains(['\n', '\r']));
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&document), value(pretty));
        assert_eq!(value(&read_line), value(text));
        assert!(matches!(read(b"{\"a\":\"\xc3\xa9\"}", Framing::Line), Ok(Cow::Borrowed(_))));
    }

    #[test]
    fn only_messages_of_the_protocol_pass() {
        let named = |params: &str| format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        assert_eq!(call(&named(r#"{"name":"t","arguments":{"Name":1}}"#)), Ok(Envelope::Call));
        assert_eq!(call(&named(r#"{"name":"t","arguments":null,"_meta":{}}"#)), Ok(Envelope::Call));
        assert_eq!(call(r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#), Ok(Envelope::Request));
        assert_eq!(call(r#"{"jsonrpc":"2.0","method":"notifications/x","params":[]}"#), Ok(Envelope::Notification));
        assert_eq!(call(r#"{"jsonrpc":"2.0","id":-7,"result":{}}"#), Ok(Envelope::Answer));
        for bad in [
            &named("7"),
            &named("[]"),
            &named("{}"),
            &named(r#"{"name":7}"#),
            &named(r#"{"name":"t","Name":"u"}"#),
            &named(r#"{"name":"t","argument\u017f":{}}"#),
            &named(r#"{"\u0000name":1,"name":"t"}"#),
            &named(r#"{"name":"t","arguments":[1]}"#),
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#,
            r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"t"}}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"t"}}"#,
            r#"{"jsonrpc":"2.0","id":1.0,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":9223372036854775808,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"Tools/Call","params":{"name":"t"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":" tools/call","params":{"name":"t"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call\u0000","params":{"name":"t"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":["tools/call"]}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
            r#"{"id":1,"method":"ping"}"#,
            "[]",
            "7",
        ] {
            assert!(call(bad).is_err(), "{bad}");
        }
    }
}
