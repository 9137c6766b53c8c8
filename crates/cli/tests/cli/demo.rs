//! `credence serve --demo` as a newcomer runs it.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    process::Stdio,
};

use credence_testing::{Shell, signal, until};
use serde_json::Value;

/// A demo in a folder for temporary files of its own.
fn start(shell: &Shell) -> (std::process::Child, Value) {
    fs::create_dir(shell.path("tmp")).unwrap();
    let mut command = shell.command(&["serve", "--demo", "--json", "--listen", "127.0.0.1:0"]);
    let log = File::create(shell.path("log.txt")).unwrap();
    let mut child = command.env("TMPDIR", shell.path("tmp")).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let said = serde_json::from_str(&line)
        .unwrap_or_else(|_| panic!("{line}{}", fs::read_to_string(shell.path("log.txt")).unwrap()));
    (child, said)
}

#[test]
fn a_demo_is_alive_can_be_checked_and_leaves_nothing_behind() {
    let shell = Shell::new();
    let (mut child, said) = start(&shell);
    let url = said["url"].as_str().unwrap();
    let client = reqwest::blocking::Client::builder().no_proxy().build().unwrap();
    let get = |path: &str| client.get(format!("{url}{path}")).send().unwrap().text().unwrap();
    let json = |path: &str| serde_json::from_str::<Value>(&get(path)).unwrap();

    let agents = json("/v1/agents?limit=100");
    let listed = agents["agents"].as_array().unwrap();
    assert_eq!(listed.len() as u64, said["agents"].as_u64().unwrap());
    assert!(listed.iter().any(|one| one["agent"] == "marlow-research" && one["score"]["score"].is_u64()), "{agents}");

    // It says what of it was recorded.
    let page = get("/agents/atlas-travel");
    assert!(page.contains("attacks that took effect") && page.contains("recorded when the demo was written"), "{page}");

    // Traffic goes on: verdicts, and scores that follow.
    let sum_of = |name: &str| {
        let metrics = get("/metrics");
        let lines = metrics.lines().filter(|line| line.starts_with(name));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>()
    };
    let (verdicts, entries) = (|| sum_of("credence_results_"), || sum_of("credence_ledger_entries"));
    let (judged, at_first) = (verdicts(), said["entries"].as_f64().unwrap());
    until("more verdicts", || verdicts() > judged + 3.0);
    until("more entries", || entries() > at_first + 1.0);

    // What it prints to be tried works.
    let (answer, keys) = (shell.path("answer.json"), shell.path("keys.json"));
    let page = "url=https://atlas-travel.example/book&context=purchase";
    fs::write(&answer, get(&format!("/v1/entities/atlas-travel/trust-signals?{page}"))).unwrap();
    fs::write(&keys, get("/.well-known/jwks.json")).unwrap();
    let checked = shell.ok(&["check", answer.to_str().unwrap(), "--key", keys.to_str().unwrap()]);
    assert!(checked.contains("valid trust-signals response: atlas-travel is "), "{checked}");
    let folder = said["data"].as_str().unwrap();
    assert!(folder.starts_with(shell.path("tmp").to_str().unwrap()));
    let audited = shell.run(&["--data", folder, "audit"]);
    assert_eq!(audited.code, Some(0), "{audited:?}");

    assert!(signal("TERM", child.id()));
    assert!(child.wait().unwrap().success());
    assert_eq!(fs::read_dir(shell.path("tmp")).unwrap().count(), 0, "nothing stays behind");
    assert_eq!(fs::read_to_string(shell.path("log.txt")).unwrap(), "", "nothing went wrong");
}

#[test]
fn a_demo_is_for_this_machine_and_has_a_folder_of_its_own() {
    let shell = Shell::new();
    shell.fails(&["serve", "--demo", "--listen", "0.0.0.0:0"], "this machine only");
    shell.fails(&["serve", "--demo", "--public-url", "https://trust.example"], "leave --public-url out");
    shell.fails(&["serve", "--demo", "--data", "mine"], "leave --data out");
    shell.fails(&["--data", "mine", "serve", "--demo"], "leave --data out");
    assert_eq!(shell.run(&["serve", "--demo-seed", "3"]).code, Some(64), "a seed is the demo's");
}
