//! What tells the server of a command from others: no runners, no versions, no options, no secrets.
//!
//! ```text
//! npx -y @scope/files@1.2.3 --verbose /tmp      @scope/files /tmp
//! uv --directory /a run server.py               /a/server.py /a
//! java -Xmx1g -jar a.jar                        java /here/a.jar
//! bash -lc "cd /b && node index.js"             bash, the code
//! ```
//!
//! - Arguments without a flag count; those that are paths count as whole paths, so that `server.py` in two folders is two servers.
//! - The word after a flag is an option or a secret, and does not count, unless the flag says where to run or what on ([`PLACES`]), or the
//!   word is a path and the flag's name is neither that of a secret nor of an output.
//! - Where the program is found by the working directory alone (`npm start`, `uv run serve`), that counts.

mod former;

use std::path::{Component, Path, PathBuf};

use url::Url;

use crate::{
    identity::plain_url,
    server_name::{RUNNERS, VERBS, WITH_VALUE, name_of},
};

/// Flags of interpreters after which the program itself stands.
const EVALUATED: [&str; 3] = ["-c", "-e", "--eval"];
/// Flags whose value says where to run, or what on.
const PLACES: [&str; 7] = ["-jar", "--directory", "--project", "--cwd", "-C", "--prefix", "--db-path"];
/// Those of them that name the folder from which other paths start.
const FOLDERS: [&str; 4] = ["--directory", "--cwd", "-C", "--prefix"];
/// Parts of the names of flags whose values change while the server stays the same: secrets, and what it writes.
const PASSING: [&str; 12] =
    ["token", "key", "secret", "pass", "auth", "cred", "log", "out", "cache", "tmp", "temp", "pid"];
const SHELLS: [&str; 8] = ["sh", "bash", "zsh", "dash", "ksh", "fish", "pwsh", "powershell"];
/// Runners that take the name of a package, not of a file.
const OF_PACKAGES: [&str; 6] = ["npx", "bunx", "uvx", "pipx", "docker", "mcp-remote"];
/// Runners whose next word is a file or folder.
const OF_FILES: [&str; 3] = ["python", "python3", "node"];
/// Words after which they run what the project says, and flags that name a package instead.
const IN_PROJECT: [&str; 2] = ["run", "start"];
const OF_PACKAGE_FLAGS: [&str; 2] = ["--with", "--from"];
/// Runners that run what the project in the working directory says.
const OF_PROJECTS: [&str; 10] = ["npm", "pnpm", "yarn", "bun", "deno", "uv", "poetry", "cargo", "dotnet", "go"];
/// Files by which a folder is a project.
const PROJECT_FILES: [&str; 6] = ["package.json", "pyproject.toml", "deno.json", "deno.jsonc", "Cargo.toml", "go.mod"];

/// What tells the server of a command that is started here from others.
pub fn words(command: &[String]) -> Vec<String> {
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    words_in(command, here, &Path::exists)
}

/// The words that stood for the same command in another version, or while its files were not there yet.
pub fn former_words(command: &[String]) -> Vec<Vec<String>> {
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    vec![words_in(command, here, &|_| false), former::words(command)]
}

fn words_in(command: &[String], here: PathBuf, exists: &dyn Fn(&Path) -> bool) -> Vec<String> {
    let mut reader = Reader { base: here, exists, program: None, words: Vec::new(), placed: false };
    reader.read(command, None);
    reader.program.into_iter().chain(reader.words).collect()
}

struct Reader<'a> {
    /// Where relative paths start.
    base: PathBuf,
    exists: &'a dyn Fn(&Path) -> bool,
    program: Option<String>,
    words: Vec<String>,
    /// A flag has said where to run.
    placed: bool,
}

impl Reader<'_> {
    /// Reads a command, or what `runner` runs.
    fn read(&mut self, command: &[String], runner: Option<&str>) {
        let Some((program, rest)) = command.split_first() else { return };
        let name = name_of(program);
        if RUNNERS.contains(&name.as_str()) {
            let before = self.words.len();
            if self.read_runner(&name, rest) {
                return;
            }
            self.words.truncate(before);
        }
        self.read_program(program, rest, runner);
    }

    /// Reads what a runner runs; false where it names nothing.
    fn read_runner(&mut self, name: &str, rest: &[String]) -> bool {
        let (mut in_project, mut tool, mut module) = (false, false, false);
        let mut args = rest.iter().enumerate();
        while let Some((n, arg)) = args.next() {
            let (flag, inline) = split_flag(arg);
            if name != "docker" && EVALUATED.contains(&arg.as_str()) {
                let code = args.next().map(|(_, code)| code.as_str());
                self.program = Some(name.to_owned());
                code.into_iter().for_each(|code| self.code(code));
                return true;
            }
            if PLACES.contains(&flag) {
                let value = inline.or_else(|| args.next().map(|(_, value)| value.as_str()));
                value.into_iter().for_each(|value| self.place(flag, value));
            } else if WITH_VALUE.contains(&arg.as_str()) {
                in_project &= !OF_PACKAGE_FLAGS.contains(&arg.as_str());
                args.next();
            } else if VERBS.contains(&arg.as_str()) {
                in_project = OF_PROJECTS.contains(&name) && IN_PROJECT.contains(&arg.as_str()) && !tool;
                tool |= arg == "tool";
            } else if !arg.starts_with('-') && !is_assignment(arg) {
                if module && let Some(path) = self.module(arg) {
                    self.program = Some(path);
                    self.arguments(&rest[n + 1..], false);
                } else {
                    self.read(&rest[n..], Some(name));
                }
                if in_project {
                    self.project(name);
                }
                return true;
            }
            module = arg == "-m";
        }
        if in_project {
            self.program = Some(name.to_owned());
            self.project(name);
        }
        in_project
    }

    fn read_program(&mut self, program: &str, rest: &[String], runner: Option<&str>) {
        if let Ok(url) = program.parse::<Url>()
            && url.host().is_some()
        {
            self.program = Some(plain_url(&url));
            return;
        }
        let name = name_of(program);
        let of_files =
            |runner: &str| OF_FILES.contains(&runner) || !OF_PACKAGES.contains(&runner) && program.contains(['.', '/']);
        let is_file = program.starts_with(['/', '.']) || runner.is_some_and(of_files) && self.is_there(program);
        self.program = Some(if is_file { self.whole(program) } else { without_version(program) });
        self.arguments(rest, SHELLS.contains(&name.as_str()));
        if OF_PROJECTS.contains(&name.as_str()) && rest.iter().any(|word| IN_PROJECT.contains(&word.as_str())) {
            self.project(&name);
        }
    }

    /// Arguments of the server itself.
    fn arguments(&mut self, args: &[String], of_shell: bool) {
        let mut args = args.iter().peekable();
        let names_a_place = |word: &&String| PLACES.contains(&split_flag(word).0);
        while let Some(arg) = args.next() {
            let (flag, inline) = split_flag(arg);
            if arg == "-c" || of_shell && is_code_flag(arg) {
                args.next().into_iter().for_each(|code| self.code(code));
            } else if !arg.starts_with('-') {
                let word = arg.parse::<Url>().ok().filter(|url| url.host().is_some());
                let word = word.map_or_else(|| self.positional(arg), |url| plain_url(&url));
                self.words.push(word);
            } else if let Some(value) = inline.or_else(|| args.next_if(|word| !names_a_place(word)).map(String::as_str))
            {
                if PLACES.contains(&flag) {
                    self.place(flag, value);
                } else if self.is_path_of(flag, value) {
                    let path = self.whole(value);
                    self.words.push(path);
                }
            }
        }
    }

    /// The value of a flag that says where to run, or what on.
    fn place(&mut self, flag: &str, value: &str) {
        let path = self.whole(value);
        if FOLDERS.contains(&flag) {
            self.base = PathBuf::from(&path);
        }
        self.words.push(path);
        self.placed = true;
    }

    /// Code that an interpreter runs; where it names files of this folder, the folder counts.
    fn code(&mut self, code: &str) {
        self.words.push(code.to_owned());
        let parts = code.split(|c: char| c.is_whitespace() || ";&|()'\"`<>".contains(c));
        let mut relative = parts.filter(|part| part.contains(['.', '/']) && !part.starts_with('/'));
        if relative.any(|part| self.is_there(part)) {
            self.words.push(self.base.display().to_string());
        }
    }

    /// Counts the folder of the project whose program `runner` runs, unless that has a path of its own.
    fn project(&mut self, runner: &str) {
        let has_path = self.placed || self.program.as_ref().is_some_and(|program| program.starts_with('/'));
        let is_project = || runner == "dotnet" || PROJECT_FILES.iter().any(|file| (self.exists)(&self.base.join(file)));
        if !has_path && is_project() {
            self.words.push(self.base.display().to_string());
        }
    }

    /// The file or folder of a Python module that lies here.
    fn module(&self, name: &str) -> Option<String> {
        let path = self.base.join(name.replace('.', "/"));
        let found = (self.exists)(&path) || (self.exists)(&path.with_extension("py"));
        found.then(|| path.display().to_string())
    }

    fn positional(&self, word: &str) -> String {
        if is_path_by_its_looks(word) || self.is_there(word) { self.whole(word) } else { word.to_owned() }
    }

    fn is_path_of(&self, flag: &str, value: &str) -> bool {
        let flag = flag.to_ascii_lowercase();
        let passing = PASSING.iter().any(|part| flag.contains(part));
        !passing && !value.starts_with('-') && (is_path_by_its_looks(value) || self.is_there(value))
    }

    fn is_there(&self, word: &str) -> bool {
        !word.is_empty() && (self.exists)(Path::new(&self.whole(word)))
    }

    /// As a path from the root, without `.` and `..`. Links are not followed: where `current` leads changes with every release.
    fn whole(&self, word: &str) -> String {
        let mut whole = PathBuf::new();
        for part in self.base.join(word).components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir => drop(whole.pop()),
                part => whole.push(part),
            }
        }
        whole.display().to_string()
    }
}

/// A flag without its value, and the value that stands in the same word.
fn split_flag(arg: &str) -> (&str, Option<&str>) {
    match arg.split_once('=') {
        Some((flag, value)) if arg.starts_with('-') => (flag, Some(value)),
        _ => (arg, None),
    }
}

/// Whether a shell reads its code from the word after this one: `-c`, `-lc`, `-ic`, PowerShell's `-Command`.
fn is_code_flag(arg: &str) -> bool {
    let letters = arg.strip_prefix('-').and_then(|letters| letters.strip_suffix('c'));
    letters.is_some_and(|letters| letters.len() <= 4 && letters.chars().all(|c| c.is_ascii_alphabetic()))
        || arg.eq_ignore_ascii_case("-command")
}

fn is_path_by_its_looks(word: &str) -> bool {
    word == "." || word == ".." || ["/", "./", "../"].iter().any(|start| word.starts_with(start))
}

/// `NAME=value`, a variable for the program that follows.
pub(super) fn is_assignment(arg: &str) -> bool {
    let name = arg.split_once('=').map(|(name, value)| (name, value.starts_with('=')));
    name.is_some_and(|(name, comparison)| {
        !comparison && !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// A program or package without its version; a path from the root.
pub(super) fn without_version(program: &str) -> String {
    if program.starts_with(['/', '.']) {
        let whole = std::path::absolute(program).map(|path| path.display().to_string());
        return whole.unwrap_or_else(|_| program.to_owned());
    }
    let scope = usize::from(program.starts_with('@'));
    let end = program[scope..].find(['@', ':']).map_or(program.len(), |at| at + scope);
    let end = program.find("==").map_or(end, |at| at.min(end));
    program[..end].to_owned()
}

#[cfg(test)]
mod tests;
