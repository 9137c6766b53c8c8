//! The text that patterns and length bounds see: like Python's `json.dumps(…, ensure_ascii=False)`, so that a profile means
//! the same from every language. A string result is itself.

use std::{borrow::Cow, fmt};

use serde_json::{Number, Value};

/// The text of a result.
pub(crate) fn text(value: &Value) -> Cow<'_, str> {
    if let Value::String(text) = value {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    write(value, &mut out);
    Cow::Owned(out)
}

/// The text's length in characters, without making it.
pub(crate) fn length(value: &Value) -> usize {
    match value {
        Value::String(text) => text.chars().count(),
        other => json_length(other),
    }
}

fn json_length(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(true) => 4,
        Value::Bool(false) => 5,
        Value::Number(number) => {
            // The digits are the same; finding them is what costs, and this finds them faster.
            if let Some(float) = number.as_f64().filter(|float| number.is_f64() && has_no_exponent(*float)) {
                return zmij::Buffer::new().format_finite(float).len();
            }
            let mut count = Count::default();
            // Counting cannot fail.
            let _ = write_number(number, &mut count);
            count.0
        }
        Value::String(text) => string_length(text),
        Value::Array(items) => {
            let separators = 2 * items.len().saturating_sub(1);
            2 + separators + items.iter().map(json_length).sum::<usize>()
        }
        Value::Object(members) => {
            let separators = 2 * members.len().saturating_sub(1);
            2 + separators
                + members.iter().map(|(key, member)| string_length(key) + 2 + json_length(member)).sum::<usize>()
        }
    }
}

fn string_length(text: &str) -> usize {
    // Continuation bytes are no characters of their own; escapes are two or six.
    let length = |b: u8| match b {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        0..=31 => 6,
        0x80..=0xbf => 0,
        _ => 1,
    };
    2 + text.bytes().map(length).sum::<usize>()
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        // Writing to a string cannot fail.
        Value::Number(number) => drop(write_number(number, out)),
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (n, item) in items.iter().enumerate() {
                if n > 0 {
                    out.push_str(", ");
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            // Sorted, so that the order of keys cannot influence a verdict whatever order the map keeps.
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_unstable_by_key(|(key, _)| *key);
            for (n, (key, member)) in sorted.into_iter().enumerate() {
                if n > 0 {
                    out.push_str(", ");
                }
                write_string(key, out);
                out.push_str(": ");
                write(member, out);
            }
            out.push('}');
        }
    }
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if u32::from(c) < 32 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

fn has_no_exponent(float: f64) -> bool {
    float == 0.0 || (1e-4..1e16).contains(&float.abs())
}

/// Python's `repr` of a number: exponents from 1e16 on and below 1e-4, with a sign and two digits.
fn write_number(number: &Number, out: &mut impl fmt::Write) -> fmt::Result {
    if let Some(integer) = number.as_i64() {
        return write!(out, "{integer}");
    }
    if let Some(integer) = number.as_u64() {
        return write!(out, "{integer}");
    }
    let Some(float) = number.as_f64() else { return write!(out, "{number}") };
    if has_no_exponent(float) {
        return write!(out, "{float:?}");
    }
    let scientific = format!("{float:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let sign = if exponent < 0 { '-' } else { '+' };
    write!(out, "{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

/// Counts what is written to it.
#[derive(Default)]
struct Count(usize);

impl fmt::Write for Count {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// Taken from CPython 3.11.
    #[test]
    fn equals_python() {
        for (value, expected) in [
            (json!({"a": [1, 2.0, -0.5], "b": null}), r#"{"a": [1, 2.0, -0.5], "b": null}"#),
            (
                json!([1e16, 1e15, 1e-5, 0.0001, 1.5e300, 123456789.125]),
                "[1e+16, 1000000000000000.0, 1e-05, 0.0001, 1.5e+300, 123456789.125]",
            ),
            (json!({"é": "ü\n\"\u{1}"}), "{\"é\": \"ü\\n\\\"\\u0001\"}"),
            (json!([]), "[]"),
            (json!({}), "{}"),
            (json!("plain \"text\""), "plain \"text\""),
            (json!(true), "true"),
        ] {
            assert_eq!(text(&value), expected);
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(".{0,6}", inner, 0..5).prop_map(|m| Value::Object(m.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn length_is_that_of_the_text(value in value()) {
            prop_assert_eq!(length(&value), text(&value).chars().count());
        }
    }
}
