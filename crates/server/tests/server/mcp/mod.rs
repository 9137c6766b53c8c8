//! The authority as an MCP server: the real process, over standard input and output and over real sockets.

mod http;
mod peers;
mod receipts;
mod stdio;
mod tools;

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, ExitStatus, Stdio},
};

use credence_testing::{PATIENCE, Reply, Service, Shell};
use serde_json::{Value, json};

pub const MODERN: &str = "2026-07-28";

/// What every request of 2026-07-28 carries.
pub fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

pub fn request(id: u64, method: &str, mut params: Value, modern: bool) -> Value {
    if modern {
        params["_meta"] = meta();
    }
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

pub fn initialize(version: &str) -> Value {
    json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "test", "version": "1" } })
}

/// An authority with the agent `shop`, whose service has ended.
pub fn with_shop() -> Shell {
    let service = Service::fresh(&[]);
    service.add_shop();
    service.stop()
}

/// `credence mcp`, spoken to line by line.
pub struct Spoken {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next: u64,
    modern: bool,
}

impl Spoken {
    /// Without a handshake, as protocol 2026-07-28 has it.
    pub fn modern(shell: &Shell) -> Self {
        Self::start(shell, true)
    }

    /// After a handshake.
    pub fn shaken(shell: &Shell, version: &str) -> (Self, Value) {
        let mut spoken = Self::start(shell, false);
        let said = spoken.ask("initialize", initialize(version));
        spoken.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        (spoken, said)
    }

    fn start(shell: &Shell, modern: bool) -> Self {
        let mut command = shell.command(&["mcp"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, stdout, next: 1, modern }
    }

    pub fn send(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{message}\n").as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// The whole answer.
    pub fn answer(&mut self, method: &str, params: Value) -> Value {
        let id = self.next;
        self.next += 1;
        self.send(&request(id, method, params, self.modern));
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"));
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(id)), "{answer}");
        answer
    }

    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let mut answer = self.answer(method, params);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].take()
    }

    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// Closes standard input; what else was on standard output, and on standard error.
    pub fn end(mut self) -> (ExitStatus, String, String) {
        drop(self.stdin.take());
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.stdout, &mut rest).unwrap();
        let mut said = String::new();
        std::io::Read::read_to_string(&mut self.child.stderr.take().unwrap(), &mut said).unwrap();
        (self.child.wait().unwrap(), rest, said)
    }
}

/// Over HTTP, with these headers besides.
pub fn post(service: &Service, token: &str, message: &Value, headers: &[(&str, &str)]) -> Reply {
    let client = reqwest::blocking::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
    let mut request = client
        .post(format!("{}/mcp", service.url))
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(message.to_string());
    if !token.is_empty() {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = request.send().unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    Reply { status, headers, body: response.bytes().unwrap().to_vec() }
}

/// A request of 2026-07-28 with the headers that belong to it.
pub fn modern(service: &Service, token: &str, method: &str, params: Value) -> Reply {
    let name = params.get("name").or_else(|| params.get("uri")).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut headers = vec![("mcp-protocol-version", MODERN), ("mcp-method", method)];
    if !name.is_empty() {
        headers.push(("mcp-name", &name));
    }
    post(service, token, &request(1, method, params, true), &headers)
}

/// The result of a tool's call.
pub fn call(service: &Service, token: &str, tool: &str, arguments: Value) -> Value {
    let mut answer = modern(service, token, "tools/call", json!({ "name": tool, "arguments": arguments })).ok();
    assert!(answer["error"].is_null(), "{answer}");
    answer["result"].take()
}

/// The first text of a result.
pub fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

/// A call that was refused, in words that contain each of `words`.
pub fn refused(result: &Value, words: &[&str]) {
    assert_eq!(result["isError"], true, "{result}");
    for word in words {
        assert!(text(result).contains(word), "'{word}' is not in: {}", text(result));
    }
}
