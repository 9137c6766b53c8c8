//! Writing to one side without waiting for it.

use std::{
    io::{self, Write},
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use rustix::event::{PollFd, PollFlags, poll};

use super::timespec;
use crate::warn;

/// Bytes that a writable pipe or socket takes without blocking.
const WRITABLE_BYTES: usize = 4096;

/// What goes to one side: as much as it takes, the rest when it takes more.
pub(super) struct Outgoing<W> {
    who: &'static str,
    /// `None` when it has left.
    to: Option<W>,
    pub(super) waiting: Vec<u8>,
}

impl<W: Write + AsFd> Outgoing<W> {
    pub(super) fn new(who: &'static str, to: W) -> Self {
        Self { who, to: Some(to), waiting: Vec::new() }
    }

    #[allow(clippy::expect_used, reason = "asked only while something waits, and nothing waits for one who has left")]
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.to.as_ref().expect("still there").as_fd()
    }

    /// Writes what waits, then `bytes`, as far as that goes without waiting.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let mut all = std::mem::take(&mut self.waiting);
        let mut left: &[u8] = if all.is_empty() {
            bytes
        } else {
            all.extend_from_slice(bytes);
            &all
        };
        let Some(to) = &mut self.to else { return };
        while !left.is_empty() {
            let mut fds = [PollFd::from_borrowed_fd(to.as_fd(), PollFlags::OUT)];
            match poll(&mut fds, Some(&timespec(Duration::ZERO))) {
                Ok(0) | Err(rustix::io::Errno::INTR) => break,
                _ => {}
            }
            match to.write(&left[..left.len().min(WRITABLE_BYTES)]) {
                Ok(written) => left = &left[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    // A client that left mid-call: the call still gets its receipt. A server that left: its end tells.
                    if self.who == "client" || error.kind() != io::ErrorKind::BrokenPipe {
                        warn(&format!("the {} has left: {error}", self.who));
                    }
                    self.close();
                    return;
                }
            }
        }
        self.waiting = left.to_vec();
    }

    pub(super) fn close(&mut self) {
        if let Some(to) = self.to.take() {
            // The other side of a socket that is still read from must learn of it; a pipe is no socket, and ends by itself.
            let _ = rustix::net::shutdown(&to, rustix::net::Shutdown::Write);
        }
        self.waiting = Vec::new();
    }
}
