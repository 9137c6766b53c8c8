//! JSON with comments and trailing commas.

use jsonc_parser::{CollectOptions, ParseOptions, ast::Value, common::Ranged, parse_to_ast};

use crate::tree::{List, Malformed, Map, Member, Text, Tree};

/// JSONC as the clients that allow comments read it; nothing of JSON5.
const JSONC: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// Reads the text from `skipped` on; `None` where there is no value.
pub(crate) fn read(text: &str, skipped: usize) -> Result<Option<Tree>, Malformed> {
    let parsed = parse_to_ast(&text[skipped..], &CollectOptions::default(), &JSONC)
        .map_err(|error| Malformed { at: skipped + error.range().start, why: error.kind().to_string() })?;
    Ok(parsed.value.map(|value| tree(&value, skipped)))
}

fn tree(value: &Value<'_>, skipped: usize) -> Tree {
    let range = skipped + value.start()..skipped + value.end();
    match value {
        Value::StringLit(literal) => Tree::Text(Text { value: literal.value.clone().into_owned(), range }),
        Value::Array(array) => {
            let items = array.elements.iter().map(|item| tree(item, skipped)).collect();
            Tree::List(List { range, in_brackets: true, items })
        }
        Value::Object(object) => {
            let members = object.properties.iter().map(|property| Member {
                name: property.name.as_str().to_owned(),
                at: skipped + property.name.start(),
                value: tree(&property.value, skipped),
            });
            Tree::Map(Map { start: range.start, in_braces: true, members: members.collect() })
        }
        _ => Tree::Other(range.start),
    }
}
