//! Installing and uninstalling on files, as the command does it.

use super::*;

const EXECUTABLE: &str = if cfg!(windows) { "C:/opt/credence" } else { "/opt/credence" };

const AT: &[&[&str]] = &[&["mcpServers"]];

const COMMENTED: &str = r#"// my servers
{
    "theme": "dark", /* stays */
    "mcpServers": {
        "fs": {
            // the files
            "command": "npx",
            "args": [
                "-y", // yes
                "@modelcontextprotocol/server-filesystem",
                "/x",
            ],
            "env": { "KEY": "secret" },
        },
        "My Server!": { "type": "stdio", "command": "C:\\bin\\\u0073erver.exe", "disabled": false },
        "empty": {"args": [ ], "command":"uvx"},
        "far": { "url": "https://example.com/mcp?key=secret" },
        "own": { "command": "docker", "args": ["run", "--", "credence", "guard", "--"] },
    },
}"#;

struct Home {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl Home {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mcp.json");
        fs::write(&path, text).unwrap();
        Self { folder, path }
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.path).unwrap()
    }

    fn install(&self) -> Plan {
        let guarding = Guarding::new(Path::new(EXECUTABLE), vec!["--mode=block".to_owned()]).unwrap();
        plan_install(&self.path, AT, &guarding).unwrap()
    }

    fn uninstall(&self) -> Plan {
        plan_uninstall(&self.path, AT, Path::new(EXECUTABLE)).unwrap()
    }

    fn files(&self) -> usize {
        fs::read_dir(self.folder.path()).unwrap().count()
    }
}

fn value(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

fn every_form() -> Vec<String> {
    let tabs = COMMENTED.replace("    ", "\t");
    let windows = COMMENTED.replace('\n', "\r\n");
    let compact =
        r#"{"mcpServers":{"a":{"command":"a"},"b":{"command":"b","args":[]},"c":{"args":["x"],"command":"c"}}}"#;
    let marked = format!("\u{feff}{windows}\r\n");
    vec![COMMENTED.to_owned(), format!("{COMMENTED}\n"), tabs, windows, marked, compact.to_owned()]
}

#[test]
fn a_server_runs_under_the_guard_and_keeps_the_rest() {
    let home = Home::new(r#"{"mcpServers": {"fs": {"command": "npx", "args": ["-y", "/x"], "env": {"K": "v"}}}}"#);
    let plan = home.install();
    assert_eq!(plan.servers[0].change, Change::Guarded { slug: "fs".to_owned() });
    plan.apply().unwrap();
    let expected = serde_json::json!({"mcpServers": {"fs": {
        "command": EXECUTABLE,
        "args": ["guard", "--name", "fs", "--mode=block", "--", "npx", "-y", "/x"],
        "env": {"K": "v"},
    }}});
    assert_eq!(value(&home.text()), expected);
}

#[test]
fn installing_and_uninstalling_gives_back_every_byte() {
    for text in every_form() {
        let home = Home::new(&text);
        home.install().apply().unwrap();
        let guarded = home.text();
        assert_ne!(guarded, text);
        assert_eq!(
            guarded.replace("\r\n", "").contains('\n'),
            text.replace("\r\n", "").contains('\n'),
            "mixed line ends"
        );
        let plan = home.uninstall();
        assert_eq!(plan.after, text);
        plan.apply().unwrap();
        assert_eq!(home.text(), text);
        assert_eq!(home.files(), 1, "the backup holds nothing more and is gone");
    }
}

#[test]
fn only_lines_with_commands_and_arguments_change() {
    let plan = Home::new(COMMENTED).install();
    let guarded: Vec<&str> = plan.after.lines().collect();
    for line in COMMENTED.lines().filter(|line| !line.contains("\"command\"")) {
        assert!(guarded.contains(&line), "lost: {line}");
    }
    let change = |name: &str| &plan.servers.iter().find(|server| server.name == name).unwrap().change;
    assert_eq!(*change("My Server!"), Change::Guarded { slug: "My-Server-".to_owned() });
    assert_eq!(*change("own"), Change::Guarded { slug: "own".to_owned() });
    assert_eq!(*change("far"), Change::Remote { url: "https://example.com/mcp".to_owned() });
    assert!(plan.after.contains(r#""--", "C:\\bin\\\u0073erver.exe" ]"#));
    assert!(plan.after.contains("                \"npx\",\n                \"-y\", // yes\n"));
}

#[test]
fn installing_twice_changes_nothing_more() {
    for text in every_form() {
        let home = Home::new(&text);
        home.install().apply().unwrap();
        let (once, files) = (home.text(), home.files());
        let plan = home.install();
        assert!(!plan.changes());
        assert_eq!(plan.diff(), "");
        assert!(plan.servers.iter().all(|server| !matches!(server.change, Change::Guarded { .. })));
        assert_eq!(plan.apply().unwrap(), Applied::default());
        assert_eq!((home.text(), home.files()), (once, files));
    }
}

#[test]
fn uninstalling_leaves_bare_servers_alone() {
    let home = Home::new(COMMENTED);
    let plan = home.uninstall();
    assert!(!plan.changes());
    assert_eq!(plan.servers[0].change, Change::NotGuarded);
    let home = Home::new(r#"{"mcpServers": {"a": {"command": "credence", "args": ["guard", "--"]}}}"#);
    assert!(matches!(home.uninstall().servers[0].change, Change::Unsupported(_)));
    assert!(!home.uninstall().changes());
}

#[test]
fn servers_changed_after_installing_survive_and_backups_stay() {
    let home = Home::new(r#"{"mcpServers": {"a": {"command": "npx", "args": ["one"]}}}"#);
    let first = home.install().apply().unwrap().backup.unwrap();
    assert!(first.ends_with("mcp.json.before-credence"));
    fs::write(&home.path, home.text().replace("\"one\"", "\"two\", \"--\", \"three\"")).unwrap();
    let applied = home.uninstall().apply().unwrap();
    assert_eq!(home.text(), r#"{"mcpServers": {"a": {"command": "npx", "args": ["two", "--", "three"]}}}"#);
    assert!(applied.backup.unwrap().ends_with("mcp.json.before-credence.2"));
    assert!(applied.removed.is_empty());
    assert!(fs::read_to_string(first).unwrap().contains("\"one\""));
}

#[test]
fn a_name_in_use_is_not_given_to_another_server() {
    let guarded = r#""x": {"command": "credence", "args": ["guard", "--name", "a-b", "--", "n"]}"#;
    let home = Home::new(&format!(r#"{{"mcpServers": {{"a b": {{"command": "n"}}, {guarded}}}}}"#));
    let plan = home.install();
    assert_eq!(plan.servers[0].change, Change::Guarded { slug: "a-b-2".to_owned() });
    assert_eq!(plan.servers[1].change, Change::AlreadyGuarded);
}

#[test]
fn a_plan_shows_its_change_and_writes_nothing() {
    let home = Home::new(COMMENTED);
    let diff = home.install().diff();
    assert!(diff.starts_with(&format!("--- {0}\n+++ {0}\n@@ ", home.path.display())), "{diff}");
    assert!(
        diff.contains("-            \"command\": \"npx\",\n+            \"command\": \"/opt/credence\",\n"),
        "{diff}"
    );
    assert_eq!((home.text().as_str(), home.files()), (COMMENTED, 1));
}

#[test]
fn a_file_changed_since_the_plan_is_left_alone() {
    let home = Home::new(COMMENTED);
    let plan = home.install();
    fs::write(&home.path, "{}").unwrap();
    assert!(matches!(plan.apply(), Err(Error::Changed { .. })));
    assert_eq!((home.text().as_str(), home.files()), ("{}", 1));
}

#[cfg(unix)]
#[test]
fn a_link_stays_a_link() {
    let home = Home::new(COMMENTED);
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("link.json");
    std::os::unix::fs::symlink(&home.path, &link).unwrap();
    let guarding = Guarding::new(Path::new(EXECUTABLE), Vec::new()).unwrap();
    let plan = plan_install(&link, AT, &guarding).unwrap();
    let backup = plan.apply().unwrap().backup.unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(home.text(), plan.after);
    assert_eq!(backup.parent(), fs::canonicalize(home.folder.path()).ok().as_deref());
}

#[test]
fn every_project_of_claude_code_is_guarded() {
    let one = r#""mcpServers": {"fs": {"command": "npx"}}"#;
    let home = Home::new(&format!(r#"{{{one}, "projects": {{"/a": {{{one}}}, "/b": {{"mcpServers": {{}}}}}}}}"#));
    let guarding = Guarding::new(Path::new(EXECUTABLE), Vec::new()).unwrap();
    let plan = plan_install(&home.path, Client::ClaudeCode.servers_at(), &guarding).unwrap();
    let guarded = Change::Guarded { slug: "fs".to_owned() };
    let expected = [None, Some("/a".to_owned())].map(|project| ServerChange {
        name: "fs".to_owned(),
        project,
        change: guarded.clone(),
        command: Some(ServerCommand { words: vec!["npx".to_owned()], env: Vec::new() }),
    });
    assert_eq!(plan.servers, expected);
    assert_eq!(plan.after.matches(EXECUTABLE).count(), 2);
}

#[test]
fn a_guard_that_could_not_run_is_refused() {
    assert!(matches!(Guarding::new(Path::new("credence"), Vec::new()), Err(Error::Executable { .. })));
    let flags = vec!["--mode".to_owned(), "--".to_owned()];
    assert!(matches!(Guarding::new(Path::new(EXECUTABLE), flags), Err(Error::FlagDashes)));
}

/// Numbers that look random and are the same in every run.
struct Draws(u64);

impl Draws {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn gap(&mut self) -> &'static str {
        ["", " ", "\n  ", "\r\n\t", " /* , ] */ ", " // \" ]\n ", "\n\n"][self.below(7)]
    }

    /// A list with gaps everywhere and sometimes a comma at the end.
    fn joined(&mut self, items: &[&str]) -> String {
        let mut text = self.gap().to_owned();
        for (index, item) in items.iter().enumerate() {
            let comma = if index + 1 < items.len() || self.below(3) == 0 { "," } else { "" };
            text += &[item, self.gap(), comma, self.gap()].concat();
        }
        text
    }
}

#[test]
fn whatever_stands_between_the_words_comes_back() {
    let words = [r#""-y""#, r#""--""#, r#""guard""#, r#""a\u0062""#, r#""""#];
    let command = r#""command": "np\u0078""#;
    let (home, mut draws) = (Home::new(""), Draws(1));
    for _ in 0..1_000 {
        let count = draws.below(words.len() + 1);
        let args = format!("\"args\":[{}]", draws.joined(&words[..count]));
        let members: [&[&str]; 5] = [
            &[command],
            &[command, r#""env":{}"#],
            &[command, &args],
            &[&args, command],
            &[r#""env":{}"#, command, &args, r#""x":1"#],
        ];
        let chosen = draws.below(members.len());
        let text = format!("{{\"mcpServers\":{{\"fs\":{{{}}}}}}}", draws.joined(members[chosen]));
        fs::write(&home.path, &text).unwrap();
        let plan = home.install();
        fs::write(&home.path, &plan.after).unwrap();
        assert_eq!(home.install().servers[0].change, Change::AlreadyGuarded, "{text}\n{}", plan.after);
        assert_eq!(home.uninstall().after, text, "{}", plan.after);
    }
}

/// Configurations of clients that do not use `mcpServers` in JSON: where the servers are, the file's name, and its text.
const OTHERS: &[(Client, &str, &str)] = &[
    (
        Client::Codex,
        "config.toml",
        r#"# my settings
model = "o" # stays

[mcp_servers.fs] # files
command = 'npx' # run
args = [
    "-y", # yes
    "/x",
]
env = { "KEY" = "secret" }

[mcp_servers."My Server!"]
  command = "uvx"
[mcp_servers.empty]
args = []
command = "a\u0062"
[mcp_servers.one]
command = "a"
args = ["b"]

[mcp_servers.far]
url = "https://example.com/mcp?key=secret"
"#,
    ),
    (
        Client::Codex,
        "config.toml",
        "mcp_servers.fs.command = \"npx\"\r\nmcp_servers.a = { command = \"x\", env = {} }\r\nmcp_servers.b = { args = [\"y\"], command = \"x\" }\r\n",
    ),
    (
        Client::OpenCode,
        "opencode.json",
        r#"{ "mcp": { // mine
    "fs": { "type": "local", "command": ["npx", "-y", "x"], "enabled": true, "environment": {"K": "v"} },
    "lines": { "command": [
        "bun", // fast
        "x"
    ] },
    "far": { "type": "remote", "url": "https://example.com" },
} }"#,
    ),
    (
        Client::OpenCode,
        "opencode.jsonc",
        r#"{ "mcp": { "servers": { "fs": { "type": "local", "command": ["npx"] } } } }"#,
    ),
    (
        Client::Goose,
        "config.yaml",
        r#"GOOSE_MODEL: m # stays
extensions:
  developer:
    type: builtin
    name: developer
    enabled: true
  fs: # files
    type: stdio
    cmd: npx # run
    args:
      - -y # yes
      - "@x/server"
      - /x
    envs:
      KEY: secret
    timeout: 300
  mail:
    cmd: "uvx"
    args: [a, 'b']   # two
  bare:
    type: stdio
    cmd: déjà
    enabled: false
  none: { cmd: npx, args: [] }
  flow: { type: stdio, cmd: npx }
  far:
    type: streamable_http
    uri: https://example.com/mcp
"#,
    ),
    (
        Client::Continue,
        "config.yaml",
        r#"name: mine
mcpServers:
  - name: fs
    command: npx
    args:
    - -y
    - x
  - command: uvx
    name: second
  - name: far
    type: sse
    url: https://example.com
models: [] # stays
"#,
    ),
];

#[test]
fn other_clients_get_back_every_byte() {
    for (client, name, text) in OTHERS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let guarding = Guarding::new(Path::new(EXECUTABLE), vec!["--mode=flag".to_owned()]).unwrap();
        let plan = plan_install(&path, client.servers_at(), &guarding).unwrap();
        let unsupported = plan.servers.iter().find(|server| matches!(server.change, Change::Unsupported(_)));
        assert!(unsupported.is_none(), "{client}: {unsupported:?}");
        let guarded = plan.servers.iter().filter(|server| matches!(server.change, Change::Guarded { .. })).count();
        assert!(guarded > 0, "{client}: {:?}", plan.servers);
        plan.apply().unwrap();
        // What was written is read again, and every server runs under the guard.
        let again = plan_install(&path, client.servers_at(), &guarding).unwrap();
        assert!(!again.changes(), "{client}: {}", plan.after);
        let already = again.servers.iter().filter(|server| server.change == Change::AlreadyGuarded).count();
        assert_eq!(already, guarded, "{client}: {}", plan.after);
        for line in text.lines().filter(|line| line.contains(" # ")) {
            let comment = &line[line.find('#').unwrap()..];
            assert!(plan.after.contains(comment), "{client}: lost {comment}");
        }
        let back = plan_uninstall(&path, client.servers_at(), Path::new(EXECUTABLE)).unwrap();
        assert_eq!(back.after, *text, "{client}: {}", plan.after);
    }
}

#[test]
fn the_guarded_command_is_the_servers_own() {
    let folder = tempfile::tempdir().unwrap();
    let guarding = Guarding::new(Path::new(EXECUTABLE), Vec::new()).unwrap();
    let words = |client: Client, name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let plan = plan_install(&path, client.servers_at(), &guarding).unwrap();
        let before = plan.servers[0].command.clone().unwrap();
        let server = document::servers(&path, &plan.after, client.servers_at()).unwrap().remove(0);
        let Kind::Stdio(stdio) = server.kind else { panic!("{}", plan.after) };
        let after = stdio.started_by();
        assert_eq!(after.env, before.env);
        let expected: Vec<String> = [EXECUTABLE, "guard", "--name", "fs", "--"].map(str::to_owned).into();
        assert_eq!(after.words, [expected, before.words.clone()].concat(), "{}", plan.after);
        before.words
    };
    let toml = "[mcp_servers.fs]\ncommand = 'n'\nargs = ['a', \"b\\n\"]\n";
    assert_eq!(words(Client::Codex, "c.toml", toml), ["n", "a", "b\n"]);
    assert_eq!(words(Client::Goose, "c.yaml", "extensions:\n  fs:\n    cmd: a,b\n    args: [x]\n"), ["a,b", "x"]);
    assert_eq!(words(Client::Goose, "c.yaml", "extensions:\n  fs: {cmd: 'it''s', args: [\"x\"]}\n"), ["it's", "x"]);
    let opencode = r#"{"mcp":{"fs":{"command":["a"],"environment":{"K":"v"}}}}"#;
    assert_eq!(words(Client::OpenCode, "c.json", opencode), ["a"]);
    let zed = r#"{"context_servers":{"fs":{"command":{"path":"a","args":["b"],"env":{"K":"v"}}}}}"#;
    assert_eq!(words(Client::Zed, "c.json", zed), ["a", "b"]);
}

#[test]
fn what_cannot_be_edited_is_left_alone_and_the_rest_is_guarded() {
    let folder = tempfile::tempdir().unwrap();
    let guarding = Guarding::new(Path::new(EXECUTABLE), Vec::new()).unwrap();
    let path = folder.path().join("c.yaml");
    for entry in [
        "cmd: |\n      npx\n",
        "cmd: 7\n",
        "cmd: a\n    args: b\n",
        "cmd: a\n    args: [1]\n",
        "cmd: a\n    args: *y\n",
        "cmd: a\n    args:\n",
    ] {
        let text = format!("y: &y [b]\nextensions:\n  odd:\n    {entry}  good:\n    cmd: npx\n");
        fs::write(&path, &text).unwrap();
        let plan = plan_install(&path, Client::Goose.servers_at(), &guarding).unwrap();
        assert!(matches!(plan.servers[0].change, Change::Unsupported(_)), "{entry}: {:?}", plan.servers);
        assert!(matches!(plan.servers[1].change, Change::Guarded { .. }), "{entry}");
        assert!(plan.after.contains(entry), "{}", plan.after);
    }
    for (name, text) in
        [("c.yaml", "a: [\n"), ("c.yaml", "- a\n"), ("c.toml", "a = \n"), ("c.yaml", "a: 1\n---\nb: 2\n")]
    {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let error = plan_install(&path, &[&["a"]], &guarding).unwrap_err().to_string();
        assert!(error.contains("not YAML: ") || error.contains("not TOML: "), "{error}");
    }
    fs::write(&path, "[".repeat(10_000)).unwrap();
    assert!(plan_install(&path, &[&["a"]], &guarding).is_err());
}
