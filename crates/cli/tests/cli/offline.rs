//! `credence check` and `credence log`: proofs that stand on their own.

use std::fs;

use credence_testing::{Shell, authority, key, signed};

/// A folder without any authority in it, holding only what someone was handed.
fn elsewhere(files: &[(&str, &str)]) -> Shell {
    let shell = Shell::new();
    for (name, text) in files {
        fs::write(shell.path(name), text).unwrap();
    }
    shell
}

#[test]
fn a_signal_and_proofs_verify_far_from_home_and_changes_are_noticed() {
    let home = authority(&["lab"], &["bot"]);
    let signal = signed("bot", "lab", "rel_uptime", 90.0);
    fs::write(home.path("signal.json"), signal.canonical().as_str()).unwrap();
    assert_eq!(home.ok(&["signal", "submit", "signal.json"]), "Admitted as entry 5.\n");
    let before = home.ok(&["log", "checkpoint"]);
    fs::write(home.path("before"), &before).unwrap();
    home.ok(&["agent", "add", "later"]);
    let log_key = home.json(&["log", "checkpoint"])["log_key"].as_str().unwrap().to_owned();
    let inclusion = home.ok(&["log", "prove", "5"]);
    let consistency = home.ok(&["log", "consistency", "before"]);
    assert_eq!(home.ok(&["log", "consistency", "7"]), consistency, "the same checkpoint, signed anew");

    let did = key("lab").public().did_key();
    let away =
        elsewhere(&[("s", signal.canonical().as_str()), ("i", &inclusion), ("c", &consistency), ("log.key", &log_key)]);
    assert!(away.ok(&["check", "s", "--key", &did]).contains("lab says rel_uptime of bot is 90 ± 1"));
    assert!(away.ok(&["check", "i", "--key", &log_key]).contains("entry 5 is in log example.org/log"));
    assert!(away.ok(&["check", "c", "--key", "log.key"]).contains("extends itself at 7"));
    let jwks = home.ok(&["keys", "list", "--jwks"]);
    fs::write(away.path("jwks"), jwks).unwrap();
    assert!(away.ok(&["check", "s", "--key", "jwks"]).starts_with("valid signal"));

    for (file, key, from, to) in [
        ("s", did.as_str(), "\"value\":90", "\"value\":91"),
        ("i", log_key.as_str(), "index 5", "index 4"),
        ("c", log_key.as_str(), "\n8\n", "\n9\n"),
    ] {
        let text = fs::read_to_string(away.path(file)).unwrap();
        fs::write(away.path("changed"), text.replacen(from, to, 1)).unwrap();
        let ran = away.run(&["check", "changed", "--key", key]);
        assert!(ran.code == Some(2) && ran.stdout.starts_with("NOT valid"), "{file}: {ran:?}");
    }
    let other = key("rival").public().did_key();
    assert_eq!(away.run(&["check", "s", "--key", &other]).code, Some(2));
    away.fails(&["check", "log.key", "--key", &did], "neither a signed signal or statement, a proof");
    away.fails(&["check", "i", "--key", "nonsense"], "neither a log key");
}

#[test]
fn the_exported_log_is_complete() {
    let home = authority(&["lab"], &["bot"]);
    let lines: String =
        (0..400).map(|n| format!("{}\n", signed("bot", "lab", "rel_uptime", f64::from(n % 100)).canonical())).collect();
    assert_eq!(home.run_with(&["signal", "submit"], &lines).code, Some(0));
    home.ok(&["log", "export", "site"]);
    let size = home.size();
    let partial = size - 256;
    for path in [
        "checkpoint",
        "tile/0/000",
        "tile/entries/000",
        &format!("tile/0/001.p/{partial}"),
        &format!("tile/entries/001.p/{partial}"),
        "tile/1/000.p/1",
    ] {
        assert!(home.path("site").join(path).is_file(), "{path}");
    }
}

/// Everyone may read what is in `folder`, nobody may write it.
fn make_read_only(folder: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    for file in fs::read_dir(folder).unwrap() {
        fs::set_permissions(file.unwrap().path(), fs::Permissions::from_mode(0o444)).unwrap();
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(0o555)).unwrap();
}

/// The command as a user whom permissions bind: root may write anywhere.
fn as_a_user(shell: &Shell, args: &[&str]) -> std::process::Output {
    use std::os::unix::{fs::MetadataExt, fs::PermissionsExt, process::CommandExt};
    let mut command = shell.command(args);
    if fs::metadata(shell.path("")).unwrap().uid() == 0 {
        const NOBODY: u32 = 65_534;
        let program = shell.path("credence-for-everyone");
        fs::copy(credence_testing::binary(), &program).unwrap();
        fs::set_permissions(shell.path(""), fs::Permissions::from_mode(0o755)).unwrap();
        command = std::process::Command::new(program);
        command.args(args).current_dir(shell.path("")).uid(NOBODY).gid(NOBODY);
    }
    command.env("NO_COLOR", "1").output().unwrap()
}

/// An auditor gets a copy that cannot be written, as a service left it that ended in order, or one that was killed.
#[test]
fn an_audit_needs_to_write_nothing() {
    use std::os::unix::fs::PermissionsExt;
    let shell = authority(&["lab"], &["bot"]);
    let data = shell.path("credence-data");
    let copy = |name: &str| {
        fs::create_dir(shell.path(name)).unwrap();
        for file in ["ledger.db", "ledger.db-wal", "checkpoint", "credence.toml"] {
            if data.join(file).exists() {
                fs::copy(data.join(file), shell.path(name).join(file)).unwrap();
            }
        }
        make_read_only(&shell.path(name));
    };
    copy("ended");
    assert!(!shell.path("ended/ledger.db-wal").exists());
    // A reader keeps the write-ahead log from being moved into the database when the next command ends.
    let reader = rusqlite::Connection::open(data.join("ledger.db")).unwrap();
    let entries: u64 = reader.query_row("SELECT count(*) FROM entries", [], |row| row.get(0)).unwrap();
    shell.ok(&["agent", "add", "later"]);
    copy("killed");
    assert!(fs::metadata(shell.path("killed/ledger.db-wal")).unwrap().len() > 0);
    for (name, entries) in [("ended", entries), ("killed", entries + 1)] {
        let done = as_a_user(&shell, &["audit", "--data", name]);
        let told = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() && told.contains(&format!("Audited {entries} entries")), "{name}: {done:?}");
        let replayed = as_a_user(&shell, &["replay", "--data", name]);
        assert!(replayed.status.success(), "{name}: {replayed:?}");
        fs::set_permissions(shell.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
}
