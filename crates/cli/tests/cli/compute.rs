//! `credence compute` against values computed independently.

use credence_testing::{Ran, Shell, project_root};
use serde_json::{Value, json};

const TOLERANCE: f64 = 1e-9;

fn vectors(model: &str) -> Vec<Value> {
    let path = project_root().join("testdata/models.json");
    let vectors: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    vectors[model].as_array().unwrap().clone()
}

#[test]
fn posterior_vectors() {
    let shell = Shell::new();
    for case in vectors("posterior") {
        let ran = shell.run_with(&["compute", "posterior"], &case["input"].to_string());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let actual: Value = serde_json::from_str(&ran.stdout).unwrap();
        let (actual, verdict) = (actual["posterior"].as_f64().unwrap(), actual["verdict"].as_str().unwrap());
        assert!((actual - case["posterior"].as_f64().unwrap()).abs() <= TOLERANCE, "{case}");
        let expected = if actual >= 0.5 {
            "block"
        } else if actual >= 0.2 {
            "flag"
        } else {
            "accept"
        };
        assert_eq!(verdict, expected, "{case}");
    }
    for (input, what) in [
        (r#"{"prior":1,"signals":[]}"#, "prior 1"),
        (r#"{"prior":0.1,"signals":[{"name":"x","fired":true,"score":2,"likelihood_ratio":3}]}"#, "score 2"),
        (r#"{"prior":0.1,"signals":[{"name":"x","fired":true,"score":1,"likelihood_ratio":0}]}"#, "likelihood_ratio 0"),
        (r#"{"prior":0.1,"signals":[{"name":"x","fired":true,"score":1}]}"#, "likelihood_ratio"),
    ] {
        let ran = shell.run_with(&["compute", "posterior"], input);
        assert!(ran.code == Some(1) && ran.stderr.contains(what), "{input}: {ran:?}");
    }
}

#[test]
fn verify_judges_each_line_in_order() {
    let shell = Shell::new();
    let profiles = "[get_weather]\nexpected_latency_ms = [100, 5000]\nrequired_fields = ['temperature', 'humidity']\n";
    std::fs::write(shell.path("profiles.toml"), profiles).unwrap();
    let good = json!({"tool": "get_weather", "args": {"city": "London"}, "result": {"temperature": 18, "humidity": 65},
        "execution_time_ms": 350.0, "agent": "bot", "stake": "high", "at": "2026-01-01T00:00:00Z", "id": 7, "other": 1});
    let deep = format!("{{\"tool\":\"t\",\"result\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
    let lines = [
        good.to_string(),
        "not JSON".to_owned(),
        json!({"tool": "get_weather", "result": "made up", "execution_time_ms": 0.1}).to_string(),
        json!({"tool": "", "result": 1}).to_string(),
        json!({"tool": "t", "result": 1, "execution_time_ms": -1}).to_string(),
        "{\"tool\":\"t\",\"result\":1e400}".to_owned(),
        deep,
        format!("{{\"tool\":\"t\",\"result\":\"{}\"}}", "x".repeat(20_000_000)),
        json!({"tool": "t", "result": 1}).to_string(),
    ];
    let ran = shell.run_with(&["verify", "--mode", "fixed", "--profiles", "profiles.toml"], &lines.join("\n"));
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
    let out: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(out.len(), lines.len());
    assert!((out[0]["posterior"].as_f64().unwrap() - 0.127_097_102_186_070_15).abs() < 1e-12);
    for (field, value) in [
        ("verdict", json!("accept")),
        ("tier", json!(1)),
        ("id", json!(7)),
        ("agent", json!("bot")),
        ("stake", json!("high")),
        ("at", json!("2026-01-01T00:00:00Z")),
    ] {
        assert_eq!(out[0][field], value, "{field}");
    }
    assert_eq!((&out[2]["verdict"], &out[2]["tier"]), (&json!("block"), &json!(0)));
    for bad in [1, 3, 4, 5, 6, 7] {
        assert!(out[bad]["error"].is_string() && out[bad]["line"] == bad + 1, "{:.200}", out[bad]);
    }
    assert_eq!(out[8]["verdict"], "accept");
    std::fs::write(shell.path("profiles.toml"), "[t]\nresponse_patterns = ['(']\n").unwrap();
    shell.fails(&["verify", "--profiles", "profiles.toml"], "tool 't'");
}

#[test]
fn universal_vectors() {
    let shell = Shell::new();
    for (n, case) in vectors("universal").iter().enumerate() {
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

#[test]
fn verify_goes_on_where_it_left_off() {
    let shell = Shell::new();
    let line = |price: u32| json!({"tool": "t", "args": {"x": 1}, "result": {"price": price}}).to_string() + "\n";
    let first: String = (0..20).map(|n| line(650 + n % 3)).collect();
    assert_eq!(shell.run_with(&["verify", "--state", "state"], &first).code, Some(0));
    let fired = |ran: Ran| {
        let verdict: Value = serde_json::from_str(&ran.stdout).unwrap();
        verdict["signals"]["historical_inconsistency"]["fired"].clone()
    };
    assert_eq!(fired(shell.run_with(&["verify", "--state", "state"], &line(50))), true);
    assert_eq!(fired(shell.run_with(&["verify"], &line(50))), Value::Null, "without its history nothing can be said");
    std::fs::write(shell.path("state"), "nonsense").unwrap();
    shell.fails(&["verify", "--state", "state"], "not a snapshot");
}
