//! Templates: `{name}` in a text is replaced by the trial's value of that name. `{{` and `}}` are braces.

use serde_json::Value;

/// A piece of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    Name(&'a str),
}

/// Why a text is no template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// Write `{{` for a brace.
    #[error("a single '{{' or '}}': write '{{{{' or '}}}}' for a brace in the text")]
    Brace,
    /// There is no value of that name.
    #[error("there is no value '{{{0}}}'")]
    Unknown(String),
}

fn pieces(text: &str) -> Result<Vec<Piece<'_>>, TemplateError> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, brace) = rest.split_at(at);
        found.push(Piece::Text(before));
        if brace.starts_with("{{") || brace.starts_with("}}") {
            found.push(Piece::Text(&brace[..1]));
            rest = &brace[2..];
            continue;
        }
        let (name, after) =
            brace.strip_prefix('{').and_then(|inner| inner.split_once('}')).ok_or(TemplateError::Brace)?;
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if name.is_empty() || !name.chars().all(plain) {
            return Err(TemplateError::Brace);
        }
        found.push(Piece::Name(name));
        rest = after;
    }
    found.push(Piece::Text(rest));
    Ok(found)
}

/// The names in a template.
pub fn names(text: &str) -> Result<Vec<&str>, TemplateError> {
    let names = pieces(text)?.into_iter().filter_map(|piece| match piece {
        Piece::Name(name) => Some(name),
        Piece::Text(_) => None,
    });
    Ok(names.collect())
}

/// Fills a template.
pub fn fill(text: &str, value: impl Fn(&str) -> Option<String>) -> Result<String, TemplateError> {
    let mut filled = String::with_capacity(text.len());
    for piece in pieces(text)? {
        match piece {
            Piece::Text(text) => filled.push_str(text),
            Piece::Name(name) => {
                filled.push_str(&value(name).ok_or_else(|| TemplateError::Unknown(name.to_owned()))?);
            }
        }
    }
    Ok(filled)
}

/// Fills all strings of a JSON value.
pub fn fill_json(template: &Value, value: &impl Fn(&str) -> Option<String>) -> Result<Value, TemplateError> {
    Ok(match template {
        Value::String(text) => Value::String(fill(text, value)?),
        Value::Array(items) => Value::Array(items.iter().map(|item| fill_json(item, value)).collect::<Result<_, _>>()?),
        Value::Object(members) => {
            let filled = members.iter().map(|(name, member)| Ok((name.clone(), fill_json(member, value)?)));
            Value::Object(filled.collect::<Result<_, _>>()?)
        }
        other => other.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_and_braces_are_kept() {
        let value = |name: &str| (name == "half_a").then(|| "xyz".to_owned());
        assert_eq!(fill("a {half_a} b {{7*7}} {{{half_a}}}", value).unwrap(), "a xyz b {7*7} {xyz}");
        assert_eq!(names("{half_a}{{no}}{half_b}").unwrap(), ["half_a", "half_b"]);
        assert_eq!(fill("{half_c}", value), Err(TemplateError::Unknown("half_c".into())));
        for bad in ["{", "}", "a { b }", "{}", "{Half}", "x}"] {
            assert_eq!(fill(bad, value), Err(TemplateError::Brace), "{bad}");
        }
    }
}
