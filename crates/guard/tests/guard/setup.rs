//! `credence guard install`: the servers of a client under guards, and back.

use std::{fs, os::unix::fs::PermissionsExt};

use credence_testing::{Shell, binary};
use serde_json::Value;

const CONFIG: &str = "{\n  // my servers\n  \"mcpServers\": {\n    \"files\": { \"command\": \"npx\", \"args\": [\"-y\", \"server-files\", \"/tmp\"], \"env\": {\"A\": \"1\"} },\n    \"far\": { \"url\": \"https://example.org/mcp\" },\n  }\n}\n";

#[test]
fn install_and_uninstall_leave_no_trace() {
    let shell = Shell::new();
    let config = shell.path("mcp.json");
    fs::write(&config, CONFIG).unwrap();
    let file = config.to_str().unwrap();
    let shown = shell.ok(&["guard", "install", "--client", "cursor", "--config", file, "--dry-run"]);
    assert!(shown.contains("+") && shown.contains("guard") && shown.contains("would run under a guard"), "{shown}");
    assert_eq!(fs::read_to_string(&config).unwrap(), CONFIG, "nothing was written");

    let told = shell.json(&["guard", "install", "--client", "cursor", "--config", file]);
    assert_eq!(told["files"][0]["changed"], true, "{told}");
    let text = fs::read_to_string(&config).unwrap();
    assert!(text.contains("// my servers") && text.contains("\"env\": {\"A\": \"1\"}"), "{text}");
    let strict: String = text.lines().filter(|line| !line.trim().starts_with("//")).collect();
    let value: Value = serde_json::from_str(&strict.replace(",  }", "}")).unwrap_or_else(|e| panic!("{e}: {strict}"));
    let server = &value["mcpServers"]["files"];
    assert_eq!(server["command"], binary());
    let args: Vec<&str> = server["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
    assert_eq!(args, ["guard", "--name", "files", "--", "npx", "-y", "server-files", "/tmp"]);
    let backup = told["files"][0]["backup"].as_str().unwrap();
    assert_eq!(fs::read_to_string(backup).unwrap(), CONFIG);

    // Again is as good as once; and back.
    assert_eq!(shell.json(&["guard", "install", "--client", "cursor", "--config", file])["files"][0]["changed"], false);
    shell.ok(&["guard", "uninstall", "--client", "cursor", "--config", file]);
    assert_eq!(fs::read_to_string(&config).unwrap(), CONFIG);
}

#[test]
fn what_cannot_be_installed_says_why() {
    let shell = Shell::new();
    shell.fails(&["guard", "install", "--client", "cursor", "--config", "missing.json"], "missing.json");
    fs::write(shell.path("bad.json"), "{\"mcpServers\": [").unwrap();
    shell.fails(&["guard", "install", "--client", "cursor", "--config", "bad.json"], "bad.json:1:");
    let ran = shell.run(&["guard", "install", "--client", "nobody"]);
    assert_eq!(ran.code, Some(64), "{ran:?}");
    assert!(ran.stderr.contains("claude-desktop"), "{ran:?}");
    fs::write(shell.path("mcp.json"), CONFIG).unwrap();
    let bogus = ["guard", "install", "--client", "cursor", "--config", "mcp.json", "--", "--mode", "bogus"];
    shell.fails(&bogus, "would not start");
    shell.fails(&["guard", "--state", "state"], "what should be guarded?");
    shell.fails(&["guard", "--state", "state", "--", "no-such-program-anywhere"], "no-such-program-anywhere");
    shell.fails(&["receipts", "list", "--state", "nowhere"], "no guard has run yet");
}

/// A file that may not be written is named, and the others of the client are guarded all the same.
#[test]
fn a_file_that_cannot_be_written_does_not_keep_the_others_from_being_guarded() {
    let shell = Shell::new();
    let folder = shell.path(".continue/mcpServers");
    fs::create_dir_all(&folder).unwrap();
    let server = |name: &str| format!("mcpServers:\n  - name: {name}\n    command: npx\n    args: [server-{name}]\n");
    for name in ["a", "b", "c"] {
        fs::write(folder.join(format!("{name}.yaml")), server(name)).unwrap();
    }
    fs::set_permissions(folder.join("a.yaml"), fs::Permissions::from_mode(0o444)).unwrap();
    let mut command = shell.command(&["guard", "install", "--client", "continue", "--json"]);
    let ran = command.env("HOME", shell.folder.path()).output().unwrap();
    assert_eq!(ran.status.code(), Some(2), "{ran:?}");
    let told: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let files = told["files"].as_array().unwrap();
    let of = |name: &str| files.iter().find(|one| one["file"].as_str().unwrap().ends_with(name)).unwrap();
    assert!(of("a.yaml")["error"].as_str().unwrap().contains("a.yaml"), "{told}");
    assert_eq!(fs::read_to_string(folder.join("a.yaml")).unwrap(), server("a"));
    for name in ["b.yaml", "c.yaml"] {
        assert_eq!(of(name)["changed"], true, "{told}");
        assert!(fs::read_to_string(folder.join(name)).unwrap().contains("--name"));
    }
}
