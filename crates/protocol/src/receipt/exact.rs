//! JSON compared digit for digit: the form of arguments and results that receipts commit to.
//!
//! Canonical JSON (RFC 8785) takes every number for a double, so 12345678901234567890 and 12345678901234567168 would be
//! one. Here an integer keeps its digits, however many; any other number is the double it stands for, so that `1.0`, `1e0`
//! and `1` are one value, as they are to whoever reads them. Members are sorted by name, in the order of code points.
//! Duplicate names are refused: two readers of such an object may see two different ones.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Deserializer, de::Visitor};
use serde_json::value::RawValue;

use super::Members;
use crate::Error;

/// Nesting that is looked into.
const MAX_DEPTH: usize = 64;
/// Doubles below it that have no fraction are integers, each of them another one.
const MAX_WHOLE: f64 = 9_007_199_254_740_992.0;

/// A JSON value whose numbers are still text.
#[derive(Debug, Clone, PartialEq)]
pub enum Exact<'a> {
    /// `null`, `true` or `false`.
    Word(&'a str),
    /// A number, in its one form.
    Number(Cow<'a, str>),
    /// A text.
    Text(Cow<'a, str>),
    /// A list.
    List(Vec<Exact<'a>>),
    /// An object.
    Object(Members<'a>),
}

impl<'a> Exact<'a> {
    /// Parses JSON text.
    pub fn parse(text: &'a str) -> Result<Self, Error> {
        let raw: &RawValue = serde_json::from_str(text).map_err(|e| Error::Malformed(e.to_string()))?;
        Self::of(raw)
    }

    /// Takes JSON apart that was parsed as a whole before.
    pub fn of(raw: &'a RawValue) -> Result<Self, Error> {
        Reader { text: raw.get(), at: 0, items: Vec::new(), members: Vec::new() }.value(0)
    }

    /// The number that a finite double is.
    pub fn double(double: f64) -> Result<Self, Error> {
        double_form(double).map(|form| Exact::Number(form.into()))
    }

    /// The member of an object.
    pub fn get(&self, name: &str) -> Option<&Exact<'a>> {
        match self {
            Exact::Object(members) => members.get(name),
            _ => None,
        }
    }

    /// The text, where it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Exact::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Exact::Word("null"))
    }

    /// The one text that stands for the value.
    pub fn canonical(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }

    pub(super) fn write(&self, out: &mut String) {
        match self {
            Exact::Word(word) => out.push_str(word),
            Exact::Number(number) => out.push_str(number),
            Exact::Text(text) => quote(text, out),
            Exact::List(items) => {
                out.push('[');
                for (n, item) in items.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    item.write(out);
                }
                out.push(']');
            }
            Exact::Object(members) => {
                out.push('{');
                for (n, (name, value)) in members.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    quote(name, out);
                    out.push(':');
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    /// Calls `leaf` with the path and canonical text of every value that holds no other, in order.
    pub fn leaves(&self, leaf: &mut dyn FnMut(&str, &str)) {
        self.walk(&mut String::new(), leaf);
    }

    fn walk(&self, path: &mut String, leaf: &mut dyn FnMut(&str, &str)) {
        let length = path.len();
        match self {
            Exact::Object(members) if !members.is_empty() => {
                for (name, value) in members {
                    if length > 0 {
                        path.push('.');
                    }
                    path.push_str(name);
                    value.walk(path, leaf);
                    path.truncate(length);
                }
            }
            Exact::List(items) if !items.is_empty() => {
                for (n, item) in items.iter().enumerate() {
                    path.push_str(&format!("[{n}]"));
                    item.walk(path, leaf);
                    path.truncate(length);
                }
            }
            _ => leaf(path, &self.canonical()),
        }
    }
}

/// Writes a text with its quotes, as serde_json does.
pub(super) fn quote(text: &str, out: &mut String) {
    // Some more where it is long: a large text with a few escapes would be moved to twice the memory.
    out.reserve(text.len() + text.len() / 16 + 2);
    out.push('"');
    let (bytes, mut done) = (text.as_bytes(), 0);
    while let Some(at) = next_escaped(bytes, done) {
        out.push_str(&text[done..at]);
        done = at + 1;
        match bytes[at] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            other => out.push_str(&format!("\\u{other:04x}")),
        }
    }
    out.push_str(&text[done..]);
    out.push('"');
}

/// Where the next byte stands that JSON escapes: a quote, a backslash, a control character. Eight bytes are looked at together.
fn next_escaped(bytes: &[u8], from: usize) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    let escaped = |byte: &u8| *byte < b' ' || matches!(byte, b'"' | b'\\');
    let (words, _) = bytes.get(from..)?.as_chunks::<8>();
    // The high bit of a byte that is below `least` (at most 0x80), and of some after it.
    let below = |word: u64, least: u8| word.wrapping_sub(ONES * u64::from(least)) & !word & HIGH;
    let equal = |word: u64, byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    let none = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word);
        below(word, b' ') | equal(word, b'"') | equal(word, b'\\') == 0
    };
    let plain = from + words.iter().take_while(|word| none(word)).count() * 8;
    Some(plain + bytes[plain..].iter().position(escaped)?)
}

/// Reads JSON that serde_json has found valid, in one pass.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// Of the lists and objects that are being read, one within the other: each gets as much memory as it needs once it was read.
    items: Vec<Exact<'a>>,
    members: Vec<(Cow<'a, str>, Exact<'a>)>,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Exact<'a>, Error> {
        if depth > MAX_DEPTH {
            return Err(Error::Malformed(format!("nested more than {MAX_DEPTH} deep")));
        }
        Ok(match self.peek() {
            Some(b'{') => Exact::Object(self.members(depth)?),
            Some(b'[') => {
                let first = self.items.len();
                self.at += 1;
                while !self.ends(b']')? {
                    let item = self.value(depth + 1)?;
                    self.items.push(item);
                }
                Exact::List(self.items.drain(first..).collect())
            }
            Some(b'"') => {
                let (inner, escaped) = self.quoted()?;
                Exact::Text(if escaped { unescaped(inner)?.into() } else { inner.into() })
            }
            Some(b'n' | b't' | b'f') => Exact::Word(self.bare()),
            _ => Exact::Number(number(self.bare())?),
        })
    }

    fn members(&mut self, depth: usize) -> Result<Members<'a>, Error> {
        let first = self.members.len();
        self.at += 1;
        while !self.ends(b'}')? {
            if self.peek() != Some(b'"') {
                return Err(self.unexpected());
            }
            let start = self.at;
            let (inner, escaped) = self.quoted()?;
            let name: Cow<'a, str> = match escaped {
                false => Cow::Borrowed(inner),
                true => {
                    let name: String = serde_json::from_str(&self.text[start..self.at]).map_err(malformed)?;
                    Cow::Owned(name)
                }
            };
            if self.peek() != Some(b':') {
                return Err(self.unexpected());
            }
            self.at += 1;
            let value = self.value(depth + 1)?;
            self.members.push((name, value));
        }
        Members::sorted(self.members.drain(first..).collect())
            .map_err(|name| Error::Malformed(format!("member '{name}' is there twice")))
    }

    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest.iter().position(|byte| !matches!(byte, b' ' | b'\n' | b'\r' | b'\t')).unwrap_or(rest.len());
        self.text.as_bytes().get(self.at).copied()
    }

    /// Passes a comma, or the end of a list or an object, and gives whether it was the end.
    fn ends(&mut self, end: u8) -> Result<bool, Error> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(false)
            }
            Some(byte) if byte == end => {
                self.at += 1;
                Ok(true)
            }
            Some(_) => Ok(false),
            None => Err(self.unexpected()),
        }
    }

    /// What stands between the quotes, and whether something in it is escaped.
    fn quoted(&mut self) -> Result<(&'a str, bool), Error> {
        let (start, bytes, mut escaped) = (self.at + 1, self.text.as_bytes(), false);
        let mut at = start;
        loop {
            at += next_mark(bytes.get(at..).unwrap_or_default()).ok_or_else(|| self.unexpected())?;
            if bytes[at] == b'"' {
                break;
            }
            (escaped, at) = (true, at + 2);
        }
        self.at = at + 1;
        Ok((&self.text[start..at], escaped))
    }

    /// A word or a number.
    fn bare(&mut self) -> &'a str {
        let rest = &self.text.as_bytes()[self.at..];
        let ends = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t');
        let length = rest.iter().position(ends).unwrap_or(rest.len());
        self.at += length;
        &self.text[self.at - length..self.at]
    }

    fn unexpected(&self) -> Error {
        Error::Malformed(format!("not JSON at byte {}", self.at))
    }
}

/// Where the next quote or backslash stands. Most texts are short, and a call of `memchr` takes longer than they do.
fn next_mark(bytes: &[u8]) -> Option<usize> {
    const NEAR: usize = 16;
    let (near, far) = bytes.split_at(bytes.len().min(NEAR));
    let marks = |byte: &u8| matches!(byte, b'"' | b'\\');
    near.iter().position(marks).or_else(|| memchr::memchr2(b'"', b'\\', far).map(|at| near.len() + at))
}

fn malformed(error: serde_json::Error) -> Error {
    Error::Malformed(error.to_string())
}

/// The text that stands for what is between quotes. Half a surrogate pair is replaced.
fn unescaped(inner: &str) -> Result<String, Error> {
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = memchr::memchr(b'\\', rest.as_bytes()) {
        let plain = match rest.as_bytes().get(at + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            // Pairs of surrogates, and halves of them.
            _ => return Ok(serde_json::from_str::<Lossy>(&format!("\"{inner}\"")).map_err(malformed)?.0),
        };
        text.push_str(&rest[..at]);
        text.push(plain);
        rest = &rest[at + 2..];
    }
    text.push_str(rest);
    Ok(text)
}

fn number(text: &str) -> Result<Cow<'_, str>, Error> {
    if !text.contains(['.', 'e', 'E']) {
        return Ok(Cow::Borrowed(if text == "-0" { "0" } else { text }));
    }
    let double: f64 = text.parse().map_err(|_| Error::Malformed(format!("'{text}' is not a number")))?;
    if !double.is_finite() {
        // No double stands for it: its digits do.
        return Ok(Cow::Borrowed(text));
    }
    double_form(double).map(Cow::Owned)
}

/// The form of a finite double (RFC 8785). Most numbers have a short one, which is written several times as fast.
pub(super) fn double_form(double: f64) -> Result<String, Error> {
    let size = double.abs();
    if double.fract() == 0.0 && size < MAX_WHOLE {
        // Exact: a double of this size is an integer of 64 bits. There is no -0.
        return Ok((double as i64).to_string());
    }
    if (1e-4..1e15).contains(&size) {
        return Ok(zmij::Buffer::new().format_finite(double).to_owned());
    }
    serde_json_canonicalizer::to_string(&double).map_err(|e| Error::Malformed(e.to_string()))
}

/// A text in which half a surrogate pair is replaced: tools that cut texts leave such, and clients read on.
struct Lossy(String);

impl<'de> Deserialize<'de> for Lossy {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl Visitor<'_> for Bytes {
            type Value = Lossy;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }
            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<Lossy, E> {
                Ok(Lossy(String::from_utf8_lossy(bytes).into_owned()))
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Lossy, E> {
                Ok(Lossy(text.to_owned()))
            }
        }
        d.deserialize_bytes(Bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canonical(text: &str) -> String {
        Exact::parse(text).unwrap().canonical()
    }

    proptest! {
        /// Eight bytes at once or one by one, from every place on.
        #[test]
        fn the_next_escaped_byte_is_found(
            bytes in prop::collection::vec(prop_oneof![8 => Just(b'a'), 4 => 0x80..=0xffu8, 1 => any::<u8>(), 1 => b'\x1e'..=b'#', 1 => Just(b'\\')], 0..48),
        ) {
            for from in 0..=bytes.len() + 1 {
                let escaped = |byte: &u8| *byte < b' ' || matches!(byte, b'"' | b'\\');
                let slow = bytes.get(from..).and_then(|rest| rest.iter().position(escaped)).map(|at| from + at);
                prop_assert_eq!(next_escaped(&bytes, from), slow, "from {}", from);
            }
        }

        /// A quoted text is read as itself.
        #[test]
        fn what_is_quoted_is_the_same_text(text in "[a-c\"\\\\\u{0}-\u{1f}\u{7f}-\u{a0}é天\u{2028}😀]{0,40}") {
            let mut quoted = String::new();
            quote(&text, &mut quoted);
            prop_assert_eq!(serde_json::from_str::<String>(&quoted).unwrap(), text.clone());
            prop_assert_eq!(canonical(&serde_json::to_string(&text).unwrap()), quoted);
        }
    }

    #[test]
    fn integers_keep_their_digits_and_other_numbers_their_value() {
        assert_eq!(canonical("12345678901234567890123"), "12345678901234567890123");
        assert_ne!(canonical("9007199254740993"), canonical("9007199254740992"));
        for (one, other) in
            [("1.0", "1"), ("1e3", "1000"), ("-0", "0"), ("-0.0", "0"), ("0.10", "0.1"), ("1E-2", "0.01")]
        {
            assert_eq!(canonical(one), canonical(other), "{one}");
        }
        assert_eq!(canonical("1e999"), "1e999");
    }

    #[test]
    fn order_white_space_and_escapes_make_no_difference() {
        let one = r#"{ "b" : [1, {"z":null,"a":true}], "a": "\u00e9\n\"" }"#;
        assert_eq!(canonical(one), "{\"a\":\"é\\n\\\"\",\"b\":[1,{\"a\":true,\"z\":null}]}");
        assert_eq!(canonical(&canonical(one)), canonical(one));
        assert_eq!(canonical(r#""cut \ud83d""#), canonical(r#""cut \ud83d""#), "half a pair is read, not refused");
    }

    #[test]
    fn what_two_readers_may_see_differently_is_refused() {
        assert!(Exact::parse(r#"{"a":1,"a":1}"#).unwrap_err().to_string().contains("'a' is there twice"));
        assert!(Exact::parse(r#"{"b":{"\u0061":1,"a":2}}"#).is_err());
        assert!(Exact::parse(&format!("{}1{}", "[".repeat(100), "]".repeat(100))).is_err());
        assert!(Exact::parse("{").is_err());
    }

    #[test]
    fn leaves_have_paths() {
        let mut seen = Vec::new();
        Exact::parse(r#"{"a":[{"b":1},[]],"c":"x"}"#)
            .unwrap()
            .leaves(&mut |path, leaf| seen.push(format!("{path}={leaf}")));
        assert_eq!(seen, ["a[0].b=1", "a[1]=[]", "c=\"x\""]);
    }

    #[test]
    fn escapes_are_read_and_written_as_serde_json_does() {
        let all: String = (0..0x80_u8).map(char::from).chain("é\u{2028}👩".chars()).collect();
        let (mut quoted, written) = (String::new(), serde_json::to_string(&all).unwrap());
        quote(&all, &mut quoted);
        assert_eq!(quoted, written);
        for text in [written.as_str(), r#""\/\u00e9\ud83d\udc69 \b\f\\\" \ud83d cut""#, r#""\\""#, r#""""#, r#""\\\"""#]
        {
            let exact = Exact::parse(text).unwrap();
            let read = serde_json::from_str::<Lossy>(text).unwrap().0;
            assert_eq!(exact.as_text(), Some(read.as_str()), "{text}");
        }
        let spaced = " { \"a\" : [ 1 , \"x, ]}\" , { } , [ ] , null ] ,\n\t\"\\u0062\" : true } ";
        assert_eq!(canonical(spaced), r#"{"a":[1,"x, ]}",{},[],null],"b":true}"#);
    }

    proptest! {
        /// The quick way gives the same text.
        #[test]
        fn doubles_have_the_form_of_rfc_8785(
            any in prop_oneof![
                prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL | prop::num::f64::ZERO, -1e3..1e3_f64, 1e14..1e16_f64,
                1e-5..1e-3_f64, (-100_000..100_000_i64).prop_map(|n| n as f64 / 100.0), any::<i64>().prop_map(|n| n as f64),
            ],
        ) {
            prop_assert_eq!(double_form(any).unwrap(), serde_json_canonicalizer::to_string(&any).unwrap());
        }

        /// Whatever serde_json writes, its form is the same however it was written, and parses back to the same value.
        #[test]
        fn the_form_is_stable(value in json()) {
            let (compact, pretty) = (value.to_string(), serde_json::to_string_pretty(&value).unwrap());
            let form = canonical(&compact);
            prop_assert_eq!(&form, &canonical(&pretty));
            prop_assert_eq!(&form, &canonical(&form));
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&form).unwrap(), value);
        }
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<u64>().prop_map(Into::into),
            ".*".prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
                prop::collection::btree_map(".*", inner, 0..6)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }
}
