//! Reading a configuration: JSON with comments and trailing commas, and the servers in it, each with the places of its
//! parts in the text.

use std::{collections::BTreeSet, ops::Range, path::Path};

use jsonc_parser::{
    CollectOptions, ParseOptions,
    ast::{Object, StringLit, Value},
    common::Ranged,
    parse_to_ast,
};

use crate::{Error, FilePosition};

/// What editors on Windows put before the text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The members that give a server's address: `httpUrl` is Gemini CLI's, `serverUrl` Windsurf's.
const ADDRESSES: [&str; 3] = ["url", "httpUrl", "serverUrl"];

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

/// A server as the configuration has it.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) name: String,
    /// What `*` stood for in the path to it.
    pub(crate) within: Option<String>,
    pub(crate) kind: Kind,
}

/// What a server is to us.
#[derive(Debug)]
pub(crate) enum Kind {
    Stdio(Stdio),
    Remote { url: String },
    Unsupported(&'static str),
}

/// A server that the client starts; all ranges are bytes of the text.
#[derive(Debug)]
pub(crate) struct Stdio {
    pub(crate) command: Text,
    /// Where the name `"command"` starts.
    pub(crate) command_name: usize,
    pub(crate) args: Option<Args>,
    /// Variables of its environment; those that are no text are left out.
    pub(crate) env: Vec<(String, String)>,
}

/// The arguments of a server.
#[derive(Debug)]
pub(crate) struct Args {
    /// Where the name `"args"` starts.
    pub(crate) name: usize,
    /// The array, brackets included.
    pub(crate) range: Range<usize>,
    pub(crate) items: Vec<Text>,
}

/// A string: what it says, and where it is written, quotes included.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub(crate) value: String,
    pub(crate) range: Range<usize>,
}

/// The servers of a configuration, in the order of `servers_at` and then of the file.
pub(crate) fn servers(path: &Path, text: &str, servers_at: &[&[&str]]) -> Result<Vec<Server>, Error> {
    let reader =
        Reader { path, text, skipped: if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len_utf8() } else { 0 } };
    let parsed = parse_to_ast(&text[reader.skipped..], &CollectOptions::default(), &JSONC).map_err(|error| {
        let why = error.kind().to_string();
        Error::NotJson { at: reader.place(error.range().start), why }
    })?;
    let Some(Value::Object(root)) = parsed.value else {
        let at = parsed.value.map_or(0, |value| value.start());
        return Err(Error::NotJson { at: reader.place(at), why: "an object {…} was expected".to_owned() });
    };
    let mut found = None;
    for steps in servers_at {
        reader.walk(&root, steps, None, &mut found)?;
    }
    found.ok_or_else(|| Error::ServersMissing {
        path: path.to_owned(),
        member: servers_at.first().map(|steps| steps.join(".")).unwrap_or_default(),
    })
}

struct Reader<'t> {
    path: &'t Path,
    text: &'t str,
    /// Bytes before the part that is parsed.
    skipped: usize,
}

impl Reader<'_> {
    /// Collects the servers at the end of `steps`; `found` is set as soon as there is a list of servers, even empty.
    fn walk(
        &self,
        object: &Object<'_>,
        steps: &[&str],
        within: Option<&str>,
        found: &mut Option<Vec<Server>>,
    ) -> Result<(), Error> {
        self.check_names(object)?;
        let Some((step, rest)) = steps.split_first() else {
            let into = found.get_or_insert_default();
            for property in &object.properties {
                let name = property.name.as_str().to_owned();
                let kind = self.kind(&name, &property.value)?;
                into.push(Server { name, within: within.map(str::to_owned), kind });
            }
            return Ok(());
        };
        for property in object.properties.iter().filter(|property| *step == "*" || property.name.as_str() == *step) {
            let within = if *step == "*" { Some(property.name.as_str()) } else { within };
            match &property.value {
                Value::Object(below) => self.walk(below, rest, within, found)?,
                other if rest.is_empty() => {
                    let member = property.name.as_str().to_owned();
                    return Err(Error::ServersNotObject { at: self.place(other.start()), member });
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn check_names(&self, object: &Object<'_>) -> Result<(), Error> {
        let mut seen = BTreeSet::new();
        let twice = object.properties.iter().find(|property| !seen.insert(property.name.as_str()));
        twice.map_or(Ok(()), |property| {
            let key = property.name.as_str().to_owned();
            Err(Error::DuplicateKey { at: self.place(property.name.start()), key })
        })
    }

    fn kind(&self, server: &str, value: &Value<'_>) -> Result<Kind, Error> {
        let Value::Object(object) = value else {
            return Ok(Kind::Unsupported("it is not an object"));
        };
        self.check_names(object)?;
        let mut addresses = ADDRESSES.iter().filter_map(|name| object.get_string(name));
        let url = addresses.find(|url| !url.value.is_empty()).map(|url| public_part(&url.value));
        let command = match (object.get("command"), url) {
            (Some(_), Some(_)) => return Ok(Kind::Unsupported("it has both a command and an address; remove one")),
            (None, Some(url)) => return Ok(Kind::Remote { url }),
            (None, None) => return Ok(Kind::Unsupported("it has neither a command nor an address")),
            (Some(command), None) => command,
        };
        let Value::StringLit(literal) = &command.value else {
            let at = self.place(command.value.start());
            return Err(Error::CommandNotString { at, server: server.to_owned() });
        };
        if literal.value.is_empty() {
            return Ok(Kind::Unsupported("its command is empty"));
        }
        let args = object.get("args").map(|property| {
            let not_strings =
                |value: &Value<'_>| Error::ArgsNotStrings { at: self.place(value.start()), server: server.to_owned() };
            let array = property.value.as_array().ok_or_else(|| not_strings(&property.value))?;
            let text = |value: &Value<'_>| {
                value.as_string_lit().map(|literal| self.text(literal)).ok_or_else(|| not_strings(value))
            };
            let items = array.elements.iter().map(text).collect::<Result<_, Error>>()?;
            Ok(Args { name: self.skipped + property.start(), range: self.range(array), items })
        });
        let (command_name, command) = (self.skipped + command.start(), self.text(literal));
        let env = object.get_object("env").into_iter().flat_map(|env| &env.properties).filter_map(|property| {
            let value = property.value.as_string_lit()?.value.clone().into_owned();
            Some((property.name.as_str().to_owned(), value))
        });
        Ok(Kind::Stdio(Stdio { command, command_name, args: args.transpose()?, env: env.collect() }))
    }

    fn text(&self, literal: &StringLit<'_>) -> Text {
        Text { value: literal.value.clone().into_owned(), range: self.range(literal) }
    }

    fn range(&self, node: &impl Ranged) -> Range<usize> {
        self.skipped + node.start()..self.skipped + node.end()
    }

    fn place(&self, parsed: usize) -> FilePosition {
        place(self.path, &self.text.as_bytes()[self.skipped..], parsed)
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

/// An address without what may be secret in it: credentials, query and fragment.
fn public_part(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Server>, Error> {
        servers(Path::new("c.json"), text, &[&["mcpServers"], &["projects", "*", "mcpServers"]])
    }

    fn error(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn what_is_not_json_is_located() {
        assert!(error("{\n  \"mcpServers\": {\n    \"é\" \"x\"").starts_with("c.json:3:9: not JSON: "));
        assert!(error("\u{feff}nonsense").starts_with("c.json:1:1: not JSON: "));
        assert_eq!(error(""), "c.json:1:1: not JSON: an object {…} was expected");
        assert_eq!(error("\n [1]"), "c.json:2:2: not JSON: an object {…} was expected");
        for json5 in ["{mcpServers: {}}", "{'mcpServers': {}}", r#"{"mcpServers": {} "x": 1}"#, r#"{"a": +1}"#] {
            assert!(error(json5).contains("not JSON"), "{json5}");
        }
        let deep = format!("{{\"a\": {}", "[".repeat(100_000));
        assert!(error(&deep).contains("not JSON"));
    }

    #[test]
    fn the_list_of_servers_must_be_there_once_and_an_object() {
        assert_eq!(error("{}"), r#"c.json has no member "mcpServers": no MCP server is configured there"#);
        assert_eq!(error(r#"{"mcpServers": []}"#), r#"c.json:1:16: "mcpServers" is not an object of servers"#);
        assert!(
            error(r#"{"mcpServers": {}, "mcpServers": {}}"#).starts_with(r#"c.json:1:20: "mcpServers" is written"#)
        );
        let escaped = r#"{"mcpServers": {"fs": {"command": "a"}, "f\u0073": {"command": "b"}}}"#;
        assert!(error(escaped).starts_with(r#"c.json:1:41: "fs" is written a second time"#));
        assert!(
            error(r#"{"mcpServers": {"fs": {"command": "a", "command": "b"}}}"#).contains("\"command\" is written")
        );
        assert!(read(r#"{"mcpServers": {}}"#).unwrap().is_empty());
    }

    #[test]
    fn parts_of_a_server_must_be_what_they_should_be() {
        let with = |members: &str| error(&format!("{{\"mcpServers\": {{\"fs\": {{{members}}}}}}}"));
        assert_eq!(with(r#""command": ["npx"]"#), r#"c.json:1:35: the command of the server "fs" is not a string"#);
        assert!(with(r#""command": null"#).contains("is not a string"));
        assert!(with(r#""command": "a", "args": "-y""#).contains(r#"the args of the server "fs" are not an array"#));
        assert!(with(r#""command": "a", "args": ["-p", 80]"#).starts_with("c.json:1:55: the args of"));
    }

    #[test]
    fn servers_are_told_apart_by_how_they_are_reached() {
        let text = r#"{"mcpServers": {
            "a": {"url": "https://me:secret@h.example/mcp?key=secret#x"}, "b": {"serverUrl": "https://h.example"},
            "c": {"httpUrl": "x"}, "d": {"url": "x", "command": "y"}, "e": {"enabled": true}, "f": "npx",
            "g": {"command": ""}, "h": {"url": "", "command": "y"}
        }}"#;
        let kinds: Vec<String> = read(text)
            .unwrap()
            .into_iter()
            .map(|server| match server.kind {
                Kind::Stdio(stdio) => stdio.command.value,
                Kind::Remote { url } => url,
                Kind::Unsupported(why) => why.to_owned(),
            })
            .collect();
        assert_eq!(kinds[..3], ["https://h.example/mcp", "https://h.example", "x"]);
        assert_eq!(kinds[3], "it has both a command and an address; remove one");
        assert_eq!(kinds[4], "it has neither a command nor an address");
        assert_eq!(kinds[5..], ["it is not an object", "its command is empty", "y"]);
    }

    #[test]
    fn servers_of_every_project_are_found() {
        let text = r#"{"projects": {"/a": {"mcpServers": {"x": {"command": "n"}}}, "/b": {}, "/c": 1},
            "mcpServers": {"y": {"command": "n"}}}"#;
        let found: Vec<_> = read(text).unwrap().into_iter().map(|server| (server.name, server.within)).collect();
        assert_eq!(found, [("y".to_owned(), None), ("x".to_owned(), Some("/a".to_owned()))]);
    }
}
