//! A checker of well-formedness for the small part of XML that the charts use. Strict where a mistake would matter:
//! tags balance, attributes are quoted and unique and hold no raw `<` or `&`, text holds only known entities.

/// Every element as (name, attributes), in document order; or what is wrong.
pub type Elements = Vec<(String, Vec<(String, String)>)>;

pub fn check(document: &str) -> Result<Elements, String> {
    let mut open: Vec<String> = Vec::new();
    let mut found = Elements::new();
    let mut rest = document.trim_end();
    while let Some(start) = rest.find('<') {
        text(&rest[..start])?;
        if open.is_empty() && !rest[..start].trim().is_empty() {
            return Err(format!("text outside the root: {}", &rest[..start]));
        }
        let end = tag_end(&rest[start..])? + start;
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop().as_deref() != Some(name) {
                return Err(format!("</{name}> closes something else"));
            }
            continue;
        }
        if open.is_empty() && !found.is_empty() {
            return Err("two roots".into());
        }
        let (tag, empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Err(format!("strange element name {name:?}"));
        }
        found.push((name.into(), attributes_of(attributes)?));
        if !empty {
            open.push(name.into());
        }
    }
    if !rest.is_empty() || !open.is_empty() {
        return Err(format!("left open: {open:?}, left over: {rest:?}"));
    }
    Ok(found)
}

/// The end of the tag that `rest` begins with; a `>` inside quotes does not end it.
fn tag_end(rest: &str) -> Result<usize, String> {
    let mut quoted = false;
    for (index, character) in rest.char_indices() {
        match character {
            '"' => quoted = !quoted,
            '<' if index > 0 => return Err(format!("raw < in a tag: {}", &rest[..=index])),
            '>' if !quoted => return Ok(index),
            _ => {}
        }
    }
    Err("a tag without end".into())
}

fn attributes_of(mut rest: &str) -> Result<Vec<(String, String)>, String> {
    let mut found: Vec<(String, String)> = Vec::new();
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"").ok_or_else(|| format!("attribute without quotes: {rest}"))?;
        let (value, after) = after.split_once('"').ok_or_else(|| format!("value without end: {after}"))?;
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return Err(format!("strange attribute name {name:?}"));
        }
        if found.iter().any(|(other, _)| other == name) {
            return Err(format!("attribute {name} twice"));
        }
        text(value)?;
        found.push((name.into(), value.into()));
        rest = after.strip_prefix(' ').unwrap_or(after);
    }
    Ok(found)
}

fn text(text: &str) -> Result<(), String> {
    if let Some(control) = text.chars().find(|c| (c.is_control() && *c != '\n') || matches!(c, '\u{fffe}' | '\u{ffff}'))
    {
        return Err(format!("character {control:?} is not allowed"));
    }
    let known = ["amp;", "lt;", "gt;", "quot;", "#39;"];
    match text.match_indices('&').find(|(at, _)| !known.iter().any(|entity| text[at + 1..].starts_with(entity))) {
        Some((at, _)) => Err(format!("raw & before {:?}", text[at + 1..].chars().take(9).collect::<String>())),
        None => Ok(()),
    }
}

#[test]
fn the_checker_itself_finds_mistakes() {
    assert_eq!(check("<a b=\"1\"><c/>x &amp; y</a>\n").map(|found| found.len()), Ok(2));
    for wrong in [
        "<a>",
        "<a></b>",
        "<a/><b/>",
        "<a b=1/>",
        "<a b=\"<\"/>",
        "<a b=\"1\" b=\"2\"/>",
        "<a>&nbsp;</a>",
        "<a>\u{1}</a>",
        "x<a/>",
        "<a b=\"1\"onload=\"2\"c/>",
        "<a b=\"1/>",
    ] {
        assert!(check(wrong).is_err(), "{wrong}");
    }
}
