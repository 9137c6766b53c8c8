//! The name of a server, by which its receipts are found, from the command that runs it or its address.

use url::Url;

/// Programs whose first argument says what they run.
const RUNNERS: [&str; 15] = [
    "env",
    "sudo",
    "mcp-remote",
    "npx",
    "npm",
    "node",
    "bun",
    "bunx",
    "deno",
    "python",
    "python3",
    "uv",
    "uvx",
    "pipx",
    "docker",
];

/// Flags of runners whose value follows.
const WITH_VALUE: [&str; 18] = [
    "-e",
    "--env",
    "--env-file",
    "-v",
    "--volume",
    "--mount",
    "--name",
    "--network",
    "-p",
    "--publish",
    "-w",
    "--workdir",
    "-u",
    "--user",
    "--with",
    "--from",
    "--python",
    "--directory",
];
/// Flags of interpreters after which the program itself stands.
const EVALUATED: [&str; 3] = ["-c", "-e", "--eval"];
/// Words of runners that are no program.
const VERBS: [&str; 6] = ["run", "exec", "x", "dlx", "tool", "start"];
/// Names that say nothing: the folder's says more.
const GENERIC: [&str; 10] = ["index", "main", "server", "app", "cli", "mod", "dist", "build", "src", "bin"];

/// A name from a command: `npx -y @scope/server-files /tmp` is `server-files`. Values of flags and of variables may be secrets, and
/// never become part of it.
pub fn from_command(command: &[String]) -> String {
    let Some((program, rest)) = command.split_first() else { return "server".to_owned() };
    let name = name_of(program);
    if RUNNERS.contains(&name.as_str()) {
        let mut args = rest.iter().enumerate();
        while let Some((n, arg)) = args.next() {
            if WITH_VALUE.contains(&arg.as_str()) {
                args.next();
            } else if !arg.starts_with('-') && !arg.contains('=') && !VERBS.contains(&arg.as_str()) {
                return from_command(&rest[n..]);
            }
        }
    }
    if let Ok(url) = program.parse::<Url>()
        && url.host().is_some()
    {
        return from_url(&url);
    }
    if name.is_empty() { "server".to_owned() } else { name }
}

/// What tells the server of a command from others: the program without runners and versions, then its arguments without flags and the
/// word after each flag, which is an option or a secret. `-c` is followed by the program itself.
pub fn identifying_words(command: &[String]) -> Vec<String> {
    let Some((program, rest)) = command.split_first() else { return Vec::new() };
    let name = name_of(program);
    if RUNNERS.contains(&name.as_str()) {
        let mut args = rest.iter().enumerate();
        while let Some((n, arg)) = args.next() {
            if name != "docker" && EVALUATED.contains(&arg.as_str()) {
                return std::iter::once(name).chain(args.next().map(|(_, code)| code.clone())).collect();
            }
            let is_flag = arg.starts_with('-');
            if WITH_VALUE.contains(&arg.as_str()) {
                args.next();
            } else if !is_flag && !is_assignment(arg) && !VERBS.contains(&arg.as_str()) {
                return identifying_words(&rest[n..]);
            }
        }
    }
    if let Ok(url) = program.parse::<Url>()
        && url.host().is_some()
    {
        return vec![crate::identity::plain_url(&url)];
    }
    let mut words = vec![without_version(program)];
    let mut args = rest.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-c" => words.extend(args.next().cloned()),
            flag if flag.starts_with('-') && flag.contains('=') => {}
            flag if flag.starts_with('-') => drop(args.next()),
            word => words.push(
                word.parse::<Url>()
                    .ok()
                    .filter(|url| url.host().is_some())
                    .map_or_else(|| word.to_owned(), |url| crate::identity::plain_url(&url)),
            ),
        }
    }
    words
}

/// `NAME=value`, a variable for the program that follows.
fn is_assignment(arg: &str) -> bool {
    let name = arg.split_once('=').map(|(name, value)| (name, value.starts_with('=')));
    name.is_some_and(|(name, comparison)| {
        !comparison && !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// A program or package without its version; a path from the root, so that it means the same everywhere.
fn without_version(program: &str) -> String {
    if program.starts_with(['/', '.']) {
        let whole = std::path::absolute(program).map(|path| path.display().to_string());
        return whole.unwrap_or_else(|_| program.to_owned());
    }
    let scope = usize::from(program.starts_with('@'));
    let end = program[scope..].find(['@', ':']).map_or(program.len(), |at| at + scope);
    let end = program.find("==").map_or(end, |at| at.min(end));
    program[..end].to_owned()
}

/// The last part of a path or package that says something.
fn name_of(path: &str) -> String {
    let mut parts = path.rsplit(['/', '\\']).filter(|part| !part.is_empty()).map(|part| {
        let stem = match part.rsplit_once('.') {
            Some((stem, ending))
                if !stem.is_empty() && ending.len() <= 3 && !ending.starts_with(|c: char| c.is_ascii_digit()) =>
            {
                stem
            }
            _ => part,
        };
        let unversioned = stem.split(['@', ':']).find(|part| !part.is_empty()).unwrap_or_default();
        safe(unversioned)
    });
    let last = parts.next().unwrap_or_default();
    if !GENERIC.contains(&last.as_str()) {
        return last;
    }
    parts.find(|part| !part.is_empty() && !GENERIC.contains(&part.as_str())).unwrap_or(last)
}

/// A name from an address: its host and port.
pub fn from_url(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    safe(&url.port().map_or_else(|| host.to_owned(), |port| format!("{host}-{port}")))
}

/// As a name that a path can hold.
fn safe(text: &str) -> String {
    let one = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let name: String = text.chars().map(one).take(64).collect();
    name.trim_start_matches(['.', '-']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_after_what_they_run() {
        let name = |command: &str| from_command(&command.split(' ').map(str::to_owned).collect::<Vec<_>>());
        for (command, expected) in [
            ("npx -y @modelcontextprotocol/server-filesystem /tmp", "server-filesystem"),
            ("npx -y some-server@1.2.3", "some-server"),
            ("/usr/bin/python3 ./my_server.py --x", "my_server"),
            ("python -m weather", "weather"),
            ("uvx mcp-server-git", "mcp-server-git"),
            ("./target/release/thing", "thing"),
            ("node", "node"),
            ("node /x/node_modules/server-everything/dist/index.js stdio", "server-everything"),
            ("python3 /a/weather/server.py", "weather"),
            ("docker run -i --rm -e TOKEN=abc123secret mcp/github", "github"),
            ("docker run -i -e TOKEN mcp/github:latest", "github"),
            ("env SECRET=1 node x.js", "x"),
            ("npx -y mcp-remote https://tools.example:8443/mcp", "tools.example-8443"),
            ("uv run --with mcp my-server", "my-server"),
            ("ümlaut", "-mlaut".trim_start_matches('-')),
        ] {
            assert_eq!(name(command), expected, "{command}");
            assert!(credence_receipts::folder::check_name(&name(command)).is_ok());
        }
    }
}
