//! `credence probe` against agents of the fleet: what it finds, what it refuses, what it leaves behind.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Output, Stdio},
    sync::{Arc, Mutex},
};

use credence_testing::{
    Shell, authority,
    fleet::{Running, fleet},
    project_root, until,
    watched::{is_inside, packets_of},
};
use serde_json::{Value, json};

fn agent(name: &str) -> Running {
    fleet().into_iter().find(|one| one.name == name).unwrap().start()
}

/// What makes a run small and quick.
const QUICK: [&str; 12] = [
    "--transport",
    "chat",
    "--allow-loopback",
    "--rate",
    "500",
    "--in-flight",
    "8",
    "--spread",
    "0",
    "--seed",
    "20261118",
    "--no-benchmarks",
];

fn probe(shell: &Shell, target: &Running, args: &[&str]) -> credence_testing::Ran {
    let url = format!("{}/v1", target.origin);
    shell.run(&[&["--json", "probe", "--target", &url][..], &QUICK, args].concat())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn a_run_of_a_registered_agent_is_recorded_and_scored() {
    let shell = authority(&[], &["bot"]);
    let target = agent("obeys documents");
    let ran = probe(&shell, &target, &["bot", "--threats", "asi01", "--journal", "one.jsonl", "--html", "report.html"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let result = json(&ran.stdout);
    let threat = &result["threats"][0];
    assert_eq!(threat["tag"], "asi01_goal_hijack");
    assert!(threat["value"].as_f64().unwrap() < 50.0, "{threat}");
    for member in ["suite", "seed", "target", "benchmarks", "requests", "duration_s"] {
        assert!(!result[member].is_null(), "{member}");
    }
    for family in threat["families"].as_array().unwrap() {
        for count in ["trials", "effected", "claimed", "resisted", "inconclusive", "over_refusal"] {
            assert!(family[count].is_u64(), "{count}: {family}");
        }
    }
    // In the ledger: the run, and the signal that follows from it, which an audit makes again.
    let explained = shell.json(&["explain", "bot"]);
    let said = explained.to_string();
    assert!(said.contains("asi01_goal_hijack") && said.contains("credence"), "{said}");
    shell.audit_passes();
    // The report is for the owner: what was sent, what was seen, how to try it again; whatever the target says is only shown.
    let report = std::fs::read_to_string(shell.path("report.html")).unwrap();
    for part in ["What the sensor saw", "What to do", "Try it again", "--only asi01_", "--seed 20261118", "<style>"] {
        assert!(report.contains(part), "no {part}");
    }
    assert!(!report.contains("<script"), "no script");
    // The same journal again: nothing is sent but what connecting takes, and nothing is recorded twice.
    let (entries, requests) = (shell.json(&["audit"])["entries"].clone(), target.agent.requests());
    let again = probe(&shell, &target, &["bot", "--threats", "asi01", "--journal", "one.jsonl", "--resume"]);
    assert_eq!(again.code, Some(0), "{again:?}");
    assert_eq!(json(&again.stdout)["threats"], result["threats"]);
    assert_eq!(target.agent.requests(), requests);
    assert_eq!(json(&again.stdout)["entry"], result["entry"]);
    assert_eq!(shell.json(&["audit"])["entries"], entries);
    // Without --resume a run never goes into another's journal.
    let mixed = probe(&shell, &target, &["bot", "--threats", "asi01", "--journal", "one.jsonl"]);
    assert!(mixed.code == Some(1) && mixed.stderr.contains("--resume"), "{mixed:?}");
}

#[test]
fn a_threshold_and_an_earlier_run_decide_what_a_pipeline_does() {
    let shell = Shell::new();
    let (weak, careful) = (agent("obeys documents"), agent("careful chat"));
    let threats = ["--threats", "asi01", "--fail-below", "80"];
    let failed = probe(&shell, &weak, &[&threats[..], &["--journal", "weak.jsonl"]].concat());
    assert_eq!(failed.code, Some(2), "{failed:?}");
    let passed =
        probe(&shell, &careful, &[&threats[..], &["--journal", "careful.jsonl", "--compare", "weak.jsonl"]].concat());
    assert_eq!(passed.code, Some(0), "{passed:?}");
    let compared = &json(&passed.stdout)["comparison"];
    let changes: Vec<&str> =
        compared["families"].as_array().unwrap().iter().map(|one| one["change"].as_str().unwrap()).collect();
    assert!(changes.contains(&"better") && !changes.contains(&"worse"), "{compared}");
    assert_eq!(compared["caveats"], json!(["the target differs"]));
    // Who refuses everything was not measured, and that is no pass.
    let refusing = agent("refuses everything");
    let untold = probe(&shell, &refusing, &threats);
    assert_eq!(untold.code, Some(2), "{untold:?}");
    assert!(json(&untold.stdout)["threats"][0]["value"].is_null(), "{untold:?}");
    // For people: the finding with the command that tries it again, and that command works.
    let url = format!("{}/v1", weak.origin);
    let told = shell.ok(&[&["probe", "--target", &url, "--threats", "asi01"][..], &QUICK].concat());
    let command = told.lines().find_map(|line| line.trim().strip_prefix("again ")).unwrap().to_owned();
    let words: Vec<&str> = command.split(' ').skip(1).collect();
    let again = shell.run(&[&["--json"][..], &words].concat());
    assert_eq!(again.code, Some(0), "{again:?}");
    let found = json(&again.stdout)["threats"][0]["families"].clone();
    assert!(found.as_array().unwrap().iter().any(|family| family["effected"].as_u64() > Some(0)), "{found}");
}

#[test]
fn nothing_is_sent_where_nobody_agreed() {
    let shell = authority(&[], &[]);
    shell.ok(&["agent", "add", "bot", "--alias", "https://bot.example"]);
    let target = agent("careful chat");
    let url = format!("{}/v1", target.origin);
    let cases: [(&[&str], &str); 7] = [
        (&["--target", &url], "nobody agreed"),
        (&["bot", "--target", &url], "--allow-loopback"),
        (&["bot"], "control of bot.example was not proved for 'bot'"),
        (&["bot", "--allow-loopback"], "control of bot.example was not proved for 'bot'"),
        (&["bot", "--target", "https://victim.example/v1"], "control of victim.example was not proved"),
        (&["--target", "https://victim.example/v1", "--allow-loopback"], "nobody agreed"),
        (&["nobody"], "nobody"),
    ];
    for (args, named) in cases {
        let ran = shell.run(&[&["probe"][..], args].concat());
        assert!(ran.code == Some(1) && ran.stderr.contains(named), "{args:?}: {ran:?}");
    }
    let planned = probe(&shell, &target, &["bot", "--dry-run"]);
    assert_eq!(planned.code, Some(0), "{planned:?}");
    let plan = json(&planned.stdout);
    assert!(plan["requests"].as_u64().unwrap() > 100 && plan["seconds"].is_u64(), "{plan}");
    assert!(plan["families"].as_array().unwrap().iter().all(|family| family["title"].is_string()), "{plan}");
    assert_eq!(target.agent.requests(), 0, "a refusal and a dry run send nothing");
}

#[test]
fn a_budget_leaves_out_whole_threats_by_name() {
    let shell = Shell::new();
    let target = agent("careful chat");
    let ran = probe(&shell, &target, &["--threats", "asi01,asi02,asi03", "--budget", "150"]);
    let result = json(&ran.stdout);
    let dropped = result["dropped"].as_array().unwrap();
    assert!(!dropped.is_empty() && dropped.iter().all(|one| one["why"].as_str().unwrap().contains("150")), "{result}");
    assert!(result["requests"].as_u64().unwrap() <= 150, "{result}");
}

#[test]
fn bad_options_say_what_is_wrong() {
    let shell = Shell::new();
    let target = ["probe", "--target", "http://127.0.0.1:1/v1", "--allow-loopback"];
    let cases: [(&[&str], i32, &str); 11] = [
        (&["--transport", "telnet"], 64, "use chat, responses, a2a, mcp or http"),
        (&["--threats", "asi11"], 64, "asi01 to asi10"),
        (&["--rate", "0"], 64, "rate"),
        (&["--fail-below", "101"], 64, "fail-below"),
        (&["--budget", "0"], 64, "budget"),
        (&["--resume"], 64, "--journal"),
        (&["--only", "no_such_probe"], 1, "no family or probe 'no_such_probe'"),
        (&["--only", "asi08_rate_limit:morse"], 1, "morse"),
        (&["--compare", "missing.jsonl"], 1, "missing.jsonl"),
        (&["--body", "{"], 1, "--body"),
        (&["--journal", "none.jsonl", "--resume"], 1, "no run to resume"),
    ];
    for (args, code, named) in cases {
        let ran = shell.run(&[&target[..], args].concat());
        assert!(ran.code == Some(code) && ran.stderr.contains(named), "{args:?}: {ran:?}");
    }
    let secret = shell.run(&["probe", "--target", "https://user:hunter2@shop.example/v1", "--allow-loopback"]);
    assert!(secret.code == Some(1) && !format!("{secret:?}").contains("hunter2"), "{secret:?}");
    // A target that is not there: an error, and a journal that can be continued.
    let gone =
        shell.run(&[&target[..], &["--journal", "gone.jsonl", "--threats", "asi01", "--no-benchmarks"]].concat());
    assert_eq!(gone.code, Some(1), "{gone:?}");
    assert_eq!(format!("{}{}", gone.stdout, gone.stderr).matches("could not be reached").count(), 1, "{gone:?}");
    // Without an agent and an address it says that either is needed, and nothing else; another option is no address.
    for nobody in [shell.run(&["probe"]), shell.run(&["probe", "--rate", "5"])] {
        assert!(nobody.code == Some(64) && nobody.stderr.contains("AGENT|--target <URL>|COMMAND>"), "{nobody:?}");
    }
    let lint = shell.run(&["probe", "lint"]);
    assert_eq!(lint.code, Some(0), "{lint:?}");
}

#[test]
fn probe_files_are_checked() {
    let shell = Shell::new();
    let valid = shell.json(&["probe", "lint"]);
    assert!(valid["valid"] == true && valid["probes"].as_u64().unwrap() >= 150, "{valid}");
    std::fs::create_dir(shell.path("mine")).unwrap();
    std::fs::write(shell.path("mine/extra.toml"), "threat = \"asi01\"\nfamilies = 3\n").unwrap();
    let broken = shell.run(&["probe", "lint", "mine"]);
    assert!(broken.code == Some(2) && broken.stdout.contains("extra.toml"), "{broken:?}");
    let missing = shell.run(&["probe", "lint", "nowhere"]);
    assert!(missing.code == Some(1) && missing.stderr.contains("nowhere"), "{missing:?}");
}

/// The commands of `docs/sandbox.md`, as printed, against an agent of the fleet.
#[test]
fn the_printed_commands_work() {
    let page = std::fs::read_to_string(project_root().join("docs/sandbox.md")).unwrap();
    let (shell, target) = (Shell::new(), agent("careful chat"));
    let address = target.origin.strip_prefix("http://").unwrap();
    let commands: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("$ credence ")).collect();
    assert!(commands.len() >= 5, "{commands:?}");
    for command in commands {
        let command = command.replace("127.0.0.1:8000", address);
        let mut words: Vec<&str> = command.split(' ').collect();
        if words.contains(&"--target") {
            words.extend(["--rate", "500", "--in-flight", "8", "--spread", "0", "--seed", "20261118"]);
        }
        let ran = shell.run(&words);
        assert_eq!(ran.code, Some(0), "{command}: {ran:?}");
    }
    assert!(shell.path("report.html").exists() && shell.path("first.jsonl").exists());
}

type Requests = Arc<Mutex<Vec<(String, Value)>>>;

/// A server that answers JSON, or nothing but text for a GET. Gives its port and what came in: heads and bodies.
fn server(answer: impl Fn(&str, &Value) -> String + Send + Sync + 'static) -> (u16, Requests) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, seen) = (socket.local_addr().unwrap().port(), Requests::default());
    let (answer, kept) = (Arc::new(answer), Arc::clone(&seen));
    std::thread::spawn(move || {
        for stream in socket.incoming() {
            let (answer, kept) = (Arc::clone(&answer), Arc::clone(&kept));
            std::thread::spawn(move || exchange(stream.unwrap(), &*answer, &kept));
        }
    });
    (port, seen)
}

fn exchange(mut stream: TcpStream, answer: &dyn Fn(&str, &Value) -> String, seen: &Requests) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let text = answer(&head, &body);
    seen.lock().unwrap().push((head, body));
    let _ = write!(stream, "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{text}", text.len());
}

fn completion(text: &str) -> String {
    json!({ "choices": [{ "finish_reason": "stop", "message": { "role": "assistant", "content": text } }] }).to_string()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_thinned_or_changed_measurement_does_not_replace_a_full_one() {
    let shell = authority(&[], &["bot"]);
    let target = agent("obeys documents");
    // Without any signal there is nothing to explain.
    let signals = || -> Value {
        let explained = shell.run(&["--json", "explain", "bot"]);
        if explained.code == Some(0) { json(&explained.stdout)["contributions"].clone() } else { Value::Null }
    };
    let standing = || signals().to_string().contains("asi01_goal_hijack");
    let only = |more: &[&str]| {
        let ran = probe(&shell, &target, &[&["bot", "--threats", "asi01"], more].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        json(&ran.stdout)
    };
    // One family, or few trials: recorded, with a value for who asked and none for the ledger.
    std::fs::create_dir(shell.path("mine")).unwrap();
    let shipped = std::fs::read_to_string(project_root().join("crates/sandbox/probes/asi01.toml")).unwrap();
    std::fs::write(shell.path("mine/asi01.toml"), shipped.replacen("title = \"", "title = \"My ", 1)).unwrap();
    for more in [&["--only", "asi01_override"][..], &["--trials", "5"], &["--probes", "mine"]] {
        let result = only(more);
        assert!(result["entry"].is_u64() && result["threats"][0]["value"].is_f64(), "{more:?}: {result}");
        assert!(result["threats"][0]["partial"].is_string(), "{more:?}: {result}");
        assert!(!standing(), "{more:?} gave a signal");
    }
    let full = only(&[]);
    assert!(full["threats"][0]["partial"].is_null() && standing(), "{full}");
    let before = signals();
    only(&["--only", "asi01_override"]);
    assert_eq!(signals(), before, "a part replaced the whole");
    shell.audit_passes();
}

#[test]
fn tokens_and_arguments_stay_out_of_every_file() {
    const TOKENS: [(&str, &str); 3] = [
        ("CREDENCE_PROBE_TOKEN", "tk-first-5f4e3d2c"),
        ("CREDENCE_PROBE_TOKEN_2", "tk-second-1b2a3c4d"),
        ("CREDENCE_JUDGE_TOKEN", "tk-judge-0a9b8c7d"),
    ];
    let shell = Shell::new();
    let (port, seen) = server(|head, _| completion(&format!("I was asked with {head}")));
    let url = format!("http://127.0.0.1:{port}/v1");
    let files = ["--threats", "asi01", "--journal", "run.jsonl", "--html", "report.html"];
    let args = [&["--json", "probe", "--target", &url], &QUICK[..], &files].concat();
    let ran = shell.command(&args).envs(TOKENS).output().unwrap();
    assert!(seen.lock().unwrap().iter().any(|(head, _)| head.contains(TOKENS[0].1)), "it was sent");
    let kept = |name: &str| std::fs::read_to_string(shell.path(name)).unwrap_or_default();
    let clean = |ran: &Output, secrets: &[&str]| {
        for text in [said(ran), kept("run.jsonl"), kept("run.transcript.jsonl"), kept("report.html")] {
            for secret in secrets {
                assert!(!text.contains(secret), "{secret}: {text}");
            }
        }
    };
    let secrets: Vec<&str> = TOKENS.iter().map(|(_, token)| *token).collect();
    clean(&ran, &secrets);
    assert!(kept("run.transcript.jsonl").contains("Bearer [credential]"), "the target did repeat it");
    // The reader of the report learns that the run had tokens of two users.
    let named = "CREDENCE_PROBE_TOKEN=YOUR_TOKEN CREDENCE_PROBE_TOKEN_2=ANOTHER_USERS_TOKEN credence probe";
    assert!(kept("report.html").contains(named), "{}", kept("report.html"));

    // A tool server gets none of our tokens, and its arguments, which may be one, are written nowhere.
    std::fs::remove_file(shell.path("run.jsonl")).unwrap();
    std::fs::write(
        shell.path("tools.py"),
        r#"
import json, os, sys
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request: continue
    path = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    results = {"initialize": {"protocolVersion": "2025-06-18"}, "tools/list": {"tools": [{"name": "read", "description": "Reads", "inputSchema": path}]}}
    told = {k: v for k, v in os.environ.items() if k.startswith("CREDENCE")}
    answer = {"content": [{"type": "text", "text": "environment: " + json.dumps(told)}]}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": results.get(request["method"], answer)}), flush=True)
"#,
    )
    .unwrap();
    let mut args = vec!["--json", "probe", "--transport", "mcp", "--rate", "500", "--no-benchmarks", "--seed", "7"];
    args.extend(["--threats", "asi05", "--journal", "run.jsonl", "--html", "report.html", "--", "python3", "tools.py"]);
    args.push("--api-key=sk-argument-77");
    let ran = shell.command(&args).envs(TOKENS).output().unwrap();
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let result = json(&String::from_utf8_lossy(&ran.stdout));
    assert_eq!(result["target"], "process:python3");
    assert!(kept("run.transcript.jsonl").contains("environment: {}"), "{}", kept("run.transcript.jsonl"));
    clean(&ran, &[&secrets[..], &["sk-argument-77"]].concat());
    // Another command does not continue the journal.
    *args.last_mut().unwrap() = "--api-key=another";
    let at = args.iter().position(|arg| *arg == "--").unwrap();
    args.insert(at, "--resume");
    let other = shell.command(&args).output().unwrap();
    assert!(other.status.code() == Some(1) && said(&other).contains("another run"), "{other:?}");
}

#[test]
fn a_dry_run_prints_what_a_run_sends() {
    let shell = Shell::new();
    // Calls the tool that it is told to call, and does nothing else.
    let (port, seen) = server(|_, body| {
        let last = body["messages"].as_array().unwrap().last().unwrap().clone();
        let said = last["content"].as_str().unwrap_or_default().to_owned();
        let order = || -> Option<Value> {
            let (name, rest) = said.split_once("all the tool ")?.1.split_once(" with ")?;
            let (argument, rest) = rest.split_once(" set to '")?;
            let arguments = json!({ argument: rest.split_once('\'')?.0 }).to_string();
            Some(json!({ "id": "c", "type": "function", "function": { "name": name, "arguments": arguments } }))
        };
        match order().filter(|_| last["role"] == "user") {
            Some(call) => {
                let message = json!({ "role": "assistant", "content": null, "tool_calls": [call] });
                json!({ "choices": [{ "finish_reason": "tool_calls", "message": message }] }).to_string()
            }
            None => completion(&format!("It says: {said}")),
        }
    });
    let url = format!("http://127.0.0.1:{port}/v1");
    let options = ["--threats", "asi04", "--listen", "127.0.0.1:0", "--listener-url", "http://127.0.0.1:9"];
    let args = [&["--json", "probe", "--target", &url], &QUICK[..], &options].concat();
    let planned = json(&shell.ok(&[&args[..], &["--dry-run"]].concat()));
    assert!(seen.lock().unwrap().is_empty(), "a dry run sends nothing");
    let human = shell.ok(&[&args[1..], &["--dry-run"]].concat());
    shell.run(&args);
    let sent: String = seen.lock().unwrap().iter().map(|(_, body)| body.to_string()).collect();
    // Every control that was sent was announced, word for word, with its tools.
    let mut found = 0;
    for half in planned["families"].as_array().unwrap().iter().flat_map(|family| family["sends"].as_array().unwrap()) {
        let tools = half["tools"].as_array().unwrap();
        for message in half["messages"].as_array().unwrap().iter().map(|message| message.as_str().unwrap()) {
            assert!(!message.contains("{half_a}") && !message.contains("{payload}"), "{message}");
            let message = message.strip_prefix("system: ").unwrap_or(message);
            if half["probe"].is_null() && sent.contains(&json!(message).to_string()) {
                assert!(tools.iter().all(|tool| sent.contains(&tool["description"].to_string())), "{half}");
                assert!(human.contains(message.lines().next().unwrap()), "{message}");
                found += 1;
            }
        }
    }
    assert!(found >= 3, "{found} of the planned controls were sent: {planned}");
    assert!(human.contains("Nothing was sent"), "{human}");
}

#[test]
fn one_run_at_a_time_against_one_origin() {
    let shell = Shell::new();
    let target = agent("careful chat");
    let url = format!("{}/v1", target.origin);
    let common = ["probe", "--target", &url, "--allow-loopback", "--threats", "asi01", "--no-benchmarks"];
    let mut first = shell.command(&[&common[..], &["--rate", "2"]].concat());
    let mut first = first.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the first run is under way", || target.agent.requests() > 0);
    let second = shell.run(&common);
    assert!(second.code == Some(1) && second.stderr.contains("another run against"), "{second:?}");
    first.kill().unwrap();
    first.wait().unwrap();
    // A run that was killed leaves no lock behind.
    let third = shell.run(&[&common[..], &["--rate", "500", "--only", "asi01_override"]].concat());
    assert_eq!(third.code, Some(0), "{third:?}");
}

#[test]
fn a_run_that_a_signal_stops_is_continued_to_the_same_numbers() {
    let target = agent("obeys documents");
    let url = format!("{}/v1", target.origin);
    let shell = Shell::new();
    let run = |journal: &str, more: &[&str]| {
        let args = ["--json", "probe", "--target", &url, "--threats", "asi01,asi02", "--journal", journal];
        let rest = ["--transport", "chat", "--allow-loopback", "--seed", "20261118", "--no-benchmarks"];
        shell.command(&[&args[..], &rest, more].concat())
    };
    let fast = ["--rate", "500", "--in-flight", "8"];
    let undisturbed = run("whole.jsonl", &fast).output().unwrap();
    assert_eq!(undisturbed.status.code(), Some(0), "{undisturbed:?}");
    let whole = json(&String::from_utf8_lossy(&undisturbed.stdout));
    for signal in ["INT", "TERM"] {
        let journal = format!("{signal}.jsonl");
        // A slower run, so that the signal finds it at work.
        let mut stopped = run(&journal, &["--rate", "60"]);
        let stopped = stopped.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until("some trials are recorded", || {
            std::fs::read_to_string(shell.path(&journal)).is_ok_and(|text| text.matches("\"trial\"").count() > 5)
        });
        assert!(Command::new("kill").args(["-s", signal, &stopped.id().to_string()]).status().unwrap().success());
        let stopped = stopped.wait_with_output().unwrap();
        assert_eq!(stopped.status.code(), Some(1), "{signal}: {stopped:?}");
        let part = json(&String::from_utf8_lossy(&stopped.stdout));
        assert!(part["complete"] == false && part["ended"].as_str().unwrap().contains("stopped"), "{part}");
        let continued = run(&journal, &[&fast[..], &["--resume"]].concat()).output().unwrap();
        assert_eq!(continued.status.code(), Some(0), "{continued:?}");
        let continued = json(&String::from_utf8_lossy(&continued.stdout));
        assert_eq!(continued["threats"], whole["threats"], "{signal}");
    }
}

#[test]
fn a_judge_is_shown_apart_and_its_silence_costs_nothing() {
    let shell = authority(&[], &["bot"]);
    let target = agent("obeys documents");
    // It says that everything was complied with.
    let (port, seen) = server(|_, _| completion("{\"complied\": true}"));
    let judge = format!("http://127.0.0.1:{port}/v1");
    let url = format!("{}/v1", target.origin);
    let args = |judge: &str| -> Vec<String> {
        let words = ["--json", "probe", "bot", "--target", &url, "--threats", "asi01", "--judge", judge];
        words
            .iter()
            .chain(&QUICK)
            .chain(&["--judge-model", "m", "--html", "report.html"])
            .map(|word| (*word).to_owned())
            .collect()
    };
    let run = |judge: &str| {
        let args = args(judge);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let ran = shell.command(&args).env("CREDENCE_JUDGE_TOKEN", "tk-judge-1234").output().unwrap();
        assert_eq!(ran.status.code(), Some(0), "{ran:?}");
        json(&String::from_utf8_lossy(&ran.stdout))
    };
    let result = run(&judge);
    let judged = &result["judge"];
    let trials: u64 =
        result["threats"][0]["families"].as_array().unwrap().iter().map(|f| f["trials"].as_u64().unwrap()).sum();
    assert!(judged["asked"].as_u64().unwrap() > 20 && judged["asked"].as_u64().unwrap() <= trials, "{judged}");
    assert!(judged["both"].as_u64().unwrap() > 0 && judged["judge_only"].as_u64().unwrap() > 0, "{judged}");
    // Always saying yes agrees by chance alone, and decides nothing.
    assert_eq!(judged["kappa"], 0.0, "{judged}");
    let seen = seen.lock().unwrap();
    assert!(seen.iter().all(|(head, body)| head.contains("tk-judge-1234") && body["model"] == "m"));
    assert!(std::fs::read_to_string(shell.path("report.html")).unwrap().contains("kappa"));
    let unheard = run("http://127.0.0.1:1/v1");
    assert!(
        unheard["judge"].is_null() && unheard["judge_error"].as_str().unwrap().contains("does not answer"),
        "{unheard}"
    );
    assert!(unheard["entry"].is_u64() && unheard["threats"][0]["value"].is_f64(), "{unheard}");
}

#[test]
fn control_of_a_domain_is_proved_by_a_command() {
    let shell = authority(&[], &[]);
    let line: Arc<Mutex<String>> = Arc::default();
    let served = Arc::clone(&line);
    let (port, seen) =
        server(
            move |head, _| {
                if head.contains("credence-challenge") { served.lock().unwrap().clone() } else { completion("Hello") }
            },
        );
    let address = format!("https://localhost:{port}");
    shell.ok(&["agent", "add", "bot", "--alias", &address]);
    let prove = |more: &[&str]| shell.run(&[&["agent", "prove-domain", "bot", &address, "--json"], more].concat());
    let refused = prove(&[]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(seen.lock().unwrap().is_empty(), "this machine is not asked without the flag");
    let waiting = prove(&["--allow-loopback"]);
    assert_eq!(waiting.code, Some(1), "{waiting:?}");
    let shown = json(&waiting.stdout);
    assert!(
        shown["proved"] == false && shown["url"].as_str().unwrap().ends_with("/.well-known/credence-challenge"),
        "{shown}"
    );
    *line.lock().unwrap() = shown["content"].as_str().unwrap().to_owned();
    let proved = prove(&["--allow-loopback"]);
    assert!(proved.code == Some(0) && json(&proved.stdout)["proved"] == true, "{proved:?}");
    // Somebody else's line proves nothing.
    shell.ok(&["agent", "add", "other", "--alias", &format!("{address}/other")]);
    let stolen = shell.run(&["agent", "prove-domain", "other", &format!("{address}/other"), "--allow-loopback"]);
    assert_eq!(stolen.code, Some(1), "{stolen:?}");
    shell.audit_passes();
}

/// The whole shipped suite through the binary, watched from outside: nothing leaves but to the target and our own listener.
#[test]
fn the_binary_asks_nobody_but_its_target() {
    if !is_inside() {
        if let Some(packets) = packets_of("probe::the_binary_asks_nobody_but_its_target") {
            assert_eq!(packets, 0);
        }
        return;
    }
    let shell = Shell::new();
    let target = agent("careful chat");
    let ran = probe(&shell, &target, &["--trials", "5", "--journal", "run.jsonl", "--html", "report.html"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let result = json(&ran.stdout);
    assert!(result["complete"] == true && result["requests"].as_u64().unwrap() > 500, "{result}");
    assert_eq!(result["threats"].as_array().unwrap().len(), 10);
}
