//! JSON in which no object has a key twice: two readers of such an object may see different values, and one of them is judged.

use std::{cell::RefCell, fmt};

use serde::{
    Deserializer,
    de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value, map::Entry};

/// Why it could not be read.
pub(crate) enum Unreadable {
    /// A key occurs twice: where, such as `result.items[3].price`.
    Twice(String),
    /// It is no JSON.
    NoJson(serde_json::Error),
}

/// Reads a value; `name` begins the place that an error names.
pub(crate) fn value(name: &str, bytes: &[u8]) -> Result<Value, Unreadable> {
    let place = RefCell::default();
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = Reader(&place).deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    read.map_err(|error| match place.into_inner() {
        Some(path) => Unreadable::Twice(format!("{name}{path}")),
        None => Unreadable::NoJson(error),
    })
}

/// Knows the path from the value at hand to a key that occurs twice.
#[derive(Clone, Copy)]
struct Reader<'a>(&'a RefCell<Option<String>>);

impl Reader<'_> {
    /// On the way out of a value in which a key occurs twice.
    fn within(self, step: impl FnOnce() -> String) {
        if let Some(path) = &mut *self.0.borrow_mut() {
            path.insert_str(0, &step());
        }
    }
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
    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }
    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }
    fn visit_f64<E>(self, v: f64) -> Result<Value, E> {
        Ok(Number::from_f64(v).map_or(Value::Null, Value::Number))
    }
    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::String(v.to_owned()))
    }
    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(Value::String(v))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            match seq.next_element_seed(self) {
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
        let mut members = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let place = match members.entry(key) {
                Entry::Vacant(place) => place,
                Entry::Occupied(known) => {
                    *self.0.borrow_mut() = Some(format!(".{}", known.key()));
                    return Err(A::Error::custom("a key occurs twice"));
                }
            };
            match map.next_value_seed(self) {
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
    fn a_key_that_occurs_twice_is_found_where_it_is() {
        for (text, place) in [
            (r#"{"a":1,"a":1}"#, "result.a"),
            (r#"{"items":[{},{"x":{"b":1,"\u0062":2}}]}"#, "result.items[1].x.b"),
            (r#"[[{"k":{"k":0},"k":1}]]"#, "result[0][0].k"),
        ] {
            let Err(Unreadable::Twice(at)) = value("result", text.as_bytes()) else { panic!("{text}") };
            assert_eq!(at, place);
        }
        for text in ["{\"a\":", "1 2", "nul", "{\"a\":[}"] {
            assert!(matches!(value("result", text.as_bytes()), Err(Unreadable::NoJson(_))), "{text}");
        }
    }

    #[test]
    fn everything_else_is_read_as_elsewhere() {
        for text in [
            r#"{"a":[1,-2,1e30,18446744073709551615,0.1,"x\n",null,true,{"b":{}}],"c":[{"a":1},{"a":2}]}"#,
            "\"a\"",
            "-0.0",
        ] {
            let expected: Value = serde_json::from_str(text).unwrap();
            assert_eq!(value("", text.as_bytes()).ok().unwrap(), expected);
        }
    }
}
