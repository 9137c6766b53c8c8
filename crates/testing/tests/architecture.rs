//! The house as it is drawn: which crate may see which, what those for embedding stay free of, how long a file may be.
#![allow(clippy::unwrap_used, missing_docs, reason = "helpers of tests: a failing unwrap is how a test says no")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use credence_testing::project_root;
use toml::{Table, Value};

/// Every crate, and the crates of ours that it may depend on. A crate stands below all that it sees, so arrows point one way.
/// Those that are not written yet stand here too: their place is decided.
const ARROWS: &[(&str, &[&str])] = &[
    ("protocol", &[]),
    ("verify", &["protocol"]),
    ("engine", &["protocol"]),
    ("ledger", &["protocol"]),
    ("receipts", &["protocol", "verify", "engine", "ledger"]),
    ("output", &["protocol", "engine"]),
    ("egress", &["protocol"]),
    ("sandbox", &["protocol", "verify", "engine", "egress"]),
    ("ingest", &["protocol", "engine", "egress"]),
    ("chain", &["protocol", "engine", "output", "egress"]),
    ("pipeline", &["protocol", "verify", "engine", "ledger", "receipts", "output"]),
    ("reports", &["protocol", "engine", "ledger", "output", "pipeline"]),
    ("clients", &["protocol"]),
    ("guard", &["protocol", "verify", "engine", "ledger", "receipts", "egress", "clients"]),
    ("charts", &[]),
    (
        "server",
        &[
            "protocol", "verify", "engine", "ledger", "receipts", "output", "egress", "sandbox", "ingest", "chain",
            "pipeline", "reports", "charts",
        ],
    ),
    (
        "demo",
        &[
            "protocol", "verify", "engine", "ledger", "receipts", "output", "egress", "sandbox", "ingest", "pipeline",
            "charts", "server",
        ],
    ),
    (
        "cli",
        &[
            "protocol", "verify", "engine", "ledger", "receipts", "output", "egress", "sandbox", "ingest", "chain",
            "pipeline", "reports", "clients", "guard", "charts", "server", "demo",
        ],
    ),
    ("python", &["protocol", "verify", "engine", "ledger", "receipts", "output", "egress", "clients", "guard"]),
    // Seen by tests alone.
    (TESTING, &["protocol"]),
];

/// What every crate may take for its tests.
const TESTING: &str = "testing";

/// Libraries that other people's programs embed, and what they are free of: a runtime, a database, a network, a logging framework.
const EMBEDDED: [&str; 3] = ["protocol", "verify", "engine"];
const TOO_HEAVY: [&str; 8] = ["tokio", "rusqlite", "reqwest", "hyper", "axum", "tracing", "log", "opentelemetry"];

/// Lines of a file outside of tests.
const MOST_LINES: usize = 600;

/// The manifests, by the crate's folder.
fn manifests() -> BTreeMap<String, Table> {
    let folders = fs::read_dir(project_root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let folders = folders.chain([project_root().join("python")]);
    let with_manifest = folders.filter(|folder| folder.join("Cargo.toml").is_file());
    with_manifest
        .map(|folder| {
            let text = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            (folder.file_name().unwrap().to_str().unwrap().to_owned(), text.parse().unwrap())
        })
        .collect()
}

/// The names in a section, such as `dependencies`, also where it is for some systems alone.
fn listed(manifest: &Table, section: &str) -> Vec<String> {
    let of = |table: &Table| table.get(section).and_then(Value::as_table).cloned().unwrap_or_default();
    let targets = manifest.get("target").and_then(Value::as_table).cloned().unwrap_or_default();
    let for_some = targets.values().filter_map(Value::as_table).flat_map(of);
    // A dependency may go by another name in the code.
    let name = |(name, value): (String, Value)| match value.get("package").and_then(Value::as_str) {
        Some(package) => package.to_owned(),
        None => name,
    };
    of(manifest).into_iter().chain(for_some).map(name).collect()
}

fn ours(manifest: &Table, section: &str) -> Vec<String> {
    listed(manifest, section).iter().filter_map(|name| name.strip_prefix("credence-").map(str::to_owned)).collect()
}

#[test]
fn crates_depend_only_on_those_above_them() {
    for (n, (name, allowed)) in ARROWS.iter().enumerate() {
        let above = |other: &&str| ARROWS[..n].iter().any(|(name, _)| name == other);
        assert!(allowed.iter().all(above), "{name}: an arrow would point down");
    }
    let manifests = manifests();
    assert!(manifests.len() >= 10, "{:?}", manifests.keys());
    for (name, manifest) in &manifests {
        assert_eq!(manifest["package"]["name"].as_str(), Some(format!("credence-{name}").as_str()));
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| known == name) else {
            panic!(
                "crates/{name} has no place in the house yet: decide what it may see, here and in docs/architecture.md"
            );
        };
        for section in ["dependencies", "build-dependencies", "dev-dependencies"] {
            for other in ours(manifest, section) {
                // Its tests may see itself: with the feature that holds its test helpers.
                let for_tests = section == "dev-dependencies" && (other == TESTING || other == *name);
                let fits = allowed.contains(&other.as_str()) || for_tests;
                assert!(fits, "crates/{name} may not depend on {other} ({section})");
            }
        }
    }
}

#[test]
fn what_is_embedded_is_light() {
    let manifests = manifests();
    for name in EMBEDDED {
        for other in listed(&manifests[name], "dependencies") {
            assert!(!TOO_HEAVY.contains(&other.as_str()), "crates/{name} is for embedding and may not need {other}");
        }
    }
}

/// All Rust files below `folder` but those of tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.file_stem().is_some_and(|stem| stem == "tests" || stem == "target") {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_file_is_too_long() {
    let mut files = Vec::new();
    for folder in ["crates", "fuzz", "python"] {
        sources(&project_root().join(folder), &mut files);
    }
    assert!(files.len() > 200, "{}", files.len());
    let lines = |file: &PathBuf| fs::read_to_string(file).unwrap().lines().count();
    let long: Vec<String> = files
        .iter()
        .filter(|file| lines(file) > MOST_LINES)
        .map(|file| format!("{} has {} lines", file.display(), lines(file)))
        .collect();
    assert!(long.is_empty(), "above {MOST_LINES} lines: look for the second idea in it:\n{}", long.join("\n"));
}

/// Functions of other modules than `query` that may be given a view: what they make is more than what is read.
const NOT_READS: &[&str] = &[
    "audit::audit",
    "replay::replay",
    // A signed document.
    "credentials::status_list",
    // The health of the service itself.
    "derive::unusable",
    "integrity::check",
    "times::last_recorded",
];

/// What a crate's sources say of tables: calls of `pipeline` with a view that are not of `query`, and reads past it.
fn reads_past_query(text: &str, modules: &[String]) -> Vec<String> {
    let mut found: Vec<String> = ["credence_ledger::Table", "Scan::", ".get_many(", ".scan(", "put_many("]
        .into_iter()
        .filter(|forbidden| text.contains(forbidden))
        .map(str::to_owned)
        .collect();
    for module in modules {
        for (at, _) in text.match_indices(&format!("{module}::")) {
            let word = |c: char| c.is_alphanumeric() || c == '_';
            if text[..at].ends_with(word) {
                continue;
            }
            let name: String = text[at + module.len() + 2..].chars().take_while(|c| word(*c)).collect();
            let called = format!("{module}::{name}");
            let rest = &text[at + called.len()..];
            let argument = rest.strip_prefix('(').map(|rest| rest.trim_start().trim_start_matches(['&', '*']));
            let first = argument.and_then(|argument| argument.split(',').next()).unwrap_or_default();
            if (first.starts_with("view") || first.contains(".view()?")) && !NOT_READS.contains(&called.as_str()) {
                found.push(called);
            }
        }
    }
    found
}

#[test]
fn tables_are_opened_in_one_room() {
    let lib = fs::read_to_string(project_root().join("crates/pipeline/src/lib.rs")).unwrap();
    let modules: Vec<String> = lib
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'))
        .filter(|module| *module != "query")
        .map(str::to_owned)
        .collect();
    assert!(modules.len() > 10, "{modules:?}");
    assert!(!lib.contains("pub mod tables"), "the tables are seen by `pipeline` alone");
    let mut files = Vec::new();
    for name in ["server", "cli", "demo"] {
        sources(&project_root().join("crates").join(name).join("src"), &mut files);
    }
    let wrong: Vec<String> = files
        .iter()
        .flat_map(|file| {
            let found = reads_past_query(&fs::read_to_string(file).unwrap(), &modules);
            found.into_iter().map(move |what| format!("{}: {what}", file.display()))
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "what is read for a person or an answer goes through `pipeline::query`:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn a_read_past_query_is_found() {
    let modules = ["summaries".to_owned(), "credentials".to_owned()];
    let found = |text| reads_past_query(text, &modules);
    assert_eq!(found("let s = summaries::stats(&*view, agent)?;"), ["summaries::stats"]);
    assert_eq!(found("summaries::stats(&*authority.ledger().view()?, agent)"), ["summaries::stats"]);
    assert_eq!(found("view.scan(T, Scan::all(), f)"), ["Scan::", ".scan("]);
    assert_eq!(
        found(
            "query::stats(view); credentials::status_list(view, o); my_summaries::x(view); credentials::Office::new(url)"
        ),
        [""; 0]
    );
}
