//! SIGKILL at moments of a call: whatever was executed has a receipt or is known to be unanswered, before any guard runs again and after.

use std::{path::Path, time::Duration};

use credence_testing::{Shell, within};
use rustix::process::Signal;
use serde_json::json;

use super::{
    guarded::{Http, Piped, Server, contains, signal},
    random::Random,
    receipts_rule::{executions, recorded, violations},
};

/// Calls that are under way when the signal comes.
const CALLS: usize = 4;
/// How long to wait for what may not come any more.
const SHORT: Duration = Duration::from_millis(300);

/// Who is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victim {
    Guard,
    Server,
}

/// When.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// So many microseconds after the client has written its calls: on the way, or while the server reads.
    After(u64),
    /// When the server has a call and has not executed it.
    Before,
    /// When it has executed it and has not answered.
    Effect,
    /// When half of the answer is written.
    Half,
    /// When the answer is written: it is judged, journalled, or delivered.
    Answered,
    /// When the client has the answer.
    Delivered,
}

/// The moments, of which the first ones are tried where there is little time.
pub fn moments(count: usize) -> Vec<Moment> {
    let mut random = Random::new(0x4b11, 0);
    let fixed = [Moment::Before, Moment::Effect, Moment::Half, Moment::Answered, Moment::Delivered];
    let spread = |n: usize, random: &mut Random| match n % 10 {
        five @ 0..5 => fixed[five],
        // From the write of the client to some time after the answer.
        n => Moment::After(random.below([40, 200, 800, 3_000, 12_000][n - 5]) as u64),
    };
    (0..count).map(|n| spread(n, &mut random)).collect()
}

/// The calls of round `round`; the one in the middle says who is to be killed, and when, by the server.
fn calls(round: usize, moment: Moment, pid: u32) -> Vec<String> {
    let when = match moment {
        Moment::Before => "before",
        Moment::Effect => "effect",
        Moment::Half => "half",
        Moment::Answered => "answered",
        Moment::After(_) | Moment::Delivered => "",
    };
    let one = |n: usize| {
        let nonce = format!("k{round}.{n}");
        let mut arguments = json!({ "nonce": nonce, "wait_us": 200 * n });
        if n == CALLS / 2 && !when.is_empty() {
            arguments = json!({ "nonce": nonce, "kill": pid, "when": when });
        }
        let params = json!({ "name": nonce, "arguments": arguments });
        json!({ "jsonrpc": "2.0", "id": n + 1, "method": "tools/call", "params": params }).to_string()
    };
    (0..CALLS).map(one).collect()
}

/// What is wrong with the receipts in `shell`.
fn wrong(shell: &Shell, when: &str) -> Vec<String> {
    // Calls that were not executed may have a verdict: half an answer may have been none.
    let unrecorded = violations(&executions(shell), &recorded(shell));
    unrecorded.into_iter().map(|(tool, why)| format!("{tool}, {when}: {why}")).collect()
}

/// One moment over standard input and output.
pub fn stdio(shell: &Shell, round: usize, victim: Victim, moment: Moment) -> Vec<String> {
    let mut guard =
        Piped::start(shell, Server::Anything, Path::new(""), if round.is_multiple_of(2) { "enforce" } else { "flag" });
    guard.initialize();
    let pid = if victim == Victim::Guard { guard.child.id() } else { 0 };
    calls(round, moment, pid).iter().for_each(|call| guard.send(call.as_bytes()));
    match moment {
        Moment::After(micros) => {
            std::thread::sleep(Duration::from_micros(micros));
            kill(&guard, victim);
        }
        Moment::Delivered => {
            guard.wait_for(&format!("k{round}.{}\"", CALLS - 1));
            kill(&guard, victim);
        }
        // The server does it.
        _ => {}
    }
    if victim == Victim::Server {
        // The guard tells what is not answered, and ends.
        let ended = within(Duration::from_secs(60), || guard.child.try_wait().unwrap());
        assert!(ended.is_some(), "round {round}: the guard outlives its server");
    } else {
        guard.child.wait().unwrap();
    }
    // A server without its guard executes what it has read, and ends.
    within(SHORT, || is_settled(shell, round).then_some(()));
    wrong(shell, &format!("round {round}, {victim:?} killed at {moment:?}"))
}

fn is_settled(shell: &Shell, round: usize) -> bool {
    executions(shell).iter().filter(|one| one.tool.starts_with(&format!("k{round}."))).count() == CALLS
}

fn kill(guard: &Piped, victim: Victim) {
    match victim {
        Victim::Guard => signal(&guard.child, Signal::KILL),
        Victim::Server => children(guard.child.id()).into_iter().for_each(|pid| {
            let pid = rustix::process::Pid::from_raw(pid).unwrap();
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }),
    }
}

/// The processes that a process has started.
fn children(pid: u32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>()).collect()
}

/// One moment over HTTP, where the guard is killed.
pub fn http(shell: &Shell, round: usize, moment: Moment) -> Vec<String> {
    let guard = Http::start(shell, Server::Anything, Path::new(""), "enforce");
    let (host, pid) = (guard.address().to_owned(), guard.guard());
    std::thread::scope(|scope| {
        for call in calls(round, moment, pid) {
            let host = &host;
            scope.spawn(move || {
                let head = format!(
                    "POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nAccept: application/json\r\n\
                     Connection: close\r\nContent-Length: {}\r\n\r\n",
                    call.len()
                );
                let got = Http::exchange(host, (head + &call).as_bytes(), Duration::from_secs(20));
                if moment == Moment::Delivered && contains(&got, b"result") {
                    guard_signal(pid);
                }
            });
        }
        if let Moment::After(micros) = moment {
            std::thread::sleep(Duration::from_micros(micros));
            guard_signal(pid);
        }
    });
    within(SHORT, || is_settled(shell, round).then_some(()));
    drop(guard);
    wrong(shell, &format!("round {round} over HTTP, killed at {moment:?}"))
}

fn guard_signal(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw).unwrap();
    let _ = rustix::process::kill_process(pid, Signal::KILL);
}

/// A guard that starts again settles what others left: every execution still has its receipt, each signed for.
pub fn settled(shell: &Shell) -> Vec<String> {
    let mut guard = Piped::start(shell, Server::Anything, Path::new(""), "flag");
    guard.initialize();
    guard.end();
    let ran = shell.run(&["receipts", "verify", "--state", "state"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    wrong(shell, "after another start")
}
