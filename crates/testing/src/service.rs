//! `credence serve` as its clients see it: the real process, real sockets on loopback.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use credence_protocol::Audience;
use serde_json::{Value, json};

use crate::{ORIGIN, PATIENCE, Shell, draft, key, now, until};

/// A running service.
pub struct Service {
    /// Where its data is.
    pub shell: Shell,
    child: Option<Child>,
    /// Where it listens.
    pub url: String,
    /// Of the first start.
    pub token: String,
    /// The key of its log.
    pub log_key: String,
    client: reqwest::blocking::Client,
}

/// What came back.
#[derive(Debug)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The headers.
    pub headers: reqwest::header::HeaderMap,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Reply {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// A header; empty where it is missing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// An error with this status and code.
    pub fn refused(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), "application/problem+json");
        assert_eq!(self.json()["code"], code, "{}", self.text());
        assert_eq!(self.json()["status"], status);
    }

    /// 201, with this body.
    pub fn created(self) -> Value {
        assert_eq!(self.status, 201, "{}", self.text());
        self.json()
    }

    /// 200, with this body.
    pub fn ok(self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        self.json()
    }
}

impl Service {
    /// Starts on the data in `shell`, with `--set` for each setting.
    pub fn start(shell: Shell, settings: &[&str]) -> Self {
        Self::start_with(shell, settings, &[])
    }

    /// The same with environment variables.
    pub fn start_with(shell: Shell, settings: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut args = vec!["serve", "--json", "--listen", "127.0.0.1:0"];
        args.extend(settings.iter().flat_map(|setting| ["--set", setting]));
        let log = File::options().create(true).append(true).open(shell.path("log.txt")).unwrap();
        let mut command = shell.command(&args);
        command.envs(environment.iter().copied()).stderr(log);
        Self::spawn(shell, command)
    }

    /// On a disk of its own of so many MiB, which [`Self::disk`] leads to: a new file system in a name space that only this process
    /// sees. `None` where the system lets nobody do that.
    pub fn on_small_disk(mib: u32, settings: &[&str]) -> Option<Self> {
        let shell = Shell::new();
        shell.ok(&["init", "--origin", ORIGIN]);
        let script = format!(
            "mkdir disk && mount -t tmpfs -o size={mib}m tmpfs disk && cp -a credence-data disk/ && CREDENCE_DATA=disk/credence-data exec \"$@\""
        );
        let in_own_space = |script: &str| {
            let mut command = Command::new("unshare");
            command.args(["-rm", "sh", "-c", script, "sh"]).current_dir(shell.folder.path());
            command
        };
        let works = in_own_space("mkdir tried && mount -t tmpfs tmpfs tried").output();
        if !works.is_ok_and(|ran| ran.status.success()) {
            return None;
        }
        let mut command = in_own_space(&script);
        let serve = shell.command(&["serve", "--json", "--listen", "127.0.0.1:0"]);
        command.arg(serve.get_program()).args(serve.get_args());
        command.args(settings.iter().flat_map(|setting| ["--set", setting]));
        command.stderr(File::options().create(true).append(true).open(shell.path("log.txt")).unwrap());
        Some(Self::spawn(shell, command))
    }

    /// The disk of [`Self::on_small_disk`], as this process sees it.
    pub fn disk(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root", self.pid())).join(self.shell.path("disk").strip_prefix("/").unwrap())
    }

    fn spawn(shell: Shell, mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line)
            .unwrap_or_else(|_| panic!("{line}{}", fs::read_to_string(shell.path("log.txt")).unwrap()));
        let text = |name: &str| said[name].as_str().unwrap_or_default().to_owned();
        let token_file = shell.path("token.txt");
        if !text("admin_token").is_empty() {
            fs::write(&token_file, text("admin_token")).unwrap();
        }
        let token = fs::read_to_string(token_file).unwrap_or_default();
        let client = reqwest::blocking::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        Self { url: text("listening"), log_key: text("log_key"), token, shell, child: Some(child), client }
    }

    /// An authority from nothing.
    pub fn fresh(settings: &[&str]) -> Self {
        let shell = Shell::new();
        shell.ok(&["init", "--origin", ORIGIN]);
        Self::start(shell, settings)
    }

    /// What signals and statements for it name as their `aud`.
    pub fn origin(&self) -> Audience {
        Audience::new(self.log_key.split('+').next().unwrap()).unwrap()
    }

    /// The id of its process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    /// Sends a request that was made by hand.
    pub fn send(&self, request: reqwest::blocking::RequestBuilder) -> Reply {
        let response = request.send().unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Reply { status, headers, body: response.bytes().unwrap().to_vec() }
    }

    /// GET without a token.
    pub fn get(&self, path: &str) -> Reply {
        self.send(self.client.get(format!("{}{path}", self.url)))
    }

    /// GET with headers.
    pub fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        let request = self.client.get(format!("{}{path}", self.url));
        self.send(headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)))
    }

    /// Any request; without a token or a body where `token` or `kind` is empty.
    pub fn request(&self, method: &str, path: &str, token: &str, kind: &str, body: impl Into<Vec<u8>>) -> Reply {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let mut request = self.client.request(method, format!("{}{path}", self.url));
        if !kind.is_empty() {
            request = request.header("content-type", kind).body(body.into());
        }
        if !token.is_empty() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        self.send(request)
    }

    /// POST of JSON with a token.
    pub fn post_as(&self, token: &str, path: &str, body: &Value) -> Reply {
        self.request("POST", path, token, "application/json", body.to_string())
    }

    /// POST of JSON with the first token.
    pub fn post(&self, path: &str, body: &Value) -> Reply {
        self.post_as(&self.token, path, body)
    }

    /// A token with a scope, of which the service knows.
    pub fn token(&self, scope: &str) -> String {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("{scope}-{}", MADE.fetch_add(1, Ordering::Relaxed));
        let made = self.shell.json(&["token", "create", &name, "--scope", scope]);
        let token = made["token"].as_str().unwrap().to_owned();
        until("the token is known", || {
            self.get_with("/v1/tags", &[("authorization", &format!("Bearer {token}"))]).status == 200
        });
        token
    }

    /// Registers a source with its test key.
    pub fn add_source(&self, source: &str) {
        self.post("/v1/sources", &json!({ "source": source })).created();
        self.post("/v1/keys", &json!({ "source": source, "public_key": key(source).public().did_key() })).created();
    }

    /// Registers an agent.
    pub fn add_agent(&self, agent: &str, aliases: &[&str]) {
        self.post("/v1/agents", &json!({ "agent": agent, "aliases": aliases })).created();
    }

    /// Submits a signal of now.
    pub fn submit(&self, agent: &str, source: &str, tag: &str, value: f64) -> Value {
        let mut signal = draft(agent, source, tag, value);
        signal.observed_at = now().into();
        let signal = signal.to(self.origin()).sign(&key(source)).unwrap();
        self.request("POST", "/v1/signals", &self.token, "application/json", signal.canonical().to_string()).created()
    }

    /// An agent at `https://shop.example/de` that three sources speak well of.
    pub fn add_shop(&self) {
        self.add_agent("shop", &["https://shop.example/de"]);
        for (source, tag, value) in
            [("a", "rel_uptime", 95.0), ("b", "identity_domain", 100.0), ("c", "asi01_goal_hijack", 90.0)]
        {
            self.add_source(source);
            self.submit("shop", source, tag, value);
        }
        until("the shop is scored", || self.get("/v1/agents/shop").ok()["score"]["sources"] == 3);
    }

    /// The key that signs its answers.
    pub fn authority_key(&self) -> String {
        let keys = self.get("/v1/keys?limit=1000").ok();
        let own = keys["keys"].as_array().unwrap().iter().find(|key| key["source"] == "credence").unwrap();
        own["did"].as_str().unwrap().to_owned()
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.shell.path("log.txt")).unwrap()
    }

    /// A connection to speak one's own HTTP on.
    pub fn socket(&self) -> TcpStream {
        let stream = TcpStream::connect(self.url.strip_prefix("http://").unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends bytes and reads until the other side closes.
    pub fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.socket();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Ends in order.
    pub fn stop(mut self) -> Shell {
        let mut child = self.child.take().unwrap();
        assert!(signal("TERM", child.id()));
        let status = child.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.log());
        std::mem::take(&mut self.shell)
    }

    /// Ends at once.
    pub fn kill(mut self) -> Shell {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        std::mem::take(&mut self.shell)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Reads a request to the end, head and body, as a server must before it answers: one that closes while there is more to read
/// resets the connection, and its answer may be lost.
pub fn read_request(stream: &mut impl BufRead) -> Vec<u8> {
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).unwrap() > 0 {
        let line = head.lines().last().unwrap_or_default().to_ascii_lowercase();
        length = line.strip_prefix("content-length: ").map_or(length, |length| length.parse().unwrap());
    }
    let mut request = head.into_bytes();
    request.resize(request.len() + length, 0);
    let body = request.len() - length;
    stream.read_exact(&mut request[body..]).unwrap();
    request
}

/// Sends a signal with the shell's own `kill`, which is there wherever a shell is.
pub fn signal(name: &str, pid: u32) -> bool {
    Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status().unwrap().success()
}
