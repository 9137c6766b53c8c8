//! Many messages of a client through the guard, and the rule held against what came of them.

use std::{path::Path, time::Duration};

use credence_testing::Shell;

use super::{
    bypasses::{LINES, line},
    guarded::{Http, Piped, Server},
    messages, mutate,
    random::Random,
    receipts_rule::{executions, recorded, violations},
    requests::{PLAIN, SHAPES},
};

/// Messages that are under way before the client waits for the server.
const WINDOW: usize = 100;
/// Connections at once.
const CONNECTIONS: usize = 4;
/// How long an answer may take before the client goes on without it: some streams never end.
const STREAM: Duration = Duration::from_millis(200);
const ANSWER: Duration = Duration::from_secs(20);

/// What a run came to.
#[derive(Debug, Default)]
pub struct Figures {
    pub messages: usize,
    /// Messages by which something was executed.
    pub executed: usize,
    pub found: Vec<String>,
}

impl Figures {
    pub fn add(&mut self, other: Self) {
        self.messages += other.messages;
        self.executed += other.executed;
        self.found.extend(other.found);
    }
}

/// The tool that stands in message `index` of a run with this seed.
fn tag(seed: u64, index: usize) -> String {
    format!("t{seed:x}.{index}.")
}

/// A message by its number: first every bypass that has a name, then whatever chance makes of valid ones.
fn message(seed: u64, index: usize) -> (String, Vec<u8>) {
    let tag = tag(seed, index);
    if let Some(bypass) = LINES.get(index) {
        return (bypass.name.to_owned(), line(bypass, &tag, index));
    }
    let mut random = Random::new(seed, index);
    let bytes = match random.below(100) {
        0..50 => messages::call(&mut random, &tag, index).into_bytes(),
        50..78 => mutate::mutated(&mut random, &tag, index),
        78..90 => messages::other(&mut random, index).into_bytes(),
        90..95 => {
            let mut bytes = line(&LINES[random.below(LINES.len())], &tag, index);
            mutate::scratch(&mut random, &mut bytes);
            bytes
        }
        _ => {
            let mut bytes = messages::other(&mut random, index).into_bytes();
            mutate::scratch(&mut random, &mut bytes);
            bytes
        }
    };
    (format!("seed {seed:#x}, message {index}"), bytes)
}

/// The request that carries message `index`, and how long to wait for what comes back.
fn request(seed: u64, index: usize, host: &str) -> (String, Vec<u8>, Duration) {
    let mut random = Random::new(!seed, index);
    let (name, message, shape) = if let Some(shape) = SHAPES.get(index) {
        (shape.name.to_owned(), messages::call(&mut random, &tag(seed, index), index).into_bytes(), shape)
    } else {
        // Behind the shapes that have a name the same messages as over standard input.
        let (name, message) = match index.checked_sub(SHAPES.len()).filter(|line| *line < LINES.len()) {
            Some(at) => (LINES[at].name.to_owned(), line(&LINES[at], &tag(seed, index), index)),
            None => message(seed, index),
        };
        let shape = match random.below(100) {
            0..80 => &PLAIN,
            _ => match &SHAPES[random.below(SHAPES.len())] {
                slow if slow.slow && random.percent(90) => &PLAIN,
                shape => shape,
            },
        };
        (format!("{name}, {}", shape.name), message, shape)
    };
    let bytes = shape.bytes(&mut random, &message, host);
    (name, bytes, if shape.slow { STREAM } else { ANSWER })
}

/// Holds the rule against what was executed and recorded; `shown` gives a message by its number.
fn judge(shell: &Shell, seed: u64, messages: usize, shown: impl Fn(usize) -> (String, Vec<u8>)) -> Figures {
    let (done, recorded) = (executions(shell), recorded(shell));
    let number = |tool: &str| {
        let rest = tool.strip_prefix(&format!("t{seed:x}."))?;
        rest.split('.').next()?.parse::<usize>().ok().filter(|index| *index < messages)
    };
    let mut found = violations(&done, &recorded);
    found.sort();
    let found = found.into_iter().map(|(tool, why)| match number(&tool) {
        Some(index) => {
            let (name, bytes) = shown(index);
            format!("{name} (seed {seed:#x}, {index}): {why}\n      {}", bytes.escape_ascii())
        }
        None => format!("tool '{tool}' (seed {seed:#x}): {why}"),
    });
    let found = found.collect();
    let mut executed: Vec<usize> = done.iter().filter_map(|one| number(&one.tool)).collect();
    executed.sort_unstable();
    executed.dedup();
    Figures { messages, executed: executed.len(), found }
}

/// `count` messages over standard input.
pub fn stdio(server: Server, peers: &Path, seed: u64, count: usize) -> Figures {
    let shell = Shell::new();
    let mode = ["observe", "flag", "enforce"][(seed % 3) as usize];
    let mut guard = Piped::start(&shell, server, peers, mode);
    guard.initialize();
    for index in 0..count {
        guard.send(&message(seed, index).1);
        if index % WINDOW == WINDOW - 1 {
            guard.sync();
        }
    }
    guard.sync();
    guard.end();
    judge(&shell, seed, count, |index| message(seed, index))
}

/// `count` requests over HTTP.
pub fn http(server: Server, peers: &Path, seed: u64, count: usize) -> Figures {
    let shell = Shell::new();
    let mode = ["observe", "flag", "enforce"][(seed % 3) as usize];
    let guard = Http::start(&shell, server, peers, mode);
    let host = guard.address().to_owned();
    std::thread::scope(|scope| {
        for first in 0..CONNECTIONS {
            let host = &host;
            scope.spawn(move || {
                for index in (first..count).step_by(CONNECTIONS) {
                    let (_, bytes, patience) = request(seed, index, host);
                    Http::exchange(host, &bytes, patience);
                }
            });
        }
    });
    guard.end();
    judge(&shell, seed, count, |index| {
        let (name, bytes, _) = request(seed, index, &host);
        (name, bytes)
    })
}
