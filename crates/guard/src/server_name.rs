//! The name of a server, by which its receipts are found, from the command that runs it or its address.

use url::Url;

/// Programs whose first argument says what they run.
pub(crate) const RUNNERS: [&str; 15] = [
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
pub(crate) const WITH_VALUE: [&str; 18] = [
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
/// Words of runners that are no program.
pub(crate) const VERBS: [&str; 6] = ["run", "exec", "x", "dlx", "tool", "start"];
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

/// The last part of a path or package that says something.
pub(crate) fn name_of(path: &str) -> String {
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
