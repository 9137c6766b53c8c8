//! `credence guard` as its clients and servers see it: the real process, real pipes and sockets on loopback.
#![allow(clippy::unwrap_used, missing_docs, reason = "helpers of tests: a failing unwrap is how a test says no")]

mod authority;
mod changes;
mod evasion;
mod forwarding;
mod hostile;
mod http_escapes;
mod isolation;
mod misbehaviour;
mod modes;
mod operating;
mod peers;
mod public_servers;
mod receipts;
mod review;
mod server_escapes;
mod setup;
mod telling;
mod transcripts;

use std::{
    collections::HashMap,
    fs,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver},
};

use credence_testing::{PATIENCE, Shell, peers::program};
use serde_json::{Value, json};

/// A guard in front of the misbehaving server, with a client that speaks raw lines.
pub struct Session {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    stderr: PathBuf,
    next: u64,
}

impl Session {
    /// `flags` are the guard's.
    pub fn start(shell: &Shell, flags: &[&str]) -> Self {
        let server = program("bad_server.py");
        let mut all = vec!["guard", "--state", "state", "--name", "bad"];
        all.extend(flags);
        all.extend(["--", "python3", server.to_str().unwrap()]);
        Self::spawn(shell, shell.command(&all))
    }

    pub fn spawn(shell: &Shell, mut command: Command) -> Self {
        let stderr = shell.path(&format!("stderr-{}.txt", fs::read_dir(shell.folder.path()).unwrap().count()));
        let log = fs::File::create(&stderr).unwrap();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines() {
                let Ok(line) = line else { return };
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take();
        Self { child, input, lines, stderr, next: 1 }
    }

    pub fn stderr(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap()
    }

    pub fn send_raw(&mut self, line: &str) {
        self.send_bytes(line.as_bytes());
    }

    pub fn send_bytes(&mut self, line: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line).and_then(|()| input.write_all(b"\n")).unwrap();
    }

    /// Sends a call; gives its id.
    pub fn send(&mut self, tool: &str, arguments: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        let params = json!({ "name": tool, "arguments": arguments });
        self.send_raw(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string());
        id
    }

    /// The next line; `None` at the end.
    pub fn line(&self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => None,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("nothing came: {}", self.stderr()),
        }
    }

    /// The answer to `id`; what comes before it is passed over.
    pub fn answer(&self, id: u64) -> Value {
        loop {
            let line = self.line().unwrap_or_else(|| panic!("it ended before {id} was answered: {}", self.stderr()));
            let message: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
            let answers = |message: &Value| message["id"] == id && message.get("method").is_none();
            if let Some(found) = message.as_array().and_then(|all| all.iter().find(|one| answers(one))) {
                return found.clone();
            }
            if answers(&message) {
                return message;
            }
        }
    }

    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.send(tool, arguments);
        self.answer(id)
    }

    /// The client leaves; gives the guard's exit code.
    pub fn leave(&mut self) -> Option<i32> {
        drop(self.input.take());
        self.child.wait().unwrap().code()
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The receipt that an answer names.
pub fn receipt_of(answer: &Value) -> &str {
    answer["result"]["_meta"]["credence/guard"]["receipt"].as_str().unwrap_or_else(|| panic!("no receipt: {answer}"))
}

/// All receipts, by call.
pub fn receipts(shell: &Shell) -> HashMap<String, Value> {
    let listed = shell.json(&["receipts", "list", "--state", "state", "--limit", "100000"]);
    let all = listed["receipts"].as_array().unwrap().clone();
    all.into_iter().map(|one| (one["call"].as_str().unwrap().to_owned(), one)).collect()
}

/// Every receipt is where and what it should be.
pub fn verifies(shell: &Shell) {
    let ran = shell.run(&["receipts", "verify", "--state", "state"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}
