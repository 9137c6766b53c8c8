//! The tool server behind the guard: a program that the guard runs, or a connection to one that runs elsewhere.

use std::{
    fs::File,
    io,
    net::Shutdown,
    os::{
        fd::OwnedFd,
        unix::{
            net::UnixStream,
            process::{CommandExt, ExitStatusExt},
        },
    },
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};

use super::GRACE_TERM;
use crate::{Error, secrets::SecretVariables};

/// The tool server behind the guard.
pub enum Upstream {
    /// A program that the guard runs, with its arguments.
    Command(String, Vec<String>),
    /// A connection to one that runs elsewhere on this machine, usually as another user.
    Socket(UnixStream),
}

/// The server, once it runs.
pub(super) enum Server {
    Child(Child),
    Socket(UnixStream),
}

impl Server {
    /// Starts or takes it; gives its output and its input.
    pub(super) fn open(upstream: Upstream, secrets: &SecretVariables) -> Result<(Self, File, File), Error> {
        match upstream {
            Upstream::Command(command, args) => start(&command, &args, secrets),
            Upstream::Socket(socket) => {
                let copy = || socket.try_clone().map(|copy| File::from(OwnedFd::from(copy)));
                let failed = |e| Error::Io("the tool server's socket".into(), e);
                let (from, to) = (copy().map_err(failed)?, copy().map_err(failed)?);
                Ok((Self::Socket(socket), from, to))
            }
        }
    }

    /// Asks it to end, or, where it was asked before, ends it.
    pub(super) fn end(&self, asked_before: bool) {
        match self {
            Self::Child(child) => signal_group(child, if asked_before { Signal::KILL } else { Signal::TERM }),
            // What runs elsewhere is not the guard's to end: it sees that nobody is there any more.
            Self::Socket(socket) => drop(socket.shutdown(Shutdown::Both)),
        }
    }

    /// Once it sends nothing more: how it ended, and the exit code of the guard.
    pub(super) fn ended(self) -> (String, i32) {
        match self {
            Self::Child(mut child) => {
                let status = ended(&mut child);
                let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
                (format!("the tool server ended ({status})"), code)
            }
            Self::Socket(_) => ("the tool server closed the connection".to_owned(), 0),
        }
    }
}

/// Runs the tool server; gives its output and its input.
fn start(command: &str, args: &[String], secrets: &SecretVariables) -> Result<(Server, File, File), Error> {
    let mut server = Command::new(command);
    secrets.remove_from(&mut server);
    let spawned = server
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // A group of its own, so that what the server starts ends with it.
        .process_group(0)
        .spawn();
    let mut child = spawned.map_err(|why| Error::Spawn { command: command.to_owned(), why })?;
    let (Some(to_server), Some(server_lines)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Error::Spawn {
            command: command.to_owned(),
            why: io::Error::other("it has no standard input or output"),
        });
    };
    Ok((Server::Child(child), File::from(OwnedFd::from(server_lines)), File::from(OwnedFd::from(to_server))))
}

fn signal_group(child: &Child, signal: Signal) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // Already gone: nothing to do.
        let _ = kill_process_group(group, signal);
    }
}

/// Sees to it that a server that closed its output has ended.
fn ended(child: &mut Child) -> ExitStatus {
    let until = Instant::now() + GRACE_TERM;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status,
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(2)),
            _ => break,
        }
    }
    signal_group(child, Signal::TERM);
    std::thread::sleep(Duration::from_millis(50));
    signal_group(child, Signal::KILL);
    child.wait().unwrap_or_default()
}
