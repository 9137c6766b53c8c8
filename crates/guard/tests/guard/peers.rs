//! The official SDKs and public servers, through the guard: they notice no difference.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use credence_testing::{
    Shell, binary,
    peers::{installed, program},
};
use serde_json::Value;

/// A peer's command: `ts1`, `ts2`, `py1` or `py2`.
fn peer(folder: &Path, role: &str, kind: &str) -> Vec<String> {
    let text = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
    if kind.starts_with("ts") {
        vec!["node".to_owned(), text(program(&format!("{role}-{kind}.mjs")))]
    } else {
        vec![text(folder.join(kind).join("bin/python")), text(program(&format!("{role}_{kind}.py")))]
    }
}

fn guard(shell: &Shell) -> Vec<String> {
    let state = shell.path("state");
    let mut all: Vec<String> = [binary(), "guard", "--mode", "observe", "--agent", "peer", "--name", "peer", "--state"]
        .map(str::to_owned)
        .to_vec();
    all.push(state.to_str().unwrap().to_owned());
    all
}

/// Runs a client; gives what it saw, and how often the guard spoke.
fn run(command: &[String], environment: &[(&str, &str)]) -> (Vec<Value>, usize) {
    let output = Command::new(&command[0]).args(&command[1..]).envs(environment.iter().copied()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {:?}\n{said}", output.status);
    let mut steps: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {command:?}"));
    let mut spoke = 0;
    for step in &mut steps {
        spoke += step["guard"].as_array().map_or(0, Vec::len);
        step.as_object_mut().unwrap().remove("guard");
    }
    (steps, spoke)
}

fn same(one: &[Value], other: &[Value], what: &str) {
    for (one, other) in one.iter().zip(other) {
        assert_eq!(one, other, "{what}");
    }
    assert_eq!(one.len(), other.len(), "{what}");
    assert!(one.len() >= 10, "{what}: {} steps", one.len());
}

fn through_stdio(folder: &Path, client: &str, server: &str) {
    let shell = Shell::new();
    let server_command = peer(folder, "server", server);
    let mut direct = peer(folder, "client", client);
    direct.push("--stdio".to_owned());
    let mut guarded = direct.clone();
    direct.extend(server_command.clone());
    guarded.extend(guard(&shell));
    guarded.push("--".to_owned());
    guarded.extend(server_command);
    let (expected, none) = run(&direct, &[]);
    let (seen, spoke) = run(&guarded, &[]);
    same(&expected, &seen, &format!("{client} client, {server} server"));
    assert_eq!(none, 0);
    assert!(spoke >= 10, "{client} client, {server} server: the guard spoke {spoke} times");
    super::verifies(&shell);
}

/// A server or a guard that listens, ended with the test.
pub struct Listening(Child, pub String);

impl Listening {
    /// Its process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Asks it to end, and waits until it has.
    pub fn terminate(&mut self) {
        crate::hostile::signal(&self.0, rustix::process::Signal::TERM);
        self.0.wait().unwrap();
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `command` and waits until it says on standard error where it listens.
pub fn listen(command: &[String], find: fn(&str) -> Option<String>) -> Listening {
    let mut child =
        Command::new(&command[0]).args(&command[1..]).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut said = String::new();
    let url = loop {
        let Some(Ok(line)) = lines.next() else { panic!("{command:?} ended: {said}") };
        said += &line;
        if let Some(url) = find(&line) {
            break url;
        }
    };
    // Whatever else it says is read, so that it never waits.
    std::thread::spawn(move || lines.for_each(drop));
    Listening(child, url)
}

/// Where a guard says that it listens.
pub fn guard_address(line: &str) -> Option<String> {
    let address = line.strip_prefix("credence guard: ")?.split(" in front of ").next()?;
    address.parse::<std::net::SocketAddr>().ok().map(|address| format!("http://{address}/mcp"))
}

fn through_http(folder: &Path, client: &str, server: &str) {
    let shell = Shell::new();
    let mut command = peer(folder, "server", server);
    command.extend(["--http".to_owned(), "0".to_owned()]);
    let port = |line: &str| Some(format!("http://127.0.0.1:{}/mcp", line.split("listening on ").nth(1)?.trim()));
    let upstream = listen(&command, port);
    let mut command = guard(&shell);
    command.extend(["--upstream".to_owned(), upstream.1.clone(), "--listen".to_owned(), "127.0.0.1:0".to_owned()]);
    let proxy = listen(&command, guard_address);
    let client_command = |url: &str| {
        let mut command = peer(folder, "client", client);
        command.extend(["--url".to_owned(), url.to_owned()]);
        command
    };
    let (expected, _) = run(&client_command(&upstream.1), &[]);
    let (seen, spoke) = run(&client_command(&proxy.1), &[]);
    same(&expected, &seen, &format!("{client} client, {server} server, HTTP"));
    assert!(spoke >= 10, "{client} client, {server} server: the guard spoke {spoke} times");
    drop(proxy);
    super::verifies(&shell);
}

const ALL: [&str; 4] = ["ts1", "ts2", "py1", "py2"];

fn is_long() -> bool {
    std::env::var_os("LONG_TESTS").is_some()
}

/// Each SDK as client and as server; every pair in the long mode.
#[test]
fn the_sdks_notice_no_difference_over_stdio() {
    let Some(folder) = installed() else { return };
    if is_long() {
        ALL.iter().for_each(|client| ALL.iter().for_each(|server| through_stdio(&folder, client, server)));
    } else {
        for (client, server) in [("ts1", "py2"), ("ts2", "ts2"), ("py2", "ts1"), ("py1", "py1")] {
            through_stdio(&folder, client, server);
        }
    }
}

#[test]
fn the_sdks_notice_no_difference_over_http() {
    let Some(folder) = installed() else { return };
    if is_long() {
        ALL.iter().for_each(|client| ALL.iter().for_each(|server| through_http(&folder, client, server)));
    } else {
        for (client, server) in [("ts1", "ts1"), ("ts2", "py2"), ("py2", "ts2")] {
            through_http(&folder, client, server);
        }
    }
}

/// The reference servers, as they are published.
#[test]
fn public_servers_work_through_the_guard() {
    let Some(folder) = installed() else { return };
    let modules = folder.join("node/node_modules/@modelcontextprotocol");
    let script = |name: &str, dist: &str, last: &[&str], environment: &[(&str, &str)]| {
        let shell = Shell::new();
        let client = program("client-ts1.mjs");
        let client = ["node", client.to_str().unwrap(), "--script", name, "--stdio"].map(str::to_owned).to_vec();
        let server = modules.join(dist);
        let mut server = vec!["node".to_owned(), server.to_str().unwrap().to_owned()];
        server.extend(last.iter().map(|arg| (*arg).to_owned()));
        let mut guarded = client.clone();
        guarded.extend(guard(&shell));
        guarded.push("--".to_owned());
        guarded.extend(server.clone());
        let direct: Vec<String> = client.into_iter().chain(server).collect();
        let expected = run(&direct, environment).0;
        for (_, folder) in environment {
            // As it was before.
            std::fs::remove_dir_all(folder).and_then(|()| std::fs::create_dir(folder)).unwrap();
        }
        let (seen, spoke) = run(&guarded, environment);
        same(&expected, &seen, name);
        assert!(spoke > 3, "{name}: {spoke}");
        super::verifies(&shell);
    };
    script("everything", "server-everything/dist/index.js", &["stdio"], &[]);
    let files = tempfile::tempdir().unwrap();
    let files = files.path().canonicalize().unwrap();
    let files = files.to_str().unwrap();
    script("filesystem", "server-filesystem/dist/index.js", &[files], &[("PEER_FOLDER", files)]);
}

/// What a client reads is what the server wrote, byte for byte, but for what is added to `_meta`.
#[test]
fn bytes_are_the_same_apart_from_meta() {
    let shell = Shell::new();
    let lines = [
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"n":12345678901234567890,"f":1.50,"s":"\u00e9\u2028"}}}"#,
        r#"{"jsonrpc":"2.0","id":"three","method":"tools/call","params":{"name":"spaces","arguments":{}}}"#,
        r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"blank","arguments":{}}}"#,
        r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"weather","arguments":{"city":"Oslo"}}}"#,
        r#"{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"batch","arguments":{}}}"#,
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"flood","arguments":{"n":200}}}"#,
        r#"{"jsonrpc":"2.0","id":8,"method":"no/such/method","params":{"x":[1,2,{"y":null}]}}"#,
        r#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"error","arguments":{}}}"#,
        r#"{"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":"split","arguments":{}}}"#,
    ];
    std::fs::write(shell.path("in.jsonl"), lines.join("\n")).unwrap();
    let (raw, server) = (program("raw.py"), program("bad_server.py"));
    let run = |before: &[&str]| {
        let mut command = Command::new("python3");
        command
            .current_dir(shell.folder.path())
            .arg(&raw)
            .args(["in.jsonl", "--"])
            .args(before)
            .arg("python3")
            .arg(&server);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    // Some readers split lines at this character: it leaves as an escape.
    let direct = run(&[]).replace('\u{2028}', "\\u2028");
    let guarded = run(&[binary(), "guard", "--mode", "observe", "--state", "state", "--name", "raw", "--"]);
    let mut cleaned = String::new();
    let mut rest = guarded.as_str();
    let mut added = 0;
    // The guard's own words are one object without objects in it.
    while let Some(at) = rest.find("\"_meta\":{\"credence/guard\":{") {
        cleaned += &rest[..at];
        let end = at + rest[at..].find("}}").unwrap() + 2;
        rest = rest[end..].strip_prefix(',').unwrap_or(&rest[end..]);
        added += 1;
    }
    cleaned += rest;
    // White space around a message is no part of it.
    let blank =
        |text: &str| text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(blank(&cleaned), blank(&direct));
    assert!(added >= 6, "{added}");
}
