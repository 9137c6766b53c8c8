//! The guard's side: takes reports from programs of any user who may open the socket, within a quota for each user id.

use std::{
    collections::HashMap,
    fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::{
        fs::{FileTypeExt, PermissionsExt},
        net::{UnixListener, UnixStream},
    },
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use credence_protocol::{Uuid, receipt::Exact};
use credence_receipts::{Filter, claims::CheckOptions};
use rustix::net::sockopt::socket_peercred;

use super::{CheckRequest, MAX_LINE, Reply, Request};
use crate::{
    Error,
    embedded::{BegunCall, EmbeddedGuard, NewCall, ReturnedValue},
    settings::Caller,
    warn,
};

/// Permissions of the socket: its owner and its group.
const SOCKET_MODE: u32 = 0o660;

/// What programs of one user id may ask for.
#[derive(Debug, Clone, Copy)]
pub struct ReportQuota {
    /// Calls a second, over time.
    pub calls_per_second: f64,
    /// Calls at once.
    pub burst: f64,
    /// Connections.
    pub connections: usize,
    /// Calls under way on one connection.
    pub under_way: usize,
    /// Calls that comparing a transcript counts as: it reads receipts, which takes far longer than writing one.
    pub check: f64,
}

impl Default for ReportQuota {
    fn default() -> Self {
        Self { calls_per_second: 2_000.0, burst: 20_000.0, connections: 64, under_way: 10_000, check: 200.0 }
    }
}

/// What a user id has used.
struct Used {
    tokens: f64,
    since: Instant,
    connections: usize,
}

struct Reports {
    guard: Arc<EmbeddedGuard>,
    quota: ReportQuota,
    used: Mutex<HashMap<u32, Used>>,
}

/// Takes reports at `socket` for as long as the process lives. Returns once it listens; an old socket in its place is removed.
pub fn serve(guard: Arc<EmbeddedGuard>, socket: &Path, quota: ReportQuota) -> Result<(), Error> {
    let io = |e| Error::Io(socket.to_owned(), e);
    if fs::symlink_metadata(socket).is_ok_and(|meta| meta.file_type().is_socket()) {
        if UnixStream::connect(socket).is_ok() {
            return Err(Error::Address(format!("{}: another guard listens there", socket.display())));
        }
        fs::remove_file(socket).map_err(io)?;
    }
    let listener = bind(socket).map_err(io)?;
    let reports = Arc::new(Reports { guard, quota, used: Mutex::default() });
    let accept = move || {
        for stream in listener.incoming() {
            match stream {
                Ok(stream) => {
                    let reports = Arc::clone(&reports);
                    let spawned = std::thread::Builder::new().name("reports".to_owned());
                    if let Err(error) = spawned.spawn(move || reports.connection(stream)) {
                        warn(&format!("a connection could not be served: {error}"));
                    }
                }
                Err(error) => warn(&format!("a connection could not be taken: {error}")),
            }
        }
    };
    std::thread::Builder::new().name("accept".to_owned()).spawn(accept).map(drop).map_err(io)
}

/// Nobody can open the socket before it has its permissions: it is made in a folder that only its owner may enter.
fn bind(socket: &Path) -> std::io::Result<UnixListener> {
    let folder = socket.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let private = folder.join(format!(".{}.credence", std::process::id()));
    fs::create_dir(&private)?;
    fs::set_permissions(&private, fs::Permissions::from_mode(0o700))?;
    let made = private.join("socket");
    let listener = UnixListener::bind(&made).and_then(|listener| {
        fs::set_permissions(&made, fs::Permissions::from_mode(SOCKET_MODE))?;
        fs::rename(&made, socket)?;
        Ok(listener)
    });
    let _ = fs::remove_dir_all(&private);
    listener
}

impl Reports {
    fn connection(&self, stream: UnixStream) {
        let Ok(peer) = socket_peercred(&stream) else { return };
        let uid = peer.uid.as_raw();
        if !self.connected(uid) {
            let reply = Reply { error: Some(format!("user {uid} has too many connections")), ..Reply::default() };
            let _ = send(&stream, &reply);
            return;
        }
        let mut under_way = HashMap::new();
        self.exchange(&stream, uid, &mut under_way);
        // What the program left behind is told.
        under_way.into_values().for_each(|call| self.guard.abandon(call));
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(one) = used.get_mut(&uid) {
            one.connections -= 1;
        }
    }

    fn exchange(&self, stream: &UnixStream, uid: u32, under_way: &mut HashMap<Uuid, BegunCall>) {
        let mut reader = BufReader::new(stream);
        let mut line = Vec::new();
        loop {
            line.clear();
            match reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) if line.last() != Some(&b'\n') => return,
                Ok(_) => {}
            }
            let reply = serde_json::from_slice(&line)
                .map_err(|e| format!("not a request: {e}"))
                .and_then(|request| self.answer(request, uid, under_way));
            let reply = reply.unwrap_or_else(|error| Reply { error: Some(error), ..Reply::default() });
            if send(stream, &reply).is_err() {
                return;
            }
        }
    }

    fn connected(&self, uid: u32) -> bool {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let full = Used { tokens: self.quota.burst, since: Instant::now(), connections: 0 };
        let one = used.entry(uid).or_insert(full);
        let fits = one.connections < self.quota.connections;
        one.connections += usize::from(fits);
        fits
    }

    /// Takes this many calls from the user's quota.
    fn has_quota(&self, uid: u32, calls: f64) -> bool {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(one) = used.get_mut(&uid) else { return false };
        let now = Instant::now();
        let earned = now.duration_since(one.since).as_secs_f64() * self.quota.calls_per_second;
        one.since = now;
        one.tokens = (one.tokens + earned).min(self.quota.burst);
        let fits = one.tokens >= calls;
        if fits {
            one.tokens -= calls;
        }
        fits
    }

    fn answer(&self, request: Request, uid: u32, under_way: &mut HashMap<Uuid, BegunCall>) -> Result<Reply, String> {
        let words = |e: Error| e.to_string();
        match request {
            Request::Begin { tool, arguments, agent, session, stake, client, traceparent, at_least } => {
                if under_way.len() >= self.quota.under_way || !self.has_quota(uid, 1.0) {
                    return Err(format!("user {uid} has used up its quota of calls: report fewer, or later"));
                }
                let arguments = Exact::of(&arguments).map_err(|e| e.to_string())?;
                let caller = Caller { agent, session, stake };
                let uid = Some(uid);
                let new = NewCall { tool: &tool, arguments: &arguments, caller, client, traceparent, uid, at_least };
                let begun = self.guard.begin(new).map_err(words)?;
                let (call, mode) = (begun.id(), begun.mode());
                under_way.insert(call, begun);
                Ok(Reply { call: Some(call), mode: Some(mode), ..Reply::default() })
            }
            Request::Finish { call, value, execution_ms, shown, is_error, is_mcp_result, opaque, too_large } => {
                let begun = under_way.remove(&call).ok_or("no such call is under way on this connection")?;
                let value = match Exact::of(&value) {
                    Ok(value) => value,
                    Err(error) => {
                        self.guard.abandon(begun);
                        return Err(error.to_string());
                    }
                };
                let returned = ReturnedValue {
                    value: &value,
                    is_mcp_result,
                    is_error,
                    shown: shown.as_deref(),
                    opaque,
                    too_large,
                };
                let verdict = self.guard.finish(begun, &returned, execution_ms.max(0.0));
                Ok(Reply { verdict: Some(verdict), ..Reply::default() })
            }
            Request::Abandon { call } => {
                under_way.remove(&call).into_iter().for_each(|call| self.guard.abandon(call));
                Ok(Reply::default())
            }
            Request::Mode { tool } => Ok(Reply { mode: Some(self.guard.guard().mode_of(&tool)), ..Reply::default() }),
            Request::Check(CheckRequest { transcript, session, agent, since, ignored_tools, ignored_members }) => {
                if !self.has_quota(uid, self.quota.check) {
                    return Err(format!("user {uid} has used up its quota: compare fewer transcripts, or later"));
                }
                let server = Some(self.guard.guard().settings.name.clone());
                // Another user's receipts are not this one's to ask about.
                let filter = Filter { server, agent, session, since, uid: Some(uid), ..Filter::default() };
                let options = CheckOptions { filter, ignored_tools, ..CheckOptions::default() };
                let report = self.guard.check(transcript.as_bytes(), &options, &ignored_members).map_err(words)?;
                Ok(Reply { report: Some(report.to_string()), ..Reply::default() })
            }
        }
    }
}

fn send(mut stream: &UnixStream, reply: &Reply) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    stream.write_all(&line)
}
