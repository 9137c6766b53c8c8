//! `testdata/uts2.json`: values of the assured score computed independently of this code.
#![allow(clippy::unwrap_used, reason = "helpers of tests: a failing unwrap is how a test says no")]

use credence_engine::assured::{Dimension, Measurement, Model, Scratch, Signal};
use credence_engine::voices::Voices;
use serde_json::Value;

const TOLERANCE: f64 = 1e-9;

fn vectors() -> Value {
    // Relative to the crate, where tests run: a path compiled in would outlive a move of the checkout.
    serde_json::from_slice(&std::fs::read("../../testdata/uts2.json").unwrap()).unwrap()
}

fn signals(input: &Value) -> Vec<Signal<'_>> {
    let signal = |s| {
        let s: &Value = s;
        let number = |name: &str| s[name].as_f64().unwrap();
        let (value, stddev, weight, age_days) =
            (number("value"), number("stddev"), number("weight"), number("age_days"));
        let (source, tag) = (s["source"].as_str().unwrap(), s["tag"].as_str().unwrap());
        Signal { source, owner: s["owner"].as_str(), roots: &[], tag, value, stddev, weight, age_days }
    };
    input.as_array().unwrap().iter().map(signal).collect()
}

fn close(actual: f64, expected: &Value, what: &str) {
    let expected = expected.as_f64().unwrap();
    assert!((actual - expected).abs() <= TOLERANCE, "{what}: {actual} ≠ {expected}");
}

#[test]
fn vectors_hold_with_every_intermediate_number() {
    let model = Model::standard().unwrap();
    let vectors = vectors();
    let cases = vectors["vectors"].as_array().unwrap();
    assert!(cases.len() >= 20);
    let mut scratch = Scratch::default();
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let expected = &case["output"];
        let signals = signals(&case["input"]);
        let speakers: Vec<_> = signals.iter().map(Signal::speaker).collect();
        let voices = Voices::of(&speakers);
        let measurements: Vec<_> = signals
            .iter()
            .enumerate()
            .filter_map(|(n, s)| {
                let Signal { value, stddev, weight, age_days, .. } = *s;
                Some(Measurement { tag: model.tag(s.tag)?, voice: voices.voice(n)?, value, stddev, weight, age_days })
            })
            .collect();
        let numbers = model.numbers(&measurements, &mut scratch).unwrap();
        for (dimension, values) in Dimension::ALL.into_iter().zip(numbers.dimensions) {
            let expected = &expected["dimensions"][dimension.name()];
            assert_eq!(expected.is_object(), values.is_some(), "{name}: {dimension}");
            let Some(n) = values else { continue };
            let fields = [
                ("x", n.measured),
                ("mean", n.mean),
                ("worst", n.worst),
                ("facets", n.facets),
                ("nu", n.nu),
                ("n_eff", n.n_eff),
                ("tau", n.tau),
                ("vx", n.variance),
                ("Z", n.known),
                ("theta", n.estimate),
                ("sd", n.sd),
            ];
            for (field, value) in fields {
                close(value, &expected[field], &format!("{name}: {dimension}.{field}"));
            }
        }
        let scored = model.score(&signals).unwrap();
        for (field, value) in [
            ("score", f64::from(scored.score)),
            ("estimate", scored.estimate),
            ("sd", scored.sd),
            ("low", scored.low),
            ("high", scored.high),
            ("cap", scored.cap),
            ("known", scored.known),
            ("n_eff", scored.n_eff),
        ] {
            close(value, &expected[field], &format!("{name}: {field}"));
        }
        assert_eq!(serde_json::to_value(scored.tier).unwrap(), expected["tier"], "{name}");
        assert_eq!(serde_json::to_value(scored.status).unwrap(), expected["status"], "{name}");
        let sum = scored.steps.iter().fold(0.0, |sum, step| sum + step.value);
        assert_eq!(sum, f64::from(scored.score), "{name}: the steps add up exactly");
        let text = serde_json::to_string(&scored).unwrap();
        assert_eq!(serde_json::from_str::<credence_engine::assured::Assured>(&text).unwrap(), scored);
    }
}

/// The example of `docs/score.md`, line by line.
#[test]
fn the_documented_example_adds_up() {
    let vectors = vectors();
    let atlas = vectors["vectors"].as_array().unwrap().iter().find(|case| case["name"] == "demo atlas-travel").unwrap();
    let scored = Model::standard().unwrap().score(&signals(&atlas["input"])).unwrap();
    let mut lines = String::new();
    for step in &scored.steps {
        let sign = if step.value < 0.0 { '-' } else { '+' };
        match step.name.as_str() {
            "prior" => lines += &format!("{:.1} prior\n", step.value),
            name => lines += &format!("{sign} {:4.1} {name}\n", step.value.abs()),
        }
        if step.name == "adoption" {
            lines += &format!("= {:.1} estimate\n", scored.estimate);
        }
    }
    lines += &format!("= {}\n", scored.score);
    let text = std::fs::read_to_string("../../docs/score.md").unwrap();
    assert!(text.contains(&lines), "docs/score.md does not say:\n{lines}");
}
