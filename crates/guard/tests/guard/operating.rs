//! What an operator sets and switches: `guard.toml`, `guard off` and `on`, the wait before enforcing, which server a label leads to.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use credence_testing::{Shell, eventually, peers::program};
use serde_json::{Value, json};

use super::{Session, receipts, verifies};

/// Whatever `echo` is asked can be made unbelievable.
pub const PROFILE: &str = "[echo]\nexpected_latency_ms = [0, 60000]\nhas_network_io = false\nrequired_fields = [\"temperature\", \"humidity\"]\nforbidden_fields = [\"secret\"]\n";

/// Writes the user's `guard.toml`.
pub fn configure(shell: &Shell, text: &str) -> PathBuf {
    let folder = shell.path("config/credence");
    fs::create_dir_all(&folder).unwrap();
    for folder in [shell.path("config"), folder.clone()] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let path = folder.join("guard.toml");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

pub fn session(shell: &Shell, flags: &[&str]) -> Session {
    fs::write(shell.path("profiles.toml"), PROFILE).unwrap();
    let mut all = vec!["--profiles", "profiles.toml"];
    all.extend(flags);
    Session::start(shell, &all)
}

fn good() -> Value {
    json!({ "temperature": 18, "humidity": 60 })
}

pub fn bad() -> Value {
    json!({ "secret": "hunter2 is the password" })
}

fn meta(answer: &Value) -> &Value {
    &answer["result"]["_meta"]["credence/guard"]
}

pub fn is_withheld(answer: &Value) -> bool {
    answer["result"]["isError"] == true && !answer.to_string().contains("hunter2")
}

fn says(shell: &Shell, place: usize) -> Value {
    shell.json(&["guard", "status", "--state", "state"])["guards"][place]["says"].clone()
}

#[test]
fn the_file_sets_the_mode_per_tool_and_a_flag_overrides_it() {
    let shell = Shell::new();
    configure(&shell, "mode = \"observe\"\n[server.\"b?d\".tool.\"ec*\"]\nmode = \"enforce\"\n");
    let mut guard = session(&shell, &[]);
    let withheld = guard.call("echo", bad());
    assert!(is_withheld(&withheld), "{withheld}");
    assert_eq!(meta(&guard.call("weather", json!({ "city": "Oslo" })))["mode"], "observe");
    guard.leave();
    let mut guard = session(&shell, &["--mode", "observe"]);
    let answer = guard.call("echo", bad());
    assert!(!is_withheld(&answer) && meta(&answer)["mode"] == "observe", "{answer}");
    guard.leave();
    let shown = shell.json(&["guard", "config", "show", "bad", "echo"]);
    assert_eq!(
        shown["settings"]["mode"],
        json!({ "value": "enforce", "from": "line 3, [server.\"b?d\".tool.\"ec*\"]" })
    );
    assert_eq!(shown["settings"]["canaries"], json!({ "value": "0.02", "from": "default" }));
    assert_eq!(shell.json(&["guard", "config", "show", "other"])["settings"]["mode"]["value"], "observe");
}

/// A file in the working directory says nothing, nor does a relative XDG_CONFIG_HOME; a file that others can write stops the guard.
#[test]
fn only_a_file_that_is_the_users_own_counts() {
    let shell = Shell::new();
    for name in ["guard.toml", "credence/guard.toml", ".config/credence/guard.toml"] {
        let path = shell.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "mode = \"enforce\"\n").unwrap();
    }
    let server = program("bad_server.py");
    let args = [
        "guard",
        "--state",
        "state",
        "--name",
        "bad",
        "--profiles",
        "profiles.toml",
        "--",
        "python3",
        server.to_str().unwrap(),
    ];
    fs::write(shell.path("profiles.toml"), PROFILE).unwrap();
    for folder in [".", "credence/.."] {
        let mut command = shell.command(&args);
        command.env("XDG_CONFIG_HOME", folder).env("HOME", ".");
        let mut guard = Session::spawn(&shell, command);
        assert_eq!(meta(&guard.call("echo", bad()))["mode"], "flag");
        guard.leave();
    }
    let path = configure(&shell, "mode = \"enforce\"\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let named = ["guard", "--state", "state", "--", "true"];
    shell.fails(&named, "others can write it (mode 666): chmod go-w");
    shell.fails(&["guard", "config", "check", "--state", "state"], "others can write it");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&path, "mod = \"enforce\"\n").unwrap();
    shell.fails(&named, "guard.toml, line 1: there is no setting 'mod': did you mean 'mode'?");
    shell.fails(
        &["guard", "--state", "state", "--config", "nowhere.toml", "--", "true"],
        "nowhere.toml: it cannot be read",
    );
}

#[test]
fn rules_without_effect_are_told() {
    let shell = Shell::new();
    let mut guard = session(&shell, &[]);
    guard.call("echo", good());
    guard.leave();
    let path = configure(
        &shell,
        "mode = \"flag\"\nenforce_after = \"7d\"\n[server.bda]\nmode = \"observe\"\n[server.bad.tool.ecko]\nmode = \"observe\"\n",
    );
    let ran = shell.run(&["guard", "config", "check", "--state", "state"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    for expected in [
        "line 2: enforce_after has no effect in mode 'flag'",
        "line 3: [server.\"bda\"] fits no server that a guard has met: bad",
        "line 5: [server.\"bad\".tool.\"ecko\"] fits no tool that was called or listed: echo",
        "valid, with 3 warnings",
    ] {
        assert!(ran.stdout.contains(expected), "{expected}: {}", ran.stdout);
    }
    fs::write(path, "mode = \"flag\"\n").unwrap();
    assert!(shell.ok(&["guard", "config", "check", "--state", "state"]).contains("fine"));
}

/// A guard starts without these, and does less than the file says.
#[test]
fn what_the_file_names_and_is_not_there_is_told() {
    let shell = Shell::new();
    configure(
        &shell,
        "mode = \"enforce\"\nenforce_after = \"0d\"\nblock_rate = 1\n[alerts]\ncommand = [\"no-such-program\"]\n\
         [alerts.webhook]\nurl = \"https://x.example/\"\nheader = \"Authorization\"\nenv = \"HOOK_SECRET\"\n\
         [metrics]\nfile = \"/no/such/folder/{server}.prom\"\n[reviews]\nsend = true\n[quarantine]\nenabled = false\n",
    );
    let ran = shell.run(&["guard", "config", "check", "--state", "state"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    for expected in [
        "line 2: enforce_after is no time at all",
        "line 3: block_rate = 1: up to 100 % of the genuine results may be blocked",
        "line 5: the program no-such-program is not in PATH",
        "line 9: the environment here has no HOOK_SECRET",
        "line 11: there is no folder /no/such/folder",
        "line 13: send in [reviews] has no effect",
        "valid, with 6 warnings",
    ] {
        assert!(ran.stdout.contains(expected), "{expected}: {}", ran.stdout);
    }
    let mut guard = session(&shell, &[]);
    assert!(guard.call("echo", good())["result"].get("isError").is_none());
    guard.leave();
    let known = serde_json::to_string(&["sh", "-c", "true"]).unwrap();
    configure(
        &shell,
        &format!(
            "[alerts]\ncommand = {known}\n[metrics]\nsocket = \"{}/{{server}}.sock\"\n",
            shell.folder.path().display()
        ),
    );
    assert!(shell.ok(&["guard", "config", "check", "--state", "state"]).contains("fine"));
}

#[test]
fn flags_can_be_silent_or_logged() {
    for (action, notes, logged) in [("note", 2, false), ("silent", 1, false), ("log", 1, true)] {
        let shell = Shell::new();
        configure(&shell, &format!("flags = \"{action}\"\n"));
        let mut guard = session(&shell, &[]);
        let answer = guard.call("echo", bad());
        assert_eq!(answer["result"]["content"].as_array().unwrap().len(), notes, "{action}: {answer}");
        assert_eq!(meta(&answer)["verdict"], "block", "the verdict is in _meta all the same");
        guard.leave();
        assert_eq!(guard.stderr().contains("block of echo (receipt "), logged, "{}", guard.stderr());
        assert!(!guard.stderr().contains("hunter2"), "a log holds no content");
    }
}

/// `enforce` on the first day means it later, over restarts.
#[test]
fn enforcing_begins_after_so_many_calls() {
    let shell = Shell::new();
    configure(&shell, "mode = \"enforce\"\nenforce_after = 4\n");
    let mut guard = session(&shell, &[]);
    assert!(!is_withheld(&guard.call("echo", bad())), "it waits");
    guard.call("echo", good());
    guard.leave();
    let report = says(&shell, 0);
    assert_eq!(
        (&report["mode"], &report["mode_now"], &report["waits"]),
        (&json!("enforce"), &json!("flag"), &json!(["2 calls"]))
    );
    assert!(
        shell
            .ok(&["guard", "status", "--state", "state"])
            .contains("mode enforce, which acts as flag for another 2 calls")
    );
    let mut guard = session(&shell, &[]);
    assert!(!is_withheld(&guard.call("echo", bad())), "a restart goes on where it was");
    guard.call("echo", good());
    let answer = guard.call("echo", bad());
    assert!(is_withheld(&answer), "{answer}");
    guard.leave();
    assert_eq!(says(&shell, 0)["mode_now"], "enforce");
    // Over is over, whatever becomes of the file: it is in the ledger.
    fs::remove_file(shell.path("state/bad/enforcement.json")).unwrap();
    let mut guard = session(&shell, &[]);
    assert!(is_withheld(&guard.call("echo", bad())));
    guard.leave();
    assert!(guard.stderr().contains("the ledger says that the wait before enforcing is over"), "{}", guard.stderr());
    verifies(&shell);
}

#[test]
fn neither_a_clock_nor_a_deleted_file_shortens_the_wait_unsaid() {
    let shell = Shell::new();
    configure(&shell, "mode = \"enforce\"\nenforce_after = \"3d\"\n");
    let mut guard = session(&shell, &[]);
    guard.call("echo", good());
    guard.leave();
    assert_eq!(says(&shell, 0)["waits"], json!(["3d"]));
    assert!(says(&shell, 0)["waits_until"].as_str().unwrap() > credence_testing::now().to_string().as_str());
    // As a machine that was started again with a clock ten years ahead would find it.
    let file = shell.path("state/bad/enforcement.json");
    let mut kept: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    kept["boot"] = json!("another start");
    kept["wall"] = json!("2016-01-01T00:00:00Z");
    fs::write(&file, kept.to_string()).unwrap();
    let mut guard = session(&shell, &[]);
    assert!(!is_withheld(&guard.call("echo", bad())), "a day has passed at most");
    guard.leave();
    assert_eq!(says(&shell, 0)["waits"], json!(["2d"]));
    fs::remove_file(&file).unwrap();
    let mut guard = session(&shell, &[]);
    assert!(!is_withheld(&guard.call("echo", bad())));
    guard.leave();
    assert!(
        guard.stderr().contains("enforcement.json was gone: the wait before enforcing begins anew"),
        "{}",
        guard.stderr()
    );
    assert_eq!(says(&shell, 0)["waits"], json!(["3d"]));
    assert!(shell.ok(&["guard", "status", "--state", "state"]).contains("began anew: its file was gone"));
}

/// A changed file needs no restart, and a mistake in it does not switch protection off.
#[test]
fn a_changed_file_holds_within_seconds_and_a_wrong_one_does_not() {
    let shell = Shell::new();
    let mut guard = session(&shell, &[]);
    assert_eq!(meta(&guard.call("echo", bad()))["mode"], "flag");
    let holds = |guard: &mut Session, mode: &str| {
        eventually(&format!("{mode} holds"), || {
            let answer = guard.call("echo", bad());
            let now = if is_withheld(&answer) { "enforce" } else { meta(&answer)["mode"].as_str().unwrap() };
            (now == mode).then_some(())
        });
    };
    let path = configure(&shell, "mode = \"enforce\"\n");
    holds(&mut guard, "enforce");
    let trouble = |shell: &Shell, words: &str| {
        eventually(words, || {
            let trouble = says(shell, 0)["config_trouble"].as_str().map(str::to_owned)?;
            trouble.contains(words).then_some(())
        });
    };
    // A mistake, a file that others can write, one that is gone: what held goes on.
    fs::write(&path, "mode = \"observe\"\nmod = 1\n").unwrap();
    trouble(&shell, "line 2: there is no setting 'mod'");
    assert!(is_withheld(&guard.call("echo", bad())));
    assert!(shell.ok(&["guard", "status", "--state", "state"]).contains("the former configuration holds: "));
    fs::write(&path, "mode = \"observe\"\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    trouble(&shell, "others can write it");
    assert!(is_withheld(&guard.call("echo", bad())));
    fs::remove_file(&path).unwrap();
    trouble(&shell, "it is gone");
    assert!(is_withheld(&guard.call("echo", bad())));
    // Per tool, and a section that needs a restart.
    configure(
        &shell,
        "mode = \"enforce\"\n[server.\"bad\".tool.\"echo\"]\nmode = \"observe\"\n[quarantine]\ndays = 3\n",
    );
    holds(&mut guard, "observe");
    eventually("it says what needs a restart", || {
        (says(&shell, 0)["restart_for"] == json!(["quarantine"])).then_some(())
    });
    assert_eq!(says(&shell, 0).get("config_trouble"), None);
    // A wait that begins while the guard runs.
    configure(&shell, "mode = \"enforce\"\nenforce_after = 1000\n");
    holds(&mut guard, "flag");
    guard.leave();
    let configured: Vec<Value> = operations(&shell).into_iter().filter(|one| one["action"] == "configured").collect();
    let details: Vec<&str> = configured.iter().map(|one| one["detail"].as_str().unwrap()).collect();
    assert_eq!(
        details,
        [
            "mode flag to enforce",
            "settings of single tools",
            "enforce_after none to 1000 calls, settings of single tools"
        ]
    );
    verifies(&shell);
}

/// A line that somebody without the guard's key has put into the file of the switch.
#[test]
fn a_planted_switch_is_not_obeyed() {
    let shell = Shell::new();
    let mut guard = session(&shell, &["--mode", "enforce"]);
    assert!(is_withheld(&guard.call("echo", bad())));
    let record = json!({ "action": "off", "at": "2026-11-18T12:00:00Z", "by": { "uid": 0 }, "id": "01890a5d-ac96-774b-bcce-b302099a8057" });
    fs::write(shell.path("state/bad/switch"), format!("{record}\n{} {record}\n", "A".repeat(43))).unwrap();
    eventually("the guard has seen it", || {
        guard.stderr().contains("2 lines in 'switch' were not written").then_some(())
    });
    assert!(is_withheld(&guard.call("echo", bad())));
    // The command still works beside them.
    shell.ok(&["guard", "off", "bad", "--state", "state"]);
    assert!(!is_withheld(&guard.call("echo", bad())));
    guard.leave();
}

#[test]
fn off_and_on_take_effect_in_a_running_guard_and_are_recorded() {
    let shell = Shell::new();
    let mut guard = session(&shell, &["--mode", "enforce"]);
    assert!(is_withheld(&guard.call("echo", bad())));
    let done = shell.json(&["guard", "off", "bad", "--state", "state"]);
    assert_eq!(done["servers"][0]["running"], 1, "{done}");
    assert_eq!(done["servers"][0]["waiting"], 0, "it is in effect when the command returns: {done}");
    let passed = guard.call("echo", bad());
    assert!(passed.to_string().contains("hunter2") && passed["result"].get("_meta").is_none(), "as it came: {passed}");
    let status = shell.ok(&["guard", "status", "--state", "state"]);
    assert!(status.contains("SWITCHED OFF since"), "{status}");
    assert!(shell.ok(&["guard", "off", "bad", "--state", "state"]).contains("is off already"));
    shell.ok(&["guard", "on", "bad", "--state", "state"]);
    assert!(is_withheld(&guard.call("echo", bad())));
    shell.ok(&["guard", "off", "bad", "--state", "state"]);
    guard.leave();
    // Off stays off, and somebody can switch while nothing runs.
    let mut guard = session(&shell, &["--mode", "enforce"]);
    assert!(guard.call("echo", bad()).to_string().contains("hunter2"));
    guard.leave();
    assert!(shell.ok(&["guard", "on", "bad", "--state", "state"]).contains("no guard of it runs"));
    let all = receipts(&shell);
    let off = all.values().filter(|one| one["unjudged"] == "the guard is switched off").count();
    assert_eq!((all.len(), off), (4, 2), "receipts go on: {all:?}");
    verifies(&shell);
    let entries = operations(&shell);
    let actions: Vec<&str> = entries.iter().map(|one| one["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["off", "on", "off"]);
    assert!(entries.iter().all(|one| one["by"]["uid"].is_u64()), "{entries:?}");
    shell.fails(&["guard", "off", "bed", "--state", "state"], "no guard of 'bed' has run yet; known in");
}

/// The name that a caller puts into its environment is not who it is.
#[test]
fn who_switches_is_what_the_system_says() {
    let shell = Shell::new();
    let mut guard = session(&shell, &[]);
    guard.call("echo", good());
    for word in ["off", "on"] {
        let mut command = shell.command(&["guard", word, "bad", "--state", "state"]);
        assert!(command.env("USER", "mallory").env("LOGNAME", "mallory").output().unwrap().status.success());
    }
    guard.leave();
    let history = shell.json(&["guard", "review", "--history", "--state", "state"]);
    let done = history["operations"].as_array().unwrap();
    assert_eq!(done.len(), 2, "{history}");
    assert!(!history.to_string().contains("mallory"), "{history}");
    assert!(done.iter().all(|one| one["operation"]["by"]["uid"].is_u64()), "{history}");
}

/// The operation entries in the ledger of the first guard.
fn operations(shell: &Shell) -> Vec<Value> {
    let database = shell.path("state/bad/1/receipts/000001/ledger.db");
    let ledger = rusqlite::Connection::open(database).unwrap();
    let mut rows = ledger.prepare("SELECT entry FROM entries ORDER BY seq").unwrap();
    let entries = rows.query_map([], |row| row.get::<_, String>(0)).unwrap();
    let entries = entries.map(|text| serde_json::from_str::<Value>(&text.unwrap()).unwrap());
    entries.filter(|entry| entry["kind"] == "operation").map(|entry| entry["body"].clone()).collect()
}

/// A server that answers `status` in its own way and declares the name that it is given.
const SERVER: &str = r#"
import json, sys
def pages(n): return {"page": n, "rows": [{"id": n, "title": "row %d" % n, "price": 10 + n % 7}]}
def people(n): return {"user": {"login": "u%d" % n, "mail": "u%d@x.example" % n}, "roles": ["a", "b"], "active": True}
for line in sys.stdin:
    m = json.loads(line)
    if "id" not in m: continue
    if m["method"] == "initialize":
        r = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": open("declared.txt").read().strip(), "version": "1"}}
    else:
        value = (pages if sys.argv[1] == "pages" else people)(m["params"]["arguments"]["n"])
        r = {"content": [{"type": "text", "text": json.dumps(value)}], "structuredContent": value}
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
"#;

fn labelled(shell: &Shell, label: &str, gives: &str, declares: &str) -> Session {
    fs::write(shell.path("server.py"), SERVER).unwrap();
    fs::write(shell.path("declared.txt"), declares).unwrap();
    let flags =
        ["guard", "--state", "state", "--name", label, "--mode", "enforce", "--", "python3", "./server.py", gives];
    let mut guard = Session::spawn(shell, shell.command(&flags));
    guard.send_raw(r#"{"jsonrpc":"2.0","id":900000,"method":"initialize","params":{"clientInfo":{"name":"c"}}}"#);
    guard.answer(900_000);
    guard
}

/// How many of so many results are doubted: flagged or withheld.
fn doubted_of(guard: &mut Session, calls: u64) -> usize {
    let answers: Vec<Value> = (0..calls).map(|n| guard.call("get", json!({ "n": n }))).collect();
    answers.iter().filter(|answer| meta(answer)["verdict"] != "accept").count()
}

/// How many of so many results do not come through.
fn withheld_of(guard: &mut Session, calls: u64) -> usize {
    let answers: Vec<Value> = (0..calls).map(|n| guard.call("get", json!({ "n": n }))).collect();
    answers.iter().filter(|answer| answer["result"]["isError"] == true).count()
}

#[test]
fn a_second_server_of_one_label_has_a_model_of_its_own() {
    let shell = Shell::new();
    let mut first = labelled(&shell, "db", "pages", "Pages");
    assert_eq!(withheld_of(&mut first, 60), 0);
    let mut second = labelled(&shell, "db", "people", "People");
    assert_eq!(doubted_of(&mut second, 3), 0, "{}", second.stderr());
    assert_eq!(withheld_of(&mut second, 40), 0, "{}", second.stderr());
    assert!(second.stderr().contains("'db' was another server until now"), "{}", second.stderr());
    first.leave();
    second.leave();
    let status = shell.json(&["guard", "status", "--state", "state"]);
    let guards = status["guards"].as_array().unwrap();
    assert_eq!(guards.len(), 2, "{status}");
    let other = guards.iter().find(|guard| guard["says"].get("follows").is_some()).unwrap();
    assert!(other["server"].as_str().unwrap().starts_with("db-") && other["says"]["label"] == "db", "{other}");
    assert!(shell.ok(&["guard", "status", "--state", "state"]).contains("the label 'db' led to"));
    // Each is found again, and receipts of both have the client's label.
    let mut again = labelled(&shell, "db", "people", "People");
    assert_eq!(withheld_of(&mut again, 5), 0);
    again.leave();
    assert!(!again.stderr().contains("another server until now"));
    assert_eq!(shell.json(&["guard", "status", "--state", "state"])["guards"].as_array().unwrap().len(), 2);
    assert!(receipts(&shell).values().all(|one| one["server"] == "db"));
    verifies(&shell);
    // A person means both by their label, or one by its folder; another name is a mistake.
    let folder = other["server"].as_str().unwrap();
    let of = |wanted: &str| shell.json(&["guard", "status", "--state", "state", "--server", wanted])["tools"].clone();
    assert_eq!((of("db").as_array().unwrap().len(), of(folder).as_array().unwrap().len()), (2, 1));
    for args in [&["status"][..], &["review", "--list"], &["forget", "--all"]] {
        let mut all = vec!["guard"];
        all.extend(args);
        all.extend(["--state", "state", "--server"]);
        assert!(shell.run(&[&all[..], &["db"]].concat()).code.is_some_and(|code| code == 0), "{args:?}");
        let known = format!("no guard of 'dbx' has run yet; known in state: db, {folder}");
        shell.fails(&[&all[..], &["dbx"]].concat(), &known);
    }
    // Both are switched by their label.
    assert_eq!(shell.json(&["guard", "off", "db", "--state", "state"])["servers"].as_array().unwrap().len(), 2);
}

/// One command in two folders, as clients of two projects start it.
#[test]
fn the_same_command_in_two_folders_is_two_servers() {
    let shell = Shell::new();
    for (folder, gives) in [("one", "pages"), ("two", "people")] {
        fs::create_dir_all(shell.path(folder)).unwrap();
        fs::write(shell.path(folder).join("server.py"), SERVER.replace("sys.argv[1]", &format!("{gives:?}"))).unwrap();
        fs::write(shell.path(folder).join("declared.txt"), "Data").unwrap();
    }
    let state = shell.path("state").display().to_string();
    let start = |folder: &str, words: &[&str]| {
        let mut args = vec!["guard", "--state", &state, "--name", "db", "--"];
        args.extend(words);
        let mut command = shell.command(&args);
        command.current_dir(shell.path(folder));
        Session::spawn(&shell, command)
    };
    let mut first = start("one", &["python3", "server.py"]);
    assert_eq!(withheld_of(&mut first, 60), 0);
    first.leave();
    let mut second = start("two", &["python3", "server.py"]);
    assert_eq!(doubted_of(&mut second, 3), 0, "it is not judged by the first one's results: {}", second.stderr());
    second.leave();
    // The first one again, by its whole path and from elsewhere.
    let whole = shell.path("one/server.py").display().to_string();
    let mut again = start("one", &["python3", &whole]);
    assert_eq!(withheld_of(&mut again, 5), 0, "{}", again.stderr());
    again.leave();
    let status = shell.json(&["guard", "status", "--state", "state"]);
    let servers: Vec<&str> =
        status["guards"].as_array().unwrap().iter().map(|guard| guard["server"].as_str().unwrap()).collect();
    assert!(servers.len() == 2 && servers[0] == "db" && servers[1].starts_with("db-"), "{servers:?}");
}

/// A mistyped command must not be what a label leads to from then on.
#[test]
fn a_server_that_never_answered_does_not_own_its_label() {
    let shell = Shell::new();
    for mistyped in [&["no-such-program"][..], &["python3", "./gone.py"]] {
        let args = [&["guard", "--state", "state", "--name", "bad", "--"], mistyped].concat();
        assert_ne!(shell.run(&args).code, Some(0));
    }
    let mut guard = session(&shell, &[]);
    guard.call("echo", good());
    guard.leave();
    assert!(!guard.stderr().contains("was another server until now"), "{}", guard.stderr());
    let status = shell.json(&["guard", "status", "--state", "state"]);
    assert!(status["guards"].as_array().unwrap().iter().all(|guard| guard["server"] == "bad"), "{status}");
}

/// Under the former name the same results are doubted: that is what the identity keeps from happening.
#[test]
fn a_server_that_declares_another_name_starts_afresh_and_the_former_is_found_again() {
    let shell = Shell::new();
    let mut guard = labelled(&shell, "db", "pages", "Pages");
    assert_eq!(withheld_of(&mut guard, 60), 0);
    guard.leave();
    // The same command now runs something else, under another name.
    let another = SERVER.replace("if sys.argv[1] == \"pages\"", "if False");
    let run = |declares: &str| {
        let mut guard = labelled(&shell, "db", "pages", declares);
        guard.leave();
        fs::write(shell.path("server.py"), &another).unwrap();
        let flags =
            ["guard", "--state", "state", "--name", "db", "--mode", "enforce", "--", "python3", "./server.py", "pages"];
        let mut guard = Session::spawn(&shell, shell.command(&flags));
        guard.send_raw(r#"{"jsonrpc":"2.0","id":900000,"method":"initialize","params":{"clientInfo":{"name":"c"}}}"#);
        guard.answer(900_000);
        guard
    };
    let mut same_name = run("Pages");
    assert!(doubted_of(&mut same_name, 3) > 0, "under the former name it is not believable");
    same_name.leave();
    let mut renamed = run("People");
    assert_eq!(doubted_of(&mut renamed, 3), 0, "{}", renamed.stderr());
    assert_eq!(withheld_of(&mut renamed, 40), 0, "{}", renamed.stderr());
    renamed.leave();
    let report = says(&shell, 0);
    assert_eq!((&report["declared"], &report["former_names"]), (&json!("People"), &json!(["Pages"])));
    let mut back = labelled(&shell, "db", "pages", "Pages");
    assert_eq!(withheld_of(&mut back, 5), 0, "what was learned under the first name is still there");
    back.leave();
    assert!(back.stderr().contains("declares the name 'Pages', and it was 'People' before"), "{}", back.stderr());
    verifies(&shell);
}

#[test]
fn the_status_can_be_watched() {
    let shell = Shell::new();
    let mut guard = session(&shell, &[]);
    guard.call("echo", good());
    eventually("the guard has its state", || shell.path("state/bad/1/guard.json").exists().then_some(()));
    let watch = Session::spawn(&shell, shell.command(&["guard", "status", "--watch", "--json", "--state", "state"]));
    let first: Value = serde_json::from_str(&watch.line().unwrap()).unwrap();
    assert_eq!(first["guards"][0]["server"], "bad");
    guard.call("echo", bad());
    eventually("a line tells of the blocked result", || {
        let line: Value = serde_json::from_str(&watch.line().unwrap()).unwrap();
        (line["tools"][0]["blocked"] == 1).then_some(())
    });
    guard.leave();
}
