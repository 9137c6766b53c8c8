//! A guard that runs as a user of its own, so that neither the agent nor the tool server can read its key or write its journal.
//!
//! ```text
//! agent's user          guard's user                 tool's user
//! credence guard  ────▶ credence guard   ─────────▶  tool server
//!   --attached    socket  --connect SOCKET   socket    (a unit of its own)
//! ```
//!
//! Each arrow is a Unix socket that the system opens for exactly one user. `credence guard install --isolated` writes the units.

use std::{
    io::{self, Read, Write},
    net::Shutdown,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    },
    path::{Path, PathBuf},
};

use credence_protocol::receipt::Vantage;
use rustix::{net::sockopt::socket_peercred, process::geteuid};

use crate::Error;

/// Where the sockets are.
pub const RUN_FOLDER: &str = "/run/credence";

/// The socket at which agents reach the guard of the server `name`.
pub fn guard_socket(run: &Path, name: &str) -> PathBuf {
    run.join("guard").join(format!("{name}.sock"))
}

/// The socket at which that guard reaches the tool server.
pub fn tool_socket(run: &Path, name: &str) -> PathBuf {
    run.join("tool").join(format!("{name}.sock"))
}

/// Connects to a socket of [`RUN_FOLDER`].
pub fn connect(socket: &Path) -> Result<UnixStream, Error> {
    UnixStream::connect(socket).map_err(|e| {
        let hint = "is its systemd socket unit started? `credence guard install --isolated` says how";
        Error::Address(format!("{}: {e}; {hint}", socket.display()))
    })
}

/// Who could write receipts in the name of a guard whose client and server are on these sockets: only where both are other users
/// than the guard's nobody else can. Behind a server's socket the system knows the process that listens, and that is systemd, which
/// runs as root and starts the server as the user that its unit names.
pub fn vantage(client: BorrowedFd<'_>, server: Option<&UnixStream>) -> Vantage {
    let own = geteuid();
    let peer = |fd: BorrowedFd<'_>| socket_peercred(fd).ok().map(|peer| peer.uid).filter(|uid| *uid != own);
    let client = peer(client).filter(|uid| !uid.is_root());
    match server.and_then(|server| peer(server.as_fd())) {
        Some(_) if client.is_some() && !own.is_root() => Vantage::OwnUser,
        _ => Vantage::SameUser,
    }
}

/// Passes everything between this process's standard input and output and the guard at `socket`, until that ends.
pub fn attach(socket: &Path) -> Result<(), Error> {
    let failed = |e| Error::Io(socket.to_owned(), e);
    let mut from_guard = connect(socket)?;
    let mut to_guard = from_guard.try_clone().map_err(failed)?;
    // Ends with the process: nobody can wake it from reading.
    std::thread::spawn(move || {
        let _ = copy(&mut io::stdin().lock(), &mut to_guard);
        let _ = to_guard.shutdown(Shutdown::Write);
    });
    copy(&mut from_guard, &mut io::stdout().lock()).map_err(failed)
}

/// As [`io::copy`], but each piece leaves at once.
fn copy(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => to.write_all(&buffer[..read]).and_then(|()| to.flush())?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
