//! A guard in front of a server that records what it executes, and a client that sends bytes.

use std::{
    fs::{self, File},
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use credence_testing::{Shell, binary, eventually, peers::program};
use rustix::process::{Pid, Signal, kill_process};

use crate::peers::{Listening, guard_address, listen};

/// Whom the guard stands in front of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// Accepts anything; takes the last of two members.
    Anything,
    /// Accepts anything; takes the first of two members.
    AnythingFirst,
    /// The official Python SDK.
    Python,
    /// The official TypeScript SDK.
    TypeScript,
}

impl Server {
    /// Whether it runs without what `scripts/peers` installs.
    pub fn is_ours(self) -> bool {
        matches!(self, Self::Anything | Self::AnythingFirst)
    }

    fn command(self, peers: &Path, http: bool) -> Vec<String> {
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let mut command = match self {
            Self::Anything | Self::AnythingFirst => vec!["python3".to_owned(), text(program("anything_server.py"))],
            Self::Python => vec![text(peers.join("py2/bin/python")), text(program("recording_py2.py"))],
            Self::TypeScript => vec!["node".to_owned(), text(program("recording-ts1.mjs"))],
        };
        if self == Self::AnythingFirst {
            command.push("--first".to_owned());
        }
        if http {
            command.extend(["--http", "0", "--json"].map(str::to_owned));
        }
        command
    }
}

fn guard_command(shell: &Shell, mode: &str) -> Vec<String> {
    let mut all: Vec<String> =
        [binary(), "guard", "--mode", mode, "--name", "hostile", "--state"].map(str::to_owned).to_vec();
    all.push(shell.path("state").to_str().unwrap().to_owned());
    all
}

pub const INITIALIZE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":"begin","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"#,
    r#""clientInfo":{"name":"hostile","version":"1"}}}"#
);

/// A guard over standard input and output.
pub struct Piped {
    pub child: Child,
    input: Option<ChildStdin>,
    output: Arc<Mutex<Vec<u8>>>,
    synced: usize,
    stderr: PathBuf,
}

impl Piped {
    /// Starts it; what it executes is appended to `effects` in the shell's folder.
    pub fn start(shell: &Shell, server: Server, peers: &Path, mode: &str) -> Self {
        let mut command = guard_command(shell, mode);
        command.push("--".to_owned());
        command.extend(server.command(peers, false));
        let stderr = shell.path("stderr.txt");
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .env("EFFECTS", shell.path("effects"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::options().append(true).create(true).open(&stderr).unwrap())
            .spawn()
            .unwrap();
        let output = Arc::new(Mutex::new(Vec::new()));
        let (to, mut from) = (Arc::clone(&output), child.stdout.take().unwrap());
        std::thread::spawn(move || {
            let mut some = [0; 65_536];
            while let Ok(read @ 1..) = from.read(&mut some) {
                to.lock().unwrap().extend_from_slice(&some[..read]);
            }
        });
        Self { input: child.stdin.take(), child, output, synced: 0, stderr }
    }

    /// The handshake, without which some servers execute nothing.
    pub fn initialize(&mut self) {
        self.send(INITIALIZE.as_bytes());
        self.wait_for("\"begin\"");
        self.send(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    }

    /// A guard that has ended takes nothing more.
    pub fn send(&mut self, line: &[u8]) {
        let Some(input) = &mut self.input else { return };
        if input.write_all(line).and_then(|()| input.write_all(b"\n")).is_err() {
            self.input = None;
        }
    }

    /// Waits until everything that was sent was read by the server: an answer to what is sent last is there.
    pub fn sync(&mut self) {
        let id = format!("\"sync-{}\"", self.synced);
        self.synced += 1;
        self.send(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#).as_bytes());
        self.wait_for(&id);
    }

    pub fn wait_for(&mut self, text: &str) {
        let said = || fs::read_to_string(&self.stderr).unwrap_or_default();
        eventually(&format!("an answer to {text}: {}", said()), || {
            let found = contains(&self.output.lock().unwrap(), text.as_bytes());
            let ended = self.child.try_wait().unwrap();
            assert!(found || ended.is_none(), "the guard ended before it answered {text}: {ended:?} {}", said());
            found.then_some(())
        });
    }

    /// Everything that the client got so far.
    pub fn output(&self) -> Vec<u8> {
        self.output.lock().unwrap().clone()
    }

    /// Asks the guard to end, which ends the server.
    pub fn end(&mut self) {
        signal(&self.child, Signal::TERM);
        self.child.wait().unwrap();
        drop(self.input.take());
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A guard over HTTP, and the server behind it.
pub struct Http {
    guard: Listening,
    _server: Listening,
}

impl Http {
    pub fn start(shell: &Shell, server: Server, peers: &Path, mode: &str) -> Self {
        let port = |line: &str| Some(format!("http://127.0.0.1:{}/mcp", line.split("listening on ").nth(1)?.trim()));
        let effects = format!("EFFECTS={}", shell.path("effects").display());
        let mut command = vec!["env".to_owned(), effects];
        command.extend(server.command(peers, true));
        let server = listen(&command, port);
        let mut command = guard_command(shell, mode);
        command.extend(["--upstream", &server.1, "--listen", "127.0.0.1:0"].map(str::to_owned));
        Self { guard: listen(&command, guard_address), _server: server }
    }

    /// The address of the guard, without the scheme and the path.
    pub fn address(&self) -> &str {
        self.guard.1.trim_start_matches("http://").trim_end_matches("/mcp")
    }

    /// The process of the guard.
    pub fn guard(&self) -> u32 {
        self.guard.id()
    }

    /// Sends bytes over a connection of their own, and gives what comes back until it closes or nothing comes for a while.
    pub fn exchange(address: &str, request: &[u8], patience: Duration) -> Vec<u8> {
        let Ok(mut connection) = TcpStream::connect(address) else { return Vec::new() };
        connection.set_read_timeout(Some(patience)).unwrap();
        let _ = connection.write_all(request);
        let mut all = Vec::new();
        let mut some = [0; 16_384];
        while let Ok(read @ 1..) = connection.read(&mut some) {
            all.extend_from_slice(&some[..read]);
        }
        all
    }

    /// Asks the guard to end, then ends the server.
    pub fn end(mut self) {
        self.guard.terminate();
    }
}

pub fn signal(child: &Child, signal: Signal) {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).unwrap();
    // Already gone: nothing to do.
    let _ = kill_process(pid, signal);
}

pub fn contains(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|window| window == what)
}
