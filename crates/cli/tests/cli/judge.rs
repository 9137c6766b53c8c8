//! `verify`, `learn`, `evaluate` and `calibrate`, from outside.

use std::fmt::Write as _;

use credence_testing::Shell;
use serde_json::{Value, json};

fn words(command: &str) -> Vec<&str> {
    command.split_whitespace().collect()
}

fn write(shell: &Shell, name: &str, text: &str) {
    std::fs::write(shell.path(name), text).unwrap();
}

fn read(shell: &Shell, name: &str) -> String {
    std::fs::read_to_string(shell.path(name)).unwrap()
}

/// Genuine traces of two tools, and made-up results of the first where `labelled`.
fn traces(count: usize, labelled: bool) -> String {
    let mut lines = String::new();
    for n in 0..count {
        let mut order = json!({"tool": "get_order", "args": {"id": n}, "execution_time_ms": 80 + n % 40, "session_id": format!("s{}", n / 4),
            "result": {"id": n, "status": if n % 2 == 0 { "open" } else { "paid" }, "lines": [{"sku": format!("A-{}", 100 + n), "price": 10.5 + (n % 9) as f64}]}});
        let weather =
            json!({"tool": "get_weather", "args": {"city": format!("c{}", n % 5)}, "result": {"celsius": n % 30}});
        if labelled && n >= count / 4 {
            let mut made = order.clone();
            made["label"] = json!(1);
            made["learn"] = json!(false);
            made["result"] = json!({"id": n, "state": "fine"});
            writeln!(lines, "{made}").unwrap();
            order["label"] = json!(0);
        }
        writeln!(lines, "{order}\n{weather}").unwrap();
    }
    lines
}

#[test]
fn learned_profiles_are_read_by_verify() {
    let shell = Shell::new();
    write(&shell, "traces.jsonl", &traces(40, true));
    let said = shell.ok(&words("learn traces.jsonl --out profiles.toml"));
    assert!(said.contains("get_order: 40 results"), "made-up results are no examples: {said}");
    let text = read(&shell, "profiles.toml");
    assert!(text.contains("lines[].sku") && text.contains("# 40 results"), "{text}");
    write(&shell, "bad.jsonl", r#"{"tool":"get_order","result":{"id":1}}"#);
    for mode in ["fixed", "adaptive"] {
        let verdict: Value = shell.json(&words(&format!("verify bad.jsonl --mode {mode} --profiles profiles.toml")));
        assert_eq!(verdict["signals"]["schema_mismatch"]["fired"], true, "{verdict}");
    }
    // Without --out the profiles themselves are printed.
    assert!(shell.ok(&words("learn traces.jsonl")).contains("required_fields"));
}

#[test]
fn an_evaluation_has_figures_and_a_page_that_needs_nothing_else() {
    let shell = Shell::new();
    write(&shell, "traces.jsonl", &traces(60, false));
    let figures: Value = shell.json(&words("evaluate traces.jsonl --html page.html --plot roc.svg"));
    assert_eq!(figures["genuine"], 60);
    assert!(figures["auroc"].as_f64().unwrap() > 0.9, "{figures}");
    let kinds = figures["kinds"].as_object().unwrap();
    assert!(kinds.len() >= 12, "{figures}");
    for kind in kinds.values() {
        for figure in ["auroc", "recall_at_1pct", "ece", "flagged", "blocked"] {
            assert!((0.0..=1.0).contains(&kind[figure].as_f64().unwrap()), "{figures}");
        }
    }
    let page = read(&shell, "page.html");
    assert!(page.matches("<svg").count() == 2 && page.contains("Reliability"), "{page}");
    assert!(!page.contains("http") && !page.contains("<script"), "it must stand alone");
    let roc = read(&shell, "roc.svg");
    assert!(
        roc.contains("xmlns=") && roc.contains("True positive rate") && kinds.keys().any(|kind| roc.contains(kind)),
        "{roc}"
    );
    assert_eq!(figures, shell.json(&words("evaluate traces.jsonl")), "the seed decides what is made up");
}

#[test]
fn a_calibration_is_fitted_and_read_by_verify() {
    let shell = Shell::new();
    write(&shell, "labelled.jsonl", &traces(120, true));
    for mode in ["fixed", "adaptive"] {
        let done: Value = shell.json(&words(&format!("calibrate labelled.jsonl --mode {mode} --out {mode}.toml")));
        let all = &done["measured"][0];
        let brier = |when: &str| all[when]["brier"].as_f64().unwrap();
        assert!(brier("after") <= brier("before") + 1e-3, "{mode}: {all}");
        assert!(all["after"]["genuine_blocked"].as_f64().unwrap() <= 0.05, "{mode}: {all}");
        assert_eq!(done["tools_without_enough_labels"], 0, "the other tool has no labels at all: {done}");
        write(&shell, "one.jsonl", r#"{"tool":"get_order","result":{"id":1}}"#);
        let verdict: Value = shell.json(&words(&format!("verify one.jsonl --mode {mode} --calibration {mode}.toml")));
        let prior = done["calibration"]["tools"]["get_order"]["prior"].as_f64().unwrap_or(0.15);
        assert_eq!(verdict["prior"].as_f64().unwrap(), prior);
    }
}

#[test]
fn what_cannot_be_used_is_named() {
    let shell = Shell::new();
    write(&shell, "empty.jsonl", "\n\n");
    write(&shell, "broken.jsonl", "{\"tool\":\"t\",\"result\":1}\n{\"tool\":");
    write(&shell, "label.jsonl", r#"{"tool":"t","result":1,"label":"maybe"}"#);
    write(&shell, "few.jsonl", r#"{"tool":"t","result":1,"label":0}"#);
    write(&shell, "wrong.toml", "[all]\npriro = 0.1\n");
    write(&shell, "impossible.toml", "[all]\nprior = 1.5\n");
    for (command, named) in [
        ("learn empty.jsonl", "no traces"),
        ("learn broken.jsonl", "line 2"),
        ("evaluate few.jsonl", "too few traces"),
        ("evaluate label.jsonl", "neither 0"),
        ("calibrate few.jsonl", "no tool has"),
        ("verify few.jsonl --calibration wrong.toml", "priro"),
        ("verify few.jsonl --calibration impossible.toml", "prior 1.5"),
        ("learn nowhere.jsonl", "nowhere.jsonl"),
    ] {
        shell.fails(&words(command), named);
    }
}
