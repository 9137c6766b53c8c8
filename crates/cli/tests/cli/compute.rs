//! `credence compute` against values computed independently.

use serde_json::{Value, json};

use crate::{Shell, project_root};

const TOLERANCE: f64 = 1e-9;

#[test]
fn universal_vectors() {
    let path = project_root().join("testdata/models.json");
    let vectors: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let shell = Shell::new();
    for (n, case) in vectors["universal"].as_array().unwrap().iter().enumerate() {
        let ran = shell.run_with(&["compute", "universal"], &case["input"].to_string());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let actual: Value = serde_json::from_str(&ran.stdout).unwrap();
        for (field, expected) in case["output"].as_object().unwrap() {
            let same = match (expected.as_f64(), actual[field].as_f64()) {
                (Some(expected), Some(actual)) => (expected - actual).abs() <= TOLERANCE,
                _ => *expected == actual[field],
            };
            assert!(same, "case {n}, {field}: {} ≠ {expected}", actual[field]);
        }
    }
}

#[test]
fn bad_input_is_named() {
    let shell = Shell::new();
    let signal = |field: &str, value: Value| {
        let mut signal = json!({"source": "a", "tag": "rel_uptime", "value": 1, "stddev": 1, "weight": 1});
        signal[field] = value;
        json!({"signals": [signal]}).to_string()
    };
    for (input, what) in [
        (signal("value", json!(100.1)), "value 100.1"),
        (signal("stddev", json!(51)), "stddev 51"),
        (signal("weight", json!(-1)), "weight -1"),
        (signal("wieght", json!(1)), "unknown field `wieght`"),
        (signal("value", json!("1")), "invalid type"),
        ("{\"signals\":[".to_owned(), "EOF"),
        ("{\"signals\":[],\"signals\":[]}".to_owned(), "duplicate field"),
        (String::new(), "EOF"),
    ] {
        let ran = shell.run_with(&["compute", "universal"], &input);
        assert!(ran.code == Some(1) && ran.stderr.contains(what), "{input}: {ran:?}");
    }
}
