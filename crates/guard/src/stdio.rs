//! The proxy in front of a server that speaks over standard input and output.
//!
//! One thread moves messages both ways, waiting for whoever is ready: on the way of a call there is no other thread to be woken.
//! Nothing is written that would make it wait, so neither side can hold up the other. What comes from the server is taken as it
//! is available: a batch is judged, its receipts share one commit, and it leaves in one write.

use std::{
    fs::File,
    io::{self, PipeReader, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::{CommandExt, ExitStatusExt},
    },
    process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, kill_process_group},
};

use crate::{
    Error, Guard,
    answer::Answer,
    deliver::error_answer,
    lines::{Line, Lines},
    message::{Parsed, id_at_the_edges, parse},
    pending::PendingRequests,
    proxy::{JudgedBatch, Piece, from_server, judge, render, take_in, too_large},
    received::Received,
    warn,
};

/// The guard's own secrets in the environment. A tool server that had them could sign receipts of its own.
const SECRET_VARIABLES: [&str; 2] = ["CREDENCE_GUARD_KEY", "CREDENCE_GUARD_TOKEN"];
/// Messages of one batch.
const MAX_BATCH: usize = 256;
/// Bytes that a writable pipe or socket takes without blocking.
const WRITABLE_BYTES: usize = 4096;
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

/// Runs `command` and stands between it and this process's standard input and output. Gives the exit code to end with.
pub fn run(guard: &Arc<Guard>, command: &str, args: &[String]) -> Result<i32, Error> {
    let mut server = Command::new(command);
    for secret in SECRET_VARIABLES {
        server.env_remove(secret);
    }
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
    proxy.go(&child)?;
    let status = ended(&mut child);
    proxy.answer_unanswered(&status);
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()))
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
    server_lines: Option<Lines<ChildStdout>>,
    to_client: Outgoing<File>,
    to_server: Outgoing<ChildStdin>,
    signalled: PipeReader,
    /// When the server is asked to end, or ended.
    deadline: Option<Instant>,
    asked_to_end: bool,
    /// Until then `poll` is called without blocking.
    spin_until: Instant,
}

impl StdioProxy<'_> {
    /// Until the server sends nothing more.
    fn go(&mut self, child: &Child) -> Result<(), Error> {
        while self.server_lines.is_some() {
            let ready = self.wait().map_err(|e| Error::Io("waiting for messages".into(), e))?;
            if ready.signalled {
                let mut byte = [0];
                let _ = self.signalled.read(&mut byte);
                self.end_server(child);
            }
            if self.deadline.is_some_and(|at| at <= Instant::now()) {
                self.end_server(child);
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

    fn end_server(&mut self, child: &Child) {
        signal_group(child, if self.asked_to_end { Signal::KILL } else { Signal::TERM });
        self.asked_to_end = true;
        self.deadline = Some(Instant::now() + GRACE_TERM);
    }

    /// Waits for whatever can be done without waiting.
    fn wait(&self) -> io::Result<Ready> {
        // Whoever does not take what is there for it is not given more.
        let client_lines = self.client_lines.as_ref().filter(|_| self.to_server.waiting.is_empty());
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
                // On their way first: no answer is looked at before this is done.
                let sent = Instant::now();
                self.to_server.push(chunk.bytes());
                for line in chunk.lines() {
                    match line {
                        Line::Whole(bytes) => {
                            if let Ok(text) = std::str::from_utf8(bytes) {
                                remember(self.guard, &mut self.requests, text, sent);
                            }
                        }
                        Line::TooLarge { head, tail, bytes } => {
                            refuse(self.guard, &mut self.to_client, head, tail, bytes);
                        }
                    }
                }
                self.spin_until = sent + SPIN;
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
    fn answer_unanswered(&mut self, status: &ExitStatus) {
        let others = self.requests.unanswered_requests();
        let calls = self.requests.unanswered();
        // Nobody waits for what was given up, and some clients stumble over answers to it.
        let given_up: Vec<bool> = calls.iter().map(|started| started.cancelled).collect();
        let waited = given_up.iter().filter(|given_up| !**given_up).count();
        let mut batch: JudgedBatch<'_> = Vec::new();
        for started in calls {
            judge(self.guard, started, Answer::Nothing, Instant::now(), &mut batch);
        }
        let ended = format!("the tool server ended ({status}) before it answered");
        if waited > 0 || !others.is_empty() {
            warn(&format!("{ended}: {waited} calls and {} other requests are unanswered", others.len()));
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
    if !failed {
        guard.after_delivery(&batch);
    }
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

/// Remembers what a line from the client asks for.
fn remember(guard: &Guard, requests: &mut PendingRequests, line: &str, sent: Instant) {
    match parse(line) {
        Parsed::One(message) => {
            if let Some(started) = requests.request(&message, &guard.settings.caller, &guard.settings.session, sent) {
                started.prepared = guard.prepare(started.arguments.as_deref());
            }
        }
        // A list in a list is no message.
        Parsed::Batch(items) => {
            let messages = items.iter().filter(|item| !item.get().starts_with('['));
            messages.for_each(|item| remember(guard, requests, item.get(), sent));
        }
        Parsed::Ambiguous(_) | Parsed::NotJson(_) => {}
    }
}

/// What goes to one side: as much as it takes, the rest when it takes more.
struct Outgoing<W> {
    who: &'static str,
    /// `None` when it has left.
    to: Option<W>,
    waiting: Vec<u8>,
}

impl<W: Write + AsFd> Outgoing<W> {
    fn new(who: &'static str, to: W) -> Self {
        Self { who, to: Some(to), waiting: Vec::new() }
    }

    #[allow(clippy::expect_used, reason = "asked only while something waits, and nothing waits for one who has left")]
    fn fd(&self) -> BorrowedFd<'_> {
        self.to.as_ref().expect("still there").as_fd()
    }

    /// Writes what waits, then `bytes`, as far as that goes without waiting.
    fn push(&mut self, bytes: &[u8]) {
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

    fn close(&mut self) {
        self.to = None;
        self.waiting = Vec::new();
    }
}
