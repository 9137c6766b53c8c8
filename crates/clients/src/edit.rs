//! Putting a server under the guard and taking it out again, as splices of the text: what is not spliced stays byte for
//! byte, and taking out undoes putting in exactly.
//!
//! ```text
//! "command": "npx",             ⇄   "command": "/bin/credence",
//! "args": ["-y", "server"]          "args": ["guard", "--name", "fs", "--", "npx", "-y", "server"]
//! ```
//!
//! The command's literal moves as it is written, escapes included. Words are separated by a comma and whatever
//! whitespace stands before the first argument, so an array with one word per line stays one. When `args` was missing,
//! the new array is written with a space inside each bracket; by this it is recognised and taken out as a whole.
//!
//! TOML and YAML are spliced in the same way. Where YAML has the arguments in lines with dashes, the words are such lines. Where command
//! and arguments are one list (opencode), the words go in front of it.

use std::ops::Range;

use crate::{
    ServerCommand,
    document::{Args, Stdio},
    tree::Syntax,
};

/// The first argument of a guarded server.
const GUARD: &str = "guard";
/// The argument before the server's own command.
const DASHES: &str = "--";
/// The flag with the server's slug.
const NAME: &str = "--name";
/// The guard's executable, without the folder and the `.exe`.
const EXECUTABLE: &str = "credence";

/// New text for a range of the old.
pub(crate) struct Splice {
    range: Range<usize>,
    with: String,
}

/// The text with all splices made; they must not overlap.
pub(crate) fn spliced(text: &str, mut splices: Vec<Splice>) -> String {
    splices.sort_by_key(|splice| splice.range.start);
    let mut out = String::with_capacity(text.len() + splices.iter().map(|splice| splice.with.len()).sum::<usize>());
    let mut done = 0;
    for Splice { range, with } in splices {
        out += &text[done..range.start];
        out += &with;
        done = range.end;
    }
    out + &text[done..]
}

/// The guard around a server.
pub(crate) struct Guarded<'s> {
    /// The slug it was given.
    pub(crate) slug: Option<&'s str>,
    /// Where in the arguments the server's own command is; nothing may be there.
    own: usize,
}

impl Stdio {
    /// The guard around this server, if there is one: `guard` first, then the first `--`, and an executable that is
    /// ours by its name or is `executable`.
    pub(crate) fn guarded(&self, executable: &str) -> Option<Guarded<'_>> {
        let items = &self.args.as_ref()?.items;
        let dashes = items.iter().position(|item| item.value == DASHES)?;
        let ours = self.command.value == executable || file_name(&self.command.value) == EXECUTABLE;
        if !ours || items.first()?.value != GUARD {
            return None;
        }
        let flags = &items[1..dashes];
        let slug = flags.iter().enumerate().find_map(|(index, flag)| match flag.value.strip_prefix(NAME)? {
            "" => flags.get(index + 1).map(|next| next.value.as_str()),
            joined => joined.strip_prefix('='),
        });
        Some(Guarded { slug, own: dashes + 1 })
    }

    /// How it is started.
    pub(crate) fn started_by(&self) -> ServerCommand {
        let args = self.args.iter().flat_map(|args| &args.items).map(|item| item.value.clone());
        ServerCommand { words: [self.command.value.clone()].into_iter().chain(args).collect(), env: self.env.clone() }
    }

    /// Puts the server under a guard.
    pub(crate) fn guard(&self, text: &str, executable: &str, slug: &str, flags: &[String]) -> Vec<Splice> {
        let given = [GUARD, NAME, slug].into_iter().chain(flags.iter().map(String::as_str)).chain([DASHES]);
        let mut words: Vec<String> = given.map(json).collect();
        if self.in_one_list {
            words.insert(0, json(executable));
            let at = self.command.range.start;
            let separator = self.separator(text, at);
            return vec![Splice { range: at..at, with: words.join(&separator) + &separator }];
        }
        words.push(self.own_command(text));
        let (at, with) = match &self.args {
            None => (self.command.range.end, format!("{}[ {} ]", self.before_new_args(text), words.join(", "))),
            Some(Args { range, items, .. }) => match items.first() {
                None => (range.start + 1, words.join(", ")),
                Some(first) => {
                    let separator = self.separator(text, first.range.start);
                    (first.range.start, words.join(&separator) + &separator)
                }
            },
        };
        vec![Splice { range: self.command.range.clone(), with: json(executable) }, Splice { range: at..at, with }]
    }

    /// The command as it is written, or, where it would mean something else within a list, in quotes.
    fn own_command(&self, text: &str) -> String {
        let written = &text[self.command.range.clone()];
        let plain = self.syntax == Syntax::Yaml && !written.starts_with(['"', '\'']);
        let in_brackets = self.args.as_ref().is_none_or(|args| args.in_brackets);
        if plain && in_brackets && written.contains([',', '[', ']', '{', '}', ':', '#']) {
            return json(&self.command.value);
        }
        written.to_owned()
    }

    /// Takes the server out of its guard; `None` when no command of its own is there, or when it cannot be told what belongs to it.
    pub(crate) fn unguard(&self, text: &str, guarded: &Guarded<'_>) -> Option<Vec<Splice>> {
        let args = self.args.as_ref()?;
        let (first, own) = (args.items.first()?, args.items.get(guarded.own)?);
        if self.in_one_list {
            return Some(vec![Splice { range: self.command.range.start..own.range.start, with: String::new() }]);
        }
        let after = own.range.end;
        let range = if let Some(next) = args.items.get(guarded.own + 1) {
            let gap = &text[after..next.range.start];
            if args.in_brackets {
                // A comment before the next argument is about that argument, and stays.
                let rest = gap.trim_start().strip_prefix(',').map_or("", str::trim_start);
                first.range.start..next.range.start - rest.len()
            } else {
                // In lines with dashes a comment cannot stay between.
                (gap.trim() == "-").then_some(first.range.start..next.range.start)?
            }
        } else if self.args_were_missing(text, args) {
            self.command.range.end..args.range.end
        } else if !args.in_brackets {
            // All lines of the list go, and brackets say that there is nothing.
            let start = text[..first.range.start].trim_end_matches([' ', '\t', '-']).trim_end().len();
            return Some(vec![
                Splice { range: self.command.range.clone(), with: text[own.range.clone()].to_owned() },
                Splice { range: start..after, with: " []".to_owned() },
            ]);
        } else {
            let gap = &text[after..args.range.end - 1];
            let comma = gap.trim_start().strip_prefix(',').map_or(0, |rest| gap.len() - rest.len());
            first.range.start..after + comma
        };
        let command = Splice { range: self.command.range.clone(), with: text[own.range.clone()].to_owned() };
        Some(vec![command, Splice { range, with: String::new() }])
    }

    /// What stands between the command and a list of arguments that was not there, up to the list's bracket.
    fn before_new_args(&self, text: &str) -> String {
        let line = text[..self.command_name].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let before = &text[line..self.command_name];
        match self.syntax {
            Syntax::Json => format!("{}\"args\": ", separator(text, self.command_name)),
            Syntax::Toml if self.in_braces => ", args = ".to_owned(),
            // The beginning of the line again: white space, or the path of a dotted name.
            Syntax::Toml => format!("{line_end}{before}args = "),
            Syntax::Yaml if self.in_braces => ", args: ".to_owned(),
            Syntax::Yaml => {
                // A dash before the name belongs to the first member only.
                let indent: String = before.chars().map(|_| ' ').collect();
                format!("{line_end}{indent}args: ")
            }
        }
    }

    /// Whether the list is written as [`Self::guard`] writes one where there was none.
    fn args_were_missing(&self, text: &str, args: &Args) -> bool {
        let list = &text[args.range.clone()];
        if self.command.range.end > args.name || !args.in_brackets {
            return false;
        }
        let follows = match self.syntax {
            Syntax::Json => text[self.command.range.end..args.name].trim() == ",",
            _ => text[self.command.range.end..args.range.start] == self.before_new_args(text),
        };
        follows && list.starts_with("[ \"") && list.ends_with(" ]") && !list.contains('\n')
    }

    /// What stands between two words of the list that has one at `at`.
    fn separator(&self, text: &str, at: usize) -> String {
        let in_brackets = self.args.as_ref().is_none_or(|args| args.in_brackets);
        if in_brackets {
            return separator(text, at);
        }
        // A line with a dash; the first one may share its line with what is before the list.
        let line = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = if text[..line].ends_with("\r\n") { "\r\n" } else { "\n" };
        let before = text[line..at].trim_end();
        let indent: String = before.strip_suffix('-').unwrap_or(before).chars().map(|_| ' ').collect();
        let gap = &text[line + before.len()..at];
        format!("{line_end}{indent}-{gap}")
    }
}

/// A comma and the whitespace that stands before `at`, if that begins a line; otherwise a comma and a space.
fn separator(text: &str, at: usize) -> String {
    let indent = text[..at].trim_end_matches([' ', '\t']).len();
    let line = text[..indent].strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line).len());
    line.map_or(", ".to_owned(), |line| format!(",{}", &text[line..at]))
}

/// A text in double quotes: in JSON, TOML and YAML it is written the same.
fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The last part of a path of any system, in lower case without `.exe` when it has that.
fn file_name(path: &str) -> String {
    let last = path.rsplit(['/', '\\']).next().unwrap_or_default();
    let lower = last.to_ascii_lowercase();
    lower.strip_suffix(".exe").map_or(last.to_owned(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::document::{Kind, servers};

    fn stdio(text: &str) -> Stdio {
        let mut found = servers(Path::new("c.json"), text, &[&["s"]]).unwrap();
        let Some(Kind::Stdio(stdio)) = found.pop().map(|server| server.kind) else { panic!("{text}") };
        stdio
    }

    /// Guards the one server of `{"s": {"fs": …}}`, checks that unguarding gives back every byte, and returns the
    /// guarded text.
    fn guarded(text: &str) -> String {
        let out = spliced(text, stdio(text).guard(text, "/bin/credence", "fs", &[]));
        assert_eq!(unguarded(&out), text);
        out
    }

    fn unguarded(text: &str) -> String {
        let server = stdio(text);
        spliced(text, server.unguard(text, &server.guarded("").unwrap()).unwrap())
    }

    #[test]
    fn words_follow_the_form_of_the_array() {
        assert_eq!(
            guarded(r#"{"s":{"fs":{"command":"npx","args":["-y","x"],"env":{}}}}"#),
            r#"{"s":{"fs":{"command":"/bin/credence","args":["guard", "--name", "fs", "--", "npx", "-y","x"],"env":{}}}}"#
        );
        assert_eq!(
            guarded("{\"s\":{\"fs\":{\"args\":[ // yes\r\n\t\"-y\",\r\n\t],\r\n\"command\":\"np\\u0078\"}}}"),
            "{\"s\":{\"fs\":{\"args\":[ // yes\r\n\t\"guard\",\r\n\t\"--name\",\r\n\t\"fs\",\r\n\t\"--\",\r\n\t\"np\\u0078\",\r\n\t\
             \"-y\",\r\n\t],\r\n\"command\":\"/bin/credence\"}}}"
        );
        assert!(guarded(r#"{"s":{"fs":{"command":"npx","args":[/* a */"-y"]}}}"#).contains(r#"[/* a */"guard", "#));
    }

    #[test]
    fn missing_and_empty_arguments_are_told_apart_on_the_way_back() {
        assert!(guarded(r#"{"s":{"fs":{"command":"npx"}}}"#).contains(r#""/bin/credence", "args": [ "guard", "#));
        assert!(guarded(r#"{"s":{"fs":{"command":"npx","args":[]}}}"#).contains(r#""args":["guard", "#));
        guarded("{\"s\":{\"fs\":{\"command\":\"npx\",\"args\":[ ]}}}");
        guarded("{\"s\":{\"fs\":{\"command\":\"npx\",\"args\":[ // none\n ],}}}");
        guarded("{\"s\":{\"fs\":{\"args\":[],\"command\":\"npx\"}}}");
        let lines = guarded("{\"s\":{\"fs\":{\n\t\"command\": \"npx\", // run\n\t\"env\": {}\n}}}");
        assert!(lines.contains("\"/bin/credence\",\n\t\"args\": [ \"guard\""), "{lines}");
        guarded("{\"s\":{\"fs\":{\n  \"command\": \"npx\" // run\n}}}");
    }

    #[test]
    fn only_the_first_dashes_are_the_guards() {
        guarded(r#"{"s":{"fs":{"command":"npx","args":["--","guard","--","x"]}}}"#);
        guarded(r#"{"s":{"fs":{"command":"--","args":["--"]}}}"#);
    }

    #[test]
    fn what_was_changed_after_installing_survives() {
        let guard = r#""guard", "--name", "fs", "--strict", "--","#;
        let text = format!(r#"{{"s":{{"fs":{{"command":"credence","args":[{guard} "uvx", /* new */ "z"]}}}}}}"#);
        assert_eq!(unguarded(&text), r#"{"s":{"fs":{"command":"uvx","args":[/* new */ "z"]}}}"#);
        let text = format!(r#"{{"s":{{"fs":{{"command":"credence","args":[{guard} "uvx" , ]}}}}}}"#);
        assert_eq!(unguarded(&text), r#"{"s":{"fs":{"command":"uvx","args":[ ]}}}"#);
        let text = format!(r#"{{"s":{{"fs":{{"command":"credence","args":[{guard} "uvx" /* , */ , "z"]}}}}}}"#);
        assert_eq!(unguarded(&text), r#"{"s":{"fs":{"command":"uvx","args":["z"]}}}"#);
        // The array looks as if it had been missing, but a member stands between: only its words go.
        let text = format!(r#"{{"s":{{"fs":{{"command":"credence","env":{{}},"args":[ {guard} "uvx" ]}}}}}}"#);
        assert_eq!(unguarded(&text), r#"{"s":{"fs":{"command":"uvx","env":{},"args":[  ]}}}"#);
    }

    #[test]
    fn a_guard_is_recognised_by_its_executable_and_words() {
        let slug = |command: &str, args: &str| {
            let text = format!(r#"{{"s":{{"fs":{{"command":{},"args":[{args}]}}}}}}"#, json(command));
            stdio(&text).guarded("/opt/c").map(|guarded| guarded.slug.unwrap_or_default().to_owned())
        };
        let args = r#""guard", "--name", "a", "--", "npx""#;
        for command in ["credence", "/usr/bin/credence", r"C:\Tools\Credence.EXE", "/opt/c"] {
            assert_eq!(slug(command, args).as_deref(), Some("a"), "{command}");
        }
        assert_eq!(slug("credence", r#""guard", "--name=b", "--""#).as_deref(), Some("b"));
        assert_eq!(slug("credence", r#""guard", "--", "--name", "c""#).as_deref(), Some(""));
        assert_eq!(slug("npx", args), None);
        assert_eq!(slug("credence-mcp", args), None);
        assert_eq!(slug("credence", r#""serve", "--", "npx""#), None);
        assert_eq!(slug("credence", r#""guard", "npx""#), None);
    }
}
