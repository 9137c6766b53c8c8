//! The proxy in front of a server that speaks over standard input and output.
//!
//! One thread moves messages both ways, waiting for whoever is ready: on the way of a call there is no other thread to be woken.
//! Nothing is written that would make it wait, so neither side can hold up the other. What comes from the server is taken as it
//! is available: a batch is judged, its receipts share one commit, and it leaves in one write.

mod outgoing;
mod upstream;

use std::{
    fs::File,
    io::{self, PipeReader, Read, Write},
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{
    Error, Guard,
    answer::Answer,
    deliver::error_answer,
    forward::{self, Sender},
    lines::{Line, Lines},
    message::id_at_the_edges,
    metrics::Direction,
    pending::PendingRequests,
    proxy::{JudgedBatch, Piece, from_server, judge, render, take_in, too_large},
    received::Received,
    strict::Framing,
    warn,
};
use outgoing::Outgoing;
use upstream::Server;
pub use upstream::Upstream;

/// Messages of one batch.
const MAX_BATCH: usize = 256;
/// Bytes that wait for a client beyond which nothing more is taken from it.
const MAX_WAITING: usize = 1024 * 1024;
/// How long to spin before blocking in `poll`: less than what being woken can cost.
const SPIN: Duration = Duration::from_micros(60);
/// After this long without a message the journal is flushed.
const LULL: Duration = Duration::from_micros(300);
/// After this long it is flushed even while messages come.
const MAX_IN_JOURNAL_FOR: Duration = Duration::from_millis(250);
/// How long a server may take to end by itself once its client has left: with calls under way, and without.
const GRACE_CALLS: Duration = Duration::from_secs(30);
const GRACE: Duration = Duration::from_secs(5);
/// How long between asking a server to end and ending it.
const GRACE_TERM: Duration = Duration::from_secs(2);

/// Stands between `upstream` and this process's standard input and output. Gives the exit code to end with.
pub fn run(guard: &Arc<Guard>, upstream: Upstream) -> Result<i32, Error> {
    let (server, server_lines, to_server) = Server::open(upstream, &guard.oversight().secrets())?;
    // Not through std's buffers: a message leaves when it is written.
    let file =
        |fd: io::Result<OwnedFd>| fd.map(File::from).map_err(|e| Error::Io("standard input or output".into(), e));
    let most = guard.settings.max_message_bytes;
    let mut proxy = StdioProxy {
        guard,
        requests: PendingRequests::default(),
        client_lines: Some(Lines::new(file(io::stdin().as_fd().try_clone_to_owned())?, most)),
        server_lines: Some(Lines::new(server_lines, most)),
        to_client: Outgoing::new("client", file(io::stdout().as_fd().try_clone_to_owned())?),
        to_server: Outgoing::new("server", to_server),
        signalled: signals()?,
        deadline: None,
        asked_to_end: false,
        spin_until: Instant::now(),
    };
    proxy.go(&server)?;
    let (how, code) = server.ended();
    proxy.answer_unanswered(&how);
    Ok(code)
}

/// A pipe that has something in it when the process is asked to end.
fn signals() -> Result<PipeReader, Error> {
    let failed = |e| Error::Io("signals".into(), e);
    let (asked, mut ask) = io::pipe().map_err(failed)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let spawned = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            use tokio::signal::unix::{SignalKind, signal};
            let (Ok(mut term), Ok(mut int), Ok(mut hup)) =
                (signal(SignalKind::terminate()), signal(SignalKind::interrupt()), signal(SignalKind::hangup()))
            else {
                return;
            };
            loop {
                tokio::select! {
                    _ = term.recv() => {}
                    _ = int.recv() => {}
                    _ = hup.recv() => {}
                }
                let _ = ask.write_all(&[1]);
            }
        });
    });
    spawned.map(|_| asked).map_err(failed)
}

/// Everything between a client and a server.
struct StdioProxy<'g> {
    guard: &'g Guard,
    requests: PendingRequests,
    /// `None` when it has ended.
    client_lines: Option<Lines<File>>,
    server_lines: Option<Lines<File>>,
    to_client: Outgoing<File>,
    to_server: Outgoing<File>,
    signalled: PipeReader,
    /// When the server is asked to end, or ended.
    deadline: Option<Instant>,
    asked_to_end: bool,
    /// Until then `poll` is called without blocking.
    spin_until: Instant,
}

impl StdioProxy<'_> {
    /// Until the server sends nothing more.
    fn go(&mut self, server: &Server) -> Result<(), Error> {
        while self.server_lines.is_some() {
            let ready = self.wait().map_err(|e| Error::Io("waiting for messages".into(), e))?;
            if ready.signalled {
                let mut byte = [0];
                let _ = self.signalled.read(&mut byte);
                self.end_server(server);
            }
            if self.deadline.is_some_and(|at| at <= Instant::now()) {
                self.end_server(server);
            }
            if ready.to_server {
                self.to_server.push(&[]);
            }
            if ready.to_client {
                self.to_client.push(&[]);
            }
            if ready.client_lines {
                self.read_client();
            }
            if ready.server_lines {
                self.read_server();
            }
            if self.client_lines.is_none() {
                if self.to_server.waiting.is_empty() {
                    // What it reads ends where the client's words end.
                    self.to_server.close();
                }
                let grace = if self.requests.is_idle() { GRACE } else { GRACE_CALLS };
                self.deadline.get_or_insert(Instant::now() + grace);
            }
        }
        // What the client has not taken yet: it may be slow, but not for ever.
        let until = Instant::now() + GRACE;
        while !self.to_client.waiting.is_empty() && Instant::now() < until {
            let mut fds = [PollFd::from_borrowed_fd(self.to_client.fd(), PollFlags::OUT)];
            let _ = poll(&mut fds, Some(&timespec(Duration::from_millis(100))));
            self.to_client.push(&[]);
        }
        Ok(())
    }

    fn end_server(&mut self, server: &Server) {
        server.end(self.asked_to_end);
        self.asked_to_end = true;
        self.deadline = Some(Instant::now() + GRACE_TERM);
    }

    /// Waits for whatever can be done without waiting.
    fn wait(&self) -> io::Result<Ready> {
        // Whoever does not take what is there for it is not given more.
        let client_lines = self.client_lines.as_ref().filter(|_| self.to_server.waiting.is_empty());
        // A client that does not read its answers gets no more of them by sending.
        let client_lines = client_lines.filter(|_| self.to_client.waiting.len() < MAX_WAITING);
        let server_lines = self.server_lines.as_ref().filter(|_| self.to_client.waiting.is_empty());
        let mut fds = vec![PollFd::from_borrowed_fd(self.signalled.as_fd(), PollFlags::IN)];
        let wanted = [
            (client_lines.map(|lines| lines.from.as_fd()), PollFlags::IN),
            (server_lines.map(|lines| lines.from.as_fd()), PollFlags::IN),
            ((!self.to_client.waiting.is_empty()).then(|| self.to_client.fd()), PollFlags::OUT),
            ((!self.to_server.waiting.is_empty()).then(|| self.to_server.fd()), PollFlags::OUT),
        ];
        let places = wanted.map(|(fd, flags)| {
            fd.map(|fd| {
                fds.push(PollFd::from_borrowed_fd(fd, flags));
                fds.len() - 1
            })
        });
        // A quick answer is there before it would be worth sleeping.
        while Instant::now() < self.spin_until {
            if poll(&mut fds, Some(&timespec(Duration::ZERO))).is_ok_and(|ready| ready > 0) {
                break;
            }
            std::thread::yield_now();
        }
        if let Some(waited) = self.guard.in_journal_for()
            && (waited > MAX_IN_JOURNAL_FOR || poll(&mut fds, Some(&timespec(LULL))).is_ok_and(|ready| ready == 0))
        {
            self.guard.flush_journal_or_warn();
        }
        let left = self.deadline.map(|at| timespec(at.saturating_duration_since(Instant::now())));
        match poll(&mut fds, left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is = |place: Option<usize>| place.is_some_and(|place| !fds[place].revents().is_empty());
        let [client_lines, server_lines, to_client, to_server] = places.map(is);
        Ok(Ready { signalled: is(Some(0)), client_lines, server_lines, to_client, to_server })
    }

    fn read_client(&mut self) {
        let Some(lines) = &mut self.client_lines else { return };
        let ended = match lines.read() {
            Ok((chunk, ended)) => {
                let sent = Instant::now();
                let settings = &self.guard.settings;
                let from = Sender { caller: &settings.caller, session: &settings.session, framing: Framing::Line };
                let (mut admitted, mut refused) = (Vec::new(), Vec::new());
                for line in chunk.lines() {
                    match line {
                        Line::Whole(bytes) => match forward::admit(self.guard, &mut self.requests, bytes, from, sent) {
                            Some(Ok(message)) => admitted.push(message),
                            Some(Err(one)) => refused.push(one),
                            None => {}
                        },
                        Line::TooLarge { head, tail, bytes } => {
                            refuse(self.guard, &mut self.to_client, head, tail, bytes);
                        }
                    }
                }
                refused.extend(forward::begin(self.guard, &mut self.requests, &mut admitted));
                let to_server: Vec<&[u8]> = admitted.iter().flat_map(|one| [one.text.as_bytes(), b"\n"]).collect();
                self.to_server.push(&to_server.concat());
                self.guard.oversight().added(Direction::ToServer, sent.elapsed());
                let refused: Vec<String> = refused.into_iter().map(|one| one.answer + "\n").collect();
                self.to_client.push(refused.concat().as_bytes());
                self.spin_until = Instant::now() + SPIN;
                ended
            }
            Err(error) => {
                warn(&format!("reading from the client: {error}"));
                true
            }
        };
        lines.consume();
        if ended {
            self.client_lines = None;
        }
    }

    fn read_server(&mut self) {
        let Some(lines) = &mut self.server_lines else { return };
        let ended = match lines.read() {
            Ok((chunk, ended)) => {
                let read = Instant::now();
                let all: Vec<Line<'_>> = chunk.lines().collect();
                for some in all.chunks(MAX_BATCH) {
                    pass_on(self.guard, &mut self.requests, some, read, &mut self.to_client);
                }
                ended
            }
            Err(error) => {
                warn(&format!("reading from the server: {error}"));
                true
            }
        };
        lines.consume();
        if ended {
            self.server_lines = None;
        }
    }

    /// What is left when the server has ended: receipts of calls that have no answer, and the answer that they have none.
    fn answer_unanswered(&mut self, how: &str) {
        let others = self.requests.unanswered_requests();
        let calls = self.requests.unanswered();
        // Nobody waits for what was given up, and some clients stumble over answers to it.
        let given_up: Vec<bool> = calls.iter().map(|started| started.cancelled).collect();
        let waited = given_up.iter().filter(|given_up| !**given_up).count();
        let mut batch: JudgedBatch<'_> = Vec::new();
        for started in calls {
            judge(self.guard, started, Answer::Nothing, Instant::now(), &mut batch);
        }
        let ended = format!("{how} before it answered");
        if waited > 0 || !others.is_empty() {
            let count = |n: usize, what: &str| if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") };
            warn(&format!(
                "{ended}; without an answer: {}, {}",
                count(waited, "call"),
                count(others.len(), "other request")
            ));
        }
        if self.guard.record(&mut batch).is_none() {
            self.guard.after_delivery(&batch);
        }
        let of_call = format!("[credence] {ended}; whether the call took effect is not known: do not blindly retry it");
        let of_other = format!("[credence] {ended}");
        let calls = batch.iter().zip(given_up).filter(|(_, given_up)| !given_up);
        let calls = calls.map(|((judged, _), _)| (judged.id(), &of_call));
        let mut out = String::new();
        for (id, text) in calls.chain(others.iter().map(|id| (id.as_str(), &of_other))) {
            out += &error_answer(id, text);
            out.push('\n');
        }
        self.to_client.push(out.as_bytes());
    }
}

struct Ready {
    signalled: bool,
    client_lines: bool,
    server_lines: bool,
    to_client: bool,
    to_server: bool,
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs().min(3600) as i64, tv_nsec: i64::from(duration.subsec_nanos()) }
}

/// Judges some messages, writes their receipts, and lets them go on.
fn pass_on(
    guard: &Guard,
    requests: &mut PendingRequests,
    some: &[Line<'_>],
    read: Instant,
    to_client: &mut Outgoing<File>,
) {
    let received: Vec<Received<'_>> = some
        .iter()
        .map(|line| match line {
            Line::Whole(bytes) => take_in(guard, bytes),
            Line::TooLarge { .. } => Received::Nothing,
        })
        .collect();
    let mut batch: JudgedBatch<'_> = Vec::new();
    let each = some.iter().zip(&received).map(|(line, received)| match line {
        Line::Whole(_) => from_server(guard, requests, received, read, &mut batch),
        Line::TooLarge { head, tail, bytes } => too_large(guard, requests, head, tail, *bytes, &mut batch),
    });
    let pieces: Vec<Piece<'_>> = each.collect();
    let failed = guard.record(&mut batch).is_some();
    let mut out = Vec::new();
    for piece in &pieces {
        match piece {
            Piece::Raw(line) => out.extend_from_slice(line.as_bytes()),
            piece => match render(piece, &batch) {
                Some(line) => out.extend_from_slice(line.as_bytes()),
                None => continue,
            },
        }
        out.push(b'\n');
    }
    to_client.push(&out);
    guard.oversight().added(Direction::ToClient, read.elapsed());
    if !failed {
        guard.after_delivery(&batch);
    }
}

/// Tells the client that its message was too large to be passed on.
fn refuse(guard: &Guard, to_client: &mut Outgoing<File>, head: &[u8], tail: &[u8], bytes: usize) {
    let most = guard.settings.max_message_bytes;
    let text =
        format!("[credence] a message of {bytes} bytes, and {most} is the limit (--max-message): it was not sent");
    warn(&text);
    if let Some(id) = id_at_the_edges(head, tail) {
        to_client.push((error_answer(&id, &text) + "\n").as_bytes());
    }
}
