//! Twenty public servers behind the guard, 300 calls each in every mode: with `LONG_TESTS`, where the registries can be reached.
//!
//! The shares are those of all servers together; `docs/benchmarks.md` has each server's.

use std::process::Command;

use credence_testing::{binary, peers::program, project_root};
use serde_json::Value;

const SERVERS: usize = 20;
const CALLS: u64 = 300;
/// Blocked results in a row.
const LONGEST_RUN: u64 = 10;
/// Of all calls in mode `enforce`.
const MOST_WITHHELD: f64 = 0.0005;
/// Of all calls, in every mode.
const MOST_FLAGGED: f64 = 0.015;

#[test]
fn twenty_public_servers_are_left_alone() {
    if std::env::var_os("LONG_TESTS").is_none() {
        return;
    }
    let installed = Command::new(project_root().join("scripts/public-servers")).output().unwrap();
    if !installed.status.success() {
        let said = String::from_utf8_lossy(&installed.stderr);
        eprintln!("SKIPPED: the public servers could not be installed (scripts/public-servers): {said}");
        return;
    }
    let folder = String::from_utf8(installed.stdout).unwrap();
    let output = Command::new("python3")
        .arg(program("public_servers/run.py"))
        .args([folder.trim(), binary(), "--calls", &CALLS.to_string()])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let servers: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(servers.len(), SERVERS);
    for mode in ["observe", "flag", "enforce"] {
        let (mut calls, mut flagged, mut withheld) = (0, 0, 0);
        for server in &servers {
            let seen = &server["modes"][mode];
            let what = format!("{} {mode}: {seen}", server["server"]);
            println!("{what}");
            let count = |name: &str| seen[name].as_u64().unwrap();
            assert_eq!(count("calls"), CALLS, "{what}");
            assert_eq!(count("receipts"), CALLS, "{what}");
            assert_eq!(count("changed"), 0, "{what}");
            // An error that the tool reports is not judged.
            assert_eq!(count("judged") + count("unjudged_errors"), CALLS, "{what}");
            assert_eq!(seen["locked"], false, "{what}");
            assert!(count("longest") <= LONGEST_RUN, "{what}");
            assert!(mode != "observe" || count("announced") == 0, "{what}");
            calls += count("calls");
            flagged += count("flagged");
            withheld += count("withheld");
        }
        let share = |of: u64| f64::from(u32::try_from(of).unwrap()) / f64::from(u32::try_from(calls).unwrap());
        assert!(share(flagged) <= MOST_FLAGGED, "{mode}: {flagged} of {calls} flagged");
        assert!(share(withheld) <= MOST_WITHHELD, "{mode}: {withheld} of {calls} withheld");
    }
}
