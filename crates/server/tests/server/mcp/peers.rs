//! The official SDKs as clients, where `scripts/peers` installed them. With PEER_TESTS set they must be there.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use credence_testing::{
    Service, Shell, binary,
    peers::{installed, program},
};
use serde_json::{Value, json};

use super::with_shop;

/// The clients: the program, and its first arguments.
fn clients(peers: &Path) -> Vec<(&'static str, PathBuf, Vec<String>)> {
    let program = |name: &str| program(name).display().to_string();
    let (python, node) = (program("authority_client.py"), program("authority-client.mjs"));
    vec![
        ("python 2, by itself", peers.join("py2/bin/python"), vec![python.clone()]),
        ("python 2, 2026-07-28", peers.join("py2/bin/python"), vec![python.clone(), "--modern".into()]),
        ("python 2, handshake", peers.join("py2/bin/python"), vec![python, "--legacy".into()]),
        ("typescript 1", "node".into(), vec![node.clone(), "--sdk1".into()]),
        ("typescript 2, by itself", "node".into(), vec![node.clone()]),
        ("typescript 2, 2026-07-28", "node".into(), vec![node.clone(), "--modern".into()]),
        ("typescript 2, handshake", "node".into(), vec![node, "--legacy".into()]),
    ]
}

fn run(shell: &Shell, name: &str, program: &Path, args: &[String]) -> Value {
    let mut command = Command::new(program);
    command.args(args).current_dir(shell.folder.path()).env("NO_PROXY", "*").env("no_proxy", "*");
    let ran = command.output().unwrap_or_else(|e| panic!("{name}: {e}"));
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{name}: {out}{err}");
    serde_json::from_str(&out).unwrap_or_else(|e| panic!("{name}: {e}: {out}{err}"))
}

fn understood(name: &str, said: &Value) {
    let version = said["version"].as_str().unwrap();
    if name.ends_with("2026-07-28") || name.ends_with("by itself") {
        assert_eq!(version, "2026-07-28", "{name}");
    } else {
        assert!(version.starts_with("2025-"), "{name}: {version}");
    }
    // A client that knows the version it wants need not ask who answers.
    if !name.ends_with("2026-07-28") {
        assert_eq!(said["server"]["name"], "credence", "{name}: {said}");
        assert!(said["instructions"].as_str().unwrap().contains("check_trust"), "{name}");
    }
    let tools = said["tools"].as_array().unwrap();
    assert_eq!((tools.len(), &tools[0]), (7, &json!("check_trust")), "{name}");
    assert!(said["text"].as_str().unwrap().contains("with 'shop': "), "{name}: {said}");
    assert_eq!(said["structured"]["response"]["meta"]["entityId"], "shop", "{name}: {said}");
    assert_eq!(said["score"]["sources"], 3, "{name}: {said}");
    assert_eq!((&said["templates"], &said["resources"]), (&json!(2), &json!(1)), "{name}: {said}");
    assert_eq!(said["refused"]["isError"], true, "{name}: {said}");
    assert!(said["refused"]["text"].as_str().unwrap().contains("did you mean shop?"), "{name}: {said}");
    assert!(said["missing"].as_str().unwrap().contains("nobody"), "{name}: {said}");
    assert_eq!(said["verdict"], "accept", "{name}: {said}");
}

#[test]
fn official_clients_over_standard_input_and_output() {
    let Some(peers) = installed() else { return };
    let shell = with_shop();
    for (name, program, mut args) in clients(&peers) {
        args.extend(["--stdio", binary(), "mcp"].map(str::to_owned));
        understood(name, &run(&shell, name, &program, &args));
    }
    shell.audit_passes();
}

#[test]
fn official_clients_over_http() {
    let Some(peers) = installed() else { return };
    let service = Service::fresh(&[]);
    service.add_shop();
    let token = service.token("verify");
    for (name, program, mut args) in clients(&peers) {
        args.extend(["--token".to_owned(), token.clone(), "--url".to_owned(), format!("{}/mcp", service.url)]);
        understood(name, &run(&service.shell, name, &program, &args));
    }
}
