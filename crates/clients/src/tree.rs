//! A configuration as a tree of values with their places in the text, whatever it is written in: JSON with comments, TOML or YAML,
//! which the file's name says.

use std::{ops::Range, path::Path};

use crate::{Error, FilePosition, json, toml, yaml};

/// What editors on Windows put before the text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// What a configuration is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syntax {
    Json,
    Toml,
    Yaml,
}

impl Syntax {
    fn of(path: &Path) -> Self {
        match path.extension().and_then(|end| end.to_str()) {
            Some("toml") => Self::Toml,
            Some("yaml" | "yml") => Self::Yaml,
            _ => Self::Json,
        }
    }

    /// Its name in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Toml => "TOML",
            Self::Yaml => "YAML",
        }
    }
}

/// A value; all ranges are bytes of the text.
#[derive(Debug)]
pub(crate) enum Tree {
    Text(Text),
    List(List),
    Map(Map),
    /// A number, a flag, a text over several lines: nothing that is edited. Where it starts.
    Other(usize),
}

/// A string: what it says, and where it is written, quotes included.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub(crate) value: String,
    pub(crate) range: Range<usize>,
}

/// A list of values.
#[derive(Debug)]
pub(crate) struct List {
    /// Brackets included, where it has them.
    pub(crate) range: Range<usize>,
    /// It is written in brackets; YAML also has lists of lines that begin with a dash.
    pub(crate) in_brackets: bool,
    pub(crate) items: Vec<Tree>,
}

/// Members with names.
#[derive(Debug)]
pub(crate) struct Map {
    pub(crate) start: usize,
    /// It is written in braces.
    pub(crate) in_braces: bool,
    pub(crate) members: Vec<Member>,
}

/// A member of a map.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// Where the name starts.
    pub(crate) at: usize,
    pub(crate) value: Tree,
}

impl Tree {
    pub(crate) fn start(&self) -> usize {
        match self {
            Self::Text(text) => text.range.start,
            Self::List(list) => list.range.start,
            Self::Map(map) => map.start,
            Self::Other(start) => *start,
        }
    }
}

impl Map {
    pub(crate) fn get(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match &self.get(name)?.value {
            Tree::Text(text) => Some(&text.value),
            _ => None,
        }
    }
}

/// Why a text cannot be read, and where.
pub(crate) struct Malformed {
    pub(crate) at: usize,
    pub(crate) why: String,
}

/// Reads a configuration.
pub(crate) fn read(path: &Path, text: &str) -> Result<(Syntax, Map), Error> {
    let syntax = Syntax::of(path);
    let skipped = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len_utf8() } else { 0 };
    let read = match syntax {
        Syntax::Json => json::read(text, skipped),
        Syntax::Toml => toml::read(text, skipped),
        Syntax::Yaml => yaml::read(text, skipped),
    };
    let failed = |Malformed { at, why }| {
        let at = place(path, &text.as_bytes()[skipped..], at.saturating_sub(skipped));
        Error::Malformed { at, syntax: syntax.name(), why }
    };
    match read.map_err(failed)? {
        Some(Tree::Map(root)) => Ok((syntax, root)),
        other => {
            let at = other.map_or(skipped, |value| value.start());
            let why = if syntax == Syntax::Json {
                "an object {…} was expected"
            } else {
                "members with names were expected"
            };
            Err(failed(Malformed { at, why: why.to_owned() }))
        }
    }
}

/// The line and the column of a byte.
pub(crate) fn place(path: &Path, bytes: &[u8], at: usize) -> FilePosition {
    let before = &bytes[..at.min(bytes.len())];
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
    FilePosition {
        path: path.to_owned(),
        line: 1 + before.iter().filter(|byte| **byte == b'\n').count(),
        column: 1 + String::from_utf8_lossy(&before[line_start..]).chars().count(),
    }
}
