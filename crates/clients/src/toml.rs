//! TOML, as Codex has it.

use ::toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use crate::tree::{List, Malformed, Map, Member, Text, Tree};

/// Reads the text from `skipped` on.
pub(crate) fn read(text: &str, skipped: usize) -> Result<Option<Tree>, Malformed> {
    let parsed = DeTable::parse(&text[skipped..]).map_err(|error| Malformed {
        at: skipped + error.span().map_or(0, |span| span.start),
        why: error.message().to_owned(),
    })?;
    Ok(Some(Tree::Map(map(parsed.get_ref(), skipped, text, skipped))))
}

fn map(table: &DeTable<'_>, start: usize, text: &str, skipped: usize) -> Map {
    let member = |(name, value): (&Spanned<_>, _)| {
        let name: &Spanned<std::borrow::Cow<'_, str>> = name;
        Member { name: name.get_ref().to_string(), at: skipped + name.span().start, value: tree(value, text, skipped) }
    };
    let mut members: Vec<Member> = table.iter().map(member).collect();
    // The parser sorts them by name.
    members.sort_by_key(|member| member.at);
    Map { start, in_braces: text[start..].starts_with('{'), members }
}

fn tree(value: &Spanned<DeValue<'_>>, text: &str, skipped: usize) -> Tree {
    let range = skipped + value.span().start..skipped + value.span().end;
    match value.get_ref() {
        // Not one of several lines.
        DeValue::String(string) if !text[range.clone()].contains('\n') => {
            Tree::Text(Text { value: string.to_string(), range })
        }
        // Tables under a header in double brackets are a list that is in no brackets of its own.
        DeValue::Array(items) if text[range.clone()].starts_with('[') && !text[range.clone()].starts_with("[[") => {
            let items = items.iter().map(|item| tree(item, text, skipped)).collect();
            Tree::List(List { range, in_brackets: true, items })
        }
        DeValue::Table(table) => Tree::Map(map(table, range.start, text, skipped)),
        _ => Tree::Other(range.start),
    }
}
