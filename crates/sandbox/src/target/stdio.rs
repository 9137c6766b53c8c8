//! A tool server (MCP) as a process of this machine, over its standard input and output: one JSON message a line.

use std::{
    process::Stdio,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::Mutex,
    time::Instant,
};

use super::{
    Exchange, Input, OfferedTool, Reply, Target, TargetError, Transport,
    chat::unsupported,
    mcp::{called, initialize, listed, outcome},
    wire::WireSettings,
};
use crate::{
    runner::{Cancel, pace::Pacer},
    trial::Reason,
};

/// A tool server that was started for the run. It ends with it.
pub struct StdioServer {
    pipes: Mutex<Pipes>,
    pacer: Pacer,
    deadline: Duration,
    max_bytes: usize,
    requests: AtomicU64,
    most: AtomicU64,
    cancel: Cancel,
    _child: Mutex<Child>,
}

struct Pipes {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl StdioServer {
    /// Starts a command and says hello.
    pub async fn start(command: &[String], settings: WireSettings, cancel: Cancel) -> Result<Self, String> {
        let (program, arguments) = command.split_first().ok_or("there is no command to start")?;
        let mut command = Command::new(program);
        // A tool server gets none of our own secrets.
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_our_secret(&name.to_string_lossy())) {
            command.env_remove(name);
        }
        let mut child = command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|e| format!("'{program}' could not be started: {e}"))?;
        let input = child.stdin.take().ok_or("the server has no standard input")?;
        let output = child.stdout.take().ok_or("the server has no standard output")?;
        let pipes = Pipes { input, output: BufReader::new(output), next: 1 };
        let server = Self {
            pipes: Mutex::new(pipes),
            pacer: Pacer::new(settings.rate),
            deadline: settings.deadline,
            max_bytes: settings.max_bytes,
            requests: AtomicU64::new(0),
            most: AtomicU64::new(u64::MAX),
            cancel,
            _child: Mutex::new(child),
        };
        let (answer, _) = server.request("initialize", initialize()).await.map_err(|e| e.why)?;
        if answer.is_ok() {
            let message = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
            let mut pipes = server.pipes.lock().await;
            pipes.input.write_all(format!("{message}\n").as_bytes()).await.map_err(|e| e.to_string())?;
        }
        Ok(server)
    }

    async fn request(&self, method: &str, params: Value) -> Result<(Result<Value, String>, Duration), TargetError> {
        let ended = |why: &str| TargetError { reason: Reason::Ended, why: why.to_owned(), ends_run: true };
        let mut pipes = self.pipes.lock().await;
        let pace = tokio::select! {
            pace = self.pacer.turn() => pace,
            () = self.cancel.cancelled() => return Err(ended("the run was stopped")),
        };
        if self.requests.load(Ordering::SeqCst) >= self.most.load(Ordering::SeqCst) {
            return Err(ended("the budget of requests is spent"));
        }
        self.requests.fetch_add(1, Ordering::SeqCst);
        let started = Instant::now();
        let answer = tokio::time::timeout(self.deadline, exchange(&mut pipes, method, params, self.max_bytes)).await;
        drop(pace);
        let seconds = self.deadline.as_secs();
        let late = |_| TargetError::new(Reason::Late, format!("the server did not answer within {seconds} s"));
        Ok((outcome(&answer.map_err(late)??)?, started.elapsed()))
    }

    async fn talk(&self, exchange: Exchange<'_>) -> Result<Reply, TargetError> {
        let Input::Call { name, arguments, .. } = exchange.input else { return Err(unsupported()) };
        let (answer, elapsed) = self.request("tools/call", json!({ "name": name, "arguments": arguments })).await?;
        Ok(called(answer, elapsed))
    }
}

/// Variables of ours that hold a token or a key: `CREDENCE_PROBE_TOKEN`, `CREDENCE_JUDGE_TOKEN`, `CREDENCE_SIGNING_KEY`.
fn is_our_secret(variable: &str) -> bool {
    variable.starts_with("CREDENCE_") && (variable.contains("TOKEN") || variable.contains("KEY"))
}

/// Writes a request and reads lines until its answer. Requests of the server are answered with an error: we offer nothing.
async fn exchange(pipes: &mut Pipes, method: &str, params: Value, most: usize) -> Result<Value, TargetError> {
    let broken = |e: std::io::Error| TargetError::new(Reason::Transport, format!("the server's pipe broke: {e}"));
    let id = pipes.next;
    pipes.next += 1;
    let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    pipes.input.write_all(format!("{message}\n").as_bytes()).await.map_err(broken)?;
    pipes.input.flush().await.map_err(broken)?;
    loop {
        let mut line = Vec::new();
        let limit = most as u64 + 1;
        let read = (&mut pipes.output).take(limit).read_until(b'\n', &mut line).await.map_err(broken)?;
        if read == 0 {
            return Err(TargetError::new(Reason::Transport, "the server ended"));
        }
        if line.len() as u64 >= limit {
            return Err(TargetError::new(Reason::TooLarge, format!("the answer is longer than {most} bytes")));
        }
        // Servers log to their output by mistake: a line that is no message is not the answer.
        let Ok(answer) = serde_json::from_slice::<Value>(&line) else { continue };
        if answer.get("id") == Some(&json!(id)) && answer.get("method").is_none() {
            return Ok(answer);
        }
        if let (Some(asked), Some(_)) = (answer.get("id"), answer.get("method")) {
            let error = json!({ "code": -32601, "message": "the client offers nothing" });
            let refusal = json!({ "jsonrpc": "2.0", "id": asked, "error": error });
            pipes.input.write_all(format!("{refusal}\n").as_bytes()).await.map_err(broken)?;
        }
    }
}

impl Target for StdioServer {
    fn transport(&self) -> Transport {
        Transport::Mcp
    }

    fn has_second_identity(&self) -> bool {
        false
    }

    fn exchange<'a>(&'a self, exchange: Exchange<'a>) -> BoxFuture<'a, Result<Reply, TargetError>> {
        Box::pin(self.talk(exchange))
    }

    fn own_tools(&self) -> BoxFuture<'_, Result<Vec<OfferedTool>, TargetError>> {
        Box::pin(async {
            let (answer, _) = self.request("tools/list", json!({})).await?;
            let page = answer.map_err(|why| TargetError::new(Reason::Malformed, format!("tools/list: {why}")))?;
            Ok(listed(&page))
        })
    }

    fn ping<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Reply, TargetError>> {
        Box::pin(async {
            let (_, elapsed) = self.request("tools/list", json!({})).await?;
            Ok(Reply { elapsed, ..Reply::default() })
        })
    }

    fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    fn limit_requests(&self, most: u64) {
        self.most.store(most, Ordering::SeqCst);
    }
}
