//! Every kind of bad input: a clear error, a non-zero exit, nothing half-written.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
};

use credence_testing::{Shell, authority, binary, draft, key, signed};
use serde_json::Value;

#[test]
fn rejected_signals_exit_with_2_and_name_the_line() {
    let shell = authority(&["lab", "rival"], &["bot"]);
    let good = |value: f64| signed("bot", "lab", "rel_uptime", value).canonical().to_string();
    let text = good(50.0);
    let mut future = draft("bot", "lab", "rel_uptime", 1.0);
    future.observed_at = "2999-01-01T00:00:00Z".parse::<credence_protocol::Timestamp>().unwrap().into();
    let lines = [
        (good(1.0), None),
        (text[..40].to_owned(), Some("malformed")),
        (text.replace("\"value\":50", "\"value\":50,\"value\":50"), Some("malformed")),
        (text.replace("\"value\":50", "\"value\":100.1"), Some("value_out_of_range")),
        (text.replace("\"value\":50", "\"value\":NaN"), Some("malformed")),
        (text.replace("\"stddev\":1", "\"stddev\":51"), Some("stddev_out_of_range")),
        (text.replace("\"value\":50", "\"value\":51"), Some("bad_signature")),
        (text.replace("bot", ".."), Some("malformed")),
        (text.replace("bot", "."), Some("malformed")),
        (signed("bot", "lab", "no_such_tag", 1.0).canonical().to_string(), Some("unknown_tag")),
        (
            draft("bot", "lab", "rel_uptime", 1.0).sign(&key("rival")).unwrap().canonical().to_string(),
            Some("key_not_of_source"),
        ),
        (
            draft("bot", "lab", "rel_uptime", 1.0).sign(&key("nobody")).unwrap().canonical().to_string(),
            Some("unknown_key"),
        ),
        (signed("nobody", "lab", "rel_uptime", 1.0).canonical().to_string(), Some("unknown_agent")),
        (future.sign(&key("lab")).unwrap().canonical().to_string(), Some("observed_in_future")),
        (
            text.replace("{\"agent\"", &format!("{{\"evidence\":{{\"x\":\"{}\"}},\"agent\"", "y".repeat(5_000))),
            Some("too_large"),
        ),
        ("x".repeat(3_000_000), Some("too_large")),
        (String::new(), None),
        (good(2.0), None),
    ];
    let input: String = lines.iter().map(|(line, _)| format!("{line}\n")).collect();
    let ran = shell.run_with(&["signal", "submit", "--json"], &input);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    let outcomes: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (summary, outcomes) = outcomes.split_last().unwrap();
    assert_eq!(summary["summary"]["admitted"], 2);
    assert_eq!(summary["summary"]["rejected"], 15);
    let expected = lines.iter().enumerate().filter(|(_, (line, _))| !line.is_empty());
    for (outcome, (n, (_, code))) in outcomes.iter().zip(expected) {
        assert_eq!(outcome["line"], n + 1);
        assert_eq!(outcome["code"].as_str(), *code, "{outcome}");
        assert_eq!(outcome["seq"].is_u64(), code.is_none(), "{outcome}");
    }
    // People get the same as a table.
    let ran = shell.run_with(&["signal", "submit"], &input);
    assert!(ran.stdout.contains("0 admitted, 2 known already, 15 rejected"), "{}", ran.stdout);
    assert!(ran.stdout.contains("unknown_tag") && ran.stdout.contains("bad_signature"));
    shell.audit_passes();
}

#[test]
fn superseding_another_sources_signal_and_reusing_an_id_are_rejected() {
    let shell = authority(&["lab", "rival"], &["bot"]);
    let first = signed("bot", "lab", "rel_uptime", 50.0);
    let mut foreign = draft("bot", "rival", "rel_uptime", 1.0);
    foreign.supersedes = Some(first.draft().id);
    let mut reused = draft("bot", "lab", "rel_uptime", 1.0);
    reused.id = first.draft().id;
    let signals = [first, foreign.sign(&key("rival")).unwrap(), reused.sign(&key("lab")).unwrap()];
    let input: String = signals.iter().map(|s| format!("{}\n", s.canonical())).collect();
    let ran = shell.run_with(&["signal", "submit", "--json"], &input);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stdout.contains("foreign_superseded") && ran.stdout.contains("duplicate_id"), "{}", ran.stdout);
    shell.ok(&["keys", "revoke", &key("lab").public().id().to_string()]);
    let late = signed("bot", "lab", "rel_uptime", 9.0).canonical().to_string();
    assert!(shell.run_with(&["signal", "submit", "--json"], &late).stdout.contains("revoked_key"));
    shell.audit_passes();
}

#[test]
fn commands_refuse_what_they_cannot_do() {
    let shell = Shell::new();
    shell.fails(&["score", "bot"], "no authority in credence-data: create one with `credence init`");
    shell.fails(&["init", "--origin", "a b"], "log key");
    shell.fails(&["init", "--coverage-floor", "2"], "outside 0..=1");
    let shell = authority(&["lab"], &["bot"]);
    let size = shell.size();
    shell.fails(&["init"], "already");
    shell.fails(&["score", "nobody"], "no agent has the id or alias 'nobody'");
    shell.fails(&["source", "add", "lab"], "registered already");
    shell.fails(&["source", "weight", "nobody", "1"], "no source 'nobody'");
    shell.fails(&["source", "weight", "lab", "-1"], "0 or between 0.000001 and 1000000");
    shell.fails(&["source", "weight", "lab", "1.7e308"], "0 or between 0.000001 and 1000000");
    shell.fails(&["keys", "generate", "nobody"], "no source 'nobody'");
    assert!(!shell.path("credence-data/keys/nobody.jwk").exists(), "nothing half-made");
    shell.fails(&["agent", "add", "bot"], "nothing new");
    shell.fails(&["signal", "submit", "missing.json"], "cannot read missing.json");
    shell.fails(&["signal", "submit", "."], ". is a folder");
    shell.fails(&["check", "/dev/zero", "--key", "x"], "longer than 1048576 bytes");
    shell.fails(&["score", "bot", "--weights", "/dev/zero"], "longer than 1048576 bytes");
    shell.fails(&["log", "prove", "9999"], "there is no entry 9999");
    shell.fails(&["log", "consistency", "9999"], "not between 1 and");
    shell.fails(&["score", "bot", "--at", "2020-01-01T00:00:00Z"], "had no score");
    for wrong in [
        &["agent", "add", "..", "--name", "x"][..],
        &["agent", "add", "a/b"],
        &["score"],
        &["nonsense"],
        &["agent", "add", "x", "--alias", "ftp://x"],
        &["score", "bot", "--at", "noon"],
    ] {
        let ran = shell.run(wrong);
        assert_eq!(ran.code, Some(64), "{wrong:?}: {ran:?}");
    }
    assert_eq!(shell.size(), size);
}

#[test]
fn key_files_must_be_private_and_whole() {
    use std::os::unix::fs::PermissionsExt;
    let shell = authority(&[], &["bot"]);
    shell.ok(&["source", "add", "lab"]);
    shell.ok(&["keys", "generate", "lab"]);
    let path = shell.path("credence-data/keys/lab.jwk");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let sign = ["signal", "sign", "--source", "lab", "--agent", "bot", "--tag", "rel_uptime", "--value", "9"];
    shell.ok(&sign);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    shell.fails(&sign, "chmod 600");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let secret = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, secret.replace("\"d\":", "\"d\": 1,\"d\":")).unwrap();
    let ran = shell.run(&sign);
    assert!(ran.code == Some(1) && ran.stderr.contains("not a private JWK"), "{ran:?}");
    let d = secret.split("\"d\": \"").nth(1).unwrap().split('"').next().unwrap();
    assert!(d.len() == 43 && !ran.stderr.contains(d), "the secret must not appear");
    // The environment can hold it instead.
    let ran = shell.command(&sign).env("CREDENCE_SIGNING_KEY", &secret).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let ran = shell.command(&sign).env("CREDENCE_SIGNING_KEY", "{}").output().unwrap();
    assert!(String::from_utf8_lossy(&ran.stderr).contains("CREDENCE_SIGNING_KEY is not a private JWK"));
}

#[test]
fn the_log_key_can_come_from_the_environment_and_must_be_the_right_one() {
    let shell = authority(&["lab"], &["bot"]);
    let path = shell.path("credence-data/log.jwk");
    let secret = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    shell.fails(&["agent", "add", "x"], "cannot read key file");
    let with =
        |name: &str, key: &str| shell.command(&["agent", "add", name]).env("CREDENCE_LOG_KEY", key).output().unwrap();
    assert!(with("x", &secret).status.success());
    let other = std::fs::read_to_string(shell.path("credence-data/keys/credence.jwk")).unwrap();
    let refused = with("y", &other);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("does not belong to log_key"), "{refused:?}");
    shell.ok(&["score", "bot"]);
    shell.audit_passes();
}

#[test]
fn measurements_are_signed_by_the_file_and_bad_ones_are_named() {
    let shell = authority(&[], &["bot"]);
    shell.ok(&["source", "add", "lab"]);
    shell.ok(&["keys", "generate", "lab"]);
    let line = |value: f64| serde_json::to_string(&draft("bot", "lab", "rel_uptime", value)).unwrap();
    std::fs::write(shell.path("m.jsonl"), format!("{}\n\n{}\n", line(1.0), line(2.0))).unwrap();
    let signed = shell.ok(&["signal", "sign", "m.jsonl"]);
    assert_eq!(signed.lines().count(), 2);
    let ran = shell.run_with(&["signal", "submit"], &signed);
    assert_eq!(ran.stdout, "2 admitted, 0 known already, 0 rejected\n");
    std::fs::write(shell.path("m.jsonl"), format!("{}\n{{\n", line(1.0))).unwrap();
    shell.fails(&["signal", "sign", "m.jsonl"], "m.jsonl, measurement 2");
    shell.fails(&["signal", "sign", "--source", "lab"], "give --source, --agent, --tag and --value");
}

#[test]
fn a_database_that_is_not_ours_is_refused_and_left_alone() {
    let shell = authority(&["lab"], &["bot"]);
    let path = shell.path("credence-data/ledger.db");
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
    }
    shell.fails(&["score", "bot"], "no ledger at");
    let letter = "Dear aunt, this is no database.\n".repeat(200);
    std::fs::write(&path, &letter).unwrap();
    shell.fails(&["score", "bot"], "is not a Credence ledger");
    shell.fails(&["source", "add", "x"], "is not a Credence ledger");
    shell.fails(&["audit"], "is not a Credence ledger");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), letter);
}

#[test]
fn an_old_copy_is_refused_until_accepted() {
    let shell = authority(&["lab"], &["bot"]);
    let folder = shell.path("credence-data");
    std::fs::copy(folder.join("ledger.db"), folder.join("old.db")).unwrap();
    shell.ok(&["agent", "add", "later"]);
    std::fs::rename(folder.join("old.db"), folder.join("ledger.db")).unwrap();
    shell.fails(&["score", "bot"], "does not extend the checkpoint kept outside it");
    shell.fails(&["agent", "add", "x"], "accept-restore");
    let ran = shell.run(&["audit"]);
    assert!(ran.code == Some(2) && ran.stdout.contains("outside the database"), "{ran:?}");
    assert!(shell.ok(&["log", "accept-restore"]).contains("1 that a signed checkpoint promised are gone"));
    assert!(shell.ok(&["log", "accept-restore"]).contains("Nothing to accept"));
    assert!(shell.ok(&["log", "accept-clock"]).contains("Nothing to accept: no entry is ahead"));
    shell.ok(&["agent", "add", "x"]);
    shell.audit_passes();
}

#[test]
fn a_second_writer_is_refused_while_readers_are_welcome() {
    let shell = authority(&["lab"], &["bot"]);
    let mut first =
        shell.command(&["signal", "submit", "--json"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = first.stdin.take().unwrap();
    let mut lines = BufReader::new(first.stdout.take().unwrap()).lines();
    // Acknowledged at once, although the input stays open.
    for _ in 0..3 {
        writeln!(stdin, "{}", signed("bot", "lab", "rel_uptime", 9.0).canonical()).unwrap();
        assert!(lines.next().unwrap().unwrap().contains("\"seq\""));
    }
    shell.fails(&["source", "add", "late"], &format!("another process (pid {}) is writing", first.id()));
    shell.ok(&["score", "bot"]);
    drop(stdin);
    lines.for_each(drop);
    assert!(first.wait().unwrap().success());
    shell.ok(&["source", "add", "late"]);
    shell.audit_passes();
}

#[test]
fn a_failed_init_leaves_nothing_and_can_be_repeated() {
    let shell = Shell::new();
    shell.fails(&["init", "--origin", "a b"], "log key");
    std::fs::create_dir(shell.path("credence-data")).unwrap();
    std::fs::write(shell.path("credence-data/letter"), "Dear aunt").unwrap();
    shell.fails(&["init"], "is not empty");
    let left: Vec<_> =
        std::fs::read_dir(shell.folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["credence-data"]);
    std::fs::remove_file(shell.path("credence-data/letter")).unwrap();
    shell.ok(&["init"]);
    shell.audit_passes();
}

#[test]
fn a_score_below_the_coverage_floor_is_computed_and_not_published() {
    let shell = Shell::new();
    shell.ok(&["init", "--coverage-floor", "0.4", "--origin", credence_testing::ORIGIN]);
    shell.ok(&["source", "add", "lab"]);
    shell.ok(&["keys", "add", "lab", &key("lab").public().did_key()]);
    shell.ok(&["agent", "add", "bot"]);
    let line = signed("bot", "lab", "rel_uptime", 90.0).canonical().to_string();
    assert_eq!(shell.run_with(&["signal", "submit"], &line).code, Some(0));
    assert_eq!(shell.json(&["score", "bot"])["status"], "partial");
    for command in [&["score", "bot"][..], &["history", "bot"], &["agent", "list"]] {
        assert!(shell.ok(command).contains("partial"), "{command:?}");
    }
    shell.audit_passes();
}

#[test]
fn rotating_needs_the_sources_own_key_and_survives_an_interruption() {
    let shell = authority(&[], &["bot"]);
    for source in ["lab", "log"] {
        shell.ok(&["source", "add", source]);
        shell.ok(&["keys", "generate", source]);
    }
    let keys = shell.path("credence-data/keys");
    shell.fails(
        &["keys", "rotate", "lab", "--key", "credence-data/keys/log.jwk"],
        "belongs to source 'log', not to 'lab'",
    );
    // Killed after the ledger was written, before the files were renamed.
    std::fs::copy(keys.join("lab.jwk"), keys.join("before.jwk")).unwrap();
    shell.ok(&["keys", "rotate", "lab"]);
    std::fs::rename(keys.join("lab.jwk"), keys.join("lab.jwk.next")).unwrap();
    std::fs::rename(keys.join("before.jwk"), keys.join("lab.jwk")).unwrap();
    assert!(shell.ok(&["keys", "rotate", "lab"]).contains("recorded before"));
    shell.ok(&["keys", "rotate", "lab"]);
    shell.fails(&["keys", "generate", "lab"], "exists already");
    shell.audit_passes();
}

#[test]
fn damaged_and_missing_tables_are_rebuilt() {
    let shell = authority(&["lab"], &["bot"]);
    let line = signed("bot", "lab", "rel_uptime", 50.0).canonical().to_string();
    assert_eq!(shell.run_with(&["signal", "submit"], &line).code, Some(0));
    let size = shell.size();
    let score = shell.json(&["score", "bot"]);
    for damage in
        ["UPDATE p_sources SET value = 'garbage'", "DROP TABLE p_current", "DELETE FROM p_slots; DROP TABLE p_scores"]
    {
        rusqlite::Connection::open(shell.path("credence-data/ledger.db")).unwrap().execute_batch(damage).unwrap();
        let ran = shell.run(&["signal", "submit"]);
        // What is missing is built at once, with a note; what is garbled waits to be told.
        assert!(damage.starts_with("UPDATE") || ran.stderr.contains("lacked tables"), "{damage}: {ran:?}");
        shell.ok(&["replay", "--rebuild"]);
        shell.audit_passes();
        assert_eq!(shell.size(), size, "{damage}");
        assert_eq!(shell.json(&["score", "bot"]), score);
    }
}

#[test]
fn what_others_wrote_cannot_command_the_terminal() {
    let shell = authority(&["lab"], &["bot"]);
    let ran = shell.run_with(&["signal", "submit"], "{\"\\u001b]0;pwned\\u0007\": 1}");
    assert!(ran.code == Some(2) && !ran.stdout.contains('\u{1b}'), "{ran:?}");
    shell.fails(&["agent", "add", "x", "--name", "two\nlines"], "no control characters");
    let ran = shell.run(&["score", "\u{1b}[2J"]);
    assert!(ran.code == Some(1) && !ran.stderr.contains('\u{1b}'), "{ran:?}");
}

/// On a file system of 16 MiB in a namespace of its own: a full batch of signals fits, all of them do not. Skipped, visibly, where the system allows no such thing.
#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    let shell = authority(&["lab"], &["bot"]);
    const SIGNALS: usize = 20_000;
    let lines: String = (0..SIGNALS)
        .map(|n| format!("{}\n", signed("bot", "lab", "rel_uptime", (n % 100) as f64).canonical()))
        .collect();
    std::fs::write(shell.path("signals.jsonl"), lines).unwrap();
    let script = r#"
        set -e
        mkdir disk
        mount -t tmpfs -o size=16m tmpfs disk 2>/dev/null || exit 77
        cp -r credence-data/. disk/
        head -c 1000000 /dev/zero > disk/ballast
        set +e
        "$CREDENCE" --data disk signal submit --json signals.jsonl > acked 2> error; echo "submit $?"
        "$CREDENCE" --data disk audit > audit1 2>&1; echo "audit $?"
        head -c 40000000 /dev/zero > disk/more 2>/dev/null
        "$CREDENCE" --data disk agent add late > full 2>&1; echo "full $?"
        rm disk/ballast disk/more
        mount -o remount,size=256m disk
        "$CREDENCE" --data disk signal submit --json signals.jsonl > again 2> error2; echo "again $?"
        "$CREDENCE" --data disk audit > audit2 2>&1; echo "audit $?"
        cat audit1 audit2 error error2 >&2
    "#;
    let root = Command::new("id").arg("-u").output().is_ok_and(|out| out.stdout == b"0\n");
    let mut command = Command::new("unshare");
    command.args(if root { &["-m"][..] } else { &["-Urm"] });
    let ran = command
        .args(["sh", "-c", script])
        .env("CREDENCE", binary())
        .env("NO_COLOR", "1")
        .current_dir(shell.folder.path())
        .output();
    let ran = match ran {
        Ok(ran) if ran.status.code() != Some(77) && !ran.stdout.is_empty() => ran,
        other => {
            eprintln!("SKIPPED: no small file system can be mounted here: {other:?}");
            return;
        }
    };
    let (stdout, stderr) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert_eq!(stdout, "submit 1\naudit 0\nfull 1\nagain 0\naudit 0\n", "{stderr}");
    assert!(stderr.contains("no space left"), "{stderr}");
    let outcomes = |file: &str| -> Vec<Value> {
        let text = std::fs::read_to_string(shell.path(file)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let full = std::fs::read_to_string(shell.path("full")).unwrap();
    assert!(full.contains("no space left"), "{full}");
    let (acked, again) = (outcomes("acked"), outcomes("again"));
    assert!(!acked.is_empty() && acked.len() < SIGNALS, "{} acknowledged", acked.len());
    for (before, after) in acked.iter().zip(&again) {
        assert_eq!((&before["seq"], true), (&after["seq"], after["known"].as_bool().unwrap()), "{before} {after}");
    }
}

/// A folder made before formats settled: every command refuses it with words that say what to do, and touches nothing in it.
#[test]
fn a_folder_of_an_earlier_format_is_refused_and_never_touched() {
    let shell = authority(&["lab"], &["bot"]);
    let database = rusqlite::Connection::open(shell.path("credence-data/ledger.db")).unwrap();
    database.execute_batch("PRAGMA user_version = 1; PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
    drop(database);
    let files = || {
        let mut files = Vec::new();
        let mut folders = vec![shell.path("credence-data")];
        while let Some(folder) = folders.pop() {
            for file in std::fs::read_dir(folder).unwrap() {
                let path = file.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    files.push((path.clone(), std::fs::read(&path).unwrap()));
                }
            }
        }
        files.sort();
        files
    };
    let before = files();
    let commands: [&[&str]; 8] = [
        &["score", "bot"],
        &["agent", "add", "other"],
        &["replay"],
        &["replay", "--rebuild"],
        &["audit"],
        &["log", "accept-restore"],
        &["trust-signals", "bot", "--url", "https://bot.example/"],
        &["serve", "--listen", "127.0.0.1:0"],
    ];
    for command in commands {
        let ran = shell.run(command);
        assert_ne!(ran.code, Some(0), "{command:?}: {ran:?}");
        assert!(ran.stderr.contains("earlier `credence`") && ran.stderr.contains("--data"), "{command:?}: {ran:?}");
        assert!(files() == before, "{command:?} touched something");
    }
}
