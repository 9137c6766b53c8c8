//! JSON compared digit for digit: the form of arguments and results that receipts commit to.
//!
//! Canonical JSON (RFC 8785) takes every number for a double, so 12345678901234567890 and 12345678901234567168 would be
//! one. Here an integer keeps its digits, however many; any other number is the double it stands for, so that `1.0`, `1e0`
//! and `1` are one value, as they are to whoever reads them. Members are sorted by name, in the order of code points.
//! Duplicate names are refused: two readers of such an object may see two different ones.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::Error;

/// Nesting that is looked into.
const MAX_DEPTH: usize = 64;

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
    Object(BTreeMap<Cow<'a, str>, Exact<'a>>),
}

impl<'a> Exact<'a> {
    /// Parses JSON text.
    pub fn parse(text: &'a str) -> Result<Self, Error> {
        let raw: &RawValue = serde_json::from_str(text).map_err(|e| Error::Malformed(e.to_string()))?;
        Self::of(raw)
    }

    /// Takes JSON apart that was parsed as a whole before.
    pub fn of(raw: &'a RawValue) -> Result<Self, Error> {
        Self::at_depth(raw, 0)
    }

    fn at_depth(raw: &'a RawValue, depth: usize) -> Result<Self, Error> {
        if depth > MAX_DEPTH {
            return Err(Error::Malformed(format!("nested more than {MAX_DEPTH} deep")));
        }
        let text = raw.get();
        let malformed = |e: serde_json::Error| Error::Malformed(e.to_string());
        Ok(match text.as_bytes().first() {
            Some(b'{') => {
                let Members(members) = serde_json::from_str(text).map_err(malformed)?;
                let parts = members.into_iter().map(|(name, raw)| Ok((name, Self::at_depth(raw, depth + 1)?)));
                Exact::Object(parts.collect::<Result<_, Error>>()?)
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(text).map_err(malformed)?;
                let items = items.into_iter().map(|raw| Self::at_depth(raw, depth + 1));
                Exact::List(items.collect::<Result<_, Error>>()?)
            }
            Some(b'"') => Exact::Text(match plain(text) {
                Some(plain) => Cow::Borrowed(plain),
                None => serde_json::from_str::<Lossy>(text).map_err(malformed)?.0.into(),
            }),
            Some(b'n' | b't' | b'f') => Exact::Word(text),
            _ => Exact::Number(number(text)?),
        })
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

/// What stands between the quotes, where nothing is escaped.
fn plain(quoted: &str) -> Option<&str> {
    let inner = quoted.strip_prefix('"')?.strip_suffix('"')?;
    (!inner.contains('\\')).then_some(inner)
}

pub(super) fn quote(text: &str, out: &mut String) {
    if text.bytes().all(|b| b >= b' ' && b != b'"' && b != b'\\') {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        // A text always has a JSON form.
        out.push_str(&serde_json::to_string(text).unwrap_or_default());
    }
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
    serde_json_canonicalizer::to_string(&double).map(Cow::Owned).map_err(|e| Error::Malformed(e.to_string()))
}

/// The members of an object, each name once.
struct Members<'a>(BTreeMap<Cow<'a, str>, &'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = BTreeMap::new();
                while let Some((Name(name), value)) = map.next_entry::<Name<'de>, &'de RawValue>()? {
                    if let Some((name, _)) = members.get_key_value(&name) {
                        return Err(serde::de::Error::custom(format_args!("member '{name}' is there twice")));
                    }
                    members.insert(name, value);
                }
                Ok(Members(members))
            }
        }
        d.deserialize_map(Collect)
    }
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

/// A name, borrowed where nothing in it is escaped.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canonical(text: &str) -> String {
        Exact::parse(text).unwrap().canonical()
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

    proptest! {
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
