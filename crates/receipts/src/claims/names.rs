//! Tool names, as clients spell them.
//!
//! A claim may name a tool as it is, with its server in front (`fs.read_file`, `fs_read_file`, `mcp__fs__read_file`), or with
//! every character replaced that some clients do not allow. The server in front, or beside it, has to be the receipt's. A
//! spelling with replaced characters counts only where nothing among the receipts is spelled exactly so; letters beyond ASCII are
//! never replaced, so that two names that differ in them are two. Where a name can be that of several tools, it is ambiguous.

use std::collections::{BTreeSet, HashMap};

/// What stands between a server's name and a tool's.
const SEPARATORS: [&str; 7] = ["___", "__", "_", ".", "/", ":", "-"];
/// What clients put before the server's name.
const MARKS: [&str; 6] = ["", "mcp__", "mcp_", "mcp.", "mcp-", "mcp/"];

/// What some models and frameworks put before every tool's name: it names no server.
const NAMESPACES: [&str; 3] = ["functions.", "default_api:", "default_api."];

/// How a claimed name compares with a tool's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameMatch {
    /// Another tool.
    Other,
    /// The tool's name, with another server's name or something else in front of it or beside it.
    OtherServer,
    /// The tool, as clients may call it.
    Same,
}

/// What a claimed name stands for.
#[derive(Debug, Clone)]
pub(super) struct Resolved {
    /// For each tool among the receipts.
    matches: Vec<NameMatch>,
    /// The tools it can be, where there are several.
    pub candidates: Vec<String>,
}

impl Resolved {
    /// What a claim without a name stands for: any of so many tools.
    pub fn anything(tools: usize) -> Self {
        Self { matches: vec![NameMatch::Same; tools], candidates: Vec::new() }
    }

    /// How the name compares with tool number `kind`.
    pub fn with(&self, kind: usize) -> NameMatch {
        self.matches[kind]
    }

    /// The numbers of the tools that it can be.
    pub fn same(&self) -> impl Iterator<Item = usize> {
        (0..self.matches.len()).filter(|kind| self.matches[*kind] == NameMatch::Same)
    }

    /// Whether any tool has such a name, with whatever server.
    pub fn any(&self) -> bool {
        self.matches.iter().any(|one| *one != NameMatch::Other)
    }
}

/// The tools among the receipts: each a server and a name.
#[derive(Debug, Default)]
pub(super) struct Names {
    tools: Vec<(String, String)>,
    numbers: HashMap<(String, String), usize>,
    /// What clients call servers, and what their guards do.
    aliases: Vec<(String, String)>,
}

impl Names {
    pub fn new(aliases: &[(String, String)]) -> Self {
        Self { aliases: aliases.to_vec(), ..Self::default() }
    }

    /// The number of a tool.
    pub fn number(&mut self, server: &str, tool: &str) -> usize {
        let name = (server.to_owned(), tool.to_owned());
        if let Some(number) = self.numbers.get(&name) {
            return *number;
        }
        self.tools.push(name.clone());
        self.numbers.insert(name, self.tools.len() - 1);
        self.tools.len() - 1
    }

    /// How many tools there are.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// What a claimed name stands for; `server` where the claim names it beside the tool.
    pub fn resolve(&self, claimed: &str, server: Option<&str>) -> Resolved {
        let exact = |name: &str| name.to_owned();
        let mut same: Vec<usize> = self.spelled(claimed, server, exact);
        if same.is_empty() {
            same = self.spelled(claimed, server, image);
        }
        if same.is_empty()
            && let Some(inner) = NAMESPACES.iter().find_map(|namespace| claimed.strip_prefix(namespace))
        {
            return self.resolve(inner, server);
        }
        let end = image(claimed);
        let with_another = |tool: &str| {
            let tool = image(tool);
            !tool.is_empty()
                && end.strip_suffix(tool.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
        };
        let mut matches: Vec<NameMatch> = self
            .tools
            .iter()
            .map(|(_, tool)| if with_another(tool) { NameMatch::OtherServer } else { NameMatch::Other })
            .collect();
        same.iter().for_each(|kind| matches[*kind] = NameMatch::Same);
        let mut candidates = BTreeSet::new();
        if same.len() > 1 {
            candidates =
                same.iter().map(|kind| format!("'{}' of '{}'", self.tools[*kind].1, self.tools[*kind].0)).collect();
        }
        Resolved { matches, candidates: candidates.into_iter().collect() }
    }

    /// The tools that are spelled so, once `form` is made of every name.
    fn spelled(&self, claimed: &str, server: Option<&str>, form: fn(&str) -> String) -> Vec<usize> {
        let claimed = form(claimed);
        let server = server.map(form);
        let of_server = |name: &str, guard: &str| {
            let called = self.aliases.iter().filter(|(_, of)| of == guard).any(|(called, _)| form(called) == name);
            called || form(guard) == name
        };
        let is = |(guard, tool): &(String, String)| {
            let tool = form(tool);
            let Some(front) = claimed.strip_suffix(tool.as_str()).filter(|_| !tool.is_empty()) else { return false };
            if server.as_ref().is_some_and(|server| !of_server(server, guard)) {
                return false;
            }
            front.is_empty() || {
                let names = SEPARATORS.iter().filter_map(|separator| front.strip_suffix(separator));
                let mut names = names.flat_map(|name| MARKS.iter().filter_map(move |mark| name.strip_prefix(mark)));
                names.any(|name| of_server(name, guard))
            }
        };
        (0..self.tools.len()).filter(|kind| is(&self.tools[*kind])).collect()
    }
}

/// A name in the letters that every client allows. Letters beyond ASCII stay: clients that replace them make different tools one.
fn image(name: &str) -> String {
    let one = |c: char| match c {
        c if c.is_ascii_alphanumeric() => c.to_ascii_lowercase(),
        c if c.is_ascii() => '_',
        c => c,
    };
    name.chars().map(one).collect()
}

/// Whether a tool is the one that the caller leaves out under `ignored`.
pub(super) fn is_ignored(claimed: &str, ignored: &str) -> bool {
    claimed == ignored || image(claimed) == image(ignored)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(tools: &[(&str, &str)]) -> Names {
        let mut names = Names::new(&[("files".to_owned(), "fs".to_owned())]);
        tools.iter().enumerate().for_each(|(n, (server, tool))| assert_eq!(names.number(server, tool), n));
        names
    }

    fn same(names: &Names, claimed: &str, server: Option<&str>) -> Vec<usize> {
        names.resolve(claimed, server).same().collect()
    }

    #[test]
    fn a_prefix_is_that_of_the_server() {
        let names = names(&[("fs", "read_file"), ("mail", "send")]);
        for claimed in
            ["read_file", "fs.read_file", "fs_read_file", "mcp__fs__read_file", "fs/read_file", "files__read_file"]
        {
            assert_eq!(same(&names, claimed, None), [0], "{claimed}");
        }
        for claimed in
            ["mcp__mail__read_file", "s_read_file", "xfs_read_file", "mcp__read_file", "_read_file", "fsread_file"]
        {
            assert_eq!(same(&names, claimed, None), [0; 0], "{claimed}");
        }
        assert_eq!(names.resolve("mcp__mail__read_file", None).with(0), NameMatch::OtherServer);
        assert_eq!(same(&names, "read_file", Some("fs")), [0]);
        assert_eq!(same(&names, "read_file", Some("files")), [0]);
        assert_eq!(same(&names, "read_file", Some("mail")), [0; 0]);
    }

    #[test]
    fn namespaces_of_models_and_frameworks_name_no_server() {
        let names = names(&[("fs", "read_file"), ("mail", "send"), ("functions", "run")]);
        for claimed in
            ["functions.read_file", "default_api:read_file", "default_api.fs_read_file", "functions.mcp__fs__read_file"]
        {
            assert_eq!(same(&names, claimed, None), [0], "{claimed}");
        }
        assert_eq!(same(&names, "functions.run", None), [2], "a server of that name");
        for claimed in ["functions.mcp__mail__read_file", "function.read_file", "functionsread_file"] {
            assert_eq!(same(&names, claimed, None), [0; 0], "{claimed}");
        }
        assert_eq!(same(&names, "functions.read_file", Some("mail")), [0; 0]);
    }

    #[test]
    fn a_name_of_several_servers_is_ambiguous() {
        let names = names(&[("fs", "read"), ("git", "read"), ("a", "b_c"), ("a_b", "c")]);
        assert_eq!(names.resolve("read", None).candidates, ["'read' of 'fs'", "'read' of 'git'"]);
        assert!(names.resolve("git.read", None).candidates.is_empty());
        assert_eq!(same(&names, "a_b_c", None), [2, 3]);
        assert_eq!(same(&names, "a.b_c", None), [2]);
    }

    #[test]
    fn letters_beyond_ascii_are_compared_and_replaced_characters_must_be_unmistakable() {
        let names = names(&[("s", "转账"), ("s", "get.user"), ("s", "get-user"), ("s", "put.user")]);
        assert_eq!(same(&names, "转账", None), [0]);
        for other in ["查询", "__", "??", "转帐"] {
            assert!(!names.resolve(other, None).any(), "{other}");
        }
        assert_eq!(same(&names, "get.user", None), [1]);
        assert_eq!(names.resolve("get_user", None).candidates.len(), 2, "two tools have this spelling");
        assert_eq!(same(&names, "put_user", None), [3]);
        assert_eq!(same(&names, "mcp__s__put_user", None), [3]);
    }

    #[test]
    fn what_is_left_out_is_named_in_full() {
        assert!(is_ignored("web_search", "web_search") && is_ignored("web-search", "web_search"));
        assert!(!is_ignored("bank_web_search", "web_search") && !is_ignored("转账", "查询"));
    }
}
