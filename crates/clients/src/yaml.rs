//! YAML, as goose and Continue have it. Only places are taken from the parser; what is edited is spliced into the text, so comments stay.

use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use crate::tree::{List, Malformed, Map, Member, Text, Tree};

/// How deep lists and maps may be nested.
const MAX_DEPTH: usize = 64;

/// A list or a map that has not ended.
enum Open {
    List(List),
    /// With the name of the member whose value comes next.
    Map(Map, Option<(String, usize)>),
}

/// Reads the first document of the text from `skipped` on.
pub(crate) fn read(text: &str, skipped: usize) -> Result<Option<Tree>, Malformed> {
    // The parser counts characters.
    let inner = &text[skipped..];
    let mut bytes: Vec<usize> = inner.char_indices().map(|(at, _)| skipped + at).collect();
    bytes.push(text.len());
    let byte = |index: usize| bytes[index.min(bytes.len() - 1)];
    let malformed = |at: usize, why: &str| Malformed { at, why: why.to_owned() };
    let mut open: Vec<Open> = Vec::new();
    let mut root = None;
    for event in Parser::new_from_str(inner) {
        let (event, span) = event.map_err(|error| malformed(byte(error.marker().index()), error.info()))?;
        let mut range = range(text, &span, &byte);
        if let Event::Scalar(_, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted, ..) = event {
            // The parser's span goes on to a comment behind the quotes.
            range.end = range.start + quoted_bytes(&text[range.start..]);
        }
        let value = match event {
            Event::DocumentStart(_) if root.is_some() => return Err(malformed(range.start, "a second document")),
            Event::Scalar(value, style, ..) => {
                let written = &text[range.clone()];
                let plain = matches!(style, ScalarStyle::Plain | ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted);
                // What looks like a number or a flag is none of ours; texts over several lines are not edited.
                let is_text = plain && !written.contains('\n') && (style != ScalarStyle::Plain || is_word(written));
                if let Some(Open::Map(_, name @ None)) = open.last_mut() {
                    *name = Some((value.into_owned(), range.start));
                    continue;
                }
                if is_text { Tree::Text(Text { value: value.into_owned(), range }) } else { Tree::Other(range.start) }
            }
            Event::Alias(_) => Tree::Other(range.start),
            Event::SequenceStart(..) | Event::MappingStart(..) if open.len() >= MAX_DEPTH => {
                return Err(malformed(range.start, "nested too deep"));
            }
            Event::SequenceStart(..) => {
                let in_brackets = text[range.start..].starts_with('[');
                open.push(Open::List(List { range, in_brackets, items: Vec::new() }));
                continue;
            }
            Event::MappingStart(..) => {
                if let Some(Open::Map(_, None)) = open.last() {
                    return Err(malformed(range.start, "a name that is not a text"));
                }
                let in_braces = text[range.start..].starts_with('{');
                open.push(Open::Map(Map { start: range.start, in_braces, members: Vec::new() }, None));
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(Open::List(mut list)) => {
                    list.range.end = range.end.max(list.range.start);
                    Tree::List(list)
                }
                Some(Open::Map(map, _)) => Tree::Map(map),
                None => continue,
            },
            _ => continue,
        };
        match open.last_mut() {
            Some(Open::List(list)) => list.items.push(value),
            Some(Open::Map(map, name)) => match name.take() {
                Some((name, at)) => map.members.push(Member { name, at, value }),
                None => return Err(malformed(value.start(), "a name that is not a text")),
            },
            None => root = Some(value),
        }
    }
    Ok(root)
}

/// The bytes of a span, without white space at its end.
fn range(text: &str, span: &Span, byte: &dyn Fn(usize) -> usize) -> Range<usize> {
    let (start, end) = (byte(span.start.index()), byte(span.end.index()));
    let end = end.max(start);
    start..start + text[start..end].trim_end().len()
}

/// How long the text in quotes is with which `text` begins, quotes included.
fn quoted_bytes(text: &str) -> usize {
    let mut bytes = text.bytes().enumerate();
    let quote = bytes.next().map_or(b'"', |(_, quote)| quote);
    while let Some((at, byte)) = bytes.next() {
        if byte == b'\\' && quote == b'"' {
            bytes.next();
        } else if byte == quote {
            // Within single quotes one is written twice.
            if quote == b'\'' && text.as_bytes().get(at + 1) == Some(&quote) {
                bytes.next();
            } else {
                return at + 1;
            }
        }
    }
    text.len()
}

/// Whether a plain scalar is a text, as YAML 1.2's core schema and the older one both have it.
fn is_word(written: &str) -> bool {
    let lower = written.to_ascii_lowercase();
    let words = ["", "~", "null", "true", "false", "yes", "no", "on", "off", ".nan", ".inf", "-.inf", "+.inf"];
    let number = written.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))
        && written.contains(|c: char| c.is_ascii_digit())
        && written.chars().all(|c| c.is_ascii_hexdigit() || "+-._xo:".contains(c));
    !words.contains(&lower.as_str()) && !number && !written.starts_with(['!', '&', '*'])
}
