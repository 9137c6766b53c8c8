//! `testdata/models.json`: values computed independently of this code.

use credence_engine::universal::{self, Weighted};
use serde_json::Value;

const TOLERANCE: f64 = 1e-9;

#[test]
fn universal() {
    // Relative to the crate, where tests run: a path compiled in would outlive a move of the checkout.
    let path = "../../testdata/models.json";
    let vectors: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let cases = vectors["universal"].as_array().unwrap();
    assert!(cases.len() >= 5);
    for (n, case) in cases.iter().enumerate() {
        let signals: Vec<_> = case["input"]["signals"]
            .as_array()
            .unwrap()
            .iter()
            .map(|s| Weighted {
                source: s["source"].as_str().unwrap(),
                value: s["value"].as_f64().unwrap(),
                stddev: s["stddev"].as_f64().unwrap(),
                weight: s["weight"].as_f64().unwrap(),
            })
            .collect();
        let outcome = universal::score(&signals, universal::DEFAULT_COVERAGE_FLOOR).unwrap();
        let actual = serde_json::to_value(outcome).unwrap();
        for (field, expected) in case["output"].as_object().unwrap() {
            match expected {
                Value::Number(expected) if expected.is_f64() => {
                    let (actual, expected) = (actual[field].as_f64().unwrap(), expected.as_f64().unwrap());
                    assert!((actual - expected).abs() <= TOLERANCE, "case {n}, {field}: {actual} ≠ {expected}");
                }
                expected => assert_eq!(&actual[field], expected, "case {n}, {field}"),
            }
        }
    }
}
