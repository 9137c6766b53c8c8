//! A guard that runs as a user of its own: neither the agent nor the tool server can write a receipt in its name.
//!
//! Needs root, for there are three users; elsewhere these tests say that they were skipped.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
    process::{Command, Stdio},
};

use credence_testing::{Shell, binary, peers::program};
use serde_json::{Value, json};

use super::Session;

/// Users that exist by their number alone.
const GUARD: u32 = 64_001;
const TOOL: u32 = 64_002;
const CALLER: u32 = 64_003;

fn as_user(user: u32) -> Command {
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".to_owned(), "--".to_owned()]);
    command
}

fn is_root() -> bool {
    let root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if !root {
        eprintln!("SKIPPED: only root can run a guard, a tool server and an agent as three users");
    }
    root
}

/// A folder that all users can enter, with the program and the scripts in it.
struct Place {
    shell: Shell,
}

impl Place {
    fn new() -> Self {
        let shell = Shell::new();
        let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        open(shell.folder.path());
        for (from, name) in [
            (binary().into(), "credence"),
            (program("scripted_server.py"), "server.py"),
            (program("accept.py"), "accept.py"),
        ] {
            fs::copy(from, shell.path(name)).unwrap();
            open(&shell.path(name));
        }
        for folder in ["run", "run/guard", "run/tool"] {
            fs::create_dir(shell.path(folder)).unwrap();
            open(&shell.path(folder));
        }
        fs::create_dir(shell.path("state")).unwrap();
        chown(shell.path("state"), Some(GUARD), Some(GUARD)).unwrap();
        fs::set_permissions(shell.path("state"), fs::Permissions::from_mode(0o700)).unwrap();
        Self { shell }
    }

    fn text(&self, name: &str) -> String {
        self.shell.path(name).to_str().unwrap().to_owned()
    }

    /// What systemd does with a socket unit and its service.
    fn accept(&self, socket: &str, owner: u32, user: u32, command: &[&str]) -> super::peers::Listening {
        let mut all: Vec<String> = ["python3", &self.text("accept.py"), &self.text(socket)].map(str::to_owned).to_vec();
        all.extend([owner.to_string(), user.to_string()]);
        all.extend(command.iter().map(|word| (*word).to_owned()));
        super::peers::listen(&all, |line| (line == "listening").then(String::new))
    }

    fn receipts(&self) -> Vec<Value> {
        let mut command = as_user(GUARD);
        command.arg(self.text("credence")).args(["receipts", "list", "--json", "--state", &self.text("state")]);
        let listed = command.env("HOME", "/nonexistent").output().unwrap();
        let listed: Value = serde_json::from_slice(&listed.stdout).unwrap_or_else(|e| panic!("{e}: {listed:?}"));
        listed["receipts"].as_array().unwrap().clone()
    }
}

#[test]
fn a_guard_of_its_own_user_says_so_and_keeps_its_key_to_itself() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let (credence, state) = (place.text("credence"), place.text("state"));
    let (run, tool) = (place.text("run"), place.text("run/tool/s.sock"));
    let _tool = place.accept("run/tool/s.sock", GUARD, TOOL, &["python3", &place.text("server.py")]);
    let guard = [&credence, "guard", "--state", &state, "--name", "s", "--connect", &tool];
    let _guard = place.accept("run/guard/s.sock", CALLER, GUARD, &guard.map(|word| word as &str));
    let mut client = as_user(CALLER);
    client.args([&credence, "guard", "--name", "s", "--attached", "--run-folder", &run, "--", "python3", "x"]);
    let mut session = Session::spawn(&place.shell, client);
    let line = r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"structuredContent":{"x":1}}}"#;
    let answer = session.call("t", json!({ "lines": [line] }));
    assert!(answer["result"]["_meta"]["credence/guard"]["receipt"].is_string(), "{answer}");
    assert_eq!(session.leave(), Some(0), "{}", session.stderr());
    let all = place.receipts();
    assert_eq!((all.len(), &all[0]["vantage"]), (1, &json!("own_user")), "{all:?}");

    // A transcript that rests on it says so.
    let transcript = place.shell.path("transcript.json");
    let claimed = json!([
        { "role": "assistant", "tool_calls": [{ "id": "c", "type": "function",
            "function": { "name": "t", "arguments": json!({ "lines": [line] }).to_string() } }] },
        { "role": "tool", "tool_call_id": "c", "content": json!({ "x": 1 }).to_string() },
    ]);
    fs::write(&transcript, claimed.to_string()).unwrap();
    let mut check = as_user(GUARD);
    check.arg(&credence).args(["receipts", "check", "--state", &state]).arg(&transcript);
    let checked = check.env("HOME", "/nonexistent").output().unwrap();
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success() && said.contains("s: 1 receipt by a guard with a user of its own"), "{said}");

    // Neither of the others can read the key, read or write the journal, or take the guard's place at the tool's socket.
    for user in [TOOL, CALLER] {
        for script in [
            format!("cat {state}/provider.jwk"),
            format!("echo x >> {state}/s/1/receipts/journal"),
            format!("ls {state}/s"),
            format!("python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('{tool}')\""),
        ] {
            let tried = as_user(user).args(["sh", "-c", &script]).stderr(Stdio::null()).output().unwrap();
            assert!(!tried.status.success(), "user {user} could: {script}");
        }
    }
    let journal = place.shell.path("state/s/1/receipts/journal");
    assert!(journal.exists(), "what they could not write is there");
}

#[test]
fn a_guard_that_shares_its_user_says_so() {
    let shell = Shell::new();
    let mut session = Session::start(&shell, &[]);
    session.call("weather", json!({ "city": "Oslo" }));
    session.leave();
    assert!(super::receipts(&shell).values().all(|receipt| receipt["vantage"] == "same_user"));
    if !is_root() {
        return;
    }
    // The tool server is another user, and the agent is the guard's own: that one can forge.
    let place = Place::new();
    let tool = place.text("run/tool/s.sock");
    let _tool = place.accept("run/tool/s.sock", GUARD, TOOL, &["python3", &place.text("server.py")]);
    let mut client = as_user(GUARD);
    client.args([&place.text("credence"), "guard", "--state", &place.text("state"), "--name", "s", "--connect", &tool]);
    let mut session = Session::spawn(&place.shell, client);
    session.call("t", json!({ "lines": [r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}"#] }));
    session.leave();
    let all = place.receipts();
    assert_eq!((all.len(), &all[0]["vantage"]), (1, &json!("same_user")), "{all:?}");
}

/// The units that are written are ones that systemd takes.
#[test]
fn units_for_isolated_guards_are_valid() {
    let shell = Shell::new();
    let config = r#"{"mcpServers": {"files": {"command": "python3", "args": ["-c", "print('100% $x')"], "env": {"KEY": "hunter2"}},
        "web": {"url": "https://example.com/mcp"}}}"#;
    fs::write(shell.path("mcp.json"), config).unwrap();
    let install = |more: &[&str]| {
        let mut all = vec!["guard", "install", "--client", "cursor", "--config", "mcp.json", "--isolated"];
        all.extend(more);
        shell.command(&all).env("USER", "ann").output().unwrap()
    };
    assert!(!install(&["--guard-user", "ann"]).status.success(), "one user cannot be kept from itself");
    // A program that others can write is not what guards run.
    fs::copy(binary(), shell.path("credence")).unwrap();
    let theirs = Command::new(shell.path("credence"))
        .args(["guard", "install", "--client", "cursor", "--config", "mcp.json", "--isolated", "--dry-run"])
        .current_dir(shell.folder.path())
        .env("USER", "ann")
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&theirs.stderr).contains("/usr/local/bin/credence"), "{theirs:?}");
    let ran = install(&["--tool-user", "tools", "--program", binary(), "--", "--mode", "enforce"]);
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && said.contains("systemctl enable --now credence-tool-files.socket"), "{said}");
    let written = fs::read_to_string(shell.path("mcp.json")).unwrap();
    assert!(written.contains(r#""guard", "--name", "files", "--attached", "--", "python3""#), "{written}");
    let env = shell.path("credence-units/credence-tool-files.env");
    assert_eq!(fs::metadata(&env).unwrap().permissions().mode() & 0o777, 0o600);
    let guard = fs::read_to_string(shell.path("credence-units/credence-guard-files@.service")).unwrap();
    assert!(guard.contains("User=credence-guard") && guard.contains("--mode enforce --connect"), "{guard}");
    let units = fs::read_dir(shell.path("credence-units")).unwrap().map(|file| file.unwrap().path());
    let units: Vec<_> =
        units.filter(|path| path.extension().is_some_and(|e| e == "service" || e == "socket")).collect();
    assert_eq!(units.len(), 4);
    assert!(
        !units.iter().any(|unit| fs::read_to_string(unit).unwrap().contains("hunter2")),
        "secrets stay out of units"
    );
    match Command::new("systemd-analyze").args(["verify", "--recursive-errors=no"]).args(&units).output() {
        Ok(ran) => {
            let said = String::from_utf8_lossy(&ran.stderr);
            let ours: Vec<&str> = said.lines().filter(|line| line.contains("credence-")).collect();
            assert!(ran.status.success() && ours.is_empty(), "{ours:?}");
        }
        Err(_) => eprintln!("SKIPPED: systemd-analyze is not installed, so nobody but us has looked at the units"),
    }
    let back = shell.run(&["guard", "uninstall", "--client", "cursor", "--config", "mcp.json"]);
    assert_eq!((back.code, fs::read_to_string(shell.path("mcp.json")).unwrap().as_str()), (Some(0), config));
}
