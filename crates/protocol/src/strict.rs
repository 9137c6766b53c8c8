//! Strict JSON: what canonical JSON would merge or drop in silence is refused before anything is signed or checked.
//!
//! Refused: duplicate keys (a parser keeps one of them, and two documents share a signature), integers beyond ±(2^53 − 1)
//! (they collide as doubles; send them as strings, RFC 7493 §2.2), nesting deeper than [`limits::MAX_JSON_DEPTH`],
//! trailing text, invalid UTF-8. A number with a fraction or an exponent is a double whatever its size, such as `1e30`, unless
//! canonical JSON would write it as an integer that is refused: it writes doubles below 10^21 in digits.
//!
//! What is judged and not signed needs less: [`unique`] refuses duplicate keys alone, because two readers of such an object may see
//! different values.

use std::{cell::RefCell, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value, map::Entry};

use crate::{Error, limits};

/// Parses any JSON value strictly.
pub fn value(bytes: &[u8]) -> Result<Value, Error> {
    typed::<StrictValue>(bytes).map(|strict| strict.0)
}

/// Parses a typed document strictly. Structs refuse duplicate fields by themselves; free-form parts must be
/// [`StrictValue`].
pub fn typed<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    if let Some(number) = unsafe_integer(bytes) {
        return Err(Error::Malformed(unsafe_number_text(number)));
    }
    serde_json::from_slice(bytes).map_err(|e| Error::Malformed(e.to_string()))
}

/// Why [`unique`] could not read something.
#[derive(Debug)]
pub enum Unreadable {
    /// A key occurs twice in its object: where, such as `result.items[3].price`.
    DuplicateKey(String),
    /// It is not JSON.
    NotJson(serde_json::Error),
}

/// Parses any JSON value in which no object has a key twice; `name` begins the place that an error names.
pub fn unique(name: &str, bytes: &[u8]) -> Result<Value, Unreadable> {
    let twice = RefCell::default();
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let whole = Reader { rules: Rules::UniqueKeys, depth: 0, twice: &twice };
    let read = whole.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    read.map_err(|error| match twice.into_inner() {
        Some(path) => Unreadable::DuplicateKey(format!("{name}{path}")),
        None => Unreadable::NotJson(error),
    })
}

/// For `#[serde(default, deserialize_with)]`: an optional field is present or absent, never `null`, because `null` would
/// vanish from the canonical form while its author signed it.
pub fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<Option<T>, D::Error> {
    T::deserialize(d).map(Some)
}

/// A typed document that must be a JSON object. Derived structs take a list of their fields by position as well, which no
/// author of a document means.
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Members<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = T;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(de::value::MapAccessDeserializer::new(map))
            }
        }
        d.deserialize_any(Members(std::marker::PhantomData)).map(Object)
    }
}

/// Parses a typed document strictly that must be a JSON object.
pub fn object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    typed::<Object<T>>(bytes).map(|Object(document)| document)
}

/// A JSON value that went through the strict rules.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(transparent)]
pub struct StrictValue(pub Value);

impl<'de> Deserialize<'de> for StrictValue {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Reader { rules: Rules::Strict, depth: 0, twice: &RefCell::default() }.deserialize(d).map(StrictValue)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Rules {
    /// All of them.
    Strict,
    /// No key twice.
    UniqueKeys,
}

/// Builds a value by the rules.
#[derive(Clone, Copy)]
struct Reader<'a> {
    rules: Rules,
    depth: usize,
    /// The path from the value at hand to a key that occurs twice.
    twice: &'a RefCell<Option<String>>,
}

impl Reader<'_> {
    fn deeper<E: de::Error>(self) -> Result<Self, E> {
        if self.rules == Rules::Strict && self.depth == limits::MAX_JSON_DEPTH {
            return Err(E::custom(format!("nested deeper than {} levels", limits::MAX_JSON_DEPTH)));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }

    fn is_safe(self, integer: u64) -> bool {
        self.rules == Rules::UniqueKeys || integer <= limits::MAX_SAFE_INTEGER
    }

    /// On the way out of a value in which a key occurs twice.
    fn within(self, step: impl FnOnce() -> String) {
        if let Some(path) = &mut *self.twice.borrow_mut() {
            path.insert_str(0, &step());
        }
    }
}

fn unsafe_number_text(number: impl fmt::Display) -> String {
    format!("number {number} is beyond ±(2^53 − 1) and would not survive as a double: send it as a string")
}

fn unsafe_number<E: de::Error>(number: impl fmt::Display) -> E {
    E::custom(unsafe_number_text(number))
}

/// From here on canonical JSON writes a double with an exponent (ECMAScript, `Number::toString`).
const FIRST_WITH_EXPONENT: f64 = 1e21;
/// Digits of an integer that cannot be beyond 2^53.
const SAFE_DIGITS: usize = 15;
/// Characters of a number that an error repeats.
const MAX_SHOWN: usize = 40;

/// The first integer written as digits that is beyond ±(2^53 − 1). The parser gives integers past 64 bits as doubles, and then nobody
/// can tell `1e30` from its digits: so the text is looked at.
fn unsafe_integer(bytes: &[u8]) -> Option<String> {
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => at += string_length(&bytes[at..]),
            b'0'..=b'9' => {
                let part = |b: &&u8| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
                let number = &bytes[at..at + bytes[at..].iter().take_while(part).count()];
                if number.len() > SAFE_DIGITS && number.iter().all(u8::is_ascii_digit) {
                    let text = String::from_utf8_lossy(number);
                    if text.parse::<u64>().map_or(true, |value| value > limits::MAX_SAFE_INTEGER) {
                        let rest = if text.len() > MAX_SHOWN { "…" } else { "" };
                        return Some(format!("{}{rest}", text.chars().take(MAX_SHOWN).collect::<String>()));
                    }
                }
                at += number.len();
            }
            _ => at += 1,
        }
    }
    None
}

/// The length of the string that starts here, with its quotes; to the end where it is not closed, which the parser tells.
fn string_length(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }
    fn visit_u64<E: de::Error>(self, v: u64) -> Result<Value, E> {
        if self.is_safe(v) { Ok(Value::Number(v.into())) } else { Err(unsafe_number(v)) }
    }
    fn visit_i64<E: de::Error>(self, v: i64) -> Result<Value, E> {
        if self.is_safe(v.unsigned_abs()) { Ok(Value::Number(v.into())) } else { Err(unsafe_number(v)) }
    }
    fn visit_f64<E: de::Error>(self, v: f64) -> Result<Value, E> {
        // Integers past u64 arrive here as doubles too: they were refused before the text was parsed.
        let in_digits = v.abs() > limits::MAX_SAFE_INTEGER as f64 && v.abs() < FIRST_WITH_EXPONENT;
        if self.rules == Rules::Strict && in_digits {
            return Err(unsafe_number(v));
        }
        let number = Number::from_f64(v).ok_or_else(|| E::custom("a number that is not finite"))?;
        Ok(Value::Number(number))
    }
    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::String(v.to_owned()))
    }
    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(Value::String(v))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let deeper = self.deeper()?;
        let mut items = Vec::new();
        loop {
            match seq.next_element_seed(deeper) {
                Ok(Some(item)) => items.push(item),
                Ok(None) => return Ok(Value::Array(items)),
                Err(error) => {
                    self.within(|| format!("[{}]", items.len()));
                    return Err(error);
                }
            }
        }
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let deeper = self.deeper()?;
        let mut members = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let place = match members.entry(key) {
                Entry::Vacant(place) => place,
                Entry::Occupied(known) => {
                    *self.twice.borrow_mut() = Some(format!(".{}", known.key()));
                    return Err(de::Error::custom(format!("duplicate key \"{}\"", known.key())));
                }
            };
            match map.next_value_seed(deeper) {
                Ok(member) => {
                    place.insert(member);
                }
                Err(error) => {
                    self.within(|| format!(".{}", place.key()));
                    return Err(error);
                }
            }
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_canonical_json_would_hide() {
        for (bad, why) in [
            (r#"{"a":1,"a":2}"#, "duplicate key \"a\""),
            (r#"{"x":{"b":1,"\u0062":2}}"#, "duplicate key \"b\""),
            ("9007199254740993", "2^53"),
            ("-9007199254740993", "2^53"),
            ("36893488147419103232", "2^53"),
            ("1000000000000000000000000000000", "2^53"),
            ("[-1000000000000000000000000000000]", "2^53"),
            ("1e20", "2^53"),
            ("9007199254740993.0", "2^53"),
            ("1e999", "out of range"),
            ("{\"a\":1} x", "trailing"),
            ("{\"a\":", "EOF"),
            ("\"\\ud800\"", "hex escape"),
            ("NaN", "expected"),
        ] {
            let error = value(bad.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(why), "{bad}: {error}");
        }
        assert!(value(b"\"\xff\"").is_err());
        assert!(value(b"9007199254740991").is_ok());
        assert!(value(br#""9007199254740993 \" 9007199254740993""#).is_ok(), "a text is no number");
    }

    #[test]
    fn doubles_of_any_size_are_taken_and_survive_their_canonical_form() {
        for (written, canonical) in [
            ("1e30", "1e+30"),
            ("-1e300", "-1e+300"),
            ("1E21", "1e+21"),
            ("1.5e-9", "1.5e-9"),
            ("123456789012345.75", "123456789012345.75"),
        ] {
            let first = value(format!(r#"{{"x":[{written}]}}"#).as_bytes()).unwrap();
            let text = crate::Canonical::of(&first).unwrap();
            assert_eq!(text.as_str(), format!(r#"{{"x":[{canonical}]}}"#));
            assert_eq!(value(text.as_bytes()).unwrap(), first, "what is stored can be read again");
        }
    }

    #[test]
    fn a_key_that_occurs_twice_is_found_where_it_is() {
        for (text, place) in [
            (r#"{"a":1,"a":1}"#, "result.a"),
            (r#"{"items":[{},{"x":{"b":1,"\u0062":2}}]}"#, "result.items[1].x.b"),
            (r#"[[{"k":{"k":0},"k":1}]]"#, "result[0][0].k"),
        ] {
            let Err(Unreadable::DuplicateKey(at)) = unique("result", text.as_bytes()) else { panic!("{text}") };
            assert_eq!(at, place);
        }
        for text in ["{\"a\":", "1 2", "nul", "{\"a\":[}"] {
            assert!(matches!(unique("result", text.as_bytes()), Err(Unreadable::NotJson(_))), "{text}");
        }
    }

    #[test]
    fn where_only_keys_must_be_unique_everything_else_is_read_as_elsewhere() {
        for text in [
            r#"{"a":[1,-2,1e30,1e20,18446744073709551615,0.1,"x\n",null,true,{"b":{}}],"c":[{"a":1},{"a":2}]}"#,
            "\"a\"",
            "-0.0",
        ] {
            let expected: Value = serde_json::from_str(text).unwrap();
            assert_eq!(unique("", text.as_bytes()).unwrap(), expected);
        }
        let deep = "[".repeat(limits::MAX_JSON_DEPTH + 1) + &"]".repeat(limits::MAX_JSON_DEPTH + 1);
        assert!(unique("", deep.as_bytes()).is_ok());
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(value(nested(limits::MAX_JSON_DEPTH).as_bytes()).is_ok());
        assert!(value(nested(limits::MAX_JSON_DEPTH + 1).as_bytes()).is_err());
        assert!(value(nested(100_000).as_bytes()).is_err());
    }
}
