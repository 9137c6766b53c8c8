use std::path::{Path, PathBuf};

use super::words_in;

/// The words of a command that is started in `here`, where these files are.
fn words(line: &str, here: &str, files: &[&str]) -> Vec<String> {
    let command: Vec<String> = match line.split_once(" \"") {
        Some((before, code)) => {
            before.split(' ').map(str::to_owned).chain([code.trim_end_matches('"').to_owned()]).collect()
        }
        None => line.split(' ').map(str::to_owned).collect(),
    };
    words_in(&command, PathBuf::from(here), &|path: &Path| files.iter().any(|file| Path::new(file) == path))
}

const FILES: [&str; 20] = [
    "/a/server.py",
    "/b/server.py",
    "/a/dist/index.js",
    "/b/dist/index.js",
    "/a/a.jar",
    "/b/a.jar",
    "/a/weather.py",
    "/b/weather.py",
    "/a/package.json",
    "/b/package.json",
    "/a/conf",
    "/b/conf",
    "/a",
    "/b",
    "/a/run.sh",
    "/b/run.sh",
    "/a/docs",
    "/b/docs",
    "/a/a.db",
    "/b/a.db",
];

#[test]
fn one_command_in_two_folders_is_two_servers() {
    for line in [
        "python3 server.py",
        "/usr/bin/python3 -u server.py",
        "node dist/index.js",
        "java -jar a.jar",
        "java -Xmx1g -jar a.jar",
        "java -jar gone.jar",
        "mcp-server-sqlite --db-path a.db",
        "uvx mcp-server-sqlite --db-path=gone.db",
        "server-filesystem .",
        "npx -y @modelcontextprotocol/server-filesystem docs",
        "server --config conf",
        "server ./gone",
        "python3 -m weather",
        "npm start",
        "npm run serve",
        "bun run serve",
        "bash run.sh",
        "bash -lc \"node dist/index.js\"",
    ] {
        assert_ne!(words(line, "/a", &FILES), words(line, "/b", &FILES), "{line}");
    }
}

#[test]
fn the_places_that_flags_name_tell_servers_apart() {
    for (one, other) in [
        ("bash -lc \"cd /a && python3 server.py\"", "bash -lc \"cd /b && python3 server.py\""),
        ("zsh -ic \"cd /a && python3 server.py\"", "zsh -ic \"cd /b && python3 server.py\""),
        ("pwsh -Command \"cd /a\"", "pwsh -Command \"cd /b\""),
        ("uv --directory /a run server.py", "uv --directory /b run server.py"),
        ("uv --directory=/a run server.py", "uv --directory=/b run server.py"),
        ("uv run --project /a serve", "uv run --project /b serve"),
        ("dotnet run --project /a", "dotnet run --project /b"),
        ("npm --prefix /a start", "npm --prefix /b start"),
        ("pnpm -C /a start", "pnpm -C /b start"),
        ("server --cwd /a", "server --cwd /b"),
        ("server --data /a/data", "server --data /b/data"),
    ] {
        assert_ne!(words(one, "/", &FILES), words(other, "/", &FILES), "{one}");
    }
}

#[test]
fn one_file_is_one_server_however_its_path_is_written() {
    for (one, other) in [
        ("python3 server.py", "python3 /a/server.py"),
        ("python3 server.py", "python3 ./server.py"),
        ("python3 server.py", "python3 docs/../server.py"),
        ("node dist/index.js", "node ./dist/index.js"),
        ("server docs", "server ./docs"),
        ("server --config conf", "server --config=/a/conf"),
        ("java -jar a.jar", "java -jar /a/a.jar"),
    ] {
        assert_eq!(words(one, "/a", &FILES), words(other, "/a", &FILES), "{one}");
    }
}

#[test]
fn packages_are_the_same_wherever_they_are_started() {
    for line in [
        "npx -y @scope/files@1.2.3 /tmp",
        "npx -y docs",
        "uvx mcp-server-git --repository /srv/repo",
        "docker run -i --rm -v /a:/data mcp/sqlite",
        "server --token docs",
        "server --log-file conf",
        "npx mcp-remote https://x.example/mcp",
    ] {
        assert_eq!(words(line, "/a", &FILES), words(line, "/b", &FILES), "{line}");
    }
}
