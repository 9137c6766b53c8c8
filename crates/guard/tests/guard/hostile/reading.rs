//! Readers that are lenient in several ways: what some client could find in the bytes that it gets.

/// A value as it was written: members in order, two of one name where there are two.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    Text(String),
    /// A number or a word, as written.
    Word(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// In which of the ways that readers differ.
#[derive(Debug, Clone, Copy)]
pub struct Leniency {
    /// What lines end at, besides line feeds.
    pub breaks: &'static [char],
    /// Of two members of one name the first counts; otherwise the last.
    pub first: bool,
    /// Names are the same in any case.
    pub any_case: bool,
}

/// The ways that are tried.
pub const ALL: [Leniency; 6] = [
    Leniency { breaks: &[], first: false, any_case: false },
    Leniency { breaks: &[], first: true, any_case: false },
    Leniency { breaks: &['\r'], first: false, any_case: true },
    Leniency { breaks: &['\r'], first: true, any_case: true },
    Leniency { breaks: &SEPARATORS, first: false, any_case: false },
    Leniency { breaks: &SEPARATORS, first: true, any_case: true },
];
const SEPARATORS: [char; 9] = ['\r', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}', '\u{2029}'];

impl Json {
    /// A member, as a reader of this leniency finds it.
    pub fn get(&self, name: &str, how: Leniency) -> Option<&Json> {
        let Json::Object(members) = self else { return None };
        let mut same = members.iter().filter(|(member, _)| match how.any_case {
            true => member.trim().eq_ignore_ascii_case(name),
            false => member == name,
        });
        if how.first { same.next() } else { same.next_back() }.map(|(_, value)| value)
    }

    pub fn text(&self) -> Option<&str> {
        if let Json::Text(text) = self { Some(text) } else { None }
    }

    /// Every text in it, names included, as a reader of this leniency sees them.
    pub fn texts(&self, how: Leniency, each: &mut dyn FnMut(&str)) {
        match self {
            Json::Text(text) | Json::Word(text) => each(text),
            Json::List(items) => items.iter().for_each(|item| item.texts(how, each)),
            Json::Object(members) => {
                for (name, value) in members {
                    each(name);
                    if self
                        .get(name, Leniency { any_case: false, ..how })
                        .is_some_and(|counts| std::ptr::eq(counts, value))
                    {
                        value.texts(how, each);
                    }
                }
            }
        }
    }

    /// The value as strict JSON; `None` where it is none, or where `only_integers` and another reader writes a number in it otherwise.
    pub fn exact(&self, only_integers: bool) -> Option<String> {
        Some(match self {
            Json::Text(text) => (!text.contains('\u{fffd}')).then(|| serde_json::to_string(text).unwrap())?,
            Json::Word(word) => match word.as_str() {
                "true" | "false" | "null" => word.clone(),
                number if only_integers => {
                    number.parse::<i64>().ok().filter(|number| number.abs() < 1 << 53).map(|_| word.clone())?
                }
                number => serde_json::from_str::<&serde_json::value::RawValue>(number).ok().map(|_| word.clone())?,
            },
            Json::List(items) => {
                format!(
                    "[{}]",
                    items.iter().map(|item| item.exact(only_integers)).collect::<Option<Vec<_>>>()?.join(",")
                )
            }
            Json::Object(members) => {
                let one = |(name, value): &(String, Json)| {
                    Some(format!("{}:{}", serde_json::to_string(name).unwrap(), value.exact(only_integers)?))
                };
                format!("{{{}}}", members.iter().map(one).collect::<Option<Vec<_>>>()?.join(","))
            }
        })
    }
}

/// Every value that a reader of this leniency finds in `bytes`; items of a list are values of their own.
pub fn values(bytes: &[u8], how: Leniency) -> Vec<Json> {
    let text = String::from_utf8_lossy(bytes);
    let mut found = Vec::new();
    for line in text.split(|c| c == '\n' || how.breaks.contains(&c)) {
        let characters: Vec<char> = line.chars().collect();
        let mut at = 0;
        while at < characters.len() {
            match (matches!(characters[at], '{' | '[')).then(|| value(&characters, at, 0)).flatten() {
                Some((one, end)) => {
                    spread(one, &mut found);
                    at = end;
                }
                None => at += 1,
            }
        }
    }
    found
}

fn spread(value: Json, found: &mut Vec<Json>) {
    match value {
        Json::List(items) => items.into_iter().for_each(|item| spread(item, found)),
        other => found.push(other),
    }
}

fn skip(text: &[char], mut at: usize) -> usize {
    while text.get(at).is_some_and(|c| c.is_whitespace() || c.is_control() || *c == '\u{feff}') {
        at += 1;
    }
    at
}

/// The value that begins at `at`, and where it ends. Takes words of any kind, control characters, and a comma too many.
fn value(text: &[char], at: usize, depth: usize) -> Option<(Json, usize)> {
    let at = skip(text, at);
    if depth > 200 {
        return None;
    }
    match text.get(at)? {
        '"' => string(text, at + 1).map(|(text, end)| (Json::Text(text), end)),
        open @ ('{' | '[') => {
            let close = if *open == '{' { '}' } else { ']' };
            let (mut members, mut items, mut at) = (Vec::new(), Vec::new(), at + 1);
            loop {
                at = skip(text, at);
                match text.get(at)? {
                    ',' => at += 1,
                    c if *c == close => {
                        let whole = if close == '}' { Json::Object(members) } else { Json::List(items) };
                        return Some((whole, at + 1));
                    }
                    '"' if close == '}' => {
                        let (name, end) = string(text, at + 1)?;
                        let colon = skip(text, end);
                        let (value, end) = (*text.get(colon)? == ':').then(|| value(text, colon + 1, depth + 1))??;
                        members.push((name, value));
                        at = end;
                    }
                    _ if close == ']' => {
                        let (item, end) = value(text, at, depth + 1)?;
                        items.push(item);
                        at = end;
                    }
                    _ => return None,
                }
            }
        }
        _ => {
            let length = text[at..].iter().take_while(|c| c.is_alphanumeric() || "+-._".contains(**c)).count();
            (length > 0).then(|| (Json::Word(text[at..at + length].iter().collect()), at + length))
        }
    }
}

fn string(text: &[char], mut at: usize) -> Option<(String, usize)> {
    let mut units: Vec<u16> = Vec::new();
    loop {
        let c = *text.get(at)?;
        at += 1;
        match c {
            '"' => return Some((String::from_utf16_lossy(&units), at)),
            '\\' => {
                let escaped = *text.get(at)?;
                at += 1;
                let plain = match escaped {
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    'u' => {
                        let digits: String = text.get(at..at + 4)?.iter().collect();
                        units.push(u16::from_str_radix(&digits, 16).ok()?);
                        at += 4;
                        continue;
                    }
                    other => other,
                };
                units.extend(plain.encode_utf16(&mut [0; 2]).iter());
            }
            c => units.extend(c.encode_utf16(&mut [0; 2]).iter()),
        }
    }
}

/// Every value in the data of server-sent events, joined as readers join the lines of one event.
pub fn events(bytes: &[u8], how: Leniency) -> Vec<Json> {
    let text = String::from_utf8_lossy(bytes);
    let mut found = Vec::new();
    let mut data = String::new();
    for line in text.split(|c| c == '\n' || how.breaks.contains(&c)).chain([""]) {
        let line = line.trim_start_matches('\u{feff}').trim_end_matches('\r');
        if line.is_empty() {
            found.extend(values(std::mem::take(&mut data).as_bytes(), Leniency { breaks: &[], ..how }));
        } else if let Some(more) = line.get(..5).filter(|name| name.eq_ignore_ascii_case("data:")).and(line.get(5..)) {
            data.push_str(more);
            data.push(' ');
        }
    }
    found
}
