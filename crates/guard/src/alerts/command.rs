//! A program that is run for each alert: an argument list, no shell. It gets the alert as JSON on standard input and in variables
//! (`CREDENCE_ALERT_KIND`, …), never in its arguments: a tool's name must not become a flag.

use std::{
    io::Write,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};

use super::{Alert, Deliver};
use crate::secrets::SecretVariables;

/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs `command` for each alert, one at a time.
pub fn deliverer(command: Vec<String>, secrets: SecretVariables) -> Deliver {
    Box::new(move |alert| run(&command, &secrets, alert))
}

fn run(command: &[String], secrets: &SecretVariables, alert: &Alert) -> Result<(), String> {
    let Some((program, args)) = command.split_first() else { return Err("no command".to_owned()) };
    let failed = |why: String| format!("{program}: {why}");
    let text = serde_json::to_string(alert).map_err(|e| e.to_string())?;
    let mut child = Command::new(program);
    secrets.remove_from(&mut child);
    child.args(args).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    child.env("CREDENCE_ALERT_KIND", alert.kind.name()).env("CREDENCE_ALERT_REASON", &*alert.reason);
    child.env("CREDENCE_ALERT_SERVER", &alert.server).env("CREDENCE_ALERT_AT", alert.at.to_string());
    child.env("CREDENCE_ALERT_CALL", alert.call.map(|call| call.to_string()).unwrap_or_default());
    child.env("CREDENCE_ALERT_TOOL", alert.tool.clone().unwrap_or_default());
    child.env("CREDENCE_ALERT_VERDICT", alert.verdict.map(|verdict| verdict.to_string()).unwrap_or_default());
    let mut child = child.spawn().map_err(|e| failed(format!("it cannot be run: {e}")))?;
    if let Some(mut stdin) = child.stdin.take() {
        // Shorter than a pipe holds: nobody waits for a program that does not read.
        let _ = stdin.write_all(format!("{text}\n").as_bytes());
    }
    wait(&mut child).map_err(failed)
}

fn wait(child: &mut Child) -> Result<(), String> {
    let until = Instant::now() + PATIENCE;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(status.to_string()),
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
            Ok(None) => {
                if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                    let _ = kill_process_group(group, Signal::KILL);
                }
                let _ = child.wait();
                return Err(format!("it took more than {} seconds and was ended", PATIENCE.as_secs()));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}
