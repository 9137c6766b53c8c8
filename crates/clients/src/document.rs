//! The servers of a configuration, each with the places of its parts in the text.

use std::{collections::BTreeSet, path::Path};

use crate::{
    Error,
    tree::{self, List, Map, Member, Syntax, Text, Tree, place},
};

/// The members that give a server's address: `httpUrl` is Gemini CLI's, `serverUrl` Windsurf's, `uri` goose's.
const ADDRESSES: [&str; 4] = ["url", "httpUrl", "serverUrl", "uri"];
/// The members that give a server's command: `cmd` is goose's.
const COMMANDS: [&str; 2] = ["command", "cmd"];
/// The members that give its environment: `envs` is goose's, `environment` opencode's.
const ENVIRONMENTS: [&str; 3] = ["env", "envs", "environment"];
const TWICE: &str = "one of its members is written twice; remove one";
/// Types of entries that are parts of goose itself and no servers.
const BUILT_IN: [&str; 4] = ["builtin", "platform", "frontend", "inline_python"];

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

/// A server that the client starts.
#[derive(Debug)]
pub(crate) struct Stdio {
    pub(crate) command: Text,
    /// Where the name of the command's member starts.
    pub(crate) command_name: usize,
    /// The command and its arguments are one list, as opencode has them.
    pub(crate) in_one_list: bool,
    pub(crate) args: Option<Args>,
    /// Variables of its environment; those that are no text are left out.
    pub(crate) env: Vec<(String, String)>,
    pub(crate) syntax: Syntax,
    /// The server's members are in braces, so that commas stand between them.
    pub(crate) in_braces: bool,
}

/// The arguments of a server.
#[derive(Debug)]
pub(crate) struct Args {
    /// Where the name `args` starts.
    pub(crate) name: usize,
    /// The list, brackets included.
    pub(crate) range: std::ops::Range<usize>,
    pub(crate) in_brackets: bool,
    pub(crate) items: Vec<Text>,
}

/// The servers of a configuration, in the order of `servers_at` and then of the file.
pub(crate) fn servers(path: &Path, text: &str, servers_at: &[&[&str]]) -> Result<Vec<Server>, Error> {
    let (syntax, root) = tree::read(path, text)?;
    let reader = Reader { path, text, syntax };
    let mut found = None;
    for steps in servers_at {
        reader.walk(&root, steps, None, &mut found)?;
    }
    found.ok_or_else(|| Error::ServersMissing {
        path: path.to_owned(),
        member: servers_at.first().map(|steps| steps.join(".").replace("[]", "")).unwrap_or_default(),
    })
}

struct Reader<'t> {
    path: &'t Path,
    text: &'t str,
    syntax: Syntax,
}

impl Reader<'_> {
    /// Collects the servers at the end of `steps`; `found` is set as soon as there is a list of servers, even empty.
    fn walk(
        &self,
        map: &Map,
        steps: &[&str],
        within: Option<&str>,
        found: &mut Option<Vec<Server>>,
    ) -> Result<(), Error> {
        self.check_names(map)?;
        let Some((step, rest)) = steps.split_first() else {
            let into = found.get_or_insert_default();
            for member in map.members.iter().filter(|member| !is_no_server(&member.value)) {
                let kind = self.kind(&member.value);
                into.push(Server { name: member.name.clone(), within: within.map(str::to_owned), kind });
            }
            return Ok(());
        };
        let (step, may_be_list) = step.strip_suffix("[]").map_or((*step, false), |step| (step, true));
        for member in map.members.iter().filter(|member| step == "*" || member.name == step) {
            let within = if step == "*" { Some(member.name.as_str()) } else { within };
            match &member.value {
                Tree::Map(below) => self.walk(below, rest, within, found)?,
                Tree::List(list) if may_be_list && rest.is_empty() => self.named(list, found)?,
                // A member without a value, as YAML writes an empty one.
                Tree::Other(at) if rest.is_empty() && self.text[*at..].trim_start().is_empty() => {
                    found.get_or_insert_default();
                }
                other if rest.is_empty() => {
                    let at = self.place(other.start());
                    return Err(Error::ServersNotObject { at, member: member.name.clone() });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Servers in a list, which say their names themselves.
    fn named(&self, list: &List, found: &mut Option<Vec<Server>>) -> Result<(), Error> {
        let into = found.get_or_insert_default();
        for item in &list.items {
            let name = match item {
                Tree::Map(map) => map.text("name").unwrap_or_default(),
                _ => "",
            };
            let kind = if name.is_empty() { Kind::Unsupported("it has no name") } else { self.kind(item) };
            into.push(Server { name: name.to_owned(), within: None, kind });
        }
        Ok(())
    }

    fn check_names(&self, map: &Map) -> Result<(), Error> {
        twice(map)
            .map_or(Ok(()), |member| Err(Error::DuplicateKey { at: self.place(member.at), key: member.name.clone() }))
    }

    fn kind(&self, value: &Tree) -> Kind {
        let Tree::Map(map) = value else { return Kind::Unsupported("it is not an object") };
        if twice(map).is_some() {
            return Kind::Unsupported(TWICE);
        }
        let url = ADDRESSES.iter().filter_map(|name| map.text(name)).find(|url| !url.is_empty()).map(public_part);
        let command = match (COMMANDS.iter().find_map(|name| map.get(name)), url) {
            (Some(_), Some(_)) => return Kind::Unsupported("it has both a command and an address; remove one"),
            (None, Some(url)) => return Kind::Remote { url },
            (None, None) => return Kind::Unsupported("it has neither a command nor an address"),
            (Some(command), None) => command,
        };
        match &command.value {
            Tree::Text(_) => self.stdio(map, command, map),
            Tree::List(list) if map.get("args").is_none() => self.in_one_list(map, command, list),
            // As Zed had it: an object with the path and the arguments.
            Tree::Map(inner) if twice(inner).is_some() => Kind::Unsupported(TWICE),
            Tree::Map(inner) => match inner.get("path") {
                Some(path) => self.stdio(inner, path, map),
                None => Kind::Unsupported("its command is an object without a path"),
            },
            _ => Kind::Unsupported("its command is not a string"),
        }
    }

    /// A server whose command is `command`, with its arguments beside it in `map`, and its environment there or in `outer`.
    fn stdio(&self, map: &Map, command: &Member, outer: &Map) -> Kind {
        let Tree::Text(text) = &command.value else { return Kind::Unsupported("its command is not a string") };
        if text.value.is_empty() {
            return Kind::Unsupported("its command is empty");
        }
        let args = match map.get("args") {
            None => None,
            Some(Member { at, value: Tree::List(list), .. }) => {
                let Some(items) = texts(&list.items) else { return Kind::Unsupported("its args are not all strings") };
                Some(Args { name: *at, range: list.range.clone(), in_brackets: list.in_brackets, items })
            }
            Some(_) => return Kind::Unsupported("its args are not a list"),
        };
        Kind::Stdio(Stdio {
            command: text.clone(),
            command_name: command.at,
            in_one_list: false,
            args,
            env: environment(map).or_else(|| environment(outer)).unwrap_or_default(),
            syntax: self.syntax,
            in_braces: map.in_braces,
        })
    }

    fn in_one_list(&self, map: &Map, command: &Member, list: &List) -> Kind {
        let Some(mut items) = texts(&list.items).filter(|items| !items.is_empty()) else {
            return Kind::Unsupported("its command is not a list of strings");
        };
        let first = items.remove(0);
        if first.value.is_empty() {
            return Kind::Unsupported("its command is empty");
        }
        let args = Args { name: command.at, range: list.range.clone(), in_brackets: list.in_brackets, items };
        Kind::Stdio(Stdio {
            command: first,
            command_name: command.at,
            in_one_list: true,
            args: Some(args),
            env: environment(map).unwrap_or_default(),
            syntax: self.syntax,
            in_braces: map.in_braces,
        })
    }

    fn place(&self, at: usize) -> crate::FilePosition {
        let skipped = self.text.len() - self.text.trim_start_matches('\u{feff}').len();
        place(self.path, &self.text.as_bytes()[skipped..], at.saturating_sub(skipped))
    }
}

/// Whether an entry among servers is none: a part of goose, or opencode's object of servers beside servers of the older form.
fn is_no_server(value: &Tree) -> bool {
    let Tree::Map(map) = value else { return false };
    let built_in = map.text("type").is_some_and(|kind| BUILT_IN.contains(&kind));
    let group = !map.members.is_empty() && map.members.iter().all(|member| matches!(member.value, Tree::Map(_)));
    built_in || (group && !COMMANDS.iter().any(|name| map.get(name).is_some()))
}

/// A member whose name another before it has: which of the two counts is for each reader to say.
fn twice(map: &Map) -> Option<&Member> {
    let mut seen = BTreeSet::new();
    map.members.iter().find(|member| !seen.insert(member.name.as_str()))
}

fn texts(items: &[Tree]) -> Option<Vec<Text>> {
    let text = |item: &Tree| match item {
        Tree::Text(text) => Some(text.clone()),
        _ => None,
    };
    items.iter().map(text).collect()
}

fn environment(map: &Map) -> Option<Vec<(String, String)>> {
    let Tree::Map(env) = &ENVIRONMENTS.iter().find_map(|name| map.get(name))?.value else { return None };
    let variable = |member: &Member| match &member.value {
        Tree::Text(text) => Some((member.name.clone(), text.value.clone())),
        _ => None,
    };
    Some(env.members.iter().filter_map(variable).collect())
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
        assert!(read(r#"{"mcpServers": {}}"#).unwrap().is_empty());
    }

    #[test]
    fn an_entry_that_cannot_be_guarded_does_not_fail_the_rest() {
        let with = |members: &str| {
            let text = format!("{{\"mcpServers\": {{\"fs\": {{{members}}}, \"good\": {{\"command\": \"a\"}}}}}}");
            let mut found = read(&text).unwrap();
            assert!(matches!(found.pop().unwrap().kind, Kind::Stdio(_)), "{members}");
            match found.pop().unwrap().kind {
                Kind::Unsupported(why) => why,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(with(r#""command": "a", "command": "b""#), TWICE);
        assert_eq!(with(r#""command": {"path": "a", "path": "b"}"#), TWICE);
        assert_eq!(with(r#""command": 7"#), "its command is not a string");
        assert_eq!(with(r#""command": null"#), "its command is not a string");
        assert_eq!(with(r#""command": []"#), "its command is not a list of strings");
        assert_eq!(with(r#""command": {"args": []}"#), "its command is an object without a path");
        assert_eq!(with(r#""command": "a", "args": "-y""#), "its args are not a list");
        assert_eq!(with(r#""command": "a", "args": ["-p", 80]"#), "its args are not all strings");
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
