//! `testdata/models.json`: values computed independently of this code.
#![allow(clippy::unwrap_used, reason = "helpers of tests: a failing unwrap is how a test says no")]

use credence_engine::{
    hcs25::{
        Profile,
        output_verification::{Parameters, Report, Summary},
    },
    reputation::{self, Factors, Tier},
    universal::{self, Weighted},
};
use serde_json::{Value, json};

const TOLERANCE: f64 = 1e-9;

#[test]
fn universal() {
    let cases = cases("universal");
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
        agree(&actual, &case["output"], n);
    }
}

#[test]
fn output_verification() {
    for (n, case) in cases("output_verification_spec").iter().enumerate() {
        let actual = match Summary::from_value(&case["input"], 10).unwrap() {
            Report::Applicable(summary) => {
                let mut actual = json!(Parameters::default().evaluate(&summary, Profile::Spec));
                actual["applicable"] = true.into();
                actual
            }
            _ => json!({ "applicable": false }),
        };
        agree(&actual, &case["output"], n);
    }
}

#[test]
fn reputation() {
    for (n, case) in cases("reputation").iter().enumerate() {
        let factors: Factors = serde_json::from_value(case["input"].clone()).unwrap();
        let parameters = reputation::Parameters::default();
        let score = parameters.update(factors.raw(), case["input"]["previous"].as_f64());
        agree(&json!({ "raw": factors.raw(), "score": score, "tier": Tier::of(score) }), &case["output"], n);
    }
}

fn cases(model: &str) -> Vec<Value> {
    // Relative to the crate, where tests run: a path compiled in would outlive a move of the checkout.
    let path = "../../testdata/models.json";
    let vectors: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    vectors[model].as_array().unwrap().clone()
}

fn agree(actual: &Value, expected: &Value, n: usize) {
    for (field, expected) in expected.as_object().unwrap() {
        match expected.as_f64() {
            Some(expected) => {
                let actual = actual[field].as_f64().unwrap();
                assert!((actual - expected).abs() <= TOLERANCE, "case {n}, {field}: {actual} ≠ {expected}");
            }
            None => assert_eq!(&actual[field], expected, "case {n}, {field}"),
        }
    }
}
