//! A verifier in plain Python that shares no line with us.

use std::{
    io::Write,
    process::{Command, Stdio},
};

/// Its source.
const INDEPENDENT: &str = include_str!("../independent/verify.py");

/// Runs the independent verifier; `None` where there is no Python.
pub fn independent(args: &[&str], input: &str) -> Option<String> {
    let mut all = vec!["-c", INDEPENDENT];
    all.extend(args);
    let python = Command::new("python3")
        .args(all)
        .env("no_proxy", "*")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut python) = python else {
        println!("SKIPPED: there is no python3 on this machine");
        return None;
    };
    python.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let ran = python.wait_with_output().unwrap();
    assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    Some(String::from_utf8(ran.stdout).unwrap().trim().to_owned())
}
