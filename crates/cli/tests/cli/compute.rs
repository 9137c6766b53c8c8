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
fn assured_vectors() {
    let shell = Shell::new();
    let all: Value = serde_json::from_slice(&std::fs::read("../../testdata/uts2.json").unwrap()).unwrap();
    let cases = all["vectors"].as_array().unwrap();
    assert!(cases.len() >= 20);
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let ran = shell.run_with(&["compute", "assured"], &json!({"signals": case["input"]}).to_string());
        assert_eq!(ran.code, Some(0), "{name}: {ran:?}");
        let actual: Value = serde_json::from_str(&ran.stdout).unwrap();
        let close = |actual: &Value, expected: &Value| match (actual.as_f64(), expected.as_f64()) {
            (Some(actual), Some(expected)) => (actual - expected).abs() <= TOLERANCE,
            _ => actual == expected,
        };
        for (field, expected) in case["output"].as_object().unwrap().iter().filter(|(field, _)| *field != "dimensions")
        {
            assert!(close(&actual[field], expected), "{name}, {field}: {} ≠ {expected}", actual[field]);
        }
        let dimensions = case["output"]["dimensions"].as_object().unwrap();
        assert_eq!(actual["dimensions"].as_object().unwrap().len(), dimensions.len(), "{name}");
        for (dimension, expected) in dimensions {
            for (field, theirs) in [("estimate", "theta"), ("sd", "sd"), ("known", "Z"), ("n_eff", "n_eff")] {
                let actual = &actual["dimensions"][dimension][field];
                assert!(
                    close(actual, &expected[theirs]),
                    "{name}, {dimension}.{field}: {actual} ≠ {}",
                    expected[theirs]
                );
            }
        }
        let steps = actual["steps"].as_array().unwrap();
        let sum: f64 = steps.iter().map(|step| step["value"].as_f64().unwrap()).fold(0.0, |sum, value| sum + value);
        assert_eq!(sum, actual["score"].as_f64().unwrap(), "{name}: the steps add up");
    }
    let uncounted = json!({"signals": [{"source": "a", "tag": "output_coverage", "value": 90}, {"source": "a", "tag": "no_such", "value": 9}]});
    let ran = shell.run_with(&["compute", "assured"], &uncounted.to_string());
    let actual: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        (&actual["status"], &actual["not_counted"]),
        (&json!("unrated"), &json!(["no_such", "output_coverage"]))
    );
}

#[test]
fn sources_of_one_owner_or_root_count_once() {
    let shell = Shell::new();
    let scored = |model: &str, owner: Value, roots: [Value; 2]| {
        let signal = |source: &str, roots: &Value| json!({"source": source, "owner": owner, "roots": roots, "tag": "rel_uptime", "value": 90, "stddev": 1, "weight": 1});
        let input = json!({"signals": [signal("a", &roots[0]), signal("b", &roots[1])]});
        let ran = shell.run_with(&["compute", model], &input.to_string());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        serde_json::from_str::<Value>(&ran.stdout).unwrap()
    };
    let sources = |owner: Value, roots| scored("universal", owner, roots)["sources"].clone();
    let (none, base, all) = (json!([]), json!(["erc8004:eip155:8453"]), json!(["erc8004"]));
    assert_eq!(sources(Value::Null, [none.clone(), none.clone()]), 2);
    assert_eq!(sources(json!("one"), [none.clone(), none.clone()]), 1);
    assert_eq!(sources(Value::Null, [base.clone(), all.clone()]), 1);
    assert_eq!(sources(Value::Null, [base.clone(), json!(["erc8004:eip155:1"])]), 2);
    let n_eff = |roots| scored("assured", Value::Null, roots)["n_eff"].as_f64().unwrap();
    assert!((n_eff([base.clone(), all]) - 1.0).abs() < 1e-9 && (n_eff([base, none]) - 2.0).abs() < 1e-9);
}

#[test]
fn bad_input_of_the_assured_score_is_named() {
    let shell = Shell::new();
    let signal = |field: &str, value: Value| {
        let mut signal = json!({"source": "a", "tag": "rel_uptime", "value": 1, "stddev": 1, "weight": 1});
        signal[field] = value;
        json!({"signals": [signal]}).to_string()
    };
    let other_owner = json!({"signals": [
        {"source": "a", "owner": "x", "tag": "rel_uptime", "value": 1}, {"source": "a", "owner": "y", "tag": "rel_latency_p95", "value": 1},
    ]});
    for (input, what) in [
        (signal("age_days", json!(-0.5)), "age_days -0.5 is below 0"),
        (signal("value", json!(101)), "value 101"),
        (signal("stddev", json!(50.5)), "stddev 50.5"),
        (signal("weight", json!(-1)), "weight -1"),
        (signal("roots", json!(["erc8004::1"])), "'erc8004::1' is not a root"),
        (signal("roots", json!(["no name"])), "'no name' is not a root"),
        (signal("owner", json!("a b")), "'a b' is not an entity id"),
        (signal("age", json!(1)), "unknown field `age`"),
        (json!({"signals": [], "formula": "uts/7"}).to_string(), "unknown formula 'uts/7'"),
        (json!({"signals": [], "parameters": "sha256:00"}).to_string(), "unknown parameters sha256:00"),
        (other_owner.to_string(), "signal 1: source 'a' has another owner"),
    ] {
        let ran = shell.run_with(&["compute", "assured"], &input);
        assert!(ran.code == Some(1) && ran.stdout.is_empty() && ran.stderr.contains(what), "{input}: {ran:?}");
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
