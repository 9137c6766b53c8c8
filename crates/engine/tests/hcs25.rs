//! The public conformance vectors of HCS-25 and its reference implementation. They are not ours to ship: where the folder
//! is not there, this says so and passes, unless `SHARED_TESTS=required` is set.
#![allow(clippy::unwrap_used, reason = "helpers of tests: a failing unwrap is how a test says no")]

use credence_engine::hcs25::{
    Adapter, AdapterId, Component, ComponentKey, Config, Error, Mode, Profile, Reading, Record, SignalId, SignalRecord,
    Snapshot, Status, Subject, catalogue, evals,
    output_verification::{Parameters, Report, Summary},
};
use credence_protocol::Timestamp;
use credence_testing::shared;
use serde_json::{Value, json};

fn vectors(kind: &str) -> Vec<Value> {
    let Some(text) = shared("vectors/hcs25.json") else { return Vec::new() };
    let all: Value = serde_json::from_str(&text).unwrap();
    let of_kind = |vector: &&Value| vector["kind"] == kind;
    let found: Vec<Value> = all["vectors"].as_array().unwrap().iter().filter(of_kind).cloned().collect();
    assert!(!found.is_empty(), "no vectors of kind {kind}");
    found
}

fn now(config: &Value) -> Timestamp {
    config["now"].as_str().unwrap_or("2026-01-15T00:00:00Z").parse().unwrap()
}

/// `x`, or `{approx, places}`.
fn agrees(actual: Option<f64>, expected: &Value) -> bool {
    let Some(actual) = actual else { return false };
    match expected.as_f64() {
        Some(expected) => actual == expected,
        None => {
            let places = expected["places"].as_i64().unwrap() as i32;
            (actual - expected["approx"].as_f64().unwrap()).abs() < 0.5 * 10_f64.powi(-places)
        }
    }
}

fn meets(record: &Record, expect: &Value, id: &str) {
    let members = |name: &str| expect[name].as_object().into_iter().flatten();
    let adapter = |id: &str| record.breakdown.adapters.iter().find(|adapter| adapter.adapter_id == id).unwrap();
    for (key, expected) in members("scores") {
        assert!(
            agrees(record.trust_scores.get(key).copied(), expected),
            "{id}: {key} {:?} ≠ {expected}",
            record.trust_scores
        );
    }
    for (key, expected) in members("adapterTotal") {
        assert!(agrees(Some(adapter(key).total), expected), "{id}: {key} {} ≠ {expected}", adapter(key).total);
    }
    for (key, expected) in members("applicable") {
        assert_eq!(adapter(key).applicable, expected.as_bool().unwrap(), "{id}: {key}");
    }
    for (key, expected) in members("inDenominator") {
        assert_eq!(adapter(key).in_denominator, expected.as_bool().unwrap(), "{id}: {key}");
    }
    for (key, expected) in members("unavailable") {
        assert_eq!(json!(adapter(key).unavailable), *expected, "{id}: {key}");
    }
    for (key, expected) in members("status") {
        let mut parts = record.breakdown.adapters.iter().flat_map(|adapter| &adapter.components);
        assert_eq!(json!(parts.find(|part| part.key == *key).unwrap().status), *expected, "{id}: {key}");
    }
    for key in expect["absent"].as_array().into_iter().flatten() {
        assert!(!record.trust_scores.contains_key(key.as_str().unwrap()), "{id}: {key}");
    }
    let document = serde_json::to_value(record).unwrap();
    for name in ["trustScoreConfigVersion", "trustScoreUpdatedAt", "trustConfidence"] {
        if !expect[name].is_null() {
            assert_eq!(document[name], expect[name], "{id}: {name}");
        }
    }
}

fn score_subject(vector: &Value, profile: Profile) -> Record {
    let mut adapters = Vec::new();
    for entry in vector["adapters"].as_array().unwrap() {
        let options = entry.get("options");
        match entry["adapter"].as_str().unwrap() {
            "*" => adapters.extend(catalogue::all(profile).unwrap()),
            id => adapters.push(catalogue::adapter(id, options, profile).unwrap()),
        }
    }
    let multiplier = vector["config"]["staleMultiplier"].as_f64().unwrap_or(1.0);
    let mut config = Config::new(1, adapters).unwrap().stale_multiplier(multiplier).unwrap();
    if profile == Profile::Spec {
        config = config.rounding(credence_engine::hcs25::Rounding::none());
    }
    let subject = Subject::from_value(vector["subject"].clone()).unwrap();
    config.score(&subject, &Snapshot::default(), now(&vector["config"])).unwrap()
}

#[test]
fn subjects() {
    for vector in vectors("subject") {
        let id = vector["id"].as_str().unwrap();
        meets(&score_subject(&vector, Profile::Reference), &vector["expect"], id);
        let Some(literal) = vector["specLiteral"].as_object() else { continue };
        let summary = &vector["subject"]["metadata"]["outputVerificationSummary"];
        let Report::Applicable(summary) = Summary::from_value(summary, 10).unwrap() else { panic!("{id}") };
        let spec = serde_json::to_value(Parameters::default().evaluate(&summary, Profile::Spec)).unwrap();
        let record = score_subject(&vector, Profile::Spec);
        for (name, expected) in literal {
            let expected = expected.as_f64().unwrap();
            assert!((spec[name].as_f64().unwrap() - expected).abs() < 1e-6, "{id}: {name} {spec}");
            let key = if name == "total" { "total".to_owned() } else { format!("output-verification.{name}") };
            assert!((record.trust_scores[&key] - expected).abs() < 1e-6, "{id}: {name} {record:?}");
        }
    }
}

fn status(name: &Value) -> Status {
    serde_json::from_value(name.clone()).unwrap()
}

/// A configuration of components with given values.
fn given(config: &Value) -> Result<Config, Error> {
    let mut adapters = Vec::new();
    for entry in config["adapters"].as_array().unwrap() {
        let mut builder = Adapter::builder(entry["id"].as_str().unwrap());
        if let Some(weight) = entry["weight"].as_f64() {
            builder = builder.weight(weight);
        }
        if !entry["contributionMode"].is_null() {
            builder = builder.mode(serde_json::from_value::<Mode>(entry["contributionMode"].clone()).unwrap());
        }
        if let Some(key) = entry["defaultComponentKey"].as_str() {
            builder = builder.default_component_key(key);
        }
        let list = |name: &str| -> Option<Vec<String>> { serde_json::from_value(entry.get(name)?.clone()).ok() };
        if let Some(registries) = list("includeRegistries") {
            builder = builder.include_registries(registries);
        }
        if let Some(registries) = list("excludeRegistries") {
            builder = builder.exclude_registries(registries);
        }
        for part in entry["components"].as_array().unwrap() {
            let reading =
                Reading { value: part["value"].as_f64().unwrap_or(f64::NAN), status: status(&part["status"]) };
            let mut component = Component::new(part["name"].as_str().unwrap(), move |_| Ok(reading));
            if let Some(weight) = part["weight"].as_f64() {
                component = component.weight(weight);
            }
            if part["nonScorableWhenUnavailable"] == true {
                component = component.not_scorable_when_unavailable();
            }
            builder = builder.component(component);
        }
        adapters.push(builder.build()?);
    }
    Config::new(config["version"].as_u64().unwrap_or(1), adapters)?
        .compute_confidence(config["computeConfidence"] == true)
        .stale_multiplier(config["staleMultiplier"].as_f64().unwrap_or(1.0))
}

#[test]
fn engine() {
    for vector in vectors("engine") {
        let config = given(&vector["config"]).unwrap();
        let subject = Subject::from_value(vector["subject"].clone()).unwrap();
        let record = config.score(&subject, &Snapshot::default(), now(&vector["config"])).unwrap();
        meets(&record, &vector["expect"], vector["id"].as_str().unwrap());
    }
}

#[test]
fn configuration_errors() {
    for vector in vectors("config-error") {
        let snapshot = vector.get("snapshot").cloned().unwrap_or_else(|| json!({}));
        let error = given(&vector["config"]).err().or_else(|| Snapshot::from_value(snapshot).err());
        let error = error.unwrap_or_else(|| panic!("{vector}")).to_string();
        let patterns = vector["expect"]["throwsMatching"].as_str().unwrap();
        assert!(patterns.split('|').any(|pattern| error.contains(pattern)), "{patterns}: {error}");
    }
}

#[test]
fn identifiers() {
    for vector in vectors("identifier") {
        let input = vector["input"].as_str().unwrap();
        let valid = match vector["fn"].as_str().unwrap() {
            "adapterId" => AdapterId::parse(input).is_some(),
            "signalId" => SignalId::parse(input).is_some(),
            "componentKey" => ComponentKey::parse(input).is_some(),
            other => panic!("{other}"),
        };
        assert_eq!(valid, vector["expect"]["valid"].as_bool().unwrap(), "{vector}");
    }
}

#[test]
fn schemas() {
    for vector in vectors("schema") {
        let input = vector["input"].clone();
        let valid = match vector["schema"].as_str().unwrap() {
            "outputVerificationSummary" => {
                let typed = Summary::from_value(&input, 0).is_ok();
                assert_eq!(summary_schema().is_valid(&input), typed, "{vector}");
                typed
            }
            "signal" => SignalRecord::from_value(input).is_ok(),
            "snapshot" => Snapshot::from_value(input).is_ok(),
            "subject" => Subject::from_value(input).is_ok(),
            other => panic!("{other}"),
        };
        assert_eq!(valid, vector["expect"]["valid"].as_bool().unwrap(), "{vector}");
    }
}

fn summary_schema() -> jsonschema::Validator {
    let schema: Value = serde_json::from_str(credence_protocol::schemas::OUTPUT_VERIFICATION_SUMMARY).unwrap();
    jsonschema::validator_for(&schema).unwrap()
}

#[test]
fn grades_and_statuses() {
    for vector in vectors("grade") {
        let args = &vector["args"];
        let response = args[0].as_str().unwrap();
        let grade = match vector["fn"].as_str().unwrap() {
            "math" => evals::math(response, args[1].as_f64().unwrap()),
            "science" => {
                let options: Vec<&str> =
                    args[2].as_array().into_iter().flatten().map(|o| o.as_str().unwrap()).collect();
                evals::science(response, args[1].as_str().unwrap().chars().next().unwrap(), &options)
            }
            other => panic!("{other}"),
        };
        assert_eq!(json!({"status": grade, "score": grade.score() as u8}), vector["expect"], "{vector}");
    }
    for vector in vectors("status-map") {
        let mapped = Status::of_token(vector["input"].as_str().unwrap());
        assert_eq!(json!({ "status": mapped }), vector["expect"], "{vector}");
    }
    for vector in vectors("ethos-composite") {
        let sources: Vec<_> = vector["input"]
            .as_array()
            .unwrap()
            .iter()
            .map(|s| (s["weight"].as_f64().unwrap(), s["score"].as_f64()))
            .collect();
        assert_eq!(evals::ethos_composite(&sources), vector["expect"]["score"].as_f64(), "{vector}");
    }
}

/// Every error of the reference's table that a vector does not cover.
#[test]
fn configurations_that_make_no_sense_are_refused() {
    let part = || Component::new("score", |_| Ok(Reading::ok(1.0)));
    let one = || Adapter::builder("a").component(part()).build().unwrap();
    let error = |result: Result<Config, Error>| result.unwrap_err().to_string();
    assert!(error(Config::new(1, Vec::new())).contains("at least one adapter"));
    assert!(error(Config::new(1, vec![one()]).unwrap().stale_multiplier(1.5)).contains("staleMultiplier 1.5"));
    assert!(error(Config::new(1, vec![one()]).unwrap().stale_multiplier(f64::NAN)).contains("staleMultiplier"));
    let build = |builder: credence_engine::hcs25::AdapterBuilder| builder.build().unwrap_err().to_string();
    assert!(build(Adapter::builder("a").component(part().weight(f64::INFINITY))).contains("component 'score': weight"));
    assert!(
        build(Adapter::builder("a").component(Component::new("a b", |_| Ok(Reading::ok(1.0)))))
            .contains("component name")
    );
    assert!(Subject::from_value(json!({"id": ""})).is_err());
    assert!(Subject::from_value(json!({"id": "a", "registry": ""})).is_err());
    assert!(Subject::from_value(json!({"id": "a", "metadata": [1]})).is_err());
}

#[test]
fn summaries_that_cannot_be_are_errors() {
    let base = json!({"allowRate": 0.9, "blockRate": 0.1, "avgConfidence": 0.8, "totalChecks": 100});
    let with = |path: &str, value: Value| {
        let mut summary = base.clone();
        let mut at = &mut summary;
        for name in path.split('.') {
            at = &mut at[name];
        }
        *at = value;
        summary
    };
    for (summary, what) in [
        (with("allowRate", json!(1.5)), "allowRate 1.5 is outside"),
        (with("blockRate", json!(-0.1)), "blockRate -0.1"),
        (with("blockRate", json!(0.2)), "add up to 1.1"),
        (with("uncertainRate", json!(0.1)), "add up to 1.1"),
        (with("totalChecks", json!(-3)), "totalChecks -3 is not a count"),
        (with("totalChecks", json!(10.5)), "totalChecks 10.5"),
        (with("totalChecks", json!("many")), "invalid type"),
        (with("stakeDistribution.low.checks", json!(-5)), "stakeDistribution.low.checks -5"),
        (with("stakeDistribution.high.checks", json!(101)), "101 checks, more than totalChecks 100"),
        (with("stakeDistribution.high.allowRate", json!(0.5)), "missing field `checks`"),
        (with("avgConfidence", Value::Null), "missing field `avgConfidence`"),
        (with("windowDays", json!(-1)), "windowDays -1"),
        (with("updatedAt", json!("yesterday")), "yesterday"),
        (with("canaries", json!({"checks": 5, "caught": 6})), "6 of 5"),
        (with("providers", json!([{"id": "a"}, {"id": "a"}])), "'a' is listed twice"),
        (with("providers", json!([{"id": "a", "checksContributed": 101}])), "101 checks"),
    ] {
        let error = Summary::from_value(&summary, 10).expect_err(&summary.to_string()).to_string();
        assert!(error.contains(what), "{summary}: {error}");
        let bytes = serde_json::to_vec(&summary).unwrap();
        assert!(Summary::parse(&bytes, 10).is_err(), "{summary}");
    }
    // Fewer than ten checks is looked at first.
    let few = json!({"allowRate": 7, "totalChecks": 9, "stakeDistribution": {"low": {"checks": 50}}});
    assert_eq!(Summary::from_value(&few, 10), Ok(Report::TooFew { checks: 9, needed: 10 }));
}

mod rolled_up {
    use super::*;
    use credence_engine::hcs25::output_verification::{CheckedOutput, Rollup, Window};
    use credence_protocol::{Decision, Stake};
    use proptest::prelude::*;

    fn check() -> impl Strategy<Value = (CheckedOutput, Option<bool>)> {
        let decisions = prop::sample::select(Decision::ALL.to_vec());
        let stakes = prop::sample::select(vec![
            None,
            Some(Stake::Low),
            Some(Stake::Medium),
            Some(Stake::High),
            Some(Stake::Critical),
        ]);
        (decisions, stakes, 0.0..=1.0_f64, 0..40 * 86_400_i64, proptest::option::of(any::<bool>())).prop_map(
            |(decision, stake, bad, second, canary)| {
                let at = Timestamp::from_micros(1_700_000_000_000_000 + second * 1_000_000).unwrap();
                (CheckedOutput::new(decision, bad, stake, at), canary)
            },
        )
    }

    proptest! {
        /// Whatever the verdicts, what is published passes the schema and our own checks, and adds up.
        #[test]
        fn summaries_pass_their_schema(checks in proptest::collection::vec(check(), 1..200)) {
            let (schema, mut rollup) = (summary_schema(), Rollup::default());
            for (check, canary) in &checks {
                rollup.add("bot", *check);
                if let Some(caught) = canary {
                    rollup.add_canary("bot", *caught, check.at);
                }
            }
            let end = rollup.newest().unwrap();
            for window in Window::ALL {
                let Some(up) = rollup.summary("bot", window, end) else { continue };
                let document = serde_json::to_value(&up.summary).unwrap();
                prop_assert!(schema.is_valid(&document), "{}", document);
                let Ok(Report::Applicable(again)) = Summary::from_value(&document, 0) else { panic!("{document}") };
                prop_assert_eq!(&again, &up.summary);
                let first = end.plus_seconds(-(window.days() - 1) * 86_400);
                let within = checks.iter().filter(|(check, _)| check.at > first).count() as u64;
                prop_assert!(again.total_checks >= within, "at least the whole days");
                let rates = again.allow_rate + again.block_rate + again.uncertain_rate.unwrap();
                prop_assert!((rates - 1.0).abs() < 1e-9);
                prop_assert!(again.stake_distribution.is_none_or(|stakes| stakes.counts().0 == again.total_checks));
            }
        }

        /// The types and the schema we ship refuse the same documents, but for what only arithmetic can see.
        #[test]
        fn types_and_schema_agree(field in 0..8_usize, value in prop::sample::select(vec![json!(null), json!(-1), json!(0), json!(0.5), json!(1.5),
            json!("x"), json!([]), json!({}), json!({"low": {"checks": 3}}), json!({"low": {"checks": -1}}), json!("2026-01-14T00:00:00Z"), json!(true)])) {
            let fields = ["allowRate", "blockRate", "uncertainRate", "avgConfidence", "totalChecks", "stakeDistribution", "windowDays", "updatedAt"];
            let mut document = json!({"allowRate": 0.4, "blockRate": 0.1, "avgConfidence": 0.8, "totalChecks": 100});
            document[fields[field]] = value;
            let typed = Summary::from_value(&document, 0);
            let schema = summary_schema().is_valid(&document);
            match typed {
                Err(Error::RatesExceedOne { .. } | Error::PartsExceedTotal { .. }) => {}
                // No count, no summary: the schema says it is required.
                Ok(Report::None) => prop_assert!(!schema),
                other => prop_assert_eq!(other.is_ok(), schema, "{}", document),
            }
        }
    }
}
