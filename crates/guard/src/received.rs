//! What comes from the server, made safe to hand on: every reader sees one message in it, and the same one.
//!
//! Readers differ. Some split a line at a carriage return or at U+2028, some take the first of two members and some the last, some
//! read `NaN`, invalid UTF-8 or half a surrogate pair. [`receive`] therefore
//!
//! - refuses what is not exactly one JSON value, what has two members of one name at any depth, and what is nested without end;
//! - writes line breaks between tokens as spaces, and line separators inside texts as escapes: the value is the same;
//! - writes half a surrogate pair as the replacement character, as which receipts commit to it;
//! - removes members that JSON-RPC does not know from the message, and members called `credence/guard` at any depth: only a guard
//!   speaks under that name.
//!
//! A message that is fine leaves as the bytes that came.

use std::{borrow::Cow, collections::HashSet};

use credence_protocol::receipt::Exact;
use serde_json::{Value, value::RawValue};

use crate::{deliver::META_KEY, message::id_at_the_edges};

/// Nesting that is looked into.
const MAX_DEPTH: usize = 128;
/// Members of an object up to which names are compared one by one.
const FEW_MEMBERS: usize = 12;
/// Bytes of a text that are looked at one by one.
const NEAR_BYTES: usize = 16;
/// Pieces of an unreadable message in which an id is looked for.
const MAX_PIECES: usize = 64;
/// Ids of answers in a text that cannot be read.
const MAX_IDS: usize = 1_000;
/// Characters of an unreadable message that the operator sees.
const SHOWN: usize = 500;
/// The members of a JSON-RPC message.
const ENVELOPE: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// What came from the server.
#[derive(Debug, PartialEq)]
pub enum Received<'a> {
    /// JSON in which every reader sees the same.
    Message(Cow<'a, str>),
    /// Something that one reader may take for a message, and another for none or for another one.
    Unreadable {
        /// What is wrong with it. Holds no text of the message.
        why: String,
        /// The ids that some reader could see in it, as JSON.
        ids: Vec<String>,
        /// Its beginning, for the operator.
        shown: String,
    },
    /// White space.
    Nothing,
}

impl Received<'_> {
    /// Bytes of the message, where it is one.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Received::Message(text) => text.len(),
            Received::Unreadable { .. } | Received::Nothing => 0,
        }
    }
}

/// Takes in one message. With `repair` invalid UTF-8 is replaced as most readers replace it; without, it is refused.
pub fn receive(bytes: &[u8], repair: bool) -> Received<'_> {
    let text = match String::from_utf8_lossy(bytes) {
        Cow::Owned(text) if !repair => return unreadable(&text, "it is not UTF-8".to_owned()),
        text => text,
    };
    match text {
        Cow::Borrowed(text) => receive_text(text),
        Cow::Owned(text) => match receive_text(&text) {
            Received::Message(message) => Received::Message(Cow::Owned(message.into_owned())),
            Received::Unreadable { why, ids, shown } => Received::Unreadable { why, ids, shown },
            Received::Nothing => Received::Nothing,
        },
    }
}

/// The same of text.
pub fn receive_text(text: &str) -> Received<'_> {
    let trimmed = text.trim_matches([' ', '\t', '\r', '\n']);
    if trimmed.is_empty() {
        return Received::Nothing;
    }
    if let Err(error) = serde_json::from_str::<&RawValue>(trimmed) {
        let words = error.to_string();
        let words = words.split(" at line ").next().unwrap_or_default();
        return unreadable(trimmed, format!("it is not JSON: {words}"));
    }
    let bytes = trimmed.as_bytes();
    // The first bytes of U+0085, U+2028 and U+2029.
    let separators = memchr::memchr2(0xc2, 0xe2, bytes).is_some();
    let mut scan = Scan { text: trimmed, bytes, at: 0, separators, out: String::new(), copied: 0 };
    match scan.value(0, true) {
        Ok(()) => Received::Message(scan.finish()),
        Err(why) => unreadable(trimmed, why.to_owned()),
    }
}

fn unreadable<'a>(text: &str, why: String) -> Received<'a> {
    Received::Unreadable { why, ids: ids_in(text), shown: text.chars().take(SHOWN).collect() }
}

/// The ids of answers that some reader could see in a text.
fn ids_in(text: &str) -> Vec<String> {
    let splits = |c: char| c.is_control() && c != '\t' || matches!(c, '\u{2028}' | '\u{2029}');
    let mut ids: Vec<String> = Vec::new();
    let mut seen = HashSet::new();
    let mut add = |id: String| {
        if ids.len() < MAX_IDS && seen.insert(id.clone()) {
            ids.push(id);
        }
    };
    for piece in std::iter::once(text).chain(text.split(splits)).take(MAX_PIECES) {
        let piece = piece.trim();
        match serde_json::from_str::<Value>(piece) {
            Ok(Value::Array(items)) => items.iter().filter_map(id_of).for_each(&mut add),
            Ok(value) => id_of(&value).into_iter().for_each(&mut add),
            Err(_) => {}
        }
        if piece.starts_with('{') {
            id_at_the_edges(piece.as_bytes(), piece.as_bytes()).into_iter().for_each(&mut add);
        }
    }
    ids
}

fn id_of(message: &Value) -> Option<String> {
    message.get("id").filter(|id| id.is_string() || id.is_number()).map(ToString::to_string)
}

/// One walk over JSON that is known to be valid. What has to change is written to `out`.
struct Scan<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// There may be line separators in its strings.
    separators: bool,
    out: String,
    /// How much of the text is in `out`.
    copied: usize,
}

impl<'a> Scan<'a> {
    fn finish(mut self) -> Cow<'a, str> {
        if self.copied == 0 {
            return Cow::Borrowed(self.text);
        }
        self.out.push_str(&self.text[self.copied..]);
        Cow::Owned(self.out)
    }

    /// Puts `with` in the place of these bytes.
    fn replace(&mut self, from: usize, to: usize, with: &str) {
        self.out.push_str(&self.text[self.copied..from]);
        self.out.push_str(with);
        self.copied = to;
    }

    fn space(&mut self) {
        while let Some(byte @ (b' ' | b'\t' | b'\n' | b'\r')) = self.bytes.get(self.at) {
            if matches!(byte, b'\n' | b'\r') {
                self.replace(self.at, self.at + 1, " ");
            }
            self.at += 1;
        }
    }

    /// `envelope`: the value is a message, or a list of them.
    fn value(&mut self, depth: usize, envelope: bool) -> Result<(), &'static str> {
        if depth > MAX_DEPTH {
            return Err("it is nested too deep");
        }
        self.space();
        match self.bytes.get(self.at) {
            Some(b'{') => self.object(depth, envelope),
            Some(b'[') => self.list(depth, envelope),
            Some(b'"') => {
                self.string();
                Ok(())
            }
            _ => {
                let ends = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r');
                self.at += self.bytes[self.at..].iter().position(ends).unwrap_or(self.bytes.len() - self.at);
                Ok(())
            }
        }
    }

    fn list(&mut self, depth: usize, envelope: bool) -> Result<(), &'static str> {
        self.at += 1;
        loop {
            self.space();
            match self.bytes.get(self.at) {
                Some(b']') | None => break,
                Some(b',') => self.at += 1,
                _ => self.value(depth + 1, envelope && depth == 0)?,
            }
        }
        self.at += 1;
        Ok(())
    }

    fn object(&mut self, depth: usize, envelope: bool) -> Result<(), &'static str> {
        self.at += 1;
        let mut names = Names::default();
        // Where the last member that stays ends, and what was written until then.
        let mut kept_end = self.at;
        let mut written = (self.out.len(), self.copied);
        let mut any_kept = false;
        loop {
            self.space();
            match self.bytes.get(self.at) {
                Some(b'}') | None => break,
                Some(b',') => {
                    self.at += 1;
                    continue;
                }
                _ => {}
            }
            let name = self.name();
            // Some readers take a name in any case.
            let ours = name.len() >= META_KEY.len() && name.trim().eq_ignore_ascii_case(META_KEY);
            let foreign = ours || envelope && !ENVELOPE.contains(&name.as_ref());
            if !names.insert(name) {
                return Err("a member is there twice");
            }
            self.space();
            // The colon.
            self.at += 1;
            self.value(depth + 1, false)?;
            if !foreign {
                (kept_end, written, any_kept) = (self.at, (self.out.len(), self.copied), true);
                continue;
            }
            self.out.truncate(written.0);
            self.copied = written.1;
            let mut end = self.at;
            if !any_kept {
                // The first member that stays has no comma before it.
                let after = &self.bytes[end..];
                let space = after.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(after.len());
                end += if after.get(space) == Some(&b',') { space + 1 } else { 0 };
            }
            self.replace(kept_end, end, "");
            (self.at, kept_end) = (end, end);
            written = (self.out.len(), self.copied);
        }
        self.at += 1;
        Ok(())
    }

    /// A member's name.
    fn name(&mut self) -> Cow<'a, str> {
        let start = self.at;
        self.string();
        let quoted = &self.text[start..self.at];
        let plain = &quoted[1..quoted.len() - 1];
        if !plain.contains('\\') {
            return Cow::Borrowed(plain);
        }
        match Exact::parse(quoted) {
            Ok(Exact::Text(name)) => name,
            _ => Cow::Borrowed(plain),
        }
    }

    fn string(&mut self) {
        self.at += 1;
        loop {
            if !self.separators {
                self.at += plain_bytes(self.bytes.get(self.at..).unwrap_or_default());
            }
            match self.bytes.get(self.at) {
                None => return,
                Some(b'"') => {
                    self.at += 1;
                    return;
                }
                Some(b'\\') if self.bytes.get(self.at + 1) == Some(&b'u') => self.escape(),
                Some(b'\\') => self.at += 2,
                Some(0xc2) if self.bytes.get(self.at + 1) == Some(&0x85) => {
                    self.replace(self.at, self.at + 2, "\\u0085");
                    self.at += 2;
                }
                Some(0xe2) => {
                    let escape = match self.bytes.get(self.at + 1..self.at + 3) {
                        Some([0x80, 0xa8]) => Some("\\u2028"),
                        Some([0x80, 0xa9]) => Some("\\u2029"),
                        _ => None,
                    };
                    if let Some(escape) = escape {
                        self.replace(self.at, self.at + 3, escape);
                    }
                    self.at += 3;
                }
                _ => self.at += 1,
            }
        }
    }

    /// `\uXXXX`. Readers differ in what half a pair of surrogates is.
    fn escape(&mut self) {
        let unit = |at: usize| {
            let digits = self.bytes.get(at..at + 6).filter(|escape| escape.starts_with(b"\\u"))?;
            u32::from_str_radix(std::str::from_utf8(&digits[2..]).ok()?, 16).ok()
        };
        match unit(self.at) {
            Some(0xd800..=0xdbff) if matches!(unit(self.at + 6), Some(0xdc00..=0xdfff)) => self.at += 12,
            Some(0xd800..=0xdfff) => {
                self.replace(self.at, self.at + 6, "\\ufffd");
                self.at += 6;
            }
            _ => self.at += 6,
        }
    }
}

/// How many bytes come before the next quote or backslash. Most texts are short, and a call of `memchr` takes longer than they do.
fn plain_bytes(bytes: &[u8]) -> usize {
    let special = |byte: &u8| matches!(byte, b'"' | b'\\');
    let (near, far) = bytes.split_at(bytes.len().min(NEAR_BYTES));
    let further = || NEAR_BYTES + memchr::memchr2(b'"', b'\\', far).unwrap_or(far.len());
    near.iter().position(special).unwrap_or_else(|| if far.is_empty() { near.len() } else { further() })
}

/// The names of an object's members.
#[derive(Default)]
struct Names<'a> {
    few: Vec<Cow<'a, str>>,
    many: HashSet<Cow<'a, str>>,
}

impl<'a> Names<'a> {
    /// Whether it is new.
    fn insert(&mut self, name: Cow<'a, str>) -> bool {
        if self.many.is_empty() && self.few.len() < FEW_MEMBERS {
            if self.few.is_empty() {
                self.few.reserve_exact(FEW_MEMBERS);
            }
            let new = !self.few.contains(&name);
            self.few.push(name);
            return new;
        }
        self.many.extend(self.few.drain(..));
        self.many.insert(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(text: &str) -> String {
        match receive(text.as_bytes(), false) {
            Received::Message(message) => message.into_owned(),
            other => panic!("{text}: {other:?}"),
        }
    }

    fn refused(bytes: &[u8]) -> (String, Vec<String>) {
        match receive(bytes, false) {
            Received::Unreadable { why, ids, .. } => (why, ids),
            other => panic!("{}: {other:?}", bytes.escape_ascii()),
        }
    }

    #[test]
    fn nobody_else_speaks_under_the_guards_name_in_any_case() {
        let forged = r#"{"id":1,"error":{"data":{"Credence/Guard":{"x":1}," credence/guard":1,"y":2}}}"#;
        assert_eq!(message(forged), r#"{"id":1,"error":{"data":{"y":2}}}"#);
    }

    #[test]
    fn what_is_fine_leaves_as_it_came() {
        for text in [
            r#"{"jsonrpc":"2.0", "id" : 1,"result":{"a":[1,{"b":"\u00e9\ud83d\ude00é"}],"n":1.50e1,"t":true,"x":null}}"#,
            r#"[{"id":1,"result":{}},{"method":"x"}]"#,
            "7",
        ] {
            assert!(matches!(receive(text.as_bytes(), false), Received::Message(Cow::Borrowed(same)) if same == text));
        }
        assert_eq!(receive(b" \r\n", false), Received::Nothing);
    }

    #[test]
    fn no_reader_can_split_it() {
        let split = "{\"method\":\"n\",\"params\":\r{\"a\":\"x\u{2028}\u{85}\u{2029}\"}\n}\r";
        let safe = message(split);
        assert_eq!(safe, "{\"method\":\"n\",\"params\": {\"a\":\"x\\u2028\\u0085\\u2029\"} }");
        let value = |text: &str| serde_json::from_str::<Value>(text).unwrap();
        assert_eq!(value(&safe), value(split));
        assert_eq!(message(r#"{"result":"cut \ud83d"}"#), r#"{"result":"cut \ufffd"}"#);
    }

    #[test]
    fn what_readers_read_differently_is_refused_with_the_ids_in_it() {
        let two = "{\"method\":\"n\"}\r{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}";
        assert_eq!(refused(two.as_bytes()).1, ["7"]);
        assert_eq!(refused(br#"{"id":1,"result":{"x":NaN}}"#).1, ["1"]);
        assert_eq!(
            refused(br#"{"id":1,"result":{"a":{"b":1,"\u0062":2}}}"#),
            ("a member is there twice".into(), vec!["1".into()])
        );
        assert_eq!(refused(br#"{"id":1,"result":{},"id":2}"#).1, ["2", "1"]);
        assert_eq!(refused(b"{\"id\":\"a\",\"result\":{\"x\":\"\xff\"}}").1, ["\"a\""]);
        assert_eq!(refused(b"Starting up...").1, Vec::<String>::new());
        let deep = format!("{{\"id\":3,\"result\":{}{}}}", "[".repeat(50_000), "]".repeat(50_000));
        assert_eq!(refused(deep.as_bytes()).0, "it is nested too deep");
        let many: String = (0..40).map(|n| format!("\"m{n}\":1,")).collect();
        assert!(matches!(
            receive(format!("{{\"result\":{{{many}\"m3\":1}}}}").as_bytes(), false),
            Received::Unreadable { .. }
        ));
        assert!(
            matches!(receive(b"{\"id\":1,\"result\":\"\xff\"}", true), Received::Message(text) if text.contains('\u{fffd}'))
        );
    }

    #[test]
    fn only_a_guard_speaks_under_its_name() {
        for (text, expected) in [
            (
                r#"{"id":1,"result":{"_meta":{"credence\/guard":{"a":[1]},"x":1}}}"#,
                r#"{"id":1,"result":{"_meta":{"x":1}}}"#,
            ),
            (r#"{"id":1,"result":{"_meta":{"x":1, "credence/guard":{}}}}"#, r#"{"id":1,"result":{"_meta":{"x":1}}}"#),
            (r#"{"id":1,"error":{"data":{"\u0063redence/guard":"a\u2028"}}}"#, r#"{"id":1,"error":{"data":{}}}"#),
            (
                r#"{"method":"n","params":{"a":[{"credence/guard" : 1 , "b":{"credence/guard":2}}]}}"#,
                r#"{"method":"n","params":{"a":[{ "b":{}}]}}"#,
            ),
            (r#"{"Result":1,"id":2,"x":"y","result":{"x":1},"z":{"id":1}}"#, r#"{"id":2,"result":{"x":1}}"#),
            (r#"[{"y":1,"id":2}]"#, r#"[{"id":2}]"#),
            (r#"{"a":1,"b":2}"#, "{}"),
        ] {
            assert_eq!(message(text), expected, "{text}");
        }
        let text = r#"{"result":{"content":[{"type":"text","text":"{\"credence/guard\":1}"}]}}"#;
        assert_eq!(message(text), text, "a text is data");
    }

    /// JSON written by hand, with everything that a string can hold: escapes also at its ends, halves of pairs, line separators and the
    /// characters that begin with the same bytes.
    fn written() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            "[a-c €¢é天😀]{0,9}",
            Just("\\\"".to_owned()),
            Just("\\\\".to_owned()),
            Just("\\n".to_owned()),
            Just("\\u2028".to_owned()),
            Just("\\u00e9".to_owned()),
            Just("\\ud83d".to_owned()),
            Just("\\ude00".to_owned()),
            "[\u{85}\u{2027}-\u{202a}\u{80}\u{a0}]",
        ];
        let text = prop::collection::vec(part, 0..6).prop_map(|parts| format!("\"{}\"", parts.concat()));
        let leaf = prop_oneof![text.clone(), Just("1.50e1".to_owned()), Just("null".to_owned())];
        let space = || prop_oneof![Just(""), Just(" "), Just("\n"), Just("\r\n\t")];
        let value = leaf.prop_recursive(3, 24, 4, move |inner| {
            let item = (inner.clone(), space()).prop_map(|(value, space)| format!("{space}{value}{space}"));
            let member = (text.clone(), inner, space(), 0..9_999u32);
            let member =
                member.prop_map(|(name, value, space, n)| format!("\"{n}{}{space}:{space}{value}", &name[1..]));
            prop_oneof![
                prop::collection::vec(item, 0..4).prop_map(|items| format!("[{}]", items.join(","))),
                prop::collection::vec(member, 0..2).prop_map(|members| format!("{{{}}}", members.join(","))),
            ]
        });
        value.prop_map(|value| format!("{{\"result\":{value}}}"))
    }

    /// The same character by character: what has to change in a message of which every member stays.
    fn changed_by_characters(text: &str) -> String {
        let (mut out, mut inside) = (String::new(), false);
        let mut rest = text;
        let half = |text: &str| u32::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok();
        while let Some(c) = rest.chars().next() {
            let mut length = c.len_utf8();
            match c {
                '"' => {
                    inside = !inside;
                    out.push(c);
                }
                '\\' => match (half(rest), rest.get(6..).and_then(half)) {
                    (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => {
                        length = 12;
                        out.push_str(&rest[..length]);
                    }
                    (Some(0xd800..=0xdfff), _) => {
                        length = 6;
                        out.push_str("\\ufffd");
                    }
                    _ => {
                        length = 2;
                        out.push_str(&rest[..length]);
                    }
                },
                '\n' | '\r' if !inside => out.push(' '),
                '\u{85}' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
                c => out.push(c),
            }
            rest = &rest[length..];
        }
        out
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(Value::Null), any::<i64>().prop_map(Value::from), ".*".prop_map(Value::from)];
        leaf.prop_recursive(4, 32, 6, |inner| {
            let names = prop_oneof!["[a-c]", Just(META_KEY.to_owned()), ".{0,3}"];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(names, inner, 0..5).prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    fn without_guard(value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(without_guard).collect(),
            Value::Object(members) => {
                let others = members.iter().filter(|(name, _)| *name != META_KEY);
                others.map(|(name, member)| (name.clone(), without_guard(member))).collect()
            }
            other => other.clone(),
        }
    }

    proptest! {
        /// Looked at byte by byte or from one mark to the next, a message changes in the same places.
        #[test]
        fn strings_are_read_alike_however_fast(text in written()) {
            prop_assert!(serde_json::from_str::<&RawValue>(&text).is_ok(), "{}", text);
            let expected = changed_by_characters(&text);
            prop_assert_eq!(message(&text), expected.clone());
            let bytes = text.as_bytes();
            let mut scan = Scan { text: &text, bytes, at: 0, separators: true, out: String::new(), copied: 0 };
            prop_assert!(scan.value(0, true).is_ok());
            prop_assert_eq!(scan.finish(), expected);
        }

        /// Whatever JSON it is: the value stays but for what the guard's name holds, and no line break is left.
        #[test]
        fn the_value_stays(value in json(), pretty: bool) {
            let result = serde_json::json!({ "id": 1, "result": value });
            let text = if pretty { serde_json::to_string_pretty(&result).unwrap() } else { result.to_string() };
            let safe = message(&text);
            prop_assert_eq!(serde_json::from_str::<Value>(&safe).unwrap(), without_guard(&result));
            let splits = safe.contains(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']);
            prop_assert!(!splits);
            prop_assert_eq!(message(&safe), safe);
        }
    }
}
