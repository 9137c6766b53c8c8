//! The program's side: one connection, shared by its threads.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use credence_protocol::{Uuid, receipt::Exact};
use serde_json::value::RawValue;

use super::{CheckRequest, MAX_LINE, Reply, Request};
use crate::{
    Error,
    embedded::{CallVerdict, NewCall, ReturnedValue},
    settings::GuardMode,
};

/// How long the guard may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A guard that another process runs, at a Unix socket.
pub struct RemoteGuard {
    socket: PathBuf,
    stream: Mutex<Option<BufReader<UnixStream>>>,
}

impl RemoteGuard {
    /// The guard at `socket`, which must answer.
    pub fn connect(socket: &Path) -> Result<Self, Error> {
        let remote = Self { socket: socket.to_owned(), stream: Mutex::default() };
        remote.mode_of("")?;
        Ok(remote)
    }

    /// The mode that holds there for a tool.
    pub fn mode_of(&self, tool: &str) -> Result<GuardMode, Error> {
        let reply = self.ask(&Request::Mode { tool: tool.to_owned() })?;
        reply.mode.ok_or_else(|| self.failed("it gave no mode"))
    }

    /// Reports that a call is about to be made; gives its id and the mode that holds for the tool.
    pub fn begin(&self, new: NewCall<'_>) -> Result<(Uuid, GuardMode), Error> {
        let request = Request::Begin {
            tool: new.tool.to_owned(),
            arguments: raw(new.arguments)?,
            agent: new.caller.agent,
            session: new.caller.session,
            stake: new.caller.stake,
            client: new.client,
            traceparent: new.traceparent,
            at_least: new.at_least,
        };
        let reply = self.ask(&request)?;
        reply.call.zip(reply.mode).ok_or_else(|| self.failed("it gave no call"))
    }

    /// Reports what came of a call.
    pub fn finish(&self, call: Uuid, returned: &ReturnedValue<'_>, execution_ms: f64) -> Result<CallVerdict, Error> {
        let request = Request::Finish {
            call,
            value: raw(returned.value)?,
            execution_ms,
            shown: returned.shown.map(str::to_owned),
            is_error: returned.is_error,
            is_mcp_result: returned.is_mcp_result,
            opaque: returned.opaque,
            too_large: returned.too_large,
        };
        let reply = self.ask(&request)?;
        reply.verdict.ok_or_else(|| self.failed("it gave no verdict"))
    }

    /// Reports that nothing more will be heard of a call.
    pub fn abandon(&self, call: Uuid) -> Result<(), Error> {
        self.ask(&Request::Abandon { call }).map(drop)
    }

    /// Has a transcript compared with the receipts there; gives the report as JSON.
    pub fn check(&self, request: CheckRequest) -> Result<String, Error> {
        let reply = self.ask(&Request::Check(request))?;
        reply.report.ok_or_else(|| self.failed("it gave no report"))
    }

    /// Closes this process's copy of the connection, in a child: it is the parent's.
    pub fn release_in_child(&self) {
        // Locked for ever if another thread waited for an answer when the process forked; then it stays open.
        if let Ok(mut stream) = self.stream.try_lock() {
            *stream = None;
        }
    }

    fn failed(&self, why: impl std::fmt::Display) -> Error {
        Error::Address(format!("the guard at {}: {why}", self.socket.display()))
    }

    fn ask(&self, request: &Request) -> Result<Reply, Error> {
        let mut line = serde_json::to_vec(request).map_err(|e| self.failed(e))?;
        line.push(b'\n');
        let mut slot = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        // A connection that broke is not used again: an answer to another request could still come on it.
        let mut stream = match slot.take() {
            Some(stream) => stream,
            None => self.open()?,
        };
        let mut answer = Vec::new();
        let written = stream.get_mut().write_all(&line);
        let read = match &written {
            Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Ok(0),
            // A guard that refuses a connection says why and closes it, perhaps before anything was written.
            _ => stream.by_ref().take(MAX_LINE).read_until(b'\n', &mut answer),
        };
        if answer.is_empty() {
            written.and(read).map_err(|e| self.failed(e))?;
        }
        let reply: Reply = serde_json::from_slice(&answer).map_err(|_| self.failed("it ended the connection"))?;
        *slot = Some(stream);
        match reply.error {
            Some(error) => Err(self.failed(error)),
            None => Ok(reply),
        }
    }

    fn open(&self) -> Result<BufReader<UnixStream>, Error> {
        let stream = UnixStream::connect(&self.socket).map_err(|e| {
            self.failed(format!("{e}; is `credence guard --serve` running, and may you open its socket?"))
        })?;
        stream
            .set_read_timeout(Some(PATIENCE))
            .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
            .map_err(|e| self.failed(e))?;
        Ok(BufReader::new(stream))
    }
}

fn raw(value: &Exact<'_>) -> Result<Box<RawValue>, Error> {
    RawValue::from_string(value.canonical()).map_err(|e| Error::Content(e.to_string()))
}
