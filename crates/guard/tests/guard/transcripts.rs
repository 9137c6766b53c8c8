//! Transcripts that real frameworks wrote, of calls through a guard. `testdata/transcripts` holds one of each form; the frameworks
//! themselves run in `scripts/test --long`, and one of them always.

use std::{fs, path::Path, process::Command};

use credence_protocol::{EntityId, SecretKey};
use credence_receipts::{
    Archive,
    claims::{CheckOptions, ClaimStatus},
    folder, transcript,
};
use credence_testing::{
    Shell, binary,
    peers::{installed, program},
    project_root,
};
use serde_json::Value;

use super::Session;

/// Words of each result that stand nowhere else in a transcript: of `find_ticket`, `price` (text and structure), `draw` (text and
/// image), `close_ticket` and `list_notes`.
const WORDS: [&str; 7] = ["kestrel", "129.75", "heron", "osprey", "AAAAEAAAABCAYAAAAfFcSJ", "egret", "merlin"];

/// The calls of the scenario that every transcript tells.
fn scenario() -> Vec<(String, Value)> {
    let text = fs::read_to_string(program("transcripts/scenario.json")).unwrap();
    let scenario: Value = serde_json::from_str(&text).unwrap();
    let turns = scenario["turns"].as_array().unwrap();
    let calls = turns.iter().flat_map(|turn| turn.as_array().unwrap());
    calls.map(|call| (call["tool"].as_str().unwrap().to_owned(), call["arguments"].clone())).collect()
}

/// Receipts of these calls, from a real guard.
struct Guarded {
    shell: Shell,
}

impl Guarded {
    fn of(calls: &[(String, Value)]) -> Self {
        let shell = Shell::new();
        let server = program("transcripts/desk_server.py");
        let guard = ["guard", "--state", "state", "--name", "desk", "--", "python3", server.to_str().unwrap()];
        let mut session = Session::spawn(&shell, shell.command(&guard));
        for (tool, arguments) in calls {
            let answer = session.call(tool, arguments.clone());
            assert!(answer["result"]["content"].is_array(), "{answer}");
        }
        assert_eq!(session.leave(), Some(0), "{}", session.stderr());
        Self { shell }
    }

    /// Runs the command; gives its exit code and the statuses.
    fn check(&self, transcript: &Path) -> (Option<i32>, Vec<String>, String) {
        let args = ["receipts", "check", transcript.to_str().unwrap(), "--state", "state", "--json"];
        let ran = self.shell.run(&args);
        let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
        let claims = report["claims"].as_array().unwrap().iter();
        (ran.code, claims.map(|claim| claim["status"].as_str().unwrap().to_owned()).collect(), ran.stdout)
    }

    /// The receipts, to check many texts without a process for each.
    fn archive(&self) -> (Archive, SecretKey) {
        let state = self.shell.path("state");
        let key = folder::read_or_create_key(&folder::key_file(&state)).unwrap();
        (Archive::open(&state, &EntityId::new("guard").unwrap(), &key).unwrap(), key)
    }
}

fn recorded() -> Vec<std::path::PathBuf> {
    let folder = fs::canonicalize(project_root().join("testdata/transcripts")).unwrap();
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "json"));
    files.sort();
    assert!(files.len() >= 14, "{files:?}");
    files
}

#[test]
fn genuine_transcripts_of_every_framework_are_executed() {
    let guarded = Guarded::of(&scenario());
    for file in recorded() {
        let (code, statuses, report) = guarded.check(&file);
        assert_eq!(statuses, ["executed"; 5], "{file:?}: {report}");
        assert_eq!(code, Some(0), "{file:?}: {report}");
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["transcript_problems"], serde_json::json!([]), "{file:?}");
    }
}

/// The same JSON with other white space, other escapes and its members in another order.
#[test]
fn transcripts_that_were_written_again_are_executed() {
    let guarded = Guarded::of(&scenario());
    for file in recorded() {
        let value: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let again = value.to_string().replace("noon", "no\\u006fn");
        let path = guarded.shell.path("again.json");
        fs::write(&path, again).unwrap();
        let (code, statuses, report) = guarded.check(&path);
        assert_eq!(
            (code, statuses.as_slice()),
            (Some(0), ["executed"; 5].map(str::to_owned).as_slice()),
            "{file:?}: {report}"
        );
    }
}

/// Wherever a result's words stand, in a copy of it too: changed in that one place, the transcript does not pass.
#[test]
fn a_result_altered_in_any_place_is_found() {
    let guarded = Guarded::of(&scenario());
    let (archive, key) = guarded.archive();
    for file in recorded() {
        let text = fs::read_to_string(&file).unwrap();
        let mut altered_claims = 0;
        for word in WORDS {
            // An exception's message is prose: it is searched for results, not compared with them.
            let is_prose =
                |at: usize| text[..at].rsplit('\n').next().is_some_and(|line| line.contains("\"exception.message\""));
            let places: Vec<usize> = text.match_indices(word).map(|(at, _)| at).filter(|at| !is_prose(*at)).collect();
            // Not every framework hands structure and picture on.
            assert!(!places.is_empty() || !["kestrel", "egret", "merlin"].contains(&word), "{word} in {file:?}");
            for at in places {
                let middle = at + word.len() / 2;
                let other = if text[middle..].starts_with('7') { "8" } else { "7" };
                let altered = format!("{}{other}{}", &text[..middle], &text[middle + 1..]);
                let read = transcript::read(altered.as_bytes()).unwrap();
                let report = archive.check(&key, &read, &CheckOptions::default()).unwrap();
                let claim = report.count(ClaimStatus::Altered);
                altered_claims += claim;
                assert!(claim > 0 || read.may_hide_claims(), "{word} at {at} of {file:?}: {report:?}");
                assert!(!report.is_clean() || read.may_hide_claims());
            }
        }
        assert!(altered_claims >= 4, "{file:?}");
    }
}

#[test]
fn a_call_that_was_not_made_never_happened() {
    let calls = scenario();
    for left_out in 0..calls.len() {
        let made: Vec<_> =
            calls.iter().enumerate().filter(|(n, _)| *n != left_out).map(|(_, call)| call.clone()).collect();
        let guarded = Guarded::of(&made);
        let (archive, key) = guarded.archive();
        for file in recorded() {
            let read = transcript::read(&fs::read(&file).unwrap()).unwrap();
            let report = archive.check(&key, &read, &CheckOptions::default()).unwrap();
            let missing: Vec<_> =
                report.claims.iter().filter(|claim| claim.status == ClaimStatus::NeverHappened).collect();
            assert_eq!(missing.len(), 1, "{file:?}: {report:?}");
            assert_eq!(missing[0].tool.as_deref(), Some(calls[left_out].0.as_str()), "{file:?}");
            assert!(!report.is_clean());
        }
    }
}

/// Runs a framework's program through a guard and checks what it wrote.
fn run(framework: &str, mut command: Command) {
    let shell = Shell::new();
    let (out, server) = (shell.path("out"), program("transcripts/desk_server.py"));
    fs::create_dir(&out).unwrap();
    command.arg(&out).args([binary(), "guard", "--name", "desk", "--state"]).arg(shell.path("state"));
    let ran = command.args(["--", "python3"]).arg(server).env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap();
    assert!(ran.status.success(), "{framework}: {}", String::from_utf8_lossy(&ran.stderr));
    let guarded = Guarded { shell };
    let files: Vec<_> = fs::read_dir(&out).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(!files.is_empty(), "{framework} wrote nothing");
    for file in files {
        let (code, statuses, report) = guarded.check(&file);
        assert_eq!(
            (code, statuses.as_slice()),
            (Some(0), ["executed"; 5].map(str::to_owned).as_slice()),
            "{file:?}: {report}"
        );
        let known = project_root().join("testdata/transcripts").join(file.file_name().unwrap());
        assert!(known.exists(), "{known:?} is missing: scripts/transcripts writes it");
    }
}

#[test]
fn the_ai_sdk_writes_what_is_read() {
    let Some(folder) = installed() else { return };
    let mut command = Command::new("node");
    command.arg(program("transcripts/with_ai_sdk.mjs")).arg(folder.join("node"));
    run("ai-sdk", command);
}

#[test]
fn every_framework_writes_what_is_read() {
    if std::env::var_os("LONG_TESTS").is_none() {
        return;
    }
    let script = project_root().join("scripts/transcripts");
    let installed = Command::new(script).arg("--install").output().unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    let python = String::from_utf8(installed.stdout).unwrap();
    for framework in ["langgraph", "openai_agents", "pydantic_ai", "google_genai", "strands"] {
        let mut command = Command::new(python.trim());
        command.arg(program(&format!("transcripts/with_{framework}.py")));
        run(framework, command);
    }
}
